/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Models for proofs of a search for occupied slots: one slot is followed, and all others are
 * full or empty as the solver likes.
 */
#ifndef _TWHEEL_SEARCH_H
#define _TWHEEL_SEARCH_H

#include "engine.h"

/* Slots are told apart by their addresses. */
struct twheel_slot {
	char			unused;
};

static u32 followed_index;

/* The bits set are any, but that of the slot followed is one of them. */
static u32 find_next_bit(const unsigned long *map, u32 size, u32 start)
{
	u32 i = any_u32(start < size ? start : size, size);

	if (followed_index >= start && followed_index < size)
		ASSUME(i <= followed_index);
	return i;
}

#endif /* _TWHEEL_SEARCH_H */
