// SPDX-License-Identifier: GPL-2.0
/*
 * twheel sleep: sleep(1) on the wheel.
 */
#include <errno.h>
#include <stdio.h>

#include "cli.h"
#include "duration.h"

static uint64_t add_up(char **texts)
{
	uint64_t ns = 0;

	for (; *texts; texts++) {
		if (__builtin_add_overflow(ns, cli_duration(*texts, NULL), &ns) ||
		    ns > DURATION_MAX)
			cli_usage("the sum is longer than 292 years");
	}
	return ns;
}

static int sleep_on(struct twheel_ctx *ctx, uint64_t ns)
{
	struct twheel_event event;
	uint64_t id;
	int ret;

	ret = twheel_arm(ctx, ns, 0, 0, &id);
	if (ret < 0)
		return cli_failure(ret, "arm");
	do {
		ret = twheel_read(ctx, &event, 1, TWHEEL_FOREVER);
	} while (ret == -EINTR);
	return ret < 0 ? cli_failure(ret, "read") : 0;
}

static int sleep_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	struct twheel_ctx *ctx;
	uint64_t ns;
	int status;

	while (cli_option(argc, argv, options) >= 0)
		;
	ns = add_up(cli_arguments(argc, argv, 1, argc));

	status = cli_context(CLI_NO_FD, 0, &ctx);
	if (status)
		return status;
	status = sleep_on(ctx, ns);
	twheel_close(ctx);
	return status;
}

const struct command sleep_command = {
	.name = "sleep",
	.usage = "DURATION...",
	.summary = "Wait on the wheel, like sleep(1)",
	.help =
		"Several durations are added up. A number without a unit is seconds.\n",
	.run = sleep_run,
};
