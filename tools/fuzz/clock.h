/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TWHEEL_FUZZ_CLOCK_H
#define TWHEEL_FUZZ_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static inline void sleep_us(unsigned int us)
{
	const struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

#endif /* TWHEEL_FUZZ_CLOCK_H */
