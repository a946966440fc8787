// SPDX-License-Identifier: GPL-2.0
/*
 * SUBMIT: many operations in one call, by the ioctl or as a command of an io_uring.
 *
 * The call fails only if no operation was tried. `done`, or the result of the command, is the
 * number of operations tried, and each of them has its own result.
 */
#define _GNU_SOURCE
#include "memory.h"
#include "ring.h"
#include "signals.h"

static void fill_with_arms(struct twheel_op *ops, __u32 nr)
{
	for (__u32 i = 0; i < nr; i++)
		ops[i] = op_arm(HOUR + i, 0, i);
}

/* Ways to submit: each returns the number of operations tried, or -errno if none was */

static int submit_by_ioctl(int fd, void *ops, __u32 nr)
{
	__u32 done;
	int ret = try_submit(fd, ops, nr, &done);

	return ret < 0 ? ret : (int)done;
}

static struct ring ring;

static int submit_by_command(int fd, void *ops, __u32 nr)
{
	ring_prepare_command(&ring, fd, ops, nr, 0);
	ring_submit(&ring);
	return ring_wait(&ring, NULL);
}

static const struct way {
	const char *name;
	int (*submit)(int fd, void *ops, __u32 nr);
	unsigned int flags;		/* of the ring */
} ways[] = {
	{ "ioctl", submit_by_ioctl, 0 },
	{ "command", submit_by_command, 0 },
	{ "command of a thread of the ring", submit_by_command, IORING_SETUP_SQPOLL },
};

static const struct way *way;
static void (*check_way)(void);

static void try_way(void)
{
	if (way->submit == submit_by_command) {
		skip_without_commands(device_open(O_RDWR));
		ring = ring_open(way->flags);
	}
	check_way();
}

/* Leave out ways that this kernel does not have. */
static void in_each_way(void (*check)(void))
{
	check_way = check;
	for_each_row(row, ways) {
		int status;

		way = row;
		status = status_of(try_way);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != KTAP_EXIT_SKIP)
			exit_unless_passed(status);
	}
}

/* In each way */

static void check_mix_runs_in_order(void)
{
	static const int results[] = {
		0, 0, 0, 0, -EINVAL, 0, -ENOENT, -ENOENT, -ENOENT,
		TWHEEL_WITHDRAWN, TWHEEL_WITHDRAWN,
	};
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, HOUR, 1);
	struct twheel_op ops[] = {
		op_get(id),
		op_mod(id, 2 * HOUR, 0, 2),
		op_get(id),
		op_arm(HOUR, 0, 3),
		op_arm(~0ULL, 0, 4),
		op_cancel(id),
		op_get(id),
		op_cancel(id),
		op_mod(id, HOUR, 0, 4),
		op_cancel(arm_fired(fd, 5)),
		op_mod(arm_fired(fd, 6), HOUR, 0, 7),
	};

	CHECK_EQ(way->submit(fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, results[i]);
	CHECK_EQ(ops[0].cookie, 1);
	CHECK_EQ(ops[2].cookie, 2);
	CHECK(ops[2].expires_ns > HOUR);
	check_no_event(fd);
	CHECK_EQ(cancel(fd, ops[3].id), 0);
	CHECK_EQ(info(fd).live, 1);
}

TEST(submit_runs_a_mix_in_order)
{
	in_each_way(check_mix_runs_in_order);
}

static void check_none_does_nothing(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(way->submit(fd, &op, 0), 0);
	CHECK_EQ(way->submit(fd, NULL, 0), 0);
	CHECK_EQ(way->submit(fd, map_unusable(), 0), 0);
	CHECK_EQ(info(fd).live, 0);
}

TEST(submit_of_none_does_nothing)
{
	in_each_way(check_none_does_nothing);
}

/* If the array can only be read, the ids would be lost. */
static void check_bad_addresses(void)
{
	const struct twheel_op op = op_arm(0, 0, 0);
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR | O_NONBLOCK);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ROW(way->submit(fd, bad[i].address, 1), -EFAULT, bad[i].name);
		CHECK_ROW(way->submit(fd, bad[i].address, 1000), -EFAULT, bad[i].name);
	}
	CHECK_EQ(way->submit(fd, map_read_only(&op, sizeof(op)), 1), -EFAULT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
}

TEST(submit_of_array_at_bad_address_is_efault)
{
	in_each_way(check_bad_addresses);
}

/* @usable entries, and @part bytes of the next one, before a page with @protection. */
static void check_partial_access(__u32 usable, size_t part, int protection)
{
	__u32 nr = usable + 20;
	struct twheel_op *ops = calloc(nr, sizeof(*ops));
	size_t size = usable * sizeof(*ops) + part;
	void *place = map_before(size, PROT_READ | PROT_WRITE);
	int fd = device_open(O_RDWR);

	CHECK(ops);
	fill_with_arms(ops, nr);
	memcpy(place, ops, nr * sizeof(*ops));
	protect_page(place + size, protection);
	CHECK_EQ(way->submit(fd, place, nr), usable);
	CHECK_EQ(info(fd).live, usable);
	memcpy(ops, place, usable * sizeof(*ops));
	for (__u32 i = 0; i < usable; i++) {
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(cancel(fd, ops[i].id), 0);
	}
	free(ops);
	close(fd);
}

static void check_what_lies_before_a_bad_page(void)
{
	static const struct {
		__u32	usable;
		size_t	part;
		int	protection;
	} rows[] = {
		{ 1, 0, PROT_NONE }, { 5, 0, PROT_NONE }, { 32, 0, PROT_NONE },
		{ 33, 0, PROT_NONE }, { 100, 0, PROT_NONE }, { 1000, 0, PROT_NONE },
		{ 1, 0, PROT_READ }, { 33, 0, PROT_READ }, { 1000, 0, PROT_READ },
		/* an entry that is partly bad is not tried */
		{ 1, 8, PROT_NONE }, { 31, 48, PROT_NONE }, { 40, 4, PROT_NONE },
		{ 1000, 16, PROT_NONE },
		/* its id is on the writable page, its result on the other one */
		{ 1, 48, PROT_READ }, { 40, 16, PROT_READ }, { 1000, 48, PROT_READ },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ktap_note("%u entries and %zu bytes, protection %d", rows[i].usable, rows[i].part,
			  rows[i].protection);
		check_partial_access(rows[i].usable, rows[i].part, rows[i].protection);
	}
}

TEST(submit_tries_only_what_lies_before_a_bad_page)
{
	in_each_way(check_what_lies_before_a_bad_page);
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
