/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The queue of future actions of a thread of the load.
 */
#ifndef TWHEEL_AGENDA_H
#define TWHEEL_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct agenda_entry - a future action
 * @when: its time
 * @what: for the caller: index of a timeout
 */
struct agenda_entry {
	uint64_t when;
	uint32_t what;
};

/**
 * struct agenda - entries, the earliest first
 * @heap: binary heap with the earliest entry at the top
 * @nr: entries in it
 */
struct agenda {
	struct agenda_entry *heap;
	uint32_t nr;
};

/* The agenda never holds more than @room entries at once. */
void agenda_init(struct agenda *agenda, uint32_t room);
void agenda_free(struct agenda *agenda);

void agenda_add(struct agenda *agenda, uint64_t when, uint32_t what);

/* Takes out the earliest entry if it is due by @now. */
bool agenda_take(struct agenda *agenda, uint64_t now, uint32_t *what);

/* Time of the earliest entry, UINT64_MAX when there is none. */
uint64_t agenda_next(const struct agenda *agenda);

#endif /* TWHEEL_AGENDA_H */
