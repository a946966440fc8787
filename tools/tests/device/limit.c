// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of a context, of a user and of all users. That of a context is for live timeouts:
 * pending, or with an unread event. The others limit memory in whole pages, and count all timeouts
 * that fit into a page, used or not.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "device.h"
#include "machine.h"
#include "memory.h"

#define USER		4711		/* users with no other open file */
#define OTHER_USER	4712
#define LIMIT		1000
#define NR_THREADS	4

static int open_as(uid_t uid)
{
	become_user(uid);
	return device_open(O_RDWR);
}

/* Number of timeouts that can be armed in @fd. */
static __u32 fill(int fd)
{
	__u32 before = info(fd).live, nr;
	__u64 id;

	for (nr = 0; ; nr++) {
		int ret = try_arm(fd, HOUR, 0, nr, &id);

		if (ret) {
			CHECK_EQ(ret, -EAGAIN);
			break;
		}
	}
	CHECK_EQ(info(fd).live, before + nr);
	return nr;
}

struct arming_thread {
	pthread_t thread;
	int fd;
	__u32 armed;
};

/* Run @work in threads with these files. Returns the number of timeouts armed. */
static __u32 run_threads(void *(*work)(void *), const int fds[NR_THREADS])
{
	struct arming_thread threads[NR_THREADS];
	__u32 armed = 0;

	for (int i = 0; i < NR_THREADS; i++) {
		threads[i] = (struct arming_thread) { .fd = fds[i] };
		CHECK_EQ(pthread_create(&threads[i].thread, NULL, work, &threads[i]), 0);
	}
	for (int i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i].thread, NULL);
		armed += threads[i].armed;
	}
	return armed;
}

static void *fill_in_thread(void *arg)
{
	struct arming_thread *thread = arg;
	__u64 id;

	while (!try_arm(thread->fd, HOUR, 0, 0, &id))
		thread->armed++;
	return NULL;
}

/* The limit of a context */

TEST(limit_is_taken_at_open)
{
	int before = device_open(O_RDWR), limited = device_open_limited(O_RDWR, 5);

	CHECK_EQ(info(limited).max_timeouts, 5);
	CHECK_EQ(info(before).max_timeouts, parameter("max_timeouts"));
	CHECK_EQ(info(device_open(O_RDWR)).max_timeouts, parameter("max_timeouts"));
	arm_many(before, 10, HOUR, 0, 0, NULL);
	arm_many(limited, 5, HOUR, 0, 0, NULL);
	check_full(limited);
}

TEST(limit_is_exact_for_a_crowd)
{
	int fd = device_open_limited(O_RDWR, 777);

	CHECK_EQ(run_threads(fill_in_thread, (int[]) { fd, fd, fd, fd }), 777);
	CHECK_EQ(info(fd).live, 777);
}

/* Each thread holds at most one place, so none may ever be refused. */
static void *arm_and_cancel(void *arg)
{
	struct arming_thread *thread = arg;

	for (int i = 0; i < 1000; i++)
		CHECK_EQ(cancel(thread->fd, arm(thread->fd, HOUR, 0)), 0);
	return NULL;
}

TEST(place_given_back_is_there_at_once_for_a_crowd)
{
	int fd = device_open_limited(O_RDWR, NR_THREADS);

	run_threads(arm_and_cancel, (int[]) { fd, fd, fd, fd });
	CHECK_EQ(info(fd).live, 0);
	arm_many(fd, NR_THREADS, HOUR, 0, 0, NULL);
	check_full(fd);
}

/* The limits of a user and of all users */

/* Shared by the processes of a test. */
static __u32 *shared_number(void)
{
	static __u32 *number;

	if (!number) {
		number = mmap(NULL, sizeof(*number), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(number != MAP_FAILED);
	}
	return number;
}

static void fill_one_file(void)
{
	*shared_number() = fill(open_as(USER));
}

/* The number that a limit allows an unprivileged user, which fills whole pages. */
static __u32 allowed(const char *name, __u32 limit)
{
	shared_number();
	with_parameter(name, limit, fill_one_file);
	return *shared_number();
}

static __u32 in_full_pages(__u32 limit)
{
	return limit / timeouts_per_page() * timeouts_per_page();
}

/* The part of the total that is reserved for CAP_SYS_RESOURCE. */
static __u32 reserve(__u32 limit)
{
	return limit / 16;
}

TEST(limits_are_exact_to_the_page)
{
	const __u32 page = timeouts_per_page();
	const struct {
		const char *name;
		__u32 limit;
		__u32 allowed;
	} rows[] = {
		{ "max_user_timeouts", LIMIT, in_full_pages(LIMIT) },
		{ "max_user_timeouts", 7 * page, 7 * page },
		{ "max_user_timeouts", 7 * page - 1, 6 * page },
		{ "max_user_timeouts", 7 * page + 1, 7 * page },
		{ "max_user_timeouts", 1, 0 },
		{ "max_all_timeouts", 160 * page, 150 * page },
		{ "max_all_timeouts", LIMIT, in_full_pages(LIMIT - reserve(LIMIT)) },
		{ "max_all_timeouts", 1, 0 },
	};

	ktap_note("%u in a page", page);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ktap_note("%s is %u", rows[i].name, rows[i].limit);
		CHECK_EQ(allowed(rows[i].name, rows[i].limit), rows[i].allowed);
	}
}

/* Another process of that user can arm so many. */
static void check_allowed_to(uid_t uid, __u32 nr)
{
	pid_t pid = fork_child();

	if (!pid) {
		CHECK_EQ(fill(open_as(uid)), nr);
		_exit(0);
	}
	join_child(pid);
}

static void fill_the_reserve(void)
{
	int fd = device_open(O_RDWR);
	__u32 page = *shared_number();

	check_allowed_to(USER, 150 * page);
	/* the rest is only for root */
	arm_many(fd, 150 * page, HOUR, 0, 0, NULL);
	check_allowed_to(USER, 0);
	CHECK_EQ(fill(fd), 10 * page);
	CHECK_EQ(fill(device_open(O_RDWR)), 0);
}

TEST(last_of_all_are_for_cap_sys_resource)
{
	__u32 page = timeouts_per_page();

	*shared_number() = page;
	with_parameter("max_all_timeouts", 160 * page, fill_the_reserve);
}

/* The default */

static __u64 memory_pages(void)
{
	return sysconf(_SC_PHYS_PAGES);
}

static __u32 smaller(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/*
 * The kernel and this test do not count reserved memory in the same way, so allow a
 * difference of one twentieth.
 */
static void check_share(const char *name, unsigned int divisor, __u32 most)
{
	__u64 share = memory_pages() / divisor * timeouts_per_page();
	__u32 value;

	set_parameter(name, 0);
	value = parameter(name);
	ktap_note("%s is %u, of %llu pages", name, value, (unsigned long long)memory_pages());
	CHECK(value <= smaller(share + share / 20, most));
	CHECK(value >= smaller(share - share / 20, most));
}

/* Writing 0 selects the default, which is in effect unless somebody has set another value. */
TEST(limits_are_shares_of_memory)
{
	__u32 user = parameter("max_user_timeouts"), all = parameter("max_all_timeouts");

	CHECK(user > 0);
	CHECK(all > 0);
	check_share("max_user_timeouts", 10, 4194304);
	check_share("max_all_timeouts", 5, 16777216);
	CHECK_EQ(parameter("max_user_timeouts"), user);
	CHECK_EQ(parameter("max_all_timeouts"), all);
}

static void fill_two_files(void)
{
	int a = open_as(USER), b = device_open(O_RDWR);
	__u32 nr;

	arm(b, HOUR, 0);
	nr = fill(a);
	CHECK(nr < LIMIT);
	CHECK_EQ(nr + fill(b) + 1, *shared_number());
	/* a file keeps the memory of timeouts that have ended */
	CHECK_EQ(cancel_all(a).pending, nr);
	CHECK_EQ(fill(b), 0);
	/* memory that one file frees is available to the other */
	close(a);
	CHECK_EQ(fill(b), nr);
}

static void fill_as_two_users(void)
{
	int fd = device_open_for(USER), other = device_open_for(OTHER_USER);

	become_user(USER);
	CHECK_EQ(fill(fd), *shared_number());
	CHECK_EQ(fill(other), *shared_number());
	CHECK_EQ(fill(fd), 0);
}

static void fill_as_all_users(void)
{
	int fd = device_open(O_RDWR);
	__u32 page = *shared_number();

	arm_many(fd, 6 * page + 1, HOUR, 0, 0, NULL);
	check_allowed_to(USER, 143 * page);
	CHECK_EQ(fill(fd), 154 * page - 1);
}

TEST(limit_of_all_is_over_all_users)
{
	*shared_number() = timeouts_per_page();
	with_parameter("max_all_timeouts", 160 * *shared_number(), fill_as_all_users);
}

static void submit_beyond_the_limit(void)
{
	struct twheel_op ops[LIMIT + 1];
	int fd = open_as(USER);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, i);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, i < *shared_number() ? 0 : -EAGAIN);
}

/* Places in a page that a file already has can be reused. */
static void reuse_at_the_limit(void)
{
	int fd = open_as(USER);
	__u64 id = arm(fd, HOUR, 0);

	fill(fd);
	CHECK_EQ(mod(fd, id, HOUR, 1), 0);
	check_full(fd);
	CHECK_EQ(cancel(fd, id), 0);
	id = arm(fd, 0, 7);
	check_full(fd);
	CHECK_EQ(read_event(fd).id, id);
	arm(fd, HOUR, 0);
	check_full(fd);
}

/* Each thread fills pages of its own file. */
static void fill_concurrently(void)
{
	int fds[NR_THREADS];

	become_user(USER);
	for (int i = 0; i < NR_THREADS; i++)
		fds[i] = device_open(O_RDWR);
	CHECK_EQ(run_threads(fill_in_thread, fds), *shared_number());
}

TEST(limit_of_a_user_is_over_all_files)
{
	static const struct {
		const char *name;
		__u32 limit;
		void (*body)(void);
	} rows[] = {
		{ "two files", LIMIT, fill_two_files },
		{ "another user has a limit of his own", LIMIT, fill_as_two_users },
		{ "SUBMIT", LIMIT, submit_beyond_the_limit },
		{ "other calls at the limit", LIMIT, reuse_at_the_limit },
		{ "several threads", 10 * LIMIT, fill_concurrently },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ktap_note("%s", rows[i].name);
		allowed("max_user_timeouts", rows[i].limit);
		with_parameter("max_user_timeouts", rows[i].limit, rows[i].body);
	}
}
