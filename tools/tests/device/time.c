// SPDX-License-Identifier: GPL-2.0
/*
 * Time of expiry: never early, and never lost.
 *
 * Lateness depends more on the machine than on the device, so its limit is longer than any
 * machine should need.
 */
#define _GNU_SOURCE
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define MAX_LATENESS	max_quick_call_ns()
#define TICKS_PER_LEVEL	256	/* of the default wheel; tests use times on both sides */
/* Relative and absolute deadlines */

static const __u64 delays[] = {
	0, 1, 2, 999, 1000, 999999, 1000000, 1000001, 1999999, 2000000,
	3500000, 10000000, 99999999,
	(TICKS_PER_LEVEL - 1) * MS, TICKS_PER_LEVEL * MS - 1, TICKS_PER_LEVEL * MS,
	TICKS_PER_LEVEL * MS + 1, (TICKS_PER_LEVEL + 1) * MS, 2 * TICKS_PER_LEVEL * MS,
	700000001,
};

static const struct way {
	const char *name;
	bool moved;
	__u32 flags;
} ways[] = {
	{ "ARM, relative", false, 0 },
	{ "ARM, absolute", false, TWHEEL_F_ABS },
	{ "MOD, relative", true, 0 },
	{ "MOD, absolute", true, TWHEEL_F_ABS },
};

static void set(int fd, const struct way *way, __u64 expires_ns, __u64 cookie, __u32 slack_us)
{
	struct twheel_op op = op_arm(expires_ns, way->flags, cookie);

	op.slack_us = slack_us;
	if (way->moved) {
		op.opcode = TWHEEL_OP_MOD;
		op.id = arm(fd, cookie % 3 ? MS : HOUR, ~0ULL);
		CHECK(operate(fd, &op) >= 0);
	} else {
		arm_op(fd, op);
	}
}

/* A relative deadline is counted from the call, and an absolute one is told as asked for. */
TEST(deadline_is_that_of_the_operation)
{
	for_each_row(way, ways) {
		__u64 first[ARRAY_SIZE(delays)], last[ARRAY_SIZE(delays)];
		int fd = device_open(O_RDWR);

		for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
			first[i] = now_ns() + delays[i];
			set(fd, way, way->flags ? first[i] : delays[i], i, 0);
			last[i] = way->flags ? first[i] : now_ns() + delays[i];
		}
		for (size_t n = 0; n < ARRAY_SIZE(delays); n++) {
			struct twheel_event event = read_event(fd);

			CHECK(event.cookie < ARRAY_SIZE(delays));
			CHECK(event.expires_ns >= first[event.cookie]);
			CHECK(event.expires_ns <= last[event.cookie]);
			CHECK(event.fired_ns <= last[event.cookie] + MAX_LATENESS);
		}
		CHECK_EQ(info(fd).live, 0);
		close(fd);
	}
}

/* Far away */

TEST(remaining_shrinks_to_zero)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + 60 * MS, id = arm_at(fd, when, 0);

	for (;;) {
		__u64 before = now_ns(), left = get_state(fd, id).expires_ns;

		if (!left)
			break;
		CHECK(left == 1 || before + left <= when);
		CHECK(now_ns() + left >= when);
		sleep_ns(MS);
	}
	CHECK(now_ns() >= when);
	CHECK_EQ(info(fd).ready, 1);
}

/* Slack delays the event, and GET does not call it unread meanwhile. */
TEST(something_remains_of_a_due_timeout_until_it_fires)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_arm(MS, 0, 0);

	op.slack_us = 100000;
	CHECK_EQ(operate(fd, &op), 0);
	for (__u64 end = now_ns() + 50 * MS; now_ns() < end; sleep_ns(MS)) {
		int unread = info(fd).ready;

		if (get_state(fd, op.id).expires_ns)
			CHECK_EQ(unread, 0);
		else
			CHECK_EQ(info(fd).ready, 1);
	}
}

/* Order within the shard of a CPU: by tick, and within a tick by arming */

#define ORDERED		400

static __u64 tick_of(const struct twheel_event *event, __u64 tick_ns)
{
	return (event->expires_ns + tick_ns - 1) / tick_ns;
}

/*
 * Four deadlines are in a tick. Some were armed when the tick was far, and come first although
 * they have cascaded.
 */
TEST(events_of_one_cpu_come_in_order_of_tick_and_arming)
{
	struct twheel_event events[ORDERED];
	int fd = device_open(O_RDWR);
	__u64 tick_ns = info(fd).tick_ns, base;

	pin_to_one_cpu();
	base = (now_ns() / tick_ns + 600) * tick_ns + 1;
	for (int i = 0; i < ORDERED; i++) {
		if (i % 10 == 0)
			sleep_until(base - (ORDERED - i) * (600 * tick_ns / (ORDERED + 20)));
		arm_at(fd, base + i * 157 % ORDERED * tick_ns / 4, i);
	}
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

TEST(events_of_all_cpus_are_read_as_they_come)
{
	int fd = device_open(O_RDWR), armed = 0;

	for (int cpu = 0; cpu <= last_cpu(); cpu++) {
		pin_to_cpu(cpu);
		for (int i = 0; i < 50; i++, armed++)
			arm(fd, i * MS, 0);
	}
	while (armed--)
		read_event(fd);
	CHECK_EQ(info(fd).live, 0);
}
