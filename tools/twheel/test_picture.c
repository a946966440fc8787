// SPDX-License-Identifier: GPL-2.0
/*
 * The picture of a wheel, drawn from made-up numbers. Needs no device.
 */
#define KTAP_NO_MAIN
#include <stdlib.h>

#include "duration.h"
#include "ktap.h"
#include "picture.h"

#define NOW	((12 * 60 + 34) * 60 + 56)	/* 12:34:56 */

static struct picture busy_wheel(void)
{
	struct picture picture = {
		.info = {
			.tick_ns = NSEC_PER_MSEC,
			.clock = CLOCK_MONOTONIC,
			.slots = 256,
			.levels = 11,
			.max_timeouts = 1048576,
			.live = 100000,
		},
		.whole = true,
		.before = { .ns = 9 * NSEC_PER_SEC },
		.now = { .ns = 11 * NSEC_PER_SEC },
	};
	struct wheel *before = &picture.before.wheel, *now = &picture.now.wheel;

	picture_set_status(&picture, NOW, 2 * NSEC_PER_SEC, true);
	before->counter[WHEEL_ARMED] = 1000000;
	before->counter[WHEEL_FIRED] = 300000;
	*now = (struct wheel) {
		.levels = 11,
		.occupied = { 97, 412, 33, 1 },
		.counter = {
			[WHEEL_ARMED] = 1024690,
			[WHEEL_CANCELLED] = 16000,
			[WHEEL_FIRED] = 308690,
			[WHEEL_CASCADED] = 500,
			[WHEEL_WAKEUPS] = 2,
			[WHEEL_PENDING] = 99988,
		},
	};
	for (size_t i = 0; i < now->levels; i++)
		now->slots[i] = 512;
	return picture;
}

static struct picture busy_context(void)
{
	struct picture picture = busy_wheel();
	struct twheel_stats *before = &picture.before.stats, *now = &picture.now.stats;

	picture.whole = false;
	*now = (struct twheel_stats) { .armed = 7, .live = 3, .looks = 2100, .kicks = 30 };
	for (int i = 12; i <= 21; i++)
		now->lateness[i] = (i - 11) * (i - 11) * 10;
	now->lateness[30] = 1;
	before->looks = 2100;
	before->kicks = 30;
	before->lateness[12] = 7;
	before->lateness[21] = 600;
	return picture;
}

static struct picture busy_pipe(void)
{
	struct picture picture = busy_wheel();

	picture_set_status(&picture, NOW, 2 * NSEC_PER_SEC, false);
	return picture;
}

/* The first picture has no sample before it. */
static struct picture first(struct picture picture)
{
	picture.before = picture.now;
	return picture;
}

static struct picture first_of_wheel(void)
{
	return first(busy_wheel());
}

static struct picture huge_wheel(void)
{
	struct picture picture = first_of_wheel();

	picture.now.wheel.counter[WHEEL_ARMED] = UINT64_MAX;
	for (unsigned int i = 4; i < picture.now.wheel.levels; i++)
		picture.now.wheel.occupied[i] = 1;
	return picture;
}

static struct picture first_of_context(void)
{
	return first(busy_context());
}

static struct picture stopped_context(void)
{
	struct picture picture = busy_context();

	picture.info.flags = TWHEEL_INFO_STOPPED;
	picture.why = "a reason";
	picture.now.stats.lateness[TWHEEL_LATENESS - 1] = 9;
	return picture;
}

static struct picture quiet_context(void)
{
	struct picture picture = busy_context();

	memset(picture.now.stats.lateness, 0, sizeof(picture.now.stats.lateness));
	picture.before.stats = picture.now.stats;
	return picture;
}

/* Lives until the next picture is drawn. */
static const char *drawn(const struct picture *picture, int width, int height)
{
	static char *text;
	size_t len;
	FILE *out;

	free(text);
	out = open_memstream(&text, &len);

	picture_draw(picture, out, width, height, "\n");
	fclose(out);
	CHECK_EQ(strlen(text), len);
	return text;
}

static int lines_of(const char *text)
{
	int nr = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		nr++;
	}
	return nr;
}

static size_t longest_line(const char *text)
{
	size_t longest = 0;

	while (*text) {
		size_t len = strcspn(text, "\n");

		if (len > longest)
			longest = len;
		text += len + 1;
	}
	return longest;
}

/* A text that begins with ! must not be there. */
static const struct drawing {
	const char *name;
	struct picture (*picture)(void);
	int width;
	int height;
	const char *texts[14];
} drawings[] = {
	{ "wheel, 80 by 23", busy_wheel, 80, 23, {
		"12:34:56, every 2s; q ends, Ctrl-Z suspends\n",
		"shared wheel, monotonic clock: tick 1ms, 256 slots, 11 levels\n",
		"pending 99,988\n",
		"               per second         in all\n",
		"armed              12,345      1,024,690  ####",
		"fired               4,345        308,690  ####",
		"wakeups                 1              2  #\n",
		"extended                0              0\n",
		"0                     1ms      97 of 512  ####",
		"2                 16.384s      33 of 512  ##\n",
		"3                  17m28s       1 of 512  #\n",
		"!late by",
		"!\n4  ",
	} },
	{ "context, 80 by 23", busy_context, 80, 23, {
		"context, monotonic clock: tick 1ms, 256 slots, 11 levels\n",
		"live 3 of 1,048,576, unread events 0\n",
		"armed                   4              7  ####",
		"looks                   0          2,100\n",
		"kicks                   0             30\n",
		"dropped                 0              0\n",
		"slots in use",
		"late by              last 2s      in all\n",
		"under 1.073s               1           1  #",
		"!\nmore",
	} },
	{ "context, 80 by 60", busy_context, 80, 60, {
		"under 1.048ms            810         810  ####",
		"under 2.097ms            400       1,000  ####",
	} },
	{ "wheel, 40 columns", busy_wheel, 40, 40, {
		"12:34:56, every 2s; q ends, Ctrl-Z\nsuspends\n",
		"shared wheel, monotonic clock: tick 1ms,\n256 slots, 11 levels\n",
		"armed              12,345      1,024,690\n",
		"3                  17m28s       1 of 512\n",
	} },
	{ "context, 40 columns", busy_context, 40, 40, {
		"late by              last 2s      in all\n",
	} },
	{ "pipe", busy_pipe, 80, 23, { "12:34:56, every 2s\n" } },
	{ "first of wheel", first_of_wheel, 80, 23, {
		"armed                   -      1,024,690\n",
	} },
	{ "first of context", first_of_context, 80, 30, {
		"late by            last time      in all\n",
		"under 1.073s               -           1  #\n",
	} },
	{ "huge numbers, all levels", huge_wheel, 80, 40, {
		"armed                   - 18,446,744,073,709,551,615\n",
		"4               18h38m28s       1 of 512  #\n",
		"6          3181d10h58m26s       1 of 512  #\n",
		"8             > 500 years       1 of 512  #\n",
	} },
	{ "stopped, 60 lines", stopped_context, 80, 60, {
		"unread events 0, stopped\n",
		"\nthe wheel is not shown: a reason\n",
		"\nmore  ",
		"!slots in use",
	} },
	{ "stopped, 22 lines", stopped_context, 80, 22, { "\nmore  " } },
	{ "quiet", quiet_context, 80, 23, { "lateness: nothing has fired\n" } },
};

TEST(picture_has_what_it_should)
{
	for_each_row(row, drawings) {
		struct picture picture = row->picture();
		const char *text = drawn(&picture, row->width, row->height);

		for (const char *const *wanted = row->texts; *wanted; wanted++) {
			bool absent = **wanted == '!';

			if (!strstr(text, *wanted + absent) != absent)
				ktap_fail("'%s' is %sin:\n%s", *wanted + absent,
					  absent ? "" : "not ", text);
		}
	}
}

static bool ends_in_word(const char *line, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - line) > len && end[-len - 1] == ' ' &&
	       !memcmp(end - len, word, len);
}

/* The whole number, or a mark that something was cut off. */
TEST(narrow_picture_has_no_part_of_a_number)
{
	static const char *const good[] = { "373,779", ">" };
	struct picture picture = busy_wheel();
	unsigned int seen = 0;

	picture.now.wheel.counter[WHEEL_ARMED] = 373779;
	picture.before = picture.now;
	for (int width = 6; width < 46; width++) {
		const char *line = strstr(drawn(&picture, width, 60), "\narmed");
		const char *end = line ? strchr(line + 1, '\n') : NULL;
		size_t i = 0;

		if (!end)
			continue;
		while (i < ARRAY_SIZE(good) && !ends_in_word(line, end, good[i]))
			i++;
		if (i == ARRAY_SIZE(good))
			ktap_fail("%d columns: %.*s", width, (int)(end - line), line);
		else
			seen |= 1 << i;
	}
	CHECK_EQ(seen, 0x3);
}

TEST(picture_fits_every_terminal)
{
	struct picture picture = busy_context();

	for (int width = 1; width < 300; width += 7) {
		for (int height = 1; height < 70; height += 3) {
			const char *text = drawn(&picture, width, height);

			CHECK(longest_line(text) <= (size_t)width);
			CHECK(lines_of(text) <= height);
		}
	}
}

TEST(picture_may_be_wider_than_any_terminal)
{
	struct picture picture = busy_context();

	CHECK(longest_line(drawn(&picture, 100000, 50)) < 2000);
}

TEST(largest_rate_fills_the_line)
{
	struct picture picture = busy_wheel();

	CHECK_EQ(longest_line(drawn(&picture, 80, 10)), 80);
}

/* "1,234" */
static unsigned long number_at(const char *text)
{
	unsigned long number = 0;

	for (; (*text >= '0' && *text <= '9') || *text == ','; text++) {
		if (*text != ',')
			number = 10 * number + *text - '0';
	}
	return number;
}

/* With any number of lines. */
TEST(joined_buckets_lose_nothing)
{
	struct picture picture = busy_context();

	for (int height = 21; height < 45; height++) {
		const char *text = drawn(&picture, 80, height);
		unsigned long recent = 0, all = 0;

		while ((text = strstr(text, "under "))) {
			text += 16 + strspn(text + 16, " ");
			recent += number_at(text);
			text += strcspn(text, " ");
			all += number_at(text + strspn(text, " "));
		}
		CHECK_EQ(recent, 3851 - 607);
		CHECK_EQ(all, 3851);
	}
}

int main(int argc, char **argv)
{
	setenv("TZ", "UTC0", 1);
	return ktap_main(argc, argv);
}
