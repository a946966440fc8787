// SPDX-License-Identifier: GPL-2.0
/*
 * twheel run: play a script of operations on named timeouts, in one context.
 *
 * A script can be a test: a line that fails ends it. In any case the tool checks that no
 * event comes early, twice, or for a timeout that is not pending.
 *
 * `wait` is a timeout of the same wheel and not a sleep. Within a tick and a CPU the wheel
 * keeps the order of arming. So all timeouts that were due before the end of a wait have
 * fired when it ends. A sleep would have to be longer by an unknown time. For the same
 * reason the script stays on the CPU that it starts on.
 *
 * Timeouts that fire once are cells if the kernel has cells. Then the outcome of an arming
 * is exact. A move or a disarm tells whether the timeout had fired and whether its event
 * was read. The deadline in an event identifies the arming. The place of a cell in the
 * wheel is that of the next look of the kernel. The kernel may have placed it after the
 * wait was armed. So a wait ends when all cells that were due before it have fired, too.
 *
 * The cookie of a timeout is the index of its name. A wait has the cookie after the last.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "script.h"

#define BATCH		64
#define GRACE_NS	(30 * NSEC_PER_SEC)	/* beyond that the wheel is dead, not late */

/* The state of the timeout with a name, from the operations and the events so far. */
struct named {
	uint64_t id;
	struct twheel_cell *cell;	/* NULL: not a cell, or cancelled */
	uint64_t due;		/* earliest time to fire; of a cell: its word */
	uint64_t interval;	/* 0: it fires once */
	uint64_t left;		/* deadlines not yet read */
	enum script_state state;
};

struct run {
	const char *file;
	struct script script;
	const struct script_line *line;
	struct twheel_ctx *ctx;
	struct named *named;
	uint64_t start;
	int width;		/* of the longest name */
	bool has_cells;
	bool waiting;
};

static int __printf(2, 3) fail(const struct run *run, const char *format, ...)
{
	const struct script_line *line = run->line;
	char reason[256];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	fprintf(stderr, "%s:%u: %s: %s\n", run->file, line->number, line->word, reason);
	return EX_UNMET;
}

/* The device refused the operation of the line. */
static int refused(const struct run *run, int error)
{
	return cli_failure(error, "%s:%u: %s", run->file, run->line->number,
			   run->line->word);
}

static const char *name_of(const struct run *run)
{
	return run->script.names[run->line->name];
}

static struct named *named_of(const struct run *run)
{
	return &run->named[run->line->name];
}

static uint64_t now_ns(const struct run *run)
{
	uint64_t now;

	twheel_now(run->ctx, &now);
	return now;
}

static void __printf(4, 5) report(const struct run *run, const char *what, const char *name,
				  const char *format, ...)
{
	uint64_t us = (now_ns(run) - run->start) / NSEC_PER_USEC;
	va_list args;

	printf("%6ju.%03jums  %-9s  %-*s  ", us / 1000, us % 1000, what, run->width, name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	cli_end_line();
}

static const char *const state_texts[] = {
	[SCRIPT_PENDING] = "it is pending",
	[SCRIPT_FIRED] = "it has fired",
	[SCRIPT_CANCELLED] = "it was cancelled",
	[SCRIPT_DISARMED] = "it was disarmed",
};

/* An event of several deadlines has the deadline of the last, and fired at the first. */
static int check_time(const struct run *run, const struct twheel_event *event,
		      const struct named *named, const char *name)
{
	uint64_t first = event->expires_ns - (event->count - 1) * named->interval;
	uint64_t fired = event->fired_ns;
	uint64_t now = now_ns(run);

	if (fired < first)
		return fail(run, "%s fired %s before the deadline in its event", name,
			    duration_text(first - fired).s);
	if (fired < named->due)
		return fail(run, "%s fired %s early", name,
			    duration_text(named->due - fired).s);
	if (now < fired)
		return fail(run, "%s was read %s before the time it fired", name,
			    duration_text(fired - now).s);
	return 0;
}

/* A periodic timeout is pending until its last deadline has been read. */
static int take_deadlines(struct run *run, struct named *named,
			  const struct twheel_event *event, const char *name)
{
	bool last = event->flags & TWHEEL_EV_LAST;

	if (!event->count || event->count > named->left)
		return fail(run, "%ju deadlines of %s came, and there were %ju left",
			    (uint64_t)event->count, name, named->left);
	named->left -= event->count;
	if (last != (!named->left && !named->cell))
		return fail(run, "%ju deadlines of %s are left, and its event says %s", named->left,
			    name, last ? "that it was the last" : "that there will be more");
	named->due += event->count * named->interval;
	if (!named->left)
		named->state = SCRIPT_FIRED;
	return 0;
}

static void report_fired(const struct run *run, const struct named *named,
			 const struct twheel_event *event, const char *name)
{
	uint64_t first = event->expires_ns - (event->count - 1) * named->interval;
	struct duration_text late = duration_text(event->fired_ns - first);

	if (!named->interval)
		report(run, "fired", name, "%s late", late.s);
	else
		report(run, "fired", name, "%s late, %ju deadline%s, %ju left", late.s,
		       (uint64_t)event->count, event->count == 1 ? "" : "s", named->left);
}

static int take_named(struct run *run, const struct twheel_event *event)
{
	struct named *named = &run->named[event->cookie];
	const char *name = run->script.names[event->cookie];
	int status;

	if (named->id != event->id)
		return fail(run, "an event of an earlier %s came (id %ju)", name,
			    (uint64_t)event->id);
	if (named->state != SCRIPT_PENDING)
		return fail(run, "an event of %s came, but %s", name, state_texts[named->state]);
	if (named->cell && named->due != event->expires_ns)
		return fail(run, "an event of an earlier arming of %s came", name);
	status = check_time(run, event, named, name);
	if (!status)
		status = take_deadlines(run, named, event, name);
	if (!status)
		report_fired(run, named, event, name);
	return status;
}

static int take_event(struct run *run, const struct twheel_event *event)
{
	if (event->cookie < run->script.nr_names)
		return take_named(run, event);
	if (event->cookie > run->script.nr_names || !run->waiting)
		return fail(run, "an event came that nothing was armed for (id %ju)",
			    (uint64_t)event->id);
	run->waiting = false;
	return 0;
}

/* Takes at most one batch of events within @timeout_ns. -ETIMEDOUT: there was none. */
static int collect(struct run *run, int64_t timeout_ns)
{
	struct twheel_event events[BATCH];
	int nr, status;

	do {
		nr = twheel_read(run->ctx, events, BATCH, timeout_ns);
	} while (nr == -EINTR);
	if (nr <= 0)
		return nr && nr != -EAGAIN ? nr : -ETIMEDOUT;
	for (int i = 0; i < nr; i++) {
		status = take_event(run, &events[i]);
		if (status)
			return status;
	}
	return 0;
}

static int collect_unread(struct run *run)
{
	int status;

	do {
		status = collect(run, TWHEEL_NO_WAIT);
	} while (!status);
	if (status == -ETIMEDOUT)
		return 0;
	return status < 0 ? refused(run, status) : status;
}

/* The time @ns from now, at most the largest deadline. */
static uint64_t deadline(const struct run *run, uint64_t ns)
{
	uint64_t now = now_ns(run);

	return ns < INT64_MAX - now ? now + ns : INT64_MAX;
}

/* Compares the result of the device with the known state of the timeout. */
static int check_idle(const struct run *run, int ret, bool idle)
{
	bool was_idle = ret == TWHEEL_IDLE;

	if (was_idle == idle)
		return 0;
	return fail(run, "%s %s armed, and the device says the contrary", name_of(run),
		    idle ? "is not" : "is");
}

static int end_cell(struct run *run, struct named *named)
{
	int ret = twheel_cancel(run->ctx, named->id);

	if (ret < 0)
		return refused(run, ret);
	named->cell = NULL;
	return check_idle(run, ret, named->state != SCRIPT_PENDING);
}

/* A timeout that fires once is a cell if the kernel has cells. */
static int arm_new(struct run *run, struct named *named, uint64_t interval, uint32_t count)
{
	uint32_t flags = run->has_cells && !interval ? TWHEEL_F_CELL : 0;
	struct twheel_op op;
	int error;

	twheel_prep_arm(&op, named->due, flags | TWHEEL_F_ABS, run->line->name);
	if (interval)
		twheel_prep_interval(&op, interval, count);
	error = twheel_operate(run->ctx, &op);
	if (!error && flags)
		error = twheel_cell_find(run->ctx, op.id, &named->cell);
	if (error)
		return refused(run, error);
	named->id = op.id;
	return 0;
}

/* The cell that the name has is armed again, or ended for a periodic timeout. */
static int arm_named(struct run *run, uint64_t interval, uint32_t count)
{
	struct named *named = named_of(run);
	int ret = 0;

	if (named->state == SCRIPT_PENDING)
		return fail(run, "%s is pending: mod moves it", name_of(run));
	if (named->cell && interval)
		ret = end_cell(run, named);
	if (ret)
		return ret;
	named->due = deadline(run, run->line->ns);
	if (named->cell) {
		ret = twheel_cell_arm(run->ctx, named->cell, named->id, named->due);
		ret = ret < 0 ? refused(run, ret) : check_idle(run, ret, true);
	} else {
		ret = arm_new(run, named, interval, count);
	}
	if (ret)
		return ret;
	named->interval = interval;
	named->left = count;
	named->state = SCRIPT_PENDING;
	return 0;
}

static int run_arm(struct run *run)
{
	int status = arm_named(run, 0, 1);

	if (!status)
		report(run, "armed", name_of(run), "due in %s", duration_text(run->line->ns).s);
	return status;
}

static int run_every(struct run *run)
{
	const struct script_line *line = run->line;
	int status;

	status = arm_named(run, line->ns, line->count);
	if (!status)
		report(run, "armed", name_of(run), "due every %s, %u times",
		       duration_text(line->ns).s, line->count);
	return status;
}

static int report_moved(const struct run *run, int ret)
{
	int status = check_idle(run, ret, false);

	if (!status)
		report(run, "moved", name_of(run), "due in %s%s",
		       duration_text(run->line->ns).s,
		       ret == TWHEEL_WITHDRAWN ? ", its unread event is withdrawn" : "");
	return status;
}

/* Of a cell, by an exchange. */
static int run_mod(struct run *run)
{
	struct named *named = named_of(run);
	uint64_t due = deadline(run, run->line->ns);
	int ret;

	if (named->state != SCRIPT_PENDING)
		return fail(run, "%s cannot be moved: %s", name_of(run), state_texts[named->state]);
	if (named->cell)
		ret = twheel_cell_arm(run->ctx, named->cell, named->id, due);
	else
		ret = twheel_mod(run->ctx, named->id, due, TWHEEL_F_ABS, run->line->name);
	if (ret < 0)
		return refused(run, ret);
	named->due = due;
	named->interval = 0;
	named->left = 1;
	return report_moved(run, ret);
}

static int run_disarm(struct run *run)
{
	struct named *named = named_of(run);
	int ret;

	if (named->state != SCRIPT_PENDING)
		return fail(run, "%s cannot be disarmed: %s", name_of(run),
			    state_texts[named->state]);
	if (!named->cell)
		return fail(run, "%s cannot be disarmed: %s", name_of(run),
			    run->has_cells ? "it is no cell, since it is or was periodic" :
					     "this kernel has no cells");
	ret = twheel_cell_cancel(named->cell);
	if (ret == TWHEEL_IDLE)
		return check_idle(run, ret, false);
	named->state = SCRIPT_DISARMED;
	report(run, "disarmed", name_of(run), "%s",
	       ret == TWHEEL_WITHDRAWN ? "its unread event is withdrawn" : "was pending");
	return 0;
}

static int run_cancel(struct run *run)
{
	struct named *named = named_of(run);
	bool idle = named->cell && named->state == SCRIPT_DISARMED;
	int ret, status;

	if (named->state != SCRIPT_PENDING && !idle)
		return fail(run, "%s cannot be cancelled: %s", name_of(run),
			    state_texts[named->state]);
	ret = twheel_cancel(run->ctx, named->id);
	if (ret < 0)
		return refused(run, ret);
	status = check_idle(run, ret, idle);
	if (status)
		return status;
	named->cell = NULL;
	named->state = SCRIPT_CANCELLED;
	report(run, "cancelled", name_of(run), "%s",
	       ret == TWHEEL_WITHDRAWN ? "its unread event is withdrawn" :
	       idle ? "was disarmed" : "was pending");
	return 0;
}

/* The name of a cell that should have fired by @time, NULL if there is none. */
static const char *overdue_cell(const struct run *run, uint64_t time)
{
	for (size_t i = 0; i < run->script.nr_names; i++) {
		const struct named *named = &run->named[i];

		if (named->cell && named->state == SCRIPT_PENDING && named->due <= time)
			return run->script.names[i];
	}
	return NULL;
}

static int run_wait(struct run *run)
{
	uint64_t due = deadline(run, run->line->ns);
	uint64_t end = due < INT64_MAX - GRACE_NS ? due + GRACE_NS : INT64_MAX;
	uint64_t now, id;
	int status;

	status = twheel_arm(run->ctx, run->line->ns, 0, run->script.nr_names, &id);
	run->waiting = !status;
	while (!status && (run->waiting || overdue_cell(run, due))) {
		now = now_ns(run);
		status = collect(run, now < end ? (int64_t)(end - now) : TWHEEL_NO_WAIT);
	}
	if (status == -ETIMEDOUT)
		return fail(run, "%s did not fire within %s after its time",
			    run->waiting ? "the wait itself" : overdue_cell(run, due),
			    duration_text(GRACE_NS).s);
	return status < 0 ? refused(run, status) : status;
}

static int unexpected(const struct run *run, const struct named *named)
{
	const char *expected = script_state_name(run->line->state);
	struct twheel_op op;

	if (named->state == SCRIPT_PENDING && !twheel_get(run->ctx, named->id, &op))
		return fail(run, "%s should be %s, but it is pending for another %s",
			    name_of(run), expected, duration_text(op.expires_ns).s);
	return fail(run, "%s should be %s, but %s", name_of(run), expected,
		    state_texts[named->state]);
}

/* The device must have neither a deadline nor an event for the cell. */
static int check_cell_is_idle(const struct run *run, const struct named *named)
{
	struct twheel_op op;
	int error = twheel_get(run->ctx, named->id, &op);

	if (error)
		return refused(run, error);
	return check_idle(run, op.expires_ns == TWHEEL_CELL_IDLE ? TWHEEL_IDLE : 0, true);
}

static int run_expect(struct run *run)
{
	const struct named *named = named_of(run);
	int status = collect_unread(run);

	if (status)
		return status;
	if (named->state != run->line->state)
		return unexpected(run, named);
	return named->cell && named->state != SCRIPT_PENDING ? check_cell_is_idle(run, named) : 0;
}

static int run_print(struct run *run)
{
	fputs(run->line->text, stdout);
	cli_end_line();
	return 0;
}

static int (*const verbs[])(struct run *run) = {
	[SCRIPT_ARM] = run_arm,
	[SCRIPT_EVERY] = run_every,
	[SCRIPT_MOD] = run_mod,
	[SCRIPT_DISARM] = run_disarm,
	[SCRIPT_CANCEL] = run_cancel,
	[SCRIPT_WAIT] = run_wait,
	[SCRIPT_EXPECT] = run_expect,
	[SCRIPT_PRINT] = run_print,
};

static int run_lines(struct run *run)
{
	int status = 0;

	run->start = now_ns(run);
	for (size_t i = 0; i < run->script.nr_lines && !status; i++) {
		run->line = &run->script.lines[i];
		status = verbs[run->line->verb](run);
	}
	return status;
}

/* The order of events is kept per CPU. A failure to pin is ignored. */
static void stay_on_this_cpu(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0 && cpu < CPU_SETSIZE) {
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
}

/* A new name is in the state of a cancelled timeout: it can be armed. */
static void init_names(struct run *run)
{
	const struct script *script = &run->script;

	run->named = cli_resize(NULL, script->nr_names, sizeof(*run->named));
	for (size_t i = 0; i < script->nr_names; i++) {
		int width = strlen(script->names[i]);

		run->named[i] = (struct named) { .state = SCRIPT_CANCELLED };
		if (width > run->width)
			run->width = width;
	}
}

static int run_script(struct run *run)
{
	int status = cli_context(CLI_NO_FD, 0, &run->ctx);
	struct twheel_info info;

	if (status)
		return status;
	cli_tell_backend(run->ctx);
	run->has_cells = !twheel_get_info(run->ctx, &info) && info.op_flags & TWHEEL_F_CELL;
	stay_on_this_cpu();
	init_names(run);
	status = run_lines(run);
	free(run->named);
	twheel_close(run->ctx);
	return status;
}

static int parse(struct run *run, FILE *file)
{
	int error = script_parse(&run->script, file, run->file, stderr);

	if (error == -EBADMSG)
		return EX_DATAERR;
	if (error) {
		cli_error("%s: %s", run->file, strerror(-error));
		return EX_IOERR;
	}
	return 0;
}

static int parse_and_run(struct run *run, FILE *file)
{
	int status = parse(run, file);

	if (!status)
		status = run_script(run);
	script_free(&run->script);
	return status;
}

static int run_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	struct run run = { 0 };
	FILE *file;
	int status;

	while (cli_option(argc, argv, options) >= 0)
		;
	run.file = cli_arguments(argc, argv, 1, 1)[0];
	if (!strcmp(run.file, "-"))
		return parse_and_run(&run, stdin);

	file = fopen(run.file, "re");
	if (!file) {
		cli_error("%s: %s", run.file, strerror(errno));
		return EX_NOINPUT;
	}
	status = parse_and_run(&run, file);
	fclose(file);
	return status;
}

const struct command run_command = {
	.name = "run",
	.usage = "FILE|-",
	.summary = "Play a script of timeouts and check what comes",
	.help =
		"One operation a line, in a context of its own; - is standard input:\n"
		"\n"
		"  arm NAME DURATION      arm a timeout and give it a name\n"
		"  every NAME DURATION N  arm a periodic timeout with N deadlines\n"
		"  mod NAME DURATION      move it, to DURATION from now; it fires once then\n"
		"  disarm NAME            cancel its deadline by an exchange; withdraw its event\n"
		"  cancel NAME            end it, and withdraw its event if that is unread\n"
		"  wait DURATION          wait, and print the expirations that come meanwhile\n"
		"  expect NAME STATE      STATE is fired, cancelled, disarmed or pending\n"
		"  print TEXT             print the rest of the line; echo does the same\n"
		"\n"
		"A # in place of a word makes the rest of the line a comment. A NAME starts with\n"
		"a letter; letters, digits and _ - . : follow. It may be armed again when it has\n"
		"fired, was cancelled or disarmed. If the kernel has cells, arm makes a cell,\n"
		"which mod and disarm exchange in memory. disarm takes only cells.\n"
		"\n"
		"wait is a timeout on the same wheel: timeouts due before its end have fired when\n"
		"it ends. expect does not wait: it reads the unread events, and then compares\n"
		"the state. A fired timeout whose event was read cannot be moved, disarmed or\n"
		"cancelled: such a line fails. A periodic one has fired when its last deadline\n"
		"was read. Timeouts that are pending at the end are cancelled.\n"
		"\n"
		"All mistakes in a script are reported before any line runs, as FILE:LINE:\n"
		"message (exit status 65). A line that fails ends the script, with the same kind\n"
		"of message (exit status 1), and so does an event that comes early, twice or\n"
		"after a cancel.\n"
		"\n"
		"    arm idle 300ms\n"
		"    arm retry 100ms\n"
		"    arm stop 200ms\n"
		"    wait 50ms\n"
		"    cancel stop\n"
		"    mod idle 100ms\n"
		"    wait 100ms\n"
		"    expect retry fired\n"
		"    expect idle fired\n"
		"    expect stop cancelled\n",
	.run = run_run,
};
