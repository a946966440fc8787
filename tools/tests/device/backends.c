// SPDX-License-Identifier: GPL-2.0
/*
 * The table of twheel_backends(7), row by row. The program runs on the device, and on a wheel in
 * the process. `tools/tests/parts/library` compares the rows with the page.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "device.h"
#include "libtwheel.h"
#include "twheel_hub.h"

static struct twheel_ctx *ctx;

static bool fires(uint64_t ns)
{
	struct twheel_event event;

	return !twheel_arm(ctx, ns, 0, 7, NULL) &&
	       twheel_read(ctx, &event, 1, TWHEEL_FOREVER) == 1 && event.cookie == 7;
}

static void *arm_elsewhere(void *ret)
{
	*(int *)ret = twheel_arm(ctx, TWHEEL_HOUR, 0, 0, NULL);
	return NULL;
}

static bool timeouts(void)
{
	return fires(TWHEEL_MSEC);
}

static bool cells(void)
{
	struct twheel_cell *cell;
	uint64_t id, now;

	return !twheel_cell_create(ctx, 0, &id, &cell) && !twheel_now(ctx, &now) &&
	       twheel_cell_arm(ctx, cell, id, now + TWHEEL_HOUR) == TWHEEL_IDLE &&
	       !twheel_cell_cancel(cell);
}

static bool hubs(void)
{
	struct twheel_hub *hub;

	if (twheel_hub_open(NULL, 0, &hub))
		return false;
	twheel_hub_close(hub);
	return true;
}

static bool clocks(void)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME };

	return !twheel_configure(ctx, &setup) && fires(TWHEEL_MSEC);
}

static bool slack_and_intervals(void)
{
	struct twheel_event event;
	struct twheel_op op;

	twheel_prep_arm(&op, TWHEEL_MSEC, 0, 0);
	twheel_prep_interval(&op, TWHEEL_MSEC, 2);
	twheel_prep_slack(&op, TWHEEL_MSEC);
	return !twheel_operate(ctx, &op) && twheel_read(ctx, &event, 1, TWHEEL_FOREVER) == 1;
}

static bool threads(void)
{
	pthread_t thread;
	int ret = -1;

	CHECK(!pthread_create(&thread, NULL, arm_elsewhere, &ret));
	pthread_join(thread, NULL);
	return !ret;
}

static bool forks(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(twheel_arm(ctx, TWHEEL_HOUR, 0, 0, NULL) ? 1 : 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return !status;
}

static bool descriptors(void)
{
	struct twheel_ctx *other;

	if (twheel_open_fd(twheel_fd(ctx), &other))
		return false;
	twheel_close(other);
	return true;
}

static bool read_call(void)
{
	struct twheel_event event;

	CHECK_EQ(twheel_arm(ctx, 0, 0, 0, NULL), 0);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_FOREVER), 1);
	return read(twheel_fd(ctx), &event, sizeof(event)) == sizeof(event);
}

static bool shared_wheel(void)
{
	struct twheel_info info;

	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	return !(info.flags & TWHEEL_INFO_PRIVATE);
}

static bool manual_clock(void)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_MANUAL };

	return !twheel_configure(ctx, &setup) && !twheel_set_time(ctx, TWHEEL_HOUR);
}

enum { no, yes };

static const struct {
	const char *name;
	int device, process;
	bool (*works)(void);
} rows[] = {
	{ "timeouts", yes, yes, timeouts },
	{ "cells", yes, yes, cells },
	{ "hubs", yes, yes, hubs },
	{ "all clocks", yes, yes, clocks },
	{ "slack, intervals", yes, yes, slack_and_intervals },
	{ "several threads", yes, yes, threads },
	{ "use after fork", yes, no, forks },
	{ "use of its descriptor", yes, no, descriptors },
	{ "read(2) of events", yes, no, read_call },
	{ "one wheel for all", yes, no, shared_wheel },
	{ "manual clock", no, yes, manual_clock },
};

TEST(each_row_of_the_page_is_so)
{
	for_each_row(row, rows) {
		CHECK_EQ(twheel_open(NULL, 0, &ctx), 0);
		CHECK_EQ(row->works(), is_process_backend() ? row->process : row->device);
		twheel_close(ctx);
	}
}
