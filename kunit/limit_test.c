// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of max_pending: which timeouts take a place, which keep it, and when it is
 * free again. With several threads, no place is lost and none is added.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "arming.h"
#include "fixture.h"
#include "helper.h"
#include "kind.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)
#define FAR		(3600 * (u64)NSEC_PER_SEC)

static struct fixture *limited_wheel(struct kunit *test, enum twheel_clock clock,
				     unsigned int limit)
{
	struct twheel_params params = {
		.name = "kunit-limit",
		.clock = clock,
		.tick_ns = TICK,
		.slots = 4,
		.levels = 3,
		.max_pending = limit,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return test->priv;
}

/* Make a wheel of three places, all of them taken, and four timeouts. The fourth is idle. */
static struct probe *full_wheel(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	limited_wheel(test, TWHEEL_MANUAL, 3);
	p = probes(test, 4);
	for (i = 0; i < 3; i++)
		arm_tick(test, &p[i], 10 * (i + 1));
	return p;
}

/* Exactly @n more timeouts can be armed. They are cancelled, so they need no callback. */
static void expect_places(struct kunit *test, unsigned int n)
{
	struct probe *p = probes(test, n + 1);
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 0, twheel_arm(&p[i].t, FAR));
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[n].t, FAR));
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[i].t));
}

/* Refusals */

KUNIT_ARRAY_PARAM(arming, armings, arming_desc);

static void one_more_than_the_limit_is_refused(struct kunit *test)
{
	const struct arming *a = test->param_value;
	struct probe *p = full_wheel(test);
	struct twheel_counters stats;

	KUNIT_EXPECT_EQ(test, -EAGAIN, a->arm(p->f->wheel, &p[3].t, 5 * TICK));
	KUNIT_EXPECT_EQ(test, -EAGAIN, a->arm(p->f->wheel, &p[3].t, 5 * TICK));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&p[3].t));
	twheel_stats(p->f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 3ULL, stats.armed);
	advance_tick(test, 9);
	KUNIT_EXPECT_EQ(test, 0U, p[3].fired);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, 0, a->arm(p->f->wheel, &p[3].t, 20 * TICK));
}

static void limit_is_told(struct kunit *test)
{
	struct fixture *f = limited_wheel(test, TWHEEL_MANUAL, 77);
	struct twheel_params params;

	twheel_get_params(f->wheel, &params);
	KUNIT_EXPECT_EQ(test, 77U, params.max_pending);
}

static void no_limit_refuses_nobody(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	limited_wheel(test, TWHEEL_MANUAL, 0);
	p = probes(test, 5000);
	for (i = 0; i < 5000; i++)
		arm_tick(test, &p[i], i + 1);
	advance_tick(test, 5000);
	KUNIT_EXPECT_EQ(test, 5000U, p->f->nr_fired);
}

static void refusals_for_other_reasons_take_no_place(struct kunit *test)
{
	struct probe *p;

	limited_wheel(test, TWHEEL_MANUAL, 2);
	p = probes(test, 1);
	arm_tick(test, p, 10);
	KUNIT_EXPECT_EQ(test, -EBUSY, twheel_arm(&p->t, 20 * TICK));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_mod(&p->t, U64_MAX));
	KUNIT_EXPECT_EQ(test, -EINVAL, twheel_arm_slack(&p->t, 0, U64_MAX));
	expect_places(test, 1);
}

/* Operations that keep the place */

static void mod_at_the_limit_keeps_its_place(struct kunit *test)
{
	struct probe *p = full_wheel(test);
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 1, twheel_mod(&p[i % 3].t, (40 + i) * TICK));
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[3].t, TICK));
	expect_places(test, 0);
}

static void cascades_and_rounds_keep_the_place(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	limited_wheel(test, TWHEEL_MANUAL, 2);
	p = probes(test, 1);
	arm_tick(test, p, 700);
	for (i = 1; i < 700; i++) {
		advance_tick(test, i);
		if (i % 50 == 0)
			expect_places(test, 1);
	}
	advance_tick(test, 700);
	expect_places(test, 2);
}

/* Operations that free the place */

static void cancel_gives_the_place_back_at_once(struct kunit *test)
{
	struct probe *p = full_wheel(test);
	struct twheel_timeout *list[] = { &p[1].t, &p[2].t };

	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	expect_places(test, 1);
	KUNIT_EXPECT_FALSE(test, twheel_cancel(&p[0].t));
	expect_places(test, 1);
	KUNIT_EXPECT_EQ(test, 2U, twheel_cancel_list(list, 2));
	expect_places(test, 3);
}

static void cancel_sync_gives_the_place_back(struct kunit *test)
{
	struct probe *p = full_wheel(test);

	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&p[0].t));
	expect_places(test, 1);
}

static void expiry_gives_the_place_back_at_once(struct kunit *test)
{
	full_wheel(test);
	advance_tick(test, 10);
	expect_places(test, 1);
	advance_tick(test, 30);
	expect_places(test, 3);
}

static void arm_itself(struct probe *p)
{
	p->ret = twheel_arm(&p->t, p->arg);
}

static void callback_finds_its_own_place_free(struct kunit *test)
{
	struct probe *p = full_wheel(test);

	p[0].then = arm_itself;
	p[0].arg = 40 * TICK;
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	expect_places(test, 0);
}

static void arm_other(struct probe *p)
{
	p->ret = twheel_arm(&p->other->t, p->arg);
}

/* Due timeouts that wait for their turn are pending, so only the place of the first is free. */
static void arm_two_others(struct probe *p)
{
	arm_other(p);
	p->other[1].ret = twheel_arm(&p->other[1].t, p->arg);
}

static void place_of_the_next_of_the_same_tick_is_still_taken(struct kunit *test)
{
	struct probe *p;

	limited_wheel(test, TWHEEL_MANUAL, 2);
	p = probes(test, 4);
	arm_tick(test, &p[0], 5);
	arm_tick(test, &p[1], 5);
	p[0].then = arm_two_others;
	p[0].other = &p[2];
	p[0].arg = FAR;
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, -EAGAIN, p[3].ret);
	KUNIT_EXPECT_EQ(test, 1U, p[1].fired);
	expect_places(test, 1);
}

static void stop_gives_all_places_back(struct kunit *test)
{
	struct probe *p = full_wheel(test);
	LIST_HEAD(list);

	advance_tick(test, 10);
	twheel_stop(p->f->wheel, collect, &list);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(p->f->wheel));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, twheel_arm(&p[3].t, FAR));
}

/* Lists */

static void arm_list_arms_as_many_as_there_are_places(struct kunit *test)
{
	struct fixture *f = limited_wheel(test, TWHEEL_MANUAL, 300);
	struct probe *p = probes(test, 500);
	LIST_HEAD(list);
	unsigned int i;

	for (i = 0; i < 500; i++) {
		p[i].t.expires = (i + 1) * TICK;
		list_add_tail(&p[i].t.entry, &list);
	}
	KUNIT_EXPECT_EQ(test, 300U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_PTR_EQ(test, &p[300].t.entry, list.next);
	KUNIT_EXPECT_PTR_EQ(test, &p[499].t.entry, list.prev);
	KUNIT_EXPECT_EQ(test, 0U, arm_linked(f->wheel, &list));
	advance_tick(test, 100);
	KUNIT_EXPECT_EQ(test, 100U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_PTR_EQ(test, &p[400].t.entry, list.next);
	advance_tick(test, 350);
	KUNIT_EXPECT_EQ(test, 100U, arm_linked(f->wheel, &list));
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	advance_tick(test, 500);
	expect_fired_in_id_order(test, 500);
}

/* A sink */

struct limit_sink {
	unsigned int	refused;
	bool		rearms;
};

static void take_probes(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct limit_sink *sink = sink_data;
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		probe_record(container_of(t, struct probe, t));
		list_del_init(&t->entry);
		twheel_accept(t);
		if (sink->rearms && twheel_arm_after(t, 10 * TICK))
			sink->refused++;
	}
}

static void sink_gives_the_places_of_its_batch_back(struct kunit *test)
{
	struct limit_sink *sink = kunit_kzalloc(test, sizeof(*sink), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-limit-sink",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.sink = take_probes,
		.sink_data = sink,
		.max_pending = 300,
	};
	struct probe *p;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, sink);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	p = probes_for(test, 301, NULL);
	for (i = 0; i < 300; i++)
		arm_tick(test, &p[i], 5);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[300].t, FAR));
	sink->rearms = true;
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0U, sink->refused);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&p[300].t, FAR));
	sink->rearms = false;
	advance_tick(test, 15);
	KUNIT_EXPECT_EQ(test, 600U, p->f->nr_fired);
	expect_places(test, 300);
}

/* A sink that extends: the place is kept until the sink accepts, or until a later cancel */

/**
 * struct crossing - attempts to arm other timeouts while the sink runs
 * @stranger: timeouts that the sink tries to arm
 * @nr: number of them that it has armed
 * @asked: number of results in @ret
 * @ret: result of each attempt
 * @greedy: keep an armed stranger and try another one next; otherwise cancel it
 */
struct crossing {
	struct probe	*stranger;
	unsigned int	nr;
	unsigned int	asked;
	int		ret[16];
	bool		greedy;
};

static void try_a_stranger(struct crossing *c)
{
	struct twheel_timeout *t = &c->stranger[c->nr].t;
	int ret = twheel_arm(t, FAR);

	if (c->asked < ARRAY_SIZE(c->ret))
		c->ret[c->asked++] = ret;
	if (ret)
		return;
	if (c->greedy)
		c->nr++;
	else
		twheel_cancel(t);
}

/* A timeout with p->arg is extended to that time, once; the others are accepted. */
static void extend_or_accept(void *sink_data, struct list_head *expired, unsigned int nr,
			     u64 now_ns)
{
	struct twheel_timeout *t, *next;
	struct crossing *c = sink_data;

	try_a_stranger(c);
	list_for_each_entry_safe(t, next, expired, entry) {
		struct probe *p = container_of(t, struct probe, t);
		u64 again = p->arg;

		list_del_init(&t->entry);
		p->arg = 0;
		if (again)
			p->ret = twheel_extend(t, again, 0);
		if (!again || p->ret) {
			probe_record(p);
			twheel_accept(t);
		}
		try_a_stranger(c);
	}
}

/* A wheel of @limit places, all of them taken by timeouts for tick 5. */
static struct crossing *crossing(struct kunit *test, unsigned int limit, struct probe **p)
{
	struct crossing *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-limit-sink", .clock = TWHEEL_MANUAL, .tick_ns = TICK,
		.sink = extend_or_accept, .sink_data = c, .max_pending = limit,
	};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	c->stranger = probes_for(test, 40, NULL);
	*p = probes_for(test, limit, NULL);
	for (i = 0; i < limit; i++)
		arm_tick(test, &(*p)[i], 5);
	return c;
}

static void expect_pending(struct kunit *test, u64 n)
{
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, n, stats.pending);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
}

static void place_is_kept_until_the_sink_accepts(struct kunit *test)
{
	struct crossing *c;
	struct probe *p;

	c = crossing(test, 2, &p);
	c->greedy = true;
	advance_tick(test, 5);
	KUNIT_ASSERT_EQ(test, 3U, c->asked);
	KUNIT_EXPECT_EQ(test, -EAGAIN, c->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, c->ret[1]);
	KUNIT_EXPECT_EQ(test, 0, c->ret[2]);
	expect_pending(test, 2);
}

/* The sink arms as many strangers as it can while it extends. */
static void extension_keeps_the_limit(struct kunit *test)
{
	struct crossing *c;
	struct probe *p;
	unsigned int i;

	c = crossing(test, 2, &p);
	c->greedy = true;
	p[0].arg = 20 * TICK;
	p[1].arg = 30 * TICK;
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret | p[1].ret);
	for (i = c->nr; i < 40; i++)
		KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm(&c->stranger[i].t, FAR));
	expect_pending(test, 2);
	advance_tick(test, 30);
	KUNIT_EXPECT_EQ(test, 2U, p->f->nr_fired);
	expect_pending(test, 2);
	expect_places(test, 0);
}

static void extended_timeout_keeps_its_place_and_the_accepted_one_does_not(struct kunit *test)
{
	struct crossing *c;
	struct probe *p;

	c = crossing(test, 2, &p);
	p[0].arg = 20 * TICK;
	advance_tick(test, 5);
	KUNIT_ASSERT_EQ(test, 3U, c->asked);
	KUNIT_EXPECT_EQ(test, -EAGAIN, c->ret[0]);
	KUNIT_EXPECT_EQ(test, -EAGAIN, c->ret[1]);
	KUNIT_EXPECT_EQ(test, 0, c->ret[2]);
	expect_pending(test, 1);
	expect_places(test, 1);
	advance_tick(test, 20);
	expect_places(test, 2);
}

static void extension_again_and_again_keeps_the_limit(struct kunit *test)
{
	struct probe *p;
	unsigned int i;

	crossing(test, 3, &p);
	for (i = 5; i < 100; i++) {
		p[0].arg = (i + 1) * TICK;
		p[1].arg = (i + 2) * TICK;
		advance_tick(test, i);
		expect_places(test, 1);
		expect_pending(test, 2);
	}
}

static void refused_extension_leaves_the_place_to_the_accept(struct kunit *test)
{
	struct crossing *c;
	struct probe *p;

	c = crossing(test, 1, &p);
	p->arg = U64_MAX;
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EINVAL, p->ret);
	KUNIT_EXPECT_EQ(test, -EAGAIN, c->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, c->ret[1]);
	expect_places(test, 1);
}

static void cancel_of_an_extended_timeout_gives_its_place_back(struct kunit *test)
{
	struct probe *p;

	crossing(test, 2, &p);
	p[0].arg = 20 * TICK;
	p[1].arg = 20 * TICK;
	advance_tick(test, 5);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&p[0].t));
	expect_places(test, 1);
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&p[1].t));
	expect_places(test, 2);
}

static void mod_of_an_extended_timeout_keeps_its_place(struct kunit *test)
{
	struct probe *p;

	crossing(test, 1, &p);
	p->arg = 20 * TICK;
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, 30 * TICK));
	expect_places(test, 0);
	advance_tick(test, 30);
	expect_places(test, 1);
}

static void stop_gives_the_places_of_extended_timeouts_back(struct kunit *test)
{
	struct probe *p;

	crossing(test, 2, &p);
	p[0].arg = 20 * TICK;
	p[1].arg = 20 * TICK;
	advance_tick(test, 5);
	twheel_stop(p->f->wheel, NULL, NULL);
	expect_pending(test, 0);
}

/* Periodic timeouts */

/**
 * struct metronome - a periodic timeout that tries to arm another one in its callback
 * @p: the timeout
 * @other: the timeout that it tries to arm
 * @calls: number of callbacks
 * @ret: result of the last attempt
 * @cancels: it cancels itself before the attempt
 * @moves: it moves itself before the attempt
 * @failed: number of times that it could not move itself
 */
struct metronome {
	struct twheel_periodic	p;
	struct probe		*other;
	atomic_t		calls;
	int			ret;
	bool			cancels;
	bool			moves;
	unsigned int		failed;
};

static void metronome_fires(struct twheel_periodic *p)
{
	struct metronome *m = container_of(p, struct metronome, p);

	if (m->moves && twheel_mod(&p->t, twheel_now(m->other->f->wheel) + TICK) < 0)
		m->failed++;
	if (m->cancels)
		twheel_cancel(&p->t);
	m->ret = twheel_arm(&m->other->t, FAR);
	if (!m->ret)
		twheel_cancel(&m->other->t);
	atomic_inc(&m->calls);
}

static struct metronome *metronome(struct kunit *test, enum twheel_clock clock)
{
	struct metronome *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct fixture *f;

	KUNIT_ASSERT_NOT_NULL(test, m);
	f = limited_wheel(test, clock, 1);
	m->other = probes(test, 1);
	twheel_periodic_init(f->wheel, &m->p, metronome_fires, kind_of(test));
	return m;
}

static void periodic_keeps_its_place_between_its_periods(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MANUAL);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 0));
	for (i = 1; i < 50; i++) {
		advance_tick(test, i);
		KUNIT_ASSERT_EQ(test, -EAGAIN, twheel_arm(&m->other->t, FAR));
	}
	KUNIT_EXPECT_EQ(test, 9, atomic_read(&m->calls));
	KUNIT_EXPECT_EQ(test, -EAGAIN, m->ret);
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&m->p.t));
	expect_places(test, 1);
}

static void periodic_gives_its_place_back_in_its_last_callback(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MANUAL);

	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 2));
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, -EAGAIN, m->ret);
	advance_tick(test, 10);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&m->calls));
	KUNIT_EXPECT_EQ(test, 0, m->ret);
	expect_places(test, 1);
}

static void periodic_that_cancels_itself_gives_its_place_back(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MANUAL);

	m->cancels = true;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 0));
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0, m->ret);
	expect_places(test, 1);
}

static void periodic_that_moves_itself_keeps_its_place(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MANUAL);

	m->moves = true;
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 0));
	advance_tick(test, 5);
	KUNIT_EXPECT_EQ(test, 0U, m->failed);
	KUNIT_EXPECT_EQ(test, -EAGAIN, m->ret);
	advance_tick(test, 6);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&m->calls));
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&m->p.t));
	expect_places(test, 1);
}

static void arm_periodic_beyond_the_limit_is_refused(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MANUAL);

	arm_tick(test, m->other, 3);
	KUNIT_EXPECT_EQ(test, -EAGAIN, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 0));
	advance_tick(test, 3);
	KUNIT_EXPECT_EQ(test, 0, twheel_arm_periodic(&m->p, 5 * TICK, 5 * TICK, 0));
}

/* Several threads */

#define NR_CROWDS	4
#define NR_OWN		8
#define NR_STEPS	4000

/**
 * struct crowd - a thread and its timeouts
 * @helper: the thread
 * @wheel: the wheel
 * @held: shared by the threads: lower bound of the number of places taken
 * @limit: number of places
 * @seed: seed of its decisions
 * @over: number of times that @held exceeded the limit
 * @refused: number of arms refused because of the limit
 * @failed: number of calls that failed for another reason
 * @far: all deadlines are far, so that nothing fires
 * @own: its timeouts
 */
struct crowd {
	struct helper		helper;
	struct twheel		*wheel;
	atomic_t		*held;
	unsigned int		limit;
	u32			seed;
	unsigned int		over;
	unsigned int		refused;
	unsigned int		failed;
	bool			far;
	struct twheel_timeout	own[NR_OWN];
};

static void nothing(struct twheel_timeout *t)
{
}

/* Count a place as held only if its timeout is certainly pending. */
static void crowd_arms(struct crowd *c, struct twheel_timeout *t, u64 delay)
{
	int ret = twheel_arm_after(t, delay);

	if (ret == -EAGAIN)
		c->refused++;
	else if (ret && ret != -EBUSY)
		c->failed++;
	if (ret || !c->far)
		return;
	if (atomic_inc_return(c->held) > c->limit)
		c->over++;
}

static void crowd_cancels(struct crowd *c, struct twheel_timeout *t)
{
	if (c->far && twheel_pending(t))
		atomic_dec(c->held);
	twheel_cancel(t);
}

static void crowd_moves(struct crowd *c, struct twheel_timeout *t, u64 delay)
{
	if (c->far && !twheel_pending(t))
		return;
	if (twheel_mod(t, twheel_now(c->wheel) + delay) == -EAGAIN)
		c->refused++;
}

/* Where CPUs are emulated and busy, a thread waits long for each lock. It does fewer steps then. */
static void crowd_pushes(void *arg)
{
	unsigned long end = jiffies + PATIENCE / 6;
	struct crowd *c = arg;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, c->seed);
	for (i = 0; i < NR_STEPS && time_before(jiffies, end); i++) {
		struct twheel_timeout *t = &c->own[prandom_u32_state(&rnd) % NR_OWN];
		u64 delay = c->far ? FAR : prandom_u32_state(&rnd) % (2 * TICK);

		switch (prandom_u32_state(&rnd) % 4) {
		case 0:
			crowd_cancels(c, t);
			break;
		case 1:
			crowd_moves(c, t, delay);
			break;
		default:
			crowd_arms(c, t, delay);
		}
		if (i % 16 == 0)
			usleep_range(20, 100);
		cond_resched();
	}
}

/* Extend every third timeout, possibly several times. */
static void crowd_extends(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;
	atomic_t *turn = sink_data;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del_init(&t->entry);
		if (atomic_inc_return(turn) % 3 || twheel_extend(t, now_ns + TICK, 0))
			twheel_accept(t);
	}
}

struct crush {
	const char *name;
	unsigned int limit;
	bool far;
	bool extends;
};

static const struct crush crushes[] = {
	{ "a place for each, near", NR_CROWDS * NR_OWN, false },
	{ "a place for each, far", NR_CROWDS * NR_OWN, true },
	{ "a place for half, near", NR_CROWDS * NR_OWN / 2, false },
	{ "a place for half, far", NR_CROWDS * NR_OWN / 2, true },
	{ "one place, near", 1, false },
	{ "one place, far", 1, true },
	{ "a place for half, extended", NR_CROWDS * NR_OWN / 2, false, true },
	{ "three places, extended", 3, false, true },
	{ "one place, extended", 1, false, true },
};

static void crush_desc(const struct crush *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(crush, crushes, crush_desc);

static void push_and_leave(struct kunit *test, struct crowd *c)
{
	unsigned int i, j;

	for (i = 0; i < NR_CROWDS; i++)
		helper_start(test, &c[i].helper, crowd_pushes, &c[i]);
	for (i = 0; i < NR_CROWDS; i++)
		helper_finish(test, &c[i].helper);
	for (i = 0; i < NR_CROWDS; i++)
		for (j = 0; j < NR_OWN; j++)
			twheel_cancel_sync(&c[i].own[j]);
}

static void limit_is_exact_with_several_threads(struct kunit *test)
{
	const struct crush *crush = test->param_value;
	struct crowd *c = kunit_kcalloc(test, NR_CROWDS, sizeof(*c), GFP_KERNEL);
	atomic_t *held = kunit_kzalloc(test, sizeof(*held), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-limit", .tick_ns = TICK, .slots = 4, .levels = 3,
		.max_pending = crush->limit,
		.sink = crush->extends ? crowd_extends : NULL, .sink_data = held,
	};
	struct fixture *f = test->priv;
	unsigned int i, j, refused = 0;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_NOT_NULL(test, held);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	for (i = 0; i < NR_CROWDS; i++) {
		c[i].wheel = f->wheel;
		c[i].held = held;
		c[i].limit = crush->limit;
		c[i].seed = i + 1;
		c[i].far = crush->far;
		for (j = 0; j < NR_OWN; j++)
			twheel_timeout_init(f->wheel, &c[i].own[j],
					    crush->extends ? NULL : nothing);
	}
	push_and_leave(test, c);
	for (i = 0; i < NR_CROWDS; i++) {
		KUNIT_EXPECT_EQ(test, 0U, c[i].over);
		KUNIT_EXPECT_EQ(test, 0U, c[i].failed);
		refused += c[i].refused;
	}
	if (crush->limit == NR_CROWDS * NR_OWN)
		KUNIT_EXPECT_EQ(test, 0U, refused);
	else
		KUNIT_EXPECT_GT(test, refused, 0U);
	expect_places(test, crush->limit);
}

/**
 * struct thief - a thread that tries to take the only place
 * @helper: the thread
 * @t: its timeout
 * @stolen: number of times that it got the place
 * @leave: the thread is to end
 */
struct thief {
	struct helper		helper;
	struct twheel_timeout	t;
	unsigned int		stolen;
	bool			leave;
};

static void steal_places(void *arg)
{
	struct thief *thief = arg;
	unsigned int i;

	for (i = 0; !READ_ONCE(thief->leave); i++) {
		if (!twheel_arm_after(&thief->t, FAR)) {
			thief->stolen++;
			twheel_cancel(&thief->t);
		}
		if (i % 64 == 0)
			usleep_range(20, 100);
		cond_resched();
	}
}

/* The timeout moves itself in each callback, so it always holds its place. */
static void place_of_a_running_periodic_cannot_be_taken(struct kunit *test)
{
	struct metronome *m = metronome(test, TWHEEL_MONOTONIC);
	struct thief *thief = kunit_kzalloc(test, sizeof(*thief), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, thief);
	m->moves = true;
	twheel_timeout_init(m->other->f->wheel, &thief->t, nothing);
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&m->p, 0, TICK, 0));
	helper_start(test, &thief->helper, steal_places, thief);
	for (i = 0; i < 1500 && atomic_read(&m->calls) < 100; i++)
		msleep(20);
	WRITE_ONCE(thief->leave, true);
	helper_finish(test, &thief->helper);
	twheel_cancel_sync(&m->p.t);
	KUNIT_EXPECT_GE(test, atomic_read(&m->calls), 100);
	KUNIT_EXPECT_EQ(test, 0U, m->failed);
	KUNIT_EXPECT_EQ(test, 0U, thief->stolen);
	expect_places(test, 1);
}

static struct kunit_case limit_cases[] = {
	KUNIT_CASE_PARAM(one_more_than_the_limit_is_refused, arming_gen_params),
	KUNIT_CASE(limit_is_told),
	KUNIT_CASE(no_limit_refuses_nobody),
	KUNIT_CASE(refusals_for_other_reasons_take_no_place),
	KUNIT_CASE(mod_at_the_limit_keeps_its_place),
	KUNIT_CASE(cascades_and_rounds_keep_the_place),
	KUNIT_CASE(cancel_gives_the_place_back_at_once),
	KUNIT_CASE(cancel_sync_gives_the_place_back),
	KUNIT_CASE(expiry_gives_the_place_back_at_once),
	KUNIT_CASE(callback_finds_its_own_place_free),
	KUNIT_CASE(place_of_the_next_of_the_same_tick_is_still_taken),
	KUNIT_CASE(stop_gives_all_places_back),
	KUNIT_CASE(arm_list_arms_as_many_as_there_are_places),
	KUNIT_CASE(sink_gives_the_places_of_its_batch_back),
	KUNIT_CASE(place_is_kept_until_the_sink_accepts),
	KUNIT_CASE(extension_keeps_the_limit),
	KUNIT_CASE(extended_timeout_keeps_its_place_and_the_accepted_one_does_not),
	KUNIT_CASE(extension_again_and_again_keeps_the_limit),
	KUNIT_CASE(refused_extension_leaves_the_place_to_the_accept),
	KUNIT_CASE(cancel_of_an_extended_timeout_gives_its_place_back),
	KUNIT_CASE(mod_of_an_extended_timeout_keeps_its_place),
	KUNIT_CASE(stop_gives_the_places_of_extended_timeouts_back),
	KUNIT_CASE_PARAM(periodic_keeps_its_place_between_its_periods, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_gives_its_place_back_in_its_last_callback, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_that_cancels_itself_gives_its_place_back, kind_gen_params),
	KUNIT_CASE_PARAM(periodic_that_moves_itself_keeps_its_place, kind_gen_params),
	KUNIT_CASE_PARAM(arm_periodic_beyond_the_limit_is_refused, kind_gen_params),
	KUNIT_CASE_PARAM(limit_is_exact_with_several_threads, crush_gen_params),
	KUNIT_CASE_PARAM(place_of_a_running_periodic_cannot_be_taken, kind_gen_params),
	{}
};

static struct kunit_suite limit_suite = {
	.name = "twheel-limit",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = limit_cases,
};

module_test_suite(limit_suite);

MODULE_DESCRIPTION("KUnit suite of the limit of pending timeouts");
MODULE_LICENSE("GPL");
