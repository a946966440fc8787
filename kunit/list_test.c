// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of twheel_arm_list(), twheel_mod_list() and twheel_cancel_list(). They have the
 * same effect as single calls in the order of the list.
 */
#include <linux/module.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define MANY		1000

/* Lengths around powers of two: one lock hold may cover so many. */
static const unsigned int lengths[] = { 1, 2, 3, 63, 64, 65, 127, 128, 129, 256, 257, 1000 };

static void length_desc(const unsigned int *n, char *desc)
{
	sprintf(desc, "%u", *n);
}

KUNIT_ARRAY_PARAM(length, lengths, length_desc);

static unsigned int length_of(struct kunit *test)
{
	return *(const unsigned int *)test->param_value;
}

static void link_probe(struct list_head *list, struct probe *p, u64 tick)
{
	p->tick = tick;
	p->t.expires = tick * p->f->tick_ns;
	list_add_tail(&p->t.entry, list);
}

static struct twheel_timeout **array_of(struct kunit *test, struct probe *p, unsigned int n)
{
	struct twheel_timeout **array = kunit_kcalloc(test, n, sizeof(*array), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, array);
	for (i = 0; i < n; i++)
		array[i] = &p[i].t;
	return array;
}

/* Arming */

static void arm_list_arms_all_for_one_tick_in_order(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	unsigned int n = length_of(test), i;
	struct probe *p = probes(test, n);
	LIST_HEAD(list);

	for (i = 0; i < n; i++)
		link_probe(&list, &p[i], 50);
	KUNIT_EXPECT_EQ(test, n, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	advance_tick(test, 49);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 50);
	expect_fired_in_id_order(test, n);
}

static void arm_list_arms_each_for_its_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	unsigned int n = length_of(test), i, j;
	struct probe *p = probes(test, n);
	LIST_HEAD(list);

	for (i = 0; i < n; i++)
		link_probe(&list, &p[i], 1 + (i * 37) % 100);
	KUNIT_EXPECT_EQ(test, n, arm_linked(f->wheel, &list));
	for (j = 1; j <= 100; j++) {
		advance_tick(test, j);
		for (i = 0; i < n; i++)
			KUNIT_ASSERT_EQ(test, p[i].tick <= j ? 1U : 0U, p[i].fired);
	}
}

static void arm_list_of_none_arms_none(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	LIST_HEAD(list);

	KUNIT_EXPECT_EQ(test, 0U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
}

static void arm_list_of_past_deadlines_fires_at_the_next_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);
	LIST_HEAD(list);
	unsigned int i;

	advance_tick(test, 100);
	for (i = 0; i < 3; i++)
		link_probe(&list, &p[i], 50 * i);
	KUNIT_EXPECT_EQ(test, 3U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 101);
	expect_fired_in_id_order(test, 3);
}

static void arm_list_joins_what_was_armed_before(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 4);
	LIST_HEAD(list);

	arm_tick(test, &p[0], 30);
	link_probe(&list, &p[1], 30);
	link_probe(&list, &p[2], 30);
	KUNIT_EXPECT_EQ(test, 2U, arm_linked(f->wheel, &list));
	arm_tick(test, &p[3], 30);
	advance_tick(test, 30);
	expect_fired_in_id_order(test, 4);
}

static void armed_by_a_list_can_be_moved_and_cancelled(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 3; i++)
		link_probe(&list, &p[i], 30);
	KUNIT_EXPECT_EQ(test, 3U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm(&p[0].t, 40 * TICK));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, 40 * TICK));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[1].t));
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 1U, p[2].fired);
	expect_fires_at(test, &p[0], 40);
	KUNIT_EXPECT_EQ(test, 0U, p[1].fired);
}

static void fired_can_be_armed_again_by_a_list(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 200);
	unsigned int round, i;

	for (round = 1; round <= 5; round++) {
		LIST_HEAD(list);

		f->nr_fired = 0;
		for (i = 0; i < 200; i++)
			link_probe(&list, &p[i], 100 * round);
		KUNIT_ASSERT_EQ(test, 200U, arm_linked(f->wheel, &list));
		advance_tick(test, 100 * round);
		expect_fired_in_id_order(test, 200);
	}
}

/* The callback of the first timeout arms the p->arg timeouts from p->other on. */
static void arm_list_of_others(struct probe *p)
{
	LIST_HEAD(list);
	u64 i;

	for (i = 0; i < p->arg; i++)
		link_probe(&list, &p->other[i], 30);
	p->ret = arm_linked(p->f->wheel, &list);
}

static void arm_list_from_a_callback_waits_for_the_next_pass(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 301);

	p[0].then = arm_list_of_others;
	p[0].other = &p[1];
	p[0].arg = 300;
	arm_tick(test, &p[0], 10);
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 300, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
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

static void mod_list_moves_each_to_its_tick(struct kunit *test)
{
	unsigned int n = length_of(test), i, want = 0;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, n);
	u64 *deadlines = deadlines_of(test, n, 0), tick;

	for (i = 0; i < n; i++) {
		arm_tick(test, &p[i], 1 + i * 7 % 300);
		p[i].tick = 400 + i * 11 % 500;
		deadlines[i] = p[i].tick * TICK;
	}
	KUNIT_EXPECT_EQ(test, n, twheel_mod_list(array_of(test, p, n), deadlines, n));
	advance_tick(test, 399);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	for (tick = 400; tick < 900; tick++) {
		advance_tick(test, tick);
		for (i = 0; i < n; i++)
			want += p[i].tick == tick;
		KUNIT_ASSERT_EQ(test, want, f->nr_fired);
	}
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
}

static void mod_list_to_one_tick_keeps_the_order(struct kunit *test)
{
	unsigned int n = length_of(test), i;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, n);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], 1000 - i % 900);
	twheel_mod_list(array_of(test, p, n), deadlines_of(test, n, 50), n);
	advance_tick(test, 50);
	expect_fired_in_id_order(test, n);
}

/* The first two are pending, the third is idle, the fourth is pending. */
static void mod_list_ends_before_one_that_is_not_pending(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 4);
	for (i = 0; i < 4; i++)
		if (i != 2)
			arm_tick(test, &p[i], 10);
	KUNIT_EXPECT_EQ(test, 2U, twheel_mod_list(array_of(test, p, 4),
						  deadlines_of(test, 4, 20), 4));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[2].t));
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired + p[2].fired);
	KUNIT_EXPECT_EQ(test, 1U, p[3].fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
}

static void mod_list_of_none_moves_none(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	KUNIT_EXPECT_EQ(test, 0U, twheel_mod_list(array_of(test, p, 2),
						  deadlines_of(test, 2, 5), 0));
	KUNIT_EXPECT_EQ(test, 0U, twheel_mod_list(array_of(test, p, 2),
						  deadlines_of(test, 2, 5), 2));
}

static void mod_list_of_twice_the_same_moves_it_to_the_last(struct kunit *test)
{
	struct twheel_timeout *array[2];
	u64 deadlines[2] = { 30 * TICK, 20 * TICK };
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	array[0] = &p->t;
	array[1] = &p->t;
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 2U, twheel_mod_list(array, deadlines, 2));
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void mod_list_after_stop_moves_none(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	arm_tick(test, &p[0], 10);
	arm_tick(test, &p[1], 10);
	twheel_stop(f->wheel, NULL, NULL);
	KUNIT_EXPECT_EQ(test, 0U, twheel_mod_list(array_of(test, p, 2),
						  deadlines_of(test, 2, 20), 2));
}

/* Cancelling */

static void cancel_list_takes_all_out(struct kunit *test)
{
	unsigned int n = length_of(test), i;
	struct twheel_timeout **array;
	struct fixture *f;
	struct probe *p;

	f = manual_wheel(test, TICK, 4, 3);
	p = probes(test, n);
	array = array_of(test, p, n);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], 1 + i * 7 % 300);
	KUNIT_EXPECT_EQ(test, n, twheel_cancel_list(array, n));
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_PTR_EQ(test, &p[i].t, array[i]);
		KUNIT_ASSERT_FALSE(test, twheel_pending(&p[i].t));
	}
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
}

static void cancel_list_marks_those_that_were_not_pending(struct kunit *test)
{
	unsigned int n = length_of(test), i, pending = 0;
	struct twheel_timeout **array;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, n);
	array = array_of(test, p, n);
	/* In turn never armed, fired, and pending. */
	for (i = 0; i < n; i++)
		if (i % 3)
			arm_tick(test, &p[i], i % 3 * 50);
	advance_tick(test, 50);
	for (i = 0; i < n; i++)
		pending += i % 3 == 2;
	KUNIT_EXPECT_EQ(test, pending, twheel_cancel_list(array, n));
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_PTR_EQ(test, i % 3 == 2 ? &p[i].t : NULL, array[i]);
	advance_tick(test, 1000);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, i % 3 == 1 ? 1U : 0U, p[i].fired);
}

static void cancel_list_of_none_cancels_none(struct kunit *test)
{
	struct twheel_timeout *array[1] = { NULL };

	manual_wheel(test, TICK, 4, 3);
	KUNIT_EXPECT_EQ(test, 0U, twheel_cancel_list(array, 0));
}

static void cancel_list_of_all_idle_cancels_none(struct kunit *test)
{
	struct twheel_timeout **array;

	manual_wheel(test, TICK, 4, 3);
	array = array_of(test, probes(test, 300), 300);
	KUNIT_EXPECT_EQ(test, 0U, twheel_cancel_list(array, 300));
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[0]);
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[299]);
}

static void cancel_list_of_twice_the_same_counts_it_once(struct kunit *test)
{
	struct twheel_timeout *array[2];
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	array[0] = &p->t;
	array[1] = &p->t;
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 1U, twheel_cancel_list(array, 2));
	KUNIT_EXPECT_PTR_EQ(test, &p->t, array[0]);
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[1]);
}

static void cancelled_by_a_list_can_be_armed_again(struct kunit *test)
{
	struct twheel_timeout **array;
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 200);
	array = array_of(test, p, 200);
	for (i = 0; i < 200; i++)
		arm_tick(test, &p[i], 20);
	KUNIT_ASSERT_EQ(test, 200U, twheel_cancel_list(array, 200));
	for (i = 0; i < 200; i++)
		arm_tick(test, &p[i], 30);
	advance_tick(test, 30);
	expect_fired_in_id_order(test, 200);
}

/* p->arg is the array. */
static void cancel_list_of_others(struct probe *p)
{
	p->ret = twheel_cancel_list((void *)(uintptr_t)p->arg, MANY);
}

/* Some of them have fired, some are due, the rest is still in the slot. */
static void cancel_list_from_a_callback_takes_out_the_rest_of_its_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	struct twheel_timeout **array = array_of(test, p, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	p[200].then = cancel_list_of_others;
	p[200].arg = (uintptr_t)array;
	advance_tick(test, 300);
	KUNIT_EXPECT_EQ(test, MANY - 201, p[200].ret);
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, array[200]);
	KUNIT_EXPECT_PTR_EQ(test, &p[201].t, array[201]);
	expect_fired_in_id_order(test, 201);
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
}

static void never_called(struct twheel_periodic *p)
{
	WARN_ON_ONCE(true);
}

static void cancel_list_ends_periodic_ones(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct twheel_periodic *p = kunit_kcalloc(test, 2, sizeof(*p), GFP_KERNEL);
	struct twheel_timeout *array[2];

	KUNIT_ASSERT_NOT_NULL(test, p);
	twheel_periodic_init(f->wheel, &p[0], never_called, TWHEEL_FIXED_RATE);
	twheel_periodic_init(f->wheel, &p[1], never_called, TWHEEL_FIXED_DELAY);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&p[0], TICK, TICK, 0));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&p[1], TICK, TICK, 0));
	array[0] = &p[0].t;
	array[1] = &p[1].t;
	KUNIT_EXPECT_EQ(test, 2U, twheel_cancel_list(array, 2));
	advance_tick(test, 10);
}

/* Several CPUs, as far as the machine has them; the test moves from one to the next */

static void go_to_next_cpu(void)
{
	unsigned int cpu = cpumask_next(raw_smp_processor_id(), cpu_online_mask);

	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first(cpu_online_mask);
	set_cpus_allowed_ptr(current, cpumask_of(cpu));
}

static void cancel_list_finds_what_was_armed_on_any_cpu(struct kunit *test)
{
	struct twheel_timeout **array;
	struct fixture *f;
	struct probe *p;
	unsigned int i;

	f = manual_wheel(test, TICK, 4, 3);
	p = probes(test, 100);
	array = array_of(test, p, 100);
	for (i = 0; i < 100; i++) {
		arm_tick(test, &p[i], 20);
		if (i % 10 > 5)
			go_to_next_cpu();
	}
	KUNIT_EXPECT_EQ(test, 100U, twheel_cancel_list(array, 100));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
}

static void arm_list_takes_what_was_armed_on_another_cpu_before(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 100);
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 100; i++) {
		arm_tick(test, &p[i], 20);
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[i].t));
		go_to_next_cpu();
	}
	for (i = 0; i < 100; i++)
		link_probe(&list, &p[i], 20);
	KUNIT_EXPECT_EQ(test, 100U, arm_linked(f->wheel, &list));
	advance_tick(test, 20);
	expect_fired_in_id_order(test, 100);
}

static void lists_are_counted_like_single_calls(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 300);
	struct twheel_timeout **array = array_of(test, p, 300);
	struct twheel_counters stats;
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 300; i++)
		link_probe(&list, &p[i], 1 + i);
	KUNIT_ASSERT_EQ(test, 300U, arm_linked(f->wheel, &list));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 200U, twheel_cancel_list(array, 300));
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 300ULL, stats.armed);
	KUNIT_EXPECT_EQ(test, 100ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 200ULL, stats.cancelled);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.rearmed);
}

static struct kunit_case list_cases[] = {
	KUNIT_CASE_PARAM(arm_list_arms_all_for_one_tick_in_order, length_gen_params),
	KUNIT_CASE_PARAM(arm_list_arms_each_for_its_tick, length_gen_params),
	KUNIT_CASE(arm_list_of_none_arms_none),
	KUNIT_CASE(arm_list_of_past_deadlines_fires_at_the_next_tick),
	KUNIT_CASE(arm_list_joins_what_was_armed_before),
	KUNIT_CASE(armed_by_a_list_can_be_moved_and_cancelled),
	KUNIT_CASE(fired_can_be_armed_again_by_a_list),
	KUNIT_CASE(arm_list_from_a_callback_waits_for_the_next_pass),
	KUNIT_CASE_PARAM(mod_list_moves_each_to_its_tick, length_gen_params),
	KUNIT_CASE_PARAM(mod_list_to_one_tick_keeps_the_order, length_gen_params),
	KUNIT_CASE(mod_list_ends_before_one_that_is_not_pending),
	KUNIT_CASE(mod_list_of_none_moves_none),
	KUNIT_CASE(mod_list_of_twice_the_same_moves_it_to_the_last),
	KUNIT_CASE(mod_list_after_stop_moves_none),
	KUNIT_CASE_PARAM(cancel_list_takes_all_out, length_gen_params),
	KUNIT_CASE_PARAM(cancel_list_marks_those_that_were_not_pending, length_gen_params),
	KUNIT_CASE(cancel_list_of_none_cancels_none),
	KUNIT_CASE(cancel_list_of_all_idle_cancels_none),
	KUNIT_CASE(cancel_list_of_twice_the_same_counts_it_once),
	KUNIT_CASE(cancelled_by_a_list_can_be_armed_again),
	KUNIT_CASE(cancel_list_from_a_callback_takes_out_the_rest_of_its_tick),
	KUNIT_CASE(cancel_list_ends_periodic_ones),
	KUNIT_CASE(cancel_list_finds_what_was_armed_on_any_cpu),
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

MODULE_DESCRIPTION("KUnit suite of arming and cancelling many timeouts at once");
MODULE_LICENSE("GPL");
