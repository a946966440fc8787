// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels with a batch sink, on the MANUAL clock. The table of the suite state has
 * the calls in a sink, and the suite combination its arguments.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)

/**
 * struct sink_calls - data of a test's sink
 * @calls: number of calls
 * @largest: length of the longest list
 */
struct sink_calls {
	unsigned int	calls;
	unsigned int	largest;
};

static void record_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct sink_calls *sink_calls = sink_data;
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct test_timeout *p = container_of(t, struct test_timeout, t);

		list_del(&t->entry);
		if (p->then)
			p->then(p);
		record_expiry(p);
		twheel_accept(t);
	}
	sink_calls->calls++;
	sink_calls->largest = max(sink_calls->largest, nr);
}

/* Make the wheel and @n timeouts. */
static struct test_timeout *create_sink_wheel(struct kunit *test, u32 levels, unsigned int n,
					      struct sink_calls **sink_calls)
{
	struct twheel_params params = {
		.name = "kunit-sink", .clock = TWHEEL_MANUAL, .tick_ns = TICK, .slots = 256,
		.levels = levels, .sink = record_batch,
	};

	*sink_calls = kunit_kzalloc(test, sizeof(**sink_calls), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *sink_calls);
	params.sink_data = *sink_calls;
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return create_timeouts_fn(test, n, NULL);
}

/* The search for the slot of the batch passes 100 slots with one timeout of a later round. */
static void search_of_a_hashed_wheel_shortens_the_batch(struct kunit *test)
{
	struct sink_calls *sink_calls;
	struct test_timeout *p = create_sink_wheel(test, 1, 228, &sink_calls);
	unsigned int i;

	for (i = 0; i < 100; i++)
		arm_at_tick(test, &p[128 + i], 10 * 256 + 1 + i);
	for (i = 0; i < 128; i++)
		arm_at_tick(test, &p[i], 101);
	advance_to_tick(test, 101);
	expect_fired_in_id_order(test, 128);
	KUNIT_EXPECT_EQ(test, 2U, sink_calls->calls);
	KUNIT_EXPECT_EQ(test, 128U - 101 / 2, sink_calls->largest);
	advance_to_tick(test, 10 * 256 + 100);
	expect_fired_in_id_order(test, 228);
}

/* The wheel is stopped on another CPU during the sink */

/**
 * struct stop_work - a stop of the wheel
 * @work: makes the call
 * @p: a timeout
 * @ret: result of an extension after the stop has begun
 */
struct stop_work {
	struct work_struct	work;
	struct test_timeout	*p;
	int			ret;
};

static void stop_work_fn(struct work_struct *work)
{
	twheel_stop(container_of(work, struct stop_work, work)->p->f->wheel, NULL, NULL);
}

/* The stop waits for the sink, but refuses arms before that. */
static void extend_after_stop_begins(struct test_timeout *p)
{
	unsigned long end = jiffies + MAX_WAIT / 3;
	struct stop_work *e = p->data;

	schedule_work_on(spare_cpu(), &e->work);
	while (twheel_arm(&p->other->t, S64_MAX) != -ESHUTDOWN && time_before(jiffies, end))
		twheel_cancel(&p->other->t);
	e->ret = twheel_extend(&p->t, 50 * TICK, 0);
}

static void extension_in_a_stopped_wheel_is_eshutdown(struct kunit *test)
{
	struct stop_work *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct sink_calls *sink_calls;
	struct test_timeout *p = create_sink_wheel(test, 0, 2, &sink_calls);

	KUNIT_ASSERT_NOT_NULL(test, e);
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");
	e->p = p;
	INIT_WORK(&e->work, stop_work_fn);
	p->then = extend_after_stop_begins;
	p->data = e;
	p->other = &p[1];
	arm_at_tick(test, p, 3);
	advance_to_tick(test, 3);
	flush_work(&e->work);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, e->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static struct kunit_case sink_cases[] = {
	KUNIT_CASE(search_of_a_hashed_wheel_shortens_the_batch),
	KUNIT_CASE(extension_in_a_stopped_wheel_is_eshutdown),
	{}
};

static struct kunit_suite sink_suite = {
	.name = "twheel-sink",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = sink_cases,
};

module_test_suite(sink_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels with a batch sink");
MODULE_LICENSE("GPL");
