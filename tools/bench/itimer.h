/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The loop over system calls that take a struct itimerspec, one call per timer.
 */
#ifndef BENCH_ITIMER_H
#define BENCH_ITIMER_H

#include "clock.h"
#include "system.h"

/**
 * struct itimer_calls - the calls of a system
 * @arm: create a timer and set it
 * @rearm: set a timer again
 * @cancel: delete a timer
 */
struct itimer_calls {
	void	(*arm)(uint32_t number, const struct itimerspec *value);
	void	(*rearm)(uint32_t number, const struct itimerspec *value);
	void	(*cancel)(uint32_t number);
};

/* Inlined with constant @calls. @values has room for @nr deadlines, set before the clock starts. */
static __always_inline
void itimer_single(const struct itimer_calls *calls, struct itimerspec *values, enum action verb,
		   const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		values[i] = (struct itimerspec){ .it_value = to_timespec(deadlines[which[i]]) };
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		switch (verb) {
		case ARM:
			calls->arm(which[i], &values[i]);
			break;
		case REARM:
			calls->rearm(which[i], &values[i]);
			break;
		case CANCEL:
			calls->cancel(which[i]);
			break;
		}
	}
	clock_stop();
}

#endif
