// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include <event2/event.h>

#include "libevent/twheel_libevent.h"
#include "ktap.h"
#include "loop.h"

static struct event_base *running;

void end_loop(void)
{
	event_base_loopbreak(running);
}

void run_loop(void (*begin)(struct twheel_hub *hub), void (*end)(struct twheel_hub *hub))
{
	struct event_base *base = event_base_new();
	struct twheel_libevent wheel;

	CHECK_EQ(twheel_libevent_open(&wheel, base), 0);
	running = base;
	begin(wheel.hub);
	do {
		event_base_dispatch(base);
		end(wheel.hub);
	} while (twheel_hub_armed(wheel.hub));
	twheel_libevent_close(&wheel);
	event_base_free(base);
}
