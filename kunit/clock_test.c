// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of clocks that run, and of arms in unusual contexts. The table of the suite state has
 * the refused calls.
 *
 * On running clocks it needs no precise timing: it checks that nothing fires early, and it waits
 * as long as a slow machine may take. On the MANUAL clock the wheel's own thread has no work.
 * This suite tests that the thread wakes and runs callbacks.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "fixture.h"

#define MS		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

static void complete_data(struct test_timeout *p)
{
	complete(p->data);
}

/* @n timeouts of a wheel on @clock; each completes a completion of its own when it fires. */
static struct test_timeout *create_clock_timeouts(struct kunit *test, enum twheel_clock clock,
						  unsigned int n)
{
	struct twheel_params params = { .name = "kunit", .clock = clock };
	struct completion *began;
	struct test_timeout *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = create_timeouts(test, n);
	began = kunit_kcalloc(test, n, sizeof(*began), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, began);
	for (i = 0; i < n; i++) {
		init_completion(&began[i]);
		p[i].data = &began[i];
		p[i].then = complete_data;
	}
	return p;
}

static void expect_fires(struct kunit *test, struct test_timeout *p)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(p->data, MAX_WAIT), 0UL);
}

/* Running clocks */

static const struct clock_case {
	const char *name;
	enum twheel_clock clock;
	u64 (*now)(void);
} clocks[] = {
	{ "monotonic", TWHEEL_MONOTONIC, ktime_get_ns },
	{ "boottime", TWHEEL_BOOTTIME, ktime_get_boottime_ns },
	{ "realtime", TWHEEL_REALTIME, ktime_get_real_ns },
};

NAMED_PARAM(clock, clocks);

static void wheel_follows_its_clock(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct test_timeout *p = create_clock_timeouts(test, c->clock, 1);
	u64 before = c->now(), now = twheel_now(p->f->wheel);

	KUNIT_EXPECT_GE(test, now, before);
	KUNIT_EXPECT_LE(test, now, c->now());
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(p->f->wheel, now));
}

static void relative_timeout_fires_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct test_timeout *p = create_clock_timeouts(test, c->clock, 1);
	u64 before = c->now();

	if (c->clock == TWHEEL_REALTIME)
		kunit_skip(test, "its deadlines are absolute");
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 20 * MS));
	expect_fires(test, p);
	KUNIT_EXPECT_GE(test, p->fired_ns, before + 20 * MS);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static void due_timeout_fires_without_another_event(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct test_timeout *p = create_clock_timeouts(test, c->clock, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, 0));
	expect_fires(test, &p[0]);
	KUNIT_ASSERT_EQ(test, 0, twheel_mod(&p[1].t, c->now() - 1));
	expect_fires(test, &p[1]);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

/* The wheel sleeps until the later deadline, so the earlier one must wake it. */
static void earlier_timeout_fires_before_one_armed_first(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct test_timeout *p = create_clock_timeouts(test, c->clock, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, c->now() + FAR));
	msleep(20);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[1].t, c->now() + 5 * MS));
	expect_fires(test, &p[1]);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, c->now() + 5 * MS));
	expect_fires(test, &p[0]);
}

/* Timeouts are armed while earlier ones fire, so the cursor is all over the wheel. */
static void random_timeouts_fire_once_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	enum { NR = 1000 };
	struct test_timeout *p = create_clock_timeouts(test, c->clock, NR);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < NR; i++) {
		p[i].arg = c->now() + prandom_u32_state(&rnd) % (800 * MS);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, p[i].arg));
		if (i % 10 == 0)
			usleep_range(1000, 2000);
	}
	for (i = 0; i < NR; i++) {
		expect_fires(test, &p[i]);
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].arg);
	}
	twheel_flush(p->f->wheel);
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
}

static void arm_works_with_interrupts_off(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct test_timeout *p = create_clock_timeouts(test, c->clock, 1);
	unsigned long flags;
	bool cancelled;
	int armed;

	local_irq_save(flags);
	armed = twheel_arm(&p->t, c->now() + FAR);
	cancelled = twheel_cancel(&p->t);
	armed |= twheel_arm(&p->t, c->now() + 2 * MS);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, 0, armed);
	KUNIT_EXPECT_TRUE(test, cancelled);
	expect_fires(test, p);
}

/*
 * Arms with a lock of the scheduler held: the tracepoint sched_waking fires with the lock of a task
 * held, and for kworkers also with that of a worker pool. If an arm or the hrtimer woke a task with
 * the lock of the shard held, it could deadlock, and lockdep reports it.
 */
static const struct wakeup_kind {
	const char *name;
	bool sink;
} wakeup_kinds[] = {
	{ "callbacks", false }, { "sink", true },
};

NAMED_PARAM(wakeup_kind, wakeup_kinds);

#ifdef CONFIG_TRACEPOINTS

#define NR_ARMED	16

/* Timeouts that are armed whenever a task is woken. Tests run one at a time. */
static struct {
	struct test_timeout	*p;
	struct tracepoint	*tracepoint;
	atomic_t		armed;		/* arms that succeeded */
} wakeup_arms;

static void arm_at_wakeup(void *data, struct task_struct *task)
{
	unsigned int i;

	for (i = 0; i < NR_ARMED; i++)
		if (!twheel_arm_after(&wakeup_arms.p[i].t, i % 4 * MS))
			atomic_inc(&wakeup_arms.armed);
}

static void find_tracepoint(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "sched_waking"))
		wakeup_arms.tracepoint = tp;
}

static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	const struct wakeup_kind *kind = test->param_value;
	struct twheel_params params = {
		.name = "kunit", .tick_ns = MS, .sink = kind->sink ? record_sink : NULL,
	};
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	wakeup_arms.p = create_timeouts_fn(test, NR_ARMED, kind->sink ? NULL : record_callback);
	atomic_set(&wakeup_arms.armed, 0);
	for_each_kernel_tracepoint(find_tracepoint, NULL);
	KUNIT_ASSERT_NOT_NULL(test, wakeup_arms.tracepoint);
	KUNIT_ASSERT_EQ(test, 0,
			tracepoint_probe_register(wakeup_arms.tracepoint, arm_at_wakeup, NULL));
	for (i = 0; i < 1000 && READ_ONCE(f->nr_fired) < 100; i++)
		msleep(20);
	tracepoint_probe_unregister(wakeup_arms.tracepoint, arm_at_wakeup, NULL);
	tracepoint_synchronize_unregister();
	for (i = 0; i < NR_ARMED; i++)
		twheel_shutdown(&wakeup_arms.p[i].t);
	KUNIT_EXPECT_GE(test, f->nr_fired, 100U);
	KUNIT_EXPECT_GE(test, (unsigned int)atomic_read(&wakeup_arms.armed), f->nr_fired);
}

#else

static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	kunit_skip(test, "the kernel has no tracepoints");
}

#endif

static struct kunit_case clock_cases[] = {
	KUNIT_CASE_PARAM(wheel_follows_its_clock, clock_gen_params),
	KUNIT_CASE_PARAM(relative_timeout_fires_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(due_timeout_fires_without_another_event, clock_gen_params),
	KUNIT_CASE_PARAM(earlier_timeout_fires_before_one_armed_first, clock_gen_params),
	KUNIT_CASE_PARAM(random_timeouts_fire_once_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(arm_works_with_interrupts_off, clock_gen_params),
	KUNIT_CASE_PARAM(arm_with_a_lock_of_the_scheduler_held_wakes_no_task,
			 wakeup_kind_gen_params),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "twheel-clock",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = clock_cases,
};

module_test_suite(clock_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels on running clocks");
MODULE_LICENSE("GPL");
