/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * The wheel in the process, for the library alone: the calls that a context of the device makes.
 */
#ifndef TWHEEL_PROCESS_H
#define TWHEEL_PROCESS_H

#include <stdint.h>

#include "libtwheel.h"

struct twheel_process;

/* @flags: O_NONBLOCK and O_CLOEXEC of the descriptor */
int twheel_process_open(int flags, struct twheel_process **out);
void twheel_process_close(struct twheel_process *p);
int twheel_process_fd(const struct twheel_process *p);

/* As ioctl() of the device, but returns -errno. Bad addresses end the program. */
int twheel_process_control(struct twheel_process *p, unsigned long request, void *arg);
/* Returns the number of events, 0 after the last one, or -EAGAIN. Does not block. */
int twheel_process_read(struct twheel_process *p, struct twheel_event *events, unsigned int nr);

int twheel_process_cell(struct twheel_process *p, uint32_t index, struct twheel_cell **cell);
uint64_t twheel_process_now(const struct twheel_process *p);
int twheel_process_set_time(struct twheel_process *p, uint64_t now_ns);

#endif /* TWHEEL_PROCESS_H */
