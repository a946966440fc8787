/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface to the systems that hold timeouts: the device and its peers. A system numbers
 * its timeouts from 0; the deadlines are in `deadlines`. Each operation measures itself. It
 * stops the clock for everything that is not part of the calls, mainly for filling in
 * records.
 */
#ifndef BENCH_SYSTEM_H
#define BENCH_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "proc.h"

/* Operations per call, for systems that support several. */
#define BATCH	1024U

enum action { ARM, REARM, CANCEL };

/**
 * struct system - one way to have timeouts
 * @name: name in the results
 * @verbs: bit n: it supports action n
 * @max: maximum number of timeouts that it is measured with
 * @max_reason: reason for @max
 * @max_fire: maximum number of timeouts when they fire; 0: @max
 * @search: maximum number of measured cancels other than of the oldest, because each walks
 *	a list. 0: no limit
 * @open: make a new context for @n timeouts; their memory is not touched yet
 * @close: free the context and all pending timeouts
 * @single: @nr operations, one per call
 * @batch: @nr operations, BATCH per call; NULL: not supported
 * @collect: wait until timeouts have fired and take them; returns their number
 * @late_ns: lateness of timeout @i of those collected last, in ns; NULL: not measured
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

/* Returns whether the kernel lets this program create a ring. */
bool io_uring_works(void);

/* Deadlines on CLOCK_MONOTONIC, by number. */
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
