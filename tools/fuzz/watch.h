/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What shows that something is wrong though every answer is right: a report in the
 * kernel log, or a call that does not return.
 */
#ifndef TWHEEL_FUZZ_WATCH_H
#define TWHEEL_FUZZ_WATCH_H

void watch_init(void);

/* A program begins: it has a minute. */
void watch_begin(void);

/* It has ended; if the kernel had something to say, that is a disagreement. */
void watch_end(void);

#endif /* TWHEEL_FUZZ_WATCH_H */
