/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clocks of the device by name.
 */
#ifndef TWHEEL_CLOCK_H
#define TWHEEL_CLOCK_H

#include <stdint.h>

/* "monotonic", for example; "unknown" for a clock that the device does not have. */
const char *clock_name(uint32_t clock);

/* 0, or -EINVAL when no clock is called @name. */
int clock_parse(const char *name, uint32_t *clock);

#endif /* TWHEEL_CLOCK_H */
