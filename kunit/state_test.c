// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the states of wheels and timeouts. It tests which wheels can be created. It
 * tests the results of arm, mod, cancel and the queries for a timeout that is idle, pending
 * on each level, running, or fired. Other suites test when a timeout fires, and the state
 * on the way to a sink.
 */
#include <linux/module.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define DAY_NS		(24ULL * 3600 * NSEC_PER_SEC)
#define CLOCK_END	((u64)S64_MAX)
#define NEGATIVE	(CLOCK_END + 1)

/*
 * Ticks of which each is on another level of a wheel of 3 levels with 4 slots; 1000 is
 * beyond.
 */
static const u64 level_ticks[] = { 3, 13, 50, 1000 };

static struct twheel_counters stats_of(struct fixture *f)
{
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	return stats;
}

/* Creation and the wheel as a whole */

static const struct twheel_params bad_params[] = {
	{ .name = "tick above a day", .clock = TWHEEL_MANUAL, .tick_ns = DAY_NS + 1 },
	{ .name = "negative tick", .clock = TWHEEL_MANUAL, .tick_ns = U64_MAX },
	{ .name = "one slot", .clock = TWHEEL_MANUAL, .slots = 1 },
	{ .name = "slots above the limit", .clock = TWHEEL_MANUAL, .slots = 65537 },
	{ .name = "slots beyond rounding", .clock = TWHEEL_MANUAL, .slots = U32_MAX },
	{ .name = "levels above the limit", .clock = TWHEEL_MANUAL, .levels = 9 },
	{ .name = "negative levels", .clock = TWHEEL_MANUAL, .levels = U32_MAX },
	{ .name = "next clock", .clock = TWHEEL_MANUAL + 1 },
	{ .name = "negative clock", .clock = (enum twheel_clock)-1 },
};

static void params_desc(const struct twheel_params *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bad_param, bad_params, params_desc);

static void create_refuses_bad_parameters(struct kunit *test)
{
	struct twheel *w = fixture_create(test->priv, test->param_value);

	KUNIT_EXPECT_TRUE(test, IS_ERR(w));
	KUNIT_EXPECT_EQ(test, -EINVAL, (int)PTR_ERR_OR_ZERO(w));
}

struct making {
	u64 tick_ns;
	struct shape asked, made;
};

static const struct making makings[] = {
	{ 1, { 2, 1 }, { 2, 1 } },
	{ 1, { 2, 8 }, { 2, 8 } },
	{ DAY_NS, { 50, 1 }, { 64, 1 } },
	{ TICK, { 3, 4 }, { 4, 4 } },
	{ TICK, { 256, 8 }, { 256, 7 } },
	{ TICK, { 65536, 1 }, { 65536, 1 } },
	{ TICK, { 65535, 8 }, { 65536, 3 } },
};

static void making_desc(const struct making *m, char *desc)
{
	shape_desc(&m->asked, desc);
}

KUNIT_ARRAY_PARAM(making, makings, making_desc);

static void get_params_gives_what_was_made(struct kunit *test)
{
	const struct making *m = test->param_value;
	struct fixture *f = manual_wheel(test, m->tick_ns, m->asked.slots, m->asked.levels);
	struct twheel_params params = {};

	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_EQ(test, (int)TWHEEL_MANUAL, (int)params.clock);
	KUNIT_EXPECT_EQ(test, m->tick_ns, params.tick_ns);
	KUNIT_EXPECT_EQ(test, m->made.slots, params.slots);
	KUNIT_EXPECT_EQ(test, m->made.levels, params.levels);
}

static void create_with_zeros_makes_the_default(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, 0, 0, 0);
	struct twheel_params params = {};

	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_EQ(test, TICK, params.tick_ns);
	KUNIT_EXPECT_EQ(test, 256U, params.slots);
	KUNIT_EXPECT_EQ(test, 4U, params.levels);
}

static void create_copies_the_name(struct kunit *test)
{
	char name[] = "first";
	struct twheel_params params = { .name = name, .clock = TWHEEL_MANUAL };
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	strscpy(name, "other", sizeof(name));
	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_STREQ(test, "first", params.name);
}

static void new_wheel_is_empty_at_time_zero(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct twheel_counters stats = stats_of(f);

	KUNIT_EXPECT_EQ(test, 0ULL, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_EQ(test, 0ULL, stats.armed + stats.cancelled + stats.fired +
			stats.stopped + stats.pending + stats.cascaded);
}

static void advance_sets_the_time(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);

	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, 12345));
	KUNIT_EXPECT_EQ(test, 12345ULL, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_now(f->wheel));
}

static void advance_beyond_the_clocks_end_is_einval(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 12345));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(f->wheel, NEGATIVE));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(f->wheel, U64_MAX));
	KUNIT_EXPECT_EQ(test, 12345ULL, twheel_now(f->wheel));
}

static void advance_of_a_running_clock_is_einval(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit", .clock = TWHEEL_MONOTONIC };
	struct twheel *w = fixture_create(test->priv, &params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(w, CLOCK_END));
}

static void advance_again(struct probe *p)
{
	p->ret = twheel_advance(p->f->wheel, p->arg);
}

static void advance_from_own_callback_is_edeadlk(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	p[0].then = advance_again;
	p[0].arg = 9 * TICK;
	arm_tick(test, &p[0], 3);
	arm_tick(test, &p[1], 9);
	advance_tick(test, 4);
	KUNIT_EXPECT_EQ(test, -EDEADLK, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[1].fired);
	KUNIT_EXPECT_EQ(test, 4 * TICK, twheel_now(f->wheel));
}

static void destroy_takes_out_what_is_pending(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, ARRAY_SIZE(level_ticks));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(level_ticks); i++)
		arm_tick(test, &p[i], level_ticks[i]);
	twheel_destroy(f->wheel);
	f->wheel = NULL;
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	for (i = 0; i < ARRAY_SIZE(level_ticks); i++)
		KUNIT_EXPECT_EQ(test, (int)TWHEEL_INACTIVE, (int)p[i].t.state);
}

static void timeout_can_be_initialised_for_the_next_wheel(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 3);
	twheel_destroy(f->wheel);
	f->wheel = NULL;
	manual_wheel(test, TICK, 8, 1);
	twheel_timeout_init(f->wheel, &p->t, probe_fires);
	arm_tick(test, p, 20);
	expect_fires_at(test, p, 20);
}

static void flush_of_an_idle_wheel_returns(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 3);
	twheel_flush(f->wheel);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

/* Times that are refused, and the largest times that are accepted */

static void arm_with_a_negative_time_is_einval(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm(&p->t, NEGATIVE));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm(&p->t, U64_MAX));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&p->t, NEGATIVE));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&p->t, U64_MAX));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod(&p->t, NEGATIVE));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).armed);
}

static void mod_with_a_negative_time_changes_nothing(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 5);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod(&p->t, NEGATIVE));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod(&p->t, U64_MAX));
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).armed);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).cancelled);
	expect_fires_at(test, p, 5);
}

static const struct shape shapes[] = {
	{ 2, 1 }, { 4, 1 }, { 4, 3 }, { 2, 8 }, { 256, 1 }, { 256, 4 }, { 256, 7 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static void last_time_of_the_clock_can_be_armed_and_cancelled(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	struct probe *p = probes(test, 1);

	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p->t, CLOCK_END));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
}

static void last_tick_of_the_clock_fires(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, 1, s->slots, s->levels);
	struct probe *p = probes(test, 1);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, CLOCK_END));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END - 1));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void arm_at_the_clocks_end_stays_pending(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, 1, s->slots, s->levels);
	struct probe *p = probes(test, 1);

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&p->t, 0));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
}

static void relative_sum_is_clamped_to_the_clocks_end(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 1000));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&p[0].t, CLOCK_END));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&p[1].t, CLOCK_END - 1000));
	KUNIT_EXPECT_EQ(test, CLOCK_END - 1000, twheel_remaining_ns(&p[0].t));
	KUNIT_EXPECT_EQ(test, CLOCK_END - 1000, twheel_remaining_ns(&p[1].t));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END - TICK));
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
}

/* Idle */

static void idle_timeout_answers_no(struct kunit *test)
{
	struct twheel_position pos;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_position(&p->t, &pos));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_rounds(&p->t));
}

static void cancel_of_an_idle_timeout_reports_false(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&p->t));
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).cancelled);
}

static void mod_of_an_idle_timeout_arms_it(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_EXPECT_EQ(test, 0, twheel_mod(&p->t, 20 * TICK));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).armed);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).cancelled);
	expect_fires_at(test, p, 20);
}

/* Pending, on each level */

struct level_case {
	u64 tick;
	u32 level;
};

static const struct level_case level_cases[] = {
	{ 3, 0 }, { 13, 1 }, { 50, 2 }, { 1000, 2 },
};

static void level_case_desc(const struct level_case *c, char *desc)
{
	sprintf(desc, "tick %llu on level %u", c->tick, c->level);
}

KUNIT_ARRAY_PARAM(level, level_cases, level_case_desc);

static void pending_timeout_lies_on_its_level(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);
	struct twheel_position pos = {};

	arm_tick(test, p, c->tick);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_TRUE(test, twheel_position(&p->t, &pos));
	KUNIT_EXPECT_EQ(test, c->tick, pos.tick);
	KUNIT_EXPECT_EQ(test, c->level, pos.level);
	KUNIT_EXPECT_EQ(test, pos.rounds, twheel_rounds(&p->t));
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).pending);
}

static void arm_of_a_pending_timeout_is_ebusy(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, c->tick);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm(&p->t, TICK));
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm(&p->t, 2000 * TICK));
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm_after(&p->t, TICK));
	KUNIT_EXPECT_EQ(test, c->tick * TICK, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).armed);
	expect_fires_at(test, p, c->tick);
}

static void cancel_of_a_pending_timeout_reports_true_once(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, c->tick);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).cancelled);
	advance_tick(test, 2 * c->tick);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

static void cancel_sync_of_a_pending_timeout_reports_true_once(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, c->tick);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&p->t));
	advance_tick(test, 2 * c->tick);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

static void cancelled_timeout_can_be_armed_again(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, 2 * c->tick);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	arm_tick(test, p, c->tick);
	expect_fires_at(test, p, c->tick);
}

/* Of the neighbours in slot and tick, three are cancelled; the others stay. */
static void cancel_leaves_the_neighbours(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct probe *p;
	unsigned int i, gone;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 9);
	for (i = 0; i < 9; i++)
		arm_tick(test, &p[i], c->tick);
	for (gone = 0; gone < 3; gone++)
		KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[gone * 4].t));
	advance_tick(test, c->tick);
	for (i = 0; i < 9; i++)
		KUNIT_EXPECT_EQ(test, i % 4 ? 1U : 0U, p[i].fired);
	expect_fired_in_id_order(test, 6);
}

static void mod_moves_from_each_level_to_each(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f;
	struct probe *p;
	unsigned int i;

	f = manual_wheel(test, TICK, 4, 3);
	p = probes(test, ARRAY_SIZE(level_ticks));
	for (i = 0; i < ARRAY_SIZE(level_ticks); i++) {
		arm_tick(test, &p[i], c->tick);
		KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[i].t, level_ticks[i] * TICK));
	}
	KUNIT_EXPECT_EQ(test, 8ULL, stats_of(f).armed);
	KUNIT_EXPECT_EQ(test, 4ULL, stats_of(f).cancelled);
	for (i = 0; i < ARRAY_SIZE(level_ticks); i++)
		expect_fires_at(test, &p[i], level_ticks[i]);
}

/* Running: from its own callback */

static void look_around(struct probe *p)
{
	p->ret = twheel_pending(&p->t) << 0 | twheel_cancel(&p->t) << 1 |
		 (twheel_remaining_ns(&p->t) > 0) << 2;
}

static void running_timeout_is_not_pending(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	p->then = look_around;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_EQ(test, 1ULL, stats_of(f).fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).cancelled);
}

static void arm_again(struct probe *p)
{
	p->then = NULL;
	p->ret = twheel_arm(&p->t, p->arg);
}

static void running_timeout_can_be_armed(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = arm_again;
	p->arg = 20 * TICK;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	expect_fires_at(test, p, 20);
}

static void mod_again(struct probe *p)
{
	p->then = NULL;
	p->ret = twheel_mod(&p->t, p->arg);
}

static void mod_of_a_running_timeout_arms_it(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = mod_again;
	p->arg = 20 * TICK;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	expect_fires_at(test, p, 20);
}

static void arm_and_cancel(struct probe *p)
{
	arm_again(p);
	p->ret |= twheel_arm(&p->t, p->arg) == -EBUSY ? 0 : 1;
	p->ret |= twheel_cancel(&p->t) ? 0 : 2;
}

static void timeout_armed_by_its_callback_can_be_cancelled_there(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = arm_and_cancel;
	p->arg = 20 * TICK;
	p->ret = -1;
	arm_tick(test, p, 3);
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

/* After it has fired */

static void fired_timeout_is_idle(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, c->tick);
	advance_tick(test, c->tick);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&p->t));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void fired_timeout_can_be_armed_again(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, c->tick);
	expect_fires_at(test, p, c->tick);
	arm_tick(test, p, 2 * c->tick);
	expect_fires_at(test, p, 2 * c->tick);
	KUNIT_EXPECT_EQ(test, 0, twheel_mod(&p->t, 3 * c->tick * TICK));
	expect_fires_at(test, p, 3 * c->tick);
}

/* Queries of a pending timeout, and the account */

static void remaining_shrinks_with_time(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct probe *p;
	u64 tick;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, c->tick);
	for (tick = 0; tick < c->tick; tick++) {
		advance_tick(test, tick);
		KUNIT_ASSERT_EQ(test, (c->tick - tick) * TICK, twheel_remaining_ns(&p->t));
	}
}

static void remaining_of_a_past_deadline_is_zero(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[0].t, TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&p[1].t, 0));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[0].t));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p[0].t));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p[1].t));
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
}

static void next_expiry_is_the_tick_of_a_lone_timeout(struct kunit *test)
{
	const struct level_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, c->tick * TICK - 1));
	KUNIT_EXPECT_EQ(test, c->tick * TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, c->tick - 1);
	KUNIT_EXPECT_EQ(test, c->tick * TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, c->tick);
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void next_expiry_is_the_earliest_of_several(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, ARRAY_SIZE(level_ticks));
	int i;

	for (i = ARRAY_SIZE(level_ticks) - 1; i >= 0; i--) {
		arm_tick(test, &p[i], level_ticks[i]);
		KUNIT_EXPECT_EQ(test, level_ticks[i] * TICK, twheel_next_expiry(f->wheel));
	}
	for (i = 0; i < (int)ARRAY_SIZE(level_ticks); i++) {
		KUNIT_EXPECT_EQ(test, level_ticks[i] * TICK, twheel_next_expiry(f->wheel));
		advance_tick(test, level_ticks[i]);
	}
}

/* A slot of the top level holds timeouts of several ticks, not in the order of the ticks. */
static void next_expiry_sees_through_rounds(struct kunit *test)
{
	static const u64 ticks[] = { 52, 20, 36, 12, 44 };
	struct fixture *f = manual_wheel(test, TICK, 8, 1);
	struct probe *p = probes(test, ARRAY_SIZE(ticks));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_tick(test, &p[i], ticks[i]);
	KUNIT_EXPECT_EQ(test, 12 * TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, 12);
	KUNIT_EXPECT_EQ(test, 20 * TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 44 * TICK, twheel_next_expiry(f->wheel));
}

static void next_expiry_after_a_cancel_is_no_later_than_the_next(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	advance_tick(test, 2);
	arm_tick(test, &p[0], 49);
	arm_tick(test, &p[1], 60);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	KUNIT_EXPECT_LE(test, twheel_next_expiry(f->wheel), 60 * TICK);
	KUNIT_EXPECT_GT(test, twheel_next_expiry(f->wheel), 2 * TICK);
	expect_fires_at(test, &p[1], 60);
}

static void account_closes_after_every_kind_of_end(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 8);
	struct twheel_counters stats;
	unsigned int i;

	for (i = 0; i < 8; i++)
		arm_tick(test, &p[i], 10 * i + 3);
	twheel_cancel(&p[7].t);
	twheel_mod(&p[6].t, 500 * TICK);
	advance_tick(test, 33);
	stats = stats_of(f);
	KUNIT_EXPECT_EQ(test, 9ULL, stats.armed);
	KUNIT_EXPECT_EQ(test, 2ULL, stats.cancelled);
	KUNIT_EXPECT_EQ(test, 4ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 3ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.stopped);
}

/* Arming a list */

static void link_probes(struct probe *p, unsigned int n, struct list_head *list)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		list_add_tail(&p[i].t.entry, list);
}

static void arm_list_arms_all_in_their_order(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 200);
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 200; i++)
		p[i].t.expires = 40 * TICK;
	link_probes(p, 200, &list);
	KUNIT_EXPECT_EQ(test, 200U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	KUNIT_EXPECT_EQ(test, 200ULL, stats_of(f).pending);
	advance_tick(test, 39);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 40);
	expect_fired_in_id_order(test, 200);
}

static void arm_list_takes_each_timeouts_own_time(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, ARRAY_SIZE(level_ticks));
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(level_ticks); i++)
		p[i].t.expires = level_ticks[i] * TICK - 1;
	link_probes(p, ARRAY_SIZE(level_ticks), &list);
	KUNIT_EXPECT_EQ(test, 4U, arm_linked(f->wheel, &list));
	for (i = 0; i < ARRAY_SIZE(level_ticks); i++)
		expect_fires_at(test, &p[i], level_ticks[i]);
}

static void arm_list_of_nothing_is_zero(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	LIST_HEAD(list);

	KUNIT_EXPECT_EQ(test, 0U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_EQ(test, 0ULL, stats_of(f).armed);
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE_PARAM(create_refuses_bad_parameters, bad_param_gen_params),
	KUNIT_CASE_PARAM(get_params_gives_what_was_made, making_gen_params),
	KUNIT_CASE(create_with_zeros_makes_the_default),
	KUNIT_CASE(create_copies_the_name),
	KUNIT_CASE(new_wheel_is_empty_at_time_zero),
	KUNIT_CASE(advance_sets_the_time),
	KUNIT_CASE(advance_beyond_the_clocks_end_is_einval),
	KUNIT_CASE(advance_of_a_running_clock_is_einval),
	KUNIT_CASE(advance_from_own_callback_is_edeadlk),
	KUNIT_CASE(destroy_takes_out_what_is_pending),
	KUNIT_CASE(timeout_can_be_initialised_for_the_next_wheel),
	KUNIT_CASE(flush_of_an_idle_wheel_returns),
	KUNIT_CASE(arm_with_a_negative_time_is_einval),
	KUNIT_CASE(mod_with_a_negative_time_changes_nothing),
	KUNIT_CASE_PARAM(last_time_of_the_clock_can_be_armed_and_cancelled, shape_gen_params),
	KUNIT_CASE_PARAM(last_tick_of_the_clock_fires, shape_gen_params),
	KUNIT_CASE_PARAM(arm_at_the_clocks_end_stays_pending, shape_gen_params),
	KUNIT_CASE(relative_sum_is_clamped_to_the_clocks_end),
	KUNIT_CASE(idle_timeout_answers_no),
	KUNIT_CASE(cancel_of_an_idle_timeout_reports_false),
	KUNIT_CASE(mod_of_an_idle_timeout_arms_it),
	KUNIT_CASE_PARAM(pending_timeout_lies_on_its_level, level_gen_params),
	KUNIT_CASE_PARAM(arm_of_a_pending_timeout_is_ebusy, level_gen_params),
	KUNIT_CASE_PARAM(cancel_of_a_pending_timeout_reports_true_once, level_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_of_a_pending_timeout_reports_true_once, level_gen_params),
	KUNIT_CASE_PARAM(cancelled_timeout_can_be_armed_again, level_gen_params),
	KUNIT_CASE_PARAM(cancel_leaves_the_neighbours, level_gen_params),
	KUNIT_CASE_PARAM(mod_moves_from_each_level_to_each, level_gen_params),
	KUNIT_CASE(running_timeout_is_not_pending),
	KUNIT_CASE(running_timeout_can_be_armed),
	KUNIT_CASE(mod_of_a_running_timeout_arms_it),
	KUNIT_CASE(timeout_armed_by_its_callback_can_be_cancelled_there),
	KUNIT_CASE_PARAM(fired_timeout_is_idle, level_gen_params),
	KUNIT_CASE_PARAM(fired_timeout_can_be_armed_again, level_gen_params),
	KUNIT_CASE_PARAM(remaining_shrinks_with_time, level_gen_params),
	KUNIT_CASE(remaining_of_a_past_deadline_is_zero),
	KUNIT_CASE_PARAM(next_expiry_is_the_tick_of_a_lone_timeout, level_gen_params),
	KUNIT_CASE(next_expiry_is_the_earliest_of_several),
	KUNIT_CASE(next_expiry_sees_through_rounds),
	KUNIT_CASE(next_expiry_after_a_cancel_is_no_later_than_the_next),
	KUNIT_CASE(account_closes_after_every_kind_of_end),
	KUNIT_CASE(arm_list_arms_all_in_their_order),
	KUNIT_CASE(arm_list_takes_each_timeouts_own_time),
	KUNIT_CASE(arm_list_of_nothing_is_zero),
	{}
};

static struct kunit_suite state_suite = {
	.name = "twheel-state",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = state_cases,
};

module_test_suite(state_suite);

MODULE_DESCRIPTION("KUnit suite of the states of wheels and timeouts");
MODULE_LICENSE("GPL");
