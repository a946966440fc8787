// SPDX-License-Identifier: GPL-2.0
/* An echo server on libuv, with an idle timeout for each connection. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "twheel_uv.h"

struct server {
	uv_tcp_t listener;
	struct twheel_uv wheel;
	uint64_t idle_ns;
};

struct connection {
	uv_tcp_t socket;
	struct server *server;
	struct twheel_node idle;
};

static void free_connection(uv_handle_t *handle)
{
	free(twheel_entry(handle, struct connection, socket));
}

static void end(struct connection *connection)
{
	twheel_node_cancel(&connection->idle);
	uv_close((uv_handle_t *)&connection->socket, free_connection);
}

static void connection_idle(struct twheel_node *node)
{
	end(twheel_entry(node, struct connection, idle));
}

/* False if it cannot be watched, and has ended. */
static bool restart_idle_timeout(struct connection *connection)
{
	struct server *server = connection->server;

	if (!twheel_node_arm(&connection->idle, server->idle_ns))
		return true;
	end(connection);
	return false;
}

/* The callback has consumed the data, so one buffer is enough. */
static void give_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
	static char text[4096];

	(void)handle;
	(void)size;
	*buffer = uv_buf_init(text, sizeof(text));
}

/* A client that does not read its echo loses it. */
static void connection_readable(uv_stream_t *stream, ssize_t len, const uv_buf_t *buffer)
{
	struct connection *connection = twheel_entry(stream, struct connection, socket);

	if (len < 0) {
		end(connection);
	} else if (len && restart_idle_timeout(connection)) {
		uv_buf_t text = uv_buf_init(buffer->base, len);

		uv_try_write(stream, &text, 1);
	}
}

static void begin(uv_stream_t *listener, int status)
{
	struct server *server = twheel_entry(listener, struct server, listener);
	struct connection *connection;

	if (status < 0)
		return;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return;
	connection->server = server;
	twheel_node_init(&connection->idle, server->wheel.hub, connection_idle);
	uv_tcp_init(listener->loop, &connection->socket);
	if (uv_accept(listener, (uv_stream_t *)&connection->socket))
		end(connection);
	else if (restart_idle_timeout(connection))
		uv_read_start((uv_stream_t *)&connection->socket, give_buffer,
			      connection_readable);
}

static void stop(uv_signal_t *term, int sig)
{
	(void)sig;
	uv_stop(term->loop);
}

int echo_serve(int listener, uint64_t idle_ns)
{
	struct server server = { .idle_ns = idle_ns };
	uv_loop_t *loop = uv_default_loop();
	uv_signal_t term;
	int ret;

	ret = twheel_uv_open(&server.wheel, loop);
	if (ret) {
		fprintf(stderr, "/dev/twheel: %s\n", strerror(-ret));
		return 1;
	}
	uv_tcp_init(loop, &server.listener);
	uv_tcp_open(&server.listener, listener);
	uv_listen((uv_stream_t *)&server.listener, SOMAXCONN, begin);
	uv_signal_init(loop, &term);
	uv_signal_start(&term, stop, SIGTERM);
	uv_run(loop, UV_RUN_DEFAULT);

	/* The process ends the rest. */
	twheel_uv_close(&server.wheel, NULL);
	return 0;
}
