// SPDX-License-Identifier: GPL-2.0
/*
 * twheel stat: the counters of a context, and of the wheel.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "json.h"
#include "stat.h"

#define ATTRIBUTES		"/sys/class/misc/twheel/"
#define WIDE(name, help)	{ #name, help, offsetof(struct twheel_stats, name), 8 }
#define NARROW(name, help)	{ #name, help, offsetof(struct twheel_stats, name), 4 }

/* The counters of a context. The narrow ones go up and down. */
static const struct counter {
	const char *name;
	const char *help;
	size_t offset;
	size_t size;
} counters[] = {
	WIDE(armed, "Timeouts armed."),
	WIDE(moved, "Deadlines moved."),
	WIDE(cancelled, "Timeouts cancelled while pending."),
	WIDE(withdrawn, "Timeouts cancelled while their event was unread."),
	WIDE(ended, "Timeouts that ended by their last event."),
	WIDE(fired, "Expirations."),
	WIDE(looks, "Looks of the kernel at cells because of the time."),
	WIDE(kicks, "Looks of the kernel at cells because of a call."),
	WIDE(dropped, "Events of cells that were withdrawn without a call."),
	WIDE(unprocessed, "Timeouts that a stop handed back."),
	WIDE(read, "Events read."),
	NARROW(live, "Timeouts that are pending or have an unread event, and all cells."),
	NARROW(ready, "Unread events."),
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

/* How to print a sample as text. */
struct view {
	const struct sample *now;
	const struct sample *before;	/* rates are the difference, NULL: none are printed */
	int lines;			/* that may still be printed */
};

#define GAUGE	(-1)

/* @gain: the increase since the sample before; GAUGE: the value goes up and down. */
static void text_number(struct view *view, const char *name, uint64_t value, int64_t gain,
			const char *note)
{
	double seconds = view->before ?
		(double)(view->now->ns - view->before->ns) / NSEC_PER_SEC : 0;

	if (view->lines-- <= 0)
		return;
	printf("%-20s %12ju", name, value);
	if (seconds > 0 && gain == GAUGE)
		printf("%14s", "");
	else if (seconds > 0)
		printf("%12.0f/s", gain / seconds);
	puts(note);
}

/* From the first bucket with something in it to the last. */
static void text_lateness(struct view *view, const __u64 *now, const __u64 *before)
{
	int begin = 0, end = TWHEEL_LATENESS;
	char note[64];

	while (end && !now[end - 1])
		end--;
	while (begin < end && !now[begin])
		begin++;
	for (int i = begin; i < end; i++) {
		bool last = i == TWHEEL_LATENESS - 1;

		snprintf(note, sizeof(note), "  %s %s", last ? "from" : "under",
			 duration_text(UINT64_C(1) << (last ? i - 1 : i)).s);
		text_number(view, "lateness", now[i], now[i] - before[i], note);
	}
}

static void text_context(struct view *view, const struct twheel_stats *now,
			 const struct twheel_stats *before)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		const struct counter *counter = &counters[i];
		uint64_t value = value_of(counter, now);

		text_number(view, counter->name, value, counter->size == sizeof(uint32_t) ? GAUGE :
			    (int64_t)(value - value_of(counter, before)), "");
	}
	text_lateness(view, now->lateness, before->lateness);
}

static void text_wheel(struct view *view, const struct wheel *now, const struct wheel *before)
{
	char name[32], note[64];

	if (view->lines-- > 0)
		printf("%-20s %12s\n", "wheel", now->name);
	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		snprintf(name, sizeof(name), "wheel_%s", wheel_texts[i].name);
		if (wheel_knows(now, i))
			text_number(view, name, now->counter[i], i == WHEEL_PENDING ? GAUGE :
				    (int64_t)(now->counter[i] - before->counter[i]), "");
	}
	for (unsigned int i = 0; i < now->levels; i++) {
		snprintf(note, sizeof(note), "  of %llu in level %u", now->slots[i], i);
		text_number(view, "wheel_occupied", now->occupied[i], GAUGE, note);
	}
}

void sample_print(const struct sample *now, const struct sample *before, bool context, int lines)
{
	struct view view = { .now = now, .before = before, .lines = lines };
	const struct sample *was = before ? before : now;

	if (context)
		text_context(&view, &now->stats, &was->stats);
	if (!now->error)
		text_wheel(&view, &now->wheel, was->error ? &now->wheel : &was->wheel);
}

static void json_context(struct json *json, const struct twheel_stats *stats)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		json_number(json, counters[i].name, value_of(&counters[i], stats));
	json_numbers(json, "lateness", stats->lateness, TWHEEL_LATENESS);
}

static void json_wheel(struct json *json, const struct wheel *wheel)
{
	char key[32];

	json_text(json, "wheel", wheel->name);
	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		snprintf(key, sizeof(key), "wheel_%s", wheel_texts[i].name);
		if (wheel_knows(wheel, i))
			json_number(json, key, wheel->counter[i]);
	}
	json_numbers(json, "wheel_occupied", wheel->occupied, wheel->levels);
	json_numbers(json, "wheel_slots", wheel->slots, wheel->levels);
}

static void prometheus_begin(const char *name, const char *type, const char *help)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Bucket i counts expirations late by less than 2^i ns, which is at most 2^i - 1 ns. */
static void prometheus_lateness(const __u64 *lateness)
{
	static const char name[] = "twheel_context_lateness_seconds";
	uint64_t sum = 0;

	prometheus_begin(name, "histogram", "Time from the deadline to the expiration.");
	for (int i = 0; i < TWHEEL_LATENESS - 1; i++) {
		uint64_t limit = (UINT64_C(1) << i) - 1;

		sum += lateness[i];
		printf("%s_bucket{le=\"%ju.%09ju\"} %ju\n", name, limit / NSEC_PER_SEC,
		       limit % NSEC_PER_SEC, sum);
	}
	sum += lateness[TWHEEL_LATENESS - 1];
	printf("%s_bucket{le=\"+Inf\"} %ju\n%s_count %ju\n", name, sum, name, sum);
}

static void prometheus_context(const struct twheel_stats *stats)
{
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		bool gauge = counters[i].size == sizeof(uint32_t);

		snprintf(name, sizeof(name), "twheel_context_%s%s", counters[i].name,
			 gauge ? "" : "_total");
		prometheus_begin(name, gauge ? "gauge" : "counter", counters[i].help);
		printf("%s %ju\n", name, value_of(&counters[i], stats));
	}
	prometheus_lateness(stats->lateness);
}

static void prometheus_levels(const struct wheel *wheel, const char *name, const char *help,
			      const __u64 *slots)
{
	prometheus_begin(name, "gauge", help);
	for (unsigned int i = 0; i < wheel->levels; i++)
		printf("%s{wheel=\"%s\",level=\"%u\"} %llu\n", name, wheel->name, i, slots[i]);
}

static void prometheus_wheel(const struct wheel *wheel)
{
	char name[64];

	for (int i = 0; i < WHEEL_COUNTERS; i++) {
		bool gauge = i == WHEEL_PENDING;

		if (!wheel_knows(wheel, i))
			continue;
		snprintf(name, sizeof(name), "twheel_wheel_%s%s", wheel_texts[i].name,
			 gauge ? "" : "_total");
		prometheus_begin(name, gauge ? "gauge" : "counter", wheel_texts[i].help);
		printf("%s{wheel=\"%s\"} %ju\n", name, wheel->name, wheel->counter[i]);
	}
	prometheus_levels(wheel, "twheel_wheel_occupied_slots", "Slots that are not empty.",
			  wheel->occupied);
	prometheus_levels(wheel, "twheel_wheel_slots", "Slots.", wheel->slots);
}

/* Print what each user has of the limits, for root. */
static void prometheus_users(void)
{
	static const struct {
		const char *name, *type, *help;
	} metrics[] = {
		{ "contexts", "gauge", "Contexts." },
		{ "timeouts", "gauge", "Timeouts that fit into the memory of the contexts." },
		{ "wheel_bytes", "gauge", "Bytes of private wheels." },
		{ "refused_total", "counter", "Requests refused at max_user_timeouts." },
		{ "all_refused_total", "counter", "Requests refused at max_all_timeouts." },
		{ "wheel_refused_total", "counter", "Requests refused at max_wheel_bytes." },
	};
	FILE *file = fopen("/sys/kernel/debug/twheel_users", "re");
	char *users = NULL, text[64];
	size_t size = 0;
	ssize_t length;

	if (!file) {
		if (geteuid() == 0)
			perror("twheel stat: /sys/kernel/debug/twheel_users");
		return;
	}
	/* All at once: the metrics are of one moment. */
	length = getdelim(&users, &size, '\0', file);
	fclose(file);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		unsigned long long v[1 + ARRAY_SIZE(metrics)];

		snprintf(text, sizeof(text), "twheel_user_%s", metrics[i].name);
		prometheus_begin(text, metrics[i].type, metrics[i].help);
		for (char *at = users; length > 0 && strchr(at, '\n'); at = strchr(at, '\n') + 1) {
			char *field = at;

			for (size_t j = 0; j < ARRAY_SIZE(v); j++)
				v[j] = strtoull(field, &field, 10);
			printf("%s{uid=\"%llu\"} %llu\n", text, v[0], v[1 + i]);
		}
	}
	free(users);
}

/* Print how near the limit of all users is, for the group. Returns false if it cannot be read. */
static bool prometheus_limits(void)
{
	static const char *const limits[] = {
		"max_timeouts", "max_user_timeouts", "max_all_timeouts", "max_wheel_bytes",
	};
	char text[64];

	if (access(ATTRIBUTES "timeouts", R_OK))
		return false;
	prometheus_users();
	prometheus_begin("twheel_timeouts", "gauge", "Those of all users, for max_all_timeouts.");
	printf("twheel_timeouts %s\n", cli_line_of(ATTRIBUTES "timeouts").s);
	prometheus_begin("twheel_limit", "gauge", "Parameters of the module.");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		snprintf(text, sizeof(text), CLI_PARAMETERS "%s", limits[i]);
		printf("twheel_limit{name=\"%s\"} %s\n", limits[i], cli_line_of(text).s);
	}
	return true;
}

static void print(const struct sample *sample, bool context, enum cli_format format)
{
	const struct twheel_stats *stats = context ? &sample->stats : NULL;
	const struct wheel *wheel = sample->error ? NULL : &sample->wheel;
	struct json json;

	switch (format) {
	case CLI_AS_PROMETHEUS:
		if (stats)
			prometheus_context(stats);
		if (wheel)
			prometheus_wheel(wheel);
		break;
	case CLI_AS_JSON:
		json_begin(&json);
		if (stats)
			json_context(&json, stats);
		if (wheel)
			json_wheel(&json, wheel);
		json_end(&json);
		break;
	default:
		sample_print(sample, NULL, context, INT_MAX);
	}
}

int sample_take(struct twheel_ctx *ctx, struct sample *sample)
{
	struct twheel_info info;
	int error;

	error = twheel_get_info(ctx, &info);
	if (!error)
		error = twheel_get_stats(ctx, &sample->stats);
	if (error)
		return cli_failure(error, "statistics");
	sample->error = wheel_read(&sample->wheel, WHEEL_DIRECTORY, &info);
	sample->ns = clock_ns(CLOCK_MONOTONIC);
	return 0;
}

static int print_stats(struct twheel_ctx *ctx, bool given, enum cli_format format)
{
	struct sample sample = { 0 };
	int status = sample_take(ctx, &sample);
	bool limits;

	if (status)
		return status;
	limits = format == CLI_AS_PROMETHEUS && !given && prometheus_limits();
	if (sample.error && !limits)
		status = wheel_complain(sample.error);
	if (sample.error && !given)
		return status;
	print(&sample, given, format);
	return 0;
}

static int stat_run(int argc, char **argv)
{
	return cli_show(argc, argv, CLI_PROMETHEUS, print_stats);
}

const struct command stat_command = {
	.name = "stat",
	.usage = "[--json|--prometheus] [--fd N]",
	.summary = "Show the counters of a context and of its wheel",
	.help =
		"Without --fd it shows the wheel that contexts share by default.\n"
		"\n"
		"  --fd N        the context behind descriptor N, and its wheel\n"
		"  --json        one JSON object\n"
		"  --prometheus  the text format of Prometheus, for the textfile collector, say\n"
		"\n"
		"Root alone can see a wheel, by /sys/kernel/debug/twheel. If that cannot be\n"
		"read, a message on standard error says so, and the context is shown alone.\n"
		"With --prometheus, the group of the device sees how near the limit of all users\n"
		"is, and root what each user has of the limits, and what they have refused.\n"
		"\n"
		"In a context armed = cancelled + withdrawn + ended + live. looks and kicks count\n"
		"how often the kernel examined a cell: at a scheduled time, or for a call.\n"
		"dropped counts the events of cells that were withdrawn without a call.\n"
		"lateness is a histogram of how late expirations were. In JSON it is an array:\n"
		"entry n counts those that were less than 2^n ns late, and not less than half of\n"
		"that. wheel_wakeups counts the timer interrupts that found something to do.\n"
		"wheel_occupied is the number of slots that are not empty, for each level, and\n"
		"wheel_slots that of all slots. Each CPU has slots of its own; these are sums.\n"
		"A wheel of CLOCK_REALTIME has no slots in use: its timeouts are in a tree.\n",
	.run = stat_run,
};
