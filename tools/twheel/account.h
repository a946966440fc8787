/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The account of a load: the outcome of all its timeouts.
 */
#ifndef TWHEEL_ACCOUNT_H
#define TWHEEL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

/**
 * struct account - counters; armed == cancelled + withdrawn + fired if the device is correct
 * @armed: timeouts armed
 * @rearmed: moves by traffic
 * @revived: moves by traffic that withdrew an unread event
 * @cancelled: timeouts cancelled while pending
 * @withdrawn: timeouts cancelled while their event was unread
 * @fired: timeouts whose event was read
 * @lost: armed timeouts that were neither cancelled nor had an event
 * @duplicate: second and further events of a timeout
 * @ghost: cancelled timeouts that had an event
 * @alien: events with an id or a cookie that was never armed
 * @early: events before their deadline
 * @leaked: timeouts that the device counts at the end; cells that are still armed
 * @pairs: cells cancelled and armed again
 * @kicks: armings of cells that needed a system call
 * @looks: looks of the kernel at a cell because of the time
 * @lateness: from the requested deadline to the time of the expiration
 * @delivery: from the requested deadline to the return of read()
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

/* No counter of a mistake of the device is above 0. */
bool account_clean(const struct account *account);

/* @cells: print the counters of cells, too. */
void account_print(const struct account *account, bool cells);

struct json;

/* Members of an object that the caller begins and ends. */
void account_json(const struct account *account, struct json *json);

#endif /* TWHEEL_ACCOUNT_H */
