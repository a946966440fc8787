// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of places and ticks: where a timeout lies and when it fires, from every phase at
 * every distance near a boundary, and in the worked examples of the literature. Each runs on
 * hierarchies and on hashed wheels. The suite combination has all else, in random programs.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "fixture.h"
#include "suite.h"

#define MS		((u64)NSEC_PER_MSEC)
#define CLOCK_END	((u64)S64_MAX)

/*
 * Reference implementation of the index arithmetic. It follows the definitions, with divisions and
 * loops in place of shifts and masks, and shares no code with the engine. So the tests overlook a
 * mistake only if both make it.
 */

/*
 * A wheel, as the parameter of a test: slots of level 0, a power of two, and 1 for a hashed
 * wheel, or how many levels of a hierarchy the test reaches.
 */
struct layout {
	u32	slots;
	u32	levels;
};

static void layout_desc(const struct layout *s, char *desc)
{
	sprintf(desc, "%u slots, %u levels", s->slots, s->levels);
}

static u64 ref_mod(u64 a, u64 b)
{
	u64 rest;

	div64_u64_rem(a, b, &rest);
	return rest;
}

/* Number of slots of @level in one block of the level above. */
static u32 ref_slots_per_block(const struct layout *s, u32 level)
{
	return level ? 64 : s->slots;
}

/* Number of ticks that a slot of @level covers, at most 2^63. */
static u64 ref_slot_ticks(const struct layout *s, u32 level)
{
	u64 ticks = 1;
	u32 i;

	for (i = 0; i < level; i++) {
		if (ticks > div64_u64(1ULL << 63, ref_slots_per_block(s, i)))
			return 1ULL << 63;
		ticks *= ref_slots_per_block(s, i);
	}
	return ticks;
}

/* Each level of a hierarchy has slots for two blocks: that of the cursor and the next one. */
static u32 ref_nr_slots(const struct layout *s, u32 level)
{
	return s->levels == 1 ? s->slots : 2 * ref_slots_per_block(s, level);
}

static u32 ref_slot(const struct layout *s, u64 tick, u32 level)
{
	return ref_mod(div64_u64(tick, ref_slot_ticks(s, level)), ref_nr_slots(s, level));
}

/* The lowest level of which one block of the level above contains both ticks. */
static u32 ref_level(const struct layout *s, u64 tick, u64 cursor)
{
	u32 level = 0;

	while (s->levels > 1 && div64_u64(tick, ref_slot_ticks(s, level + 1)) !=
				div64_u64(cursor, ref_slot_ticks(s, level + 1)))
		level++;
	return level;
}

/*
 * The @i-th tick near the boundaries of the levels. With g the ticks of a level and n its
 * slots, these are g, 2 * g and (n - 1) * g, each with both neighbours.
 */
static u64 ref_boundary(const struct layout *s, u32 i)
{
	u64 multiple[] = { 1, 2, ref_slots_per_block(s, i / 9) - 1 };

	return ref_slot_ticks(s, i / 9) * multiple[i / 3 % 3] + i % 3 - 1;
}

/* Hashed wheels first; the hierarchies have all their levels. */
static const struct layout layouts[] = {
	{ 2, 1 }, { 256, 1 }, { 65536, 1 }, { 2, 12 }, { 8, 12 }, { 256, 11 }, { 65536, 9 },
};

KUNIT_ARRAY_PARAM(layout, layouts, layout_desc);

/* The number of boundaries that the clock reaches. */
static u32 nr_boundaries(const struct layout *s)
{
	return 9 * (s->levels == 1 ? 9 : s->levels);
}

static u64 boundary(const struct layout *s, u32 i)
{
	return min(ref_boundary(s, i), CLOCK_END);
}

/* The same as a distance: at least 1. */
static u64 boundary_distance(const struct layout *s, u32 i)
{
	return boundary(s, i) ?: 1;
}

/* A wheel with the layout of the test, in place of the one before. */
static struct fixture *create_layout_wheel(struct kunit *test)
{
	const struct layout *s = test->param_value;

	fixture_exit(test);
	return create_manual_wheel(test, 1, s->slots, s->levels);
}

/*
 * Advance to the next tick after @now with the low digits of @phase. If the clock ends less than
 * @distance later, begin with a new wheel and an idle @p.
 */
static u64 advance_to_phase(struct kunit *test, struct test_timeout *p, u64 now, u64 phase,
			    u64 distance)
{
	u64 unit = 1ULL << fls64(phase + 1), cursor = (now | (unit - 1)) + 1 + phase;

	if (cursor > CLOCK_END - distance) {
		create_layout_wheel(test);
		twheel_timeout_init(p->f->wheel, &p->t, record_callback);
		cursor = phase;
	}
	advance_to_tick(test, cursor);
	return cursor;
}

static void expect_position(struct kunit *test, struct test_timeout *p, u64 cursor)
{
	const struct layout *s = test->param_value;
	u32 level = ref_level(s, p->tick, cursor);
	struct twheel_position pos;

	KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
	KUNIT_ASSERT_EQ(test, p->tick, pos.tick);
	KUNIT_ASSERT_EQ(test, level, pos.level);
	KUNIT_ASSERT_EQ(test, ref_slot(s, p->tick, level), pos.slot);
}

static void fires_at_its_tick_from_every_phase_at_every_distance(struct kunit *test)
{
	const struct layout *s = test->param_value;
	struct fixture *f = create_layout_wheel(test);
	struct test_timeout *p = create_timeouts(test, 1);
	u64 phase, distance, now = 0;
	u32 i, j;

	for (i = 0; i < nr_boundaries(s); i++) {
		phase = boundary(s, i);
		for (j = 1; j < nr_boundaries(s); j++) {
			distance = boundary_distance(s, j);
			if (phase > CLOCK_END - distance)
				break;
			now = advance_to_phase(test, p, now, phase, distance);
			arm_at_tick(test, p, now + distance);
			expect_position(test, p, now);
			now += distance;
			KUNIT_ASSERT_EQ(test, now, twheel_next_expiry(f->wheel));
			expect_fires_at_tick(test, p, now);
		}
		cond_resched();
	}
}

/*
 * Examples of the literature. The number of slots is a power of two here, and levels above level 0
 * have 64. So the examples with 20 slots are calculated again for 16 and 32. A level is chosen by
 * digits, not by distance. A level of a hierarchy has the slots of two blocks: slot 16 + 14 is
 * slot 14 of an odd block.
 */

/**
 * struct example - a delay, and where the timeout lies at which tick
 * @slots: of level 0
 * @start: cursor when it is armed
 * @delay: in ticks
 * @positions: the tick, the level and the slot in a hierarchy; in a hashed wheel the slot stays
 */
struct example {
	u32 slots;
	u64 start, delay;
	struct { u64 now; u32 level, slot; } positions[6];
};

static const struct example examples[] = {
	{ 8, 2, 50, { { 2, 1, 6 }, { 44, 1, 6 }, { 47, 1, 6 }, { 48, 0, 4 }, { 51, 0, 4 } } },
	{ 32, 0, 350, { { 0, 1, 10 }, { 319, 1, 10 }, { 320, 0, 30 }, { 349, 0, 30 } } },
	{ 32, 0, 450, { { 0, 1, 14 }, { 447, 1, 14 }, { 448, 0, 2 }, { 449, 0, 2 } } },
	{ 16, 0, 350, { { 0, 1, 21 }, { 335, 1, 21 }, { 336, 0, 16 + 14 }, { 349, 0, 16 + 14 } } },
	{ 16, 0, 450, { { 0, 1, 28 }, { 447, 1, 28 }, { 448, 0, 2 }, { 449, 0, 2 } } },
	{ 8, 0, 511, { { 0, 1, 63 }, { 503, 1, 63 }, { 504, 0, 8 + 7 }, { 510, 0, 8 + 7 } } },
	{ 8, 0, 512, { { 0, 2, 1 }, { 63, 2, 1 }, { 511, 2, 1 } } },
	{ 8, 0, 1100, { { 0, 2, 2 }, { 1023, 2, 2 }, { 1024, 1, 9 }, { 1095, 1, 9 },
			{ 1096, 0, 8 + 4 }, { 1099, 0, 8 + 4 } } },
	{ 64, 1, 50, { { 1, 0, 51 }, { 50, 0, 51 } } },
	{ 64, 1, 114, { { 1, 1, 1 }, { 63, 1, 1 }, { 64, 0, 64 + 51 }, { 114, 0, 64 + 51 } } },
};

KUNIT_ARRAY_PARAM(example, examples, NULL);

static void check_example(struct kunit *test, unsigned int levels)
{
	const struct example *e = test->param_value;
	struct twheel_position pos;
	struct test_timeout *p;
	unsigned int i;

	create_manual_wheel(test, MS, e->slots, levels);
	p = create_timeouts(test, 1);
	advance_to_tick(test, e->start);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, e->delay * MS));
	for (i = 0; i < ARRAY_SIZE(e->positions) && (!i || e->positions[i].now); i++) {
		advance_to_tick(test, e->positions[i].now);
		KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
		KUNIT_EXPECT_EQ(test, e->start + e->delay, pos.tick);
		KUNIT_EXPECT_EQ_MSG(test, levels == 1 ? 0 : e->positions[i].level, pos.level,
				    "at %llu", e->positions[i].now);
		KUNIT_EXPECT_EQ_MSG(test, levels == 1 ? (u32)(e->start + e->delay) % e->slots :
				    e->positions[i].slot, pos.slot, "at %llu", e->positions[i].now);
	}
	expect_fires_at_tick(test, p, e->start + e->delay);
}

static void example_of_a_hierarchy(struct kunit *test)
{
	check_example(test, 0);
}

static void example_of_a_hashed_wheel(struct kunit *test)
{
	check_example(test, 1);
}

static struct kunit_case expiry_cases[] = {
	KUNIT_CASE_PARAM(fires_at_its_tick_from_every_phase_at_every_distance, layout_gen_params),
	KUNIT_CASE_PARAM(example_of_a_hierarchy, example_gen_params),
	KUNIT_CASE_PARAM(example_of_a_hashed_wheel, example_gen_params),
	{}
};

static struct kunit_suite expiry_suite = {
	.name = "twheel-expiry",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = expiry_cases,
};

module_test_suite(expiry_suite);

MODULE_DESCRIPTION("KUnit suite of where timeouts lie and when they fire");
MODULE_LICENSE("GPL");
