// SPDX-License-Identifier: GPL-2.0
/*
 * twheel: /dev/twheel from the command line.
 *
 * The table of subcommands and the help on all of them. Each group of subcommands has a
 * file of its own. All use of the device goes through libtwheel.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct command help_command;

static const struct command *const commands[] = {
	&info_command,
	&stat_command,
	&watch_command,
	&setup_command,
	&arm_command,
	&mod_command,
	&disarm_command,
	&cancel_command,
	&get_command,
	&list_command,
	&read_command,
	&stop_command,
	&sleep_command,
	&after_command,
	&every_command,
	&run_command,
	&load_command,
	&bench_command,
	&help_command,
};

static void print_help(void)
{
	puts("Usage: twheel COMMAND [OPTION]... [ARGUMENT]...\n"
	     "\n"
	     "Timeouts by the million on a timing wheel in the kernel (" TWHEEL_DEVICE ").\n"
	     "\n"
	     "Commands ('twheel help COMMAND' explains one):");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n"
	     "Timeouts belong to an open file. Let the shell hold it open, and name its\n"
	     "descriptor:\n"
	     "\n"
	     "    exec 3<>" TWHEEL_DEVICE "\n"
	     "    twheel arm 500ms --cookie 7 --fd 3\n"
	     "    twheel read --count 1 --fd 3\n"
	     "\n"
	     "A DURATION is a number with a unit (ns, us, ms, s, m, h or d), or several, the\n"
	     "largest unit first: 250us, 1.5s, 1h30m. The last number may have decimals. A\n"
	     "number without a unit is seconds. Durations are exact to the nanosecond.\n"
	     "\n"
	     "twheel(1) lists the values of the exit status.");
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	cli_begin(NULL);
	cli_usage("'%s' is not a command", name);
}

static int help_run(int argc, char **argv)
{
	static const struct option options[] = { CLI_HELP, CLI_END };
	char **arguments;

	while (cli_option(argc, argv, options) >= 0)
		;
	arguments = cli_arguments(argc, argv, 0, 1);
	if (arguments[0]) {
		cli_begin(find(arguments[0]));
		cli_help();
	}
	print_help();
	return 0;
}

static const struct command help_command = {
	.name = "help",
	.usage = "[COMMAND]",
	.summary = "Show the help of the tool, or of a command",
	.help =
		"'twheel help COMMAND' prints what 'twheel COMMAND --help' does.\n",
	.run = help_run,
};

static bool is_one_of(const char *text, const char *name, const char *letter)
{
	return !strcmp(text, name) || !strcmp(text, letter);
}

int main(int argc, char **argv)
{
	const struct command *command;
	int used;

	/* A context must not take the place of one that is closed: an access is to fail as such. */
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		used = open("/dev/null", fd ? O_RDONLY : O_WRONLY);
		if (used != fd)
			return EX_OSERR;
	}
	if (argc < 2)
		cli_usage("a command is missing");
	if (is_one_of(argv[1], "--help", "-h")) {
		print_help();
		return cli_flush(EXIT_SUCCESS);
	}
	if (is_one_of(argv[1], "--version", "-V")) {
		puts("twheel " TOOL_VERSION);
		return cli_flush(EXIT_SUCCESS);
	}
	if (argv[1][0] == '-')
		cli_usage("unknown option '%s'", argv[1]);

	command = find(argv[1]);
	cli_begin(command);
	return cli_flush(command->run(argc - 1, argv + 1));
}
