// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels on CLOCK_REALTIME. It sets the wall clock forward and backward, and
 * corrects it after each case. Do not run it on a machine that is in use.
 *
 * A timeout that becomes due by a forward step must fire within PATIENCE, which is far
 * shorter than the step. No result depends on how long a call takes.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/timekeeping.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"
#include "wall.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define HOUR		(3600LL * NSEC_PER_SEC)
#define DAY		(24 * HOUR)
#define MANY		1000

/**
 * struct realtime - the wheel of a test, whose timeouts are in one shard
 * @f: fixture; the first member, because test->priv points to it
 * @early: expiries before the deadline
 * @right_offset: wall clock minus monotonic clock, which cannot be stepped
 */
struct realtime {
	struct fixture	f;
	unsigned int	early;
	s64		right_offset;
};

/* The wall clock */

static void step_wall(s64 ns)
{
	set_wall(wall() + ns);
}

static int realtime_init(struct kunit *test)
{
	struct realtime *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);

	if (!r)
		return -ENOMEM;
	r->right_offset = wall() - ktime_get_ns();
	test->priv = r;
	return set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
}

static void realtime_exit(struct kunit *test)
{
	struct realtime *r = test->priv;

	if (!r)
		return;
	set_wall(ktime_get_ns() + r->right_offset);
	if (r->f.wheel)
		twheel_stop(r->f.wheel, NULL, NULL);
	fixture_exit(test);
}

/* Turns of a shard do not overlap, so the record needs no lock. @p is idle. */
static void note_expiry(struct probe *p, u64 now_ns)
{
	struct realtime *r = container_of(p->f, struct realtime, f);

	r->early += now_ns < p->t.expires;
	p->fired++;
	p->fired_ns = now_ns;
	r->f.order[r->f.nr_fired % FIXTURE_ORDER] = p;
	WRITE_ONCE(r->f.nr_fired, r->f.nr_fired + 1);
	if (p->then)
		p->then(p);
}

static void note_callback(struct twheel_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	note_expiry(p, twheel_now(p->f->wheel));
}

/* The sink extends each timeout by p->arg, once. */
static void note_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct probe *p = container_of(t, struct probe, t);
		u64 extend = p->arg;

		list_del_init(&t->entry);
		p->arg = 0;
		if (extend && !twheel_extend(t, t->expires + extend, DAY))
			continue;
		twheel_accept(t);
		note_expiry(p, now_ns);
	}
}

/**
 * struct kind - a wheel and its timeouts
 * @name: for the log
 * @sink: the wheel has a sink
 * @apart: arm_many() gives each timeout a tick of its own
 */
struct kind {
	const char	*name;
	bool		sink;
	bool		apart;
};

static const struct kind kinds[] = {
	{ "callbacks, one tick", false, false },
	{ "callbacks, many ticks", false, true },
	{ "sink, one tick", true, false },
};

NAMED_PARAM(kind, kinds);

/* Make a wheel of @kind and @n timeouts. */
static struct probe *probes_of(struct kunit *test, const struct kind *kind, unsigned int n)
{
	struct twheel_params params = {
		.name = "kunit-realtime", .clock = TWHEEL_REALTIME, .tick_ns = TICK,
		.sink = kind->sink ? note_batch : NULL,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return probes_for(test, n, kind->sink ? NULL : note_callback);
}

static struct probe *wall_probes(struct kunit *test, unsigned int n)
{
	return probes_of(test, test->param_value ?: &kinds[2], n);
}

static void arm_at(struct kunit *test, struct probe *p, u64 at)
{
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p->t, at));
}

/* Arm @n timeouts for @at, or from @at on if their kind is apart. */
static void arm_many(struct kunit *test, struct probe *p, unsigned int n, u64 at)
{
	const struct kind *kind = test->param_value;
	unsigned int i;

	for (i = 0; i < n; i++)
		arm_at(test, &p[i], at + i * kind->apart * TICK);
}

/* @n timeouts fire, counted from the start of the test, and none is early. */
static void expect_fired(struct kunit *test, unsigned int n)
{
	unsigned long end = jiffies + PATIENCE;
	struct realtime *r = test->priv;

	while (READ_ONCE(r->f.nr_fired) < n && time_before(jiffies, end))
		msleep(20);
	twheel_flush(r->f.wheel);
	KUNIT_ASSERT_EQ(test, n, r->f.nr_fired);
	KUNIT_ASSERT_EQ(test, 0U, r->early);
}

/* Others may fire meanwhile. */
static void expect_fires(struct kunit *test, struct probe *p)
{
	unsigned long end = jiffies + PATIENCE;

	while (!READ_ONCE(p->fired) && time_before(jiffies, end))
		msleep(20);
	KUNIT_EXPECT_EQ(test, 1U, READ_ONCE(p->fired));
}

/* Wait for 100 ms: still only @n have fired. */
static void expect_silence(struct kunit *test, unsigned int n)
{
	msleep(100);
	expect_fired(test, n);
}

/* No clock step */

static void timeout_fires_and_not_early(struct kunit *test)
{
	struct probe *p = wall_probes(test, 3);

	arm_at(test, &p[0], wall() + 20 * TICK);
	arm_at(test, &p[1], 0);
	arm_at(test, &p[2], wall() - DAY);
	expect_fired(test, 3);
	KUNIT_EXPECT_GE(test, p->fired_ns, p->t.expires);
}

/* An earlier arm re-programs the hrtimer. So does the hrtimer, if its timeout was cancelled. */
static void earliest_timeout_programs_the_hrtimer(struct kunit *test)
{
	struct probe *p = wall_probes(test, 4);

	arm_at(test, &p[0], wall() + HOUR);
	arm_at(test, &p[1], wall() + 60 * TICK);
	arm_at(test, &p[2], wall() + 20 * TICK);
	expect_fired(test, 2);
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p[1].t));
	arm_at(test, &p[3], wall() + 60 * TICK);
	arm_at(test, &p[1], wall() + 20 * TICK);
	twheel_cancel(&p[1].t);
	expect_fires(test, &p[3]);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
}

/* The thread, which is for this CPU alone, cannot run until preempt_enable(). */
static void arm_leaves_the_hrtimer_of_a_queued_shard_alone(struct kunit *test)
{
	struct probe *p = probes_of(test, &kinds[0], 2);
	unsigned long end = jiffies + PATIENCE;
	struct twheel_counters stats;
	int ret;

	preempt_disable();
	ret = twheel_arm(&p[0].t, wall() + 2 * TICK);
	do {
		twheel_stats(p->f->wheel, &stats);
	} while (!stats.wakeups && time_before(jiffies, end));
	ret |= twheel_arm(&p[1].t, 0);
	/* An hrtimer that is set now interrupts this. */
	mdelay(2);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, 0, ret);
	expect_fired(test, 2);
	twheel_stats(p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.wakeups);
}

/* Steps */

static void step_forward_fires_what_became_due(struct kunit *test)
{
	struct probe *p = wall_probes(test, 3);

	arm_at(test, &p[0], wall() + HOUR);
	arm_at(test, &p[1], wall() + 2 * HOUR);
	arm_at(test, &p[2], wall() + DAY);
	step_wall(2 * HOUR + 1000 * TICK);
	expect_fired(test, 2);
	expect_silence(test, 2);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&p[2].t));
	KUNIT_EXPECT_LE(test, twheel_remaining_ns(&p[2].t), (u64)(DAY - 2 * HOUR));
	step_wall(DAY);
	expect_fired(test, 3);
}

/* On a slow machine, it may fire before the step. */
static void step_back_fires_nothing_early(struct kunit *test)
{
	struct probe *p = wall_probes(test, 2);

	arm_at(test, &p[0], wall() + 50 * TICK);
	arm_at(test, &p[1], wall() + HOUR);
	step_wall(-HOUR);
	msleep(100);
	KUNIT_EXPECT_EQ(test, !p[0].fired, twheel_pending(&p[0].t));
	KUNIT_EXPECT_GT(test, twheel_remaining_ns(&p[1].t), (u64)HOUR);
	step_wall(2 * HOUR);
	expect_fired(test, 2);
}

/**
 * struct step - a step, after which a timeout is armed
 * @name: for the log
 * @ns: size of the step
 * @pending: another timeout is pending during the step
 */
struct step {
	const char	*name;
	s64		ns;
	bool		pending;
};

static const struct step steps[] = {
	{ "forward, empty wheel", DAY, false },
	{ "forward", DAY, true },
	{ "back, empty wheel", -DAY, false },
	{ "back", -DAY, true },
};

NAMED_PARAM(step, steps);

/* One of them is shut down, and its memory is reused. */
static void timeout_armed_or_moved_after_a_step_is_exact(struct kunit *test)
{
	const struct step *step = test->param_value;
	struct probe *p = probes_of(test, &kinds[2], 3);

	arm_at(test, &p[0], wall() + 20 * TICK);
	expect_fired(test, 1);
	if (step->pending) {
		arm_at(test, &p[1], wall() + 3 * DAY);
		arm_at(test, &p[2], wall() + 4 * DAY);
	}
	step_wall(step->ns);
	arm_at(test, &p[0], wall() + 30 * TICK);
	expect_fired(test, 2);
	KUNIT_EXPECT_EQ(test, step->pending, twheel_mod(&p[1].t, wall() + 30 * TICK));
	expect_fired(test, 3);
	KUNIT_EXPECT_EQ(test, step->pending, twheel_shutdown(&p[2].t));
	twheel_timeout_init(p->f->wheel, &p[2].t, NULL);
	arm_at(test, &p[2], wall() + 30 * TICK);
	expect_fired(test, 4);
}

/* After a step forward, the timeouts fire by deadline; equal ones in the order of arming. */
static void timeouts_fire_in_the_order_of_deadlines(struct kunit *test)
{
	struct probe *p = wall_probes(test, MANY), *a, *b;
	struct fixture *f = test->priv;
	u64 at = wall() + HOUR;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 3);
	for (i = 0; i < MANY; i++)
		arm_at(test, &p[i], at + prandom_u32_state(&rnd) % 300 * (TICK / 3));
	step_wall(2 * HOUR);
	expect_fired(test, MANY);
	for (i = 1; i < MANY; i++) {
		a = f->order[i - 1];
		b = f->order[i];
		KUNIT_ASSERT_LE(test, a->t.expires, b->t.expires);
		if (a->t.expires == b->t.expires)
			KUNIT_ASSERT_LT(test, a->id, b->id);
	}
}

static void steps_both_ways_lose_nothing(struct kunit *test)
{
	static const s64 ns[] = { -HOUR, HOUR / 2, -DAY, 2 * HOUR, DAY, -HOUR, HOUR };
	struct probe *p = wall_probes(test, MANY);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < MANY; i++) {
		p[i].arg = i % 3 * HOUR;
		arm_at(test, &p[i], wall() + (u64)prandom_u32_state(&rnd) * 1000);
		if (i % (MANY / 20) == 0)
			step_wall(ns[i / (MANY / 20) % ARRAY_SIZE(ns)]);
		if (i % 50 == 0)
			usleep_range(2000, 3000);
	}
	step_wall(10 * DAY);
	expect_fired(test, MANY);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
}

/**
 * struct stepper - sets the clock back in the middle of a pass, when a timeout fires
 * @helper: thread that runs before anything else on its CPU
 * @now: completed by the first timeout that fires
 * @past: armed after the step, for a time in the past
 * @next: armed after the step, for 50 ms later
 * @ret: result of these arms
 */
struct stepper {
	struct helper		helper;
	struct completion	now;
	struct probe		*past;
	struct probe		*next;
	int			ret;
};

static void complete_it(struct probe *p)
{
	complete(p->data);
}

static void step_when_told(void *arg)
{
	struct stepper *s = arg;

	wait_for_completion(&s->now);
	step_wall(-DAY);
	s->ret = twheel_arm(&s->past->t, 1);
	s->ret |= twheel_arm(&s->next->t, wall() + 50 * TICK);
}

/*
 * A step forward makes MANY timeouts due. The helper sets the clock back after the first callback
 * or batch. The rest is put back, by deadline.
 */
static void step_back_in_the_middle_of_a_pass_puts_the_rest_back(struct kunit *test)
{
	struct stepper *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct probe *p = wall_probes(test, MANY + 2);
	u64 at = wall() + HOUR;
	unsigned int fired, i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	init_completion(&s->now);
	s->past = &p[MANY];
	s->next = &p[MANY + 1];
	p[0].then = complete_it;
	p[0].data = &s->now;
	arm_many(test, p, MANY, at);
	helper_start(test, &s->helper, step_when_told, s);
	helper_first(test, &s->helper);
	set_wall(at + HOUR);
	helper_finish(test, &s->helper);
	KUNIT_EXPECT_EQ(test, 0, s->ret);
	expect_fires(test, s->past);
	expect_fires(test, s->next);
	fired = p->f->nr_fired;
	KUNIT_EXPECT_LT(test, fired, MANY + 2U);
	expect_silence(test, fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(p->f->wheel));
	step_wall(DAY);
	expect_fired(test, MANY + 2);
	for (i = fired + 1; i < MANY + 2; i++)
		KUNIT_ASSERT_LE(test, p->f->order[i - 1]->t.expires, p->f->order[i]->t.expires);
}

#define LONG_TICK	(200 * TICK)

/**
 * struct approach - a step forward to a timeout
 * @name: for the log
 * @beyond: ns from the timeout to the clock after the step
 * @move: the timeout is moved, instead of cancelled before the step
 */
struct approach {
	const char	*name;
	s64		beyond;
	bool		move;
};

static const struct approach approaches[] = {
	{ "half a tick short of a cancelled timeout", -(s64)LONG_TICK / 2, false },
	{ "half a tick beyond a cancelled timeout", LONG_TICK / 2, false },
	{ "half a tick short of the timeout", -(s64)LONG_TICK / 2, true },
	{ "half a tick beyond the timeout", LONG_TICK / 2, true },
};

NAMED_PARAM(approach, approaches);

/*
 * The hrtimer is set for a timeout an hour ahead. A step forward leaves nothing of that hour. On
 * the CPU that makes it, an hrtimer that is due waits for the next timer interrupt. Before that,
 * a timeout is armed for the past. After the step back it must not wait for the hour. If the
 * timeout fires before it can be moved, it fires twice.
 */
static void timeout_for_the_past_armed_between_two_steps_is_not_late(struct kunit *test)
{
	u64 at = DIV64_U64_ROUND_UP(wall() + HOUR, LONG_TICK) * LONG_TICK;
	const struct approach *step = test->param_value;
	struct twheel_params params = {
		.name = "kunit-realtime", .clock = TWHEEL_REALTIME, .tick_ns = LONG_TICK,
		.sink = note_batch,
	};
	struct probe *p;
	int moved;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes_for(test, 1, NULL);
	arm_at(test, p, at);
	if (!step->move)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p->t));
	set_wall(at + step->beyond);
	moved = twheel_mod(&p->t, at - 3 * DAY);
	step_wall(-2 * DAY);
	expect_fired(test, step->move && !moved ? 2 : 1);
}

static void stop_after_steps_hands_back_all(struct kunit *test)
{
	struct probe *p = wall_probes(test, 100);
	unsigned int i;
	LIST_HEAD(list);

	for (i = 0; i < 100; i++) {
		arm_at(test, &p[i], wall() + HOUR + i * 100 * TICK);
		step_wall(i % 2 ? -HOUR : HOUR / 2);
	}
	twheel_stop(p->f->wheel, collect, &list);
	KUNIT_EXPECT_EQ(test, (size_t)100, list_count_nodes(&list));
}

static void change_others(struct probe *p)
{
	p->ret = twheel_mod(&p->other[0].t, wall() + DAY);
	p->ret += twheel_cancel(&p->other[1].t);
}

struct worked {
	struct twheel_work	tw;
	struct completion	done;
};

static void complete_work(struct work_struct *work)
{
	complete(&container_of(work, struct worked, tw.work)->done);
}

/* All are due after the step; the first moves one and cancels another. */
static void list_work_and_callback_follow_the_steps(struct kunit *test)
{
	struct probe *p = probes_of(test, &kinds[0], 3);
	struct twheel_timeout *list[] = { &p[0].t, &p[1].t, &p[2].t };
	struct worked *work = kunit_kzalloc(test, sizeof(*work), GFP_KERNEL);
	u64 at = wall() + HOUR;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, work);
	init_completion(&work->done);
	twheel_work_init(p->f->wheel, &work->tw, complete_work);
	p->then = change_others;
	p->other = &p[1];
	for (i = 0; i < 3; i++)
		p[i].t.expires = at;
	KUNIT_EXPECT_EQ(test, 3U, twheel_arm_list(p->f->wheel, list, 3));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&work->tw.t, at));
	step_wall(-DAY);
	expect_silence(test, 0);
	step_wall(DAY + 2 * HOUR);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&work->done, PATIENCE), 0UL);
	expect_fired(test, 1);
	KUNIT_EXPECT_EQ(test, 2, p->ret);
	step_wall(2 * DAY);
	expect_fired(test, 2);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
	twheel_cancel_work_sync(&work->tw);
}

/* Periodic: p->id is the number of intervals that have passed. */
static void come_round(struct probe *p)
{
	p->id += twheel_forward(&p->t, p->fired_ns, HOUR);
	p->ret = twheel_arm(&p->t, p->t.expires);
}

static void hours_skipped_or_repeated_by_steps_count_once(struct kunit *test)
{
	struct probe *p = wall_probes(test, 1);

	p->then = come_round;
	arm_at(test, p, wall() + HOUR);
	step_wall(3 * HOUR + HOUR / 2);
	expect_fired(test, 1);
	KUNIT_EXPECT_EQ(test, 3U, p->id);
	step_wall(-2 * HOUR);
	expect_silence(test, 1);
	step_wall(HOUR);
	expect_silence(test, 1);
	step_wall(2 * HOUR);
	expect_fired(test, 2);
	KUNIT_EXPECT_EQ(test, 4U, p->id);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

static struct kunit_case realtime_cases[] = {
	KUNIT_CASE_PARAM(timeout_fires_and_not_early, kind_gen_params),
	KUNIT_CASE_PARAM(earliest_timeout_programs_the_hrtimer, kind_gen_params),
	KUNIT_CASE(arm_leaves_the_hrtimer_of_a_queued_shard_alone),
	KUNIT_CASE_PARAM(step_forward_fires_what_became_due, kind_gen_params),
	KUNIT_CASE_PARAM(step_back_fires_nothing_early, kind_gen_params),
	KUNIT_CASE_PARAM(timeout_armed_or_moved_after_a_step_is_exact, step_gen_params),
	KUNIT_CASE_PARAM(timeouts_fire_in_the_order_of_deadlines, kind_gen_params),
	KUNIT_CASE(steps_both_ways_lose_nothing),
	KUNIT_CASE_PARAM(step_back_in_the_middle_of_a_pass_puts_the_rest_back, kind_gen_params),
	KUNIT_CASE_PARAM(timeout_for_the_past_armed_between_two_steps_is_not_late,
			 approach_gen_params),
	KUNIT_CASE_PARAM(stop_after_steps_hands_back_all, kind_gen_params),
	KUNIT_CASE(list_work_and_callback_follow_the_steps),
	KUNIT_CASE_PARAM(hours_skipped_or_repeated_by_steps_count_once, kind_gen_params),
	{}
};

static struct kunit_suite realtime_suite = {
	.name = "twheel-realtime",
	.init = realtime_init,
	.exit = realtime_exit,
	.test_cases = realtime_cases,
};

module_test_suite(realtime_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels on a wall clock that is stepped");
MODULE_LICENSE("GPL");
