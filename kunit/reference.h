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

/*
 * A wheel, as the parameter of a test: slots of level 0, a power of two, and 1 for a hashed
 * wheel, or how many levels of a hierarchy the test reaches.
 */
struct shape {
	u32	slots;
	u32	levels;
};

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

/* Number of slots of @level in one block of the level above. */
static inline u32 ref_digit(const struct shape *s, u32 level)
{
	return level ? 64 : s->slots;
}

/* Number of ticks that a slot of @level covers, at most 2^63. */
static inline u64 ref_grain(const struct shape *s, u32 level)
{
	u64 grain = 1;
	u32 i;

	for (i = 0; i < level; i++) {
		if (grain > div64_u64(1ULL << 63, ref_digit(s, i)))
			return 1ULL << 63;
		grain *= ref_digit(s, i);
	}
	return grain;
}

/* Each level of a hierarchy has slots for two blocks: that of the cursor and the next one. */
static inline u32 ref_ring(const struct shape *s, u32 level)
{
	return s->levels == 1 ? s->slots : 2 * ref_digit(s, level);
}

static inline u32 ref_slot(const struct shape *s, u64 tick, u32 level)
{
	return ref_mod(div64_u64(tick, ref_grain(s, level)), ref_ring(s, level));
}

/* The lowest level of which one block of the level above contains both ticks. */
static inline u32 ref_level(const struct shape *s, u64 tick, u64 cursor)
{
	u32 level = 0;

	while (s->levels > 1 && div64_u64(tick, ref_grain(s, level + 1)) !=
				div64_u64(cursor, ref_grain(s, level + 1)))
		level++;
	return level;
}

/*
 * The @i-th tick near the boundaries of the levels. With g the grain of a level and n its
 * slots, these are g, 2 * g and (n - 1) * g, each with both neighbours.
 */
static inline u64 ref_boundary(const struct shape *s, u32 i)
{
	u64 multiple[] = { 1, 2, ref_digit(s, i / 9) - 1 };

	return ref_grain(s, i / 9) * multiple[i / 3 % 3] + i % 3 - 1;
}

#endif /* _TWHEEL_KUNIT_REFERENCE_H */
