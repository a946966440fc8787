// SPDX-License-Identifier: GPL-2.0
/*
 * twheel stat: the counters of a context, and of the wheel.
 */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "cli.h"
#include "duration.h"
#include "json.h"
#include "wheel.h"

#define WIDE(name)	{ #name, offsetof(struct twheel_stats, name), 8 }
#define NARROW(name)	{ #name, offsetof(struct twheel_stats, name), 4 }

/* What a context counts, for text and for JSON alike. */
static const struct counter {
	const char *name;
	size_t offset;
	size_t size;
} counters[] = {
	WIDE(armed),
	WIDE(moved),
	WIDE(cancelled),
	WIDE(withdrawn),
	WIDE(ended),
	WIDE(fired),
	WIDE(looks),
	WIDE(kicks),
	WIDE(dropped),
	WIDE(unprocessed),
	WIDE(read),
	NARROW(live),
	NARROW(ready),
};

static uint64_t value_of(const struct counter *counter, const struct twheel_stats *stats)
{
	const char *value = (const char *)stats + counter->offset;
	uint32_t narrow;
	uint64_t wide;

	if (counter->size == sizeof(narrow)) {
		memcpy(&narrow, value, sizeof(narrow));
		return narrow;
	}
	memcpy(&wide, value, sizeof(wide));
	return wide;
}

static void text_number(const char *name, uint64_t value)
{
	printf("%-20s %12ju\n", name, value);
}

/* From the first bucket with something in it to the last. */
static void text_lateness(const char *name, const uint64_t *lateness)
{
	int begin = 0, end = TWHEEL_LATENESS;

	while (end && !lateness[end - 1])
		end--;
	while (begin < end && !lateness[begin])
		begin++;
	for (int i = begin; i < end; i++) {
		bool last = i == TWHEEL_LATENESS - 1;
		struct duration_text text = duration_text(UINT64_C(1) << (last ? i - 1 : i));

		printf("%-20s %12ju  %s %s\n", name, lateness[i], last ? "from" : "under", text.s);
	}
}

struct counter_name {
	char s[32];
};

static struct counter_name wheel_name(enum wheel_counter counter)
{
	struct counter_name name;

	snprintf(name.s, sizeof(name.s), "wheel_%s", wheel_counter_name(counter));
	return name;
}

static void text_context(const struct twheel_stats *stats, const uint64_t *lateness)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		text_number(counters[i].name, value_of(&counters[i], stats));
	text_lateness("lateness", lateness);
}

static void text_wheel(const struct wheel *wheel)
{
	printf("%-20s %12s\n", "wheel", wheel->name);
	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		if (wheel_knows(wheel, i))
			text_number(wheel_name(i).s, wheel->counter[i]);
	}
	for (unsigned int i = 0; i < wheel->levels; i++)
		printf("%-20s %12ju  of %ju in level %u\n", "wheel_occupied",
		       wheel->level[i].occupied, wheel->level[i].slots, i);
	text_lateness("wheel_lateness", wheel->lateness);
}

static void json_context(struct json *json, const struct twheel_stats *stats,
			 const uint64_t *lateness)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		json_number(json, counters[i].name, value_of(&counters[i], stats));
	json_numbers(json, "lateness", lateness, TWHEEL_LATENESS);
}

static void json_wheel(struct json *json, const struct wheel *wheel)
{
	uint64_t occupied[WHEEL_LEVELS], slots[WHEEL_LEVELS];

	json_word(json, "wheel", wheel->name);
	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		if (wheel_knows(wheel, i))
			json_number(json, wheel_name(i).s, wheel->counter[i]);
	}
	for (unsigned int i = 0; i < wheel->levels; i++) {
		occupied[i] = wheel->level[i].occupied;
		slots[i] = wheel->level[i].slots;
	}
	json_numbers(json, "wheel_occupied", occupied, wheel->levels);
	json_numbers(json, "wheel_slots", slots, wheel->levels);
	json_numbers(json, "wheel_lateness", wheel->lateness, TWHEEL_LATENESS);
}

/* NULL for what is not shown. */
static void print(const struct twheel_stats *stats, const struct wheel *wheel, bool as_json)
{
	uint64_t lateness[TWHEEL_LATENESS];
	struct json json;

	for (int i = 0; stats && i < TWHEEL_LATENESS; i++)
		lateness[i] = stats->lateness[i];
	if (as_json) {
		json_begin(&json);
		if (stats)
			json_context(&json, stats, lateness);
		if (wheel)
			json_wheel(&json, wheel);
		json_end(&json);
		return;
	}
	if (stats)
		text_context(stats, lateness);
	if (wheel)
		text_wheel(wheel);
}

static int print_stats(struct twheel_ctx *ctx, bool given, bool as_json)
{
	struct twheel_stats stats;
	struct twheel_info info;
	struct wheel wheel;
	int error, status = 0;

	error = twheel_info(ctx, &info);
	if (!error)
		error = twheel_stats(ctx, &stats);
	if (error)
		return cli_failure(error, "stat");
	error = wheel_read(&wheel, WHEEL_DIRECTORY, &info);
	if (error)
		status = wheel_complain(error);
	if (error && !given)
		return status;
	print(given ? &stats : NULL, error ? NULL : &wheel, as_json);
	return 0;
}

static int stat_run(int argc, char **argv)
{
	return cli_show(argc, argv, false, print_stats);
}

const struct command stat_command = {
	.name = "stat",
	.usage = "[--json] [--fd N]",
	.summary = "Show what has been counted",
	.help =
		"Without --fd it shows the wheel that contexts share by default.\n"
		"\n"
		"  --fd N   the context behind descriptor N, and its wheel\n"
		"  --json   one JSON object\n"
		"\n"
		"A wheel is shown to root, from /sys/kernel/debug/twheel. Where that cannot be\n"
		"read, a line on standard error says so, and the context is shown alone.\n"
		"\n"
		"Of a context: armed = cancelled + withdrawn + ended + live. looks and kicks count\n"
		"how often the kernel has looked at a cell, because of the time and of a call;\n"
		"dropped the events of cells that were withdrawn without one. lateness says how\n"
		"many expirations were how late; in JSON it is an array: entry n counts those\n"
		"that were less than 2^n ns late, and not less than half of that. wheel_lateness\n"
		"is counted while /sys/module/twheel/parameters/lateness is on; wheel_occupied\n"
		"are the slots with something in them, by level, wheel_slots all slots.\n",
	.run = stat_run,
};
