/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A subcommand of the tool. Each file of commands defines its own; the table is
 * where main() is.
 */
#ifndef TWHEEL_COMMAND_H
#define TWHEEL_COMMAND_H

#include <stdbool.h>

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
extern const struct command contexts_command;
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

#endif /* TWHEEL_COMMAND_H */
