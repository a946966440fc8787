/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code coverage of the modules from KCOV: pairs of addresses that were executed one after
 * the other. KCOV traces the system calls of a thread, not the threads of the wheel.
 */
#ifndef TWHEEL_FUZZ_COVERAGE_H
#define TWHEEL_FUZZ_COVERAGE_H

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

#endif /* TWHEEL_FUZZ_COVERAGE_H */
