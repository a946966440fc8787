// SPDX-License-Identifier: GPL-2.0
/*
 * Hashed and hierarchical timing wheels
 *
 * A wheel has one shard per CPU; a CPU isolated from timers uses another CPU's
 * shard. A shard is a complete timing wheel of its own: it has slots in one or more
 * levels, a cursor, one hrtimer and one lock. An arm goes to the shard of the CPU
 * that it is called on, so CPUs do not contend. That shard is the home of the
 * timeout until the timeout is armed or moved on another CPU. twheel_index.h
 * explains how ticks map to levels and slots.
 *
 *
 * Expiry
 *
 * A shard advances in passes. A pass reads the clock and rounds it down to a tick,
 * its target (@done). It then moves the cursor to the target in steps. A step is
 * the entry into the block of an occupied slot. A step on level 0 puts the
 * timeouts of the slot on the list of due timeouts. A step on a higher level is a
 * cascade: it moves the timeouts of the block down one level. On the top level,
 * timeouts of later rounds stay where they are. Empty ticks cost nothing.
 *
 * A pass consists of turns. A turn handles at most TWHEEL_BATCH timeouts in one
 * hold of the lock. It then calls the sink or the callbacks without the lock.
 * Between turns the thread offers the CPU to other tasks and serves the next wheel.
 * The shard holds all state of a pass, so another thread can continue it.
 *
 *  - Nothing fires early. Deadlines are rounded up and the target is rounded down.
 *    Only a timeout with tick <= target becomes due.
 *
 *  - Every pass ends. A timeout that is armed during a pass gets a tick after the
 *    target, which is fixed when the pass begins.
 *
 *  - Timeouts fire in ascending order of tick, and in the order of arming within a
 *    tick. The cursor enters a block only when the slots for that block on all
 *    higher levels are empty. The same hold of the lock checks this.
 *    Until then an arm for the block joins the tail of the highest of these slots.
 *    So all timeouts of one tick pass through the same slots, first in first out.
 *
 *
 * Early cascades
 *
 * A slot with very many timeouts must not delay other timeouts when its block begins.
 * Levels below the top have slots for two blocks of the level above: the current
 * and the next one. A slot is full if it has TWHEEL_BATCH timeouts or more. The
 * cascade of a full slot begins at twheel_early(), and only when no timeout is due.
 * It proceeds in turns, like a pass. Arms for the block still join the slot
 * above, so the order within a tick holds. Slots that are not full cascade when
 * their block begins.
 *
 * @full has a bit for each slot that may be full. slot->nr counts the timeouts put
 * into a slot since it was empty. A cancel does not decrement it, to avoid a cache
 * miss. The timeouts are counted before an early cascade begins.
 *
 *
 * Clock steps
 *
 * CLOCK_REALTIME and MANUAL can go back. Code that finds the time behind @done begins
 * a rebase of the shard. The thread first gathers all timeouts of the shard on the
 * list @stale, in turns. It then places each one as if it had been armed right after
 * the step. An arm during a rebase adds to the tail of @stale. Placing a timeout is
 * cheaper than arming it, so @stale drains. No timeout of the shard fires before the end
 * of the rebase; twheel_bound_kunit measures how long it takes. The time is checked where
 * a turn begins, where CLOCK_REALTIME is armed, when an hrtimer fires, and before each
 * callback or batch of a sink.
 *
 * The kernel does not notify modules of clock steps. A step backward also delays the
 * hrtimer on CLOCK_REALTIME. A timeout armed with a past deadline waits for the next
 * tick, and would then wait until the clock reaches that tick again. So CLOCK_REALTIME
 * has a second hrtimer, @guard. It fires when the first would have without the step.
 *
 * A step forward brings @timer closer, but not @guard. This matters only for the tick after
 * @done: in a later tick, a timeout waits for its own deadline. The hrtimers for that tick
 * were set when the clock had reached @done, so @guard fires within a tick. An arm in an
 * empty shard moves @done. So it sets both hrtimers, even if those that a cancelled or moved
 * timeout has left are earlier.
 *
 * After a step forward the kernel reprograms the hrtimers of all CPUs at once, except of
 * the one that sets the clock: there it does so in the next timer interrupt.
 *
 *
 * Sleeping
 *
 * Between passes the hrtimer of the shard is set to the tick of the next work
 * (@wake). An earlier arm reprograms it. A cancel does not: when the hrtimer fires,
 * its function searches again, and reprograms it or wakes the thread. A slot with one
 * timeout is not entered before that timeout is due. A single timeout therefore
 * costs one wakeup, on any level.
 *
 * While the thread has work, @wake is TWHEEL_QUEUED, which is below every tick.
 * Arms then leave the hrtimer alone.
 *
 * The search for the next step examines a bounded number of words and slots. Below
 * the top level the next set bit of the ring is the next block. On the top level the
 * slots differ in their rounds. Each slot, each word of the map and each group of words
 * has a lower bound of its ticks. These bounds lead to the earliest slot. A cancel may
 * leave a bound too low. A search corrects at most TWHEEL_REPAIRS of them; the next
 * turn continues an unfinished search.
 *
 *
 * Threads
 *
 * One thread per CPU serves all wheels. A shard is served by the thread of its CPU,
 * or by another one while that CPU is offline. The server changes under the shard's
 * lock. The old server finishes its turn and queues the shard for the new one if
 * there is more to do. A CPU hotplug state makes the change. The thread's own park
 * and unpark calls do not: they are skipped for a thread that has not run yet.
 *
 * The callback of a timeout with TWHEEL_T_WORKER is run by a worker of the shard.
 * The thread moves such a timeout from the due list to @handed, from which the
 * workers take. It is pending, and can be cancelled, until a worker takes it.
 *
 * A runner calls the callbacks, or the sink, of a shard: it is the thread, a worker,
 * or a caller of twheel_stop() that hands timeouts back. t->runner identifies the
 * last runner that took t. The callback of t is running if that runner's
 * @running is t. twheel_timeout_init() clears t->runner. So a new timeout in reused
 * memory is never mistaken for an old one whose callback still runs.
 *
 *
 * Periodic timeouts
 *
 * With fixed rate, the next deadline is enqueued right before the callback is called.
 * The callback can cancel or move it, and a slow callback loses no period. The callback
 * never runs concurrently with itself: the thread is busy with it, and workers skip
 * a timeout whose callback is running. With fixed delay, runner->again requests
 * that the timeout is enqueued after the callback. A cancel or an arm revokes it.
 *
 *
 * Locking
 *
 *	twheel.ending		one twheel_stop() at a time; @unprocessed may sleep
 *	  twheel_mutex		all wheels, which CPUs serve
 *	    shard.lock		the shard and the timeouts at home in it
 *	      server.lock	the server's queue of shards
 *	      hrtimer base	in hrtimer_start()
 *	twheel.advance		one twheel_advance() at a time (MANUAL)
 *	  shard.lock		as above
 *
 * No task is woken and no work is queued with shard.lock held. An arm takes no other
 * lock than these, so callers may hold the lock of a run queue or of a worker pool.
 * Code never waits for a second shard lock. A move to the local shard trylocks that
 * shard while it holds the lock of the old home. If this fails, the timeout stays
 * at home.
 *
 * Callbacks and sinks run with no lock held but twheel.advance (MANUAL). shard.lock
 * and server.lock are taken in hard interrupts (hrtimer; a thread on PREEMPT_RT).
 *
 * The home of a timeout, t->shard, changes under the lock of the old home while the
 * timeout is not running there. It is read without a lock to find the lock, and
 * read again under it: twheel_lock_home(). The timeouts given to twheel_arm_list()
 * are idle and known to the caller alone; their home changes under the new home's
 * lock. twheel_timeout_init() sets it without a lock: nobody else knows the timeout.
 *
 * Lockless accesses
 *
 *	t->shard	see above. Written with release, which pairs with the lock of
 *			the new home: its holder sees the writes under the old one
 *	t->state	twheel_pending() reads it as a hint. twheel_state() reads with
 *			acquire, which pairs with the release in twheel_accept(), the
 *			only write without the lock
 *	t->flags	twheel_accept() reads TWHEEL_T_LIMITED, which is constant;
 *			twheel_periodic_ended() reads TWHEEL_T_ENDED as a hint
 *	server.task	set once, before the server gets a shard
 *	server.queue	twheel_should_run(): the queue is filled before
 *			wake_up_process(), whose barrier pairs with the one in the
 *			thread loop's set_current_state()
 *	runner->task	a task compares it with itself. twheel_start_workers() skips busy
 *			workers: each clears it in the lock hold that ends its search
 *
 *
 * Cancel against expiry
 *
 *	CPU0 (thread)			CPU1
 *	lock
 *	take t off the due list
 *	t->state = INACTIVE
 *	runner->running = t
 *	unlock				twheel_cancel_sync(t)
 *	t->fn(t)			  lock: not pending, but running
 *	  may free t			  unlock, wait
 *	lock
 *	runner->running = NULL
 *	notify = anyone waits
 *	unlock
 *	wake waiters if notify		  lock: not running
 *					  unlock, return false
 *
 * Until it is taken off the due list, a timeout is pending and can be cancelled,
 * even by an earlier callback of the same batch. In a wheel with a sink the whole
 * batch is EXPIRING from the time that it leaves the lock until the sink accepts
 * the timeout.
 *
 * A callback may arm its own timeout while a task waits to cancel it. The task may need
 * longer to wake up than the timeout to become due. So TWHEEL_T_CANCELLING keeps the
 * timeout on @handed, where neither the thread nor a worker takes it. In a wheel with a
 * sink it goes there when it becomes due. w->cancelling counts such timeouts, so that a
 * batch is searched for them only if there are any.
 *
 * A waiter counts itself in w->waiting, queues itself, and then examines the shard
 * under its lock. The runner changes the shard under the lock, and then reads
 * w->waiting, still under it. If the waiter came first, the runner sees it in
 * w->waiting and on the queue; otherwise the waiter sees the change. The runner
 * wakes after it has released the lock. The wheel may be freed by then, so it uses
 * the wheel's address only, as the key of a wait queue of the kernel.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/debugobjects.h>
#include <linux/hrtimer.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smpboot.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include "twheel.h"
#include "twheel_compat.h"
#include "twheel_index.h"

#define CREATE_TRACE_POINTS
#include "twheel_trace.h"

/* Most timeouts that are handled in one hold of a shard's lock. */
#define TWHEEL_BATCH	128

/* Most lower bounds that one search of the top level corrects. */
#define TWHEEL_REPAIRS	8

/* Most full slots of a level that one search examines. */
#define TWHEEL_PROBES	16

/* Lead of an early cascade over its block, for each timeout in the slot. */
#define TWHEEL_LEAD_NS	1000

/* shard.wake: the thread has work; the hrtimer fires at once; no hrtimer is needed. */
#define TWHEEL_QUEUED	0
#define TWHEEL_NOW	1
#define TWHEEL_NEVER	U64_MAX

/* t->level of a pending timeout in no slot: on shard.due, shard.handed, shard.stale. */
#define TWHEEL_DUE	0xff
#define TWHEEL_HANDED	0xfe
#define TWHEEL_STALE	0xfd
#define TWHEEL_NO_SLOT	TWHEEL_STALE

/* An arm of a timeout with one of these needs twheel_admit(). */
#define TWHEEL_T_PERIODIC	(TWHEEL_T_RATE | TWHEEL_T_DELAY)
#define TWHEEL_T_SLOW		(TWHEEL_T_PERIODIC | TWHEEL_T_ENDED | \
				 TWHEEL_T_SHUTDOWN | TWHEEL_T_LIMITED)

/* Workers of a shard, for timeouts that request one. */
#define TWHEEL_WORKERS	4

#define TWHEEL_NAME_LEN	32

static unsigned long long default_tick_ns = NSEC_PER_MSEC;
module_param_named(tick_ns, default_tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "default length of a tick in ns, 1 to 86400000000000 (1000000)");

static unsigned int default_slots = 256;
module_param_named(slots, default_slots, uint, 0444);
MODULE_PARM_DESC(slots, "default slots per level, 2 to 65536, rounded up to a power of two (256)");

static unsigned int default_levels = 4;
module_param_named(levels, default_levels, uint, 0444);
MODULE_PARM_DESC(levels, "default number of levels, 1 to 8 (4)");

static unsigned int warn_wheels = 64;
module_param(warn_wheels, uint, 0644);
MODULE_PARM_DESC(warn_wheels, "warn once when kernel code has more wheels than this (64)");

/* While off, the timeouts of a batch are not walked for statistics. */
static DEFINE_STATIC_KEY_FALSE(twheel_count_lateness);

static int twheel_set_lateness(const char *val, const struct kernel_param *kp)
{
	bool on;
	int ret = kstrtobool(val, &on);

	if (ret)
		return ret;
	if (on)
		static_branch_enable(&twheel_count_lateness);
	else
		static_branch_disable(&twheel_count_lateness);
	return 0;
}

static int twheel_get_lateness(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%c\n", static_key_enabled(&twheel_count_lateness) ? 'Y' : 'N');
}

static const struct kernel_param_ops twheel_lateness_ops = {
	.set	= twheel_set_lateness,
	.get	= twheel_get_lateness,
};
module_param_cb(lateness, &twheel_lateness_ops, NULL, 0644);
MODULE_PARM_DESC(lateness, "count how late timeouts fire, see debugfs (N)");

static bool rt;
module_param(rt, bool, 0444);
MODULE_PARM_DESC(rt, "run the threads with low real-time (FIFO) priority (N)");

/**
 * struct twheel_slot - the timeouts of one block
 * @list: the timeouts, in the order of arming
 * @first: no timeout in @list has an earlier tick; valid while @list is not empty
 * @nr: timeouts put into @list since it was empty, at least its length
 */
struct twheel_slot {
	struct list_head	list;
	u64			first;
	u64			nr;
};

/**
 * struct twheel_runner - a caller of the callbacks, or of the sink, of a shard
 * @running: timeout whose callback is running, or NULL. Compared, never dereferenced:
 *	the timeout may have been freed
 * @again: enqueue @running again when its callback returns (fixed delay)
 * @task: the task that is calling, or NULL; read locklessly to detect self-waits
 * @batch: odd while a batch or a callback is in progress, else even; only counts up
 * @work: runs twheel_work_fn() on the workqueue; workers only
 * @shard: the shard; constant
 *
 * Protected by the shard's lock.
 */
struct twheel_runner {
	struct twheel_timeout	*running;
	bool			again;
	struct task_struct	*task;
	unsigned int		batch;
	struct work_struct	work;
	struct twheel_shard	*shard;
};

/*
 * Runner 0 is the thread, or the caller of twheel_advance(). The workers follow. The
 * last runner is the caller of twheel_stop().
 */
#define TWHEEL_STOPPER	(1 + TWHEEL_WORKERS)
#define TWHEEL_RUNNERS	(TWHEEL_STOPPER + 1)

/**
 * enum twheel_rebase - phase of a rebase
 * @TWHEEL_BASED: no rebase in progress
 * @TWHEEL_GATHER: timeouts go from their slots to the list of stale ones
 * @TWHEEL_PLACE: timeouts go from the list of stale ones to their new slots
 */
enum twheel_rebase {
	TWHEEL_BASED,
	TWHEEL_GATHER,
	TWHEEL_PLACE,
};

/**
 * struct twheel_shard - the part of a wheel that one CPU fills, and isolated CPUs with it
 * @lock: protects all members that are not constant, and the timeouts at home here
 * @stopped: arms are refused
 * @rebase: enum twheel_rebase
 * @notify: wake waiters when the lock is released
 * @cpu: arms on this CPU use this shard; constant
 * @plain_cpu: @cpu if arms there may skip the checks: the shard is neither stopped nor
 *	in a rebase, and the clock is not CLOCK_REALTIME. Otherwise UINT_MAX
 * @geometry: copy of the wheel's geometry; constant
 * @cursor: last tick entered, or the tick before a block whose cascade is not complete
 * @done: timeouts are armed for later ticks only. In a pass, its target. In a rebase,
 *	the earliest tick that the clock has gone back to. Otherwise equal to @cursor
 * @wake: tick for which @timer is set, or TWHEEL_QUEUED, TWHEEL_NOW or TWHEEL_NEVER
 * @early: no early cascade needs to begin before this tick
 * @nr: pending timeouts
 * @cancelled: timeouts dequeued by a cancel, without those that a mod moved
 * @rearmed: pending timeouts that a mod moved
 * @wheel: the wheel; constant
 * @level_of: twheel_level_of_bit(); constant
 * @shift: for each level, twheel_shift(); constant
 * @ring_mask: for each level, twheel_ring() - 1; constant
 * @row: for each level, its first slot in @slots; constant
 * @map: for each level, a bitmap. A bit is set while the list of its slot is not empty
 * @full: for each level, a bitmap. A bit is set if its slot may be full
 * @word_first: for each word of the top level's map, no slot in it holds an earlier
 *	tick
 * @group_first: for each group of BITS_PER_LONG words, a lower bound of @word_first
 * @fired: timeouts passed to their callback or to the sink
 * @cascaded: moves of a timeout down one level
 * @visit: slot of the top level whose visit is in progress, or NULL. An early visit
 *	stays in progress until the block begins
 * @visit_first: earliest tick of the timeouts that the visit has left in the slot
 * @visit_nr: number of timeouts that the visit has left in the slot
 * @marker: link in the list of @visit, after the timeouts that have been visited
 * @due: timeouts that have left their slot and have not fired, at most TWHEEL_BATCH
 * @nr_due: length of @due
 * @handed: due timeouts that wait for a worker, or for the task that cancels them
 * @nr_handed: length of @handed
 * @stale: timeouts to place (rebase) or to hand back (stopped shard)
 * @runners: the thread, the workers, the caller of twheel_stop()
 * @extended: timeouts enqueued again by twheel_extend()
 * @rebased: timeouts placed again by a rebase
 * @stopped_nr: timeouts that twheel_stop() dequeued
 * @wakeups: wakeups of a thread for this shard
 * @largest_batch: most timeouts in one batch
 * @lateness: histogram of lateness by powers of two, in ns
 * @timer: hrtimer on the wheel's clock; wakes the server at @wake
 * @guard: hrtimer on CLOCK_MONOTONIC, set like @timer if the clock is CLOCK_REALTIME
 * @server: serves this shard
 * @work: link in the queue of @server; under its lock
 * @entry: link in twheel.all; constant
 * @slots: the slots of all levels
 */
struct twheel_shard {
	spinlock_t		lock;		/* the shard, the timeouts at home */
	bool			stopped;
	u8			rebase;
	bool			notify;
	unsigned int		cpu;
	unsigned int		plain_cpu;
	struct twheel_geometry	geometry;
	u64			cursor;
	u64			done;
	u64			wake;
	u64			early;
	u64			nr;
	u64			cancelled;
	u64			rearmed;
	struct twheel		*wheel;
	u8			level_of[BITS_PER_TYPE(u64)];
	u8			shift[TWHEEL_MAX_LEVELS];
	u32			ring_mask[TWHEEL_MAX_LEVELS];
	struct twheel_slot	*row[TWHEEL_MAX_LEVELS];
	unsigned long		*map[TWHEEL_MAX_LEVELS];
	unsigned long		*full[TWHEEL_MAX_LEVELS];
	u64			*word_first;
	u64			*group_first;
	u64			fired;
	u64			cascaded;

	struct twheel_slot	*visit;
	u64			visit_first;
	u64			visit_nr;
	struct list_head	marker;
	struct list_head	due;
	struct list_head	handed;
	struct list_head	stale;
	unsigned int		nr_due;
	unsigned int		nr_handed;
	struct twheel_runner	runners[TWHEEL_RUNNERS];
	u64			extended;
	u64			rebased;
	u64			stopped_nr;
	u64			wakeups;
	u64			largest_batch;
	u64			lateness[TWHEEL_LATENESS_BUCKETS];
	struct hrtimer		timer;
	struct hrtimer		guard;
	struct twheel_server	*server;
	struct list_head	work;
	struct list_head	entry;

	struct twheel_slot	slots[];
};

/**
 * struct twheel_server - the thread of one CPU
 * @lock: protects @queue, and the @work of the shards in it
 * @queue: shards that have work to do now
 * @task: the thread; set when it is created
 */
struct twheel_server {
	spinlock_t		lock;		/* queue, shard.work */
	struct list_head	queue;
	struct task_struct	*task;
};

/**
 * struct twheel_keys - lockdep classes of a wheel
 * @map: class of twheel.map
 * @ending: class of twheel.ending
 * @advance: class of twheel.advance
 * @work: class of the workers' works
 *
 * Each wheel has its own classes, because a callback of one wheel may stop another.
 */
struct twheel_keys {
	struct lock_class_key	map;
	struct lock_class_key	ending;
	struct lock_class_key	advance;
	struct lock_class_key	work;
};

/**
 * struct twheel - a wheel
 * @geometry: ticks, slots, levels; constant
 * @clock: clock of the deadlines; constant
 * @sink: called with expired timeouts; NULL: timeouts have callbacks; constant
 * @sink_data: argument of @sink; constant
 * @account: charge the memory to the creator's memory cgroup; constant
 * @max_pending: maximum of @pending; 0: no limit; constant
 * @shards: shards by CPU; constant. CPUs that timers must not disturb share the shard
 *	of another CPU
 * @all: all shards, each once; constant
 * @waiting: tasks that wait for a batch, a callback or a turn to end
 * @cancelling: timeouts with TWHEEL_T_CANCELLING
 * @manual_ns: time of a MANUAL wheel
 * @ending: one twheel_stop() at a time
 * @advance: one twheel_advance() at a time
 * @map: held while callbacks and the sink run, and acquired by the functions that
 *	wait for them, so that lockdep finds deadlocks
 * @keys: lockdep classes
 * @entry: link in twheel_wheels; under twheel_mutex
 * @dentry: file in debugfs
 * @name: for messages
 * @pending: timeouts that count against @max_pending; unused without a limit
 */
struct twheel {
	struct twheel_geometry	geometry;
	enum twheel_clock	clock;
	void			(*sink)(void *sink_data, struct list_head *expired,
					unsigned int nr, u64 now_ns);
	void			*sink_data;
	bool			account;
	unsigned int		max_pending;
	struct list_head	all;
	atomic_t		waiting;
	atomic_t		cancelling;
	atomic64_t		manual_ns;
	struct mutex		ending;		/* shards being stopped */
	struct mutex		advance;	/* manual_ns, passes of MANUAL */
	struct lockdep_map	map;
	struct twheel_keys	keys;
	struct list_head	entry;
	struct dentry		*dentry;
	char			name[TWHEEL_NAME_LEN];
	/* Written by every arm and cancel of all CPUs, so it has a cache line of its own. */
	atomic_t		pending ____cacheline_aligned_in_smp;
	struct twheel_shard	*shards[] ____cacheline_aligned_in_smp;
};

/* Cancels read the other members, and must not wait for those that write @pending. */
static_assert(!IS_ENABLED(CONFIG_SMP) ||
	      (offsetof(struct twheel, pending) % SMP_CACHE_BYTES == 0 &&
	       offsetof(struct twheel, shards) - offsetof(struct twheel, pending) >=
	       SMP_CACHE_BYTES));

static struct workqueue_struct *twheel_workqueue;

/* Held in a worker's callback, for twheel_in_worker(). */
static struct lockdep_map twheel_worker_map;
static struct lock_class_key twheel_worker_key;

static DEFINE_MUTEX(twheel_mutex);
static struct dentry *twheel_debugfs;
static LIST_HEAD(twheel_wheels);		/* under twheel_mutex */
static unsigned int twheel_nr_wheels;		/* under twheel_mutex; for warn_wheels */
static struct cpumask twheel_serving;		/* under twheel_mutex */

static DEFINE_PER_CPU(struct twheel_server, twheel_servers);
static DEFINE_PER_CPU(struct task_struct *, twheel_threads);

static struct twheel_shard *twheel_local_shard(const struct twheel *w)
{
	return w->shards[raw_smp_processor_id()];
}

static u64 twheel_clock_ns(const struct twheel *w)
{
	switch (w->clock) {
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

static u64 twheel_clock_tick(const struct twheel *w)
{
	return twheel_tick_floor(&w->geometry, twheel_clock_ns(w));
}

static void twheel_set_plain(struct twheel_shard *s)
{
	bool plain = !s->stopped && !s->rebase && s->wheel->clock != TWHEEL_REALTIME;

	s->plain_cpu = plain ? s->cpu : UINT_MAX;
}

/* May an arm on this CPU skip the checks of the shard? */
static __always_inline bool twheel_is_plain(const struct twheel_shard *s)
{
	return s->plain_cpu == raw_smp_processor_id();
}

/* Debugobjects: report a timeout that is freed while pending, as for timers. */

#ifdef CONFIG_DEBUG_OBJECTS
static const struct debug_obj_descr twheel_debug_descr;

/* If the cancel fails, the timeout was overwritten: drop it from debugobjects. */
static bool twheel_fixup(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	if (!twheel_cancel(addr)) {
		debug_object_deactivate(addr, &twheel_debug_descr);
		debug_object_free(addr, &twheel_debug_descr);
	}
	return true;
}

static const struct debug_obj_descr twheel_debug_descr = {
	.name		= "twheel_timeout",
	.fixup_init	= twheel_fixup,
	.fixup_free	= twheel_fixup,
};

/* Report a timeout that is initialised while it is pending. */
static void twheel_debug_init(struct twheel_timeout *t)
{
	if (object_is_on_stack(t))
		return;
	debug_object_init(t, &twheel_debug_descr);
	debug_object_free(t, &twheel_debug_descr);
}

/* Track only pending timeouts, so that freeing an idle one needs no call. */
static void twheel_track(struct twheel_timeout *t)
{
	if (object_is_on_stack(t) || t->flags & TWHEEL_T_TRACKED)
		return;
	debug_object_init(t, &twheel_debug_descr);
	debug_object_activate(t, &twheel_debug_descr);
	WRITE_ONCE(t->flags, t->flags | TWHEEL_T_TRACKED);
}

static void twheel_untrack(struct twheel_timeout *t)
{
	if (!(t->flags & TWHEEL_T_TRACKED))
		return;
	WRITE_ONCE(t->flags, t->flags & ~TWHEEL_T_TRACKED);
	debug_object_deactivate(t, &twheel_debug_descr);
	debug_object_free(t, &twheel_debug_descr);
}
#else
static inline void twheel_debug_init(struct twheel_timeout *t) { }
static inline void twheel_track(struct twheel_timeout *t) { }
static inline void twheel_untrack(struct twheel_timeout *t) { }
#endif

/* Slots and their occupancy */

/*
 * Mark @slot, slot @i of @level, as full. Returns the tick at which the shard must wake for
 * the early cascade into the first block of the slot.
 */
static noinline u64 twheel_note_full(struct twheel_shard *s, u32 level, u32 i,
				     const struct twheel_slot *slot)
{
	const struct twheel_geometry *g = &s->geometry;
	u64 early;

	if (!level)
		return TWHEEL_NEVER;
	__set_bit(i, s->full[level]);
	early = twheel_early(g, twheel_block(g, slot->first, level), level,
			     min_t(u64, slot->nr, U32_MAX), TWHEEL_LEAD_NS);
	s->early = min(s->early, max_t(u64, early, TWHEEL_NOW));
	return s->early;
}

/*
 * list_add_tail() with the check of CONFIG_DEBUG_LIST and CONFIG_LIST_HARDENED inlined.
 * If the check fails, list_add_tail() reports the corruption.
 */
static __always_inline void twheel_append(struct list_head *entry, struct list_head *head)
{
	struct list_head *last = head->prev;

	if (TWHEEL_LIST_HARDENED && unlikely(last->next != head || last == entry)) {
		list_add_tail(entry, head);
		return;
	}
	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

/* twheel_level() as seen from the cursor of the shard. */
static u32 twheel_level_now(const struct twheel_shard *s, u64 tick)
{
	return s->level_of[twheel_differing_bit(tick, s->cursor)];
}

/*
 * Put @t at the tail of its slot on @level. Returns the tick at which the shard must
 * wake for the slot: for a single timeout, when it is due.
 */
static __always_inline u64 twheel_insert(struct twheel_shard *s, struct twheel_timeout *t,
					 u32 level)
{
	u64 tick = t->tick, block = tick >> s->shift[level];
	u64 wake = block << s->shift[level];
	u32 i = block & s->ring_mask[level];
	struct twheel_slot *slot = &s->row[level][i];

	/* Keep the address: the compiler would compute it a second time. */
	OPTIMIZER_HIDE_VAR(slot);
	if (unlikely(level == s->geometry.top)) {
		u32 word = i / BITS_PER_LONG, group = word / BITS_PER_LONG;

		s->word_first[word] = min(s->word_first[word], tick);
		s->group_first[group] = min(s->group_first[group], tick);
	}
	if (list_empty(&slot->list)) {
		__set_bit(i, s->map[level]);
		slot->first = tick;
		slot->nr = 0;
		wake = tick;
	} else if (tick < slot->first) {
		slot->first = tick;
		/* On the top level this may be an earlier round. */
		if (unlikely(level == s->geometry.top && slot->nr >= TWHEEL_BATCH))
			wake = min(wake, twheel_note_full(s, level, i, slot));
	}
	if (unlikely(!(++slot->nr % TWHEEL_BATCH)))
		wake = min(wake, twheel_note_full(s, level, i, slot));
	t->level = level;
	twheel_append(&t->entry, &slot->list);
	return wake;
}

/* list_del() with the check of list hardening inlined. */
static __always_inline void twheel_detach(struct list_head *entry)
{
	struct list_head *prev = entry->prev, *next = entry->next;

	if (TWHEEL_LIST_HARDENED && unlikely(prev->next != entry || next->prev != entry))
		list_del(entry);
	else
		__list_del(prev, next);
}

/* Take @t, which is pending, out of the list that it is in. */
static __always_inline void twheel_unlink(struct twheel_shard *s, struct twheel_timeout *t)
{
	if (unlikely(t->level >= TWHEEL_NO_SLOT)) {
		s->nr_due -= t->level == TWHEEL_DUE;
		s->nr_handed -= t->level == TWHEEL_HANDED;
	} else if (t->entry.prev == t->entry.next) {
		__clear_bit((t->tick >> s->shift[t->level]) & s->ring_mask[t->level],
			    s->map[t->level]);
	}
	twheel_detach(&t->entry);
}

/* Move @t, which is in no slot, to the tail of a list of timeouts that are in none. */
static void twheel_set_aside(struct twheel_timeout *t, struct list_head *list, u8 level)
{
	list_add_tail(&t->entry, list);
	t->level = level;
}

/* Leave @t, which is pending and due, to a worker, or to the task that cancels it. */
static void twheel_hand_over(struct twheel_shard *s, struct twheel_timeout *t)
{
	twheel_unlink(s, t);
	twheel_set_aside(t, &s->handed, TWHEEL_HANDED);
	s->nr_handed++;
}

/* The search for the next step */

/**
 * struct twheel_step - next stop of the cursor
 * @tick: first tick of the block, or a lower bound if @slot is NULL
 * @wake: tick at which the thread must wake for it
 * @first: no timeout is due before this tick
 * @slot: slot of the block; NULL if there is none, or if the search must go on
 * @level: level of @slot
 */
struct twheel_step {
	u64			tick;
	u64			wake;
	u64			first;
	struct twheel_slot	*slot;
	u32			level;
};

/* The first bit of @map, which is a ring, from @start on; @ring if there is none. */
static u32 twheel_next_bit(const unsigned long *map, u32 ring, u32 start)
{
	u32 i = find_next_bit(map, ring, start);

	if (i < ring)
		return i;
	i = find_next_bit(map, start, 0);
	return i < start ? i : ring;
}

static u32 twheel_min_index(const u64 *values, u32 nr)
{
	u32 i, best = 0;

	for (i = 1; i < nr; i++)
		if (values[i] < values[best])
			best = i;
	return best;
}

/*
 * If @slot has a single timeout, set its lower bound to that timeout's tick. On the top
 * level this may be in a later round. Returns true if the bound has changed.
 */
static bool twheel_correct_first(struct twheel_shard *s, struct twheel_slot *slot)
{
	u64 first = slot->first;

	/* The marker of a visit is no timeout. */
	if (slot == s->visit || !list_is_singular(&slot->list))
		return false;
	slot->first = list_first_entry(&slot->list, struct twheel_timeout, entry)->tick;
	return slot->first != first;
}

/* The earliest slot of word @w of the top level's map; NULL if the word is empty. */
static struct twheel_slot *twheel_earliest_of_word(struct twheel_shard *s, u32 w)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *slot, *best = NULL;
	unsigned long bits = s->map[g->top][w];

	for (; bits; bits &= bits - 1) {
		slot = &s->row[g->top][w * BITS_PER_LONG + __ffs(bits)];
		if (!best || slot->first < best->first)
			best = slot;
	}
	return best;
}

/*
 * The earliest slot of the top level, over all rounds. Returns NULL if too many bounds
 * were wrong; @first is then a lower bound. An empty level sets @first to TWHEEL_NEVER.
 */
static struct twheel_slot *twheel_earliest(struct twheel_shard *s, u64 *first)
{
	u32 words = BITS_TO_LONGS(s->geometry.slots), groups = BITS_TO_LONGS(words);
	struct twheel_slot *slot;
	u32 group, word, i;
	u64 found;

	for (i = 0; i < TWHEEL_REPAIRS; i++) {
		group = twheel_min_index(s->group_first, groups);
		*first = s->group_first[group];
		if (*first == TWHEEL_NEVER)
			return NULL;
		word = group * BITS_PER_LONG;
		word += twheel_min_index(s->word_first + word,
					 min_t(u32, words - word, BITS_PER_LONG));
		slot = twheel_earliest_of_word(s, word);
		found = slot ? slot->first : TWHEEL_NEVER;
		if (slot && twheel_correct_first(s, slot))
			continue;
		if (found == *first)
			return slot;
		if (s->word_first[word] == found)
			s->group_first[group] = found;
		else
			s->word_first[word] = found;
	}
	return NULL;
}

/* Leave the slot whose visit is in progress. */
static void twheel_end_visit(struct twheel_shard *s)
{
	u32 top = s->geometry.top;
	struct twheel_slot *slot = s->visit;

	s->visit = NULL;
	list_del_init(&s->marker);
	slot->first = s->visit_first;
	slot->nr += s->visit_nr;
	if (list_empty(&slot->list)) {
		__clear_bit(slot - s->row[top], s->map[top]);
	} else if (top && slot->nr >= TWHEEL_BATCH) {
		/* Timeouts of later rounds fill the slot: have the next search examine it. */
		__set_bit(slot - s->row[top], s->full[top]);
		s->early = TWHEEL_NOW;
	}
}

/*
 * The slot of the top level that the cursor enters next. This is the next occupied slot
 * if its first timeout is in this round. Otherwise it is the earliest of all rounds.
 */
static struct twheel_slot *twheel_next_on_top(struct twheel_shard *s, u64 *tick)
{
	const struct twheel_geometry *g = &s->geometry;
	u64 first, block = twheel_block(g, s->cursor, g->top);
	struct twheel_slot *slot;
	u32 i;

	/* An early visit or cancels may have left the marker alone in its slot. */
	if (s->visit && list_is_singular(&s->visit->list))
		twheel_end_visit(s);
	i = twheel_next_bit(s->map[g->top], g->slots, (block + 1) & g->mask);
	if (i == g->slots) {
		*tick = TWHEEL_NEVER;
		return NULL;
	}
	slot = &s->row[g->top][i];
	twheel_correct_first(s, slot);
	first = slot->first;
	if (twheel_block(g, first, g->top) != block + 1 + twheel_ahead(g, block + 1, i, g->top))
		slot = twheel_earliest(s, &first);
	*tick = first == TWHEEL_NEVER ? first : twheel_block_start(g, first, g->top);
	return slot;
}

/*
 * The slot of @level, below the top, that the cursor enters next. Level 0 includes
 * the cursor itself: its slot may still hold timeouts after the last turn.
 */
static struct twheel_slot *twheel_next_below(struct twheel_shard *s, u32 level, u64 *tick)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 ring = twheel_ring(g, level);
	u64 block = twheel_block(g, s->cursor, level);
	u32 i = twheel_next_bit(s->map[level], ring, block & (ring - 1));

	if (i == ring) {
		*tick = TWHEEL_NEVER;
		return NULL;
	}
	*tick = twheel_block_to_tick(g, block + twheel_ahead(g, block, i, level), level);
	return &s->row[level][i];
}

/* The tick at which the thread must wake for the step to @slot at @tick. */
static u64 twheel_wake_tick(struct twheel_shard *s, struct twheel_slot *slot, u64 tick)
{
	/* The marker of a visit is no timeout. */
	if (slot == s->visit || !list_is_singular(&slot->list))
		return tick;
	return list_first_entry(&slot->list, struct twheel_timeout, entry)->tick;
}

/*
 * Find the next step. A lower level comes first, except where its next slot belongs
 * to the next block of the level above. On equal ticks the higher level comes first:
 * a block is entered when the cascades into it are complete.
 */
static void twheel_find_step(struct twheel_shard *s, struct twheel_step *step)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *slot;
	u32 level;
	u64 tick;

	*step = (struct twheel_step){
		.tick = TWHEEL_NEVER, .wake = TWHEEL_NEVER, .first = TWHEEL_NEVER,
	};
	for (level = 0; level < g->levels; level++) {
		if (level == g->top)
			slot = twheel_next_on_top(s, &tick);
		else
			slot = twheel_next_below(s, level, &tick);
		if (tick == TWHEEL_NEVER)
			continue;
		if (tick <= step->tick) {
			step->tick = tick;
			step->slot = slot;
			step->level = level;
		}
		step->first = min(step->first, slot ? slot->first : tick);
		step->wake = min(step->wake, slot ? twheel_wake_tick(s, slot, tick) : tick);
		if (level < g->top && twheel_block(g, tick, level + 1) ==
				      twheel_block(g, s->cursor, level + 1))
			break;
	}
}

/* Does @slot hold at least TWHEEL_BATCH unvisited timeouts? If not, correct slot->nr. */
static bool twheel_is_full(struct twheel_shard *s, struct twheel_slot *slot)
{
	struct list_head *pos = slot == s->visit ? s->marker.next : slot->list.next;
	unsigned int nr = 0;

	for (; pos != &slot->list && nr < TWHEEL_BATCH; pos = pos->next)
		nr++;
	if (nr == TWHEEL_BATCH)
		return true;
	slot->nr = nr;
	return false;
}

/*
 * The full slot of @level whose early cascade begins first. Updates @step if that is
 * before step->tick. If it begins by @now, the timeouts of the slot are counted first.
 */
static void twheel_find_early_on(struct twheel_shard *s, u32 level, u64 now,
				 struct twheel_step *step)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 ring = twheel_ring(g, level), ahead, from = 0, probes, i;
	u64 next = twheel_block(g, s->cursor, level) + 1, block, tick;
	unsigned long *full = s->full[level];
	struct twheel_slot *slot;

	for (probes = 0; probes < TWHEEL_PROBES; probes++) {
		i = twheel_next_bit(full, ring, (next + from) & (ring - 1));
		ahead = twheel_ahead(g, next, i, level);
		if (i == ring || ahead < from)
			return;
		slot = &s->row[level][i];
		block = next + ahead;
		if (level == g->top)
			block = max(block, twheel_block(g, slot->first, level));
		tick = twheel_early(g, block, level, min_t(u64, slot->nr, U32_MAX),
				    TWHEEL_LEAD_NS);
		if (list_empty(&slot->list) || slot->nr < TWHEEL_BATCH ||
		    (tick <= now && !twheel_is_full(s, slot))) {
			__clear_bit(i, full);
			continue;
		}
		if (tick < step->tick)
			*step = (struct twheel_step){
				.tick = tick, .slot = slot, .level = level,
			};
		from = ahead + 1;
		/* Below the top, ring order is the order of time. */
		if (level < g->top || from == ring)
			return;
	}
	/* Unexamined slots are left: search again one block before the next of them. */
	tick = max(twheel_block_to_tick(g, next + from - 1, level), now + 1);
	if (tick < step->tick)
		*step = (struct twheel_step){ .tick = tick, };
}

/* The early cascade that begins first. Without a slot, step->tick is the next search. */
static void twheel_find_early(struct twheel_shard *s, u64 now, struct twheel_step *step)
{
	u32 level;

	*step = (struct twheel_step){ .tick = TWHEEL_NEVER, };
	for (level = s->geometry.top; level; level--)
		twheel_find_early_on(s, level, now, step);
}

/* Sleeping and waking */

static void twheel_set_timer(struct twheel_shard *s, u64 wake)
{
	u64 ns = twheel_tick_to_ns(&s->geometry, wake), now;

	lockdep_assert_held(&s->lock);
	s->wake = wake;
	if (s->wheel->clock == TWHEEL_MANUAL)
		return;
	hrtimer_start(&s->timer, ns_to_ktime(ns), HRTIMER_MODE_ABS);
	if (s->wheel->clock != TWHEEL_REALTIME)
		return;
	/*
	 * A step backward delays @timer. @guard fires when @timer would have fired without
	 * the step, or at once if the step has just been made.
	 */
	now = twheel_clock_ns(s->wheel);
	if (ns < now || twheel_tick_floor(&s->geometry, now) < s->done)
		ns = now;
	hrtimer_start(&s->guard, ns_to_ktime(ns - now), HRTIMER_MODE_REL);
}

/*
 * The tick at which the shard must wake; a tick up to @now means at once. No pass is in
 * progress. If the timeout that @timer was set for is on level 0, no search is needed.
 */
static u64 twheel_next_wake(struct twheel_shard *s, u64 now)
{
	struct twheel_slot *slot = &s->slots[s->wake & s->ring_mask[0]];
	struct twheel_step step, early;

	/* On level 0, unless it is the top level, the bound is exact. */
	if (s->geometry.top && !list_empty(&slot->list) && slot->first <= now)
		return slot->first;
	twheel_find_step(s, &step);
	if (step.wake > now && s->early <= now) {
		twheel_find_early(s, now, &early);
		s->early = early.tick;
	}
	return min(step.wake, s->early);
}

/*
 * Give the shard to its server: there is work to do now. Returns the thread to wake
 * when the lock has been released.
 */
static struct task_struct *twheel_queue(struct twheel_shard *s)
{
	struct twheel_server *server = s->server;

	lockdep_assert_held(&s->lock);
	s->wake = TWHEEL_QUEUED;
	spin_lock(&server->lock);
	list_add_tail(&s->work, &server->queue);
	spin_unlock(&server->lock);
	return server->task;
}

/* The beginning of a rebase. "Clock steps" explains it; twheel_rebase() does the work. */

/* The clock has gone back to @tick: begin a rebase, or restart the current one. */
static void twheel_begin_rebase(struct twheel_shard *s, u64 tick)
{
	struct twheel_timeout *t;

	s->rebase = TWHEEL_GATHER;
	s->done = tick;
	twheel_set_plain(s);
	if (s->visit)
		twheel_end_visit(s);
	/* These were EXPIRING for a sink; they are pending again. */
	list_for_each_entry(t, &s->due, entry) {
		WRITE_ONCE(t->state, TWHEEL_PENDING);
		twheel_track(t);
	}
	/* An arm may be the first to see the step; it must not wake the thread itself. */
	if (s->wake != TWHEEL_QUEUED)
		twheel_set_timer(s, TWHEEL_NOW);
}

/*
 * Set the cursor of a shard with no enqueued timeout to the current tick. The next timeout
 * is then placed on the lowest possible level. On CLOCK_REALTIME it also sets the hrtimers:
 * the clock may have been stepped since they were set. "Clock steps" explains it.
 */
static noinline void twheel_catch_up(struct twheel_shard *s)
{
	if (s->wake == TWHEEL_QUEUED || s->rebase)
		return;
	if (s->visit)
		twheel_end_visit(s);
	s->cursor = twheel_clock_tick(s->wheel);
	s->done = s->cursor;
	if (s->wheel->clock == TWHEEL_REALTIME)
		s->wake = TWHEEL_NEVER;
}

/*
 * Is a rebase in progress? If the clock is behind s->done, begin one; an empty shard only
 * gets a new cursor, unless the thread has work.
 */
static bool twheel_went_back(struct twheel_shard *s)
{
	enum twheel_clock clock = s->wheel->clock;
	u64 tick;

	/* twheel_stop() has cancelled the hrtimers of a stopped shard. */
	if ((clock != TWHEEL_REALTIME && clock != TWHEEL_MANUAL) || s->stopped)
		return false;
	tick = twheel_clock_tick(s->wheel);
	if (tick >= s->done)
		return s->rebase;
	if (s->nr || s->rebase || s->wake == TWHEEL_QUEUED)
		twheel_begin_rebase(s, tick);
	else
		twheel_catch_up(s);
	return s->rebase;
}

/*
 * An hrtimer has fired: reprogram it, or wake the thread.
 *
 * If it fires early, the clock has just gone back. The CPU may still be in an interrupt
 * that began before the step, and the hrtimer code still uses the old time. If this
 * function set it for s->wake again, it would fire endlessly in that interrupt. So the
 * thread sets it.
 */
static void twheel_timer_fired(struct twheel_shard *s)
{
	struct task_struct *thread = NULL;
	unsigned long flags;
	u64 now, wake;

	spin_lock_irqsave(&s->lock, flags);
	if (s->wake == TWHEEL_QUEUED || s->wake == TWHEEL_NEVER || s->stopped)
		goto unlock;
	now = twheel_clock_tick(s->wheel);
	if (twheel_went_back(s) || s->wake > now)
		wake = now;
	else
		wake = twheel_next_wake(s, now);
	if (wake == TWHEEL_NEVER) {
		s->wake = wake;
	} else if (wake > now) {
		twheel_set_timer(s, wake);
	} else {
		s->wakeups++;
		trace_twheel_wakeup(s->wheel->name, s->cpu, s->server->task->pid);
		thread = twheel_queue(s);
	}
unlock:
	spin_unlock_irqrestore(&s->lock, flags);
	if (thread)
		wake_up_process(thread);
}

static enum hrtimer_restart twheel_timer_fn(struct hrtimer *timer)
{
	twheel_timer_fired(container_of(timer, struct twheel_shard, timer));
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart twheel_guard_fn(struct hrtimer *timer)
{
	twheel_timer_fired(container_of(timer, struct twheel_shard, guard));
	return HRTIMER_NORESTART;
}

/* Arming and cancelling */

/*
 * Choose a tick from @lo to @hi: an occupied one if the cursor is near, otherwise one
 * that other timeouts with slack are likely to choose.
 */
static u64 twheel_join(const struct twheel_shard *s, u64 lo, u64 hi)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 from = twheel_slot(g, lo, 0), i;

	if (hi >> g->bits == lo >> g->bits && lo >> g->bits == s->cursor >> g->bits) {
		i = find_next_bit(s->map[0], twheel_slot(g, hi, 0) + 1, from);
		if (i <= twheel_slot(g, hi, 0) && s->slots[i].first == lo - from + i)
			return lo - from + i;
	}
	return twheel_round_tick(lo, hi);
}

/* The tick for t->expires. */
static __always_inline u64 twheel_choose_tick(struct twheel_shard *s,
					      const struct twheel_timeout *t, u64 slack_ns)
{
	const struct twheel_geometry *g = &s->geometry;
	u64 tick = max(twheel_tick_ceil(g, t->expires), s->done + 1);

	if (likely(!slack_ns))
		return tick;
	return twheel_join(s, tick, twheel_tick_floor(g, twheel_add_ns(t->expires, slack_ns)));
}

/*
 * Enqueue @t for t->expires. Returns the tick at which the shard must wake for it. The
 * caller has made sure that no rebase is in progress.
 */
static __always_inline u64 twheel_enqueue(struct twheel_shard *s, struct twheel_timeout *t,
					  u64 slack_ns)
{
	lockdep_assert_held(&s->lock);
	t->tick = twheel_choose_tick(s, t, slack_ns);
	WRITE_ONCE(t->state, TWHEEL_PENDING);
	twheel_track(t);
	trace_twheel_arm(s->wheel->name, t);
	return twheel_insert(s, t, twheel_level_now(s, t->tick));
}

/* Put @t on s->stale for twheel_rebase() or twheel_stop(). Its slack is dropped. */
static void twheel_set_stale(struct twheel_shard *s, struct twheel_timeout *t)
{
	t->tick = twheel_choose_tick(s, t, 0);
	WRITE_ONCE(t->state, TWHEEL_PENDING);
	twheel_track(t);
	trace_twheel_arm(s->wheel->name, t);
	twheel_set_aside(t, &s->stale, TWHEEL_STALE);
}

/* Enqueue @t in a shard in any state. @t already has a place under max_pending. */
static noinline void twheel_schedule_checked(struct twheel_shard *s, struct twheel_timeout *t,
					     u64 expires_ns, u64 slack_ns)
{
	u64 wake;

	if (s->wheel->clock == TWHEEL_REALTIME)
		twheel_went_back(s);
	if (!s->nr)
		twheel_catch_up(s);
	s->nr++;
	t->expires = expires_ns;
	if (s->rebase || s->stopped) {
		twheel_set_stale(s, t);
		return;
	}
	wake = twheel_enqueue(s, t, slack_ns);
	if (wake < s->wake)
		twheel_set_timer(s, wake);
}

static __always_inline void __twheel_leave_place(const struct twheel_timeout *t)
{
	if (READ_ONCE(t->flags) & TWHEEL_T_LIMITED)
		atomic_dec(&t->shard->wheel->pending);
}

/**
 * twheel_leave_place() - give back the place of a timeout of a sink's batch
 * @t: the timeout
 *
 * For twheel_accept() alone.
 */
void twheel_leave_place(struct twheel_timeout *t)
{
	__twheel_leave_place(t);
}
EXPORT_SYMBOL_GPL(twheel_leave_place);

/* The runner that runs the callback of @t, or NULL. */
static struct twheel_runner *twheel_runner_of(struct twheel_shard *s,
					      const struct twheel_timeout *t)
{
	struct twheel_runner *r;

	lockdep_assert_held(&s->lock);
	if (!t->runner)
		return NULL;
	r = &s->runners[t->runner - 1];
	return r->running == t ? r : NULL;
}

/*
 * Check whether @t may be armed. On success @t has a place under max_pending, which it keeps
 * while it is pending.
 */
static noinline int twheel_admit(struct twheel_shard *s, struct twheel_timeout *t)
{
	struct twheel *w = s->wheel;
	struct twheel_runner *r;

	if (s->stopped || t->flags & TWHEEL_T_SHUTDOWN)
		return -ESHUTDOWN;
	if (t->flags & TWHEEL_T_ENDED)
		return -EINVAL;
	r = twheel_runner_of(s, t);
	if (r && r->again)
		r->again = false;	/* keeps its place */
	else if (w->max_pending && !atomic_add_unless(&w->pending, 1, w->max_pending))
		return -EAGAIN;
	return 0;
}

static noinline int twheel_arm_checked(struct twheel_shard *s, struct twheel_timeout *t,
				       u64 expires_ns, u64 slack_ns)
{
	int ret = twheel_admit(s, t);

	if (!ret)
		twheel_schedule_checked(s, t, expires_ns, slack_ns);
	return ret;
}

static enum twheel_state twheel_state(const struct twheel_timeout *t)
{
	/* Pairs with the release in twheel_accept(), which has no lock. */
	return smp_load_acquire(&t->state);
}

/* Revoke the enqueue of @t after its running callback. Returns true if it was requested. */
static bool twheel_revoke_again(struct twheel_shard *s, struct twheel_timeout *t)
{
	struct twheel_runner *r = twheel_runner_of(s, t);

	if (!r || !r->again)
		return false;
	r->again = false;
	__twheel_leave_place(t);
	return true;
}

static __always_inline bool __twheel_cancel(struct twheel_shard *s, struct twheel_timeout *t)
{
	lockdep_assert_held(&s->lock);
	if (twheel_state(t) != TWHEEL_PENDING)
		return twheel_revoke_again(s, t);
	twheel_unlink(s, t);
	WRITE_ONCE(t->state, TWHEEL_INACTIVE);
	twheel_untrack(t);
	s->nr--;
	s->cancelled++;
	__twheel_leave_place(t);
	trace_twheel_cancel(s->wheel->name, t);
	return true;
}

/*
 * Lock the current home of @t. @s, an earlier home, is locked with interrupts off. Not
 * inlined, so that flags can stay in a register in the common case.
 */
static noinline struct twheel_shard *twheel_follow_home(struct twheel_shard *s,
							const struct twheel_timeout *t)
{
	while (s != READ_ONCE(t->shard)) {
		spin_unlock(&s->lock);
		s = READ_ONCE(t->shard);
		spin_lock(&s->lock);
	}
	return s;
}

static __always_inline struct twheel_shard *twheel_lock_home(const struct twheel_timeout *t,
							     unsigned long *flags)
{
	struct twheel_shard *s = READ_ONCE(t->shard);

	spin_lock_irqsave(&s->lock, *flags);
	return likely(s == READ_ONCE(t->shard)) ? s : twheel_follow_home(s, t);
}

static void twheel_set_home(struct twheel_timeout *t, struct twheel_shard *home)
{
	t->runner = 0;
	/* Pairs with the lock of the new home, which is found through the new value. */
	smp_store_release(&t->shard, home);
}

/* Move @t, whose home @s is locked, to this CPU's shard if it is idle. */
static noinline struct twheel_shard *twheel_bring_here(struct twheel_shard *s,
						       struct twheel_timeout *t)
{
	struct twheel_shard *local = twheel_local_shard(s->wheel);

	if (s == local || twheel_state(t) != TWHEEL_INACTIVE || twheel_runner_of(s, t))
		return s;
	twheel_set_home(t, local);
	return twheel_follow_home(s, t);
}

/**
 * twheel_timeout_init() - prepare a timeout for its first arm
 * @w: the wheel that it belongs to from now on
 * @t: the timeout; it must not be in a wheel, and no task may be cancelling it
 * @fn: called when it expires; NULL in a wheel with a sink
 *
 * The memory may have held another timeout whose callback is still running. The new
 * timeout is independent of that callback.
 */
void twheel_timeout_init(struct twheel *w, struct twheel_timeout *t,
			 void (*fn)(struct twheel_timeout *t))
{
	WARN_ON_ONCE(!fn && !w->sink);
	twheel_debug_init(t);
	memset(t, 0, sizeof(*t));
	INIT_LIST_HEAD(&t->entry);
	t->fn = fn;
	t->shard = twheel_local_shard(w);
	if (w->max_pending)
		t->flags = TWHEEL_T_LIMITED;
}
EXPORT_SYMBOL_GPL(twheel_timeout_init);

/* Move @t, pending in @s, in a shard in any state. It keeps its place under max_pending. */
static noinline int twheel_move_checked(struct twheel_shard *s, struct twheel_timeout *t,
					u64 expires_ns, u64 slack_ns)
{
	struct twheel_shard *local = twheel_local_shard(s->wheel), *to = s;

	if (s->stopped)
		return -ESHUTDOWN;
	/*
	 * Trylock only: never wait for a second shard lock. If it fails, the timeout stays at
	 * home.
	 */
	if (s != local && !twheel_runner_of(s, t) && spin_trylock(&local->lock)) {
		if (local->stopped)
			spin_unlock(&local->lock);
		else
			to = local;
	}
	trace_twheel_cancel(s->wheel->name, t);
	twheel_unlink(s, t);
	s->nr--;
	s->rearmed++;
	if (to != s)
		twheel_set_home(t, to);
	twheel_schedule_checked(to, t, expires_ns, slack_ns);
	if (to != s)
		spin_unlock(&to->lock);
	return 1;
}

/*
 * Arm @t, or with @move also move it. @t and its home @s may be in any state. An idle
 * timeout changes its home at most once, so two CPUs cannot retry against each other.
 */
static noinline int twheel_arm_anywhere(struct twheel_shard *s, struct twheel_timeout *t,
					u64 expires_ns, u64 slack_ns, bool move,
					unsigned long flags)
	__releases(&s->lock)
{
	int ret = -EBUSY;

	s = twheel_bring_here(s, t);
	/* Another CPU may have armed it while the lock was dropped. */
	if (twheel_state(t) == TWHEEL_INACTIVE)
		ret = twheel_arm_checked(s, t, expires_ns, slack_ns);
	else if (move && twheel_state(t) == TWHEEL_PENDING)
		ret = twheel_move_checked(s, t, expires_ns, slack_ns);
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}

static __always_inline int twheel_arm_any(struct twheel_timeout *t, u64 expires_ns,
					  u64 slack_ns)
{
	struct twheel_shard *s;
	unsigned long flags;
	u64 wake;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;

	s = twheel_lock_home(t, &flags);
	if (unlikely(!twheel_is_plain(s) || twheel_state(t) != TWHEEL_INACTIVE ||
		     t->flags & TWHEEL_T_SLOW))
		return twheel_arm_anywhere(s, t, expires_ns, slack_ns, false, flags);
	if (unlikely(!s->nr))
		twheel_catch_up(s);
	s->nr++;
	t->expires = expires_ns;
	wake = twheel_enqueue(s, t, slack_ns);
	if (wake < s->wake)
		twheel_set_timer(s, wake);
	spin_unlock_irqrestore(&s->lock, flags);
	return 0;
}

/**
 * twheel_arm() - arm a timeout for a point in time
 * @t: an initialised timeout that is not pending
 * @expires_ns: the deadline, absolute ns on the wheel's clock. A past deadline is due
 *	at once: it fires at the next tick, not inside this call
 *
 * Return: 0; -EBUSY if it is pending or in the batch of a sink; -EINVAL if
 * @expires_ns is above S64_MAX, or if @t is periodic and has ended; -EAGAIN if
 * max_pending timeouts are pending; -ESHUTDOWN if the wheel has been stopped or the
 * timeout shut down.
 */
int twheel_arm(struct twheel_timeout *t, u64 expires_ns)
{
	return twheel_arm_any(t, expires_ns, 0);
}
EXPORT_SYMBOL_GPL(twheel_arm);

/**
 * twheel_arm_slack() - arm a timeout that may be late
 * @t: an initialised timeout that is not pending
 * @expires_ns: the deadline, as in twheel_arm()
 * @slack_ns: how much later than its deadline it may fire, in addition to the usual
 *	lateness
 *
 * The timeout gets an occupied tick, or a tick that other timeouts with slack choose
 * too. This saves wakeups.
 *
 * The slack is used for the choice of the tick and is not stored. A timeout that is pending
 * or armed while the clock is found to have been stepped backward loses its slack: it gets
 * the tick of its deadline.
 *
 * Return: as twheel_arm(); -EINVAL if @slack_ns is above S64_MAX.
 */
int twheel_arm_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	return twheel_arm_any(t, expires_ns, slack_ns);
}
EXPORT_SYMBOL_GPL(twheel_arm_slack);

/**
 * twheel_arm_after() - arm a timeout some time from now
 * @t: an initialised timeout that is not pending
 * @delay_ns: ns from now. 0 is due at once: it fires at the next tick, not inside
 *	this call. A sum past the end of the clock never fires
 *
 * Return: as twheel_arm(); -EINVAL on a REALTIME wheel, whose clock may be stepped.
 */
int twheel_arm_after(struct twheel_timeout *t, u64 delay_ns)
{
	const struct twheel *w = READ_ONCE(t->shard)->wheel;

	if (delay_ns > S64_MAX || w->clock == TWHEEL_REALTIME)
		return -EINVAL;
	return twheel_arm(t, twheel_add_ns(twheel_clock_ns(w), delay_ns));
}
EXPORT_SYMBOL_GPL(twheel_arm_after);

static void twheel_call_periodic(struct twheel_timeout *t)
{
	struct twheel_periodic *p = container_of(t, struct twheel_periodic, t);

	p->fn(p);
}

/**
 * twheel_periodic_init() - prepare a periodic timeout
 * @w: the wheel that it belongs to from now on, one without a sink
 * @p: the timeout; it must not be in a wheel
 * @fn: called when it expires
 * @kind: TWHEEL_FIXED_RATE or TWHEEL_FIXED_DELAY
 */
void twheel_periodic_init(struct twheel *w, struct twheel_periodic *p,
			  void (*fn)(struct twheel_periodic *p), enum twheel_kind kind)
{
	memset(p, 0, sizeof(*p));
	twheel_timeout_init(w, &p->t, twheel_call_periodic);
	p->t.flags |= kind == TWHEEL_FIXED_DELAY ? TWHEEL_T_DELAY : TWHEEL_T_RATE;
	p->t.flags |= TWHEEL_T_ENDED;
	p->fn = fn;
}
EXPORT_SYMBOL_GPL(twheel_periodic_init);

/**
 * twheel_arm_periodic() - arm a periodic timeout
 * @p: an initialised periodic timeout that is neither pending nor in its callback
 * @expires_ns: the first deadline, as in twheel_arm()
 * @interval_ns: 1 to S64_MAX. It may be below the tick: the callback is then called
 *	once per tick, and @missed counts the other deadlines
 * @repeat: how many deadlines in all, missed ones included; 0: no end
 *
 * There is never a burst: deadlines that have passed when the callback is called are
 * counted in @missed. With fixed rate the callback may be called for the next deadline
 * as soon as it returns. It is never called twice at the same time.
 *
 * Return: as twheel_arm(); -EINVAL for a bad interval; -EBUSY from its own callback.
 */
int twheel_arm_periodic(struct twheel_periodic *p, u64 expires_ns, u64 interval_ns,
			u32 repeat)
{
	struct twheel_timeout *t = &p->t;
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -EBUSY;
	u8 ended;

	if (expires_ns > S64_MAX || !interval_ns || interval_ns > S64_MAX)
		return -EINVAL;

	s = twheel_bring_here(twheel_lock_home(t, &flags), t);
	if (twheel_state(t) != TWHEEL_INACTIVE || twheel_runner_of(s, t))
		goto unlock;
	ended = t->flags & TWHEEL_T_ENDED;
	WRITE_ONCE(t->flags, t->flags & ~TWHEEL_T_ENDED);
	ret = twheel_admit(s, t);
	if (ret) {
		WRITE_ONCE(t->flags, t->flags | ended);
		goto unlock;
	}
	p->interval_ns = interval_ns;
	p->repeat = repeat;
	p->missed = 0;
	twheel_schedule_checked(s, t, expires_ns, 0);
unlock:
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(twheel_arm_periodic);

/*
 * Arm @timeouts in one lock hold, up to the first that is refused. Returns the number
 * armed.
 */
static unsigned int twheel_arm_batch(struct twheel_shard *s, struct twheel_timeout **timeouts,
				     unsigned int nr)
{
	struct twheel_timeout **pos = timeouts, **end = timeouts + nr, *t;
	u64 wake = TWHEEL_NEVER;

	lockdep_assert_held(&s->lock);
	if (!s->nr)
		twheel_catch_up(s);
	if (likely(twheel_is_plain(s))) {
		for (; pos < end && !((*pos)->flags & TWHEEL_T_SLOW); pos++) {
			t = *pos;
			t->runner = 0;
			WRITE_ONCE(t->shard, s);
			wake = min(wake, twheel_enqueue(s, t, 0));
		}
		s->nr += pos - timeouts;
		if (wake < s->wake)
			twheel_set_timer(s, wake);
	}
	for (; pos < end; pos++) {
		t = *pos;
		t->runner = 0;
		WRITE_ONCE(t->shard, s);
		if (twheel_arm_checked(s, t, t->expires, 0))
			break;
	}
	return pos - timeouts;
}

/**
 * twheel_arm_list() - arm many timeouts, with one lock hold for many of them
 * @w: the wheel
 * @timeouts: idle timeouts of @w, each with expires set, absolute and at most S64_MAX.
 *	No callback of theirs is running, and no other call for them overlaps with
 *	this one
 * @nr: how many
 *
 * They are armed in this order.
 *
 * Return: how many were armed, from the first on; fewer than @nr only if the next one
 * was refused as twheel_arm() would have refused it: the wheel has been stopped, the
 * timeout shut down, the timeout is periodic and has ended, or max_pending timeouts are
 * pending.
 */
unsigned int twheel_arm_list(struct twheel *w, struct twheel_timeout **timeouts,
			     unsigned int nr)
{
	struct twheel_shard *s = twheel_local_shard(w);
	unsigned int done = 0, want, got;
	unsigned long flags;

	while (done < nr) {
		want = min_t(unsigned int, nr - done, TWHEEL_BATCH);
		spin_lock_irqsave(&s->lock, flags);
		got = twheel_arm_batch(s, timeouts + done, want);
		spin_unlock_irqrestore(&s->lock, flags);
		done += got;
		if (got < want)
			break;
	}
	return done;
}
EXPORT_SYMBOL_GPL(twheel_arm_list);

/*
 * Move @t, which is pending in @s, a plain shard. Returns the tick at which the shard must
 * wake for it.
 */
static __always_inline u64 twheel_move_plain(struct twheel_shard *s, struct twheel_timeout *t,
					     u64 expires_ns, u64 slack_ns)
{
	trace_twheel_cancel(s->wheel->name, t);
	twheel_unlink(s, t);
	s->rearmed++;
	if (unlikely(s->nr == 1))
		twheel_catch_up(s);
	t->expires = expires_ns;
	return twheel_enqueue(s, t, slack_ns);
}

static __always_inline int twheel_mod_any(struct twheel_timeout *t, u64 expires_ns,
					  u64 slack_ns)
{
	struct twheel_shard *s;
	unsigned long flags;
	u64 wake;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;

	s = twheel_lock_home(t, &flags);
	if (unlikely(!twheel_is_plain(s) || twheel_state(t) != TWHEEL_PENDING))
		return twheel_arm_anywhere(s, t, expires_ns, slack_ns, true, flags);
	wake = twheel_move_plain(s, t, expires_ns, slack_ns);
	if (wake < s->wake)
		twheel_set_timer(s, wake);
	spin_unlock_irqrestore(&s->lock, flags);
	return 1;
}

/**
 * twheel_mod() - arm a timeout, or move it if it is pending
 * @t: an initialised timeout
 * @expires_ns: the new deadline, absolute ns on the wheel's clock
 *
 * The move of a pending timeout counts as a cancel and an arm: it becomes the last
 * timeout of its new tick. It moves to the shard of the calling CPU if the lock of
 * that shard is free and its callback is not running.
 *
 * Return: 1 if it was pending and has been moved; 0 if it was idle and has been
 * armed; otherwise as twheel_arm(), and nothing has changed.
 */
int twheel_mod(struct twheel_timeout *t, u64 expires_ns)
{
	return twheel_mod_any(t, expires_ns, 0);
}
EXPORT_SYMBOL_GPL(twheel_mod);

/**
 * twheel_mod_slack() - arm a timeout that may be late, or move it if it is pending
 * @t: an initialised timeout
 * @expires_ns: the new deadline, absolute ns on the wheel's clock
 * @slack_ns: as in twheel_arm_slack()
 *
 * Return: as twheel_mod(); -EINVAL if @slack_ns is above S64_MAX.
 */
int twheel_mod_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	return twheel_mod_any(t, expires_ns, slack_ns);
}
EXPORT_SYMBOL_GPL(twheel_mod_slack);

/* Move the leading timeouts that are pending in the first one's shard. */
static unsigned int twheel_mod_batch(struct twheel_timeout **timeouts, const u64 *expires_ns,
				     unsigned int nr)
{
	u64 wake = TWHEEL_NEVER;
	struct twheel_shard *s;
	unsigned long flags;
	unsigned int i;

	s = twheel_lock_home(timeouts[0], &flags);
	for (i = 0; i < nr; i++) {
		struct twheel_timeout *t = timeouts[i];

		if (READ_ONCE(t->shard) != s || twheel_state(t) != TWHEEL_PENDING)
			break;
		if (unlikely(!twheel_is_plain(s))) {
			if (twheel_move_checked(s, t, expires_ns[i], 0) < 0)
				break;
			continue;
		}
		wake = min(wake, twheel_move_plain(s, t, expires_ns[i], 0));
	}
	if (wake < s->wake)
		twheel_set_timer(s, wake);
	spin_unlock_irqrestore(&s->lock, flags);
	return i;
}

/**
 * twheel_mod_list() - move many timeouts, with one lock hold for many of them
 * @timeouts: initialised timeouts
 * @expires_ns: the new deadline of each, absolute ns on the wheel's clock, at most S64_MAX
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
	unsigned int done = 0, got;

	while (done < nr) {
		got = twheel_mod_batch(timeouts + done, expires_ns + done,
				       min_t(unsigned int, nr - done, TWHEEL_BATCH));
		if (!got)
			break;
		done += got;
	}
	return done;
}
EXPORT_SYMBOL_GPL(twheel_mod_list);

/**
 * twheel_extend() - send a timeout of a sink's batch back into the wheel
 * @t: a timeout in the list that the sink was called with, taken off it and not
 *	accepted
 * @expires_ns: its new deadline, absolute ns on the wheel's clock
 * @slack_ns: as in twheel_arm_slack()
 *
 * A sink calls this for a timeout whose deadline has been moved. The timeout does not count
 * as fired, only as extended. It keeps its place under max_pending. If a task waits in
 * twheel_cancel_sync() for the timeout, the extension succeeds. After it any task may
 * cancel the timeout and free it, also while the sink is still running. So the sink
 * must not use it any more, unless the owner prevents that.
 *
 * Context: in the sink.
 *
 * Return: 0; -EINVAL if one of the times is above S64_MAX; -ESHUTDOWN if the wheel
 * has been stopped or the timeout shut down. After an error the timeout is still in the
 * batch, and the sink must accept it.
 */
int twheel_extend(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns)
{
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -ESHUTDOWN;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;
	if (WARN_ON_ONCE(twheel_state(t) != TWHEEL_EXPIRING))
		return -EINVAL;

	s = twheel_lock_home(t, &flags);
	if (!s->stopped && !(t->flags & TWHEEL_T_SHUTDOWN)) {
		twheel_schedule_checked(s, t, expires_ns, slack_ns);
		s->fired--;
		s->extended++;
		ret = 0;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
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
	struct twheel_shard *s;
	unsigned long flags;
	bool ret;

	s = twheel_lock_home(t, &flags);
	ret = __twheel_cancel(s, t);
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
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
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -EBUSY;

	s = twheel_lock_home(t, &flags);
	if (twheel_state(t) != TWHEEL_EXPIRING && !twheel_runner_of(s, t))
		ret = __twheel_cancel(s, t);
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(twheel_try_cancel);

/* Process the leading timeouts that share the first one's shard. Returns their number. */
static unsigned int twheel_cancel_batch(struct twheel_timeout **timeouts, unsigned int nr,
					unsigned int *cancelled)
{
	struct twheel_shard *s;
	unsigned long flags;
	unsigned int i;

	s = twheel_lock_home(timeouts[0], &flags);
	for (i = 0; i < nr && READ_ONCE(timeouts[i]->shard) == s; i++) {
		if (__twheel_cancel(s, timeouts[i]))
			(*cancelled)++;
		else
			timeouts[i] = NULL;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return i;
}

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
	unsigned int cancelled = 0, done = 0;

	while (done < nr)
		done += twheel_cancel_batch(timeouts + done,
					    min_t(unsigned int, nr - done, TWHEEL_BATCH),
					    &cancelled);
	return cancelled;
}
EXPORT_SYMBOL_GPL(twheel_cancel_list);

/* Waiting for callbacks */

/* Request a wakeup of waiters at the next unlock, see "Cancel against expiry". */
static void twheel_notify(struct twheel_shard *s)
{
	lockdep_assert_held(&s->lock);
	if (atomic_read(&s->wheel->waiting))
		s->notify = true;
}

/* Release the lock, then wake the waiters. @s may be gone when the lock is released. */
static void twheel_unlock_notify(struct twheel_shard *s)
	__releases(&s->lock)
{
	struct twheel *w = s->wheel;
	bool notify = s->notify;

	s->notify = false;
	spin_unlock_irq(&s->lock);
	if (notify)
		wake_up_var(w);
}

/* Sleep until @condition is true. @condition takes the lock of a shard. */
#define twheel_wait(wheel, condition)				\
do {								\
	struct twheel *__w = (wheel);				\
								\
	atomic_inc(&__w->waiting);				\
	wait_var_event(__w, condition);				\
	atomic_dec(&__w->waiting);				\
} while (0)

/*
 * Is the caller in a worker's callback, of any wheel? Only lockdep knows. The work that the
 * caller runs does not tell: if it is not ours, it may have been freed.
 */
static bool twheel_in_worker(void)
{
	return IS_ENABLED(CONFIG_LOCKDEP) && lock_is_held(&twheel_worker_map);
}

/* The caller is about to wait for callbacks of @w: check with might_sleep() and lockdep. */
static void twheel_might_wait(struct twheel *w)
{
	might_sleep();
	lock_map_acquire(&w->map);
	lock_map_release(&w->map);
}

/* Is the caller in a callback or the sink of @w? Waiting for it would deadlock. */
static bool twheel_in_callback(struct twheel *w)
{
	struct twheel_shard *s;
	unsigned int i;

	list_for_each_entry(s, &w->all, entry)
		for (i = 0; i < TWHEEL_RUNNERS; i++)
			if (READ_ONCE(s->runners[i].task) == current)
				return true;
	return false;
}

static bool twheel_callback_over(struct twheel_runner *r, struct twheel_timeout *t)
{
	guard(spinlock_irq)(&r->shard->lock);
	return r->running != t;
}

static bool twheel_batch_over(struct twheel_runner *r, unsigned int batch)
{
	guard(spinlock_irq)(&r->shard->lock);
	return r->batch != batch;
}

static bool twheel_turns_over(struct twheel_shard *s)
{
	guard(spinlock_irq)(&s->lock);
	return s->wake != TWHEEL_QUEUED;
}

/* Wait for the end of the batch or callback of @r that is in progress, if any. */
static void twheel_flush_runner(struct twheel_runner *r)
{
	unsigned int batch;

	scoped_guard(spinlock_irq, &r->shard->lock)
		batch = r->batch;
	if (batch & 1)
		twheel_wait(r->shard->wheel, twheel_batch_over(r, batch));
}

static void twheel_set_cancelling(struct twheel_timeout *t, bool on)
{
	struct twheel *w = t->shard->wheel;

	if (!!(t->flags & TWHEEL_T_CANCELLING) == on)
		return;
	WRITE_ONCE(t->flags, t->flags ^ TWHEEL_T_CANCELLING);
	if (on)
		atomic_inc(&w->cancelling);
	else
		atomic_dec(&w->cancelling);
}

/*
 * Set @flag and cancel @t. Returns the runner of its callback, or of the batch that it
 * is in, or NULL. Until it returns NULL, the callback is not called again. Otherwise one
 * that always arms its timeout could keep the caller waiting forever.
 */
static struct twheel_runner *twheel_cancel_locked(struct twheel_timeout *t, u8 flag,
						  bool *cancelled)
{
	struct twheel_runner *r;
	struct twheel_shard *s;
	unsigned long flags;

	s = twheel_lock_home(t, &flags);
	if (flag)
		WRITE_ONCE(t->flags, t->flags | flag);
	*cancelled |= __twheel_cancel(s, t);
	r = twheel_runner_of(s, t);
	/* A function to which twheel_stop() hands @t back may release it. */
	if (r == &s->runners[TWHEEL_STOPPER] && r->task == current)
		r = NULL;
	if (twheel_state(t) == TWHEEL_EXPIRING)
		r = &s->runners[0];
	if (!r)
		twheel_set_cancelling(t, false);
	else if (r->task != current)
		twheel_set_cancelling(t, true);
	spin_unlock_irqrestore(&s->lock, flags);
	return r;
}

static bool twheel_cancel_and_wait(struct twheel_timeout *t, u8 flag)
{
	struct twheel *w = READ_ONCE(t->shard)->wheel;
	struct twheel_runner *r;
	bool cancelled = false;

	might_sleep();
	/* A worker may wait for another timeout, which lockdep would report as recursion. */
	if (!twheel_in_worker())
		twheel_might_wait(w);
	while ((r = twheel_cancel_locked(t, flag, &cancelled))) {
		if (WARN_ON_ONCE(READ_ONCE(r->task) == current))
			break;
		if (w->sink)
			twheel_flush_runner(r);
		else
			twheel_wait(w, twheel_callback_over(r, t));
	}
	return cancelled;
}

/**
 * twheel_cancel_sync() - cancel a timeout and wait for its callback
 * @t: an initialised timeout, which the caller keeps others from arming
 *
 * On return @t is not pending and its callback is not running on any CPU. This holds
 * even if the callback armed it again meanwhile. In a wheel with a sink, the sink has
 * accepted or extended @t. It may still be running for the rest of the batch:
 * twheel_flush() waits for its end. If twheel_stop() was handing @t back, its function
 * has returned.
 *
 * Context: may sleep. Must not be called from a callback of the thread or from a sink. A
 * worker's callback may call it, but not for its own timeout: this is refused with a
 * warning, and the timeout is cancelled without a wait. The caller must not hold anything
 * that the callback of @t needs. Lockdep checks this for all callbacks of the wheel
 * together, except in a worker's callback.
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
 * callback that this call waits for. Only twheel_arm_periodic() in its own callback, and an
 * arm of a timeout in a sink's batch, return -EBUSY as before. Call this before an object
 * is freed. twheel_timeout_init() makes the timeout usable again.
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
 * twheel_flush() - wait for the batches in flight
 * @w: the wheel
 *
 * On return every callback and every call of the sink that was in progress when
 * this was called has ended.
 *
 * Context: may sleep. Must not be called from a callback of the thread or from a sink. A
 * worker's callback may call it, but not for its own wheel: this is refused with a warning.
 */
void twheel_flush(struct twheel *w)
{
	struct twheel_shard *s;
	unsigned int i;

	if (WARN_ON_ONCE(twheel_in_callback(w)))
		return;
	twheel_might_wait(w);
	list_for_each_entry(s, &w->all, entry)
		for (i = 0; i < TWHEEL_RUNNERS; i++)
			twheel_flush_runner(&s->runners[i]);
}
EXPORT_SYMBOL_GPL(twheel_flush);

/* Expiry */

/* Number of enqueues so far, the sum over all outcomes. */
static u64 twheel_enqueued(const struct twheel_shard *s)
{
	return s->nr + s->cancelled + s->rearmed + s->fired + s->extended + s->stopped_nr;
}

/* Mark @t as due. In a wheel with a sink it becomes EXPIRING. */
static void twheel_make_due(struct twheel_shard *s, struct twheel_timeout *t)
{
	t->level = TWHEEL_DUE;
	if (!s->wheel->sink)
		return;
	WRITE_ONCE(t->state, TWHEEL_EXPIRING);
	twheel_untrack(t);
}

/* Make a slot of level 0 (below the top) due. Returns the rest of @budget. */
static unsigned int twheel_expire_slot(struct twheel_shard *s, struct twheel_slot *slot,
				       unsigned int budget)
{
	struct list_head *pos = slot->list.next;
	unsigned int nr = 0;

	for (; pos != &slot->list && nr < budget; pos = pos->next, nr++)
		twheel_make_due(s, list_entry(pos, struct twheel_timeout, entry));
	list_bulk_move_tail(&s->due, slot->list.next, pos->prev);
	s->nr_due += nr;
	if (list_empty(&slot->list))
		__clear_bit(slot - s->slots, s->map[0]);
	return budget - nr;
}

/* Move @t down from @level. */
static void twheel_descend(struct twheel_shard *s, struct twheel_timeout *t, u32 level)
{
	twheel_detach(&t->entry);
	twheel_insert(s, t, level - 1);
	s->cascaded++;
	trace_twheel_cascade(s->wheel->name, t, level);
}

/* Cascade a slot below the top; all its timeouts are in one block. */
static unsigned int twheel_cascade_slot(struct twheel_shard *s, struct twheel_slot *slot,
					u32 level, unsigned int budget)
{
	for (; budget && !list_empty(&slot->list); budget--)
		twheel_descend(s, list_first_entry(&slot->list, struct twheel_timeout, entry),
			       level);
	if (list_empty(&slot->list))
		__clear_bit(slot - s->row[level], s->map[level]);
	return budget;
}

/*
 * Visit the slot of @block on the top level. Timeouts of other blocks are in later
 * rounds: they stay in the slot. A visit ends at the end of the list, unless it is
 * early: then timeouts may still be armed for @block.
 */
static unsigned int twheel_visit(struct twheel_shard *s, struct twheel_slot *slot, u64 block,
				 bool early, unsigned int budget)
{
	const struct twheel_geometry *g = &s->geometry;
	struct list_head *head = &slot->list, *pos = head->next, *next;

	if (s->visit == slot) {
		pos = s->marker.next;
		list_del(&s->marker);
	} else {
		/*
		 * A visit in progress is always of the slot that the cursor enters next on this
		 * level, so it is resumed above.
		 */
		if (WARN_ON_ONCE(s->visit))
			twheel_end_visit(s);
		s->visit = slot;
		s->visit_first = TWHEEL_NEVER;
		s->visit_nr = 0;
	}
	for (; pos != head && budget; pos = next, budget--) {
		struct twheel_timeout *t = list_entry(pos, struct twheel_timeout, entry);

		next = pos->next;
		if (twheel_block(g, t->tick, g->top) != block) {
			s->visit_first = min(s->visit_first, t->tick);
			s->visit_nr++;
		} else if (g->top) {
			twheel_descend(s, t, g->top);
		} else {
			twheel_make_due(s, t);
			list_move_tail(&t->entry, &s->due);
			s->nr_due++;
		}
	}
	list_add_tail(&s->marker, pos);
	if (pos == head) {
		slot->nr = 0;
		if (!early)
			twheel_end_visit(s);
	}
	return budget;
}

/* Carry out a step, or part of an early cascade. Returns the rest of @budget. */
static unsigned int twheel_take_step(struct twheel_shard *s, const struct twheel_step *step,
				     bool early, unsigned int budget)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *slot = step->slot;

	if (step->level == g->top)
		return twheel_visit(s, slot, early ? twheel_block(g, s->cursor, g->top) + 1 :
				    twheel_block(g, step->tick, g->top), early, budget);
	if (step->level)
		return twheel_cascade_slot(s, slot, step->level, budget);
	return twheel_expire_slot(s, slot, budget);
}

/*
 * Advance the cursor to the target of the pass, or until @budget is used up. Returns
 * true when the pass is over; @step is then the next step.
 */
static bool twheel_collect(struct twheel_shard *s, u64 target, struct twheel_step *step)
{
	unsigned int budget = TWHEEL_BATCH;

	/* A new pass. */
	if (s->cursor == s->done)
		s->done = max(s->done, target);
	while (budget) {
		twheel_find_step(s, step);
		if (step->tick > s->done) {
			s->cursor = s->done;
			return true;
		}
		/* The next turn continues the search. */
		if (!step->slot)
			return false;
		/* A cascade or visit may take more turns: stay one tick before the block. */
		s->cursor = step->tick - (step->level || !s->geometry.top);
		budget = twheel_take_step(s, step, false, budget);
	}
	return false;
}

/*
 * If an early cascade has to begin by s->done, move up to a batch. Returns true if there
 * may be more to do.
 */
static bool twheel_cascade_early(struct twheel_shard *s)
{
	struct twheel_step step;

	if (likely(s->early > s->done))
		return false;
	twheel_find_early(s, s->done, &step);
	s->early = step.tick;
	if (step.tick > s->done)
		return false;
	/* @early is not after s->done, so the next turn searches again. */
	twheel_take_step(s, &step, true, TWHEEL_BATCH);
	return true;
}

static void twheel_note_expiry(struct twheel_shard *s, const struct twheel_timeout *t,
			       u64 now_ns)
{
	u64 late_ns = now_ns > t->expires ? now_ns - t->expires : 0;

	trace_twheel_expire(s->wheel->name, t, now_ns);
	if (static_branch_unlikely(&twheel_count_lateness))
		s->lateness[min(fls64(late_ns), TWHEEL_LATENESS_BUCKETS - 1)]++;
}

/* Walk the batch only for the tracepoint or the statistics. */
static void twheel_note_batch(struct twheel_shard *s, u64 now_ns)
{
	struct twheel_timeout *t;

	if (trace_twheel_expire_enabled() || static_branch_unlikely(&twheel_count_lateness))
		list_for_each_entry(t, &s->due, entry)
			twheel_note_expiry(s, t, now_ns);
}

/*
 * Callbacks in the thread must not sleep: it serves all wheels of the CPU. On PREEMPT_RT
 * spinlocks sleep and would trigger the warning.
 */
static void twheel_begin_non_block(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		non_block_start();
}

static void twheel_end_non_block(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		non_block_end();
}

/* Take those out of the batch for which twheel_cancel_sync() waits: they are pending again. */
static void twheel_leave_to_cancel(struct twheel_shard *s)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, &s->due, entry) {
		if (!(t->flags & TWHEEL_T_CANCELLING))
			continue;
		WRITE_ONCE(t->state, TWHEEL_PENDING);
		twheel_track(t);
		twheel_hand_over(s, t);
	}
}

static void twheel_run_sink(struct twheel_shard *s, u64 now_ns)
	__must_hold(&s->lock)
{
	struct twheel *w = s->wheel;
	unsigned int nr;
	LIST_HEAD(expired);

	if (unlikely(atomic_read(&w->cancelling))) {
		twheel_leave_to_cancel(s);
		if (list_empty(&s->due))
			return;
	}
	nr = s->nr_due;
	s->largest_batch = max_t(u64, s->largest_batch, nr);
	twheel_note_batch(s, now_ns);
	list_splice_init(&s->due, &expired);
	s->nr_due = 0;
	s->nr -= nr;
	s->fired += nr;
	twheel_unlock_notify(s);

	lock_map_acquire(&w->map);
	twheel_begin_non_block();
	w->sink(w->sink_data, &expired, nr, now_ns);
	twheel_end_non_block();
	lock_map_release(&w->map);

	spin_lock_irq(&s->lock);
}

/* Count the periods that have passed by @now_ns. */
static void twheel_count_periods(struct twheel_periodic *p, u64 now_ns)
{
	u64 missed = 0;

	if (p->t.flags & TWHEEL_T_RATE)
		missed = twheel_intervals(p->t.expires, now_ns, p->interval_ns);
	if (p->repeat)
		missed = min_t(u64, missed, p->repeat - 1);
	p->missed = missed;
	p->expires = p->t.expires + missed * p->interval_ns;
	if (!p->repeat)
		return;
	p->repeat -= missed + 1;
	if (!p->repeat)
		WRITE_ONCE(p->t.flags, p->t.flags | TWHEEL_T_ENDED);
}

/*
 * @p has been dequeued for its callback. With fixed rate, enqueue the next deadline now,
 * so that the callback can cancel it. It cannot fire before the callback returns, because
 * its home does not change meanwhile.
 */
static void twheel_begin_period(struct twheel_shard *s, struct twheel_runner *r,
				struct twheel_periodic *p, u64 now_ns)
{
	twheel_count_periods(p, now_ns);
	if (p->t.flags & TWHEEL_T_ENDED)
		__twheel_leave_place(&p->t);
	else if (p->t.flags & TWHEEL_T_DELAY)
		r->again = true;
	else
		twheel_schedule_checked(s, &p->t, twheel_add_ns(p->expires, p->interval_ns), 0);
}

/* Dequeue the pending @t and make it the running timeout of @r. */
static void twheel_take_out(struct twheel_shard *s, struct twheel_runner *r,
			    struct twheel_timeout *t)
{
	twheel_unlink(s, t);
	WRITE_ONCE(t->state, TWHEEL_INACTIVE);
	twheel_untrack(t);
	s->nr--;
	t->runner = r - s->runners + 1;
	r->running = t;
}

static void twheel_run_callback(struct twheel_shard *s, struct twheel_runner *r,
				struct twheel_timeout *t)
	__must_hold(&s->lock)
{
	void (*fn)(struct twheel_timeout *t) = t->fn;
	bool thread = r == &s->runners[0];
	u64 now_ns = twheel_clock_ns(s->wheel);

	twheel_take_out(s, r, t);
	s->fired++;
	twheel_note_expiry(s, t, now_ns);
	if (t->flags & TWHEEL_T_PERIODIC)
		twheel_begin_period(s, r, container_of(t, struct twheel_periodic, t), now_ns);
	else
		__twheel_leave_place(t);
	twheel_unlock_notify(s);

	lock_map_acquire(&s->wheel->map);
	if (thread)
		twheel_begin_non_block();
	fn(t);
	if (thread)
		twheel_end_non_block();
	lock_map_release(&s->wheel->map);
	cond_resched();

	spin_lock_irq(&s->lock);
	r->running = NULL;
	if (r->again) {
		struct twheel_periodic *p = container_of(t, struct twheel_periodic, t);

		/* If the wheel has been stopped meanwhile, twheel_stop() takes it. */
		now_ns = twheel_clock_ns(s->wheel);
		twheel_schedule_checked(s, t, twheel_add_ns(now_ns, p->interval_ns), 0);
	}
	r->again = false;
	twheel_notify(s);
}

/*
 * Workers
 *
 * A timeout that requests a worker moves from s->due to s->handed. It stays pending until
 * a worker takes it from there.
 */

/*
 * The first timeout on s->handed that a worker may take. Skip a timeout whose callback is
 * still running: its runner searches again afterwards. Skip a timeout for which
 * twheel_cancel_sync() waits.
 */
static struct twheel_timeout *twheel_next_handed(struct twheel_shard *s)
{
	struct twheel_timeout *t;

	list_for_each_entry(t, &s->handed, entry)
		if (!twheel_runner_of(s, t) && !(t->flags & TWHEEL_T_CANCELLING))
			return t;
	return NULL;
}

static void twheel_work_fn(struct work_struct *work)
{
	struct twheel_runner *r = container_of(work, struct twheel_runner, work);
	struct twheel_shard *s = r->shard;
	struct twheel_timeout *t;

	/* As a trylock it is part of no cycle: lockdep puts no lock before it. */
	lock_acquire_exclusive(&twheel_worker_map, 0, 1, NULL, _THIS_IP_);
	spin_lock_irq(&s->lock);
	WRITE_ONCE(r->task, current);
	while (!s->stopped && !list_empty(&s->handed) && !twheel_went_back(s)) {
		t = twheel_next_handed(s);
		if (!t)
			break;
		r->batch++;
		twheel_run_callback(s, r, t);
		r->batch++;
	}
	WRITE_ONCE(r->task, NULL);
	twheel_unlock_notify(s);
	lock_map_release(&twheel_worker_map);
}

/*
 * Start an idle worker for each timeout on s->handed, as far as there are any. Drops the
 * lock: queue_work() takes locks that callers of an arm may hold.
 */
static void twheel_start_workers(struct twheel_shard *s)
	__must_hold(&s->lock)
{
	unsigned int i, nr = s->nr_handed;

	if (!nr)
		return;
	spin_unlock_irq(&s->lock);
	for (i = 1; i <= TWHEEL_WORKERS && nr; i++) {
		if (READ_ONCE(s->runners[i].task))
			continue;
		queue_work(twheel_workqueue, &s->runners[i].work);
		nr--;
	}
	spin_lock_irq(&s->lock);
}

/* Is the due @t left to a worker, or to the task that cancels it? */
static bool twheel_is_for_others(const struct twheel_timeout *t)
{
	return t->flags & (TWHEEL_T_WORKER | TWHEEL_T_CANCELLING);
}

static void twheel_run_due(struct twheel_shard *s, struct twheel_runner *r)
	__must_hold(&s->lock)
{
	struct twheel_timeout *t;

	s->largest_batch = max_t(u64, s->largest_batch, s->nr_due);
	while (!s->stopped && !list_empty(&s->due) && !twheel_went_back(s)) {
		t = list_first_entry(&s->due, struct twheel_timeout, entry);
		if (likely(!twheel_is_for_others(t))) {
			twheel_run_callback(s, r, t);
			continue;
		}
		/* Start the workers before the next callback, which may take long. */
		do {
			twheel_hand_over(s, t);
			t = list_first_entry_or_null(&s->due, struct twheel_timeout, entry);
		} while (t && twheel_is_for_others(t));
		twheel_start_workers(s);
	}
}

/* Fire the timeouts on s->due. Drops the lock, so some may be cancelled meanwhile. */
static void twheel_deliver(struct twheel_shard *s, u64 now_ns)
	__must_hold(&s->lock)
{
	struct twheel_runner *r = &s->runners[0];

	r->batch++;
	WRITE_ONCE(r->task, current);
	if (s->wheel->sink)
		twheel_run_sink(s, now_ns);
	else
		twheel_run_due(s, r);
	WRITE_ONCE(r->task, NULL);
	r->batch++;
	twheel_notify(s);
}

/*
 * Any non-empty list but s->stale, or NULL. A rebase and twheel_stop() empty these lists.
 * @budget is charged for the search: 1 per level, and 1 per 16 words of the map.
 */
static struct list_head *twheel_any_list(struct twheel_shard *s, int *budget)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 level, i;

	if (!list_empty(&s->due))
		return &s->due;
	if (!list_empty(&s->handed))
		return &s->handed;
	for (level = 0; level < g->levels; level++) {
		i = find_first_bit(s->map[level], twheel_ring(g, level));
		*budget -= 1 + i / (16 * BITS_PER_LONG);
		if (i < twheel_ring(g, level))
			return &s->row[level][i].list;
	}
	return NULL;
}

/* One turn of a rebase. */
static void twheel_rebase(struct twheel_shard *s)
{
	int budget = TWHEEL_BATCH;
	struct twheel_timeout *t;
	struct list_head *list;

	while (s->rebase == TWHEEL_GATHER && budget > 0) {
		list = twheel_any_list(s, &budget);
		if (!list) {
			s->rebase = TWHEEL_PLACE;
			s->cursor = s->done;
			break;
		}
		/* Take at least one, even if the search has used up the budget. */
		do {
			t = list_first_entry(list, struct twheel_timeout, entry);
			twheel_unlink(s, t);
			twheel_set_aside(t, &s->stale, TWHEEL_STALE);
		} while (--budget > 0 && !list_empty(list));
	}
	for (; budget > 0 && !list_empty(&s->stale); budget--) {
		t = list_first_entry(&s->stale, struct twheel_timeout, entry);
		twheel_unlink(s, t);
		t->tick = twheel_choose_tick(s, t, 0);
		twheel_insert(s, t, twheel_level_now(s, t->tick));
		s->rebased++;
	}
	if (s->rebase == TWHEEL_PLACE && list_empty(&s->stale)) {
		s->rebase = TWHEEL_BASED;
		twheel_set_plain(s);
	}
}

/* No work is left: set the hrtimer for @wake. */
static void twheel_sleep(struct twheel_shard *s, u64 wake)
{
	s->wake = TWHEEL_NEVER;
	if (s->stopped)
		twheel_notify(s);
	else if (wake != TWHEEL_NEVER)
		twheel_set_timer(s, wake);
}

/* Run one turn. Returns true if work may be left. */
static bool twheel_turn(struct twheel_shard *s)
	__must_hold(&s->lock)
{
	u64 now_ns = twheel_clock_ns(s->wheel), wake = TWHEEL_NEVER;
	u64 target = twheel_tick_floor(&s->geometry, now_ns), enqueued;
	struct twheel_step step;
	bool over;

	lockdep_assert_held(&s->lock);
	if (s->stopped)
		goto sleep;
	if (twheel_went_back(s)) {
		twheel_rebase(s);
		return true;
	}
	over = twheel_collect(s, target, &step);
	enqueued = twheel_enqueued(s);
	if (!list_empty(&s->due) && !twheel_went_back(s))
		twheel_deliver(s, now_ns);
	if (s->stopped)
		goto sleep;
	if (!over || s->rebase || twheel_cascade_early(s))
		return true;
	/* @step is still the next one, unless a timeout has been enqueued meanwhile. */
	if (twheel_enqueued(s) != enqueued)
		twheel_find_step(s, &step);
	wake = min(step.wake, s->early);
	/* Without a slot, the search has to go on. */
	if (wake <= target || (!step.slot && step.tick != TWHEEL_NEVER))
		return true;
sleep:
	twheel_sleep(s, wake);
	return false;
}

/* The threads */

static int twheel_should_run(unsigned int cpu)
{
	return !list_empty(&per_cpu(twheel_servers, cpu).queue);
}

/* If @s has not been queued again, it may be freed after the unlock. */
static void twheel_serve_shard(struct twheel_shard *s)
{
	struct task_struct *thread = current;

	spin_lock_irq(&s->lock);
	if (twheel_turn(s))
		thread = twheel_queue(s);
	twheel_unlock_notify(s);
	if (thread != current)
		wake_up_process(thread);
}

static void twheel_serve(unsigned int cpu)
{
	struct twheel_server *server = &per_cpu(twheel_servers, cpu);
	struct twheel_shard *s;

	scoped_guard(spinlock_irq, &server->lock) {
		s = list_first_entry_or_null(&server->queue, struct twheel_shard, work);
		if (s)
			list_del_init(&s->work);
	}
	if (s)
		twheel_serve_shard(s);
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
	unsigned int by = cpu;

	lockdep_assert_held(&twheel_mutex);
	if (!cpumask_test_cpu(cpu, &twheel_serving))
		by = cpumask_any_and(&twheel_serving, housekeeping_cpumask(HK_TYPE_TIMER));
	if (by >= nr_cpu_ids)
		by = cpumask_any(&twheel_serving);
	return &per_cpu(twheel_servers, by);
}

/* Move the shard to another server. If the shard is queued, queue it there. */
static void twheel_move_shard(struct twheel_shard *s, struct twheel_server *to)
{
	struct task_struct *thread = NULL;
	bool queued;

	spin_lock_irq(&s->lock);
	if (s->server == to)
		goto unlock;
	scoped_guard(spinlock, &s->server->lock) {
		queued = !list_empty(&s->work);
		list_del_init(&s->work);
	}
	s->server = to;
	if (queued)
		thread = twheel_queue(s);
unlock:
	spin_unlock_irq(&s->lock);
	if (thread)
		wake_up_process(thread);
}

static void twheel_assign_servers(void)
{
	struct twheel_shard *s;
	struct twheel *w;

	lockdep_assert_held(&twheel_mutex);
	list_for_each_entry(w, &twheel_wheels, entry)
		list_for_each_entry(s, &w->all, entry)
			twheel_move_shard(s, twheel_pick_server(s->cpu));
}

static int twheel_cpu_online(unsigned int cpu)
{
	guard(mutex)(&twheel_mutex);
	WRITE_ONCE(per_cpu(twheel_servers, cpu).task, per_cpu(twheel_threads, cpu));
	cpumask_set_cpu(cpu, &twheel_serving);
	twheel_assign_servers();
	return 0;
}

static int twheel_cpu_offline(unsigned int cpu)
{
	guard(mutex)(&twheel_mutex);
	cpumask_clear_cpu(cpu, &twheel_serving);
	twheel_assign_servers();
	return 0;
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

static void twheel_advance_shard(struct twheel_shard *s)
{
	bool more = true;

	while (more) {
		spin_lock_irq(&s->lock);
		s->wake = TWHEEL_QUEUED;
		more = twheel_turn(s);
		twheel_unlock_notify(s);
		cond_resched();
	}
}

/**
 * twheel_advance() - set the time of a MANUAL wheel
 * @w: the wheel
 * @now_ns: its time from now on, at most S64_MAX
 *
 * On return, all that is due at @now_ns has fired: the callbacks, or the sink, have been
 * called in the caller's context. Timeouts that request a worker have been handed over,
 * and may not have been called yet. Those for which twheel_cancel_sync() waits are left
 * to it. Moving the time backward fires nothing; deadlines stay as they are.
 *
 * Context: may sleep. Callbacks and the sink must not block.
 *
 * Return: 0; -EINVAL if @now_ns is too large or @w is not MANUAL; -EDEADLK from a
 * callback or the sink of @w.
 */
int twheel_advance(struct twheel *w, u64 now_ns)
{
	struct twheel_shard *s;

	if (w->clock != TWHEEL_MANUAL || now_ns > S64_MAX)
		return -EINVAL;
	if (twheel_in_callback(w))
		return -EDEADLK;

	guard(mutex)(&w->advance);
	atomic64_set(&w->manual_ns, now_ns);
	list_for_each_entry(s, &w->all, entry)
		twheel_advance_shard(s);
	return 0;
}
EXPORT_SYMBOL_GPL(twheel_advance);

/**
 * twheel_set_clock() - set the time of a MANUAL wheel and do nothing else
 * @w: the wheel
 * @now_ns: its time from now on, at most S64_MAX
 *
 * This acts as a clock step: the wheel notices it when it reads the clock next. For tests.
 *
 * Context: any, callbacks included.
 *
 * Return: 0; -EINVAL if @now_ns is too large or @w is not MANUAL.
 */
int twheel_set_clock(struct twheel *w, u64 now_ns)
{
	if (w->clock != TWHEEL_MANUAL || now_ns > S64_MAX)
		return -EINVAL;
	atomic64_set(&w->manual_ns, now_ns);
	return 0;
}
EXPORT_SYMBOL_TWHEEL_TEST(twheel_set_clock);

/**
 * twheel_remaining_ns() - how long until the deadline
 * @t: an initialised timeout
 *
 * Return: ns; 0 if the deadline has passed, or if @t is not pending.
 */
u64 twheel_remaining_ns(struct twheel_timeout *t)
{
	struct twheel_shard *s;
	unsigned long flags;
	u64 expires = 0, now;

	s = twheel_lock_home(t, &flags);
	if (twheel_state(t) == TWHEEL_PENDING)
		expires = t->expires;
	now = twheel_clock_ns(s->wheel);
	spin_unlock_irqrestore(&s->lock, flags);
	return expires > now ? expires - now : 0;
}
EXPORT_SYMBOL_GPL(twheel_remaining_ns);

/**
 * twheel_position() - where in the wheel a timeout lies
 * @t: an initialised timeout
 * @pos: filled if it is in a slot: pending, not yet due, and not stale in a rebase
 *
 * For tests.
 *
 * Return: true if @pos has been filled.
 */
bool twheel_position(struct twheel_timeout *t, struct twheel_position *pos)
{
	const struct twheel_geometry *g;
	struct twheel_shard *s;
	unsigned long flags;
	bool ret;

	s = twheel_lock_home(t, &flags);
	g = &s->geometry;
	ret = twheel_state(t) == TWHEEL_PENDING && t->level < TWHEEL_NO_SLOT;
	if (ret) {
		pos->tick = t->tick;
		pos->rounds = twheel_rounds_left(g, t->tick, s->cursor);
		pos->level = t->level;
		pos->slot = twheel_slot(g, t->tick, t->level);
		pos->cpu = s->cpu;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_TWHEEL_TEST(twheel_position);

/**
 * twheel_rounds() - rounds left before the round of a timeout
 * @t: an initialised timeout
 *
 * Return: how often the cursor will visit its slot of the top level without moving it; 0
 * if it is in no slot.
 */
u64 twheel_rounds(struct twheel_timeout *t)
{
	struct twheel_position pos;

	return twheel_position(t, &pos) ? pos.rounds : 0;
}
EXPORT_SYMBOL_TWHEEL_TEST(twheel_rounds);

/* Set @tick to a lower bound of the next expiry. Returns false if the caller must retry. */
static bool twheel_next_tick(struct twheel_shard *s, u64 *tick)
{
	struct twheel_step step;

	guard(spinlock_irqsave)(&s->lock);
	*tick = 0;
	if (s->rebase && s->nr)
		return true;
	if (s->nr_handed)
		*tick = list_first_entry(&s->handed, struct twheel_timeout, entry)->tick;
	else if (s->nr_due)
		*tick = list_first_entry(&s->due, struct twheel_timeout, entry)->tick;
	if (s->nr_handed || s->nr_due)
		return true;
	twheel_find_step(s, &step);
	*tick = step.first;
	return step.slot || step.tick == TWHEEL_NEVER;
}

/**
 * twheel_next_expiry() - lower bound of the next expiry of a wheel
 * @w: the wheel
 *
 * Return: the time, absolute ns, before which nothing fires. That is the tick of the
 * earliest timeout, or an earlier one if timeouts have been cancelled. S64_MAX if nothing
 * is pending. 0 while the wheel deals with a backward clock step; before it has noticed the
 * step, the time may be too late.
 */
u64 twheel_next_expiry(struct twheel *w)
{
	u64 first = TWHEEL_NEVER, tick;
	struct twheel_shard *s;

	list_for_each_entry(s, &w->all, entry) {
		while (!twheel_next_tick(s, &tick))
			cpu_relax();
		first = min(first, tick);
	}
	return twheel_tick_to_ns(&w->geometry, first);
}
EXPORT_SYMBOL_GPL(twheel_next_expiry);

static_assert(sizeof_field(struct twheel_counters, occupied) / sizeof(u32) == TWHEEL_MAX_LEVELS);

static void twheel_add_stats(struct twheel_shard *s, struct twheel_counters *stats)
{
	const struct twheel_geometry *g = &s->geometry;
	unsigned int i;

	guard(spinlock_irqsave)(&s->lock);
	stats->armed += s->nr + s->cancelled + s->rearmed + s->fired + s->stopped_nr;
	stats->rearmed += s->rearmed;
	stats->cancelled += s->cancelled + s->rearmed;
	stats->fired += s->fired;
	stats->stopped += s->stopped_nr;
	stats->pending += s->nr;
	stats->extended += s->extended;
	stats->cascaded += s->cascaded;
	stats->rebased += s->rebased;
	stats->wakeups += s->wakeups;
	stats->largest_batch = max(stats->largest_batch, s->largest_batch);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		stats->lateness[i] += s->lateness[i];
	for (i = 0; i < g->levels; i++)
		stats->occupied[i] += bitmap_weight(s->map[i], twheel_ring(g, i));
	stats->shards++;
}

/**
 * twheel_stats() - read the statistics of a wheel
 * @w: the wheel
 * @stats: filled with the sums over all shards
 */
void twheel_stats(struct twheel *w, struct twheel_counters *stats)
{
	struct twheel_shard *s;

	memset(stats, 0, sizeof(*stats));
	list_for_each_entry(s, &w->all, entry)
		twheel_add_stats(s, stats);
}
EXPORT_SYMBOL_GPL(twheel_stats);

/* Check one timeout of slot @i of @level. */
static const char *twheel_audit_timeout(struct twheel_shard *s, u32 level, u32 i,
					const struct twheel_timeout *t)
{
	const struct twheel_geometry *g = &s->geometry;
	u64 ahead = twheel_block(g, t->tick, level) - twheel_block(g, s->cursor, level);

	if (t->shard != s || twheel_state(t) != TWHEEL_PENDING || t->level != level)
		return "stranger";
	if (twheel_slot(g, t->tick, level) != i || t->tick < s->row[level][i].first)
		return "wrong slot";
	if (t->tick <= s->cursor || !ahead)
		return "overdue";
	if (level < g->top && twheel_block(g, t->tick, level + 1) >
			      twheel_block(g, s->cursor, level + 1) + 1)
		return "wrong level";
	if (t->tick < twheel_tick_ceil(g, t->expires))
		return "early";
	return NULL;
}

/* Check slot @i of @level. Adds the number of its timeouts to @nr. */
static const char *twheel_audit_slot(struct twheel_shard *s, u32 level, u32 i, u64 *nr)
{
	struct twheel_slot *slot = &s->row[level][i];
	const char *fault = NULL;
	struct list_head *pos;
	u64 length = 0;

	if (test_bit(i, s->map[level]) == list_empty(&slot->list))
		return "occupancy";
	list_for_each(pos, &slot->list) {
		if (pos == &s->marker)
			continue;
		fault = twheel_audit_timeout(s, level, i,
					     list_entry(pos, struct twheel_timeout, entry));
		if (fault)
			return fault;
		length++;
	}
	if (slot != s->visit && length > slot->nr)
		return "slot count";
	if (slot != s->visit && length >= TWHEEL_BATCH && level &&
	    !test_bit(i, s->full[level]))
		return "full slot";
	*nr += length;
	return NULL;
}

static const char *twheel_audit_shard(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;
	const char *fault;
	u32 level, i;
	u64 nr = 0;

	lockdep_assert_held(&s->lock);
	if (s->rebase)
		return "rebase";
	for (level = 0; level < g->levels; level++) {
		for (i = 0; i < twheel_ring(g, level); i++) {
			fault = twheel_audit_slot(s, level, i, &nr);
			if (fault)
				return fault;
		}
	}
	if (nr + s->nr_due + s->nr_handed != s->nr)
		return "pending";
	return NULL;
}

/**
 * twheel_audit() - check the invariants of an idle wheel
 * @w: the wheel; nothing is being armed, cancelled or fired
 *
 * Walks all timeouts with the lock of their shard held: for tests.
 *
 * Return: 0; -EUCLEAN if an invariant does not hold, with a message in the log.
 */
int twheel_audit(struct twheel *w)
{
	const char *fault = NULL;
	struct twheel_shard *s;
	u64 nr = 0;

	list_for_each_entry(s, &w->all, entry) {
		scoped_guard(spinlock_irqsave, &s->lock) {
			fault = twheel_audit_shard(s);
			nr += s->nr;
		}
		if (fault)
			break;
	}
	if (!fault && w->max_pending && atomic_read(&w->pending) != nr)
		fault = "places";
	if (!fault)
		return 0;
	pr_err("%s: audit: %s\n", w->name, fault);
	return -EUCLEAN;
}
EXPORT_SYMBOL_TWHEEL_TEST(twheel_audit);

/* debugfs: a file per wheel */

static void twheel_show_levels(struct seq_file *m, const struct twheel_geometry *g,
			       const struct twheel_counters *stats)
{
	u32 level;

	seq_puts(m, "\nlevel  occupied slots  of\n");
	for (level = 0; level < g->levels; level++)
		seq_printf(m, "%5u  %14u  %u\n", level, stats->occupied[level],
			   stats->shards * twheel_ring(g, level));
}

static void twheel_show_lateness(struct seq_file *m, const struct twheel_counters *stats)
{
	u32 i;

	seq_puts(m, "\n  late, below ns  timeouts\n");
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS - 1; i++)
		if (stats->lateness[i])
			seq_printf(m, "%16llu  %llu\n", 1ULL << i, stats->lateness[i]);
	if (stats->lateness[i])
		seq_printf(m, "%16s  %llu\n", "more", stats->lateness[i]);
}

static int twheel_wheel_show(struct seq_file *m, void *unused)
{
	static const char * const clock[] = {
		[TWHEEL_MONOTONIC]	= "monotonic",
		[TWHEEL_BOOTTIME]	= "boottime",
		[TWHEEL_REALTIME]	= "realtime",
		[TWHEEL_MANUAL]		= "manual",
	};
	struct twheel *w = m->private;
	struct twheel_counters stats;

	twheel_stats(w, &stats);
	seq_printf(m, "clock          %s\n", clock[w->clock]);
	seq_printf(m, "tick_ns        %llu\n", w->geometry.tick_ns);
	seq_printf(m, "max_pending    %u\n", w->max_pending);
	seq_printf(m, "armed          %llu\n", stats.armed);
	seq_printf(m, "rearmed        %llu\n", stats.rearmed);
	seq_printf(m, "cancelled      %llu\n", stats.cancelled);
	seq_printf(m, "fired          %llu\n", stats.fired);
	seq_printf(m, "stopped        %llu\n", stats.stopped);
	seq_printf(m, "pending        %llu\n", stats.pending);
	seq_printf(m, "extended       %llu\n", stats.extended);
	seq_printf(m, "cascaded       %llu\n", stats.cascaded);
	seq_printf(m, "rebased        %llu\n", stats.rebased);
	seq_printf(m, "wakeups        %llu\n", stats.wakeups);
	seq_printf(m, "largest_batch  %llu\n", stats.largest_batch);
	twheel_show_levels(m, &w->geometry, &stats);
	twheel_show_lateness(m, &stats);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(twheel_wheel);

/* Number the files: names of wheels need not be unique. */
static void twheel_show(struct twheel *w)
{
	static atomic_t number;
	char file[TWHEEL_NAME_LEN + 12];

	snprintf(file, sizeof(file), "%s.%u", w->name, atomic_fetch_inc(&number));
	strreplace(file, '/', '!');
	w->dentry = debugfs_create_file(file, 0400, twheel_debugfs, w, &twheel_wheel_fops);
}

/* Creation and destruction */

/* Slots of all levels of a shard. */
static u32 twheel_nr_slots(const struct twheel_geometry *g)
{
	return (g->top << (g->bits + 1)) + g->slots;
}

static void twheel_init_shard(struct twheel_shard *s, struct twheel *w, unsigned int cpu)
{
	static const clockid_t clock[] = {
		[TWHEEL_MONOTONIC]	= CLOCK_MONOTONIC,
		[TWHEEL_BOOTTIME]	= CLOCK_BOOTTIME,
		[TWHEEL_REALTIME]	= CLOCK_REALTIME,
		[TWHEEL_MANUAL]		= CLOCK_MONOTONIC,
	};
	u32 nr = twheel_nr_slots(&w->geometry), words = BITS_TO_LONGS(w->geometry.slots);
	u32 map_words = BITS_TO_LONGS(2 * w->geometry.slots), i;
	unsigned long *bits;

	spin_lock_init(&s->lock);
	s->wheel = w;
	s->geometry = w->geometry;
	s->cpu = cpu;
	twheel_set_plain(s);
	s->word_first = (u64 *)&s->slots[nr];
	s->group_first = s->word_first + words;
	bits = (unsigned long *)(s->group_first + BITS_TO_LONGS(words));
	memset64(s->word_first, TWHEEL_NEVER, words + BITS_TO_LONGS(words));
	for (i = 0; i < nr; i++)
		INIT_LIST_HEAD(&s->slots[i].list);
	for (i = 0; i < ARRAY_SIZE(s->level_of); i++)
		s->level_of[i] = twheel_level_of_bit(&w->geometry, i);
	for (i = 0; i < w->geometry.levels; i++) {
		s->shift[i] = twheel_shift(&w->geometry, i);
		s->ring_mask[i] = twheel_ring(&w->geometry, i) - 1;
		s->row[i] = &s->slots[2 * i * w->geometry.slots];
		s->map[i] = bits;
		s->full[i] = bits + map_words;
		bits += 2 * map_words;
	}
	INIT_LIST_HEAD(&s->marker);
	INIT_LIST_HEAD(&s->due);
	INIT_LIST_HEAD(&s->handed);
	INIT_LIST_HEAD(&s->stale);
	for (i = 0; i < TWHEEL_RUNNERS; i++) {
		s->runners[i].shard = s;
		INIT_WORK(&s->runners[i].work, twheel_work_fn);
#ifdef CONFIG_LOCKDEP
		lockdep_init_map(&s->runners[i].work.lockdep_map, "twheel.work",
				 &w->keys.work, 0);
#endif
	}
	INIT_LIST_HEAD(&s->work);
	s->cursor = twheel_clock_tick(w);
	s->done = s->cursor;
	s->wake = TWHEEL_NEVER;
	s->early = TWHEEL_NEVER;
	hrtimer_setup(&s->timer, twheel_timer_fn, clock[w->clock], HRTIMER_MODE_ABS);
	hrtimer_setup(&s->guard, twheel_guard_fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

static size_t twheel_shard_size(const struct twheel_geometry *g)
{
	size_t words = BITS_TO_LONGS(g->slots);
	struct twheel_shard *s;

	return struct_size(s, slots, twheel_nr_slots(g)) +
	       (words + BITS_TO_LONGS(words)) * sizeof(u64) +
	       2 * g->levels * BITS_TO_LONGS(2 * g->slots) * sizeof(long);
}

static struct twheel_shard *twheel_alloc_shard(struct twheel *w, unsigned int cpu, gfp_t gfp)
{
	struct twheel_shard *s;

	s = kvzalloc_node(twheel_shard_size(&w->geometry), gfp, cpu_to_node(cpu));
	if (!s)
		return NULL;
	twheel_init_shard(s, w, cpu);
	list_add_tail(&s->entry, &w->all);
	return s;
}

static void twheel_free(struct twheel *w)
{
	struct twheel_shard *s, *next;

	list_for_each_entry_safe(s, next, &w->all, entry)
		kvfree(s);
	lockdep_unregister_key(&w->keys.map);
	lockdep_unregister_key(&w->keys.ending);
	lockdep_unregister_key(&w->keys.advance);
	lockdep_unregister_key(&w->keys.work);
	kfree(w);
}

/* Shards that a wheel has. */
static unsigned int twheel_nr_shards(void)
{
	unsigned int cpu, nr = 0;

	for_each_possible_cpu(cpu)
		nr += housekeeping_test_cpu(cpu, HK_TYPE_TIMER);
	return nr;
}

/* A CPU isolated from timers uses the shard of another CPU. */
static int twheel_alloc_shards(struct twheel *w, gfp_t gfp)
{
	unsigned int cpu, own;

	for_each_possible_cpu(cpu) {
		if (!housekeeping_test_cpu(cpu, HK_TYPE_TIMER))
			continue;
		w->shards[cpu] = twheel_alloc_shard(w, cpu, gfp);
		if (!w->shards[cpu])
			return -ENOMEM;
	}
	own = cpumask_first_and(cpu_possible_mask, housekeeping_cpumask(HK_TYPE_TIMER));
	for_each_possible_cpu(cpu)
		if (!w->shards[cpu])
			w->shards[cpu] = w->shards[own];
	return 0;
}

static bool twheel_params_valid(const struct twheel_params *p)
{
	if (p->clock > TWHEEL_MANUAL)
		pr_err("%s: unknown clock %u\n", p->name, p->clock);
	else if (!twheel_geometry_valid(p->tick_ns, p->slots, p->levels))
		pr_err("%s: tick of %llu ns (1 to %llu), %u slots (%u to %u), %u levels (1 to %u): out of range\n",
		       p->name, p->tick_ns, TWHEEL_MAX_TICK_NS,
		       p->slots, TWHEEL_MIN_SLOTS, TWHEEL_MAX_SLOTS,
		       p->levels, TWHEEL_MAX_LEVELS);
	else
		return true;
	return false;
}

static struct twheel_params twheel_with_defaults(const struct twheel_params *params)
{
	struct twheel_params p = *params;

	p.name = p.name ?: "wheel";
	p.tick_ns = p.tick_ns ?: default_tick_ns;
	p.slots = p.slots ?: default_slots;
	p.levels = p.levels ?: default_levels;
	return p;
}

static struct twheel *twheel_alloc(const struct twheel_params *p, gfp_t gfp)
{
	struct twheel *w;

	w = kzalloc(struct_size(w, shards, nr_cpu_ids), gfp);
	if (!w)
		return NULL;
	twheel_geometry_init(&w->geometry, p->tick_ns, p->slots, p->levels);
	strscpy(w->name, p->name, sizeof(w->name));
	w->clock = p->clock;
	w->sink = p->sink;
	w->sink_data = p->sink_data;
	w->account = p->account;
	w->max_pending = p->max_pending;
	INIT_LIST_HEAD(&w->all);
	lockdep_register_key(&w->keys.map);
	lockdep_register_key(&w->keys.ending);
	lockdep_register_key(&w->keys.advance);
	lockdep_register_key(&w->keys.work);
	lockdep_init_map(&w->map, w->name, &w->keys.map, 0);
	__mutex_init(&w->ending, "twheel.ending", &w->keys.ending);
	__mutex_init(&w->advance, "twheel.advance", &w->keys.advance);
	return w;
}

/**
 * twheel_create() - create a wheel
 * @params: its parameters; 0 in a member means the default
 *
 * Context: may sleep.
 *
 * Return: the wheel; ERR_PTR(-EINVAL) if a parameter is out of range, with a
 * message in the log; ERR_PTR(-ENOMEM).
 */
struct twheel *twheel_create(const struct twheel_params *params)
{
	struct twheel_params p = twheel_with_defaults(params);
	gfp_t gfp = p.account ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
	struct twheel_shard *s;
	struct twheel *w;

	if (!twheel_params_valid(&p))
		return ERR_PTR(-EINVAL);
	w = twheel_alloc(&p, gfp);
	if (!w)
		return ERR_PTR(-ENOMEM);
	if (twheel_alloc_shards(w, gfp)) {
		twheel_free(w);
		return ERR_PTR(-ENOMEM);
	}

	scoped_guard(mutex, &twheel_mutex) {
		list_for_each_entry(s, &w->all, entry)
			s->server = twheel_pick_server(s->cpu);
		list_add_tail(&w->entry, &twheel_wheels);
		twheel_nr_wheels += !w->account;
		if (twheel_nr_wheels > warn_wheels)
			pr_warn_once("%u wheels: share one, it holds any number of timeouts\n",
				     twheel_nr_wheels);
	}
	/* Without the mutex: this allocates memory, and CPU hotplug takes the mutex. */
	twheel_show(w);
	return w;
}
EXPORT_SYMBOL_GPL(twheel_create);

/*
 * Let no further turn begin. Take the shard off its server's queue, to avoid waiting for
 * the callbacks of other wheels.
 */
static void twheel_call_off(struct twheel_shard *s)
{
	guard(spinlock_irq)(&s->lock);
	s->stopped = true;
	twheel_set_plain(s);
	guard(spinlock)(&s->server->lock);
	if (list_empty(&s->work))
		return;
	list_del_init(&s->work);
	s->wake = TWHEEL_NEVER;
}

/*
 * Dequeue one pending timeout of a stopped shard, from @list if it is not empty, and hand
 * it back. Returns false if there is none. Meanwhile the timeout appears as if its callback
 * were running, so that its owner can wait for it.
 */
static bool twheel_hand_back(struct twheel_shard *s, struct list_head **list,
			     void (*fn)(void *data, struct twheel_timeout *t), void *data)
{
	struct twheel_runner *r = &s->runners[TWHEEL_STOPPER];
	struct twheel_timeout *t;
	int unlimited = 0;

	spin_lock_irq(&s->lock);
	if (s->visit)
		twheel_end_visit(s);
	if (!*list || list_empty(*list))
		*list = !list_empty(&s->stale) ? &s->stale : twheel_any_list(s, &unlimited);
	if (!*list) {
		spin_unlock_irq(&s->lock);
		return false;
	}
	t = list_first_entry(*list, struct twheel_timeout, entry);
	twheel_take_out(s, r, t);
	s->stopped_nr++;
	__twheel_leave_place(t);
	r->batch++;
	WRITE_ONCE(r->task, current);
	twheel_unlock_notify(s);

	if (fn)
		fn(data, t);

	spin_lock_irq(&s->lock);
	r->running = NULL;
	WRITE_ONCE(r->task, NULL);
	r->batch++;
	twheel_notify(s);
	twheel_unlock_notify(s);
	return true;
}

static void twheel_stop_shard(struct twheel_shard *s,
			      void (*fn)(void *data, struct twheel_timeout *t), void *data)
{
	struct list_head *list = NULL;
	unsigned int i;

	hrtimer_cancel(&s->timer);
	hrtimer_cancel(&s->guard);
	twheel_wait(s->wheel, twheel_turns_over(s));
	for (i = 0; i < TWHEEL_RUNNERS; i++)
		cancel_work_sync(&s->runners[i].work);
	while (twheel_hand_back(s, &list, fn, data))
		cond_resched();
	scoped_guard(spinlock_irq, &s->lock)
		s->rebase = TWHEEL_BASED;
}

/**
 * twheel_stop() - stop a wheel and hand back the timeouts that have not fired
 * @w: the wheel
 * @unprocessed: called for each pending timeout, one at a time, in no order; may be NULL.
 *	The timeout is not pending. As in its callback, twheel_try_cancel() and
 *	twheel_arm_periodic() return -EBUSY. The function may shut it down, free it, link its
 *	entry into a list, or initialise and arm it for another wheel. It may sleep
 * @data: first argument of @unprocessed
 *
 * From now on each arm fails, with -ESHUTDOWN, or with -EBUSY as before. On return no
 * callback and no sink is running, and none will run. A periodic timeout whose callback
 * is running is handed back after that. A timeout that is cancelled before its turn is not
 * handed back. While a timeout is being handed back, twheel_cancel_sync() and
 * twheel_shutdown() wait for this. So its owner may free it after one of these calls, as
 * always.
 *
 * A second caller waits for the first, and nothing is handed back to it. Other tasks may
 * go on to make any call but twheel_destroy().
 *
 * Context: may sleep. Must not be called from a callback of the thread or from a sink. A
 * worker's callback may call it for another wheel. A call from a callback or the sink of
 * @w, or from @unprocessed, is refused with a warning. It waits for running callbacks:
 * twheel_use_workqueue() explains the consequences for memory reclaim.
 */
void twheel_stop(struct twheel *w, void (*unprocessed)(void *data, struct twheel_timeout *t),
		 void *data)
{
	struct twheel_shard *s;

	if (WARN_ON_ONCE(twheel_in_callback(w)))
		return;
	twheel_might_wait(w);
	guard(mutex)(&w->ending);
	/*
	 * Stop all shards first: @unprocessed could arm a timeout in a shard that is not
	 * stopped yet.
	 */
	list_for_each_entry(s, &w->all, entry)
		twheel_call_off(s);
	list_for_each_entry(s, &w->all, entry)
		twheel_stop_shard(s, unprocessed, data);
}
EXPORT_SYMBOL_GPL(twheel_stop);

/**
 * twheel_destroy() - stop and free a wheel
 * @w: the wheel, an error pointer, or NULL
 *
 * Pending timeouts are taken out and do not fire. On return no callback and no sink is
 * running. No other call for @w or a timeout of it may overlap with this one or come
 * after it. The timeouts can be initialised again for another wheel.
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
		twheel_nr_wheels -= !w->account;
	}
	twheel_free(w);
}
EXPORT_SYMBOL_GPL(twheel_destroy);

/**
 * twheel_memory() - how much memory a wheel takes
 * @params: valid parameters; 0 in a member means the default
 *
 * Return: bytes, of all CPUs together.
 */
size_t twheel_memory(const struct twheel_params *params)
{
	struct twheel_params p = twheel_with_defaults(params);
	struct twheel_geometry g;
	struct twheel *w;

	twheel_geometry_init(&g, p.tick_ns, p.slots, p.levels);
	return struct_size(w, shards, nr_cpu_ids) + twheel_nr_shards() * twheel_shard_size(&g);
}
EXPORT_SYMBOL_GPL(twheel_memory);

/**
 * twheel_get_params() - parameters of a wheel
 * @w: the wheel
 * @params: filled with the parameters in effect
 */
void twheel_get_params(const struct twheel *w, struct twheel_params *params)
{
	*params = (struct twheel_params){
		.name		= w->name,
		.clock		= w->clock,
		.tick_ns	= w->geometry.tick_ns,
		.slots		= w->geometry.slots,
		.levels		= w->geometry.levels,
		.sink		= w->sink,
		.sink_data	= w->sink_data,
		.max_pending	= w->max_pending,
		.account	= w->account,
	};
}
EXPORT_SYMBOL_GPL(twheel_get_params);

static int twheel_hotplug_state;

static int __init twheel_init(void)
{
	unsigned int cpu;
	int ret;

	lockdep_init_map(&twheel_worker_map, "twheel.worker", &twheel_worker_key, 0);
	if (!twheel_geometry_valid(default_tick_ns, default_slots, default_levels)) {
		pr_err("tick_ns=%llu (1 to %llu) slots=%u (%u to %u) levels=%u (1 to %u): out of range\n",
		       default_tick_ns, TWHEEL_MAX_TICK_NS,
		       default_slots, TWHEEL_MIN_SLOTS, TWHEEL_MAX_SLOTS,
		       default_levels, TWHEEL_MAX_LEVELS);
		return -EINVAL;
	}
	for_each_possible_cpu(cpu) {
		spin_lock_init(&per_cpu(twheel_servers, cpu).lock);
		INIT_LIST_HEAD(&per_cpu(twheel_servers, cpu).queue);
	}

	/*
	 * Not WQ_MEM_RECLAIM: when threads start slowly, one rescuer would run the callbacks of
	 * all wheels, each after those before it have returned. Linux 7.0 mended that.
	 */
	twheel_workqueue = alloc_workqueue("twheel", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!twheel_workqueue)
		return -ENOMEM;
	ret = smpboot_register_percpu_thread(&twheel_thread);
	if (ret)
		goto destroy_workqueue;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "twheel:online",
				twheel_cpu_online, twheel_cpu_offline);
	if (ret < 0)
		goto unregister_threads;
	twheel_hotplug_state = ret;
	twheel_debugfs = debugfs_create_dir("twheel", NULL);
	return 0;

unregister_threads:
	smpboot_unregister_percpu_thread(&twheel_thread);
destroy_workqueue:
	destroy_workqueue(twheel_workqueue);
	return ret;
}

static void __exit twheel_exit(void)
{
	debugfs_remove(twheel_debugfs);
	cpuhp_remove_state(twheel_hotplug_state);
	smpboot_unregister_percpu_thread(&twheel_thread);
	destroy_workqueue(twheel_workqueue);
}

module_init(twheel_init);
module_exit(twheel_exit);

MODULE_DESCRIPTION("Hashed and hierarchical timing wheels");
MODULE_LICENSE("GPL");
MODULE_VERSION(TWHEEL_MODULE_VERSION);
