// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include "libuv/twheel_uv.h"
#include "ktap.h"
#include "loop.h"

static struct twheel_uv *closed_wheel;

static void closed(struct twheel_uv *wheel)
{
	closed_wheel = wheel;
}

static uv_loop_t *running;

void end_loop(void)
{
	uv_stop(running);
}

void run_loop(void (*begin)(struct twheel_hub *hub), void (*end)(struct twheel_hub *hub))
{
	struct twheel_uv wheel;
	uv_loop_t loop;

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(twheel_uv_open(&wheel, &loop), 0);
	running = &loop;
	begin(wheel.hub);
	do {
		uv_run(&loop, UV_RUN_DEFAULT);
		end(wheel.hub);
	} while (twheel_hub_armed(wheel.hub));
	twheel_uv_close(&wheel, closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(closed_wheel == &wheel);
	CHECK_EQ(uv_loop_close(&loop), 0);
}
