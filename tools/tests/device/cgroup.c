// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is charged to the memory cgroup of the task that causes its allocation. At the
 * limit, an ARM fails, or the out-of-memory killer ends a task of the group. Other groups
 * are not affected.
 */
#define _GNU_SOURCE
#include <sys/utsname.h>

#include "cells.h"
#include "group.h"
#include "machine.h"

/* Memory limit of a group that a test fills call by call. */
static long small_group(void)
{
	return (is_short() ? 3 : 8) * MIB;
}

/*
 * Check that between @least and @most bytes, give or take a MiB, are charged while a file is open,
 * which @fill fills, and that close gives them back. The caller is then in the group. @most may be
 * 0: not checked.
 */
static void charge_until_close(const char *name, struct twheel_setup setup, void (*fill)(int fd),
			       long least, long most)
{
	const char *group = create_group(name, 0);
	long before;
	int fd;

	enter_group(group);
	before = charged(group);
	fd = device_open_setup(O_RDWR, setup);
	if (fill)
		fill(fd);
	CHECK(charged(group) - before >= least);
	CHECK(!most || charged(group) - before <= most + MIB);
	/* The memory of a timeout stays charged after the timeout has ended. */
	cancel_all(fd);
	CHECK(charged(group) - before >= least);
	close(fd);
	wait_uncharged(group, before + MIB);
}

#define NR		((long)scaled(100000))

static void arm_ordinary(int fd)
{
	arm_many(fd, NR, HOUR, 0, 0, NULL);
}

/* A timeout needs at least its id, deadline and cookie. */
TEST(timeouts_are_charged_until_close)
{
	charge_until_close("timeouts", (struct twheel_setup) { 0 }, arm_ordinary, NR * 24,
			   NR * 128);
}

static void set_up_a_wheel_that_is_refused(void)
{
	enter_group(create_group("refused", 2 * MIB));
	become_user(10000);
	CHECK_EQ(try_setup(device_open(O_RDWR), (struct twheel_setup) { .slots = 65536 }), -EAGAIN);
}

TEST(wheel_of_its_own_is_charged_until_close)
{
	with_parameter("max_wheel_bytes", 1, set_up_a_wheel_that_is_refused);
	charge_until_close("wheel", (struct twheel_setup) { .slots = 65536 }, NULL,
			   2 * 65536 * 16, 0);
}

/* A page that is charged could not be mapped. */
static void skip_without_charged_cells(void)
{
	struct utsname name;

	skip_without_cells();
	CHECK_EQ(uname(&name), 0);
	if (strverscmp(name.release, "5.11") < 0)
		ktap_skip("cells are not charged before Linux 5.11");
}

#define NR_MAPPED	((size_t)1 << 20)
#define MAPPED_BYTES	((long)(NR_MAPPED * sizeof(struct twheel_cell)))

static void write_cells(int fd)
{
	struct twheel_cell *cells = map_cells(fd, NR_MAPPED);

	for (size_t i = 0; i < NR_MAPPED; i += CELLS_PER_PAGE)
		cells[i].word = 1;
	unmap_cells(cells, NR_MAPPED);
}

TEST(cells_are_charged_until_close)
{
	skip_without_charged_cells();
	charge_until_close("cells", (struct twheel_setup) { 0 }, write_cells,
			   MAPPED_BYTES - MIB, 0);
}

static void arm_cells(int fd)
{
	struct twheel_op ops[500];

	for (long n = 0; n < NR; n += ARRAY_SIZE(ops)) {
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = op_cell(i % 2 ? now_ns() + HOUR : TWHEEL_CELL_IDLE, 0);
		submit(fd, ops, ARRAY_SIZE(ops));
	}
	CHECK_EQ(info(fd).live, NR);
}

/* Cells are charged whether they are mapped or not. */
TEST(armed_cells_are_charged_until_close)
{
	skip_without_cells();
	charge_until_close("armed-cells", (struct twheel_setup) { 0 }, arm_cells, NR * (24 + 16),
			   NR * (128 + 16));
}

TEST(open_file_costs_little)
{
	const char *group = create_group("files", 0);
	long before;

	enter_group(group);
	device_open(O_RDWR);
	before = charged(group);
	for (__u32 i = 0; i < scaled(1000); i++)
		device_open(O_RDWR);
	CHECK(charged(group) - before <= (long)scaled(1000) * 4096 + MIB);
}

static void arm_until(int fd, int error)
{
	struct twheel_op op;
	int ret;

	do {
		op = op_arm(HOUR, 0, 0);
		ret = operate(fd, &op);
	} while (!ret);
	CHECK_EQ(ret, error);
}

/* The device still works for a process outside the group. */
static void check_device_works_outside(void)
{
	int fd = device_open(O_RDWR);

	arm_many(fd, scaled(10000), HOUR, 0, 0, NULL);
	arm(fd, NSEC_PER_MSEC, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/*
 * Make a charge fail instead of invoking the out-of-memory killer. A page fault would be
 * retried for ever, so all memory is populated in advance. mlockall() leaves out the clock's
 * data for the vDSO.
 */
static void enter_group_for_good(const char *group)
{
	write_file("/proc/self", "oom_score_adj", "-1000");
	CHECK_EQ(mlockall(MCL_CURRENT | MCL_FUTURE), 0);
	now_ns();
	enter_group(group);
}

/*
 * CPUs cache charges of a group and return them when they run; arm until nothing is
 * returned.
 */
static void arm_until_nothing_comes_back(int fd)
{
	__u32 live;

	do {
		arm_until(fd, -ENOMEM);
		live = info(fd).live;
		sleep_ns(300 * NSEC_PER_MSEC);
		arm_until(fd, -ENOMEM);
	} while (info(fd).live != live);
}

static void continue_without_memory(void)
{
	struct twheel_op ops[100];
	__u64 id;
	__u32 live;
	int fd;

	enter_group_for_good(ROOT "/goes-on");
	fd = device_open(O_RDWR);
	id = arm(fd, HOUR, 0);
	arm_until_nothing_comes_back(fd);
	live = info(fd).live;
	CHECK(live > 1000);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, -ENOMEM);
	CHECK_EQ(info(fd).live, live);
	/* Armed timeouts and operations that need no memory still work. */
	CHECK_EQ(mod(fd, id, 0, 7), 0);
	CHECK_EQ(read_event(fd).cookie, 7);
	CHECK_EQ(get(fd, arm(fd, HOUR, 0)), 0);
	CHECK_EQ(info(fd).live, live);
}

TEST(arm_without_memory_is_enomem)
{
	create_group("goes-on", small_group());
	run_in_child(continue_without_memory);
	check_device_works_outside();
}

/* The out-of-memory killer ends a task in its group, and harms nobody else. */
static void check_killed(const char *group, void (*body)(int fd))
{
	int bystander = device_open(O_RDWR), status;
	__u64 id = arm(bystander, HOUR, 0);
	pid_t pid = fork_child();

	if (!pid) {
		enter_group(group);
		body(device_open(O_RDWR));
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGKILL);
	check_device_works_outside();
	CHECK(out_of_memory_kills(group) > 0);
	CHECK_EQ(get(bystander, id), 0);
	wait_uncharged(group, MIB);
}

static void arm_until_killed(int fd)
{
	arm_until(fd, -ENOMEM);
}

TEST(task_is_killed_inside_its_group)
{
	check_killed(create_group("killable", small_group()), arm_until_killed);
}

TEST(fault_without_memory_kills_inside_the_group)
{
	skip_without_charged_cells();
	check_killed(create_group("writing", 4 * MIB), write_cells);
}
