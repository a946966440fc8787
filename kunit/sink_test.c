// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels with a batch sink, on the MANUAL clock: the arguments of the sink, and
 * operations on a timeout on its way to the sink, in the sink and after it.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

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
 * @before: called for each timeout on the list, or NULL
 * @extend: extends a timeout and returns true if that succeeded; or NULL
 * @after: called for each timeout after it is accepted, or NULL
 */
struct sink {
	unsigned int	calls;
	unsigned int	largest;
	unsigned int	miscounted;
	u64		now_ns;
	void		(*before)(struct probe *p);
	bool		(*extend)(struct probe *p);
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

/* Make the wheel and @n timeouts. */
static struct probe *sink_wheel_of(struct kunit *test, u32 slots, u32 levels, unsigned int n,
				   struct sink **sink)
{
	struct twheel_params params = {
		.name = "kunit-sink", .clock = TWHEEL_MANUAL, .tick_ns = TICK, .slots = slots,
		.levels = levels, .sink = take_batch,
	};

	*sink = kunit_kzalloc(test, sizeof(**sink), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *sink);
	params.sink_data = *sink;
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return probes_for(test, n, NULL);
}

static struct probe *sink_wheel(struct kunit *test, unsigned int n, struct sink **sink)
{
	return sink_wheel_of(test, 4, 0, n, sink);
}

static void arm_all(struct kunit *test, struct probe *p, unsigned int n, u64 tick)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], tick);
}

/* Arguments of the sink */

static void sink_gets_the_timeout_at_its_tick(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, 1, &sink);
	struct fixture *f = test->priv;

	arm_tick(test, p, 50);
	expect_fires_at(test, p, 50);
	KUNIT_EXPECT_EQ(test, 1U, sink->calls);
	KUNIT_EXPECT_EQ(test, 0U, sink->miscounted);
	arm_tick(test, p, 60);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 77 * TICK + 5));
	KUNIT_EXPECT_EQ(test, 77 * TICK + 5, sink->now_ns);
}

static void sink_gets_many_in_order_in_bounded_batches(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, MANY, &sink);
	int i;

	for (i = 3; i >= 0; i--)
		arm_all(test, &p[i * MANY / 4], MANY / 4, 300 + i);
	advance_tick(test, 400);
	expect_fired_in_id_order(test, MANY);
	KUNIT_EXPECT_EQ(test, 0U, sink->miscounted);
	KUNIT_EXPECT_EQ(test, 128U, sink->largest);
}

/* The search for the slot of the batch passes 100 slots with one timeout of a later round. */
static void search_of_a_hashed_wheel_shortens_the_batch(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel_of(test, 256, 1, 228, &sink);
	unsigned int i;

	for (i = 0; i < 100; i++)
		arm_tick(test, &p[128 + i], 10 * 256 + 1 + i);
	arm_all(test, p, 128, 101);
	advance_tick(test, 101);
	expect_fired_in_id_order(test, 128);
	KUNIT_EXPECT_EQ(test, 2U, sink->calls);
	KUNIT_EXPECT_EQ(test, 128U - 101 / 2, sink->largest);
	advance_tick(test, 10 * 256 + 100);
	expect_fired_in_id_order(test, 228);
}

static void data_of_the_owner_is_left_alone(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, 1, &sink);

	p->t.data = 0x0123456789abcdefULL;
	p->t.tag = 0x89abcdef;
	arm_tick(test, p, 50);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, 60 * TICK));
	advance_tick(test, 60);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0x0123456789abcdefULL, p->t.data);
	KUNIT_EXPECT_EQ(test, 0x89abcdefU, p->t.tag);
}

/* Calls in the sink for a timeout that it has not accepted yet, and for one that it has */

static int cancel(struct twheel_timeout *t)
{
	return twheel_cancel(t);
}

static int cancel_by_list(struct twheel_timeout *t)
{
	return twheel_cancel_list(&t, 1);
}

static int move_by_list(struct twheel_timeout *t)
{
	u64 expires = 99 * TICK;

	return twheel_mod_list(&t, &expires, 1);
}

static int ask(struct twheel_timeout *t)
{
	struct twheel_position pos;

	return twheel_pending(t) || twheel_position(t, &pos) || twheel_remaining_ns(t);
}

static int move(struct twheel_timeout *t)
{
	return twheel_mod(t, 99 * TICK);
}

static int advance(struct twheel_timeout *t)
{
	return twheel_advance(container_of(t, struct probe, t)->f->wheel, 99 * TICK);
}

/**
 * struct call - a call that the sink makes for a timeout of its batch
 * @name: for the log
 * @call: makes the call
 * @expiring: result before the timeout is accepted
 * @idle: result after that
 */
struct call {
	const char	*name;
	int		(*call)(struct twheel_timeout *t);
	int		expiring;
	int		idle;
};

static const struct call calls[] = {
	{ "cancel", cancel, false, false },
	{ "try_cancel", twheel_try_cancel, -EBUSY, 0 },
	{ "cancel_list", cancel_by_list, 0, 0 },
	{ "mod", move, -EBUSY, 0 },
	{ "mod_list", move_by_list, 0, 0 },
	{ "queries", ask, 0, 0 },
	{ "advance", advance, -EDEADLK, -EDEADLK },
};

NAMED_PARAM(call, calls);

/* The second timeout of the batch is expiring, the first has been accepted. */
static void call_for_both(struct probe *p)
{
	const struct call *c = p->data;

	if (!p->other)
		return;
	p->ret = c->call(&p->t);
	p->other->ret = c->call(&p->other->t);
}

static void call_in_the_sink_tells_the_state(struct kunit *test)
{
	const struct call *c = test->param_value;
	struct sink *sink;
	struct probe *p = sink_wheel(test, 2, &sink);
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	sink->after = call_for_both;
	p[0].data = (void *)c;
	p[0].other = &p[1];
	arm_all(test, p, 2, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, c->idle, p[0].ret);
	KUNIT_EXPECT_EQ(test, c->expiring, p[1].ret);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 2ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.cancelled);
	KUNIT_EXPECT_EQ(test, c->call == move, twheel_pending(&p[0].t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[1].t));
}

static void arm_it_now(struct probe *p)
{
	p->ret = twheel_arm_after(&p->t, 0);
}

static void sink_that_rearms_to_now_ends(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, MANY, &sink);
	struct fixture *f = test->priv;

	sink->after = arm_it_now;
	arm_all(test, p, MANY, 300);
	advance_tick(test, 400);
	expect_fired_in_id_order(test, MANY);
	f->nr_fired = 0;
	advance_tick(test, 400);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 401);
	expect_fired_in_id_order(test, MANY);
}

static void cancel_other(struct probe *p)
{
	p->ret = twheel_cancel(&p->other->t);
}

/* It reports true for those of later batches alone. */
static void cancel_of_any_other_tells_the_truth(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, MANY, &sink);
	unsigned int i, cancelled = 0;

	sink->after = cancel_other;
	for (i = 0; i < MANY; i++)
		p[i].other = &p[(i * 7 + 13) % MANY];
	arm_all(test, p, MANY, 50);
	advance_tick(test, 50);
	for (i = 0; i < MANY; i++) {
		cancelled += p[i].ret;
		KUNIT_ASSERT_EQ(test, !p[i].ret, p[i].other->fired);
	}
	KUNIT_EXPECT_GT(test, cancelled, 0U);
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

static void overwrite(struct probe *p)
{
	memset(&p->t, 0xa5, sizeof(p->t));
}

static bool extend_and_cancel(struct probe *p)
{
	if (p->id % 2 || twheel_extend(&p->t, 50 * TICK, 0))
		return false;
	p->ret = twheel_cancel(&p->t);
	overwrite(p);
	return true;
}

/* Every other one is extended, then cancelled. */
static void timeout_is_the_owners_when_accepted_or_extended(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, MANY, &sink);
	unsigned int i;

	sink->extend = extend_and_cancel;
	sink->after = overwrite;
	arm_all(test, p, MANY, 3);
	advance_tick(test, 3);
	advance_tick(test, 1000);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, i % 2, i % 2 ? p[i].fired : !p[i].ret);
}

/**
 * struct extension - an extension in tick 3
 * @name: for the log
 * @to: the new deadline
 * @ret: result
 * @fires: tick at which the timeout fires
 */
struct extension {
	const char	*name;
	u64		to;
	int		ret;
	u64		fires;
};

static const struct extension extensions[] = {
	{ "to a later tick", 50 * TICK, 0, 50 },
	{ "rounded up", 50 * TICK - 1, 0, 50 },
	{ "to the past", 1 * TICK, 0, 4 },
	{ "to the tick of the batch", 3 * TICK, 0, 4 },
	{ "beyond the clock", (u64)S64_MAX + 1, -EINVAL, 3 },
};

NAMED_PARAM(extension, extensions);

static void extended_timeout_fires_at_its_new_deadline(struct kunit *test)
{
	const struct extension *e = test->param_value;
	struct sink *sink;
	struct probe *p = sink_wheel(test, 1, &sink);

	sink->extend = extend_once;
	p->arg = e->to;
	p->ret = -1;
	arm_tick(test, p, 3);
	if (e->fires == 3) {
		expect_fires_at(test, p, 3);
	} else {
		advance_tick(test, 3);
		expect_fires_at(test, p, e->fires);
	}
	KUNIT_EXPECT_EQ(test, e->ret, p->ret);
}

static void extension_counts_in_extended_alone(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, 2, &sink);
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	sink->extend = extend_once;
	p[0].arg = 50 * TICK;
	arm_all(test, p, 2, 3);
	advance_tick(test, 3);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 2ULL, stats.armed);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.extended);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.rearmed);
}

static void extended_timeout_can_be_cancelled_and_moved(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, 2, &sink);

	sink->extend = extend_once;
	p[0].arg = 50 * TICK;
	p[1].arg = 50 * TICK;
	arm_all(test, p, 2, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[1].t, 20 * TICK));
	expect_fires_at(test, &p[1], 20);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired);
}

static void extended_timeouts_keep_their_order(struct kunit *test)
{
	struct sink *sink;
	struct probe *p = sink_wheel(test, MANY, &sink);
	unsigned int i;

	sink->extend = extend_once;
	for (i = 0; i < MANY; i++)
		p[i].arg = 50 * TICK;
	arm_all(test, p, MANY, 3);
	advance_tick(test, 3);
	advance_tick(test, 50);
	expect_fired_in_id_order(test, MANY);
}

/**
 * struct ending - the end of the timeout or of its wheel, on another CPU, during the sink
 * @work: makes the call
 * @p: the timeout
 * @stop: stops the wheel; otherwise shuts the timeout down
 * @ret: result of the shutdown
 */
struct ending {
	struct work_struct	work;
	struct probe		*p;
	bool			stop;
	bool			ret;
};

static void end_it(struct work_struct *work)
{
	struct ending *e = container_of(work, struct ending, work);

	if (e->stop)
		twheel_stop(e->p->f->wheel, NULL, NULL);
	else
		e->ret = twheel_shutdown(&e->p->t);
}

/* The call waits for the sink, but refuses arms before that. */
static bool extend_when_refused(struct probe *p)
{
	unsigned long end = jiffies + PATIENCE / 3;
	struct ending *e = p->data;

	schedule_work_on(spare_cpu(), &e->work);
	while (time_before(jiffies, end)) {
		if (e->stop && twheel_arm(&p->other->t, S64_MAX) == -ESHUTDOWN)
			break;
		if (READ_ONCE(p->t.flags) & TWHEEL_T_SHUTDOWN)
			break;
		twheel_cancel(&p->other->t);
		cpu_relax();
	}
	return extend_once(p);
}

static void extend_during(struct kunit *test, bool stop)
{
	struct ending *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct sink *sink;
	struct probe *p = sink_wheel(test, 2, &sink);

	KUNIT_ASSERT_NOT_NULL(test, e);
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");
	*e = (struct ending){ .p = p, .stop = stop, .ret = true };
	INIT_WORK(&e->work, end_it);
	sink->extend = extend_when_refused;
	p->data = e;
	p->other = &p[1];
	p->arg = 50 * TICK;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	flush_work(&e->work);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	if (!stop)
		KUNIT_EXPECT_FALSE(test, e->ret);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p->t, 60 * TICK));
}

static void extension_in_a_stopped_wheel_is_eshutdown(struct kunit *test)
{
	extend_during(test, true);
}

static void extension_of_a_timeout_shut_down_is_eshutdown(struct kunit *test)
{
	extend_during(test, false);
}

static struct kunit_case sink_cases[] = {
	KUNIT_CASE(sink_gets_the_timeout_at_its_tick),
	KUNIT_CASE(sink_gets_many_in_order_in_bounded_batches),
	KUNIT_CASE(search_of_a_hashed_wheel_shortens_the_batch),
	KUNIT_CASE(data_of_the_owner_is_left_alone),
	KUNIT_CASE_PARAM(call_in_the_sink_tells_the_state, call_gen_params),
	KUNIT_CASE(sink_that_rearms_to_now_ends),
	KUNIT_CASE(cancel_of_any_other_tells_the_truth),
	KUNIT_CASE_PARAM(extended_timeout_fires_at_its_new_deadline, extension_gen_params),
	KUNIT_CASE(timeout_is_the_owners_when_accepted_or_extended),
	KUNIT_CASE(extension_counts_in_extended_alone),
	KUNIT_CASE(extended_timeout_can_be_cancelled_and_moved),
	KUNIT_CASE(extended_timeouts_keep_their_order),
	KUNIT_CASE(extension_in_a_stopped_wheel_is_eshutdown),
	KUNIT_CASE(extension_of_a_timeout_shut_down_is_eshutdown),
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
