// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of random operations with the features that the other suite of random
 * operations leaves out: periodic timeouts, slack, lists, max_pending, and stops.
 *
 * The model is a list of the pending timeouts. It is sorted by the tick at which each fires
 * and, within a tick, by the order of arming. The timeout that fires must be the head of
 * the list, and a stop must hand back the whole list. The wheel chooses the tick of a
 * timeout with slack. The test reads this tick back and checks that it is in the window.
 *
 * Every case prints its seed. To play it again:
 *
 *	insmod twheel_property_features_kunit.ko seed=SEED
 */
#include <linux/module.h>

#include "fixture.h"
#include "helper.h"
#include "play.h"
#include "suite.h"

static unsigned int steps = 20000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per case");

#define NR_PLAYERS	240
#define CLOCK_END	((u64)S64_MAX)
#define LIST_MAX	200
#define TICK		1000ULL

/**
 * struct player - a timeout and what the model knows about it
 * @p: the timeout; a third of them are periodic, the others use @p.t alone
 * @m: the model
 * @node: entry in the sorted list while pending
 * @tick: while pending, the tick at which it must fire
 * @expires: its deadline
 * @interval: interval of a periodic player
 * @left: periods to come; 0: no end
 * @pending: it must be pending
 */
struct player {
	struct twheel_periodic	p;
	struct model		*m;
	struct list_head	node;
	u64			tick;
	u64			expires;
	u64			interval;
	u32			left;
	bool			pending;
};

/**
 * struct game - parameters of a case
 * @name: for the log
 * @shape: slots and levels of the wheel
 * @limit: max_pending of the wheel
 * @backward: some operations step the clock backward
 */
struct game {
	const char	*name;
	struct shape	shape;
	unsigned int	limit;
	bool		backward;
};

/**
 * struct model - the wheel as it must be
 * @game: the parameters
 * @wheel: the wheel
 * @now: time of the wheel
 * @floor: tick of @now: a timeout that is armed now fires at a later tick
 * @sorted: the pending players, in the order in which they must fire
 * @nr: number of pending players
 * @armed: as in struct twheel_counters
 *
 * @rearmed: as in struct twheel_counters
 *
 * @cancelled: as in struct twheel_counters
 *
 * @fired: as in struct twheel_counters
 * @all_fired: expiries in all wheels of the case
 * @running: player whose callback is running
 * @again: @running will be enqueued when its callback ends
 * @play: state of the run
 * @array: argument of twheel_cancel_list()
 * @result: expected contents of @array after the call
 * @players: the timeouts
 */
struct model {
	const struct game	*game;
	struct twheel		*wheel;
	u64			now;
	u64			floor;
	struct list_head	sorted;
	u64			nr, armed, rearmed, cancelled, fired, all_fired;
	struct player		*running;
	bool			again;
	struct play		play;
	struct twheel_timeout	*array[LIST_MAX];
	struct twheel_timeout	*result[LIST_MAX];
	struct player		players[NR_PLAYERS];
};

static struct player *any_player(struct model *m)
{
	return &m->players[roll(&m->play, NR_PLAYERS)];
}

static enum twheel_kind kind_of(const struct model *m, const struct player *p)
{
	switch ((p - m->players) % 6) {
	case 0:
		return TWHEEL_FIXED_RATE;
	case 3:
		return TWHEEL_FIXED_DELAY;
	default:
		return TWHEEL_ONCE;
	}
}

/* Operations on the model */

static u64 due_tick(const struct model *m, u64 expires)
{
	u64 tick = div64_u64(expires, TICK);

	if (tick * TICK < expires)
		tick++;
	return max(tick, m->floor + 1);
}

static void model_sort_in(struct model *m, struct player *p, u64 tick)
{
	struct player *q;

	p->tick = tick;
	list_for_each_entry_reverse(q, &m->sorted, node)
		if (q->tick <= p->tick)
			break;
	list_add(&p->node, &q->node);
}

static void model_insert(struct model *m, struct player *p, u64 expires, u64 tick)
{
	p->expires = expires;
	p->pending = true;
	m->nr++;
	m->armed++;
	model_sort_in(m, p, tick);
}

/* After a backward step, each timeout is placed as if it were armed now, without slack. */
static void model_rebase(struct model *m)
{
	struct player *p, *next;
	LIST_HEAD(pending);

	list_splice_init(&m->sorted, &pending);
	list_for_each_entry_safe(p, next, &pending, node)
		model_sort_in(m, p, due_tick(m, p->expires));
}

static void model_remove(struct model *m, struct player *p)
{
	list_del(&p->node);
	p->pending = false;
	m->nr--;
}

/* With a fixed delay, the player whose callback runs holds a place too. */
static bool model_full(const struct model *m)
{
	return m->game->limit && m->nr + m->again >= m->game->limit;
}

static bool model_forget(struct model *m, struct player *p)
{
	if (m->running != p || !m->again)
		return false;
	m->again = false;
	return true;
}

static int model_arm_result(struct model *m, struct player *p, u64 expires)
{
	if (expires > CLOCK_END)
		return -EINVAL;
	if (p->pending)
		return -EBUSY;
	if (model_full(m) && !(m->running == p && m->again))
		return -EAGAIN;
	return 0;
}

static bool model_cancel(struct model *m, struct player *p)
{
	if (!p->pending)
		return model_forget(m, p);
	model_remove(m, p);
	m->cancelled++;
	return true;
}

/* The last callback has ended: enqueue its player again if it has a fixed delay. */
static void model_settle(struct model *m)
{
	struct player *p = m->running;

	if (p && m->again)
		model_insert(m, p, min(m->now + p->interval, CLOCK_END),
			     due_tick(m, min(m->now + p->interval, CLOCK_END)));
	m->running = NULL;
	m->again = false;
}

static u64 model_missed(const struct model *m, const struct player *p)
{
	u64 missed = 0;

	if (kind_of(m, p) == TWHEEL_FIXED_RATE && m->now > p->expires)
		missed = div64_u64(m->now - p->expires, p->interval);
	return p->left ? min_t(u64, missed, p->left - 1) : missed;
}

/* Compare what the callback of @p reports, and enqueue its next period. */
static void model_period(struct model *m, struct player *p)
{
	u64 missed = model_missed(m, p), last = p->expires + missed * p->interval;
	bool more = !p->left || p->left > missed + 1;

	if (p->left)
		p->left -= missed + 1;
	compare(&m->play, "missed", p->p.missed, missed);
	compare(&m->play, "expires", p->p.expires, last);
	compare(&m->play, "repeat", p->p.repeat, p->left);
	if (!more)
		return;
	if (kind_of(m, p) == TWHEEL_FIXED_DELAY)
		m->again = true;
	else
		model_insert(m, p, min(last + p->interval, CLOCK_END),
			     due_tick(m, min(last + p->interval, CLOCK_END)));
}

static void model_fire(struct model *m, struct player *p)
{
	model_settle(m);
	compare(&m->play, "fired, pending", p->pending, true);
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
	m->all_fired++;
	m->running = p;
	if (kind_of(m, p) != TWHEEL_ONCE)
		model_period(m, p);
}

/* Random times */

static u64 roll_ticks(struct model *m)
{
	const struct shape *s = &m->game->shape;

	switch (roll(&m->play, 6)) {
	case 0:
		return roll(&m->play, 3);
	case 1 ... 2:
		return roll(&m->play, 2 * s->slots);
	case 3:
		return ref_boundary(s, roll(&m->play, SHAPE_BOUNDARIES(s->levels)));
	case 4:
		return roll64(&m->play, ref_grain(s, 1 + roll(&m->play, s->levels)));
	default:
		return roll64(&m->play, 2 * ref_span(s));
	}
}

static u64 roll_delay(struct model *m)
{
	return roll_ticks(m) * TICK + (roll(&m->play, 2) ? roll64(&m->play, TICK) : 0);
}

static u64 roll_expires(struct model *m)
{
	if (!roll(&m->play, 16))
		return m->now - min(m->now, roll_delay(m));
	if (!roll(&m->play, 64))
		return roll(&m->play, 2) ? CLOCK_END : CLOCK_END + 1 + roll_delay(m);
	return min(m->now + roll_delay(m), CLOCK_END);
}

/* One operation on the wheel and on the model */

static void play_arm(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m);
	int want = model_arm_result(m, p, expires);

	compare(&m->play, "arm", twheel_arm(&p->p.t, expires), want);
	if (want)
		return;
	model_forget(m, p);
	model_insert(m, p, expires, due_tick(m, expires));
}

static void play_arm_slack(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m), slack = roll_delay(m), lo, hi;
	int want = model_arm_result(m, p, expires);
	struct twheel_position pos;

	compare(&m->play, "arm_slack", twheel_arm_slack(&p->p.t, expires, slack), want);
	if (want || m->play.fault)
		return;
	lo = due_tick(m, expires);
	hi = max(lo, div64_u64(min(expires + slack, CLOCK_END), TICK));
	compare(&m->play, "position", twheel_position(&p->p.t, &pos), true);
	if (m->play.fault)
		return;
	if (pos.tick < lo)
		compare(&m->play, "early for its slack", pos.tick, lo);
	if (pos.tick > hi)
		compare(&m->play, "late for its slack", pos.tick, hi);
	model_forget(m, p);
	model_insert(m, p, expires, pos.tick);
}

static void play_arm_periodic(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m), interval = roll_delay(m);
	u32 repeat = roll(&m->play, 3) ? roll(&m->play, 10) : 0;
	int want = model_arm_result(m, p, expires);

	if (expires <= CLOCK_END && interval && m->running == p)
		want = -EBUSY;
	if (!interval)
		want = -EINVAL;
	compare(&m->play, "arm_periodic",
		twheel_arm_periodic(&p->p, expires, interval, repeat), want);
	if (want)
		return;
	p->interval = interval;
	p->left = repeat;
	model_insert(m, p, expires, due_tick(m, expires));
}

/* A periodic timeout goes on from the new time. An idle one is left alone. */
static void play_mod(struct model *m, struct player *p)
{
	u64 expires = roll_expires(m);
	bool pending = p->pending;
	int want = pending ? 1 : model_arm_result(m, p, expires);

	if (!pending && kind_of(m, p) != TWHEEL_ONCE && !(m->running == p && m->again))
		return;
	if (expires > CLOCK_END)
		want = -EINVAL;
	compare(&m->play, "mod", twheel_mod(&p->p.t, expires), want);
	if (want < 0)
		return;
	if (pending) {
		model_remove(m, p);
		m->cancelled++;
		m->rearmed++;
	}
	model_forget(m, p);
	model_insert(m, p, expires, due_tick(m, expires));
}

static void play_cancel(struct model *m, struct player *p)
{
	bool want = model_cancel(m, p);

	compare(&m->play, "cancel", twheel_cancel(&p->p.t), want);
}

/* Length of a list: small in most cases. */
static unsigned int roll_length(struct model *m)
{
	return roll(&m->play, roll(&m->play, 4) ? 8 : LIST_MAX);
}

/* Take idle one-shots from a random position on, except the one that is running. */
static void play_arm_list(struct model *m)
{
	unsigned int n = roll_length(m), i, want = 0, got;
	unsigned int first = roll(&m->play, NR_PLAYERS);
	struct player *p;
	LIST_HEAD(list);

	for (i = 0; i < NR_PLAYERS && n; i++) {
		p = &m->players[(first + i) % NR_PLAYERS];
		if (p->pending || p == m->running || kind_of(m, p) != TWHEEL_ONCE)
			continue;
		p->p.t.expires = min(roll_expires(m), CLOCK_END);
		list_add_tail(&p->p.t.entry, &list);
		n--;
		if (model_full(m))
			continue;
		model_insert(m, p, p->p.t.expires, due_tick(m, p->p.t.expires));
		want++;
	}
	got = arm_linked(m->wheel, &list);
	compare(&m->play, "arm_list", got, want);
	while (!list_empty(&list)) {
		p = list_first_entry(&list, struct player, p.t.entry);
		compare(&m->play, "left in the list, pending", p->pending, false);
		list_del_init(&p->p.t.entry);
	}
}

/* The list may hold a timeout twice, and idle ones. */
static void play_cancel_list(struct model *m)
{
	unsigned int n = roll_length(m), i, want = 0;
	struct player *p;

	for (i = 0; i < n; i++) {
		p = any_player(m);
		m->array[i] = &p->p.t;
		m->result[i] = model_cancel(m, p) ? &p->p.t : NULL;
		want += !!m->result[i];
	}
	compare(&m->play, "cancel_list", twheel_cancel_list(m->array, n), want);
	for (i = 0; i < n; i++)
		compare(&m->play, "cancel_list, entry", (uintptr_t)m->array[i],
			(uintptr_t)m->result[i]);
}

/* After a fault, do nothing: the model no longer knows which operations are allowed. */
static void play_on(struct model *m, struct player *p)
{
	if (m->play.fault)
		return;
	switch (roll(&m->play, 9)) {
	case 0 ... 3:
		if (kind_of(m, p) != TWHEEL_ONCE)
			play_arm_periodic(m, p);
		else if (roll(&m->play, 2))
			play_arm_slack(m, p);
		else
			play_arm(m, p);
		break;
	case 4 ... 5:
		play_mod(m, p);
		break;
	case 6:
		play_arm_list(m);
		break;
	case 7:
		if (!roll(&m->play, 3))
			play_cancel_list(m);
		fallthrough;
	default:
		play_cancel(m, p);
	}
	compare(&m->play, "pending", twheel_pending(&p->p.t), p->pending);
}

/* Callbacks */

static void player_fires(struct twheel_timeout *t)
{
	struct player *p = container_of(t, struct player, p.t);
	struct model *m = p->m;

	model_fire(m, p);
	if (!roll(&m->play, 4))
		play_on(m, p);
	if (!roll(&m->play, 8))
		play_on(m, any_player(m));
}

static void periodic_player_fires(struct twheel_periodic *p)
{
	player_fires(&p->t);
}

/* Time */

static u64 roll_advance(struct model *m)
{
	switch (roll(&m->play, 16)) {
	case 0 ... 2:
		return roll64(&m->play, TICK);
	case 3 ... 9:
		return roll(&m->play, 20) * TICK;
	default:
		return min(roll_delay(m), (CLOCK_END - m->now) / 1024);
	}
}

static void go_to(struct model *m, u64 now)
{
	u64 floor = m->floor;

	m->now = now;
	m->floor = div64_u64(now, TICK);
	if (m->floor < floor)
		model_rebase(m);
	compare(&m->play, "advance", twheel_advance(m->wheel, now), 0);
	model_settle(m);
}

static void play_advance(struct model *m)
{
	struct player *first;

	go_to(m, m->now + roll_advance(m));
	first = list_first_entry_or_null(&m->sorted, struct player, node);
	if (first && first->tick <= m->floor)
		compare(&m->play, "lost, or late, at tick", m->floor, first->tick);
}

static void play_step_back(struct model *m)
{
	u64 fired = m->fired;

	go_to(m, m->now - min(m->now, roll_advance(m)));
	compare(&m->play, "fired by a step back", m->fired, fired);
}

/* Stop, and a new wheel */

static struct twheel *new_wheel(struct model *m)
{
	struct twheel_params params = {
		.name = "kunit-property-features",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = m->game->shape.slots,
		.levels = m->game->shape.levels,
		.max_pending = m->game->limit,
	};

	return twheel_create(&params);
}

static void init_players(struct model *m)
{
	unsigned int i;

	INIT_LIST_HEAD(&m->sorted);
	m->nr = 0;
	m->armed = 0;
	m->rearmed = 0;
	m->cancelled = 0;
	m->fired = 0;
	m->now = 0;
	m->floor = 0;
	for (i = 0; i < NR_PLAYERS; i++) {
		struct player *p = &m->players[i];

		p->m = m;
		p->pending = false;
		if (kind_of(m, p) == TWHEEL_ONCE)
			twheel_timeout_init(m->wheel, &p->p.t, player_fires);
		else
			twheel_periodic_init(m->wheel, &p->p, periodic_player_fires,
					     kind_of(m, p));
	}
}

static void compare_stats(struct model *m, u64 stopped)
{
	struct twheel_counters stats;

	twheel_stats(m->wheel, &stats);
	compare(&m->play, "armed", stats.armed, m->armed);
	compare(&m->play, "rearmed", stats.rearmed, m->rearmed);
	compare(&m->play, "cancelled", stats.cancelled, m->cancelled);
	compare(&m->play, "fired", stats.fired, m->fired);
	compare(&m->play, "stopped", stats.stopped, stopped);
	compare(&m->play, "nr pending", stats.pending, m->nr);
}

static void compare_next_expiry(struct model *m)
{
	struct player *first = list_first_entry_or_null(&m->sorted, struct player, node);
	u64 next = twheel_next_expiry(m->wheel);

	if (!first)
		compare(&m->play, "next expiry of none", next, CLOCK_END);
	else if (next > min(first->tick, CLOCK_END / TICK) * TICK && next < CLOCK_END)
		compare(&m->play, "next expiry too late", next, first->tick * TICK);
	else if (next <= m->now)
		compare(&m->play, "next expiry not in the future", next, first->tick * TICK);
}

static void play_stop(struct model *m)
{
	struct player *p;
	u64 stopped = m->nr;
	LIST_HEAD(list);

	twheel_stop(m->wheel, collect, &list);
	while (!list_empty(&list)) {
		p = list_first_entry(&list, struct player, p.t.entry);
		list_del_init(&p->p.t.entry);
		compare(&m->play, "handed back, pending", p->pending, true);
		if (p->pending)
			model_remove(m, p);
	}
	compare(&m->play, "not handed back", m->nr, 0);
	compare_stats(m, stopped);
	p = any_player(m);
	compare(&m->play, "arm of a stopped wheel", twheel_mod(&p->p.t, 0), -ESHUTDOWN);
	compare(&m->play, "audit of a stopped wheel", twheel_audit(m->wheel), 0);
}

static void renew_wheel(struct kunit *test, struct model *m)
{
	struct fixture *f = test->priv;
	struct twheel *w;

	play_stop(m);
	twheel_destroy(m->wheel);
	f->wheel = NULL;
	w = new_wheel(m);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, w);
	f->wheel = w;
	m->wheel = w;
	init_players(m);
}

/* The cases */

static void play(struct kunit *test, struct model *m)
{
	u32 what = roll(&m->play, 16);

	if (what < 11)
		play_on(m, any_player(m));
	else if (what == 11 && m->game->backward)
		play_step_back(m);
	else if (what == 12 && !roll(&m->play, 64))
		renew_wheel(test, m);
	else
		play_advance(m);
}

static struct model *make_model(struct kunit *test)
{
	struct model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->game = test->param_value;
	m->wheel = new_wheel(m);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, m->wheel);
	f->wheel = m->wheel;
	init_players(m);
	return m;
}

static const struct game games[] = {
	{ "1 level of 2 slots", { 2, 1 } },
	{ "1 level of 8 slots, a limit", { 8, 1 }, .limit = 60 },
	{ "1 level of 256 slots", { 256, 1 } },
	{ "1 level of 16 slots, backward", { 16, 1 }, .backward = true },
	{ "1 level of 65536 slots", { 65536, 1 } },
	{ "2 levels of 8 slots, a limit", { 8, 2 }, .limit = 100 },
	{ "3 levels of 4 slots", { 4, 3 } },
	{ "3 levels of 4 slots, backward", { 4, 3 }, .backward = true },
	{ "4 levels of 256 slots", { 256, 4 } },
	{ "4 levels of 256 slots, a limit, backward", { 256, 4 }, 60, true },
	{ "8 levels of 16 slots", { 16, 8 } },
	{ "8 levels of 2 slots, backward", { 2, 8 }, .backward = true },
};

static void game_desc(const struct game *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(game, games, game_desc);

static void random_operations_of_every_kind_agree_with_a_model(struct kunit *test)
{
	struct model *m = make_model(test);

	play_begin(test, &m->play, steps, m->game->name);
	for (m->play.step = 0; m->play.step < steps && !m->play.fault; m->play.step++) {
		play(test, m);
		compare_stats(m, 0);
		compare_next_expiry(m);
		if (m->play.step % 512 == 0)
			compare(&m->play, "audit", twheel_audit(m->wheel), 0);
		cond_resched();
	}
	if (!m->play.fault)
		play_stop(m);
	play_end(test, &m->play);
	KUNIT_EXPECT_GT(test, m->all_fired, (u64)steps / 100);
}

static struct kunit_case property_features_cases[] = {
	KUNIT_CASE_PARAM(random_operations_of_every_kind_agree_with_a_model, game_gen_params),
	{}
};

static struct kunit_suite property_features_suite = {
	.name = "twheel-property-features",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = property_features_cases,
};

module_test_suite(property_features_suite);

MODULE_DESCRIPTION("KUnit suite of random operations of every kind on a timing wheel");
MODULE_LICENSE("GPL");
