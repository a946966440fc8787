/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timeouts of every kind, for suites that combine features. They are periodic or one-shot,
 * their callbacks run in the thread or in a worker, and a callback can be made to wait.
 */
#ifndef _TWHEEL_KUNIT_ACTOR_H
#define _TWHEEL_KUNIT_ACTOR_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "fixture.h"
#include "helper.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		((u64)S64_MAX)

/**
 * struct actor - a timeout of any kind
 * @p: the timeout; a one-shot uses p.t alone
 * @f: the fixture
 * @calls: how often it was called
 * @inside: number of its callbacks that run now
 * @called_ns: the wheel's time at the last call
 * @expires: the deadline of the last call
 * @missed: missed periods that the last call reported
 * @began: completed when the callback has done @then
 * @go: lets the callback return
 * @stays: a callback waits for @go after it has begun
 * @then: called by the callback, or NULL
 * @other: argument of @then: another timeout
 * @arg: argument of @then: a time
 * @ret: results of the calls that @then makes
 */
struct actor {
	struct twheel_periodic	p;
	struct fixture		*f;
	atomic_t		calls;
	atomic_t		inside;
	u64			called_ns;
	u64			expires;
	u64			missed;
	struct completion	began;
	struct completion	go;
	bool			stays;
	void			(*then)(struct actor *a);
	struct actor		*other;
	u64			arg;
	int			ret[8];
};

static inline void actor_called(struct actor *a, u64 expires, u64 missed)
{
	bool stays = READ_ONCE(a->stays);

	atomic_inc(&a->inside);
	a->called_ns = twheel_now(a->f->wheel);
	a->expires = expires;
	a->missed = missed;
	if (a->then)
		a->then(a);
	atomic_inc(&a->calls);
	complete(&a->began);
	if (stays)
		wait_for_completion_timeout(&a->go, PATIENCE);
	atomic_dec(&a->inside);
}

static inline void actor_fires(struct twheel_timeout *t)
{
	actor_called(container_of(t, struct actor, p.t), t->expires, 0);
}

static inline void actor_comes_round(struct twheel_periodic *p)
{
	actor_called(container_of(p, struct actor, p), p->expires, p->missed);
}

/**
 * struct kind - a kind of actor
 * @name: its features, for the log
 * @periodic: its kind; TWHEEL_ONCE if it is a one-shot
 * @repeat: number of periods; 0: no end
 * @slack: its slack, in ticks
 * @worker: its callback runs in a worker
 */
struct kind {
	const char		*name;
	enum twheel_kind	periodic;
	u32			repeat;
	u64			slack;
	bool			worker;
};

static inline void kind_desc(const struct kind *k, char *desc)
{
	strscpy(desc, k->name, KUNIT_PARAM_DESC_SIZE);
}

/* Make @n actors of kind @k for the wheel of the test. */
static inline struct actor *actors(struct kunit *test, unsigned int n, const struct kind *k)
{
	struct actor *a = kunit_kcalloc(test, n, sizeof(*a), GFP_KERNEL);
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, a);
	for (i = 0; i < n; i++) {
		a[i].f = f;
		init_completion(&a[i].began);
		init_completion(&a[i].go);
		if (k->periodic)
			twheel_periodic_init(f->wheel, &a[i].p, actor_comes_round, k->periodic);
		else
			twheel_timeout_init(f->wheel, &a[i].p.t, actor_fires);
		if (k->worker)
			twheel_use_workqueue(&a[i].p.t);
	}
	return a;
}

/* A periodic actor has an interval of 10 ticks. */
static inline void arm_actor(struct kunit *test, struct actor *a, const struct kind *k, u64 tick)
{
	int ret;

	if (k->periodic)
		ret = twheel_arm_periodic(&a->p, tick * TICK, 10 * TICK, k->repeat);
	else
		ret = twheel_arm_slack(&a->p.t, tick * TICK, k->slack * TICK);
	KUNIT_ASSERT_EQ(test, 0, ret);
}

static inline void expect_begins(struct kunit *test, struct actor *a)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&a->began, PATIENCE), 0UL);
}

static inline void let_go(struct actor *a)
{
	WRITE_ONCE(a->stays, false);
	complete(&a->go);
}

static inline void expect_calls(struct kunit *test, struct actor *a, int calls)
{
	twheel_flush(a->f->wheel);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&a->calls));
}

/* @a is called at @tick, once, and not before. */
static inline void expect_called_at(struct kunit *test, struct actor *a, u64 tick)
{
	int before = atomic_read(&a->calls);

	reinit_completion(&a->began);
	advance_tick(test, tick - 1);
	expect_calls(test, a, before);
	advance_tick(test, tick);
	expect_begins(test, a);
	expect_calls(test, a, before + 1);
	KUNIT_EXPECT_EQ(test, tick * TICK, a->called_ns);
}

static inline void set_clock(struct kunit *test, u64 tick)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_EQ(test, 0, twheel_set_clock(f->wheel, tick * TICK));
}

/**
 * struct ending - a task that shuts a timeout down
 * @helper: the thread of the task
 * @t: the timeout that it shuts down
 * @after: the task first waits until this is true; NULL: it does not wait
 * @sync: it calls twheel_cancel_sync() instead of twheel_shutdown()
 * @frees: it frees the timeout, which is an allocation of its own
 * @began: set right before the call
 * @over: set after the call
 * @ret: result of the call
 */
struct ending {
	struct helper		helper;
	struct twheel_timeout	*t;
	bool			*after;
	bool			sync;
	bool			frees;
	bool			began;
	bool			over;
	bool			ret;
};

static inline void end_it(void *arg)
{
	struct ending *e = arg;

	while (e->after && !READ_ONCE(*e->after))
		usleep_range(10, 50);
	WRITE_ONCE(e->began, true);
	e->ret = e->sync ? twheel_cancel_sync(e->t) : twheel_shutdown(e->t);
	if (e->frees)
		kfree(e->t);
	WRITE_ONCE(e->over, true);
}

#endif /* _TWHEEL_KUNIT_ACTOR_H */
