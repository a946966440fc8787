/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reference implementation of the index arithmetic, for comparison in the tests.
 *
 * It follows the definitions, with divisions and loops in place of shifts and masks, and
 * shares no code with the engine. So the tests overlook a mistake only if both make it.
 */
#ifndef _TWHEEL_KUNIT_REFERENCE_H
#define _TWHEEL_KUNIT_REFERENCE_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

/* Slots and levels of a wheel, as the parameter of a test. */
struct shape {
	u32	slots;
	u32	levels;
};

/* Number of values that ref_boundary() has. The first is 0, and some occur twice. */
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

/* Number of ticks that the wheel covers without rounds. */
static inline u64 ref_span(const struct shape *s)
{
	return ref_grain(s, s->levels);
}

/* A level below the top has slots for two revolutions, that of the cursor and the next one. */
static inline u32 ref_ring(const struct shape *s, u32 level)
{
	return level == s->levels - 1 ? s->slots : 2 * s->slots;
}

static inline u32 ref_slot(const struct shape *s, u64 tick, u32 level)
{
	return ref_mod(div64_u64(tick, ref_grain(s, level)), ref_ring(s, level));
}

/* The lowest level of which one revolution contains both ticks, or the top level. */
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
 * The cursor enters the slot for the first time within one revolution, and then once per
 * revolution. All visits before the last one are rounds.
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
 * The @i-th tick near the boundaries of the levels. With g the grain of a level, these are
 * g, 2 * g and (slots - 1) * g, each with both neighbours.
 */
static inline u64 ref_boundary(const struct shape *s, u32 i)
{
	u64 multiple[] = { 1, 2, s->slots - 1 };

	return ref_grain(s, i / 9) * multiple[i / 3 % 3] + i % 3 - 1;
}

#endif /* _TWHEEL_KUNIT_REFERENCE_H */
