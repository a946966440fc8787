// SPDX-License-Identifier: GPL-2.0
/*
 * A wheel inside the process, optimised as far as possible; and a back end without
 * timeouts.
 *
 * wheel: each thread has its own wheel and uses the lazy forms. A timeout that is cancelled
 * or moved to later stays in its slot until the slot is visited. With slack, deadlines are
 * rounded up to multiples of the slack, which are the same in all processes.
 *
 * mutex: all threads share one wheel behind a mutex. Any thread may advance it. Each thread
 * takes its own timeouts that have fired from a list.
 */
#include <pthread.h>
#include <stdlib.h>

/* A node that has fired is put on a list of its set, where it can still be cancelled. */
struct wheel_node;
static void node_fired(struct wheel_node *node);
#define WHEEL_FIRED(node)	node_fired(node)

#include "../native/wheel.h"
#include "scenario.h"

/**
 * struct set - timeouts of one thread
 * @timers: common part of all back ends
 * @wheel: wheel of this set, or the shared one
 * @fired: nodes that have fired and have not been taken yet
 * @next: another set with the same wheel
 * @nodes: timeouts
 */
struct set {
	struct timers		timers;
	struct wheel		*wheel;
	struct wheel_node	*fired;
	struct set		*next;
	struct wheel_node	nodes[];
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

/* Few nodes fire, so a node need not point to its set. */
static void node_fired(struct wheel_node *node)
{
	struct set *set = advancing->sets;

	while (node < set->nodes || node >= set->nodes + set->timers.n)
		set = set->next;

	node->next = set->fired;
	if (node->next)
		node->next->at = &node->next;
	node->at = &set->fired;
	set->fired = node;
}

static struct set *set_open(unsigned int n, uint64_t slack_ns, struct shared *of)
{
	struct set *set = array(1, sizeof(*set) + n * sizeof(*set->nodes));

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	set->wheel = &of->wheel;
	set->next = of->sets;
	of->sets = set;
	return set;
}

static void advance(struct wheel *wheel, uint64_t now_ns)
{
	advancing = (struct shared *)wheel;
	wheel_advance(wheel, now_ns);
}

static unsigned int take_fired(struct set *set, uint32_t *numbers)
{
	struct wheel_node *node;
	unsigned int nr = 0;

	while (nr < BATCH && (node = set->fired)) {
		wheel_cancel(node);
		numbers[nr++] = node - set->nodes;
	}
	return nr;
}

static uint64_t next_ns(const struct wheel *wheel)
{
	unsigned int level;
	uint64_t tick = wheel_next(wheel, &level);

	return tick == WHEEL_NEVER ? NEVER : tick * WHEEL_TICK_NS;
}

static int no_fd(struct timers *timers)
{
	(void)timers;
	return -1;
}

/* One wheel per thread */

static struct timers *wheel_open(unsigned int n, uint64_t slack_ns)
{
	struct set *set = set_open(n, slack_ns, array(1, sizeof(struct shared)));

	advance(set->wheel, clock_ns());
	return &set->timers;
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
	wheel_arm_lazily(set->wheel, &set->nodes[number], expires_ns);
}

static void wheel_cancel_number(struct timers *timers, uint32_t number)
{
	if (!wheel_cancel_lazily(&((struct set *)timers)->nodes[number]))
		fail("wheel: not armed");
}

static unsigned int wheel_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct set *set = (struct set *)timers;

	if (now_ns / WHEEL_TICK_NS > set->wheel->now)
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
	advance(&shared.wheel, clock_ns());
	set = set_open(n, slack_ns, &shared);
	pthread_mutex_unlock(&lock);
	return &set->timers;
}

static void mutex_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct wheel_node *node = &((struct set *)timers)->nodes[number];

	pthread_mutex_lock(&lock);
	wheel_cancel(node);
	wheel_arm(&shared.wheel, node, expires_ns);
	pthread_mutex_unlock(&lock);
}

static void mutex_cancel(struct timers *timers, uint32_t number)
{
	bool armed;

	pthread_mutex_lock(&lock);
	armed = wheel_cancel(&((struct set *)timers)->nodes[number]);
	pthread_mutex_unlock(&lock);
	if (!armed)
		fail("mutex: not armed");
}

static unsigned int mutex_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct set *set = (struct set *)timers;
	unsigned int nr;

	if (now_ns / WHEEL_TICK_NS <= __atomic_load_n(&shared.wheel.now, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&set->fired, __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&lock);
	if (now_ns / WHEEL_TICK_NS > shared.wheel.now)
		advance(&shared.wheel, now_ns);
	nr = take_fired(set, numbers);
	pthread_mutex_unlock(&lock);
	return nr;
}

static uint64_t mutex_next(struct timers *timers)
{
	uint64_t next;

	pthread_mutex_lock(&lock);
	next = ((struct set *)timers)->fired ? 0 : next_ns(&shared.wheel);
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

/* No timeouts: the cost of the rest of the program */

static struct timers *none_open(unsigned int n, uint64_t slack_ns)
{
	struct timers *timers = array(1, sizeof(*timers));

	*timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	return timers;
}

static void none_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	(void)timers;
	(void)number;
	(void)expires_ns;
}

static void none_cancel(struct timers *timers, uint32_t number)
{
	(void)timers;
	(void)number;
}

static unsigned int none_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)timers;
	(void)now_ns;
	(void)numbers;
	return 0;
}

const struct backend backend_none = {
	.name	= "none",
	.open	= none_open,
	.close	= wheel_close,
	.arm	= none_arm,
	.cancel	= none_cancel,
	.take	= none_take,
	.fd	= no_fd,
};
