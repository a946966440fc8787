// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the end of a wheel: twheel_stop() beside callbacks, sinks and owners that act on
 * other CPUs. The suite combination stops wheels on the MANUAL clock in the middle of passes.
 */
#include <linux/ktime.h>
#include <linux/module.h>

#include "fixture.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

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

static void stop_call_init(struct stop_call *s, struct twheel *w)
{
	s->wheel = w;
	INIT_LIST_HEAD(&s->list);
	s->early = 0;
	atomic_set(&s->running, 0);
	s->left_running = 0;
}

static void note_handed_back(void *data, struct twheel_timeout *t)
{
	struct stop_call *s = data;

	s->early += atomic_read(&s->running) != 0;
	list_add_tail(&t->entry, &s->list);
}

static void do_stop(void *arg)
{
	struct stop_call *s = arg;

	twheel_stop(s->wheel, note_handed_back, s);
	s->left_running = atomic_read(&s->running);
}

/* Wait for the callback that @running counts. */
static void do_stop_beside_callback(void *arg)
{
	struct stop_call *s = arg;
	unsigned long end = jiffies + MAX_WAIT;

	while (!atomic_read(&s->running) && time_before(jiffies, end))
		msleep(20);
	do_stop(s);
}

/* Count the timeouts of @list, and count each hand-back in p->ret. */
static unsigned int count_handed_back(struct kunit *test, struct list_head *list)
{
	struct twheel_timeout *t, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(t, next, list, entry) {
		KUNIT_EXPECT_FALSE(test, twheel_pending(t));
		container_of(t, struct test_timeout, t)->ret++;
		list_del_init(&t->entry);
		n++;
	}
	return n;
}

/* While a callback spins on a spare CPU */

static const struct held_kind {
	const char	*name;
	bool		sink;		/* a sink extends the timeout, a callback arms it: */
	bool		before;		/* before the stop, not meanwhile */
	int		ret;		/* result of that */
} held_kinds[] = {
	{ "a callback arms during the stop", .ret = -ESHUTDOWN },
	{ "a sink extends during the stop", .sink = true, .ret = -ESHUTDOWN },
	{ "a callback has armed before the stop", .before = true },
};

NAMED_PARAM(held_kind, held_kinds);

/**
 * struct held_stop - a stop that waits for a callback
 * @gate: where the callback spins
 * @armer: arms its timeout
 * @stop_call: the stop
 * @kind: what the callback does
 * @ret: result of that
 */
struct held_stop {
	struct gate	gate;
	struct helper	armer;
	struct stop_call	stop_call;
	const struct held_kind	*kind;
	int		ret;
};

static void held_callback(struct test_timeout *p)
{
	struct held_stop *held = p->data;

	if (held->kind->before)
		held->ret = twheel_mod(&p->t, FAR + ktime_get_ns());
	/* Now the stop may begin. */
	atomic_inc(&held->stop_call.running);
	gate_spin_until_open(&held->gate);
	if (held->kind->sink)
		held->ret = twheel_extend(&p->t, FAR, 0);
	else if (!held->kind->before)
		held->ret = twheel_mod(&p->t, FAR);
	atomic_dec(&held->stop_call.running);
}

static struct fixture *create_running_wheel(struct kunit *test, bool sink)
{
	struct twheel_params params = { .name = "kunit-stop", .clock = TWHEEL_MONOTONIC,
					.sink = sink ? record_sink : NULL };

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return test->priv;
}

/*
 * Wait until the stop refuses to arm @t, which is idle and in the shard of this CPU. Do not sleep:
 * on PREEMPT_RT, a stop that waits for a sink blocks soft interrupts here, which run timers.
 */
static void wait_until_refused(struct kunit *test, struct twheel_timeout *t)
{
	unsigned long end = jiffies + MAX_WAIT;

	while (twheel_arm(t, S64_MAX) != -ESHUTDOWN) {
		twheel_cancel(t);
		if (time_after(jiffies, end)) {
			KUNIT_FAIL(test, "twheel_arm() is never refused");
			return;
		}
		cond_resched();
	}
}

static void arm_now(void *t)
{
	twheel_arm_after(t, 0);
}

/* The callback or sink of p[0] spins; p[1] is idle; p[2] is pending; the stop waits. */
static struct held_stop *begin_held_stop(struct kunit *test, struct test_timeout **p,
					 const struct held_kind *kind)
{
	struct held_stop *held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);
	unsigned int here = raw_smp_processor_id();

	KUNIT_ASSERT_NOT_NULL(test, held);
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");
	gate_init(&held->gate);
	stop_call_init(&held->stop_call, create_running_wheel(test, kind->sink)->wheel);
	held->kind = kind;
	*p = create_timeouts_fn(test, 3, kind->sink ? NULL : record_callback);
	(*p)->then = held_callback;
	(*p)->data = held;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&(*p)[2].t, FAR));
	/* No task and no timer runs on the CPU of a sink that spins: the helper starts here. */
	helper_start_on(test, &held->stop_call.helper, here, do_stop_beside_callback,
			&held->stop_call);
	set_cpus_allowed_ptr(current, cpumask_of(here));
	/* By a thread there: an hrtimer that an idle CPU sets may fire on this one. */
	helper_start_on(test, &held->armer, spare_cpu(), arm_now, &(*p)->t);
	gate_wait_reached(test, &held->gate);
	wait_until_refused(test, &(*p)[1].t);
	return held;
}

/* No timeout was handed back before the callback had returned. */
static void end_held_stop(struct kunit *test, struct held_stop *held)
{
	complete_all(&held->gate.open);
	helper_finish(test, &held->armer);
	helper_finish(test, &held->stop_call.helper);
	KUNIT_EXPECT_EQ(test, 0U, held->stop_call.early);
	KUNIT_EXPECT_EQ(test, 0, held->stop_call.left_running);
}

static void stop_waits_for_callbacks_and_sinks(struct kunit *test)
{
	const struct held_kind *kind = test->param_value;
	struct test_timeout *p;
	struct held_stop *held = begin_held_stop(test, &p, kind);

	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, kind->ret, held->ret);
	KUNIT_EXPECT_EQ(test, kind->ret ? 1U : 2U, count_handed_back(test, &held->stop_call.list));
	KUNIT_EXPECT_EQ(test, !kind->ret, p->ret);
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static void second_caller_waits_for_the_first(struct kunit *test)
{
	struct stop_call second;
	struct test_timeout *p;
	struct held_stop *held = begin_held_stop(test, &p, &held_kinds[0]);

	stop_call_init(&second, held->stop_call.wheel);
	helper_start(test, &second.helper, do_stop, &second);
	msleep(50);
	KUNIT_EXPECT_EQ(test, completion_done(&second.helper.done),
			completion_done(&held->stop_call.helper.done));
	end_held_stop(test, held);
	helper_finish(test, &second.helper);
	KUNIT_EXPECT_EQ(test, 1U, count_handed_back(test, &held->stop_call.list));
	KUNIT_EXPECT_EQ(test, 0U, count_handed_back(test, &second.list));
}

/* A flush of a wheel whose last shard is busy */

static void do_flush(void *arg)
{
	struct stop_call *s = arg;

	twheel_flush(s->wheel);
	s->left_running = atomic_read(&s->running);
}

static void flush_waits_for_all_shards(struct kunit *test)
{
	struct held_stop *held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);
	unsigned int last = cpumask_last(cpu_online_mask);
	struct helper flush;
	struct test_timeout *p;

	KUNIT_ASSERT_NOT_NULL(test, held);
	if (!last)
		kunit_skip(test, "needs a second CPU");
	gate_init(&held->gate);
	stop_call_init(&held->stop_call, create_running_wheel(test, false)->wheel);
	held->kind = &held_kinds[0];
	p = create_timeouts(test, 1);
	p->then = held_callback;
	p->data = held;
	run_on(test, last);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 0));
	run_on(test, 0);
	gate_wait_reached(test, &held->gate);
	helper_start(test, &flush, do_flush, &held->stop_call);
	helper_wait_blocked(&flush);
	complete_all(&held->gate.open);
	helper_finish(test, &flush);
	KUNIT_EXPECT_EQ(test, 0, held->stop_call.left_running);
}

/* A stop beside an advance in another task */

static struct {
	struct gate	gate;
	struct twheel	*wheel;
	bool		over;	/* the advance has returned */
	bool		early;	/* the stop had returned before */
} advancing;

static void hold_advance(struct twheel *w, enum twheel_window where)
{
	if (where == TWHEEL_AT_ADVANCE && w == advancing.wheel)
		gate_wait_open(&advancing.gate);
}

static void do_advance(void *unused)
{
	twheel_advance(advancing.wheel, TICK);
	WRITE_ONCE(advancing.over, true);
}

static void do_stop_beside_advance(void *unused)
{
	twheel_stop(advancing.wheel, NULL, NULL);
	advancing.early = !completion_done(&advancing.gate.open);
}

static void stop_waits_for_an_advance_in_another_task(struct kunit *test)
{
	struct helper advance, stop;

	memset(&advancing, 0, sizeof(advancing));
	gate_init(&advancing.gate);
	advancing.wheel = create_manual_wheel(test, TICK, 4, 0)->wheel;
	WRITE_ONCE(twheel_test.window, hold_advance);
	helper_start(test, &advance, do_advance, NULL);
	gate_wait_reached(test, &advancing.gate);
	helper_start(test, &stop, do_stop_beside_advance, NULL);
	helper_wait_blocked(&stop);
	complete_all(&advancing.gate.open);
	helper_finish(test, &stop);
	helper_finish(test, &advance);
	WRITE_ONCE(twheel_test.window, NULL);
	KUNIT_EXPECT_FALSE(test, advancing.early);
	KUNIT_EXPECT_TRUE(test, advancing.over);
}

static struct kunit_case stop_cases[] = {
	KUNIT_CASE_PARAM(stop_waits_for_callbacks_and_sinks, held_kind_gen_params),
	KUNIT_CASE(second_caller_waits_for_the_first),
	KUNIT_CASE(flush_waits_for_all_shards),
	KUNIT_CASE(stop_waits_for_an_advance_in_another_task),
	{}
};

static struct kunit_suite stop_suite = {
	.name = "twheel-stop",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = stop_cases,
};

module_test_suite(stop_suite);

MODULE_DESCRIPTION("KUnit suite of the end of a timing wheel");
MODULE_LICENSE("GPL");
