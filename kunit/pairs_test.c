// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of pairs of features that need a test of their own: effects of one callback on
 * the next, operations while a callback runs, and two features that share a state. The
 * suite of the grid tests the other pairs, which only have to work together.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/module.h>

#include "actor.h"
#include "arming.h"
#include "helper.h"
#include "suite.h"

/* More than one batch. */
#define MANY		300

static const struct kind one_shot = { "one-shot" };

static void set_the_clock(struct actor *a)
{
	a->then = NULL;
	a->ret[0] = twheel_set_clock(a->f->wheel, a->arg * TICK);
}

/* The clock is moved forward or backward between two callbacks of one turn */

/**
 * struct turn - two timeouts of different kinds in one tick
 * @name: kinds of both
 * @first: kind of the first, whose callback moves the clock from tick 10 to tick 45
 * @second: kind of the second, which is called next; its interval is 10 ticks
 * @missed: missed periods that the second reports
 * @expires: tick of the deadline that the second reports
 * @next: tick of the next call of the second; 0: it has ended
 */
struct turn {
	const char	*name;
	struct kind	first;
	struct kind	second;
	u64		missed;
	u64		expires;
	u64		next;
};

#define RATE		{ .periodic = TWHEEL_FIXED_RATE }
#define DELAY		{ .periodic = TWHEEL_FIXED_DELAY }
#define THRICE		{ .periodic = TWHEEL_FIXED_RATE, .repeat = 3 }

static const struct turn turns[] = {
	{ "one-shot, fixed rate", {}, RATE, 3, 40, 50 },
	{ "one-shot, fixed delay", {}, DELAY, 0, 10, 55 },
	{ "one-shot, finite repeat", {}, THRICE, 2, 30, 0 },
	{ "fixed delay, fixed rate", DELAY, RATE, 3, 40, 50 },
	{ "fixed rate, fixed delay", RATE, DELAY, 0, 10, 55 },
	{ "fixed delay, finite repeat", DELAY, THRICE, 2, 30, 0 },
};

static void turn_desc(const struct turn *turn, char *desc)
{
	strscpy(desc, turn->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(turn, turns, turn_desc);

static void slow_callback_before_it_counts(struct kunit *test)
{
	const struct turn *turn = test->param_value;
	struct actor *first, *second;

	manual_wheel(test, TICK, 16, 3);
	first = actors(test, 1, &turn->first);
	second = actors(test, 1, &turn->second);
	first->then = set_the_clock;
	first->arg = 45;
	arm_actor(test, first, &turn->first, 10);
	arm_actor(test, second, &turn->second, 10);
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 0, first->ret[0]);
	expect_calls(test, second, 1);
	KUNIT_EXPECT_EQ(test, turn->missed, second->missed);
	KUNIT_EXPECT_EQ(test, turn->expires * TICK, second->expires);
	KUNIT_EXPECT_EQ(test, !turn->next, twheel_periodic_ended(&second->p));
	if (!turn->next)
		return;
	twheel_cancel(&first->p.t);
	expect_called_at(test, second, turn->next);
	KUNIT_EXPECT_EQ(test, 0ULL, second->missed);
}

static const struct kind kinds[] = {
	{ "one-shot" },
	{ "fixed rate", .periodic = TWHEEL_FIXED_RATE },
	{ "fixed delay", .periodic = TWHEEL_FIXED_DELAY },
	{ "finite repeat", .periodic = TWHEEL_FIXED_RATE, .repeat = 3 },
	{ "slack", .slack = 3 },
	{ "worker", .worker = true },
	{ "worker, fixed rate", .worker = true, .periodic = TWHEEL_FIXED_RATE },
};

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

/* The slack had moved it from 9 to 12. It is not applied again. */
static void step_back_before_it_in_its_turn_sends_it_back(struct kunit *test)
{
	const struct kind *k = test->param_value;
	u64 deadline = k->slack ? 9 : 12;
	struct actor *first, *second;

	manual_wheel(test, TICK, 16, 3);
	first = actors(test, 1, &one_shot);
	second = actors(test, 1, k);
	first->then = set_the_clock;
	first->arg = 5;
	arm_actor(test, first, &one_shot, 12);
	arm_actor(test, second, k, deadline);
	advance_tick(test, 11);
	advance_tick(test, 12);
	KUNIT_EXPECT_EQ(test, 0, first->ret[0]);
	expect_calls(test, second, 0);
	expect_called_at(test, second, deadline);
	KUNIT_EXPECT_EQ(test, deadline * TICK, second->expires);
	KUNIT_EXPECT_EQ(test, 0ULL, second->missed);
}

/**
 * struct basket - data of the sinks of this suite
 * @p: the timeouts
 * @spare: armed to find out whether a place is free
 * @batches: number of calls of the sink
 * @back: tick that the first batch sets the clock to; 0: it does not set the clock
 * @slack: of extensions, in ticks
 * @extend_to: tick that every other timeout is extended to; 0: none is extended
 * @ret: results of calls for the first timeouts
 */
struct basket {
	struct probe		*p;
	struct twheel_timeout	spare;
	unsigned int		batches;
	u64			back;
	u64			slack;
	u64			extend_to;
	int			ret[8];
};

static struct basket *basket_wheel(struct kunit *test, unsigned int n, unsigned int limit,
				   void (*sink)(void *sink_data, struct list_head *expired,
						unsigned int nr, u64 now_ns))
{
	struct basket *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	const struct twheel_params params = {
		.name = "kunit-pairs",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = 16,
		.levels = 3,
		.max_pending = limit,
		.sink = sink,
		.sink_data = b,
	};
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, b);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	b->p = probes_for(test, n, NULL);
	twheel_timeout_init(f->wheel, &b->spare, NULL);
	return b;
}

static void accept_probe(struct twheel_timeout *t)
{
	list_del_init(&t->entry);
	probe_record(container_of(t, struct probe, t));
	twheel_accept(t);
}

static void accept_and_step_back(void *sink_data, struct list_head *expired, unsigned int nr,
				 u64 now_ns)
{
	struct basket *b = sink_data;
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry)
		accept_probe(t);
	if (!b->batches++)
		twheel_set_clock(b->p->f->wheel, b->back * TICK);
}

/* Exactly @n more timeouts can be armed. */
static void expect_places(struct kunit *test, unsigned int n)
{
	struct probe *p = probes_for(test, n + 1, NULL);
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, FAR));
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[n].t, FAR));
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[i].t));
}

static void step_back_between_two_batches_keeps_the_second(struct kunit *test)
{
	struct basket *b = basket_wheel(test, MANY, MANY, accept_and_step_back);
	struct fixture *f = test->priv;
	unsigned int i, first;

	b->back = 5;
	for (i = 0; i < MANY; i++)
		arm_tick(test, &b->p[i], 12);
	advance_tick(test, 12);
	KUNIT_EXPECT_EQ(test, 1U, b->batches);
	first = f->nr_fired;
	KUNIT_EXPECT_LT(test, first, (unsigned int)MANY);
	expect_places(test, first);
	advance_tick(test, 11);
	KUNIT_EXPECT_EQ(test, first, f->nr_fired);
	advance_tick(test, 12);
	KUNIT_EXPECT_EQ(test, (unsigned int)MANY, f->nr_fired);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1U, b->p[i].fired);
	expect_places(test, MANY);
}

/* The end of a finite repeat */

/* Call each function that may be called while the callback of @a runs, and keep the results. */
static void try_each_arm(struct actor *a)
{
	u64 then = twheel_now(a->f->wheel) + 2 * TICK;
	struct twheel_timeout *t = &a->p.t;

	a->ret[0] = twheel_arm(t, then);
	a->ret[1] = twheel_arm_after(t, 2 * TICK);
	a->ret[2] = twheel_arm_slack(t, then, TICK);
	a->ret[3] = twheel_mod(t, then);
	a->ret[4] = twheel_mod_slack(t, then, TICK);
	a->ret[5] = twheel_periodic_ended(&a->p);
	a->ret[6] = twheel_arm_periodic(&a->p, then, TICK, 0);
	a->then = NULL;
}

static void expect_ended(struct kunit *test, struct actor *a, int arm_periodic)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, a->ret[i], "function %u", i);
	KUNIT_EXPECT_EQ(test, 1, a->ret[5]);
	KUNIT_EXPECT_EQ(test, arm_periodic, a->ret[6]);
}

static const struct kind finite_kinds[] = {
	{ "fixed rate", .periodic = TWHEEL_FIXED_RATE, .repeat = 3 },
	{ "fixed delay", .periodic = TWHEEL_FIXED_DELAY, .repeat = 3 },
	{ "fixed rate, once", .periodic = TWHEEL_FIXED_RATE, .repeat = 1 },
	{ "fixed delay, once", .periodic = TWHEEL_FIXED_DELAY, .repeat = 1 },
	{ "fixed rate, worker", .periodic = TWHEEL_FIXED_RATE, .repeat = 3, .worker = true },
	{ "fixed delay, worker", .periodic = TWHEEL_FIXED_DELAY, .repeat = 3, .worker = true },
};

KUNIT_ARRAY_PARAM(finite, finite_kinds, kind_desc);

static void last_callback_cannot_arm_it_again(struct kunit *test)
{
	const struct kind *k = test->param_value;
	struct actor *a;
	u32 i;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, k);
	arm_actor(test, a, k, 10);
	for (i = 1; i < k->repeat; i++)
		expect_called_at(test, a, i * 10);
	KUNIT_EXPECT_FALSE(test, twheel_periodic_ended(&a->p));
	a->then = try_each_arm;
	expect_called_at(test, a, i * 10);
	expect_ended(test, a, -EBUSY);
	advance_tick(test, 200);
	expect_calls(test, a, k->repeat);
}

static void ended_one_is_armed_as_periodic_alone(struct kunit *test)
{
	struct twheel_timeout *t;
	struct actor *a;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, test->param_value);
	t = &a->p.t;
	KUNIT_EXPECT_EQ(test, 0U, twheel_arm_list(a->f->wheel, &t, 1));
	try_each_arm(a);
	expect_ended(test, a, 0);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&a->p.t));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_periodic(&a->p, 10 * TICK, 10 * TICK, 1));
	expect_called_at(test, a, 10);
	KUNIT_EXPECT_EQ(test, 0U, twheel_arm_list(a->f->wheel, &t, 1));
	try_each_arm(a);
	expect_ended(test, a, 0);
	expect_called_at(test, a, 12);
}

static int arm_by_list(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	t->expires = expires;
	return twheel_arm_list(w, &t, 1) == 1 ? 0 : -EINVAL;
}

/* Its second and third period are armed by @arming. */
static void go_on_after_cancels(struct kunit *test, const struct arming *arming)
{
	const struct kind k = { "", .periodic = TWHEEL_FIXED_RATE, .repeat = 3 };
	struct fixture *f = manual_wheel(test, TICK, 16, 3);
	struct actor *a = actors(test, 1, &k);

	arm_actor(test, a, &k, 10);
	expect_called_at(test, a, 10);
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&a->p.t));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 0, arming->arm(f->wheel, &a->p.t, 105 * TICK));
	expect_called_at(test, a, 105);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&a->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_periodic_ended(&a->p));
	KUNIT_EXPECT_EQ(test, 0, arming->arm(f->wheel, &a->p.t, 200 * TICK));
	expect_called_at(test, a, 200);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&a->p));
	advance_tick(test, 500);
	expect_calls(test, a, 3);
}

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

static void cancelled_before_its_end_it_goes_on_with_the_rest(struct kunit *test)
{
	go_on_after_cancels(test, test->param_value);
}

static void cancelled_before_its_end_it_goes_on_by_list(struct kunit *test)
{
	static const struct arming by_list = { "arm_list", arm_by_list };

	go_on_after_cancels(test, &by_list);
}

/* A refused arm neither changes the periods that are left nor revives an ended timeout. */
static void refused_arm_of_a_finite_one_changes_nothing(struct kunit *test)
{
	const struct kind k = { "", .periodic = TWHEEL_FIXED_RATE, .repeat = 2 };
	const struct twheel_params params = {
		.name = "kunit-pairs", .clock = TWHEEL_MANUAL, .tick_ns = TICK, .max_pending = 1,
	};
	struct actor *a;
	struct probe *p;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	a = actors(test, 1, &k);
	p = probes(test, 1);
	arm_tick(test, p, 999);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm_periodic(&a->p, TICK, TICK, 9));
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&a->p));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	arm_actor(test, a, &k, 10);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&a->p.t));
	arm_tick(test, p, 999);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm_periodic(&a->p, TICK, TICK, 9));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p->t));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&a->p.t, 10 * TICK));
	expect_called_at(test, a, 10);
	expect_called_at(test, a, 20);
	KUNIT_EXPECT_TRUE(test, twheel_periodic_ended(&a->p));
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p->t, 999 * TICK));
}

/* Slack of a periodic timeout */

static const struct kind periodic_kinds[] = {
	{ "fixed rate", .periodic = TWHEEL_FIXED_RATE },
	{ "fixed delay", .periodic = TWHEEL_FIXED_DELAY },
	{ "finite repeat", .periodic = TWHEEL_FIXED_RATE, .repeat = 2 },
	{ "worker", .periodic = TWHEEL_FIXED_RATE, .worker = true },
};

KUNIT_ARRAY_PARAM(periodic, periodic_kinds, kind_desc);

/* The slack moves it from 13 to 16; a fixed rate keeps the phase of the deadline. */
static void slack_moves_one_period_alone(struct kunit *test)
{
	const struct kind *k = test->param_value;
	bool rate = k->periodic == TWHEEL_FIXED_RATE;
	struct actor *a;

	manual_wheel(test, TICK, 16, 3);
	a = actors(test, 1, k);
	arm_actor(test, a, k, 10);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod_slack(&a->p.t, 13 * TICK, 5 * TICK));
	expect_called_at(test, a, 16);
	KUNIT_EXPECT_EQ(test, 13 * TICK, a->expires);
	expect_called_at(test, a, rate ? 23 : 26);
	KUNIT_EXPECT_EQ(test, 0ULL, a->missed);
	KUNIT_EXPECT_EQ(test, k->repeat == 2, twheel_periodic_ended(&a->p));
}

/* Sinks that extend */

static bool can_arm_spare(struct basket *b)
{
	return !twheel_arm(&b->spare, FAR) && twheel_cancel(&b->spare);
}

static void extend_every_other(void *sink_data, struct list_head *expired, unsigned int nr,
			       u64 now_ns)
{
	struct basket *b = sink_data;
	struct twheel_timeout *t, *next;
	unsigned int i = 0;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del_init(&t->entry);
		if (!b->extend_to || i % 2 || twheel_extend(t, b->extend_to * TICK,
							    b->slack * TICK))
			accept_probe(t);
		if (b->extend_to && i < ARRAY_SIZE(b->ret))
			b->ret[i] = can_arm_spare(b);
		i++;
	}
	b->extend_to = 0;
}

/*
 * Every other timeout is extended: 0 and 2 keep their places, 1 and 3 free them when
 * accepted.
 */
static void extension_keeps_its_place_and_accept_gives_it_back(struct kunit *test)
{
	struct basket *b = basket_wheel(test, 4, 4, extend_every_other);
	struct fixture *f = test->priv;
	unsigned int i;

	b->extend_to = 20;
	for (i = 0; i < 4; i++)
		arm_tick(test, &b->p[i], 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, b->ret[0]);
	for (i = 1; i < 4; i++)
		KUNIT_EXPECT_EQ(test, 1, b->ret[i]);
	expect_places(test, 2);
	advance_tick(test, 19);
	KUNIT_EXPECT_EQ(test, 2U, f->nr_fired);
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 4U, f->nr_fired);
	expect_places(test, 4);
}

/* With repeated extensions, the number of pending timeouts never exceeds the limit. */
static void extensions_never_pass_the_limit(struct kunit *test)
{
	struct basket *b = basket_wheel(test, 40, 2, extend_every_other);
	struct fixture *f = test->priv;
	struct twheel_counters stats;
	unsigned int tick, i;

	for (tick = 1; tick < 20; tick++) {
		for (i = 0; i < 40; i++)
			if (!twheel_pending(&b->p[i].t))
				twheel_arm(&b->p[i].t, tick * TICK);
		b->extend_to = tick + 1;
		advance_tick(test, tick);
		twheel_stats(f->wheel, &stats);
		KUNIT_ASSERT_LE(test, stats.pending, 2ULL);
		KUNIT_ASSERT_EQ(test, 1, b->ret[1]);
	}
	KUNIT_EXPECT_EQ(test, 19ULL, stats.extended);
}

static void extension_with_slack_joins_its_neighbours(struct kunit *test)
{
	struct basket *b = basket_wheel(test, 1, 0, extend_every_other);
	struct twheel_position pos;

	b->extend_to = 21;
	b->slack = 10;
	arm_tick(test, b->p, 5);
	advance_tick(test, 5);
	KUNIT_ASSERT_TRUE(test, twheel_position(&b->p->t, &pos));
	KUNIT_EXPECT_EQ(test, 24ULL, pos.tick);
	KUNIT_EXPECT_EQ(test, 16 * TICK, twheel_remaining_ns(&b->p->t));
	expect_fires_at(test, b->p, 24);
}

static void try_cancel_in_sink(void *sink_data, struct list_head *expired, unsigned int nr,
			       u64 now_ns)
{
	struct basket *b = sink_data;
	struct twheel_timeout *t = &b->p[0].t, *u = &b->p[1].t;

	b->ret[0] = twheel_try_cancel(t);
	b->ret[1] = twheel_try_cancel(u);
	list_del_init(&u->entry);
	b->ret[2] = twheel_extend(u, 20 * TICK, 0);
	b->ret[3] = twheel_try_cancel(u);
	b->ret[4] = twheel_try_cancel(u);
	accept_probe(t);
	b->ret[5] = twheel_try_cancel(t);
}

static void try_cancel_tells_the_states_of_a_batch_apart(struct kunit *test)
{
	struct basket *b = basket_wheel(test, 2, 2, try_cancel_in_sink);
	struct fixture *f = test->priv;

	arm_tick(test, &b->p[0], 5);
	arm_tick(test, &b->p[1], 5);
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EBUSY, b->ret[0]);
	KUNIT_EXPECT_EQ(test, -EBUSY, b->ret[1]);
	KUNIT_EXPECT_EQ(test, 0, b->ret[2]);
	KUNIT_EXPECT_EQ(test, 1, b->ret[3]);
	KUNIT_EXPECT_EQ(test, 0, b->ret[4]);
	KUNIT_EXPECT_EQ(test, 0, b->ret[5]);
	expect_places(test, 2);
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
}

/**
 * struct race - a sink that extends a timeout while another task shuts it down
 * @p: the timeout
 * @ending: the task that shuts it down
 * @entered: the sink has been called
 * @spin_us: time that the sink waits before the extension once the other task has begun
 * @ret: result of the extension
 */
struct race {
	struct probe	*p;
	struct ending	ending;
	bool		entered;
	unsigned int	spin_us;
	int		ret;
};

static void extend_while_it_ends(void *sink_data, struct list_head *expired, unsigned int nr,
				 u64 now_ns)
{
	struct race *r = sink_data;
	unsigned int i;

	WRITE_ONCE(r->entered, true);
	for (i = 0; i < 1000000 && !READ_ONCE(r->ending.began); i++)
		udelay(1);
	udelay(r->spin_us);
	list_del_init(&r->p->t.entry);
	r->ret = twheel_extend(&r->p->t, 9999 * TICK, 0);
	if (r->ret)
		accept_probe(&r->p->t);
}

static void race_once(struct kunit *test, struct race *r, u64 tick)
{
	struct twheel *w = r->p->f->wheel;

	r->ending = (struct ending){ .t = &r->p->t, .after = &r->entered };
	r->entered = false;
	r->spin_us = tick % 8 * 300;
	r->ret = 1;
	twheel_timeout_init(w, &r->p->t, NULL);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&r->p->t, tick * TICK));
	helper_start(test, &r->ending.helper, end_it, &r->ending);
	twheel_advance(w, tick * TICK);
	helper_finish(test, &r->ending.helper);
}

/*
 * Either may come first, but their results must agree. Sooner or later the shutdown comes
 * first and the extension is refused.
 */
static void shutdown_and_extension_agree_on_who_was_first(struct kunit *test)
{
	struct race *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	const struct twheel_params params = {
		.name = "kunit-race", .clock = TWHEEL_MANUAL, .tick_ns = TICK,
		.sink = extend_while_it_ends, .sink_data = r,
	};
	unsigned int refused = 0;
	u64 tick;

	KUNIT_ASSERT_NOT_NULL(test, r);
	if (num_online_cpus() < 2)
		kunit_skip(test, "there is no other CPU");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	r->p = probes_for(test, 1, NULL);
	for (tick = 1; tick < 40 || (!refused && tick < 1000); tick++) {
		race_once(test, r, tick);
		refused += r->ret == -ESHUTDOWN;
		if (r->ret)
			KUNIT_EXPECT_EQ(test, -ESHUTDOWN, r->ret);
		KUNIT_EXPECT_EQ(test, !r->ret, r->ending.ret);
		KUNIT_EXPECT_FALSE(test, twheel_pending(&r->p->t));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&r->p->t, FAR));
	}
	KUNIT_EXPECT_GT(test, refused, 0U);
	KUNIT_EXPECT_EQ(test, refused, r->p->fired);
	advance_tick(test, 10000);
	KUNIT_EXPECT_EQ(test, refused, r->p->fired);
}

/* Another CPU */

static void note_cpu(struct actor *a)
{
	a->ret[0] = raw_smp_processor_id();
}

static void mod_brings_it_to_the_cpu_that_moves_it(struct kunit *test)
{
	const struct twheel_params params = { .name = "kunit-pairs", .tick_ns = TICK };
	unsigned int here = raw_smp_processor_id(), there = spare_cpu();
	struct fixture *f = test->priv;
	struct actor *a;

	if (there >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	a = actors(test, 1, &one_shot);
	a->then = note_cpu;
	run_on(test, there);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&a->p.t, FAR));
	run_on(test, here);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&a->p.t, twheel_now(f->wheel) + 5 * TICK));
	expect_begins(test, a);
	KUNIT_EXPECT_EQ(test, (int)here, a->ret[0]);
}

/* Lists */

static void arm_list_stops_before_one_that_is_shut_down(struct kunit *test)
{
	struct fixture *f = manual_wheel(test, TICK, 16, 3);
	struct probe *p = probes(test, 5);
	struct twheel_timeout *list[5];
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&p[2].t));
	for (i = 0; i < 5; i++) {
		list[i] = &p[i].t;
		list[i]->expires = 20 * TICK;
	}
	KUNIT_EXPECT_EQ(test, 2U, twheel_arm_list(f->wheel, list, 5));
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, i < 2, twheel_pending(&p[i].t));
	KUNIT_EXPECT_EQ(test, 2U, twheel_arm_list(f->wheel, &list[3], 2));
	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&p[0].t));
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&p[1].t));
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&p[3].t));
	advance_tick(test, 20);
	KUNIT_EXPECT_EQ(test, 1U, f->nr_fired);
	KUNIT_EXPECT_EQ(test, 1U, p[4].fired);
}

static struct kunit_case pairs_cases[] = {
	KUNIT_CASE_PARAM(slow_callback_before_it_counts, turn_gen_params),
	KUNIT_CASE_PARAM(step_back_before_it_in_its_turn_sends_it_back, kind_gen_params),
	KUNIT_CASE(step_back_between_two_batches_keeps_the_second),
	KUNIT_CASE_PARAM(last_callback_cannot_arm_it_again, finite_gen_params),
	KUNIT_CASE_PARAM(ended_one_is_armed_as_periodic_alone, finite_gen_params),
	KUNIT_CASE_PARAM(cancelled_before_its_end_it_goes_on_with_the_rest, arming_gen_params),
	KUNIT_CASE(cancelled_before_its_end_it_goes_on_by_list),
	KUNIT_CASE(refused_arm_of_a_finite_one_changes_nothing),
	KUNIT_CASE_PARAM(slack_moves_one_period_alone, periodic_gen_params),
	KUNIT_CASE(extension_keeps_its_place_and_accept_gives_it_back),
	KUNIT_CASE(extensions_never_pass_the_limit),
	KUNIT_CASE(extension_with_slack_joins_its_neighbours),
	KUNIT_CASE(try_cancel_tells_the_states_of_a_batch_apart),
	KUNIT_CASE(shutdown_and_extension_agree_on_who_was_first),
	KUNIT_CASE(mod_brings_it_to_the_cpu_that_moves_it),
	KUNIT_CASE(arm_list_stops_before_one_that_is_shut_down),
	{}
};

static struct kunit_suite pairs_suite = {
	.name = "twheel-pairs",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = pairs_cases,
};

module_test_suite(pairs_suite);

MODULE_DESCRIPTION("KUnit suite of pairs of features of a timing wheel");
MODULE_LICENSE("GPL");
