// SPDX-License-Identifier: GPL-2.0
/*
 * Time of expiry: never early, and never lost.
 *
 * Lateness depends more on the machine than on the device, so its limit is longer than any
 * machine should need.
 */
#define _GNU_SOURCE
#include "cpu.h"

#define LATE_AT_MOST	quick_ns()
#define TICKS_PER_LEVEL	256	/* of the default wheel; tests use times on both sides */

/* Relative and absolute deadlines */

static const __u64 delays[] = {
	0, 1, 2, 999, 1000, 999999, 1000000, 1000001, 1999999, 2000000,
	3500000, 10000000, 99999999,
	(TICKS_PER_LEVEL - 1) * NSEC_PER_MSEC, TICKS_PER_LEVEL * NSEC_PER_MSEC - 1,
	TICKS_PER_LEVEL * NSEC_PER_MSEC, TICKS_PER_LEVEL * NSEC_PER_MSEC + 1,
	(TICKS_PER_LEVEL + 1) * NSEC_PER_MSEC, 2 * TICKS_PER_LEVEL * NSEC_PER_MSEC,
	700000001,
};

TEST(relative_deadline_is_counted_from_the_call)
{
	__u64 before[ARRAY_SIZE(delays)], after[ARRAY_SIZE(delays)];
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
		before[i] = now_ns();
		arm(fd, delays[i], i);
		after[i] = now_ns();
	}
	for (size_t n = 0; n < ARRAY_SIZE(delays); n++) {
		struct twheel_event event = read_event(fd);
		__u64 i = event.cookie;

		CHECK(event.expires_ns >= before[i] + delays[i]);
		CHECK(event.expires_ns <= after[i] + delays[i]);
		CHECK(event.fired_ns >= before[i] + delays[i]);
		CHECK(event.fired_ns <= after[i] + delays[i] + LATE_AT_MOST);
	}
}

TEST(absolute_deadline_is_told_as_it_was_asked_for)
{
	__u64 base = now_ns() + 20 * NSEC_PER_MSEC;
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(delays); i++)
		arm_at(fd, base + delays[i], i);
	for (size_t n = 0; n < ARRAY_SIZE(delays); n++) {
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.expires_ns, base + delays[event.cookie]);
		CHECK(event.fired_ns >= event.expires_ns);
		CHECK(event.fired_ns <= event.expires_ns + LATE_AT_MOST);
	}
}

TEST(deadline_that_is_past_fires)
{
	const __u64 now = now_ns();
	const __u64 past[] = { 0, 1, NSEC_PER_MSEC, now / 2, now - NSEC_PER_MSEC, now - 1, now };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < 7 * ARRAY_SIZE(past); i++) {
		__u64 when = past[i % ARRAY_SIZE(past)], before = now_ns();
		struct twheel_event event;

		arm_at(fd, when, i);
		event = read_event(fd);
		CHECK_EQ(event.cookie, i);
		CHECK_EQ(event.expires_ns, when);
		CHECK(event.fired_ns >= before);
		CHECK(event.fired_ns <= before + LATE_AT_MOST);

		before = now_ns();
		arm(fd, 0, i);
		event = read_event(fd);
		CHECK_EQ(event.cookie, i);
		CHECK(event.expires_ns >= before);
		CHECK(event.fired_ns >= before);
	}
}

TEST(deadlines_within_a_tick_are_never_early)
{
	const int nr = 3000;
	int fd = device_open(O_RDWR);
	struct twheel_event events[64];

	arm_many(fd, nr, 0, 997, 0, NULL);
	for (int got = 0; got < nr; ) {
		int ret = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(ret > 0);
		for (int i = 0; i < ret; i++)
			check_event(&events[i]);
		got += ret;
	}
}

/* Deadlines in all slots, at every distance from a revolution of the lowest level. */
TEST(deadlines_in_every_slot_are_never_early)
{
	const int nr = 800;
	int fd = device_open(O_RDWR);
	__u64 base = now_ns() + 50 * NSEC_PER_MSEC, armed;

	for (int i = 0; i < nr; i++)
		arm_at(fd, base + i * (NSEC_PER_MSEC + 1), i);
	armed = now_ns();
	for (int i = 0; i < nr; i++) {
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.expires_ns, base + event.cookie * (NSEC_PER_MSEC + 1));
		if (event.expires_ns < armed)
			event.expires_ns = armed;
		CHECK(event.fired_ns <= event.expires_ns + LATE_AT_MOST);
	}
}

TEST(mod_is_not_early)
{
	int fd = device_open(O_RDWR);

	for (int i = 0; i < 30; i++) {
		__u64 id = arm(fd, i % 3 ? NSEC_PER_MSEC : HOUR, 0), before = now_ns();
		__u64 delay = i * NSEC_PER_MSEC / 2;
		struct twheel_event event;

		CHECK(mod(fd, id, delay, 1) >= 0);
		event = read_event(fd);
		CHECK_EQ(event.cookie, 1);
		CHECK(event.expires_ns >= before + delay);
	}
}

/* Far away */

TEST(far_deadlines_do_not_fire)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 ids[63 - 34];

	for (unsigned int bit = 34; bit < 63; bit++)
		ids[bit - 34] = arm(fd, 1ULL << bit, bit);
	sleep_ns(400 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, ARRAY_SIZE(ids));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK_EQ(cancel(fd, ids[i]), 0);
}

/* Deadlines a tick around the reach of each level. */
TEST(deadlines_around_the_reach_of_a_level_do_not_fire)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_info i = info(fd);
	__u64 span = i.tick_ns, armed = 0;

	for (__u32 level = 0; level < i.levels; level++) {
		__u64 slots = level ? 64 : i.slots;

		if (span > EXPIRES_MAX / slots / 2)
			break;
		span *= slots;
		if (span < 10 * NSEC_PER_SEC)
			continue;
		arm(fd, span - i.tick_ns, armed++);
		arm(fd, span, armed++);
		arm(fd, span + 1, armed++);
		arm(fd, span + i.tick_ns, armed++);
		arm(fd, 2 * span, armed++);
	}
	sleep_ns(400 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, armed);
}

TEST(far_deadlines_do_not_hold_up_near_ones)
{
	int fd = device_open(O_RDWR);

	arm_many(fd, 1000, HOUR, HOUR, 1000, NULL);
	arm(fd, 20 * NSEC_PER_MSEC, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
	CHECK_EQ(info(fd).live, 1000);
}

TEST(time_beyond_int64_max_is_einval)
{
	static const __u64 times[] = { EXPIRES_MAX + 1, EXPIRES_MAX + 2, ~0ULL - 1, ~0ULL };
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0), none;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct twheel_op op = op_mod(id, times[i], TWHEEL_F_ABS, 0);

		CHECK_EQ(try_arm(fd, times[i], 0, 0, &none), -EINVAL);
		CHECK_EQ(try_arm(fd, times[i], TWHEEL_F_ABS, 0, &none), -EINVAL);
		CHECK_EQ(mod(fd, id, times[i], 0), -EINVAL);
		CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 1);
}

static void check_remaining(int fd, __u64 id, __u64 when)
{
	__u64 before = now_ns(), left = state_of(fd, id).expires_ns, after = now_ns();

	CHECK(left <= when - before);
	CHECK(left >= when - after);
}

static void check_never_fires(int fd, __u64 id)
{
	check_remaining(fd, id, EXPIRES_MAX);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(cancel(fd, id), 0);
}

/* The sum of now and a relative time overflows and is clamped. */
TEST(deadline_of_int64_max_is_armed_for_ever)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, HOUR, 0);

	ktap_note("relative");
	check_never_fires(fd, arm(fd, EXPIRES_MAX, 0));
	ktap_note("absolute");
	check_never_fires(fd, arm_at(fd, EXPIRES_MAX, 0));
	ktap_note("MOD");
	CHECK_EQ(mod(fd, id, EXPIRES_MAX, 0), 0);
	check_never_fires(fd, id);
}

/* GET */

TEST(remaining_is_exact_to_the_nanosecond)
{
	static const __u64 distances[] = {
		10 * NSEC_PER_SEC + 1, 77777777777ULL, HOUR - 1, 1000000 * NSEC_PER_SEC + 123456789,
		1ULL << 52, 1ULL << 60,
	};
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(distances); i++) {
		__u64 when = now_ns() + distances[i];
		__u64 id = arm_at(fd, when, 0);

		check_remaining(fd, id, when);
		check_remaining(fd, id, when);
	}
}

TEST(remaining_shrinks_to_zero)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + 60 * NSEC_PER_MSEC, id = arm_at(fd, when, 0);

	for (;;) {
		__u64 before = now_ns(), left = state_of(fd, id).expires_ns;

		if (!left)
			break;
		CHECK(before + left <= when);
		sleep_ns(NSEC_PER_MSEC);
	}
	CHECK(now_ns() >= when);
	wait_ready(fd, 1);
}

/* Time namespaces: times are in the namespace of the opener */

static void check_times(int fd)
{
	__u64 now = now_ns(), when = now + 30 * NSEC_PER_MSEC, far = arm_at(fd, now + HOUR, 1);
	struct twheel_event event;

	check_remaining(fd, far, now + HOUR);
	arm_at(fd, when, 2);
	wait_ready(fd, 1);
	event = read_event(fd);
	CHECK_EQ(event.cookie, 2);
	CHECK_EQ(event.expires_ns, when);
	CHECK(now_ns() < when + LATE_AT_MOST);

	now = now_ns();
	arm(fd, 20 * NSEC_PER_MSEC, 3);
	wait_ready(fd, 1);
	event = read_event(fd);
	CHECK(event.expires_ns >= now + 20 * NSEC_PER_MSEC);
	CHECK(event.expires_ns <= now_ns());

	arm_at(fd, EXPIRES_MAX, 0);
	arm(fd, EXPIRES_MAX, 0);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 3);

	/* A time that may be before the start of the host's clock. */
	arm_at(fd, 0, 4);
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 4);
}

TEST(times_are_those_of_a_namespace_that_is_ahead)
{
	__u64 outside = now_ns();
	int fd;

	enter_time_namespace(1000000, 0);
	CHECK(now_ns() > outside + 1000000 * NSEC_PER_SEC);
	fd = device_open(O_RDWR | O_NONBLOCK);
	check_times(fd);
	arm_at(fd, 1000 * NSEC_PER_SEC, 5);
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 5);
}

TEST(times_are_those_of_a_namespace_that_is_behind)
{
	sleep_until(3 * NSEC_PER_SEC);
	enter_time_namespace(-2, 0);
	check_times(device_open(O_RDWR | O_NONBLOCK));
}

TEST(absolute_time_is_of_who_opened_the_file)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + 50 * NSEC_PER_MSEC;
	struct twheel_event event;

	enter_time_namespace(1000000, 0);
	arm_at(fd, when, 0);
	CHECK_EQ(read_events(fd, &event, 1), 1);
	CHECK_EQ(event.expires_ns, when);
	CHECK(event.fired_ns >= when);
	CHECK(event.fired_ns < when + LATE_AT_MOST);
}

/* Order within the shard of a CPU: by tick, and within a tick by arming */

static __u64 tick_of(const struct twheel_event *event, __u64 tick_ns)
{
	return (event->expires_ns + tick_ns - 1) / tick_ns;
}

#define ORDERED		400

/* Deadlines are 250 us apart, and are armed in another order. */
TEST(events_of_one_cpu_come_in_order_of_their_ticks)
{
	struct twheel_event events[ORDERED];
	__u64 base, tick_ns;
	int fd = device_open(O_RDWR);

	stay_on_one_cpu();
	tick_ns = info(fd).tick_ns;
	base = now_ns() + 400 * NSEC_PER_MSEC;
	for (int i = 0; i < ORDERED; i++)
		arm_at(fd, base + i * 157 % ORDERED * 250 * NSEC_PER_USEC, i);
	if (now_ns() + tick_ns > base)
		ktap_skip("the machine is too slow");
	wait_ready(fd, ORDERED);
	CHECK_EQ(read_events(fd, events, ORDERED), ORDERED);
	for (int i = 1; i < ORDERED; i++) {
		__u64 last = tick_of(&events[i - 1], tick_ns), tick = tick_of(&events[i], tick_ns);

		CHECK(last <= tick);
		if (last == tick)
			CHECK(events[i - 1].cookie < events[i].cookie);
		CHECK(events[i - 1].fired_ns <= events[i].fired_ns);
	}
}

/* A timeout that was armed when the tick was far comes first, although it has cascaded. */
TEST(events_of_one_tick_come_in_order_of_arming)
{
	struct twheel_event events[40];
	int fd = device_open(O_RDWR);
	__u64 tick_ns = info(fd).tick_ns, when;

	stay_on_one_cpu();
	when = (now_ns() / tick_ns + 600) * tick_ns;
	for (int i = 0; i < 40; i++) {
		sleep_until(when - (40 - i) * (600 * tick_ns / 42));
		arm_at(fd, when - i * 1000, i);
	}
	if (now_ns() + tick_ns > when)
		ktap_skip("the machine is too slow");
	wait_ready(fd, 40);
	CHECK_EQ(read_events(fd, events, 40), 40);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(events[i].cookie, i);
}

TEST(events_of_all_cpus_are_read_as_they_come)
{
	cpu_set_t all, set;
	int fd = device_open(O_RDWR), armed = 0;

	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		CHECK_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
		for (int i = 0; i < 50; i++, armed++)
			arm(fd, i * NSEC_PER_MSEC, 0);
	}
	while (armed--)
		read_event(fd);
	CHECK_EQ(info(fd).live, 0);
}
