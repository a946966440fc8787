/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface to the back ends: twheel and other ways to have timeouts.
 *
 * A program numbers its timeouts from 0. A set of timeouts belongs to one thread or one
 * process, which also takes the timeouts that have fired.
 *
 * Arms, moves and cancels run the clock of clock.h around their calls alone. So the time for
 * filling in records and for checking results is not part of a measurement.
 */
#ifndef BENCH_BACKEND_H
#define BENCH_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../clock.h"

/**
 * struct usage - how a program uses back ends; it sets this before it opens a set
 * @batch: maximum of operations that are collected for a call, and of events per call
 * @measured: operations are measured. @open creates no timers in the kernel, so that an arm
 *	does. @take waits, and its numbers may be NULL
 * @process: contexts with cells are wheels in the process, not of the device
 */
struct usage {
	unsigned int	batch;
	bool		measured;
	bool		process;
};

/* Defined by each program. */
extern struct usage usage;

/**
 * struct timers - a set of timeouts; a back end appends its own data
 * @n: number of timeouts
 * @slack_ns: maximum delay of a timeout after its deadline
 */
struct timers {
	unsigned int	n;
	uint64_t	slack_ns;
};

enum action { ARM, MOVE, CANCEL };

/**
 * struct backend - one way to have timeouts
 * @name: name in the results
 * @has_slack: it uses @slack_ns
 * @node: bytes of a timeout in the objects of a program, which @open allocates; 0 for an id
 * @open: make a set of @n timeouts, none of them armed. Only this call may fail for lack of
 *	resources
 * @close: free the set
 * @arm: arm or move a timeout; absolute time on CLOCK_MONOTONIC; takes effect with @flush
 * @move: move an armed timeout in one operation. NULL: there is no such operation
 * @repeat: arm a timeout that then fires every @interval_ns. NULL: the program has to arm
 *	it each time
 * @cancel: cancel an armed timeout; takes effect with @flush
 * @flush: carry out the collected operations. NULL: there are none
 * @all: carry out an action on many timeouts, whose numbers are in @which, in place of @arm,
 *	@move and @cancel. Deadlines are by number. NULL: a call for each is measured well
 * @take: get the numbers of timeouts that have fired, at most @batch. Flushes first, so that
 *	it returns no timeout that was cancelled
 * @fd: readable if timeouts have fired; -1: use @next
 * @next: time until which the program may sleep. NULL: the descriptor wakes it
 */
struct backend {
	const char	*name;
	bool		has_slack;
	size_t		node;
	struct timers	*(*open)(unsigned int n, uint64_t slack_ns);
	void		(*close)(struct timers *timers);
	void		(*arm)(struct timers *timers, uint32_t number, uint64_t expires_ns);
	void		(*move)(struct timers *timers, uint32_t number, uint64_t expires_ns);
	void		(*repeat)(struct timers *timers, uint32_t number, uint64_t expires_ns,
				  uint64_t interval_ns);
	void		(*cancel)(struct timers *timers, uint32_t number);
	void		(*flush)(struct timers *timers);
	void		(*all)(struct timers *timers, enum action action, const uint32_t *which,
			       unsigned int nr, const uint64_t *deadlines);
	unsigned int	(*take)(struct timers *timers, uint64_t now_ns, uint32_t *numbers);
	int		(*fd)(struct timers *timers);
	uint64_t	(*next)(struct timers *timers);
};

extern const struct backend backend_none;
extern const struct backend backend_cells;
extern const struct backend backend_new_cells;	/* arming makes the cell */
extern const struct backend backend_submit;
extern const struct backend backend_process;	/* its wheel in the process; measured alone */
extern const struct backend backend_wheel;
extern const struct backend backend_eager;	/* the same wheel, without its lazy forms */
extern const struct backend backend_mutex;
extern const struct backend backend_timerfd;
extern const struct backend backend_new_timerfd;	/* arming makes the descriptor */
extern const struct backend backend_posix;
extern const struct backend backend_io_uring;
extern const struct backend backend_misdn;

/* Returns whether the kernel lets this program create a ring. */
bool io_uring_works(void);

static inline void flush_timers(const struct backend *backend, struct timers *timers)
{
	if (backend->flush)
		backend->flush(timers);
}

static inline uint64_t next_wakeup(const struct backend *backend, struct timers *timers)
{
	return backend->next ? backend->next(timers) : NEVER;
}

#endif
