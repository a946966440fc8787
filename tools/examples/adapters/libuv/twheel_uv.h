/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * Timeouts on a wheel for a program that runs on libuv.
 *
 *	struct twheel_uv wheel;
 *
 *	twheel_uv_open(&wheel, loop);
 *	twheel_node_init(&connection->idle, wheel.hub, connection_idle);
 *	twheel_node_arm(&connection->idle, 30 * TWHEEL_SEC);
 *	uv_run(loop, UV_RUN_DEFAULT);		calls connection_idle()
 *	twheel_uv_close(&wheel, closed);
 *
 * After uv_stop() in a callback no other one comes until the loop runs again.
 */
#ifndef TWHEEL_UV_H
#define TWHEEL_UV_H

#include <uv.h>

#include <twheel_hub.h>

/**
 * struct twheel_uv - the timeouts of a loop
 * @hub: the hub of the nodes
 * @readable: watches the descriptor of the hub
 * @closed: as given to twheel_uv_close()
 */
struct twheel_uv {
	struct twheel_hub	*hub;
	uv_poll_t		readable;
	void			(*closed)(struct twheel_uv *wheel);
};

/**
 * twheel_uv_open() - put a wheel beside a loop
 * @wheel: out: with its hub open
 * @loop: the loop
 *
 * Return: 0; an error of libuv, which is a negative errno; as twheel_hub_open().
 */
int twheel_uv_open(struct twheel_uv *wheel, uv_loop_t *loop);

/**
 * twheel_uv_close() - close the hub
 * @wheel: the wheel. Armed nodes are cancelled. Not allowed in a callback
 * @closed: called by the loop when @wheel may be freed, or NULL
 */
void twheel_uv_close(struct twheel_uv *wheel, void (*closed)(struct twheel_uv *wheel));

#endif /* TWHEEL_UV_H */
