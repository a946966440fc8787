/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_KUNIT_SHRINK_H
#define _TWHEEL_KUNIT_SHRINK_H

#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "combination.h"

/* Make @p the program @whole without the @nr operations from @from on. */
static inline void leave_out(struct program *p, const struct program *whole, u32 from, u32 nr)
{
	memcpy(p->list, whole->list, from * sizeof(p->list[0]));
	memcpy(p->list + from, whole->list + from + nr,
	       (whole->nr - from - nr) * sizeof(p->list[0]));
	p->nr = whole->nr - nr;
}

/*
 * Leave out each part of @size operations of @p, which fails, without which @fails(@data) still
 * returns true.
 */
static inline void shrink_by(struct program *p, u32 size, bool (*fails)(void *data), void *data)
{
	struct program *whole = vmalloc(sizeof(*whole));
	u32 from = 0;

	if (!whole)
		return;
	*whole = *p;
	while (from + size <= whole->nr) {
		leave_out(p, whole, from, size);
		if (fails(data))
			*whole = *p;
		else
			from += size;
	}
	*p = *whole;
	vfree(whole);
}

/*
 * Shrink programs that fail together. First leave out all operations of each, then smaller and
 * smaller parts.
 */
static inline void shrink_programs(struct program **programs, u32 nr,
				   bool (*fails)(void *data), void *data)
{
	u32 size, i;

	for (size = PROGRAM_MAX; size; size /= 2)
		for (i = 0; i < nr; i++)
			if (programs[i]->nr)
				shrink_by(programs[i], min(size, programs[i]->nr), fails, data);
}

#endif /* _TWHEEL_KUNIT_SHRINK_H */
