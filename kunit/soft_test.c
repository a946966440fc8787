// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of wheels with a sink on a running clock. The sink is called in the soft
 * interrupt of the shard's hrtimer, and for the rest of a pass in the thread of the CPU. Soft
 * interrupts of a CPU handle at most one batch in each period of 2^20 ns.
 */
#include <linux/module.h>
#include <linux/preempt.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define BATCH		128
#define PERIOD_SHIFT	20

/* More than two batches. */
#define MANY		300

/**
 * struct batch - a call of the sink
 * @nr: number of timeouts
 * @period: period of the budget
 * @soft: it was in a soft interrupt
 * @thread: it was in the thread of a CPU
 */
struct batch {
	unsigned int	nr;
	u64		period;
	bool		soft;
	bool		thread;
};

/**
 * struct record - the calls of the sink of a wheel, which has timeouts on one CPU
 * @nr: number of calls
 * @fired: number of timeouts
 * @batch: the first calls
 * @rearm: each timeout is armed again until it has fired as often
 * @brief: only count, to return soon
 */
struct record {
	unsigned int	nr;
	unsigned int	fired;
	struct batch	batch[32];
	unsigned int	rearm;
	bool		brief;
};

/**
 * struct soft - the wheels of a test
 * @f: fixture with the first wheel; the first member, because test->priv points to it
 * @other: the second wheel, or NULL
 * @record: calls of the sink of each
 */
struct soft {
	struct fixture	f;
	struct twheel	*other;
	struct record	record[2];
};

static void note_batch(struct batch *b, unsigned int nr, u64 now_ns)
{
	b->nr = nr;
	b->period = now_ns >> PERIOD_SHIFT;
	b->soft = in_serving_softirq();
	b->thread = in_task() && !strncmp(current->comm, "twheel/", 7);
}

/* Every other timeout that is armed again is a new one in the same memory. */
static void take_probe(struct record *r, struct probe *p, u64 now_ns)
{
	probe_record(p);
	p->ret |= now_ns < p->t.expires;
	twheel_accept(&p->t);
	if (p->then)
		p->then(p);
	if (p->fired >= r->rearm)
		return;
	if (p->id % 2)
		twheel_timeout_init(p->f->wheel, &p->t, NULL);
	p->ret |= twheel_arm(&p->t, 0);
}

static void take(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct record *r = sink_data;
	struct twheel_timeout *t, *next;

	if (r->nr < ARRAY_SIZE(r->batch))
		note_batch(&r->batch[r->nr], nr, now_ns);
	r->nr++;
	list_for_each_entry_safe(t, next, expired, entry) {
		list_del_init(&t->entry);
		if (r->brief)
			twheel_accept(t);
		else
			take_probe(r, container_of(t, struct probe, t), now_ns);
	}
	WRITE_ONCE(r->fired, r->fired + nr);
}

struct sort {
	const char *name;
	enum twheel_clock clock;
	unsigned int levels;
};

static const struct sort sorts[] = {
	{ "monotonic", TWHEEL_MONOTONIC, 0 },
	{ "boottime", TWHEEL_BOOTTIME, 0 },
	{ "realtime", TWHEEL_REALTIME, 0 },
	{ "hashed", TWHEEL_MONOTONIC, 1 },
};

NAMED_PARAM(sort, sorts);

static struct twheel *sink_wheel(struct record *r, const struct sort *sort)
{
	struct twheel_params params = {
		.name = "kunit-soft", .clock = sort->clock, .tick_ns = TICK,
		.levels = sort->levels, .sink = take, .sink_data = r,
	};

	return twheel_create(&params);
}

/* Make the first wheel and @n timeouts. */
static struct probe *sink_probes(struct kunit *test, const struct sort *sort, unsigned int n)
{
	struct soft *soft = test->priv;

	soft->f.wheel = sink_wheel(&soft->record[0], sort);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->f.wheel);
	return probes_for(test, n, NULL);
}

/*
 * Make @t due at the next tick, on the lowest level. On a higher one, which has it if the tick
 * begins a block, the cascade of the crowd would use up the budget.
 */
static int arm_low(struct twheel_timeout *t)
{
	struct twheel_position pos;
	int ret;

	do
		ret = twheel_arm(t, 0);
	while (twheel_position(t, &pos) && pos.level && twheel_cancel(t));
	return ret;
}

/*
 * Make @n timeouts due in one tick of this CPU, where nothing fires meanwhile. A new period of
 * the budget has begun.
 */
static int arm_burst(struct probe *p, unsigned int n)
{
	unsigned long flags;
	unsigned int i;
	int ret = 0;

	fsleep(3000);
	local_irq_save(flags);
	for (i = 0; i < n; i++)
		ret |= arm_low(&p[i].t);
	local_irq_restore(flags);
	return ret;
}

static unsigned int nr_fired(struct soft *soft)
{
	return READ_ONCE(soft->record[0].fired) + READ_ONCE(soft->record[1].fired);
}

/* The wheels have fired @n times in all, and their sinks have returned. */
static void expect_fired(struct kunit *test, unsigned int n)
{
	unsigned long end = jiffies + PATIENCE;
	struct soft *soft = test->priv;

	while (nr_fired(soft) < n && time_before(jiffies, end))
		fsleep(1000);
	twheel_flush(soft->f.wheel);
	KUNIT_ASSERT_EQ(test, n, nr_fired(soft));
}

/* Soft interrupt and thread */

static void single_timeout_needs_no_thread(struct kunit *test)
{
	struct soft *soft = test->priv;
	struct batch *b = soft->record[0].batch;
	struct probe *p = sink_probes(test, &sorts[0], 1);

	KUNIT_EXPECT_EQ(test, 0, twheel_arm_after(&p->t, 5 * TICK));
	expect_fired(test, 1);
	KUNIT_EXPECT_EQ(test, 1U, soft->record[0].nr);
	KUNIT_EXPECT_EQ(test, 1U, b->nr);
	KUNIT_EXPECT_TRUE(test, b->soft);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
}

static void rest_of_a_burst_is_for_the_thread(struct kunit *test)
{
	struct probe *p = sink_probes(test, test->param_value, MANY);
	struct soft *soft = test->priv;
	struct record *r = &soft->record[0];
	unsigned int i, nr = 0;

	KUNIT_ASSERT_EQ(test, 0, arm_burst(p, MANY));
	expect_fired(test, MANY);
	expect_fired_in_id_order(test, MANY);
	KUNIT_EXPECT_TRUE(test, r->batch[0].soft);
	KUNIT_EXPECT_EQ(test, BATCH, r->batch[0].nr);
	for (i = 1; i < r->nr; i++) {
		KUNIT_EXPECT_TRUE(test, r->batch[i].thread);
		nr += r->batch[i].nr;
	}
	KUNIT_EXPECT_EQ(test, MANY - BATCH, nr);
}

/* On CLOCK_REALTIME a time in the past comes before all others, also before those that are due. */
static void timeouts_armed_in_the_sink_are_served_by_both(struct kunit *test)
{
	struct probe *p = sink_probes(test, test->param_value, MANY);
	struct soft *soft = test->priv;
	unsigned int i;

	soft->record[0].rearm = 20;
	KUNIT_ASSERT_EQ(test, 0, arm_burst(p, MANY));
	expect_fired(test, 20 * MANY);
	for (i = 0; i < MANY; i++) {
		KUNIT_ASSERT_EQ(test, 20U, p[i].fired);
		KUNIT_ASSERT_EQ(test, 0, p[i].ret);
	}
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(soft->f.wheel));
}

/* Arm a timeout for the past and cancel it. Meanwhile arm one of another wheel. */
static void arm_and_cancel(struct probe *p)
{
	struct probe *past = p->other, *soon = past->other;

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
	struct probe *p = sink_probes(test, &sorts[2], 4);
	struct soft *soft = test->priv;
	u64 now = ktime_get_real_ns();

	soft->other = sink_wheel(&soft->record[1], &sorts[2]);
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

static void note_callback(struct twheel_timeout *t)
{
	struct record *r = container_of(t, struct probe, t)->data;

	note_batch(&r->batch[r->fired], 1, 0);
	WRITE_ONCE(r->fired, r->fired + 1);
}

static void callbacks_run_in_the_thread(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-soft", .tick_ns = TICK };
	struct soft *soft = test->priv;
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(&soft->f, &params));
	p = probes_for(test, 32, note_callback);
	for (i = 0; i < 32; i++)
		p[i].data = &soft->record[0];
	KUNIT_ASSERT_EQ(test, 0, arm_burst(p, 32));
	expect_fired(test, 32);
	for (i = 0; i < 32; i++)
		KUNIT_EXPECT_TRUE(test, soft->record[0].batch[i].thread);
}

/* The budget of soft interrupts */

static void budget_is_refilled(struct kunit *test)
{
	struct probe *p = sink_probes(test, &sorts[0], MANY);
	struct soft *soft = test->priv;
	struct batch *b = soft->record[0].batch;
	unsigned int i;

	for (i = 1; i <= 10; i++) {
		soft->record[0].nr = 0;
		KUNIT_ASSERT_EQ(test, 0, arm_burst(p, MANY));
		expect_fired(test, i * MANY);
		KUNIT_ASSERT_TRUE(test, b->soft);
		KUNIT_ASSERT_EQ(test, BATCH, b->nr);
	}
}

/**
 * struct share - two wheels share the budget of a CPU
 * @name: for the log
 * @each: timeouts of each wheel, at most a batch
 * @rest: what is left for the second of them
 */
struct share {
	const char	*name;
	unsigned int	each;
	unsigned int	rest;
};

static const struct share shares[] = {
	{ "nothing is left", BATCH, 0 },
	{ "a part is left", 100, 28 },
	{ "enough is left", 64, 64 },
};

NAMED_PARAM(share, shares);

static unsigned int soft_part(const struct record *r)
{
	return r->batch[0].soft ? r->batch[0].nr : 0;
}

/* A period may end between the two wheels: then each may have a batch. */
static void wheels_of_a_cpu_share_the_budget(struct kunit *test)
{
	const struct share *s = test->param_value;
	struct probe *p = sink_probes(test, &sorts[0], 2 * BATCH);
	struct soft *soft = test->priv;
	struct record *r = soft->record;
	unsigned int i, low = U32_MAX;

	soft->other = sink_wheel(&r[1], &sorts[0]);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, soft->other);
	for (i = 0; i < s->each; i++)
		twheel_timeout_init(soft->other, &p[s->each + i].t, NULL);
	r[0].brief = true;
	r[1].brief = true;
	for (i = 1; i <= 1000 && low > s->rest; i++) {
		r[0].nr = 0;
		r[1].nr = 0;
		KUNIT_ASSERT_EQ(test, 0, arm_burst(p, 2 * s->each));
		expect_fired(test, i * 2 * s->each);
		low = min(soft_part(&r[0]), soft_part(&r[1]));
		/* The thread had not run its last, empty turn. */
		if (max(soft_part(&r[0]), soft_part(&r[1])) != s->each) {
			low = U32_MAX;
			continue;
		}
		if (r[0].batch[0].soft && r[1].batch[0].soft &&
		    r[0].batch[0].period == r[1].batch[0].period)
			KUNIT_ASSERT_EQ(test, s->rest, low);
	}
	if (low > s->rest)
		kunit_skip(test, "a batch takes longer than a period");
	KUNIT_EXPECT_EQ(test, s->rest, low);
}

/* Waiting for a sink */

static int soft_init(struct kunit *test)
{
	struct soft *soft = kunit_kzalloc(test, sizeof(*soft), GFP_KERNEL);

	if (!soft)
		return -ENOMEM;
	spin_lock_init(&soft->f.lock);
	test->priv = soft;
	return set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
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
	KUNIT_CASE(single_timeout_needs_no_thread),
	KUNIT_CASE_PARAM(rest_of_a_burst_is_for_the_thread, sort_gen_params),
	KUNIT_CASE_PARAM(timeouts_armed_in_the_sink_are_served_by_both, sort_gen_params),
	KUNIT_CASE(arm_in_the_sink_leaves_the_hrtimer_alone),
	KUNIT_CASE(callbacks_run_in_the_thread),
	KUNIT_CASE(budget_is_refilled),
	KUNIT_CASE_PARAM(wheels_of_a_cpu_share_the_budget, share_gen_params),
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
