/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The timeouts of an event loop, embedded in the objects that they are for.
 *
 * This is what the adapters for libevent and libuv have in common; an adapter for
 * another loop is to call twheel_hub_dispatch() when the descriptor is readable.
 *
 *	struct connection {
 *		struct twheel_node idle;
 *		...
 *	};
 *
 *	static void connection_idle(struct twheel_node *node)
 *	{
 *		struct connection *connection = twheel_entry(node, struct connection, idle);
 *		...
 *	}
 *
 *	twheel_node_init(&connection->idle, connection_idle);
 *	twheel_node_arm(hub, &connection->idle, 30 * TWHEEL_SEC);
 *
 * A node that is armed has a cell. To arm, move and cancel it is one exchange in memory,
 * and hardly ever a system call: the kernel is called if it would look too late, and when
 * more nodes are armed than ever before, for one more cell. All are O(1).
 *
 * The hub keeps the cell of a node that has fired or was cancelled for the next node with
 * about the same delay, for which the kernel looks in time. So it keeps as many as were in
 * use at most, each of them a live timeout of the context.
 *
 * A callback may arm, cancel and free any node, its own too. Nothing is called early, and
 * nothing after a cancel. An event that was on its way when its node was moved or cancelled
 * is withdrawn.
 *
 * A hub and its nodes belong to the thread of their loop.
 */
#ifndef TWHEEL_HUB_H
#define TWHEEL_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtwheel.h"

/* The object that a node is embedded in. */
#define twheel_entry(node, type, member) \
	((type *)((char *)(node) - offsetof(type, member)))

#define TWHEEL_HUB_BATCH	64

/* Delays of 2^n ns up to the double. */
#define TWHEEL_HUB_DELAYS	63

/**
 * struct twheel_hub_cell - a cell, and who uses it; its cookie is the address of this
 * @cell: in the memory of the context
 * @id: of it
 * @delay: of its last arming: n of TWHEEL_HUB_DELAYS
 * @node: that it is armed for; NULL if it is spare
 * @next_spare: with that delay
 * @next: of all
 */
struct twheel_hub_cell {
	struct twheel_cell	*cell;
	uint64_t		id;
	unsigned int		delay;
	struct twheel_node	*node;
	struct twheel_hub_cell	*next_spare;
	struct twheel_hub_cell	*next;
};

/**
 * struct twheel_node - one timeout
 * @cell: that it is armed with; NULL if there is none
 * @event: of it, if that has been read and its turn has not come
 * @fn: callback
 */
struct twheel_node {
	struct twheel_hub_cell	*cell;
	struct twheel_event	*event;
	void			(*fn)(struct twheel_node *node);
};

/**
 * struct twheel_hub - the timeouts of a loop
 * @ctx: their context
 * @watch: begin or end to wait for the descriptor of @ctx: a loop that has nothing
 *	else to wait for ends when no node is armed
 * @armed: nodes that are armed
 * @nr_cells: how many there are, in use or spare
 * @cells: all of them
 * @spare: those that no node uses, by their last delay
 * @events: read, and being worked off
 */
struct twheel_hub {
	struct twheel_ctx	*ctx;
	void			(*watch)(struct twheel_hub *hub, bool on);
	unsigned int		armed;
	unsigned int		nr_cells;
	struct twheel_hub_cell	*cells;
	struct twheel_hub_cell	*spare[TWHEEL_HUB_DELAYS];
	struct twheel_event	events[TWHEEL_HUB_BATCH];
};

/**
 * twheel_hub_open() - begin
 * @hub: out
 * @watch: as in struct twheel_hub
 *
 * Return: 0; -EOPNOTSUPP when the kernel has no cells; a negative errno as twheel_open()
 * returns it.
 */
int twheel_hub_open(struct twheel_hub *hub, void (*watch)(struct twheel_hub *hub, bool on));

/**
 * twheel_hub_close() - end
 * @hub: not in a callback of it; nodes that are armed are not called any more
 */
void twheel_hub_close(struct twheel_hub *hub);

/**
 * twheel_hub_dispatch() - call what is due
 * @hub: whose descriptor is readable
 *
 * What there is beyond a batch keeps the descriptor readable.
 */
void twheel_hub_dispatch(struct twheel_hub *hub);

/**
 * twheel_node_init() - make a node that is not armed
 * @node: out
 * @fn: callback
 */
void twheel_node_init(struct twheel_node *node, void (*fn)(struct twheel_node *node));

/**
 * twheel_node_arm() - arm a node, or move it if it is armed
 * @hub: always the same one for a node
 * @node: the node
 * @delay_ns: from now
 *
 * Return: 0; -EINVAL for a delay above INT64_MAX, which changes nothing; for a node that
 * is not armed, and stays so, also -EAGAIN when a limit is reached, and -ENOMEM.
 */
int twheel_node_arm(struct twheel_hub *hub, struct twheel_node *node, uint64_t delay_ns);

/**
 * twheel_node_cancel() - disarm a node
 * @hub: the hub it was armed with
 * @node: the node, armed or not
 *
 * After twheel_hub_close() it may still be called, as long as there is the hub.
 *
 * Return: true if it was armed, and the hub open: its callback does not come.
 */
bool twheel_node_cancel(struct twheel_hub *hub, struct twheel_node *node);

/**
 * twheel_node_armed() - will its callback come?
 * @node: the node
 */
static inline bool twheel_node_armed(const struct twheel_node *node)
{
	return node->cell || node->event;
}

#endif /* TWHEEL_HUB_H */
