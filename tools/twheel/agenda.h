/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The future actions of a thread of the load, in a binary heap. Deliberately no timing wheel:
 * a checker that shares the ideas of the wheel may share its mistakes.
 */
#ifndef TWHEEL_AGENDA_H
#define TWHEEL_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct agenda - actions, the earliest at the top
 * @heap: time of each action, and for the caller the index of a timeout. The caller gives
 *	it room for all actions
 * @nr: number of actions
 */
struct agenda {
	struct agenda_entry {
		uint64_t when;
		uint32_t what;
	} *heap;
	uint32_t nr;
};

static inline void agenda_add(struct agenda *agenda, uint64_t when, uint32_t what)
{
	struct agenda_entry *heap = agenda->heap;
	uint32_t place = agenda->nr++;

	for (; place && heap[(place - 1) / 2].when > when; place = (place - 1) / 2)
		heap[place] = heap[(place - 1) / 2];
	heap[place] = (struct agenda_entry) { .when = when, .what = what };
}

/* Time of the earliest action, UINT64_MAX when there is none. */
static inline uint64_t agenda_next(const struct agenda *agenda)
{
	return agenda->nr ? agenda->heap[0].when : UINT64_MAX;
}

/* Takes out the earliest action if it is due by @now. */
static inline bool agenda_take(struct agenda *agenda, uint64_t now, uint32_t *what)
{
	struct agenda_entry *heap = agenda->heap, last;
	size_t place = 0, child;

	if (!agenda->nr || heap[0].when > now)
		return false;
	*what = heap[0].what;
	last = heap[--agenda->nr];
	while ((child = 2 * place + 1) < agenda->nr) {
		if (child + 1 < agenda->nr && heap[child + 1].when < heap[child].when)
			child++;
		if (heap[child].when >= last.when)
			break;
		heap[place] = heap[child];
		place = child;
	}
	heap[place] = last;
	return true;
}

#endif /* TWHEEL_AGENDA_H */
