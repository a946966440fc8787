// SPDX-License-Identifier: GPL-2.0
/*
 * Events of cells: their contents, and how readers and pollers handle events that users withdraw
 * through the word.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells that most tests map */

static int try_read(int fd)
{
	struct twheel_event event;

	return read_events(fd, &event, 1);
}

/* Waiting behind a withdrawn event */

struct waiter {
	pthread_t thread;
	int fd;
	int done;
	struct twheel_event event;
};

static void *wait_for_event(void *arg)
{
	struct waiter *waiter = arg;

	waiter->event = read_any_event(waiter->fd);
	SET(waiter->done, 1);
	return NULL;
}

/* A withdrawn event is neither an event for the reader nor the end. */
TEST(blocking_read_waits_beyond_a_withdrawn_event)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	struct waiter waiter = { .fd = fd };
	__u64 withdrawn = create_fired_cell(fd, 1), id = create_idle_cell(fd, 2);

	CHECK_EQ(cell_cancel(cells, withdrawn), TWHEEL_WITHDRAWN);
	CHECK(!pthread_create(&waiter.thread, NULL, wait_for_event, &waiter));
	while (info(fd).ready)
		sleep_ns(MS);
	sleep_ns(20 * MS);
	CHECK(!PEEK(waiter.done));
	CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
	pthread_join(waiter.thread, NULL);
	CHECK_EQ(waiter.event.cookie, 2);
}

/*
 * Every new event has an edge, not only the first one after the queue was empty. The cell that
 * was withdrawn fires next, or another one.
 */
TEST(epoll_has_an_edge_behind_a_withdrawn_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_create_for(fd, EPOLLIN | EPOLLET);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 a = arm_cell(fd, now_ns(), 1), b = create_idle_cell(fd, 2);

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(cell_arm(fd, cells, a, now_ns()), TWHEEL_WITHDRAWN);
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(cell_cancel(cells, a), TWHEEL_WITHDRAWN);
		CHECK_EQ(epoll_once(epoll, 0), 0);
		/* Nobody has read, so the withdrawn event is still queued. */
		CHECK_EQ(info(fd).ready, 1);
		CHECK_EQ(cell_arm(fd, cells, b, now_ns()), TWHEEL_IDLE);
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(read_cell_event(fd).cookie, 2);
		CHECK_EQ(try_read(fd), -EAGAIN);
		CHECK_EQ(cell_arm(fd, cells, a, now_ns()), TWHEEL_IDLE);
	}
}

/* Many events, some of them withdrawn */

#define NR_EVENTS	200		/* more than one lock hold copies */

/* Unread events by cookie: in turn those of a cell, a one-shot and a periodic timeout. */
struct event_queue {
	int fd;
	struct twheel_cell *cells;
	__u64 ids[NR_EVENTS];
	bool gone[NR_EVENTS];	/* the event was withdrawn */
	int left;		/* number of events that were not */
	__u64 base;		/* deadline of cookie 0; each next one is a microsecond later */
};

static struct twheel_op op_of_event(__u64 when, int cookie)
{
	if (cookie % 3 == 1)
		return op_arm(when, TWHEEL_F_ABS, cookie);
	if (cookie % 3 == 2)
		return op_periodic(when, HOUR, 0, TWHEEL_F_ABS, cookie);
	return op_cell(when, cookie);
}

static void create_events(struct event_queue *m)
{
	struct twheel_op ops[NR_EVENTS];
	cpu_set_t cpus;

	memset(m, 0, sizeof(*m));
	m->fd = device_open(O_RDWR | O_NONBLOCK);
	m->cells = map_cells(m->fd, NR_EVENTS);
	m->left = NR_EVENTS;
	/* All deadlines are past and armed on one CPU, so they fire in the order of arming. */
	m->base = now_ns() - NSEC_PER_SEC;
	for (int i = 0; i < NR_EVENTS; i++)
		ops[i] = op_of_event(m->base + i * NSEC_PER_USEC, i);
	CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	pin_to_one_cpu();
	submit(m->fd, ops, NR_EVENTS);
	CHECK_EQ(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	for (int i = 0; i < NR_EVENTS; i++)
		m->ids[i] = ops[i].id;
	wait_ready(m->fd, NR_EVENTS);
}

static void withdraw(struct event_queue *m, int cookie)
{
	int ret = cell_cancel(m->cells, m->ids[cookie]);

	if (ret == -ENOENT)		/* no cell */
		return;
	CHECK_EQ(ret, TWHEEL_WITHDRAWN);
	CHECK(!m->gone[cookie]);
	m->gone[cookie] = true;
	m->left--;
}

/* @event is the next one from *@cookie on that was not withdrawn. */
static void check_next(const struct event_queue *m, const struct twheel_event *event, int *cookie)
{
	while (*cookie < NR_EVENTS && m->gone[*cookie])
		++*cookie;
	CHECK_EQ(event->cookie, *cookie);
	CHECK_EQ(event->id, m->ids[*cookie]);
	CHECK_EQ(event->expires_ns, m->base + *cookie * NSEC_PER_USEC);
	CHECK_EQ(event->count, 1);
	CHECK_EQ(event->reserved, 0);
	++*cookie;
}

static void end_event_queue(struct event_queue *m)
{
	CHECK_EQ(try_read(m->fd), -EAGAIN);
	CHECK_EQ(info(m->fd).ready, 0);
	CHECK_EQ(file_stats(m->fd).dropped, NR_EVENTS - m->left);
	CHECK_EQ(file_stats(m->fd).read, m->left);
	unmap_cells(m->cells, NR_EVENTS);
	close(m->fd);
}

static void read_queue(struct event_queue *m, int room)
{
	struct twheel_event events[NR_EVENTS];
	int cookie = 0, got = 0;

	while (got < m->left) {
		int nr = read_events(m->fd, events, room);

		CHECK_EQ(nr, m->left - got < room ? m->left - got : room);
		for (int i = 0; i < nr; i++)
			check_next(m, &events[i], &cookie);
		got += nr;
	}
	end_event_queue(m);
}

static void withdraw_random(struct event_queue *m, int share, __u64 *seed)
{
	for (int i = 0; share && i < NR_EVENTS; i++) {
		if (!random_below(seed, share))
			withdraw(m, i);
	}
}

/* A read() fills its buffer with the remaining events, wherever withdrawn events are. */
TEST(withdrawn_events_amid_other_timeouts_are_left_out)
{
	static const int rooms[] = { 1, 2, 3, 15, 16, 17, 64, NR_EVENTS };
	static const int shares[] = { 0, 1, 2, 5, 100 };
	struct event_queue m;
	__u64 seed = now_ns();

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		for (size_t s = 0; s < ARRAY_SIZE(shares); s++) {
			create_events(&m);
			withdraw_random(&m, shares[s], &seed);
			read_queue(&m, rooms[r]);
		}
	}
}

/* The buffer ends in the middle of a record, before a page that faults. */
TEST(fault_amid_withdrawn_events_loses_nothing)
{
	static const int rooms[] = { 1, 2, 7, 16, 20, 50 };
	struct event_queue m;
	__u64 seed = now_ns();

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		size_t whole = rooms[r] * sizeof(struct twheel_event);
		struct twheel_event *events = map_before(whole + 20, PROT_NONE);
		int cookie = 0, got = 0;

		create_events(&m);
		withdraw_random(&m, 2, &seed);
		while (got < m.left) {
			int left = m.left - got, nr = read_events(m.fd, events, NR_EVENTS);

			CHECK_EQ(nr, left < rooms[r] ? left : rooms[r]);
			for (int i = 0; i < nr; i++)
				check_next(&m, &events[i], &cookie);
			got += nr;
			/* An event stays if there is no room for a whole record. */
			if (got < m.left)
				CHECK_EQ(read_events(m.fd, events + rooms[r], 1), -EFAULT);
		}
		end_event_queue(&m);
	}
}

/* Several readers */

/* No reader sleeps for ever because of events that another reader has met as withdrawn. */
TEST(blocked_readers_share_what_is_left)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	struct waiter waiters[4];
	__u64 ids[16];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = create_idle_cell(fd, i);
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
			waiters[i] = (struct waiter) { .fd = fd };
			CHECK(!pthread_create(&waiters[i].thread, NULL, wait_for_event,
					      &waiters[i]));
		}
		for (int i = 0, live = 0; live < (int)ARRAY_SIZE(waiters); i++) {
			__u64 id = ids[i % ARRAY_SIZE(ids)];

			/* Withdraw one event between any two that are not withdrawn. */
			CHECK(cell_arm(fd, cells, id, now_ns()) >= 0);
			if (i % 2)
				live++;
			else
				cell_cancel(cells, id);
		}
		for (size_t i = 0; i < ARRAY_SIZE(waiters); i++)
			pthread_join(waiters[i].thread, NULL);
		/* A cell that fired before its cancel may have served one of the readers. */
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			cell_cancel(cells, ids[i]);
	}
}
