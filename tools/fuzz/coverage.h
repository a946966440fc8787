/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which ways through the modules have been gone, as KCOV tells: pairs of places in their
 * text that were come by one after the other. It sees what the caller does in a system
 * call, not what the threads of the wheel do.
 */
#ifndef TWHEEL_FUZZ_COVERAGE_H
#define TWHEEL_FUZZ_COVERAGE_H

/* For the calling thread. Returns whether the kernel has it. */
int coverage_begin(void);

/* Forget what this thread has come by since the last call. */
void coverage_reset(void);

/* Leave what this thread has come by to the one that collects. */
void coverage_leave(void);

/* How many pairs were new in that, and in what others have left. */
unsigned int coverage_collect(void);

/* Different pairs up to now. */
unsigned int coverage_total(void);

#endif /* TWHEEL_FUZZ_COVERAGE_H */
