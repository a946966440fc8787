// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of twheel_try_cancel() and twheel_shutdown(): the result of each in every
 * state of a timeout, and that a timeout can no longer be armed after twheel_shutdown().
 */
#include <linux/module.h>

#include "arming.h"
#include "fixture.h"
#include "helper.h"
#include "kind.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

/* Maximum number of workers that run callbacks of one shard at once. */
#define NR_WORKERS	4

/* A timeout whose callback waits in a worker */

/**
 * struct sitter - a timeout whose callback waits at a gate
 * @p: the timeout; a one-shot uses p.t alone
 * @gate: where it waits
 * @rearms: it arms itself before it waits
 * @ret: result of an arm after the wait
 * @calls: number of callbacks
 * @done: set when the callback ends
 */
struct sitter {
	struct twheel_periodic	p;
	struct gate		gate;
	bool			rearms;
	int			ret;
	atomic_t		calls;
	bool			done;
};

static void sitter_waits(struct sitter *s)
{
	WRITE_ONCE(s->done, false);
	atomic_inc(&s->calls);
	if (s->rearms)
		twheel_mod(&s->p.t, FAR);
	gate_pass(&s->gate);
	s->ret = twheel_mod(&s->p.t, FAR);
	WRITE_ONCE(s->done, true);
}

static void sitter_fires(struct twheel_timeout *t)
{
	sitter_waits(container_of(t, struct sitter, p.t));
}

static void sitter_comes_round(struct twheel_periodic *p)
{
	sitter_waits(container_of(p, struct sitter, p));
}

static struct sitter *new_sitter(struct kunit *test)
{
	struct sitter *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	gate_init(&s->gate);
	s->ret = 1000;
	return s;
}

/* Make a timeout whose callback waits at its gate. */
static struct sitter *sitting(struct kunit *test, bool rearms)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct sitter *s = new_sitter(test);

	s->rearms = rearms;
	twheel_timeout_init(f->wheel, &s->p.t, sitter_fires);
	twheel_use_workqueue(&s->p.t);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s->p.t, TICK));
	advance_tick(test, 1);
	gate_wait(test, &s->gate);
	return s;
}

static struct sitter *periodic_sitting(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct sitter *s = new_sitter(test);

	twheel_periodic_init(f->wheel, &s->p, sitter_comes_round, kind_of(test));
	twheel_use_workqueue(&s->p.t);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&s->p, TICK, 5 * TICK, 0));
	advance_tick(test, 1);
	gate_wait(test, &s->gate);
	return s;
}

static void let_go(struct kunit *test, struct sitter *s)
{
	struct fixture *f = test->priv;

	complete_all(&s->gate.open);
	twheel_flush(f->wheel);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s->done));
}

/* Try to cancel */

static void try_cancel_of_a_pending_timeout_is_one(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, 50);
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, p->fired);
}

static void try_cancel_of_an_idle_timeout_is_zero(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&p->t));
	arm_tick(test, p, 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&p->t));
	arm_tick(test, p, 7);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&p->t));
}

static void try_cancel_itself(struct probe *p)
{
	p->ret = twheel_try_cancel(&p->t);
}

static void try_cancel_in_its_callback_is_ebusy(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = try_cancel_itself;
	arm_tick(test, p, 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, p->ret);
}

static void arm_and_try_cancel_itself(struct probe *p)
{
	p->then = NULL;
	twheel_arm(&p->t, 20 * TICK);
	p->ret = twheel_try_cancel(&p->t);
}

static void try_cancel_of_a_running_and_pending_timeout_changes_nothing(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	p->then = arm_and_try_cancel_itself;
	arm_tick(test, p, 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, p->ret);
	expect_fires_at(test, p, 20);
}

static void try_cancel_while_a_worker_runs_it_is_ebusy(struct kunit *test)
{
	struct sitter *s = sitting(test, false);

	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(&s->p.t));
	let_go(test, s);
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&s->p.t));
}

static void try_cancel_of_one_armed_again_while_a_worker_runs_it_is_ebusy(struct kunit *test)
{
	struct sitter *s = sitting(test, true);

	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(&s->p.t));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&s->p.t));
	let_go(test, s);
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&s->p.t));
}

static void try_cancel_of_a_running_periodic_is_ebusy_and_it_goes_on(struct kunit *test)
{
	struct sitter *s = periodic_sitting(test);

	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_try_cancel(&s->p.t));
	let_go(test, s);
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&s->p.t));
	advance_tick(test, 100);
	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&s->calls));
}

static void try_cancel_other(struct probe *p)
{
	p->ret = twheel_try_cancel(&p->other->t);
}

static void try_cancel_of_the_next_of_the_same_tick_is_one(struct kunit *test)
{
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	p[0].then = try_cancel_other;
	p[0].other = &p[1];
	arm_tick(test, &p[0], 5);
	arm_tick(test, &p[1], 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0U, p[1].fired);
}

/* Return a due timeout that waits for a worker, because all of them are busy with others. */
static struct sitter *waiting(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct sitter *s = kunit_kcalloc(test, NR_WORKERS + 1, sizeof(*s), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	for (i = 0; i <= NR_WORKERS; i++) {
		gate_init(&s[i].gate);
		twheel_timeout_init(f->wheel, &s[i].p.t, sitter_fires);
		twheel_use_workqueue(&s[i].p.t);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s[i].p.t, (1 + i / NR_WORKERS) * TICK));
	}
	advance_tick(test, 1);
	for (i = 0; i < NR_WORKERS; i++)
		gate_wait(test, &s[i].gate);
	advance_tick(test, 2);
	return s;
}

static void let_all_go(struct kunit *test, struct sitter *s)
{
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i <= NR_WORKERS; i++)
		complete_all(&s[i].gate.open);
	twheel_flush(f->wheel);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&s[NR_WORKERS].calls));
}

static void try_cancel_of_a_timeout_that_waits_for_a_worker_is_one(struct kunit *test)
{
	struct sitter *s = waiting(test);

	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&s[NR_WORKERS].p.t));
	let_all_go(test, s);
}

/* Shutdown */

static void shutdown_tells_if_it_was_pending(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 3);

	arm_tick(test, &p[0], 50);
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&p[0].t));
	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&p[0].t));
	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&p[1].t));
	arm_tick(test, &p[2], 5);
	advance_tick(test, 100);
	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&p[2].t));
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
}

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

static void arm_after_shutdown_is_eshutdown(struct kunit *test)
{
	const struct arming *a = test->param_value;
	struct twheel_counters stats;
	struct fixture *f;
	struct probe *p;

	f = manual_wheel(test, TICK, 4, 3);
	p = probes(test, 2);
	arm_tick(test, &p[0], 10);
	twheel_shutdown(&p[0].t);
	twheel_shutdown(&p[1].t);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(f->wheel, &p[0].t, 50 * TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, a->arm(f->wheel, &p[1].t, 50 * TICK));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.armed);
}

static void never(struct twheel_periodic *p)
{
	WARN_ON_ONCE(true);
}

static void arm_periodic_after_shutdown_is_eshutdown(struct kunit *test)
{
	struct twheel_periodic *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct fixture *f = manual_wheel(test, TICK, 4, 3);

	KUNIT_ASSERT_NOT_NULL(test, p);
	twheel_periodic_init(f->wheel, p, never, kind_of(test));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(p, 5 * TICK, TICK, 0));
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&p->t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_periodic(p, 5 * TICK, TICK, 0));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_mod(&p->t, 5 * TICK));
	advance_tick(test, 100);
}

static void arm_list_ends_before_one_that_is_shut_down(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct twheel_timeout *list[200];
	struct probe *p = probes(test, 200);
	unsigned int i;

	for (i = 0; i < 200; i++) {
		p[i].t.expires = 50 * TICK;
		list[i] = &p[i].t;
	}
	twheel_shutdown(&p[150].t);
	KUNIT_EXPECT_EQ(test, 150U, twheel_arm_list(f->wheel, list, 200));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[149].t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[150].t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[151].t));
	advance_tick(test, 50);
	expect_fired_in_id_order(test, 150);
}

static void questions_and_cancels_after_shutdown_say_no(struct kunit *test)
{
	struct twheel_timeout *list[1];
	struct twheel_position pos;
	struct probe *p;

	manual_wheel(test, TICK, 4, 3);
	p = probes(test, 1);
	arm_tick(test, p, 10);
	twheel_shutdown(&p->t);
	list[0] = &p->t;
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_position(&p->t, &pos));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&p->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&p->t));
	KUNIT_EXPECT_EQ(test, 0U, twheel_cancel_list(list, 1));
}

static void timeout_initialised_after_shutdown_can_be_armed(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 4, 3);
	struct probe *p = probes(test, 1);

	twheel_shutdown(&p->t);
	twheel_timeout_init(f->wheel, &p->t, probe_fires);
	arm_tick(test, p, 10);
	expect_fires_at(test, p, 10);
}

static void shutdown_gives_the_place_back(struct kunit *test)
{
	struct twheel_params params = {
		.clock = TWHEEL_MANUAL, .tick_ns = TICK, .max_pending = 1,
	};
	struct probe *p;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes(test, 2);
	arm_tick(test, &p[0], 10);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[1].t, TICK));
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&p[0].t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p[0].t, TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[1].t, TICK));
}

static void shutdown_of_a_timeout_that_waits_for_a_worker_is_true(struct kunit *test)
{
	struct sitter *s = waiting(test);

	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&s[NR_WORKERS].p.t));
	let_all_go(test, s);
}

/* Shutdown by a helper while the callback waits */

/**
 * struct closing - a twheel_shutdown() that a helper calls
 * @helper: the thread
 * @t: the timeout
 * @ret: result of twheel_shutdown()
 * @over: twheel_shutdown() has returned
 */
struct closing {
	struct helper		helper;
	struct twheel_timeout	*t;
	bool			ret;
	bool			over;
};

static void shut_down(void *arg)
{
	struct closing *c = arg;

	c->ret = twheel_shutdown(c->t);
	WRITE_ONCE(c->over, true);
}

/* Wait until arms are refused; from then on the callback's arm is refused too. */
static void begin_shutdown(struct kunit *test, struct closing *c, struct sitter *s)
{
	unsigned long end = jiffies + PATIENCE;

	c->t = &s->p.t;
	c->over = false;
	helper_start(test, &c->helper, shut_down, c);
	while (twheel_mod(&s->p.t, FAR) != -ESHUTDOWN && time_before(jiffies, end))
		msleep(20);
	msleep(20);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(c->over));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&s->p.t));
}

static void end_shutdown(struct kunit *test, struct closing *c, struct sitter *s)
{
	complete_all(&s->gate.open);
	helper_finish(test, &c->helper);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(s->done));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, s->ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&s->p.t));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&s->calls));
}

static void callback_cannot_arm_itself_from_the_beginning_of_shutdown_on(struct kunit *test)
{
	struct sitter *s = sitting(test, false);
	struct closing c;

	begin_shutdown(test, &c, s);
	end_shutdown(test, &c, s);
}

static void shutdown_takes_out_a_timeout_that_its_callback_armed_again(struct kunit *test)
{
	struct sitter *s = sitting(test, true);
	struct closing c;

	begin_shutdown(test, &c, s);
	end_shutdown(test, &c, s);
	KUNIT_EXPECT_TRUE(test, c.ret);
}

static void shutdown_ends_a_running_periodic(struct kunit *test)
{
	struct sitter *s = periodic_sitting(test);
	struct closing c;

	begin_shutdown(test, &c, s);
	end_shutdown(test, &c, s);
	KUNIT_EXPECT_TRUE(test, c.ret);
	advance_tick(test, 100);
	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&s->calls));
}

/* The owner frees the timeout at once. The test poisons its memory instead. */
static void timeout_can_be_freed_after_shutdown(struct kunit *test)
{
	struct sitter *s = sitting(test, true);
	struct closing c;

	begin_shutdown(test, &c, s);
	end_shutdown(test, &c, s);
	memset(&s->p, 0xa5, sizeof(s->p));
	advance_tick(test, 2 * FAR / TICK);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(((struct fixture *)test->priv)->wheel));
}

/* Shutdown during the call of a sink */

/**
 * struct last_sink - a sink that queries its first timeout
 * @tried: result of twheel_try_cancel() before the timeout was accepted
 * @now: completed to make the helper shut the timeout down
 * @shut: the timeout is shut down before the sink extends it
 * @extended: result of twheel_extend()
 * @closing: the call of the helper
 */
struct last_sink {
	int			tried;
	struct completion	now;
	bool			shut;
	int			extended;
	struct closing		closing;
};

/* Poll the flag: an arm returns -EBUSY before and after the shutdown, so no call can tell. */
static void wait_until_shut(struct last_sink *sink, struct twheel_timeout *t)
{
	unsigned long end = jiffies + PATIENCE / 3;

	complete(&sink->now);
	/* Written under a lock that the sink may not take; a later iteration sees it. */
	while (!(data_race(t->flags) & TWHEEL_T_SHUTDOWN) && time_before(jiffies, end))
		cpu_relax();
}

static void ask_and_accept(void *sink_data, struct list_head *expired, unsigned int nr,
			   u64 now_ns)
{
	struct twheel_timeout *t, *next;
	struct last_sink *sink = sink_data;

	list_for_each_entry_safe(t, next, expired, entry) {
		sink->tried = twheel_try_cancel(t);
		if (sink->shut)
			wait_until_shut(sink, t);
		list_del_init(&t->entry);
		if (sink->shut)
			sink->extended = twheel_extend(t, FAR, 0);
		twheel_accept(t);
	}
}

static struct last_sink *last_sink(struct kunit *test)
{
	struct last_sink *sink = kunit_kzalloc(test, sizeof(*sink), GFP_KERNEL);
	struct twheel_params params = {
		.clock = TWHEEL_MANUAL, .tick_ns = TICK, .sink = ask_and_accept,
		.sink_data = sink,
	};

	KUNIT_ASSERT_NOT_NULL(test, sink);
	init_completion(&sink->now);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return sink;
}

static void try_cancel_in_the_batch_of_a_sink_is_ebusy(struct kunit *test)
{
	struct last_sink *sink = last_sink(test);
	struct probe *p = probes_for(test, 1, NULL);

	arm_tick(test, p, 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, sink->tried);
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&p->t));
}

static void shut_down_when_told(void *arg)
{
	struct last_sink *sink = arg;

	wait_for_completion(&sink->now);
	shut_down(&sink->closing);
}

static void extension_of_a_timeout_that_is_shut_down_is_eshutdown(struct kunit *test)
{
	struct last_sink *sink = last_sink(test);
	struct probe *p = probes_for(test, 1, NULL);

	if (!IS_ENABLED(CONFIG_PREEMPTION))
		kunit_skip(test, "without preemption, nothing runs beside a sink");
	sink->shut = true;
	sink->closing.t = &p->t;
	arm_tick(test, p, 5);
	helper_start(test, &sink->closing.helper, shut_down_when_told, sink);
	helper_first(test, &sink->closing.helper);
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(p->f->wheel, 5 * TICK));
	complete(&sink->now);
	helper_finish(test, &sink->closing.helper);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, sink->extended);
	KUNIT_EXPECT_FALSE(test, sink->closing.ret);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p->t));
}

static struct kunit_case shutdown_cases[] = {
	KUNIT_CASE(try_cancel_of_a_pending_timeout_is_one),
	KUNIT_CASE(try_cancel_of_an_idle_timeout_is_zero),
	KUNIT_CASE(try_cancel_in_its_callback_is_ebusy),
	KUNIT_CASE(try_cancel_of_a_running_and_pending_timeout_changes_nothing),
	KUNIT_CASE(try_cancel_while_a_worker_runs_it_is_ebusy),
	KUNIT_CASE(try_cancel_of_one_armed_again_while_a_worker_runs_it_is_ebusy),
	KUNIT_CASE_PARAM(try_cancel_of_a_running_periodic_is_ebusy_and_it_goes_on,
			 kind_gen_params),
	KUNIT_CASE(try_cancel_of_the_next_of_the_same_tick_is_one),
	KUNIT_CASE(try_cancel_of_a_timeout_that_waits_for_a_worker_is_one),
	KUNIT_CASE(try_cancel_in_the_batch_of_a_sink_is_ebusy),
	KUNIT_CASE(shutdown_tells_if_it_was_pending),
	KUNIT_CASE_PARAM(arm_after_shutdown_is_eshutdown, arming_gen_params),
	KUNIT_CASE_PARAM(arm_periodic_after_shutdown_is_eshutdown, kind_gen_params),
	KUNIT_CASE(arm_list_ends_before_one_that_is_shut_down),
	KUNIT_CASE(questions_and_cancels_after_shutdown_say_no),
	KUNIT_CASE(timeout_initialised_after_shutdown_can_be_armed),
	KUNIT_CASE(shutdown_gives_the_place_back),
	KUNIT_CASE(shutdown_of_a_timeout_that_waits_for_a_worker_is_true),
	KUNIT_CASE(callback_cannot_arm_itself_from_the_beginning_of_shutdown_on),
	KUNIT_CASE(shutdown_takes_out_a_timeout_that_its_callback_armed_again),
	KUNIT_CASE_PARAM(shutdown_ends_a_running_periodic, kind_gen_params),
	KUNIT_CASE(timeout_can_be_freed_after_shutdown),
	KUNIT_CASE(extension_of_a_timeout_that_is_shut_down_is_eshutdown),
	{}
};

static struct kunit_suite shutdown_suite = {
	.name = "twheel-shutdown",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = shutdown_cases,
};

module_test_suite(shutdown_suite);

MODULE_DESCRIPTION("KUnit suite of try_cancel and shutdown of a timeout");
MODULE_LICENSE("GPL");
