// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include <event2/event.h>

#include "libevent/twheel_libevent.h"
#include "ktap.h"
#include "loop.h"

static struct twheel_libevent wheel;
static struct event_base *base;

struct twheel_hub *open_loop(void)
{
	base = event_base_new();
	CHECK_EQ(twheel_libevent_open(&wheel, base), 0);
	return wheel.hub;
}

void run_loop(void)
{
	event_base_dispatch(base);
}

void end_loop(void)
{
	event_base_loopbreak(base);
}

void close_loop(void)
{
	twheel_libevent_close(&wheel);
	event_base_free(base);
}
