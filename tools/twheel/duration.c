// SPDX-License-Identifier: GPL-2.0
/*
 * Durations, to and from text, in integers: a deadline that went through a double
 * would be rounded, and could be rounded down.
 *
 * A fraction is worked off from its last digit to its first. Each step adds
 * digit * unit and divides by ten, so no step exceeds ten units however many digits
 * there are; and if a step leaves a remainder so does the whole, because what comes
 * later only adds whole numbers and divides further.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "duration.h"

#define SECONDS	3	/* the largest unit that is printed */

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "ns", 1 },
	{ "us", NSEC_PER_USEC },
	{ "ms", NSEC_PER_MSEC },
	[SECONDS] = { "s", NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC },
	{ "d", 86400 * NSEC_PER_SEC },
};

static const struct unit *find_unit(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!strcmp(units[i].name, name))
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

static int whole(const char *text, size_t nr, uint64_t unit, uint64_t *ns)
{
	*ns = 0;
	for (size_t i = 0; i < nr; i++) {
		if (__builtin_mul_overflow(*ns, 10, ns) ||
		    __builtin_add_overflow(*ns, text[i] - '0', ns))
			return -ERANGE;
	}
	return __builtin_mul_overflow(*ns, unit, ns) ? -ERANGE : 0;
}

static int fraction(const char *text, size_t nr, uint64_t unit, uint64_t *ns)
{
	*ns = 0;
	while (nr--) {
		*ns += (text[nr] - '0') * unit;
		if (*ns % 10)
			return -EINVAL;
		*ns /= 10;
	}
	return 0;
}

static int failure(int error, const char *message, const char **why)
{
	*why = message;
	return error;
}

int duration_parse(const char *text, uint64_t *ns, const char **why)
{
	size_t before = digits(text), after = 0;
	const char *point = text + before;
	const struct unit *unit;
	uint64_t rest;

	if (*point == '.')
		after = digits(++point);
	if (!before || (point[-1] == '.' && !after))
		return failure(-EINVAL, "a number and a unit are expected, as in 1.5s", why);

	unit = find_unit(point + after);
	if (!unit && !strcmp(text, "0"))
		unit = units;
	if (!unit)
		return failure(-EINVAL, "the unit must be ns, us, ms, s, m, h or d", why);

	if (fraction(point, after, unit->ns, &rest))
		return failure(-EINVAL, "finer than a nanosecond", why);
	if (whole(text, before, unit->ns, ns) || __builtin_add_overflow(*ns, rest, ns) ||
	    *ns > DURATION_MAX)
		return failure(-ERANGE, "longer than 292 years", why);
	return 0;
}

struct duration_text duration_text(uint64_t ns)
{
	const struct unit *unit = &units[SECONDS];
	struct duration_text text;
	int len;

	while (unit > units && ns < unit->ns)
		unit--;
	len = snprintf(text.s, sizeof(text.s), "%llu.%03llu",
		       (unsigned long long)(ns / unit->ns),
		       (unsigned long long)(ns % unit->ns * 1000 / unit->ns));
	while (text.s[len - 1] == '0')
		len--;
	if (text.s[len - 1] == '.')
		len--;
	snprintf(text.s + len, sizeof(text.s) - len, "%s", unit->name);
	return text;
}
