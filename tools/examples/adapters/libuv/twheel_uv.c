// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
#include "twheel_uv.h"

static void readable(uv_poll_t *handle, int status, int events)
{
	struct twheel_uv *wheel = twheel_entry(handle, struct twheel_uv, readable);

	(void)status;
	(void)events;
	twheel_hub_dispatch(wheel->hub, TWHEEL_NO_WAIT);
}

static void watch(void *handle, bool on)
{
	if (on)
		uv_poll_start(handle, UV_READABLE, readable);
	else
		uv_poll_stop(handle);
}

/* libuv itself calls the timers that are due before it looks at the flag. */
static bool is_over(void *loop)
{
	return ((uv_loop_t *)loop)->stop_flag;
}

int twheel_uv_open(struct twheel_uv *wheel, uv_loop_t *loop)
{
	int ret;

	ret = twheel_hub_open(NULL, 0, &wheel->hub);
	if (ret)
		return ret;
	ret = uv_poll_init(loop, &wheel->readable, twheel_fd(twheel_hub_ctx(wheel->hub)));
	if (ret) {
		twheel_hub_close(wheel->hub);
		return ret;
	}
	twheel_hub_watch(wheel->hub, watch, &wheel->readable);
	twheel_hub_break_if(wheel->hub, is_over, loop);
	return 0;
}

static void handle_closed(uv_handle_t *handle)
{
	struct twheel_uv *wheel = twheel_entry(handle, struct twheel_uv, readable);

	if (wheel->closed)
		wheel->closed(wheel);
}

/* The hub ends the watch before it closes the descriptor. */
void twheel_uv_close(struct twheel_uv *wheel, void (*closed)(struct twheel_uv *wheel))
{
	wheel->closed = closed;
	twheel_hub_close(wheel->hub);
	uv_close((uv_handle_t *)&wheel->readable, handle_closed);
}
