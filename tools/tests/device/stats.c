// SPDX-License-Identifier: GPL-2.0
/*
 * STATS: counters of all outcomes in a file. Also the counters of its wheel in debugfs, and
 * /proc/PID/fdinfo.
 */
#include <pthread.h>

#include "cells.h"
#include "engine.h"

#define MS		NSEC_PER_MSEC

static int is_zero(const void *bytes, size_t size)
{
	const char *byte = bytes;

	while (size--) {
		if (*byte++)
			return 0;
	}
	return 1;
}

/* Of the file */

TEST(stats_of_a_new_file_are_zero)
{
	struct twheel_stats s = file_stats(device_open(O_RDWR));

	CHECK(is_zero(&s, sizeof(s)));
}

TEST(stats_on_read_only_descriptor_are_allowed)
{
	CHECK_EQ(file_stats(device_open(O_RDONLY)).armed, 0);
}

TEST(stats_at_bad_address_are_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_STATS, bad[i].address), -EFAULT, bad[i].name);
}

TEST(stats_write_no_byte_behind_their_structure)
{
	struct twheel_stats *s = map_before(sizeof(*s), PROT_NONE);

	CHECK_EQ(device_ioctl(device_open(O_RDWR), TWHEEL_IOC_STATS, s), 0);
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

TEST(counts_follow_every_operation)
{
	int fd = device_open(O_RDWR);
	struct twheel_stats before = file_stats(fd);
	__u64 a, b;

	a = arm(fd, HOUR, 0);
	DIFFERENCE(fd, &before, .armed = 1, .live = 1);
	CHECK_EQ(mod(fd, a, 2 * HOUR, 0), 0);
	DIFFERENCE(fd, &before, .moved = 1);
	CHECK_EQ(get(fd, a), 0);
	DIFFERENCE(fd, &before, .armed = 0);
	CHECK_EQ(cancel(fd, a), 0);
	DIFFERENCE(fd, &before, .cancelled = 1, .live = -1);
	b = arm_fired(fd, 0);
	DIFFERENCE(fd, &before, .armed = 1, .fired = 1, .live = 1, .ready = 1);
	CHECK_EQ(mod(fd, b, HOUR, 0), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .moved = 1, .ready = -1);
	CHECK_EQ(mod(fd, b, 0, 0), 0);
	wait_ready(fd, 1);
	DIFFERENCE(fd, &before, .moved = 1, .fired = 1, .ready = 1);
	CHECK_EQ(cancel(fd, b), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .withdrawn = 1, .live = -1, .ready = -1);
	arm_fired(fd, 0);
	read_event(fd);
	DIFFERENCE(fd, &before, .armed = 1, .fired = 1, .read = 1, .ended = 1);
}

TEST(counts_of_what_failed_stay)
{
	int fd = device_open_limited(O_RDWR, 1);
	__u64 id = arm(fd, HOUR, 0), none;
	struct twheel_stats before = file_stats(fd);
	struct twheel_op op = op_arm(HOUR, 0, 0);

	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
	CHECK_EQ(try_arm(fd, ~0ULL, 0, 0, &none), -EINVAL);
	CHECK_EQ(mod(fd, id, ~0ULL, 0), -EINVAL);
	CHECK_EQ(mod(fd, id + (1ULL << 32), 0, 0), -ENOENT);
	CHECK_EQ(cancel(fd, id + (1ULL << 32)), -ENOENT);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EAGAIN);
	DIFFERENCE(fd, &before, .armed = 0);
}

TEST(periodic_is_one_timeout_with_many_events)
{
	int fd = device_open(O_RDWR);
	struct twheel_stats before = file_stats(fd), s;
	__u64 events = 0;

	arm_op(fd, op_periodic(0, MS, 20, 0, 0));
	while (!(read_any_event(fd).flags & TWHEEL_EV_LAST))
		events++;
	events++;
	s = file_stats(fd);
	CHECK_EQ(s.armed - before.armed, 1);
	CHECK_EQ(s.ended - before.ended, 1);
	CHECK_EQ(s.fired - before.fired, events);
	CHECK_EQ(s.read - before.read, events);
	CHECK_EQ(s.live, 0);
}

/* A look finds the cell moved, and the next look finds it due. An event does not end a cell. */
TEST(looks_and_kicks_are_counted)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	struct twheel_stats before = file_stats(fd);
	__u64 when = now_ns() + 100 * MS, id = arm_cell(fd, when, 0);

	if (exchange(cells, id, when + HOUR) != when)
		ktap_skip("the machine is too slow");
	WAIT_FOR(file_stats(fd).looks > before.looks);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .live = 1);
	CHECK_EQ(cell_arm(fd, cells, id, when), 0);
	CHECK_EQ(read_cell_event(fd).expires_ns, when);
	DIFFERENCE(fd, &before, .kicks = 1, .looks = 1, .fired = 1, .read = 1);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + HOUR), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .kicks = 1);
	CHECK_EQ(kick(fd, id), 0);
	DIFFERENCE(fd, &before, .kicks = 1);
	CHECK_EQ(mod_cell(fd, id, TWHEEL_CELL_IDLE, 0), 0);
	DIFFERENCE(fd, &before, .moved = 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .ended = 1, .live = -1);
}

/*
 * An event that is withdrawn through the word counts as unread until read() or KICK meets
 * it.
 */
TEST(dropped_are_counted)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 id = fired_cell(fd, 0);
	struct twheel_stats before = file_stats(fd);
	struct twheel_event event;

	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .armed = 0);
	CHECK_EQ(read_events(fd, &event, 1), -EAGAIN);
	DIFFERENCE(fd, &before, .dropped = 1, .ready = -1);
	CHECK_EQ(cell_arm(fd, cells, id, 0), TWHEEL_IDLE);
	wait_ready(fd, 1);
	DIFFERENCE(fd, &before, .kicks = 1, .looks = 1, .fired = 1, .ready = 1);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + HOUR), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .kicks = 1, .dropped = 1, .ready = -1);
	CHECK_EQ(cancel(fd, id), 0);
	DIFFERENCE(fd, &before, .cancelled = 1, .live = -1);
}

TEST(end_of_a_cell_is_counted_by_its_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	struct twheel_stats before = file_stats(fd);

	CHECK_EQ(cancel(fd, arm_cell(fd, now_ns() + HOUR, 0)), 0);
	DIFFERENCE(fd, &before, .armed = 1, .cancelled = 1);
	CHECK_EQ(cancel(fd, idle_cell(fd, 0)), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .armed = 1, .ended = 1);
	CHECK_EQ(cancel(fd, fired_cell(fd, 0)), TWHEEL_WITHDRAWN);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .fired = 1, .withdrawn = 1);
	fired_cell(fd, 0);
	DIFFERENCE(fd, &before, .armed = 1, .looks = 1, .fired = 1, .live = 1, .ready = 1);
	arm_cell(fd, now_ns() + HOUR, 0);
	idle_cell(fd, 0);
	exchange(cells, arm_cell(fd, now_ns() + HOUR, 0), TWHEEL_CELL_IDLE);
	CHECK_EQ(stop(fd), 0);
	DIFFERENCE(fd, &before, .armed = 3, .ended = 2, .unprocessed = 1, .live = 1, .ready = 1);
	read_any_event(fd);
	read_any_event(fd);
	DIFFERENCE(fd, &before, .read = 2, .ended = 2, .live = -2, .ready = -2);
}

/* MOD and CANCEL, too, may meet a withdrawn event. */
TEST(events_that_calls_find_withdrawn_are_dropped)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 a = fired_cell(fd, 0), b = fired_cell(fd, 0);
	struct twheel_stats before = file_stats(fd);

	CHECK_EQ(cell_cancel(cells, a), TWHEEL_WITHDRAWN);
	CHECK_EQ(cell_cancel(cells, b), TWHEEL_WITHDRAWN);
	CHECK_EQ(mod_cell(fd, a, now_ns() + HOUR, 0), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .moved = 1, .dropped = 1, .ready = -1);
	CHECK_EQ(cancel(fd, b), TWHEEL_IDLE);
	DIFFERENCE(fd, &before, .ended = 1, .dropped = 1, .ready = -1, .live = -1);
}

TEST(unprocessed_are_counted)
{
	int fd = device_open(O_RDWR);
	struct twheel_stats before = file_stats(fd);

	arm_fired(fd, 0);
	arm_many(fd, 3, HOUR, 0, 0, NULL);
	CHECK_EQ(stop(fd), 0);
	DIFFERENCE(fd, &before, .armed = 4, .fired = 1, .unprocessed = 3, .live = 4, .ready = 4);
	for (int i = 0; i < 4; i++)
		read_any_event(fd);
	DIFFERENCE(fd, &before, .read = 4, .ended = 4, .live = -4, .ready = -4);
}

TEST(cancel_all_is_counted)
{
	struct twheel_cancel_all all = { 0 };
	int fd = device_open(O_RDWR);
	struct twheel_stats before;

	arm_many(fd, 5, HOUR, 0, 0, NULL);
	arm_fired(fd, 0);
	before = file_stats(fd);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	DIFFERENCE(fd, &before, .cancelled = 5, .withdrawn = 1, .live = -6, .ready = -1);
}

TEST(stats_of_another_file_stay)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR);
	struct twheel_stats before = file_stats(other);

	arm_fired(fd, 0);
	read_event(fd);
	DIFFERENCE(other, &before, .armed = 0);
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

/* Under load */

struct worker {
	pthread_t thread;
	int fd;
	int stop;
	__u64 armed;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct twheel_event events[8];
	__u64 ids[16];

	while (!PEEK(worker->stop)) {
		arm_many(worker->fd, 16, 0, 200 * NSEC_PER_USEC, 0, ids);
		worker->armed += 16;
		for (int i = 0; i < 16; i += 3)
			mod(worker->fd, ids[i], MS, 0);
		for (int i = 0; i < 16; i += 5)
			cancel(worker->fd, ids[i]);
		read_events(worker->fd, events, 8);
	}
	return NULL;
}

/* The counters never contradict each other, and all timeouts are accounted for at the end. */
TEST(stats_add_up_under_load)
{
	struct worker workers[3];
	struct twheel_cancel_all all = { 0 };
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 until = now_ns() + race_ns(600), armed = 0, last_read = 0;
	struct twheel_stats s;

	for (int i = 0; i < 3; i++) {
		workers[i] = (struct worker) { .fd = fd };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	while (now_ns() < until) {
		s = file_stats(fd);
		CHECK(s.ready <= s.live);
		CHECK(s.read >= last_read);
		last_read = s.read;
	}
	for (int i = 0; i < 3; i++) {
		SET(workers[i].stop, 1);
		pthread_join(workers[i].thread, NULL);
		armed += workers[i].armed;
	}
	CHECK_EQ(file_stats(fd).armed, armed);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	s = file_stats(fd);
	CHECK_EQ(s.armed, armed);
	CHECK_EQ(s.live, 0);
	CHECK_EQ(s.read, s.ended);
}

/* Counters of the wheel, for root in debugfs */

static int open_private(char *path, size_t size)
{
	int fd = device_open_setup(O_RDWR, (struct twheel_setup) { .slots = 512 });

	youngest_private_wheel(path, size);
	return fd;
}

TEST(stats_do_not_depend_on_the_wheel)
{
	char path[80];
	int fd = open_private(path, sizeof(path));
	struct twheel_stats s = file_stats(fd);

	CHECK(is_zero(&s, sizeof(s)));
	arm_many(fd, 10, HOUR, HOUR, 0, NULL);
	s = file_stats(fd);
	CHECK_EQ(s.armed, 10);
	CHECK_EQ(s.live, 10);
}

TEST(wheel_counts_follow_the_file)
{
	char path[80];
	int fd = open_private(path, sizeof(path));
	__u64 id = arm(fd, HOUR, 0);

	CHECK_EQ(mod(fd, id, 2 * HOUR, 0), 0);
	CHECK_EQ(wheel_counter(path, "armed"), 2);
	CHECK_EQ(wheel_counter(path, "rearmed"), 1);
	CHECK_EQ(wheel_counter(path, "cancelled"), 1);
	CHECK_EQ(wheel_counter(path, "pending"), 1);
	CHECK_EQ(cancel(fd, id), 0);
	arm_fired(fd, 0);
	CHECK_EQ(wheel_counter(path, "cancelled"), 2);
	CHECK_EQ(wheel_counter(path, "armed"), 3);
	CHECK_EQ(wheel_counter(path, "fired"), 1);
	CHECK_EQ(wheel_counter(path, "pending"), 0);
	CHECK(wheel_counter(path, "wakeups") >= 1);
}

TEST(wheel_counts_extensions)
{
	char path[80];
	int fd = open_private(path, sizeof(path));
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 when = now_ns() + 100 * MS, id = arm_cell(fd, when, 0);

	if (exchange(cells, id, when + HOUR) != when)
		ktap_skip("the machine is too slow");
	WAIT_FOR(wheel_counter(path, "extended") == 1);
	CHECK_EQ(wheel_counter(path, "armed"), 1);
}

/* A timeout that is due wakes the wheel once, and a cancelled one does not. */
TEST(wheel_wakeups_are_those_that_found_something)
{
	char path[80];
	int fd = open_private(path, sizeof(path));
	__u64 id = arm(fd, 20 * MS, 0);

	if (cancel(fd, id))
		ktap_skip("the machine is too slow");
	sleep_ns(40 * MS);
	CHECK_EQ(wheel_counter(path, "wakeups"), 0);
	arm_fired(fd, 0);
	CHECK_EQ(wheel_counter(path, "wakeups"), 1);
}

/* /proc */

/* Value of @name in fdinfo of the descriptor. */
static __u64 proc_says(int fd, const char *name)
{
	char path[64], text[1024], *line;
	ssize_t len;
	int file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	len = read(file, text, sizeof(text) - 1);
	CHECK(len > 0);
	close(file);
	text[len] = 0;
	line = strstr(text, name);
	if (!line)
		ktap_fail("no %s in: %s", name, text);
	return strtoull(line + strlen(name), NULL, 10);
}

static void check_fdinfo(int fd)
{
	struct twheel_info i = info(fd);

	CHECK_EQ(proc_says(fd, "\nclockid:\t"), i.clock);
	CHECK_EQ(proc_says(fd, "\ntick_ns:\t"), i.tick_ns);
	CHECK_EQ(proc_says(fd, "\nslots:\t"), i.slots);
	CHECK_EQ(proc_says(fd, "\nlevels:\t"), i.levels);
	CHECK_EQ(proc_says(fd, "\nmax_timeouts:\t"), i.max_timeouts);
	CHECK_EQ(proc_says(fd, "\nlive:\t"), i.live);
	CHECK_EQ(proc_says(fd, "\nready:\t"), i.ready);
}

TEST(fdinfo_says_what_info_says)
{
	struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME, .tick_ns = 3 * MS,
		.slots = 64, .levels = 1, .max_timeouts = 12345,
	};
	int fd = device_open(O_RDWR), other = device_open_setup(O_RDWR, setup);

	check_fdinfo(fd);
	arm(fd, HOUR, 0);
	arm_fired(fd, 0);
	CHECK_EQ(proc_says(fd, "\nlive:\t"), 2);
	CHECK_EQ(proc_says(fd, "\nready:\t"), 1);
	check_fdinfo(fd);
	check_fdinfo(other);
	CHECK_EQ(proc_says(other, "\nclockid:\t"), CLOCK_BOOTTIME);
	CHECK_EQ(proc_says(other, "\nmax_timeouts:\t"), 12345);
}

static void check_proc_cells(int fd, __u64 cells)
{
	CHECK_EQ(proc_says(fd, "\ncells:\t"), cells);
}

/* Idle, armed and fired cells count, and those whose events are withdrawn. */
TEST(fdinfo_counts_the_cells)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 ids[100], fired;

	check_proc_cells(fd, 0);
	arm(fd, HOUR, 0);
	arm_fired(fd, 0);
	check_proc_cells(fd, 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = i % 4 ? arm_cell(fd, now_ns() + HOUR, 0) : idle_cell(fd, 0);
	check_proc_cells(fd, 100);
	exchange(cells, ids[0], now_ns() + HOUR);
	check_proc_cells(fd, 100);
	exchange(cells, ids[1], TWHEEL_CELL_IDLE);
	exchange(cells, ids[2], TWHEEL_CELL_IDLE);
	check_proc_cells(fd, 100);
	fired = fired_cell(fd, 0);
	check_proc_cells(fd, 101);
	CHECK_EQ(cancel(fd, fired), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, ids[1]), TWHEEL_IDLE);
	CHECK_EQ(cancel(fd, ids[3]), 0);
	check_proc_cells(fd, 98);
	CHECK_EQ(stop(fd), 0);
	check_proc_cells(fd, 73);
	CHECK_EQ(proc_says(fd, "\nready:\t"), 75);
}
