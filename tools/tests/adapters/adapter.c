// SPDX-License-Identifier: GPL-2.0
/*
 * The adapter of a loop: nodes in it, and its echo server over real sockets. Linked once
 * with each of the adapters. The hub itself has tests on the device.
 *
 * The clients know when they sent a byte: a connection that ends before the idle time has
 * passed since its last byte was dropped early, however slow the machine is.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "device.h"
#include "echo.h"
#include "loop.h"

/* Fewer on slow (emulated) machines: as many as connect in CONNECT_NS. */
#define NR_CLIENTS	10000
#define CONNECT_NS	(7 * NSEC_PER_SEC)
#define IDLE_NS		(4 * NSEC_PER_SEC)

/*
 * Memory that a loop may keep; libuv keeps a table of descriptors. A connection takes more
 * than 100 bytes.
 */
#define LEAK_BYTES	(256 * 1024)
#define EXIT_LEAK	2

/* Nodes in a loop. */

#define NR_NODES	8

static struct twheel_hub *hub;
static struct twheel_node nodes[NR_NODES];
static __u64 begun_ns, called_ns[NR_NODES];
static unsigned int nr_calls[NR_NODES], nr_all;

static void count_called(struct twheel_node *node)
{
	unsigned int number = node - nodes;

	CHECK(!twheel_node_armed(node));
	called_ns[number] = now_ns();
	nr_calls[number]++;
	nr_all++;
}

static void open_nodes(void (*fn)(struct twheel_node *node))
{
	hub = open_loop();
	begun_ns = now_ns();
	for (unsigned int i = 0; i < NR_NODES; i++)
		twheel_node_init(&nodes[i], hub, fn);
}

static void arm_node(unsigned int number, __u64 ms)
{
	CHECK_EQ(twheel_node_arm(&nodes[number], ms * NSEC_PER_MSEC), 0);
}

/* Only idle cells are left. */
static void close_nodes(void)
{
	struct twheel_cancel_all done;

	CHECK_EQ(twheel_hub_armed(hub), 0);
	CHECK_EQ(twheel_cancel_timeouts(twheel_hub_ctx(hub), &done), 0);
	CHECK_EQ(done.pending, 0);
	CHECK_EQ(done.withdrawn, 0);
	close_loop();
}

TEST(loop_lasts_while_a_node_is_armed)
{
	open_nodes(count_called);
	for (unsigned int i = 0; i < 1000; i++) {	/* the watch ends each time */
		arm_node(0, 3600 * 1000);
		CHECK(twheel_node_cancel(&nodes[0]));
	}
	for (unsigned int i = 0; i < NR_NODES; i++)
		arm_node(i, 20 * i);
	run_loop();
	for (unsigned int i = 0; i < NR_NODES; i++) {
		CHECK_EQ(nr_calls[i], 1);
		CHECK(called_ns[i] >= begun_ns + 20 * i * NSEC_PER_MSEC);
	}
	close_nodes();
}

TEST(loop_ends_when_the_last_node_is_cancelled)
{
	open_nodes(count_called);
	arm_node(0, 3600 * 1000);
	CHECK(twheel_node_cancel(&nodes[0]));
	CHECK(!twheel_node_cancel(&nodes[0]));
	run_loop();
	CHECK_EQ(nr_all, 0);
	CHECK(now_ns() < begun_ns + time_limit_ns());
	close_nodes();
}

static void call_and_end(struct twheel_node *node)
{
	count_called(node);
	end_loop();
}

/* All are due before the loop runs: they come in one batch. */
TEST(callback_ends_the_loop_before_the_rest_of_its_batch)
{
	struct twheel_info info;

	open_nodes(call_and_end);
	for (unsigned int i = 0; i < NR_NODES; i++)
		arm_node(i, 0);
	do
		CHECK_EQ(twheel_get_info(twheel_hub_ctx(hub), &info), 0);
	while (info.ready < NR_NODES);
	for (unsigned int i = 1; i <= NR_NODES; i++) {
		run_loop();
		CHECK_EQ(nr_all, i);
		CHECK_EQ(twheel_hub_armed(hub), NR_NODES - i);
	}
	close_nodes();
}

/* The echo server. */

struct client {
	int fd;
	bool hung_up;
	__u64 sent_ns;		/* when the byte without an echo was sent; 0 if there is none */
	__u64 heard_ns;		/* not after the server has heard of it last */
};

static struct client clients[NR_CLIENTS];
static unsigned int nr_clients, nr_ended, nr_early;
static __s64 latest_ns;
static __u64 idle_ns;
static struct sockaddr_in address;
static int epoll;
static pid_t server;

/* When it ends, all connections and their memory are gone. */
static int serve(int fd)
{
	size_t used = mallinfo2().uordblks;
	int ret;

	ret = echo_serve(fd, idle_ns);
	used = mallinfo2().uordblks - used;
	ktap_note("the server keeps %zu bytes", used);
	return ret ? ret : used > LEAK_BYTES ? EXIT_LEAK : 0;
}

static void begin_server(__u64 ns)
{
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit) { 2 * NR_CLIENTS, 2 * NR_CLIENTS }), 0);
	address = (struct sockaddr_in) { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK_EQ(bind(fd, (void *)&address, len), 0);
	CHECK_EQ(listen(fd, SOMAXCONN), 0);
	CHECK_EQ(getsockname(fd, (void *)&address, &len), 0);
	idle_ns = ns;
	server = fork();
	CHECK(server >= 0);
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(serve(fd));
	}
	close(fd);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(epoll >= 0);
}

static void end_server(void)
{
	int status;

	kill(server, SIGTERM);
	CHECK_EQ(waitpid(server, &status, 0), server);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/* The server may have ended it meanwhile: only the echo shows that it has heard. */
static void send_byte(struct client *client)
{
	client->sent_ns = now_ns();
	send(client->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void byte_echoed(struct client *client)
{
	CHECK(client->sent_ns);
	client->heard_ns = client->sent_ns;
	client->sent_ns = 0;
}

/* The server will end it at once. */
static void hang_up(struct client *client)
{
	client->hung_up = true;
	shutdown(client->fd, SHUT_WR);
}

static struct client *connect_client(void)
{
	struct client *client = &clients[nr_clients];
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };

	*client = (struct client) { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
				    .heard_ns = now_ns() };
	CHECK(client->fd >= 0);
	if (connect(client->fd, (void *)&address, sizeof(address)))
		ktap_fail("connect: %s", strerror(errno));
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event), 0);
	nr_clients++;
	return client;
}

static void client_ended(struct client *client)
{
	__s64 late = now_ns() - client->heard_ns - idle_ns;

	close(client->fd);
	client->fd = -1;
	nr_ended++;
	nr_early += late < 0 && !client->hung_up;
	if (late > latest_ns)
		latest_ns = late;
}

/* Handles all input from the server within @ms. Returns the number of echoed bytes. */
static unsigned int listen_to_server(unsigned int ms)
{
	__u64 end = now_ns() + ms * NSEC_PER_MSEC;
	struct epoll_event events[256];
	unsigned int echoed = 0;
	char text[64];
	int nr;

	do {
		nr = epoll_wait(epoll, events, ARRAY_SIZE(events), ms);
		CHECK(nr >= 0);
		for (int i = 0; i < nr; i++) {
			struct client *client = events[i].data.ptr;
			ssize_t len = recv(client->fd, text, sizeof(text), 0);

			if (len <= 0) {
				client_ended(client);
				continue;
			}
			CHECK_EQ(len, 1);
			byte_echoed(client);
			echoed++;
		}
	} while (nr && now_ns() < end);
	return echoed;
}

/* The byte may be sent so late that the server has ended the idle connection. */
static void echo_from(struct client *client)
{
	bool sent_late;
	char byte = 0;
	ssize_t len;

	send_byte(client);
	sent_late = now_ns() >= client->heard_ns + idle_ns;
	len = recv(client->fd, &byte, 1, 0);
	if (len <= 0 && sent_late) {
		client_ended(client);
		return;
	}
	CHECK_EQ(len, 1);
	CHECK(byte == 'x');
	byte_echoed(client);
}

/* Some all over the range, so that they share ticks with those that are silent. */
static bool is_active(unsigned int number)
{
	return number % 100 == 0;
}

/* How many are left of them. */
static unsigned int send_from_active(void)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < nr_clients; i++) {
		if (!is_active(i) || clients[i].fd < 0)
			continue;
		if (!clients[i].sent_ns)
			send_byte(&clients[i]);
		nr++;
	}
	return nr;
}

/* In steps, because the queue of connections that the server has not accepted is limited. */
static void connect_clients(unsigned int nr)
{
	__u64 end = now_ns() + CONNECT_NS;

	while (nr_clients < nr && now_ns() < end) {
		struct client *client = connect_client();

		if (nr_clients % 256 == 0 || nr_clients == nr) {
			echo_from(client);
			listen_to_server(0);
			send_from_active();
		}
	}
}

static void wait_for_the_end(void)
{
	__u64 deadline = now_ns() + idle_ns + time_limit_ns();

	while (nr_ended < nr_clients && now_ns() < deadline)
		listen_to_server(100);
	CHECK_EQ(nr_ended, nr_clients);
	CHECK_EQ(nr_early, 0);
}

/*
 * Active clients are dropped only if the machine stalls for about the idle time. If the server
 * did not hear them, it would drop them early.
 */
TEST(thousands_are_closed_on_time_if_silent_and_stay_if_active)
{
	unsigned int echoed = 0, most, stayed;
	__u64 begun = now_ns(), connected;

	begin_server(IDLE_NS);
	connect_clients(NR_CLIENTS);
	connected = now_ns();
	most = nr_clients - nr_ended;
	do {
		echoed += listen_to_server(100);
		stayed = send_from_active();
	} while (nr_clients - nr_ended > stayed || now_ns() < connected + IDLE_NS);

	ktap_note("%u of %u at once, connected in %llu ms; %u active, %u echoes; %lld ms late",
		  most, nr_clients, (connected - begun) / NSEC_PER_MSEC, stayed, echoed,
		  latest_ns / (__s64)NSEC_PER_MSEC);
	CHECK_EQ(nr_early, 0);
	CHECK(echoed >= stayed);
	for (unsigned int i = 0; i < nr_clients; i++) {
		if (clients[i].fd >= 0)
			hang_up(&clients[i]);
	}
	wait_for_the_end();
	end_server();
}

static unsigned int count_fds(pid_t pid)
{
	unsigned int nr = 0;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	CHECK(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Half of them hang up, the others are dropped. */
static void connect_and_disconnect(unsigned int nr)
{
	nr_clients = 0;
	nr_ended = 0;
	connect_clients(nr);
	for (unsigned int i = 0; i < nr_clients; i += 2) {
		if (clients[i].fd >= 0)
			hang_up(&clients[i]);
	}
	wait_for_the_end();
}

TEST(connections_that_came_and_went_leave_nothing)
{
	unsigned int fds;

	begin_server(NSEC_PER_SEC);
	connect_and_disconnect(10);
	fds = count_fds(server);
	for (unsigned int round = 0; round < 2; round++) {
		connect_and_disconnect(1000);
		CHECK_EQ(count_fds(server), fds);
	}
	end_server();
}
