/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Signals that come while a call is in progress.
 */
#ifndef TWHEEL_TESTS_SIGNALS_H
#define TWHEEL_TESTS_SIGNALS_H

#include <sys/time.h>

#include "device.h"

static int nr_signals;

static inline void count_signal(int number)
{
	(void)number;
	SET(nr_signals, nr_signals + 1);
}

static inline void handle_signal(int number, int flags)
{
	const struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };

	CHECK_EQ(sigaction(number, &action, NULL), 0);
}

/* Send SIGALRM to this process at each interval, or no more if that is 0. */
static inline void signal_every(long usec)
{
	const struct itimerval timer = {
		.it_interval.tv_usec = usec,
		.it_value.tv_usec = usec,
	};

	CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Stop and continue a child, which has no signal handlers, until it ends without an error. */
static inline void stop_and_continue(pid_t pid)
{
	int status, stops = 0;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGSTOP);
		sleep_ns(NSEC_PER_MSEC);
		kill(pid, SIGCONT);
		sleep_ns(3 * NSEC_PER_MSEC);
		stops++;
	}
	ktap_note("%d stops", stops);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/* Returns once SIGKILL has ended the child, which must be soon. */
static inline void kill_child(pid_t pid)
{
	__u64 before = now_ns();
	int status;

	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	ktap_note("gone after %llu us", (now_ns() - before) / NSEC_PER_USEC);
	CHECK(now_ns() - before < max_quick_call_ns());
}

#endif /* TWHEEL_TESTS_SIGNALS_H */
