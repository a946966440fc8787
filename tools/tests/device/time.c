// SPDX-License-Identifier: GPL-2.0
/*
 * Time of expiry: when, and in which order.
 *
 * Lateness depends more on the machine than on the device, so its limit is longer than any
 * machine should need.
 */
#define _GNU_SOURCE
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define MAX_LATENESS	max_quick_call_ns()
#define TICKS_PER_LEVEL	256	/* of the default wheel; tests use times on both sides */
#define NR_NEIGHBOURS	100

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

/* Slack: a timeout may fire later, so that it shares a wakeup with others */

static struct twheel_op op_slack(__u64 expires_ns, __u32 flags, __u64 slack_ns, __u64 cookie)
{
	struct twheel_op op = op_arm(expires_ns, flags, cookie);

	op.slack_us = slack_ns / NSEC_PER_USEC;
	return op;
}

static int open_with_slack(int flags, __u64 slack_ns)
{
	struct twheel_setup setup = { .slack_us = slack_ns / NSEC_PER_USEC };
	int fd = device_open_setup(flags, setup);

	CHECK_EQ(info(fd).slack_us, setup.slack_us);
	return fd;
}

/* Number of different times at which NR_NEIGHBOURS timeouts a millisecond apart have fired. */
static int wakeups_of(int fd, __u64 base, __u64 slack_ns)
{
	__u64 last = 0;
	int nr = 0;

	for (int i = 0; i < NR_NEIGHBOURS; i++) {
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.expires_ns, base + event.cookie * MS);
		CHECK(event.fired_ns <= event.expires_ns + slack_ns + MAX_LATENESS);
		nr += event.fired_ns != last;
		last = event.fired_ns;
	}
	ktap_note("%d wakeups", nr);
	return nr;
}

/* How timeouts get their slack. Each way has its fast path. */
static const struct neighbours {
	const char *name;
	bool moved;		/* from a deadline far away with a slack of an hour */
	bool slack_of_context;	/* otherwise their own */
	bool singly;		/* there is a call for each one */
} all_neighbours[] = {
	{ "armed", false, false, false },
	{ "moved", true, false, false },
	{ "armed in a context", false, true, false },
	{ "armed one by one in a context", false, true, true },
};

/* Open a context with NR_NEIGHBOURS timeouts that are due from @base on, a millisecond apart. */
static int open_neighbours(const struct neighbours *neighbours, __u64 base)
{
	int fd = open_with_slack(O_RDWR, neighbours->slack_of_context ? 64 * MS : 0);
	struct twheel_op ops[NR_NEIGHBOURS];

	for (int i = 0; i < NR_NEIGHBOURS; i++) {
		ops[i] = op_slack(base + i * MS, TWHEEL_F_ABS,
				  neighbours->slack_of_context ? 0 : 64 * MS, i);
		if (neighbours->moved) {
			ops[i].opcode = TWHEEL_OP_MOD;
			ops[i].id = arm_op(fd, op_slack(HOUR, 0, HOUR, 0));
		}
		if (neighbours->singly)
			arm_op(fd, ops[i]);
	}
	if (!neighbours->singly)
		submit(fd, ops, NR_NEIGHBOURS);
	return fd;
}

TEST(neighbours_with_slack_share_wakeups)
{
	pin_to_one_cpu();
	for_each_row(neighbours, all_neighbours) {
		__u64 base;
		int fd;

		/* Those that are due when they are armed fire one by one: with more time, again. */
		for (__u64 lead = 20 * MS;; lead *= 2) {
			base = now_ns() + lead;
			fd = open_neighbours(neighbours, base);
			if (now_ns() < base)
				break;
			close(fd);
		}
		CHECK(wakeups_of(fd, base, 64 * MS) <= 8);
		close(fd);
	}
}

/* A machine that stands still for 100 ms fires both at once. */
static void check_own_ticks(int fd, __u32 flags)
{
	__u64 first, second;
	int tries = 3;

	do {
		__u64 base = now_ns() + 50 * MS;

		arm_op(fd, op_arm(base, TWHEEL_F_ABS | flags, 0));
		arm_op(fd, op_arm(base + 100 * MS, TWHEEL_F_ABS | flags, 1));
		first = read_event(fd).fired_ns;
		second = read_event(fd).fired_ns;
	} while (second == first && --tries);
	CHECK(second > first);
}

TEST(timeouts_without_slack_fire_at_their_own_ticks)
{
	pin_to_one_cpu();
	check_own_ticks(device_open(O_RDWR), 0);
	check_own_ticks(open_with_slack(O_RDWR, HOUR / 4), TWHEEL_F_EXACT);
}
