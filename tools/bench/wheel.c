// SPDX-License-Identifier: GPL-2.0
/*
 * The wheel of native/wheel.h inside the process, optimised as far as possible. Its node is
 * embedded in the program's object, so nothing is allocated for a timeout. It has no lock,
 * because it belongs to one thread. The process sleeps until the next slot in use.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"

struct wheel_node;
static void node_fired(struct wheel_node *node);
#define WHEEL_FIRED(node)	node_fired(node)

#include "native/wheel.h"
#include "system.h"

/* An object of the program. */
struct object {
	struct wheel_node node;
	uint32_t number;
};

static struct wheel wheel;
static struct object *objects;
static uint32_t *fired;		/* numbers of fired timeouts, in place of a callback */
static unsigned int nr_fired;

static void node_fired(struct wheel_node *node)
{
	fired[nr_fired++] = ((const struct object *)node)->number;
}

/*
 * Not inlined: a compiler that sees the loop around the calls would do less than a program
 * needs.
 */

static __attribute_noinline__ void arm(struct object *object, uint64_t deadline)
{
	wheel_arm(&wheel, &object->node, deadline);
}

static __attribute_noinline__ void rearm(struct object *object, uint64_t deadline)
{
	if (!wheel_cancel(&object->node))
		die("wheel: not armed");
	wheel_arm(&wheel, &object->node, deadline);
}

static __attribute_noinline__ void cancel(struct object *object)
{
	if (!wheel_cancel(&object->node))
		die("wheel: not armed");
}

static void wheel_open(unsigned int n)
{
	memset(&wheel, 0, sizeof(wheel));
	wheel_advance(&wheel, clock_ns());
	objects = array(n, sizeof(*objects));
	fired = array(n, sizeof(*fired));
	for (unsigned int i = 0; i < n; i++)
		objects[i].number = i;
}

static void wheel_close(void)
{
	free(objects);
	free(fired);
}

/* The loop of wheel_single() without the calls. */
static void leave_out_loop(const uint32_t *which, unsigned int nr)
{
	clock_begin = clock_ns();
	for (unsigned int i = 0; i < nr; i++)
		asm volatile("" : : "r" (&objects[which[i]]), "r" (deadlines[which[i]]) : "memory");
	clock_stop_idle_loop();
}

static void wheel_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		struct object *object = &objects[which[i]];

		switch (verb) {
		case ARM:
			arm(object, deadlines[which[i]]);
			break;
		case REARM:
			rearm(object, deadlines[which[i]]);
			break;
		case CANCEL:
			cancel(object);
			break;
		}
	}
	clock_stop();
	leave_out_loop(which, nr);
}

static unsigned int wheel_collect(void)
{
	unsigned int level;

	for (nr_fired = 0; !nr_fired;) {
		uint64_t next = wheel_next(&wheel, &level), now = clock_ns();
		struct timespec moment = to_timespec(next * WHEEL_TICK_NS);

		if (next == WHEEL_NEVER)
			die("wheel: nothing is armed");
		if (now < next * WHEEL_TICK_NS) {
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
			now = clock_ns();
		}
		wheel_advance(&wheel, now);
	}
	return nr_fired;
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
