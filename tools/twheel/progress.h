/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A progress bar for long work, on standard error if that is a terminal, and
 * nothing otherwise.
 */
#ifndef TWHEEL_PROGRESS_H
#define TWHEEL_PROGRESS_H

#include <stdint.h>

void progress_show(uint64_t done, uint64_t total, const char *what);

/* Takes the bar away. */
void progress_end(void);

#endif /* TWHEEL_PROGRESS_H */
