// SPDX-License-Identifier: GPL-2.0
/*
 * twheel: /dev/twheel from the command line.
 *
 * This file is the table of subcommands and what is said about all of them; what a
 * subcommand does is in the file of its group. None of them touches the device but
 * through libtwheel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "cli.h"

static const struct command *const commands[] = {
	&info_command,
	&stat_command,
	&watch_command,
	&setup_command,
	&arm_command,
	&mod_command,
	&move_command,
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
};

static void print_help(void)
{
	puts("Usage: twheel COMMAND [OPTION]... [ARGUMENT]...\n"
	     "\n"
	     "Timeouts by the million on a timing wheel in the kernel (" TWHEEL_DEVICE ").\n"
	     "\n"
	     "Commands, each with its own --help:");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n"
	     "Timeouts live in an open file. Let the shell hold it, and name its descriptor:\n"
	     "\n"
	     "    exec 3<>" TWHEEL_DEVICE "\n"
	     "    twheel arm 500ms --cookie 7 --fd 3\n"
	     "    twheel read --count 1 --fd 3\n"
	     "\n"
	     "A DURATION is a number with a unit (ns, us, ms, s, m, h or d), or several, the\n"
	     "largest unit first: 250us, 1.5s, 1h30m. The last number may have decimals. A\n"
	     "number without a unit is seconds. Durations are exact to the nanosecond.\n"
	     "\n"
	     "Exit status:\n"
	     "   0  done, and the answer is yes\n"
	     "   1  done, and the answer is no: no such timeout, timed out, expectation not met\n"
	     "  64  wrong usage\n"
	     "  65  a mistake in a script\n"
	     "  66  a script or a descriptor cannot be used\n"
	     "  69  there is no " TWHEEL_DEVICE ", or no debugfs for what is to be shown\n"
	     "  71  the system refused: memory, threads, an error of the device\n"
	     "  74  output could not be written, or a script not read\n"
	     "  75  the limit of live timeouts is reached: try again later\n"
	     "  77  no permission\n"
	     " 126  after and every: the command cannot be run; 127: there is none\n"
	     " 130  interrupted (load, after its account)");
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		cli_usage("a command is missing");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help();
		return cli_flush(EXIT_SUCCESS);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("twheel " TOOL_VERSION);
		return cli_flush(EXIT_SUCCESS);
	}

	command = find(argv[1]);
	if (!command)
		cli_usage("'%s' is no command", argv[1]);
	cli_begin(command);
	return cli_flush(command->run(argc - 1, argv + 1));
}
