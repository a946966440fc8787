// SPDX-License-Identifier: GPL-2.0
/*
 * Slack: a timeout may fire later, so that it shares a wakeup with others. Deadlines and order are
 * those of the fuzzer and of the suites of the engine.
 *
 * Lateness depends more on the machine than on the device, so its limit is longer than any
 * machine should need.
 */
#define _GNU_SOURCE
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define MAX_LATENESS	max_quick_call_ns()
#define NR_NEIGHBOURS	100

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
