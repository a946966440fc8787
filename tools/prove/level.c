// SPDX-License-Identifier: GPL-2.0
/*
 * The level chosen at arming is that of the highest digit that differs between tick and cursor.
 * So the cursor enters the block of the slot after now and not after the tick. Until then the
 * level stays, and it never rises as the cursor moves on. A tick lies below a level if and only
 * if the cursor is in its block of that level.
 *
 * Each level has slots for two blocks of the level above: the one that the cursor is in, and
 * the next one. Timeouts on a level below the top belong to one of these two. Each slot has the
 * timeouts of one block of its level. The cursor reaches the slots in ring order: an arm puts a
 * timeout into the block of the level above that the cursor is in, and lead.c proves that a cascade
 * from there begins in the block before at the earliest. Then the cursor only comes nearer.
 *
 * extract: struct:twheel_slot struct:twheel_level shard.h twheel_index
 */
#include "prove.h"
#include EXTRACTED

/* Defined without a logarithm: the highest digit that differs. */
void level_is_the_highest_digit_that_differs(void)
{
	struct twheel_geometry g = any_geometry();
	u64 tick = any_tick(), cursor = any_tick();
	u32 level = level_of(&g, tick, cursor);

	PROVE(level < g.levels);
	PROVE(in_same_block(&g, tick, cursor, level + 1));
	PROVE(level == 0 || !in_same_block(&g, tick, cursor, level));
	PROVE(level == level_of(&g, cursor, tick));
}

/*
 * The table of an engine's shard has 64 entries: each is one of its levels. A hashed wheel has
 * only one.
 */
void each_bit_has_a_level(void)
{
	struct twheel_geometry g = nondet_bool() ? any_geometry() : any_hashed_geometry();
	u32 bit = any_u32(0, 63), level = twheel_level_of_bit(&g, bit);

	PROVE(level < g.levels);
	PROVE(twheel_shift(&g, level) <= bit);
	PROVE(level == top_of(&g) || bit < twheel_shift(&g, level + 1));
}

/* The length of a block: slots for level 1, 64 times as much for each level above. */
void block_has_the_length_of_its_level(void)
{
	struct twheel_geometry g = any_geometry();
	u64 tick = any_tick();
	u32 level = any_level(&g);
	u64 length = level ? 1ULL << (BITS + (level - 1) * 6) : 1;
	u64 start = start_of(&g, tick, level);

	PROVE(start <= tick && tick - start < length);
	PROVE((start & (length - 1)) == 0);
	PROVE(level == 0 || start_of(&g, start, level - 1) == start);
}

/* Slots */

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
