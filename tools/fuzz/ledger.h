/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The results of several threads that used one file at the same time, and whether they are
 * consistent.
 *
 * Each thread records what it did, when, and the result. The order of two overlapping calls
 * is not known. But every timeout begins and ends once, every arming has its own cookie,
 * and a call that returned before another began came first. This is sufficient to check:
 *
 *  - An id is given out once and ends once: by a cancel, by its last event, or by a
 *    CANCEL_ALL. The counts of CANCEL_ALL add up to the timeouts without another end.
 *  - A result of -ENOENT comes after a possible end of the timeout. Any other result comes
 *    before a completed end.
 *  - An event is of an arming that was not replaced or cancelled, and it is not early. A
 *    timeout with a repeat count has exactly that number of deadlines.
 *  - A call withdraws an event only if the arming in effect was due.
 *  - Events of timeouts that were armed on one CPU are in the order of their ticks, on
 *    CLOCK_REALTIME in that of their deadlines. Those of the same time are in the order of arming.
 *  - A deadline is written into one cell, once. It leaves the word once: an exchange
 *    returns it, an event contains it, or the call that removed it counts it.
 */
#ifndef TWHEEL_FUZZ_LEDGER_H
#define TWHEEL_FUZZ_LEDGER_H

#include <twheel/abi.h>

#include "model.h"
#include "program.h"

/* An operation on a timeout, and its result. */
void ledger_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
	       int result, struct time_range when);
void ledger_event(unsigned int thread, const struct twheel_event *event, struct time_range when);
/* An exchange, or a successful compare-exchange, replaced @old by @new in a cell. */
void ledger_word(unsigned int thread, uint64_t id, uint64_t old, uint64_t new,
		 struct time_range when);
void ledger_listed(unsigned int thread, uint64_t id, struct time_range when);
/* CANCEL_ALL, with or without a cookie. */
void ledger_cancel_all(unsigned int thread, const struct twheel_cancel_all *all,
		       struct time_range when);
void ledger_stop(unsigned int thread, struct time_range when);
/* Number of live timeouts, reported by INFO or counted by LIST. */
void ledger_live(unsigned int thread, uint32_t live, struct time_range when);

/* One of the latest timeouts of this thread, or sometimes of another thread; 0: none. */
uint64_t ledger_pick(unsigned int thread, unsigned int n);

/* Print all entries in the order of time, as comments. */
void ledger_print(FILE *file);

/* @file has the values of SETUP. */
void ledger_clear(const struct file *file);

/* Check the entries after all threads have ended and the remaining timeouts are cancelled. */
void ledger_check(const struct twheel_stats *stats);

#endif /* TWHEEL_FUZZ_LEDGER_H */
