// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the counters: the counts of each operation, the identity after each
 * operation, and the histogram of lateness.
 */
#include <linux/fs.h>
#include <linux/kmsg_dump.h>
#include <linux/ktime.h>
#include <linux/module.h>

#include "fixture.h"
#include "helper.h"
#include "kind.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)
#define MANY		1000

/* Not inline: the counters are more than half a kilobyte of stack. */
static noinline struct twheel_counters stats_of(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, stats.armed,
			stats.cancelled + stats.fired + stats.stopped + stats.pending);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	return stats;
}

/* The counters have changed by these numbers since @before, which becomes the current state. */
static void expect_counts(struct kunit *test, struct twheel_counters *before, u64 armed,
			  u64 rearmed, u64 cancelled, u64 fired)
{
	struct twheel_counters now = stats_of(test);

	KUNIT_EXPECT_EQ(test, armed, now.armed - before->armed);
	KUNIT_EXPECT_EQ(test, rearmed, now.rearmed - before->rearmed);
	KUNIT_EXPECT_EQ(test, cancelled, now.cancelled - before->cancelled);
	KUNIT_EXPECT_EQ(test, fired, now.fired - before->fired);
	*before = now;
}

/* Operations */

static void new_wheel_has_done_nothing(struct kunit *test)
{
	struct twheel_counters stats;

	manual_wheel(test, TICK, 4, 3);
	stats = stats_of(test);
	KUNIT_EXPECT_NE(test, 0U, stats.shards);
	stats.shards = 0;
	KUNIT_EXPECT_NULL(test, memchr_inv(&stats, 0, sizeof(stats)));
}

static void each_operation_is_counted(struct kunit *test)
{
	struct twheel_counters stats = { };
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	twheel_arm(&p->t, 10 * TICK);
	expect_counts(test, &stats, 1, 0, 0, 0);
	twheel_mod(&p->t, 20 * TICK);
	expect_counts(test, &stats, 1, 1, 1, 0);
	twheel_cancel(&p->t);
	expect_counts(test, &stats, 0, 0, 1, 0);
	twheel_mod(&p->t, 30 * TICK);
	expect_counts(test, &stats, 1, 0, 0, 0);
	twheel_cancel_sync(&p->t);
	expect_counts(test, &stats, 0, 0, 1, 0);
	twheel_arm_after(&p->t, TICK);
	expect_counts(test, &stats, 1, 0, 0, 0);
	advance_tick(test, 30);
	expect_counts(test, &stats, 0, 0, 0, 1);
	twheel_arm_slack(&p->t, 40 * TICK, 5 * TICK);
	expect_counts(test, &stats, 1, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.pending);
}

static void what_is_refused_is_not_counted(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);
	struct twheel_counters stats = { };
	LIST_HEAD(list);

	twheel_arm(&p[0].t, 10 * TICK);
	stats = stats_of(test);
	twheel_arm(&p[0].t, 20 * TICK);
	twheel_arm(&p[1].t, U64_MAX);
	twheel_mod(&p[0].t, U64_MAX);
	twheel_arm_slack(&p[1].t, 0, U64_MAX);
	twheel_cancel(&p[1].t);
	twheel_cancel_sync(&p[1].t);
	expect_counts(test, &stats, 0, 0, 0, 0);
	twheel_stop(f->wheel, collect, &list);
	stats = stats_of(test);
	twheel_arm(&p[1].t, 10 * TICK);
	twheel_mod(&p[0].t, 10 * TICK);
	expect_counts(test, &stats, 0, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.stopped);
}

static void nothing(struct twheel_periodic *p)
{
}

/* A missed deadline does not count as fired. */
static void each_period_is_armed_and_fired(struct kunit *test)
{
	struct twheel_periodic *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct twheel_counters stats = { };
	struct fixture *f;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, p);
	f = manual_wheel(test, TICK, 4, 3);
	twheel_periodic_init(f->wheel, p, nothing, kind_of(test));
	twheel_arm_periodic(p, 5 * TICK, 5 * TICK, 0);
	expect_counts(test, &stats, 1, 0, 0, 0);
	for (i = 5; i < 50; i += 5) {
		advance_tick(test, i);
		expect_counts(test, &stats, 1, 0, 0, 1);
	}
	advance_tick(test, 500);
	expect_counts(test, &stats, 1, 0, 0, 1);
	twheel_cancel(&p->t);
	expect_counts(test, &stats, 0, 0, 1, 0);
}

static void last_period_is_not_armed_again(struct kunit *test)
{
	struct twheel_periodic *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct twheel_counters stats = { };
	struct fixture *f;

	KUNIT_ASSERT_NOT_NULL(test, p);
	f = manual_wheel(test, TICK, 4, 3);
	twheel_periodic_init(f->wheel, p, nothing, kind_of(test));
	twheel_arm_periodic(p, 5 * TICK, 5 * TICK, 2);
	advance_tick(test, 5);
	expect_counts(test, &stats, 2, 0, 0, 1);
	advance_tick(test, 10);
	expect_counts(test, &stats, 0, 0, 0, 1);
}

static void stop_counts_what_it_hands_back(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 300);
	struct twheel_counters stats = { };
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 300; i++)
		arm_tick(test, &p[i], i + 1);
	advance_tick(test, 100);
	expect_counts(test, &stats, 300, 0, 0, 100);
	twheel_stop(f->wheel, collect, &list);
	expect_counts(test, &stats, 0, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 200ULL, stats.stopped);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
}

/* Cascades */

/* Ticks in a wheel of 3 levels with 4 slots, seen from tick 0. */
static const u64 descents[] = { 1, 3, 4, 15, 16, 17, 21, 63, 64, 69, 1000, 1023 };

static void descent_desc(const u64 *tick, char *desc)
{
	sprintf(desc, "tick %llu", *tick);
}

KUNIT_ARRAY_PARAM(descent, descents, descent_desc);

/* A timeout cascades once for each level above level 0: no level is skipped. */
static void each_level_is_one_cascade(struct kunit *test)
{
	const u64 tick = *(const u64 *)test->param_value;
	struct twheel_position pos;
	struct twheel_counters stats;
	struct probe *p;
	u64 i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, tick);
	KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
	for (i = 1; i <= tick; i++)
		advance_tick(test, i);
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, (u64)pos.level, stats.cascaded);
}

static void one_level_never_cascades(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 1);
	p = probes(test, 100);
	for (i = 0; i < 100; i++)
		arm_tick(test, &p[i], 1 + i * 7);
	for (i = 1; i <= 700; i++)
		advance_tick(test, i);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(test).cascaded);
	KUNIT_EXPECT_EQ(test, 100ULL, stats_of(test).fired);
}

static void occupied_slots_are_counted_by_level(struct kunit *test)
{
	static const u64 ticks[] = { 1, 3, 3, 5, 14, 20, 21, 1000 };
	struct twheel_counters stats;
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, ARRAY_SIZE(ticks));
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_tick(test, &p[i], ticks[i]);
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 2U, stats.occupied[0]);
	KUNIT_EXPECT_EQ(test, 2U, stats.occupied[1]);
	KUNIT_EXPECT_EQ(test, 2U, stats.occupied[2]);
	KUNIT_EXPECT_EQ(test, 0U, stats.occupied[3]);
	KUNIT_EXPECT_GE(test, stats.shards, 1U);
	advance_tick(test, 1000);
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 0U, stats.occupied[0] + stats.occupied[1] + stats.occupied[2]);
}

/* Batches and wakeups */

static noinline u64 largest_batch(struct kunit *test)
{
	return stats_of(test).largest_batch;
}

static void largest_batch_is_the_largest(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, 20);
	for (i = 0; i < 20; i++)
		arm_tick(test, &p[i], i < 3 ? 10 : i < 13 ? 20 : 30);
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 3ULL, largest_batch(test));
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 10ULL, largest_batch(test));
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 10ULL, largest_batch(test));
}

static void batch_is_bounded(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 10);
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, (u64)MANY, stats_of(test).fired);
	KUNIT_EXPECT_LE(test, stats_of(test).largest_batch, 128ULL);
}

static void manual_wheel_wakes_nobody(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 10);
	for (i = 0; i < 10; i++)
		arm_tick(test, &p[i], 10 * i);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(test).wakeups);
}

static struct fixture *running_wheel(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-stats", .clock = TWHEEL_MONOTONIC };

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return test->priv;
}

static void distant_timeout_wakes_nobody(struct kunit *test)
{
	struct probe *p;

	running_wheel(test);
	msleep(20);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(test).wakeups);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, FAR));
	msleep(300);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(test).wakeups);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
}

/* A timeout in 700 ms is on level 1. Its cascade causes no wakeup of its own. */
static void lonely_timeout_wakes_once(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	running_wheel(test);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 700 * TICK));
	for (i = 0; i < 1000 && !READ_ONCE(p->fired); i++)
		msleep(20);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(test).wakeups);
}

/* Lateness */

/* Set the module parameter lateness of the engine through sysfs. */
static bool count_lateness(bool on)
{
	struct file *file = filp_open("/sys/module/twheel/parameters/lateness", O_WRONLY, 0);
	const char *value = on ? "Y" : "N";
	loff_t pos = 0;
	ssize_t ret;

	if (IS_ERR(file))
		return false;
	ret = kernel_write(file, value, 1, &pos);
	filp_close(file, NULL);
	return ret == 1;
}

static void stats_exit(struct kunit *test)
{
	count_lateness(false);
	fixture_exit(test);
}

struct late {
	u64 by;
	unsigned int bucket;
};

static const struct late lates[] = {
	{ 0, 0 }, { 1, 1 }, { 2, 2 }, { 3, 2 }, { 4, 3 }, { 7, 3 }, { 8, 4 },
	{ 1023, 10 }, { 1024, 11 }, { 999999, 20 }, { NSEC_PER_SEC, 30 },
	{ (1ULL << 38) - 1, 38 }, { 1ULL << 38, 39 }, { 1ULL << 39, 39 },
	{ 1ULL << 50, 39 }, { 1ULL << 62, 39 },
};

static void late_desc(const struct late *l, char *desc)
{
	sprintf(desc, "%llu ns", l->by);
}

KUNIT_ARRAY_PARAM(late, lates, late_desc);

static void lateness_is_counted_by_its_power_of_two(struct kunit *test)
{
	const struct late *l = test->param_value;
	struct twheel_counters stats;
	struct probe *p;
	unsigned int i;

	if (!count_lateness(true))
		kunit_skip(test, "the parameter cannot be written");
	manual_wheel(test, 1, 256, 4);
	p = probes(test, 1);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, 1000));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(p->f->wheel, 1000 + l->by));
	stats = stats_of(test);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		KUNIT_EXPECT_EQ(test, i == l->bucket ? 1ULL : 0ULL, stats.lateness[i]);
}

/* Lateness counts from the requested deadline, so it includes rounding and slack. */
static void lateness_is_that_of_the_deadline(struct kunit *test)
{
	struct twheel_counters stats;
	struct probe *p;

	if (!count_lateness(true))
		kunit_skip(test, "the parameter cannot be written");
	manual_wheel(test, 1024, 256, 4);
	p = probes(test, 2);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, 1024 * 10 - 100));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(p->f->wheel, 1024 * 10));
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.lateness[7]);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p[1].t, 1024 * 33, 1024 * 31));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(p->f->wheel, 1024 * 64));
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.lateness[15]);
}

static void lateness_is_not_counted_when_it_is_off(struct kunit *test)
{
	struct twheel_counters stats;
	struct probe *p;
	unsigned int i;

	count_lateness(false);
	manual_wheel(test, 1, 256, 4);
	p = probes(test, 1);
	arm_tick(test, p, 10);
	advance_tick(test, 100);
	stats = stats_of(test);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		KUNIT_EXPECT_EQ(test, 0ULL, stats.lateness[i]);
}

static void take_all(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del_init(&t->entry);
		twheel_accept(t);
	}
}

static void lateness_of_a_whole_batch_is_counted(struct kunit *test)
{
	struct twheel_params params = {
		.name = "kunit-stats-sink", .clock = TWHEEL_MANUAL, .tick_ns = 1,
		.sink = take_all,
	};
	struct twheel_counters stats;
	struct probe *p;
	unsigned int i;
	u64 sum = 0;

	if (!count_lateness(true))
		kunit_skip(test, "the parameter cannot be written");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes_for(test, MANY, NULL);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], MANY - i);
	advance_tick(test, MANY);
	stats = stats_of(test);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.lateness[0]);
	KUNIT_EXPECT_EQ(test, 256ULL, stats.lateness[9]);
	KUNIT_EXPECT_EQ(test, MANY - 512ULL, stats.lateness[10]);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		sum += stats.lateness[i];
	KUNIT_EXPECT_EQ(test, (u64)MANY, sum);
}

/* The warning of too many wheels */

/* The default of warn_wheels. */
#define WHEELS		64

static unsigned int lines_with(const char *text)
{
	static char line[256];
	struct kmsg_dump_iter iter;
	unsigned int n = 0;
	size_t len;

	kmsg_dump_rewind(&iter);
	while (kmsg_dump_get_line(&iter, false, line, sizeof(line), &len))
		n += !!strnstr(line, text, len);
	return n;
}

static void make_small_wheels(struct kunit *test, bool account)
{
	struct twheel_params params = {
		.name = "kunit-small", .clock = TWHEEL_MANUAL, .slots = 2, .levels = 1,
		.account = account,
	};
	struct twheel *wheel[WHEELS + 2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wheel); i++)
		wheel[i] = twheel_create(&params);
	for (i = 0; i < ARRAY_SIZE(wheel); i++) {
		KUNIT_EXPECT_FALSE(test, IS_ERR(wheel[i]));
		twheel_destroy(wheel[i]);
	}
}

static void wheels_that_are_accounted_are_not_warned_of(struct kunit *test)
{
	unsigned int before = lines_with(" wheels: share one");

	make_small_wheels(test, true);
	KUNIT_EXPECT_EQ(test, before, lines_with(" wheels: share one"));
}

/* The first wheel above the limit causes the warning. Any code may have made the others. */
static void too_many_wheels_are_warned_of_once(struct kunit *test)
{
	if (lines_with(" wheels: share one"))
		kunit_skip(test, "the kernel has already warned");
	make_small_wheels(test, false);
	KUNIT_EXPECT_EQ(test, 1U, lines_with("twheel: 65 wheels: share one"));
	KUNIT_EXPECT_EQ(test, 1U, lines_with(" wheels: share one"));
}

static struct kunit_case stats_cases[] = {
	KUNIT_CASE(new_wheel_has_done_nothing),
	KUNIT_CASE(each_operation_is_counted),
	KUNIT_CASE(what_is_refused_is_not_counted),
	KUNIT_CASE_PARAM(each_period_is_armed_and_fired, kind_gen_params),
	KUNIT_CASE_PARAM(last_period_is_not_armed_again, kind_gen_params),
	KUNIT_CASE(stop_counts_what_it_hands_back),
	KUNIT_CASE_PARAM(each_level_is_one_cascade, descent_gen_params),
	KUNIT_CASE(one_level_never_cascades),
	KUNIT_CASE(occupied_slots_are_counted_by_level),
	KUNIT_CASE(largest_batch_is_the_largest),
	KUNIT_CASE(batch_is_bounded),
	KUNIT_CASE(manual_wheel_wakes_nobody),
	KUNIT_CASE(distant_timeout_wakes_nobody),
	KUNIT_CASE(lonely_timeout_wakes_once),
	KUNIT_CASE_PARAM(lateness_is_counted_by_its_power_of_two, late_gen_params),
	KUNIT_CASE(lateness_is_that_of_the_deadline),
	KUNIT_CASE(lateness_is_not_counted_when_it_is_off),
	KUNIT_CASE(lateness_of_a_whole_batch_is_counted),
	KUNIT_CASE(wheels_that_are_accounted_are_not_warned_of),
	KUNIT_CASE(too_many_wheels_are_warned_of_once),
	{}
};

static struct kunit_suite stats_suite = {
	.name = "twheel-stats",
	.init = fixture_init,
	.exit = stats_exit,
	.test_cases = stats_cases,
};

module_test_suite(stats_suite);

MODULE_DESCRIPTION("KUnit suite of the counters of a timing wheel");
MODULE_LICENSE("GPL");
