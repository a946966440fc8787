// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the end of a wheel: what twheel_stop() hands back, from where, and
 * what may still be called then; and that a stop under load loses nothing.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

static unsigned int repeat = 100;
module_param(repeat, uint, 0444);
MODULE_PARM_DESC(repeat, "How often a wheel is stopped under load");
DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)
#define MANY		1000

/* What is handed back is counted in p->ret. */
static unsigned int count_probes(struct kunit *test, struct list_head *list)
{
	struct twheel_timeout *t, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(t, next, list, entry) {
		KUNIT_EXPECT_FALSE(test, twheel_pending(t));
		container_of(t, struct probe, t)->ret++;
		list_del_init(&t->entry);
		n++;
	}
	return n;
}

static unsigned int stop(struct kunit *test)
{
	struct fixture *f = test->priv;
	LIST_HEAD(unprocessed);

	twheel_stop(f->wheel, &unprocessed);
	return count_probes(test, &unprocessed);
}

/* Each of @p was either fired or handed back, once. */
static void expect_accounted(struct kunit *test, struct probe *p, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ_MSG(test, 1, (int)p[i].fired + p[i].ret,
				    "timeout %u of %u: fired %u times, handed back %d times",
				    i, n, p[i].fired, p[i].ret);
}

/* From where it is handed back */

static const struct shape shapes[] = {
	{ 2, 1 }, { 8, 1 }, { 256, 1 }, { 2, 8 }, { 4, 3 }, { 256, 4 }, { 65536, 2 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static void stop_hands_back_a_timeout_on_every_level(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	unsigned int n = SHAPE_BOUNDARIES(s->levels), i;
	struct probe *p = probes(test, n);
	struct twheel_counters stats;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, min(ref_boundary(s, i) ?: 1,
								 S64_MAX / TICK) * TICK));
	KUNIT_EXPECT_EQ(test, n, stop(test));
	expect_accounted(test, p, n);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, (u64)n, stats.stopped);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
}

static const struct shape small_shapes[] = { { 2, 1 }, { 8, 1 }, { 2, 4 }, { 4, 2 }, { 4, 3 } };

KUNIT_ARRAY_PARAM(small_shape, small_shapes, shape_desc);

static void renew_wheel(struct kunit *test, const struct shape *s)
{
	struct fixture *f = test->priv;

	if (f->wheel)
		fixture_exit(test);
	manual_wheel(test, TICK, s->slots, s->levels);
}

/* Some have fired, some have come down, some have been sitting out rounds. */
static void stop_hands_back_the_rest_from_every_phase(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = SHAPE_BOUNDARIES(s->levels), i, phase;

	for (phase = 0; phase < 2 * ref_span(s); phase += stride) {
		struct probe *p;

		renew_wheel(test, s);
		p = probes(test, n);
		for (i = 0; i < n; i++)
			arm_tick(test, &p[i], ref_boundary(s, i) ?: 1);
		advance_tick(test, phase);
		stop(test);
		expect_accounted(test, p, n);
		for (i = 0; i < n; i++)
			KUNIT_ASSERT_EQ(test, p[i].tick > phase, p[i].ret == 1);
	}
}

static void stop_hands_back_later_rounds(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	manual_wheel(test, TICK, 4, 1);
	p = probes(test, MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 4 * i + 3);
	advance_tick(test, 4 * 10);
	KUNIT_EXPECT_EQ(test, MANY - 10U, stop(test));
	expect_accounted(test, p, MANY);
}

static void stop_hands_back_the_end_of_the_clock(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 256, 4);
	struct probe *p = probes(test, 2);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, S64_MAX));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[1].t, S64_MAX));
	KUNIT_ASSERT_NOT_NULL(test, f->wheel);
	KUNIT_EXPECT_EQ(test, 2U, stop(test));
	expect_accounted(test, p, 2);
}

static void stop_after_a_step_back_hands_back_all(struct kunit *test)
{
	const struct shape *s = test->param_value;
	unsigned int n = SHAPE_BOUNDARIES(s->levels), i;
	struct probe *p;
	u64 start = 2 * ref_span(s);

	manual_wheel(test, TICK, s->slots, s->levels);
	p = probes(test, n);
	advance_tick(test, start);
	for (i = 0; i < n; i++)
		arm_tick(test, &p[i], start + (ref_boundary(s, i) ?: 1));
	advance_tick(test, start / 2 + 1);
	KUNIT_EXPECT_EQ(test, n, stop(test));
	expect_accounted(test, p, n);
}

static void what_was_cancelled_or_has_fired_is_not_handed_back(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 4);
	arm_tick(test, &p[0], 3);
	arm_tick(test, &p[1], 30);
	arm_tick(test, &p[2], 30);
	advance_tick(test, 10);
	KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[1].t));
	KUNIT_EXPECT_EQ(test, 1U, stop(test));
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
}

static void what_is_handed_back_comes_after_what_is_in_the_list(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 2);
	LIST_HEAD(list);

	list_add(&p[0].t.entry, &list);
	arm_tick(test, &p[1], 5);
	twheel_stop(f->wheel, &list);
	KUNIT_EXPECT_PTR_EQ(test, &p[0].t.entry, list.next);
	KUNIT_EXPECT_PTR_EQ(test, &p[1].t.entry, list.prev);
}

static void what_is_handed_back_can_join_another_wheel(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 50);
	KUNIT_ASSERT_EQ(test, 1U, stop(test));
	fixture_exit(test);
	manual_wheel(test, TICK, 8, 2);
	twheel_timeout_init(f->wheel, &p->t, probe_fires);
	arm_tick(test, p, 50);
	expect_fires_at(test, p, 50);
}

/* In the middle of a pass: a helper advances the time, a callback waits at the gate */

/**
 * struct pass - a pass that a stop meets
 * @f: the fixture
 * @gate: where the callback waits
 * @advance_to: the helper's target
 * @advancer: the helper that advances
 * @stopper: the helper that stops
 * @stopping: what it does
 */
struct pass {
	struct fixture	*f;
	struct gate	gate;
	u64		advance_to;
	struct helper	advancer;
	struct helper	stopper;
	struct stopping	stopping;
};

static void advance_it(void *arg)
{
	struct pass *pass = arg;

	twheel_advance(pass->f->wheel, pass->advance_to);
}

static void wait_at_gate(struct probe *p)
{
	struct pass *pass = (void *)(uintptr_t)p->arg;

	gate_pass(&pass->gate);
}

static struct pass *make_pass(struct kunit *test, struct probe *waits, u64 tick)
{
	struct pass *pass = kunit_kzalloc(test, sizeof(*pass), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pass);
	pass->f = test->priv;
	gate_init(&pass->gate);
	stopping_init(&pass->stopping, pass->f->wheel);
	pass->advance_to = tick * TICK;
	waits->then = waits->then ?: wait_at_gate;
	waits->arg = (uintptr_t)pass;
	return pass;
}

/* Stop while the callback waits; it goes on when @refused is refused. */
static void stop_in_pass(struct kunit *test, struct pass *pass, struct probe *refused)
{
	helper_start(test, &pass->advancer, advance_it, pass);
	gate_wait(test, &pass->gate);
	helper_start(test, &pass->stopper, stop_it, &pass->stopping);
	wait_until_refused(test, &refused->t);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(pass->stopping.over));
	complete_all(&pass->gate.open);
	helper_finish(test, &pass->advancer);
	helper_finish(test, &pass->stopper);
	count_probes(test, &pass->stopping.list);
}

static void stop_waits_for_the_callback(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	pass = make_pass(test, &p[0], 10);
	arm_tick(test, &p[0], 10);
	stop_in_pass(test, pass, &p[1]);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
}

static void stop_hands_back_what_is_due_and_has_not_run(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY + 1);
	pass = make_pass(test, &p[10], 10);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 10);
	stop_in_pass(test, pass, &p[MANY]);
	expect_accounted(test, p, MANY);
	KUNIT_EXPECT_EQ(test, 1U, p[10].fired);
	KUNIT_EXPECT_EQ(test, 0U, p[11].fired);
	KUNIT_EXPECT_EQ(test, 1, p[MANY - 1].ret);
}

/* The callback of tick 255 runs while the slot of ticks 256 to 511 is half moved down. */
static void stop_hands_back_a_half_done_cascade(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY + 2);
	pass = make_pass(test, &p[MANY], 600);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300 + i % 100);
	arm_tick(test, &p[MANY], 255);
	stop_in_pass(test, pass, &p[MANY + 1]);
	expect_accounted(test, p, MANY + 1);
	KUNIT_EXPECT_EQ(test, 1U, p[MANY].fired);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired);
}

static void stop_in_the_middle_of_a_revolution_of_rounds_loses_nothing(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 8, 1);
	p = probes(test, MANY + 1);
	pass = make_pass(test, &p[77], MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 8 * (i % 5) + 4);
	stop_in_pass(test, pass, &p[MANY]);
	expect_accounted(test, p, MANY);
	KUNIT_EXPECT_EQ(test, 1U, p[77].fired);
}

/* p->other keeps what twheel_mod() returned. */
static void wait_then_rearm(struct probe *p)
{
	wait_at_gate(p);
	p->other->ret = twheel_mod(&p->t, FAR);
}

static void callback_that_arms_during_the_stop_is_refused(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	p[0].then = wait_then_rearm;
	p[0].other = &p[2];
	pass = make_pass(test, &p[0], 10);
	arm_tick(test, &p[0], 10);
	stop_in_pass(test, pass, &p[1]);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, p[2].ret);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[0].t));
}

static void rearm_then_wait(struct probe *p)
{
	p->other->ret = twheel_arm(&p->t, FAR);
	wait_at_gate(p);
}

static void what_a_callback_armed_before_the_stop_is_handed_back(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	p[0].then = rearm_then_wait;
	p[0].other = &p[2];
	pass = make_pass(test, &p[0], 10);
	arm_tick(test, &p[0], 10);
	stop_in_pass(test, pass, &p[1]);
	KUNIT_EXPECT_EQ(test, 0, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

static void cancel_works_during_the_stop(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	bool cancelled;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	pass = make_pass(test, &p[0], 10);
	arm_tick(test, &p[0], 10);
	arm_tick(test, &p[1], 10);
	helper_start(test, &pass->advancer, advance_it, pass);
	gate_wait(test, &pass->gate);
	helper_start(test, &pass->stopper, stop_it, &pass->stopping);
	wait_until_refused(test, &p[2].t);
	cancelled = twheel_cancel(&p[1].t);
	complete_all(&pass->gate.open);
	helper_finish(test, &pass->advancer);
	helper_finish(test, &pass->stopper);
	KUNIT_EXPECT_TRUE(test, cancelled);
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &pass->stopping.list));
}

static void second_caller_waits_for_the_first(struct kunit *test)
{
	struct stopping second;
	struct helper stopper;
	struct probe *p;
	struct pass *pass;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	pass = make_pass(test, &p[0], 10);
	arm_tick(test, &p[0], 10);
	arm_tick(test, &p[1], 20);
	stopping_init(&second, pass->f->wheel);
	helper_start(test, &pass->advancer, advance_it, pass);
	gate_wait(test, &pass->gate);
	helper_start(test, &pass->stopper, stop_it, &pass->stopping);
	wait_until_refused(test, &p[2].t);
	helper_start(test, &stopper, stop_it, &second);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(pass->stopping.over));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(second.over));
	complete_all(&pass->gate.open);
	helper_finish(test, &pass->advancer);
	helper_finish(test, &pass->stopper);
	helper_finish(test, &stopper);
	KUNIT_EXPECT_EQ(test, 1U, count_probes(test, &pass->stopping.list));
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &second.list));
}

/* Afterwards */

static int try_arm(struct probe *p)
{
	return twheel_arm(&p->t, p->arg);
}

static int try_arm_after(struct probe *p)
{
	return twheel_arm_after(&p->t, p->arg);
}

static int try_arm_slack(struct probe *p)
{
	return twheel_arm_slack(&p->t, p->arg, 10 * TICK);
}

static int try_mod(struct probe *p)
{
	return twheel_mod(&p->t, p->arg);
}

struct arming {
	const char *name;
	int (*arm)(struct probe *p);
};

static const struct arming armings[] = {
	{ "arm", try_arm },
	{ "arm_after", try_arm_after },
	{ "arm_slack", try_arm_slack },
	{ "mod", try_mod },
};

static void arming_desc(const struct arming *a, char *desc)
{
	strscpy(desc, a->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

static void arm_after_the_stop_is_refused(struct kunit *test)
{
	const struct arming *a = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	arm_tick(test, &p[0], 10);
	KUNIT_ASSERT_EQ(test, 1U, stop(test));
	p[0].arg = 20 * TICK;
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(&p[0]));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(&p[1]));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[0].t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired + p[1].fired);
}

static void arm_list_after_the_stop_arms_none(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);
	LIST_HEAD(list);
	unsigned int i;

	stop(test);
	for (i = 0; i < 3; i++) {
		p[i].t.expires = 10 * TICK;
		list_add_tail(&p[i].t.entry, &list);
	}
	KUNIT_EXPECT_EQ(test, 0U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_PTR_EQ(test, &p[0].t.entry, list.next);
	KUNIT_EXPECT_PTR_EQ(test, &p[2].t.entry, list.prev);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[0].t));
}

static void cancel_after_the_stop_reports_false(struct kunit *test)
{
	struct twheel_timeout *list[1];
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	list[0] = &p->t;
	arm_tick(test, p, 10);
	stop(test);
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&p->t));
	KUNIT_EXPECT_EQ(test, 0U, twheel_cancel_list(list, 1));
	KUNIT_EXPECT_PTR_EQ(test, (struct twheel_timeout *)NULL, list[0]);
}

static void second_stop_hands_back_nothing(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 1U, stop(test));
	KUNIT_EXPECT_EQ(test, 0U, stop(test));
	KUNIT_EXPECT_EQ(test, 1, p->ret);
}

static void empty_wheel_hands_back_nothing(struct kunit *test)
{
	manual_wheel(test, TICK, 4, 3);
	KUNIT_EXPECT_EQ(test, 0U, stop(test));
}

static void time_goes_on_after_the_stop(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 10);
	stop(test);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 100 * TICK, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p->t));
	twheel_flush(f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

/* Periodic ones, and a running clock */

/**
 * struct beater - a periodic timeout that waits in its callback
 * @p: the timeout
 * @gate: where it waits in its first call
 * @calls: how often it was called
 * @cancels: it cancels itself after that
 */
struct beater {
	struct twheel_periodic	p;
	struct gate		gate;
	atomic_t		calls;
	bool			cancels;
};

static void beater_fires(struct twheel_periodic *p)
{
	struct beater *b = container_of(p, struct beater, p);

	if (atomic_inc_return(&b->calls) == 1)
		gate_pass(&b->gate);
	if (b->cancels)
		twheel_cancel(&p->t);
}

struct beat {
	const char *name;
	enum twheel_kind kind;
	u32 repeat;
	bool cancels;
	unsigned int handed_back;
};

static const struct beat beats[] = {
	{ "fixed rate", TWHEEL_FIXED_RATE, 0, false, 1 },
	{ "fixed delay", TWHEEL_FIXED_DELAY, 0, false, 1 },
	{ "fixed rate, one more", TWHEEL_FIXED_RATE, 1000000, false, 1 },
	{ "fixed delay, one more", TWHEEL_FIXED_DELAY, 2, false, 1 },
	{ "fixed rate, the last", TWHEEL_FIXED_RATE, 1, false, 0 },
	{ "fixed delay, the last", TWHEEL_FIXED_DELAY, 1, false, 0 },
	{ "fixed rate, cancels itself", TWHEEL_FIXED_RATE, 0, true, 0 },
	{ "fixed delay, cancels itself", TWHEEL_FIXED_DELAY, 0, true, 0 },
};

static void beat_desc(const struct beat *b, char *desc)
{
	strscpy(desc, b->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(beat, beats, beat_desc);

static struct fixture *running_wheel(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-stop", .clock = TWHEEL_MONOTONIC };

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return test->priv;
}

static struct beater *make_beater(struct kunit *test, const struct beat *beat, u64 interval_ns)
{
	struct fixture *f = test->priv;
	struct beater *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	gate_init(&b->gate);
	b->cancels = beat->cancels;
	twheel_periodic_init(f->wheel, &b->p, beater_fires, beat->kind);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&b->p, 0, interval_ns, beat->repeat));
	return b;
}

/* The interval is long: it is in its first call, and will not come to a second one. */
static void running_periodic_is_handed_back_after_its_run(struct kunit *test)
{
	const struct beat *beat = test->param_value;
	struct fixture *f = running_wheel(test);
	struct probe *refused = probes(test, 1);
	struct beater *b = make_beater(test, beat, 20 * NSEC_PER_SEC);
	struct stopping stopping;
	struct helper stopper;
	unsigned int n = 0;

	stopping_init(&stopping, f->wheel);
	gate_wait(test, &b->gate);
	helper_start(test, &stopper, stop_it, &stopping);
	wait_until_refused(test, &refused->t);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(stopping.over));
	complete_all(&b->gate.open);
	helper_finish(test, &stopper);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&b->calls));
	if (!list_empty(&stopping.list)) {
		n = list_is_singular(&stopping.list) ? 1 : 2;
		KUNIT_EXPECT_PTR_EQ(test, &b->p.t.entry, stopping.list.next);
	}
	KUNIT_EXPECT_EQ(test, beat->handed_back, n);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_periodic(&b->p, 0, 1, 0));
}

static void periodic_between_its_runs_is_handed_back(struct kunit *test)
{
	const struct beat *beat = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct beater *b = make_beater(test, beat, 5 * TICK);
	LIST_HEAD(list);

	complete_all(&b->gate.open);
	advance_tick(test, 1);
	KUNIT_ASSERT_EQ(test, 1, atomic_read(&b->calls));
	twheel_stop(f->wheel, &list);
	KUNIT_EXPECT_EQ(test, beat->handed_back, (unsigned int)!list_empty(&list));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&b->calls));
}

static void stop_of_a_running_clock_hands_back_and_fires_no_more(struct kunit *test)
{
	struct probe *p;
	unsigned int i, fired;

	running_wheel(test);
	p = probes(test, 100);
	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[i].t, i * TICK));
	msleep(30);
	stop(test);
	for (i = 0, fired = 0; i < 100; i++)
		fired += p[i].fired;
	expect_accounted(test, p, 100);
	msleep(100);
	expect_accounted(test, p, 100);
	KUNIT_EXPECT_LT(test, fired, 100U);
}

/* Of another wheel: that wheel's thread is the one that this wheel waits for. */
static void stop_other_wheel(struct twheel_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);
	struct stopping *s = (void *)(uintptr_t)p->arg;

	p->fired++;
	stop_it(s);
}

static void stop_from_a_callback_of_another_wheel_does_not_hang(struct kunit *test)
{
	struct fixture *f = running_wheel(test);
	struct twheel_params params = { .name = "kunit-stopper" };
	struct twheel *other = twheel_create(&params);
	struct stopping stopping;
	struct probe *p, *killer;
	u64 due = ktime_get_ns() + 20 * TICK;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, other);
	stopping_init(&stopping, f->wheel);
	p = probes(test, 100);
	killer = probes(test, 1);
	twheel_timeout_init(other, &killer->t, stop_other_wheel);
	killer->arg = (uintptr_t)&stopping;
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, due + i % 2 * FAR));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&killer->t, due));
	for (i = 0; i < 1000 && !READ_ONCE(stopping.over); i++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(stopping.over));
	twheel_destroy(other);
	KUNIT_EXPECT_GE(test, count_probes(test, &stopping.list), 50U);
	expect_accounted(test, p, 100);
}

/* With a sink */

static void take_probes(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct gate *gate = sink_data;
	struct twheel_timeout *t, *next;

	gate_pass(gate);
	list_for_each_entry_safe(t, next, expired, entry) {
		container_of(t, struct probe, t)->fired++;
		list_del_init(&t->entry);
		twheel_accept(t);
	}
}

static void stop_waits_for_the_sink_and_hands_back_the_rest(struct kunit *test)
{
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-stop-sink", .sink = take_probes, .sink_data = gate,
	};
	struct stopping stopping;
	struct helper stopper;
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, gate);
	gate_init(gate);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes_for(test, MANY + 1, NULL);
	stopping_init(&stopping, p->f->wheel);
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, i % 2 * FAR));
	gate_wait(test, gate);
	helper_start(test, &stopper, stop_it, &stopping);
	wait_until_refused(test, &p[MANY].t);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(stopping.over));
	complete_all(&gate->open);
	helper_finish(test, &stopper);
	KUNIT_EXPECT_GE(test, count_probes(test, &stopping.list), MANY / 2U);
	expect_accounted(test, p, MANY);
}

/* Under load */

#define NR_LOADERS	4
#define NR_OWN		16
#define NR_REFUSALS	20

/**
 * struct load - a timeout and what became of each of its arms
 * @t: the timeout
 * @armed: arms that succeeded; its thread's, or its callback's
 * @rearmed: arms from the callback that succeeded
 * @cancelled: arms undone by its thread
 * @fired: arms that ended in its callback
 * @handed: arms that ended in the list of the stop
 */
struct load {
	struct twheel_timeout	t;
	unsigned int		armed;
	unsigned int		rearmed;
	unsigned int		cancelled;
	unsigned int		fired;
	unsigned int		handed;
};

struct loader {
	struct helper	helper;
	u32		seed;
	unsigned int	refused;
	unsigned int	failed;
	struct load	own[NR_OWN];
};

/**
 * struct storm - one repetition
 * @wheel: a MONOTONIC one
 * @loader: threads that arm and cancel
 * @periodic: timeouts that nobody cancels
 * @first: the one who stops
 * @second: another one
 * @stopper: thread of @second
 */
struct storm {
	struct twheel	*wheel;
	struct loader	loader[NR_LOADERS];
	struct beater	periodic[2];
	struct stopping	first;
	struct stopping	second;
	struct helper	stopper;
};

/* Every third one arms itself again now and then. */
static void load_fires(struct twheel_timeout *t)
{
	struct load *l = container_of(t, struct load, t);

	l->fired++;
	if (l->fired % 3 == 0 && !twheel_arm_after(t, l->fired % 5 * TICK))
		l->rearmed++;
}

static void note_arm(struct loader *r, struct load *l, int ret)
{
	if (ret >= 0) {
		l->armed++;
		l->cancelled += ret;
	} else if (ret == -ESHUTDOWN) {
		r->refused++;
	} else if (ret != -EBUSY) {
		r->failed++;
	}
}

static void load_wheel(void *arg)
{
	struct loader *r = arg;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, r->seed);
	for (i = 0; r->refused < NR_REFUSALS; i++) {
		struct load *l = &r->own[prandom_u32_state(&rnd) % NR_OWN];
		u64 delay = prandom_u32_state(&rnd) % (3 * TICK);

		if (i % 8 == 0)
			delay += FAR;
		if (i % 3 == 0)
			note_arm(r, l, twheel_arm_after(&l->t, delay));
		else if (i % 3 == 1)
			note_arm(r, l, twheel_mod(&l->t, ktime_get_ns() + delay));
		else
			l->cancelled += twheel_cancel(&l->t);
		if (i % 32 == 0)
			usleep_range(50, 150);
	}
}

static void collect_handed(struct kunit *test, struct storm *storm, struct list_head *list)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, list, entry) {
		list_del_init(&t->entry);
		if (t == &storm->periodic[0].p.t || t == &storm->periodic[1].p.t)
			container_of(t, struct beater, p.t)->cancels = true;
		else
			container_of(t, struct load, t)->handed++;
	}
}

static unsigned int lost(const struct storm *storm)
{
	unsigned int i, j, n = 0;

	for (i = 0; i < NR_LOADERS; i++) {
		for (j = 0; j < NR_OWN; j++) {
			const struct load *l = &storm->loader[i].own[j];

			n += l->armed + l->rearmed != l->cancelled + l->fired + l->handed;
			n += l->handed > 1 || twheel_pending(&l->t);
		}
		n += storm->loader[i].failed;
	}
	return n + !storm->periodic[0].cancels + !storm->periodic[1].cancels;
}

static void start_storm(struct kunit *test, struct storm *storm, u32 seed)
{
	static const struct beat kinds[] = {
		{ .kind = TWHEEL_FIXED_RATE }, { .kind = TWHEEL_FIXED_DELAY },
	};
	unsigned int i, j;

	for (i = 0; i < 2; i++) {
		gate_init(&storm->periodic[i].gate);
		complete_all(&storm->periodic[i].gate.open);
		twheel_periodic_init(storm->wheel, &storm->periodic[i].p, beater_fires,
				     kinds[i].kind);
		twheel_arm_periodic(&storm->periodic[i].p, 0, TICK / 3, 0);
	}
	for (i = 0; i < NR_LOADERS; i++) {
		storm->loader[i].seed = seed * NR_LOADERS + i + 1;
		for (j = 0; j < NR_OWN; j++)
			twheel_timeout_init(storm->wheel, &storm->loader[i].own[j].t, load_fires);
		helper_start(test, &storm->loader[i].helper, load_wheel, &storm->loader[i]);
	}
}

static void stop_storm(struct kunit *test, struct storm *storm)
{
	unsigned int i;

	stopping_init(&storm->first, storm->wheel);
	stopping_init(&storm->second, storm->wheel);
	helper_start(test, &storm->stopper, stop_it, &storm->second);
	stop_it(&storm->first);
	helper_finish(test, &storm->stopper);
	for (i = 0; i < NR_LOADERS; i++)
		helper_finish(test, &storm->loader[i].helper);
	collect_handed(test, storm, &storm->first.list);
	collect_handed(test, storm, &storm->second.list);
}

static void stopped_wheel_under_load_loses_nothing(struct kunit *test)
{
	struct storm *storm = kunit_kzalloc(test, sizeof(*storm), GFP_KERNEL);
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, storm);
	for (i = 0; i < repeat; i++) {
		memset(storm, 0, sizeof(*storm));
		storm->wheel = running_wheel(test)->wheel;
		start_storm(test, storm, i);
		usleep_range(500, 500 + i % 50 * 200);
		stop_storm(test, storm);
		KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
		twheel_destroy(f->wheel);
		f->wheel = NULL;
		KUNIT_ASSERT_EQ_MSG(test, 0U, lost(storm), "in repetition %u", i);
	}
}

static struct kunit_case stop_cases[] = {
	KUNIT_CASE_PARAM(stop_hands_back_a_timeout_on_every_level, shape_gen_params),
	KUNIT_CASE_PARAM(stop_hands_back_the_rest_from_every_phase, small_shape_gen_params),
	KUNIT_CASE(stop_hands_back_later_rounds),
	KUNIT_CASE(stop_hands_back_the_end_of_the_clock),
	KUNIT_CASE_PARAM(stop_after_a_step_back_hands_back_all, small_shape_gen_params),
	KUNIT_CASE(what_was_cancelled_or_has_fired_is_not_handed_back),
	KUNIT_CASE(what_is_handed_back_comes_after_what_is_in_the_list),
	KUNIT_CASE(what_is_handed_back_can_join_another_wheel),
	KUNIT_CASE(stop_waits_for_the_callback),
	KUNIT_CASE(stop_hands_back_what_is_due_and_has_not_run),
	KUNIT_CASE(stop_hands_back_a_half_done_cascade),
	KUNIT_CASE(stop_in_the_middle_of_a_revolution_of_rounds_loses_nothing),
	KUNIT_CASE(callback_that_arms_during_the_stop_is_refused),
	KUNIT_CASE(what_a_callback_armed_before_the_stop_is_handed_back),
	KUNIT_CASE(cancel_works_during_the_stop),
	KUNIT_CASE(second_caller_waits_for_the_first),
	KUNIT_CASE_PARAM(arm_after_the_stop_is_refused, arming_gen_params),
	KUNIT_CASE(arm_list_after_the_stop_arms_none),
	KUNIT_CASE(cancel_after_the_stop_reports_false),
	KUNIT_CASE(second_stop_hands_back_nothing),
	KUNIT_CASE(empty_wheel_hands_back_nothing),
	KUNIT_CASE(time_goes_on_after_the_stop),
	KUNIT_CASE_PARAM(running_periodic_is_handed_back_after_its_run, beat_gen_params),
	KUNIT_CASE_PARAM(periodic_between_its_runs_is_handed_back, beat_gen_params),
	KUNIT_CASE(stop_of_a_running_clock_hands_back_and_fires_no_more),
	KUNIT_CASE(stop_from_a_callback_of_another_wheel_does_not_hang),
	KUNIT_CASE(stop_waits_for_the_sink_and_hands_back_the_rest),
	KUNIT_CASE(stopped_wheel_under_load_loses_nothing),
	{}
};

static struct kunit_suite stop_suite = {
	.name = "twheel-stop",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = stop_cases,
};

module_test_suite(stop_suite);

MODULE_DESCRIPTION("KUnit suite of the end of a timing wheel");
MODULE_LICENSE("GPL");
