// SPDX-License-Identifier: GPL-2.0
/*
 * Enqueueing into a slot. The arm wakes the shard for the slot when the search would: for a single
 * timeout at its tick, for several when their block begins, and for a crowded slot when its
 * cascade begins. A slot is crowded with 3 timeouts here, in place of 128, and digit 0 has 8 bits.
 *
 * extract: TWHEEL_LEAD_NS TWHEEL_NOW struct:twheel_slot struct:twheel_level shard.h
 * extract: twheel_lead_tick twheel_note_crowded twheel_link twheel_wake_tick
 */
#include "prove.h"

#define TWHEEL_BATCH	3

static u32 bit_set;

static void __set_bit(u32 i, unsigned long *map)
{
	bit_set = i;
}

static void twheel_append(struct list_head *entry, struct list_head *head)
{
	list_add_tail(entry, head);
}

#include EXTRACTED

/* The only slot of its level here: search.c proves which one of a ring it is. */
static struct twheel_slot slot;
static struct twheel_timeout timeouts[3];

/* A slot of any level with @nr timeouts already, and one more that is put there. */
static struct insertion {
	struct twheel_geometry g;
	struct twheel_shard s;
	u32 level;
	u64 tick, block, wake, lead_tick;
} any_insertion(u32 nr)
{
	struct insertion n = { 0 };
	u32 shift, i;

	twheel_geometry_init(&n.g, any_tick_ns(), 1U << BITS, 0);
	n.g.tick_ns = 1;
	n.level = any_level(&n.g);
	n.tick = any_u64(1, last_tick);
	shift = twheel_shift(&n.g, n.level);
	n.block = n.tick >> shift;
	ASSUME(n.block > 0);
	n.s.geometry = n.g;
	n.s.level[n.level] = level_with(&n.g, n.level, &slot, NULL);
	n.s.level[n.level].mask = 0;
	n.lead_tick = any_u64(TWHEEL_NOW, U64_MAX);
	n.s.lead_tick = n.lead_tick;
	product.high = nondet_u64();
	INIT_LIST_HEAD(&slot.list);
	slot.added = nr;
	bit_set = ~0U;
	for (i = 0; i < nr; i++) {
		timeouts[i].tick = any_u64(n.block << shift, last_tick);
		ASSUME(timeouts[i].tick >> shift == n.block);
		list_add_tail(&timeouts[i].entry, &slot.list);
	}
	timeouts[nr].tick = n.tick;
	n.wake = twheel_link(&n.s, &timeouts[nr], n.level);
	return n;
}

void arm_into_an_empty_slot_wakes_at_its_tick(void)
{
	struct insertion n = any_insertion(0);

	PROVE(n.wake == n.tick);
	PROVE(n.wake == twheel_wake_tick(&slot, n.block << twheel_shift(&n.g, n.level)));
	PROVE(bit_set == 0);
	PROVE(slot.added == 1);
	PROVE(timeouts[0].level == n.level);
	PROVE(list_is_singular(&slot.list));
	PROVE(n.s.lead_tick == n.lead_tick);
}

void arm_into_an_occupied_slot_wakes_at_its_block(void)
{
	struct insertion n = any_insertion(1);

	PROVE(n.wake == n.block << twheel_shift(&n.g, n.level));
	PROVE(n.wake == twheel_wake_tick(&slot, n.wake));
	PROVE(n.wake <= n.tick);
	PROVE(slot.list.prev == &timeouts[1].entry);
	PROVE(slot.added == 2);
	PROVE(n.s.lead_tick == n.lead_tick);
}

/* Level 0 does not cascade. */
void arm_that_crowds_a_slot_wakes_when_its_cascade_begins(void)
{
	struct insertion n = any_insertion(2);
	u64 start = n.block << twheel_shift(&n.g, n.level), lead_tick;

	if (n.level == 0) {
		PROVE(n.wake == start && n.s.lead_tick == n.lead_tick);
		return;
	}
	lead_tick = twheel_lead_tick(&n.g, n.block, n.level);
	PROVE(n.s.lead_tick == (lead_tick < n.lead_tick ? lead_tick : n.lead_tick));
	PROVE(n.wake <= lead_tick && n.wake <= n.lead_tick);
	PROVE(n.wake == n.s.lead_tick);
}
