// SPDX-License-Identifier: GPL-2.0
/*
 * Search for the next slot: converts a slot index to its block, in cursor order.
 */
#include "prove.h"

void slot_ahead_is_its_next_block(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.levels - 1), ring = twheel_ring(&g, level);
	u32 i = any_u32(0, ring - 1);
	u64 block = twheel_block(&g, any_tick(), level);
	u32 ahead = twheel_ahead(&g, block, i, level);
	u64 other = any_u64(block, MAX_TICK);

	PROVE(ahead < ring);
	PROVE(block + ahead >= block && (block + ahead) % ring == i);
	ASSUME(other % ring == i);
	PROVE(other >= block + ahead);
}

/* For a cursor within the clock, also if no timeout lies there. */
void block_found_begins_at_a_number_of_64_bits(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.levels - 1), i = any_u32(0, twheel_ring(&g, level) - 1);
	u64 next = twheel_block(&g, any_ns(), level) + 1;
	u64 found = next + twheel_ahead(&g, next, i, level);

	PROVE(twheel_block_to_tick(&g, found, level) >= twheel_block_to_tick(&g, next, level));
	PROVE(twheel_block(&g, twheel_block_to_tick(&g, found, level), level) == found);
}

/* The distance leads to the slot, and the slot to the distance. */
void slot_and_distance_belong_together(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.levels - 1), ring = twheel_ring(&g, level);
	u32 ahead = any_u32(0, ring - 1), shift = twheel_shift(&g, level);
	u64 cursor = any_tick(), block = twheel_block(&g, cursor, level);
	u32 i;

	ASSUME(block + ahead <= MAX_TICK >> shift);
	i = twheel_slot(&g, (block + ahead) << shift, level);
	PROVE(i < ring);
	PROVE(twheel_ahead(&g, block, i, level) == ahead);
}

/* An armed timeout on a level below the top is in the block that the search finds. */
void search_finds_the_block_of_a_timeout(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);
	u64 block = twheel_block(&g, cursor, level);
	u64 found = block + twheel_ahead(&g, block, twheel_slot(&g, tick, level), level);

	ASSUME(tick > cursor);
	PROVE(found <= twheel_block(&g, tick, level));
	PROVE(level == g.levels - 1 || found == twheel_block(&g, tick, level));
}

/* Slots are entered in circular order, from that of the cursor on. */
void slots_come_in_circular_order(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.levels - 1);
	u64 cursor = any_tick(), block = twheel_block(&g, cursor, level);
	u32 start = twheel_slot(&g, cursor, level);
	u32 last = twheel_ring(&g, level) - 1, i = any_u32(0, last), j = any_u32(0, last);

	ASSUME(i < j && (start <= i || j < start));
	PROVE(twheel_ahead(&g, block, i, level) < twheel_ahead(&g, block, j, level));
	PROVE(twheel_ahead(&g, block, start, level) == 0);
	if (i < start)
		PROVE(twheel_ahead(&g, block, i, level) > twheel_ahead(&g, block, last, level));
}
