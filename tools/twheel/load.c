// SPDX-License-Identifier: GPL-2.0
/*
 * twheel load: the load of a server with keep-alive connections, and its account.
 *
 * The account rests on records of the program alone: the requests for each timeout, the
 * answers of the device, and the events. It is drawn up when all threads have ended.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "json.h"
#include "progress.h"
#include "worker.h"

#define DEFAULT_TIMEOUTS	100000
#define DEFAULT_SPREAD		(2 * NSEC_PER_SEC)
#define DEFAULT_CANCEL		33
#define REDRAW_NS		(100 * NSEC_PER_MSEC)
#define SPREAD_MAX		(DURATION_MAX / 2)	/* now is added to it */
#define EX_INTERRUPTED		(128 + SIGINT)

struct run {
	struct load load;
	struct account account;
	sem_t done;		/* a worker has ended */
	uint64_t elapsed_ns;
	uint64_t user_ns;	/* CPU time of this process while it played */
	uint64_t system_ns;
	bool as_json;
};

struct thread {
	pthread_t thread;
	struct run *run;
	struct worker *worker;
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

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static uint64_t timeval_ns(struct timeval time)
{
	return time.tv_sec * NSEC_PER_SEC + time.tv_usec * NSEC_PER_USEC;
}

/* Leaves in @run the CPU time since the call that left these there, or since the start. */
static void take_cpu_time(struct run *run)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	run->user_ns = timeval_ns(usage.ru_utime) - run->user_ns;
	run->system_ns = timeval_ns(usage.ru_stime) - run->system_ns;
}

static int open_context(struct run *run, unsigned int index)
{
	struct worker *w = &run->load.workers[index];
	struct twheel_info info;
	int error, status;

	if (run->load.share && index) {
		w->ctx = run->load.workers[0].ctx;
		w->tick_ns = run->load.workers[0].tick_ns;
		return 0;
	}
	status = cli_context(CLI_NO_FD, TWHEEL_NONBLOCK, &w->ctx);
	if (status)
		return status;
	error = twheel_info(w->ctx, &info);
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
	load->workers = cli_resize(NULL, load->threads, sizeof(*load->workers));
	memset(load->workers, 0, load->threads * sizeof(*load->workers));
	for (unsigned int i = 0; i < load->threads; i++)
		worker_init(&load->workers[i], load, i);
	for (unsigned int i = 0; i < load->threads && !status; i++)
		status = open_context(run, i);
	return status;
}

static void tear_down(struct run *run)
{
	struct load *load = &run->load;

	for (unsigned int i = 0; i < load->threads; i++) {
		if (!load->share || !i)
			twheel_close(load->workers[i].ctx);
		worker_free(&load->workers[i]);
	}
	free(load->workers);
	free(load->timeouts);
}

static void *thread_main(void *arg)
{
	struct thread *thread = arg;

	worker_run(thread->worker);
	sem_post(&thread->run->done);
	return NULL;
}

static int start(struct run *run, struct thread *threads, unsigned int *nr)
{
	int error;

	for (*nr = 0; *nr < run->load.threads; ++*nr) {
		struct thread *thread = &threads[*nr];

		thread->run = run;
		thread->worker = &run->load.workers[*nr];
		error = pthread_create(&thread->thread, NULL, thread_main, thread);
		if (error) {
			run->load.stop = true;
			return cli_failure(-error, "thread %u", *nr);
		}
	}
	return 0;
}

static uint64_t settled(const struct load *load)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < load->threads; i++)
		sum += load->workers[i].settled;
	return sum;
}

/* Returns when one more worker has ended. */
static void watch(struct run *run)
{
	uint64_t end;
	struct timespec ts;

	do {
		if (interrupted)
			run->load.stop = true;
		progress_show(settled(&run->load), run->load.nr, "timeouts");
		end = clock_ns(CLOCK_REALTIME) + REDRAW_NS;
		ts.tv_sec = end / NSEC_PER_SEC;
		ts.tv_nsec = end % NSEC_PER_SEC;
	} while (sem_timedwait(&run->done, &ts));
}

static int play(struct run *run)
{
	struct thread *threads = cli_resize(NULL, run->load.threads, sizeof(*threads));
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	unsigned int nr;
	int status;

	take_cpu_time(run);
	status = start(run, threads, &nr);
	for (unsigned int i = 0; i < nr; i++)
		watch(run);
	for (unsigned int i = 0; i < nr; i++)
		pthread_join(threads[i].thread, NULL);
	progress_end();
	run->elapsed_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	take_cpu_time(run);
	free(threads);
	return status;
}

static int first_error(const struct load *load)
{
	for (unsigned int i = 0; i < load->threads; i++) {
		if (load->workers[i].error)
			return cli_failure(load->workers[i].error, "thread %u", i);
	}
	return 0;
}

static void judge(struct account *account, const struct load_timeout *t)
{
	if (t->fired > 1)
		account->duplicate += t->fired - 1;
	if (t->fired && t->cancelled)
		account->ghost++;
	else if (t->fired)
		account->fired++;
	else if (t->armed && !t->cancelled)
		account->lost++;
}

/* Cells live until they are cancelled. At this point all of them must be idle. */
static int end_cells(struct account *account, struct twheel_ctx *ctx)
{
	struct twheel_cancel_all done;
	struct twheel_stats stats;
	int error;

	error = twheel_stats(ctx, &stats);
	if (!error)
		error = twheel_cancel_all(ctx, &done);
	if (error)
		return error;
	account->kicks += stats.kicks;
	account->looks += stats.looks;
	account->leaked += done.pending + done.withdrawn;
	return 0;
}

static int add_up_context(struct run *run, struct twheel_ctx *ctx)
{
	struct twheel_info info;
	int error = 0;

	if (run->load.cells)
		error = end_cells(&run->account, ctx);
	if (!error)
		error = twheel_info(ctx, &info);
	if (error)
		return cli_failure(error, "account");
	run->account.leaked += info.live;
	return 0;
}

static int add_up(struct run *run)
{
	const struct load *load = &run->load;
	int status = 0;

	for (uint32_t i = 0; i < load->nr; i++)
		judge(&run->account, &load->timeouts[i]);
	for (unsigned int i = 0; i < load->threads; i++) {
		account_merge(&run->account, &load->workers[i].account);
		if (!status && (!load->share || !i))
			status = add_up_context(run, load->workers[i].ctx);
	}
	return status;
}

static void print_plan(const struct run *run)
{
	const struct load *load = &run->load;

	printf("%u %s over %s, %u %% to be cancelled, %u thread%s, %s, seed %ju\n",
	       load->nr, load->cells ? "cells" : "timeouts", duration_text(load->spread_ns).s,
	       load->cancel_percent, load->threads, load->threads == 1 ? "" : "s",
	       load->share ? "one context" : "a context each", load->seed);
	fflush(stdout);
}

/* An arming anew of a cell counts twice: it is cancelled and armed. */
static uint64_t operations(const struct account *account)
{
	return account->armed + account->rearmed + account->pairs + account->cancelled +
	       account->withdrawn + account->fired;
}

static uint64_t rate(const struct run *run)
{
	return (operations(&run->account) * NSEC_PER_SEC + run->elapsed_ns / 2) / run->elapsed_ns;
}

static void print_text(const struct run *run)
{
	account_print(&run->account, run->load.cells);
	printf("%-10s %10s\n", "elapsed", duration_text(run->elapsed_ns).s);
	printf("%-10s %10ju  operations per second\n", "rate", rate(run));
	printf("%-10s %10s", "cpu", duration_text(run->user_ns + run->system_ns).s);
	printf("  user %s  system %s\n", duration_text(run->user_ns).s,
	       duration_text(run->system_ns).s);
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
	account_json(&run->account, &json);
	json_number(&json, "elapsed_ns", run->elapsed_ns);
	json_number(&json, "operations_per_second", rate(run));
	json_number(&json, "cpu_user_ns", run->user_ns);
	json_number(&json, "cpu_system_ns", run->system_ns);
	json_bool(&json, "interrupted", interrupted);
	json_end(&json);
}

static int verdict(const struct run *run)
{
	if (run->as_json)
		print_json(run);
	else
		print_text(run);
	if (!account_clean(&run->account)) {
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
		status = play(run);
	if (!status)
		status = first_error(&run->load);
	if (!status)
		status = add_up(run);
	if (!status)
		status = verdict(run);
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

	sem_init(&run.done, 0, 0);
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
		"  lost       timeouts without any event\n"
		"  duplicate  second and further events of a timeout\n"
		"  ghost      events of cancelled timeouts\n"
		"  alien      events of timeouts that were never armed\n"
		"  early      events before their deadline\n"
		"  leaked     timeouts that the device still counts at the end\n"
		"  pairs      cells cancelled and armed again by traffic\n"
		"  kicks      armings of cells that needed a system call\n"
		"  looks      looks of the kernel at a cell because of the time\n"
		"  lateness   from the deadline to the time the timeout fired\n"
		"  delivery   from the deadline to the time read() returned the event\n"
		"  rate       armings, moves, cancels and events read, per second of the run\n"
		"  cpu        CPU time of this process, without the kernel's threads\n"
		"\n"
		"Exit status 1 if lost, duplicate, ghost, alien, early or leaked is not 0. An\n"
		"interrupt cancels the pending timeouts and prints the account: exit status 130.\n",
	.run = load_run,
};
