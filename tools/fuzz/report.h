/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first difference between the device and the model. All functions that run a program
 * check it and return when there is one. It is shared with child processes.
 */
#ifndef TWHEEL_FUZZ_REPORT_H
#define TWHEEL_FUZZ_REPORT_H

#include <stddef.h>

/* Memory that child processes share with their parent. */
void *shared_memory(size_t size);

void report_init(void);

/* Clear the report. @verbose: print each call on standard output from now on. */
void report_reset(int verbose);

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

#endif /* TWHEEL_FUZZ_REPORT_H */
