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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define INTERVAL_NS	NSEC_PER_SEC
#define TOLERANCE_NS	(20 * NSEC_PER_MSEC)	/* beyond the slack */
#define MAX_BEATS	100U		/* maximum per timer */

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

struct process_timers {
	struct timers	*timers;
	uint64_t	*expires_ns;	/* next deadline of each timer */
	struct samples	*late;
};

static void arm_timer(struct process_timers *timers, uint32_t number, bool first)
{
	if (backend->repeat && !first)
		return;
	if (backend->repeat)
		backend->repeat(timers->timers, number, timers->expires_ns[number], INTERVAL_NS);
	else
		backend->arm(timers->timers, number, timers->expires_ns[number]);
}

static void handle_fired(struct process_timers *timers)
{
	uint64_t now = clock_ns();
	uint32_t numbers[BATCH];
	unsigned int nr;

	do {
		nr = backend->take(timers->timers, now, numbers);
		for (unsigned int i = 0; i < nr; i++) {
			add_lateness(timers->late, timers->expires_ns[numbers[i]], clock_ns());
			timers->expires_ns[numbers[i]] += INTERVAL_NS;
			arm_timer(timers, numbers[i], false);
		}
	} while (nr == BATCH);
	flush_timers(backend, timers->timers);
}

/* At the end, no timer has missed a period. */
static void check_timers(const struct process_timers *timers)
{
	uint64_t tolerance_ns = TOLERANCE_NS + slack_ns + timer_slack_ns;

	for (unsigned int i = 0; i < nr_timers; i++) {
		if (timers->expires_ns[i] + tolerance_ns < clock_ns())
			fail("heartbeats: a timer has missed a period");
	}
}

static noreturn void run_process(unsigned int number)
{
	struct process *process = &processes[number];
	struct process_timers timers = {
		.timers		= backend->open(nr_timers, slack_ns),
		.expires_ns	= zeroed_array(nr_timers, sizeof(uint64_t)),
		.late		= &process->late,
	};
	struct pollfd fd = { .fd = backend->fd(timers.timers), .events = POLLIN };
	uint64_t random = RANDOM_SEED + number * 7919;

	if (timer_slack_ns && prctl(PR_SET_TIMERSLACK, timer_slack_ns))
		die("prctl");
	for (unsigned int i = 0; i < nr_timers; i++) {
		timers.expires_ns[i] = first_ns + random_below(&random, INTERVAL_NS);
		arm_timer(&timers, i, true);
	}
	flush_timers(backend, timers.timers);
	__atomic_store_n(&process->ready, 1, __ATOMIC_SEQ_CST);
	while (clock_ns() < end_ns) {
		uint64_t next = next_wakeup(backend, timers.timers);

		poll_until(&fd, 1, next < end_ns ? next : end_ns);
		if (fd.revents || backend->next)
			handle_fired(&timers);
	}
	check_timers(&timers);
	_exit(0);
}

static void start_processes(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		unsigned int beats = nr_timers * MAX_BEATS;

		processes[i].late = (struct samples) {
			.ns = shared_array(beats, sizeof(uint64_t)),
			.room = beats,
		};
		switch (fork()) {
		case -1:
			die("fork");
		case 0:
			run_process(i);
		}
	}
}

static struct samples collect_samples(unsigned int nr)
{
	size_t room = nr * nr_timers * MAX_BEATS;
	struct samples all = { .ns = zeroed_array(room, sizeof(uint64_t)), .room = room };
	int status;

	for (unsigned int i = 0; i < nr; i++) {
		if (wait(&status) < 0 || status)
			fail("heartbeats: a process has failed");
	}
	for (unsigned int i = 0; i < nr; i++) {
		for (size_t j = 0; j < processes[i].late.nr; j++)
			add_lateness(&all, 0, processes[i].late.ns[j]);
	}
	return all;
}

static struct machine_counters measure(uint64_t from_ns, uint64_t until_ns)
{
	struct machine_counters before;

	sleep_until(from_ns);
	read_counters(&before);
	sleep_until(until_ns);
	return counters_since(&before);
}

static double increase_per_second(uint64_t is, const struct machine_counters *machine, uint64_t was,
				  const struct machine_counters *idle)
{
	return is * (double)NSEC_PER_SEC / machine->at_ns -
	       was * (double)NSEC_PER_SEC / idle->at_ns;
}

int heartbeats_main(void)
{
	unsigned int nr = option("processes", 50), seconds = option("seconds", 10);
	struct machine_counters idle, busy;
	struct samples late;
	uint64_t now;

	backend = find_backend(option_text("backend", "submit"));
	nr_timers = option("timers", 20);
	slack_ns = option("slack", 0) * NSEC_PER_MSEC;
	timer_slack_ns = option("timerslack", 0) * NSEC_PER_MSEC;
	if (!nr_timers || seconds > MAX_BEATS - 5)
		fail("heartbeats: invalid number of seconds or timers");
	raise_limits();
	processes = shared_array(nr, sizeof(*processes));
	idle = measure(clock_ns() + NSEC_PER_SEC, clock_ns() + (seconds + 1) * NSEC_PER_SEC);
	now = clock_ns();
	first_ns = now + NSEC_PER_SEC;
	end_ns = first_ns + (seconds + 3) * NSEC_PER_SEC;
	start_processes(nr);
	busy = measure(first_ns + 2 * INTERVAL_NS, first_ns + (seconds + 2) * NSEC_PER_SEC);
	for (unsigned int i = 0; i < nr; i++) {
		if (!__atomic_load_n(&processes[i].ready, __ATOMIC_SEQ_CST))
			fail("heartbeats: a process was not ready in time");
	}
	late = collect_samples(nr);
	printf("scenario=heartbeats backend=%s slack=%lu timerslack=%lu processes=%u timers=%u ",
	       backend->name, slack_ns / NSEC_PER_MSEC, timer_slack_ns / NSEC_PER_MSEC, nr,
	       nr_timers);
	printf("beats=%zu sleeps=%.1f interrupts=%.1f switches=%.1f ", late.nr,
	       increase_per_second(busy.sleeps, &busy, idle.sleeps, &idle),
	       increase_per_second(busy.interrupts, &busy, idle.interrupts, &idle),
	       increase_per_second(busy.switches, &busy, idle.switches, &idle));
	if (has_instruction_clock())
		printf("busy=%.0f ", increase_per_second(busy.busy_ns, &busy, idle.busy_ns, &idle));
	printf("late_50=%.0f late_999=%.0f late_max=%.0f\n", lateness_percentile(&late, 500),
	       lateness_percentile(&late, 999), lateness_percentile(&late, 1000));
	return 0;
}
