// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of expiry: when a timeout fires, and in which order.
 *
 * It tests exact expiry from every phase of the wheel, rounding, rounds, cascades, long
 * jumps and backward steps. It tests the order within and across ticks, callbacks that arm
 * and cancel, and ticks with more than one batch.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "fixture.h"
#include "suite.h"

DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
/*
 * Not a power of two, and short, so that even the largest wheels turn often before the
 * clock ends.
 */
#define ODD_TICK	3ULL

#define CLOCK_END	((u64)S64_MAX)
#define YEAR_NS		(365ULL * 24 * 3600 * NSEC_PER_SEC)

/* More than any batch, so that the lock is dropped in the middle of a tick. */
#define MANY		1000

/* Maximum span of a wheel that is started from each of its phases. */
#define ALL_PHASES	512

/* Exactness */

static const struct shape shapes[] = {
	{ 2, 1 }, { 4, 1 }, { 8, 1 }, { 2, 8 }, { 4, 3 }, { 8, 3 }, { 32, 2 },
	{ 256, 1 }, { 256, 4 }, { 65536, 2 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

/* Small wheels are started from each phase, large ones near their boundaries. */
static u64 nr_phases(const struct shape *s)
{
	return ref_span(s) <= ALL_PHASES ? ref_span(s) : SHAPE_BOUNDARIES(s->levels);
}

static u64 phase(const struct shape *s, u64 i)
{
	return ref_span(s) <= ALL_PHASES ? i : ref_boundary(s, i);
}

/* Advance to phase @i of the next revolution of the whole wheel. */
static u64 advance_to_phase(struct kunit *test, u64 now, u64 i)
{
	const struct shape *s = test->param_value;
	u64 cursor = now - ref_mod(now, ref_span(s)) + ref_span(s) + phase(s, i);

	advance_tick(test, cursor);
	return cursor;
}

static void fires_at_its_tick_from_every_phase(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	u64 i, now = 0;
	u32 j;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (i = 0; i < nr_phases(s); i += stride) {
		for (j = 1; j < SHAPE_BOUNDARIES(s->levels); j++) {
			u64 delay = ref_boundary(s, j) ?: 1;

			now = advance_to_phase(test, now, i);
			arm_tick(test, p, now + delay);
			now += delay;
			expect_fires_at(test, p, now);
		}
	}
}

static void lies_where_the_reference_says_from_every_phase(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, ODD_TICK, s->slots, s->levels);
	struct probe *p = probes(test, 1);
	struct twheel_position pos;
	u64 i, now = 0;
	u32 j;

	for (i = 0; i < nr_phases(s); i += stride) {
		now = advance_to_phase(test, now, i);
		for (j = 1; j < SHAPE_BOUNDARIES(s->levels); j++) {
			u64 tick = now + (ref_boundary(s, j) ?: 1);

			twheel_mod(&p->t, tick * f->tick_ns);
			KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
			KUNIT_ASSERT_EQ(test, tick, pos.tick);
			KUNIT_ASSERT_EQ(test, ref_level(s, tick, now), pos.level);
			KUNIT_ASSERT_EQ(test, ref_slot(s, tick, pos.level), pos.slot);
			KUNIT_ASSERT_EQ(test, ref_rounds(s, tick, now), pos.rounds);
		}
		twheel_cancel(&p->t);
	}
}

/* Arm a timeout at every boundary after @now; returns the last tick. */
static u64 arm_boundaries(struct kunit *test, struct probe *p, u64 now)
{
	const struct shape *s = test->param_value;
	u64 last = 0;
	u32 j;

	for (j = 0; j < SHAPE_BOUNDARIES(s->levels); j++) {
		u64 tick = now + (ref_boundary(s, j) ?: 1);

		arm_tick(test, &p[j], tick);
		last = max(last, tick);
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
	struct fixture *f = manual_wheel(test, ODD_TICK, s->slots, s->levels);
	struct probe *p = probes(test, SHAPE_BOUNDARIES(s->levels));
	u64 i, now = 0;

	for (i = 0; i < nr_phases(s); i += stride) {
		now = advance_to_phase(test, now, i);
		f->nr_fired = 0;
		now = arm_boundaries(test, p, now);
		advance_tick(test, now);
		expect_ascending(test, SHAPE_BOUNDARIES(s->levels));
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

static void boundaries_fire_each_at_its_tick(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = SHAPE_BOUNDARIES(s->levels), i;
	struct probe *p;
	u64 start, now;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, n);
	start = advance_to_phase(test, 0, 0);
	arm_boundaries(test, p, start);
	for (i = 0, now = start; i < n; i++) {
		now = max(now, start + ref_boundary(s, i));
		advance_tick(test, now);
		expect_due_fired(test, p, n, now);
	}
	KUNIT_EXPECT_EQ(test, 1U, p[n - 1].fired);
}

struct deadline {
	u64 tick_ns, now_ns, expires_ns, tick;
};

static const struct deadline deadlines[] = {
	/* rounding up */
	{ TICK, 0, 1, 1 },
	{ TICK, 0, TICK - 1, 1 },
	{ TICK, 0, TICK, 1 },
	{ TICK, 0, TICK + 1, 2 },
	{ TICK, 0, 5 * TICK - 1, 5 },
	{ TICK, 0, 5 * TICK + 1, 6 },
	{ 7, 0, 48, 7 },
	{ 7, 0, 49, 7 },
	{ 7, 0, 50, 8 },
	{ 1, 0, 5, 5 },
	/* the current time is within a tick, which has passed */
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK + TICK / 2 + 1, 3 },
	{ TICK, 3 * TICK - 1, 3 * TICK, 3 },
	{ TICK, 3 * TICK - 1, 3 * TICK + 1, 4 },
	/* the current time and the past: the next tick */
	{ TICK, 0, 0, 1 },
	{ TICK, 2 * TICK, 2 * TICK, 3 },
	{ TICK, 2 * TICK, 2 * TICK - 1, 3 },
	{ TICK, 2 * TICK, 0, 3 },
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK + TICK / 2, 3 },
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK + 1, 3 },
	{ TICK, 2 * TICK + TICK / 2, 2 * TICK, 3 },
	{ TICK, 2 * TICK + TICK / 2, 1, 3 },
	{ TICK, 15 * TICK, 15 * TICK, 16 },
	{ TICK, 63 * TICK, 62 * TICK, 64 },
};

static void deadline_desc(const struct deadline *d, char *desc)
{
	sprintf(desc, "%llu ns at %llu ns, ticks of %llu ns", d->expires_ns, d->now_ns,
		d->tick_ns);
}

KUNIT_ARRAY_PARAM(deadline, deadlines, deadline_desc);

static void deadline_is_rounded_up_and_past_now(struct kunit *test)
{
	const struct deadline *d = test->param_value;
	struct fixture *f = manual_wheel(test, d->tick_ns, 4, 3);
	struct probe *p = probes(test, 1);

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->now_ns));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, d->expires_ns));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->tick * d->tick_ns - 1));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->tick * d->tick_ns));
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void relative_delay_counts_from_now_not_from_the_tick(struct kunit *test)
{
	const struct deadline *d = test->param_value;
	struct fixture *f = manual_wheel(test, d->tick_ns, 4, 3);
	struct probe *p = probes(test, 1);
	u64 delay = d->expires_ns > d->now_ns ? d->expires_ns - d->now_ns : 0;

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->now_ns));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, delay));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->tick * d->tick_ns - 1));
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, d->tick * d->tick_ns));
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void callback_sees_the_time_of_the_advance(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	arm_tick(test, &p[0], 3);
	arm_tick(test, &p[1], 40);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 77 * TICK + 5));
	KUNIT_EXPECT_EQ(test, 77 * TICK + 5, p[0].fired_ns);
	KUNIT_EXPECT_EQ(test, 77 * TICK + 5, p[1].fired_ns);
}

/* Rounds and cascades */

static void slot_with_several_rounds_fires_each_in_its_own(struct kunit *test)
{
	static const u64 ticks[] = { 52, 4, 36, 12, 20, 12 };
	struct probe *p;
	unsigned int i;
	u64 now;

	manual_wheel(test, TICK, 8, 1);
	p = probes(test, ARRAY_SIZE(ticks));
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_tick(test, &p[i], ticks[i]);
	for (now = 1; now <= 60; now++) {
		advance_tick(test, now);
		for (i = 0; i < ARRAY_SIZE(ticks); i++)
			KUNIT_ASSERT_EQ(test, ticks[i] <= now ? 1U : 0U, p[i].fired);
	}
}

static void rounds_count_down_once_a_revolution(struct kunit *test)
{
	struct probe *p;
	u64 now;

	manual_wheel(test, TICK, 8, 1);
	p = probes(test, 1);
	arm_tick(test, p, 52);
	for (now = 0; now < 52; now++) {
		const struct shape s = { 8, 1 };

		advance_tick(test, now);
		KUNIT_ASSERT_EQ(test, ref_rounds(&s, 52, now), twheel_rounds(&p->t));
	}
	advance_tick(test, 52);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_rounds(&p->t));
}

static const struct shape deep_shapes[] = {
	{ 2, 1 }, { 2, 6 }, { 4, 2 }, { 4, 4 }, { 8, 3 }, { 16, 2 }, { 64, 1 },
};

KUNIT_ARRAY_PARAM(deep_shape, deep_shapes, shape_desc);

/* Advance tick by tick through more than a revolution of the whole wheel. */
static void position_follows_the_cursor_to_the_end(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct twheel_position pos;
	u64 tick = 2 * ref_span(s) + ref_span(s) - 1, now;
	struct probe *p;

	manual_wheel(test, TICK, s->slots, s->levels);
	p = probes(test, 1);
	arm_tick(test, p, tick);
	for (now = 1; now < tick; now++) {
		advance_tick(test, now);
		KUNIT_ASSERT_TRUE(test, twheel_position(&p->t, &pos));
		KUNIT_ASSERT_EQ(test, tick, pos.tick);
		KUNIT_ASSERT_EQ(test, ref_level(s, tick, now), pos.level);
		KUNIT_ASSERT_EQ(test, ref_slot(s, tick, pos.level), pos.slot);
		KUNIT_ASSERT_EQ(test, ref_rounds(s, tick, now), pos.rounds);
	}
	expect_fires_at(test, p, tick);
}

static void cascade_moves_down_one_level_at_a_time(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	struct probe *p = probes(test, 1);
	struct twheel_counters stats;
	u64 tick = ref_span(s) - 1, now;

	arm_tick(test, p, tick);
	for (now = 1; now <= tick; now++)
		advance_tick(test, now);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, (u64)s->levels - 1, stats.cascaded);
}

/* Every tick of two revolutions has a timeout, so each cascade moves a full slot. */
static void full_wheel_fires_one_per_tick(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	unsigned int n = min_t(u64, 2 * ref_span(s), FIXTURE_ORDER), i;
	struct probe *p = probes(test, n);

	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], i + 1);
	for (i = 0; i < n; i++) {
		advance_tick(test, i + 1);
		KUNIT_ASSERT_EQ(test, i + 1, f->nr_fired);
		KUNIT_ASSERT_PTR_EQ(test, &p[i], f->order[i]);
	}
}

/* Jumps */

static void jump_over_many_revolutions_fires_all_in_order(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	struct probe *p = probes(test, MANY);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 1 + prandom_u32_state(&rnd) % (u32)(20 * ref_span(s)));
	advance_tick(test, 20 * ref_span(s));
	expect_ascending(test, MANY);
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void jump_stops_short_of_the_next_tick(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	u64 tick = 0;
	unsigned int i;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (i = 0; i < 20; i++) {
		tick += 5 * ref_span(s) + i;
		arm_tick(test, p, tick);
		expect_fires_at(test, p, tick);
	}
}

struct stall {
	u64 tick_ns;
	struct shape shape;
};

static const struct stall stalls[] = {
	{ TICK, { 256, 4 } },
	{ TICK, { 256, 1 } },
	{ NSEC_PER_USEC, { 64, 2 } },
	{ 1, { 256, 4 } },
	{ 1, { 256, 1 } },
	{ 1, { 2, 1 } },
	{ 1, { 2, 8 } },
	{ 1, { 65536, 3 } },
};

static void stall_desc(const struct stall *s, char *desc)
{
	sprintf(desc, "ticks of %llu ns, %u slots, %u levels", s->tick_ns, s->shape.slots,
		s->shape.levels);
}

KUNIT_ARRAY_PARAM(stall, stalls, stall_desc);

/*
 * The limit of 5 s is no measurement. Stepping through the ticks, or through the
 * revolutions of the small wheels, would take days.
 */
static void stall_of_ten_years_costs_only_what_is_due(struct kunit *test)
{
	const struct stall *s = test->param_value;
	struct fixture *f = manual_wheel(test, s->tick_ns, s->shape.slots, s->shape.levels);
	struct probe *p = probes(test, 101);
	u64 begin = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, (i + 1) * (YEAR_NS / 10)));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[100].t, 11 * YEAR_NS));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 10 * YEAR_NS + s->tick_ns));
	KUNIT_EXPECT_LT(test, ktime_get_ns() - begin, 5ULL * NSEC_PER_SEC);
	expect_fired_in_id_order(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p[100].fired);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 11 * YEAR_NS + s->tick_ns));
	KUNIT_EXPECT_EQ(test, 1U, p[100].fired);
}

static void small_steps_past_a_distant_timeout_are_exact(struct kunit *test)
{
	const struct stall *s = test->param_value;
	struct fixture *f = manual_wheel(test, s->tick_ns, s->shape.slots, s->shape.levels);
	struct probe *p = probes(test, 1);
	u64 far = 10 * YEAR_NS;
	unsigned int i;

	far -= ref_mod(far, s->tick_ns);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, far));
	for (i = 0; far >> i; i++) {
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, far - (far >> i)));
		KUNIT_ASSERT_EQ(test, 0U, p->fired);
		KUNIT_ASSERT_EQ(test, far, twheel_next_expiry(f->wheel));
	}
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, far));
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

/* Order within a tick */

static void tick_fires_in_the_order_of_arming(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	unsigned int i;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], ref_span(s) + 1);
	advance_tick(test, ref_span(s));
	expect_fired_in_id_order(test, 0);
	advance_tick(test, ref_span(s) + 1);
	expect_fired_in_id_order(test, MANY);
}

/* One timeout is armed from each tick before theirs, so they come from all levels. */
static void order_of_arming_survives_cascades(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 tick = min_t(u64, 2 * ref_span(s), MANY);
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, s->slots, s->levels);
	p = probes(test, tick);
	for (i = 0; i < tick; i++) {
		advance_tick(test, i);
		arm_tick(test, &p[i], tick);
	}
	advance_tick(test, tick);
	expect_fired_in_id_order(test, tick);
}

static void order_of_arming_survives_a_jump_over_cascades(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 8, 3);
	p = probes(test, 4);
	arm_tick(test, &p[0], 600);
	advance_tick(test, 500);
	arm_tick(test, &p[1], 600);
	advance_tick(test, 580);
	arm_tick(test, &p[2], 600);
	advance_tick(test, 599);
	arm_tick(test, &p[3], 600);
	advance_tick(test, 5000);
	expect_fired_in_id_order(test, 4);
}

static void mod_goes_to_the_end_of_its_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);
	unsigned int i;

	for (i = 0; i < 3; i++)
		arm_tick(test, &p[i], 40);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, 41 * TICK));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, 40 * TICK));
	advance_tick(test, 50);
	KUNIT_ASSERT_EQ(test, 3U, f->nr_fired);
	KUNIT_EXPECT_PTR_EQ(test, &p[1], f->order[0]);
	KUNIT_EXPECT_PTR_EQ(test, &p[2], f->order[1]);
	KUNIT_EXPECT_PTR_EQ(test, &p[0], f->order[2]);
}

/* The deadlines differ but round to one tick: timeouts fire in the order of arming. */
static void order_within_a_tick_is_not_that_of_the_deadlines(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 10);
	unsigned int i;

	for (i = 0; i < 10; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, 40 * TICK - i * 1000));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 40 * TICK - 1));
	expect_fired_in_id_order(test, 0);
	advance_tick(test, 40);
	expect_fired_in_id_order(test, 10);
}

static void past_deadlines_fire_in_the_order_of_arming(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 10);
	advance_tick(test, 30);
	for (i = 0; i < 10; i++)
		arm_tick(test, &p[i], 30 - 3 * i);
	advance_tick(test, 31);
	expect_fired_in_id_order(test, 10);
}

/* Timeouts that callbacks arm */

/* Rearm for p->arg from now, in each callback; the test counts the calls. */
static void rearm_after(struct probe *p)
{
	p->ret = twheel_arm_after(&p->t, p->arg);
}

static void rearm_at(struct probe *p)
{
	p->ret = twheel_arm(&p->t, p->arg);
}

struct rearm {
	const char *name;
	void (*then)(struct probe *p);
	u64 arg;
};

static const struct rearm rearms[] = {
	{ "after 0", rearm_after, 0 },
	{ "after 1 ns", rearm_after, 1 },
	{ "after a tick", rearm_after, TICK },
	{ "at 0", rearm_at, 0 },
	{ "at its own tick", rearm_at, 3 * TICK },
	{ "at a tick that the jump passes", rearm_at, 50 * TICK },
	{ "at the tick that the jump ends on", rearm_at, 100 * TICK },
	{ "at the tick after it", rearm_at, 101 * TICK },
};

static void rearm_desc(const struct rearm *r, char *desc)
{
	strscpy(desc, r->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rearm, rearms, rearm_desc);

static void rearm_from_callback_waits_for_the_next_pass(struct kunit *test)
{
	const struct rearm *r = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = r->then;
	p->arg = r->arg;
	arm_tick(test, p, 3);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	expect_fires_at(test, p, 101);
}

static void rearm_from_callback_to_later_is_exact(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	u32 j;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (j = 1; j < SHAPE_BOUNDARIES(s->levels); j++) {
		struct fixture *f = test->priv;
		u64 now = div64_u64(twheel_now(f->wheel), ODD_TICK);
		u64 jump = now + ref_span(s) / 2 + j;
		u64 delay = ref_boundary(s, j) ?: 1;

		p->then = rearm_after;
		p->arg = delay * ODD_TICK;
		arm_tick(test, p, now + 1);
		advance_tick(test, jump);
		KUNIT_ASSERT_TRUE(test, twheel_pending(&p->t));
		p->then = NULL;
		expect_fires_at(test, p, jump + delay);
	}
}

static void rearm_in_each_of_many_ticks_fires_once_per_pass(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 100);
	unsigned int i;

	for (i = 0; i < 100; i++) {
		p[i].then = rearm_after;
		arm_tick(test, &p[i], i + 1);
	}
	advance_tick(test, 200);
	expect_fired_in_id_order(test, 100);
	advance_tick(test, 200);
	KUNIT_EXPECT_EQ(test, 100U, f->nr_fired);
	advance_tick(test, 201);
	KUNIT_EXPECT_EQ(test, 200U, f->nr_fired);
}

static void arm_other(struct probe *p)
{
	p->ret = twheel_arm(&p->other->t, p->arg);
}

static void what_a_callback_arms_for_a_passed_tick_comes_last(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);

	p[0].then = arm_other;
	p[0].other = &p[1];
	p[0].arg = 20 * TICK;
	arm_tick(test, &p[0], 10);
	arm_tick(test, &p[2], 31);
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
	advance_tick(test, 31);
	KUNIT_ASSERT_EQ(test, 3U, f->nr_fired);
	KUNIT_EXPECT_PTR_EQ(test, &p[2], f->order[1]);
	KUNIT_EXPECT_PTR_EQ(test, &p[1], f->order[2]);
}

/* A callback in a jump arms for a block that the jump has not reached. */
static void arm_during_a_jump_keeps_the_order_of_a_later_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 4);

	arm_tick(test, &p[0], 200);
	p[1].then = arm_other;
	p[1].other = &p[2];
	p[1].arg = 200 * TICK;
	arm_tick(test, &p[1], 30);
	advance_tick(test, 190);
	arm_tick(test, &p[3], 200);
	advance_tick(test, 250);
	KUNIT_ASSERT_EQ(test, 4U, f->nr_fired);
	KUNIT_EXPECT_PTR_EQ(test, &p[0], f->order[1]);
	KUNIT_EXPECT_PTR_EQ(test, &p[2], f->order[2]);
	KUNIT_EXPECT_PTR_EQ(test, &p[3], f->order[3]);
}

/* Timeouts that callbacks cancel, and more than one batch */

static void many_in_a_tick_all_fire_in_order(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	struct twheel_counters stats;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, (u64)MANY, stats.fired);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
}

static void cancel_other(struct probe *p)
{
	p->ret = twheel_cancel(&p->other->t);
}

static const unsigned int distances[] = { 1, 2, 15, 16, 31, 32, 63, 64, 127, 128, 500, 999 };

static void distance_desc(const unsigned int *d, char *desc)
{
	sprintf(desc, "%u places later", *d);
}

KUNIT_ARRAY_PARAM(distance, distances, distance_desc);

static void callback_can_cancel_a_later_one_of_its_tick(struct kunit *test)
{
	const unsigned int *distance = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	p[0].then = cancel_other;
	p[0].other = &p[*distance];
	advance_tick(test, 300);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[*distance].fired);
	KUNIT_EXPECT_EQ(test, MANY - 1U, f->nr_fired);
}

static void mod_other(struct probe *p)
{
	p->ret = twheel_mod(&p->other->t, p->arg);
}

static void callback_can_move_a_later_one_of_its_tick(struct kunit *test)
{
	const unsigned int *distance = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	p[0].then = mod_other;
	p[0].other = &p[*distance];
	p[0].arg = 800 * TICK;
	advance_tick(test, 300);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, MANY - 1U, f->nr_fired);
	expect_fires_at(test, &p[*distance], 800);
}

static void cancel_all_others(struct probe *p)
{
	unsigned int i;

	p->ret = 0;
	for (i = 0; i < p->arg; i++)
		p->ret += twheel_cancel(&p->other[i].t);
}

static void callback_can_cancel_all_the_rest_of_its_tick(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	p[200].then = cancel_all_others;
	p[200].other = p;
	p[200].arg = MANY;
	advance_tick(test, 300);
	KUNIT_EXPECT_EQ(test, MANY - 201, p[200].ret);
	expect_fired_in_id_order(test, 201);
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void callback_of_many_may_rearm_itself_at_once(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		p[i].then = rearm_after;
		arm_tick(test, &p[i], 300);
	}
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY);
	f->nr_fired = 0;
	advance_tick(test, 301);
	expect_fired_in_id_order(test, MANY);
}

static void callback_can_cancel_one_on_the_way_down(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);

	arm_tick(test, &p[0], 20);
	arm_tick(test, &p[1], 60);
	arm_tick(test, &p[2], 60);
	p[0].then = cancel_other;
	p[0].other = &p[1];
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[1].fired);
	KUNIT_EXPECT_EQ(test, 1U, p[2].fired);
	KUNIT_EXPECT_EQ(test, 2U, f->nr_fired);
}

/*
 * A cascade of MANY takes several batches. Between two of them the callbacks of the tick
 * before run, and find the slot half cascaded. There are fewer of them than a batch holds.
 */
#define FEW	20

static struct probe *half_done_cascade(struct kunit *test, void (*then)(struct probe *p))
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY + 2 * FEW);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300);
	for (i = 0; i < FEW; i++) {
		p[MANY + FEW + i].then = then;
		p[MANY + FEW + i].other = &p[MANY + i];
		p[MANY + FEW + i].arg = 300 * TICK;
	}
	advance_tick(test, 250);
	for (i = 0; i < FEW; i++)
		arm_tick(test, &p[MANY + FEW + i], 255);
	return p;
}

static void arm_during_a_cascade_joins_its_tail(struct kunit *test)
{
	struct fixture *f = test->priv;

	half_done_cascade(test, arm_other);
	advance_tick(test, 299);
	KUNIT_ASSERT_EQ(test, (unsigned int)FEW, f->nr_fired);
	f->nr_fired = 0;
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY + FEW);
}

/* The callbacks cancel timeouts that are cascaded already, that are next, and the last one. */
static void cancel_during_a_cascade_takes_out_any(struct kunit *test)
{
	struct probe *p = half_done_cascade(test, cancel_other);
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < FEW; i++)
		p[MANY + FEW + i].other = &p[i < FEW - 1 ? i * 8 : MANY - 1];
	advance_tick(test, 299);
	for (i = 0; i < FEW; i++)
		KUNIT_EXPECT_EQ(test, 1, p[MANY + FEW + i].ret);
	f->nr_fired = 0;
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY - FEW);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[8].fired + p[MANY - 1].fired);
}

static void mod_during_a_cascade_moves_to_its_tail(struct kunit *test)
{
	struct probe *p = half_done_cascade(test, mod_other);
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < FEW; i++)
		p[MANY + FEW + i].other = &p[i * 8];
	advance_tick(test, 299);
	f->nr_fired = 0;
	advance_tick(test, 300);
	KUNIT_ASSERT_EQ(test, (unsigned int)MANY, f->nr_fired);
	for (i = 0; i < FEW; i++)
		KUNIT_EXPECT_PTR_EQ(test, &p[i * 8], f->order[MANY - FEW + i]);
}

/* The time goes backward */

static void step_back_fires_nothing(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, ODD_TICK, s->slots, s->levels);
	struct probe *p = probes(test, SHAPE_BOUNDARIES(s->levels));
	u64 start = 3 * ref_span(s);
	u32 i;

	advance_tick(test, start);
	arm_boundaries(test, p, start);
	for (i = 0; i < SHAPE_BOUNDARIES(s->levels); i += stride) {
		advance_tick(test, start - min(ref_boundary(s, i), start));
		KUNIT_ASSERT_EQ(test, 0U, f->nr_fired);
		KUNIT_ASSERT_EQ(test, 0, twheel_audit(f->wheel));
	}
	advance_tick(test, 0);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_now(f->wheel));
}

static void pending_keeps_its_tick_over_a_step_back(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	u64 start = 2 * ref_span(s) + 1, now = 0;
	u32 i, j;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	p = probes(test, 1);
	for (i = 1; i < SHAPE_BOUNDARIES(s->levels); i += 2 * stride) {
		for (j = 1; j < SHAPE_BOUNDARIES(s->levels); j += 2) {
			u64 tick;

			now += start;
			tick = now + (ref_boundary(s, i) ?: 1);
			advance_tick(test, now);
			arm_tick(test, p, tick);
			advance_tick(test, now - min(ref_boundary(s, j), now));
			expect_fires_at(test, p, tick);
			now = tick;
		}
	}
}

static void arm_after_a_step_back_is_exact(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, ODD_TICK, s->slots, s->levels);
	struct probe *p = probes(test, 1);
	u64 start = 2 * ref_span(s) + 1;
	u32 i, j;

	for (i = 1; i < SHAPE_BOUNDARIES(s->levels); i += 2 * stride) {
		for (j = 0; j < SHAPE_BOUNDARIES(s->levels); j += 2) {
			u64 back = start - min(ref_boundary(s, i), start);
			u64 delay = ref_boundary(s, j) ?: 1;

			advance_tick(test, start);
			advance_tick(test, back);
			KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, delay * ODD_TICK));
			KUNIT_ASSERT_EQ(test, (back + delay) * ODD_TICK,
					twheel_next_expiry(f->wheel));
			expect_fires_at(test, p, back + delay);
		}
	}
}

static void step_back_mixes_old_and_new_without_loss(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = SHAPE_BOUNDARIES(s->levels), i;
	u64 start = 2 * ref_span(s), back = start - ref_span(s) / 2 - 1, now;
	struct probe *before, *after;

	manual_wheel(test, ODD_TICK, s->slots, s->levels);
	before = probes(test, n);
	after = probes(test, n);
	advance_tick(test, start);
	arm_boundaries(test, before, start);
	advance_tick(test, back);
	arm_boundaries(test, after, back);
	for (i = 0, now = back; i < n; i++) {
		now = max(now, back + ref_boundary(s, i));
		advance_tick(test, now);
		expect_due_fired(test, before, n, now);
		expect_due_fired(test, after, n, now);
	}
	advance_tick(test, now + start);
	expect_due_fired(test, before, n, now + start);
}

static void step_back_within_a_tick_is_harmless(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 15 * TICK + 900));
	arm_tick(test, &p[0], 16);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 15 * TICK + 100));
	arm_tick(test, &p[1], 16);
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 16 * TICK - 1));
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 16);
	expect_fired_in_id_order(test, 2);
}

static struct kunit_case expiry_cases[] = {
	KUNIT_CASE_PARAM(fires_at_its_tick_from_every_phase, shape_gen_params),
	KUNIT_CASE_PARAM(lies_where_the_reference_says_from_every_phase, shape_gen_params),
	KUNIT_CASE_PARAM(boundaries_fire_in_order_in_one_jump, shape_gen_params),
	KUNIT_CASE_PARAM(boundaries_fire_each_at_its_tick, shape_gen_params),
	KUNIT_CASE_PARAM(deadline_is_rounded_up_and_past_now, deadline_gen_params),
	KUNIT_CASE_PARAM(relative_delay_counts_from_now_not_from_the_tick, deadline_gen_params),
	KUNIT_CASE(callback_sees_the_time_of_the_advance),
	KUNIT_CASE(slot_with_several_rounds_fires_each_in_its_own),
	KUNIT_CASE(rounds_count_down_once_a_revolution),
	KUNIT_CASE_PARAM(position_follows_the_cursor_to_the_end, deep_shape_gen_params),
	KUNIT_CASE_PARAM(cascade_moves_down_one_level_at_a_time, deep_shape_gen_params),
	KUNIT_CASE_PARAM(full_wheel_fires_one_per_tick, deep_shape_gen_params),
	KUNIT_CASE_PARAM(jump_over_many_revolutions_fires_all_in_order, deep_shape_gen_params),
	KUNIT_CASE_PARAM(jump_stops_short_of_the_next_tick, shape_gen_params),
	KUNIT_CASE_PARAM(stall_of_ten_years_costs_only_what_is_due, stall_gen_params),
	KUNIT_CASE_PARAM(small_steps_past_a_distant_timeout_are_exact, stall_gen_params),
	KUNIT_CASE_PARAM(tick_fires_in_the_order_of_arming, shape_gen_params),
	KUNIT_CASE_PARAM(order_of_arming_survives_cascades, deep_shape_gen_params),
	KUNIT_CASE(order_of_arming_survives_a_jump_over_cascades),
	KUNIT_CASE(mod_goes_to_the_end_of_its_tick),
	KUNIT_CASE(order_within_a_tick_is_not_that_of_the_deadlines),
	KUNIT_CASE(past_deadlines_fire_in_the_order_of_arming),
	KUNIT_CASE_PARAM(rearm_from_callback_waits_for_the_next_pass, rearm_gen_params),
	KUNIT_CASE_PARAM(rearm_from_callback_to_later_is_exact, shape_gen_params),
	KUNIT_CASE(rearm_in_each_of_many_ticks_fires_once_per_pass),
	KUNIT_CASE(what_a_callback_arms_for_a_passed_tick_comes_last),
	KUNIT_CASE(arm_during_a_jump_keeps_the_order_of_a_later_tick),
	KUNIT_CASE(many_in_a_tick_all_fire_in_order),
	KUNIT_CASE_PARAM(callback_can_cancel_a_later_one_of_its_tick, distance_gen_params),
	KUNIT_CASE_PARAM(callback_can_move_a_later_one_of_its_tick, distance_gen_params),
	KUNIT_CASE(callback_can_cancel_all_the_rest_of_its_tick),
	KUNIT_CASE(callback_of_many_may_rearm_itself_at_once),
	KUNIT_CASE(callback_can_cancel_one_on_the_way_down),
	KUNIT_CASE(arm_during_a_cascade_joins_its_tail),
	KUNIT_CASE(cancel_during_a_cascade_takes_out_any),
	KUNIT_CASE(mod_during_a_cascade_moves_to_its_tail),
	KUNIT_CASE_PARAM(step_back_fires_nothing, shape_gen_params),
	KUNIT_CASE_PARAM(pending_keeps_its_tick_over_a_step_back, shape_gen_params),
	KUNIT_CASE_PARAM(arm_after_a_step_back_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_mixes_old_and_new_without_loss, shape_gen_params),
	KUNIT_CASE(step_back_within_a_tick_is_harmless),
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
