/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Timeouts on a wheel for a program that runs on libevent.
 *
 *	struct twheel_libevent wheel;
 *
 *	twheel_libevent_open(&wheel, base);
 *	twheel_node_arm(&wheel.hub, &connection->idle, 30 * TWHEEL_SEC);
 *	event_base_dispatch(base);		calls connection->idle.fn()
 *	twheel_libevent_close(&wheel);
 *
 * Callbacks come at the priority that events of the base have by default.
 */
#ifndef TWHEEL_LIBEVENT_H
#define TWHEEL_LIBEVENT_H

#include "twheel_hub.h"

struct event;
struct event_base;

/**
 * struct twheel_libevent - the timeouts of an event base
 * @hub: what nodes are armed with
 * @readable: an expiration can be read
 */
struct twheel_libevent {
	struct twheel_hub	hub;
	struct event		*readable;
};

/**
 * twheel_libevent_open() - put a wheel beside an event base
 * @wheel: out
 * @base: the base
 *
 * Return: 0; -ENOMEM; as twheel_open().
 */
int twheel_libevent_open(struct twheel_libevent *wheel, struct event_base *base);

/**
 * twheel_libevent_close() - give it back, before the base
 * @wheel: not in a callback of it; nodes that are armed are not called any more
 */
void twheel_libevent_close(struct twheel_libevent *wheel);

#endif /* TWHEEL_LIBEVENT_H */
