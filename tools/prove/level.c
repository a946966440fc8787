// SPDX-License-Identifier: GPL-2.0
/*
 * Where a timeout is put, and that it is found there in time: the cursor enters the
 * block of its slot after now and not after its tick, no other round of the slot
 * comes between on a level below the top, wherever the cursor has gone meanwhile,
 * and each entry brings it to a lower level, so that it gets to level 0.
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
	PROVE(twheel_slot(&g, start, level) == twheel_slot(&g, tick, level));
	PROVE(twheel_slot(&g, tick, level) < g.slots);
	PROVE(twheel_slot(&g, tick, level) == (tick / length) % (1U << BITS));
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

/* Below the top the slot is not passed before: its digit is ahead in this round. */
void slot_below_the_top_is_ahead_in_this_round(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(tick > cursor && level < g.levels - 1);
	PROVE(twheel_slot(&g, tick, level) > twheel_slot(&g, cursor, level));
	PROVE(together(&g, tick, cursor, level + 1));
	PROVE(twheel_block(&g, tick, level) - twheel_block(&g, cursor, level) < g.slots);
}

/* When the cursor has entered the block, the timeout moves down. */
void entry_leads_to_a_lower_level(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 level = twheel_level(&g, tick, cursor);
	u64 entry = twheel_block_start(&g, tick, level);

	ASSUME(tick > cursor && level > 0);
	PROVE(twheel_level(&g, tick, entry) < level);
	PROVE(entry == tick || twheel_block_start(&g, tick, twheel_level(&g, tick, entry)) > entry);
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

/* After a step backwards it lies no higher than it would be put now. */
void level_is_not_too_high_after_a_step_back(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick(), before = any_tick();
	u32 level = twheel_level(&g, tick, cursor);

	ASSUME(tick > cursor && before < cursor);
	PROVE(twheel_level(&g, tick, before) >= level);
	PROVE(twheel_block(&g, tick, level) > twheel_block(&g, before, level));
}

/* What is armed during a visit and belongs lower belongs into the visited slot. */
void what_belongs_below_a_visit_is_in_its_block(void)
{
	struct twheel_geometry g = any_geometry();
	u64 cursor = any_tick(), tick = any_tick();
	u32 visit_level = any_u32(0, g.levels - 1);

	ASSUME(tick > cursor && twheel_level(&g, tick, cursor) < visit_level);
	PROVE(together(&g, tick, cursor, visit_level));
	PROVE(twheel_slot(&g, tick, visit_level) == twheel_slot(&g, cursor, visit_level));
}
