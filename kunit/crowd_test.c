// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of crowded slots: when a slot with a batch or more begins to cascade, before its
 * block. The suite combination has calls between the turns of such a cascade.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/string.h>

#include "fixture.h"
#include "helper.h"
#include "suite.h"

/* The lead of a second is 40 ticks. */
#define TICK		(25 * (u64)NSEC_PER_MSEC)

#define BATCH		128

/* Tick of the full slot. With 8 slots of level 0 its block on level 2 begins at 512. */
#define DUE		600
#define BLOCK		512

static u64 nr_cascaded(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	return stats.cascaded;
}

/* When the cascade begins */

/* @nr timeouts of tick @due, seen from 0 with 8 slots, all move down at @begins. */
static const struct lead {
	u64 tick_ns, due;
	unsigned int nr;
	u64 begins;
} leads[] = {
	/* a second of 40 ticks */
	{ TICK, DUE, 128, BLOCK - 40 }, { TICK, DUE, 300, BLOCK - 40 },
	{ TICK, 40000, 128, 32768 - 40 }, { TICK + 1, DUE, 128, BLOCK - 40 },
	{ 2 * TICK, DUE, 128, BLOCK - 20 }, { 3 * TICK, DUE, 128, BLOCK - 14 },
	{ 2ULL * NSEC_PER_SEC, DUE, 128, BLOCK - 1 }, { 1ULL << 46, DUE, 300, BLOCK - 1 },
	/* one block at most */
	{ TICK, 47, 128, 32 }, { NSEC_PER_MSEC, 1100, 128, 512 }, { 1, DUE, 128, 1 },
	/* smaller slots wait for their block */
	{ TICK, DUE, 127, BLOCK }, { TICK, 47, 127, 40 }, { NSEC_PER_MSEC, 1100, 2, 1024 },
};

KUNIT_ARRAY_PARAM(lead, leads, NULL);

static void cascade_begins_a_second_or_a_block_before(struct kunit *test)
{
	const struct lead *l = test->param_value;
	struct fixture *f = manual_wheel(test, l->tick_ns, 8, 0);
	struct probe *p = probes(test, l->nr);
	unsigned int i;

	for (i = 0; i < l->nr; i++)
		arm_tick(test, &p[i], l->due);
	advance_tick(test, l->begins - 1);
	KUNIT_EXPECT_EQ(test, 0ULL, nr_cascaded(test));
	advance_tick(test, l->begins);
	KUNIT_EXPECT_EQ(test, (u64)l->nr, nr_cascaded(test));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, l->due - 1);
	expect_fired_in_id_order(test, 0);
	advance_tick(test, l->due);
	expect_fired_in_id_order(test, l->nr);
}

/*
 * On a running clock the thread wakes for it. A slow machine may miss the block: try again, with
 * a wheel that knows of no earlier lead.
 */
static void thread_wakes_to_cascade_before_the_block(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit", .tick_ns = NSEC_PER_MSEC, .slots = 256 };
	u64 block, tries, moved = 0;
	struct probe *p;
	unsigned int i;

	for (tries = 0; moved < BATCH && tries < 10; tries++) {
		fixture_exit(test);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
		p = probes(test, BATCH);
		block = div64_u64(ktime_get_ns(), 256 * NSEC_PER_MSEC) + 3;
		for (i = 0; i < BATCH; i++)
			arm_tick(test, &p[i], block * 256 + 200);
		while (ktime_get_ns() < (block * 256 - 100) * NSEC_PER_MSEC)
			msleep(20);
		moved = nr_cascaded(test);
		if (ktime_get_ns() >= block * 256 * NSEC_PER_MSEC)
			moved = 0;
	}
	KUNIT_EXPECT_GE(test, moved, (u64)BATCH);
}

static struct kunit_case crowd_cases[] = {
	KUNIT_CASE_PARAM(cascade_begins_a_second_or_a_block_before, lead_gen_params),
	KUNIT_CASE(thread_wakes_to_cascade_before_the_block),
	{}
};

static struct kunit_suite crowd_suite = {
	.name = "twheel-crowd",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = crowd_cases,
};

module_test_suite(crowd_suite);

MODULE_DESCRIPTION("KUnit suite of full slots that a timing wheel cascades early");
MODULE_LICENSE("GPL");
