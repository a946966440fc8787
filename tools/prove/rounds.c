// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds are the blocks of the slot strictly between cursor and tick, on the top level.
 * Each entry of the cursor into the slot decrements them, and at the entry for the tick
 * they are 0.
 */
#include "prove.h"

void rounds_are_the_blocks_of_the_slot_in_between(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK);
	u32 top = g.levels - 1;
	u64 distance = twheel_block(&g, tick, top) - twheel_block(&g, cursor, top);
	u64 rounds = twheel_rounds_left(&g, tick, cursor);
	u64 slots = 1U << BITS;

	/* rounds * slots < distance <= (rounds + 1) * slots */
	PROVE(rounds <= distance / slots);
	PROVE(rounds == 0 || rounds * slots < distance);
	PROVE(distance <= rounds * slots + slots);
}

static struct twheel_geometry with_one_level(struct twheel_geometry g)
{
	g.levels = 1;
	g.top = 0;
	return g;
}

/* Rounds are a matter of blocks: as if these were the ticks of a single level. */
void rounds_are_those_of_the_blocks(void)
{
	struct twheel_geometry g = any_geometry(), single = with_one_level(g);
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK);
	u32 top = g.levels - 1;

	PROVE(twheel_rounds_left(&g, tick, cursor) ==
	      twheel_rounds_left(&single, twheel_block(&g, tick, top),
				 twheel_block(&g, cursor, top)));
}

/* The next entry is into one of as many blocks as there are slots. */
void rounds_count_down_with_every_entry(void)
{
	struct twheel_geometry g = with_one_level(any_geometry());
	u64 cursor = any_u64(0, MAX_TICK - 1), tick = any_u64(cursor + 1, MAX_TICK);
	u64 entry = any_u64(cursor + 1, cursor + (1U << BITS));
	u64 rounds = twheel_rounds_left(&g, tick, cursor);

	ASSUME(twheel_slot(&g, entry, 0) == twheel_slot(&g, tick, 0));
	PROVE(entry <= tick);
	PROVE((rounds == 0) == (entry == tick));
	if (rounds)
		PROVE(twheel_rounds_left(&g, tick, entry) == rounds - 1);
}

void below_the_top_there_are_no_rounds(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK);

	ASSUME(twheel_level(&g, tick, cursor) < g.levels - 1 || tick == cursor);
	PROVE(twheel_rounds_left(&g, tick, cursor) == 0);
}
