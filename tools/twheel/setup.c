// SPDX-License-Identifier: GPL-2.0
/*
 * twheel setup: the beginning of an inherited context.
 */
#include <errno.h>

#include "cli.h"
#include "duration.h"

/* Rounded down and limited, as in operations: a smaller slack is never wrong. */
static uint32_t slack_us(uint64_t ns)
{
	uint64_t us = ns / NSEC_PER_USEC;

	return us < UINT32_MAX ? us : UINT32_MAX;
}

static void take_option(struct twheel_setup *setup, int option, int *fd)
{
	switch (option) {
	case 'f':
		*fd = cli_descriptor(optarg);
		break;
	case 'c':
		if (clock_parse(optarg, &setup->clock))
			cli_usage("--clock: '%s' is not a clock: monotonic, boottime or realtime",
				  optarg);
		setup->flags |= TWHEEL_SETUP_CLOCK;
		break;
	case 't':
		setup->tick_ns = cli_duration(optarg, "--tick");
		if (!setup->tick_ns)
			cli_usage("--tick: a tick must be longer than 0");
		break;
	case 's':
		setup->slots = cli_number(optarg, "--slots", 2, 65536);
		break;
	case 'l':
		setup->levels = cli_number(optarg, "--levels", 1, UINT32_MAX);
		break;
	case 'S':
		setup->slack_us = slack_us(cli_duration(optarg, "--slack"));
		break;
	case 'm':
		setup->max_timeouts = cli_number(optarg, "--max", 1, UINT32_MAX);
		break;
	}
}

static int setup_context(struct twheel_ctx *ctx, const struct twheel_setup *setup)
{
	int error = twheel_configure(ctx, setup);
	struct twheel_info info = { 0 };

	switch (error) {
	case 0:
		return 0;
	case -EBUSY:
		cli_error("the context was set up before, or has been used");
		return EX_UNMET;
	case -EPERM:
		cli_error("values outside the limits need CAP_SYS_RESOURCE");
		return EX_NOPERM;
	case -EAGAIN:
		twheel_get_info(ctx, &info);
		cli_error("the wheels of this user have %llu bytes of %llu (max_wheel_bytes)",
			  info.wheel_bytes, info.max_wheel_bytes);
		return EX_TEMPFAIL;
	default:
		return cli_failure(error, "setup");
	}
}

static int setup_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "clock", required_argument, NULL, 'c' },
		{ "tick", required_argument, NULL, 't' },
		{ "slots", required_argument, NULL, 's' },
		{ "levels", required_argument, NULL, 'l' },
		{ "slack", required_argument, NULL, 'S' },
		{ "max", required_argument, NULL, 'm' },
		CLI_FD, CLI_HELP, CLI_END
	};
	struct twheel_setup setup = { 0 };
	struct twheel_ctx *ctx;
	int fd = CLI_NO_FD;
	int option, status;

	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&setup, option, &fd);
	cli_arguments(argc, argv, 0, 0);
	cli_need_fd(fd);

	status = cli_context(fd, 0, &ctx);
	if (status)
		return status;
	status = setup_context(ctx, &setup);
	twheel_close(ctx);
	return status;
}

const struct command setup_command = {
	.name = "setup",
	.usage = "[--clock NAME] [--tick DURATION] [--slots N] [--levels N]\n"
		 "       [--slack DURATION] [--max N] --fd N",
	.summary = "Choose clock, geometry, slack and limit of a new context",
	.help =
		"  --fd N            the context behind descriptor N (exec 3<>" TWHEEL_DEVICE ")\n"
		"  --clock NAME      monotonic, boottime or realtime (arm needs --abs then)\n"
		"  --tick DURATION   length of a tick\n"
		"  --slots N         slots of the first level, 2 to 65536, rounded up to a power\n"
		"                    of two\n"
		"  --levels N        1: a hashed wheel, for CAP_SYS_RESOURCE; any other number: a\n"
		"                    hierarchy of levels without a limit in time\n"
		"  --slack DURATION  default slack: a timeout may fire that much later, to\n"
		"                    share the wakeup of others\n"
		"  --max N           limit of live timeouts\n"
		"\n"
		"With another tick, slots or levels than the defaults the context gets a wheel\n"
		"of its own. Slots and levels are advice; 'twheel info' shows those of the\n"
		"wheel. setup works once, and before the first timeout: later its exit status is\n"
		"1.\n",
	.run = setup_run,
};
