// SPDX-License-Identifier: GPL-2.0
/*
 * The inserted leap second. CLOCK_REALTIME reads 00:00:00 until the kernel's next clock update
 * sets it back to 23:59:59; hrtimers know of the second beforehand. No timeout for midnight
 * fires before it has passed twice, whatever else the wheel does around the first midnight.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <sys/timerfd.h>
#include <sys/timex.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define DAY		(24 * HOUR)
#define AHEAD		(1500 * MS)	/* time from the start to the first midnight */
#define MIDNIGHT	7		/* cookie */
#define OTHER		8
#define NR_BURST	scaled(3000)

static const struct midnight_case {
	const char *name;
	bool cell;			/* the timeout for midnight is a cell */
	bool moved;			/* to midnight without a call, from a millisecond before */
	bool burst;			/* others, due a millisecond before, take until midnight */
	bool busy;			/* others are due at each moment around midnight */
} cases[] = {
	{ .name = "timeout" },
	{ .name = "timeout behind a burst", .burst = true },
	{ .name = "timeout in a busy wheel", .busy = true },
	{ .name = "cell", .cell = true },
	{ .name = "cell behind a burst", .cell = true, .burst = true },
	{ .name = "cell in a busy wheel", .cell = true, .busy = true },
	{ .name = "cell moved to midnight", .cell = true, .moved = true, .burst = true },
};

/* A leap second, with a file for each of the cases, and a timerfd as the last one. */
struct leap {
	__u64 begun;		/* CLOCK_MONOTONIC when the clock was set to @midnight - AHEAD */
	__u64 midnight;
	int fds[ARRAY_SIZE(cases) + 1];
	__u64 seen[ARRAY_SIZE(cases) + 1];	/* CLOCK_MONOTONIC at the event; 0: not yet */
};

/* Without an error the state of the clock is that of the leap second. */
static void set_leap_status(int status)
{
	struct timex timex = { .modes = ADJ_STATUS | ADJ_MAXERROR, .status = status };

	CHECK(adjtimex(&timex) >= 0);
}

static int leap_state(void)
{
	struct timex timex = { 0 };

	return adjtimex(&timex);
}

static void set_clock_before_midnight(struct leap *leap)
{
	set_leap_status(STA_PLL);
	leap->begun = now_ns();
	set_realtime(leap->midnight - AHEAD - realtime_base - leap->begun);
	set_leap_status(STA_PLL | STA_INS);
}

static void arm_burst(int fd, __u64 when)
{
	struct twheel_op ops[3000];

	for (__u32 i = 0; i < NR_BURST; i++)
		ops[i] = op_arm(when, TWHEEL_F_ABS, OTHER);
	submit(fd, ops, NR_BURST);
}

/* The burst comes first, as events of one tick come in the order of arming. */
static int open_case(const struct midnight_case *c, __u64 midnight)
{
	struct twheel_setup setup = setup_clock(CLOCK_REALTIME);
	int fd;

	setup.slots = 32;
	fd = device_open_setup(O_RDWR | O_NONBLOCK, setup);
	if (c->burst)
		arm_burst(fd, midnight - MS);
	if (c->moved) {
		struct twheel_cell *cells = map_cells(fd, NR_BURST + 1);
		__u64 id = arm_cell(fd, midnight - MS, MIDNIGHT);

		CHECK_EQ(exchange(cells, id, midnight), midnight - MS);
	} else if (c->cell) {
		arm_cell(fd, midnight, MIDNIGHT);
	} else {
		arm_at(fd, midnight, MIDNIGHT);
	}
	return fd;
}

static int open_timerfd(__u64 midnight)
{
	struct itimerspec spec = { .it_value.tv_sec = midnight / NSEC_PER_SEC };
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL), 0);
	return fd;
}

/* Let passes of the busy wheels begin at many moments around the first midnight. */
static void *keep_busy(void *arg)
{
	struct leap *leap = arg;

	while (now_ns() < leap->begun + AHEAD + 20 * MS) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			if (cases[i].busy)
				arm_at(leap->fds[i], clock_ns(CLOCK_REALTIME), OTHER);
		}
		sleep_ns(MS / 5);
	}
	return NULL;
}

/* Is an event for midnight in file @i? */
static bool is_midnight(struct leap *leap, size_t i)
{
	struct twheel_event event;
	__u64 count;

	if (i == ARRAY_SIZE(cases))
		return read(leap->fds[i], &count, sizeof(count)) == sizeof(count);
	while (read_events(leap->fds[i], &event, 1) == 1) {
		if (event.cookie == MIDNIGHT)
			return true;
	}
	return false;
}

static void watch(struct leap *leap)
{
	struct pollfd polls[ARRAY_SIZE(leap->fds)];
	size_t left = ARRAY_SIZE(polls);

	for (size_t i = 0; i < ARRAY_SIZE(polls); i++)
		polls[i] = (struct pollfd) { .fd = leap->fds[i], .events = POLLIN };
	while (left && now_ns() < leap->begun + AHEAD + NSEC_PER_SEC + time_limit_ns()) {
		CHECK(poll(polls, ARRAY_SIZE(polls), 1000) >= 0);
		for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
			if (polls[i].fd < 0 || !polls[i].revents || !is_midnight(leap, i))
				continue;
			leap->seen[i] = now_ns();
			polls[i].fd = -1;
			left--;
		}
	}
}

/* Returns false if the machine was too slow to insert the second. */
static bool insert_second(struct leap *leap)
{
	pthread_t busy;
	bool inserted;

	leap->midnight = (clock_ns(CLOCK_REALTIME) / DAY + 2) * DAY;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		leap->fds[i] = open_case(&cases[i], leap->midnight);
	leap->fds[ARRAY_SIZE(cases)] = open_timerfd(leap->midnight);
	set_clock_before_midnight(leap);
	CHECK_EQ(pthread_create(&busy, NULL, keep_busy, leap), 0);
	sleep_until(leap->begun + AHEAD - 200 * MS);
	inserted = leap_state() == TIME_INS && clock_ns(CLOCK_REALTIME) < leap->midnight;
	watch(leap);
	pthread_join(busy, NULL);
	set_leap_status(0);
	set_realtime(0);
	for (size_t i = 0; i < ARRAY_SIZE(leap->fds); i++)
		close(leap->fds[i]);
	return inserted;
}

static void check_not_early(const struct leap *leap, size_t i, const char *name)
{
	__u64 due = leap->begun + AHEAD + NSEC_PER_SEC;

	if (!leap->seen[i])
		ktap_fail("%s: never seen", name);
	if (leap->seen[i] < due)
		ktap_fail("%s: %llu us early", name, (due - leap->seen[i]) / 1000);
}

TEST(midnight_after_a_leap_second_is_not_early)
{
	int inserted = 0;

	skip_without_realtime();
	skip_without_cells();
	/* All use the same part of the wheel. */
	pin_to_one_cpu();
	for (int i = 0; i < 6 && inserted < 3; i++) {
		struct leap leap = { 0 };

		if (!insert_second(&leap))
			continue;
		inserted++;
		check_not_early(&leap, ARRAY_SIZE(cases), "timerfd");
		for (size_t n = 0; n < ARRAY_SIZE(cases); n++)
			check_not_early(&leap, n, cases[n].name);
	}
	if (!inserted)
		ktap_skip("the machine is too slow");
}
