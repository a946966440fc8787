// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * Hubs. A cell is in one of three states:
 *
 *	spare	in a list of the hub, its word idle
 *	armed	its node points to it, and used.by to the node
 *	unmade	its place in memory is in a list, and the context has no such timeout
 *
 * Any spare cell can be ended, in callbacks too: a dispatch has handled the events that it has
 * read before it calls a node, and the end of a timeout withdraws an unread event.
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
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "twheel_hub.h"

/* How many events are read, or cells made, with one system call. */
#define BATCH		64

/* Bytes of a stack, fewer than there are between two stacks */
#define MIN_STACK_DISTANCE	4096

/* For what is rare: a move of a node then saves no registers. */
#define NOINLINE	__attribute__((__noinline__))

/* Lists of cells. List n before NEVER_USED has spare cells for delays from 2^n ns, to INT64_MAX. */
#define NEVER_USED	63	/* spare, and no node has used them */
#define NOT_CREATED	64	/* places without a cell */
#define NR_LISTS	65

/* How many cells a hub begins with. It doubles them, up to BATCH at a time. */
#define FIRST_CELLS	8

/*
 * Spare cells beyond the armed ones that a hub keeps. It makes none from half of that on, so it
 * ends no cell until the number of armed ones has fallen to about a half. A dispatch makes 64
 * nodes unarmed, which is 128 cells to end: with twice as many, it keeps up with any burst.
 */
#define KEPT_SPARE	(4 * BATCH)
#define MAX_ENDED	(4 * BATCH)

/*
 * Nodes that are cancelled make no event, and the hub may not be dispatched. So a reading of the
 * clock ends cells, too, unless another has done so within this time: bursts that follow each
 * other closely then keep nearly all cells.
 */
#define END_EVERY_NS	(100 * TWHEEL_MSEC)

/**
 * struct twheel_hub_cell - a cell of a hub
 * @cell: the word that is exchanged
 * @id: id of the timeout in the context. Its alignment is that of words behind an array
 * @used: the node, while the cell is armed; otherwise the next cell in its list
 * @delay: number of the list of spare cells that it belongs to
 */
struct twheel_hub_cell {
	struct twheel_cell	*cell;
	__aligned_u64		id;
	union {
		struct twheel_node	*by;
		struct twheel_hub_cell	*next;
	} used;
	int			delay;
};

/**
 * struct block - places for cells
 * @next: of all blocks
 * @nr: how many there are
 * @cells: BATCH or fewer; without cells in the kernel, their words come behind them
 */
struct block {
	struct block		*next;
	unsigned int		nr;
	struct twheel_hub_cell	cells[];
};

/**
 * struct dispatch - one call of twheel_hub_dispatch()
 * @outer: the dispatch whose callback has made this call, or NULL
 * @outer_frame: its place on the stack
 * @broken: twheel_hub_break() was called: the other nodes are deferred
 * @nr: number of entries
 * @due: nodes in the order of their calls; NULL when called, cancelled or armed again
 */
struct dispatch {
	struct dispatch		*outer;
	void			*outer_frame;
	bool			broken;
	int			nr;
	struct twheel_node	*due[BATCH];
};

/**
 * struct twheel_hub - a hub
 * @ctx: its context
 * @flags: TWHEEL_HUB_NO_CELLS if it uses ordinary timeouts
 * @armed: number of nodes that are armed, or whose callback is still to come
 * @now_ns: when the clock was read last
 * @ended_ns: when a reading of the clock ended cells last, or found none to end
 * @binding: as given to twheel_hub_bind()
 * @watch: as given to twheel_hub_watch()
 * @data: as given to twheel_hub_watch()
 * @is_over: as given to twheel_hub_break_if(), or NULL
 * @loop: as given to twheel_hub_break_if()
 * @watched: what @watch was told last
 * @dispatch: the innermost dispatch whose nodes are being called, or NULL
 * @frame: its place on the stack
 * @blocks: memory of all cells
 * @nr_cells: number of cells, without unmade ones
 * @reserved: how many of them twheel_hub_reserve() keeps
 * @lists: of cells that are not armed
 */
struct twheel_hub {
	struct twheel_ctx	*ctx;
	unsigned int		flags;
	unsigned int		armed;
	uint64_t		now_ns;
	uint64_t		ended_ns;
	void			*binding;
	void			(*watch)(void *data, bool on);
	void			*data;
	bool			(*is_over)(void *loop);
	void			*loop;
	bool			watched;
	struct dispatch		*dispatch;
	void			*frame;
	struct block		*blocks;
	unsigned int		nr_cells;
	unsigned int		reserved;
	struct twheel_hub_cell	*lists[NR_LISTS];
};

static_assert(sizeof(struct twheel_node) == 4 * sizeof(void *), "it is in programs");

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
		c->cell->word = TWHEEL_CELL_IDLE;
		c->cell->look = UINT64_MAX;
		twheel_prep_arm(op, INT64_MAX, TWHEEL_F_ABS, (uintptr_t)c);
		twheel_prep_interval(op, INT64_MAX, 0);
	}
}

static void push_cell(struct twheel_hub *hub, struct twheel_hub_cell *c, int list)
{
	c->used.next = hub->lists[list];
	hub->lists[list] = c;
}

static struct twheel_hub_cell *pop_cell(struct twheel_hub *hub, int list)
{
	struct twheel_hub_cell *c = hub->lists[list];

	if (c)
		hub->lists[list] = c->used.next;
	return c;
}

/* The next spare cell, whatever its list, from list @from down. */
static struct twheel_hub_cell *pop_spare_cell(struct twheel_hub *hub, int *from)
{
	struct twheel_hub_cell *c = NULL;

	while (*from >= 0 && !(c = pop_cell(hub, *from)))
		--*from;
	return c;
}

static bool add_block(struct twheel_hub *hub, unsigned int nr)
{
	size_t words = has_cells(hub) ? 0 : sizeof(struct twheel_cell);
	struct twheel_cell *word;
	struct block *block;

	block = calloc(1, sizeof(*block) + nr * (sizeof(block->cells[0]) + words));
	if (!block)
		return false;
	word = (struct twheel_cell *)&block->cells[nr];
	for (unsigned int i = 0; i < nr; i++) {
		block->cells[i].cell = words ? &word[i] : NULL;
		push_cell(hub, &block->cells[i], NOT_CREATED);
	}
	block->nr = nr;
	block->next = hub->blocks;
	hub->blocks = block;
	return true;
}

/* The context has made it. Returns 0 if it can be used. */
static int init_cell(struct twheel_hub *hub, struct twheel_hub_cell *c, uint64_t id)
{
	int ret = 0;

	c->id = id;
	if (has_cells(hub))
		ret = twheel_cell_find(hub->ctx, id, &c->cell);
	if (ret)
		twheel_cancel(hub->ctx, id);
	return ret;
}

/*
 * Number of cells that were made, up to BATCH, or -errno if there is none. At a limit, some of
 * the places stay unmade.
 */
static int create_cells(struct twheel_hub *hub, unsigned int nr)
{
	struct twheel_hub_cell *cells[BATCH];
	int made = 0, tried = 0, done, ret;
	struct twheel_op ops[BATCH];

	if (nr > BATCH)
		nr = BATCH;
	if (!hub->lists[NOT_CREATED] && !add_block(hub, nr))
		return -ENOMEM;
	for (; tried < (int)nr && hub->lists[NOT_CREATED]; tried++) {
		cells[tried] = pop_cell(hub, NOT_CREATED);
		prep_cell(hub, &ops[tried], cells[tried]);
	}
	done = twheel_submit_ops(hub->ctx, ops, tried);
	ret = done < 0 ? done : -EAGAIN;
	for (int i = 0; i < tried; i++) {
		if (i < done)
			ret = ops[i].result ?: init_cell(hub, cells[i], ops[i].id);
		if (i < done && !ret)
			made++;
		push_cell(hub, cells[i], i < done && !ret ? NEVER_USED : NOT_CREATED);
	}
	hub->nr_cells += made;
	return made ? made : ret;
}

/*
 * A cell with another delay needs a kick. It is taken only if no more cells can be made, or if
 * most cells of a large hub are spare: moves carry cells from one list to another.
 */
static NOINLINE int take_other_cell(struct twheel_hub *hub, struct twheel_hub_cell **cell)
{
	int from = NEVER_USED, ret = 0;

	if (!hub->lists[NEVER_USED] && hub->nr_cells / 2 <= hub->armed + BATCH)
		ret = create_cells(hub, hub->nr_cells < FIRST_CELLS ? FIRST_CELLS : hub->nr_cells);
	*cell = pop_spare_cell(hub, &from);
	return *cell ? 0 : ret;
}

int twheel_hub_reserve(struct twheel_hub *hub, unsigned int nr)
{
	hub->reserved = nr;
	while (hub->nr_cells < nr) {
		int ret = create_cells(hub, nr - hub->nr_cells);

		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Cells that the context refuses to end stay spare. */
static void end_cells(struct twheel_hub *hub, unsigned int nr)
{
	struct twheel_hub_cell *cells[BATCH];
	struct twheel_op ops[BATCH];
	int from = NEVER_USED, done;

	for (unsigned int i = 0; i < nr; i++) {
		cells[i] = pop_spare_cell(hub, &from);
		twheel_prep_cancel(&ops[i], cells[i]->id);
	}
	done = twheel_submit_ops(hub->ctx, ops, nr);
	for (int i = 0; i < (int)nr; i++) {
		bool ended = i < done && (ops[i].result >= 0 || ops[i].result == -ENOENT);

		push_cell(hub, cells[i], ended ? NOT_CREATED : NEVER_USED);
		hub->nr_cells -= ended;
	}
}

static NOINLINE void end_spare_cells(struct twheel_hub *hub)
{
	for (int i = 0; i < MAX_ENDED; i += BATCH) {
		uint64_t kept = 2 * (uint64_t)hub->armed + KEPT_SPARE, nr;

		if (kept < hub->reserved)
			kept = hub->reserved;
		if (hub->nr_cells <= kept)
			return;
		nr = hub->nr_cells - kept;
		end_cells(hub, nr < BATCH ? nr : BATCH);
	}
}

/* Nodes */

/* Calls the function of twheel_hub_watch() if it has to know. */
static NOINLINE void notify_watch(struct twheel_hub *hub)
{
	bool on = hub->armed;

	if (!hub->watch || hub->dispatch || hub->watched == on)
		return;
	hub->watched = on;
	hub->watch(hub->data, on);
}

/* Returns the time at which the kernel, or the hub, looks at the word. */
static uint64_t exchange(struct twheel_cell *cell, uint64_t word)
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

static void release_cell(struct twheel_node *node)
{
	push_cell(node->hub, node->cell, node->cell->delay);
	node->cell = NULL;
}

static void clear_due(struct twheel_node *node)
{
	*node->due = NULL;
	node->due = NULL;
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

static NOINLINE int kick(struct twheel_node *node, uint64_t expires_ns)
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

static inline void attach_cell(struct twheel_node *node, struct twheel_hub_cell *c)
{
	c->used.by = node;
	node->cell = c;
}

static inline int set_word(struct twheel_node *node, uint64_t expires_ns, int delay)
{
	node->cell->delay = delay;
	if (exchange(node->cell->cell, expires_ns) > expires_ns)
		return kick(node, expires_ns);
	return 0;
}

/* For a node without a cell, in any state. */
static NOINLINE int arm_slow(struct twheel_node *node, uint64_t expires_ns, int delay)
{
	struct twheel_hub *hub = node->hub;
	struct twheel_hub_cell *c = pop_cell(hub, delay);

	if (!c) {
		int ret = take_other_cell(hub, &c);

		if (ret)
			return ret;
	}
	attach_cell(node, c);
	if (node->due)
		clear_due(node);
	else if (!hub->armed++)
		notify_watch(hub);
	return set_word(node, expires_ns, delay);
}

static inline int arm(struct twheel_node *node, uint64_t expires_ns, uint64_t delay_ns)
{
	int delay = 63 - __builtin_clzll(delay_ns | 1);
	struct twheel_hub *hub = node->hub;

	if (!node->cell) {
		if (!hub->lists[delay] || !hub->armed || node->due)
			return arm_slow(node, expires_ns, delay);
		attach_cell(node, pop_cell(hub, delay));
		hub->armed++;
	}
	return set_word(node, expires_ns, delay);
}

void twheel_node_init(struct twheel_node *node, struct twheel_hub *hub,
		      void (*fn)(struct twheel_node *node))
{
	node->hub = hub;
	node->fn = fn;
	node->cell = NULL;
	node->due = NULL;
}

int twheel_node_arm(struct twheel_node *node, uint64_t delay_ns)
{
	uint64_t now_ns, most;

	if (delay_ns > INT64_MAX)
		return -EINVAL;
	now_ns = twheel_hub_now(node->hub);
	most = INT64_MAX - now_ns;
	return arm(node, now_ns + (delay_ns < most ? delay_ns : most), delay_ns);
}

int twheel_node_arm_at(struct twheel_node *node, uint64_t expires_ns)
{
	uint64_t now_ns = node->hub->now_ns;

	if (expires_ns > INT64_MAX)
		return -EINVAL;
	return arm(node, expires_ns, expires_ns > now_ns ? expires_ns - now_ns : 0);
}

bool twheel_node_cancel(struct twheel_node *node)
{
	struct twheel_hub *hub = node->hub;

	if (node->cell) {
		exchange(node->cell->cell, TWHEEL_CELL_IDLE);
		release_cell(node);
	} else if (node->due) {
		clear_due(node);
	} else {
		return false;
	}
	if (!--hub->armed)
		notify_watch(hub);
	return true;
}

bool twheel_node_armed(const struct twheel_node *node)
{
	return node->cell || node->due;
}

void twheel_node_relocate(struct twheel_node *to, struct twheel_node *from)
{
	*to = *from;
	if (to->cell)
		to->cell->used.by = to;
	if (to->due)
		*to->due = to;
	from->cell = NULL;
	from->due = NULL;
}

/* Hubs */

/* Maps all cells, whatever the id. */
static bool can_have_cells(struct twheel_ctx *ctx)
{
	struct twheel_cell *cell;

	return !twheel_cell_find(ctx, UINT64_C(1) << 32, &cell);
}

int twheel_hub_open(struct twheel_ctx *ctx, unsigned int flags, struct twheel_hub **out)
{
	struct twheel_hub *hub;
	int ret;

	if (flags & ~TWHEEL_HUB_NO_CELLS)
		return -EINVAL;
	hub = calloc(1, sizeof(*hub));
	if (!hub)
		return -ENOMEM;
	if (!ctx) {
		ret = twheel_open(NULL, TWHEEL_NONBLOCK, &ctx);
		if (ret) {
			free(hub);
			return ret;
		}
	}
	hub->ctx = ctx;
	hub->flags = flags;
	if (!flags && !can_have_cells(ctx))
		hub->flags = TWHEEL_HUB_NO_CELLS;
	twheel_now(ctx, &hub->now_ns);
	hub->ended_ns = hub->now_ns;
	*out = hub;
	return 0;
}

/* Then the nodes of all cells are those that are armed. */
static void clear_lists(struct twheel_hub *hub)
{
	for (int i = 0; i < NR_LISTS; i++) {
		struct twheel_hub_cell *c;

		while ((c = pop_cell(hub, i)))
			c->used.by = NULL;
	}
}

void twheel_hub_close(struct twheel_hub *hub)
{
	struct block *block;

	if (!hub)
		return;
	clear_lists(hub);
	hub->armed = 0;
	notify_watch(hub);
	while ((block = hub->blocks)) {
		for (unsigned int i = 0; i < block->nr; i++) {
			if (block->cells[i].used.by)
				block->cells[i].used.by->cell = NULL;
		}
		hub->blocks = block->next;
		free(block);
	}
	twheel_close(hub->ctx);
	free(hub);
}

struct twheel_ctx *twheel_hub_ctx(const struct twheel_hub *hub)
{
	return hub->ctx;
}

unsigned int twheel_hub_flags(const struct twheel_hub *hub)
{
	return hub->flags;
}

unsigned int twheel_hub_armed(const struct twheel_hub *hub)
{
	return hub->armed;
}

void twheel_hub_bind(struct twheel_hub *hub, void *binding)
{
	hub->binding = binding;
}

void *twheel_hub_binding(const struct twheel_hub *hub)
{
	return hub->binding;
}

void twheel_hub_watch(struct twheel_hub *hub, void (*fn)(void *data, bool on), void *data)
{
	hub->watch = fn;
	hub->data = data;
}

uint64_t twheel_hub_now(struct twheel_hub *hub)
{
	twheel_now(hub->ctx, &hub->now_ns);
	if (hub->now_ns - hub->ended_ns >= END_EVERY_NS) {
		hub->ended_ns = hub->now_ns;
		end_spare_cells(hub);
	}
	return hub->now_ns;
}

/* Events */

/* Without cells: the timeouts that are to fire later, for one call. */
struct rearms {
	struct twheel_op	ops[BATCH];
	unsigned int		nr;
};

/* The node is due, and has to be called. */
static void mark_due(struct twheel_node *node, struct twheel_node **due)
{
	release_cell(node);
	*due = node;
	node->due = due;
}

/* The context was stopped: the node is not called. The next arming is refused. */
static void stop_node(struct twheel_hub *hub, struct twheel_hub_cell *c)
{
	bool armed = has_cells(hub) || c->cell->word <= INT64_MAX;

	if (!has_cells(hub))
		c->cell->look = UINT64_MAX;
	if (!armed)
		return;
	exchange(c->cell, TWHEEL_CELL_IDLE);
	release_cell(c->used.by);
	hub->armed--;
}

/* Without cells: look at the word. */
static void look(struct twheel_hub *hub, struct twheel_hub_cell *c, struct twheel_node **due,
		 struct rearms *rearms)
{
	struct twheel_cell *cell = c->cell;

	cell->look = UINT64_MAX;
	if (cell->word > INT64_MAX)
		return;
	if (cell->word <= hub->now_ns) {
		cell->word = TWHEEL_CELL_IDLE;
		mark_due(c->used.by, due);
		return;
	}
	cell->look = cell->word;
	prep_timeout(&rearms->ops[rearms->nr++], cell->word, c);
}

static void handle_event(struct twheel_hub *hub, const struct twheel_event *event,
			 struct twheel_node **due, struct rearms *rearms)
{
	struct twheel_hub_cell *c = (struct twheel_hub_cell *)(uintptr_t)event->cookie;

	*due = NULL;
	/* Only a stop makes the event of a cell, or of an endless timeout, the last one. */
	if (event->flags & TWHEEL_EV_LAST)
		stop_node(hub, c);
	else if (has_cells(hub))
		mark_due(c->used.by, due);
	else
		look(hub, c, due, rearms);
}

/* An operation fails only in a context that was stopped, whose events follow. */
static void submit_rearms(struct twheel_hub *hub, struct rearms *rearms)
{
	for (unsigned int done = 0; done < rearms->nr;) {
		int ret = twheel_submit_ops(hub->ctx, rearms->ops + done, rearms->nr - done);

		if (ret <= 0 && ret != -EINTR)
			return;
		done += ret > 0 ? ret : 0;
	}
}

static void call_node(struct twheel_node *node)
{
	clear_due(node);
	node->hub->armed--;
	node->fn(node);
}

/*
 * Arm the node again, due at once, so that a later dispatch calls it. The clock may have been set
 * back, so the deadline is 0. If callbacks of this dispatch have taken all cells, and no more can
 * be made, the node keeps its entry. It is then called at once, and the result is true.
 */
static bool defer_node(struct twheel_node *node)
{
	twheel_node_arm_at(node, 0);
	if (!node->due)
		return false;
	call_node(node);
	return true;
}

/* Returns whether a node was called. */
static bool defer_all_nodes(struct dispatch *dispatch)
{
	bool called = false;

	for (; dispatch; dispatch = dispatch->outer)
		for (int i = 0; i < dispatch->nr; i++)
			if (dispatch->due[i])
				called |= defer_node(dispatch->due[i]);
	return called;
}

/*
 * Has the dispatch that called this one ended already? Then a callback left it, by an exception,
 * longjmp() or the end of its thread, and @hub->dispatch is not valid. A frame of the same stack
 * is below those around it, as on all machines but PA-RISC.
 */
static bool was_abandoned(const struct twheel_hub *hub, const void *frame)
{
	return hub->dispatch && (uintptr_t)frame - (uintptr_t)hub->frame < MIN_STACK_DISTANCE;
}

int twheel_hub_dispatch(struct twheel_hub *hub, int64_t timeout_ns)
{
	struct twheel_event events[BATCH];
	struct dispatch dispatch;
	struct rearms rearms;
	int nr;

	if (was_abandoned(hub, __builtin_frame_address(0)))
		abort();
	if (timeout_ns && defer_all_nodes(hub->dispatch))
		timeout_ns = TWHEEL_NO_WAIT;
	nr = twheel_read(hub->ctx, events, BATCH, timeout_ns);
	if (nr == -EAGAIN || nr == -ETIMEDOUT) {
		end_spare_cells(hub);
		return 0;
	}
	if (nr <= 0)
		return nr ? nr : -ESHUTDOWN;
	twheel_now(hub->ctx, &hub->now_ns);
	rearms.nr = 0;
	for (int i = 0; i < nr; i++)
		handle_event(hub, &events[i], &dispatch.due[i], &rearms);
	submit_rearms(hub, &rearms);

	dispatch.outer = hub->dispatch;
	dispatch.outer_frame = hub->frame;
	dispatch.broken = false;
	dispatch.nr = nr;
	hub->dispatch = &dispatch;
	hub->frame = __builtin_frame_address(0);
	for (int i = 0; i < nr; i++) {
		if (dispatch.due[i] && dispatch.broken) {
			defer_node(dispatch.due[i]);
		} else if (dispatch.due[i]) {
			call_node(dispatch.due[i]);
			dispatch.broken |= hub->is_over && hub->is_over(hub->loop);
		}
	}
	hub->dispatch = dispatch.outer;
	hub->frame = dispatch.outer_frame;
	end_spare_cells(hub);
	notify_watch(hub);
	return nr;
}

void twheel_hub_break(struct twheel_hub *hub)
{
	if (hub->dispatch)
		hub->dispatch->broken = true;
}

void twheel_hub_break_if(struct twheel_hub *hub, bool (*fn)(void *data), void *data)
{
	hub->is_over = fn;
	hub->loop = data;
}
