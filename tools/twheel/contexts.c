// SPDX-License-Identifier: GPL-2.0
/*
 * twheel contexts: the descriptors that are contexts, with the values in their fdinfo.
 *
 * A descriptor is recognized by its device number, because the name of the device may
 * differ in a container. A process may end, or close a descriptor, at any time: then it is
 * left out.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"

/* Lines of fdinfo, as in "live:\t7". */
static const char *const names[] = {
	"uid", "clockid", "tick_ns", "max_timeouts", "live", "ready", "cells",
};

enum { UID, CLOCKID, TICK_NS, MAX_TIMEOUTS, LIVE, READY, CELLS };

struct holder {
	int pid;
	int fd;
	char command[32];
	uint64_t value[ARRAY_SIZE(names)];
};

static FILE *open_file(const struct holder *holder, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "/proc/%d/%s", holder->pid, name);
	return fopen(path, "re");
}

/* False if a line is missing: then it is no context, but opened with O_PATH, say. */
static bool read_values(struct holder *holder)
{
	unsigned int known = 0;
	char text[128];
	FILE *file;

	snprintf(text, sizeof(text), "fdinfo/%d", holder->fd);
	file = open_file(holder, text);
	while (file && fgets(text, sizeof(text), file)) {
		char *value = strchr(text, ':');

		if (value)
			*value++ = '\0';
		for (size_t i = 0; value && i < ARRAY_SIZE(names); i++) {
			if (strcmp(names[i], text))
				continue;
			holder->value[i] = strtoull(value, NULL, 10);
			known |= 1U << i;
		}
	}
	if (file)
		fclose(file);
	return known == (1U << ARRAY_SIZE(names)) - 1;
}

/* The name of the process, in ASCII without control characters. */
static void read_name(struct holder *holder)
{
	FILE *file = open_file(holder, "comm");

	if (!file || !fgets(holder->command, sizeof(holder->command), file))
		strcpy(holder->command, "?");
	if (file)
		fclose(file);
	holder->command[strcspn(holder->command, "\n")] = '\0';
	for (char *c = holder->command; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
}

static void print_json(const struct holder *holder)
{
	struct json json;

	json_begin(&json);
	json_number(&json, "pid", holder->pid);
	json_text(&json, "command", holder->command);
	json_number(&json, "fd", holder->fd);
	json_number(&json, "uid", holder->value[UID]);
	json_text(&json, "clock", clock_name(holder->value[CLOCKID]));
	for (size_t i = TICK_NS; i < ARRAY_SIZE(names); i++)
		json_number(&json, names[i], holder->value[i]);
	json_end(&json);
}

static void print_text(const struct holder *holder)
{
	const char *user = cli_name_of("/etc/passwd", holder->value[UID]);
	static bool titled;
	char number[16];

	snprintf(number, sizeof(number), "%u", (unsigned int)holder->value[UID]);
	if (!titled)
		printf("%7s %4s  %-15s  %-8s  %-9s %7s %7s %7s\n", "pid", "fd", "command", "user",
		       "clock", names[LIVE], names[READY], names[CELLS]);
	titled = true;
	printf("%7d %4d  %-15s  %-8s  %-9s %7ju %7ju %7ju\n", holder->pid, holder->fd,
	       holder->command, user ? user : number,
	       clock_name(holder->value[CLOCKID]), holder->value[LIVE], holder->value[READY],
	       holder->value[CELLS]);
}

/* The tool itself is left out: it inherits the descriptors of its shell. */
static void print_context(const char *path, dev_t device, bool as_json)
{
	struct holder holder = {
		.pid = strtol(path + strlen("/proc/"), NULL, 10),
		.fd = strtol(strrchr(path, '/') + 1, NULL, 10),
	};
	struct stat found;

	if (holder.pid == getpid() || stat(path, &found) || !S_ISCHR(found.st_mode) ||
	    found.st_rdev != device || !read_values(&holder))
		return;
	read_name(&holder);
	if (as_json)
		print_json(&holder);
	else
		print_text(&holder);
}

static int contexts_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_JSON, CLI_HELP, CLI_END };
	bool as_json = false;
	glob_t paths = { 0 };
	struct stat device;

	while (cli_option(argc, argv, options) >= 0)
		as_json = true;
	cli_arguments(argc, argv, 0, 0);

	if (stat(TWHEEL_DEVICE, &device))
		return cli_no_device(-errno);
	glob("/proc/[0-9]*/fd/[0-9]*", GLOB_NOSORT, NULL, &paths);
	for (size_t i = 0; i < paths.gl_pathc; i++)
		print_context(paths.gl_pathv[i], device.st_rdev, as_json);
	globfree(&paths);
	if (geteuid())
		cli_error("note: only root sees the processes of others");
	return 0;
}

const struct command contexts_command = {
	.name = "contexts",
	.usage = "[--json]",
	.summary = "List the processes that hold contexts",
	.help =
		"  --json   a JSON object for each descriptor, times in nanoseconds\n"
		"\n"
		"One line for each descriptor of " TWHEEL_DEVICE ", with the values of\n"
		"/proc/PID/fdinfo. The limits of the user who opened it count its timeouts.\n"
		"Copies of a descriptor, by dup(), fork() or a socket, are the same context, but\n"
		"have a line each. live counts the timeouts that are pending or have an unread\n"
		"event, and all cells; ready counts the unread events.\n"
		"\n"
		"Root sees all processes, others see their own. A context without a descriptor,\n"
		"held by a mapping of its cells or on its way through a socket, is not listed.\n",
	.run = contexts_run,
};
