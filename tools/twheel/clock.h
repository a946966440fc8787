/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clocks of the device by name, and their time.
 */
#ifndef TWHEEL_CLOCK_H
#define TWHEEL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* "monotonic", for example; "unknown" for a clock that the device does not have. */
const char *clock_name(uint32_t clock);

/* 0, or -EINVAL when no clock is called @name. */
int clock_parse(const char *name, uint32_t *clock);

#endif /* TWHEEL_CLOCK_H */
