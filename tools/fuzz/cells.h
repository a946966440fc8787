/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states that a cell may be in.
 *
 * One process at a time uses the mapping, so the word is known but for two changes that
 * the kernel makes by itself: a deadline that has passed becomes FIRED, and IDLE becomes
 * another idle value. Whether it has done so yet is not known. Neither is whether it has
 * looked at a cell whose look has come. So a cell is in one of a set of places:
 *
 *	QUEUED	the kernel looks at the word, at the latest at the end of @queue
 *	PARKED	the kernel does not look. An arming that follows needs a KICK
 *	READY	the event is unread, and the word is FIRED
 *	STALE	the event was withdrawn through the word, and is still on the queue
 *
 * Time adds places. What is seen of the cell removes those that do not fit, and if there is
 * none left, the device is wrong. STALE is always known: nothing but an exchange that
 * returned FIRED makes it.
 *
 * The kernel may look earlier than it has promised. It may not look later, nor at all if
 * it has promised nothing.
 */
#ifndef TWHEEL_FUZZ_CELLS_H
#define TWHEEL_FUZZ_CELLS_H

#include <stdint.h>

struct file;
struct timeout;

/* When a call was made: after @begin and before @end. */
struct during {
	uint64_t begin, end;
};

#define NO_LOOK		(~0ULL)

enum place { QUEUED = 1, PARKED = 2, READY = 4, STALE = 8 };
enum word { DEADLINE, IDLE, ODD };
enum certainty { NO, MAYBE, SURELY };

/**
 * struct cell - of a timeout with TWHEEL_F_CELL
 * @where: a set of enum place
 * @word: enum word: what users or calls wrote last. DEADLINE, and READY: FIRED by now
 * @marked: enum certainty: IDLE has become another idle value
 * @forged: a user wrote the look, and the kernel has not written it since
 * @odd: ODD: the value
 * @forgery: what the user wrote
 * @queue: QUEUED: for when
 * @ahead: after IDLE has been marked, the kernel looks again after that time
 * @idle_look: the look when the word became IDLE, or 0 if it is not known
 * @event: STALE: the deadline of the event
 */
struct cell {
	uint8_t		where, word, marked, forged;
	uint64_t	odd, forgery;
	struct during	queue, ahead;
	uint64_t	idle_look;
	struct during	event;
};

/* Adds the states that the cell may have come to by @now. */
void cell_advance(const struct file *f, struct timeout *t, uint64_t now);

/* Calls: the new word is @expires_ns, or with DEADLINE between t->low and t->high. */
void cell_armed(struct file *f, struct timeout *t, uint64_t expires_ns, struct during when);
void cell_moved(struct file *f, struct timeout *t, uint64_t expires_ns, struct during when);
void cell_kicked(struct file *f, struct timeout *t, struct during when);
/* STOP has come. Returns whether the cell lives on, with an event. */
int cell_stopped(const struct file *f, struct timeout *t, struct during when);
/* The outcome of CANCEL or MOD, or what GET or LIST has found, as an outcome. */
void cell_outcome(struct file *f, struct timeout *t, int result, struct during when);
/* Its event has been read, or read() has found that it was withdrawn. */
void cell_read(struct timeout *t);
void cell_dropped(struct timeout *t);

/* Users: the word was @old, and is @new; then look was read. */
void cell_exchanged(struct file *f, struct timeout *t, uint64_t old, uint64_t new,
		    struct during when);
/* The word was read, or a compare-exchange has failed. */
void cell_word(struct file *f, struct timeout *t, uint64_t word, struct during when);
void cell_look(struct file *f, struct timeout *t, uint64_t look, struct during when);
void cell_forged(struct timeout *t, uint64_t look);

/* Can the word be a deadline, and must it? */
int cell_may_be_pending(const struct timeout *t);
int cell_must_be_pending(const struct timeout *t);
/* The event comes until then, or the end of all times. */
uint64_t cell_due(const struct file *f, const struct timeout *t);

#endif /* TWHEEL_FUZZ_CELLS_H */
