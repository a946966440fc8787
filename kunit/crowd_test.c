// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of crowded slots: with a batch or more, a slot begins to cascade before its block.
 * It tests when that begins, the order within the tick, and calls between the turns.
 *
 * Callbacks run between the turns: their timeouts are due one by one before, at and after the
 * begin of the slot's block.
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

/* More timeouts than two turns can move. */
#define NR_FULL		300

/* Tick of the full slot. With 8 slots of level 0 its block on level 2 begins at 512. */
#define DUE		600
#define BLOCK		512

/* Number of timeouts that fire between the turns, and the tick of the first. */
#define NR_CALLERS	60
#define FIRST_CALL	(BLOCK - NR_CALLERS / 2)

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

/* Calls between the turns */

/**
 * struct crowd - a full slot, timeouts that fire near its block, and timeouts that join it
 * @full: armed for tick DUE, in this order
 * @joins: armed for tick DUE by the callbacks of @callers, in this order
 * @callers: due one by one, from tick FIRST_CALL on
 */
struct crowd {
	struct probe	*full;
	struct probe	*joins;
	struct probe	*callers;
};

static void make_crowd(struct kunit *test, struct crowd *c, void (*then)(struct probe *p))
{
	unsigned int i;

	manual_wheel(test, TICK, 8, 0);
	c->full = probes(test, NR_FULL + 2 * NR_CALLERS);
	c->joins = c->full + NR_FULL;
	c->callers = c->joins + NR_CALLERS;
	for (i = 0; i < NR_FULL; i++)
		arm_tick(test, &c->full[i], DUE);
	for (i = 0; i < NR_CALLERS; i++) {
		c->callers[i].then = then;
		c->callers[i].other = &c->joins[i];
		arm_tick(test, &c->callers[i], FIRST_CALL + i);
	}
}

static const u64 paces[] = { 1, 2, 7, 64, 10000 };

KUNIT_ARRAY_PARAM(pace, paces, NULL);

/* Advance from before the lead or from within it to the tick before DUE. */
static void let_callers_fire(struct kunit *test, struct crowd *c, u64 from)
{
	u64 pace = *(const u64 *)test->param_value, tick;
	struct fixture *f = test->priv;
	unsigned int i;

	for (tick = from; tick < DUE - 1; tick += pace)
		advance_tick(test, tick);
	advance_tick(test, DUE - 1);
	KUNIT_ASSERT_EQ(test, (unsigned int)NR_CALLERS, f->nr_fired);
	for (i = 0; i < NR_CALLERS; i++) {
		KUNIT_ASSERT_EQ(test, 1U, c->callers[i].fired);
		if (pace == 1)
			KUNIT_ASSERT_EQ(test, (FIRST_CALL + i) * TICK, c->callers[i].fired_ns);
	}
	f->nr_fired = 0;
}

/* By each function that arms. twheel_mod() moves from the tick before DUE, or from a far one. */
static void join_slot(struct probe *p)
{
	struct twheel_timeout *t = &p->other->t;

	switch (p->id % 4) {
	case 0:
		p->ret = twheel_arm(t, DUE * TICK);
		break;
	case 1:
		p->ret = twheel_arm_after(t, DUE * TICK - twheel_now(p->f->wheel));
		break;
	case 2:
		t->expires = DUE * TICK;
		p->ret = twheel_arm_list(p->f->wheel, &t, 1) - 1;
		break;
	default:
		twheel_arm(t, (DUE - 1 + p->id % 8 * 1000) * TICK);
		p->ret = twheel_mod(t, DUE * TICK) - 1;
	}
}

static void arm_for_a_cascading_slot_joins_its_tail(struct kunit *test)
{
	static const u64 from[] = { 400, BLOCK - 41, FIRST_CALL - 1 };
	struct crowd c;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(from); i++) {
		make_crowd(test, &c, join_slot);
		let_callers_fire(test, &c, from[i]);
		for (j = 0; j < NR_CALLERS; j++)
			KUNIT_ASSERT_EQ(test, 0, c.callers[j].ret);
		advance_tick(test, DUE);
		expect_fired_in_id_order(test, NR_FULL + NR_CALLERS);
		fixture_exit(test);
		((struct fixture *)test->priv)->nr_fired = 0;
	}
}

/* Every fifth timeout: some are cascaded, some in the cascade, some not yet moved. */
static void take_out_of_slot(struct probe *p)
{
	struct probe *full = p->other - p->other->id;
	struct twheel_timeout *t = &full[(p->other->id - NR_FULL) * 5].t;

	p->ret = p->id % 2 ? twheel_try_cancel(t) : twheel_cancel_list(&t, 1);
}

static void cancel_in_a_cascading_slot_takes_out_any(struct kunit *test)
{
	struct crowd c;
	unsigned int i;

	make_crowd(test, &c, take_out_of_slot);
	let_callers_fire(test, &c, 400);
	for (i = 0; i < NR_CALLERS; i++)
		KUNIT_EXPECT_EQ(test, 1, c.callers[i].ret);
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, NR_FULL - NR_CALLERS);
}

static void move_in_slot(struct probe *p)
{
	struct probe *full = p->other - p->other->id;

	p->ret = twheel_mod(&full[(p->other->id - NR_FULL) * 5].t, (DUE + p->id % 2) * TICK);
}

static void mod_in_a_cascading_slot_goes_to_the_tail(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct crowd c;
	unsigned int i;

	make_crowd(test, &c, move_in_slot);
	let_callers_fire(test, &c, 400);
	for (i = 0; i < NR_CALLERS; i++)
		KUNIT_EXPECT_EQ(test, 1, c.callers[i].ret);
	advance_tick(test, DUE);
	KUNIT_ASSERT_EQ(test, NR_FULL - NR_CALLERS / 2U, f->nr_fired);
	for (i = 0; i < NR_CALLERS / 2; i++)
		KUNIT_ASSERT_EQ(test, 10 * i, f->order[NR_FULL - NR_CALLERS + i]->id);
	f->nr_fired = 0;
	advance_tick(test, DUE + 1);
	expect_fired_in_id_order(test, NR_CALLERS / 2);
}

/* Each batch is armed when those before it have begun to cascade, or have been cascaded. */
static void crowds_that_join_a_crowd_keep_their_order(struct kunit *test)
{
	static const u64 at[] = { 0, BLOCK - 40, BLOCK - 3, BLOCK - 1, BLOCK, BLOCK + 8, DUE - 1 };
	struct fixture *f = manual_wheel(test, TICK, 8, 0);
	struct probe *p = probes(test, ARRAY_SIZE(at) * 200);
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		advance_tick(test, at[i]);
		for (j = 0; j < 200; j++)
			arm_tick(test, &p[i * 200 + j], DUE);
		KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	}
	expect_fired_in_id_order(test, 0);
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, ARRAY_SIZE(at) * 200);
}

/* The count of a slot starts again when it is empty. */
static void cancelled_crowd_is_no_expiry_and_no_lead(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 8, 0);
	struct probe *p = probes(test, NR_FULL);
	unsigned int i;

	for (i = 0; i < NR_FULL; i++)
		arm_tick(test, &p[i], DUE);
	for (i = 0; i < NR_FULL; i++)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[i].t));
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
	for (i = 0; i < BATCH - 1; i++)
		arm_tick(test, &p[i], DUE);
	advance_tick(test, BLOCK - 1);
	KUNIT_EXPECT_EQ(test, 0ULL, nr_cascaded(test));
	KUNIT_EXPECT_EQ(test, BLOCK * TICK, twheel_next_expiry(f->wheel));
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, BATCH - 1);
}

static struct kunit_case crowd_cases[] = {
	KUNIT_CASE_PARAM(cascade_begins_a_second_or_a_block_before, lead_gen_params),
	KUNIT_CASE(thread_wakes_to_cascade_before_the_block),
	KUNIT_CASE_PARAM(arm_for_a_cascading_slot_joins_its_tail, pace_gen_params),
	KUNIT_CASE_PARAM(cancel_in_a_cascading_slot_takes_out_any, pace_gen_params),
	KUNIT_CASE_PARAM(mod_in_a_cascading_slot_goes_to_the_tail, pace_gen_params),
	KUNIT_CASE(crowds_that_join_a_crowd_keep_their_order),
	KUNIT_CASE(cancelled_crowd_is_no_expiry_and_no_lead),
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
