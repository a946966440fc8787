// SPDX-License-Identifier: GPL-2.0
/*
 * twheel stat: the counters of a context, and of the wheel.
 *
 * A table says what there is, for text and for JSON alike.
 */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "cli.h"
#include "duration.h"
#include "json.h"

#define WIDE(name, member)	{ name, offsetof(struct twheel_stats, member), 8 }
#define NARROW(name, member)	{ name, offsetof(struct twheel_stats, member), 4 }

static const struct counter {
	const char *name;
	size_t offset;
	size_t size;
} of_context[] = {
	WIDE("armed", armed),
	WIDE("moved", moved),
	WIDE("cancelled", cancelled),
	WIDE("withdrawn", withdrawn),
	WIDE("ended", ended),
	WIDE("fired", fired),
	WIDE("extended", extended),
	WIDE("unprocessed", unprocessed),
	WIDE("read", read),
	NARROW("live", live),
	NARROW("ready", ready),
}, of_wheel[] = {
	NARROW("shards", shards),
	WIDE("wheel_armed", wheel_armed),
	WIDE("wheel_rearmed", wheel_rearmed),
	WIDE("wheel_cancelled", wheel_cancelled),
	WIDE("wheel_fired", wheel_fired),
	WIDE("wheel_extended", wheel_extended),
	WIDE("wheel_pending", wheel_pending),
	WIDE("wheel_cascaded", wheel_cascaded),
	WIDE("wheel_wakeups", wheel_wakeups),
	WIDE("wheel_largest_batch", wheel_largest_batch),
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

static void text_counters(const struct counter *counters, size_t nr,
			  const struct twheel_stats *stats)
{
	for (size_t i = 0; i < nr; i++)
		printf("%-20s %12ju\n", counters[i].name, value_of(&counters[i], stats));
}

/* From the first bucket with something in it to the last. */
static void text_lateness(const char *name, const __u64 *lateness)
{
	int begin = 0, end = TWHEEL_LATENESS;

	while (end && !lateness[end - 1])
		end--;
	while (begin < end && !lateness[begin])
		begin++;
	for (int i = begin; i < end; i++) {
		bool last = i == TWHEEL_LATENESS - 1;
		struct duration_text text = duration_text(UINT64_C(1) << (last ? i - 1 : i));

		printf("%-20s %12ju  %s %s\n", name, (uint64_t)lateness[i],
		       last ? "from" : "under", text.s);
	}
}

static void print_text(const struct twheel_stats *stats, const struct twheel_info *info,
		       bool has_context)
{
	if (has_context) {
		text_counters(of_context, ARRAY_SIZE(of_context), stats);
		text_lateness("lateness", stats->lateness);
	}
	if (!(stats->flags & TWHEEL_STATS_WHEEL))
		return;
	text_counters(of_wheel, ARRAY_SIZE(of_wheel), stats);
	for (unsigned int i = 0; i < info->levels && i < TWHEEL_LEVELS; i++)
		printf("%-20s %12u  of %ju in level %u\n", "wheel_occupied",
		       stats->wheel_occupied[i], (uint64_t)info->slots * stats->shards, i);
	text_lateness("wheel_lateness", stats->wheel_lateness);
}

static void json_counters(struct json *json, const struct counter *counters, size_t nr,
			  const struct twheel_stats *stats)
{
	for (size_t i = 0; i < nr; i++)
		json_number(json, counters[i].name, value_of(&counters[i], stats));
}

static void json_lateness(struct json *json, const char *name, const __u64 *lateness)
{
	uint64_t values[TWHEEL_LATENESS];

	for (size_t i = 0; i < TWHEEL_LATENESS; i++)
		values[i] = lateness[i];
	json_numbers(json, name, values, TWHEEL_LATENESS);
}

static void json_occupied(struct json *json, const struct twheel_stats *stats,
			  const struct twheel_info *info)
{
	uint64_t values[TWHEEL_LEVELS];
	size_t nr = info->levels < TWHEEL_LEVELS ? info->levels : TWHEEL_LEVELS;

	for (size_t i = 0; i < nr; i++)
		values[i] = stats->wheel_occupied[i];
	json_numbers(json, "wheel_occupied", values, nr);
}

static void print_json(const struct twheel_stats *stats, const struct twheel_info *info,
		       bool has_context)
{
	struct json json;

	json_begin(&json);
	if (has_context) {
		json_counters(&json, of_context, ARRAY_SIZE(of_context), stats);
		json_lateness(&json, "lateness", stats->lateness);
	}
	if (stats->flags & TWHEEL_STATS_WHEEL) {
		json_counters(&json, of_wheel, ARRAY_SIZE(of_wheel), stats);
		json_occupied(&json, stats, info);
		json_lateness(&json, "wheel_lateness", stats->wheel_lateness);
	}
	json_end(&json);
}

static int print_stats(struct twheel_ctx *ctx, bool given, bool as_json)
{
	struct twheel_stats stats;
	struct twheel_info info;
	int error = twheel_info(ctx, &info);

	if (!error)
		error = twheel_stats(ctx, &stats);
	if (error)
		return cli_failure(error, "stat");
	if (!given && !(stats.flags & TWHEEL_STATS_WHEEL)) {
		cli_error("the wheel is shown to CAP_SYS_ADMIN only, a context by --fd N");
		return EX_NOPERM;
	}
	if (as_json)
		print_json(&stats, &info, given);
	else
		print_text(&stats, &info, given);
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
		"Without --fd it shows the wheel that contexts share by default, to root\n"
		"(CAP_SYS_ADMIN).\n"
		"\n"
		"  --fd N   the context behind descriptor N, and its wheel if that is its own, or\n"
		"           to root\n"
		"  --json   one JSON object\n"
		"\n"
		"Of a context: armed = cancelled + withdrawn + ended + live. lateness says how\n"
		"many expirations were how late; in JSON it is an array: entry n counts those\n"
		"that were less than 2^n ns late, and not less than half of that. wheel_lateness\n"
		"is counted while /sys/module/twheel/parameters/lateness is on; wheel_occupied\n"
		"are the slots with something in them, by level.\n",
	.run = stat_run,
};
