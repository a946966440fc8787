// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of a grid: each kind of timeout, in each place of the wheel, under each
 * operation. A case is an operation; its parameters are a kind and a place.
 *
 * The table of pairs of features refers to these cases for most pairs. Pairs that need a
 * test of their own are in the suite of pairs.
 */
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/string.h>

#include "fixture.h"
#include "suite.h"

DEFINE_STRIDE();

#define TICK		((u64)NSEC_PER_MSEC)
#define PATIENCE	(30 * HZ)

/* First deadline, in ticks. With 8 slots, it is in the second block of level 3. */
#define DEADLINE	1003

/* Interval and extension, and slack, in ticks. */
#define AGAIN		5
#define SLACK		7

/* More timeouts than one turn moves, so that their slot is cascaded early. */
#define CROWD		300

/**
 * struct kind - a kind of timeout
 * @name: its features
 * @periodic: its kind; TWHEEL_ONCE if it is a one-shot
 * @repeat: number of periods; 0: no end
 * @slack: in ticks
 * @worker: a worker runs its callback
 * @limited: max_pending of its wheel is the number of timeouts
 * @sink: its wheel has a sink
 * @extends: the sink extends it before the case begins, and once in the case
 */
struct kind {
	const char		*name;
	enum twheel_kind	periodic;
	u32			repeat;
	u64			slack;
	bool			worker;
	bool			limited;
	bool			sink;
	bool			extends;
};

static const struct kind kinds[] = {
	{ "one-shot" },
	{ "fixed rate", .periodic = TWHEEL_FIXED_RATE },
	{ "fixed delay", .periodic = TWHEEL_FIXED_DELAY },
	{ "fixed rate, finite repeat", .periodic = TWHEEL_FIXED_RATE, .repeat = 3 },
	{ "fixed delay, finite repeat", .periodic = TWHEEL_FIXED_DELAY, .repeat = 3 },
	{ "slack", .slack = SLACK },
	{ "worker", .worker = true },
	{ "worker, fixed rate", .worker = true, .periodic = TWHEEL_FIXED_RATE },
	{ "worker, fixed delay", .worker = true, .periodic = TWHEEL_FIXED_DELAY },
	{ "worker, finite repeat", .worker = true, .periodic = TWHEEL_FIXED_RATE, .repeat = 3 },
	{ "worker, slack", .worker = true, .slack = SLACK },
	{ "worker, max_pending", .worker = true, .limited = true },
	{ "max_pending", .limited = true },
	{ "max_pending, fixed rate", .limited = true, .periodic = TWHEEL_FIXED_RATE },
	{ "max_pending, fixed delay", .limited = true, .periodic = TWHEEL_FIXED_DELAY },
	{ "max_pending, finite repeat", .limited = true, .periodic = TWHEEL_FIXED_RATE,
	  .repeat = 3 },
	{ "max_pending, slack", .limited = true, .slack = SLACK },
	{ "sink", .sink = true },
	{ "sink, slack", .sink = true, .slack = SLACK },
	{ "sink, max_pending", .sink = true, .limited = true },
	{ "sink, extension", .sink = true, .extends = true },
	{ "sink, extension, slack", .sink = true, .extends = true, .slack = SLACK },
	{ "sink, extension, max_pending", .sink = true, .extends = true, .limited = true },
};

static void kind_desc(const struct kind *k, char *desc)
{
	strscpy(desc, k->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

/**
 * struct place - where a timeout is when the operation begins
 * @name: its features
 * @slots: slots of the wheel
 * @levels: levels of the wheel
 * @crowd: number of other timeouts for the same tick. If it is not 0, the clock goes on
 *	until their slot on the top level has been cascaded early
 * @elsewhere: all timeouts are armed on another CPU
 * @way: ticks that the clock is then set to
 */
struct place {
	const char	*name;
	u32		slots;
	u32		levels;
	unsigned int	crowd;
	bool		elsewhere;
	u64		way[4];
};

static const struct place places[] = {
	{ "at rest", 8, 4 },
	{ "backward step", 8, 4, .way = { 700, 300 } },
	{ "forward step", 8, 4, .way = { 998 } },
	{ "rounds", 8, 1, .way = { 500 } },
	{ "early cascade", 8, 4, .crowd = CROWD },
	{ "early cascade, rounds", 8, 2, .crowd = CROWD },
	{ "another CPU", 8, 4, .elsewhere = true },
};

/* Combinations of two of these places. */
static const struct place crossings[] = {
	{ "forward step, backward step", 8, 4, .way = { 998, 5, 998 } },
	{ "backward step, rounds", 8, 1, .way = { 700, 300 } },
	{ "backward step, another CPU", 8, 4, .elsewhere = true, .way = { 700, 300 } },
	{ "backward step, early cascade", 8, 4, .crowd = CROWD, .way = { 300 } },
	{ "forward step, rounds", 8, 1, .way = { 998 } },
	{ "forward step, another CPU", 8, 4, .elsewhere = true, .way = { 998 } },
	{ "forward step, early cascade", 8, 4, .crowd = CROWD, .way = { 998 } },
	{ "early cascade, another CPU", 8, 4, .crowd = CROWD, .elsewhere = true },
	{ "rounds, another CPU", 8, 1, .elsewhere = true, .way = { 500 } },
};

/* The elements have no value: their index gives the kind and the place. */
static const u8 combinations[ARRAY_SIZE(kinds) * ARRAY_SIZE(places)];
static const u8 meetings[ARRAY_SIZE(kinds) * ARRAY_SIZE(crossings)];

static const struct kind *kind_of(const u8 *c)
{
	return &kinds[(c - combinations) / ARRAY_SIZE(places)];
}

static const struct place *place_of(const u8 *c)
{
	return &places[(c - combinations) % ARRAY_SIZE(places)];
}

static const struct kind *kind_at(const u8 *m)
{
	return &kinds[(m - meetings) / ARRAY_SIZE(crossings)];
}

static const struct place *crossing_at(const u8 *m)
{
	return &crossings[(m - meetings) % ARRAY_SIZE(crossings)];
}

static void combination_desc(const u8 *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s: %s", kind_of(c)->name, place_of(c)->name);
}

KUNIT_ARRAY_PARAM(combination, combinations, combination_desc);

static void meeting_desc(const u8 *m, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s: %s", kind_at(m)->name, crossing_at(m)->name);
}

KUNIT_ARRAY_PARAM(meeting, meetings, meeting_desc);

struct scene;

/**
 * struct subject - the timeout of a case
 * @p: the timeout; a one-shot uses p.t alone
 * @sc: scene that it belongs to
 * @kind: its kind
 * @tick: tick that the wheel placed it at
 * @calls: number of callbacks, or of times that the sink got it
 * @called_ns: the wheel's time at the last call
 * @periods: number of periods that its calls reported
 * @early: number of calls before the deadline
 * @after: number of other timeouts that had fired before its first call, by the thread
 * @extensions: number of times that the sink still extends it
 * @then: called at the end of its callback, or NULL
 * @ret: results of the calls that @then and the sink make
 */
struct subject {
	struct twheel_periodic	p;
	struct scene		*sc;
	const struct kind	*kind;
	u64			tick;
	atomic_t		calls;
	u64			called_ns;
	u64			periods;
	unsigned int		early;
	unsigned int		after;
	unsigned int		extensions;
	void			(*then)(struct subject *s);
	int			ret[4];
};

/**
 * struct scene - everything that a case works with
 * @f: the wheel, and the order in which @crowd has fired
 * @place: place of @s
 * @s: the timeout of the case
 * @crowd: the other timeouts
 * @spare: armed to find out whether a place under max_pending is free
 * @handed_back: number of timeouts that twheel_stop() has handed back
 * @subject_back: number of times that @s was handed back
 */
struct scene {
	struct fixture		*f;
	const struct place	*place;
	struct subject		s;
	struct probe		*crowd;
	struct twheel_timeout	spare;
	unsigned int		handed_back;
	unsigned int		subject_back;
};

/* The subject */

static void subject_called(struct subject *s, u64 deadline, u64 missed)
{
	s->called_ns = twheel_now(s->sc->f->wheel);
	s->early += s->called_ns < deadline;
	s->periods += 1 + missed;
	if (!s->kind->worker && !atomic_read(&s->calls))
		s->after = s->sc->f->nr_fired;
	if (s->then)
		s->then(s);
	atomic_inc(&s->calls);
}

static void subject_fires(struct twheel_timeout *t)
{
	subject_called(container_of(t, struct subject, p.t), t->expires, 0);
}

static void subject_comes_round(struct twheel_periodic *p)
{
	subject_called(container_of(p, struct subject, p), p->expires, p->missed);
}

/* Extend the subject to its first deadline, extend it from there, or accept it. */
static void subject_expired(struct subject *s, u64 now_ns)
{
	struct twheel_timeout *t = &s->p.t;

	if (s->extensions == 2) {
		s->extensions = 1;
		s->ret[0] = twheel_extend(t, DEADLINE * TICK, s->kind->slack * TICK);
		return;
	}
	if (!s->extensions || twheel_extend(t, now_ns + AGAIN * TICK, 0)) {
		twheel_accept(t);
		subject_called(s, t->expires, 0);
		return;
	}
	s->extensions = 0;
	s->called_ns = now_ns;
	s->after = s->sc->f->nr_fired;
	atomic_inc(&s->calls);
}

static void take_batch(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct scene *sc = sink_data;
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del_init(&t->entry);
		if (t == &sc->s.p.t) {
			subject_expired(&sc->s, now_ns);
			continue;
		}
		if (t != &sc->spare)
			probe_record(container_of(t, struct probe, t));
		twheel_accept(t);
	}
}

static void subject_init(struct subject *s)
{
	struct twheel *w = s->sc->f->wheel;

	s->extensions = s->kind->extends;
	if (s->kind->periodic)
		twheel_periodic_init(w, &s->p, subject_comes_round, s->kind->periodic);
	else
		twheel_timeout_init(w, &s->p.t, s->kind->sink ? NULL : subject_fires);
	if (s->kind->worker)
		twheel_use_workqueue(&s->p.t);
}

static int subject_arm(struct subject *s, u64 tick)
{
	struct twheel_timeout *t = &s->p.t;

	if (s->kind->periodic)
		return twheel_arm_periodic(&s->p, tick * TICK, AGAIN * TICK, s->kind->repeat);
	if (s->kind->slack)
		return twheel_arm_slack(t, tick * TICK, s->kind->slack * TICK);
	return twheel_arm(t, tick * TICK);
}

/* Number of calls, AGAIN ticks apart; a subject without an end is then cancelled. */
static unsigned int subject_calls(const struct subject *s)
{
	if (s->kind->periodic)
		return 3;
	return s->kind->extends ? 2 : 1;
}

/* The scene */

static void nothing(struct twheel_timeout *t)
{
}

static void make_scene_wheel(struct kunit *test, struct scene *sc, const struct kind *k)
{
	const struct twheel_params params = {
		.name = "kunit-grid",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = sc->place->slots,
		.levels = sc->place->levels,
		.max_pending = k->limited ? 1 + sc->place->crowd : 0,
		.sink = k->sink ? take_batch : NULL,
		.sink_data = sc,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(sc->f, &params));
}

static void arm_crowd(struct kunit *test, struct scene *sc, unsigned int from, unsigned int to)
{
	unsigned int i;

	for (i = from; i < to; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_slack(&sc->crowd[i].t, DEADLINE * TICK,
							  sc->s.kind->slack * TICK));
}

/* The subject reaches its first deadline by an extension. */
static void arm_and_extend(struct kunit *test, struct subject *s)
{
	s->extensions = 2;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&s->p.t, TICK));
	advance_tick(test, 1);
	KUNIT_ASSERT_EQ(test, 1U, s->extensions);
	KUNIT_ASSERT_EQ(test, 0, s->ret[0]);
}

static void arm_all(struct kunit *test, struct scene *sc)
{
	struct twheel_position pos;
	struct subject *s = &sc->s;

	arm_crowd(test, sc, 0, sc->place->crowd / 2);
	if (s->kind->extends)
		arm_and_extend(test, s);
	else
		KUNIT_ASSERT_EQ(test, 0, subject_arm(s, DEADLINE));
	arm_crowd(test, sc, sc->place->crowd / 2, sc->place->crowd);
	KUNIT_ASSERT_TRUE(test, twheel_position(&s->p.t, &pos));
	s->tick = pos.tick;
	KUNIT_EXPECT_GE(test, s->tick, (u64)DEADLINE);
	KUNIT_EXPECT_LE(test, s->tick, DEADLINE + s->kind->slack);
}

static void arm_all_elsewhere(struct kunit *test, struct scene *sc)
{
	unsigned int here = raw_smp_processor_id(), there = spare_cpu();

	if (there >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	run_on(test, there);
	arm_all(test, sc);
	run_on(test, here);
}

/*
 * Advance to the tick before the block of its slot on the top level; the subject has been
 * cascaded by then.
 */
static void wait_for_early_cascade(struct kunit *test, struct scene *sc)
{
	u64 block = int_pow(sc->place->slots, sc->place->levels - 1);
	struct twheel_position before, after;

	KUNIT_ASSERT_TRUE(test, twheel_position(&sc->s.p.t, &before));
	KUNIT_ASSERT_EQ(test, sc->place->levels - 1, before.level);
	advance_tick(test, before.tick - ref_mod(before.tick, block) - 1);
	KUNIT_ASSERT_TRUE(test, twheel_position(&sc->s.p.t, &after));
	KUNIT_ASSERT_LT(test, after.level, before.level);
}

/* After a backward step, it is placed as if it had been armed then, without its slack. */
static void go_way(struct kunit *test, struct scene *sc)
{
	struct twheel_counters stats;
	u64 now = div_u64(twheel_now(sc->f->wheel), TICK);
	const u64 *tick;

	for (tick = sc->place->way; *tick; tick++) {
		advance_tick(test, *tick);
		if (*tick < now) {
			twheel_stats(sc->f->wheel, &stats);
			KUNIT_ASSERT_EQ(test, 1ULL + sc->place->crowd, stats.rebased);
			sc->s.tick = DEADLINE;
		}
		now = *tick;
	}
}

static struct scene *scene_of(struct kunit *test, const struct kind *k, const struct place *at)
{
	struct scene *sc = kunit_kzalloc(test, sizeof(*sc), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sc);
	sc->f = test->priv;
	sc->place = at;
	sc->s.sc = sc;
	sc->s.kind = k;
	make_scene_wheel(test, sc, k);
	subject_init(&sc->s);
	twheel_timeout_init(sc->f->wheel, &sc->spare, k->sink ? NULL : nothing);
	if (at->crowd)
		sc->crowd = probes_for(test, at->crowd, k->sink ? NULL : probe_fires);
	if (at->elsewhere)
		arm_all_elsewhere(test, sc);
	else
		arm_all(test, sc);
	if (at->crowd)
		wait_for_early_cascade(test, sc);
	go_way(test, sc);
	return sc;
}

/*
 * With a stride, each operation and each place still meets some kinds, and each kind some
 * places. Combinations that need a second CPU are always tested, because only slow machines
 * have one.
 */
static void choose(struct kunit *test, const struct kind *k, unsigned int place, bool elsewhere)
{
	if (!elsewhere && (3 * (k - kinds) + place) % stride)
		kunit_skip(test, "left out by the stride");
}

/*
 * Make the scene that the parameters of the case describe: the subject is armed and in its
 * place.
 */
static struct scene *scene(struct kunit *test)
{
	const struct place *at = place_of(test->param_value);

	choose(test, kind_of(test->param_value), at - places, at->elsewhere);
	return scene_of(test, kind_of(test->param_value), at);
}

static u64 now_tick(const struct scene *sc)
{
	return div_u64(twheel_now(sc->f->wheel), TICK);
}

static void expect_calls(struct kunit *test, struct scene *sc, int calls)
{
	twheel_flush(sc->f->wheel);
	KUNIT_ASSERT_EQ(test, calls, atomic_read(&sc->s.calls));
}

/* A worker may need some time. */
static void wait_for_calls(struct scene *sc, int calls)
{
	unsigned long end = jiffies + PATIENCE;

	while (atomic_read(&sc->s.calls) < calls && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
}

static void expect_called_at(struct kunit *test, struct scene *sc, u64 tick)
{
	int before = atomic_read(&sc->s.calls);

	advance_tick(test, tick - 1);
	expect_calls(test, sc, before);
	advance_tick(test, tick);
	wait_for_calls(sc, before + 1);
	expect_calls(test, sc, before + 1);
	KUNIT_EXPECT_EQ(test, tick * TICK, sc->s.called_ns);
	KUNIT_EXPECT_EQ(test, 0U, sc->s.early);
}

/* The subject is not called any more. */
static void expect_silence(struct kunit *test, struct scene *sc)
{
	int calls = atomic_read(&sc->s.calls);

	KUNIT_EXPECT_FALSE(test, twheel_pending(&sc->s.p.t));
	advance_tick(test, now_tick(sc) + 3 * DEADLINE);
	expect_calls(test, sc, calls);
}

/* If its kind is limited, the subject holds the last place: no other timeout can be armed. */
static void expect_place(struct kunit *test, struct scene *sc, bool is_free)
{
	int want = is_free || !sc->s.kind->limited ? 0 : -EAGAIN;
	int got = twheel_arm(&sc->spare, 9999 * TICK);

	KUNIT_EXPECT_EQ(test, want, got);
	if (!got)
		KUNIT_EXPECT_TRUE(test, twheel_cancel(&sc->spare));
}

/* The subject is called at @tick first, and then as its kind requires. */
static void expect_all_calls_from(struct kunit *test, struct scene *sc, u64 tick)
{
	struct subject *s = &sc->s;
	unsigned int i, nr = subject_calls(s);

	for (i = 0; i < nr; i++) {
		if (!sc->place->crowd)
			expect_place(test, sc, false);
		expect_called_at(test, sc, tick + i * AGAIN);
	}
	KUNIT_EXPECT_EQ(test, s->kind->extends ? 1ULL : nr, s->periods);
	if (s->kind->periodic && !s->kind->repeat)
		KUNIT_EXPECT_TRUE(test, twheel_cancel(&s->p.t));
	expect_place(test, sc, true);
	expect_silence(test, sc);
}

/* Operations */

static void each_kind_is_called_at_its_ticks(struct kunit *test)
{
	struct scene *sc = scene(test);

	expect_all_calls_from(test, sc, sc->s.tick);
	KUNIT_EXPECT_EQ(test, sc->place->crowd, sc->f->nr_fired);
	if (!sc->s.kind->worker)
		KUNIT_EXPECT_EQ(test, sc->place->crowd / 2, sc->s.after);
}

static void each_kind_is_called_where_places_meet(struct kunit *test)
{
	const struct kind *k = kind_at(test->param_value);
	const struct place *at = crossing_at(test->param_value);
	struct scene *sc;

	choose(test, k, at - crossings, at->elsewhere);
	sc = scene_of(test, k, at);
	expect_all_calls_from(test, sc, sc->s.tick);
	KUNIT_EXPECT_EQ(test, sc->place->crowd, sc->f->nr_fired);
}

/* With a fixed rate, the call stands for three periods and keeps the phase. */
static void step_past_the_deadline_calls_each_kind_once(struct kunit *test)
{
	struct scene *sc = scene_of(test, test->param_value, &places[0]);
	bool rate = sc->s.kind->periodic == TWHEEL_FIXED_RATE;
	u64 now = DEADLINE + 2 * AGAIN + 2;

	advance_tick(test, now);
	wait_for_calls(sc, 1);
	expect_calls(test, sc, 1);
	KUNIT_EXPECT_EQ(test, now * TICK, sc->s.called_ns);
	if (!sc->s.kind->extends)
		KUNIT_EXPECT_EQ(test, rate ? 3ULL : 1ULL, sc->s.periods);
	if (subject_calls(&sc->s) == 1 || (rate && sc->s.kind->repeat))
		expect_silence(test, sc);
	else
		expect_called_at(test, sc, rate ? DEADLINE + 3 * AGAIN : now + AGAIN);
}

static void mod_gives_each_kind_a_new_time(struct kunit *test)
{
	struct scene *sc = scene(test);
	u64 tick = now_tick(sc) + 3;

	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&sc->s.p.t, 4 * DEADLINE * TICK));
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&sc->s.p.t, tick * TICK));
	expect_all_calls_from(test, sc, tick);
}

/* The operation has taken the subject out; it can be armed again like a new timeout. */
static void expect_taken_out(struct kunit *test, struct scene *sc)
{
	u64 tick;

	expect_place(test, sc, true);
	expect_silence(test, sc);
	tick = now_tick(sc) + 10;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm(&sc->s.p.t, tick * TICK));
	expect_all_calls_from(test, sc, tick);
}

static void try_cancel_takes_each_kind_out(struct kunit *test)
{
	struct scene *sc = scene(test);

	KUNIT_EXPECT_EQ(test, 1, twheel_try_cancel(&sc->s.p.t));
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(&sc->s.p.t));
	expect_taken_out(test, sc);
}

static void cancel_sync_takes_each_kind_out(struct kunit *test)
{
	struct scene *sc = scene(test);

	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&sc->s.p.t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&sc->s.p.t));
	expect_taken_out(test, sc);
}

static void lists_take_each_kind_out_and_in(struct kunit *test)
{
	struct scene *sc = scene(test);
	struct twheel_timeout *list[] = { &sc->spare, &sc->s.p.t };
	u64 tick;

	KUNIT_EXPECT_EQ(test, 1U, twheel_cancel_list(list, 2));
	expect_place(test, sc, true);
	expect_silence(test, sc);
	tick = now_tick(sc) + 10;
	list[0] = &sc->s.p.t;
	list[0]->expires = tick * TICK;
	KUNIT_ASSERT_EQ(test, 1U, twheel_arm_list(sc->f->wheel, list, 1));
	expect_all_calls_from(test, sc, tick);
}

static void expect_refused(struct kunit *test, struct scene *sc)
{
	struct twheel_timeout *t = &sc->s.p.t;

	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, subject_arm(&sc->s, DEADLINE));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(t, DEADLINE * TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_after(t, TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm_slack(t, DEADLINE * TICK, TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_mod(t, DEADLINE * TICK));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_mod_slack(t, DEADLINE * TICK, TICK));
	t->expires = DEADLINE * TICK;
	KUNIT_EXPECT_EQ(test, 0U, twheel_arm_list(sc->f->wheel, &t, 1));
	KUNIT_EXPECT_EQ(test, 0, twheel_try_cancel(t));
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(t));
}

static void shutdown_ends_each_kind(struct kunit *test)
{
	struct scene *sc = scene(test);
	u64 tick;

	KUNIT_EXPECT_TRUE(test, twheel_shutdown(&sc->s.p.t));
	KUNIT_EXPECT_FALSE(test, twheel_shutdown(&sc->s.p.t));
	expect_refused(test, sc);
	expect_place(test, sc, true);
	expect_silence(test, sc);
	subject_init(&sc->s);
	tick = now_tick(sc) + 10;
	KUNIT_ASSERT_EQ(test, 0, subject_arm(&sc->s, tick));
	KUNIT_ASSERT_EQ(test, 1, twheel_mod(&sc->s.p.t, tick * TICK));
	expect_all_calls_from(test, sc, tick);
}

static void note_handed_back(void *data, struct twheel_timeout *t)
{
	struct scene *sc = data;

	sc->handed_back++;
	if (t != &sc->s.p.t)
		return;
	sc->subject_back++;
	sc->s.ret[0] = twheel_pending(t);
	sc->s.ret[1] = twheel_try_cancel(t);
	sc->s.ret[2] = twheel_arm(t, DEADLINE * TICK);
}

static void stop_hands_each_kind_back(struct kunit *test)
{
	struct scene *sc = scene(test);
	struct twheel *w = sc->f->wheel;

	twheel_stop(w, note_handed_back, sc);
	KUNIT_EXPECT_EQ(test, 1 + sc->place->crowd, sc->handed_back);
	KUNIT_EXPECT_EQ(test, 1U, sc->subject_back);
	KUNIT_EXPECT_EQ(test, 0, sc->s.ret[0]);
	KUNIT_EXPECT_EQ(test, -EBUSY, sc->s.ret[1]);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, sc->s.ret[2]);
	expect_refused(test, sc);
	expect_silence(test, sc);
	twheel_stop(w, note_handed_back, sc);
	KUNIT_EXPECT_EQ(test, 1U, sc->subject_back);
	KUNIT_EXPECT_EQ(test, 0U, sc->f->nr_fired);
}

/* Initialise a new timeout in the subject's memory before its callback has returned. */
static void become_another(struct subject *s)
{
	struct twheel *w = s->sc->f->wheel;
	struct twheel_timeout *t = &s->p.t;
	u64 expires = twheel_now(w) + 3 * TICK;

	s->then = NULL;
	if (s->kind->periodic)
		twheel_cancel(t);
	memset(&s->p, 0xa5, sizeof(s->p));
	twheel_timeout_init(w, t, s->kind->sink ? NULL : subject_fires);
	if (s->kind->worker)
		twheel_use_workqueue(t);
	s->ret[0] = twheel_try_cancel(t);
	s->ret[1] = twheel_arm(t, expires);
	s->ret[2] = twheel_try_cancel(t);
	s->ret[3] = twheel_arm(t, expires);
}

static void memory_of_each_kind_can_hold_another(struct kunit *test)
{
	struct scene *sc = scene(test);
	struct subject *s = &sc->s;
	u64 tick = s->tick;

	s->then = become_another;
	expect_called_at(test, sc, tick);
	if (s->kind->extends)
		expect_called_at(test, sc, tick += AGAIN);
	KUNIT_EXPECT_EQ(test, 0, s->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, s->ret[1]);
	KUNIT_EXPECT_EQ(test, 1, s->ret[2]);
	KUNIT_EXPECT_EQ(test, 0, s->ret[3]);
	expect_called_at(test, sc, tick + 3);
	expect_place(test, sc, true);
	expect_silence(test, sc);
}

static struct kunit_case grid_cases[] = {
	KUNIT_CASE_PARAM(each_kind_is_called_at_its_ticks, combination_gen_params),
	KUNIT_CASE_PARAM(each_kind_is_called_where_places_meet, meeting_gen_params),
	KUNIT_CASE_PARAM(step_past_the_deadline_calls_each_kind_once, kind_gen_params),
	KUNIT_CASE_PARAM(mod_gives_each_kind_a_new_time, combination_gen_params),
	KUNIT_CASE_PARAM(try_cancel_takes_each_kind_out, combination_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_takes_each_kind_out, combination_gen_params),
	KUNIT_CASE_PARAM(lists_take_each_kind_out_and_in, combination_gen_params),
	KUNIT_CASE_PARAM(shutdown_ends_each_kind, combination_gen_params),
	KUNIT_CASE_PARAM(stop_hands_each_kind_back, combination_gen_params),
	KUNIT_CASE_PARAM(memory_of_each_kind_can_hold_another, combination_gen_params),
	{}
};

static struct kunit_suite grid_suite = {
	.name = "twheel-grid",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = grid_cases,
};

module_test_suite(grid_suite);

MODULE_DESCRIPTION("KUnit suite of kinds of timeouts, their places and operations");
MODULE_LICENSE("GPL");
