// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/io_uring.h>

#include "device.h"
#include "fuzz.h"
#include "process.h"

#define MEMORY_SIZE	8192
#define RING_ENTRIES	4

static uint64_t operations;

void device_count(uint64_t nr)
{
	__atomic_fetch_add(&operations, nr, __ATOMIC_RELAXED);
}

uint64_t device_operations(void)
{
	return __atomic_load_n(&operations, __ATOMIC_RELAXED);
}

/* Memory for the arguments of calls */

static char *areas[READ_ONLY + 1];

static void memory_init(void)
{
	static const int protection[] = {
		[GOOD] = PROT_READ | PROT_WRITE,
		[UNMAPPED] = PROT_NONE,
		[READ_ONLY] = PROT_READ,
	};

	for (int i = GOOD; i <= READ_ONLY; i++) {
		areas[i] = shared_memory(2 * MEMORY_SIZE);
		if (mprotect(areas[i] + MEMORY_SIZE, MEMORY_SIZE, protection[i])) {
			perror("fuzz: mprotect");
			exit(1);
		}
	}
}

void *memory_place(enum memory memory, size_t size, size_t usable)
{
	return areas[memory] + MEMORY_SIZE - (memory == GOOD ? size : usable);
}

/* SUBMIT as a command of an io_uring */

static struct ring {
	int			fd;
	unsigned int		*sq_tail, *sq_array, *cq_head, *cq_tail;
	unsigned int		sq_mask, cq_mask;
	struct io_uring_sqe	*sqes;
	struct io_uring_cqe	*cqes;
} ring = { .fd = -1 };

static void *ring_map(int fd, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
}

/* If there is no ring, no commands are made. */
static void ring_init(void)
{
	struct io_uring_params p = { 0 };
	int fd = syscall(SYS_io_uring_setup, RING_ENTRIES, &p);
	char *rings;

	if (fd < 0)
		return;
	rings = ring_map(fd, p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqes) +
			 p.sq_entries * sizeof(*ring.sq_array), IORING_OFF_SQ_RING);
	ring.sqes = ring_map(fd, p.sq_entries * sizeof(*ring.sqes), IORING_OFF_SQES);
	if (rings == MAP_FAILED || ring.sqes == MAP_FAILED)
		return;
	ring.sq_tail = (void *)(rings + p.sq_off.tail);
	ring.sq_array = (void *)(rings + p.sq_off.array);
	ring.sq_mask = *(unsigned int *)(rings + p.sq_off.ring_mask);
	ring.cq_head = (void *)(rings + p.cq_off.head);
	ring.cq_tail = (void *)(rings + p.cq_off.tail);
	ring.cq_mask = *(unsigned int *)(rings + p.cq_off.ring_mask);
	ring.cqes = (void *)(rings + p.cq_off.cqes);
	ring.fd = fd;
}

static void ring_prepare(int fd, const struct twheel_submit *submit)
{
	unsigned int tail = *ring.sq_tail, index = tail & ring.sq_mask;
	struct io_uring_sqe *sqe = &ring.sqes[index];
	struct twheel_uring_submit *command = (void *)sqe->cmd;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = TWHEEL_URING_SUBMIT;
	command->ops = submit->ops;
	command->nr = submit->nr;
	command->op_size = submit->op_size;
	command->flags = submit->flags;
	ring.sq_array[index] = index;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* The command completes inline, so its completion is there on return. */
static int ring_submit(int fd, const struct twheel_submit *submit)
{
	unsigned int head = *ring.cq_head;
	int ret;

	ring_prepare(fd, submit);
	ret = syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0);
	if (ret != 1)
		return ret < 0 ? -errno : -EPROTO;
	if (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) == head)
		return -EINPROGRESS;
	ret = ring.cqes[head & ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	return ret;
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

void device_init(void)
{
	memory_init();
	ring_init();
}

int device_has_commands(void)
{
	return ring.fd >= 0;
}

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
