// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of random operations, compared with a model after each operation.
 *
 * The model is a list of the pending timeouts. It is sorted by the tick at which each fires
 * and, within a tick, by the order of arming. The timeout that fires must be the head of
 * the list. The test carries out operations, and so do the callbacks or the sink while time
 * is advanced: arm, mod and cancel of the timeout that fires and of others.
 *
 * Every case prints its seed. To play it again:
 *
 *	insmod twheel_property_kunit.ko seed=SEED
 *
 * By contract, a backward step gives up the order of the pending timeouts. In the cases
 * with backward steps, a timeout that fires must be due and pending, in any order.
 */
#include <linux/module.h>

#include "fixture.h"
#include "play.h"
#include "suite.h"

static unsigned int steps = 100000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per case");

#define NR_PLAYERS	300
#define CLOCK_END	((u64)S64_MAX)

/**
 * struct player - a timeout and what the model knows about it
 * @t: the timeout
 * @m: the model
 * @node: entry in the sorted list while pending
 * @tick: while pending, the tick at which it must fire
 * @pending: it must be pending
 * @expiring: it is in the sink and not yet accepted
 */
struct player {
	struct twheel_timeout	t;
	struct model		*m;
	struct list_head	node;
	u64			tick;
	bool			pending;
	bool			expiring;
};

/**
 * struct game - parameters of a case
 * @name: for the log
 * @shape: slots and levels of the wheel
 * @sink: the wheel has a sink
 * @backward: some operations step the clock backward
 */
struct game {
	const char	*name;
	struct shape	shape;
	bool		sink;
	bool		backward;
};

/**
 * struct model - the wheel as it must be
 * @game: the parameters
 * @wheel: the wheel
 * @tick_ns: length of a tick
 * @now: time of the wheel
 * @floor: tick of @now: a timeout that is armed now fires at a later tick
 * @sorted: the pending players, in the order in which they must fire
 * @nr: number of pending players
 * @armed: as in struct twheel_counters
 * @cancelled: as in struct twheel_counters
 * @fired: as in struct twheel_counters
 * @advancing: the test is in twheel_advance()
 * @play: state of the run
 * @players: the timeouts
 */
struct model {
	const struct game	*game;
	struct twheel		*wheel;
	u64			tick_ns;
	u64			now;
	u64			floor;
	struct list_head	sorted;
	u64			nr, armed, cancelled, fired;
	bool			advancing;
	struct play		play;
	struct player		players[NR_PLAYERS];
};

/* Operations on the model */

static void model_sort_in(struct model *m, struct player *p, u64 expires)
{
	u64 tick = div64_u64(expires, m->tick_ns);
	struct player *q;

	if (tick * m->tick_ns < expires)
		tick++;
	p->tick = max(tick, m->floor + 1);
	list_for_each_entry_reverse(q, &m->sorted, node)
		if (q->tick <= p->tick)
			break;
	list_add(&p->node, &q->node);
}

static void model_insert(struct model *m, struct player *p, u64 expires)
{
	p->pending = true;
	m->nr++;
	m->armed++;
	model_sort_in(m, p, expires);
}

/* After a backward step, each timeout is placed as if it were armed now. */
static void model_rebase(struct model *m)
{
	struct player *p, *next;
	LIST_HEAD(pending);

	list_splice_init(&m->sorted, &pending);
	list_for_each_entry_safe(p, next, &pending, node)
		model_sort_in(m, p, p->t.expires);
}

static void model_remove(struct model *m, struct player *p)
{
	list_del(&p->node);
	p->pending = false;
	m->nr--;
}

static int model_arm(struct model *m, struct player *p, u64 expires)
{
	if (expires > CLOCK_END)
		return -EINVAL;
	if (p->pending || p->expiring)
		return -EBUSY;
	model_insert(m, p, expires);
	return 0;
}

static int model_mod(struct model *m, struct player *p, u64 expires)
{
	bool pending = p->pending;

	if (expires > CLOCK_END)
		return -EINVAL;
	if (p->expiring)
		return -EBUSY;
	if (pending) {
		model_remove(m, p);
		m->cancelled++;
	}
	model_insert(m, p, expires);
	return pending;
}

static bool model_cancel(struct model *m, struct player *p)
{
	if (!p->pending)
		return false;
	model_remove(m, p);
	m->cancelled++;
	return true;
}

static void model_fire(struct model *m, struct player *p)
{
	compare(&m->play, "fired, pending", p->pending, true);
	compare(&m->play, "fired, in an advance", m->advancing, true);
	compare(&m->play, "time in the callback", twheel_now(m->wheel), m->now);
	if (!p->pending)
		return;
	if (p->tick > m->floor)
		compare(&m->play, "fired early, tick", m->floor, p->tick);
	if (!m->game->backward)
		compare(&m->play, "order, player that fires", p - m->players,
			list_first_entry(&m->sorted, struct player, node) - m->players);
	model_remove(m, p);
	m->fired++;
}

/* Random times */

/* Near a power of the number of slots, or any number up to ten spans of the wheel. */
static u64 roll_ticks(struct model *m)
{
	const struct shape *s = &m->game->shape;
	u64 reach = ref_span(s);

	switch (roll(&m->play, 8)) {
	case 0:
		return roll(&m->play, 3);
	case 1:
	case 2:
		return roll(&m->play, 2 * s->slots);
	case 3:
	case 4:
		return ref_boundary(s, roll(&m->play, SHAPE_BOUNDARIES(s->levels)));
	case 5:
		return roll64(&m->play, ref_grain(s, 1 + roll(&m->play, s->levels)));
	case 6:
		return roll64(&m->play, 2 * reach);
	default:
		return roll64(&m->play, 10 * reach);
	}
}

static u64 roll_delay(struct model *m)
{
	u64 delay = roll_ticks(m) * m->tick_ns;

	switch (roll(&m->play, 64)) {
	case 0:
		return CLOCK_END - roll64(&m->play, 2 * m->now + 2);
	case 1:
		return CLOCK_END + roll64(&m->play, CLOCK_END);
	case 2 ... 31:
		return delay + roll64(&m->play, m->tick_ns);
	default:
		return delay;
	}
}

/* Includes a few times in the past, and times beyond S64_MAX, which must be refused. */
static u64 roll_expires(struct model *m)
{
	u64 delay = roll_delay(m);

	if (delay > CLOCK_END)
		return delay;
	if (!roll(&m->play, 16))
		return m->now - min(m->now, delay);
	return min(m->now + delay, CLOCK_END);
}

/* One operation on the wheel and on the model */

static void play_arm(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m);
	int want = model_arm(m, p, expires);

	compare(&m->play, "arm", twheel_arm(&p->t, expires), want);
}

static void play_arm_after(struct model *m, struct player *p)
{
	u64 delay = roll_delay(m);
	int want = model_arm(m, p, delay > CLOCK_END ? delay : min(m->now + delay, CLOCK_END));

	compare(&m->play, "arm_after", twheel_arm_after(&p->t, delay), want);
}

static void play_mod(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m);
	int want = model_mod(m, p, expires);

	compare(&m->play, "mod", twheel_mod(&p->t, expires), want);
}

static void play_cancel(struct model *m, struct player *p)
{
	bool want = model_cancel(m, p);

	compare(&m->play, "cancel", twheel_cancel(&p->t), want);
}

static void play_on(struct model *m, struct player *p)
{
	switch (roll(&m->play, 8)) {
	case 0 ... 1:
		play_arm(m, p);
		break;
	case 2 ... 3:
		play_arm_after(m, p);
		break;
	case 4 ... 5:
		play_mod(m, p);
		break;
	default:
		play_cancel(m, p);
	}
	compare(&m->play, "pending", twheel_pending(&p->t), p->pending);
}

static struct player *any_player(struct model *m)
{
	return &m->players[roll(&m->play, NR_PLAYERS)];
}

/* In the callback of @p, or in the sink after it has accepted @p. */
static void play_back(struct model *m, struct player *p)
{
	if (!roll(&m->play, 4))
		play_on(m, p);
	if (!roll(&m->play, 8))
		play_on(m, any_player(m));
}

static void player_fires(struct twheel_timeout *t)
{
	struct player *p = container_of(t, struct player, t);

	model_fire(p->m, p);
	play_back(p->m, p);
}

static void players_fire(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct model *m = sink_data;
	struct twheel_timeout *t, *next;
	unsigned int n = 0;

	compare(&m->play, "time in the sink", now_ns, m->now);
	list_for_each_entry(t, expired, entry) {
		struct player *p = container_of(t, struct player, t);

		model_fire(m, p);
		p->expiring = true;
		n++;
	}
	compare(&m->play, "length of a batch", nr, n);
	list_for_each_entry_safe(t, next, expired, entry) {
		struct player *p = container_of(t, struct player, t);

		if (!roll(&m->play, 4))
			play_on(m, p);
		list_del(&t->entry);
		p->expiring = false;
		twheel_accept(t);
		play_back(m, p);
	}
}

/* Within a tick, several ticks, revolutions, or rarely a very long stall. */
static u64 roll_advance(struct model *m)
{
	switch (roll(&m->play, 16)) {
	case 0 ... 2:
		return roll64(&m->play, m->tick_ns);
	case 3 ... 9:
		return roll(&m->play, 20) * m->tick_ns;
	case 10:
		return roll64(&m->play, 1 + (CLOCK_END - m->now) / 1024);
	default:
		return min(roll_ticks(m) * m->tick_ns + roll64(&m->play, m->tick_ns),
			   (CLOCK_END - m->now) / 1024);
	}
}

static void play_advance(struct model *m)
{
	m->now += roll_advance(m);
	m->floor = div64_u64(m->now, m->tick_ns);
	m->advancing = true;
	compare(&m->play, "advance", twheel_advance(m->wheel, m->now), 0);
	m->advancing = false;
	if (m->nr && list_first_entry(&m->sorted, struct player, node)->tick <= m->floor)
		compare(&m->play, "lost, or late, at tick", m->floor,
			list_first_entry(&m->sorted, struct player, node)->tick);
}

static void play_step_back(struct model *m)
{
	u64 fired = m->fired, floor = m->floor;

	m->now -= min(m->now, roll(&m->play, 4) ? roll_advance(m) : roll64(&m->play, m->now + 1));
	m->floor = div64_u64(m->now, m->tick_ns);
	if (m->floor < floor)
		model_rebase(m);
	m->advancing = true;
	compare(&m->play, "step back", twheel_advance(m->wheel, m->now), 0);
	m->advancing = false;
	compare(&m->play, "fired by a step back", m->fired, fired);
}

static void play(struct model *m)
{
	u32 what = roll(&m->play, 16);

	if (what < 12)
		play_on(m, any_player(m));
	else if (what == 12 && m->game->backward)
		play_step_back(m);
	else
		play_advance(m);
}

/* Comparison of all results */

static void compare_stats(struct model *m)
{
	struct twheel_counters stats;

	twheel_stats(m->wheel, &stats);
	compare(&m->play, "armed", stats.armed, m->armed);
	compare(&m->play, "cancelled", stats.cancelled, m->cancelled);
	compare(&m->play, "fired", stats.fired, m->fired);
	compare(&m->play, "stopped", stats.stopped, 0);
	compare(&m->play, "nr pending", stats.pending, m->nr);
}

static void compare_next_expiry(struct model *m)
{
	u64 next = twheel_next_expiry(m->wheel), first, ns;

	if (!m->nr) {
		compare(&m->play, "next expiry of none", next, CLOCK_END);
		return;
	}
	first = list_first_entry(&m->sorted, struct player, node)->tick;
	ns = first > div64_u64(CLOCK_END, m->tick_ns) ? CLOCK_END : first * m->tick_ns;
	if (next > ns)
		compare(&m->play, "next expiry too late", next, ns);
	if (next <= m->now)
		compare(&m->play, "next expiry not in the future", next, ns);
}

/*
 * Returns true if @p may already be one level below @level. A full slot is cascaded early:
 * while its block is the next block.
 */
static bool may_be_early(const struct model *m, const struct player *p, u32 level)
{
	u64 grain = ref_grain(&m->game->shape, level);

	return level && div64_u64(p->tick, grain) == div64_u64(m->floor, grain) + 1;
}

static void compare_position(struct model *m, struct player *p)
{
	const struct shape *s = &m->game->shape;
	struct twheel_position pos;
	u32 level;

	compare(&m->play, "position", twheel_position(&p->t, &pos), p->pending);
	if (!p->pending || m->play.fault)
		return;
	compare(&m->play, "tick", pos.tick, p->tick);
	compare(&m->play, "slot", pos.slot, ref_slot(s, p->tick, pos.level));
	if (m->game->backward)
		return;
	level = ref_level(s, p->tick, m->floor);
	if (pos.level + 1 != level || !may_be_early(m, p, level))
		compare(&m->play, "level", pos.level, level);
	compare(&m->play, "rounds", pos.rounds, ref_rounds(s, p->tick, m->floor));
}

static void compare_all(struct model *m)
{
	unsigned int i;

	for (i = 0; i < NR_PLAYERS; i++)
		compare_position(m, &m->players[i]);
	compare(&m->play, "audit", twheel_audit(m->wheel), 0);
}

/* The cases */

static struct model *make_model(struct kunit *test)
{
	const struct game *game = test->param_value;
	struct model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct twheel_params params = {
		.name = "kunit-property",
		.clock = TWHEEL_MANUAL,
		.tick_ns = 1000,
		.slots = game->shape.slots,
		.levels = game->shape.levels,
		.sink = game->sink ? players_fire : NULL,
		.sink_data = m,
	};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->game = game;
	m->tick_ns = params.tick_ns;
	m->wheel = fixture_create(test->priv, &params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, m->wheel);
	INIT_LIST_HEAD(&m->sorted);
	for (i = 0; i < NR_PLAYERS; i++) {
		m->players[i].m = m;
		twheel_timeout_init(m->wheel, &m->players[i].t,
				    game->sink ? NULL : player_fires);
	}
	return m;
}

static const struct game games[] = {
	{ "1 level of 8 slots", { 8, 1 } },
	{ "1 level of 256 slots", { 256, 1 } },
	{ "1 level of 2 slots, sink", { 2, 1 }, .sink = true },
	{ "1 level of 16 slots, backward", { 16, 1 }, .backward = true },
	{ "2 levels of 4 slots", { 4, 2 } },
	{ "2 levels of 64 slots, sink", { 64, 2 }, .sink = true },
	{ "2 levels of 8 slots, backward", { 8, 2 }, .backward = true },
	{ "4 levels of 4 slots", { 4, 4 } },
	{ "4 levels of 256 slots", { 256, 4 } },
	{ "4 levels of 8 slots, sink", { 8, 4 }, .sink = true },
	{ "4 levels of 4 slots, backward", { 4, 4 }, .backward = true },
	{ "4 levels of 256 slots, sink, backward", { 256, 4 }, .sink = true, .backward = true },
};

static void game_desc(const struct game *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(game, games, game_desc);

static void random_operations_agree_with_a_sorted_list(struct kunit *test)
{
	struct model *m = make_model(test);

	play_begin(test, &m->play, steps, m->game->name);
	for (m->play.step = 0; m->play.step < steps && !m->play.fault; m->play.step++) {
		play(m);
		compare_stats(m);
		compare_next_expiry(m);
		compare_position(m, any_player(m));
		if (m->play.step % 512 == 0)
			compare_all(m);
		cond_resched();
	}
	compare_all(m);
	play_end(test, &m->play);
	KUNIT_EXPECT_GT(test, m->fired, (u64)steps / 100);
}

static struct kunit_case property_cases[] = {
	KUNIT_CASE_PARAM(random_operations_agree_with_a_sorted_list, game_gen_params),
	{}
};

static struct kunit_suite property_suite = {
	.name = "twheel-property",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = property_cases,
};

module_test_suite(property_suite);

MODULE_DESCRIPTION("KUnit suite of random operations on a timing wheel against a model");
MODULE_LICENSE("GPL");
