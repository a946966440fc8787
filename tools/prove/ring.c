// SPDX-License-Identifier: GPL-2.0
/*
 * Levels below the top have slots for two blocks of the level above: the one that the
 * cursor is in, and the next one. Timeouts on a level below the top belong to one of these
 * two. Each slot has the timeouts of one block of its level. The cursor reaches the slots in
 * ring order. This holds for timeouts that were armed on the level, and for timeouts that
 * were moved down from the level above.
 */
#include "prove.h"

/* @tick is in the block of the level above @level that the cursor is in, or in the next. */
static bool near(const struct twheel_geometry *g, u64 tick, u64 cursor, u32 level)
{
	u64 here = twheel_block(g, cursor, level + 1), block = twheel_block(g, tick, level + 1);

	return block == here || block == here + 1;
}

static u32 any_level_below_the_top(const struct twheel_geometry *g)
{
	ASSUME(g->top > 0);
	return any_u32(0, g->top - 1);
}

/* How many blocks of @level are from the cursor to @tick, as the search counts them. */
static u32 ahead(const struct twheel_geometry *g, u64 tick, u64 cursor, u32 level)
{
	return twheel_ahead(g, twheel_block(g, cursor, level), twheel_slot(g, tick, level), level);
}

void ring_has_slots_for_two_blocks_below_the_top(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_u32(0, g.top);

	PROVE(twheel_ring(&g, level) == (level == g.levels - 1U ? 1U << BITS : 2U << BITS));
	PROVE(twheel_slot(&g, any_tick(), level) < twheel_ring(&g, level));
}

void slot_holds_one_block_at_a_time(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level_below_the_top(&g);
	u64 cursor = any_tick(), a = any_tick(), b = any_tick();

	ASSUME(near(&g, a, cursor, level) && near(&g, b, cursor, level));
	PROVE((twheel_slot(&g, a, level) == twheel_slot(&g, b, level)) ==
	      (twheel_block(&g, a, level) == twheel_block(&g, b, level)));
}

void slots_from_the_cursor_on_are_in_order_of_time(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level_below_the_top(&g);
	u64 cursor = any_tick(), a = any_u64(cursor, MAX_TICK), b = any_u64(cursor, MAX_TICK);

	ASSUME(near(&g, a, cursor, level) && near(&g, b, cursor, level));
	PROVE((ahead(&g, a, cursor, level) < ahead(&g, b, cursor, level)) ==
	      (twheel_block(&g, a, level) < twheel_block(&g, b, level)));
	PROVE(twheel_block(&g, cursor, level) + ahead(&g, a, cursor, level) ==
	      twheel_block(&g, a, level));
}

/* An arm puts it into the block of the level above that the cursor is in. */
void armed_timeout_is_near_the_cursor(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(level < g.top);
	PROVE(near(&g, tick, cursor, level));
	PROVE(twheel_block(&g, tick, level + 1) == twheel_block(&g, cursor, level + 1));
}

/*
 * A cascade moves a timeout down while the cursor is in the previous block: early, or
 * just before the cursor enters the block of the timeout.
 */
void timeout_moved_down_before_the_entry_is_ahead_of_the_cursor(void)
{
	struct twheel_geometry g = any_geometry();
	u32 below = any_level_below_the_top(&g);
	u64 cursor = any_tick(), tick = any_tick();

	ASSUME(twheel_block(&g, tick, below + 1) == twheel_block(&g, cursor, below + 1) + 1);
	PROVE(near(&g, tick, cursor, below));
	PROVE(ahead(&g, tick, cursor, below) > 0);
	PROVE(twheel_block_start(&g, tick, below) > cursor);
	PROVE(twheel_block_start(&g, tick, below) <= tick);
	PROVE(twheel_block_start(&g, tick, below) >= twheel_block_start(&g, tick, below + 1));
}

/*
 * So the search for the next step can end at the level of that slot: all timeouts on
 * higher levels are in a later block.
 */
void slot_in_the_current_block_comes_before_all_higher_levels(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level_below_the_top(&g), higher = any_u32(level + 1, g.top);
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK), other = any_tick();

	ASSUME(twheel_block(&g, tick, level + 1) == twheel_block(&g, cursor, level + 1));
	ASSUME(twheel_block(&g, other, higher) > twheel_block(&g, cursor, higher));
	PROVE(twheel_block_start(&g, other, higher) > tick);
}

/* From the block before the one that it is moved down from, until it is due. */
void timeout_stays_near_as_the_cursor_moves_on(void)
{
	struct twheel_geometry g = any_geometry();
	u32 level = any_level_below_the_top(&g);
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK), later = any_u64(cursor, tick);

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

	ASSUME(twheel_block(&g, tick, below + 1) == twheel_block(&g, cursor, below + 1) + 1);
	PROVE(twheel_level(&g, tick, cursor) > below);
}
