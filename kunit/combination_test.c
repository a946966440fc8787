// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that combines all features of a wheel: random programs, compared with a model
 * that predicts every result.
 *
 * combination.h describes the programs. The wheel is on the MANUAL clock, or on REALTIME where
 * the clock is simulated. Each of the following updates the model beside its call of the wheel, and
 * only one acts at a time:
 *
 *	the test	operations from outside. In twheel_advance() it calls the callbacks
 *			and the sink
 *	the wheel	REALTIME: callbacks in its thread and the sink in the soft interrupt or
 *			the thread, while the test sleeps
 *	a work		struct twheel_work: its function waits until the test lets it run, and
 *			the test waits for its end
 *	the helper	a FIFO thread for calls that callbacks must not make: twheel_stop(),
 *			twheel_cancel_sync(), twheel_shutdown(), twheel_flush(), a step of the
 *			clock. A callback or sink wakes it when it ends. Without preemption, on
 *			one CPU, it then runs before the next callback, or between two turns of
 *			a sink. So it meets the wheel in the middle of a pass. Elsewhere there is
 *			no helper, and works carry out no operations
 *
 * With several CPUs, the wheel has a shard for each. The test then moves from CPU to CPU, takes
 * CPUs offline, and brings them back. An advance visits the shards in order, so a callback may
 * arm a timeout in a shard that has not seen the new time yet.
 *
 * The model of a shard is a sorted list: by tick, first in first out within a tick. A timeout that
 * fires must be the head of the list. On MANUAL the model knows each tick, level and slot, with
 * two exceptions. Within a pass the cursor is not known, and so the tick that slack gets. The
 * level of a timeout is not known if its slot may have cascaded early.
 *
 * On REALTIME the list is sorted by deadline, and slack has no effect. The test really sets the
 * clock, or lets it run. The simulated clock stands still while any task can run, so the model
 * knows the time of each call to the nanosecond. The order is checked for timeouts that were
 * armed before the test slept, without a backward step since. When the wheel rests, all
 * deadlines before the last LATENCY_NS must have been met.
 *
 * A failing program is shrunk: operations are removed as long as it still fails. The suite
 * prints the remaining operations, and the seed. To play one program again, in each
 * geometry:
 *
 *	twheel_combination_kunit.seed=SEED twheel_combination_kunit.steps=1
 */
#include <linux/completion.h>
#include <linux/debug_locks.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "audit.h"
#include "combination.h"
#include "suite.h"
#include "wall.h"

static unsigned int steps = 20000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per case");

static unsigned int rounds = 1;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "Number of times that each case is run");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Seed of the first program (0: random)");

static bool once;
module_param(once, bool, 0444);
MODULE_PARM_DESC(once, "Stop at the first program that fails, and do not shrink it (N)");

#define NR_SHARDS	8
#define NR_MODEL_SLOTS	1024
#define NR_BLOCKS	4096
#define SHRINK_RUNS	1000
#define MAX_WAIT	(30 * HZ)

/* The contract of a crowded slot: its size, and how long before its block it may cascade. */
#define BATCH		128
#define LEAD		((u64)NSEC_PER_SEC)

/*
 * The simulated clock runs for at most this long in an advance, and in all advances of a program.
 * It is set where it would have to run longer.
 */
#define MAX_SLEEP_NS	(50 * (u64)NSEC_PER_MSEC)
#define MAX_TOTAL_SLEEP_NS	(NSEC_PER_SEC / 2)

/*
 * The simulated clock event device needs up to 757 ns from the time that a timer is due. A call
 * may need several of them. A new seed for random numbers takes another 1024 ns.
 */
#define LATENCY_NS	4000

/* The range of times that the wall clock is set to. It cannot be set before the boot. */
#define WALL_MIN	(86400 * (u64)NSEC_PER_SEC)
#define WALL_MAX	((TIME_SETTOD_SEC_MAX - 1) * (u64)NSEC_PER_SEC)

/* Where an operation is carried out. */
enum context {
	FROM_TEST,
	FROM_CALLBACK,
	FROM_WORK,
	FROM_STOP,
	NR_CONTEXTS,
};

/* A timeout and its state in the model. */
struct model_timeout {
	struct twheel_work	tw;		/* without a work, tw.t alone is used */
	struct model		*m;
	void			(*queue)(struct twheel_timeout *t);	/* with a work: queues it */
	bool			pending;
	bool			taken;		/* in the batch of a sink */
	bool			running;	/* its callback, or it is being handed back */
	bool			shutdown;
	bool			used_by_helper;	/* the helper is in a call for it */
	bool			before_sleep;	/* REALTIME: armed before the test slept */
	bool			may_operate;	/* its work has not carried out operations yet */
	u32			queued, ran;	/* expiries and runs since the last flush_work() */
	struct completion	go;		/* lets its work run */
	u32			home;		/* CPU of its shard */
	u64			expires;
	u64			key;		/* tick at which it fires; REALTIME: @expires */
	u32			epoch;		/* backward steps before it was armed */
	struct list_head	node;		/* in the list of its shard */
};

/* The thread for calls that callbacks must not make. */
struct helper {
	struct task_struct	*task;		/* NULL if threads do not run in a known order */
	struct completion	go, done;
	const struct operation	*op;
	struct model_timeout	*timeout;	/* argument of the call */
	bool			asked;		/* by a callback that has not ended */
	bool			busy;		/* the test has not noticed the end of the call */
	bool			waits;		/* for the callback of @timeout */
	bool			got, want;
};

struct shard {
	struct list_head	list;		/* of pending timeouts, in the order of expiry */
	u32			nr;
	u64			cursor;		/* MANUAL: arms are for later ticks */
	bool			after_visit;	/* armed since the advance has visited it */
};

/* A slot of the wheel, with a timeout in it. */
struct model_slot {
	struct model_timeout	*timeout;
	u32			level, slot, nr;
};

/* The wheel as it must be. Counters have the names of those in struct twheel_counters. */
struct model {
	struct program		*program;
	struct twheel		*wheel, *other;
	u64			clock_offset;	/* wall clock minus monotonic clock, at first */
	struct helper		helper;
	u64			operations, calls;
	u64			early_cascades;	/* timeouts met whose slot had cascaded early */
	u32			nr_run[NR_OPCODES][NR_CONTEXTS];
	bool			lockdep;
	u32			pc;		/* next operation; reset() clears from here on */
	u32			skipped;	/* callbacks that have been let pass before it */
	int			visited_shard;	/* in an advance: the last shard to begin, or -1 */
	bool			no_operations;	/* callbacks carry out no operations */
	bool			stopped, other_stopped;
	u64			now;
	u64			slept_ns;	/* REALTIME: how long the clock ran in advances */
	u32			nr_steps, epoch;	/* all and backward steps of REALTIME */
	u64			armed, rearmed, cancelled, fired, extended, handed_back;
	struct model_timeout	*works[NR_TIMEOUTS];	/* queued, in this order */
	u32			nr_works;
	const char		*mismatch;	/* the first disagreement */
	u32			at_op;		/* its operation */
	int			at_timeout;	/* its timeout, or -1 */
	u64			got, want;
	struct shard		shards[NR_SHARDS];
	u16			block_arms[NR_BLOCKS];	/* arms by block: an upper bound */
	struct model_slot	slots[NR_MODEL_SLOTS];
	u32			occupied[12];	/* slots by level */
	struct twheel_timeout	*array[NR_TIMEOUTS];
	u64			deadlines[NR_TIMEOUTS];
	struct model_timeout	timeouts[NR_TIMEOUTS];
};

static void compare(struct model *m, const struct model_timeout *p, const char *what, u64 got,
		    u64 want)
{
	if (likely(got == want) || m->mismatch)
		return;
	m->mismatch = what;
	m->at_op = m->pc - 1;
	m->at_timeout = p ? p - m->timeouts : -1;
	m->got = got;
	m->want = want;
}

static void compare_range(struct model *m, const struct model_timeout *p, const char *what, u64 got,
			  u64 lo, u64 hi)
{
	compare(m, p, what, got, clamp(got, lo, max(lo, hi)));
}

/* Does one thread after the other run, in the same order each time? */
static bool is_deterministic(void)
{
	return num_possible_cpus() == 1 && !IS_ENABLED(CONFIG_PREEMPTION);
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

static u64 tick_ns(const struct model *m, u64 tick)
{
	return tick > floor_tick(m, CLOCK_END) ? CLOCK_END : tick * m->program->geometry->tick_ns;
}

static u64 sum_ns(u64 a, u64 b)
{
	return a > CLOCK_END - min(b, CLOCK_END) ? CLOCK_END : a + b;
}

/* Read the clock, if it may have moved by itself. */
static void update_now(struct model *m)
{
	if (clock_is_simulated())
		m->now = realtime_ns();
}

/* The time @delta ns from now, clamped to the range of the clock. */
static u64 time_at(const struct model *m, s64 delta)
{
	if (delta < 0)
		return m->now - min(m->now, (u64)-delta);
	return sum_ns(m->now, delta);
}

static u64 op_deadline(const struct model *m, const struct operation *op)
{
	return op->delta == INVALID ? CLOCK_END + 1 : time_at(m, op->delta);
}

static u64 op_delay(const struct operation *op)
{
	return op->delta == INVALID ? CLOCK_END + 1 : abs(op->delta);
}

static void step_clock(struct model *m, u64 ns)
{
	update_now(m);
	m->epoch += ns < m->now;
	m->nr_steps++;
	set_realtime(ns);
	update_now(m);
}

/* Pending timeouts */

static struct model_timeout *first_timeout(struct shard *s)
{
	return list_first_entry_or_null(&s->list, struct model_timeout, node);
}

static u32 block_arms_index(u32 level, u64 block)
{
	return hash_64(block * 12 + level, ilog2(NR_BLOCKS));
}

/* Does a slot have to cascade by @tick, if it is crowded? */
static bool must_cascade_by(const struct model *m, u32 level, u64 block, u64 tick)
{
	u32 bits = level_shift(m->program->geometry, level);
	u64 lead = min(ceil_tick(m, LEAD), 1ULL << bits);

	return max((block << bits) - lead, 1ULL) <= tick;
}

/*
 * A pending timeout may lie below the level of its tick only if all slots on the way have been
 * crowded, and due to cascade.
 */
static bool may_be_on_level(const struct model *m, const struct model_timeout *p, u32 level,
			    u64 cursor)
{
	const struct geometry *g = m->program->geometry;
	u32 top = level_of(g, p->key, cursor);
	u64 block;

	for (; level < top; level++) {
		block = p->key >> level_shift(g, level + 1);
		if (m->block_arms[block_arms_index(level + 1, block)] < BATCH ||
		    !must_cascade_by(m, level + 1, block, cursor))
			return false;
	}
	return level == top;
}

/* Compare the position of @p, which is pending. No pass of its shard is in progress. */
static void compare_position(struct model *m, struct model_timeout *p, struct twheel_position *pos)
{
	const struct geometry *g = m->program->geometry;
	u64 cursor = m->shards[p->home].cursor;

	if (!twheel_position(&p->tw.t, pos)) {
		compare(m, p, "in a slot", false, true);
		return;
	}
	compare(m, p, "tick", pos->tick, p->key);
	compare(m, p, "CPU", pos->cpu, p->home);
	compare(m, p, "cursor", pos->cursor, cursor);
	if (!may_be_on_level(m, p, pos->level, cursor))
		compare(m, p, "level", pos->level, level_of(g, p->key, cursor));
	m->early_cascades += pos->level != level_of(g, p->key, cursor);
	compare(m, p, "slot", pos->slot,
		p->key >> level_shift(g, pos->level) & (slots_of(g, pos->level) - 1));
}

/* The tick from @lo to @hi that is a multiple of the highest power of two. */
static u64 roundest_tick(u64 lo, u64 hi)
{
	int bit;

	for (bit = 62; bit > 0; bit--) {
		u64 tick = (lo + (1ULL << bit) - 1) >> bit << bit;

		if (tick <= hi && tick >= lo)
			return tick;
	}
	return lo;
}

/* The tick that a wheel at rest chooses: an occupied slot if all are near, or a round tick. */
static u64 slack_tick(const struct model *m, const struct shard *s, u64 lo, u64 hi)
{
	const struct geometry *g = m->program->geometry;
	u32 bits = level_shift(g, 1);
	u64 best = U64_MAX;
	struct model_timeout *p;

	if (lo >> bits == hi >> bits && lo >> bits == s->cursor >> bits) {
		list_for_each_entry(p, &s->list, node) {
			u64 tick = g->hashed ? (lo >> bits << bits) | (p->key & (g->slots - 1)) :
					       p->key;

			if (tick >= lo && tick <= hi)
				best = min(best, tick);
		}
	}
	return best != U64_MAX ? best : roundest_tick(lo, hi);
}

static void choose_tick(struct model *m, struct model_timeout *p, u64 slack)
{
	struct shard *s = &m->shards[p->home];
	bool in_pass = m->visited_shard == p->home;
	struct twheel_position pos;
	u32 level, bits;
	u64 lo, hi;

	s->after_visit |= m->visited_shard > (int)p->home;
	if (!s->nr && !in_pass)
		s->cursor = max(s->cursor, floor_tick(m, m->now));
	lo = max(ceil_tick(m, p->expires), s->cursor + 1);
	hi = max(lo, floor_tick(m, sum_ns(p->expires, slack)));
	p->key = lo;
	if (!in_pass && slack)
		p->key = slack_tick(m, s, lo, hi);
	if (in_pass && twheel_position(&p->tw.t, &pos)) {
		compare_range(m, p, "tick in a pass", pos.tick, lo, hi);
		p->key = pos.tick;
	}
	for (level = 1; (bits = level_shift(m->program->geometry, level)) < 64; level++)
		m->block_arms[block_arms_index(level, p->key >> bits)]++;
}

/* The wheel has enqueued @p: put it into the list, after those with the same key. */
static void model_enqueue(struct model *m, struct model_timeout *p, u64 expires, u64 slack)
{
	struct shard *s = &m->shards[p->home];
	struct twheel_position pos;
	struct model_timeout *q;

	p->expires = expires;
	p->key = expires;
	p->epoch = m->epoch;
	p->before_sleep = false;
	p->pending = true;
	if (!clock_is_simulated())
		choose_tick(m, p, slack);
	list_for_each_entry_reverse(q, &s->list, node)
		if (q->key <= p->key)
			break;
	list_add(&p->node, &q->node);
	s->nr++;
	if (!clock_is_simulated() && m->visited_shard != p->home)
		compare_position(m, p, &pos);
}

static void model_dequeue(struct model *m, struct model_timeout *p)
{
	p->pending = false;
	list_del(&p->node);
	m->shards[p->home].nr--;
}

static bool model_cancel(struct model *m, struct model_timeout *p)
{
	if (!p->pending)
		return false;
	model_dequeue(m, p);
	m->cancelled++;
	return true;
}

/* Operations on one timeout */

static int call_arm(struct model *m, struct model_timeout *p, const struct operation *op,
		    u64 expires)
{
	struct twheel_timeout *t = &p->tw.t;

	switch (op->opcode) {
	case ARM_SLACK:
		return twheel_arm_slack(t, expires, op->extra);
	case ARM_AFTER:
		return twheel_arm_after(t, op_delay(op));
	case MOD:
		return twheel_mod(t, expires);
	case MOD_SLACK:
		return twheel_mod_slack(t, expires, op->extra);
	case EXTEND:
		return twheel_extend(t, expires, op->extra);
	default:
		return twheel_arm(t, expires);
	}
}

static int expected_result(const struct model *m, const struct model_timeout *p,
			   const struct operation *op, u64 expires, u64 slack)
{
	bool move = op->opcode == MOD || op->opcode == MOD_SLACK;

	if (expires > CLOCK_END || slack > CLOCK_END ||
	    (op->opcode == ARM_AFTER && clock_is_simulated()))
		return -EINVAL;
	if ((p->taken && op->opcode != EXTEND) || (p->pending && !move))
		return -EBUSY;
	if (m->stopped || p->shutdown)
		return -ESHUTDOWN;
	return p->pending;
}

/* Arm, move or extend. */
static void do_arm(struct model *m, struct model_timeout *p, const struct operation *op,
		   u64 expires)
{
	bool slack = op->opcode == ARM_SLACK || op->opcode == MOD_SLACK || op->opcode == EXTEND;
	int want = expected_result(m, p, op, expires, slack ? op->extra : 0);

	compare(m, p, "arm or move", call_arm(m, p, op, expires), want);
	if (want < 0 || m->mismatch)
		return;
	if (p->pending) {
		model_dequeue(m, p);
		m->cancelled++;
		m->rearmed++;
	} else if (!p->running && op->opcode != EXTEND) {
		p->home = raw_smp_processor_id();
	}
	if (op->opcode == EXTEND) {
		p->taken = false;
		m->fired--;
		m->extended++;
	} else {
		m->armed++;
	}
	model_enqueue(m, p, expires, slack ? op->extra : 0);
}

static void do_forward(struct model *m, struct model_timeout *p, const struct operation *op)
{
	u64 interval = clamp(op->extra, 1ULL, CLOCK_END >> 6), nr = 0;

	if (p->pending || p->taken)
		return;
	if (m->now >= p->expires)
		nr = div64_u64(m->now - p->expires, interval) + 1;
	compare(m, p, "forward", twheel_forward(&p->tw.t, m->now, interval), nr);
	p->expires = min(p->expires + nr * interval, CLOCK_END);
	compare(m, p, "deadline after forward", p->tw.t.expires, p->expires);
	do_arm(m, p, op, p->tw.t.expires);
}

static void do_try_cancel(struct model *m, struct model_timeout *p)
{
	int want = p->taken || p->running ? -EBUSY : model_cancel(m, p);

	compare(m, p, "try_cancel", twheel_try_cancel(&p->tw.t), want);
}

/* May wait for the callback of @p, which is running if @waits. */
static bool call_sync(struct model *m, struct model_timeout *p, enum opcode opcode, bool waits,
		      bool *want)
{
	bool got;

	*want = model_cancel(m, p);
	p->shutdown |= opcode == SHUTDOWN;
	got = opcode == SHUTDOWN ? twheel_shutdown(&p->tw.t) : twheel_cancel_sync(&p->tw.t);
	/* It may have been armed again meanwhile. */
	if (waits)
		*want |= model_cancel(m, p);
	return got;
}

/* Let the helper make the call of @op when the callback has ended. */
static void ask_helper(struct model *m, struct model_timeout *p, const struct operation *op)
{
	struct helper *h = &m->helper;

	if (!h->task || h->busy)
		return;
	h->op = op;
	h->timeout = p;
	h->waits = false;
	h->asked = true;
	h->busy = true;
	p->used_by_helper = op->opcode == CANCEL_SYNC || op->opcode == SHUTDOWN;
}

static void do_sync(struct model *m, struct model_timeout *p, const struct operation *op,
		    enum context from)
{
	bool got, want;

	/* On REALTIME, the thread may go on before the helper looks again. */
	if (from == FROM_CALLBACK && clock_is_simulated()) {
		do_try_cancel(m, p);
	} else if (from == FROM_CALLBACK) {
		ask_helper(m, p, op);
	} else {
		got = call_sync(m, p, op->opcode, false, &want);
		compare(m, p, "cancel_sync or shutdown", got, want);
	}
}

/* Works share a lockdep class, so one must not wait for another. */
static void do_cancel_work(struct model *m, struct model_timeout *p, enum context from)
{
	bool got, want;

	if (!p->queue || from == FROM_CALLBACK || from == FROM_WORK)
		return;
	want = model_cancel(m, p);
	p->may_operate = false;
	complete_all(&p->go);
	got = twheel_cancel_work_sync(&p->tw);
	/* The work may have begun. */
	if (!p->queued || want)
		compare(m, p, "cancel_work_sync", got, want);
	p->queued = 0;
	p->ran = 0;
	reinit_completion(&p->go);
}

/* Operations on lists */

static struct model_timeout *list_timeout(struct model *m, u32 first, u32 i)
{
	return &m->timeouts[(first + i) % NR_TIMEOUTS];
}

static void do_arm_list(struct model *m, u32 first, const struct operation *op)
{
	u64 expires = min(op_deadline(m, op), CLOCK_END);
	u32 nr = 0, i, armed;
	struct model_timeout *p;

	for (i = 0; i < op->nr; i++) {
		p = list_timeout(m, first, i);
		if (p->pending || p->taken || p->running || p->shutdown || p->used_by_helper)
			continue;
		p->expires = sum_ns(expires, i * op->extra);
		p->tw.t.expires = p->expires;
		m->array[nr++] = &p->tw.t;
	}
	armed = twheel_arm_list(m->wheel, m->array, nr);
	compare(m, NULL, "arm_list", armed, m->stopped ? 0 : nr);
	for (i = 0; i < armed && !m->stopped; i++) {
		p = container_of(m->array[i], struct model_timeout, tw.t);
		p->home = raw_smp_processor_id();
		m->armed++;
		model_enqueue(m, p, p->expires, 0);
	}
}

static void do_mod_list(struct model *m, u32 first, const struct operation *op)
{
	u64 expires = min(op_deadline(m, op), CLOCK_END);
	u32 i, moved, want;
	struct model_timeout *p;

	for (i = 0; i < op->nr; i++) {
		m->array[i] = &list_timeout(m, first, i)->tw.t;
		m->deadlines[i] = sum_ns(expires, i * op->extra);
	}
	for (want = 0; want < op->nr && !m->stopped; want++)
		if (!list_timeout(m, first, want)->pending)
			break;
	moved = twheel_mod_list(m->array, m->deadlines, op->nr);
	compare(m, NULL, "mod_list", moved, want);
	for (i = 0; i < want && !m->mismatch; i++) {
		p = list_timeout(m, first, i);
		model_dequeue(m, p);
		m->armed++;
		m->cancelled++;
		m->rearmed++;
		model_enqueue(m, p, m->deadlines[i], 0);
	}
}

static void do_cancel_list(struct model *m, u32 first, const struct operation *op)
{
	u32 i, want = 0, got;
	struct model_timeout *p;

	for (i = 0; i < op->nr; i++)
		m->array[i] = &list_timeout(m, first, i)->tw.t;
	got = twheel_cancel_list(m->array, op->nr);
	for (i = 0; i < op->nr; i++) {
		p = list_timeout(m, first, i);
		compare(m, p, "member after cancel_list", (long)m->array[i],
			p->pending ? (long)&p->tw.t : 0);
		want += model_cancel(m, p);
	}
	compare(m, NULL, "cancel_list", got, want);
}

/* The memory of a timeout may be used again when nothing refers to it. */

static bool may_be_reused(const struct model_timeout *p)
{
	return !p->pending && !p->taken && !p->used_by_helper && !p->queued;
}

static void timeout_fn(struct twheel_timeout *t);
static void work_fn(struct work_struct *work);

static void init_timeout(struct model *m, struct model_timeout *p, bool with_work)
{
	/* The owner may free the memory, and another may have used it. */
	memset(&p->tw, 0xa5, sizeof(p->tw));
	p->queue = NULL;
	if (m->program->sink) {
		twheel_timeout_init(m->wheel, &p->tw.t, NULL);
	} else if (with_work) {
		twheel_work_init(m->wheel, &p->tw, work_fn);
		p->queue = p->tw.t.fn;
		p->tw.t.fn = timeout_fn;
	} else {
		twheel_timeout_init(m->wheel, &p->tw.t, timeout_fn);
	}
	p->home = raw_smp_processor_id();
	p->expires = 0;
	p->running = false;
	p->shutdown = false;
}

/* A function to which one wheel hands timeouts back may stop another. */
static void do_other_wheel(struct model *m, struct model_timeout *p, enum context from)
{
	bool with_work = p->queue;

	if (!may_be_reused(p))
		return;
	twheel_timeout_init(m->other, &p->tw.t, timeout_fn);
	compare(m, p, "arm in another wheel", twheel_arm(&p->tw.t, CLOCK_END),
		m->other_stopped ? -ESHUTDOWN : 0);
	compare(m, p, "cancel there", twheel_cancel(&p->tw.t), !m->other_stopped);
	if (from == FROM_STOP) {
		m->other_stopped = true;
		twheel_stop(m->other, NULL, NULL);
	}
	init_timeout(m, p, with_work);
}

static void do_query(struct model *m, struct model_timeout *p, enum context from)
{
	u64 want = p->pending && p->expires > m->now ? p->expires - m->now : 0;

	compare(m, p, "remaining_ns", twheel_remaining_ns(&p->tw.t), want);
	compare(m, p, "pending", twheel_pending(&p->tw.t), p->pending);
	if (clock_is_simulated())
		return;
	compare(m, NULL, "now", twheel_now(m->wheel), m->now);
	if (from == FROM_CALLBACK)
		compare(m, NULL, "advance in a callback", twheel_advance(m->wheel, 0), -EDEADLK);
}

static u64 clamp_realtime(u64 ns)
{
	return clamp(ns, WALL_MIN, WALL_MAX);
}

/* FLUSH, STEP and STOP, but not those that the test itself makes: run_test_operation(). */
static void do_by_helper(struct model *m, struct model_timeout *p, const struct operation *op,
			 enum context from)
{
	if (from == FROM_CALLBACK && (op->opcode != STEP || clock_is_simulated()))
		ask_helper(m, p, op);
	else if (op->opcode == STEP && clock_is_simulated())
		step_clock(m, clamp_realtime(time_at(m, op->delta)));
	else if (op->opcode == FLUSH && from != FROM_STOP)
		twheel_flush(m->wheel);
}

static void run_operation(struct model *m, const struct operation *op, enum context from,
			  struct model_timeout *self)
{
	struct model_timeout *p = op->timeout == SELF ? self ?: m->timeouts :
		&m->timeouts[op->timeout];

	m->operations++;
	m->nr_run[op->opcode][from]++;
	update_now(m);
	switch (op->opcode) {
	case ARM ... ARM_AFTER:
	case MOD ... MOD_SLACK:
		do_arm(m, p, op, op->opcode == ARM_AFTER && op->delta != INVALID ?
		       sum_ns(m->now, op_delay(op)) : op_deadline(m, op));
		break;
	case EXTEND:
		if (p->taken && p == self)
			do_arm(m, p, op, op_deadline(m, op));
		break;
	case FORWARD:
		do_forward(m, p, op);
		break;
	case ARM_LIST:
		do_arm_list(m, p - m->timeouts, op);
		break;
	case MOD_LIST:
		do_mod_list(m, p - m->timeouts, op);
		break;
	case CANCEL_LIST:
		do_cancel_list(m, p - m->timeouts, op);
		break;
	case CANCEL:
		compare(m, p, "cancel", twheel_cancel(&p->tw.t), model_cancel(m, p));
		break;
	case TRY_CANCEL:
		do_try_cancel(m, p);
		break;
	case CANCEL_SYNC:
	case SHUTDOWN:
		do_sync(m, p, op, from);
		break;
	case CANCEL_WORK:
		do_cancel_work(m, p, from);
		break;
	case REINIT:
		if (may_be_reused(p))
			init_timeout(m, p, !(op->nr % 4));
		break;
	case OTHER_WHEEL:
		do_other_wheel(m, p, from);
		break;
	case QUERY:
		do_query(m, p, from);
		break;
	case FLUSH:
	case STEP:
	case STOP:
		do_by_helper(m, p, op, from);
		break;
	}
}

/* Callbacks, sinks, works and the hand-back */

static void accept_timeout(struct model_timeout *p)
{
	p->taken = false;
	twheel_accept(&p->tw.t);
}

/* The next operation of the program, if it belongs to @site and it is the turn of this call. */
static const struct operation *next_operation_at(struct model *m, enum site site)
{
	const struct operation *op = &m->program->list[m->pc];

	if (m->no_operations || m->mismatch || m->pc >= m->program->nr || op->site != site)
		return NULL;
	if (m->skipped < op->skip) {
		m->skipped++;
		return NULL;
	}
	m->skipped = 0;
	m->pc++;
	return op;
}

/* Carry out operations. The sink accepts @p before or after them. */
static void run_operations(struct model *m, struct model_timeout *p, enum site site,
			   enum context from)
{
	const struct operation *op;

	do {
		op = next_operation_at(m, site);
		if (p->taken && (!op || !(op->nr % 2 || op->opcode == EXTEND)))
			accept_timeout(p);
		if (op)
			run_operation(m, op, from, p);
	} while (op && op->more);
	if (p->taken)
		accept_timeout(p);
}

/* A callback or the sink ends: wake the helper if there is a call for it. */
static void wake_helper(struct model *m, const struct model_timeout *p)
{
	struct helper *h = &m->helper;

	if (!h->asked)
		return;
	h->asked = false;
	h->waits = h->timeout == p && p->running;
	complete(&h->go);
}

/* The advance has reached the shard of @cpu: those before it have nothing left to do. */
static void visit_shards(struct model *m, int cpu)
{
	struct model_timeout *p;
	int i;

	for (i = m->visited_shard + 1; i <= cpu && i < nr_cpu_ids; i++)
		m->shards[i].cursor = max(m->shards[i].cursor, floor_tick(m, m->now));
	for (i = max(m->visited_shard, 0); i < cpu; i++) {
		p = first_timeout(&m->shards[i]);
		if (p)
			compare_range(m, p, "late: tick", p->key, m->shards[i].cursor + 1, U64_MAX);
	}
	m->visited_shard = cpu;
}

/* REALTIME: is @p the next of those that were armed before the test slept? */
static void check_realtime_order(struct model *m, const struct model_timeout *p)
{
	struct model_timeout *q;

	if (!p->before_sleep || p->epoch != m->epoch)
		return;
	list_for_each_entry(q, &m->shards[p->home].list, node) {
		if (q == p)
			break;
		if (q->before_sleep && q->epoch == m->epoch)
			compare(m, p, "order: called before", p - m->timeouts, q - m->timeouts);
	}
}

/* The wheel calls @p, or passes it to the sink. */
static void check_expiry(struct model *m, struct model_timeout *p)
{
	const struct model_timeout *first;

	update_now(m);
	m->calls++;
	m->fired++;
	compare(m, p, "call after stop", m->stopped, false);
	compare(m, p, "call while pending", p->pending, true);
	compare_range(m, p, "early: deadline", p->expires, 0, m->now);
	if (m->mismatch)
		return;
	if (clock_is_simulated()) {
		check_realtime_order(m, p);
	} else {
		compare_range(m, p, "order of shards", p->home, max(m->visited_shard, 0), U64_MAX);
		if (m->visited_shard != p->home)
			visit_shards(m, p->home);
		first = first_timeout(&m->shards[p->home]);
		compare(m, p, "order: called", p - m->timeouts, first - m->timeouts);
	}
	model_dequeue(m, p);
}

static void timeout_fn(struct twheel_timeout *t)
{
	struct model_timeout *p = container_of(t, struct model_timeout, tw.t);
	struct model *m = p->m;

	check_expiry(m, p);
	p->running = true;
	if (p->queue) {
		if (!p->queued++) {
			p->may_operate = true;
			m->works[m->nr_works++ % NR_TIMEOUTS] = p;
		}
		p->queue(t);
	}
	run_operations(m, p, INSIDE, FROM_CALLBACK);
	wake_helper(m, p);
	p->running = false;
}

static void sink_fn(void *data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct model *m = data;
	struct model_timeout *p, *next;
	u32 count = 0;

	update_now(m);
	compare(m, NULL, "time of the batch", now_ns, m->now);
	compare_range(m, NULL, "size of the batch", nr, 1, BATCH);
	list_for_each_entry(p, expired, tw.t.entry) {
		check_expiry(m, p);
		p->taken = true;
		count++;
	}
	compare(m, NULL, "length of the batch", count, nr);
	list_for_each_entry_safe(p, next, expired, tw.t.entry) {
		list_del_init(&p->tw.t.entry);
		run_operations(m, p, INSIDE, FROM_CALLBACK);
	}
	wake_helper(m, NULL);
}

static void handed_back_fn(void *data, struct twheel_timeout *t)
{
	struct model_timeout *p = container_of(t, struct model_timeout, tw.t);
	struct model *m = data;

	compare(m, p, "handed back while pending", p->pending, true);
	if (m->mismatch)
		return;
	model_dequeue(m, p);
	m->handed_back++;
	p->running = true;
	run_operations(m, p, INSIDE, FROM_STOP);
	p->running = false;
}

static void stop(struct model *m)
{
	u32 i;

	m->stopped = true;
	twheel_stop(m->wheel, handed_back_fn, m);
	for (i = 0; i < nr_cpu_ids; i++)
		compare(m, first_timeout(&m->shards[i]), "not handed back", m->shards[i].nr, 0);
}

static void work_fn(struct work_struct *work)
{
	struct model_timeout *p = container_of(work, struct model_timeout, tw.work);

	wait_for_completion(&p->go);
	p->ran++;
	if (p->may_operate && is_deterministic()) {
		p->may_operate = false;
		run_operations(p->m, p, WORK, FROM_WORK);
	}
}

/* Let the works run, one after the other. */
static void flush_works(struct model *m)
{
	struct model_timeout *p;
	u32 i;

	for (i = 0; i < m->nr_works; i++) {
		p = m->works[i % NR_TIMEOUTS];
		if (!p->queued)
			continue;
		complete_all(&p->go);
		flush_work(&p->tw.work);
		compare_range(m, p, "runs of the work", p->ran, 1, p->queued);
		p->queued = 0;
		p->ran = 0;
		reinit_completion(&p->go);
	}
	m->nr_works = 0;
}

/* The helper */

static void run_helper_call(struct model *m)
{
	struct helper *h = &m->helper;

	update_now(m);
	switch (h->op->opcode) {
	case STOP:
		stop(m);
		break;
	case FLUSH:
		twheel_flush(m->wheel);
		break;
	case STEP:
		step_clock(m, clamp_realtime(time_at(m, h->op->delta)));
		break;
	default:
		h->got = call_sync(m, h->timeout, h->op->opcode, h->waits, &h->want);
	}
}

static int helper_thread(void *data)
{
	struct helper *h = &((struct model *)data)->helper;

	for (;;) {
		wait_for_completion(&h->go);
		if (!h->op)
			break;
		run_helper_call(data);
		complete(&h->done);
	}
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static void wait_for_helper(struct model *m)
{
	struct helper *h = &m->helper;

	if (!h->busy)
		return;
	if (!wait_for_completion_timeout(&h->done, MAX_WAIT)) {
		compare(m, h->timeout, "the helper returns", false, true);
		return;
	}
	h->busy = false;
	h->timeout->used_by_helper = false;
	if (h->op->opcode == CANCEL_SYNC || h->op->opcode == SHUTDOWN)
		compare(m, h->timeout, "cancel_sync of the helper", h->got, h->want);
}

/* Checks of a wheel at rest */

static struct model_slot *find_model_slot(struct model *m, const struct model_timeout *p, u32 level,
					  u32 slot)
{
	u32 i = hash_64((u64)slot * 12 + level, ilog2(NR_MODEL_SLOTS));

	for (; m->slots[i].timeout; i = (i + 1) % NR_MODEL_SLOTS)
		if (m->slots[i].level == level && m->slots[i].slot == slot)
			break;
	return &m->slots[i];
}

/* The tick at which a shard must wake for a slot. */
static u64 wake_tick(const struct model *m, const struct model_slot *slot, u64 cursor)
{
	const struct geometry *g = m->program->geometry;
	u32 bits = level_shift(g, slot->level);

	if (slot->nr == 1)
		return slot->timeout->key;
	if (g->hashed)
		return cursor + 1 + ((slot->slot - (cursor + 1)) & (g->slots - 1));
	return slot->timeout->key >> bits << bits;
}

/* Compare all positions of a shard. Returns the tick of its next work. */
static u64 check_shard(struct model *m, struct shard *s, bool advanced)
{
	const struct geometry *g = m->program->geometry;
	struct twheel_position pos;
	struct model_slot *slot;
	struct model_timeout *p;
	u64 next = U64_MAX;
	u32 i;

	memset(m->slots, 0, sizeof(m->slots));
	list_for_each_entry(p, &s->list, node) {
		compare_position(m, p, &pos);
		if (m->mismatch)
			return 0;
		slot = find_model_slot(m, p, pos.level, pos.slot);
		*slot = (struct model_slot){ p, pos.level, pos.slot, slot->nr + 1 };
	}
	for (i = 0; i < NR_MODEL_SLOTS; i++) {
		slot = &m->slots[i];
		if (!slot->timeout)
			continue;
		m->occupied[slot->level]++;
		next = min(next, wake_tick(m, slot, s->cursor));
		if (advanced && !s->after_visit && !g->hashed && slot->level && slot->nr >= BATCH)
			compare(m, slot->timeout, "crowded slot has begun to cascade", false,
				must_cascade_by(m, slot->level, slot->timeout->key >>
						level_shift(g, slot->level), s->cursor));
	}
	return next;
}

static noinline void check_occupied(struct model *m)
{
	struct twheel_counters stats;
	u32 level;

	twheel_get_counters(m->wheel, &stats);
	for (level = 0; level < ARRAY_SIZE(stats.occupied); level++)
		compare(m, NULL, "occupied slots of a level", stats.occupied[level],
			m->occupied[level]);
}

/* Compare all positions, and twheel_next_expiry(). @advanced: directly after an advance. */
static void check_all(struct model *m, bool advanced)
{
	u64 next = U64_MAX, got;
	bool exact = true;
	u32 i;

	memset(m->occupied, 0, sizeof(m->occupied));
	for (i = 0; i < nr_cpu_ids && !m->mismatch; i++) {
		struct shard *s = &m->shards[i];

		if (!s->nr)
			continue;
		/* With very many slots to search, the wheel gives up and wakes earlier. */
		exact &= !m->program->geometry->hashed || s->nr < BATCH;
		if (clock_is_simulated())
			next = min(next, ceil_tick(m, first_timeout(s)->expires));
		else
			next = min(next, check_shard(m, s, advanced));
	}
	if (m->mismatch)
		return;
	if (!clock_is_simulated())
		check_occupied(m);
	got = twheel_next_expiry(m->wheel);
	compare_range(m, NULL, "next expiry", got, exact ? tick_ns(m, next) : 1, tick_ns(m, next));
}

static void check_stats(struct model *m)
{
	struct twheel_counters stats;
	u64 nr = 0;
	u32 i;

	if (m->mismatch)
		return;
	for (i = 0; i < nr_cpu_ids; i++)
		nr += m->shards[i].nr;
	twheel_get_counters(m->wheel, &stats);
	compare(m, NULL, "stats: pending", stats.pending, nr);
	compare(m, NULL, "stats: armed", stats.armed, m->armed);
	compare(m, NULL, "stats: rearmed", stats.rearmed, m->rearmed);
	compare(m, NULL, "stats: cancelled", stats.cancelled, m->cancelled);
	compare(m, NULL, "stats: fired", stats.fired, m->fired);
	compare(m, NULL, "stats: extended", stats.extended, m->extended);
	compare(m, NULL, "stats: stopped", stats.stopped, m->handed_back);
}

/* Advance */

/* REALTIME: sleep until the wheel has nothing to do, and is not about to begin. */
static void wait_until_idle(struct model *m)
{
	u64 length = m->program->geometry->tick_ns, calls, since;
	u32 nr_steps;

	do {
		calls = m->calls;
		nr_steps = m->nr_steps;
		sleep_ns(2 * LATENCY_NS);
		wait_for_helper(m);
		update_now(m);
		div64_u64_rem(m->now, length, &since);
	} while (!m->mismatch &&
		 (m->calls != calls || m->nr_steps != nr_steps || since < LATENCY_NS ||
				  length - since < LATENCY_NS));
}

/* REALTIME: let the clock run until @ns, or set it. */
static void run_clock_until(struct model *m, u64 ns)
{
	struct model_timeout *p;
	u64 sleep_time = LATENCY_NS;

	list_for_each_entry(p, &m->shards[0].list, node)
		p->before_sleep = true;
	ns = clamp_realtime(ns);
	if (ns < m->now || ns - m->now > MAX_SLEEP_NS || m->slept_ns > MAX_TOTAL_SLEEP_NS)
		step_clock(m, ns - (ns & 1 ? 0 : LATENCY_NS));
	if (ns > m->now)
		sleep_time += ns - m->now;
	m->slept_ns += sleep_time - LATENCY_NS;
	sleep_ns(sleep_time);
	wait_until_idle(m);
	list_for_each_entry(p, &m->shards[0].list, node)
		compare_range(m, p, "late: deadline", tick_ns(m, ceil_tick(m, p->expires)),
			      m->now - LATENCY_NS, U64_MAX);
}

/* A hashed wheel visits a slot with several timeouts in each round: limit the rounds. */
static u64 advance_target(const struct model *m, u64 ns)
{
	const struct geometry *g = m->program->geometry;

	if (!g->hashed || clock_is_simulated())
		return ns;
	return min(ns, sum_ns(m->now, 100 * g->slots * g->tick_ns));
}

static void do_advance(struct model *m, u64 ns)
{
	u32 i;

	ns = advance_target(m, ns);
	for (i = 0; i < nr_cpu_ids; i++)
		m->shards[i].after_visit = false;
	if (clock_is_simulated()) {
		run_clock_until(m, ns);
	} else {
		m->now = ns;
		m->visited_shard = -1;
		compare(m, NULL, "advance", twheel_advance(m->wheel, ns), 0);
		wait_for_helper(m);
		if (!m->stopped && !m->mismatch)
			visit_shards(m, nr_cpu_ids);
		m->visited_shard = -1;
	}
	if (!m->stopped)
		check_all(m, true);
	flush_works(m);
}

static void do_advance_to_next(struct model *m, const struct operation *op)
{
	u64 next = U64_MAX;
	struct model_timeout *p;
	u32 i;

	for (i = 0; i < nr_cpu_ids; i++) {
		p = first_timeout(&m->shards[i]);
		if (p)
			next = min(next, clock_is_simulated() ? ceil_tick(m, p->key) : p->key);
	}
	if (tick_ns(m, next) == CLOCK_END)
		do_advance(m, time_at(m, op->delta));
	else if (op->delta < 0)
		do_advance(m, tick_ns(m, next) - min_t(u64, -op->delta, tick_ns(m, next)));
	else
		do_advance(m, sum_ns(tick_ns(m, next), op->delta));
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
		m->nr_run[HOTPLUG][FROM_TEST]++;
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
static void run_test_operation(struct model *m, const struct operation *op)
{
	update_now(m);
	m->skipped = 0;
	switch (op->opcode) {
	case ADVANCE:
		do_advance(m, time_at(m, op->delta));
		break;
	case ADVANCE_TO_NEXT:
		do_advance_to_next(m, op);
		break;
	case STEP:
		do_advance(m, time_at(m, op->delta));
		break;
	case STOP:
		if (!m->stopped)
			stop(m);
		break;
	case MIGRATE:
		migrate_to(op->nr % m->program->cpus);
		break;
	case HOTPLUG:
		do_hotplug(m, op);
		return;
	default:
		run_operation(m, op, FROM_TEST, NULL);
		return;
	}
	m->operations++;
	m->nr_run[op->opcode][FROM_TEST]++;
}

static void finish_program(struct model *m)
{
	m->no_operations = true;
	update_now(m);
	if (!m->stopped)
		do_advance(m, m->now);
	check_stats(m);
	if (!m->mismatch)
		compare(m, NULL, "audit", twheel_audit(m->wheel), 0);
	if (!m->stopped)
		stop(m);
	check_stats(m);
	if (!m->mismatch)
		compare(m, NULL, "audit after stop", twheel_audit(m->wheel), 0);
	compare(m, NULL, "arm after stop", twheel_mod(&m->timeouts[0].tw.t, 0), -ESHUTDOWN);
}

/* End all that goes on, whether or not there was a fault. */
static void clean_up(struct model *m)
{
	u32 i;

	m->no_operations = true;
	wait_for_helper(m);
	/* The stop of a wheel with a fault may never end: leave it behind if nothing follows. */
	if (!m->mismatch || !once || clock_is_simulated()) {
		twheel_destroy(m->wheel);
		twheel_destroy(m->other);
	}
	for (i = 0; i < NR_TIMEOUTS; i++) {
		if (!m->timeouts[i].queue)
			continue;
		complete_all(&m->timeouts[i].go);
		cancel_work_sync(&m->timeouts[i].tw.work);
	}
	reset_cpus(m);
}

static bool make_wheels(struct model *m)
{
	const struct geometry *g = m->program->geometry;
	struct twheel_params params = {
		.name = "kunit-combination",
		.clock = clock_is_simulated() ? TWHEEL_REALTIME : TWHEEL_MANUAL,
		.tick_ns = g->tick_ns,
		.slots = g->asked ?: g->slots,
		.levels = g->hashed,
		.sink = m->program->sink ? sink_fn : NULL,
		.sink_data = m,
	};
	struct twheel_params other = { .clock = TWHEEL_MANUAL, .slots = 2 };

	m->wheel = twheel_create(&params);
	m->other = twheel_create(&other);
	return !IS_ERR(m->wheel) && !IS_ERR(m->other);
}

static void reset(struct model *m)
{
	u32 i;

	memset((void *)m + offsetof(struct model, pc), 0,
	       sizeof(*m) - offsetof(struct model, pc));
	m->visited_shard = -1;
	m->helper.busy = false;
	m->helper.asked = false;
	for (i = 0; i < NR_SHARDS; i++)
		INIT_LIST_HEAD(&m->shards[i].list);
	for (i = 0; i < NR_TIMEOUTS; i++) {
		m->timeouts[i].m = m;
		init_completion(&m->timeouts[i].go);
		init_timeout(m, &m->timeouts[i], !(i % 4));
	}
}

/* Returns true if wheel and model agree. */
static bool run_program(struct model *m)
{
	const struct operation *op;

	/* About the year 2006. A program that runs again begins at the same time. */
	if (clock_is_simulated())
		set_realtime((1ULL << 60) + hash_64(m->program->seed, 50));
	if (!make_wheels(m)) {
		twheel_destroy(m->wheel);
		twheel_destroy(m->other);
		m->mismatch = "no wheel";
		return false;
	}
	reset(m);
	while (m->pc < m->program->nr && !m->mismatch) {
		op = &m->program->list[m->pc++];
		run_test_operation(m, op);
		check_stats(m);
		if (!m->stopped && !(m->pc % 8))
			check_all(m, false);
		cond_resched();
	}
	if (!m->mismatch)
		finish_program(m);
	clean_up(m);
	compare(m, NULL, "lockdep has a report", m->lockdep && !debug_locks, false);
	return !m->mismatch;
}

/* Shrinking */

/* The search for a shorter program that fails. KUnit ends a case after 5 minutes. */
struct shrink_state {
	const char	*mismatch;
	u32		runs;
	unsigned long	end;
};

/* Make m->program the program @whole without the @nr operations from @from on, and run it. */
static bool fails_without(struct model *m, struct shrink_state *s, const struct program *whole,
			  u32 from, u32 nr)
{
	struct program *p = m->program;

	if (s->runs++ >= SHRINK_RUNS || time_after(jiffies, s->end))
		return false;
	p->nr = whole->nr - nr;
	memcpy(p->list, whole->list, from * sizeof(p->list[0]));
	memcpy(p->list + from, whole->list + from + nr, (p->nr - from) * sizeof(p->list[0]));
	return !run_program(m) && m->mismatch == s->mismatch;
}

/*
 * Leave the shortest failing program found in m->program: leave out large parts first, then
 * smaller and smaller ones.
 */
static void shrink(struct model *m)
{
	struct shrink_state s = { .mismatch = m->mismatch, .end = jiffies + 100 * HZ };
	struct program *whole;
	u32 size, from;

	/* Lockdep reports once, so a program that it found cannot be shrunk. */
	whole = m->lockdep && !debug_locks ? NULL : vmalloc(sizeof(*whole));
	if (!whole)
		return;
	m->program->nr = min(m->program->nr, m->pc);
	*whole = *m->program;
	for (size = max(whole->nr / 2, 1U); size; size /= 2) {
		for (from = 0; from + size <= whole->nr;) {
			if (fails_without(m, &s, whole, from, size))
				*whole = *m->program;
			else
				from += size;
		}
	}
	*m->program = *whole;
	vfree(whole);
	run_program(m);
}

static void report(struct kunit *test, struct model *m, u64 program_seed)
{
	if (!once) {
		kunit_info(test, "seed=%llu: operation %u: timeout %d: %s: %lld, not %lld, shrink\n",
			   program_seed, m->at_op, m->at_timeout, m->mismatch, (s64)m->got,
			   (s64)m->want);
		shrink(m);
		print_program(test, m->program);
	}
	KUNIT_FAIL(test, "seed=%llu: operation %u: timeout %d: %s: %lld, not %lld", program_seed,
		   m->at_op, m->at_timeout, m->mismatch ?: "failed once, but not when repeated",
		   (s64)m->got, (s64)m->want);
}

/* The cases */

static const struct geometry geometries[] = {
	{ "hashed, 2 slots", 2, true, 1000 },
	{ "hashed, 8 slots, tick 1 ns", 8, true, 1 },
	{ "hashed, 256 slots", 256, true, NSEC_PER_MSEC },
	{ "hashed, 65536 slots", 65536, true, 1000 },
	{ "2 slots, tick 7 ns", 2, false, 7 },
	{ "2 slots, tick 100 ms", 2, false, 100 * NSEC_PER_MSEC },
	{ "4 slots, tick almost 1 s", 4, false, 999999937 },
	{ "8 slots, tick 1 ns", 8, false, 1 },
	{ "8 slots, tick 1 day", 8, false, 86400ULL * NSEC_PER_SEC },
	{ "64 slots, 50 asked for", 64, false, 333333, .asked = 50 },
	{ "256 slots", 256, false, NSEC_PER_MSEC },
	{ "256 slots, tick 1 ns", 256, false, 1 },
	{ "65536 slots", 65536, false, 1000 },
};

/* A tick of the wall clock must be longer than LATENCY_NS. */
static const struct geometry realtime_geometries[] = {
	{ "wall, 50 us", 2, true, 50000 },
	{ "wall, 333333 ns", 64, false, 333333 },
	{ "wall, 1 ms", 256, false, NSEC_PER_MSEC },
	{ "wall, almost 1 s", 4, false, 999999937 },
	{ "wall, 1 day", 8, false, 86400ULL * NSEC_PER_SEC },
};

/* All geometries, repeated @rounds times. One long case might exceed KUnit's time limit. */
static const void *geometry_gen_params(TWHEEL_GENERATOR_ARGS)
{
	const struct geometry *g = clock_is_simulated() ? realtime_geometries : geometries;
	unsigned int kinds = clock_is_simulated() ? ARRAY_SIZE(realtime_geometries) :
						    ARRAY_SIZE(geometries);
	static unsigned int nr;

	if (!prev)
		nr = 0;
	if (nr == rounds * kinds)
		return NULL;
	g += nr++ % kinds;
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
	return g;
}

/*
 * Each kind of operation has been carried out in each context that allows it. Works and stops are
 * too rare for short runs.
 */
static void expect_all_opcodes_ran(struct kunit *test, const struct model *m)
{
	u32 opcode, from;

	for (opcode = 0; opcode <= FLUSH; opcode++)
		for (from = 0; from < NR_CONTEXTS; from++)
			if ((from != FROM_WORK || is_deterministic()) &&
			    (from < FROM_WORK || steps >= 1000000) &&
			    (opcode != EXTEND || from == FROM_CALLBACK))
				KUNIT_EXPECT_GT_MSG(test, m->nr_run[opcode][from], 0U,
						    "operation %u from context %u", opcode, from);
	KUNIT_EXPECT_EQ(test, m->program->cpus > 1, !!m->nr_run[MIGRATE][FROM_TEST]);
	KUNIT_EXPECT_EQ(test, m->program->cpus > 1 && IS_ENABLED(CONFIG_HOTPLUG_CPU),
			!!m->nr_run[HOTPLUG][FROM_TEST]);
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
	m->lockdep = debug_locks;
	do {
		generate_program(m->program, test->param_value, program_seed);
		if (!run_program(m)) {
			report(test, m, program_seed);
			failed = true;
			return;
		}
		program_seed++;
		programs++;
	} while (m->operations < steps);
	kunit_info(test, "%llu operations in %u programs, %llu calls, %llu early cascades\n",
		   m->operations, programs, m->calls, m->early_cascades);
	KUNIT_EXPECT_GT(test, m->calls, m->operations / 100);
	if (steps >= 100000)
		expect_all_opcodes_ran(test, m);
}

static struct kunit_case combination_cases[] = {
	KUNIT_CASE_PARAM(random_programs_agree_with_the_model, geometry_gen_params),
	{}
};

/*
 * Right after boot, timers still wait for the next tick. Random numbers take time until the kernel
 * has gathered enough entropy from interrupts, and each new worker needs one.
 */
static void wait_for_boot(void)
{
	msleep(100);
	while (!rng_is_initialized())
		sleep_ns(NSEC_PER_USEC);
}

static int combination_init(struct kunit *test)
{
	struct model *m = vzalloc(sizeof(*m));
	struct task_struct *task;

	if (!m)
		return -ENOMEM;
	test->priv = m;
	if (clock_is_simulated())
		wait_for_boot();
	m->clock_offset = realtime_ns() - monotonic_ns();
	m->program = vzalloc(sizeof(*m->program));
	if (!m->program)
		return -ENOMEM;
	init_completion(&m->helper.go);
	init_completion(&m->helper.done);
	if (is_deterministic()) {
		task = kthread_run(helper_thread, m, "kunit-helper");
		if (IS_ERR(task))
			return PTR_ERR(task);
		sched_set_fifo(task);
		m->helper.task = task;
	}
	if (nr_cpu_ids > NR_SHARDS)
		kunit_skip(test, "more than %u CPUs", NR_SHARDS);
	return set_cpus_allowed_ptr(current, cpumask_of(0));
}

static void combination_exit(struct kunit *test)
{
	struct model *m = test->priv;

	if (!m)
		return;
	if (m->helper.task) {
		m->helper.op = NULL;
		complete(&m->helper.go);
		kthread_stop(m->helper.task);
	}
	if (clock_is_simulated())
		set_realtime(monotonic_ns() + m->clock_offset);
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
