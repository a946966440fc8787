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
 * A callback and a sink must not block. If one waits for a helper, it spins, and the helper
 * runs on another CPU: spare_cpu().
 */
#ifndef _TWHEEL_KUNIT_FIXTURE_H
#define _TWHEEL_KUNIT_FIXTURE_H

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/time64.h>

#include "../twheel.h"
#include "audit.h"

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

static inline int fixture_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	spin_lock_init(&f->lock);
	test->priv = f;
	return set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
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

	p->fired++;
	p->fired_ns = twheel_now(f->wheel);
	/* Several CPUs may be here, some in soft interrupts. */
	spin_lock_irqsave(&f->lock, flags);
	if (f->nr_fired < FIXTURE_ORDER)
		f->order[f->nr_fired] = p;
	f->nr_fired++;
	spin_unlock_irqrestore(&f->lock, flags);
}

static inline void record_callback(struct twheel_timeout *t)
{
	struct test_timeout *p = container_of(t, struct test_timeout, t);

	record_expiry(p);
	if (p->then)
		p->then(p);
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

/* For twheel_stop(): append the timeout that is handed back to the list @data. */
static inline void append_handed_back(void *data, struct twheel_timeout *t)
{
	list_add_tail(&t->entry, data);
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

#endif /* _TWHEEL_KUNIT_FIXTURE_H */
