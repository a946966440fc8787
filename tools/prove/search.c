// SPDX-License-Identifier: GPL-2.0
/*
 * The search on one level: the first occupied slot in ring order, from a block on. One occupied
 * slot is followed. All others are full or empty as the solver likes.
 *
 * wraps: i - start
 * extract: TWHEEL_NEVER struct:twheel_level shard.h twheel_next_block twheel_slot_of
 */
#include "search.h"

#include EXTRACTED

static struct twheel_slot row[(2U << BITS) + 128];

static void prove_next_block(const struct twheel_geometry *g, u32 level)
{
	struct twheel_shard s = { .geometry = *g };
	u32 ring = twheel_ring(g, level);
	u64 from = any_tick(), block, of_slot = any_u64(from, from + ring - 1);
	struct twheel_slot *slot;

	s.level[level] = level_with(g, level, row, NULL);
	followed_index = (u32)(of_slot % ring);
	block = twheel_next_block(&s, level, from);
	slot = twheel_slot_of(&s.level[level], block);
	PROVE(block >= from && block <= of_slot);
	PROVE(slot == &row[block % ring]);
	PROVE((slot == &row[followed_index]) == (block == of_slot));
}

void next_block_of_level_0_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_geometry();

	prove_next_block(&g, 0);
}

void next_block_of_a_higher_level_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_geometry();

	prove_next_block(&g, 1);
}

void next_block_of_a_hashed_wheel_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_hashed_geometry();

	prove_next_block(&g, 0);
}
