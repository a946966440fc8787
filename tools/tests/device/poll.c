// SPDX-License-Identifier: GPL-2.0
/*
 * Readiness: EPOLLIN and EPOLLRDNORM are set if and only if an event is unread.
 */
#include "device.h"

/* A poll() for anything waits until there is something to read, and reports that alone. */
TEST(wait_ends_with_the_event)
{
	int fd = device_open(O_RDWR);
	struct pollfd pollfd = { .fd = fd, .events = ~0 };
	__u64 before = now_ns();

	arm(fd, 50 * NSEC_PER_MSEC, 0);
	CHECK_EQ(poll(&pollfd, 1, LONG_MS), 1);
	CHECK_EQ(pollfd.revents, POLLIN | POLLRDNORM);
	CHECK(now_ns() - before >= 50 * NSEC_PER_MSEC);
}

/* An event is reported once. In turn, it is read and withdrawn. */
TEST(epoll_edge_reports_again_when_the_queue_was_empty)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_create_for(fd, EPOLLIN | EPOLLET);

	for (int i = 0; i < 20; i++) {
		__u64 id = arm(fd, 0, i);

		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(epoll_once(epoll, i < 4 ? 20 : 0), 0);
		if (i % 2)
			CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
		else
			CHECK_EQ(read_event(fd).cookie, i);
		if (i % 4 < 2)
			check_no_event(fd);
	}
}

/* Also to sets that came after the first event, and to more of them than the sink wakes. */
TEST(epoll_edge_reports_each_event_that_is_added)
{
	const int nr = 40, few = 2;
	int fd = device_open(O_RDWR), sets[40];

	arm_fired(fd, 0);
	for (int i = 0; i < nr; i++) {
		sets[i] = epoll_create_for(fd, EPOLLIN | EPOLLET);
		CHECK_EQ(epoll_once(sets[i], LONG_MS), 1);
		if (i != few && i != nr - 1)
			continue;
		for (int event = 0; event < 10; event++) {
			arm_fired(fd, event);
			for (int j = 0; j <= i; j++)
				CHECK_EQ(epoll_once(sets[j], LONG_MS), 1);
		}
	}
}

TEST(close_of_a_polled_descriptor_is_clean)
{
	int fd = device_open(O_RDWR), epoll = epoll_create_for(fd, EPOLLIN);

	arm(fd, NSEC_PER_MSEC, 0);
	close(fd);
	CHECK_EQ(epoll_once(epoll, 50), 0);
}
