// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of arms with a lock of the scheduler held: the tracepoint sched_waking fires with
 * the lock of a task held, and for kworkers also with that of a worker pool. If an arm or the
 * hrtimer woke a task with the lock of the shard held, it could deadlock, and lockdep reports it.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)

static const bool sinks[] = { false, true };

static void sink_desc(const bool *sink, char *desc)
{
	strscpy(desc, *sink ? "sink" : "callbacks", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(sink, sinks, sink_desc);

#ifdef CONFIG_TRACEPOINTS

#define NR_ARMED	16

/* Timeouts that are armed whenever a task is woken. */
struct wakeup_arms {
	struct twheel_timeout	t[NR_ARMED];
	struct tracepoint	*tracepoint;
	atomic_t		armed;		/* arms that succeeded */
	atomic_t		fired;
};

/* Tests run one at a time, so there is one instance. */
static struct wakeup_arms *wakeup_arms;

static void count_fired(struct twheel_timeout *t)
{
	atomic_inc(&wakeup_arms->fired);
}

static void count_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		twheel_accept(t);
		atomic_inc(&wakeup_arms->fired);
	}
}

static void arm_at_wakeup(void *data, struct task_struct *p)
{
	unsigned int i;

	for (i = 0; i < NR_ARMED; i++)
		if (!twheel_arm_after(&wakeup_arms->t[i], i % 4 * TICK))
			atomic_inc(&wakeup_arms->armed);
}

static void find_tracepoint(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "sched_waking"))
		wakeup_arms->tracepoint = tp;
}

static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	bool sink = *(const bool *)test->param_value;
	struct twheel_params params = {
		.name = "kunit-context", .tick_ns = TICK, .sink = sink ? count_batch : NULL,
	};
	struct twheel *w = fixture_create(test->priv, &params);
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	wakeup_arms = kunit_kzalloc(test, sizeof(*wakeup_arms), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, wakeup_arms);
	for_each_kernel_tracepoint(find_tracepoint, NULL);
	KUNIT_ASSERT_NOT_NULL(test, wakeup_arms->tracepoint);
	for (i = 0; i < NR_ARMED; i++)
		twheel_timeout_init(w, &wakeup_arms->t[i], sink ? NULL : count_fired);
	KUNIT_ASSERT_EQ(test, 0,
			tracepoint_probe_register(wakeup_arms->tracepoint, arm_at_wakeup, NULL));
	for (i = 0; i < 1000 && atomic_read(&wakeup_arms->fired) < 100; i++)
		msleep(20);
	tracepoint_probe_unregister(wakeup_arms->tracepoint, arm_at_wakeup, NULL);
	tracepoint_synchronize_unregister();
	for (i = 0; i < NR_ARMED; i++)
		twheel_shutdown(&wakeup_arms->t[i]);
	KUNIT_EXPECT_GE(test, atomic_read(&wakeup_arms->fired), 100);
	KUNIT_EXPECT_GE(test, atomic_read(&wakeup_arms->armed), atomic_read(&wakeup_arms->fired));
}

#else

static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	kunit_skip(test, "the kernel has no tracepoints");
}

#endif

static struct kunit_case context_cases[] = {
	KUNIT_CASE_PARAM(arm_with_a_lock_of_the_scheduler_held_wakes_no_task, sink_gen_params),
	{}
};

static struct kunit_suite context_suite = {
	.name = "twheel-context",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = context_cases,
};

module_test_suite(context_suite);

MODULE_DESCRIPTION("KUnit suite of arms with a lock of the scheduler held");
MODULE_LICENSE("GPL");
