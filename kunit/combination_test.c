// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that combines all features of a wheel: random programs, compared with a model
 * that predicts every result.
 *
 * The programs are described in combination.h. The wheel is on the MANUAL clock, or on REALTIME
 * where the clock is simulated. Either the kernel has one CPU and no preemption, or the program
 * uses no workers. So only one thread acts at a time, it yields the CPU only in known places,
 * and a run can be repeated. Each actor updates the model right next to its call of the wheel:
 *
 *	the test		operations from outside; in twheel_advance(), the
 *				callbacks of the thread and the sink
 *	the thread		REALTIME: the callbacks and the sink, while the test sleeps
 *	a worker		the beginning of its callback. Then it waits at a gate for
 *				operations to carry out, or for its release
 *	the waiter		calls that wait for a callback at a gate: cancel_sync,
 *				shutdown, flush and stop. The test goes on meanwhile
 *
 * Where there are several CPUs, the wheel has a shard for each. The test then moves from CPU
 * to CPU, takes CPUs offline, and brings them back. The model knows the shard of each
 * timeout. An advance visits the shards one after the other. So a callback may arm a timeout
 * in a shard that has not seen the new time yet. Which CPU serves a shard is of no importance
 * here, because the test advances the wheel. combination_realtime_test.c combines that.
 *
 * After an advance or a release, the test waits until the workers have begun all callbacks
 * that they must begin. From then on, up to four callbacks wait at gates. If there are
 * four, further timeouts that are due for workers stay handed over.
 *
 * The model is exact about the following. It predicts the result of each call; if there are
 * several reasons to refuse, it accepts any of them. It predicts the time of each callback
 * and the counts that a periodic timeout reports. It predicts the places under max_pending,
 * the counters, and the timeouts that a stop hands back. In the thread of a shard and since
 * the last backward step, it also predicts the order: ascending by tick, first in first out
 * within a tick.
 *
 * A timeout has a window of ticks, lo to hi. A call before lo is early. It is late if it
 * has not been called at the end of an advance during which the clock was never before hi.
 * In most cases lo equals hi: the deadline rounded up to a tick, or the tick after the
 * current one if that is later. The window is wider
 *
 *  - after an arm with slack, until twheel_position() tells the tick that the wheel chose
 *  - after a backward step, until an advance has ended: the wheel places pending timeouts
 *    again when it notices the step, and it may not notice a step that is undone. hi is
 *    then the tick after the new time, if that is later than hi was; lo is the deadline
 *    without slack
 *  - for timeouts armed between a step and the turn that notices it
 *  - on several CPUs, for timeouts armed in an advance
 *
 * On REALTIME the test really sets the clock, also in callbacks, or lets it run. The simulated
 * clock stands still while any task can run, so the model knows the time of each call to the
 * nanosecond. A call before its deadline is early, with no tolerance. It is late by more
 * than SLOP after the monotonic time at which the clock reached hi. Steps of the clock change
 * that time, as the comments of come_closer() and go_away() explain. A worker must begin a call
 * as soon as it is due and one of the four workers is free.
 *
 * A failing program is shrunk: operations are removed as long as it still fails. The suite
 * prints the remaining operations, and the seed. To play one program again, in each
 * geometry:
 *
 *	insmod twheel_combination_kunit.ko seed=SEED steps=1
 */
#include <linux/completion.h>
#include <linux/debug_locks.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "combination.h"
#include "shrink.h"
#include "suite.h"
#include "wall.h"

static unsigned int steps = 20000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per case");

static unsigned int rounds = 1;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "Number of times that each case is run");

static unsigned int length = 400;
module_param(length, uint, 0444);
MODULE_PARM_DESC(length, "Operations per program");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Seed of the first program (0: random)");

static bool once;
module_param(once, bool, 0444);
MODULE_PARM_DESC(once, "Stop at the first program that fails, and do not shrink it (N)");

#define NR_WORKERS	4
#define SHRINK_RUNS	1000

/* Maximum time for something that must happen; shorter while a known fault is shrunk. */
#define PATIENCE	(30 * HZ)

/*
 * The simulated clock runs for at most this long in an advance, and in all advances of a program.
 * It is set where it would have to run longer.
 */
#define NAP		(50 * (u64)NSEC_PER_MSEC)
#define NAPS		(NSEC_PER_SEC / 2)

/*
 * The simulated clock event device needs up to 757 ns from the time that a timer is due: it takes
 * at least 500 ns, and the clock has a granularity of 256 ns. A call may need several of them:
 * after a step of the clock, before a rebase and after it. A new seed for random numbers takes
 * another 1024 ns: that is when a worker is made, about once a minute.
 */
#define SLOP		4000

/* The range of times that the wall clock is set to. It cannot be set before the boot. */
#define WALL_MIN	(86400 * (u64)NSEC_PER_SEC)
#define WALL_MAX	((TIME_SETTOD_SEC_MAX - 1) * (u64)NSEC_PER_SEC)

/* Where an operation is carried out. */
enum context {
	FROM_TEST,
	FROM_CALLBACK,
	FROM_WORKER,
	FROM_STOP,
	NR_CONTEXTS,
};

struct model;

/**
 * struct call - a callback in progress
 * @player: its player; NULL if the timeout has been initialised again
 */
struct call {
	struct player	*player;
};

/**
 * struct gate - where a worker's callback waits
 * @call: the callback
 * @go: completed when @op is set, or to release the callback
 * @op: operation to carry out; NULL: release
 */
struct gate {
	struct call		call;
	struct completion	go;
	const struct operation	*op;
};

/**
 * struct player - a timeout and its state in the model
 * @p: the timeout; unless it is periodic, @p.t alone is used
 * @m: the model
 * @kind: its kind
 * @worker: a worker runs its callback
 * @pending: it must be pending
 * @handed: it must also have been handed over to the workers
 * @taken: it is in the batch of a sink
 * @again: fixed delay: it will be enqueued when its callback ends
 * @ended: it has had its last period
 * @shutdown: it refuses to be armed
 * @ending: its callback was released while it was pending again, so the wheel may not have
 *	noticed the end of the callback
 * @waited: the waiter is in twheel_cancel_sync() for it
 * @call: its running callback, or NULL
 * @home: CPU of its shard
 * @expires: deadline
 * @interval: interval of a periodic player
 * @left: periods to come; 0: no end
 * @lo: earliest tick that it may fire at
 * @hi: latest tick
 * @end: the later of the ticks of its deadline and of its slack; REALTIME
 * @by: monotonic time at which it must be called, if a worker is free; REALTIME
 * @guard: @by without the forward steps that the wheel need not have noticed; REALTIME
 * @order: number of the arming, in ascending order
 * @epoch: epoch of the arming; each backward step begins a new one
 */
struct player {
	struct twheel_periodic	p;
	struct model		*m;
	enum twheel_kind	kind;
	bool			worker, pending, handed, taken, again, ended, shutdown;
	bool			ending, waited;
	struct call		*call;
	u32			home;
	u64			expires, interval;
	u32			left;
	u32			epoch;
	u64			lo, hi, end, by, guard, order;
};

/**
 * struct waiter - a thread for calls that wait
 * @task: the thread
 * @go: completed to make it call
 * @done: completed when the call has returned
 * @deed: the call: cancel_sync, shutdown, flush or stop
 * @player: its argument, or NULL
 * @begun: the thread has taken @deed
 * @busy: the test has not noticed the end of the call yet
 * @result: result of the call
 * @want: result of the model
 */
struct waiter {
	struct task_struct	*task;
	struct completion	go, done;
	enum deed		deed;
	struct player		*player;
	bool			begun, busy, result, want;
};

/**
 * struct model - the wheel as it must be
 * @program: the program that runs
 * @wheel: the wheel
 * @right: wall clock minus monotonic clock when the case began
 * @prod: timer that does nothing
 * @pc: index of the next operation
 * @skipped: callbacks that have been let pass before operation @pc
 * @deaf: callbacks carry out no operations
 * @advancing: the test is in twheel_advance()
 * @stopped: twheel_stop() has been called
 * @over: twheel_stop() has returned
 * @now: time of the wheel
 * @mono: monotonic time when @now was read; REALTIME
 * @napped: time for which the clock has run in advances; REALTIME
 * @forward: @mono at the last forward step; REALTIME
 * @crowded: @mono when one of four busy workers left its callback; REALTIME
 * @low: lowest tick since the advance began
 * @visited: in an advance, the shards up to that of this CPU have read the clock
 * @clo: each shard has last seen the clock at a tick from @clo to @chi
 * @chi: upper end of this range
 * @stepped: the clock was set since the advance began
 * @unseen: the clock was set back, and the wheel may not have noticed or may not have
 *	placed all timeouts again
 * @epoch: number of backward steps
 * @order: number of armings
 * @nr: pending players, as in struct twheel_counters
 * @armed: as in struct twheel_counters
 *
 * @rearmed: as in struct twheel_counters
 * @cancelled: as in struct twheel_counters
 *
 * @fired: as in struct twheel_counters
 * @extended: as in struct twheel_counters
 *
 * @handed_back: @stopped of struct twheel_counters
 * @kept: places under max_pending held by players that are not pending
 * @map: bitmap of the pending players
 * @gates: running callbacks of workers
 * @begun: completed when a worker has reached its gate
 * @answered: completed when a worker has carried out its operation
 * @left: completed when a worker leaves its callback
 * @waiter: the thread for calls that wait
 * @patience: maximum time to wait for something that must happen, in jiffies
 * @operations: number of operations carried out
 * @calls: number of expiries
 * @latest: longest time, in ns, that a call was late; REALTIME
 * @met: number of operations by deed and context
 * @lockdep: lockdep was enabled when the case began
 * @fault: the first disagreement, or NULL
 * @at: index of the operation of @fault
 * @about: index of the player of @fault, or -1
 * @got: result of the wheel
 * @want: result of the model
 * @array: argument of the calls with lists
 * @deadlines: argument of the calls with lists
 * @chosen: players whose cancel must succeed; NULL for the others
 * @players: the timeouts
 */
struct model {
	struct program		*program;
	struct twheel		*wheel;
	u64			right;
	struct hrtimer		prod;
	u32			pc, skipped;
	bool			deaf, advancing, stopped, over, stepped, unseen;
	u64			now, mono, napped, forward, crowded, low, clo, chi;
	int			visited;
	u32			epoch;
	u64			order;
	u64			nr, armed, rearmed, cancelled, fired, extended, handed_back;
	u32			kept;
	DECLARE_BITMAP(map, NR_PLAYERS);
	struct gate		*gates[NR_WORKERS];
	struct completion	begun, answered, left;
	struct waiter		waiter;
	unsigned long		patience;
	u64			operations, calls, latest;
	u32			met[NR_DEEDS][NR_CONTEXTS];
	bool			lockdep;
	const char		*fault;
	u32			at;
	int			about;
	u64			got, want;
	struct twheel_timeout	*array[NR_PLAYERS];
	u64			deadlines[NR_PLAYERS];
	struct player		*chosen[NR_PLAYERS];
	struct player		players[NR_PLAYERS];
};

static void compare(struct model *m, const struct player *p, const char *what, u64 got,
		    u64 want)
{
	if (likely(got == want) || m->fault)
		return;
	m->fault = what;
	m->at = m->pc - 1;
	m->about = p ? p - m->players : -1;
	m->got = got;
	m->want = want;
}

static void compare_range(struct model *m, const struct player *p, const char *what, u64 got,
			  u64 lo, u64 hi)
{
	if (got < lo)
		compare(m, p, what, got, lo);
	else if (got > hi)
		compare(m, p, what, got, hi);
}

/* Time */

static u64 floor_tick(const struct model *m, u64 ns)
{
	return div64_u64(ns, m->program->geometry->tick_ns);
}

static u64 ceil_tick(const struct model *m, u64 ns)
{
	u64 tick = floor_tick(m, ns);

	return tick * m->program->geometry->tick_ns < ns ? tick + 1 : tick;
}

static u64 sum_ns(u64 a, u64 b)
{
	return a > CLOCK_END - min(b, CLOCK_END) ? CLOCK_END : a + b;
}

/* Read the clock, if it may have moved by itself. */
static void refresh(struct model *m)
{
	if (!clock_is_simulated())
		return;
	m->now = wall();
	m->mono = monotonic();
}

/* The scheduler would not choose another task while the clock stands still. */
static void give_way(struct model *m)
{
	if (clock_is_simulated())
		sleep_ns(1);
	else
		schedule();
	refresh(m);
}

/*
 * Sleep until the thread has nothing to do. If a callback has been called at the end of a sleep,
 * the thread may still be busy with it. Do not return where a tick begins: then the thread may be
 * about to run.
 */
static void rest(struct model *m)
{
	u64 tick_ns = m->program->geometry->tick_ns, calls, since;

	if (!clock_is_simulated())
		return;
	do {
		calls = m->calls;
		sleep_ns(NSEC_PER_USEC);
		refresh(m);
		since = ref_mod(m->now, tick_ns);
	} while (!m->fault && (m->calls != calls || since < SLOP || tick_ns - since < SLOP));
}

/* The monotonic time at which @tick begins, if the clock is not set meanwhile. */
static u64 due_time(const struct model *m, u64 tick)
{
	u64 ns = min(tick * m->program->geometry->tick_ns, CLOCK_END);

	return m->mono + (ns > m->now ? ns - m->now : 0);
}

/* The time @delta ns from now, clamped to the range of the clock. */
static u64 time_at(const struct model *m, s64 delta)
{
	if (delta < 0)
		return m->now - min(m->now, (u64)-delta);
	return sum_ns(m->now, delta);
}

static u64 deadline(const struct model *m, const struct operation *op)
{
	return op->delta == INVALID ? CLOCK_END + 1 : time_at(m, op->delta);
}

/* Pending players */

/* The pending player after @p; if @p is NULL, the first one. */
static struct player *next_pending(struct model *m, const struct player *p)
{
	u32 i = find_next_bit(m->map, NR_PLAYERS, p ? p - m->players + 1 : 0);

	return i < NR_PLAYERS ? &m->players[i] : NULL;
}

/*
 * Compare the position of @p, and narrow its window to the tick that the wheel has chosen.
 * Returns false if @p is in no slot.
 */
static bool narrow(struct model *m, struct player *p)
{
	struct twheel_position pos;

	if (!twheel_position(&p->p.t, &pos))
		return false;
	compare_range(m, p, "tick", pos.tick, p->lo, p->hi);
	compare(m, p, "CPU", pos.cpu, p->home);
	/* The shard may still choose an earlier tick when it notices a step. */
	if (m->unseen && (clock_is_simulated() || m->program->cpus > 1)) {
		p->lo = min(p->lo, ceil_tick(m, p->expires));
		return true;
	}
	p->lo = pos.tick;
	p->hi = pos.tick;
	p->by = min(p->by, due_time(m, pos.tick));
	return true;
}

/* Does the wheel call @p in a later tick than its deadline asks for? */
static bool is_for_the_past(const struct player *p)
{
	return p->hi > p->end;
}

static void insert(struct model *m, struct player *p, u64 expires, u64 slack)
{
	u64 tick = ceil_tick(m, expires);
	bool sure = m->advancing && !m->stepped && (int)p->home <= m->visited;

	if (p->again) {
		p->again = false;
		m->kept--;
	}
	/* On REALTIME, the wheel notices a step at each arm. */
	if (clock_is_simulated())
		m->chi = floor_tick(m, m->now);
	p->expires = expires;
	p->end = max(tick, floor_tick(m, sum_ns(expires, slack)));
	p->lo = max(tick, (sure ? m->low : m->clo) + 1);
	p->hi = max(p->end, (sure ? m->low : m->chi) + 1);
	p->by = due_time(m, p->hi);
	/* A step forward may have left the hrtimer less than a tick late. */
	p->guard = is_for_the_past(p) ? m->mono + m->program->geometry->tick_ns : p->by;
	p->order = m->order++;
	p->epoch = m->epoch;
	p->pending = true;
	__set_bit(p - m->players, m->map);
	m->nr++;
}

/*
 * Insert a player that the wheel has enqueued and counted as armed. While its callback runs, it
 * keeps its home.
 */
static void insert_armed(struct model *m, struct player *p, u64 expires, u64 slack)
{
	struct twheel_position pos;

	if (!p->call)
		p->home = raw_smp_processor_id();
	insert(m, p, expires, slack);
	m->armed++;
	/* In a slot right after an arm on REALTIME: no rebase is in progress or to come. */
	if (clock_is_simulated() && twheel_position(&p->p.t, &pos))
		m->unseen = false;
	if (p->lo != p->hi || m->program->cpus > 1)
		narrow(m, p);
}

static void take_out(struct model *m, struct player *p)
{
	p->pending = false;
	p->handed = false;
	__clear_bit(p - m->players, m->map);
	m->nr--;
}

static bool model_cancel(struct model *m, struct player *p)
{
	if (p->again) {
		p->again = false;
		m->kept--;
		return true;
	}
	if (!p->pending)
		return false;
	take_out(m, p);
	m->cancelled++;
	return true;
}

/*
 * The clock is set to @tick, which is before the time that the wheel has seen. The wheel
 * places pending timeouts again if @certain; otherwise it may do so.
 */
static void rebase(struct model *m, u64 tick, bool certain)
{
	struct player *p;

	m->epoch++;
	for (p = next_pending(m, NULL); p; p = next_pending(m, p)) {
		if (certain && !p->handed) {
			p->hi = max(ceil_tick(m, p->expires), tick + 1);
			p->lo = p->hi;
			continue;
		}
		p->lo = ceil_tick(m, p->expires);
		p->hi = max(p->hi, tick + 1);
		p->handed = false;
	}
}

/*
 * The wheel may have noticed a step that the model does not know of. It then placed the
 * timeouts armed before that again, so lo is the deadline without slack.
 */
static void widen(struct model *m)
{
	struct player *p;

	m->epoch++;
	for (p = next_pending(m, NULL); p; p = next_pending(m, p))
		p->lo = min(p->lo, ceil_tick(m, p->expires));
}

/* Refusals */

#define REFUSE_INVALID	BIT(0)
#define REFUSE_BUSY	BIT(1)
#define REFUSE_PLACE	BIT(2)
#define REFUSE_SHUTDOWN	BIT(3)

static bool full(const struct model *m)
{
	return m->program->limit && m->nr + m->kept >= m->program->limit;
}

/* The reasons to refuse an arm of @p, which is not pending. */
static u32 refusals(const struct model *m, const struct player *p, u64 expires, u64 slack)
{
	u32 why = 0;

	if (expires > CLOCK_END || slack > CLOCK_END)
		why |= REFUSE_INVALID;
	if (p->shutdown || m->stopped)
		why |= REFUSE_SHUTDOWN;
	if (p->taken)
		why |= REFUSE_BUSY;
	if (!p->pending && !p->again && !p->taken && full(m))
		why |= REFUSE_PLACE;
	return why;
}

/* The reasons to refuse an arm of @p other than twheel_arm_periodic(). */
static u32 refusals_to_go_on(const struct model *m, const struct player *p, u64 expires,
			     u64 slack)
{
	u32 why = refusals(m, p, expires, slack);

	return p->ended ? why | REFUSE_INVALID : why;
}

/* Compare @ret, the result of an arm. Returns true if the arm was refused. */
static bool refused(struct model *m, struct player *p, const char *what, int ret, u32 why,
		    int success)
{
	u32 reason = ret == -EINVAL ? REFUSE_INVALID : ret == -EBUSY ? REFUSE_BUSY :
		     ret == -EAGAIN ? REFUSE_PLACE : ret == -ESHUTDOWN ? REFUSE_SHUTDOWN : 0;

	if (!why)
		compare(m, p, what, ret, success);
	else if (!(reason & why))
		compare(m, p, what, ret, why & REFUSE_INVALID ? -EINVAL :
			why & REFUSE_SHUTDOWN ? -ESHUTDOWN :
			why & REFUSE_BUSY ? -EBUSY : -EAGAIN);
	return why || m->fault;
}

/* Operations on one timeout */

static void do_arm(struct model *m, struct player *p, const struct operation *op)
{
	u64 expires = deadline(m, op), slack = op->deed == ARM_SLACK ? op->extra : 0;
	u32 why;
	int ret;

	if (op->deed == ARM_AFTER)
		expires = op->delta == INVALID ? CLOCK_END + 1 : sum_ns(m->now, abs(op->delta));
	why = refusals_to_go_on(m, p, expires, slack);
	if (p->pending)
		why |= REFUSE_BUSY;
	if (op->deed == ARM_AFTER && clock_is_simulated())
		why |= REFUSE_INVALID;
	if (op->deed == ARM_AFTER)
		ret = twheel_arm_after(&p->p.t, op->delta == INVALID ? INVALID : abs(op->delta));
	else if (op->deed == ARM_SLACK)
		ret = twheel_arm_slack(&p->p.t, expires, slack);
	else
		ret = twheel_arm(&p->p.t, expires);
	if (!refused(m, p, "arm", ret, why, 0))
		insert_armed(m, p, expires, slack);
}

static void do_arm_periodic(struct model *m, struct player *p, const struct operation *op)
{
	u64 expires = deadline(m, op);
	u32 why = refusals(m, p, expires, 0);

	if (!op->extra)
		why |= REFUSE_INVALID;
	if (p->pending || p->call)
		why |= REFUSE_BUSY;
	if (refused(m, p, "arm_periodic",
		    twheel_arm_periodic(&p->p, expires, op->extra, op->repeat), why, 0))
		return;
	p->interval = op->extra;
	p->left = op->repeat;
	p->ended = false;
	insert_armed(m, p, expires, 0);
}

static void do_mod(struct model *m, struct player *p, const struct operation *op)
{
	u64 expires = deadline(m, op), slack = op->deed == MOD_SLACK ? op->extra : 0;
	u32 why = refusals_to_go_on(m, p, expires, slack);
	bool pending = p->pending;
	int ret;

	if (op->deed == MOD_SLACK)
		ret = twheel_mod_slack(&p->p.t, expires, slack);
	else
		ret = twheel_mod(&p->p.t, expires);
	if (refused(m, p, "mod", ret, why, pending))
		return;
	if (pending) {
		take_out(m, p);
		m->cancelled++;
		m->rearmed++;
	}
	insert_armed(m, p, expires, slack);
}

static void do_cancel(struct model *m, struct player *p)
{
	bool want = model_cancel(m, p);

	compare(m, p, "cancel", twheel_cancel(&p->p.t), want);
}

static void do_try_cancel(struct model *m, struct player *p)
{
	unsigned long end = jiffies + m->patience;
	int ret, want = -EBUSY;

	/*
	 * Until the wheel has noticed the end of the last callback, the next one may be called,
	 * or a stop may hand it back.
	 */
	if (p->ending)
		rest(m);
	ret = twheel_try_cancel(&p->p.t);
	while (ret == -EBUSY && p->ending && time_before(jiffies, end)) {
		give_way(m);
		ret = twheel_try_cancel(&p->p.t);
	}
	if (!p->call && !p->taken)
		want = model_cancel(m, p);
	compare(m, p, "try_cancel", ret, want);
}

/* The caller has made sure with may_wait() that this call does not wait. */
static void do_cancel_sync(struct model *m, struct player *p, const struct operation *op)
{
	bool want = model_cancel(m, p);

	if (op->deed == SHUTDOWN) {
		p->shutdown = true;
		compare(m, p, "shutdown", twheel_shutdown(&p->p.t), want);
	} else {
		compare(m, p, "cancel_sync", twheel_cancel_sync(&p->p.t), want);
	}
}

static void do_query(struct model *m, struct player *p)
{
	u64 remaining = p->pending && p->expires > m->now ? p->expires - m->now : 0;

	compare(m, p, "pending", twheel_pending(&p->p.t), p->pending);
	compare(m, p, "remaining_ns", twheel_remaining_ns(&p->p.t), remaining);
	if (p->kind != TWHEEL_ONCE)
		compare(m, p, "periodic_ended", twheel_periodic_ended(&p->p), p->ended);
}

/* Operations on many */

static bool for_arm_list(const struct player *p)
{
	return p->kind == TWHEEL_ONCE && !p->pending && !p->call && !p->taken &&
	       !p->waited && !p->ending;
}

static void do_arm_list(struct model *m, const struct operation *op)
{
	u64 expires = deadline(m, op);
	u32 i, nr = 0, got;
	struct player *p;

	if (expires > CLOCK_END)
		return;
	for (i = 0; i < NR_PLAYERS && nr < op->nr; i++) {
		p = &m->players[(op->who + i) % NR_PLAYERS];
		if (!for_arm_list(p))
			continue;
		p->p.t.expires = sum_ns(expires, nr * op->extra);
		m->array[nr] = &p->p.t;
		m->chosen[nr++] = p;
	}
	got = twheel_arm_list(m->wheel, m->array, nr);
	for (i = 0; i < nr; i++) {
		p = m->chosen[i];
		if (m->stopped || p->shutdown || full(m))
			break;
		insert_armed(m, p, p->p.t.expires, 0);
	}
	compare(m, NULL, "arm_list", got, i);
}

/* Moves all up to the first that is not pending; moves none after a stop has begun. */
static void do_mod_list(struct model *m, const struct operation *op)
{
	u64 expires = deadline(m, op);
	u32 i, nr = op->nr, got;
	struct player *p;

	if (expires > CLOCK_END)
		return;
	for (i = 0; i < nr; i++) {
		p = &m->players[(op->who + i * 7) % NR_PLAYERS];
		m->array[i] = &p->p.t;
		m->deadlines[i] = sum_ns(expires, i * op->extra);
	}
	got = twheel_mod_list(m->array, m->deadlines, nr);
	for (i = 0; i < nr; i++) {
		p = &m->players[(op->who + i * 7) % NR_PLAYERS];
		if (!p->pending || m->stopped)
			break;
		take_out(m, p);
		m->cancelled++;
		m->rearmed++;
		insert_armed(m, p, m->deadlines[i], 0);
	}
	compare(m, NULL, "mod_list", got, i);
}

static void do_cancel_list(struct model *m, const struct operation *op)
{
	u32 i, nr = op->nr, want = 0;
	struct player *p;

	for (i = 0; i < nr; i++) {
		p = &m->players[(op->who + i * 7) % NR_PLAYERS];
		m->array[i] = &p->p.t;
		m->chosen[i] = model_cancel(m, p) ? p : NULL;
		want += !!m->chosen[i];
	}
	compare(m, NULL, "cancel_list", twheel_cancel_list(m->array, nr), want);
	for (i = 0; i < nr; i++)
		compare(m, m->chosen[i], "entry of cancel_list", !!m->array[i],
			!!m->chosen[i]);
}

/* Initialisation of timeouts, also while a callback runs */

static void once_fires(struct twheel_timeout *t);
static void period_fires(struct twheel_periodic *p);

static void init_player(struct model *m, struct player *p, u32 what)
{
	p->m = m;
	p->kind = TWHEEL_ONCE;
	p->worker = false;
	p->shutdown = false;
	p->call = NULL;
	if (m->program->sink) {
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
	p->worker = m->program->workers && what & 1;
	if (p->worker)
		twheel_use_workqueue(&p->p.t);
}

/*
 * Initialise the timeout of @p again. This is allowed in its own callback, and while none
 * of its callbacks runs and nobody waits for the end of one.
 */
static void do_reinit(struct model *m, struct player *p, const struct operation *op,
		      struct call *call)
{
	if (p->taken || p->ending || (p->call && p->call != call))
		return;
	if (m->waiter.busy && m->waiter.player == p)
		return;
	do_cancel(m, p);
	if (p->call)
		p->call->player = NULL;
	init_player(m, p, op->repeat % 8);
}

/* Time */

static u32 busy_workers(const struct model *m)
{
	u32 i, nr = 0;

	for (i = 0; i < NR_WORKERS; i++)
		nr += !!m->gates[i];
	return nr;
}

/* If @p was held up until @ns, the wheel notices a step backward only then: one tick more. */
static u64 held_up_until(const struct model *m, const struct player *p, u64 ns)
{
	return p->epoch == m->epoch ? ns : ns + m->program->geometry->tick_ns;
}

/* If all workers were busy, @p had to wait for one. */
static u64 with_wait(const struct model *m, const struct player *p, u64 by)
{
	return p->worker ? max(by, held_up_until(m, p, m->crowded)) : by;
}

/* A rebase does not move @p: it is in the tick of its deadline, which is in the future. */
static bool stays_in_its_tick(const struct model *m, const struct player *p)
{
	u64 tick = ceil_tick(m, p->expires);

	return p->lo == p->hi && p->hi == tick && tick > floor_tick(m, m->now);
}

/*
 * The clock has been set forward. If @p waits for the next tick because its deadline is past, that
 * does not make the wheel notice a step backward earlier. If the wheel has not noticed one yet, it
 * may do so when it should call @p, and then choose the next tick.
 */
static void come_closer(struct model *m, struct player *p)
{
	if (m->mono > m->forward + SLOP && !is_for_the_past(p))
		p->guard = p->by;
	if (m->unseen && !stays_in_its_tick(m, p))
		p->hi = max(p->hi, floor_tick(m, sum_ns(m->now, SLOP))) + 1;
	p->by = min(p->by, due_time(m, p->hi));
}

/*
 * The clock has been set back from @left. May @p have been handed over before, and wait for a
 * worker or for the end of its own callback?
 */
static bool waits_for_worker(const struct model *m, const struct player *p, u64 left)
{
	if (!p->worker)
		return false;
	if (p->by <= m->mono)
		return true;
	return (p->call || busy_workers(m) == NR_WORKERS) && p->lo <= floor_tick(m, left);
}

/*
 * The clock has been set back. The wheel notices that at the latest when @p should have been called
 * without the step. If the clock was set forward just before, the wheel may have overlooked that.
 * If @p @waits for a worker, an earlier step may have put it in the next tick.
 */
static u64 latest_notice(const struct model *m, const struct player *p, bool waits)
{
	bool overlooked = m->mono <= m->forward + SLOP || is_for_the_past(p);
	u64 by = with_wait(m, p, overlooked ? p->guard : p->by);

	return max(by, m->mono + (waits ? m->program->geometry->tick_ns : 0)) + SLOP;
}

/*
 * The clock has been set back from @left. If the wheel has chosen the tick of the deadline, and
 * that is in the future, then it keeps that tick. Otherwise it may choose another one when it
 * notices the step: the next tick is the latest. If @p waits for a worker, the wheel may notice
 * only when one is free.
 */
static void go_away(struct model *m, struct player *p, u64 left)
{
	bool waits = waits_for_worker(m, p, left);
	u64 noticed = latest_notice(m, p, waits);
	u64 tick = ceil_tick(m, p->expires), last;

	p->handed = false;
	if (!waits && stays_in_its_tick(m, p)) {
		p->by = due_time(m, tick);
		p->guard = p->by;
		return;
	}
	/* check_late() and end_call() add the time that it waits. */
	last = waits ? floor_tick(m, CLOCK_END) :
	       max(p->end, floor_tick(m, sum_ns(m->now, noticed - m->mono)) + 1);
	p->lo = tick;
	p->hi = max(p->hi, last);
	/* The clock may be set again before, so the next tick can begin a whole tick later. */
	p->by = max(due_time(m, p->end), noticed + m->program->geometry->tick_ns);
	p->guard = p->by;
}

static enum hrtimer_restart do_nothing(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

/*
 * Set the wall clock. Linux has the timers of all other CPUs set anew, but not those of the CPU
 * that sets the clock: they wait for its next timer interrupt. @prod causes one.
 */
static void step_wall(struct model *m, u64 ns)
{
	u64 left = m->now;
	struct player *p;

	set_wall(clamp(ns, WALL_MIN, WALL_MAX));
	hrtimer_start(&m->prod, 0, HRTIMER_MODE_REL);
	refresh(m);
	if (m->now < left) {
		m->epoch++;
		m->unseen = true;
	}
	for (p = next_pending(m, NULL); p; p = next_pending(m, p)) {
		if (m->now < left)
			go_away(m, p, left);
		else
			come_closer(m, p);
	}
	if (m->now >= left)
		m->forward = m->mono;
	m->chi = max(m->chi, floor_tick(m, max(m->now, left)));
}

static void do_set_clock(struct model *m, const struct operation *op)
{
	u64 ns = time_at(m, op->delta), tick = floor_tick(m, ns);

	if (clock_is_simulated()) {
		step_wall(m, ns);
		return;
	}
	compare(m, NULL, "set_clock", twheel_set_clock(m->wheel, ns), 0);
	if (tick < m->chi) {
		rebase(m, tick, false);
		m->unseen = true;
	}
	m->now = ns;
	m->clo = min(m->clo, tick);
	m->chi = max(m->chi, tick);
	m->low = min(m->low, tick);
	m->stepped = true;
}

/* Another wheel, used from the test, from a worker's callback and while a stop hands back */

static void await(struct model *m, const struct player *p, struct completion *done,
		  const char *what)
{
	if (!wait_for_completion_timeout(done, m->patience))
		compare(m, p, what, false, true);
}

/**
 * struct other - a timeout in another wheel
 * @t: the timeout
 * @fired: completed when it fires
 */
struct other {
	struct twheel_timeout	t;
	struct completion	fired;
};

static void other_fires(struct twheel_timeout *t)
{
	complete(&container_of(t, struct other, t)->fired);
}

static void use_other_wheel(struct model *m, struct twheel *w, struct other *other)
{
	init_completion(&other->fired);
	twheel_timeout_init(w, &other->t, other_fires);
	twheel_use_workqueue(&other->t);
	compare(m, NULL, "arm in another wheel", twheel_arm(&other->t, 1), 0);
	compare(m, NULL, "advance of another wheel", twheel_advance(w, 1), 0);
	await(m, NULL, &other->fired, "callback in another wheel");
	twheel_flush(w);
	compare(m, NULL, "shutdown in another wheel", twheel_shutdown(&other->t), false);
}

/* A stop may do this in the waiter while the test does it, too: nothing is shared. */
static void do_other_wheel(struct model *m)
{
	struct twheel_params params = {
		.name = "kunit-other",
		.clock = TWHEEL_MANUAL,
		.tick_ns = 1,
		.slots = 2,
		.levels = 1,
	};
	struct other *other = kzalloc(sizeof(*other), GFP_KERNEL);
	struct twheel *w = twheel_create(&params);

	if (other && !IS_ERR(w))
		use_other_wheel(m, w, other);
	twheel_destroy(w);
	kfree(other);
}

/* One operation */

/* Returns true if cancel_sync of @p would or could wait for a callback. */
static bool may_wait(const struct model *m, const struct player *p)
{
	if (p->call || p->ending)
		return true;
	return p->pending && p->worker && p->expires <= m->now;
}

static void start_waiter(struct model *m, enum deed deed, struct player *p);

static void cancel_and_wait(struct model *m, struct player *p, const struct operation *op,
			    enum context from)
{
	if (from == FROM_CALLBACK || from == FROM_STOP)
		return;
	if (!may_wait(m, p))
		do_cancel_sync(m, p, op);
	else if (from == FROM_TEST && !p->waited)
		start_waiter(m, op->deed, p);
}

/* While a task waits for the end of @p, only its own callback may arm it. */
static bool arming_is_wrong(const struct player *p, const struct call *call)
{
	return p->waited && (!p->call || p->call != call);
}

/*
 * The callback of @p was released while @p was pending again, and @p is not pending now.
 * twheel_cancel_sync() ensures that the wheel has noticed the end. Returns false if it
 * cannot be called in this context.
 */
static bool settle_end(struct model *m, struct player *p, enum context from)
{
	if (!p->ending || p->pending || p->call)
		return true;
	if (from != FROM_TEST)
		return false;
	compare(m, p, "cancel_sync after the end", twheel_cancel_sync(&p->p.t), false);
	p->ending = false;
	return true;
}

static void operate_on(struct model *m, struct player *p, const struct operation *op,
		       enum context from, struct call *call)
{
	if (!settle_end(m, p, from))
		return;
	switch (op->deed) {
	case ARM ... ARM_PERIODIC:
		if (arming_is_wrong(p, call))
			return;
		if (p->kind != TWHEEL_ONCE && (op->deed == ARM_PERIODIC || op->repeat))
			do_arm_periodic(m, p, op);
		else
			do_arm(m, p, op);
		break;
	case MOD ... MOD_SLACK:
		if (!arming_is_wrong(p, call))
			do_mod(m, p, op);
		break;
	case CANCEL:
		do_cancel(m, p);
		break;
	case TRY_CANCEL:
		if (from != FROM_STOP && (from == FROM_TEST || !p->ending))
			do_try_cancel(m, p);
		break;
	case CANCEL_SYNC:
	case SHUTDOWN:
		cancel_and_wait(m, p, op, from);
		break;
	case REINIT:
		do_reinit(m, p, op, call);
		break;
	default:
		do_query(m, p);
	}
}

static void operate(struct model *m, const struct operation *op, enum context from,
		    struct call *call)
{
	struct player *p = &m->players[op->who % NR_PLAYERS];

	refresh(m);
	m->operations++;
	m->met[op->deed][from]++;
	if (op->who == SELF && call && call->player)
		p = call->player;
	switch (op->deed) {
	case ARM_LIST:
		do_arm_list(m, op);
		break;
	case MOD_LIST:
		do_mod_list(m, op);
		break;
	case CANCEL_LIST:
		do_cancel_list(m, op);
		break;
	case SET_CLOCK:
		do_set_clock(m, op);
		break;
	case EXTEND:
		break;
	case OTHER_WHEEL:
		if (from != FROM_CALLBACK)
			do_other_wheel(m);
		break;
	default:
		operate_on(m, p, op, from, call);
	}
	if (!m->fault)
		compare(m, p, "pending after it", twheel_pending(&p->p.t), p->pending);
}

/* The next operation if its site is INSIDE and no more callbacks are to be skipped; or NULL. */
static const struct operation *next_inside(struct model *m)
{
	const struct program *program = m->program;

	if (m->deaf || m->fault || m->pc >= program->nr)
		return NULL;
	if (program->list[m->pc].site != INSIDE)
		return NULL;
	if (m->skipped < program->list[m->pc].skip) {
		m->skipped++;
		return NULL;
	}
	m->skipped = 0;
	return &program->list[m->pc++];
}

static void operate_inside(struct model *m, enum context from, struct call *call)
{
	const struct operation *op;

	do {
		op = next_inside(m);
		if (op)
			operate(m, op, from, call);
	} while (op && op->more);
}

/* Callbacks */

static void check_order(struct model *m, const struct player *p)
{
	struct player *q;

	if (p->worker || p->epoch != m->epoch)
		return;
	for (q = next_pending(m, NULL); q; q = next_pending(m, q)) {
		if (q->worker || q->epoch != m->epoch || q->home != p->home)
			continue;
		if (q->hi < p->lo)
			compare(m, q, "overtaken: its tick", q->hi, p->lo);
		if (q->hi == p->lo && q->lo == p->hi && q->order < p->order)
			compare(m, q, "overtaken within a tick", q->order, p->order);
	}
}

/* REALTIME: is this too late for a call of @p? A worker is free now. */
static void check_late(struct model *m, const struct player *p)
{
	u64 by = with_wait(m, p, p->by);

	if (!clock_is_simulated() || m->mono <= by)
		return;
	m->latest = max(m->latest, m->mono - by);
	if (m->mono - by > SLOP)
		compare(m, p, "late, ns", m->mono - by, SLOP);
}

/* @p has left the wheel for its callback or for the sink. */
static void check_expiry(struct model *m, struct player *p)
{
	refresh(m);
	m->visited = p->home;
	compare(m, p, "pending when called", p->pending, true);
	compare(m, p, "stop is over when called", m->over, false);
	if (!clock_is_simulated())
		compare(m, p, "clock when called", twheel_now(m->wheel), m->now);
	check_late(m, p);
	if (m->now < p->expires)
		compare(m, p, "called early, at", m->now, p->expires);
	if (floor_tick(m, m->now) < p->lo)
		compare(m, p, "called early, in tick", floor_tick(m, m->now), p->lo);
	if (!m->fault)
		take_out(m, p);
	check_order(m, p);
	m->fired++;
	m->calls++;
}

static void begin_period(struct model *m, struct player *p)
{
	u64 missed = 0, last;

	if (p->kind == TWHEEL_FIXED_RATE)
		missed = div64_u64(m->now - p->expires, p->interval);
	if (p->left)
		missed = min_t(u64, missed, p->left - 1);
	last = p->expires + missed * p->interval;
	if (p->left) {
		p->left -= missed + 1;
		p->ended = !p->left;
	}
	compare(m, p, "missed", p->p.missed, missed);
	compare(m, p, "expires", p->p.expires, last);
	compare(m, p, "repeat", p->p.repeat, p->left);
	compare(m, p, "ended", twheel_periodic_ended(&p->p), p->ended);
	if (p->ended)
		return;
	if (p->kind == TWHEEL_FIXED_RATE) {
		insert_armed(m, p, sum_ns(last, p->interval), 0);
	} else {
		p->again = true;
		m->kept++;
	}
}

static void begin_call(struct model *m, struct player *p, struct call *call)
{
	compare(m, p, "called while its callback runs", !!p->call, false);
	check_expiry(m, p);
	if (m->fault)
		return;
	p->ending = false;
	p->call = call;
	call->player = p;
	if (p->kind != TWHEEL_ONCE)
		begin_period(m, p);
}

/* The callback has returned: end it in the model as the wheel does. */
static void end_call(struct model *m, struct call *call)
{
	struct player *p = call->player;

	if (!p)
		return;
	refresh(m);
	p->call = NULL;
	p->by = max(p->by, held_up_until(m, p, m->mono));
	if (!p->again)
		return;
	insert(m, p, sum_ns(m->now, p->interval), 0);
	m->armed++;
}

static struct gate **free_gate(struct model *m)
{
	u32 i;

	for (i = 0; i < NR_WORKERS; i++)
		if (!m->gates[i])
			return &m->gates[i];
	return NULL;
}

static void stand_at_gate(struct model *m, struct gate *gate)
{
	for (;;) {
		complete(&m->begun);
		wait_for_completion(&gate->go);
		if (!gate->op)
			break;
		operate(m, gate->op, FROM_WORKER, &gate->call);
		complete(&m->answered);
	}
}

static void worker_calls(struct model *m, struct player *p)
{
	struct gate **place = free_gate(m), gate = { };

	compare(m, p, "a worker is free", !!place, true);
	begin_call(m, p, &gate.call);
	if (m->fault)
		return;
	init_completion(&gate.go);
	*place = &gate;
	stand_at_gate(m, &gate);
	end_call(m, &gate.call);
	if (busy_workers(m) == NR_WORKERS)
		m->crowded = m->mono;
	*place = NULL;
	complete(&m->left);
}

static void thread_calls(struct model *m, struct player *p)
{
	struct call call = { };

	if (!clock_is_simulated())
		compare(m, p, "called in an advance", m->advancing, true);
	begin_call(m, p, &call);
	if (m->fault)
		return;
	compare(m, NULL, "advance from a callback", twheel_advance(m->wheel, m->now),
		clock_is_simulated() ? -EINVAL : -EDEADLK);
	operate_inside(m, FROM_CALLBACK, &call);
	end_call(m, &call);
}

static void once_fires(struct twheel_timeout *t)
{
	struct player *p = container_of(t, struct player, p.t);

	if (p->m->fault)
		return;
	compare(p->m, p, "by a worker", !!(current->flags & PF_WQ_WORKER), p->worker);
	if (p->worker)
		worker_calls(p->m, p);
	else
		thread_calls(p->m, p);
}

/* After a fault, cancel periodic timeouts: otherwise they would go on for ever. */
static void period_fires(struct twheel_periodic *p)
{
	struct player *player = container_of(p, struct player, p);

	if (player->m->fault)
		twheel_cancel(&p->t);
	else
		once_fires(&p->t);
}

/* The sink */

static bool extend(struct model *m, struct player *p, const struct operation *op)
{
	u64 expires = deadline(m, op);
	u32 why = 0;

	if (expires > CLOCK_END)
		why |= REFUSE_INVALID;
	if (p->shutdown || m->stopped)
		why |= REFUSE_SHUTDOWN;
	if (refused(m, p, "extend", twheel_extend(&p->p.t, expires, op->extra), why, 0))
		return false;
	p->taken = false;
	m->kept--;
	m->fired--;
	m->extended++;
	insert(m, p, expires, op->extra);
	narrow(m, p);
	return true;
}

static bool sink_operates(struct model *m, struct player *p)
{
	struct call call = { .player = p };
	const struct operation *op;

	do {
		op = next_inside(m);
		if (op && op->deed == EXTEND) {
			m->operations++;
			m->met[EXTEND][FROM_CALLBACK]++;
			if (extend(m, p, op))
				return true;
		} else if (op) {
			operate(m, op, FROM_CALLBACK, &call);
		}
	} while (op && op->more);
	return false;
}

static void take_batch(struct model *m, struct list_head *expired, unsigned int nr)
{
	struct twheel_timeout *t;
	unsigned int n = 0;

	list_for_each_entry(t, expired, entry) {
		struct player *p = container_of(t, struct player, p.t);

		check_expiry(m, p);
		p->taken = true;
		m->kept++;
		n++;
	}
	compare(m, NULL, "timeouts of a batch", n, nr);
}

static void sink(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;
	struct model *m = sink_data;

	refresh(m);
	compare(m, NULL, "time of the batch", now_ns, m->now);
	take_batch(m, expired, nr);
	list_for_each_entry_safe(t, next, expired, entry) {
		struct player *p = container_of(t, struct player, p.t);

		list_del_init(&t->entry);
		if (!m->fault && sink_operates(m, p))
			continue;
		p->taken = false;
		m->kept--;
		twheel_accept(t);
		if (!m->fault)
			operate_inside(m, FROM_CALLBACK, NULL);
	}
}

/* Workers */

static bool must_be_called(const struct model *m, const struct player *p)
{
	return p->pending && p->handed && !p->call && p->hi <= floor_tick(m, m->now) &&
	       p->expires <= m->now;
}

static struct player *any_to_be_called(struct model *m)
{
	struct player *p;

	for (p = next_pending(m, NULL); p; p = next_pending(m, p))
		if (must_be_called(m, p))
			return p;
	return NULL;
}

/* Wait until the workers have begun all callbacks that they must begin. */
static void settle(struct model *m)
{
	struct player *p;

	if (!m->program->workers)
		return;
	while (!m->fault && !m->stopped && busy_workers(m) < NR_WORKERS) {
		p = any_to_be_called(m);
		if (!p)
			break;
		await(m, p, &m->begun, "called by a worker");
	}
}

static struct gate *choose_gate(struct model *m, u32 i)
{
	u32 n;

	for (n = 0; n < NR_WORKERS; n++)
		if (m->gates[(i + n) % NR_WORKERS])
			return m->gates[(i + n) % NR_WORKERS];
	return NULL;
}

static void do_by_worker(struct model *m, const struct operation *op)
{
	struct gate *gate = choose_gate(m, op->nr);

	if (!gate) {
		operate(m, op, FROM_TEST, NULL);
		return;
	}
	gate->op = op;
	complete(&gate->go);
	await(m, gate->call.player, &m->answered, "operation of a worker has ended");
}

/* The waiter */

static void handed_back(void *data, struct twheel_timeout *t)
{
	struct player *p = container_of(t, struct player, p.t);
	struct call call = { .player = p }, *outer = p->call;
	struct model *m = data;

	compare(m, p, "handed back, pending", p->pending, true);
	compare(m, p, "handed back, ends before", outer && p->kind != TWHEEL_ONCE, false);
	compare(m, p, "state of what is handed back", twheel_pending(t), false);
	if (m->fault)
		return;
	take_out(m, p);
	m->handed_back++;
	p->ending = false;
	p->call = &call;
	operate_inside(m, FROM_STOP, &call);
	if (call.player)
		p->call = outer;
}

static bool make_call(struct model *m, enum deed deed, struct player *p)
{
	switch (deed) {
	case CANCEL_SYNC:
		return twheel_cancel_sync(&p->p.t);
	case SHUTDOWN:
		return twheel_shutdown(&p->p.t);
	case FLUSH:
		twheel_flush(m->wheel);
		return false;
	default:
		twheel_stop(m->wheel, handed_back, m);
		return false;
	}
}

static int waiter_thread(void *data)
{
	struct model *m = data;
	struct waiter *w = &m->waiter;

	for (;;) {
		wait_for_completion(&w->go);
		if (w->deed == NR_DEEDS)
			break;
		WRITE_ONCE(w->begun, true);
		w->result = make_call(m, w->deed, w->player);
		complete(&w->done);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* The call of the waiter has returned. */
static void end_waiter(struct model *m)
{
	struct waiter *w = &m->waiter;
	struct player *p = w->player, *q;

	w->busy = false;
	if (p) {
		/* The callback that was waited for may have armed it. */
		w->want |= model_cancel(m, p);
		p->waited = false;
		p->ending = false;
		compare(m, p, w->deed == SHUTDOWN ? "shutdown" : "cancel_sync", w->result,
			w->want);
		compare(m, p, "callback after cancel_sync", !!p->call, false);
	}
	if (w->deed != STOP)
		return;
	m->over = true;
	for (q = m->players; q < m->players + NR_PLAYERS; q++)
		compare(m, q, "not handed back", q->pending || q->again, false);
}

/* Returns true if a running callback keeps the waiter's call from returning. */
static bool waiter_is_held_up(const struct model *m)
{
	const struct player *p = m->waiter.player;

	return p ? !!p->call : busy_workers(m) != 0;
}

/* Wait until the call has returned, or until a callback has begun that holds it up. */
static void join_waiter(struct model *m)
{
	unsigned long end = jiffies + m->patience;
	struct waiter *w = &m->waiter;

	while (w->busy && !m->fault) {
		if (wait_for_completion_timeout(&w->done, 1)) {
			end_waiter(m);
			return;
		}
		if (waiter_is_held_up(m))
			return;
		if (time_after(jiffies, end))
			compare(m, w->player, "call that waits returns", false, true);
	}
}

/*
 * Make the waiter call, and return once it waits in the call or has returned. Without workers
 * there is nothing to wait for, so the test itself calls.
 */
static void start_waiter(struct model *m, enum deed deed, struct player *p)
{
	unsigned long end = jiffies + m->patience;
	struct waiter *w = &m->waiter;

	if (w->busy)
		return;
	rest(m);
	w->deed = deed;
	w->player = p;
	w->busy = true;
	w->want = false;
	if (p)
		w->want = model_cancel(m, p);
	if (deed == CANCEL_SYNC)
		p->waited = true;
	else if (deed == SHUTDOWN)
		p->shutdown = true;
	else if (deed == STOP)
		m->stopped = true;
	if (!m->program->workers) {
		w->result = make_call(m, deed, p);
		end_waiter(m);
		return;
	}
	w->begun = false;
	complete(&w->go);
	while (!READ_ONCE(w->begun) ||
	       (task_is_running(w->task) && !completion_done(&w->done))) {
		if (time_after(jiffies, end))
			break;
		give_way(m);
	}
	if (completion_done(&w->done))
		join_waiter(m);
}

/* Release */

/* Wait until the wheel has noticed that the callback of @p has ended. */
static void await_end(struct model *m, struct player *p)
{
	unsigned long end = jiffies + m->patience;

	if (p->call)
		return;
	if (p->kind == TWHEEL_FIXED_DELAY && p->pending && !p->ending) {
		/* A stop may have handed it back since. */
		while (!twheel_pending(&p->p.t) && p->pending && time_before(jiffies, end))
			give_way(m);
		compare(m, p, "pending after its callback", twheel_pending(&p->p.t),
			p->pending);
		narrow(m, p);
	} else if (!p->pending) {
		compare(m, p, "cancel_sync at the end", twheel_cancel_sync(&p->p.t), false);
		p->ending = false;
	}
}

static void release(struct model *m, struct gate *gate)
{
	struct player *p = gate->call.player;

	gate->op = NULL;
	if (p && p->pending)
		p->ending = true;
	complete(&gate->go);
	await(m, p, &m->left, "worker leaves its callback");
	if (m->fault)
		return;
	if (!waiter_is_held_up(m))
		join_waiter(m);
	if (p && !m->fault && (!m->waiter.busy || m->waiter.player != p))
		await_end(m, p);
	settle(m);
}

static void release_all(struct model *m)
{
	while (!m->fault && (busy_workers(m) || m->waiter.busy)) {
		if (busy_workers(m))
			release(m, choose_gate(m, 0));
		else
			join_waiter(m);
	}
}

/* Advance */

/* During the whole advance, the clock was at @tick or later. */
static void check_lateness(struct model *m, u64 tick)
{
	struct player *p;

	if (m->stopped)
		return;
	for (p = next_pending(m, NULL); p; p = next_pending(m, p)) {
		if (p->hi > tick)
			continue;
		if (p->worker)
			p->handed = true;
		else
			compare(m, p, "late, not called in tick", tick, p->hi);
	}
}

/* After an advance, a timeout in no slot has been handed over, so it was due. */
static void look_at_all(struct model *m)
{
	u64 tick = floor_tick(m, m->now);
	struct player *p;

	for (p = next_pending(m, NULL); p; p = next_pending(m, p)) {
		if (p->handed || narrow(m, p))
			continue;
		compare(m, p, "in a slot", p->worker, true);
		compare_range(m, p, "handed over in tick", tick, p->lo, U64_MAX);
		p->handed = true;
		p->hi = min(p->hi, tick);
	}
}

/*
 * A shard reads the clock at @ns before it calls anything. With several shards, a callback may
 * meet one that has not read it yet, and places a timeout again when it notices a step.
 */
static void advance_to(struct model *m, u64 ns)
{
	u64 tick = floor_tick(m, ns);
	bool many = m->program->cpus > 1, back = tick < m->chi, look = back || m->unseen;

	if (back)
		rebase(m, tick, tick < m->clo && !m->unseen && !m->stopped);
	else if (look)
		widen(m);
	m->now = ns;
	m->low = tick;
	m->clo = many ? min(m->clo, tick) : tick;
	m->chi = many ? max(m->chi, tick) : tick;
	m->stepped = false;
	m->unseen = (m->unseen && m->stopped) || (many && look);
	m->visited = -1;
	m->advancing = true;
	compare(m, NULL, "advance", twheel_advance(m->wheel, ns), 0);
	m->advancing = false;
	check_lateness(m, m->low);
	if (!m->stepped) {
		m->clo = tick;
		m->chi = tick;
		m->unseen &= m->stopped;
		if ((look || many) && !m->stopped)
			look_at_all(m);
	}
	settle(m);
}

/* REALTIME: all threads of the wheel have slept since the last timeout was due. */
static void look_at_rest(struct model *m)
{
	struct player *p;

	if (m->stopped)
		return;
	if (floor_tick(m, m->now) >= m->chi)
		m->unseen = false;
	for (p = next_pending(m, NULL); p; p = next_pending(m, p)) {
		if (p->lo != p->hi && !narrow(m, p) && !m->unseen) {
			/* Not in a slot, so it is due. */
			p->hi = min(p->hi, floor_tick(m, m->now));
			p->by = min(p->by, m->mono);
		}
		if (m->mono <= p->by + SLOP)
			continue;
		p->handed = p->worker;
		if (!p->worker || (busy_workers(m) < NR_WORKERS && !p->call && !p->waited))
			check_late(m, p);
	}
}

/* REALTIME: let the clock run until @ns, or set it. */
static void pass_time(struct model *m, u64 ns)
{
	u64 nap = SLOP;

	ns = clamp(ns, WALL_MIN, WALL_MAX);
	if (ns < m->now || ns - m->now > NAP || m->napped > NAPS)
		step_wall(m, ns - (ns & 1 ? 0 : SLOP));
	if (ns > m->now)
		nap += ns - m->now;
	m->napped += nap - SLOP;
	sleep_ns(nap);
	rest(m);
	look_at_rest(m);
	settle(m);
}

/* If a callback steps the clock, a second advance makes the wheel notice at the latest. */
static void do_advance(struct model *m, u64 ns)
{
	bool deaf = m->deaf;

	if (clock_is_simulated()) {
		pass_time(m, ns);
		return;
	}
	advance_to(m, ns);
	while (m->stepped && !m->fault) {
		m->deaf = true;
		advance_to(m, m->now);
	}
	m->deaf = deaf;
}

static void do_advance_to_next(struct model *m, const struct operation *op)
{
	struct player *p;
	u64 lo = U64_MAX;

	for (p = next_pending(m, NULL); p; p = next_pending(m, p))
		if (!p->handed)
			lo = min(lo, p->lo);
	if (lo > floor_tick(m, CLOCK_END) || lo <= floor_tick(m, m->now))
		do_advance(m, time_at(m, op->delta));
	else
		do_advance(m, sum_ns(lo * m->program->geometry->tick_ns, abs(op->delta)));
}

/* Invariants */

static void compare_stats(struct model *m)
{
	struct twheel_counters stats;

	if (m->waiter.busy || m->fault)
		return;
	twheel_stats(m->wheel, &stats);
	compare(m, NULL, "stats: pending", stats.pending, m->nr);
	compare(m, NULL, "stats: armed", stats.armed, m->armed);
	compare(m, NULL, "stats: rearmed", stats.rearmed, m->rearmed);
	compare(m, NULL, "stats: cancelled", stats.cancelled, m->cancelled);
	compare(m, NULL, "stats: fired", stats.fired, m->fired);
	compare(m, NULL, "stats: extended", stats.extended, m->extended);
	compare(m, NULL, "stats: stopped", stats.stopped, m->handed_back);
}

static void compare_next_expiry(struct model *m)
{
	u64 hi = U64_MAX, next = twheel_next_expiry(m->wheel);
	struct player *p;

	if (m->stopped)
		return;
	for (p = next_pending(m, NULL); p; p = next_pending(m, p))
		hi = min(hi, p->hi);
	if (hi == U64_MAX && !m->unseen)
		compare(m, NULL, "next expiry", next, CLOCK_END);
	else if (hi <= floor_tick(m, CLOCK_END))
		compare_range(m, NULL, "next expiry", next, 0,
			      hi * m->program->geometry->tick_ns);
}

/* CPUs */

/* Take a CPU offline, or bring it back. CPU 0 stays online. */
static void do_hotplug(struct model *m, const struct operation *op)
{
	unsigned int cpu = 1 + op->nr % (m->program->cpus - 1);

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU))
		return;
	if (cpu == raw_smp_processor_id())
		migrate_to(0);
	if (set_online(cpu, !cpu_online(cpu)))
		m->met[HOTPLUG][FROM_TEST]++;
}

static void do_migrate(struct model *m, const struct operation *op)
{
	migrate_to(op->nr % m->program->cpus);
	m->met[MIGRATE][FROM_TEST]++;
}

/* Each program begins on CPU 0, with all CPUs online. */
static void reset_cpus(struct model *m)
{
	unsigned int cpu;

	for (cpu = 1; cpu < m->program->cpus; cpu++)
		if (!cpu_online(cpu))
			compare(m, NULL, "CPU comes back", set_online(cpu, true), true);
	migrate_to(0);
}

/* Programs */

/* Carry out one operation of the test. */
static void step(struct model *m, const struct operation *op)
{
	refresh(m);
	m->skipped = 0;
	m->stepped = false;
	switch (op->deed) {
	case ADVANCE:
		do_advance(m, time_at(m, op->delta));
		break;
	case ADVANCE_TO_NEXT:
		do_advance_to_next(m, op);
		break;
	case RELEASE:
		if (busy_workers(m))
			release(m, choose_gate(m, op->nr));
		break;
	case FLUSH:
		start_waiter(m, FLUSH, NULL);
		break;
	case STOP:
		if (!m->stopped)
			start_waiter(m, STOP, NULL);
		break;
	case MIGRATE:
		do_migrate(m, op);
		break;
	case HOTPLUG:
		do_hotplug(m, op);
		break;
	default:
		if (op->site == WORKER)
			do_by_worker(m, op);
		else
			operate(m, op, FROM_TEST, NULL);
		settle(m);
		return;
	}
	m->operations++;
}

static void check_now_and_then(struct model *m)
{
	if (m->waiter.busy && completion_done(&m->waiter.done))
		join_waiter(m);
	/* A program that shrinks must fail at its end, too. */
	if (m->pc % 8 && m->pc < m->program->nr)
		return;
	compare_stats(m);
	compare_next_expiry(m);
	cond_resched();
}

/* Before the wheel has dealt with a backward step, the audit does not hold. */
static void audit(struct model *m)
{
	if (!m->fault && !m->unseen)
		compare(m, NULL, "audit", twheel_audit(m->wheel), 0);
}

static void finish(struct model *m)
{
	m->deaf = true;
	release_all(m);
	refresh(m);
	if (!m->stopped && !m->fault) {
		do_advance(m, m->now);
		release_all(m);
		compare_stats(m);
		audit(m);
		start_waiter(m, STOP, NULL);
		release_all(m);
	}
	compare_stats(m);
	audit(m);
	compare(m, NULL, "arm after stop", twheel_mod(&m->players[0].p.t, 0), -ESHUTDOWN);
}

/* Release all threads, whether or not there was a fault. */
static void clean_up(struct model *m)
{
	u32 i;

	for (i = 0; i < NR_WORKERS; i++)
		if (m->gates[i]) {
			m->gates[i]->op = NULL;
			complete(&m->gates[i]->go);
		}
	if (m->waiter.busy)
		wait_for_completion_timeout(&m->waiter.done, 30 * HZ);
	twheel_destroy(m->wheel);
	m->wheel = NULL;
	reset_cpus(m);
}

static struct twheel *make_wheel(struct model *m)
{
	const struct geometry *g = m->program->geometry;
	struct twheel_params params = {
		.name = "kunit-combination",
		.clock = clock_is_simulated() ? TWHEEL_REALTIME : TWHEEL_MANUAL,
		.tick_ns = g->tick_ns,
		.slots = g->asked ?: g->shape.slots,
		.levels = g->shape.levels,
		.sink = m->program->sink ? sink : NULL,
		.sink_data = m,
		.max_pending = m->program->limit,
	};

	return twheel_create(&params);
}

static void reset(struct model *m)
{
	u32 i;

	/* Keep the memory, the waiter thread and the counts over all programs. */
	memset((void *)m + offsetof(struct model, pc), 0,
	       offsetof(struct model, gates) - offsetof(struct model, pc));
	memset(m->gates, 0, sizeof(m->gates));
	init_completion(&m->begun);
	init_completion(&m->answered);
	init_completion(&m->left);
	init_completion(&m->waiter.done);
	m->waiter.busy = false;
	m->fault = NULL;
	memset(m->players, 0, sizeof(m->players));
	for (i = 0; i < NR_PLAYERS; i++)
		init_player(m, &m->players[i], i % 8);
}

/* Returns true if wheel and model agree. */
static bool run_program(struct model *m)
{
	/* About the year 2006. A program that runs again begins at the same time. */
	if (clock_is_simulated())
		set_wall((1ULL << 60) + hash_64(m->program->seed, 50));
	m->wheel = make_wheel(m);
	if (IS_ERR(m->wheel)) {
		m->fault = "no wheel";
		return false;
	}
	reset(m);
	while (m->pc < m->program->nr && !m->fault) {
		step(m, &m->program->list[m->pc++]);
		check_now_and_then(m);
	}
	if (!m->fault)
		finish(m);
	clean_up(m);
	compare(m, NULL, "lockdep has a report", m->lockdep && !debug_locks, false);
	return !m->fault;
}

/* Shrinking */

/**
 * struct shrinking - the search for a shorter program that fails
 * @m: the model
 * @fault: the fault
 * @runs: number of runs so far
 * @end: end of the search, in jiffies. KUnit ends a case after 5 minutes
 */
struct shrinking {
	struct model	*m;
	const char	*fault;
	u32		runs;
	unsigned long	end;
};

static bool fails_again(void *data)
{
	struct shrinking *s = data;

	if (s->runs++ >= SHRINK_RUNS || time_after(jiffies, s->end))
		return false;
	return !run_program(s->m) && s->m->fault == s->fault;
}

/* Leave the shortest failing program found in m->program. */
static void shrink(struct model *m)
{
	struct shrinking s = { .m = m, .fault = m->fault, .end = jiffies + 100 * HZ };

	/* Lockdep reports once, so a program that it found cannot be shrunk. */
	if (m->lockdep && !debug_locks)
		return;
	m->patience = HZ / 10;
	m->program->nr = min(m->program->nr, m->pc);
	shrink_programs(&m->program, 1, fails_again, &s);
	run_program(m);
}

static void report(struct kunit *test, struct model *m, u64 program_seed)
{
	if (once) {
		KUNIT_FAIL(test, "seed=%llu: operation %u: player %d: %s: %lld, not %lld",
			   program_seed, m->at, m->about, m->fault, (s64)m->got,
			   (s64)m->want);
		return;
	}
	kunit_info(test, "seed=%llu: operation %u: player %d: %s: %lld, not %lld: shrinking\n",
		   program_seed, m->at, m->about, m->fault, (s64)m->got, (s64)m->want);
	shrink(m);
	print_program(test, m->program);
	if (!m->fault) {
		KUNIT_FAIL(test, "seed=%llu: failed once, but not when repeated", program_seed);
		return;
	}
	KUNIT_FAIL(test, "seed=%llu: operation %u: player %d: %s: %lld, not %lld",
		   program_seed, m->at, m->about, m->fault, (s64)m->got, (s64)m->want);
}

/* The cases */

static const struct geometry geometries[] = {
	{ "1 level of 2 slots", { 2, 1 }, 1000 },
	{ "1 level of 8 slots, tick 1 ns", { 8, 1 }, 1 },
	{ "1 level of 256 slots", { 256, 1 }, NSEC_PER_MSEC },
	{ "1 level of 65536 slots", { 65536, 1 }, 1000 },
	{ "2 levels of 8 slots, tick 1 day", { 8, 2 }, 86400 * NSEC_PER_SEC },
	{ "2 levels of 2 slots, tick 7 ns", { 2, 2 }, 7 },
	{ "3 levels of 4 slots, tick almost 1 s", { 4, 3 }, 999999937 },
	{ "4 levels of 256 slots", { 256, 4 }, NSEC_PER_MSEC },
	{ "4 levels of 256 slots, tick 1 ns", { 256, 4 }, 1 },
	{ "3 levels, 50 slots asked for", { 64, 3 }, 333333, .asked = 50 },
	{ "8 levels of 16 slots", { 16, 8 }, 1000 },
	{ "8 levels of 2 slots, tick 3 ns", { 2, 8 }, 3 },
};

static void geometry_desc(const struct geometry *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

/* A tick of the wall clock must be longer than SLOP. */
static const struct geometry wall_geometries[] = {
	{ "1 level of 2 slots", { 2, 1 }, NSEC_PER_MSEC },
	{ "1 level of 65536 slots", { 65536, 1 }, 50000 },
	{ "3 levels of 4 slots, tick almost 1 s", { 4, 3 }, 999999937 },
	{ "3 levels of 8 slots, tick 1 day", { 8, 3 }, 86400 * NSEC_PER_SEC },
	{ "4 levels of 256 slots", { 256, 4 }, NSEC_PER_MSEC },
	{ "8 levels of 4 slots", { 4, 8 }, 333333 },
};

/* All geometries, repeated @rounds times. One long case might exceed KUnit's time limit. */
static const void *geometry_gen_params(TWHEEL_GENERATOR_ARGS)
{
	const struct geometry *g = clock_is_simulated() ? wall_geometries : geometries;
	unsigned int kinds = clock_is_simulated() ? ARRAY_SIZE(wall_geometries) :
						    ARRAY_SIZE(geometries);
	static unsigned int nr;

	if (!prev)
		nr = 0;
	if (nr == rounds * kinds)
		return NULL;
	g += nr++ % kinds;
	geometry_desc(g, desc);
	return g;
}

/* Workers run in a repeatable order only on one CPU without preemption. */
static bool workers_are_deterministic(void)
{
	return num_possible_cpus() == 1 && !IS_ENABLED(CONFIG_PREEMPTION);
}

/* Each kind of operation has been carried out in each context that allows it. */
static void expect_all_met(struct kunit *test, const struct model *m)
{
	u32 deed, from;

	for (deed = 0; deed <= SET_CLOCK; deed++) {
		for (from = 0; from < NR_CONTEXTS; from++) {
			if (from == FROM_WORKER && !workers_are_deterministic())
				continue;
			if (from == FROM_STOP || (deed == EXTEND && from != FROM_CALLBACK))
				continue;
			KUNIT_EXPECT_GT_MSG(test, m->met[deed][from], 0U,
					    "operation %u from context %u", deed, from);
		}
	}
}

static void expect_cpus_changed(struct kunit *test, const struct model *m)
{
	bool many = m->program->cpus > 1;

	KUNIT_EXPECT_EQ(test, many, !!m->met[MIGRATE][FROM_TEST]);
	KUNIT_EXPECT_EQ(test, many && IS_ENABLED(CONFIG_HOTPLUG_CPU),
			!!m->met[HOTPLUG][FROM_TEST]);
}

static void random_programs_agree_with_the_model(struct kunit *test)
{
	struct model *m = test->priv;
	u64 program_seed = seed ?: get_random_u64();
	static bool failed;
	u32 programs = 0;

	if (failed && once) {
		kunit_skip(test, "a program has failed");
		return;
	}
	kunit_info(test, "seed=%llu steps=%u\n", program_seed, steps);
	m->patience = PATIENCE;
	m->operations = 0;
	m->calls = 0;
	m->latest = 0;
	memset(m->met, 0, sizeof(m->met));
	m->lockdep = debug_locks;
	do {
		write_program(m->program, test->param_value, program_seed, length,
			      workers_are_deterministic());
		if (!run_program(m)) {
			report(test, m, program_seed);
			failed = true;
			return;
		}
		program_seed++;
		programs++;
	} while (m->operations < steps);
	kunit_info(test, "%llu operations in %u programs, %llu calls\n", m->operations, programs,
		   m->calls);
	if (clock_is_simulated())
		kunit_info(test, "at most %llu ns late\n", m->latest);
	KUNIT_EXPECT_GT(test, m->calls, m->operations / 100);
	if (steps >= 1000)
		expect_cpus_changed(test, m);
	if (steps >= 20000)
		expect_all_met(test, m);
}

static struct kunit_case combination_cases[] = {
	KUNIT_CASE_PARAM(random_programs_agree_with_the_model, geometry_gen_params),
	{}
};

/*
 * Right after boot, timers still wait for the next tick. Random numbers take time until the kernel
 * has gathered enough entropy from interrupts, and each new worker needs one.
 */
static void end_boot(void)
{
	msleep(100);
	while (!rng_is_initialized())
		sleep_ns(NSEC_PER_USEC);
}

static int combination_init(struct kunit *test)
{
	struct model *m = vzalloc(sizeof(*m));

	if (!m)
		return -ENOMEM;
	test->priv = m;
	if (clock_is_simulated())
		end_boot();
	m->right = wall() - monotonic();
	hrtimer_setup(&m->prod, do_nothing, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	m->program = vzalloc(sizeof(*m->program));
	if (!m->program)
		return -ENOMEM;
	init_completion(&m->waiter.go);
	m->waiter.task = kthread_run(waiter_thread, m, "kunit-waiter");
	if (IS_ERR(m->waiter.task))
		return PTR_ERR(m->waiter.task);
	return set_cpus_allowed_ptr(current, cpumask_of(0));
}

static void combination_exit(struct kunit *test)
{
	struct model *m = test->priv;

	if (!m)
		return;
	if (!IS_ERR_OR_NULL(m->waiter.task)) {
		m->waiter.deed = NR_DEEDS;
		complete(&m->waiter.go);
		kthread_stop(m->waiter.task);
	}
	hrtimer_cancel(&m->prod);
	if (clock_is_simulated())
		set_wall(monotonic() + m->right);
	vfree(m->program);
	vfree(m);
}

static struct kunit_suite combination_suite = {
	.name = "twheel-combination",
	.init = combination_init,
	.exit = combination_exit,
	.test_cases = combination_cases,
};

module_test_suite(combination_suite);

MODULE_DESCRIPTION("KUnit suite of random programs on a timing wheel, against a model");
MODULE_LICENSE("GPL");
