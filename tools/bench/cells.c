// SPDX-License-Identifier: GPL-2.0
/*
 * Cells, through the functions of the library.
 *
 * A program that runs at a pace must wait. If it slept, the cost would include wakeups as
 * on a machine with nothing else to do. So it spins in rounds with a known number of
 * instructions, which are subtracted. A round consists of instructions for which QEMU does
 * nothing, so that many seconds pass in a moment. This requires a clock that counts
 * instructions, and x86-64.
 */
#include <stdlib.h>

#include "../lib/libtwheel.h"
#include "backends/backend.h"
#include "cells.h"
#include "clock.h"
#include "machine.h"

/* Time that cells are armed for. */
#define DELAY_NS	(5 * NSEC_PER_SEC)

/* All cells are made within this time, before the first one is due. */
#define START_NS	(4900 * NSEC_PER_MSEC)

/* Cells between two readings of the clock. */
#define STEP		64U

/* Each microsecond, one of the cells gets a pair. */
#define PERIOD_NS	(STEP * 1000)
#define STEPS		((unsigned int)(DELAY_NS / PERIOD_NS))

/* Number of times that all pairs are measured if the clock counts nanoseconds. */
#define FAST_TIMES	10U

/* Approximate duration of a step; the program spins for the rest of the period. */
#define STEP_NS		1500U

#define ROUND_NS	500U

struct own_cell {
	struct twheel_cell *cell;
	uint64_t id;
};

static struct twheel_ctx *ctx;
static struct own_cell *own_cells;

static void cells_open(unsigned int n)
{
	check(twheel_open(NULL, usage.process ? TWHEEL_PROCESS : TWHEEL_KERNEL, &ctx), "cells");
	own_cells = zeroed_array(n, sizeof(*own_cells));
}

static void cells_close(void)
{
	twheel_close(ctx);
	free(own_cells);
}

static void create_cell(struct own_cell *own_cell)
{
	check(twheel_cell_create(ctx, 0, &own_cell->id, &own_cell->cell), "cell: create");
}

static void arm_cell(const struct own_cell *own_cell, uint64_t expires_ns)
{
	check(twheel_cell_arm(ctx, own_cell->cell, own_cell->id, expires_ns), "cell: arm");
}

/* Pace */

/* Returns the number of instructions executed, at most @nr. */
static __attribute_noinline__ uint64_t spin(uint64_t nr)
{
	uint64_t rounds = nr / ROUND_NS;
#ifdef __x86_64__
	uint64_t left = rounds;

	if (rounds)
		asm volatile("1:\n\t.rept %c1 - 2\n\tnop\n\t.endr\n\tdec %0\n\tjnz 1b"
			     : "+r" (left) : "i" (ROUND_NS) : "cc");
#endif
	return rounds * ROUND_NS;
}

/* A step for one cell. A program has these arguments in registers. */
typedef void (*step_fn)(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
			uint64_t expires_ns);

/*
 * Every PERIOD_NS, STEPS times: read the clock and call @fn for the next STEP cells.
 * Returns the number of instructions of the machine meanwhile, without the spinning.
 */
static __always_inline
uint64_t run_at_pace(const uint32_t *order, unsigned int n, step_fn fn)
{
	struct twheel_ctx *const context = ctx;
	uint64_t begin, next, spun = 0;
	unsigned int at = 0;

	begin = clock_ns();
	next = begin;
	for (unsigned int i = 0; i < STEPS; i++) {
		uint64_t now = clock_ns();

		for (unsigned int j = 0; j < STEP; j++) {
			struct own_cell own_cell = own_cells[order[at]];

			fn(context, own_cell.cell, own_cell.id, now + DELAY_NS);
			if (++at == n)
				at = 0;
		}
		next += PERIOD_NS;
		if (now + STEP_NS < next)
			spun += spin(next - now - STEP_NS);
	}
	return clock_ns() - begin - spun;
}

static inline void do_nothing(struct twheel_ctx *context, struct twheel_cell *cell,
			      uint64_t id, uint64_t expires_ns)
{
	(void)context;
	asm volatile("" : : "r" (cell), "r" (id), "r" (expires_ns) : "memory");
}

/* A program must detect a failure, and whether the timeout had fired. */
static inline void do_pair(struct twheel_ctx *context, struct twheel_cell *cell, uint64_t id,
			   uint64_t expires_ns)
{
	if (twheel_cell_arm(context, cell, id, expires_ns) < 0 || twheel_cell_cancel(cell))
		die("cell: pair");
}

/* Make the cells evenly over time, so that the looks at them are spread evenly too. */
static void create_cells(const uint32_t *order, unsigned int n)
{
	uint64_t begin = clock_ns(), now, next;

	for (unsigned int i = 0; i < n; i++) {
		struct own_cell *own_cell = &own_cells[order[i]];

		create_cell(own_cell);
		arm_cell(own_cell, clock_ns() + DELAY_NS);
		check(twheel_cell_cancel(own_cell->cell), "cell: cancel");
		next = begin + (i + 1) * START_NS / n;
		now = clock_ns();
		if (now < next)
			spin(next - now);
	}
	if (clock_ns() > begin + DELAY_NS)
		die("cell: too slow");
}

/*
 * A deadline DELAY_NS ahead is in the second level of the wheel, except beyond the end of
 * the block, where it cascades twice. This is the case for a few seconds per minute.
 * Without this wait, it would affect only some of the runs.
 */
static void wait_for_block(void)
{
	struct twheel_info info;
	uint64_t block, now = clock_ns();

	check(twheel_get_info(ctx, &info), "cell: info");
	block = info.tick_ns * info.slots * info.slots;
	if (block - now % block > 4 * DELAY_NS)
		return;
	sleep_until(now + block - now % block);
}

struct cells_cost cells_pairs(const uint32_t *order, unsigned int n)
{
	struct cells_cost cost = { .done = (uint64_t)STEPS * STEP };
	struct twheel_stats before, after;
	uint64_t nothing;

	cells_open(n);
	wait_for_block();
	nothing = run_at_pace(order, n, do_nothing);
	create_cells(order, n);
	check(twheel_get_stats(ctx, &before), "cell: stats");
	cost.instructions = run_at_pace(order, n, do_pair);
	check(twheel_get_stats(ctx, &after), "cell: stats");
	/* the readings of the clock are part of the program */
	cost.instructions += STEPS * clock_cost - nothing;
	cost.kicks = after.kicks - before.kicks;
	cost.looks = after.looks - before.looks;
	if (after.fired)
		die("cell: fired");
	cells_close();
	return cost;
}

/* Read the clock once per STEP pairs, as a program would do. */
static __attribute_noinline__ void pairs_once(const uint32_t *order, unsigned int n)
{
	for (unsigned int i = 0; i < n; i += STEP) {
		uint64_t expires_ns = clock_ns() + DELAY_NS;

		for (unsigned int j = i; j < n && j < i + STEP; j++) {
			struct own_cell own_cell = own_cells[order[j]];

			do_pair(ctx, own_cell.cell, own_cell.id, expires_ns);
		}
	}
}

uint64_t cells_pairs_ns(const uint32_t *order, unsigned int n)
{
	uint64_t best = UINT64_MAX;

	cells_open(n);
	for (unsigned int i = 0; i < n; i++)
		create_cell(&own_cells[i]);
	/* The first round puts the cells into the wheel by calls, so it is not counted. */
	for (unsigned int i = 0; i <= FAST_TIMES; i++) {
		uint64_t took;

		clock_take();
		clock_start();
		pairs_once(order, n);
		clock_stop();
		took = clock_take();
		if (i && took < best)
			best = took;
	}
	cells_close();
	return best;
}
