// SPDX-License-Identifier: GPL-2.0
/*
 * twheel info: the clock, the geometry, the limits and the contents of a context.
 */
#include <stdio.h>

#include "cli.h"
#include "duration.h"
#include "json.h"

static void print_json(const struct twheel_info *info)
{
	struct json json;

	json_begin(&json);
	if (!(info->flags & TWHEEL_INFO_PROCESS))
		json_text(&json, "module", cli_line_of(CLI_MODULE "version").s);
	json_text(&json, "clock", clock_name(info->clock));
	json_number(&json, "tick_ns", info->tick_ns);
	json_number(&json, "slack_ns", info->slack_us * NSEC_PER_USEC);
	json_number(&json, "slots", info->slots);
	json_number(&json, "levels", info->levels);
	json_number(&json, "max_timeouts", info->max_timeouts);
	json_number(&json, "live", info->live);
	json_number(&json, "ready", info->ready);
	json_number(&json, "refused", info->refused);
	json_number(&json, "user_timeouts", info->user_timeouts);
	json_number(&json, "max_user_timeouts", info->max_user_timeouts);
	json_number(&json, "user_refused", info->user_refused);
	json_number(&json, "all_refused", info->all_refused);
	json_number(&json, "wheel_bytes", info->wheel_bytes);
	json_number(&json, "max_wheel_bytes", info->max_wheel_bytes);
	json_number(&json, "wheel_refused", info->wheel_refused);
	json_number(&json, "opcodes", info->opcodes);
	json_number(&json, "op_flags", info->op_flags);
	json_number(&json, "setup_flags", info->setup_flags);
	json_bool(&json, "cells", info->op_flags & TWHEEL_F_CELL);
	json_bool(&json, "uring", info->flags & TWHEEL_INFO_URING);
	json_bool(&json, "process", info->flags & TWHEEL_INFO_PROCESS);
	json_bool(&json, "private", info->flags & TWHEEL_INFO_PRIVATE);
	json_bool(&json, "stopped", info->flags & TWHEEL_INFO_STOPPED);
	json_end(&json);
}

static void print_text(const struct twheel_info *info)
{
	if (!(info->flags & TWHEEL_INFO_PROCESS))
		printf("module        %s\n", cli_line_of(CLI_MODULE "version").s);
	printf("clock         %s\n", clock_name(info->clock));
	printf("tick          %s\n", duration_text(info->tick_ns).s);
	printf("slack         %s\n", duration_text(info->slack_us * NSEC_PER_USEC).s);
	printf("slots         %u\n", info->slots);
	printf("levels        %u\n", info->levels);
	printf("max timeouts  %u\n", info->max_timeouts);
	printf("live          %u\n", info->live);
	printf("ready         %u\n", info->ready);
	printf("refused       %llu\n", info->refused);
	if (!(info->flags & TWHEEL_INFO_PROCESS)) {
		printf("user          %u of %u timeouts, %llu refused\n", info->user_timeouts,
		       info->max_user_timeouts, info->user_refused);
		printf("all users     %llu refused\n", info->all_refused);
		printf("user wheels   %llu of %llu bytes, %llu refused\n", info->wheel_bytes,
		       info->max_wheel_bytes, info->wheel_refused);
	}
	printf("cells         %s\n", info->op_flags & TWHEEL_F_CELL ? "yes" : "no");
	printf("wheel         %s\n", info->flags & TWHEEL_INFO_PROCESS ? "in the process" :
	       info->flags & TWHEEL_INFO_PRIVATE ? "its own" : "shared");
	if (info->flags & TWHEEL_INFO_STOPPED)
		puts("stopped");
}

static int print_info(struct twheel_ctx *ctx, bool given, enum cli_format format)
{
	struct twheel_info info;
	int error = twheel_get_info(ctx, &info);

	(void)given;
	if (error)
		return cli_failure(error, "info");
	if (format == CLI_AS_JSON)
		print_json(&info);
	else
		print_text(&info);
	return 0;
}

static int info_run(int argc, char **argv)
{
	return cli_show(argc, argv, CLI_PROCESS, print_info);
}

const struct command info_command = {
	.name = "info",
	.usage = "[--json] [--fd N]",
	.summary = "Show the clock, the geometry and the limits of a context",
	.help =
		"Without --fd it shows the values of a new context.\n"
		"\n"
		"  --fd N   the context behind descriptor N\n"
		"  --json   one JSON object, times in nanoseconds\n"
		"\n"
		"module is the version of the loaded module. live counts the timeouts that are\n"
		"pending or have an unread event, and all cells; ready counts the unread events.\n"
		"slack is the default slack of a timeout. refused counts the requests that failed\n"
		"at max timeouts. The next lines are of all contexts of the user who opened this\n"
		"one: the timeouts that fit into their memory, the requests that failed at the\n"
		"limit of all users, and the memory of private wheels. cells says whether this\n"
		"kernel has cells. opcodes, op_flags and setup_flags (JSON) are masks of the\n"
		"features of the device, as in <twheel/abi.h>.\n",
	.run = info_run,
};
