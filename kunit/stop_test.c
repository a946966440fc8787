// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the end of a wheel: which timeouts twheel_stop() hands back, from where,
 * and which calls are allowed after it. A stop under load loses nothing.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>

#include "arming.h"
#include "fixture.h"
#include "helper.h"
#include "suite.h"

static unsigned int repeat = 100;
module_param(repeat, uint, 0444);
MODULE_PARM_DESC(repeat, "Number of wheels stopped under load");
DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)
#define MANY		1000

/* Count the timeouts of @list, and count each hand-back in p->ret. */
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

	twheel_stop(f->wheel, collect, &unprocessed);
	return count_probes(test, &unprocessed);
}

/* Each timeout of @p either has fired or was handed back, once. */
static void expect_accounted(struct kunit *test, struct probe *p, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ_MSG(test, 1, (int)p[i].fired + p[i].ret,
				    "timeout %u of %u: fired %u times, handed back %d times",
				    i, n, p[i].fired, p[i].ret);
}

/* Places in the wheel from which timeouts are handed back */

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

/* Depending on the phase, timeouts have fired, have cascaded, or wait for later rounds. */
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

static void timeout_that_was_handed_back_can_join_another_wheel(struct kunit *test)
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

/* In the middle of a pass */

/**
 * struct pass - a pass during which the wheel is stopped
 * @stopping: the stop
 * @trigger: the stop begins in the callback of this timeout
 * @refused: a timeout that every callback tries to arm
 * @seen: callbacks that ran after the stop had begun, so that an arm was refused
 * @cascaded: number of timeouts that had been cascaded when @trigger was called
 */
struct pass {
	struct stopping	stopping;
	struct probe	*trigger;
	struct probe	*refused;
	unsigned int	seen;
	u64		cascaded;
};

static void begin_to_stop(struct pass *pass)
{
	struct twheel_counters stats;

	twheel_stats(pass->stopping.wheel, &stats);
	pass->cascaded = stats.cascaded;
	complete(&pass->stopping.now);
	mdelay(5);
}

static void meet_the_stop(struct probe *p)
{
	struct pass *pass = p->data;

	atomic_inc(&pass->stopping.inside);
	if (p == pass->trigger)
		begin_to_stop(pass);
	if (twheel_arm(&pass->refused->t, S64_MAX) == -ESHUTDOWN)
		pass->seen++;
	else
		twheel_cancel(&pass->refused->t);
	atomic_dec(&pass->stopping.inside);
}

/* The stop begins in the callback of p[@trigger]; p[@n] is not armed. */
static struct pass *make_pass(struct kunit *test, struct probe *p, unsigned int n,
			      unsigned int trigger)
{
	struct pass *pass = kunit_kzalloc(test, sizeof(*pass), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, pass);
	stopping_init(&pass->stopping, p->f->wheel);
	pass->trigger = &p[trigger];
	pass->refused = &p[n];
	for (i = 0; i < n; i++) {
		p[i].then = meet_the_stop;
		p[i].data = pass;
	}
	return pass;
}

/* Advance to @tick. One callback may be running when the stop begins; no other may begin. */
static void stop_in_pass(struct kunit *test, struct pass *pass, u64 tick)
{
	stopper_start(test, &pass->stopping);
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(pass->stopping.wheel, tick * TICK));
	stopper_finish(test, &pass->stopping);
	KUNIT_EXPECT_EQ(test, 1U, pass->trigger->fired);
	KUNIT_EXPECT_LE(test, pass->seen, 1U);
	KUNIT_EXPECT_EQ(test, 0, pass->stopping.left);
	count_probes(test, &pass->stopping.list);
}

static void stop_waits_for_the_callback_of_the_thread(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	pass = make_pass(test, p, 1, 0);
	arm_tick(test, p, 10);
	stop_in_pass(test, pass, 10);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

/* At most the rest of the current batch runs. */
static void stop_hands_back_due_timeouts_that_have_not_run(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY + 1);
	pass = make_pass(test, p, MANY, 10);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 10);
	stop_in_pass(test, pass, 10);
	expect_accounted(test, p, MANY);
	KUNIT_EXPECT_EQ(test, 0U, p[128].fired);
	KUNIT_EXPECT_EQ(test, 1, p[MANY - 1].ret);
}

/* The callback of tick 255 runs while the slot of ticks 256 to 511 is half cascaded. */
static void stop_hands_back_a_half_done_cascade(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 256, 4);
	p = probes(test, MANY + 2);
	pass = make_pass(test, p, MANY + 1, MANY);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 300 + i % 100);
	arm_tick(test, &p[MANY], 255);
	stop_in_pass(test, pass, 600);
	expect_accounted(test, p, MANY + 1);
	KUNIT_EXPECT_GT(test, pass->cascaded, 0ULL);
	KUNIT_EXPECT_LT(test, pass->cascaded, (u64)MANY);
	KUNIT_EXPECT_EQ(test, 0U, p[0].fired);
}

static void stop_in_the_middle_of_a_revolution_of_rounds_loses_nothing(struct kunit *test)
{
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, 8, 1);
	p = probes(test, MANY + 1);
	pass = make_pass(test, p, MANY, 77);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 8 * (i % 5) + 4);
	stop_in_pass(test, pass, MANY);
	expect_accounted(test, p, MANY);
}

/* Stop while a worker's callback waits at a gate */

/**
 * struct held - a stop that waits for a worker's callback
 * @gate: where the worker's callback waits
 * @stopping: the stop
 */
struct held {
	struct gate	gate;
	struct stopping	stopping;
};

static void wait_at_gate(struct probe *p)
{
	struct held *held = p->data;

	gate_pass(&held->gate);
}

/* @waits is due at tick 10; its callback waits at the gate. */
static struct held *hold(struct kunit *test, struct probe *waits)
{
	struct held *held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, held);
	gate_init(&held->gate);
	stopping_init(&held->stopping, waits->f->wheel);
	waits->then = waits->then ?: wait_at_gate;
	waits->data = held;
	twheel_use_workqueue(&waits->t);
	arm_tick(test, waits, 10);
	return held;
}

/* On return, @refused can no longer be armed, and the stop waits. */
static void begin_held_stop(struct kunit *test, struct held *held, struct probe *refused)
{
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(held->stopping.wheel, 10 * TICK));
	gate_wait(test, &held->gate);
	helper_start(test, &held->stopping.helper, stop_it, &held->stopping);
	wait_until_refused(test, &refused->t);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(held->stopping.over));
}

static void end_held_stop(struct kunit *test, struct held *held)
{
	complete_all(&held->gate.open);
	helper_finish(test, &held->stopping.helper);
}

static void stop_waits_for_the_callback_of_a_worker(struct kunit *test)
{
	struct held *held;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	held = hold(test, &p[0]);
	begin_held_stop(test, held, &p[1]);
	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

/* p->other->ret keeps the result of twheel_mod(). */
static void wait_then_rearm(struct probe *p)
{
	wait_at_gate(p);
	p->other->ret = twheel_mod(&p->t, FAR);
}

static void callback_that_arms_during_the_stop_is_refused(struct kunit *test)
{
	struct held *held;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	p[0].then = wait_then_rearm;
	p[0].other = &p[2];
	held = hold(test, &p[0]);
	begin_held_stop(test, held, &p[1]);
	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, p[2].ret);
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[0].t));
}

static void rearm_then_wait(struct probe *p)
{
	p->other->ret = twheel_arm(&p->t, FAR);
	wait_at_gate(p);
}

static void timeout_armed_by_its_callback_before_the_stop_is_handed_back(struct kunit *test)
{
	struct held *held;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	p[0].then = rearm_then_wait;
	p[0].other = &p[2];
	held = hold(test, &p[0]);
	begin_held_stop(test, held, &p[1]);
	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, 0, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

/* Either it was handed back already, or the cancel comes first. */
static void timeout_cancelled_during_the_stop_is_not_handed_back_too(struct kunit *test)
{
	struct held *held;
	bool cancelled;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	held = hold(test, &p[0]);
	arm_tick(test, &p[1], 20);
	begin_held_stop(test, held, &p[2]);
	cancelled = twheel_cancel(&p[1].t);
	end_held_stop(test, held);
	count_probes(test, &held->stopping.list);
	KUNIT_EXPECT_EQ(test, 1, cancelled + p[1].ret);
}

static void second_caller_waits_for_the_first(struct kunit *test)
{
	struct stopping second;
	struct held *held;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 3);
	held = hold(test, &p[0]);
	arm_tick(test, &p[1], 20);
	stopping_init(&second, p->f->wheel);
	begin_held_stop(test, held, &p[2]);
	helper_start(test, &second.helper, stop_it, &second);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(held->stopping.over));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(second.over));
	end_held_stop(test, held);
	helper_finish(test, &second.helper);
	KUNIT_EXPECT_EQ(test, 1U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &second.list));
}

/* The hand-back: one call per timeout, during which the timeout counts as running */

/**
 * struct return_calls - record of the calls that hand timeouts back
 * @caller: the task that stops the wheel
 * @elsewhere: number of calls in another task
 * @inside: number of calls that have not returned
 * @nested: number of calls that began before the previous one had returned
 * @ret: result of a query in the first call
 * @others: successful cancels in the first call
 * @p: all timeouts
 * @n: length of @p
 */
struct return_calls {
	struct task_struct	*caller;
	unsigned int		elsewhere;
	unsigned int		inside;
	unsigned int		nested;
	int			ret;
	unsigned int		others;
	struct probe		*p;
	unsigned int		n;
};

static struct return_calls *return_calls(struct kunit *test, unsigned int n)
{
	struct return_calls *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, r);
	manual_wheel(test, TICK, 4, 3);
	r->caller = current;
	r->p = probes(test, n);
	r->n = n;
	for (i = 0; i < n; i++)
		arm_tick(test, &r->p[i], 1 + 7 * i);
	return r;
}

static void note_return(void *data, struct twheel_timeout *t)
{
	struct return_calls *r = data;

	r->elsewhere += current != r->caller;
	r->nested += r->inside++;
	container_of(t, struct probe, t)->ret++;
	usleep_range(10, 20);
	r->inside--;
}

static void each_is_handed_back_in_a_call_that_may_sleep(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 300);

	twheel_stop(r->p->f->wheel, note_return, r);
	expect_accounted(test, r->p, r->n);
	KUNIT_EXPECT_EQ(test, 0U, r->elsewhere);
	KUNIT_EXPECT_EQ(test, 0U, r->nested);
}

static void stop_without_a_function_hands_back_to_nobody(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 300);
	struct twheel_counters stats;
	unsigned int i;

	twheel_stop(r->p->f->wheel, NULL, NULL);
	for (i = 0; i < r->n; i++)
		KUNIT_ASSERT_EQ(test, (int)TWHEEL_INACTIVE, (int)r->p[i].t.state);
	twheel_stats(r->p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 300ULL, stats.stopped);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
}

static void cancel_the_others(void *data, struct twheel_timeout *t)
{
	struct return_calls *r = data;
	unsigned int i;

	note_return(data, t);
	for (i = 0; i < r->n; i++)
		r->others += twheel_cancel(&r->p[i].t);
}

static void timeout_cancelled_before_its_turn_is_not_handed_back(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 300);
	unsigned int i, handed = 0;

	twheel_stop(r->p->f->wheel, cancel_the_others, r);
	for (i = 0; i < r->n; i++)
		handed += r->p[i].ret;
	KUNIT_EXPECT_EQ(test, 1U, handed);
	KUNIT_EXPECT_EQ(test, 299U, r->others);
}

static void try_to_cancel(void *data, struct twheel_timeout *t)
{
	struct return_calls *r = data;

	r->ret = twheel_try_cancel(t);
}

static void try_cancel_during_the_hand_back_is_ebusy(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 1);

	twheel_stop(r->p->f->wheel, try_to_cancel, r);
	KUNIT_EXPECT_EQ(test, -EBUSY, r->ret);
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&r->p->t));
}

/* The last reference of the owner is dropped as the timeout is handed back. */
static void shut_down_and_free(void *data, struct twheel_timeout *t)
{
	unsigned int *pending = data;

	*pending += twheel_cancel_sync(t);
	*pending += twheel_shutdown(t);
	kfree(t);
}

static void timeout_can_be_shut_down_and_freed_as_it_is_handed_back(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 8, 2);
	struct twheel_timeout *t;
	unsigned int i, pending = 0;

	for (i = 0; i < 300; i++) {
		t = kzalloc(sizeof(*t), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, t);
		twheel_timeout_init(f->wheel, t, probe_fires);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(t, (1 + i % 100) * TICK));
	}
	twheel_stop(f->wheel, shut_down_and_free, &pending);
	KUNIT_EXPECT_EQ(test, 0U, pending);
}

static void try_to_arm(void *data, struct twheel_timeout *t)
{
	struct return_calls *r = data;

	r->ret = twheel_mod(t, FAR);
}

static void arm_during_the_hand_back_is_refused(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 1);

	twheel_stop(r->p->f->wheel, try_to_arm, r);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, r->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&r->p->t));
}

/* @data is the other wheel. */
static void arm_in_another_wheel(void *data, struct twheel_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	twheel_timeout_init(data, t, probe_fires);
	p->ret = twheel_arm(t, 50 * TICK);
}

static void timeout_can_be_armed_in_another_wheel_as_it_is_handed_back(struct kunit *test)
{
	struct return_calls *r = return_calls(test, 300);
	struct fixture *f = test->priv;
	struct twheel *first = f->wheel;
	unsigned int i;

	manual_wheel(test, TICK, 8, 2);
	twheel_stop(first, arm_in_another_wheel, f->wheel);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(first));
	twheel_destroy(first);
	for (i = 0; i < r->n; i++)
		KUNIT_ASSERT_EQ(test, 0, r->p[i].ret);
	advance_tick(test, 49);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, 300U, f->nr_fired);
}

/**
 * struct belonging - a timeout whose owner may free it at any moment
 * @t: the timeout
 * @handed: its hand-back is about to return
 */
struct belonging {
	struct twheel_timeout	t;
	bool			handed;
};

/**
 * struct estate - timeouts of which some are freed while a stop hands them back
 * @wheel: the wheel
 * @started: completed by the first hand-back
 * @first: completed when the owner has cancelled one
 * @handed: number of hand-backs
 * @cancelled: number of timeouts that their owner cancelled
 * @wrong: number of timeouts that were both or neither
 * @nr: number of timeouts
 * @one: the timeouts; NULL when freed
 */
struct estate {
	struct twheel		*wheel;
	struct completion	started, first;
	unsigned int		handed;
	unsigned int		cancelled;
	unsigned int		wrong;
	unsigned int		nr;
	struct belonging	*one[300];
};

/* The last access is a write to @t, so that KASAN detects an early kfree(). */
static void take_slowly(void *data, struct twheel_timeout *t)
{
	struct belonging *b = container_of(t, struct belonging, t);
	struct estate *e = data;

	complete_all(&e->started);
	/* The owner cancels at least one. */
	if (e->handed++ == 1)
		wait_for_completion_timeout(&e->first, PATIENCE);
	usleep_range(100, 200);
	WRITE_ONCE(b->handed, true);
}

/*
 * Free the timeouts in another order than that of the stop: some before their hand-back,
 * some during it.
 */
static void cancel_and_free(void *arg)
{
	struct estate *e = arg;
	unsigned int i, n;
	bool cancelled;

	wait_for_completion(&e->started);
	for (n = 0; n < e->nr; n++) {
		i = n * 7 % e->nr;
		cancelled = twheel_cancel_sync(&e->one[i]->t);
		e->cancelled += cancelled;
		if (e->cancelled)
			complete_all(&e->first);
		e->wrong += cancelled == e->one[i]->handed;
		kfree(e->one[i]);
		e->one[i] = NULL;
		if (n % 4 == 0)
			usleep_range(100, 200);
	}
}

static void never_fires(struct twheel_timeout *t)
{
	WARN_ON_ONCE(true);
}

static struct estate *make_estate(struct kunit *test)
{
	struct estate *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->wheel = manual_wheel(test, TICK, 4, 3)->wheel;
	e->nr = ARRAY_SIZE(e->one);
	init_completion(&e->started);
	init_completion(&e->first);
	for (i = 0; i < e->nr; i++) {
		e->one[i] = kzalloc(sizeof(*e->one[i]), GFP_KERNEL | __GFP_NOFAIL);
		twheel_timeout_init(e->wheel, &e->one[i]->t, never_fires);
		twheel_arm(&e->one[i]->t, (1 + i) * TICK);
	}
	return e;
}

/* cancel_sync of a timeout that is being handed back waits for the end of the hand-back. */
static void owner_may_cancel_sync_and_free_while_stop_hands_back(struct kunit *test)
{
	struct estate *e = make_estate(test);
	struct helper owner;

	helper_start(test, &owner, cancel_and_free, e);
	twheel_stop(e->wheel, take_slowly, e);
	helper_finish(test, &owner);
	KUNIT_EXPECT_EQ(test, 0U, e->wrong);
	KUNIT_EXPECT_EQ(test, e->nr, e->handed + e->cancelled);
	KUNIT_EXPECT_GT(test, e->handed, 0U);
	KUNIT_EXPECT_GT(test, e->cancelled, 0U);
}

static void free_it(void *data, struct twheel_timeout *t)
{
	struct estate *e = data;

	e->handed++;
	kfree(container_of(t, struct belonging, t));
}

static void timeout_can_be_freed_as_it_is_handed_back(struct kunit *test)
{
	struct estate *e = make_estate(test);

	twheel_stop(e->wheel, free_it, e);
	KUNIT_EXPECT_EQ(test, e->nr, e->handed);
}

/* After the stop */

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

static void arm_after_the_stop_is_refused(struct kunit *test)
{
	const struct arming *a = test->param_value;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	arm_tick(test, &p[0], 10);
	KUNIT_ASSERT_EQ(test, 1U, stop(test));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(p->f->wheel, &p[0].t, 20 * TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(p->f->wheel, &p[1].t, 0));
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

/* Periodic timeouts, and a running clock */

/**
 * struct beater - a periodic timeout whose callback can wait
 * @p: the timeout
 * @gate: where its first callback waits
 * @waits: the first callback waits; a worker runs it
 * @calls: number of callbacks
 * @stopping: counts its running callbacks, or NULL
 * @cancels: its callback cancels the timeout
 */
struct beater {
	struct twheel_periodic	p;
	struct gate		gate;
	bool			waits;
	atomic_t		calls;
	struct stopping		*stopping;
	bool			cancels;
};

static void beater_fires(struct twheel_periodic *p)
{
	struct beater *b = container_of(p, struct beater, p);

	if (b->stopping)
		atomic_inc(&b->stopping->inside);
	if (atomic_inc_return(&b->calls) == 1 && b->waits)
		gate_pass(&b->gate);
	if (b->cancels)
		twheel_cancel(&p->t);
	if (b->stopping)
		atomic_dec(&b->stopping->inside);
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

static struct beater *make_beater(struct kunit *test, const struct beat *beat, u64 interval_ns,
				  bool waits)
{
	struct fixture *f = test->priv;
	struct beater *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	gate_init(&b->gate);
	b->cancels = beat->cancels;
	b->waits = waits;
	twheel_periodic_init(f->wheel, &b->p, beater_fires, beat->kind);
	if (waits)
		twheel_use_workqueue(&b->p.t);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&b->p, 0, interval_ns, beat->repeat));
	return b;
}

/* The interval is long: the timeout is in its first callback, and no second one follows. */
static void running_periodic_is_handed_back_after_its_run(struct kunit *test)
{
	const struct beat *beat = test->param_value;
	struct fixture *f = running_wheel(test);
	struct probe *refused = probes(test, 1);
	struct beater *b = make_beater(test, beat, 20 * NSEC_PER_SEC, true);
	struct stopping stopping;

	stopping_init(&stopping, f->wheel);
	gate_wait(test, &b->gate);
	atomic_inc(&stopping.inside);
	b->stopping = &stopping;
	helper_start(test, &stopping.helper, stop_it, &stopping);
	wait_until_refused(test, &refused->t);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(stopping.over));
	complete_all(&b->gate.open);
	helper_finish(test, &stopping.helper);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&b->calls));
	KUNIT_EXPECT_EQ(test, 0U, stopping.early);
	KUNIT_EXPECT_EQ(test, 0, stopping.left);
	KUNIT_EXPECT_EQ(test, (size_t)beat->handed_back, list_count_nodes(&stopping.list));
	if (beat->handed_back)
		KUNIT_EXPECT_PTR_EQ(test, &b->p.t.entry, stopping.list.next);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&b->p.t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_periodic(&b->p, 0, 1, 0));
}

static void periodic_between_its_runs_is_handed_back(struct kunit *test)
{
	const struct beat *beat = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct beater *b = make_beater(test, beat, 5 * TICK, false);
	LIST_HEAD(list);

	advance_tick(test, 1);
	KUNIT_ASSERT_EQ(test, 1, atomic_read(&b->calls));
	twheel_stop(f->wheel, collect, &list);
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
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&p[i].t, i < 99 ? i * TICK : FAR));
	msleep(30);
	stop(test);
	for (i = 0, fired = 0; i < 100; i++)
		fired += p[i].fired;
	expect_accounted(test, p, 100);
	msleep(100);
	expect_accounted(test, p, 100);
	KUNIT_EXPECT_LT(test, fired, 100U);
}

/* Runs in a worker of another wheel, so beside the thread that the stop waits for. */
static void stop_other_wheel(struct twheel_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);
	struct stopping *s = p->data;

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
	twheel_use_workqueue(&killer->t);
	killer->data = &stopping;
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
	struct stopping *stopping = sink_data;
	struct twheel_timeout *t, *next;

	atomic_inc(&stopping->inside);
	complete(&stopping->now);
	mdelay(5);
	list_for_each_entry_safe(t, next, expired, entry) {
		container_of(t, struct probe, t)->fired++;
		list_del_init(&t->entry);
		twheel_accept(t);
	}
	atomic_dec(&stopping->inside);
}

/* The stop begins in the first call of the sink, or right after it. */
static void stop_waits_for_the_sink_and_hands_back_the_rest(struct kunit *test)
{
	struct stopping *stopping = kunit_kzalloc(test, sizeof(*stopping), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-stop-sink", .clock = TWHEEL_MANUAL, .tick_ns = TICK,
		.sink = take_probes, .sink_data = stopping,
	};
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, stopping);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes_for(test, MANY, NULL);
	stopping_init(stopping, p->f->wheel);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], 1 + i % 2 * FAR / TICK);
	stopper_start(test, stopping);
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(p->f->wheel, TICK));
	stopper_finish(test, stopping);
	KUNIT_EXPECT_EQ(test, 0, stopping->left);
	KUNIT_EXPECT_EQ(test, MANY - 128U, count_probes(test, &stopping->list));
	expect_accounted(test, p, MANY);
}

/* Under load */

#define NR_LOADERS	4
#define NR_OWN		16
#define NR_REFUSALS	20

/**
 * struct load - a timeout and the outcome of each of its arms
 * @t: the timeout
 * @armed: successful arms by its thread or its callback
 * @rearmed: successful arms by its callback
 * @cancelled: arms that its thread cancelled
 * @fired: arms that ended in its callback
 * @handed: arms that ended in a hand-back
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
 * @wheel: a wheel on CLOCK_MONOTONIC
 * @loader: threads that arm and cancel
 * @periodic: periodic timeouts that nobody cancels
 * @first: the first call of twheel_stop()
 * @second: the second call of twheel_stop(), in another thread
 */
struct storm {
	struct twheel	*wheel;
	struct loader	loader[NR_LOADERS];
	struct beater	periodic[2];
	struct stopping	first;
	struct stopping	second;
};

/* Arm the timeout again at every third expiry. */
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
	helper_start(test, &storm->second.helper, stop_it, &storm->second);
	stop_it(&storm->first);
	helper_finish(test, &storm->second.helper);
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
	KUNIT_CASE(timeout_that_was_handed_back_can_join_another_wheel),
	KUNIT_CASE(stop_waits_for_the_callback_of_the_thread),
	KUNIT_CASE(stop_hands_back_due_timeouts_that_have_not_run),
	KUNIT_CASE(stop_hands_back_a_half_done_cascade),
	KUNIT_CASE(stop_in_the_middle_of_a_revolution_of_rounds_loses_nothing),
	KUNIT_CASE(stop_waits_for_the_callback_of_a_worker),
	KUNIT_CASE(callback_that_arms_during_the_stop_is_refused),
	KUNIT_CASE(timeout_armed_by_its_callback_before_the_stop_is_handed_back),
	KUNIT_CASE(timeout_cancelled_during_the_stop_is_not_handed_back_too),
	KUNIT_CASE(second_caller_waits_for_the_first),
	KUNIT_CASE(each_is_handed_back_in_a_call_that_may_sleep),
	KUNIT_CASE(stop_without_a_function_hands_back_to_nobody),
	KUNIT_CASE(timeout_cancelled_before_its_turn_is_not_handed_back),
	KUNIT_CASE(try_cancel_during_the_hand_back_is_ebusy),
	KUNIT_CASE(timeout_can_be_shut_down_and_freed_as_it_is_handed_back),
	KUNIT_CASE(arm_during_the_hand_back_is_refused),
	KUNIT_CASE(timeout_can_be_armed_in_another_wheel_as_it_is_handed_back),
	KUNIT_CASE(owner_may_cancel_sync_and_free_while_stop_hands_back),
	KUNIT_CASE(timeout_can_be_freed_as_it_is_handed_back),
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
