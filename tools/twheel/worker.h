/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One thread of a load, and what the threads share.
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
 * struct load_timeout - what is known about one timeout; its cookie is its index
 * @id: 0 while it is not known. Written by the owner
 * @cell: with @cells of the load. Owner only
 * @deadline: no event may come before. Written by the owner, later deadlines only
 *	when the device has accepted them
 * @fired: events that came. Written by who reads them
 * @settled: it has fired or was cancelled
 * @armed: the device has accepted it. Owner only, as what follows
 * @cancelled: the device says that no event will come
 * @traffic: how often it will be put off
 * @doomed: it is to be cancelled
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
 * struct load - the plan and what all threads see
 * @nr: timeouts in all
 * @spread_ns: deadlines are up to so much from their arming
 * @cancel_percent: how many are to be cancelled
 * @threads: how many, at most @nr
 * @seed: all randomness comes from it
 * @share: one context for all threads
 * @cells: timeouts are cells
 * @timeouts: all of them
 * @workers: all of them
 * @stop: end early: cancel what is pending
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
 * @load: what it works for
 * @ctx: its context, or the shared one
 * @first: its first timeout
 * @nr: how many it owns
 * @next: of these, how many it has tried to arm
 * @refused: of these, how many wait for another try (a limit was reached)
 * @settled: of these, how many have fired or were cancelled, whoever saw it
 * @random: state of its generator
 * @tick_ns: of the wheel
 * @horizon: when something happened or has to happen last
 * @agenda: what traffic does to its timeouts; at most one entry for each
 * @ops: operations of a batch
 * @batch: and the timeouts that they are for
 * @kicks: armings of cells that the kernel has to be told of
 * @events: room to read into
 * @account: its part of it
 * @error: -errno that ended it
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
