// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include <sys/epoll.h>

#include "ktap.h"
#include "loop.h"

static struct twheel_hub *running;
static bool broken;

void end_loop(void)
{
	broken = true;
	twheel_hub_break(running);
}

void run_loop(void (*begin)(struct twheel_hub *hub), void (*end)(struct twheel_hub *hub))
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN };
	struct twheel_hub *hub;

	CHECK(epoll >= 0);
	CHECK_EQ(twheel_hub_open(NULL, 0, &hub), 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, twheel_fd(twheel_hub_ctx(hub)), &event), 0);
	running = hub;
	begin(hub);
	do {
		broken = false;
		while (twheel_hub_armed(hub) && !broken) {
			CHECK_EQ(epoll_wait(epoll, &event, 1, -1), 1);
			CHECK(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT) >= 0);
		}
		end(hub);
	} while (twheel_hub_armed(hub));
	twheel_hub_close(hub);
	close(epoll);
}
