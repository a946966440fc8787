/* SPDX-License-Identifier: LGPL-2.1-or-later */
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
 * An event loop waits until twheel_fd(hub->ctx) is readable, and then calls
 * twheel_hub_dispatch(hub, TWHEEL_NO_WAIT). With edge-triggered notification, call it until
 * it returns 0.
 *
 * Cost: to arm, move or cancel a node is one atomic exchange, inline. The kernel is called
 * only if it would look at the cell too late, as twheel_cell_arm() describes. All functions
 * on nodes are O(1). twheel_node_arm() also reads the clock; twheel_node_arm_at() does not.
 *
 * Cells: an armed node has a cell. A node that fires or is cancelled gives it back to the
 * pool. So an object can be freed as soon as its nodes are not armed. The pool has a list for
 * each power of two of the last delay: the kernel looks at such a cell in time for about the
 * same delay. If no cell fits, the hub makes up to 64 new ones with one system call. It makes
 * none while spare cells outnumber the armed ones by more than 128. It keeps all cells until it
 * is closed, and each counts as a live timeout of the context.
 *
 * Callbacks: they run inside twheel_hub_dispatch(), one after the other. A callback may arm,
 * cancel, relocate and free any node, its own as well. Its own node is not armed while it
 * runs. A node that another callback has cancelled or moved is not called, even if the same
 * dispatch has read its event. Nothing is called before its deadline. A callback may also call
 * twheel_hub_dispatch(), but not twheel_hub_close().
 *
 * Machines without cells: the hub uses ordinary timeouts and looks at the nodes itself. The
 * functions and their results are the same. A move to a later time and a cancel still make no
 * system call; the timeout then fires once in vain. Each dispatch arms such timeouts again with
 * one call.
 *
 * Threads: a hub and its nodes belong to one thread at a time. Give each thread a hub of its
 * own, or have all calls for a hub made under one lock. No function may be called in a signal
 * handler. After fork(), one of the processes may use the hub. The other one may only close it:
 * the cells are shared memory, so to cancel a node there would cancel it in both.
 *
 * Units and errors are those of libtwheel.h: nanoseconds, and 0 or -errno.
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

/* twheel_hub_open(), flags; struct twheel_hub, flags */
#define TWHEEL_HUB_NO_CELLS	0x1	/* ordinary timeouts, even where the kernel has cells */

/* struct twheel_hub, spare: delays from 2^n ns, and cells that were not used yet */
#define TWHEEL_HUB_DELAYS	64

struct twheel_hub;
struct twheel_hub_cell;

/**
 * struct twheel_node - one timeout; all members are private
 * @hub: the hub
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
 * struct twheel_hub_cell - a cell of a hub; private
 * @cell: the word that is exchanged
 * @id: id of the timeout in the context
 * @used: the node, while the cell is armed; otherwise the next spare cell
 * @delay: number of the list of spare cells that it belongs to
 * @reserved: fills padding
 */
struct twheel_hub_cell {
	struct twheel_cell	*cell;
	uint64_t		id;
	union {
		struct twheel_node	*by;
		struct twheel_hub_cell	*next;
	} used;
	int32_t			delay;
	uint32_t		reserved;
};

/**
 * struct twheel_hub - a hub, made by twheel_hub_open()
 * @ctx: its context, for twheel_fd(), twheel_info() and twheel_stats(). Arm nothing else in it
 * @flags: TWHEEL_HUB_NO_CELLS if it uses ordinary timeouts
 * @armed: number of nodes that are armed, or whose callback is still to come
 * @now_ns: when the clock was read last
 * @binding: for the owner of the hub, for example a binding for another language; NULL at first
 * @watch: private
 * @data: private
 * @spare: private
 *
 * All members are read-only but @binding. The library may append private ones.
 */
struct twheel_hub {
	struct twheel_ctx	*ctx;
	unsigned int		flags;
	unsigned int		armed;
	uint64_t		now_ns;
	void			*binding;
	void			(*watch)(void *data, bool on);
	void			*data;
	struct twheel_hub_cell	*spare[TWHEEL_HUB_DELAYS];
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
 * In a callback, @now_ns of the hub is the time when the dispatch read its events.
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
 * It reads up to 64 events with one system call, and then calls the nodes. After
 * twheel_stop() it calls nothing, not even nodes that were due: they are no longer armed.
 *
 * Context: the thread of the hub; also in a callback. A call in a callback that may wait also
 * calls the nodes that the dispatch around it has read and not called yet.
 *
 * Return: the number of events it has read, of which some may have been for nothing; 0 if
 * there is none within @timeout_ns; -EINTR when a signal handler ran; -ESHUTDOWN when there
 * is nothing left after twheel_stop().
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

/* For the inline functions alone, from here to twheel_node_init(). */

/**
 * twheel_hub_take() - find a cell for a node that is armed; private
 * @hub: the hub, whose list of spare cells for the delay is empty
 * @cell: out: a cell that is in no list
 *
 * Return: as twheel_node_arm().
 */
int twheel_hub_take(struct twheel_hub *hub, struct twheel_hub_cell **cell);

/**
 * twheel_hub_kick() - tell the kernel of an arming; private
 * @node: the node
 * @expires_ns: the deadline that its cell has been exchanged with
 *
 * Return: as twheel_node_arm().
 */
int twheel_hub_kick(struct twheel_node *node, uint64_t expires_ns);

/**
 * twheel_hub_count() - a node was armed, or is no longer; private
 * @hub: the hub
 *
 * Calls the function of twheel_hub_watch() if it has to know.
 */
void twheel_hub_count(struct twheel_hub *hub);

#ifdef __cplusplus
#define TWHEEL_NODE_INLINE	inline
#else
#define TWHEEL_NODE_INLINE	static __inline
#endif

/* Returns the time at which the kernel, or the hub, looks at the word. */
TWHEEL_NODE_INLINE uint64_t twheel_hub_exchange(struct twheel_cell *cell, uint64_t word)
{
#ifdef TWHEEL_HAS_CELLS
	__atomic_exchange_n(&cell->word, word, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&cell->look, __ATOMIC_SEQ_CST);
#else
	/* No other thread, nor the kernel, uses it. */
	cell->word = word;
	return cell->look;
#endif
}

TWHEEL_NODE_INLINE int twheel_hub_delay(uint64_t delay_ns)
{
	return 63 - __builtin_clzll(delay_ns | 1);
}

TWHEEL_NODE_INLINE void twheel_hub_give_back(struct twheel_node *node)
{
	struct twheel_hub_cell *c = node->cell;

	c->used.next = node->hub->spare[c->delay];
	node->hub->spare[c->delay] = c;
	node->cell = NULL;
}

TWHEEL_NODE_INLINE struct twheel_hub_cell *twheel_hub_take_spare(struct twheel_hub *hub, int delay)
{
	struct twheel_hub_cell *c = hub->spare[delay];

	if (c)
		hub->spare[delay] = c->used.next;
	return c;
}

TWHEEL_NODE_INLINE void twheel_hub_forget_due(struct twheel_node *node)
{
	*node->due = NULL;
	node->due = NULL;
}

TWHEEL_NODE_INLINE int twheel_hub_arm(struct twheel_node *node, uint64_t expires_ns, int delay)
{
	struct twheel_hub *hub = node->hub;
	struct twheel_hub_cell *c = node->cell;
	int ret;

	if (!c) {
		c = twheel_hub_take_spare(hub, delay);
		if (__builtin_expect(!c, 0)) {
			ret = twheel_hub_take(hub, &c);
			if (ret)
				return ret;
		}
		c->used.by = node;
		node->cell = c;
		if (node->due)
			twheel_hub_forget_due(node);
		else if (!hub->armed++ && hub->watch)
			twheel_hub_count(hub);
	}
	c->delay = delay;
	if (__builtin_expect(twheel_hub_exchange(c->cell, expires_ns) > expires_ns, 0))
		return twheel_hub_kick(node, expires_ns);
	return 0;
}

/**
 * twheel_node_init() - make a node that is not armed
 * @node: out: the node
 * @hub: the hub
 * @fn: the callback, with the node that is due
 *
 * Context: any.
 */
TWHEEL_NODE_INLINE void twheel_node_init(struct twheel_node *node, struct twheel_hub *hub,
					 void (*fn)(struct twheel_node *node))
{
	node->hub = hub;
	node->fn = fn;
	node->cell = NULL;
	node->due = NULL;
}

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
TWHEEL_NODE_INLINE int twheel_node_arm(struct twheel_node *node, uint64_t delay_ns)
{
	uint64_t now_ns, most;

	if (delay_ns > INT64_MAX)
		return -EINVAL;
	now_ns = twheel_hub_now(node->hub);
	most = INT64_MAX - now_ns;
	return twheel_hub_arm(node, now_ns + (delay_ns < most ? delay_ns : most),
			      twheel_hub_delay(delay_ns));
}

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
TWHEEL_NODE_INLINE int twheel_node_arm_at(struct twheel_node *node, uint64_t expires_ns)
{
	uint64_t now_ns = node->hub->now_ns;

	if (expires_ns > INT64_MAX)
		return -EINVAL;
	return twheel_hub_arm(node, expires_ns,
			      twheel_hub_delay(expires_ns > now_ns ? expires_ns - now_ns : 0));
}

/**
 * twheel_node_cancel() - cancel a node
 * @node: the node, armed or not
 *
 * Context: the thread of the hub, does not block. Never makes a system call.
 *
 * Return: true if it was armed: its callback does not come.
 */
TWHEEL_NODE_INLINE bool twheel_node_cancel(struct twheel_node *node)
{
	struct twheel_hub *hub = node->hub;

	if (node->cell) {
		twheel_hub_exchange(node->cell->cell, TWHEEL_CELL_IDLE);
		twheel_hub_give_back(node);
	} else if (node->due) {
		twheel_hub_forget_due(node);
	} else {
		return false;
	}
	if (!--hub->armed && hub->watch)
		twheel_hub_count(hub);
	return true;
}

/**
 * twheel_node_armed() - will the callback of a node come?
 * @node: the node
 *
 * Context: the thread of the hub, does not block.
 *
 * Return: true if it is armed, or due and not called yet.
 */
TWHEEL_NODE_INLINE bool twheel_node_armed(const struct twheel_node *node)
{
	return node->cell || node->due;
}

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
TWHEEL_NODE_INLINE void twheel_node_relocate(struct twheel_node *to, struct twheel_node *from)
{
	*to = *from;
	if (to->cell)
		to->cell->used.by = to;
	if (to->due)
		*to->due = to;
	from->cell = NULL;
	from->due = NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* TWHEEL_HUB_H */
