/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hashed and hierarchical timing wheels for kernel code.
 *
 * A wheel holds any number of timeouts. Arming, moving and cancelling a timeout are O(1), on
 * CLOCK_REALTIME O(log n). Embed a struct twheel_timeout in your object, initialise it once for
 * a wheel, then arm it:
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
 * All times are nanoseconds in a u64, at most S64_MAX. A larger value is -EINVAL, but lists do
 * not check it. Deadlines are rounded up to a tick of the wheel, so no timeout fires early.
 *
 * Unless documented otherwise, functions may be called from any context but NMI, on
 * PREEMPT_RT too: from a callback, with interrupts on or off, with a scheduler lock held.
 *
 * Callbacks run in process context, in a thread that serves all wheels of a CPU. Sinks run
 * in soft interrupts, or in such a thread with soft interrupts disabled. They must not block:
 * use struct twheel_work for a function that sleeps. A callback or sink that waits for its
 * own end is refused with a warning.
 *
 * Do not free a timeout that is pending or whose callback may still use it: call
 * twheel_shutdown() first. A callback may free its own timeout.
 */
#ifndef _TWHEEL_H
#define _TWHEEL_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/timerqueue.h>
#include <linux/types.h>
#include <linux/workqueue.h>

/* The MODULE_VERSION() of twheel.ko and twheel_dev.ko */
#define TWHEEL_MODULE_VERSION	"0.1.0"

struct twheel;
struct twheel_shard;

/**
 * enum twheel_clock - the clock that a wheel follows
 * @TWHEEL_MONOTONIC: CLOCK_MONOTONIC, stands still in suspend
 * @TWHEEL_BOOTTIME: CLOCK_BOOTTIME, goes on in suspend
 * @TWHEEL_REALTIME: CLOCK_REALTIME, may be stepped both ways; absolute times only. Timeouts are in
 *	a tree, by deadline: an arm is O(log n), and slack has no effect. Nothing fires before
 *	an hrtimer has reached its deadline, or the clock is a second past it; the kernel
 *	corrects hrtimers for leap seconds. Each timeout is compared with the clock once more
 *	before it is called. There is no notification of a clock step
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

/* Flags of a timeout, private to the engine. */
#define TWHEEL_T_SHUTDOWN	BIT(0)	/* refuses to be armed */
#define TWHEEL_T_TAKEN		BIT(1)	/* taken by its home since it was initialised */
#define TWHEEL_T_TRACKED	BIT(2)	/* known to debugobjects while pending */
#define TWHEEL_T_ENDING		BIT(3)	/* refuses to be armed during twheel_cancel_work_sync() */
#define TWHEEL_T_REFUSES	(TWHEEL_T_SHUTDOWN | TWHEEL_T_ENDING)

/**
 * struct twheel_timeout - one timeout, embedded in the object of its owner
 * @entry: link in a slot or in the list of due timeouts while pending, or in the batch of a
 *	sink. Otherwise the owner may use it
 * @tick: tick at which it fires, valid while pending
 * @node: has @expires, and replaces @entry and @tick while pending on CLOCK_REALTIME and not due
 * @pad: none, except where a u64 is aligned to 4 bytes
 * @expires: deadline, ns on the wheel's clock. Each arm sets it; it is valid until
 *	the next arm. The owner sets it before twheel_arm_list()
 * @fn: callback (wheel without a sink)
 * @data: for the owner (wheel with a sink)
 * @shard: shard whose lock protects the timeout
 * @state: enum twheel_state
 * @level: level of its slot, TWHEEL_DUE or TWHEEL_TREE; valid while pending
 * @flags: TWHEEL_T_*
 * @tag: for the owner; fills padding
 *
 * The owner may write @data and @tag, and @expires before twheel_arm_list(). All other
 * members are private to the engine.
 */
struct twheel_timeout {
	union {
		struct {
			struct list_head	entry;
			u64			tick;
			u64			expires;
		};
		struct {
			u8			pad[sizeof(struct list_head) + sizeof(u64) -
						    offsetof(struct timerqueue_node, expires)];
			struct timerqueue_node	node;
		};
	};
	union {
		void		(*fn)(struct twheel_timeout *t);
		u64		data;
	};
	struct twheel_shard	*shard;
	u8			state;
	u8			level;
	u8			flags;
	u32			tag;
};

/**
 * struct twheel_work - a timeout whose function may sleep: it runs on a workqueue
 * @t: the timeout; all functions on timeouts take it
 * @work: queued when it expires
 *
 * As struct delayed_work is to a timer. Before it is freed, call twheel_shutdown(), then
 * twheel_cancel_work_sync(). The second is enough if only its function arms it. The function
 * may free it if nothing else uses it and it has not armed it again.
 */
struct twheel_work {
	struct twheel_timeout	t;
	struct work_struct	work;
};

/**
 * struct twheel_params - parameters of a wheel
 * @name: for messages and statistics; copied
 * @clock: clock that deadlines refer to
 * @tick_ns: length of a tick, 1 ns to 1 day; 0: module parameter tick_ns
 * @slots: slots of the first level, 2 to 65536, rounded up to a power of two; 0: module
 *	parameter slots. Timeouts in the current block of so many ticks never cascade
 * @levels: 1 for a hashed wheel, whose slots hold the timeouts of all rounds. A round,
 *	@slots * @tick_ns, must be longer than it takes to visit its slots. Any other value
 *	means a hierarchy that reaches every deadline. twheel_get_params() has their number
 * @sink: called with a batch of expired timeouts, in order, instead of their
 *	callbacks. @expired holds @nr timeouts linked by entry. For each of them the sink
 *	first takes it off the list, and then calls twheel_accept() or twheel_extend().
 *	After either call it might be freed, and it must not be on the list then. Instead, a
 *	sink may move the whole list, and use it under a lock without which no timeout is freed.
 *	@now_ns is the wheel's time when the batch was dequeued. The sink runs in a soft
 *	interrupt or with soft interrupts disabled, and must not block. It may be called on
 *	several CPUs at the same time
 * @sink_data: first argument of @sink
 * @account: charge the wheel's memory to the memory cgroup of the caller
 * @memory: bytes of the wheel on all CPUs; filled by twheel_get_params(), otherwise ignored
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
	bool			account;
	size_t			memory;
};

/**
 * struct twheel_counters - statistics of a wheel
 * @armed: timeouts enqueued by an arm or a mod: @cancelled + @fired + @stopped + @pending
 * @rearmed: the part of @armed that a mod moved while pending
 * @cancelled: timeouts dequeued by a cancel, or by a mod of a pending timeout
 * @fired: timeouts passed to their callback or to the sink
 * @stopped: pending timeouts dequeued by twheel_stop() or twheel_destroy()
 * @pending: timeouts pending now
 * @extended: timeouts enqueued again by twheel_extend()
 * @cascaded: moves of a timeout down one level
 * @wakeups: times that an hrtimer of the wheel found something to do
 * @occupied: number of occupied slots by level, summed over all shards
 * @shards: number of shards; each has its own slots
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
	u64	wakeups;
	u32	occupied[12];
	u32	shards;
};

struct twheel *twheel_create(const struct twheel_params *params);
void twheel_stop(struct twheel *w,
		 void (*unprocessed)(void *data, struct twheel_timeout *t), void *data);
void twheel_destroy(struct twheel *w);
void twheel_flush(struct twheel *w);
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
bool twheel_cancel_work_sync(struct twheel_work *tw);

int twheel_extend(struct twheel_timeout *t, u64 expires_ns, u64 slack_ns);

u64 twheel_remaining_ns(struct twheel_timeout *t);
u64 twheel_next_expiry(struct twheel *w);
u64 twheel_now(struct twheel *w);
int twheel_advance(struct twheel *w, u64 now_ns);
void twheel_get_counters(struct twheel *w, struct twheel_counters *counters);

void __twheel_work_init(struct twheel *w, struct twheel_work *tw);

/**
 * twheel_work_init() - prepare a timeout whose function may sleep
 * @w: the wheel that it belongs to from now on, one without a sink
 * @tw: the timeout
 * @fn: called on a workqueue when it expires
 *
 * A macro, so that each caller has a lockdep class of its own, as with INIT_WORK().
 */
#define twheel_work_init(w, tw, fn)		\
	do {					\
		struct twheel_work *_tw = (tw);	\
						\
		__twheel_work_init(w, _tw);	\
		INIT_WORK(&_tw->work, fn);	\
	} while (0)

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
 * twheel_forward() - move the deadline of an idle timeout past @now_ns
 * @t: the timeout; its callback then arms it for t->expires
 * @now_ns: the time, twheel_now()
 * @interval_ns: from one deadline to the next, 1 to S64_MAX
 *
 * For periodic timeouts, as hrtimer_forward(). The phase is kept. The deadline is at most S64_MAX.
 *
 * Return: intervals added: 0 if the deadline is after @now_ns, 1, or more if deadlines were
 * missed.
 */
static inline u64 twheel_forward(struct twheel_timeout *t, u64 now_ns, u64 interval_ns)
{
	u64 nr = now_ns >= t->expires ? div64_u64(now_ns - t->expires, interval_ns) + 1 : 0;

	t->expires = min_t(u64, t->expires + nr * interval_ns, S64_MAX);
	return nr;
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
 * twheel_accept() - take over one timeout of a sink's batch
 * @t: a timeout in the list that the sink was called with
 *
 * Makes @t idle. Any task may then arm @t or free it: the sink must not touch it any more. It
 * must have taken @t off the list before this call.
 *
 * Context: in the sink.
 */
static inline void twheel_accept(struct twheel_timeout *t)
{
	/* Pairs with the acquire in twheel_state(): the next arm sees the sink's writes. */
	smp_store_release(&t->state, TWHEEL_INACTIVE);
}

/*
 * For the engine and its device: the time from @start_ns to @end_ns that current used. @nivcsw: its
 * count of preemptions at @start_ns. If there was one since, on PREEMPT_RT, at most 32 us count.
 */
static inline u64 __twheel_used_ns(u64 start_ns, u64 end_ns, unsigned long nivcsw)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && current->nivcsw != nivcsw)
		return min_t(u64, end_ns - start_ns, 32 * NSEC_PER_USEC);
	return end_ns - start_ns;
}

#endif /* _TWHEEL_H */
