// SPDX-License-Identifier: GPL-2.0
/*
 * Slack: a timeout may fire later, up to its slack, so that it shares a wakeup with others.
 * It never fires earlier. A timeout that names no slack has that of its context, unless it
 * is exact.
 */
#define _GNU_SOURCE
#include "cpu.h"

#define MS		NSEC_PER_MSEC
#define LATE_AT_MOST	quick_ns()
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
		CHECK(event.fired_ns <= event.expires_ns + slack_ns + LATE_AT_MOST);
		nr += event.fired_ns != last;
		last = event.fired_ns;
	}
	ktap_note("%d wakeups", nr);
	return nr;
}

/**
 * struct neighbours - how timeouts get their slack
 * @name: its name
 * @opcode: opcode of the operations
 * @slack_of_context: they have the slack of their context, otherwise their own
 * @singly: there is a call for each one; each way has its fast path
 */
static const struct neighbours {
	const char *name;
	__u32 opcode;
	bool slack_of_context;
	bool singly;
} all_neighbours[] = {
	{ "armed", TWHEEL_OP_ARM, false, false },
	{ "moved", TWHEEL_OP_MOD, false, false },
	{ "armed in a context", TWHEEL_OP_ARM, true, false },
	{ "armed one by one in a context", TWHEEL_OP_ARM, true, true },
};

TEST(neighbours_with_slack_share_wakeups)
{
	stay_on_one_cpu();
	for_each_row(neighbours, all_neighbours) {
		int fd = open_with_slack(O_RDWR, neighbours->slack_of_context ? 64 * MS : 0);
		struct twheel_op ops[NR];
		__u64 base, ids[NR] = { 0 };

		if (neighbours->opcode == TWHEEL_OP_MOD)
			arm_many(fd, NR, HOUR, 0, 0, ids);
		base = now_ns() + 20 * MS;
		for (int i = 0; i < NR; i++) {
			ops[i] = op_slack(base + i * MS, TWHEEL_F_ABS,
					  neighbours->slack_of_context ? 0 : 64 * MS, i);
			ops[i].opcode = neighbours->opcode;
			if (neighbours->opcode == TWHEEL_OP_MOD)
				ops[i].id = ids[i];
			if (neighbours->singly)
				arm_op(fd, ops[i]);
		}
		if (!neighbours->singly)
			submit(fd, ops, NR);
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
	stay_on_one_cpu();
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

TEST(largest_slack_is_armed)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_op op = op_arm(20 * MS, 0, 0);
	__u64 id, far;

	op.slack_us = ~0U;
	id = arm_op(fd, op);
	CHECK(state_of(fd, id).expires_ns <= 20 * MS);
	op.expires_ns = EXPIRES_MAX;
	far = arm_op(fd, op);
	CHECK(state_of(fd, far).expires_ns > EXPIRES_MAX / 2);
	CHECK(cancel(fd, id) >= 0);
	CHECK_EQ(cancel(fd, far), 0);
}

/* The last MOD has a slack of @last_ns; the timeout must not use the previous slack. */
static void check_mod(__u64 last_ns)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_op(fd, op_slack(HOUR, 0, HOUR, 1)), base = now_ns() + 10 * MS;
	const __u64 slacks[] = { 0, 20 * MS, last_ns };
	struct twheel_event event;

	for (size_t i = 0; i < ARRAY_SIZE(slacks); i++) {
		struct twheel_op op = op_slack(base, TWHEEL_F_ABS, slacks[i], 2);

		op.opcode = TWHEEL_OP_MOD;
		op.id = id;
		CHECK(operate(fd, TWHEEL_IOC_MOD, &op) >= 0);
	}
	event = read_event(fd);
	CHECK_EQ(event.expires_ns, base);
	CHECK(event.fired_ns <= base + last_ns + LATE_AT_MOST);
}

TEST(mod_replaces_the_slack)
{
	check_mod(40 * MS);
	check_mod(0);
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
			CHECK(event.fired_ns <= event.expires_ns + 8 * MS + LATE_AT_MOST);
		} while (!(event.flags & TWHEEL_EV_LAST));
		CHECK_EQ(count, 6);
	}
}

/* The slack of the context */

static void check_slack_of(int fd, struct twheel_op op, __u32 slack_us)
{
	__u64 id = arm_op(fd, op);

	CHECK_EQ(only_entry(fd).slack_us, slack_us);
	CHECK_EQ(cancel(fd, id), 0);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(only_entry(fd).slack_us, slack_us);
	CHECK_EQ(cancel(fd, op.id), 0);
}

TEST(slack_of_the_context_is_for_those_that_name_none)
{
	static const __u32 slacks[] = { 0, 1, 1000, 64000, 1U << 31, ~0U };
	int other = device_open(O_RDWR);
	__u64 far = now_ns() + HOUR;

	for (size_t i = 0; i < ARRAY_SIZE(slacks); i++) {
		int fd = open_with_slack(O_RDWR, slacks[i] * NSEC_PER_USEC);

		ktap_note("%u us", slacks[i]);
		check_slack_of(fd, op_arm(HOUR, 0, 0), slacks[i]);
		check_slack_of(fd, op_arm(far, TWHEEL_F_ABS, 0), slacks[i]);
		check_slack_of(fd, op_arm(HOUR, TWHEEL_F_EXACT, 0), 0);
		check_slack_of(fd, op_arm(far, TWHEEL_F_EXACT | TWHEEL_F_ABS, 0), 0);
		check_slack_of(fd, op_slack(HOUR, 0, 7 * MS, 0), 7000);
		check_slack_of(fd, op_periodic(HOUR, HOUR, 3, 0, 0), slacks[i]);
		check_slack_of(fd, op_periodic(HOUR, HOUR, 3, TWHEEL_F_EXACT, 0), 0);
		check_slack_of(other, op_arm(HOUR, 0, 0), 0);
		close(fd);
	}
	CHECK_EQ(info(other).slack_us, 0);
}

TEST(mod_takes_the_slack_of_the_context_too)
{
	int fd = open_with_slack(O_RDWR, 64 * MS);
	struct twheel_op op = op_mod(arm(fd, HOUR, 0), HOUR, TWHEEL_F_EXACT, 0);

	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(only_entry(fd).slack_us, 0);
	op.flags = 0;
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(only_entry(fd).slack_us, 64000);
	op.slack_us = 3;
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(only_entry(fd).slack_us, 3);
	op.slack_us = 0;
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(only_entry(fd).slack_us, 64000);
}

/* EXACT modifies the operation only: LIST does not return it with the other flags. */
TEST(exact_is_told_by_the_slack_alone)
{
	int fd = open_with_slack(O_RDWR, 64 * MS);

	arm_op(fd, op_periodic(HOUR, HOUR, 3, TWHEEL_F_EXACT | TWHEEL_F_FIXED_DELAY, 0));
	CHECK_EQ(only_entry(fd).flags, TWHEEL_F_FIXED_DELAY);
}
