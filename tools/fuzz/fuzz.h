/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the fuzzer: runs of a program, the first mismatch that they find, and coverage.
 */
#ifndef TWHEEL_FUZZ_H
#define TWHEEL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ULL(value)	((unsigned long long)(value))

struct program;

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static inline void sleep_us(unsigned int us)
{
	const struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

/* Run a program step by step, compare with the model, and close all files. */
void execute_init(void);
void execute(const struct program *program);

/* Run a program in its threads, on one file. */
void race(const struct program *program);

/* Memory that child processes share with their parent. */
void *shared_memory(size_t size);

/*
 * The first difference between the device and the model, which child processes share. All
 * functions that run a program check it and return when there is one. A report in the kernel log
 * and a call that does not return are such differences, too.
 */

/* @of_kernel: search the kernel log */
void report_init(int of_kernel);

/* A program begins; it must end within a minute. @verbose: print each call on standard output. */
void report_begin(int verbose);

/* The program has ended: search the kernel log. */
void report_end(void);

void mismatch(const char *format, ...) __attribute__((format(printf, 1, 2)));
int mismatch_found(void);
const char *mismatch_text(void);

/* Print a line about a call if verbose. */
void log_call(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns from the calling function if @condition is false. */
#define EXPECT(condition, format, ...) do {				\
	if (!(condition)) {						\
		mismatch(format, ##__VA_ARGS__);			\
		return;							\
	}								\
} while (0)

/*
 * Code coverage of the modules from KCOV: pairs of addresses that were executed one after
 * the other. KCOV traces the system calls of a thread, not the threads of the wheel.
 */

/* Begin to trace the calling thread. Returns whether the kernel supports it. */
int coverage_begin(void);

/* Discard the trace of this thread. */
void coverage_reset(void);

/* Pass the new pairs of this thread on to the thread that collects. */
void coverage_pass_on(void);

/* Number of new pairs of this thread, and of those passed on. */
unsigned int coverage_collect(void);

/* Number of different pairs so far. */
unsigned int coverage_total(void);

#endif /* TWHEEL_FUZZ_H */
