// SPDX-License-Identifier: GPL-2.0
/*
 * An echo server on epoll, with an idle timeout for each connection.
 *
 * The hub is dispatched after the sockets of a batch: a timeout frees its connection, which
 * may have an event of its own in the same batch.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <twheel_hub.h>

#include "echo.h"

#define PAUSE_NS	(100 * TWHEEL_MSEC)

struct connection {
	int fd;
	struct server *server;
	struct twheel_node idle;
	LIST_ENTRY(connection) all;
};

struct server {
	int epoll;
	int listener;
	uint64_t idle_ns;
	struct twheel_hub *hub;
	struct twheel_node pause;
	LIST_HEAD(connection_list, connection) connections;
};

/* The pointer identifies the readable descriptor: the listener's, the hub's, or a connection. */
static bool watch(struct server *server, int fd, void *pointer)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = pointer };

	return !epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void end(struct connection *connection)
{
	twheel_node_cancel(&connection->idle);
	LIST_REMOVE(connection, all);
	close(connection->fd);
	free(connection);
}

static void connection_idle(struct twheel_node *node)
{
	end(twheel_entry(node, struct connection, idle));
}

/* A client that does not read its echo loses it. */
static void connection_readable(struct connection *connection)
{
	char text[4096];
	ssize_t len = recv(connection->fd, text, sizeof(text), MSG_DONTWAIT);

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0 || twheel_node_arm(&connection->idle, connection->server->idle_ns))
		end(connection);
	else
		send(connection->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void accept_again(struct twheel_node *node)
{
	struct server *server = twheel_entry(node, struct server, pause);

	watch(server, server->listener, &server->listener);
}

/* Out of descriptors, say. The listener stays readable: without a pause this would spin. */
static void accept_failed(struct server *server)
{
	epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->listener, NULL);
	if (twheel_node_arm(&server->pause, PAUSE_NS))
		accept_again(&server->pause);
}

static void begin(struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *connection;

	connection = fd < 0 ? NULL : calloc(1, sizeof(*connection));
	if (!connection) {
		if (fd >= 0)
			close(fd);
		accept_failed(server);
		return;
	}
	connection->fd = fd;
	connection->server = server;
	LIST_INSERT_HEAD(&server->connections, connection, all);
	twheel_node_init(&connection->idle, server->hub, connection_idle);
	if (!watch(server, fd, connection) || twheel_node_arm(&connection->idle, server->idle_ns))
		end(connection);
}

/* False: SIGTERM has come. */
static bool turn(struct server *server)
{
	struct epoll_event events[64];
	int nr = epoll_wait(server->epoll, events, 64, -1);
	bool due = false;

	for (int i = 0; i < nr; i++) {
		void *pointer = events[i].data.ptr;

		if (!pointer)
			return false;
		if (pointer == &server->listener)
			begin(server);
		else if (pointer == server->hub)
			due = true;
		else
			connection_readable(pointer);
	}
	if (due)
		twheel_hub_dispatch(server->hub, TWHEEL_NO_WAIT);
	return true;
}

static void close_all(struct server *server)
{
	struct connection *connection, *next;

	for (connection = LIST_FIRST(&server->connections); connection; connection = next) {
		next = LIST_NEXT(connection, all);
		end(connection);
	}
	twheel_hub_close(server->hub);
	close(server->epoll);
}

int echo_serve(int listener, uint64_t idle_ns)
{
	struct server server = { .listener = listener, .idle_ns = idle_ns };
	sigset_t term;
	int signals, ret;

	ret = twheel_hub_open(NULL, 0, &server.hub);
	if (ret) {
		fprintf(stderr, "/dev/twheel: %s\n", strerror(-ret));
		return 1;
	}
	LIST_INIT(&server.connections);
	twheel_node_init(&server.pause, server.hub, accept_again);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	signals = signalfd(-1, &term, SFD_CLOEXEC);
	server.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (signals < 0 || server.epoll < 0 || !watch(&server, signals, NULL) ||
	    !watch(&server, listener, &server.listener) ||
	    !watch(&server, twheel_fd(twheel_hub_ctx(server.hub)), server.hub)) {
		perror("epoll");
		return 1;
	}
	while (turn(&server))
		;
	close_all(&server);
	close(signals);
	return 0;
}
