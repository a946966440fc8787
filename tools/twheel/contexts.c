// SPDX-License-Identifier: GPL-2.0
/*
 * twheel contexts: the processes that hold contexts, one descriptor a line.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "holders.h"
#include "json.h"

static void print_json(const struct holder *holder, bool ambiguous)
{
	struct json json;

	json_begin(&json);
	if (!ambiguous)
		json_number(&json, "context", holder->context);
	json_number(&json, "pid", holder->pid);
	json_text(&json, "command", holder->command);
	json_number(&json, "fd", holder->fd);
	json_word(&json, "clock", clock_name(holder->value[HOLDER_CLOCKID]));
	json_number(&json, "tick_ns", holder->value[HOLDER_TICK_NS]);
	json_number(&json, "max_timeouts", holder->value[HOLDER_MAX_TIMEOUTS]);
	json_number(&json, "live", holder->value[HOLDER_LIVE]);
	json_number(&json, "ready", holder->value[HOLDER_READY]);
	json_number(&json, "cells", holder->value[HOLDER_CELLS]);
	json_end(&json);
}

/* The values are those of the context: they stand with its first descriptor alone. */
static void print_text(const struct holder *holder, bool first, bool ambiguous)
{
	if (ambiguous)
		printf("%7s", "?");
	else
		printf("%7u", holder->context);
	printf(" %7d %4d  ", holder->pid, holder->fd);
	if (!first) {
		puts(holder->command);
		return;
	}
	printf("%-15s  %-9s %7ju %7ju %7ju\n", holder->command,
	       clock_name(holder->value[HOLDER_CLOCKID]), holder->value[HOLDER_LIVE],
	       holder->value[HOLDER_READY], holder->value[HOLDER_CELLS]);
}

static void print(const struct holders *holders, bool as_json)
{
	unsigned int context = 0;

	if (!as_json && holders->nr)
		printf("%7s %7s %4s  %-15s  %-9s %7s %7s %7s\n", "context", "pid", "fd",
		       "command", "clock", "live", "ready", "cells");
	for (size_t i = 0; i < holders->nr; i++) {
		const struct holder *holder = &holders->holder[i];

		if (as_json)
			print_json(holder, holders->ambiguous);
		else
			print_text(holder, holder->context != context, holders->ambiguous);
		context = holder->context;
	}
	if (holders->hidden)
		cli_error("note: %u process%s not shown: only root may examine %s",
			  holders->hidden, holders->hidden == 1 ? " is" : "es are",
			  holders->hidden == 1 ? "it" : "them");
	if (holders->ambiguous)
		cli_error("note: this kernel does not tell which descriptors share a context");
}

static int contexts_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_JSON, CLI_HELP, CLI_END };
	struct holders holders;
	bool as_json = false;
	int error;

	while (cli_option(argc, argv, options) >= 0)
		as_json = true;
	cli_arguments(argc, argv, 0, 0);

	error = holders_find(&holders, HOLDERS_PROC, TWHEEL_DEVICE, getpid());
	if (!error)
		print(&holders, as_json);
	holders_free(&holders);
	return error ? cli_no_device(error) : 0;
}

const struct command contexts_command = {
	.name = "contexts",
	.usage = "[--json]",
	.summary = "List the processes that hold contexts",
	.help =
		"  --json   a JSON object for each descriptor, times in nanoseconds\n"
		"\n"
		"One line for each descriptor of " TWHEEL_DEVICE ". Descriptors with the same\n"
		"number in the first column are the same context, by dup(), fork() or a socket;\n"
		"its values stand in the first of these lines. live counts the timeouts that are\n"
		"pending or have an unread event, and all cells; ready counts the unread events.\n"
		"\n"
		"The values are those of /proc/PID/fdinfo. Root sees all processes, others see\n"
		"their own; a note counts the rest. A context without a descriptor, held by a\n"
		"mapping of its cells or on its way through a socket, is not listed.\n",
	.run = contexts_run,
};
