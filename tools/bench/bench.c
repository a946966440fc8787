// SPDX-License-Identifier: GPL-2.0
/*
 * bench: measures the cost of very many timeouts with the device and its peers.
 *
 * For each system and each number of timeouts, a context goes through several measurements:
 *
 *	memory	all armed, and the memory that they take
 *	batch	all armed, a quarter moved, the others cancelled
 *	single	all armed and all cancelled, with a call each
 *	burst	all armed for one moment, waited for and collected
 *	spread	the same over a second, exact, and with slack; how late they are collected
 *	cells	all armed and cancelled, again and again, at a pace
 *
 * Preparation is not measured. Each measurement is repeated, and the median is printed as a line
 * of JSON. A module measures the kernel's own timers, and reports how long the CPU was
 * idle.
 *
 * With --here no test VM is needed. The program measures nanoseconds on the running kernel,
 * takes the best of several repetitions, and prints a table. It changes no setting of the
 * system. If the system lacks or forbids something, it prints a message and leaves that out.
 */
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "cells.h"
#include "clock.h"
#include "here.h"
#include "machine.h"

#define REPEAT_MAX	15
#define FEW		1000
#define MANY		100000		/* measurements with so many are not repeated */
#define VERY_MANY	1000000
#define SEARCH_MANY	64		/* as @search of struct system, with VERY_MANY */
#define BATCH		1024		/* operations per call */
#define SLACK_NS	(10 * NSEC_PER_MSEC)
#define BLOCK_NS	(256 * NSEC_PER_MSEC)	/* a block of the wheel */

/**
 * struct system - a back end whose operations are measured
 * @name: name in the results
 * @backend: the back end
 * @max: maximum number of timeouts that it is measured with; 0: any
 * @max_reason: reason for @max
 * @max_fire: maximum number of timeouts when they fire; 0: any
 * @search: maximum number of measured cancels other than of the oldest, because each walks
 *	a list. 0: any
 */
struct system {
	const char *name;
	const struct backend *backend;
	unsigned int max;
	const char *max_reason;
	unsigned int max_fire;
	unsigned int search;
};

static const struct system systems[] = {
	{ .name = "twheel", .backend = &backend_submit },
	{ .name = "process", .backend = &backend_process },
	{ .name = "timerfd", .backend = &backend_new_timerfd, .max_fire = 100000 },
	{ .name = "posix", .backend = &backend_posix, .max = 100000, .max_reason =
	  "left out because each call walks one of 512 hash chains with all timers" },
	{ .name = "io_uring", .backend = &backend_io_uring, .search = 1024 },
	{ .name = "misdn", .backend = &backend_misdn, .search = 1024 },
	{ .name = "wheel", .backend = &backend_eager },
};

#define NR_SYSTEMS	(sizeof(systems) / sizeof(*systems))

static const struct system *const twheel = &systems[0], *const process = &systems[1];
static const struct system cells = { .name = "twheel", .backend = &backend_new_cells };

/* Systems of the module: the engine, its peers, and a bare list. */
static const char *const kernel_systems[] = { "twheel", "timer_list", "hrtimer", "list" };

static const char *const kernel_operations[] = {
	"kernel_arm", "kernel_rearm_random", "kernel_cancel_random",
};

struct result {
	const char *operation;
	double values[REPEAT_MAX];
	unsigned int nr;
};

static struct result results[32];
static unsigned int nr_results;

static const char *only_systems, *only_operations;
static const char *clock_unit = "instructions";
static unsigned int repeat = 3;
static bool is_here, as_json;

struct usage usage = { .batch = BATCH, .measured = true };

static uint64_t *deadlines;	/* by number, on CLOCK_MONOTONIC */
static uint32_t *ascending;	/* all numbers, in the order of arming */
static uint32_t *shuffled;	/* all numbers, in random order */
static uint32_t *chosen;	/* some of them */
static bool *used;		/* by number: it was cancelled */

static unsigned int at_most(unsigned int nr, unsigned int limit)
{
	return limit && nr > limit ? limit : nr;
}

/* Results */

/* Returns whether @name is in the comma-separated list. No list contains every name. */
static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (!list)
		return true;
	for (const char *at = list; (at = strstr(at, name)); at += length) {
		if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
			return true;
	}
	return false;
}

static bool wants(const char *operation)
{
	return listed(only_operations, operation);
}

static bool wants_system(const char *name)
{
	return listed(only_systems, name);
}

static void add_result(const char *operation, uint64_t total, unsigned int timeouts)
{
	struct result *r = results;

	if (!wants(operation))
		return;
	while (r < results + nr_results && strcmp(r->operation, operation))
		r++;
	if (r == results + nr_results)
		nr_results++;
	r->operation = operation;
	r->values[r->nr++] = (double)total / timeouts;
}

static void report(const char *system, const char *operation, unsigned int n, double value,
		   const char *unit)
{
	if (is_here && !as_json) {
		here_add(system, operation, n, value);
		return;
	}
	print_result(system, operation, n, value, unit);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report_results(const char *system, unsigned int n)
{
	for (struct result *r = results; r < results + nr_results; r++) {
		qsort(r->values, r->nr, sizeof(r->values[0]), compare);
		report(system, r->operation, n, r->values[is_here ? 0 : r->nr / 2], clock_unit);
		r->nr = 0;
	}
	nr_results = 0;
}

/* Timeouts */

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 32) % limit;
}

static void create_numbers(unsigned int n)
{
	random_state = 88172645463325252ULL;
	deadlines = zeroed_array(n, sizeof(*deadlines));
	ascending = zeroed_array(n, sizeof(*ascending));
	shuffled = zeroed_array(n, sizeof(*shuffled));
	chosen = zeroed_array(n, sizeof(*chosen));
	used = zeroed_array(n, sizeof(*used));
	for (unsigned int i = 0; i < n; i++) {
		unsigned int j = random_below(i + 1);

		ascending[i] = i;
		shuffled[i] = shuffled[j];
		shuffled[j] = i;
	}
}

static void free_numbers(void)
{
	free(deadlines);
	free(ascending);
	free(shuffled);
	free(chosen);
	free(used);
}

/* One to two hours away. */
static void set_far_deadlines(unsigned int n)
{
	uint64_t base = clock_ns() + 3600 * NSEC_PER_SEC;

	for (unsigned int i = 0; i < n; i++)
		deadlines[i] = base + random_below(3600000) * NSEC_PER_MSEC;
}

enum { RANDOM, OLDEST };

/* Choose @nr timeouts that are not used, and mark them as used. */
static void choose(int how, unsigned int n, unsigned int nr)
{
	unsigned int got = 0;

	for (unsigned int i = 0; i < n && got < nr; i++) {
		uint32_t number = how == RANDOM ? shuffled[i] : i;

		if (!used[number]) {
			used[number] = true;
			chosen[got++] = number;
		}
	}
}

/* Measurements */

static void run_action(const struct system *s, struct timers *timers, enum action action,
		       const uint32_t *which, unsigned int nr)
{
	const struct backend *backend = s->backend;

	if (backend->all) {
		backend->all(timers, action, which, nr, deadlines);
		return;
	}
	for (unsigned int i = 0; i < nr; i++) {
		switch (action) {
		case ARM:
			backend->arm(timers, which[i], deadlines[which[i]]);
			break;
		case MOVE:
			backend->move(timers, which[i], deadlines[which[i]]);
			break;
		case CANCEL:
			backend->cancel(timers, which[i]);
			break;
		}
	}
	flush_timers(backend, timers);
}

/* @also: the operation is this one, too, if the system makes a call for each timeout. */
static void measure(const struct system *s, struct timers *timers, const char *operation,
		    const char *also, enum action action, const uint32_t *which, unsigned int nr)
{
	uint64_t total;

	if (s->backend->flush)
		also = NULL;
	clock_wanted = wants(operation) || (also && wants(also));
	clock_take();
	run_action(s, timers, action, which, nr);
	total = clock_take();
	clock_wanted = 0;
	add_result(operation, total, nr);
	if (also)
		add_result(also, total, nr);
}

/* The number of measured cancels other than of the oldest, at most @nr. */
static unsigned int max_cancels(const struct system *s, unsigned int n, unsigned int nr)
{
	return at_most(nr, s->search && n >= VERY_MANY ? SEARCH_MANY : s->search);
}

static void measure_batch(const struct system *s, unsigned int n)
{
	unsigned int quarter = n / 4, search = max_cancels(s, n, quarter);
	struct timers *timers;

	memset(used, 0, n * sizeof(*used));
	set_far_deadlines(n);
	timers = s->backend->open(n, 0);
	measure(s, timers, "arm_batch", "arm_single", ARM, ascending, n);
	if (s->backend->all || s->backend->move) {
		set_far_deadlines(n);
		choose(RANDOM, n, search);
		measure(s, timers, "rearm_batch", NULL, MOVE, chosen, search);
	}
	choose(RANDOM, n, search);
	measure(s, timers, "cancel_batch_random", "cancel_single", CANCEL, chosen, search);
	choose(OLDEST, n, quarter);
	measure(s, timers, "cancel_batch_oldest", NULL, CANCEL, chosen, quarter);
	s->backend->close(timers);
}

static void measure_single(const struct system *s, unsigned int n)
{
	struct timers *timers;

	set_far_deadlines(n);
	usage.batch = 1;
	timers = s->backend->open(n, 0);
	measure(s, timers, "arm_single", NULL, ARM, ascending, n);
	measure(s, timers, "cancel_single", NULL, CANCEL, shuffled, max_cancels(s, n, n));
	s->backend->close(timers);
	usage.batch = BATCH;
}

/*
 * Arm all timeouts for a moment soon, or within @spread_ns after it, and sleep until
 * shortly before. The time that a reader has slept decides whether it preempts the thread
 * that wakes it. A block of the wheel begins before, so the moment is in the current block
 * unless there are very many timeouts. Timeouts of the next block would have to cascade
 * first.
 */
static struct timers *arm_for_soon(const struct system *s, unsigned int n, uint64_t spread_ns,
				   uint64_t slack_ns, uint64_t *moment)
{
	static uint64_t lead_ns = 250;		/* per timeout */

	for (;;) {
		struct timers *timers;

		sleep_until((clock_ns() / BLOCK_NS + 1) * BLOCK_NS);
		*moment = clock_ns() + 100 * NSEC_PER_MSEC + n * lead_ns;
		*moment -= *moment % NSEC_PER_MSEC;
		for (unsigned int i = 0; i < n; i++)
			deadlines[i] = *moment + (spread_ns ? random_below(spread_ns) : 0);
		timers = s->backend->open(n, slack_ns);
		run_action(s, timers, ARM, ascending, n);
		if (clock_ns() + 50 * NSEC_PER_MSEC < *moment) {
			sleep_until(*moment - 2 * NSEC_PER_MSEC);
			return timers;
		}
		s->backend->close(timers);
		lead_ns *= 2;
	}
}

static void measure_fire(const struct system *s, unsigned int n, const char *operation,
			 uint64_t spread_ns, uint64_t slack_ns)
{
	uint64_t idle, moment;
	struct timers *timers = arm_for_soon(s, n, spread_ns, slack_ns, &moment);
	unsigned int got = 0;

	clock_take();
	clock_wanted = wants(operation);
	idle = is_here ? clock_ns() : cpu_idle_ns();
	clock_start();
	while (got < n)
		got += s->backend->take(timers, 0, NULL);
	clock_stop();
	idle = is_here ? moment - idle : cpu_idle_ns() - idle;
	clock_wanted = 0;
	if (got != n)
		fail("too many have fired");
	add_result(operation, clock_take() - idle, n);
	s->backend->close(timers);
}

/*
 * Mean and maximum lateness of timeouts that are due within a second, when collected. These
 * are microseconds, and depend on the other load of the machine.
 */
static void measure_lateness(unsigned int n, uint64_t slack_ns, const char *mean, const char *most)
{
	uint64_t late, sum = 0, max = 0, moment;
	uint32_t numbers[BATCH];
	unsigned int got = 0, nr;
	struct timers *timers;

	if (is_here || (!wants(mean) && !wants(most)))
		return;
	timers = arm_for_soon(twheel, n, NSEC_PER_SEC, slack_ns, &moment);
	while (got < n) {
		nr = twheel->backend->take(timers, 0, numbers);
		for (unsigned int i = 0; i < nr; i++) {
			late = clock_ns() - deadlines[numbers[i]];
			sum += late;
			max = late > max ? late : max;
		}
		got += nr;
	}
	twheel->backend->close(timers);
	report(twheel->name, mean, n, sum / 1e3 / n, "us");
	report(twheel->name, most, n, max / 1e3, "us");
}

static double measure_memory_once(const struct system *s, unsigned int n)
{
	struct timers *timers;
	double bytes;

	set_far_deadlines(n);
	timers = s->backend->open(n, 0);
	bytes = free_bytes();
	run_action(s, timers, ARM, ascending, n);
	bytes -= free_bytes();
	s->backend->close(timers);
	return bytes / n + s->backend->node;
}

/* Other programs allocate and free memory at the same time; the median leaves that out. */
static void measure_memory(const struct system *s, const char *operation, unsigned int n)
{
	double values[5];

	if (!wants(operation))
		return;
	create_numbers(n);
	for (int i = 0; i < 5; i++)
		values[i] = measure_memory_once(s, n);
	qsort(values, 5, sizeof(*values), compare);
	report(s->name, operation, n, values[2], "bytes");
	free_numbers();
}

/* Cells. The pace requires a clock that counts instructions. */

static void report_wanted(const char *operation, unsigned int n, double value, const char *unit)
{
	if (wants(operation))
		report("twheel", operation, n, value, unit);
}

static void measure_cell_pairs(unsigned int n)
{
	struct cells_cost cost;

	clock_wanted = 1;
	cost = cells_pairs(shuffled, n);
	clock_wanted = 0;
	report_wanted("cell_pair", n, (double)cost.instructions / cost.done, clock_unit);
	report_wanted("cell_calls", n, 1000.0 * cost.kicks / cost.done, "calls/1000");
	report_wanted("cell_looks", n, 1000.0 * cost.looks / cost.done, "looks/1000");
}

/* Without a pace: at full speed. */
static void measure_fast_cell_pairs(unsigned int n)
{
	clock_wanted = 1;
	add_result("cell_pair", cells_pairs_ns(shuffled, n), n);
	clock_wanted = 0;
}

/* Runs */

/* Few timeouts take so little time that one tick of the clock shows in the result. */
static unsigned int repetitions(unsigned int n)
{
	if (is_here)
		return repeat;
	if (n >= MANY)
		return 1;
	return n <= FEW ? at_most(3 * repeat, REPEAT_MAX) : repeat;
}

static bool wants_batch(const struct system *s)
{
	return wants("arm_batch") || wants("rearm_batch") || wants("cancel_batch_random") ||
	       wants("cancel_batch_oldest") ||
	       (!s->backend->flush && (wants("arm_single") || wants("cancel_single")));
}

static void run_system(const struct system *s, unsigned int n)
{
	create_numbers(n);
	for (unsigned int i = 0; i < repetitions(n); i++) {
		if (wants_batch(s))
			measure_batch(s, n);
		if (s->backend->flush && (wants("arm_single") || wants("cancel_single")))
			measure_single(s, n);
		if (s->max_fire && n > s->max_fire)
			continue;
		if (wants("fire_collect_burst"))
			measure_fire(s, n, "fire_collect_burst", 0, 0);
		if (wants("fire_collect_spread") && !is_here)
			measure_fire(s, n, "fire_collect_spread", NSEC_PER_SEC, 0);
	}
	if (s == twheel)
		measure_lateness(n, 0, "spread_lateness", "spread_lateness_max");
	free_numbers();
	report_results(s->name, n);
}

static void run_slack(unsigned int n)
{
	create_numbers(n);
	/* on the running kernel, the wait would count */
	for (unsigned int i = 0; i < repetitions(n) && wants("fire_collect_slack") && !is_here; i++)
		measure_fire(twheel, n, "fire_collect_slack", NSEC_PER_SEC, SLACK_NS);
	measure_lateness(n, SLACK_NS, "slack_lateness", "slack_lateness_max");
	free_numbers();
	report_results("twheel", n);
}

/* Nobody looks at cells in the process while the program spins at its pace. */
static void run_cells(const struct system *s, unsigned int n)
{
	bool paced = s == twheel && !is_here;

	create_numbers(n);
	for (unsigned int i = 0; i < repetitions(n) && wants("cell_fire_collect"); i++)
		measure_fire(&cells, n, "cell_fire_collect", 0, 0);
	for (unsigned int i = 0; i < repetitions(n) && wants("cell_pair") && is_here; i++)
		measure_fast_cell_pairs(n);
	if (paced && (wants("cell_pair") || wants("cell_calls") || wants("cell_looks")))
		measure_cell_pairs(n);
	free_numbers();
	report_results(s->name, n);
}

static void run_kernel_system(const char *name, unsigned int n)
{
	unsigned long long took[3];
	char text[64];
	FILE *file;

	snprintf(text, sizeof(text), "%s %u", name, n);
	for (unsigned int i = 0; i < repetitions(n); i++) {
		write_to(MODULE "count", text);
		file = open_file(MODULE "count");
		if (fscanf(file, "%llu %llu %llu", &took[0], &took[1], &took[2]) != 3)
			die(MODULE "count");
		fclose(file);
		for (unsigned int j = 0; j < 3; j++)
			add_result(kernel_operations[j], took[j], n);
	}
	report_results(name, n);
}

static bool wants_kernel(void)
{
	return wants("kernel_arm") || wants("kernel_rearm_random") || wants("kernel_cancel_random");
}

static void report_limit(const char *name, unsigned int n, const char *reason)
{
	fprintf(stderr, "%s with %u timeouts: %s\n", name, n, reason);
}

/* Is it asked for, and possible where the program runs? */
static bool runs(const struct system *s, unsigned int n)
{
	return wants_system(s->name) && (!is_here || here_allows(s->name, n));
}

static void run_all(unsigned int n)
{
	for (unsigned int i = 0; i < NR_SYSTEMS; i++) {
		const struct system *s = &systems[i];

		if (s == process || !runs(s, n))
			continue;
		if (!s->max || n <= s->max)
			run_system(s, n);
		else
			report_limit(s->name, n, s->max_reason);
		if (s == twheel) {
			run_cells(s, n);
			run_slack(n);
		}
		if (s->max_fire && n > s->max_fire)
			report_limit(s->name, n,
				     "expiry is left out because arming takes too long");
	}
	for (unsigned int i = 0; i < 4 && wants_kernel() && !is_here; i++) {
		if (wants_system(kernel_systems[i]))
			run_kernel_system(kernel_systems[i], n);
	}
}

/* After all others: it starts a thread, and with two the kernel is slower to find a call's file. */
static void run_process(unsigned int n)
{
	if (!runs(process, n))
		return;
	usage.process = true;
	run_system(process, n);
	run_cells(process, n);
}

/* Measurements that come before anything else is allocated and freed. */
static void run_first(unsigned int n)
{
	for (unsigned int i = 0; i < NR_SYSTEMS; i++) {
		const struct system *s = &systems[i];

		if (s == process || !wants_system(s->name))
			continue;
		measure_memory(s, "bytes_per_timeout", at_most(n, MANY));
		if (s != twheel)
			continue;
		if (n > MANY)
			measure_memory(s, "bytes_per_timeout", n);
		measure_memory(&cells, "bytes_with_cell", at_most(n, MANY));
		if (n > MANY)
			measure_memory(&cells, "bytes_with_cell", n);
	}
}

static void bad_usage(void)
{
	fputs("bench [--system NAMES] [--operation NAMES] [--repeat TIMES] N...\n", stderr);
	fputs("bench --here [--json] [--system NAMES] [--operation NAMES] [--repeat TIMES] N...\n",
	      stderr);
	exit(64);
}

static void options(int argc, char **argv)
{
	static const struct option list[] = {
		{ "system", required_argument, NULL, 's' },
		{ "operation", required_argument, NULL, 'o' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "here", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case 's':
			only_systems = optarg;
			break;
		case 'o':
			only_operations = optarg;
			break;
		case 'r':
			repeat = at_most(atoi(optarg), REPEAT_MAX);
			break;
		case 'h':
			is_here = true;
			repeat = 5;
			clock_unit = "ns";
			break;
		case 'j':
			as_json = true;
			break;
		default:
			bad_usage();
		}
	}
	if (optind == argc || !repeat)
		bad_usage();
}

static void run_here(int nr, char **numbers)
{
	here_begin();
	clock_calibrate();
	for (int i = 0; i < nr; i++) {
		unsigned int n = atoi(numbers[i]);

		if (n < FEW || n > VERY_MANY)
			bad_usage();
		run_all(n);
	}
	for (int i = 0; i < nr; i++)
		run_process(atoi(numbers[i]));
	if (!as_json)
		here_print();
}

int main(int argc, char **argv)
{
	unsigned int largest = 0;

	options(argc, argv);
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);	/* keep arrays apart from nodes */
	if (is_here) {
		run_here(argc - optind, argv + optind);
		return 0;
	}
	raise_limits();
	clock_calibrate();
	fprintf(stderr, "reading the clock takes %llu %s, left out\n",
		(unsigned long long)clock_cost, clock_unit);
	for (int i = optind; i < argc; i++) {
		if ((unsigned int)atoi(argv[i]) > largest)
			largest = atoi(argv[i]);
	}
	run_first(largest);
	for (int i = optind; i < argc; i++)
		run_all(atoi(argv[i]));
	for (int i = optind; i < argc; i++)
		run_process(atoi(argv[i]));
	return 0;
}
