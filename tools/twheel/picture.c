// SPDX-License-Identifier: GPL-2.0
/*
 * The picture of a wheel. From the top: status, title, contents, rates, levels; and of a
 * context, lateness. The histogram of lateness gets the lines that are left, and joins
 * neighbouring buckets until it fits.
 *
 * Each table has a label, two columns and a bar. Without the bar it has 40 columns. On a
 * narrower terminal, lines are cut off between words: no number is cut.
 *
 * All bars of a table have the same scale. The smallest bar is one mark: a nonzero number
 * never looks like zero.
 */
#include <stdarg.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "picture.h"

#define LINE_MAX	1024	/* wider than any terminal is used */
#define TABLE_WIDTH	40	/* without the bar */
#define LABEL		10
#define WIDE_LABEL	16	/* "under 549.755ms" */

struct canvas {
	FILE *out;
	int width;
	int left;		/* lines that may still be drawn */
	const char *eol;
};

/* A number with commas. */
struct number_text {
	char s[32];
};

static struct number_text number_text(uint64_t number)
{
	struct number_text text;
	char digits[24], *to = text.s;
	int len = snprintf(digits, sizeof(digits), "%ju", number);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

/* Draws @len characters of @line. All that is written is ASCII: a byte is a column. */
static void draw(struct canvas *canvas, const char *line, int len)
{
	const char *end = "";

	if (canvas->left <= 0)
		return;
	while (len > 0 && line[len - 1] == ' ')
		len--;
	if (len > canvas->width) {
		for (len = canvas->width - 1; len > 0 && line[len - 1] != ' '; len--)
			;
		end = ">";
	}
	fprintf(canvas->out, "%.*s%s%s", len, line, end, canvas->eol);
	canvas->left--;
}

/* A sentence, on as many lines as it needs. */
static void __printf(2, 3) draw_text(struct canvas *canvas, const char *format, ...)
{
	char text[LINE_MAX], *line = text;
	va_list args;
	int len;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	do {
		len = strlen(line);
		if (len > canvas->width) {
			for (len = canvas->width; len && line[len] != ' '; len--)
				;
			if (!len)
				len = strcspn(line, " ");
		}
		draw(canvas, line, len);
		line += len;
		line += strspn(line, " ");
	} while (*line);
}

/* A bar of @part in @whole for the rest of a line. */
struct bar {
	char s[LINE_MAX];
};

static struct bar bar(const struct canvas *canvas, uint64_t part, uint64_t whole)
{
	int width = canvas->width - TABLE_WIDTH - 2;
	struct bar bar = { "" };
	int len;

	if (width > LINE_MAX - TABLE_WIDTH - 3)
		width = LINE_MAX - TABLE_WIDTH - 3;
	if (width <= 0 || !whole || !part)
		return bar;
	len = (double)part / whole * width + 0.5;
	if (len > width)
		len = width;
	memset(bar.s, '#', len ? len : 1);
	return bar;
}

/* The columns are right-justified behind a label of @width. */
static void draw_row(struct canvas *canvas, int width, const char *label, const char *first,
		     const char *second, struct bar bar)
{
	int column = (TABLE_WIDTH - width) / 2, len;
	char line[LINE_MAX];

	len = snprintf(line, sizeof(line), "%-*s %*s %*s  %s", width, label, column - 1, first,
		       column - 1, second, bar.s);
	draw(canvas, line, len < LINE_MAX ? len : LINE_MAX - 1);
}

static void draw_title(struct canvas *canvas, const struct picture *picture)
{
	const struct twheel_info *info = &picture->info;

	draw_text(canvas, "%s, %s clock: tick %s, %u slots, %u level%s",
		  picture->whole ? "shared wheel" :
		  info->flags & TWHEEL_INFO_PRIVATE ? "context with a wheel of its own" : "context",
		  clock_name(info->clock), duration_text(info->tick_ns).s, info->slots,
		  info->levels, info->levels == 1 ? "" : "s");
}

static void draw_content(struct canvas *canvas, const struct picture *picture)
{
	const struct twheel_stats *stats = &picture->now.stats;
	const struct wheel *wheel = &picture->now.wheel;

	if (picture->whole)
		draw_text(canvas, "pending %s", number_text(wheel->counter[WHEEL_PENDING]).s);
	else
		draw_text(canvas, "live %s of %s, unread events %s%s",
			  number_text(stats->live).s,
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

static void draw_rates(struct canvas *canvas, const struct picture *picture)
{
	const struct counter *counters = picture->whole ? of_wheel : of_context;
	size_t nr = picture->whole ? ARRAY_SIZE(of_wheel) : ARRAY_SIZE(of_context);
	uint64_t most = 0;

	for (size_t i = 0; i < nr; i++) {
		if (rate_of(&counters[i], picture) > most)
			most = rate_of(&counters[i], picture);
	}
	draw_row(canvas, LABEL, "", "per second", "in all", bar(canvas, 0, 0));
	for (size_t i = 0; i < nr; i++) {
		uint64_t rate = rate_of(&counters[i], picture);

		draw_row(canvas, LABEL, counters[i].name,
			 has_past(picture) ? number_text(rate).s : "-",
			 number_text(value_of(&counters[i], &picture->now)).s,
			 bar(canvas, rate, most));
	}
}

/* A slot of a level above the first covers this number of slots of the level below. */
#define SLOTS_ABOVE	64

/* Saturates: the upper levels of a slow wheel reach beyond all time. */
static uint64_t slot_ns(const struct twheel_info *info, unsigned int level)
{
	uint64_t ns = info->tick_ns;

	for (unsigned int i = 0; i < level; i++) {
		if (__builtin_mul_overflow(ns, i ? SLOTS_ABOVE : info->slots, &ns))
			return UINT64_MAX;
	}
	return ns;
}

/* The levels that most timeouts use; a higher one is drawn while it is in use. */
#define LEVELS_DRAWN	4

static void draw_levels(struct canvas *canvas, const struct picture *picture)
{
	const struct wheel *wheel = &picture->now.wheel;

	draw_row(canvas, LABEL, "level", "slot length", "slots in use", bar(canvas, 0, 0));
	for (unsigned int i = 0; i < wheel->levels; i++) {
		uint64_t occupied = wheel->occupied[i], slots = wheel->slots[i];
		uint64_t ns = slot_ns(&picture->info, i);
		char level[16], used[80];

		if (i >= LEVELS_DRAWN && !occupied)
			continue;
		snprintf(level, sizeof(level), "%u", i);
		snprintf(used, sizeof(used), "%s of %s", number_text(occupied).s,
			 number_text(slots).s);
		draw_row(canvas, LABEL, level,
			 ns == UINT64_MAX ? "> 500 years" : duration_text(ns).s, used,
			 bar(canvas, occupied, slots));
	}
}

static void draw_lateness(struct canvas *canvas, const struct picture *picture)
{
	const __u64 *all = picture->now.stats.lateness, *before = picture->before.stats.lateness;
	struct {
		uint64_t recent;
		uint64_t all;
		uint64_t drawn;
	} rows[TWHEEL_LATENESS] = { 0 };
	int begin = 0, end = TWHEEL_LATENESS, room = canvas->left > 1 ? canvas->left - 1 : 1;
	uint64_t most = 0;
	char label[64];
	int step;

	while (end && !all[end - 1])
		end--;
	while (begin < end && !all[begin])
		begin++;
	if (begin == end) {
		draw_text(canvas, "lateness: nothing has fired");
		return;
	}
	step = (end - begin + room - 1) / room;
	for (int i = begin; i < end; i++) {
		__typeof__(rows[0]) *row = &rows[(i - begin) / step];

		row->all += all[i];
		row->recent += all[i] - before[i];
		row->drawn = has_past(picture) ? row->recent : row->all;
		most = row->drawn > most ? row->drawn : most;
	}
	snprintf(label, sizeof(label), "last %s", has_past(picture) ?
		 duration_text(picture->now.ns - picture->before.ns).s : "time");
	draw_row(canvas, WIDE_LABEL, "late by", label, "in all", bar(canvas, 0, 0));
	for (int i = 0; begin < end; i++, begin += step) {
		int last = (begin + step < end ? begin + step : end) - 1;

		if (last == TWHEEL_LATENESS - 1)
			strcpy(label, "more");
		else
			snprintf(label, sizeof(label), "under %s",
				 duration_text(UINT64_C(1) << last).s);
		draw_row(canvas, WIDE_LABEL, label,
			 has_past(picture) ? number_text(rows[i].recent).s : "-",
			 number_text(rows[i].all).s, bar(canvas, rows[i].drawn, most));
	}
}

void picture_set_status(struct picture *picture, time_t now, uint64_t interval, bool terminal)
{
	char *status = picture->status;
	struct tm tm;
	size_t len = 0;

	if (localtime_r(&now, &tm))
		len = strftime(status, sizeof(picture->status), "%H:%M:%S, ", &tm);
	snprintf(status + len, sizeof(picture->status) - len, "every %s%s",
		 duration_text(interval).s, terminal ? "; q ends, Ctrl-Z suspends" : "");
}

void picture_draw(const struct picture *picture, FILE *out, int width, int height,
		  const char *eol)
{
	struct canvas canvas = { .out = out, .width = width, .left = height, .eol = eol };

	draw_text(&canvas, "%s", picture->status);
	draw_title(&canvas, picture);
	draw_content(&canvas, picture);
	draw_rates(&canvas, picture);
	draw(&canvas, "", 0);
	if (picture->why)
		draw_text(&canvas, "the wheel is not shown: %s", picture->why);
	else
		draw_levels(&canvas, picture);
	if (picture->whole)
		return;
	draw(&canvas, "", 0);
	draw_lateness(&canvas, picture);
}
