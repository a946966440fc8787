/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What can hold timeouts: the device and its peers, seen through the same few
 * operations. A system numbers its timeouts from 0; the deadlines are in
 * `deadlines`. Each operation measures itself: what is not part of the calls, the
 * filling in of records above all, it does with the clock stopped.
 */
#ifndef BENCH_SYSTEM_H
#define BENCH_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "proc.h"

/* Operations in a call, where a system takes several. */
#define BATCH	1024U

enum action { ARM, REARM, CANCEL };

/**
 * struct system - one way to have timeouts
 * @name: in the results
 * @verbs: bit n: it has action n
 * @max: most timeouts that it is measured with
 * @max_reason: why not with more
 * @max_fire: most that it is measured with when they fire; 0: as many
 * @search: most cancels, beside those of the oldest, that are measured: it walks a
 *	list for each. 0: no need to limit them
 * @open: a fresh context for @n timeouts; their memory is not touched yet
 * @close: give the context and all that is pending back
 * @single: @nr operations with a call each
 * @batch: @nr operations, BATCH in a call; NULL if it has no such thing
 * @collect: wait until timeouts have fired and take them; how many
 * @late_ns: how late it is for timeout @i of those that were collected last, in ns; NULL
 *	if that is not measured
 */
struct system {
	const char	*name;
	unsigned int	verbs;
	unsigned int	max;
	const char	*max_reason;
	unsigned int	max_fire;
	unsigned int	search;
	void		(*open)(unsigned int n);
	void		(*close)(void);
	void		(*single)(enum action verb, const uint32_t *which, unsigned int nr);
	void		(*batch)(enum action verb, const uint32_t *which, unsigned int nr);
	unsigned int	(*collect)(void);
	uint64_t	(*late_ns)(unsigned int i);
};

extern const struct system system_twheel;
extern const struct system system_slack;
extern const struct system system_cells;
extern const struct system system_timerfd;
extern const struct system system_posix;
extern const struct system system_io_uring;
extern const struct system system_misdn;
extern const struct system system_wheel;

/* Does the kernel let this program have a ring? */
bool io_uring_works(void);

/* When a timeout is due, CLOCK_MONOTONIC; by number. */
extern uint64_t *deadlines;

void *array(unsigned long nr, unsigned long size);

static inline unsigned int at_most(unsigned int nr, unsigned int limit)
{
	return nr < limit ? nr : limit;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

#endif
