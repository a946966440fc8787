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
	static const uint64_t occupied[] = { 97, 412, 33, 1 };
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
		now->level[i].slots = 512;
	for (size_t i = 0; i < ARRAY_SIZE(occupied); i++)
		now->level[i].occupied = occupied[i];
	return picture;
}

static struct picture busy_context(void)
{
	struct picture picture = busy_wheel();
	struct twheel_stats *before = &picture.before.stats, *now = &picture.now.stats;

	picture.whole = false;
	*now = (struct twheel_stats) { .armed = 7, .live = 3 };
	for (int i = 12; i <= 21; i++)
		now->lateness[i] = (i - 11) * (i - 11) * 10;
	now->lateness[30] = 1;
	before->lateness[12] = 7;
	before->lateness[21] = 600;
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

static void check_has(const char *text, const char *what)
{
	if (!strstr(text, what))
		ktap_fail("no '%s' in:\n%s", what, text);
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

static const struct {
	uint64_t number;
	int room;
	const char *text;
} numbers[] = {
	{ 0, 1, "0" },
	{ 999, 3, "999" },
	{ 1000, 5, "1,000" },
	{ 1000, 4, "1000" },
	{ 1000, 3, "1k" },
	{ 123456, 7, "123,456" },
	{ 373779, 6, "373779" },
	{ 373779, 5, "373k" },
	{ 373779, 4, "373k" },
	{ 373779, 3, ">" },
	{ 999999, 4, "999k" },
	{ 1000000, 4, "1M" },
	{ 12345678901, 4, "12G" },
	{ UINT64_MAX, 26, "18,446,744,073,709,551,615" },
	{ UINT64_MAX, 3, "18E" },
	{ 10, 1, ">" },
	{ 7, -1, ">" },
};

TEST(number_fits_its_room)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		CHECK_ROW(strcmp(number_text(numbers[i].number, numbers[i].room).s,
				 numbers[i].text), 0, numbers[i].text);
}

static bool ends_in_word(const char *line, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - line) > len && end[-len - 1] == ' ' &&
	       !memcmp(end - len, word, len);
}

/* The whole number, a shortened one that says so, or a mark that something was cut off. */
TEST(narrow_picture_has_no_part_of_a_number)
{
	static const char *const good[] = { "373,779", "373779", "373k", ">" };
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
	CHECK_EQ(seen, 0xf);
}

TEST(picture_of_40_columns_has_whole_numbers)
{
	struct picture picture = busy_wheel();
	const char *text;

	picture.now.wheel.counter[WHEEL_ARMED] = 373779;
	picture.before.wheel.counter[WHEEL_ARMED] = 0;
	text = drawn(&picture, 40, 40);
	check_has(text, "12:34:56, every 2s; Ctrl-C ends, Ctrl-Z\nsuspends\n");
	check_has(text, "shared wheel, monotonic clock: tick 1ms,\n256 slots, 11 levels\n");
	check_has(text, "armed             186,890        373,779\n");
	check_has(text, "3                  17m28s       1 of 512\n");
	picture.now.wheel.counter[WHEEL_ARMED] = UINT64_MAX;
	check_has(drawn(&picture, 40, 40), "  18E\n");
	picture = busy_context();
	text = drawn(&picture, 40, 40);
	check_has(text, "late by              last 2s      in all\n");
	check_has(text, "under 2.097ms          1,210       1,810\n");
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

TEST(picture_of_80_by_23_has_all_sections)
{
	struct picture picture = busy_wheel();
	const char *text = drawn(&picture, 80, 23);

	check_has(text, "12:34:56, every 2s; Ctrl-C ends, Ctrl-Z suspends\n");
	check_has(text, "shared wheel, monotonic clock: tick 1ms, 256 slots, 11 levels\n");
	check_has(text, "pending 99,988\n");
	check_has(text, "armed               12,345         1,024,690  ####");
	check_has(text, "fired                4,345           308,690  ####");
	check_has(text, "wakeups                  1                 2  #\n");
	check_has(text, "extended                 0                 0\n");
	check_has(text, "0                      1ms         97 of 512  ####");
	check_has(text, "2                  16.384s         33 of 512  ##\n");
	check_has(text, "3                   17m28s          1 of 512  #\n");
	CHECK(!strstr(text, "late by"));
	picture = busy_context();
	text = drawn(&picture, 80, 23);
	check_has(text, "late by                last 2s        in all\n");
	check_has(text, "under 1.073s");
	CHECK_EQ(lines_of(text), 23);
}

TEST(keys_are_shown_on_terminals_alone)
{
	struct picture picture = busy_wheel();

	picture_set_status(&picture, NOW, 2 * NSEC_PER_SEC, false);
	check_has(drawn(&picture, 80, 23), "12:34:56, every 2s\n");
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

TEST(last_bucket_has_no_limit)
{
	struct picture picture = busy_context();

	picture.now.stats.lateness[TWHEEL_LATENESS - 1] = 9;
	check_has(drawn(&picture, 80, 60), "more  ");
	check_has(drawn(&picture, 80, 22), "more  ");
}

TEST(first_picture_has_no_rates)
{
	struct picture picture = busy_wheel();
	const char *text;

	picture.before = picture.now;
	text = drawn(&picture, 80, 23);
	check_has(text, "armed                    -         1,024,690\n");
	picture = busy_context();
	picture.before = picture.now;
	text = drawn(&picture, 80, 30);
	check_has(text, "late by          last interval        in all\n");
	check_has(text, "under 1.073s                 -             1  #\n");
}

TEST(context_shows_its_own_counters)
{
	struct picture picture = busy_context();
	const char *text;

	picture.info.flags = TWHEEL_INFO_STOPPED;
	picture.now.stats.looks = 2100;
	picture.now.stats.kicks = 30;
	picture.before.stats.looks = 2100;
	picture.before.stats.kicks = 30;
	text = drawn(&picture, 80, 40);
	check_has(text, "context, monotonic clock");
	check_has(text, "looks                    0             2,100\n");
	check_has(text, "kicks                    0                30\n");
	check_has(text, "dropped                  0                 0\n");
	check_has(text, "live 3 of 1,048,576, unread events 0, stopped");
	check_has(text, "armed                    4                 7  ####");
	check_has(text, "under 1.048ms              810           810  ####");
	check_has(text, "slots in use");
}

TEST(what_is_not_known_is_not_drawn)
{
	struct picture picture = busy_context();
	const char *text;

	picture.why = "a reason";
	text = drawn(&picture, 80, 23);
	CHECK(!strstr(text, "slots in use"));
	check_has(text, "\nthe wheel is not shown: a reason\n");
}

TEST(quiet_context_says_why_there_is_no_lateness)
{
	struct picture picture = busy_context();

	memset(picture.now.stats.lateness, 0, sizeof(picture.now.stats.lateness));
	picture.before.stats = picture.now.stats;
	check_has(drawn(&picture, 80, 23), "lateness: nothing has fired");
}

TEST(levels_beyond_all_time_have_a_length)
{
	struct picture picture = busy_wheel();
	const char *text;

	for (unsigned int i = 4; i < picture.now.wheel.levels; i++)
		picture.now.wheel.level[i].occupied = 1;
	text = drawn(&picture, 80, 40);
	check_has(text, "5              49d17h2m47s");
	check_has(text, "6           3181d10h58m26s");
	check_has(text, "8              > 500 years");
	text = drawn(&picture, 36, 40);
	check_has(text, "6                 3181d ");
}

TEST(high_level_is_drawn_while_it_is_in_use)
{
	struct picture picture = busy_wheel();

	CHECK(!strstr(drawn(&picture, 80, 40), "\n4  "));
	picture.now.wheel.level[4].occupied = 1;
	check_has(drawn(&picture, 80, 40), "\n4  ");
}

int main(int argc, char **argv)
{
	setenv("TZ", "UTC0", 1);
	return ktap_main(argc, argv);
}
