// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of callbacks that wait. A worker's callback may wait for other timeouts and
 * other wheels and may take long, and no other timeout or wheel waits for it.
 *
 * Lockdep is off after its first report, so the cases check for reports if it is there.
 */
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/tracepoint.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

/**
 * struct errand - a timeout for a worker, and the action of its callback
 * @t: the timeout
 * @run: called by the callback
 * @wheel: argument of @run: another wheel
 * @other: argument of @run: another timeout
 * @gate: argument of @run: a gate
 * @cancelled: result of a call that @run makes
 * @calls: number of callbacks
 * @done: completed at the end of the callback
 * @over: set when the callback ends
 */
struct errand {
	struct twheel_timeout	t;
	void			(*run)(struct errand *e);
	struct twheel		*wheel;
	struct twheel_timeout	*other;
	struct gate		*gate;
	bool			cancelled;
	atomic_t		calls;
	struct completion	done;
	bool			over;
};

static void errand_runs(struct twheel_timeout *t)
{
	struct errand *e = container_of(t, struct errand, t);

	atomic_inc(&e->calls);
	if (e->run)
		e->run(e);
	WRITE_ONCE(e->over, true);
	complete(&e->done);
}

static void errand_init(struct twheel *w, struct errand *e, void (*run)(struct errand *e))
{
	memset(e, 0, sizeof(*e));
	e->run = run;
	init_completion(&e->done);
	twheel_timeout_init(w, &e->t, errand_runs);
	twheel_use_workqueue(&e->t);
}

static struct twheel *make_wheel(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-wait", .slots = 16, .levels = 3 };
	struct twheel *w = fixture_create(test->priv, &params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	return w;
}

/* Make @n errands for a new wheel, which is the wheel of the test. */
static struct errand *errands(struct kunit *test, unsigned int n,
			      void (*run)(struct errand *e))
{
	struct errand *e = kunit_kcalloc(test, n, sizeof(*e), GFP_KERNEL);
	struct twheel *w = make_wheel(test);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	for (i = 0; i < n; i++)
		errand_init(w, &e[i], run);
	return e;
}

static void arm_errand(struct kunit *test, struct errand *e)
{
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&e->t, TICK));
}

static void expect_done(struct kunit *test, struct errand *e)
{
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&e->done, PATIENCE), 0UL);
}

/* lockdep is switched off by its first report. */
static void expect_no_report(struct kunit *test)
{
#ifdef CONFIG_LOCKDEP
	KUNIT_EXPECT_TRUE(test, debug_locks);
#endif
}

static void pass_gate(struct errand *e)
{
	gate_pass(e->gate);
}

/* Another wheel, created and destroyed in a worker's callback */

static void never_fires(struct twheel_timeout *t)
{
	WARN_ON_ONCE(true);
}

static void destroy_a_wheel(struct errand *e)
{
	struct twheel_params params = { .name = "kunit-inner", .slots = 16, .levels = 3 };
	struct twheel *w = twheel_create(&params);
	struct twheel_timeout t;

	if (IS_ERR(w))
		return;
	twheel_timeout_init(w, &t, never_fires);
	twheel_arm_after(&t, FAR);
	twheel_flush(w);
	twheel_destroy(w);
	e->cancelled = true;
}

static void worker_may_destroy_another_wheel(struct kunit *test)
{
	struct errand *e = errands(test, 1, destroy_a_wheel);

	arm_errand(test, e);
	expect_done(test, e);
	KUNIT_EXPECT_TRUE(test, e->cancelled);
	expect_no_report(test);
}

/* A worker of that wheel is running, so the call has to wait. */
static void destroy_the_other(struct errand *e)
{
	complete(&e->gate->open);
	twheel_destroy(e->wheel);
}

static void worker_may_destroy_a_wheel_whose_worker_is_running(struct kunit *test)
{
	struct errand *e = errands(test, 1, destroy_the_other);
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct errand *inner = kunit_kzalloc(test, sizeof(*inner), GFP_KERNEL);
	struct twheel_params params = { .name = "kunit-inner" };

	e->wheel = twheel_create(&params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, e->wheel);
	gate_init(gate);
	errand_init(e->wheel, inner, pass_gate);
	e->gate = gate;
	inner->gate = gate;
	arm_errand(test, inner);
	gate_wait(test, gate);
	arm_errand(test, e);
	expect_done(test, e);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(inner->over));
	expect_no_report(test);
}

/* The same with a MANUAL wheel, whose locks have lockdep classes of their own. */
static void advance_and_destroy(struct errand *e)
{
	struct twheel_params params = { .name = "kunit-inner", .clock = TWHEEL_MANUAL };
	struct twheel *w = twheel_create(&params);

	if (IS_ERR(w))
		return;
	e->cancelled = !twheel_advance(w, FAR);
	twheel_stop(w, NULL, NULL);
	twheel_destroy(w);
}

static void worker_may_advance_and_destroy_another_wheel(struct kunit *test)
{
	struct errand *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct fixture *f = manual_wheel(test, TICK, 16, 3);

	KUNIT_ASSERT_NOT_NULL(test, e);
	errand_init(f->wheel, e, advance_and_destroy);
	arm_errand(test, e);
	advance_tick(test, 1);
	expect_done(test, e);
	KUNIT_EXPECT_TRUE(test, e->cancelled);
	expect_no_report(test);
}

/* A work that waits for a timeout */

struct job {
	struct work_struct work;
	struct errand *e;
};

static void free_job_and_cancel(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);
	struct errand *e = job->e;

	kfree(job);
	e->cancelled = twheel_cancel_sync(&e->t);
	complete(&e->done);
}

/* A work may free itself. KASAN reports an access to it. */
static void work_that_has_freed_itself_may_wait_for_a_timeout(struct kunit *test)
{
	struct errand *e = errands(test, 1, NULL);
	struct workqueue_struct *wq = alloc_workqueue("twheel-kunit", 0, 0);
	struct job *job = kmalloc(sizeof(*job), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, job);
	job->e = e;
	INIT_WORK(&job->work, free_job_and_cancel);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&e->t, FAR));
	queue_work(wq, &job->work);
	destroy_workqueue(wq);
	KUNIT_EXPECT_TRUE(test, completion_done(&e->done));
	KUNIT_EXPECT_TRUE(test, e->cancelled);
}

/* Another timeout of the same wheel */

static void cancel_the_other(struct errand *e)
{
	complete(&e->gate->open);
	e->cancelled = twheel_cancel_sync(e->other);
}

static void shut_the_other_down(struct errand *e)
{
	complete(&e->gate->open);
	e->cancelled = twheel_shutdown(e->other);
}

struct waiting_call {
	const char *name;
	void (*run)(struct errand *e);
};

static const struct waiting_call waiting_calls[] = {
	{ "cancel_sync", cancel_the_other },
	{ "shutdown", shut_the_other_down },
};

static void waiting_call_desc(const struct waiting_call *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(waiting_call, waiting_calls, waiting_call_desc);

static void worker_may_wait_for_another_timeout_that_is_running(struct kunit *test)
{
	const struct waiting_call *c = test->param_value;
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct errand *e = errands(test, 2, c->run);

	KUNIT_ASSERT_NOT_NULL(test, gate);
	gate_init(gate);
	e[0].gate = gate;
	e[0].other = &e[1].t;
	e[1].gate = gate;
	e[1].run = pass_gate;
	arm_errand(test, &e[1]);
	gate_wait(test, gate);
	arm_errand(test, &e[0]);
	expect_done(test, &e[0]);
	KUNIT_EXPECT_FALSE(test, e[0].cancelled);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(e[1].over));
	expect_no_report(test);
}

static void worker_may_take_out_another_timeout_that_is_pending(struct kunit *test)
{
	const struct waiting_call *c = test->param_value;
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct errand *e = errands(test, 2, c->run);

	KUNIT_ASSERT_NOT_NULL(test, gate);
	gate_init(gate);
	e[0].gate = gate;
	e[0].other = &e[1].t;
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&e[1].t, FAR));
	arm_errand(test, &e[0]);
	expect_done(test, &e[0]);
	KUNIT_EXPECT_TRUE(test, e[0].cancelled);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&e[1].t));
	expect_no_report(test);
}

/*
 * Each of two workers cancels a timeout of the other's wheel. Nobody can wait for oneself, so
 * lockdep must not see a cycle.
 */
static void workers_of_two_wheels_may_wait_for_timeouts_of_the_other(struct kunit *test)
{
	const struct waiting_call *c = test->param_value;
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct errand *there = kunit_kcalloc(test, 2, sizeof(*there), GFP_KERNEL);
	struct twheel_params params = { .name = "kunit-there" };
	struct errand *here = errands(test, 2, c->run);
	struct twheel *w;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, gate);
	KUNIT_ASSERT_NOT_NULL(test, there);
	w = twheel_create(&params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	gate_init(gate);
	for (i = 0; i < 2; i++)
		errand_init(w, &there[i], c->run);
	here[0].gate = gate;
	here[0].other = &there[1].t;
	there[0].gate = gate;
	there[0].other = &here[1].t;
	arm_errand(test, &here[0]);
	expect_done(test, &here[0]);
	arm_errand(test, &there[0]);
	expect_done(test, &there[0]);
	expect_no_report(test);
	twheel_destroy(w);
}

/* A worker that sleeps */

struct beside_case {
	const char *name;
	bool same_wheel;
	bool worker;
};

static const struct beside_case besides[] = {
	{ "thread, same wheel", true, false },
	{ "worker, same wheel", true, true },
	{ "thread, other wheel", false, false },
	{ "worker, other wheel", false, true },
};

static void beside_desc(const struct beside_case *b, char *desc)
{
	strscpy(desc, b->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(beside, besides, beside_desc);

/**
 * struct beside - a timeout that must fire while a worker's callback waits
 * @e: the timeout whose callback waits
 * @other: the timeout that must fire
 * @gate: where the callback of @e waits
 * @wheel: wheel of @other, if it is not that of @e
 */
struct beside {
	struct errand	*e;
	struct errand	other;
	struct gate	gate;
	struct twheel	*wheel;
};

static struct beside *beside(struct kunit *test, void (*run)(struct errand *e))
{
	const struct beside_case *c = test->param_value;
	struct twheel_params params = { .name = "kunit-other" };
	struct beside *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->e = errands(test, 1, run);
	gate_init(&b->gate);
	b->e->gate = &b->gate;
	if (!c->same_wheel) {
		b->wheel = twheel_create(&params);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, b->wheel);
	}
	errand_init(b->wheel ?: f->wheel, &b->other, NULL);
	if (!c->worker)
		twheel_timeout_init(b->wheel ?: f->wheel, &b->other.t, errand_runs);
	return b;
}

static void sleeping_worker_holds_up_no_other_timeout(struct kunit *test)
{
	struct beside *b = beside(test, pass_gate);

	arm_errand(test, b->e);
	gate_wait(test, &b->gate);
	arm_errand(test, &b->other);
	expect_done(test, &b->other);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(b->e->over));
	complete_all(&b->gate.open);
	expect_done(test, b->e);
	twheel_destroy(b->wheel);
}

/* The callback arms the other timeout and waits until that has fired. */
static void wait_for_the_other(struct errand *e)
{
	struct errand *other = container_of(e->other, struct errand, t);

	twheel_arm_after(e->other, TICK);
	e->cancelled = !wait_for_completion_timeout(&other->done, PATIENCE);
}

static void worker_may_wait_until_another_timeout_fires(struct kunit *test)
{
	struct beside *b = beside(test, wait_for_the_other);

	b->e->other = &b->other.t;
	arm_errand(test, b->e);
	expect_done(test, b->e);
	KUNIT_EXPECT_FALSE(test, b->e->cancelled);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&b->other.calls));
	twheel_destroy(b->wheel);
}

/* Under a scheduler lock: the tracepoint sched_waking fires with the lock of a task held */

#ifdef CONFIG_TRACEPOINTS

#define NR_ARMED	16

/**
 * struct waking - timeouts that are armed whenever a task is woken
 * @t: the timeouts
 * @point: the tracepoint
 * @armed: how many arms succeeded
 * @fired: how many have fired
 */
struct waking {
	struct twheel_timeout	t[NR_ARMED];
	struct tracepoint	*point;
	atomic_t		armed;
	atomic_t		fired;
};

/* Tests run one at a time, so there is one instance. */
static struct waking *waking;

static void waking_fires(struct twheel_timeout *t)
{
	atomic_inc(&waking->fired);
}

static void arm_at_wakeup(void *data, struct task_struct *p)
{
	struct waking *w = data;
	unsigned int i;

	for (i = 0; i < NR_ARMED; i++)
		if (!twheel_arm_after(&w->t[i], i % 4 * TICK))
			atomic_inc(&w->armed);
}

static void find_point(struct tracepoint *tp, void *data)
{
	struct waking *w = data;

	if (!strcmp(tp->name, "sched_waking"))
		w->point = tp;
}

/* If an arm or the hrtimer woke a task while it holds the shard's lock, it could deadlock. */
static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	struct twheel *w = make_wheel(test);
	unsigned int i;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "on PREEMPT_RT, spinlocks sleep");
	waking = kunit_kzalloc(test, sizeof(*waking), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, waking);
	for_each_kernel_tracepoint(find_point, waking);
	KUNIT_ASSERT_NOT_NULL(test, waking->point);
	for (i = 0; i < NR_ARMED; i++) {
		twheel_timeout_init(w, &waking->t[i], waking_fires);
		/* The lock of a worker pool may be held, too. */
		if (i % 2)
			twheel_use_workqueue(&waking->t[i]);
	}
	KUNIT_ASSERT_EQ(test, 0, tracepoint_probe_register(waking->point, arm_at_wakeup, waking));
	for (i = 0; i < 1000 && atomic_read(&waking->fired) < 100; i++)
		msleep(20);
	tracepoint_probe_unregister(waking->point, arm_at_wakeup, waking);
	tracepoint_synchronize_unregister();
	for (i = 0; i < NR_ARMED; i++)
		twheel_shutdown(&waking->t[i]);
	KUNIT_EXPECT_GE(test, atomic_read(&waking->fired), 100);
	KUNIT_EXPECT_GE(test, atomic_read(&waking->armed), atomic_read(&waking->fired));
	expect_no_report(test);
}

#else

static void arm_with_a_lock_of_the_scheduler_held_wakes_no_task(struct kunit *test)
{
	kunit_skip(test, "the kernel has no tracepoints");
}

#endif

/*
 * Limit of the calls of a callback that arms itself: a wait without end must not hang the
 * suite.
 */
#define VERY_OFTEN	1000

static void arm_again_and_linger(struct errand *e)
{
	msleep(20);
	if (atomic_read(&e->calls) < VERY_OFTEN)
		twheel_arm_after(&e->t, 0);
	msleep(20);
}

static void cancel_sync_ends_a_worker_that_arms_itself_in_each_call(struct kunit *test)
{
	struct errand *e = errands(test, 1, arm_again_and_linger);

	arm_errand(test, e);
	expect_done(test, e);
	twheel_cancel_sync(&e->t);
	KUNIT_EXPECT_LT(test, atomic_read(&e->calls), VERY_OFTEN);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&e->t));
	/* The timeout can be used again afterwards. */
	reinit_completion(&e->done);
	arm_errand(test, e);
	expect_done(test, e);
	twheel_shutdown(&e->t);
}

/**
 * struct tread - a timeout of the thread that arms itself, and a helper that cancels it
 * @t: the timeout
 * @wheel: its wheel
 * @caller: task that runs its callbacks
 * @calls: number of callbacks
 * @begun: completed by the first callback
 * @helper: thread that calls twheel_cancel_sync()
 */
struct tread {
	struct twheel_timeout	t;
	struct twheel		*wheel;
	struct task_struct	*caller;
	unsigned int		calls;
	struct completion	begun;
	struct helper		helper;
};

static struct tread *tread_begins(struct twheel_timeout *t)
{
	struct tread *tread = container_of(t, struct tread, t);

	if (!tread->calls++)
		complete(&tread->begun);
	return tread;
}

static void tread_fires(struct twheel_timeout *t)
{
	struct tread *tread = tread_begins(t);

	twheel_arm(t, twheel_now(tread->wheel) + TICK);
}

static struct twheel_timeout *take_tread(struct list_head *expired)
{
	struct twheel_timeout *t = list_first_entry(expired, struct twheel_timeout, entry);

	list_del(&t->entry);
	tread_begins(t);
	return t;
}

static void extend_tread(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t = take_tread(expired);

	if (twheel_extend(t, now_ns + TICK, 0))
		twheel_accept(t);
}

static void extend_and_move_tread(void *sink_data, struct list_head *expired, unsigned int nr,
				  u64 now_ns)
{
	struct twheel_timeout *t = take_tread(expired);

	if (twheel_extend(t, now_ns + 5 * TICK, 0))
		twheel_accept(t);
	twheel_mod(t, now_ns + TICK);
}

static void arm_tread(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t = take_tread(expired);

	twheel_accept(t);
	twheel_arm(t, now_ns + TICK);
}

/**
 * struct treadmill - how a timeout becomes due again and again
 * @name: for the log
 * @fn: its callback, or NULL
 * @sink: sink of the wheel, or NULL
 * @back: the clock goes back after each advance
 */
struct treadmill {
	const char	*name;
	void		(*fn)(struct twheel_timeout *t);
	void		(*sink)(void *sink_data, struct list_head *expired, unsigned int nr,
				u64 now_ns);
	bool		back;
};

static const struct treadmill treadmills[] = {
	{ "its callback arms it", .fn = tread_fires },
	{ "its callback arms it, clock goes back", .fn = tread_fires, .back = true },
	{ "the sink extends it", .sink = extend_tread },
	{ "the sink extends it, clock goes back", .sink = extend_tread, .back = true },
	{ "the sink extends and moves it", .sink = extend_and_move_tread },
	{ "the sink accepts and arms it", .sink = arm_tread },
};

static void treadmill_desc(const struct treadmill *mill, char *desc)
{
	strscpy(desc, mill->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(treadmill, treadmills, treadmill_desc);

/* With its own priority the caller keeps the CPU when this task is woken. */
static void cancel_tread(void *arg)
{
	struct tread *tread = arg;

	wait_for_completion(&tread->begun);
	sched_set_fifo(tread->caller);
	twheel_cancel_sync(&tread->t);
}

/* Start the helper that cancels the timeout as soon as it has been called once. */
static void tread_start(struct kunit *test, struct tread *tread, struct twheel *w,
			void (*fn)(struct twheel_timeout *t))
{
	KUNIT_ASSERT_NOT_NULL(test, tread);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	tread->wheel = w;
	tread->caller = current;
	init_completion(&tread->begun);
	twheel_timeout_init(w, &tread->t, fn);
	helper_start(test, &tread->helper, cancel_tread, tread);
	helper_first(test, &tread->helper);
}

/*
 * While the callback or the sink runs, a task waits in twheel_cancel_sync(). It gets no CPU
 * before the timeout is due again, and again. Nothing is called meanwhile.
 */
static void cancel_sync_ends_a_timeout_that_is_due_before_it_wakes(struct kunit *test)
{
	const struct treadmill *mill = test->param_value;
	struct twheel_params params = {
		.name = "kunit-wait",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = 8,
		.levels = 2,
		.sink = mill->sink,
	};
	struct tread *tread = kunit_kzalloc(test, sizeof(*tread), GFP_KERNEL);
	struct twheel *w = fixture_create(test->priv, &params);
	unsigned int i, failed = 0;

	if (!IS_ENABLED(CONFIG_PREEMPTION))
		kunit_skip(test, "the helper waits only after the callback");
	tread_start(test, tread, w, mill->fn);
	failed += twheel_arm(&tread->t, TICK) != 0;
	for (i = 1; i <= 10; i++) {
		failed += twheel_advance(w, 10 * i * TICK) != 0;
		if (mill->back)
			failed += twheel_advance(w, (10 * i - 1) * TICK) != 0;
	}
	sched_set_normal(current, 0);
	helper_finish(test, &tread->helper);
	KUNIT_EXPECT_EQ(test, 0U, failed);
	KUNIT_EXPECT_EQ(test, 1U, tread->calls);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&tread->t));
	/* The timeout can be used again afterwards. */
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&tread->t, 101 * TICK));
	advance_tick(test, 101);
	KUNIT_EXPECT_EQ(test, 2U, tread->calls);
	twheel_shutdown(&tread->t);
}

/* Extend the timeout of a struct tread, and accept the others. */
static void extend_tread_only(void *sink_data, struct list_head *expired, unsigned int nr,
			      u64 now_ns)
{
	struct tread *tread = sink_data;
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		if (t == &tread->t)
			tread_begins(t);
		if (t != &tread->t || twheel_extend(t, now_ns + TICK, 0))
			twheel_accept(t);
	}
}

/* A timeout that is left to the task that cancels it is in no batch. */
static void timeout_that_is_being_cancelled_counts_in_no_batch(struct kunit *test)
{
	struct tread *tread = kunit_kzalloc(test, sizeof(*tread), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-wait",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.sink = extend_tread_only,
		.sink_data = tread,
	};
	struct twheel *w = fixture_create(test->priv, &params);
	struct twheel_counters stats = { };
	struct twheel_timeout other;

	if (!IS_ENABLED(CONFIG_PREEMPTION))
		kunit_skip(test, "the helper waits only after the callback");
	tread_start(test, tread, w, NULL);
	twheel_timeout_init(w, &other, NULL);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&tread->t, TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(w, TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&other, 2 * TICK));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(w, 2 * TICK));
	sched_set_normal(current, 0);
	helper_finish(test, &tread->helper);
	twheel_shutdown(&other);
	twheel_stats(w, &stats);
	KUNIT_EXPECT_EQ(test, 1U, tread->calls);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.fired);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.extended);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.largest_batch);
}

#define NR_RACED	64

/**
 * struct accepting - timeouts that a sink accepts while a helper cancels them
 * @t: the timeouts
 * @over: the helper must return
 * @helper: thread that calls twheel_cancel_sync()
 */
struct accepting {
	struct twheel_timeout	t[NR_RACED];
	bool			over;
	struct helper		helper;
};

static void accept_slowly(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		udelay(5);
		twheel_accept(t);
	}
}

static void cancel_raced(void *arg)
{
	struct accepting *a = arg;
	unsigned int i;

	for (i = 0; !READ_ONCE(a->over); i = (i + 1) % NR_RACED) {
		twheel_cancel_sync(&a->t[i]);
		cond_resched();
	}
}

/* twheel_accept() has no lock. On KCSAN, it must not race with the flags of a task that waits. */
static void accept_while_a_task_cancels_is_safe(struct kunit *test)
{
	struct accepting *a = kunit_kzalloc(test, sizeof(*a), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-wait",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.sink = accept_slowly,
		.max_pending = NR_RACED,
	};
	struct twheel *w = fixture_create(test->priv, &params);
	u64 tick = 0, armed = 0;
	unsigned long end;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	for (i = 0; i < NR_RACED; i++)
		twheel_timeout_init(w, &a->t[i], NULL);
	helper_start(test, &a->helper, cancel_raced, a);
	end = jiffies + (IS_ENABLED(CONFIG_KCSAN) ? 5 * HZ : HZ / 4);
	do {
		tick++;
		for (i = 0; i < NR_RACED; i++)
			armed += !twheel_arm(&a->t[i], tick * TICK);
		twheel_advance(w, tick * TICK);
		cond_resched();
	} while (time_before(jiffies, end));
	WRITE_ONCE(a->over, true);
	helper_finish(test, &a->helper);
	for (i = 0; i < NR_RACED; i++)
		twheel_shutdown(&a->t[i]);
	KUNIT_EXPECT_GT(test, armed, 0ULL);
	expect_no_report(test);
}

static struct kunit_case wait_cases[] = {
	KUNIT_CASE(cancel_sync_ends_a_worker_that_arms_itself_in_each_call),
	KUNIT_CASE_PARAM(cancel_sync_ends_a_timeout_that_is_due_before_it_wakes,
			 treadmill_gen_params),
	KUNIT_CASE(timeout_that_is_being_cancelled_counts_in_no_batch),
	KUNIT_CASE(accept_while_a_task_cancels_is_safe),
	KUNIT_CASE(worker_may_destroy_another_wheel),
	KUNIT_CASE(worker_may_destroy_a_wheel_whose_worker_is_running),
	KUNIT_CASE(worker_may_advance_and_destroy_another_wheel),
	KUNIT_CASE_PARAM(worker_may_wait_for_another_timeout_that_is_running,
			 waiting_call_gen_params),
	KUNIT_CASE_PARAM(worker_may_take_out_another_timeout_that_is_pending,
			 waiting_call_gen_params),
	KUNIT_CASE_PARAM(workers_of_two_wheels_may_wait_for_timeouts_of_the_other,
			 waiting_call_gen_params),
	KUNIT_CASE(work_that_has_freed_itself_may_wait_for_a_timeout),
	KUNIT_CASE_PARAM(sleeping_worker_holds_up_no_other_timeout, beside_gen_params),
	KUNIT_CASE_PARAM(worker_may_wait_until_another_timeout_fires, beside_gen_params),
	KUNIT_CASE(arm_with_a_lock_of_the_scheduler_held_wakes_no_task),
	{}
};

static struct kunit_suite wait_suite = {
	.name = "twheel-wait",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = wait_cases,
};

module_test_suite(wait_suite);

MODULE_DESCRIPTION("KUnit suite of callbacks that wait");
MODULE_LICENSE("GPL");
