// SPDX-License-Identifier: GPL-2.0
/*
 * A wheel in characters. From the top: what it is, what is in it, what happens per
 * second, how full the levels are, how late it fires. The histogram takes the lines
 * that are left, and joins neighbours until it fits.
 *
 * All bars of a section have the same scale. A bar that stands for something has a
 * mark at least, so that nothing that is there looks like nothing.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "cli.h"
#include "clock.h"
#include "duration.h"
#include "picture.h"

#define LINE_MAX	1024	/* wider than any terminal is used */

struct canvas {
	FILE *out;
	int width;
	int left;		/* lines that may still be drawn */
	const char *eol;
};

struct number_text number_text(uint64_t number)
{
	struct number_text text;
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%ju", number);
	char *to = text.s;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

/* All that is written is ASCII: a byte is a column. */
static void __printf(2, 3) draw_line(struct canvas *canvas, const char *format, ...)
{
	char line[LINE_MAX];
	va_list args;
	int len;

	if (canvas->left <= 0)
		return;
	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len >= LINE_MAX)
		len = LINE_MAX - 1;
	if (len > canvas->width)
		len = canvas->width;
	while (len && line[len - 1] == ' ')
		len--;
	fprintf(canvas->out, "%.*s%s", len, line, canvas->eol);
	canvas->left--;
}

/* A bar of @part in @whole for what is left of a line when @taken columns are used. */
struct bar {
	char s[LINE_MAX];
};

static struct bar bar(const struct canvas *canvas, int taken, uint64_t part, uint64_t whole)
{
	int width = canvas->width - taken;
	struct bar bar = { "" };
	int len;

	if (width > LINE_MAX - 1)
		width = LINE_MAX - 1;
	if (width <= 0 || !whole || !part)
		return bar;
	len = (double)part / whole * width + 0.5;
	if (len > width)
		len = width;
	memset(bar.s, '#', len ? len : 1);
	return bar;
}

static void draw_title(struct canvas *canvas, const struct picture *picture)
{
	const struct twheel_info *info = &picture->info;

	draw_line(canvas, "%s, %s clock: tick %s, %u level%s of %u slots",
		  picture->whole ? "shared wheel" :
		  info->flags & TWHEEL_INFO_PRIVATE ? "context with a wheel of its own" : "context",
		  clock_name(info->clock), duration_text(info->tick_ns).s, info->levels,
		  info->levels == 1 ? "" : "s", info->slots);
}

static void draw_content(struct canvas *canvas, const struct picture *picture)
{
	const struct twheel_stats *stats = &picture->now.stats;
	const struct wheel *wheel = &picture->now.wheel;

	if (picture->whole)
		draw_line(canvas, "pending %s, largest batch %s",
			  number_text(wheel->counter[WHEEL_PENDING]).s,
			  number_text(wheel->counter[WHEEL_LARGEST_BATCH]).s);
	else
		draw_line(canvas, "live %s of %s, unread events %s%s", number_text(stats->live).s,
			  number_text(picture->info.max_timeouts).s, number_text(stats->ready).s,
			  picture->info.flags & TWHEEL_INFO_STOPPED ? ", stopped" : "");
}

#define OF_CONTEXT(member) \
	{ #member, offsetof(struct picture_sample, stats.member) }
#define OF_WHEEL(text, index) \
	{ text, offsetof(struct picture_sample, wheel.counter[index]) }

static const struct counter {
	const char *name;
	size_t offset;
} of_wheel[] = {
	OF_WHEEL("armed", WHEEL_ARMED),
	OF_WHEEL("cancelled", WHEEL_CANCELLED),
	OF_WHEEL("fired", WHEEL_FIRED),
	OF_WHEEL("extended", WHEEL_EXTENDED),
	OF_WHEEL("cascaded", WHEEL_CASCADED),
	OF_WHEEL("wakeups", WHEEL_WAKEUPS),
}, of_context[] = {
	OF_CONTEXT(armed),
	OF_CONTEXT(moved),
	OF_CONTEXT(cancelled),
	OF_CONTEXT(fired),
	OF_CONTEXT(looks),
	OF_CONTEXT(kicks),
	OF_CONTEXT(dropped),
	OF_CONTEXT(read),
};

static uint64_t value_of(const struct counter *counter, const struct picture_sample *sample)
{
	return *(const uint64_t *)((const char *)sample + counter->offset);
}

static bool has_past(const struct picture *picture)
{
	return picture->now.ns > picture->before.ns;
}

static uint64_t rate_of(const struct counter *counter, const struct picture *picture)
{
	uint64_t nr = value_of(counter, &picture->now) - value_of(counter, &picture->before);

	if (!has_past(picture))
		return 0;
	return (double)nr * NSEC_PER_SEC / (picture->now.ns - picture->before.ns) + 0.5;
}

#define RATE_COLUMNS	46

static void draw_rates(struct canvas *canvas, const struct picture *picture)
{
	const struct counter *counters = picture->whole ? of_wheel : of_context;
	size_t nr = picture->whole ? ARRAY_SIZE(of_wheel) : ARRAY_SIZE(of_context);
	uint64_t most = 0;

	for (size_t i = 0; i < nr; i++) {
		if (rate_of(&counters[i], picture) > most)
			most = rate_of(&counters[i], picture);
	}
	draw_line(canvas, "%-10s%14s%20s", "", "per second", "in all");
	for (size_t i = 0; i < nr; i++) {
		uint64_t rate = rate_of(&counters[i], picture);

		draw_line(canvas, "%-10s%14s%20s  %s", counters[i].name,
			  has_past(picture) ? number_text(rate).s : "-",
			  number_text(value_of(&counters[i], &picture->now)).s,
			  bar(canvas, RATE_COLUMNS, rate, most).s);
	}
}

/* Saturates: the upper levels of a slow wheel reach beyond all time. */
static uint64_t slot_ns(const struct twheel_info *info, unsigned int level)
{
	uint64_t ns = info->tick_ns;

	while (level--) {
		if (__builtin_mul_overflow(ns, info->slots, &ns))
			return UINT64_MAX;
	}
	return ns;
}

/* A length in one word and a unit that suits it: "1.024s", "4.66h", "49.7d". */
static struct duration_text length_text(uint64_t ns)
{
	static const struct {
		uint64_t ns;
		char unit;
	} units[] = {
		{ 365 * 86400 * NSEC_PER_SEC, 'y' },
		{ 86400 * NSEC_PER_SEC, 'd' },
		{ 3600 * NSEC_PER_SEC, 'h' },
		{ 60 * NSEC_PER_SEC, 'm' },
	};
	struct duration_text text;

	if (ns == UINT64_MAX)
		return (struct duration_text) { "> 580y" };
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (ns < 2 * units[i].ns)
			continue;
		snprintf(text.s, sizeof(text.s), "%.3g%c", (double)ns / units[i].ns,
			 units[i].unit);
		return text;
	}
	return duration_text(ns);
}

#define LEVEL_COLUMNS	46

static void draw_levels(struct canvas *canvas, const struct picture *picture)
{
	const struct wheel *wheel = &picture->now.wheel;

	draw_line(canvas, "%-10s%14s%20s", "level", "slot length", "slots in use");
	for (unsigned int i = 0; i < wheel->levels; i++) {
		uint64_t occupied = wheel->level[i].occupied, slots = wheel->level[i].slots;
		char used[80];

		snprintf(used, sizeof(used), "%s of %s", number_text(occupied).s,
			 number_text(slots).s);
		draw_line(canvas, "%-10u%14s%20s  %s", i,
			  length_text(slot_ns(&picture->info, i)).s, used,
			  bar(canvas, LEVEL_COLUMNS, occupied, slots).s);
	}
}

/* How many expirations were late by how much, in the time that is looked at. */
struct lateness {
	uint64_t nr[TWHEEL_LATENESS];
	uint64_t sum;
	int begin;		/* buckets with something in them */
	int end;
};

static uint64_t nr_late(const struct picture *picture, const struct picture_sample *sample, int i)
{
	return picture->whole ? sample->wheel.lateness[i] : sample->stats.lateness[i];
}

static struct lateness lateness_of(const struct picture *picture)
{
	struct lateness lateness = { .begin = TWHEEL_LATENESS };

	for (int i = 0; i < TWHEEL_LATENESS; i++) {
		uint64_t nr = nr_late(picture, &picture->now, i);

		if (has_past(picture))
			nr -= nr_late(picture, &picture->first, i);
		lateness.nr[i] = nr;
		lateness.sum += nr;
		if (nr && lateness.begin > i)
			lateness.begin = i;
		if (nr)
			lateness.end = i + 1;
	}
	return lateness;
}

/* The sum of buckets from @i on, of those that share a line. */
static uint64_t joined(const struct lateness *lateness, int i, int step)
{
	uint64_t nr = 0;

	for (int end = i + step; i < end && i < lateness->end; i++)
		nr += lateness->nr[i];
	return nr;
}

#define LATENESS_COLUMNS	46

static void draw_bucket(struct canvas *canvas, const struct lateness *lateness, int i, int step,
			uint64_t most)
{
	int last = i + step < lateness->end ? i + step - 1 : lateness->end - 1;
	uint64_t nr = joined(lateness, i, step);
	char label[64];

	if (last == TWHEEL_LATENESS - 1)
		snprintf(label, sizeof(label), "above");
	else
		snprintf(label, sizeof(label), "under %s",
			 duration_text(UINT64_C(1) << last).s);
	draw_line(canvas, "%-16s%7.2f%%%20s  %s", label, 100.0 * nr / lateness->sum,
		  number_text(nr).s, bar(canvas, LATENESS_COLUMNS, nr, most).s);
}

static void draw_lateness(struct canvas *canvas, const struct picture *picture)
{
	struct lateness lateness = lateness_of(picture);
	uint64_t most = 0;
	int step, rows;

	if (!lateness.sum) {
		draw_line(canvas, "lateness: nothing %s", picture->whole ?
			  "counted (see /sys/module/twheel/parameters/lateness)" : "has fired");
		return;
	}
	draw_line(canvas, "lateness of %s expirations%s", number_text(lateness.sum).s,
		  has_past(picture) ? " since the picture began" : "");
	rows = canvas->left > 0 ? canvas->left : 1;
	step = (lateness.end - lateness.begin + rows - 1) / rows;
	for (int i = lateness.begin; i < lateness.end; i += step) {
		if (joined(&lateness, i, step) > most)
			most = joined(&lateness, i, step);
	}
	for (int i = lateness.begin; i < lateness.end; i += step)
		draw_bucket(canvas, &lateness, i, step, most);
}

void picture_draw(const struct picture *picture, FILE *out, int width, int height,
		  const char *eol)
{
	struct canvas canvas = { .out = out, .width = width, .left = height, .eol = eol };

	draw_title(&canvas, picture);
	draw_content(&canvas, picture);
	draw_rates(&canvas, picture);
	draw_line(&canvas, "%s", "");
	if (picture->why)
		draw_line(&canvas, "the wheel is not shown: %s", picture->why);
	else
		draw_levels(&canvas, picture);
	draw_line(&canvas, "%s", "");
	draw_lateness(&canvas, picture);
}
