// SPDX-License-Identifier: GPL-2.0
/*
 * twheel list: the live timeouts of an inherited context, one a line.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "json.h"
#include "list.h"

#define ROOM	256

static const char *state_name(const struct twheel_list_entry *entry)
{
	switch (entry->state) {
	case TWHEEL_STATE_READY:
		return "ready";
	case TWHEEL_STATE_IDLE:
		return "idle";
	default:
		return "pending";
	}
}

static void print_json(const struct twheel_list_entry *entry)
{
	struct json json;

	json_begin(&json);
	json_id(&json, "id", entry->id);
	json_id(&json, "cookie", entry->cookie);
	json_text(&json, "state", state_name(entry));
	if (entry->state != TWHEEL_STATE_IDLE)
		json_number(&json, "remaining_ns", entry->remaining_ns);
	json_number(&json, "interval_ns", entry->interval_ns);
	json_number(&json, "repeat", entry->repeat);
	json_number(&json, "slack_ns", entry->slack_us * NSEC_PER_USEC);
	json_bool(&json, "fixed_delay", entry->flags & TWHEEL_F_FIXED_DELAY);
	json_bool(&json, "cell", entry->flags & TWHEEL_F_CELL);
	json_end(&json);
}

static void print_text(const struct twheel_list_entry *entry)
{
	printf("id=%ju cookie=%ju %s", (uint64_t)entry->id, (uint64_t)entry->cookie,
	       state_name(entry));
	if (entry->state != TWHEEL_STATE_IDLE)
		printf(" remaining=%s", duration_text(entry->remaining_ns).s);
	if (entry->interval_ns)
		printf(" every=%s", duration_text(entry->interval_ns).s);
	if (entry->repeat)
		printf(" repeat=%u", entry->repeat);
	if (entry->slack_us)
		printf(" slack=%s", duration_text(entry->slack_us * NSEC_PER_USEC).s);
	if (entry->flags & TWHEEL_F_FIXED_DELAY)
		printf(" fixed-delay");
	if (entry->flags & TWHEEL_F_CELL)
		printf(" cell");
	putchar('\n');
}

void list_print(const struct twheel_list_entry *entry, bool as_json)
{
	if (as_json)
		print_json(entry);
	else
		print_text(entry);
}

/* The low half of an id is the position of its timeout in the list. */
int list_find(struct twheel_ctx *ctx, uint64_t id, struct twheel_list_entry *entry)
{
	uint32_t next = id;
	int nr;

	memset(entry, 0, sizeof(*entry));
	nr = twheel_list_timeouts(ctx, entry, 1, &next);
	return nr < 0 ? nr : entry->id == id ? 0 : -ENOENT;
}

static int list(struct twheel_ctx *ctx, bool given, enum cli_format format)
{
	struct twheel_list_entry entries[ROOM] = { 0 };
	uint32_t next = 0;
	int nr;

	(void)given;
	while ((nr = twheel_list_timeouts(ctx, entries, ROOM, &next))) {
		if (nr < 0)
			return cli_failure(nr, "list");
		for (int i = 0; i < nr; i++)
			list_print(&entries[i], format == CLI_AS_JSON);
	}
	return 0;
}

static int list_run(int argc, char **argv)
{
	return cli_show(argc, argv, CLI_NEED_FD, list);
}

const struct command list_command = {
	.name = "list",
	.usage = "[--json] --fd N",
	.summary = "List the timeouts of a context, one a line",
	.help =
		"  --fd N   the context behind descriptor N (exec 3<>" TWHEEL_DEVICE ")\n"
		"  --json   a JSON object for each, times in nanoseconds\n"
		"\n"
		"The order is undefined. A pending timeout will fire, a ready one has an unread\n"
		"event, and idle is a cell that is not armed. remaining is the time until the\n"
		"deadline, repeat the number of deadlines that have not been read yet:\n"
		"\n"
		"    id=4294967296 cookie=7 pending remaining=412.803ms every=1s repeat=3\n",
	.run = list_run,
};
