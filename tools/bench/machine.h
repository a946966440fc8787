/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine, for all programs: memory, errors, results, and counters from /proc and from
 * the module of the benchmark. Each function ends the program on an error.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>

#define MODULE		"/sys/module/twheel_bench/parameters/"

/* Errors */

noreturn void die(const char *what);		/* errno */
noreturn void fail(const char *what);		/* a guarantee was broken */
void check(int ret, const char *what);		/* -errno */

/* Memory */

/* Zeroed memory with all pages present. */
void *zeroed_array(size_t nr, size_t size);

/* The same, shared with child processes. */
void *shared_array(size_t nr, size_t size);

void sort(uint64_t *values, size_t nr);

/* Time */

void sleep_until(uint64_t ns);

/* Sleep until one of the descriptors is readable or @ns is reached. NEVER: no time limit. */
struct pollfd;
void poll_until(struct pollfd *fds, unsigned int nr, uint64_t ns);

/* Files */

FILE *open_file(const char *path);
void write_to(const char *path, const char *text);

/* Print a result as a line of JSON. */
void print_result(const char *system, const char *operation, unsigned int n, double value,
		  const char *unit);

/* The machine */

/* Time that the CPU has been idle, in ns. Needs the module. */
uint64_t cpu_idle_ns(void);

/* Free pages, including those on the lists of the CPUs. Drops the page cache first. */
uint64_t free_bytes(void);

/**
 * struct machine_counters - counters of all processors since boot
 * @at_ns: time of reading
 * @busy_ns: time in which the processor was not idle; valid if has_instruction_clock()
 * @interrupts: interrupts of the local timer
 * @sleeps: number of times that a processor went idle
 * @switches: context switches
 */
struct machine_counters {
	uint64_t	at_ns;
	uint64_t	busy_ns;
	uint64_t	interrupts;
	uint64_t	sleeps;
	uint64_t	switches;
};

/* Returns whether there is one processor whose nanoseconds are instructions. */
bool has_instruction_clock(void);

void read_counters(struct machine_counters *machine);

/* The difference to @before. */
struct machine_counters counters_since(const struct machine_counters *before);

/**
 * struct memory - memory in use
 * @user: bytes of this process, without shared memory
 * @all: bytes of the machine
 */
struct memory {
	int64_t	user;
	int64_t	all;
};

void read_memory(struct memory *memory);

/* Raise the limits of descriptors, signals and locked memory as far as a test needs. */
void raise_limits(void);

/* Bind the thread to this processor, or to one that exists. */
void bind_to_cpu(unsigned int number);

#endif
