// SPDX-License-Identifier: GPL-2.0
/*
 * Timing wheels
 *
 * A wheel has one shard per CPU; a CPU isolated from timers uses another CPU's shard. A
 * shard is a complete timing wheel of its own: slots in levels, a cursor, one hrtimer and
 * one lock. An arm goes to the shard of the CPU that it is called on, so CPUs do not
 * contend. That shard is the home of the timeout until it is armed on another CPU while
 * idle. twheel_index.h explains how ticks map to levels and slots.
 *
 *
 * Expiry
 *
 * A shard advances in passes. A pass reads the clock and rounds it down to a tick, its
 * @target. It then moves the cursor to the target in steps. A step is the entry into
 * the block of an occupied slot. On level 0 its timeouts become due. On a higher level they
 * move down one level: a cascade. Empty ticks cost nothing.
 *
 * A pass consists of turns. A turn handles at most TWHEEL_BATCH timeouts in one hold of the
 * lock. It then calls the sink or the callbacks without the lock. The shard holds all state
 * of a pass, so another task can continue it.
 *
 *  - Nothing fires early. Deadlines are rounded up and the target is rounded down. Only a
 *    timeout with tick <= target becomes due.
 *  - Every pass ends. A timeout that is armed during a pass gets a tick after the target, except
 *    on CLOCK_REALTIME, where a later turn of the pass may collect it.
 *  - Timeouts fire in ascending order of tick, and in the order of arming within a tick. The
 *    cursor enters a block only when the slots for that block on all higher levels are
 *    empty. Until then an arm for the block joins the tail of the highest of these slots.
 *
 * A slot with very many timeouts must not delay others when its block begins. Levels have
 * slots for two blocks of the level above: the current one and the next. A crowded slot, to
 * which TWHEEL_BATCH timeouts or more were added, begins to cascade TWHEEL_LEAD_NS before its
 * block, in turns that have nothing due. Arms for the block still join the slot above.
 *
 * With levels = 1, a slot holds timeouts of all rounds. A visit of the slot compares ticks. It
 * sets the timeouts of later rounds aside, in order, until it is complete.
 *
 * A clock step changes all distances, but not the order of deadlines. So the timeouts of a shard
 * on CLOCK_REALTIME are in a timerqueue, by deadline. Its hrtimer is on CLOCK_REALTIME: the kernel
 * re-programs it when the clock is set. A due timeout is compared with the clock once more before
 * it is called. The clock ignores a leap second until its next update, the hrtimer does not. So
 * the target is the tick that hrtimers have reached for sure: twheel_tick_now().
 *
 *
 * Soft interrupts and threads
 *
 * Each CPU has a server. A shard belongs to that of its CPU, or to another one while that CPU is
 * offline. This changes under the shard's lock; a turn in progress then queues it for the new one.
 *
 * A wheel with callbacks has all its turns in the server's thread, which offers the CPU to other
 * tasks between turns. A wheel with a sink begins a pass in the soft interrupt of its hrtimer (but
 * only with high resolution), and goes on there while the budget of that CPU lasts. Then the shard
 * is queued, the thread woken, and server.resume set: whichever runs first takes it off the queue.
 * So a real-time task that never sleeps makes a sink slower, but does not stop it.
 *
 * A shard waits, is queued, or is in a turn. While it waits, @timer is set for the tick of the
 * next work (@wake). An earlier arm sets it again. A cancel does not: when it fires, its function
 * searches again. A slot with one timeout is not entered before that is due, so a single timeout
 * costs one interrupt. In the other states @wake is TWHEEL_QUEUED, which is below every tick: arms
 * leave @timer alone. twheel_queue() and each turn store it under the lock; the last turn of a pass
 * replaces it. A stopped shard waits for TWHEEL_NEVER. It is not queued: whoever queues a shard has
 * seen in the same hold that it is not stopped.
 *
 * A CPU isolated from timers would keep an hrtimer that it sets. So its arm queues the shard, and
 * interrupts the server's CPU.
 *
 *
 * Locking
 *
 *	twheel.ending		one twheel_stop() at a time; @unprocessed may sleep
 *	  server.busy		a turn in a thread
 *	  twheel.advance	one twheel_advance() at a time (MANUAL)
 *	  server.resuming	turns of queued shards in a soft interrupt
 *	    shard.sinking	a turn of a wheel with a sink; soft interrupts are disabled
 *	      (locks of sinks and callers)
 *	        shard.lock	the shard and the timeouts at home in it; raw
 *	          server.lock	the server's queue of shards; raw
 *	            hrtimer base	in hrtimer_start()
 *	twheel_mutex		all wheels, which CPUs serve; shard.lock nests in it
 *
 * To wait for a turn is to lock and unlock what it holds: server.busy or twheel.advance if it runs
 * callbacks, shard.sinking if it calls the sink. While twheel_stop() hands s->running back, it
 * holds twheel.ending. s->turn.lock tells which of them it is.
 *
 * No task is woken with shard.lock held. An arm takes only shard.lock and those below it, so
 * callers may hold the lock of a run queue or of a worker pool. Callbacks run with no spinlock
 * held, sinks with shard.sinking.
 *
 * The home of a timeout, t->shard, changes under the lock of the old home while the timeout is
 * idle. It is read without a lock to find the lock, and read again under it: twheel_lock_home().
 * twheel_arm_list() takes the new home's lock alone: its caller alone knows these idle timeouts.
 *
 * Lockless accesses
 *
 *	t->shard	written with release, and read with acquire under the lock of the home
 *	t->state	twheel_pending() reads it as a hint. twheel_state() reads with
 *			acquire, which pairs with the release in twheel_accept(), the
 *			only write without the lock
 *	server.queue	twheel_should_run(): the queue is filled before the barrier of
 *			wake_up_process() or of a kick, which pairs with set_current_state()
 *	s->turn.task	a task compares it with itself. In a soft interrupt it is the task
 *			that was interrupted, which cannot run meanwhile
 *
 *
 * Cancel against expiry
 *
 * The thread takes a timeout off the due list, makes it INACTIVE and s->running, and calls it
 * without the lock. Until then the timeout can be cancelled, even by an earlier callback of its
 * batch. A twheel_cancel_sync() that meets s->running waits for s->turn and looks again. The
 * callback may free its timeout, so s->running is only compared. TWHEEL_T_TAKEN tells a timeout
 * that was initialised in the same memory from the one that is running. In a wheel with a sink
 * the whole batch is EXPIRING when it leaves the lock, each timeout until the sink accepts it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/debugobjects.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/smpboot.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>

#include "twheel.h"
#include "twheel_compat.h"
#include "twheel_index.h"

/* A test build calls a function of the test where a race is possible, to force it. */
#ifdef TWHEEL_TEST
#include "kunit/audit.h"
#else
#define twheel_window(w, window)	do { } while (0)
#endif

/* Most timeouts that are handled in one hold of a shard's lock. */
#define TWHEEL_BATCH	128

/* Soft interrupts begin no turn after 2^17 ns, to end by 2^18. They pause thrice as long. */
#define TWHEEL_PAUSE_NS		(3U << 17)

/* A turn counts as this long at most: a virtual machine may have been stopped in it. */
#define TWHEEL_LONG_TURN_NS	(16U << 17)

/* How long before its block a crowded slot begins to cascade: enough to move a million. */
#define TWHEEL_LEAD_NS	NSEC_PER_SEC

/* shard.wake: queued or in a turn; the lowest tick, for at once; no hrtimer is needed. */
#define TWHEEL_QUEUED	0
#define TWHEEL_NOW	1
#define TWHEEL_NEVER	U64_MAX

/* t->level of a pending timeout in no slot: on shard.due, in shard.tree. */
#define TWHEEL_DUE	0xff
#define TWHEEL_TREE	0xfe
#define TWHEEL_NO_SLOT	TWHEEL_TREE	/* and all above */

#define TWHEEL_NAME_LEN	32

static unsigned long long default_tick_ns = NSEC_PER_MSEC;
module_param_named(tick_ns, default_tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "default length of a tick in ns, 1 to 86400000000000 (1000000)");

static unsigned int default_slots = 256;
module_param_named(slots, default_slots, uint, 0444);
MODULE_PARM_DESC(slots, "default slots of the first level, 2 to 65536, rounded up to a power of two (256)");

static unsigned int warn_wheels = 64;
module_param(warn_wheels, uint, 0644);
MODULE_PARM_DESC(warn_wheels, "warn once when kernel code has more wheels than this (64)");

static bool rt;
module_param(rt, bool, 0444);
MODULE_PARM_DESC(rt, "run the threads with low real-time (FIFO) priority (N)");

/* The timeouts of one block. */
struct twheel_slot {
	struct list_head	list;	/* in the order of arming */
	unsigned long		added;	/* to @list since it was empty: at least its length */
};

/* A level of a shard; constant. */
struct twheel_level {
	u32			shift;	/* twheel_shift() */
	u32			mask;	/* twheel_ring() - 1 */
	struct twheel_slot	*row;
	unsigned long		*map;	/* of the slots that are not empty */
};

/* A task that calls callbacks, the sink, or the function of twheel_stop(), without shard.lock. */
struct twheel_turn {
	struct task_struct	*task;	/* that calls; NULL: nobody does */
	struct mutex		*lock;	/* that @task holds meanwhile; NULL: shard.sinking */
};

/* The part of a wheel that one CPU fills, and isolated CPUs with it. */
struct twheel_shard {
	raw_spinlock_t		lock;		/* what is not constant, timeouts at home */
	bool			stopped;	/* arms are refused */
	bool			realtime;	/* the clock is CLOCK_REALTIME; constant */
	enum hrtimer_mode	mode;		/* of @timer, soft or not; constant */
	unsigned int		cpu;		/* arms on this CPU use this shard; constant */
	struct twheel_geometry	geometry;	/* copy of the wheel's; constant */
	u64			cursor;	/* last tick entered, or that before a cascading block */
	u64			target;		/* of this pass or the last; arms are later */
	u64			wake;	/* tick for which @timer is set, or TWHEEL_QUEUED, ... */
	u64			lead_tick;	/* at which the first crowded slot may cascade */
	u64			nr;		/* pending timeouts */
	struct twheel		*wheel;		/* constant */
	struct {
		u64		cancelled;	/* dequeued by a cancel, not moved by a mod */
		u64		rearmed;	/* moved by a mod */
		u64		fired;		/* passed to their callback or to the sink */
		u64		cascaded;	/* moves of a timeout down one level */
		u64		extended;	/* enqueued again by twheel_extend() */
		u64		stopped;	/* dequeued by twheel_stop() */
		u64		wakeups;	/* times that @timer found something to do */
	} count;
	struct timerqueue_head	tree;		/* timeouts by deadline, on CLOCK_REALTIME */
	u64			reached;	/* last tick for which @timer has fired */
	struct list_head	aside;		/* those of later rounds, in a visit (levels = 1) */
	struct list_head	due;		/* left their slot: at most TWHEEL_BATCH */
	unsigned int		nr_due;		/* length of @due */
	struct twheel_timeout	*running;	/* its callback runs. Compared, not dereferenced */
	struct twheel_turn	turn;		/* in progress */
	spinlock_t		sinking;	/* held in a turn of a wheel with a sink */
	struct hrtimer		timer;		/* on the wheel's clock, for @wake */
	struct twheel_server	*server;	/* serves this shard */
	struct list_head	queued;		/* link in server.queue; under server.lock */
	struct list_head	entry;		/* link in twheel.shard_list; constant */
	u8			level_of[BITS_PER_TYPE(u64)];	/* of each bit's digit; constant */
	struct twheel_level	level[TWHEEL_LEVELS];
	struct twheel_slot	slots[];	/* of all levels */
};

/* The thread and the hrtimer that serve the shards of one CPU. */
struct twheel_server {
	unsigned int		cpu;		/* constant */
	struct mutex		busy;		/* held by the thread during a turn */
	spinlock_t		resuming;	/* held by the function of @resume */
	raw_spinlock_t		lock;		/* queue, shard.queued */
	struct list_head	queue;		/* of shards that have work to do now */
	struct task_struct	*task;		/* constant once it is created */
	struct hrtimer		resume;		/* for queued shards with a sink */
	call_single_data_t	kick;		/* of @cpu, by an arm on an isolated CPU */
	u64			paid_ns;	/* end of the pause of soft interrupts of @cpu */
};

struct twheel {
	struct twheel_geometry	geometry;	/* ticks, slots, levels; constant */
	struct twheel_params	params;		/* in effect; constant */
	struct list_head	shard_list;	/* each shard once; constant */
	atomic64_t		manual_ns;	/* time of a MANUAL wheel */
	struct mutex		ending;		/* one twheel_stop() at a time */
	struct mutex		advance;	/* one twheel_advance() at a time */
	struct lock_class_key	key;		/* of @ending: a hand-back may stop another wheel */
	struct list_head	entry;		/* link in twheel_wheels; under twheel_mutex */
	struct dentry		*dentry;	/* file in debugfs */
	char			name[TWHEEL_NAME_LEN];
	struct twheel_shard	*shards[];	/* by CPU: isolated CPUs share one; constant */
};

/* Its tracepoints look into a shard. */
#define CREATE_TRACE_POINTS
#include "twheel_trace.h"

static DEFINE_MUTEX(twheel_mutex);
static struct dentry *twheel_debugfs;
static LIST_HEAD(twheel_wheels);		/* under twheel_mutex */
static unsigned int twheel_nr_wheels;		/* under twheel_mutex; for warn_wheels */
static struct cpumask twheel_serving;		/* under twheel_mutex */

static DEFINE_PER_CPU(struct twheel_server, twheel_servers);
static DEFINE_PER_CPU(struct task_struct *, twheel_threads);

static const struct {
	clockid_t	id;
	const char	*name;
} twheel_clocks[] = {
	[TWHEEL_MONOTONIC]	= { CLOCK_MONOTONIC, "monotonic" },
	[TWHEEL_BOOTTIME]	= { CLOCK_BOOTTIME, "boottime" },
	[TWHEEL_REALTIME]	= { CLOCK_REALTIME, "realtime" },
	[TWHEEL_MANUAL]		= { CLOCK_MONOTONIC, "manual" },
};

static u64 twheel_clock_ns(const struct twheel *w)
{
	switch (w->params.clock) {
	case TWHEEL_BOOTTIME:
		return ktime_get_boottime_ns();
	case TWHEEL_REALTIME:
		return ktime_get_real_ns();
	case TWHEEL_MANUAL:
		return atomic64_read(&w->manual_ns);
	default:
		return ktime_get_ns();
	}
}

static enum twheel_state twheel_state(const struct twheel_timeout *t)
{
	/* Pairs with the release in twheel_accept(), which has no lock. */
	return smp_load_acquire(&t->state);
}

/* Debugobjects: report a timeout that is freed while pending, as for timers. */

static const struct debug_obj_descr twheel_debug_descr;

/* Was it overwritten? Then it is not tracked, or the cancel fails: drop it from debugobjects. */
static bool twheel_fixup(void *addr, enum debug_obj_state state)
{
	struct twheel_timeout *t = addr;

	if (state == ODEBUG_STATE_ACTIVE && (!(t->flags & TWHEEL_T_TRACKED) || !twheel_cancel(t))) {
		debug_object_deactivate(t, &twheel_debug_descr);
		debug_object_free(t, &twheel_debug_descr);
	}
	return state == ODEBUG_STATE_ACTIVE;
}

static const struct debug_obj_descr twheel_debug_descr = {
	.name		= "twheel_timeout",
	.fixup_init	= twheel_fixup,
	.fixup_free	= twheel_fixup,
};

/* Only pending ones are tracked: freeing others needs no call. PREEMPT_RT has no memory here. */
static __always_inline void twheel_set_state(struct twheel_timeout *t, enum twheel_state state)
{
	bool track = state == TWHEEL_PENDING && !IS_ENABLED(CONFIG_PREEMPT_RT) &&
		     !object_is_on_stack(t);

	WRITE_ONCE(t->state, state);
	if (!IS_ENABLED(CONFIG_DEBUG_OBJECTS) || track == !!(t->flags & TWHEEL_T_TRACKED))
		return;
	if (track) {
		debug_object_init(t, &twheel_debug_descr);
		debug_object_activate(t, &twheel_debug_descr);
	} else {
		debug_object_deactivate(t, &twheel_debug_descr);
		debug_object_free(t, &twheel_debug_descr);
	}
	t->flags ^= TWHEEL_T_TRACKED;
}

/* Slots and their occupancy */

static __always_inline u32 twheel_index(const struct twheel_level *l, u64 tick)
{
	return (tick >> l->shift) & l->mask;
}

/*
 * The tick at which the slot of @block on @level begins to cascade if it is crowded. It is in the
 * block before @block: until the cursor enters that, the level below has no slots for @block.
 */
static u64 twheel_lead_tick(const struct twheel_geometry *g, u64 block, u32 level)
{
	u32 shift = twheel_shift(g, level);
	u64 lead = min(twheel_tick_ceil(g, TWHEEL_LEAD_NS), 1ULL << shift);

	return max_t(u64, (block << shift) - lead, TWHEEL_NOW);
}

/* The slot of @block on @level is crowded: returns the tick at which the shard must wake. */
static noinline u64 twheel_note_crowded(struct twheel_shard *s, u64 block, u32 level)
{
	s->lead_tick = min(s->lead_tick, twheel_lead_tick(&s->geometry, block, level));
	return min(s->lead_tick, block << twheel_shift(&s->geometry, level));
}

/*
 * Put @t at the tail of its slot on @level. Returns the tick at which the shard must
 * wake for the slot: for a single timeout, when it is due.
 */
static __always_inline u64 twheel_link(struct twheel_shard *s, struct twheel_timeout *t,
				       u32 level)
{
	const struct twheel_level *l = &s->level[level];
	u64 block = t->tick >> l->shift, wake = block << l->shift;
	u32 i = block & l->mask;
	struct twheel_slot *slot = &l->row[i];

	/* Keep the address: the compiler would compute it a second time. */
	OPTIMIZER_HIDE_VAR(slot);
	if (list_empty(&slot->list)) {
		__set_bit(i, l->map);
		slot->added = 0;
		wake = t->tick;
	}
	t->level = level;
	twheel_append(&t->entry, &slot->list);
	slot->added++;
	if (unlikely(slot->added % TWHEEL_BATCH == 0 && level))
		return twheel_note_crowded(s, block, level);
	return wake;
}

/* Put @t into the tree of a shard on CLOCK_REALTIME. Returns the tick at which it is due. */
static noinline u64 twheel_link_tree(struct twheel_shard *s, struct twheel_timeout *t)
{
	u64 tick = max_t(u64, twheel_tick_ceil(&s->geometry, t->expires), TWHEEL_NOW);

	static_assert(offsetof(typeof(*t), node.expires) == offsetof(typeof(*t), expires));
	timerqueue_init(&t->node);
	timerqueue_add(&s->tree, &t->node);
	t->level = TWHEEL_TREE;
	return tick;
}

/* Take @t, which is in no slot, out of the tree, or off the list of due timeouts. */
static noinline void twheel_unlink_slow(struct twheel_shard *s, struct twheel_timeout *t)
{
	if (t->level == TWHEEL_TREE) {
		timerqueue_del(&s->tree, &t->node);
		return;
	}
	twheel_detach(&t->entry);
	s->nr_due--;
}

/* Is @t alone in its slot? In a visit, a timeout may also be alone among those set aside. */
static bool twheel_is_alone(const struct twheel_shard *s, const struct twheel_timeout *t)
{
	return t->entry.prev == t->entry.next && t->entry.prev != &s->aside;
}

/* Take @t, which is pending, out of the slot, list or tree that it is in. */
static __always_inline void twheel_unlink(struct twheel_shard *s, struct twheel_timeout *t)
{
	if (unlikely(t->level >= TWHEEL_NO_SLOT)) {
		twheel_unlink_slow(s, t);
		return;
	}
	if (twheel_is_alone(s, t))
		__clear_bit(twheel_index(&s->level[t->level], t->tick), s->level[t->level].map);
	twheel_detach(&t->entry);
}

/* The search for the next step */

/* The next stop of the cursor. */
struct twheel_step {
	u64			tick;	/* first of the block, visit or lead; or TWHEEL_NEVER */
	u64			wake;	/* tick at which the shard must wake for it */
	struct twheel_slot	*slot;	/* of the block */
	u32			level;	/* of @slot */
	u32			examined;	/* slots, in the search (levels = 1) */
};

/* The first block of @level from @block on whose slot is occupied, or TWHEEL_NEVER. */
static u64 twheel_next_block(const struct twheel_shard *s, u32 level, u64 block)
{
	const struct twheel_level *l = &s->level[level];
	u32 start = block & l->mask, i;

	i = find_next_bit(l->map, l->mask + 1, start);
	if (i > l->mask) {
		i = find_next_bit(l->map, start, 0);
		if (i == start)
			return TWHEEL_NEVER;
	}
	/* Ring order is the order of time. */
	return block + ((i - start) & l->mask);
}

static struct twheel_slot *twheel_slot_of(const struct twheel_level *l, u64 block)
{
	return &l->row[block & l->mask];
}

/* A single timeout needs no cascade before it is due. */
static u64 twheel_wake_tick(const struct twheel_slot *slot, u64 tick)
{
	if (!list_is_singular(&slot->list))
		return tick;
	return list_first_entry(&slot->list, struct twheel_timeout, entry)->tick;
}

/*
 * The next step for levels = 1: a visit. One in progress goes on. A slot with one timeout is
 * visited when that is due, in whatever round; a slot with several, in each round. A search ends at
 * the last slot of a batch, needed or not. It costs budget, except for the last one of a turn and
 * that for the next wake. So a turn examines less than four batches of slots.
 */
static void twheel_find_visit(const struct twheel_shard *s, struct twheel_step *step)
{
	const struct twheel_level *l = &s->level[0];
	u64 tick = s->cursor, end = tick + l->mask + 1;

	*step = (struct twheel_step){ .tick = list_empty(&s->aside) ? TWHEEL_NEVER : tick + 1 };
	while (tick + 1 < step->tick) {
		tick = twheel_next_block(s, 0, tick + 1);
		if (tick > end || tick >= step->tick)
			break;
		step->examined++;
		step->tick = min(step->tick, step->examined < TWHEEL_BATCH ?
				 twheel_wake_tick(twheel_slot_of(l, tick), tick) : tick);
	}
	step->wake = step->tick;
}

/*
 * Find the next step. A lower level comes first, except where its next slot belongs to the
 * next block of the level above. On equal ticks the higher level comes first: a block is
 * entered when the cascades into it are complete. Level 0 includes the cursor itself: its
 * slot may still hold timeouts after the last turn.
 */
static void twheel_find_step(const struct twheel_shard *s, struct twheel_step *step)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *slot;
	u32 level, shift;
	u64 block, tick;

	if (g->levels == 1) {
		twheel_find_visit(s, step);
		return;
	}
	*step = (struct twheel_step){ .tick = TWHEEL_NEVER, .wake = TWHEEL_NEVER };
	for (level = 0; level < g->levels; level++) {
		shift = s->level[level].shift;
		block = twheel_next_block(s, level, s->cursor >> shift);
		if (block == TWHEEL_NEVER)
			continue;
		slot = twheel_slot_of(&s->level[level], block);
		tick = block << shift;
		step->wake = min(step->wake, twheel_wake_tick(slot, tick));
		if (tick <= step->tick) {
			step->tick = tick;
			step->slot = slot;
			step->level = level;
		}
		/* @tick is in the cursor's block of the level above: higher levels come later. */
		if (level + 1 < g->levels && !((tick ^ s->cursor) >> s->level[level + 1].shift))
			break;
	}
}

/* Find the crowded slot that begins to cascade first. Returns the tick at which it does. */
static u64 twheel_find_crowded(const struct twheel_shard *s, struct twheel_step *step)
{
	u64 block, end, tick;
	u32 level;

	*step = (struct twheel_step){ .tick = TWHEEL_NEVER };
	for (level = s->geometry.levels - 1; level; level--) {
		const struct twheel_level *l = &s->level[level];

		block = s->cursor >> l->shift;
		end = block + l->mask + 1;
		do {
			block = twheel_next_block(s, level, block + 1);
		} while (block < end && twheel_slot_of(l, block)->added < TWHEEL_BATCH);
		if (block >= end)
			continue;
		tick = twheel_lead_tick(&s->geometry, block, level);
		if (tick < step->tick)
			*step = (struct twheel_step){
				.tick = tick, .slot = twheel_slot_of(l, block), .level = level,
			};
	}
	return step->tick;
}

/* Sleeping and waking */

/* Is this CPU isolated from timers, and the server on another one? */
static bool twheel_is_isolated(const struct twheel_shard *s)
{
	unsigned int cpu = raw_smp_processor_id();

	return unlikely(cpu != s->cpu) && cpu != s->server->cpu &&
	       !housekeeping_test_cpu(cpu, HK_TYPE_TIMER);
}

/* Give the shard to its server: it has work now. Returns the thread to wake without the lock. */
static struct task_struct *twheel_queue(struct twheel_shard *s)
{
	struct twheel_server *server = s->server, *here = raw_cpu_ptr(&twheel_servers);

	lockdep_assert_held(&s->lock);
	s->wake = TWHEEL_QUEUED;
	guard(raw_spinlock)(&server->lock);
	list_add_tail(&s->queued, &server->queue);
	if (twheel_is_isolated(s)) {
		/* Pairs with set_current_state() in the thread: a kick still on its way will do. */
		smp_mb();
		smp_call_function_single_async(server->cpu, &server->kick);
	} else if (s->mode & HRTIMER_MODE_SOFT && !hrtimer_is_queued(&server->resume)) {
		hrtimer_start(&server->resume, ns_to_ktime(here->paid_ns),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
	}
	return server->task;
}

static noinline void twheel_set_timer(struct twheel_shard *s, u64 wake)
{
	lockdep_assert_held(&s->lock);
	s->wake = wake;
	if (wake == TWHEEL_NEVER || s->wheel->params.clock == TWHEEL_MANUAL)
		return;
	if (twheel_is_isolated(s))
		twheel_queue(s);
	else
		hrtimer_start(&s->timer, ns_to_ktime(twheel_tick_to_ns(&s->geometry, wake)),
			      s->mode);
}

/* The tick at which the shard must wake next, if no pass is in progress. */
static u64 twheel_next_wake(struct twheel_shard *s)
{
	struct timerqueue_node *first;
	struct twheel_step step;

	lockdep_assert_held(&s->lock);
	if (s->realtime) {
		first = timerqueue_getnext(&s->tree);
		return first ? twheel_tick_ceil(&s->geometry, first->expires) : TWHEEL_NEVER;
	}
	twheel_find_step(s, &step);
	return min(step.wake, s->lead_tick);
}

/*
 * Set the cursor of a shard with no enqueued timeout to the current tick, unless a pass is queued
 * or in progress. The next timeout is then placed on the lowest possible level.
 */
static noinline void twheel_catch_up(struct twheel_shard *s)
{
	if (s->wake == TWHEEL_QUEUED || s->realtime)
		return;
	s->cursor = max(s->cursor, twheel_tick_floor(&s->geometry, twheel_clock_ns(s->wheel)));
	s->target = s->cursor;
}

/* Arming and cancelling */

/*
 * Choose a tick from @lo to @hi: an occupied one if the cursor is near, otherwise one
 * that other timeouts with slack are likely to choose.
 */
static u64 twheel_join(const struct twheel_shard *s, u64 lo, u64 hi)
{
	const struct twheel_geometry *g = &s->geometry;
	const struct twheel_level *l = &s->level[0];
	u32 from = twheel_index(l, lo), to = twheel_index(l, hi), i;

	if (hi >> g->bits == lo >> g->bits && lo >> g->bits == s->cursor >> g->bits) {
		i = find_next_bit(l->map, to + 1, from);
		if (i <= to)
			return lo - from + i;
	}
	return twheel_slack_tick(lo, hi);
}

/* Enqueue @t. Returns the tick at which the shard must wake for it: the caller sees to that. */
static __always_inline u64 twheel_enqueue(struct twheel_shard *s, struct twheel_timeout *t,
					  u64 expires_ns, u64 slack_ns)
{
	const struct twheel_geometry *g = &s->geometry;
	u64 tick, latest;

	lockdep_assert_held(&s->lock);
	t->expires = expires_ns;
	if (unlikely(s->realtime)) {
		tick = twheel_link_tree(s, t);
		trace_twheel_arm(s, t, tick);
		return tick;
	}
	tick = max(twheel_tick_ceil(g, expires_ns), s->target + 1);
	if (unlikely(slack_ns)) {
		latest = twheel_tick_floor(g, twheel_add_ns(expires_ns, slack_ns));
		tick = twheel_join(s, tick, latest);
	}
	t->tick = tick;
	trace_twheel_arm(s, t, tick);
	return twheel_link(s, t, s->level_of[twheel_differing_bit(tick, s->cursor)]);
}

/* Arm @t, which is not pending. */
static __always_inline void __twheel_arm(struct twheel_shard *s, struct twheel_timeout *t,
					 u64 expires_ns, u64 slack_ns)
{
	u64 wake;

	if (unlikely(!s->nr))
		twheel_catch_up(s);
	s->nr++;
	twheel_set_state(t, TWHEEL_PENDING);
	wake = twheel_enqueue(s, t, expires_ns, slack_ns);
	if (wake < s->wake)
		twheel_set_timer(s, wake);
}

/* Move @t, which is pending. */
static __always_inline void __twheel_mod(struct twheel_shard *s, struct twheel_timeout *t,
					 u64 expires_ns, u64 slack_ns)
{
	u64 wake;

	trace_twheel_cancel(s, t);
	twheel_unlink(s, t);
	s->count.rearmed++;
	if (unlikely(s->nr == 1))
		twheel_catch_up(s);
	wake = twheel_enqueue(s, t, expires_ns, slack_ns);
	if (wake < s->wake)
		twheel_set_timer(s, wake);
}

/* Is the callback or the sink at work on @t? A new timeout in reused memory is not TAKEN. */
static bool twheel_is_in_turn(const struct twheel_shard *s, const struct twheel_timeout *t)
{
	lockdep_assert_held(&s->lock);
	return twheel_state(t) == TWHEEL_EXPIRING || (s->running == t && t->flags & TWHEEL_T_TAKEN);
}

/* Take @t, which is pending, out of the wheel. */
static __always_inline void twheel_dequeue(struct twheel_shard *s, struct twheel_timeout *t)
{
	twheel_unlink(s, t);
	twheel_set_state(t, TWHEEL_INACTIVE);
	s->nr--;
}

static __always_inline bool __twheel_cancel(struct twheel_shard *s, struct twheel_timeout *t)
{
	lockdep_assert_held(&s->lock);
	if (twheel_state(t) != TWHEEL_PENDING)
		return false;
	twheel_dequeue(s, t);
	s->count.cancelled++;
	trace_twheel_cancel(s, t);
	return true;
}

/* Lock the home of @t in place of @s, an earlier one. Not inlined: flags may be in a register. */
static noinline struct twheel_shard *twheel_follow_home(struct twheel_shard *s,
							const struct twheel_timeout *t)
{
	while (s != smp_load_acquire(&t->shard)) {
		raw_spin_unlock(&s->lock);
		s = READ_ONCE(t->shard);
		raw_spin_lock(&s->lock);
	}
	return s;
}

static __always_inline struct twheel_shard *twheel_lock_home(const struct twheel_timeout *t,
							     unsigned long *flags)
{
	struct twheel_shard *s = READ_ONCE(t->shard);

	raw_spin_lock_irqsave(&s->lock, *flags);
	return likely(s == smp_load_acquire(&t->shard)) ? s : twheel_follow_home(s, t);
}

/* Lock the home of the timeout until the end of the block: CLASS(twheel_home, home)(t). */
struct twheel_home {
	struct twheel_shard	*s;
	unsigned long		flags;
};

DEFINE_CLASS(twheel_home, struct twheel_home, raw_spin_unlock_irqrestore(&_T.s->lock, _T.flags),
	     ({ struct twheel_home h; h.s = twheel_lock_home(home_of, &h.flags); h; }),
	     const struct twheel_timeout *home_of)

/* Move @t, whose home @s is locked, to this CPU's shard if it is idle. Returns its home, locked. */
static noinline struct twheel_shard *twheel_migrate(struct twheel_shard *s,
						    struct twheel_timeout *t)
{
	struct twheel_shard *local = s->wheel->shards[raw_smp_processor_id()];

	if (s == local || twheel_state(t) == TWHEEL_PENDING || twheel_is_in_turn(s, t))
		return s;
	t->flags &= ~TWHEEL_T_TAKEN;
	/* Pairs with the acquire by the holder of the new home's lock. */
	smp_store_release(&t->shard, local);
	return twheel_follow_home(s, t);
}

/**
 * twheel_timeout_init() - prepare a timeout for its first arm
 * @w: the wheel that it belongs to from now on
 * @t: the timeout; it must not be in a wheel, and no task may be cancelling it, not
 *	even one that waits for twheel_stop()
 * @fn: called when it expires; NULL in a wheel with a sink
 *
 * The memory may have held another timeout whose callback is still running. The new
 * timeout is independent of that callback.
 */
void twheel_timeout_init(struct twheel *w, struct twheel_timeout *t,
			 void (*fn)(struct twheel_timeout *t))
{
	WARN_ON_ONCE(!fn && !w->params.sink);
	/* Report a timeout that is initialised while it is pending. */
	if (!object_is_on_stack(t)) {
		debug_object_init(t, &twheel_debug_descr);
		debug_object_free(t, &twheel_debug_descr);
	}
	memset(t, 0, sizeof(*t));
	INIT_LIST_HEAD(&t->entry);
	t->fn = fn;
	t->shard = w->shards[raw_smp_processor_id()];
}
EXPORT_SYMBOL_GPL(twheel_timeout_init);

static void twheel_queue_work(struct twheel_timeout *t)
{
	queue_work(system_dfl_wq, &container_of(t, struct twheel_work, t)->work);
}

/* The first half of twheel_work_init(). */
void __twheel_work_init(struct twheel *w, struct twheel_work *tw)
{
	twheel_timeout_init(w, &tw->t, twheel_queue_work);
}
EXPORT_SYMBOL_GPL(__twheel_work_init);

/*
 * Arm @t, or with @move also move it. A call changes the home of @t at most once, so two CPUs
 * cannot retry against each other. A timeout that refuses is never pending.
 */
static __always_inline int twheel_set(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns,
				      bool move)
{
	u8 state;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;

	CLASS(twheel_home, home)(t);
	if (unlikely(home.s->cpu != raw_smp_processor_id()))
		home.s = twheel_migrate(home.s, t);
	state = twheel_state(t);
	if (unlikely(state != TWHEEL_INACTIVE && !(move && state == TWHEEL_PENDING)))
		return -EBUSY;
	if (unlikely(home.s->stopped))
		return -ESHUTDOWN;
	if (move && state == TWHEEL_PENDING) {
		__twheel_mod(home.s, t, expires_ns, slack_ns);
		return 1;
	}
	if (unlikely(t->flags & TWHEEL_T_REFUSES))
		return -ESHUTDOWN;
	__twheel_arm(home.s, t, expires_ns, slack_ns);
	return 0;
}

/**
 * twheel_arm() - arm a timeout for a point in time
 * @t: an initialised timeout that is not pending
 * @expires_ns: the deadline, absolute ns on the wheel's clock. A past deadline is due
 *	at once: it fires at the next tick, not inside this call
 *
 * Return: 0; -EBUSY if it is pending or in the batch of a sink; -EINVAL if @expires_ns is above
 * S64_MAX; -ESHUTDOWN if the wheel has been stopped or the timeout shut down.
 */
int twheel_arm(struct twheel_timeout *t, u64 expires_ns)
{
	return twheel_set(t, expires_ns, 0, false);
}
EXPORT_SYMBOL_GPL(twheel_arm);

/**
 * twheel_arm_slack() - arm a timeout that may be late
 * @t: an initialised timeout that is not pending
 * @expires_ns: the deadline, as in twheel_arm()
 * @slack_ns: how much later than its deadline it may fire, in addition to the usual lateness
 *
 * The timeout gets an occupied tick, or a tick that other timeouts with slack choose
 * too. This saves wakeups. The slack is not stored. It has no effect on CLOCK_REALTIME.
 *
 * Return: as twheel_arm(); -EINVAL if @slack_ns is above S64_MAX.
 */
int twheel_arm_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	return twheel_set(t, expires_ns, slack_ns, false);
}
EXPORT_SYMBOL_GPL(twheel_arm_slack);

/**
 * twheel_arm_after() - arm a timeout some time from now
 * @t: an initialised timeout that is not pending
 * @delay_ns: ns from now, at most S64_MAX. 0 is due at once: it fires at the next tick, not
 *	inside this call. A sum past the end of the clock never fires
 *
 * Return: as twheel_arm(); -EINVAL if @delay_ns is above S64_MAX, and on a REALTIME wheel,
 * whose clock may be stepped.
 */
int twheel_arm_after(struct twheel_timeout *t, u64 delay_ns)
{
	const struct twheel *w = READ_ONCE(t->shard)->wheel;

	if (delay_ns > S64_MAX || w->params.clock == TWHEEL_REALTIME)
		return -EINVAL;
	return twheel_arm(t, twheel_add_ns(twheel_clock_ns(w), delay_ns));
}
EXPORT_SYMBOL_GPL(twheel_arm_after);

/**
 * twheel_mod() - arm a timeout, or move it if it is pending
 * @t: an initialised timeout
 * @expires_ns: the new deadline, absolute ns on the wheel's clock
 *
 * The move of a pending timeout counts as a cancel and an arm: it becomes the last
 * timeout of its new tick. It stays in its shard.
 *
 * Return: 1 if it was pending and has been moved; 0 if it was idle and has been
 * armed; otherwise as twheel_arm(), and nothing has changed.
 */
int twheel_mod(struct twheel_timeout *t, u64 expires_ns)
{
	return twheel_set(t, expires_ns, 0, true);
}
EXPORT_SYMBOL_GPL(twheel_mod);

/**
 * twheel_mod_slack() - twheel_mod() with slack
 * @t: an initialised timeout
 * @expires_ns: the new deadline, absolute ns on the wheel's clock
 * @slack_ns: as in twheel_arm_slack()
 *
 * Return: as twheel_mod(); -EINVAL if @slack_ns is above S64_MAX.
 */
int twheel_mod_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	return twheel_set(t, expires_ns, slack_ns, true);
}
EXPORT_SYMBOL_GPL(twheel_mod_slack);

/**
 * twheel_arm_list() - arm many timeouts, with one lock hold for many of them
 * @w: the wheel
 * @timeouts: idle timeouts of @w, each with expires set, absolute and at most S64_MAX. No callback
 *	of theirs is running, none is shut down, and no other call for them overlaps with this one
 * @nr: how many
 *
 * They are armed in this order.
 *
 * Return: how many were armed: fewer than @nr only if the wheel has been stopped.
 */
unsigned int twheel_arm_list(struct twheel *w, struct twheel_timeout **timeouts,
			     unsigned int nr)
{
	struct twheel_shard *s = w->shards[raw_smp_processor_id()];
	unsigned int done = 0, end;
	struct twheel_timeout *t;
	u64 wake;

	while (done < nr) {
		guard(raw_spinlock_irqsave)(&s->lock);
		if (unlikely(s->stopped))
			break;
		end = done + min_t(unsigned int, nr - done, TWHEEL_BATCH);
		wake = TWHEEL_NEVER;
		if (!s->nr)
			twheel_catch_up(s);
		s->nr += end - done;
		for (; done < end; done++) {
			t = timeouts[done];
			t->flags &= ~TWHEEL_T_TAKEN;
			WRITE_ONCE(t->shard, s);
			twheel_set_state(t, TWHEEL_PENDING);
			wake = min(wake, twheel_enqueue(s, t, t->expires, 0));
		}
		if (wake < s->wake)
			twheel_set_timer(s, wake);
	}
	return done;
}
EXPORT_SYMBOL_GPL(twheel_arm_list);

/**
 * twheel_mod_list() - move many timeouts, with one lock hold for many of them
 * @timeouts: initialised timeouts
 * @expires_ns: the new deadlines, absolute ns on the wheel's clock, at most S64_MAX (not checked)
 * @nr: how many
 *
 * Each is moved as by twheel_mod(), in this order, but one that is not pending is not
 * armed. Neighbours in @timeouts that are pending on the same CPU share a lock hold.
 *
 * Return: how many were moved, from the first on; fewer than @nr only if the next one was
 * not pending, or the wheel has been stopped.
 */
unsigned int twheel_mod_list(struct twheel_timeout **timeouts, const u64 *expires_ns,
			     unsigned int nr)
{
	unsigned int done = 0, first, end;
	struct twheel_timeout *t;

	while (done < nr) {
		CLASS(twheel_home, h)(timeouts[done]);
		first = done;
		end = done + min_t(unsigned int, nr - done, TWHEEL_BATCH);
		for (; done < end && !h.s->stopped; done++) {
			t = timeouts[done];
			if (smp_load_acquire(&t->shard) != h.s || twheel_state(t) != TWHEEL_PENDING)
				break;
			__twheel_mod(h.s, t, expires_ns[done], 0);
		}
		if (done == first)
			break;
	}
	return done;
}
EXPORT_SYMBOL_GPL(twheel_mod_list);

/**
 * twheel_extend() - send a timeout of a sink's batch back into the wheel
 * @t: a timeout in the list that the sink was called with, taken off it and not accepted
 * @expires_ns: its new deadline, absolute ns on the wheel's clock
 * @slack_ns: as in twheel_arm_slack()
 *
 * A sink calls this for a timeout whose deadline has been moved. The timeout does not count as
 * fired, only as extended. After it any task may cancel the timeout and free it, also while the
 * sink is still running. So the sink must not use it any more, unless the owner prevents that.
 *
 * Context: in the sink.
 *
 * Return: 0; -EINVAL if one of the times is above S64_MAX; -ESHUTDOWN if the wheel
 * has been stopped or the timeout shut down. After an error the timeout is still in the
 * batch, and the sink must accept it.
 */
int twheel_extend(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	if (expires_ns > S64_MAX || slack_ns > S64_MAX ||
	    WARN_ON_ONCE(twheel_state(t) != TWHEEL_EXPIRING))
		return -EINVAL;

	CLASS(twheel_home, home)(t);
	if (home.s->stopped || t->flags & TWHEEL_T_REFUSES)
		return -ESHUTDOWN;
	__twheel_arm(home.s, t, expires_ns, slack_ns);
	home.s->count.fired--;
	home.s->count.extended++;
	return 0;
}
EXPORT_SYMBOL_GPL(twheel_extend);

/**
 * twheel_cancel() - take a timeout out of the wheel
 * @t: an initialised timeout
 *
 * Does not wait. If @t was not pending, its callback may be running.
 *
 * Return: true if it was pending: it will not fire. false otherwise.
 */
bool twheel_cancel(struct twheel_timeout *t)
{
	CLASS(twheel_home, home)(t);
	return __twheel_cancel(home.s, t);
}
EXPORT_SYMBOL_GPL(twheel_cancel);

/**
 * twheel_try_cancel() - cancel a timeout unless its callback is running
 * @t: an initialised timeout
 *
 * For callers that cannot wait as twheel_cancel_sync() does.
 *
 * Return: 1 if it was pending and will not fire; 0 if it was idle; -EBUSY if its
 * callback is running, or it is in the batch of a sink: then nothing has changed.
 */
int twheel_try_cancel(struct twheel_timeout *t)
{
	CLASS(twheel_home, home)(t);
	if (twheel_is_in_turn(home.s, t))
		return -EBUSY;
	return __twheel_cancel(home.s, t);
}
EXPORT_SYMBOL_GPL(twheel_try_cancel);

/**
 * twheel_cancel_list() - cancel many timeouts, with one lock hold for many of them
 * @timeouts: initialised timeouts. Pointers to timeouts not pending are set to NULL
 * @nr: how many
 *
 * Neighbours in @timeouts that were armed on the same CPU share a lock hold.
 *
 * Return: how many were pending and will not fire.
 */
unsigned int twheel_cancel_list(struct twheel_timeout **timeouts, unsigned int nr)
{
	unsigned int cancelled = 0, done = 0, end;

	while (done < nr) {
		CLASS(twheel_home, home)(timeouts[done]);
		end = done + min_t(unsigned int, nr - done, TWHEEL_BATCH);
		for (; done < end && smp_load_acquire(&timeouts[done]->shard) == home.s; done++) {
			if (__twheel_cancel(home.s, timeouts[done]))
				cancelled++;
			else
				timeouts[done] = NULL;
		}
	}
	return cancelled;
}
EXPORT_SYMBOL_GPL(twheel_cancel_list);

/* Waiting for callbacks */

/* Is the caller in a callback or the sink of @w? Waiting for it would deadlock. */
static bool twheel_in_callback(struct twheel *w)
{
	struct twheel_shard *s;

	list_for_each_entry(s, &w->shard_list, entry)
		if (READ_ONCE(s->turn.task) == current)
			return true;
	return false;
}

/* Wait for the end of @turn. Lock for a sink in any case: lockdep then sees each wait. */
static void twheel_wait_turn(struct twheel_shard *s, const struct twheel_turn *turn)
{
	if (turn->task && turn->lock) {
		mutex_lock(turn->lock);
		mutex_unlock(turn->lock);
	} else if (s->wheel->params.sink) {
		spin_lock_bh(&s->sinking);
		spin_unlock_bh(&s->sinking);
	}
}

static bool twheel_cancel_and_wait(struct twheel_timeout *t, u8 flag)
{
	bool cancelled = false, in_turn, self;
	struct twheel_turn turn;
	struct twheel_shard *s;
	unsigned long flags;

	might_sleep();
	for (;;) {
		s = twheel_lock_home(t, &flags);
		t->flags |= flag;
		cancelled |= __twheel_cancel(s, t);
		in_turn = twheel_is_in_turn(s, t);
		turn = s->turn;
		self = in_turn && turn.task == current;
		/* A function to which twheel_stop() hands @t back may release it. */
		WARN_ON_ONCE(self && turn.lock != &s->wheel->ending);
		raw_spin_unlock_irqrestore(&s->lock, flags);
		if (!in_turn || self)
			return cancelled;
		twheel_wait_turn(s, &turn);
	}
}

/**
 * twheel_cancel_sync() - cancel a timeout and wait for its callback
 * @t: an initialised timeout, which the caller keeps others from arming
 *
 * On return @t is not pending and its callback is not running on any CPU. If its callback arms it
 * again and again, this may take long: use twheel_shutdown(). In a wheel with a sink, the sink has
 * accepted or extended @t. If twheel_stop() was handing @t back, its function has returned.
 *
 * Context: may sleep. Not from a callback or a sink: instead of waiting for its own caller, it
 * warns, and takes @t out all the same. The caller must not hold anything that the callback of
 * @t needs.
 *
 * Return: true if it was pending and has been taken out, at any time during the
 * call; false otherwise.
 */
bool twheel_cancel_sync(struct twheel_timeout *t)
{
	return twheel_cancel_and_wait(t, 0);
}
EXPORT_SYMBOL_GPL(twheel_cancel_sync);

/**
 * twheel_shutdown() - cancel a timeout for good and wait for its callback
 * @t: an initialised timeout
 *
 * Like twheel_cancel_sync(), and each later arm fails with -ESHUTDOWN, even an arm in the
 * callback that this call waits for. Call this before an object is freed.
 * twheel_timeout_init() makes the timeout usable again.
 *
 * Context: as twheel_cancel_sync().
 *
 * Return: as twheel_cancel_sync().
 */
bool twheel_shutdown(struct twheel_timeout *t)
{
	return twheel_cancel_and_wait(t, TWHEEL_T_SHUTDOWN);
}
EXPORT_SYMBOL_GPL(twheel_shutdown);

/**
 * twheel_cancel_work_sync() - cancel a timeout and its work, and wait for both
 * @tw: an initialised timeout with a function on a workqueue
 *
 * On return @tw is not pending, and its function is neither queued nor running. Meanwhile each arm
 * fails with -ESHUTDOWN, so a function that arms its timeout again cannot keep this waiting.
 * Before the object is freed, call twheel_shutdown() first, so that arms fail from then on, unless
 * nothing else than the function arms it. All other calls for @tw may overlap with this one, but
 * no second one of this: the first to end lets arms succeed, while the other may still wait.
 *
 * Context: as twheel_cancel_sync(), and not from the function.
 *
 * Return: true if the timeout was pending or the work queued; false otherwise.
 */
bool twheel_cancel_work_sync(struct twheel_work *tw)
{
	bool pending = twheel_cancel_and_wait(&tw->t, TWHEEL_T_ENDING);

	pending |= cancel_work_sync(&tw->work);
	CLASS(twheel_home, home)(&tw->t);
	tw->t.flags &= ~TWHEEL_T_ENDING;
	return pending;
}
EXPORT_SYMBOL_GPL(twheel_cancel_work_sync);

/**
 * twheel_flush() - wait for the batches in flight
 * @w: the wheel
 *
 * On return every callback and every call of the sink that was in progress has ended.
 *
 * Context: may sleep. Not from a callback or a sink: those of @w are refused with a warning.
 */
void twheel_flush(struct twheel *w)
{
	struct twheel_turn turn;
	struct twheel_shard *s;

	if (WARN_ON_ONCE(twheel_in_callback(w)))
		return;
	might_sleep();
	list_for_each_entry(s, &w->shard_list, entry) {
		scoped_guard(raw_spinlock_irq, &s->lock)
			turn = s->turn;
		twheel_wait_turn(s, &turn);
	}
}
EXPORT_SYMBOL_GPL(twheel_flush);

/* Expiry */

/* Mark @t as due. In a wheel with a sink it becomes EXPIRING. */
static __always_inline void twheel_make_due(struct twheel_shard *s, struct twheel_timeout *t,
					    bool sink)
{
	t->level = TWHEEL_DUE;
	s->nr_due++;
	if (sink)
		twheel_set_state(t, TWHEEL_EXPIRING);
}

/* Make a slot of level 0 due. Returns the rest of @budget. */
static unsigned int twheel_expire_slot(struct twheel_shard *s, struct twheel_slot *slot,
				       unsigned int budget)
{
	struct list_head *pos = slot->list.next;
	bool sink = s->wheel->params.sink;

	for (; pos != &slot->list && budget; pos = pos->next, budget--)
		twheel_make_due(s, list_entry(pos, struct twheel_timeout, entry), sink);
	list_bulk_move_tail(&s->due, slot->list.next, pos->prev);
	if (list_empty(&slot->list))
		__clear_bit(slot - s->slots, s->level[0].map);
	return budget;
}

/* Move the timeouts of a slot down one level. Returns the rest of @budget. */
static unsigned int twheel_cascade_slot(struct twheel_shard *s, struct twheel_slot *slot,
					u32 level, unsigned int budget)
{
	struct twheel_timeout *t;

	for (; budget && !list_empty(&slot->list); budget--) {
		t = list_first_entry(&slot->list, struct twheel_timeout, entry);
		twheel_detach(&t->entry);
		twheel_link(s, t, level - 1);
		s->count.cascaded++;
		trace_twheel_cascade(s, t, level);
	}
	if (list_empty(&slot->list))
		__clear_bit(slot - s->level[level].row, s->level[level].map);
	return budget;
}

/*
 * Visit the slot of the tick after the cursor (levels = 1). Timeouts of later rounds stay in
 * it: they are set aside until the visit is complete. Returns the rest of @budget.
 */
static unsigned int twheel_visit(struct twheel_shard *s, unsigned int budget)
{
	const struct twheel_level *l = &s->level[0];
	u64 tick = s->cursor + 1;
	u32 i = twheel_index(l, tick);
	struct list_head *list = &l->row[i].list;
	struct twheel_timeout *t;

	for (; budget && !list_empty(list); budget--) {
		t = list_first_entry(list, struct twheel_timeout, entry);
		if (t->tick > tick) {
			list_move_tail(&t->entry, &s->aside);
			continue;
		}
		list_move_tail(&t->entry, &s->due);
		twheel_make_due(s, t, s->wheel->params.sink);
	}
	if (list_empty(list)) {
		list_splice_init(&s->aside, list);
		__assign_bit(i, l->map, !list_empty(list));
		s->cursor = tick;
	}
	return budget;
}

/*
 * The last tick that hrtimers have reached for sure. If CLOCK_REALTIME is ahead of them, by a leap
 * second, it is a second past the tick for which @timer has fired, or that tick's second is over.
 */
static u64 twheel_tick_now(const struct twheel_shard *s, u64 now_ns)
{
	u64 reached_ns, end_ns;

	if (unlikely(s->realtime)) {
		reached_ns = twheel_tick_to_ns(&s->geometry, s->reached);
		end_ns = (div_u64(reached_ns, NSEC_PER_SEC) + 1) * NSEC_PER_SEC;
		now_ns = now_ns < reached_ns + NSEC_PER_SEC ? min(now_ns, end_ns - 1) :
							      now_ns - NSEC_PER_SEC;
	}
	return twheel_tick_floor(&s->geometry, now_ns);
}

/* Advance the cursor to the target, or until the budget is used up. Is the pass over then? */
static bool twheel_collect(struct twheel_shard *s, u64 tick, unsigned int *budget)
{
	bool rounds = s->geometry.levels == 1;
	struct twheel_step step;

	/* The last pass is over, but for timeouts that its last turn left in the cursor's slot. */
	if (s->cursor == s->target)
		s->target = max(s->target, tick);
	while (*budget) {
		twheel_find_step(s, &step);
		if (step.tick > s->target) {
			s->cursor = s->target;
			return true;
		}
		/* A cascade or visit may take more turns: stay one tick before the block. */
		s->cursor = rounds || step.level ? step.tick - 1 : step.tick;
		if (rounds) {
			/* Two slots cost as much as a timeout. One is left for the visit. */
			*budget -= min(*budget - 1, step.examined / 2);
			*budget = twheel_visit(s, *budget);
		} else if (step.level) {
			*budget = twheel_cascade_slot(s, step.slot, step.level, *budget);
		} else {
			*budget = twheel_expire_slot(s, step.slot, *budget);
			/* Higher levels come first: they have nothing for this tick. */
			if (s->cursor == s->target && list_empty(&step.slot->list))
				return true;
		}
	}
	return false;
}

/* The same on CLOCK_REALTIME: collect the timeouts up to @tick. */
static bool twheel_collect_tree(struct twheel_shard *s, u64 tick, unsigned int *budget)
{
	struct timerqueue_node *first;
	struct twheel_timeout *t;

	while ((first = timerqueue_getnext(&s->tree))) {
		if (twheel_tick_ceil(&s->geometry, first->expires) > tick)
			break;
		if (!*budget)
			return false;
		--*budget;
		t = container_of(first, struct twheel_timeout, node);
		timerqueue_del(&s->tree, first);
		list_add_tail(&t->entry, &s->due);
		twheel_make_due(s, t, s->wheel->params.sink);
	}
	return true;
}

/* Put a due timeout back if CLOCK_REALTIME was set to before its deadline. Returns true then. */
static bool twheel_put_back(struct twheel_shard *s, struct twheel_timeout *t)
{
	if (!s->realtime || t->expires <= twheel_clock_ns(s->wheel))
		return false;
	list_del(&t->entry);
	s->nr_due--;
	twheel_set_state(t, TWHEEL_PENDING);
	twheel_link_tree(s, t);
	return true;
}

/*
 * If a crowded slot has to begin its cascade by now, move timeouts of it with the rest of the
 * budget. Returns true if there may be more to do.
 */
static bool twheel_cascade_crowded(struct twheel_shard *s, unsigned int *budget)
{
	struct twheel_step step;

	if (likely(s->lead_tick > s->target))
		return false;
	s->lead_tick = twheel_find_crowded(s, &step);
	if (s->lead_tick > s->target)
		return false;
	*budget = twheel_cascade_slot(s, step.slot, step.level, *budget);
	return true;
}

static void twheel_run_sink(struct twheel_shard *s, u64 now_ns)
	__must_hold(&s->lock)
{
	struct twheel *w = s->wheel;
	struct twheel_timeout *t, *next;
	unsigned int nr;
	LIST_HEAD(expired);

	lockdep_assert_held(&s->sinking);
	if (s->realtime)
		list_for_each_entry_safe(t, next, &s->due, entry)
			twheel_put_back(s, t);
	nr = s->nr_due;
	if (trace_twheel_expire_enabled())
		list_for_each_entry(t, &s->due, entry)
			trace_twheel_expire(s, t, now_ns);
	list_splice_init(&s->due, &expired);
	s->nr_due = 0;
	s->nr -= nr;
	s->count.fired += nr;
	raw_spin_unlock_irq(&s->lock);

	if (nr)
		w->params.sink(w->params.sink_data, &expired, nr, now_ns);
	/* A sink takes each timeout off the list before it accepts or extends it. */
	WARN_ON_ONCE(!list_empty(&expired));

	raw_spin_lock_irq(&s->lock);
}

/*
 * Callbacks must not sleep: the thread serves all wheels of the CPU. On PREEMPT_RT spinlocks
 * sleep, so it cannot be checked.
 */
static void twheel_run_callbacks(struct twheel_shard *s)
	__must_hold(&s->lock)
{
	void (*fn)(struct twheel_timeout *t);
	struct twheel_timeout *t;

	lockdep_assert_held(s->turn.lock);
	while (!s->stopped && !list_empty(&s->due)) {
		t = list_first_entry(&s->due, struct twheel_timeout, entry);
		if (twheel_put_back(s, t))
			continue;
		fn = t->fn;
		twheel_dequeue(s, t);
		t->flags |= TWHEEL_T_TAKEN;
		s->running = t;
		s->count.fired++;
		if (trace_twheel_expire_enabled())
			trace_twheel_expire(s, t, twheel_clock_ns(s->wheel));
		raw_spin_unlock_irq(&s->lock);

		if (!IS_ENABLED(CONFIG_PREEMPT_RT))
			non_block_start();
		fn(t);
		if (!IS_ENABLED(CONFIG_PREEMPT_RT))
			non_block_end();
		cond_resched();

		raw_spin_lock_irq(&s->lock);
		s->running = NULL;
	}
}

/*
 * Run one turn, of at most @budget timeouts, which is reduced. The caller holds @lock, or for a
 * sink s->sinking, and passes NULL. Returns true if work may be left: s->wake is then
 * TWHEEL_QUEUED. Otherwise sets s->wake, for which the caller sets the hrtimer.
 */
static bool twheel_turn(struct twheel_shard *s, struct mutex *lock, u64 now_ns,
			unsigned int *budget)
	__must_hold(&s->lock)
{
	u64 tick = twheel_tick_now(s, now_ns), wake;
	bool over;

	lockdep_assert_held(&s->lock);
	s->wake = TWHEEL_QUEUED;
	over = s->realtime ? twheel_collect_tree(s, tick, budget) : twheel_collect(s, tick, budget);
	s->turn.lock = lock;
	WRITE_ONCE(s->turn.task, current);
	if (s->wheel->params.sink)
		twheel_run_sink(s, now_ns);
	else
		twheel_run_callbacks(s);
	WRITE_ONCE(s->turn.task, NULL);
	if (s->stopped)
		return false;
	if (!over)
		return true;
	if (twheel_cascade_crowded(s, budget))
		return true;
	wake = twheel_next_wake(s);
	if (wake <= tick)
		return true;
	s->wake = wake;
	return false;
}

/* The hrtimer */

/* Has the hrtimer fired for @wake, and since then no arm set it again or queued the shard? */
static bool twheel_timer_has_fired(struct twheel_shard *s)
{
	lockdep_assert_held(&s->lock);
	return s->wake != TWHEEL_QUEUED && s->wake != TWHEEL_NEVER && !hrtimer_is_queued(&s->timer);
}

/* Wake the thread, unless the timeouts have been cancelled. */
static enum hrtimer_restart twheel_timer_fn(struct hrtimer *timer)
{
	struct twheel_shard *s = container_of(timer, struct twheel_shard, timer);
	struct task_struct *thread = NULL;
	struct twheel_step crowded;
	u64 wake;

	scoped_guard(raw_spinlock_irqsave, &s->lock) {
		if (!twheel_timer_has_fired(s))
			break;
		/* The crowd may have been cancelled. */
		if (s->lead_tick <= s->wake)
			s->lead_tick = twheel_find_crowded(s, &crowded);
		wake = twheel_next_wake(s);
		if (wake > s->wake) {
			twheel_set_timer(s, wake);
			break;
		}
		s->reached = s->wake;
		s->count.wakeups++;
		thread = twheel_queue(s);
	}
	if (thread)
		wake_up_process(thread);
	return HRTIMER_NORESTART;
}

/*
 * Turns in a soft interrupt, while the budget of this CPU lasts; @begins: a new pass. Returns
 * NULL if the pass is over. Otherwise the shard is queued: returns the thread to wake.
 */
static struct task_struct *twheel_soft_turns(struct twheel_shard *s, bool begins)
	__must_hold(&s->lock)
{
	bool monotonic = s->wheel->params.clock == TWHEEL_MONOTONIC, more;
	struct twheel_server *here = raw_cpu_ptr(&twheel_servers);
	u64 now_ns = ktime_get_ns(), end_ns, used_ns, nivcsw;
	unsigned int budget;

	while (here->paid_ns < now_ns + TWHEEL_PAUSE_NS && !twheel_is_isolated(s)) {
		budget = TWHEEL_BATCH;
		nivcsw = current->nivcsw;
		more = twheel_turn(s, NULL, monotonic ? now_ns : twheel_clock_ns(s->wheel),
				   &budget);
		end_ns = ktime_get_ns();
		used_ns = min_t(u64, __twheel_used_ns(now_ns, end_ns, nivcsw),
				TWHEEL_LONG_TURN_NS);
		here->paid_ns = max(here->paid_ns, end_ns - used_ns) + 4 * used_ns;
		if (begins && (more || budget < TWHEEL_BATCH))
			s->count.wakeups++;
		if (!more)
			return NULL;
		now_ns = end_ns;
		begins = false;
	}
	if (begins)
		s->count.wakeups++;
	return twheel_queue(s);
}

static enum hrtimer_restart twheel_soft_timer_fn(struct hrtimer *timer)
{
	struct twheel_shard *s = container_of(timer, struct twheel_shard, timer);
	enum hrtimer_restart restart = HRTIMER_NORESTART;
	struct task_struct *thread = NULL;

	twheel_window(s->wheel, TWHEEL_AT_TIMER);
	spin_lock(&s->sinking);
	raw_spin_lock_irq(&s->lock);
	if (twheel_timer_has_fired(s)) {
		s->reached = s->wake;
		thread = twheel_soft_turns(s, true);
		/*
		 * If the clock is set back in this soft interrupt, hrtimers go by the old time, and
		 * call this again until the budget is used up. A later turn sets the right time.
		 */
		if (!thread && s->wake != TWHEEL_NEVER) {
			hrtimer_set_expires(timer, twheel_tick_to_ns(&s->geometry, s->wake));
			restart = HRTIMER_RESTART;
		}
	}
	raw_spin_unlock_irq(&s->lock);
	spin_unlock(&s->sinking);
	if (thread)
		wake_up_process(thread);
	return restart;
}

/* The servers */

/* The next shard with work to do; @soft: pass over those for the thread alone, which are few. */
static struct twheel_shard *twheel_next_queued(struct twheel_server *server, bool soft)
{
	struct twheel_shard *s;

	guard(raw_spinlock_irqsave)(&server->lock);
	list_for_each_entry(s, &server->queue, queued) {
		if (soft && !(s->mode & HRTIMER_MODE_SOFT))
			continue;
		list_del_init(&s->queued);
		return s;
	}
	return NULL;
}

/* Turns of queued shards, until the hrtimer is set again because the budget is used up. */
static enum hrtimer_restart twheel_resume_fn(struct hrtimer *timer)
{
	struct twheel_server *server = container_of(timer, struct twheel_server, resume);
	struct task_struct *thread;
	struct twheel_shard *s;

	spin_lock(&server->resuming);
	while (!hrtimer_is_queued(timer)) {
		s = twheel_next_queued(server, true);
		if (!s)
			break;
		twheel_window(s->wheel, TWHEEL_AT_RESUME);
		spin_lock(&s->sinking);
		raw_spin_lock_irq(&s->lock);
		thread = s->stopped ? NULL : twheel_soft_turns(s, false);
		if (!thread)
			twheel_set_timer(s, s->wake);
		raw_spin_unlock_irq(&s->lock);
		spin_unlock(&s->sinking);
		if (thread)
			wake_up_process(thread);
	}
	spin_unlock(&server->resuming);
	return HRTIMER_NORESTART;
}

/* In an interrupt of the server's CPU, after an arm on an isolated one. */
static void twheel_kicked(void *data)
{
	struct twheel_server *server = data;

	hrtimer_start(&server->resume, 0, HRTIMER_MODE_ABS_PINNED_SOFT);
	wake_up_process(server->task);
}

static int twheel_should_run(unsigned int cpu)
{
	return !list_empty(&per_cpu(twheel_servers, cpu).queue);
}

/* Run a turn of a whole batch in a task, with @lock held. Returns true if work may be left. */
static bool twheel_task_turn(struct twheel_shard *s, struct mutex *lock)
{
	bool sink = s->wheel->params.sink, more = false;
	struct task_struct *thread = NULL;
	unsigned int budget = TWHEEL_BATCH;

	lockdep_assert_held(lock);
	if (sink)
		spin_lock_bh(&s->sinking);
	raw_spin_lock_irq(&s->lock);
	if (!s->stopped) {
		more = twheel_turn(s, sink ? NULL : lock, twheel_clock_ns(s->wheel), &budget);
		if (!more)
			twheel_set_timer(s, s->wake);
		else if (s->wheel->params.clock != TWHEEL_MANUAL)
			thread = twheel_queue(s);
	}
	raw_spin_unlock_irq(&s->lock);
	if (sink)
		spin_unlock_bh(&s->sinking);
	/* The server may have changed. */
	if (thread && thread != current)
		wake_up_process(thread);
	return more;
}

static void twheel_serve(unsigned int cpu)
{
	struct twheel_server *server = &per_cpu(twheel_servers, cpu);
	struct twheel_shard *s;

	scoped_guard(mutex, &server->busy) {
		s = twheel_next_queued(server, false);
		if (s)
			twheel_task_turn(s, &server->busy);
	}
	cond_resched();
}

static void twheel_thread_setup(unsigned int cpu)
{
	if (rt)
		sched_set_fifo_low(current);
}

static struct smp_hotplug_thread twheel_thread = {
	.store			= &twheel_threads,
	.setup			= twheel_thread_setup,
	.thread_should_run	= twheel_should_run,
	.thread_fn		= twheel_serve,
	.thread_comm		= "twheel/%u",
};

/*
 * The server for the shard of @cpu: the thread of @cpu if it serves, otherwise one on a
 * housekeeping CPU, otherwise any.
 */
static struct twheel_server *twheel_pick_server(unsigned int cpu)
{
	lockdep_assert_held(&twheel_mutex);
	if (!cpumask_test_cpu(cpu, &twheel_serving))
		cpu = cpumask_any_and(&twheel_serving, housekeeping_cpumask(HK_TYPE_TIMER));
	if (cpu >= nr_cpu_ids)
		cpu = cpumask_any(&twheel_serving);
	return &per_cpu(twheel_servers, cpu);
}

/* Move the shard to another server. If the shard is queued, queue it there. */
static void twheel_move_shard(struct twheel_shard *s, struct twheel_server *to)
{
	struct task_struct *thread = NULL;
	bool queued;

	scoped_guard(raw_spinlock_irq, &s->lock) {
		scoped_guard(raw_spinlock, &s->server->lock) {
			queued = !list_empty(&s->queued);
			list_del_init(&s->queued);
		}
		s->server = to;
		if (queued)
			thread = twheel_queue(s);
	}
	if (thread)
		wake_up_process(thread);
}

static int twheel_set_serving(unsigned int cpu, bool serving)
{
	struct twheel_shard *s;
	struct twheel *w;

	guard(mutex)(&twheel_mutex);
	WRITE_ONCE(per_cpu(twheel_servers, cpu).task, per_cpu(twheel_threads, cpu));
	assign_bit(cpu, cpumask_bits(&twheel_serving), serving);
	list_for_each_entry(w, &twheel_wheels, entry)
		list_for_each_entry(s, &w->shard_list, entry)
			twheel_move_shard(s, twheel_pick_server(s->cpu));
	return 0;
}

static int twheel_cpu_online(unsigned int cpu)
{
	return twheel_set_serving(cpu, true);
}

static int twheel_cpu_offline(unsigned int cpu)
{
	return twheel_set_serving(cpu, false);
}

/* Queries */

/**
 * twheel_now() - the time of a wheel
 * @w: the wheel
 *
 * Return: ns on its clock.
 */
u64 twheel_now(struct twheel *w)
{
	return twheel_clock_ns(w);
}
EXPORT_SYMBOL_GPL(twheel_now);

/**
 * twheel_advance() - set the time of a MANUAL wheel
 * @w: the wheel
 * @now_ns: its time from now on, at most S64_MAX
 *
 * On return, all that is due at @now_ns has fired: the callbacks, or the sink, have been
 * called in the caller's context. Moving the time backward fires nothing; a timeout that
 * would fire before the time that the wheel had reached fires right after it.
 *
 * Context: may sleep. Callbacks and the sink must not block.
 *
 * Return: 0; -EINVAL if @now_ns is too large or @w is not MANUAL; -EDEADLK from a
 * callback or the sink of @w.
 */
int twheel_advance(struct twheel *w, u64 now_ns)
{
	struct twheel_shard *s;

	if (w->params.clock != TWHEEL_MANUAL || now_ns > S64_MAX)
		return -EINVAL;
	if (twheel_in_callback(w))
		return -EDEADLK;

	guard(mutex)(&w->advance);
	twheel_window(w, TWHEEL_AT_ADVANCE);
	atomic64_set(&w->manual_ns, now_ns);
	list_for_each_entry(s, &w->shard_list, entry)
		while (twheel_task_turn(s, &w->advance))
			cond_resched();
	return 0;
}
EXPORT_SYMBOL_GPL(twheel_advance);

/**
 * twheel_remaining_ns() - how long until the deadline
 * @t: an initialised timeout
 *
 * Return: ns; 0 if the deadline has passed, or if @t is not pending.
 */
u64 twheel_remaining_ns(struct twheel_timeout *t)
{
	CLASS(twheel_home, home)(t);
	u64 expires = twheel_state(t) == TWHEEL_PENDING ? t->expires : 0;
	u64 now_ns = twheel_clock_ns(home.s->wheel);

	return expires > now_ns ? expires - now_ns : 0;
}
EXPORT_SYMBOL_GPL(twheel_remaining_ns);

/**
 * twheel_next_expiry() - lower bound of the next expiry of a wheel
 * @w: the wheel
 *
 * Return: the time, absolute ns, before which nothing fires; S64_MAX if nothing is pending.
 */
u64 twheel_next_expiry(struct twheel *w)
{
	u64 first = TWHEEL_NEVER;
	struct twheel_shard *s;
	struct twheel_step step;

	list_for_each_entry(s, &w->shard_list, entry) {
		guard(raw_spinlock_irqsave)(&s->lock);
		if (!list_empty(&s->due))
			return 0;
		if (s->realtime)
			step.wake = twheel_next_wake(s);
		else
			twheel_find_step(s, &step);
		first = min(first, step.wake);
	}
	return twheel_tick_to_ns(&w->geometry, first);
}
EXPORT_SYMBOL_GPL(twheel_next_expiry);

/**
 * twheel_get_counters() - read the statistics of a wheel
 * @w: the wheel
 * @counters: filled with the sums over all shards
 */
void twheel_get_counters(struct twheel *w, struct twheel_counters *counters)
{
	struct twheel_shard *s;
	unsigned int i;

	memset(counters, 0, sizeof(*counters));
	list_for_each_entry(s, &w->shard_list, entry) {
		guard(raw_spinlock_irqsave)(&s->lock);
		counters->rearmed += s->count.rearmed;
		counters->cancelled += s->count.cancelled + s->count.rearmed;
		counters->fired += s->count.fired;
		counters->stopped += s->count.stopped;
		counters->pending += s->nr;
		counters->extended += s->count.extended;
		counters->cascaded += s->count.cascaded;
		counters->wakeups += s->count.wakeups;
		for (i = 0; i < s->geometry.levels; i++)
			counters->occupied[i] += bitmap_weight(s->level[i].map,
							       s->level[i].mask + 1);
		counters->shards++;
	}
	counters->armed = counters->cancelled + counters->fired + counters->stopped +
			  counters->pending;
}
EXPORT_SYMBOL_GPL(twheel_get_counters);

/* debugfs: a file per wheel */

static int twheel_wheel_show(struct seq_file *m, void *unused)
{
	struct twheel *w = m->private;
	struct twheel_counters stats;
	u32 i;

	twheel_get_counters(w, &stats);
	seq_printf(m, "clock          %s\n", twheel_clocks[w->params.clock].name);
	seq_printf(m, "tick_ns        %llu\n", w->params.tick_ns);
	seq_printf(m, "armed          %llu\nrearmed        %llu\ncancelled      %llu\n",
		   stats.armed, stats.rearmed, stats.cancelled);
	seq_printf(m, "fired          %llu\nstopped        %llu\npending        %llu\n",
		   stats.fired, stats.stopped, stats.pending);
	seq_printf(m, "extended       %llu\ncascaded       %llu\nwakeups        %llu\n",
		   stats.extended, stats.cascaded, stats.wakeups);
	seq_puts(m, "\nlevel  occupied slots  of\n");
	for (i = 0; i < w->geometry.levels; i++)
		seq_printf(m, "%5u  %14u  %u\n", i, stats.occupied[i],
			   stats.shards * twheel_ring(&w->geometry, i));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(twheel_wheel);

/* Number the files: names of wheels need not be unique. */
static void twheel_add_file(struct twheel *w)
{
	static atomic_t number;
	char file[TWHEEL_NAME_LEN + 12];

	snprintf(file, sizeof(file), "%s.%u", w->name, atomic_fetch_inc(&number));
	strreplace(file, '/', '!');
	w->dentry = debugfs_create_file(file, 0400, twheel_debugfs, w, &twheel_wheel_fops);
}

/* Creation and destruction */

static void twheel_init_shard(struct twheel_shard *s, struct twheel *w, unsigned int cpu)
{
	const struct twheel_geometry *g = &w->geometry;
	u32 nr = twheel_first_slot(g, g->levels), i;
	unsigned long *bits = (unsigned long *)&s->slots[nr];

	raw_spin_lock_init(&s->lock);
	spin_lock_init(&s->sinking);
	s->wheel = w;
	s->geometry = *g;
	s->realtime = w->params.clock == TWHEEL_REALTIME;
	/*
	 * Callbacks run in a thread, a sink in soft interrupts. But with low resolution the kernel
	 * forgets hrtimers of soft interrupts when a clock is set, and Linux 5.10 after suspend.
	 */
	s->mode = w->params.sink && hrtimer_resolution == 1 ?
		  HRTIMER_MODE_ABS_SOFT : HRTIMER_MODE_ABS_HARD;
	s->cpu = cpu;
	for (i = 0; i < ARRAY_SIZE(s->level_of); i++)
		s->level_of[i] = twheel_level_of_bit(g, i);
	timerqueue_init_head(&s->tree);
	for (i = 0; i < nr; i++)
		INIT_LIST_HEAD(&s->slots[i].list);
	for (i = 0; i < g->levels; i++) {
		s->level[i] = (struct twheel_level){
			.shift = twheel_shift(g, i), .mask = twheel_ring(g, i) - 1,
			.row = &s->slots[twheel_first_slot(g, i)], .map = bits,
		};
		bits += BITS_TO_LONGS(twheel_ring(g, i));
	}
	INIT_LIST_HEAD(&s->aside);
	INIT_LIST_HEAD(&s->due);
	INIT_LIST_HEAD(&s->queued);
	s->cursor = twheel_tick_floor(g, twheel_clock_ns(w));
	s->target = s->cursor;
	s->wake = TWHEEL_NEVER;
	s->lead_tick = TWHEEL_NEVER;
	hrtimer_setup(&s->timer, s->mode & HRTIMER_MODE_SOFT ? twheel_soft_timer_fn :
		      twheel_timer_fn, twheel_clocks[w->params.clock].id, s->mode);
	list_add_tail(&s->entry, &w->shard_list);
}

static void twheel_free(struct twheel *w)
{
	struct twheel_shard *s, *next;

	list_for_each_entry_safe(s, next, &w->shard_list, entry)
		kvfree(s);
	lockdep_unregister_key(&w->key);
	kfree(w);
}

/* A CPU isolated from timers uses the shard of another CPU. */
static int twheel_alloc_shards(struct twheel *w, gfp_t gfp)
{
	const struct twheel_geometry *g = &w->geometry;
	unsigned int cpu, own;
	struct twheel_shard *s;
	size_t size;

	size = struct_size(s, slots, twheel_first_slot(g, g->levels)) +
	       sizeof(long) * (BITS_TO_LONGS(twheel_ring(g, 0)) +
			       (g->levels - 1) * BITS_TO_LONGS(twheel_ring(g, 1)));

	for_each_possible_cpu(cpu) {
		if (!housekeeping_test_cpu(cpu, HK_TYPE_TIMER))
			continue;
		s = kvzalloc_node(size, gfp, cpu_to_node(cpu));
		if (!s)
			return -ENOMEM;
		w->params.memory += size;
		twheel_init_shard(s, w, cpu);
		w->shards[cpu] = s;
	}
	own = cpumask_first_and(cpu_possible_mask, housekeeping_cpumask(HK_TYPE_TIMER));
	for_each_possible_cpu(cpu)
		if (!w->shards[cpu])
			w->shards[cpu] = w->shards[own];
	return 0;
}

/**
 * twheel_create() - create a wheel
 * @params: its parameters, not NULL; 0 in a member means the default
 *
 * Context: may sleep.
 *
 * Return: the wheel; ERR_PTR(-EINVAL) if a parameter is out of range; ERR_PTR(-ENOMEM).
 */
struct twheel *twheel_create(const struct twheel_params *params)
{
	gfp_t gfp = params->account ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
	u64 tick_ns = params->tick_ns ?: default_tick_ns;
	u32 slots = params->slots ?: default_slots;
	struct twheel_shard *s;
	struct twheel *w;
	size_t size;

	if (params->clock > TWHEEL_MANUAL || !twheel_geometry_valid(tick_ns, slots))
		return ERR_PTR(-EINVAL);
	size = struct_size(w, shards, nr_cpu_ids);
	w = kzalloc(size, gfp);
	if (!w)
		return ERR_PTR(-ENOMEM);
	twheel_geometry_init(&w->geometry, tick_ns, slots, params->levels);
	strscpy(w->name, params->name ?: "wheel", sizeof(w->name));
	w->params = *params;
	w->params.name = w->name;
	w->params.tick_ns = tick_ns;
	w->params.slots = w->geometry.slots;
	w->params.levels = w->geometry.levels;
	w->params.memory = size;
	INIT_LIST_HEAD(&w->shard_list);
	lockdep_register_key(&w->key);
	__mutex_init(&w->ending, "twheel.ending", &w->key);
	mutex_init(&w->advance);
	if (twheel_alloc_shards(w, gfp)) {
		twheel_free(w);
		return ERR_PTR(-ENOMEM);
	}

	scoped_guard(mutex, &twheel_mutex) {
		list_for_each_entry(s, &w->shard_list, entry)
			s->server = twheel_pick_server(s->cpu);
		list_add_tail(&w->entry, &twheel_wheels);
		if (!w->params.account)
			twheel_nr_wheels++;
		if (twheel_nr_wheels > warn_wheels)
			pr_warn_once("%u wheels: share one, it holds any number of timeouts\n",
				     twheel_nr_wheels);
	}
	/* Without the mutex: this allocates memory, and CPU hotplug takes the mutex. */
	twheel_add_file(w);
	return w;
}
EXPORT_SYMBOL_GPL(twheel_create);

/* Any pending timeout of a stopped shard, or NULL. */
static struct twheel_timeout *twheel_any(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;
	struct timerqueue_node *first = timerqueue_getnext(&s->tree);
	u64 block;
	u32 level;

	if (!list_empty(&s->due))
		return list_first_entry(&s->due, struct twheel_timeout, entry);
	if (!list_empty(&s->aside))
		return list_first_entry(&s->aside, struct twheel_timeout, entry);
	if (first)
		return container_of(first, struct twheel_timeout, node);
	for (level = 0; level < g->levels; level++) {
		block = twheel_next_block(s, level, 0);
		if (block != TWHEEL_NEVER)
			return list_first_entry(&s->level[level].row[block].list,
						struct twheel_timeout, entry);
	}
	return NULL;
}

/*
 * Dequeue one pending timeout of a stopped shard and hand it back. Meanwhile it appears as
 * if its callback were running, so that its owner can wait for it.
 */
static bool twheel_hand_back(struct twheel_shard *s,
			     void (*fn)(void *data, struct twheel_timeout *t), void *data)
{
	struct twheel_timeout *t;

	scoped_guard(raw_spinlock_irq, &s->lock) {
		t = twheel_any(s);
		if (!t)
			return false;
		twheel_dequeue(s, t);
		t->flags |= TWHEEL_T_TAKEN;
		s->running = t;
		s->count.stopped++;
		s->turn.lock = &s->wheel->ending;
		WRITE_ONCE(s->turn.task, current);
	}
	if (fn)
		fn(data, t);
	scoped_guard(raw_spinlock_irq, &s->lock) {
		s->running = NULL;
		WRITE_ONCE(s->turn.task, NULL);
	}
	return true;
}

/**
 * twheel_stop() - stop a wheel and hand back the timeouts that have not fired
 * @w: the wheel
 * @unprocessed: called for each pending timeout, one at a time, in no order; may be NULL.
 *	The timeout is not pending. As in its callback, twheel_try_cancel() returns -EBUSY.
 *	The function may shut it down, free it, link its entry into a list, or, if no task may
 *	be cancelling it, initialise and arm it for another wheel. It may sleep
 * @data: first argument of @unprocessed
 *
 * From now on each arm fails with -ESHUTDOWN. On return no callback and no sink is running,
 * and none will run. A timeout that is cancelled before its turn is not handed back. While a
 * timeout is being handed back, twheel_cancel_sync() and twheel_shutdown() wait until this call
 * has ended. So its owner may free it after one of these calls, as always.
 *
 * The function of a struct twheel_work may still be queued or running. Call
 * twheel_cancel_work_sync() before it is freed, in @unprocessed too, and before twheel_destroy().
 *
 * A second caller waits for the first, and nothing is handed back to it.
 *
 * Context: may sleep. A call from a callback or the sink of @w, or from @unprocessed, is
 * refused with a warning.
 */
void twheel_stop(struct twheel *w, void (*unprocessed)(void *data, struct twheel_timeout *t),
		 void *data)
{
	struct twheel_server *server;
	struct twheel_shard *s;
	unsigned int cpu;

	if (WARN_ON_ONCE(twheel_in_callback(w)))
		return;
	guard(mutex)(&w->ending);
	/* All shards first: @unprocessed could arm a timeout in one that is not stopped yet. */
	list_for_each_entry(s, &w->shard_list, entry) {
		guard(raw_spinlock_irq)(&s->lock);
		s->stopped = true;
		s->wake = TWHEEL_NEVER;
		/* Do not wait for the turns of shards before this one in the queue. */
		guard(raw_spinlock)(&s->server->lock);
		list_del_init(&s->queued);
	}
	list_for_each_entry(s, &w->shard_list, entry)
		hrtimer_cancel(&s->timer);
	mutex_lock(&w->advance);
	mutex_unlock(&w->advance);
	/* A server may have taken a shard off its queue and not have begun the turn yet. */
	for_each_possible_cpu(cpu) {
		server = &per_cpu(twheel_servers, cpu);
		mutex_lock(&server->busy);
		mutex_unlock(&server->busy);
		spin_lock_bh(&server->resuming);
		spin_unlock_bh(&server->resuming);
	}
	list_for_each_entry(s, &w->shard_list, entry)
		while (twheel_hand_back(s, unprocessed, data))
			cond_resched();
}
EXPORT_SYMBOL_GPL(twheel_stop);

/**
 * twheel_destroy() - stop and free a wheel
 * @w: the wheel, an error pointer, or NULL
 *
 * Pending timeouts are taken out and do not fire. On return no callback and no sink is
 * running. No other call for @w or a timeout of it may overlap with this one or come
 * after it. The function of a struct twheel_work must not make one either. The timeouts can
 * be initialised again for another wheel.
 *
 * Context: as twheel_stop(). If it is refused, the wheel stays as it is.
 */
void twheel_destroy(struct twheel *w)
{
	if (IS_ERR_OR_NULL(w))
		return;
	twheel_stop(w, NULL, NULL);
	if (twheel_in_callback(w))
		return;
	debugfs_remove(w->dentry);
	scoped_guard(mutex, &twheel_mutex) {
		list_del(&w->entry);
		if (!w->params.account)
			twheel_nr_wheels--;
	}
	twheel_free(w);
}
EXPORT_SYMBOL_GPL(twheel_destroy);

/**
 * twheel_get_params() - parameters of a wheel
 * @w: the wheel
 * @params: filled with the parameters in effect, and with memory; name is valid as long as @w
 */
void twheel_get_params(const struct twheel *w, struct twheel_params *params)
{
	*params = w->params;
}
EXPORT_SYMBOL_GPL(twheel_get_params);

#ifdef TWHEEL_TEST
#define CREATE_TWHEEL_AUDIT
#include "kunit/audit.h"
#endif

static int twheel_hotplug_state;

static int __init twheel_init(void)
{
	unsigned int cpu;
	int ret;

	if (!twheel_geometry_valid(default_tick_ns, default_slots))
		return -EINVAL;
	for_each_possible_cpu(cpu) {
		struct twheel_server *server = &per_cpu(twheel_servers, cpu);

		server->cpu = cpu;
		mutex_init(&server->busy);
		spin_lock_init(&server->resuming);
		raw_spin_lock_init(&server->lock);
		INIT_LIST_HEAD(&server->queue);
		hrtimer_setup(&server->resume, twheel_resume_fn, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS_PINNED_SOFT);
		INIT_CSD(&server->kick, twheel_kicked, server);
	}

	ret = smpboot_register_percpu_thread(&twheel_thread);
	if (ret)
		return ret;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "twheel:online",
				twheel_cpu_online, twheel_cpu_offline);
	if (ret < 0) {
		twheel_unregister_threads(&twheel_thread);
		return ret;
	}
	twheel_hotplug_state = ret;
	twheel_debugfs = debugfs_create_dir("twheel", NULL);
	return 0;
}

/* A kick that has begun, in an interrupt, ends before the thread of its CPU can run to exit. */
static void __exit twheel_exit(void)
{
	unsigned int cpu;

	debugfs_remove(twheel_debugfs);
	cpuhp_remove_state(twheel_hotplug_state);
	kick_all_cpus_sync();
	twheel_unregister_threads(&twheel_thread);
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu(twheel_servers, cpu).resume);
}

module_init(twheel_init);
module_exit(twheel_exit);

MODULE_DESCRIPTION("Hierarchical timing wheels");
MODULE_LICENSE("GPL");
MODULE_VERSION(TWHEEL_MODULE_VERSION);
