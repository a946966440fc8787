// SPDX-License-Identifier: GPL-2.0
/*
 * The three clocks. Absolute times are times of the clock that the file was set up with, in
 * the time namespace of its opener. CLOCK_REALTIME is stepped in both directions.
 */
#define _GNU_SOURCE
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define MAX_LATENESS	max_quick_call_ns()

static const struct clock {
	const char *name;
	clockid_t id;
} clocks[] = {
	{ "CLOCK_MONOTONIC", CLOCK_MONOTONIC },
	{ "CLOCK_BOOTTIME", CLOCK_BOOTTIME },
	{ "CLOCK_REALTIME", CLOCK_REALTIME },
};

static int open_on(clockid_t clock, int flags)
{
	return device_open_setup(flags, setup_clock(clock));
}

/* A time before the start of the host's clock becomes that start. */
static void check_fires(clockid_t clock, int fd, __u64 when)
{
	__u64 begin = clock_ns(clock), later = when > begin ? when : begin;
	struct twheel_event event;

	arm_at(fd, when, 7);
	wait_ready(fd, 1);
	event = read_event_on(clock, fd);
	CHECK_EQ(event.cookie, 7);
	CHECK(event.expires_ns >= when);
	CHECK(event.expires_ns <= later);
	CHECK(event.fired_ns >= later);
	CHECK(event.fired_ns <= later + MAX_LATENESS);
}

static void check_relative(clockid_t clock, int fd)
{
	__u64 before = clock_ns(clock), after;
	struct twheel_event event;

	arm(fd, 20 * MS, 7);
	after = clock_ns(clock);
	wait_ready(fd, 1);
	event = read_event_on(clock, fd);
	CHECK(event.expires_ns >= before + 20 * MS);
	CHECK(event.expires_ns <= after + 20 * MS);
	arm(fd, EXPIRES_MAX, 0);
}

/*
 * Deadlines at a rate, after a read, and of what STOP makes an event of. The first ones are past,
 * so the events are there at once.
 */
static void check_periods(clockid_t clock)
{
	int fd = open_on(clock, O_RDWR);
	__u64 when = clock_ns(clock) - 10 * MS, before, after;
	struct twheel_event event;

	arm_op(fd, op_periodic(when, 3 * MS, 4, TWHEEL_F_ABS, 7));
	wait_ready(fd, 1);
	sleep_ns(3 * MS);
	event = read_any_event(fd);
	CHECK_EQ(event.expires_ns, when + (event.count - 1) * 3 * MS);
	cancel_all(fd);
	arm_op(fd, op_periodic(when, MS, 2, TWHEEL_F_FIXED_DELAY | TWHEEL_F_ABS, 7));
	before = clock_ns(clock);
	CHECK_EQ(read_any_event(fd).expires_ns, when);
	after = clock_ns(clock);
	event = read_any_event(fd);
	CHECK(event.expires_ns >= before + MS && event.expires_ns <= after + MS);
	CHECK(event.fired_ns >= event.expires_ns && event.fired_ns <= clock_ns(clock));

	arm_at(fd, after + HOUR, 7);
	CHECK(only_entry(fd).remaining_ns <= HOUR && only_entry(fd).remaining_ns > HOUR / 2);
	before = clock_ns(clock);
	CHECK_EQ(stop(fd), 0);
	event = read_any_event(fd);
	CHECK_EQ(event.expires_ns, after + HOUR);
	CHECK(event.fired_ns >= before && event.fired_ns <= clock_ns(clock));
}

/* Times in the past, soon, far, and for ever. */
TEST(times_are_of_the_clock)
{
	for_each_row(clock, clocks) {
		int fd = open_on(clock->id, O_RDWR | O_NONBLOCK), live = 2;
		__u64 now = clock_ns(clock->id), far = arm_at(fd, now + HOUR, 1), left;

		left = get_state(fd, far).expires_ns;
		CHECK(left <= HOUR);
		CHECK(clock_ns(clock->id) + left >= now + HOUR);
		arm_at(fd, EXPIRES_MAX, 0);
		check_fires(clock->id, fd, now + 30 * MS);
		check_fires(clock->id, fd, 0);
		check_fires(clock->id, fd, now / 1000);
		if (clock->id != CLOCK_REALTIME) {
			check_relative(clock->id, fd);
			live++;
		}
		sleep_ns(20 * MS);
		check_no_event(fd);
		CHECK_EQ(info(fd).live, live);
		CHECK_EQ(cancel(fd, far), 0);
	}
}

TEST(periods_are_of_the_clock)
{
	for_each_row(clock, clocks)
		check_periods(clock->id);
}

TEST(relative_time_is_einval_on_realtime)
{
	int fd = open_on(CLOCK_REALTIME, O_RDWR);
	__u64 id = arm_at(fd, clock_ns(CLOCK_REALTIME) + HOUR, 7), none;
	struct twheel_op ops[] = {
		op_arm(HOUR, 0, 0),
		op_mod(id, HOUR, 0, 0),
		op_periodic(HOUR, HOUR, 0, 0, 0),
	};

	CHECK_EQ(try_arm(fd, 0, 0, 0, &none), -EINVAL);
	CHECK_EQ(mod(fd, id, HOUR, 0), -EINVAL);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, -EINVAL);
	CHECK_EQ(get_state(fd, id).cookie, 7);
	CHECK_EQ(info(fd).live, 1);
}

/* Steps of CLOCK_REALTIME */

/* A count is never 0. After a step back, the next deadline is in phase. */
TEST(steps_are_counted_in_periods)
{
	int fd = open_realtime(O_RDWR);
	struct twheel_event event;
	__u64 first = clock_ns(CLOCK_REALTIME);

	arm_op(fd, op_periodic(first, HOUR, 0, TWHEEL_F_ABS, 7));
	wait_ready(fd, 1);
	set_realtime(-5 * (__s64)HOUR);
	event = read_any_event(fd);
	CHECK_EQ(event.count, 1);
	CHECK_EQ(event.expires_ns, first);
	CHECK(get_state(fd, event.id).expires_ns > 5 * HOUR);
	set_realtime(10 * HOUR + HOUR / 2);
	event = read_any_event(fd);
	CHECK_EQ(event.count, 10);
	CHECK_EQ(event.expires_ns, first + 10 * HOUR);
	set_realtime(0);
}

/* Time namespaces */

TEST(times_are_those_of_a_namespace_that_is_ahead)
{
	__u64 monotonic = now_ns(), boottime = clock_ns(CLOCK_BOOTTIME);

	enter_time_namespace(1000000, 5000000);
	CHECK(now_ns() >= monotonic + 1000000 * NSEC_PER_SEC);
	CHECK(clock_ns(CLOCK_BOOTTIME) >= boottime + 5000000 * NSEC_PER_SEC);
	times_are_of_the_clock();
	periods_are_of_the_clock();
}

TEST(times_are_those_of_a_namespace_that_is_behind)
{
	sleep_until(3 * NSEC_PER_SEC);
	enter_time_namespace(-2, -2);
	times_are_of_the_clock();
	periods_are_of_the_clock();
}

/* The time namespace is that of the open, not that of the SETUP. */
TEST(time_is_of_who_opened_the_file)
{
	int fds[] = {
		device_open(O_RDWR), open_on(CLOCK_BOOTTIME, O_RDWR), device_open(O_RDWR),
	};
	__u64 when = clock_ns(CLOCK_BOOTTIME) + 50 * MS, monotonic = now_ns() + 50 * MS;

	enter_time_namespace(1000000, 1000000);
	CHECK_EQ(try_setup(fds[2], setup_clock(CLOCK_BOOTTIME)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		__u64 expires = i ? when : monotonic;
		struct twheel_event event;

		arm_at(fds[i], expires, 7);
		event = read_any_event(fds[i]);
		CHECK_EQ(event.expires_ns, expires);
		CHECK(event.fired_ns >= expires);
		CHECK(event.fired_ns <= expires + MAX_LATENESS);
	}
}
