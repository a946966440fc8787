// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz: runs programs against /dev/twheel and compares the results with a model.
 *
 * Programs are generated, or mutated from a program that covers new code. The seed and the
 * number of the program decide, and with KCOV also the programs kept before.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "corpus.h"
#include "coverage.h"
#include "device.h"
#include "execute.h"
#include "ledger.h"
#include "minimise.h"
#include "race.h"
#include "report.h"
#include "watch.h"

#define STATUS_NS	10000000000ULL
#define TRIES		3		/* a failure may depend on timing */

static struct options {
	uint64_t seed, operations;
	int trace, verbose, replay, races, as_it_is, process;
} options = { .operations = 100000 };

static void show_usage(FILE *file)
{
	fputs("usage: fuzz [OPTION]... [FILE|DIRECTORY]...\n"
	      "\n"
	      "Runs the programs in the files and then random programs against /dev/twheel.\n"
	      "\n"
	      "  --process       run them on wheels in the process\n"
	      "  --seed N        seed of the programs (default: the time)\n"
	      "  --operations N  approximate number of operations (default: 100000)\n"
	      "  --replay        run only the programs in the files\n"
	      "  --races         run each random program in several threads\n"
	      "  --as-it-is      do not search for a shorter program that fails\n"
	      "  --verbose       print each call\n"
	      "  --trace         print each program before it is run\n"
	      "\n"
	      "Prints the programs that cover new code, or the program that failed, then the\n"
	      "shortest program found that fails, with its calls. Exit status 1: a failure.\n",
	      file);
}

static void run(const struct program *program)
{
	watch_begin();
	if (program->threads > 1)
		race(program);
	else
		execute(program);
	watch_end();
}

static int fails(const struct program *program)
{
	for (int i = 0; i < TRIES; i++) {
		report_reset(0);
		run(program);
		if (mismatch_found())
			return 1;
	}
	return 0;
}

/* Print the error of @program, and of the shortest program found that fails. */
static void show_failure(const struct program *program, uint64_t number)
{
	struct program shorter = *program;

	printf("# seed %llu, program %llu: %s\n", (unsigned long long)options.seed,
	       (unsigned long long)number, mismatch_text());
	if (program->threads > 1)
		ledger_print(stdout);
	program_print(stdout, program);
	if (fails(program)) {
		minimise(&shorter, fails);
		for (int i = 0; i < TRIES && !mismatch_found(); i++)
			fails(&shorter);
		printf("# the shortest program found that fails:\n");
		program_print(stdout, &shorter);
		report_reset(1);
		run(&shorter);
		report_reset(0);
	} else {
		printf("# it does not fail every time\n");
	}
	fflush(stdout);
}

/* Returns whether all results were right. */
static int run_program(const struct program *program, uint64_t number)
{
	if (options.trace)
		program_print(stdout, program);
	report_reset(options.verbose);
	coverage_reset();
	run(program);
	if (!mismatch_found())
		return 1;
	fprintf(stderr, "fuzz: program %llu, after %llu operations: %s\n",
		(unsigned long long)number, (unsigned long long)device_operations(),
		mismatch_text());
	if (!options.as_it_is)
		show_failure(program, number);
	return 0;
}

static void keep_program(const struct program *program)
{
	corpus_add(program);
	program_print(stdout, program);
}

static void next_program(struct program *program, uint64_t number)
{
	struct generator generator = generator_init(options.seed, number);
	unsigned int size = corpus_size();

	if (!size || !random_below(&generator, 4)) {
		program_generate(program, &generator);
	} else {
		*program = *corpus_at(random_below(&generator, size));
		program_mutate(program, corpus_at(random_below(&generator, size)), &generator);
	}
	if (options.races && program->threads == 1)
		program->threads += 1 + random_below(&generator, MAX_THREADS - 1);
}

static void show_status(uint64_t number, uint64_t start)
{
	double seconds = (clock_ns(CLOCK_MONOTONIC) - start) / 1e9;

	fprintf(stderr,
		"fuzz: %llu operations in %llu programs, %.0f per second, %u pairs of addresses, %u programs kept\n",
		(unsigned long long)device_operations(), (unsigned long long)number,
		device_operations() / seconds, coverage_total(), corpus_size());
}

static int replay(void)
{
	for (unsigned int i = 0; i < corpus_size(); i++) {
		if (!run_program(corpus_at(i), i))
			return 0;
		coverage_collect();
	}
	return 1;
}

static int fuzz(uint64_t operations)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), shown = start, number = 0;
	struct program program;

	while (device_operations() < operations) {
		next_program(&program, number);
		if (!run_program(&program, number))
			return 0;
		number++;
		if (coverage_collect())
			keep_program(&program);
		if (clock_ns(CLOCK_MONOTONIC) - shown > STATUS_NS) {
			shown = clock_ns(CLOCK_MONOTONIC);
			show_status(number, start);
		}
	}
	show_status(number, start);
	return 1;
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "operations", required_argument, NULL, 'o' },
		{ "process", no_argument, &options.process, 1 },
		{ "replay", no_argument, &options.replay, 1 },
		{ "races", no_argument, &options.races, 1 },
		{ "as-it-is", no_argument, &options.as_it_is, 1 },
		{ "verbose", no_argument, &options.verbose, 1 },
		{ "trace", no_argument, &options.trace, 1 },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	options.seed = clock_ns(CLOCK_REALTIME) ^ clock_ns(CLOCK_MONOTONIC) << 20;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 0:
			break;
		case 's':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		case 'o':
			options.operations = strtoull(optarg, NULL, 0);
			break;
		case 'h':
			show_usage(stdout);
			exit(0);
		default:
			show_usage(stderr);
			exit(64);
		}
	}
	while (optind < argc)
		corpus_load(argv[optind++]);
}

/* All timeouts of a thread are then in one shard, and fire in order. */
static void stay_on_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("fuzz: sched_setaffinity");
}

int main(int argc, char **argv)
{
	int right;

	parse(argc, argv);
	report_init();
	if (options.process)
		device_use_process();
	execute_init();
	watch_init(!options.process);
	if (!options.process)
		stay_on_one_cpu();
	fprintf(stderr, "fuzz: seed %llu%s\n", (unsigned long long)options.seed,
		coverage_begin() ? ", guided by coverage" : "");
	right = replay() && (options.replay || fuzz(options.operations));
	return !right;
}
