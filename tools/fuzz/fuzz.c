// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz: runs programs against /dev/twheel and compares the results with a model.
 *
 * Programs are generated, or mutated from a program that covers new code. The seed and the
 * number of the program decide, and with KCOV also the programs kept before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "fuzz.h"
#include "ledger.h"
#include "program.h"

#define STATUS_NS	10000000000ULL
#define TRIES		3		/* a failure may depend on timing */
#define MAX_CORPUS	8192

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

/* Programs that are kept because each takes a path that no program before it took. */

static struct program programs[MAX_CORPUS];
static unsigned int nr_programs;

static void keep(const struct program *program)
{
	if (nr_programs < MAX_CORPUS)
		programs[nr_programs++] = *program;
}

static void load_file(const char *path)
{
	FILE *file = fopen(path, "r");
	struct program program;
	int ret = -1;

	while (file && (ret = program_read(file, &program)) > 0)
		keep(&program);
	if (!file || ret < 0) {
		fprintf(stderr, "fuzz: %s: cannot be read, or program %u is not one\n", path,
			nr_programs + 1);
		exit(1);
	}
	fclose(file);
}

/* Load a file of programs, or a directory of such files. Exits if one cannot be parsed. */
static void load(const char *path)
{
	struct dirent **entries;
	char name[512];
	int found = scandir(path, &entries, NULL, alphasort);

	if (found < 0) {
		load_file(path);
		return;
	}
	for (int i = 0; i < found; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			load_file(name);
		free(entries[i]);
	}
	free(entries);
}

/* Failures */

static void run(const struct program *program, int verbose)
{
	report_begin(verbose);
	if (program->threads > 1)
		race(program);
	else
		execute(program);
	report_end();
}

static int fails(const struct program *program)
{
	for (int i = 0; i < TRIES; i++) {
		run(program, 0);
		if (mismatch_found())
			return 1;
	}
	return 0;
}

/* Try to remove halves, then quarters, and so on. Returns whether any step was removed. */
static int remove_steps(struct program *program)
{
	int removed = 0;

	for (unsigned int nr = program->nr / 2; nr; nr /= 2) {
		for (unsigned int first = 0; first + nr <= program->nr;) {
			struct program shorter = *program;

			program_remove(&shorter, first, nr);
			if (!shorter.nr || !fails(&shorter)) {
				first += nr;
				continue;
			}
			*program = shorter;
			removed = 1;
		}
	}
	return removed;
}

static void clear_fields(struct program *program)
{
	for (unsigned int i = 0; i < program->nr; i++) {
		for (unsigned int field = 1; field < sizeof(struct step); field++) {
			struct program simpler = *program;
			uint8_t *byte = (uint8_t *)&simpler.steps[i] + field;

			if (!*byte)
				continue;
			*byte = 0;
			if (fails(&simpler))
				*program = simpler;
		}
	}
}

/* Remove all parts of a program without which it still fails. */
static void minimise(struct program *program)
{
	struct program single;

	while (remove_steps(program))
		;
	single = *program;
	single.threads = 1;
	if (program->threads > 1 && fails(&single))
		*program = single;
	clear_fields(program);
}

/* Print the error of @program, and of the shortest program found that fails. */
static void show_failure(const struct program *program, uint64_t number)
{
	struct program shorter = *program;

	printf("# seed %llu, program %llu: %s\n", ULL(options.seed), ULL(number),
	       mismatch_text());
	if (program->threads > 1)
		ledger_print(stdout);
	program_print(stdout, program);
	if (fails(program)) {
		minimise(&shorter);
		for (int i = 0; i < TRIES && !mismatch_found(); i++)
			fails(&shorter);
		printf("# the shortest program found that fails:\n");
		program_print(stdout, &shorter);
		run(&shorter, 1);
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
	coverage_reset();
	run(program, options.verbose);
	if (!mismatch_found())
		return 1;
	fprintf(stderr, "fuzz: program %llu, after %llu operations: %s\n",
		ULL(number), ULL(device_operations()),
		mismatch_text());
	if (!options.as_it_is)
		show_failure(program, number);
	return 0;
}

static void keep_program(const struct program *program)
{
	keep(program);
	program_print(stdout, program);
}

static void next_program(struct program *program, uint64_t number)
{
	struct generator generator = generator_init(options.seed, number);

	if (!nr_programs || !random_below(&generator, 4)) {
		program_generate(program, &generator);
	} else {
		*program = programs[random_below(&generator, nr_programs)];
		program_mutate(program, &programs[random_below(&generator, nr_programs)],
			       &generator);
	}
	if (options.races && program->threads == 1)
		program->threads += 1 + random_below(&generator, MAX_THREADS - 1);
}

static void show_status(uint64_t number, uint64_t start)
{
	double seconds = (clock_ns(CLOCK_MONOTONIC) - start) / 1e9;

	fprintf(stderr,
		"fuzz: %llu operations in %llu programs, %.0f per second, %u pairs of addresses, %u programs kept\n",
		ULL(device_operations()), ULL(number),
		device_operations() / seconds, coverage_total(), nr_programs);
}

static int replay(void)
{
	for (unsigned int i = 0; i < nr_programs; i++) {
		if (!run_program(&programs[i], i))
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
		load(argv[optind++]);
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
	parse(argc, argv);
	report_init(!options.process);
	if (options.process)
		device_use_process();
	execute_init();
	if (!options.process)
		stay_on_one_cpu();
	fprintf(stderr, "fuzz: seed %llu%s\n", ULL(options.seed),
		coverage_begin() ? ", guided by coverage" : "");
	return !(replay() && (options.replay || fuzz(options.operations)));
}
