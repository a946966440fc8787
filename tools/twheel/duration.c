// SPDX-License-Identifier: GPL-2.0
/*
 * Durations, to and from text, in integers. A deadline that went through a double would
 * be rounded, and could be rounded down.
 *
 * A fraction is computed from its last digit to its first. Each step adds digit * unit
 * and divides by ten, so no step exceeds ten units, however many digits there are. A
 * remainder in any step means that the value is not a whole number of nanoseconds: the
 * later steps add whole numbers and divide further.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "duration.h"

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "d", 86400 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC },
	{ "s", NSEC_PER_SEC },
	{ "ms", NSEC_PER_MSEC },
	{ "us", NSEC_PER_USEC },
	{ "ns", 1 },
};

#define SECONDS	(&units[3])

static const struct unit *find_unit(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strlen(units[i].name) == len && !memcmp(units[i].name, name, len))
			return &units[i];
	}
	return NULL;
}

static size_t digits(const char *text)
{
	size_t nr = 0;

	while (isdigit((unsigned char)text[nr]))
		nr++;
	return nr;
}

static bool whole(const char *text, size_t nr, uint64_t unit, uint64_t *ns)
{
	*ns = 0;
	for (size_t i = 0; i < nr; i++) {
		if (__builtin_mul_overflow(*ns, 10, ns) ||
		    __builtin_add_overflow(*ns, text[i] - '0', ns))
			return false;
	}
	return !__builtin_mul_overflow(*ns, unit, ns);
}

static bool fraction(const char *text, size_t nr, uint64_t unit, uint64_t *ns)
{
	*ns = 0;
	while (nr--) {
		*ns += (text[nr] - '0') * unit;
		if (*ns % 10)
			return false;
		*ns /= 10;
	}
	return true;
}

static const char too_long[] = "longer than 292 years";

/* One number with its unit, "1.5h" say. *@unit is the unit of the part before, or NULL. */
static const char *parse_part(const char **text, const struct unit **unit, uint64_t *ns)
{
	size_t before = digits(*text), after = 0, len;
	const char *point = *text + before;
	const struct unit *last = *unit;
	uint64_t rest;

	if (*point == '.')
		after = digits(++point);
	if (!before || (point[-1] == '.' && !after))
		return "expected a number and a unit, as in 1.5s or 1h30m";

	*text = point + after;
	len = strcspn(*text, "0123456789.");
	*unit = !len && !last ? SECONDS : find_unit(*text, len);
	*text += len;
	if (!*unit)
		return "the unit must be ns, us, ms, s, m, h or d";
	if (last && *unit <= last)
		return "the largest unit must come first, each once";
	if (after && **text)
		return "only the last number may have decimals";

	if (!fraction(point, after, (*unit)->ns, &rest))
		return "finer than a nanosecond";
	if (!whole(point - before - (point[-1] == '.'), before, (*unit)->ns, ns) ||
	    __builtin_add_overflow(*ns, rest, ns))
		return too_long;
	return NULL;
}

const char *duration_parse(const char *text, uint64_t *ns)
{
	const struct unit *unit = NULL;
	const char *why;
	uint64_t part;

	*ns = 0;
	do {
		why = parse_part(&text, &unit, &part);
		if (why)
			return why;
		if (__builtin_add_overflow(*ns, part, ns) || *ns > DURATION_MAX)
			return too_long;
	} while (*text);
	return NULL;
}

/* "2d3h4m5s": seconds are cut off to whole ones. */
static struct duration_text long_text(uint64_t ns)
{
	struct duration_text text = { "" };
	size_t len = 0;

	for (const struct unit *unit = units; unit <= SECONDS; unit++) {
		uint64_t nr = ns / unit->ns;

		ns %= unit->ns;
		if (nr)
			len += snprintf(text.s + len, sizeof(text.s) - len, "%llu%s",
					(unsigned long long)nr, unit->name);
	}
	return text;
}

struct duration_text duration_text(uint64_t ns)
{
	const struct unit *unit = SECONDS;
	struct duration_text text;
	int len;

	if (ns >= 60 * NSEC_PER_SEC)
		return long_text(ns);
	while (unit->ns > 1 && ns < unit->ns)
		unit++;
	len = snprintf(text.s, sizeof(text.s), "%llu.%03llu",
		       (unsigned long long)(ns / unit->ns),
		       (unsigned long long)(ns % unit->ns * 1000 / unit->ns));
	while (text.s[len - 1] == '0')
		len--;
	if (text.s[len - 1] == '.')
		len--;
	snprintf(text.s + len, sizeof(text.s) - len, "%s", ns ? unit->name : "s");
	return text;
}
