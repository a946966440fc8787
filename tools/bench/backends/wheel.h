/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timing wheel inside the process, optimised as far as possible: the reference for cells.
 *
 * The node is embedded in the caller's object, so nothing is allocated. Each level has 256
 * slots, and there are as many levels as 64 bits need, so nothing overflows. The level of a
 * node is the highest digit in which its tick differs from the cursor. A slot is a list
 * with one pointer as its head. A bitmap leads to the next slot in use. Cancel leaves the
 * bit set, because visiting an empty slot costs less than checking. Two nodes share a cache
 * line: nodes of 24 bytes were not faster.
 *
 * Arm and cancel are O(1). One thread at a time may use a wheel, so a lock is up to the
 * caller. Nothing wakes the process: it must sleep until wheel_next() and call
 * wheel_advance().
 *
 * The lazy forms do not unlink a node that is cancelled or armed for later. They leave it in
 * its slot until the slot is visited. It must not be freed before. Use only one kind of
 * functions for a node.
 *
 * wheel_advance() calls a function for each node that has fired. At that point the node is
 * not in the wheel and may be armed again. The function is inlined.
 */
#ifndef BENCH_WHEEL_H
#define BENCH_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHEEL_BITS	8
#define WHEEL_SLOTS	256U
#define WHEEL_LEVELS	(64 / WHEEL_BITS)
#define WHEEL_WORDS	(WHEEL_SLOTS / 64)
#define WHEEL_TICK_NS	1000000U
#define WHEEL_NEVER	UINT64_MAX

/**
 * struct wheel_node - a timeout; zeroed before its first use
 * @next: next node in its slot
 * @at: the pointer that points to this node; NULL if it is not in the wheel
 * @tick: tick of its position in the wheel
 * @wanted: lazy forms: the tick at which it must fire, or WHEEL_NEVER if it is not armed; 0
 *	with the other functions
 */
struct wheel_node {
	struct wheel_node	*next;
	struct wheel_node	**at;
	uint64_t		tick;
	uint64_t		wanted;
};

/**
 * struct wheel - a wheel; zeroed before its first use
 * @now: the cursor: the last tick visited
 * @fired: number of nodes that have fired
 * @used: a bit for each slot that may have nodes
 * @slots: lists of nodes
 */
struct wheel {
	uint64_t		now;
	uint64_t		fired;
	uint64_t		used[WHEEL_LEVELS][WHEEL_WORDS];
	struct wheel_node	*slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

typedef void (*wheel_fn)(struct wheel_node *node);

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

/* A deadline in the past fires at the next tick. */
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
 * The next tick that needs work, and its level. That is the lowest level with a slot in
 * use, because all its ticks come before those of the levels above.
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

/* The cursor has reached a slot: its nodes fire or move down. */
static __always_inline void wheel_visit(struct wheel *w, unsigned int level, wheel_fn fired)
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
			fired(node);
		}
	}
}

/* Fire the nodes of all ticks that have passed by @now_ns. */
static __always_inline void wheel_advance(struct wheel *w, uint64_t now_ns, wheel_fn fired)
{
	uint64_t target = now_ns / WHEEL_TICK_NS, next;
	unsigned int level;

	while ((next = wheel_next(w, &level)) <= target) {
		w->now = next;
		wheel_visit(w, level, fired);
	}
	if (w->now < target)
		w->now = target;
}

#endif
