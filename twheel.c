// SPDX-License-Identifier: GPL-2.0
/*
 * Hashed and hierarchical timing wheels
 *
 * A wheel has one shard per CPU. A shard is a complete timing wheel of its own:
 * slots in one or more levels, a cursor, one hrtimer, one lock. An arm goes to
 * the shard of the CPU that it is called on, so CPUs do not meet; that shard is
 * the home of the timeout until it has fired or was cancelled. How ticks map to
 * levels and slots is the subject of twheel_index.h.
 *
 *
 * Expiry
 *
 * A shard goes forward in passes. A pass takes the time, rounds it down to a
 * tick, its target, and leads the cursor there from event to event: an event is
 * the entry into the block of an occupied slot. What the slot holds for that
 * block moves down to the level where it now belongs, or, on level 0, to the
 * list of what is due; what it holds for later rounds stays. Empty ticks cost
 * nothing, however many they are: every slot knows a lower bound of the ticks in
 * it (@first), so the next event is found without a look at the timeouts, on the
 * top level also over any number of rounds. On equal ticks, which there are only
 * after a step backwards, the event of the higher level comes first, so a block is
 * entered when all that belongs into it has come down.
 *
 * A pass is made of turns. A turn handles at most TWHEEL_BATCH timeouts, visited
 * or fired, in one hold of the lock, and then calls the sink, or the callbacks,
 * without the lock. Between turns the thread offers the CPU and goes on with the
 * next wheel that has work. Everything that a turn needs to be continued is kept
 * in the shard, so the next one may come from another thread.
 *
 *  - Nothing fires early: only what has tick <= target becomes due, deadlines
 *    are rounded up, the target is rounded down, and every move compares the
 *    timeout's own tick with the cursor, never a position.
 *
 *  - A pass ends: what is armed while it goes on gets a tick after its target.
 *    The target (@done) is fixed when the pass begins.
 *
 *  - Order is ascending by tick, and by arming within a tick, but for a step
 *    backwards. Two timeouts of the same tick are always in the same slot, or
 *    the later one has been armed while the slot of the earlier one is being
 *    visited; then it is put behind it into the visited slot (@visit_level), not
 *    to where the cursor would lead it.
 *
 *  - The cursor moves back when a pass, or on CLOCK_REALTIME an arm, finds the
 *    time behind it. The timeouts stay where they are, at worst on a lower level
 *    than they would be put now; their slots are entered when their own ticks say
 *    so. There is no notice of the step itself.
 *
 *
 * Sleeping
 *
 * Between passes the hrtimer of the shard stands at the tick when the next
 * event must be worked off (@wake). An arm that comes before it moves it, a
 * cancel leaves it alone: when the timer fires, its function looks what is due,
 * and sets itself again, or stays off, without waking the thread. Nobody is woken
 * to enter a slot with one timeout in it before that timeout is due, so a lonely
 * timeout costs one wakeup wherever it lies; fuller ones are entered when their
 * block begins, to have the moving done before the first one in it is due.
 *
 * While the thread has work, @wake is TWHEEL_QUEUED, 0, below every tick: arms
 * then leave the timer alone, as the thread will set it when it is done.
 *
 *
 * Threads
 *
 * One thread per CPU serves all wheels. A shard is served by the thread of its
 * CPU, or, while that CPU is offline or is not to be disturbed (isolated from
 * timers), by another one. The server changes under the shard's lock; a turn
 * that is going on is finished by the old one, which queues the shard with the
 * new one if there is more to do. The change hangs on a CPU hotplug state that
 * is left before the thread is parked and entered after it is unparked, and not
 * on the thread's own park and unpark calls, which are skipped for a thread that
 * has not run yet. When that state is left the CPU waits for the turn that is going
 * on: a callback may sleep until a timer of this CPU fires, and on PREEMPT_RT it is a
 * thread that runs those, which is parked before ours.
 *
 * A timeout that asks for it has its callback run by a worker of the shard: the
 * thread moves it from the list of what is due to another one, from which the
 * workers take. It is pending, and can be cancelled, until one takes it.
 *
 *
 * Periodic timeouts
 *
 * With fixed rate the next deadline is queued when the callback is called, not
 * after it: the callback can cancel or move it like any other, and nothing is lost
 * if the callback is slow. It cannot overtake itself: the thread is busy with it,
 * or, with workers, none takes a timeout whose callback is running. With fixed
 * delay the wish to be queued again (@again) stands while the callback runs, and a
 * cancel or an arm takes it back.
 *
 *
 * Locking
 *
 *	server.turn		what the thread is doing
 *	  twheel_mutex		all wheels, which CPUs serve
 *	    twheel.ending	one twheel_stop() at a time
 *	    twheel.advance	one twheel_advance() at a time (MANUAL)
 *	      shard.lock	the shard and the timeouts at home in it
 *		server.lock	the server's queue of shards
 *		twheel.waiters	its own lock, in wakeups
 *		hrtimer base	in hrtimer_start()
 *		worker pool	in queue_work()
 *
 * Never two shard locks at once. In callbacks and sinks no lock is held but
 * server.turn, or with MANUAL twheel.advance. shard.lock and server.lock are
 * taken in hard interrupts (hrtimer; on PREEMPT_RT the timer runs in a thread).
 *
 * The home of a timeout, t->shard, changes under the lock of the old home while
 * the timeout is idle and its callback is not running there. It is read without
 * a lock to find the lock, and read again under it: twheel_lock_home(). After a
 * change whoever gets the new home's lock first may arm. The timeouts given to
 * twheel_arm_list() are idle and known to the caller alone; their home changes
 * with the new home's lock held.
 *
 * Lockless reads
 *
 *	t->shard	see above. Changed with release, so that who takes the new
 *			home's lock sees what was done under the old one's; but not
 *			by twheel_arm_list(), whose timeouts nobody else uses
 *	t->state	twheel_pending(), a hint. Read with acquire, which pairs
 *			with the release in twheel_accept(), the one change made
 *			without the lock: the sink is done with the timeout before
 *			it is used again
 *	server.queue	twheel_should_run(): the queue is filled before
 *			wake_up_process(), whose barrier pairs with the one in the
 *			thread loop's set_current_state()
 *
 *
 * Speed
 *
 * Arm, move and cancel are each one stretch of code (__always_inline), and what is
 * rare is a call away from it: a home elsewhere, an empty shard, and what @plain
 * sums up. What they touch of the shard is its first two cache lines, the slot and
 * the timeout.
 *
 *
 * Cancel against expiry
 *
 *	CPU0 (thread)			CPU1
 *	lock
 *	take t off the due list
 *	t->state = IDLE
 *	runner->running = t
 *	unlock				twheel_cancel_sync(t)
 *	t->fn(t)			  lock: not pending, but running
 *	  may free t			  unlock, wait
 *	lock
 *	runner->running = NULL
 *	wake waiters			  lock: not running
 *	unlock				  return false
 *
 * Until it is taken off the due list a timeout is pending and a cancel from
 * anywhere succeeds, from a callback before it in the same batch too. In a wheel
 * with a sink the whole batch is EXPIRING from the moment that it leaves the
 * lock, until the sink accepts the timeout.
 *
 * A waiter queues itself on twheel.waiters and then looks at the shard under its
 * lock; the thread changes the shard under the lock and then looks whether
 * anyone waits. The lock orders the two: one of them sees the other.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smpboot.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "twheel.h"
#include "twheel_compat.h"
#include "twheel_index.h"

#define CREATE_TRACE_POINTS
#include "twheel_trace.h"

/* Most timeouts that are handled in one hold of a shard's lock. */
#define TWHEEL_BATCH	128

/* Looking at so many words and slots counts as one timeout. */
#define TWHEEL_PROBES	16

/* shard.wake: the thread is at it, or the timer has nothing to wait for. */
#define TWHEEL_QUEUED	0
#define TWHEEL_NEVER	U64_MAX

/* t->level of a pending timeout that has left its slot: due, or given to workers. */
#define TWHEEL_DUE	0xff
#define TWHEEL_HANDED	0xfe

/* Workers of a shard, for timeouts that want one. */
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

/* Off, it costs nothing: no look at the timeouts of a batch, no clock. */
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
 * @list: in the order of arming
 * @first: no timeout in @list has an earlier tick; valid while @list is not empty
 */
struct twheel_slot {
	struct list_head	list;
	u64			first;
};

/**
 * struct twheel_runner - who runs callbacks, or the sink, of a shard
 * @running: whose callback is running, or NULL. Compared, never dereferenced: it may
 *	have been freed
 * @again: @running, if it is to be queued anew when its callback returns, or NULL
 * @task: who is at it, or NULL; read without the lock to find oneself
 * @batch: odd while a batch or a callback is going on, else even; only counts up
 * @work: for a worker
 * @shard: the shard; constant
 *
 * All under the shard's lock.
 */
struct twheel_runner {
	struct twheel_timeout	*running;
	struct twheel_timeout	*again;
	struct task_struct	*task;
	unsigned int		batch;
	struct work_struct	work;
	struct twheel_shard	*shard;
};

/* The thread, or in its place the caller of twheel_advance(), and the workers. */
#define TWHEEL_RUNNERS	(1 + TWHEEL_WORKERS)

/**
 * struct twheel_shard - the part of a wheel that is filled from one CPU
 * @lock: protects everything below it, and the timeouts at home here
 * @cpu: whose arms come here; constant
 * @geometry: the wheel's; constant
 * @cursor: the tick entered last
 * @done: what is armed gets a later tick than this; in a pass, the target; else
 *	equal to @cursor
 * @wake: the tick that @timer stands at, or TWHEEL_QUEUED, or TWHEEL_NEVER
 * @nr: pending timeouts
 * @slots: (@level << bits) + slot
 * @map: occupancy, @map_words words a level: set while the slot's list is not
 *	empty, or is being visited
 * @map_words: words of @map for one level; a power of two
 * @word_first: for the words of @map of the top level: no slot that is set in it
 *	holds an earlier tick; valid while the word is not 0
 * @stopped: nothing can be armed any more
 * @plain: an arm has nothing to look at: the shard is not stopped, no callback is
 *	running, and the wheel has no limit and no clock that can be set
 * @visit_level: level of @visit, else 0
 * @visit: slot being visited, or NULL. Its block has been entered
 * @visit_first: earliest tick of what the visit has left in the slot
 * @marker: in the list of @visit between turns: what is before it was looked at
 * @due: what has left its slot and was not fired yet, at most TWHEEL_BATCH
 * @nr_due: length of @due
 * @handed: what waits for a worker
 * @nr_handed: length of @handed
 * @nr_running: callbacks running
 * @runners: who runs them: the thread is the first
 * @unprocessed: what a stopped shard hands back
 * @armed: struct twheel_counters, as are the following
 * @rearmed: see there
 * @cancelled: see there
 * @fired: see there
 * @stopped_nr: see there
 * @extended: see there
 * @cascaded: see there
 * @wakeups: see there
 * @largest_batch: see there
 * @lateness: see there
 * @timer: wakes the server
 * @server: serves this shard, changes under @lock
 * @work: place in the queue of @server; under its lock
 * @entry: in twheel.all; constant
 * @wheel: the wheel; constant
 */
struct twheel_shard {
	spinlock_t		lock;		/* all of this, and who is at home */
	bool			stopped;
	bool			plain;
	u8			visit_level;
	u32			map_words;
	unsigned int		cpu;
	struct twheel_geometry	geometry;
	u64			cursor;
	u64			done;
	u64			wake;
	u64			nr;
	unsigned long		*map;
	u64			*word_first;
	struct twheel		*wheel;
	u64			armed;
	u64			cancelled;
	u64			fired;
	u64			cascaded;

	struct twheel_slot	*visit;
	u64			visit_first;
	struct list_head	marker;
	struct list_head	due;
	unsigned int		nr_due;
	unsigned int		nr_handed;
	unsigned int		nr_running;
	struct list_head	handed;
	struct list_head	unprocessed;
	struct twheel_runner	runners[TWHEEL_RUNNERS];
	u64			rearmed;
	u64			extended;
	u64			stopped_nr;
	u64			wakeups;
	u64			largest_batch;
	u64			lateness[TWHEEL_LATENESS_BUCKETS];
	struct hrtimer		timer;
	struct twheel_server	*server;
	struct list_head	work;
	struct list_head	entry;

	struct twheel_slot	slots[];
};

/**
 * struct twheel_server - the thread of one CPU
 * @turn: held by the thread while it has a shard
 * @lock: protects @queue, and the @work of the shards in it
 * @queue: shards that have work to do now
 * @task: the thread; set when it is created
 */
struct twheel_server {
	struct mutex		turn;		/* what the thread is doing */
	spinlock_t		lock;		/* queue, shard.work */
	struct list_head	queue;
	struct task_struct	*task;
};

/**
 * struct twheel - a wheel
 * @geometry: ticks, slots, levels
 * @clock: what deadlines refer to
 * @sink: takes expired timeouts, or NULL: they have callbacks
 * @sink_data: its argument
 * @waiters: those who wait for a batch, a callback or a turn to end
 * @manual_ns: the time of a MANUAL wheel
 * @account: its memory is charged to a cgroup; made for a user, see twheel_params
 * @max_pending: most timeouts in @pending, or 0
 * @pending: places taken, counted only if there is a limit
 * @ending: one twheel_stop() at a time
 * @advance: one twheel_advance() at a time
 * @map: held while callbacks and the sink run, and acquired by all that waits
 *	for them, so that lockdep sees who would wait for himself
 * @key: class of @map: one a wheel, since one may end another from its callback
 * @advance_key: class of @advance, for the same reason
 * @entry: in twheel_wheels; under twheel_mutex
 * @dentry: its file in debugfs
 * @name: for messages
 * @all: the shards, each once. Constant
 * @shards: the shards by CPU. Constant. CPUs that timers shall not disturb share
 *	another's
 */
struct twheel {
	struct twheel_geometry	geometry;
	enum twheel_clock	clock;
	void			(*sink)(void *sink_data, struct list_head *expired,
					unsigned int nr, u64 now_ns);
	void			*sink_data;
	wait_queue_head_t	waiters;
	bool			account;
	unsigned int		max_pending;
	atomic_t		pending;
	struct mutex		ending;		/* shards being stopped */
	atomic64_t		manual_ns;
	struct mutex		advance;	/* manual_ns, passes of MANUAL */
	struct lockdep_map	map;
	struct lock_class_key	key;
	struct lock_class_key	advance_key;
	struct list_head	entry;
	struct dentry		*dentry;
	char			name[TWHEEL_NAME_LEN];
	struct list_head	all;
	struct twheel_shard	*shards[];
};

static struct workqueue_struct *twheel_workqueue;

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

static bool twheel_is_plain(const struct twheel_shard *s)
{
	return !s->stopped && !s->nr_running && !s->wheel->max_pending &&
	       s->wheel->clock != TWHEEL_REALTIME;
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
	return twheel_tick_floor(twheel_clock_ns(w), w->geometry.tick_ns);
}

/* Slots and their occupancy */

static unsigned long *twheel_map(const struct twheel_shard *s, u32 level)
{
	return s->map + level * s->map_words;
}

/* On the top level, something comes into slot @i; called before the bit is set. */
static __always_inline void twheel_note_first(struct twheel_shard *s, u32 level, u32 i, u64 tick)
{
	u64 *first = &s->word_first[i / BITS_PER_LONG];

	if (!twheel_map(s, level)[i / BITS_PER_LONG] || tick < *first)
		*first = tick;
}

/*
 * list_add_tail(), with what debugging kernels, and those of distributions, check in a
 * call checked in line: whatever is wrong is left to list_add_tail(), which reports it.
 */
static __always_inline void twheel_append(struct list_head *entry, struct list_head *head)
{
	struct list_head *last = head->prev;

	if (unlikely(last->next != head || last == entry)) {
		list_add_tail(entry, head);
		return;
	}
	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

/*
 * Put @t at the end of its slot on @level. Returns the tick at which the slot
 * must be worked off now: with a single timeout in it, when that is due.
 */
static __always_inline u64 twheel_insert(struct twheel_shard *s, struct twheel_timeout *t,
					 u32 level)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 i = twheel_slot(g, t->tick, level);
	struct twheel_slot *slot = &s->slots[(level << g->bits) + i];
	u64 tick = t->tick, work = twheel_block_start(g, tick, level);

	/* To be kept: the compiler would compute it a second time. */
	OPTIMIZER_HIDE_VAR(slot);
	if (level == g->top)
		twheel_note_first(s, level, i, tick);
	if (list_empty(&slot->list)) {
		__set_bit(i, twheel_map(s, level));
		slot->first = tick;
		work = tick;
	} else if (tick < slot->first) {
		slot->first = tick;
	}
	t->level = level;
	twheel_append(&t->entry, &slot->list);
	return work;
}

/*
 * Put @t where it belongs as seen from the cursor, but into the slot that is being
 * visited what falls into its block. Returns as twheel_insert().
 */
static __always_inline u64 twheel_place(struct twheel_shard *s, struct twheel_timeout *t)
{
	u32 level = twheel_level(&s->geometry, t->tick, s->cursor);

	return twheel_insert(s, t, max_t(u32, level, s->visit_level));
}

/*
 * Take @t, which is pending, out of wherever it is. The state says that it is in a
 * list, so the check of debugging kernels is left to whoever adds a neighbour.
 */
static __always_inline void twheel_unlink(struct twheel_shard *s, struct twheel_timeout *t)
{
	struct list_head *prev = t->entry.prev, *next = t->entry.next;

	if (unlikely(t->level == TWHEEL_DUE))
		s->nr_due--;
	else if (unlikely(t->level == TWHEEL_HANDED))
		s->nr_handed--;
	else if (prev == next)
		__clear_bit(twheel_slot(&s->geometry, t->tick, t->level),
			    twheel_map(s, t->level));
	__list_del(prev, next);
}

static __always_inline void twheel_remove(struct twheel_shard *s, struct twheel_timeout *t)
{
	twheel_unlink(s, t);
	s->nr--;
}

/**
 * struct twheel_entry - where the cursor of a shard stops next
 * @tick: when the cursor enters @slot
 * @wake: when the thread has to be woken for it, at or after @tick
 * @first: nothing is due before
 * @slot: the slot
 * @level: its level
 * @probes: what finding it took: words and slots looked at
 */
struct twheel_entry {
	u64			tick;
	u64			wake;
	u64			first;
	struct twheel_slot	*slot;
	u32			level;
	u32			probes;
};

/*
 * Look through the slots of @bits, a part of word @w of the map of @level. Returns
 * true if one of them holds something for the revolution that @cursor begins; that
 * is put into @best. Else @best becomes the earliest seen so far.
 */
static bool twheel_scan_word(struct twheel_shard *s, struct twheel_entry *ev, u32 w,
			     unsigned long bits, struct twheel_slot **best)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *row = &s->slots[(ev->level << g->bits) + w * BITS_PER_LONG];
	u64 block = twheel_block(g, s->cursor, ev->level);
	bool whole = bits == twheel_map(s, ev->level)[w];
	struct twheel_slot *slot, *earliest = NULL;
	u32 ahead;

	for (; bits; bits &= bits - 1) {
		slot = &row[__ffs(bits)];
		ev->probes++;
		ahead = twheel_ahead(g, block, w * BITS_PER_LONG + __ffs(bits));
		if (twheel_block(g, slot->first, ev->level) <= block + ahead) {
			*best = slot;
			return true;
		}
		if (!earliest || slot->first < earliest->first)
			earliest = slot;
	}
	if (whole && ev->level == g->top)
		s->word_first[w] = earliest->first;
	if (!*best || earliest->first < (*best)->first)
		*best = earliest;
	return false;
}

/*
 * The occupied slot of ev->level that the cursor enters next. The slots are tried
 * in the order in which the cursor passes them. The first one that holds something
 * for this revolution is it; if all hold later rounds only, the earliest of them.
 * A word that cannot have an earlier one is passed over.
 */
static struct twheel_slot *twheel_next_slot(struct twheel_shard *s, struct twheel_entry *ev)
{
	const struct twheel_geometry *g = &s->geometry;
	const unsigned long *map = twheel_map(s, ev->level);
	u32 start = twheel_slot(g, s->cursor, ev->level);
	unsigned long before = BIT(start % BITS_PER_LONG) - 1;
	bool top = ev->level == g->top;
	struct twheel_slot *best = NULL;
	unsigned long bits;
	u32 n, w;

	/* The word that the cursor is in is split: its beginning comes last. */
	for (n = 0; n <= s->map_words; n++) {
		w = (start / BITS_PER_LONG + n) & (s->map_words - 1);
		bits = map[w];
		if (!n)
			bits &= ~before;
		else if (n == s->map_words)
			bits &= before;
		ev->probes++;
		if (!bits || (best && top && s->word_first[w] >= best->first))
			continue;
		if (twheel_scan_word(s, ev, w, bits, &best))
			break;
	}
	return best;
}

/* Inside a block of the level above, so nothing of a higher level comes before. */
static bool twheel_settled(const struct twheel_shard *s, u64 tick, u32 level)
{
	const struct twheel_geometry *g = &s->geometry;

	return level + 1 < g->levels &&
	       twheel_block(g, tick, level + 1) == twheel_block(g, s->cursor, level + 1) &&
	       twheel_block_start(g, tick, level + 1) != tick;
}

static bool twheel_next_event(struct twheel_shard *s, struct twheel_entry *next)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_entry ev = { };
	struct twheel_slot *slot;
	u64 tick;

	*next = (struct twheel_entry){
		.tick = TWHEEL_NEVER, .wake = TWHEEL_NEVER, .first = TWHEEL_NEVER,
	};
	for (ev.level = 0; ev.level < g->levels; ev.level++) {
		slot = twheel_next_slot(s, &ev);
		if (!slot)
			continue;
		tick = twheel_block_start(g, slot->first, ev.level);
		if (tick <= next->tick) {
			next->tick = tick;
			next->slot = slot;
			next->level = ev.level;
		}
		next->first = min(next->first, slot->first);
		next->wake = min(next->wake, list_is_singular(&slot->list) ? slot->first : tick);
		if (twheel_settled(s, tick, ev.level))
			break;
	}
	next->probes = ev.probes;
	return next->slot;
}

/* Sleeping and waking */

static void twheel_set_timer(struct twheel_shard *s, u64 wake)
{
	u64 ns = twheel_tick_to_ns(wake, s->geometry.tick_ns);

	lockdep_assert_held(&s->lock);
	s->wake = wake;
	if (s->wheel->clock != TWHEEL_MANUAL)
		hrtimer_start(&s->timer, ns_to_ktime(ns), HRTIMER_MODE_ABS);
}

/* Give the shard to its server: it has work, or more work, to do. */
static void twheel_queue(struct twheel_shard *s)
{
	struct twheel_server *server = s->server;

	lockdep_assert_held(&s->lock);
	s->wake = TWHEEL_QUEUED;
	spin_lock(&server->lock);
	list_add_tail(&s->work, &server->queue);
	spin_unlock(&server->lock);
	wake_up_process(server->task);
}

static void twheel_wake(struct twheel_shard *s)
{
	s->wakeups++;
	trace_twheel_wakeup(s->wheel->name, s->cpu, s->server->task->pid);
	twheel_queue(s);
}

static enum hrtimer_restart twheel_timer_fn(struct hrtimer *timer)
{
	struct twheel_shard *s = container_of(timer, struct twheel_shard, timer);
	struct twheel_entry ev;
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	if (s->wake == TWHEEL_QUEUED || s->stopped)
		goto unlock;
	if (!twheel_next_event(s, &ev))
		s->wake = TWHEEL_NEVER;
	else if (ev.wake > twheel_clock_tick(s->wheel))
		twheel_set_timer(s, ev.wake);
	else
		twheel_wake(s);
unlock:
	spin_unlock_irqrestore(&s->lock, flags);
	return HRTIMER_NORESTART;
}

/* Arming and cancelling */

/*
 * An empty shard has nothing that its cursor could run over: bring it up to date,
 * so that what is armed now starts as low as it can.
 */
static void twheel_catch_up(struct twheel_shard *s)
{
	u64 tick;

	if (s->wake == TWHEEL_QUEUED)
		return;
	tick = twheel_clock_tick(s->wheel);
	if (tick > s->cursor) {
		s->cursor = tick;
		s->done = tick;
	}
}

/*
 * The clock has been set back to @tick. A pass that goes on has that as its target
 * now, and the cursor goes back; if a visit is going on, then when it has come to
 * its end, with what is not due any more left where it is.
 */
static void twheel_step_back(struct twheel_shard *s, u64 tick)
{
	if (tick >= s->done)
		return;
	s->done = tick;
	if (!s->visit)
		s->cursor = min(s->cursor, tick);
}

static void twheel_look_back(struct twheel_shard *s)
{
	if (s->wheel->clock == TWHEEL_REALTIME)
		twheel_step_back(s, twheel_clock_tick(s->wheel));
}

/* Bring the cursor to where an arm may start from it. */
static void twheel_refresh(struct twheel_shard *s)
{
	if (!s->nr)
		twheel_catch_up(s);
	twheel_look_back(s);
}

/*
 * A tick for a timeout that may fire at any of @lo to @hi: one that is in use
 * anyway, if the cursor is near, or one that others will choose too.
 */
static u64 twheel_join(const struct twheel_shard *s, u64 lo, u64 hi)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 from = twheel_slot(g, lo, 0), i;

	if (hi >> g->bits == lo >> g->bits && lo >> g->bits == s->cursor >> g->bits) {
		i = find_next_bit(twheel_map(s, 0), twheel_slot(g, hi, 0) + 1, from);
		if (i <= twheel_slot(g, hi, 0) && s->slots[i].first == lo - from + i)
			return lo - from + i;
	}
	return twheel_round_tick(lo, hi);
}

/* The tick for a deadline of @expires_ns. */
static __always_inline u64 twheel_choose_tick(struct twheel_shard *s, u64 expires_ns,
					      u64 slack_ns)
{
	u64 tick_ns = s->geometry.tick_ns, tick = twheel_tick_ceil(expires_ns, tick_ns);

	if (tick <= s->done)
		tick = s->done + 1;
	if (!slack_ns)
		return tick;
	return twheel_join(s, tick, twheel_tick_floor(twheel_add_ns(expires_ns, slack_ns),
						      tick_ns));
}

/*
 * Queue @t for t->expires in a shard that has been brought up to date. Counting it
 * is left to the caller. Returns the tick at which the shard must wake.
 */
static __always_inline u64 twheel_enqueue(struct twheel_shard *s, struct twheel_timeout *t,
					  u64 slack_ns)
{
	lockdep_assert_held(&s->lock);
	t->tick = twheel_choose_tick(s, t->expires, slack_ns);
	WRITE_ONCE(t->state, TWHEEL_PENDING);
	trace_twheel_arm(s->wheel->name, t);
	return twheel_place(s, t);
}

static __always_inline void twheel_schedule(struct twheel_shard *s, struct twheel_timeout *t,
					    u64 expires_ns, u64 slack_ns)
{
	u64 wake;

	t->expires = expires_ns;
	wake = twheel_enqueue(s, t, slack_ns);
	s->armed++;
	if (wake < s->wake)
		twheel_set_timer(s, wake);
}

/* Take a place under the wheel's limit; a pending timeout has one. */
static __always_inline bool twheel_take_place(struct twheel *w)
{
	return !w->max_pending || atomic_add_unless(&w->pending, 1, w->max_pending);
}

static __always_inline void twheel_leave_places(struct twheel *w, unsigned int nr)
{
	if (w->max_pending)
		atomic_sub(nr, &w->pending);
}

/* Queue @t, which has its place, and have the shard wake for it. */
static void twheel_queue_timeout(struct twheel_shard *s, struct twheel_timeout *t,
				 u64 expires_ns, u64 slack_ns)
{
	twheel_refresh(s);
	s->nr++;
	twheel_schedule(s, t, expires_ns, slack_ns);
}

/* Who runs the callback of @t, or NULL. */
static struct twheel_runner *twheel_find_runner(struct twheel_shard *s,
						const struct twheel_timeout *t)
{
	unsigned int i;

	for (i = 0; i < TWHEEL_RUNNERS; i++)
		if (s->runners[i].running == t)
			return &s->runners[i];
	return NULL;
}

static __always_inline struct twheel_runner *
twheel_runner_of(struct twheel_shard *s, const struct twheel_timeout *t)
{
	lockdep_assert_held(&s->lock);
	return unlikely(s->nr_running) ? twheel_find_runner(s, t) : NULL;
}

/* The callback of @t is running and would have it queued again: not any more. */
static bool twheel_forget_again(struct twheel_shard *s, struct twheel_timeout *t)
{
	struct twheel_runner *r = twheel_runner_of(s, t);

	if (!r || !r->again)
		return false;
	r->again = NULL;
	twheel_leave_places(s->wheel, 1);
	return true;
}

/* May @t be armed, in a shard where that is a question? It has its place then. */
static noinline int twheel_admit(struct twheel_shard *s, struct twheel_timeout *t)
{
	struct twheel_runner *r;

	if (s->stopped)
		return -ESHUTDOWN;
	r = twheel_runner_of(s, t);
	if (r && r->again)
		r->again = NULL;	/* the place it has is the one it needs */
	else if (!twheel_take_place(s->wheel))
		return -EAGAIN;
	twheel_look_back(s);
	return 0;
}

static __always_inline int __twheel_arm(struct twheel_shard *s, struct twheel_timeout *t,
					u64 expires_ns, u64 slack_ns)
{
	int ret;

	if (unlikely(!s->plain)) {
		ret = twheel_admit(s, t);
		if (ret)
			return ret;
	}
	if (unlikely(!s->nr))
		twheel_catch_up(s);
	s->nr++;
	twheel_schedule(s, t, expires_ns, slack_ns);
	return 0;
}

static enum twheel_state twheel_state(const struct twheel_timeout *t)
{
	/* Pairs with the release in twheel_accept(), which has no lock. */
	return smp_load_acquire(&t->state);
}

static __always_inline bool __twheel_cancel(struct twheel_shard *s, struct twheel_timeout *t)
{
	lockdep_assert_held(&s->lock);
	if (twheel_state(t) != TWHEEL_PENDING)
		return twheel_forget_again(s, t);
	trace_twheel_cancel(s->wheel->name, t);
	twheel_remove(s, t);
	WRITE_ONCE(t->state, TWHEEL_IDLE);
	s->cancelled++;
	twheel_leave_places(s->wheel, 1);
	return true;
}

/*
 * The home of @t was @s, which is locked, with interrupts off: lock the one it has
 * now. Apart from the common case, so that flags can stay in a register there.
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

/* @t, whose home @s is locked, comes to this CPU, if it is free to move. */
static noinline struct twheel_shard *twheel_bring_here(struct twheel_shard *s,
						       struct twheel_timeout *t)
{
	struct twheel_shard *local = twheel_local_shard(s->wheel);

	if (s == local || twheel_state(t) != TWHEEL_IDLE || twheel_runner_of(s, t))
		return s;
	/* Pairs with the lock of the new home, found through the new value. */
	smp_store_release(&t->shard, local);
	return twheel_follow_home(s, t);
}

/*
 * Lock the home of @t after bringing it to this CPU, if it is free to move. It
 * moves once at most: with two CPUs at it, one of them gives in.
 */
static __always_inline struct twheel_shard *twheel_lock_here(struct twheel_timeout *t,
							     unsigned long *flags)
{
	struct twheel_shard *s = twheel_lock_home(t, flags);

	if (likely(s->cpu == raw_smp_processor_id()))
		return s;
	return twheel_bring_here(s, t);
}

/**
 * twheel_timeout_init() - prepare a timeout for its first arm
 * @w: the wheel that it belongs to from now on
 * @t: the timeout; it must not be in a wheel
 * @fn: called when it expires; NULL in a wheel with a sink
 */
void twheel_timeout_init(struct twheel *w, struct twheel_timeout *t,
			 void (*fn)(struct twheel_timeout *t))
{
	memset(t, 0, sizeof(*t));
	INIT_LIST_HEAD(&t->entry);
	t->fn = fn;
	t->shard = twheel_local_shard(w);
}
EXPORT_SYMBOL_GPL(twheel_timeout_init);

static noinline int twheel_arm_idle(struct twheel_shard *s, struct twheel_timeout *t,
				    u64 expires_ns, u64 slack_ns)
{
	return __twheel_arm(s, t, expires_ns, slack_ns);
}

static __always_inline int twheel_arm_any(struct twheel_timeout *t, u64 expires_ns,
					  u64 slack_ns)
{
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -EBUSY;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;

	s = twheel_lock_here(t, &flags);
	if (twheel_state(t) == TWHEEL_IDLE)
		ret = __twheel_arm(s, t, expires_ns, slack_ns);
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}

/**
 * twheel_arm() - arm a timeout for a point in time
 * @t: an initialised timeout that is not pending
 * @expires_ns: the deadline, absolute ns on the wheel's clock. A past one is due
 *	at once: it fires at the next tick, not inside this call
 *
 * Return: 0; -EBUSY if it is pending or on its way to the sink; -EINVAL if
 * @expires_ns is above S64_MAX; -EAGAIN if max_pending timeouts are pending;
 * -ESHUTDOWN if the wheel has been stopped.
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
 * @slack_ns: how much later than its deadline it may fire, beyond what any timeout
 *	may be late
 *
 * It joins a tick that is in use anyway, or one that others with slack choose too,
 * and so saves a wakeup.
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
	p->t.kind = kind;
	p->fn = fn;
}
EXPORT_SYMBOL_GPL(twheel_periodic_init);

/**
 * twheel_arm_periodic() - arm a periodic timeout
 * @p: an initialised periodic timeout that is neither pending nor in its callback
 * @expires_ns: the first deadline, as in twheel_arm()
 * @interval_ns: 1 to S64_MAX. Below the tick is fine: the callback is then called
 *	once a tick and told how many deadlines have passed
 * @repeat: how many deadlines in all, those that are missed included; 0: no end
 *
 * There is never a burst: deadlines that have passed when the callback comes are
 * counted, not made up for. With fixed rate the callback may be called for the next
 * deadline as soon as it returns; it is never called twice at the same time.
 *
 * Return: as twheel_arm(); -EINVAL for a bad interval.
 */
int twheel_arm_periodic(struct twheel_periodic *p, u64 expires_ns, u64 interval_ns,
			u32 repeat)
{
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -EBUSY;

	if (expires_ns > S64_MAX || !interval_ns || interval_ns > S64_MAX)
		return -EINVAL;

	s = twheel_lock_here(&p->t, &flags);
	if (twheel_state(&p->t) == TWHEEL_IDLE && !twheel_runner_of(s, &p->t)) {
		p->interval_ns = interval_ns;
		p->repeat = repeat;
		p->missed = 0;
		ret = twheel_arm_idle(s, &p->t, expires_ns, 0);
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(twheel_arm_periodic);

/* Arm them in one lock hold. Returns how many: not all if there is no more place. */
static unsigned int twheel_arm_batch(struct twheel_shard *s, struct twheel_timeout **timeouts,
				     unsigned int nr)
{
	struct twheel_timeout *t;
	u64 wake = TWHEEL_NEVER;
	unsigned int i;

	lockdep_assert_held(&s->lock);
	if (s->stopped)
		return 0;
	twheel_refresh(s);
	for (i = 0; i < nr; i++) {
		if (unlikely(!s->plain) && !twheel_take_place(s->wheel))
			break;
		t = timeouts[i];
		WRITE_ONCE(t->shard, s);
		wake = min(wake, twheel_enqueue(s, t, 0));
	}
	s->nr += i;
	s->armed += i;
	if (wake < s->wake)
		twheel_set_timer(s, wake);
	return i;
}

/**
 * twheel_arm_list() - arm many timeouts, with one lock hold for many of them
 * @w: the wheel
 * @timeouts: idle timeouts of @w, each with expires set, absolute and at most
 *	S64_MAX. None is the one whose callback is running, and nothing else is done
 *	to them meanwhile
 * @nr: how many
 *
 * They are armed in this order.
 *
 * Return: how many were armed, from the first on; fewer than @nr only if the wheel
 * has been stopped or max_pending timeouts are pending.
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

/* A pending timeout keeps its place. */
static __always_inline int twheel_move(struct twheel_shard *s, struct twheel_timeout *t,
				       u64 expires_ns, u64 slack_ns)
{
	if (unlikely(!s->plain)) {
		if (s->stopped)
			return -ESHUTDOWN;
		twheel_look_back(s);
	}
	trace_twheel_cancel(s->wheel->name, t);
	twheel_unlink(s, t);
	s->cancelled++;
	s->rearmed++;
	if (unlikely(s->nr == 1))
		twheel_catch_up(s);
	twheel_schedule(s, t, expires_ns, slack_ns);
	return 1;
}

static __always_inline int twheel_mod_any(struct twheel_timeout *t, u64 expires_ns,
					  u64 slack_ns)
{
	struct twheel_shard *s;
	unsigned long flags;
	int ret = -EBUSY;

	if (expires_ns > S64_MAX || slack_ns > S64_MAX)
		return -EINVAL;

	s = twheel_lock_here(t, &flags);
	if (likely(twheel_state(t) == TWHEEL_PENDING))
		ret = twheel_move(s, t, expires_ns, slack_ns);
	else if (twheel_state(t) == TWHEEL_IDLE)
		ret = twheel_arm_idle(s, t, expires_ns, slack_ns);
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}

/**
 * twheel_mod() - arm a timeout, or move it if it is pending
 * @t: an initialised timeout
 * @expires_ns: the new deadline, absolute ns on the wheel's clock
 *
 * A pending timeout that is moved counts as cancelled and as armed anew: among
 * those of its new tick it is the last.
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

/**
 * twheel_extend() - send a timeout of a sink's batch back into the wheel
 * @t: a timeout in the list that the sink was called with, taken off it and not
 *	accepted
 * @expires_ns: its new deadline, absolute ns on the wheel's clock
 * @slack_ns: as in twheel_arm_slack()
 *
 * For a timeout whose deadline turns out to have moved on: it has not fired then,
 * and counts in extended alone. Its place under max_pending may have been taken
 * meanwhile; it is not refused for that, so the wheel may be over the limit until
 * the next expiry.
 *
 * Context: in the sink.
 *
 * Return: 0; -EINVAL if one of them is above S64_MAX; -ESHUTDOWN if the wheel has
 * been stopped. With an error it is still the sink's, to be accepted.
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
	if (!s->stopped) {
		if (s->wheel->max_pending)
			atomic_inc(&s->wheel->pending);
		twheel_queue_timeout(s, t, expires_ns, slack_ns);
		s->armed--;
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
 * Does not wait: when it was not pending, its callback may be running.
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

/* Cancel from @timeouts on what is at home in one shard; how many were looked at. */
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
 * @timeouts: initialised timeouts. Those that were not pending are replaced by NULL
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

/* Lockdep sees here what would wait for itself, even if it does not this time. */
static void twheel_might_wait(struct twheel *w)
{
	might_sleep();
	lock_map_acquire(&w->map);
	lock_map_release(&w->map);
}

/* Are we in a callback or in the sink of this shard? Waiting would never end. */
static bool twheel_is_runner(const struct twheel_shard *s)
{
	unsigned int i;

	for (i = 0; i < TWHEEL_RUNNERS; i++)
		if (READ_ONCE(s->runners[i].task) == current)
			return true;
	return false;
}

static bool twheel_in_callback(struct twheel *w)
{
	struct twheel_shard *s;

	list_for_each_entry(s, &w->all, entry)
		if (twheel_is_runner(s))
			return true;
	return false;
}

static void twheel_wake_waiters(struct twheel_shard *s)
{
	lockdep_assert_held(&s->lock);
	/* Ordered by the shard's lock: see "Cancel against expiry". */
	if (waitqueue_active(&s->wheel->waiters))
		wake_up_all(&s->wheel->waiters);
}

static bool twheel_callback_over(struct twheel_shard *s, struct twheel_timeout *t)
{
	guard(spinlock_irq)(&s->lock);
	return !twheel_runner_of(s, t);
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

/* Wait for the end of what @r is at, if it is at something. */
static void twheel_flush_runner(struct twheel_runner *r)
{
	unsigned int batch;

	scoped_guard(spinlock_irq, &r->shard->lock)
		batch = r->batch;
	if (batch & 1)
		wait_event(r->shard->wheel->waiters, twheel_batch_over(r, batch));
}

static void twheel_flush_shard(struct twheel_shard *s)
{
	unsigned int i;

	if (WARN_ON_ONCE(twheel_is_runner(s)))
		return;
	for (i = 0; i < TWHEEL_RUNNERS; i++)
		twheel_flush_runner(&s->runners[i]);
}

/*
 * Cancel @t once, then wait for what was still to be waited for. Returns true if
 * there was nothing.
 */
static bool twheel_try_cancel_sync(struct twheel_timeout *t, bool *cancelled)
{
	struct twheel_shard *s;
	unsigned long flags;
	bool running, expiring;

	s = twheel_lock_home(t, &flags);
	*cancelled |= __twheel_cancel(s, t);
	running = twheel_runner_of(s, t);
	expiring = twheel_state(t) == TWHEEL_EXPIRING;
	spin_unlock_irqrestore(&s->lock, flags);

	if (WARN_ON_ONCE(twheel_is_runner(s)))
		return true;
	if (running)
		wait_event(s->wheel->waiters, twheel_callback_over(s, t));
	if (expiring)
		twheel_flush_shard(s);
	return !running && !expiring;
}

/**
 * twheel_cancel_sync() - cancel a timeout and wait for its callback
 * @t: an initialised timeout, which the caller keeps others from arming
 *
 * On return @t is not pending and its callback is not running on any CPU, also if
 * the callback armed it again while this call waited. In a wheel with a sink, the
 * batch that @t was in has been taken over.
 *
 * Context: may sleep. Not from a callback or the sink of the same wheel, nor with
 * anything held that these need.
 *
 * Return: true if it was pending and has been taken out, at any time during the
 * call; false otherwise.
 */
bool twheel_cancel_sync(struct twheel_timeout *t)
{
	bool cancelled = false;

	twheel_might_wait(READ_ONCE(t->shard)->wheel);
	while (!twheel_try_cancel_sync(t, &cancelled))
		;
	return cancelled;
}
EXPORT_SYMBOL_GPL(twheel_cancel_sync);

/**
 * twheel_flush() - wait for the batches in flight
 * @w: the wheel
 *
 * On return every callback and every call of the sink that was in progress when
 * this was called has ended.
 *
 * Context: may sleep. Not from a callback or the sink of the same wheel.
 */
void twheel_flush(struct twheel *w)
{
	struct twheel_shard *s;

	twheel_might_wait(w);
	list_for_each_entry(s, &w->all, entry)
		twheel_flush_shard(s);
}
EXPORT_SYMBOL_GPL(twheel_flush);

/* Expiry */

static void twheel_begin_visit(struct twheel_shard *s, const struct twheel_entry *ev)
{
	s->cursor = ev->tick;
	s->visit = ev->slot;
	s->visit_level = ev->level;
	s->visit_first = TWHEEL_NEVER;
}

static void twheel_end_visit(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;

	if (list_empty(&s->visit->list))
		__clear_bit((s->visit - s->slots) & g->mask,
			    twheel_map(s, s->visit_level));
	s->visit->first = s->visit_first;
	s->visit = NULL;
	s->visit_level = 0;
}

/* Move @t from the slot being visited down to where it belongs from now on. */
static void twheel_descend(struct twheel_shard *s, struct twheel_timeout *t)
{
	__list_del_entry(&t->entry);
	twheel_insert(s, t, twheel_level(&s->geometry, t->tick, s->cursor));
	s->cascaded++;
	trace_twheel_cascade(s->wheel->name, t, s->visit_level);
}

/* What the visit leaves in its slot. */
static void twheel_leave(struct twheel_shard *s, const struct twheel_timeout *t)
{
	if (t->tick < s->visit_first)
		s->visit_first = t->tick;
}

/*
 * The visit of a slot on level 0, from @pos on: what is due is moved in runs of
 * neighbours, which a slot mostly is as a whole. Returns where it has come to.
 */
static struct list_head *twheel_visit_due(struct twheel_shard *s, struct list_head *pos,
					  unsigned int *budget)
{
	u64 due = s->cursor <= s->done ? s->cursor : TWHEEL_NEVER;
	u8 state = s->wheel->sink ? TWHEEL_EXPIRING : TWHEEL_PENDING;
	struct list_head *first = NULL, *last = NULL;

	for (; pos != &s->visit->list && *budget; pos = pos->next, --*budget) {
		struct twheel_timeout *t = list_entry(pos, struct twheel_timeout, entry);

		if (t->tick != due) {
			twheel_leave(s, t);
			if (first)
				list_bulk_move_tail(&s->due, first, last);
			first = NULL;
			continue;
		}
		t->level = TWHEEL_DUE;
		WRITE_ONCE(t->state, state);
		s->nr_due++;
		first = first ?: pos;
		last = pos;
	}
	if (first)
		list_bulk_move_tail(&s->due, first, last);
	return pos;
}

/* The visit of a slot on a higher level. */
static struct list_head *twheel_visit_block(struct twheel_shard *s, struct list_head *pos,
					    unsigned int *budget)
{
	u64 block = twheel_block(&s->geometry, s->cursor, s->visit_level);
	struct list_head *next;

	for (; pos != &s->visit->list && *budget; pos = next, --*budget) {
		struct twheel_timeout *t = list_entry(pos, struct twheel_timeout, entry);

		next = pos->next;
		if (twheel_block(&s->geometry, t->tick, s->visit_level) == block)
			twheel_descend(s, t);
		else
			twheel_leave(s, t);
	}
	return pos;
}

/*
 * Go on with the visit for up to @budget timeouts. What belongs to another block,
 * one of a later round, stays and is not written to. What is armed for this slot
 * meanwhile is at its end and will be seen. Returns what is left of @budget.
 */
static unsigned int twheel_visit(struct twheel_shard *s, unsigned int budget)
{
	struct list_head *head = &s->visit->list, *pos = head->next;

	if (!list_empty(&s->marker)) {
		pos = s->marker.next;
		list_del_init(&s->marker);
	}
	if (s->visit_level)
		pos = twheel_visit_block(s, pos, &budget);
	else
		pos = twheel_visit_due(s, pos, &budget);
	if (pos == head)
		twheel_end_visit(s);
	else
		list_add_tail(&s->marker, pos);
	return budget;
}

/*
 * Lead the cursor on, to the target of the pass or until a batch is due or has
 * been looked at. Returns true when the pass is over.
 */
static bool twheel_collect(struct twheel_shard *s, u64 target)
{
	unsigned int budget = TWHEEL_BATCH;
	struct twheel_entry ev;

	if (target < s->done)
		twheel_step_back(s, target);
	else if (!s->visit && s->cursor == s->done)
		s->done = target;
	while (budget) {
		if (!s->visit) {
			if (!twheel_next_event(s, &ev) || ev.tick > s->done) {
				s->cursor = s->done;
				return true;
			}
			twheel_begin_visit(s, &ev);
			budget -= min(budget, ev.probes / TWHEEL_PROBES);
		}
		budget = twheel_visit(s, budget);
	}
	return false;
}

static void twheel_note_expiry(struct twheel_shard *s, const struct twheel_timeout *t,
			       u64 now_ns)
{
	u64 late_ns = now_ns > t->expires ? now_ns - t->expires : 0;

	trace_twheel_expire(s->wheel->name, t, now_ns);
	if (static_branch_unlikely(&twheel_count_lateness))
		s->lateness[min(fls64(late_ns), TWHEEL_LATENESS_BUCKETS - 1)]++;
}

/* Only somebody who looks makes it worth to walk the batch. */
static void twheel_note_batch(struct twheel_shard *s, u64 now_ns)
{
	struct twheel_timeout *t;

	if (trace_twheel_expire_enabled() || static_branch_unlikely(&twheel_count_lateness))
		list_for_each_entry(t, &s->due, entry)
			twheel_note_expiry(s, t, now_ns);
}

static void twheel_run_sink(struct twheel_shard *s, u64 now_ns)
{
	struct twheel *w = s->wheel;
	unsigned int nr = s->nr_due;
	LIST_HEAD(expired);

	lockdep_assert_held(&s->lock);
	twheel_note_batch(s, now_ns);
	list_splice_init(&s->due, &expired);
	s->nr_due = 0;
	s->nr -= nr;
	s->fired += nr;
	twheel_leave_places(w, nr);
	spin_unlock_irq(&s->lock);

	lock_map_acquire(&w->map);
	w->sink(w->sink_data, &expired, nr, now_ns);
	lock_map_release(&w->map);

	spin_lock_irq(&s->lock);
}

/* Count what has passed by @now_ns. Returns true if more is to come. */
static bool twheel_count_periods(struct twheel_periodic *p, u64 now_ns)
{
	u64 missed = 0;

	if (p->t.kind == TWHEEL_FIXED_RATE)
		missed = twheel_intervals(p->t.expires, now_ns, p->interval_ns);
	if (p->repeat)
		missed = min_t(u64, missed, p->repeat - 1);
	p->missed = missed;
	p->expires = p->t.expires + missed * p->interval_ns;
	if (!p->repeat)
		return true;
	p->repeat -= missed + 1;
	return p->repeat;
}

/*
 * @p is taken out for its callback. With fixed rate the next deadline is queued
 * before the callback, which can then cancel it like any other; it cannot fire
 * before the callback returns, as it stays at home while that is running.
 */
static void twheel_begin_period(struct twheel_shard *s, struct twheel_runner *r,
				struct twheel_periodic *p, u64 now_ns)
{
	if (!twheel_count_periods(p, now_ns))
		twheel_leave_places(s->wheel, 1);
	else if (p->t.kind == TWHEEL_FIXED_DELAY)
		r->again = &p->t;
	else
		twheel_queue_timeout(s, &p->t, twheel_add_ns(p->expires, p->interval_ns), 0);
}

/* The callback is over, and nobody has wished otherwise: queue it, or hand it back. */
static void twheel_end_period(struct twheel_shard *s, struct twheel_periodic *p)
{
	if (!s->stopped) {
		twheel_queue_timeout(s, &p->t, twheel_add_ns(twheel_clock_ns(s->wheel),
							     p->interval_ns), 0);
		return;
	}
	twheel_leave_places(s->wheel, 1);
	list_add_tail(&p->t.entry, &s->unprocessed);
}

static void twheel_run_callback(struct twheel_shard *s, struct twheel_runner *r,
				struct twheel_timeout *t, u64 now_ns)
{
	void (*fn)(struct twheel_timeout *t) = t->fn;
	struct twheel_timeout *again;

	lockdep_assert_held(&s->lock);
	twheel_remove(s, t);
	WRITE_ONCE(t->state, TWHEEL_IDLE);
	s->fired++;
	twheel_note_expiry(s, t, now_ns);
	r->running = t;
	s->nr_running++;
	s->plain = false;
	if (t->kind == TWHEEL_ONCE)
		twheel_leave_places(s->wheel, 1);
	else
		twheel_begin_period(s, r, container_of(t, struct twheel_periodic, t), now_ns);
	spin_unlock_irq(&s->lock);

	lock_map_acquire(&s->wheel->map);
	fn(t);
	lock_map_release(&s->wheel->map);
	cond_resched();

	spin_lock_irq(&s->lock);
	again = r->again;
	r->running = NULL;
	r->again = NULL;
	s->nr_running--;
	s->plain = twheel_is_plain(s);
	if (again)
		twheel_end_period(s, container_of(again, struct twheel_periodic, t));
	twheel_wake_waiters(s);
}

/*
 * Workers. A timeout that wants one goes from the due list to another one, from
 * which they take: it is pending until then.
 */

static void twheel_hand_over(struct twheel_shard *s, struct twheel_timeout *t)
{
	list_move_tail(&t->entry, &s->handed);
	t->level = TWHEEL_HANDED;
	s->nr_due--;
	s->nr_handed++;
}

static void twheel_start_workers(struct twheel_shard *s)
{
	unsigned int i;

	for (i = 1; i < TWHEEL_RUNNERS && i <= s->nr_handed; i++)
		queue_work(twheel_workqueue, &s->runners[i].work);
}

/*
 * The first that waits for a worker, but for one that was armed again and is due
 * while its callback is still running: whoever runs that will find it afterwards.
 */
static struct twheel_timeout *twheel_next_handed(struct twheel_shard *s)
{
	struct twheel_timeout *t;

	list_for_each_entry(t, &s->handed, entry)
		if (!twheel_runner_of(s, t))
			return t;
	return NULL;
}

static void twheel_work_fn(struct work_struct *work)
{
	struct twheel_runner *r = container_of(work, struct twheel_runner, work);
	struct twheel_shard *s = r->shard;
	struct twheel_timeout *t;

	spin_lock_irq(&s->lock);
	WRITE_ONCE(r->task, current);
	while (!s->stopped && (t = twheel_next_handed(s))) {
		r->batch++;
		twheel_run_callback(s, r, t, twheel_clock_ns(s->wheel));
		r->batch++;
		twheel_wake_waiters(s);
	}
	WRITE_ONCE(r->task, NULL);
	spin_unlock_irq(&s->lock);
}

/* The clock may have been set back since @t became due: then it goes back, too. */
static bool twheel_still_due(struct twheel_shard *s, struct twheel_timeout *t)
{
	u64 tick;

	if (s->wheel->clock != TWHEEL_REALTIME)
		return true;
	tick = twheel_clock_tick(s->wheel);
	if (t->tick <= tick)
		return true;
	twheel_step_back(s, tick);
	list_del(&t->entry);
	s->nr_due--;
	twheel_place(s, t);
	return false;
}

static void twheel_run_due(struct twheel_shard *s, struct twheel_runner *r, u64 now_ns)
{
	struct twheel_timeout *t;

	while (!s->stopped && !list_empty(&s->due)) {
		t = list_first_entry(&s->due, struct twheel_timeout, entry);
		if (!twheel_still_due(s, t))
			continue;
		if (t->worker)
			twheel_hand_over(s, t);
		else
			twheel_run_callback(s, r, t, now_ns);
	}
	twheel_start_workers(s);
}

/* Hand over what is due. The lock is dropped; timeouts may be cancelled meanwhile. */
static void twheel_deliver(struct twheel_shard *s, u64 now_ns)
{
	struct twheel_runner *r = &s->runners[0];

	lockdep_assert_held(&s->lock);
	s->largest_batch = max_t(u64, s->largest_batch, s->nr_due);
	r->batch++;
	WRITE_ONCE(r->task, current);
	if (s->wheel->sink)
		twheel_run_sink(s, now_ns);
	else
		twheel_run_due(s, r, now_ns);
	WRITE_ONCE(r->task, NULL);
	r->batch++;
	twheel_wake_waiters(s);
}

/* Nothing more to do for now: let the timer watch. */
static void twheel_sleep(struct twheel_shard *s, u64 wake)
{
	s->wake = TWHEEL_NEVER;
	if (s->stopped)
		twheel_wake_waiters(s);
	else if (wake != TWHEEL_NEVER)
		twheel_set_timer(s, wake);
}

/* One turn. Returns true if there is more to do now. */
static bool twheel_turn(struct twheel_shard *s)
{
	u64 now_ns = twheel_clock_ns(s->wheel);
	u64 target = twheel_tick_floor(now_ns, s->geometry.tick_ns);
	struct twheel_entry ev = { .wake = TWHEEL_NEVER };
	bool over = true;

	lockdep_assert_held(&s->lock);
	if (!s->stopped) {
		over = twheel_collect(s, target);
		if (!list_empty(&s->due))
			twheel_deliver(s, now_ns);
	}
	if (!s->stopped) {
		if (!over)
			return true;
		twheel_next_event(s, &ev);
		if (ev.wake <= target)
			return true;
	}
	twheel_sleep(s, ev.wake);
	return false;
}

/* The threads */

static int twheel_should_run(unsigned int cpu)
{
	return !list_empty(&per_cpu(twheel_servers, cpu).queue);
}

/* After the unlock the shard may be gone, if it has not been queued again. */
static void twheel_serve_shard(struct twheel_shard *s)
{
	spin_lock_irq(&s->lock);
	if (twheel_turn(s))
		twheel_queue(s);
	spin_unlock_irq(&s->lock);
}

static void twheel_serve(unsigned int cpu)
{
	struct twheel_server *server = &per_cpu(twheel_servers, cpu);
	struct twheel_shard *s;

	mutex_lock(&server->turn);
	scoped_guard(spinlock_irq, &server->lock) {
		s = list_first_entry_or_null(&server->queue, struct twheel_shard, work);
		if (s)
			list_del_init(&s->work);
	}
	if (s)
		twheel_serve_shard(s);
	mutex_unlock(&server->turn);
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
 * Who serves the shard of @cpu: the thread of that CPU if it is serving, or one
 * that timers may disturb, or, with none left of those, any.
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

/* Hand the shard to another server, with the work that waits for it. */
static void twheel_move_shard(struct twheel_shard *s, struct twheel_server *to)
{
	bool queued;

	guard(spinlock_irq)(&s->lock);
	if (s->server == to)
		return;
	scoped_guard(spinlock, &s->server->lock) {
		queued = !list_empty(&s->work);
		list_del_init(&s->work);
	}
	s->server = to;
	if (queued)
		twheel_queue(s);
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

/* When the turn is over the thread has nothing to do any more. */
static void twheel_end_turn(struct twheel_server *server)
{
	mutex_lock(&server->turn);
	mutex_unlock(&server->turn);
}

static int twheel_cpu_offline(unsigned int cpu)
{
	scoped_guard(mutex, &twheel_mutex) {
		cpumask_clear_cpu(cpu, &twheel_serving);
		twheel_assign_servers();
	}
	twheel_end_turn(&per_cpu(twheel_servers, cpu));
	return 0;
}

/* Time and questions */

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
		spin_unlock_irq(&s->lock);
		cond_resched();
	}
}

/**
 * twheel_advance() - set the time of a MANUAL wheel
 * @w: the wheel
 * @now_ns: its time from now on, at most S64_MAX
 *
 * All that is due at @now_ns has fired on return; callbacks and the sink run in
 * the caller's context. Moving the time backwards fires nothing; deadlines stay
 * as they are.
 *
 * Context: may sleep.
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
 * @pos: filled if it is pending and not yet due
 *
 * For tests and statistics.
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
	ret = twheel_state(t) == TWHEEL_PENDING && t->level < TWHEEL_HANDED;
	if (ret) {
		pos->tick = t->tick;
		pos->rounds = twheel_rounds_left(g, t->tick, s->cursor);
		pos->level = t->level;
		pos->slot = twheel_slot(g, t->tick, t->level);
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(twheel_position);

/**
 * twheel_rounds() - rounds that a timeout has to sit out
 * @t: an initialised timeout
 *
 * Return: how often the cursor will pass its slot of the top level and leave it
 * there; 0 if it is not pending.
 */
u64 twheel_rounds(struct twheel_timeout *t)
{
	struct twheel_position pos;

	return twheel_position(t, &pos) ? pos.rounds : 0;
}
EXPORT_SYMBOL_GPL(twheel_rounds);

static u64 twheel_next_tick(struct twheel_shard *s)
{
	struct twheel_entry ev;

	guard(spinlock_irqsave)(&s->lock);
	if (s->nr_handed)
		return list_first_entry(&s->handed, struct twheel_timeout, entry)->tick;
	if (s->nr_due)
		return list_first_entry(&s->due, struct twheel_timeout, entry)->tick;
	if (s->visit)
		return s->cursor;
	twheel_next_event(s, &ev);
	return ev.first;
}

/**
 * twheel_next_expiry() - when a wheel has to do something next
 * @w: the wheel
 *
 * Return: the time, absolute ns, before which nothing fires: that of the earliest
 * timeout, or an earlier one if the earliest of its slot has been cancelled.
 * S64_MAX if nothing is pending.
 */
u64 twheel_next_expiry(struct twheel *w)
{
	u64 tick = TWHEEL_NEVER;
	struct twheel_shard *s;

	list_for_each_entry(s, &w->all, entry)
		tick = min(tick, twheel_next_tick(s));
	return twheel_tick_to_ns(tick, w->geometry.tick_ns);
}
EXPORT_SYMBOL_GPL(twheel_next_expiry);

static_assert(sizeof_field(struct twheel_counters, occupied) / sizeof(u32) == TWHEEL_MAX_LEVELS);

static void twheel_add_stats(struct twheel_shard *s, struct twheel_counters *stats)
{
	const struct twheel_geometry *g = &s->geometry;
	unsigned int i;

	guard(spinlock_irqsave)(&s->lock);
	stats->armed += s->armed;
	stats->rearmed += s->rearmed;
	stats->cancelled += s->cancelled;
	stats->fired += s->fired;
	stats->stopped += s->stopped_nr;
	stats->pending += s->nr;
	stats->extended += s->extended;
	stats->cascaded += s->cascaded;
	stats->wakeups += s->wakeups;
	stats->largest_batch = max(stats->largest_batch, s->largest_batch);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		stats->lateness[i] += s->lateness[i];
	for (i = 0; i < g->levels; i++)
		stats->occupied[i] += bitmap_weight(twheel_map(s, i), g->slots);
	stats->shards++;
}

/**
 * twheel_stats() - what a wheel has done so far
 * @w: the wheel
 * @stats: filled, all shards added up
 */
void twheel_stats(struct twheel *w, struct twheel_counters *stats)
{
	struct twheel_shard *s;

	memset(stats, 0, sizeof(*stats));
	list_for_each_entry(s, &w->all, entry)
		twheel_add_stats(s, stats);
}
EXPORT_SYMBOL_GPL(twheel_stats);

/* Does a slot hold what it should? Adds the length of its list to @nr. */
static const char *twheel_audit_slot(struct twheel_shard *s, u32 level, u32 i, u64 *nr)
{
	const struct twheel_geometry *g = &s->geometry;
	struct twheel_slot *slot = &s->slots[(level << g->bits) + i];
	struct twheel_timeout *t;

	if (slot == s->visit)
		return "visited";
	if (test_bit(i, twheel_map(s, level)) == list_empty(&slot->list))
		return "occupancy";
	list_for_each_entry(t, &slot->list, entry) {
		if (t->shard != s || twheel_state(t) != TWHEEL_PENDING || t->level != level)
			return "stranger";
		if (twheel_slot(g, t->tick, level) != i || t->tick < slot->first)
			return "wrong slot";
		if (twheel_block(g, t->tick, level) <= twheel_block(g, s->cursor, level))
			return "overdue";
		if (t->tick < twheel_tick_ceil(t->expires, g->tick_ns))
			return "early";
		(*nr)++;
	}
	return NULL;
}

static const char *twheel_audit_shard(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;
	const char *fault;
	u64 nr = 0;
	u32 i;

	lockdep_assert_held(&s->lock);
	for (i = 0; i < g->levels << g->bits; i++) {
		fault = twheel_audit_slot(s, i >> g->bits, i & g->mask, &nr);
		if (fault)
			return fault;
	}
	if (nr + s->nr_due + s->nr_handed != s->nr)
		return "pending";
	if (s->armed != s->cancelled + s->fired + s->stopped_nr + s->nr)
		return "account";
	return NULL;
}

/**
 * twheel_audit() - check the books of a wheel that is at rest
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
EXPORT_SYMBOL_GPL(twheel_audit);

/* debugfs: a file per wheel */

static void twheel_show_levels(struct seq_file *m, const struct twheel_geometry *g,
			       const struct twheel_counters *stats)
{
	u32 level;

	seq_puts(m, "\nlevel  occupied slots  of\n");
	for (level = 0; level < g->levels; level++)
		seq_printf(m, "%5u  %14u  %u\n", level, stats->occupied[level],
			   stats->shards * g->slots);
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
	seq_printf(m, "wakeups        %llu\n", stats.wakeups);
	seq_printf(m, "largest_batch  %llu\n", stats.largest_batch);
	twheel_show_levels(m, &w->geometry, &stats);
	twheel_show_lateness(m, &stats);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(twheel_wheel);

/* Names need not be unique, files must be: they are numbered. */
static void twheel_show(struct twheel *w)
{
	static atomic_t number;
	char file[TWHEEL_NAME_LEN + 12];

	snprintf(file, sizeof(file), "%s.%u", w->name, atomic_fetch_inc(&number));
	strreplace(file, '/', '!');
	w->dentry = debugfs_create_file(file, 0400, twheel_debugfs, w, &twheel_wheel_fops);
}

/* Life and death */

static void twheel_init_shard(struct twheel_shard *s, struct twheel *w, unsigned int cpu)
{
	static const clockid_t clock[] = {
		[TWHEEL_MONOTONIC]	= CLOCK_MONOTONIC,
		[TWHEEL_BOOTTIME]	= CLOCK_BOOTTIME,
		[TWHEEL_REALTIME]	= CLOCK_REALTIME,
		[TWHEEL_MANUAL]		= CLOCK_MONOTONIC,
	};
	u32 nr = w->geometry.levels << w->geometry.bits;
	u32 i;

	spin_lock_init(&s->lock);
	s->wheel = w;
	s->geometry = w->geometry;
	s->plain = twheel_is_plain(s);
	s->cpu = cpu;
	s->map_words = BITS_TO_LONGS(w->geometry.slots);
	s->word_first = (u64 *)&s->slots[nr];
	s->map = (unsigned long *)(s->word_first + s->map_words);
	for (i = 0; i < nr; i++)
		INIT_LIST_HEAD(&s->slots[i].list);
	INIT_LIST_HEAD(&s->marker);
	INIT_LIST_HEAD(&s->due);
	INIT_LIST_HEAD(&s->handed);
	INIT_LIST_HEAD(&s->unprocessed);
	for (i = 0; i < TWHEEL_RUNNERS; i++) {
		s->runners[i].shard = s;
		INIT_WORK(&s->runners[i].work, twheel_work_fn);
	}
	INIT_LIST_HEAD(&s->work);
	s->cursor = twheel_clock_tick(w);
	s->done = s->cursor;
	s->wake = TWHEEL_NEVER;
	hrtimer_setup(&s->timer, twheel_timer_fn, clock[w->clock], HRTIMER_MODE_ABS);
}

static struct twheel_shard *twheel_alloc_shard(struct twheel *w, unsigned int cpu, gfp_t gfp)
{
	const struct twheel_geometry *g = &w->geometry;
	size_t words = BITS_TO_LONGS(g->slots);
	struct twheel_shard *s;
	size_t size;

	size = struct_size(s, slots, g->levels << g->bits) +
	       g->levels * words * sizeof(long) + words * sizeof(u64);
	s = kvzalloc_node(size, gfp, cpu_to_node(cpu));
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
	lockdep_unregister_key(&w->key);
	lockdep_unregister_key(&w->advance_key);
	kfree(w);
}

/* CPUs that timers shall not disturb arm into the shard of one that they may. */
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
	mutex_init(&w->ending);
	INIT_LIST_HEAD(&w->all);
	init_waitqueue_head(&w->waiters);
	lockdep_register_key(&w->advance_key);
	__mutex_init(&w->advance, "twheel.advance", &w->advance_key);
	lockdep_register_key(&w->key);
	lockdep_init_map(&w->map, w->name, &w->key, 0);
	return w;
}

/**
 * twheel_create() - make a wheel
 * @params: how it is to be; 0 in a field means the default
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
	/* Not under the mutex: it allocates, and CPUs that come and go need that. */
	twheel_show(w);
	return w;
}
EXPORT_SYMBOL_GPL(twheel_create);

/* Take up to @budget timeouts out of @list. Returns how many it had. */
static unsigned int twheel_drain_list(struct twheel_shard *s, struct list_head *list,
				      unsigned int budget)
{
	struct twheel_timeout *t, *next;
	unsigned int nr = 0;

	list_for_each_entry_safe(t, next, list, entry) {
		if (nr++ == budget)
			break;
		twheel_remove(s, t);
		WRITE_ONCE(t->state, TWHEEL_IDLE);
		list_add_tail(&t->entry, &s->unprocessed);
		s->stopped_nr++;
		twheel_leave_places(s->wheel, 1);
	}
	return nr;
}

/* Any slot that has something in it, in no order. */
static struct twheel_slot *twheel_any_slot(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 level, i;

	for (level = 0; level < g->levels; level++) {
		i = find_first_bit(twheel_map(s, level), g->slots);
		if (i < g->slots)
			return &s->slots[(level << g->bits) + i];
	}
	return NULL;
}

/* Take a batch out of a stopped shard. Returns false when there was nothing. */
static bool twheel_drain(struct twheel_shard *s)
{
	struct twheel_slot *slot;

	guard(spinlock_irq)(&s->lock);
	if (s->visit) {
		list_del_init(&s->marker);
		twheel_end_visit(s);
	}
	if (twheel_drain_list(s, &s->handed, TWHEEL_BATCH) ||
	    twheel_drain_list(s, &s->due, TWHEEL_BATCH))
		return true;
	slot = twheel_any_slot(s);
	return slot && twheel_drain_list(s, &slot->list, TWHEEL_BATCH);
}

/*
 * No further turn begins. One that waits for the server is called off: the server
 * may be waiting for us, in a callback of another wheel.
 */
static void twheel_call_off(struct twheel_shard *s)
{
	guard(spinlock_irq)(&s->lock);
	s->stopped = true;
	s->plain = twheel_is_plain(s);
	guard(spinlock)(&s->server->lock);
	if (list_empty(&s->work))
		return;
	list_del_init(&s->work);
	s->wake = TWHEEL_NEVER;
}

static void twheel_stop_shard(struct twheel_shard *s, struct list_head *unprocessed)
{
	unsigned int i;

	hrtimer_cancel(&s->timer);
	wait_event(s->wheel->waiters, twheel_turns_over(s));
	for (i = 1; i < TWHEEL_RUNNERS; i++)
		cancel_work_sync(&s->runners[i].work);
	while (twheel_drain(s))
		cond_resched();
	scoped_guard(spinlock_irq, &s->lock)
		list_splice_tail_init(&s->unprocessed, unprocessed);
}

/**
 * twheel_stop() - stop a wheel and take back what has not fired
 * @w: the wheel
 * @unprocessed: a list to which the timeouts are added that were pending, linked by
 *	entry and idle, in no order; a periodic one that is running comes after its
 *	run
 *
 * No arm succeeds from now on: -ESHUTDOWN. On return no callback and no sink is
 * running, and none will. A second caller waits for the first, and gets nothing.
 * Others may go on to call anything but twheel_destroy().
 *
 * Context: may sleep. Not from a callback or the sink of @w: that is warned of, and
 * the wheel is not stopped.
 */
void twheel_stop(struct twheel *w, struct list_head *unprocessed)
{
	struct twheel_shard *s;

	twheel_might_wait(w);
	if (WARN_ON_ONCE(twheel_in_callback(w)))
		return;
	guard(mutex)(&w->ending);
	/* All before any hands back: what it did could be armed in another. */
	list_for_each_entry(s, &w->all, entry)
		twheel_call_off(s);
	list_for_each_entry(s, &w->all, entry)
		twheel_stop_shard(s, unprocessed);
}
EXPORT_SYMBOL_GPL(twheel_stop);

/**
 * twheel_destroy() - end a wheel
 * @w: the wheel, an error pointer, or NULL
 *
 * Pending timeouts are taken out, they do not fire. No callback and no sink runs
 * any more on return. No other call for @w or a timeout of it may overlap with this
 * one or come after it; the timeouts can be initialised again for another wheel.
 *
 * Context: may sleep. Not from a callback or the sink of @w: that is warned of,
 * and the wheel stays as it is.
 */
void twheel_destroy(struct twheel *w)
{
	LIST_HEAD(unprocessed);

	if (IS_ERR_OR_NULL(w))
		return;
	twheel_stop(w, &unprocessed);
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
 * twheel_get_params() - how a wheel is
 * @w: the wheel
 * @params: filled with what is in effect
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

	if (!twheel_geometry_valid(default_tick_ns, default_slots, default_levels)) {
		pr_err("tick_ns=%llu (1 to %llu) slots=%u (%u to %u) levels=%u (1 to %u): out of range\n",
		       default_tick_ns, TWHEEL_MAX_TICK_NS,
		       default_slots, TWHEEL_MIN_SLOTS, TWHEEL_MAX_SLOTS,
		       default_levels, TWHEEL_MAX_LEVELS);
		return -EINVAL;
	}
	for_each_possible_cpu(cpu) {
		mutex_init(&per_cpu(twheel_servers, cpu).turn);
		spin_lock_init(&per_cpu(twheel_servers, cpu).lock);
		INIT_LIST_HEAD(&per_cpu(twheel_servers, cpu).queue);
	}

	twheel_workqueue = alloc_workqueue("twheel", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
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
