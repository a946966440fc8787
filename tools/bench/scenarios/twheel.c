// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel. The back end cells exchanges a word in memory for each arm and cancel, and
 * makes a call if the cell needs a KICK. The back end submit makes a call per BATCH
 * operations. In both, a set is a context.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../lib/libtwheel.h"
#include "scenario.h"

/* A context and its events. */
struct context {
	struct timers		timers;
	struct twheel_ctx	*ctx;
	struct twheel_event	events[BATCH];
};

static void open_context(struct context *context, unsigned int n, uint64_t slack_ns)
{
	context->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	check(twheel_open(NULL, TWHEEL_NONBLOCK, &context->ctx), "/dev/twheel");
}

static unsigned int read_events(struct context *context, uint32_t *numbers)
{
	ssize_t size = read(twheel_fd(context->ctx), context->events, sizeof(context->events));
	unsigned int nr = size / sizeof(*context->events);

	if (size < 0 && errno == EAGAIN)
		return 0;
	if (size <= 0)
		die("twheel: read");
	for (unsigned int i = 0; i < nr; i++)
		numbers[i] = context->events[i].cookie;
	return nr;
}

static int context_fd(struct timers *timers)
{
	return twheel_fd(((struct context *)timers)->ctx);
}

/* Cells */

struct cells {
	struct context		context;
	struct twheel_kicks	kicks;
	struct {
		struct twheel_cell	*cell;
		uint64_t		id;
	} places[];
};

/* One call makes all cells. A new context gives out consecutive indices. */
static void make_cells(struct cells *cells)
{
	unsigned int n = cells->context.timers.n;
	struct twheel_ctx *ctx = cells->context.ctx;
	struct twheel_op *ops = calloc(n, sizeof(*ops));

	if (!ops)
		die("calloc");
	for (unsigned int i = 0; i < n; i++) {
		twheel_prep_arm(&ops[i], TWHEEL_CELL_IDLE, TWHEEL_F_CELL | TWHEEL_F_ABS, i);
		twheel_prep_slack(&ops[i], cells->context.timers.slack_ns);
	}
	if (twheel_submit(ctx, ops, n) != (int)n)
		fail("cells: submit");
	for (unsigned int i = 0; i < n; i++) {
		check(ops[i].result, "cells: make");
		cells->places[i].id = ops[i].id;
		check(twheel_cell(ctx, ops[i].id, &cells->places[i].cell), "cells: map");
	}
	free(ops);
}

static struct timers *cells_open(unsigned int n, uint64_t slack_ns)
{
	struct cells *cells = calloc(1, sizeof(*cells) + n * sizeof(*cells->places));

	if (!cells)
		die("calloc");
	open_context(&cells->context, n, slack_ns);
	make_cells(cells);
	cells->kicks.ctx = cells->context.ctx;
	return &cells->context.timers;
}

static void context_close(struct timers *timers)
{
	twheel_close(((struct context *)timers)->ctx);
	free(timers);
}

static void cells_flush(struct timers *timers)
{
	struct cells *cells = (struct cells *)timers;

	if (cells->kicks.nr)
		check(twheel_kick_all(&cells->kicks), "cells: kick");
}

static void cells_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct cells *cells = (struct cells *)timers;

	check(twheel_cell_arm_later(&cells->kicks, cells->places[number].cell,
				    cells->places[number].id, expires_ns), "cells: arm");
	if (cells->kicks.nr == TWHEEL_MAX_KICKS)
		cells_flush(timers);
}

/* If the timeout has fired, its event is unread, and this withdraws it. */
static void cells_cancel(struct timers *timers, uint32_t number)
{
	check(twheel_cell_cancel(((struct cells *)timers)->places[number].cell), "cells: cancel");
}

static unsigned int cells_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)now_ns;
	cells_flush(timers);
	return read_events((struct context *)timers, numbers);
}

const struct backend backend_cells = {
	.name		= "cells",
	.has_slack	= true,
	.open		= cells_open,
	.close		= context_close,
	.arm		= cells_arm,
	.cancel		= cells_cancel,
	.flush		= cells_flush,
	.take		= cells_take,
	.fd		= context_fd,
};

/* SUBMIT */

/* Replaces the id of a timeout whose ARM has not been submitted yet. */
#define COLLECTED	UINT64_MAX

struct submit {
	struct context		context;
	unsigned int		nr;
	struct twheel_op	ops[BATCH];
	uint64_t		ids[];
};

static struct timers *submit_open(unsigned int n, uint64_t slack_ns)
{
	struct submit *submit = calloc(1, sizeof(*submit) + n * sizeof(*submit->ids));

	if (!submit)
		die("calloc");
	open_context(&submit->context, n, slack_ns);
	return &submit->context.timers;
}

/* No event of a timeout was read if the program moves or cancels it here. */
static void submit_flush(struct timers *timers)
{
	struct submit *submit = (struct submit *)timers;

	if (!submit->nr)
		return;
	if (twheel_submit(submit->context.ctx, submit->ops, submit->nr) != (int)submit->nr)
		fail("submit: not all");
	for (unsigned int i = 0; i < submit->nr; i++) {
		struct twheel_op *op = &submit->ops[i];

		check(op->result, "submit: result");
		if (op->opcode == TWHEEL_OP_ARM)
			submit->ids[op->cookie] = op->id;
	}
	submit->nr = 0;
}

/* The id of a timeout; 0 if it is not armed. */
static uint64_t submit_id(struct submit *submit, uint32_t number)
{
	if (submit->ids[number] == COLLECTED)
		submit_flush(&submit->context.timers);
	return submit->ids[number];
}

static struct twheel_op *next_op(struct submit *submit)
{
	if (submit->nr == BATCH)
		submit_flush(&submit->context.timers);
	return &submit->ops[submit->nr++];
}

static void submit_repeat(struct timers *timers, uint32_t number, uint64_t expires_ns,
			  uint64_t interval_ns)
{
	struct submit *submit = (struct submit *)timers;
	uint64_t id = submit_id(submit, number);
	struct twheel_op *op = next_op(submit);

	if (id) {
		twheel_prep_mod(op, id, expires_ns, TWHEEL_F_ABS, number);
	} else {
		twheel_prep_arm(op, expires_ns, TWHEEL_F_ABS, number);
		submit->ids[number] = COLLECTED;
	}
	if (interval_ns)
		twheel_prep_interval(op, interval_ns, 0);
	twheel_prep_slack(op, timers->slack_ns);
}

static void submit_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	submit_repeat(timers, number, expires_ns, 0);
}

static void submit_cancel(struct timers *timers, uint32_t number)
{
	struct submit *submit = (struct submit *)timers;
	uint64_t id = submit_id(submit, number);

	if (!id)
		fail("submit: not armed");
	twheel_prep_cancel(next_op(submit), id);
	submit->ids[number] = 0;
}

static unsigned int submit_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct submit *submit = (struct submit *)timers;
	unsigned int nr;

	(void)now_ns;
	submit_flush(timers);
	nr = read_events(&submit->context, numbers);
	for (unsigned int i = 0; i < nr; i++) {
		if (submit->context.events[i].flags & TWHEEL_EV_LAST)
			submit->ids[numbers[i]] = 0;
	}
	return nr;
}

const struct backend backend_submit = {
	.name		= "submit",
	.has_slack	= true,
	.open		= submit_open,
	.close		= context_close,
	.arm		= submit_arm,
	.repeat		= submit_repeat,
	.cancel		= submit_cancel,
	.flush		= submit_flush,
	.take		= submit_take,
	.fd		= context_fd,
};
