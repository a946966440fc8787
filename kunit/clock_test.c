// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of clocks, and of what is refused.
 *
 * On running clocks it needs no precise timing: it checks that nothing fires early, and it waits
 * as long as a slow machine may take. On the MANUAL clock the wheel's own thread has no work.
 * This suite tests that the thread wakes and runs callbacks.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define MS		((u64)NSEC_PER_MSEC)
#define CLOCK_END	((u64)S64_MAX)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

static void complete_data(struct probe *p)
{
	complete(p->data);
}

/* @n timeouts of a wheel on @clock; each completes a completion of its own when it fires. */
static struct probe *running_probes(struct kunit *test, enum twheel_clock clock, unsigned int n)
{
	struct twheel_params params = { .name = "kunit", .clock = clock };
	struct completion *began;
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes(test, n);
	began = kunit_kcalloc(test, n, sizeof(*began), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, began);
	for (i = 0; i < n; i++) {
		init_completion(&began[i]);
		p[i].data = &began[i];
		p[i].then = complete_data;
	}
	return p;
}

static void expect_begins(struct kunit *test, struct probe *p)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(p->data, PATIENCE), 0UL);
}

/* Running clocks */

static const struct clock_case {
	const char *name;
	enum twheel_clock clock;
	u64 (*now)(void);
} clocks[] = {
	{ "monotonic", TWHEEL_MONOTONIC, ktime_get_ns },
	{ "boottime", TWHEEL_BOOTTIME, ktime_get_boottime_ns },
	{ "realtime", TWHEEL_REALTIME, ktime_get_real_ns },
};

static void clock_desc(const struct clock_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(clock, clocks, clock_desc);

static void wheel_follows_its_clock(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 1);
	u64 before = c->now(), now = twheel_now(p->f->wheel);

	KUNIT_EXPECT_GE(test, now, before);
	KUNIT_EXPECT_LE(test, now, c->now());
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(p->f->wheel, now));
}

static void relative_timeout_fires_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 1);
	u64 before = c->now();

	if (c->clock == TWHEEL_REALTIME) {
		KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&p->t, 20 * MS));
		KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&p->t, 0));
		KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
		return;
	}
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, 20 * MS));
	expect_begins(test, p);
	KUNIT_EXPECT_GE(test, p->fired_ns, before + 20 * MS);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static void absolute_timeout_fires_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 1);
	u64 expires = c->now() + 20 * MS + 1;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, expires));
	expect_begins(test, p);
	KUNIT_EXPECT_GE(test, p->fired_ns, expires);
}

static void due_timeout_fires_without_another_event(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, 0));
	expect_begins(test, &p[0]);
	KUNIT_ASSERT_EQ(test, 0, twheel_mod(&p[1].t, c->now() - 1));
	expect_begins(test, &p[1]);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

/* The wheel sleeps until the later deadline, so the earlier one must wake it. */
static void earlier_timeout_fires_before_one_armed_first(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, c->now() + FAR));
	msleep(20);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[1].t, c->now() + 5 * MS));
	expect_begins(test, &p[1]);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, c->now() + 5 * MS));
	expect_begins(test, &p[0]);
}

/* Timeouts are armed while earlier ones fire, so the cursor is all over the wheel. */
static void random_timeouts_fire_once_and_not_early(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	enum { NR = 1000 };
	struct probe *p = running_probes(test, c->clock, NR);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < NR; i++) {
		p[i].arg = c->now() + prandom_u32_state(&rnd) % (800 * MS);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, p[i].arg));
		if (i % 10 == 0)
			usleep_range(1000, 2000);
	}
	for (i = 0; i < NR; i++) {
		expect_begins(test, &p[i]);
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].arg);
	}
	twheel_flush(p->f->wheel);
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
}

static void arm_works_with_interrupts_off(struct kunit *test)
{
	const struct clock_case *c = test->param_value;
	struct probe *p = running_probes(test, c->clock, 1);
	unsigned long flags;
	bool cancelled;
	int armed;

	local_irq_save(flags);
	armed = twheel_arm(&p->t, c->now() + FAR);
	cancelled = twheel_cancel(&p->t);
	armed |= twheel_arm(&p->t, c->now() + 2 * MS);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, 0, armed);
	KUNIT_EXPECT_TRUE(test, cancelled);
	expect_begins(test, p);
}

/* Refusals: each has its errno and changes nothing */

static const struct bad_params {
	enum twheel_clock clock;
	u64 tick_ns;
	unsigned int slots;
	int error;
} params_cases[] = {
	{ TWHEEL_MANUAL + 1, MS, 256, -EINVAL }, { -1, MS, 256, -EINVAL },
	{ TWHEEL_MANUAL, 86400 * (u64)NSEC_PER_SEC + 1, 256, -EINVAL },
	{ TWHEEL_MANUAL, U64_MAX, 256, -EINVAL }, { TWHEEL_MANUAL, MS, 1, -EINVAL },
	{ TWHEEL_MANUAL, MS, 65537, -EINVAL }, { TWHEEL_MANUAL, MS, UINT_MAX, -EINVAL },
	{ TWHEEL_REALTIME, 1, 2, 0 }, { TWHEEL_MANUAL, 86400 * (u64)NSEC_PER_SEC, 65536, 0 },
};

/* No number of levels is refused. */
static void create_refuses_what_is_out_of_range(struct kunit *test)
{
	static const unsigned int levels[] = { 0, 1, 2, 4, 12, 13, UINT_MAX };
	const struct bad_params *c;
	struct twheel *w;
	unsigned int i;

	for (c = params_cases; c < params_cases + ARRAY_SIZE(params_cases); c++) {
		for (i = 0; i < ARRAY_SIZE(levels); i++) {
			w = twheel_create(&(struct twheel_params){
				.name = "kunit", .clock = c->clock, .tick_ns = c->tick_ns,
				.slots = c->slots, .levels = levels[i],
			});
			KUNIT_EXPECT_EQ(test, c->error, PTR_ERR_OR_ZERO(w));
			twheel_destroy(w);
		}
	}
}

/* A call for a timeout that is idle, or pending for tick 50, of a wheel that may be stopped. */
static const struct refusal {
	const char *name;
	u64 expires, slack;
	bool pending, mod, stopped, shut_down;
	int error;
} refusals[] = {
	{ "arm past the clock", CLOCK_END + 1, .error = -EINVAL },
	{ "arm at U64_MAX", U64_MAX, .error = -EINVAL },
	{ "slack past the clock", MS, CLOCK_END + 1, .error = -EINVAL },
	{ "slack of U64_MAX", MS, U64_MAX, .error = -EINVAL },
	{ "mod past the clock", CLOCK_END + 1, .mod = true, .error = -EINVAL },
	{ "move past the clock", U64_MAX, .mod = true, .pending = true, .error = -EINVAL },
	{ "move with slack past the clock", MS, U64_MAX, true, true, .error = -EINVAL },
	{ "arm of a pending one", 9 * MS, .pending = true, .error = -EBUSY },
	{ "arm with slack of a pending one", 9 * MS, MS, .pending = true, .error = -EBUSY },
	{ "bad arm of a pending one", U64_MAX, .pending = true, .error = -EINVAL },
	{ "arm when stopped", MS, .stopped = true, .error = -ESHUTDOWN },
	{ "mod when stopped", MS, .mod = true, .stopped = true, .error = -ESHUTDOWN },
	{ "bad arm when stopped", U64_MAX, .stopped = true, .error = -EINVAL },
	{ "arm when shut down", MS, .shut_down = true, .error = -ESHUTDOWN },
	{ "mod when shut down", MS, .mod = true, .shut_down = true, .error = -ESHUTDOWN },
};

static void refusal_desc(const struct refusal *r, char *desc)
{
	strscpy(desc, r->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refusal, refusals, refusal_desc);

static int call_to_refuse(const struct refusal *r, struct twheel_timeout *t)
{
	if (r->mod)
		return r->slack ? twheel_mod_slack(t, r->expires, r->slack) :
				  twheel_mod(t, r->expires);
	return r->slack ? twheel_arm_slack(t, r->expires, r->slack) : twheel_arm(t, r->expires);
}

static void refused_call_changes_nothing(struct kunit *test)
{
	const struct refusal *r = test->param_value;
	struct fixture *f = manual_wheel(test, MS, 256, 0);
	struct twheel_counters before, after;
	struct probe *p = probes(test, 1);
	struct twheel_timeout copy;

	if (r->pending)
		arm_tick(test, p, 50);
	if (r->stopped)
		twheel_stop(f->wheel, NULL, NULL);
	if (r->shut_down)
		twheel_shutdown(&p->t);
	twheel_stats(f->wheel, &before);
	copy = p->t;
	KUNIT_EXPECT_EQ(test, r->error, call_to_refuse(r, &p->t));
	if (!r->mod && !r->slack && r->error == -EINVAL)
		KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&p->t, r->expires));
	twheel_stats(f->wheel, &after);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(after)));
	KUNIT_EXPECT_EQ(test, 0, memcmp(&copy, &p->t, sizeof(copy)));
	advance_tick(test, 49);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, (unsigned int)r->pending, p->fired);
}

static void manual_clock_moves_only_by_twheel_advance(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, MS, 256, 0);

	KUNIT_EXPECT_EQ(test, 0ULL, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, 7));
	msleep(20);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(f->wheel, CLOCK_END + 1));
	KUNIT_EXPECT_EQ(test, 7ULL, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, 5));
	KUNIT_EXPECT_EQ(test, 5ULL, twheel_now(f->wheel));
}

static void advance_in_callback(struct probe *p)
{
	p->ret = twheel_advance(p->f->wheel, 100 * MS);
}

static void advance_from_a_callback_is_refused(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, MS, 256, 0);
	struct probe *p = probes(test, 1);

	p->then = advance_in_callback;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, -EDEADLK, p->ret);
	KUNIT_EXPECT_EQ(test, 3 * MS, twheel_now(f->wheel));
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE_PARAM(wheel_follows_its_clock, clock_gen_params),
	KUNIT_CASE_PARAM(relative_timeout_fires_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(absolute_timeout_fires_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(due_timeout_fires_without_another_event, clock_gen_params),
	KUNIT_CASE_PARAM(earlier_timeout_fires_before_one_armed_first, clock_gen_params),
	KUNIT_CASE_PARAM(random_timeouts_fire_once_and_not_early, clock_gen_params),
	KUNIT_CASE_PARAM(arm_works_with_interrupts_off, clock_gen_params),
	KUNIT_CASE(create_refuses_what_is_out_of_range),
	KUNIT_CASE_PARAM(refused_call_changes_nothing, refusal_gen_params),
	KUNIT_CASE(manual_clock_moves_only_by_twheel_advance),
	KUNIT_CASE(advance_from_a_callback_is_refused),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "twheel-clock",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = clock_cases,
};

module_test_suite(clock_suite);

MODULE_DESCRIPTION("KUnit suite of the clocks of timing wheels, and of what is refused");
MODULE_LICENSE("GPL");
