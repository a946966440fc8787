/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hashed and hierarchical timing wheels for kernel code.
 *
 * A wheel holds any number of timeouts; arming, re-arming and cancelling one is
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
 * All times are nanoseconds in a u64, at most S64_MAX; a larger value is -EINVAL.
 * A deadline is rounded up to a tick of the wheel: nothing fires early.
 *
 * Unless a function says otherwise it may be called from any context but NMI: from
 * a callback, with interrupts on or off, with a lock of the scheduler held. On
 * PREEMPT_RT, where spinlocks sleep: only where spin_lock() may be called.
 *
 * Callbacks and sinks run in process context, in a thread that serves all wheels of
 * a CPU, and must not block. A callback that has to sleep asks for a worker, see
 * twheel_use_workqueue(); it must not take cpus_read_lock(). The functions that
 * wait may be called from the callback of a worker, but not to wait for that
 * callback itself: this is refused with a warning.
 *
 * A timeout must not be freed while it is pending or while its callback may still
 * use it: call twheel_shutdown() first. Its own callback may free it. Memory that
 * twheel_timeout_init() is called for holds a new timeout, whatever still runs for
 * the one that was there before.
 */
#ifndef _TWHEEL_H
#define _TWHEEL_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/types.h>

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
 * enum twheel_state - what a timeout is doing
 * @TWHEEL_INACTIVE: not in the wheel; its callback may be running
 * @TWHEEL_PENDING: in the wheel, can be cancelled
 * @TWHEEL_EXPIRING: taken out, in the batch of a sink that has not accepted it yet
 */
enum twheel_state {
	TWHEEL_INACTIVE,
	TWHEEL_PENDING,
	TWHEEL_EXPIRING,
};

/**
 * enum twheel_kind - what follows an expiry
 * @TWHEEL_ONCE: nothing
 * @TWHEEL_FIXED_RATE: the deadline moves on by whole intervals, in phase, past now
 * @TWHEEL_FIXED_DELAY: the next deadline is an interval after the callback's end
 */
enum twheel_kind {
	TWHEEL_ONCE,
	TWHEEL_FIXED_RATE,
	TWHEEL_FIXED_DELAY,
};

/* Flags of a timeout, private to the engine. */
#define TWHEEL_T_RATE		BIT(0)	/* periodic, fixed rate */
#define TWHEEL_T_DELAY		BIT(1)	/* periodic, fixed delay */
#define TWHEEL_T_ENDED		BIT(2)	/* periodic, and has had its last period */
#define TWHEEL_T_SHUTDOWN	BIT(3)	/* refuses to be armed */
#define TWHEEL_T_LIMITED	BIT(4)	/* its wheel has max_pending */
#define TWHEEL_T_WORKER		BIT(5)	/* its callback runs on a workqueue */
#define TWHEEL_T_TRACKED	BIT(6)	/* known to debugobjects while pending */
#define TWHEEL_T_CANCELLING	BIT(7)	/* a task waits to cancel it: no worker takes it */

/**
 * struct twheel_timeout - one timeout, embedded in the object of its owner
 * @entry: link in a slot while pending; link in the batch in a sink; otherwise free
 *	for the owner
 * @tick: tick at which it fires, valid while pending
 * @expires: deadline, ns on the wheel's clock. Every arm sets it, and it stays valid
 *	until the next arm. The owner sets it before twheel_arm_list()
 * @fn: callback, in a wheel without a sink
 * @data: for the owner, in a wheel with a sink
 * @shard: shard whose lock protects the timeout
 * @state: enum twheel_state
 * @level: level that it lies on, valid while pending
 * @flags: TWHEEL_T_*
 * @runner: which runner of @shard took it last, plus 1; 0 if none did
 * @tag: for the owner; fills padding
 *
 * All members but @data, @tag, and @expires for twheel_arm_list(), are private to the
 * engine.
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
 * struct twheel_periodic - a timeout that expires again and again
 * @t: the timeout; twheel_cancel(), twheel_mod() and the queries take it
 * @fn: callback
 * @interval_ns: from one deadline to the next
 * @expires: for @fn: the deadline that it is called for. If several have passed, the
 *	last one of them
 * @missed: for @fn: deadlines before @expires that have passed since the previous
 *	call; 0 with fixed delay
 * @repeat: deadlines still to come after @expires; 0: no end, or the end has come,
 *	see twheel_periodic_ended()
 *
 * Cancelled from its own callback it stays cancelled. Unless it has ended, it must be
 * cancelled before it is freed, in its own callback too.
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
 * @levels: 1 (a hashed wheel with rounds) to 8; levels that would reach past 2^63
 *	ticks are not made; 0: module parameter levels
 * @sink: called with the expired timeouts of up to one batch, in order, instead
 *	of their callbacks. @expired holds @nr timeouts linked by entry. The sink
 *	takes each one over with twheel_accept(), or sends it back with
 *	twheel_extend(), before it returns. @now_ns is the time at which the batch
 *	was taken out, on the wheel's clock. It must not block. Sinks of different
 *	CPUs run at the same time
 * @sink_data: first argument of @sink
 * @max_pending: most timeouts that may be pending at once; 0: no limit. A timeout
 *	keeps its place until it is cancelled, called for the last time, or accepted
 *	by the sink
 * @account: charge the wheel's memory to the memory cgroup of the caller. Excludes
 *	the wheel from warn_wheels: users make such wheels, within limits of their own
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

/* Up to 2^39 ns, nine minutes, in powers of two. */
#define TWHEEL_LATENESS_BUCKETS	40

/**
 * struct twheel_counters - what a wheel has done so far
 * @armed: timeouts enqueued, by an arm, a mod, or for a further period
 * @rearmed: of these, moved by a mod while pending
 * @cancelled: taken out by a cancel, or by a mod of a pending timeout
 * @fired: handed to a callback or to the sink
 * @stopped: taken out while pending by twheel_stop() or twheel_destroy()
 * @pending: in the wheel now
 * @extended: enqueued again by twheel_extend()
 * @cascaded: moved down a level
 * @rebased: placed anew because the clock had been stepped backward
 * @wakeups: how often a thread was woken for the wheel
 * @largest_batch: most timeouts handed over at once
 * @lateness: timeouts fired less than 2^n ns after their deadline and not less than
 *	2^(n - 1), by n, counted while module parameter lateness is on; the last one
 *	holds all that are later
 * @occupied: slots that have something in them, by level, over all shards
 * @shards: shards, each with all the slots
 *
 * When nothing is in progress, armed == cancelled + fired + stopped + pending.
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
 * struct twheel_position - where a pending timeout lies
 * @tick: tick it fires at
 * @rounds: rounds it has to sit out on the top level
 * @level: level
 * @slot: slot on that level
 */
struct twheel_position {
	u64	tick;
	u64	rounds;
	u32	level;
	u32	slot;
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
 * Without a lock: the answer may be out of date when it arrives, unless the
 * caller keeps others from arming and cancelling and the deadline is far.
 *
 * Return: true while a cancel would succeed.
 */
static inline bool twheel_pending(const struct twheel_timeout *t)
{
	return READ_ONCE(t->state) == TWHEEL_PENDING;
}

/**
 * twheel_periodic_ended() - has a periodic timeout had its last period?
 * @p: an initialised periodic timeout
 *
 * Context: any; exact in the callback of @p.
 *
 * Return: true from the last call of its callback on, and before it is armed for the
 * first time. Only twheel_arm_periodic() arms it again.
 */
static inline bool twheel_periodic_ended(const struct twheel_periodic *p)
{
	return READ_ONCE(p->t.flags) & TWHEEL_T_ENDED;
}

/**
 * twheel_timeout_copy() - prepare a timeout for its first arm, like another one
 * @t: the timeout, in memory that is all zeros
 * @from: a timeout that twheel_timeout_init() has prepared and nothing has changed since
 *
 * Cheaper than twheel_timeout_init(), for many timeouts at once.
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
 * @t: a timeout that has been initialised and was not armed yet
 *
 * For callbacks that sleep or take long: other timeouts go on firing meanwhile, and a
 * few such callbacks run at once. The callback of one timeout never runs twice at the
 * same time, but there is no order between timeouts. A timeout stays pending until a
 * worker calls its callback: it can be cancelled, and twheel_stop() hands it back.
 */
static inline void twheel_use_workqueue(struct twheel_timeout *t)
{
	t->flags |= TWHEEL_T_WORKER;
}

/**
 * twheel_accept() - take over one timeout of a sink's batch
 * @t: a timeout in the list that the sink was called with
 *
 * From here on it is idle, has given its place under max_pending back, and may be
 * armed again or freed. The sink has read all that it needs of the timeout, and has
 * taken it off the list if the timeout is to live on.
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
