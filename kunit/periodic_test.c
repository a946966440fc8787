// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of periodic timeouts: phase, missed deadlines, finite repeat counts, and
 * operations on one in its own callback.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "arming.h"
#include "fixture.h"
#include "helper.h"
#include "kind.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define CLOCK_END	((u64)S64_MAX)
#define NR_CALLS	256

/**
 * struct call - record of a callback
 * @now: the wheel's time
 * @expires: the deadline
 * @missed: missed deadlines
 * @repeat: deadlines to come
 */
struct call {
	u64	now;
	u64	expires;
	u64	missed;
	u32	repeat;
};

/**
 * struct beat - a periodic timeout that records its calls
 * @p: the timeout
 * @f: the fixture
 * @nr: number of calls
 * @deadlines: number of deadlines that its calls reported
 * @call: the first calls
 * @then: called by its callback after the record, or NULL
 * @other: argument of @then: another timeout
 * @arg: argument of @then: a time
 * @data: argument of @then
 * @ret: result of the call that @then makes
 * @early_end: calls of @then with no period to come although the timeout had not ended
 */
struct beat {
	struct twheel_periodic	p;
	struct fixture		*f;
	unsigned int		nr;
	u64			deadlines;
	struct call		call[NR_CALLS];
	void			(*then)(struct beat *b);
	struct beat		*other;
	u64			arg;
	const void		*data;
	int			ret;
	unsigned int		early_end;
};

static void beat_fires(struct twheel_periodic *p)
{
	struct beat *b = container_of(p, struct beat, p);

	if (b->nr < NR_CALLS)
		b->call[b->nr] = (struct call){
			.now = twheel_now(b->f->wheel),
			.expires = p->expires,
			.missed = p->missed,
			.repeat = p->repeat,
		};
	b->nr++;
	b->deadlines += 1 + p->missed;
	if (b->then)
		b->then(b);
}

static struct beat *make_beat(struct kunit *test, enum twheel_kind kind)
{
	struct fixture *f = test->priv;
	struct beat *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->f = f;
	twheel_periodic_init(f->wheel, &b->p, beat_fires, kind);
	return b;
}

static void start(struct kunit *test, struct beat *b, u64 expires, u64 interval, u32 repeat)
{
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&b->p, expires, interval, repeat));
}

static void advance(struct kunit *test, u64 now)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now));
}

static void expect_last_call(struct kunit *test, struct beat *b, unsigned int nr, u64 expires,
			     u64 missed)
{
	KUNIT_ASSERT_EQ(test, nr, b->nr);
	KUNIT_ASSERT_GT(test, nr, 0U);
	KUNIT_EXPECT_EQ(test, expires, b->call[nr - 1].expires);
	KUNIT_EXPECT_EQ(test, missed, b->call[nr - 1].missed);
}

/* Fixed rate */

struct rate {
	u64 tick_ns, first_ns, interval_ns, step_ns;
};

static const struct rate rates[] = {
	/* advance one tick at a time */
	{ TICK, 5 * TICK, 10 * TICK, TICK },
	{ TICK, 5 * TICK, TICK, TICK },
	{ TICK, 5 * TICK, 256 * TICK, TICK },
	{ TICK, 1, TICK + 1, TICK },
	{ TICK, TICK / 3, 5 * TICK / 2, TICK },
	{ 7, 3, 10, 7 },
	{ 7, 3, 10, 1 },
	{ 7, 0, 7, 7 },
	{ 1, 1, 1, 1 },
	/* an interval below the tick */
	{ TICK, TICK, TICK / 2, TICK },
	{ TICK, 1, TICK / 3, TICK },
	{ TICK, 0, 1, TICK },
	{ 7, 3, 2, 7 },
	{ 7, 3, 2, 1 },
	/* stalls */
	{ TICK, 5 * TICK, 10 * TICK, 95 * TICK },
	{ TICK, 5 * TICK, 10 * TICK, 10 * TICK },
	{ TICK, 5 * TICK, 5 * TICK / 2, 17 * TICK + 1 },
	{ TICK, 0, 1, 1000 * TICK },
	{ 7, 3, 10, 1001 },
	{ 7, 3, 2, 77 },
};

static void rate_desc(const struct rate *r, char *desc)
{
	sprintf(desc, "from %llu every %llu, tick %llu, steps of %llu", r->first_ns,
		r->interval_ns, r->tick_ns, r->step_ns);
}

KUNIT_ARRAY_PARAM(rate, rates, rate_desc);

/* Deadlines in ticks that have begun by @now: these can have fired. */
static u64 deadlines_by(const struct rate *r, u64 now)
{
	now -= ref_mod(now, r->tick_ns);
	return now < r->first_ns ? 0 : div64_u64(now - r->first_ns, r->interval_ns) + 1;
}

/*
 * After every advance, all deadlines up to the tick that has begun have been reported, and
 * none after the current time. At most one call reports them, with the last of them.
 */
static void fixed_rate_tells_of_every_deadline_once_in_phase(struct kunit *test)
{
	const struct rate *r = test->param_value;
	struct beat *b;
	unsigned int i;

	manual_wheel(test, r->tick_ns, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, r->first_ns, r->interval_ns, 0);
	for (i = 1; i <= NR_CALLS; i++) {
		unsigned int nr = b->nr;
		u64 now = i * r->step_ns;
		u64 last;

		advance(test, now);
		KUNIT_ASSERT_GE(test, b->deadlines, deadlines_by(r, now));
		KUNIT_ASSERT_LE(test, b->nr, nr + 1);
		if (b->nr == nr)
			continue;
		last = r->first_ns + (b->deadlines - 1) * r->interval_ns;
		KUNIT_ASSERT_EQ(test, last, b->call[nr].expires);
		KUNIT_ASSERT_LE(test, last, now);
		KUNIT_ASSERT_GT(test, last + r->interval_ns, now);
	}
	KUNIT_EXPECT_TRUE(test, twheel_pending(&b->p.t));
}

static void fixed_rate_keeps_its_phase_over_a_stall(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 5);
	expect_last_call(test, b, 1, 5 * TICK, 0);
	advance_tick(test, 99);
	expect_last_call(test, b, 2, 95 * TICK, 8);
	advance_tick(test, 104);
	KUNIT_EXPECT_EQ(test, 2U, b->nr);
	advance_tick(test, 105);
	expect_last_call(test, b, 3, 105 * TICK, 0);
}

static void stall_is_never_made_up_for_in_a_burst(struct kunit *test)
{
	struct beat *b;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, TICK, TICK, 0);
	advance_tick(test, 10000);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	for (i = 0; i < 10; i++)
		advance_tick(test, 10000);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 10001);
	expect_last_call(test, b, 2, 10001 * TICK, 0);
}

static void past_first_deadline_sets_the_phase(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	advance_tick(test, 100);
	start(test, b, 3 * TICK, 10 * TICK, 0);
	KUNIT_EXPECT_EQ(test, 0U, b->nr);
	advance_tick(test, 101);
	expect_last_call(test, b, 1, 93 * TICK, 9);
	advance_tick(test, 102);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 103);
	expect_last_call(test, b, 2, 103 * TICK, 0);
}

static void count_of_missed_does_not_overflow(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 256, 4);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, 1, 1, 0);
	advance(test, CLOCK_END - 10 * TICK);
	expect_last_call(test, b, 1, CLOCK_END - 10 * TICK, CLOCK_END - 10 * TICK - 1);
}

static const struct shape shapes[] = {
	{ 2, 1 }, { 8, 1 }, { 2, 8 }, { 4, 3 }, { 256, 4 }, { 65536, 2 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

/* Intervals of every level, also with rounds, from any cursor. */
static void fixed_rate_is_exact_with_intervals_of_every_level(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct beat *b;
	u64 now = 0;
	u32 j, i;

	manual_wheel(test, TICK, s->slots, s->levels);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	for (j = 1; j < SHAPE_BOUNDARIES(s->levels); j++) {
		u64 interval = min(ref_boundary(s, j) ?: 1, CLOCK_END / TICK / 10000);

		start(test, b, (now + interval) * TICK, interval * TICK, 0);
		for (i = 0; i < 5; i++) {
			unsigned int nr = b->nr;

			advance_tick(test, now + interval - 1);
			KUNIT_ASSERT_EQ(test, nr, b->nr);
			now += interval;
			advance_tick(test, now);
			KUNIT_ASSERT_EQ(test, nr + 1, b->nr);
		}
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&b->p.t));
	}
	KUNIT_EXPECT_EQ(test, (u64)b->nr, b->deadlines);
}

static void fixed_rate_survives_a_step_back(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 50);
	expect_last_call(test, b, 1, 45 * TICK, 4);
	advance_tick(test, 10);
	advance_tick(test, 54);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 55);
	expect_last_call(test, b, 2, 55 * TICK, 0);
}

/* Fixed delay */

static void fixed_delay_counts_from_the_callback(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_DELAY);
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 8);
	expect_last_call(test, b, 1, 5 * TICK, 0);
	advance_tick(test, 17);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 18);
	expect_last_call(test, b, 2, 18 * TICK, 0);
}

static void fixed_delay_misses_nothing_in_a_stall(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_DELAY);
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance(test, 1000 * TICK + 1);
	expect_last_call(test, b, 1, 5 * TICK, 0);
	advance_tick(test, 1010);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 1011);
	expect_last_call(test, b, 2, 1010 * TICK + 1, 0);
}

static void fixed_delay_below_the_tick_fires_once_a_tick(struct kunit *test)
{
	struct beat *b;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_DELAY);
	start(test, b, 0, 1, 0);
	for (i = 1; i <= 100; i++) {
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, i, b->nr);
	}
	KUNIT_EXPECT_EQ(test, 100ULL, b->deadlines);
}

/* Finite repeat */

struct end {
	u32 repeat;
	u64 interval_ns, step_ns;
};

static const struct end ends[] = {
	{ 1, 10 * TICK, TICK },
	{ 2, 10 * TICK, TICK },
	{ 10, 10 * TICK, TICK },
	{ 1, 10 * TICK, 1000 * TICK },
	{ 2, 10 * TICK, 1000 * TICK },
	{ 10, 10 * TICK, 1000 * TICK },
	{ 10, 10 * TICK, 37 * TICK },
	{ 10, 10 * TICK, 99 * TICK },
	{ 10, 10 * TICK, 100 * TICK },
	{ 10, 10 * TICK, 91 * TICK },
	{ 1000, 1, TICK },
	{ U32_MAX, 1, 5 * (u64)NSEC_PER_SEC },
	{ U32_MAX, 1, TICK * 100 },
};

static void end_desc(const struct end *e, char *desc)
{
	sprintf(desc, "%u times every %llu, steps of %llu", e->repeat, e->interval_ns,
		e->step_ns);
}

KUNIT_ARRAY_PARAM(end, ends, end_desc);

static void missed_deadlines_count_toward_the_end(struct kunit *test)
{
	const struct end *e = test->param_value;
	struct beat *b;
	u64 now = 0;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, TWHEEL_FIXED_RATE);
	start(test, b, TICK, e->interval_ns, e->repeat);
	for (i = 0; i < NR_CALLS; i++) {
		unsigned int nr = b->nr;

		now += e->step_ns;
		advance(test, now);
		KUNIT_ASSERT_LE(test, b->deadlines, (u64)e->repeat);
		if (b->nr > nr)
			KUNIT_ASSERT_EQ(test, e->repeat - b->deadlines, (u64)b->call[nr].repeat);
		KUNIT_ASSERT_EQ(test, b->deadlines < e->repeat, twheel_pending(&b->p.t));
	}
	if (now < TICK + (e->repeat - 1) * e->interval_ns)
		return;
	expect_last_call(test, b, b->nr, TICK + (e->repeat - 1) * e->interval_ns,
			 b->call[b->nr - 1].missed);
	KUNIT_EXPECT_EQ(test, (u64)e->repeat, b->deadlines);
}

static void finite_one_ends_after_so_many_calls(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct beat *b;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 5 * TICK, 3);
	for (i = 1; i <= 100; i++)
		advance_tick(test, i);
	KUNIT_ASSERT_EQ(test, 3U, b->nr);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 2U - i, b->call[i].repeat);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&b->p.t));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void finished_one_can_be_armed_again(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 5 * TICK, 1);
	advance_tick(test, 20);
	start(test, b, 30 * TICK, 7 * TICK, 2);
	advance_tick(test, 30);
	advance_tick(test, 37);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 3U, b->nr);
	KUNIT_EXPECT_EQ(test, 37 * TICK, b->call[2].expires);
}

/* Arms, queries and cancels */

static void bad_interval_is_refused(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_periodic(&b->p, TICK, 0, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_periodic(&b->p, TICK, CLOCK_END + 1, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_periodic(&b->p, TICK, U64_MAX, 0));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_periodic(&b->p, CLOCK_END + 1, TICK, 0));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 0U, b->nr);
}

static void longest_interval_never_comes_again(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 256, 4);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, CLOCK_END, 0);
	advance_tick(test, 6);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance(test, CLOCK_END - TICK);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&b->p.t));
}

static void arm_while_pending_is_refused(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 5 * TICK, 3);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm_periodic(&b->p, 7 * TICK, TICK, 1));
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 2U, b->call[0].repeat);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm_periodic(&b->p, 7 * TICK, TICK, 1));
	advance_tick(test, 10);
	expect_last_call(test, b, 2, 10 * TICK, 0);
}

static void is_pending_between_its_periods(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct beat *b;
	unsigned int i;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 5 * TICK, 0);
	for (i = 5; i < 100; i += 5) {
		KUNIT_ASSERT_TRUE(test, twheel_pending(&b->p.t));
		KUNIT_ASSERT_LE(test, twheel_next_expiry(f->wheel), i * TICK);
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, 5 * TICK, twheel_remaining_ns(&b->p.t));
	}
	KUNIT_EXPECT_EQ(test, 19U, b->nr);
}

static void cancel_between_its_periods_ends_it(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 5 * TICK, 0);
	advance_tick(test, 12);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&b->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&b->p.t));
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void mod_between_its_periods_begins_a_new_phase(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&b->p.t, 18 * TICK));
	advance_tick(test, 17);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 18);
	expect_last_call(test, b, 2, 18 * TICK, 0);
	advance_tick(test, 27);
	KUNIT_EXPECT_EQ(test, 2U, b->nr);
	advance_tick(test, 28);
	expect_last_call(test, b, 3, 28 * TICK, 0);
}

/* From its own callback */

static void cancel_itself(struct beat *b)
{
	b->ret = twheel_cancel(&b->p.t);
}

static void cancelled_from_its_callback_it_stays_cancelled(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = cancel_itself;
	start(test, b, 5 * TICK, 5 * TICK, 0);
	advance_tick(test, 5);
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_EQ(test, 1, b->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_next_expiry(f->wheel));
}

static void cancel_from_the_last_callback_reports_false(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = cancel_itself;
	start(test, b, 5 * TICK, 5 * TICK, 1);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_EQ(test, 0, b->ret);
}

static void mod_itself_once(struct beat *b)
{
	b->then = NULL;
	b->ret = twheel_mod(&b->p.t, b->arg);
}

static void moved_from_its_callback_it_goes_on_from_there(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = mod_itself_once;
	b->arg = 48 * TICK;
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 5);
	KUNIT_EXPECT_GE(test, b->ret, 0);
	advance_tick(test, 47);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 48);
	expect_last_call(test, b, 2, 48 * TICK, 0);
	advance_tick(test, 57);
	KUNIT_EXPECT_EQ(test, 2U, b->nr);
	advance_tick(test, 58);
	expect_last_call(test, b, 3, 58 * TICK, 0);
}

static void arm_itself(struct beat *b)
{
	b->ret = twheel_arm_periodic(&b->p, b->arg, TICK, 0);
}

static void arm_periodic_from_its_callback_is_refused(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = arm_itself;
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, b->ret);
	advance_tick(test, 14);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 15);
	KUNIT_EXPECT_EQ(test, 2U, b->nr);
}

static void cancel_other(struct beat *b)
{
	b->ret = twheel_cancel(&b->other->p.t);
}

static void cancelled_from_another_callback_of_its_tick_it_does_not_fire(struct kunit *test)
{
	struct beat *a, *b;

	manual_wheel(test, TICK, 4, 3);
	a = make_beat(test, kind_of(test));
	b = make_beat(test, kind_of(test));
	start(test, a, 5 * TICK, 10 * TICK, 0);
	start(test, b, 5 * TICK, 10 * TICK, 0);
	advance_tick(test, 5);
	a->then = cancel_other;
	a->other = b;
	advance_tick(test, 15);
	KUNIT_EXPECT_EQ(test, 2U, a->nr);
	KUNIT_EXPECT_EQ(test, 1, a->ret);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
}

/* After the last period, only twheel_arm_periodic() arms the timeout */

/* The elements have no value: their index gives the kind and the function. */
static const u8 agains[ARRAY_SIZE(kinds) * ARRAY_SIZE(armings)];

static enum twheel_kind again_kind(const u8 *again)
{
	return kinds[(again - agains) / ARRAY_SIZE(armings)].kind;
}

static int arm_again(struct beat *b, const u8 *again)
{
	const struct arming *a = &armings[(again - agains) % ARRAY_SIZE(armings)];

	return a->arm(b->f->wheel, &b->p.t, twheel_now(b->f->wheel) + TICK);
}

static void again_desc(const u8 *again, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, %s",
		 armings[(again - agains) % ARRAY_SIZE(armings)].name,
		 kinds[(again - agains) / ARRAY_SIZE(armings)].name);
}

KUNIT_ARRAY_PARAM(again, agains, again_desc);

static struct beat *again_beat(struct kunit *test)
{
	manual_wheel(test, TICK, 4, 3);
	return make_beat(test, again_kind(test->param_value));
}

static void try_again_at_the_end(struct beat *b)
{
	if (twheel_periodic_ended(&b->p))
		b->ret = arm_again(b, b->data);
	else
		b->early_end += !b->p.repeat;
}

static void mod_in_last_callback_of_finite_periodic_is_refused(struct kunit *test)
{
	struct beat *b = again_beat(test);
	unsigned int i;

	b->then = try_again_at_the_end;
	b->data = test->param_value;
	start(test, b, TICK, TICK, 3);
	for (i = 1; i < 100; i++)
		advance_tick(test, i);
	KUNIT_EXPECT_EQ(test, -EINVAL, b->ret);
	KUNIT_EXPECT_EQ(test, 3U, b->nr);
	KUNIT_EXPECT_EQ(test, 0U, b->early_end);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
}

static void mod_in_a_call_that_misses_the_rest_is_refused(struct kunit *test)
{
	struct beat *b = again_beat(test);

	if (again_kind(test->param_value) == TWHEEL_FIXED_DELAY)
		kunit_skip(test, "fixed delay misses nothing");
	b->then = try_again_at_the_end;
	b->data = test->param_value;
	start(test, b, TICK, TICK, 3);
	advance_tick(test, 50);
	expect_last_call(test, b, 1, 3 * TICK, 2);
	KUNIT_EXPECT_EQ(test, -EINVAL, b->ret);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
}

static void mod_after_the_last_callback_is_refused(struct kunit *test)
{
	struct beat *b = again_beat(test);

	start(test, b, TICK, TICK, 1);
	advance_tick(test, 5);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
	KUNIT_EXPECT_EQ(test, -EINVAL, arm_again(b, test->param_value));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	start(test, b, 101 * TICK, TICK, 1);
	KUNIT_EXPECT_FALSE(test, twheel_periodic_ended(&b->p));
	advance_tick(test, 200);
	KUNIT_EXPECT_EQ(test, 2U, b->nr);
}

static void mod_before_the_first_arm_periodic_is_refused(struct kunit *test)
{
	struct beat *b = again_beat(test);

	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
	KUNIT_EXPECT_EQ(test, -EINVAL, arm_again(b, test->param_value));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
}

static void cancelled_one_goes_on_with_the_rest_of_its_periods(struct kunit *test)
{
	struct beat *b = again_beat(test);
	unsigned int i;

	start(test, b, TICK, TICK, 5);
	advance_tick(test, 1);
	advance_tick(test, 2);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&b->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_periodic_ended(&b->p));
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, 0, arm_again(b, test->param_value));
	for (i = 51; i < 100; i++)
		advance_tick(test, i);
	KUNIT_EXPECT_EQ(test, 5U, b->nr);
	KUNIT_EXPECT_EQ(test, 5ULL, b->deadlines);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
}

static void arm_periodic_in_the_last_callback_is_refused(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = arm_itself;
	start(test, b, 5 * TICK, 10 * TICK, 1);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, b->ret);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
}

/* The missed periods count up to the call, not up to the start of the pass */

static void step_clock(struct probe *p)
{
	p->ret = twheel_set_clock(p->f->wheel, p->arg * TICK);
}

/* An earlier callback of the tick of @b sets the clock to tick @to. */
static struct beat *beat_behind_a_step(struct kunit *test, enum twheel_kind kind, u64 tick,
				       u64 to, u32 repeat)
{
	struct probe *p;
	struct beat *b;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, 1);
	b = make_beat(test, kind);
	p->then = step_clock;
	p->arg = to;
	arm_tick(test, p, tick);
	start(test, b, tick * TICK, 100 * TICK, repeat);
	advance_tick(test, tick);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	return b;
}

/* The earlier callback takes 350 ms. */
static void fixed_rate_counts_to_the_call(struct kunit *test)
{
	struct beat *b = beat_behind_a_step(test, TWHEEL_FIXED_RATE, 100, 450, 0);

	expect_last_call(test, b, 1, 400 * TICK, 3);
	KUNIT_EXPECT_EQ(test, 450 * TICK, b->call[0].now);
	advance_tick(test, 450);
	advance_tick(test, 499);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 500);
	expect_last_call(test, b, 2, 500 * TICK, 0);
}

static void periods_missed_up_to_the_call_count_toward_the_end(struct kunit *test)
{
	struct beat *b = beat_behind_a_step(test, TWHEEL_FIXED_RATE, 100, 450, 3);

	expect_last_call(test, b, 1, 300 * TICK, 2);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&b->p));
	advance_tick(test, 1000);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
}

/* The earlier callback sets the clock back by 10 s. */
static void periodic_is_not_called_before_its_deadline_after_a_step_back(struct kunit *test)
{
	struct beat *b = beat_behind_a_step(test, kind_of(test), 20000, 10000, 0);

	KUNIT_EXPECT_EQ(test, 0U, b->nr);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&b->p.t));
	advance_tick(test, 19999);
	KUNIT_EXPECT_EQ(test, 0U, b->nr);
	/* The timeout of the earlier callback is not armed any more. */
	advance_tick(test, 20000);
	expect_last_call(test, b, 1, 20000 * TICK, 0);
	KUNIT_EXPECT_EQ(test, 20000 * TICK, b->call[0].now);
	advance_tick(test, 20100);
	expect_last_call(test, b, 2, 20100 * TICK, 0);
}

/* Its memory is reused while its callback runs */

/**
 * struct husk - a periodic timeout whose memory is reused while its callback runs
 * @p: the timeout
 * @gate: where the callback waits after its last use of the timeout; NULL: it does not wait
 * @called: completed by a call that does not wait
 */
struct husk {
	struct twheel_periodic	p;
	struct gate		*gate;
	struct completion	called;
};

static void husk_fires(struct twheel_periodic *p)
{
	struct husk *h = container_of(p, struct husk, p);
	struct gate *gate = h->gate;

	twheel_cancel(&p->t);
	if (!gate)
		complete(&h->called);
	else
		gate_pass(gate);
}

static void husk_init(struct kunit *test, struct husk *h)
{
	struct fixture *f = test->priv;

	twheel_periodic_init(f->wheel, &h->p, husk_fires, kind_of(test));
	twheel_use_workqueue(&h->p.t);
}

/* The callback of the former timeout in the husk's memory is running. */
static struct husk *left_husk(struct kunit *test, struct gate *gate)
{
	struct husk *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, h);
	manual_wheel(test, TICK, 4, 3);
	gate_init(gate);
	init_completion(&h->called);
	h->gate = gate;
	husk_init(test, h);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&h->p, TICK, TICK, 0));
	advance_tick(test, 1);
	gate_wait(test, gate);
	h->gate = NULL;
	husk_init(test, h);
	return h;
}

static void reused_memory_of_running_periodic_can_be_armed(struct kunit *test)
{
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct husk *h = left_husk(test, gate);
	int ret = twheel_arm_periodic(&h->p, 2 * TICK, TICK, 0);

	KUNIT_EXPECT_EQ(test, 0, ret);
	if (!ret) {
		advance_tick(test, 2);
		KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&h->called, PATIENCE), 0UL);
	}
	complete_all(&gate->open);
	twheel_cancel_sync(&h->p.t);
	twheel_flush(((struct fixture *)test->priv)->wheel);
}

/* If cancel_sync or shutdown waited for the former callback, they would hang at the gate. */
static void reused_memory_of_running_periodic_is_not_waited_for(struct kunit *test)
{
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct husk *h = left_husk(test, gate);
	int ret = twheel_try_cancel(&h->p.t);

	KUNIT_EXPECT_EQ(test, 0, ret);
	ret = twheel_arm_periodic(&h->p, 2 * TICK, TICK, 0);
	KUNIT_EXPECT_EQ(test, 0, ret);
	if (!ret) {
		KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&h->p.t));
		KUNIT_EXPECT_FALSE(test, twheel_shutdown(&h->p.t));
		KUNIT_EXPECT_FALSE(test, completion_done(&gate->open));
	}
	complete_all(&gate->open);
	twheel_flush(((struct fixture *)test->priv)->wheel);
}

static void begin_anew(struct beat *b)
{
	b->then = NULL;
	twheel_cancel(&b->p.t);
	twheel_periodic_init(b->f->wheel, &b->p, beat_fires, TWHEEL_FIXED_RATE);
	b->ret = twheel_arm_periodic(&b->p, b->arg, TICK, 2);
}

static void periodic_initialised_in_its_callback_can_be_armed_there(struct kunit *test)
{
	struct beat *b;

	manual_wheel(test, TICK, 4, 3);
	b = make_beat(test, kind_of(test));
	b->then = begin_anew;
	b->arg = 20 * TICK;
	start(test, b, 5 * TICK, TICK, 0);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, b->ret);
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	advance_tick(test, 20);
	advance_tick(test, 21);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 3U, b->nr);
}

/**
 * struct mortal - a periodic timeout that frees itself
 * @p: the timeout
 * @calls: counter of its calls
 * @lives: number of the call in which it frees itself
 */
struct mortal {
	struct twheel_periodic	p;
	unsigned int		*calls;
	unsigned int		lives;
};

static void mortal_fires(struct twheel_periodic *p)
{
	struct mortal *m = container_of(p, struct mortal, p);

	if (++*m->calls < m->lives)
		return;
	if (!twheel_periodic_ended(p))
		*m->calls += !twheel_cancel(&p->t);
	kfree(m);
}

static void it_can_be_freed_in_its_callback(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	unsigned int *calls = kunit_kzalloc(test, sizeof(*calls), GFP_KERNEL);
	unsigned int repeat;

	KUNIT_ASSERT_NOT_NULL(test, calls);
	for (repeat = 3; repeat < 5; repeat++) {
		struct mortal *m = kzalloc(sizeof(*m), GFP_KERNEL);
		u64 now = twheel_now(f->wheel);
		unsigned int i;

		KUNIT_ASSERT_NOT_NULL(test, m);
		*calls = 0;
		m->calls = calls;
		m->lives = 3;
		twheel_periodic_init(f->wheel, &m->p, mortal_fires, kind_of(test));
		twheel_arm_periodic(&m->p, now + TICK, TICK, repeat);
		for (i = 1; i < 10; i++)
			advance(test, now + i * TICK);
		KUNIT_EXPECT_EQ(test, 3U, *calls);
	}
}

/* On a running clock */

struct slow_beat {
	struct twheel_periodic	p;
	enum twheel_kind	kind;
	struct completion	began;
	unsigned int		lasts_ms;
	atomic_t		calls;
	atomic_t		inside;
	unsigned int		twice;
	unsigned int		early;
	u64			deadlines;
	u64			ended_ns;
};

static void slow_beat_fires(struct twheel_periodic *p)
{
	struct slow_beat *s = container_of(p, struct slow_beat, p);
	u64 now = ktime_get_ns();

	s->twice += atomic_inc_return(&s->inside) != 1;
	s->early += now < p->expires;
	if (s->kind == TWHEEL_FIXED_DELAY && s->ended_ns)
		s->early += now < s->ended_ns + p->interval_ns;
	s->deadlines += 1 + p->missed;
	atomic_inc(&s->calls);
	complete(&s->began);
	if (s->lasts_ms)
		msleep(s->lasts_ms);
	s->ended_ns = ktime_get_ns();
	atomic_dec(&s->inside);
}

static struct slow_beat *slow_beat(struct kunit *test, enum twheel_kind kind,
				   unsigned int lasts_ms)
{
	struct twheel_params params = { .name = "kunit-beat", .clock = TWHEEL_MONOTONIC };
	struct slow_beat *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	init_completion(&s->began);
	s->kind = kind;
	s->lasts_ms = lasts_ms;
	twheel_periodic_init(f->wheel, &s->p, slow_beat_fires, kind);
	if (lasts_ms)
		twheel_use_workqueue(&s->p.t);
	return s;
}

static void periodic_on_a_running_clock_is_never_early(struct kunit *test)
{
	struct slow_beat *s = slow_beat(test, kind_of(test), 0);
	u64 first = ktime_get_ns() + 5 * TICK;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&s->p, first, 3 * TICK, 20));
	for (i = 0; i < 20 && s->deadlines < 20; i++)
		KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&s->began, PATIENCE), 0UL);
	twheel_cancel_sync(&s->p.t);
	KUNIT_EXPECT_EQ(test, 20ULL, s->deadlines);
	KUNIT_EXPECT_EQ(test, 0U, s->early);
}

/* The callback takes longer than the interval. */
static void slow_callback_is_not_called_twice_at_once(struct kunit *test)
{
	struct slow_beat *s = slow_beat(test, kind_of(test), 20);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&s->p, ktime_get_ns(), 2 * TICK, 0));
	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&s->began, PATIENCE), 0UL);
	twheel_cancel_sync(&s->p.t);
	KUNIT_EXPECT_EQ(test, 0U, s->twice);
	KUNIT_EXPECT_EQ(test, 0U, s->early);
	if (kind_of(test) == TWHEEL_FIXED_RATE)
		KUNIT_EXPECT_GE(test, s->deadlines, 4 * 10ULL);
	else
		KUNIT_EXPECT_EQ(test, (u64)atomic_read(&s->calls), s->deadlines);
}

static void cancel_sync_ends_it_and_waits_for_the_callback(struct kunit *test)
{
	struct slow_beat *s = slow_beat(test, kind_of(test), 50);
	int calls;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&s->p, ktime_get_ns(), TICK, 0));
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&s->began, PATIENCE), 0UL);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&s->p.t));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&s->inside));
	calls = atomic_read(&s->calls);
	msleep(100);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&s->calls));
}

static struct kunit_case periodic_cases[] = {
	KUNIT_CASE_PARAM(fixed_rate_tells_of_every_deadline_once_in_phase, rate_gen_params),
	KUNIT_CASE(fixed_rate_keeps_its_phase_over_a_stall),
	KUNIT_CASE(stall_is_never_made_up_for_in_a_burst),
	KUNIT_CASE(past_first_deadline_sets_the_phase),
	KUNIT_CASE(count_of_missed_does_not_overflow),
	KUNIT_CASE_PARAM(fixed_rate_is_exact_with_intervals_of_every_level, shape_gen_params),
	KUNIT_CASE(fixed_rate_survives_a_step_back),
	KUNIT_CASE(fixed_delay_counts_from_the_callback),
	KUNIT_CASE(fixed_delay_misses_nothing_in_a_stall),
	KUNIT_CASE(fixed_delay_below_the_tick_fires_once_a_tick),
	KUNIT_CASE_PARAM(missed_deadlines_count_toward_the_end, end_gen_params),
	KUNIT_CASE_PARAM(finite_one_ends_after_so_many_calls, kind_gen_params),
	KUNIT_CASE_PARAM(finished_one_can_be_armed_again, kind_gen_params),
	KUNIT_CASE_PARAM(bad_interval_is_refused, kind_gen_params),
	KUNIT_CASE_PARAM(longest_interval_never_comes_again, kind_gen_params),
	KUNIT_CASE_PARAM(arm_while_pending_is_refused, kind_gen_params),
	KUNIT_CASE_PARAM(is_pending_between_its_periods, kind_gen_params),
	KUNIT_CASE_PARAM(cancel_between_its_periods_ends_it, kind_gen_params),
	KUNIT_CASE_PARAM(mod_between_its_periods_begins_a_new_phase, kind_gen_params),
	KUNIT_CASE_PARAM(cancelled_from_its_callback_it_stays_cancelled, kind_gen_params),
	KUNIT_CASE_PARAM(cancel_from_the_last_callback_reports_false, kind_gen_params),
	KUNIT_CASE_PARAM(moved_from_its_callback_it_goes_on_from_there, kind_gen_params),
	KUNIT_CASE_PARAM(arm_periodic_from_its_callback_is_refused, kind_gen_params),
	KUNIT_CASE_PARAM(cancelled_from_another_callback_of_its_tick_it_does_not_fire,
			 kind_gen_params),
	KUNIT_CASE_PARAM(mod_in_last_callback_of_finite_periodic_is_refused, again_gen_params),
	KUNIT_CASE_PARAM(mod_in_a_call_that_misses_the_rest_is_refused, again_gen_params),
	KUNIT_CASE_PARAM(mod_after_the_last_callback_is_refused, again_gen_params),
	KUNIT_CASE_PARAM(mod_before_the_first_arm_periodic_is_refused, again_gen_params),
	KUNIT_CASE_PARAM(cancelled_one_goes_on_with_the_rest_of_its_periods, again_gen_params),
	KUNIT_CASE_PARAM(arm_periodic_in_the_last_callback_is_refused, kind_gen_params),
	KUNIT_CASE(fixed_rate_counts_to_the_call),
	KUNIT_CASE(periods_missed_up_to_the_call_count_toward_the_end),
	KUNIT_CASE_PARAM(periodic_is_not_called_before_its_deadline_after_a_step_back,
			 kind_gen_params),
	KUNIT_CASE_PARAM(reused_memory_of_running_periodic_can_be_armed, kind_gen_params),
	KUNIT_CASE_PARAM(reused_memory_of_running_periodic_is_not_waited_for, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_initialised_in_its_callback_can_be_armed_there,
			 kind_gen_params),
	KUNIT_CASE_PARAM(it_can_be_freed_in_its_callback, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_on_a_running_clock_is_never_early, kind_gen_params),
	KUNIT_CASE_PARAM(slow_callback_is_not_called_twice_at_once, kind_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_ends_it_and_waits_for_the_callback, kind_gen_params),
	{}
};

static struct kunit_suite periodic_suite = {
	.name = "twheel-periodic",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = periodic_cases,
};

module_test_suite(periodic_suite);

MODULE_DESCRIPTION("KUnit suite of periodic timeouts");
MODULE_LICENSE("GPL");
