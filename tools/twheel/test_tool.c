// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parts of the tool that need no device: durations, the agenda of a load, and the
 * parser of a wheel's file in debugfs.
 */
#include <errno.h>
#include <stdlib.h>

#include "agenda.h"
#include "cli.h"
#include "duration.h"
#include "ktap.h"
#include "wheel.h"

/* Durations */

#define LONG		"292 years"
#define FINER		"finer"
#define NUMBER		"expected a number"
#define UNIT		"unit must be"
#define ORDER		"largest unit"
#define DECIMALS	"decimals"

static const struct {
	const char *name;
	const char *why;
	uint64_t ns;
} durations[] = {
	{ "0", NULL, 0 },
	{ "0s", NULL, 0 },
	{ "0.0ms", NULL, 0 },
	{ "1ns", NULL, 1 },
	{ "1us", NULL, 1000 },
	{ "1ms", NULL, 1000000 },
	{ "1s", NULL, NSEC_PER_SEC },
	{ "1m", NULL, 60 * NSEC_PER_SEC },
	{ "1h", NULL, 3600 * NSEC_PER_SEC },
	{ "1d", NULL, 86400 * NSEC_PER_SEC },
	{ "1.5s", NULL, 1500000000 },
	{ "0.25us", NULL, 250 },
	{ "007s", NULL, 7 * NSEC_PER_SEC },
	{ "1.000000001s", NULL, 1000000001 },
	{ "0.123456789s", NULL, 123456789 },
	{ "0.5d", NULL, 43200 * NSEC_PER_SEC },
	{ "0.00000000005h", NULL, 180 },
	{ "1.50000000000000000000000000000000s", NULL, 1500000000 },
	{ "9223372036854775807ns", NULL, INT64_MAX },
	{ "9223372036.854775807s", NULL, INT64_MAX },
	{ "9223372036854775808ns", LONG, 0 },
	{ "9223372036.854775808s", LONG, 0 },
	{ "18446744073709551616ns", LONG, 0 },
	{ "18446744073709551617s", LONG, 0 },
	{ "99999999999999999999999999d", LONG, 0 },
	{ "106752d", LONG, 0 },
	{ "0.5ns", FINER, 0 },
	{ "1.0000000001s", FINER, 0 },
	{ "0.00000000000000000000000001d", FINER, 0 },
	{ "", NUMBER, 0 },
	{ "s", NUMBER, 0 },
	{ "1", NULL, NSEC_PER_SEC },
	{ "0.25", NULL, 250000000 },
	{ "0.0", NULL, 0 },
	{ "00", NULL, 0 },
	{ ".5s", NUMBER, 0 },
	{ "1.s", NUMBER, 0 },
	{ "1..5s", NUMBER, 0 },
	{ "1,5s", UNIT, 0 },
	{ "1e3s", UNIT, 0 },
	{ "0x10s", UNIT, 0 },
	{ "-1s", NUMBER, 0 },
	{ "+1s", NUMBER, 0 },
	{ " 1s", NUMBER, 0 },
	{ "1 s", UNIT, 0 },
	{ "1s ", UNIT, 0 },
	{ "1S", UNIT, 0 },
	{ "1sec", UNIT, 0 },
	{ "1h30m", NULL, 5400 * NSEC_PER_SEC },
	{ "1d2h3m4s5ms6us7ns", NULL, 93784 * NSEC_PER_SEC + 5006007 },
	{ "1m0.5s", NULL, 60500000000 },
	{ "0h0m", NULL, 0 },
	{ "9223372036s854775807ns", NULL, INT64_MAX },
	{ "9223372036s854775808ns", LONG, 0 },
	{ "1h30", UNIT, 0 },
	{ "30m1h", ORDER, 0 },
	{ "1h1h", ORDER, 0 },
	{ "1.5h30m", DECIMALS, 0 },
	{ "1h 30m", UNIT, 0 },
	{ "1h-30m", UNIT, 0 },
};

TEST(duration_is_exact_or_refused)
{
	uint64_t ns;

	for_each_row(row, durations) {
		const char *why = duration_parse(row->name, &ns);

		CHECK(!why == !row->why);
		if (why)
			CHECK(strstr(why, row->why));
		else
			CHECK_EQ(ns, row->ns);
	}
}

static const struct {
	uint64_t ns;
	const char *text;
} texts[] = {
	{ 0, "0s" },
	{ 1, "1ns" },
	{ 999, "999ns" },
	{ 1000, "1us" },
	{ 1001, "1.001us" },
	{ 1500000, "1.5ms" },
	{ 100000000, "100ms" },
	{ 999999999, "999.999ms" },
	{ NSEC_PER_SEC, "1s" },
	{ 59999999999, "59.999s" },
	{ 60 * NSEC_PER_SEC, "1m" },
	{ 5400 * NSEC_PER_SEC + 999999999, "1h30m" },
	{ 90061 * NSEC_PER_SEC, "1d1h1m1s" },
	{ UINT64_MAX, "213503d23h34m33s" },
};

TEST(duration_text_suits_the_size)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_ROW(strcmp(duration_text(texts[i].ns).s, texts[i].text), 0, texts[i].text);
}

TEST(duration_text_is_read_again)
{
	uint64_t ns;

	for (uint64_t then = 1; then < DURATION_MAX / 3; then *= 3) {
		CHECK(!duration_parse(duration_text(then).s, &ns));
		CHECK(ns <= then && then - ns <= then / 60);
	}
}

/* The agenda of a load */

#define NR	10000

static struct agenda_entry heap[NR];

static uint64_t random_below(uint64_t bound)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (state >> 16) % bound;
}

TEST(agenda_gives_back_in_order_of_time)
{
	static uint64_t when[NR];
	struct agenda agenda = { .heap = heap };
	uint64_t last = 0;
	uint32_t what;

	for (uint32_t i = 0; i < NR; i++) {
		when[i] = 1 + random_below(NR / 2);
		agenda_add(&agenda, when[i], i);
	}
	for (uint32_t i = 0; i < NR; i++) {
		CHECK(agenda_take(&agenda, UINT64_MAX, &what));
		CHECK(when[what] >= last && when[what]);
		last = when[what];
		when[what] = 0;
	}
	CHECK(!agenda_take(&agenda, UINT64_MAX, &what));
}

TEST(agenda_keeps_what_is_not_due)
{
	struct agenda agenda = { .heap = heap };
	uint32_t what = 0;

	CHECK(agenda_next(&agenda) == UINT64_MAX);
	agenda_add(&agenda, 20, 2);
	agenda_add(&agenda, 10, 1);
	CHECK_EQ(agenda_next(&agenda), 10);
	CHECK(!agenda_take(&agenda, 9, &what));
	CHECK(agenda_take(&agenda, 10, &what));
	CHECK_EQ(what, 1);
	CHECK(!agenda_take(&agenda, 19, &what));
	CHECK(agenda_take(&agenda, 30, &what));
	CHECK_EQ(what, 2);
}

/* A wheel in debugfs */

/* As twheel.c writes it. */
static const char text[] =
	"clock          monotonic\n"
	"tick_ns        1000000\n"
	"armed          24690\n"
	"rearmed        11\n"
	"cancelled      12\n"
	"fired          13\n"
	"stopped        14\n"
	"pending        15\n"
	"extended       16\n"
	"cascaded       17\n"
	"wakeups        18\n"
	"\n"
	"level  occupied slots  of\n"
	"    0              97  1024\n"
	"    1               0  1024\n"
	"    2               3  512\n";

static struct wheel parsed(const char *from)
{
	FILE *file = fmemopen((char *)from, strlen(from), "r");
	struct wheel wheel = { 0 };

	CHECK(file);
	CHECK_EQ(wheel_parse(&wheel, file), 0);
	fclose(file);
	return wheel;
}

TEST(every_counter_and_level_is_found)
{
	static const uint64_t occupied[] = { 97, 0, 3 }, slots[] = { 1024, 1024, 512 };
	struct wheel wheel = parsed(text);

	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		CHECK(wheel_knows(&wheel, i));
		CHECK_EQ(wheel.counter[i], i ? 10 + i : 24690);
	}
	CHECK_EQ(wheel.levels, ARRAY_SIZE(slots));
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		CHECK_EQ(wheel.occupied[i], occupied[i]);
		CHECK_EQ(wheel.slots[i], slots[i]);
	}
}

TEST(what_an_engine_does_not_tell_is_not_known)
{
	struct wheel wheel = parsed("armed 5\nnovel 6\nlevel  occupied slots\n12 1 1\n-1 1 1\n");

	CHECK(wheel_knows(&wheel, WHEEL_ARMED));
	CHECK(!wheel_knows(&wheel, WHEEL_FIRED));
	CHECK_EQ(wheel.levels, 0);
}

/* @found: the file that is read, NULL after a failure. */
static const struct {
	const char *name;
	const char *files;
	struct twheel_info info;
	int error;
	const char *found;
} directories[] = {
	{ "monotonic", "dev.0 dev-boottime.1 dev-private.2 dev.x dev. device.4 conn.3",
	  { .clock = CLOCK_MONOTONIC }, 0, "dev.0" },
	{ "boottime", "dev.0 dev-boottime.1", { .clock = CLOCK_BOOTTIME }, 0, "dev-boottime.1" },
	{ "realtime", "dev.0 dev-realtime.2", { .clock = CLOCK_REALTIME }, 0, "dev-realtime.2" },
	{ "private", "dev-boottime.1 dev-private.73",
	  { .clock = CLOCK_BOOTTIME, .flags = TWHEEL_INFO_PRIVATE }, 0, "dev-private.73" },
	{ "two private wheels", "dev-private.1 dev-private.2",
	  { .flags = TWHEEL_INFO_PRIVATE }, -ENOTUNIQ, "" },
	{ "no file of that name", "dev-boottime.1", { .clock = CLOCK_MONOTONIC }, -ENOENT, "" },
};

/* Make the files with these names, or remove them. */
static void set_files(const char *directory, const char *names, bool present)
{
	char path[128], name[32];
	FILE *file;
	int len;

	for (; sscanf(names, "%31s%n", name, &len) == 1; names += len) {
		snprintf(path, sizeof(path), "%s/%s", directory, name);
		remove(path);
		if (!present)
			continue;
		file = fopen(path, "w");
		CHECK(file);
		fputs(text, file);
		fclose(file);
	}
}

TEST(file_follows_from_the_context)
{
	struct wheel wheel;

	for_each_row(row, directories) {
		char directory[] = "/tmp/twheel-wheel.XXXXXX";

		CHECK(mkdtemp(directory));
		set_files(directory, row->files, true);
		CHECK_EQ(wheel_read(&wheel, directory, &row->info), row->error);
		CHECK(!strcmp(wheel.name, row->found));
		CHECK_EQ(wheel.counter[WHEEL_ARMED], row->error ? 0 : 24690);
		set_files(directory, row->files, false);
		CHECK_EQ(rmdir(directory), 0);
	}
	CHECK_EQ(wheel_read(&wheel, "/no/such/directory", &(struct twheel_info) { 0 }), -ENOENT);
}
