// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of random programs on CLOCK_REALTIME. It runs the programs of combination.h
 * while it sets the wall clock forward and backward, and corrects the clock after each
 * case. Do not run it on a machine that is in use.
 *
 * Three threads use the same timeouts, each with its own program. The callbacks carry out a
 * fourth program. If there are several CPUs, each thread has its own, and one CPU goes
 * offline and online all the time. At the end the wheel is stopped; in half of the cases
 * the threads are still running then.
 *
 * Each player has a lock. The code holds it around each call that does not wait, and when a
 * callback begins. So the model knows which results are allowed, and how many armings are
 * open. Each arming ends exactly once: in a callback, a cancel, or a hand-back. The model
 * does not know whether a due timeout has already been taken out of the wheel. It then
 * accepts two results. -EAGAIN is wrong if there were places during the whole call.
 *
 * A callback is early if the clock has been behind the deadline since the last callback in the
 * same task, or for GRACE: the wheel has checked the clock in between. The clock may have been
 * set back just before the call, so a shorter time proves nothing. A callback is late if the
 * clock has been past the deadline for PATIENCE. Both times are far longer than a slow machine
 * needs, and far shorter than most steps of the clock.
 *
 * Where the clock is simulated, the combination suite knows all that the threads here make
 * uncertain. These threads remain for what needs several CPUs.
 *
 * Programs that fail are shrunk: threads and operations are removed as long as one of a few
 * runs still fails. The suite prints the remaining operations, and the seed.
 */
#include <linux/cpu.h>
#include <linux/debug_locks.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "combination.h"
#include "shrink.h"
#include "suite.h"
#include "wall.h"

static unsigned int steps = 1000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per thread and case");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Seed of the first programs (0: random)");

#define NR_ACTORS	3
#define INSIDE_PROGRAM	NR_ACTORS
#define NR_PROGRAMS	(NR_ACTORS + 1)
#define NR_STEPS	1024
#define NR_ENDS		64

/* A failing case depends on the order of threads: shrinking runs each candidate so often. */
#define SHRINK_REPEATS	3
#define SHRINK_TIME	(60 * HZ)
/* A virtual CPU may stand still for seconds between reading the clock and the callback. */
#define GRACE		((IS_ENABLED(CONFIG_UML) ? 1 : 5) * (u64)NSEC_PER_SEC)
#define PATIENCE	(20 * (u64)NSEC_PER_SEC)
#define SHRINK_PATIENCE	(2 * (u64)NSEC_PER_SEC)
#define DAY		(86400 * (s64)NSEC_PER_SEC)

/**
 * struct party - a player
 * @p: the timeout
 * @m: the model
 * @lock: held around each call that does not wait, and at the begin of a callback
 * @kind: its kind
 * @worker: a worker runs its callback
 * @waited: a task waits in cancel_sync or shutdown for it, so nobody arms it
 * @shutdown: twheel_shutdown() was called, so it refuses to be armed
 * @ended: it has had its last period: only twheel_arm_periodic() can arm it
 * @open: armings that have not ended. A periodic player has 1 until it is cancelled or has
 *	had its last period
 * @life: number of times that the timeout has been initialised
 * @inside: running callbacks of this life
 * @deadline: deadline of the latest arming
 * @late: the callback must begin before this time
 * @earliest: earliest deadline of the open armings
 * @interval: interval of a periodic player
 * @left: periods to come
 * @due_since: monotonic time since which the clock has been past @late, or 0
 */
struct party {
	struct twheel_periodic	p;
	struct world		*m;
	spinlock_t		lock;		/* all but @m */
	enum twheel_kind	kind;
	bool			worker, waited, shutdown, ended;
	u32			open, life, inside;
	u64			deadline, late, earliest, interval;
	u32			left;
	u64			due_since;
};

/**
 * struct call - a running callback
 * @p: its player
 * @life: @life of the player when the callback began. If they differ now, the timeout has
 *	been initialised again, and the wheel no longer waits for this callback
 * @worker: a worker runs it, so it may sleep
 */
struct call {
	struct party	*p;
	u32		life;
	bool		worker;
};

/**
 * struct actor - a thread that runs a program
 * @m: the model
 * @task: the task
 * @cpu: the CPU that it runs on
 * @pc: number of operations that it has begun
 * @done: completed at the end of the program
 */
struct actor {
	struct world		*m;
	struct task_struct	*task;
	unsigned int		cpu;
	u32			pc;
	struct completion	done;
};

/**
 * struct end - the end of the latest callback in a task
 * @task: the task
 * @at: monotonic time; 0: not known
 */
struct end {
	const struct task_struct	*task;
	u64				at;
};

/**
 * struct world - the model, and everything that uses it
 * @programs: the programs of the threads, and that of the callbacks
 * @patience: time in ns that a callback may be late
 * @lockdep: lockdep was enabled when the case began
 * @wheel: the wheel
 * @base: wall clock when the case began; the programs stay within years of it
 * @step: serialises the steps of the clock
 * @steps_lock: protects @nr_steps, @left_at and @left_wall
 * @nr_steps: number of steps
 * @left_at: monotonic time of each of the last steps
 * @left_wall: wall clock right before each of these steps; U64_MAX: not known yet
 * @to: the time that @stepping sets the clock to
 * @stepping: sets the clock on behalf of callbacks, which must not block
 * @ends: ends of callbacks, by hash of the task. Those with the same hash share an entry
 * @ends_lock: protects @ends
 * @inside_pc: index of the next operation of the callbacks
 * @stopped: twheel_stop() has been called
 * @over: twheel_stop() has returned
 * @enough: tells the threads to end
 * @armed: number of armings
 * @calls: number of callbacks, and of timeouts passed to the sink
 * @places_lock: protects @open, @arming and @closings
 * @open: number of armings that have not ended, of all players
 * @arming: number of calls that may be about to open an arming
 * @closings: number of armings that have ended
 * @fault: the first disagreement, or NULL
 * @about: index of the player of @fault
 * @got: result of the wheel
 * @want: result of the model
 * @actors: the threads
 * @players: the timeouts
 */
struct world {
	struct program		*programs[NR_PROGRAMS];
	u64			patience;
	bool			lockdep;

	struct twheel		*wheel;
	u64			base;
	struct mutex		step;		/* the wall clock */
	spinlock_t		steps_lock;	/* nr_steps, left_at, left_wall */
	u32			nr_steps;
	u64			left_at[NR_STEPS], left_wall[NR_STEPS];
	u64			to;
	struct work_struct	stepping;
	spinlock_t		ends_lock;	/* ends */
	struct end		ends[NR_ENDS];
	atomic_t		inside_pc;
	bool			stopped, over, enough;
	atomic64_t		armed, calls;
	spinlock_t		places_lock;	/* open, arming, closings */
	u32			open, arming, closings;
	const char		*fault;
	int			about;
	u64			got, want;
	struct actor		actors[NR_ACTORS];
	struct party		players[NR_PLAYERS];
};

static void disagree(struct world *m, const struct party *p, const char *what, u64 got,
		     u64 want)
{
	if (cmpxchg(&m->fault, NULL, what))
		return;
	m->about = p - m->players;
	m->got = got;
	m->want = want;
}

static void compare(struct world *m, const struct party *p, const char *what, u64 got, u64 want)
{
	if (got != want)
		disagree(m, p, what, got, want);
}

/* The wall clock */

/* Wall clock minus monotonic clock, which cannot be stepped. */
static s64 right_offset;

/* The program of the callbacks. It also decides on the features of the wheel. */
static const struct program *inner_program(const struct world *m)
{
	return m->programs[INSIDE_PROGRAM];
}

/*
 * The time that the clock reaches before the step is known only after the step, because the
 * clock runs on until it is set. Until then, any deadline may have been reached.
 */
static void step_wall(struct world *m, u64 to)
{
	u64 at, before;
	u32 i;

	guard(mutex)(&m->step);
	scoped_guard(spinlock, &m->steps_lock) {
		i = m->nr_steps++ % NR_STEPS;
		m->left_at[i] = ktime_get_ns();
		m->left_wall[i] = U64_MAX;
	}
	at = ktime_get_ns();
	before = wall();
	set_wall(to);
	guard(spinlock)(&m->steps_lock);
	m->left_at[i] = ktime_get_ns();
	m->left_wall[i] = before + m->left_at[i] - at;
}

static void step_work(struct work_struct *work)
{
	struct world *m = container_of(work, struct world, stepping);

	step_wall(m, READ_ONCE(m->to));
}

static struct end *end_of(struct world *m)
{
	return &m->ends[hash_ptr(current, ilog2(NR_ENDS))];
}

/* The callback, or the call of the sink, ends. */
static void note_end(struct world *m)
{
	guard(spinlock)(&m->ends_lock);
	*end_of(m) = (struct end){ .task = current, .at = ktime_get_ns(), };
}

static u64 last_end(struct world *m)
{
	guard(spinlock)(&m->ends_lock);
	return end_of(m)->task == current ? end_of(m)->at : 0;
}

/*
 * Was the clock at @deadline or later when the wheel checked it last? It did so within the last
 * GRACE, and after the end of the last callback in this task.
 */
static bool was_due(struct world *m, u64 deadline)
{
	u64 now = ktime_get_ns(), from = max(now - min(now, GRACE), last_end(m));
	u32 i;

	if (wall() >= deadline)
		return true;
	guard(spinlock)(&m->steps_lock);
	for (i = 0; i < min_t(u32, m->nr_steps, NR_STEPS); i++)
		if (m->left_at[i] > from && m->left_wall[i] >= deadline)
			return true;
	/* The history is full and does not reach back to @from: assume so. */
	return m->nr_steps > NR_STEPS && m->left_at[m->nr_steps % NR_STEPS] > from;
}

static u64 from_now(s64 delta)
{
	u64 now = wall();

	if (delta == INVALID)
		return CLOCK_END + 1;
	if (delta < 0)
		return now - min(now, (u64)-delta);
	return (u64)delta > CLOCK_END - now ? CLOCK_END : now + delta;
}

/* The model's half; the player's lock is held */

/*
 * Set the time by which @p must be called. It includes one tick of rounding, and another
 * tick for a clock that is stepped back and forth.
 */
static void expect(struct party *p, u64 deadline, u64 slack)
{
	u64 slop = min(slack, CLOCK_END / 4) + 2 * inner_program(p->m)->geometry->tick_ns;

	p->deadline = deadline;
	p->late = min(deadline, CLOCK_END - slop) + slop;
	p->due_since = 0;
}

static void opened(struct party *p, u64 deadline, u64 slack)
{
	p->earliest = p->open ? min(p->earliest, deadline) : deadline;
	expect(p, deadline, slack);
	p->open++;
	scoped_guard(spinlock, &p->m->places_lock)
		p->m->open++;
	compare(p->m, p, "armings open", p->open <= 2, true);
	atomic64_inc(&p->m->armed);
}

/* If one arming remains open, it is the latest. */
static void closed(struct party *p, const char *how)
{
	if (!p->open) {
		disagree(p->m, p, how, 0, 1);
		return;
	}
	p->open--;
	scoped_guard(spinlock, &p->m->places_lock) {
		p->m->open--;
		p->m->closings++;
	}
	p->earliest = p->deadline;
	p->due_since = 0;
}

/*
 * Places under max_pending. The wheel takes a place after begin_arming() and before opened(). It
 * gives it back before closed(). So it never has more places taken than armings are open or may
 * be about to open.
 */

/* Returns a number for may_be_full(). */
static u32 begin_arming(struct world *m)
{
	guard(spinlock)(&m->places_lock);
	m->arming++;
	return m->closings;
}

static void end_arming(struct world *m)
{
	guard(spinlock)(&m->places_lock);
	m->arming--;
}

/*
 * May all places have been taken at a time since begin_arming() has returned @closings? If no
 * arming has ended meanwhile, all of them must be taken now.
 */
static bool may_be_full(struct world *m, u32 closings)
{
	u32 limit = inner_program(m)->limit;

	guard(spinlock)(&m->places_lock);
	return limit && (m->closings != closings || m->open + m->arming - 1 >= limit);
}

static bool may_be_refused(const struct party *p, int ret, u64 deadline, u64 slack,
			   u32 closings)
{
	switch (ret) {
	case -EBUSY:
		return p->open;
	case -EINVAL:
		/* @left: it may be about to run its last callback. */
		return deadline > CLOCK_END || slack > CLOCK_END || p->ended || p->left;
	case -EAGAIN:
		return may_be_full(p->m, closings);
	case -ESHUTDOWN:
		return p->shutdown || READ_ONCE(p->m->stopped);
	}
	return false;
}

static bool must_be_refused(const struct party *p, u64 deadline, u64 slack)
{
	return deadline > CLOCK_END || slack > CLOCK_END || p->shutdown ||
	       READ_ONCE(p->m->over);
}

/* Returns true if @ret says that @p has been armed. */
static bool check_arm(struct party *p, const char *what, int ret, u64 deadline, u64 slack,
		      u32 closings)
{
	if (ret < 0) {
		compare(p->m, p, what,
			may_be_refused(p, ret, deadline, slack, closings) ? 0 : ret, 0);
		return false;
	}
	compare(p->m, p, what, must_be_refused(p, deadline, slack) ? ret : -EINVAL, -EINVAL);
	return true;
}

/* Operations on one player; the caller holds its lock */

static void do_arm(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), slack = op->deed == ARM_SLACK ? op->extra : 0;
	u32 closings;
	int ret;

	if (p->kind != TWHEEL_ONCE)
		return;
	closings = begin_arming(p->m);
	ret = twheel_arm_slack(&p->p.t, deadline, slack);
	if (check_arm(p, "arm", ret, deadline, slack, closings))
		opened(p, deadline, slack);
	end_arming(p->m);
}

static void do_arm_periodic(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), interval = max(op->extra, 50ULL * NSEC_PER_USEC);
	u32 closings = begin_arming(p->m);
	bool ended = p->ended;
	int ret;

	p->ended = false;
	ret = twheel_arm_periodic(&p->p, deadline, interval, op->repeat);
	/* -EBUSY: it may be just before or just after its callback. */
	if (ret == -EBUSY || !check_arm(p, "arm_periodic", ret, deadline, 0, closings)) {
		p->ended = ended;
	} else {
		compare(p->m, p, "armed while open", p->open, 0);
		p->interval = interval;
		p->left = op->repeat;
		opened(p, deadline, 0);
	}
	end_arming(p->m);
}

static void do_mod(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), slack = op->deed == MOD_SLACK ? op->extra : 0;
	u32 open = p->open, closings;
	int ret;

	/* A periodic player that is open is either moved, or enqueued now instead of later. */
	if (p->kind != TWHEEL_ONCE && !open)
		return;
	closings = begin_arming(p->m);
	ret = twheel_mod_slack(&p->p.t, deadline, slack);
	if (check_arm(p, "mod", ret, deadline, slack, closings)) {
		if (ret == 1 || p->kind != TWHEEL_ONCE)
			closed(p, "moved, open");
		opened(p, deadline, slack);
		if (open > 1)
			p->earliest = 0;
	}
	end_arming(p->m);
}

static void account_cancel(struct party *p, const char *what, bool cancelled)
{
	if (cancelled)
		closed(p, what);
}

static void do_cancel(struct party *p)
{
	account_cancel(p, "cancel", twheel_cancel(&p->p.t));
}

static void do_try_cancel(struct party *p)
{
	int ret = twheel_try_cancel(&p->p.t);

	/* -EBUSY: it may be just before or just after its callback. */
	account_cancel(p, "try_cancel", ret > 0);
}

static void do_query(struct party *p)
{
	if (p->open)
		return;
	compare(p->m, p, "remaining_ns", twheel_remaining_ns(&p->p.t), 0);
	compare(p->m, p, "pending", twheel_pending(&p->p.t), false);
}

static void once_fires(struct twheel_timeout *t);
static void period_fires(struct twheel_periodic *p);

static void init_player(struct world *m, struct party *p, u32 what)
{
	p->kind = TWHEEL_ONCE;
	p->worker = false;
	p->shutdown = false;
	p->ended = false;
	if (inner_program(m)->sink) {
		twheel_timeout_init(m->wheel, &p->p.t, NULL);
		return;
	}
	if (what >= 4)
		p->kind = what >= 6 ? TWHEEL_FIXED_DELAY : TWHEEL_FIXED_RATE;
	p->ended = p->kind != TWHEEL_ONCE;
	if (p->kind == TWHEEL_ONCE)
		twheel_timeout_init(m->wheel, &p->p.t, once_fires);
	else
		twheel_periodic_init(m->wheel, &p->p, period_fires, p->kind);
	p->worker = what & 1;
	if (p->worker)
		twheel_use_workqueue(&p->p.t);
}

/* Reuse the memory of a timeout that is in its callback and nowhere else. */
static void do_reinit(struct party *p, const struct operation *op)
{
	if (p->open || p->inside != 1 || p->waited || inner_program(p->m)->sink)
		return;
	if (p->kind != TWHEEL_ONCE)
		return;
	init_player(p->m, p, op->repeat % 4);
	p->life++;
	p->inside = 0;
}

static void operate_locked(struct party *p, const struct operation *op, bool inside)
{
	switch (op->deed) {
	case ARM ... ARM_AFTER:
		do_arm(p, op);
		break;
	case ARM_PERIODIC:
		if (p->kind != TWHEEL_ONCE)
			do_arm_periodic(p, op);
		break;
	case MOD ... MOD_SLACK:
		do_mod(p, op);
		break;
	case CANCEL ... CANCEL_LIST:
		do_cancel(p);
		break;
	case TRY_CANCEL:
		do_try_cancel(p);
		break;
	case REINIT:
		if (inside)
			do_reinit(p, op);
		break;
	default:
		do_query(p);
	}
}

/* Operations that wait */

static void cancel_and_wait(struct party *p, enum deed deed)
{
	bool cancelled;

	scoped_guard(spinlock, &p->lock) {
		if (p->waited)
			return;
		p->waited = true;
		p->shutdown |= deed == SHUTDOWN;
	}
	cancelled = deed == SHUTDOWN ? twheel_shutdown(&p->p.t) : twheel_cancel_sync(&p->p.t);
	guard(spinlock)(&p->lock);
	p->waited = false;
	account_cancel(p, "cancel_sync", cancelled);
	compare(p->m, p, "callback after cancel_sync", p->inside, 0);
	compare(p->m, p, "open after cancel_sync", p->open, 0);
	compare(p->m, p, "pending after cancel_sync", twheel_pending(&p->p.t), false);
}

/* Operations */

static u64 wall_after(struct world *m, const struct operation *op)
{
	s64 delta = clamp(op->delta, -100 * DAY, 100 * DAY);

	return clamp(from_now(delta), m->base - 300 * DAY, m->base + 3000 * DAY);
}

static void operate(struct world *m, struct party *p, const struct operation *op, bool inside)
{
	switch (op->deed) {
	case ADVANCE ... ADVANCE_TO_NEXT:
	case SET_CLOCK:
		WRITE_ONCE(m->to, wall_after(m, op));
		if (inside)
			schedule_work(&m->stepping);
		else
			step_wall(m, wall_after(m, op));
		return;
	case CANCEL_SYNC ... SHUTDOWN:
		if (!inside)
			cancel_and_wait(p, op->deed);
		return;
	case FLUSH:
		if (!inside)
			twheel_flush(m->wheel);
		return;
	case RELEASE:
	case OTHER_WHEEL:
	case STOP:
		if (!inside)
			usleep_range(100, 2000);
		return;
	}
	guard(spinlock)(&p->lock);
	if (!p->waited)
		operate_locked(p, op, inside);
}

/* The next operation of the callbacks. They begin again at the end of their program. */
static const struct operation *next_inside(struct world *m)
{
	const struct program *p = inner_program(m);

	return p->nr ? &p->list[(u32)atomic_inc_return(&m->inside_pc) % p->nr] : NULL;
}

static void operate_inside(struct world *m, struct party *self)
{
	const struct operation *op;
	struct party *p = self;

	op = m->fault ? NULL : next_inside(m);
	if (!op)
		return;
	if (op->who != SELF || !p)
		p = &m->players[op->who % NR_PLAYERS];
	operate(m, p, op, true);
}

/* Callbacks */

static struct call begin_call(struct party *p)
{
	lockdep_assert_held(&p->lock);
	p->inside++;
	atomic64_inc(&p->m->calls);
	compare(p->m, p, "called after stop", p->m->over, false);
	return (struct call){ .p = p, .life = p->life, .worker = p->worker, };
}

static void end_call(const struct call *c)
{
	note_end(c->p->m);
	guard(spinlock)(&c->p->lock);
	c->p->inside -= c->life == c->p->life;
}

static void work(const struct call *c)
{
	struct world *m = c->p->m;

	operate_inside(m, c->p);
	if (c->worker && !(atomic_read(&m->inside_pc) % 16))
		usleep_range(1000, 30000);
}

static struct call begin_once(struct party *p)
{
	guard(spinlock)(&p->lock);
	if (!was_due(p->m, p->earliest))
		disagree(p->m, p, "called early, at", wall(), p->earliest);
	closed(p, "called, open");
	return begin_call(p);
}

static void once_fires(struct twheel_timeout *t)
{
	struct call c = begin_once(container_of(t, struct party, p.t));

	work(&c);
	end_call(&c);
}

/*
 * The engine sets these members for the call, and does not write them until the callback
 * ends.
 */
static struct call begin_period(struct party *p)
{
	guard(spinlock)(&p->lock);
	if (!was_due(p->m, p->p.expires))
		disagree(p->m, p, "called early for", wall(), p->p.expires);
	if (p->left) {
		compare(p->m, p, "periods", p->p.missed < p->left, true);
		p->left -= p->p.missed + 1;
		compare(p->m, p, "repeat", p->p.repeat, p->left);
		if (!p->left) {
			p->ended = true;
			/* It may have been cancelled since it was taken out. */
			if (p->open)
				closed(p, "last period, open");
		}
	}
	compare(p->m, p, "ended", twheel_periodic_ended(&p->p), p->ended);
	if (p->kind == TWHEEL_FIXED_DELAY)
		compare(p->m, p, "missed", p->p.missed, 0);
	/* Every later arming sets a deadline of its own. */
	expect(p, CLOCK_END, 0);
	p->earliest = 0;
	return begin_call(p);
}

static void period_fires(struct twheel_periodic *p)
{
	struct call c = begin_period(container_of(p, struct party, p));

	work(&c);
	end_call(&c);
}

static bool extend(struct world *m, struct party *p)
{
	const struct operation *op = next_inside(m);
	u64 deadline;

	if (!op || op->deed != EXTEND)
		return false;
	deadline = from_now(op->delta);
	guard(spinlock)(&p->lock);
	if (twheel_extend(&p->p.t, deadline, op->extra)) {
		compare(m, p, "extend", deadline > CLOCK_END || p->shutdown || m->stopped, true);
		return false;
	}
	expect(p, deadline, op->extra);
	p->earliest = deadline;
	return true;
}

static void accept(struct party *p)
{
	guard(spinlock)(&p->lock);
	atomic64_inc(&p->m->calls);
	if (!was_due(p->m, p->earliest))
		disagree(p->m, p, "in a batch early, at", wall(), p->earliest);
	twheel_accept(&p->p.t);
	closed(p, "in a batch, open");
}

static void sink(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;
	struct world *m = sink_data;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct party *p = container_of(t, struct party, p.t);

		list_del_init(&t->entry);
		if (!extend(m, p))
			accept(p);
		operate_inside(m, NULL);
		nr--;
	}
	compare(m, m->players, "timeouts of a batch", nr, 0);
	note_end(m);
}

static void handed_back(void *data, struct twheel_timeout *t)
{
	struct party *p = container_of(t, struct party, p.t);

	guard(spinlock)(&p->lock);
	compare(p->m, p, "handed back, inside", p->inside && p->kind != TWHEEL_ONCE, false);
	closed(p, "handed back, open");
}

/* Threads */

static int act(void *data)
{
	struct actor *a = data;
	struct world *m = a->m;
	const struct program *program = m->programs[a - m->actors];

	migrate_to(a->cpu);
	while (a->pc < program->nr && !READ_ONCE(m->enough) && !m->fault) {
		const struct operation *op = &program->list[a->pc++];

		operate(m, &m->players[op->who % NR_PLAYERS], op, false);
		if (a->pc % 4 == 0)
			usleep_range(20, 200);
	}
	complete(&a->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* CPU 0 stays online; the last CPU goes offline and comes back. */
static void cycle_cpu(void)
{
	unsigned int cpu = cpumask_last(cpu_present_mask);

	if (num_present_cpus() > 1 && set_online(cpu, false)) {
		msleep(20);
		set_online(cpu, true);
	}
}

/* A timeout is late if it has been due for longer than @patience. */
static void look_for_the_late(struct world *m)
{
	u64 now = ktime_get_ns();
	struct party *p;

	for (p = m->players; p < m->players + NR_PLAYERS; p++) {
		guard(spinlock)(&p->lock);
		if (!p->open || p->late > wall() || p->inside || p->waited)
			p->due_since = 0;
		else if (!p->due_since)
			p->due_since = now;
		else if (now - p->due_since > m->patience)
			disagree(m, p, "late, ns", now - p->due_since, 0);
	}
}

static bool all_have_been_called(struct world *m)
{
	u64 now = wall();
	struct party *p;

	for (p = m->players; p < m->players + NR_PLAYERS; p++) {
		guard(spinlock)(&p->lock);
		if (p->kind == TWHEEL_ONCE && p->open && p->late <= now)
			return false;
	}
	return true;
}

static bool actors_are_done(struct world *m)
{
	u32 i;

	for (i = 0; i < NR_ACTORS; i++)
		if (!completion_done(&m->actors[i].done))
			return false;
	return true;
}

/*
 * twheel_stats() reads the counters shard by shard. A timeout that moves between two shards
 * meanwhile may count twice, so a single sum above the limit proves nothing.
 */
static void check_stats(struct world *m)
{
	struct twheel_counters s;
	u32 i;

	for (i = 0; i < 10; i++) {
		twheel_stats(m->wheel, &s);
		if (!inner_program(m)->limit || s.pending <= inner_program(m)->limit)
			return;
	}
	disagree(m, m->players, "pending, above the limit", s.pending, inner_program(m)->limit);
}

static void watch(struct world *m)
{
	const struct program *first = m->programs[0];

	while (!actors_are_done(m) && !m->fault) {
		check_stats(m);
		look_for_the_late(m);
		cycle_cpu();
		msleep(20);
		/* With half of the programs, stop while the threads are running. */
		if (first->seed & 1 && atomic64_read(&m->armed) > first->nr / 2)
			return;
	}
	/*
	 * At the end the clock only goes forward, and everything that can become due does. A
	 * deadline in the past waits for the next tick, so the clock must pass its latest time.
	 */
	step_wall(m, max(wall(), m->base + 2000 * DAY));
	while (!m->fault && !all_have_been_called(m)) {
		look_for_the_late(m);
		msleep(20);
		step_wall(m, wall() + 3 * inner_program(m)->geometry->tick_ns);
	}
}

static void end_wheel(struct world *m)
{
	struct twheel_counters s;
	struct party *p;

	WRITE_ONCE(m->stopped, true);
	twheel_stop(m->wheel, handed_back, m);
	WRITE_ONCE(m->over, true);
	WRITE_ONCE(m->enough, true);
	twheel_stats(m->wheel, &s);
	compare(m, m->players, "pending after stop", s.pending, 0);
	compare(m, m->players, "account", s.armed, s.cancelled + s.fired + s.stopped);
	for (p = m->players; p < m->players + NR_PLAYERS && !m->fault; p++) {
		guard(spinlock)(&p->lock);
		if (!p->waited)
			compare(m, p, "open after stop", p->open, 0);
		compare(m, p, "inside after stop", p->inside, 0);
	}
}

static void begin_actors(struct world *m)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);
	u32 i;

	for (i = 0; i < NR_ACTORS; i++) {
		struct actor *a = &m->actors[i];

		a->m = m;
		a->cpu = cpu;
		init_completion(&a->done);
		a->task = kthread_run(act, a, "kunit-actor/%u", i);
		if (IS_ERR(a->task))
			complete(&a->done);
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
}

static void end_actors(struct world *m)
{
	u32 i;

	for (i = 0; i < NR_ACTORS; i++)
		if (!IS_ERR_OR_NULL(m->actors[i].task))
			kthread_stop(m->actors[i].task);
	flush_work(&m->stepping);
}

/* The wheels */

static const struct geometry geometries[] = {
	{ "4 levels of 256 slots", { 256, 4 }, NSEC_PER_MSEC },
	{ "1 level of 2 slots", { 2, 1 }, NSEC_PER_MSEC },
	{ "1 level of 65536 slots", { 65536, 1 }, 50000 },
	{ "8 levels of 4 slots", { 4, 8 }, 333333 },
	{ "3 levels of 16 slots, tick 1 s", { 16, 3 }, NSEC_PER_SEC },
	{ "3 levels of 8 slots, tick 1 day", { 8, 3 }, 86400 * NSEC_PER_SEC },
};

static void geometry_desc(const struct geometry *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(geometry, geometries, geometry_desc);

static int make_wheel(struct world *m)
{
	const struct geometry *g = inner_program(m)->geometry;
	struct twheel_params params = {
		.name = "kunit-combination",
		.clock = TWHEEL_REALTIME,
		.tick_ns = g->tick_ns,
		.slots = g->shape.slots,
		.levels = g->shape.levels,
		.sink = inner_program(m)->sink ? sink : NULL,
		.sink_data = m,
		.max_pending = inner_program(m)->limit,
	};
	u32 i;

	m->wheel = twheel_create(&params);
	if (IS_ERR(m->wheel))
		return PTR_ERR(m->wheel);
	for (i = 0; i < NR_PLAYERS; i++) {
		m->players[i].m = m;
		spin_lock_init(&m->players[i].lock);
		init_player(m, &m->players[i], i % 8);
	}
	return 0;
}

/* One run */

static void reset(struct world *m)
{
	memset((void *)m + offsetof(struct world, wheel), 0,
	       sizeof(*m) - offsetof(struct world, wheel));
	mutex_init(&m->step);
	spin_lock_init(&m->steps_lock);
	spin_lock_init(&m->ends_lock);
	spin_lock_init(&m->places_lock);
	INIT_WORK(&m->stepping, step_work);
	m->base = wall();
}

/* Returns true if wheel and model agree. */
static bool run_programs(struct world *m)
{
	reset(m);
	if (make_wheel(m)) {
		m->fault = "no wheel";
		m->wheel = NULL;
		return false;
	}
	begin_actors(m);
	watch(m);
	end_wheel(m);
	end_actors(m);
	if (!m->fault)
		compare(m, m->players, "audit", twheel_audit(m->wheel), 0);
	twheel_destroy(m->wheel);
	m->wheel = NULL;
	set_wall(ktime_get_ns() + right_offset);
	compare(m, m->players, "lockdep has a report", m->lockdep && !debug_locks, false);
	return !m->fault;
}

/* Shrinking */

/**
 * struct shrinking - the search for shorter programs that fail
 * @m: the model
 * @fault: the fault
 * @end: end of the search, in jiffies
 */
struct shrinking {
	struct world	*m;
	const char	*fault;
	unsigned long	end;
};

static bool fails_again(void *data)
{
	struct shrinking *s = data;
	u32 i;

	for (i = 0; i < SHRINK_REPEATS && time_before(jiffies, s->end); i++)
		if (!run_programs(s->m) && s->m->fault == s->fault)
			return true;
	return false;
}

/* Leave out the operations after the fault, if the programs still fail then. */
static void cut_ends(struct world *m, struct shrinking *s)
{
	u32 nr[NR_PROGRAMS], i;

	for (i = 0; i < NR_PROGRAMS; i++) {
		u32 done = i == INSIDE_PROGRAM ? atomic_read(&m->inside_pc) + 1 : m->actors[i].pc;

		nr[i] = m->programs[i]->nr;
		m->programs[i]->nr = min(nr[i], done);
	}
	if (fails_again(s))
		return;
	for (i = 0; i < NR_PROGRAMS; i++)
		m->programs[i]->nr = nr[i];
}

/* Leave the shortest failing programs found in m->programs. A thread may lose all of its own. */
static void shrink(struct world *m)
{
	struct shrinking s = { .m = m, .fault = m->fault, .end = jiffies + SHRINK_TIME };

	/* Lockdep reports once, so programs that it found cannot be shrunk. */
	if (m->lockdep && !debug_locks)
		return;
	m->patience = SHRINK_PATIENCE;
	cut_ends(m, &s);
	shrink_programs(m->programs, NR_PROGRAMS, fails_again, &s);
}

static void report(struct kunit *test, struct world *m, u64 program_seed)
{
	const char *fault = m->fault;
	int about = m->about;
	u64 got = m->got, want = m->want;
	u32 i;

	kunit_info(test, "seed=%llu: player %d: %s: %lld, not %lld: shrinking\n", program_seed,
		   about, fault, (s64)got, (s64)want);
	shrink(m);
	for (i = 0; i < NR_PROGRAMS; i++) {
		kunit_info(test, "%s %u:\n", i == INSIDE_PROGRAM ? "callbacks" : "thread", i);
		print_program(test, m->programs[i]);
	}
	KUNIT_FAIL(test, "seed=%llu: player %d: %s: %lld, not %lld", program_seed, about, fault,
		   (s64)got, (s64)want);
}

/* The cases */

static void write_programs(struct world *m, const struct geometry *g, u64 program_seed,
			   bool with_sink)
{
	u32 nr = min_t(u32, steps, PROGRAM_MAX), i;

	for (i = 0; i < NR_ACTORS; i++)
		write_program(m->programs[i], g, program_seed + i, nr, true);
	do {
		write_program(m->programs[INSIDE_PROGRAM], g, program_seed + i++, PROGRAM_MAX,
			      true);
	} while (inner_program(m)->sink != with_sink);
}

static void programs_agree_with_the_model(struct kunit *test, bool with_sink)
{
	u64 program_seed = seed ?: get_random_u64(), armed = 0, calls = 0, changes = 0;
	struct world *m = test->priv;
	u32 done;

	kunit_info(test, "seed=%llu steps=%u\n", program_seed, steps);
	m->patience = PATIENCE;
	m->lockdep = debug_locks;
	for (done = 0; done < steps; done += PROGRAM_MAX) {
		write_programs(m, test->param_value, program_seed, with_sink);
		if (!run_programs(m)) {
			report(test, m, program_seed);
			return;
		}
		armed += atomic64_read(&m->armed);
		calls += atomic64_read(&m->calls);
		changes += m->nr_steps;
		program_seed++;
	}
	kunit_info(test, "%llu arms, %llu calls, %llu steps of the clock\n", armed, calls,
		   changes);
}

static void programs_with_callbacks_agree_with_the_model(struct kunit *test)
{
	programs_agree_with_the_model(test, false);
}

static void programs_with_a_sink_agree_with_the_model(struct kunit *test)
{
	programs_agree_with_the_model(test, true);
}

static struct kunit_case realtime_cases[] = {
	KUNIT_CASE_PARAM(programs_with_callbacks_agree_with_the_model, geometry_gen_params),
	KUNIT_CASE_PARAM(programs_with_a_sink_agree_with_the_model, geometry_gen_params),
	{}
};

static int realtime_init(struct kunit *test)
{
	struct world *m = vzalloc(sizeof(*m));
	u32 i;

	if (!m)
		return -ENOMEM;
	test->priv = m;
	right_offset = wall() - ktime_get_ns();
	for (i = 0; i < NR_PROGRAMS; i++) {
		m->programs[i] = vzalloc(sizeof(*m->programs[i]));
		if (!m->programs[i])
			return -ENOMEM;
	}
	return set_cpus_allowed_ptr(current, cpumask_of(cpumask_first(cpu_online_mask)));
}

static void realtime_exit(struct kunit *test)
{
	struct world *m = test->priv;
	u32 i;

	if (!m)
		return;
	set_wall(ktime_get_ns() + right_offset);
	for (i = 0; i < NR_PROGRAMS; i++)
		vfree(m->programs[i]);
	vfree(m);
}

static struct kunit_suite realtime_suite = {
	.name = "twheel-combination-realtime",
	.init = realtime_init,
	.exit = realtime_exit,
	.test_cases = realtime_cases,
};

module_test_suite(realtime_suite);

MODULE_DESCRIPTION("KUnit suite of random programs on a timing wheel, on the wall clock");
MODULE_LICENSE("GPL");
