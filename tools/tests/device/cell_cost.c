// SPDX-License-Identifier: GPL-2.0
/*
 * Work that the owner of cells can cause in the kernel by writing words, without a call.
 */
#define _GNU_SOURCE
#include <dirent.h>

#include "cells.h"
#include "cpu.h"

#define MS		NSEC_PER_MSEC
#define BURST		16384	/* looks without a pace */

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
 * deadline. On a shared wheel such looks are paced, whatever is written: a burst, and then 64 for
 * each CPU and millisecond. A cell that has fired, as the program was held up, is not looked at
 * any more.
 */
TEST(storm_of_words)
{
	const __u32 nr = is_slow() ? 2000 : 20000;
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, nr);
	const __u64 ahead = 100 * MS, first = now_ns() + NSEC_PER_SEC;
	__u64 begin, own, threads, found, now = 0, paced_ms;
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
	paced_ms = ((now_ns() - first) / MS + 2) * sysconf(_SC_NPROCESSORS_CONF);
	threads = threads_time_ns() - threads;
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	ktap_note("%u cells: %llu ms of CPU time caused %llu looks and %llu ms in twheel/N", nr,
		  own / MS, found, threads / MS);
	CHECK(found <= nr + BURST + 64 * paced_ms);
}

#define LOOK_NS		(MS / 64)	/* the pace of looks that find a cell moved */
#define MOVED		4000

/* Have the kernel look at cells that have been moved to in an hour. */
static void look_at_moved_cells(int fd, struct twheel_cell *cells, const __u64 *ids)
{
	static struct twheel_op kicks[MOVED];
	__u64 before = file_stats(fd).looks;

	for (__u32 i = 0; i < MOVED; i++) {
		exchange(cells, ids[i], now_ns() + 20 * MS);
		kicks[i] = op_kick(ids[i]);
	}
	submit(fd, kicks, MOVED);
	for (__u32 i = 0; i < MOVED; i++)
		exchange(cells, ids[i], now_ns() + HOUR);
	while (file_stats(fd).looks < before + MOVED)
		sleep_ns(MS);
}

/*
 * The pace spreads looks. However many there were, a look is put off for no longer than it takes
 * to look at each cell of the user.
 */
TEST(look_waits_for_one_look_at_each_cell_at_most)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, MOVED + 1);
	__u64 probe, when, before, look;
	static __u64 ids[MOVED];

	stay_on_one_cpu();
	for (__u32 i = 0; i < MOVED; i++)
		ids[i] = idle_cell(fd, i);
	probe = idle_cell(fd, 0);
	for (int round = 0; round < (is_short() ? 20 : 50); round++)
		look_at_moved_cells(fd, cells, ids);
	before = file_stats(fd).looks;
	when = now_ns() + 10 * MS;
	cell_arm(fd, cells, probe, when);
	exchange(cells, probe, when + 5 * MS);
	while (file_stats(fd).looks == before)
		sleep_ns(MS);
	/* The look has put the next one off, or has fired the cell if the program was held up. */
	look = look_of(cells, probe);
	if (look != NO_LOOK)
		CHECK(look <= now_ns() + (__u64)info(fd).user_timeouts * LOOK_NS);
	check_fires(fd, probe, 0, when + 5 * MS);
}
