// SPDX-License-Identifier: GPL-2.0
/*
 * scenarios: whole programs with timeouts, each with exchangeable back ends.
 *
 *	scenarios rpc|idle|heartbeats [OPTION=VALUE]... [+ OPTION=VALUE...]...
 *
 * idle has several runs with the same connections: each + begins the options of one of them.
 * A run prints one line of NAME=VALUE. It fails if a timeout is early, lost or fires twice,
 * or fires although it was cancelled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

struct usage usage = { .batch = BATCH };

/* The back end without timeouts shows the cost of the rest of a program. */

static struct timers *none_open(unsigned int n, uint64_t slack_ns)
{
	struct timers *timers = zeroed_array(1, sizeof(*timers));

	*timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	return timers;
}

static void none_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	(void)timers;
	(void)number;
	(void)expires_ns;
}

static void none_cancel(struct timers *timers, uint32_t number)
{
	(void)timers;
	(void)number;
}

static unsigned int none_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)timers;
	(void)now_ns;
	(void)numbers;
	return 0;
}

static int none_fd(struct timers *timers)
{
	(void)timers;
	return -1;
}

static void none_close(struct timers *timers)
{
	free(timers);
}

const struct backend backend_none = {
	.name	= "none",
	.open	= none_open,
	.close	= none_close,
	.arm	= none_arm,
	.cancel	= none_cancel,
	.take	= none_take,
	.fd	= none_fd,
};

static const struct backend *const backends[] = {
	&backend_none, &backend_cells, &backend_submit, &backend_wheel, &backend_mutex,
	&backend_timerfd, &backend_io_uring,
};

static const struct {
	const char *name;
	int (*run)(void);
} scenarios[] = {
	{ "rpc", rpc_main },
	{ "idle", idle_main },
	{ "heartbeats", heartbeats_main },
};

static char **options;		/* options of all runs */
static char **own_options;	/* options of this run: up to the next + */

static noreturn void bad_usage(void)
{
	fputs("usage: scenarios rpc|idle|heartbeats [OPTION=VALUE]... [+ ...]\n", stderr);
	exit(64);
}

const struct backend *find_backend(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(*backends); i++) {
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	}
	bad_usage();
}

static const char *find_option(char **at, const char *name, const char *value)
{
	size_t length = strlen(name);

	for (; *at && strcmp(*at, "+"); at++) {
		if (!strncmp(*at, name, length) && (*at)[length] == '=')
			value = *at + length + 1;
	}
	return value;
}

const char *option_text(const char *name, const char *value)
{
	return find_option(own_options, name, find_option(options, name, value));
}

bool next_run(void)
{
	while (*own_options && strcmp(*own_options, "+"))
		own_options++;
	return *own_options++;
}

uint64_t option(const char *name, uint64_t value)
{
	const char *text = option_text(name, NULL);
	char *rest;

	if (!text)
		return value;
	value = strtoull(text, &rest, 10);
	if (!*text || *rest)
		bad_usage();
	return value;
}

void add_lateness(struct samples *samples, uint64_t expires_ns, uint64_t now_ns)
{
	if (now_ns < expires_ns)
		fail("a timeout is early");
	if (samples->nr == samples->room)
		fail("more timeouts have fired than were armed");
	samples->ns[samples->nr++] = now_ns - expires_ns;
}

double lateness_percentile(struct samples *samples, unsigned int per_mille)
{
	size_t at;

	if (!samples->nr)
		return 0;
	sort(samples->ns, samples->nr);
	at = (samples->nr - 1) * per_mille / 1000;
	return samples->ns[at] / 1000.0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		bad_usage();
	options = argv + 2;
	own_options = options;
	write_to("/proc/sys/kernel/sched_schedstats", "1");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (!strcmp(scenarios[i].name, argv[1]))
			return scenarios[i].run();
	}
	bad_usage();
}
