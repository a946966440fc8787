// SPDX-License-Identifier: GPL-2.0
/*
 * twheel run: play a script of operations on named timeouts, in one context.
 *
 * A line is a verb and its arguments. The table of verbs is the grammar: each letter of `takes`
 * is a word, n for a name, d for a duration, s for a state. All lines are read before any of them
 * runs. A name must have been armed in an earlier line, so a misspelt name is found before, too.
 *
 * A script can be a test: a line that fails ends it. In any case the tool checks that no
 * event comes early, twice, or for a timeout that is not pending.
 *
 * `wait` is a timeout of the same wheel and not a sleep. Within a tick and a CPU the wheel
 * keeps the order of arming. So all timeouts that were due before the end of a wait have
 * fired when it ends. A sleep would have to be longer by an unknown time. For the same
 * reason the script stays on the CPU that it starts on.
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

#define BATCH		64
#define GRACE_NS	(30 * NSEC_PER_SEC)	/* beyond that the wheel is dead, not late */
#define BLANKS		" \t\r\n\v\f"

enum state {
	PENDING,
	FIRED,
	CANCELLED,
};

static const char *const state_names[] = { "pending", "fired", "cancelled" };
static const char *const state_texts[] = { "it is pending", "it has fired", "it was cancelled" };

/* The timeout with a name, from the operations and the events so far. */
struct named {
	char *text;
	uint64_t id;
	uint64_t due;		/* earliest time to fire */
	enum state state;
};

struct run;

struct verb {
	const char *word;
	const char *takes;
	const char *usage;
	int (*run)(struct run *run, struct named *named);
};

struct line {
	unsigned int number;
	const struct verb *verb;
	size_t name;		/* index into the names */
	uint64_t ns;
	enum state state;
	char *text;
};

struct run {
	const char *file;
	struct line *lines;
	size_t nr_lines;
	struct named *names;
	size_t nr_names;
	int width;		/* of the longest name */
	unsigned int number;	/* of the line that is read */
	bool mistaken;		/* some line cannot be read */

	const struct line *line;	/* that runs */
	struct twheel_ctx *ctx;
	uint64_t start;
	bool waiting;
};

/* Running */

static int __printf(2, 3) fail(const struct run *run, const char *format, ...)
{
	const struct line *line = run->line;
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s:%u: %s: ", run->file, line->number, line->verb->word);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EX_UNMET;
}

/* The device refused the operation of the line. */
static int refused(const struct run *run, int error)
{
	return cli_failure(error, "%s:%u: %s", run->file, run->line->number,
			   run->line->verb->word);
}

static uint64_t now_ns(const struct run *run)
{
	uint64_t now;

	twheel_now(run->ctx, &now);
	return now;
}

static void __printf(4, 5) report(const struct run *run, const char *what,
				  const struct named *named, const char *format, ...)
{
	uint64_t us = (now_ns(run) - run->start) / NSEC_PER_USEC;
	va_list args;

	printf("%6ju.%03jums  %-9s  %-*s  ", us / 1000, us % 1000, what, run->width, named->text);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	cli_end_line();
}

static int take_event(struct run *run, const struct twheel_event *event)
{
	struct named *named;

	if (run->waiting && event->cookie == run->nr_names) {
		run->waiting = false;
		return 0;
	}
	if (event->cookie >= run->nr_names)
		return fail(run, "an event came that nothing was armed for (id %ju)",
			    (uint64_t)event->id);
	named = &run->names[event->cookie];
	if (named->id != event->id)
		return fail(run, "an event of an earlier %s came", named->text);
	if (named->state != PENDING)
		return fail(run, "an event of %s came, but %s", named->text,
			    state_texts[named->state]);
	if (event->fired_ns < named->due)
		return fail(run, "%s fired %s early", named->text,
			    duration_text(named->due - event->fired_ns).s);
	named->state = FIRED;
	report(run, "fired", named, "%s late", duration_text(event->fired_ns - named->due).s);
	return 0;
}

/* Takes at most one batch of events within @timeout_ns. -ETIMEDOUT: there was none. */
static int collect(struct run *run, int64_t timeout_ns)
{
	struct twheel_event events[BATCH];
	int nr, status = 0;

	do {
		nr = twheel_read(run->ctx, events, BATCH, timeout_ns);
	} while (nr == -EINTR);
	if (nr <= 0)
		return nr && nr != -EAGAIN ? nr : -ETIMEDOUT;
	for (int i = 0; i < nr && !status; i++)
		status = take_event(run, &events[i]);
	return status;
}

/* The time of the line from now, at most the largest deadline. */
static uint64_t deadline(const struct run *run)
{
	uint64_t now = now_ns(run), ns = run->line->ns;

	return ns < INT64_MAX - now ? now + ns : INT64_MAX;
}

static int run_arm(struct run *run, struct named *named)
{
	int error;

	if (named->state == PENDING)
		return fail(run, "%s is pending: mod moves it", named->text);
	named->due = deadline(run);
	error = twheel_arm(run->ctx, named->due, TWHEEL_F_ABS, run->line->name, &named->id);
	if (error)
		return refused(run, error);
	named->state = PENDING;
	report(run, "armed", named, "due in %s", duration_text(run->line->ns).s);
	return 0;
}

static int run_mod(struct run *run, struct named *named)
{
	int ret;

	if (named->state != PENDING)
		return fail(run, "%s cannot be moved: %s", named->text,
			    state_texts[named->state]);
	named->due = deadline(run);
	ret = twheel_mod(run->ctx, named->id, named->due, TWHEEL_F_ABS, run->line->name);
	if (ret < 0)
		return refused(run, ret);
	report(run, "moved", named, "due in %s%s", duration_text(run->line->ns).s,
	       ret == TWHEEL_WITHDRAWN ? ", its unread event is withdrawn" : "");
	return 0;
}

static int run_cancel(struct run *run, struct named *named)
{
	int ret;

	if (named->state != PENDING)
		return fail(run, "%s cannot be cancelled: %s", named->text,
			    state_texts[named->state]);
	ret = twheel_cancel(run->ctx, named->id);
	if (ret < 0)
		return refused(run, ret);
	named->state = CANCELLED;
	report(run, "cancelled", named, "%s",
	       ret == TWHEEL_WITHDRAWN ? "its unread event is withdrawn" : "was pending");
	return 0;
}

static int run_wait(struct run *run, struct named *named)
{
	uint64_t due = deadline(run), id, now;
	uint64_t end = due < INT64_MAX - GRACE_NS ? due + GRACE_NS : INT64_MAX;
	int status = twheel_arm(run->ctx, due, TWHEEL_F_ABS, run->nr_names, &id);

	(void)named;
	run->waiting = true;
	while (!status && run->waiting) {
		now = now_ns(run);
		status = collect(run, now < end ? (int64_t)(end - now) : TWHEEL_NO_WAIT);
	}
	if (status == -ETIMEDOUT)
		return fail(run, "it did not end within %s after its time",
			    duration_text(GRACE_NS).s);
	return status < 0 ? refused(run, status) : status;
}

static int run_expect(struct run *run, struct named *named)
{
	uint64_t now;
	int status;

	do {
		status = collect(run, TWHEEL_NO_WAIT);
	} while (!status);
	if (status != -ETIMEDOUT)
		return status < 0 ? refused(run, status) : status;
	if (named->state == run->line->state)
		return 0;
	now = now_ns(run);
	if (named->state == PENDING)
		return fail(run, "%s should be %s, but it is pending for another %s", named->text,
			    state_names[run->line->state],
			    duration_text(named->due > now ? named->due - now : 0).s);
	return fail(run, "%s should be %s, but %s", named->text,
		    state_names[run->line->state], state_texts[named->state]);
}

static int run_print(struct run *run, struct named *named)
{
	(void)named;
	fputs(run->line->text, stdout);
	cli_end_line();
	return 0;
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

static int run_lines(struct run *run)
{
	int status = cli_context(CLI_NO_FD, 0, &run->ctx);

	if (status)
		return status;
	cli_tell_backend(run->ctx);
	stay_on_this_cpu();
	run->start = now_ns(run);
	for (size_t i = 0; i < run->nr_lines && !status; i++) {
		run->line = &run->lines[i];
		status = run->line->verb->run(run, &run->names[run->line->name]);
	}
	twheel_close(run->ctx);
	return status;
}

/* Reading */

static const struct verb verbs[] = {
	{ "arm", "nd", "arm NAME DURATION", run_arm },
	{ "mod", "nd", "mod NAME DURATION", run_mod },
	{ "cancel", "n", "cancel NAME", run_cancel },
	{ "wait", "d", "wait DURATION", run_wait },
	{ "expect", "ns", "expect NAME fired|cancelled|pending", run_expect },
	{ "print", "", "print TEXT", run_print },
};

static bool __printf(2, 3) mistake(struct run *run, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%u: ", run->file, run->number);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	run->mistaken = true;
	return false;
}

static char *copy(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(cli_resize(NULL, size, 1), text, size);
}

/* The word at *@rest, ended there; NULL when there is none. A # ends the line. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, BLANKS);
	size_t len = strcspn(word, BLANKS);

	if (!*word || *word == '#')
		return NULL;
	*rest = word + len;
	if (**rest)
		*(*rest)++ = '\0';
	return word;
}

/* A new name is in the state of a cancelled timeout: it can be armed. */
static bool take_name(struct run *run, struct line *line, const char *word)
{
	int width = strlen(word);

	for (line->name = 0; line->name < run->nr_names; line->name++) {
		if (!strcmp(run->names[line->name].text, word))
			return true;
	}
	if (line->verb->run != run_arm)
		return mistake(run, "no earlier line arms '%.60s'", word);
	run->names = cli_resize(run->names, run->nr_names + 1, sizeof(*run->names));
	run->names[run->nr_names++] = (struct named) { .text = copy(word), .state = CANCELLED };
	if (width > run->width)
		run->width = width;
	return true;
}

static bool take_word(struct run *run, struct line *line, char kind, const char *word)
{
	const char *why;

	switch (kind) {
	case 'n':
		return take_name(run, line, word);
	case 'd':
		why = duration_parse(word, &line->ns);
		return !why || mistake(run, "'%.60s' is not a duration: %s", word, why);
	default:
		for (size_t i = 0; i < ARRAY_SIZE(state_names); i++) {
			line->state = i;
			if (!strcmp(state_names[i], word))
				return true;
		}
		return mistake(run, "'%.60s' is not a state: fired, cancelled or pending", word);
	}
}

static bool take_words(struct run *run, struct line *line, char *rest)
{
	const char *word;

	for (const char *kind = line->verb->takes; *kind; kind++) {
		word = next_word(&rest);
		if (!word)
			return mistake(run, "incomplete: %s", line->verb->usage);
		if (!take_word(run, line, *kind, word))
			return false;
	}
	if (line->verb->run == run_print) {
		rest += strspn(rest, BLANKS);
		rest[strcspn(rest, "\r\n")] = '\0';
		line->text = copy(rest);
		return true;
	}
	word = next_word(&rest);
	return !word || mistake(run, "unexpected '%.60s': %s", word, line->verb->usage);
}

/* A mistake ends the line and not the script: all lines are looked at. */
static void take_line(struct run *run, char *rest)
{
	const char *word = next_word(&rest);
	const struct verb *verb = verbs, *end = verbs + ARRAY_SIZE(verbs);
	struct line line = { .number = run->number };

	while (word && verb < end && strcmp(verb->word, word))
		verb++;
	if (verb == end)
		mistake(run, "'%.60s' is not an operation (see twheel run --help)", word);
	if (!word || verb == end)
		return;
	line.verb = verb;
	if (!take_words(run, &line, rest))
		return;
	run->lines = cli_resize(run->lines, run->nr_lines + 1, sizeof(line));
	run->lines[run->nr_lines++] = line;
}

static int read_lines(struct run *run, FILE *file)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	int status = 0;

	while ((len = getline(&text, &size, file)) >= 0) {
		run->number++;
		if (strlen(text) != (size_t)len)
			mistake(run, "not text: the line has a zero byte");
		else
			take_line(run, text);
	}
	if (ferror(file)) {
		cli_error("%s: %s", run->file, strerror(errno));
		status = EX_IOERR;
	}
	free(text);
	return status ? status : run->mistaken ? EX_DATAERR : 0;
}

/* The end of the program frees the script. */
static int run_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	static struct run run;
	FILE *file = stdin;
	int status;

	while (cli_option(argc, argv, options) >= 0)
		;
	run.file = cli_arguments(argc, argv, 1, 1)[0];
	if (strcmp(run.file, "-"))
		file = fopen(run.file, "re");
	if (!file) {
		cli_error("%s: %s", run.file, strerror(errno));
		return EX_NOINPUT;
	}
	status = read_lines(&run, file);
	if (!status)
		status = run_lines(&run);
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
		"  mod NAME DURATION      move it, to DURATION from now\n"
		"  cancel NAME            end it, and withdraw its event if that is unread\n"
		"  wait DURATION          wait, and print the expirations that come meanwhile\n"
		"  expect NAME STATE      STATE is fired, cancelled or pending\n"
		"  print TEXT             print the rest of the line\n"
		"\n"
		"A # in place of a word makes the rest of the line a comment. A NAME may be\n"
		"armed again when it has fired or was cancelled.\n"
		"\n"
		"wait is a timeout on the same wheel: timeouts due before its end have fired when\n"
		"it ends. expect does not wait: it reads the unread events, and then compares\n"
		"the state. A fired timeout whose event was read cannot be moved or cancelled:\n"
		"such a line fails. Timeouts that are pending at the end are cancelled.\n"
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
