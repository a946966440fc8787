// SPDX-License-Identifier: GPL-2.0
/*
 * Idle server: very many connections, of which one in a hundred is active. Each has a
 * timeout of 60 s, which traffic moves.
 *
 * Connections are socketpairs in one epoll set. They arrive in the first ten seconds. An
 * active connection gets a message every second. The others are silent and are dropped
 * after 60 s, over ten seconds. Dropping only marks a connection, because closing it would
 * cost the same with each back end. The same thread plays the clients, woken a hundred
 * times a second by a timerfd. The row without timeouts shows the cost of that.
 *
 *	connections=N	of all runs (100000)
 *	idle=MS		the idle timeout (60000); arrivals take a sixth of it
 *	+		a run: a process with these connections
 *	backend=NAME slack=MS
 *	lazy=1		traffic notes the time alone. A timeout that fires is armed for the
 *			rest, if there was traffic
 *
 * Reported per second, while all connections are held: the time that the processor was
 * busy, and how often it went idle. The same while they are dropped, and the busy time per
 * dropped connection. Also reported: memory of the timeouts in the process and in the
 * kernel, and the lateness of the drops.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define TICK_NS		(10 * NSEC_PER_MSEC)
#define MESSAGE_NS	NSEC_PER_SEC
#define ACTIVE		100U		/* one of so many connections */
#define PAUSE_NS	NSEC_PER_SEC	/* before the measurement, and after the end */

/* epoll data of descriptors that are no connection. */
#define CLIENTS		0xffffffffU
#define TIMEOUTS	0xfffffffeU

struct connection {
	int		server;
	int		client;
	uint64_t	heard_ns;
	bool		dropped;
};

static const struct backend *backend;
static struct timers *timers;
static struct connection *connections;
static unsigned int n, nr_armed, nr_dropped;
static bool lazy;
static uint64_t idle_ns, slack_ns;
static uint64_t start_ns, arrive_ns;
static int epoll, ticker;
static struct samples lateness;

static bool is_active(unsigned int number)
{
	return number % ACTIVE == 0;
}

static void add_to_epoll(int fd, uint32_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static void connect_all(void)
{
	for (unsigned int i = 0; i < n; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
			die("socketpair");
		connections[i].server = pair[0];
		connections[i].client = pair[1];
	}
}

static void note_traffic(unsigned int number, uint64_t now)
{
	connections[number].heard_ns = now;
	if (!lazy)
		backend->arm(timers, number, now + idle_ns);
}

/* Connections arrive evenly over time. */
static void arm_arrived(unsigned int count)
{
	for (; nr_armed < count; nr_armed++) {
		uint64_t heard_ns = start_ns + nr_armed * arrive_ns / n;

		connections[nr_armed].heard_ns = heard_ns;
		backend->arm(timers, nr_armed, heard_ns + idle_ns);
	}
}

/* Clients: the connections that must have arrived by now, and messages of active ones. */
static void play_clients(uint64_t now)
{
	uint64_t since = now - start_ns, ticks, due;
	static uint64_t sent;

	if (read(ticker, &ticks, sizeof(ticks)) != sizeof(ticks))
		die("ticker");
	arm_arrived(since >= arrive_ns ? n : n * since / arrive_ns);
	for (due = since * (n / ACTIVE) / MESSAGE_NS; sent < due; sent++) {
		unsigned int number = sent % (n / ACTIVE) * ACTIVE;

		if (number < nr_armed && write(connections[number].client, "hello", 5) != 5)
			die("write");
	}
}

static void handle_timeout(unsigned int number, uint64_t now)
{
	struct connection *connection = &connections[number];
	uint64_t expires_ns = connection->heard_ns + idle_ns;

	if (lazy && expires_ns > now) {
		backend->arm(timers, number, expires_ns);
		return;
	}
	if (connection->dropped || is_active(number))
		fail("idle: a connection was dropped twice, or although it had traffic");
	connection->dropped = true;
	nr_dropped++;
	add_lateness(&lateness, expires_ns, now);
}

static void take_timeouts(void)
{
	uint64_t now = clock_ns();
	uint32_t numbers[BATCH];
	unsigned int nr;

	do {
		nr = backend->take(timers, now, numbers);
		for (unsigned int i = 0; i < nr; i++)
			handle_timeout(numbers[i], clock_ns());
	} while (nr == BATCH);
}

static void receive(unsigned int number, uint64_t now)
{
	char text[64];

	if (recv(connections[number].server, text, sizeof(text), 0) <= 0)
		die("recv");
	note_traffic(number, now);
}

static int wait_until(struct epoll_event *events, uint64_t until_ns)
{
	uint64_t now = clock_ns();
	struct timespec left = to_timespec(until_ns > now ? until_ns - now : 0);
	int nr = epoll_pwait2(epoll, events, BATCH, &left, NULL);

	if (nr < 0 && errno != EINTR)
		die("epoll_pwait2");
	return nr;
}

static void run_loop_once(uint64_t until_ns)
{
	uint64_t next = next_wakeup(backend, timers), now;
	struct epoll_event events[BATCH];
	bool timeouts = backend->next;
	int nr = wait_until(events, next < until_ns ? next : until_ns);

	now = clock_ns();
	for (int i = 0; i < nr; i++) {
		if (events[i].data.u32 == CLIENTS)
			play_clients(now);
		else if (events[i].data.u32 == TIMEOUTS)
			timeouts = true;
		else
			receive(events[i].data.u32, now);
	}
	if (timeouts)
		take_timeouts();
	flush_timers(backend, timers);
}

static void run_until(uint64_t end_ns)
{
	while (clock_ns() < end_ns)
		run_loop_once(end_ns);
}

static struct machine_counters measure_until(uint64_t end_ns)
{
	struct machine_counters before;

	read_counters(&before);
	run_until(end_ns);
	return counters_since(&before);
}

static void setup_epoll(void)
{
	struct itimerspec tick = {
		.it_value	= to_timespec(TICK_NS),
		.it_interval	= to_timespec(TICK_NS),
	};

	lateness = (struct samples){ .ns = zeroed_array(n, sizeof(uint64_t)), .room = n };
	epoll = epoll_create1(EPOLL_CLOEXEC);
	ticker = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (epoll < 0 || ticker < 0)
		die("epoll_create1");
	for (unsigned int i = 0; i < n; i++)
		add_to_epoll(connections[i].server, i);
	add_to_epoll(ticker, CLIENTS);
	if (timerfd_settime(ticker, 0, &tick, NULL))
		die("timerfd_settime");
}

static double per_second(uint64_t value, const struct machine_counters *machine)
{
	return value * (double)NSEC_PER_SEC / machine->at_ns;
}

static void print_results(const struct machine_counters *hold,
			  const struct machine_counters *dropping,
			  const struct memory *before, const struct memory *after)
{
	int64_t user = after->user - before->user, all = after->all - before->all;

	printf("scenario=idle backend=%s lazy=%d slack=%lu connections=%u dropped=%u ",
	       backend->name, lazy, slack_ns / NSEC_PER_MSEC, n, nr_dropped);
	printf("hold_busy=%.0f hold_sleeps=%.1f ",
	       per_second(hold->busy_ns, hold), per_second(hold->sleeps, hold));
	printf("drop_busy=%.0f drop_sleeps=%.1f drop_s=%.1f ",
	       per_second(dropping->busy_ns, dropping), per_second(dropping->sleeps, dropping),
	       dropping->at_ns / (double)NSEC_PER_SEC);
	printf("user=%.1f kernel=%.1f ", (double)user / n, (double)(all - user) / n);
	printf("late_50=%.0f late_999=%.0f late_max=%.0f\n", lateness_percentile(&lateness, 500),
	       lateness_percentile(&lateness, 999), lateness_percentile(&lateness, 1000));
}

static noreturn void run(void)
{
	struct memory before, after;
	struct machine_counters hold, dropping;

	backend = find_backend(option_text("backend", "cells"));
	slack_ns = option("slack", 0) * NSEC_PER_MSEC;
	lazy = option("lazy", 0);
	setup_epoll();
	read_memory(&before);
	timers = backend->open(n, slack_ns);
	if (backend->fd(timers) >= 0)
		add_to_epoll(backend->fd(timers), TIMEOUTS);
	start_ns = clock_ns();
	run_until(start_ns + arrive_ns + TICK_NS);
	if (nr_armed < n)
		fail("idle: not all connections have arrived");
	read_memory(&after);
	run_until(start_ns + arrive_ns + PAUSE_NS);
	hold = measure_until(start_ns + idle_ns);
	dropping = measure_until(start_ns + idle_ns + arrive_ns + slack_ns + PAUSE_NS);
	if (backend != &backend_none && nr_dropped != n - n / ACTIVE)
		fail("idle: some silent connections were not dropped");
	print_results(&hold, &dropping, &before, &after);
	exit(0);
}

int idle_main(void)
{
	int status, failed = 0;

	n = option("connections", 100000);
	idle_ns = option("idle", 60000) * NSEC_PER_MSEC;
	arrive_ns = idle_ns / 6;
	if (!n || n % ACTIVE)
		fail("idle: the number of connections is not a multiple of a hundred");
	raise_limits();
	bind_to_cpu(0);
	connections = zeroed_array(n, sizeof(*connections));
	connect_all();
	while (next_run()) {
		switch (fork()) {
		case -1:
			die("fork");
		case 0:
			run();
		}
		if (wait(&status) < 0 || status)
			failed = 1;
	}
	return failed;
}
