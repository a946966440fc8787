// SPDX-License-Identifier: GPL-2.0
/*
 * The level chosen at arming: the cursor enters the block of the slot after now and not
 * after the tick. As the cursor moves on, the level of a tick never rises.
 */
#include "prove.h"

/* Both lie in one block of @level; above the top level there is one block. */
static bool together(const struct twheel_geometry *g, u64 a, u64 b, u32 level)
{
	return level == g->levels || twheel_block(g, a, level) == twheel_block(g, b, level);
}

/* Defined without a logarithm: the highest digit, up to the top, that differs. */
void level_is_the_highest_digit_that_differs(void)
{
	struct twheel_geometry g = any_geometry();
	u64 tick = any_tick(), cursor = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	PROVE(level < g.levels);
	PROVE(level == g.levels - 1 || together(&g, tick, cursor, level + 1));
	PROVE(level == 0 || !together(&g, tick, cursor, level));
	PROVE(level == twheel_level(&g, cursor, tick));
}

/* @block_start is a multiple of the block's length, which is slots^level. */
void block_is_the_one_around_the_tick(void)
{
	struct twheel_geometry g = any_geometry();
	u64 tick = any_tick();
	u32 level = any_u32(0, g.levels - 1);
	u64 length = 1ULL << (level * BITS);
	u64 start = twheel_block_start(&g, tick, level);

	PROVE(start <= tick && tick - start < length);
	PROVE((start & (length - 1)) == 0);
	PROVE(twheel_block(&g, start, level) == twheel_block(&g, tick, level));
	PROVE(twheel_block_to_tick(&g, twheel_block(&g, tick, level), level) == start);
	PROVE(twheel_slot(&g, start, level) == twheel_slot(&g, tick, level));
	PROVE(twheel_slot(&g, tick, level) == (tick / length) % twheel_ring(&g, level));
	PROVE(start == 0 || twheel_block(&g, start - 1, level) ==
			    twheel_block(&g, start, level) - 1);
}

void block_is_entered_after_now_and_not_after_the_tick(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(tick > cursor);
	PROVE(twheel_block(&g, tick, level) > twheel_block(&g, cursor, level));
	PROVE(twheel_block_start(&g, tick, level) > cursor);
	PROVE(twheel_block_start(&g, tick, level) <= tick);
}

/* The cursor does not leave the block of the level above before it gets there. */
void slot_below_the_top_is_ahead_in_the_block_above(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(tick > cursor && level < g.levels - 1);
	PROVE(twheel_slot(&g, tick, level) > twheel_slot(&g, cursor, level));
	PROVE(together(&g, tick, cursor, level + 1));
	PROVE(twheel_block(&g, tick, level) - twheel_block(&g, cursor, level) < g.slots);
}

/* Until then it lies where it would be put now, however far the cursor has gone. */
void level_stays_until_the_block_is_entered(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick(), later = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(tick > cursor);
	ASSUME(later >= cursor && later < twheel_block_start(&g, tick, level));
	PROVE(twheel_level(&g, tick, later) == level);
}

/* A timeout armed later never lies above an earlier one of the same tick. */
void level_does_not_rise_as_the_cursor_moves_on(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_u64(cursor, MAX_TICK), later = any_u64(cursor, tick);

	PROVE(twheel_level(&g, tick, later) <= twheel_level(&g, tick, cursor));
}

/* Entry into its block, and nothing before, puts a tick below the level of the block. */
void tick_lies_below_a_level_only_in_its_block(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = any_u32(0, g.top);

	PROVE(level == 0 ||
	      (twheel_level(&g, tick, cursor) < level) == together(&g, tick, cursor, level));
}
