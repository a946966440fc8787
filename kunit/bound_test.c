// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of bounds: how far a cascade delays a due timeout, how often the thread is woken, and
 * how much a search costs.
 *
 *	twheel_bound_kunit.many=1000000
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "fixture.h"

static unsigned int many = IS_ENABLED(CONFIG_KASAN) ? 200000 : 1000000;
module_param(many, uint, 0444);
MODULE_PARM_DESC(many, "Number of timeouts that cascade from one slot");

#define TICK		((u64)NSEC_PER_MSEC)
#define BATCH		128

/*
 * A cascade delays a due timeout by a batch at most. With 256 slots and short ticks, a slot of
 * level 2 covers 1.6 s, more than the lead. At the default of 1 ms, fewer would come due meanwhile.
 */
#define SHORT_TICK	(100 * (u64)NSEC_PER_USEC)
#define BLOCK_NS	(256 * 64 * SHORT_TICK)

/**
 * struct cascade - very many timeouts that cascade, and one that comes due meanwhile
 * @f: the fixture
 * @due_timeout: armed for the next tick again and again during the cascade
 * @sample_timer: hrtimer that arms @due_timeout, and notes when it has come due
 * @start_ns: begin of their block. A cascade that is late delays the timeouts of the block
 * @base: number of timeouts that had been moved down before
 * @due_ns: the time at which @due_timeout is due; 0 if it is not armed
 * @cascaded_when_due: number of timeouts moved down when @due_timeout was found due, or 0
 * @samples: how often @due_timeout was called during the cascade
 * @worst: maximum number of timeouts moved down while @due_timeout was due
 */
struct cascade {
	struct fixture	*f;
	struct test_timeout	*due_timeout;
	struct hrtimer	sample_timer;
	u64		start_ns;
	u64		base;
	u64		due_ns;
	u64		cascaded_when_due;
	unsigned int	samples;
	u64		worst;
};

/* bound_exit() frees it. */
static struct twheel_timeout *cascading;

static noinline u64 nr_cascaded(const struct cascade *cascade)
{
	struct twheel_counters stats;

	twheel_get_counters(cascade->f->wheel, &stats);
	return stats.cascaded - cascade->base;
}

static void noop_callback(struct twheel_timeout *t)
{
}

/* Interrupts the cascade where the engine enables interrupts: between two batches. */
static enum hrtimer_restart sample_timer_fn(struct hrtimer *timer)
{
	struct cascade *cascade = container_of(timer, struct cascade, sample_timer);
	u64 cascaded = nr_cascaded(cascade), now = ktime_get_ns();
	/* The tick after the next: the next may begin before it is armed. */
	u64 due_ns = (div64_u64(now, SHORT_TICK) + 2) * SHORT_TICK;

	hrtimer_forward_now(timer, ns_to_ktime(50 * NSEC_PER_USEC));
	if (READ_ONCE(cascade->due_ns)) {
		if (!cascade->cascaded_when_due && now >= cascade->due_ns)
			WRITE_ONCE(cascade->cascaded_when_due, cascaded);
	} else if (cascaded && cascaded < many && due_ns < cascade->start_ns) {
		cascade->cascaded_when_due = 0;
		if (!twheel_arm(&cascade->due_timeout->t, due_ns))
			WRITE_ONCE(cascade->due_ns, due_ns);
	}
	return HRTIMER_RESTART;
}

static void take_sample(struct test_timeout *p)
{
	struct cascade *cascade = p->data;

	cascade->samples++;
	/* On a machine that stood still until the block began, the cascade has to be first. */
	if (READ_ONCE(cascade->cascaded_when_due) && ktime_get_ns() < cascade->start_ns)
		cascade->worst = max(cascade->worst,
				     nr_cascaded(cascade) - cascade->cascaded_when_due);
	WRITE_ONCE(cascade->due_ns, 0);
}

/* Arm all for one slot, @ahead blocks from now. Returns false if its cascade may have begun. */
static bool arm_cascade(struct kunit *test, struct cascade *cascade, u64 ahead)
{
	u64 start = (div64_u64(ktime_get_ns(), BLOCK_NS) + ahead) * BLOCK_NS;
	unsigned int i, failed = 0;

	for (i = 0; i < many; i++) {
		failed += twheel_mod(&cascading[i], start + (1 + i % 16000) * SHORT_TICK) < 0;
		if (i % 1024 == 0)
			cond_resched();
	}
	KUNIT_EXPECT_EQ(test, 0U, failed);
	cascade->base += nr_cascaded(cascade);
	cascade->start_ns = start;
	return ktime_get_ns() < start - NSEC_PER_SEC;
}

static struct cascade *create_cascade(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit", .tick_ns = SHORT_TICK, .slots = 256 };
	struct cascade *cascade = kunit_kzalloc(test, sizeof(*cascade), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, cascade);
	cascade->f = test->priv;
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(cascade->f, &params));
	cascade->due_timeout = create_timeouts(test, 1);
	cascade->due_timeout->then = take_sample;
	cascade->due_timeout->data = cascade;
	cascading = kvcalloc(many, sizeof(*cascading), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cascading);
	for (i = 0; i < many; i++)
		twheel_timeout_init(cascade->f->wheel, &cascading[i], noop_callback);
	return cascade;
}

static void run_cascade(struct kunit *test, struct cascade *cascade)
{
	unsigned long end = jiffies + MAX_WAIT;

	hrtimer_setup(&cascade->sample_timer, sample_timer_fn, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&cascade->sample_timer, ns_to_ktime(0), HRTIMER_MODE_REL_PINNED_HARD);
	while (nr_cascaded(cascade) < many && time_before(jiffies, end))
		msleep(20);
	hrtimer_cancel(&cascade->sample_timer);
	twheel_cancel_sync(&cascade->due_timeout->t);
	WRITE_ONCE(cascade->due_ns, 0);
	kunit_info(test, "%u cascade; of %u due meanwhile, one waited for %llu of them\n", many,
		   cascade->samples, cascade->worst);
}

/* The due timeout waits for at most one batch of the cascade. */
static void due_timeout_waits_for_one_batch_while_a_million_cascade(struct kunit *test)
{
	struct cascade *cascade = create_cascade(test);
	u64 ahead = 3, tries;

	/* A slow machine needs longer to arm them all. It may begin the cascade too late. */
	for (tries = 0; cascade->samples < 3 && tries < 8; tries++) {
		if (arm_cascade(test, cascade, ahead))
			run_cascade(test, cascade);
		else
			ahead *= 2;
	}
	KUNIT_EXPECT_GE(test, nr_cascaded(cascade), (u64)many);
	KUNIT_EXPECT_GE(test, cascade->samples, 3U);
	KUNIT_EXPECT_LE(test, cascade->worst, (u64)BATCH);
	/* None of them may fire while the next test uses their memory. */
	fixture_exit(test);
}

/* Wakeups */

/* Ticks from the begin of a block of 256 ticks. All timeouts but the last are cancelled. */
static const struct wakeup {
	unsigned int levels, n;
	u64 at[3];
} wakeups[] = {
	{ 0, 1, { 120 } }, { 1, 1, { 4 * 256 + 120 } },
	{ 0, 2, { 100, 120 } }, { 0, 2, { 100, 100 } },
	{ 0, 3, { 50, 100, 200 } }, { 0, 3, { 120, 80, 130 } },
	/* an earlier round and a later one are cancelled */
	{ 1, 2, { 120, 2 * 256 + 120 } }, { 1, 2, { 8 * 256 + 120, 256 + 120 } },
};

KUNIT_ARRAY_PARAM(wakeup, wakeups, NULL);

/*
 * Arm all timeouts and cancel the first ones before block @block begins. Returns false if the
 * block has begun: the thread may then have been woken for a cancelled timeout.
 */
static bool arm_and_cancel(struct kunit *test, const struct wakeup *c, struct test_timeout *p,
			   u64 block)
{
	unsigned int i;

	for (i = 0; i < c->n; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, (block * 256 + c->at[i]) * TICK));
	for (i = 0; i + 1 < c->n; i++)
		twheel_cancel(&p[i].t);
	return ktime_get_ns() < block * 256 * TICK;
}

static void remaining_timeout_of_a_slot_costs_one_wakeup(struct kunit *test)
{
	const struct wakeup *c = test->param_value;
	struct twheel_params params = { .name = "kunit", .tick_ns = TICK, .slots = 256,
					.levels = c->levels };
	struct fixture *f = test->priv;
	struct twheel_counters before, after;
	struct test_timeout *p, *last;
	unsigned int i, ahead;
	bool in_time = false;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	p = create_timeouts(test, c->n);
	last = &p[c->n - 1];
	/* A busy machine may need longer than a block. */
	for (ahead = 2; !in_time && ahead <= 64; ahead *= 2) {
		for (i = 0; i < c->n; i++)
			twheel_cancel_sync(&p[i].t);
		twheel_flush(f->wheel);
		last->fired = 0;
		twheel_get_counters(f->wheel, &before);
		in_time = arm_and_cancel(test, c, p, div64_u64(ktime_get_ns(), 256 * TICK) + ahead);
	}
	KUNIT_ASSERT_TRUE(test, in_time);
	for (i = 0; i < 1000 && !READ_ONCE(last->fired); i++)
		msleep(20);
	twheel_flush(f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, last->fired);
	twheel_get_counters(f->wheel, &after);
	KUNIT_EXPECT_EQ(test, 1ULL, after.wakeups - before.wakeups);
}

/* Searches */

struct batches {
	unsigned int nr, largest;
};

static void record_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct batches *batches = sink_data;

	record_sink(NULL, expired, nr, now_ns);
	batches->nr++;
	batches->largest = max(batches->largest, nr);
}

/* The search for the slot of the batch passes 100 slots with one timeout of a later round. */
static void search_of_a_hashed_wheel_shortens_the_batch(struct kunit *test)
{
	struct batches *batches = kunit_kzalloc(test, sizeof(*batches), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit", .clock = TWHEEL_MANUAL, .tick_ns = TICK, .slots = 256,
		.levels = 1, .sink = record_batch, .sink_data = batches,
	};
	struct test_timeout *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, batches);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = create_timeouts_fn(test, BATCH + 100, NULL);
	for (i = 0; i < 100; i++)
		arm_at_tick(test, &p[BATCH + i], 10 * 256 + 1 + i);
	for (i = 0; i < BATCH; i++)
		arm_at_tick(test, &p[i], 101);
	advance_to_tick(test, 101);
	expect_fired_in_id_order(test, BATCH);
	KUNIT_EXPECT_EQ(test, 2U, batches->nr);
	KUNIT_EXPECT_EQ(test, BATCH - 101U / 2, batches->largest);
	advance_to_tick(test, 10 * 256 + 100);
	expect_fired_in_id_order(test, BATCH + 100);
}

static void bound_exit(struct kunit *test)
{
	fixture_exit(test);
	kvfree(cascading);
	cascading = NULL;
}

static struct kunit_case bound_cases[] = {
	KUNIT_CASE(due_timeout_waits_for_one_batch_while_a_million_cascade),
	KUNIT_CASE_PARAM(remaining_timeout_of_a_slot_costs_one_wakeup, wakeup_gen_params),
	KUNIT_CASE(search_of_a_hashed_wheel_shortens_the_batch),
	{}
};

static struct kunit_suite bound_suite = {
	.name = "twheel-bound",
	.init = fixture_init,
	.exit = bound_exit,
	.test_cases = bound_cases,
};

module_test_suite(bound_suite);

MODULE_DESCRIPTION("KUnit suite of the bounds of a timing wheel");
MODULE_LICENSE("GPL");
