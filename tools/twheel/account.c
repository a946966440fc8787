// SPDX-License-Identifier: GPL-2.0
/*
 * The account of a load: adding it up, judging and printing it.
 */
#include <stddef.h>
#include <stdio.h>

#include "account.h"
#include "array.h"
#include "duration.h"
#include "json.h"

/* All counters in the order in which they are printed. */
static const struct counter {
	const char *name;
	size_t offset;
	bool mistake;
	bool of_cells;
} counters[] = {
	{ "armed", offsetof(struct account, armed), false, false },
	{ "rearmed", offsetof(struct account, rearmed), false, false },
	{ "revived", offsetof(struct account, revived), false, false },
	{ "cancelled", offsetof(struct account, cancelled), false, false },
	{ "withdrawn", offsetof(struct account, withdrawn), false, false },
	{ "fired", offsetof(struct account, fired), false, false },
	{ "lost", offsetof(struct account, lost), true, false },
	{ "duplicate", offsetof(struct account, duplicate), true, false },
	{ "ghost", offsetof(struct account, ghost), true, false },
	{ "alien", offsetof(struct account, alien), true, false },
	{ "early", offsetof(struct account, early), true, false },
	{ "leaked", offsetof(struct account, leaked), true, false },
	{ "pairs", offsetof(struct account, pairs), false, true },
	{ "kicks", offsetof(struct account, kicks), false, true },
	{ "looks", offsetof(struct account, looks), false, true },
};

static uint64_t value_of(const struct account *account, const struct counter *counter)
{
	return *(const uint64_t *)((const char *)account + counter->offset);
}

void account_merge(struct account *account, const struct account *from)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		*(uint64_t *)((char *)account + counters[i].offset) +=
			value_of(from, &counters[i]);
	histogram_merge(&account->lateness, &from->lateness);
	histogram_merge(&account->delivery, &from->delivery);
}

bool account_clean(const struct account *account)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		if (counters[i].mistake && value_of(account, &counters[i]))
			return false;
	}
	return true;
}

static void print_lateness(const char *name, const struct histogram *histogram)
{
	printf("%-10s p50 %s  p99 %s  max %s\n", name,
	       duration_text(histogram_percentile(histogram, 50)).s,
	       duration_text(histogram_percentile(histogram, 99)).s,
	       duration_text(histogram->max).s);
}

void account_print(const struct account *account, bool cells)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		if (cells || !counters[i].of_cells)
			printf("%-10s %10ju\n", counters[i].name,
			       value_of(account, &counters[i]));
	}
	print_lateness("lateness", &account->lateness);
	print_lateness("delivery", &account->delivery);
}

void account_json(const struct account *account, struct json *json)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		json_number(json, counters[i].name, value_of(account, &counters[i]));
	json_number(json, "lateness_p50_ns", histogram_percentile(&account->lateness, 50));
	json_number(json, "lateness_p99_ns", histogram_percentile(&account->lateness, 99));
	json_number(json, "lateness_max_ns", account->lateness.max);
	json_number(json, "delivery_p50_ns", histogram_percentile(&account->delivery, 50));
	json_number(json, "delivery_p99_ns", histogram_percentile(&account->delivery, 99));
	json_number(json, "delivery_max_ns", account->delivery.max);
}
