/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SUBMIT as a command of an io_uring.
 */
#ifndef TWHEEL_FUZZ_RING_H
#define TWHEEL_FUZZ_RING_H

#include <twheel/abi.h>

/* If there is no ring, no commands are made. */
void ring_init(void);
int ring_available(void);

/* Returns the number of operations that were tried, or -errno. */
int ring_submit(int fd, const struct twheel_submit *submit);

#endif /* TWHEEL_FUZZ_RING_H */
