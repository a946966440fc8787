// SPDX-License-Identifier: GPL-2.0
/*
 * The picture of a wheel. From the top: status, title, contents, rates, levels; and of a
 * context, lateness. The histogram of lateness gets the lines that are left, and joins
 * neighbouring buckets until it fits.
 *
 * Each table has a label, two columns and a bar. On a narrow terminal the bars go first,
 * then the columns shrink. A number that does not fit loses its commas, then its last
 * digits in favour of a letter; it is never cut off.
 *
 * All bars of a table have the same scale. The smallest bar is one mark: a nonzero number
 * never looks like zero.
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

struct number_text number_text(uint64_t number, int room)
{
	static const char letters[] = "kMGTPE";
	const char *letter = letters;
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
	if (to - text.s <= room)
		return text;

	memcpy(text.s, digits, len + 1);
	if (len <= room)
		return text;
	for (; number >= 1000000; letter++)
		number /= 1000;
	if (snprintf(text.s, sizeof(text.s), "%ju%c", number / 1000, *letter) > room)
		strcpy(text.s, ">");
	return text;
}

/* Draws @len characters of @line. All that is written is ASCII: a byte is a column. */
static void draw(struct canvas *canvas, char *line, int len)
{
	if (canvas->left <= 0)
		return;
	while (len && line[len - 1] == ' ')
		len--;
	if (len > canvas->width) {
		for (len = canvas->width - 1; len && line[len - 1] != ' '; len--)
			;
		line[len++] = '>';
	}
	fprintf(canvas->out, "%.*s%s", len, line, canvas->eol);
	canvas->left--;
}

/* A row of a table. */
static void __printf(2, 3) draw_line(struct canvas *canvas, const char *format, ...)
{
	char line[LINE_MAX];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	draw(canvas, line, len < LINE_MAX ? len : LINE_MAX - 1);
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

/* The columns of a table, right-justified behind the label, and the start of the bar. */
struct table {
	int label;
	int first;
	int second;
	int bar;
};

#define BAR_COLUMN	46

static struct table table(const struct canvas *canvas, int label, int first)
{
	struct table table = { .label = label, .bar = BAR_COLUMN };
	int room = (canvas->width < BAR_COLUMN ? canvas->width : BAR_COLUMN - 2) - label;

	if (room < 2)
		room = 2;
	table.first = first < room / 2 ? first : room / 2;
	table.second = room - table.first;
	return table;
}

/* A bar of @part in @whole for the rest of a line. */
struct bar {
	char s[LINE_MAX];
};

static struct bar bar(const struct canvas *canvas, uint64_t part, uint64_t whole)
{
	int width = canvas->width - BAR_COLUMN;
	struct bar bar = { "" };
	int len;

	if (width > LINE_MAX - BAR_COLUMN - 1)
		width = LINE_MAX - BAR_COLUMN - 1;
	if (width <= 0 || !whole || !part)
		return bar;
	len = (double)part / whole * width + 0.5;
	if (len > width)
		len = width;
	memset(bar.s, '#', len ? len : 1);
	return bar;
}

static void draw_row(struct canvas *canvas, const struct table *table, const char *label,
		     const char *first, const char *second, struct bar bar)
{
	draw_line(canvas, "%-*s %*s %*s  %s", table->label, label, table->first - 1, first,
		  table->second - 1, second, bar.s);
}

/* A number with at least a blank before it. */
static struct number_text cell(uint64_t number, int column)
{
	return number_text(number, column - 1);
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
	int room = canvas->width;

	if (picture->whole)
		draw_text(canvas, "pending %s",
			  number_text(wheel->counter[WHEEL_PENDING], room).s);
	else
		draw_text(canvas, "live %s of %s, unread events %s%s",
			  number_text(stats->live, room).s,
			  number_text(picture->info.max_timeouts, room).s,
			  number_text(stats->ready, room).s,
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
	struct table columns = table(canvas, 10, 16);
	uint64_t most = 0;

	for (size_t i = 0; i < nr; i++) {
		if (rate_of(&counters[i], picture) > most)
			most = rate_of(&counters[i], picture);
	}
	draw_row(canvas, &columns, "", "per second", "in all", bar(canvas, 0, 0));
	for (size_t i = 0; i < nr; i++) {
		uint64_t rate = rate_of(&counters[i], picture);

		draw_row(canvas, &columns, counters[i].name,
			 has_past(picture) ? cell(rate, columns.first).s : "-",
			 cell(value_of(&counters[i], &picture->now), columns.second).s,
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

/* In whole days where there is no room for more. */
static struct duration_text length_text(uint64_t ns, int room)
{
	struct duration_text text = duration_text(ns);

	if (ns == UINT64_MAX)
		strcpy(text.s, "> 500 years");
	else if ((int)strlen(text.s) > room && ns >= 86400 * NSEC_PER_SEC)
		snprintf(text.s, sizeof(text.s), "%jud", ns / (86400 * NSEC_PER_SEC));
	if ((int)strlen(text.s) > room)
		strcpy(text.s, ">");
	return text;
}

/* The levels that most timeouts use; a higher one is drawn while it is in use. */
#define LEVELS_DRAWN	4

static void draw_levels(struct canvas *canvas, const struct picture *picture)
{
	const struct wheel *wheel = &picture->now.wheel;
	struct table columns = table(canvas, 10, 16);

	draw_row(canvas, &columns, "level", "slot length", "slots in use", bar(canvas, 0, 0));
	for (unsigned int i = 0; i < wheel->levels; i++) {
		uint64_t occupied = wheel->level[i].occupied, slots = wheel->level[i].slots;
		char level[16], used[80];

		if (i >= LEVELS_DRAWN && !occupied)
			continue;
		snprintf(level, sizeof(level), "%u", i);
		snprintf(used, sizeof(used), "%s of %s", cell(occupied, columns.second).s,
			 cell(slots, columns.second).s);
		if ((int)strlen(used) >= columns.second)
			snprintf(used, sizeof(used), "%s", cell(occupied, columns.second).s);
		draw_row(canvas, &columns, level,
			 length_text(slot_ns(&picture->info, i), columns.first - 1).s, used,
			 bar(canvas, occupied, slots));
	}
}

/* Histogram of lateness. */
struct lateness {
	uint64_t recent[TWHEEL_LATENESS];	/* in the interval */
	uint64_t all[TWHEEL_LATENESS];
	int begin;		/* buckets of @all that are not empty */
	int end;
};

static struct lateness lateness_of(const struct picture *picture)
{
	struct lateness lateness = { .begin = TWHEEL_LATENESS };

	for (int i = 0; i < TWHEEL_LATENESS; i++) {
		uint64_t nr = picture->now.stats.lateness[i];

		lateness.all[i] = nr;
		lateness.recent[i] = nr - picture->before.stats.lateness[i];
		if (nr && lateness.begin > i)
			lateness.begin = i;
		if (nr)
			lateness.end = i + 1;
	}
	return lateness;
}

/* The sum of @nr from bucket @i on, of those that share a line. */
static uint64_t joined(const uint64_t *nr, int i, int last)
{
	uint64_t sum = 0;

	while (i <= last)
		sum += nr[i++];
	return sum;
}

static void draw_lateness(struct canvas *canvas, const struct picture *picture)
{
	struct lateness lateness = lateness_of(picture);
	struct table columns = table(canvas, 16, 14);
	const uint64_t *drawn = has_past(picture) ? lateness.recent : lateness.all;
	int rows = canvas->left > 1 ? canvas->left - 1 : 1;
	int step = (lateness.end - lateness.begin + rows - 1) / rows;
	char label[64];
	uint64_t most = 0;

	if (lateness.begin >= lateness.end) {
		draw_text(canvas, "lateness: nothing has fired");
		return;
	}
	snprintf(label, sizeof(label), "last %s", has_past(picture) ?
		 duration_text(picture->now.ns - picture->before.ns).s : "interval");
	draw_row(canvas, &columns, "late by", label, "in all", bar(canvas, 0, 0));
	for (int pass = 0; pass < 2; pass++) {
		for (int i = lateness.begin; i < lateness.end; i += step) {
			int last = (i + step < lateness.end ? i + step : lateness.end) - 1;
			uint64_t nr = joined(drawn, i, last);

			if (!pass) {
				most = nr > most ? nr : most;
				continue;
			}
			if (last == TWHEEL_LATENESS - 1)
				strcpy(label, "more");
			else
				snprintf(label, sizeof(label), "under %s",
					 duration_text(UINT64_C(1) << last).s);
			draw_row(canvas, &columns, label, has_past(picture) ?
				 cell(joined(lateness.recent, i, last), columns.first).s : "-",
				 cell(joined(lateness.all, i, last), columns.second).s,
				 bar(canvas, nr, most));
		}
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
		 duration_text(interval).s, terminal ? "; Ctrl-C ends, Ctrl-Z suspends" : "");
}

void picture_draw(const struct picture *picture, FILE *out, int width, int height,
		  const char *eol)
{
	struct canvas canvas = { .out = out, .width = width, .left = height, .eol = eol };

	draw_text(&canvas, "%s", picture->status);
	draw_title(&canvas, picture);
	draw_content(&canvas, picture);
	draw_rates(&canvas, picture);
	draw_line(&canvas, "%s", "");
	if (picture->why)
		draw_text(&canvas, "the wheel is not shown: %s", picture->why);
	else
		draw_levels(&canvas, picture);
	if (picture->whole)
		return;
	draw_line(&canvas, "%s", "");
	draw_lateness(&canvas, picture);
}
