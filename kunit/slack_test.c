// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of slack. It compares the choice of a tick with a search. A timeout with
 * slack is never early, never later than its slack allows, and shares ticks with its
 * neighbours.
 */
#include <linux/module.h>

#include "../twheel_index.h"
#include "fixture.h"
#include "suite.h"

DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
#define ODD_TICK	3ULL
#define CLOCK_END	((u64)S64_MAX)

/* Choice of the tick */

/* The number of times that @tick can be halved; 64 for 0. */
static unsigned int halvings(u64 tick)
{
	unsigned int n = 0;

	if (!tick)
		return 64;
	while (ref_mod(tick, 2) == 0) {
		tick = div64_u64(tick, 2);
		n++;
	}
	return n;
}

static u64 search_tick(u64 lo, u64 hi)
{
	u64 best = lo, tick;

	for (tick = lo; tick <= hi; tick++)
		if (halvings(tick) > halvings(best))
			best = tick;
	return best;
}

static void round_tick_finds_what_a_search_finds(struct kunit *test)
{
	u64 lo, hi;

	for (lo = 0; lo < 270; lo++)
		for (hi = lo; hi < lo + 140; hi++)
			KUNIT_ASSERT_EQ_MSG(test, search_tick(lo, hi), twheel_round_tick(lo, hi),
					    "%llu to %llu", lo, hi);
}

static void round_tick_keeps_the_first_of_an_empty_range(struct kunit *test)
{
	u64 lo, hi;

	for (lo = 1; lo < 70; lo++)
		for (hi = 0; hi < lo; hi++)
			KUNIT_ASSERT_EQ(test, lo, twheel_round_tick(lo, hi));
}

struct slack_range {
	u64 lo, hi, tick;
};

static const struct slack_range ranges[] = {
	{ 0, 0, 0 },
	{ 0, CLOCK_END, 0 },
	{ 1, CLOCK_END, 1ULL << 62 },
	{ (1ULL << 62) - 1, 1ULL << 62, 1ULL << 62 },
	{ 1ULL << 62, CLOCK_END, 1ULL << 62 },
	{ (1ULL << 62) + 1, CLOCK_END, (1ULL << 62) + (1ULL << 61) },
	{ CLOCK_END - 1, CLOCK_END, CLOCK_END - 1 },
	{ CLOCK_END, CLOCK_END, CLOCK_END },
	{ (1ULL << 32) - 1, (1ULL << 32) + 1, 1ULL << 32 },
	{ (1ULL << 32) + 1, (1ULL << 32) + 2, (1ULL << 32) + 2 },
	{ (1ULL << 32) + 1, 3ULL << 31, 3ULL << 31 },
	{ 0xfedcba98ULL, 0xfedcbaffULL, 0xfedcbac0ULL },
	{ 0xfedcba80ULL, 0xfedcbaffULL, 0xfedcba80ULL },
};

static void range_desc(const struct slack_range *r, char *desc)
{
	sprintf(desc, "%llx to %llx", r->lo, r->hi);
}

KUNIT_ARRAY_PARAM(range, ranges, range_desc);

static void round_tick_of_large_ticks(struct kunit *test)
{
	const struct slack_range *r = test->param_value;

	KUNIT_EXPECT_EQ(test, r->tick, twheel_round_tick(r->lo, r->hi));
}

/* Ranges near every power of two, whose lengths are powers of two. */
static void round_tick_stays_in_its_range(struct kunit *test)
{
	unsigned int i, j;
	int d;

	for (i = 2; i < 62; i++) {
		for (j = 0; j < 62; j++) {
			for (d = -2; d <= 2; d++) {
				u64 lo = (1ULL << i) + d, hi = lo + (1ULL << j);
				u64 tick = twheel_round_tick(lo, hi);

				KUNIT_ASSERT_GE(test, tick, lo);
				KUNIT_ASSERT_LE(test, tick, hi);
				KUNIT_ASSERT_GE(test, halvings(tick), j);
			}
		}
	}
}

/* Overlapping ranges of the same length choose few different ticks. */
static void round_tick_brings_neighbours_together(struct kunit *test)
{
	u64 length, lo, tick, last;
	unsigned int n;

	for (length = 1; length < 200; length++) {
		u64 grain = 1ULL << (fls64(length + 1) - 1);

		for (lo = 1, n = 0, last = 0; lo <= 1024; lo++) {
			tick = twheel_round_tick(lo, lo + length);
			KUNIT_ASSERT_GE(test, tick, last);
			n += tick != last;
			last = tick;
		}
		KUNIT_ASSERT_LE(test, n, (unsigned int)div64_u64(1024 + length, grain) + 1);
	}
}

/* The wheel */

static const struct shape shapes[] = {
	{ 2, 1 }, { 8, 1 }, { 256, 1 }, { 2, 8 }, { 4, 3 }, { 256, 4 }, { 65536, 2 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static u64 ceil_tick(u64 ns)
{
	return div64_u64(ns + ODD_TICK - 1, ODD_TICK);
}

/* @p is in a tick of its window that is after the current tick. Returns the tick. */
static u64 expect_in_window(struct kunit *test, struct probe *p, u64 now_tick, u64 expires,
			    u64 slack)
{
	u64 first = max(ceil_tick(expires), now_tick + 1);
	u64 last = max(first, div64_u64(expires + slack, ODD_TICK));
	struct twheel_position pos;

	KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
	KUNIT_ASSERT_GE(test, pos.tick, first);
	KUNIT_ASSERT_LE(test, pos.tick, last);
	return pos.tick;
}

/*
 * Every deadline of some ticks, with every slack, from an advancing cursor. Wheels with
 * very many slots are slow to search, so only some deadlines and slacks are tested there.
 */
static void slack_is_kept_with_near_deadlines(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 expires, slack, now = 0, step = s->slots > 256 ? 7 : 1;
	struct probe *p;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (expires = 0; expires < 60; expires += step * stride) {
		for (slack = 0; slack < 60; slack += step) {
			u64 at = now * ODD_TICK + expires;

			KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, at, slack));
			now = expect_in_window(test, p, now, at, slack);
			expect_fires_at(test, p, now);
		}
	}
}

static void slack_is_kept_with_deadlines_of_every_level(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	u64 now = 0;
	u32 i, j;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (i = 0; i < SHAPE_BOUNDARIES(s->levels); i += stride) {
		for (j = 0; j < SHAPE_BOUNDARIES(s->levels); j++) {
			u64 at = (now + ref_boundary(s, i)) * ODD_TICK + 1;
			u64 slack = ref_boundary(s, j) * ODD_TICK + 1;

			if (ref_boundary(s, i) > CLOCK_END / 4096 ||
			    ref_boundary(s, j) > CLOCK_END / 4096)
				continue;
			KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, at, slack));
			now = expect_in_window(test, p, now, at, slack);
			expect_fires_at(test, p, now);
		}
	}
}

static void neighbours_share_ticks(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	unsigned int i, n;
	u64 last;

	manual_wheel(test, TICK, s->slots, s->levels);
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

static void slack_joins_a_tick_in_use(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, 2);
	arm_tick(test, &p[0], 37);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[1].t, 30 * TICK, 10 * TICK));
	advance_tick(test, 36);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired);
	advance_tick(test, 37);
	expect_fired_in_id_order(test, 2);
}

static void slack_does_not_join_a_tick_outside(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, 3);

	arm_tick(test, &p[0], 29);
	arm_tick(test, &p[2], 41);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[1].t, 30 * TICK, 10 * TICK));
	advance_tick(test, 29);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 2U, f->nr_fired);
	advance_tick(test, 41);
	expect_fired_in_id_order(test, 3);
}

static void mod_with_slack_joins_a_tick_in_use(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, 2);
	arm_tick(test, &p[0], 37);
	arm_tick(test, &p[1], 90);
	KUNIT_ASSERT_EQ(test, 1, twheel_mod_slack(&p[1].t, 30 * TICK, 10 * TICK));
	advance_tick(test, 36);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired);
	advance_tick(test, 37);
	expect_fired_in_id_order(test, 2);
}

static void mod_with_slack_arms_an_idle_timeout(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_mod_slack(&p->t, 33 * TICK, 20 * TICK));
	advance_tick(test, 47);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	advance_tick(test, 53);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void no_slack_is_a_plain_arm(struct kunit *test)
{
	struct probe *p;
	u64 i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	for (i = 1; i < 200; i += 3) {
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, i * TICK, 0));
		expect_fires_at(test, p, i);
	}
}

static void slack_below_a_tick_changes_nothing(struct kunit *test)
{
	struct probe *p;
	u64 i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	for (i = 1; i < 200; i += 3) {
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, i * TICK, TICK - 1));
		expect_fires_at(test, p, i);
	}
}

static void remaining_is_that_of_the_deadline(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, 33 * TICK + 7, 20 * TICK));
	KUNIT_EXPECT_EQ(test, 33 * TICK + 7, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_EQ(test, 33 * TICK + 7, p->t.expires);
}

static void slack_too_large_is_refused(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_slack(&p->t, TICK, CLOCK_END + 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_slack(&p->t, TICK, U64_MAX));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_slack(&p->t, CLOCK_END + 1, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod_slack(&p->t, TICK, CLOCK_END + 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod_slack(&p->t, CLOCK_END + 1, 0));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static void sum_past_the_end_of_the_clock_is_not_early(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, ODD_TICK, s->slots, s->levels);
	struct probe *p = probes(test, 3);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[0].t, CLOCK_END, CLOCK_END));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[1].t, CLOCK_END - 100, CLOCK_END));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[2].t, 1000, CLOCK_END));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 999));
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END - 101));
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 1U, p[2].fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
}

static void arm_slack_while_pending_is_refused(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, 20);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm_slack(&p->t, 10 * TICK, 5 * TICK));
	expect_fires_at(test, p, 20);
}

static void past_deadline_with_slack_fires_within_it(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	advance_tick(test, 100);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[0].t, 0, 50 * TICK));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[1].t, 95 * TICK, 10 * TICK));
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired);
	advance_tick(test, 101);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
	advance_tick(test, 105);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
}

static void timeout_with_slack_can_be_moved_and_cancelled(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, 30 * TICK, 10 * TICK));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, 33 * TICK));
	expect_fires_at(test, p, 33);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, 60 * TICK, 10 * TICK));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static struct kunit_case slack_cases[] = {
	KUNIT_CASE(round_tick_finds_what_a_search_finds),
	KUNIT_CASE(round_tick_keeps_the_first_of_an_empty_range),
	KUNIT_CASE_PARAM(round_tick_of_large_ticks, range_gen_params),
	KUNIT_CASE(round_tick_stays_in_its_range),
	KUNIT_CASE(round_tick_brings_neighbours_together),
	KUNIT_CASE_PARAM(slack_is_kept_with_near_deadlines, shape_gen_params),
	KUNIT_CASE_PARAM(slack_is_kept_with_deadlines_of_every_level, shape_gen_params),
	KUNIT_CASE_PARAM(neighbours_share_ticks, shape_gen_params),
	KUNIT_CASE(slack_joins_a_tick_in_use),
	KUNIT_CASE(slack_does_not_join_a_tick_outside),
	KUNIT_CASE(mod_with_slack_joins_a_tick_in_use),
	KUNIT_CASE(mod_with_slack_arms_an_idle_timeout),
	KUNIT_CASE(no_slack_is_a_plain_arm),
	KUNIT_CASE(slack_below_a_tick_changes_nothing),
	KUNIT_CASE(remaining_is_that_of_the_deadline),
	KUNIT_CASE(slack_too_large_is_refused),
	KUNIT_CASE_PARAM(sum_past_the_end_of_the_clock_is_not_early, shape_gen_params),
	KUNIT_CASE(arm_slack_while_pending_is_refused),
	KUNIT_CASE(past_deadline_with_slack_fires_within_it),
	KUNIT_CASE(timeout_with_slack_can_be_moved_and_cancelled),
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
