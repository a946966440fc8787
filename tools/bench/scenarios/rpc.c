// SPDX-License-Identifier: GPL-2.0
/*
 * RPC: clients with thousands of requests in flight, each with a timeout of 5 s. Nearly
 * every timeout is cancelled because the answer comes.
 *
 * A client is a thread with an event loop. It sends requests and takes answers in packets
 * over a socket. The same thread also plays the server at the other end of the socket. The
 * server keeps its share of the requests for a while, answers them in random order, and
 * loses one in LOSS. So the result does not depend on the order in which two threads run.
 * With any back end, a turn of the loop has four calls for the sockets, and one ppoll() for
 * the socket and the timeouts.
 *
 *	backend=NAME threads=N
 *	packet=N	requests in a packet (64)
 *	flight=N	requests in flight, of all threads (10000)
 *	loss=N		one request in N is lost (10000); 0: none
 *	ms=N		how long is measured (1000)
 *	loaded=1	5 s later the client sends requests once more, for as long. Report the
 *			lateness of those that fire meanwhile, and of no other
 *
 * Reported: requests per second. On a machine that counts instructions, those of the whole
 * machine per request. Timeouts that fired, and how late a client handled them.
 */
#include <poll.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/socket.h>

#include "scenario.h"

#define TIMEOUT_NS	(5 * NSEC_PER_SEC)
#define THREADS		4U

struct message {
	uint32_t	request;
	uint32_t	serial;
};

/* Used for one request after another. */
struct request {
	uint64_t	expires_ns;
	uint32_t	serial;
	bool		in_flight;
};

/* struct client - a client thread */
struct client {
	alignas(128) pthread_t thread;
	unsigned int	number;
	struct timers	*timers;
	int		sockets[2];
	struct request	*requests;
	uint32_t	*free;
	unsigned int	nr_free;
	struct message	*queue;
	unsigned int	nr_queued;
	unsigned int	max_in_flight;
	uint64_t	random;
	uint64_t	sent;
	uint64_t	seen;
	uint64_t	lost;
	uint64_t	answered;
	uint64_t	timed_out;
	uint64_t	counted;
	bool		is_loaded;
	struct samples	lateness;
};

static struct client clients[THREADS];
static const struct backend *backend;
static unsigned int packet;
static uint64_t loss;
static bool loaded;
static uint64_t begin_ns, end_ns;	/* time of the measurement */
static pthread_barrier_t ready;

static void end_request(struct client *client, uint32_t number)
{
	client->requests[number].in_flight = false;
	client->requests[number].serial++;
	client->free[client->nr_free++] = number;
}

static void send_messages(int socket, const struct message *messages, unsigned int nr)
{
	ssize_t size = nr * sizeof(*messages);

	if (nr && send(socket, messages, size, 0) != size)
		die("send");
}

static unsigned int take_messages(int socket, struct message *messages)
{
	ssize_t size = recv(socket, messages, BATCH * sizeof(*messages), 0);

	if (size < 0)
		die("recv");
	return size / sizeof(*messages);
}

/* Each request is armed before it is sent. Returns the number of requests. */
static unsigned int send_requests(struct client *client, uint64_t now)
{
	struct message messages[BATCH];
	unsigned int nr = 0;

	while (nr < packet && client->nr_free) {
		uint32_t number = client->free[--client->nr_free];
		struct request *request = &client->requests[number];

		request->in_flight = true;
		request->expires_ns = now + TIMEOUT_NS;
		backend->arm(client->timers, number, request->expires_ns);
		messages[nr++] = (struct message){ number, request->serial };
	}
	flush_timers(backend, client->timers);
	send_messages(client->sockets[0], messages, nr);
	client->sent += nr;
	return nr;
}

/* Answer the requests that the server has in excess of @keep. */
static void run_server(struct client *client, bool requests, unsigned int keep)
{
	struct message messages[BATCH];
	unsigned int nr = requests ? take_messages(client->sockets[1], messages) : 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (loss && ++client->seen % loss == 0)
			client->lost++;
		else
			client->queue[client->nr_queued++] = messages[i];
	}
	for (nr = 0; nr < packet && client->nr_queued > keep; nr++) {
		unsigned int at = random_below(&client->random, client->nr_queued);

		messages[nr] = client->queue[at];
		client->queue[at] = client->queue[--client->nr_queued];
	}
	send_messages(client->sockets[1], messages, nr);
}

static void take_answers(struct client *client)
{
	struct message messages[BATCH];
	unsigned int nr = take_messages(client->sockets[0], messages);

	for (unsigned int i = 0; i < nr; i++) {
		uint32_t number = messages[i].request;

		if (messages[i].serial != client->requests[number].serial)
			fail("rpc: a request has timed out before its answer");
		backend->cancel(client->timers, number);
		end_request(client, number);
	}
	client->answered += nr;
}

static void timed_out(struct client *client, const struct request *request)
{
	uint64_t now = clock_ns();

	client->timed_out++;
	if (client->is_loaded || !loaded)
		add_lateness(&client->lateness, request->expires_ns, now);
	else if (now < request->expires_ns)
		fail("rpc: a timeout is early");
}

static void take_timeouts(struct client *client)
{
	uint64_t now = clock_ns();
	uint32_t numbers[BATCH];
	unsigned int nr;

	do {
		nr = backend->take(client->timers, now, numbers);
		for (unsigned int i = 0; i < nr; i++) {
			struct request *request = &client->requests[numbers[i]];

			if (!request->in_flight)
				fail("rpc: a cancelled timeout has fired");
			timed_out(client, request);
			end_request(client, numbers[i]);
		}
	} while (nr == BATCH);
}

/* Wait until @until_ns; if that is past, do not wait. */
static void run_loop_once(struct client *client, uint64_t until_ns)
{
	struct pollfd fds[] = {
		{ .fd = client->sockets[0], .events = POLLIN },
		{ .fd = backend->fd(client->timers), .events = POLLIN },
	};

	poll_until(fds, 2, until_ns);
	if (fds[0].revents)
		take_answers(client);
	if (fds[1].revents || backend->next)
		take_timeouts(client);
}

/* Send requests until @stop_ns, or until @answered requests are answered. */
static void run_until(struct client *client, uint64_t stop_ns, uint64_t answered)
{
	for (;;) {
		uint64_t now = clock_ns();

		if (now >= stop_ns || client->answered >= answered)
			return;
		run_server(client, send_requests(client, now), client->max_in_flight);
		run_loop_once(client, 0);
	}
}

static void answer_all(struct client *client)
{
	while (client->nr_queued) {
		run_server(client, false, 0);
		run_loop_once(client, 0);
	}
	flush_timers(backend, client->timers);
}

/* Lost requests of the first phase time out from @again_ns on. */
static void load_again(struct client *client, uint64_t again_ns)
{
	answer_all(client);
	while (clock_ns() < again_ns) {
		uint64_t next = next_wakeup(backend, client->timers);

		run_loop_once(client, next < again_ns ? next : again_ns);
	}
	client->is_loaded = true;
	run_until(client, again_ns + end_ns - begin_ns, UINT64_MAX);
	client->is_loaded = false;
}

/* Send no more requests, and wait until all are answered or have timed out. */
static void drain(struct client *client)
{
	answer_all(client);
	while (client->answered + client->timed_out < client->sent)
		run_loop_once(client, next_wakeup(backend, client->timers));
}

static void *client_thread(void *arg)
{
	struct client *client = arg;
	uint64_t before;

	bind_to_cpu(client->number);
	client->timers = backend->open(client->max_in_flight * 2 + packet, 0);
	run_until(client, UINT64_MAX, client->max_in_flight / 4);
	pthread_barrier_wait(&ready);
	if (!client->number) {
		begin_ns = clock_ns();
		end_ns = begin_ns + option("ms", 1000) * NSEC_PER_MSEC;
	}
	pthread_barrier_wait(&ready);
	before = client->answered;
	run_until(client, end_ns, UINT64_MAX);
	client->counted = client->answered - before;
	if (loaded)
		load_again(client, begin_ns + TIMEOUT_NS);
	drain(client);
	backend->close(client->timers);
	return NULL;
}

static void start_client(struct client *client, unsigned int number, unsigned int max_in_flight)
{
	unsigned int n = max_in_flight * 2 + packet;

	client->number = number;
	client->max_in_flight = max_in_flight;
	client->random = RANDOM_SEED + number;
	client->requests = zeroed_array(n, sizeof(*client->requests));
	client->free = zeroed_array(n, sizeof(*client->free));
	client->queue = zeroed_array(n, sizeof(*client->queue));
	client->lateness.ns = zeroed_array(1000000, sizeof(uint64_t));
	client->lateness.room = 1000000;
	for (unsigned int i = 0; i < n; i++)
		client->free[client->nr_free++] = n - 1 - i;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, client->sockets))
		die("socketpair");
	if (pthread_create(&client->thread, NULL, client_thread, client))
		fail("pthread_create");
}

/* Add the counters of @client to those of the first client. */
static void add_client(struct client *client)
{
	struct client *all = &clients[0];

	if (client->timed_out != client->lost)
		fail("rpc: some lost requests have not timed out");
	if (client == all)
		return;
	all->sent += client->sent;
	all->lost += client->lost;
	all->counted += client->counted;
	all->timed_out += client->timed_out;
	for (size_t i = 0; i < client->lateness.nr; i++)
		add_lateness(&all->lateness, 0, client->lateness.ns[i]);
}

static void print_results(struct client *all)
{
	double seconds = (end_ns - begin_ns) / (double)NSEC_PER_SEC;

	printf("sent=%lu lost=%lu fired=%lu measured=%zu ", all->sent, all->lost, all->timed_out,
	       all->lateness.nr);
	printf("rate=%.0f ", all->counted / seconds);
	if (has_instruction_clock())
		printf("instructions=%.1f ", seconds * NSEC_PER_SEC / all->counted);
	printf("late_50=%.0f late_max=%.0f\n", lateness_percentile(&all->lateness, 500),
	       lateness_percentile(&all->lateness, 1000));
}

int rpc_main(void)
{
	unsigned int threads = option("threads", 1), max_in_flight = option("flight", 10000);

	backend = find_backend(option_text("backend", "cells"));
	packet = option("packet", BATCH);
	loss = backend == &backend_none ? 0 : option("loss", 10000);
	loaded = option("loaded", 0);
	if (!threads || threads > THREADS || !packet || packet > BATCH)
		fail("rpc: invalid number of threads, or invalid size of packets");
	raise_limits();
	pthread_barrier_init(&ready, NULL, threads);
	for (unsigned int i = 0; i < threads; i++)
		start_client(&clients[i], i, max_in_flight / threads);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(clients[i].thread, NULL);
	for (unsigned int i = 0; i < threads; i++)
		add_client(&clients[i]);
	printf("scenario=rpc backend=%s threads=%u packet=%u loaded=%d ", backend->name, threads,
	       packet, loaded);
	print_results(&clients[0]);
	return 0;
}
