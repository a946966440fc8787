/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What became of the timeouts of a load.
 */
#ifndef TWHEEL_ACCOUNT_H
#define TWHEEL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

/**
 * struct account - counts; without mistakes of the device
 *	armed == cancelled + withdrawn + fired
 * @armed: timeouts that were armed
 * @rearmed: moves by traffic
 * @revived: of these, how often the unread event of one that had fired was withdrawn
 * @cancelled: cancelled while pending
 * @withdrawn: cancelled while their event was unread
 * @fired: timeouts whose event was read
 * @lost: armed, not cancelled, and no event came
 * @duplicate: events of timeouts that had one already
 * @ghost: cancelled timeouts that had an event all the same
 * @alien: events with an id or a cookie that nobody armed
 * @early: events before their deadline
 * @leaked: timeouts that the device still counted when all was over; of cells, those that
 *	it took for armed
 * @pairs: cells that were cancelled and armed anew
 * @kicks: how often the kernel had to be told of an arming
 * @looks: how often it has looked at a cell because of the time
 * @lateness: from the deadline asked for to the time it fired
 * @delivery: from the deadline asked for to the time read() returned it
 */
struct account {
	uint64_t armed;
	uint64_t rearmed;
	uint64_t revived;
	uint64_t cancelled;
	uint64_t withdrawn;
	uint64_t fired;
	uint64_t lost;
	uint64_t duplicate;
	uint64_t ghost;
	uint64_t alien;
	uint64_t early;
	uint64_t leaked;
	uint64_t pairs;
	uint64_t kicks;
	uint64_t looks;
	struct histogram lateness;
	struct histogram delivery;
};

/* Add all of @from. */
void account_merge(struct account *account, const struct account *from);

/* Nothing happened that must not happen. */
bool account_clean(const struct account *account);

/* @cells: with what there is of cells alone. */
void account_print(const struct account *account, bool cells);

struct json;

/* Members of an object that the caller begins and ends. */
void account_json(const struct account *account, struct json *json);

#endif /* TWHEEL_ACCOUNT_H */
