/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command of an io_uring that does what SUBMIT does.
 */
#ifndef TWHEEL_FUZZ_RING_H
#define TWHEEL_FUZZ_RING_H

#include <linux/twheel.h>

/* Without a ring, commands are not made. */
void ring_init(void);
int ring_exists(void);

/* Returns how many operations of @submit were tried, or -errno. */
int ring_submit(int fd, const struct twheel_submit *submit);

#endif /* TWHEEL_FUZZ_RING_H */
