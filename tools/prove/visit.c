// SPDX-License-Identifier: GPL-2.0
/*
 * A visit of a hashed wheel, of a slot with two timeouts of any round. It may take several turns;
 * a third timeout is armed between two of them. The visit takes exactly the timeouts that have
 * reached their tick, in the order of arming. The others stay in this order. The cursor is 5: only
 * differences of ticks matter.
 *
 * extract: struct:twheel_slot struct:twheel_level shard.h twheel_index twheel_visit
 * unwind: 4
 */
#include "prove.h"

#define SLOTS	2
#define VISIT	6

static void twheel_make_due(void *s, struct twheel_timeout *t, bool sink);
static void __assign_bit(u32 i, unsigned long *map, bool value);

#include EXTRACTED

static struct twheel wheel;
static struct twheel_slot slots[SLOTS];
static struct twheel_timeout timeouts[3];
static unsigned long map;
static u32 due;

static void twheel_make_due(void *s, struct twheel_timeout *t, bool sink)
{
	t->level = TWHEEL_DUE;
	due++;
}

static void __assign_bit(u32 i, unsigned long *bits, bool value)
{
	*bits = (*bits & ~(1UL << i)) | (unsigned long)value << i;
}

static void append(u32 nr, u64 min)
{
	timeouts[nr].tick = any_u64(min, last_tick);
	ASSUME(timeouts[nr].tick % SLOTS == VISIT % SLOTS);
	list_add_tail(&timeouts[nr].entry, &slots[VISIT % SLOTS].list);
}

static struct twheel_shard shard_before_a_visit(void)
{
	struct twheel_shard s = { .wheel = &wheel, .cursor = VISIT - 1 };

	twheel_geometry_init(&s.geometry, any_tick_ns(), SLOTS, 1);
	s.level[0] = level_with(&s.geometry, 0, slots, &map);
	INIT_LIST_HEAD(&slots[VISIT % SLOTS].list);
	append(0, VISIT);
	append(1, VISIT);
	map = 1UL << VISIT % SLOTS;
	return s;
}

/* Prove that @list has those of the @nr timeouts that the visit takes, or the others, in order. */
static void prove_list(const struct list_head *list, bool taken, u32 nr)
{
	const struct list_head *pos = list->next;
	u32 i;

	for (i = 0; i < nr; i++) {
		bool due = timeouts[i].tick <= VISIT;

		if (due != taken)
			continue;
		PROVE(pos == &timeouts[i].entry);
		pos = pos->next;
	}
	PROVE(pos == list);
}

/* The first turn has a budget of one timeout. Another one is armed before the second turn. */
void visit_of_two_turns_takes_those_that_have_reached_their_tick(void)
{
	struct twheel_shard s = shard_before_a_visit();

	INIT_LIST_HEAD(&s.aside);
	INIT_LIST_HEAD(&s.due);
	PROVE(twheel_visit(&s, 1) == 0);
	PROVE(s.cursor == VISIT - 1);
	append(2, VISIT + 1);
	PROVE(twheel_visit(&s, 3) == 1);
	PROVE(s.cursor == VISIT);
	PROVE(list_empty(&s.aside));
	prove_list(&s.due, true, 3);
	prove_list(&slots[VISIT % SLOTS].list, false, 3);
	PROVE(due == (timeouts[0].tick == VISIT) + (timeouts[1].tick == VISIT));
	PROVE(map == 1UL << VISIT % SLOTS);
}

/* The bit of the slot is cleared with its last timeout. */
void visit_empties_a_slot(void)
{
	struct twheel_shard s = shard_before_a_visit();

	INIT_LIST_HEAD(&s.aside);
	INIT_LIST_HEAD(&s.due);
	PROVE(twheel_visit(&s, 2) == 0);
	PROVE(s.cursor == VISIT);
	prove_list(&s.due, true, 2);
	prove_list(&slots[VISIT % SLOTS].list, false, 2);
	PROVE(map == (due == 2 ? 0 : 1UL << VISIT % SLOTS));
}
