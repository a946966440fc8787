// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Hubs. A cell is in one of three states:
 *
 *	spare	in a list of the hub, its word idle
 *	armed	its node points to it, and used.by to the node
 *	taken	between twheel_hub_take() and the exchange
 *
 * The event of a cell is read only if nothing was exchanged since it fired. Its word is then
 * idle, so the cell becomes spare at once. Until its callback runs, the node points to its entry
 * in the array of the dispatch, and the entry to the node. Each can clear the other. The array
 * is on the stack of twheel_hub_dispatch(), so that a callback may dispatch. If that call waits,
 * it first defers the nodes that the dispatches around it have not called: it could wait for one
 * of them.
 *
 * Without cells, the hub does what the kernel does with a cell. Each cell is 16 bytes of our
 * own, and its ordinary timeout is the look: `look` is the deadline of that timeout. An arming
 * before `look` moves the timeout, which is the kick. When it fires, the hub looks at the word:
 * it calls the node, arms the timeout again for a later deadline, or leaves it. The timeout
 * has an interval that never ends, since the id of such a timeout outlives its events. So
 * nothing can fail that a cell could do, except in the call that makes it.
 */
#include <errno.h>
#include <stdlib.h>

#include "twheel_hub.h"

/* How many events are read, or cells made, with one system call. */
#define AT_ONCE		64

/* The list of cells that no node has used. No delay up to INT64_MAX has this number. */
#define FRESH		(TWHEEL_HUB_DELAYS - 1)

/* How many cells a hub begins with. It doubles them, up to AT_ONCE at a time. */
#define FIRST_CELLS	8

/**
 * struct block - cells that were made together
 * @next: of all blocks
 * @nr: how many were made
 * @cells: AT_ONCE or fewer; without cells in the kernel, their words come behind them
 */
struct block {
	struct block		*next;
	unsigned int		nr;
	struct twheel_hub_cell	cells[];
};

/**
 * struct dispatch - one call of twheel_hub_dispatch()
 * @outer: the dispatch whose callback has made this call, or NULL
 * @broken: twheel_hub_break() was called: the other nodes are deferred
 * @nr: number of entries
 * @due: nodes in the order of their calls; NULL when called, cancelled or armed again
 */
struct dispatch {
	struct dispatch		*outer;
	bool			broken;
	int			nr;
	struct twheel_node	*due[AT_ONCE];
};

/**
 * struct whole_hub - a hub with its private members
 * @hub: the part that inline functions use
 * @blocks: all cells
 * @nr_cells: number of cells
 * @watched: what the function of twheel_hub_watch() was told last
 * @dispatch: the innermost dispatch whose nodes are being called, or NULL
 */
struct whole_hub {
	struct twheel_hub	hub;
	struct block		*blocks;
	unsigned int		nr_cells;
	bool			watched;
	struct dispatch		*dispatch;
};

static struct whole_hub *whole(struct twheel_hub *hub)
{
	return twheel_entry(hub, struct whole_hub, hub);
}

static bool has_cells(const struct twheel_hub *hub)
{
	return !(hub->flags & TWHEEL_HUB_NO_CELLS);
}

/* Cells */

/* A timeout with such an interval has no last event. */
static void prep_timeout(struct twheel_op *op, uint64_t expires_ns, struct twheel_hub_cell *c)
{
	twheel_prep_mod(op, c->id, expires_ns, TWHEEL_F_ABS, (uintptr_t)c);
	twheel_prep_interval(op, INT64_MAX, 0);
}

static void prep_cell(const struct twheel_hub *hub, struct twheel_op *op,
		      struct twheel_hub_cell *c)
{
	if (has_cells(hub)) {
		twheel_prep_arm(op, TWHEEL_CELL_IDLE, TWHEEL_F_CELL | TWHEEL_F_ABS, (uintptr_t)c);
	} else {
		twheel_prep_arm(op, INT64_MAX, TWHEEL_F_ABS, (uintptr_t)c);
		twheel_prep_interval(op, INT64_MAX, 0);
	}
}

static void add_spare(struct twheel_hub *hub, struct twheel_hub_cell *c)
{
	c->delay = FRESH;
	c->used.next = hub->spare[FRESH];
	hub->spare[FRESH] = c;
}

/*
 * At a limit, or after a signal, only some of the cells were made. Their cookies name their
 * places in the block, so the other places stay unused.
 */
static int keep_made(struct whole_hub *own, struct block *block, const struct twheel_op *ops,
		     int tried)
{
	struct twheel_hub *hub = &own->hub;
	int first = tried < 0 ? tried : -EAGAIN, made = 0;

	for (int i = 0; i < tried; i++) {
		struct twheel_hub_cell *c = &block->cells[i];
		int ret = ops[i].result;

		if (!ret && has_cells(hub))
			ret = twheel_cell(hub->ctx, ops[i].id, &c->cell);
		if (ret) {
			first = made ? first : ret;
			if (!ops[i].result)
				twheel_cancel(hub->ctx, ops[i].id);
			continue;
		}
		c->id = ops[i].id;
		add_spare(hub, c);
		made++;
	}
	return made ? made : first;
}

/* Number of cells that were made, up to AT_ONCE, or -errno if there is none. */
static int make_cells(struct whole_hub *own, unsigned int nr)
{
	size_t words = has_cells(&own->hub) ? 0 : sizeof(struct twheel_cell);
	struct twheel_op ops[AT_ONCE];
	struct twheel_cell *word;
	struct block *block;
	int made;

	block = calloc(1, sizeof(*block) + nr * (sizeof(block->cells[0]) + words));
	if (!block)
		return -ENOMEM;
	word = (struct twheel_cell *)&block->cells[nr];
	for (unsigned int i = 0; i < nr; i++) {
		if (words) {
			word[i].word = TWHEEL_CELL_IDLE;
			word[i].look = UINT64_MAX;
			block->cells[i].cell = &word[i];
		}
		prep_cell(&own->hub, &ops[i], &block->cells[i]);
	}
	made = keep_made(own, block, ops, twheel_submit(own->hub.ctx, ops, nr));
	if (made <= 0) {
		free(block);
		return made;
	}
	block->nr = nr;
	block->next = own->blocks;
	own->blocks = block;
	own->nr_cells += made;
	return made;
}

/*
 * A cell with another delay needs a kick. It is taken only if no more cells can be made, or if
 * most cells of a large hub are spare: moves carry cells from one list to another.
 */
int twheel_hub_take(struct twheel_hub *hub, struct twheel_hub_cell **cell)
{
	struct whole_hub *own = whole(hub);
	unsigned int nr = own->nr_cells < FIRST_CELLS ? FIRST_CELLS : own->nr_cells;
	struct twheel_hub_cell *c = NULL;
	int ret = 0;

	if (!hub->spare[FRESH] && own->nr_cells / 2 <= hub->armed + AT_ONCE)
		ret = make_cells(own, nr < AT_ONCE ? nr : AT_ONCE);
	for (int i = FRESH; !c && i >= 0; i--)
		c = twheel_hub_take_spare(hub, i);
	if (!c)
		return ret;
	*cell = c;
	return 0;
}

int twheel_hub_reserve(struct twheel_hub *hub, unsigned int nr)
{
	struct whole_hub *own = whole(hub);

	while (own->nr_cells < nr) {
		unsigned int more = nr - own->nr_cells;
		int ret = make_cells(own, more < AT_ONCE ? more : AT_ONCE);

		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Without cells: have the timeout fire at the deadline. */
static int move_timeout(struct twheel_hub *hub, struct twheel_hub_cell *c, uint64_t expires_ns)
{
	struct twheel_op op;
	int ret;

	prep_timeout(&op, expires_ns, c);
	ret = twheel_operate(hub->ctx, &op);
	if (ret >= 0)
		c->cell->look = expires_ns;
	return ret;
}

int twheel_hub_kick(struct twheel_node *node, uint64_t expires_ns)
{
	struct twheel_hub *hub = node->hub;
	struct twheel_hub_cell *c = node->cell;
	int ret;

	if (has_cells(hub))
		ret = twheel_cell_kick(hub->ctx, c->cell, c->id, expires_ns);
	else
		ret = move_timeout(hub, c, expires_ns);
	if (ret >= 0)
		return 0;
	twheel_node_cancel(node);
	/* The id ends with the stop, before other calls refuse it. */
	return ret == -ENOENT ? -ESHUTDOWN : ret;
}

/* Hubs */

/* Maps all cells, whatever the id. */
static bool can_have_cells(struct twheel_ctx *ctx)
{
	struct twheel_cell *cell;

	return !twheel_cell(ctx, UINT64_C(1) << 32, &cell);
}

int twheel_hub_open(struct twheel_ctx *ctx, unsigned int flags, struct twheel_hub **hub)
{
	struct whole_hub *own;
	int ret;

	if (flags & ~TWHEEL_HUB_NO_CELLS)
		return -EINVAL;
	own = calloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	if (!ctx) {
		ret = twheel_open(NULL, TWHEEL_NONBLOCK, &ctx);
		if (ret) {
			free(own);
			return ret;
		}
	}
	own->hub.ctx = ctx;
	own->hub.flags = flags;
	if (!flags && !can_have_cells(ctx))
		own->hub.flags = TWHEEL_HUB_NO_CELLS;
	twheel_hub_now(&own->hub);
	*hub = &own->hub;
	return 0;
}

/* Cells that are spare have no node: then the nodes of all cells are those that are armed. */
static void forget_spares(struct twheel_hub *hub)
{
	for (int i = 0; i < TWHEEL_HUB_DELAYS; i++) {
		struct twheel_hub_cell *c;

		while ((c = twheel_hub_take_spare(hub, i)))
			c->used.by = NULL;
	}
}

void twheel_hub_close(struct twheel_hub *hub)
{
	struct whole_hub *own;
	struct block *block;

	if (!hub)
		return;
	own = whole(hub);
	forget_spares(hub);
	hub->armed = 0;
	twheel_hub_count(hub);
	while ((block = own->blocks)) {
		for (unsigned int i = 0; i < block->nr; i++) {
			if (block->cells[i].used.by)
				block->cells[i].used.by->cell = NULL;
		}
		own->blocks = block->next;
		free(block);
	}
	twheel_close(hub->ctx);
	free(own);
}

void twheel_hub_watch(struct twheel_hub *hub, void (*fn)(void *data, bool on), void *data)
{
	hub->watch = fn;
	hub->data = data;
}

void twheel_hub_count(struct twheel_hub *hub)
{
	struct whole_hub *own = whole(hub);
	bool on = hub->armed;

	if (!hub->watch || own->dispatch || own->watched == on)
		return;
	own->watched = on;
	hub->watch(hub->data, on);
}

uint64_t twheel_hub_now(struct twheel_hub *hub)
{
	twheel_now(hub->ctx, &hub->now_ns);
	return hub->now_ns;
}

/* Events */

/* Without cells: the timeouts that are to fire later, for one call. */
struct later {
	struct twheel_op	ops[AT_ONCE];
	unsigned int		nr;
};

/* The node is due, and has to be called. */
static void enter_due(struct twheel_node *node, struct twheel_node **due)
{
	twheel_hub_give_back(node);
	*due = node;
	node->due = due;
}

/* The context was stopped: the node is not called. The next arming is refused. */
static void drop(struct twheel_hub *hub, struct twheel_hub_cell *c)
{
	bool armed = has_cells(hub) || c->cell->word <= INT64_MAX;

	if (!has_cells(hub))
		c->cell->look = UINT64_MAX;
	if (!armed)
		return;
	twheel_hub_exchange(c->cell, TWHEEL_CELL_IDLE);
	twheel_hub_give_back(c->used.by);
	hub->armed--;
}

/* Without cells: look at the word. */
static void look(struct twheel_hub *hub, struct twheel_hub_cell *c, struct twheel_node **due,
		 struct later *later)
{
	struct twheel_cell *cell = c->cell;

	cell->look = UINT64_MAX;
	if (cell->word > INT64_MAX)
		return;
	if (cell->word <= hub->now_ns) {
		cell->word = TWHEEL_CELL_IDLE;
		enter_due(c->used.by, due);
		return;
	}
	cell->look = cell->word;
	prep_timeout(&later->ops[later->nr++], cell->word, c);
}

static void take_event(struct twheel_hub *hub, const struct twheel_event *event,
		       struct twheel_node **due, struct later *later)
{
	struct twheel_hub_cell *c = (struct twheel_hub_cell *)(uintptr_t)event->cookie;

	*due = NULL;
	/* Only a stop makes the event of a cell, or of an endless timeout, the last one. */
	if (event->flags & TWHEEL_EV_LAST)
		drop(hub, c);
	else if (has_cells(hub))
		enter_due(c->used.by, due);
	else
		look(hub, c, due, later);
}

/* An operation fails only in a context that was stopped, whose events follow. */
static void submit_later(struct twheel_hub *hub, struct later *later)
{
	for (unsigned int done = 0; done < later->nr;) {
		int ret = twheel_submit(hub->ctx, later->ops + done, later->nr - done);

		if (ret <= 0 && ret != -EINTR)
			return;
		done += ret > 0 ? ret : 0;
	}
}

static void call(struct twheel_node *node)
{
	twheel_hub_forget_due(node);
	node->hub->armed--;
	node->fn(node);
}

/*
 * Arm the node again, due at once, so that a later dispatch calls it. The clock may have been set
 * back, so the deadline is 0. If callbacks of this dispatch have taken all cells, and no more can
 * be made, the node keeps its entry. It is then called at once.
 */
static void defer(struct twheel_node *node)
{
	twheel_node_arm_at(node, 0);
	if (node->due)
		call(node);
}

static void defer_all(struct dispatch *dispatch)
{
	for (; dispatch; dispatch = dispatch->outer)
		for (int i = 0; i < dispatch->nr; i++)
			if (dispatch->due[i])
				defer(dispatch->due[i]);
}

int twheel_hub_dispatch(struct twheel_hub *hub, int64_t timeout_ns)
{
	struct whole_hub *own = whole(hub);
	struct twheel_event events[AT_ONCE];
	struct dispatch dispatch;
	struct later later;
	int nr;

	if (timeout_ns)
		defer_all(own->dispatch);
	nr = twheel_read(hub->ctx, events, AT_ONCE, timeout_ns);
	if (nr <= 0)
		return nr == -ETIMEDOUT ? 0 : nr ? nr : -ESHUTDOWN;
	twheel_hub_now(hub);
	later.nr = 0;
	for (int i = 0; i < nr; i++)
		take_event(hub, &events[i], &dispatch.due[i], &later);
	submit_later(hub, &later);

	dispatch.outer = own->dispatch;
	dispatch.broken = false;
	dispatch.nr = nr;
	own->dispatch = &dispatch;
	for (int i = 0; i < nr; i++) {
		if (dispatch.due[i] && dispatch.broken)
			defer(dispatch.due[i]);
		else if (dispatch.due[i])
			call(dispatch.due[i]);
	}
	own->dispatch = dispatch.outer;
	twheel_hub_count(hub);
	return nr;
}

void twheel_hub_break(struct twheel_hub *hub)
{
	struct whole_hub *own = whole(hub);

	if (own->dispatch)
		own->dispatch->broken = true;
}
