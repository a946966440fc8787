/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_KUNIT_SHRINK_H
#define _TWHEEL_KUNIT_SHRINK_H

#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "combination.h"

/* Make @p the program @whole without the @nr operations from @from on. */
static inline void copy_without(struct program *p, const struct program *whole, u32 from, u32 nr)
{
	memcpy(p->list, whole->list, from * sizeof(p->list[0]));
	memcpy(p->list + from, whole->list + from + nr,
	       (whole->nr - from - nr) * sizeof(p->list[0]));
	p->nr = whole->nr - nr;
}

/*
 * Leave out parts of @p, which fails, as long as @fails(@data) is true for what remains: large
 * parts first, then smaller and smaller ones.
 */
static inline void shrink_program(struct program *p, bool (*fails)(void *data), void *data)
{
	struct program *whole = vmalloc(sizeof(*whole));
	u32 size, from;

	if (!whole)
		return;
	*whole = *p;
	for (size = max(p->nr / 2, 1U); size; size /= 2) {
		for (from = 0; from + size <= whole->nr;) {
			copy_without(p, whole, from, size);
			if (fails(data))
				*whole = *p;
			else
				from += size;
		}
	}
	*p = *whole;
	vfree(whole);
}

#endif /* _TWHEEL_KUNIT_SHRINK_H */
