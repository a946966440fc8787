/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The benchmark on the running kernel: a description of the machine, the systems that are
 * available, and the results as a table.
 */
#ifndef BENCH_HERE_H
#define BENCH_HERE_H

#include <stdbool.h>

/* Print a description of the machine, and raise limits as far as the system allows. */
void here_begin(void);

/* Returns whether a system can be measured with @n timeouts. If not, prints the reason. */
bool here_allows(const char *system, unsigned int n);

/* Add a result in ns. A system without one has no column. */
void here_add(const char *system, const char *operation, unsigned int n, double ns);

void here_print(void);

#endif
