// SPDX-License-Identifier: GPL-2.0
/*
 * Very many timeouts that are due in one tick, while other tasks must run. The time with
 * interrupts off and the lock hold times do not depend on the number of timeouts.
 *
 * Run this on a clock that counts instructions, where the results repeat; a nanosecond is
 * then an instruction. If the kernel has the tracer and lock statistics, they give the time
 * with interrupts off and the lock hold times. On every kernel, a real-time task measures
 * how long it was kept waiting.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	1800

#include <pthread.h>
#include <sched.h>

#include "device.h"

#define TRACING		"/sys/kernel/debug/tracing/"
#define STEP		(37 * NSEC_PER_USEC)
#define DEBUG_STEP	NSEC_PER_MSEC	/* for kernels where a measurement takes longer than STEP */

/*
 * Waits vary by chance, even with ten times as many timeouts; they do not grow with the
 * number.
 */
static int has_not_grown(__u64 lots_ns, __u64 few_ns)
{
	return lots_ns <= few_ns * 3;
}

static int is_full(void)
{
	const char *text = getenv("TWHEEL_STORMS");

	return text && !strcmp(text, "full");
}

/* Enough for many batches. */
static __u32 few_timeouts(void)
{
	return is_full() ? 10000 : 3000;
}

static __u32 many_timeouts(void)
{
	return is_full() ? 1000000 : 30000;
}

static int try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text));
	close(fd);
	return ret < 0 ? -EIO : 0;
}

/* All are due in the same tick, at @when. */
static void arm_together(int fd, __u32 nr, __u64 when)
{
	struct twheel_op ops[512];

	for (__u32 first = 0; first < nr; first += ARRAY_SIZE(ops)) {
		__u32 now = nr - first < ARRAY_SIZE(ops) ? nr - first : ARRAY_SIZE(ops);

		for (__u32 i = 0; i < now; i++)
			ops[i] = op_arm(when, TWHEEL_F_ABS, first + i);
		submit(fd, ops, now);
	}
}

/* A task with the highest priority */

struct watch {
	pthread_t thread;
	int stop;
	__u64 longest;			/* maximum delay of a wakeup */
};

static void *watch(void *arg)
{
	const struct sched_param param = { .sched_priority = 50 };
	__u64 step = access("/proc/lock_stat", F_OK) ? STEP : DEBUG_STEP, next;
	struct watch *w = arg;

	CHECK_EQ(sched_setscheduler(0, SCHED_FIFO, &param), 0);
	for (next = now_ns() + step; !PEEK(w->stop); next += step) {
		struct timespec when = {
			.tv_sec = next / NSEC_PER_SEC,
			.tv_nsec = next % NSEC_PER_SEC,
		};
		__u64 now;

		CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL), 0);
		now = now_ns();
		if (now - next > w->longest)
			w->longest = now - next;
		while (next < now)
			next += step;
	}
	return NULL;
}

/* Measurements of the kernel */

struct measured {
	__u64 watch_ns;			/* maximum wait of the real-time task */
	__u64 irqsoff_ns;		/* 0: not measured; the same for the others */
	__u64 shard_ns;			/* shard.lock */
	__u64 file_ns;			/* twdev_file.lock */
	__u64 ns;			/* time until all had fired */
};

/* This call takes long. */
static void prepare_measuring(void)
{
	try_write(TRACING "current_tracer", "nop");
	try_write(TRACING "tracing_on", "1");
	try_write("/proc/sys/kernel/lock_stat", "1");
	try_write(TRACING "current_tracer", "irqsoff");
}

static void begin_measuring(void)
{
	try_write("/proc/lock_stat", "0");
	try_write(TRACING "tracing_max_latency", "0");
}

static void end_measuring(void)
{
	try_write(TRACING "tracing_on", "0");
	try_write("/proc/sys/kernel/lock_stat", "0");
}

static __u64 irqsoff_ns(void)
{
	FILE *file = fopen(TRACING "tracing_max_latency", "re");
	unsigned long long us = 0;

	if (!file)
		return 0;
	CHECK_EQ(fscanf(file, "%llu", &us), 1);
	fclose(file);
	return us * 1000;
}

/* Maximum hold time of a lock of the class @name: the tenth number. */
static __u64 held_ns(const char *name)
{
	FILE *file = fopen("/proc/lock_stat", "re");
	double longest = 0, us;
	char line[512], *numbers;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		numbers = strchr(line, ':');
		if (!numbers || !strstr(line, name) || strstr(line, name) > numbers)
			continue;
		if (sscanf(numbers + 1, "%*f %*f %*f %*f %*f %*f %*f %*f %*f %lf", &us) == 1 &&
		    us > longest)
			longest = us;
	}
	fclose(file);
	return longest * 1000;
}

/* Wait until all events are ready. Nobody reads them, because that would be measured too. */
static void wait_for_burst(int fd, __u32 nr, __u64 when)
{
	__u64 limit = when + 600 * NSEC_PER_SEC;

	sleep_until(when);
	while (info(fd).ready < nr) {
		CHECK(now_ns() < limit);
		sleep_ns(NSEC_PER_MSEC);
	}
}

static void note_measured(__u32 nr, const struct measured *m)
{
	ktap_note("%u due in one tick: fired in %llu us", nr, m->ns / 1000);
	if (m->irqsoff_ns)
		ktap_note("longest: interrupts off %llu us, shard locked %llu us, file %llu us",
			  m->irqsoff_ns / 1000, m->shard_ns / 1000, m->file_ns / 1000);
	ktap_note("longest: another task waiting %llu us", m->watch_ns / 1000);
}

static struct measured burst(__u32 nr)
{
	int fd = device_open_setup(O_RDWR, (struct twheel_setup) { .slots = 128 });
	__u64 when = now_ns() + (nr / 1000 + 500) * NSEC_PER_MSEC * 10;
	struct watch w = { 0 };
	struct measured m;

	arm_together(fd, nr, when);
	prepare_measuring();
	CHECK(now_ns() < when - 100 * NSEC_PER_MSEC);
	sleep_until(when - 100 * NSEC_PER_MSEC);
	begin_measuring();
	CHECK(!pthread_create(&w.thread, NULL, watch, &w));
	wait_for_burst(fd, nr, when);
	m.ns = now_ns() - when;
	end_measuring();
	SET(w.stop, 1);
	pthread_join(w.thread, NULL);
	m.watch_ns = w.longest;
	m.irqsoff_ns = irqsoff_ns();
	m.shard_ns = held_ns("&s->lock");
	m.file_ns = held_ns("&f->lock");
	close(fd);
	note_measured(nr, &m);
	return m;
}

TEST(others_wait_no_longer_for_many_than_for_few)
{
	struct measured few = burst(few_timeouts()), many = burst(many_timeouts());

	CHECK(many.ns > few.ns);
	CHECK(has_not_grown(many.irqsoff_ns, few.irqsoff_ns));
	CHECK(has_not_grown(many.shard_ns, few.shard_ns));
	CHECK(has_not_grown(many.file_ns, few.file_ns));
	CHECK(has_not_grown(many.watch_ns, few.watch_ns));
}
