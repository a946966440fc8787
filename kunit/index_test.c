// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the index arithmetic: ticks by multiplication, and intervals. These functions
 * are pure, so no wheel is made. The clamps, levels, slots and ticks with slack are proved, and
 * the suite combination compares them with its model.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "../twheel.h"
#include "../twheel_index.h"
#include "reference.h"
#include "suite.h"

#define DAY_NS		(24ULL * 3600 * NSEC_PER_SEC)
#define CLOCK_END	((u64)S64_MAX)

/* The geometry of a wheel with ticks of @tick_ns; slots and levels do not matter. */
static struct twheel_geometry ticks(u64 tick_ns)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, tick_ns, 256, 0);
	return g;
}

/* Rounding */

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

KUNIT_ARRAY_PARAM(length, lengths, NULL);

static void check_division(struct kunit *test, const struct twheel_geometry *g, u64 ns)
{
	u64 quotient = div64_u64(ns, g->tick_ns), remainder = ns - quotient * g->tick_ns;

	KUNIT_ASSERT_EQ_MSG(test, quotient, twheel_tick_floor(g, ns), "%llu ns", ns);
	if (ns <= S64_MAX)
		KUNIT_ASSERT_EQ_MSG(test, quotient + (remainder != 0), twheel_tick_ceil(g, ns),
				    "%llu ns", ns);
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

/*
 * Times around each power of two, at the start of the clock, at its end and at U64_MAX, and times
 * from a linear congruential generator.
 */
static void multiplication_equals_division(struct kunit *test)
{
	struct twheel_geometry g = ticks(*(const u64 *)test->param_value);
	u32 bit, factor, i;
	u64 ns;

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
	for (i = 0, ns = g.tick_ns; i < 10000; i++) {
		ns = ns * 6364136223846793005ULL + 1442695040888963407ULL;
		check_divisions_near(test, &g, ns >> (i & 1));
	}
}

/* Geometry */

/* Intervals */

/* twheel_intervals() counts whole intervals, twheel_forward() goes one further. */
static const struct interval {
	u64 expires, now, interval, intervals, passed;
} intervals[] = {
	{ 100, 0, 10, 0, 0 }, { 100, 99, 10, 0, 0 }, { 100, 100, 10, 0, 1 },
	{ 100, 101, 10, 0, 1 }, { 100, 109, 10, 0, 1 }, { 100, 110, 10, 1, 2 },
	{ 100, 119, 10, 1, 2 }, { 100, 120, 10, 2, 3 }, { 0, 0, 1, 0, 1 }, { 0, 7, 1, 7, 8 },
	{ 5, 4 + DAY_NS, DAY_NS, 0, 1 }, { 5, 5 + DAY_NS, DAY_NS, 1, 2 },
	{ 0, CLOCK_END, 1, CLOCK_END, 1ULL << 63 }, { 0, CLOCK_END, CLOCK_END, 1, 2 },
	{ CLOCK_END, CLOCK_END, CLOCK_END, 0, 1 }, { 1, CLOCK_END, 1ULL << 62, 1, 2 },
};

KUNIT_ARRAY_PARAM(interval, intervals, NULL);

static void forward_passes_now_in_whole_intervals(struct kunit *test)
{
	const struct interval *i = test->param_value;
	struct twheel_timeout t = { .expires = i->expires };

	KUNIT_EXPECT_EQ(test, i->intervals, twheel_intervals(i->expires, i->now, i->interval));
	KUNIT_EXPECT_EQ(test, i->passed, twheel_forward(&t, i->now, i->interval));
	KUNIT_EXPECT_EQ(test, min(i->expires + i->passed * i->interval, CLOCK_END), t.expires);
}

static struct kunit_case index_cases[] = {
	KUNIT_CASE_PARAM(multiplication_equals_division, length_gen_params),
	KUNIT_CASE_PARAM(forward_passes_now_in_whole_intervals, interval_gen_params),
	{}
};

static struct kunit_suite index_suite = {
	.name = "twheel-index",
	.test_cases = index_cases,
};

module_test_suite(index_suite);

MODULE_DESCRIPTION("KUnit suite of the timing wheel's index arithmetic");
MODULE_LICENSE("GPL");
