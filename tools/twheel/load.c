// SPDX-License-Identifier: GPL-2.0
/*
 * twheel load: the load of a server with keep-alive connections, and its account.
 *
 * The account rests on records of the program alone: the requests for each timeout, the
 * answers of the device, and the events. It is drawn up when all threads have ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "json.h"
#include "worker.h"

#define DEFAULT_TIMEOUTS	100000
#define DEFAULT_SPREAD		(2 * NSEC_PER_SEC)
#define DEFAULT_CANCEL		33
#define REDRAW_NS		(100 * NSEC_PER_MSEC)
#define SPREAD_MAX		(DURATION_MAX / 4)	/* now and traffic are added to it */
#define EX_INTERRUPTED		(128 + SIGINT)

static const char *const count_names[LOAD_COUNTS] = {
	[ARMED]		= "armed",
	[REARMED]	= "rearmed",
	[REVIVED]	= "revived",
	[CANCELLED]	= "cancelled",
	[WITHDRAWN]	= "withdrawn",
	[FIRED]		= "fired",
	[LOST]		= "lost",
	[DUPLICATE]	= "duplicate",
	[ALIEN]		= "alien",
	[EARLY]		= "early",
	[LEAKED]	= "leaked",
	[KICKS]		= "kicks",
	[LOOKS]		= "looks",
};

/* How late the median, 99 % and all of the events were. */
struct percentiles {
	uint64_t p50;
	uint64_t p99;
	uint64_t max;
};

struct run {
	struct load load;
	struct worker *workers;
	uint64_t count[LOAD_COUNTS];
	struct percentiles lateness;
	struct percentiles delivery;
	uint64_t elapsed_ns;
	bool as_json;
};

static atomic_bool interrupted;

static void interrupt(int signal)
{
	(void)signal;
	interrupted = true;
}

/* A second signal kills the process. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int open_context(struct run *run, unsigned int index)
{
	struct worker *w = &run->workers[index];
	struct twheel_info info;
	int error, status;

	if (run->load.share && index) {
		w->ctx = run->workers[0].ctx;
		w->tick_ns = run->workers[0].tick_ns;
		return 0;
	}
	status = cli_context(CLI_NO_FD, TWHEEL_NONBLOCK, &w->ctx);
	if (status)
		return status;
	if (!index)
		cli_tell_backend(w->ctx);
	error = twheel_get_info(w->ctx, &info);
	if (error)
		return cli_failure(error, "info");
	w->tick_ns = info.tick_ns;
	return 0;
}

static int set_up(struct run *run)
{
	struct load *load = &run->load;
	int status = 0;

	load->timeouts = cli_resize(NULL, load->nr, sizeof(*load->timeouts));
	memset(load->timeouts, 0, load->nr * sizeof(*load->timeouts));
	run->workers = cli_resize(NULL, load->threads, sizeof(*run->workers));
	memset(run->workers, 0, load->threads * sizeof(*run->workers));
	for (unsigned int i = 0; i < load->threads; i++)
		worker_init(&run->workers[i], load, i);
	for (unsigned int i = 0; i < load->threads && !status; i++)
		status = open_context(run, i);
	return status;
}

static void tear_down(struct run *run)
{
	struct load *load = &run->load;

	for (unsigned int i = 0; i < load->threads; i++) {
		if (!load->share || !i)
			twheel_close(run->workers[i].ctx);
		worker_free(&run->workers[i]);
	}
	free(run->workers);
	free(load->timeouts);
}

static void *thread_main(void *worker)
{
	worker_run(worker);
	return NULL;
}

static int start(struct run *run, pthread_t *threads, unsigned int *nr)
{
	int error;

	for (*nr = 0; *nr < run->load.threads; ++*nr) {
		error = pthread_create(&threads[*nr], NULL, thread_main, &run->workers[*nr]);
		if (error) {
			run->load.stop = true;
			cli_error("thread %u: %s", *nr, strerror(error));
			return EX_OSERR;
		}
	}
	return 0;
}

/* A bar on standard error, in one line of a terminal. It is at most 80 columns wide. */
static void show_progress(const struct load *load)
{
	static const char bar[] = "##############################";
	unsigned int percent = (uint64_t)load->ended * 100 / load->nr;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r[%-30.*s] %3u%% of %u timeouts\033[K", percent * 30 / 100, bar,
			percent, load->nr);
}

/* Returns when the thread has ended. */
static void watch_thread(struct run *run, pthread_t thread)
{
	struct timespec ts;
	uint64_t end;

	do {
		if (interrupted)
			run->load.stop = true;
		show_progress(&run->load);
		end = clock_ns(CLOCK_REALTIME) + REDRAW_NS;
		ts.tv_sec = end / NSEC_PER_SEC;
		ts.tv_nsec = end % NSEC_PER_SEC;
	} while (pthread_timedjoin_np(thread, NULL, &ts));
}

static int run_threads(struct run *run)
{
	pthread_t *threads = cli_resize(NULL, run->load.threads, sizeof(*threads));
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	unsigned int nr;
	int status;

	status = start(run, threads, &nr);
	for (unsigned int i = 0; i < nr; i++)
		watch_thread(run, threads[i]);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	run->elapsed_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	free(threads);
	return status;
}

static int first_error(const struct run *run)
{
	for (unsigned int i = 0; i < run->load.threads; i++) {
		const struct worker *w = &run->workers[i];

		if (w->error)
			return cli_failure_at(&w->info, w->error, "thread %u", i);
	}
	return 0;
}

/* Nothing may be pending or unread at the end. Cells live until they are cancelled. */
static int sum_context(struct run *run, struct twheel_ctx *ctx)
{
	struct twheel_cancel_all done;
	struct twheel_stats stats;
	int error;

	error = twheel_cancel_timeouts(ctx, &done);
	if (!error)
		error = twheel_get_stats(ctx, &stats);
	if (error)
		return cli_failure(error, "account");
	run->count[KICKS] += stats.kicks;
	run->count[LOOKS] += stats.looks;
	run->count[LEAKED] += done.pending + done.withdrawn + stats.live;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

	return one < two ? -1 : one > two;
}

static struct percentiles percentiles_of(uint64_t *values, uint32_t nr)
{
	if (!nr)
		return (struct percentiles) { 0 };
	qsort(values, nr, sizeof(*values), compare);
	return (struct percentiles) {
		.p50 = values[(nr - 1) / 2],
		.p99 = values[(nr - 1) - nr / 100],
		.max = values[nr - 1],
	};
}

static void check_timeouts(struct run *run)
{
	const struct load *load = &run->load;
	uint64_t *lateness = cli_resize(NULL, load->nr, sizeof(*lateness));
	uint64_t *delivery = cli_resize(NULL, load->nr, sizeof(*delivery));
	uint32_t fired = 0;

	for (uint32_t i = 0; i < load->nr; i++) {
		const struct load_timeout *t = &load->timeouts[i];

		if (t->ends)
			run->count[DUPLICATE] += t->ends - 1;
		else if (t->id)
			run->count[LOST]++;
		if (t->fired) {
			lateness[fired] = t->lateness;
			delivery[fired++] = t->delivery;
		}
	}
	run->lateness = percentiles_of(lateness, fired);
	run->delivery = percentiles_of(delivery, fired);
	free(lateness);
	free(delivery);
}

static int sum_results(struct run *run)
{
	int status = 0;

	check_timeouts(run);
	for (unsigned int i = 0; i < run->load.threads; i++) {
		for (int j = 0; j < LOAD_COUNTS; j++)
			run->count[j] += run->workers[i].count[j];
		if (!status && (!run->load.share || !i))
			status = sum_context(run, run->workers[i].ctx);
	}
	return status;
}

static bool is_clean(const struct run *run)
{
	for (int i = LOST; i <= LEAKED; i++) {
		if (run->count[i])
			return false;
	}
	return true;
}

static void print_plan(const struct run *run)
{
	const struct load *load = &run->load;

	printf("%u %s over %s, %u %% to be cancelled, %u thread%s, %s, seed %ju",
	       load->nr, load->cells ? "cells" : "timeouts", duration_text(load->spread_ns).s,
	       load->cancel_percent, load->threads, load->threads == 1 ? "" : "s",
	       load->share ? "one context" : "a context each", load->seed);
	cli_end_line();
}

/* An arming anew of a cell counts twice: it is cancelled and armed. */
static uint64_t rate(const struct run *run)
{
	const uint64_t *count = run->count;
	uint64_t operations = count[ARMED] + count[REARMED] * (run->load.cells ? 2 : 1) +
			      count[CANCELLED] + count[WITHDRAWN] + count[FIRED];

	return (operations * NSEC_PER_SEC + run->elapsed_ns / 2) / run->elapsed_ns;
}

static void print_percentiles(const char *name, const struct percentiles *percentiles)
{
	printf("%-10s p50 %s  p99 %s  max %s\n", name, duration_text(percentiles->p50).s,
	       duration_text(percentiles->p99).s, duration_text(percentiles->max).s);
}

static void print_text(const struct run *run)
{
	for (int i = 0; i < (run->load.cells ? LOAD_COUNTS : KICKS); i++)
		printf("%-10s %10ju\n", count_names[i], run->count[i]);
	if (run->count[FIRED]) {
		print_percentiles("lateness", &run->lateness);
		print_percentiles("delivery", &run->delivery);
	}
	printf("%-10s %10s\n", "elapsed", duration_text(run->elapsed_ns).s);
	printf("%-10s %10ju  operations per second\n", "rate", rate(run));
	if (interrupted)
		puts("interrupted: pending timeouts were cancelled");
}

static void print_json(const struct run *run)
{
	const struct load *load = &run->load;
	struct json json;

	json_begin(&json);
	json_number(&json, "timeouts", load->nr);
	json_number(&json, "spread_ns", load->spread_ns);
	json_number(&json, "cancel_percent", load->cancel_percent);
	json_number(&json, "threads", load->threads);
	json_number(&json, "contexts", load->share ? 1 : load->threads);
	json_bool(&json, "cells", load->cells);
	json_number(&json, "seed", load->seed);
	for (int i = 0; i < LOAD_COUNTS; i++)
		json_number(&json, count_names[i], run->count[i]);
	if (run->count[FIRED]) {
		json_number(&json, "lateness_p50_ns", run->lateness.p50);
		json_number(&json, "lateness_p99_ns", run->lateness.p99);
		json_number(&json, "lateness_max_ns", run->lateness.max);
		json_number(&json, "delivery_p50_ns", run->delivery.p50);
		json_number(&json, "delivery_p99_ns", run->delivery.p99);
		json_number(&json, "delivery_max_ns", run->delivery.max);
	}
	json_number(&json, "elapsed_ns", run->elapsed_ns);
	json_number(&json, "operations_per_second", rate(run));
	json_bool(&json, "interrupted", interrupted);
	json_end(&json);
}

static int exit_status(const struct run *run)
{
	if (run->as_json)
		print_json(run);
	else
		print_text(run);
	if (!is_clean(run)) {
		cli_error("the account is not clean (seed %ju)", run->load.seed);
		return EX_UNMET;
	}
	return interrupted ? EX_INTERRUPTED : 0;
}

static int run_load(struct run *run)
{
	int status;

	status = set_up(run);
	if (!status && !run->as_json)
		print_plan(run);
	if (!status)
		status = run_threads(run);
	if (!status)
		status = first_error(run);
	if (!status)
		status = sum_results(run);
	if (!status)
		status = exit_status(run);
	tear_down(run);
	return status;
}

/* Does not wait for entropy, which a machine without a cycle counter may never have. */
static uint64_t any_seed(void)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_ns(CLOCK_REALTIME);
	return seed;
}

static void take_option(struct run *run, int option)
{
	struct load *load = &run->load;

	switch (option) {
	case 'n':
		load->nr = cli_number(optarg, "--timeouts", 1, UINT32_MAX);
		break;
	case 'd':
		load->spread_ns = cli_duration(optarg, "--spread");
		if (load->spread_ns > SPREAD_MAX)
			cli_usage("--spread: at most %s", duration_text(SPREAD_MAX).s);
		break;
	case 'p':
		load->cancel_percent = cli_number(optarg, "--cancel", 0, 100);
		break;
	case 't':
		load->threads = cli_number(optarg, "--threads", 1, INT32_MAX);
		break;
	case 's':
		load->seed = cli_number(optarg, "--seed", 0, UINT64_MAX);
		break;
	case 'o':
		load->share = true;
		break;
	case 'C':
		load->cells = true;
		break;
	case 'j':
		run->as_json = true;
		break;
	}
}

static int load_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "timeouts", required_argument, NULL, 'n' },
		{ "spread", required_argument, NULL, 'd' },
		{ "cancel", required_argument, NULL, 'p' },
		{ "threads", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "share", no_argument, NULL, 'o' },
		{ "cells", no_argument, NULL, 'C' },
		CLI_JSON, CLI_HELP, CLI_END
	};
	static struct run run;
	struct load *load = &run.load;
	int option;

	load->nr = DEFAULT_TIMEOUTS;
	load->spread_ns = DEFAULT_SPREAD;
	load->cancel_percent = DEFAULT_CANCEL;
	load->threads = sysconf(_SC_NPROCESSORS_ONLN);
	load->seed = any_seed();
	while ((option = cli_option(argc, argv, options)) >= 0)
		take_option(&run, option);
	cli_arguments(argc, argv, 0, 0);
	if (load->threads > load->nr)
		load->threads = load->nr;

	catch_signals();
	return run_load(&run);
}

const struct command load_command = {
	.name = "load",
	.usage = "[--timeouts N] [--spread DURATION] [--cancel PERCENT]\n"
		 "       [OPTION]...",
	.summary = "Play the load of a keep-alive server and give an account of it",
	.help =
		"  --timeouts N       number of timeouts (100000)\n"
		"  --spread DURATION  the largest distance of a deadline (2s)\n"
		"  --cancel PERCENT   share of timeouts to cancel (33)\n"
		"  --threads T        threads that share the work (one per CPU)\n"
		"  --share            one context for all threads instead of one per thread\n"
		"  --cells            timeouts are cells: traffic and cancels are exchanges in\n"
		"                     memory, and a connection has traffic several times\n"
		"  --seed S           repeats a plan (random)\n"
		"  --json             prints the account as one JSON object, times in nanoseconds\n"
		"\n"
		"Timeouts are armed in batches. Traffic puts a quarter of them off, by up to a\n"
		"quarter of the spread. A quarter of the traffic and of the cancels comes within\n"
		"a tick of the deadline: such a cancel may come too late, and the timeout fires.\n"
		"\n"
		"  armed      timeouts armed\n"
		"  rearmed    timeouts put off by traffic\n"
		"  revived    of these, timeouts that had fired and whose event was unread\n"
		"  cancelled  timeouts cancelled while pending\n"
		"  withdrawn  timeouts cancelled after they had fired, their event unread\n"
		"  fired      timeouts whose event was read\n"
		"  lost       timeouts that neither fired nor were cancelled\n"
		"  duplicate  second events of a timeout, and events of cancelled ones\n"
		"  alien      events of timeouts that were never armed\n"
		"  early      events before their deadline\n"
		"  leaked     timeouts that the device still counts at the end\n"
		"  kicks      armings of cells that needed a system call\n"
		"  looks      looks of the kernel at a cell because of the time\n"
		"  lateness   from the deadline to the time the timeout fired\n"
		"  delivery   from the deadline to the time read() returned the event\n"
		"  elapsed    duration of the run\n"
		"  rate       armings, moves, cancels and events read, per second of the run\n"
		"\n"
		"Exit status 1 if lost, duplicate, alien, early or leaked is not 0. An\n"
		"interrupt cancels the pending timeouts and prints the account: exit status 130.\n",
	.run = load_run,
};
