// SPDX-License-Identifier: GPL-2.0
/* An echo server on libevent, with an idle timeout for each connection. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "twheel_libevent.h"

struct server {
	struct event_base *base;
	struct twheel_libevent wheel;
	uint64_t idle_ns;
};

struct connection {
	struct server *server;
	struct bufferevent *buffer;
	struct twheel_node idle;
};

static void end(struct connection *connection)
{
	twheel_node_cancel(&connection->idle);
	bufferevent_free(connection->buffer);
	free(connection);
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

static void connection_readable(struct bufferevent *buffer, void *arg)
{
	if (restart_idle_timeout(arg))
		bufferevent_write_buffer(buffer, bufferevent_get_input(buffer));
}

static void connection_ended(struct bufferevent *buffer, short what, void *arg)
{
	(void)buffer;
	(void)what;
	end(arg);
}

static void begin(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		  int len, void *arg)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct server *server = arg;

	(void)listener;
	(void)address;
	(void)len;
	if (!connection) {
		evutil_closesocket(fd);
		return;
	}
	connection->server = server;
	connection->buffer = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
	twheel_node_init(&connection->idle, server->wheel.hub, connection_idle);
	if (!restart_idle_timeout(connection))
		return;
	bufferevent_setcb(connection->buffer, connection_readable, NULL, connection_ended,
			  connection);
	bufferevent_enable(connection->buffer, EV_READ | EV_WRITE);
}

static void accept_again(evutil_socket_t fd, short what, void *listener)
{
	(void)fd;
	(void)what;
	evconnlistener_enable(listener);
}

/* Out of descriptors, say. The listener stays readable: without a pause this would spin. */
static void accept_failed(struct evconnlistener *listener, void *arg)
{
	static const struct timeval pause = { .tv_usec = 100000 };
	struct server *server = arg;

	evconnlistener_disable(listener);
	event_base_once(server->base, -1, EV_TIMEOUT, accept_again, listener, &pause);
}

static void stop(evutil_socket_t sig, short what, void *base)
{
	(void)sig;
	(void)what;
	event_base_loopbreak(base);
}

int echo_serve(int listener, uint64_t idle_ns)
{
	struct server server = { .base = event_base_new(), .idle_ns = idle_ns };
	struct evconnlistener *accepting;
	struct event *term;
	int ret;

	ret = twheel_libevent_open(&server.wheel, server.base);
	if (ret) {
		fprintf(stderr, "/dev/twheel: %s\n", strerror(-ret));
		return 1;
	}
	accepting = evconnlistener_new(server.base, begin, &server, LEV_OPT_CLOSE_ON_FREE, 0,
				       listener);
	evconnlistener_set_error_cb(accepting, accept_failed);
	term = evsignal_new(server.base, SIGTERM, stop, server.base);
	event_add(term, NULL);
	event_base_dispatch(server.base);

	event_free(term);
	evconnlistener_free(accepting);
	twheel_libevent_close(&server.wheel);
	event_base_free(server.base);
	return 0;
}
