// SPDX-License-Identifier: GPL-2.0
/*
 * A wheel inside the process, optimised as far as possible.
 *
 * wheel: each thread has its own wheel and uses the lazy forms. A timeout that is cancelled
 * or moved to later stays in its slot until the slot is visited. With slack, deadlines are
 * rounded up to multiples of the slack, which are the same in all processes.
 *
 * mutex: all threads share one wheel behind a mutex. Any thread may advance it. Each thread
 * takes its own timeouts that have fired from a list.
 *
 * eager: one wheel, whose operations are measured, without the lazy forms. It keeps only the
 * numbers of timeouts that have fired. take() sleeps until the next slot in use.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../machine.h"
#include "backend.h"
#include "node.h"

/**
 * struct set - timeouts of one thread
 * @timers: common part of all back ends
 * @wheel: wheel of this set, or the shared one
 * @fired: nodes that have fired and have not been taken yet; their tick is 0
 * @next: another set with the same wheel
 * @nodes: timeouts
 */
struct set {
	struct timers		timers;
	struct wheel		*wheel;
	struct link		fired;
	struct set		*next;
	struct node		nodes[];
};

/**
 * struct shared - a wheel and its sets
 * @wheel: first member
 * @sets: list of its sets
 */
struct shared {
	struct wheel		wheel;
	struct set		*sets;
};

static struct shared shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The wheel that this thread advances. */
static __thread struct shared *advancing;

/*
 * Put a node that has fired on a list of its set, where it can still be cancelled. Few nodes
 * fire, so a node need not point to its set.
 */
static void node_fired(struct node *node)
{
	struct set *set = advancing->sets;

	while (node < set->nodes || node >= set->nodes + set->timers.n)
		set = set->next;

	node->in.tick = 0;
	list_add_tail(&set->fired, &node->in.link);
}

static void advance(struct wheel *of, uint64_t now_ns)
{
	advancing = (struct shared *)of;
	nodes_advance(of, now_ns, node_fired);
}

static struct set *set_open(unsigned int n, uint64_t slack_ns, struct shared *of)
{
	struct set *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->nodes));

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	list_init(&set->fired);
	if (!of->sets)
		wheel_init(&of->wheel);
	advance(&of->wheel, clock_ns());
	set->wheel = &of->wheel;
	set->next = of->sets;
	of->sets = set;
	return set;
}

static bool has_fired(const struct set *set)
{
	return __atomic_load_n(&set->fired.next, __ATOMIC_RELAXED) != &set->fired;
}

static unsigned int take_fired(struct set *set, uint32_t *numbers)
{
	unsigned int nr = 0;

	while (nr < usage.batch && has_fired(set)) {
		struct node *node = (struct node *)set->fired.next;

		list_del(&node->in.link);
		node->in.link.next = NULL;
		numbers[nr++] = node - set->nodes;
	}
	return nr;
}

static uint64_t next_ns(const struct wheel *of)
{
	unsigned int slot;
	uint64_t tick = wheel_find_step(of, &slot);

	return tick == WHEEL_NEVER ? NEVER : tick * TICK_NS;
}

static int no_fd(struct timers *timers)
{
	(void)timers;
	return -1;
}

/* One wheel per thread */

static struct timers *wheel_open(unsigned int n, uint64_t slack_ns)
{
	return &set_open(n, slack_ns, zeroed_array(1, sizeof(struct shared)))->timers;
}

/* Memory of a set is kept until the program ends. */
static void wheel_close(struct timers *timers)
{
	(void)timers;
}

static void wheel_arm_number(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct set *set = (struct set *)timers;

	if (timers->slack_ns)
		expires_ns += timers->slack_ns - 1 - (expires_ns - 1) % timers->slack_ns;
	node_arm_lazily(set->wheel, &set->nodes[number], expires_ns);
}

static void wheel_cancel_number(struct timers *timers, uint32_t number)
{
	if (!node_cancel_lazily(&((struct set *)timers)->nodes[number]))
		fail("wheel: not armed");
}

static unsigned int wheel_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct set *set = (struct set *)timers;

	if (now_ns / TICK_NS > set->wheel->cursor)
		advance(set->wheel, now_ns);
	return take_fired(set, numbers);
}

static uint64_t wheel_next_ns(struct timers *timers)
{
	return next_ns(((struct set *)timers)->wheel);
}

const struct backend backend_wheel = {
	.name		= "wheel",
	.has_slack	= true,
	.open		= wheel_open,
	.close		= wheel_close,
	.arm		= wheel_arm_number,
	.cancel		= wheel_cancel_number,
	.take		= wheel_take,
	.fd		= no_fd,
	.next		= wheel_next_ns,
};

/* One wheel behind a mutex */

static struct timers *mutex_open(unsigned int n, uint64_t slack_ns)
{
	struct set *set;

	pthread_mutex_lock(&lock);
	set = set_open(n, slack_ns, &shared);
	pthread_mutex_unlock(&lock);
	return &set->timers;
}

/* Returns false if it was not armed. */
static bool unlink_node(struct node *node)
{
	if (node->in.tick)
		return node_cancel(&shared.wheel, node);
	if (!node->in.link.next)
		return false;
	list_del(&node->in.link);
	node->in.link.next = NULL;
	return true;
}

static void mutex_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct node *node = &((struct set *)timers)->nodes[number];

	pthread_mutex_lock(&lock);
	unlink_node(node);
	node_arm(&shared.wheel, node, expires_ns);
	pthread_mutex_unlock(&lock);
}

static void mutex_cancel(struct timers *timers, uint32_t number)
{
	bool armed;

	pthread_mutex_lock(&lock);
	armed = unlink_node(&((struct set *)timers)->nodes[number]);
	pthread_mutex_unlock(&lock);
	if (!armed)
		fail("mutex: not armed");
}

static unsigned int mutex_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct set *set = (struct set *)timers;
	unsigned int nr;

	if (now_ns / TICK_NS <= __atomic_load_n(&shared.wheel.cursor, __ATOMIC_RELAXED) &&
	    !has_fired(set))
		return 0;
	pthread_mutex_lock(&lock);
	if (now_ns / TICK_NS > shared.wheel.cursor)
		advance(&shared.wheel, now_ns);
	nr = take_fired(set, numbers);
	pthread_mutex_unlock(&lock);
	return nr;
}

static uint64_t mutex_next(struct timers *timers)
{
	uint64_t next;

	pthread_mutex_lock(&lock);
	next = has_fired((struct set *)timers) ? 0 : next_ns(&shared.wheel);
	pthread_mutex_unlock(&lock);
	return next;
}

const struct backend backend_mutex = {
	.name	= "mutex",
	.open	= mutex_open,
	.close	= wheel_close,
	.arm	= mutex_arm,
	.cancel	= mutex_cancel,
	.take	= mutex_take,
	.fd	= no_fd,
	.next	= mutex_next,
};

/* A wheel whose operations are measured */

/* An object of the program. */
struct object {
	struct node		node;
	uint32_t		number;
};

static struct timers eager;
static struct wheel wheel;
static struct object *objects;
static uint32_t *fired;		/* numbers of fired timeouts, in place of a callback */
static unsigned int nr_fired;

static __always_inline void note_fired(struct node *node)
{
	fired[nr_fired++] = ((const struct object *)node)->number;
}

static struct timers *eager_open(unsigned int n, uint64_t slack_ns)
{
	eager = (struct timers){ .n = n, .slack_ns = slack_ns };
	wheel_init(&wheel);
	nodes_advance(&wheel, clock_ns(), note_fired);
	objects = zeroed_array(n, sizeof(*objects));
	fired = zeroed_array(n, sizeof(*fired));
	for (unsigned int i = 0; i < n; i++)
		objects[i].number = i;
	return &eager;
}

static void eager_close(struct timers *timers)
{
	(void)timers;
	free(objects);
	free(fired);
}

/*
 * Not inlined: a compiler that sees the loop around the calls would do less than a program
 * needs.
 */

static __attribute_noinline__ void arm(struct node *node, uint64_t deadline)
{
	node_arm(&wheel, node, deadline);
}

static __attribute_noinline__ void move(struct node *node, uint64_t deadline)
{
	if (!node_cancel(&wheel, node))
		fail("wheel: not armed");
	node_arm(&wheel, node, deadline);
}

static __attribute_noinline__ void cancel(struct node *node)
{
	if (!node_cancel(&wheel, node))
		fail("wheel: not armed");
}

/* A call takes less time than a look at the clock. The loop alone is measured and subtracted. */
static void eager_all(struct timers *timers, enum action action, const uint32_t *which,
		      unsigned int nr, const uint64_t *deadlines)
{
	(void)timers;
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		struct node *node = &objects[which[i]].node;

		switch (action) {
		case ARM:
			arm(node, deadlines[which[i]]);
			break;
		case MOVE:
			move(node, deadlines[which[i]]);
			break;
		case CANCEL:
			cancel(node);
			break;
		}
	}
	clock_stop();
	clock_begin = clock_ns();
	for (unsigned int i = 0; i < nr; i++)
		asm volatile("" : : "r" (&objects[which[i]]), "r" (deadlines[which[i]]) : "memory");
	clock_stop_idle_loop();
}

static unsigned int eager_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)timers;
	(void)numbers;
	for (nr_fired = 0; !nr_fired; nodes_advance(&wheel, now_ns, note_fired)) {
		uint64_t next = next_ns(&wheel);

		if (next == NEVER)
			fail("wheel: nothing is armed");
		now_ns = clock_ns();
		if (now_ns < next) {
			sleep_until(next);
			now_ns = clock_ns();
		}
	}
	return nr_fired;
}

const struct backend backend_eager = {
	.name	= "wheel",
	.node	= sizeof(struct node),
	.open	= eager_open,
	.close	= eager_close,
	.all	= eager_all,
	.take	= eager_take,
};
