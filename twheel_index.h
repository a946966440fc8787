/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Index arithmetic of the timing wheel.
 *
 * Pure functions on integers, without engine structures, locks or clocks. The
 * engine computes every position with them. Tests and model checkers can call
 * them directly.
 *
 * Terms
 *
 *   tick    a multiple of tick_ns on the wheel's clock; tick 0 is the clock's
 *           zero. A deadline is rounded up to a tick and the current time is
 *           rounded down. A timeout fires when now >= its tick: never early.
 *   cursor  the last tick that the wheel has entered.
 *   digit   digit L of a tick is its digit at position L in base @slots. It
 *           selects the slot on level L.
 *   block   a block of level L is the set of ticks that agree in digit L and in
 *           all higher digits. A block of level 0 is a single tick.
 *
 * The level of a tick is the highest digit in which it differs from the cursor.
 * So the cursor enters the tick's block on that level before it reaches the tick,
 * and the timeout can cascade in time. Default geometry, 256 slots and a tick of
 * 1 ms:
 *
 *   level   slot covers   level reaches   a timeout here cascades
 *     0     1 ms          256 ms          never
 *     1     256 ms        65.5 s          once
 *     2     65.5 s        4.7 h           twice
 *     3     4.7 h         49.7 d          three times
 *
 * A timeout beyond the reach of the top level stays on the top level for one or
 * more rounds of the cursor. A wheel with one level follows the same rule.
 *
 * A level below the top has slots for two blocks of the level above it: the
 * cursor's block and the next block. An early cascade fills slots of the next
 * block before the cursor enters it. The ring of a level is its number of slots:
 * 2 * @slots below the top, @slots on the top. A slot below the top holds the
 * timeouts of one block at a time.
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
#define TWHEEL_MAX_LEVELS	8
#define TWHEEL_MAX_TICK_NS	(86400ULL * 1000000000ULL)

/* Ticks are below 2^63. The number of levels is reduced to fit this. */
#define TWHEEL_TICK_BITS	63

struct twheel_geometry {
	u64	tick_ns;
	u64	reciprocal;	/* of tick_ns, times 2^64, rounded down */
	u32	slots;		/* per block of the level above; a power of two */
	u32	mask;		/* slots - 1 */
	u8	bits;		/* log2(slots) */
	u8	levels;
	u8	top;		/* levels - 1 */
};

static inline bool twheel_geometry_valid(u64 tick_ns, u32 slots, u32 levels)
{
	return tick_ns >= 1 && tick_ns <= TWHEEL_MAX_TICK_NS &&
	       slots >= TWHEEL_MIN_SLOTS && slots <= TWHEEL_MAX_SLOTS &&
	       levels >= 1 && levels <= TWHEEL_MAX_LEVELS;
}

/* Arguments are valid. Rounds up @slots, and reduces @levels to fit 63-bit ticks. */
static inline void twheel_geometry_init(struct twheel_geometry *g, u64 tick_ns,
					u32 slots, u32 levels)
{
	u32 bits = order_base_2(slots);
	u32 fit = TWHEEL_TICK_BITS / bits;

	g->tick_ns = tick_ns;
	g->reciprocal = div64_u64(U64_MAX, tick_ns);
	g->slots = 1U << bits;
	g->mask = g->slots - 1;
	g->bits = bits;
	g->levels = levels < fit ? levels : fit;
	g->top = g->levels - 1;
}

/* @now_ns plus @delta_ns, both <= S64_MAX, saturated at S64_MAX (never). */
static inline u64 twheel_add_ns(u64 now_ns, u64 delta_ns)
{
	u64 sum = now_ns + delta_ns;

	return sum > S64_MAX ? S64_MAX : sum;
}

/*
 * @ns / tick_ns without a division, for every 64-bit @ns. The reciprocal is
 * (2^64 - 1 - r) / tick_ns with r < tick_ns. Before rounding, the error of the
 * product in ticks is
 *
 *	ns * (1 + r) / (tick_ns * 2^64)  <=  ns / 2^64  <  1
 *
 * So the quotient is exact or too small by 1.
 */
static inline u64 twheel_divide(const struct twheel_geometry *g, u64 ns, u64 *rest)
{
	u64 tick = mul_u64_u64_shr(ns, g->reciprocal, 64);

	*rest = ns - tick * g->tick_ns;
	if (*rest >= g->tick_ns) {
		*rest -= g->tick_ns;
		tick++;
	}
	return tick;
}

/* The last tick at or before @ns, for the current time. */
static inline u64 twheel_tick_floor(const struct twheel_geometry *g, u64 ns)
{
	u64 rest;

	return twheel_divide(g, ns, &rest);
}

/* The first tick at or after @ns, for a deadline. */
static inline u64 twheel_tick_ceil(const struct twheel_geometry *g, u64 ns)
{
	u64 rest, tick = twheel_divide(g, ns, &rest);

	return rest ? tick + 1 : tick;
}

/* The time at which @tick begins; S64_MAX if it does not fit. */
static inline u64 twheel_tick_to_ns(const struct twheel_geometry *g, u64 tick)
{
	u64 ns;

	if (check_mul_overflow(tick, g->tick_ns, &ns) || ns > S64_MAX)
		return S64_MAX;
	return ns;
}

static inline u32 twheel_shift(const struct twheel_geometry *g, u32 level)
{
	return level * g->bits;
}

/* Number of the block that @tick lies in on @level. */
static inline u64 twheel_block(const struct twheel_geometry *g, u64 tick, u32 level)
{
	return tick >> twheel_shift(g, level);
}

/* First tick of @block on @level. */
static inline u64 twheel_block_to_tick(const struct twheel_geometry *g, u64 block, u32 level)
{
	return block << twheel_shift(g, level);
}

/* First tick of the block that @tick lies in on @level. */
static inline u64 twheel_block_start(const struct twheel_geometry *g, u64 tick, u32 level)
{
	u32 shift = twheel_shift(g, level);

	return tick >> shift << shift;
}

/* Number of slots of @level. */
static inline u32 twheel_ring(const struct twheel_geometry *g, u32 level)
{
	return g->slots << (level < g->top);
}

/* Slot of @tick on @level. */
static inline u32 twheel_slot(const struct twheel_geometry *g, u64 tick, u32 level)
{
	return twheel_block(g, tick, level) & (twheel_ring(g, level) - 1);
}

/*
 * Distance in blocks from @block to the next block that maps to slot @i of @level; 0 if
 * @block itself maps to it.
 */
static inline u32 twheel_ahead(const struct twheel_geometry *g, u64 block, u32 i, u32 level)
{
	u32 ring = twheel_ring(g, level);

	return (i + ring - (block & (ring - 1))) & (ring - 1);
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
	u32 level = bit / g->bits;

	return level < g->top ? level : g->top;
}

/* Level of @tick as seen from @cursor. */
static inline u32 twheel_level(const struct twheel_geometry *g, u64 tick, u64 cursor)
{
	return twheel_level_of_bit(g, twheel_differing_bit(tick, cursor));
}

/*
 * The tick from @lo to @hi that is a multiple of the highest power of two. Other
 * timeouts with slack are likely to get the same tick.
 */
static inline u64 twheel_round_tick(u64 lo, u64 hi)
{
	u64 low;

	if (lo >= hi)
		return lo;
	/* low masks the bits below the highest one that differs, 0 in lo and 1 in hi. */
	low = (1ULL << (fls64(lo ^ hi) - 1)) - 1;
	return lo & (low << 1 | 1) ? hi & ~low : lo;
}

/*
 * Whole intervals from @expires_ns to @now_ns: the number of periodic deadlines after
 * @expires_ns that have passed. @interval_ns is not 0.
 */
static inline u64 twheel_intervals(u64 expires_ns, u64 now_ns, u64 interval_ns)
{
	return now_ns > expires_ns ? div64_u64(now_ns - expires_ns, interval_ns) : 0;
}

/*
 * The tick at which the early cascade of @nr timeouts of @block begins. It is @lead_ns
 * for each timeout before the block begins, but not before the previous block begins:
 * until then the level below has no slots for @block. @level and @block are not 0.
 */
static inline u64 twheel_early(const struct twheel_geometry *g, u64 block, u32 level, u32 nr,
			       u32 lead_ns)
{
	u32 shift = twheel_shift(g, level);
	u64 lead = twheel_tick_ceil(g, (u64)nr * lead_ns);

	return lead < 1ULL << shift ? (block << shift) - lead : (block - 1) << shift;
}

/*
 * Rounds left on the top level: how often the cursor enters the slot of @tick for an
 * earlier block before it enters the block of @tick. @tick is not before @cursor.
 */
static inline u64 twheel_rounds_left(const struct twheel_geometry *g, u64 tick, u64 cursor)
{
	u64 blocks = twheel_block(g, tick, g->top) - twheel_block(g, cursor, g->top);

	return blocks ? (blocks - 1) >> g->bits : 0;
}

#endif /* _TWHEEL_INDEX_H */
