// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parser of a wheel's file in debugfs. They need no device.
 */
#include <errno.h>
#include <stdlib.h>

#include "ktap.h"
#include "wheel.h"

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
