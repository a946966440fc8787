// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of expiry: when a timeout fires, and in which order.
 *
 * It tests exact expiry at every distance, rounding, long jumps and backward steps. It tests the
 * order within and across ticks, and callbacks that arm and cancel. Nearly all cases run on
 * hierarchies and on hashed wheels. The rounds of hashed wheels have cases of their own.
 */
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>

#include "fixture.h"
#include "layout.h"
#include "suite.h"

DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
#define ODD_TICK	3ULL
#define YEAR_NS		(365ULL * 24 * 3600 * NSEC_PER_SEC)

/* More than any batch, so that the lock is dropped in the middle of a tick. */
#define MANY		1000
#define BATCH		128

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

/* Jumps */

/* Each timeout has a slot of its own. To step through the ticks or rounds would take days. */
static void stall_of_ten_years_costs_only_what_is_due(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = s->levels == 1 ? min(s->slots - 1, 99U) : 99, i;
	u64 ticks[] = { 1, TICK }, *tick_ns, last;
	struct fixture *f;
	struct probe *p;

	for (tick_ns = ticks; tick_ns < ticks + ARRAY_SIZE(ticks); tick_ns++) {
		f = layout_wheel(test, *tick_ns);
		p = probes(test, n + 1);
		for (i = 0; i <= n; i++)
			arm_tick(test, &p[i], div64_u64(i * (YEAR_NS / 10), *tick_ns) + i + 1);
		last = p[n].tick;
		advance_tick(test, last - 1);
		expect_fired_in_id_order(test, n);
		KUNIT_ASSERT_EQ(test, last * *tick_ns, twheel_next_expiry(f->wheel));
		advance_tick(test, last);
		expect_fired_in_id_order(test, n + 1);
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

static void many_in_a_tick_fire_in_the_order_of_arming(struct kunit *test)
{
	struct fixture *f = layout_wheel(test, TICK);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	/* The deadlines differ, but round to one tick. */
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, 300 * TICK - i));
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, 300 * TICK - 1));
	expect_fired_in_id_order(test, 0);
	advance_tick(test, 300);
	expect_fired_in_id_order(test, MANY);
	f->nr_fired = 0;
	/* Past deadlines, too. */
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, (MANY - i) % 300 * TICK));
	advance_tick(test, 301);
	expect_fired_in_id_order(test, MANY);
}

/* Callbacks that arm */

static void rearm_after(struct probe *p)
{
	p->ret = twheel_arm_after(&p->t, p->arg);
}

/* The timeout was armed for tick 3 of its row. */
static void rearm_at(struct probe *p)
{
	p->ret = twheel_arm(&p->t, (p->tick - 3) * TICK + p->arg);
}

static void rearm_by_mod(struct probe *p)
{
	p->ret = twheel_mod(&p->t, (p->tick - 3) * TICK + p->arg);
}

static const struct rearm {
	void (*then)(struct probe *p);
	u64 arg;
} rearms[] = {
	{ rearm_after, 0 }, { rearm_after, 1 }, { rearm_after, TICK }, { rearm_at, 0 },
	{ rearm_at, 3 * TICK },		/* its own tick */
	{ rearm_at, 50 * TICK },	/* a tick that the jump passes */
	{ rearm_at, 100 * TICK },	/* the tick that the jump ends on */
	{ rearm_at, 101 * TICK },
	{ rearm_by_mod, 0 }, { rearm_by_mod, 100 * TICK },
};

static void rearm_from_a_callback_waits_for_the_next_pass(struct kunit *test)
{
	const struct rearm *r;
	struct probe *p;
	u64 base = 0;

	layout_wheel(test, TICK);
	p = probes(test, 1);
	for (r = rearms; r < rearms + ARRAY_SIZE(rearms); r++, base += 1 << 20) {
		p->then = r->then;
		p->arg = r->arg;
		p->fired = 0;
		arm_tick(test, p, base + 3);
		advance_tick(test, base + 100);
		KUNIT_ASSERT_EQ(test, 1U, p->fired);
		KUNIT_ASSERT_EQ(test, 0, p->ret);
		KUNIT_ASSERT_TRUE(test, twheel_pending(&p->t));
		p->then = NULL;
		expect_fires_at(test, p, base + 101);
	}
}

static void arm_other(struct probe *p)
{
	p->ret = twheel_arm(&p->other->t, p->arg);
}

/* A callback arms for a tick that the jump has passed, or for one that it does not reach. */
static void arm_of_a_callback_comes_after_earlier_arms(struct kunit *test)
{
	static const u64 for_ticks[] = { 10, 20, 100, 1000, 5000 };
	struct fixture *f;
	struct probe *p;
	unsigned int i;
	u64 tick;

	for (i = 0; i < ARRAY_SIZE(for_ticks); i++) {
		f = layout_wheel(test, TICK);
		p = probes(test, 4);
		tick = max(for_ticks[i], 101ULL);
		p[0].then = arm_other;
		p[0].other = &p[2];
		p[0].arg = for_ticks[i] * TICK;
		arm_tick(test, &p[0], 10);
		arm_tick(test, &p[1], tick);
		advance_tick(test, 100);
		KUNIT_EXPECT_EQ(test, 0, p[0].ret);
		arm_tick(test, &p[3], tick);
		advance_tick(test, tick - 1);
		KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
		advance_tick(test, tick + 50);
		expect_fired_in_id_order(test, 4);
	}
}

/* Callbacks that cancel and move timeouts of their tick, of the same batch and of later ones */

static void cancel_other(struct probe *p)
{
	p->ret = twheel_cancel(&p->other->t);
}

static void mod_other(struct probe *p)
{
	p->ret = twheel_mod(&p->other->t, p->arg);
}

static void callback_takes_out_a_later_one_of_its_tick(struct kunit *test)
{
	static const unsigned int distances[] = { 1, 2, 63, 64, 126, 127, 128, 129, 500, 999 };
	struct fixture *f = layout_wheel(test, TICK);
	struct probe *p = probes(test, MANY), *other;
	unsigned int i, j;
	u64 tick = 300;

	for (i = 0; i < 2 * ARRAY_SIZE(distances); i++, tick += 1 << 20) {
		f->nr_fired = 0;
		advance_tick(test, tick - 300);
		for (j = 0; j < MANY; j++)
			arm_tick(test, &p[j], tick);
		other = &p[distances[i / 2]];
		other->fired = 0;
		p[0].then = i % 2 ? mod_other : cancel_other;
		p[0].other = other;
		p[0].arg = (tick + 500) * TICK;
		advance_tick(test, tick);
		KUNIT_ASSERT_EQ(test, 1, p[0].ret);
		KUNIT_ASSERT_EQ(test, 0U, other->fired);
		expect_fired_in_id_order(test, MANY - 1);
		advance_tick(test, tick + 499);
		KUNIT_ASSERT_EQ(test, MANY - 1U, f->nr_fired);
		advance_tick(test, tick + 500);
		KUNIT_ASSERT_EQ(test, i % 2, other->fired);
	}
}

/* The time goes backward */

static void step_back_fires_nothing_and_keeps_each_tick(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 start = 3 * ref_grain(s, 2), last, now;
	u32 n = min(layout_near(s), 18U), i, j;
	struct fixture *f;
	struct probe *p;

	for (i = 0; i < n; i += stride) {
		f = layout_wheel(test, 1);
		p = probes(test, layout_near(s));
		advance_tick(test, start);
		last = arm_boundaries(test, p, start);
		advance_tick(test, start - min(layout_boundary(s, i), start));
		KUNIT_ASSERT_EQ(test, 0U, f->nr_fired);
		KUNIT_ASSERT_EQ(test, 0, twheel_audit(f->wheel));
		for (j = 0, now = start; j < layout_near(s); j++) {
			if (p[j].tick <= now)
				continue;
			now = p[j].tick;
			advance_tick(test, now - 1);
			expect_due_fired(test, p, layout_near(s), now - 1);
		}
		advance_tick(test, last);
		expect_ascending(test, layout_near(s));
	}
}

/*
 * The wheel has reached tick 1000 of a row. A timeout for an earlier tick fires right after
 * it.
 */
static void arm_after_a_step_back_fires_past_the_reached_tick(struct kunit *test)
{
	static const u64 backs[] = { 0, 1, 500, 744, 768, 999 };
	static const u64 delays[] = { 0, 1, 2, 255, 256, 499, 500, 501, 1000, 1001, 100000 };
	struct fixture *f = layout_wheel(test, ODD_TICK);
	struct probe *p = probes(test, 1);
	u64 base = 0, tick;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(backs); i++) {
		for (j = 0; j < ARRAY_SIZE(delays); j++, base += 1 << 20) {
			advance_tick(test, base + 1000);
			advance_tick(test, base + backs[i]);
			KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p->t, delays[j] * ODD_TICK));
			tick = base + max(backs[i] + delays[j], 1001ULL);
			KUNIT_ASSERT_EQ(test, tick * ODD_TICK, twheel_next_expiry(f->wheel));
			expect_fires_at(test, p, tick);
		}
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

/* With one timeout the wheel sleeps until that is due, with several until the next visit. */
static void slot_with_one_far_timeout_is_not_visited(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = layout_wheel(test, TICK);
	struct probe *p = probes(test, 2);

	arm_tick(test, &p[0], 1 + 1000ULL * s->slots);
	KUNIT_EXPECT_EQ(test, p[0].tick * TICK, twheel_next_expiry(f->wheel));
	arm_tick(test, &p[1], 1 + 500ULL * s->slots);
	KUNIT_EXPECT_EQ(test, TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, 1);
	KUNIT_EXPECT_EQ(test, (1 + s->slots) * TICK, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[1].t));
	KUNIT_EXPECT_EQ(test, p[0].tick * TICK, twheel_next_expiry(f->wheel));
	expect_fires_at(test, &p[0], p[0].tick);
}

/* The search ends at the 128th slot that has one far timeout, with a visit of that. */
static void search_ends_after_a_batch_of_far_slots_and_nothing_is_late(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = min(s->slots - 1, 300U), i;
	struct fixture *f = layout_wheel(test, TICK);
	struct probe *p = probes(test, n + 1);
	u64 early = n < BATCH ? s->slots : BATCH;

	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], 1 + i + 10ULL * s->slots);
	arm_tick(test, &p[n], s->slots);
	KUNIT_EXPECT_EQ(test, early * TICK, twheel_next_expiry(f->wheel));
	expect_fires_at(test, &p[n], s->slots);
	expect_fires_at(test, &p[0], p[0].tick);
	advance_tick(test, p[n / 2].tick - 1);
	KUNIT_EXPECT_EQ(test, max(n / 2, 1U) + 1, f->nr_fired);
	advance_tick(test, p[n - 1].tick);
	expect_due_fired(test, p, n + 1, p[n - 1].tick);
}

/*
 * Half of MANY timeouts in a slot are due, the others in a later round. So a visit takes several
 * turns, between which callbacks change the slot. Timeouts 0, 2, 4 .. are due.
 */
static struct probe *half_of_a_slot_is_due(struct kunit *test, u64 later)
{
	const struct shape *s = test->param_value;
	struct probe *p;
	unsigned int i;

	layout_wheel(test, TICK);
	p = probes(test, 2 * MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], i % 2 ? later : s->slots + 1);
	return p;
}

static void visit_of_several_turns_keeps_later_rounds_in_order(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = test->priv;
	u64 round;

	half_of_a_slot_is_due(test, 3 * s->slots + 1);
	for (round = 1; round < 3; round++) {
		advance_tick(test, round * s->slots + 1);
		expect_fired_in_id_order(test, MANY / 2);
		KUNIT_ASSERT_EQ(test, 0, twheel_audit(f->wheel));
	}
	f->nr_fired = 0;
	expect_fires_at(test, f->order[0] + 1, 3 * s->slots + 1);
	expect_fired_in_id_order(test, MANY / 2);
}

/*
 * Callback i, of tick slots + 1, changes timeouts of the later round. Of those, some have been
 * set aside, some are still in the slot. The new ones join the slot.
 */
static void change_the_slot(struct probe *p)
{
	struct probe *all = p->data;

	if (p->id % 8 == 0)
		p->ret = twheel_cancel(&all[p->id / 2 + 1].t);
	else if (p->id % 8 == 2)
		p->ret = twheel_mod(&all[MANY - 1 - p->id / 4 * 2].t, p->arg + 5 * TICK);
	else if (p->id % 8 == 4)
		p->ret = !twheel_arm(&all[MANY + p->id].t, p->arg);
	else
		p->ret = twheel_mod(&all[p->id / 2].t, p->arg);
}

static void visit_of_several_turns_sees_changes_between_the_turns(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 later = 7 * s->slots + 1;
	struct probe *p = half_of_a_slot_is_due(test, later);
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < MANY; i += 2) {
		p[i].then = change_the_slot;
		p[i].data = p;
		p[i].arg = later * TICK;
	}
	advance_tick(test, s->slots + 1);
	expect_fired_in_id_order(test, MANY / 2);
	KUNIT_ASSERT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, later - 1);
	KUNIT_ASSERT_EQ(test, MANY / 2U, f->nr_fired);
	/* As many callbacks have armed one as have cancelled one. */
	advance_tick(test, later + 5);
	KUNIT_ASSERT_EQ(test, (unsigned int)MANY, f->nr_fired);
	for (i = 0; i < 2 * MANY; i++) {
		KUNIT_ASSERT_LE(test, p[i].fired, 1U);
		KUNIT_ASSERT_EQ(test, i < MANY && i % 2 == 0, p[i].ret);
	}
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void cancel_all_later(struct probe *p)
{
	unsigned int i;

	for (i = 1; i < MANY; i += 2)
		p->ret += twheel_cancel(&p->other[i].t);
}

static void visit_ends_when_all_set_aside_are_cancelled(struct kunit *test)
{
	static const unsigned int callers[] = { 0, 126, 128, 300, MANY - 2 };
	const struct shape *s = test->param_value;
	struct probe *p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(callers); i++) {
		p = half_of_a_slot_is_due(test, 9 * s->slots + 1);
		p[callers[i]].then = cancel_all_later;
		p[callers[i]].other = p;
		advance_tick(test, s->slots + 1);
		KUNIT_ASSERT_EQ(test, MANY / 2, p[callers[i]].ret);
		expect_fired_in_id_order(test, MANY / 2);
		KUNIT_ASSERT_EQ(test, CLOCK_END, twheel_next_expiry(p->f->wheel));
		arm_tick(test, &p[1], 5 * s->slots + 1);
		expect_fires_at(test, &p[1], 5 * s->slots + 1);
	}
}

static struct kunit_case expiry_cases[] = {
	KUNIT_CASE_PARAM(fires_at_its_tick_from_every_phase_at_every_distance, layout_gen_params),
	KUNIT_CASE_PARAM(boundaries_fire_in_order_in_one_jump, layout_gen_params),
	KUNIT_CASE_PARAM(deadline_is_rounded_up_and_past_now, layout_gen_params),
	KUNIT_CASE_PARAM(relative_delay_counts_from_now_not_from_the_tick, layout_gen_params),
	KUNIT_CASE_PARAM(deadline_at_the_clocks_end_is_never_early, layout_gen_params),
	KUNIT_CASE_PARAM(stall_of_ten_years_costs_only_what_is_due, layout_gen_params),
	KUNIT_CASE_PARAM(order_of_arming_survives_cascades, layout_gen_params),
	KUNIT_CASE_PARAM(many_in_a_tick_fire_in_the_order_of_arming, layout_gen_params),
	KUNIT_CASE_PARAM(rearm_from_a_callback_waits_for_the_next_pass, layout_gen_params),
	KUNIT_CASE_PARAM(arm_of_a_callback_comes_after_earlier_arms, layout_gen_params),
	KUNIT_CASE_PARAM(callback_takes_out_a_later_one_of_its_tick, layout_gen_params),
	KUNIT_CASE_PARAM(step_back_fires_nothing_and_keeps_each_tick, layout_gen_params),
	KUNIT_CASE_PARAM(arm_after_a_step_back_fires_past_the_reached_tick, layout_gen_params),
	KUNIT_CASE_PARAM(slot_with_several_rounds_fires_each_in_its_own, ring_gen_params),
	KUNIT_CASE_PARAM(slot_with_one_far_timeout_is_not_visited, ring_gen_params),
	KUNIT_CASE_PARAM(search_ends_after_a_batch_of_far_slots_and_nothing_is_late,
			 ring_gen_params),
	KUNIT_CASE_PARAM(visit_of_several_turns_keeps_later_rounds_in_order, ring_gen_params),
	KUNIT_CASE_PARAM(visit_of_several_turns_sees_changes_between_the_turns, ring_gen_params),
	KUNIT_CASE_PARAM(visit_ends_when_all_set_aside_are_cancelled, ring_gen_params),
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
