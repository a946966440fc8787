// SPDX-License-Identifier: GPL-2.0
/*
 * STOP: nothing more can be armed. Timeouts that have not fired become events, in no order,
 * and then the end follows.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "machine.h"
#include "signals.h"

#define MS		NSEC_PER_MSEC
#define UNPROCESSED	(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)

/* Events after STOP */

/*
 * Read the events of @live timeouts, whose cookies are below @nr. Each is there once. Returns how
 * many had fired. If nothing fires at STOP, those come first, and the others have the deadlines
 * in @expires; otherwise it is NULL.
 */
static __u32 read_all(int fd, __u32 nr, __u32 live, const __u64 *expires)
{
	static struct twheel_event events[300];
	__u8 *seen = calloc(nr + 1, 1);
	__u64 stopped = 0;
	__u32 got = 0, fired = 0;

	CHECK(seen);
	CHECK_EQ(info(fd).live, live);
	CHECK_EQ(info(fd).ready, live);
	while (got < live) {
		int ret = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(ret > 0);
		for (int i = 0; i < ret; i++, got++) {
			CHECK(events[i].cookie < nr);
			CHECK_EQ(seen[events[i].cookie]++, 0);
			if (events[i].flags == TWHEEL_EV_LAST) {
				if (expires)
					CHECK_EQ(got, fired);
				check_event(&events[i]);
				fired++;
				continue;
			}
			CHECK_EQ(events[i].flags, UNPROCESSED);
			CHECK_EQ(events[i].count, 0);
			if (expires)
				CHECK_EQ(events[i].expires_ns, expires[events[i].cookie]);
			if (stopped)
				CHECK_EQ(events[i].fired_ns, stopped);
			stopped = events[i].fired_ns;
		}
	}
	check_drained_after_stop(fd);
	free(seen);
	return fired;
}

/* Returns the reported events, or 0. */
static __u32 epoll_now(int epoll, int timeout_ms)
{
	struct epoll_event event;
	int ret = epoll_wait(epoll, &event, 1, timeout_ms);

	CHECK(ret >= 0);
	return ret ? event.events : 0;
}

/* The state of a file at STOP. */
static const struct state {
	const char *name;
	__u32 pending;		/* timeouts, which STOP makes events of */
	__u32 fired;		/* unread events */
	struct twheel_setup setup;
	bool withdrawn;		/* CANCEL_ALL withdraws all events; otherwise, they are read */
} states[] = {
	{ .name = "nothing" },
	{ .name = "pending", .pending = 2 },
	{ .name = "fired", .fired = 2 },
	{ .name = "both", .pending = 3, .fired = 2 },
	{ .name = "withdrawn", .pending = 3, .fired = 2, .withdrawn = true },
	{ .name = "withdrawn, nothing fired", .pending = 1, .withdrawn = true },
	{ .name = "own wheel", .pending = 3, .fired = 2, .setup = { .slots = 16 } },
	{ .name = "many", .pending = 1000, .fired = 1 },
	{ .name = "very many", .pending = 100000 },
};

/* Distances between deadlines are long, a nanosecond, or 0. */
static __u64 some_deadline(__u64 base, __u64 i)
{
	if (i % 5 == 0)
		return EXPIRES_MAX - i % 3;
	return base + (i * 2654435761U % 1000) * (i % 7 ? 1 : HOUR);
}

/* A second STOP does nothing. */
static void check_stop(const struct state *state)
{
	int fd = device_open_setup(O_RDWR, state->setup), level = epoll_create_for(fd, EPOLLIN);
	int edge = epoll_create_for(fd, EPOLLIN | EPOLLET), seen;
	__u32 pending = state->pending > 10000 ? scaled(state->pending) : state->pending;
	__u32 nr = pending + state->fired, flags = info(fd).flags;
	__u64 *expires = calloc(nr + 1, sizeof(*expires)), base = now_ns() + HOUR, before;

	CHECK(expires);
	CHECK_EQ(flags & ~TWHEEL_INFO_URING, state->setup.slots ? TWHEEL_INFO_PRIVATE : 0);
	for (__u32 i = 0; i < pending; i++) {
		expires[i] = some_deadline(base, i);
		arm_at(fd, expires[i], i);
	}
	for (__u32 i = pending; i < nr; i++)
		arm_fired(fd, i);
	CHECK_EQ(epoll_now(level, state->fired ? LONG_MS : 0), state->fired ? EPOLLIN : 0);
	before = now_ns();
	CHECK_EQ(stop(fd), 0);
	CHECK(now_ns() - before < time_limit_ns());
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).flags, flags | TWHEEL_INFO_STOPPED);
	CHECK_EQ(file_stats(fd).fired, state->fired);
	CHECK_EQ(file_stats(fd).unprocessed, pending);
	seen = nr ? EPOLLIN : EPOLLHUP;
	CHECK_EQ(epoll_now(level, LONG_MS), seen);
	CHECK_EQ(epoll_now(edge, LONG_MS), seen);
	if (state->withdrawn)
		CHECK_EQ(cancel_all(fd).withdrawn, nr);
	else
		CHECK_EQ(read_all(fd, nr, nr, expires), state->fired);
	if (nr)
		CHECK_EQ(epoll_now(edge, LONG_MS), EPOLLHUP);
	CHECK_EQ(epoll_now(level, LONG_MS), EPOLLHUP);
	CHECK_EQ(epoll_now(level, LONG_MS), EPOLLHUP);
	CHECK_EQ(stop(fd), 0);
	check_drained_after_stop(fd);
	free(expires);
	close(fd);
}

TEST(stop_hands_out_all_and_then_the_end)
{
	for_each_row(state, states)
		check_stop(state);
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
	check_drained_after_stop(fd);
}

/* Waiting readers and pollers */

#define WAITERS		4

struct waiter {
	pthread_t thread;
	int fd;
	int waiting;
	int events;
};

static void *read_to_the_end(void *arg)
{
	struct waiter *waiter = arg;
	struct twheel_event event;
	ssize_t ret;

	SET(waiter->waiting, 1);
	while ((ret = read(waiter->fd, &event, sizeof(event))) > 0) {
		CHECK_EQ(ret, sizeof(event));
		waiter->events++;
	}
	CHECK_EQ(ret, 0);
	return NULL;
}

static void *poll_to_the_end(void *arg)
{
	struct waiter *waiter = arg;
	struct pollfd pollfd = { .fd = waiter->fd, .events = POLLIN };

	SET(waiter->waiting, 1);
	do {
		CHECK_EQ(poll(&pollfd, 1, time_limit_ns() / MS), 1);
	} while (pollfd.revents == POLLIN);
	CHECK_EQ(pollfd.revents, POLLHUP);
	return NULL;
}

/* One of them gets an event, but all of them get the end. */
static void *epoll_to_the_end(void *arg)
{
	struct waiter *waiter = arg;
	int epoll = epoll_create_for(waiter->fd, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE);

	SET(waiter->waiting, 1);
	while (epoll_now(epoll, time_limit_ns() / MS) == EPOLLIN)
		;
	CHECK_EQ(epoll_now(epoll_create_for(waiter->fd, EPOLLIN), LONG_MS), EPOLLHUP);
	close(epoll);
	return NULL;
}

static const struct way {
	const char *name;
	void *(*wait)(void *arg);
} ways[] = {
	{ "read", read_to_the_end }, { "poll", poll_to_the_end }, { "epoll", epoll_to_the_end },
};

static void check_waiters(const struct way *way, int nr)
{
	struct waiter waiters[WAITERS];
	int fd = device_open(O_RDWR), events = 0;

	for (int i = 0; i < WAITERS; i++) {
		waiters[i] = (struct waiter) { .fd = fd };
		pthread_create(&waiters[i].thread, NULL, way->wait, &waiters[i]);
	}
	for (int i = 0; i < WAITERS; i++)
		WAIT_FOR(PEEK(waiters[i].waiting));
	arm_many(fd, nr, HOUR, 1, 0, NULL);
	sleep_ns(20 * MS);
	CHECK_EQ(stop(fd), 0);
	if (way->wait != read_to_the_end) {
		sleep_ns(20 * MS);
		read_all(fd, nr, nr, NULL);
		events = nr;
	}
	for (int i = 0; i < WAITERS; i++) {
		pthread_join(waiters[i].thread, NULL);
		events += waiters[i].events;
	}
	CHECK_EQ(events, nr);
	check_drained_after_stop(fd);
	close(fd);
}

TEST(all_who_wait_get_the_end)
{
	static const int numbers[] = { 0, 1, WAITERS, 5000 };

	for_each_row(way, ways) {
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			check_waiters(way, numbers[i]);
	}
}

/* Races */

#define NR_TIMEOUTS	2000

/* Deadlines are @step apart, and the first one is in 8 ms. Each fires or is unprocessed, once. */
static void check_stop_during_expiry(__u64 step, __u64 delay_ns)
{
	int fd = device_open(O_RDWR);
	__u64 base = now_ns() + 8 * MS;

	arm_many(fd, NR_TIMEOUTS, 8 * MS, step, 0, NULL);
	while (now_ns() < base + delay_ns)
		;
	CHECK_EQ(stop(fd), 0);
	ktap_note("%u of %u fired", read_all(fd, NR_TIMEOUTS, NR_TIMEOUTS, NULL), NR_TIMEOUTS);
	close(fd);
}

/* If all are due in one tick, the sink runs long and STOP comes meanwhile. */
TEST(stop_amid_expiry_loses_nothing)
{
	__u64 seed = now_ns();

	for (int i = 0; i < 12; i++)
		check_stop_during_expiry(5 * NSEC_PER_USEC, i * MS);
	for (__u32 i = 0; i < scaled(40); i++)
		check_stop_during_expiry(0, random_below(&seed, 3 * MS));
}

/* STOP that is killed */

static __u32 many_to_stop(void)
{
	if (is_slow())
		return 15000;
	return is_short() ? 50000 : 100000;
}

static int open_to_stop(__u32 nr)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	arm_many(fd, nr, HOUR, 1000003, 0, NULL);
	return fd;
}

static pid_t stop_in_a_process(int fd)
{
	pid_t pid = fork_child();

	if (!pid)
		_exit(stop(fd) ? 1 : 0);
	return pid;
}

/* The process may have ended before. */
static void kill_and_wait(pid_t pid)
{
	__u64 before = now_ns();

	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(now_ns() - before < max_quick_call_ns());
}

static void set_policy(int policy)
{
	const struct sched_param param = { .sched_priority = policy == SCHED_FIFO };

	CHECK_EQ(sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param), 0);
}

/*
 * Kill STOP @delay_ns after it has begun. Returns whether it had not finished. This task preempts
 * it on their CPU: if the machine stands still, both do.
 */
static bool kill_stop_after(int fd, __u32 nr, __u64 delay_ns)
{
	pid_t pid;

	set_policy(SCHED_FIFO);
	pid = stop_in_a_process(fd);
	while (!(info(fd).flags & TWHEEL_INFO_STOPPED))
		sleep_ns(MS / 20);
	sleep_ns(delay_ns);
	kill_and_wait(pid);
	set_policy(SCHED_OTHER);
	return info(fd).ready < nr;
}

/*
 * LIST finds each timeout once, wherever it is. GET and CANCEL find every thousandth timeout,
 * which does not exist afterwards. The next STOP completes this one.
 */
static void cancel_some(int fd, __u32 nr)
{
	struct twheel_list_entry entries[256];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = 256, .entry_size = sizeof(entries[0]),
	};
	__u32 found = 0, cancelled = 0;
	__u64 none;

	CHECK_EQ(info(fd).live, nr);
	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -ESHUTDOWN);
	/* The end does not come before all events exist. */
	CHECK_EQ(poll_now(fd) & POLLHUP, 0);
	do {
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
		for (__u32 i = 0; i < list.done; i++) {
			if (found++ % 1000)
				continue;
			CHECK_EQ(get_state(fd, entries[i].id).cookie, entries[i].cookie);
			CHECK(cancel(fd, entries[i].id) >= 0);
			CHECK_EQ(get(fd, entries[i].id), -ENOENT);
			cancelled++;
		}
	} while (list.done);
	CHECK_EQ(found, nr);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(read_all(fd, nr, nr - cancelled, NULL), 0);
}

static void cancel_them_all(int fd, __u32 nr)
{
	struct twheel_cancel_all all = cancel_all(fd);

	CHECK_EQ(all.pending + all.withdrawn, nr);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(stop(fd), 0);
	check_drained_after_stop(fd);
}

/* Each call continues or starts again, and the last one completes. */
static void kill_again(int fd, __u32 nr)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = stop_in_a_process(fd);

		sleep_ns(i * MS);
		kill_and_wait(pid);
	}
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(read_all(fd, nr, nr, NULL), 0);
}

/* The file is closed in any case. */
static void do_nothing(int fd, __u32 nr)
{
	CHECK_EQ(info(fd).live, nr);
}

static const struct follow_up {
	const char *name;
	void (*act)(int fd, __u32 nr);
} follow_ups[] = {
	{ "cancel some", cancel_some }, { "cancel all", cancel_them_all },
	{ "kill again", kill_again }, { "close", do_nothing },
};

/* If the delay is as long as STOP takes, further rounds have none. */
TEST(stop_can_be_killed_many_times)
{
	const __u32 nr = many_to_stop();
	const int rounds = is_slow() ? 2 : 4;

	pin_to_one_cpu();
	for_each_row(follow_up, follow_ups) {
		int cut = 0;

		for (int i = 0; i < rounds || (i < 20 && !cut); i++) {
			int fd = open_to_stop(nr);

			cut += kill_stop_after(fd, nr, i < rounds ? (1 << i) * MS : 0);
			follow_up->act(fd, nr);
			close(fd);
		}
		CHECK(cut > 0);
	}
}

TEST(cell_that_a_killed_stop_has_left_wakes_a_poller)
{
	struct twheel_event events[300];
	const __u32 nr = many_to_stop();
	bool left = false;
	__u64 when;
	int fd = -1;

	pin_to_one_cpu();
	for (int i = 0; i < 20 && !left; i++) {
		close(fd);
		fd = open_to_stop(nr);
		when = now_ns() + (2 + i) * NSEC_PER_SEC;
		arm_cell(fd, when, nr);
		left = kill_stop_after(fd, nr, 0);
		while (read(fd, events, sizeof(events)) > 0)
			;
		left = left && now_ns() < when;
	}
	CHECK(left);
	CHECK_EQ(epoll_once(epoll_create_for(fd, EPOLLIN), time_limit_ns() / MS), 1);
}

/* A real-time task that keeps a STOP on the last CPU from going on. */
struct cpu_holder {
	pthread_t thread;
	int fd;
	int holds;
	int over;
};

static void *delay_stop(void *arg)
{
	const struct sched_param param = { .sched_priority = 1 };
	struct cpu_holder *h = arg;

	pin_to_cpu(last_cpu());
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
	pid_t pid = fork_child();

	if (pid)
		return pid;
	pin_to_cpu(last_cpu());
	_exit(stop(fd) ? 1 : 0);
}

/* On a busy machine, the first STOP may end before it is held up. */
TEST(second_stop_does_not_wait_for_the_first)
{
	const __u32 nr = many_to_stop();
	struct cpu_holder h = { .fd = open_to_stop(nr) };
	pid_t first;

	if (last_cpu() == 0)
		ktap_skip("one CPU");
	pin_to_cpu(0);
	CHECK(!pthread_create(&h.thread, NULL, delay_stop, &h));
	first = stop_on_the_last_cpu(h.fd);
	while (!PEEK(h.holds))
		sleep_ns(MS / 20);
	CHECK_EQ(stop(h.fd), 0);
	CHECK_EQ(info(h.fd).ready, nr);
	SET(h.over, 1);
	pthread_join(h.thread, NULL);
	join_child(first);
	CHECK_EQ(read_all(h.fd, nr, nr, NULL), 0);
	check_drained_after_stop(h.fd);
}

/* A signal that is not fatal does not end STOP. */
TEST(stop_goes_on_after_stop_and_continue)
{
	__u32 nr = many_to_stop();
	int fd = open_to_stop(nr);

	stop_and_continue(stop_in_a_process(fd));
	CHECK_EQ(read_all(fd, nr, nr, NULL), 0);
}
