// SPDX-License-Identifier: GPL-2.0
/*
 * The tick chosen with slack lies in the allowed window, so no timeout is early. It is the
 * multiple of the highest power of two there, so other timeouts get the same tick.
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
	u64 tick = twheel_slack_tick(lo, hi);

	PROVE(tick >= lo);
	PROVE(tick <= hi || tick == lo);
}

void round_tick_is_the_roundest_there_is(void)
{
	u64 lo = any_tick(), hi = any_tick();
	u64 tick = twheel_slack_tick(lo, hi);
	u64 other = any_u64(lo, hi);

	PROVE(zeros(tick) > zeros(other) || tick == other);
}
