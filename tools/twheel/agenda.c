// SPDX-License-Identifier: GPL-2.0
/*
 * A binary heap. Deliberately no timing wheel: a checker that shares the ideas of the wheel
 * may share its mistakes.
 */
#include <stdlib.h>

#include "agenda.h"
#include "cli.h"

void agenda_init(struct agenda *agenda, uint32_t room)
{
	agenda->heap = cli_resize(NULL, room, sizeof(*agenda->heap));
	agenda->nr = 0;
}

void agenda_free(struct agenda *agenda)
{
	free(agenda->heap);
}

void agenda_add(struct agenda *agenda, uint64_t when, uint32_t what)
{
	struct agenda_entry *heap = agenda->heap;
	uint32_t place = agenda->nr++;

	while (place && heap[(place - 1) / 2].when > when) {
		heap[place] = heap[(place - 1) / 2];
		place = (place - 1) / 2;
	}
	heap[place] = (struct agenda_entry) { .when = when, .what = what };
}

/* The earlier of the two below @place; a place beyond the end when there is none. */
static size_t earlier_child(const struct agenda *agenda, uint32_t place)
{
	size_t child = 2 * (size_t)place + 1;

	if (child + 1 < agenda->nr && agenda->heap[child + 1].when < agenda->heap[child].when)
		child++;
	return child;
}

static void remove_top(struct agenda *agenda)
{
	struct agenda_entry *heap = agenda->heap;
	struct agenda_entry last = heap[--agenda->nr];
	uint32_t place = 0;
	size_t child;

	for (;;) {
		child = earlier_child(agenda, place);
		if (child >= agenda->nr || heap[child].when >= last.when)
			break;
		heap[place] = heap[child];
		place = child;
	}
	heap[place] = last;
}

bool agenda_take(struct agenda *agenda, uint64_t now, uint32_t *what)
{
	if (agenda_next(agenda) > now || !agenda->nr)
		return false;
	*what = agenda->heap[0].what;
	remove_top(agenda);
	return true;
}

uint64_t agenda_next(const struct agenda *agenda)
{
	return agenda->nr ? agenda->heap[0].when : UINT64_MAX;
}
