/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * Timeouts on a wheel for a program that runs on libevent.
 *
 *	struct twheel_libevent wheel;
 *
 *	twheel_libevent_open(&wheel, base);
 *	twheel_node_init(&connection->idle, wheel.hub, connection_idle);
 *	twheel_node_arm(&connection->idle, 30 * TWHEEL_SEC);
 *	event_base_dispatch(base);		calls connection_idle()
 *	twheel_libevent_close(&wheel);
 *
 * Callbacks come at the priority that events of the base have by default. None comes after
 * event_base_loopbreak() in another; event_base_loopcontinue() waits for up to 63 that are due.
 */
#ifndef TWHEEL_LIBEVENT_H
#define TWHEEL_LIBEVENT_H

#include <twheel_hub.h>

struct event;
struct event_base;

/**
 * struct twheel_libevent - the timeouts of an event base
 * @hub: the hub of the nodes
 * @readable: watches the descriptor of the hub
 */
struct twheel_libevent {
	struct twheel_hub	*hub;
	struct event		*readable;
};

/**
 * twheel_libevent_open() - put a wheel beside an event base
 * @wheel: out: with its hub open
 * @base: the base
 *
 * Return: 0; -ENOMEM; as twheel_hub_open().
 */
int twheel_libevent_open(struct twheel_libevent *wheel, struct event_base *base);

/**
 * twheel_libevent_close() - close the hub, before the base is freed
 * @wheel: the wheel. Armed nodes are cancelled. Not allowed in a callback
 */
void twheel_libevent_close(struct twheel_libevent *wheel);

#endif /* TWHEEL_LIBEVENT_H */
