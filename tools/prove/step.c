// SPDX-License-Identifier: GPL-2.0
/*
 * The search for the next step, over all levels. One timeout of the wheel is followed, on any level
 * where level.c says that it can be. On each level the search finds a slot as search.c says: any
 * slot, but on the level of the timeout none after its own. The step does not pass the
 * timeout over, and the wheel does not sleep beyond its tick.
 *
 * models: twheel_wake_tick twheel_next_block twheel_slot_of
 * extract: TWHEEL_NEVER struct:twheel_level struct:twheel_step shard.h twheel_find_step
 * unwind: 4
 */
#include "prove.h"

/* Slots are told apart by their addresses. */
struct twheel_slot {
	char			unused;
};

#define LEVELS		3
#define LAST_TICK	((1ULL << (BITS + (LEVELS - 1) * 6)) - 1)

static struct twheel_timeout followed;
static u64 its_start;
static struct twheel_slot its_slot, other_slot;
static u32 shift_searched;
static bool its_level;

struct twheel_level;
struct twheel_shard;
struct twheel_step;
static u64 twheel_next_block(const struct twheel_shard *s, u32 level, u64 block);
static struct twheel_slot *twheel_slot_of(const struct twheel_level *l, u64 block);
static u64 twheel_wake_tick(const struct twheel_slot *slot, u64 tick);

static void twheel_find_visit(const struct twheel_shard *s, struct twheel_step *step)
{
	__CPROVER_assert(0, "no visits in a hierarchy");
}

#include EXTRACTED

/*
 * Above level 0, there is nothing in the block of the cursor, where the search begins. It does not
 * begin after the slot of the timeout.
 */
static u64 twheel_next_block(const struct twheel_shard *s, u32 level, u64 start)
{
	u32 shift = s->level[level].shift;
	u64 found = any_u64(start + (level > 0), LAST_TICK >> shift);

	shift_searched = shift;
	its_level = level == followed.level;
	if (!its_level)
		return nondet_bool() ? found : TWHEEL_NEVER;
	PROVE(start <= followed.tick >> shift);
	ASSUME(found <= followed.tick >> shift);
	return found;
}

static struct twheel_slot *twheel_slot_of(const struct twheel_level *l, u64 block)
{
	return its_level && block == followed.tick >> l->shift ? &its_slot : &other_slot;
}

/* A single timeout is somewhere in the block of its slot, which begins with @tick. */
static u64 twheel_wake_tick(const struct twheel_slot *slot, u64 tick)
{
	if (nondet_bool())
		return tick;
	if (slot == &its_slot)
		return followed.tick;
	return any_u64(tick, tick + (1ULL << shift_searched) - 1);
}

static struct twheel_shard any_shard(void)
{
	struct twheel_shard s = { .geometry = any_geometry(), .cursor = any_u64(0, LAST_TICK) };
	const struct twheel_geometry *g = &s.geometry;
	u32 i;

	s.geometry.levels = LEVELS;
	followed.level = (u8)any_level(g);
	followed.tick = any_u64(s.cursor, LAST_TICK);
	for (i = 0; i < g->levels; i++) {
		s.level[i] = level_with(g, i, NULL, NULL);
		if (followed.level != i)
			continue;
		ASSUME(is_level_reachable(g, followed.tick, s.cursor, i));
		ASSUME(i == 0 || !in_same_block(g, followed.tick, s.cursor, i));
		its_start = start_of(g, followed.tick, i);
	}
	return s;
}

/* Every step ends in the block of an occupied slot, and a cascade begins in the one before. */
void step_passes_no_timeout_over(void)
{
	struct twheel_shard s = any_shard();
	struct twheel_step step;

	twheel_find_step(&s, &step);
	PROVE(step.tick >= s.cursor);
	PROVE(step.level == 0 || step.tick > s.cursor);
	PROVE(step.tick <= its_start);
	PROVE(step.slot != &its_slot || step.tick == its_start);
}

void wheel_wakes_before_a_timeout_is_due(void)
{
	struct twheel_shard s = any_shard();
	struct twheel_step step;

	twheel_find_step(&s, &step);
	PROVE(step.wake >= s.cursor);
	PROVE(step.wake <= followed.tick);
}

void block_is_entered_when_the_cascades_into_it_are_complete(void)
{
	struct twheel_shard s = any_shard();
	struct twheel_step step;

	twheel_find_step(&s, &step);
	PROVE(step.tick < its_start || step.level >= followed.level);
}
