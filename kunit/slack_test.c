// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of slack. A timeout with slack is never early, never later than its slack allows,
 * and shares ticks with its neighbours. On CLOCK_REALTIME slack has no effect.
 */
#include <linux/ktime.h>
#include <linux/module.h>

#include "fixture.h"
#include "layout.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)

static void neighbours_share_ticks(struct kunit *test)
{
	struct probe *p;
	unsigned int i, n;
	u64 last;

	layout_wheel(test, TICK);
	p = probes(test, 1000);
	for (i = 0; i < 1000; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[i].t, (1000 + i) * TICK, 64 * TICK));
	for (i = 999; i <= 2100; i++)
		advance_tick(test, i);
	for (i = 0, n = 0, last = 0; i < 1000; i++) {
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
		KUNIT_ASSERT_GE(test, p[i].fired_ns, (1000 + i) * TICK);
		KUNIT_ASSERT_LE(test, p[i].fired_ns, (1064 + i) * TICK);
		n += p[i].fired_ns != last;
		last = p[i].fired_ns;
	}
	KUNIT_EXPECT_LE(test, n, 18U);
}

/*
 * Timeouts without slack are pending at two ticks. One with slack is armed for 30, or moved there
 * from @from if that is not 0. In the block of the cursor it joins a tick in use.
 */
static const struct join {
	u64 from, slack, used[2], tick;
} joins[] = {
	{ 0, 10 * TICK, { 37, 90 }, 37 },
	{ 90, 10 * TICK, { 37, 90 }, 37 },
	{ 90, 20 * TICK, { 29, 90 }, 32 },
	{ 0, 10 * TICK, { 29, 41 }, 32 },
	{ 0, 10 * TICK, { 40, 41 }, 40 },
	{ 0, 10 * TICK - 1, { 40, 41 }, 32 },
	{ 0, 10 * TICK, { 30, 31 }, 30 },
	{ 35, 10 * TICK, { 35, 36 }, 35 },
	{ 0, 0, { 31, 32 }, 30 },
	{ 90, TICK - 1, { 31, 32 }, 30 },
	{ 0, TICK, { 31, 32 }, 31 },
	{ 0, 1000 * TICK, { 41, 42 }, 1024 },	/* beyond the block of the cursor */
};

KUNIT_ARRAY_PARAM(join, joins, NULL);

static void slack_joins_a_tick_in_use(struct kunit *test)
{
	const struct join *j = test->param_value;
	struct twheel_position pos;
	unsigned int levels, i;
	struct probe *p;

	for (levels = 0; levels < 2; levels++) {
		fixture_exit(test);
		manual_wheel(test, TICK, 256, levels);
		p = probes(test, 3);
		for (i = 0; i < 2; i++)
			arm_tick(test, &p[i], j->used[i]);
		if (j->from)
			arm_tick(test, &p[2], j->from);
		KUNIT_ASSERT_EQ(test, j->from != 0, j->from ?
				twheel_mod_slack(&p[2].t, 30 * TICK, j->slack) :
				twheel_arm_slack(&p[2].t, 30 * TICK, j->slack));
		KUNIT_ASSERT_TRUE(test, twheel_position(&p[2].t, &pos));
		KUNIT_EXPECT_EQ(test, j->tick, pos.tick);
		expect_fires_at(test, &p[2], j->tick);
	}
}

/* The deadline is an hour away, so nothing fires, and twheel_next_expiry() shows the tick. */
static u64 next_expiry_with_slack(struct kunit *test, enum twheel_clock clock, u64 *expires)
{
	struct twheel_params params = { .name = "kunit", .clock = clock, .tick_ns = TICK };
	struct fixture *f = test->priv;
	struct probe *p;
	u64 hour = 3600ULL * NSEC_PER_SEC, next;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	p = probes(test, 1);
	/* An odd tick: slack chooses a later one. */
	*expires = (div64_u64(twheel_now(f->wheel) + hour, TICK) | 1) * TICK;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, *expires, hour));
	next = twheel_next_expiry(f->wheel);
	twheel_cancel(&p->t);
	KUNIT_ASSERT_EQ(test, 0, twheel_mod_slack(&p->t, *expires, hour));
	KUNIT_EXPECT_EQ(test, next, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod_slack(&p->t, *expires, hour));
	KUNIT_EXPECT_EQ(test, next, twheel_next_expiry(f->wheel));
	fixture_exit(test);
	return next;
}

static void slack_has_no_effect_on_realtime(struct kunit *test)
{
	u64 expires, next;

	next = next_expiry_with_slack(test, TWHEEL_REALTIME, &expires);
	KUNIT_EXPECT_EQ(test, expires, next);
	next = next_expiry_with_slack(test, TWHEEL_MONOTONIC, &expires);
	KUNIT_EXPECT_LT(test, expires, next);
}

static struct kunit_case slack_cases[] = {
	KUNIT_CASE_PARAM(neighbours_share_ticks, layout_gen_params),
	KUNIT_CASE_PARAM(slack_joins_a_tick_in_use, join_gen_params),
	KUNIT_CASE(slack_has_no_effect_on_realtime),
	{}
};

static struct kunit_suite slack_suite = {
	.name = "twheel-slack",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = slack_cases,
};

module_test_suite(slack_suite);

MODULE_DESCRIPTION("KUnit suite of timeouts that may be late");
MODULE_LICENSE("GPL");
