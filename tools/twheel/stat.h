/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters in the text format of Prometheus.
 */
#ifndef TWHEEL_STAT_H
#define TWHEEL_STAT_H

#include <stdio.h>
#include <linux/twheel.h>

#include "wheel.h"

/* Times are in seconds, as Prometheus wants them. NULL for the part that is not shown. */
void stat_prometheus(FILE *out, const struct twheel_stats *stats, const struct wheel *wheel);

#endif /* TWHEEL_STAT_H */
