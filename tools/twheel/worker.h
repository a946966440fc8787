/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One thread of a load, and the data that the threads share.
 */
#ifndef TWHEEL_WORKER_H
#define TWHEEL_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "account.h"
#include "agenda.h"
#include "libtwheel.h"

/**
 * struct load_timeout - the record of one timeout; its cookie is its index
 * @id: 0 while it is not known. Written by the owner
 * @cell: the cell, in a load with cells. Used by the owner alone
 * @deadline: no event may come earlier. Written by the owner; a later deadline after the
 *	device has accepted it
 * @fired: number of events. Written by the thread that reads them
 * @settled: the timeout has fired or was cancelled
 * @armed: the device has accepted the timeout. Used by the owner alone
 * @cancelled: the device has reported a cancel. Used by the owner alone
 * @traffic: number of moves to come. Used by the owner alone
 * @doomed: the timeout is to be cancelled. Used by the owner alone
 */
struct load_timeout {
	atomic_ullong id;
	struct twheel_cell *cell;
	atomic_ullong deadline;
	atomic_uint fired;
	atomic_bool settled;
	bool armed : 1;
	bool cancelled : 1;
	bool doomed : 1;
	unsigned int traffic : 4;
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
 * @workers: all threads
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
	struct worker *workers;
	atomic_bool stop;
};

/**
 * struct worker - a thread that owns a part of the timeouts
 * @load: the load that the thread belongs to
 * @ctx: context of the thread, or the shared context
 * @first: index of its first timeout
 * @nr: number of timeouts that it owns
 * @next: of these, the timeouts that it has tried to arm
 * @refused: of these, the timeouts refused at the limit, to be tried again
 * @settled: of these, the timeouts that have fired or were cancelled
 * @random: state of its random generator
 * @tick_ns: tick of the wheel
 * @horizon: time of the last event, or of the last deadline if that is later
 * @agenda: future traffic and cancels; at most one entry for each timeout
 * @ops: operations of a batch
 * @batch: index of the timeout for each of @ops
 * @kicks: armings of cells that still need a system call
 * @events: buffer for events
 * @account: the account of this thread
 * @error: -errno that ended the thread
 */
struct worker {
	struct load *load;
	struct twheel_ctx *ctx;
	uint32_t first;
	uint32_t nr;
	uint32_t next;
	uint32_t refused;
	atomic_uint settled;
	uint64_t random;
	uint64_t tick_ns;
	uint64_t horizon;
	struct agenda agenda;
	struct twheel_op *ops;
	uint32_t *batch;
	struct twheel_kicks kicks;
	struct twheel_event *events;
	struct account account;
	int error;
};

/* @load is complete but for its workers; @worker has its context. */
void worker_init(struct worker *worker, struct load *load, unsigned int index);
void worker_free(struct worker *worker);

/* Returns when all of its timeouts are settled, or at a stop or an error. */
void worker_run(struct worker *worker);

#endif /* TWHEEL_WORKER_H */
