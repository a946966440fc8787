// SPDX-License-Identifier: GPL-2.0
/*
 * The clocks of the device by name.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "array.h"
#include "clock.h"

static const struct clock {
	uint32_t clock;
	const char *name;
} clocks[] = {
	{ CLOCK_MONOTONIC, "monotonic" },
	{ CLOCK_BOOTTIME, "boottime" },
	{ CLOCK_REALTIME, "realtime" },
};

const char *clock_name(uint32_t clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (clocks[i].clock == clock)
			return clocks[i].name;
	}
	return "unknown";
}

int clock_parse(const char *name, uint32_t *clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (!strcmp(clocks[i].name, name)) {
			*clock = clocks[i].clock;
			return 0;
		}
	}
	return -EINVAL;
}
