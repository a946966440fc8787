// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of timers inside the kernel: the wheel, timer_list, hrtimer, and a list with
 * interrupts off as the lower bound.
 *
 * A write of "SYSTEM N" to parameter run arms N timeouts. It then rearms them in random
 * order while they are pending, and cancels them in random order. A read returns the time
 * of each operation: ns for all N calls, without the loop around them.
 *
 * Parameter idle_ns is the time that this CPU has been idle since boot.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hrtimer.h>
#include <linux/kernel_stat.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

#include "twheel.h"
#include "twheel_compat.h"

#define BENCH_MAX	1000000

static unsigned int bench_mark;
module_param_named(mark, bench_mark, uint, 0600);
MODULE_PARM_DESC(mark, "operation that a profile counts: 1 arm, 2 rearm, 3 cancel");

union bench_object {
	struct twheel_timeout	timeout;
	struct timer_list	timer;
	struct hrtimer		hrtimer;
	struct list_head	entry;
};

/**
 * struct bench - N timeouts
 * @objects: the objects with the timeouts
 * @expires: deadlines: ns on CLOCK_MONOTONIC, or jiffies for timer_list
 * @order: indices of the objects, in random order
 * @again: indices of the objects, in another random order
 * @n: number of timeouts
 */
struct bench {
	union bench_object	*objects;
	u64			*expires;
	u32			*order;
	u32			*again;
	u32			n;
};

/* Result of the last run. */
struct bench_result {
	u64	arm_ns;
	u64	rearm_ns;
	u64	cancel_ns;
	u32	n;
};

typedef void (*bench_fn)(union bench_object *object, u64 expires);

static DEFINE_MUTEX(bench_lock);	/* bench_result, one run at a time */
static struct bench_result bench_result;
static struct twheel *bench_wheel;
static LIST_HEAD(bench_list);

/* Deadlines are in random order too, so a rearm is not to the same deadline. */
static __always_inline u64 bench_loop(const struct bench *b, const u32 *order, bench_fn fn)
{
	u64 begin = ktime_get_ns();
	u32 i;

	for (i = 0; i < b->n; i++)
		fn(&b->objects[order[i]], b->expires[i]);
	return ktime_get_ns() - begin;
}

static __always_inline void bench_nothing(union bench_object *object, u64 expires)
{
	asm volatile("" : : "r" (object), "r" (expires) : "memory");
}

/* nops: a profile counts the instructions between them. */
static __always_inline void bench_mark_start(void)
{
	asm volatile("nopl 0x74776c31(%%rax)" : : : "memory");
}

static __always_inline void bench_mark_stop(void)
{
	asm volatile("nopl 0x74776c32(%%rax)" : : : "memory");
}

/* Time of @fn for all N timeouts, without the loop. */
static __always_inline u64 bench_measure(const struct bench *b, const u32 *order, bench_fn fn,
					 bool mark)
{
	u64 loop = bench_loop(b, order, bench_nothing), all;

	if (mark)
		bench_mark_start();
	all = bench_loop(b, order, fn);
	if (mark)
		bench_mark_stop();
	cond_resched();
	return all > loop ? all - loop : 0;
}

static __always_inline void bench_run(const struct bench *b, bench_fn arm, bench_fn rearm,
				      bench_fn cancel)
{
	bench_result.n = b->n;
	bench_result.arm_ns = bench_measure(b, b->order, arm, bench_mark == 1);
	bench_result.rearm_ns = bench_measure(b, b->again, rearm, bench_mark == 2);
	bench_result.cancel_ns = bench_measure(b, b->order, cancel, bench_mark == 3);
}

/* The wheel */

static void bench_twheel_expired(struct twheel_timeout *t)
{
}

static __always_inline void bench_twheel_arm(union bench_object *object, u64 expires)
{
	twheel_arm(&object->timeout, expires);
}

static __always_inline void bench_twheel_rearm(union bench_object *object, u64 expires)
{
	twheel_mod(&object->timeout, expires);
}

static __always_inline void bench_twheel_cancel(union bench_object *object, u64 expires)
{
	twheel_cancel(&object->timeout);
}

static void bench_twheel(const struct bench *b)
{
	u32 i;

	for (i = 0; i < b->n; i++)
		twheel_timeout_init(bench_wheel, &b->objects[i].timeout, bench_twheel_expired);
	bench_run(b, bench_twheel_arm, bench_twheel_rearm, bench_twheel_cancel);
}

/* timer_list */

static void bench_timer_expired(struct timer_list *t)
{
}

static __always_inline void bench_timer_arm(union bench_object *object, u64 expires)
{
	mod_timer(&object->timer, expires);
}

static __always_inline void bench_timer_cancel(union bench_object *object, u64 expires)
{
	timer_delete(&object->timer);
}

static void bench_timer_list(const struct bench *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		timer_setup(&b->objects[i].timer, bench_timer_expired, 0);
		b->expires[i] = jiffies + nsecs_to_jiffies(b->expires[i] - ktime_get_ns());
	}
	bench_run(b, bench_timer_arm, bench_timer_arm, bench_timer_cancel);
}

/* hrtimer */

static enum hrtimer_restart bench_hrtimer_expired(struct hrtimer *t)
{
	return HRTIMER_NORESTART;
}

static __always_inline void bench_hrtimer_arm(union bench_object *object, u64 expires)
{
	hrtimer_start(&object->hrtimer, ns_to_ktime(expires), HRTIMER_MODE_ABS);
}

static __always_inline void bench_hrtimer_cancel(union bench_object *object, u64 expires)
{
	hrtimer_try_to_cancel(&object->hrtimer);
}

static void bench_hrtimer(const struct bench *b)
{
	u32 i;

	for (i = 0; i < b->n; i++)
		hrtimer_setup(&b->objects[i].hrtimer, bench_hrtimer_expired, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS);
	bench_run(b, bench_hrtimer_arm, bench_hrtimer_arm, bench_hrtimer_cancel);
}

/* A list */

static __always_inline void bench_list_arm(union bench_object *object, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_add_tail(&object->entry, &bench_list);
	local_irq_restore(flags);
}

static __always_inline void bench_list_rearm(union bench_object *object, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_move_tail(&object->entry, &bench_list);
	local_irq_restore(flags);
}

static __always_inline void bench_list_cancel(union bench_object *object, u64 expires)
{
	unsigned long flags;

	local_irq_save(flags);
	list_del(&object->entry);
	local_irq_restore(flags);
}

static void bench_bare_list(const struct bench *b)
{
	bench_run(b, bench_list_arm, bench_list_rearm, bench_list_cancel);
}

/* Runs */

static const struct {
	const char	*name;
	void		(*run)(const struct bench *b);
} bench_systems[] = {
	{ "twheel", bench_twheel },
	{ "timer_list", bench_timer_list },
	{ "hrtimer", bench_hrtimer },
	{ "list", bench_bare_list },
};

static void bench_shuffle(u32 *order, u32 n, struct rnd_state *rnd)
{
	u32 i, j;

	for (i = 0; i < n; i++) {
		j = prandom_u32_state(rnd) % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
}

/* Deadlines one to two hours ahead, with the same distances in each run. */
static void bench_fill(struct bench *b)
{
	struct rnd_state rnd;
	u64 now = ktime_get_ns();
	u32 i;

	prandom_seed_state(&rnd, b->n);
	for (i = 0; i < b->n; i++)
		b->expires[i] = now + 3600 * NSEC_PER_SEC +
				(u64)(prandom_u32_state(&rnd) % 3600000) * NSEC_PER_MSEC;
	bench_shuffle(b->order, b->n, &rnd);
	bench_shuffle(b->again, b->n, &rnd);
}

static void bench_free(struct bench *b)
{
	vfree(b->objects);
	vfree(b->expires);
	vfree(b->order);
	vfree(b->again);
}

static int bench_system(void (*run)(const struct bench *b), u32 n)
{
	struct bench b = {
		.objects	= vzalloc(array_size(n, sizeof(*b.objects))),
		.expires	= vzalloc(array_size(n, sizeof(*b.expires))),
		.order		= vzalloc(array_size(n, sizeof(*b.order))),
		.again		= vzalloc(array_size(n, sizeof(*b.again))),
		.n		= n,
	};
	int ret = -ENOMEM;

	if (b.objects && b.expires && b.order && b.again) {
		bench_fill(&b);
		run(&b);
		ret = 0;
	}
	bench_free(&b);
	return ret;
}

static int bench_set_run(const char *val, const struct kernel_param *kp)
{
	char name[16];
	size_t i;
	u32 n;

	if (sscanf(val, "%15s %u", name, &n) != 2 || !n || n > BENCH_MAX)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(bench_systems); i++) {
		if (!strcmp(name, bench_systems[i].name)) {
			guard(mutex)(&bench_lock);
			return bench_system(bench_systems[i].run, n);
		}
	}
	return -EINVAL;
}

static int bench_get_run(char *buffer, const struct kernel_param *kp)
{
	guard(mutex)(&bench_lock);
	return sysfs_emit(buffer, "%llu %llu %llu\n", bench_result.arm_ns,
			  bench_result.rearm_ns, bench_result.cancel_ns);
}

static const struct kernel_param_ops bench_run_ops = {
	.set	= bench_set_run,
	.get	= bench_get_run,
};
module_param_cb(run, &bench_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, "write: SYSTEM N; read: ns of all N arms, rearms, cancels");

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
	bench_wheel = twheel_create(&(struct twheel_params){ .name = "bench" });
	return PTR_ERR_OR_ZERO(bench_wheel);
}

static void __exit bench_exit(void)
{
	twheel_destroy(bench_wheel);
}

module_init(bench_init);
module_exit(bench_exit);

MODULE_DESCRIPTION("Cost of timers inside the kernel");
MODULE_LICENSE("GPL");
