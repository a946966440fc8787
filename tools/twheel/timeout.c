// SPDX-License-Identifier: GPL-2.0
/*
 * twheel arm, mod, disarm, cancel, get, list, stop: the timeouts of an inherited context.
 *
 * The context must outlive the command, so the shell holds it open.
 *
 * mod and disarm exchange the word of a cell, which is found by its index alone. Another
 * cell may use the index of a cell that has ended. So they check first that the id lives.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "duration.h"
#include "json.h"

/* The command line of any of these commands. */
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
	bool all;
	bool as_json;
};

/* Options of arm, and from the second one on of mod. */
static const struct option arm_options[] = {
	{ "cell", no_argument, NULL, 'C' },
	{ "every", required_argument, NULL, 'e' },
	{ "repeat", required_argument, NULL, 'n' },
	{ "fixed-delay", no_argument, NULL, 'd' },
	{ "slack", required_argument, NULL, 's' },
	{ "exact", no_argument, NULL, 'x' },
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
		if (!request->interval_ns)
			cli_usage("--every: the interval must be longer than 0");
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
	case 'C':
		request->flags |= TWHEEL_F_CELL;
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
	if (request->repeat && !request->interval_ns)
		cli_usage("--repeat needs --every");
	if (request->flags & TWHEEL_F_FIXED_DELAY && !request->interval_ns)
		cli_usage("--fixed-delay needs --every");
	if (request->flags & TWHEEL_F_EXACT && request->slack_ns)
		cli_usage("--exact and --slack do not go together");
	if (request->flags & TWHEEL_F_CELL && request->interval_ns)
		cli_usage("--cell and --every do not go together");
}

static void take_argument(struct request *request, char kind, const char *text)
{
	if (kind == 'i')
		request->id = cli_number(text, "ID", 1, UINT64_MAX);
	else
		request->ns = cli_duration(text, NULL);
}

/*
 * @takes: a letter for each argument, i for an id, d for a duration. With --all there are
 * no arguments.
 */
static int run_with_options(int argc, char **argv, const struct option *options, const char *takes,
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

/* The low half of an id is the position of its timeout in the list. */
static int find_entry(struct twheel_ctx *ctx, uint64_t id, struct twheel_list_entry *entry)
{
	uint32_t next = id;
	int nr;

	memset(entry, 0, sizeof(*entry));
	nr = twheel_list_timeouts(ctx, entry, 1, &next);
	return nr < 0 ? nr : entry->id == id ? 0 : -ENOENT;
}

/* @pending and @idle: printed if the timeout was pending, or a cell that was not armed. */
static int outcome(const struct request *request, int ret, const char *pending, const char *idle)
{
	if (ret < 0)
		return cli_failure(ret, "%s", request->what);
	puts(ret == TWHEEL_WITHDRAWN ? "withdrawn" : ret == TWHEEL_IDLE ? idle : pending);
	return 0;
}

static int run_operation(const struct request *request, struct twheel_op *op)
{
	if (request->interval_ns)
		twheel_prep_interval(op, request->interval_ns, request->repeat);
	twheel_prep_slack(op, request->slack_ns);
	return twheel_operate(request->ctx, op);
}

/* A clock that can be set takes times alone. */
static void check_clock(const struct request *request)
{
	struct twheel_info info = { .clock = CLOCK_MONOTONIC };

	twheel_get_info(request->ctx, &info);
	if (info.clock == CLOCK_REALTIME && !(request->flags & TWHEEL_F_ABS))
		cli_usage("%s: the clock is realtime, which can be set: give a time and --abs",
			  duration_text(request->ns).s);
}

static int arm(const struct request *request)
{
	struct twheel_op op;
	int error;

	check_clock(request);
	twheel_prep_arm(&op, request->ns, request->flags, request->cookie);
	error = run_operation(request, &op);
	if (error < 0)
		return cli_failure(error, "%s", request->what);
	printf("%ju\n", (uint64_t)op.id);
	return 0;
}

static int exchange(const struct request *request)
{
	struct twheel_cell *cell;
	uint64_t then = 0;
	int ret;

	ret = twheel_cell_find(request->ctx, request->id, &cell);
	if (ret)
		return ret;
	if (!(request->flags & TWHEEL_F_ABS))
		twheel_now(request->ctx, &then);
	if (__builtin_add_overflow(then, request->ns, &then) || then > DURATION_MAX)
		then = DURATION_MAX;
	return twheel_cell_arm(request->ctx, cell, request->id, then);
}

/*
 * The device replaces cookie and slack, an exchange neither of them. Without --cookie the old one
 * is kept.
 */
static int mod(const struct request *request)
{
	bool replaces = request->has_cookie || request->slack_ns || request->interval_ns ||
			request->flags & TWHEEL_F_EXACT;
	struct twheel_list_entry old;
	struct twheel_op op;
	int ret;

	check_clock(request);
	ret = find_entry(request->ctx, request->id, &old);
	if (!ret && old.flags & TWHEEL_F_CELL && !replaces) {
		ret = exchange(request);
	} else if (!ret) {
		twheel_prep_mod(&op, request->id, request->ns,
				request->flags | (old.flags & TWHEEL_F_CELL),
				request->has_cookie ? request->cookie : old.cookie);
		ret = run_operation(request, &op);
	}
	return outcome(request, ret, "moved", "armed");
}

/* For a cell that is not armed the answer is no. */
static int disarm(const struct request *request)
{
	struct twheel_list_entry entry;
	struct twheel_cell *cell;
	int ret;

	ret = find_entry(request->ctx, request->id, &entry);
	if (!ret && !(entry.flags & TWHEEL_F_CELL))
		cli_usage("%s is not a cell: use cancel; arm --cell makes cells", request->what);
	if (!ret)
		ret = twheel_cell_find(request->ctx, request->id, &cell);
	if (!ret)
		ret = twheel_cell_cancel(cell);
	if (ret == TWHEEL_IDLE) {
		cli_error("%s: it is not armed", request->what);
		return EX_UNMET;
	}
	return outcome(request, ret, "disarmed", NULL);
}

static int cancel_all(const struct request *request)
{
	struct twheel_cancel_all done;
	int error;

	if (request->has_cookie)
		error = twheel_cancel_cookie(request->ctx, request->cookie, &done);
	else
		error = twheel_cancel_timeouts(request->ctx, &done);
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
	return outcome(request, twheel_cancel(request->ctx, request->id), "cancelled", "idle");
}

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

static void print_entry(const struct twheel_list_entry *entry, bool as_json)
{
	if (as_json)
		print_json(entry);
	else
		print_text(entry);
}

static int get(const struct request *request)
{
	struct twheel_list_entry entry;
	int error = find_entry(request->ctx, request->id, &entry);

	if (error)
		return cli_failure(error, "%s", request->what);
	print_entry(&entry, request->as_json);
	return 0;
}

static int list(const struct request *request)
{
	struct twheel_list_entry entries[256] = { 0 };
	uint32_t next = 0;
	int nr;

	while ((nr = twheel_list_timeouts(request->ctx, entries, ARRAY_SIZE(entries), &next))) {
		if (nr < 0)
			return cli_failure(nr, "list");
		for (int i = 0; i < nr; i++)
			print_entry(&entries[i], request->as_json);
	}
	return 0;
}

static int stop(const struct request *request)
{
	int error = twheel_stop(request->ctx);

	return error ? cli_failure(error, "stop") : 0;
}

static const struct option json_options[] = { CLI_JSON, CLI_FD, CLI_HELP, CLI_END };
static const struct option *const fd_options = json_options + 1;

static int arm_run(int argc, char **argv)
{
	return run_with_options(argc, argv, arm_options, "d", arm);
}

static int mod_run(int argc, char **argv)
{
	return run_with_options(argc, argv, arm_options + 1, "id", mod);
}

static int disarm_run(int argc, char **argv)
{
	return run_with_options(argc, argv, fd_options, "i", disarm);
}

static int cancel_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		CLI_FD, CLI_COOKIE, CLI_HELP, CLI_END
	};

	return run_with_options(argc, argv, options, "i", cancel);
}

static int get_run(int argc, char **argv)
{
	return run_with_options(argc, argv, json_options, "i", get);
}

static int list_run(int argc, char **argv)
{
	return run_with_options(argc, argv, json_options, "", list);
}

static int stop_run(int argc, char **argv)
{
	return run_with_options(argc, argv, fd_options, "", stop);
}

#define FD_HELP	"  --fd N            the context behind descriptor N (exec 3<>" TWHEEL_DEVICE ")\n"
#define ARM_USAGE							\
	"[--every DURATION [--repeat N] [--fixed-delay]]\n"		\
	"       [--slack DURATION|--exact] [--abs] [--cookie N]"
#define ARM_HELP							\
	"  --every DURATION  periodic: DURATION from one deadline to the next\n" \
	"  --repeat N        N deadlines in all, with those that pass while the event is\n" \
	"                    unread\n"					\
	"  --fixed-delay     the interval begins when the event is read\n" \
	"  --slack DURATION  may fire that much later, to share the wakeup of others\n" \
	"  --exact           no slack, not even the default slack of the context\n"	\
	"  --abs             the deadline is a time on the clock of the context, counted\n" \
	"                    from its zero\n"

const struct command arm_command = {
	.name = "arm",
	.usage = "DURATION " ARM_USAGE " [--cell] --fd N",
	.summary = "Arm a timeout and print its id",
	.help =
		FD_HELP
		"  --cookie N        a number that the event will contain (0)\n"
		"  --cell            a cell: 'mod' and 'disarm' exchange its deadline in memory\n"
		ARM_HELP
		"\n"
		"The id is valid in this context until the last event of the timeout is read or\n"
		"the timeout is cancelled, and is never used again. A cell keeps its id until it\n"
		"is cancelled, however often it fires and is armed again.\n",
	.run = arm_run,
};

const struct command mod_command = {
	.name = "mod",
	.usage = "ID DURATION " ARM_USAGE " --fd N",
	.summary = "Give a timeout a new deadline, DURATION from now",
	.help =
		FD_HELP
		"  --cookie N        a new cookie; without it the timeout keeps its cookie\n"
		ARM_HELP
		"\n"
		"The timeout loses its interval and its slack unless they are given again. A\n"
		"cell keeps its slack if only its deadline is given: that is exchanged in memory\n"
		"shared with the kernel, and the kernel is called only if it would look at the\n"
		"cell too late.\n"
		"\n"
		"Prints 'moved' if the timeout was pending, 'withdrawn' if it had fired and the\n"
		"unread event was withdrawn, and 'armed' if it was a cell that was not armed.\n"
		"Exit status 1 if there is no such timeout, or its last event was read.\n",
	.run = mod_run,
};

const struct command disarm_command = {
	.name = "disarm",
	.usage = "ID --fd N",
	.summary = "Cancel the deadline of a cell, but not the cell",
	.help =
		FD_HELP
		"\n"
		"Exchanges the deadline in memory that is shared with the kernel, without a\n"
		"system call. 'twheel mod' arms the cell again, 'twheel cancel' ends it.\n"
		"\n"
		"Prints 'disarmed' if the cell was pending, and 'withdrawn' if it had fired and\n"
		"the unread event was withdrawn. Exit status 1 if the cell was not armed, its\n"
		"event was read, or there is no such cell.\n",
	.run = disarm_run,
};

const struct command cancel_command = {
	.name = "cancel",
	.usage = "ID|--all [--cookie N] --fd N",
	.summary = "Cancel a timeout, or all of them",
	.help =
		FD_HELP
		"  --all             all timeouts of the context\n"
		"  --cookie N        with --all: only timeouts with that cookie\n"
		"\n"
		"Prints 'cancelled' if the timeout was pending, 'withdrawn' if it had fired and\n"
		"the unread event was withdrawn, and 'idle' if it was a cell that was not armed.\n"
		"With --all it prints the numbers of the first two; idle cells end, too. Exit\n"
		"status 1 if there is no such timeout, or its last event was read; with --all 0,\n"
		"even if the context is empty.\n",
	.run = cancel_run,
};

const struct command get_command = {
	.name = "get",
	.usage = "ID [--json] --fd N",
	.summary = "Show a timeout, as list does",
	.help =
		FD_HELP
		"  --json            one JSON object, times in nanoseconds\n"
		"\n"
		"Exit status 1 if there is no such timeout, or its last event was read.\n",
	.run = get_run,
};

const struct command list_command = {
	.name = "list",
	.usage = "[--json] --fd N",
	.summary = "List the timeouts of a context, one a line",
	.help =
		FD_HELP
		"  --json            a JSON object for each, times in nanoseconds\n"
		"\n"
		"The order is undefined. A pending timeout will fire, a ready one has an unread\n"
		"event, and idle is a cell that is not armed. remaining is the time until the\n"
		"deadline, repeat the number of deadlines that have not been read yet:\n"
		"\n"
		"    id=4294967296 cookie=7 pending remaining=412.803ms every=1s repeat=3\n",
	.run = list_run,
};

const struct command stop_command = {
	.name = "stop",
	.usage = "--fd N",
	.summary = "Bring a context to its end",
	.help =
		FD_HELP
		"\n"
		"No timeout can be armed any more. Those that had not fired can be read at once,\n"
		"as unprocessed, in no order. 'twheel read' ends after the last.\n",
	.run = stop_run,
};
