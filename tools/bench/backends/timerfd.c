// SPDX-License-Identifier: GPL-2.0
/*
 * One timerfd per timeout, all in one epoll set. Each arm and each cancel is a call.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../machine.h"
#include "backend.h"

struct timerfds {
	struct timers		timers;
	int			epoll;
	struct epoll_event	*events;
	int			fds[];		/* -1: not created */
};

static void create(struct timerfds *set, uint32_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0 || epoll_ctl(set->epoll, EPOLL_CTL_ADD, fd, &event))
		die("timerfd_create");
	set->fds[number] = fd;
}

static struct timers *timerfd_open(unsigned int n, uint64_t slack_ns)
{
	struct timerfds *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->fds));

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	set->events = zeroed_array(usage.batch, sizeof(*set->events));
	set->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (set->epoll < 0)
		die("epoll_create1");
	for (unsigned int i = 0; i < n; i++) {
		set->fds[i] = -1;
		if (!usage.measured)
			create(set, i);
	}
	return &set->timers;
}

static void timerfd_close(struct timers *timers)
{
	struct timerfds *set = (struct timerfds *)timers;

	for (unsigned int i = 0; i < timers->n; i++) {
		if (set->fds[i] >= 0)
			close(set->fds[i]);
	}
	close(set->epoll);
	free(set->events);
	free(set);
}

static void set_time(struct timers *timers, uint32_t number, const struct itimerspec *value)
{
	int fd = ((struct timerfds *)timers)->fds[number];

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, value, NULL))
		die("timerfd_settime");
}

static void timerfd_repeat(struct timers *timers, uint32_t number, uint64_t expires_ns,
			   uint64_t interval_ns)
{
	struct itimerspec value = {
		.it_value	= to_timespec(expires_ns),
		.it_interval	= to_timespec(interval_ns),
	};

	set_time(timers, number, &value);
}

static void timerfd_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	timerfd_repeat(timers, number, expires_ns, 0);
}

static void timerfd_cancel(struct timers *timers, uint32_t number)
{
	static const struct itimerspec never;

	set_time(timers, number, &never);
}

/* The measured forms create the descriptor and close it. */

static void new_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct timerfds *set = (struct timerfds *)timers;
	struct itimerspec value = { .it_value = to_timespec(expires_ns) };

	clock_start();
	if (set->fds[number] < 0)
		create(set, number);
	set_time(timers, number, &value);
	clock_stop();
}

static void new_cancel(struct timers *timers, uint32_t number)
{
	struct timerfds *set = (struct timerfds *)timers;

	clock_start();
	if (close(set->fds[number]))
		die("timerfd: close");
	clock_stop();
	set->fds[number] = -1;
}

static unsigned int timerfd_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct timerfds *set = (struct timerfds *)timers;
	int nr = epoll_wait(set->epoll, set->events, usage.batch, usage.measured ? -1 : 0);
	uint64_t count;

	(void)now_ns;
	if (nr < 0)
		die("epoll_wait");
	for (int i = 0; i < nr; i++) {
		uint32_t number = set->events[i].data.u32;

		if (read(set->fds[number], &count, sizeof(count)) != sizeof(count))
			die("timerfd: read");
		if (numbers)
			numbers[i] = number;
	}
	return nr;
}

static int timerfd_fd(struct timers *timers)
{
	return ((struct timerfds *)timers)->epoll;
}

const struct backend backend_timerfd = {
	.name	= "timerfd",
	.open	= timerfd_open,
	.close	= timerfd_close,
	.arm	= timerfd_arm,
	.repeat	= timerfd_repeat,
	.cancel	= timerfd_cancel,
	.take	= timerfd_take,
	.fd	= timerfd_fd,
};

const struct backend backend_new_timerfd = {
	.name	= "timerfd",
	.open	= timerfd_open,
	.close	= timerfd_close,
	.arm	= new_arm,
	.move	= new_arm,
	.cancel	= new_cancel,
	.take	= timerfd_take,
	.fd	= timerfd_fd,
};
