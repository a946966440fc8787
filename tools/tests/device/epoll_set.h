/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets of epoll
 */
#ifndef TWHEEL_TESTS_EPOLL_SET_H
#define TWHEEL_TESTS_EPOLL_SET_H

#include <sys/epoll.h>

#include "device.h"

#define LONG_MS		20000	/* limit of a wait for an event that must come */

static inline int epoll_create_for_all(const int *fds, int nr, __u32 events)
{
	struct epoll_event event = { .events = events };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(epoll >= 0);
	for (int i = 0; i < nr; i++)
		CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event), 0);
	return epoll;
}

static inline int epoll_create_for(int fd, __u32 events)
{
	return epoll_create_for_all(&fd, 1, events);
}

/* Wait for an event within @ms. Returns the number of events: 0 or 1. */
static inline int epoll_once(int epoll, int ms)
{
	struct epoll_event event = { 0 };
	int ret = epoll_wait(epoll, &event, 1, ms);

	CHECK(ret >= 0);
	if (ret)
		CHECK_EQ(event.events, EPOLLIN);
	return ret;
}

#endif /* TWHEEL_TESTS_EPOLL_SET_H */
