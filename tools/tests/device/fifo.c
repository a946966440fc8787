// SPDX-License-Identifier: GPL-2.0
/*
 * A SCHED_FIFO task that never sleeps, on the CPU where a timeout was armed. The timeout is as
 * late as a timerfd that is due at the same time and on the same CPU.
 *
 * One run that shows it is enough. A timeout that needs a thread of that CPU is late in every
 * run, until the task ends. A machine that stands still makes either of the two late, and it
 * wakes ksoftirqd: before Linux 6.5 the next soft interrupts wait for it, and the task keeps it
 * from running. On PREEMPT_RT they always wait for a thread, those of timerfd too. With the
 * parameter threadirqs of the kernel only ours do: their thread needs a priority above the task.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	120

#include <pthread.h>
#include <sys/timerfd.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define TRIES		40
#define GIVE_UP_NS	(600 * MS)	/* a timeout that is not seen counts as this late */
#define MAX_DIFFERENCE_NS	(2 * MS)	/* than the timerfd */
#define RT_RUNTIME	"/proc/sys/kernel/sched_rt_runtime_us"

/* A timeout and a timerfd that are due at the same time. */
struct race {
	int fds[2];		/* of the context and of the timerfd */
	__u64 when;
	bool cell;		/* the timeout is a cell */
	__u64 late[2];		/* how late each was seen */
	int armed;		/* both are, and the task keeps its CPU */
	int over;		/* both have been seen: the task ends */
};

static bool read_path(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[len < 0 ? 0 : len] = 0;
	return len > 0;
}

static void set_policy(int policy, int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	CHECK_EQ(pthread_setschedparam(pthread_self(), policy, &param), 0);
}

/* Without a limit of the time of real-time tasks. Restored on return, unless the test fails. */
static void without_throttling(void (*body)(void))
{
	char before[32] = "";
	int fd = open(RT_RUNTIME, O_RDWR | O_CLOEXEC), status;

	CHECK(fd >= 0);
	CHECK(read(fd, before, sizeof(before) - 1) > 0);
	CHECK_EQ(pwrite(fd, "-1", 2, 0), 2);
	status = status_of(body);
	CHECK(pwrite(fd, before, strlen(before), 0) > 0);
	close(fd);
	exit_unless_passed(status);
}

/* As doc/operation.md says, if the kernel has soft interrupts in threads. */
static void raise_soft_interrupts(void)
{
	const struct sched_param param = { .sched_priority = 60 };
	char path[280], text[4096] = "";
	struct dirent *process;
	DIR *processes;

	CHECK(read_path("/proc/cmdline", text, sizeof(text)));
	if (!strstr(text, "threadirqs"))
		return;
	processes = opendir("/proc");
	CHECK(processes);
	while ((process = readdir(processes))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", process->d_name);
		if (read_path(path, text, sizeof(text)) && !strncmp(text, "ksoftirqd/", 10))
			CHECK_EQ(sched_setscheduler(atoi(process->d_name), SCHED_FIFO, &param), 0);
	}
	closedir(processes);
}

/* Both are due at the beginning of a tick, so rounding moves neither. */
static void arm_both(struct race *r)
{
	const __u64 tick_ns = info(r->fds[0]).tick_ns;
	struct itimerspec spec = { 0 };

	r->when = (now_ns() / tick_ns + 1) * tick_ns + 20 * MS;
	spec.it_value.tv_sec = r->when / NSEC_PER_SEC;
	spec.it_value.tv_nsec = r->when % NSEC_PER_SEC;
	if (r->cell)
		arm_cell(r->fds[0], r->when, 0);
	else
		arm_at(r->fds[0], r->when, 0);
	CHECK_EQ(timerfd_settime(r->fds[1], TFD_TIMER_ABSTIME, &spec, NULL), 0);
}

/* Poll with this timeout until both have been seen, or it is time to give up. */
static void watch_both(struct race *r, int poll_ms)
{
	struct pollfd polls[2] = {
		{ .fd = r->fds[0], .events = POLLIN }, { .fd = r->fds[1], .events = POLLIN },
	};
	__u64 now;

	r->late[0] = GIVE_UP_NS;
	r->late[1] = GIVE_UP_NS;
	do {
		CHECK(poll(polls, 2, poll_ms) >= 0);
		now = now_ns();
		for (int i = 0; i < 2; i++) {
			if (polls[i].fd < 0 || !polls[i].revents)
				continue;
			r->late[i] = now - r->when;
			polls[i].fd = -1;
		}
	} while ((polls[0].fd >= 0 || polls[1].fd >= 0) && now < r->when + GIVE_UP_NS);
}

/* Arm both and keep the CPU. */
static void *busy_fifo_task(void *arg)
{
	struct race *r = arg;

	pin_to_cpu(last_cpu());
	set_policy(SCHED_FIFO, 50);
	arm_both(r);
	SET(r->armed, 1);
	while (!PEEK(r->over))
		;
	return NULL;
}

static void race_beside_busy_task(struct race *r)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, busy_fifo_task, r), 0);
	while (!PEEK(r->armed))
		sleep_ns(MS / 10);
	watch_both(r, 100);
	SET(r->over, 1);
	pthread_join(thread, NULL);
}

static void race_in_busy_task(struct race *r)
{
	set_policy(SCHED_FIFO, 50);
	arm_both(r);
	watch_both(r, 0);
	set_policy(SCHED_OTHER, 0);
}

static const struct row {
	const char *name;
	void (*run)(struct race *r);
	bool cell;
} rows[] = {
	{ "a timeout of a task that polls", race_in_busy_task, false },
	{ "a timeout beside a task that computes", race_beside_busy_task, false },
	{ "a cell beside a task that computes", race_beside_busy_task, true },
};

/* Is the timeout as late as the timerfd? */
static bool is_as_late(const struct row *row)
{
	struct race r = {
		.fds = {
			device_open(O_RDWR),
			timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
		},
		.cell = row->cell,
	};

	CHECK(r.fds[1] >= 0);
	row->run(&r);
	ktap_note("timeout %llu us late, timerfd %llu us", r.late[0] / 1000, r.late[1] / 1000);
	close(r.fds[0]);
	close(r.fds[1]);
	return r.late[0] <= r.late[1] + MAX_DIFFERENCE_NS;
}

static void check_races(void)
{
	for_each_row(row, rows) {
		int tries = TRIES;

		if (row->run == race_beside_busy_task && !last_cpu())
			ktap_skip("one CPU");
		if (row->cell)
			skip_without_cells();
		pin_to_cpu(row->run == race_in_busy_task ? last_cpu() : 0);
		while (!is_as_late(row)) {
			if (!--tries)
				ktap_fail("late in each run");
		}
	}
}

TEST(timeouts_are_as_late_as_a_timerfd)
{
	skip_outside_test_machine();
	raise_soft_interrupts();
	without_throttling(check_races);
}
