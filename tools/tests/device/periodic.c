// SPDX-License-Identifier: GPL-2.0
/*
 * Periodic timeouts. With a fixed rate, each deadline is a whole number of intervals after
 * the first one, and is counted in exactly one event. With a fixed delay, the next deadline
 * is an interval after the last read().
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "device.h"

#define MS		NSEC_PER_MSEC

/* The deadlines reported so far. */
struct series {
	__u64 id;
	__u64 first_ns;
	__u64 interval_ns;
	__u64 count;
};

static void add_event(struct series *series, const struct twheel_event *event)
{
	__u64 before = series->first_ns + series->count * series->interval_ns;

	CHECK_EQ(event->id, series->id);
	CHECK(event->count >= 1);
	CHECK(!(event->flags & ~TWHEEL_EV_LAST));
	series->count += event->count;
	CHECK_EQ(event->expires_ns, series->first_ns + (series->count - 1) * series->interval_ns);
	CHECK(event->fired_ns >= before);
	CHECK(event->expires_ns <= now_ns());
}

static struct series arm_series(int fd, __u64 delay_ns, __u64 interval_ns, __u32 repeat)
{
	struct series series = { .first_ns = now_ns() + delay_ns, .interval_ns = interval_ns };

	series.id = arm_op(fd, op_periodic(series.first_ns, interval_ns, repeat, TWHEEL_F_ABS, 7));
	return series;
}

/* Fixed rate */

/**
 * struct row - a periodic timeout
 * @name: its name
 * @delay_ns: from now to the first deadline
 * @interval_ns: its interval
 * @repeat: its number of deadlines; 0: no end
 * @pause_ns: time before each read
 * @reads: number of reads if it does not end
 */
static const struct row {
	const char *name;
	__s64 delay_ns;
	__u64 interval_ns;
	__u32 repeat;
	__u64 pause_ns;
	int reads;
} rows[] = {
	{ "each deadline", 5 * MS, 20 * MS, 0, 0, 6 },
	{ "missed deadlines", MS, MS, 0, 60 * MS, 3 },
	{ "an interval below the tick", 0, 1000, 0, 0, 20 },
	{ "the shortest interval", 0, 1, 0, 10 * MS, 5 },
	{ "a first deadline that is long past", -800 * (__s64)MS, 40 * MS, 0, 0, 3 },
	{ "one deadline", MS, MS, 1, 20 * MS, 0 },
	{ "four deadlines", MS, 10 * MS, 4, 0, 0 },
	{ "five deadlines in one event", MS, MS, 5, 50 * MS, 0 },
	{ "a hundred deadlines in some events", MS, MS, 100, 7 * MS, 0 },
};

/* Number of deadlines by @now. */
static __u64 due_by(const struct row *row, const struct series *series, __u64 now)
{
	__u64 due = (now - series->first_ns) / series->interval_ns + 1;

	if (now < series->first_ns)
		return 0;
	return row->repeat && due > row->repeat ? row->repeat : due;
}

/* GET tells what is left. If the event is unread, nothing remains of the time. */
static void check_left(int fd, const struct row *row, const struct series *series)
{
	__u64 next = series->first_ns + series->count * series->interval_ns;
	struct twheel_op state = get_state(fd, series->id);

	CHECK_EQ(state.interval_ns, row->interval_ns);
	CHECK_EQ(state.repeat, row->repeat ? row->repeat - series->count : 0);
	CHECK_EQ(state.cookie, 7);
	if (state.expires_ns)
		CHECK(now_ns() + state.expires_ns >= next);
	if (info(fd).ready)
		CHECK_EQ(get_state(fd, series->id).expires_ns, 0);
}

/* However many deadlines were missed, there is one event, whose count grows. */
static bool read_series_event(int fd, const struct row *row, struct series *series, __u64 *last)
{
	__u64 tick_ns = info(fd).tick_ns, before;
	struct twheel_event events[4];

	check_left(fd, row, series);
	wait_ready(fd, 1);
	sleep_ns(row->pause_ns);
	CHECK_EQ(info(fd).ready, 1);
	CHECK_EQ(info(fd).live, 1);
	check_left(fd, row, series);
	before = now_ns();
	CHECK_EQ(read_events(fd, events, ARRAY_SIZE(events)), 1);
	add_event(series, &events[0]);
	CHECK(series->count >= due_by(row, series, before));
	CHECK(series->count <= due_by(row, series, now_ns()));
	CHECK_EQ(events[0].cookie, 7);
	CHECK_EQ(events[0].flags, series->count == row->repeat ? TWHEEL_EV_LAST : 0);
	CHECK(events[0].fired_ns / tick_ns > *last / tick_ns);
	*last = events[0].fired_ns;
	return events[0].flags == TWHEEL_EV_LAST;
}

TEST(each_deadline_is_counted_once)
{
	for_each_row(row, rows) {
		int fd = device_open(O_RDWR | O_NONBLOCK), reads = 0;
		struct series series = arm_series(fd, row->delay_ns, row->interval_ns, row->repeat);
		__u64 last = 0;

		while (!read_series_event(fd, row, &series, &last)) {
			if (++reads == row->reads)
				break;
		}
		if (row->repeat) {
			CHECK_EQ(get(fd, series.id), -ENOENT);
			CHECK_EQ(info(fd).live, 0);
			sleep_ns(3 * row->interval_ns);
			check_no_event(fd);
		} else {
			CHECK(cancel(fd, series.id) >= 0);
		}
	}
}

/* Fixed delay */

TEST(fixed_delay_counts_from_the_read)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 first = now_ns(), last = first;
	__u64 id = arm_op(fd, op_periodic(first, 30 * MS, 5, TWHEEL_F_FIXED_DELAY | TWHEEL_F_ABS,
					  7));

	for (int i = 0; i < 5; i++) {
		struct twheel_event event;
		__u64 before;

		CHECK_EQ(get_state(fd, id).repeat, 5 - i);
		wait_ready(fd, 1);
		sleep_ns(i % 2 * 50 * MS);
		before = now_ns();
		event = read_any_event(fd);
		CHECK_EQ(event.count, 1);
		CHECK_EQ(event.flags, i == 4 ? TWHEEL_EV_LAST : 0);
		CHECK(event.expires_ns >= first);
		CHECK(event.expires_ns <= last);
		CHECK(event.fired_ns >= event.expires_ns);
		if (i < 4)
			CHECK(get_state(fd, id).expires_ns <= 30 * MS);
		first = before + 30 * MS;
		last = now_ns() + 30 * MS;
	}
	CHECK_EQ(get(fd, id), -ENOENT);
	sleep_ns(40 * MS);
	check_no_event(fd);
}

/* Races */
