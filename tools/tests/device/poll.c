// SPDX-License-Identifier: GPL-2.0
/*
 * Readiness: EPOLLIN and EPOLLRDNORM are set if and only if an event is unread.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "device.h"
#include "memory.h"

#define READY		(POLLIN | POLLRDNORM)
#define LONG_MS		20000	/* timeout of a test whose event does not come */

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

/* poll() */

static void poll_without_events_reports_nothing(void)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(poll_all(fd, 0), 0);
	arm(fd, HOUR, 0);
	CHECK_EQ(poll_all(fd, 0), 0);
	CHECK_EQ(poll_all(fd, 20), 0);
}

static void poll_with_an_event_reports_in_and_rdnorm(void)
{
	int fd = device_open(O_RDWR);

	arm_fired(fd, 0);
	CHECK_EQ(poll_all(fd, 0), READY);
}

static void poll_that_waits_is_woken_by_the_event(void)
{
	int fd = device_open(O_RDWR);
	__u64 before = now_ns();

	arm(fd, 50 * NSEC_PER_MSEC, 0);
	CHECK_EQ(poll_all(fd, LONG_MS), READY);
	CHECK(now_ns() - before >= 50 * NSEC_PER_MSEC);
	CHECK(now_ns() - before < 10 * NSEC_PER_SEC);
}

static void poll_reports_until_the_last_event_is_read(void)
{
	int fd = device_open(O_RDWR);

	arm_fired(fd, 0);
	arm_fired(fd, 1);
	CHECK_EQ(poll_all(fd, 0), READY);
	CHECK_EQ(poll_all(fd, 0), READY);
	read_event(fd);
	CHECK_EQ(poll_all(fd, 0), READY);
	read_event(fd);
	CHECK_EQ(poll_all(fd, 0), 0);
}

static void poll_after_withdrawal_of_the_last_event_reports_nothing(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_fired(fd, 0);

	CHECK_EQ(poll_all(fd, 0), READY);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(poll_all(fd, 0), 0);
}

static void poll_after_mod_of_the_last_event_reports_nothing(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_fired(fd, 0);

	CHECK_EQ(mod(fd, id, HOUR, 0), TWHEEL_WITHDRAWN);
	CHECK_EQ(poll_all(fd, 0), 0);
}

static void poll_after_withdrawal_of_one_of_two_reports_the_other(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_fired(fd, 0);

	arm_fired(fd, 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(poll_all(fd, 0), READY);
}

static void poll_after_a_failed_read_still_reports(void)
{
	int fd = device_open(O_RDWR);

	arm_fired(fd, 0);
	CHECK_EQ(read_events(fd, map_unusable(), 1), -EFAULT);
	CHECK_EQ(poll_all(fd, 0), READY);
}

static void poll_on_two_descriptors_reports_the_right_one(void)
{
	struct pollfd pollfds[2] = {
		{ .fd = device_open(O_RDWR), .events = POLLIN },
		{ .fd = device_open(O_RDWR), .events = POLLIN },
	};

	arm(pollfds[0].fd, HOUR, 0);
	arm(pollfds[1].fd, NSEC_PER_MSEC, 0);
	CHECK_EQ(poll(pollfds, 2, LONG_MS), 1);
	CHECK_EQ(pollfds[0].revents, 0);
	CHECK_EQ(pollfds[1].revents, POLLIN);
}

static void *poll_in_thread(void *arg)
{
	CHECK_EQ(poll_all(*(int *)arg, LONG_MS), READY);
	return NULL;
}

static void poll_wakes_all_who_wait(void)
{
	pthread_t threads[4];
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, poll_in_thread, &fd);
	sleep_ns(20 * NSEC_PER_MSEC);
	arm(fd, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
}

/* select() */

static int select_read(int fd, time_t patience)
{
	struct timeval timeout = { .tv_sec = patience };
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	CHECK(select(fd + 1, &in, &out, NULL, &timeout) >= 0);
	CHECK(!FD_ISSET(fd, &out));
	return FD_ISSET(fd, &in) != 0;
}

static void select_reports_an_unread_event(void)
{
	int fd = device_open(O_RDWR);

	CHECK(!select_read(fd, 0));
	arm(fd, NSEC_PER_MSEC, 0);
	CHECK(select_read(fd, patience_ns() / NSEC_PER_SEC));
	CHECK(select_read(fd, 0));
	read_event(fd);
	CHECK(!select_read(fd, 0));
}

/* epoll */

static int epoll_on(int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(epoll >= 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	return epoll;
}

static int epoll_once(int epoll, int ms)
{
	struct epoll_event event = { 0 };
	int ret = epoll_wait(epoll, &event, 1, ms);

	CHECK(ret >= 0);
	if (ret)
		CHECK_EQ(event.events, EPOLLIN);
	return ret;
}

static void epoll_level_reports_until_read(void)
{
	int fd = device_open(O_RDWR), epoll = epoll_on(fd, EPOLLIN);

	CHECK_EQ(epoll_once(epoll, 0), 0);
	arm(fd, NSEC_PER_MSEC, 0);
	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(epoll_once(epoll, 0), 1);
	CHECK_EQ(epoll_once(epoll, 0), 1);
	read_event(fd);
	CHECK_EQ(epoll_once(epoll, 0), 0);
}

/* The device counts an event as ready before it wakes the epoll set. */
static void epoll_level_reports_no_withdrawn_event(void)
{
	int fd = device_open(O_RDWR), epoll = epoll_on(fd, EPOLLIN);
	__u64 id = arm_fired(fd, 0);

	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(epoll_once(epoll, 0), 0);
	CHECK_EQ(epoll_once(epoll, 20), 0);
}

static void epoll_added_late_reports_an_old_event(void)
{
	int fd = device_open(O_RDWR);

	arm_fired(fd, 0);
	CHECK_EQ(epoll_once(epoll_on(fd, EPOLLIN), 0), 1);
	CHECK_EQ(epoll_once(epoll_on(fd, EPOLLIN | EPOLLET), 0), 1);
}

static void epoll_edge_reports_an_event_once(void)
{
	int fd = device_open(O_RDWR), epoll = epoll_on(fd, EPOLLIN | EPOLLET);

	arm(fd, NSEC_PER_MSEC, 0);
	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(epoll_once(epoll, 0), 0);
	CHECK_EQ(epoll_once(epoll, 20), 0);
	CHECK_EQ(info(fd).ready, 1);
}

static void epoll_edge_reports_again_after_the_queue_was_emptied(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);

	for (int i = 0; i < 20; i++) {
		arm(fd, 0, i);
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(read_event(fd).cookie, i);
		check_no_event(fd);
	}
}

static void epoll_edge_reports_again_after_a_withdrawal(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);
	__u64 id = arm(fd, 0, 1);

	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	arm(fd, 0, 2);
	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(read_event(fd).cookie, 2);
}

static void epoll_edge_loses_no_event_of_many(void)
{
	const int nr = 5000;
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);
	struct twheel_event events[64];
	int got = 0;

	arm_many(fd, nr, 0, 40 * NSEC_PER_USEC, 0, NULL);
	while (got < nr) {
		int ret;

		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		while ((ret = read_events(fd, events, ARRAY_SIZE(events))) > 0)
			got += ret;
		CHECK_EQ(ret, -EAGAIN);
	}
	CHECK_EQ(got, nr);
}

static void epoll_oneshot_reports_again_when_rearmed(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	int fd = device_open(O_RDWR), epoll = epoll_on(fd, EPOLLIN | EPOLLONESHOT);

	arm_fired(fd, 0);
	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(epoll_once(epoll, 0), 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event), 0);
	CHECK_EQ(epoll_once(epoll, 0), 1);
}

static void close_of_a_polled_descriptor_is_clean(void)
{
	int fd = device_open(O_RDWR), epoll = epoll_on(fd, EPOLLIN);

	arm(fd, NSEC_PER_MSEC, 0);
	close(fd);
	CHECK_EQ(epoll_once(epoll, 50), 0);
}

static const struct ktap_test tests[] = {
	TEST(poll_without_events_reports_nothing),
	TEST(poll_with_an_event_reports_in_and_rdnorm),
	TEST(poll_that_waits_is_woken_by_the_event),
	TEST(poll_reports_until_the_last_event_is_read),
	TEST(poll_after_withdrawal_of_the_last_event_reports_nothing),
	TEST(poll_after_mod_of_the_last_event_reports_nothing),
	TEST(poll_after_withdrawal_of_one_of_two_reports_the_other),
	TEST(poll_after_a_failed_read_still_reports),
	TEST(poll_on_two_descriptors_reports_the_right_one),
	TEST(poll_wakes_all_who_wait),
	TEST(select_reports_an_unread_event),
	TEST(epoll_level_reports_until_read),
	TEST(epoll_level_reports_no_withdrawn_event),
	TEST(epoll_added_late_reports_an_old_event),
	TEST(epoll_edge_reports_an_event_once),
	TEST(epoll_edge_reports_again_after_the_queue_was_emptied),
	TEST(epoll_edge_reports_again_after_a_withdrawal),
	TEST(epoll_edge_loses_no_event_of_many),
	TEST(epoll_oneshot_reports_again_when_rearmed),
	TEST(close_of_a_polled_descriptor_is_clean),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
