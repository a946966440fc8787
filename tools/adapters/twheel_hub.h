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
 * To arm a node again, for a later time, is one store and no system call: the kernel
 * looks at the touch word when the timeout comes due. A store that is too late makes
 * an event, and the node is armed anew then, all such of a turn in one system call. To
 * arm it for an earlier time, for the first time, and to cancel it is one call each. All
 * are O(1).
 *
 * A callback may arm, cancel and free any node, its own too. Nothing is called early, and
 * nothing after a cancel.
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

/**
 * struct twheel_node - one timeout
 * @id: of it in the context, 0 if there is none
 * @deadline_ns: when it is due, on CLOCK_MONOTONIC
 * @event: of it, if that has been read and its turn has not come
 * @fn: callback
 */
struct twheel_node {
	uint64_t		id;
	uint64_t		deadline_ns;
	struct twheel_event	*event;
	void			(*fn)(struct twheel_node *node);
};

/**
 * struct twheel_hub - the timeouts of a loop
 * @ctx: their context
 * @watch: begin or end to wait for the descriptor of @ctx: a loop that has nothing
 *	else to wait for ends when no node is armed
 * @armed: nodes that are armed
 * @events: read, and being worked off
 */
struct twheel_hub {
	struct twheel_ctx	*ctx;
	void			(*watch)(struct twheel_hub *hub, bool on);
	unsigned int		armed;
	struct twheel_event	events[TWHEEL_HUB_BATCH];
};

/**
 * twheel_hub_open() - begin
 * @hub: out
 * @watch: as in struct twheel_hub
 *
 * Return: 0, or a negative errno as twheel_open() returns it.
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
 * Return: 0; -EINVAL for a delay above INT64_MAX; -EAGAIN when a limit is reached;
 * -ENOMEM. A failure changes nothing.
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
	return node->id || node->event;
}

#endif /* TWHEEL_HUB_H */
