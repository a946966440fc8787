// SPDX-License-Identifier: GPL-2.0
/*
 * twheel watch: the counters again and again, with their increase per second.
 *
 * On a terminal each screen takes the place of the one before, and what does not fit is cut off:
 * lines by the terminal, which is told not to wrap them. A screen is written at once, so that it
 * does not flicker, and changes nothing of the terminal that a signal would have to restore.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "stat.h"

#define BEGIN	"\033[H\033[J\033[?7l"	/* go to the top left, clear, do not wrap */
#define END	"\033[?7h"
#define TITLES	3	/* lines above the counters, at most */

/* Lines for counters: one below stays empty, for the cursor. */
static int lines_of_terminal(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row)
		size.ws_row = 24;
	return size.ws_row - TITLES - 1;
}

static void print(const struct sample *now, const struct sample *before, bool context,
		  uint64_t interval)
{
	bool terminal = isatty(STDOUT_FILENO);
	time_t seconds = time(NULL);
	char clock[16] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("%s%s %s, every %s%s\n", terminal ? BEGIN : "", context ? "context" : "shared wheel",
	       clock, duration_text(interval).s, terminal ? "; Ctrl-C ends" : "");
	if (now->error)
		printf("the wheel is not shown: %s\n", wheel_why(now->error));
	putchar('\n');
	sample_print(now, before, context, terminal ? lines_of_terminal() : INT_MAX);
	puts(terminal ? END : "");
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int watch(struct twheel_ctx *ctx, bool context, uint64_t interval, uint64_t left)
{
	uint64_t next = clock_ns(CLOCK_MONOTONIC);
	struct sample samples[2];
	int status;

	for (uint64_t i = 0;; i++) {
		struct sample *now = &samples[i % 2];

		status = sample_take(ctx, now);
		if (status)
			return status;
		if (now->error && !context)
			return wheel_complain(now->error);
		print(now, i ? &samples[(i + 1) % 2] : NULL, context, interval);
		status = cli_flush(0);
		if (status || i + 1 == left)
			return status;
		/* Screens that were missed while it was suspended are left out. */
		next = next + interval > now->ns ? next + interval : now->ns;
		sleep_until(next);
	}
}

static int watch_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'n' },
		CLI_FD, CLI_HELP, CLI_END
	};
	uint64_t interval = NSEC_PER_SEC, left = UINT64_MAX;
	static char buffer[BUFSIZ * 4];
	struct twheel_ctx *ctx;
	int fd = CLI_NO_FD;
	int option, status;

	while ((option = cli_option(argc, argv, options)) >= 0) {
		if (option == 'f')
			fd = cli_descriptor(optarg);
		else if (option == 'i')
			interval = cli_duration(optarg, "--interval");
		else
			left = cli_number(optarg, "--count", 1, UINT64_MAX);
	}
	if (interval < 10 * NSEC_PER_MSEC || interval > 86400 * NSEC_PER_SEC)
		cli_usage("--interval: the interval must be from 10ms to 1d");
	cli_arguments(argc, argv, 0, 0);

	status = cli_context(fd, TWHEEL_KERNEL, &ctx);
	if (status)
		return status;
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	status = watch(ctx, fd != CLI_NO_FD, interval, left);
	twheel_close(ctx);
	return status;
}

const struct command watch_command = {
	.name = "watch",
	.usage = "[--interval DURATION] [--count N] [--fd N]",
	.summary = "Show the counters again and again",
	.help =
		"Shows what 'twheel stat' shows, and the increase of each counter per second.\n"
		"Without --fd it shows the wheel that contexts share by default.\n"
		"\n"
		"  --fd N               the context behind descriptor N, and its wheel\n"
		"  --interval DURATION  time from one screen to the next (1s)\n"
		"  --count N            end after N screens\n"
		"\n"
		"Ctrl-C ends it. On a terminal, what does not fit is cut off.\n",
	.run = watch_run,
};
