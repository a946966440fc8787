/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reference implementation of the index arithmetic, for comparison in the tests.
 *
 * It follows the definitions, with divisions and loops instead of shifts and masks,
 * and shares no code with the engine. So only a mistake made in both goes unnoticed.
 */
#ifndef _TWHEEL_KUNIT_REFERENCE_H
#define _TWHEEL_KUNIT_REFERENCE_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

/* Geometry of a wheel, as a test's parameter. */
struct shape {
	u32	slots;
	u32	levels;
};

/* Number of ticks that ref_boundary() returns. The first is 0, some occur twice. */
#define SHAPE_BOUNDARIES(levels)	(9 * ((levels) + 1))

static inline void shape_desc(const struct shape *s, char *desc)
{
	sprintf(desc, "%u slots, %u levels", s->slots, s->levels);
}

static inline u64 ref_mod(u64 a, u64 b)
{
	u64 rest;

	div64_u64_rem(a, b, &rest);
	return rest;
}

/* Number of ticks that a slot of @level covers. */
static inline u64 ref_grain(const struct shape *s, u32 level)
{
	u64 grain = 1;

	while (level--)
		grain *= s->slots;
	return grain;
}

/* How many ticks the wheel reaches before rounds begin. */
static inline u64 ref_span(const struct shape *s)
{
	return ref_grain(s, s->levels);
}

/* A level below the top has room for two revolutions: the cursor's and the next. */
static inline u32 ref_ring(const struct shape *s, u32 level)
{
	return level == s->levels - 1 ? s->slots : 2 * s->slots;
}

static inline u32 ref_slot(const struct shape *s, u64 tick, u32 level)
{
	return ref_mod(div64_u64(tick, ref_grain(s, level)), ref_ring(s, level));
}

/* The lowest level whose whole revolution holds both; else the top level. */
static inline u32 ref_level(const struct shape *s, u64 tick, u64 cursor)
{
	u32 level;

	for (level = 0; level < s->levels - 1; level++) {
		u64 revolution = ref_grain(s, level + 1);

		if (div64_u64(tick, revolution) == div64_u64(cursor, revolution))
			break;
	}
	return level;
}

/*
 * The cursor enters the slot a first time at most one revolution from now, and then
 * once a revolution; all times but the last are in vain.
 */
static inline u64 ref_rounds(const struct shape *s, u64 tick, u64 cursor)
{
	u64 grain = ref_grain(s, s->levels - 1);
	u64 goal = div64_u64(tick, grain);
	u64 next = div64_u64(cursor, grain) + 1;
	u64 first = next + ref_mod(goal - next, s->slots);

	return goal < next ? 0 : div64_u64(goal - first, s->slots);
}

/*
 * The @i-th tick around the boundaries of the levels: each one, twice each one and
 * the last multiple of each below the next, with both neighbours.
 */
static inline u64 ref_boundary(const struct shape *s, u32 i)
{
	u64 multiple[] = { 1, 2, s->slots - 1 };

	return ref_grain(s, i / 9) * multiple[i / 3 % 3] + i % 3 - 1;
}

#endif /* _TWHEEL_KUNIT_REFERENCE_H */
