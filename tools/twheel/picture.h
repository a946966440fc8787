/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The picture of a wheel in characters. It is drawn from numbers, and needs no terminal.
 */
#ifndef TWHEEL_PICTURE_H
#define TWHEEL_PICTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <twheel/abi.h>

#include "wheel.h"

/**
 * struct picture_sample - the counters at one time
 * @ns: the time, monotonic
 * @stats: the counters of the context
 * @wheel: the counters of the wheel
 */
struct picture_sample {
	uint64_t ns;
	struct twheel_stats stats;
	struct wheel wheel;
};

/**
 * struct picture - the contents of a picture
 * @status: the first line: time of day, interval and keys
 * @info: of the context
 * @whole: shows the counters of the wheel instead of those of the context
 * @why: why the wheel cannot be shown, or NULL; not with @whole
 * @before: the sample before @now. Rates and the lateness of the interval are the
 *	difference. If it is as old as @now, there are none
 * @now: the latest sample
 */
struct picture {
	char status[80];
	struct twheel_info info;
	bool whole;
	const char *why;
	struct picture_sample before;
	struct picture_sample now;
};

/**
 * picture_set_status() - set the first line
 * @picture: its contents
 * @now: the time of day
 * @interval: ns between two pictures
 * @terminal: name the keys, too
 */
void picture_set_status(struct picture *picture, time_t now, uint64_t interval, bool terminal);

/**
 * picture_draw() - draw a picture
 * @picture: its contents
 * @out: where to draw it
 * @width: columns; no line is longer, and a line that was cut off ends in ">"
 * @height: lines; there are no more
 * @eol: ends each line
 */
void picture_draw(const struct picture *picture, FILE *out, int width, int height,
		  const char *eol);

#endif /* TWHEEL_PICTURE_H */
