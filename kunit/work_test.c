// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of struct twheel_work, whose function runs on a workqueue and may sleep.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "fixture.h"

#define TICK		((u64)NSEC_PER_MSEC)

/* A timeout with a work under test. */
struct test_work {
	struct twheel_work	tw;
	struct gate		gate;		/* the function waits here */
	int			nr_runs;	/* number of runs */
	int			ret;		/* result of the arm in the function */
	struct helper		helper;
	bool			cancelled;	/* result of the helper's call */
};

static void test_work_fn(struct work_struct *work)
{
	struct test_work *p = container_of(work, struct test_work, tw.work);

	gate_wait_open(&p->gate);
	p->ret = twheel_arm(&p->tw.t, S64_MAX);
	p->nr_runs++;
}

static struct test_work *create_test_work(struct kunit *test)
{
	struct fixture *f = create_manual_wheel(test, TICK, 8, 2);
	struct test_work *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	gate_init(&p->gate);
	twheel_work_init(f->wheel, &p->tw, test_work_fn);
	return p;
}

static void arm(struct kunit *test, struct test_work *p, u64 tick)
{
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p->tw.t, tick * TICK));
}

/*
 * Cancelling. When the wheel is at tick 20, the function waits at the gate. From the beginning
 * of the call to its end each arm is refused, also that by the function.
 */
struct cancel_stage {
	const char	*name;
	u64		armed[2];	/* ticks that the timeout is armed for, first and again */
	u64		now;		/* tick of the wheel */
	bool		cancelled;	/* result of twheel_cancel_work_sync() */
};

static const struct cancel_stage cancel_stages[] = {
	{ "idle", { 0, 0 }, 0, false },
	{ "pending", { 20, 0 }, 0, true },
	{ "running", { 20, 0 }, 20, false },
	{ "running, armed again", { 20, 1000 }, 20, true },
	{ "running, queued again", { 20, 30 }, 30, true },
};

NAMED_PARAM(cancel_stage, cancel_stages);

static void cancel_in_helper(void *arg)
{
	struct test_work *p = arg;

	p->cancelled = twheel_cancel_work_sync(&p->tw);
}

static struct test_work *create_work_at_stage(struct kunit *test, const struct cancel_stage *s)
{
	struct test_work *p = create_test_work(test);

	if (s->armed[0])
		arm(test, p, s->armed[0]);
	advance_to_tick(test, min_t(u64, s->now, 20));
	if (s->now)
		gate_wait_reached(test, &p->gate);
	if (s->armed[1])
		arm(test, p, s->armed[1]);
	advance_to_tick(test, s->now);
	return p;
}

/*
 * Wait until the helper has taken the timeout out and refuses arms. An arm before that would be
 * what it takes out.
 */
static void wait_until_cancelling(struct kunit *test, struct test_work *p)
{
	unsigned long end = jiffies + MAX_WAIT;

	/* The call sets it under the lock of a shard, which tests cannot take. */
	while (!(data_race(p->tw.t.flags) & TWHEEL_T_ENDING) && time_before(jiffies, end))
		msleep(20);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p->tw.t, S64_MAX));
	KUNIT_EXPECT_FALSE(test, completion_done(&p->helper.done));
}

static void cancel_work_sync_takes_out_timeout_and_work(struct kunit *test)
{
	const struct cancel_stage *s = test->param_value;
	struct test_work *p = create_work_at_stage(test, s);

	helper_start(test, &p->helper, cancel_in_helper, p);
	if (s->now)
		wait_until_cancelling(test, p);
	complete_all(&p->gate.open);
	helper_finish(test, &p->helper);
	KUNIT_EXPECT_EQ(test, s->cancelled, p->cancelled);
	KUNIT_EXPECT_FALSE(test, work_busy(&p->tw.work));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->tw.t));
	KUNIT_EXPECT_EQ(test, s->now ? 1 : 0, p->nr_runs);
	KUNIT_EXPECT_EQ(test, s->now ? -ESHUTDOWN : 0, p->ret);
	arm(test, p, 2000);
	advance_to_tick(test, 2000);
	flush_work(&p->tw.work);
	KUNIT_EXPECT_EQ(test, s->now ? 2 : 1, p->nr_runs);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_work_sync(&p->tw));
}

/* Another task shuts the timeout down while the call waits for the function. */
static void shutdown_during_cancel_work_sync_is_for_good(struct kunit *test)
{
	struct test_work *p = create_work_at_stage(test, &cancel_stages[2]);

	helper_start(test, &p->helper, cancel_in_helper, p);
	wait_until_cancelling(test, p);
	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&p->tw.t));
	complete_all(&p->gate.open);
	helper_finish(test, &p->helper);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p->tw.t, 20 * TICK));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_work_sync(&p->tw));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p->tw.t, 20 * TICK));
}

static struct kunit_case work_cases[] = {
	KUNIT_CASE_PARAM(cancel_work_sync_takes_out_timeout_and_work, cancel_stage_gen_params),
	KUNIT_CASE(shutdown_during_cancel_work_sync_is_for_good),
	{}
};

static struct kunit_suite work_suite = {
	.name = "twheel-work",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = work_cases,
};

module_test_suite(work_suite);

MODULE_DESCRIPTION("KUnit suite of timeouts with a work");
MODULE_LICENSE("GPL");
