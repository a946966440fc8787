// SPDX-License-Identifier: GPL-2.0
/*
 * twheel arm, mod, cancel, get: operations on one timeout of an inherited context.
 *
 * Each is a program of its own, so the context must outlive it: the shell holds it.
 */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "json.h"

/* What the command line says; all four commands take it from here. */
struct request {
	struct twheel_ctx *ctx;
	const char *what;	/* first argument, for complaints */
	uint64_t id;
	uint64_t ns;
	uint64_t cookie;
	bool has_cookie;
	bool as_json;
};

static void take_option(struct request *request, int option, int *fd)
{
	switch (option) {
	case 'f':
		*fd = cli_descriptor(optarg);
		break;
	case 'c':
		request->cookie = cli_number(optarg, "--cookie", 0, UINT64_MAX);
		request->has_cookie = true;
		break;
	case 'j':
		request->as_json = true;
		break;
	}
}

static void take_argument(struct request *request, char kind, const char *text)
{
	if (kind == 'i')
		request->id = cli_number(text, "ID", 1, UINT64_MAX);
	else
		request->ns = cli_duration(text, "DURATION");
}

/* @takes: a letter for each argument, i for an id, d for a duration. */
static int operate(int argc, char **argv, const struct option *options, const char *takes,
		   int (*operation)(const struct request *request))
{
	struct request request = { 0 };
	int nr = strlen(takes);
	int fd = CLI_NO_FD;
	int option, status;
	char **arguments;

	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&request, option, &fd);
	arguments = cli_arguments(argc, argv, nr, nr);
	for (int i = 0; i < nr; i++)
		take_argument(&request, takes[i], arguments[i]);
	request.what = arguments[0];
	cli_need_fd(fd);

	status = cli_context(fd, 0, &request.ctx);
	if (status)
		return status;
	status = operation(&request);
	twheel_close(request.ctx);
	return status;
}

static int outcome(const struct request *request, int ret, const char *done)
{
	if (ret < 0)
		return cli_failure(ret, "%s", request->what);
	puts(ret == TWHEEL_WITHDRAWN ? "withdrawn" : done);
	return 0;
}

static int arm(const struct request *request)
{
	uint64_t id;
	int error;

	error = twheel_arm(request->ctx, request->ns, 0, request->cookie, &id);
	if (error < 0)
		return cli_failure(error, "%s", request->what);
	printf("%ju\n", id);
	return 0;
}

/* The device replaces the cookie too; who did not give one wants the old one. */
static int mod(const struct request *request)
{
	struct twheel_op op = { .cookie = request->cookie };
	int ret = 0;

	if (!request->has_cookie)
		ret = twheel_get(request->ctx, request->id, &op);
	if (!ret)
		ret = twheel_mod(request->ctx, request->id, request->ns, 0, op.cookie);
	return outcome(request, ret, "moved");
}

static int cancel(const struct request *request)
{
	return outcome(request, twheel_cancel(request->ctx, request->id), "cancelled");
}

static void print_timeout(const struct twheel_op *op, uint64_t id, bool as_json)
{
	struct json json;

	if (!as_json) {
		printf("id=%ju cookie=%ju remaining=%s\n", id,
		       (uint64_t)op->cookie, duration_text(op->expires_ns).s);
		return;
	}
	json_begin(&json);
	json_id(&json, "id", id);
	json_number(&json, "cookie", op->cookie);
	json_number(&json, "remaining_ns", op->expires_ns);
	json_end(&json);
}

static int get(const struct request *request)
{
	struct twheel_op op;
	int error = twheel_get(request->ctx, request->id, &op);

	if (error < 0)
		return cli_failure(error, "%s", request->what);
	print_timeout(&op, request->id, request->as_json);
	return 0;
}

static int arm_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_COOKIE, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "d", arm);
}

static int mod_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_COOKIE, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "id", mod);
}

static int cancel_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "i", cancel);
}

static int get_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_JSON, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "i", get);
}

#define FD_HELP	"  --fd N      the context behind descriptor N (exec 3<>" TWHEEL_DEVICE ")\n"

const struct command arm_command = {
	.name = "arm",
	.usage = "DURATION [--cookie N] --fd N",
	.summary = "Arm a timeout and print its id",
	.help =
		FD_HELP
		"  --cookie N  comes back in the event; 0 if not given\n"
		"\n"
		"The id stands for this timeout in this context until its event is read or it is\n"
		"cancelled; it is never used again.\n",
	.run = arm_run,
};

const struct command mod_command = {
	.name = "mod",
	.usage = "ID DURATION [--cookie N] --fd N",
	.summary = "Give a timeout a new deadline, DURATION from now",
	.help =
		FD_HELP
		"  --cookie N  a new cookie; if not given it keeps the one it has\n"
		"\n"
		"Prints 'moved' when it was pending, 'withdrawn' when it had fired and its event\n"
		"was still unread: that event will not be read any more. Exit status 1 when there\n"
		"is no such timeout, or its event was read.\n",
	.run = mod_run,
};

const struct command cancel_command = {
	.name = "cancel",
	.usage = "ID --fd N",
	.summary = "Cancel a timeout",
	.help =
		FD_HELP
		"\n"
		"Prints 'cancelled' when it was pending, 'withdrawn' when it had fired and its\n"
		"event was still unread: that event will not be read any more. Exit status 1 when\n"
		"there is no such timeout, or its event was read.\n",
	.run = cancel_run,
};

const struct command get_command = {
	.name = "get",
	.usage = "ID [--json] --fd N",
	.summary = "Show what remains of a timeout, and its cookie",
	.help =
		FD_HELP
		"  --json      one JSON object, times in nanoseconds\n"
		"\n"
		"remaining is 0 when the event waits to be read. Exit status 1 when there is no\n"
		"such timeout, or its event was read.\n",
	.run = get_run,
};
