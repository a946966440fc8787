// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * A library for $LD_PRELOAD that takes the place of /dev/twheel for the benchmark. Cells are plain
 * memory. No kernel looks at them, and they ask for no kick. So the benchmark runs on a machine
 * without the module. The kernel's own work is not included: it looks at a cell about twice for
 * 1,000 pairs of an arm and a cancel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/twheel.h>

#define MAP_ANONYMOUS	0x20
#define MAX_CELLS	1048576
#define MAX_FDS		64

/* Descriptors that stand for contexts. Each is an eventfd that never becomes readable. */
static bool is_context[MAX_FDS];
static uint32_t nr_cells[MAX_FDS];

static bool is_ours(int fd)
{
	return fd >= 0 && fd < MAX_FDS && is_context[fd];
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	int fd, mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	if (strcmp(path, "/dev/twheel"))
		return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	fd = eventfd(0, EFD_CLOEXEC);
	if (fd >= MAX_FDS) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		is_context[fd] = true;
	return fd;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct twheel_op *op;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!is_ours(fd))
		return syscall(SYS_ioctl, fd, request, arg);
	switch (request) {
	case TWHEEL_IOC_INFO:
		*(struct twheel_info *)arg = (struct twheel_info){
			.clock = CLOCK_MONOTONIC,
			.op_flags = TWHEEL_F_CELL,
			.cells = MAX_CELLS,
		};
		break;
	case TWHEEL_IOC_OP:
		op = arg;
		if (op->opcode == TWHEEL_OP_ARM)
			op->id = 1ULL << 32 |
				 __atomic_fetch_add(&nr_cells[fd], 1, __ATOMIC_RELAXED);
		break;
	case TWHEEL_IOC_STOP:
		eventfd_write(fd, 1);
		break;
	}
	return 0;
}

/* <sys/mman.h> may declare this name for another function. */
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (is_ours(fd)) {
		flags |= MAP_ANONYMOUS;
		fd = -1;
	}
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
