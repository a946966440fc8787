/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of all subcommands: options, arguments, complaints, exit status, and the
 * context that they work on.
 *
 * A mistake on the command line ends the program with a message and EX_USAGE. So the
 * commands have no error paths for it.
 */
#ifndef TWHEEL_CLI_H
#define TWHEEL_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sysexits.h>
#include <time.h>

#include "libtwheel.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/**
 * struct command - one subcommand
 * @name: its name on the command line
 * @usage: its arguments, in one line
 * @summary: one line for the list of all commands
 * @help: the rest of its --help, whole lines
 * @run: argv[0] is @name. Returns the exit status
 * @ends_at_command: the arguments name a command to run: an option after it is its own
 */
struct command {
	const char *name;
	const char *usage;
	const char *summary;
	const char *help;
	int (*run)(int argc, char **argv);
	bool ends_at_command;
};

extern const struct command info_command;
extern const struct command stat_command;
extern const struct command watch_command;
extern const struct command setup_command;
extern const struct command arm_command;
extern const struct command mod_command;
extern const struct command disarm_command;
extern const struct command cancel_command;
extern const struct command get_command;
extern const struct command list_command;
extern const struct command read_command;
extern const struct command stop_command;
extern const struct command sleep_command;
extern const struct command after_command;
extern const struct command every_command;
extern const struct command run_command;
extern const struct command load_command;
extern const struct command bench_command;

/* Exit status besides EX_*: the command ran, and the answer is no. */
#define EX_UNMET	1

/* Options of more than one command. */
#define CLI_FD		{ "fd", required_argument, NULL, 'f' }
#define CLI_JSON	{ "json", no_argument, NULL, 'j' }
#define CLI_COOKIE	{ "cookie", required_argument, NULL, 'c' }
#define CLI_HELP	{ "help", no_argument, NULL, 'h' }
#define CLI_END		{ NULL, 0, NULL, 0 }

#define CLI_NO_FD	(-1)

#define CLI_MODULE	"/sys/module/twheel_dev/"
#define CLI_PARAMETERS	CLI_MODULE "parameters/"

#define __printf(text, values)	__attribute((format(printf, text, values)))

/* Begin all further complaints with the name of @command. */
void cli_begin(const struct command *command);

/* "twheel arm: ..." on standard error. */
void cli_error(const char *format, ...) __printf(1, 2);

/* The same, and the program ends with EX_USAGE. */
noreturn void cli_usage(const char *format, ...) __printf(1, 2);

/* Prints --help of the command and exits. */
noreturn void cli_help(void);

/*
 * The next option, -1 after the last. Prints --help and exits. Options may stand behind
 * arguments; of a command with @ends_at_command they end at the first argument.
 */
int cli_option(int argc, char **argv, const struct option *options);

/* The arguments behind the options, @min to @max of them. */
char **cli_arguments(int argc, char **argv, int min, int max);

/*
 * Values of options and arguments. A complaint begins with @what, the option or argument;
 * with NULL the value alone is named.
 */
uint64_t cli_number(const char *text, const char *what, uint64_t min, uint64_t max);
uint64_t cli_duration(const char *text, const char *what);
int cli_descriptor(const char *text);

/*
 * Exit status for -errno @error, after a complaint about what failed. @info: of the context at that
 * time, for the limit that has refused a timeout; without it, the context is asked.
 */
#define cli_failure(error, ...)	cli_failure_at(NULL, error, __VA_ARGS__)
int cli_failure_at(const struct twheel_info *info, int error, const char *format, ...)
	__printf(3, 4);

/* Exit status for -errno @error of an open of the device, after a complaint. */
int cli_no_device(int error);

/*
 * The context of descriptor @fd, or with CLI_NO_FD a new one. Returns 0, or after
 * a complaint the exit status. A new one is a wheel in the process if the device is missing,
 * unless TWHEEL_KERNEL is in @flags.
 */
int cli_context(int fd, unsigned int flags, struct twheel_ctx **ctx);

/* Say on standard error if @ctx is a wheel in the process that nobody has asked for. */
void cli_tell_backend(struct twheel_ctx *ctx);

/* Without --fd: print how to open a descriptor, and exit with EX_USAGE. */
void cli_need_fd(int fd);

/* How a command prints. */
enum cli_format {
	CLI_AS_TEXT,
	CLI_AS_JSON,
	CLI_AS_PROMETHEUS,
};

/* cli_show(), flags */
#define CLI_PROMETHEUS	0x1	/* --prometheus may be given */
#define CLI_PROCESS	0x2	/* without --fd, it may be a wheel in the process */

/*
 * A command that takes --fd and --json and shows a context by @show, which returns the exit
 * status. @given: the context is that of --fd; otherwise it is a new one.
 */
int cli_show(int argc, char **argv, unsigned int flags,
	     int (*show)(struct twheel_ctx *ctx, bool given, enum cli_format format));

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* "monotonic", for example; "unknown" for a clock that the device does not have. */
const char *clock_name(uint32_t clock);

/* 0, or -EINVAL when no clock is called @name. */
int clock_parse(const char *name, uint32_t *clock);

/* Memory, or the program ends with EX_OSERR. */
void *cli_resize(void *old, size_t nr, size_t size);

/* The first line of a file; empty if it cannot be read. */
struct cli_line {
	char s[128];
};

struct cli_line cli_line_of(const char *path);

/* Ends a line and writes it at once. The program ends if the output fails. */
void cli_end_line(void);

/* Flushes the output. Returns @status, or EX_IOERR if the output failed. */
int cli_flush(int status);

#endif /* TWHEEL_CLI_H */
