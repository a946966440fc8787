// SPDX-License-Identifier: GPL-2.0
/*
 * Linked into the tests of the device with --wrap. Every call on the device is tried with
 * its first place failing, then with its second, until it completes without a fault. A
 * failed call must have changed nothing; otherwise the test that continues with it fails.
 * The caller of the tests prepares the kernel.
 *
 * The delivery of a signal has such places too, and kills the process if one fails. So a
 * process that catches signals gets no faults.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <twheel/abi.h>

#define DEVICE		"/dev/twheel"
#define MAX_PLACES	1000

int __real_ioctl(int fd, unsigned long command, void *arg);
int __real_open(const char *path, int flags, mode_t mode);
ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __real_readv(int fd, const struct iovec *iov, int nr);
int __real_poll(struct pollfd *fds, nfds_t nr, int timeout);
void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);

int __real_sigaction(int signal, const struct sigaction *new, struct sigaction *old);

int __wrap_ioctl(int fd, unsigned long command, void *arg);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int nr);
int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_sigaction(int signal, const struct sigaction *new, struct sigaction *old);

static int left_alone;

/*
 * Make the nth place from here fail. Returns a descriptor that fault_occurred() reads to find out
 * whether it has, or -1 if none can be opened.
 */
static int set_fault(unsigned int place)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", place), fd;

	if (left_alone)
		return -1;
	fd = __real_open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC, 0);
	if (fd >= 0 && write(fd, text, len) != len) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Returns whether a fault has occurred. If it had not yet, it hits this query or the write
 * that cancels it.
 */
static int fault_occurred(int fd)
{
	int error = errno, hit;
	char text[16];

	if (fd < 0)
		return 0;
	hit = __real_read(fd, text, sizeof(text)) > 0 && text[0] == '0';
	while (write(fd, "0", 1) != 1)
		;
	close(fd);
	errno = error;
	return hit;
}

/* A call that has failed because of a fault is repeated with the next place. */
static int is_over(int fd, long ret)
{
	return !fault_occurred(fd) || ret != -1 || (errno != ENOMEM && errno != EFAULT);
}

/* Value of @call when no place fails, or none of the first @most places. */
#define FAIL_IN_TURN(most, call) ({						\
	unsigned int place_ = 0;						\
	typeof(call) ret_;							\
	int fd_;								\
										\
	do {									\
		fd_ = ++place_ <= (most) ? set_fault(place_) : -1;		\
		ret_ = (call);							\
	} while (!is_over(fd_, (long)ret_));					\
	ret_;									\
})

static int is_device(int fd)
{
	struct stat device, stat;
	int error = errno, ret;

	ret = !lstat(DEVICE, &device) && !fstat(fd, &stat) && S_ISCHR(stat.st_mode) &&
	      stat.st_rdev == device.st_rdev;
	errno = error;
	return ret;
}

/*
 * Number of places that may fail: those before a call has effects whose results could be
 * lost, or before it completes only in part.
 */
static unsigned int places(unsigned long command)
{
	switch (command) {
	case TWHEEL_IOC_SUBMIT:
	case TWHEEL_IOC_CANCEL_ALL:
	case TWHEEL_IOC_LIST:
		return 2;
	default:
		return MAX_PLACES;
	}
}

int __wrap_ioctl(int fd, unsigned long command, void *arg)
{
	if (_IOC_TYPE(command) != TWHEEL_IOC_MAGIC)
		return __real_ioctl(fd, command, arg);
	return FAIL_IN_TURN(places(command), __real_ioctl(fd, command, arg));
}

int __wrap_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if (strcmp(path, DEVICE))
		return __real_open(path, flags, mode);
	return FAIL_IN_TURN(MAX_PLACES, __real_open(path, flags, mode));
}

/* Use a descriptor of its own, because another thread may close the given one. */
ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	ssize_t ret;
	int own;

	if (!is_device(fd))
		return __real_read(fd, buffer, size);
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ret = FAIL_IN_TURN(MAX_PLACES, __real_read(own, buffer, size));
	close(own);
	return ret;
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int nr)
{
	if (!is_device(fd))
		return __real_readv(fd, iov, nr);
	return FAIL_IN_TURN(MAX_PLACES, __real_readv(fd, iov, nr));
}

int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout)
{
	if (nr != 1 || !is_device(fds->fd))
		return __real_poll(fds, nr, timeout);
	return FAIL_IN_TURN(MAX_PLACES, __real_poll(fds, nr, timeout));
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fd < 0 || !is_device(fd))
		return __real_mmap(address, size, protection, flags, fd, offset);
	return FAIL_IN_TURN(MAX_PLACES, __real_mmap(address, size, protection, flags, fd, offset));
}

int __wrap_sigaction(int signal, const struct sigaction *new, struct sigaction *old)
{
	left_alone = 1;
	return __real_sigaction(signal, new, old);
}
