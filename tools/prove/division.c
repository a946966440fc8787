// SPDX-License-Identifier: GPL-2.0
/*
 * Time and ticks. A deadline becomes the first tick at or after it, the current
 * time the last one at or before it. What that means, never early and less than a
 * tick late, is derived in division.smt2; here it is proved that the functions
 * compute it. The division is an axiom, see linux/math64.h.
 *
 * Products are the subject, so the checker is not asked for the overflow of each
 * operation here: where one could be, it is a claim.
 */
#include "prove.h"

/* The function under proof has made one division, of the right numbers. */
static void prove_divided(u64 dividend, u64 divisor)
{
	PROVE(division.nr == 1);
	PROVE(division.dividend == dividend);
	PROVE(division.divisor == divisor);
}

void now_is_rounded_down_to_a_tick(void)
{
	u64 ns = any_ns();
	u64 tick_ns = any_tick_ns();
	u64 tick = twheel_tick_floor(ns, tick_ns);

	prove_divided(ns, tick_ns);
	PROVE(tick == division.quotient);
}

void deadline_is_rounded_up_to_a_tick(void)
{
	u64 ns = any_ns();
	u64 tick_ns = any_tick_ns();
	u64 tick = twheel_tick_ceil(ns, tick_ns);

	prove_divided(ns, tick_ns);
	PROVE(tick == division.quotient + (division.remainder != 0));
	PROVE(tick >= division.quotient);
}

/* For any number, also those that stand for "never". */
void tick_begins_at_the_product_or_never(void)
{
	u64 tick = any_u64(0, U64_MAX);
	u64 tick_ns = any_tick_ns();
	__uint128_t product = (__uint128_t)tick * tick_ns;
	u64 ns = twheel_tick_to_ns(tick, tick_ns);

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
	prove_divided(now_ns - expires_ns, interval_ns);
	PROVE(missed == division.quotient);
}
