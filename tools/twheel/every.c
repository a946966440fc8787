// SPDX-License-Identifier: GPL-2.0
/*
 * twheel sleep, after, every: wait for a timeout, and run a command when it expires.
 *
 * The command does not inherit the context. `after` becomes the command, so signals and the
 * exit status are the command's own. `every` waits for the end of a run. The wheel counts
 * the deadlines that pass meanwhile in one event, and they make one run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* Exit status of a shell for a command that it cannot run, and after a signal. */
#define EX_CANNOT_RUN	126
#define EX_NOT_FOUND	127
#define EX_SIGNAL	128

struct schedule {
	uint64_t ns;
	uint64_t left;		/* further runs */
	bool periodic;
	char **command;		/* NULL: just wait */
};

static int cannot_run(char **command, int error)
{
	cli_error("%s: %s", command[0], strerror(error));
	return error == ENOENT ? EX_NOT_FOUND : EX_CANNOT_RUN;
}

/* Puts the exit status, as a shell reports it, into *@last. Returns 0 or EX_*. */
static int run_and_wait(char **command, int *last)
{
	int status, error;
	pid_t pid;

	error = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
	if (error)
		return cannot_run(command, error);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return cli_failure(-errno, "%s", command[0]);
	}
	*last = WIFEXITED(status) ? WEXITSTATUS(status) : EX_SIGNAL + WTERMSIG(status);
	return 0;
}

static int wait_for_event(struct twheel_ctx *ctx)
{
	struct twheel_event event;
	int ret;

	do {
		ret = twheel_read(ctx, &event, 1, TWHEEL_FOREVER);
	} while (ret == -EINTR);
	return ret < 0 ? cli_failure(ret, "read") : 0;
}

static int arm(struct twheel_ctx *ctx, const struct schedule *schedule)
{
	struct twheel_op op;
	int error;

	twheel_prep_arm(&op, schedule->ns, 0, 0);
	if (schedule->periodic)
		twheel_prep_interval(&op, schedule->ns, 0);
	error = twheel_operate(ctx, &op);
	return error < 0 ? cli_failure(error, "arm") : 0;
}

static int repeat(struct twheel_ctx *ctx, const struct schedule *schedule)
{
	uint64_t left = schedule->left;
	int status, last = 0;

	while (left--) {
		status = wait_for_event(ctx);
		if (!status)
			status = run_and_wait(schedule->command, &last);
		if (status)
			return status;
	}
	return last;
}

static int exec_command(struct twheel_ctx *ctx, const struct schedule *schedule)
{
	int status = wait_for_event(ctx);

	if (status || !schedule->command)
		return status;
	execvp(schedule->command[0], schedule->command);
	return cannot_run(schedule->command, errno);
}

static int run_schedule(const struct schedule *schedule)
{
	struct twheel_ctx *ctx;
	int status;

	status = cli_context(CLI_NO_FD, 0, &ctx);
	if (status)
		return status;
	status = arm(ctx, schedule);
	if (!status)
		status = schedule->periodic ? repeat(ctx, schedule) : exec_command(ctx, schedule);
	twheel_close(ctx);
	return status;
}

/* Options may stand before DURATION and behind it. From COMMAND on they are its own. */
static void take_arguments(struct schedule *schedule, int argc, char **argv,
			   const struct option *options)
{
	const char *duration = NULL;

	for (;;) {
		while (cli_option(argc, argv, options) >= 0)
			schedule->left = cli_number(optarg, "--count", 1, UINT64_MAX);
		if (duration || optind == argc)
			break;
		duration = argv[optind++];
	}
	schedule->command = cli_arguments(argc, argv, duration ? 1 : 2, argc);
	schedule->ns = cli_duration(duration, NULL);
}

static int sleep_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	struct schedule schedule = { 0 };

	while (cli_option(argc, argv, options) >= 0)
		;
	schedule.ns = cli_duration(cli_arguments(argc, argv, 1, 1)[0], NULL);
	return run_schedule(&schedule);
}

static int after_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	struct schedule schedule = { .left = 1 };

	take_arguments(&schedule, argc, argv, options);
	return run_schedule(&schedule);
}

static int every_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		CLI_HELP, CLI_END
	};
	struct schedule schedule = { .periodic = true, .left = UINT64_MAX };

	take_arguments(&schedule, argc, argv, options);
	if (!schedule.ns)
		cli_usage("the interval must be longer than 0");
	/* An inherited SIG_IGN would make waitpid() fail. */
	signal(SIGCHLD, SIG_DFL);
	return run_schedule(&schedule);
}

const struct command sleep_command = {
	.name = "sleep",
	.usage = "DURATION",
	.summary = "Wait on the wheel",
	.help =
		"As with sleep(1), a number without a unit is seconds.\n",
	.run = sleep_run,
};

const struct command after_command = {
	.name = "after",
	.usage = "DURATION COMMAND [ARGUMENT]...",
	.summary = "Run a command after some time",
	.help =
		"Becomes COMMAND: the exit status is that of COMMAND, or 126 if it cannot be run\n"
		"and 127 if it is not found. Options behind COMMAND are its own.\n"
		"\n"
		"    twheel after 5s echo done\n",
	.run = after_run,
	.ends_at_command = true,
};

const struct command every_command = {
	.name = "every",
	.usage = "DURATION [--count N] COMMAND [ARGUMENT]...",
	.summary = "Run a command again and again",
	.help =
		"  --count N   end after N runs; without it, at Ctrl-C\n"
		"\n"
		"The first run is DURATION from now, the others at whole multiples of it after\n"
		"that: the pace does not drift. Runs do not overlap: the deadlines that pass\n"
		"while COMMAND runs make one run after it. Options behind COMMAND are its own.\n"
		"\n"
		"The exit status is that of the last run. It ends at once if COMMAND cannot be\n"
		"run (126) or is not found (127).\n"
		"\n"
		"    twheel every 1s ls -l\n"
		"    twheel every 1s --count 10 date\n",
	.run = every_run,
	.ends_at_command = true,
};
