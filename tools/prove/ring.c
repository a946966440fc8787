// SPDX-License-Identifier: GPL-2.0
/*
 * Each level has slots for two blocks of the level above: the one that the cursor is in, and
 * the next one. Timeouts on a level below the top belong to one of these two. Each slot has the
 * timeouts of one block of its level. The cursor reaches the slots in ring order.
 *
 * level.c proves that an arm puts a timeout into the block of the level above that the cursor is
 * in. lead.c proves that a cascade from there begins in the block before at the earliest. Then
 * the cursor only comes nearer.
 *
 * extract: struct:twheel_slot struct:twheel_level shard.h twheel_index
 */
#include "engine.h"
#include EXTRACTED

/* The slot of @tick. */
static u32 slot_of(const struct twheel_geometry *g, u64 tick, u32 level)
{
	struct twheel_level l = level_with(g, level, NULL, NULL);

	return twheel_index(&l, tick);
}

/* How many blocks of @level are from the cursor to @tick, as the search counts them. */
static u32 ahead(const struct twheel_geometry *g, u64 tick, u64 cursor, u32 level)
{
	u32 ring = twheel_ring(g, level);

	return (slot_of(g, tick, level) + ring - slot_of(g, cursor, level)) % ring;
}

void ring_has_slots_for_two_blocks_of_the_level_above(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level(&g), ring = twheel_ring(&g, level);

	PROVE(ring == (level ? 128 : 2U << BITS));
	PROVE(level == top_of(&g) ||
	      twheel_shift(&g, level + 1) - twheel_shift(&g, level) == (level ? 6 : BITS));
	PROVE(slot_of(&g, any_tick(), level) < ring);
}

/* On the top level, the ring is longer than the clock. */
void slot_holds_one_block_at_a_time(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level(&g);
	u64 cursor = any_tick(), a = any_tick(), b = any_tick();

	ASSUME(is_level_reachable(&g, a, cursor, level) &&
	       is_level_reachable(&g, b, cursor, level));
	PROVE((slot_of(&g, a, level) == slot_of(&g, b, level)) ==
	      (block_of(&g, a, level) == block_of(&g, b, level)));
}

void slots_from_the_cursor_on_are_in_order_of_time(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level(&g);
	u64 cursor = any_tick(), a = any_u64(cursor, last_tick), b = any_u64(cursor, last_tick);

	ASSUME(is_level_reachable(&g, a, cursor, level) &&
	       is_level_reachable(&g, b, cursor, level));
	PROVE((ahead(&g, a, cursor, level) < ahead(&g, b, cursor, level)) ==
	      (block_of(&g, a, level) < block_of(&g, b, level)));
	PROVE(block_of(&g, cursor, level) + ahead(&g, a, cursor, level) == block_of(&g, a, level));
}
