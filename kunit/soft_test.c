// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels with a sink on a running clock. The sink is called in the soft
 * interrupt of the shard's hrtimer. Soft interrupts of a CPU may use a quarter of its time, and
 * 2^17 ns at once. Beyond that, the thread of the CPU calls the sink too.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "fixture.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define BATCH		128
#define CPU_SHARE	4
#define SOFT_NS		131072ULL

/* After this time the budget is full, whatever has happened before. */
#define REFILL_US	20000

/* More than two batches. */
#define NR_BURST	300
#define MAX_ATTEMPTS	20

/* A call of the sink that takes so long uses the budget up. */
#define LONG_NS		(SOFT_NS + 50 * NSEC_PER_USEC)

/**
 * struct batch - a call of the sink
 * @nr: number of timeouts
 * @start_ns: when it began
 * @soft: it was in a soft interrupt
 * @thread: it was in the thread of a CPU
 */
struct batch {
	unsigned int	nr;
	u64		start_ns;
	bool		soft;
	bool		thread;
};

/**
 * struct sink_log - the calls of the sink of a wheel, which has timeouts on one CPU
 * @nr: number of calls
 * @fired: number of timeouts
 * @batch: the first calls
 * @long_ns: each call takes so long
 */
struct sink_log {
	unsigned int	nr;
	unsigned int	fired;
	struct batch	batch[32];
	u64		long_ns;
};

/**
 * struct soft - the wheels of a test
 * @f: fixture with the first wheel; the first member, because test->priv points to it
 * @other: the second wheel, or NULL
 * @sink_log: calls of the sink of each
 */
struct soft {
	struct fixture	f;
	struct twheel	*other;
	struct sink_log	sink_log[2];
};

static void log_batch(struct batch *b, unsigned int nr)
{
	b->nr = nr;
	b->start_ns = ktime_get_ns();
	b->soft = in_serving_softirq();
	b->thread = in_task() && !strncmp(current->comm, "twheel/", 7);
}

static void soft_sink(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct sink_log *r = sink_data;
	struct twheel_timeout *t, *next;
	u64 end_ns = ktime_get_ns() + r->long_ns;

	if (r->nr < ARRAY_SIZE(r->batch))
		log_batch(&r->batch[r->nr], nr);
	r->nr++;
	list_for_each_entry_safe(t, next, expired, entry) {
		struct test_timeout *p = container_of(t, struct test_timeout, t);

		list_del_init(&t->entry);
		p->ret |= now_ns < t->expires;
		record_callback(t);
		twheel_accept(t);
	}
	while (ktime_get_ns() < end_ns)
		cpu_relax();
	WRITE_ONCE(r->fired, r->fired + nr);
}

struct wheel_kind {
	const char *name;
	enum twheel_clock clock;
	unsigned int levels;
};

static const struct wheel_kind wheel_kinds[] = {
	{ "monotonic", TWHEEL_MONOTONIC, 0 },
	{ "boottime", TWHEEL_BOOTTIME, 0 },
	{ "realtime", TWHEEL_REALTIME, 0 },
	{ "hashed", TWHEEL_MONOTONIC, 1 },
};

NAMED_PARAM(wheel_kind, wheel_kinds);

static struct twheel *create_sink_wheel(struct sink_log *r, const struct wheel_kind *kind)
{
	struct twheel_params params = {
		.name = "kunit-soft", .clock = kind->clock, .tick_ns = TICK,
		.levels = kind->levels, .sink = soft_sink, .sink_data = r,
	};

	return twheel_create(&params);
}

/* Make the first wheel and @n timeouts. */
static struct test_timeout *create_sink_timeouts(struct kunit *test,
						 const struct wheel_kind *kind, unsigned int n)
{
	struct soft *soft = test->priv;

	soft->f.wheel = create_sink_wheel(&soft->sink_log[0], kind);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->f.wheel);
	return create_timeouts_fn(test, n, NULL);
}

/* Without high-resolution timers, the thread alone fires. */
static void skip_without_soft_interrupts(struct kunit *test)
{
	if (hrtimer_resolution > 1)
		kunit_skip(test, "hrtimers have the resolution of the tick");
}

/*
 * Make @t due at the next tick, on the lowest level. On a higher one, which has it if the tick
 * begins a block, the cascade of the crowd would use up the budget.
 */
static int arm_on_level_0(struct twheel_timeout *t)
{
	struct twheel_position pos;
	int ret;

	do
		ret = twheel_arm(t, 0);
	while (twheel_position(t, &pos) && pos.level && twheel_cancel(t));
	return ret;
}

/* Make @n due in one tick of this CPU, where nothing fires meanwhile. The budget is full. */
static int arm_burst(struct test_timeout *p, unsigned int n)
{
	unsigned long flags;
	unsigned int i;
	int ret = 0;

	fsleep(REFILL_US);
	local_irq_save(flags);
	for (i = 0; i < n; i++)
		ret |= arm_on_level_0(&p[i].t);
	local_irq_restore(flags);
	return ret;
}

static unsigned int nr_fired(struct soft *soft)
{
	return READ_ONCE(soft->sink_log[0].fired) + READ_ONCE(soft->sink_log[1].fired);
}

/* The wheels have fired @n times in all, and their sinks have returned. */
static void expect_fired(struct kunit *test, unsigned int n)
{
	unsigned long end = jiffies + MAX_WAIT;
	struct soft *soft = test->priv;

	while (nr_fired(soft) < n && time_before(jiffies, end))
		fsleep(1000);
	twheel_flush(soft->f.wheel);
	KUNIT_ASSERT_EQ(test, n, nr_fired(soft));
}

/* Soft interrupt and thread */

/* Forget what has fired. The sink of the first wheel takes @long_ns for each batch from now on. */
static void begin_attempt(struct soft *soft, u64 long_ns)
{
	unsigned int i;

	soft->f.nr_fired = 0;
	for (i = 0; i < ARRAY_SIZE(soft->sink_log); i++) {
		soft->sink_log[i].nr = 0;
		soft->sink_log[i].fired = 0;
		soft->sink_log[i].long_ns = long_ns;
	}
}

/* In some try: the thread may be so late that the next soft interrupt comes before it. */
static void thread_goes_on_when_the_budget_is_used_up(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, test->param_value, NR_BURST);
	struct soft *soft = test->priv;
	struct batch *b = soft->sink_log[0].batch;
	bool thread = false;
	unsigned int i;

	skip_without_soft_interrupts(test);
	for (i = 0; i < MAX_ATTEMPTS && !thread; i++) {
		begin_attempt(soft, LONG_NS);
		KUNIT_ASSERT_EQ(test, 0, arm_burst(p, NR_BURST));
		expect_fired(test, NR_BURST);
		expect_fired_in_id_order(test, NR_BURST);
		KUNIT_ASSERT_TRUE(test, b[0].soft);
		KUNIT_ASSERT_EQ(test, BATCH, b[0].nr);
		thread = b[1].thread;
	}
	KUNIT_EXPECT_TRUE(test, thread);
}

/* Make @n timeouts due, and keep the thread of this CPU from running until they have fired. */
static int burst_beside_a_real_time_task(struct soft *soft, struct test_timeout *p, unsigned int n)
{
	u64 end_ns;
	int ret;

	sched_set_fifo(current);
	ret = arm_burst(p, n);
	end_ns = ktime_get_ns() + 400 * TICK;
	while (nr_fired(soft) < n && ktime_get_ns() < end_ns)
		cpu_relax();
	sched_set_normal(current, 0);
	return ret;
}

/* Calls of other tasks while the function of an hrtimer has no lock yet */

static struct {
	struct soft		*soft;
	struct test_timeout	*p;
	unsigned int		calls;		/* for the first wheel */
	void			(*fn)(void);	/* called in each */
} window;

static void race_window_fn(struct twheel *w, enum twheel_window where)
{
	if (where == TWHEEL_AT_RESUME)
		WRITE_ONCE(twheel_test.set_back_ns, 0);
	if (where != TWHEEL_AT_TIMER || w != window.soft->f.wheel)
		return;
	window.calls++;
	if (window.fn)
		window.fn();
}

static void set_race_window(struct kunit *test, struct test_timeout *p, void (*fn)(void))
{
	window.soft = test->priv;
	window.p = p;
	window.calls = 0;
	window.fn = fn;
	WRITE_ONCE(twheel_test.window, race_window_fn);
}

/* Afterwards no hrtimer calls it: its wheel is stopped. */
static void clear_race_window(struct soft *soft)
{
	twheel_stop(soft->f.wheel, NULL, NULL);
	WRITE_ONCE(twheel_test.window, NULL);
	WRITE_ONCE(twheel_test.set_back_ns, 0);
}

/* The thread does nothing for it. */
static void timeout_needs_one_soft_interrupt(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, test->param_value, 1);
	struct soft *soft = test->priv;
	struct batch *b = soft->sink_log[0].batch;

	skip_without_soft_interrupts(test);
	set_race_window(test, p, NULL);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p->t, twheel_now(soft->f.wheel) + 5 * TICK));
	expect_fired(test, 1);
	clear_race_window(soft);
	KUNIT_EXPECT_EQ(test, 1U, window.calls);
	KUNIT_EXPECT_EQ(test, 1U, soft->sink_log[0].nr);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_TRUE(test, b->soft);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

/* Arm a timeout for the past, and one of another wheel, which its hrtimer must not wait for. */
static void arm_before_the_lock(void)
{
	if (window.calls > 1)
		return;
	window.p[0].ret |= twheel_arm(&window.p[1].t, 0);
	window.p[0].ret |= twheel_arm(&window.p[2].t, twheel_now(window.soft->f.wheel) + 5 * TICK);
}

static void arm_before_the_lock_is_for_the_next_call(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, &wheel_kinds[0], 4);
	struct soft *soft = test->priv;
	u64 now;

	soft->other = create_sink_wheel(&soft->sink_log[1], &wheel_kinds[0]);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->other);
	twheel_timeout_init(soft->other, &p[2].t, NULL);
	set_race_window(test, p, arm_before_the_lock);
	now = twheel_now(soft->f.wheel);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[3].t, now + 3600 * (u64)NSEC_PER_SEC));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[0].t, now + 20 * TICK));
	expect_fired(test, 3);
	clear_race_window(soft);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[2].fired);
}

#define MAX_CALLS	1000000

/* The clock is behind the hrtimer until another soft interrupt has a turn. */
static void set_clock_back(void)
{
	WRITE_ONCE(twheel_test.set_back_ns, window.calls < MAX_CALLS ? 10 * TICK : 0);
}

static void budget_ends_calls_for_a_clock_that_is_set_back(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, &wheel_kinds[2], 1);
	struct soft *soft = test->priv;

	set_race_window(test, p, set_clock_back);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p->t, ktime_get_real_ns() + 5 * TICK));
	expect_fired(test, 1);
	clear_race_window(soft);
	KUNIT_EXPECT_LT(test, window.calls, MAX_CALLS);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

/* Arm a timeout for the past and cancel it. Meanwhile arm one of another wheel. */
static void arm_and_cancel(struct test_timeout *p)
{
	struct test_timeout *past = p->other, *soon = past->other;

	p->ret |= twheel_arm(&past->t, 0);
	p->ret |= twheel_arm(&soon->t, twheel_now(p->f->wheel) + 5 * TICK);
	p->ret |= !twheel_cancel(&past->t);
}

/*
 * The turn ends with a deadline in an hour, for which the hrtimer is set again. If an arm in the
 * sink had set it for the past, all hrtimers set after that arm would wait for the hour.
 */
static void arm_in_the_sink_leaves_the_hrtimer_alone(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, &wheel_kinds[2], 4);
	struct soft *soft = test->priv;
	u64 now = ktime_get_real_ns();

	soft->other = create_sink_wheel(&soft->sink_log[1], &wheel_kinds[2]);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->other);
	p[0].then = arm_and_cancel;
	p[0].other = &p[1];
	p[1].other = &p[2];
	twheel_timeout_init(soft->other, &p[2].t, NULL);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[3].t, now + 3600 * (u64)NSEC_PER_SEC));
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, now + 2 * TICK));
	expect_fired(test, 2);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[2].fired);
}

static void log_callback(struct twheel_timeout *t)
{
	struct sink_log *r = container_of(t, struct test_timeout, t)->data;

	log_batch(&r->batch[r->fired], 1);
	WRITE_ONCE(r->fired, r->fired + 1);
}

static void callbacks_run_in_the_thread(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-soft", .tick_ns = TICK };
	struct soft *soft = test->priv;
	struct test_timeout *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(&soft->f, &params));
	p = create_timeouts_fn(test, 32, log_callback);
	for (i = 0; i < 32; i++)
		p[i].data = &soft->sink_log[0];
	KUNIT_ASSERT_EQ(test, 0, arm_burst(p, 32));
	expect_fired(test, 32);
	for (i = 0; i < 32; i++)
		KUNIT_EXPECT_TRUE(test, soft->sink_log[0].batch[i].thread);
}

/* The budget of soft interrupts */

/* Half of the timeouts may belong to a second wheel. */
static const struct burst {
	const char *name;
	const struct wheel_kind *kind;
	bool second;
} bursts[] = {
	{ "monotonic", &wheel_kinds[0] },
	{ "two wheels", &wheel_kinds[0], true },
	{ "boottime", &wheel_kinds[1] },
	{ "realtime", &wheel_kinds[2] },
	{ "hashed", &wheel_kinds[3] },
};

NAMED_PARAM(burst, bursts);

/*
 * Turns in soft interrupts wait until those before, of both wheels, are a quarter of the time. A
 * real-time task keeps the thread from running, so in some try the whole burst has soft interrupts
 * alone: a machine that stands still wakes ksoftirqd, and before Linux 6.5 the next soft interrupts
 * wait for it, and so for the task.
 */
static void budget_limits_soft_interrupts(struct kunit *test)
{
	const struct burst *burst = test->param_value;
	struct test_timeout *p = create_sink_timeouts(test, burst->kind, 8 * BATCH);
	struct soft *soft = test->priv;
	struct sink_log *r = soft->sink_log;
	unsigned int i, nr;
	u64 first, last;
	bool all = false;
	int ret;

	skip_without_soft_interrupts(test);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "soft interrupts run in threads");
	soft->other = create_sink_wheel(&r[1], &wheel_kinds[0]);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->other);
	for (i = 0; i < 8 * BATCH && burst->second; i += 2)
		twheel_timeout_init(soft->other, &p[i].t, NULL);
	for (i = 0; i < MAX_ATTEMPTS && !all; i++) {
		begin_attempt(soft, LONG_NS);
		ret = burst_beside_a_real_time_task(soft, p, 8 * BATCH);
		KUNIT_ASSERT_EQ(test, 0, ret);
		expect_fired(test, 8 * BATCH);
		all = r[0].nr + r[1].nr == 8;
		first = U64_MAX;
		last = 0;
		for (nr = 0; nr < 16 && all; nr++) {
			const struct batch *b = &r[nr / 8].batch[nr % 8];

			if (nr % 8 >= r[nr / 8].nr)
				continue;
			all = b->soft;
			first = min(first, b->start_ns);
			last = max(last, b->start_ns);
		}
	}
	KUNIT_ASSERT_TRUE(test, all);
	KUNIT_EXPECT_GE(test, last - first, 7 * CPU_SHARE * LONG_NS - CPU_SHARE * SOFT_NS);
}

/* Turns on CLOCK_REALTIME, which is far ahead, leave a budget for those on others. */
static void budget_has_one_clock(struct kunit *test)
{
	struct test_timeout *p = create_sink_timeouts(test, &wheel_kinds[2], 2);
	struct soft *soft = test->priv;

	skip_without_soft_interrupts(test);
	soft->other = create_sink_wheel(&soft->sink_log[1], &wheel_kinds[0]);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->other);
	twheel_timeout_init(soft->other, &p[1].t, NULL);
	KUNIT_ASSERT_EQ(test, 0, arm_burst(p, 1));
	expect_fired(test, 1);
	KUNIT_ASSERT_EQ(test, 0, arm_burst(p + 1, 1));
	expect_fired(test, 2);
	KUNIT_EXPECT_TRUE(test, soft->sink_log[0].batch[0].soft);
	KUNIT_EXPECT_TRUE(test, soft->sink_log[1].batch[0].soft);
}

static int soft_init(struct kunit *test)
{
	return fixture_init_size(test, sizeof(struct soft));
}

static void soft_exit(struct kunit *test)
{
	struct soft *soft = test->priv;

	if (!soft)
		return;
	twheel_destroy(soft->other);
	fixture_exit(test);
}

static struct kunit_case soft_cases[] = {
	KUNIT_CASE_PARAM(timeout_needs_one_soft_interrupt, wheel_kind_gen_params),
	KUNIT_CASE(arm_before_the_lock_is_for_the_next_call),
	KUNIT_CASE(budget_ends_calls_for_a_clock_that_is_set_back),
	KUNIT_CASE_PARAM(thread_goes_on_when_the_budget_is_used_up, wheel_kind_gen_params),
	KUNIT_CASE(arm_in_the_sink_leaves_the_hrtimer_alone),
	KUNIT_CASE(callbacks_run_in_the_thread),
	KUNIT_CASE_PARAM(budget_limits_soft_interrupts, burst_gen_params),
	KUNIT_CASE(budget_has_one_clock),
	{}
};

static struct kunit_suite soft_suite = {
	.name = "twheel-soft",
	.init = soft_init,
	.exit = soft_exit,
	.test_cases = soft_cases,
};

module_test_suite(soft_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels that fire in soft interrupts");
MODULE_LICENSE("GPL");
