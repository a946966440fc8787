// SPDX-License-Identifier: GPL-2.0
/*
 * Options, arguments, complaints and exit status of all subcommands.
 *
 * The exit status follows sysexits.h. So a script can tell a missing module (69) from a
 * missing permission (77) and a limit that is reached (75). 1 is the answer "no" of a
 * command that ran: not found, timed out, expectation not met.
 */
#define _DEFAULT_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "cli.h"
#include "duration.h"

static const struct command *current;
static struct twheel_ctx *context;	/* the last one that was opened */

void cli_begin(const struct command *command)
{
	current = command;
}

static void complain(const char *format, va_list args)
{
	fflush(stdout);
	fputs("twheel", stderr);
	if (current)
		fprintf(stderr, " %s", current->name);
	fputs(": ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void cli_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
}

void cli_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	fprintf(stderr, "Try 'twheel %s%s--help'.\n", current ? current->name : "",
		current ? " " : "");
	exit(EX_USAGE);
}

noreturn void cli_help(void)
{
	printf("Usage: twheel %s %s\n\n%s.\n\n%s", current->name, current->usage,
	       current->summary, current->help);
	exit(cli_flush(EXIT_SUCCESS));
}

/* "-5s" or "-.5": a negative value, which getopt() takes for options. */
static noreturn void refuse_negative(const char *text)
{
	bool number = !text[1 + strspn(text + 1, "0123456789")];

	if (number && strncmp(current->usage, "DURATION", 8))
		cli_usage("'%s' is not a number: it is negative", text);
	cli_usage("'%s' is not a duration: it is negative", text);
}

/*
 * getopt() has stopped at the first letter of -X..., or behind a long option. Behind -X
 * alone it has moved on.
 */
static noreturn void unknown_option(char **argv, const struct option *options)
{
	const char *text = argv[optind - 1];
	size_t len;

	if (strncmp(text, "--", 2)) {
		if (text[0] != '-' || text[1] != optopt || text[2])
			text = argv[optind];
		if (isdigit((unsigned char)text[1]) || text[1] == '.')
			refuse_negative(text);
		cli_usage("unknown option '%s'", text);
	}
	len = strcspn(text + 2, "=");
	for (; options->name; options++) {
		if (strlen(options->name) == len && !memcmp(options->name, text + 2, len))
			cli_usage("option '--%s' takes no value", options->name);
	}
	cli_usage("unknown option '%s'", text);
}

int cli_option(int argc, char **argv, const struct option *options)
{
	int option;

	opterr = 0;
	option = getopt_long(argc, argv, current->ends_at_command ? "+:h" : ":h", options, NULL);
	switch (option) {
	case 'h':
		cli_help();
	case ':':
		cli_usage("option '%s' needs a value", argv[optind - 1]);
	case '?':
		unknown_option(argv, options);
	}
	return option;
}

char **cli_arguments(int argc, char **argv, int min, int max)
{
	if (argc - optind < min)
		cli_usage("an argument is missing: %s", current->usage);
	if (argc - optind > max)
		cli_usage("one argument too many: '%s'", argv[optind + max]);
	return argv + optind;
}

/* Decimal, or hexadecimal with 0x. strtoull() alone accepts blanks, signs and octal. */
uint64_t cli_number(const char *text, const char *what, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	if (!isdigit((unsigned char)*text) || *end)
		cli_usage("%s: '%s' is not a number", what, text);
	if (errno || value < min || value > max)
		cli_usage("%s: %s is not between %llu and %llu", what, text,
			  (unsigned long long)min, (unsigned long long)max);
	return value;
}

uint64_t cli_duration(const char *text, const char *what)
{
	uint64_t ns;
	const char *why = duration_parse(text, &ns);

	if (why)
		cli_usage("%s%s'%s' is not a duration: %s", what ? what : "", what ? ": " : "",
			  text, why);
	return ns;
}

int cli_descriptor(const char *text)
{
	return cli_number(text, "--fd", 0, INT32_MAX);
}

static const struct clock {
	uint32_t clock;
	const char *name;
} clocks[] = {
	{ CLOCK_MONOTONIC, "monotonic" },
	{ CLOCK_BOOTTIME, "boottime" },
	{ CLOCK_REALTIME, "realtime" },
};

const char *clock_name(uint32_t clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (clocks[i].clock == clock)
			return clocks[i].name;
	}
	return "unknown";
}

int clock_parse(const char *name, uint32_t *clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (!strcmp(clocks[i].name, name)) {
			*clock = clocks[i].clock;
			return 0;
		}
	}
	return -EINVAL;
}

/* Other errors are of the system, and have its text. */
static const struct failure {
	int error;
	int status;
	const char *reason;
} failures[] = {
	{ ENOENT, EX_UNMET, "no such timeout, or its event was read" },
	{ ESHUTDOWN, EX_UNMET, "the context was stopped" },
	{ ETIMEDOUT, EX_UNMET, NULL },
	{ EAGAIN, EX_TEMPFAIL, NULL },
	{ EACCES, EX_NOPERM, NULL },
	{ EPERM, EX_NOPERM, NULL },
	{ EINVAL, EX_USAGE, NULL },
	{ EBADF, EX_USAGE,
	  "the descriptor is not open for reading and writing: exec 3<>" TWHEEL_DEVICE },
	{ EOPNOTSUPP, EX_OSERR, "this kernel has no cells" },
	{ ENOTTY, EX_OSERR, "the loaded module does not support this operation" },
	{ 0, EX_OSERR, NULL },
};

static const struct failure *failure_of(int error)
{
	const struct failure *failure = failures;

	while (failure->error && failure->error != -error)
		failure++;
	return failure;
}

struct cli_line cli_line_of(const char *path)
{
	FILE *file = fopen(path, "re");
	struct cli_line line = { "" };

	if (file && fgets(line.s, sizeof(line.s), file))
		line.s[strcspn(line.s, "\n")] = '\0';
	if (file)
		fclose(file);
	return line;
}

/* Limits of users count by the page of the kernel, with more than 64 bytes for each timeout. */
static const char *limit_of(const struct twheel_info *info)
{
	static char text[256];

	if (info->live >= info->max_timeouts)
		snprintf(text, sizeof(text), "the limit of the context, %u timeouts, is reached",
			 info->max_timeouts);
	else if (info->user_refused &&
		 info->user_timeouts + sysconf(_SC_PAGESIZE) / 64 > info->max_user_timeouts)
		snprintf(text, sizeof(text),
			 "the limit of the user, %u timeouts (max_user_timeouts), is reached",
			 info->max_user_timeouts);
	else
		snprintf(text, sizeof(text),
			 "the limit of all users, %s timeouts (max_all_timeouts), is reached",
			 cli_line_of(CLI_PARAMETERS "max_all_timeouts").s);
	return text;
}

int cli_failure_at(const struct twheel_info *info, int error, const char *format, ...)
{
	const struct failure *failure = failure_of(error);
	const char *reason = failure->reason ? failure->reason : strerror(-error);
	struct twheel_info now = { 0 };
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (error == -EAGAIN) {
		if (!info)
			twheel_get_info(context, &now);
		reason = limit_of(info ? info : &now);
	}
	cli_error("%s: %s", what, reason);
	return failure->status;
}

/* The name of a group, or NULL. Without NSS, for a static program. */
static const char *name_of_group(unsigned int id)
{
	FILE *file = fopen("/etc/group", "re");
	const char *name = NULL;
	static char line[256];

	while (file && !name && fgets(line, sizeof(line), file)) {
		char *end = strchr(line, ':'), *number = end ? strchr(end + 1, ':') : NULL;

		if (number && strtoul(number + 1, NULL, 10) == id) {
			*end = '\0';
			name = line;
		}
	}
	if (file)
		fclose(file);
	return name;
}

/* Print who may open the device, after EACCES. */
static void explain_access(void)
{
	const char *group = NULL;
	struct stat stat_buf;

	if (!stat(TWHEEL_DEVICE, &stat_buf) && stat_buf.st_gid && stat_buf.st_mode & 0020)
		group = name_of_group(stat_buf.st_gid);
	if (!geteuid())
		cli_error(TWHEEL_DEVICE ": %s, even for root: 'dmesg' may show what forbids it,\n"
			  "such as AppArmor or SELinux", strerror(EACCES));
	else if (group)
		cli_error(TWHEEL_DEVICE ": %s: members of the group %s may open it:\n"
			  "run 'usermod -aG %s USER' as root, then log in again",
			  strerror(EACCES), group, group);
	else
		cli_error(TWHEEL_DEVICE ": %s: root alone may open it (a udev rule and the\n"
			  "group twheel come with 'make install' and with the packages)",
			  strerror(EACCES));
}

int cli_no_device(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENODEV:
	case -ENXIO:
		cli_error(TWHEEL_DEVICE " does not exist ('modprobe twheel_dev' loads its module)");
		return EX_UNAVAILABLE;
	case -ENOTTY:
	case -EISDIR:
		cli_error(TWHEEL_DEVICE " is not the device of twheel: remove it, and load the\n"
			  "module twheel_dev");
		return EX_UNAVAILABLE;
	case -EINVAL:
		cli_error("TWHEEL_BACKEND is neither 'kernel' nor 'process'");
		return EX_USAGE;
	case -EACCES:
		explain_access();
		return EX_NOPERM;
	case -EPERM:
		cli_error(TWHEEL_DEVICE ": %s: this container or unit may not use the device\n"
			  "(see --device of container engines, and DeviceAllow of systemd)",
			  strerror(EPERM));
		return EX_NOPERM;
	default:
		cli_error("no context: %s", strerror(-error));
		return failure_of(error)->status;
	}
}

static int bad_descriptor(int error, int fd)
{
	if (error == -ENOMEM)
		return cli_failure(error, "descriptor %d", fd);
	if (error == -EBADF && access(TWHEEL_DEVICE, F_OK))
		return cli_no_device(-ENOENT);
	if (error == -EBADF)
		cli_error("descriptor %d is not open: exec %d<>" TWHEEL_DEVICE " opens it", fd, fd);
	else
		cli_error("descriptor %d is not a context of " TWHEEL_DEVICE, fd);
	return EX_NOINPUT;
}

int cli_context(int fd, unsigned int flags, struct twheel_ctx **ctx)
{
	int error;

	if (fd == CLI_NO_FD) {
		/* A path, so that TWHEEL_BACKEND does not replace the device. */
		error = twheel_open(flags & TWHEEL_KERNEL ? TWHEEL_DEVICE : NULL, flags, ctx);
		if (error)
			return cli_no_device(error);
	} else {
		error = twheel_open_fd(fd, ctx);
		if (error)
			return bad_descriptor(error, fd);
	}
	context = *ctx;
	return 0;
}

void cli_tell_backend(struct twheel_ctx *ctx)
{
	struct twheel_info info;
	int error;

	if (twheel_get_info(ctx, &info) || !(info.flags & TWHEEL_INFO_PROCESS) ||
	    getenv("TWHEEL_BACKEND"))
		return;
	/* The context may have the last descriptor, so an open might fail for that reason. */
	error = access(TWHEEL_DEVICE, R_OK | W_OK) ? -errno : twheel_available();
	if (!error)
		return;
	if (error != -EMFILE && error != -ENFILE)
		cli_no_device(error);
	cli_error("this is a wheel in the process, see twheel_backends(7)");
}

void cli_need_fd(int fd)
{
	if (fd != CLI_NO_FD)
		return;
	/* The advice below would make a file in place of the device. */
	if (access(TWHEEL_DEVICE, F_OK))
		exit(cli_no_device(-ENOENT));
	cli_error("--fd N is missing. Timeouts belong to an open file, which closes at the\n"
		  "end of a command. Let the shell hold it open, and name its descriptor:\n"
		  "\n"
		  "    exec 3<>" TWHEEL_DEVICE "\n"
		  "    twheel arm 500ms --cookie 7 --fd 3\n"
		  "    twheel read --count 1 --fd 3\n");
	exit(EX_USAGE);
}

int cli_show(int argc, char **argv, unsigned int flags,
	     int (*show)(struct twheel_ctx *ctx, bool given, enum cli_format format))
{
	static const struct option options[] = {
		{ "prometheus", no_argument, NULL, 'p' },
		CLI_FD, CLI_JSON, CLI_HELP, CLI_END
	};
	enum cli_format format = CLI_AS_TEXT;
	struct twheel_ctx *ctx;
	int fd = CLI_NO_FD;
	int option, status;

	while ((option = cli_option(argc, argv, options + !(flags & CLI_PROMETHEUS))) >= 0) {
		if (option == 'f') {
			fd = cli_descriptor(optarg);
			continue;
		}
		if (format != CLI_AS_TEXT)
			cli_usage("only one of --json and --prometheus, once");
		format = option == 'j' ? CLI_AS_JSON : CLI_AS_PROMETHEUS;
	}
	cli_arguments(argc, argv, 0, 0);

	status = cli_context(fd, flags & CLI_PROCESS ? 0 : TWHEEL_KERNEL, &ctx);
	if (status)
		return status;
	cli_tell_backend(ctx);
	status = show(ctx, fd != CLI_NO_FD, format);
	twheel_close(ctx);
	return status;
}

void *cli_resize(void *old, size_t nr, size_t size)
{
	void *new = reallocarray(old, nr ? nr : 1, size);

	if (!new) {
		cli_error("out of memory");
		exit(EX_OSERR);
	}
	return new;
}

void cli_end_line(void)
{
	putchar('\n');
	/* Later calls would change errno. */
	if (cli_flush(0))
		exit(EX_IOERR);
}

int cli_flush(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	cli_error("standard output: %s", strerror(errno));
	return EX_IOERR;
}
