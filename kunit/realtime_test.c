// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels on CLOCK_REALTIME. It sets the wall clock forward and backward, and
 * corrects it after each case. Do not run it on a machine that is in use.
 *
 * A timeout that becomes due by a forward step must fire within MAX_WAIT, which is far shorter than
 * the step. No result depends on how long a call takes. The suite combination has all calls around
 * steps, on a clock that is simulated, and tools/tests/storms steps the clock of real wheels.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#include "fixture.h"
#include "wall.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define HOUR		(3600LL * NSEC_PER_SEC)
#define DAY		(24 * HOUR)
#define NR_TIMEOUTS	1000
#define MAX_ATTEMPTS	20

/* Wall clock minus monotonic clock, which cannot be stepped. */
static s64 clock_offset;

static int realtime_init(struct kunit *test)
{
	clock_offset = realtime_ns() - ktime_get_ns();
	/* Without a clock of the machine it is 1970, and the steps back need days. */
	set_realtime(realtime_ns() + 10 * DAY);
	return fixture_init(test);
}

static void realtime_exit(struct kunit *test)
{
	set_realtime(ktime_get_ns() + clock_offset);
	fixture_exit(test);
}

/**
 * struct wheel_kind - a wheel and its timeouts
 * @name: for the log
 * @sink: the wheel has a sink
 */
struct wheel_kind {
	const char	*name;
	bool		sink;
};

static const struct wheel_kind wheel_kinds[] = {
	{ "callbacks", false },
	{ "sink", true },
};

NAMED_PARAM(wheel_kind, wheel_kinds);

/* Make a wheel of @kind and @n timeouts. */
static struct test_timeout *create_tick_timeouts(struct kunit *test,
						 const struct wheel_kind *kind, u64 tick_ns,
						 unsigned int n)
{
	struct twheel_params params = {
		.name = "kunit-realtime", .clock = TWHEEL_REALTIME, .tick_ns = tick_ns,
		.sink = kind->sink ? record_sink : NULL,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return create_timeouts_fn(test, n, kind->sink ? NULL : record_callback);
}

/* @n timeouts fire, counted from the start of the test. */
static void expect_fired(struct kunit *test, unsigned int n)
{
	unsigned long end = jiffies + MAX_WAIT;
	struct fixture *f = test->priv;

	while (READ_ONCE(f->nr_fired) < n && time_before(jiffies, end))
		msleep(20);
	twheel_flush(f->wheel);
	KUNIT_ASSERT_EQ(test, n, f->nr_fired);
}

/* mdelay() alone is short if the machine stalled when it was calibrated. */
static void spin_until(u64 end_ns)
{
	do {
		mdelay(1);
	} while (ktime_get_real_ns() < end_ns);
}

/* No clock step */

/* The thread, which is for this CPU alone, cannot run until preempt_enable(). */
static void arm_leaves_the_hrtimer_of_a_queued_shard_alone(struct kunit *test)
{
	struct test_timeout *p = create_tick_timeouts(test, &wheel_kinds[0], TICK, 2);
	unsigned long end = jiffies + MAX_WAIT;
	struct twheel_counters stats;
	int ret;

	preempt_disable();
	ret = twheel_arm(&p[0].t, realtime_ns() + 2 * TICK);
	do {
		twheel_get_counters(p->f->wheel, &stats);
	} while (!stats.wakeups && time_before(jiffies, end));
	ret |= twheel_arm(&p[1].t, 0);
	/* An hrtimer that is set now interrupts this. */
	spin_until(realtime_ns() + 2 * NSEC_PER_MSEC);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, 0, ret);
	expect_fired(test, 2);
	twheel_get_counters(p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.wakeups);
}

/* A second may begin meanwhile: then there is one more expiry. */
static void late_hrtimer_fires_once_for_many_ticks(struct kunit *test)
{
	struct test_timeout *p = create_tick_timeouts(test, test->param_value, NSEC_PER_USEC,
						      NR_TIMEOUTS);
	struct twheel_counters stats;
	unsigned long flags;
	unsigned int i;
	int ret = 0;
	u64 now_ns;

	local_irq_save(flags);
	now_ns = ktime_get_real_ns();
	for (i = 0; i < NR_TIMEOUTS; i++)
		ret |= twheel_arm(&p[i].t, now_ns + i * NSEC_PER_USEC);
	spin_until(now_ns + 2 * NSEC_PER_MSEC);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, 0, ret);
	expect_fired(test, NR_TIMEOUTS);
	for (i = 0; i < NR_TIMEOUTS; i++)
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].t.expires);
	twheel_get_counters(p->f->wheel, &stats);
	KUNIT_EXPECT_LE(test, stats.wakeups, 3ULL);
}

/* A leap second may have been inserted in between. A stalled machine needs another attempt. */
static void late_hrtimer_does_not_fire_for_the_next_second(struct kunit *test)
{
	struct test_timeout *p = create_tick_timeouts(test, test->param_value, NSEC_PER_USEC, 2);
	struct twheel_counters before, after;
	unsigned int fired = 0;
	unsigned long flags;
	u64 second;
	int ret;

	do {
		twheel_get_counters(p->f->wheel, &before);
		local_irq_save(flags);
		second = div_u64(ktime_get_real_ns(), NSEC_PER_SEC) * NSEC_PER_SEC;
		ret = twheel_arm(&p[0].t, second - NSEC_PER_USEC);
		ret |= twheel_arm(&p[1].t, second);
		local_irq_restore(flags);
		KUNIT_EXPECT_EQ(test, 0, ret);
		fired += 2;
		expect_fired(test, fired);
		twheel_get_counters(p->f->wheel, &after);
	} while (realtime_ns() >= second + NSEC_PER_SEC && fired < 2 * MAX_ATTEMPTS);
	KUNIT_EXPECT_EQ(test, before.wakeups + 2, after.wakeups);
}

/* Steps */

#define LONG_TICK	(200 * TICK)

/**
 * struct step_case - a step forward to a timeout
 * @name: for the log
 * @beyond: ns from the timeout to the clock after the step
 * @move: the timeout is moved, instead of cancelled before the step
 */
struct step_case {
	const char	*name;
	s64		beyond;
	bool		move;
};

static const struct step_case step_cases[] = {
	{ "half a tick short of a cancelled timeout", -(s64)LONG_TICK / 2, false },
	{ "half a tick beyond a cancelled timeout", LONG_TICK / 2, false },
	{ "half a tick short of the timeout", -(s64)LONG_TICK / 2, true },
	{ "half a tick beyond the timeout", LONG_TICK / 2, true },
};

NAMED_PARAM(step_case, step_cases);

/*
 * The hrtimer is set for a timeout an hour ahead. A step forward leaves nothing of that hour. On
 * the CPU that makes it, an hrtimer that is due waits for the next timer interrupt. Before that,
 * a timeout is armed for the past. After the step back it must not wait for the hour. If the
 * timeout fires before it can be moved, it fires twice.
 */
static void timeout_for_the_past_armed_between_two_steps_is_not_late(struct kunit *test)
{
	u64 at = DIV64_U64_ROUND_UP(realtime_ns() + HOUR, LONG_TICK) * LONG_TICK;
	const struct step_case *step = test->param_value;
	struct twheel_params params = {
		.name = "kunit-realtime", .clock = TWHEEL_REALTIME, .tick_ns = LONG_TICK,
		.sink = record_sink,
	};
	struct test_timeout *p;
	int moved;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = create_timeouts_fn(test, 1, NULL);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, at));
	if (!step->move)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p->t));
	set_realtime(at + step->beyond);
	moved = twheel_mod(&p->t, at - 3 * DAY);
	set_realtime(realtime_ns() - 2 * DAY);
	expect_fired(test, step->move && !moved ? 2 : 1);
}

static struct kunit_case realtime_cases[] = {
	KUNIT_CASE(arm_leaves_the_hrtimer_of_a_queued_shard_alone),
	KUNIT_CASE_PARAM(late_hrtimer_fires_once_for_many_ticks, wheel_kind_gen_params),
	KUNIT_CASE_PARAM(late_hrtimer_does_not_fire_for_the_next_second, wheel_kind_gen_params),
	KUNIT_CASE_PARAM(timeout_for_the_past_armed_between_two_steps_is_not_late,
			 step_case_gen_params),
	{}
};

static struct kunit_suite realtime_suite = {
	.name = "twheel-realtime",
	.init = realtime_init,
	.exit = realtime_exit,
	.test_cases = realtime_cases,
};

module_test_suite(realtime_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels on a wall clock that is stepped");
MODULE_LICENSE("GPL");
