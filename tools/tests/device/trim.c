// SPDX-License-Identifier: GPL-2.0
/*
 * TRIM frees the memory of ended timeouts, on request or under memory pressure, and has no
 * other effect. Ids stay unique.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/resource.h>

#include "cells.h"
#include "cpu.h"
#include "group.h"
#include "privilege.h"
#include "realtime.h"

#define USER		4711
#define PEAK		(is_short() ? 10000 : 50000)
#define PAGE_MOST	100		/* more than the number of timeouts in a page */

#define MS		NSEC_PER_MSEC

/* Arm and cancel @nr timeouts. Returns their ids. */
static __u64 *arm_and_cancel(int fd, __u32 nr)
{
	__u64 *ids = calloc(nr, sizeof(*ids));

	CHECK(ids);
	arm_many(fd, nr, HOUR, 0, 0, ids);
	for (__u32 i = 0; i < nr; i++)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	return ids;
}

/* Number of timeouts in a page: with one more, TRIM frees two pages. */
static int page_of_timeouts(void)
{
	int fd = device_open(O_RDWR);
	static int page;

	for (int nr = 1; !page; nr++) {
		CHECK(nr <= PAGE_MOST);
		free(arm_and_cancel(fd, nr));
		if (trim(fd) == 2)
			page = nr - 1;
	}
	close(fd);
	return page;
}

/* @pages is nearly the number of pages that @nr timeouts need. */
static void check_nearly_all(int pages, __u32 nr)
{
	int all = (nr + page_of_timeouts() - 1) / page_of_timeouts();

	ktap_note("%d pages of %d", pages, all);
	CHECK(pages <= all);
	CHECK(pages >= all - all / 100);
}

/* Effects */

static void trim_of_a_new_file_gives_nothing(void)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(trim(fd), 0);
	CHECK_EQ(trim(fd), 0);
}

static void trim_on_read_only_descriptor_is_ebadf(void)
{
	CHECK_EQ(trim(device_open(O_RDONLY)), -EBADF);
	CHECK_EQ(trim(device_open(O_WRONLY)), 0);
}

static void trim_after_a_peak_gives_nearly_all(void)
{
	int fd = device_open(O_RDWR);

	free(arm_and_cancel(fd, PEAK));
	check_nearly_all(trim(fd), PEAK);
	CHECK_EQ(trim(fd), 0);
	CHECK_EQ(info(fd).live, 0);
}

/* The memory of a peak of a million timeouts. */
static void trim_after_a_peak_of_1000000(void)
{
	const __u32 nr = 1000000;
	struct twheel_cancel_all all = { 0 };
	int fd = device_open(O_RDWR);

	arm_many(fd, nr, HOUR, NSEC_PER_USEC, 0, NULL);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending, nr);
	check_nearly_all(trim(fd), nr);
	CHECK_EQ(trim(fd), 0);
}

static void trim_after_a_peak_of_1000000_gives_nearly_all(void)
{
	need_speed();
	with_room_for(1000000, trim_after_a_peak_of_1000000);
}

static void trim_while_all_live_gives_nothing(void)
{
	int fd = device_open(O_RDWR);
	__u64 ids[1000];

	arm_many(fd, ARRAY_SIZE(ids), HOUR, 0, 0, ids);
	CHECK_EQ(trim(fd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	CHECK(trim(fd) > 0);
}

static void trim_counts_events_as_alive_until_they_are_read(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_event events[1000];

	arm_many(fd, 1000, 0, 0, 0, NULL);
	wait_ready(fd, 1000);
	CHECK_EQ(trim(fd), 0);
	CHECK_EQ(info(fd).ready, 1000);
	CHECK_EQ(read_events(fd, events, 1000), 1000);
	for (int i = 0; i < 1000; i++)
		check_event(&events[i]);
	CHECK(trim(fd) >= 1000 / PAGE_MOST);
	check_no_event(fd);
}

/* A page with one live timeout stays, whatever that timeout is. */
static void page_with_a_live_timeout_stays(void)
{
	const int step = 1000;
	int fd = device_open(O_RDWR | O_NONBLOCK), pages, kept = 0;
	__u64 *ids = calloc(PEAK, sizeof(*ids)), base = now_ns() + HOUR;

	CHECK(ids);
	arm_many(fd, PEAK, base - now_ns(), 0, 0, ids);
	for (int i = 0; i < PEAK; i++) {
		if (i % step)
			CHECK_EQ(cancel(fd, ids[i]), 0);
		else
			kept++;
	}
	pages = trim(fd);
	ktap_note("%d pages, %d timeouts kept", pages, kept);
	CHECK_EQ(pages, (PEAK + page_of_timeouts() - 1) / page_of_timeouts() - kept);
	CHECK_EQ(trim(fd), 0);
	CHECK_EQ(info(fd).live, kept);
	for (int i = 0; i < PEAK; i++) {
		if (i % step) {
			CHECK_EQ(get(fd, ids[i]), -ENOENT);
			continue;
		}
		CHECK_EQ(state_of(fd, ids[i]).cookie, i);
		CHECK_EQ(mod(fd, ids[i], 0, i), 0);
	}
	wait_ready(fd, kept);
	for (int i = 0; i < kept; i++)
		CHECK_EQ(read_event(fd).cookie % step, 0);
	CHECK(trim(fd) > 0);
	CHECK_EQ(trim(fd), 0);
	free(ids);
}

/* Operations on all timeouts skip freed pages. */
static void others_go_past_what_was_trimmed(void)
{
	struct twheel_cancel_all all = { 0 };
	struct twheel_list_entry entries[64];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = 64, .entry_size = sizeof(entries[0]),
	};
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 ids[5000];
	__u32 found = 0;

	arm_many(fd, 5000, HOUR, MS, 0, ids);
	for (int i = 0; i < 5000; i++) {
		if (i % 2000 > 10)
			CHECK_EQ(cancel(fd, ids[i]), 0);
	}
	CHECK(trim(fd) > 0);
	do {
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
		for (__u32 i = 0; i < list.done; i++)
			CHECK(entries[i].cookie % 2000 <= 10);
		found += list.done;
	} while (list.done);
	CHECK_EQ(found, 33);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending, 33);
	CHECK(trim(fd) > 0);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending + all.withdrawn, 0);
	arm(fd, HOUR, 7);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(read_any_event(fd).cookie, 7);
}

static void limit_is_exact_after_a_trim(void)
{
	int fd = device_open_limited(O_RDWR, 1000);
	__u64 none;

	for (int round = 0; round < 5; round++) {
		__u64 *ids = calloc(1000, sizeof(*ids));

		arm_many(fd, 1000, HOUR, 0, 0, ids);
		CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
		for (int i = 0; i < 1000; i++)
			CHECK_EQ(cancel(fd, ids[i]), 0);
		CHECK(trim(fd) > 0);
		free(ids);
	}
}

/* Indices are reused, so each index below the limit has a cell. */
static void cells_reach_all_after_a_trim(void)
{
	int fd = device_open_limited(O_RDWR, 512);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 when = now_ns() + HOUR;

	for (int round = 0; round < 20; round++) {
		__u64 ids[512];

		for (int i = 0; i < 512; i++) {
			ids[i] = arm_cell(fd, when + i, i);
			CHECK((__u32)ids[i] < 512);
			CHECK_EQ(word_of(cells, ids[i]), when + i);
		}
		for (int i = 0; i < 512; i++) {
			CHECK_EQ(cell_arm(fd, cells, ids[i], when + HOUR), 0);
			CHECK(state_of(fd, ids[i]).expires_ns > HOUR);
			CHECK_EQ(cancel(fd, ids[i]), 0);
		}
		CHECK(trim(fd) > 0);
	}
}

static void trim_after_stop_gives_all(void)
{
	int fd = device_open(O_RDWR);
	struct twheel_event event;

	arm_many(fd, 1000, HOUR, MS, 0, NULL);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(trim(fd), 0);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(read_any_event(fd).cookie, i);
	CHECK(trim(fd) >= 1000 / PAGE_MOST);
	CHECK_EQ(trim(fd), 0);
	CHECK_EQ(read(fd, &event, sizeof(event)), 0);
	CHECK_EQ(stop(fd), 0);
}

static void trim_of_one_file_leaves_the_others(void)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR);
	__u64 id = arm(other, 20 * MS, 7);

	free(arm_and_cancel(other, 1000));
	free(arm_and_cancel(fd, 1000));
	CHECK(trim(fd) > 0);
	CHECK_EQ(get(other, id), 0);
	CHECK_EQ(read_event(other).id, id);
	CHECK(trim(other) > 0);
}

/* Ids */

static int compare_ids(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/* For each index, a new id is higher than all ids before it. */
static void ids_are_unique_over_trims(void)
{
	enum { NR = 1000 };
	int fd = device_open(O_RDWR), rounds = is_short() ? 6 : 20;
	__u64 *ids = calloc(NR * rounds, sizeof(*ids)), *latest = calloc(8 * NR, sizeof(*ids));

	CHECK(ids && latest);
	for (int round = 0; round < rounds; round++) {
		__u64 *now = ids + round * NR;

		/* The number differs in each round, so that the last pages differ. */
		arm_many(fd, NR - round, HOUR, 0, 0, now);
		for (int i = 0; i < NR - round; i++) {
			__u32 index = now[i];

			CHECK(index < 8 * NR);
			CHECK(now[i] >> 32);
			CHECK(now[i] > latest[index]);
			latest[index] = now[i];
			if (round)
				CHECK_EQ(get(fd, now[i - NR]), -ENOENT);
		}
		for (int i = 0; i < NR - round; i++)
			CHECK_EQ(cancel(fd, now[i]), 0);
		if (round % 4 != 3)
			CHECK(trim(fd) > 0);
		for (int i = 0; i < (round + 1) * NR; i++)
			CHECK_EQ(get(fd, ids[i]), -ENOENT);
	}
	qsort(ids, NR * rounds, sizeof(*ids), compare_ids);
	for (int i = 1; i < NR * rounds; i++)
		CHECK(!ids[i] || ids[i] != ids[i - 1]);
	free(latest);
	free(ids);
}

/* The old ids are dead while the page is freed, and when it is back. */
static void id_from_before_a_trim_is_dead_for_ever(void)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, 1);
	size_t nr = is_short() ? 60 : 300;
	__u64 ids[300];

	for (size_t i = 0; i < nr; i++) {
		ids[i] = arm(fd, i % 2 ? HOUR : 0, i);
		if (i % 2) {
			CHECK_EQ(cancel(fd, ids[i]), 0);
		} else {
			wait_ready(fd, 1);
			CHECK_EQ(read_event(fd).id, ids[i]);
		}
		CHECK_EQ(trim(fd), 1);
		for (size_t n = 0; n <= i; n++) {
			CHECK_EQ(get(fd, ids[n]), -ENOENT);
			CHECK_EQ(cancel(fd, ids[n]), -ENOENT);
			CHECK_EQ(mod(fd, ids[n], 0, 0), -ENOENT);
			CHECK(ids[n] < ids[i] || n == i);
		}
	}
	CHECK_EQ(info(fd).live, 0);
}

static void made_up_ids_of_a_trimmed_page_are_dead(void)
{
	int fd = device_open(O_RDWR);
	__u64 *ids = arm_and_cancel(fd, 100);

	CHECK(trim(fd) > 0);
	for (int i = 0; i < 100; i += is_short() ? 10 : 1) {
		for (int bit = 0; bit < 64; bit++) {
			struct twheel_op ops[] = {
				op_cancel(ids[i] ^ 1ULL << bit), op_get(ids[i] ^ 1ULL << bit),
				op_mod(ids[i] ^ 1ULL << bit, 0, TWHEEL_F_CELL, 0),
				op_kick(ids[i] ^ 1ULL << bit),
			};

			submit(fd, ops, ARRAY_SIZE(ops));
			for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
				CHECK_EQ(ops[n].result, -ENOENT);
		}
	}
}

/* Accounting of freed pages */

static void trim_for_another_file(void)
{
	int a, b;
	__u64 none;

	become_user(USER);
	a = device_open(O_RDWR);
	b = device_open(O_RDWR);
	for (int round = 0; round < 10; round++) {
		struct twheel_cancel_all all = { 0 };

		while (!try_arm(a, HOUR, 0, 0, &none))
			;
		CHECK_EQ(try_arm(b, HOUR, 0, 0, &none), -EAGAIN);
		CHECK_EQ(device_ioctl(a, TWHEEL_IOC_CANCEL_ALL, &all), 0);
		CHECK_EQ(try_arm(b, HOUR, 0, 0, &none), -EAGAIN);
		CHECK(trim(a) > 0);
		for (__u32 i = 0; i < all.pending; i++)
			CHECK_EQ(try_arm(b, HOUR, 0, 0, &none), 0);
		CHECK_EQ(try_arm(b, HOUR, 0, 0, &none), -EAGAIN);
		CHECK_EQ(device_ioctl(b, TWHEEL_IOC_CANCEL_ALL, &all), 0);
		CHECK(trim(b) > 0);
	}
}

static void trimmed_pages_do_not_count_for_the_user(void)
{
	with_parameter("max_user_timeouts", 1000, trim_for_another_file);
}

static void trimmed_pages_do_not_count_for_all(void)
{
	with_parameter("max_all_timeouts", 1000, trim_for_another_file);
}

static void trimmed_pages_are_not_charged(void)
{
	const char *group = make_group("trimmed", 0);
	long before;
	int fd;

	enter_group(group);
	fd = device_open(O_RDWR);
	before = charged(group);
	free(arm_and_cancel(fd, PEAK));
	CHECK(charged(group) - before >= PEAK * 24);
	check_nearly_all(trim(fd), PEAK);
	wait_uncharged(group, before + MIB);
	/* the new pages are charged again */
	free(arm_and_cancel(fd, PEAK));
	CHECK(charged(group) - before >= PEAK * 24);
}

/* Memory pressure */

/* Each write calls every shrinker at least once; a shrinker may be busy. */
static void drop_slab(void)
{
	for (int i = 0; i < 3; i++)
		write_file("/proc/sys/vm", "drop_caches", "2");
}

static void shortage_of_memory_trims_by_itself(void)
{
	const char *group;
	long before;
	int fd;

	need_test_machine();
	group = make_group("short", 0);
	enter_group(group);
	fd = device_open(O_RDWR);
	before = charged(group);
	free(arm_and_cancel(fd, PEAK));
	arm(fd, HOUR, 7);
	CHECK(charged(group) - before >= PEAK * 24);
	drop_slab();
	wait_uncharged(group, before + MIB);
	CHECK(trim(fd) <= 16);
	CHECK_EQ(info(fd).live, 1);
}

/* No live timeout is affected, whatever its page. */
static void shortage_of_memory_leaves_what_lives(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 ids[3000];

	need_test_machine();
	arm_many(fd, 3000, HOUR, 0, 0, ids);
	arm_many(fd, 1000, 0, 0, 3000, NULL);
	wait_ready(fd, 1000);
	for (int i = 0; i < 3000; i += 2)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	drop_slab();
	CHECK_EQ(info(fd).live, 2500);
	for (int i = 1; i < 3000; i += 2)
		CHECK_EQ(state_of(fd, ids[i]).cookie, i);
	for (int i = 0; i < 1000; i++)
		CHECK(read_event(fd).cookie >= 3000);
	check_no_event(fd);
}

/* Concurrent operations */

struct worker {
	pthread_t thread;
	int fd;
	int stop;
	__u64 nr;
};

static void *come_and_go(void *arg)
{
	struct worker *worker = arg;
	__u64 ids[200], seed = now_ns() ^ (uintptr_t)&seed, before = 0;

	for (; !PEEK(worker->stop); worker->nr++) {
		int nr = 1 + random_below(&seed, ARRAY_SIZE(ids));

		arm_many(worker->fd, nr, HOUR, 0, worker->nr, ids);
		for (int i = 0; i < nr; i++) {
			CHECK_EQ(state_of(worker->fd, ids[i]).cookie, worker->nr + i);
			CHECK_EQ(mod(worker->fd, ids[i], 2 * HOUR, worker->nr + i), 0);
		}
		CHECK_EQ(get(worker->fd, before), -ENOENT);
		for (int i = 0; i < nr; i++)
			CHECK_EQ(cancel(worker->fd, ids[i]), 0);
		before = ids[0];
	}
	return NULL;
}

/* A thread reads its own events, or those of another thread that does the same. */
static void *fire_and_read(void *arg)
{
	struct worker *worker = arg;
	struct twheel_event events[64];

	while (!PEEK(worker->stop)) {
		int nr;

		arm_many(worker->fd, 32, 0, 0, 1ULL << 40, NULL);
		nr = read_events(worker->fd, events, ARRAY_SIZE(events));
		CHECK(nr > 0 || nr == -EAGAIN);
		for (int i = 0; i < nr; i++) {
			check_event(&events[i]);
			CHECK(events[i].cookie >= 1ULL << 40);
			CHECK_EQ(get(worker->fd, events[i].id), -ENOENT);
		}
		worker->nr += nr > 0 ? nr : 0;
	}
	return NULL;
}

static void *list_all_the_time(void *arg)
{
	struct worker *worker = arg;

	while (!PEEK(worker->stop)) {
		struct twheel_list_entry entries[64];
		struct twheel_list list = {
			.entries = (uintptr_t)entries, .nr = 64, .entry_size = sizeof(entries[0]),
		};

		do {
			CHECK_EQ(device_ioctl(worker->fd, TWHEEL_IOC_LIST, &list), 0);
			worker->nr += list.done;
		} while (list.done);
	}
	return NULL;
}

static void *trim_all_the_time(void *arg)
{
	struct worker *worker = arg;

	while (!PEEK(worker->stop)) {
		int pages = trim(worker->fd);

		CHECK(pages >= 0);
		worker->nr += pages;
	}
	return NULL;
}

static void *drop_all_the_time(void *arg)
{
	struct worker *worker = arg;

	for (; !PEEK(worker->stop); worker->nr++) {
		drop_slab();
		sleep_ns(20 * MS);
	}
	return NULL;
}

static void run_against_trim(void *(*trimmer)(void *))
{
	static void *(*const work[])(void *) = {
		come_and_go, come_and_go, fire_and_read, list_all_the_time,
	};
	struct worker workers[ARRAY_SIZE(work)], last;
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 patience, kept[50];

	arm_many(fd, ARRAY_SIZE(kept), HOUR, 0, 100, kept);
	last = (struct worker) { .fd = fd };
	for (size_t i = 0; i < ARRAY_SIZE(work); i++) {
		workers[i] = (struct worker) { .fd = fd };
		pthread_create(&workers[i].thread, NULL, work[i], &workers[i]);
	}
	pthread_create(&last.thread, NULL, trimmer, &last);
	sleep_ns(race_ns(2000));
	for (size_t i = 0; i < ARRAY_SIZE(work); i++) {
		SET(workers[i].stop, 1);
		pthread_join(workers[i].thread, NULL);
	}
	SET(last.stop, 1);
	pthread_join(last.thread, NULL);
	ktap_note("%llu and %llu rounds, %llu events, %llu listed, %llu trimmed",
		  workers[0].nr, workers[1].nr, workers[2].nr, workers[3].nr, last.nr);
	CHECK(last.nr > 0);
	/* The remaining events come, and the timeouts that lived throughout still exist. */
	patience = now_ns() + patience_ns();
	while (info(fd).live > ARRAY_SIZE(kept)) {
		struct twheel_event event;

		CHECK(now_ns() < patience);
		read_events(fd, &event, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		CHECK_EQ(state_of(fd, kept[i]).cookie, 100 + i);
		CHECK_EQ(cancel(fd, kept[i]), 0);
	}
	check_no_event(fd);
	trim(fd);
	CHECK_EQ(trim(fd), 0);
}

static void trim_amid_arms_cancels_and_reads_loses_nothing(void)
{
	run_against_trim(trim_all_the_time);
}

static void shortage_amid_arms_cancels_and_reads_loses_nothing(void)
{
	need_test_machine();
	run_against_trim(drop_all_the_time);
}

static void *trim_until_stopped(void *arg)
{
	struct worker *worker = arg;

	while (!(info(worker->fd).flags & TWHEEL_INFO_STOPPED))
		trim(worker->fd);
	for (int i = 0; i < 100; i++)
		trim(worker->fd);
	return NULL;
}

static void trim_amid_stop_loses_nothing(void)
{
	for (int round = 0; round < 10; round++) {
		struct worker trimmer = { .fd = device_open(O_RDWR) };
		__u64 ids[2000];

		arm_many(trimmer.fd, 2000, HOUR, MS, 0, ids);
		for (int i = 0; i < 2000; i++) {
			if (i % 300)
				CHECK_EQ(cancel(trimmer.fd, ids[i]), 0);
		}
		pthread_create(&trimmer.thread, NULL, trim_until_stopped, &trimmer);
		sleep_ns(round * MS / 5);
		CHECK_EQ(stop(trimmer.fd), 0);
		pthread_join(trimmer.thread, NULL);
		for (int i = 0; i < 2000; i += 300)
			CHECK_EQ(read_any_event(trimmer.fd).cookie, i);
		CHECK_EQ(info(trimmer.fd).live, 0);
		close(trimmer.fd);
	}
}

/* Calls that meet a trim which does not end */

/*
 * A task of the lowest priority gives back the memory of a peak, on a CPU that another task
 * keeps busy: the trim takes seconds. The witness waits until it is over, so while the
 * witness waits, the trim holds its mutex. The test and its other processes have the highest
 * priority.
 */
struct long_trim {
	int fd;
	pid_t busy;
	pid_t trimmer;
	pid_t witness;
	__u64 live[100];	/* timeouts that can end meanwhile */
};

static pid_t start(void (*body)(int fd), int fd)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		body(fd);
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* The state of a process as ps shows it. D: it sleeps, and no handler of a signal runs. */
static char process_state(pid_t pid)
{
	char directory[32], text[256], *name;

	snprintf(directory, sizeof(directory), "/proc/%d", pid);
	read_file(directory, "stat", text, sizeof(text));
	name = strrchr(text, ')');
	CHECK(name);
	return name[2];
}

/* Does @pid come to a sleep in the kernel that lasts, before @other ends? */
static bool gets_stuck(pid_t pid, pid_t other)
{
	__u64 deadline = now_ns() + patience_ns();

	for (int times = 0; times < 5; sleep_ns(5 * MS)) {
		char state = process_state(pid);

		if (state == 'Z' || process_state(other) == 'Z')
			return false;
		CHECK(now_ns() < deadline);
		times = state == 'D' ? times + 1 : 0;
	}
	return true;
}

static bool ends_soon(pid_t pid)
{
	__u64 deadline = now_ns() + patience_ns();

	for (; now_ns() < deadline; sleep_ns(MS)) {
		if (process_state(pid) == 'Z')
			return waitpid(pid, NULL, 0) == pid;
	}
	return false;
}

static void have_priority(int nice)
{
	CHECK_EQ(setpriority(PRIO_PROCESS, 0, nice), 0);
}

/* A task of the lowest priority gets 1/70 of the CPU beside it. */
static void be_busy(int fd)
{
	(void)fd;
	have_priority(0);
	for (;;)
		;
}

/* Set by the trimmer. Shared by the processes of a test. */
static int *begun;

static void trim_slowly(int fd)
{
	have_priority(19);
	SET(*begun, 1);
	CHECK(trim(fd) > 0);
}

static void drop_slab_slowly(int fd)
{
	have_priority(19);
	SET(*begun, 1);
	CHECK(fd >= 0);
	drop_slab();
}

/* Its timeouts stay armed, so that no record is free but those of the peak. */
static void arm_until_stuck(int fd)
{
	for (int i = 0; i < 20000; i++) {
		arm(fd, HOUR, i);
		sleep_ns(5 * MS);
	}
}

/*
 * The clock interrupts of an emulated CPU may be late by tens of milliseconds. So the CPU is busy
 * before the trim begins, and the trim itself takes longer than that: on a kernel that checks
 * every access, fewer timeouts are enough.
 */
static struct long_trim begin_long_trim(void (*trimmer)(int fd))
{
	struct long_trim t = { .fd = device_open(O_RDWR) };
	struct twheel_cancel_all all = { 0 };

	begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(begun != MAP_FAILED);
	have_priority(-20);
	arm_many(t.fd, is_slow() ? 10000 : 400000, HOUR, NSEC_PER_USEC, 0, NULL);
	CHECK_EQ(device_ioctl(t.fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	arm_many(t.fd, ARRAY_SIZE(t.live), HOUR, 0, 0, t.live);
	stay_on_one_cpu();
	t.witness = start(arm_until_stuck, t.fd);
	t.busy = start(be_busy, t.fd);
	t.trimmer = start(trimmer, t.fd);
	while (!PEEK(*begun))
		sleep_ns(MS);
	return t;
}

static void end_long_trim(struct long_trim *t)
{
	end(t->busy);
	CHECK(ends_soon(t->trimmer));
	end(t->witness);
	close(t->fd);
}

/* A trim that ends too soon shows nothing. Some try has to show it. */
#define TRIES	8

static bool witness_waits(const struct long_trim *t)
{
	return process_state(t->witness) == 'D';
}

/* Returns NULL if a signal ended the wait, otherwise a description of the other end. */
static const char *try_to_kill(void (*waiter)(int fd))
{
	struct long_trim t = begin_long_trim(trim_slowly);
	const char *instead = NULL;
	pid_t pid;

	if (gets_stuck(t.witness, t.trimmer)) {
		pid = start(waiter, t.fd);
		if (!gets_stuck(pid, t.trimmer))
			instead = "it did not wait for the trim";
		end(pid);
		if (!instead && !witness_waits(&t))
			instead = "it was killed only when the trim was over";
	} else {
		instead = "the trim did not last";
	}
	end_long_trim(&t);
	return instead;
}

static void check_killable(void (*waiter)(int fd))
{
	const char *instead;

	for (int i = 0; i < TRIES; i++) {
		instead = try_to_kill(waiter);
		if (!instead)
			return;
	}
	ktap_fail("%s", instead);
}

static void arm_one(int fd)
{
	arm(fd, HOUR, 7);
}

static void arm_that_waits_for_a_trim_can_be_killed(void)
{
	check_killable(arm_one);
}

static void trim_once(int fd)
{
	trim(fd);
}

static void trim_that_waits_for_a_trim_can_be_killed(void)
{
	check_killable(trim_once);
}

static void touch_a_cell(int fd)
{
	struct twheel_cell *cells = map_cells(fd, 4 * CELLS_PER_PAGE);

	CHECK_EQ(PEEK(cells[0].look), NO_LOOK);
}

static void fault_that_waits_for_a_trim_can_be_killed(void)
{
	need_cells();
	check_killable(touch_a_cell);
}

static void drop_slab_once(int fd)
{
	if (fd >= 0)
		drop_slab();
}

/* Timeouts end meanwhile, so the shrinker finds that the file has pages to give back. */
static bool try_to_shrink(void (*trimmer)(int fd))
{
	struct long_trim t = begin_long_trim(trimmer);
	bool shrunk = false;

	if (gets_stuck(t.witness, t.trimmer)) {
		for (size_t i = 0; i < ARRAY_SIZE(t.live); i++)
			CHECK_EQ(cancel(t.fd, t.live[i]), 0);
		CHECK(ends_soon(start(drop_slab_once, t.fd)));
		shrunk = witness_waits(&t);
	}
	end_long_trim(&t);
	return shrunk;
}

static void check_shrinker(void (*trimmer)(int fd))
{
	need_test_machine();
	for (int i = 0; i < TRIES; i++) {
		if (try_to_shrink(trimmer))
			return;
	}
	ktap_fail("the shrinker ended only when the trim was over");
}

static void shortage_does_not_wait_for_a_trim(void)
{
	check_shrinker(trim_slowly);
}

static void shortage_does_not_wait_for_another(void)
{
	check_shrinker(drop_slab_slowly);
}

static const struct ktap_test tests[] = {
	TEST(trim_of_a_new_file_gives_nothing),
	TEST(trim_on_read_only_descriptor_is_ebadf),
	TEST(trim_after_a_peak_gives_nearly_all),
	TEST(trim_after_a_peak_of_1000000_gives_nearly_all),
	TEST(trim_while_all_live_gives_nothing),
	TEST(trim_counts_events_as_alive_until_they_are_read),
	TEST(page_with_a_live_timeout_stays),
	TEST(others_go_past_what_was_trimmed),
	TEST(limit_is_exact_after_a_trim),
	TEST(cells_reach_all_after_a_trim),
	TEST(trim_after_stop_gives_all),
	TEST(trim_of_one_file_leaves_the_others),
	TEST(ids_are_unique_over_trims),
	TEST(id_from_before_a_trim_is_dead_for_ever),
	TEST(made_up_ids_of_a_trimmed_page_are_dead),
	TEST(trimmed_pages_do_not_count_for_the_user),
	TEST(trimmed_pages_do_not_count_for_all),
	TEST(trimmed_pages_are_not_charged),
	TEST(shortage_of_memory_trims_by_itself),
	TEST(shortage_of_memory_leaves_what_lives),
	TEST(trim_amid_arms_cancels_and_reads_loses_nothing),
	TEST(shortage_amid_arms_cancels_and_reads_loses_nothing),
	TEST(trim_amid_stop_loses_nothing),
	TEST(arm_that_waits_for_a_trim_can_be_killed),
	TEST(trim_that_waits_for_a_trim_can_be_killed),
	TEST(fault_that_waits_for_a_trim_can_be_killed),
	TEST(shortage_does_not_wait_for_a_trim),
	TEST(shortage_does_not_wait_for_another),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
