// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the agenda of a load. They need no device.
 */
#include "agenda.h"
#include "ktap.h"

#define NR	10000

static struct agenda_entry heap[NR];

static uint64_t random_below(uint64_t bound)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (state >> 16) % bound;
}

TEST(agenda_gives_back_in_order_of_time)
{
	static uint64_t when[NR];
	struct agenda agenda = { .heap = heap };
	uint64_t last = 0;
	uint32_t what;

	for (uint32_t i = 0; i < NR; i++) {
		when[i] = 1 + random_below(NR / 2);
		agenda_add(&agenda, when[i], i);
	}
	for (uint32_t i = 0; i < NR; i++) {
		CHECK(agenda_take(&agenda, UINT64_MAX, &what));
		CHECK(when[what] >= last && when[what]);
		last = when[what];
		when[what] = 0;
	}
	CHECK(!agenda_take(&agenda, UINT64_MAX, &what));
}

TEST(agenda_keeps_what_is_not_due)
{
	struct agenda agenda = { .heap = heap };
	uint32_t what = 0;

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
}
