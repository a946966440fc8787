/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detects errors that no result shows: a report in the kernel log, or a call that does not
 * return.
 */
#ifndef TWHEEL_FUZZ_WATCH_H
#define TWHEEL_FUZZ_WATCH_H

/* @of_kernel: search the kernel log */
void watch_init(int of_kernel);

/* A program begins; it must end within a minute. */
void watch_begin(void);

/* The program has ended; a report in the kernel log is a mismatch. */
void watch_end(void);

#endif /* TWHEEL_FUZZ_WATCH_H */
