// SPDX-License-Identifier: GPL-2.0
/*
 * SETUP: clock, geometry and limit of a file. It works once, and some values need
 * privileges.
 */
#include <pthread.h>

#include <sys/mman.h>

#include "device.h"
#include "group.h"
#include "memory.h"
#include "privilege.h"

#define USER		4711		/* users with no other open file */
#define OTHER_USER	4712

static const struct twheel_setup plain;

static void check_default_but_clock(int fd, __u32 clock)
{
	struct twheel_info i = info(fd), fresh = info(device_open(O_RDWR));

	CHECK_EQ(i.clock, clock);
	CHECK_EQ(i.flags, 0);
	CHECK_EQ(i.tick_ns, fresh.tick_ns);
	CHECK_EQ(i.slots, fresh.slots);
	CHECK_EQ(i.levels, fresh.levels);
	CHECK_EQ(i.max_timeouts, fresh.max_timeouts);
	CHECK_EQ(i.slack_us, 0);
}

/* The file still has the shared wheel, and no operation has taken effect. */
static void check_still_new(int fd)
{
	check_default_but_clock(fd, CLOCK_MONOTONIC);
	CHECK_EQ(try_setup(fd, plain), 0);
}

/* Arguments that are accepted */

TEST(setup_of_zeros_is_the_default)
{
	int fd = device_open_setup(O_RDWR, (struct twheel_setup) { 0 });

	check_default_but_clock(fd, CLOCK_MONOTONIC);
	/* CLOCK_REALTIME would refuse a relative time */
	arm(fd, NSEC_PER_MSEC, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

TEST(setup_of_nothing_but_a_clock_is_the_default)
{
	static const __u32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (size_t c = 0; c < ARRAY_SIZE(clocks); c++)
		check_default_but_clock(device_open_setup(O_RDWR, setup_clock(clocks[c])),
					clocks[c]);
}

TEST(clock_without_its_flag_is_einval)
{
	static const __u32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, 2, 1U << 31, ~0U };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct twheel_setup setup = { .clock = clocks[i] };

		CHECK_EQ(try_setup(fd, setup), -EINVAL);
	}
	check_still_new(fd);
}

TEST(setup_with_another_clock_is_einval)
{
	static const __u32 clocks[] = {
		CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
		CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_ALARM,
		CLOCK_BOOTTIME_ALARM, CLOCK_TAI, 12, 1U << 31, ~0U,
	};
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		CHECK_EQ(try_setup(fd, setup_clock(clocks[i])), -EINVAL);
	check_still_new(fd);
}

static const struct bad_setup {
	const char *name;
	struct twheel_setup setup;
} bad_setups[] = {
	{ "tick beyond INT64_MAX", { .tick_ns = EXPIRES_MAX + 1 } },
	{ "tick, all bits", { .tick_ns = ~0ULL } },
	{ "one slot", { .slots = 1 } },
	{ "too many slots", { .slots = 65537 } },
	{ "slots, highest bit", { .slots = 1U << 31 } },
	{ "slots, all bits", { .slots = ~0U } },
	{ "max_timeouts, all bits", { .max_timeouts = ~0U } },
	{ "first unknown flag", { .flags = 1U << 1 } },
	{ "flags, highest bit", { .flags = 1U << 31 } },
	{ "known and unknown flag", { .flags = TWHEEL_SETUP_CLOCK | 1U << 31 } },
	{ "reserved[0], lowest bit", { .reserved = { 1, 0, 0 } } },
	{ "reserved[1], highest bit", { .reserved = { 0, 1ULL << 63, 0 } } },
	{ "reserved[2], lowest bit", { .reserved = { 0, 0, 1 } } },
	{ "reserved[2], highest bit", { .reserved = { 0, 0, 1ULL << 63 } } },
};

TEST(setup_with_a_bad_field_is_einval)
{
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(bad_setups); i++)
		CHECK_ROW(try_setup(fd, bad_setups[i].setup), -EINVAL, bad_setups[i].name);
	check_still_new(fd);
}

TEST(setup_at_bad_address_is_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);
	void *cut = map_before(sizeof(plain) - 1, PROT_NONE);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_SETUP, bad[i].address), -EFAULT, bad[i].name);
	memcpy(cut, &plain, sizeof(plain) - 1);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SETUP, cut), -EFAULT);
	check_still_new(fd);
}

TEST(setup_from_read_only_memory_is_allowed)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SETUP, map_read_only(&plain, sizeof(plain))), 0);
}

TEST(setup_on_read_only_descriptor_is_ebadf)
{
	CHECK_EQ(try_setup(device_open(O_RDONLY), plain), -EBADF);
}

TEST(setup_on_write_only_descriptor_is_allowed)
{
	CHECK_EQ(try_setup(device_open(O_WRONLY), plain), 0);
}

/* Only once, and only before other operations */

TEST(setup_is_ebusy_the_second_time)
{
	struct twheel_setup other = setup_clock(CLOCK_BOOTTIME);
	int fd = device_open_setup(O_RDWR, plain);

	other.max_timeouts = 5;
	CHECK_EQ(try_setup(fd, plain), -EBUSY);
	CHECK_EQ(try_setup(fd, other), -EBUSY);
	CHECK_EQ(info(fd).clock, CLOCK_MONOTONIC);
	CHECK(info(fd).max_timeouts != 5);
}

TEST(setup_with_a_bad_field_is_einval_the_second_time)
{
	struct twheel_setup bad = { .flags = 1U << 31 };

	CHECK_EQ(try_setup(device_open_setup(O_RDWR, plain), bad), -EINVAL);
}

static void do_arm(int fd)
{
	arm(fd, HOUR, 0);
}

static void do_submit(int fd)
{
	struct twheel_op ops[] = { op_cancel(1), op_arm(~0ULL, 0, 0), op_arm(HOUR, 0, 0) };

	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[2].result, 0);
}

/* The first id of a context is known in advance. */
static void do_arm_and_cancel(int fd)
{
	struct twheel_op ops[] = { op_arm(HOUR, 0, 0), op_cancel(1ULL << 32) };

	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[1].result, 0);
}

static void do_mmap(int fd)
{
	CHECK(mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static void do_stop(int fd)
{
	CHECK_EQ(stop(fd), 0);
}

static void do_setup(int fd)
{
	CHECK_EQ(try_setup(fd, plain), 0);
}

TEST(setup_after_an_operation_is_ebusy)
{
	static void (*const operations[])(int fd) = {
		do_arm, do_submit, do_arm_and_cancel, do_mmap, do_stop, do_setup,
	};

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		int fd = device_open(O_RDWR);

		operations[i](fd);
		CHECK_EQ(try_setup(fd, plain), -EBUSY);
		CHECK_EQ(try_setup(fd, setup_clock(CLOCK_BOOTTIME)), -EBUSY);
	}
}

/* The context has begun for good, even if it has no timeouts any more. */
TEST(setup_after_the_last_timeout_is_ebusy)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(cancel(fd, arm(fd, HOUR, 0)), 0);
	CHECK_EQ(try_setup(fd, plain), -EBUSY);
}

/* Calls that do not begin a context, because they fail or have nothing to do. */

static void bad_arm(int fd)
{
	__u64 none;

	CHECK_EQ(try_arm(fd, ~0ULL, 0, 0, &none), -EINVAL);
	CHECK_EQ(try_arm(fd, 0, 1U << 31, 0, &none), -EINVAL);
}

static void arm_at_bad_address(int fd)
{
	const struct twheel_op op = op_arm(HOUR, 0, 0);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, map_unusable()), -EFAULT);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, map_read_only(&op, sizeof(op))), -EFAULT);
}

static void mod_of_none(int fd)
{
	CHECK_EQ(mod(fd, 1, HOUR, 0), -ENOENT);
	CHECK_EQ(mod(fd, 1ULL << 32, HOUR, 0), -ENOENT);
	CHECK_EQ(mod(fd, 1, ~0ULL, 0), -EINVAL);
}

static void cancel_of_none(int fd)
{
	CHECK_EQ(cancel(fd, 1), -ENOENT);
	CHECK_EQ(cancel(fd, 1ULL << 32), -ENOENT);
}

static void get_of_none(int fd)
{
	CHECK_EQ(get(fd, 1), -ENOENT);
	CHECK_EQ(get(fd, 1ULL << 32), -ENOENT);
}

static void cancel_all_of_none(int fd)
{
	struct twheel_cancel_all all = { 0 };

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending + all.withdrawn, 0);
}

static void submit_that_arms_none(int fd)
{
	struct twheel_op ops[] = {
		op_arm(~0ULL, 0, 0), op_cancel(1), op_mod(1, HOUR, 0, 0), op_get(1),
	};
	__u32 done;

	submit(fd, ops, ARRAY_SIZE(ops));
	submit(fd, ops, 0);
	CHECK_EQ(try_submit(fd, map_unusable(), 5, &done), -EFAULT);
	ops[0] = op_arm(HOUR, 0, 0);
	CHECK_EQ(try_submit(fd, map_read_only(ops, sizeof(ops[0])), 1, &done), -EFAULT);
}

/* Long enough that the module searches for runs of arms. */
static void submit_of_many_that_arms_none(int fd)
{
	struct twheel_op ops[200];

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 1U << 31, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, -EINVAL);
}

static void list_of_none(int fd)
{
	struct twheel_list_entry entry;
	struct twheel_list list = {
		.entries = (uintptr_t)&entry, .nr = 1, .entry_size = sizeof(entry),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK_EQ(list.done, 0);
}

static void look_at_it(int fd)
{
	struct twheel_stats stats;

	info(fd);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_STATS, &stats), 0);
	check_no_event(fd);
}

static void bad_setup(int fd)
{
	CHECK_EQ(try_setup(fd, (struct twheel_setup) { .slots = 1 }), -EINVAL);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SETUP, map_unusable()), -EFAULT);
}

static void bad_mmap(int fd)
{
	size_t cells = info(fd).cells * sizeof(struct twheel_cell);

	CHECK(mmap(NULL, page_size(), PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, page_size()) == MAP_FAILED);
	CHECK(mmap(NULL, cells + 1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, page_size(), PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED);
}

static void unknown_command(int fd)
{
	CHECK_EQ(device_ioctl(fd, _IO(TWHEEL_IOC_MAGIC, 0x7f), NULL), -ENOTTY);
}

/*
 * SETUP then takes effect for everything that is armed later: it selects the clock, and a
 * tick that is longer than usual. Records that the failed calls have left were made for
 * another wheel and must not be used.
 */
static void check_can_be_set_up(int fd)
{
	const struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME, .tick_ns = 20 * NSEC_PER_MSEC,
		.slots = 64, .max_timeouts = 100,
	};
	struct twheel_info i;

	CHECK_EQ(try_setup(fd, setup), 0);
	i = info(fd);
	CHECK_EQ(i.clock, CLOCK_BOOTTIME);
	CHECK_EQ(i.tick_ns, setup.tick_ns);
	CHECK_EQ(i.flags, TWHEEL_INFO_PRIVATE);
	CHECK_EQ(i.max_timeouts, 100);
	for (int n = 0; n < 4; n++) {
		struct twheel_event event;

		arm(fd, n * NSEC_PER_MSEC, n);
		wait_ready(fd, 1);
		event = read_event_on(CLOCK_BOOTTIME, fd);
		CHECK(event.fired_ns / setup.tick_ns * setup.tick_ns >= event.expires_ns);
	}
}

static void (*const idle_calls[])(int fd) = {
	bad_arm, arm_at_bad_address, mod_of_none, cancel_of_none, get_of_none,
	cancel_all_of_none, submit_that_arms_none, submit_of_many_that_arms_none, list_of_none,
	look_at_it, bad_setup, bad_mmap, unknown_command,
};

TEST(setup_after_a_call_that_did_nothing_is_allowed)
{
	for (size_t i = 0; i < ARRAY_SIZE(idle_calls); i++) {
		int fd = device_open(O_RDWR | O_NONBLOCK);

		idle_calls[i](fd);
		check_still_new(fd);
		close(fd);
		fd = device_open(O_RDWR | O_NONBLOCK);
		idle_calls[i](fd);
		check_can_be_set_up(fd);
		close(fd);
	}
}

TEST(setup_after_all_that_did_nothing_is_allowed)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	for (size_t i = 0; i < ARRAY_SIZE(idle_calls); i++)
		idle_calls[i](fd);
	check_can_be_set_up(fd);
}

static void set_up_after_eagain(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd;
	__u64 none;

	become_user(USER);
	fd = device_open(O_RDWR);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EAGAIN);
	check_still_new(fd);
}

TEST(setup_after_an_arm_at_the_limit_is_allowed)
{
	with_parameter("max_user_timeouts", 1, set_up_after_eagain);
}

/* The id could not be written; the page that was made for the timeout is still there. */
TEST(setup_after_an_arm_that_left_a_page_is_of_its_wheel)
{
	const struct twheel_op op = op_arm(0, 0, 0);
	struct twheel_op *read_only = map_read_only(&op, sizeof(op));
	int fd = device_open(O_RDWR | O_NONBLOCK);

	for (int i = 0; i < 100; i++)
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, read_only), -EFAULT);
	check_can_be_set_up(fd);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

struct contender {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int fd;
	struct twheel_setup setup;
	int ret;
};

static void *contend(void *arg)
{
	struct contender *contender = arg;

	pthread_barrier_wait(contender->barrier);
	contender->ret = try_setup(contender->fd, contender->setup);
	return NULL;
}

static void check_one_wins(int fd)
{
	struct contender contenders[2];
	pthread_barrier_t barrier;
	int winner;

	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++) {
		contenders[i] = (struct contender) {
			.barrier = &barrier,
			.fd = fd,
			.setup = setup_clock(i ? CLOCK_BOOTTIME : CLOCK_MONOTONIC),
		};
		contenders[i].setup.slots = 32;
		pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(contenders[i].thread, NULL);
	winner = contenders[0].ret ? 1 : 0;
	CHECK_EQ(contenders[winner].ret, 0);
	CHECK_EQ(contenders[!winner].ret, -EBUSY);
	CHECK_EQ(info(fd).clock, contenders[winner].setup.clock);
}

TEST(setup_by_two_is_won_by_one)
{
	for (int i = 0; i < 30; i++) {
		int fd = device_open(O_RDWR);

		check_one_wins(fd);
		close(fd);
	}
}

static void *arm_at_once(void *arg)
{
	struct contender *contender = arg;

	pthread_barrier_wait(contender->barrier);
	arm(contender->fd, 0, 7);
	return NULL;
}

TEST(arm_against_setup_makes_an_event)
{
	for (int i = 0; i < 30; i++) {
		struct contender armer, setter;
		pthread_barrier_t barrier;

		CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
		armer = (struct contender) { .barrier = &barrier, .fd = device_open(O_RDWR) };
		setter = armer;
		setter.setup.slots = 32;
		pthread_create(&armer.thread, NULL, arm_at_once, &armer);
		pthread_create(&setter.thread, NULL, contend, &setter);
		pthread_join(armer.thread, NULL);
		pthread_join(setter.thread, NULL);
		CHECK(setter.ret == 0 || setter.ret == -EBUSY);
		CHECK_EQ(info(armer.fd).flags, setter.ret ? 0 : TWHEEL_INFO_PRIVATE);
		CHECK_EQ(read_event(armer.fd).cookie, 7);
		close(armer.fd);
	}
}

/* Geometry */

TEST(slots_are_rounded_up_to_a_power_of_two)
{
	static const __u32 slots[][2] = {
		{ 2, 2 }, { 3, 4 }, { 5, 8 }, { 50, 64 }, { 257, 512 }, { 1024, 1024 },
		{ 32769, 65536 }, { 65536, 65536 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		struct twheel_setup setup = { .slots = slots[i][0], .levels = 1 };
		int fd = device_open_setup(O_RDWR, setup);

		CHECK_EQ(info(fd).slots, slots[i][1]);
		CHECK_EQ(info(fd).levels, 1);
		CHECK_EQ(info(fd).flags, TWHEEL_INFO_PRIVATE);
		close(fd);
	}
}

TEST(default_geometry_in_other_words_shares_the_wheel)
{
	struct twheel_info fresh = info(device_open(O_RDWR));
	const struct twheel_setup same[] = {
		{ .tick_ns = fresh.tick_ns },
		{ .slots = fresh.slots },
		{ .slots = fresh.slots - 1 },
		{ .levels = fresh.levels },
		{ .levels = 2 },
		{ .levels = ~0U },
		{ .tick_ns = fresh.tick_ns, .slots = fresh.slots, .levels = fresh.levels },
		{ .max_timeouts = 5 },
		{ .slack_us = 5 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		CHECK_EQ(info(device_open_setup(O_RDWR, same[i])).flags, 0);
}

/* One level is what it says. Otherwise there are as many as S64_MAX needs. */
TEST(levels_are_one_or_as_many_as_all_ticks_need)
{
	static const __u32 rows[][3] = {
		{ 2, 1, 1 }, { 65536, 1, 1 }, { 2, 0, 9 }, { 2, 2, 9 }, { 2, 13, 9 },
		{ 4096, 3, 7 }, { 65536, 2, 6 }, { 65536, ~0U, 6 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_setup setup = { .slots = rows[i][0], .levels = rows[i][1] };
		int fd = device_open_setup(O_RDWR, setup);

		CHECK_EQ(info(fd).levels, rows[i][2]);
		close(fd);
	}
}

static const struct twheel_setup geometries[] = {
	{ .tick_ns = 1 },
	{ .tick_ns = 1000, .slots = 16 },
	{ .tick_ns = 100000 },
	{ .tick_ns = 100000, .slots = 50 },
	{ .tick_ns = 1000000, .slots = 2, .levels = 1 },
	{ .tick_ns = 1000000, .slots = 2 },
	{ .tick_ns = 1000000, .slots = 65536, .levels = 1 },
	{ .tick_ns = 1000000, .slots = 65536 },
	{ .tick_ns = 999983, .slots = 32, .levels = 1 },
	{ .tick_ns = 7777777, .slots = 8 },
	{ .tick_ns = 30000000 },
};

static void check_on_time(int fd, __u64 tick_ns)
{
	__u64 base = now_ns() + 5 * NSEC_PER_MSEC, far = arm(fd, HOUR, 1000);
	struct twheel_event event;

	for (int i = 0; i < 40; i++)
		arm_at(fd, base + i * 1111111ULL, i);
	for (int i = 0; i < 40; i++) {
		event = read_event(fd);
		CHECK(event.cookie < 40);
		CHECK_EQ(event.expires_ns, base + event.cookie * 1111111ULL);
		/*
		 * It is taken out at a tick, so not before the tick that follows the
		 * deadline.
		 */
		CHECK(event.fired_ns / tick_ns * tick_ns >= event.expires_ns);
	}
	CHECK_EQ(cancel(fd, far), 0);
}

TEST(wheel_of_any_geometry_fires_on_time)
{
	for (size_t i = 0; i < ARRAY_SIZE(geometries); i++) {
		struct twheel_setup setup = geometries[i];
		int fd = device_open_setup(O_RDWR, setup);

		if (setup.tick_ns)
			CHECK_EQ(info(fd).tick_ns, setup.tick_ns);
		CHECK_EQ(info(fd).flags, TWHEEL_INFO_PRIVATE);
		check_on_time(fd, setup.tick_ns);
		close(fd);
	}
}

TEST(hashed_wheel_with_the_shortest_round_fires)
{
	struct twheel_setup setup = { .tick_ns = 500000, .slots = 2, .levels = 1 };

	check_on_time(device_open_setup(O_RDWR, setup), setup.tick_ns);
}

TEST(shorter_rounds_are_refused)
{
	static const struct twheel_setup setups[] = {
		{ .tick_ns = 1, .slots = 2, .levels = 1 },
		{ .tick_ns = 1, .slots = 65536, .levels = 1 },
		{ .tick_ns = 499999, .slots = 2, .levels = 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(setups); i++)
		CHECK_EQ(try_setup(device_open(O_RDWR), setups[i]), -EINVAL);
}

TEST(longest_tick_waits)
{
	struct twheel_setup setup = { .tick_ns = 24 * HOUR };
	int fd = device_open_setup(O_RDWR | O_NONBLOCK, setup);

	CHECK_EQ(info(fd).tick_ns, 24 * HOUR);
	arm(fd, NSEC_PER_MSEC, 0);
	sleep_ns(30 * NSEC_PER_MSEC);
	check_no_event(fd);
}

TEST(wheels_of_their_own_are_independent)
{
	struct twheel_setup setup = { .slots = 16 };
	int a = device_open_setup(O_RDWR, setup), b = device_open_setup(O_RDWR, setup);
	__u64 id = arm(a, 20 * NSEC_PER_MSEC, 1);

	arm_many(b, scaled(10000), HOUR, NSEC_PER_MSEC, 0, NULL);
	close(b);
	CHECK_EQ(get(a, id), 0);
	CHECK_EQ(read_event(a).cookie, 1);
}

TEST(close_of_a_wheel_of_its_own_is_quick)
{
	struct twheel_setup setup = { .slots = 16 };
	int fd = device_open_setup(O_RDWR, setup);
	__u64 before;

	arm_many(fd, scaled(50000), 0, 10 * NSEC_PER_USEC, 0, NULL);
	before = now_ns();
	close(fd);
	CHECK(now_ns() - before < quick_ns());
}

/* Limit of timeouts */

TEST(setup_lowers_the_limit_for_everybody)
{
	struct twheel_setup setup = { .max_timeouts = 100 };
	__u64 none;
	int fd;

	set_capabilities(0);
	fd = device_open_setup(O_RDWR, setup);
	CHECK_EQ(info(fd).max_timeouts, 100);
	arm_many(fd, 100, HOUR, 0, 0, NULL);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
}

TEST(setup_raises_the_limit_with_cap_sys_resource)
{
	__u32 limit = parameter("max_timeouts");
	struct twheel_setup setup = { .max_timeouts = limit + 1 };
	int fd;

	CHECK_EQ(info(device_open_setup(O_RDWR, setup)).max_timeouts, limit + 1);
	set_capabilities(~CAP(SYS_RESOURCE) & CAP(DAC_OVERRIDE));
	fd = device_open(O_RDWR);
	CHECK_EQ(try_setup(fd, setup), -EPERM);
	setup.max_timeouts = limit;
	CHECK_EQ(try_setup(fd, setup), 0);
	CHECK_EQ(info(fd).max_timeouts, limit);
}

TEST(raised_limit_can_be_used_up)
{
	struct twheel_setup setup = { .max_timeouts = 1000 };
	int fd = device_open_limited(O_RDWR, 10);
	__u64 none;

	CHECK_EQ(info(fd).max_timeouts, 10);
	CHECK_EQ(try_setup(fd, setup), 0);
	arm_many(fd, 1000, HOUR, 0, 0, NULL);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
}

/* Values that need CAP_SYS_RESOURCE */

static const struct modesty {
	const char *name;
	struct twheel_setup setup;
	int ret;			/* result without the capability */
} modesty[] = {
	{ "shortest tick", { .tick_ns = 100000 }, 0 },
	{ "tick too short", { .tick_ns = 99999 }, -EPERM },
	{ "tick of a nanosecond", { .tick_ns = 1 }, -EPERM },
	{ "many slots", { .slots = 8192 }, 0 },
	{ "fewest slots", { .slots = 2 }, 0 },
	{ "two levels", { .slots = 2, .levels = 2 }, 0 },
	{ "levels, all bits", { .levels = ~0U }, 0 },
	{ "one level", { .levels = 1 }, -EPERM },
	{ "one level, few timeouts", { .levels = 1, .max_timeouts = 1 }, -EPERM },
	{ "one level of most slots", { .slots = 65536, .levels = 1 }, -EPERM },
};

static void check_modesty(int capable)
{
	for (size_t i = 0; i < ARRAY_SIZE(modesty); i++) {
		int fd = device_open(O_RDWR);

		CHECK_ROW(try_setup(fd, modesty[i].setup), capable ? 0 : modesty[i].ret,
			  modesty[i].name);
		close(fd);
	}
}

TEST(wheel_without_cap_sys_resource_must_be_modest)
{
	set_capabilities(0);
	check_modesty(0);
}

TEST(wheel_with_cap_sys_resource_may_be_anything)
{
	set_capabilities(CAP(SYS_RESOURCE));
	check_modesty(1);
}

/*
 * Limit of the size of a user's private wheels, in bytes over all CPUs. Only the kernel
 * knows the size of a wheel, but a slot is at least a list head on every CPU.
 */

#define WHEELS		(is_short() ? 1 << 20 : 4 << 20)		/* room for a few of them */
#define MANY_WHEELS	(is_short() ? 100 : 500)

static const struct twheel_setup medium = { .slots = 512 };

static __u64 least_bytes(struct twheel_info i)
{
	return 2 * sizeof(void *) * i.slots * sysconf(_SC_NPROCESSORS_CONF);
}

/* Set up private wheels until one is refused, at most @nr. Returns their number. */
static int open_wheels(struct twheel_setup setup, int nr)
{
	for (int i = 0; i < nr; i++) {
		int ret = try_setup(device_open(O_RDWR), setup);

		if (ret) {
			CHECK_EQ(ret, -EAGAIN);
			return i;
		}
	}
	return nr;
}

static void use_up_wheels(void)
{
	int first, nr;

	become_user(USER);
	first = device_open_setup(O_RDWR, medium);
	nr = 1 + open_wheels(medium, MANY_WHEELS);
	ktap_note("%d wheels", nr);
	CHECK(nr > 1 && nr < MANY_WHEELS);
	CHECK(nr * least_bytes(info(first)) <= WHEELS);
	/* a place that was freed is available at once */
	close(first);
	CHECK_EQ(open_wheels(medium, MANY_WHEELS), 1);
	/* a shared wheel needs no place */
	CHECK_EQ(try_setup(device_open(O_RDWR), plain), 0);
}

TEST(max_wheel_bytes_holds)
{
	with_parameter("max_wheel_bytes", WHEELS, use_up_wheels);
}

/* A 64th of the slots is less than a quarter of the size: the levels above add to both. */
static void use_up_small_wheels(void)
{
	const struct twheel_setup large = { .slots = 4096 }, small = { .slots = 64 };
	int status, pipes[2], nr, smaller;
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		become_user(USER);
		nr = open_wheels(large, MANY_WHEELS);
		CHECK_EQ(write(pipes[1], &nr, sizeof(nr)), sizeof(nr));
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK_EQ(read(pipes[0], &nr, sizeof(nr)), sizeof(nr));
	become_user(USER);
	smaller = open_wheels(small, MANY_WHEELS);
	ktap_note("%d large, %d small", nr, smaller);
	CHECK(nr >= 1);
	CHECK(smaller > 4 * nr);
}

TEST(wheels_count_by_their_size)
{
	with_parameter("max_wheel_bytes", WHEELS, use_up_small_wheels);
}

static void use_up_wheels_as_two(void)
{
	int nr = open_wheels(medium, MANY_WHEELS / 2);
	pid_t pid;

	CHECK_EQ(nr, MANY_WHEELS / 2);	/* root has no such limit */
	pid = fork();
	if (!pid) {
		become_user(OTHER_USER);
		CHECK(open_wheels(medium, MANY_WHEELS) >= 1);
		_exit(0);
	}
	become_user(USER);
	CHECK(open_wheels(medium, MANY_WHEELS) >= 1);
	join_child(pid);
}

TEST(max_wheel_bytes_is_of_each_user)
{
	with_parameter("max_wheel_bytes", WHEELS, use_up_wheels_as_two);
}

/* A refused SETUP does not begin the context, and is not counted. */
static void retry_setup(void)
{
	int first, fd;

	become_user(USER);
	first = device_open_setup(O_RDWR, medium);
	open_wheels(medium, MANY_WHEELS);
	fd = device_open(O_RDWR);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(try_setup(fd, medium), -EAGAIN);
	close(first);
	CHECK_EQ(try_setup(fd, medium), 0);
}

TEST(setup_can_be_tried_again_after_eagain)
{
	with_parameter("max_wheel_bytes", WHEELS, retry_setup);
}

/* At most a share of the memory, but enough for some wheels on any machine. */
TEST(max_wheel_bytes_is_a_share_of_memory)
{
	__u64 memory = (__u64)sysconf(_SC_PHYS_PAGES) * page_size(), least = 4 << 20;
	__u32 bytes = parameter("max_wheel_bytes");

	ktap_note("%u bytes of %llu", bytes, (unsigned long long)memory);
	CHECK(bytes >= least);
	CHECK(bytes == least || bytes <= memory / 100 + page_size());
	CHECK(bytes >= memory / 200 || memory / 100 > ~0U);
}

static void have_a_wheel(void)
{
	become_user(USER);
	CHECK_EQ(try_setup(device_open(O_RDWR), medium), 0);
}

TEST(largest_max_wheel_bytes_refuses_nothing)
{
	__u32 before = parameter("max_wheel_bytes");
	int status;

	write_file("/sys/module/twheel_dev/parameters", "max_wheel_bytes", "18446744073709551615");
	status = status_of(have_a_wheel);
	set_parameter("max_wheel_bytes", before);
	end_unless_passed(status);
}
