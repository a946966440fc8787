/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Timeouts on a wheel for a program that runs on libuv.
 *
 *	struct twheel_uv wheel;
 *
 *	twheel_uv_open(&wheel, loop);
 *	twheel_node_arm(&wheel.hub, &connection->idle, 30 * TWHEEL_SEC);
 *	uv_run(loop, UV_RUN_DEFAULT);		calls connection->idle.fn()
 *	twheel_uv_close(&wheel, closed);
 */
#ifndef TWHEEL_UV_H
#define TWHEEL_UV_H

#include <uv.h>

#include "twheel_hub.h"

/**
 * struct twheel_uv - the timeouts of a loop
 * @hub: what nodes are armed with
 * @readable: an expiration can be read
 * @closed: as given to twheel_uv_close()
 */
struct twheel_uv {
	struct twheel_hub	hub;
	uv_poll_t		readable;
	void			(*closed)(struct twheel_uv *wheel);
};

/**
 * twheel_uv_open() - put a wheel beside a loop
 * @wheel: out
 * @loop: the loop
 *
 * Return: 0; an error of libuv, which is a negative errno; as twheel_open().
 */
int twheel_uv_open(struct twheel_uv *wheel, uv_loop_t *loop);

/**
 * twheel_uv_close() - give it back
 * @wheel: not in a callback of it; nodes that are armed are not called any more
 * @closed: called by the loop when @wheel may be freed, or NULL
 */
void twheel_uv_close(struct twheel_uv *wheel, void (*closed)(struct twheel_uv *wheel));

#endif /* TWHEEL_UV_H */
