/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads beside the test's own, a function that waits until the test releases it, and a
 * twheel_stop() in such a thread.
 *
 * Between helper_start() and helper_finish() a test must not be aborted: it
 * expects, and does not assert.
 */
#ifndef _TWHEEL_KUNIT_HELPER_H
#define _TWHEEL_KUNIT_HELPER_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../twheel.h"

/* Time limit that a slow machine keeps. */
#define MAX_WAIT	(30 * HZ)

/**
 * struct helper - a thread that does one thing for a test
 * @task: the thread, or an error
 * @done: completed when @work has returned
 * @work: function that it calls
 * @arg: argument of @work
 */
struct helper {
	struct task_struct	*task;
	struct completion	done;
	void			(*work)(void *arg);
	void			*arg;
};

/*
 * Stays until kthread_stop(), so that the thread leaves the module's code before it is
 * unloaded.
 */
static inline int helper_thread(void *data)
{
	struct helper *h = data;

	h->work(h->arg);
	complete(&h->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static inline void helper_start(struct kunit *test, struct helper *h,
				void (*work)(void *arg), void *arg)
{
	h->work = work;
	h->arg = arg;
	init_completion(&h->done);
	h->task = kthread_run(helper_thread, h, "kunit-helper");
	KUNIT_EXPECT_FALSE(test, IS_ERR(h->task));
}

static inline void helper_finish(struct kunit *test, struct helper *h)
{
	if (IS_ERR(h->task))
		return;
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&h->done, MAX_WAIT), 0UL);
	kthread_stop(h->task);
}

/* Wait until the helper has returned, or sleeps because it waits for something. */
static inline void helper_wait_blocked(struct helper *h)
{
	unsigned long end = jiffies + MAX_WAIT;

	while (!IS_ERR(h->task) && !completion_done(&h->done) &&
	       !(READ_ONCE(h->task->__state) & TASK_UNINTERRUPTIBLE) && time_before(jiffies, end))
		msleep(20);
}

/* Run the helper on a CPU where the test is not. There must be one: spare_cpu(). */
static inline void helper_move_to_other_cpu(struct kunit *test, struct helper *h)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());

	if (!IS_ERR(h->task))
		KUNIT_EXPECT_EQ(test, 0, set_cpus_allowed_ptr(h->task, cpumask_of(cpu)));
}

/**
 * struct gate - where a function waits
 * @reached: completed when the function gets there
 * @open: completed to let the function go on
 */
struct gate {
	struct completion	reached;
	struct completion	open;
};

static inline void gate_init(struct gate *gate)
{
	init_completion(&gate->reached);
	init_completion(&gate->open);
}

/* For functions that may sleep. */
static inline void gate_wait_open(struct gate *gate)
{
	complete(&gate->reached);
	wait_for_completion(&gate->open);
}

/* For callbacks and sinks: the test opens the gate on another CPU. */
static inline void gate_spin_until_open(struct gate *gate)
{
	unsigned long end = jiffies + MAX_WAIT / 3;

	complete(&gate->reached);
	while (!completion_done(&gate->open) && time_before(jiffies, end))
		cpu_relax();
}

static inline void gate_wait_reached(struct kunit *test, struct gate *gate)
{
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&gate->reached, MAX_WAIT), 0UL);
}

/**
 * struct stop_call - a twheel_stop() that a helper calls
 * @wheel: wheel that it stops
 * @list: timeouts that are handed back
 * @early: number of timeouts that were handed back while @running was not 0
 * @running: number of running callbacks, if the test counts them
 * @left_running: value of @running when twheel_stop() returned
 * @helper: thread that calls twheel_stop()
 */
struct stop_call {
	struct twheel		*wheel;
	struct list_head	list;
	unsigned int		early;
	atomic_t		running;
	int			left_running;
	struct helper		helper;
};

static inline void stop_call_init(struct stop_call *s, struct twheel *w)
{
	s->wheel = w;
	INIT_LIST_HEAD(&s->list);
	s->early = 0;
	atomic_set(&s->running, 0);
	s->left_running = 0;
}

static inline void note_handed_back(void *data, struct twheel_timeout *t)
{
	struct stop_call *s = data;

	s->early += atomic_read(&s->running) != 0;
	list_add_tail(&t->entry, &s->list);
}

static inline void do_stop(void *arg)
{
	struct stop_call *s = arg;

	twheel_stop(s->wheel, note_handed_back, s);
	s->left_running = atomic_read(&s->running);
}

#endif /* _TWHEEL_KUNIT_HELPER_H */
