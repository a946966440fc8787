// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of slots that hold so many timeouts that the wheel cascades them early, in
 * turns. It tests the order within their tick, and calls and clock steps between the turns.
 *
 * Further timeouts are due one by one before, at and after the begin of the slot's block.
 * Their callbacks run between the turns, wherever the engine makes them.
 */
#include <linux/module.h>
#include <linux/string.h>

#include "actor.h"
#include "suite.h"

/* More timeouts than two turns can move. */
#define CROWD		300
#define BATCH		128

/* Tick of the crowd. With 8 slots and 4 levels, its block on level 3 begins at 512. */
#define DUE		600
#define BLOCK		512

/* Number of timeouts that fire between the turns, and the tick of the first. */
#define WALKERS		60
#define WALK		(BLOCK - WALKERS / 2)

/**
 * struct street - a crowd, timeouts that fire near its block, and timeouts that join it
 * @crowd: armed for tick DUE, in this order
 * @joins: armed for tick DUE by the callbacks of @walkers, in this order
 * @walkers: due one by one, from tick WALK on
 */
struct street {
	struct probe	*crowd;
	struct probe	*joins;
	struct probe	*walkers;
};

static void make_street(struct kunit *test, struct street *s, void (*then)(struct probe *p))
{
	unsigned int i;

	manual_wheel(test, TICK, 8, 4);
	s->crowd = probes(test, CROWD + 2 * WALKERS);
	s->joins = s->crowd + CROWD;
	s->walkers = s->joins + WALKERS;
	for (i = 0; i < CROWD; i++)
		arm_tick(test, &s->crowd[i], DUE);
	for (i = 0; i < WALKERS; i++) {
		s->walkers[i].then = then;
		s->walkers[i].other = &s->joins[i];
		arm_tick(test, &s->walkers[i], WALK + i);
	}
}

static void expect_walked(struct kunit *test, struct street *s, bool on_time)
{
	unsigned int i;

	for (i = 0; i < WALKERS; i++) {
		KUNIT_ASSERT_EQ(test, 1U, s->walkers[i].fired);
		if (on_time)
			KUNIT_ASSERT_EQ(test, (WALK + i) * TICK, s->walkers[i].fired_ns);
	}
}

static void advance_by(struct kunit *test, u64 from, u64 to, u64 pace)
{
	u64 tick;

	for (tick = from; tick < to; tick += pace)
		advance_tick(test, tick);
	advance_tick(test, to);
}

static const u64 paces[] = { 1, 2, 7, 64, 10000 };

static void pace_desc(const u64 *pace, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%llu ticks at a time", *pace);
}

KUNIT_ARRAY_PARAM(pace, paces, pace_desc);

/*
 * Join the crowd by each function that arms. twheel_mod() moves a timeout from the tick
 * before DUE, or from a far one.
 */
static void join_crowd(struct probe *p)
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

static void whoever_joins_a_crowd_comes_last(struct kunit *test)
{
	const u64 *pace = test->param_value;
	struct fixture *f = test->priv;
	struct street s;
	unsigned int i;

	make_street(test, &s, join_crowd);
	advance_by(test, WALK - 1, DUE - 1, *pace);
	expect_walked(test, &s, *pace == 1);
	for (i = 0; i < WALKERS; i++)
		KUNIT_EXPECT_EQ(test, 0, s.walkers[i].ret);
	KUNIT_ASSERT_EQ(test, (unsigned int)WALKERS, f->nr_fired);
	f->nr_fired = 0;
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, CROWD + WALKERS);
}

/* Each crowd is armed when full batches of the crowds before it have been cascaded early. */
static void crowds_that_join_a_crowd_keep_their_order(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 8, 4);
	struct probe *p = probes(test, 5 * CROWD);
	struct twheel_position pos;
	unsigned int i, j;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < CROWD; j++)
			arm_tick(test, &p[i * CROWD + j], DUE);
		advance_tick(test, BLOCK - 3 + i);
		if (i != 2)
			continue;
		KUNIT_EXPECT_TRUE(test, twheel_position(&p[2 * CROWD].t, &pos));
		KUNIT_EXPECT_LT(test, pos.level, 3U);
	}
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, DUE - 1);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, 5 * CROWD);
}

/* Every fifth timeout: some are cascaded, some in the cascade, some not yet moved. */
static void take_out_of_crowd(struct probe *p)
{
	struct twheel_timeout *t = &(p->other - CROWD + (p->other->id - CROWD) * 4)->t;

	p->ret = p->id % 2 ? twheel_try_cancel(t) : twheel_cancel_list(&t, 1);
}

static void whoever_leaves_a_crowd_is_not_called(struct kunit *test)
{
	const u64 *pace = test->param_value;
	struct fixture *f = test->priv;
	struct street s;
	unsigned int i;

	make_street(test, &s, take_out_of_crowd);
	advance_by(test, WALK - 1, DUE - 1, *pace);
	for (i = 0; i < WALKERS; i++)
		KUNIT_EXPECT_EQ(test, 1, s.walkers[i].ret);
	f->nr_fired = 0;
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, CROWD - WALKERS);
}

static void odd_ones_move_from_a_crowd_to_the_next_tick(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct street s;
	unsigned int i;

	make_street(test, &s, NULL);
	advance_by(test, WALK - 1, BLOCK - 1, 1);
	for (i = 1; i < CROWD; i += 2)
		KUNIT_ASSERT_EQ(test, 1, twheel_mod(&s.crowd[i].t, (DUE + 1) * TICK));
	advance_tick(test, DUE - 1);
	f->nr_fired = 0;
	advance_tick(test, DUE);
	expect_fired_in_id_order(test, CROWD / 2);
	f->nr_fired = 0;
	advance_tick(test, DUE + 1);
	expect_fired_in_id_order(test, CROWD / 2);
	KUNIT_EXPECT_EQ(test, 1U, f->order[0]->id);
}

/* The callback of a walker steps the clock */

static const u64 steps[] = { 0, 300, 447, 448, 511, 512, 599, 600, 601, 5000 };

static void step_desc(const u64 *tick, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "to %llu", *tick);
}

KUNIT_ARRAY_PARAM(step, steps, step_desc);

static void step_clock(struct probe *p)
{
	p->ret = twheel_set_clock(p->f->wheel, p->arg);
}

static void expect_crowd_once_and_not_early(struct kunit *test, struct street *s)
{
	unsigned int i;

	for (i = 0; i < CROWD; i++) {
		KUNIT_ASSERT_EQ(test, 1U, s->crowd[i].fired);
		KUNIT_ASSERT_GE(test, s->crowd[i].fired_ns, DUE * TICK);
	}
}

static void clock_steps_lose_nobody_of_a_crowd(struct kunit *test)
{
	const u64 *to = test->param_value;
	struct fixture *f = test->priv;
	struct street s;
	unsigned int i;

	for (i = BLOCK - 8 - WALK; i < BLOCK + 3 - WALK; i++) {
		f->nr_fired = 0;
		make_street(test, &s, NULL);
		s.walkers[i].then = step_clock;
		s.walkers[i].arg = *to * TICK;
		advance_by(test, WALK - 1, WALK + WALKERS, 1);
		KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
		advance_tick(test, DUE - 1);
		KUNIT_EXPECT_EQ(test, WALKERS + (*to < DUE ? 0U : s.crowd[0].fired * CROWD),
				f->nr_fired);
		advance_tick(test, DUE);
		KUNIT_EXPECT_EQ(test, WALKERS + CROWD, f->nr_fired);
		expect_crowd_once_and_not_early(test, &s);
		expect_walked(test, &s, false);
		fixture_exit(test);
	}
}

/* A timeout armed after the step fires exactly at its deadline. */
static void step_back_and_arm(struct probe *p)
{
	p->then = NULL;
	p->ret = twheel_set_clock(p->f->wheel, p->arg);
	twheel_arm(&p->other->t, p->arg + 3 * TICK);
}

static void armed_after_a_step_back_from_a_crowd_is_exact(struct kunit *test)
{
	const u64 *to = test->param_value;
	struct fixture *f = test->priv;
	struct street s;
	unsigned int i;

	if (*to >= BLOCK - 8)
		kunit_skip(test, "not a backward step");
	for (i = BLOCK - 8 - WALK; i < BLOCK + 3 - WALK; i++) {
		make_street(test, &s, NULL);
		s.walkers[i].then = step_back_and_arm;
		s.walkers[i].arg = *to * TICK;
		advance_by(test, WALK - 1, WALK + i, 1);
		advance_tick(test, *to + 2);
		KUNIT_EXPECT_EQ(test, 0U, s.joins[i].fired);
		advance_tick(test, *to + 3);
		KUNIT_EXPECT_EQ(test, 1U, s.joins[i].fired);
		advance_tick(test, DUE);
		expect_crowd_once_and_not_early(test, &s);
		KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
		fixture_exit(test);
	}
}

/* Memory, rounds and workers */

static void be_born_again(struct probe *p)
{
	p->then = NULL;
	memset(&p->t, 0xa5, sizeof(p->t));
	twheel_timeout_init(p->f->wheel, &p->t, probe_fires);
	p->ret = twheel_arm(&p->t, (DUE + 2 * BLOCK) * TICK);
}

static void memory_of_a_crowd_is_the_next_crowd(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct twheel_position pos;
	struct street s;
	unsigned int i;

	make_street(test, &s, NULL);
	for (i = 0; i < CROWD; i++)
		s.crowd[i].then = be_born_again;
	advance_by(test, WALK - 1, DUE, 1);
	for (i = 0; i < CROWD; i++)
		KUNIT_ASSERT_EQ(test, 0, s.crowd[i].ret);
	advance_tick(test, 3 * BLOCK - 1);
	KUNIT_EXPECT_TRUE(test, twheel_position(&s.crowd[0].t, &pos));
	KUNIT_EXPECT_LT(test, pos.level, 3U);
	f->nr_fired = 0;
	advance_tick(test, DUE + 2 * BLOCK - 1);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, DUE + 2 * BLOCK);
	expect_fired_in_id_order(test, CROWD);
}

/* The later crowd is in the same slot of the top level, one revolution of 64 ticks later. */
static void crowd_of_a_later_round_stays(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 8, 2);
	struct probe *p = probes(test, 2 * CROWD);
	struct twheel_position first, second;
	unsigned int i;

	for (i = 0; i < 2 * CROWD; i++)
		arm_tick(test, &p[i], 1003 + i / CROWD * 64);
	advance_tick(test, 999);
	KUNIT_ASSERT_TRUE(test, twheel_position(&p[0].t, &first));
	KUNIT_ASSERT_TRUE(test, twheel_position(&p[CROWD].t, &second));
	KUNIT_EXPECT_EQ(test, 0U, first.level);
	KUNIT_EXPECT_EQ(test, 1U, second.level);
	KUNIT_EXPECT_EQ(test, 1ULL, second.rounds);
	advance_tick(test, 1002);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	advance_tick(test, 1003);
	expect_fired_in_id_order(test, CROWD);
	advance_tick(test, 1066);
	KUNIT_EXPECT_EQ(test, (unsigned int)CROWD, f->nr_fired);
	advance_tick(test, 1067);
	expect_fired_in_id_order(test, 2 * CROWD);
}

/* One sixth of the crowd is due at each of six ticks. */
static void workers_of_a_crowd_are_called_once_each(struct kunit *test)
{
	static const struct kind worker = { "worker", .worker = true };
	struct fixture *f = manual_wheel(test, TICK, 8, 4);
	struct actor *a = actors(test, CROWD, &worker);
	unsigned int i;

	for (i = 0; i < CROWD; i++)
		arm_actor(test, &a[i], &worker, DUE + i % 6);
	advance_tick(test, BLOCK - 1);
	advance_tick(test, BLOCK - 100);
	advance_tick(test, DUE - 1);
	twheel_flush(f->wheel);
	for (i = 0; i < CROWD; i++)
		KUNIT_ASSERT_EQ(test, 0, atomic_read(&a[i].calls));
	advance_by(test, DUE, DUE + 5, 1);
	for (i = 0; i < CROWD; i++)
		expect_begins(test, &a[i]);
	twheel_flush(f->wheel);
	for (i = 0; i < CROWD; i++) {
		KUNIT_ASSERT_EQ(test, 1, atomic_read(&a[i].calls));
		KUNIT_ASSERT_GE(test, a[i].called_ns, (DUE + i % 6) * TICK);
	}
}

/* Two crowds are in one slot of the top level, one for this round and one for the next. */
static void crowd_of_the_next_round_moves_down_early_too(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, NSEC_PER_MSEC, 4, 2);
	struct probe *p = probes(test, 2 * CROWD);
	struct twheel_counters stats;
	unsigned int i;

	for (i = 0; i < 2 * CROWD; i++)
		arm_tick(test, &p[i], i < CROWD ? 4 : 20);
	advance_tick(test, 3);
	advance_tick(test, 4);
	KUNIT_EXPECT_EQ(test, (unsigned int)CROWD, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 19);
	twheel_stats(f->wheel, &stats);
	/* Fewer than a batch may remain until the block begins. */
	KUNIT_EXPECT_GT(test, stats.cascaded, 2ULL * CROWD - 128);
	advance_tick(test, 20);
	expect_fired_in_id_order(test, 2 * CROWD);
}

static const struct round_case {
	const char *name;
	unsigned int near[2];
} round_cases[] = {
	{ "the first is near", { 0, 1 } },
	{ "one in the middle is near", { CROWD / 2, CROWD / 2 + 1 } },
	{ "the first half is near", { 0, CROWD / 2 } },
	{ "all but the first and the last are near", { 1, CROWD - 1 } },
};

static void round_desc(const struct round_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(round, round_cases, round_desc);

/*
 * A full slot has timeouts of two rounds. Its early cascade is that of the nearer one. It ends
 * when less than a batch is left.
 */
static void nearer_round_of_a_full_slot_moves_down_early(struct kunit *test)
{
	const struct round_case *c = test->param_value;
	struct fixture *f = manual_wheel(test, TICK, 4, 2);
	struct probe *p = probes(test, CROWD);
	struct twheel_position pos;
	unsigned int i, nr = c->near[1] - c->near[0];
	bool near;

	for (i = 0; i < CROWD; i++)
		arm_tick(test, &p[i], i >= c->near[0] && i < c->near[1] ? 4 : 20);
	advance_tick(test, 3);
	for (i = 0; i < CROWD; i++) {
		near = i >= c->near[0] && i < c->near[1];
		KUNIT_ASSERT_TRUE(test, twheel_position(&p[i].t, &pos));
		if (!near || i < CROWD - BATCH)
			KUNIT_ASSERT_EQ(test, near ? 0U : 1U, pos.level);
	}
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 4);
	KUNIT_EXPECT_EQ(test, nr, f->nr_fired);
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, nr, f->nr_fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, (unsigned int)CROWD, f->nr_fired);
}

/*
 * A crowd has been moved down early, and those of the next round remain in its slot. When
 * all are cancelled the wheel has nothing to wake for at the beginning of the block.
 */
static void cancelled_crowd_is_no_expiry(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, NSEC_PER_MSEC, 4, 2);
	struct probe *p = probes(test, 2 * CROWD + 1), *far = &p[2 * CROWD];
	unsigned int i;

	for (i = 0; i < 2 * CROWD; i++)
		arm_tick(test, &p[i], i < CROWD ? 4 : 20);
	advance_tick(test, 3);
	for (i = 0; i < 2 * CROWD; i++)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[i].t));
	KUNIT_EXPECT_EQ(test, (u64)S64_MAX, twheel_next_expiry(f->wheel));
	arm_tick(test, far, 40);
	KUNIT_EXPECT_EQ(test, 40ULL * NSEC_PER_MSEC, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 40);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
}

/* As above, but a later timeout is pending all the time. */
static void cancelled_crowd_hides_no_later_expiry(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, NSEC_PER_MSEC, 4, 2);
	struct probe *p = probes(test, 2 * CROWD + 1), *later = &p[2 * CROWD];
	unsigned int i;

	arm_tick(test, later, 13);
	for (i = 0; i < 2 * CROWD; i++)
		arm_tick(test, &p[i], i < CROWD ? 4 : 20);
	advance_tick(test, 3);
	for (i = 0; i < 2 * CROWD; i++)
		KUNIT_ASSERT_TRUE(test, twheel_cancel(&p[i].t));
	KUNIT_EXPECT_EQ(test, 13ULL * NSEC_PER_MSEC, twheel_next_expiry(f->wheel));
	/* The slot that the crowd was in takes new ones. */
	for (i = 0; i < 2 * CROWD; i++)
		arm_tick(test, &p[i], i < CROWD ? 4 : 20);
	KUNIT_EXPECT_EQ(test, 4ULL * NSEC_PER_MSEC, twheel_next_expiry(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	advance_tick(test, 4);
	KUNIT_EXPECT_EQ(test, (unsigned int)CROWD, f->nr_fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 2U * CROWD + 1, f->nr_fired);
}

static struct kunit_case crowd_cases[] = {
	KUNIT_CASE(crowd_of_the_next_round_moves_down_early_too),
	KUNIT_CASE_PARAM(whoever_joins_a_crowd_comes_last, pace_gen_params),
	KUNIT_CASE(crowds_that_join_a_crowd_keep_their_order),
	KUNIT_CASE_PARAM(whoever_leaves_a_crowd_is_not_called, pace_gen_params),
	KUNIT_CASE(odd_ones_move_from_a_crowd_to_the_next_tick),
	KUNIT_CASE_PARAM(clock_steps_lose_nobody_of_a_crowd, step_gen_params),
	KUNIT_CASE_PARAM(armed_after_a_step_back_from_a_crowd_is_exact, step_gen_params),
	KUNIT_CASE(memory_of_a_crowd_is_the_next_crowd),
	KUNIT_CASE(crowd_of_a_later_round_stays),
	KUNIT_CASE_PARAM(nearer_round_of_a_full_slot_moves_down_early, round_gen_params),
	KUNIT_CASE(cancelled_crowd_is_no_expiry),
	KUNIT_CASE(cancelled_crowd_hides_no_later_expiry),
	KUNIT_CASE(workers_of_a_crowd_are_called_once_each),
	{}
};

static struct kunit_suite crowd_suite = {
	.name = "twheel-crowd",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = crowd_cases,
};

module_test_suite(crowd_suite);

MODULE_DESCRIPTION("KUnit suite of full slots that a timing wheel moves down early");
MODULE_LICENSE("GPL");
