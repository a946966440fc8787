// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels with a batch sink: the arguments of the sink, and operations on a
 * timeout on its way to the sink, in the sink and after it.
 */
#include <linux/module.h>

#include "arming.h"
#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define MANY		1000

/**
 * struct sink - data of a test's sink
 * @calls: number of calls
 * @largest: length of the longest list
 * @miscounted: calls whose @nr was not the length of the list
 * @now_ns: argument of the last call
 * @extend: extends a timeout and returns true if that succeeded; or NULL
 * @before: called for each timeout before it is accepted, or NULL
 * @after: called for each timeout after it is accepted, or NULL
 */
struct sink {
	unsigned int	calls;
	unsigned int	largest;
	unsigned int	miscounted;
	u64		now_ns;
	bool		(*extend)(struct probe *p);
	void		(*before)(struct probe *p);
	void		(*after)(struct probe *p);
};

static void take_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct sink *sink = sink_data;
	struct twheel_timeout *t, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct probe *p = container_of(t, struct probe, t);

		n++;
		if (sink->before)
			sink->before(p);
		list_del(&t->entry);
		if (sink->extend && sink->extend(p))
			continue;
		probe_record(p);
		twheel_accept(t);
		if (sink->after)
			sink->after(p);
	}
	sink->calls++;
	sink->largest = max(sink->largest, n);
	sink->miscounted += n != nr;
	sink->now_ns = now_ns;
}

static struct sink *sink_wheel(struct kunit *test, u32 slots, u32 levels)
{
	struct sink *sink = kunit_kzalloc(test, sizeof(*sink), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-sink",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = slots,
		.levels = levels,
		.sink = take_batch,
		.sink_data = sink,
	};

	KUNIT_ASSERT_NOT_NULL(test, sink);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return sink;
}

static struct probe *sink_probes(struct kunit *test, unsigned int n)
{
	return probes_for(test, n, NULL);
}

/* Arguments of the sink */

static void sink_gets_the_timeout_at_its_tick(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 1);

	arm_tick(test, p, 50);
	advance_tick(test, 49);
	KUNIT_EXPECT_EQ(test, 0U, sink->calls);
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, 1U, sink->calls);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0U, sink->miscounted);
}

static void sink_is_told_the_time(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, 1);

	arm_tick(test, p, 50);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 77 * TICK + 5));
	KUNIT_EXPECT_EQ(test, 77 * TICK + 5, sink->now_ns);
}

static void sink_gets_many_in_order_in_bounded_batches(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 256, 4);
	struct probe *p = sink_probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY);
	KUNIT_EXPECT_EQ(test, 0U, sink->miscounted);
	KUNIT_EXPECT_LE(test, sink->largest, 128U);
	KUNIT_EXPECT_GE(test, sink->largest, 2U);
}

static void sink_gets_ticks_in_ascending_order(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, MANY);
	int i;

	for (i = MANY - 1; i >= 0; i--)
		arm_tick(test, &p[i], 1 + i / 3 * 3);
	advance_tick(test, MANY);
	KUNIT_EXPECT_EQ(test, 0U, sink->miscounted);
	for (i = 1; i < MANY; i++) {
		struct fixture *f = test->priv;

		KUNIT_ASSERT_LE(test, f->order[i - 1]->tick, f->order[i]->tick);
	}
}

static void data_of_the_owner_is_left_alone(struct kunit *test)
{
	struct probe *p;

	sink_wheel(test, 4, 3);
	p = sink_probes(test, 1);
	p->t.data = 0x0123456789abcdefULL;
	arm_tick(test, p, 50);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, 60 * TICK));
	advance_tick(test, 60);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0x0123456789abcdefULL, p->t.data);
}

/* In a batch: the timeout is expiring */

static void cancel_it(struct probe *p)
{
	p->ret = twheel_cancel(&p->t);
}

static void cancel_while_expiring_reports_false(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, 1);
	struct twheel_counters stats;

	sink->before = cancel_it;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.cancelled);
}

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

/* By the arming in p->data. */
static void arm_it(struct probe *p)
{
	const struct arming *a = p->data;

	p->ret = a->arm(p->f->wheel, &p->t, p->arg);
}

static void arm_while_expiring_is_ebusy(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 1);

	sink->before = arm_it;
	p->data = (void *)test->param_value;
	p->arg = 50 * TICK;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, -EBUSY, p->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void look_around(struct probe *p)
{
	struct twheel_position pos;

	p->ret = twheel_pending(&p->t) << 0 | twheel_position(&p->t, &pos) << 1 |
		 (twheel_remaining_ns(&p->t) > 0) << 2;
}

static void expiring_timeout_is_not_pending(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 1);

	sink->before = look_around;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

/* All timeouts of a batch are expiring at once. */
static void cancel_other(struct probe *p)
{
	if (p->other)
		p->ret = twheel_cancel(&p->other->t);
}

static void cancel_of_another_in_the_batch_reports_false(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 2);

	sink->after = cancel_other;
	p[0].other = &p[1];
	p[0].ret = -1;
	arm_tick(test, &p[0], 3);
	arm_tick(test, &p[1], 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
}

static void cancel_of_one_in_a_later_batch_reports_true(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, MANY);
	unsigned int i;

	sink->after = cancel_other;
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 50);
	p[0].other = &p[MANY - 1];
	p[0].ret = -1;
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[MANY - 1].fired);
	KUNIT_EXPECT_EQ(test, MANY - 1U, f->nr_fired);
}

static void cancel_of_any_other_tells_the_truth(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, MANY);
	unsigned int i, cancelled = 0;

	sink->after = cancel_other;
	for (i = 0; i < MANY; i++) {
		arm_tick(test, &p[i], 50);
		p[i].other = &p[(i * 7 + 13) % MANY];
	}
	advance_tick(test, 50);
	for (i = 0; i < MANY; i++) {
		if (!p[i].ret)
			continue;
		cancelled++;
		KUNIT_ASSERT_EQ(test, 0U, p[i].other->fired);
	}
	KUNIT_EXPECT_EQ(test, (unsigned int)MANY, cancelled + f->nr_fired);
}

/* After the sink has accepted it: the timeout is idle */

static void accepted_timeout_can_be_armed_in_the_sink(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, 1);

	sink->after = arm_it;
	p->data = (void *)test->param_value;
	p->arg = 50 * TICK;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	sink->after = NULL;
	expect_fires_at(test, p, 50);
	KUNIT_EXPECT_EQ(test, 2U, f->nr_fired);
}

static void arm_it_now(struct probe *p)
{
	p->ret = twheel_arm_after(&p->t, 0);
}

static void sink_that_rearms_to_now_ends(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 256, 4);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, MANY);
	unsigned int i;

	sink->after = arm_it_now;
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	advance_tick(test, 400);
	expect_fired_in_id_order(test, MANY);
	f->nr_fired = 0;
	advance_tick(test, 400);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 401);
	expect_fired_in_id_order(test, MANY);
}

static void advance_it(struct probe *p)
{
	p->ret = twheel_advance(p->f->wheel, p->arg);
}

static void advance_from_own_sink_is_edeadlk(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, 1);

	sink->after = advance_it;
	p->arg = 9 * TICK;
	arm_tick(test, p, 3);
	advance_tick(test, 4);
	KUNIT_EXPECT_EQ(test, -EDEADLK, p->ret);
	KUNIT_EXPECT_EQ(test, 4 * TICK, twheel_now(f->wheel));
}

static void accepted_timeout_is_the_owners(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct fixture *f = test->priv;
	struct probe *p = sink_probes(test, 1);

	sink->after = cancel_it;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	memset(&p->t, 0xa5, sizeof(p->t));
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
}

/* Extension */

/* Extend the timeout to p->arg, once. */
static bool extend_once(struct probe *p)
{
	if (!p->arg)
		return false;
	p->ret = twheel_extend(&p->t, p->arg, 0);
	p->arg = 0;
	return !p->ret;
}

static struct probe *extended_probe(struct kunit *test, u64 tick)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 1);

	sink->extend = extend_once;
	p->arg = tick * TICK;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	return p;
}

static void extended_timeout_fires_at_its_new_deadline(struct kunit *test)
{
	struct probe *p = extended_probe(test, 50);

	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 47 * TICK, twheel_remaining_ns(&p->t));
	expect_fires_at(test, p, 50);
}

static void extension_to_the_past_fires_at_the_next_tick(struct kunit *test)
{
	struct probe *p = extended_probe(test, 1);

	KUNIT_EXPECT_EQ(test, 0, p->ret);
	expect_fires_at(test, p, 4);
}

static void extension_counts_in_extended_alone(struct kunit *test)
{
	struct probe *p = extended_probe(test, 50);
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	KUNIT_EXPECT_EQ(test, 0, p->ret);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.armed);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.extended);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.rearmed);
}

static void extended_timeout_can_be_cancelled(struct kunit *test)
{
	struct probe *p = extended_probe(test, 50);

	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

static void extended_timeout_can_be_moved(struct kunit *test)
{
	struct probe *p = extended_probe(test, 50);

	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, 20 * TICK));
	expect_fires_at(test, p, 20);
}

static void extension_beyond_the_clock_is_einval(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 1);

	sink->extend = extend_once;
	p->arg = (u64)S64_MAX + 1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, -EINVAL, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void extended_timeouts_keep_their_order(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, MANY);
	unsigned int i;

	sink->extend = extend_once;
	for (i = 0; i < MANY; i++) {
		p[i].arg = 50 * TICK;
		arm_tick(test, &p[i], 3);
	}
	advance_tick(test, 3);
	advance_tick(test, 50);
	expect_fired_in_id_order(test, MANY);
}

/* Extend once the stop has begun in this shard: it then refuses the other timeout. */
static bool extend_when_stopped(struct probe *p)
{
	unsigned long end = jiffies + PATIENCE / 3;
	struct stopping *stopping = p->data;

	complete(&stopping->now);
	while (twheel_arm(&p->other->t, p->arg) != -ESHUTDOWN && time_before(jiffies, end)) {
		twheel_cancel(&p->other->t);
		cpu_relax();
	}
	return extend_once(p);
}

static void extension_in_a_stopped_wheel_is_eshutdown(struct kunit *test)
{
	struct sink *sink = sink_wheel(test, 4, 3);
	struct probe *p = sink_probes(test, 2);
	struct stopping stopping;

	if (!IS_ENABLED(CONFIG_PREEMPTION))
		kunit_skip(test, "without preemption, nothing runs beside a sink");
	stopping_init(&stopping, p->f->wheel);
	sink->extend = extend_when_stopped;
	p->other = &p[1];
	p->data = &stopping;
	p->arg = 50 * TICK;
	arm_tick(test, p, 3);
	stopper_start(test, &stopping);
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(p->f->wheel, 3 * TICK));
	stopper_finish(test, &stopping);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_TRUE(test, list_empty(&stopping.list));
}

static struct kunit_case sink_cases[] = {
	KUNIT_CASE(sink_gets_the_timeout_at_its_tick),
	KUNIT_CASE(sink_is_told_the_time),
	KUNIT_CASE(sink_gets_many_in_order_in_bounded_batches),
	KUNIT_CASE(sink_gets_ticks_in_ascending_order),
	KUNIT_CASE(data_of_the_owner_is_left_alone),
	KUNIT_CASE(cancel_while_expiring_reports_false),
	KUNIT_CASE_PARAM(arm_while_expiring_is_ebusy, arming_gen_params),
	KUNIT_CASE(expiring_timeout_is_not_pending),
	KUNIT_CASE(cancel_of_another_in_the_batch_reports_false),
	KUNIT_CASE(cancel_of_one_in_a_later_batch_reports_true),
	KUNIT_CASE(cancel_of_any_other_tells_the_truth),
	KUNIT_CASE_PARAM(accepted_timeout_can_be_armed_in_the_sink, arming_gen_params),
	KUNIT_CASE(sink_that_rearms_to_now_ends),
	KUNIT_CASE(advance_from_own_sink_is_edeadlk),
	KUNIT_CASE(accepted_timeout_is_the_owners),
	KUNIT_CASE(extended_timeout_fires_at_its_new_deadline),
	KUNIT_CASE(extension_to_the_past_fires_at_the_next_tick),
	KUNIT_CASE(extension_counts_in_extended_alone),
	KUNIT_CASE(extended_timeout_can_be_cancelled),
	KUNIT_CASE(extended_timeout_can_be_moved),
	KUNIT_CASE(extension_beyond_the_clock_is_einval),
	KUNIT_CASE(extended_timeouts_keep_their_order),
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
