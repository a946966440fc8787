// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the end of a wheel: which timeouts twheel_stop() hands back, from where,
 * and which calls are allowed after it. A stop under load loses nothing.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

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

struct form {
	u32	slots;
	u32	levels;
};

static const struct form forms[] = { { 2, 1 }, { 256, 1 }, { 2, 0 }, { 256, 0 }, { 65536, 0 } };

static void form_desc(const struct form *form, char *desc)
{
	sprintf(desc, "%u slots, %s", form->slots, form->levels == 1 ? "one level" : "hierarchy");
}

KUNIT_ARRAY_PARAM(form, forms, form_desc);

/* Powers of two with both neighbours: timeouts on each level, on both sides of its blocks. */
static u64 edge(unsigned int i)
{
	return max(BIT_ULL(i / 3) + i % 3, 2ULL) - 1;
}

static void stop_hands_back_a_timeout_on_every_level(struct kunit *test)
{
	enum { NR = 3 * 43 };
	const struct form *form = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, form->slots, form->levels);
	struct probe *p = probes(test, NR);
	struct twheel_counters stats;
	unsigned int i;

	for (i = 0; i < NR; i++)
		arm_tick(test, &p[i], edge(i));
	KUNIT_EXPECT_EQ(test, (unsigned int)NR, stop(test));
	expect_accounted(test, p, NR);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, (u64)NR, stats.stopped);
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
}

static void renew_wheel(struct kunit *test, const struct form *form)
{
	fixture_exit(test);
	manual_wheel(test, TICK, form->slots, form->levels);
}

static const struct form small_forms[] = { { 2, 1 }, { 8, 1 }, { 2, 0 }, { 4, 0 } };

KUNIT_ARRAY_PARAM(small_form, small_forms, form_desc);

/* Depending on the phase, timeouts have fired, have cascaded, or wait for later rounds. */
static void stop_hands_back_the_rest_from_every_phase(struct kunit *test)
{
	enum { NR = 3 * 10 };
	struct probe *p;
	u64 phase;
	unsigned int i;

	for (phase = 0; phase < 600; phase += stride) {
		renew_wheel(test, test->param_value);
		p = probes(test, NR);
		for (i = 0; i < NR; i++)
			arm_tick(test, &p[i], edge(i));
		advance_tick(test, phase);
		stop(test);
		expect_accounted(test, p, NR);
		for (i = 0; i < NR; i++)
			KUNIT_ASSERT_EQ(test, p[i].tick > phase, p[i].ret == 1);
	}
}

static void stop_after_a_step_back_hands_back_all(struct kunit *test)
{
	enum { NR = 3 * 30, START = 100000 };
	struct probe *p;
	unsigned int i;

	renew_wheel(test, test->param_value);
	p = probes(test, NR);
	advance_tick(test, START);
	for (i = 0; i < NR; i++)
		arm_tick(test, &p[i], START + edge(i));
	advance_tick(test, START / 2);
	KUNIT_EXPECT_EQ(test, (unsigned int)NR, stop(test));
	expect_accounted(test, p, NR);
}

static void what_was_cancelled_or_has_fired_is_not_handed_back(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 0);
	p = probes(test, 5);
	arm_tick(test, &p[0], 3);
	arm_tick(test, &p[1], 30);
	arm_tick(test, &p[2], 30);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[3].t, S64_MAX));
	advance_tick(test, 10);
	KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[1].t));
	KUNIT_EXPECT_EQ(test, 2U, stop(test));
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1, p[3].ret);
}

static void stop_hands_back_a_tree_of_realtime(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-stop", .clock = TWHEEL_REALTIME };
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes(test, MANY);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, S64_MAX - i % 7));
	KUNIT_EXPECT_EQ(test, (unsigned int)MANY, stop(test));
	expect_accounted(test, p, MANY);
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

static u64 tick_due(unsigned int i)
{
	return 10;
}

/* The callback of tick 255 runs while the slot of ticks 256 to 511 is half cascaded. */
static u64 tick_cascade(unsigned int i)
{
	return i == MANY - 1 ? 255 : 300 + i % 100;
}

/* Some of the slot have been set aside for later rounds when the stop begins. */
static u64 tick_visit(unsigned int i)
{
	return i == 78 ? 4 : 8 * (i % 5 + i % 2) + 4;
}

/**
 * struct pass_case - what the pass does when the stop begins
 * @name: for the log
 * @levels: of the wheel
 * @tick: tick of the i-th timeout
 * @trigger: the stop begins in its callback
 * @idle: a timeout that does not fire
 * @cascades: the stop begins in the middle of a cascade
 */
struct pass_case {
	const char	*name;
	unsigned int	levels;
	u64		(*tick)(unsigned int i);
	unsigned int	trigger;
	unsigned int	idle;
	bool		cascades;
};

static const struct pass_case pass_cases[] = {
	{ "due", 0, tick_due, 10, 128, false },
	{ "cascade", 0, tick_cascade, MANY - 1, 0, true },
	{ "visit", 1, tick_visit, 78, MANY - 1, false },
};

NAMED_PARAM(pass_case, pass_cases);

/* At most the rest of the current batch runs. */
static void stop_in_a_pass_hands_back_what_has_not_run(struct kunit *test)
{
	const struct pass_case *c = test->param_value;
	struct probe *p;
	struct pass *pass;
	unsigned int i;

	manual_wheel(test, TICK, c->levels == 1 ? 8 : 256, c->levels);
	p = probes(test, MANY + 1);
	pass = make_pass(test, p, MANY, c->trigger);
	for (i = 0; i < MANY; i++)
		arm_tick(test, &p[i], c->tick(i));
	stop_in_pass(test, pass, MANY);
	expect_accounted(test, p, MANY);
	KUNIT_EXPECT_EQ(test, 1, p[c->idle].ret);
	KUNIT_EXPECT_EQ(test, c->cascades, pass->cascaded && pass->cascaded < MANY);
}

/* While a callback spins on a spare CPU */

/**
 * struct held - a stop that waits for a callback
 * @gate: where the callback spins
 * @stopping: the stop
 * @rearm: the callback arms its timeout before it spins, not after
 * @ret: result of that arm
 */
struct held {
	struct gate	gate;
	struct stopping	stopping;
	bool		rearm;
	int		ret;
};

static void spin_and_rearm(struct probe *p)
{
	struct held *held = p->data;

	atomic_inc(&held->stopping.inside);
	if (held->rearm)
		held->ret = twheel_mod(&p->t, FAR + ktime_get_ns());
	gate_spin(&held->gate);
	if (!held->rearm)
		held->ret = twheel_mod(&p->t, FAR);
	atomic_dec(&held->stopping.inside);
}

static struct fixture *running_wheel(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-stop", .clock = TWHEEL_MONOTONIC };

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return test->priv;
}

/* The callback of p[0] spins; p[1] is idle; p[2] is pending; the stop waits. */
static struct held *begin_held_stop(struct kunit *test, struct probe **p, bool rearm)
{
	struct held *held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);
	unsigned int here = raw_smp_processor_id();

	KUNIT_ASSERT_NOT_NULL(test, held);
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");
	gate_init(&held->gate);
	stopping_init(&held->stopping, running_wheel(test)->wheel);
	held->rearm = rearm;
	*p = probes(test, 3);
	(*p)->then = spin_and_rearm;
	(*p)->data = held;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&(*p)[2].t, FAR));
	run_on(test, spare_cpu());
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&(*p)->t, 0));
	run_on(test, here);
	gate_wait(test, &held->gate);
	helper_start(test, &held->stopping.helper, stop_it, &held->stopping);
	wait_until_refused(test, &(*p)[1].t);
	return held;
}

/* No timeout was handed back before the callback had returned. */
static void end_held_stop(struct kunit *test, struct held *held)
{
	complete_all(&held->gate.open);
	helper_finish(test, &held->stopping.helper);
	KUNIT_EXPECT_EQ(test, 0U, held->stopping.early);
	KUNIT_EXPECT_EQ(test, 0, held->stopping.left);
}

static void callback_that_arms_during_the_stop_is_refused(struct kunit *test)
{
	struct probe *p;
	struct held *held = begin_held_stop(test, &p, false);

	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, 1U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, held->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static void timeout_armed_by_its_callback_before_the_stop_is_handed_back(struct kunit *test)
{
	struct probe *p;
	struct held *held = begin_held_stop(test, &p, true);

	end_held_stop(test, held);
	KUNIT_EXPECT_EQ(test, 0, held->ret);
	KUNIT_EXPECT_EQ(test, 2U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 1, p->ret);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
}

static void second_caller_waits_for_the_first(struct kunit *test)
{
	struct stopping second;
	struct probe *p;
	struct held *held = begin_held_stop(test, &p, false);

	stopping_init(&second, held->stopping.wheel);
	helper_start(test, &second.helper, stop_it, &second);
	msleep(50);
	KUNIT_EXPECT_EQ(test, completion_done(&second.helper.done),
			completion_done(&held->stopping.helper.done));
	end_held_stop(test, held);
	helper_finish(test, &second.helper);
	KUNIT_EXPECT_EQ(test, 1U, count_probes(test, &held->stopping.list));
	KUNIT_EXPECT_EQ(test, 0U, count_probes(test, &second.list));
}

/* The hand-back: one call per timeout, during which the timeout counts as running */

/**
 * struct return_calls - record of the calls that hand timeouts back
 * @call: called for each timeout, or NULL
 * @ret: sum of its results
 * @caller: the task that stops the wheel
 * @elsewhere: number of calls in another task
 * @inside: number of calls that have not returned
 * @nested: number of calls that began before the previous one had returned
 * @p: all timeouts
 * @n: length of @p
 */
struct return_calls {
	int			(*call)(struct return_calls *r, struct twheel_timeout *t);
	int			ret;
	struct task_struct	*caller;
	unsigned int		elsewhere;
	unsigned int		inside;
	unsigned int		nested;
	struct probe		*p;
	unsigned int		n;
};

static void note_return(void *data, struct twheel_timeout *t)
{
	struct return_calls *r = data;

	r->elsewhere += current != r->caller;
	r->nested += r->inside++;
	container_of(t, struct probe, t)->ret++;
	if (r->call)
		r->ret += r->call(r, t);
	usleep_range(10, 20);
	r->inside--;
}

/* Hand back @n timeouts, with @call for each. Returns the sum of its results. */
static int hand_back(struct kunit *test, unsigned int n,
		     int (*call)(struct return_calls *r, struct twheel_timeout *t))
{
	struct return_calls *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, r);
	manual_wheel(test, TICK, 4, 0);
	*r = (struct return_calls){
		.caller = current, .p = probes(test, n), .n = n, .call = call,
	};
	for (i = 0; i < n; i++)
		arm_tick(test, &r->p[i], 1 + 7 * i);
	twheel_stop(r->p->f->wheel, note_return, r);
	KUNIT_EXPECT_EQ(test, 0U, r->elsewhere);
	KUNIT_EXPECT_EQ(test, 0U, r->nested);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 1, r->p[i].ret);
	return r->ret;
}

static int call_cancel(struct return_calls *r, struct twheel_timeout *t)
{
	return twheel_cancel(t) + twheel_cancel_sync(t);
}

static int call_shutdown(struct return_calls *r, struct twheel_timeout *t)
{
	return twheel_shutdown(t);
}

static int call_try_cancel(struct return_calls *r, struct twheel_timeout *t)
{
	return twheel_try_cancel(t);
}

static int call_mod(struct return_calls *r, struct twheel_timeout *t)
{
	return twheel_mod(t, FAR);
}

/* Of the others, one more is cancelled in each call: it is not handed back. */
static int call_cancel_the_next(struct return_calls *r, struct twheel_timeout *t)
{
	unsigned int i;

	for (i = 0; i < r->n; i++)
		if (twheel_cancel(&r->p[i].t))
			return r->p[i].ret++ + 1;
	return 0;
}

static const struct return_case {
	const char *name;
	int (*call)(struct return_calls *r, struct twheel_timeout *t);
	int ret;
} return_cases[] = {
	{ "nothing", NULL, 0 },
	{ "cancel", call_cancel, 0 },
	{ "shutdown", call_shutdown, 0 },
	{ "try_cancel", call_try_cancel, 300 * -EBUSY },
	{ "mod", call_mod, 300 * -ESHUTDOWN },
	{ "cancel of another", call_cancel_the_next, 150 },
};

NAMED_PARAM(return_case, return_cases);

static void each_is_handed_back_in_a_call_that_may(struct kunit *test)
{
	const struct return_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, c->ret, hand_back(test, 300, c->call));
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
	struct fixture *f = manual_wheel(test, TICK, 4, 0);
	struct probe *p = probes(test, 300);
	struct twheel *first = f->wheel;
	unsigned int i;

	for (i = 0; i < 300; i++)
		arm_tick(test, &p[i], 1 + 7 * i);
	manual_wheel(test, TICK, 8, 1);
	twheel_stop(first, arm_in_another_wheel, f->wheel);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(first));
	twheel_destroy(first);
	for (i = 0; i < 300; i++)
		KUNIT_ASSERT_EQ(test, 0, p[i].ret);
	advance_tick(test, 49);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 50);
	KUNIT_EXPECT_EQ(test, 300U, f->nr_fired);
}

/**
 * struct estate - timeouts of which some are freed while a stop hands them back
 * @started: completed by the first hand-back
 * @first: completed when the owner has cancelled one
 * @handed: number of hand-backs
 * @cancelled: number of timeouts that their owner cancelled
 * @wrong: number of timeouts that were both or neither
 * @one: the timeouts; p.ret is set as the hand-back returns
 */
struct estate {
	struct completion	started, first;
	unsigned int		handed;
	unsigned int		cancelled;
	unsigned int		wrong;
	struct probe		*one[300];
};

/* The last access is a write to @t, so that KASAN detects an early kfree(). */
static void take_slowly(void *data, struct twheel_timeout *t)
{
	struct estate *e = data;

	complete_all(&e->started);
	/* The owner cancels at least one: the last. */
	if (e->handed++ == 0)
		wait_for_completion_timeout(&e->first, PATIENCE);
	usleep_range(100, 200);
	WRITE_ONCE(container_of(t, struct probe, t)->ret, 1);
}

/* Free them in another order than that of the stop: some before their hand-back, some during it. */
static void cancel_and_free(void *arg)
{
	struct estate *e = arg;
	struct probe *p;
	unsigned int n;
	bool cancelled;

	wait_for_completion(&e->started);
	for (n = 0; n < ARRAY_SIZE(e->one); n++) {
		p = e->one[ARRAY_SIZE(e->one) - 1 - n * 7 % ARRAY_SIZE(e->one)];
		cancelled = twheel_cancel_sync(&p->t);
		e->cancelled += cancelled;
		if (e->cancelled)
			complete_all(&e->first);
		e->wrong += cancelled == p->ret;
		kfree(p);
		if (n % 4 == 0)
			usleep_range(100, 200);
	}
}

/* cancel_sync of a timeout that is being handed back waits for the end of the hand-back. */
static void owner_may_cancel_sync_and_free_while_stop_hands_back(struct kunit *test)
{
	struct estate *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct fixture *f = manual_wheel(test, TICK, 4, 0);
	struct helper owner;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	init_completion(&e->started);
	init_completion(&e->first);
	for (i = 0; i < ARRAY_SIZE(e->one); i++) {
		e->one[i] = kzalloc(sizeof(*e->one[i]), GFP_KERNEL | __GFP_NOFAIL);
		twheel_timeout_init(f->wheel, &e->one[i]->t, probe_fires);
		twheel_arm(&e->one[i]->t, (1 + i) * TICK);
	}
	helper_start(test, &owner, cancel_and_free, e);
	twheel_stop(f->wheel, take_slowly, e);
	helper_finish(test, &owner);
	KUNIT_EXPECT_EQ(test, 0U, e->wrong);
	KUNIT_EXPECT_EQ(test, 300U, e->handed + e->cancelled);
	KUNIT_EXPECT_GT(test, e->handed, 0U);
	KUNIT_EXPECT_GT(test, e->cancelled, 0U);
}

/* After the stop */

static void time_goes_on_after_the_stop(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 0);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, 1U, stop(test));
	KUNIT_EXPECT_EQ(test, 0U, stop(test));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 100 * TICK, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p->t));
	twheel_flush(f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

static void stop_another(void *data, struct twheel_timeout *t)
{
	twheel_stop(data, NULL, NULL);
}

/* Each wheel has a lockdep class of its own for this. */
static void hand_back_of_one_wheel_may_stop_another(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-stop-other", .clock = TWHEEL_MANUAL };
	struct fixture *f = manual_wheel(test, TICK, 4, 0);
	struct probe *p = probes(test, 1);
	struct twheel *other = twheel_create(&params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, other);
	arm_tick(test, p, 10);
	twheel_stop(f->wheel, stop_another, other);
	twheel_timeout_init(other, &p->t, probe_fires);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p->t, 10 * TICK));
	twheel_destroy(other);
}

static struct kunit_case stop_cases[] = {
	KUNIT_CASE_PARAM(stop_hands_back_a_timeout_on_every_level, form_gen_params),
	KUNIT_CASE_PARAM(stop_hands_back_the_rest_from_every_phase, small_form_gen_params),
	KUNIT_CASE_PARAM(stop_after_a_step_back_hands_back_all, small_form_gen_params),
	KUNIT_CASE(what_was_cancelled_or_has_fired_is_not_handed_back),
	KUNIT_CASE(stop_hands_back_a_tree_of_realtime),
	KUNIT_CASE_PARAM(stop_in_a_pass_hands_back_what_has_not_run, pass_case_gen_params),
	KUNIT_CASE(callback_that_arms_during_the_stop_is_refused),
	KUNIT_CASE(timeout_armed_by_its_callback_before_the_stop_is_handed_back),
	KUNIT_CASE(second_caller_waits_for_the_first),
	KUNIT_CASE_PARAM(each_is_handed_back_in_a_call_that_may, return_case_gen_params),
	KUNIT_CASE(timeout_can_be_armed_in_another_wheel_as_it_is_handed_back),
	KUNIT_CASE(owner_may_cancel_sync_and_free_while_stop_hands_back),
	KUNIT_CASE(time_goes_on_after_the_stop),
	KUNIT_CASE(hand_back_of_one_wheel_may_stop_another),
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
