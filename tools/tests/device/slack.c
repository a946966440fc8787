// SPDX-License-Identifier: GPL-2.0
/*
 * Slack: a timeout may fire later, up to its slack, so that it shares a wakeup with others.
 * It never fires earlier. A timeout that names no slack has that of its context, unless it
 * is exact.
 */
#define _GNU_SOURCE
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define MAX_LATENESS	max_quick_call_ns()
#define NR		100

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

/* Number of different times at which NR timeouts a millisecond apart have fired. */
static int wakeups_of(int fd, __u64 base, __u64 slack_ns)
{
	__u64 last = 0;
	int nr = 0;

	for (int i = 0; i < NR; i++) {
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

/* Open a context with NR timeouts that are due from @base on, a millisecond apart. */
static int open_neighbours(const struct neighbours *neighbours, __u64 base)
{
	int fd = open_with_slack(O_RDWR, neighbours->slack_of_context ? 64 * MS : 0);
	struct twheel_op ops[NR];

	for (int i = 0; i < NR; i++) {
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
		submit(fd, ops, NR);
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

TEST(timeout_with_slack_is_never_early)
{
	int fd = device_open(O_RDWR);
	struct twheel_op ops[500];
	__u64 base = now_ns();

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_slack(base + i * 333333, TWHEEL_F_ABS, i % 50 * 400000, i);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.expires_ns, base + event.cookie * 333333);
	}
}

/* Each period uses the slack with which the timeout was armed. */
TEST(periodic_with_slack_keeps_its_phase)
{
	static const struct {
		const char *name;
		__u64 of_context_ns;
		__u32 slack_us;
		__u32 flags;
	} slacks[] = {
		{ "slack", 0, 8000, 0 },
		{ "exact", HOUR / 4, 0, TWHEEL_F_EXACT },
	};

	for_each_row(slack, slacks) {
		int fd = open_with_slack(O_RDWR, slack->of_context_ns);
		__u64 base = now_ns() + 5 * MS, count = 0;
		struct twheel_op op = op_periodic(base, 10 * MS, 6, TWHEEL_F_ABS, 0);
		struct twheel_event event;

		op.slack_us = slack->slack_us;
		op.flags |= slack->flags;
		arm_op(fd, op);
		do {
			event = read_any_event(fd);
			CHECK(event.fired_ns >= base + count * 10 * MS);
			count += event.count;
			CHECK_EQ(event.expires_ns, base + (count - 1) * 10 * MS);
			CHECK(event.fired_ns <= event.expires_ns + 8 * MS + MAX_LATENESS);
		} while (!(event.flags & TWHEEL_EV_LAST));
		CHECK_EQ(count, 6);
	}
}

/* The slack of the context */

#define CONTEXT_SLACK	~0ULL

/**
 * struct named - an operation, and the slack of its timeout
 * @name: its name
 * @flags: of the operation
 * @interval_ns: of the operation
 * @slack_us: of the operation
 * @expected_us: the slack of its timeout, or OF_CONTEXT
 */
static const struct named {
	const char *name;
	__u32 flags;
	__u64 interval_ns;
	__u32 slack_us;
	__u64 expected_us;
} all_named[] = {
	{ "none", 0, 0, 0, CONTEXT_SLACK },
	{ "none, absolute", TWHEEL_F_ABS, 0, 0, CONTEXT_SLACK },
	{ "none, periodic", 0, HOUR, 0, CONTEXT_SLACK },
	{ "exact", TWHEEL_F_EXACT, 0, 0, 0 },
	{ "exact, absolute", TWHEEL_F_EXACT | TWHEEL_F_ABS, 0, 0, 0 },
	{ "exact, fixed delay", TWHEEL_F_EXACT | TWHEEL_F_FIXED_DELAY, HOUR, 0, 0 },
	{ "its own", 0, 0, 7000, 7000 },
	{ "the largest", 0, 0, ~0U, ~0U },
};

/* EXACT is told by the slack alone: LIST does not return it with the other flags. */
static void check_only_entry(int fd, const struct named *named, __u64 of_context_us)
{
	struct twheel_list_entry entry = only_entry(fd);

	CHECK_EQ(entry.slack_us, named->expected_us == CONTEXT_SLACK ? of_context_us :
		 named->expected_us);
	CHECK_EQ(entry.flags, named->flags & TWHEEL_F_FIXED_DELAY);
}

TEST(slack_of_the_context_is_for_those_that_name_none)
{
	static const __u32 slacks[] = { 0, 1, 1000, 64000, 1U << 31, ~0U };

	for_each_row(named, all_named) {
		struct twheel_op op = op_periodic(now_ns() + HOUR, named->interval_ns, 0,
						  named->flags, 0);

		op.slack_us = named->slack_us;
		for (size_t i = 0; i < ARRAY_SIZE(slacks); i++) {
			int fd = open_with_slack(O_RDWR, slacks[i] * NSEC_PER_USEC);

			op.opcode = TWHEEL_OP_ARM;
			op.id = arm_op(fd, op);
			check_only_entry(fd, named, slacks[i]);
			CHECK_EQ(cancel(fd, op.id), 0);
			submit(fd, &op, 1);
			check_only_entry(fd, named, slacks[i]);
			op.opcode = TWHEEL_OP_MOD;
			op.id = only_entry(fd).id;
			CHECK_EQ(mod(fd, op.id, HOUR, 0), 0);
			CHECK_EQ(operate(fd, &op), 0);
			check_only_entry(fd, named, slacks[i]);
			submit(fd, &op, 1);
			check_only_entry(fd, named, slacks[i]);
			close(fd);
		}
	}
}
