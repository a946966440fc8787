/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first disagreement between the device and what the model allows. Everything that
 * runs a program looks at it and ends when there is one; it is shared with children.
 */
#ifndef TWHEEL_FUZZ_REPORT_H
#define TWHEEL_FUZZ_REPORT_H

#include <stddef.h>

/* Memory that children of fork() share with their parent. */
void *shared_memory(size_t size);

void report_init(void);

/* Forget it; @verbose: tell on standard output of every call from now on. */
void report_reset(int verbose);

void disagree(const char *format, ...) __attribute__((format(printf, 1, 2)));
int disagreed(void);
const char *disagreement(void);

/* For those who want to read what happened. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the function that says it. */
#define EXPECT(condition, format, ...) do {				\
	if (!(condition)) {						\
		disagree(format, ##__VA_ARGS__);			\
		return;							\
	}								\
} while (0)

#endif /* TWHEEL_FUZZ_REPORT_H */
