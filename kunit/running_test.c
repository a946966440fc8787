// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of busy timeouts: a worker runs the callback or will run it soon, or
 * twheel_stop() hands the timeout back. It tests operations by others, clock steps, and
 * that a new timeout in the same memory is independent of the old one.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "actor.h"
#include "helper.h"
#include "suite.h"

/*
 * Maximum number of workers that run callbacks of one shard at once. If their callbacks
 * wait, further timeouts wait for a worker.
 */
#define NR_WORKERS	4

static const struct kind one_shot_worker = { "worker", .worker = true };

/*
 * All workers are busy with the timeouts of @busy. The returned one is due at @tick and
 * waits for a worker.
 */
static struct actor *behind_busy_workers(struct kunit *test, struct actor *busy,
					 const struct kind *k, u64 tick)
{
	struct actor *a = actors(test, 1, k);
	struct twheel_position pos;
	unsigned int i;

	for (i = 0; i < NR_WORKERS; i++) {
		busy[i].stays = true;
		arm_actor(test, &busy[i], &one_shot_worker, 1);
	}
	advance_tick(test, 1);
	for (i = 0; i < NR_WORKERS; i++)
		expect_begins(test, &busy[i]);
	arm_actor(test, a, k, tick);
	advance_tick(test, tick);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&a->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_position(&a->p.t, &pos));
	return a;
}

static void free_workers(struct actor *busy)
{
	unsigned int i;

	for (i = 0; i < NR_WORKERS; i++)
		let_go(&busy[i]);
}

static const struct kind worker_kinds[] = {
	{ "one-shot", .worker = true },
	{ "fixed rate", .worker = true, .periodic = TWHEEL_FIXED_RATE },
	{ "fixed delay", .worker = true, .periodic = TWHEEL_FIXED_DELAY },
	{ "finite repeat", .worker = true, .periodic = TWHEEL_FIXED_RATE, .repeat = 1 },
};

KUNIT_ARRAY_PARAM(worker, worker_kinds, kind_desc);

static void step_back_between_hand_over_and_call_sends_it_back(struct kunit *test)
{
	const struct kind *k = test->param_value;
	struct twheel_position pos;
	struct actor *a, *busy;

	manual_wheel(test, TICK, 16, 3);
	busy = actors(test, NR_WORKERS, &one_shot_worker);
	a = behind_busy_workers(test, busy, k, 20);
	set_clock(test, 10);
	free_workers(busy);
	twheel_flush(a->f->wheel);
	/* A worker that wrongly called it would have done so within 20 ms. */
	msleep(20);
	expect_calls(test, a, 0);
	advance_tick(test, 11);
	KUNIT_EXPECT_TRUE(test, twheel_position(&a->p.t, &pos));
	expect_called_at(test, a, 20);
	KUNIT_EXPECT_EQ(test, 20 * TICK, a->expires);
	KUNIT_EXPECT_EQ(test, 0ULL, a->missed);
}

/* It is handed over at tick 20 and called at tick 45. */
static void step_forward_between_hand_over_and_call_is_missed(struct kunit *test)
{
	const struct kind *k = test->param_value;
	bool rate = k->periodic == TWHEEL_FIXED_RATE && !k->repeat;
	struct actor *a, *busy;

	manual_wheel(test, TICK, 16, 3);
	busy = actors(test, NR_WORKERS, &one_shot_worker);
	a = behind_busy_workers(test, busy, k, 20);
	set_clock(test, 45);
	free_workers(busy);
	expect_begins(test, a);
	expect_calls(test, a, 1);
	KUNIT_EXPECT_EQ(test, rate ? 2ULL : 0ULL, a->missed);
	KUNIT_EXPECT_EQ(test, (rate ? 40 : 20) * TICK, a->expires);
	if (rate)
		expect_called_at(test, a, 50);
	else if (k->periodic == TWHEEL_FIXED_DELAY)
		expect_called_at(test, a, 55);
	else
		KUNIT_EXPECT_FALSE(test, twheel_pending(&a->p.t));
}

/* From tick 20 to 5: a fixed rate keeps its phase, a fixed delay counts from tick 5. */
static void step_back_during_the_callback_moves_the_next_one(struct kunit *test)
{
	const struct kind *k = test->param_value;
	struct actor *a;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, k);
	a->stays = true;
	arm_actor(test, a, k, 20);
	advance_tick(test, 20);
	expect_begins(test, a);
	set_clock(test, 5);
	let_go(a);
	expect_calls(test, a, 1);
	if (k->periodic == TWHEEL_FIXED_DELAY)
		expect_called_at(test, a, 15);
	else if (k->periodic && !k->repeat)
		expect_called_at(test, a, 30);
	else
		KUNIT_EXPECT_FALSE(test, twheel_pending(&a->p.t));
}

static void lists_take_what_waits_for_a_worker(struct kunit *test)
{
	struct twheel_timeout *list;
	struct actor *a, *busy;

	manual_wheel(test, TICK, 16, 3);
	busy = actors(test, NR_WORKERS, &one_shot_worker);
	a = behind_busy_workers(test, busy, &one_shot_worker, 20);
	list = &a->p.t;
	KUNIT_EXPECT_EQ(test, 1U, twheel_cancel_list(&list, 1));
	list = &a->p.t;
	list->expires = 30 * TICK;
	KUNIT_EXPECT_EQ(test, 1U, twheel_arm_list(a->f->wheel, &list, 1));
	free_workers(busy);
	expect_called_at(test, a, 30);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&a->calls));
}

/* Initialise a periodic timeout in its memory before its callback has returned. */
static void become_periodic(struct actor *a)
{
	a->then = NULL;
	memset(&a->p, 0xa5, sizeof(a->p));
	twheel_periodic_init(a->f->wheel, &a->p, actor_comes_round, TWHEEL_FIXED_RATE);
	twheel_use_workqueue(&a->p.t);
	a->ret[0] = twheel_try_cancel(&a->p.t);
	a->ret[1] = twheel_cancel_sync(&a->p.t);
	a->ret[2] = twheel_arm_periodic(&a->p, 20 * TICK, 10 * TICK, 0);
}

/* The callback of the old timeout runs until let_go(); the new timeout is due at tick 20. */
static struct actor *reused_actor(struct kunit *test)
{
	struct actor *a;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, &one_shot_worker);
	a->then = become_periodic;
	a->stays = true;
	arm_actor(test, a, &one_shot_worker, 10);
	advance_tick(test, 10);
	expect_begins(test, a);
	KUNIT_EXPECT_EQ(test, 0, a->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, a->ret[1]);
	KUNIT_EXPECT_EQ(test, 0, a->ret[2]);
	return a;
}

static void new_timeout_is_called_beside_the_old_callback(struct kunit *test)
{
	struct actor *a = reused_actor(test);

	WRITE_ONCE(a->stays, false);
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&a->calls));
	advance_tick(test, 20);
	expect_begins(test, a);
	KUNIT_EXPECT_GE(test, atomic_read(&a->inside), 1);
	KUNIT_EXPECT_EQ(test, 20 * TICK, a->expires);
	let_go(a);
	expect_calls(test, a, 2);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&a->p.t));
}

static int try_cancel_actor(struct actor *a)
{
	return twheel_try_cancel(&a->p.t);
}

static int cancel_sync_actor(struct actor *a)
{
	return twheel_cancel_sync(&a->p.t);
}

static int shutdown_actor(struct actor *a)
{
	return twheel_shutdown(&a->p.t);
}

static int cancel_list_actor(struct actor *a)
{
	struct twheel_timeout *t = &a->p.t;

	return twheel_cancel_list(&t, 1);
}

static int mod_and_cancel_actor(struct actor *a)
{
	return twheel_mod(&a->p.t, 50 * TICK) + twheel_cancel(&a->p.t) - 1;
}

struct taking {
	const char *name;
	int (*take_out)(struct actor *a);
};

static const struct taking takings[] = {
	{ "try_cancel", try_cancel_actor },
	{ "cancel_sync", cancel_sync_actor },
	{ "shutdown", shutdown_actor },
	{ "cancel_list", cancel_list_actor },
	{ "mod", mod_and_cancel_actor },
};

static void taking_desc(const struct taking *t, char *desc)
{
	strscpy(desc, t->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(taking, takings, taking_desc);

/* No call waits for the callback of the old timeout or reports that it runs. */
static void old_callback_means_nothing_to_the_new_timeout(struct kunit *test)
{
	const struct taking *taking = test->param_value;
	struct actor *a = reused_actor(test);

	KUNIT_EXPECT_EQ(test, 1, taking->take_out(a));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&a->inside));
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&a->p.t));
	let_go(a);
	advance_tick(test, 100);
	expect_calls(test, a, 1);
}

static void clock_steps_reach_the_new_timeout_under_the_old_callback(struct kunit *test)
{
	struct actor *a = reused_actor(test);

	advance_tick(test, 15);
	advance_tick(test, 5);
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&a->calls));
	WRITE_ONCE(a->stays, false);
	advance_tick(test, 41);
	expect_begins(test, a);
	KUNIT_EXPECT_EQ(test, 2ULL, a->missed);
	KUNIT_EXPECT_EQ(test, 40 * TICK, a->expires);
	let_go(a);
	expect_calls(test, a, 2);
}

/* The callback arms its timeout again and again until that is refused. */
static void mod_until_refused(struct actor *a)
{
	unsigned long end = jiffies + PATIENCE;

	complete(&a->began);
	do {
		a->ret[0] = twheel_mod(&a->p.t, FAR);
		msleep(20);
	} while (a->ret[0] >= 0 && time_before(jiffies, end));
}

static void shutdown_refuses_the_callback_that_it_waits_for(struct kunit *test)
{
	const struct kind *k = test->param_value;
	struct ending *e = kunit_kcalloc(test, 2, sizeof(*e), GFP_KERNEL);
	struct actor *a;

	KUNIT_ASSERT_NOT_NULL(test, e);
	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, k);
	a->then = mod_until_refused;
	a->stays = true;
	arm_actor(test, a, k, 10);
	advance_tick(test, 10);
	expect_begins(test, a);
	e[0].t = &a->p.t;
	e[1].t = &a->p.t;
	e[1].sync = true;
	helper_start(test, &e[0].helper, end_it, &e[0]);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&a->began, PATIENCE), 0UL);
	helper_start(test, &e[1].helper, end_it, &e[1]);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(&a->p.t));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(e[0].over) || READ_ONCE(e[1].over));
	let_go(a);
	helper_finish(test, &e[0].helper);
	helper_finish(test, &e[1].helper);
	KUNIT_EXPECT_EQ(test, k->repeat ? -EINVAL : -ESHUTDOWN, a->ret[0]);
	KUNIT_EXPECT_FALSE(test, e[1].ret);
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&a->p.t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&a->p.t, FAR));
	expect_calls(test, a, 1);
}

static void cancel_sync_takes_out_what_the_callback_has_moved(struct kunit *test)
{
	struct ending *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct actor *a;

	KUNIT_ASSERT_NOT_NULL(test, e);
	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, &one_shot_worker);
	a->stays = true;
	arm_actor(test, a, &one_shot_worker, 10);
	advance_tick(test, 10);
	expect_begins(test, a);
	KUNIT_EXPECT_EQ(test, 0, twheel_mod(&a->p.t, 20 * TICK));
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(&a->p.t));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&a->p.t));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&a->p.t, 30 * TICK));
	e->t = &a->p.t;
	e->sync = true;
	helper_start(test, &e->helper, end_it, e);
	msleep(20);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(e->over));
	let_go(a);
	helper_finish(test, &e->helper);
	KUNIT_EXPECT_TRUE(test, e->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&a->p.t));
	advance_tick(test, 100);
	expect_calls(test, a, 1);
}

static const struct kind kinds[] = {
	{ "one-shot" },
	{ "fixed rate", .periodic = TWHEEL_FIXED_RATE },
	{ "fixed delay", .periodic = TWHEEL_FIXED_DELAY },
	{ "finite repeat", .periodic = TWHEEL_FIXED_RATE, .repeat = 3 },
	{ "slack", .slack = 3 },
	{ "worker", .worker = true },
	{ "worker, fixed rate", .worker = true, .periodic = TWHEEL_FIXED_RATE },
};

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

static void move_and_try_cancel(struct actor *a)
{
	a->then = NULL;
	a->ret[0] = twheel_mod(&a->p.t, 50 * TICK);
	a->ret[1] = twheel_try_cancel(&a->p.t);
	a->ret[2] = twheel_pending(&a->p.t);
}

/* The callback has moved the timeout to tick 50; with a fixed delay, too, it fires then. */
static void try_cancel_in_its_callback_changes_nothing(struct kunit *test)
{
	const struct kind *k = test->param_value;
	struct actor *a;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, k);
	a->then = move_and_try_cancel;
	arm_actor(test, a, k, 16);
	expect_called_at(test, a, 16);
	KUNIT_EXPECT_GE(test, a->ret[0], 0);
	KUNIT_EXPECT_EQ(test, -EBUSY, a->ret[1]);
	KUNIT_EXPECT_EQ(test, 1, a->ret[2]);
	expect_called_at(test, a, 50);
	KUNIT_EXPECT_EQ(test, 50 * TICK, a->expires);
}

/* Hand-back */

/**
 * struct stopping_wheel - a wheel that is stopped, and one that is not
 * @p: timeouts of the wheel that is stopped
 * @nr: how many there are
 * @next: the other wheel
 * @back: number of times that each timeout was handed back
 * @ret: results of calls for timeouts that are not yet handed back
 */
struct stopping_wheel {
	struct probe	*p;
	unsigned int	nr;
	struct twheel	*next;
	unsigned int	back[8];
	int		ret[8];
};

static struct stopping_wheel *stopping_wheel(struct kunit *test, unsigned int nr)
{
	struct stopping_wheel *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	manual_wheel(test, TICK, 8, 4);
	s->p = probes(test, nr);
	s->nr = nr;
	for (i = 0; i < nr; i++)
		arm_tick(test, &s->p[i], 10 + i * 100);
	return s;
}

static unsigned int note_back(struct stopping_wheel *s, struct twheel_timeout *t)
{
	unsigned int i = container_of(t, struct probe, t)->id;

	s->back[i]++;
	return i;
}

/* The first hand-back cancels the five timeouts that follow it, and moves the sixth. */
static void take_the_others(void *data, struct twheel_timeout *t)
{
	struct stopping_wheel *s = data;
	unsigned int i = note_back(s, t), j;
	struct twheel_timeout *other[7];

	if (s->ret[0])
		return;
	for (j = 1; j < 7; j++)
		other[j] = &s->p[(i + j) % s->nr].t;
	s->ret[0] = 1;
	s->ret[1] = twheel_try_cancel(other[1]);
	s->ret[2] = twheel_cancel_sync(other[2]);
	s->ret[3] = twheel_shutdown(other[3]);
	s->ret[4] = twheel_cancel_list(&other[4], 1);
	s->ret[5] = twheel_cancel(other[5]);
	s->ret[6] = twheel_mod(other[6], TICK);
}

static void taken_before_its_turn_is_not_handed_back(struct kunit *test)
{
	struct stopping_wheel *s = stopping_wheel(test, 7);
	struct fixture *f = test->priv;
	struct twheel_counters stats;
	unsigned int i, back = 0;

	twheel_stop(f->wheel, take_the_others, s);
	for (i = 1; i < 6; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, s->ret[i], "function %u", i);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, s->ret[6]);
	for (i = 0; i < 7; i++) {
		KUNIT_EXPECT_LE(test, s->back[i], 1U);
		KUNIT_EXPECT_FALSE(test, twheel_pending(&s->p[i].t));
		back += s->back[i];
	}
	KUNIT_EXPECT_EQ(test, 2U, back);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 2ULL, stats.stopped);
	KUNIT_EXPECT_EQ(test, 5ULL, stats.cancelled);
}

/**
 * struct handing - a hand-back that waits until other tasks wait for it
 * @wheel: the wheel that is stopped
 * @helper: the task that stops it
 * @gate: where the hand-back waits
 * @ret: result of twheel_try_cancel() in the hand-back
 */
struct handing {
	struct twheel	*wheel;
	struct helper	helper;
	struct gate	gate;
	int		ret;
};

static void hand_back_slowly(void *data, struct twheel_timeout *t)
{
	struct handing *h = data;

	h->ret = twheel_try_cancel(t);
	gate_pass(&h->gate);
}

static void stop_slowly(void *arg)
{
	struct handing *h = arg;

	twheel_stop(h->wheel, hand_back_slowly, h);
}

/* When the call returns, the engine no longer accesses the timeout. */
static void freed_by_its_owner_during_its_hand_back(struct kunit *test, bool sync)
{
	struct twheel_timeout *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct handing *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);
	struct ending *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct fixture *f = manual_wheel(test, TICK, 16, 3);

	KUNIT_ASSERT_TRUE(test, t && h && e);
	twheel_timeout_init(f->wheel, t, probe_fires);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(t, 20 * TICK));
	h->wheel = f->wheel;
	gate_init(&h->gate);
	*e = (struct ending){ .t = t, .sync = sync, .frees = true };
	helper_start(test, &h->helper, stop_slowly, h);
	gate_wait(test, &h->gate);
	helper_start(test, &e->helper, end_it, e);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(e->over));
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(t));
	complete_all(&h->gate.open);
	helper_finish(test, &e->helper);
	helper_finish(test, &h->helper);
	KUNIT_EXPECT_EQ(test, -EBUSY, h->ret);
	KUNIT_EXPECT_FALSE(test, e->ret);
}

static void cancel_sync_waits_for_the_hand_back(struct kunit *test)
{
	freed_by_its_owner_during_its_hand_back(test, true);
}

static void shutdown_waits_for_the_hand_back(struct kunit *test)
{
	freed_by_its_owner_during_its_hand_back(test, false);
}

static void move_to_next_wheel(void *data, struct twheel_timeout *t)
{
	struct stopping_wheel *s = data;
	unsigned int i = note_back(s, t);

	memset(t, 0xa5, sizeof(*t));
	twheel_timeout_init(s->next, t, probe_fires);
	s->ret[i] = twheel_arm(t, 20 * TICK);
}

static void memory_handed_back_can_join_another_wheel(struct kunit *test)
{
	struct stopping_wheel *s = stopping_wheel(test, 8);
	struct fixture *f = test->priv;
	struct twheel *old = f->wheel;
	unsigned int i;

	manual_wheel(test, TICK, 16, 3);
	s->next = f->wheel;
	twheel_stop(old, move_to_next_wheel, s);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(old));
	twheel_destroy(old);
	for (i = 0; i < 8; i++) {
		KUNIT_EXPECT_EQ(test, 0, s->ret[i]);
		KUNIT_EXPECT_EQ(test, 1U, s->back[i]);
		KUNIT_EXPECT_TRUE(test, twheel_pending(&s->p[i].t));
	}
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 8U, f->nr_fired);
}

static void just_note_back(void *data, struct twheel_timeout *t)
{
	note_back(data, t);
}

/*
 * The clock is stepped, and twheel_stop() is called before any turn has read the clock. The
 * three timeouts that had fired before are not handed back.
 */
static void stop_after_a_clock_step_hands_back_all(struct kunit *test)
{
	static const u64 steps[] = { 5000, 450, 310, 3 };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		struct stopping_wheel *s = stopping_wheel(test, 8);
		struct fixture *f = test->priv;

		advance_tick(test, 305);
		f->nr_fired = 0;
		set_clock(test, steps[i]);
		twheel_stop(f->wheel, just_note_back, s);
		KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
		for (j = 0; j < 8; j++)
			KUNIT_EXPECT_EQ(test, j < 3 ? 0U : 1U, s->back[j]);
		fixture_exit(test);
	}
}

static struct kunit_case running_cases[] = {
	KUNIT_CASE_PARAM(step_back_between_hand_over_and_call_sends_it_back, worker_gen_params),
	KUNIT_CASE_PARAM(step_forward_between_hand_over_and_call_is_missed, worker_gen_params),
	KUNIT_CASE_PARAM(step_back_during_the_callback_moves_the_next_one, worker_gen_params),
	KUNIT_CASE(lists_take_what_waits_for_a_worker),
	KUNIT_CASE(new_timeout_is_called_beside_the_old_callback),
	KUNIT_CASE_PARAM(old_callback_means_nothing_to_the_new_timeout, taking_gen_params),
	KUNIT_CASE(clock_steps_reach_the_new_timeout_under_the_old_callback),
	KUNIT_CASE_PARAM(shutdown_refuses_the_callback_that_it_waits_for, worker_gen_params),
	KUNIT_CASE(cancel_sync_takes_out_what_the_callback_has_moved),
	KUNIT_CASE_PARAM(try_cancel_in_its_callback_changes_nothing, kind_gen_params),
	KUNIT_CASE(taken_before_its_turn_is_not_handed_back),
	KUNIT_CASE(cancel_sync_waits_for_the_hand_back),
	KUNIT_CASE(shutdown_waits_for_the_hand_back),
	KUNIT_CASE(memory_handed_back_can_join_another_wheel),
	KUNIT_CASE(stop_after_a_clock_step_hands_back_all),
	{}
};

static struct kunit_suite running_suite = {
	.name = "twheel-running",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = running_cases,
};

module_test_suite(running_suite);

MODULE_DESCRIPTION("KUnit suite of timeouts whose callback runs, or that are handed back");
MODULE_LICENSE("GPL");
