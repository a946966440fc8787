// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of timers inside the kernel: the wheel with single calls, with lists and with a sink;
 * timer_list; hrtimer; and, as the lower bound, a list with interrupts off.
 *
 * A repetition arms N timeouts, moves them while they are pending, and cancels them, each
 * time in another random order. Within a repetition, all systems have the same objects,
 * deadlines and orders. Each repetition has new orders, so that the branch predictor does
 * not learn them.
 *
 * One more timeout is armed all the time and is due before all others, as is usual in a
 * timer system in use. So none of the N arms programs the hardware timer, which is a system
 * call of the host in User Mode Linux.
 *
 * Where a nanosecond is an instruction, a write of "SYSTEM N" to parameter count makes one
 * repetition with one system. A read returns the ns of N arms, moves and cancels, without the
 * loop around them.
 *
 * A write of "N REPETITIONS [EXPIRIES]" to parameter run measures all systems in nanoseconds.
 * An operation on all N is measured in steps of BENCH_STEP. The result is the sum over the
 * steps, each with its best repetition: other load on the machine disturbs few steps in every
 * repetition. In at most EXPIRIES of the repetitions they are then armed with near deadlines,
 * and expire. This is measured as a whole. Interrupts are off from before the first arm until
 * all N timeouts are due. So nothing expires early, and all expiries run without a pause. The
 * result is the best time from enabling interrupts to the last callback. It includes the
 * interrupt and the switch to the wheel's thread. A read returns a line for each system: its
 * name, N, and the ns of N arms, moves, cancels and expiries. 0 means that the system does
 * not support the operation.
 *
 * Parameter idle_ns is the time that this CPU has been idle since boot.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kernel_stat.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/tick.h>
#include <linux/timer.h>

#include "twheel.h"
#include "twheel_compat.h"

#define BENCH_MAX	1000000

/* Operations per step. */
#define BENCH_STEP	1000

/*
 * Deadlines, in seconds after the arm. Nothing expires during a run. The N deadlines use
 * one level of the wheel at any time of day: 55 slots. They use about as many buckets of
 * timer_list.
 */
#define BENCH_FIRST	60
#define BENCH_NEAREST	120
#define BENCH_FARTHEST	3600

/*
 * Range of the deadlines for expiry, in ms after the arm: a dozen ticks of timer_list, a
 * hundred of the wheel.
 */
#define BENCH_SOONEST	20
#define BENCH_LATEST	120

/* Default number of repetitions with expiry; each takes a quarter of a second. */
#define BENCH_EXPIRIES	8

/*
 * Length of a block of the wheel's lowest level, in ms. All deadlines for expiry are in one
 * block.
 */
#define BENCH_BLOCK	256

/* Timeouts per list. */
#define BENCH_LIST	64

/* Seconds until a timeout that has not expired is an error. */
#define BENCH_MAX_WAIT_S	60

/**
 * struct bench_object - the object that embeds a timeout
 * @head: members before the timeout
 * @node: the timeout, at the start of a cache line
 * @rest: members after the timeout
 *
 * The size is three cache lines. Nodes in objects of 256 bytes would use only a quarter of
 * the sets of each cache.
 */
struct bench_object {
	u8				head[64];
	union {
		struct twheel_timeout	timeout;
		struct timer_list	timer;
		struct hrtimer		hrtimer;
		struct list_head	entry;
		u8			line[64];
	} node;
	u8				rest[64];
};

enum bench_op {
	BENCH_ARM,
	BENCH_MOVE,
	BENCH_CANCEL,
	BENCH_OPS,		/* operations that are measured in steps */
	BENCH_EXPIRE = BENCH_OPS,
	BENCH_RESULTS,
};

/**
 * struct bench - N timeouts, followed by the additional one
 * @objects: the objects, in the order of their allocation
 * @order: for each operation, the objects in random order
 * @delay: ns from the arm to the deadline; entry i belongs to entry i of @order
 * @expires: deadlines for the current system: ns on CLOCK_MONOTONIC, or jiffies
 * @best: for each system and operation, the best time of each step in ns
 * @expiry: for each system, the best time of the expiry of all in ns
 * @n: number of timeouts, without the additional one
 * @steps: number of steps per operation
 * @expiries: number of repetitions with expiry
 * @counted: instructions are counted, so those that check results are left out
 */
struct bench {
	struct bench_object	**objects;
	struct bench_object	**order[BENCH_OPS];
	u64			*delay;
	u64			*expires;
	u64			*best;
	u64			*expiry;
	u32			n;
	u32			steps;
	u32			expiries;
	bool			counted;
};

/**
 * struct bench_system - a competitor
 * @name: name in the result
 * @jiffies: deadlines are jiffies, not ns
 * @operations: bitmap of the enum bench_op that it supports
 * @init: initialise the timeout of an object
 * @run: carry out @op on entries @from to @to - 1 of its order; return how many succeeded
 */
struct bench_system {
	const char	*name;
	bool		jiffies;
	u32		operations;
	void		(*init)(struct bench_object *o);
	u32		(*run)(const struct bench *b, enum bench_op op, u32 from, u32 to);
};

typedef bool (*bench_fn)(struct bench_object *o, u64 expires);

static struct twheel *bench_wheel, *bench_sink_wheel;
static LIST_HEAD(bench_list);

/* Callbacks run on one CPU, so these need no lock. */
static u32 bench_expected;	/* number of timeouts to expire */
static u32 bench_fired;		/* number of timeouts that have expired */
static u64 bench_end;		/* time of the last expiry */
static DECLARE_COMPLETION(bench_all_fired);

static __always_inline void bench_expired(u32 nr)
{
	bench_fired += nr;
	if (bench_fired == bench_expected) {
		bench_end = ktime_get_ns();
		complete(&bench_all_fired);
	}
}

static __always_inline u32 bench_each(const struct bench *b, enum bench_op op, u32 from, u32 to,
				      bench_fn fn)
{
	struct bench_object **order = b->order[op];
	u32 i, nr = 0;

	if (b->counted) {
		for (i = from; i < to; i++)
			fn(order[i], b->expires[i]);
		return to - from;
	}
	for (i = from; i < to; i++)
		nr += fn(order[i], b->expires[i]);
	return nr;
}

static __always_inline u32 bench_dispatch(const struct bench *b, enum bench_op op,
					  u32 from, u32 to, bench_fn arm,
					  bench_fn move, bench_fn cancel)
{
	switch (op) {
	case BENCH_ARM:
		return bench_each(b, op, from, to, arm);
	case BENCH_MOVE:
		return bench_each(b, op, from, to, move);
	default:
		return bench_each(b, op, from, to, cancel);
	}
}

/* The loop alone */

static void bench_init_nothing(struct bench_object *o)
{
}

static __always_inline bool bench_nothing(struct bench_object *o, u64 expires)
{
	asm volatile("" : : "r" (&o->node), "r" (expires) : "memory");
	return true;
}

static u32 bench_run_nothing(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	return bench_each(b, op, from, to, bench_nothing);
}

/* The wheel */

static void bench_twheel_expired(struct twheel_timeout *t)
{
	bench_expired(1);
}

static void bench_sink(void *unused, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		twheel_accept(t);
	}
	bench_expired(nr);
}

static void bench_init_twheel(struct bench_object *o)
{
	twheel_timeout_init(bench_wheel, &o->node.timeout, bench_twheel_expired);
}

static void bench_init_sink(struct bench_object *o)
{
	twheel_timeout_init(bench_sink_wheel, &o->node.timeout, NULL);
}

static __always_inline bool bench_twheel_arm(struct bench_object *o, u64 expires)
{
	return twheel_arm(&o->node.timeout, expires) == 0;
}

static __always_inline bool bench_twheel_move(struct bench_object *o, u64 expires)
{
	return twheel_mod(&o->node.timeout, expires) == 1;
}

static __always_inline bool bench_twheel_cancel(struct bench_object *o, u64 expires)
{
	return twheel_cancel(&o->node.timeout);
}

static u32 bench_run_twheel(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	return bench_dispatch(b, op, from, to, bench_twheel_arm, bench_twheel_move,
			      bench_twheel_cancel);
}

/* The wheel, in lists */

static __always_inline u32 bench_each_list(const struct bench *b, enum bench_op op, u32 from,
					   u32 to)
{
	struct twheel_timeout *list[BENCH_LIST];
	u32 i, j, len, nr = 0;

	for (i = from; i < to; i += len) {
		len = min_t(u32, to - i, BENCH_LIST);
		for (j = 0; j < len; j++) {
			list[j] = &b->order[op][i + j]->node.timeout;
			if (op == BENCH_ARM)
				list[j]->expires = b->expires[i + j];
		}
		if (op == BENCH_ARM)
			nr += twheel_arm_list(bench_wheel, list, len);
		else if (op == BENCH_MOVE)
			nr += twheel_mod_list(list, b->expires + i, len);
		else
			nr += twheel_cancel_list(list, len);
	}
	return nr;
}

/* A copy of the loop for each operation, so that @op is constant in it. */
static u32 bench_run_lists(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	switch (op) {
	case BENCH_ARM:
		return bench_each_list(b, BENCH_ARM, from, to);
	case BENCH_MOVE:
		return bench_each_list(b, BENCH_MOVE, from, to);
	default:
		return bench_each_list(b, BENCH_CANCEL, from, to);
	}
}

/* timer_list */

static void bench_timer_expired(struct timer_list *t)
{
	bench_expired(1);
}

static void bench_init_timer(struct bench_object *o)
{
	timer_setup(&o->node.timer, bench_timer_expired, 0);
}

static __always_inline bool bench_timer_arm(struct bench_object *o, u64 expires)
{
	return mod_timer(&o->node.timer, expires) == 0;
}

static __always_inline bool bench_timer_move(struct bench_object *o, u64 expires)
{
	return mod_timer(&o->node.timer, expires) == 1;
}

static __always_inline bool bench_timer_cancel(struct bench_object *o, u64 expires)
{
	return timer_delete(&o->node.timer) == 1;
}

static u32 bench_run_timer(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	return bench_dispatch(b, op, from, to, bench_timer_arm, bench_timer_move,
			      bench_timer_cancel);
}

/* hrtimer */

static enum hrtimer_restart bench_hrtimer_expired(struct hrtimer *t)
{
	bench_expired(1);
	return HRTIMER_NORESTART;
}

static void bench_init_hrtimer(struct bench_object *o)
{
	hrtimer_setup(&o->node.hrtimer, bench_hrtimer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

static __always_inline bool bench_hrtimer_arm(struct bench_object *o, u64 expires)
{
	hrtimer_start(&o->node.hrtimer, ns_to_ktime(expires), HRTIMER_MODE_ABS);
	return true;
}

static __always_inline bool bench_hrtimer_cancel(struct bench_object *o, u64 expires)
{
	return hrtimer_try_to_cancel(&o->node.hrtimer) == 1;
}

static u32 bench_run_hrtimer(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	return bench_dispatch(b, op, from, to, bench_hrtimer_arm, bench_hrtimer_arm,
			      bench_hrtimer_cancel);
}

/* A list with interrupts off: no deadline, no state, no wakeup */

static void bench_init_entry(struct bench_object *o)
{
	INIT_LIST_HEAD(&o->node.entry);
}

static __always_inline bool bench_list_arm(struct bench_object *o, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_add_tail(&o->node.entry, &bench_list);
	local_irq_restore(flags);
	return true;
}

static __always_inline bool bench_list_move(struct bench_object *o, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_move_tail(&o->node.entry, &bench_list);
	local_irq_restore(flags);
	return true;
}

static __always_inline bool bench_list_cancel(struct bench_object *o, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_del(&o->node.entry);
	local_irq_restore(flags);
	return true;
}

static u32 bench_run_list(const struct bench *b, enum bench_op op, u32 from, u32 to)
{
	return bench_dispatch(b, op, from, to, bench_list_arm, bench_list_move,
			      bench_list_cancel);
}

/* Runs */

#define BENCH_IN_STEPS	(BIT(BENCH_OPS) - 1)
#define BENCH_ALL	(BENCH_IN_STEPS | BIT(BENCH_EXPIRE))

static const struct bench_system bench_systems[] = {
	{ "loop", false, BENCH_IN_STEPS, bench_init_nothing, bench_run_nothing },
	{ "twheel", false, BENCH_ALL, bench_init_twheel, bench_run_twheel },
	{ "twheel_lists", false, BENCH_IN_STEPS, bench_init_twheel, bench_run_lists },
	{ "twheel_sink", false, BIT(BENCH_EXPIRE), bench_init_sink, bench_run_twheel },
	{ "timer_list", true, BENCH_ALL, bench_init_timer, bench_run_timer },
	{ "hrtimer", false, BENCH_ALL, bench_init_hrtimer, bench_run_hrtimer },
	{ "list", false, BENCH_IN_STEPS, bench_init_entry, bench_run_list },
};

/* The last results: ns for all N. */
static u64 bench_result[ARRAY_SIZE(bench_systems)][BENCH_RESULTS];
static u32 bench_n;
static u64 bench_counts[BENCH_OPS];
static DEFINE_MUTEX(bench_lock);	/* the results, one run at a time */

static u64 *bench_best(const struct bench *b, size_t system, enum bench_op op)
{
	return &b->best[(system * BENCH_OPS + op) * b->steps];
}

static void bench_shuffle(struct bench_object **order, struct bench_object **objects, u32 n,
			  struct rnd_state *rnd)
{
	u32 i, j;

	for (i = 0; i < n; i++) {
		j = prandom_u32_state(rnd) % (i + 1);
		order[i] = order[j];
		order[j] = objects[i];
	}
}

static void bench_fill(struct bench *b, u64 seed)
{
	struct rnd_state rnd;
	enum bench_op op;
	u32 i;

	prandom_seed_state(&rnd, seed);
	for (i = 0; i < b->n; i++)
		b->delay[i] = BENCH_NEAREST * NSEC_PER_SEC +
			      mul_u64_u32_shr((BENCH_FARTHEST - BENCH_NEAREST) * NSEC_PER_SEC,
					      prandom_u32_state(&rnd), 32);
	b->delay[b->n] = BENCH_FIRST * NSEC_PER_SEC;
	for (op = 0; op < BENCH_OPS; op++) {
		bench_shuffle(b->order[op], b->objects, b->n, &rnd);
		b->order[op][b->n] = b->objects[b->n];
	}
}

static u64 bench_deadline(u64 now, u64 delay_ns, bool in_jiffies)
{
	return in_jiffies ? jiffies + nsecs_to_jiffies(delay_ns) : now + delay_ns;
}

static void bench_set_deadlines(struct bench *b, bool in_jiffies)
{
	u64 now = ktime_get_ns();
	u32 i;

	for (i = 0; i <= b->n; i++)
		b->expires[i] = bench_deadline(now, b->delay[i], in_jiffies);
}

/* Near deadlines in the same order as the far ones. */
static void bench_set_near_deadlines(struct bench *b, bool in_jiffies)
{
	u64 now = ktime_get_ns(), delay;
	u32 i;

	for (i = 0; i < b->n; i++) {
		delay = b->delay[i] - BENCH_NEAREST * NSEC_PER_SEC;
		delay = div_u64(delay * (BENCH_LATEST - BENCH_SOONEST),
				(BENCH_FARTHEST - BENCH_NEAREST) * MSEC_PER_SEC);
		b->expires[i] = bench_deadline(now, BENCH_SOONEST * NSEC_PER_MSEC + delay,
					       in_jiffies);
	}
}

/* Carry out one operation on all N. Returns false if it failed for one of them. */
static bool bench_measure(struct bench *b, const struct bench_system *system, enum bench_op op,
			  u64 *best)
{
	u32 from, to, nr = 0;
	u64 begin;

	for (from = 0; from < b->n; from = to) {
		to = min(from + BENCH_STEP, b->n);
		begin = ktime_get_ns();
		nr += system->run(b, op, from, to);
		*best = min(*best, ktime_get_ns() - begin);
		best++;
	}
	cond_resched();
	return nr == b->n;
}

static bool bench_steps(struct bench *b, size_t number)
{
	const struct bench_system *system = &bench_systems[number];
	bool ok = true;
	enum bench_op op;
	u32 i;

	bench_set_deadlines(b, system->jiffies);
	for (i = 0; i <= b->n; i++)
		system->init(b->objects[i]);
	system->run(b, BENCH_ARM, b->n, b->n + 1);
	for (op = 0; op < BENCH_OPS; op++)
		ok &= bench_measure(b, system, op, bench_best(b, number, op));
	system->run(b, BENCH_CANCEL, b->n, b->n + 1);
	return ok && !bench_fired;
}

/* Sleep until all deadlines are in one block of the wheel. */
static void bench_await_block(void)
{
	u32 ms;

	for (;;) {
		div_u64_rem(div_u64(ktime_get_ns(), NSEC_PER_MSEC), BENCH_BLOCK, &ms);
		if (ms < BENCH_BLOCK - BENCH_LATEST - BENCH_SOONEST)
			return;
		msleep(BENCH_SOONEST);
	}
}

/*
 * jiffies do not advance while interrupts are off, and are exact only to a tick. One more
 * tick makes all timeouts due in every system.
 */
static bool bench_expiry(struct bench *b, size_t number)
{
	const struct bench_system *system = &bench_systems[number];
	u64 begin, due;
	bool ok;
	u32 i;

	for (i = 0; i < b->n; i++)
		system->init(b->objects[i]);
	bench_fired = 0;
	bench_expected = b->n;
	reinit_completion(&bench_all_fired);
	bench_await_block();
	local_irq_disable();
	bench_set_near_deadlines(b, system->jiffies);
	due = ktime_get_ns() + BENCH_LATEST * NSEC_PER_MSEC + 2 * TICK_NSEC;
	ok = system->run(b, BENCH_ARM, 0, b->n) == b->n;
	while (ktime_get_ns() < due)
		cpu_relax();
	ok &= !bench_fired;
	begin = ktime_get_ns();
	local_irq_enable();
	ok &= wait_for_completion_timeout(&bench_all_fired, BENCH_MAX_WAIT_S * HZ) != 0;
	b->expiry[number] = min(b->expiry[number], bench_end - begin);
	if (!ok)
		system->run(b, BENCH_CANCEL, 0, b->n);
	bench_expected = 0;
	bench_fired = 0;
	return ok;
}

static bool bench_system(struct bench *b, size_t number, u32 repetition)
{
	u32 operations = bench_systems[number].operations;

	if (operations & BENCH_IN_STEPS && !bench_steps(b, number))
		return false;
	return !(operations & BIT(BENCH_EXPIRE)) || repetition >= b->expiries ||
	       bench_expiry(b, number);
}

static int bench_run(struct bench *b, u32 repetitions)
{
	u32 i;
	size_t system;

	for (i = 0; i < repetitions; i++) {
		bench_fill(b, i + 1);
		for (system = 0; system < ARRAY_SIZE(bench_systems); system++) {
			if (bench_system(b, system, i))
				continue;
			pr_err("%s has failed\n", bench_systems[system].name);
			return -EIO;
		}
	}
	return 0;
}

static u64 bench_sum_of(const struct bench *b, size_t system, enum bench_op op)
{
	u64 sum = 0;
	u32 i;

	if (!(bench_systems[system].operations & BIT(op)))
		return 0;
	if (op == BENCH_EXPIRE)
		return b->expiries ? b->expiry[system] : 0;
	for (i = 0; i < b->steps; i++)
		sum += bench_best(b, system, op)[i];
	return sum;
}

static void bench_sum(const struct bench *b)
{
	enum bench_op op;
	size_t system;

	bench_n = b->n;
	for (system = 0; system < ARRAY_SIZE(bench_systems); system++) {
		for (op = 0; op < BENCH_RESULTS; op++)
			bench_result[system][op] = bench_sum_of(b, system, op);
	}
}

static void bench_free(struct bench *b)
{
	enum bench_op op;
	u32 i;

	for (i = 0; b->objects && i <= b->n; i++)
		kfree(b->objects[i]);
	kvfree(b->objects);
	for (op = 0; op < BENCH_OPS; op++)
		kvfree(b->order[op]);
	kvfree(b->delay);
	kvfree(b->expires);
	kvfree(b->best);
	kvfree(b->expiry);
}

static int bench_alloc(struct bench *b)
{
	size_t nr = b->n + 1, times = ARRAY_SIZE(bench_systems) * BENCH_OPS * b->steps;
	enum bench_op op;
	u32 i;

	b->objects = kvcalloc(nr, sizeof(*b->objects), GFP_KERNEL);
	b->delay = kvcalloc(nr, sizeof(*b->delay), GFP_KERNEL);
	b->expires = kvcalloc(nr, sizeof(*b->expires), GFP_KERNEL);
	b->best = kvcalloc(times, sizeof(*b->best), GFP_KERNEL);
	b->expiry = kvcalloc(ARRAY_SIZE(bench_systems), sizeof(*b->expiry), GFP_KERNEL);
	if (!b->objects || !b->delay || !b->expires || !b->best || !b->expiry)
		return -ENOMEM;
	memset(b->best, 0xff, times * sizeof(*b->best));
	memset(b->expiry, 0xff, ARRAY_SIZE(bench_systems) * sizeof(*b->expiry));
	for (op = 0; op < BENCH_OPS; op++) {
		b->order[op] = kvcalloc(nr, sizeof(*b->order[op]), GFP_KERNEL);
		if (!b->order[op])
			return -ENOMEM;
	}
	for (i = 0; i < nr; i++) {
		b->objects[i] = kzalloc(sizeof(*b->objects[i]), GFP_KERNEL);
		if (!b->objects[i])
			return -ENOMEM;
	}
	return 0;
}

static void bench_count(struct bench *b, const struct bench_system *system)
{
	u64 begin, loop, all;
	enum bench_op op;
	u32 i;

	b->counted = true;
	bench_fill(b, b->n);
	bench_set_deadlines(b, system->jiffies);
	for (i = 0; i <= b->n; i++)
		system->init(b->objects[i]);
	system->run(b, BENCH_ARM, b->n, b->n + 1);
	for (op = 0; op < BENCH_OPS; op++) {
		begin = ktime_get_ns();
		bench_run_nothing(b, op, 0, b->n);
		loop = ktime_get_ns() - begin;
		begin = ktime_get_ns();
		system->run(b, op, 0, b->n);
		all = ktime_get_ns() - begin;
		bench_counts[op] = all - min(all, loop);
		cond_resched();
	}
	system->run(b, BENCH_CANCEL, b->n, b->n + 1);
}

static int bench_set_count(const char *val, const struct kernel_param *kp)
{
	struct bench b = { .steps = 1 };
	char name[16];
	size_t i = 0;
	int ret;

	if (sscanf(val, "%15s %u", name, &b.n) != 2 || !b.n || b.n > BENCH_MAX)
		return -EINVAL;
	while (strcmp(name, bench_systems[i].name)) {
		if (++i == ARRAY_SIZE(bench_systems))
			return -EINVAL;
	}
	guard(mutex)(&bench_lock);
	ret = bench_alloc(&b);
	if (!ret)
		bench_count(&b, &bench_systems[i]);
	bench_free(&b);
	return ret;
}

static int bench_get_count(char *buffer, const struct kernel_param *kp)
{
	guard(mutex)(&bench_lock);
	return sysfs_emit(buffer, "%llu %llu %llu\n", bench_counts[BENCH_ARM],
			  bench_counts[BENCH_MOVE], bench_counts[BENCH_CANCEL]);
}

static const struct kernel_param_ops bench_count_ops = {
	.set	= bench_set_count,
	.get	= bench_get_count,
};
module_param_cb(count, &bench_count_ops, NULL, 0600);
MODULE_PARM_DESC(count, "write: SYSTEM N; read: ns of N arms, moves, cancels");

static int bench_set_run(const char *val, const struct kernel_param *kp)
{
	struct bench b = { .expiries = BENCH_EXPIRIES };
	u32 repetitions;
	int ret;

	if (sscanf(val, "%u %u %u", &b.n, &repetitions, &b.expiries) < 2 || !b.n ||
	    b.n > BENCH_MAX || !repetitions)
		return -EINVAL;

	guard(mutex)(&bench_lock);
	b.steps = DIV_ROUND_UP(b.n, BENCH_STEP);
	ret = bench_alloc(&b);
	if (!ret)
		ret = bench_run(&b, repetitions);
	if (!ret)
		bench_sum(&b);
	bench_free(&b);
	return ret;
}

/* The time of the bare loop is subtracted from all others. */
static int bench_get_run(char *buffer, const struct kernel_param *kp)
{
	const u64 *loop = bench_result[0], *ns;
	enum bench_op op;
	int len = 0;
	size_t i;

	guard(mutex)(&bench_lock);
	for (i = 1; i < ARRAY_SIZE(bench_systems); i++) {
		ns = bench_result[i];
		len += sysfs_emit_at(buffer, len, "%s %u", bench_systems[i].name, bench_n);
		for (op = 0; op < BENCH_RESULTS; op++)
			len += sysfs_emit_at(buffer, len, " %llu", ns[op] - min(ns[op], loop[op]));
		len += sysfs_emit_at(buffer, len, "\n");
	}
	return len;
}

static const struct kernel_param_ops bench_run_ops = {
	.set	= bench_set_run,
	.get	= bench_get_run,
};
module_param_cb(run, &bench_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, "write: N REPETITIONS [EXPIRIES]; read: ns of N arms, moves, cancels, expiries of each system");

static int bench_get_idle(char *buffer, const struct kernel_param *kp)
{
	int cpu = raw_smp_processor_id();
	u64 at_us, idle_us = get_cpu_idle_time_us(cpu, &at_us);

	idle_us += get_cpu_iowait_time_us(cpu, &at_us);
	return sysfs_emit(buffer, "%llu\n", idle_us * NSEC_PER_USEC);
}

static const struct kernel_param_ops bench_idle_ops = {
	.get	= bench_get_idle,
};
module_param_cb(idle_ns, &bench_idle_ops, NULL, 0400);
MODULE_PARM_DESC(idle_ns, "time that this CPU has been idle");

static int __init bench_init(void)
{
	struct twheel_params params = { .name = "bench" };

	bench_wheel = twheel_create(&params);
	if (IS_ERR(bench_wheel))
		return PTR_ERR(bench_wheel);
	params.sink = bench_sink;
	bench_sink_wheel = twheel_create(&params);
	if (IS_ERR(bench_sink_wheel)) {
		twheel_destroy(bench_wheel);
		return PTR_ERR(bench_sink_wheel);
	}
	return 0;
}

static void __exit bench_exit(void)
{
	twheel_destroy(bench_sink_wheel);
	twheel_destroy(bench_wheel);
}

module_init(bench_init);
module_exit(bench_exit);

MODULE_DESCRIPTION("Cost of timers inside the kernel");
MODULE_LICENSE("GPL");
