// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of timeouts whose callbacks run on a workqueue.
 *
 * The wheel is on the MANUAL clock, so the test decides which timeouts are due. The workers
 * run at their own pace. A callback can wait until the test releases it, so the test knows which
 * timeouts wait for a worker. No result depends on the speed of the workers.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define NEVER		((u64)S64_MAX)

/*
 * Maximum number of workers that run callbacks of one shard at once. If their callbacks
 * wait, further timeouts wait for a worker.
 */
#define NR_WORKERS	4

/**
 * struct job - a timeout whose callback can wait
 * @p: the timeout; a one-shot uses p.t alone
 * @began: completed when the callback begins
 * @go: completed to release the callback
 * @stays: the callback waits for @go
 * @lasts_ms: duration of the callback
 * @inside: number of its callbacks that run now
 * @fired: number of times that the callback has begun
 * @missed: missed periods that the last call reported
 * @by_worker: the last callback ran in a worker
 * @at_once: two of its callbacks ran at the same time
 * @done: set when the callback ends
 * @armed_again: number of times that it has armed itself
 * @handed_back: number of times that twheel_stop() handed it back
 * @then: called at the begin of its callback, or NULL
 */
struct job {
	struct twheel_periodic	p;
	struct completion	began;
	struct completion	go;
	bool			stays;
	unsigned int		lasts_ms;
	atomic_t		inside;
	atomic_t		fired;
	u64			missed;
	bool			by_worker;
	bool			at_once;
	bool			done;
	unsigned int		armed_again;
	unsigned int		handed_back;
	void			(*then)(struct job *j);
};

static void job_runs(struct job *j)
{
	if (atomic_inc_return(&j->inside) > 1)
		WRITE_ONCE(j->at_once, true);
	WRITE_ONCE(j->done, false);
	WRITE_ONCE(j->by_worker, current->flags & PF_WQ_WORKER);
	atomic_inc(&j->fired);
	if (j->then)
		j->then(j);
	complete(&j->began);
	if (READ_ONCE(j->stays))
		wait_for_completion_timeout(&j->go, PATIENCE);
	if (j->lasts_ms)
		msleep(j->lasts_ms);
	atomic_dec(&j->inside);
	WRITE_ONCE(j->done, true);
}

static void job_fires(struct twheel_timeout *t)
{
	job_runs(container_of(t, struct job, p.t));
}

static void job_comes_round(struct twheel_periodic *p)
{
	struct job *j = container_of(p, struct job, p);

	j->missed = p->missed;
	job_runs(j);
}

static struct job *make_jobs(struct kunit *test, unsigned int n)
{
	struct job *j = kunit_kcalloc(test, n, sizeof(*j), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, j);
	for (i = 0; i < n; i++) {
		init_completion(&j[i].began);
		init_completion(&j[i].go);
	}
	return j;
}

static struct job *jobs_of(struct kunit *test, struct twheel *w, unsigned int n)
{
	struct job *j = make_jobs(test, n);
	unsigned int i;

	for (i = 0; i < n; i++) {
		twheel_timeout_init(w, &j[i].p.t, job_fires);
		twheel_use_workqueue(&j[i].p.t);
	}
	return j;
}

static struct job *limited_jobs(struct kunit *test, unsigned int n, unsigned int max_pending)
{
	struct twheel_params params = {
		.clock = TWHEEL_MANUAL, .tick_ns = TICK, .max_pending = max_pending,
	};
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	return jobs_of(test, f->wheel, n);
}

static struct job *jobs(struct kunit *test, unsigned int n)
{
	return limited_jobs(test, n, 0);
}

static struct job *periodic_job(struct kunit *test, enum twheel_kind kind)
{
	struct fixture *f = manual_wheel(test, TICK, 16, 3);
	struct job *j = make_jobs(test, 1);

	twheel_periodic_init(f->wheel, &j->p, job_comes_round, kind);
	twheel_use_workqueue(&j->p.t);
	return j;
}

static void arm_job(struct kunit *test, struct job *j, u64 tick)
{
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&j->p.t, tick * TICK));
}

static void expect_begins(struct kunit *test, struct job *j)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&j->began, PATIENCE), 0UL);
}

static void let_go(struct job *j)
{
	WRITE_ONCE(j->stays, false);
	complete(&j->go);
}

/* The callback has ended, and so has everything that its end causes. */
static void expect_ends(struct kunit *test, struct job *j)
{
	struct fixture *f = test->priv;

	let_go(j);
	twheel_flush(f->wheel);
	KUNIT_ASSERT_TRUE(test, READ_ONCE(j->done));
}

/* All workers are busy with the first timeouts of @j; the next @n are due and wait for one. */
static struct job *keep_workers_busy(struct kunit *test, struct job *j, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < NR_WORKERS; i++) {
		j[i].stays = true;
		arm_job(test, &j[i], 1);
	}
	advance_tick(test, 1);
	for (i = 0; i < NR_WORKERS; i++)
		expect_begins(test, &j[i]);
	for (; i < NR_WORKERS + n; i++)
		arm_job(test, &j[i], 2);
	advance_tick(test, 2);
	return j;
}

static struct job *jobs_behind_busy_workers(struct kunit *test, unsigned int n)
{
	return keep_workers_busy(test, jobs(test, NR_WORKERS + n), n);
}

static void free_workers(struct kunit *test, struct job *j)
{
	unsigned int i;

	for (i = 0; i < NR_WORKERS; i++)
		let_go(&j[i]);
}

/* Where callbacks run */

static const enum twheel_clock clocks[] = { TWHEEL_MANUAL, TWHEEL_MONOTONIC };

static void clock_desc(const enum twheel_clock *clock, char *desc)
{
	strscpy(desc, *clock == TWHEEL_MANUAL ? "manual" : "monotonic", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(clock, clocks, clock_desc);

static struct job *fired_job(struct kunit *test, bool worker)
{
	const enum twheel_clock *clock = test->param_value;
	struct twheel_params params = { .clock = *clock, .tick_ns = TICK };
	struct fixture *f = test->priv;
	struct job *j;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	j = jobs_of(test, f->wheel, 1);
	if (!worker)
		twheel_timeout_init(f->wheel, &j->p.t, job_fires);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&j->p.t, TICK));
	if (*clock == TWHEEL_MANUAL)
		advance_tick(test, 1);
	expect_begins(test, j);
	return j;
}

static void callback_runs_in_a_worker_if_asked_for(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, READ_ONCE(fired_job(test, true)->by_worker));
}

static void callback_runs_in_no_worker_otherwise(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, READ_ONCE(fired_job(test, false)->by_worker));
}

static void several_callbacks_run_at_once(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 0);
	unsigned int i;

	for (i = 0; i < NR_WORKERS; i++)
		KUNIT_EXPECT_EQ(test, 1, atomic_read(&j[i].inside));
	free_workers(test, j);
}

static void slow_callback_holds_no_other(struct kunit *test)
{
	struct job *j = jobs(test, 20);
	unsigned int i;

	j[0].stays = true;
	for (i = 0; i < 20; i++)
		arm_job(test, &j[i], 1 + i / 10);
	advance_tick(test, 1);
	advance_tick(test, 2);
	for (i = 0; i < 20; i++)
		expect_begins(test, &j[i]);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(j[0].done));
	let_go(&j[0]);
}

static void busy_workers_do_not_hold_the_thread(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 1);
	struct probe *p = probes(test, 1);

	arm_tick(test, p, 3);
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 1U, p->fired);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&j[NR_WORKERS].fired));
	free_workers(test, j);
}

static void many_due_at_once_run_once_each(struct kunit *test)
{
	enum { NR = 1000 };
	struct job *j = jobs(test, NR);
	unsigned int i;

	for (i = 0; i < NR; i++)
		arm_job(test, &j[i], 1);
	advance_tick(test, 1);
	for (i = 0; i < NR; i++)
		expect_begins(test, &j[i]);
	advance_tick(test, 2);
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 1, atomic_read(&j[i].fired));
}

struct mayfly {
	struct twheel_timeout	t;
	struct completion	*freed;
};

static void mayfly_fires(struct twheel_timeout *t)
{
	struct mayfly *m = container_of(t, struct mayfly, t);
	struct completion *freed = m->freed;

	kfree(m);
	complete(freed);
}

static void callback_can_free_its_timeout(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 16, 3);
	struct completion *freed = kunit_kzalloc(test, sizeof(*freed), GFP_KERNEL);
	struct mayfly *m = kzalloc(sizeof(*m), GFP_KERNEL);

	init_completion(freed);
	m->freed = freed;
	twheel_timeout_init(f->wheel, &m->t, mayfly_fires);
	twheel_use_workqueue(&m->t);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&m->t, TICK));
	advance_tick(test, 1);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(freed, PATIENCE), 0UL);
}

/* Timeouts that wait for a worker */

static void waiting_timeout_is_pending(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 1);
	struct fixture *f = test->priv;
	struct twheel_position pos;

	KUNIT_EXPECT_TRUE(test, twheel_pending(&j[NR_WORKERS].p.t));
	KUNIT_EXPECT_FALSE(test, twheel_position(&j[NR_WORKERS].p.t, &pos));
	KUNIT_EXPECT_EQ(test, 0ULL, twheel_remaining_ns(&j[NR_WORKERS].p.t));
	KUNIT_EXPECT_EQ(test, 2 * TICK, twheel_next_expiry(f->wheel));
	free_workers(test, j);
	expect_begins(test, &j[NR_WORKERS]);
}

static void waiting_timeout_can_be_cancelled(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 2);

	KUNIT_EXPECT_TRUE(test, twheel_cancel(&j[NR_WORKERS].p.t));
	free_workers(test, j);
	expect_begins(test, &j[NR_WORKERS + 1]);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&j[NR_WORKERS].fired));
}

static void waiting_timeout_can_be_cancelled_with_sync(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 1);

	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&j[NR_WORKERS].p.t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&j[NR_WORKERS].p.t));
	free_workers(test, j);
}

static void waiting_timeout_can_be_moved(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 2);

	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&j[NR_WORKERS].p.t, 9 * TICK));
	free_workers(test, j);
	expect_begins(test, &j[NR_WORKERS + 1]);
	advance_tick(test, 8);
	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&j[NR_WORKERS].fired));
	advance_tick(test, 9);
	expect_begins(test, &j[NR_WORKERS]);
}

static void waiting_timeout_cannot_be_armed_again(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 1);

	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm(&j[NR_WORKERS].p.t, 9 * TICK));
	free_workers(test, j);
	expect_begins(test, &j[NR_WORKERS]);
}

static unsigned int count_handed_back(struct list_head *unprocessed)
{
	struct twheel_timeout *t;
	unsigned int nr = 0;

	list_for_each_entry(t, unprocessed, entry) {
		container_of(t, struct job, p.t)->handed_back++;
		nr++;
	}
	return nr;
}

/*
 * Wait until the shard has been stopped. While its callback runs, a timeout cannot move to
 * another shard, so the result of an arm tells the state of this shard.
 */
static void stay_until_stopped(struct job *j)
{
	unsigned long end = jiffies + PATIENCE;

	complete(&j->began);
	while (!twheel_arm(&j->p.t, NEVER) && time_before(jiffies, end)) {
		twheel_cancel(&j->p.t);
		msleep(20);
	}
}

static void stop_hands_back_what_waits(struct kunit *test)
{
	struct job *j = jobs(test, NR_WORKERS + 2);
	struct fixture *f = test->priv;
	LIST_HEAD(unprocessed);
	unsigned int i;

	for (i = 0; i < NR_WORKERS + 2; i++) {
		j[i].then = stay_until_stopped;
		arm_job(test, &j[i], i < NR_WORKERS ? 1 : 2);
	}
	advance_tick(test, 1);
	for (i = 0; i < NR_WORKERS; i++)
		expect_begins(test, &j[i]);
	advance_tick(test, 2);
	twheel_stop(f->wheel, collect, &unprocessed);
	for (i = 0; i < NR_WORKERS; i++)
		KUNIT_EXPECT_TRUE(test, READ_ONCE(j[i].done));
	KUNIT_EXPECT_EQ(test, 2U, count_handed_back(&unprocessed));
	for (; i < NR_WORKERS + 2; i++) {
		KUNIT_EXPECT_EQ(test, 0, atomic_read(&j[i].fired));
		KUNIT_EXPECT_EQ(test, 1U, j[i].handed_back);
	}
}

static void place_is_kept_until_a_worker_takes_it(struct kunit *test)
{
	struct job *j = limited_jobs(test, 2 * NR_WORKERS + 1, NR_WORKERS);
	struct job *one_more = &j[2 * NR_WORKERS];
	unsigned int i;

	keep_workers_busy(test, j, NR_WORKERS);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&one_more->p.t, NEVER));
	free_workers(test, j);
	for (i = NR_WORKERS; i < 2 * NR_WORKERS; i++)
		expect_begins(test, &j[i]);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&one_more->p.t, NEVER));
}

/* Calls that wait for a worker */

static struct job *running_job(struct kunit *test)
{
	struct job *j = jobs(test, 1);

	j->lasts_ms = 100;
	arm_job(test, j, 1);
	advance_tick(test, 1);
	expect_begins(test, j);
	return j;
}

static void cancel_sync_waits_for_the_worker(struct kunit *test)
{
	struct job *j = running_job(test);

	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&j->p.t));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(j->done));
}

static void flush_waits_for_the_worker(struct kunit *test)
{
	struct job *j = running_job(test);

	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(j->done));
}

static void stop_waits_for_the_worker(struct kunit *test)
{
	struct job *j = running_job(test);
	LIST_HEAD(unprocessed);

	twheel_stop(((struct fixture *)test->priv)->wheel, collect, &unprocessed);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(j->done));
	KUNIT_EXPECT_TRUE(test, list_empty(&unprocessed));
}

static void destroy_waits_for_the_worker(struct kunit *test)
{
	struct job *j = running_job(test);
	struct fixture *f = test->priv;

	twheel_destroy(f->wheel);
	f->wheel = NULL;
	KUNIT_EXPECT_TRUE(test, READ_ONCE(j->done));
}

static void cancel_does_not_wait_for_the_worker(struct kunit *test)
{
	struct job *j = jobs(test, 1);

	j->stays = true;
	arm_job(test, j, 1);
	advance_tick(test, 1);
	expect_begins(test, j);
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&j->p.t));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(j->done));
	let_go(j);
}

/* One callback at a time */

static void rearm(struct job *j)
{
	twheel_arm(&j->p.t, 0);
}

/* A worker has called @other since @j was armed; it would have called @j too. */
static void expect_waits_for_itself(struct kunit *test, struct job *j, struct job *other)
{
	expect_begins(test, other);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&j->p.t));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
	j->then = NULL;
	let_go(j);
	expect_begins(test, j);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&j->fired));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(j->at_once));
}

static void callback_that_rearms_itself_is_not_run_twice_at_once(struct kunit *test)
{
	struct job *j = jobs(test, 2);

	j->stays = true;
	j->then = rearm;
	arm_job(test, j, 1);
	advance_tick(test, 1);
	expect_begins(test, j);
	arm_job(test, &j[1], 2);
	advance_tick(test, 2);
	expect_waits_for_itself(test, j, &j[1]);
}

static void timeout_armed_by_another_while_it_runs_is_not_run_twice_at_once(struct kunit *test)
{
	struct job *j = jobs(test, 2);

	j->stays = true;
	arm_job(test, j, 1);
	advance_tick(test, 1);
	expect_begins(test, j);
	arm_job(test, j, 2);
	arm_job(test, &j[1], 2);
	advance_tick(test, 2);
	expect_waits_for_itself(test, j, &j[1]);
}

static void rearmed_timeout_can_be_cancelled_while_it_runs(struct kunit *test)
{
	struct job *j = jobs(test, 1);

	j->stays = true;
	j->then = rearm;
	arm_job(test, j, 1);
	advance_tick(test, 1);
	expect_begins(test, j);
	advance_tick(test, 2);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&j->p.t));
	expect_ends(test, j);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
}

/* Periodic */

static struct job *first_period(struct kunit *test, enum twheel_kind kind, u32 repeat)
{
	struct job *j = periodic_job(test, kind);

	j->stays = true;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&j->p, 10 * TICK, 10 * TICK, repeat));
	advance_tick(test, 10);
	expect_begins(test, j);
	KUNIT_ASSERT_TRUE(test, READ_ONCE(j->by_worker));
	return j;
}

static void fixed_rate_counts_what_a_slow_worker_misses(struct kunit *test)
{
	struct job *j = first_period(test, TWHEEL_FIXED_RATE, 0);

	advance_tick(test, 55);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
	let_go(j);
	expect_begins(test, j);
	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_EQ(test, 3ULL, j->missed);
	KUNIT_EXPECT_EQ(test, 50 * TICK, j->p.expires);
	KUNIT_EXPECT_EQ(test, 60 * TICK, j->p.t.expires);
	KUNIT_EXPECT_FALSE(test, j->at_once);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&j->p.t));
}

static void fixed_delay_counts_from_the_end_of_the_worker(struct kunit *test)
{
	struct job *j = first_period(test, TWHEEL_FIXED_DELAY, 0);

	advance_tick(test, 55);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&j->p.t));
	expect_ends(test, j);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&j->p.t));
	KUNIT_EXPECT_EQ(test, 10 * TICK, twheel_remaining_ns(&j->p.t));
	advance_tick(test, 64);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
	advance_tick(test, 65);
	expect_begins(test, j);
	KUNIT_EXPECT_EQ(test, 0ULL, j->missed);
	twheel_cancel_sync(&j->p.t);
}

static void repeat_count_ends_it(struct kunit *test)
{
	struct job *j = first_period(test, TWHEEL_FIXED_RATE, 3);

	expect_ends(test, j);
	advance_tick(test, 20);
	expect_begins(test, j);
	advance_tick(test, 30);
	expect_begins(test, j);
	twheel_flush(((struct fixture *)test->priv)->wheel);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&j->p.t));
	KUNIT_EXPECT_EQ(test, 0U, j->p.repeat);
}

static const enum twheel_kind kinds[] = { TWHEEL_FIXED_RATE, TWHEEL_FIXED_DELAY };

static void kind_desc(const enum twheel_kind *kind, char *desc)
{
	strscpy(desc, *kind == TWHEEL_FIXED_RATE ? "fixed rate" : "fixed delay",
		KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

static void periodic_cancelled_while_it_runs_ends(struct kunit *test)
{
	struct job *j = first_period(test, *(enum twheel_kind *)test->param_value, 0);

	KUNIT_EXPECT_TRUE(test, twheel_cancel(&j->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&j->p.t));
	expect_ends(test, j);
	KUNIT_EXPECT_FALSE(test, twheel_pending(&j->p.t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
}

static void periodic_running_is_handed_back_after_its_run(struct kunit *test)
{
	struct job *j = periodic_job(test, *(enum twheel_kind *)test->param_value);
	struct fixture *f = test->priv;
	LIST_HEAD(unprocessed);

	j->lasts_ms = 100;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&j->p, 10 * TICK, 10 * TICK, 0));
	advance_tick(test, 10);
	expect_begins(test, j);
	twheel_stop(f->wheel, collect, &unprocessed);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(j->done));
	KUNIT_EXPECT_PTR_EQ(test, &j->p.t,
			    list_first_entry_or_null(&unprocessed, struct twheel_timeout, entry));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&j->fired));
}

/* Stop while all timeouts fire and arm themselves again */

static void rearm_soon(struct job *j)
{
	j->armed_again += !twheel_arm_after(&j->p.t, TICK);
}

static void stop_under_load_loses_none(struct kunit *test)
{
	enum { NR = 200 };
	struct twheel_params params = { .clock = TWHEEL_MONOTONIC, .tick_ns = TICK };
	struct fixture *f = test->priv;
	LIST_HEAD(unprocessed);
	struct job *j;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	j = jobs_of(test, f->wheel, NR);
	for (i = 0; i < NR; i++) {
		j[i].then = rearm_soon;
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_after(&j[i].p.t, TICK));
	}
	for (i = 0; i < NR; i++)
		expect_begins(test, &j[i]);
	twheel_stop(f->wheel, collect, &unprocessed);
	count_handed_back(&unprocessed);
	for (i = 0; i < NR; i++) {
		KUNIT_ASSERT_EQ(test, 1 + j[i].armed_again,
				atomic_read(&j[i].fired) + j[i].handed_back);
		KUNIT_ASSERT_EQ(test, 0, atomic_read(&j[i].inside));
		KUNIT_ASSERT_FALSE(test, j[i].at_once);
		KUNIT_ASSERT_FALSE(test, twheel_pending(&j[i].p.t));
	}
}

/*
 * Workers, while the kernel starts no thread
 *
 * The kernel runs callbacks that sleep in as many threads as it needs, and starts threads
 * one at a time. A thread of real-time priority keeps the task that starts them from running
 * for BUSY_MS. That is far longer than a workqueue with a rescuer waits for a new thread.
 */
#define BUSY_MS		300
#define NR_WHEELS	16
#define NR_SLEEPERS	(NR_WHEELS * NR_WORKERS)

/**
 * struct hog - keeps the task that starts the kernel's threads from running
 * @helper: thread that does it
 * @busy: completed when the task cannot run
 * @cpu: CPU on which they are
 * @usual: CPUs on which the task may run otherwise
 */
struct hog {
	struct helper		helper;
	struct completion	busy;
	unsigned int		cpu;
	cpumask_t		usual;
};

static void keep_busy(void *arg)
{
	struct task_struct *starter;
	struct hog *hog = arg;
	unsigned long end;

	/* The parent of every kernel thread. */
	rcu_read_lock();
	starter = get_task_struct(rcu_dereference(current->real_parent));
	rcu_read_unlock();
	migrate_to(hog->cpu);
	sched_set_fifo(current);
	/* Bind it only while it cannot run: in some kernels, its children inherit the CPU. */
	cpumask_copy(&hog->usual, &starter->cpus_mask);
	set_cpus_allowed_ptr(starter, cpumask_of(hog->cpu));
	complete(&hog->busy);
	for (end = jiffies + msecs_to_jiffies(BUSY_MS); time_before(jiffies, end);)
		cpu_relax();
	set_cpus_allowed_ptr(starter, &hog->usual);
	sched_set_normal(current, 0);
	put_task_struct(starter);
}

/* In the thread, on a spare CPU: wait until the worker of @p->data has begun. */
static void spin_until_job_begins(struct probe *p)
{
	struct job *j = p->data;
	unsigned long end = jiffies + PATIENCE / 3;

	while (!completion_done(&j->began) && time_before(jiffies, end))
		cpu_relax();
	p->ret = completion_done(&j->began);
}

static void worker_begins_during_the_callbacks_of_its_batch(struct kunit *test)
{
	struct job *j;
	struct probe *p;

	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "the worker needs a CPU of its own");
	j = jobs(test, 1);
	p = probes(test, 1);
	p->then = spin_until_job_begins;
	p->data = j;
	arm_job(test, j, 1);
	arm_tick(test, p, 1);
	advance_tick(test, 1);
	KUNIT_EXPECT_TRUE(test, p->ret);
	expect_begins(test, j);
}

/* In the thread, on a spare CPU: give a worker time to begin, then move the timeout. */
static void move_the_job(struct probe *p)
{
	struct job *j = p->data;
	unsigned int i;

	for (i = 0; i < 20 && !completion_done(&j->began); i++)
		mdelay(1);
	p->ret = twheel_mod(&j->p.t, NEVER);
}

/* The callback of an earlier timeout can still move one that a worker is to run. */
static void worker_begins_after_the_callbacks_that_are_due_before(struct kunit *test)
{
	struct probe *p;
	struct job *j;

	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "the worker needs a CPU of its own");
	j = jobs(test, 1);
	p = probes(test, 1);
	p->then = move_the_job;
	p->data = j;
	arm_tick(test, p, 5);
	arm_job(test, j, 9);
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 1, p->ret);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&j->fired));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&j->p.t));
}

static void note_next_expiry(struct probe *p)
{
	p->arg = twheel_next_expiry(p->f->wheel);
}

/* Of two due timeouts, the one for the thread is the earlier one. */
static void next_expiry_in_a_callback_is_not_that_of_a_worker(struct kunit *test)
{
	struct job *j = jobs_behind_busy_workers(test, 1);
	struct probe *p = probes(test, 2);

	KUNIT_EXPECT_TRUE(test, twheel_cancel(&j[NR_WORKERS].p.t));
	p->then = note_next_expiry;
	arm_tick(test, &p[0], 5);
	arm_tick(test, &p[1], 6);
	arm_job(test, &j[NR_WORKERS], 9);
	advance_tick(test, 10);
	KUNIT_EXPECT_LE(test, p->arg, 6 * TICK);
	free_workers(test, j);
}

static void callbacks_run_at_once_if_threads_start_slowly(struct kunit *test)
{
	struct twheel_params params = { .clock = TWHEEL_MANUAL, .tick_ns = TICK, };
	struct hog *hog = kunit_kzalloc(test, sizeof(*hog), GFP_KERNEL);
	struct twheel *wheels[NR_WHEELS];
	struct job *j[NR_SLEEPERS];
	unsigned int i, begun = 0;

	if (num_online_cpus() < 2)
		kunit_skip(test, "the busy thread needs a CPU of its own");
	KUNIT_ASSERT_NOT_NULL(test, hog);
	for (i = 0; i < NR_WHEELS; i++) {
		wheels[i] = twheel_create(&params);
		KUNIT_ASSERT_FALSE(test, IS_ERR(wheels[i]));
	}
	for (i = 0; i < NR_SLEEPERS; i++) {
		j[i] = jobs_of(test, wheels[i / NR_WORKERS], 1);
		j[i]->stays = true;
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&j[i]->p.t, TICK));
	}
	init_completion(&hog->busy);
	migrate_to(cpumask_first(cpu_online_mask));
	hog->cpu = cpumask_last(cpu_online_mask);
	helper_start(test, &hog->helper, keep_busy, hog);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&hog->busy, PATIENCE), 0UL);
	for (i = 0; i < NR_WHEELS; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_advance(wheels[i], TICK));
	/* A callback waits longer: none may begin because another has given up. */
	while (begun < NR_SLEEPERS &&
	       wait_for_completion_timeout(&j[begun]->began, PATIENCE / 2))
		begun++;
	KUNIT_EXPECT_EQ(test, (unsigned int)NR_SLEEPERS, begun);
	for (i = 0; i < NR_SLEEPERS; i++)
		let_go(j[i]);
	helper_finish(test, &hog->helper);
	for (i = 0; i < NR_WHEELS; i++)
		twheel_destroy(wheels[i]);
}

static struct kunit_case worker_cases[] = {
	KUNIT_CASE_PARAM(callback_runs_in_a_worker_if_asked_for, clock_gen_params),
	KUNIT_CASE_PARAM(callback_runs_in_no_worker_otherwise, clock_gen_params),
	KUNIT_CASE(several_callbacks_run_at_once),
	KUNIT_CASE(slow_callback_holds_no_other),
	KUNIT_CASE(callbacks_run_at_once_if_threads_start_slowly),
	KUNIT_CASE(worker_begins_during_the_callbacks_of_its_batch),
	KUNIT_CASE(worker_begins_after_the_callbacks_that_are_due_before),
	KUNIT_CASE(next_expiry_in_a_callback_is_not_that_of_a_worker),
	KUNIT_CASE(busy_workers_do_not_hold_the_thread),
	KUNIT_CASE(many_due_at_once_run_once_each),
	KUNIT_CASE(callback_can_free_its_timeout),
	KUNIT_CASE(waiting_timeout_is_pending),
	KUNIT_CASE(waiting_timeout_can_be_cancelled),
	KUNIT_CASE(waiting_timeout_can_be_cancelled_with_sync),
	KUNIT_CASE(waiting_timeout_can_be_moved),
	KUNIT_CASE(waiting_timeout_cannot_be_armed_again),
	KUNIT_CASE(stop_hands_back_what_waits),
	KUNIT_CASE(place_is_kept_until_a_worker_takes_it),
	KUNIT_CASE(cancel_sync_waits_for_the_worker),
	KUNIT_CASE(flush_waits_for_the_worker),
	KUNIT_CASE(stop_waits_for_the_worker),
	KUNIT_CASE(destroy_waits_for_the_worker),
	KUNIT_CASE(cancel_does_not_wait_for_the_worker),
	KUNIT_CASE(callback_that_rearms_itself_is_not_run_twice_at_once),
	KUNIT_CASE(timeout_armed_by_another_while_it_runs_is_not_run_twice_at_once),
	KUNIT_CASE(rearmed_timeout_can_be_cancelled_while_it_runs),
	KUNIT_CASE(fixed_rate_counts_what_a_slow_worker_misses),
	KUNIT_CASE(fixed_delay_counts_from_the_end_of_the_worker),
	KUNIT_CASE(repeat_count_ends_it),
	KUNIT_CASE_PARAM(periodic_cancelled_while_it_runs_ends, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_running_is_handed_back_after_its_run, kind_gen_params),
	KUNIT_CASE(stop_under_load_loses_none),
	{}
};

static struct kunit_suite worker_suite = {
	.name = "twheel-worker",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = worker_cases,
};

module_test_suite(worker_suite);

MODULE_DESCRIPTION("KUnit suite of timeouts on a workqueue");
MODULE_LICENSE("GPL");
