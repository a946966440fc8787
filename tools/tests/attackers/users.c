// SPDX-License-Identifier: GPL-2.0
/*
 * Users against each other, on one CPU whose clock counts instructions. The first user makes the
 * kernel work as hard as the limits allow. How late are the timeouts of a second one, and a task
 * with real-time priority that sleeps for a millisecond at a time?
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	600

#include <sys/resource.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define USER		1001
#define OTHER_USER	1002
#define RUNS		5U
#define RUN		(400 * MS)
#define OTHERS_LIMIT	(2 * MS)
#define TASKS_LIMIT	(300 * NSEC_PER_USEC)
#define MOST_FILES	500
#define ROUND		20U		/* timeouts of each file, a tick from one to the next */

/* Shared with the children: the attack has begun; how late the task was in this run. */
static struct {
	int begun;
	__u64 task_late;
} *shared;

/**
 * struct attack - what the first user does
 * @files: number of its files
 * @sets: number of epoll instances that watch all of them
 * @outer: number of epoll instances that watch the first of these
 * @cells: cells of each file, which are moved before each look
 * @clock: of the files
 */
struct attack {
	int files, sets, outer;
	__u32 cells;
	clockid_t clock;
};

static int fds[MOST_FILES];
static struct twheel_cell *maps[MOST_FILES];
static __u64 ids[MOST_FILES][200];

static void watch(const struct attack *a)
{
	int first = -1;

	for (int i = 0; i < a->sets; i++) {
		int set = epoll_create_for_all(fds, a->files, EPOLLIN);

		first = i ? first : set;
	}
	for (int i = 0; i < a->outer; i++)
		epoll_create_for(first, EPOLLIN);
}

/* A timeout of each file in each of the next ticks. Then read them all. */
static void arm_and_read(const struct attack *a)
{
	struct twheel_event events[ROUND];
	__u64 begin = clock_ns(a->clock) + 3 * MS;

	for (__u32 i = 0; i < ROUND; i++)
		for (int j = 0; j < a->files; j++)
			arm_at(fds[j], begin + i * MS, 0);
	while (info(fds[a->files - 1]).ready < ROUND)
		sleep_ns(MS);
	for (int j = 0; j < a->files; j++)
		while (read(fds[j], events, sizeof(events)) > 0)
			;
}

static void make_cells(const struct attack *a)
{
	for (int i = 0; i < a->files && a->cells; i++) {
		maps[i] = map_cells(fds[i], a->cells);
		for (__u32 j = 0; j < a->cells; j++)
			ids[i][j] = arm_cell(fds[i], now_ns() + 200 * MS, 0);
	}
}

/* No word is due before it is written again, unless the looks are late. */
static void move_cells(const struct attack *a)
{
	__u64 when = now_ns() + 10 * MS;

	for (int i = 0; i < a->files; i++)
		for (__u32 j = 0; j < a->cells; j++)
			cell_arm(fds[i], maps[i], ids[i][j], when);
	sleep_ns(MS);
}

static void attack(const struct attack *a)
{
	struct rlimit files = { 65536, 65536 };

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	become_user(USER);
	for (int i = 0; i < a->files; i++)
		fds[i] = device_open_setup(O_RDWR | O_NONBLOCK, setup_clock(a->clock));
	watch(a);
	make_cells(a);
	SET(shared->begun, 1);
	for (;;) {
		if (a->cells)
			move_cells(a);
		else
			arm_and_read(a);
	}
}

static void sleep_as_fifo(void)
{
	struct sched_param param = { .sched_priority = 10 };

	CHECK_EQ(sched_setscheduler(0, SCHED_FIFO, &param), 0);
	for (;;) {
		__u64 when = now_ns() + MS, late;

		sleep_until(when);
		late = now_ns() - when;
		if (late > PEEK(shared->task_late))
			SET(shared->task_late, late);
	}
}

/* How late the timeouts of the other user are at most. */
static __u64 lateness_ns(clockid_t clock, struct twheel_setup setup)
{
	__u64 end = now_ns() + RUN, worst = 0;
	int fd = device_open_setup(O_RDWR, setup);

	while (now_ns() < end) {
		struct twheel_event event;

		arm_at(fd, clock_ns(clock) + 3 * MS, 0);
		event = read_event_on(clock, fd);
		if (event.fired_ns - event.expires_ns > worst)
			worst = event.fired_ns - event.expires_ns;
	}
	close(fd);
	return worst;
}

static int compare(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static __u64 median(__u64 *values)
{
	qsort(values, RUNS, sizeof(*values), compare);
	return values[RUNS / 2];
}

/* The median of the runs counts: the kernel may still free what an earlier test has left. */
static void check(struct attack a)
{
	__u64 late[RUNS], task_late[RUNS];

	skip_outside_test_machine();
	pin_to_cpu(0);
	shared = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	if (!fork_child())
		attack(&a);
	while (!PEEK(shared->begun))
		sleep_ns(MS);
	if (!fork_child())
		sleep_as_fifo();
	become_user(OTHER_USER);
	for (unsigned int i = 0; i < RUNS; i++) {
		SET(shared->task_late, 0);
		late[i] = lateness_ns(a.clock, setup_clock(a.clock));
		task_late[i] = PEEK(shared->task_late);
		ktap_note("another user: %llu us late, a real-time task: %llu us",
			  late[i] / 1000, task_late[i] / 1000);
	}
	CHECK(median(late) <= OTHERS_LIMIT);
	CHECK(median(task_late) <= TASKS_LIMIT);
}

TEST(files_128_in_250_epoll_sets)
{
	check((struct attack) { .files = 128, .sets = 250, .clock = CLOCK_MONOTONIC });
}

/* The sink wakes 16 waiters and no more. */
TEST(files_250_in_16_epoll_sets)
{
	check((struct attack) { .files = 250, .sets = 16, .clock = CLOCK_MONOTONIC });
}

TEST(files_250_in_16_epoll_sets_on_boottime)
{
	check((struct attack) { .files = 250, .sets = 16, .clock = CLOCK_BOOTTIME });
}

TEST(file_in_60000_epoll_sets)
{
	check((struct attack) { .files = 1, .sets = 60000, .clock = CLOCK_MONOTONIC });
}

/* The most that the kernel allows behind an epoll set. */
TEST(files_128_in_a_set_that_499_watch)
{
	check((struct attack) { .files = 128, .sets = 1, .outer = 499, .clock = CLOCK_MONOTONIC });
}

/* A look at each in one tick delays others no more than if all were due there. */
TEST(cells_of_50_files_are_moved)
{
	skip_without_cells();
	check((struct attack) { .files = 50, .cells = 200, .clock = CLOCK_MONOTONIC });
}

/* All private wheels that the user can have, with timeouts for the same instant. */

static void use_all_wheels(__u64 *when)
{
	const struct twheel_setup setup = { .slots = 2, .tick_ns = 100000 };
	struct rlimit files = { 65536, 65536 };
	int nr = 0;

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	become_user(USER);
	while (nr < MOST_FILES && !try_setup(fds[nr] = device_open(O_RDWR), setup))
		nr++;
	*when = (now_ns() / NSEC_PER_SEC + 2) * NSEC_PER_SEC;
	for (int i = 0; i < nr; i++)
		arm_at(fds[i], *when, 0);
	ktap_note("%d wheels", nr);
	SET(shared->begun, 1);
	pause();
}

static void check_wheels(struct twheel_setup setup)
{
	__u64 worst = 0, *when;
	int fd;

	skip_outside_test_machine();
	pin_to_cpu(0);
	shared = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	when = (__u64 *)(shared + 1);
	if (!fork_child())
		use_all_wheels(when);
	while (!PEEK(shared->begun))
		sleep_ns(MS);
	become_user(OTHER_USER);
	fd = device_open_setup(O_RDWR, setup);
	for (int i = -50; i < 50; i++)
		arm_at(fd, *when + i * (__s64)MS, 0);
	for (int i = 0; i < 100; i++) {
		struct twheel_event event = read_event(fd);

		if (event.fired_ns - event.expires_ns > worst)
			worst = event.fired_ns - event.expires_ns;
	}
	ktap_note("another user: %llu us late", worst / 1000);
	CHECK(worst <= 3 * MS);
}

TEST(wheels_due_at_once_beside_the_shared_wheel)
{
	check_wheels((struct twheel_setup) { 0 });
}

TEST(wheels_due_at_once_beside_a_private_wheel)
{
	check_wheels((struct twheel_setup) { .slots = 16 });
}
