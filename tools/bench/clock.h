/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The time that operations take. The times between clock_start() and clock_stop() add up
 * until clock_take(). Under `tools/vm/run --icount` a nanosecond is an instruction. The
 * cost of reading the clock, determined by clock_calibrate(), is subtracted.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC	UINT64_C(1000)
#define NSEC_PER_MSEC	UINT64_C(1000000)
#define NSEC_PER_SEC	UINT64_C(1000000000)
#define NEVER		UINT64_MAX

extern uint64_t clock_total;
extern uint64_t clock_begin;
extern uint64_t clock_cost;

/* Whether the current operation is one that was asked for. Otherwise the clock stands still. */
extern int clock_wanted;

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

static inline void clock_start(void)
{
	if (clock_wanted)
		clock_begin = clock_ns();
}

static inline void clock_stop(void)
{
	if (clock_wanted)
		clock_total += clock_ns() - clock_begin - clock_cost;
}

/* Subtract the cost of the loop around the calls, which runs alone here. */
static inline void clock_stop_idle_loop(void)
{
	clock_total -= clock_ns() - clock_begin - clock_cost;
}

/* Set clock_cost to the minimum that a start and a stop measure for nothing. */
void clock_calibrate(void);

static inline uint64_t clock_take(void)
{
	uint64_t total = clock_total;

	clock_total = 0;
	return total;
}

#endif
