/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The set of states that a cell may be in.
 *
 * One process at a time uses the mapping. So the word is known, except for two changes that
 * the kernel makes: a past deadline becomes FIRED, and IDLE becomes another idle value. The
 * model does not know whether the kernel has made these changes yet. If a look is due, it
 * does not know whether the kernel has looked. So a cell is in one of a set of places:
 *
 *	QUEUED	the kernel looks at the word, at the latest at the end of @queue
 *	PARKED	the kernel does not look. An arming that follows needs a KICK
 *	READY	the event is unread, and the word is FIRED
 *	STALE	the event was withdrawn through the word, and is still on the queue
 *
 * Time adds places to the set. An observation of the cell removes the places that
 * contradict it; if none is left, the device is wrong. STALE is always certain, because
 * only an exchange that returned FIRED leads to it.
 *
 * The kernel may look earlier than it has promised. It may not look later, nor at all if it
 * has promised nothing.
 *
 * The model does not know the pace of looks: to reach it, a program would have to exchange the
 * words of more than 64 cells in a millisecond, and each takes a step.
 */
#ifndef TWHEEL_FUZZ_CELLS_H
#define TWHEEL_FUZZ_CELLS_H

#include <stdint.h>

struct file;
struct timeout;

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

#endif /* TWHEEL_FUZZ_CELLS_H */
