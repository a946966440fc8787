// SPDX-License-Identifier: GPL-2.0
/*
 * Slack: the tick that timeouts meet in lies where they allow it, so none is early,
 * and is the roundest number there, so others find it too.
 */
#include "prove.h"

/* Trailing zeros of a number; 0 is a multiple of all powers of two. */
static u32 zeros(u64 x)
{
	return x ? __builtin_ctzll(x) : 64;
}

void round_tick_is_within_its_limits(void)
{
	u64 lo = any_tick(), hi = any_tick();
	u64 tick = twheel_round_tick(lo, hi);

	PROVE(tick >= lo);
	PROVE(tick <= hi || tick == lo);
}

void round_tick_is_the_roundest_there_is(void)
{
	u64 lo = any_tick(), hi = any_tick();
	u64 tick = twheel_round_tick(lo, hi);
	u64 other = any_u64(lo, hi);

	PROVE(zeros(tick) > zeros(other) || tick == other);
}
