// SPDX-License-Identifier: GPL-2.0
/*
 * Each level has slots for two blocks of the level above: the one that the cursor is in, and
 * the next one. Timeouts on a level below the top belong to one of these two. Each slot has the
 * timeouts of one block of its level. The cursor reaches the slots in ring order. This holds for
 * timeouts that were armed on the level, and for timeouts that were moved down from the level
 * above.
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

static u32 any_level_below_the_top(const struct twheel_geometry *g)
{
	return any_u32(0, top_of(g) - 1);
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

	ASSUME(near(&g, a, cursor, level) && near(&g, b, cursor, level));
	PROVE((slot_of(&g, a, level) == slot_of(&g, b, level)) ==
	      (block_of(&g, a, level) == block_of(&g, b, level)));
}

void slots_from_the_cursor_on_are_in_order_of_time(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level(&g);
	u64 cursor = any_tick(), a = any_u64(cursor, last_tick), b = any_u64(cursor, last_tick);

	ASSUME(near(&g, a, cursor, level) && near(&g, b, cursor, level));
	PROVE((ahead(&g, a, cursor, level) < ahead(&g, b, cursor, level)) ==
	      (block_of(&g, a, level) < block_of(&g, b, level)));
	PROVE(block_of(&g, cursor, level) + ahead(&g, a, cursor, level) == block_of(&g, a, level));
}

/* An arm puts it into the block of the level above that the cursor is in. */
void armed_timeout_is_near_the_cursor(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = level_of(&g, tick, cursor);

	PROVE(near(&g, tick, cursor, level));
	PROVE(together(&g, tick, cursor, level + 1));
}

/*
 * A cascade moves a timeout down one level while the cursor is in the previous block: early, or
 * just before the cursor enters the block of the timeout. It is not passed over, and not early.
 */
void timeout_moved_down_before_the_entry_is_ahead_of_the_cursor(void)
{
	struct twheel_geometry g = any_geometry();
	u32 below = any_level_below_the_top(&g);
	u64 cursor = any_tick(), tick = any_tick();

	ASSUME(block_of(&g, tick, below + 1) == block_of(&g, cursor, below + 1) + 1);
	PROVE(near(&g, tick, cursor, below));
	PROVE(ahead(&g, tick, cursor, below) > 0);
	PROVE(start_of(&g, tick, below) > cursor);
	PROVE(start_of(&g, tick, below) <= tick);
	PROVE(start_of(&g, tick, below) >= start_of(&g, tick, below + 1));
}

/*
 * So the search for the next step can end at the level of that slot: all timeouts on
 * higher levels are in a later block.
 */
void slot_in_the_current_block_comes_before_all_higher_levels(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level_below_the_top(&g), higher = any_u32(level + 1, top_of(&g));
	u64 cursor = any_tick(), tick = any_u64(cursor, last_tick), other = any_tick();

	ASSUME(together(&g, tick, cursor, level + 1));
	ASSUME(block_of(&g, other, higher) > block_of(&g, cursor, higher));
	PROVE(start_of(&g, other, higher) > tick);
}

/* From the block before the one that it is moved down from, until it is due. */
void timeout_stays_near_as_the_cursor_moves_on(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level(&g);
	u64 cursor = any_tick(), tick = any_u64(cursor, last_tick), later = any_u64(cursor, tick);

	ASSUME(near(&g, tick, cursor, level));
	PROVE(near(&g, tick, later, level));
	PROVE(ahead(&g, tick, later, level) <= ahead(&g, tick, cursor, level));
}

/*
 * Before the cursor enters a block, an arm for it goes to the slot of that block or
 * higher. It never joins the timeouts that have been moved down from there. So it stays
 * after an earlier timeout of the same tick.
 */
void timeout_armed_for_the_next_block_lies_above_those_moved_down(void)
{
	struct twheel_geometry g = any_geometry();
	u32 below = any_level_below_the_top(&g);
	u64 cursor = any_tick(), tick = any_tick();

	ASSUME(block_of(&g, tick, below + 1) == block_of(&g, cursor, below + 1) + 1);
	PROVE(level_of(&g, tick, cursor) > below);
}
