// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parts of an account of a load: the agenda and the histogram. They need no device.
 */
#include "agenda.h"
#include "histogram.h"
#include "ktap.h"

static uint64_t random_below(uint64_t bound)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (state >> 16) % bound;
}

TEST(agenda_gives_back_in_order_of_time)
{
	const uint32_t nr = 10000;
	struct agenda agenda;
	uint64_t *when = calloc(nr, sizeof(*when));
	uint64_t last = 0;
	uint32_t what;

	agenda_init(&agenda, nr);
	for (uint32_t i = 0; i < nr; i++) {
		when[i] = 1 + random_below(nr / 2);
		agenda_add(&agenda, when[i], i);
	}
	for (uint32_t i = 0; i < nr; i++) {
		CHECK(agenda_take(&agenda, UINT64_MAX, &what));
		CHECK(when[what] >= last && when[what]);
		last = when[what];
		when[what] = 0;
	}
	CHECK(!agenda_take(&agenda, UINT64_MAX, &what));
	agenda_free(&agenda);
	free(when);
}

TEST(agenda_keeps_what_is_not_due)
{
	struct agenda agenda;
	uint32_t what = 0;

	agenda_init(&agenda, 2);
	CHECK(agenda_next(&agenda) == UINT64_MAX);
	agenda_add(&agenda, 20, 2);
	agenda_add(&agenda, 10, 1);
	CHECK_EQ(agenda_next(&agenda), 10);
	CHECK(!agenda_take(&agenda, 9, &what));
	CHECK(agenda_take(&agenda, 10, &what));
	CHECK_EQ(what, 1);
	CHECK(!agenda_take(&agenda, 19, &what));
	CHECK(agenda_take(&agenda, 30, &what));
	CHECK_EQ(what, 2);
	agenda_free(&agenda);
}

TEST(percentile_is_never_too_small)
{
	static struct histogram histogram;

	for (uint64_t value = 1; value <= 100000; value++)
		histogram_add(&histogram, value);
	CHECK_EQ(histogram.nr, 100000);
	CHECK_EQ(histogram.max, 100000);
	for (unsigned int percent = 1; percent <= 100; percent++) {
		uint64_t exact = percent * 1000, got = histogram_percentile(&histogram, percent);

		CHECK(got >= exact);
		CHECK(got <= exact + exact / HISTOGRAM_SUB);
	}
}

TEST(percentile_of_little)
{
	static struct histogram histogram;

	CHECK_EQ(histogram_percentile(&histogram, 50), 0);
	histogram_add(&histogram, 12345678);
	CHECK_EQ(histogram_percentile(&histogram, 1), 12345678);
	CHECK_EQ(histogram_percentile(&histogram, 99), 12345678);
	histogram_add(&histogram, 0);
	CHECK_EQ(histogram_percentile(&histogram, 50), 0);
	CHECK_EQ(histogram_percentile(&histogram, 51), 12345678);
}

TEST(histogram_takes_any_value)
{
	static struct histogram histogram;

	for (unsigned int bit = 0; bit < 64; bit++) {
		histogram_add(&histogram, UINT64_C(1) << bit);
		histogram_add(&histogram, (UINT64_C(1) << bit) - 1);
	}
	histogram_add(&histogram, UINT64_MAX);
	CHECK(histogram_percentile(&histogram, 100) == UINT64_MAX);
	CHECK_EQ(histogram_percentile(&histogram, 1), 1);
}

TEST(merged_histogram_has_both)
{
	static struct histogram a, b;

	for (unsigned int i = 0; i < 10; i++) {
		histogram_add(&a, 5);
		histogram_add(&b, 7);
	}
	histogram_merge(&a, &b);
	CHECK_EQ(a.nr, 20);
	CHECK_EQ(a.max, 7);
	CHECK_EQ(histogram_percentile(&a, 50), 5);
	CHECK_EQ(histogram_percentile(&a, 51), 7);
}
