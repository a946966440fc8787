/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timing wheel inside the process, as good as its owner can make it: the yardstick for
 * cells.
 *
 * The node is a part of the caller's object, so nothing is allocated. There are 256 slots in
 * each level, and as many levels as 64 bits need, so nothing overflows. A node lies in the
 * level of the highest digit in which its tick differs from the cursor. A slot is a list
 * with one pointer as its head. A bit for each slot leads to the next one that is in use.
 * Cancel leaves the bit set: a visit in vain costs less than finding out. Two nodes share a
 * cache line: nodes of 24 bytes were no faster.
 *
 * Arm and cancel are O(1). They may be used by one thread at a time: a lock is the caller's.
 * Nothing wakes the process: it has to sleep until wheel_next() and call wheel_advance().
 *
 * The lazy forms leave a node that is armed again for later, or cancelled, where it is, until
 * its slot is visited. It must not be freed until then. Use one kind for a node.
 *
 * A program that has to know which nodes have fired defines WHEEL_FIRED(node) before it
 * includes this. The node is out of the wheel then, and may be armed again.
 */
#ifndef BENCH_NATIVE_WHEEL_H
#define BENCH_NATIVE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef WHEEL_FIRED
#define WHEEL_FIRED(node)	((void)(node))
#endif

#define WHEEL_BITS	8
#define WHEEL_SLOTS	256U
#define WHEEL_LEVELS	(64 / WHEEL_BITS)
#define WHEEL_WORDS	(WHEEL_SLOTS / 64)
#define WHEEL_TICK_NS	1000000U
#define WHEEL_NEVER	UINT64_MAX

/**
 * struct wheel_node - a timeout; zeroed before its first use
 * @next: in its slot
 * @at: the pointer to this node; NULL if it is not in the wheel
 * @tick: that it is in the wheel for
 * @wanted: lazy forms: the tick that it is to fire in, WHEEL_NEVER if it is not armed.
 *	Otherwise 0
 */
struct wheel_node {
	struct wheel_node	*next;
	struct wheel_node	**at;
	uint64_t		tick;
	uint64_t		wanted;
};

/**
 * struct wheel - a wheel; zeroed before its first use
 * @now: the cursor: the last tick that was visited
 * @fired: how many nodes have fired
 * @used: a bit for each slot that may have nodes
 * @slots: lists of nodes
 */
struct wheel {
	uint64_t		now;
	uint64_t		fired;
	uint64_t		used[WHEEL_LEVELS][WHEEL_WORDS];
	struct wheel_node	*slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

/* Nothing fires early: the tick is rounded up. */
static inline uint64_t wheel_tick(uint64_t ns)
{
	return (ns + WHEEL_TICK_NS - 1) / WHEEL_TICK_NS;
}

static inline void wheel_enqueue(struct wheel *w, struct wheel_node *node)
{
	unsigned int level = (63 - __builtin_clzll((node->tick ^ w->now) | 1)) / WHEEL_BITS;
	unsigned int slot = (node->tick >> (level * WHEEL_BITS)) % WHEEL_SLOTS;
	struct wheel_node **head = &w->slots[level][slot];

	w->used[level][slot / 64] |= 1ULL << slot % 64;
	node->next = *head;
	if (node->next)
		node->next->at = &node->next;
	node->at = head;
	*head = node;
}

static inline void wheel_dequeue(struct wheel_node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
}

/* A deadline in the past fires in the next tick. */
static inline uint64_t wheel_place(const struct wheel *w, uint64_t tick)
{
	return tick > w->now ? tick : w->now + 1;
}

/* @node is not armed. */
static inline void wheel_arm(struct wheel *w, struct wheel_node *node, uint64_t expires_ns)
{
	node->tick = wheel_place(w, wheel_tick(expires_ns));
	wheel_enqueue(w, node);
}

/* Returns false if it was not armed. */
static inline bool wheel_cancel(struct wheel_node *node)
{
	if (!node->at)
		return false;
	wheel_dequeue(node);
	node->at = NULL;
	return true;
}

static inline void wheel_arm_lazily(struct wheel *w, struct wheel_node *node, uint64_t expires_ns)
{
	uint64_t tick = wheel_place(w, wheel_tick(expires_ns));

	node->wanted = tick;
	if (node->at) {
		if (node->tick <= tick)
			return;
		wheel_dequeue(node);
	}
	node->tick = tick;
	wheel_enqueue(w, node);
}

static inline bool wheel_cancel_lazily(struct wheel_node *node)
{
	uint64_t wanted = node->wanted;

	node->wanted = WHEEL_NEVER;
	return wanted && wanted != WHEEL_NEVER;
}

/* The first slot in use after @slot of a level; WHEEL_SLOTS if there is none. */
static inline unsigned int wheel_find(const uint64_t *used, unsigned int slot)
{
	unsigned int from = slot + 1;
	uint64_t word;

	for (unsigned int i = from / 64; i < WHEEL_WORDS; i++, from = 0) {
		word = used[i] & (~0ULL << from % 64);
		if (word)
			return i * 64 + __builtin_ctzll(word);
	}
	return WHEEL_SLOTS;
}

/*
 * When there is something to do next, and in which level: the lowest that has a slot in use,
 * as all its ticks come before those of the levels above.
 */
static inline uint64_t wheel_next(const struct wheel *w, unsigned int *level)
{
	for (*level = 0; *level < WHEEL_LEVELS; ++*level) {
		uint64_t digits = w->now >> (*level * WHEEL_BITS);
		unsigned int slot = wheel_find(w->used[*level], digits % WHEEL_SLOTS);

		if (slot < WHEEL_SLOTS)
			return (digits - digits % WHEEL_SLOTS + slot) << (*level * WHEEL_BITS);
	}
	return WHEEL_NEVER;
}

/* The cursor has come to a slot: all in it fires or moves down. */
static inline void wheel_visit(struct wheel *w, unsigned int level)
{
	unsigned int slot = (w->now >> (level * WHEEL_BITS)) % WHEEL_SLOTS;
	struct wheel_node *node = w->slots[level][slot], *next;

	w->slots[level][slot] = NULL;
	w->used[level][slot / 64] &= ~(1ULL << slot % 64);
	for (; node; node = next) {
		next = node->next;
		node->at = NULL;
		if (node->wanted == WHEEL_NEVER)
			continue;
		if (node->wanted > node->tick)
			node->tick = node->wanted;
		if (node->tick > w->now) {
			wheel_enqueue(w, node);
		} else {
			if (node->wanted)
				node->wanted = WHEEL_NEVER;
			w->fired++;
			WHEEL_FIRED(node);
		}
	}
}

/* Fires all that is due at @now_ns: only ticks that are over. */
static inline void wheel_advance(struct wheel *w, uint64_t now_ns)
{
	uint64_t target = now_ns / WHEEL_TICK_NS, next;
	unsigned int level;

	while ((next = wheel_next(w, &level)) <= target) {
		w->now = next;
		wheel_visit(w, level);
	}
	if (w->now < target)
		w->now = target;
}

#endif
