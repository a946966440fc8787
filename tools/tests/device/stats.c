// SPDX-License-Identifier: GPL-2.0
/*
 * STATS: counters of all outcomes in a file. Also /proc/PID/fdinfo.
 */
#include "cells.h"

#define MS		NSEC_PER_MSEC

/* Of the file */

TEST(stats_at_bad_address_are_efault)
{
	struct twheel_stats *last = map_before(sizeof(*last), PROT_NONE);
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDONLY);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_STATS, bad[i].address), -EFAULT, bad[i].name);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_STATS, last), 0);
}

/* Differences of the counters between two calls, by name. */
struct expected {
	__s64 armed, moved, cancelled, withdrawn, ended, fired, looks, kicks, dropped,
	      unprocessed, read, live, ready;
};

static void check_difference(int fd, struct twheel_stats *before, struct expected expected)
{
	struct twheel_stats now = file_stats(fd);

	CHECK_EQ(now.armed - before->armed, expected.armed);
	CHECK_EQ(now.moved - before->moved, expected.moved);
	CHECK_EQ(now.cancelled - before->cancelled, expected.cancelled);
	CHECK_EQ(now.withdrawn - before->withdrawn, expected.withdrawn);
	CHECK_EQ(now.ended - before->ended, expected.ended);
	CHECK_EQ(now.fired - before->fired, expected.fired);
	CHECK_EQ(now.looks - before->looks, expected.looks);
	CHECK_EQ(now.kicks - before->kicks, expected.kicks);
	CHECK_EQ(now.dropped - before->dropped, expected.dropped);
	CHECK_EQ(now.unprocessed - before->unprocessed, expected.unprocessed);
	CHECK_EQ(now.read - before->read, expected.read);
	CHECK_EQ((__s64)now.live - before->live, expected.live);
	CHECK_EQ((__s64)now.ready - before->ready, expected.ready);
	*before = now;
}

#define DIFFERENCE(fd, before, ...)	\
	check_difference(fd, before, (struct expected) { __VA_ARGS__ })

/*
 * A look finds the cell moved, and the next look finds it due. An event does not end a cell. An
 * event that is withdrawn through the word counts as unread until a call meets it.
 */
TEST(counts_follow_every_operation_on_cells)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, 512);
	struct twheel_stats before = file_stats(fd);
	__u64 when = now_ns() + 100 * MS, id = arm_cell(fd, when, 0), other;
	struct twheel_event event;

	if (exchange(cells, id, when + HOUR) != when)
		ktap_skip("the machine is too slow");
	WAIT_FOR(file_stats(fd).looks > before.looks);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .live = 1);
	CHECK_EQ(cell_arm(fd, cells, id, when), 0);
	wait_ready(fd, 1);
	DIFFERENCE(fd, &before, .kicks = 1, .looks = 1, .fired = 1, .ready = 1);
	CHECK_EQ(read_cell_event(fd).expires_ns, when);
	DIFFERENCE(fd, &before, .read = 1, .ready = -1);
	CHECK_EQ(kick(fd, id), 0);
	DIFFERENCE(fd, &before, .kicks = 1);
	CHECK_EQ(mod_cell(fd, id, TWHEEL_CELL_IDLE, 0), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .moved = 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .ended = 1, .live = -1);
	CHECK_EQ(cancel(fd, arm_cell(fd, now_ns() + HOUR, 0)), 0);
	DIFFERENCE(fd, &before, .armed = 1, .cancelled = 1);
	CHECK_EQ(cancel(fd, create_fired_cell(fd, 0)), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .fired = 1, .withdrawn = 1);

	ktap_note("withdrawn through the word, and met by read(), KICK, MOD and CANCEL");
	id = create_fired_cell(fd, 0);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .fired = 1, .live = 1, .ready = 1);
	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .armed = 0);
	CHECK_EQ(read_events(fd, &event, 1), -EAGAIN);
	DIFFERENCE(fd, &before, .dropped = 1, .ready = -1);
	CHECK_EQ(cell_arm(fd, cells, id, 0), TWHEEL_IDLE);
	wait_ready(fd, 1);
	DIFFERENCE(fd, &before, .kicks = 1, .looks = 1, .fired = 1, .ready = 1);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + HOUR), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .kicks = 1, .dropped = 1, .ready = -1);
	other = create_fired_cell(fd, 0);
	CHECK_EQ(cell_cancel(cells, other), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .fired = 1, .live = 1, .ready = 1);
	CHECK_EQ(mod_cell(fd, other, now_ns(), 0), TWHEEL_IDLE);
	wait_ready(fd, 1);
	DIFFERENCE(fd, &before, .moved = 1, .dropped = 1, .looks = 1, .fired = 1);
	CHECK_EQ(cell_cancel(cells, other), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, other), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .ended = 1, .dropped = 1, .ready = -1, .live = -1);

	ktap_note("STOP ends cells that are idle, and makes events of the others");
	create_fired_cell(fd, 0);
	create_idle_cell(fd, 0);
	exchange(cells, arm_cell(fd, now_ns() + HOUR, 0), TWHEEL_CELL_IDLE);
	DIFFERENCE(fd, &before, .armed = 3, .looks = 1, .fired = 1, .live = 3, .ready = 1);
	CHECK_EQ(stop(fd), 0);
	DIFFERENCE(fd, &before, .ended = 2, .unprocessed = 1, .live = -2, .ready = 1);
	read_any_event(fd);
	read_any_event(fd);
	DIFFERENCE(fd, &before, .read = 2, .ended = 2, .live = -2, .ready = -2);
}

TEST(stats_do_not_depend_on_the_wheel)
{
	static const struct twheel_stats zero;
	int fd = device_open_setup(O_RDWR, (struct twheel_setup) { .slots = 512 });
	struct twheel_stats before = file_stats(fd);

	CHECK_EQ(memcmp(&before, &zero, sizeof(zero)), 0);
	arm_many(fd, 10, HOUR, HOUR, 0, NULL);
	DIFFERENCE(fd, &before, .armed = 10, .live = 10);
}

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

/* /proc */

/* The number after @label in a file. */
static __u64 number_in(const char *path, const char *label)
{
	char text[4096], *line;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	CHECK(file >= 0);
	len = read(file, text, sizeof(text) - 1);
	CHECK(len > 0);
	close(file);
	text[len] = 0;
	line = strstr(text, label);
	if (!line)
		ktap_fail("no %s in: %s", label, text);
	return strtoull(line + strlen(label), NULL, 10);
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
		{ "\ncells:\t", cells },
	};
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	for_each_row(row, rows)
		CHECK_EQ(number_in(path, row->name), row->value);
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
