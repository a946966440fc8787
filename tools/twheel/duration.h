/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Durations as people write them, in nanoseconds.
 */
#ifndef TWHEEL_DURATION_H
#define TWHEEL_DURATION_H

#include <stdint.h>

#define NSEC_PER_USEC	UINT64_C(1000)
#define NSEC_PER_MSEC	UINT64_C(1000000)
#define NSEC_PER_SEC	UINT64_C(1000000000)

/* The longest that the device takes: 292 years. */
#define DURATION_MAX	((uint64_t)INT64_MAX)

/**
 * duration_parse() - read a duration
 * @text: numbers with a unit each, the largest unit first: "1h30m", "250us". The units are
 *	d h m s ms us ns. The last number may have decimals. A number alone is seconds
 * @ns: out
 *
 * Exact: a value that is not a whole number of nanoseconds is refused, not rounded.
 *
 * Return: NULL, or why it is no duration, for a message.
 */
const char *duration_parse(const char *text, uint64_t *ns);

/**
 * struct duration_text - a duration to print
 * @s: below a minute in one unit, cut off after three decimals; from there on in days,
 *	hours, minutes and whole seconds. duration_parse() reads it
 */
struct duration_text {
	char s[32];
};

struct duration_text duration_text(uint64_t ns);

#endif /* TWHEEL_DURATION_H */
