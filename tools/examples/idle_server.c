// SPDX-License-Identifier: GPL-2.0
/*
 * A server that drops idle connections: a program to start from with libtwheel.
 *
 *	idle_server PORT [SECONDS]	echoes lines on a TCP port, and drops clients
 *					that have been silent for that time (60)
 *	idle_server --self-test [N]	is its own clients, N of them (10000), and
 *					checks the result
 *
 * One thread, one epoll loop. Each connection has one cell, made and armed when it is
 * accepted. Traffic moves it with twheel_cell_arm(): an exchange in memory, however many
 * connections there are. So the timeouts cost system calls when a connection begins and
 * when it ends, and none in between.
 *
 * Four things to copy:
 *
 * - The cookie is the connection's address. That is safe because no event of a timeout
 *   is read after it was cancelled, unread ones included.
 * - An event means that the connection was silent. Traffic that comes when the cell has
 *   fired, and before its event is read, withdraws the event.
 * - Expirations are handled after everything else that is ready in a turn of the loop:
 *   they free connections, which others of that turn may point to.
 * - When there are no descriptors for another connection, the listener stays readable.
 *   So it is not listened to for a while.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libtwheel.h"

#define BATCH		256
#define PAUSE_MS	100		/* without descriptors for new connections */

struct server;

/* Data of an epoll event: the listener, a connection, ... */
struct source {
	int fd;
	void (*ready)(struct server *server, struct source *source);
};

struct connection {
	struct source source;
	uint64_t id;		/* of its cell */
	struct twheel_cell *cell;
};

struct server {
	struct twheel_ctx *ctx;
	struct source timeouts;
	struct source *paused;	/* the listener, while it is not listened to */
	uint64_t resume_ns;	/* when it is again */
	int epoll;
	uint64_t idle_ns;	/* how long a connection may be silent */
	uint64_t now_ns;	/* in this turn of the loop */

	unsigned int nr;	/* connections */
	unsigned int dropped;	/* for being idle */
	unsigned int closed;	/* by the peer */
	unsigned int moved;	/* by traffic */
	unsigned int revived;	/* of these, after they had fired */
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "idle_server: %s: %s\n", what, strerror(-error));
	exit(EXIT_FAILURE);
}

static void check(const char *what, int ret)
{
	if (ret < 0)
		fail(what, ret);
}

static void check_errno(const char *what, int ret)
{
	if (ret < 0)
		fail(what, -errno);
}

static void watch(struct server *server, struct source *source, int how, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	check_errno("epoll_ctl", epoll_ctl(server->epoll, how, source->fd, &event));
}

static void listen_to(struct server *server, struct source *source)
{
	watch(server, source, EPOLL_CTL_ADD, EPOLLIN);
}

/* Do not use a timeout of the wheel: arming may fail at a limit. */
static void pause_source(struct server *server, struct source *source)
{
	watch(server, source, EPOLL_CTL_MOD, 0);
	server->paused = source;
	server->resume_ns = server->now_ns + PAUSE_MS * TWHEEL_MSEC;
}

static void resume_source(struct server *server)
{
	watch(server, server->paused, EPOLL_CTL_MOD, EPOLLIN);
	server->paused = NULL;
}

static int make_cell(struct server *server, struct connection *connection)
{
	int ret;

	ret = twheel_cell_create(server->ctx, (uintptr_t)connection, &connection->id,
				 &connection->cell);
	if (!ret)
		check("arm", twheel_cell_arm(server->ctx, connection->cell, connection->id,
					     server->now_ns + server->idle_ns));
	return ret;
}

/* The cell ends with the connection, armed or not. */
static void end(struct server *server, struct connection *connection)
{
	check("cancel", twheel_cancel(server->ctx, connection->id));
	close(connection->source.fd);
	free(connection);
	server->nr--;
}

/* The hot path. */
static void restart_idle_timeout(struct server *server, struct connection *connection)
{
	int was = twheel_cell_arm(server->ctx, connection->cell, connection->id,
				  server->now_ns + server->idle_ns);

	check("arm", was);
	server->moved++;
	server->revived += was == TWHEEL_WITHDRAWN;
}

static void hung_up(struct server *server, struct connection *connection)
{
	server->closed++;
	end(server, connection);
}

static void expired(struct server *server, const struct twheel_event *event)
{
	server->dropped++;
	end(server, (struct connection *)(uintptr_t)event->cookie);
}

/* Further events keep the descriptor readable. */
static void take_events(struct server *server)
{
	struct twheel_event events[BATCH];
	int nr = twheel_read(server->ctx, events, BATCH, TWHEEL_NO_WAIT);

	if (nr == -EAGAIN)
		return;
	check("read", nr);
	for (int i = 0; i < nr; i++)
		expired(server, &events[i]);
}

static void turn(struct server *server)
{
	struct epoll_event ready[BATCH];
	bool timeouts = false;
	int nr;

	nr = epoll_wait(server->epoll, ready, BATCH, server->paused ? PAUSE_MS : -1);
	if (nr < 0 && errno == EINTR)
		return;
	check_errno("epoll_wait", nr);
	twheel_now(server->ctx, &server->now_ns);
	if (server->paused && server->now_ns >= server->resume_ns)
		resume_source(server);
	for (int i = 0; i < nr; i++) {
		struct source *source = ready[i].data.ptr;

		if (source == &server->timeouts)
			timeouts = true;
		else
			source->ready(server, source);
	}
	if (timeouts)
		take_events(server);
}

/* Echo data; data that the client does not read is lost. */
static void connection_ready(struct server *server, struct source *source)
{
	struct connection *connection = (struct connection *)source;
	char text[4096];
	ssize_t len = recv(source->fd, text, sizeof(text), MSG_DONTWAIT);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		hung_up(server, connection);
		return;
	}
	restart_idle_timeout(server, connection);
	if (send(source->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		hung_up(server, connection);
}

/* At a limit, and without memory, the client is refused. */
static void begin(struct server *server, int fd)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection || make_cell(server, connection) < 0) {
		close(fd);
		free(connection);
		return;
	}
	connection->source = (struct source) { .fd = fd, .ready = connection_ready };
	listen_to(server, &connection->source);
	server->nr++;
}

static void server_init(struct server *server, uint64_t idle_ns)
{
	*server = (struct server) { .idle_ns = idle_ns };
	check("/dev/twheel", twheel_open(NULL, 0, &server->ctx));
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	check_errno("epoll_create1", server->epoll);
	server->timeouts.fd = twheel_fd(server->ctx);
	listen_to(server, &server->timeouts);
	twheel_now(server->ctx, &server->now_ns);
}

/* The server itself. */

/* Neither a descriptor nor memory: the next attempt would fail as well. */
static bool is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void accept_connection(struct server *server, struct source *source)
{
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		begin(server, fd);
	else if (is_short(errno))
		pause_source(server, source);
}

static void __attribute((noreturn)) serve(unsigned int port, unsigned int seconds)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct source listener = { .ready = accept_connection };
	struct server server;

	server_init(&server, seconds * TWHEEL_SEC);
	listener.fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check_errno("socket", listener.fd);
	setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	check_errno("bind", bind(listener.fd, (void *)&address, sizeof(address)));
	check_errno("listen", listen(listener.fd, SOMAXCONN));
	listen_to(&server, &listener);
	for (;;)
		turn(&server);
}

/*
 * Self-test: every fourth connection is busy for one and a half times the idle time, and the
 * others are silent. Some of these hang up.
 */

#define NR_HANG_UP	10
#define IDLE_NS		(2 * TWHEEL_SEC)
#define ROUNDS		6

struct test {
	struct server server;
	unsigned int nr;
	int *peers;
};

static bool is_busy(unsigned int number)
{
	return number % 4 == 3;
}

static bool hangs_up(unsigned int number)
{
	return number % 4 == 0 && number < 4 * NR_HANG_UP;
}

/* All clients; a thread. A peer that was dropped is no mistake. */
static void *play_clients(void *arg)
{
	struct test *test = arg;

	for (unsigned int i = 0; i < test->nr; i++) {
		if (hangs_up(i))
			close(test->peers[i]);
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		usleep(IDLE_NS / 4 / 1000);
		for (unsigned int i = 0; i < test->nr; i++) {
			if (is_busy(i))
				send(test->peers[i], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
	}
	return NULL;
}

static void begin_test(struct test *test, unsigned int nr)
{
	const struct rlimit limit = { 2 * nr + 100, 2 * nr + 100 };
	int pair[2];

	server_init(&test->server, IDLE_NS);
	check_errno("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
	test->nr = nr;
	test->peers = calloc(nr, sizeof(*test->peers));
	if (!test->peers)
		fail("memory", -ENOMEM);
	/* Those that hang up last: on a slow machine the others take longer than the idle time. */
	for (unsigned int i = nr; i--;) {
		check_errno("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		test->peers[i] = pair[0];
		twheel_now(test->server.ctx, &test->server.now_ns);
		begin(&test->server, pair[1]);
	}
	if (test->server.nr != nr)
		fail("arm", -EAGAIN);
}

/* How many clients have an echo. */
static unsigned int count_heard(const struct test *test)
{
	unsigned int nr = 0;
	char byte;

	for (unsigned int i = 0; i < test->nr; i++)
		nr += is_busy(i) && recv(test->peers[i], &byte, 1, MSG_DONTWAIT) > 0;
	return nr;
}

static unsigned int nr_failed;

static void expect(bool condition, const char *what)
{
	printf("%s %s\n", condition ? "ok  " : "FAIL", what);
	nr_failed += !condition;
}

static void check_counts(const struct test *test)
{
	const struct server *server = &test->server;
	unsigned int nr_heard = count_heard(test);
	struct twheel_stats stats;

	check("stats", twheel_get_stats(server->ctx, &stats));
	printf("%u dropped, %u closed, %u heard; %u moved, %u after they had fired; "
	       "%llu looks, %llu kicks\n",
	       server->dropped, server->closed, nr_heard, server->moved, server->revived,
	       (unsigned long long)stats.looks, (unsigned long long)stats.kicks);
	expect(server->closed == NR_HANG_UP, "a client that hung up was closed");
	expect(server->dropped == test->nr - NR_HANG_UP, "all others were dropped in the end");
	expect(server->moved >= nr_heard, "a client that was heard lived on");
	expect(stats.armed == test->nr && !stats.moved, "traffic armed and moved by exchanges");
	expect(stats.kicks >= server->revived, "a cell that had fired was armed with a call");
	expect(stats.kicks <= test->nr + server->revived + server->moved / 100,
	       "hardly any other was, but for the first time");
	expect(stats.looks >= stats.fired + nr_heard - server->revived,
	       "the kernel looked at old deadlines");
	expect(stats.read == server->dropped, "one event for each drop");
	expect(stats.dropped == server->revived, "traffic withdrew the events of the others");
	expect(stats.fired == stats.read + stats.dropped + stats.withdrawn,
	       "no event was lost");
	expect(stats.cancelled + stats.withdrawn == server->closed, "one cancel for each close");
	expect(stats.ended == server->dropped, "a cell that was dropped was idle");
	expect(!stats.live, "nothing is left");
}

/* Someone connects while there is no descriptor, and then there is one. */
static void check_shortage(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct source listener = { .ready = accept_connection };
	socklen_t len = sizeof(address);
	unsigned int turns = 0, most = 50;
	struct rlimit before, limit;
	struct server server;
	uint64_t end_ns;
	int client;

	server_init(&server, IDLE_NS);
	listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check_errno("bind", bind(listener.fd, (void *)&address, sizeof(address.sun_family)));
	check_errno("getsockname", getsockname(listener.fd, (void *)&address, &len));
	check_errno("listen", listen(listener.fd, 1));
	check_errno("connect", connect(client, (void *)&address, len));
	listen_to(&server, &listener);

	getrlimit(RLIMIT_NOFILE, &before);
	limit = before;
	limit.rlim_cur = client + 1;	/* the lowest that was free: all below it are taken */
	check_errno("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
	for (end_ns = server.now_ns + 5 * PAUSE_MS * TWHEEL_MSEC; server.now_ns < end_ns; turns++)
		turn(&server);
	expect(!server.nr && turns < most, "without descriptors it waits and does not spin");
	setrlimit(RLIMIT_NOFILE, &before);
	while (!server.nr && turns++ < 2 * most)
		turn(&server);
	expect(server.nr == 1, "with descriptors it accepts again");
	close(client);
	while (server.nr)
		turn(&server);
	close(listener.fd);
	close(server.epoll);
	twheel_close(server.ctx);
}

static int self_test(unsigned int nr)
{
	static struct test test;
	pthread_t clients;

	check_shortage();
	begin_test(&test, nr);
	check("thread", -pthread_create(&clients, NULL, play_clients, &test));
	while (test.server.nr)
		turn(&test.server);
	pthread_join(clients, NULL);
	check_counts(&test);
	twheel_close(test.server.ctx);
	return nr_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static unsigned int take_number(const char *text, unsigned int min, unsigned int max)
{
	char *rest;
	unsigned long value = strtoul(text, &rest, 10);

	if (!*text || *rest || value < min || value > max) {
		fprintf(stderr, "'%s' is no number from %u to %u\n", text, min, max);
		exit(64);
	}
	return value;
}

int main(int argc, char **argv)
{
	const char *second = argc == 3 ? argv[2] : NULL;

	if ((argc == 2 || argc == 3) && !strcmp(argv[1], "--self-test"))
		return self_test(second ? take_number(second, 100, 1000000) : 10000);
	if ((argc == 2 || argc == 3) && argv[1][0] != '-')
		serve(take_number(argv[1], 1, 65535), second ? take_number(second, 1, 86400) : 60);
	fprintf(stderr, "Usage: idle_server PORT [SECONDS]\n"
			"       idle_server --self-test [CONNECTIONS]\n");
	return 64;
}
