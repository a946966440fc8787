/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What several threads were told that used one file at the same time, and whether it
 * can all be true.
 *
 * Every thread writes down what it did, when, and what the answer was. Who came first is
 * not known where two calls overlap; but every timeout has one beginning and one end,
 * every arming has a cookie of its own, and a call that was over before another one began
 * came before it. That is enough to say:
 *
 *  - an id is given out once, and ends once: by a cancel, by its last event, or by one
 *    of those that cancel all, whose counts add up to what has no other end;
 *  - who was told that there is no such timeout, was told so after an end may have come;
 *    who was told that there is one, before an end was over;
 *  - an event is of an arming that was not replaced or cancelled, it is not early, and
 *    a timeout that counts its deadlines has them all, and no more;
 *  - a deadline is written into one cell, once. It leaves the word once: an exchange
 *    returns it, an event has it, or what took the event of it, or a call, is counted.
 */
#ifndef TWHEEL_FUZZ_LEDGER_H
#define TWHEEL_FUZZ_LEDGER_H

#include <linux/twheel.h>

#include "model.h"
#include "program.h"

/* An operation on a timeout, and its outcome. */
void ledger_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
	       int result, struct during when);
void ledger_event(unsigned int thread, const struct twheel_event *event, struct during when);
/* The word of a cell was @old, and is @new: an exchange, or a compare-exchange that was done. */
void ledger_word(unsigned int thread, uint64_t id, uint64_t old, uint64_t new,
		 struct during when);
void ledger_listed(unsigned int thread, uint64_t id, struct during when);
/* Those with a cookie, or all. */
void ledger_cancel_all(unsigned int thread, const struct twheel_cancel_all *all,
		       struct during when);
void ledger_stop(unsigned int thread, struct during when);
/* How many live, found by INFO or, one by one, by LIST. */
void ledger_live(unsigned int thread, uint32_t live, struct during when);

/* A timeout of this thread, the n-th of the latest ones, or 0; of another one now and then. */
uint64_t ledger_pick(unsigned int thread, unsigned int n);

/* All of it, in the order of time, as comments. */
void ledger_print(FILE *file);

void ledger_clear(uint32_t clock, uint64_t tick);

/* All threads are done, all that was left was cancelled: can it be true? */
void ledger_judge(const struct twheel_stats *stats);

#endif /* TWHEEL_FUZZ_LEDGER_H */
