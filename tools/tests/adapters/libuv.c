// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include "libuv/twheel_uv.h"
#include "ktap.h"
#include "loop.h"

static struct twheel_uv wheel, *closed_wheel;
static uv_loop_t loop;

static void closed(struct twheel_uv *of)
{
	closed_wheel = of;
}

struct twheel_hub *open_loop(void)
{
	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(twheel_uv_open(&wheel, &loop), 0);
	return wheel.hub;
}

void run_loop(void)
{
	uv_run(&loop, UV_RUN_DEFAULT);
}

void end_loop(void)
{
	uv_stop(&loop);
}

void close_loop(void)
{
	twheel_uv_close(&wheel, closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(closed_wheel == &wheel);
	CHECK_EQ(uv_loop_close(&loop), 0);
}
