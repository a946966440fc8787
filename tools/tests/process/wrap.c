// SPDX-License-Identifier: GPL-2.0
/*
 * Linked into tests of the library with --wrap, so that their ioctls reach a wheel in the process
 * by its descriptor.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "process.h"

#define NR_FDS	4096

int __real_twheel_process_open(int flags, struct twheel_process **out);
int __real_ioctl(int fd, unsigned long command, void *arg);
int __wrap_twheel_process_open(int flags, struct twheel_process **out);
int __wrap_ioctl(int fd, unsigned long command, void *arg);

static struct twheel_process *process_of[NR_FDS];

int __wrap_twheel_process_open(int flags, struct twheel_process **out)
{
	int ret = __real_twheel_process_open(flags, out);

	if (!ret && twheel_process_fd(*out) < NR_FDS)
		process_of[twheel_process_fd(*out)] = *out;
	return ret;
}

/* A test makes no such call on a descriptor that it has closed. */
int __wrap_ioctl(int fd, unsigned long command, void *arg)
{
	int ret;

	if (fd < 0 || fd >= NR_FDS || !process_of[fd] || _IOC_TYPE(command) != TWHEEL_IOC_MAGIC)
		return __real_ioctl(fd, command, arg);
	ret = twheel_process_control(process_of[fd], command, arg);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}
