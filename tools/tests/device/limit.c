// SPDX-License-Identifier: GPL-2.0
/*
 * The limit of live timeouts in a context, and the counts of INFO.
 *
 * A timeout is live while it is pending or its event is unread. The limit is the value of
 * the module parameter when the file was opened.
 */
#include <pthread.h>

#include "device.h"
#include "memory.h"

#define ONE_MORE_FAILS(fd) do {						\
	__u64 none_;							\
									\
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none_), -EAGAIN);		\
} while (0)

static void check_counts(int fd, __u32 live, __u32 ready)
{
	struct twheel_info i = info(fd);

	CHECK_EQ(i.live, live);
	CHECK_EQ(i.ready, ready);
}

/* Open a context and fill it; @ids are its @limit pending timeouts. */
static int open_full(int flags, __u32 limit, __u64 *ids)
{
	int fd = device_open_limited(flags, limit);

	arm_many(fd, limit, HOUR, 0, 0, ids);
	return fd;
}

/* The limit */

static void info_tells_the_parameter_as_the_limit(void)
{
	CHECK_EQ(info(device_open(O_RDWR)).max_timeouts, parameter("max_timeouts"));
}

static void limit_is_taken_at_open(void)
{
	int before = device_open(O_RDWR), limited = device_open_limited(O_RDWR, 5);

	CHECK_EQ(info(limited).max_timeouts, 5);
	CHECK_EQ(info(before).max_timeouts, parameter("max_timeouts"));
	CHECK_EQ(info(device_open(O_RDWR)).max_timeouts, parameter("max_timeouts"));
	arm_many(before, 10, HOUR, 0, 0, NULL);
	arm_many(limited, 5, HOUR, 0, 0, NULL);
	ONE_MORE_FAILS(limited);
}

static void limit_is_exact(void)
{
	static const __u32 limits[] = { 1, 2, 5, 63, 64, 65, 255, 256, 257, 1000, 4097 };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		int fd = open_full(O_RDWR, limits[i], NULL);

		ONE_MORE_FAILS(fd);
		ONE_MORE_FAILS(fd);
		check_counts(fd, limits[i], 0);
		close(fd);
	}
}

static void use_up_the_default(void)
{
	__u32 limit = parameter("max_timeouts");
	int fd = device_open(O_RDWR);
	__u64 before;

	arm_many(fd, limit, HOUR, NSEC_PER_USEC, 0, NULL);
	ONE_MORE_FAILS(fd);
	check_counts(fd, limit, 0);
	before = now_ns();
	close(fd);
	/* Under KASAN on a busy host, this has taken more than ten seconds. */
	CHECK(now_ns() - before < 60 * NSEC_PER_SEC);
}

/* Tests the limit that the administrator has set, unless it is too high for a test. */
static void limit_by_default_can_be_used_up(void)
{
	need_speed();
	if (parameter("max_timeouts") > 2000000)
		ktap_skip("the limit is very high");
	with_room_for(parameter("max_timeouts"), use_up_the_default);
}

static void limit_is_of_each_file(void)
{
	int a = open_full(O_RDWR, 3, NULL), b = open_full(O_RDWR, 3, NULL);

	ONE_MORE_FAILS(a);
	ONE_MORE_FAILS(b);
	close(a);
	ONE_MORE_FAILS(b);
}

static void submit_arms_up_to_the_limit(void)
{
	struct twheel_op ops[100];
	int fd = device_open_limited(O_RDWR, 70);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, i);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, i < 70 ? 0 : -EAGAIN);
	check_counts(fd, 70, 0);
}

static void submit_at_the_limit_uses_a_place_freed_before(void)
{
	__u64 ids[2];
	int fd = open_full(O_RDWR, 2, ids);
	struct twheel_op ops[] = {
		op_arm(HOUR, 0, 1),
		op_cancel(ids[0]),
		op_arm(HOUR, 0, 2),
		op_arm(HOUR, 0, 3),
		op_cancel(ids[1]),
		op_arm(HOUR, 0, 4),
	};
	static const int results[] = { -EAGAIN, 0, 0, -EAGAIN, 0, 0 };

	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, results[i]);
	check_counts(fd, 2, 0);
}

static void limit_holds_back_neither_mod_nor_get(void)
{
	__u64 id;
	int fd = open_full(O_RDWR, 1, &id);

	CHECK_EQ(mod(fd, id, 2 * HOUR, 0), 0);
	CHECK_EQ(get(fd, id), 0);
	CHECK_EQ(mod(fd, id, 0, 0), 0);
	wait_ready(fd, 1);
	CHECK_EQ(mod(fd, id, HOUR, 0), TWHEEL_WITHDRAWN);
	check_counts(fd, 1, 0);
}

/* Operations that free a place */

static void cancel_of_pending_frees_a_place(void)
{
	__u64 ids[4];
	int fd = open_full(O_RDWR, 4, ids);

	for (int i = 0; i < 100; i++) {
		CHECK_EQ(cancel(fd, ids[i % 4]), 0);
		ids[i % 4] = arm(fd, HOUR, 0);
		ONE_MORE_FAILS(fd);
	}
}

static void expiry_alone_frees_no_place(void)
{
	int fd = device_open_limited(O_RDWR, 2);

	arm_fired(fd, 0);
	arm_fired(fd, 1);
	ONE_MORE_FAILS(fd);
	check_counts(fd, 2, 2);
}

static void read_of_an_event_frees_a_place(void)
{
	int fd = device_open_limited(O_RDWR, 2);

	arm_fired(fd, 0);
	arm_fired(fd, 1);
	read_event(fd);
	arm(fd, HOUR, 2);
	ONE_MORE_FAILS(fd);
	read_event(fd);
	arm(fd, HOUR, 3);
	ONE_MORE_FAILS(fd);
}

static void withdrawal_frees_a_place(void)
{
	int fd = device_open_limited(O_RDWR, 1);

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(cancel(fd, arm_fired(fd, i)), TWHEEL_WITHDRAWN);
		check_counts(fd, 0, 0);
	}
}

static void failed_read_frees_no_place(void)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, 1);

	arm_fired(fd, 0);
	CHECK_EQ(read_events(fd, map_unusable(), 1), -EFAULT);
	ONE_MORE_FAILS(fd);
}

/* Operations that fail take no place */

static void refused_arm_takes_no_place(void)
{
	int fd = device_open_limited(O_RDWR, 3);

	for (int i = 0; i < 50; i++) {
		struct twheel_op op = op_arm(HOUR, 0, 0);
		__u64 none;

		CHECK_EQ(try_arm(fd, ~0ULL, 0, 0, &none), -EINVAL);
		op.reserved = 1;
		submit(fd, &op, 1);
		CHECK_EQ(op.result, -EINVAL);
	}
	arm_many(fd, 3, HOUR, 0, 0, NULL);
	ONE_MORE_FAILS(fd);
}

static void arm_at_bad_address_takes_no_place(void)
{
	const struct twheel_op op = op_arm(HOUR, 0, 0);
	struct twheel_op *read_only = map_read_only(&op, sizeof(op));
	int fd = device_open_limited(O_RDWR, 3);
	__u32 done;

	for (int i = 0; i < 50; i++) {
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, read_only), -EFAULT);
		CHECK_EQ(try_submit(fd, read_only, 1, &done), -EFAULT);
	}
	arm_many(fd, 3, HOUR, 0, 0, NULL);
	ONE_MORE_FAILS(fd);
}

static void arm_beyond_the_limit_takes_no_place(void)
{
	__u64 ids[3];
	int fd = open_full(O_RDWR, 3, ids);

	for (int i = 0; i < 50; i++)
		ONE_MORE_FAILS(fd);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	arm_many(fd, 3, HOUR, 0, 0, NULL);
	ONE_MORE_FAILS(fd);
}

static void mod_and_cancel_of_dead_ids_free_no_place(void)
{
	__u64 id;
	int fd = open_full(O_RDWR, 1, &id);

	for (int i = 0; i < 50; i++) {
		CHECK_EQ(cancel(fd, id + (1ULL << 32)), -ENOENT);
		CHECK_EQ(mod(fd, id + (1ULL << 32), 0, 0), -ENOENT);
	}
	ONE_MORE_FAILS(fd);
	check_counts(fd, 1, 0);
}

/* Under concurrency */

#define CROWD		4

struct member {
	pthread_t thread;
	int fd;
	unsigned int armed;
};

static void *arm_as_often_as_possible(void *arg)
{
	struct member *member = arg;
	__u64 id;

	for (int i = 0; i < 500; i++)
		member->armed += !try_arm(member->fd, HOUR, 0, 0, &id);
	return NULL;
}

static void limit_is_exact_for_a_crowd(void)
{
	struct member members[CROWD];
	int fd = device_open_limited(O_RDWR, 777);
	unsigned int armed = 0;

	for (int i = 0; i < CROWD; i++) {
		members[i] = (struct member) { .fd = fd };
		pthread_create(&members[i].thread, NULL, arm_as_often_as_possible, &members[i]);
	}
	for (int i = 0; i < CROWD; i++) {
		pthread_join(members[i].thread, NULL);
		armed += members[i].armed;
	}
	CHECK_EQ(armed, 777);
	check_counts(fd, 777, 0);
}

/* Each thread holds at most one place, so none may ever be refused. */
static void *come_and_go(void *arg)
{
	struct member *member = arg;

	for (int i = 0; i < 1000; i++)
		CHECK_EQ(cancel(member->fd, arm(member->fd, HOUR, 0)), 0);
	return NULL;
}

static void place_given_back_is_there_at_once_for_a_crowd(void)
{
	struct member members[CROWD];
	int fd = device_open_limited(O_RDWR, CROWD);

	for (int i = 0; i < CROWD; i++) {
		members[i] = (struct member) { .fd = fd };
		pthread_create(&members[i].thread, NULL, come_and_go, &members[i]);
	}
	for (int i = 0; i < CROWD; i++)
		pthread_join(members[i].thread, NULL);
	check_counts(fd, 0, 0);
	arm_many(fd, CROWD, HOUR, 0, 0, NULL);
	ONE_MORE_FAILS(fd);
}

/* The counts */

static void counts_follow_every_step(void)
{
	int fd = device_open(O_RDWR);
	__u64 a, b, c;

	check_counts(fd, 0, 0);
	a = arm(fd, HOUR, 0);
	check_counts(fd, 1, 0);
	b = arm_fired(fd, 1);
	check_counts(fd, 2, 1);
	c = arm_fired(fd, 2);
	check_counts(fd, 3, 2);
	CHECK_EQ(mod(fd, c, HOUR, 3), TWHEEL_WITHDRAWN);
	check_counts(fd, 3, 1);
	CHECK_EQ(cancel(fd, b), TWHEEL_WITHDRAWN);
	check_counts(fd, 2, 0);
	CHECK_EQ(cancel(fd, a), 0);
	check_counts(fd, 1, 0);
	CHECK_EQ(mod(fd, c, 0, 4), 0);
	wait_ready(fd, 1);
	check_counts(fd, 1, 1);
	read_event(fd);
	check_counts(fd, 0, 0);
}

static void counts_of_many_are_exact(void)
{
	struct twheel_event events[300];
	__u64 ids[1000];
	int fd = device_open(O_RDWR);

	arm_many(fd, 1000, HOUR, 0, 0, ids);
	arm_many(fd, 2000, 0, 0, 0, NULL);
	wait_ready(fd, 2000);
	check_counts(fd, 3000, 2000);
	CHECK_EQ(read_events(fd, events, 300), 300);
	check_counts(fd, 2700, 1700);
	for (int i = 0; i < 400; i++)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	check_counts(fd, 2300, 1700);
}

static const struct ktap_test tests[] = {
	TEST(info_tells_the_parameter_as_the_limit),
	TEST(limit_is_taken_at_open),
	TEST(limit_is_exact),
	TEST(limit_by_default_can_be_used_up),
	TEST(limit_is_of_each_file),
	TEST(submit_arms_up_to_the_limit),
	TEST(submit_at_the_limit_uses_a_place_freed_before),
	TEST(limit_holds_back_neither_mod_nor_get),
	TEST(cancel_of_pending_frees_a_place),
	TEST(expiry_alone_frees_no_place),
	TEST(read_of_an_event_frees_a_place),
	TEST(withdrawal_frees_a_place),
	TEST(failed_read_frees_no_place),
	TEST(refused_arm_takes_no_place),
	TEST(arm_at_bad_address_takes_no_place),
	TEST(arm_beyond_the_limit_takes_no_place),
	TEST(mod_and_cancel_of_dead_ids_free_no_place),
	TEST(limit_is_exact_for_a_crowd),
	TEST(place_given_back_is_there_at_once_for_a_crowd),
	TEST(counts_follow_every_step),
	TEST(counts_of_many_are_exact),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
