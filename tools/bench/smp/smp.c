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
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <linux/twheel.h>

#define NSEC_PER_SEC	1000000000ULL

#define BATCH		1024U
#define THREADS		4U
#define RUN_SECONDS	2
#define TIMEOUTS	2500U		/* per thread */
#define LEAD_NS		(2 * NSEC_PER_SEC)	/* time for arming */
#define SPREAD_NS	(4 * NSEC_PER_SEC)

struct worker {
	pthread_t thread;
	unsigned int cpu;
	int fd;
	unsigned long pairs;		/* number of arms and cancels */
	uint64_t *deadlines;
	uint64_t *late_ns;
};

static atomic_bool stop;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *array(size_t nr, size_t size)
{
	void *memory = calloc(nr, size);

	if (!memory)
		die("calloc");
	return memory;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static void tell(const char *system, const char *operation, unsigned int n, double ns)
{
	printf("{\"system\": \"%s\", \"operation\": \"%s\", \"n\": %u, ", system, operation, n);
	printf("\"value\": %.1f, \"unit\": \"ns\"}\n", ns);
	fflush(stdout);
}

static void use_cpu(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static int open_device(void)
{
	int fd = open("/dev/twheel", O_RDWR);

	if (fd < 0)
		die("/dev/twheel");
	return fd;
}

static void start(struct worker *w, unsigned int cpu, void *(*main)(void *))
{
	w->cpu = cpu;
	if (pthread_create(&w->thread, NULL, main, w))
		die("pthread_create");
}

static void submit(int fd, struct twheel_op *ops, unsigned int nr)
{
	struct twheel_submit submit = {
		.ops = (uintptr_t)ops,
		.nr = nr,
		.op_size = sizeof(*ops),
	};

	if (ioctl(fd, TWHEEL_IOC_SUBMIT, &submit) || submit.done != nr || ops[0].result)
		die("submit");
}

/* Threads */

static void *arm_and_cancel(void *arg)
{
	struct worker *w = arg;
	struct twheel_op *ops = array(BATCH, sizeof(*ops));

	use_cpu(w->cpu);
	while (!stop) {
		for (unsigned int i = 0; i < BATCH; i++)
			ops[i] = (struct twheel_op){
				.opcode = TWHEEL_OP_ARM,
				.expires_ns = 3600 * NSEC_PER_SEC + i * NSEC_PER_SEC,
			};
		submit(w->fd, ops, BATCH);
		for (unsigned int i = 0; i < BATCH; i++)
			ops[i] = (struct twheel_op){
				.opcode = TWHEEL_OP_CANCEL,
				.id = ops[i].id,
			};
		submit(w->fd, ops, BATCH);
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

	for (unsigned int i = 0; i < nr; i++)
		workers[i].fd = i && share ? workers[0].fd : open_device();
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
		tell("twheel", operation, nr, (double)(clock_ns() - begin) / pairs);
	for (unsigned int i = 0; i < nr; i++) {
		if (!i || !share)
			close(workers[i].fd);
	}
}

/* Lateness */

static void *keep_busy(void *arg)
{
	struct worker *w = arg;

	use_cpu(w->cpu);
	while (!stop)
		w->pairs++;
	return NULL;
}

static void choose_deadlines(struct worker *w)
{
	uint64_t base = clock_ns() + LEAD_NS;
	unsigned int seed = w->cpu;

	for (unsigned int i = 0; i < TIMEOUTS; i++)
		w->deadlines[i] = base + ((uint64_t)rand_r(&seed) * 2 + i % 2) % SPREAD_NS;
}

static void *wait_with_twheel(void *arg)
{
	struct worker *w = arg;
	struct twheel_event *events = array(BATCH, sizeof(*events));
	struct twheel_op *ops = array(TIMEOUTS, sizeof(*ops));
	unsigned int done = 0;

	use_cpu(w->cpu);
	w->fd = open_device();
	choose_deadlines(w);
	for (unsigned int i = 0; i < TIMEOUTS; i++) {
		ops[i].opcode = TWHEEL_OP_ARM;
		ops[i].flags = TWHEEL_F_ABS;
		ops[i].expires_ns = w->deadlines[i];
	}
	submit(w->fd, ops, TIMEOUTS);
	while (done < TIMEOUTS) {
		ssize_t size = read(w->fd, events, BATCH * sizeof(*events));
		uint64_t now = clock_ns();

		if (size <= 0)
			die("read");
		for (unsigned int i = 0; i < size / sizeof(*events); i++)
			w->late_ns[done++] = now - events[i].expires_ns;
	}
	close(w->fd);
	free(ops);
	free(events);
	return NULL;
}

static int add_timerfd(int epoll, unsigned int number, uint64_t deadline)
{
	struct itimerspec value = {
		.it_value.tv_sec = deadline / NSEC_PER_SEC,
		.it_value.tv_nsec = deadline % NSEC_PER_SEC,
	};
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &value, NULL) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("timerfd_create");
	return fd;
}

static void *wait_with_timerfd(void *arg)
{
	struct worker *w = arg;
	struct epoll_event *events = array(BATCH, sizeof(*events));
	int *fds = array(TIMEOUTS, sizeof(*fds));
	unsigned int done = 0;
	uint64_t count;

	use_cpu(w->cpu);
	w->fd = epoll_create1(0);
	choose_deadlines(w);
	for (unsigned int i = 0; i < TIMEOUTS; i++)
		fds[i] = add_timerfd(w->fd, i, w->deadlines[i]);
	while (done < TIMEOUTS) {
		int nr = epoll_wait(w->fd, events, BATCH, -1);

		for (int i = 0; i < nr; i++) {
			uint32_t number = events[i].data.u32;

			if (read(fds[number], &count, sizeof(count)) != sizeof(count))
				die("read");
			w->late_ns[done++] = clock_ns() - w->deadlines[number];
		}
	}
	for (unsigned int i = 0; i < TIMEOUTS; i++)
		close(fds[i]);
	close(w->fd);
	free(fds);
	free(events);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void lateness(const char *system, void *(*wait)(void *))
{
	const unsigned int all = THREADS * TIMEOUTS;
	uint64_t *late_ns = array(all, sizeof(*late_ns));
	struct worker waiters[THREADS] = { 0 }, hogs[THREADS] = { 0 };

	stop = false;
	for (unsigned int i = 0; i < THREADS; i++) {
		waiters[i].deadlines = array(TIMEOUTS, sizeof(uint64_t));
		waiters[i].late_ns = late_ns + i * TIMEOUTS;
		start(&hogs[i], i, keep_busy);
		start(&waiters[i], i, wait);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(waiters[i].thread, NULL);
		free(waiters[i].deadlines);
	}
	stop = true;
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(hogs[i].thread, NULL);
	qsort(late_ns, all, sizeof(*late_ns), compare);
	tell(system, "lateness_p50", all, late_ns[all / 2]);
	tell(system, "lateness_p99", all, late_ns[all / 100 * 99]);
	tell(system, "lateness_p99.9", all, late_ns[all / 1000 * 999]);
	tell(system, "lateness_max", all, late_ns[all - 1]);
	free(late_ns);
}

int main(void)
{
	struct rlimit files = { 2 * THREADS * TIMEOUTS, 2 * THREADS * TIMEOUTS };

	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	threads(NULL, THREADS, false);		/* warm up: an emulator translates the code now */
	for (unsigned int nr = 1; nr <= THREADS; nr *= 2) {
		threads("threads_own", nr, false);
		threads("threads_shared", nr, true);
	}
	lateness("twheel", wait_with_twheel);
	lateness("timerfd", wait_with_timerfd);
	return 0;
}
