// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of pairs of features. Timeouts are armed in each way, in each sort of wheel. They
 * are periodic, extended, changed by callbacks, handed back, shut down and reused. The file pairs
 * names the tests of all pairs.
 */
#include <linux/module.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)

enum way { PLAIN, SLACK, LIST, WORK };

/**
 * struct style - a wheel, and a way to arm a timeout
 * @name: for the log
 * @levels: of the wheel
 * @sink: the wheel has a sink
 * @way: PLAIN: twheel_mod(); SLACK: 3 ticks of slack; LIST: by list; WORK: by list, with a work
 */
struct style {
	const char	*name;
	unsigned int	levels;
	bool		sink;
	enum way	way;
};

static const struct style styles[] = {
	{ "hierarchy, plain", 0, false, PLAIN },
	{ "hierarchy, slack", 0, false, SLACK },
	{ "hierarchy, list", 0, false, LIST },
	{ "hierarchy, work", 0, false, WORK },
	{ "hashed, plain", 1, false, PLAIN },
	{ "hashed, slack", 1, false, SLACK },
	{ "hashed, list", 1, false, LIST },
	{ "hashed, work", 1, false, WORK },
	{ "hierarchy with a sink, plain", 0, true, PLAIN },
	{ "hierarchy with a sink, slack", 0, true, SLACK },
	{ "hierarchy with a sink, list", 0, true, LIST },
	{ "hashed with a sink, plain", 1, true, PLAIN },
	{ "hashed with a sink, slack", 1, true, SLACK },
	{ "hashed with a sink, list", 1, true, LIST },
};

NAMED_PARAM(style, styles);

/**
 * struct any - a timeout of any style
 * @p: the record, and the timeout if it has no work
 * @tw: the timeout if it has a work
 * @s: its style
 */
struct any {
	struct probe		p;
	struct twheel_work	tw;
	const struct style	*s;
};

static struct twheel_timeout *timeout_of(struct any *a)
{
	return a->s->way == WORK ? &a->tw.t : &a->p.t;
}

static void work_fires(struct work_struct *work)
{
	probe_fires(&container_of(work, struct any, tw.work)->p.t);
}

/* Extend a timeout to the time in p.arg, once, or accept it. */
static void take(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct any *a = container_of(t, struct any, p.t);
		u64 to = a->p.arg, slack = a->s->way == SLACK ? 3 * TICK : 0;

		list_del(&t->entry);
		a->p.arg = 0;
		if (to && !twheel_extend(t, to - slack, slack))
			continue;
		twheel_accept(t);
		probe_fires(t);
	}
}

static void any_init(struct any *a)
{
	struct twheel *w = a->p.f->wheel;

	if (a->s->way == WORK)
		twheel_work_init(w, &a->tw, work_fires);
	twheel_timeout_init(w, &a->p.t, a->s->sink ? NULL : probe_fires);
}

/* Make the wheel of the style of the test, and @n timeouts. */
static struct any *make(struct kunit *test, unsigned int n)
{
	const struct style *s = test->param_value;
	struct twheel_params params = {
		.name = "kunit-pairs", .clock = TWHEEL_MANUAL, .tick_ns = TICK, .slots = 16,
		.levels = s->levels, .sink = s->sink ? take : NULL,
	};
	struct any *a = kunit_kcalloc(test, n, sizeof(*a), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	for (i = 0; i < n; i++) {
		a[i].s = s;
		a[i].p.f = test->priv;
		any_init(&a[i]);
	}
	return a;
}

/*
 * Arm or move @a, so that it fires at @tick, a multiple of 8: the slack moves it there. Lists
 * take no timeout whose callback is running.
 */
static int set(struct any *a, u64 tick)
{
	struct twheel_timeout *t = timeout_of(a);
	u64 expires = tick * TICK;

	switch (a->s->way) {
	case SLACK:
		return twheel_mod_slack(t, expires - 3 * TICK, 3 * TICK);
	case LIST:
	case WORK:
		if (twheel_pending(t))
			return twheel_mod_list(&t, &expires, 1);
		if (twheel_try_cancel(t) || t->flags & TWHEEL_T_SHUTDOWN)
			return twheel_arm(t, expires);
		t->expires = expires;
		return twheel_arm_list(a->p.f->wheel, &t, 1) == 1 ? 0 : -ESHUTDOWN;
	default:
		return twheel_mod(t, expires);
	}
}

static void advance(struct kunit *test, struct any *a, u64 tick)
{
	advance_tick(test, tick);
	if (a->s->way == WORK)
		flush_work(&a->tw.work);
}

static void expect_any_fires_at(struct kunit *test, struct any *a, u64 tick)
{
	unsigned int before = a->p.fired;

	advance(test, a, tick - 1);
	KUNIT_EXPECT_EQ(test, before, a->p.fired);
	advance(test, a, tick);
	KUNIT_EXPECT_EQ(test, before + 1, a->p.fired);
	KUNIT_EXPECT_EQ(test, tick * TICK, a->p.fired_ns);
}

static void each_fires_at_its_tick(struct kunit *test)
{
	static const u64 ticks[] = { 8, 16, 1024, 100000 };
	struct any *a = make(test, ARRAY_SIZE(ticks));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		KUNIT_EXPECT_EQ(test, 0, set(&a[i], ticks[i]));
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		expect_any_fires_at(test, &a[i], ticks[i]);
	KUNIT_EXPECT_EQ(test, (unsigned int)ARRAY_SIZE(ticks), a->p.f->nr_fired);
}

/* Periodic, with 8 ticks; p.ret is the number of intervals. */
static void go_on(struct probe *p)
{
	struct any *a = container_of(p, struct any, p);
	struct twheel_timeout *t = timeout_of(a);

	p->ret += twheel_forward(t, p->fired_ns, 8 * TICK);
	set(a, DIV64_U64_ROUND_UP(t->expires, 8 * TICK) * 8);
}

static void each_goes_on_by_forward(struct kunit *test)
{
	struct any *a = make(test, 1);
	u64 tick;

	a->p.then = go_on;
	KUNIT_EXPECT_EQ(test, 0, set(a, 8));
	for (tick = 8; tick <= 80; tick += 8)
		expect_any_fires_at(test, a, tick);
	KUNIT_EXPECT_EQ(test, 10, a->p.ret);
	advance(test, a, 801);
	KUNIT_EXPECT_EQ(test, 11U, a->p.fired);
	KUNIT_EXPECT_EQ(test, 100, a->p.ret);
	expect_any_fires_at(test, a, 808);
}

static void each_is_extended_by_a_sink(struct kunit *test)
{
	struct any *a = make(test, 1);
	struct twheel_counters stats;

	if (!a->s->sink)
		kunit_skip(test, "only a sink extends");
	a->p.arg = 1024 * TICK;
	a->p.then = go_on;
	KUNIT_EXPECT_EQ(test, 0, set(a, 8));
	advance(test, a, 8);
	KUNIT_EXPECT_EQ(test, 0U, a->p.fired);
	expect_any_fires_at(test, a, 1024);
	expect_any_fires_at(test, a, 1032);
	twheel_stats(a->p.f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 1ULL, stats.extended);
}

/*
 * p.other and the two after it: the first is moved, the second cancelled, the third renewed. The
 * timeout itself goes on.
 */
static void change_others(struct probe *p)
{
	struct any *a = container_of(p->other, struct any, p);

	p->tick = set(&a[0], 32);
	p->tick += twheel_cancel(timeout_of(&a[1]));
	p->tick += twheel_cancel(timeout_of(&a[2]));
	any_init(&a[2]);
	set(&a[2], 40);
	p->then = go_on;
	go_on(p);
}

/* In a wheel with callbacks, the others are due at the same time. */
static void each_is_changed_by_the_callback_of_another(struct kunit *test)
{
	struct any *a = make(test, 4);
	unsigned int i;

	a->p.then = change_others;
	a->p.other = &a[1].p;
	KUNIT_EXPECT_EQ(test, 0, set(&a[0], 8));
	for (i = 1; i < 4; i++)
		KUNIT_EXPECT_EQ(test, 0, set(&a[i], a->s->way == WORK || a->s->sink ? 16 : 8));
	advance(test, a, 8);
	KUNIT_EXPECT_EQ(test, 3ULL, a->p.tick);
	expect_any_fires_at(test, &a[1], 32);
	expect_any_fires_at(test, &a[3], 40);
	advance(test, a, 50);
	advance(test, a, 100);
	KUNIT_EXPECT_EQ(test, 0U, a[2].p.fired);
	KUNIT_EXPECT_EQ(test, 100 / 8, a->p.ret);
}

static void stop_hands_each_back(struct kunit *test)
{
	struct any *a = make(test, 3);
	LIST_HEAD(list);

	a->p.then = go_on;
	KUNIT_EXPECT_EQ(test, 0, set(&a[0], 8));
	KUNIT_EXPECT_EQ(test, 0, set(&a[1], 16));
	KUNIT_EXPECT_EQ(test, 0, set(&a[2], 1024));
	advance(test, a, 8);
	twheel_stop(a->p.f->wheel, collect, &list);
	KUNIT_EXPECT_EQ(test, (size_t)3, list_count_nodes(&list));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(timeout_of(a), 0));
	advance(test, a, 10000);
	KUNIT_EXPECT_EQ(test, 1U, a->p.f->nr_fired);
}

static void shutdown_ends_each(struct kunit *test)
{
	struct any *a = make(test, 2);

	a->p.then = go_on;
	KUNIT_EXPECT_EQ(test, 0, set(&a[0], 8));
	KUNIT_EXPECT_EQ(test, 0, set(&a[1], 1024));
	advance(test, a, 8);
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(timeout_of(&a[0])));
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(timeout_of(&a[1])));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, set(&a[1], 16));
	advance(test, a, 10000);
	KUNIT_EXPECT_EQ(test, 1U, a->p.f->nr_fired);
}

/* The memory of one that was cancelled, of one that has fired and of one that was shut down. */
static void memory_of_each_is_reused(struct kunit *test)
{
	struct any *a = make(test, 3);
	unsigned int i;

	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, set(&a[i], i == 1 ? 8 : 1024));
	expect_any_fires_at(test, &a[1], 8);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(timeout_of(&a[0])));
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(timeout_of(&a[2])));
	for (i = 0; i < 3; i++) {
		memset(timeout_of(&a[i]), 0xa5, sizeof(a->p.t));
		any_init(&a[i]);
		KUNIT_EXPECT_EQ(test, 0, set(&a[i], 2048 + 8 * i));
	}
	for (i = 0; i < 3; i++)
		expect_any_fires_at(test, &a[i], 2048 + 8 * i);
	KUNIT_EXPECT_EQ(test, 4U, a->p.f->nr_fired);
}

static struct kunit_case pairs_cases[] = {
	KUNIT_CASE_PARAM(each_fires_at_its_tick, style_gen_params),
	KUNIT_CASE_PARAM(each_goes_on_by_forward, style_gen_params),
	KUNIT_CASE_PARAM(each_is_extended_by_a_sink, style_gen_params),
	KUNIT_CASE_PARAM(each_is_changed_by_the_callback_of_another, style_gen_params),
	KUNIT_CASE_PARAM(stop_hands_each_back, style_gen_params),
	KUNIT_CASE_PARAM(shutdown_ends_each, style_gen_params),
	KUNIT_CASE_PARAM(memory_of_each_is_reused, style_gen_params),
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
