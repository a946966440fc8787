// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parser of a wheel's file in debugfs. They need no device.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

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

TEST(every_counter_is_found)
{
	struct wheel wheel = parsed(text);

	CHECK_EQ(wheel.counter[WHEEL_ARMED], 24690);
	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		CHECK(wheel_knows(&wheel, i));
		CHECK_EQ(wheel.counter[i], i ? 10 + i : 24690);
	}
}

TEST(every_level_is_found)
{
	struct wheel wheel = parsed(text);

	CHECK_EQ(wheel.levels, 3);
	CHECK_EQ(wheel.level[0].occupied, 97);
	CHECK_EQ(wheel.level[1].occupied, 0);
	CHECK_EQ(wheel.level[1].slots, 1024);
	CHECK_EQ(wheel.level[2].occupied, 3);
	CHECK_EQ(wheel.level[2].slots, 512);
}

TEST(what_an_engine_does_not_tell_is_not_known)
{
	struct wheel wheel = parsed("armed 5\nnovel 6\nlevel  occupied slots  of\n");

	CHECK(wheel_knows(&wheel, WHEEL_ARMED));
	CHECK(!wheel_knows(&wheel, WHEEL_FIRED));
	CHECK_EQ(wheel.levels, 0);
}

TEST(level_beyond_the_table_is_passed_over)
{
	struct wheel wheel = parsed("level  occupied slots  of\n12 1 1\n-1 1 1\n");

	CHECK_EQ(wheel.levels, 0);
}

static char directory[64];

static void make_directory(void)
{
	snprintf(directory, sizeof(directory), "/tmp/twheel-wheel.XXXXXX");
	CHECK(mkdtemp(directory));
}

static void make_file(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	CHECK(file);
	fputs(text, file);
	fclose(file);
}

static void remove_files(const char *const *names)
{
	char path[128];

	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", directory, *names);
		remove(path);
	}
	rmdir(directory);
}

TEST(name_follows_from_the_context)
{
	static const char *const files[] = {
		"dev.0", "dev-boottime.1", "dev-realtime.2", "dev-private.73", "conn.3", "dev.x",
		"dev.", "device.4", NULL
	};
	static const struct {
		struct twheel_info info;
		const char *name;
	} contexts[] = {
		{ { .clock = CLOCK_MONOTONIC }, "dev.0" },
		{ { .clock = CLOCK_BOOTTIME }, "dev-boottime.1" },
		{ { .clock = CLOCK_REALTIME }, "dev-realtime.2" },
		{ { .clock = CLOCK_BOOTTIME, .flags = TWHEEL_INFO_PRIVATE }, "dev-private.73" },
	};
	struct wheel wheel;

	make_directory();
	for (size_t i = 0; files[i]; i++)
		make_file(files[i]);
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		CHECK_EQ(wheel_read(&wheel, directory, &contexts[i].info), 0);
		CHECK(!strcmp(wheel.name, contexts[i].name));
		CHECK_EQ(wheel.counter[WHEEL_ARMED], 24690);
	}
	remove_files(files);
}

TEST(two_files_of_a_name_are_not_told_apart)
{
	static const char *const files[] = { "dev-private.1", "dev-private.2", NULL };
	static const struct twheel_info info = { .flags = TWHEEL_INFO_PRIVATE };
	struct wheel wheel;

	make_directory();
	make_file(files[0]);
	make_file(files[1]);
	CHECK_EQ(wheel_read(&wheel, directory, &info), -ENOTUNIQ);
	CHECK(!strlen(wheel.name));
	remove_files(files);
}

TEST(missing_directory_or_file_is_enoent)
{
	static const struct twheel_info info;
	static const char *const none[] = { NULL };
	struct wheel wheel;

	CHECK_EQ(wheel_read(&wheel, "/no/such/directory", &info), -ENOENT);
	make_directory();
	CHECK_EQ(wheel_read(&wheel, directory, &info), -ENOENT);
	remove_files(none);
}
