// SPDX-License-Identifier: GPL-2.0
/*
 * The search on one level: the first occupied slot in ring order, from a block on. One occupied
 * slot is followed. All others are full or empty as the solver likes.
 *
 * wraps: i - start
 * extract: struct:twheel_level shard.h twheel_next_slot
 */
#include "engine.h"

/* Slots are told apart by their addresses. */
struct twheel_slot {
	char			unused;
};

static u32 followed;

/* The bits set are any, but that of the slot followed is one of them. */
static u32 find_next_bit(const unsigned long *map, u32 size, u32 start)
{
	u32 i = any_u32(start < size ? start : size, size);

	if (followed >= start && followed < size)
		ASSUME(i <= followed);
	return i;
}

#include EXTRACTED

static struct twheel_slot row[(2U << BITS) + 128];

static void prove_next_slot(const struct twheel_geometry *g, u32 level)
{
	struct twheel_shard s = { .geometry = *g };
	u32 ring = twheel_ring(g, level);
	u64 from = any_tick(), block = from, of_slot = any_u64(from, from + ring - 1);
	struct twheel_slot *slot;

	s.level[level] = level_with(g, level, row, NULL);
	followed = (u32)(of_slot % ring);
	slot = twheel_next_slot(&s, level, &block);
	PROVE(slot);
	PROVE(block >= from && block <= of_slot);
	PROVE(slot == &row[block % ring]);
	PROVE((slot == &row[followed]) == (block == of_slot));
}

void next_slot_of_level_0_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_geometry();

	prove_next_slot(&g, 0);
}

void next_slot_of_a_higher_level_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_geometry();

	prove_next_slot(&g, 1);
}

void next_slot_of_a_hashed_wheel_is_not_after_an_occupied_one(void)
{
	struct twheel_geometry g = any_hashed_geometry();

	prove_next_slot(&g, 0);
}
