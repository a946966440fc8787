// SPDX-License-Identifier: GPL-2.0
/*
 * The limit of live timeouts in a context, and the counts of INFO.
 *
 * A timeout is live while it is pending or its event is unread. The limit is the value of
 * the module parameter when the file was opened.
 */
#include <pthread.h>

#include "device.h"

static void check_counts(int fd, __u32 live, __u32 ready)
{
	struct twheel_info i = info(fd);

	CHECK_EQ(i.live, live);
	CHECK_EQ(i.ready, ready);
}

/* The limit */

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

/* Under concurrency */

#define NR_THREADS	4

struct arming_thread {
	pthread_t thread;
	int fd;
	unsigned int armed;
};

/* Run @work in each member of a crowd. Returns the number of timeouts armed. */
static unsigned int run_threads(int fd, void *(*work)(void *))
{
	struct arming_thread members[NR_THREADS];
	unsigned int armed = 0;

	for (int i = 0; i < NR_THREADS; i++) {
		members[i] = (struct arming_thread) { .fd = fd };
		CHECK_EQ(pthread_create(&members[i].thread, NULL, work, &members[i]), 0);
	}
	for (int i = 0; i < NR_THREADS; i++) {
		pthread_join(members[i].thread, NULL);
		armed += members[i].armed;
	}
	return armed;
}

static void *arm_as_often_as_possible(void *arg)
{
	struct arming_thread *arming_thread = arg;
	__u64 id;

	for (int i = 0; i < 500; i++)
		arming_thread->armed += !try_arm(arming_thread->fd, HOUR, 0, 0, &id);
	return NULL;
}

TEST(limit_is_exact_for_a_crowd)
{
	int fd = device_open_limited(O_RDWR, 777);

	CHECK_EQ(run_threads(fd, arm_as_often_as_possible), 777);
	check_counts(fd, 777, 0);
}

/* Each thread holds at most one place, so none may ever be refused. */
static void *arm_and_cancel(void *arg)
{
	struct arming_thread *arming_thread = arg;

	for (int i = 0; i < 1000; i++)
		CHECK_EQ(cancel(arming_thread->fd, arm(arming_thread->fd, HOUR, 0)), 0);
	return NULL;
}

TEST(place_given_back_is_there_at_once_for_a_crowd)
{
	int fd = device_open_limited(O_RDWR, NR_THREADS);

	run_threads(fd, arm_and_cancel);
	check_counts(fd, 0, 0);
	arm_many(fd, NR_THREADS, HOUR, 0, 0, NULL);
	check_full(fd);
}

/* The counts */

TEST(counts_of_many_are_exact)
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
