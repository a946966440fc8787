/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device, or wheels in the process. Every system call that a program makes goes through this
 * file. It counts the operations.
 */
#ifndef TWHEEL_FUZZ_DEVICE_H
#define TWHEEL_FUZZ_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <twheel/abi.h>

/* Memory for the arguments of calls: usable, or before a page that is not. */
enum memory { GOOD, UNMAPPED, READ_ONLY };

void device_init(void);

/* @size bytes; the first @usable are usable, the others as @memory says. */
void *memory_place(enum memory memory, size_t size, size_t usable);

/* All functions return the result of the system call, or -errno. */
int device_open(const char *path, int flags);
int device_dup(int fd);
void device_close(int fd);
/* The first pages of cells. Returns MAP_FAILED after an error, which is in errno. */
void *device_map(int fd, size_t size, int protection, int share, off_t offset);
void device_unmap(void *map, size_t size);
int device_ioctl(int fd, unsigned long command, void *arg);
/* SUBMIT as an io_uring command, if there are such commands. */
int device_has_commands(void);
int device_command(int fd, struct twheel_submit *submit);
ssize_t device_read(int fd, void *buffer, size_t size);
ssize_t device_readv(int fd, const struct iovec *iov, int nr, int flags);
/* A wheel in the process is polled for all events. */
int device_poll(int fd, short events, int timeout_ms, short *revents);
/* Wait for @us while the device looks at cells. A wheel in the process looks if polled. */
void device_let_look(int fd, unsigned int us);
int device_epoll(int fd, int timeout_ms, uint32_t events, uint32_t *revents);

/* From now on, all calls are made of a wheel in the process. */
void device_use_process(void);
int device_is_process(void);

/* Count operations: each entry of SUBMIT is one. */
void device_count(uint64_t nr);
uint64_t device_operations(void);

#endif /* TWHEEL_FUZZ_DEVICE_H */
