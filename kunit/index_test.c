// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the index arithmetic: rounding, clamping, levels, slots, blocks,
 * rounds, at every boundary. Pure functions: no wheel is made.
 *
 * Ticks and cursors are compared with the reference, in full for small wheels and
 * around the boundaries for large ones; what the reference would have to trust
 * (limits, overflow) stands in tables.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "../twheel_index.h"
#include "reference.h"
#include "suite.h"

#define DAY_NS		(24ULL * 3600 * NSEC_PER_SEC)
#define CLOCK_END	((u64)S64_MAX)

static struct twheel_geometry geometry(u32 slots, u32 levels)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, NSEC_PER_MSEC, slots, levels);
	return g;
}

/* Rounding */

struct rounding {
	u64 ns, tick_ns, floor, ceil;
};

static const struct rounding roundings[] = {
	{ 0, 1, 0, 0 },
	{ 0, NSEC_PER_MSEC, 0, 0 },
	{ 0, DAY_NS, 0, 0 },
	{ 1, 1, 1, 1 },
	{ 1, NSEC_PER_MSEC, 0, 1 },
	{ 999999, NSEC_PER_MSEC, 0, 1 },
	{ 1000000, NSEC_PER_MSEC, 1, 1 },
	{ 1000001, NSEC_PER_MSEC, 1, 2 },
	{ 20, 7, 2, 3 },
	{ 21, 7, 3, 3 },
	{ 22, 7, 3, 4 },
	{ DAY_NS - 1, DAY_NS, 0, 1 },
	{ DAY_NS, DAY_NS, 1, 1 },
	{ DAY_NS + 1, DAY_NS, 1, 2 },
	{ 1ULL << 32, 1ULL << 32, 1, 1 },
	{ (1ULL << 32) + 1, 1ULL << 32, 1, 2 },
	{ CLOCK_END, 1, CLOCK_END, CLOCK_END },
	{ CLOCK_END, 2, (1ULL << 62) - 1, 1ULL << 62 },
	{ CLOCK_END - 1, 2, (1ULL << 62) - 1, (1ULL << 62) - 1 },
	{ CLOCK_END, NSEC_PER_MSEC, 9223372036854ULL, 9223372036855ULL },
	{ 9223372036854000000ULL, NSEC_PER_MSEC, 9223372036854ULL, 9223372036854ULL },
	{ CLOCK_END, DAY_NS, 106751, 106752 },
};

static void rounding_desc(const struct rounding *r, char *desc)
{
	sprintf(desc, "%llu ns in ticks of %llu ns", r->ns, r->tick_ns);
}

KUNIT_ARRAY_PARAM(rounding, roundings, rounding_desc);

static void now_is_rounded_down(struct kunit *test)
{
	const struct rounding *r = test->param_value;

	KUNIT_EXPECT_EQ(test, r->floor, twheel_tick_floor(r->ns, r->tick_ns));
}

static void deadline_is_rounded_up(struct kunit *test)
{
	const struct rounding *r = test->param_value;

	KUNIT_EXPECT_EQ(test, r->ceil, twheel_tick_ceil(r->ns, r->tick_ns));
}

struct product {
	u64 tick, tick_ns, ns;
};

static const struct product products[] = {
	{ 0, DAY_NS, 0 },
	{ 1, 1, 1 },
	{ 1, NSEC_PER_MSEC, NSEC_PER_MSEC },
	{ 106751, DAY_NS, 106751 * DAY_NS },
	{ 106752, DAY_NS, CLOCK_END },
	{ 9223372036854ULL, NSEC_PER_MSEC, 9223372036854000000ULL },
	{ 9223372036855ULL, NSEC_PER_MSEC, CLOCK_END },
	{ CLOCK_END, 1, CLOCK_END },
	{ CLOCK_END + 1, 1, CLOCK_END },
	{ 1ULL << 61, 4, CLOCK_END },
	{ 1ULL << 61, 3, 3ULL << 61 },
	{ 1ULL << 62, 4, CLOCK_END },
	{ (1ULL << 62) + 1, 4, CLOCK_END },
	{ CLOCK_END, DAY_NS, CLOCK_END },
	{ U64_MAX, DAY_NS, CLOCK_END },
};

static void product_desc(const struct product *p, char *desc)
{
	sprintf(desc, "tick %llu of %llu ns", p->tick, p->tick_ns);
}

KUNIT_ARRAY_PARAM(product, products, product_desc);

static void tick_to_ns_stops_at_the_clocks_end(struct kunit *test)
{
	const struct product *p = test->param_value;

	KUNIT_EXPECT_EQ(test, p->ns, twheel_tick_to_ns(p->tick, p->tick_ns));
}

struct sum {
	u64 now, delta, sum;
};

static const struct sum sums[] = {
	{ 0, 0, 0 },
	{ 0, 1, 1 },
	{ 0, CLOCK_END, CLOCK_END },
	{ CLOCK_END, 0, CLOCK_END },
	{ 1, CLOCK_END, CLOCK_END },
	{ CLOCK_END, 1, CLOCK_END },
	{ CLOCK_END - 1, 1, CLOCK_END },
	{ CLOCK_END - 2, 1, CLOCK_END - 1 },
	{ CLOCK_END - 1, 2, CLOCK_END },
	{ 1ULL << 62, (1ULL << 62) - 1, CLOCK_END },
	{ 1ULL << 62, (1ULL << 62) - 2, CLOCK_END - 1 },
	{ 1ULL << 62, 1ULL << 62, CLOCK_END },
	{ CLOCK_END, CLOCK_END, CLOCK_END },
};

static void sum_desc(const struct sum *s, char *desc)
{
	sprintf(desc, "%llu + %llu", s->now, s->delta);
}

KUNIT_ARRAY_PARAM(sum, sums, sum_desc);

static void sum_is_clamped_to_the_clocks_end(struct kunit *test)
{
	const struct sum *s = test->param_value;

	KUNIT_EXPECT_EQ(test, s->sum, twheel_add_ns(s->now, s->delta));
}

/* Geometry */

struct request {
	u64 tick_ns;
	u32 slots, levels;
	bool valid;
};

static const struct request requests[] = {
	{ 0, 256, 4, false },
	{ 1, 256, 4, true },
	{ DAY_NS, 256, 4, true },
	{ DAY_NS + 1, 256, 4, false },
	{ U64_MAX, 256, 4, false },
	{ 1, 0, 4, false },
	{ 1, 1, 4, false },
	{ 1, 2, 4, true },
	{ 1, 3, 4, true },
	{ 1, 65536, 4, true },
	{ 1, 65537, 4, false },
	{ 1, U32_MAX, 4, false },
	{ 1, 256, 0, false },
	{ 1, 256, 1, true },
	{ 1, 256, 8, true },
	{ 1, 256, 9, false },
	{ 1, 256, U32_MAX, false },
};

static void request_desc(const struct request *r, char *desc)
{
	sprintf(desc, "tick %llu ns, %u slots, %u levels", r->tick_ns, r->slots, r->levels);
}

KUNIT_ARRAY_PARAM(request, requests, request_desc);

static void geometry_is_valid_within_its_limits(struct kunit *test)
{
	const struct request *r = test->param_value;

	KUNIT_EXPECT_EQ(test, r->valid, twheel_geometry_valid(r->tick_ns, r->slots, r->levels));
}

struct cut {
	struct shape asked, made;
	u32 bits;
};

static const struct cut cuts[] = {
	{ { 2, 1 }, { 2, 1 }, 1 },
	{ { 2, 8 }, { 2, 8 }, 1 },
	{ { 3, 1 }, { 4, 1 }, 2 },
	{ { 4, 3 }, { 4, 3 }, 2 },
	{ { 5, 3 }, { 8, 3 }, 3 },
	{ { 50, 1 }, { 64, 1 }, 6 },
	{ { 64, 2 }, { 64, 2 }, 6 },
	{ { 65, 2 }, { 128, 2 }, 7 },
	{ { 128, 8 }, { 128, 8 }, 7 },	/* 56 bits */
	{ { 256, 7 }, { 256, 7 }, 8 },	/* 56 bits */
	{ { 256, 8 }, { 256, 7 }, 8 },	/* 64 bits do not fit */
	{ { 512, 7 }, { 512, 7 }, 9 },	/* 63 bits just fit */
	{ { 512, 8 }, { 512, 7 }, 9 },
	{ { 1024, 8 }, { 1024, 6 }, 10 },
	{ { 32768, 8 }, { 32768, 4 }, 15 },
	{ { 32769, 4 }, { 65536, 3 }, 16 },
	{ { 65535, 8 }, { 65536, 3 }, 16 },
	{ { 65536, 8 }, { 65536, 3 }, 16 },
	{ { 65536, 3 }, { 65536, 3 }, 16 },
	{ { 65536, 1 }, { 65536, 1 }, 16 },
};

static void cut_desc(const struct cut *c, char *desc)
{
	shape_desc(&c->asked, desc);
}

KUNIT_ARRAY_PARAM(cut, cuts, cut_desc);

static void slots_are_rounded_up_to_a_power_of_two(struct kunit *test)
{
	const struct cut *c = test->param_value;
	struct twheel_geometry g = geometry(c->asked.slots, c->asked.levels);

	KUNIT_EXPECT_EQ(test, c->made.slots, g.slots);
	KUNIT_EXPECT_EQ(test, c->bits, (u32)g.bits);
	KUNIT_EXPECT_EQ(test, (u64)NSEC_PER_MSEC, g.tick_ns);
}

static void levels_beyond_the_clocks_end_are_not_made(struct kunit *test)
{
	const struct cut *c = test->param_value;
	struct twheel_geometry g = geometry(c->asked.slots, c->asked.levels);

	KUNIT_EXPECT_EQ(test, c->made.levels, (u32)g.levels);
	KUNIT_EXPECT_LE(test, g.levels * g.bits, 63);
}

static void level_mul_equals_division(struct kunit *test)
{
	u32 bits, bit;

	for (bits = 1; bits <= 16; bits++) {
		struct twheel_geometry g = geometry(1U << bits, TWHEEL_MAX_LEVELS);

		for (bit = 0; bit < 64; bit++)
			KUNIT_ASSERT_EQ_MSG(test, bit / bits, (bit * g.level_mul) >> 16,
					    "bit %u of %u", bit, bits);
	}
}

static void level_follows_the_highest_differing_bit(struct kunit *test)
{
	u32 bits, bit;

	for (bits = 1; bits <= 16; bits++) {
		struct twheel_geometry g = geometry(1U << bits, TWHEEL_MAX_LEVELS);
		u32 top = g.levels - 1;

		for (bit = 0; bit < 63; bit++) {
			u64 cursor = 0x2aaaaaaaaaaaaaaaULL;
			u64 highest = cursor ^ (1ULL << bit);
			u64 all_below = cursor ^ ((1ULL << bit << 1) - 1);
			u32 level = min(bit / bits, top);

			KUNIT_ASSERT_EQ(test, level, twheel_level(&g, highest, cursor));
			KUNIT_ASSERT_EQ(test, level, twheel_level(&g, all_below, cursor));
		}
	}
}

/* Positions */

struct place {
	struct shape shape;
	u64 cursor, tick;
	u32 level, slot;
	u64 rounds;
};

static const struct place places[] = {
	/* one level: all is rounds */
	{ { 8, 1 }, 0, 0, 0, 0, 0 },
	{ { 8, 1 }, 0, 7, 0, 7, 0 },
	{ { 8, 1 }, 0, 8, 0, 0, 0 },
	{ { 8, 1 }, 0, 9, 0, 1, 1 },
	{ { 8, 1 }, 2, 3, 0, 3, 0 },
	{ { 8, 1 }, 2, 10, 0, 2, 0 },
	{ { 8, 1 }, 2, 11, 0, 3, 1 },
	{ { 8, 1 }, 2, 52, 0, 4, 6 },
	{ { 2, 1 }, 0, 1, 0, 1, 0 },
	{ { 2, 1 }, 0, 2, 0, 0, 0 },
	{ { 2, 1 }, 1, CLOCK_END, 0, 1, (1ULL << 62) - 2 },
	/* the cursor decides, not the distance */
	{ { 8, 3 }, 0, 7, 0, 7, 0 },
	{ { 8, 3 }, 7, 8, 1, 1, 0 },
	{ { 8, 3 }, 8, 15, 0, 7, 0 },
	{ { 8, 3 }, 63, 64, 2, 1, 0 },
	{ { 8, 3 }, 62, 63, 0, 7, 0 },
	{ { 8, 3 }, 1, 63, 1, 7, 0 },
	/* beyond the top level */
	{ { 8, 3 }, 0, 511, 2, 7, 0 },
	{ { 8, 3 }, 0, 512, 2, 0, 0 },
	{ { 8, 3 }, 511, 512, 2, 0, 0 },
	{ { 8, 3 }, 0, 575, 2, 0, 0 },
	{ { 8, 3 }, 0, 576, 2, 1, 1 },
	{ { 8, 3 }, 64, 576, 2, 1, 0 },
	{ { 8, 3 }, 0, 1024, 2, 0, 1 },
	{ { 8, 3 }, 0, 1536, 2, 0, 2 },
	/* the default */
	{ { 256, 4 }, 0, 255, 0, 255, 0 },
	{ { 256, 4 }, 0, 256, 1, 1, 0 },
	{ { 256, 4 }, 0, 65535, 1, 255, 0 },
	{ { 256, 4 }, 0, 65536, 2, 1, 0 },
	{ { 256, 4 }, 0, 16777215, 2, 255, 0 },
	{ { 256, 4 }, 0, 16777216, 3, 1, 0 },
	{ { 256, 4 }, 0, U32_MAX, 3, 255, 0 },
	{ { 256, 4 }, 0, 1ULL << 32, 3, 0, 0 },
	{ { 256, 4 }, U32_MAX, 1ULL << 32, 3, 0, 0 },
	{ { 256, 4 }, 0, CLOCK_END, 3, 255, (1ULL << 31) - 1 },
	/* up to the last bit */
	{ { 512, 7 }, 0, CLOCK_END, 6, 511, 0 },
	{ { 65536, 3 }, 0, CLOCK_END, 2, 65535, 32767 },
	{ { 2, 8 }, 0, CLOCK_END, 7, 1, (1ULL << 55) - 1 },
	{ { 256, 7 }, CLOCK_END - 1, CLOCK_END, 0, 255, 0 },
	{ { 256, 7 }, CLOCK_END, CLOCK_END + 1, 6, 0, 0 },
};

static void place_desc(const struct place *p, char *desc)
{
	sprintf(desc, "%ux%u, tick %llu seen from %llu", p->shape.slots, p->shape.levels,
		p->tick, p->cursor);
}

KUNIT_ARRAY_PARAM(place, places, place_desc);

static void place_is_as_computed_by_hand(struct kunit *test)
{
	const struct place *p = test->param_value;
	struct twheel_geometry g = geometry(p->shape.slots, p->shape.levels);

	KUNIT_EXPECT_EQ(test, p->level, twheel_level(&g, p->tick, p->cursor));
	KUNIT_EXPECT_EQ(test, p->slot, twheel_slot(&g, p->tick, p->level));
	KUNIT_EXPECT_EQ(test, p->rounds, twheel_rounds_left(&g, p->tick, p->cursor));
}

static const struct shape small_shapes[] = {
	{ 2, 1 }, { 2, 2 }, { 2, 6 }, { 4, 1 }, { 4, 3 }, { 8, 1 }, { 8, 2 }, { 64, 1 },
};

KUNIT_ARRAY_PARAM(small_shape, small_shapes, shape_desc);

/* Turn the top level block by block, and count the visits that do not count. */
static u64 count_rounds(const struct shape *s, u64 tick, u64 cursor)
{
	u64 grain = ref_grain(s, s->levels - 1);
	u64 goal = div64_u64(tick, grain);
	u64 block = div64_u64(cursor, grain);
	u64 rounds = 0;

	while (++block < goal)
		rounds += ref_mod(block, s->slots) == ref_mod(goal, s->slots);
	return rounds;
}

static void place_equals_reference_for_all_ticks(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u64 cursor, tick;

	for (cursor = 0; cursor < 2 * ref_span(s); cursor++) {
		for (tick = cursor; tick < cursor + 3 * ref_span(s); tick++) {
			u32 level = ref_level(s, tick, cursor);

			KUNIT_ASSERT_EQ(test, level, twheel_level(&g, tick, cursor));
			KUNIT_ASSERT_EQ(test, ref_slot(s, tick, level),
					twheel_slot(&g, tick, level));
			KUNIT_ASSERT_EQ(test, count_rounds(s, tick, cursor),
					twheel_rounds_left(&g, tick, cursor));
			KUNIT_ASSERT_EQ(test, count_rounds(s, tick, cursor),
					ref_rounds(s, tick, cursor));
		}
	}
}

static const struct shape all_shapes[] = {
	{ 2, 1 }, { 2, 8 }, { 4, 1 }, { 4, 3 }, { 8, 3 }, { 32, 2 }, { 64, 5 }, { 256, 1 },
	{ 256, 4 }, { 256, 6 }, { 512, 6 }, { 4096, 4 }, { 65536, 1 }, { 65536, 2 },
};

KUNIT_ARRAY_PARAM(shape, all_shapes, shape_desc);

/* Calls @check for all boundaries of @s as distances from all boundaries. */
static void for_all_boundaries(struct kunit *test,
			       void (*check)(struct kunit *test, const struct shape *s,
					     const struct twheel_geometry *g,
					     u64 cursor, u64 tick))
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u32 i, j;

	for (i = 0; i < SHAPE_BOUNDARIES(s->levels); i++) {
		u64 cursor = ref_boundary(s, i);

		for (j = 0; j < SHAPE_BOUNDARIES(s->levels); j++)
			check(test, s, &g, cursor, cursor + ref_boundary(s, j));
	}
}

static void check_level(struct kunit *test, const struct shape *s,
			const struct twheel_geometry *g, u64 cursor, u64 tick)
{
	KUNIT_ASSERT_EQ_MSG(test, ref_level(s, tick, cursor), twheel_level(g, tick, cursor),
			    "tick %llu seen from %llu", tick, cursor);
}

static void level_equals_reference_at_boundaries(struct kunit *test)
{
	for_all_boundaries(test, check_level);
}

static void check_digits(struct kunit *test, const struct shape *s,
			 const struct twheel_geometry *g, u64 cursor, u64 tick)
{
	u32 top = s->levels - 1;
	u64 sum = twheel_block(g, tick, top) * ref_grain(s, top);
	u32 level;

	for (level = 0; level < top; level++)
		sum += twheel_slot(g, tick, level) * ref_grain(s, level);
	KUNIT_ASSERT_EQ(test, tick, sum);
	KUNIT_ASSERT_EQ(test, ref_slot(s, tick, top), twheel_slot(g, tick, top));
}

static void slots_are_the_digits_of_the_tick(struct kunit *test)
{
	for_all_boundaries(test, check_digits);
}

static void check_block_start(struct kunit *test, const struct shape *s,
			      const struct twheel_geometry *g, u64 cursor, u64 tick)
{
	u32 level;

	for (level = 0; level < s->levels; level++)
		KUNIT_ASSERT_EQ_MSG(test, tick - ref_mod(tick, ref_grain(s, level)),
				    twheel_block_start(g, tick, level),
				    "tick %llu on level %u", tick, level);
}

static void block_starts_at_a_multiple_of_its_size(struct kunit *test)
{
	for_all_boundaries(test, check_block_start);
}

/* Else it could not be moved down, or would fire late. */
static void check_block_is_ahead(struct kunit *test, const struct shape *s,
				 const struct twheel_geometry *g, u64 cursor, u64 tick)
{
	u64 start = twheel_block_start(g, tick, twheel_level(g, tick, cursor));

	KUNIT_ASSERT_LE(test, start, tick);
	if (tick > cursor)
		KUNIT_ASSERT_GT_MSG(test, start, cursor, "tick %llu seen from %llu",
				    tick, cursor);
}

static void block_of_a_later_tick_is_still_ahead(struct kunit *test)
{
	for_all_boundaries(test, check_block_is_ahead);
}

static void next_tick_after_a_full_revolution_is_one_level_up(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u32 level;

	for (level = 0; level < s->levels; level++) {
		u64 tick = ref_grain(s, level);

		KUNIT_EXPECT_EQ(test, level, twheel_level(&g, tick, tick - 1));
		KUNIT_EXPECT_EQ(test, 1U, twheel_slot(&g, tick, level));
	}
	KUNIT_EXPECT_EQ(test, s->levels - 1, twheel_level(&g, ref_span(s), ref_span(s) - 1));
}

static struct kunit_case index_cases[] = {
	KUNIT_CASE_PARAM(now_is_rounded_down, rounding_gen_params),
	KUNIT_CASE_PARAM(deadline_is_rounded_up, rounding_gen_params),
	KUNIT_CASE_PARAM(tick_to_ns_stops_at_the_clocks_end, product_gen_params),
	KUNIT_CASE_PARAM(sum_is_clamped_to_the_clocks_end, sum_gen_params),
	KUNIT_CASE_PARAM(geometry_is_valid_within_its_limits, request_gen_params),
	KUNIT_CASE_PARAM(slots_are_rounded_up_to_a_power_of_two, cut_gen_params),
	KUNIT_CASE_PARAM(levels_beyond_the_clocks_end_are_not_made, cut_gen_params),
	KUNIT_CASE(level_mul_equals_division),
	KUNIT_CASE(level_follows_the_highest_differing_bit),
	KUNIT_CASE_PARAM(place_is_as_computed_by_hand, place_gen_params),
	KUNIT_CASE_PARAM(place_equals_reference_for_all_ticks, small_shape_gen_params),
	KUNIT_CASE_PARAM(level_equals_reference_at_boundaries, shape_gen_params),
	KUNIT_CASE_PARAM(slots_are_the_digits_of_the_tick, shape_gen_params),
	KUNIT_CASE_PARAM(block_starts_at_a_multiple_of_its_size, shape_gen_params),
	KUNIT_CASE_PARAM(block_of_a_later_tick_is_still_ahead, shape_gen_params),
	KUNIT_CASE_PARAM(next_tick_after_a_full_revolution_is_one_level_up, shape_gen_params),
	{}
};

static struct kunit_suite index_suite = {
	.name = "twheel-index",
	.test_cases = index_cases,
};

module_test_suite(index_suite);

MODULE_DESCRIPTION("KUnit suite of the timing wheel's index arithmetic");
MODULE_LICENSE("GPL");
