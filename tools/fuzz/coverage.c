// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/kcov.h>

#include "fuzz.h"

#define TRACE_ENTRIES	(1UL << 18)	/* entries per thread and program */
#define MAP_BITS	16
#define MAP_SIZE	65536
#define MAX_RANGES	4

static struct range {
	uint64_t begin, end;
} ranges[MAX_RANGES];
static unsigned int nr_ranges;

static uint8_t map[MAP_SIZE];
static unsigned int total, passed_on;

static __thread unsigned long *trace;

static void find_modules(void)
{
	FILE *file = fopen("/proc/modules", "r");
	unsigned long long address;
	unsigned long size;
	char line[300], name[60];

	while (file && nr_ranges < MAX_RANGES && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%59s %lu %*s %*s %*s %llx", name, &size, &address) != 3 ||
		    strncmp(name, "twheel", 6))
			continue;
		ranges[nr_ranges++] = (struct range) { address, address + size };
	}
	if (file)
		fclose(file);
}

static int is_ours(uint64_t pc)
{
	for (unsigned int i = 0; i < nr_ranges; i++) {
		if (pc - ranges[i].begin < ranges[i].end - ranges[i].begin)
			return 1;
	}
	return 0;
}

int coverage_begin(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);

	/* The descriptor stays open as long as the thread lives. */
	if (fd < 0 || ioctl(fd, KCOV_INIT_TRACE, TRACE_ENTRIES))
		return 0;
	trace = mmap(NULL, TRACE_ENTRIES * sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     0);
	if (trace == MAP_FAILED || ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC)) {
		trace = NULL;
		return 0;
	}
	/* A child is not traced. Copying this area would take half the time of a fork(). */
	madvise(trace, TRACE_ENTRIES * sizeof(*trace), MADV_DONTFORK);
	if (!nr_ranges)
		find_modules();
	return nr_ranges > 0;
}

void coverage_reset(void)
{
	if (trace)
		__atomic_store_n(&trace[0], 0, __ATOMIC_RELAXED);
}

static unsigned int map_index(uint64_t from, uint64_t to)
{
	return ((from * 0x9e3779b97f4a7c15) ^ (to * 0xc2b2ae3d27d4eb4f)) >> (64 - MAP_BITS);
}

/* Number of new pairs in the trace of this thread. */
static unsigned int count_new_pairs(void)
{
	unsigned long nr = trace ? __atomic_load_n(&trace[0], __ATOMIC_RELAXED) : 0;
	unsigned int found = 0;
	uint64_t before = 0;

	for (unsigned long i = 1; i <= nr; i++) {
		uint64_t pc = trace[i];

		if (!is_ours(pc))
			continue;
		found += !__atomic_exchange_n(&map[map_index(before, pc)], 1, __ATOMIC_RELAXED);
		before = pc;
	}
	coverage_reset();
	return found;
}

void coverage_pass_on(void)
{
	__atomic_fetch_add(&passed_on, count_new_pairs(), __ATOMIC_RELAXED);
}

unsigned int coverage_collect(void)
{
	unsigned int found = count_new_pairs() +
		__atomic_exchange_n(&passed_on, 0, __ATOMIC_RELAXED);

	total += found;
	return found;
}

unsigned int coverage_total(void)
{
	return total;
}
