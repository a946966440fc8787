// SPDX-License-Identifier: GPL-2.0
/*
 * Events of cells: their contents, and how readers, pollers and STOP handle events that
 * users withdraw through the word.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/uio.h>

#include "cells.h"
#include "cpu.h"
#include "epoll_set.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells that most tests map */
#define UNPROCESSED	(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)

static int try_read(int fd)
{
	struct twheel_event event;

	return read_events(fd, &event, 1);
}

/* Fields of an event */

TEST(event_tells_the_word_exactly)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7);

	/* Deadlines less than a tick ahead, and more than a tick ahead. */
	for (__u64 i = 0; i < 100; i++) {
		__u64 when = now_ns() + i * 98765;
		struct twheel_event event;

		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		event = read_cell_event(fd);
		CHECK_EQ(event.id, id);
		CHECK_EQ(event.cookie, 7);
		CHECK_EQ(event.expires_ns, when);
	}
}

TEST(event_has_the_cookie_of_the_last_mod)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7);

	CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).cookie, 7);
	CHECK_EQ(mod_cell(fd, id, TWHEEL_CELL_IDLE, 8), TWHEEL_IDLE);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
		CHECK_EQ(read_cell_event(fd).cookie, 8);
	}
}

TEST(move_after_expiry_withdraws_the_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = fired_cell(fd, 7), when = now_ns() + 30 * MS;

	CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_WITHDRAWN);
	CHECK(readable(fd) == 0 || now_ns() >= when);
	wait_ready(fd, 1);
	CHECK_EQ(read_cell_event(fd).expires_ns, when);
	check_no_event(fd);
	CHECK_EQ(file_stats(fd).fired, 2);
	CHECK_EQ(file_stats(fd).dropped, 1);
}

/* Withdrawn events, and the calls that meet them */

TEST(withdrawn_event_is_readable_until_it_is_met)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = fired_cell(fd, 7);

	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(poll_now(fd), POLLIN);
	CHECK_EQ(info(fd).ready, 1);
	CHECK_EQ(try_read(fd), -EAGAIN);
	CHECK_EQ(poll_now(fd), 0);
	CHECK_EQ(info(fd).ready, 0);
	CHECK_EQ(try_read(fd), -EAGAIN);
	CHECK_EQ(info(fd).live, 1);
}

TEST(kick_meets_a_withdrawn_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = fired_cell(fd, 7);

	CHECK_EQ(kick(fd, id), 0);
	CHECK_EQ(poll_now(fd), POLLIN);
	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(kick(fd, id), 0);
	CHECK_EQ(poll_now(fd), 0);
	check_no_event(fd);
	CHECK_EQ(file_stats(fd).dropped, 1);
}

TEST(calls_that_withdraw_clear_readiness)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id;

	need_cells();
	id = fired_cell(fd, 7);
	CHECK_EQ(mod_cell(fd, id, TWHEEL_CELL_IDLE, 7), TWHEEL_WITHDRAWN);
	check_no_event(fd);
	CHECK_EQ(mod_cell(fd, id, now_ns(), 7), TWHEEL_IDLE);
	wait_ready(fd, 1);
	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	check_no_event(fd);
	CHECK_EQ(info(fd).ready, 0);
}

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
	__u64 withdrawn = fired_cell(fd, 1), id = idle_cell(fd, 2);

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

/* The reader sleeps when the event comes, and the event is withdrawn before the reader runs. */
TEST(reader_that_is_woken_for_a_withdrawn_event_sleeps_again)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	struct waiter waiter = { .fd = fd };
	__u64 id = idle_cell(fd, 1), until = now_ns() + race_ns(500), last = idle_cell(fd, 2);
	int won = 0;

	stay_on_one_cpu();
	CHECK(!pthread_create(&waiter.thread, NULL, wait_for_event, &waiter));
	while (now_ns() < until && !PEEK(waiter.done)) {
		CHECK(cell_arm(fd, cells, id, now_ns()) >= 0);
		for (int i = 0; i < 100000 && word_of(cells, id) != TWHEEL_CELL_FIRED; i++)
			;
		won += cell_cancel(cells, id) == TWHEEL_WITHDRAWN;
	}
	if (!PEEK(waiter.done)) {
		CHECK_EQ(cell_arm(fd, cells, last, now_ns()), TWHEEL_IDLE);
		pthread_join(waiter.thread, NULL);
		CHECK(waiter.event.cookie == 2 || waiter.event.cookie == 1);
	} else {
		CHECK_EQ(waiter.event.cookie, 1);
	}
	ktap_note("%d withdrawn", won);
}

/* Every new event has an edge, not only the first one after the queue was empty. */
TEST(epoll_has_an_edge_behind_a_withdrawn_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 a = arm_cell(fd, now_ns(), 1), b = idle_cell(fd, 2);

	for (int i = 0; i < 20; i++) {
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

TEST(epoll_has_an_edge_when_a_cell_fires_again)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN | EPOLLET);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns(), 1);

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_WITHDRAWN);
	}
	CHECK_EQ(epoll_once(epoll, LONG_MS), 1);
	CHECK_EQ(read_cell_event(fd).id, id);
	CHECK_EQ(try_read(fd), -EAGAIN);
}

/* Level-triggered epoll may report a withdrawn event until read() has met it. */
TEST(epoll_of_level_ends_when_read_has_met_it)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), epoll = epoll_on(fd, EPOLLIN);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = fired_cell(fd, 1);

	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(epoll_once(epoll, 0), 1);
	CHECK_EQ(try_read(fd), -EAGAIN);
	CHECK_EQ(epoll_once(epoll, 0), 0);
}

/* Many events, some of them withdrawn */

#define MANY		200		/* more than one lock hold copies */

/**
 * struct many - unread events in the order of their cookies
 * @fd: the file
 * @cells: its cells
 * @ids: by cookie, in turn those of a cell, a one-shot and a periodic timeout
 * @gone: by cookie: the event was withdrawn
 * @left: number of events that were not withdrawn
 * @base: deadline of cookie 0; each next deadline is a microsecond later
 */
struct many {
	int fd;
	struct twheel_cell *cells;
	__u64 ids[MANY];
	bool gone[MANY];
	int left;
	__u64 base;
};

static struct twheel_op op_of_many(__u64 when, int cookie, bool mixed)
{
	if (mixed && cookie % 3 == 1)
		return op_arm(when, TWHEEL_F_ABS, cookie);
	if (mixed && cookie % 3 == 2)
		return op_periodic(when, HOUR, 0, TWHEEL_F_ABS, cookie);
	return op_cell(when, cookie);
}

static void make_many(struct many *m, int flags, bool mixed)
{
	struct twheel_op ops[MANY];
	cpu_set_t cpus;

	memset(m, 0, sizeof(*m));
	m->fd = device_open(flags);
	m->cells = map_cells(m->fd, MANY);
	m->left = MANY;
	/* All deadlines are past and armed on one CPU, so they fire in the order of arming. */
	m->base = now_ns() - NSEC_PER_SEC;
	for (int i = 0; i < MANY; i++)
		ops[i] = op_of_many(m->base + i * NSEC_PER_USEC, i, mixed);
	CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	stay_on_one_cpu();
	submit(m->fd, ops, MANY);
	CHECK_EQ(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	for (int i = 0; i < MANY; i++)
		m->ids[i] = ops[i].id;
	wait_ready(m->fd, MANY);
}

static void withdraw(struct many *m, int cookie)
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
static void check_next(const struct many *m, const struct twheel_event *event, int *cookie)
{
	while (*cookie < MANY && m->gone[*cookie])
		++*cookie;
	CHECK_EQ(event->cookie, *cookie);
	CHECK_EQ(event->id, m->ids[*cookie]);
	CHECK_EQ(event->expires_ns, m->base + *cookie * NSEC_PER_USEC);
	CHECK_EQ(event->count, 1);
	CHECK_EQ(event->reserved, 0);
	++*cookie;
}

static void end_many(struct many *m)
{
	CHECK_EQ(try_read(m->fd), -EAGAIN);
	CHECK_EQ(info(m->fd).ready, 0);
	CHECK_EQ(file_stats(m->fd).dropped, MANY - m->left);
	CHECK_EQ(file_stats(m->fd).read, m->left);
	unmap_cells(m->cells, MANY);
	close(m->fd);
}

static void read_many(struct many *m, int room)
{
	struct twheel_event events[MANY];
	int cookie = 0, got = 0;

	while (got < m->left) {
		int nr = read_events(m->fd, events, room);

		CHECK_EQ(nr, m->left - got < room ? m->left - got : room);
		for (int i = 0; i < nr; i++)
			check_next(m, &events[i], &cookie);
		got += nr;
	}
	end_many(m);
}

/* A read() fills its buffer with the remaining events, wherever withdrawn events are. */
static void check_reading(bool mixed)
{
	static const int rooms[] = { 1, 2, 3, 15, 16, 17, 64, MANY };
	static const int shares[] = { 0, 1, 2, 5, 100 };
	struct many m;
	__u64 seed = now_ns();

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		for (size_t s = 0; s < ARRAY_SIZE(shares); s++) {
			make_many(&m, O_RDWR | O_NONBLOCK, mixed);
			for (int i = 0; shares[s] && i < MANY; i++) {
				if (!random_below(&seed, shares[s]))
					withdraw(&m, i);
			}
			read_many(&m, rooms[r]);
		}
	}
}

TEST(withdrawn_events_between_others_are_left_out)
{
	check_reading(false);
}

TEST(withdrawn_events_amid_other_timeouts_are_left_out)
{
	check_reading(true);
}

TEST(runs_of_withdrawn_events_are_left_out)
{
	static const struct { int from, to; } runs[] = {
		{ 0, 1 }, { 0, 16 }, { 0, 17 }, { 15, 33 }, { 16, 32 }, { 1, MANY },
		{ 0, MANY }, { MANY - 1, MANY }, { 0, MANY - 1 },
	};
	struct many m;

	for (size_t r = 0; r < ARRAY_SIZE(runs); r++) {
		make_many(&m, O_RDWR | O_NONBLOCK, false);
		for (int i = runs[r].from; i < runs[r].to; i++)
			withdraw(&m, i);
		read_many(&m, 64);
	}
}

/* The buffer ends in the middle of a record, before a page that faults. */
TEST(fault_amid_withdrawn_events_loses_nothing)
{
	static const int rooms[] = { 1, 2, 7, 16, 20, 50 };
	struct many m;
	__u64 seed = now_ns();

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		size_t whole = rooms[r] * sizeof(struct twheel_event);
		char *buffer = map_before(whole + 20, PROT_NONE);
		int cookie = 0, got = 0;

		make_many(&m, O_RDWR | O_NONBLOCK, true);
		for (int i = 0; i < MANY; i++) {
			if (random_below(&seed, 2))
				withdraw(&m, i);
		}
		while (got < m.left) {
			int left = m.left - got;
			ssize_t ret = read(m.fd, buffer, MANY * sizeof(struct twheel_event));
			struct twheel_event *events = (void *)buffer;

			CHECK_EQ(ret, left < rooms[r] ? left * sizeof(*events) : whole);
			for (int i = 0; i < (int)(ret / sizeof(*events)); i++)
				check_next(&m, &events[i], &cookie);
			got += ret / sizeof(*events);
			/* An event stays if there is no room for a whole record. */
			if (got < m.left)
				CHECK_EQ(read(m.fd, buffer + whole, sizeof(*events)), -1);
		}
		end_many(&m);
	}
}

TEST(read_at_a_bad_address_leaves_the_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 a = fired_cell(fd, 1), b = fired_cell(fd, 2);

	CHECK_EQ(read_events(fd, map_unusable(), 1), -EFAULT);
	CHECK_EQ(cell_cancel(cells, a), TWHEEL_WITHDRAWN);
	CHECK_EQ(read_events(fd, map_unusable(), 2), -EFAULT);
	CHECK(word_of(cells, b) == TWHEEL_CELL_FIRED);
	CHECK_EQ(read_cell_event(fd).id, b);
}

/* The reads fault pages in, and one record is split in two. */
TEST(readv_leaves_out_withdrawn_events)
{
	struct twheel_event *events = map_pages(4);
	struct iovec iov[3];
	struct many m;
	int cookie = 0;
	__u64 seed = now_ns();

	make_many(&m, O_RDWR | O_NONBLOCK, true);
	for (int i = 0; i < MANY; i++) {
		if (!random_below(&seed, 3))
			withdraw(&m, i);
	}
	iov[0] = (struct iovec) { events, 100 };
	iov[1] = (struct iovec) { (char *)events + 100, page_size() };
	iov[2] = (struct iovec) { (char *)events + 100 + page_size(), 3 * page_size() - 100 };
	CHECK_EQ(readv(m.fd, iov, 3), m.left * sizeof(*events));
	for (int i = 0; i < m.left; i++)
		check_next(&m, &events[i], &cookie);
	end_many(&m);
}

/* A cell is armed again while its withdrawn event is queued: the event gets a new place. */
TEST(event_that_comes_anew_is_the_last_one)
{
	struct many m;
	struct twheel_event events[MANY];
	__u64 when;

	make_many(&m, O_RDWR | O_NONBLOCK, false);
	when = now_ns();
	CHECK_EQ(cell_arm(m.fd, m.cells, m.ids[0], when), TWHEEL_WITHDRAWN);
	wait_ready(m.fd, MANY);
	CHECK_EQ(read_events(m.fd, events, MANY), MANY);
	for (int i = 1; i < MANY; i++)
		CHECK_EQ(events[i - 1].cookie, i);
	CHECK_EQ(events[MANY - 1].cookie, 0);
	CHECK_EQ(events[MANY - 1].expires_ns, when);
}

/* Several readers */

#define ROUNDS		2000

struct shared {
	struct many m;
	__u32 seen[MANY];
	int stop;
};

static void *read_shared(void *arg)
{
	struct shared *shared = arg;
	struct pollfd pollfd = { .fd = shared->m.fd, .events = POLLIN };
	struct twheel_event events[7];

	while (!PEEK(shared->stop)) {
		int nr;

		CHECK(poll(&pollfd, 1, 10) >= 0);
		nr = read_events(shared->m.fd, events, ARRAY_SIZE(events));
		CHECK(nr > 0 || nr == -EAGAIN);
		for (int i = 0; i < nr; i++)
			__atomic_add_fetch(&shared->seen[events[i].cookie], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Each event is read by one reader or withdrawn, while other events are withdrawn. */
TEST(each_event_goes_to_one_reader_or_none)
{
	static struct shared shared;
	pthread_t readers[3];
	__u64 armed = MANY, withdrawn = 0, read = 0, seed = now_ns(), until = seed + race_ns(1500);

	make_many(&shared.m, O_RDWR | O_NONBLOCK, false);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		CHECK(!pthread_create(&readers[i], NULL, read_shared, &shared));
	while (now_ns() < until) {
		__u64 id = shared.m.ids[random_below(&seed, MANY)];

		if (random_below(&seed, 2)) {
			int ret = cell_cancel(shared.m.cells, id);

			armed -= !ret;
			withdrawn += ret == TWHEEL_WITHDRAWN;
		} else {
			int ret = cell_arm(shared.m.fd, shared.m.cells, id, now_ns());

			CHECK(ret >= 0);
			armed += !!ret;
			withdrawn += ret == TWHEEL_WITHDRAWN;
		}
	}
	for (int i = 0; i < MANY; i++) {
		while (!is_idle(word_of(shared.m.cells, shared.m.ids[i])))
			sched_yield();
	}
	WAIT_FOR(!info(shared.m.fd).ready);
	SET(shared.stop, 1);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		pthread_join(readers[i], NULL);
	for (int i = 0; i < MANY; i++)
		read += shared.seen[i];
	CHECK_EQ(armed, read + withdrawn);
	CHECK_EQ(file_stats(shared.m.fd).read, read);
	ktap_note("%llu read, %llu withdrawn", (unsigned long long)read,
		  (unsigned long long)withdrawn);
}

/* No reader sleeps for ever because of events that another reader has met as withdrawn. */
TEST(blocked_readers_share_what_is_left)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	struct waiter waiters[4];
	__u64 ids[16];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = idle_cell(fd, i);
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

/* STOP */

static void check_over_and_counted(int fd)
{
	check_over(fd);
	file_stats(fd);
}

TEST(event_after_stop_is_the_last_one)
{
	int fd = device_open(O_RDWR);
	struct twheel_event event;
	__u64 fired, pending, when;

	need_cells();
	fired = fired_cell(fd, 1);
	when = now_ns() + HOUR;
	pending = arm_cell(fd, when, 2);
	idle_cell(fd, 3);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).live, 2);
	event = read_any_event(fd);
	CHECK_EQ(event.id, fired);
	CHECK_EQ(event.flags, TWHEEL_EV_LAST);
	CHECK_EQ(event.count, 1);
	event = read_any_event(fd);
	CHECK_EQ(event.id, pending);
	CHECK_EQ(event.expires_ns, when);
	CHECK_EQ(event.flags, UNPROCESSED);
	CHECK_EQ(event.count, 0);
	CHECK_EQ(get(fd, fired), -ENOENT);
	check_over_and_counted(fd);
}

TEST(read_is_over_if_only_withdrawn_events_are_left)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 fired = fired_cell(fd, 1), pending = arm_cell(fd, now_ns() + HOUR, 2);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(cell_cancel(cells, fired), TWHEEL_WITHDRAWN);
	CHECK_EQ(cell_cancel(cells, pending), TWHEEL_WITHDRAWN);
	CHECK_EQ(poll_now(fd), POLLIN);
	CHECK_EQ(info(fd).live, 2);
	check_over_and_counted(fd);
	CHECK_EQ(file_stats(fd).ended, 2);
	CHECK_EQ(file_stats(fd).dropped, 2);
}

TEST(reader_that_meets_the_last_withdrawn_event_ends)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 2), other = arm_cell(fd, now_ns() + HOUR, 3);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	CHECK_EQ(read_any_event(fd).id, other);
	check_over_and_counted(fd);
}

TEST(cancel_after_stop_withdraws)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 a = arm_cell(fd, now_ns() + HOUR, 1), b = arm_cell(fd, now_ns() + HOUR, 2);

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(cell_cancel(cells, a), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, a), TWHEEL_IDLE);
	CHECK_EQ(cancel(fd, b), TWHEEL_WITHDRAWN);
	check_over_and_counted(fd);
}

TEST(stop_finds_cells_among_the_others)
{
	enum { ALL = 300 };
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, ALL);
	__u64 base = now_ns() + HOUR;
	bool seen[ALL] = { false };

	for (int i = 0; i < ALL; i++) {
		__u64 when = base + i * 1000, id;

		if (i % 3 == 0) {
			arm_at(fd, when, i);
			continue;
		}
		id = i % 3 == 1 ? idle_cell(fd, i) : arm_cell(fd, base + HOUR, i);
		CHECK(cell_arm(fd, cells, id, when) >= 0);
	}
	CHECK_EQ(stop(fd), 0);
	for (int i = 0; i < ALL; i++) {
		struct twheel_event event = read_any_event(fd);

		CHECK(event.cookie < ALL);
		CHECK(!seen[event.cookie]);
		seen[event.cookie] = true;
		CHECK_EQ(event.expires_ns, base + event.cookie * 1000);
		CHECK_EQ(event.flags, UNPROCESSED);
	}
	check_over_and_counted(fd);
}

struct stopper {
	pthread_t thread;
	int fd;
	struct twheel_cell *cells;
	__u64 *ids;
	int nr;
	__u64 armed, failed, withdrawn;
	int done;
};

/* Use cells until STOP has refused 1000 KICKs. */
static void *use_until_stopped(void *arg)
{
	struct stopper *s = arg;
	__u64 seed = now_ns();
	int refused = 0;

	while (refused < 1000) {
		__u64 id = s->ids[random_below(&seed, s->nr)];
		int ret;

		if (random_below(&seed, 3)) {
			__u64 when = now_ns() + random_below(&seed, 2 * MS), old;

			old = exchange(s->cells, id, when);
			s->armed += !is_deadline(old);
			s->withdrawn += old == TWHEEL_CELL_FIRED;
			if (look_of(s->cells, id) <= when)
				continue;
			ret = kick(s->fd, id);
			if (!ret)
				continue;
			CHECK(ret == -ESHUTDOWN);
			refused++;
			s->failed += replace(s->cells, id, when, TWHEEL_CELL_IDLE);
		} else {
			ret = cell_cancel(s->cells, id);
			s->armed -= !ret;
			s->withdrawn += ret == TWHEEL_WITHDRAWN;
		}
	}
	return NULL;
}

/* Each arming that did not fail is read or withdrawn. */
TEST(stop_amid_exchanges_loses_nothing)
{
	for (__u64 until = now_ns() + race_ns(2000); now_ns() < until; ) {
		__u64 ids[64], got = 0;
		struct stopper s = { .fd = device_open(O_RDWR), .ids = ids, .nr = 64 };
		struct twheel_event event;

		s.cells = map_cells(s.fd, NR);
		for (int i = 0; i < s.nr; i++)
			ids[i] = idle_cell(s.fd, i);
		CHECK(!pthread_create(&s.thread, NULL, use_until_stopped, &s));
		sleep_ns(3 * MS);
		CHECK_EQ(stop(s.fd), 0);
		pthread_join(s.thread, NULL);
		while (read(s.fd, &event, sizeof(event)) > 0)
			got++;
		CHECK_EQ(s.armed, got + s.withdrawn + s.failed);
		check_over_and_counted(s.fd);
		unmap_cells(s.cells, NR);
		close(s.fd);
	}
}
