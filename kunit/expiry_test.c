// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of expiry: when a timeout fires, and in which order.
 *
 * It tests exact expiry at every distance, rounding, and the order across cascades, on
 * hierarchies and on hashed wheels. The suite combination has calls of callbacks, and time that
 * goes backward.
 */
#include <linux/module.h>
#include <linux/sched.h>

#include "fixture.h"
#include "layout.h"
#include "suite.h"

DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)

/* Exactness */

/*
 * Advance to the next tick after @now with the low digits of @phase. If the clock ends less than
 * @distance later, begin with a new wheel and an idle @p.
 */
static u64 enter_phase(struct kunit *test, struct probe *p, u64 now, u64 phase, u64 distance)
{
	u64 unit = 1ULL << fls64(phase + 1), cursor = (now | (unit - 1)) + 1 + phase;

	if (cursor > CLOCK_END - distance) {
		layout_wheel(test, 1);
		twheel_timeout_init(p->f->wheel, &p->t, probe_fires);
		cursor = phase;
	}
	advance_tick(test, cursor);
	return cursor;
}

static void expect_position(struct kunit *test, struct probe *p, u64 cursor)
{
	const struct shape *s = test->param_value;
	u32 level = ref_level(s, p->tick, cursor);
	struct twheel_position pos;

	KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
	KUNIT_ASSERT_EQ(test, p->tick, pos.tick);
	KUNIT_ASSERT_EQ(test, level, pos.level);
	KUNIT_ASSERT_EQ(test, ref_slot(s, p->tick, level), pos.slot);
}

static void fires_at_its_tick_from_every_phase_at_every_distance(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = layout_wheel(test, 1);
	struct probe *p = probes(test, 1);
	u64 phase, distance, now = 0;
	u32 i, j;

	for (i = 0; i < layout_boundaries(s); i += stride) {
		phase = layout_boundary(s, i);
		for (j = 1; j < layout_boundaries(s); j++) {
			distance = layout_distance(s, j);
			if (phase > CLOCK_END - distance)
				break;
			now = enter_phase(test, p, now, phase, distance);
			arm_tick(test, p, now + distance);
			expect_position(test, p, now);
			now += distance;
			KUNIT_ASSERT_EQ(test, now, twheel_next_expiry(f->wheel));
			expect_fires_at(test, p, now);
		}
		cond_resched();
	}
}

/* Arm a timeout at every boundary after @now, up to the end of the clock. Returns the last tick. */
static u64 arm_boundaries(struct kunit *test, struct probe *p, u64 now)
{
	const struct shape *s = test->param_value;
	u64 last = 0;
	u32 i;

	for (i = 0; i < layout_near(s); i++) {
		arm_tick(test, &p[i], min(now + layout_distance(s, i), CLOCK_END));
		last = max(last, p[i].tick);
	}
	return last;
}

/* The order is ascending by tick, and by id within a tick. */
static void expect_ascending(struct kunit *test, unsigned int n)
{
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, n, f->nr_fired);
	for (i = 1; i < n; i++) {
		struct probe *a = f->order[i - 1], *b = f->order[i];

		KUNIT_ASSERT_LE(test, a->tick, b->tick);
		if (a->tick == b->tick)
			KUNIT_ASSERT_LT(test, a->id, b->id);
	}
}

static void boundaries_fire_in_order_in_one_jump(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 phase;
	u32 i;

	for (i = 0; i < layout_near(s); i += stride) {
		layout_wheel(test, 1);
		phase = layout_boundary(s, i);
		advance_tick(test, phase);
		if (phase == CLOCK_END)
			break;
		advance_tick(test, arm_boundaries(test, probes(test, layout_near(s)), phase));
		expect_ascending(test, layout_near(s));
	}
}

/* Of the @n timeouts, those due at tick @now have fired once, and no others have fired. */
static void expect_due_fired(struct kunit *test, struct probe *p, unsigned int n, u64 now)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ_MSG(test, p[i].tick <= now ? 1U : 0U, p[i].fired,
				    "tick %llu at %llu", p[i].tick, now);
}

struct deadline {
	u64 tick_ns, now_ns, expires_ns, tick;
};

static const struct deadline deadlines[] = {
	/* rounding up */
	{ TICK, 0, 1, 1 }, { TICK, 0, TICK - 1, 1 }, { TICK, 0, TICK, 1 }, { TICK, 0, TICK + 1, 2 },
	{ TICK, 0, 5 * TICK - 1, 5 }, { TICK, 0, 5 * TICK + 1, 6 },
	{ 7, 0, 48, 7 }, { 7, 0, 49, 7 }, { 7, 0, 50, 8 }, { 1, 0, 5, 5 },
	/* the current time is within a tick, which has passed */
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK + TICK / 2 + 1, 3 },
	{ TICK, 3 * TICK - 1, 3 * TICK, 3 }, { TICK, 3 * TICK - 1, 3 * TICK + 1, 4 },
	/* the current time and the past: the next tick */
	{ TICK, 0, 0, 1 }, { TICK, 2 * TICK, 2 * TICK, 3 }, { TICK, 2 * TICK, 0, 3 },
	{ TICK, 2 * TICK, 2 * TICK - 1, 3 }, { TICK, 2 * TICK + TICK / 2, 2 * TICK, 3 },
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK + 1, 3 }, { TICK, 2 * TICK + TICK / 2, 1, 3 },
	{ TICK, 255 * TICK, 255 * TICK, 256 }, { TICK, 256 * TICK, 3, 257 },
};

/* A new wheel is slow to make, so the rows with ticks of one length share one, 2^20 ticks apart. */
static void check_deadlines(struct kunit *test, bool relative)
{
	const struct deadline *d;
	struct fixture *f = NULL;
	struct probe *p = NULL;
	u64 base = 0, now;

	for (d = deadlines; d < deadlines + ARRAY_SIZE(deadlines); d++) {
		if (!f || f->tick_ns != d->tick_ns) {
			f = layout_wheel(test, d->tick_ns);
			p = probes(test, 1);
		}
		now = base * d->tick_ns + d->now_ns;
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now));
		p->fired = 0;
		KUNIT_ASSERT_EQ(test, 0, relative ?
				twheel_arm_after(&p->t, max(d->expires_ns, d->now_ns) - d->now_ns) :
				twheel_arm(&p->t, base * d->tick_ns + d->expires_ns));
		KUNIT_ASSERT_EQ(test, 0U, p->fired);
		now = (base + d->tick) * d->tick_ns;
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now - 1));
		KUNIT_ASSERT_EQ_MSG(test, 0U, p->fired, "%llu at %llu", d->expires_ns, d->now_ns);
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now));
		KUNIT_ASSERT_EQ_MSG(test, 1U, p->fired, "%llu at %llu", d->expires_ns, d->now_ns);
		base += 1 << 20;
	}
}

static void deadline_is_rounded_up_and_past_now(struct kunit *test)
{
	check_deadlines(test, false);
}

static void relative_delay_counts_from_now_not_from_the_tick(struct kunit *test)
{
	check_deadlines(test, true);
}

/*
 * The last tick of the clock fires. A deadline whose tick begins later never does, nor one that is
 * clamped to the end. In this table the last member tells whether it fires.
 */
static void deadline_at_the_clocks_end_is_never_early(struct kunit *test)
{
	static const struct deadline ends[] = {
		{ 1, 0, CLOCK_END, true }, { 1, 5, CLOCK_END, true }, { 7, 0, CLOCK_END, true },
		{ 2, 0, CLOCK_END, false }, { TICK, 0, CLOCK_END, false },
		{ TICK, CLOCK_END - 5, CLOCK_END, false }, { 2, 0, CLOCK_END - 1, true },
	};
	const struct deadline *e;
	struct fixture *f;
	struct probe *p;
	unsigned int i;

	for (i = 0; i < 2 * ARRAY_SIZE(ends); i++) {
		e = &ends[i / 2];
		f = layout_wheel(test, e->tick_ns);
		p = probes(test, 1);
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, e->now_ns));
		KUNIT_ASSERT_EQ(test, 0, i % 2 ? twheel_arm_after(&p->t, e->expires_ns) :
						 twheel_arm(&p->t, e->expires_ns));
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, e->expires_ns - 1));
		KUNIT_ASSERT_EQ(test, 0U, p->fired);
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
		KUNIT_ASSERT_EQ_MSG(test, (unsigned int)e->tick, p->fired, "ticks of %llu ns",
				    e->tick_ns);
		KUNIT_ASSERT_NE(test, p->fired, (unsigned int)twheel_cancel(&p->t));
	}
}

/* Order within a tick */

/* One timeout is armed from each distance, so they come down from all levels. */
static void order_of_arming_survives_cascades(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = layout_near(s), jump, i;
	struct probe *p;
	u64 tick, at;

	for (jump = 0; jump < 2; jump++) {
		layout_wheel(test, 1);
		p = probes(test, n);
		tick = layout_boundary(s, n - 1);
		for (i = 0, at = 0; i < n; i++) {
			at = max(at, tick - layout_distance(s, n - 1 - i));
			/* The jump leaves the cascades of the lower levels to the last step. */
			if (!jump || i < n / 2)
				advance_tick(test, at);
			arm_tick(test, &p[i], tick);
		}
		if (!jump)
			advance_tick(test, tick - 1);
		expect_fired_in_id_order(test, 0);
		advance_tick(test, tick);
		expect_fired_in_id_order(test, n);
	}
}

/* Rounds of hashed wheels */

static const struct shape rings[] = { { 2, 1 }, { 8, 1 }, { 256, 1 }, { 65536, 1 } };

KUNIT_ARRAY_PARAM(ring, rings, shape_desc);

static void slot_with_several_rounds_fires_each_in_its_own(struct kunit *test)
{
	static const u64 rounds[] = { 6, 0, 4, 1, 2, 1, 1000 };
	const struct shape *s = test->param_value;
	unsigned int n = ARRAY_SIZE(rounds), i;
	struct probe *p;
	u64 round;

	layout_wheel(test, TICK);
	p = probes(test, n);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], 1 + rounds[i] * s->slots);
	for (round = 0; round < 8; round++) {
		advance_tick(test, round * s->slots);
		expect_due_fired(test, p, n, round * s->slots);
		advance_tick(test, 1 + round * s->slots);
		expect_due_fired(test, p, n, 1 + round * s->slots);
	}
	expect_ascending(test, n - 1);
	expect_fires_at(test, &p[n - 1], p[n - 1].tick);
}

static struct kunit_case expiry_cases[] = {
	KUNIT_CASE_PARAM(fires_at_its_tick_from_every_phase_at_every_distance, layout_gen_params),
	KUNIT_CASE_PARAM(boundaries_fire_in_order_in_one_jump, layout_gen_params),
	KUNIT_CASE_PARAM(deadline_is_rounded_up_and_past_now, layout_gen_params),
	KUNIT_CASE_PARAM(relative_delay_counts_from_now_not_from_the_tick, layout_gen_params),
	KUNIT_CASE_PARAM(deadline_at_the_clocks_end_is_never_early, layout_gen_params),
	KUNIT_CASE_PARAM(order_of_arming_survives_cascades, layout_gen_params),
	KUNIT_CASE_PARAM(slot_with_several_rounds_fires_each_in_its_own, ring_gen_params),
	{}
};

static struct kunit_suite expiry_suite = {
	.name = "twheel-expiry",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = expiry_cases,
};

module_test_suite(expiry_suite);

MODULE_DESCRIPTION("KUnit suite of when and in which order a timing wheel fires");
MODULE_LICENSE("GPL");
