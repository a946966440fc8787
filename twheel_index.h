/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Index arithmetic of the timing wheel.
 *
 * Pure functions on integers: no structure of the engine, no lock, no clock.
 * The engine computes every position with them, the tests call them with every
 * boundary, and they can be handed to a model checker as they are.
 *
 * Terms
 *
 *   tick    a multiple of tick_ns on the wheel's clock; tick 0 is the clock's
 *           zero. A deadline is rounded up to a tick, the current time down,
 *           and a timeout fires when now >= its tick: never early.
 *   cursor  the tick that the wheel has entered last.
 *   digit   a tick is read as a number to the base of @slots; digit L is the
 *           slot that the tick has on level L.
 *   block   the ticks that agree in digit L and all higher ones: what a slot
 *           of level L covers. Blocks of level 0 are single ticks.
 *
 * A tick lies on the level of the highest digit in which it differs from the
 * cursor. The cursor therefore enters its block on that level before it reaches
 * the tick itself, and the timeout can be moved down in time. Default geometry,
 * 256 slots and a tick of 1 ms:
 *
 *   level   slot covers   level reaches   a timeout here is moved down
 *     0     1 ms          256 ms          never
 *     1     256 ms        65.5 s          once
 *     2     65.5 s        4.7 h           twice
 *     3     4.7 h         49.7 d          three times
 *
 * A timeout beyond the reach of the top level stays on the top level while the
 * cursor goes round (rounds). A wheel with one level follows the same rule.
 *
 * A level below the top has slots for two blocks of the level above it: the one
 * that the cursor is in, and the next one. Slots of the next one are filled early,
 * before the cursor gets there, if very many timeouts have to be moved down. Ring
 * is the number of slots that a level has for this reason: 2 * slots below the
 * top, slots on the top. A slot below the top holds one block at a time.
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

/* Ticks are below 2^63: a level whose reach would pass that is not made. */
#define TWHEEL_TICK_BITS	63

struct twheel_geometry {
	u64	tick_ns;
	u64	reciprocal;	/* of tick_ns, times 2^64, rounded down */
	u32	slots;		/* per level and block of the level above, a power of two */
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

/* The arguments are valid; @slots is rounded up, @levels cut to what fits. */
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

/* @now_ns plus @delta_ns, both <= S64_MAX; a sum above that is "never". */
static inline u64 twheel_add_ns(u64 now_ns, u64 delta_ns)
{
	u64 sum = now_ns + delta_ns;

	return sum > S64_MAX ? S64_MAX : sum;
}

/*
 * @ns / tick_ns, without a division, for every @ns of 64 bits. The reciprocal is
 * (2^64 - 1 - r) / tick_ns with r < tick_ns, so the product is too small by
 *
 *	ns * (1 + r) / (tick_ns * 2^64)  <=  ns / 2^64  <  1
 *
 * tick before it is rounded down: the quotient is right or too small by 1.
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

/* When @tick begins; S64_MAX if the clock cannot get there. */
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

/* Slots that @level has. */
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
 * How many blocks after @block the next one is that stands for slot @i of the same
 * level; 0 if that is @block.
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

/* Level of a tick that differs from the cursor in @bit and in none above. */
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
 * A tick in @lo to @hi that others are likely to have chosen too: the one that is a
 * multiple of the highest power of two.
 */
static inline u64 twheel_round_tick(u64 lo, u64 hi)
{
	u64 low;

	if (lo >= hi)
		return lo;
	/* From the highest bit in which they differ down: lo has it 0, hi has it 1. */
	low = (1ULL << (fls64(lo ^ hi) - 1)) - 1;
	return lo & (low << 1 | 1) ? hi & ~low : lo;
}

/*
 * Whole intervals from @expires_ns up to @now_ns: deadlines that have passed beside
 * the one at @expires_ns. The interval is not 0.
 */
static inline u64 twheel_intervals(u64 expires_ns, u64 now_ns, u64 interval_ns)
{
	return now_ns > expires_ns ? div64_u64(now_ns - expires_ns, interval_ns) : 0;
}

/*
 * When to begin to move @nr timeouts down from the slot of @block on @level, which
 * is above level 0: so long before the block begins that each has lead_ns, but not
 * before the block that precedes it, for only that one's successor has slots below.
 * @block is not 0.
 */
static inline u64 twheel_early(const struct twheel_geometry *g, u64 block, u32 level, u32 nr,
			       u32 lead_ns)
{
	u32 shift = twheel_shift(g, level);
	u64 lead = twheel_tick_ceil(g, (u64)nr * lead_ns);

	return lead < 1ULL << shift ? (block << shift) - lead : (block - 1) << shift;
}

/*
 * How often the cursor still enters the slot of @tick on the top level without
 * entering the block of @tick: the rounds that a timeout has to sit out there.
 * @tick is not before @cursor.
 */
static inline u64 twheel_rounds_left(const struct twheel_geometry *g, u64 tick, u64 cursor)
{
	u64 blocks = twheel_block(g, tick, g->top) - twheel_block(g, cursor, g->top);

	return blocks ? (blocks - 1) >> g->bits : 0;
}

#endif /* _TWHEEL_INDEX_H */
