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
 * accepts two results.
 *
 * A callback is early if the clock is behind the deadline and has been behind it for GRACE.
 * The clock may have been set back just before the call, so a shorter time proves nothing.
 * A callback is late if the clock has been past the deadline for PATIENCE. Both times are
 * far longer than a slow machine needs, and far shorter than most steps of the clock.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
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
#include "suite.h"

static unsigned int steps = 1000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per thread and case");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Seed of all programs (0: random)");

#define NR_ACTORS	3
#define NR_STEPS	1024
/* A virtual CPU may stand still for seconds between reading the clock and the callback. */
#define GRACE		((IS_ENABLED(CONFIG_UML) ? 1 : 5) * (u64)NSEC_PER_SEC)
#define PATIENCE	(20 * (u64)NSEC_PER_SEC)
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
 * @done: completed at the end of the program
 * @program: the program
 */
struct actor {
	struct world		*m;
	struct task_struct	*task;
	unsigned int		cpu;
	struct completion	done;
	struct program		*program;
};

/**
 * struct world - the model, and everything that uses it
 * @wheel: the wheel
 * @base: wall clock when the case began; the programs stay within years of it
 * @step: serialises the steps of the clock
 * @steps_lock: protects @nr_steps, @left_at and @left_wall
 * @nr_steps: number of steps
 * @left_at: monotonic time of each of the last steps
 * @left_wall: wall clock right before each of these steps; U64_MAX: not known yet
 * @to: the time that @stepping sets the clock to
 * @stepping: sets the clock on behalf of callbacks, which must not block
 * @inside: program of the callbacks
 * @inside_pc: index of the next operation of @inside
 * @stopped: twheel_stop() has been called
 * @over: twheel_stop() has returned
 * @enough: tells the threads to end
 * @armed: number of armings
 * @calls: number of callbacks, and of timeouts passed to the sink
 * @fault: the first disagreement, or NULL
 * @about: index of the player of @fault
 * @got: result of the wheel
 * @want: result of the model
 * @actors: the threads
 * @players: the timeouts
 */
struct world {
	struct twheel		*wheel;
	u64			base;
	struct mutex		step;		/* the wall clock */
	spinlock_t		steps_lock;	/* nr_steps, left_at, left_wall */
	u32			nr_steps;
	u64			left_at[NR_STEPS], left_wall[NR_STEPS];
	u64			to;
	struct work_struct	stepping;
	struct program		*inside;
	atomic_t		inside_pc;
	bool			stopped, over, enough;
	atomic64_t		armed, calls;
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

static u64 wall(void)
{
	return ktime_get_real_ns();
}

static void set_wall(u64 ns)
{
	struct timespec64 ts = ns_to_timespec64(ns);

	do_settimeofday64(&ts);
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

/* Returns true if the clock was at @deadline or later within the last GRACE. */
static bool was_due(struct world *m, u64 deadline)
{
	u64 now = ktime_get_ns(), from = now - min(now, GRACE);
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
	u64 slop = min(slack, CLOCK_END / 4) + 2 * p->m->inside->geometry->tick_ns;

	p->deadline = deadline;
	p->late = min(deadline, CLOCK_END - slop) + slop;
	p->due_since = 0;
}

static void opened(struct party *p, u64 deadline, u64 slack)
{
	p->earliest = p->open ? min(p->earliest, deadline) : deadline;
	expect(p, deadline, slack);
	p->open++;
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
	p->earliest = p->deadline;
	p->due_since = 0;
}

static bool may_be_refused(const struct party *p, int ret, u64 deadline, u64 slack)
{
	switch (ret) {
	case -EBUSY:
		return p->open;
	case -EINVAL:
		/* @left: it may be about to run its last callback. */
		return deadline > CLOCK_END || slack > CLOCK_END || p->ended || p->left;
	case -EAGAIN:
		return p->m->inside->limit;
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
static bool check_arm(struct party *p, const char *what, int ret, u64 deadline, u64 slack)
{
	if (ret < 0) {
		compare(p->m, p, what, may_be_refused(p, ret, deadline, slack) ? 0 : ret, 0);
		return false;
	}
	compare(p->m, p, what, must_be_refused(p, deadline, slack) ? ret : -EINVAL, -EINVAL);
	return true;
}

/* Operations on one player; the caller holds its lock */

static void do_arm(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), slack = op->deed == ARM_SLACK ? op->extra : 0;
	int ret;

	if (p->kind != TWHEEL_ONCE)
		return;
	ret = twheel_arm_slack(&p->p.t, deadline, slack);
	if (check_arm(p, "arm", ret, deadline, slack))
		opened(p, deadline, slack);
}

static void do_arm_periodic(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), interval = max(op->extra, 50ULL * NSEC_PER_USEC);
	bool ended = p->ended;
	int ret;

	if (p->kind == TWHEEL_ONCE)
		return;
	p->ended = false;
	ret = twheel_arm_periodic(&p->p, deadline, interval, op->repeat);
	/* -EBUSY: it may be just before or just after its callback. */
	if (ret == -EBUSY || !check_arm(p, "arm_periodic", ret, deadline, 0)) {
		p->ended = ended;
		return;
	}
	compare(p->m, p, "armed while open", p->open, 0);
	p->interval = interval;
	p->left = op->repeat;
	opened(p, deadline, 0);
}

static void do_mod(struct party *p, const struct operation *op)
{
	u64 deadline = from_now(op->delta), slack = op->deed == MOD_SLACK ? op->extra : 0;
	u32 open = p->open;
	int ret;

	/* A periodic player that is open is either moved, or enqueued now instead of later. */
	if (p->kind != TWHEEL_ONCE && !open)
		return;
	ret = twheel_mod_slack(&p->p.t, deadline, slack);
	if (!check_arm(p, "mod", ret, deadline, slack))
		return;
	if (ret == 1 || p->kind != TWHEEL_ONCE)
		closed(p, "moved, open");
	opened(p, deadline, slack);
	if (open > 1)
		p->earliest = 0;
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
	if (m->inside->sink) {
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
	if (p->open || p->inside != 1 || p->waited || p->m->inside->sink)
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

static void operate_inside(struct world *m, struct party *self)
{
	const struct operation *op;
	struct party *p = self;

	if (m->fault || !m->inside->nr)
		return;
	op = &m->inside->list[(u32)atomic_inc_return(&m->inside_pc) % m->inside->nr];
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
	const struct operation *op;
	u64 deadline;

	op = &m->inside->list[(u32)atomic_inc_return(&m->inside_pc) % m->inside->nr];
	deadline = from_now(op->delta);
	if (op->deed != EXTEND)
		return false;
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
	closed(p, "in a batch, open");
	twheel_accept(&p->p.t);
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
	u32 i;

	migrate_to(a->cpu);
	for (i = 0; i < steps && !READ_ONCE(m->enough) && !m->fault; i++) {
		const struct operation *op = &a->program->list[i % a->program->nr];

		operate(m, &m->players[op->who % NR_PLAYERS], op, false);
		if (i % 4 == 0)
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
#ifdef CONFIG_HOTPLUG_CPU
	unsigned int cpu = cpumask_last(cpu_present_mask);

	if (num_present_cpus() > 1 && !remove_cpu(cpu)) {
		msleep(20);
		add_cpu(cpu);
	}
#endif
}

/* A timeout is late if it has been due for longer than PATIENCE. */
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
		else if (now - p->due_since > PATIENCE)
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
		if (!m->inside->limit || s.pending <= m->inside->limit)
			return;
	}
	disagree(m, m->players, "pending, above the limit", s.pending, m->inside->limit);
}

static void watch(struct world *m)
{
	while (!actors_are_done(m) && !m->fault) {
		check_stats(m);
		look_for_the_late(m);
		cycle_cpu();
		msleep(20);
		/* In half of the cases, stop while the threads are running. */
		if (m->base & 1 && atomic64_read(&m->armed) > steps / 2)
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
		step_wall(m, wall() + 3 * m->inside->geometry->tick_ns);
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

/* The cases */

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
	const struct geometry *g = m->inside->geometry;
	struct twheel_params params = {
		.name = "kunit-combination",
		.clock = TWHEEL_REALTIME,
		.tick_ns = g->tick_ns,
		.slots = g->shape.slots,
		.levels = g->shape.levels,
		.sink = m->inside->sink ? sink : NULL,
		.sink_data = m,
		.max_pending = m->inside->limit,
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

static void programs_agree_with_the_model(struct kunit *test, bool with_sink)
{
	struct world *m = test->priv;
	u64 base = seed ?: get_random_u64();
	u32 i;

	kunit_info(test, "seed=%llu steps=%u\n", base, steps);
	for (i = 0; i < NR_ACTORS; i++)
		write_program(m->actors[i].program, test->param_value, base + i, PROGRAM_MAX, true);
	/* The last program decides on the features of the wheel. */
	do {
		write_program(m->inside, test->param_value, base + i++, PROGRAM_MAX, true);
	} while (m->inside->sink != with_sink);
	KUNIT_ASSERT_EQ(test, 0, make_wheel(m));
	begin_actors(m);
	watch(m);
	end_wheel(m);
	end_actors(m);
	if (m->fault)
		KUNIT_FAIL(test, "seed=%llu: player %d: %s: %lld, not %lld", base, m->about,
			   m->fault, (s64)m->got, (s64)m->want);
	KUNIT_EXPECT_EQ(test, 0, m->fault ? 0 : twheel_audit(m->wheel));
	kunit_info(test, "%lld arms, %lld calls, %u steps of the clock\n",
		   atomic64_read(&m->armed), atomic64_read(&m->calls), m->nr_steps);
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
	m->base = wall();
	mutex_init(&m->step);
	spin_lock_init(&m->steps_lock);
	INIT_WORK(&m->stepping, step_work);
	m->inside = vzalloc(sizeof(*m->inside));
	if (!m->inside)
		return -ENOMEM;
	for (i = 0; i < NR_ACTORS; i++) {
		m->actors[i].program = vzalloc(sizeof(*m->inside));
		if (!m->actors[i].program)
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
	twheel_destroy(m->wheel);
	set_wall(ktime_get_ns() + right_offset);
	for (i = 0; i < NR_ACTORS; i++)
		vfree(m->actors[i].program);
	vfree(m->inside);
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
