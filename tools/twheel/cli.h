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

#include "command.h"
#include "libtwheel.h"

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

/* Exit status for -errno @error, after a complaint that @what failed. */
int cli_failure(int error, const char *format, ...) __printf(2, 3);

/* The limit that has refused a timeout of @ctx, with its value. Valid until the next call. */
const char *cli_limit(struct twheel_ctx *ctx);

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
#define CLI_NEED_FD	0x1	/* --fd must be given */
#define CLI_PROMETHEUS	0x2	/* --prometheus may be given */
#define CLI_PROCESS	0x4	/* without --fd, it may be a wheel in the process */

/*
 * A command that takes --fd and --json and shows a context by @show, which returns the exit
 * status. @given: the context is that of --fd; otherwise it is a new one.
 */
int cli_show(int argc, char **argv, unsigned int flags,
	     int (*show)(struct twheel_ctx *ctx, bool given, enum cli_format format));

/* Memory, or the program ends with EX_OSERR. */
void *cli_resize(void *old, size_t nr, size_t size);

/* The first line of a file; empty if it cannot be read. */
struct cli_line {
	char s[128];
};

struct cli_line cli_line_of(const char *path);

/* The name of user or group @id in /etc/passwd or /etc/group, or NULL. Until the next call. */
const char *cli_name_of(const char *path, unsigned int id);

/* Ends a line and writes it at once. The program ends if the output fails. */
void cli_end_line(void);

/* Flushes the output. Returns @status, or EX_IOERR if the output failed. */
int cli_flush(int status);

#endif /* TWHEEL_CLI_H */
