/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the engine's suites: one wheel on the MANUAL clock, timeouts that record
 * when they fire, and the order in which they fired.
 *
 * A wheel has a shard per CPU and guarantees an order only within a shard. So each test
 * stays on one CPU. All objects are in memory managed by the test, never on its stack.
 * The suite's exit audits and destroys the wheel, so an aborted test leaves nothing
 * behind.
 *
 * A helper is a thread beside the test's own. Between helper_start() and helper_finish() a test
 * must not be aborted: it expects, and does not assert. A callback and a sink must not block. If
 * one waits for a helper, it spins, and the helper runs on another CPU: spare_cpu().
 */
#ifndef _TWHEEL_KUNIT_FIXTURE_H
#define _TWHEEL_KUNIT_FIXTURE_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/time64.h>

#include "../twheel.h"
#include "audit.h"
#include "suite.h"

#define FIXTURE_ORDER	2048

/**
 * struct fixture - the wheel of a test, and the order of expiry
 * @wheel: destroyed after the test; NULL if there is none
 * @tick_ns: length of its tick
 * @lock: protects @nr_fired and @order
 * @nr_fired: number of timeouts that have fired
 * @order: the first FIXTURE_ORDER timeouts that have fired
 */
struct fixture {
	struct twheel	*wheel;
	u64		tick_ns;
	spinlock_t	lock;	/* nr_fired, order */
	unsigned int	nr_fired;
	struct test_timeout	*order[FIXTURE_ORDER];
};

/**
 * struct test_timeout - a timeout under test: it records its expiries, and may then do more
 * @t: the timeout
 * @f: fixture that it records in
 * @id: its index
 * @tick: the tick that arm_at_tick() armed it for
 * @fired: how often it has fired
 * @fired_ns: the wheel's time when it fired last
 * @cpu: the CPU on which it fired last
 * @then: called by its callback after the record; may be NULL
 * @other: for @then: another timeout
 * @arg: for @then: a time or a number
 * @data: for @then
 * @ret: result of the call that @then made
 */
struct test_timeout {
	struct twheel_timeout	t;
	struct fixture		*f;
	unsigned int		id;
	u64			tick;
	unsigned int		fired;
	u64			fired_ns;
	unsigned int		cpu;
	void			(*then)(struct test_timeout *p);
	struct test_timeout	*other;
	u64			arg;
	void			*data;
	int			ret;
};

/* A CPU where a callback or a sink may spin; nr_cpu_ids if the test's CPU is the only one. */
static inline unsigned int spare_cpu(void)
{
	return cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
}

/* The CPU that serves timeouts armed on @cpu: a housekeeping CPU if @cpu is isolated. */
static inline unsigned int shard_cpu(unsigned int cpu)
{
	if (housekeeping_test_cpu(cpu, HK_TYPE_TIMER))
		return cpu;
	return cpumask_first_and(cpu_possible_mask, housekeeping_cpumask(HK_TYPE_TIMER));
}

static inline void run_on(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(cpu)));
}

/* A suite may have more data, with its fixture as the first member: @size is that of all. */
static inline int fixture_init_size(struct kunit *test, size_t size)
{
	struct fixture *f = kunit_kzalloc(test, size, GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	spin_lock_init(&f->lock);
	test->priv = f;
	return set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
}

static inline int fixture_init(struct kunit *test)
{
	return fixture_init_size(test, sizeof(struct fixture));
}

static inline void fixture_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f || !f->wheel)
		return;
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	twheel_destroy(f->wheel);
	f->wheel = NULL;
}

/* Make the wheel of @f; the caller checks the result. */
static inline struct twheel *fixture_create(struct fixture *f,
					    const struct twheel_params *params)
{
	struct twheel *w = twheel_create(params);

	f->wheel = IS_ERR(w) ? NULL : w;
	f->tick_ns = params->tick_ns;
	return w;
}

static inline struct fixture *create_manual_wheel(struct kunit *test, u64 tick_ns,
						  u32 slots, u32 levels)
{
	struct fixture *f = test->priv;
	struct twheel_params params = {
		.name = "kunit",
		.clock = TWHEEL_MANUAL,
		.tick_ns = tick_ns,
		.slots = slots,
		.levels = levels,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	return f;
}

static inline void record_expiry(struct test_timeout *p)
{
	struct fixture *f = p->f;
	unsigned long flags;

	p->fired_ns = twheel_now(f->wheel);
	p->cpu = raw_smp_processor_id();
	WRITE_ONCE(p->fired, p->fired + 1);
	/* Several CPUs may be here, some in soft interrupts. */
	spin_lock_irqsave(&f->lock, flags);
	if (f->nr_fired < FIXTURE_ORDER)
		f->order[f->nr_fired] = p;
	WRITE_ONCE(f->nr_fired, f->nr_fired + 1);
	spin_unlock_irqrestore(&f->lock, flags);
}

static inline void record_callback(struct twheel_timeout *t)
{
	struct test_timeout *p = container_of(t, struct test_timeout, t);

	record_expiry(p);
	if (p->then)
		p->then(p);
}

/* A sink that does the same, and accepts each timeout unless @then has extended it. */
static inline void record_sink(void *sink_data, struct list_head *expired, unsigned int nr,
			       u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		record_callback(t);
		if (READ_ONCE(t->state) == TWHEEL_EXPIRING)
			twheel_accept(t);
	}
}

/* @n timeouts for the wheel of the test; @fn is NULL for a wheel with a sink. */
static inline struct test_timeout *create_timeouts_fn(struct kunit *test, unsigned int n,
						      void (*fn)(struct twheel_timeout *t))
{
	struct fixture *f = test->priv;
	struct test_timeout *p = kunit_kcalloc(test, n, sizeof(*p), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (i = 0; i < n; i++) {
		p[i].f = f;
		p[i].id = i;
		twheel_timeout_init(f->wheel, &p[i].t, fn);
	}
	return p;
}

static inline struct test_timeout *create_timeouts(struct kunit *test, unsigned int n)
{
	return create_timeouts_fn(test, n, record_callback);
}

static inline void arm_at_tick(struct kunit *test, struct test_timeout *p, u64 tick)
{
	p->tick = tick;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, tick * p->f->tick_ns));
}

static inline void advance_to_tick(struct kunit *test, u64 tick)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, tick * f->tick_ns));
}

/* The wheel has fired @n timeouts, and these in the order of their ids. */
static inline void expect_fired_in_id_order(struct kunit *test, unsigned int n)
{
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, n, f->nr_fired);
	for (i = 1; i < n; i++)
		KUNIT_ASSERT_LT(test, f->order[i - 1]->id, f->order[i]->id);
}

/* @p fires when the wheel's time reaches @tick, and not before. */
static inline void expect_fires_at_tick(struct kunit *test, struct test_timeout *p, u64 tick)
{
	unsigned int before = p->fired;

	advance_to_tick(test, tick - 1);
	KUNIT_ASSERT_EQ_MSG(test, before, p->fired, "early, before tick %llu", tick);
	advance_to_tick(test, tick);
	KUNIT_ASSERT_EQ_MSG(test, before + 1, p->fired, "late, after tick %llu", tick);
}

/* Helpers and gates */

/* Time limit that a slow machine keeps. */
#define MAX_WAIT	(30 * HZ)

/**
 * struct helper - a thread that does one thing for a test
 * @task: the thread, or an error
 * @done: completed when @work has returned
 * @work: function that it calls
 * @arg: argument of @work
 */
struct helper {
	struct task_struct	*task;
	struct completion	done;
	void			(*work)(void *arg);
	void			*arg;
};

/*
 * Stays until kthread_stop(), so that the thread leaves the module's code before it is
 * unloaded.
 */
static inline int helper_thread(void *data)
{
	struct helper *h = data;

	h->work(h->arg);
	complete(&h->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* Start on @cpu, or with nr_cpu_ids on any. */
static inline void helper_start_on(struct kunit *test, struct helper *h, unsigned int cpu,
				   void (*work)(void *arg), void *arg)
{
	h->work = work;
	h->arg = arg;
	init_completion(&h->done);
	h->task = kthread_create(helper_thread, h, "kunit-helper");
	KUNIT_EXPECT_FALSE(test, IS_ERR(h->task));
	if (IS_ERR(h->task))
		return;
	if (cpu < nr_cpu_ids)
		kthread_bind(h->task, cpu);
	wake_up_process(h->task);
}

static inline void helper_start(struct kunit *test, struct helper *h,
				void (*work)(void *arg), void *arg)
{
	helper_start_on(test, h, nr_cpu_ids, work, arg);
}

static inline void helper_finish(struct kunit *test, struct helper *h)
{
	if (IS_ERR(h->task))
		return;
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&h->done, MAX_WAIT), 0UL);
	kthread_stop(h->task);
}

/* Wait until the helper has returned, or sleeps because it waits for something. */
static inline void helper_wait_blocked(struct helper *h)
{
	unsigned long end = jiffies + MAX_WAIT;

	while (!IS_ERR(h->task) && !completion_done(&h->done) &&
	       !(READ_ONCE(h->task->__state) & TASK_UNINTERRUPTIBLE) && time_before(jiffies, end))
		msleep(20);
}

/* Run the helper on a CPU where the test is not. There must be one: spare_cpu(). */
static inline void helper_move_to_other_cpu(struct kunit *test, struct helper *h)
{
	if (!IS_ERR(h->task))
		KUNIT_EXPECT_EQ(test, 0, set_cpus_allowed_ptr(h->task, cpumask_of(spare_cpu())));
}

/**
 * struct gate - where a function waits
 * @reached: completed when the function gets there
 * @open: completed to let the function go on
 */
struct gate {
	struct completion	reached;
	struct completion	open;
};

static inline void gate_init(struct gate *gate)
{
	init_completion(&gate->reached);
	init_completion(&gate->open);
}

/* A function that may sleep waits here. */
static inline void gate_wait_open(struct gate *gate)
{
	complete(&gate->reached);
	wait_for_completion(&gate->open);
}

/* A callback or sink waits here: the test opens the gate on another CPU. */
static inline void gate_spin_until_open(struct gate *gate)
{
	unsigned long end = jiffies + MAX_WAIT / 3;

	complete(&gate->reached);
	while (!completion_done(&gate->open) && time_before(jiffies, end))
		cpu_relax();
}

static inline void gate_wait_reached(struct kunit *test, struct gate *gate)
{
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&gate->reached, MAX_WAIT), 0UL);
}

#endif /* _TWHEEL_KUNIT_FIXTURE_H */
