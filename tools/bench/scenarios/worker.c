// SPDX-License-Identifier: GPL-2.0
/*
 * A worker dies: a prefork server holds leases, which its workers renew. One worker is
 * killed with SIGKILL while it renews. The program checks which leases still expire on
 * time.
 *
 *	backend=NAME
 *	owner=master	the timeouts are opened before the fork, and the master takes those
 *			that have fired
 *	owner=worker	each worker opens its own, and takes them
 *	workers=N leases=N	(4, 10000 of all workers)
 *
 * A lease lasts two seconds, and all leases are renewed every half second. Shared memory
 * contains for each lease when it must expire, and when its expiry was noticed. It is on
 * time within LATE_NS. The killed worker may be renewing a few leases. These may expire at
 * the old or at the new time.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define LEASE_NS	(2 * NSEC_PER_SEC)
#define RENEW_NS	(500 * NSEC_PER_MSEC)
#define RUN_NS		(3 * RENEW_NS)		/* until the worker is killed */
#define MAX_LATE_NS	(100 * NSEC_PER_MSEC)

/**
 * struct lease - shared between all processes
 * @before_ns: expiry without the current renewal
 * @expires_ns: expiry with the current renewal
 * @expired_ns: time when the expiry was noticed; 0: not yet
 * @nr_expired: number of times that it was noticed
 */
struct lease {
	uint64_t	before_ns;
	uint64_t	expires_ns;
	uint64_t	expired_ns;
	uint32_t	nr_expired;
};

static const struct backend *backend;
static struct timers *timers;		/* timeouts of the master or of this worker */
static struct lease *leases;
static unsigned int nr_workers, leases_per_worker;
static bool owned_by_master;
static uint64_t start_ns;
static uint32_t *stop;			/* shared: no more renewals */

static bool is_stopped(void)
{
	return __atomic_load_n(stop, __ATOMIC_SEQ_CST);
}

/* The number of a timeout counts from the first lease of the set. */
static void take_expired(unsigned int first)
{
	uint64_t now = clock_ns();
	uint32_t numbers[BATCH];
	unsigned int nr;

	do {
		nr = backend->take(timers, now, numbers);
		for (unsigned int i = 0; i < nr; i++) {
			struct lease *lease = &leases[first + numbers[i]];

			lease->expired_ns = clock_ns();
			lease->nr_expired++;
		}
	} while (nr == BATCH);
}

static void collect_until(unsigned int first, uint64_t end_ns)
{
	struct pollfd fd = { .fd = backend->fd(timers), .events = POLLIN };

	while (clock_ns() < end_ns) {
		uint64_t next = next_wakeup(backend, timers);

		poll_until(&fd, 1, next < end_ns ? next : end_ns);
		if (fd.revents || backend->next)
			take_expired(first);
	}
}

/* Renew @nr leases, at most BATCH. */
static void renew_some(unsigned int first, unsigned int nr, unsigned int offset)
{
	uint64_t expires_ns = clock_ns() + LEASE_NS;

	for (unsigned int i = first; i < first + nr; i++) {
		__atomic_store_n(&leases[i].expires_ns, expires_ns, __ATOMIC_SEQ_CST);
		backend->arm(timers, i - offset, expires_ns);
	}
	flush_timers(backend, timers);
	for (unsigned int i = first; i < first + nr; i++)
		__atomic_store_n(&leases[i].before_ns, expires_ns, __ATOMIC_SEQ_CST);
}

static void renew(unsigned int first, unsigned int offset)
{
	for (unsigned int i = 0; i < leases_per_worker; i += BATCH)
		renew_some(first + i, leases_per_worker - i < BATCH ? leases_per_worker - i : BATCH,
			   offset);
}

/* The first worker is the one that is killed: in its last period it renews all the time. */
static noreturn void run_worker(unsigned int number)
{
	unsigned int first = number * leases_per_worker, offset = owned_by_master ? 0 : first;

	if (!owned_by_master)
		timers = backend->open(leases_per_worker, 0);
	for (uint64_t next = start_ns; !is_stopped(); next += RENEW_NS) {
		renew(first, offset);
		while (!number && clock_ns() > start_ns + RUN_NS - RENEW_NS / 2)
			renew(first, offset);
		if (owned_by_master)
			sleep_until(next + RENEW_NS);
		else
			collect_until(first, next + RENEW_NS);
	}
	if (!owned_by_master)
		collect_until(first, clock_ns() + LEASE_NS + MAX_LATE_NS);
	_exit(0);
}

static bool is_on_time(uint64_t expires_ns, uint64_t expired_ns)
{
	return expired_ns >= expires_ns && expired_ns < expires_ns + MAX_LATE_NS;
}

struct counts {
	unsigned int	on_time;
	unsigned int	late;
	unsigned int	never;
};

static void check_lease(const struct lease *lease, struct counts *counts)
{
	if (lease->nr_expired > 1)
		fail("worker: a lease has expired twice");
	if (!lease->nr_expired)
		counts->never++;
	else if (is_on_time(lease->before_ns, lease->expired_ns) ||
		 is_on_time(lease->expires_ns, lease->expired_ns))
		counts->on_time++;
	else if (lease->expired_ns < lease->before_ns)
		fail("worker: a lease has expired early");
	else
		counts->late++;
}

static pid_t start_worker(unsigned int number)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		run_worker(number);
	return pid;
}

static void kill_worker(pid_t pid)
{
	int status;

	if (kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid)
		die("kill");
	if (!WIFSIGNALED(status))
		fail("worker: it ended before it was killed");
}

/* The other workers renew until the end of this period, and once more. */
static void wait_for_workers(void)
{
	uint64_t end_ns = clock_ns() + 2 * RENEW_NS + LEASE_NS + 2 * MAX_LATE_NS;
	int status;

	__atomic_store_n(stop, 1, __ATOMIC_SEQ_CST);
	if (owned_by_master)
		collect_until(0, end_ns);
	for (unsigned int i = 1; i < nr_workers; i++) {
		if (wait(&status) < 0 || status)
			fail("worker: one has failed");
	}
}

int worker_main(void)
{
	struct counts dead = { 0 }, alive = { 0 };
	pid_t victim = 0;

	backend = find_backend(option_text("backend", "cells"));
	owned_by_master = !strcmp(option_text("owner", "master"), "master");
	nr_workers = option("workers", 4);
	leases_per_worker = option("leases", 10000) / nr_workers;
	raise_limits();
	leases = shared_array(nr_workers * leases_per_worker, sizeof(*leases));
	stop = shared_array(1, sizeof(*stop));
	if (owned_by_master)
		timers = backend->open(nr_workers * leases_per_worker, 0);
	start_ns = clock_ns() + RENEW_NS;
	for (unsigned int i = 0; i < nr_workers; i++) {
		pid_t pid = start_worker(i);

		victim = i ? victim : pid;
	}
	sleep_until(start_ns + RUN_NS);
	kill_worker(victim);
	wait_for_workers();
	for (unsigned int i = 0; i < nr_workers * leases_per_worker; i++)
		check_lease(&leases[i], i < leases_per_worker ? &dead : &alive);
	printf("scenario=worker backend=%s owner=%s workers=%u leases=%u ", backend->name,
	       owned_by_master ? "master" : "worker", nr_workers, leases_per_worker);
	printf("dead_on_time=%u dead_late=%u dead_never=%u ", dead.on_time, dead.late, dead.never);
	printf("alive_on_time=%u alive_late=%u alive_never=%u\n", alive.on_time, alive.late,
	       alive.never);
	return 0;
}
