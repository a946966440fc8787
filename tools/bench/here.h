/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The benchmark on the running kernel: what it runs on, which systems there are, and the
 * results as a table.
 */
#ifndef BENCH_HERE_H
#define BENCH_HERE_H

#include <stdbool.h>

/* Print what it runs on, and raise the limits as far as the system allows it. */
void here_begin(void);

/* Can a system be measured with @n timeouts? If not, say why. */
bool here_allows(const char *system, unsigned int n);

/* A result in ns. */
void here_add(const char *system, const char *operation, unsigned int n, double ns);

void here_print(void);

#endif
