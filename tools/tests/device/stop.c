// SPDX-License-Identifier: GPL-2.0
/*
 * STOP: nothing more can be armed. Timeouts that have not fired become events, in no order,
 * and then the end follows.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "cpu.h"
#include "epoll_set.h"

#define MS		NSEC_PER_MSEC
#define UNPROCESSED	(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)

static struct twheel_event read_unprocessed(int fd)
{
	struct twheel_event event = read_any_event(fd);

	CHECK_EQ(event.flags, UNPROCESSED);
	CHECK_EQ(event.count, 0);
	CHECK_EQ(get(fd, event.id), -ENOENT);
	return event;
}

/* Events after STOP */

TEST(stop_of_nothing_is_the_end)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(poll_now(fd), 0);
	CHECK_EQ(info(fd).flags, 0);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).flags, TWHEEL_INFO_STOPPED);
	check_over(fd);
	check_over(fd);
}

TEST(what_was_pending_comes_out_unprocessed)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + HOUR, id = arm_at(fd, when, 7), before = now_ns();
	struct twheel_event event;

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(poll_now(fd), POLLIN);
	CHECK_EQ(info(fd).ready, 1);
	event = read_unprocessed(fd);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.cookie, 7);
	CHECK_EQ(event.expires_ns, when);
	CHECK(event.fired_ns >= before);
	CHECK(event.fired_ns <= now_ns());
	check_over(fd);
}

/* Distances between deadlines are long, a nanosecond, or 0. */
static __u64 some_deadline(__u64 base, __u64 i)
{
	if (i % 5 == 0)
		return EXPIRES_MAX - i % 3;
	return base + (i * 2654435761U % 1000) * (i % 7 ? 1 : HOUR);
}

static void check_all_come_out(int nr)
{
	struct twheel_event events[300];
	int fd = device_open(O_RDWR), got = 0;
	__u64 base = now_ns() + HOUR, stopped = 0, before;
	__u8 *seen = calloc(nr, 1);
	struct twheel_op ops[300];

	for (int i = 0; i < nr; i += ARRAY_SIZE(ops)) {
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_arm(some_deadline(base, i + n), TWHEEL_F_ABS, i + n);
		submit(fd, ops, nr - i < 300 ? nr - i : 300);
	}
	before = now_ns();
	CHECK_EQ(stop(fd), 0);
	CHECK(now_ns() - before < patience_ns());
	CHECK_EQ(info(fd).ready, nr);
	while (got < nr) {
		int ret = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(ret > 0);
		for (int i = 0; i < ret; i++) {
			CHECK_EQ(events[i].flags, UNPROCESSED);
			CHECK(events[i].cookie < (__u64)nr);
			CHECK_EQ(seen[events[i].cookie]++, 0);
			CHECK_EQ(events[i].expires_ns, some_deadline(base, events[i].cookie));
			if (stopped)
				CHECK_EQ(events[i].fired_ns, stopped);
			stopped = events[i].fired_ns;
		}
		got += ret;
	}
	check_over(fd);
	free(seen);
}

TEST(each_comes_out_once_with_its_deadline)
{
	check_all_come_out(1);
	check_all_come_out(2);
	check_all_come_out(1000);
}

TEST(stop_of_100000_is_quick)
{
	check_all_come_out(scaled(100000));
}

TEST(what_had_fired_comes_first)
{
	int fd = device_open(O_RDWR);
	struct twheel_event event;

	arm(fd, HOUR, 3);
	arm_fired(fd, 1);
	arm_fired(fd, 2);
	CHECK_EQ(stop(fd), 0);
	for (int i = 1; i <= 2; i++) {
		event = read_event(fd);		/* like any other event */
		CHECK_EQ(event.cookie, i);
	}
	CHECK_EQ(read_unprocessed(fd).cookie, 3);
	check_over(fd);
}

TEST(periodic_that_was_pending_is_unprocessed)
{
	int fd = device_open(O_RDWR);
	__u64 first = now_ns() + HOUR;
	struct twheel_event event;

	arm_op(fd, op_periodic(first, HOUR, 10, TWHEEL_F_ABS, 7));
	CHECK_EQ(stop(fd), 0);
	event = read_unprocessed(fd);
	CHECK_EQ(event.expires_ns, first);
	check_over(fd);
}

/* The event counts the deadlines up to STOP, however late it is read. */
TEST(periodic_that_had_fired_counts_up_to_stop)
{
	int fd = device_open(O_RDWR);
	__u64 first = now_ns(), before, after;
	struct twheel_event event;

	arm_op(fd, op_periodic(first, MS, 0, TWHEEL_F_ABS, 7));
	wait_ready(fd, 1);
	sleep_ns(20 * MS);
	before = now_ns();
	CHECK_EQ(stop(fd), 0);
	after = now_ns();
	sleep_ns(50 * MS);
	event = read_any_event(fd);
	CHECK_EQ(event.flags, TWHEEL_EV_LAST);
	CHECK(event.count >= (before - first) / MS + 1);
	CHECK(event.count <= (after - first) / MS + 1);
	CHECK_EQ(event.expires_ns, first + (event.count - 1) * MS);
	check_over(fd);
}

/* Read the events of the timeouts with the cookies 1 and 2. Returns the deadline of 1. */
static __u64 read_one_and_two(int fd)
{
	struct twheel_event a = read_unprocessed(fd), b = read_unprocessed(fd);

	CHECK_EQ(a.cookie + b.cookie, 3);
	CHECK(a.cookie == 1 || b.cookie == 1);
	return a.cookie == 1 ? a.expires_ns : b.expires_ns;
}

/* Not with the deadline of the last look. */
TEST(cell_comes_out_with_its_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 base = now_ns() + HOUR, first = arm_cell(fd, base, 1);

	arm_cell(fd, base + HOUR, 2);
	exchange(cells, first, base + 2 * HOUR);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(read_one_and_two(fd), base + 2 * HOUR);
	check_over(fd);
}

TEST(stop_works_in_a_wheel_of_its_own)
{
	int fd = device_open_setup(O_RDWR, (struct twheel_setup) {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME, .slots = 16,
	});

	arm(fd, 2 * HOUR, 2);
	arm(fd, HOUR, 1);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).flags, TWHEEL_INFO_STOPPED | TWHEEL_INFO_PRIVATE);
	read_one_and_two(fd);
	check_over(fd);
}

/* Operations afterwards */

TEST(arm_and_mod_are_eshutdown)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 7), none;
	struct twheel_op ops[] = {
		op_arm(0, 0, 0), op_mod(id, 0, 0, 0), op_periodic(0, HOUR, 0, 0, 0), op_get(id),
	};

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(try_arm(fd, 0, 0, 0, &none), -ESHUTDOWN);
	CHECK_EQ(mod(fd, id, 0, 0), -ESHUTDOWN);
	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, -ESHUTDOWN);
	CHECK_EQ(ops[1].result, -ESHUTDOWN);
	CHECK_EQ(ops[2].result, -ESHUTDOWN);
	CHECK_EQ(ops[3].result, 0);
	CHECK_EQ(info(fd).live, 1);
	CHECK_EQ(read_unprocessed(fd).cookie, 7);
	CHECK_EQ(try_arm(fd, 0, 0, 0, &none), -ESHUTDOWN);
	check_over(fd);
}

TEST(cancel_and_get_work)
{
	int fd = device_open(O_RDWR);
	__u64 a = arm(fd, HOUR, 1), b = arm(fd, 2 * HOUR, 2);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(state_of(fd, a).expires_ns, 0);
	CHECK_EQ(state_of(fd, a).cookie, 1);
	CHECK_EQ(cancel(fd, a), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, a), -ENOENT);
	CHECK_EQ(read_unprocessed(fd).id, b);
	check_over(fd);
}

TEST(second_stop_does_nothing)
{
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 7);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).ready, 1);
	read_unprocessed(fd);
	CHECK_EQ(stop(fd), 0);
	check_over(fd);
}

TEST(stop_leaves_other_files_alone)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR | O_NONBLOCK);
	__u64 far = arm(other, HOUR, 1);

	arm(other, 30 * MS, 2);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(other).flags, 0);
	wait_ready(other, 1);
	CHECK_EQ(read_event(other).cookie, 2);
	CHECK_EQ(cancel(other, far), 0);
	arm(other, HOUR, 3);
	check_no_event(other);
}

TEST(stop_on_read_only_descriptor_is_ebadf)
{
	int fd = device_open(O_RDONLY);

	CHECK_EQ(stop(fd), -EBADF);
	CHECK_EQ(info(fd).flags, 0);
}

TEST(stop_comes_after_setup)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(try_setup(fd, (struct twheel_setup) { 0 }), -EBUSY);
}

TEST(stop_in_a_child_is_for_all)
{
	int fd = device_open(O_RDWR);
	__u64 none;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		_exit(stop(fd) ? 1 : 0);
	join_child(pid);
	CHECK_EQ(try_arm(fd, 0, 0, 0, &none), -ESHUTDOWN);
	check_over(fd);
}

TEST(read_at_the_end_still_looks_at_its_buffer)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_event event;

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(read(fd, &event, sizeof(event) - 1), -1);
	CHECK_EQ(errno, EINVAL);
	check_over(fd);
}

TEST(close_with_100000_unprocessed_is_quick)
{
	int fd = device_open(O_RDWR);
	__u64 before;

	arm_many(fd, scaled(100000), HOUR, MS, 0, NULL);
	CHECK_EQ(stop(fd), 0);
	before = now_ns();
	close(fd);
	CHECK(now_ns() - before < patience_ns());
}

/* Waiting readers and pollers */

#define READERS		4

struct reader {
	pthread_t thread;
	int fd;
	int waiting;
	int events;
};

static void *read_to_the_end(void *arg)
{
	struct reader *reader = arg;
	struct twheel_event event;
	ssize_t ret;

	SET(reader->waiting, 1);
	while ((ret = read(reader->fd, &event, sizeof(event))) > 0) {
		CHECK_EQ(ret, sizeof(event));
		reader->events++;
	}
	CHECK_EQ(ret, 0);
	return NULL;
}

static void check_readers_end(int nr)
{
	struct reader readers[READERS];
	int fd = device_open(O_RDWR), events = 0;

	for (int i = 0; i < READERS; i++) {
		readers[i] = (struct reader) { .fd = fd };
		pthread_create(&readers[i].thread, NULL, read_to_the_end, &readers[i]);
	}
	for (int i = 0; i < READERS; i++) {
		while (!PEEK(readers[i].waiting))
			sleep_ns(MS);
	}
	if (nr)
		arm_many(fd, nr, HOUR, 1, 0, NULL);
	sleep_ns(20 * MS);
	CHECK_EQ(stop(fd), 0);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		events += readers[i].events;
	}
	CHECK_EQ(events, nr);
	check_over(fd);
}

TEST(readers_that_wait_get_the_end)
{
	check_readers_end(0);
}

TEST(readers_that_wait_share_the_unprocessed)
{
	check_readers_end(1);
	check_readers_end(READERS);
	check_readers_end(5000);
}

static void *poll_for_the_end(void *arg)
{
	struct reader *reader = arg;
	struct pollfd pollfd = { .fd = reader->fd, .events = POLLIN };

	SET(reader->waiting, 1);
	CHECK_EQ(poll(&pollfd, 1, patience_ns() / MS), 1);
	CHECK_EQ(pollfd.revents, POLLHUP);
	return NULL;
}

TEST(poller_that_waits_is_woken)
{
	struct reader poller = { .fd = device_open(O_RDWR) };

	pthread_create(&poller.thread, NULL, poll_for_the_end, &poller);
	while (!PEEK(poller.waiting))
		sleep_ns(MS);
	sleep_ns(20 * MS);
	CHECK_EQ(stop(poller.fd), 0);
	pthread_join(poller.thread, NULL);
}

/* Returns the reported events, or 0. */
static __u32 epoll_now(int epoll, int timeout_ms)
{
	struct epoll_event event;
	int ret = epoll_wait(epoll, &event, 1, timeout_ms);

	CHECK(ret >= 0);
	return ret ? event.events : 0;
}

TEST(epoll_reports_the_end_when_drained)
{
	int fd = device_open(O_RDWR), level = epoll_on(fd, EPOLLIN);
	int edge = epoll_on(fd, EPOLLIN | EPOLLET);

	arm(fd, HOUR, 1);
	arm(fd, HOUR, 2);
	CHECK_EQ(epoll_now(edge, 0), 0);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(epoll_now(edge, 1000), EPOLLIN);
	CHECK_EQ(epoll_now(level, 1000), EPOLLIN);
	read_unprocessed(fd);
	CHECK_EQ(epoll_now(level, 0), EPOLLIN);
	read_unprocessed(fd);
	CHECK_EQ(epoll_now(edge, 1000), EPOLLHUP);
	CHECK_EQ(epoll_now(level, 1000), EPOLLHUP);
	CHECK_EQ(epoll_now(level, 1000), EPOLLHUP);
}

static void *epoll_for_the_end(void *data)
{
	struct reader *reader = data;
	int epoll = epoll_on(reader->fd, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE);
	struct epoll_event event = { };

	SET(reader->waiting, 1);
	while (!(event.events & EPOLLHUP)) {
		if (epoll_wait(epoll, &event, 1, patience_ns() / MS) != 1)
			break;
	}
	CHECK(event.events & EPOLLHUP);
	close(epoll);
	return NULL;
}

/* One of them gets an event, but all of them get the end. */
TEST(end_wakes_all_who_wait_exclusively)
{
	struct reader readers[READERS];
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 1);
	for (int i = 0; i < READERS; i++) {
		readers[i] = (struct reader) { .fd = fd };
		pthread_create(&readers[i].thread, NULL, epoll_for_the_end, &readers[i]);
	}
	for (int i = 0; i < READERS; i++) {
		while (!PEEK(readers[i].waiting))
			sleep_ns(MS);
	}
	sleep_ns(20 * MS);
	CHECK_EQ(stop(fd), 0);
	sleep_ns(20 * MS);
	read_unprocessed(fd);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
}

TEST(withdrawal_of_the_last_event_is_the_end)
{
	int fd = device_open(O_RDWR), edge = epoll_on(fd, EPOLLIN | EPOLLET);
	__u64 id = arm(fd, HOUR, 1);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(epoll_now(edge, 1000), EPOLLIN);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(epoll_now(edge, 1000), EPOLLHUP);
	check_over(fd);
}

/* Races */

#define CROWD		2000

/* Each timeout fires or is unprocessed, once. */
static void check_stop_amid(__u64 delay_ns)
{
	static __u8 seen[CROWD];
	int fd = device_open(O_RDWR), fired = 0;
	__u64 base = now_ns() + 20 * MS;
	struct twheel_event event;

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < CROWD; i++)
		arm_at(fd, base + i * 5 * NSEC_PER_USEC, i);
	sleep_until(base + delay_ns);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).ready, CROWD);
	for (int i = 0; i < CROWD; i++) {
		event = read_any_event(fd);
		CHECK(event.cookie < CROWD);
		CHECK_EQ(seen[event.cookie]++, 0);
		if (event.flags == UNPROCESSED) {
			CHECK_EQ(event.count, 0);
		} else {
			check_event(&event);
			fired++;
		}
	}
	check_over(fd);
	close(fd);
	ktap_note("%d fired, %d unprocessed", fired, CROWD - fired);
}

TEST(stop_amid_expiry_loses_nothing)
{
	for (int i = 0; i < 12; i++)
		check_stop_amid(i * MS);
}

/* All are due in one tick, so the sink runs long and STOP comes meanwhile. */
TEST(stop_amid_a_batch_waits_for_it)
{
	static struct twheel_event events[CROWD];
	__u64 seed = now_ns();

	for (__u32 i = 0; i < scaled(40); i++) {
		int fd = device_open(O_RDWR);
		__u64 base = now_ns() + 8 * MS;

		arm_many(fd, CROWD, 8 * MS, 0, 0, NULL);
		while (now_ns() < base + random_below(&seed, 3 * MS))
			;
		CHECK_EQ(stop(fd), 0);
		CHECK_EQ(info(fd).ready, CROWD);
		CHECK_EQ(read_events(fd, events, CROWD), CROWD);
		check_over(fd);
		close(fd);
	}
}

#define BEFORE		100	/* files whose waiters are woken before the timeout gets there */
#define WAITERS		20

/* An epoll instance that is asked all the time takes each wakeup at once, also one for nothing. */
static void *ask_for_an_event(void *arg)
{
	struct reader *reader = arg;
	__u64 end = now_ns() + patience_ns();
	int epoll = epoll_on(reader->fd, EPOLLIN);

	stay_on(1);
	SET(reader->waiting, 1);
	while (!epoll_now(epoll, 0))
		CHECK(now_ns() < end);
	close(epoll);
	return NULL;
}

/*
 * Move a timeout @delay_ns after it was due, and STOP. Returns whether it was on its way to the
 * sink. Changes the delay towards the time when it is.
 */
static bool is_stopped_on_its_way(__u64 *delay_ns)
{
	int fd = device_open(O_RDWR), others[BEFORE], sets[WAITERS];
	struct reader reader = { .fd = fd };
	bool fired, withdrawn;
	__u64 when, id;

	stay_on(0);
	for (int i = 0; i < BEFORE; i++)
		others[i] = device_open(O_RDWR);
	for (int i = 0; i < WAITERS; i++)
		sets[i] = epoll_on_all(others, BEFORE, EPOLLIN);
	CHECK_EQ(pthread_create(&reader.thread, NULL, ask_for_an_event, &reader), 0);
	while (!PEEK(reader.waiting))
		sleep_ns(MS);
	when = (now_ns() / MS + 10) * MS;
	for (int i = 0; i < BEFORE; i++)
		arm_at(others[i], when, 0);
	id = arm_at(fd, when, 7);
	stay_on(last_cpu());
	while (now_ns() < when + *delay_ns)
		;
	withdrawn = mod(fd, id, HOUR, 7) == TWHEEL_WITHDRAWN;
	CHECK_EQ(stop(fd), 0);
	pthread_join(reader.thread, NULL);
	read_any_event(fd);
	check_over(fd);
	fired = file_stats(fd).fired;
	if (!fired)
		*delay_ns += withdrawn ? 0 : 10 * NSEC_PER_USEC;
	else if (*delay_ns)
		*delay_ns -= 10 * NSEC_PER_USEC;
	for (int i = 0; i < BEFORE; i++)
		close(others[i]);
	for (int i = 0; i < WAITERS; i++)
		close(sets[i]);
	close(fd);
	return withdrawn && !fired;
}

/* The sink makes the event of such a timeout, after STOP has gone through the others. */
TEST(stop_wakes_for_a_timeout_on_its_way)
{
	__u64 delay_ns = 100 * NSEC_PER_USEC;
	int nr = 0;

	if (last_cpu() == 0)
		ktap_skip("one CPU");
	for (__u32 i = 0; i < scaled(200); i++)
		nr += is_stopped_on_its_way(&delay_ns);
	ktap_note("%d were on their way", nr);
}

struct armer {
	pthread_t thread;
	int fd;
	__u32 armed;
	__u32 cancelled;
};

/* Arm until it is refused, and cancel some of the timeouts. */
static void *arm_until_stopped(void *arg)
{
	struct armer *armer = arg;
	__u64 id;
	int ret;

	while (!(ret = try_arm(armer->fd, armer->armed % 3 * MS, 0, 0, &id))) {
		armer->armed++;
		if (armer->armed % 5 == 0 && cancel(armer->fd, id) >= 0)
			armer->cancelled++;
	}
	CHECK_EQ(ret, -ESHUTDOWN);
	return NULL;
}

static void *stop_it(void *arg)
{
	struct armer *armer = arg;
	__u32 ready;
	__u64 none;

	CHECK_EQ(stop(armer->fd), 0);
	/* Whichever call was first, STOP is complete when this one returns. */
	ready = info(armer->fd).ready;
	CHECK_EQ(try_arm(armer->fd, 0, 0, 0, &none), -ESHUTDOWN);
	sleep_ns(5 * MS);
	CHECK(info(armer->fd).ready <= ready);
	return NULL;
}

static void check_stop_against_arms(void)
{
	struct armer armers[4], stoppers[2];
	int fd = device_open(O_RDWR);
	__u32 expected = 0;

	for (size_t i = 0; i < ARRAY_SIZE(armers); i++) {
		armers[i] = (struct armer) { .fd = fd };
		pthread_create(&armers[i].thread, NULL, arm_until_stopped, &armers[i]);
	}
	sleep_ns(30 * MS);
	for (size_t i = 0; i < ARRAY_SIZE(stoppers); i++) {
		stoppers[i] = (struct armer) { .fd = fd };
		pthread_create(&stoppers[i].thread, NULL, stop_it, &stoppers[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(stoppers); i++)
		pthread_join(stoppers[i].thread, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(armers); i++) {
		pthread_join(armers[i].thread, NULL);
		expected += armers[i].armed - armers[i].cancelled;
	}
	CHECK_EQ(info(fd).ready, expected);
	for (__u32 i = 0; i < expected; i++)
		read_any_event(fd);
	check_over(fd);
	close(fd);
}

TEST(stop_against_arms_and_cancels_loses_nothing)
{
	for (int i = 0; i < 8; i++)
		check_stop_against_arms();
}

static void *cancel_all_ids(void *arg)
{
	struct armer *armer = arg;

	for (__u64 index = 0; index < CROWD; index++) {
		int ret = cancel(armer->fd, 1ULL << 32 | index);

		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		armer->cancelled++;
	}
	return NULL;
}

TEST(cancel_amid_stop_finds_every_timeout)
{
	for (int i = 0; i < 5; i++) {
		struct armer canceller = { .fd = device_open(O_RDWR) };

		arm_many(canceller.fd, CROWD, HOUR, 1000003, 0, NULL);
		pthread_create(&canceller.thread, NULL, cancel_all_ids, &canceller);
		sleep_ns(i * MS);
		CHECK_EQ(stop(canceller.fd), 0);
		pthread_join(canceller.thread, NULL);
		check_over(canceller.fd);
		close(canceller.fd);
	}
}

/* STOP that is killed */

static __u32 many_to_stop(void)
{
	if (is_slow())
		return 15000;
	return is_short() ? 50000 : 100000;
}

/* A file with @nr timeouts, whose deadlines are random. */
static int open_to_stop(__u32 nr)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 base = now_ns() + HOUR, seed = 4711;
	struct twheel_op ops[512];

	for (__u32 i = 0; i < nr; i += ARRAY_SIZE(ops)) {
		__u32 now = nr - i < ARRAY_SIZE(ops) ? nr - i : ARRAY_SIZE(ops);

		for (__u32 n = 0; n < now; n++)
			ops[n] = op_arm(base + random_below(&seed, HOUR), TWHEEL_F_ABS, i + n);
		submit(fd, ops, now);
		CHECK_EQ(ops[now - 1].result, 0);
	}
	return fd;
}

static pid_t stop_in_a_process(int fd)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		_exit(stop(fd) ? 1 : 0);
	return pid;
}

static void wait_until_stopping(int fd)
{
	while (!(info(fd).flags & TWHEEL_INFO_STOPPED))
		;
}

/* Returns whether the process was killed; it may have ended before. */
static int kill_and_wait(pid_t pid)
{
	__u64 before = now_ns();
	int status;

	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(now_ns() - before < quick_ns());
	return WIFSIGNALED(status);
}

/*
 * LIST finds each timeout once, wherever it is. GET and CANCEL find every @step-th timeout,
 * which does not exist afterwards.
 */
static __u32 cancel_some(int fd, __u32 step)
{
	struct twheel_list_entry entries[256];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = 256, .entry_size = sizeof(entries[0]),
	};
	__u32 found = 0, cancelled = 0, live = info(fd).live;

	do {
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
		for (__u32 i = 0; i < list.done; i++) {
			if (found++ % step)
				continue;
			CHECK_EQ(state_of(fd, entries[i].id).cookie, entries[i].cookie);
			CHECK(cancel(fd, entries[i].id) >= 0);
			CHECK_EQ(get(fd, entries[i].id), -ENOENT);
			cancelled++;
		}
	} while (list.done);
	CHECK_EQ(found, live);
	CHECK_EQ(info(fd).live, live - cancelled);
	return cancelled;
}

/* Each timeout is unprocessed once. */
static void check_unprocessed(int fd, __u32 nr, __u32 live)
{
	static struct twheel_event events[1000];
	__u8 *seen = calloc(nr, 1);

	CHECK(seen);
	CHECK_EQ(info(fd).live, live);
	CHECK_EQ(info(fd).ready, live);
	for (__u32 got = 0; got < live; ) {
		int ret = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(ret > 0);
		for (int i = 0; i < ret; i++) {
			CHECK_EQ(events[i].flags, UNPROCESSED);
			CHECK_EQ(events[i].count, 0);
			CHECK(events[i].cookie < nr);
			CHECK_EQ(seen[events[i].cookie]++, 0);
		}
		got += ret;
	}
	check_over(fd);
	free(seen);
}

/* Kill STOP after @delay_ns. Returns whether it had not finished. */
static int check_stop_killed(__u32 nr, __u64 delay_ns)
{
	int fd = open_to_stop(nr), cut;
	pid_t pid = stop_in_a_process(fd);
	__u32 live = nr;
	__u64 none;

	wait_until_stopping(fd);
	sleep_ns(delay_ns);
	kill_and_wait(pid);
	cut = info(fd).ready < nr;
	CHECK_EQ(info(fd).live, nr);
	CHECK_EQ(info(fd).flags, TWHEEL_INFO_STOPPED);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -ESHUTDOWN);
	/* The end does not come before all events exist. */
	CHECK_EQ(poll_now(fd) & POLLHUP, 0);
	live -= cancel_some(fd, 1000);
	CHECK_EQ(stop(fd), 0);
	check_unprocessed(fd, nr, live);
	close(fd);
	return cut;
}

TEST(stop_that_is_killed_is_completed_by_the_next)
{
	__u32 nr = many_to_stop();
	int cut = 0;

	for (int i = 0; i < (is_slow() ? 2 : 4); i++)
		cut += check_stop_killed(nr, (1 << i) * MS);
	/* On a busy machine, STOP may end before this process runs again. */
	for (int i = 0; i < 20 && !cut; i++)
		cut = check_stop_killed(nr, 0);
	CHECK(cut > 0);
}

/* Kill STOP repeatedly: each call continues or starts again, and the last one completes. */
TEST(stop_can_be_killed_many_times)
{
	__u32 nr = many_to_stop();
	int fd = open_to_stop(nr), killed = 0;

	for (int i = 0; i < 20; i++) {
		pid_t pid = stop_in_a_process(fd);

		sleep_ns(i * MS);
		killed += kill_and_wait(pid);
	}
	ktap_note("%d killed", killed);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(stop(fd), 0);
	check_unprocessed(fd, nr, nr);
}

/* After a killed STOP, the file can be closed. */
TEST(close_after_a_stop_that_was_killed_is_clean)
{
	__u32 nr = many_to_stop() / 4;

	for (int i = 0; i < 5; i++) {
		int fd = open_to_stop(nr);
		pid_t pid = stop_in_a_process(fd);

		sleep_ns(i * MS);
		kill_and_wait(pid);
		close(fd);
	}
}

TEST(cancel_all_after_a_stop_that_was_killed_is_the_end)
{
	struct twheel_cancel_all all = { 0 };
	__u32 nr = many_to_stop();
	int fd = open_to_stop(nr);
	pid_t pid = stop_in_a_process(fd);

	wait_until_stopping(fd);
	kill_and_wait(pid);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending + all.withdrawn, nr);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(stop(fd), 0);
	check_over(fd);
}

/* A real-time task that keeps a STOP on the last CPU from going on. */
struct holder {
	pthread_t thread;
	int fd;
	int holds;
	int over;
};

static void *hold_up_stop(void *arg)
{
	const struct sched_param param = { .sched_priority = 1 };
	struct holder *h = arg;

	stay_on(last_cpu());
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param), 0);
	while (!(info(h->fd).flags & TWHEEL_INFO_STOPPED))
		sleep_ns(MS / 20);
	SET(h->holds, 1);
	while (!PEEK(h->over))
		;
	return NULL;
}

static pid_t stop_on_the_last_cpu(int fd)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	stay_on(last_cpu());
	_exit(stop(fd) ? 1 : 0);
}

/* Returns whether the process sleeps in a lock; it may also have ended. */
static bool comes_to_wait(pid_t pid)
{
	char path[40], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'D' && state != 'Z') {
		FILE *file = fopen(path, "r");

		CHECK(file);
		CHECK_EQ(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
		fclose(file);
	}
	return state == 'D';
}

/*
 * Returns whether the second STOP waited for the first, and ended before it. If a signal
 * could not end the wait, all events would exist by then.
 */
static bool second_is_killed_first(__u32 nr)
{
	struct holder h = { .fd = open_to_stop(nr) };
	pid_t first, second;
	bool early;

	CHECK(!pthread_create(&h.thread, NULL, hold_up_stop, &h));
	first = stop_on_the_last_cpu(h.fd);
	while (!PEEK(h.holds))
		sleep_ns(MS / 20);
	second = stop_in_a_process(h.fd);
	early = comes_to_wait(second);
	kill_and_wait(second);
	early = early && info(h.fd).ready < nr;
	SET(h.over, 1);
	pthread_join(h.thread, NULL);
	join_child(first);
	check_unprocessed(h.fd, nr, nr);
	close(h.fd);
	return early;
}

TEST(second_stop_that_waits_can_be_killed)
{
	bool early = false;

	if (last_cpu() == 0)
		ktap_skip("one CPU");
	stay_on(0);
	/* On a busy machine, the first STOP may end before it is held up. */
	for (int i = 0; i < 20 && !early; i++)
		early = second_is_killed_first(many_to_stop());
	CHECK(early);
}

/* A signal that is not fatal does not end STOP. */
TEST(stop_goes_on_after_stop_and_continue)
{
	__u32 nr = many_to_stop();
	int fd = open_to_stop(nr), status;
	pid_t pid = stop_in_a_process(fd);

	while (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGSTOP);
		sleep_ns(MS);
		kill(pid, SIGCONT);
		sleep_ns(MS);
	}
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	check_unprocessed(fd, nr, nr);
}
