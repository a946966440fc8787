// SPDX-License-Identifier: GPL-2.0
/*
 * Slack: a timeout may fire later, so that it shares a wakeup with others; never
 * earlier, and never later than that.
 */
#define _GNU_SOURCE
#include "cpu.h"

#define MS		NSEC_PER_MSEC
#define LATE_AT_MOST	(5 * NSEC_PER_SEC)
#define NR		100

static struct twheel_op op_slack(__u64 expires_ns, __u32 flags, __u64 slack_ns, __u64 cookie)
{
	struct twheel_op op = op_arm(expires_ns, flags, cookie);

	op.slack_us = slack_ns / NSEC_PER_USEC;
	return op;
}

/* At how many different times @NR timeouts a millisecond apart have fired. */
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

static void timeouts_without_slack_fire_at_their_own_ticks(void)
{
	int fd = device_open(O_RDWR);
	__u64 base, first;

	stay_on_one_cpu();
	base = now_ns() + 50 * MS;
	arm_op(fd, op_slack(base, TWHEEL_F_ABS, 0, 0));
	arm_op(fd, op_slack(base + 100 * MS, TWHEEL_F_ABS, 0, 1));
	first = read_event(fd).fired_ns;
	CHECK(first < base + 100 * MS || now_ns() > base + 100 * MS);
	CHECK(read_event(fd).fired_ns > first);
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

/* A mod without slack must not go by the slack of before. */
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

static const struct ktap_test tests[] = {
	TEST(neighbours_with_slack_share_wakeups),
	TEST(neighbours_moved_with_slack_share_wakeups),
	TEST(timeouts_without_slack_fire_at_their_own_ticks),
	TEST(timeout_with_slack_is_never_early),
	TEST(largest_slack_is_armed),
	TEST(mod_replaces_the_slack),
	TEST(mod_takes_the_slack_away),
	TEST(periodic_with_slack_keeps_its_phase),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
