// SPDX-License-Identifier: GPL-2.0
/*
 * Periodic timeouts. With a fixed rate, each deadline is a whole number of intervals after
 * the first one, and is counted in exactly one event. With a fixed delay, the next deadline
 * is an interval after the last read().
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "epoll_set.h"
#include "memory.h"

#define MS		NSEC_PER_MSEC

/* The deadlines reported so far. */
struct series {
	__u64 id;
	__u64 first_ns;
	__u64 interval_ns;
	__u64 count;
};

static void follow(struct series *series, const struct twheel_event *event)
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

static struct twheel_event read_next(int fd, struct series *series)
{
	struct twheel_event event = read_any_event(fd);

	follow(series, &event);
	return event;
}

static struct series arm_series(int fd, __u64 delay_ns, __u64 interval_ns, __u32 repeat)
{
	struct series series = { .first_ns = now_ns() + delay_ns, .interval_ns = interval_ns };

	series.id = arm_op(fd, op_periodic(series.first_ns, interval_ns, repeat, TWHEEL_F_ABS, 7));
	return series;
}

/* Fixed rate */

TEST(periodic_fires_at_every_deadline)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, 5 * MS, 20 * MS, 0);

	for (int i = 0; i < 6; i++) {
		__u64 next = series.first_ns + series.count * series.interval_ns;
		struct twheel_event event = read_next(fd, &series);

		CHECK(now_ns() >= next);
		CHECK_EQ(event.flags, 0);
		CHECK_EQ(event.cookie, 7);
	}
	CHECK_EQ(info(fd).live, 1);
}

TEST(relative_periodic_keeps_the_phase_of_the_call)
{
	struct series series = { .interval_ns = 10 * MS, .count = 0 };
	int fd = device_open(O_RDWR);
	__u64 before = now_ns(), after;
	struct twheel_event event;

	series.id = arm_op(fd, op_periodic(30 * MS, 10 * MS, 0, 0, 0));
	after = now_ns();
	event = read_any_event(fd);
	series.first_ns = event.expires_ns - (event.count - 1) * 10 * MS;
	CHECK(series.first_ns >= before + 30 * MS);
	CHECK(series.first_ns <= after + 30 * MS);
	series.count = event.count;
	for (int i = 0; i < 5; i++)
		read_next(fd, &series);
}

TEST(missed_periods_are_counted)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, MS, MS, 0);
	__u64 before, after;

	for (int i = 0; i < 3; i++) {
		sleep_ns(60 * MS);
		before = now_ns();
		read_next(fd, &series);
		after = now_ns();
		CHECK(series.count >= (before - series.first_ns) / MS + 1);
		CHECK(series.count <= (after - series.first_ns) / MS + 1);
	}
}

/* With any interval, there is one event whose count grows. */
TEST(nothing_is_queued_while_unread)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, 0, 1, 0);
	struct twheel_event events[4];

	wait_ready(fd, 1);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(info(fd).ready, 1);
		CHECK_EQ(info(fd).live, 1);
		sleep_ns(5 * MS);
	}
	CHECK_EQ(read_events(fd, events, ARRAY_SIZE(events)), 1);
	follow(&series, &events[0]);
	CHECK(series.count >= 50 * MS);
}

TEST(interval_below_the_tick_fires_once_a_tick)
{
	int fd = device_open(O_RDWR);
	__u64 tick_ns = info(fd).tick_ns, last = 0;
	struct series series = arm_series(fd, 0, 1000, 0);

	for (int i = 0; i < 20; i++) {
		__u64 passed = now_ns() - series.first_ns;
		struct twheel_event event = read_next(fd, &series);

		CHECK(event.fired_ns / tick_ns > last / tick_ns);
		CHECK(series.count > passed / 1000);
		last = event.fired_ns;
	}
}

TEST(first_deadline_may_be_long_past)
{
	int fd = device_open(O_RDWR);
	struct series series = { .first_ns = 0, .interval_ns = 40 * MS };
	__u64 before = now_ns();

	series.id = arm_op(fd, op_periodic(0, 40 * MS, 0, TWHEEL_F_ABS, 7));
	read_next(fd, &series);
	CHECK(series.count >= before / (40 * MS) + 1);
	read_next(fd, &series);
	read_next(fd, &series);
}

TEST(interval_that_overflows_never_comes)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_op(fd, op_periodic(1, EXPIRES_MAX, 0, TWHEEL_F_ABS, 7));
	struct twheel_event event;
	struct twheel_op state;

	wait_ready(fd, 1);
	event = read_any_event(fd);
	CHECK_EQ(event.count, 1);
	CHECK_EQ(event.expires_ns, 1);
	CHECK_EQ(event.flags, 0);
	state = state_of(fd, id);
	CHECK(state.expires_ns >= EXPIRES_MAX - now_ns());
	CHECK_EQ(state.interval_ns, EXPIRES_MAX);
	sleep_ns(20 * MS);
	check_no_event(fd);
	CHECK_EQ(cancel(fd, id), 0);
}

static bool have_all(const struct series *series, size_t nr, __u64 count)
{
	while (nr && series[nr - 1].count >= count)
		nr--;
	return !nr;
}

TEST(events_of_many_periods_are_kept_apart)
{
	struct twheel_event events[200];
	struct series series[100];
	int fd = device_open(O_RDWR);
	__u64 end;

	for (size_t i = 0; i < ARRAY_SIZE(series); i++) {
		series[i].first_ns = now_ns() + i * NSEC_PER_USEC * 100;
		series[i].interval_ns = (1 + i % 10) * MS;
		series[i].count = 0;
		series[i].id = arm_op(fd, op_periodic(series[i].first_ns, series[i].interval_ns, 0,
						      TWHEEL_F_ABS, i));
	}
	end = now_ns() + 150 * MS;
	while (now_ns() < end || !have_all(series, ARRAY_SIZE(series), 5)) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(nr > 0);
		for (int i = 0; i < nr; i++) {
			CHECK(events[i].cookie < ARRAY_SIZE(series));
			follow(&series[events[i].cookie], &events[i]);
		}
	}
	CHECK_EQ(info(fd).live, ARRAY_SIZE(series));
}

TEST(edge_triggered_epoll_tells_of_every_period)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);
	struct series series = arm_series(fd, MS, 5 * MS, 0);

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		read_next(fd, &series);
	}
}

/* Repeat */

/* With a @pause before each read, one event counts all the periods that were missed. */
static void check_repeat(__u32 repeat, __u64 interval_ns, __u64 pause_ns)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct series series = arm_series(fd, MS, interval_ns, repeat);
	struct twheel_event event;

	ktap_note("repeat of %u", repeat);
	do {
		sleep_until(series.first_ns + pause_ns);
		wait_ready(fd, 1);
		event = read_next(fd, &series);
		CHECK_EQ(event.flags, series.count == repeat ? TWHEEL_EV_LAST : 0);
		if (pause_ns)
			CHECK_EQ(event.count, repeat);
	} while (series.count < repeat);
	CHECK_EQ(get(fd, series.id), -ENOENT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(3 * interval_ns);
	check_no_event(fd);
}

TEST(repeat_ends_with_the_last_deadline)
{
	check_repeat(1, MS, 20 * MS);
	check_repeat(4, 10 * MS, 0);
	check_repeat(5, MS, 50 * MS);
}

TEST(repeat_is_any_number)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_op(fd, op_periodic(HOUR, HOUR, ~0U, 0, 7));

	CHECK_EQ(state_of(fd, id).repeat, ~0U);
	CHECK_EQ(cancel(fd, id), 0);
}

/* GET */

TEST(get_tells_what_is_left)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, MS, 100 * MS, 1000);
	struct twheel_op state = state_of(fd, series.id);

	CHECK_EQ(state.interval_ns, 100 * MS);
	CHECK_EQ(state.repeat, 1000);
	CHECK_EQ(state.cookie, 7);
	for (int i = 0; i < 3; i++) {
		__u64 next;

		read_next(fd, &series);
		next = series.first_ns + series.count * series.interval_ns;
		state = state_of(fd, series.id);
		CHECK_EQ(state.repeat, 1000 - series.count);
		CHECK_EQ(state.interval_ns, 100 * MS);
		CHECK(state.expires_ns <= 100 * MS);
		if (state.expires_ns)
			CHECK(now_ns() + state.expires_ns >= next);
	}
}

TEST(get_of_unread_tells_nothing_remains)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, MS, HOUR, 10);
	struct twheel_op state;

	wait_ready(fd, 1);
	state = state_of(fd, series.id);
	CHECK_EQ(state.expires_ns, 0);
	CHECK_EQ(state.interval_ns, HOUR);
	CHECK_EQ(state.repeat, 10);
	CHECK_EQ(read_next(fd, &series).count, 1);
	CHECK_EQ(state_of(fd, series.id).repeat, 9);
}

/* Fixed delay */

TEST(fixed_delay_counts_from_the_read)
{
	int fd = device_open(O_RDWR);
	__u64 before, after, id;
	struct twheel_event event;

	id = arm_op(fd, op_periodic(0, 30 * MS, 0, TWHEEL_F_FIXED_DELAY, 7));
	wait_ready(fd, 1);
	for (int i = 0; i < 3; i++) {
		sleep_ns(50 * MS);
		before = now_ns();
		event = read_any_event(fd);
		after = now_ns();
		CHECK_EQ(event.count, 1);
		CHECK_EQ(event.flags, 0);
		CHECK(state_of(fd, id).expires_ns <= 30 * MS);
		wait_ready(fd, 1);
		event = read_any_event(fd);
		CHECK_EQ(event.count, 1);
		CHECK(event.expires_ns >= before + 30 * MS);
		CHECK(event.expires_ns <= after + 30 * MS);
		CHECK(event.fired_ns >= event.expires_ns);
		wait_ready(fd, 1);
	}
}

TEST(fixed_delay_repeats_so_many_reads)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_op(fd, op_periodic(0, MS, 3, TWHEEL_F_FIXED_DELAY, 7));

	for (int i = 0; i < 3; i++) {
		struct twheel_event event;

		CHECK_EQ(state_of(fd, id).repeat, 3 - i);
		wait_ready(fd, 1);
		sleep_ns(10 * MS);
		event = read_any_event(fd);
		CHECK_EQ(event.count, 1);
		CHECK_EQ(event.flags, i == 2 ? TWHEEL_EV_LAST : 0);
	}
	CHECK_EQ(get(fd, id), -ENOENT);
	sleep_ns(10 * MS);
	check_no_event(fd);
}

/* Cancel and mod */

/* Pending, and with an unread event. */
TEST(cancel_ends_all_periods)
{
	static const __u64 intervals[] = { HOUR, MS };

	for (size_t i = 0; i < ARRAY_SIZE(intervals); i++) {
		int fd = device_open(O_RDWR | O_NONBLOCK), unread = intervals[i] == MS;
		struct series series = arm_series(fd, 0, intervals[i], 0);

		ktap_note("%s", unread ? "unread" : "pending");
		wait_ready(fd, 1);
		if (!unread)
			read_next(fd, &series);
		CHECK_EQ(cancel(fd, series.id), unread ? TWHEEL_WITHDRAWN : 0);
		CHECK_EQ(cancel(fd, series.id), -ENOENT);
		CHECK_EQ(info(fd).live, 0);
		sleep_ns(20 * MS);
		check_no_event(fd);
	}
}

static void check_mod(int fd, __u64 id, __u32 repeat)
{
	struct series series = { .id = id, .first_ns = now_ns() + MS, .interval_ns = 3 * MS };
	struct twheel_op op = op_periodic(series.first_ns, 3 * MS, repeat, TWHEEL_F_ABS, 8);
	struct twheel_event event;

	op.opcode = TWHEEL_OP_MOD;
	op.id = id;
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(state_of(fd, id).interval_ns, 3 * MS);
	do {
		event = read_next(fd, &series);
		CHECK_EQ(event.cookie, 8);
		CHECK_EQ(event.flags, series.count == repeat ? TWHEEL_EV_LAST : 0);
	} while (series.count < (repeat ? repeat : 5));
}

/* Of a periodic timeout and of a one-shot. */
TEST(mod_replaces_interval_and_repeat)
{
	int fd = device_open(O_RDWR);

	check_mod(fd, arm_series(fd, HOUR, HOUR, 0).id, 4);
	check_mod(fd, arm(fd, HOUR, 1), 0);
}

TEST(mod_makes_a_one_shot_of_it)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct series series = arm_series(fd, 0, MS, 0);

	wait_ready(fd, 1);
	CHECK_EQ(mod(fd, series.id, 5 * MS, 9), TWHEEL_WITHDRAWN);
	CHECK_EQ(state_of(fd, series.id).interval_ns, 0);
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 9);
	CHECK_EQ(info(fd).live, 0);
}

TEST(refused_mod_leaves_the_periods)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, MS, 2 * MS, 0);
	struct twheel_op bad[] = {
		op_periodic(MS, EXPIRES_MAX + 1, 0, 0, 8),
		op_periodic(MS, 0, 1, 0, 8),
		op_periodic(MS, 0, 0, TWHEEL_F_FIXED_DELAY, 8),
		op_periodic(MS, MS, 0, TWHEEL_F_CELL, 8),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		bad[i].opcode = TWHEEL_OP_MOD;
		bad[i].id = series.id;
		CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &bad[i]), -EINVAL);
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQ(read_next(fd, &series).cookie, 7);
}

TEST(cancel_around_expiry_finds_the_periods)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), outcomes[2] = { 0 };
	__u64 seed = now_ns(), until = seed + race_ns(800);
	struct twheel_event event;

	while (now_ns() < until) {
		__u64 id = arm_op(fd, op_periodic(random_below(&seed, 2 * MS), MS, 0, 0, 0));
		int ret;

		sleep_ns(random_below(&seed, 3 * MS));
		if (random_below(&seed, 2))
			CHECK(read_events(fd, &event, 1) == 1 || errno == EAGAIN);
		sleep_ns(random_below(&seed, 2 * MS));
		ret = cancel(fd, id);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		CHECK(!readable(fd));
		CHECK_EQ(cancel(fd, id), -ENOENT);
		outcomes[ret]++;
	}
	sleep_ns(20 * MS);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
	ktap_note("%d cancelled, %d withdrawn", outcomes[0], outcomes[1]);
}

/* Reading */

TEST(failed_read_loses_no_period)
{
	int fd = device_open(O_RDWR);
	struct series series = arm_series(fd, MS, MS, 20);
	void *nowhere = map_unusable();

	wait_ready(fd, 1);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(read_events(fd, nowhere, 1), -EFAULT);
	CHECK_EQ(state_of(fd, series.id).repeat, 20);
	while (!(read_next(fd, &series).flags & TWHEEL_EV_LAST))
		;
	CHECK_EQ(series.count, 20);
}

struct team {
	pthread_t thread;
	int fd;
	__u64 count;
	int last;
};

/* Read until another thread has had the last event. */
static void *count_periods(void *arg)
{
	struct team *member = arg;
	struct pollfd pollfd = { .fd = member->fd, .events = POLLIN };
	struct twheel_event event;

	while (info(member->fd).live) {
		int ret = read_events(member->fd, &event, 1);

		if (ret == -EAGAIN) {
			CHECK(poll(&pollfd, 1, 5) >= 0);
			continue;
		}
		CHECK_EQ(ret, 1);
		member->count += event.count;
		member->last += event.flags == TWHEEL_EV_LAST;
	}
	return NULL;
}

TEST(each_period_is_counted_by_one_reader)
{
	struct team team[3];
	int fd = device_open(O_RDWR | O_NONBLOCK), last = 0;
	__u64 count = 0;

	arm_series(fd, MS, 100 * NSEC_PER_USEC, 3000);
	for (size_t i = 0; i < ARRAY_SIZE(team); i++) {
		team[i] = (struct team) { .fd = fd };
		pthread_create(&team[i].thread, NULL, count_periods, &team[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(team); i++) {
		pthread_join(team[i].thread, NULL);
		count += team[i].count;
		last += team[i].last;
	}
	CHECK_EQ(count, 3000);
	CHECK_EQ(last, 1);
}

/* Place of a periodic timeout */

TEST(periodic_keeps_its_place)
{
	int fd = device_open_limited(O_RDWR, 1);
	struct series series = arm_series(fd, MS, MS, 30);
	__u64 none;

	do {
		CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
	} while (!(read_next(fd, &series).flags & TWHEEL_EV_LAST));
	arm(fd, HOUR, 0);
}

TEST(close_with_1000_periodic_is_clean)
{
	struct twheel_op ops[1000];

	for (int i = 0; i < 3; i++) {
		int fd = device_open(O_RDWR);

		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_periodic(n * 1000, 1 + n * 1000, 0, 0, n);
		submit(fd, ops, ARRAY_SIZE(ops));
		sleep_ns(5 * MS);
		close(fd);
	}
}

/* Periodic timeouts in a SUBMIT */

TEST(submit_arms_periodic_timeouts)
{
	int fd = device_open(O_RDWR);
	__u64 base = now_ns();
	struct twheel_op ops[] = {
		op_periodic(base, 3 * MS, 2, TWHEEL_F_ABS, 0),
		op_arm(base, TWHEEL_F_ABS, 1),
		op_periodic(base, 5 * MS, 3, TWHEEL_F_ABS, 2),
		op_periodic(base, 0, 3, TWHEEL_F_ABS, 3),
	};
	__u64 counts[4] = { 0 };

	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[3].result, -EINVAL);
	while (info(fd).live) {
		struct twheel_event event = read_any_event(fd);

		CHECK(event.cookie < 4);
		counts[event.cookie] += event.count;
	}
	CHECK_EQ(counts[0], 2);
	CHECK_EQ(counts[1], 1);
	CHECK_EQ(counts[2], 3);
	CHECK_EQ(counts[3], 0);
}
