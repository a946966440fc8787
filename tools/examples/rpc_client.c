// SPDX-License-Identifier: GPL-2.0
/*
 * A client with thousands of requests in flight, each with a timeout: how to use cells.
 *
 *	rpc_client [REQUESTS [MS]]	200000 requests, 5000 ms for each answer
 *
 * Two threads send requests over a socket each, as soon as one of their 5,000 places is
 * free. The other side loses a request now and then. Nearly every timeout is cancelled
 * soon after it was armed, which takes an exchange in memory and no system call.
 *
 * Five things to copy:
 *
 * - A cell for each request that may be in flight, made at the beginning. To arm it costs
 *   nothing that could fail later, such as memory or a limit.
 * - The cells of a thread lie side by side. A cell has 16 bytes, so four share a cache
 *   line. Threads that write to the same line slow each other down.
 * - Armings are collected with twheel_cell_arm_later() while a batch of requests is made.
 *   The kernel has to be told of hardly any, and then of all in one call. That comes
 *   before the requests are sent: an arming counts from there.
 * - The answer and the timeout of a request may come at the same time, to two threads.
 *   twheel_cell_cancel() decides. If the cell is idle, the event has been read, and the
 *   request has timed out. Otherwise no event will be read. So each request ends
 *   in one of the two ways, without a lock.
 * - A place is used again, so an answer that comes after the timeout must not be taken for
 *   that of the next request: requests have a serial number.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libtwheel.h"

#define NR_CLIENTS		2
#define IN_FLIGHT		10000			/* of all clients */
#define WINDOW			(IN_FLIGHT / NR_CLIENTS)
#define BATCH			TWHEEL_MAX_KICKS	/* requests in a packet */
#define CELLS_PER_LINE		(64 / sizeof(struct twheel_cell))
#define LOSS			5000			/* one request of so many is lost */

/* Each client begins with a cache line of its own. */
static_assert(WINDOW % CELLS_PER_LINE == 0, "clients share a cache line");

struct message {
	uint32_t place;
	uint32_t serial;
};

/* A place for a request that is in flight. */
struct request {
	uint64_t id;			/* of its cell, whose cookie is the request's address */
	struct twheel_cell *cell;
	struct client *client;
	uint32_t serial;
	struct request *next_free;
};

struct client {
	pthread_t thread;
	struct twheel_ctx *ctx;
	struct request *requests;	/* WINDOW of them */
	struct request *free;
	struct twheel_kicks kicks;
	int socket;
	int timed_out[2];		/* a pipe: addresses of requests whose event was read */
	uint64_t timeout_ns;

	unsigned long nr;		/* requests to send */
	unsigned long sent;
	unsigned long answered;
	unsigned long withdrawn;	/* of these, after the timeout had fired */
	unsigned long timeouts;
	unsigned long calls;		/* for kicks, and for timeouts that fired */
};

struct server {
	pthread_t thread;
	int socket;
	unsigned long seen;		/* requests */
};

static struct request requests[IN_FLIGHT];
static struct client clients[NR_CLIENTS];
static struct server servers[NR_CLIENTS];

static void fail(const char *what, int error)
{
	fprintf(stderr, "rpc_client: %s: %s\n", what, strerror(-error));
	exit(EXIT_FAILURE);
}

static void check(const char *what, int ret)
{
	if (ret < 0)
		fail(what, ret);
}

static void check_errno(const char *what, ssize_t ret)
{
	if (ret < 0)
		fail(what, -errno);
}

/* The client. */

static void put_free(struct client *client, struct request *request)
{
	request->next_free = client->free;
	client->free = request;
}

/* An answer that comes from now on is that of another request. */
static void finish(struct client *client, struct request *request)
{
	request->serial++;
	put_free(client, request);
}

static struct request *begin_request(struct client *client, uint64_t now_ns)
{
	struct request *request = client->free;

	if (!request || client->sent == client->nr)
		return NULL;
	client->free = request->next_free;
	client->sent++;
	check("arm", twheel_cell_arm_later(&client->kicks, request->cell, request->id,
					   now_ns + client->timeout_ns));
	return request;
}

/* A batch of requests, as far as there are free places. False: there are none. */
static bool send_requests(struct client *client)
{
	struct message batch[BATCH];
	struct request *request;
	unsigned int nr = 0;
	uint64_t now_ns;

	twheel_now(client->ctx, &now_ns);
	while (nr < BATCH && (request = begin_request(client, now_ns)))
		batch[nr++] = (struct message) {
			.place = request - client->requests,
			.serial = request->serial,
		};
	if (!nr)
		return false;
	client->calls += client->kicks.nr > 0;
	check("kick", twheel_kick_all(&client->kicks));
	check_errno("send", send(client->socket, batch, nr * sizeof(batch[0]), 0));
	return true;
}

static void answered(struct client *client, const struct message *message)
{
	struct request *request = &client->requests[message->place];
	int was;

	if (message->serial != request->serial)
		return;
	was = twheel_cell_cancel(request->cell);
	/* Its event has been read: the request comes through the pipe. */
	if (was == TWHEEL_IDLE)
		return;
	client->withdrawn += was == TWHEEL_WITHDRAWN;
	client->answered++;
	finish(client, request);
}

static void take_answers(struct client *client)
{
	struct message batch[BATCH];
	ssize_t len = recv(client->socket, batch, sizeof(batch), 0);

	check_errno("recv", len);
	for (size_t i = 0; i < len / sizeof(batch[0]); i++)
		answered(client, &batch[i]);
}

static void take_timeouts(struct client *client)
{
	struct request *expired[BATCH];
	ssize_t len = read(client->timed_out[0], expired, sizeof(expired));

	check_errno("pipe", len);
	client->calls++;
	for (size_t i = 0; i < len / sizeof(expired[0]); i++) {
		client->timeouts++;
		finish(client, expired[i]);
	}
}

static void *run_client(void *arg)
{
	struct client *client = arg;
	struct pollfd ready[] = {
		{ .fd = client->socket, .events = POLLIN },
		{ .fd = client->timed_out[0], .events = POLLIN },
	};

	while (client->answered + client->timeouts < client->nr) {
		while (send_requests(client))
			;
		check_errno("poll", poll(ready, 2, -1));
		if (ready[0].revents)
			take_answers(client);
		if (ready[1].revents)
			take_timeouts(client);
	}
	return NULL;
}

/* Events go to the clients that their requests are of. Returns how many calls that took. */
static void *take_events(void *ctx)
{
	struct twheel_event events[BATCH];
	unsigned long calls = 0;
	int nr;

	while ((nr = twheel_read(ctx, events, BATCH, TWHEEL_FOREVER)) > 0) {
		for (int i = 0; i < nr; i++) {
			struct request *request = (struct request *)(uintptr_t)events[i].cookie;

			check_errno("pipe", write(request->client->timed_out[1], &request,
						  sizeof(request)));
		}
		calls += 1 + nr;
	}
	check("read", nr);
	return (void *)calls;
}

/* The server. It answers in the order of the requests, and loses one now and then. */

#define QUEUE	8192

struct queue {
	struct message message[QUEUE];
	unsigned int head, tail;
};

static unsigned int room_in(const struct queue *queue)
{
	return QUEUE - (queue->tail - queue->head);
}

/* False: the client has gone. */
static bool take_requests(struct server *server, struct queue *queue)
{
	struct message batch[BATCH];
	ssize_t len = recv(server->socket, batch, sizeof(batch), 0);

	check_errno("recv", len);
	for (size_t i = 0; i < len / sizeof(batch[0]); i++) {
		if (++server->seen % LOSS)
			queue->message[queue->tail++ % QUEUE] = batch[i];
	}
	return len;
}

static bool send_answers(struct server *server, struct queue *queue)
{
	unsigned int first = queue->head % QUEUE;
	unsigned int nr = queue->tail - queue->head;
	ssize_t len;

	if (nr > BATCH)
		nr = BATCH;
	if (nr > QUEUE - first)
		nr = QUEUE - first;
	len = send(server->socket, &queue->message[first], nr * sizeof(queue->message[0]),
		   MSG_DONTWAIT | MSG_NOSIGNAL);
	if (len > 0)
		queue->head += nr;
	return len > 0 || errno == EAGAIN;
}

/* It never blocks in send(), so that client and server cannot wait for each other. */
static void *run_server(void *arg)
{
	struct queue queue = { .head = 0 };
	struct server *server = arg;
	bool connected = true;

	while (connected) {
		struct pollfd ready = { .fd = server->socket };

		if (room_in(&queue) >= BATCH)
			ready.events |= POLLIN;
		if (room_in(&queue) < QUEUE)
			ready.events |= POLLOUT;
		check_errno("poll", poll(&ready, 1, -1));
		if (ready.revents & POLLIN)
			connected = take_requests(server, &queue);
		if (connected && ready.revents & (POLLOUT | POLLERR))
			connected = send_answers(server, &queue);
	}
	return NULL;
}

/* Beginning and end. */

/*
 * One call makes all cells. A new context gives out the places in memory one after the
 * other, so those of a client are side by side.
 */
static void make_cells(struct twheel_ctx *ctx)
{
	struct twheel_op *ops = calloc(IN_FLIGHT, sizeof(*ops));

	if (!ops)
		fail("memory", -ENOMEM);
	for (unsigned int i = 0; i < IN_FLIGHT; i++)
		twheel_prep_arm(&ops[i], TWHEEL_CELL_IDLE, TWHEEL_F_CELL | TWHEEL_F_ABS,
				(uintptr_t)&requests[i]);
	check("submit", twheel_submit_ops(ctx, ops, IN_FLIGHT));
	for (unsigned int i = 0; i < IN_FLIGHT; i++) {
		check("arm", ops[i].result);
		requests[i].id = ops[i].id;
		check("cell", twheel_cell_find(ctx, ops[i].id, &requests[i].cell));
	}
	free(ops);
}

static void begin_client(struct client *client, struct twheel_ctx *ctx, unsigned long nr,
			 uint64_t timeout_ns)
{
	unsigned int number = client - clients;
	struct server *server = &servers[number];
	int pair[2];

	*client = (struct client) {
		.ctx = ctx,
		.requests = &requests[number * WINDOW],
		.kicks = { .ctx = ctx },
		.timeout_ns = timeout_ns,
		.nr = nr,
	};
	for (unsigned int i = WINDOW; i--;) {
		client->requests[i].client = client;
		put_free(client, &client->requests[i]);
	}
	check_errno("pipe", pipe(client->timed_out));
	check_errno("socketpair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	client->socket = pair[0];
	server->socket = pair[1];
	check("thread", -pthread_create(&server->thread, NULL, run_server, server));
	check("thread", -pthread_create(&client->thread, NULL, run_client, client));
}

static void end_client(struct client *client)
{
	struct server *server = &servers[client - clients];

	pthread_join(client->thread, NULL);
	close(client->socket);
	pthread_join(server->thread, NULL);
	close(server->socket);
}

static void report(const struct twheel_stats *stats, unsigned long calls)
{
	struct client all = { .calls = calls };

	for (unsigned int i = 0; i < NR_CLIENTS; i++) {
		all.sent += clients[i].sent;
		all.answered += clients[i].answered;
		all.withdrawn += clients[i].withdrawn;
		all.timeouts += clients[i].timeouts;
		all.calls += clients[i].calls;
	}
	printf("requests   %10lu\n", all.sent);
	printf("answered   %10lu\n", all.answered);
	printf("timeouts   %10lu\n", all.timeouts);
	printf("fired      %10llu  timeouts, and %lu that an answer withdrew\n",
	       (unsigned long long)stats->fired, all.withdrawn);
	printf("kicks      %10llu  armings that the kernel had to be told of\n",
	       (unsigned long long)stats->kicks);
	printf("looks      %10llu  of the kernel at a cell, because of the time\n",
	       (unsigned long long)stats->looks);
	printf("calls      %10lu  of the system for timeouts, %.4f per request\n",
	       all.calls, (double)all.calls / all.sent);
}

static unsigned long take_number(const char *text, unsigned long most)
{
	char *rest;
	unsigned long value = strtoul(text, &rest, 10);

	if (!*text || *text == '-' || *rest || !value || value > most) {
		fprintf(stderr, "'%s' is no number from 1 to %lu\n", text, most);
		exit(64);
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned long nr = argc > 1 ? take_number(argv[1], 1000000000) : 200000;
	uint64_t timeout_ns = (argc > 2 ? take_number(argv[2], 86400000) : 5000) * TWHEEL_MSEC;
	unsigned long calls = 1;	/* that made the cells */
	struct twheel_stats stats;
	struct twheel_ctx *ctx;
	pthread_t events;
	void *event_calls;

	check("/dev/twheel", twheel_open(NULL, 0, &ctx));
	make_cells(ctx);
	check("thread", -pthread_create(&events, NULL, take_events, ctx));
	for (unsigned int i = 0; i < NR_CLIENTS; i++)
		begin_client(&clients[i], ctx, nr / NR_CLIENTS + (i < nr % NR_CLIENTS), timeout_ns);
	for (unsigned int i = 0; i < NR_CLIENTS; i++)
		end_client(&clients[i]);
	check("stats", twheel_get_stats(ctx, &stats));

	/* Ends all cells, and take_events(). */
	check("stop", twheel_stop(ctx));
	pthread_join(events, &event_calls);
	report(&stats, calls + (unsigned long)event_calls);
	twheel_close(ctx);
	return 0;
}
