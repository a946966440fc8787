// SPDX-License-Identifier: GPL-2.0
/*
 * One timerfd per timeout, all in one epoll set. Arm creates, sets and adds it, rearm sets
 * it again, and cancel closes it.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "itimer.h"

static unsigned int size;
static int epoll;
static int *fds;
static struct itimerspec *values;
static struct epoll_event *events;

static void timerfd_open(unsigned int n)
{
	size = n;
	epoll = epoll_create1(0);
	if (epoll < 0)
		die("epoll_create1");
	fds = array(n, sizeof(*fds));
	for (unsigned int i = 0; i < n; i++)
		fds[i] = -1;
	values = array(n, sizeof(*values));
	events = array(BATCH, sizeof(*events));
}

static void timerfd_close(void)
{
	for (unsigned int i = 0; i < size; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	close(epoll);
	free(fds);
	free(values);
	free(events);
}

static void arm_one(uint32_t number, const struct itimerspec *value)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	event.data.fd = fd;
	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, value, NULL) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("timerfd_create");
	fds[number] = fd;
}

static void rearm_one(uint32_t number, const struct itimerspec *value)
{
	if (timerfd_settime(fds[number], TFD_TIMER_ABSTIME, value, NULL))
		die("timerfd_settime");
}

static void cancel_one(uint32_t number)
{
	if (close(fds[number]))
		die("timerfd: close");
	fds[number] = -1;
}

static void timerfd_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	static const struct itimer_calls calls = { arm_one, rearm_one, cancel_one };

	itimer_single(&calls, values, verb, which, nr);
}

static unsigned int timerfd_collect(void)
{
	int nr = epoll_wait(epoll, events, BATCH, -1);
	uint64_t count;

	if (nr <= 0)
		die("epoll_wait");
	for (int i = 0; i < nr; i++) {
		if (read(events[i].data.fd, &count, sizeof(count)) != sizeof(count))
			die("timerfd: read");
	}
	return nr;
}

const struct system system_timerfd = {
	.name		= "timerfd",
	.verbs		= 1 << ARM | 1 << REARM | 1 << CANCEL,
	.max		= 1000000,
	.max_fire	= 100000,
	.open		= timerfd_open,
	.close		= timerfd_close,
	.single		= timerfd_single,
	.collect	= timerfd_collect,
};
