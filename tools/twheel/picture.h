/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A wheel in characters: numbers in, lines of text out, and no terminal needed.
 */
#ifndef TWHEEL_PICTURE_H
#define TWHEEL_PICTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <linux/twheel.h>

#include "wheel.h"

/**
 * struct picture_sample - the counters at one time
 * @ns: when, monotonic
 * @stats: what they were in the context
 * @wheel: and in the wheel
 */
struct picture_sample {
	uint64_t ns;
	struct twheel_stats stats;
	struct wheel wheel;
};

/**
 * struct picture - what is to be drawn
 * @info: of the context
 * @whole: of the wheel, not of the context
 * @why: why the wheel cannot be shown, or NULL; not with @whole
 * @first: where it began: lateness is shown since then
 * @before: rates are shown since then. If it is as old as @now there are none, and
 *	lateness is that of all times
 * @now: the latest sample
 */
struct picture {
	struct twheel_info info;
	bool whole;
	const char *why;
	struct picture_sample first;
	struct picture_sample before;
	struct picture_sample now;
};

/**
 * struct number_text - a number to print
 * @s: with commas
 */
struct number_text {
	char s[32];
};

struct number_text number_text(uint64_t number);

/**
 * picture_draw() - draw it
 * @picture: what
 * @out: where to
 * @width: columns, no line is longer
 * @height: lines, there are no more
 * @eol: ends each line
 */
void picture_draw(const struct picture *picture, FILE *out, int width, int height,
		  const char *eol);

#endif /* TWHEEL_PICTURE_H */
