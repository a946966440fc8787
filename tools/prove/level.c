// SPDX-License-Identifier: GPL-2.0
/*
 * The level chosen at arming is that of the highest digit that differs between tick and cursor.
 * So the cursor enters the block of the slot after now and not after the tick. Until then the
 * level stays, and it never rises as the cursor moves on. A tick lies below a level if and only
 * if the cursor is in its block of that level.
 */
#include "prove.h"

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

/* The table of an engine's shard has 64 entries: each is one of its levels. */
void each_bit_has_a_level(void)
{
	struct twheel_geometry g = any_geometry();
	u32 bit = any_u32(0, 63), level = twheel_level_of_bit(&g, bit);

	PROVE(level < g.levels);
	PROVE(twheel_shift(&g, level) <= bit);
	PROVE(level == top_of(&g) || bit < twheel_shift(&g, level + 1));
}

void hashed_wheel_has_level_0_alone(void)
{
	struct twheel_geometry g = any_hashed_geometry();

	PROVE(g.levels == 1);
	PROVE(twheel_level_of_bit(&g, any_u32(0, 63)) == 0);
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
