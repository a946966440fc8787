// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "machine.h"

#define DESCRIPTORS	(4 * 1024 * 1024)

uint64_t clock_total;
uint64_t clock_begin;
uint64_t clock_cost;
int clock_wanted;

void clock_calibrate(void)
{
	uint64_t least = UINT64_MAX;

	clock_wanted = 1;
	for (int i = 0; i < 1000; i++) {
		clock_start();
		clock_stop();
		if (clock_total < least)
			least = clock_total;
		clock_take();
	}
	clock_wanted = 0;
	clock_cost = least;
}

void die(const char *what)
{
	perror(what);
	exit(1);
}

void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	errno = -ret;
	die(what);
}

/* A memset() here could be turned into calloc(). */
void *zeroed_array(size_t nr, size_t size)
{
	void *memory = malloc(nr * size);

	if (!memory)
		die("malloc");
	explicit_bzero(memory, nr * size);
	return memory;
}

void *shared_array(size_t nr, size_t size)
{
	void *memory = mmap(NULL, nr * size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void sort(uint64_t *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare);
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

FILE *open_file(const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file)
		die(path);
	return file;
}

void write_to(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		die(path);
}

void print_result(const char *system, const char *operation, unsigned int n, double value,
		  const char *unit)
{
	printf("{\"system\": \"%s\", \"operation\": \"%s\", \"n\": %u, ", system, operation, n);
	printf("\"value\": %.1f, \"unit\": \"%s\"}\n", value, unit);
	fflush(stdout);
}

uint64_t cpu_idle_ns(void)
{
	FILE *file = open_file(MODULE "idle_ns");
	uint64_t ns;

	if (fscanf(file, "%lu", &ns) != 1)
		die(MODULE "idle_ns");
	fclose(file);
	return ns;
}

uint64_t free_bytes(void)
{
	unsigned long pages = 0, nr;
	char line[256];
	FILE *file;

	write_to("/proc/sys/vm/drop_caches", "3");
	usleep(500000);
	write_to("/proc/sys/vm/stat_refresh", "1");
	file = open_file("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " pages free %lu", &nr) == 1 ||
		    sscanf(line, " count: %lu", &nr) == 1)
			pages += nr;
	}
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

bool has_instruction_clock(void)
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

/* The sum of the number that @format finds in each line of a file. */
static uint64_t sum_in_file(const char *path, const char *format)
{
	FILE *file = open_file(path);
	uint64_t sum = 0, value;
	char line[4096];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, format, &value) == 1)
			sum += value;
	}
	fclose(file);
	return sum;
}

void read_counters(struct machine_counters *machine)
{
	*machine = (struct machine_counters) {
		.interrupts = timer_interrupts(),
		/* The fourth number in the line of each processor. */
		.sleeps = sum_in_file("/proc/schedstat", "cpu%*u %*u %*u %*u %lu"),
		.switches = sum_in_file("/proc/stat", "ctxt %lu"),
		.at_ns = clock_ns(),
	};
	if (has_instruction_clock())
		machine->busy_ns = machine->at_ns - cpu_idle_ns();
}

struct machine_counters counters_since(const struct machine_counters *before)
{
	struct machine_counters now;

	read_counters(&now);
	return (struct machine_counters) {
		.at_ns = now.at_ns - before->at_ns,
		.busy_ns = now.busy_ns - before->busy_ns,
		.interrupts = now.interrupts - before->interrupts,
		.sleeps = now.sleeps - before->sleeps,
		.switches = now.switches - before->switches,
	};
}

void read_memory(struct memory *memory)
{
	memory->user = sum_in_file("/proc/self/smaps_rollup", "Anonymous: %lu") * 1024;
	memory->all = -(int64_t)free_bytes();
}

static void raise_limit(int resource, rlim_t value)
{
	struct rlimit limit = { .rlim_cur = value, .rlim_max = value };

	if (setrlimit(resource, &limit))
		die("setrlimit");
}

void raise_limits(void)
{
	write_to("/proc/sys/fs/nr_open", "4194304");
	write_to("/proc/sys/fs/file-max", "4194304");
	write_to("/proc/sys/fs/epoll/max_user_watches", "4194304");
	raise_limit(RLIMIT_NOFILE, DESCRIPTORS);
	raise_limit(RLIMIT_SIGPENDING, DESCRIPTORS);
	raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

void bind_to_cpu(unsigned int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number % sysconf(_SC_NPROCESSORS_ONLN), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}
