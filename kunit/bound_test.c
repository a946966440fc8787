// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of bounds: how far a cascade delays a due timeout, how much of the wheel a
 * search examines, and how often the thread is woken.
 *
 *	insmod twheel_bound_kunit.ko many=1000000 wide=65536
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

static unsigned int many = IS_ENABLED(CONFIG_KASAN) ? 200000 : 1000000;
module_param(many, uint, 0444);
MODULE_PARM_DESC(many, "Number of timeouts that cascade from one slot");

static unsigned int wide = 65536;
module_param(wide, uint, 0444);
MODULE_PARM_DESC(wide, "Slots of the wheel whose search is timed, 16384 or more");

#define TICK		((u64)NSEC_PER_MSEC)
#define BATCH		128

/* Number of ticks of a slot of level 2 of the default wheel. */
#define BLOCK		65536ULL

/* A cascade may begin this many ticks before its block. */
#define BEFORE		1500

/**
 * struct flood - very many timeouts that cascade, and a probe that comes due meanwhile
 * @f: the fixture
 * @probe: armed for the next tick again and again during the cascade
 * @alarm: hrtimer that arms @probe and moves the clock to the tick of @probe
 * @end: @alarm does not move the clock to this tick or past it. An early cascade must end
 *	before its block begins, so the clock of the test must leave it that time
 * @cascaded: number of timeouts that had been moved down when the probe came due
 * @due_ns: CLOCK_MONOTONIC time when the probe came due
 * @waiting: the probe is armed or its sample is being taken, so @alarm leaves it alone
 * @samples: how often the probe was called
 * @worst: maximum number of timeouts moved down from the due time of a probe to its call
 * @worst_ns: maximum time from the due time of a probe to its call
 */
struct flood {
	struct fixture	*f;
	struct probe	*probe;
	struct hrtimer	alarm;
	u64		end;
	u64		cascaded;
	u64		due_ns;
	bool		waiting;
	unsigned int	samples;
	u64		worst;
	u64		worst_ns;
};

/* bound_exit() frees it. */
static struct twheel_timeout *flooding;

static u64 nr_cascaded(struct fixture *f)
{
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	return stats.cascaded;
}

static void nothing(struct twheel_timeout *t)
{
}

/* Interrupts the cascade where the engine enables interrupts: between two batches. */
static enum hrtimer_restart alarm_rings(struct hrtimer *timer)
{
	struct flood *flood = container_of(timer, struct flood, alarm);
	u64 tick = div64_u64(twheel_now(flood->f->wheel), TICK) + 1, cascaded;

	hrtimer_forward_now(timer, ns_to_ktime(100 * NSEC_PER_USEC));
	cascaded = nr_cascaded(flood->f);
	if (!cascaded || cascaded >= many || READ_ONCE(flood->waiting))
		return HRTIMER_RESTART;
	if (!flood->end)
		flood->end = tick <= BLOCK ? BLOCK : BLOCK + 100;
	if (tick >= flood->end)
		return HRTIMER_RESTART;
	flood->cascaded = cascaded;
	flood->due_ns = ktime_get_ns();
	WRITE_ONCE(flood->waiting, true);
	if (twheel_arm(&flood->probe->t, tick * TICK)) {
		WRITE_ONCE(flood->waiting, false);
		return HRTIMER_RESTART;
	}
	twheel_set_clock(flood->f->wheel, tick * TICK);
	return HRTIMER_RESTART;
}

static void take_sample(struct probe *p)
{
	struct flood *flood = p->data;

	flood->worst = max(flood->worst, nr_cascaded(flood->f) - flood->cascaded);
	flood->worst_ns = max(flood->worst_ns, ktime_get_ns() - flood->due_ns);
	flood->samples++;
	WRITE_ONCE(flood->waiting, false);
}

static struct flood *make_flood(struct kunit *test)
{
	struct flood *flood = kunit_kzalloc(test, sizeof(*flood), GFP_KERNEL);
	unsigned int i, failed = 0;

	KUNIT_ASSERT_NOT_NULL(test, flood);
	flood->f = manual_wheel(test, TICK, 256, 4);
	flood->probe = probes(test, 1);
	flood->probe->then = take_sample;
	flood->probe->data = flood;
	flooding = kvcalloc(many, sizeof(*flooding), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, flooding);
	for (i = 0; i < many; i++) {
		twheel_timeout_init(flood->f->wheel, &flooding[i], nothing);
		failed += twheel_arm(&flooding[i], (BLOCK + 1000 + i % 60000) * TICK) != 0;
		if (i % 1024 == 0)
			cond_resched();
	}
	KUNIT_ASSERT_EQ(test, 0U, failed);
	return flood;
}

static void pass_the_flood(struct kunit *test, struct flood *flood)
{
	u64 now = BLOCK - BEFORE;

	hrtimer_setup(&flood->alarm, alarm_rings, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	hrtimer_start(&flood->alarm, ns_to_ktime(0), HRTIMER_MODE_REL_PINNED);
	while (now <= BLOCK && !twheel_advance(flood->f->wheel, now * TICK))
		now = max(now, div64_u64(twheel_now(flood->f->wheel), TICK)) + 1;
	hrtimer_cancel(&flood->alarm);
	kunit_info(test, "%u cascade; of %u due meanwhile, one waited for %llu timeouts, and one for %llu us\n",
		   many, flood->samples, flood->worst, div64_u64(flood->worst_ns, 1000));
}

/* The probe is at most one batch later than it is without the cascade. */
static void probe_is_one_batch_late_at_most_while_a_million_cascade(struct kunit *test)
{
	struct flood *flood = make_flood(test);

	pass_the_flood(test, flood);
	KUNIT_EXPECT_GE(test, nr_cascaded(flood->f), (u64)many);
	KUNIT_EXPECT_GE(test, flood->samples, 3U);
	KUNIT_EXPECT_LE(test, flood->worst, (u64)BATCH);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(flood->f->wheel));
}

/*
 * After a step backward no timeout fires before all have been placed again. So a probe that
 * is due right after the step waits for that.
 */
static void probe_fires_when_a_million_are_placed_after_a_step_back(struct kunit *test)
{
	struct flood *flood = make_flood(test);
	struct twheel_counters stats;
	u64 begin;

	flood->probe->then = NULL;
	advance_tick(test, 10);
	KUNIT_ASSERT_EQ(test, 0, twheel_set_clock(flood->f->wheel, 5 * TICK));
	arm_tick(test, flood->probe, 7);
	begin = ktime_get_ns();
	advance_tick(test, 6);
	kunit_info(test, "%u were placed again in %llu us\n", many,
		   div64_u64(ktime_get_ns() - begin, 1000));
	expect_fires_at(test, flood->probe, 7);
	twheel_stats(flood->f->wheel, &stats);
	KUNIT_EXPECT_GE(test, stats.rebased, (u64)many);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(flood->f->wheel));
}

/* The search for the next step */

/*
 * Tick of timeout @i in a wheel of one level with @slots slots. All of them are in later
 * rounds. Each word of 64 slots has an earlier tick than the word before it, so the search
 * cannot skip a word.
 */
static u64 descending_tick(u32 slots, u32 i)
{
	u32 words = slots / 64;

	return (2 * words - i / 64) * (u64)slots + i;
}

static u64 search_ns(struct kunit *test, u32 slots)
{
	struct fixture *f = manual_wheel(test, TICK, slots, 1);
	struct probe *p = kvcalloc(slots, sizeof(*p), GFP_KERNEL);
	u64 begin, best = U64_MAX;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (i = 0; i < slots; i++) {
		twheel_timeout_init(f->wheel, &p[i].t, nothing);
		twheel_arm(&p[i].t, descending_tick(slots, i) * TICK);
	}
	for (i = 0; i < 50; i++) {
		begin = ktime_get_ns();
		twheel_next_expiry(f->wheel);
		best = min(best, ktime_get_ns() - begin);
	}
	KUNIT_EXPECT_EQ(test, descending_tick(slots, slots - 64) * TICK,
			twheel_next_expiry(f->wheel));
	twheel_destroy(f->wheel);
	f->wheel = NULL;
	kvfree(p);
	return best;
}

/* A search that examined all 65536 slots would take a thousand times as long. */
static void search_is_bounded(struct kunit *test)
{
	u64 narrow_ns = search_ns(test, 64), wide_ns = search_ns(test, wide);

	kunit_info(test, "a search takes %llu ns with 64 slots, %llu ns with %u\n", narrow_ns,
		   wide_ns, wide);
	KUNIT_EXPECT_LE(test, wide_ns, 50 * narrow_ns + 20000);
}

/* Wakeups */

struct wakeup_case {
	const char *name;
	u64 at[3];
	unsigned int cancel;
	unsigned int n;
};

/* Ticks relative to the start of a block of level 1. The last timeout is not cancelled. */
static const struct wakeup_case wakeup_cases[] = {
	{ "the first of two goes", { 100, 120 }, 1, 2 },
	{ "the first of two of a tick goes", { 100, 100 }, 1, 2 },
	{ "two of three go", { 50, 100, 200 }, 2, 3 },
	{ "the earlier, armed later, goes", { 120, 80, 130 }, 2, 3 },
};

static void wakeup_desc(const struct wakeup_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(wakeup, wakeup_cases, wakeup_desc);

/*
 * Arm all timeouts and cancel the first ones before block @block of level 1 begins. Returns
 * false if the block has begun: the thread may then have been woken for a cancelled
 * timeout.
 */
static bool arm_and_cancel(struct kunit *test, const struct wakeup_case *c, struct probe *p,
			   u64 block)
{
	unsigned int i;

	for (i = 0; i < c->n; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, (block + c->at[i]) * TICK));
	for (i = 0; i < c->cancel; i++)
		twheel_cancel(&p[i].t);
	return ktime_get_ns() < block * TICK;
}

static void remaining_timeout_of_a_slot_costs_one_wakeup(struct kunit *test)
{
	const struct wakeup_case *c = test->param_value;
	struct twheel_params params = { .name = "kunit-bound", .tick_ns = TICK };
	struct twheel_counters before, stats;
	struct probe *p, *last;
	unsigned int i, ahead;
	bool in_time = false;
	u64 block;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes(test, c->n);
	last = &p[c->n - 1];
	/* A busy machine may need longer than a block. */
	for (ahead = 2; !in_time && ahead <= 64; ahead *= 2) {
		for (i = 0; i < c->n; i++)
			twheel_cancel_sync(&p[i].t);
		twheel_flush(p->f->wheel);
		last->fired = 0;
		twheel_stats(p->f->wheel, &before);
		block = (div64_u64(ktime_get_ns(), 256 * TICK) + ahead) * 256;
		in_time = arm_and_cancel(test, c, p, block);
	}
	KUNIT_ASSERT_TRUE(test, in_time);
	for (i = 0; i < 1000 && !READ_ONCE(last->fired); i++)
		msleep(20);
	twheel_flush(p->f->wheel);
	KUNIT_EXPECT_EQ(test, 1U, last->fired);
	twheel_stats(p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.wakeups - before.wakeups);
}

/*
 * The earlier timeout of a slot is cancelled. The other one, of a later round, now decides
 * when the slot's word is due.
 */
static void timeout_of_a_later_round_delays_no_other_slot(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit-bound", .slots = 256, .levels = 1 };
	struct probe *p;
	u64 now, late_ns;
	unsigned int i, tries = 10;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes(test, 3);
	/* A slow machine may not cancel it in time. */
	do {
		twheel_cancel(&p[1].t);
		twheel_cancel_sync(&p[2].t);
		p[2].fired = 0;
		now = div64_u64(ktime_get_ns(), TICK);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[0].t, (now + 50) * TICK));
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[1].t, (now + 50 + 40 * 256) * TICK));
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[2].t, (now + 60) * TICK));
	} while (!twheel_cancel(&p[0].t) && --tries);
	KUNIT_ASSERT_GT(test, tries, 0U);
	for (i = 0; i < 1000 && !READ_ONCE(p[2].fired); i++)
		msleep(20);
	twheel_flush(p->f->wheel);
	KUNIT_ASSERT_EQ(test, 1U, p[2].fired);
	late_ns = p[2].fired_ns - (now + 60) * TICK;
	KUNIT_EXPECT_LT(test, late_ns, 5 * (u64)NSEC_PER_SEC);
	twheel_cancel(&p[1].t);
}

static void bound_exit(struct kunit *test)
{
	fixture_exit(test);
	kvfree(flooding);
	flooding = NULL;
}

static struct kunit_case bound_cases[] = {
	KUNIT_CASE(timeout_of_a_later_round_delays_no_other_slot),
	KUNIT_CASE(probe_is_one_batch_late_at_most_while_a_million_cascade),
	KUNIT_CASE(probe_fires_when_a_million_are_placed_after_a_step_back),
	KUNIT_CASE(search_is_bounded),
	KUNIT_CASE_PARAM(remaining_timeout_of_a_slot_costs_one_wakeup, wakeup_gen_params),
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
