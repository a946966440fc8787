/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The results that the device may return.
 *
 * The model of a file knows its timeouts exactly, but not the time of their changes. A call
 * happens between two readings of the clock. The deadline of a relative arm is known as a
 * range. Whether a due timeout has already fired is not known. So each timeout has a lower
 * and an upper bound of its deadline:
 *
 *  - Before the lower bound, rounded up to a tick, it has certainly not fired. It must be
 *    pending, and an event is an error.
 *  - After that it may have fired. Both results are allowed, and the actual one adds
 *    information: if it was ready, it stays so until it is read or withdrawn.
 *
 * The model does not check lateness; the caller has a time limit.
 *
 * Everything else is exact: the live ids, the contents of events, and the counters. They
 * must agree after every call.
 *
 * The model checks the fields of an operation only against the text of the ABI header.
 *
 * The model handles one call at a time; race() handles concurrent calls.
 */
#ifndef TWHEEL_FUZZ_MODEL_H
#define TWHEEL_FUZZ_MODEL_H

#include <stdint.h>
#include <twheel/abi.h>

#define NEVER		0x7fffffffffffffffULL
#define MAX_INDEX	8192
#define MAX_DEAD	8

/* A set of errors. */
#define ERRNO(e)	(1ULL << ((e) & 63))

#define CELLS_PER_PAGE	256

/* Time of a call: after @begin and before @end. */
struct time_range {
	uint64_t begin, end;
};

#define NO_LOOK		(~0ULL)

enum place { QUEUED = 1, PARKED = 2, READY = 4, STALE = 8 };
enum word { DEADLINE, IDLE, INVALID };
enum certainty { NO, MAYBE, SURELY };

/**
 * struct cell - state of a timeout with TWHEEL_F_CELL
 * @where: a set of enum place
 * @word: enum word: last value that users or calls have written. DEADLINE together with
 *	READY: the word is FIRED by now
 * @idle_marked: enum certainty: the kernel has changed IDLE to another idle value
 * @look_overwritten: a user has written the look, and the kernel has not written it since
 * @invalid_word: INVALID: the value of the word
 * @user_look: the look that the user has written
 * @queue: QUEUED: time of the next look
 * @ahead: time from the look that marks an idle cell to the next look
 * @idle_look: the look when the word became IDLE; 0: not known
 * @event: STALE: the deadline of the withdrawn event
 */
struct cell {
	uint8_t		where, word, idle_marked, look_overwritten;
	uint64_t	invalid_word, user_look;
	struct time_range queue, ahead;
	uint64_t	idle_look;
	struct time_range event;
};

/**
 * struct timeout - the knowledge about a timeout
 * @id: its id; kept after its end, so that the model notices if it is given out again
 * @alive: it can be used
 * @alive_index: its index in @alive of the file
 * @seen_ready: its event was seen, so it can only be read or withdrawn
 * @order_unknown: the order of its event is not known, as expect_order() explains
 * @flags: TWHEEL_F_FIXED_DELAY, TWHEEL_F_CELL
 * @repeat: as returned by GET
 * @slack_us: slack in effect
 * @cookie: cookie of the last arming
 * @interval: interval of the last arming
 * @low: lower bound of the deadline; for a cell, valid if the word is a deadline
 * @high: upper bound of the deadline
 * @armed: lower bound of the time of the last arming
 * @arm_nr: number of this arming within the file
 * @cell: state of a timeout with TWHEEL_F_CELL
 */
struct timeout {
	uint64_t	id;
	uint32_t	alive_index;
	uint8_t		alive, seen_ready, order_unknown;
	uint32_t	flags, repeat, slack_us;
	uint64_t	cookie, interval;
	uint64_t	low, high;
	uint64_t	armed;
	uint64_t	arm_nr;
	struct cell	cell;
};

/**
 * struct file - a context
 * @initial_info: INFO of a context that nothing has begun, before the first program
 * @begun: SETUP is no longer possible
 * @stopped: STOP has been called
 * @stop: time of the call of STOP
 * @clock: clock of the context
 * @tick: tick of the wheel
 * @slots: slots of the wheel
 * @levels: levels of the wheel
 * @max: maximum number of live timeouts
 * @slack_us: slack of timeouts that name none
 * @private: the context has a wheel of its own
 * @nr: one more than the highest index used
 * @live: number of live timeouts
 * @alive: indices of the live timeouts
 * @nr_seen_ready: number of timeouts with @seen_ready
 * @unread: lower bound of the number of events
 * @stale: number of these events that were withdrawn through the word
 * @cells: some timeouts have been cells
 * @dead: ids of the last timeouts that ended
 * @nr_dead: number of timeouts that have ended
 * @nr_arms: number of armings
 * @cookies: number of cookies used
 * @moved: expected value in STATS, as for @armed
 * @cancelled: timeouts cancelled while pending
 * @withdrawn: timeouts cancelled with their event unread
 * @refused: ARMs refused at the limit
 * @ended: last events read
 * @read: events read
 * @unprocessed: events read with TWHEEL_EV_UNPROCESSED
 * @kicks: successful KICKs
 * @dropped: events of cells that were withdrawn through the word and then removed
 * @last: last event that was read
 * @last_arm_nr: @arm_nr of the timeout of @last; 0: unknown
 * @timeouts: all timeouts by index
 */
struct file {
	const struct twheel_info *initial_info;
	uint8_t		begun, stopped, private;
	struct time_range stop;
	uint32_t	clock, slots, levels, max, slack_us;
	uint64_t	tick;
	uint32_t	nr, live, nr_seen_ready, unread, stale, cells;
	uint64_t	dead[MAX_DEAD];
	uint32_t	nr_dead;
	uint64_t	nr_arms, cookies;
	uint64_t	armed, moved, cancelled, withdrawn, refused;
	uint64_t	ended, read, unprocessed, kicks, dropped;
	struct twheel_event last;
	uint64_t	last_arm_nr;
	uint32_t	alive[MAX_INDEX];
	struct timeout	timeouts[MAX_INDEX];
};

void model_open(struct file *f, const struct twheel_info *initial_info);

struct timeout *model_find(struct file *f, uint64_t id);
/* The live timeout number n modulo their count, or NULL. */
struct timeout *model_pick(struct file *f, unsigned int n);

/* Errors that the operation may return; 0: it must succeed. */
uint64_t model_op_errors(struct file *f, const struct twheel_op *op);
/* Returns whether an operation is valid. */
int model_op_valid(uint32_t clock, const struct twheel_op *op);
/* The operation @in was made: it returned @out, with @result or -errno. */
void model_op(struct file *f, const struct twheel_op *in, const struct twheel_op *out,
	      int result, struct time_range when);

void model_setup(struct file *f, const struct twheel_setup *setup, int result);
void model_cancel_all(struct file *f, const struct twheel_cancel_all *in,
		      const struct twheel_cancel_all *out, struct time_range when);
void model_stop(struct file *f, struct time_range when);
void model_info(struct file *f, const struct twheel_info *info, struct time_range when);
void model_stats(struct file *f, const struct twheel_stats *stats, struct time_range when);
void model_list_entry(struct file *f, const struct twheel_list_entry *entry,
		      struct time_range when);

/* An event was read. */
void model_event(struct file *f, const struct twheel_event *event, struct time_range when);
/* A read() has met all events that existed before it. */
void model_drained(struct file *f);
/* A read() has met the withdrawn event of a cell after STOP. */
void model_dropped(struct file *f, struct timeout *t);
/* A read() has found no event, or the end of events. */
void model_no_event(struct file *f, int is_end, int interrupted);
/* poll() has returned @revents. */
void model_poll(struct file *f, short revents, struct time_range when);

/* The first live cell from number n on, or NULL. */
struct timeout *model_pick_cell(struct file *f, unsigned int n);
/* An event is known to exist, or no longer exists. */
void model_ready(struct file *f, struct timeout *t);
void model_unready(struct file *f, struct timeout *t);
/* The look of a cell that may be dead was read. */
void model_dead_look(struct file *f, uint64_t id, uint64_t look);
/* Number of live cells, according to fdinfo. */
void model_fdinfo(struct file *f, uint32_t cells);

uint64_t model_tick(const struct file *f, uint64_t ns);
uint64_t model_sum(uint64_t ns, uint64_t more);

/* Maximum number of timeouts with an unread event at @now. */
uint32_t model_may_be_ready(struct file *f, uint64_t now);
/* Returns whether an event is certain to come by @by. */
int model_is_due(struct file *f, uint64_t by);

/* Cells */

/* Add the states that the cell may have reached by @now. */
void cell_advance(const struct file *f, struct timeout *t, uint64_t now);

/* Calls: the new word is @expires_ns; if it is a deadline, it is from t->low to t->high. */
void cell_armed(struct file *f, struct timeout *t, uint64_t expires_ns, struct time_range when);
void cell_moved(struct file *f, struct timeout *t, uint64_t expires_ns, struct time_range when);
void cell_kicked(struct file *f, struct timeout *t, struct time_range when);
/* STOP has been called. Returns whether the cell is still alive, with an event. */
int cell_stopped(const struct file *f, struct timeout *t, struct time_range when);
/* The result of CANCEL or MOD, or the state found by GET or LIST as such a result. */
void cell_outcome(struct file *f, struct timeout *t, int result, struct time_range when);
/* The event has been read, or a read() has removed the withdrawn event. */
void cell_read(struct timeout *t);
void cell_dropped(struct timeout *t);

/* Users: an exchange replaced @old by @new, and look was read after it. */
void cell_exchanged(struct file *f, struct timeout *t, uint64_t old, uint64_t new,
		    struct time_range when);
/* The word was read, or a compare-exchange has failed. */
void cell_word(struct file *f, struct timeout *t, uint64_t word, struct time_range when);
void cell_look(struct file *f, struct timeout *t, uint64_t look, struct time_range when);
void cell_look_overwritten(struct timeout *t, uint64_t look);

/* Time by which the event comes, or UINT64_MAX. */
uint64_t cell_due(const struct file *f, const struct timeout *t);

#endif /* TWHEEL_FUZZ_MODEL_H */
