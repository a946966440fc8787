// SPDX-License-Identifier: GPL-2.0
/*
 * The search on one level: the first occupied slot in ring order, from a block on; and the search
 * of a hashed wheel for the next visit. One occupied slot is followed, with one timeout of any
 * round. All others are full or empty as the solver likes, with one timeout or several.
 *
 * A hashed wheel passes no timeout over, and at its tick, its slot is visited: that a visit takes
 * it then is proved in visit.c. The search ends after 3 slots with one timeout, in place of 128.
 *
 * models: twheel_wake_tick
 * extract: TWHEEL_NEVER struct:twheel_level struct:twheel_step shard.h
 * extract: twheel_index twheel_next_block twheel_slot_of twheel_find_visit
 * wraps: i - start
 * unwind: 5
 */
#include "prove.h"

#define TWHEEL_BATCH	3

/* Slots are told apart by their addresses. */
struct twheel_slot {
	char			unused;
};

static struct twheel_timeout followed;
static u32 followed_index;

/* The bits set are any, but that of the slot followed is one of them. */
static u32 find_next_bit(const unsigned long *map, u32 size, u32 start)
{
	u32 i = any_u32(start < size ? start : size, size);

	if (followed_index >= start && followed_index < size)
		ASSUME(i <= followed_index);
	return i;
}

static u64 twheel_wake_tick(const struct twheel_slot *slot, u64 tick);

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

/* Visits of a hashed wheel */

/* The visit of @slot at @tick. A single timeout in it is of this round or of a later one. */
static u64 twheel_wake_tick(const struct twheel_slot *slot, u64 tick)
{
	PROVE(slot == &row[tick % (1U << BITS)]);
	if (nondet_bool())
		return tick;
	return slot == &row[followed_index] ? followed.tick : any_u64(tick, last_tick);
}

static struct twheel_shard any_hashed_shard(void)
{
	struct twheel_shard s = { .geometry = any_hashed_geometry(), .cursor = any_ns() };

	s.level[0] = level_with(&s.geometry, 0, row, NULL);
	followed.tick = any_u64(s.cursor + 1, last_tick);
	followed_index = twheel_index(&s.level[0], followed.tick);
	return s;
}

/* A visit in progress may have set aside all timeouts of its slot. Then it still goes on. */
void visit_passes_no_timeout_over(void)
{
	struct twheel_shard s = any_hashed_shard();
	bool in_progress = nondet_bool();
	struct twheel_timeout later;
	struct twheel_step step;

	INIT_LIST_HEAD(&s.aside);
	if (in_progress)
		list_add_tail(&later.entry, &s.aside);
	twheel_find_visit(&s, &step);
	PROVE(step.tick > s.cursor);
	PROVE(step.tick <= followed.tick);
	PROVE(step.wake == step.tick);
	PROVE(!in_progress || step.tick == s.cursor + 1);
}

/* A slot of several timeouts is visited once in each round, one with a single timeout when due. */
void slot_is_visited_in_each_round_or_when_it_is_due(void)
{
	struct twheel_shard s = any_hashed_shard();
	struct twheel_step step;
	u64 round = s.cursor + (1U << BITS);

	INIT_LIST_HEAD(&s.aside);
	twheel_find_visit(&s, &step);
	PROVE(step.tick <= round || step.tick <= followed.tick);
}

/* Ticks of a slot are whole rounds apart. */
void slot_of_a_hashed_wheel_has_every_nth_tick(void)
{
	struct twheel_geometry g = any_hashed_geometry();
	struct twheel_level l = level_with(&g, 0, row, NULL);
	u64 a = any_tick(), b = any_tick();

	PROVE((twheel_index(&l, a) == twheel_index(&l, b)) == ((a ^ b) % (1U << BITS) == 0));
	PROVE(twheel_index(&l, a) < g.slots);
}
