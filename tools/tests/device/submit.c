// SPDX-License-Identifier: GPL-2.0
/*
 * SUBMIT: many operations in one call.
 *
 * The call fails only if no operation was tried. `done` is the number of operations tried,
 * and each of them has its own result.
 */
#define _GNU_SOURCE
#include "batch.h"
#include "signals.h"

/* The call itself */

/* Arguments are checked even if there is nothing to do. */
TEST(submit_with_a_bad_field_is_einval)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	const struct twheel_submit good = { .ops = (uintptr_t)&op, .nr = 1, .op_size = sizeof(op) };
	struct twheel_submit submit = good;
	int fd = device_open(O_RDWR);

	for (int i = 0; i < 64; i++) {
		submit = good;
		submit.nr = i / 32;
		submit.flags = 1U << i % 32;
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), -EINVAL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_op_sizes); i++) {
		submit = good;
		submit.op_size = bad_op_sizes[i];
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* Returns the number of operations tried, or -errno if none was. */
static int submit_any(int fd, void *ops, __u32 nr)
{
	__u32 done;
	int ret = try_submit(fd, ops, nr, &done);

	return ret < 0 ? ret : (int)done;
}

TEST(submit_of_none_does_nothing)
{
	check_none_does_nothing(submit_any);
}

TEST(submit_at_bad_address_is_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_SUBMIT, bad[i].address), -EFAULT,
			  bad[i].name);
}

TEST(submit_of_array_at_bad_address_is_efault)
{
	check_bad_addresses(submit_any);
}

TEST(submit_tries_only_what_lies_before_a_bad_page)
{
	check_what_lies_before_a_bad_page(submit_any);
}

TEST(submit_of_too_many_for_memory_tries_what_there_is)
{
	struct twheel_op *ops = map_before(10 * sizeof(*ops), PROT_NONE);
	int fd = device_open(O_RDWR);
	__u32 done;

	fill_with_arms(ops, 10);
	CHECK_EQ(try_submit(fd, ops, ~0U, &done), 0);
	CHECK_EQ(done, 10);
	CHECK_EQ(info(fd).live, 10);
}

TEST(submit_runs_a_mix_in_order)
{
	check_mix_runs_in_order(submit_any);
}

TEST(submit_of_any_length_arms_and_cancels_all)
{
	check_any_length_arms_and_cancels_all(submit_any);
}

/* Signals */

#define MANY_OPS	scaled(50000)

static struct twheel_op *prepare_arms(void)
{
	struct twheel_op *ops = calloc(MANY_OPS, sizeof(*ops));

	CHECK(ops);
	fill_with_arms(ops, MANY_OPS);
	return ops;
}

/* Arm and cancel all timeouts, with one call each. */
static void arm_and_cancel_all(int fd, struct twheel_op *ops)
{
	submit(fd, ops, MANY_OPS);
	for (__u32 i = 0; i < MANY_OPS; i++) {
		CHECK_EQ(ops[i].result, 0);
		ops[i] = op_cancel(ops[i].id);
	}
	submit(fd, ops, MANY_OPS);
	for (__u32 i = 0; i < MANY_OPS; i++)
		CHECK_EQ(ops[i].result, 0);
	fill_with_arms(ops, MANY_OPS);
}

TEST(submit_is_not_cut_short_by_signals)
{
	struct twheel_op *ops = prepare_arms();
	int fd = device_open(O_RDWR);
	__u64 until = now_ns() + race_duration_ns(2000);

	handle_signal(SIGALRM, 0);
	signal_every(1000);
	while (now_ns() < until)
		arm_and_cancel_all(fd, ops);
	signal_every(0);
	CHECK_EQ(info(fd).live, 0);
}

/*
 * Operations for a call that takes seconds. They use little memory, which is mapped
 * repeatedly.
 */
static struct twheel_op *prepare_endless_cancels(__u32 *nr)
{
	/* a whole number of operations and of pages */
	const size_t size = sizeof(struct twheel_op) * page_size();
	const size_t times = is_slow() ? 500 : 2000;
	int memory = memfd_create("cancels", 0);
	char *map = mmap(NULL, size * times, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct twheel_op *ops;

	CHECK(memory >= 0);
	CHECK_EQ(ftruncate(memory, size), 0);
	CHECK(map != MAP_FAILED);
	for (size_t i = 0; i < times; i++)
		CHECK(mmap(map + i * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   memory, 0) != MAP_FAILED);
	ops = (struct twheel_op *)map;
	for (size_t i = 0; i < page_size(); i++)
		ops[i] = op_cancel(1);
	*nr = page_size() * times;
	return ops;
}

TEST(submit_can_be_killed)
{
	int fd = device_open(O_RDWR);
	__u32 nr, done;
	struct twheel_op *ops = prepare_endless_cancels(&nr);
	pid_t pid = fork_child();

	if (!pid) {
		for (;;)
			try_submit(fd, ops, nr, &done);
	}
	sleep_ns(100 * NSEC_PER_MSEC);
	kill_child(pid);
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}
