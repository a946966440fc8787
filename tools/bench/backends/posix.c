// SPDX-License-Identifier: GPL-2.0
/*
 * POSIX timers that send a blocked real-time signal, which a signalfd takes.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "../machine.h"
#include "backend.h"

struct posix {
	struct timers		timers;
	int			fd;
	struct signalfd_siginfo	*infos;
	struct {
		timer_t		timer;
		bool		exists;
	} entries[];
};

static struct timers *posix_open(unsigned int n, uint64_t slack_ns)
{
	struct posix *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->entries));
	sigset_t signals;

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	set->infos = zeroed_array(usage.batch, sizeof(*set->infos));
	sigemptyset(&signals);
	sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	set->fd = signalfd(-1, &signals, 0);
	if (set->fd < 0)
		die("signalfd");
	return &set->timers;
}

static void posix_close(struct timers *timers)
{
	struct posix *set = (struct posix *)timers;

	for (unsigned int i = 0; i < timers->n; i++) {
		if (set->entries[i].exists)
			timer_delete(set->entries[i].timer);
	}
	/* Drops the signals of timers that had fired. */
	signal(SIGRTMIN, SIG_IGN);
	signal(SIGRTMIN, SIG_DFL);
	close(set->fd);
	free(set->infos);
	free(set);
}

static void posix_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct posix *set = (struct posix *)timers;
	struct itimerspec value = { .it_value = to_timespec(expires_ns) };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };

	event.sigev_value.sival_int = number;
	clock_start();
	if (!set->entries[number].exists &&
	    timer_create(CLOCK_MONOTONIC, &event, &set->entries[number].timer))
		die("timer_create");
	if (timer_settime(set->entries[number].timer, TIMER_ABSTIME, &value, NULL))
		die("timer_settime");
	clock_stop();
	set->entries[number].exists = true;
}

static void posix_cancel(struct timers *timers, uint32_t number)
{
	struct posix *set = (struct posix *)timers;

	clock_start();
	if (timer_delete(set->entries[number].timer))
		die("timer_delete");
	clock_stop();
	set->entries[number].exists = false;
}

static unsigned int posix_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct posix *set = (struct posix *)timers;
	ssize_t size = read(set->fd, set->infos, usage.batch * sizeof(*set->infos));
	unsigned int nr = size / sizeof(*set->infos);

	(void)now_ns;
	if (size <= 0)
		die("signalfd: read");
	for (unsigned int i = 0; numbers && i < nr; i++)
		numbers[i] = set->infos[i].ssi_int;
	return nr;
}

const struct backend backend_posix = {
	.name	= "posix",
	.open	= posix_open,
	.close	= posix_close,
	.arm	= posix_arm,
	.move	= posix_arm,
	.cancel	= posix_cancel,
	.take	= posix_take,
};
