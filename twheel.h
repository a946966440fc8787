/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hashed and hierarchical timing wheels for kernel code.
 *
 * A wheel holds any number of timeouts. Arming, moving and cancelling a timeout are
 * O(1). Embed a struct twheel_timeout in your object, initialise it once for a
 * wheel, then arm it:
 *
 *	static void conn_idle(struct twheel_timeout *t)
 *	{
 *		struct conn *c = container_of(t, struct conn, idle);
 *		...
 *	}
 *
 *	w = twheel_create(&(struct twheel_params){ .name = "conn" });
 *	twheel_timeout_init(w, &c->idle, conn_idle);
 *	twheel_arm_after(&c->idle, 30 * NSEC_PER_SEC);
 *
 * All times are nanoseconds in a u64, at most S64_MAX. A larger value is -EINVAL.
 * Deadlines are rounded up to a tick of the wheel, so no timeout fires early.
 *
 * Unless documented otherwise, functions may be called from any context but NMI:
 * from a callback, with interrupts on or off, with a scheduler lock held. On
 * PREEMPT_RT, spinlocks sleep: call them only where spin_lock() is allowed.
 *
 * Callbacks and sinks run in process context, in a thread that serves all wheels of
 * a CPU. They must not block. A callback that sleeps needs a worker, see
 * twheel_use_workqueue(); it must not take cpus_read_lock(). A worker's callback
 * may call the functions that wait. Waiting for its own end is refused with a
 * warning.
 *
 * Do not free a timeout that is pending or whose callback may still use it: call
 * twheel_shutdown() first. A callback may free its own timeout. Memory may be
 * reused: twheel_timeout_init() makes a new timeout there, even while the callback
 * of the old one still runs.
 */
#ifndef _TWHEEL_H
#define _TWHEEL_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/types.h>

/* The MODULE_VERSION() of twheel.ko and twheel_dev.ko */
#define TWHEEL_MODULE_VERSION	"0.1.0"

struct twheel;
struct twheel_shard;
struct twheel_timeout;

/**
 * enum twheel_clock - the clock that a wheel follows
 * @TWHEEL_MONOTONIC: CLOCK_MONOTONIC, stands still in suspend
 * @TWHEEL_BOOTTIME: CLOCK_BOOTTIME, goes on in suspend
 * @TWHEEL_REALTIME: CLOCK_REALTIME, may be stepped both ways; absolute times only
 * @TWHEEL_MANUAL: moved by twheel_advance() alone, starts at 0
 */
enum twheel_clock {
	TWHEEL_MONOTONIC,
	TWHEEL_BOOTTIME,
	TWHEEL_REALTIME,
	TWHEEL_MANUAL,
};

/**
 * enum twheel_state - state of a timeout
 * @TWHEEL_INACTIVE: not in the wheel; its callback may be running
 * @TWHEEL_PENDING: in the wheel, can be cancelled
 * @TWHEEL_EXPIRING: in a batch for the sink, which has not accepted it yet
 */
enum twheel_state {
	TWHEEL_INACTIVE,
	TWHEEL_PENDING,
	TWHEEL_EXPIRING,
};

/**
 * enum twheel_kind - how the next deadline is computed
 * @TWHEEL_ONCE: there is no next deadline
 * @TWHEEL_FIXED_RATE: the deadline advances by whole intervals until it is past now
 * @TWHEEL_FIXED_DELAY: the next deadline is one interval after the callback's end
 */
enum twheel_kind {
	TWHEEL_ONCE,
	TWHEEL_FIXED_RATE,
	TWHEEL_FIXED_DELAY,
};

/* Flags of a timeout, private to the engine. */
#define TWHEEL_T_RATE		BIT(0)	/* periodic, fixed rate */
#define TWHEEL_T_DELAY		BIT(1)	/* periodic, fixed delay */
#define TWHEEL_T_ENDED		BIT(2)	/* periodic, and its last period is over */
#define TWHEEL_T_SHUTDOWN	BIT(3)	/* refuses to be armed */
#define TWHEEL_T_LIMITED	BIT(4)	/* its wheel has max_pending */
#define TWHEEL_T_WORKER		BIT(5)	/* its callback runs on a workqueue */
#define TWHEEL_T_TRACKED	BIT(6)	/* known to debugobjects while pending */
#define TWHEEL_T_CANCELLING	BIT(7)	/* a canceller waits: no call before it wakes */

/**
 * struct twheel_timeout - one timeout, embedded in the object of its owner
 * @entry: link in a list of the shard while pending, or in the batch of a sink.
 *	Otherwise the owner may use it
 * @tick: tick at which it fires, valid while pending
 * @expires: deadline, ns on the wheel's clock. Each arm sets it; it is valid until
 *	the next arm. The owner sets it before twheel_arm_list()
 * @fn: callback (wheel without a sink)
 * @data: for the owner (wheel with a sink)
 * @shard: shard whose lock protects the timeout
 * @state: enum twheel_state
 * @level: level of its slot, or the list that it is in; valid while pending
 * @flags: TWHEEL_T_*
 * @runner: index, plus 1, of the last runner of @shard that took it; 0: none
 * @tag: for the owner; fills padding
 *
 * The owner may write @data and @tag, and @expires before twheel_arm_list(). All other
 * members are private to the engine.
 */
struct twheel_timeout {
	struct list_head	entry;
	u64			tick;
	u64			expires;
	union {
		void		(*fn)(struct twheel_timeout *t);
		u64		data;
	};
	struct twheel_shard	*shard;
	u8			state;
	u8			level;
	u8			flags;
	u8			runner;
	u32			tag;
};

/**
 * struct twheel_periodic - a timeout that expires repeatedly
 * @t: the timeout; twheel_cancel(), twheel_mod() and the queries take it
 * @fn: callback
 * @interval_ns: from one deadline to the next
 * @expires: set for @fn: the deadline of this call. If several deadlines have passed,
 *	this is the last of them
 * @missed: set for @fn: deadlines before @expires that have passed since the previous
 *	call; 0 with fixed delay
 * @repeat: deadlines left after @expires. 0: no limit, or none is left;
 *	twheel_periodic_ended() tells the two apart
 *
 * It stays cancelled if its own callback cancels it. Unless it has ended, cancel it
 * before it is freed, even if its own callback frees it.
 */
struct twheel_periodic {
	struct twheel_timeout	t;
	void			(*fn)(struct twheel_periodic *p);
	u64			interval_ns;
	u64			expires;
	u64			missed;
	u32			repeat;
};

/**
 * struct twheel_params - parameters of a wheel
 * @name: for messages and statistics; copied
 * @clock: clock that deadlines refer to
 * @tick_ns: length of a tick, 1 ns to 1 day; 0: module parameter tick_ns
 * @slots: slots per level, 2 to 65536, rounded up to a power of two; 0: module
 *	parameter slots
 * @levels: 1 (a hashed wheel with rounds) to 8, reduced if the levels would reach past
 *	2^63 ticks; 0: module parameter levels
 * @sink: called with a batch of expired timeouts, in order, instead of their
 *	callbacks. @expired holds @nr timeouts linked by entry. The sink calls
 *	twheel_accept() or twheel_extend() for each of them before it returns.
 *	@now_ns is the wheel's time when the batch was dequeued. The sink must not
 *	block. It may be called on several CPUs at the same time
 * @sink_data: first argument of @sink
 * @max_pending: maximum number of pending timeouts; 0: no limit. A timeout counts
 *	until it is cancelled, its last callback begins, or the sink accepts it
 * @account: charge the wheel's memory to the memory cgroup of the caller. Such wheels
 *	do not count for warn_wheels
 */
struct twheel_params {
	const char		*name;
	enum twheel_clock	clock;
	u64			tick_ns;
	unsigned int		slots;
	unsigned int		levels;
	void			(*sink)(void *sink_data, struct list_head *expired,
					unsigned int nr, u64 now_ns);
	void			*sink_data;
	unsigned int		max_pending;
	bool			account;
};

/* Powers of two; the last bucket begins at 2^38 ns, 4.6 minutes. */
#define TWHEEL_LATENESS_BUCKETS	40

/**
 * struct twheel_counters - statistics of a wheel
 * @armed: timeouts enqueued by an arm, by a mod, or for the next period
 * @rearmed: the part of @armed that a mod moved while pending
 * @cancelled: timeouts dequeued by a cancel, or by a mod of a pending timeout
 * @fired: timeouts passed to their callback or to the sink
 * @stopped: pending timeouts dequeued by twheel_stop() or twheel_destroy()
 * @pending: timeouts pending now
 * @extended: timeouts enqueued again by twheel_extend()
 * @cascaded: moves of a timeout down one level
 * @rebased: timeouts placed again after the clock was stepped backward
 * @wakeups: wakeups of a thread for the wheel
 * @largest_batch: most timeouts in one batch
 * @lateness: histogram: element n counts the timeouts that fired 2^(n - 1) to 2^n - 1 ns
 *	late. The last element has no upper bound. Counted only while module
 *	parameter lateness is on
 * @occupied: number of occupied slots by level, summed over all shards
 * @shards: number of shards; each has its own slots
 *
 * While the wheel is idle, armed == cancelled + fired + stopped + pending.
 */
struct twheel_counters {
	u64	armed;
	u64	rearmed;
	u64	cancelled;
	u64	fired;
	u64	stopped;
	u64	pending;
	u64	extended;
	u64	cascaded;
	u64	rebased;
	u64	wakeups;
	u64	largest_batch;
	u64	lateness[TWHEEL_LATENESS_BUCKETS];
	u32	occupied[8];
	u32	shards;
};

/**
 * struct twheel_position - position of a pending timeout
 * @tick: tick at which it fires
 * @rounds: full rounds of the top level before its own round
 * @level: level of its slot
 * @slot: index of its slot on that level
 * @cpu: CPU of its shard
 */
struct twheel_position {
	u64	tick;
	u64	rounds;
	u32	level;
	u32	slot;
	u32	cpu;
};

struct twheel *twheel_create(const struct twheel_params *params);
void twheel_stop(struct twheel *w,
		 void (*unprocessed)(void *data, struct twheel_timeout *t), void *data);
void twheel_destroy(struct twheel *w);
void twheel_flush(struct twheel *w);
size_t twheel_memory(const struct twheel_params *params);
void twheel_get_params(const struct twheel *w, struct twheel_params *params);

void twheel_timeout_init(struct twheel *w, struct twheel_timeout *t,
			 void (*fn)(struct twheel_timeout *t));
int twheel_arm(struct twheel_timeout *t, u64 expires_ns);
int twheel_arm_after(struct twheel_timeout *t, u64 delay_ns);
int twheel_arm_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns);
unsigned int twheel_arm_list(struct twheel *w, struct twheel_timeout **timeouts,
			     unsigned int nr);
int twheel_mod(struct twheel_timeout *t, u64 expires_ns);
int twheel_mod_slack(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns);
bool twheel_cancel(struct twheel_timeout *t);
unsigned int twheel_mod_list(struct twheel_timeout **timeouts, const u64 *expires_ns,
			     unsigned int nr);
unsigned int twheel_cancel_list(struct twheel_timeout **timeouts, unsigned int nr);
int twheel_try_cancel(struct twheel_timeout *t);
bool twheel_cancel_sync(struct twheel_timeout *t);
bool twheel_shutdown(struct twheel_timeout *t);

void twheel_periodic_init(struct twheel *w, struct twheel_periodic *p,
			  void (*fn)(struct twheel_periodic *p), enum twheel_kind kind);
int twheel_arm_periodic(struct twheel_periodic *p, u64 expires_ns, u64 interval_ns,
			u32 repeat);

int twheel_extend(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns);
void twheel_leave_place(struct twheel_timeout *t);

u64 twheel_remaining_ns(struct twheel_timeout *t);
u64 twheel_next_expiry(struct twheel *w);
u64 twheel_now(struct twheel *w);
int twheel_advance(struct twheel *w, u64 now_ns);
void twheel_stats(struct twheel *w, struct twheel_counters *stats);

/* For tests, in the namespace TWHEEL_TEST. */
u64 twheel_rounds(struct twheel_timeout *t);
bool twheel_position(struct twheel_timeout *t, struct twheel_position *pos);
int twheel_set_clock(struct twheel *w, u64 now_ns);
int twheel_audit(struct twheel *w);

/**
 * twheel_pending() - is the timeout in the wheel?
 * @t: an initialised timeout
 *
 * Takes no lock. The result may be stale, unless the deadline is far away and the
 * caller prevents concurrent arms and cancels.
 *
 * Return: true while a cancel would succeed.
 */
static inline bool twheel_pending(const struct twheel_timeout *t)
{
	return READ_ONCE(t->state) == TWHEEL_PENDING;
}

/**
 * twheel_periodic_ended() - is the last period of a periodic timeout over?
 * @p: an initialised periodic timeout
 *
 * Context: any; exact in the callback of @p.
 *
 * Return: true before the first arm, and as soon as the last callback begins. Then only
 * twheel_arm_periodic() can arm it.
 */
static inline bool twheel_periodic_ended(const struct twheel_periodic *p)
{
	return READ_ONCE(p->t.flags) & TWHEEL_T_ENDED;
}

/**
 * twheel_timeout_copy() - initialise a timeout from a template
 * @t: the timeout, in zeroed memory
 * @from: a timeout that is unchanged since twheel_timeout_init()
 *
 * Cheaper than twheel_timeout_init() when there are many timeouts.
 */
static inline void twheel_timeout_copy(struct twheel_timeout *t,
				       const struct twheel_timeout *from)
{
	t->fn = from->fn;
	t->shard = from->shard;
	t->flags = from->flags;
}

/**
 * twheel_use_workqueue() - have a worker run the callback, not the thread
 * @t: an initialised timeout that has never been armed
 *
 * Use it for callbacks that sleep or take long. They do not delay other timeouts, and a few
 * of them run concurrently. The callback of one timeout never runs concurrently with
 * itself. Different timeouts have no order. A timeout stays pending until a worker
 * calls its callback: it can be cancelled, and twheel_stop() hands it back.
 *
 * A new worker may need memory, and so may the callback. So memory reclaim, and a work of a
 * workqueue with WQ_MEM_RECLAIM, must not wait for such a callback. All wheels share a
 * limited number of workers: a callback must not wait for another callback to begin.
 */
static inline void twheel_use_workqueue(struct twheel_timeout *t)
{
	t->flags |= TWHEEL_T_WORKER;
}

/**
 * twheel_accept() - take over one timeout of a sink's batch
 * @t: a timeout in the list that the sink was called with
 *
 * Makes @t idle and gives back its place under max_pending. Any task may then arm @t
 * or free it, so the sink must not touch @t after this call. To keep @t, remove it
 * from the list first.
 *
 * Context: in the sink.
 */
static inline void twheel_accept(struct twheel_timeout *t)
{
	if (READ_ONCE(t->flags) & TWHEEL_T_LIMITED)
		twheel_leave_place(t);
	/* Pairs with the acquire in twheel_state(): the next arm sees the sink's writes. */
	smp_store_release(&t->state, TWHEEL_INACTIVE);
}

#endif /* _TWHEEL_H */
