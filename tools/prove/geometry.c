// SPDX-License-Identifier: GPL-2.0
/*
 * twheel_geometry_init(): the number of slots is rounded up to the next power of two. A
 * hierarchy has as many levels as its last tick has digits. The slots of the levels follow each
 * other. All this holds for all valid parameters, and exactly the documented parameters are valid.
 */
#include "prove.h"

static struct twheel_geometry asked_for(u32 slots, u32 levels)
{
	struct twheel_geometry g;
	u64 tick_ns = nondet_u64();

	ASSUME(twheel_geometry_valid(tick_ns, slots));
	twheel_geometry_init(&g, tick_ns, slots, levels);
	PROVE(g.tick_ns == tick_ns);
	return g;
}

void valid_geometries_are_those_documented(void)
{
	u64 tick_ns = nondet_u64();
	u32 slots = nondet_u32();
	bool tick_fits = tick_ns >= 1 && tick_ns <= 86400000000000;

	PROVE(twheel_geometry_valid(tick_ns, slots) ==
	      (tick_fits && slots >= 2 && slots <= 65536));
}

void slots_are_the_next_power_of_two(void)
{
	u32 slots = nondet_u32();
	struct twheel_geometry g = asked_for(slots, nondet_u32());

	PROVE(g.bits >= 1 && g.bits <= 16);
	PROVE(g.slots == 1U << g.bits);
	PROVE(g.slots >= slots && g.slots / 2 < slots);
}

/* The last tick is the one after that of S64_MAX: it fits, and no level is spare. */
void hierarchy_has_the_levels_that_a_tick_needs(void)
{
	u32 levels = nondet_u32();
	struct twheel_geometry g = asked_for(nondet_u32(), levels);
	u64 last = division[1].quotient + 1;
	u32 shift = g.bits + (g.levels - 1) * 6;

	ASSUME(levels != 1);
	PROVE(nr_divisions == 2);
	PROVE(division[1].dividend == S64_MAX);
	PROVE(division[1].divisor == g.tick_ns);
	PROVE(g.levels >= 2 && g.levels <= TWHEEL_LEVELS);
	PROVE(shift >= 64 || last >> shift == 0);
	PROVE(last >> (shift - 6) != 0);
	PROVE(twheel_shift(&g, g.levels - 1) == shift - 6);
}

void one_level_has_the_slots_asked_for(void)
{
	struct twheel_geometry g = asked_for(nondet_u32(), 1);

	PROVE(g.levels == 1);
	PROVE(twheel_ring(&g, 0) == g.slots);
	PROVE(twheel_first_slot(&g, g.levels) == g.slots);
}

/* A level begins where the one below it ends, so no slot belongs to two. */
void slots_of_levels_follow_each_other(void)
{
	struct twheel_geometry g = asked_for(nondet_u32(), nondet_u32());
	u32 level = any_level(&g);

	PROVE(twheel_first_slot(&g, 0) == 0);
	PROVE(twheel_first_slot(&g, level + 1) ==
	      twheel_first_slot(&g, level) + twheel_ring(&g, level));
}

/* The other proofs rely on it: they ask for powers of two, and for 0 or 1 levels. */
void slots_matter_by_their_bits_and_levels_by_being_one(void)
{
	u32 slots = any_u32(TWHEEL_MIN_SLOTS, TWHEEL_MAX_SLOTS), levels = nondet_u32();
	struct twheel_geometry g = asked_for(slots, levels);
	struct twheel_geometry h = asked_for(g.slots, levels == 1);

	ASSUME(nr_divisions < 4 || division[1].quotient == division[3].quotient);
	PROVE(g.slots == h.slots && g.bits == h.bits);
	PROVE(g.levels == h.levels);
}
