// SPDX-License-Identifier: GPL-2.0
/*
 * SETUP: clock, geometry and limit of a file. It works once, and some values need
 * privileges.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "device.h"
#include "group.h"
#include "machine.h"
#include "memory.h"

#define USER		4711		/* users with no other open file */
#define OTHER_USER	4712

static const struct twheel_setup plain;

/* The file still has the shared wheel, and no operation has taken effect. */
static void check_not_set_up(int fd)
{
	struct twheel_info i = info(fd), fresh = info(device_open(O_RDWR));

	CHECK_EQ(i.clock, CLOCK_MONOTONIC);
	CHECK_EQ(i.flags, fresh.flags);
	CHECK_EQ(i.tick_ns, fresh.tick_ns);
	CHECK_EQ(i.slots, fresh.slots);
	CHECK_EQ(i.levels, fresh.levels);
	CHECK_EQ(i.max_timeouts, fresh.max_timeouts);
	CHECK_EQ(i.slack_us, 0);
	CHECK_EQ(try_setup(fd, plain), 0);
}

/* Arguments */

#define CLOCK(number)		{ #number, { .flags = TWHEEL_SETUP_CLOCK, .clock = (number) } }

static const struct bad_setup {
	const char *name;
	struct twheel_setup setup;
} bad_setups[] = {
	CLOCK(CLOCK_PROCESS_CPUTIME_ID), CLOCK(CLOCK_THREAD_CPUTIME_ID), CLOCK(CLOCK_MONOTONIC_RAW),
	CLOCK(CLOCK_REALTIME_COARSE), CLOCK(CLOCK_MONOTONIC_COARSE), CLOCK(CLOCK_REALTIME_ALARM),
	CLOCK(CLOCK_BOOTTIME_ALARM), CLOCK(CLOCK_TAI), CLOCK(12), CLOCK(1U << 31), CLOCK(~0U),
	{ "tick beyond INT64_MAX", { .tick_ns = EXPIRES_MAX + 1 } },
	{ "tick, all bits", { .tick_ns = ~0ULL } },
	{ "one slot", { .slots = 1 } },
	{ "too many slots", { .slots = 65537 } },
	{ "slots, highest bit", { .slots = 1U << 31 } },
	{ "slots, all bits", { .slots = ~0U } },
	{ "shortest round", { .tick_ns = 1, .slots = 2, .levels = 1 } },
	{ "short round of most slots", { .tick_ns = 1, .slots = 65536, .levels = 1 } },
	{ "longest round that is too short", { .tick_ns = 499999, .slots = 2, .levels = 1 } },
	{ "max_timeouts, all bits", { .max_timeouts = ~0U } },
};

TEST(setup_with_a_bad_field_is_einval)
{
	int fd = device_open(O_RDWR), second = device_open_setup(O_RDWR, plain);

	for_each_row(row, bad_setups)
		CHECK_EQ(try_setup(fd, row->setup), -EINVAL);
	check_not_set_up(fd);
	CHECK_EQ(try_setup(second, (struct twheel_setup) { .flags = 1U << 31 }), -EINVAL);
}

/* Only once, and only before other operations */

static void set_up_after_eagain(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd;

	become_user(USER);
	fd = device_open(O_RDWR);
	check_full(fd);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EAGAIN);
	check_not_set_up(fd);
}

TEST(setup_after_an_arm_at_the_limit_is_allowed)
{
	with_parameter("max_user_timeouts", 1, set_up_after_eagain);
}

struct contender {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int fd;
	struct twheel_setup setup;
	int ret;
};

static void *set_up_in_race(void *arg)
{
	struct contender *contender = arg;

	pthread_barrier_wait(contender->barrier);
	contender->ret = try_setup(contender->fd, contender->setup);
	return NULL;
}

static void *arm_at_once(void *arg)
{
	struct contender *contender = arg;

	pthread_barrier_wait(contender->barrier);
	arm(contender->fd, 0, 7);
	return NULL;
}

/* Let @first and a SETUP of CLOCK_BOOTTIME race in a new file. */
static int run_contenders(void *(*first)(void *), struct contender contenders[2])
{
	pthread_barrier_t barrier;
	int fd = device_open(O_RDWR);

	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++) {
		contenders[i] = (struct contender) {
			.barrier = &barrier,
			.fd = fd,
			.setup = setup_clock(i ? CLOCK_BOOTTIME : CLOCK_MONOTONIC),
		};
		contenders[i].setup.slots = 32;
		pthread_create(&contenders[i].thread, NULL, i ? set_up_in_race : first,
			       &contenders[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(contenders[i].thread, NULL);
	return fd;
}

TEST(setup_by_two_is_won_by_one)
{
	for (int i = 0; i < 30; i++) {
		struct contender contenders[2];
		int fd = run_contenders(set_up_in_race, contenders), winner = !!contenders[0].ret;

		CHECK_EQ(contenders[winner].ret, 0);
		CHECK_EQ(contenders[!winner].ret, -EBUSY);
		CHECK_EQ(info(fd).clock, contenders[winner].setup.clock);
		close(fd);
	}
}

TEST(arm_against_setup_makes_an_event)
{
	for (int i = 0; i < 30; i++) {
		struct contender contenders[2];
		int fd = run_contenders(arm_at_once, contenders), ret = contenders[1].ret;

		CHECK(ret == 0 || ret == -EBUSY);
		CHECK_EQ(info(fd).flags & TWHEEL_INFO_PRIVATE, ret ? 0 : TWHEEL_INFO_PRIVATE);
		CHECK_EQ(read_any_event(fd).cookie, 7);
		close(fd);
	}
}

/* Close */

/* It takes its many timeouts with it, and nothing else. */
TEST(close_of_a_wheel_of_its_own_is_quick)
{
	struct twheel_setup setup = { .slots = 16 };
	int fd = device_open_setup(O_RDWR, setup), other = device_open_setup(O_RDWR, setup);
	__u64 id = arm(fd, 20 * NSEC_PER_MSEC, 1), before;

	arm_many(other, scaled(50000), 0, 10 * NSEC_PER_USEC, 0, NULL);
	before = now_ns();
	close(other);
	CHECK(now_ns() - before < max_quick_call_ns());
	CHECK_EQ(get(fd, id), 0);
	CHECK_EQ(read_event(fd).cookie, 1);
}

/* Values that need CAP_SYS_RESOURCE, and the limit of timeouts */

static void check_limit(int fd, __u32 limit)
{
	CHECK_EQ(info(fd).max_timeouts, limit);
	arm_many(fd, limit, HOUR, 0, 0, NULL);
	check_full(fd);
}

TEST(setup_lowers_the_limit_for_everybody)
{
	set_capabilities(0);
	check_limit(device_open_setup(O_RDWR, (struct twheel_setup) { .max_timeouts = 100 }), 100);
}

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

static void check_capability(bool capable)
{
	struct twheel_setup setup = { .max_timeouts = parameter("max_timeouts") + 1 };
	int fd = device_open(O_RDWR);

	for_each_row(row, modesty) {
		int tried = device_open(O_RDWR);

		CHECK_EQ(try_setup(tried, row->setup), capable ? 0 : row->ret);
		close(tried);
	}
	CHECK_EQ(try_setup(fd, setup), capable ? 0 : -EPERM);
	setup.max_timeouts -= !capable;
	CHECK_EQ(try_setup(fd, setup), capable ? -EBUSY : 0);
	CHECK_EQ(info(fd).max_timeouts, setup.max_timeouts);
}

TEST(wheel_without_cap_sys_resource_must_be_modest)
{
	set_capabilities(0);
	check_capability(false);
}

TEST(wheel_with_cap_sys_resource_may_be_anything)
{
	set_capabilities(CAP(SYS_RESOURCE));
	check_capability(true);
}

/*
 * Limit of the size of a user's private wheels, in bytes over all CPUs. Only the kernel
 * knows the size of a wheel, but a slot is at least a list head on every CPU.
 */

#define WHEELS		(is_short() ? 1 << 20 : 4 << 20)		/* room for a few of them */
#define MANY_WHEELS	(is_short() ? 100 : 500)
#define USER_WHEELS	64

static const struct twheel_setup medium = { .slots = 512 };

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

/* The number of such wheels that a user can have. A child holds them, to the end if @hold. */
static int count_wheels_of(uid_t uid, struct twheel_setup setup, bool hold)
{
	int pipes[2], nr;
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork_child();
	if (!pid) {
		become_user(uid);
		nr = open_wheels(setup, MANY_WHEELS);
		CHECK_EQ(write(pipes[1], &nr, sizeof(nr)), sizeof(nr));
		if (hold)
			pause();
		_exit(0);
	}
	if (!hold)
		join_child(pid);
	CHECK_EQ(read(pipes[0], &nr, sizeof(nr)), sizeof(nr));
	return nr;
}

static void use_up_wheels(void)
{
	const __u64 least = 2 * sizeof(void *) * medium.slots * sysconf(_SC_NPROCESSORS_CONF);
	int first, fd, nr;

	become_user(USER);
	first = device_open_setup(O_RDWR, medium);
	nr = 1 + open_wheels(medium, MANY_WHEELS);
	ktap_note("%d wheels", nr);
	CHECK(nr > 1 && nr < MANY_WHEELS);
	CHECK(nr * least <= WHEELS);
	/* A refused SETUP does not begin the context, and is not counted. */
	fd = device_open(O_RDWR);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(try_setup(fd, medium), -EAGAIN);
	/* A place that was freed is available at once. */
	close(first);
	CHECK_EQ(try_setup(fd, medium), 0);
	CHECK_EQ(open_wheels(medium, MANY_WHEELS), 0);
	/* A shared wheel needs no place. */
	CHECK_EQ(try_setup(device_open(O_RDWR), plain), 0);
}

TEST(max_wheel_bytes_holds)
{
	with_parameter("max_wheel_bytes", WHEELS, use_up_wheels);
}

/* A 128th of the slots is less than half of the size: the levels above add to both. */
static void use_up_small_wheels(void)
{
	const struct twheel_setup large = { .slots = 8192 }, small = { .slots = 64 };
	int nr = count_wheels_of(USER, large, false), smaller = count_wheels_of(USER, small, false);

	ktap_note("%d large, %d small", nr, smaller);
	CHECK(nr >= 1);
	CHECK(smaller > 2 * nr);
}

TEST(wheels_count_by_their_size)
{
	with_parameter("max_wheel_bytes", 4 << 20, use_up_small_wheels);
}

/* However small: each has a timer interrupt and a turn of its own. */
static void use_up_smallest_wheels(void)
{
	CHECK_EQ(count_wheels_of(USER, (struct twheel_setup) { .slots = 2 }, false), USER_WHEELS);
}

TEST(user_has_at_most_64_private_wheels)
{
	with_parameter("max_wheel_bytes", 1 << 30, use_up_smallest_wheels);
}

static void use_up_wheels_as_two(void)
{
	int nr = count_wheels_of(OTHER_USER, medium, true);

	CHECK(nr >= 1);
	/* root has no such limit */
	CHECK_EQ(open_wheels(medium, MANY_WHEELS / 2), MANY_WHEELS / 2);
	CHECK_EQ(count_wheels_of(USER, medium, false), nr);
}

TEST(max_wheel_bytes_is_of_each_user)
{
	with_parameter("max_wheel_bytes", WHEELS, use_up_wheels_as_two);
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

static void use_private_wheel(void)
{
	become_user(USER);
	CHECK_EQ(try_setup(device_open(O_RDWR), medium), 0);
}

TEST(largest_max_wheel_bytes_refuses_nothing)
{
	__u32 before = parameter("max_wheel_bytes");
	int status;

	write_file("/sys/module/twheel_dev/parameters", "max_wheel_bytes", "18446744073709551615");
	status = status_of(use_private_wheel);
	set_parameter("max_wheel_bytes", before);
	exit_unless_passed(status);
}
