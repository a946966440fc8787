// SPDX-License-Identifier: GPL-2.0
/*
 * The library. The back end cells exchanges a word in memory for each arm and cancel, and
 * makes a call if the cell needs a KICK. The back end submit collects operations for
 * a call. In both, a set is a context of /dev/twheel. The back end process makes a call for each
 * operation on a wheel in the process.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../lib/libtwheel.h"
#include "../machine.h"
#include "backend.h"

#define OPS_PER_SAMPLE	1024U	/* operations that are measured together */

/**
 * struct context - a context, its events, and operations for it
 * @nr: number of operations that are collected
 */
struct context {
	struct timers		timers;
	struct twheel_ctx	*ctx;
	int			fd;
	struct twheel_event	*events;
	unsigned int		nr;
	struct twheel_op	*ops;
};

static void open_context(struct context *context, unsigned int n, uint64_t slack_ns, bool process)
{
	unsigned int flags = process ? TWHEEL_PROCESS : TWHEEL_KERNEL;

	context->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	context->events = zeroed_array(usage.batch, sizeof(*context->events));
	context->ops = zeroed_array(usage.batch, sizeof(*context->ops));
	check(twheel_open(NULL, flags | (usage.measured ? 0 : TWHEEL_NONBLOCK), &context->ctx),
	      process ? "process" : "/dev/twheel");
	context->fd = twheel_fd(context->ctx);
}

static void context_close(struct timers *timers)
{
	struct context *context = (struct context *)timers;

	twheel_close(context->ctx);
	free(context->events);
	free(context->ops);
	free(context);
}

static void submit_collected(struct context *context)
{
	int done;

	clock_start();
	if (usage.batch == 1)
		done = !ioctl(context->fd, TWHEEL_IOC_OP, context->ops);
	else
		done = twheel_submit_ops(context->ctx, context->ops, context->nr);
	clock_stop();
	if (done != (int)context->nr)
		fail("twheel: not all operations were carried out");
	context->nr = 0;
}

static unsigned int read_events(struct context *context, uint32_t *numbers)
{
	int nr;

	if (usage.process) {
		nr = twheel_read(context->ctx, context->events, usage.batch, TWHEEL_FOREVER);
	} else {
		ssize_t size = read(context->fd, context->events,
				    usage.batch * sizeof(*context->events));

		if (size < 0 && errno == EAGAIN)
			return 0;
		nr = size / (ssize_t)sizeof(*context->events);
	}
	if (nr <= 0)
		die("twheel: read");
	for (int i = 0; numbers && i < nr; i++)
		numbers[i] = context->events[i].cookie;
	return nr;
}

static int context_fd(struct timers *timers)
{
	return ((struct context *)timers)->fd;
}

/* Cells */

struct cells {
	struct context		context;
	struct twheel_kicks	kicks;
	struct {
		struct twheel_cell	*cell;
		uint64_t		id;
	} entries[];
};

/* Reads the words, so that the pages of the mapping are present. */
static void make_cells(struct timers *timers)
{
	struct cells *cells = (struct cells *)timers;
	unsigned int nr = cells->context.nr;

	if (!nr)
		return;
	submit_collected(&cells->context);
	for (unsigned int i = 0; i < nr; i++) {
		const struct twheel_op *op = &cells->context.ops[i];
		struct twheel_cell **cell = &cells->entries[op->cookie].cell;
		uint64_t word;

		check(op->result, "cells: make");
		cells->entries[op->cookie].id = op->id;
		check(twheel_cell_find(cells->context.ctx, op->id, cell), "cells: map");
		word = __atomic_load_n(&(*cell)->word, __ATOMIC_SEQ_CST);
		if (word != op->expires_ns && word != TWHEEL_CELL_FIRED)
			fail("cells: word");
	}
}

static void make_cell(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct context *context = (struct context *)timers;
	struct twheel_op *op = &context->ops[context->nr++];

	twheel_prep_arm(op, expires_ns, TWHEEL_F_CELL | TWHEEL_F_ABS, number);
	twheel_prep_slack(op, timers->slack_ns);
	if (context->nr == usage.batch)
		make_cells(timers);
}

static struct timers *new_cells_open(unsigned int n, uint64_t slack_ns)
{
	struct cells *cells = zeroed_array(1, sizeof(*cells) + n * sizeof(*cells->entries));

	open_context(&cells->context, n, slack_ns, usage.process);
	cells->kicks.ctx = cells->context.ctx;
	return &cells->context.timers;
}

static struct timers *cells_open(unsigned int n, uint64_t slack_ns)
{
	struct timers *timers = new_cells_open(n, slack_ns);

	for (unsigned int i = 0; i < n; i++)
		make_cell(timers, i, TWHEEL_CELL_IDLE);
	make_cells(timers);
	return timers;
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

	check(twheel_cell_arm_later(&cells->kicks, cells->entries[number].cell,
				    cells->entries[number].id, expires_ns), "cells: arm");
	if (cells->kicks.nr == TWHEEL_MAX_KICKS)
		cells_flush(timers);
}

/* If the timeout has fired, its event is unread, and this withdraws it. */
static void cells_cancel(struct timers *timers, uint32_t number)
{
	if (twheel_cell_cancel(((struct cells *)timers)->entries[number].cell) == TWHEEL_IDLE)
		fail("cells: not armed");
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

const struct backend backend_new_cells = {
	.name		= "cells",
	.has_slack	= true,
	.open		= new_cells_open,
	.close		= context_close,
	.arm		= make_cell,
	.flush		= make_cells,
	.take		= cells_take,
	.fd		= context_fd,
};

/* SUBMIT */

/* Replaces the id of a timeout whose ARM has not been submitted yet. */
#define NOT_SUBMITTED	UINT64_MAX

struct submit {
	struct context	context;
	uint64_t	ids[];
};

static struct timers *submit_open(unsigned int n, uint64_t slack_ns)
{
	struct submit *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->ids));

	open_context(&set->context, n, slack_ns, false);
	return &set->context.timers;
}

/* No event of a timeout was read if the program moves or cancels it here. */
static void submit_flush(struct timers *timers)
{
	struct submit *set = (struct submit *)timers;
	const struct twheel_op *op = set->context.ops, *end = op + set->context.nr;

	if (op == end)
		return;
	submit_collected(&set->context);
	for (; op < end; op++) {
		check(op->result, "submit: result");
		if (op->opcode == TWHEEL_OP_ARM)
			set->ids[op->cookie] = op->id;
	}
}

/* The id of a timeout; 0 if it is not armed. */
static uint64_t submit_id(struct submit *set, uint32_t number)
{
	if (set->ids[number] == NOT_SUBMITTED)
		submit_flush(&set->context.timers);
	return set->ids[number];
}

static struct twheel_op *next_op(struct submit *set)
{
	if (set->context.nr == usage.batch)
		submit_flush(&set->context.timers);
	return &set->context.ops[set->context.nr++];
}

static void submit_repeat(struct timers *timers, uint32_t number, uint64_t expires_ns,
			  uint64_t interval_ns)
{
	struct submit *set = (struct submit *)timers;
	uint64_t id = submit_id(set, number);
	struct twheel_op *op = next_op(set);

	if (id) {
		twheel_prep_mod(op, id, expires_ns, TWHEEL_F_ABS, number);
	} else {
		twheel_prep_arm(op, expires_ns, TWHEEL_F_ABS, number);
		set->ids[number] = NOT_SUBMITTED;
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
	struct submit *set = (struct submit *)timers;
	uint64_t id = submit_id(set, number);

	if (!id)
		fail("submit: not armed");
	twheel_prep_cancel(next_op(set), id);
	set->ids[number] = 0;
}

static unsigned int submit_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct submit *set = (struct submit *)timers;
	unsigned int nr;

	(void)now_ns;
	if (set->context.nr)
		submit_flush(timers);
	nr = read_events(&set->context, numbers);
	for (unsigned int i = 0; numbers && i < nr; i++) {
		if (set->context.events[i].flags & TWHEEL_EV_LAST)
			set->ids[numbers[i]] = 0;
	}
	return nr;
}

const struct backend backend_submit = {
	.name		= "submit",
	.has_slack	= true,
	.open		= submit_open,
	.close		= context_close,
	.arm		= submit_arm,
	.move		= submit_arm,
	.repeat		= submit_repeat,
	.cancel		= submit_cancel,
	.flush		= submit_flush,
	.take		= submit_take,
	.fd		= context_fd,
};

/* The wheel in the process */

/* Another back end has signals. */
static void *idle_thread(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;)
		pause();
	return unused;
}

/*
 * A thread, without which a mutex would use no atomics, and records for @n timeouts, as in a
 * program that has run for a while.
 */
static struct timers *process_open(unsigned int n, uint64_t slack_ns)
{
	struct submit *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->ids));
	struct twheel_ctx *ctx;
	static pthread_t thread;

	if (!thread && pthread_create(&thread, NULL, idle_thread, NULL))
		fail("no thread");
	open_context(&set->context, n, slack_ns, true);
	ctx = set->context.ctx;
	for (unsigned int i = 0; i < n; i++)
		check(twheel_arm(ctx, 3600 * NSEC_PER_SEC, 0, i, &set->ids[i]), "process: arm");
	check(twheel_cancel_timeouts(ctx, NULL), "process: cancel");
	return &set->context.timers;
}

static int process_one(struct submit *set, enum action action, uint32_t number,
		       const uint64_t *deadlines)
{
	struct twheel_ctx *ctx = set->context.ctx;
	uint64_t *id = &set->ids[number];

	switch (action) {
	case ARM:
		return twheel_arm(ctx, deadlines[number], TWHEEL_F_ABS, number, id);
	case MOVE:
		return twheel_mod(ctx, *id, deadlines[number], TWHEEL_F_ABS, number);
	default:
		return twheel_cancel(ctx, *id);
	}
}

/* The tenth percentile of parts, because other load on the machine disturbs some of them. */
static void process_all(struct timers *timers, enum action action, const uint32_t *which,
			unsigned int nr, const uint64_t *deadlines)
{
	struct submit *set = (struct submit *)timers;
	unsigned int parts = nr > OPS_PER_SAMPLE ? nr / OPS_PER_SAMPLE : 1, at = 0;
	uint64_t *took = zeroed_array(parts, sizeof(*took));

	for (unsigned int i = 0; i < parts; i++) {
		unsigned int end = (uint64_t)nr * (i + 1) / parts;
		uint64_t begin = clock_ns();

		for (; at < end; at++)
			check(process_one(set, action, which[at], deadlines), "process: result");
		took[i] = clock_ns() - begin - clock_cost;
	}
	sort(took, parts);
	if (clock_wanted)
		clock_total += took[parts / 10] * parts;
	free(took);
}

static unsigned int process_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)now_ns;
	return read_events((struct context *)timers, numbers);
}

const struct backend backend_process = {
	.name	= "process",
	.open	= process_open,
	.close	= context_close,
	.all	= process_all,
	.take	= process_take,
};
