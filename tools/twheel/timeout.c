// SPDX-License-Identifier: GPL-2.0
/*
 * twheel arm, mod, touch, cancel, get: operations on timeouts of an inherited context.
 *
 * Each is a program of its own, so the context must outlive it: the shell holds it.
 */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "json.h"

/* What the command line says; all these commands take it from here. */
struct request {
	struct twheel_ctx *ctx;
	const char *what;	/* first argument, for complaints */
	uint64_t id;
	uint64_t ns;
	uint64_t cookie;
	uint64_t interval_ns;
	uint64_t slack_ns;
	uint32_t repeat;
	uint32_t flags;
	bool has_cookie;
	bool has_interval;
	bool all;
	bool as_json;
};

/* Of arm and mod: all that a timeout can be armed with. */
static const struct option arm_options[] = {
	{ "every", required_argument, NULL, 'e' },
	{ "repeat", required_argument, NULL, 'n' },
	{ "fixed-delay", no_argument, NULL, 'd' },
	{ "slack", required_argument, NULL, 's' },
	{ "exact", no_argument, NULL, 'x' },
	{ "touch", no_argument, NULL, 't' },
	{ "abs", no_argument, NULL, 'A' },
	CLI_FD, CLI_COOKIE, CLI_HELP, CLI_END
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
	case 'e':
		request->interval_ns = cli_duration(optarg, "--every");
		request->has_interval = true;
		break;
	case 'n':
		request->repeat = cli_number(optarg, "--repeat", 1, UINT32_MAX);
		break;
	case 'd':
		request->flags |= TWHEEL_F_FIXED_DELAY;
		break;
	case 's':
		request->slack_ns = cli_duration(optarg, "--slack");
		break;
	case 'x':
		request->flags |= TWHEEL_F_EXACT;
		break;
	case 't':
		request->flags |= TWHEEL_F_TOUCH;
		break;
	case 'A':
		request->flags |= TWHEEL_F_ABS;
		break;
	case 'a':
		request->all = true;
		break;
	case 'j':
		request->as_json = true;
		break;
	}
}

static void check_options(const struct request *request)
{
	if (request->has_interval && !request->interval_ns)
		cli_usage("--every: 0 is no interval");
	if (request->repeat && !request->has_interval)
		cli_usage("--repeat needs --every");
	if (request->flags & TWHEEL_F_FIXED_DELAY && !request->has_interval)
		cli_usage("--fixed-delay needs --every");
	if (request->flags & TWHEEL_F_EXACT && request->slack_ns)
		cli_usage("--exact and --slack do not go together");
	if (request->flags & TWHEEL_F_TOUCH && request->has_interval)
		cli_usage("--touch and --every do not go together");
}

static void take_argument(struct request *request, char kind, const char *text)
{
	if (kind == 'i')
		request->id = cli_number(text, "ID", 1, UINT64_MAX);
	else
		request->ns = cli_duration(text, "DURATION");
}

/*
 * @takes: a letter for each argument, i for an id, d for a duration; with --all there
 * is none.
 */
static int operate(int argc, char **argv, const struct option *options, const char *takes,
		   int (*operation)(const struct request *request))
{
	struct request request = { 0 };
	int fd = CLI_NO_FD;
	int option, status, nr;
	char **arguments;

	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&request, option, &fd);
	check_options(&request);
	nr = request.all ? 0 : strlen(takes);
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

static int carry_out(const struct request *request, struct twheel_op *op)
{
	if (request->interval_ns)
		twheel_prep_interval(op, request->interval_ns, request->repeat);
	twheel_prep_slack(op, request->slack_ns);
	return twheel_operate(request->ctx, op);
}

static int arm(const struct request *request)
{
	struct twheel_op op;
	int error;

	twheel_prep_arm(&op, request->ns, request->flags, request->cookie);
	error = carry_out(request, &op);
	if (error < 0)
		return cli_failure(error, "%s", request->what);
	printf("%ju\n", (uint64_t)op.id);
	return 0;
}

/* The device replaces the cookie too; who did not give one wants the old one. */
static int mod(const struct request *request)
{
	struct twheel_op op = { .cookie = request->cookie };
	int ret = 0;

	if (!request->has_cookie)
		ret = twheel_get(request->ctx, request->id, &op);
	if (!ret) {
		twheel_prep_mod(&op, request->id, request->ns, request->flags, op.cookie);
		ret = carry_out(request, &op);
	}
	return outcome(request, ret, "moved");
}

static int touch(const struct request *request)
{
	uint64_t now, then;
	int error;

	twheel_now(request->ctx, &now);
	if (__builtin_add_overflow(now, request->ns, &then) || then > DURATION_MAX)
		then = DURATION_MAX;
	error = twheel_touch(request->ctx, request->id, then);
	if (error)
		return cli_failure(error, "%s", request->what);
	puts("touched");
	return 0;
}

static int cancel_all(const struct request *request)
{
	struct twheel_cancel_all done;
	int error;

	if (request->has_cookie)
		error = twheel_cancel_cookie(request->ctx, request->cookie, &done);
	else
		error = twheel_cancel_all(request->ctx, &done);
	if (error)
		return cli_failure(error, "--all");
	printf("%u cancelled, %u withdrawn\n", done.pending, done.withdrawn);
	return 0;
}

static int cancel(const struct request *request)
{
	if (request->all)
		return cancel_all(request);
	if (request->has_cookie)
		cli_usage("--cookie needs --all");
	return outcome(request, twheel_cancel(request->ctx, request->id), "cancelled");
}

static void print_timeout(const struct twheel_op *op, uint64_t id, bool as_json)
{
	struct json json;

	if (!as_json) {
		printf("id=%ju cookie=%ju remaining=%s", id,
		       (uint64_t)op->cookie, duration_text(op->expires_ns).s);
		if (op->interval_ns)
			printf(" every=%s", duration_text(op->interval_ns).s);
		if (op->repeat)
			printf(" repeat=%u", op->repeat);
		putchar('\n');
		return;
	}
	json_begin(&json);
	json_id(&json, "id", id);
	json_number(&json, "cookie", op->cookie);
	json_number(&json, "remaining_ns", op->expires_ns);
	json_number(&json, "interval_ns", op->interval_ns);
	json_number(&json, "repeat", op->repeat);
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
	return operate(argc, argv, arm_options, "d", arm);
}

static int mod_run(int argc, char **argv)
{
	return operate(argc, argv, arm_options, "id", mod);
}

static int touch_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "id", touch);
}

static int cancel_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		CLI_FD, CLI_COOKIE, CLI_HELP, CLI_END
	};

	return operate(argc, argv, options, "i", cancel);
}

static int get_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_FD, CLI_JSON, CLI_HELP, CLI_END };

	return operate(argc, argv, options, "i", get);
}

#define FD_HELP	"  --fd N            the context behind descriptor N (exec 3<>" TWHEEL_DEVICE ")\n"
#define ARM_USAGE							\
	"[--every DURATION [--repeat N] [--fixed-delay]]\n"		\
	"       [--slack DURATION|--exact] [--touch] [--abs] [--cookie N] --fd N"
#define ARM_HELP							\
	"  --every DURATION  fire again and again, DURATION from one deadline to the next\n" \
	"  --repeat N        N deadlines in all, with those that pass while the event is\n" \
	"                    unread\n"					\
	"  --fixed-delay     count the interval from the read of the event\n" \
	"  --slack DURATION  it may fire that much later, to share the wakeup of others\n" \
	"  --exact           no slack, not that of the context either\n"	\
	"  --touch           let 'twheel touch' extend it\n"		\
	"  --abs             the deadline is a time on the clock of the context, counted\n" \
	"                    from its zero\n"

const struct command arm_command = {
	.name = "arm",
	.usage = "DURATION " ARM_USAGE,
	.summary = "Arm a timeout and print its id",
	.help =
		FD_HELP
		"  --cookie N        comes back in the event; 0 if not given\n"
		ARM_HELP
		"\n"
		"The id stands for this timeout in this context until its last event is read or\n"
		"it is cancelled; it is never used again.\n",
	.run = arm_run,
};

const struct command mod_command = {
	.name = "mod",
	.usage = "ID DURATION " ARM_USAGE,
	.summary = "Give a timeout a new deadline, DURATION from now",
	.help =
		FD_HELP
		"  --cookie N        a new cookie; if not given it keeps the one it has\n"
		ARM_HELP
		"\n"
		"What else it had, interval, slack and touch, it has again only if that is given.\n"
		"\n"
		"Prints 'moved' when it was pending, 'withdrawn' when it had fired and its event\n"
		"was still unread: that event will not be read any more. Exit status 1 when there\n"
		"is no such timeout, or its last event was read.\n",
	.run = mod_run,
};

const struct command touch_command = {
	.name = "touch",
	.usage = "ID DURATION --fd N",
	.summary = "Extend a timeout armed with --touch, to DURATION from now",
	.help =
		FD_HELP
		"\n"
		"Writes the new deadline where the wheel looks when the old one comes due: it can\n"
		"extend a timeout and not bring it forward, and of several the last one holds. A\n"
		"program does this with one store and no system call. When it comes too late the\n"
		"event is read as if nothing had happened. Exit status 1 when there is no such\n"
		"timeout, or its last event was read.\n",
	.run = touch_run,
};

const struct command cancel_command = {
	.name = "cancel",
	.usage = "ID|--all [--cookie N] --fd N",
	.summary = "Cancel a timeout, or all of them",
	.help =
		FD_HELP
		"  --all             all timeouts of the context\n"
		"  --cookie N        with --all: of these, the ones with that cookie\n"
		"\n"
		"Prints 'cancelled' when it was pending, 'withdrawn' when it had fired and its\n"
		"event was still unread: that event will not be read any more; with --all how\n"
		"many there were of either. Exit status 1 when there is no such timeout, or its\n"
		"last event was read; --all finds nothing wrong in an empty context.\n",
	.run = cancel_run,
};

const struct command get_command = {
	.name = "get",
	.usage = "ID [--json] --fd N",
	.summary = "Show what remains of a timeout, and its cookie",
	.help =
		FD_HELP
		"  --json            one JSON object, times in nanoseconds\n"
		"\n"
		"remaining is 0 when the event waits to be read; every is the interval, repeat\n"
		"how many deadlines have not been read yet, if there is an end to them. Exit\n"
		"status 1 when there is no such timeout, or its last event was read.\n",
	.run = get_run,
};
