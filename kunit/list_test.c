// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of twheel_arm_list(), twheel_mod_list() and twheel_cancel_list(). They have the
 * same effect as single calls in the order of the list. The table of the suite state tests
 * them with one timeout in each state.
 */
#include <linux/module.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define MANY		1000

/* A lock hold covers at most 128 timeouts. */
struct length {
	unsigned int	n;
	u32		levels;
};

static const struct length lengths[] = {
	{ 1, 1 }, { 127, 1 }, { 129, 1 }, { MANY, 1 },
	{ 2, 2 }, { 128, 2 }, { 256, 2 }, { 257, 2 }, { MANY, 2 },
};

static void length_desc(const struct length *l, char *desc)
{
	sprintf(desc, "%u, levels = %u", l->n, l->levels);
}

KUNIT_ARRAY_PARAM(length, lengths, length_desc);

/* As many timeouts as the parameter says, and an array of them. */
static struct probe *probes_in(struct kunit *test, struct twheel_timeout ***array,
			       unsigned int *n)
{
	const struct length *l = test->param_value;
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, l ? l->levels : 2);
	*n = l ? l->n : *n;
	p = probes(test, *n);
	*array = kunit_kcalloc(test, *n, sizeof(**array), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *array);
	for (i = 0; i < *n; i++)
		(*array)[i] = &p[i].t;
	return p;
}

static void set_tick(struct probe *p, u64 tick)
{
	p->tick = tick;
	p->t.expires = tick * TICK;
}

/* All have fired: each at its tick, and those of a tick in the order of their ids. */
static void expect_fired_in_order(struct kunit *test, unsigned int n, u64 last)
{
	struct fixture *f = test->priv;
	struct probe *p, *before = NULL;
	unsigned int i;
	u64 tick;

	for (tick = 1; tick <= last; tick++)
		advance_tick(test, tick);
	KUNIT_ASSERT_EQ(test, n, f->nr_fired);
	for (i = 0; i < n; i++) {
		p = f->order[i];
		KUNIT_ASSERT_EQ(test, p->tick * TICK, p->fired_ns);
		if (before && before->tick == p->tick)
			KUNIT_ASSERT_LT(test, before->id, p->id);
		before = p;
	}
}

/* Arming */

static void arm_list_is_like_arms_in_its_order(struct kunit *test)
{
	struct twheel_timeout **array;
	struct probe *p;
	unsigned int n, i;

	p = probes_in(test, &array, &n);
	for (i = 0; i < n; i++)
		set_tick(&p[i], 1 + i * 37 % 100);
	KUNIT_EXPECT_EQ(test, n, twheel_arm_list(p->f->wheel, array, n));
	expect_fired_in_order(test, n, 100);
}

static void arm_list_joins_what_was_armed_before(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = 302, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	for (i = 1; i < 301; i++)
		set_tick(&p[i], 30);
	arm_tick(test, &p[0], 30);
	KUNIT_EXPECT_EQ(test, 300U, twheel_arm_list(p->f->wheel, array + 1, 300));
	arm_tick(test, &p[301], 30);
	expect_fired_in_order(test, 302, 30);
}

static void arm_list_of_past_deadlines_fires_at_the_next_tick(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = 3, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	advance_tick(test, 100);
	for (i = 0; i < 3; i++)
		set_tick(&p[i], 100 - 50 * i);
	KUNIT_EXPECT_EQ(test, 3U, twheel_arm_list(p->f->wheel, array, 3));
	KUNIT_EXPECT_EQ(test, 0U, p->f->nr_fired);
	advance_tick(test, 101);
	expect_fired_in_id_order(test, 3);
}

/* The callback of the first timeout arms the others. */
static void arm_list_of_others(struct probe *p)
{
	p->ret = twheel_arm_list(p->f->wheel, p->data, p->arg);
}

static void arm_list_from_a_callback_waits_for_the_next_pass(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = 301, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	for (i = 1; i < n; i++)
		set_tick(&p[i], 30);
	p->then = arm_list_of_others;
	p->data = array + 1;
	p->arg = 300;
	arm_tick(test, p, 10);
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 300, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->f->nr_fired);
	advance_tick(test, 41);
	expect_fired_in_id_order(test, 301);
}

/* Moving */

static u64 *deadlines_of(struct kunit *test, unsigned int n, u64 tick)
{
	u64 *deadlines = kunit_kcalloc(test, n, sizeof(*deadlines), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, deadlines);
	for (i = 0; i < n; i++)
		deadlines[i] = tick * TICK;
	return deadlines;
}

static void mod_list_is_like_mods_in_its_order(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n, i;
	struct probe *p;
	u64 *deadlines;

	p = probes_in(test, &array, &n);
	deadlines = deadlines_of(test, n, 0);
	for (i = 0; i < n; i++) {
		arm_tick(test, &p[i], 1 + i * 7 % 600);
		p[i].tick = 300 + i * 11 % 50;
		deadlines[i] = p[i].tick * TICK;
	}
	KUNIT_EXPECT_EQ(test, n, twheel_mod_list(array, deadlines, n));
	expect_fired_in_order(test, n, 600);
}

/* The array has 300 timeouts, of which all but one are pending for tick 10. */
static void mod_list_ends_before_one_that_is_not_pending(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = 300, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	for (i = 0; i < n; i++)
		if (i != 200)
			arm_tick(test, &p[i], 10);
	KUNIT_EXPECT_EQ(test, 0U, twheel_mod_list(array, deadlines_of(test, n, 20), 0));
	KUNIT_EXPECT_EQ(test, 200U, twheel_mod_list(array, deadlines_of(test, n, 20), n));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[200].t));
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 99U, p->f->nr_fired);
	advance_tick(test, 20);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, i == 200 ? 0ULL : (i < 200 ? 20 : 10) * TICK, p[i].fired_ns);
}

static void mod_list_of_twice_the_same_moves_it_to_the_last(struct kunit *test)
{
	u64 deadlines[2] = { 30 * TICK, 20 * TICK };
	struct twheel_timeout **array;
	unsigned int n = 2;
	struct probe *p;

	p = probes_in(test, &array, &n);
	array[1] = array[0];
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 2U, twheel_mod_list(array, deadlines, 2));
	expect_fires_at(test, p, 20);
}

/* Cancelling */

/* In turn they were never armed, have fired, and are pending. */
static void cancel_list_marks_those_that_were_not_pending(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	KUNIT_EXPECT_EQ(test, 0U, twheel_cancel_list(array, 0));
	for (i = 0; i < n; i++)
		if (i % 3)
			arm_tick(test, &p[i], i % 3 * 50);
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, n / 3, twheel_cancel_list(array, n));
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_PTR_EQ(test, i % 3 == 2 ? &p[i].t : NULL, array[i]);
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, (n + 1) / 3, p->f->nr_fired);
}

static void cancel_list_of_twice_the_same_counts_it_once(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = 2;
	struct probe *p;

	p = probes_in(test, &array, &n);
	array[1] = array[0];
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 1U, twheel_cancel_list(array, 2));
	KUNIT_EXPECT_PTR_EQ(test, &p->t, array[0]);
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[1]);
}

static void cancel_list_of_others(struct probe *p)
{
	p->ret = twheel_cancel_list(p->data, p->arg);
}

/* Some of them have fired, some are due, the rest is still in the slot. */
static void cancel_list_from_a_callback_takes_out_the_rest_of_its_tick(struct kunit *test)
{
	struct twheel_timeout **array;
	unsigned int n = MANY, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], 300);
	p[200].then = cancel_list_of_others;
	p[200].data = array;
	p[200].arg = n;
	advance_tick(test, 300);
	KUNIT_EXPECT_EQ(test, MANY - 201, p[200].ret);
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[200]);
	KUNIT_EXPECT_PTR_EQ(test, &p[201].t, array[201]);
	expect_fired_in_id_order(test, 201);
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(p->f->wheel));
}

/* Several CPUs, as far as the machine has them; the test moves from one to the next */

static void go_to_next_cpu(struct kunit *test)
{
	unsigned int cpu = cpumask_next(raw_smp_processor_id(), cpu_online_mask);

	run_on(test, cpu < nr_cpu_ids ? cpu : cpumask_first(cpu_online_mask));
}

static struct probe *armed_on_all_cpus(struct kunit *test, struct twheel_timeout ***array,
				       unsigned int n)
{
	struct probe *p = probes_in(test, array, &n);
	unsigned int i;

	for (i = 0; i < n; i++) {
		arm_tick(test, &p[i], 20);
		if (i % 10 > 5)
			go_to_next_cpu(test);
	}
	return p;
}

static void cancel_list_finds_what_was_armed_on_any_cpu(struct kunit *test)
{
	struct twheel_timeout **array;
	struct probe *p = armed_on_all_cpus(test, &array, 100);

	KUNIT_EXPECT_EQ(test, 100U, twheel_cancel_list(array, 100));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p->f->nr_fired);
}

/* A timeout that is moved stays in its shard: there is no order among CPUs. */
static void mod_list_moves_what_was_armed_on_any_cpu(struct kunit *test)
{
	struct twheel_timeout **array;
	struct probe *p = armed_on_all_cpus(test, &array, 100);

	KUNIT_EXPECT_EQ(test, 100U, twheel_mod_list(array, deadlines_of(test, 100, 30), 100));
	advance_tick(test, 29);
	KUNIT_EXPECT_EQ(test, 0U, p->f->nr_fired);
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 100U, p->f->nr_fired);
}

static void arm_list_takes_what_was_armed_on_another_cpu_before(struct kunit *test)
{
	struct twheel_timeout **array;
	struct probe *p = armed_on_all_cpus(test, &array, 100);

	KUNIT_ASSERT_EQ(test, 100U, twheel_cancel_list(array, 100));
	KUNIT_EXPECT_EQ(test, 100U, twheel_arm_list(p->f->wheel, array, 100));
	advance_tick(test, 20);
	expect_fired_in_id_order(test, 100);
}

static void lists_are_counted_like_single_calls(struct kunit *test)
{
	struct twheel_timeout **array;
	struct twheel_counters stats;
	unsigned int n = 300, i;
	struct probe *p;

	p = probes_in(test, &array, &n);
	for (i = 0; i < n; i++)
		set_tick(&p[i], 50 + i);
	KUNIT_EXPECT_EQ(test, n, twheel_arm_list(p->f->wheel, array, n));
	KUNIT_EXPECT_EQ(test, 150U, twheel_mod_list(array, deadlines_of(test, n, 40), 150));
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 150U, twheel_cancel_list(array, n));
	twheel_stats(p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 450ULL, stats.armed);
	KUNIT_EXPECT_EQ(test, 150ULL, stats.rearmed);
	KUNIT_EXPECT_EQ(test, 300ULL, stats.cancelled);
	KUNIT_EXPECT_EQ(test, 150ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
}

static struct kunit_case list_cases[] = {
	KUNIT_CASE_PARAM(arm_list_is_like_arms_in_its_order, length_gen_params),
	KUNIT_CASE(arm_list_joins_what_was_armed_before),
	KUNIT_CASE(arm_list_of_past_deadlines_fires_at_the_next_tick),
	KUNIT_CASE(arm_list_from_a_callback_waits_for_the_next_pass),
	KUNIT_CASE_PARAM(mod_list_is_like_mods_in_its_order, length_gen_params),
	KUNIT_CASE(mod_list_ends_before_one_that_is_not_pending),
	KUNIT_CASE(mod_list_of_twice_the_same_moves_it_to_the_last),
	KUNIT_CASE_PARAM(cancel_list_marks_those_that_were_not_pending, length_gen_params),
	KUNIT_CASE(cancel_list_of_twice_the_same_counts_it_once),
	KUNIT_CASE(cancel_list_from_a_callback_takes_out_the_rest_of_its_tick),
	KUNIT_CASE(cancel_list_finds_what_was_armed_on_any_cpu),
	KUNIT_CASE(mod_list_moves_what_was_armed_on_any_cpu),
	KUNIT_CASE(arm_list_takes_what_was_armed_on_another_cpu_before),
	KUNIT_CASE(lists_are_counted_like_single_calls),
	{}
};

static struct kunit_suite list_suite = {
	.name = "twheel-list",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = list_cases,
};

module_test_suite(list_suite);

MODULE_DESCRIPTION("KUnit suite of arming, moving and cancelling many timeouts at once");
MODULE_LICENSE("GPL");
