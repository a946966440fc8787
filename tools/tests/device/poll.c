// SPDX-License-Identifier: GPL-2.0
/*
 * Readiness: EPOLLIN and EPOLLRDNORM are set if and only if an event is unread.
 */
#include <sys/select.h>

#include "device.h"

#define READY		(POLLIN | POLLRDNORM)

/* Poll for all events within @ms. Returns those reported. */
static int poll_all(int fd, int ms)
{
	struct pollfd pollfd = {
		.fd = fd,
		.events = POLLIN | POLLRDNORM | POLLPRI | POLLOUT | POLLWRNORM | POLLRDBAND,
	};
	int ret = poll(&pollfd, 1, ms);

	CHECK(ret >= 0);
	CHECK_EQ(ret, pollfd.revents != 0);
	return pollfd.revents;
}

static int select_read(int fd, time_t seconds)
{
	struct timeval timeout = { .tv_sec = seconds };
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	CHECK(select(fd + 1, &in, &out, NULL, &timeout) >= 0);
	CHECK(!FD_ISSET(fd, &out));
	return FD_ISSET(fd, &in) != 0;
}

static int wait_by_poll(int fd)
{
	return poll_all(fd, LONG_MS) == READY;
}

static int wait_by_select(int fd)
{
	return select_read(fd, time_limit_ns() / NSEC_PER_SEC);
}

static int wait_by_epoll(int fd)
{
	return epoll_once(epoll_create_for(fd, EPOLLIN), LONG_MS);
}

static const struct way {
	const char *name;
	int (*wait)(int fd);
} ways[] = {
	{ "poll", wait_by_poll },
	{ "select", wait_by_select },
	{ "epoll", wait_by_epoll },
};

TEST(wait_ends_with_the_event)
{
	for_each_row(way, ways) {
		int fd = device_open(O_RDWR);
		__u64 before = now_ns();

		arm(fd, 50 * NSEC_PER_MSEC, 0);
		CHECK_EQ(way->wait(fd), 1);
		CHECK(now_ns() - before >= 50 * NSEC_PER_MSEC);
	}
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
