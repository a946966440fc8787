// SPDX-License-Identifier: GPL-2.0
/*
 * The tick chosen with slack lies in the allowed window, so no timeout is early. If the cursor is
 * near, it is an occupied tick; the bits set in the bitmap are any. Otherwise it is the multiple of
 * the highest power of two there, so other timeouts get the same tick. The window ends with the sum
 * of the deadline and the slack.
 *
 * extract: struct:twheel_slot struct:twheel_level shard.h twheel_index twheel_join
 */
#include "prove.h"

static u32 find_next_bit(const unsigned long *map, u32 size, u32 start)
{
	return any_u32(start < size ? start : size, size);
}

#include EXTRACTED

/* Without slack, or when the deadline has passed, the limits are in the wrong order. */
void join_stays_within_its_limits(void)
{
	struct twheel_shard s = {
		.geometry = nondet_bool() ? any_geometry() : any_hashed_geometry(),
		.cursor = any_tick(),
	};
	u64 lo = any_tick(), hi = any_tick(), tick;

	s.level[0] = level_with(&s.geometry, 0, NULL, NULL);
	tick = twheel_join(&s, lo, hi);
	PROVE(tick >= lo);
	PROVE(tick <= hi || tick == lo);
}

/* Trailing zeros of a number; 0 is a multiple of all powers of two. */
static u32 zeros(u64 x)
{
	return x ? __builtin_ctzll(x) : 64;
}

void round_tick_is_the_roundest_there_is(void)
{
	u64 lo = any_tick(), hi = any_tick();
	u64 tick = twheel_slack_tick(lo, hi);
	u64 other = any_u64(lo, hi);

	PROVE(zeros(tick) > zeros(other) || tick == other);
}

/* A sum past the end of the clock becomes the end, "never". */
void sum_is_exact_or_never(void)
{
	u64 now_ns = any_ns();
	u64 delta_ns = any_ns();
	__uint128_t sum = (__uint128_t)now_ns + delta_ns;
	u64 ns = twheel_add_ns(now_ns, delta_ns);

	PROVE(ns == (sum > S64_MAX ? S64_MAX : sum));
	PROVE(ns >= now_ns && ns >= delta_ns);
}
