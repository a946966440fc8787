// SPDX-License-Identifier: GPL-2.0
/*
 * Time and ticks. A deadline becomes the first tick at or after it, the current
 * time the last one at or before it. reciprocal.smt2 proves that the multiplication
 * with the reciprocal is that division. division.smt2 proves the consequences: never
 * early and less than a tick late. Here it is proved that the functions compute the
 * numbers of both files.
 *
 * The times that are rounded down are any of 64 bits, not only those of the clock.
 *
 * Products are the subject, so the checker is not asked for the overflow of each
 * operation here: where one could be, it is a claim.
 *
 * extract: twheel_forward
 */
#include "prove.h"
#include EXTRACTED

/* A wheel with ticks of any length. The digits of a tick do not matter here. */
static struct twheel_geometry any_ticks(void)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, any_tick_ns(), TWHEEL_MIN_SLOTS, 1);
	return g;
}

/*
 * Any time, as reciprocal.smt2 says that it relates to the high half of its product
 * with the reciprocal.
 */
static u64 time_of(const struct twheel_geometry *g, u64 high, u64 rest)
{
	ASSUME(rest < 2 * g->tick_ns);
	product.high = high;
	return high * g->tick_ns + rest;
}

/* The function under proof has made one product, of the right numbers. */
static void prove_multiplied(const struct twheel_geometry *g, u64 ns)
{
	PROVE(product.nr == 1);
	PROVE(product.a == ns);
	PROVE(product.b == division[0].quotient);
	PROVE(nr_divisions == 1);
	PROVE(division[0].dividend == U64_MAX);
	PROVE(division[0].divisor == g->tick_ns);
}

void now_is_rounded_down_to_a_tick(void)
{
	struct twheel_geometry g = any_ticks();
	u64 high = nondet_u64(), rest = nondet_u64();
	u64 ns = time_of(&g, high, rest);

	PROVE(twheel_tick_floor(&g, ns) == high + (rest >= g.tick_ns));
	prove_multiplied(&g, ns);
}

/* division.smt2 proves that the last tick before a time one tick later, less 1 ns, is the first. */
void deadline_is_rounded_up_to_a_tick(void)
{
	struct twheel_geometry g = any_ticks();
	u64 high = nondet_u64(), rest = nondet_u64();
	u64 sum = time_of(&g, high, rest);

	PROVE(twheel_tick_ceil(&g, sum - (g.tick_ns - 1)) == high + (rest >= g.tick_ns));
	prove_multiplied(&g, sum);
}

/* For any number, also those that stand for "never". */
void tick_begins_at_the_product_or_never(void)
{
	u64 tick = any_u64(0, U64_MAX);
	struct twheel_geometry g = any_ticks();
	__uint128_t product = (__uint128_t)tick * g.tick_ns;
	u64 ns = twheel_tick_to_ns(&g, tick);

	PROVE(ns == (product > S64_MAX ? S64_MAX : product));
}

void intervals_missed_are_the_whole_ones(void)
{
	u64 expires_ns = any_ns();
	u64 now_ns = any_ns();
	u64 interval_ns = any_u64(1, S64_MAX);
	u64 missed = twheel_intervals(expires_ns, now_ns, interval_ns);

	if (now_ns <= expires_ns) {
		PROVE(missed == 0);
		return;
	}
	PROVE(nr_divisions == 1);
	PROVE(division[0].dividend == now_ns - expires_ns);
	PROVE(division[0].divisor == interval_ns);
	PROVE(missed == division[0].quotient);
}

/* One interval more than the whole ones: division.smt2 proves that it ends after now and fits. */
void forward_moves_the_deadline_by_whole_intervals(void)
{
	struct twheel_timeout t = { .expires = any_ns() };
	u64 expires = t.expires, now_ns = any_ns(), interval_ns = any_u64(1, S64_MAX);
	u64 nr = twheel_forward(&t, now_ns, interval_ns);

	if (now_ns < expires) {
		PROVE(nr == 0 && t.expires == expires);
		return;
	}
	PROVE(nr_divisions == 1);
	PROVE(division[0].dividend == now_ns - expires);
	PROVE(division[0].divisor == interval_ns);
	PROVE(nr == division[0].quotient + 1);
	PROVE(t.expires == min(expires + nr * interval_ns, (u64)S64_MAX));
}
