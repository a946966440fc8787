// SPDX-License-Identifier: GPL-2.0
/*
 * SETUP: the clock, the geometry and the limit of a file, once, and who may have
 * what.
 */
#include <pthread.h>

#include "device.h"
#include "memory.h"
#include "privilege.h"

#define USER		4711		/* nobody else has a file open as these */
#define OTHER_USER	4712

static const struct twheel_setup plain = { .clock = CLOCK_MONOTONIC };

/* Same wheel as everybody else's, and nothing done yet. */
static void check_still_new(int fd)
{
	struct twheel_info i = info(fd), fresh = info(device_open(O_RDWR));

	CHECK_EQ(i.clock, CLOCK_MONOTONIC);
	CHECK_EQ(i.flags, 0);
	CHECK_EQ(i.tick_ns, fresh.tick_ns);
	CHECK_EQ(i.slots, fresh.slots);
	CHECK_EQ(i.levels, fresh.levels);
	CHECK_EQ(i.max_timeouts, fresh.max_timeouts);
	CHECK_EQ(try_setup(fd, plain), 0);
}

/* What it takes */

static void setup_of_nothing_but_a_clock_is_the_default(void)
{
	static const __u32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };
	struct twheel_info fresh = info(device_open(O_RDWR));

	for (size_t c = 0; c < ARRAY_SIZE(clocks); c++) {
		int fd = device_open_setup(O_RDWR, (struct twheel_setup) { .clock = clocks[c] });
		struct twheel_info i = info(fd);

		CHECK_EQ(i.clock, clocks[c]);
		CHECK_EQ(i.flags, 0);
		CHECK_EQ(i.tick_ns, fresh.tick_ns);
		CHECK_EQ(i.slots, fresh.slots);
		CHECK_EQ(i.levels, fresh.levels);
		CHECK_EQ(i.max_timeouts, fresh.max_timeouts);
	}
}

static void setup_with_another_clock_is_einval(void)
{
	static const __u32 clocks[] = {
		CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
		CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_ALARM,
		CLOCK_BOOTTIME_ALARM, CLOCK_TAI, 12, 1U << 31, ~0U,
	};
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct twheel_setup setup = { .clock = clocks[i] };

		CHECK_EQ(try_setup(fd, setup), -EINVAL);
	}
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
	{ "too many levels", { .levels = TWHEEL_LEVELS + 1 } },
	{ "levels, all bits", { .levels = ~0U } },
	{ "max_timeouts, all bits", { .max_timeouts = ~0U } },
	{ "flags, lowest bit", { .flags = 1 } },
	{ "flags, highest bit", { .flags = 1U << 31 } },
	{ "reserved0, lowest bit", { .reserved0 = 1 } },
	{ "reserved0, highest bit", { .reserved0 = 1U << 31 } },
	{ "reserved[0], lowest bit", { .reserved = { 1, 0, 0 } } },
	{ "reserved[1], highest bit", { .reserved = { 0, 1ULL << 63, 0 } } },
	{ "reserved[2], lowest bit", { .reserved = { 0, 0, 1 } } },
	{ "reserved[2], highest bit", { .reserved = { 0, 0, 1ULL << 63 } } },
};

static void setup_with_a_bad_field_is_einval(void)
{
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(bad_setups); i++) {
		struct twheel_setup setup = bad_setups[i].setup;

		setup.clock = CLOCK_MONOTONIC;
		CHECK_ROW(try_setup(fd, setup), -EINVAL, bad_setups[i].name);
	}
	check_still_new(fd);
}

static void setup_at_bad_address_is_efault(void)
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

static void setup_from_read_only_memory_is_allowed(void)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SETUP, map_read_only(&plain, sizeof(plain))), 0);
}

static void setup_on_read_only_descriptor_is_ebadf(void)
{
	CHECK_EQ(try_setup(device_open(O_RDONLY), plain), -EBADF);
}

static void setup_on_write_only_descriptor_is_allowed(void)
{
	CHECK_EQ(try_setup(device_open(O_WRONLY), plain), 0);
}

/* Once, and first */

static void setup_is_ebusy_the_second_time(void)
{
	struct twheel_setup other = { .clock = CLOCK_BOOTTIME, .max_timeouts = 5 };
	int fd = device_open_setup(O_RDWR, plain);

	CHECK_EQ(try_setup(fd, plain), -EBUSY);
	CHECK_EQ(try_setup(fd, other), -EBUSY);
	CHECK_EQ(info(fd).clock, CLOCK_MONOTONIC);
	CHECK(info(fd).max_timeouts != 5);
}

static void setup_with_a_bad_field_is_einval_the_second_time(void)
{
	struct twheel_setup bad = { .clock = CLOCK_MONOTONIC, .flags = 1 };

	CHECK_EQ(try_setup(device_open_setup(O_RDWR, plain), bad), -EINVAL);
}

static void do_arm(int fd)
{
	arm(fd, HOUR, 0);
}

static void do_mod(int fd)
{
	CHECK_EQ(mod(fd, 1, HOUR, 0), -ENOENT);
}

static void do_cancel(int fd)
{
	CHECK_EQ(cancel(fd, 1), -ENOENT);
}

static void do_get(int fd)
{
	CHECK_EQ(get(fd, 1), -ENOENT);
}

static void do_submit(int fd)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);

	submit(fd, &op, 1);
}

static void setup_after_an_operation_is_ebusy(void)
{
	static void (*const operations[])(int fd) = {
		do_arm, do_mod, do_cancel, do_get, do_submit,
	};

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		int fd = device_open(O_RDWR);

		operations[i](fd);
		CHECK_EQ(try_setup(fd, plain), -EBUSY);
	}
}

static void setup_after_a_look_is_allowed(void)
{
	int fd = device_open(O_RDWR);

	info(fd);
	CHECK(!readable(fd));
	check_still_new(fd);
}

struct contender {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int fd;
	__u32 clock;
	int ret;
};

static void *contend(void *arg)
{
	struct contender *contender = arg;
	struct twheel_setup setup = { .clock = contender->clock, .slots = 32 };

	pthread_barrier_wait(contender->barrier);
	contender->ret = try_setup(contender->fd, setup);
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
			.clock = i ? CLOCK_BOOTTIME : CLOCK_MONOTONIC,
		};
		pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(contenders[i].thread, NULL);
	winner = contenders[0].ret ? 1 : 0;
	CHECK_EQ(contenders[winner].ret, 0);
	CHECK_EQ(contenders[!winner].ret, -EBUSY);
	CHECK_EQ(info(fd).clock, contenders[winner].clock);
}

static void setup_by_two_is_won_by_one(void)
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

static void arm_against_setup_makes_an_event(void)
{
	for (int i = 0; i < 30; i++) {
		struct contender armer, setter;
		pthread_barrier_t barrier;

		CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
		armer = (struct contender) { .barrier = &barrier, .fd = device_open(O_RDWR) };
		setter = armer;
		setter.clock = CLOCK_MONOTONIC;
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

static void slots_are_rounded_up_to_a_power_of_two(void)
{
	static const __u32 slots[][2] = {
		{ 2, 2 }, { 3, 4 }, { 5, 8 }, { 50, 64 }, { 257, 512 }, { 1024, 1024 },
		{ 32769, 65536 }, { 65536, 65536 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = slots[i][0],
					      .levels = 1 };
		int fd = device_open_setup(O_RDWR, setup);

		CHECK_EQ(info(fd).slots, slots[i][1]);
		CHECK_EQ(info(fd).levels, 1);
		CHECK_EQ(info(fd).flags, TWHEEL_INFO_PRIVATE);
		close(fd);
	}
}

static void default_geometry_in_other_words_shares_the_wheel(void)
{
	struct twheel_info fresh = info(device_open(O_RDWR));
	const struct twheel_setup same[] = {
		{ .tick_ns = fresh.tick_ns },
		{ .slots = fresh.slots },
		{ .slots = fresh.slots - 1 },
		{ .levels = fresh.levels },
		{ .tick_ns = fresh.tick_ns, .slots = fresh.slots, .levels = fresh.levels },
		{ .max_timeouts = 5 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		struct twheel_setup setup = same[i];

		setup.clock = CLOCK_MONOTONIC;
		CHECK_EQ(info(device_open_setup(O_RDWR, setup)).flags, 0);
	}
}

/* Not more than there is use for: the last span is 2^63 ticks at most. */
static void levels_are_as_many_as_make_sense(void)
{
	static const __u32 rows[][3] = {
		{ 2, 8, 8 }, { 256, 7, 7 }, { 4096, 5, 5 }, { 4096, 6, 5 }, { 65536, 3, 3 },
		{ 65536, 4, 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = rows[i][0],
					      .levels = rows[i][1] };
		int fd = device_open_setup(O_RDWR, setup);

		CHECK_EQ(info(fd).levels, rows[i][2]);
		close(fd);
	}
}

static const struct twheel_setup geometries[] = {
	{ .tick_ns = 1 },
	{ .tick_ns = 1, .slots = 2, .levels = 1 },
	{ .tick_ns = 1000, .slots = 16, .levels = 8 },
	{ .tick_ns = 100000 },
	{ .tick_ns = 100000, .slots = 50, .levels = 2 },
	{ .tick_ns = 1000000, .slots = 2, .levels = 1 },
	{ .tick_ns = 1000000, .slots = 2, .levels = 8 },
	{ .tick_ns = 1000000, .slots = 65536, .levels = 3 },
	{ .tick_ns = 999983, .slots = 32, .levels = 1 },
	{ .tick_ns = 7777777, .slots = 8, .levels = 4 },
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
		/* Taken out at a tick, so not before the one after the deadline. */
		CHECK(event.fired_ns / tick_ns * tick_ns >= event.expires_ns);
	}
	CHECK_EQ(cancel(fd, far), 0);
}

static void wheel_of_any_geometry_fires_on_time(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(geometries); i++) {
		struct twheel_setup setup = geometries[i];
		int fd;

		setup.clock = CLOCK_MONOTONIC;
		fd = device_open_setup(O_RDWR, setup);
		if (setup.tick_ns)
			CHECK_EQ(info(fd).tick_ns, setup.tick_ns);
		CHECK_EQ(info(fd).flags, TWHEEL_INFO_PRIVATE);
		check_on_time(fd, setup.tick_ns);
		close(fd);
	}
}

static void longest_tick_waits(void)
{
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .tick_ns = 24 * HOUR };
	int fd = device_open_setup(O_RDWR | O_NONBLOCK, setup);

	CHECK_EQ(info(fd).tick_ns, 24 * HOUR);
	arm(fd, NSEC_PER_MSEC, 0);
	sleep_ns(30 * NSEC_PER_MSEC);
	check_no_event(fd);
}

static void wheels_of_their_own_are_independent(void)
{
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 16 };
	int a = device_open_setup(O_RDWR, setup), b = device_open_setup(O_RDWR, setup);
	__u64 id = arm(a, 20 * NSEC_PER_MSEC, 1);

	arm_many(b, 10000, HOUR, NSEC_PER_MSEC, 0, NULL);
	close(b);
	CHECK_EQ(get(a, id), 0);
	CHECK_EQ(read_event(a).cookie, 1);
}

static void close_of_a_wheel_of_its_own_is_quick(void)
{
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 16, .levels = 2 };
	int fd = device_open_setup(O_RDWR, setup);
	__u64 before;

	arm_many(fd, 50000, 0, 10 * NSEC_PER_USEC, 0, NULL);
	before = now_ns();
	close(fd);
	CHECK(now_ns() - before < 5 * NSEC_PER_SEC);
}

/* Limit of timeouts */

static void setup_lowers_the_limit_for_everybody(void)
{
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .max_timeouts = 100 };
	__u64 none;
	int fd;

	set_capabilities(0);
	fd = device_open_setup(O_RDWR, setup);
	CHECK_EQ(info(fd).max_timeouts, 100);
	arm_many(fd, 100, HOUR, 0, 0, NULL);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
}

static void setup_raises_the_limit_with_cap_sys_resource(void)
{
	__u32 limit = parameter("max_timeouts");
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .max_timeouts = limit + 1 };
	int fd;

	CHECK_EQ(info(device_open_setup(O_RDWR, setup)).max_timeouts, limit + 1);
	set_capabilities(~CAP(SYS_RESOURCE) & CAP(DAC_OVERRIDE));
	fd = device_open(O_RDWR);
	CHECK_EQ(try_setup(fd, setup), -EPERM);
	setup.max_timeouts = limit;
	CHECK_EQ(try_setup(fd, setup), 0);
	CHECK_EQ(info(fd).max_timeouts, limit);
}

static void raised_limit_can_be_used_up(void)
{
	struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .max_timeouts = 1000 };
	int fd = device_open_limited(O_RDWR, 10);
	__u64 none;

	CHECK_EQ(info(fd).max_timeouts, 10);
	CHECK_EQ(try_setup(fd, setup), 0);
	arm_many(fd, 1000, HOUR, 0, 0, NULL);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
}

/* What only CAP_SYS_RESOURCE may have */

static const struct modesty {
	const char *name;
	struct twheel_setup setup;
	int ret;			/* without the capability */
} modesty[] = {
	{ "shortest tick", { .tick_ns = 100000 }, 0 },
	{ "tick too short", { .tick_ns = 99999 }, -EPERM },
	{ "tick of a nanosecond", { .tick_ns = 1 }, -EPERM },
	{ "all slots, far reach", { .slots = 512, .levels = 8 }, 0 },
	{ "all slots in four levels", { .slots = 1024, .levels = 4 }, 0 },
	{ "too many slots", { .slots = 1024, .levels = 5 }, -EPERM },
	{ "too many slots when rounded up", { .slots = 513, .levels = 8 }, -EPERM },
	{ "too many slots on one level", { .slots = 8192, .levels = 1, .max_timeouts = 1 },
	  -EPERM },
	{ "reach of 2^32 ticks", { .slots = 16, .levels = 8 }, 0 },
	{ "reach of 2^24 ticks", { .slots = 8, .levels = 8 }, -EPERM },
	{ "short reach, few timeouts", { .slots = 8, .levels = 8, .max_timeouts = 512 }, 0 },
	{ "short reach, one too many", { .slots = 8, .levels = 8, .max_timeouts = 513 }, -EPERM },
	{ "one level, few timeouts", { .slots = 4096, .levels = 1, .max_timeouts = 262144 }, 0 },
	{ "one level, one too many", { .slots = 4096, .levels = 1, .max_timeouts = 262145 },
	  -EPERM },
	{ "fewest slots", { .slots = 2, .levels = 1, .max_timeouts = 128 }, 0 },
	{ "fewest slots, one too many", { .slots = 2, .levels = 1, .max_timeouts = 129 }, -EPERM },
};

static void check_modesty(int capable)
{
	for (size_t i = 0; i < ARRAY_SIZE(modesty); i++) {
		struct twheel_setup setup = modesty[i].setup;
		int fd = device_open(O_RDWR);

		setup.clock = CLOCK_MONOTONIC;
		CHECK_ROW(try_setup(fd, setup), capable ? 0 : modesty[i].ret, modesty[i].name);
		close(fd);
	}
}

static void wheel_without_cap_sys_resource_must_be_modest(void)
{
	set_capabilities(0);
	check_modesty(0);
}

static void wheel_with_cap_sys_resource_may_be_anything(void)
{
	set_capabilities(CAP(SYS_RESOURCE));
	check_modesty(1);
}

/* Wheels of their own, as many as still succeed, at most @nr. */
static int open_wheels(int nr)
{
	const struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 512 };

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
	const struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 512 };
	int first;

	become_user(USER);
	first = device_open_setup(O_RDWR, setup);
	CHECK_EQ(open_wheels(10), 2);
	/* A place given back is there at once. */
	close(first);
	CHECK_EQ(open_wheels(10), 1);
	/* Who shares a wheel needs no place. */
	CHECK_EQ(try_setup(device_open(O_RDWR), plain), 0);
}

static void max_wheels_is_exact(void)
{
	with_parameter("max_wheels", 3, use_up_wheels);
}

static void use_up_wheels_as_two(void)
{
	pid_t pid;

	CHECK_EQ(open_wheels(5), 5);	/* as root, who is not bound */
	pid = fork();
	if (!pid) {
		become_user(OTHER_USER);
		CHECK_EQ(open_wheels(10), 2);
		_exit(0);
	}
	become_user(USER);
	CHECK_EQ(open_wheels(10), 2);
	join_child(pid);
}

static void max_wheels_is_of_each_user(void)
{
	with_parameter("max_wheels", 2, use_up_wheels_as_two);
}

/* A refused SETUP has not begun the file, and counts for nothing. */
static void retry_setup(void)
{
	const struct twheel_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 512 };
	int first, fd;

	become_user(USER);
	first = device_open_setup(O_RDWR, setup);
	fd = device_open(O_RDWR);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(try_setup(fd, setup), -EAGAIN);
	close(first);
	CHECK_EQ(try_setup(fd, setup), 0);
}

static void setup_can_be_tried_again_after_eagain(void)
{
	with_parameter("max_wheels", 1, retry_setup);
}

static const struct ktap_test tests[] = {
	TEST(setup_of_nothing_but_a_clock_is_the_default),
	TEST(setup_with_another_clock_is_einval),
	TEST(setup_with_a_bad_field_is_einval),
	TEST(setup_at_bad_address_is_efault),
	TEST(setup_from_read_only_memory_is_allowed),
	TEST(setup_on_read_only_descriptor_is_ebadf),
	TEST(setup_on_write_only_descriptor_is_allowed),
	TEST(setup_is_ebusy_the_second_time),
	TEST(setup_with_a_bad_field_is_einval_the_second_time),
	TEST(setup_after_an_operation_is_ebusy),
	TEST(setup_after_a_look_is_allowed),
	TEST(setup_by_two_is_won_by_one),
	TEST(arm_against_setup_makes_an_event),
	TEST(slots_are_rounded_up_to_a_power_of_two),
	TEST(default_geometry_in_other_words_shares_the_wheel),
	TEST(levels_are_as_many_as_make_sense),
	TEST(wheel_of_any_geometry_fires_on_time),
	TEST(longest_tick_waits),
	TEST(wheels_of_their_own_are_independent),
	TEST(close_of_a_wheel_of_its_own_is_quick),
	TEST(setup_lowers_the_limit_for_everybody),
	TEST(setup_raises_the_limit_with_cap_sys_resource),
	TEST(raised_limit_can_be_used_up),
	TEST(wheel_without_cap_sys_resource_must_be_modest),
	TEST(wheel_with_cap_sys_resource_may_be_anything),
	TEST(max_wheels_is_exact),
	TEST(max_wheels_is_of_each_user),
	TEST(setup_can_be_tried_again_after_eagain),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
