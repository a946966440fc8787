/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counters of a context and of its wheel, as text.
 */
#ifndef TWHEEL_STAT_H
#define TWHEEL_STAT_H

#include <stdbool.h>
#include <stdint.h>

#include "libtwheel.h"
#include "wheel.h"

/**
 * struct sample - the counters at one time
 * @ns: the time, monotonic
 * @error: why @wheel cannot be shown, or 0
 * @stats: the counters of the context
 * @wheel: the counters of the wheel
 */
struct sample {
	uint64_t ns;
	int error;
	struct twheel_stats stats;
	struct wheel wheel;
};

/* Returns the exit status, after a complaint if the context has no counters. */
int sample_take(struct twheel_ctx *ctx, struct sample *sample);

/*
 * Print the counters, those of the context if @context is set, with their increase per second
 * since @before if that is not NULL. At most @lines lines.
 */
void sample_print(const struct sample *now, const struct sample *before, bool context, int lines);

#endif /* TWHEEL_STAT_H */
