// SPDX-License-Identifier: GPL-2.0
/*
 * twheel_geometry_init(): the number of slots is rounded up to the next power of two.
 * The number of levels is reduced until their digits fit into a tick. The reciprocal is
 * that of the tick, rounded down. All this holds for all valid parameters, and exactly
 * the documented parameters are valid.
 */
#include "prove.h"

static struct twheel_geometry asked_for(u32 slots, u32 levels)
{
	struct twheel_geometry g;
	u64 tick_ns = nondet_u64();

	ASSUME(twheel_geometry_valid(tick_ns, slots, levels));
	twheel_geometry_init(&g, tick_ns, slots, levels);
	PROVE(g.tick_ns == tick_ns);
	return g;
}

void valid_geometries_are_those_documented(void)
{
	u64 tick_ns = nondet_u64();
	u32 slots = nondet_u32(), levels = nondet_u32();
	bool tick_fits = tick_ns >= 1 && tick_ns <= 86400000000000;
	bool wheel_fits = slots >= 2 && slots <= 65536 && levels >= 1 && levels <= 8;

	PROVE(twheel_geometry_valid(tick_ns, slots, levels) == (tick_fits && wheel_fits));
}

void slots_are_the_next_power_of_two(void)
{
	u32 slots = nondet_u32();
	struct twheel_geometry g = asked_for(slots, nondet_u32());

	PROVE(g.bits >= 1 && g.bits <= 16);
	PROVE(g.slots == 1U << g.bits);
	PROVE(g.mask == g.slots - 1);
	PROVE(g.slots >= slots && g.slots / 2 < slots);
}

/* So the shift of the top level is below 63. */
void levels_are_those_asked_for_that_fit(void)
{
	u32 levels = nondet_u32();
	struct twheel_geometry g = asked_for(nondet_u32(), levels);

	PROVE(g.levels >= 1 && g.levels <= levels);
	PROVE(g.top == g.levels - 1);
	PROVE(g.levels * g.bits <= 63);
	PROVE(g.levels == levels || (g.levels + 1) * g.bits > 63);
}

/* Rounded down: reciprocal.smt2 takes it so. */
void reciprocal_is_a_division_by_the_tick(void)
{
	struct twheel_geometry g = asked_for(nondet_u32(), nondet_u32());

	PROVE(division.nr == 1);
	PROVE(division.dividend == U64_MAX);
	PROVE(division.divisor == g.tick_ns);
	PROVE(g.reciprocal == division.quotient);
}

/* The other proofs rely on it: they ask for powers of two. */
void slots_asked_for_matter_by_their_bits_alone(void)
{
	u32 slots = any_u32(TWHEEL_MIN_SLOTS, TWHEEL_MAX_SLOTS);
	u32 levels = any_u32(1, TWHEEL_MAX_LEVELS);
	struct twheel_geometry g = asked_for(slots, levels);
	struct twheel_geometry h = asked_for(g.slots, levels);

	PROVE(g.slots == h.slots && g.bits == h.bits);
	PROVE(g.levels == h.levels && g.top == h.top);
}
