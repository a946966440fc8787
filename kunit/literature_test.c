// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the examples and tests of others: the worked examples of the literature, and what
 * the tests of the timers of Netty, Dubbo, Kafka and the JDK demand. Each runs on a hierarchy and
 * on a hashed wheel.
 *
 * The number of slots is a power of two here, and levels above level 0 have 64. So the examples
 * with 20 slots are calculated again for 16 and 32. A level is chosen by digits, not by distance.
 * A level of a hierarchy has the slots of two blocks: slot 16 + 14 is slot 14 of an odd block.
 */
#include <linux/module.h>
#include <linux/string.h>

#include "fixture.h"
#include "layout.h"
#include "suite.h"

#define MS	((u64)NSEC_PER_MSEC)

/* Examples */

/**
 * struct example - a delay, and where the timeout lies at which tick
 * @slots: of level 0
 * @start: cursor when it is armed
 * @delay: in ticks
 * @stops: the tick, the level and the slot in a hierarchy; in a hashed wheel the slot stays
 */
struct example {
	u32 slots;
	u64 start, delay;
	struct { u64 now; u32 level, slot; } stops[6];
};

static const struct example examples[] = {
	{ 8, 2, 50, { { 2, 1, 6 }, { 44, 1, 6 }, { 47, 1, 6 }, { 48, 0, 4 }, { 51, 0, 4 } } },
	{ 32, 0, 350, { { 0, 1, 10 }, { 319, 1, 10 }, { 320, 0, 30 }, { 349, 0, 30 } } },
	{ 32, 0, 450, { { 0, 1, 14 }, { 447, 1, 14 }, { 448, 0, 2 }, { 449, 0, 2 } } },
	{ 16, 0, 350, { { 0, 1, 21 }, { 335, 1, 21 }, { 336, 0, 16 + 14 }, { 349, 0, 16 + 14 } } },
	{ 16, 0, 450, { { 0, 1, 28 }, { 447, 1, 28 }, { 448, 0, 2 }, { 449, 0, 2 } } },
	{ 8, 0, 511, { { 0, 1, 63 }, { 503, 1, 63 }, { 504, 0, 8 + 7 }, { 510, 0, 8 + 7 } } },
	{ 8, 0, 512, { { 0, 2, 1 }, { 63, 2, 1 }, { 511, 2, 1 } } },
	{ 8, 0, 1100, { { 0, 2, 2 }, { 1023, 2, 2 }, { 1024, 1, 9 }, { 1095, 1, 9 },
			{ 1096, 0, 8 + 4 }, { 1099, 0, 8 + 4 } } },
	{ 64, 1, 50, { { 1, 0, 51 }, { 50, 0, 51 } } },
	{ 64, 1, 114, { { 1, 1, 1 }, { 63, 1, 1 }, { 64, 0, 64 + 51 }, { 114, 0, 64 + 51 } } },
};

KUNIT_ARRAY_PARAM(example, examples, NULL);

static void check_example(struct kunit *test, unsigned int levels)
{
	const struct example *e = test->param_value;
	struct twheel_position pos;
	struct probe *p;
	unsigned int i;

	manual_wheel(test, MS, e->slots, levels);
	p = probes(test, 1);
	advance_tick(test, e->start);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, e->delay * MS));
	for (i = 0; i < ARRAY_SIZE(e->stops) && (!i || e->stops[i].now); i++) {
		advance_tick(test, e->stops[i].now);
		KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
		KUNIT_EXPECT_EQ(test, e->start + e->delay, pos.tick);
		KUNIT_EXPECT_EQ_MSG(test, levels == 1 ? 0 : e->stops[i].level, pos.level,
				    "at %llu", e->stops[i].now);
		KUNIT_EXPECT_EQ_MSG(test, levels == 1 ? (u32)(e->start + e->delay) % e->slots :
				    e->stops[i].slot, pos.slot, "at %llu", e->stops[i].now);
	}
	expect_fires_at(test, p, e->start + e->delay);
}

static void example_of_a_hierarchy(struct kunit *test)
{
	check_example(test, 0);
}

static void example_of_a_hashed_wheel(struct kunit *test)
{
	check_example(test, 1);
}

static void fifty_slots_become_64(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, MS, 50, 1);
	struct twheel_params params;

	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_EQ(test, 64U, params.slots);
}

/* HashedWheelTimer of Netty and Dubbo */

static u64 nr_pending(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	return stats.pending;
}

static void rearm(struct probe *p)
{
	p->ret = twheel_arm_after(&p->t, p->arg);
}

/* Each delay is longer than the wheel. */
static void delay_beyond_the_wheel_length_repeats(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 delay = 3 * s->slots + 1, i;
	struct probe *p;

	layout_wheel(test, MS);
	p = probes(test, 1);
	p->then = rearm;
	p->arg = delay * MS;
	arm_tick(test, p, delay);
	for (i = 1; i <= 10; i++)
		expect_fires_at(test, p, i * delay);
}

static void cancel_other(struct probe *p)
{
	p->ret = twheel_cancel(&p->other->t);
}

static void pending_timeouts_are_counted_when_one_is_cancelled_in_its_tick(struct kunit *test)
{
	struct probe *p;

	layout_wheel(test, MS);
	p = probes(test, 3);
	arm_tick(test, &p[0], 10);
	arm_tick(test, &p[1], 10);
	arm_tick(test, &p[2], 600);
	p[0].then = cancel_other;
	p[0].other = &p[1];
	KUNIT_EXPECT_EQ(test, 3ULL, nr_pending(test));
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1ULL, nr_pending(test));
	advance_tick(test, 600);
	KUNIT_EXPECT_EQ(test, 0ULL, nr_pending(test));
	expect_fired_in_id_order(test, 2);
}

static void stop_returns_what_has_neither_fired_nor_been_cancelled(struct kunit *test)
{
	struct fixture *f = layout_wheel(test, MS);
	struct probe *p = probes(test, 300);
	unsigned int i, ids = 0;
	struct twheel_timeout *t;
	LIST_HEAD(list);

	for (i = 0; i < 300; i++)
		arm_tick(test, &p[i], 1 + i * 10);
	advance_tick(test, 991);
	for (i = 100; i < 200; i++)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[i].t));
	twheel_stop(f->wheel, collect, &list);
	list_for_each_entry(t, &list, entry)
		ids += container_of(t, struct probe, t)->id;
	KUNIT_EXPECT_EQ(test, 100UL, (unsigned long)list_count_nodes(&list));
	KUNIT_EXPECT_EQ(test, (200 + 299) * 100 / 2U, ids);
	KUNIT_EXPECT_EQ(test, 0ULL, nr_pending(test));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_after(&p[0].t, MS));
	expect_fired_in_id_order(test, 100);
}

/* The longest delay neither overflows nor goes before a short one (Netty 7760, JDK). */
static void longest_delay_does_not_overflow(struct kunit *test)
{
	struct fixture *f = layout_wheel(test, MS);
	struct probe *p = probes(test, 2);

	advance_tick(test, 1000);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[0].t, CLOCK_END));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[1].t, 5 * MS));
	KUNIT_EXPECT_EQ(test, CLOCK_END - 1000 * MS, twheel_remaining_ns(&p[0].t));
	expect_fires_at(test, &p[1], 1005);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
}

/* SystemTimer of Kafka */

/* Added in another order than that of their expiration, and on all levels. */
static void tasks_come_out_in_the_order_of_expiration(struct kunit *test)
{
	const unsigned int n = 2000;
	struct fixture *f = layout_wheel(test, MS);
	struct probe *p = probes(test, n);
	unsigned int i;

	for (i = 0; i < n; i++)
		arm_tick(test, &p[i * 7 % n], 1 + i * 7 % n);
	for (i = 0; i <= n; i++) {
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, i, f->nr_fired);
	}
	expect_fired_in_id_order(test, n);
}

/* Timer and ScheduledThreadPoolExecutor of the JDK */

static void forward(struct probe *p)
{
	p->ret += twheel_forward(&p->t, twheel_now(p->f->wheel), p->arg);
	twheel_arm(&p->t, p->t.expires);
}

/**
 * struct repetition - how a timeout with an interval of 5 ticks goes on after a stall
 * @name: for messages
 * @then: arms the timeout again
 * @ret: what that returns by the end of the stall, at tick 1000: intervals in all, or 0
 * @after: the tick at which it fires then
 */
struct repetition {
	const char	*name;
	void		(*then)(struct probe *p);
	int		ret;
	u64		after;
};

static const struct repetition repetitions[] = {
	{ "fixed rate, which keeps its phase", forward, 200, 1003 },
	{ "fixed delay, counted from the callback", rearm, 0, 1005 },
};

static void check_repetition(struct kunit *test, const struct repetition *r)
{
	struct probe *p;

	layout_wheel(test, MS);
	p = probes(test, 1);
	p->then = r->then;
	p->arg = 5 * MS;
	arm_tick(test, p, 3);
	expect_fires_at(test, p, 3);
	expect_fires_at(test, p, 8);
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ_MSG(test, 3U, p->fired, "%s", r->name);
	KUNIT_EXPECT_EQ_MSG(test, r->ret, p->ret, "%s", r->name);
	expect_fires_at(test, p, r->after);
	expect_fires_at(test, p, r->after + 5);
}

static void timeout_repeats_as_its_callback_says_after_a_stall(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(repetitions); i++)
		check_repetition(test, &repetitions[i]);
}

static struct kunit_case literature_cases[] = {
	KUNIT_CASE_PARAM(example_of_a_hierarchy, example_gen_params),
	KUNIT_CASE_PARAM(example_of_a_hashed_wheel, example_gen_params),
	KUNIT_CASE(fifty_slots_become_64),
	KUNIT_CASE_PARAM(delay_beyond_the_wheel_length_repeats, layout_gen_params),
	KUNIT_CASE_PARAM(pending_timeouts_are_counted_when_one_is_cancelled_in_its_tick,
			 layout_gen_params),
	KUNIT_CASE_PARAM(stop_returns_what_has_neither_fired_nor_been_cancelled, layout_gen_params),
	KUNIT_CASE_PARAM(longest_delay_does_not_overflow, layout_gen_params),
	KUNIT_CASE_PARAM(tasks_come_out_in_the_order_of_expiration, layout_gen_params),
	KUNIT_CASE_PARAM(timeout_repeats_as_its_callback_says_after_a_stall, layout_gen_params),
	{}
};

static struct kunit_suite literature_suite = {
	.name = "twheel-literature",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = literature_cases,
};

module_test_suite(literature_suite);

MODULE_DESCRIPTION("KUnit suite of the literature's examples and of other timers' tests");
MODULE_LICENSE("GPL");
