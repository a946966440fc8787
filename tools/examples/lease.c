// SPDX-License-Identifier: GPL-2.0
/*
 * Leases: a supervisor learns in time that a worker has died, and that another one hangs.
 *
 * The supervisor opens the context, makes a cell for each worker, and forks. With each step of its
 * work a worker moves its deadline, by one store into memory that all of them share with the
 * kernel, while the supervisor sleeps. A worker that makes no step for the length of its lease
 * causes an event, whatever has happened to it, because the kernel has the timeout and the
 * supervisor holds the descriptor.
 *
 * Here one worker is killed with SIGKILL, one hangs, and the third one goes on. The program also
 * prints what a step costs beside a heartbeat, a byte that is sent over a socket.
 *
 * It needs the module, since a wheel in the process cannot be shared with other processes.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libtwheel.h"

#define NR_WORKERS	3
#define LEASE_NS	TWHEEL_SEC
#define NR_STEPS	100000		/* whose cost is measured */

enum { WORKS, IS_KILLED, HANGS };

static struct twheel_ctx *ctx;
static struct worker {
	pid_t pid;
	uint64_t id;
	struct twheel_cell *cell;
} workers[NR_WORKERS];

static void check(const char *what, int ret)
{
	if (ret < 0)
		errx(EXIT_FAILURE, "%s: %s", what, strerror(-ret));
}

static void make_step(struct worker *w)
{
	uint64_t now;

	twheel_now(ctx, &now);
	check("arm", twheel_cell_arm(ctx, w->cell, w->id, now + LEASE_NS));
}

static void start(unsigned int number)
{
	struct worker *w = &workers[number];

	check("cell", twheel_cell_create(ctx, number, &w->id, &w->cell));
	make_step(w);				/* a worker that never begins is noticed, too */
	w->pid = fork();
	if (w->pid < 0)
		err(EXIT_FAILURE, "fork");
	if (!w->pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int step = 0; !w->pid; step++) {
		usleep(1000);			/* the work */
		if (number == HANGS && step == 100)
			pause();		/* a lock that nobody releases */
		make_step(w);
	}
}

/* Tell a dead worker from one that hangs. Both are gone then, and could be started again. */
static void end(const struct twheel_event *event)
{
	uint64_t silent_ns = event->fired_ns - event->expires_ns + LEASE_NS;
	pid_t pid = workers[event->cookie].pid;
	int is_dead = waitpid(pid, NULL, WNOHANG) == pid;

	if (!is_dead) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	printf("worker %d %s: noticed %d ms after its last step\n", (int)event->cookie,
	       is_dead ? "is dead" : "hangs", (int)(silent_ns / TWHEEL_MSEC));
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * TWHEEL_SEC + now.tv_nsec;
}

/* Reading the clock is part of a step. To wake the supervisor is not part of a heartbeat. */
static void measure(void)
{
	uint64_t start_ns, step_ns, heartbeat_ns;
	struct twheel_stats stats;
	char byte = 0;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		err(EXIT_FAILURE, "socketpair");
	start_ns = clock_ns();
	for (int i = 0; i < NR_STEPS; i++)
		make_step(&workers[WORKS]);
	step_ns = clock_ns() - start_ns;
	check("stats", twheel_get_stats(ctx, &stats));
	start_ns = clock_ns();
	for (int i = 0; i < NR_STEPS; i++)
		if (write(ends[0], &byte, 1) != 1 || read(ends[1], &byte, 1) != 1)
			err(EXIT_FAILURE, "heartbeat");
	heartbeat_ns = clock_ns() - start_ns;
	printf("a step: %d ns, and %d system calls in all\n", (int)(step_ns / NR_STEPS),
	       (int)stats.kicks);
	printf("a heartbeat over a socket: %d ns, and 2 system calls each\n",
	       (int)(heartbeat_ns / NR_STEPS));
}

int main(void)
{
	struct twheel_event events[NR_WORKERS];
	int nr, nr_left = NR_WORKERS - 1;

	/* A path, so that no wheel in the process takes its place. */
	check("this needs the module, since workers cannot share a wheel in the process: "
	      TWHEEL_DEVICE, twheel_open(TWHEEL_DEVICE, 0, &ctx));
	for (unsigned int i = 0; i < NR_WORKERS; i++)
		start(i);
	measure();
	kill(workers[IS_KILLED].pid, SIGKILL);
	while (nr_left > 0) {
		nr = twheel_read(ctx, events, NR_WORKERS, TWHEEL_FOREVER);
		check("read", nr);
		for (int i = 0; i < nr; i++, nr_left--)
			end(&events[i]);
	}
	kill(workers[WORKS].pid, SIGKILL);
	twheel_close(ctx);
	return EXIT_SUCCESS;
}
