// SPDX-License-Identifier: GPL-2.0
/*
 * A timeout with slack joins an occupied tick if the cursor is near. The tick lies in the allowed
 * window, so no timeout is early. The bits set in the bitmap are any.
 *
 * extract: struct:twheel_slot struct:twheel_level shard.h twheel_index twheel_join
 */
#include "engine.h"

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
