/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * Timeouts that are embedded in the objects of a program, and call it back.
 *
 * A node is one timeout, a member of the object that it is for. A hub has the nodes of one
 * thread: a context of its own and a pool of cells.
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
 *	twheel_hub_open(NULL, 0, &hub);
 *	twheel_node_init(&connection->idle, hub, connection_idle);
 *	twheel_node_arm(&connection->idle, 30 * TWHEEL_SEC);
 *	twheel_hub_dispatch(hub, TWHEEL_FOREVER);
 *
 * An event loop waits until twheel_fd(twheel_hub_ctx(hub)) is readable, and then calls
 * twheel_hub_dispatch(hub, TWHEEL_NO_WAIT). With edge-triggered notification, call it until
 * it returns 0.
 *
 * Cost: to arm, move or cancel a node is one atomic exchange. The kernel is called only if it
 * would look at the cell too late, as twheel_cell_arm() describes. All functions on nodes are
 * O(1). twheel_node_arm() also reads the clock; twheel_node_arm_at() does not.
 *
 * Cells: an armed node has a cell. A node that fires or is cancelled gives it back to the
 * pool. So an object can be freed as soon as its nodes are not armed. The pool has a list for
 * each power of two of the last delay: the kernel looks at such a cell in time for about the
 * same delay. If no cell fits, the hub makes up to 64 new ones with one system call. It makes
 * none while spare cells outnumber the armed ones by more than 128. Each cell counts as a live
 * timeout of the context. A dispatch ends up to 256 spare cells if they outnumber the armed
 * ones by more than 256. So does a call that reads the clock, at most every 100 ms. So a burst
 * does not hold a limit of timeouts for ever. twheel_hub_reserve() sets how many are kept.
 *
 * Callbacks: they run inside twheel_hub_dispatch(), one after the other. A callback may arm,
 * cancel, relocate and free any node, its own as well. Its own node is not armed while it
 * runs. A node that another callback has cancelled or moved is not called, even if the same
 * dispatch has read its event. Nothing is called before its deadline. A callback may also call
 * twheel_hub_dispatch(), but not twheel_hub_close(). It has to return: it must not throw, call
 * longjmp() or end its thread. The next dispatch would abort the program. twheel.hpp passes
 * exceptions on.
 *
 * Machines without cells: the hub uses ordinary timeouts and looks at the nodes itself. The
 * functions and their results are the same. A move to a later time and a cancel still make no
 * system call; the timeout then fires once in vain. Each dispatch arms such timeouts again with
 * one call.
 *
 * Threads: a hub and its nodes belong to one thread at a time. Give each thread a hub of its
 * own, or have all calls for a hub made under one lock. No function may be called in a signal
 * handler. After fork(), one of the processes may use the hub, with a wheel in the process the
 * parent. The other one may only close it: the cells are shared memory, so to cancel a node there
 * would cancel it in both.
 *
 * Units and errors are those of libtwheel.h: nanoseconds, and 0 or -errno.
 *
 * ABI: programs embed a struct twheel_node, so its size and the place of @hub never change.
 * No function is inline, and the library alone knows the other members, hubs and cells.
 */
#ifndef TWHEEL_HUB_H
#define TWHEEL_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <libtwheel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The object that a node is embedded in. */
#define twheel_entry(node, type, member) \
	((type *)((char *)(node) - offsetof(type, member)))

/* twheel_hub_open(), twheel_hub_flags() */
#define TWHEEL_HUB_NO_CELLS	0x1	/* ordinary timeouts, even where the kernel has cells */

struct twheel_hub;
struct twheel_hub_cell;

/**
 * struct twheel_node - one timeout; all members but @hub are private
 * @hub: the hub, read-only
 * @fn: the callback
 * @cell: the cell while the node is armed, otherwise NULL
 * @due: its entry in the list of a twheel_hub_dispatch() that will call it, otherwise NULL
 */
struct twheel_node {
	struct twheel_hub	*hub;
	void			(*fn)(struct twheel_node *node);
	struct twheel_hub_cell	*cell;
	struct twheel_node	**due;
};

/**
 * twheel_hub_open() - make a hub
 * @ctx: a context without timeouts, which the hub takes over and closes, or NULL for a new
 *	context with TWHEEL_NONBLOCK. Open one to choose the path, the clock, the slack or the
 *	limit
 * @flags: 0, or TWHEEL_HUB_NO_CELLS
 * @hub: out: the hub, closed with twheel_hub_close()
 *
 * Context: any thread.
 *
 * Return: 0; -EINVAL for an unknown flag; -ENOMEM; as twheel_open(). After an error the caller
 * still has @ctx.
 */
int twheel_hub_open(struct twheel_ctx *ctx, unsigned int flags, struct twheel_hub **hub);

/**
 * twheel_hub_close() - close a hub and its context
 * @hub: the hub, or NULL
 *
 * Armed nodes are cancelled. twheel_node_cancel() and twheel_node_armed() remain allowed for
 * all nodes, and return false. Not allowed in a callback.
 *
 * Context: the thread of the hub.
 */
void twheel_hub_close(struct twheel_hub *hub);

/**
 * twheel_hub_ctx() - the context of a hub
 * @hub: the hub
 *
 * It is for twheel_fd(), twheel_get_info() and twheel_get_stats(). Arm nothing in it.
 *
 * Context: any thread.
 *
 * Return: the context, which belongs to the hub.
 */
struct twheel_ctx *twheel_hub_ctx(const struct twheel_hub *hub);

/**
 * twheel_hub_flags() - does a hub use cells?
 * @hub: the hub
 *
 * Context: any thread.
 *
 * Return: TWHEEL_HUB_NO_CELLS if it uses ordinary timeouts, or else 0.
 */
unsigned int twheel_hub_flags(const struct twheel_hub *hub);

/**
 * twheel_hub_armed() - count the nodes that are armed
 * @hub: the hub
 *
 * Context: the thread of the hub.
 *
 * Return: the number of nodes that are armed, or whose callback is still to come.
 */
unsigned int twheel_hub_armed(const struct twheel_hub *hub);

/**
 * twheel_hub_bind() - keep a pointer of the owner in a hub
 * @hub: the hub
 * @binding: a pointer, for example to the object of another language
 *
 * Context: the thread of the hub.
 */
void twheel_hub_bind(struct twheel_hub *hub, void *binding);

/**
 * twheel_hub_binding() - the pointer of twheel_hub_bind()
 * @hub: the hub
 *
 * Context: the thread of the hub.
 *
 * Return: the pointer; NULL at first.
 */
void *twheel_hub_binding(const struct twheel_hub *hub);

/**
 * twheel_hub_watch() - be told when the hub begins and ends to need its descriptor
 * @hub: the hub, without an armed node
 * @fn: called with @on true when the first node is armed, and with false when none is left
 *	armed. Changes during a dispatch are reported when it ends. It must not call functions
 *	of this hub
 * @data: passed to @fn
 *
 * This serves event loops that end when they have nothing to wait for.
 *
 * Context: the thread of the hub.
 */
void twheel_hub_watch(struct twheel_hub *hub, void (*fn)(void *data, bool on), void *data);

/**
 * twheel_hub_reserve() - make cells in advance
 * @hub: the hub
 * @nr: number of nodes. While no more of them are armed at a time, twheel_node_arm() does not
 *	fail with -EAGAIN or -ENOMEM
 *
 * The last call counts: with 0 for @nr, all spare cells may be ended again.
 *
 * Context: the thread of the hub.
 *
 * Return: 0; -EAGAIN at a limit of timeouts; -ENOMEM; -ESHUTDOWN after twheel_stop(). After an
 * error the cells that were made stay.
 */
int twheel_hub_reserve(struct twheel_hub *hub, unsigned int nr);

/**
 * twheel_hub_now() - read the clock of the hub
 * @hub: the hub
 *
 * A program that arms many nodes reads the clock once, and calls twheel_node_arm_at() for each.
 * The call may end spare cells.
 *
 * Context: the thread of the hub, does not block.
 *
 * Return: the time in nanoseconds.
 */
uint64_t twheel_hub_now(struct twheel_hub *hub);

/**
 * twheel_hub_dispatch() - call the nodes that are due
 * @hub: the hub
 * @timeout_ns: how long to wait for the first event: TWHEEL_NO_WAIT, TWHEEL_FOREVER or a time
 *
 * It reads up to 64 events with one system call, and then calls the nodes. If twheel_stop()
 * came before that read, it calls nothing, not even nodes that were due: they are no longer
 * armed.
 *
 * Context: the thread of the hub; also in a callback. A call in a callback that may wait also
 * calls the nodes that the dispatch around it has read and not called yet.
 *
 * Return: the number of events it has read, of which some may have been for nothing; 0 if
 * there is none within @timeout_ns, or if it has called nodes of the dispatch around it; -EINTR
 * when a signal handler ran; -ESHUTDOWN when there is nothing left after twheel_stop().
 */
int twheel_hub_dispatch(struct twheel_hub *hub, int64_t timeout_ns);

/**
 * twheel_hub_break() - have twheel_hub_dispatch() return after this callback
 * @hub: the hub
 *
 * The other nodes that are due are armed again, due at once. So the descriptor becomes readable
 * again, and another dispatch calls them. Outside of a callback it has no effect.
 *
 * Context: a callback.
 */
void twheel_hub_break(struct twheel_hub *hub);

/**
 * twheel_hub_break_if() - have a function end each dispatch, as twheel_hub_break() does
 * @hub: the hub
 * @fn: called after each callback; true ends the dispatch. It must not call functions of this
 *	hub. NULL: no function
 * @data: passed to @fn
 *
 * This serves event loops that a callback can end: @fn tells whether one has done so.
 *
 * Context: the thread of the hub.
 */
void twheel_hub_break_if(struct twheel_hub *hub, bool (*fn)(void *data), void *data);

/**
 * twheel_node_init() - make a node that is not armed
 * @node: out: the node
 * @hub: the hub
 * @fn: the callback, with the node that is due
 *
 * Context: any.
 */
void twheel_node_init(struct twheel_node *node, struct twheel_hub *hub,
		      void (*fn)(struct twheel_node *node));

/**
 * twheel_node_arm() - arm a node, or move it if it is armed
 * @node: the node
 * @delay_ns: the delay from now, 0 for at once. Not on CLOCK_REALTIME, which can be stepped
 *
 * Context: the thread of the hub, does not block. Reads the clock, and rarely makes another
 * system call.
 *
 * Return: 0; -EINVAL for a delay above INT64_MAX; -EAGAIN at a limit of timeouts, and -ENOMEM,
 * both only for a node without a cell: it is not armed, or the current dispatch is to call it.
 * These errors change nothing. -ESHUTDOWN after twheel_stop(), when the node is no longer armed.
 */
int twheel_node_arm(struct twheel_node *node, uint64_t delay_ns);

/**
 * twheel_node_arm_at() - arm a node for a point in time, or move it if it is armed
 * @node: the node
 * @expires_ns: the deadline on the clock of the hub, for example twheel_hub_now() and a delay.
 *	One that is past is due at once
 *
 * Context: as twheel_node_arm(), without the clock.
 *
 * Return: as twheel_node_arm().
 */
int twheel_node_arm_at(struct twheel_node *node, uint64_t expires_ns);

/**
 * twheel_node_cancel() - cancel a node
 * @node: the node, armed or not
 *
 * Context: the thread of the hub, does not block. Never makes a system call.
 *
 * Return: true if it was armed: its callback does not come.
 */
bool twheel_node_cancel(struct twheel_node *node);

/**
 * twheel_node_armed() - will the callback of a node come?
 * @node: the node
 *
 * Context: the thread of the hub, does not block.
 *
 * Return: true if it is armed, or due and not called yet.
 */
bool twheel_node_armed(const struct twheel_node *node);

/**
 * twheel_node_relocate() - put a node in another place in memory
 * @to: out: the node, armed as @from was
 * @from: the node, which is not armed afterwards
 *
 * Use it for an object that is moved, for example by a move constructor. Call it while both
 * places exist.
 *
 * Context: the thread of the hub, does not block.
 */
void twheel_node_relocate(struct twheel_node *to, struct twheel_node *from);

#ifdef __cplusplus
}
#endif

#endif /* TWHEEL_HUB_H */
