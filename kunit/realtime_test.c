// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels on CLOCK_REALTIME. It sets the wall clock forward and backward, and
 * corrects it after each case. Do not run it on a machine that is in use.
 *
 * A timeout that becomes due by a forward step must fire within PATIENCE, which is far
 * shorter than the step.
 *
 * A sink must not set the wall clock, because that may sleep. It makes another CPU set the
 * clock and spins meanwhile. On a machine with one CPU the cases that need this are
 * skipped. The suites on the MANUAL clock test the same steps on any machine.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"
#include "wall.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define HOUR		(3600LL * NSEC_PER_SEC)
#define DAY		(24 * HOUR)
#define MANY		1000

/* The wall clock */

/* Wall clock minus monotonic clock, which cannot be stepped. */
static s64 right_offset;

static void step_wall(s64 ns)
{
	set_wall(wall() + ns);
}

static int realtime_init(struct kunit *test)
{
	right_offset = wall() - ktime_get_ns();
	return fixture_init(test);
}

static void realtime_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	set_wall(ktime_get_ns() + right_offset);
	if (f && f->wheel)
		twheel_stop(f->wheel, NULL, NULL);
	fixture_exit(test);
}

/* The wheel, whose sink records the time that it gets */

/**
 * struct wake_up - an alarm: a timeout on the wall clock
 * @t: the timeout
 * @at: its deadline
 * @fired: how often it has fired
 * @fired_ns: the time when it was taken out
 */
struct wake_up {
	struct twheel_timeout	t;
	u64			at;
	unsigned int		fired;
	u64			fired_ns;
};

/**
 * struct bell - data of the sink
 * @rung: completed for every alarm
 * @fired: number of alarms that have fired
 * @early: number of alarms before their deadline
 * @step_at: step the clock when this number of alarms has fired, once
 * @step: size of the step
 * @stepping: steps the clock, on another CPU
 * @stepped: completed after the step
 * @past: alarm to arm before the step, for a time in the past; or NULL
 * @rearm: alarm to arm after the step, or NULL
 */
struct bell {
	struct completion	rung;
	atomic_t		fired;
	unsigned int		early;
	unsigned int		step_at;
	s64			step;
	struct work_struct	stepping;
	struct completion	stepped;
	struct wake_up		*past;
	struct wake_up		*rearm;
};

static void step_at_work(struct work_struct *work)
{
	struct bell *bell = container_of(work, struct bell, stepping);

	step_wall(bell->step);
	complete_all(&bell->stepped);
}

static void ring(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct bell *bell = sink_data;
	struct twheel_timeout *t, *next;
	bool steps = bell->step_at && atomic_read(&bell->fired) < bell->step_at;
	unsigned long end = jiffies + PATIENCE / 3;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct wake_up *a = container_of(t, struct wake_up, t);

		list_del_init(&t->entry);
		bell->early += now_ns < a->at;
		a->fired++;
		a->fired_ns = now_ns;
		atomic_inc(&bell->fired);
		twheel_accept(t);
		complete(&bell->rung);
	}
	if (!steps || atomic_read(&bell->fired) < bell->step_at)
		return;
	if (bell->past)
		twheel_arm(&bell->past->t, bell->past->at);
	schedule_work_on(spare_cpu(), &bell->stepping);
	while (!completion_done(&bell->stepped) && time_before(jiffies, end))
		cpu_relax();
	if (bell->rearm) {
		bell->rearm->at = wall() + 20 * TICK;
		twheel_arm(&bell->rearm->t, bell->rearm->at);
	}
}

static struct bell *wall_wheel_of(struct kunit *test, const struct shape *s, u64 tick_ns)
{
	struct bell *bell = kunit_kzalloc(test, sizeof(*bell), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-realtime",
		.clock = TWHEEL_REALTIME,
		.tick_ns = tick_ns,
		.slots = s->slots,
		.levels = s->levels,
		.sink = ring,
		.sink_data = bell,
	};

	KUNIT_ASSERT_NOT_NULL(test, bell);
	init_completion(&bell->rung);
	INIT_WORK(&bell->stepping, step_at_work);
	init_completion(&bell->stepped);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return bell;
}

static struct bell *wall_wheel(struct kunit *test, const struct shape *s)
{
	return wall_wheel_of(test, s, TICK);
}

static struct wake_up *alarms(struct kunit *test, unsigned int n)
{
	struct fixture *f = test->priv;
	struct wake_up *a = kunit_kcalloc(test, n, sizeof(*a), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, a);
	for (i = 0; i < n; i++)
		twheel_timeout_init(f->wheel, &a[i].t, NULL);
	return a;
}

static void set_alarm(struct kunit *test, struct wake_up *a, u64 at)
{
	a->at = at;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&a->t, at));
}

static void expect_rings(struct kunit *test, struct bell *bell, unsigned int n)
{
	while (n--)
		KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&bell->rung, PATIENCE), 0UL);
	KUNIT_EXPECT_EQ(test, 0U, bell->early);
}

/* The sink has stepped the clock. */
static void expect_step(struct kunit *test, struct bell *bell)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&bell->stepped, PATIENCE), 0UL);
}

/* Wait for 100 ms: nothing fires. */
static void expect_silence(struct kunit *test, struct bell *bell)
{
	int fired = atomic_read(&bell->fired);

	msleep(100);
	KUNIT_EXPECT_EQ(test, fired, atomic_read(&bell->fired));
}

static const struct shape shapes[] = {
	{ 256, 4 }, { 256, 1 }, { 8, 1 }, { 4, 3 }, { 2, 8 },
};

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static const struct shape usual = { 256, 4 };

/* Step the clock in the sink when @at alarms have fired. */
static void step_in_the_sink(struct kunit *test, struct bell *bell, unsigned int at, s64 step)
{
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "a spinning sink needs a CPU of its own");
	bell->step_at = at;
	bell->step = step;
}

/* No clock step */

static void alarm_fires_and_not_early(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 1);

	set_alarm(test, a, wall() + 20 * TICK);
	expect_rings(test, bell, 1);
	KUNIT_EXPECT_GE(test, a->fired_ns, a->at);
}

static void wheel_follows_the_wall_clock(struct kunit *test)
{
	struct fixture *f = test->priv;
	u64 before;

	wall_wheel(test, &usual);
	before = wall();
	KUNIT_EXPECT_GE(test, twheel_now(f->wheel), before);
	step_wall(DAY);
	KUNIT_EXPECT_GE(test, twheel_now(f->wheel), before + DAY);
}

static void relative_arm_is_refused(struct kunit *test)
{
	struct wake_up *a;

	wall_wheel(test, &usual);
	a = alarms(test, 1);
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&a->t, TICK));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_after(&a->t, 0));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&a->t));
}

static void time_long_past_fires_at_once(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 2);

	set_alarm(test, &a[0], 0);
	set_alarm(test, &a[1], wall() - DAY);
	expect_rings(test, bell, 2);
}

/* Forward step */

static void step_forward_fires_what_became_due(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 3);

	set_alarm(test, &a[0], wall() + HOUR);
	set_alarm(test, &a[1], wall() + 2 * HOUR);
	set_alarm(test, &a[2], wall() + DAY);
	step_wall(2 * HOUR + 1000 * TICK);
	expect_rings(test, bell, 2);
	expect_silence(test, bell);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&a[2].t));
	step_wall(DAY);
	expect_rings(test, bell, 1);
}

static void step_forward_short_of_it_fires_nothing(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 1);

	set_alarm(test, a, wall() + DAY);
	step_wall(DAY - HOUR);
	expect_silence(test, bell);
	KUNIT_EXPECT_LE(test, twheel_remaining_ns(&a->t), (u64)HOUR);
	step_wall(HOUR);
	expect_rings(test, bell, 1);
}

static void alarm_set_after_a_step_forward_is_exact(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 2);

	set_alarm(test, &a[0], wall() + 10 * DAY);
	step_wall(DAY);
	set_alarm(test, &a[1], wall() + 30 * TICK);
	expect_rings(test, bell, 1);
	KUNIT_EXPECT_EQ(test, 1U, a[1].fired);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&a[0].t));
}

/* Backward step */

static void step_back_fires_nothing_early(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 2);
	struct fixture *f = test->priv;
	int fired;

	set_alarm(test, &a[0], wall() + 50 * TICK);
	set_alarm(test, &a[1], wall() + 500 * TICK);
	step_wall(-HOUR);
	/* On a slow machine, they may have been due before the step. */
	twheel_flush(f->wheel);
	fired = atomic_read(&bell->fired);
	msleep(600);
	KUNIT_EXPECT_EQ(test, fired, atomic_read(&bell->fired));
	if (!fired) {
		KUNIT_EXPECT_TRUE(test, twheel_pending(&a[0].t));
		KUNIT_EXPECT_GT(test, twheel_remaining_ns(&a[0].t), (u64)HOUR / 2);
	}
	step_wall(HOUR);
	expect_rings(test, bell, 2);
}

static void alarm_set_after_a_step_back_is_exact(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 4);

	set_alarm(test, &a[0], wall() + 20 * TICK);
	expect_rings(test, bell, 1);
	set_alarm(test, &a[1], wall() + HOUR);
	step_wall(-DAY);
	set_alarm(test, &a[2], wall() + 30 * TICK);
	set_alarm(test, &a[3], wall() + 300 * TICK);
	expect_rings(test, bell, 2);
	KUNIT_EXPECT_EQ(test, 1U, a[2].fired);
	KUNIT_EXPECT_EQ(test, 1U, a[3].fired);
	KUNIT_EXPECT_TRUE(test, twheel_pending(&a[1].t));
	step_wall(DAY + HOUR);
	expect_rings(test, bell, 1);
}

static void alarm_set_after_a_step_back_in_an_empty_wheel_is_exact(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 1);

	set_alarm(test, a, wall() + 20 * TICK);
	expect_rings(test, bell, 1);
	step_wall(-DAY);
	set_alarm(test, a, wall() + 20 * TICK);
	expect_rings(test, bell, 1);
	KUNIT_EXPECT_EQ(test, 2U, a->fired);
}

static void mod_after_a_step_back_is_exact(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 1);

	set_alarm(test, a, wall() + HOUR);
	step_wall(-DAY);
	a->at = wall() + 30 * TICK;
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&a->t, a->at));
	expect_rings(test, bell, 1);
}

static void cancel_after_a_step_back_takes_it_out(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 2);

	set_alarm(test, &a[0], wall() + HOUR / 2);
	set_alarm(test, &a[1], wall() + HOUR / 2);
	step_wall(-HOUR);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&a[0].t));
	step_wall(2 * HOUR);
	expect_rings(test, bell, 1);
	KUNIT_EXPECT_EQ(test, 0U, a[0].fired);
}

/* Steps in both directions */

/**
 * struct interrupt - an interrupt during which the clock is stepped
 * @timer: fires right before the hrtimer of the shard, in the same interrupt
 * @work: arms @timer and @alarm, on another CPU
 * @alarm: the alarm
 * @tick_ns: length of the tick
 * @begun: completed in the interrupt, which then waits for the step
 */
struct interrupt {
	struct hrtimer		timer;
	struct work_struct	work;
	struct wake_up		*alarm;
	u64			tick_ns;
	struct completion	begun;
};

static enum hrtimer_restart wait_for_step(struct hrtimer *timer)
{
	struct interrupt *in = container_of(timer, struct interrupt, timer);
	u64 end = ktime_get_ns() + NSEC_PER_SEC;

	complete(&in->begun);
	while (wall() >= in->alarm->at && ktime_get_ns() < end)
		cpu_relax();
	return HRTIMER_NORESTART;
}

/*
 * Interrupts are off until both hrtimers are due. Because of the forward step, the second
 * hrtimer of the shard, which does not follow the clock, is not due in this interrupt.
 */
static void begin_interrupt(struct work_struct *work)
{
	struct interrupt *in = container_of(work, struct interrupt, work);
	struct wake_up *a = in->alarm;

	a->at = div64_u64(wall() + HOUR, in->tick_ns) * in->tick_ns;
	twheel_arm(&a->t, a->at);
	set_wall(a->at - 2 * TICK);
	local_irq_disable();
	hrtimer_start(&in->timer, ns_to_ktime(a->at - TICK), HRTIMER_MODE_ABS);
	while (wall() < a->at)
		cpu_relax();
	local_irq_enable();
}

static struct interrupt *interrupt(struct kunit *test, u64 tick_ns)
{
	struct interrupt *in = kunit_kzalloc(test, sizeof(*in), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, in);
	if (spare_cpu() >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "the hrtimer of the shard fires in a thread");
	in->alarm = alarms(test, 1);
	in->tick_ns = tick_ns;
	INIT_WORK(&in->work, begin_interrupt);
	hrtimer_setup(&in->timer, wait_for_step, CLOCK_REALTIME, HRTIMER_MODE_ABS);
	return in;
}

static void enter_interrupt(struct interrupt *in)
{
	init_completion(&in->begun);
	schedule_work_on(spare_cpu(), &in->work);
	wait_for_completion(&in->begun);
}

/*
 * During an interrupt, the hrtimer code uses the time that it has read at the start. The
 * wheel reads the time after the step, and must not program the hrtimer to fire again in
 * the same interrupt.
 */
static void step_back_in_the_interrupt_does_not_repeat_it(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, &usual);
	struct interrupt *in = interrupt(test, TICK);
	unsigned int i;

	for (i = 0; i < 10; i++) {
		enter_interrupt(in);
		set_wall(in->alarm->at - HOUR / 2);
		flush_work(&in->work);
		expect_silence(test, bell);
		set_wall(in->alarm->at);
		expect_rings(test, bell, 1);
	}
	hrtimer_cancel(&in->timer);
}

/*
 * The same in the year 1970, where the next tick is the first and ten seconds away. In about
 * one case of three an interrupt that would be repeated is not.
 */
static void step_to_tick_0_in_the_interrupt_does_not_repeat_it(struct kunit *test)
{
	u64 tick_ns = ktime_get_ns() + 10 * NSEC_PER_SEC, begin;
	struct interrupt *in;
	struct bell *bell;
	unsigned int i;

	if (tick_ns > HOUR / 2)
		kunit_skip(test, "needs a machine that has just been started");
	bell = wall_wheel_of(test, &usual, tick_ns);
	in = interrupt(test, tick_ns);
	for (i = 0; i < 5; i++) {
		enter_interrupt(in);
		begin = ktime_get_ns();
		/* The clock must not be set behind CLOCK_MONOTONIC. */
		do
			set_wall(ktime_get_ns() + NSEC_PER_SEC);
		while (wall() >= in->alarm->at);
		flush_work(&in->work);
		KUNIT_EXPECT_LT(test, ktime_get_ns() - begin, 5 * (u64)NSEC_PER_SEC);
		KUNIT_EXPECT_LT(test, wall(), tick_ns);
		expect_silence(test, bell);
		set_wall(in->alarm->at);
		expect_rings(test, bell, 1);
	}
	hrtimer_cancel(&in->timer);
}

static void steps_both_ways_lose_nothing(struct kunit *test)
{
	static const s64 steps[] = { -HOUR, HOUR / 2, -DAY, 2 * HOUR, DAY, -HOUR, HOUR };
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, MANY);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < MANY; i++) {
		set_alarm(test, &a[i], wall() + (u64)prandom_u32_state(&rnd) * 1000);
		if (i % (MANY / 20) == 0)
			step_wall(steps[i / (MANY / 20) % ARRAY_SIZE(steps)]);
		if (i % 50 == 0)
			usleep_range(2000, 3000);
	}
	step_wall(10 * DAY);
	expect_rings(test, bell, MANY);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, a[i].fired);
}

/*
 * A forward step makes MANY alarms due, each at its own tick. The sink sets the clock back
 * when it has the first batch, so the others are no longer due.
 */
static void step_back_in_the_middle_of_a_pass_fires_nothing_early(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, MANY);
	unsigned int i;

	step_in_the_sink(test, bell, 1, -DAY);
	for (i = 0; i < MANY; i++)
		set_alarm(test, &a[i], wall() + HOUR + i * TICK);
	step_wall(2 * HOUR);
	expect_rings(test, bell, 1);
	expect_step(test, bell);
	msleep(100);
	KUNIT_EXPECT_EQ(test, 0U, bell->early);
	KUNIT_EXPECT_LT(test, atomic_read(&bell->fired), MANY);
	step_wall(DAY);
	expect_rings(test, bell, MANY - 1);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, a[i].fired);
}

/*
 * As before, with all alarms in one tick, which takes several batches. The sink also arms
 * one.
 */
static void step_back_in_the_middle_of_a_tick_fires_nothing_early(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, MANY + 1);
	u64 at = wall() + HOUR;
	unsigned int i;

	step_in_the_sink(test, bell, 1, -DAY);
	bell->rearm = &a[MANY];
	for (i = 0; i < MANY; i++)
		set_alarm(test, &a[i], at);
	step_wall(2 * HOUR);
	expect_rings(test, bell, 2);
	expect_step(test, bell);
	msleep(100);
	KUNIT_EXPECT_LT(test, atomic_read(&bell->fired), MANY);
	a[0].at = at;
	KUNIT_EXPECT_EQ(test, 0, twheel_mod(&a[0].t, at));
	step_wall(DAY);
	expect_rings(test, bell, MANY);
	for (i = 1; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, a[i].fired);
}

/*
 * An alarm for the past waits for the next tick. After the step that tick is a day away, but the
 * deadline is still in the past.
 */
static void alarm_for_the_past_set_in_the_sink_before_a_step_back_is_not_late(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, 2);

	step_in_the_sink(test, bell, 1, -DAY);
	bell->past = &a[1];
	bell->past->at = wall() - 2 * DAY;
	set_alarm(test, &a[0], wall() + 20 * TICK);
	expect_rings(test, bell, 2);
}

#define LONG_TICK	(200 * TICK)

/**
 * struct approach - a step forward to an alarm
 * @desc: for the log
 * @beyond: ns from the alarm to the clock after the step
 * @move: the alarm is moved, instead of cancelled before the step
 */
struct approach {
	const char	*desc;
	s64		beyond;
	bool		move;
};

static const struct approach approaches[] = {
	{ "half a tick short of a cancelled alarm", -(s64)LONG_TICK / 2 },
	{ "half a tick beyond a cancelled alarm", LONG_TICK / 2 },
	{ "half a tick short of the alarm", -(s64)LONG_TICK / 2, true },
	{ "half a tick beyond the alarm", LONG_TICK / 2, true },
};

static void approach_desc(const struct approach *a, char *desc)
{
	strscpy(desc, a->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(approach, approaches, approach_desc);

/*
 * The hrtimers are set for an alarm an hour ahead. A step forward leaves nothing of that hour. On
 * the CPU that makes it, an hrtimer that is due waits for the next timer interrupt. Before that, an
 * alarm is set for the past. After the step back it must not wait for the hour. If the alarm fires
 * before it can be moved, it rings twice.
 */
static void alarm_for_the_past_set_between_two_steps_is_not_late(struct kunit *test)
{
	u64 at = DIV64_U64_ROUND_UP(wall() + HOUR, LONG_TICK) * LONG_TICK;
	struct bell *bell = wall_wheel_of(test, &usual, LONG_TICK);
	const struct approach *step = test->param_value;
	struct wake_up *a = alarms(test, 1);
	int moved;

	a->at = at - 3 * DAY;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&a->t, at));
	if (!step->move)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&a->t));
	set_wall(at + step->beyond);
	moved = twheel_mod(&a->t, a->at);
	step_wall(-2 * DAY);
	expect_rings(test, bell, step->move && !moved ? 2 : 1);
}

static void alarm_set_in_the_sink_after_a_step_back_is_exact(struct kunit *test)
{
	struct bell *bell = wall_wheel(test, test->param_value);
	struct wake_up *a = alarms(test, MANY + 1);
	unsigned int i, n;

	step_in_the_sink(test, bell, MANY / 2, -DAY);
	bell->rearm = &a[MANY];
	for (i = 0; i < MANY; i++)
		set_alarm(test, &a[i], wall() + HOUR + i * TICK);
	step_wall(2 * HOUR);
	for (n = 0; n < 1500 && !READ_ONCE(a[MANY].fired); n++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, 1U, a[MANY].fired);
	step_wall(2 * DAY);
	expect_rings(test, bell, MANY + 1);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, a[i].fired);
}

static void stop_after_a_step_back_hands_back_all(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct wake_up *a;
	unsigned int i;
	LIST_HEAD(list);

	wall_wheel(test, test->param_value);
	a = alarms(test, 100);
	for (i = 0; i < 100; i++) {
		set_alarm(test, &a[i], wall() + HOUR + i * 100 * TICK);
		step_wall(i % 2 ? -HOUR : HOUR / 2);
	}
	twheel_stop(f->wheel, collect, &list);
	KUNIT_EXPECT_EQ(test, (size_t)100, list_count_nodes(&list));
}

/* Periodic */

struct chime {
	struct twheel_periodic	p;
	struct completion	rung;
	atomic_t		calls;
	u64			deadlines;
	u64			missed;
	unsigned int		early;
};

static void chime(struct twheel_periodic *p)
{
	struct chime *c = container_of(p, struct chime, p);

	c->early += wall() < p->expires;
	c->missed = p->missed;
	c->deadlines += 1 + p->missed;
	atomic_inc(&c->calls);
	complete(&c->rung);
}

static struct chime *make_chime(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-chime", .clock = TWHEEL_REALTIME };
	struct chime *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	init_completion(&c->rung);
	twheel_periodic_init(f->wheel, &c->p, chime, TWHEEL_FIXED_RATE);
	return c;
}

static void hours_skipped_by_a_step_are_told_in_one_call(struct kunit *test)
{
	struct chime *c = make_chime(test);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&c->p, wall() + HOUR, HOUR, 0));
	step_wall(10 * HOUR + HOUR / 2);
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&c->rung, PATIENCE), 0UL);
	msleep(50);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&c->calls));
	KUNIT_EXPECT_EQ(test, 9ULL, c->missed);
	KUNIT_EXPECT_EQ(test, 0U, c->early);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&c->p.t));
}

static void hours_that_come_twice_are_told_once(struct kunit *test)
{
	struct chime *c = make_chime(test);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&c->p, wall() + HOUR, HOUR, 0));
	step_wall(3 * HOUR + HOUR / 2);
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&c->rung, PATIENCE), 0UL);
	step_wall(-2 * HOUR);
	msleep(50);
	step_wall(HOUR);
	msleep(50);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&c->calls));
	step_wall(2 * HOUR);
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&c->rung, PATIENCE), 0UL);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&c->p.t));
	KUNIT_EXPECT_EQ(test, 4ULL, c->deadlines);
	KUNIT_EXPECT_EQ(test, 0U, c->early);
}

/* Clock steps while callbacks run */

/* Maximum number of workers that run callbacks of one shard at once. */
#define NR_WORKERS	4

static struct probe *wall_probes(struct kunit *test, unsigned int n)
{
	const struct shape *s = test->param_value;
	struct twheel_params params = {
		.name = "kunit-realtime", .clock = TWHEEL_REALTIME, .tick_ns = TICK,
		.slots = s->slots, .levels = s->levels,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return probes(test, n);
}

static void wait_at_gate(struct probe *p)
{
	gate_pass(p->data);
}

static void complete_it(struct probe *p)
{
	complete(p->data);
}

static void expect_fires_soon(struct kunit *test, struct probe *p)
{
	unsigned int i;

	for (i = 0; i < 1500 && !READ_ONCE(p->fired); i++)
		msleep(20);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, READ_ONCE(p->fired));
	KUNIT_EXPECT_GE(test, p->fired_ns, p->t.expires);
}

/* All workers wait at @gate, and p[NR_WORKERS] is due and waits for a worker. */
static struct probe *busy_workers(struct kunit *test, struct gate *gate)
{
	struct probe *p = wall_probes(test, NR_WORKERS + 2);
	struct twheel_position pos;
	unsigned int i;

	gate_init(gate);
	for (i = 0; i < NR_WORKERS + 2; i++)
		twheel_use_workqueue(&p[i].t);
	for (i = 0; i < NR_WORKERS; i++) {
		p[i].then = wait_at_gate;
		p[i].data = gate;
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, wall()));
	}
	for (i = 0; i < NR_WORKERS; i++)
		gate_wait(test, gate);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[NR_WORKERS].t, wall() + 20 * TICK));
	for (i = 0; i < 1500 && twheel_position(&p[NR_WORKERS].t, &pos); i++)
		msleep(20);
	return p;
}

static void handed_over_alarm_is_not_called_early_after_a_step(struct kunit *test)
{
	struct completion *called = kunit_kzalloc(test, sizeof(*called), GFP_KERNEL);
	struct gate *gate = kunit_kzalloc(test, sizeof(*gate), GFP_KERNEL);
	struct probe *p = busy_workers(test, gate);
	struct probe *waits = &p[NR_WORKERS], *after = &p[NR_WORKERS + 1];

	init_completion(called);
	after->then = complete_it;
	after->data = called;
	step_wall(-HOUR);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&after->t, wall()));
	complete_all(&gate->open);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(called, PATIENCE), 0UL);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 0U, READ_ONCE(waits->fired));
	KUNIT_EXPECT_TRUE(test, twheel_pending(&waits->t));
	step_wall(HOUR);
	expect_fires_soon(test, waits);
}

/**
 * struct stepper - sets the clock back and arms an alarm when a callback completes @now
 * @helper: thread that runs before anything else on its CPU
 * @now: completed by the callback
 * @late: alarm that is armed for 400 ms after the step
 * @ret: result of this arm
 */
struct stepper {
	struct helper		helper;
	struct completion	now;
	struct probe		*late;
	int			ret;
};

static void step_when_told(void *arg)
{
	struct stepper *s = arg;

	wait_for_completion(&s->now);
	step_wall(-1000 * (s64)NSEC_PER_SEC);
	s->ret = twheel_arm(&s->late->t, wall() + 400 * TICK);
}

/* The tick has more timeouts than a batch, so the visit of their slot is not over. */
static void alarm_set_during_a_visit_after_a_step_back_is_not_late(struct kunit *test)
{
	struct stepper *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct probe *p = wall_probes(test, 301);
	u64 at = wall() + HOUR;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	init_completion(&s->now);
	s->late = &p[300];
	p[0].then = complete_it;
	p[0].data = &s->now;
	for (i = 0; i < 300; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, at));
	helper_start(test, &s->helper, step_when_told, s);
	helper_first(test, &s->helper);
	set_wall(at - 10 * TICK);
	helper_finish(test, &s->helper);
	KUNIT_EXPECT_EQ(test, 0, s->ret);
	expect_fires_soon(test, s->late);
	/*
	 * Far longer than a slow machine needs, far shorter than the block of a level not
	 * searched.
	 */
	KUNIT_EXPECT_LT(test, s->late->fired_ns, s->late->t.expires + 5 * (u64)NSEC_PER_SEC);
	KUNIT_EXPECT_LT(test, p->f->nr_fired, 300U);
	step_wall(1000 * (s64)NSEC_PER_SEC);
	for (i = 0; i < 300; i++)
		expect_fires_soon(test, &p[i]);
}

/* The same steps on the MANUAL clock, without waiting */

static void steps_of_a_manual_clock_lose_nothing(struct kunit *test)
{
	const struct shape *s = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, s->slots, s->levels);
	struct probe *p = probes(test, MANY);
	u64 now = DAY, reach = ref_span(s) * 3 + 1000;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 2);
	reach = min_t(u64, reach, U32_MAX / 2);
	for (i = 0; i < MANY; i++) {
		arm_tick(test, &p[i], div64_u64(now, TICK) + 1 + prandom_u32_state(&rnd) % reach);
		now += (prandom_u32_state(&rnd) % reach / 4) * TICK;
		now -= min_t(u64, now, (prandom_u32_state(&rnd) % reach / 4) * TICK);
		KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now));
	}
	KUNIT_ASSERT_EQ(test, 0, twheel_advance(f->wheel, now + 2 * MANY * reach * TICK));
	for (i = 0; i < MANY; i++) {
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].tick * TICK);
	}
}

static struct kunit_case realtime_cases[] = {
	KUNIT_CASE_PARAM(alarm_fires_and_not_early, shape_gen_params),
	KUNIT_CASE(wheel_follows_the_wall_clock),
	KUNIT_CASE(relative_arm_is_refused),
	KUNIT_CASE_PARAM(time_long_past_fires_at_once, shape_gen_params),
	KUNIT_CASE_PARAM(step_forward_fires_what_became_due, shape_gen_params),
	KUNIT_CASE_PARAM(step_forward_short_of_it_fires_nothing, shape_gen_params),
	KUNIT_CASE_PARAM(alarm_set_after_a_step_forward_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_fires_nothing_early, shape_gen_params),
	KUNIT_CASE_PARAM(alarm_set_after_a_step_back_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(alarm_set_after_a_step_back_in_an_empty_wheel_is_exact,
			 shape_gen_params),
	KUNIT_CASE_PARAM(mod_after_a_step_back_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(cancel_after_a_step_back_takes_it_out, shape_gen_params),
	KUNIT_CASE(step_back_in_the_interrupt_does_not_repeat_it),
	KUNIT_CASE(step_to_tick_0_in_the_interrupt_does_not_repeat_it),
	KUNIT_CASE_PARAM(steps_both_ways_lose_nothing, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_in_the_middle_of_a_pass_fires_nothing_early, shape_gen_params),
	KUNIT_CASE_PARAM(step_back_in_the_middle_of_a_tick_fires_nothing_early, shape_gen_params),
	KUNIT_CASE_PARAM(alarm_for_the_past_set_in_the_sink_before_a_step_back_is_not_late,
			 shape_gen_params),
	KUNIT_CASE_PARAM(alarm_for_the_past_set_between_two_steps_is_not_late, approach_gen_params),
	KUNIT_CASE_PARAM(alarm_set_in_the_sink_after_a_step_back_is_exact, shape_gen_params),
	KUNIT_CASE_PARAM(stop_after_a_step_back_hands_back_all, shape_gen_params),
	KUNIT_CASE_PARAM(handed_over_alarm_is_not_called_early_after_a_step, shape_gen_params),
	KUNIT_CASE_PARAM(alarm_set_during_a_visit_after_a_step_back_is_not_late,
			 shape_gen_params),
	KUNIT_CASE(hours_skipped_by_a_step_are_told_in_one_call),
	KUNIT_CASE(hours_that_come_twice_are_told_once),
	KUNIT_CASE_PARAM(steps_of_a_manual_clock_lose_nothing, shape_gen_params),
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
