// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of clock steps at difficult moments: in a callback, in a sink, during a
 * visit, during a cascade, and between the hand-over to a worker and its callback.
 *
 * twheel_set_clock() only moves the MANUAL clock, so it can be called wherever a real clock
 * could be stepped. At no such moment may the step make a timeout early or late, or lose
 * it.
 */
#include <linux/module.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define HOUR		3600000ULL
#define MANY		1000
#define BATCH		128

/* Maximum number of workers that run callbacks of one shard at once. */
#define NR_WORKERS	4

static const struct shape shapes[] = {
	{ 256, 4 }, { 256, 1 }, { 8, 1 }, { 4, 3 }, { 2, 8 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static struct fixture *shaped_wheel(struct kunit *test)
{
	const struct shape *s = test->param_value;

	return manual_wheel(test, TICK, s->slots, s->levels);
}

static u64 rebased(struct fixture *f)
{
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	return stats.rebased;
}

/*
 * Each of the @n timeouts has fired once when the last of them is due, and none before its
 * tick.
 */
static void expect_each_at_its_tick(struct kunit *test, struct probe *p, unsigned int n)
{
	unsigned int i;
	u64 last = 0;

	for (i = 0; i < n; i++)
		last = max(last, p[i].tick);
	advance_tick(test, last);
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].tick * TICK);
	}
}

/* p->arg is the tick that the clock is set to. */
static void step_clock(struct probe *p)
{
	p->then = NULL;
	p->ret = twheel_set_clock(p->f->wheel, p->arg * TICK);
}

/* twheel_set_clock() */

static void set_clock_fires_nothing_before_the_next_pass(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 0, twheel_set_clock(f->wheel, 20 * TICK));
	KUNIT_EXPECT_EQ(test, 20 * TICK, twheel_now(f->wheel));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p->t));
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void set_clock_of_a_running_clock_is_einval(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-step" };
	struct twheel *w = fixture_create(test->priv, &params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_set_clock(w, 0));
}

static void set_clock_beyond_the_clocks_end_is_einval(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);

	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_set_clock(f->wheel, U64_MAX));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_now(f->wheel));
}

/* In a callback */

static void step_in_a_callback_spares_the_rest_of_its_tick(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 5000);
	p[10].then = step_clock;
	p[10].arg = 3000;
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, 0, p[10].ret);
	KUNIT_EXPECT_EQ(test, 11U, f->nr_fired);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[11].t));
	advance_tick(test, 4999);
	KUNIT_EXPECT_EQ(test, 11U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	expect_each_at_its_tick(test, p, MANY);
}

static void step_in_a_callback_of_less_than_a_tick_stops_its_tick(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 5000);
	p[10].then = step_clock;
	p[10].arg = 4999;
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, 11U, f->nr_fired);
	expect_each_at_its_tick(test, p, MANY);
}

/* Timeouts that the step has passed fire in the next pass at the latest. */
static void step_forward_in_a_callback_loses_nothing(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 5000 + 3 * i);
	p[10].then = step_clock;
	p[10].arg = 7000;
	advance_tick(test, 5030);
	advance_tick(test, 7000);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, p[i].tick <= 7000 ? 1U : 0U, p[i].fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	expect_each_at_its_tick(test, p, MANY);
}

static void step_and_mod(struct probe *p)
{
	step_clock(p);
	p->ret = twheel_mod(&p->other->t, p->other->tick * TICK);
}

/* The timeout that is moved was due already. */
static void mod_after_a_step_in_a_callback_is_exact(struct kunit *test)
{
	struct probe *p;

	shaped_wheel(test);
	p = probes(test, 2);
	arm_tick(test, &p[0], 5000);
	arm_tick(test, &p[1], 5000);
	p[0].then = step_and_mod;
	p[0].arg = 3000;
	p[0].other = &p[1];
	p[1].tick = 3400;
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[1].fired);
	advance_tick(test, 3000);
	expect_fires_at(test, &p[1], 3400);
}

static void step_and_cancel(struct probe *p)
{
	step_clock(p);
	p->ret = twheel_cancel(&p->other->t);
}

static void cancel_after_a_step_in_a_callback_takes_it_out(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, 3);
	unsigned int i;

	for (i = 0; i < 3; i++)
		arm_tick(test, &p[i], 5000);
	p[0].then = step_and_cancel;
	p[0].arg = 3000;
	p[0].other = &p[1];
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	advance_tick(test, 3000);
	expect_fires_at(test, &p[2], 5000);
	KUNIT_EXPECT_EQ(test, 2U, f->nr_fired);
}

/* During a visit: the slot holds more timeouts than a batch */

static void step_and_arm(struct probe *p)
{
	step_clock(p);
	p->ret = twheel_arm(&p->other->t, p->other->tick * TICK);
}

static struct probe *step_in_a_visit(struct kunit *test, u64 to, u64 arm_for)
{
	struct probe *p;
	unsigned int i;

	shaped_wheel(test);
	p = probes(test, 301);
	advance_tick(test, HOUR);
	for (i = 0; i < 300; i++)
		arm_tick(test, &p[i], HOUR + 100);
	p[0].then = step_and_arm;
	p[0].arg = to;
	p[0].other = &p[300];
	p[300].tick = arm_for;
	advance_tick(test, HOUR + 100);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	return p;
}

/* The clock goes back by 1,000 s, and a timeout is armed for 400 ms after that. */
static void arm_during_visit_after_step_is_not_late(struct kunit *test)
{
	u64 now = HOUR + 100 - 1000000;
	struct probe *p = step_in_a_visit(test, now, now + 400);
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	KUNIT_EXPECT_EQ(test, (now + 400) * TICK, twheel_next_expiry(f->wheel));
	expect_fires_at(test, &p[300], now + 400);
	expect_each_at_its_tick(test, p, 301);
}

static void arm_during_visit_after_step_for_the_past_fires_next(struct kunit *test)
{
	u64 now = HOUR + 100 - 1000000;
	struct probe *p = step_in_a_visit(test, now, 1);
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, now + 1);
	KUNIT_EXPECT_EQ(test, 1U, p[300].fired);
	expect_each_at_its_tick(test, p, 300);
}

/* During a cascade: callbacks of tick 255 run between its turns. */
static void step_during_a_cascade_is_exact(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, MANY + 20);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300 + i % 100);
	for (i = MANY; i < MANY + 20; i++)
		arm_tick(test, &p[i], 255);
	p[MANY + 7].then = step_clock;
	p[MANY + 7].arg = 100;
	advance_tick(test, 299);
	KUNIT_EXPECT_EQ(test, 8U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 254);
	KUNIT_EXPECT_EQ(test, 8U, f->nr_fired);
	for (i = 255; i < 400; i++) {
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, 20U + (i < 300 ? 0 : 10 * (i - 299)), f->nr_fired);
	}
	expect_each_at_its_tick(test, p, MANY + 20);
}

/* Between the hand-over to a worker and its callback */

/**
 * struct crew - timeouts for workers; the first of them keep all workers busy
 * @gate: where the callbacks of the first NR_WORKERS timeouts wait
 * @called: completed by the callback of the last timeout
 * @p: the timeouts
 */
struct crew {
	struct gate		gate;
	struct completion	called;
	struct probe		*p;
};

static void wait_at_gate(struct probe *p)
{
	struct crew *crew = p->data;

	gate_pass(&crew->gate);
}

static void complete_called(struct probe *p)
{
	struct crew *crew = p->data;

	complete(&crew->called);
}

/*
 * NR_WORKERS callbacks have begun at tick 5000. p[NR_WORKERS] is due at tick 5001 and waits
 * for a worker.
 */
static struct crew *busy_crew(struct kunit *test)
{
	struct crew *crew = kunit_kzalloc(test, sizeof(*crew), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, crew);
	gate_init(&crew->gate);
	init_completion(&crew->called);
	shaped_wheel(test);
	crew->p = probes(test, NR_WORKERS + 2);
	for (i = 0; i < NR_WORKERS + 2; i++) {
		crew->p[i].data = crew;
		crew->p[i].then = i < NR_WORKERS ? wait_at_gate : NULL;
		twheel_use_workqueue(&crew->p[i].t);
	}
	crew->p[NR_WORKERS + 1].then = complete_called;
	for (i = 0; i < NR_WORKERS; i++)
		arm_tick(test, &crew->p[i], 5000);
	advance_tick(test, 5000);
	for (i = 0; i < NR_WORKERS; i++)
		gate_wait(test, &crew->gate);
	arm_tick(test, &crew->p[NR_WORKERS], 5001);
	advance_tick(test, 5001);
	return crew;
}

/*
 * Another timeout is handed over after the step. Once a worker has called it, a worker must
 * have decided about the waiting one too.
 */
static void expect_not_called(struct kunit *test, struct crew *crew, u64 now)
{
	struct probe *waits = &crew->p[NR_WORKERS], *after = &crew->p[NR_WORKERS + 1];

	KUNIT_EXPECT_TRUE(test, twheel_pending(&waits->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(after->f->wheel, now * TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&after->t, (now + 1) * TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(after->f->wheel, (now + 1) * TICK));
	complete_all(&crew->gate.open);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&crew->called, PATIENCE), 0UL);
	twheel_flush(after->f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, waits->fired);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&waits->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(after->f->wheel));
}

/* The waiting timeout is called when the clock reaches its deadline again. */
static void expect_called_later(struct kunit *test, struct crew *crew)
{
	struct probe *waits = &crew->p[NR_WORKERS];

	waits->then = complete_called;
	advance_tick(test, 5000);
	twheel_flush(waits->f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, waits->fired);
	advance_tick(test, 5001);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&crew->called, PATIENCE), 0UL);
	twheel_flush(waits->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, waits->fired);
	KUNIT_EXPECT_EQ(test, 5001 * TICK, waits->fired_ns);
}

static void handed_over_timeout_is_not_called_early_after_step(struct kunit *test)
{
	struct crew *crew = busy_crew(test);
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, 0, twheel_set_clock(f->wheel, 1000 * TICK));
	expect_not_called(test, crew, 1000);
	expect_called_later(test, crew);
}

/* No pass comes before the workers are free, so the workers read the clock themselves. */
static void worker_looks_at_the_clock_right_before_the_call(struct kunit *test)
{
	struct crew *crew = busy_crew(test);
	struct probe *waits = &crew->p[NR_WORKERS];
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, twheel_set_clock(f->wheel, 1000 * TICK));
	complete_all(&crew->gate.open);
	twheel_flush(f->wheel);
	for (i = 0; i < 20; i++) {
		msleep(20);
		KUNIT_EXPECT_EQ(test, 0U, waits->fired);
	}
	expect_called_later(test, crew);
}

static void handed_over_timeout_can_be_cancelled_after_step(struct kunit *test)
{
	struct crew *crew = busy_crew(test);
	struct probe *waits = &crew->p[NR_WORKERS];
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, 1000 * TICK));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&waits->t));
	complete_all(&crew->gate.open);
	advance_tick(test, 6000);
	twheel_flush(f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, waits->fired);
}

/* In a sink */

/**
 * struct stepping_sink - data of a sink that steps the clock
 * @f: the fixture
 * @to: tick that its first call sets the clock to; 0 after that
 * @early: number of timeouts that it got before their tick
 */
struct stepping_sink {
	struct fixture	*f;
	u64		to;
	unsigned int	early;
};

static void take_and_step(void *sink_data, struct list_head *expired, unsigned int nr,
			  u64 now_ns)
{
	struct stepping_sink *sink = sink_data;
	struct twheel_timeout *t, *next;

	sink->early += twheel_now(sink->f->wheel) < now_ns;
	list_for_each_entry_safe(t, next, expired, entry) {
		struct probe *p = container_of(t, struct probe, t);

		sink->early += now_ns < p->tick * TICK;
		list_del_init(&t->entry);
		probe_record(p);
		twheel_accept(t);
	}
	if (sink->to)
		twheel_set_clock(sink->f->wheel, sink->to * TICK);
	sink->to = 0;
}

static struct stepping_sink *stepping_sink(struct kunit *test, u64 to)
{
	const struct shape *s = test->param_value;
	struct stepping_sink *sink = kunit_kzalloc(test, sizeof(*sink), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-step", .clock = TWHEEL_MANUAL, .tick_ns = TICK,
		.slots = s->slots, .levels = s->levels,
		.sink = take_and_step, .sink_data = sink,
	};

	KUNIT_ASSERT_NOT_NULL(test, sink);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	sink->f = test->priv;
	sink->to = to;
	return sink;
}

/* The tick takes several batches. Only the first one, which may be short, is passed on. */
static void step_in_a_sink_spares_the_rest_of_its_tick(struct kunit *test)
{
	struct stepping_sink *sink = stepping_sink(test, 3000);
	struct fixture *f = test->priv;
	struct probe *p = probes_for(test, MANY, NULL);
	unsigned int i, fired;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 5000);
	advance_tick(test, 5000);
	fired = f->nr_fired;
	KUNIT_EXPECT_GE(test, fired, 1U);
	KUNIT_EXPECT_LE(test, fired, (unsigned int)BATCH);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 4999);
	KUNIT_EXPECT_EQ(test, fired, f->nr_fired);
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, (unsigned int)MANY, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0U, sink->early);
}

static void step_in_a_sink_spares_later_ticks(struct kunit *test)
{
	struct stepping_sink *sink = stepping_sink(test, 5000);
	struct fixture *f = test->priv;
	struct probe *p = probes_for(test, MANY, NULL);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 5000 + i);
	advance_tick(test, 7000);
	KUNIT_EXPECT_LE(test, f->nr_fired, (unsigned int)BATCH);
	KUNIT_EXPECT_GE(test, f->nr_fired, 1U);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	for (i = f->nr_fired; i < MANY; i++) {
		advance_tick(test, 5000 + i - 1);
		KUNIT_ASSERT_EQ(test, i, f->nr_fired);
	}
	advance_tick(test, 5000 + MANY);
	KUNIT_EXPECT_EQ(test, (unsigned int)MANY, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0U, sink->early);
}

/* Placement after a step */

/* Each timeout is where it would be if it had been armed after the step. */
static void step_back_places_pending_timeouts_anew(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = shaped_wheel(test);
	u32 n = SHAPE_BOUNDARIES(s->levels), i;
	struct probe *p = probes(test, n);
	u64 start = 2 * ref_span(s) + 1, back;
	struct twheel_position pos;

	advance_tick(test, start);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], start + (ref_boundary(s, i) ?: 1));
	back = start - ref_span(s) / 2 - 1;
	advance_tick(test, back);
	KUNIT_EXPECT_EQ(test, (u64)n, rebased(f));
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_TRUE(test, twheel_position(&p[i].t, &pos));
		KUNIT_ASSERT_EQ(test, p[i].tick, pos.tick);
		KUNIT_ASSERT_EQ(test, ref_level(s, pos.tick, back), pos.level);
		KUNIT_ASSERT_EQ(test, ref_slot(s, pos.tick, pos.level), pos.slot);
		KUNIT_ASSERT_EQ(test, ref_rounds(s, pos.tick, back), pos.rounds);
	}
	expect_each_at_its_tick(test, p, n);
}

/* A timeout whose deadline had passed when it was armed now gets the tick of its deadline. */
static void step_back_gives_a_past_deadline_its_own_tick(struct kunit *test)
{
	struct probe *p;

	shaped_wheel(test);
	p = probes(test, 2);
	advance_tick(test, 5000);
	arm_tick(test, &p[0], 4000);
	arm_tick(test, &p[1], 1000);
	advance_tick(test, 3000);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired);
	advance_tick(test, 3001);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
	expect_fires_at(test, &p[0], 4000);
}

static void forward_clock_places_nothing_anew(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, MANY);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 1 + 7 * i);
	for (i = 0; i <= 7 * MANY; i += 100)
		advance_tick(test, i);
	KUNIT_EXPECT_EQ(test, 0ULL, rebased(f));
}

/* There are more timeouts than one turn can place. */
static void step_back_of_many_timeouts_loses_none(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, 5000);
	unsigned int i;

	advance_tick(test, 90000);
	for (i = 0; i < 5000; i++)
		arm_tick(test, &p[i], 90001 + i * 17 % 9000);
	advance_tick(test, 10000);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 5000ULL, rebased(f));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	for (i = 90000; i < 99100; i += 100) {
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, 0, twheel_audit(f->wheel));
	}
	expect_each_at_its_tick(test, p, 5000);
}

static void slack_is_not_applied_again_after_a_step_back(struct kunit *test)
{
	struct fixture *f = shaped_wheel(test);
	struct probe *p = probes(test, 1);

	advance_tick(test, 5000);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&p->t, 6001 * TICK, 100 * TICK));
	advance_tick(test, 3000);
	KUNIT_EXPECT_EQ(test, 6001 * TICK, twheel_next_expiry(f->wheel));
	expect_fires_at(test, p, 6001);
}

static struct kunit_case step_cases[] = {
	KUNIT_CASE(set_clock_fires_nothing_before_the_next_pass),
	KUNIT_CASE(set_clock_of_a_running_clock_is_einval),
	KUNIT_CASE(set_clock_beyond_the_clocks_end_is_einval),
	KUNIT_CASE_PARAM(step_in_a_callback_spares_the_rest_of_its_tick, shape_gen_params),
	KUNIT_CASE_PARAM(step_in_a_callback_of_less_than_a_tick_stops_its_tick,
			 shape_gen_params),
	KUNIT_CASE_PARAM(step_forward_in_a_callback_loses_nothing, shape_gen_params),
	KUNIT_CASE_PARAM(mod_after_a_step_in_a_callback_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(cancel_after_a_step_in_a_callback_takes_it_out, shape_gen_params),
	KUNIT_CASE_PARAM(arm_during_visit_after_step_is_not_late, shape_gen_params),
	KUNIT_CASE_PARAM(arm_during_visit_after_step_for_the_past_fires_next, shape_gen_params),
	KUNIT_CASE(step_during_a_cascade_is_exact),
	KUNIT_CASE_PARAM(handed_over_timeout_is_not_called_early_after_step, shape_gen_params),
	KUNIT_CASE_PARAM(worker_looks_at_the_clock_right_before_the_call, shape_gen_params),
	KUNIT_CASE_PARAM(handed_over_timeout_can_be_cancelled_after_step, shape_gen_params),
	KUNIT_CASE_PARAM(step_in_a_sink_spares_the_rest_of_its_tick, shape_gen_params),
	KUNIT_CASE_PARAM(step_in_a_sink_spares_later_ticks, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_places_pending_timeouts_anew, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_gives_a_past_deadline_its_own_tick, shape_gen_params),
	KUNIT_CASE_PARAM(forward_clock_places_nothing_anew, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_of_many_timeouts_loses_none, shape_gen_params),
	KUNIT_CASE_PARAM(slack_is_not_applied_again_after_a_step_back, shape_gen_params),
	{}
};

static struct kunit_suite step_suite = {
	.name = "twheel-step",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = step_cases,
};

module_test_suite(step_suite);

MODULE_DESCRIPTION("KUnit suite of clock steps at the worst moments");
MODULE_LICENSE("GPL");
