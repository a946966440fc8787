// SPDX-License-Identifier: GPL-2.0
/*
 * System calls with error checks, and counters of the machine from /proc and, for idle
 * time, from the module of the benchmark.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scenario.h"

#define DESCRIPTORS	(1024 * 1024)

void die(const char *what)
{
	perror(what);
	exit(1);
}

void fail(const char *what)
{
	fprintf(stderr, "scenarios: %s\n", what);
	exit(1);
}

void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	errno = -ret;
	die(what);
}

static void *map(size_t nr, size_t size, int flags)
{
	void *memory = mmap(NULL, nr * size, PROT_READ | PROT_WRITE,
			    flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

void *array(size_t nr, size_t size)
{
	return map(nr, size, MAP_PRIVATE);
}

void *shared_array(size_t nr, size_t size)
{
	return map(nr, size, MAP_SHARED);
}

void sleep_until(uint64_t ns)
{
	struct timespec moment = to_timespec(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR)
		;
}

void poll_until(struct pollfd *fds, unsigned int nr, uint64_t ns)
{
	uint64_t now = ns == NEVER ? 0 : clock_ns();
	struct timespec left = to_timespec(ns > now ? ns - now : 0);

	if (ppoll(fds, nr, ns == NEVER ? NULL : &left, NULL) < 0 && errno != EINTR)
		die("ppoll");
}

void add_late(struct samples *samples, uint64_t expires_ns, uint64_t now_ns)
{
	if (now_ns < expires_ns)
		fail("a timeout is early");
	if (samples->nr == samples->room)
		fail("more timeouts have fired than were armed");
	samples->ns[samples->nr++] = now_ns - expires_ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

double late_at(struct samples *samples, unsigned int per_mille)
{
	size_t at;

	if (!samples->nr)
		return 0;
	qsort(samples->ns, samples->nr, sizeof(*samples->ns), compare);
	at = (samples->nr - 1) * per_mille / 1000;
	return samples->ns[at] / 1000.0;
}

bool is_counting(void)
{
	return access(MODULE "idle_ns", R_OK) == 0 && sysconf(_SC_NPROCESSORS_ONLN) == 1;
}

/* The line has a column for each processor. */
static uint64_t timer_interrupts(void)
{
	FILE *file = open_file("/proc/interrupts");
	char line[4096], *at, *end;
	uint64_t sum = 0, value;

	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "LOC:");
		if (!at)
			continue;
		for (at += 4; value = strtoull(at, &end, 10), end != at; at = end)
			sum += value;
	}
	fclose(file);
	return sum;
}

static uint64_t context_switches(void)
{
	FILE *file = open_file("/proc/stat");
	uint64_t switches = 0;
	char line[4096];

	while (fgets(line, sizeof(line), file))
		sscanf(line, "ctxt %lu", &switches);
	fclose(file);
	return switches;
}

/* The fourth number in the line of each processor. */
static uint64_t idle_calls(void)
{
	FILE *file = open_file("/proc/schedstat");
	uint64_t sum = 0, calls;
	char line[4096];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "cpu%*u %*u %*u %*u %lu", &calls) == 1)
			sum += calls;
	}
	fclose(file);
	return sum;
}

void read_machine(struct machine *machine)
{
	*machine = (struct machine) {
		.interrupts = timer_interrupts(),
		.sleeps = idle_calls(),
		.switches = context_switches(),
		.at_ns = clock_ns(),
	};
	if (is_counting())
		machine->busy_ns = machine->at_ns - cpu_idle_ns();
}

struct machine machine_since(const struct machine *before)
{
	struct machine now;

	read_machine(&now);
	return (struct machine) {
		.at_ns = now.at_ns - before->at_ns,
		.busy_ns = now.busy_ns - before->busy_ns,
		.interrupts = now.interrupts - before->interrupts,
		.sleeps = now.sleeps - before->sleeps,
		.switches = now.switches - before->switches,
	};
}

void read_memory(struct memory *memory)
{
	FILE *file = open_file("/proc/self/smaps_rollup");
	long kilobytes = 0;
	char line[256];

	while (fgets(line, sizeof(line), file))
		sscanf(line, "Anonymous: %ld", &kilobytes);
	fclose(file);
	memory->user = kilobytes * 1024;
	memory->all = -(int64_t)free_bytes();
}

void raise_limits(void)
{
	struct rlimit files = { DESCRIPTORS, DESCRIPTORS };
	struct rlimit locked = { RLIM_INFINITY, RLIM_INFINITY };

	write_to("/proc/sys/fs/nr_open", "1048576");
	write_to("/proc/sys/fs/file-max", "4194304");
	write_to("/proc/sys/fs/epoll/max_user_watches", "4194304");
	if (setrlimit(RLIMIT_NOFILE, &files) || setrlimit(RLIMIT_MEMLOCK, &locked))
		die("setrlimit");
	write_to("/proc/sys/kernel/sched_schedstats", "1");
}

void use_processor(unsigned int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number % sysconf(_SC_NPROCESSORS_ONLN), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}
