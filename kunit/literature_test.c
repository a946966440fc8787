// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the worked examples that the literature uses to explain timing wheels.
 *
 * The number of slots per level is a power of two here, so the examples with 20 slots are
 * calculated again for 16 and 32. A level is chosen by digits, not by distance. This makes
 * no difference at cursor 0, where the examples begin. A level below the top has two slots
 * for each slot of the literature, one for even and one for odd revolutions: "8 + 7" is
 * slot 7 of 8.
 */
#include <linux/module.h>

#include "fixture.h"
#include "suite.h"

#define MS	((u64)NSEC_PER_MSEC)
#define SEC	((u64)NSEC_PER_SEC)

/* Where the timeout must be when the time of the wheel has reached tick @now. */
struct stop {
	u64 now;
	u32 level, slot;
	u64 rounds;
};

static void expect_stops(struct kunit *test, struct probe *p, const struct stop *stops,
			 unsigned int n)
{
	struct twheel_position pos;
	unsigned int i;

	for (i = 0; i < n; i++) {
		advance_tick(test, stops[i].now);
		KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
		KUNIT_EXPECT_EQ_MSG(test, stops[i].level, pos.level, "at %llu", stops[i].now);
		KUNIT_EXPECT_EQ_MSG(test, stops[i].slot, pos.slot, "at %llu", stops[i].now);
		KUNIT_EXPECT_EQ_MSG(test, stops[i].rounds, pos.rounds, "at %llu", stops[i].now);
	}
}

/*
 * The hashed wheel: 8 slots of 1 s, cursor 2, a delay of 50 s. The timeout is in slot (2 +
 * 50) % 8 = 4. The cursor passes this slot 6 times, at 4, 12, .. 44.
 */
static void hashed_wheel_8_slots_cursor_2_delay_50s(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 2, 0, 4, 6 }, { 3, 0, 4, 6 }, { 4, 0, 4, 5 }, { 11, 0, 4, 5 },
		{ 12, 0, 4, 4 }, { 20, 0, 4, 3 }, { 28, 0, 4, 2 }, { 36, 0, 4, 1 },
		{ 43, 0, 4, 1 }, { 44, 0, 4, 0 }, { 51, 0, 4, 0 },
	};
	struct probe *p;

	manual_wheel(test, SEC, 8, 1);
	p = probes(test, 1);
	advance_tick(test, 2);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 50 * SEC));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 52);
}

/* 350 = 10 * 32 + 30: level 1, slot 10; from 320 on level 0, slot 30. */
static void hierarchy_of_32_slots_350ms(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 1, 10, 0 }, { 319, 1, 10, 0 }, { 320, 0, 30, 0 }, { 349, 0, 30, 0 },
	};
	struct probe *p;

	manual_wheel(test, MS, 32, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 350 * MS));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 350);
}

/* 450 = 14 * 32 + 2: level 1, slot 14; from 448 on level 0, slot 2. */
static void hierarchy_of_32_slots_450ms(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 1, 14, 0 }, { 447, 1, 14, 0 }, { 448, 0, 2, 0 }, { 449, 0, 2, 0 },
	};
	struct probe *p;

	manual_wheel(test, MS, 32, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 450 * MS));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 450);
}

/* With 16 slots it cascades twice: 350 = 1 * 256 + 5 * 16 + 14. */
static void hierarchy_of_16_slots_350ms(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 2, 1, 0 }, { 255, 2, 1, 0 }, { 256, 1, 16 + 5, 0 }, { 335, 1, 16 + 5, 0 },
		{ 336, 0, 16 + 14, 0 }, { 349, 0, 16 + 14, 0 },
	};
	struct probe *p;

	manual_wheel(test, MS, 16, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 350 * MS));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 350);
}

/* 450 = 1 * 256 + 12 * 16 + 2: first on level 2 in slot 1, as in the literature. */
static void hierarchy_of_16_slots_450ms(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 2, 1, 0 }, { 255, 2, 1, 0 }, { 256, 1, 16 + 12, 0 }, { 447, 1, 16 + 12, 0 },
		{ 448, 0, 2, 0 }, { 449, 0, 2, 0 },
	};
	struct probe *p;

	manual_wheel(test, MS, 16, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 450 * MS));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 450);
}

/* The first timeout cascades while the second stays, and each fires at its deadline. */
static void hierarchy_moves_only_what_is_due_to_move(struct kunit *test)
{
	static const struct stop first[] = { { 0, 1, 10, 0 }, { 320, 0, 30, 0 } };
	static const struct stop second[] = { { 320, 1, 14, 0 }, { 350, 1, 14, 0 } };
	struct probe *p;

	manual_wheel(test, MS, 32, 3);
	p = probes(test, 2);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[0].t, 350 * MS));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[1].t, 450 * MS));
	expect_stops(test, &p[0], first, ARRAY_SIZE(first));
	expect_stops(test, &p[1], second, ARRAY_SIZE(second));
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
	expect_fires_at(test, &p[1], 450);
}

/*
 * Three levels of 8 slots of 1 s reach to 511 s. A delay of 512 s is the first that does
 * not fit. It waits on the top level, in slot 0, which the cursor enters next at 512 s.
 */
static void three_levels_of_8_slots_512s(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 2, 0, 0 }, { 63, 2, 0, 0 }, { 64, 2, 0, 0 }, { 511, 2, 0, 0 },
	};
	struct probe *p;

	manual_wheel(test, SEC, 8, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 512 * SEC));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 512);
}

static void three_levels_of_8_slots_511s(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 2, 7, 0 }, { 447, 2, 7, 0 }, { 448, 1, 8 + 7, 0 }, { 503, 1, 8 + 7, 0 },
		{ 504, 0, 8 + 7, 0 }, { 510, 0, 8 + 7, 0 },
	};
	struct probe *p;

	manual_wheel(test, SEC, 8, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 511 * SEC));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 511);
}

/* 1100 = 2 * 512 + 1 * 64 + 1 * 8 + 4: top level, slot 1, two rounds, then cascades. */
static void three_levels_of_8_slots_1100s_take_two_rounds(struct kunit *test)
{
	static const struct stop stops[] = {
		{ 0, 2, 1, 2 }, { 63, 2, 1, 2 }, { 64, 2, 1, 1 }, { 575, 2, 1, 1 },
		{ 576, 2, 1, 0 }, { 1087, 2, 1, 0 }, { 1088, 1, 8 + 1, 0 }, { 1095, 1, 8 + 1, 0 },
		{ 1096, 0, 8 + 4, 0 }, { 1099, 0, 8 + 4, 0 },
	};
	struct probe *p;

	manual_wheel(test, SEC, 8, 3);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 1100 * SEC));
	expect_stops(test, p, stops, ARRAY_SIZE(stops));
	expect_fires_at(test, p, 1100);
}

/* 50 slots become 64: a delay of 50 needs no round, a delay of 64 + 50 needs one. */
static void fifty_slots_become_64(struct kunit *test)
{
	static const struct stop near[] = { { 1, 0, 51, 0 }, { 50, 0, 51, 0 } };
	static const struct stop far[] = { { 50, 0, 51, 1 }, { 51, 0, 51, 0 } };
	struct fixture *f = manual_wheel(test, MS, 50, 1);
	struct probe *p = probes(test, 2);
	struct twheel_params params;

	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_EQ(test, 64U, params.slots);
	advance_tick(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[0].t, 50 * MS));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[1].t, (64 + 50) * MS));
	expect_stops(test, &p[0], near, ARRAY_SIZE(near));
	expect_stops(test, &p[1], far, ARRAY_SIZE(far));
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
	expect_fires_at(test, &p[1], 115);
}

static struct kunit_case literature_cases[] = {
	KUNIT_CASE(hashed_wheel_8_slots_cursor_2_delay_50s),
	KUNIT_CASE(hierarchy_of_32_slots_350ms),
	KUNIT_CASE(hierarchy_of_32_slots_450ms),
	KUNIT_CASE(hierarchy_of_16_slots_350ms),
	KUNIT_CASE(hierarchy_of_16_slots_450ms),
	KUNIT_CASE(hierarchy_moves_only_what_is_due_to_move),
	KUNIT_CASE(three_levels_of_8_slots_512s),
	KUNIT_CASE(three_levels_of_8_slots_511s),
	KUNIT_CASE(three_levels_of_8_slots_1100s_take_two_rounds),
	KUNIT_CASE(fifty_slots_become_64),
	{}
};

static struct kunit_suite literature_suite = {
	.name = "twheel-literature",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = literature_cases,
};

module_test_suite(literature_suite);

MODULE_DESCRIPTION("KUnit suite of the literature's examples of timing wheels");
MODULE_LICENSE("GPL");
