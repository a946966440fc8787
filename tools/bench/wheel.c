// SPDX-License-Identifier: GPL-2.0
/*
 * A hashed wheel inside the process, as one would write it for an event loop: 512
 * slots of a millisecond, a node from malloc() for each timeout, a tick that walks
 * its slot. There is no lock: it belongs to one thread. While it is not empty the
 * process wakes up once a millisecond.
 */
#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "system.h"

/* A compiler that saw the loop around them would do less than a program has to. */
#pragma GCC optimize("no-inline")

#define SLOTS	512

struct node {
	struct node *next;
	struct node **at;	/* what points to this one */
	uint64_t tick;
	uint32_t number;
};

static struct node *slots[SLOTS];
static struct node **nodes;
static uint32_t *fired;		/* to the program, in place of a callback */
static unsigned int size;
static uint64_t current;	/* the last tick that was worked off */

static void insert(struct node *node)
{
	struct node **slot = &slots[node->tick % SLOTS];

	node->next = *slot;
	if (node->next)
		node->next->at = &node->next;
	node->at = slot;
	*slot = node;
}

static void unlink_node(struct node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
}

static struct node *wheel_arm(uint32_t number, uint64_t deadline)
{
	struct node *node = malloc(sizeof(*node));

	if (!node)
		die("malloc");
	node->number = number;
	node->tick = (deadline + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	insert(node);
	return node;
}

static void wheel_rearm(struct node *node, uint64_t deadline)
{
	unlink_node(node);
	node->tick = (deadline + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	insert(node);
}

static void wheel_cancel(struct node *node)
{
	unlink_node(node);
	free(node);
}

static void wheel_open(unsigned int n)
{
	size = n;
	nodes = array(n, sizeof(*nodes));
	fired = array(n, sizeof(*fired));
	current = clock_ns() / NSEC_PER_MSEC;
}

static void wheel_close(void)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		while (slots[i]) {
			struct node *node = slots[i];

			wheel_cancel(node);
		}
	}
	free(nodes);
	free(fired);
	malloc_trim(0);
}

/* The loop of wheel_single() without the calls. */
static void leave_out_loop(const uint32_t *which, unsigned int nr)
{
	clock_begin = clock_ns();
	for (unsigned int i = 0; i < nr; i++)
		asm volatile("" : : "r" (nodes[which[i]]), "r" (deadlines[which[i]]) : "memory");
	clock_stop_idle_loop();
}

static void wheel_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		uint32_t number = which[i];

		switch (verb) {
		case ARM:
			nodes[number] = wheel_arm(number, deadlines[number]);
			break;
		case REARM:
			wheel_rearm(nodes[number], deadlines[number]);
			break;
		case CANCEL:
			wheel_cancel(nodes[number]);
			break;
		}
	}
	clock_stop();
	leave_out_loop(which, nr);
}

static unsigned int expire(uint64_t tick)
{
	struct node *node = slots[tick % SLOTS], *next;
	unsigned int nr = 0;

	for (; node; node = next) {
		next = node->next;
		if (node->tick > tick)
			continue;
		fired[nr++] = node->number;
		wheel_cancel(node);
	}
	return nr;
}

static unsigned int wheel_collect(void)
{
	unsigned int nr = 0;

	while (!nr) {
		struct timespec next = to_timespec((current + 1) * NSEC_PER_MSEC);

		if (clock_ns() / NSEC_PER_MSEC == current)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		nr = expire(++current);
	}
	return nr;
}

const struct system system_wheel = {
	.name		= "wheel",
	.verbs		= 1 << ARM | 1 << REARM | 1 << CANCEL,
	.max		= 1000000,
	.open		= wheel_open,
	.close		= wheel_close,
	.single		= wheel_single,
	.collect	= wheel_collect,
};
