// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the index arithmetic at every boundary: rounding, clamping, levels, slots,
 * blocks, rounds and early cascades. These functions are pure, so no wheel is made.
 *
 * Ticks and cursors are compared with the reference: all of them for small wheels, those
 * around the boundaries for large ones. Limits and overflow, which the reference does not
 * check, are listed in tables.
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

/* The geometry of a wheel with ticks of @tick_ns; slots and levels do not matter. */
static struct twheel_geometry ticks(u64 tick_ns)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, tick_ns, 256, 4);
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
	struct twheel_geometry g = ticks(r->tick_ns);

	KUNIT_EXPECT_EQ(test, r->floor, twheel_tick_floor(&g, r->ns));
}

static void deadline_is_rounded_up(struct kunit *test)
{
	const struct rounding *r = test->param_value;
	struct twheel_geometry g = ticks(r->tick_ns);

	KUNIT_EXPECT_EQ(test, r->ceil, twheel_tick_ceil(&g, r->ns));
}

/* Powers of two and their neighbours, primes, factors of 2^64 - 1 and 2^64 + 1, usual ticks. */
static const u64 lengths[] = {
	1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 16, 17, 97, 127, 128, 129, 255, 256, 257, 641,
	1000, 1009, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 99991,
	NSEC_PER_MSEC - 1, NSEC_PER_MSEC, NSEC_PER_MSEC + 1, 1000003,
	(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 4 * NSEC_PER_MSEC, 6700417, 10 * NSEC_PER_MSEC,
	NSEC_PER_SEC - 1, NSEC_PER_SEC, NSEC_PER_SEC + 1, 1000000007,
	S32_MAX, 1ULL << 31, (1ULL << 31) + 1, U32_MAX, 1ULL << 32, (1ULL << 32) + 1,
	(1ULL << 40) - 1, 1ULL << 40, (1ULL << 40) + 1, 3600 * (u64)NSEC_PER_SEC,
	(1ULL << 46) - 1, 1ULL << 46, (1ULL << 46) + 1, 67280421310721ULL,
	DAY_NS - 1, DAY_NS,
};

static void length_desc(const u64 *tick_ns, char *desc)
{
	sprintf(desc, "ticks of %llu ns", *tick_ns);
}

KUNIT_ARRAY_PARAM(length, lengths, length_desc);

static void check_division(struct kunit *test, const struct twheel_geometry *g, u64 ns)
{
	u64 quotient = div64_u64(ns, g->tick_ns), remainder = ns - quotient * g->tick_ns;
	u64 rest, tick = twheel_divide(g, ns, &rest);

	KUNIT_ASSERT_EQ_MSG(test, quotient, tick, "%llu ns", ns);
	KUNIT_ASSERT_EQ_MSG(test, remainder, rest, "%llu ns", ns);
	KUNIT_ASSERT_EQ(test, quotient, twheel_tick_floor(g, ns));
	KUNIT_ASSERT_EQ(test, quotient + (remainder != 0), twheel_tick_ceil(g, ns));
}

/* Check @ns, the last multiple of a tick up to @ns, and the neighbours of this multiple. */
static void check_divisions_near(struct kunit *test, const struct twheel_geometry *g, u64 ns)
{
	u64 multiple = ns - ref_mod(ns, g->tick_ns);

	check_division(test, g, ns);
	check_division(test, g, multiple);
	check_division(test, g, multiple + 1);
	if (multiple)
		check_division(test, g, multiple - 1);
}

/* Times around each power of two, at the start of the clock, at its end and at U64_MAX. */
static void multiplication_equals_division_at_boundaries(struct kunit *test)
{
	struct twheel_geometry g = ticks(*(const u64 *)test->param_value);
	u32 bit, factor;

	for (bit = 0; bit < 64; bit++) {
		check_divisions_near(test, &g, (1ULL << bit) - 1);
		check_divisions_near(test, &g, 1ULL << bit);
	}
	for (factor = 1; factor < 100; factor++) {
		check_divisions_near(test, &g, factor * g.tick_ns);
		check_divisions_near(test, &g, CLOCK_END - factor * g.tick_ns);
		check_divisions_near(test, &g, U64_MAX - factor * g.tick_ns);
	}
	check_divisions_near(test, &g, CLOCK_END);
	check_division(test, &g, U64_MAX);
}

/* Times from a linear congruential generator. */
static void multiplication_equals_division_in_between(struct kunit *test)
{
	struct twheel_geometry g = ticks(*(const u64 *)test->param_value);
	u64 ns = g.tick_ns;
	u32 i;

	for (i = 0; i < 10000; i++) {
		ns = ns * 6364136223846793005ULL + 1442695040888963407ULL;
		check_divisions_near(test, &g, ns >> (i & 1));
	}
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
	struct twheel_geometry g = ticks(p->tick_ns);

	KUNIT_EXPECT_EQ(test, p->ns, twheel_tick_to_ns(&g, p->tick));
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

struct asked {
	u64 tick_ns;
	u32 slots, levels;
	bool valid;
};

static const struct asked requests[] = {
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

static void asked_desc(const struct asked *r, char *desc)
{
	sprintf(desc, "tick %llu ns, %u slots, %u levels", r->tick_ns, r->slots, r->levels);
}

KUNIT_ARRAY_PARAM(asked, requests, asked_desc);

static void geometry_is_valid_within_its_limits(struct kunit *test)
{
	const struct asked *r = test->param_value;

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
	/* one level: everything beyond a revolution is in rounds */
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
	/* the level depends on the cursor, not on the distance alone */
	{ { 8, 3 }, 0, 7, 0, 7, 0 },
	{ { 8, 3 }, 7, 8, 1, 1, 0 },
	{ { 8, 3 }, 8, 15, 0, 15, 0 },
	{ { 8, 3 }, 16, 17, 0, 1, 0 },
	{ { 8, 3 }, 63, 64, 2, 1, 0 },
	{ { 8, 3 }, 62, 63, 0, 15, 0 },
	{ { 8, 3 }, 1, 63, 1, 7, 0 },
	{ { 8, 3 }, 64, 127, 1, 15, 0 },
	{ { 8, 3 }, 128, 136, 1, 1, 0 },
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
	{ { 256, 7 }, CLOCK_END - 1, CLOCK_END, 0, 511, 0 },
	{ { 512, 7 }, 1, CLOCK_END - (511ULL << 54), 5, 511, 0 },
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

/* Turn the top level block by block, and count the visits in earlier rounds. */
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

/* Call @check for each boundary as a cursor, and each boundary as a distance from it. */
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
		sum += (twheel_slot(g, tick, level) & g->mask) * ref_grain(s, level);
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

/* Otherwise it could not be cascaded in time, and would fire late. */
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

/* The ring of slots */

static void ring_has_two_revolutions_below_the_top(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u32 level;

	for (level = 0; level < s->levels; level++)
		KUNIT_EXPECT_EQ(test, level == s->levels - 1 ? s->slots : 2 * s->slots,
				twheel_ring(&g, level));
}

static void distance_to_a_slot_is_counted_in_blocks(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u32 level, i, ahead;
	u64 block;

	for (level = 0; level < s->levels; level++) {
		for (block = 0; block < 3 * twheel_ring(&g, level); block++) {
			for (ahead = 0; ahead < twheel_ring(&g, level); ahead++) {
				i = ref_slot(s, (block + ahead) * ref_grain(s, level), level);
				KUNIT_ASSERT_EQ(test, ahead, twheel_ahead(&g, block, i, level));
			}
		}
	}
}

/*
 * From any cursor, the next blocks of @level have one slot each, in order of time. This holds
 * up to the end of the next block of the level above.
 */
static void check_ring(struct kunit *test, const struct shape *s,
		       const struct twheel_geometry *g, u64 cursor, u32 level)
{
	u64 here = twheel_block(g, cursor, level);
	u64 end = (twheel_block(g, cursor, level + 1) + 2) * s->slots;
	u64 block;

	for (block = here; block < end; block++) {
		u64 tick = twheel_block_to_tick(g, block, level);
		u32 i = twheel_slot(g, tick, level);

		KUNIT_ASSERT_EQ(test, block, twheel_block(g, tick, level));
		KUNIT_ASSERT_EQ_MSG(test, block, here + twheel_ahead(g, here, i, level),
				    "slot %u of level %u seen from %llu", i, level, cursor);
		if (block >= end - s->slots)
			KUNIT_ASSERT_GT(test, twheel_level(g, tick, cursor), level);
	}
}

static void two_blocks_of_the_level_above_have_slots_of_their_own(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u64 cursor;
	u32 level;

	for (cursor = 0; cursor < 2 * ref_span(s); cursor++)
		for (level = 0; level + 1 < s->levels; level++)
			check_ring(test, s, &g, cursor, level);
}

/* Early cascades */

struct cascade {
	struct shape shape;
	u64 tick_ns, block;
	u32 level, nr, lead_ns;
	u64 early;
};

static const struct cascade cascades[] = {
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 0, 1000, 256 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 1, 1000, 255 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 1000, 1000, 255 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 1001, 1000, 254 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 255000, 1000, 1 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 255001, 1000, 0 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 256000, 1000, 0 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, 256001, 1000, 0 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 1, U32_MAX, U32_MAX, 0 },
	{ { 256, 4 }, NSEC_PER_MSEC, 3, 1, 1000000, 1000, 512 },
	{ { 256, 4 }, NSEC_PER_MSEC, 3, 2, 1000000, 1000, 3 * 65536 - 1000 },
	{ { 256, 4 }, NSEC_PER_MSEC, 1, 3, 1000000, 1000, 16777216 - 1000 },
	{ { 256, 4 }, DAY_NS, 1, 1, U32_MAX, 1000, 255 },
	/* the lead is beyond the end of the clock */
	{ { 256, 4 }, 1, 2, 3, U32_MAX, U32_MAX, 16777216 },
	{ { 65536, 3 }, 7, 1ULL << 30, 2, U32_MAX, U32_MAX, ((1ULL << 30) - 1) << 32 },
	{ { 65536, 3 }, 5000000000ULL, 1ULL << 30, 2, U32_MAX, U32_MAX,
	  (1ULL << 62) - 3689348814ULL },
	/* the last block that holds a tick of the clock */
	{ { 512, 7 }, 1, 511, 6, 1, 1, (511ULL << 54) - 1 },
	{ { 2, 8 }, 1, CLOCK_END >> 7, 7, 1, 1, (CLOCK_END >> 7 << 7) - 1 },
};

static void cascade_desc(const struct cascade *c, char *desc)
{
	sprintf(desc, "%ux%u of %llu ns, %u timeouts of block %llu on level %u", c->shape.slots,
		c->shape.levels, c->tick_ns, c->nr, c->block, c->level);
}

KUNIT_ARRAY_PARAM(cascade, cascades, cascade_desc);

static void early_cascade_begins_as_computed_by_hand(struct kunit *test)
{
	const struct cascade *c = test->param_value;
	struct twheel_geometry g;

	twheel_geometry_init(&g, c->tick_ns, c->shape.slots, c->shape.levels);
	KUNIT_EXPECT_EQ(test, c->early, twheel_early(&g, c->block, c->level, c->nr, c->lead_ns));
}

static void early_cascade_begins_within_the_block_before(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_geometry g = geometry(s->slots, s->levels);
	u32 level, bit;
	u64 block, early;

	for (level = 1; level < s->levels; level++) {
		for (block = 1; block < 4; block++) {
			for (bit = 0; bit < 32; bit++) {
				early = twheel_early(&g, block, level, 1U << bit, 1000);
				KUNIT_ASSERT_EQ(test, block - 1, twheel_block(&g, early, level));
			}
		}
	}
}

static struct kunit_case index_cases[] = {
	KUNIT_CASE_PARAM(now_is_rounded_down, rounding_gen_params),
	KUNIT_CASE_PARAM(deadline_is_rounded_up, rounding_gen_params),
	KUNIT_CASE_PARAM(multiplication_equals_division_at_boundaries, length_gen_params),
	KUNIT_CASE_PARAM(multiplication_equals_division_in_between, length_gen_params),
	KUNIT_CASE_PARAM(tick_to_ns_stops_at_the_clocks_end, product_gen_params),
	KUNIT_CASE_PARAM(sum_is_clamped_to_the_clocks_end, sum_gen_params),
	KUNIT_CASE_PARAM(geometry_is_valid_within_its_limits, asked_gen_params),
	KUNIT_CASE_PARAM(slots_are_rounded_up_to_a_power_of_two, cut_gen_params),
	KUNIT_CASE_PARAM(levels_beyond_the_clocks_end_are_not_made, cut_gen_params),
	KUNIT_CASE(level_follows_the_highest_differing_bit),
	KUNIT_CASE_PARAM(place_is_as_computed_by_hand, place_gen_params),
	KUNIT_CASE_PARAM(place_equals_reference_for_all_ticks, small_shape_gen_params),
	KUNIT_CASE_PARAM(level_equals_reference_at_boundaries, shape_gen_params),
	KUNIT_CASE_PARAM(slots_are_the_digits_of_the_tick, shape_gen_params),
	KUNIT_CASE_PARAM(block_starts_at_a_multiple_of_its_size, shape_gen_params),
	KUNIT_CASE_PARAM(block_of_a_later_tick_is_still_ahead, shape_gen_params),
	KUNIT_CASE_PARAM(next_tick_after_a_full_revolution_is_one_level_up, shape_gen_params),
	KUNIT_CASE_PARAM(ring_has_two_revolutions_below_the_top, shape_gen_params),
	KUNIT_CASE_PARAM(distance_to_a_slot_is_counted_in_blocks, small_shape_gen_params),
	KUNIT_CASE_PARAM(two_blocks_of_the_level_above_have_slots_of_their_own,
			 small_shape_gen_params),
	KUNIT_CASE_PARAM(early_cascade_begins_as_computed_by_hand, cascade_gen_params),
	KUNIT_CASE_PARAM(early_cascade_begins_within_the_block_before, shape_gen_params),
	{}
};

static struct kunit_suite index_suite = {
	.name = "twheel-index",
	.test_cases = index_cases,
};

module_test_suite(index_suite);

MODULE_DESCRIPTION("KUnit suite of the timing wheel's index arithmetic");
MODULE_LICENSE("GPL");
