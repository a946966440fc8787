/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A progress bar on standard error. If that is not a terminal, nothing is printed.
 */
#ifndef TWHEEL_PROGRESS_H
#define TWHEEL_PROGRESS_H

#include <stdint.h>

void progress_show(uint64_t done, uint64_t total, const char *what);

/* Removes the bar. */
void progress_end(void);

#endif /* TWHEEL_PROGRESS_H */
