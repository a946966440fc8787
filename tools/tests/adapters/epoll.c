// SPDX-License-Identifier: GPL-2.0
#define KTAP_NO_MAIN
#include <sys/epoll.h>

#include "ktap.h"
#include "loop.h"

static struct epoll_event event = { .events = EPOLLIN };
static struct twheel_hub *hub;
static bool broken;
static int epoll;

struct twheel_hub *open_loop(void)
{
	epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(epoll >= 0);
	CHECK_EQ(twheel_hub_open(NULL, 0, &hub), 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, twheel_fd(twheel_hub_ctx(hub)), &event), 0);
	return hub;
}

void run_loop(void)
{
	broken = false;
	while (twheel_hub_armed(hub) && !broken) {
		CHECK_EQ(epoll_wait(epoll, &event, 1, -1), 1);
		CHECK(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT) >= 0);
	}
}

void end_loop(void)
{
	broken = true;
	twheel_hub_break(hub);
}

void close_loop(void)
{
	twheel_hub_close(hub);
	close(epoll);
}
