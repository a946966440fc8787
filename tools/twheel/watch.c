// SPDX-License-Identifier: GPL-2.0
/*
 * twheel watch: a picture of a wheel that is drawn again and again.
 *
 * On a terminal each picture is drawn over the one before: from the top left corner, each
 * line cleared to its end, then the lines below. The last picture remains. A picture is
 * written at once, so that it does not flicker.
 *
 * In the foreground, keys are read without a line and an echo, for q. The mode of the terminal is
 * restored at the end and while the program is suspended.
 *
 * Signals are blocked except while the program waits, so none interrupts a picture.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "picture.h"

#define CLEAR_SCREEN	"\033[2J"
#define HOME		"\033[H"
#define CLEAR_BELOW	"\033[J"
#define END_OF_LINE	"\033[K\n"

struct watch {
	struct twheel_ctx *ctx;
	uint64_t interval;
	uint64_t left;		/* pictures still to be drawn */
	bool terminal;
	struct picture picture;
};

static atomic_bool ended, suspended;
static bool reads_keys;		/* keys are read */
static struct termios saved_termios;	/* mode of the terminal, if @reads_keys */

static void end(int signal)
{
	(void)signal;
	ended = true;
}

static void suspend(int signal)
{
	(void)signal;
	suspended = true;
}

static void read_keys(void)
{
	struct termios mode;

	reads_keys = isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
		!tcgetattr(STDIN_FILENO, &saved_termios);
	if (!reads_keys)
		return;
	mode = saved_termios;
	mode.c_lflag &= ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

static void leave_keys(void)
{
	if (reads_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_termios);
}

/* The signal ends the wait; the loop draws again. */
static void wake(int signal)
{
	(void)signal;
}

static void catch(int signal, void (*handler)(int signal))
{
	struct sigaction action = { .sa_handler = handler };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(signal, &action, NULL);
}

/* Returns true if a signal or a key has ended the wait before @when, or before 68 years. */
static bool wait_until(uint64_t when)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t ns = when > now ? when - now : 0;
	uint64_t seconds = ns / NSEC_PER_SEC;
	struct timespec ts = {
		.tv_sec = seconds < INT32_MAX ? seconds : INT32_MAX,
		.tv_nsec = ns % NSEC_PER_SEC,
	};
	struct pollfd pfd = { .fd = reads_keys ? STDIN_FILENO : -1, .events = POLLIN };
	sigset_t none;
	char key = 0;
	int ret;

	sigemptyset(&none);
	ret = ppoll(&pfd, 1, &ts, &none);
	if (ret > 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q'))
		ended = true;
	if (suspended) {
		suspended = false;
		leave_keys();
		raise(SIGSTOP);
		read_keys();
	}
	return ret;
}

/* 24 lines of 80 columns if the terminal does not know, as on a serial line. */
static struct winsize size_of_terminal(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize) { .ws_row = 24, .ws_col = 80 };
	return size;
}

static int write_all(const char *text, size_t len)
{
	while (len) {
		ssize_t ret = write(STDOUT_FILENO, text, len);

		if (ret < 0 && errno != EINTR) {
			cli_error("standard output: %s", strerror(errno));
			return EX_IOERR;
		}
		text += ret > 0 ? ret : 0;
		len -= ret > 0 ? ret : 0;
	}
	return 0;
}

/* The last line of a terminal stays empty, for the cursor. */
static void draw_on(FILE *out, const struct watch *watch)
{
	struct winsize size = size_of_terminal();

	if (!watch->terminal) {
		picture_draw(&watch->picture, out, 80, 60, "\n");
		fputc('\n', out);
		return;
	}
	fputs(HOME, out);
	picture_draw(&watch->picture, out, size.ws_col, size.ws_row - 1, END_OF_LINE);
	fputs(CLEAR_BELOW, out);
}

static int draw(const struct watch *watch)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int status;

	if (!out)
		return cli_failure(-errno, "picture");
	draw_on(out, watch);
	if (fclose(out)) {
		free(text);
		return cli_failure(-errno, "picture");
	}
	status = write_all(text, len);
	free(text);
	return status;
}

static int sample(struct watch *watch)
{
	struct picture *picture = &watch->picture;
	int error;

	picture_set_status(picture, time(NULL), watch->interval, watch->terminal);
	picture->before = picture->now;
	error = twheel_get_info(watch->ctx, &picture->info);
	if (!error)
		error = twheel_get_stats(watch->ctx, &picture->now.stats);
	picture->now.ns = clock_ns(CLOCK_MONOTONIC);
	if (error)
		return cli_failure(error, "statistics");

	error = wheel_read(&picture->now.wheel, WHEEL_DIRECTORY, &picture->info);
	picture->why = error ? wheel_why(error) : NULL;
	return error && picture->whole ? wheel_complain(error) : 0;
}

/* The first sample is its own past. */
static int begin(struct watch *watch)
{
	struct picture *picture = &watch->picture;
	int status = sample(watch);

	if (status)
		return status;
	picture->before = picture->now;
	if (watch->terminal)
		return write_all(CLEAR_SCREEN, strlen(CLEAR_SCREEN));
	return 0;
}

static int watch(struct watch *watch)
{
	uint64_t next = clock_ns(CLOCK_MONOTONIC), now;
	int status = begin(watch);

	while (!status && !ended) {
		status = draw(watch);
		if (status || !--watch->left)
			break;
		/* Pictures that were missed while it was suspended are left out. */
		next += watch->interval;
		now = clock_ns(CLOCK_MONOTONIC);
		if (next < now)
			next = now;
		while (wait_until(next) && !ended && !status)
			status = draw(watch);
		if (!ended && !status)
			status = sample(watch);
	}
	return status;
}

static void take_option(struct watch *watch, int option, int *fd)
{
	switch (option) {
	case 'f':
		*fd = cli_descriptor(optarg);
		break;
	case 'i':
		watch->interval = cli_duration(optarg, "--interval");
		if (watch->interval < 10 * NSEC_PER_MSEC)
			cli_usage("--interval: the interval must be 10ms or longer");
		break;
	case 'n':
		watch->left = cli_number(optarg, "--count", 1, UINT64_MAX);
		break;
	}
}

static int watch_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'n' },
		CLI_FD, CLI_HELP, CLI_END
	};
	struct watch w = { .interval = NSEC_PER_SEC, .left = UINT64_MAX };
	int fd = CLI_NO_FD;
	int option, status;

	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&w, option, &fd);
	cli_arguments(argc, argv, 0, 0);

	status = cli_context(fd, TWHEEL_KERNEL, &w.ctx);
	if (status)
		return status;
	w.terminal = isatty(STDOUT_FILENO);
	w.picture.whole = fd == CLI_NO_FD;
	catch(SIGINT, end);
	catch(SIGTERM, end);
	catch(SIGWINCH, wake);
	catch(SIGCONT, wake);
	catch(SIGTSTP, suspend);
	read_keys();
	status = watch(&w);
	leave_keys();
	twheel_close(w.ctx);
	return status;
}

const struct command watch_command = {
	.name = "watch",
	.usage = "[--interval DURATION] [--count N] [--fd N]",
	.summary = "Show a live picture of the wheel",
	.help =
		"Without --fd it shows the wheel that contexts share by default.\n"
		"\n"
		"  --fd N               the context behind descriptor N, and its wheel\n"
		"  --interval DURATION  time from one picture to the next (1s)\n"
		"  --count N            end after N pictures\n"
		"\n"
		"q and Ctrl-C end it, Ctrl-Z suspends it; fg continues.\n"
		"\n"
		"Root alone can see a wheel, by /sys/kernel/debug/twheel. If that cannot be\n"
		"read, the picture says so, and shows the context alone.\n"
		"\n"
		"The picture shows the operations per second; the slots in use, for each level\n"
		"of the wheel; and for a context a histogram of how late expirations were, in\n"
		"powers of two, in the last interval and in all. Levels above the fourth are\n"
		"shown while they are in use.\n"
		"\n"
		"A terminal should have 40 columns. A line that does not fit ends in '>'.\n"
		"If the output is not a terminal, pictures follow each other, 80 columns wide.\n",
	.run = watch_run,
};
