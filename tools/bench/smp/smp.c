// SPDX-License-Identifier: GPL-2.0
/*
 * smp: measures the device with several CPUs, in wall-clock time.
 *
 *	threads_own	1, 2 and 4 threads, each with a file of its own, arm and
 *	threads_shared	cancel in batches; or all of them with one file. How long it
 *			takes until one of them has done one arm and one cancel
 *	lateness_*	four threads, each with its share of timeouts that are due
 *			within seconds, on CPUs that others keep busy. How late the
 *			program knows, in percentiles; with timerfd and epoll too
 *
 * Results are a line of JSON each.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../lib/libtwheel.h"
#include "../backends/backend.h"
#include "../machine.h"

#define BATCH		1024U
#define THREADS		4U
#define RUN_SECONDS	2
#define TIMEOUTS	2500U		/* per thread */
#define LEAD_NS		(2 * NSEC_PER_SEC)	/* time for arming */
#define SPREAD_NS	(4 * NSEC_PER_SEC)

struct usage usage = { .batch = BATCH, .measured = true };

struct worker {
	pthread_t thread;
	unsigned int cpu;
	struct twheel_ctx *ctx;
	unsigned long pairs;		/* number of arms and cancels */
	const struct backend *backend;
	uint64_t *late_ns;
};

static atomic_bool stop;

static void start(struct worker *w, unsigned int cpu, void *(*main)(void *))
{
	w->cpu = cpu;
	if (pthread_create(&w->thread, NULL, main, w))
		fail("pthread_create");
}

static void submit(const struct worker *w, struct twheel_op *ops)
{
	if (twheel_submit_ops(w->ctx, ops, BATCH) != BATCH || ops[0].result)
		fail("submit");
}

/* Threads */

static void *arm_and_cancel(void *arg)
{
	struct worker *w = arg;
	struct twheel_op *ops = array(BATCH, sizeof(*ops));

	use_processor(w->cpu);
	while (!stop) {
		for (unsigned int i = 0; i < BATCH; i++)
			twheel_prep_arm(&ops[i], (3600 + i) * NSEC_PER_SEC, 0, 0);
		submit(w, ops);
		for (unsigned int i = 0; i < BATCH; i++)
			twheel_prep_cancel(&ops[i], ops[i].id);
		submit(w, ops);
		w->pairs += BATCH;
	}
	free(ops);
	return NULL;
}

static void threads(const char *operation, unsigned int nr, bool share)
{
	struct worker workers[THREADS] = { 0 };
	unsigned long pairs = 0;
	uint64_t begin;

	for (unsigned int i = 0; i < nr; i++) {
		if (i && share)
			workers[i].ctx = workers[0].ctx;
		else
			check(twheel_open(NULL, TWHEEL_KERNEL, &workers[i].ctx), "/dev/twheel");
	}
	stop = false;
	begin = clock_ns();
	for (unsigned int i = 0; i < nr; i++)
		start(&workers[i], i, arm_and_cancel);
	sleep(RUN_SECONDS);
	stop = true;
	for (unsigned int i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		pairs += workers[i].pairs;
	}
	if (operation)
		print_result("twheel", operation, nr, (double)(clock_ns() - begin) / pairs, "ns");
	for (unsigned int i = 0; i < nr; i++) {
		if (!i || !share)
			twheel_close(workers[i].ctx);
	}
}

/* Lateness */

static void *keep_busy(void *arg)
{
	struct worker *w = arg;

	use_processor(w->cpu);
	while (!stop)
		w->pairs++;
	return NULL;
}

static void *wait_for_all(void *arg)
{
	struct worker *w = arg;
	uint64_t *deadlines = array(TIMEOUTS, sizeof(*deadlines)), base;
	unsigned int done = 0, seed = w->cpu;
	struct timers *timers = w->backend->open(TIMEOUTS, 0);
	uint32_t numbers[BATCH];

	use_processor(w->cpu);
	base = clock_ns() + LEAD_NS;
	for (unsigned int i = 0; i < TIMEOUTS; i++) {
		deadlines[i] = base + ((uint64_t)rand_r(&seed) * 2 + i % 2) % SPREAD_NS;
		w->backend->arm(timers, i, deadlines[i]);
	}
	flush_timers(w->backend, timers);
	while (done < TIMEOUTS) {
		unsigned int nr = w->backend->take(timers, 0, numbers);
		uint64_t now = clock_ns();

		for (unsigned int i = 0; i < nr; i++)
			w->late_ns[done++] = now - deadlines[numbers[i]];
	}
	w->backend->close(timers);
	free(deadlines);
	return NULL;
}

static void lateness(const char *system, const struct backend *backend)
{
	const unsigned int all = THREADS * TIMEOUTS;
	uint64_t *late_ns = array(all, sizeof(*late_ns));
	struct worker waiters[THREADS] = { 0 }, hogs[THREADS] = { 0 };

	stop = false;
	for (unsigned int i = 0; i < THREADS; i++) {
		waiters[i].backend = backend;
		waiters[i].late_ns = late_ns + i * TIMEOUTS;
		start(&hogs[i], i, keep_busy);
		start(&waiters[i], i, wait_for_all);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(waiters[i].thread, NULL);
	stop = true;
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(hogs[i].thread, NULL);
	sort(late_ns, all);
	print_result(system, "lateness_p50", all, late_ns[all / 2], "ns");
	print_result(system, "lateness_p99", all, late_ns[all / 100 * 99], "ns");
	print_result(system, "lateness_p99.9", all, late_ns[all / 1000 * 999], "ns");
	print_result(system, "lateness_max", all, late_ns[all - 1], "ns");
	free(late_ns);
}

int main(void)
{
	raise_limits();
	threads(NULL, THREADS, false);		/* warm up: an emulator translates the code now */
	for (unsigned int nr = 1; nr <= THREADS; nr *= 2) {
		threads("threads_own", nr, false);
		threads("threads_shared", nr, true);
	}
	lateness("twheel", &backend_submit);
	lateness("timerfd", &backend_new_timerfd);
	return 0;
}
