/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wheel of the library as the best effort of a program that embeds its timeouts: the reference
 * for cells. Nothing is allocated, and there is no id, no state and no event.
 *
 * One thread at a time may use a wheel, so a lock is up to the caller. Nothing wakes the process:
 * it must sleep until the next step and call nodes_advance().
 *
 * The lazy forms do not unlink a node that is cancelled or armed for later. They leave it in
 * its slot until the slot is visited. It must not be freed before. Use only one kind of
 * functions for a node.
 */
#ifndef BENCH_NODE_H
#define BENCH_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "../../lib/wheel.h"

#define TICK_NS		1000000U

/**
 * struct node - a timeout; zeroed before its first use
 * @in: first member; the next link is NULL if it is not in the wheel
 * @wanted: lazy forms: the tick at which it must fire, or WHEEL_NEVER if it is not armed; 0
 *	with the other functions
 */
struct node {
	struct wheel_node	in;
	uint64_t		wanted;
};

typedef void (*node_fn)(struct node *node);

/* Nothing fires early: the tick is rounded up. */
static inline uint64_t tick_of(uint64_t ns)
{
	return (ns + TICK_NS - 1) / TICK_NS;
}

/* @node is not armed. */
static inline void node_arm(struct wheel *w, struct node *node, uint64_t expires_ns)
{
	node->in.tick = tick_of(expires_ns);
	wheel_enqueue(w, &node->in);
}

/* Returns false if it was not armed. */
static inline bool node_cancel(struct wheel *w, struct node *node)
{
	if (!node->in.link.next)
		return false;
	wheel_dequeue(w, &node->in);
	node->in.link.next = NULL;
	return true;
}

static inline void node_arm_lazily(struct wheel *w, struct node *node, uint64_t expires_ns)
{
	uint64_t tick = tick_of(expires_ns);

	node->wanted = tick;
	if (node->in.link.next) {
		if (node->in.tick <= tick)
			return;
		wheel_dequeue(w, &node->in);
	}
	node->in.tick = tick;
	wheel_enqueue(w, &node->in);
}

static inline bool node_cancel_lazily(struct node *node)
{
	uint64_t wanted = node->wanted;

	node->wanted = WHEEL_NEVER;
	return wanted && wanted != WHEEL_NEVER;
}

/* Call @fired, which is inlined, for all nodes that are due. Then they may be armed again. */
static __always_inline void nodes_advance(struct wheel *w, uint64_t now_ns, node_fn fired)
{
	struct link list, *link, *next;

	while (wheel_take_step(w, now_ns / TICK_NS, &list) >= 0) {
		for (link = list.next; link != &list; link = next) {
			struct node *node = (struct node *)link;

			next = link->next;
			link->next = NULL;
			if (node->wanted == WHEEL_NEVER)
				continue;
			if (node->wanted > node->in.tick)
				node->in.tick = node->wanted;
			if (node->in.tick > w->cursor) {
				wheel_enqueue(w, &node->in);
				continue;
			}
			if (node->wanted)
				node->wanted = WHEEL_NEVER;
			fired(node);
		}
	}
}

#endif
