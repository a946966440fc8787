// SPDX-License-Identifier: GPL-2.0
/*
 * Heartbeats: many processes with some timers of 1 Hz each, which may be late by a slack.
 *
 * The program reports numbers of the whole machine per second: how often it went idle,
 * which is how often it was woken; interrupts of the local timer; context switches. It
 * first measures these numbers on the idle machine and subtracts them.
 *
 *	backend=NAME slack=MS
 *	timerslack=MS	prctl(PR_SET_TIMERSLACK): the kernel may end a sleep later
 *	processes=N timers=N	(50, 20)
 *	seconds=N	(10)
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define INTERVAL_NS	NSEC_PER_SEC
#define PATIENCE_NS	(20 * NSEC_PER_MSEC)	/* beyond the slack */
#define BEATS		100U		/* maximum per timer */

/* In shared memory. */
struct process {
	uint32_t	ready;
	struct samples	late;
};

static const struct backend *backend;
static struct process *processes;
static unsigned int nr_timers;
static uint64_t slack_ns, timer_slack_ns;
static uint64_t first_ns, end_ns;

struct heart {
	struct timers	*timers;
	uint64_t	*expires_ns;	/* next deadline of each timer */
	struct samples	*late;
};

static void arm(struct heart *heart, uint32_t number, bool first)
{
	if (backend->repeat && !first)
		return;
	if (backend->repeat)
		backend->repeat(heart->timers, number, heart->expires_ns[number], INTERVAL_NS);
	else
		backend->arm(heart->timers, number, heart->expires_ns[number]);
}

static void take(struct heart *heart)
{
	uint64_t now = clock_ns();
	uint32_t numbers[BATCH];
	unsigned int nr;

	do {
		nr = backend->take(heart->timers, now, numbers);
		for (unsigned int i = 0; i < nr; i++) {
			add_late(heart->late, heart->expires_ns[numbers[i]], clock_ns());
			heart->expires_ns[numbers[i]] += INTERVAL_NS;
			arm(heart, numbers[i], false);
		}
	} while (nr == BATCH);
	flush_timers(backend, heart->timers);
}

/* At the end, no timer has missed a period. */
static void check_heart(const struct heart *heart)
{
	uint64_t patience = PATIENCE_NS + slack_ns + timer_slack_ns;

	for (unsigned int i = 0; i < nr_timers; i++) {
		if (heart->expires_ns[i] + patience < clock_ns())
			fail("heartbeats: a timer has missed a period");
	}
}

static noreturn void beat(unsigned int number)
{
	struct process *process = &processes[number];
	struct heart heart = {
		.timers		= backend->open(nr_timers, slack_ns),
		.expires_ns	= array(nr_timers, sizeof(uint64_t)),
		.late		= &process->late,
	};
	struct pollfd fd = { .fd = backend->fd(heart.timers), .events = POLLIN };
	uint64_t random = RANDOM_SEED + number * 7919;

	if (timer_slack_ns && prctl(PR_SET_TIMERSLACK, timer_slack_ns))
		die("prctl");
	for (unsigned int i = 0; i < nr_timers; i++) {
		heart.expires_ns[i] = first_ns + random_below(&random, INTERVAL_NS);
		arm(&heart, i, true);
	}
	flush_timers(backend, heart.timers);
	__atomic_store_n(&process->ready, 1, __ATOMIC_SEQ_CST);
	while (clock_ns() < end_ns) {
		uint64_t next = next_of(backend, heart.timers);

		poll_until(&fd, 1, next < end_ns ? next : end_ns);
		if (fd.revents || backend->next)
			take(&heart);
	}
	check_heart(&heart);
	_exit(0);
}

static void start(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		unsigned int beats = nr_timers * BEATS;

		processes[i].late = (struct samples) {
			.ns = shared_array(beats, sizeof(uint64_t)),
			.room = beats,
		};
		switch (fork()) {
		case -1:
			die("fork");
		case 0:
			beat(i);
		}
	}
}

static struct samples join(unsigned int nr)
{
	size_t room = nr * nr_timers * BEATS;
	struct samples all = { .ns = array(room, sizeof(uint64_t)), .room = room };
	int status;

	for (unsigned int i = 0; i < nr; i++) {
		if (wait(&status) < 0 || status)
			fail("heartbeats: a process has failed");
	}
	for (unsigned int i = 0; i < nr; i++) {
		for (size_t j = 0; j < processes[i].late.nr; j++)
			add_late(&all, 0, processes[i].late.ns[j]);
	}
	return all;
}

static struct machine measure(uint64_t from_ns, uint64_t until_ns)
{
	struct machine before;

	sleep_until(from_ns);
	read_machine(&before);
	sleep_until(until_ns);
	return machine_since(&before);
}

static double more(uint64_t is, const struct machine *machine, uint64_t was,
		   const struct machine *idle)
{
	return is * (double)NSEC_PER_SEC / machine->at_ns -
	       was * (double)NSEC_PER_SEC / idle->at_ns;
}

int heartbeats_main(void)
{
	unsigned int nr = option("processes", 50), seconds = option("seconds", 10);
	struct machine idle, busy;
	struct samples late;
	uint64_t now;

	backend = find_backend(option_text("backend", "submit"));
	nr_timers = option("timers", 20);
	slack_ns = option("slack", 0) * NSEC_PER_MSEC;
	timer_slack_ns = option("timerslack", 0) * NSEC_PER_MSEC;
	if (!nr_timers || seconds > BEATS - 5)
		fail("heartbeats: invalid number of seconds or timers");
	raise_limits();
	processes = shared_array(nr, sizeof(*processes));
	idle = measure(clock_ns() + NSEC_PER_SEC, clock_ns() + (seconds + 1) * NSEC_PER_SEC);
	now = clock_ns();
	first_ns = now + NSEC_PER_SEC;
	end_ns = first_ns + (seconds + 3) * NSEC_PER_SEC;
	start(nr);
	busy = measure(first_ns + 2 * INTERVAL_NS, first_ns + (seconds + 2) * NSEC_PER_SEC);
	for (unsigned int i = 0; i < nr; i++) {
		if (!__atomic_load_n(&processes[i].ready, __ATOMIC_SEQ_CST))
			fail("heartbeats: a process was not ready in time");
	}
	late = join(nr);
	printf("scenario=heartbeats backend=%s slack=%lu timerslack=%lu processes=%u timers=%u ",
	       backend->name, slack_ns / NSEC_PER_MSEC, timer_slack_ns / NSEC_PER_MSEC, nr,
	       nr_timers);
	printf("beats=%zu sleeps=%.1f interrupts=%.1f switches=%.1f ", late.nr,
	       more(busy.sleeps, &busy, idle.sleeps, &idle),
	       more(busy.interrupts, &busy, idle.interrupts, &idle),
	       more(busy.switches, &busy, idle.switches, &idle));
	if (is_counting())
		printf("busy=%.0f ", more(busy.busy_ns, &busy, idle.busy_ns, &idle));
	printf("late_50=%.0f late_999=%.0f late_max=%.0f\n", late_at(&late, 500),
	       late_at(&late, 999), late_at(&late, 1000));
	return 0;
}
