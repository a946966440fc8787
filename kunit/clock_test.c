// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite on running clocks.
 *
 * It needs no precise timing: it checks that nothing fires early, and it waits as long as a
 * slow machine may take. On the MANUAL clock the wheel's own thread has no work. This suite
 * tests that the thread wakes, runs callbacks, and is waited for.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define MS		((u64)NSEC_PER_MSEC)

/**
 * struct sleeper - a timeout whose callback the test waits for
 * @t: the timeout
 * @wheel: its wheel
 * @began: completed when the callback begins
 * @fired: how often it has begun
 * @fired_ns: the wheel's time when it last began
 * @expires: deadline that the test armed it for
 * @lasts_ms: duration of the callback: a worker sleeps, the thread spins
 * @released: ends the callback before that
 * @rounds: number of times that it still arms itself
 * @done: set when the callback ends
 */
struct sleeper {
	struct twheel_timeout	t;
	struct twheel		*wheel;
	struct completion	began;
	atomic_t		fired;
	u64			fired_ns;
	u64			expires;
	unsigned int		lasts_ms;
	bool			released;
	unsigned int		rounds;
	bool			done;
};

static void sleeper_fires(struct twheel_timeout *t)
{
	struct sleeper *s = container_of(t, struct sleeper, t);
	unsigned int ms;

	WRITE_ONCE(s->done, false);
	s->fired_ns = twheel_now(s->wheel);
	atomic_inc(&s->fired);
	complete(&s->began);
	for (ms = 0; ms < s->lasts_ms && !READ_ONCE(s->released); ms += 20) {
		if (current->flags & PF_WQ_WORKER)
			msleep(20);
		else
			mdelay(20);
	}
	if (s->rounds) {
		s->rounds--;
		twheel_arm_after(t, 2 * MS);
	}
	WRITE_ONCE(s->done, true);
}

static struct sleeper *sleepers(struct kunit *test, enum twheel_clock clock, unsigned int n)
{
	struct fixture *f = test->priv;
	struct twheel_params params = { .name = "kunit-clock", .clock = clock };
	struct sleeper *s = kunit_kcalloc(test, n, sizeof(*s), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	for (i = 0; i < n; i++) {
		s[i].wheel = f->wheel;
		init_completion(&s[i].began);
		twheel_timeout_init(f->wheel, &s[i].t, sleeper_fires);
	}
	return s;
}

static void expect_begins(struct kunit *test, struct sleeper *s)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&s->began, PATIENCE), 0UL);
}

struct clock_case {
	const char *name;
	enum twheel_clock clock;
	u64 (*now)(void);
};

static u64 monotonic(void)
{
	return ktime_get_ns();
}

static u64 boottime(void)
{
	return ktime_get_boottime_ns();
}

static const struct clock_case clocks[] = {
	{ "monotonic", TWHEEL_MONOTONIC, monotonic },
	{ "boottime", TWHEEL_BOOTTIME, boottime },
};

static void clock_desc(const struct clock_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(clock, clocks, clock_desc);

static void wheel_follows_its_clock(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct sleeper *s = sleepers(test, c->clock, 1);
	u64 before = c->now();
	u64 now = twheel_now(s->wheel);

	KUNIT_EXPECT_GE(test, now, before);
	KUNIT_EXPECT_LE(test, now, c->now());
}

static void relative_timeout_fires_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct sleeper *s = sleepers(test, c->clock, 1);
	u64 before = c->now();

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s->t, 20 * MS));
	expect_begins(test, s);
	KUNIT_EXPECT_GE(test, s->fired_ns, before + 20 * MS);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&s->t));
}

static void absolute_timeout_fires_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct sleeper *s = sleepers(test, c->clock, 1);
	u64 expires = c->now() + 20 * MS + 1;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s->t, expires));
	expect_begins(test, s);
	KUNIT_EXPECT_GE(test, s->fired_ns, expires);
}

static void due_timeout_fires_without_another_event(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct sleeper *s = sleepers(test, c->clock, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s[0].t, 0));
	expect_begins(test, &s[0]);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[1].t, 0));
	expect_begins(test, &s[1]);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&s[0].fired));
}

/* The thread sleeps until the later deadline, so the earlier one must wake it. */
static void earlier_timeout_fires_before_one_armed_first(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[0].t, 3600 * (u64)NSEC_PER_SEC));
	msleep(20);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[1].t, 5 * MS));
	expect_begins(test, &s[1]);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&s[0].t));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&s[0].t, twheel_now(s->wheel) + 5 * MS));
	expect_begins(test, &s[0]);
}

/* 300 ms and 600 ms are beyond level 0 of the default wheel, so these timeouts cascade. */
static void timeouts_on_several_levels_fire_and_not_early(struct kunit *test)
{
	static const unsigned int delays[] = { 1, 100, 255, 256, 300, 600 };
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, ARRAY_SIZE(delays));
	u64 before = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[i].t, delays[i] * MS));
	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		expect_begins(test, &s[i]);
		KUNIT_EXPECT_GE(test, s[i].fired_ns, before + delays[i] * MS);
		KUNIT_EXPECT_EQ(test, 1, atomic_read(&s[i].fired));
	}
}

/* Timeouts are armed while earlier ones fire, so the cursor is all over the wheel. */
static void random_timeouts_fire_once_and_not_early(struct kunit *test)
{
	enum { NR = 1000 };
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, NR);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < NR; i++) {
		s[i].expires = ktime_get_ns() + prandom_u32_state(&rnd) % (800 * MS);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s[i].t, s[i].expires));
		if (i % 10 == 0)
			usleep_range(1000, 2000);
	}
	for (i = 0; i < NR; i++) {
		expect_begins(test, &s[i]);
		KUNIT_ASSERT_GE(test, s[i].fired_ns, s[i].expires);
	}
	twheel_flush(s->wheel);
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 1, atomic_read(&s[i].fired));
}

static void cancelled_timeout_does_not_fire(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[0].t, 3600 * (u64)NSEC_PER_SEC));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&s[0].t));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[1].t, 5 * MS));
	expect_begins(test, &s[1]);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&s[0].fired));
}

static void callback_can_rearm_itself(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, 1);
	unsigned int i;

	s->rounds = 5;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s->t, 2 * MS));
	for (i = 0; i < 6; i++)
		expect_begins(test, s);
	twheel_cancel_sync(&s->t);
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&s->fired));
}

static void arm_works_with_interrupts_off(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, 1);
	unsigned long flags;
	bool cancelled;
	int armed;

	local_irq_save(flags);
	armed = twheel_arm_after(&s->t, 3600 * (u64)NSEC_PER_SEC);
	cancelled = twheel_cancel(&s->t);
	armed |= twheel_arm_after(&s->t, 2 * MS);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, 0, armed);
	KUNIT_EXPECT_TRUE(test, cancelled);
	expect_begins(test, s);
}

/* Waits for a running callback, in a worker or in the thread of another CPU */

struct runner {
	const char *name;
	bool worker;
};

static const struct runner runners[] = { { "worker", true }, { "thread", false } };

static void runner_desc(const struct runner *r, char *desc)
{
	strscpy(desc, r->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(runner, runners, runner_desc);

/* The callback of the first of @n timeouts has begun and takes @lasts_ms. */
static struct sleeper *begun(struct kunit *test, unsigned int n, unsigned int lasts_ms)
{
	const struct runner *r = test->param_value;
	unsigned int cpu = raw_smp_processor_id(), spare = spare_cpu();
	struct sleeper *s;

	if (!r->worker && spare >= nr_cpu_ids)
		kunit_skip(test, "a spinning thread needs a CPU of its own");
	s = sleepers(test, TWHEEL_MONOTONIC, n);
	s->lasts_ms = lasts_ms;
	if (r->worker)
		twheel_use_workqueue(&s->t);
	else
		run_on(test, spare);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s->t, MS));
	run_on(test, cpu);
	expect_begins(test, s);
	return s;
}

static void cancel_sync_waits_for_the_callback(struct kunit *test)
{
	struct sleeper *s = begun(test, 1, 100);

	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&s->t));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s->done));
}

static void cancel_does_not_wait_for_the_callback(struct kunit *test)
{
	struct sleeper *s = begun(test, 1, 10000);

	KUNIT_EXPECT_FALSE(test, twheel_cancel(&s->t));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(s->done));
	WRITE_ONCE(s->released, true);
	twheel_cancel_sync(&s->t);
}

static void cancel_sync_ends_a_timeout_that_rearms_itself(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, 1);
	int fired;

	s->lasts_ms = 20;
	s->rounds = UINT_MAX;
	twheel_use_workqueue(&s->t);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s->t, MS));
	expect_begins(test, s);
	twheel_cancel_sync(&s->t);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s->done));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&s->t));
	fired = atomic_read(&s->fired);
	msleep(50);
	KUNIT_EXPECT_EQ(test, fired, atomic_read(&s->fired));
}

static void flush_waits_for_the_callback(struct kunit *test)
{
	struct sleeper *s = begun(test, 1, 100);

	twheel_flush(s->wheel);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s->done));
}

static void destroy_waits_for_the_callback(struct kunit *test)
{
	struct sleeper *s = begun(test, 2, 200);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&s[1].t, 3600 * (u64)NSEC_PER_SEC));
	twheel_destroy(f->wheel);
	f->wheel = NULL;
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s[0].done));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&s[1].fired));
}

/* Threads on several CPUs, as far as the machine has them */

#define NR_RACERS	4
#define NR_OWN		64
#define NR_RACES	20000

struct racer {
	struct helper helper;
	struct sleeper *own;
	u32 seed;
	unsigned int armed, cancelled;
};

static void race(void *arg)
{
	struct racer *r = arg;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, r->seed);
	for (i = 0; i < NR_RACES; i++) {
		struct sleeper *s = &r->own[prandom_u32_state(&rnd) % NR_OWN];

		if (prandom_u32_state(&rnd) % 2)
			r->armed += !twheel_arm_after(&s->t, prandom_u32_state(&rnd) % (3 * MS));
		else
			r->cancelled += twheel_cancel(&s->t);
		if (i % 64 == 0)
			usleep_range(100, 200);
	}
}

static void account_is_exact_when_cancel_races_with_expiry(struct kunit *test)
{
	struct sleeper *s = sleepers(test, TWHEEL_MONOTONIC, NR_RACERS * NR_OWN);
	struct racer *r = kunit_kcalloc(test, NR_RACERS, sizeof(*r), GFP_KERNEL);
	unsigned int i, armed = 0, cancelled = 0, fired = 0;

	KUNIT_ASSERT_NOT_NULL(test, r);
	for (i = 0; i < NR_RACERS; i++) {
		r[i].own = s + i * NR_OWN;
		r[i].seed = i + 1;
		helper_start(test, &r[i].helper, race, &r[i]);
	}
	for (i = 0; i < NR_RACERS; i++)
		helper_finish(test, &r[i].helper);
	for (i = 0; i < NR_RACERS * NR_OWN; i++) {
		cancelled += twheel_cancel_sync(&s[i].t);
		fired += atomic_read(&s[i].fired);
	}
	for (i = 0; i < NR_RACERS; i++) {
		armed += r[i].armed;
		cancelled += r[i].cancelled;
	}
	KUNIT_EXPECT_EQ(test, armed, cancelled + fired);
	KUNIT_EXPECT_GT(test, fired, 0U);
	KUNIT_EXPECT_GT(test, cancelled, 0U);
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE_PARAM(wheel_follows_its_clock, clock_gen_params),
	KUNIT_CASE_PARAM(relative_timeout_fires_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(absolute_timeout_fires_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(due_timeout_fires_without_another_event, clock_gen_params),
	KUNIT_CASE(earlier_timeout_fires_before_one_armed_first),
	KUNIT_CASE(timeouts_on_several_levels_fire_and_not_early),
	KUNIT_CASE(random_timeouts_fire_once_and_not_early),
	KUNIT_CASE(cancelled_timeout_does_not_fire),
	KUNIT_CASE(callback_can_rearm_itself),
	KUNIT_CASE(arm_works_with_interrupts_off),
	KUNIT_CASE_PARAM(cancel_sync_waits_for_the_callback, runner_gen_params),
	KUNIT_CASE_PARAM(cancel_does_not_wait_for_the_callback, runner_gen_params),
	KUNIT_CASE(cancel_sync_ends_a_timeout_that_rearms_itself),
	KUNIT_CASE_PARAM(flush_waits_for_the_callback, runner_gen_params),
	KUNIT_CASE_PARAM(destroy_waits_for_the_callback, runner_gen_params),
	KUNIT_CASE(account_is_exact_when_cancel_races_with_expiry),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "twheel-clock",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = clock_cases,
};

module_test_suite(clock_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels on running clocks");
MODULE_LICENSE("GPL");
