// SPDX-License-Identifier: GPL-2.0
/*
 * The search for the slot that the cursor enters next: from the number of a slot
 * to the block that it stands for, in the order in which the cursor comes by.
 */
#include "prove.h"

void slot_ahead_is_its_next_block(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.levels - 1), i = any_u32(0, g.slots - 1);
	u64 block = twheel_block(&g, any_tick(), level);
	u32 ahead = twheel_ahead(&g, block, i);
	u64 other = any_u64(block, MAX_TICK);

	PROVE(ahead < g.slots);
	PROVE(block + ahead >= block && (block + ahead) % (1U << BITS) == i);
	ASSUME(other % (1U << BITS) == i);
	PROVE(other >= block + ahead);
}

/* What is put on a level below the top is in the block that the search finds. */
void search_finds_the_block_of_a_timeout(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);
	u64 block = twheel_block(&g, cursor, level);
	u64 found = block + twheel_ahead(&g, block, twheel_slot(&g, tick, level));

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
	u32 i = any_u32(0, g.slots - 1), j = any_u32(0, g.slots - 1);

	ASSUME(i < j && (start <= i || j < start));
	PROVE(twheel_ahead(&g, block, i) < twheel_ahead(&g, block, j));
	PROVE(twheel_ahead(&g, block, start) == 0);
	if (i < start)
		PROVE(twheel_ahead(&g, block, i) > twheel_ahead(&g, block, g.slots - 1));
}
