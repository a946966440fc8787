/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Index arithmetic of the timing wheel: pure functions on integers.
 *
 *   tick    a multiple of tick_ns on the wheel's clock. A deadline is rounded up to a tick,
 *           the current time is rounded down: never early.
 *   cursor  the last tick that the wheel has entered.
 *   digit   a tick is a number of digits: digit 0 has log2(@slots) bits, the others have 6.
 *   block   a block of level L is the set of ticks that agree in digit L and all above.
 *
 * The level of a tick is the highest digit in which it differs from the cursor. The levels
 * cover every deadline up to S64_MAX, so there is no horizon and no round. With 256 slots of 1 ms:
 *
 *   level   slot covers   level reaches   a timeout here cascades
 *     0     1 ms          256 ms          never
 *     1     256 ms        16.4 s          once
 *     2     16.4 s        17.5 min        twice
 *     3     17.5 min      18.6 h          three times
 *     ...
 *
 * Each level has slots for two blocks of the level above: the cursor's and the next one. So a
 * crowded slot can cascade before the cursor enters its block.
 *
 * With @levels == 1 there is level 0 alone, with @slots slots: the hashed wheel. A slot then
 * holds ticks of several rounds, @slots ticks apart.
 */
#ifndef _TWHEEL_INDEX_H
#define _TWHEEL_INDEX_H

#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/types.h>

#define TWHEEL_MIN_SLOTS	2
#define TWHEEL_MAX_SLOTS	65536
#define TWHEEL_MAX_TICK_NS	(86400ULL * 1000000000ULL)

#define TWHEEL_DIGIT_BITS	6
#define TWHEEL_LEVELS		12	/* with the smallest level 0 and ticks of 1 ns */

struct twheel_geometry {
	u64	tick_ns;
	u64	reciprocal;	/* of tick_ns, times 2^64, rounded down */
	u32	slots;		/* of level 0, for each block of level 1; a power of two */
	u8	bits;		/* log2(slots) */
	u8	levels;
};

static inline bool twheel_geometry_valid(u64 tick_ns, u32 slots)
{
	return tick_ns >= 1 && tick_ns <= TWHEEL_MAX_TICK_NS &&
	       slots >= TWHEEL_MIN_SLOTS && slots <= TWHEEL_MAX_SLOTS;
}

/* @levels: 1 for a hashed wheel; any other value means a hierarchy. */
static inline void twheel_geometry_init(struct twheel_geometry *g, u64 tick_ns, u32 slots,
					u32 levels)
{
	g->tick_ns = tick_ns;
	g->reciprocal = div64_u64(U64_MAX, tick_ns);
	g->bits = order_base_2(slots);
	g->slots = 1U << g->bits;
	g->levels = 1;
	/* The last tick follows that of S64_MAX. It has at least 17 bits: at least two levels. */
	if (levels != 1)
		g->levels += DIV_ROUND_UP(fls64(div64_u64(S64_MAX, tick_ns) + 1) - g->bits,
					  TWHEEL_DIGIT_BITS);
}

/* @now_ns plus @delta_ns, both <= S64_MAX, saturated at S64_MAX (never). */
static inline u64 twheel_add_ns(u64 now_ns, u64 delta_ns)
{
	return min_t(u64, now_ns + delta_ns, S64_MAX);
}

/*
 * The last tick at or before @ns, for the current time: @ns / tick_ns without a division, for
 * every 64-bit @ns. The reciprocal is (2^64 - 1 - r) / tick_ns with r < tick_ns. Before
 * rounding, the error of the product in ticks is
 *
 *	ns * (1 + r) / (tick_ns * 2^64)  <=  ns / 2^64  <  1
 *
 * So the high half of the product is the quotient, or too small by 1.
 */
static inline u64 twheel_tick_floor(const struct twheel_geometry *g, u64 ns)
{
	u64 tick = mul_u64_u64_shr(ns, g->reciprocal, 64);

	return tick + (ns - tick * g->tick_ns >= g->tick_ns);
}

/* Deadlines are rounded up to a tick here: the first at or after @ns <= S64_MAX. */
static inline u64 twheel_tick_ceil(const struct twheel_geometry *g, u64 ns)
{
	return twheel_tick_floor(g, ns + g->tick_ns - 1);
}

/* The time at which @tick begins; S64_MAX if it does not fit. */
static inline u64 twheel_tick_to_ns(const struct twheel_geometry *g, u64 tick)
{
	u64 ns;

	if (check_mul_overflow(tick, g->tick_ns, &ns) || ns > S64_MAX)
		return S64_MAX;
	return ns;
}

/* Bits of a tick below digit @level. */
static inline u32 twheel_shift(const struct twheel_geometry *g, u32 level)
{
	return level ? g->bits + (level - 1) * TWHEEL_DIGIT_BITS : 0;
}

/* Slots of @level: those of two blocks of the level above, if any. A power of two. */
static inline u32 twheel_ring(const struct twheel_geometry *g, u32 level)
{
	u32 slots = level ? 1U << TWHEEL_DIGIT_BITS : g->slots;

	return g->levels > 1 ? 2 * slots : slots;
}

/* Number of slots on all levels below @level. */
static inline u32 twheel_first_slot(const struct twheel_geometry *g, u32 level)
{
	return level ? twheel_ring(g, 0) + (level - 1) * twheel_ring(g, 1) : 0;
}

/* The highest bit in which @tick and @cursor differ; 0 if they are equal. */
static inline unsigned long twheel_differing_bit(u64 tick, u64 cursor)
{
	u64 diff = (tick ^ cursor) | 1;

	return BITS_PER_LONG == 64 ? __fls(diff) : fls64(diff) - 1;
}

/* Level of a tick whose highest bit that differs from the cursor is @bit. */
static inline u32 twheel_level_of_bit(const struct twheel_geometry *g, u32 bit)
{
	if (bit < g->bits)
		return 0;
	return min_t(u32, 1 + (bit - g->bits) / TWHEEL_DIGIT_BITS, g->levels - 1);
}

/*
 * The tick from @lo to @hi that is a multiple of the highest power of two. Other
 * timeouts with slack are likely to get the same tick.
 */
static inline u64 twheel_slack_tick(u64 lo, u64 hi)
{
	u64 low;

	if (lo >= hi)
		return lo;
	/* low masks the bits below the highest one that differs, 0 in lo and 1 in hi. */
	low = (1ULL << (fls64(lo ^ hi) - 1)) - 1;
	return lo & (low << 1 | 1) ? hi & ~low : lo;
}

/* Whole intervals from @expires_ns to @now_ns. @interval_ns is not 0. */
static inline u64 twheel_intervals(u64 expires_ns, u64 now_ns, u64 interval_ns)
{
	return now_ns > expires_ns ? div64_u64(now_ns - expires_ns, interval_ns) : 0;
}

#endif /* _TWHEEL_INDEX_H */
