// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is charged to the memory cgroup of the task that causes its allocation. At the
 * limit, an ARM fails, or the out-of-memory killer ends a task of the group. Other groups
 * are not affected.
 */
#include "cells.h"
#include "group.h"

/* Memory limit of a group that a test fills call by call. */
static long small_group(void)
{
	return (is_short() ? 3 : 8) * MIB;
}

/* The memory of a timeout stays charged after the timeout has ended. */
TEST(timeouts_are_charged_until_close)
{
	const char *group = make_group("timeouts", 0);
	struct twheel_cancel_all all = { 0 };
	long before, nr = scaled(100000);
	int fd;

	enter_group(group);
	fd = device_open(O_RDWR);
	before = charged(group);
	arm_many(fd, nr, HOUR, 0, 0, NULL);
	/* A timeout needs at least its id, deadline and cookie. */
	CHECK(charged(group) - before >= nr * 24);
	CHECK(charged(group) - before <= nr * 128 + MIB);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending, nr);
	CHECK(charged(group) - before >= nr * 24);
	close(fd);
	wait_uncharged(group, before + MIB);
}

TEST(open_file_costs_little)
{
	const char *group = make_group("files", 0);
	long before;

	enter_group(group);
	device_open(O_RDWR);
	before = charged(group);
	for (__u32 i = 0; i < scaled(1000); i++)
		device_open(O_RDWR);
	CHECK(charged(group) - before <= (long)scaled(1000) * 4096 + MIB);
}

TEST(wheel_of_its_own_is_charged_until_close)
{
	const struct twheel_setup setup = { .slots = 65536 };
	const char *group = make_group("wheel", 0);
	long before;
	int fd;

	enter_group(group);
	before = charged(group);
	fd = device_open_setup(O_RDWR, setup);
	CHECK(charged(group) - before >= 2 * 65536 * 16);
	close(fd);
	wait_uncharged(group, before + MIB);
}

TEST(cells_are_charged_until_close)
{
	const char *group = make_group("cells", 0);
	size_t nr = 1 << 20;
	struct twheel_cell *cells;
	long before;
	int fd;

	enter_group(group);
	fd = device_open(O_RDWR);
	cells = map_cells(fd, nr);
	before = charged(group);
	for (size_t i = 0; i < nr; i += CELLS_PER_PAGE)
		cells[i].word = 1;
	CHECK(charged(group) - before >= (long)(nr * sizeof(*cells)) - MIB);
	unmap_cells(cells, nr);
	CHECK(charged(group) - before >= (long)(nr * sizeof(*cells)) - MIB);
	close(fd);
	wait_uncharged(group, before + MIB);
}

/* Cells are charged whether they are mapped or not. */
TEST(armed_cells_are_charged_until_close)
{
	const char *group = make_group("armed-cells", 0);
	long before, nr = scaled(100000);
	struct twheel_op ops[500];
	int fd;

	need_cells();
	enter_group(group);
	fd = device_open(O_RDWR);
	before = charged(group);
	for (long n = 0; n < nr; n += ARRAY_SIZE(ops)) {
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = op_cell(i % 2 ? now_ns() + HOUR : TWHEEL_CELL_IDLE, 0);
		submit(fd, ops, ARRAY_SIZE(ops));
	}
	CHECK_EQ(info(fd).live, nr);
	CHECK(charged(group) - before >= nr * (24 + 16));
	CHECK(charged(group) - before <= nr * (128 + 16) + MIB);
	close(fd);
	wait_uncharged(group, before + MIB);
}

static void arm_until(int fd, int error)
{
	struct twheel_op op;
	int ret;

	do {
		op = op_arm(HOUR, 0, 0);
		ret = operate(fd, TWHEEL_IOC_ARM, &op);
	} while (!ret);
	CHECK_EQ(ret, error);
}

/* The device still works for a process outside the group. */
static void check_unharmed(void)
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

static void arm_to_the_end_of_memory(void)
{
	int fd;

	enter_group_for_good(ROOT "/unkillable");
	fd = device_open(O_RDWR);
	arm_until(fd, -ENOMEM);
	CHECK(info(fd).live > 1000);
}

TEST(arm_without_memory_is_enomem)
{
	make_group("unkillable", small_group());
	in_child(arm_to_the_end_of_memory);
	check_unharmed();
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

static void go_on_without_memory(void)
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

TEST(file_without_memory_goes_on)
{
	make_group("goes-on", small_group());
	in_child(go_on_without_memory);
}

/* Cached charges may be returned late, so retry. */
static int setup_soon(int fd, struct twheel_setup setup)
{
	__u64 end = now_ns() + 10 * NSEC_PER_SEC;
	int err;

	do {
		err = try_setup(fd, setup);
	} while (err == -ENOMEM && now_ns() < end);
	return err;
}

static void setup_wheel_without_memory(void)
{
	const struct twheel_setup large = { .slots = 65536 };
	const struct twheel_setup small = { .slots = 16 };
	int fd;

	enter_group_for_good(ROOT "/small");
	fd = device_open(O_RDWR);
	CHECK_EQ(try_setup(fd, large), -ENOMEM);
	CHECK_EQ(setup_soon(fd, small), 0);
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

TEST(setup_without_memory_is_enomem)
{
	make_group("small", 3 * MIB);
	in_child(setup_wheel_without_memory);
	check_unharmed();
}

/* The out-of-memory killer ends the child, and harms nobody else. */
static void check_killed(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGKILL);
	check_unharmed();
}

TEST(task_is_killed_inside_its_group)
{
	const char *group = make_group("killable", small_group());
	int bystander = device_open(O_RDWR);
	__u64 id = arm(bystander, HOUR, 0);
	pid_t pid = fork_child();

	if (!pid) {
		enter_group(group);
		arm_until(device_open(O_RDWR), -ENOMEM);
		_exit(0);
	}
	check_killed(pid);
	CHECK(out_of_memory_kills(group) > 0);
	CHECK_EQ(get(bystander, id), 0);
	wait_uncharged(group, MIB);
}

static void write_cells_inside(const char *group)
{
	size_t nr = 1 << 20;
	struct twheel_cell *cells;

	enter_group(group);
	cells = map_cells(device_open(O_RDWR), nr);
	for (size_t i = 0; i < nr; i += CELLS_PER_PAGE)
		cells[i].word = 1;
}

TEST(fault_without_memory_kills_inside_the_group)
{
	const char *group = make_group("writing", 4 * MIB);
	pid_t pid;

	need_cells();
	pid = fork_child();
	if (!pid) {
		write_cells_inside(group);
		_exit(0);
	}
	check_killed(pid);
}
