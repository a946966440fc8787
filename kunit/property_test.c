// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of random operations, compared with a model after each operation.
 *
 * The model is a list of the pending timeouts. It is sorted by the tick at which each fires
 * and, within a tick, by the order of arming. The timeout that fires must be the head of the
 * list, and a stop must hand back the whole list. The test carries out operations, and so do
 * the callbacks or the sink while time is advanced. A third of the timeouts are periodic if
 * the wheel has no sink. The wheel chooses the tick of a timeout with slack. The test reads
 * this tick back and checks that it is in the window.
 *
 * Every case prints its seed. To play it again:
 *
 *	insmod twheel_property_kunit.ko seed=SEED
 *
 * By contract, a backward step gives up the order of the pending timeouts. In the cases
 * with backward steps, a timeout that fires must be due and pending, in any order.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "fixture.h"
#include "reference.h"
#include "suite.h"

static unsigned int steps = 20000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "Operations per case");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Seed of all operations (0: random)");

#define NR_PLAYERS	300
#define CLOCK_END	((u64)S64_MAX)
#define LIST_MAX	200
#define TICK		1000ULL

/**
 * struct play - state of a run of random operations
 * @seed: of all decisions
 * @rnd: source of all decisions
 * @step: number of the operation
 * @fault: the first disagreement, or NULL
 * @got: result of the wheel at @fault
 * @want: result of the model at @fault
 */
struct play {
	u64			seed;
	struct rnd_state	rnd;
	unsigned int		step;
	const char		*fault;
	u64			got, want;
};

static u32 roll(struct play *p, u32 sides)
{
	return prandom_u32_state(&p->rnd) % sides;
}

static u64 roll64(struct play *p, u64 sides)
{
	u64 value = (u64)prandom_u32_state(&p->rnd) << 32;

	return ref_mod(value | prandom_u32_state(&p->rnd), sides);
}

static void compare(struct play *p, const char *what, u64 got, u64 want)
{
	if (got == want || p->fault)
		return;
	p->fault = what;
	p->got = got;
	p->want = want;
}

/**
 * struct player - a timeout and its state in the model
 * @p: the timeout; a one-shot uses @p.t alone
 * @m: the model
 * @node: entry in the sorted list while pending
 * @tick: while pending, the tick at which it must fire
 * @expires: its deadline
 * @interval: interval of a periodic player
 * @left: periods to come; 0: no end
 * @pending: it must be pending
 * @expiring: it is in the sink and not yet accepted
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
	bool			expiring;
};

/**
 * struct game - parameters of a case
 * @name: for the log
 * @shape: slots and levels of the wheel
 * @limit: max_pending of the wheel; 0 with a sink
 * @sink: the wheel has a sink
 * @backward: some operations step the clock backward
 */
struct game {
	const char	*name;
	struct shape	shape;
	unsigned int	limit;
	bool		sink;
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
 * @rearmed: as in struct twheel_counters
 * @cancelled: as in struct twheel_counters
 * @fired: as in struct twheel_counters
 * @all_fired: expiries in all wheels of the case
 * @running: player whose callback is running
 * @again: @running will be enqueued when its callback ends
 * @advancing: the test is in twheel_advance()
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
	bool			advancing;
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
	if (m->game->sink)
		return TWHEEL_ONCE;
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
	if (p->pending || p->expiring)
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

/* Compare the values that the callback of @p reports, and enqueue its next period. */
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
	m->all_fired++;
	m->running = p;
	if (kind_of(m, p) != TWHEEL_ONCE)
		model_period(m, p);
}

/* Random times */

/* Near a power of the number of slots, or any number up to ten spans of the wheel. */
static u64 roll_ticks(struct model *m)
{
	const struct shape *s = &m->game->shape;

	switch (roll(&m->play, 8)) {
	case 0:
		return roll(&m->play, 3);
	case 1 ... 2:
		return roll(&m->play, 2 * s->slots);
	case 3 ... 4:
		return ref_boundary(s, roll(&m->play, SHAPE_BOUNDARIES(s->levels)));
	case 5:
		return roll64(&m->play, ref_grain(s, 1 + roll(&m->play, s->levels)));
	case 6:
		return roll64(&m->play, 2 * ref_span(s));
	default:
		return roll64(&m->play, 10 * ref_span(s));
	}
}

static u64 roll_delay(struct model *m)
{
	return roll_ticks(m) * TICK + (roll(&m->play, 2) ? roll64(&m->play, TICK) : 0);
}

/* A delay to the end of the clock, or one above S64_MAX, which must be refused. */
static u64 roll_extreme(struct model *m)
{
	if (roll(&m->play, 2))
		return CLOCK_END - roll64(&m->play, 2 * m->now + 2);
	return CLOCK_END + 1 + roll64(&m->play, CLOCK_END);
}

/* Includes a few times in the past, and extreme times. */
static u64 roll_expires(struct model *m)
{
	u64 delay = roll(&m->play, 32) ? roll_delay(m) : roll_extreme(m);

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
	int want = model_arm_result(m, p, expires);

	compare(&m->play, "arm", twheel_arm(&p->p.t, expires), want);
	if (want)
		return;
	model_forget(m, p);
	model_insert(m, p, expires, due_tick(m, expires));
}

static void play_arm_after(struct model *m, struct player *p)
{
	u64 delay = roll(&m->play, 32) ? roll_delay(m) : roll_extreme(m);
	u64 expires = delay > CLOCK_END ? delay : min(m->now + delay, CLOCK_END);
	int want = model_arm_result(m, p, expires);

	compare(&m->play, "arm_after", twheel_arm_after(&p->p.t, delay), want);
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

/* Take idle one-shots from a random position on, except running and expiring ones. */
static void play_arm_list(struct model *m)
{
	unsigned int n = roll_length(m), i, want = 0, got;
	unsigned int first = roll(&m->play, NR_PLAYERS);
	struct player *p;
	LIST_HEAD(list);

	for (i = 0; i < NR_PLAYERS && n; i++) {
		p = &m->players[(first + i) % NR_PLAYERS];
		if (p->pending || p->expiring || p == m->running ||
		    kind_of(m, p) != TWHEEL_ONCE)
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
		else if (roll(&m->play, 3) == 0)
			play_arm_slack(m, p);
		else if (roll(&m->play, 2))
			play_arm_after(m, p);
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

/* Callbacks and the sink */

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
	struct player *p = container_of(t, struct player, p.t);

	model_fire(p->m, p);
	play_back(p->m, p);
}

static void periodic_player_fires(struct twheel_periodic *p)
{
	player_fires(&p->t);
}

static void players_fire(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct model *m = sink_data;
	struct twheel_timeout *t, *next;
	unsigned int n = 0;

	compare(&m->play, "time in the sink", now_ns, m->now);
	list_for_each_entry(t, expired, entry) {
		struct player *p = container_of(t, struct player, p.t);

		model_fire(m, p);
		p->expiring = true;
		n++;
	}
	compare(&m->play, "length of a batch", nr, n);
	list_for_each_entry_safe(t, next, expired, entry) {
		struct player *p = container_of(t, struct player, p.t);

		if (!roll(&m->play, 4))
			play_on(m, p);
		list_del(&t->entry);
		p->expiring = false;
		twheel_accept(t);
		play_back(m, p);
	}
}

/* Time */

/* Within a tick, several ticks, revolutions, or rarely a very long stall. */
static u64 roll_advance(struct model *m)
{
	switch (roll(&m->play, 16)) {
	case 0 ... 2:
		return roll64(&m->play, TICK);
	case 3 ... 9:
		return roll(&m->play, 20) * TICK;
	case 10:
		return roll64(&m->play, 1 + (CLOCK_END - m->now) / 1024);
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
	m->advancing = true;
	compare(&m->play, "advance", twheel_advance(m->wheel, now), 0);
	m->advancing = false;
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
	u64 back = roll(&m->play, 4) ? roll_advance(m) : roll64(&m->play, m->now + 1);

	go_to(m, m->now - min(m->now, back));
	compare(&m->play, "fired by a step back", m->fired, fired);
}

/* Comparison of all results */

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

	compare(&m->play, "position", twheel_position(&p->p.t, &pos), p->pending);
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

/* Stop, and a new wheel */

static struct twheel *new_wheel(struct model *m)
{
	struct twheel_params params = {
		.name = "kunit-property",
		.clock = TWHEEL_MANUAL,
		.tick_ns = TICK,
		.slots = m->game->shape.slots,
		.levels = m->game->shape.levels,
		.max_pending = m->game->limit,
		.sink = m->game->sink ? players_fire : NULL,
		.sink_data = m,
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
		p->expiring = false;
		if (kind_of(m, p) == TWHEEL_ONCE)
			twheel_timeout_init(m->wheel, &p->p.t,
					    m->game->sink ? NULL : player_fires);
		else
			twheel_periodic_init(m->wheel, &p->p, periodic_player_fires,
					     kind_of(m, p));
	}
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
	{ "1 level of 2 slots, sink", { 2, 1 }, .sink = true },
	{ "1 level of 8 slots", { 8, 1 } },
	{ "1 level of 8 slots, a limit", { 8, 1 }, .limit = 60 },
	{ "1 level of 16 slots, backward", { 16, 1 }, .backward = true },
	{ "1 level of 256 slots", { 256, 1 } },
	{ "1 level of 65536 slots", { 65536, 1 } },
	{ "2 levels of 4 slots", { 4, 2 } },
	{ "2 levels of 64 slots, sink", { 64, 2 }, .sink = true },
	{ "2 levels of 8 slots, a limit", { 8, 2 }, .limit = 100 },
	{ "2 levels of 8 slots, backward", { 8, 2 }, .backward = true },
	{ "3 levels of 4 slots", { 4, 3 } },
	{ "3 levels of 4 slots, backward", { 4, 3 }, .backward = true },
	{ "4 levels of 4 slots", { 4, 4 } },
	{ "4 levels of 4 slots, backward", { 4, 4 }, .backward = true },
	{ "4 levels of 8 slots, sink", { 8, 4 }, .sink = true },
	{ "4 levels of 256 slots", { 256, 4 } },
	{ "4 levels of 256 slots, a limit, backward", { 256, 4 }, .limit = 60, .backward = true },
	{ "4 levels of 256 slots, sink, backward", { 256, 4 }, .sink = true, .backward = true },
	{ "8 levels of 16 slots", { 16, 8 } },
	{ "8 levels of 2 slots, backward", { 2, 8 }, .backward = true },
};

static void game_desc(const struct game *g, char *desc)
{
	strscpy(desc, g->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(game, games, game_desc);

static void random_operations_agree_with_a_sorted_list(struct kunit *test)
{
	struct model *m = make_model(test);

	m->play.seed = seed ?: get_random_u64();
	prandom_seed_state(&m->play.rnd, m->play.seed);
	kunit_info(test, "seed=%llu steps=%u: %s\n", m->play.seed, steps, m->game->name);
	for (m->play.step = 0; m->play.step < steps && !m->play.fault; m->play.step++) {
		play(test, m);
		compare_stats(m, 0);
		compare_next_expiry(m);
		compare_position(m, any_player(m));
		if (m->play.step % 512 == 0)
			compare_all(m);
		cond_resched();
	}
	if (!m->play.fault) {
		compare_all(m);
		play_stop(m);
	}
	if (m->play.fault)
		KUNIT_FAIL(test, "seed=%llu step %u: %s is %lld, not %lld", m->play.seed,
			   m->play.step - 1, m->play.fault, (s64)m->play.got, (s64)m->play.want);
	KUNIT_EXPECT_GT(test, m->all_fired, (u64)steps / 100);
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
