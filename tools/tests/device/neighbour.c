// SPDX-License-Identifier: GPL-2.0
/*
 * A user whose files cost a shared wheel as much as possible, beside a user with one timeout at a
 * time. Both users' timeouts are on CPU 0, and the program of the first is on the last CPU. The
 * other's timeouts are at most 2 ms later than beside a program that only computes.
 *
 * One run that shows it is enough: without a bound each run is late. A machine that stands still
 * makes a few timeouts of a run late, so the median of a run counts.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	120

#include <sys/resource.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define TIMER_MIGRATION	"/proc/sys/kernel/timer_migration"
#define USER		1001
#define TRIES		10
#define PROBES		15
#define TIMES		1500		/* when timeouts of an attack are due */
#define PERIOD_TICKS	8U		/* from one to the next */
#define RUN		64U		/* operations that the device carries out in one hold */

/* The first user runs an attack. */
struct attack {
	void (*prepare)(void);	/* open files and arm timeouts, on CPU 0, or NULL */
	void (*run)(void);	/* go on until killed, on the last CPU */
	__u64 period;		/* the other's timeouts are due at multiples; 0: PERIOD_TICKS */
	/*
	 * The attack ends, and sets @done to its duration: the latest timeout of a run counts, not
	 * the median, and may be late by an eighth of this, too.
	 */
	bool worst;
};

/* Shared with the first user: it is ready to go on, and has done something. */
static struct {
	int ready;
	__u64 done;
} *shared;

static __u64 tick_ns;

/* The other user */

static int compare_ns(const void *a, const void *b)
{
	const __s64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The next multiple of @period that is at least half of it away. */
static __u64 next_multiple(__u64 period)
{
	return (now_ns() + period / 2 + period - 1) / period * period;
}

/* How late timeouts are seen. Each is armed after all others of its tick. */
static __s64 lateness_ns(__u64 period, bool worst)
{
	int fd = device_open(O_RDWR);
	__s64 late[PROBES];

	for (int i = 0; i < PROBES; i++) {
		__u64 when = next_multiple(period);

		sleep_until(when - period / 4);
		arm_at(fd, when, i);
		CHECK_EQ(read_event(fd).cookie, i);
		late[i] = now_ns() - when;
	}
	close(fd);
	qsort(late, PROBES, sizeof(late[0]), compare_ns);
	return late[worst ? PROBES - 1 : PROBES / 2];
}

/* Both users */

static void keep_cpu_busy(void)
{
	for (;;)
		SET(shared->done, 1);
}

static const struct attack none = { .run = keep_cpu_busy };

static pid_t start(const struct attack *attack)
{
	struct rlimit files = { 65536, 65536 };
	pid_t pid;

	SET(shared->ready, 0);
	SET(shared->done, 0);
	pid = fork_child();
	if (!pid) {
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
		become_user(USER);
		if (attack->prepare)
			attack->prepare();
		pin_to_cpu(last_cpu());
		SET(shared->ready, 1);
		attack->run();
	}
	while (!PEEK(shared->ready)) {
		if (waitpid(pid, NULL, WNOHANG))
			ktap_fail("the first user has ended");
		sleep_ns(MS);
	}
	return pid;
}

static __s64 lateness_beside_ns(const struct attack *attack, __u64 period, bool worst)
{
	pid_t pid = start(attack);
	__s64 late = lateness_ns(period, worst);

	WAIT_FOR(PEEK(shared->done));
	CHECK_EQ(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	return late;
}

/* @alone: how late the other's timeouts are without an attack, at best */
static bool is_bounded(const struct attack *attack, __s64 *alone)
{
	__u64 period = attack->period ?: PERIOD_TICKS * tick_ns;
	__s64 limit = (is_slow() ? 20 : 2) * MS, late;

	late = lateness_beside_ns(&none, period, attack->worst);
	if (late < *alone)
		*alone = late;
	late = lateness_beside_ns(attack, period, attack->worst);
	/* A machine that stalls lengthens the attack, too. */
	if (attack->worst)
		limit += PEEK(shared->done) / 8;
	ktap_note("%lld us late, without the attack %lld us", late / 1000, *alone / 1000);
	return late <= *alone + limit;
}

/* The attack of the test. */
static struct attack current_attack;

static void try_attack(void)
{
	__s64 alone = NSEC_PER_SEC;

	tick_ns = info(device_open(O_RDWR)).tick_ns;
	shared = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pin_to_cpu(0);
	for (int i = 0; i < TRIES; i++) {
		if (is_bounded(&current_attack, &alone))
			return;
	}
	ktap_fail("late in each run");
}

/*
 * The kernel moves hrtimers from idle CPUs to busy ones. There the first user would lose the time
 * that the wheel takes. Restored on return, unless the test fails.
 */
static void try_attack_without_migration(void)
{
	int fd = open(TIMER_MIGRATION, O_WRONLY | O_CLOEXEC), status;

	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, "0", 1, 0), 1);
	status = status_of(try_attack);
	CHECK_EQ(pwrite(fd, "1", 1, 0), 1);
	close(fd);
	exit_unless_passed(status);
}

static void check_attack(struct attack attack)
{
	skip_outside_test_machine();
	if (!last_cpu())
		ktap_skip("one CPU");
	current_attack = attack;
	with_min_limits(1300000, try_attack_without_migration);
}

/* Timeouts */

static struct twheel_op ops[RUN];

/* Arm a timeout for each time at which the other user may be due, and wait for the first. */
static void arm_when_due(int fd)
{
	const __u64 period = PERIOD_TICKS * tick_ns;
	const __u64 begin = next_multiple(period) + (is_slow() ? 100 : 20) * period;

	for (__u32 i = 0; i < TIMES; i++)
		arm_at(fd, begin + i * period, 0);
	sleep_until(begin);
}

/* Arm @nr timeouts far from now, or make as many idle cells. */
static void fill(int fd, __u32 nr, struct twheel_op op)
{
	for (__u32 done = 0; done < nr; done += RUN) {
		for (__u32 i = 0; i < RUN; i++)
			ops[i] = op;
		submit(fd, ops, RUN);
		CHECK_EQ(ops[RUN - 1].result, 0);
	}
}

/* Cells that are moved before each look, by a store each */

#define CELL_FILES	50
#define NR_CELLS	scaled(4000)	/* of each */
#define CELLS_PERIOD	(100 * MS)

static int cell_fds[CELL_FILES];
static struct twheel_cell *maps[CELL_FILES];

static void move_cells(__u64 when)
{
	for (__u32 i = 0; i < CELL_FILES; i++) {
		for (__u32 j = 0; j < NR_CELLS; j++)
			__atomic_store_n(&maps[i][j].word, when, __ATOMIC_RELAXED);
	}
}

static __u64 looks(void)
{
	__u64 looks = 0;

	for (__u32 i = 0; i < CELL_FILES; i++)
		looks += file_stats(cell_fds[i]).looks;
	return looks;
}

/* The first look at each is due at the same time, and finds that the cell was moved. */
static void make_cells(void)
{
	__u64 first = next_multiple(CELLS_PERIOD) + (is_slow() ? 100 : 20) * CELLS_PERIOD;

	for (__u32 i = 0; i < CELL_FILES; i++) {
		cell_fds[i] = device_open(O_RDWR);
		maps[i] = map_cells(cell_fds[i], NR_CELLS + RUN);
		fill(cell_fds[i], NR_CELLS, op_cell(first, 0));
	}
	sleep_until(first - CELLS_PERIOD / 2);
	move_cells(first + CELLS_PERIOD);
	sleep_until(first + CELLS_PERIOD / 4);
}

/* All words hold a multiple of the period, and the next one from half a period before. */
static void move_cells_for_ever(void)
{
	for (;;) {
		__u64 when = next_multiple(CELLS_PERIOD) + CELLS_PERIOD;

		move_cells(when);
		SET(shared->done, looks());
		sleep_until(when - CELLS_PERIOD / 2);
	}
}

TEST(moving_cells_of_50_files_delay_no_neighbour)
{
	skip_without_cells();
	/* Where a look takes 15 us, 64 of them take a millisecond. */
	skip_if_slow();
	check_attack((struct attack) {
		.prepare = make_cells,
		.run = move_cells_for_ever,
		.period = CELLS_PERIOD,
	});
}

/* One file in very many epoll instances */

static int watched;

static void make_watchers(void)
{
	watched = device_open(O_RDWR);
	for (__u32 i = scaled(60000); i; i--)
		epoll_create_for(watched, EPOLLIN);
	arm_when_due(watched);
}

static void wake_watchers(void)
{
	for (;;) {
		SET(shared->done, info(watched).ready);
		sleep_ns(MS);
	}
}

TEST(file_with_60000_watchers_delays_no_neighbour)
{
	check_attack((struct attack) { .prepare = make_watchers, .run = wake_watchers });
}

/* One file whose lock is taken again and again */

static int locked;

static void make_a_file(void)
{
	locked = device_open(O_RDWR);
	arm_when_due(locked);
}

static void operate_for_ever(void)
{
	for (;;) {
		for (__u32 i = 0; i < RUN; i++)
			ops[i] = op_arm(HOUR, 0, 0);
		submit(locked, ops, RUN);
		for (__u32 i = 0; i < RUN; i++)
			ops[i] = op_cancel(ops[i].id);
		submit(locked, ops, RUN);
		SET(shared->done, 1);
	}
}

TEST(operations_without_a_pause_delay_no_neighbour)
{
	check_attack((struct attack) { .prepare = make_a_file, .run = operate_for_ever });
}

/* Files with very many timeouts */

static int large;

static void make_1000000_cells(void)
{
	large = device_open(O_RDWR);
	fill(large, scaled(1000000), op_cell(TWHEEL_CELL_IDLE, 0));
	arm_when_due(large);
}

static void read_fdinfo_for_ever(void)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", large);
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		CHECK(fd >= 0);
		CHECK(read(fd, text, sizeof(text)) > 0);
		close(fd);
		SET(shared->done, 1);
	}
}

TEST(fdinfo_of_1000000_cells_delays_no_neighbour)
{
	skip_without_cells();
	check_attack((struct attack) {
		.prepare = make_1000000_cells,
		.run = read_fdinfo_for_ever,
	});
}

static void end_1000000_timeouts(void)
{
	large = device_open(O_RDWR);
	fill(large, scaled(1000000), op_arm(HOUR, 0, 0));
	cancel_all(large);
}

/* On the CPU of the other user's timeouts, where the first of them have been armed. */
static void close_the_file(void)
{
	__u64 begin;

	pin_to_cpu(0);
	sleep_ns(20 * MS);
	begin = now_ns();
	close(large);
	SET(shared->done, now_ns() - begin);
	pause();
}

TEST(close_after_1000000_timeouts_delays_no_neighbour)
{
	check_attack((struct attack) {
		.prepare = end_1000000_timeouts,
		.run = close_the_file,
		.worst = true,
	});
}
