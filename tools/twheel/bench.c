// SPDX-License-Identifier: GPL-2.0
/*
 * twheel bench: the benchmark, a program of its own, on the running kernel.
 */
#define _GNU_SOURCE
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Paths of the benchmark, relative to the directory of this program: installed, and as built. */
static const char *const places[] = { "../libexec/twheel/bench", "twheel-bench" };

static const char *find_program(void)
{
	static char path[PATH_MAX + 32];
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	const char *directory;

	if (length < 0)
		return NULL;
	own[length] = '\0';
	directory = dirname(own);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, places[i]);
		if (!access(path, X_OK))
			return path;
	}
	return NULL;
}

static int run_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{ "system", required_argument, NULL, 's' },
		{ "operation", required_argument, NULL, 'o' },
		{ "repeat", required_argument, NULL, 'r' },
		CLI_JSON, CLI_HELP, CLI_END
	};
	static const char *const usual[] = { "1000", "10000", "100000" };
	const char *program, *systems = "", **arguments;
	char **numbers;
	int c, error, status, nr = 2;

	while ((c = cli_option(argc, argv, options)) != -1) {
		if (c == 's')
			systems = optarg;
		if (c == 'r')
			cli_number(optarg, "--repeat", 1, 15);
	}
	numbers = cli_arguments(argc, argv, 0, 8);
	for (int i = 0; numbers[i]; i++)
		cli_number(numbers[i], "N", 1000, 1000000);
	/* The program takes the same arguments. */
	arguments = cli_resize(NULL, argc + 2 + ARRAY_SIZE(usual), sizeof(*arguments));
	arguments[0] = "twheel bench";
	arguments[1] = "--here";
	for (int i = 1; i < argc; i++)
		arguments[nr++] = argv[i];
	for (size_t i = 0; i < ARRAY_SIZE(usual) && !*numbers; i++)
		arguments[nr++] = usual[i];
	arguments[nr] = NULL;
	error = twheel_available();
	if (error) {
		status = cli_no_device(error);
		if (!strcmp(systems, "twheel"))
			return status;
		cli_error("measuring a wheel in the process instead, see twheel_backends(7)");
	}
	program = find_program();
	if (program)
		execv(program, (char *const *)arguments);
	cli_error("the benchmark, %s beside bin, cannot be run", "libexec/twheel/bench");
	return EX_UNAVAILABLE;
}

const struct command bench_command = {
	.name = "bench",
	.usage = "[OPTION]... [N]...",
	.summary = "Measure twheel and its peers on this machine, in nanoseconds",
	.help =
	"Measures what N timeouts cost (1000, 10000 and 100000) with the device, with the\n"
	"library's wheel in the process, and with their peers: timerfd, POSIX timers,\n"
	"io_uring, the mISDN timer device, and a bare wheel. What does not exist is left\n"
	"out. The best of several results counts. This takes some minutes. Standard error\n"
	"describes the machine. Keep the machine idle.\n"
	"\n"
	"  --system NAMES     some of twheel,process,timerfd,posix,io_uring,misdn,wheel\n"
	"  --operation NAMES  some of those in the result\n"
	"  --repeat TIMES     runs; the best counts (5)\n"
	"  --json             a line of JSON for each result\n",
	.run = run_bench,
};
