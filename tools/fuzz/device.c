// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "device.h"
#include "process.h"
#include "ring.h"

static uint64_t operations;

void device_count(uint64_t nr)
{
	__atomic_fetch_add(&operations, nr, __ATOMIC_RELAXED);
}

uint64_t device_operations(void)
{
	return __atomic_load_n(&operations, __ATOMIC_RELAXED);
}

/*
 * Wheels in the process. Each descriptor is a duplicate, so the last one that is closed closes the
 * wheel.
 */

#define NR_FDS		1024

static int use_process;
static struct twheel_process *processes[NR_FDS];

void device_use_process(void)
{
	use_process = 1;
}

int device_is_process(void)
{
	return use_process;
}

static int process_dup(struct twheel_process *p, int from)
{
	int fd = fcntl(from, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		processes[fd] = p;
	return fd < 0 ? -errno : fd;
}

static int process_open(int flags)
{
	struct twheel_process *p;
	int ret = twheel_process_open(flags & O_NONBLOCK, &p);

	return ret ? ret : process_dup(p, twheel_process_fd(p));
}

static void process_close(int fd)
{
	struct twheel_process *p = processes[fd];

	processes[fd] = NULL;
	for (int i = 0; i < NR_FDS; i++) {
		if (processes[i] == p)
			return;
	}
	twheel_process_close(p);
}

/* SETUP has replaced the file behind the descriptor, but not behind its duplicates. */
static void process_replace_fds(const struct twheel_process *p)
{
	for (int i = 0; i < NR_FDS; i++) {
		if (processes[i] == p)
			dup3(twheel_process_fd(p), i, O_CLOEXEC);
	}
}

/* Blocks as a descriptor of the device does. */
static ssize_t process_read(int fd, struct twheel_event *events, size_t size, int nonblock)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	ssize_t ret;

	if (size < sizeof(*events))
		return -EINVAL;
	for (;;) {
		ret = twheel_process_read(processes[fd], events, size / sizeof(*events));
		if (ret >= 0)
			return ret * sizeof(*events);
		if (ret != -EAGAIN || nonblock || fcntl(fd, F_GETFL) & O_NONBLOCK)
			return ret;
		if (poll(&pollfd, 1, -1) < 0)
			return -errno;
	}
}

static ssize_t process_readv(int fd, const struct iovec *iov, int nr, int nonblock)
{
	struct twheel_event events[100];
	char *from = (char *)events;
	size_t size = 0;
	ssize_t ret;

	for (int i = 0; i < nr; i++)
		size += iov[i].iov_len;
	ret = process_read(fd, events, size, nonblock);
	for (ssize_t left = ret; left > 0; iov++) {
		size = iov->iov_len < (size_t)left ? iov->iov_len : (size_t)left;
		memcpy(iov->iov_base, from, size);
		from += size;
		left -= size;
	}
	return ret;
}

/* The result that poll() of a device would have had. A step without an event is no readiness. */
static short process_revents(int fd)
{
	struct twheel_info info;

	twheel_process_control(processes[fd], TWHEEL_IOC_INFO, &info);
	if (info.ready)
		return POLLIN | POLLRDNORM;
	return info.flags & TWHEEL_INFO_STOPPED ? POLLHUP : 0;
}

/* An event that is there must make the descriptor readable. */
static int process_poll(int fd, int timeout_ms, short *revents)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), end = now + timeout_ms * 1000000ULL;
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	int ret;

	do {
		ret = poll(&pollfd, 1, now < end ? (end - now + 999999) / 1000000 : 0);
		*revents = ret > 0 ? process_revents(fd) : 0;
		now = clock_ns(CLOCK_MONOTONIC);
	} while (ret > 0 && !*revents && now < end);
	return ret < 0 ? -errno : 0;
}

/* Calls */

int device_open(const char *path, int flags)
{
	int fd;

	device_count(1);
	if (use_process)
		return process_open(flags);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int device_dup(int fd)
{
	return use_process ? process_dup(processes[fd], fd) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void device_close(int fd)
{
	if (use_process)
		process_close(fd);
	close(fd);
}

void *device_map(int fd, size_t size, int protection, int share, off_t offset)
{
	struct twheel_cell *cells;

	device_count(1);
	if (!use_process)
		return mmap(NULL, size, protection, share, fd, offset);
	return twheel_process_cell(processes[fd], 0, &cells) ? MAP_FAILED : cells;
}

void device_unmap(void *map, size_t size)
{
	if (!use_process)
		munmap(map, size);
}

int device_ioctl(int fd, unsigned long command, void *arg)
{
	int ret;

	device_count(1);
	if (use_process) {
		ret = twheel_process_control(processes[fd], command, arg);
		if (command == TWHEEL_IOC_SETUP && !ret)
			process_replace_fds(processes[fd]);
	} else {
		ret = ioctl(fd, command, arg);
		ret = ret < 0 ? -errno : ret;
	}
	return ret;
}

int device_command(int fd, struct twheel_submit *submit)
{
	int ret = ring_submit(fd, submit);

	device_count(1);
	if (ret < 0)
		return ret;
	submit->done = ret;
	return 0;
}

ssize_t device_read(int fd, void *buffer, size_t size)
{
	ssize_t ret;

	device_count(1);
	if (use_process)
		return process_read(fd, buffer, size, 0);
	ret = read(fd, buffer, size);
	return ret < 0 ? -errno : ret;
}

ssize_t device_readv(int fd, const struct iovec *iov, int nr, int flags)
{
	ssize_t ret;

	device_count(1);
	if (use_process)
		return process_readv(fd, iov, nr, flags);
	ret = preadv2(fd, iov, nr, -1, flags);
	return ret < 0 ? -errno : ret;
}

int device_poll(int fd, short events, int timeout_ms, short *revents)
{
	struct pollfd pollfd = { .fd = fd, .events = events };
	int ret;

	device_count(1);
	if (use_process)
		return process_poll(fd, timeout_ms, revents);
	ret = poll(&pollfd, 1, timeout_ms);
	*revents = pollfd.revents;
	return ret < 0 ? -errno : 0;
}

void device_let_look(int fd, unsigned int us)
{
	short revents;

	sleep_us(us);
	if (use_process)
		process_poll(fd, 0, &revents);
}

/* Register the file, then poll once. */
int device_epoll(int fd, int timeout_ms, uint32_t events, uint32_t *revents)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDNORM | events };
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	int ret = epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);

	device_count(1);
	if (!ret)
		ret = epoll_wait(epfd, &event, 1, timeout_ms);
	*revents = ret > 0 ? use_process ? (uint32_t)process_revents(fd) : event.events : 0;
	ret = ret < 0 ? -errno : 0;
	close(epfd);
	return ret;
}
