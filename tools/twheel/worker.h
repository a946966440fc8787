/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One thread of a load, and the data that the threads share.
 */
#ifndef TWHEEL_WORKER_H
#define TWHEEL_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agenda.h"
#include "libtwheel.h"

/* The account, in the order in which it is printed: mistakes from LOST to LEAKED. */
enum load_count {
	ARMED,
	REARMED,	/* moved by traffic */
	REVIVED,	/* of these, the event was unread */
	CANCELLED,	/* while pending */
	WITHDRAWN,	/* cancelled while the event was unread */
	FIRED,		/* events read */
	LOST,		/* timeouts without an end */
	DUPLICATE,	/* second and further ends of a timeout */
	ALIEN,		/* events of a timeout that was never armed */
	EARLY,		/* events before their deadline */
	LEAKED,		/* timeouts that the device counts at the end */
	KICKS,		/* of cells alone, from here on */
	LOOKS,
	LOAD_COUNTS
};

/**
 * struct load_timeout - the record of one timeout; its cookie is its index
 * @id: 0 until the device has accepted the timeout. Written by the owner
 * @deadline: no event may come earlier. Written by the owner; a later deadline after the
 *	device has accepted it
 * @ends: events, and cancels that the device has reported. 1 at the end
 * @lateness: from the deadline to the time it fired. Written by the thread that reads it
 * @delivery: from the deadline to the return of read(), likewise
 * @cell: the cell, in a load with cells. Used by the owner alone
 * @traffic: number of moves to come. Used by the owner alone
 * @to_cancel: the timeout is to be cancelled. Used by the owner alone
 * @fired: @lateness and @delivery are valid
 */
struct load_timeout {
	atomic_ullong id;
	atomic_ullong deadline;
	atomic_uint ends;
	uint64_t lateness;
	uint64_t delivery;
	struct twheel_cell *cell;
	uint8_t traffic;
	bool to_cancel;
	bool fired;
};

/**
 * struct load - the plan, and the data of all threads
 * @nr: number of timeouts
 * @spread_ns: largest distance of a deadline from the arming
 * @cancel_percent: share of timeouts to cancel
 * @threads: number of threads, at most @nr
 * @seed: start of the random numbers
 * @share: one context for all threads
 * @cells: timeouts are cells
 * @timeouts: the records of all timeouts
 * @ended: number of timeouts that have fired or were cancelled
 * @stop: end early, and cancel the pending timeouts
 */
struct load {
	uint32_t nr;
	uint64_t spread_ns;
	unsigned int cancel_percent;
	unsigned int threads;
	uint64_t seed;
	bool share;
	bool cells;
	struct load_timeout *timeouts;
	atomic_uint ended;
	atomic_bool stop;
};

/**
 * struct worker - a thread that owns a part of the timeouts
 * @load: the load that the thread belongs to
 * @ctx: context of the thread, or the shared context
 * @tick_ns: tick of its wheel
 * @first: index of its first timeout
 * @nr: number of timeouts that it owns
 * @next: of these, the timeouts that it has tried to arm
 * @random: state of its random generator
 * @latest_ns: time of the last event, or of the last deadline if that is later
 * @agenda: future traffic and cancels; at most one entry for each timeout
 * @ops: operations of a batch
 * @batch: index of the timeout for each of @ops
 * @kicks: armings of cells that still need a system call
 * @events: buffer for events
 * @count: the account of this thread
 * @error: -errno that ended the thread
 * @info: of the context at that time, for the limit that was reached
 */
struct worker {
	struct load *load;
	struct twheel_ctx *ctx;
	uint64_t tick_ns;
	uint32_t first;
	uint32_t nr;
	uint32_t next;
	uint64_t random;
	uint64_t latest_ns;
	struct agenda agenda;
	struct twheel_op *ops;
	uint32_t *batch;
	struct twheel_kicks kicks;
	struct twheel_event *events;
	uint64_t count[LOAD_COUNTS];
	int error;
	struct twheel_info info;
};

/* @load is complete; @worker has its context. */
void worker_init(struct worker *worker, struct load *load, unsigned int index);
void worker_free(struct worker *worker);

/* Returns when all timeouts of the load have ended, or at a stop or an error. */
void worker_run(struct worker *worker);

#endif /* TWHEEL_WORKER_H */
