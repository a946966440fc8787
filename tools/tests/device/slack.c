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

static void neighbours_with_slack_share_wakeups(void)
{
	int fd = device_open(O_RDWR);
	struct twheel_op ops[NR];
	__u64 base;

	stay_on_one_cpu();
	base = now_ns() + 20 * MS;
	for (int i = 0; i < NR; i++)
		ops[i] = op_slack(base + i * MS, TWHEEL_F_ABS, 64 * MS, i);
	submit(fd, ops, NR);
	CHECK(wakeups_of(fd, base, 64 * MS) <= 8);
}

static void neighbours_moved_with_slack_share_wakeups(void)
{
	int fd = device_open(O_RDWR);
	struct twheel_op ops[NR];
	__u64 base, ids[NR];

	stay_on_one_cpu();
	arm_many(fd, NR, HOUR, 0, 0, ids);
	base = now_ns() + 20 * MS;
	for (int i = 0; i < NR; i++) {
		ops[i] = op_slack(base + i * MS, TWHEEL_F_ABS, 64 * MS, i);
		ops[i].opcode = TWHEEL_OP_MOD;
		ops[i].id = ids[i];
	}
	submit(fd, ops, NR);
	CHECK(wakeups_of(fd, base, 64 * MS) <= 8);
}

/* A machine that stands still for 100 ms fires both at once. */
static void check_own_ticks(int fd, __u32 flags)
{
	__u64 first, second;
	int tries = 3;

	stay_on_one_cpu();
	do {
		__u64 base = now_ns() + 50 * MS;

		arm_op(fd, op_arm(base, TWHEEL_F_ABS | flags, 0));
		arm_op(fd, op_arm(base + 100 * MS, TWHEEL_F_ABS | flags, 1));
		first = read_event(fd).fired_ns;
		second = read_event(fd).fired_ns;
	} while (second == first && --tries);
	CHECK(second > first);
}

static void timeouts_without_slack_fire_at_their_own_ticks(void)
{
	check_own_ticks(device_open(O_RDWR), 0);
}

static void timeout_with_slack_is_never_early(void)
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

static void largest_slack_is_armed(void)
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

static void mod_replaces_the_slack(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_op(fd, op_slack(HOUR, 0, HOUR, 1));
	__u64 base = now_ns() + 10 * MS;
	struct twheel_event event;

	for (int slack_ms = 0; slack_ms < 60; slack_ms += 20) {
		struct twheel_op op = op_slack(base, TWHEEL_F_ABS, slack_ms * MS, 2);

		op.opcode = TWHEEL_OP_MOD;
		op.id = id;
		CHECK(operate(fd, TWHEEL_IOC_MOD, &op) >= 0);
	}
	event = read_event(fd);
	CHECK_EQ(event.expires_ns, base);
	CHECK(event.fired_ns <= base + 40 * MS + LATE_AT_MOST);
}

/* A MOD without slack must not use the previous slack. */
static void mod_takes_the_slack_away(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_op(fd, op_slack(HOUR, 0, HOUR, 1)), base = now_ns() + 10 * MS;
	struct twheel_op op = op_mod(id, base, TWHEEL_F_ABS, 2);

	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK(read_event(fd).fired_ns <= base + LATE_AT_MOST);
}

static void periodic_with_slack_keeps_its_phase(void)
{
	int fd = device_open(O_RDWR);
	__u64 base = now_ns() + 5 * MS, count = 0;
	struct twheel_op op = op_periodic(base, 10 * MS, 6, TWHEEL_F_ABS, 0);
	struct twheel_event event;

	op.slack_us = 8000;
	arm_op(fd, op);
	do {
		event = read_any_event(fd);
		CHECK(event.fired_ns >= base + count * 10 * MS);
		count += event.count;
		CHECK_EQ(event.expires_ns, base + (count - 1) * 10 * MS);
	} while (!(event.flags & TWHEEL_EV_LAST));
	CHECK_EQ(count, 6);
}

/* The slack of the context */

static int open_with_slack(int flags, __u64 slack_ns)
{
	struct twheel_setup setup = { .slack_us = slack_ns / NSEC_PER_USEC };
	int fd = device_open_setup(flags, setup);

	CHECK_EQ(info(fd).slack_us, setup.slack_us);
	return fd;
}

/* The slack in effect of the only timeout, as LIST reports it. */
static __u32 slack_of_the_only_one(int fd)
{
	struct twheel_list_entry entries[2];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = 2, .entry_size = sizeof(entries[0]),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK_EQ(list.done, 1);
	return entries[0].slack_us;
}

static void check_slack_of(int fd, struct twheel_op op, __u32 slack_us)
{
	__u64 id = arm_op(fd, op);

	CHECK_EQ(slack_of_the_only_one(fd), slack_us);
	CHECK_EQ(cancel(fd, id), 0);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(slack_of_the_only_one(fd), slack_us);
	CHECK_EQ(cancel(fd, op.id), 0);
}

static void context_has_no_slack_by_default(void)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(info(fd).slack_us, 0);
	check_slack_of(fd, op_arm(HOUR, 0, 0), 0);
	check_slack_of(fd, op_arm(HOUR, TWHEEL_F_EXACT, 0), 0);
	check_slack_of(fd, op_slack(HOUR, 0, 5 * MS, 0), 5000);
}

static void slack_of_the_context_is_for_those_that_name_none(void)
{
	static const __u32 slacks[] = { 1, 1000, 64000, 1U << 31, ~0U };
	__u64 far = now_ns() + HOUR;

	for (size_t i = 0; i < ARRAY_SIZE(slacks); i++) {
		int fd = open_with_slack(O_RDWR, slacks[i] * NSEC_PER_USEC);

		check_slack_of(fd, op_arm(HOUR, 0, 0), slacks[i]);
		check_slack_of(fd, op_arm(far, TWHEEL_F_ABS, 0), slacks[i]);
		check_slack_of(fd, op_arm(HOUR, TWHEEL_F_EXACT, 0), 0);
		check_slack_of(fd, op_arm(far, TWHEEL_F_EXACT | TWHEEL_F_ABS, 0), 0);
		check_slack_of(fd, op_slack(HOUR, 0, 7 * MS, 0), 7000);
		check_slack_of(fd, op_periodic(HOUR, HOUR, 3, 0, 0), slacks[i]);
		check_slack_of(fd, op_periodic(HOUR, HOUR, 3, TWHEEL_F_EXACT, 0), 0);
		close(fd);
	}
}

static void mod_takes_the_slack_of_the_context_too(void)
{
	int fd = open_with_slack(O_RDWR, 64 * MS);
	struct twheel_op op = op_mod(arm(fd, HOUR, 0), HOUR, TWHEEL_F_EXACT, 0);

	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(slack_of_the_only_one(fd), 0);
	op.flags = 0;
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(slack_of_the_only_one(fd), 64000);
	op.slack_us = 3;
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(slack_of_the_only_one(fd), 3);
	op.slack_us = 0;
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(slack_of_the_only_one(fd), 64000);
}

/* EXACT modifies the operation only: LIST does not return it with the other flags. */
static void exact_is_told_by_the_slack_alone(void)
{
	int fd = open_with_slack(O_RDWR, 64 * MS);
	struct twheel_op op = op_periodic(HOUR, HOUR, 3, TWHEEL_F_EXACT | TWHEEL_F_FIXED_DELAY, 0);
	struct twheel_list_entry entry = { 0 };
	struct twheel_list list = {
		.entries = (uintptr_t)&entry, .nr = 1, .entry_size = sizeof(entry),
	};

	arm_op(fd, op);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK_EQ(entry.flags, TWHEEL_F_FIXED_DELAY);
}

/* They are armed one by one, and by one SUBMIT, each with its fast path. */
static void neighbours_share_wakeups_by_the_slack_of_the_context(void)
{
	struct twheel_op ops[NR];
	__u64 base;
	int fd;

	stay_on_one_cpu();
	fd = open_with_slack(O_RDWR, 64 * MS);
	base = now_ns() + 20 * MS;
	for (int i = 0; i < NR; i++)
		arm_at(fd, base + i * MS, i);
	CHECK(wakeups_of(fd, base, 64 * MS) <= 8);

	base = now_ns() + 20 * MS;
	for (int i = 0; i < NR; i++)
		ops[i] = op_arm(base + i * MS, TWHEEL_F_ABS, i);
	submit(fd, ops, NR);
	CHECK(wakeups_of(fd, base, 64 * MS) <= 8);
}

static void exact_ones_fire_at_their_own_ticks(void)
{
	check_own_ticks(open_with_slack(O_RDWR, HOUR / 4), TWHEEL_F_EXACT);
}

/* Each period uses the slack with which the timeout was armed. */
static void periodic_keeps_the_slack_that_it_was_armed_with(void)
{
	int fd = open_with_slack(O_RDWR, HOUR / 4);
	__u64 base = now_ns() + 5 * MS, count = 0;
	struct twheel_event event;

	arm_op(fd, op_periodic(base, 10 * MS, 6, TWHEEL_F_ABS | TWHEEL_F_EXACT, 0));
	do {
		event = read_any_event(fd);
		count += event.count;
		CHECK(event.fired_ns <= event.expires_ns + LATE_AT_MOST);
	} while (!(event.flags & TWHEEL_EV_LAST));
	CHECK_EQ(count, 6);
}

static void slack_of_another_context_is_its_own(void)
{
	int fd = open_with_slack(O_RDWR, 64 * MS), other = device_open(O_RDWR);

	check_slack_of(other, op_arm(HOUR, 0, 0), 0);
	check_slack_of(fd, op_arm(HOUR, 0, 0), 64000);
}

static const struct ktap_test tests[] = {
	TEST(neighbours_with_slack_share_wakeups),
	TEST(neighbours_moved_with_slack_share_wakeups),
	TEST(timeouts_without_slack_fire_at_their_own_ticks),
	TEST(timeout_with_slack_is_never_early),
	TEST(largest_slack_is_armed),
	TEST(mod_replaces_the_slack),
	TEST(mod_takes_the_slack_away),
	TEST(periodic_with_slack_keeps_its_phase),
	TEST(context_has_no_slack_by_default),
	TEST(slack_of_the_context_is_for_those_that_name_none),
	TEST(mod_takes_the_slack_of_the_context_too),
	TEST(exact_is_told_by_the_slack_alone),
	TEST(neighbours_share_wakeups_by_the_slack_of_the_context),
	TEST(exact_ones_fire_at_their_own_ticks),
	TEST(periodic_keeps_the_slack_that_it_was_armed_with),
	TEST(slack_of_another_context_is_its_own),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
