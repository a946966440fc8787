/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the device may answer.
 *
 * The model of a file knows its timeouts exactly, but time goes on beside it: a call
 * happens somewhere between two readings of the clock, a deadline that was given as a
 * delay is known as an interval, and whether a due timeout has fired already is not
 * known. So for a timeout there are a lower and an upper bound of its deadline:
 *
 *  - before the lower one, rounded up to a tick, it has certainly not fired: it must be
 *    pending, and its event is a mistake;
 *  - after that it may have fired. Both answers are right, and the one that comes tells
 *    more: what was seen ready must stay so until it is read or withdrawn.
 *
 * How late it fires is not looked at here; who waits for it has patience that ends.
 *
 * As everything else is exact, so is what follows from it: which ids live, what is in an
 * event, who is counted where. The books must balance after every call.
 *
 * The fields of an operation are judged by the text of the ABI header alone.
 *
 * All of this is for one call at a time. See race.c for several.
 */
#ifndef TWHEEL_FUZZ_MODEL_H
#define TWHEEL_FUZZ_MODEL_H

#include <stdint.h>
#include <linux/twheel.h>

#include "cells.h"

#define NEVER		0x7fffffffffffffffULL
#define MAX_INDEX	8192
#define MAX_DEAD	8

/* Errors, as a set. */
#define ERRNO(e)	(1ULL << ((e) & 63))

/**
 * struct timeout - what is known of one
 * @id: it; stays after its death, so that it is not given out again
 * @alive: it can be used
 * @place: where it is in @alive of the file
 * @seen_ready: its event has been seen, and can only be read or withdrawn
 * @shaky: the order of its event is not known: see model_order()
 * @flags: TWHEEL_F_FIXED_DELAY, TWHEEL_F_CELL
 * @repeat: as GET tells it
 * @slack_us: in effect
 * @cookie: as it was armed
 * @interval: as it was armed
 * @low: the deadline is not before that; of a cell, if the word is one
 * @high: nor after that
 * @armed: when it was armed last, not before that
 * @turn: the how manyeth arming of the file that was
 * @cell: with TWHEEL_F_CELL
 */
struct timeout {
	uint64_t	id;
	uint32_t	place;
	uint8_t		alive, seen_ready, shaky;
	uint32_t	flags, repeat, slack_us;
	uint64_t	cookie, interval;
	uint64_t	low, high;
	uint64_t	armed;
	uint64_t	turn;
	struct cell	cell;
};

/**
 * struct file - a context
 * @begun: it cannot be set up any more
 * @stopped: STOP has been called, ...
 * @stop: ... then
 * @clock: what it was set up with, as the rest of this
 * @tick: of the wheel
 * @slots: of the wheel
 * @levels: of the wheel
 * @max: timeouts at once
 * @slack_us: slack of those that name none
 * @private: the wheel is its own
 * @nr: above every index in use
 * @live: timeouts alive, ...
 * @alive: ... and their indices
 * @seen: of those, how many are @seen_ready
 * @unread: at least so many events are there
 * @stale: of those, how many were withdrawn through the word
 * @cells: some have been cells
 * @dead: ids that have died
 * @nr_dead: how many have, ever
 * @turns: armings
 * @cookies: given out
 * @moved: what STATS is to say, as the rest of this
 * @gone: cancelled and withdrawn
 * @ended: last events read
 * @read: events read
 * @unprocessed: of those, with that flag
 * @kicks: KICKs of cells
 * @dropped: events of cells that were withdrawn through the word, and are gone
 * @last: the event that was read last, ...
 * @last_turn: ... and @turn of its timeout, 0 if that says nothing
 * @timeouts: by index
 */
struct file {
	uint8_t		begun, stopped, private;
	struct during	stop;
	uint32_t	clock, slots, levels, max, slack_us;
	uint64_t	tick;
	uint32_t	nr, live, seen, unread, stale, cells;
	uint64_t	dead[MAX_DEAD];
	uint32_t	nr_dead;
	uint64_t	turns, cookies;
	uint64_t	armed, moved, gone, ended, read, unprocessed, kicks, dropped;
	struct twheel_event last;
	uint64_t	last_turn;
	uint32_t	alive[MAX_INDEX];
	struct timeout	timeouts[MAX_INDEX];
};

void model_open(struct file *f, const struct twheel_info *fresh);

struct timeout *model_find(struct file *f, uint64_t id);
/* The n-th living timeout, modulo how many there are, or NULL. */
struct timeout *model_pick(struct file *f, unsigned int n);

/* Errors that an operation may end with; 0: it has to succeed. */
uint64_t model_op_errors(struct file *f, const struct twheel_op *op);
/* Is an operation well formed? */
int model_op_valid(uint32_t clock, const struct twheel_op *op);
/* The operation @in has been made: @out, with @result or -errno. */
void model_op(struct file *f, const struct twheel_op *in, const struct twheel_op *out,
	      int result, struct during when);

void model_setup(struct file *f, const struct twheel_setup *setup, int result);
void model_cancel_all(struct file *f, const struct twheel_cancel_all *in,
		      const struct twheel_cancel_all *out, struct during when);
void model_stop(struct file *f, struct during when);
void model_info(struct file *f, const struct twheel_info *info, struct during when);
void model_stats(struct file *f, const struct twheel_stats *stats, struct during when);
void model_list_entry(struct file *f, const struct twheel_list_entry *entry,
		      struct during when);

/* An event has been read. */
void model_event(struct file *f, const struct twheel_event *event, struct during when);
/* A read() has met all events that were there before it. */
void model_drained(struct file *f);
/* A read() has met the withdrawn event of a cell after STOP. */
void model_dropped(struct file *f, struct timeout *t);
/* A read() has found no event, or that there will be none. */
void model_no_event(struct file *f, int is_end, int interrupted);
/* poll() has said so. */
void model_poll(struct file *f, short revents, struct during when);

/* The n-th living cell from there on, or NULL. */
struct timeout *model_pick_cell(struct file *f, unsigned int n);
/* An event is known to be there, or is not any more. */
void model_ready(struct file *f, struct timeout *t);
void model_unready(struct file *f, struct timeout *t);
/* The look of a cell that may be dead has been read. */
void model_dead_look(struct file *f, uint64_t id, uint64_t look);
/* How many cells live, and how many of them are armed, as fdinfo has it. */
void model_fdinfo(struct file *f, uint32_t cells, uint32_t armed, struct during when);

uint64_t model_tick(const struct file *f, uint64_t ns);
uint64_t model_sum(uint64_t ns, uint64_t more);

/* Most timeouts that can have an event unread by then. */
uint32_t model_may_be_ready(struct file *f, uint64_t now);
/* Is an event bound to come until then, whatever happens? */
int model_is_due(struct file *f, uint64_t by);

#endif /* TWHEEL_FUZZ_MODEL_H */
