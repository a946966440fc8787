// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of the states of wheels and timeouts: which wheels can be created, what a wheel tells
 * about itself, and what each function does with a timeout in each state. The table @states is the
 * specification. Other suites test when a timeout fires.
 */
#include <linux/fs.h>
#include <linux/kmsg_dump.h>
#include <linux/module.h>
#include <linux/string.h>

#include "fixture.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define DAY_NS		(24ULL * 3600 * NSEC_PER_SEC)
#define CLOCK_END	((u64)S64_MAX)
#define NEGATIVE	(CLOCK_END + 1)

/*
 * Ticks. With 8 slots, SOON is on level 0, and LATER two levels higher or 124 rounds later. The
 * functions get NEW as the deadline. Nothing is left to fire after END.
 */
#define SOON		5
#define LATER		1000
#define NEW		1100
#define END		2000

/* The wheels that have a state. On CLOCK_REALTIME, tick 0 is in the year 2096. */
enum { HASHED, HIERARCHY, HASHED_SINK, HIERARCHY_SINK, REALTIME, NR_WHEELS };

#define CALLBACKS	(BIT(HASHED) | BIT(HIERARCHY))
#define SINKS		(BIT(HASHED_SINK) | BIT(HIERARCHY_SINK))
#define MANUAL		(CALLBACKS | SINKS)
#define ALL		(MANUAL | BIT(REALTIME))
#define ORIGIN		(4000ULL * NSEC_PER_SEC)

/* Results. W: called by another task, it waits for the function that runs. */
#define NA		INT_MIN
#define BUSY		(-EBUSY)
#define GONE		(-ESHUTDOWN)
#define W		2

/* Functions with the same results share a column: arm_slack has that of arm, for example. */
enum column { ARM, AFTER, ARM_LIST, MOD, MOD_LIST, CANCEL, TRY, EXTEND, SYNC, FLUSH, NR_COLUMNS };

struct trial;

/* A row of the table. */
struct state {
	const char	*name;
	unsigned long	wheels;		/* that have this state */
	void		(*enter)(struct kunit *test, struct trial *trial);
	u64		tick;		/* when it then fires; 0: not pending */
	bool		inside;		/* of a callback, a sink, a hand-back */
	int		ret[NR_COLUMNS];
};

/* A function, called with a deadline and a slack. */
struct api_call {
	const char	*name;
	enum column	column;
	int		(*call)(struct twheel_timeout *t, u64 expires, u64 slack);
	u64		expires;	/* 0: at tick NEW; negative: the result is -EINVAL */
	u64		slack;		/* negative: the result is -EINVAL */
	bool		ends;		/* later arms are refused */
};

/* One function in one state. */
struct trial {
	const struct state	*state;
	const struct api_call	*api_call;
	unsigned int		wheel;
	struct test_timeout	*p;		/* the timeout, and another one */
	/* Right before the call */
	struct twheel_counters	before;
	unsigned int		fired;
	/* Right after the call */
	int			ret;
	struct twheel_counters	after;
	u64			now;
	bool			pending;
	u64			remaining;
	/* A call that may wait for the function that runs */
	bool			in_helper;	/* it is made by @helper */
	bool			waits;		/* it must wait */
	struct helper		helper;
	struct completion	go;		/* the function runs: the helper begins */
	bool			began;		/* the helper has begun */
	bool			returned;	/* the call has returned */
	bool			fn_returning;	/* the function leaves the timeout */
	bool			early;		/* the call returned before */
	int			late_arm;	/* an arm or extension then */
};

static u64 tick_to_ns(const struct trial *trial, u64 tick)
{
	return (tick + (trial->wheel == REALTIME ? ORIGIN : 0)) * TICK;
}

static void call_now(struct trial *trial)
{
	struct twheel_timeout *t = &trial->p->t;
	struct twheel *w = trial->p->f->wheel;

	trial->fired = trial->p->fired;
	twheel_get_counters(w, &trial->before);
	trial->ret = trial->api_call->call(t, trial->api_call->expires ?: tick_to_ns(trial, NEW),
					   trial->api_call->slack);
	trial->now = twheel_now(w);
	trial->pending = twheel_pending(t);
	trial->remaining = twheel_remaining_ns(t);
	twheel_get_counters(w, &trial->after);
}

static void call_in_helper(void *arg)
{
	struct trial *trial = arg;

	wait_for_completion(&trial->go);
	WRITE_ONCE(trial->began, true);
	call_now(trial);
	trial->early = !READ_ONCE(trial->fn_returning);
	WRITE_ONCE(trial->returned, true);
}

/* Has the call returned or, if it has to wait, done what others can see before? */
static bool has_taken_effect(const struct trial *trial)
{
	if (!trial->waits)
		return READ_ONCE(trial->returned);
	if (trial->api_call->ends) {
		/* It is written with a lock that a sink may not take; a later look sees it. */
		return data_race(trial->p->t.flags) & TWHEEL_T_SHUTDOWN;
	}
	return READ_ONCE(trial->began) && !(trial->api_call->column == SYNC &&
					    twheel_pending(&trial->p->t));
}

/* Make the call, or let the helper make it meanwhile on another CPU. */
static void make_call(struct trial *trial)
{
	unsigned long end = jiffies + MAX_WAIT / 3;

	if (!trial->in_helper) {
		call_now(trial);
		return;
	}
	complete(&trial->go);
	while (!has_taken_effect(trial) && time_before(jiffies, end))
		cpu_relax();
	/* A call that wrongly does not wait gets time to return. */
	end = jiffies + 2;
	while (trial->waits && !READ_ONCE(trial->returned) && time_before(jiffies, end))
		cpu_relax();
	if (!trial->waits || !trial->api_call->ends)
		trial->late_arm = GONE;
	else if (READ_ONCE(trial->p->t.state) == TWHEEL_EXPIRING)
		trial->late_arm = twheel_extend(&trial->p->t, END * TICK, 0);
	else
		trial->late_arm = twheel_mod(&trial->p->t, END * TICK);
	WRITE_ONCE(trial->fn_returning, true);
}

/* The ways into the states */

static void arm(struct kunit *test, struct trial *trial, u64 tick)
{
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&trial->p->t, tick_to_ns(trial, tick)));
}

static void enter_fired(struct kunit *test, struct trial *trial)
{
	arm(test, trial, SOON);
	advance_to_tick(test, SOON);
	make_call(trial);
}

/* Idle or pending. */
static void enter_outside(struct kunit *test, struct trial *trial)
{
	if (trial->state->tick)
		arm(test, trial, trial->state->tick);
	make_call(trial);
}

static void call_in_callback(struct test_timeout *p)
{
	p->then = NULL;
	make_call(p->data);
}

/* The callback before it in the same turn makes the call. */
static void enter_due(struct kunit *test, struct trial *trial)
{
	struct test_timeout *before = trial->p + 1;

	before->then = call_in_callback;
	before->data = trial;
	KUNIT_EXPECT_EQ(test, 0, twheel_arm(&before->t, SOON * TICK));
	arm(test, trial, SOON);
	advance_to_tick(test, SOON);
}

static void fire_with(struct kunit *test, struct trial *trial, void (*then)(struct test_timeout *p))
{
	trial->p->then = then;
	trial->p->data = trial;
	arm(test, trial, SOON);
	advance_to_tick(test, SOON);
}

static void arm_and_call(struct test_timeout *p)
{
	struct trial *trial = p->data;

	p->then = NULL;
	if (trial->state->tick)
		twheel_arm(&p->t, tick_to_ns(trial, trial->state->tick));
	make_call(trial);
}

/* Its own callback, or the sink, makes the call. */
static void enter_running(struct kunit *test, struct trial *trial)
{
	fire_with(test, trial, arm_and_call);
}

static void reuse_and_call(struct test_timeout *p)
{
	memset(&p->t, 0xa5, sizeof(p->t));
	twheel_timeout_init(p->f->wheel, &p->t, record_callback);
	arm_and_call(p);
}

static void enter_reused(struct kunit *test, struct trial *trial)
{
	fire_with(test, trial, reuse_and_call);
}

static void enter_shut_down(struct kunit *test, struct trial *trial)
{
	arm(test, trial, SOON);
	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&trial->p->t));
	make_call(trial);
}

static void call_while_handed_back(void *data, struct twheel_timeout *t)
{
	make_call(data);
}

static void enter_handed_back(struct kunit *test, struct trial *trial)
{
	arm(test, trial, SOON);
	twheel_stop(trial->p->f->wheel, call_while_handed_back, trial);
}

static void enter_stopped(struct kunit *test, struct trial *trial)
{
	arm(test, trial, SOON);
	twheel_stop(trial->p->f->wheel, NULL, NULL);
	make_call(trial);
}

/*
 * A result says what happens. Where it is negative, and where a list or a cancel returns 0,
 * nothing changes. 0 of an arm or a mod: armed for NEW. 1 of a mod: moved to NEW. 1 of a
 * cancel: idle, and it does not fire. 0 of extend: it fires at NEW and has not fired before.
 * arm_after is -EINVAL on CLOCK_REALTIME, in every state.
 *
 *	    ARM     AFTER   ARM_-   MOD     MOD_-   CANCEL  TRY     EXTEND  SYNC    FLUSH
 *	                    LIST            LIST
 */
static const struct state states[] = {
	{ "idle", ALL, enter_outside, 0, false,
	  { 0,      0,      1,      0,      0,      0,      0,      NA,     0,      0 } },
	{ "fired", MANUAL, enter_fired, 0, false,
	  { 0,      0,      1,      0,      0,      0,      0,      NA,     0,      0 } },
	{ "on level 0", MANUAL, enter_outside, SOON, false,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      1,      NA,     1,      0 } },
	{ "on a higher level or in a later round", MANUAL, enter_outside, LATER, false,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      1,      NA,     1,      0 } },
	{ "in the tree", BIT(REALTIME), enter_outside, LATER, false,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      1,      NA,     1,      0 } },
	{ "due, before its callback", CALLBACKS, enter_due, SOON, true,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      1,      NA,     1,      NA } },
	{ "in the batch of a sink", SINKS, enter_running, 0, true,
	  { BUSY,   BUSY,   NA,     BUSY,   0,      0,      BUSY,   0,      W + 0,  W } },
	{ "running", CALLBACKS, enter_running, 0, true,
	  { 0,      0,      NA,     0,      0,      0,      BUSY,   NA,     W + 0,  W } },
	{ "running, armed again", CALLBACKS, enter_running, LATER, true,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      BUSY,   NA,     W + 1,  W } },
	{ "new in the memory of a running one", CALLBACKS, enter_reused, 0, true,
	  { 0,      0,      1,      0,      0,      0,      0,      NA,     0,      W } },
	{ "armed in the memory of a running one", CALLBACKS, enter_reused, LATER, true,
	  { BUSY,   BUSY,   NA,     1,      1,      1,      1,      NA,     1,      W } },
	{ "shut down", ALL, enter_shut_down, 0, false,
	  { GONE,   GONE,   NA,     GONE,   0,      0,      0,      NA,     0,      0 } },
	{ "being handed back by twheel_stop()", ALL, enter_handed_back, 0, true,
	  { GONE,   GONE,   NA,     GONE,   0,      0,      BUSY,   NA,     W + 0,  NA } },
	{ "in a stopped wheel", ALL, enter_stopped, 0, false,
	  { GONE,   GONE,   0,      GONE,   0,      0,      0,      NA,     0,      0 } },
};

/* The functions */

static int call_arm(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_arm(t, expires);
}

static int call_arm_after(struct twheel_timeout *t, u64 expires, u64 slack)
{
	struct twheel *w = container_of(t, struct test_timeout, t)->f->wheel;

	return twheel_arm_after(t, expires - twheel_now(w));
}

static int call_arm_list(struct twheel_timeout *t, u64 expires, u64 slack)
{
	t->expires = expires;
	return twheel_arm_list(container_of(t, struct test_timeout, t)->f->wheel, &t, 1);
}

static int call_mod(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_mod(t, expires);
}

static int call_mod_list(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_mod_list(&t, &expires, 1);
}

static int call_cancel(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_cancel(t);
}

/* A pointer that is left in the array must go with the count. */
static int call_cancel_list(struct twheel_timeout *t, u64 expires, u64 slack)
{
	unsigned int nr = twheel_cancel_list(&t, 1);

	return nr == (t ? 1 : 0) ? nr : -EUCLEAN;
}

static int call_try_cancel(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_try_cancel(t);
}

static int call_cancel_sync(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_cancel_sync(t);
}

static int call_shutdown(struct twheel_timeout *t, u64 expires, u64 slack)
{
	return twheel_shutdown(t);
}

static int call_flush(struct twheel_timeout *t, u64 expires, u64 slack)
{
	twheel_flush(container_of(t, struct test_timeout, t)->f->wheel);
	return 0;
}

static const struct api_call api_calls[] = {
	{ "arm", ARM, call_arm },
	{ "arm, negative", ARM, call_arm, NEGATIVE },
	{ "arm, -1", ARM, call_arm, U64_MAX },
	{ "arm_slack", ARM, twheel_arm_slack, .slack = TICK - 1 },
	{ "arm_slack, negative", ARM, twheel_arm_slack, NEGATIVE },
	{ "arm_slack, negative slack", ARM, twheel_arm_slack, .slack = NEGATIVE },
	{ "arm_after", AFTER, call_arm_after },
	{ "arm_after, -1", AFTER, call_arm_after, U64_MAX },
	{ "arm_list", ARM_LIST, call_arm_list },
	{ "mod", MOD, call_mod },
	{ "mod, negative", MOD, call_mod, NEGATIVE },
	{ "mod_slack", MOD, twheel_mod_slack, .slack = TICK - 1 },
	{ "mod_slack, negative", MOD, twheel_mod_slack, NEGATIVE },
	{ "mod_slack, negative slack", MOD, twheel_mod_slack, .slack = NEGATIVE },
	{ "mod_list", MOD_LIST, call_mod_list },
	{ "cancel", CANCEL, call_cancel },
	{ "cancel_list", CANCEL, call_cancel_list },
	{ "try_cancel", TRY, call_try_cancel },
	{ "extend", EXTEND, twheel_extend },
	{ "extend, negative", EXTEND, twheel_extend, NEGATIVE },
	{ "extend, negative slack", EXTEND, twheel_extend, .slack = NEGATIVE },
	{ "cancel_sync", SYNC, call_cancel_sync },
	{ "shutdown", SYNC, call_shutdown, .ends = true },
	{ "flush", FLUSH, call_flush },
};

/* The effects */

enum effect { NOTHING, ARMED, MOVED, EXTENDED, CANCELLED };

static enum effect effect_of(enum column column, int ret)
{
	static const enum effect effect[NR_COLUMNS][2] = {
		[ARM]		= { ARMED },
		[AFTER]		= { ARMED },
		[ARM_LIST]	= { NOTHING, ARMED },
		[MOD]		= { ARMED, MOVED },
		[MOD_LIST]	= { NOTHING, MOVED },
		[CANCEL]	= { NOTHING, CANCELLED },
		[TRY]		= { NOTHING, CANCELLED },
		[EXTEND]	= { EXTENDED },
		[SYNC]		= { NOTHING, CANCELLED },
		[FLUSH]		= { NOTHING },
	};

	return ret < 0 ? NOTHING : effect[column][ret];
}

static void expect_counters(struct kunit *test, const struct trial *trial, enum effect effect)
{
	const struct twheel_counters *a = &trial->after, *b = &trial->before;

	KUNIT_EXPECT_EQ(test, b->armed + (effect == ARMED || effect == MOVED), a->armed);
	KUNIT_EXPECT_EQ(test, b->rearmed + (effect == MOVED), a->rearmed);
	KUNIT_EXPECT_EQ(test, b->cancelled + (effect == MOVED || effect == CANCELLED),
			a->cancelled);
	KUNIT_EXPECT_EQ(test, b->fired - (effect == EXTENDED), a->fired);
	KUNIT_EXPECT_EQ(test, b->extended + (effect == EXTENDED), a->extended);
	KUNIT_EXPECT_EQ(test, b->pending + (effect == ARMED || effect == EXTENDED),
			a->pending + (effect == CANCELLED));
	KUNIT_EXPECT_EQ(test, b->stopped, a->stopped);
}

/* @tick: when it fires; 0: it does not. */
static void expect_pending(struct kunit *test, const struct trial *trial, u64 tick)
{
	u64 left = tick ? tick_to_ns(trial, tick) - trial->now : 0;

	KUNIT_EXPECT_EQ(test, tick > 0, trial->pending);
	if (trial->wheel != REALTIME) {
		KUNIT_EXPECT_EQ(test, left, trial->remaining);
		return;
	}
	/* This clock goes on. */
	KUNIT_EXPECT_LE(test, trial->remaining, left);
	KUNIT_EXPECT_GE(test, trial->remaining + DAY_NS, left);
	KUNIT_EXPECT_EQ(test, tick ? tick_to_ns(trial, tick) : CLOCK_END,
			twheel_next_expiry(trial->p->f->wheel));
}

static void expect_fires(struct kunit *test, const struct trial *trial, u64 tick)
{
	struct test_timeout *p = trial->p;

	if (trial->wheel == REALTIME)
		return;
	if (tick * TICK > trial->now)
		expect_fires_at_tick(test, p, tick);
	advance_to_tick(test, END);
	KUNIT_EXPECT_EQ(test, trial->fired + (tick > 0), p->fired);
	if (tick)
		KUNIT_EXPECT_EQ(test, tick * TICK, p->fired_ns);
}

static void expect_can_be_armed_again(struct kunit *test, const struct trial *trial, u64 tick)
{
	bool ended = trial->api_call->ends || trial->state->ret[MOD] == GONE;
	int moved = tick && trial->wheel == REALTIME;

	KUNIT_EXPECT_EQ(test, ended ? GONE : moved,
			twheel_mod(&trial->p->t, tick_to_ns(trial, END + 1)));
	if (!trial->api_call->ends)
		return;
	twheel_timeout_init(trial->p->f->wheel, &trial->p->t, trial->p->t.fn);
	ended = trial->state->enter == enter_handed_back ||
		trial->state->enter == enter_stopped;
	KUNIT_EXPECT_EQ(test, ended ? GONE : 0,
			twheel_arm(&trial->p->t, tick_to_ns(trial, END + 1)));
}

static void create_trial_wheel(struct kunit *test, struct trial *trial)
{
	bool sink = BIT(trial->wheel) & SINKS;
	struct twheel_params params = {
		.name = "kunit-state",
		.clock = trial->wheel == REALTIME ? TWHEEL_REALTIME : TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = 8,
		.levels = trial->wheel == HASHED || trial->wheel == HASHED_SINK,
		.sink = sink ? record_sink : NULL,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	trial->p = create_timeouts_fn(test, 2, sink ? NULL : record_callback);
}

static void enter_state(struct kunit *test, struct trial *trial)
{
	if (!trial->in_helper) {
		trial->state->enter(test, trial);
		return;
	}
	init_completion(&trial->go);
	helper_start(test, &trial->helper, call_in_helper, trial);
	helper_move_to_other_cpu(test, &trial->helper);
	trial->state->enter(test, trial);
	complete(&trial->go);
	helper_finish(test, &trial->helper);
	KUNIT_EXPECT_EQ(test, !trial->waits, trial->early);
	KUNIT_EXPECT_EQ(test, GONE, trial->late_arm);
}

static void run_table_cell(struct kunit *test, const struct state *state,
			   const struct api_call *api_call,
			   unsigned int wheel)
{
	struct trial *trial = kunit_kzalloc(test, sizeof(*trial), GFP_KERNEL);
	int want = state->ret[api_call->column];
	u64 tick = state->tick;
	enum effect effect;

	KUNIT_ASSERT_NOT_NULL(test, trial);
	*trial = (struct trial){ .state = state, .api_call = api_call, .wheel = wheel, .ret = NA };
	if ((api_call->expires | api_call->slack) > CLOCK_END ||
	    (wheel == REALTIME && api_call->column == AFTER))
		want = -EINVAL;
	trial->waits = want >= W;
	want -= trial->waits ? W : 0;
	trial->in_helper = state->inside && api_call->column >= SYNC;
	/* A callback that spins until the helper has made the call keeps a CPU busy. */
	if (trial->in_helper && spare_cpu() >= nr_cpu_ids)
		return;
	effect = effect_of(api_call->column, want);
	if (effect != NOTHING)
		tick = effect == CANCELLED ? 0 : NEW;
	create_trial_wheel(test, trial);
	enter_state(test, trial);
	KUNIT_EXPECT_EQ(test, want, trial->ret);
	expect_counters(test, trial, effect);
	expect_pending(test, trial, tick);
	expect_fires(test, trial, tick);
	expect_can_be_armed_again(test, trial, tick);
	fixture_exit(test);
}

NAMED_PARAM(state, states);

static void each_function_has_the_effect_of_the_table(struct kunit *test)
{
	const struct state *s = test->param_value;
	unsigned long wheels = s->wheels;
	const struct api_call *v;
	unsigned int wheel;

	for_each_set_bit(wheel, &wheels, NR_WHEELS) {
		for (v = api_calls; v < api_calls + ARRAY_SIZE(api_calls); v++) {
			if (s->ret[v->column] == NA)
				continue;
			run_table_cell(test, s, v, wheel);
			if (test->status == KUNIT_SUCCESS)
				continue;
			kunit_err(test, "%s, %s, wheel %u", v->name, s->name, wheel);
			return;
		}
	}
}

/* Creation, the time and the end of a wheel */

/* A hierarchy has digits of log2(slots) and of 6 bits, as many as S64_MAX needs. */
struct create_case {
	struct twheel_params	params;
	u32			slots;		/* of the wheel; 0: -EINVAL */
	u32			levels;
};

static const struct create_case create_cases[] = {
	{ { .name = "1 slot", .slots = 1 } },
	{ { .name = "2 slots", .slots = 2, .levels = 1, .tick_ns = 1 }, 2, 1 },
	{ { .name = "2 slots, levels", .slots = 2 }, 2, 9 },
	{ { .name = "3 slots, levels", .slots = 3, .levels = 2 }, 4, 8 },
	{ { .name = "50 slots", .slots = 50, .levels = 1, .tick_ns = DAY_NS }, 64, 1 },
	{ { .name = "64 slots, levels", .slots = 64, .levels = 8 }, 64, 8 },
	{ { .name = "default" }, 256, 7 },
	{ { .name = "512 slots, -1 levels", .slots = 512, .levels = U32_MAX }, 512, 7 },
	{ { .name = "65535 slots, levels", .slots = 65535, .levels = 4 }, 65536, 6 },
	{ { .name = "65536 slots", .slots = 65536, .levels = 1 }, 65536, 1 },
	{ { .name = "65537 slots", .slots = 65537 } },
	{ { .name = "-1 slots", .slots = U32_MAX } },
	{ { .name = "tick above a day", .tick_ns = DAY_NS + 1 } },
	{ { .name = "negative tick", .tick_ns = U64_MAX } },
	{ { .name = "next clock", .clock = TWHEEL_MANUAL + 1 } },
	{ { .name = "negative clock", .clock = (enum twheel_clock)-1 } },
};

static void create_case_desc(const struct create_case *m, char *desc)
{
	strscpy(desc, m->params.name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(create_case, create_cases, create_case_desc);

static void create_makes_what_was_asked_for_or_refuses_it(struct kunit *test)
{
	const struct create_case *m = test->param_value;
	struct twheel *w = fixture_create(test->priv, &m->params);
	struct twheel_params params = {};

	KUNIT_EXPECT_EQ(test, m->slots ? 0 : -EINVAL, PTR_ERR_OR_ZERO(w));
	if (IS_ERR(w))
		return;
	twheel_get_params(w, &params);
	KUNIT_EXPECT_STREQ(test, m->params.name, params.name);
	KUNIT_EXPECT_EQ(test, (int)m->params.clock, (int)params.clock);
	KUNIT_EXPECT_EQ(test, m->params.tick_ns ?: TICK, params.tick_ns);
	KUNIT_EXPECT_EQ(test, m->slots, params.slots);
	KUNIT_EXPECT_EQ(test, m->levels, params.levels);
	KUNIT_EXPECT_GT(test, params.memory, m->slots * sizeof(struct list_head));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(w, CLOCK_END));
}

static void advance_sets_the_time(struct kunit *test)
{
	struct fixture *f = create_manual_wheel(test, TICK, 4, 3);

	KUNIT_EXPECT_EQ(test, 0ULL, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, CLOCK_END));
	KUNIT_EXPECT_EQ(test, CLOCK_END, twheel_now(f->wheel));
	KUNIT_EXPECT_EQ(test, 0, twheel_advance(f->wheel, 12345));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(f->wheel, NEGATIVE));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_advance(f->wheel, U64_MAX));
	KUNIT_EXPECT_EQ(test, 12345ULL, twheel_now(f->wheel));
}

static void destroy_takes_out_what_is_pending(struct kunit *test)
{
	static const u64 ticks[] = { 3, 13, 50, 1000 };
	struct fixture *f = create_manual_wheel(test, TICK, 4, 3);
	struct test_timeout *p = create_timeouts(test, ARRAY_SIZE(ticks));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_at_tick(test, &p[i], ticks[i]);
	fixture_exit(test);
	KUNIT_EXPECT_EQ(test, 0U, f->nr_fired);
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		KUNIT_EXPECT_FALSE(test, twheel_pending(&p[i].t));
}

/* The file in debugfs */

struct file_search {
	struct dir_context ctx;
	unsigned int found;
};

/* A slash in the name of a wheel becomes an exclamation mark. */
static bool find_file(struct dir_context *ctx, const char *name, int len, loff_t pos, u64 ino,
		      unsigned int type)
{
	struct file_search *file_search = container_of(ctx, struct file_search, ctx);

	file_search->found += !strncmp(name, "kunit!file.", 11);
	return true;
}

static unsigned int nr_files(void)
{
	struct file *dir = filp_open("/sys/kernel/debug/twheel", O_RDONLY | O_DIRECTORY, 0);
	struct file_search file_search = { .ctx.actor = find_file };

	if (!IS_ERR(dir)) {
		iterate_dir(dir, &file_search.ctx);
		filp_close(dir, NULL);
	}
	return file_search.found;
}

static void file_is_there_until_the_wheel_is_destroyed(struct kunit *test)
{
	struct twheel_params params = { .name = "kunit/file", .clock = TWHEEL_MANUAL };

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	if (!nr_files())
		kunit_skip(test, "no debugfs");
	KUNIT_EXPECT_EQ(test, 1U, nr_files());
	fixture_exit(test);
	KUNIT_EXPECT_EQ(test, 0U, nr_files());
}

/* The warning of too many wheels */

/* The default of warn_wheels. */
#define WHEELS		64

static unsigned int count_log_lines(const char *text)
{
	static char line[256];
	struct kmsg_dump_iter iter;
	unsigned int n = 0;
	size_t len;

	kmsg_dump_rewind(&iter);
	while (kmsg_dump_get_line(&iter, false, line, sizeof(line), &len))
		n += !!strnstr(line, text, len);
	return n;
}

static void make_small_wheels(struct kunit *test, bool account)
{
	struct twheel_params params = {
		.name = "kunit-small", .clock = TWHEEL_MANUAL, .slots = 2, .levels = 1,
		.account = account,
	};
	struct twheel *wheel[WHEELS + 2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wheel); i++)
		wheel[i] = twheel_create(&params);
	for (i = 0; i < ARRAY_SIZE(wheel); i++) {
		KUNIT_EXPECT_FALSE(test, IS_ERR(wheel[i]));
		twheel_destroy(wheel[i]);
	}
}

static void wheels_that_are_accounted_are_not_warned_of(struct kunit *test)
{
	unsigned int before = count_log_lines(" wheels: share one");

	make_small_wheels(test, true);
	KUNIT_EXPECT_EQ(test, before, count_log_lines(" wheels: share one"));
}

/* The first wheel above the limit causes the warning. Any code may have made the others. */
static void too_many_wheels_are_warned_of_once(struct kunit *test)
{
	if (count_log_lines(" wheels: share one"))
		kunit_skip(test, "the kernel has already warned");
	make_small_wheels(test, false);
	KUNIT_EXPECT_EQ(test, 1U, count_log_lines("twheel: 65 wheels: share one"));
	KUNIT_EXPECT_EQ(test, 1U, count_log_lines(" wheels: share one"));
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE_PARAM(each_function_has_the_effect_of_the_table, state_gen_params),
	KUNIT_CASE_PARAM(create_makes_what_was_asked_for_or_refuses_it, create_case_gen_params),
	KUNIT_CASE(advance_sets_the_time),
	KUNIT_CASE(destroy_takes_out_what_is_pending),
	KUNIT_CASE(file_is_there_until_the_wheel_is_destroyed),
	KUNIT_CASE(wheels_that_are_accounted_are_not_warned_of),
	KUNIT_CASE(too_many_wheels_are_warned_of_once),
	{}
};

static struct kunit_suite state_suite = {
	.name = "twheel-state",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = state_cases,
};

module_test_suite(state_suite);

MODULE_DESCRIPTION("KUnit suite of the states of wheels and timeouts");
MODULE_LICENSE("GPL");
