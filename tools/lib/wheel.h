/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * A hierarchical timing wheel in user space, for the library and for the benchmark. It knows
 * positions alone: the clock, the lock and what is due are up to the caller.
 *
 * The cursor is the last tick that the wheel has entered, never after the time. Digit 0 of a tick
 * has 8 bits, the others have 6. The level of a node is the highest digit in which its tick and
 * the cursor differ; its slot is that digit. A bitmap has the slots that are not empty.
 *
 *  - A slot of level 0 holds one tick, because all ticks there agree with the cursor above
 *    digit 0. A tick that is past becomes that of the cursor.
 *  - The next step is the first occupied slot of level 0 from the cursor on, or else the begin
 *    of the first occupied slot of the lowest level that has one. The cursor never passes it.
 *  - When the cursor enters a slot of a level above, the caller places all its nodes anew, in
 *    order, before any other node can be placed in that block. So nodes are due in the order of
 *    their ticks, and those of one tick in the order in which they were placed first.
 *
 * Nodes are embedded in the caller's objects. To place one and to remove it takes constant time.
 */
#ifndef TWHEEL_WHEEL_H
#define TWHEEL_WHEEL_H

#include <stdint.h>

#define WHEEL_BITS_0	8
#define WHEEL_BITS	6
#define WHEEL_LEVELS	11
#define WHEEL_SLOTS_0	(1U << WHEEL_BITS_0)
#define WHEEL_SLOTS	(WHEEL_SLOTS_0 + (WHEEL_LEVELS - 1) * (1U << WHEEL_BITS))
#define WHEEL_NEVER	UINT64_MAX

struct link {
	struct link	*next, *prev;
};

struct wheel_node {
	struct link	link;		/* in a slot */
	uint64_t	tick;		/* for which it is there */
};

struct wheel {
	uint64_t	cursor;		/* last tick that the wheel has entered */
	uint64_t	step;		/* no step is before it; WHEEL_NEVER: the wheel is empty */
	uint64_t	map[WHEEL_SLOTS / 64];	/* slots that are not empty */
	struct link	slot[WHEEL_SLOTS];	/* circular lists */
};

/* Lists */

static inline void list_init(struct link *list)
{
	list->next = list;
	list->prev = list;
}

static inline void list_add_tail(struct link *list, struct link *link)
{
	link->next = list;
	link->prev = list->prev;
	list->prev->next = link;
	list->prev = link;
}

static inline void list_del(struct link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

/* Move all of @from to the empty list @to. */
static inline void list_move_all(struct link *from, struct link *to)
{
	list_init(to);
	if (from->next == from)
		return;
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
	list_init(from);
}

/* The wheel */

static inline struct wheel_node *wheel_node_of(struct link *link)
{
	return (struct wheel_node *)link;
}

static inline void wheel_init(struct wheel *w)
{
	w->cursor = 0;
	w->step = WHEEL_NEVER;
	for (unsigned int i = 0; i < WHEEL_SLOTS / 64; i++)
		w->map[i] = 0;
	for (unsigned int i = 0; i < WHEEL_SLOTS; i++)
		list_init(&w->slot[i]);
}

static inline unsigned int wheel_shift(unsigned int level)
{
	return level ? WHEEL_BITS_0 + (level - 1) * WHEEL_BITS : 0;
}

/* Put @node, which is in no list, into the slot of its tick. */
static inline void wheel_enqueue(struct wheel *w, struct wheel_node *node)
{
	uint64_t tick = node->tick > w->cursor ? node->tick : w->cursor, step;
	unsigned int bit = __builtin_clzll((tick ^ w->cursor) | 1) ^ 63;
	unsigned int level = bit < WHEEL_BITS_0 ? 0 : 1 + (bit - WHEEL_BITS_0) / WHEEL_BITS;
	unsigned int shift = wheel_shift(level), slot;

	slot = level ? WHEEL_SLOTS_0 + (level - 1) * 64 + (tick >> shift) % 64 :
		       tick % WHEEL_SLOTS_0;
	node->tick = tick;
	/* Otherwise its bit is set, and @step is not after it. */
	if (w->slot[slot].prev == &w->slot[slot]) {
		w->map[slot / 64] |= 1ULL << slot % 64;
		step = tick >> shift << shift;
		if (step < w->step)
			w->step = step;
	}
	list_add_tail(&w->slot[slot], &node->link);
}

/* Take @node out of its slot. Both neighbours are the slot if it was alone there. */
static inline void wheel_dequeue(struct wheel *w, struct wheel_node *node)
{
	struct link *next = node->link.next;
	unsigned int slot;

	list_del(&node->link);
	if (next == node->link.prev) {
		slot = next - w->slot;
		w->map[slot / 64] &= ~(1ULL << slot % 64);
	}
}

/* The first tick from the cursor on with a step, and its slot. WHEEL_NEVER: the wheel is empty. */
static inline uint64_t wheel_find_step(const struct wheel *w, unsigned int *slot)
{
	unsigned int level, shift, from = w->cursor % WHEEL_SLOTS_0;
	uint64_t bits, mask = ~0ULL << from % 64;

	for (unsigned int i = from / 64; i < WHEEL_SLOTS_0 / 64; i++, mask = ~0ULL) {
		bits = w->map[i] & mask;
		if (bits) {
			*slot = i * 64 + __builtin_ctzll(bits);
			return w->cursor - from + *slot;
		}
	}
	for (level = 1; level < WHEEL_LEVELS; level++) {
		bits = w->map[WHEEL_SLOTS_0 / 64 - 1 + level];
		if (!bits)
			continue;
		/* All are after the cursor's digit. */
		shift = wheel_shift(level);
		*slot = WHEEL_SLOTS_0 + (level - 1) * 64 + __builtin_ctzll(bits);
		return ((w->cursor >> shift) - (w->cursor >> shift) % 64 + *slot % 64) << shift;
	}
	return WHEEL_NEVER;
}

/*
 * Enter the next step if it is at @tick or before, and move its nodes to @nodes: those of level 0
 * are due, the others are to be placed anew. Returns the level, or -1 and the cursor is at @tick.
 */
static inline int wheel_take_step(struct wheel *w, uint64_t tick, struct link *nodes)
{
	unsigned int slot = 0;

	if (w->step <= tick)
		w->step = wheel_find_step(w, &slot);
	if (w->step > tick) {
		if (w->cursor < tick)
			w->cursor = tick;
		return -1;
	}
	w->cursor = w->step;
	list_move_all(&w->slot[slot], nodes);
	w->map[slot / 64] &= ~(1ULL << slot % 64);
	return slot < WHEEL_SLOTS_0 ? 0 : 1 + (slot - WHEEL_SLOTS_0) / 64;
}

#endif /* TWHEEL_WHEEL_H */
