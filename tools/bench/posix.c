// SPDX-License-Identifier: GPL-2.0
/*
 * POSIX timers that send a blocked real-time signal, which a signalfd takes.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "itimer.h"

static unsigned int size;
static int fd;
static timer_t *timers;
static bool *alive;
static struct itimerspec *values;
static struct signalfd_siginfo *infos;

static void posix_open(unsigned int n)
{
	sigset_t set;

	size = n;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, 0);
	if (fd < 0)
		die("signalfd");
	timers = array(n, sizeof(*timers));
	alive = array(n, sizeof(*alive));
	values = array(n, sizeof(*values));
	infos = array(BATCH, sizeof(*infos));
}

static void posix_close(void)
{
	for (unsigned int i = 0; i < size; i++) {
		if (alive[i])
			timer_delete(timers[i]);
	}
	close(fd);
	free(timers);
	free(alive);
	free(values);
	free(infos);
}

static void arm_one(uint32_t number, const struct itimerspec *value)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };

	event.sigev_value.sival_int = number;
	if (timer_create(CLOCK_MONOTONIC, &event, &timers[number]) ||
	    timer_settime(timers[number], TIMER_ABSTIME, value, NULL))
		die("timer_create");
	alive[number] = true;
}

static void rearm_one(uint32_t number, const struct itimerspec *value)
{
	if (timer_settime(timers[number], TIMER_ABSTIME, value, NULL))
		die("timer_settime");
}

static void cancel_one(uint32_t number)
{
	if (timer_delete(timers[number]))
		die("timer_delete");
	alive[number] = false;
}

static void posix_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	static const struct itimer_calls calls = { arm_one, rearm_one, cancel_one };

	itimer_single(&calls, values, verb, which, nr);
}

static unsigned int posix_collect(void)
{
	ssize_t got = read(fd, infos, BATCH * sizeof(*infos));

	if (got <= 0)
		die("signalfd: read");
	return got / sizeof(*infos);
}

const struct system system_posix = {
	.name		= "posix",
	.verbs		= 1 << ARM | 1 << REARM | 1 << CANCEL,
	.max		= 100000,
	.max_reason	= "left out because each call walks one of 512 hash chains with all timers",
	.open		= posix_open,
	.close		= posix_close,
	.single		= posix_single,
	.collect	= posix_collect,
};
