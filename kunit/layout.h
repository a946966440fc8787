/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wheels of both kinds as a parameter of tests: hashed wheels, and hierarchies up to the end of
 * the clock.
 */
#ifndef _TWHEEL_KUNIT_LAYOUT_H
#define _TWHEEL_KUNIT_LAYOUT_H

#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "fixture.h"

#define CLOCK_END	((u64)S64_MAX)

/* Hashed wheels first; the hierarchies have all their levels. */
static const struct shape layouts[] = {
	{ 2, 1 }, { 256, 1 }, { 65536, 1 }, { 2, 12 }, { 8, 12 }, { 256, 11 }, { 65536, 9 },
};

KUNIT_ARRAY_PARAM(layout, layouts, shape_desc);

/* The number of boundaries that the clock reaches. */
static inline u32 layout_boundaries(const struct shape *s)
{
	return 9 * (s->levels == 1 ? 9 : s->levels);
}

/*
 * The number of boundaries within 64 revolutions of a hashed wheel. It visits a slot with several
 * timeouts once in each, so tests with such slots go no further.
 */
static inline u32 layout_near(const struct shape *s)
{
	return s->levels == 1 ? 18 : layout_boundaries(s);
}

static inline u64 layout_boundary(const struct shape *s, u32 i)
{
	return min(ref_boundary(s, i), CLOCK_END);
}

/* The same as a distance: at least 1. */
static inline u64 layout_distance(const struct shape *s, u32 i)
{
	return layout_boundary(s, i) ?: 1;
}

/* A wheel with the layout of the test, in place of the one before. */
static inline struct fixture *layout_wheel(struct kunit *test, u64 tick_ns)
{
	const struct shape *s = test->param_value;
	struct fixture *f = test->priv;

	fixture_exit(test);
	f->nr_fired = 0;
	return manual_wheel(test, tick_ns, s->slots, s->levels);
}

#endif /* _TWHEEL_KUNIT_LAYOUT_H */
