/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device: every system call that a program makes goes through here. It is where
 * operations are counted, and where, to see whether the model notices, one in some
 * replies is made a lie.
 */
#ifndef TWHEEL_FUZZ_DEVICE_H
#define TWHEEL_FUZZ_DEVICE_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <linux/twheel.h>

#define NR_LIES		22

/* All return what the system call does, or -errno. */
int device_open(const char *path, int flags);
int device_ioctl(int fd, unsigned long command, void *arg);
/* SUBMIT, as a command of an io_uring. */
int device_command(int fd, struct twheel_submit *submit);
ssize_t device_read(int fd, void *buffer, size_t size);
ssize_t device_readv(int fd, const struct iovec *iov, int nr, int flags);
int device_poll(int fd, int timeout_ms, short *revents);
int device_epoll(int fd, uint32_t events, uint32_t *revents);

/* A number of operations have been made: an entry of SUBMIT counts, too. */
void device_count(uint64_t nr);
uint64_t device_operations(void);

/* Tell the truth (-1), or this lie from now on. */
void device_lie(int lie);
const char *device_lie_name(int lie);

#endif /* TWHEEL_FUZZ_DEVICE_H */
