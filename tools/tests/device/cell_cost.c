// SPDX-License-Identifier: GPL-2.0
/*
 * Work that the owner of cells can cause in the kernel by writing words, without a call.
 */
#define _GNU_SOURCE
#include <dirent.h>

#include "cells.h"
#include "cpu.h"

#define MS		NSEC_PER_MSEC

/* CPU time of a task if it is a twheel thread, otherwise 0. */
static __u64 thread_time_ns(const char *pid)
{
	unsigned long utime = 0, stime = 0;
	char path[300], stat[500] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fgets(stat, sizeof(stat), file) && strstr(stat, "(twheel/"))
		sscanf(strrchr(stat, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		       &utime, &stime);
	fclose(file);
	return (utime + stime) * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

/* CPU time of all twheel threads, in steps of a clock tick. */
static __u64 threads_time_ns(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	__u64 sum = 0;

	CHECK(proc);
	while ((entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			sum += thread_time_ns(entry->d_name);
	closedir(proc);
	return sum;
}

/*
 * From the first look on, all words are a little later than now, so each look finds a moved
 * deadline. That overdraws the account of the user: a work item makes most of the looks. A cell
 * that has fired, as the program was held up, is not looked at any more. In the end all fire.
 */
TEST(storm_of_words)
{
	const __u32 nr = is_slow() ? 2000 : 20000;
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, nr);
	const __u64 ahead = 100 * MS, first = now_ns() + NSEC_PER_SEC;
	__u64 begin, own, threads, found, now = 0;
	static __u64 ids[20000];

	for (__u32 i = 0; i < nr; i++)
		ids[i] = arm_cell(fd, first, i);
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	threads = threads_time_ns();
	begin = now_ns();
	do {
		for (__u32 i = 0; i < nr; i++) {
			now = i % 64 ? now : now_ns();
			exchange(cells, ids[i], now + ahead);
		}
		/* Write no more often than necessary. */
		sleep_ns(ahead / 4);
		found = file_stats(fd).looks;
	} while (found < nr || now_ns() < begin + 3 * NSEC_PER_SEC);
	threads = threads_time_ns() - threads;
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	ktap_note("%u cells: %llu ms of CPU time caused %llu looks and %llu ms in twheel/N", nr,
		  own / MS, found, threads / MS);
	/* With calls for those that have fired meanwhile. */
	for (__u32 i = 0; i < nr; i++)
		cell_arm(fd, cells, ids[i], first);
	for (__u32 i = 0; i < nr; i++)
		CHECK_EQ(read_cell_event(fd).expires_ns, first);
}
