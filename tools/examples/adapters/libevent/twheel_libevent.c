// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
#include <errno.h>
#include <event2/event.h>

#include "twheel_libevent.h"

static void readable(evutil_socket_t fd, short what, void *hub)
{
	(void)fd;
	(void)what;
	twheel_hub_dispatch(hub, TWHEEL_NO_WAIT);
}

static void watch(void *event, bool on)
{
	if (on)
		event_add(event, NULL);
	else
		event_del(event);
}

static bool is_over(void *base)
{
	return event_base_got_break(base);
}

int twheel_libevent_open(struct twheel_libevent *wheel, struct event_base *base)
{
	int ret;

	ret = twheel_hub_open(NULL, 0, &wheel->hub);
	if (ret)
		return ret;
	wheel->readable = event_new(base, twheel_fd(twheel_hub_ctx(wheel->hub)),
				    EV_READ | EV_PERSIST, readable, wheel->hub);
	if (!wheel->readable) {
		twheel_hub_close(wheel->hub);
		return -ENOMEM;
	}
	twheel_hub_watch(wheel->hub, watch, wheel->readable);
	twheel_hub_break_if(wheel->hub, is_over, base);
	return 0;
}

/* The hub ends the watch before it closes the descriptor. */
void twheel_libevent_close(struct twheel_libevent *wheel)
{
	twheel_hub_close(wheel->hub);
	event_free(wheel->readable);
}
