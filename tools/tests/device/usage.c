// SPDX-License-Identifier: GPL-2.0
/*
 * INFO, STATS, fdinfo, sysfs and debugfs show how near the limits of a context, of its user and of
 * the module are, how many requests they have refused, and how late events come.
 */
#define _GNU_SOURCE
#include <grp.h>

#include "cells.h"
#include "group.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define USER		10000		/* users from here on have no other open file */
#define OTHER_USER	10001
#define ATTRIBUTES	"/sys/class/misc/twheel"
#define MANY_USERS	300		/* more than there is room for in a page */

static long timeouts_in_all(void)
{
	char text[32];

	read_file(ATTRIBUTES, "timeouts", text, sizeof(text));
	return atol(text);
}

/* A line of the table of users. */
struct line {
	unsigned int uid, files;
	long timeouts, wheel_bytes, user_refused, all_refused, wheel_refused;
};

/* Returns the number of lines; at most @max are stored. */
static size_t read_users(struct line *lines, size_t max)
{
	char text[65536], *begin = text, *end;
	size_t nr = 0;

	if (access("/sys/kernel/debug/twheel_users", F_OK))
		ktap_skip("debugfs is not mounted");
	read_file("/sys/kernel/debug", "twheel_users", text, sizeof(text));
	CHECK(*text && text[strlen(text) - 1] == '\n');
	for (; (end = strchr(begin, '\n')); begin = end + 1, nr++) {
		struct line line;
		int len = 0;

		CHECK(sscanf(begin, "%u %u %ld %ld %ld %ld %ld%n", &line.uid, &line.files,
			     &line.timeouts, &line.wheel_bytes, &line.user_refused,
			     &line.all_refused, &line.wheel_refused, &len) == 7);
		CHECK_EQ(begin + len - end, 0);
		if (nr < max)
			lines[nr] = line;
	}
	return nr;
}

static struct line find_user(uid_t uid)
{
	struct line lines[100];
	size_t nr = read_users(lines, ARRAY_SIZE(lines));

	for (size_t i = 0; i < nr && i < ARRAY_SIZE(lines); i++)
		if (lines[i].uid == uid)
			return lines[i];
	ktap_fail("no line of user %u", uid);
}

/* INFO of a file of @uid agrees with the line of that user. */
static struct line check_agree(int fd, uid_t uid)
{
	struct line line = find_user(uid);
	struct twheel_info i = info(fd);
	char number[16], uid_line[32], text[512];

	snprintf(number, sizeof(number), "%d", fd);
	snprintf(uid_line, sizeof(uid_line), "\nuid:\t%u\n", uid);
	read_file("/proc/self/fdinfo", number, text, sizeof(text));
	CHECK(strstr(text, uid_line));
	CHECK_EQ(i.user_timeouts, line.timeouts);
	CHECK_EQ(i.wheel_bytes, line.wheel_bytes);
	CHECK_EQ(i.user_refused, line.user_refused);
	CHECK_EQ(i.all_refused, line.all_refused);
	CHECK_EQ(i.wheel_refused, line.wheel_refused);
	return line;
}

/* Use of the limits */

static void check_usage(int fd, unsigned int files, long timeouts, long wheel_bytes)
{
	struct line line = check_agree(fd, USER);

	CHECK_EQ(line.files, files);
	CHECK_EQ(line.timeouts, timeouts);
	CHECK_EQ(line.wheel_bytes, wheel_bytes);
}

TEST(timeouts_of_a_user_follow_arm_and_close)
{
	long page = timeouts_per_page(), before = timeouts_in_all(), in_cells = 0;
	int a = device_open_for(USER), b = device_open_for(USER);
	int other = device_open_for(OTHER_USER);

	CHECK_EQ(info(a).max_user_timeouts, parameter("max_user_timeouts"));
	check_usage(b, 2, 0, 0);
	arm_many(a, page, HOUR, 0, 0, NULL);
	check_usage(b, 2, page, 0);
	arm(a, HOUR, 0);
	check_usage(b, 2, 2 * page, 0);
	arm(b, HOUR, 0);
	check_usage(b, 2, 3 * page, 0);
	if (info(b).op_flags & TWHEEL_F_CELL) {
		create_idle_cell(b, 0);
		in_cells = page;
	}
	CHECK_EQ(timeouts_in_all() - before, 3 * page + in_cells);
	arm(other, HOUR, 0);
	CHECK_EQ(timeouts_in_all() - before, 4 * page + in_cells);
	cancel_all(a);
	check_usage(b, 2, 3 * page + in_cells, 0);
	close(a);
	check_usage(b, 1, page + in_cells, 0);
	CHECK_EQ(check_agree(other, OTHER_USER).timeouts, page);
	close(b);
	CHECK_EQ(timeouts_in_all() - before, page);
}

TEST(bytes_of_wheels_follow_setup_and_close)
{
	const struct twheel_setup large = { .slots = 512 }, shared = { .slack_us = 1 };
	int fd = device_open_for(USER), a = device_open_for(USER), b = device_open_for(USER);
	long bytes;

	CHECK_EQ((__u32)info(fd).max_wheel_bytes, parameter("max_wheel_bytes"));
	CHECK_EQ(try_setup(fd, shared), 0);
	check_usage(fd, 3, 0, 0);
	CHECK_EQ(try_setup(a, large), 0);
	bytes = info(fd).wheel_bytes;
	CHECK(bytes >= (long)(large.slots * 2 * sizeof(void *)));
	CHECK_EQ(try_setup(a, large), -EBUSY);
	check_usage(fd, 3, 0, bytes);
	CHECK_EQ(try_setup(b, large), 0);
	check_usage(fd, 3, 0, 2 * bytes);
	close(a);
	check_usage(fd, 2, 0, bytes);
	close(b);
	check_usage(fd, 1, 0, 0);
}

/* Refusals */

static void arm_four(int fd)
{
	struct twheel_op ops[] = { op_arm(HOUR, 0, 0), op_arm(HOUR, 0, 0) };
	__u64 none;

	try_arm(fd, HOUR, 0, 0, &none);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[1].result, -EAGAIN);
}

/* The record of a cell takes the only page that the user can have. */
static void make_a_cell(int fd)
{
	struct twheel_op op = op_cell(TWHEEL_CELL_IDLE, 0);

	skip_without_cells();
	CHECK_EQ(operate(fd, &op), -EAGAIN);
}

static void set_up_twice(int fd)
{
	const struct twheel_setup setup = { .slots = 512 };

	CHECK_EQ(try_setup(fd, setup), -EAGAIN);
	CHECK_EQ(try_setup(fd, setup), -EAGAIN);
}

/* Calls of a user, and how many of them each limit refuses. */
static const struct refusal {
	const char *name;
	const char *parameter;	/* with the limit */
	__u32 limit;		/* its value; 0: as many as are in a page */
	void (*call)(int fd);
	int refused, user_refused, all_refused, wheel_refused;
} refusals[] = {
	{ "of the file", "max_timeouts", 1, arm_four, .refused = 3 },
	{ "of the user", "max_user_timeouts", 1, arm_four, .user_refused = 4 },
	{ "of all", "max_all_timeouts", 1, arm_four, .all_refused = 4 },
	{ "of wheels", "max_wheel_bytes", 1, set_up_twice, .wheel_refused = 2 },
	{ "of the user, for a cell", "max_user_timeouts", 0, make_a_cell, .user_refused = 1 },
};

static const struct refusal *tested;

static void cause_refusals(void)
{
	int fd = device_open_for(USER), own = device_open_for(USER);
	int other = device_open_for(OTHER_USER);
	struct line line;

	become_user(USER);
	tested->call(fd);
	line = check_agree(own, USER);
	CHECK_EQ(info(fd).refused, tested->refused);
	CHECK_EQ(line.user_refused, tested->user_refused);
	CHECK_EQ(line.all_refused, tested->all_refused);
	CHECK_EQ(line.wheel_refused, tested->wheel_refused);
	CHECK_EQ(info(own).refused, 0);
	line = check_agree(other, OTHER_USER);
	CHECK_EQ(info(other).refused, 0);
	CHECK_EQ(line.user_refused + line.all_refused + line.wheel_refused, 0);
}

TEST(refusal_is_counted_for_its_limit_and_user)
{
	for_each_row(row, refusals) {
		tested = row;
		with_parameter(row->parameter, row->limit ?: timeouts_per_page(), cause_refusals);
	}
}

/* sysfs and debugfs */

static const char *const attributes[] = { "version", "timeouts" };

TEST(attributes_are_for_the_group_alone)
{
	char path[64];
	struct stat stat_;

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		snprintf(path, sizeof(path), ATTRIBUTES "/%s", attributes[i]);
		CHECK_EQ(stat(path, &stat_), 0);
		CHECK_EQ(stat_.st_mode & 07777, 0440);
	}
	CHECK_EQ(setgroups(0, NULL), 0);
	CHECK_EQ(setgid(USER), 0);
	become_user(USER);
	set_capabilities(0);
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		snprintf(path, sizeof(path), ATTRIBUTES "/%s", attributes[i]);
		CHECK_EQ(open(path, O_RDONLY), -1);
		CHECK_EQ(errno, EACCES);
	}
}

TEST(version_is_that_of_the_module)
{
	char version[32], module[32];

	read_file(ATTRIBUTES, "version", version, sizeof(version));
	read_file("/sys/module/twheel_dev", "version", module, sizeof(module));
	CHECK(!strcmp(version, module));
}

TEST(users_are_all_listed)
{
	struct line lines[2 * MANY_USERS];
	size_t nr, found = 0;

	for (uid_t uid = USER; uid < USER + MANY_USERS; uid++)
		device_open_for(uid);
	nr = read_users(lines, ARRAY_SIZE(lines));
	CHECK(nr < ARRAY_SIZE(lines));
	for (size_t i = 0; i < nr; i++)
		found += lines[i].uid >= USER && lines[i].uid < USER + MANY_USERS &&
			 lines[i].files == 1;
	CHECK_EQ(found, MANY_USERS);
}

/* One context */

/* The number n with 2^(n - 1) <= @ns < 2^n. */
static unsigned int bucket_of(__u64 ns)
{
	unsigned int n = 0;

	while (n < TWHEEL_LATENESS - 1 && ns >> n)
		n++;
	return n;
}

TEST(lateness_is_counted_by_its_logarithm)
{
	static const __u64 lates[] = {
		0, 1000, MS, 70 * MS, NSEC_PER_SEC, 100 * NSEC_PER_SEC, HOUR, 1000 * HOUR,
	};
	__u64 expected[TWHEEL_LATENESS] = { 0 };
	int fd = device_open_setup(O_RDWR, setup_clock(CLOCK_REALTIME));

	for (size_t i = 0; i < ARRAY_SIZE(lates); i++) {
		struct twheel_event event;

		arm_at(fd, clock_ns(CLOCK_REALTIME) - lates[i], 0);
		event = read_event_on(CLOCK_REALTIME, fd);
		expected[bucket_of(event.fired_ns - event.expires_ns)]++;
	}
	CHECK_EQ(memcmp(file_stats(fd).lateness, expected, sizeof(expected)), 0);
}

static void check_fdinfo(int fd, __u64 cells)
{
	struct twheel_info i = info(fd);
	const struct {
		const char *name;
		__u64 value;
	} rows[] = {
		{ "\nclockid:\t", i.clock },
		{ "\ntick_ns:\t", i.tick_ns },
		{ "\nslots:\t", i.slots },
		{ "\nlevels:\t", i.levels },
		{ "\nmax_timeouts:\t", i.max_timeouts },
		{ "\nlive:\t", i.live },
		{ "\nready:\t", i.ready },
		{ "\nlive_cells:\t", cells },
	};
	char name[16], text[512], *line;

	snprintf(name, sizeof(name), "%d", fd);
	read_file("/proc/self/fdinfo", name, text, sizeof(text));
	for_each_row(row, rows) {
		line = strstr(text, row->name);
		CHECK(line);
		CHECK_EQ(strtoull(line + strlen(row->name), NULL, 10), row->value);
	}
}

/* Idle, armed and fired cells count, and those whose events are withdrawn. */
TEST(fdinfo_says_what_info_says)
{
	struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME, .tick_ns = 3 * MS,
		.slots = 64, .levels = 1, .max_timeouts = 12345,
	};
	int fd = device_open(O_RDWR);
	__u64 ids[3];

	check_fdinfo(device_open_setup(O_RDWR, setup), 0);
	check_fdinfo(fd, 0);
	arm(fd, HOUR, 0);
	arm_fired(fd, 0);
	check_fdinfo(fd, 0);
	skip_without_cells();
	ids[0] = create_idle_cell(fd, 0);
	ids[1] = arm_cell(fd, now_ns() + HOUR, 0);
	ids[2] = create_fired_cell(fd, 0);
	check_fdinfo(fd, 3);
	exchange(map_cells(fd, 512), ids[2], TWHEEL_CELL_IDLE);
	check_fdinfo(fd, 3);
	CHECK_EQ(cancel(fd, ids[2]), TWHEEL_IDLE);
	check_fdinfo(fd, 2);
	CHECK_EQ(stop(fd), 0);
	check_fdinfo(fd, 1);
}
