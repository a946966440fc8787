// SPDX-License-Identifier: GPL-2.0
/*
 * twheel read: expirations of an inherited context, one a line.
 *
 * An event that was read is gone from the context. So no more events are read than were
 * requested, and they are written before the next wait.
 */
#include <errno.h>
#include <stdio.h>

#include "cli.h"
#include "duration.h"
#include "json.h"

#define BATCH	256

/* A cancel does not wake a reader, so it looks whether anything is armed this often. */
#define LOOK_NS	((int64_t)NSEC_PER_SEC)

struct reader {
	struct twheel_ctx *ctx;
	uint64_t left;		/* events still wanted */
	bool counted;		/* --count was given */
	bool limited;		/* --timeout was given */
	uint64_t end;		/* and is over then, monotonic */
	bool as_json;
};

/* In an event of several deadlines fired_ns is of the first and expires_ns of the last. */
static bool has_lateness(const struct twheel_event *event)
{
	return event->count == 1 && !(event->flags & TWHEEL_EV_UNPROCESSED);
}

static void print_json(const struct twheel_event *event)
{
	struct json json;

	json_begin(&json);
	json_id(&json, "id", event->id);
	json_id(&json, "cookie", event->cookie);
	json_number(&json, "expires_ns", event->expires_ns);
	json_number(&json, "fired_ns", event->fired_ns);
	if (has_lateness(event))
		json_signed(&json, "lateness_ns", event->fired_ns - event->expires_ns);
	json_number(&json, "count", event->count);
	json_bool(&json, "last", event->flags & TWHEEL_EV_LAST);
	json_bool(&json, "unprocessed", event->flags & TWHEEL_EV_UNPROCESSED);
	json_end(&json);
}

static void print_text(const struct twheel_event *event)
{
	bool before = event->fired_ns < event->expires_ns;
	uint64_t off = before ? event->expires_ns - event->fired_ns :
				event->fired_ns - event->expires_ns;

	printf("id=%ju cookie=%ju ", (uint64_t)event->id, (uint64_t)event->cookie);
	if (event->flags & TWHEEL_EV_UNPROCESSED)
		printf("unprocessed remaining=%s\n", duration_text(before ? off : 0).s);
	else if (has_lateness(event))
		printf("lateness=%s%s\n", before ? "-" : "", duration_text(off).s);
	else
		printf("count=%ju\n", (uint64_t)event->count);
}

static void print_events(struct reader *reader, const struct twheel_event *events, int nr)
{
	for (int i = 0; i < nr; i++) {
		if (reader->as_json)
			print_json(&events[i]);
		else
			print_text(&events[i]);
	}
}

static bool is_over(const struct reader *reader)
{
	return reader->limited && clock_ns(CLOCK_MONOTONIC) >= reader->end;
}

static int64_t read_timeout_ns(const struct reader *reader)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int64_t left = TWHEEL_FOREVER;

	if (reader->limited)
		left = now < reader->end ? (int64_t)(reader->end - now) : TWHEEL_NO_WAIT;
	if (!reader->counted && (left < 0 || left > LOOK_NS))
		left = LOOK_NS;
	return left;
}

/* Idle cells do not count: they may never be armed again. */
static bool has_armed(const struct reader *reader)
{
	struct twheel_list_entry entries[BATCH];
	uint32_t next = 0;
	int nr;

	while ((nr = twheel_list_timeouts(reader->ctx, entries, BATCH, &next)) > 0) {
		for (int i = 0; i < nr; i++) {
			if (entries[i].state != TWHEEL_STATE_IDLE)
				return true;
		}
	}
	return false;
}

/* Without a count the command ends when no further event can come. */
static bool wants_more(const struct reader *reader)
{
	return reader->counted ? reader->left : has_armed(reader);
}

static int read_some(struct reader *reader)
{
	struct twheel_event events[BATCH];
	int ret;

	ret = twheel_read(reader->ctx, events, reader->left < BATCH ? reader->left : BATCH,
			  read_timeout_ns(reader));
	ret = ret == -EAGAIN ? -ETIMEDOUT : ret;
	if (ret > 0) {
		print_events(reader, events, ret);
		reader->left -= ret;
	}
	return ret;
}

static int read_all(struct reader *reader)
{
	int ret, status;

	while (wants_more(reader)) {
		ret = read_some(reader);
		if (ret == -EINTR || (ret == -ETIMEDOUT && !is_over(reader)))
			continue;
		if (ret == -ETIMEDOUT || !ret)
			return reader->counted ? EX_UNMET : 0;
		if (ret < 0)
			return cli_failure(ret, "read");
		status = cli_flush(0);
		if (status)
			return status;
	}
	return 0;
}

static void take_option(struct reader *reader, int option, int *fd)
{
	switch (option) {
	case 'f':
		*fd = cli_descriptor(optarg);
		break;
	case 'n':
		reader->left = cli_number(optarg, "--count", 1, UINT64_MAX);
		reader->counted = true;
		break;
	case 't':
		reader->end = clock_ns(CLOCK_MONOTONIC) + cli_duration(optarg, "--timeout");
		reader->limited = true;
		break;
	case 'j':
		reader->as_json = true;
		break;
	}
}

static int read_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "timeout", required_argument, NULL, 't' },
		CLI_FD, CLI_JSON, CLI_HELP, CLI_END
	};
	struct reader reader = { .left = UINT64_MAX };
	int fd = CLI_NO_FD;
	int option, status;

	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&reader, option, &fd);
	cli_arguments(argc, argv, 0, 0);
	cli_need_fd(fd);

	status = cli_context(fd, TWHEEL_KERNEL, &reader.ctx);
	if (status)
		return status;
	status = read_all(&reader);
	twheel_close(reader.ctx);
	return status;
}

const struct command read_command = {
	.name = "read",
	.usage = "[--count N] [--timeout DURATION] [--json] --fd N",
	.summary = "Print expirations as they come, one a line",
	.help =
		"  --fd N              the context behind descriptor N\n"
		"  --count N           read N expirations; exit status 1 if fewer came\n"
		"  --timeout DURATION  end after that time; 0 reads the events that are there\n"
		"  --json              a JSON object for each, times in nanoseconds\n"
		"\n"
		"Without --count it ends when no timeout is armed any more, and in any case\n"
		"after the last event of a stopped context. Each line has the id and the cookie\n"
		"of a timeout, and the time from its deadline to its expiration:\n"
		"\n"
		"    id=4294967296 cookie=7 lateness=412.803us\n"
		"\n"
		"If several deadlines of a periodic timeout have passed, count is their number,\n"
		"and there is no lateness. unprocessed means that the context was stopped before\n"
		"the timeout fired; remaining is the time that was left. JSON has lateness_ns\n"
		"only where a line has lateness.\n",
	.run = read_run,
};
