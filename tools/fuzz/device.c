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

#define FALSE_REPLY_PERIOD	3	/* one of so many replies is falsified */

static uint64_t operations;

void device_count(uint64_t nr)
{
	__atomic_fetch_add(&operations, nr, __ATOMIC_RELAXED);
}

uint64_t device_operations(void)
{
	return __atomic_load_n(&operations, __ATOMIC_RELAXED);
}

/* False replies */

enum false_reply {
	WRONG_ERRNO, STALE_ACCEPTED, NOT_WITHDRAWN, OLD_ID, TOO_LONG, ONE_LIVE_MORE, ONE_DONE_LESS,
	EARLY, WRONG_COOKIE, NOT_LAST, ONE_MORE, LOST, OUT_OF_ORDER, NOT_READY, NOT_LISTED,
	COUNT_OF_CANCEL_ALL, RESULT_WRITTEN, NOT_BEGUN_IS_BUSY, SETUP_TOO_LATE,
	IDLE_WITHDRAWN, ONE_KICK_MORE, LAST_TOO_EARLY, ONE_REFUSED_MORE, WITHDRAWN_AS_CANCELLED,
	NOT_GIVEN_BACK,
};

static const char * const false_reply_names[NR_FALSE_REPLIES] = {
	[WRONG_ERRNO] = "wrong errno",
	[STALE_ACCEPTED] = "stale id accepted",
	[NOT_WITHDRAWN] = "withdrawn, but said to be pending",
	[OLD_ID] = "id given out twice",
	[TOO_LONG] = "remaining time too long",
	[ONE_LIVE_MORE] = "one more counted live",
	[ONE_DONE_LESS] = "one operation less done",
	[EARLY] = "early by a nanosecond",
	[WRONG_COOKIE] = "wrong cookie",
	[NOT_LAST] = "lost flag of the last event",
	[ONE_MORE] = "one expiration too many",
	[LOST] = "lost event",
	[OUT_OF_ORDER] = "events out of order",
	[NOT_READY] = "poll without an event that is there",
	[NOT_LISTED] = "timeout not listed",
	[COUNT_OF_CANCEL_ALL] = "miscounted cancel",
	[RESULT_WRITTEN] = "result written by an ioctl of a single operation",
	[NOT_BEGUN_IS_BUSY] = "context that nothing has begun cannot be set up",
	[SETUP_TOO_LATE] = "context that has begun set up",
	[IDLE_WITHDRAWN] = "idle cell said to have fired",
	[ONE_KICK_MORE] = "one KICK too many",
	[LAST_TOO_EARLY] = "event said to be the last one",
	[ONE_REFUSED_MORE] = "one refusal too many",
	[WITHDRAWN_AS_CANCELLED] = "withdrawn event counted as a cancelled timeout",
	[NOT_GIVEN_BACK] = "page of a closed context counted",
};

static int false_reply_kind = -1;
static unsigned int nr_chances;

void device_falsify(int false_reply)
{
	false_reply_kind = false_reply;
	nr_chances = 0;
}

const char *device_false_reply_name(int false_reply)
{
	return false_reply_names[false_reply];
}

static int falsify_now(enum false_reply false_reply)
{
	return false_reply_kind == (int)false_reply && ++nr_chances % FALSE_REPLY_PERIOD == 0;
}

static int is_op(unsigned long command, const struct twheel_op *op, uint32_t opcode)
{
	return command == TWHEEL_IOC_OP && op->opcode == opcode;
}

static int falsify_error(unsigned long command, const void *arg, int error)
{
	if (error == -EINVAL && falsify_now(WRONG_ERRNO))
		return -ENOSPC;
	if (error == -ENOENT && is_op(command, arg, TWHEEL_OP_CANCEL) &&
	    falsify_now(STALE_ACCEPTED))
		return 0;
	if (error == -EBUSY && command == TWHEEL_IOC_SETUP && falsify_now(SETUP_TOO_LATE))
		return 0;
	return error;
}

/*
 * memory_place() aligns the end of usable memory with a page. So an operation that ends at
 * a page boundary can be written as a whole; another one may only be writable in part.
 */
static int is_writable(const struct twheel_op *op)
{
	return (uintptr_t)(op + 1) % 4096 == 0;
}

/* Returns the outcome, possibly changed. */
static int falsify_op(struct twheel_op *op, int outcome)
{
	static uint64_t id;

	if (is_writable(op) && falsify_now(RESULT_WRITTEN))
		op->result = outcome;
	if (op->opcode == TWHEEL_OP_ARM && id && falsify_now(OLD_ID))
		op->id = id;
	if (op->opcode == TWHEEL_OP_ARM)
		id = op->id;
	if (op->opcode == TWHEEL_OP_GET && falsify_now(TOO_LONG))
		op->expires_ns += 1000000000;
	if (outcome == TWHEEL_IDLE && falsify_now(IDLE_WITHDRAWN))
		return TWHEEL_WITHDRAWN;
	return outcome == TWHEEL_WITHDRAWN && falsify_now(NOT_WITHDRAWN) ? 0 : outcome;
}

static void falsify_file_call(unsigned long command, void *arg)
{
	struct twheel_submit *submit = arg;
	struct twheel_cancel_all *all = arg;
	struct twheel_list *list = arg;
	struct twheel_info *info = arg;
	struct twheel_stats *stats = arg;

	if (command == TWHEEL_IOC_SUBMIT && submit->done && falsify_now(ONE_DONE_LESS))
		submit->done--;
	if (command == TWHEEL_IOC_CANCEL_ALL && falsify_now(COUNT_OF_CANCEL_ALL))
		all->withdrawn++;
	if (command == TWHEEL_IOC_LIST && list->done && falsify_now(NOT_LISTED))
		list->done--;
	if (command == TWHEEL_IOC_INFO && falsify_now(ONE_LIVE_MORE))
		info->live++;
	if (command == TWHEEL_IOC_INFO && info->refused && falsify_now(ONE_REFUSED_MORE))
		info->refused++;
	if (command == TWHEEL_IOC_INFO && falsify_now(NOT_GIVEN_BACK))
		info->user_timeouts += 46;
	if (command == TWHEEL_IOC_STATS && stats->kicks && falsify_now(ONE_KICK_MORE))
		stats->kicks++;
	if (command == TWHEEL_IOC_STATS && stats->withdrawn &&
	    falsify_now(WITHDRAWN_AS_CANCELLED)) {
		stats->withdrawn--;
		stats->cancelled++;
	}
}

static void falsify_event(struct twheel_event *event)
{
	if (event->fired_ns - event->expires_ns < 1000000 && falsify_now(EARLY))
		event->fired_ns = event->expires_ns - 1;
	if (falsify_now(WRONG_COOKIE))
		event->cookie ^= 1ULL << 63;
	if (falsify_now(NOT_LAST))
		event->flags &= ~TWHEEL_EV_LAST;
	if (!(event->flags & TWHEEL_EV_LAST) && falsify_now(LAST_TOO_EARLY))
		event->flags |= TWHEEL_EV_LAST;
	if (falsify_now(ONE_MORE))
		event->count++;
}

static ssize_t falsify_events(struct twheel_event *events, ssize_t size)
{
	struct twheel_event first;

	if (size <= 0)
		return size;
	falsify_event(events);
	if (size < (ssize_t)(2 * sizeof(*events)))
		return size;
	if (falsify_now(LOST))
		return size - sizeof(*events);
	if (events[0].fired_ns < events[1].fired_ns && falsify_now(OUT_OF_ORDER)) {
		first = events[0];
		events[0] = events[1];
		events[1] = first;
	}
	return size;
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

static int falsify_ioctl(unsigned long command, void *arg, int ret)
{
	if (ret < 0)
		return falsify_error(command, arg, ret);
	if (command == TWHEEL_IOC_OP)
		return falsify_op(arg, ret);
	if (command == TWHEEL_IOC_SETUP)
		return falsify_now(NOT_BEGUN_IS_BUSY) ? -EBUSY : ret;
	falsify_file_call(command, arg);
	return ret;
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
	return false_reply_kind < 0 ? ret : falsify_ioctl(command, arg, ret);
}

int device_command(int fd, struct twheel_submit *submit)
{
	int ret = ring_submit(fd, submit);

	device_count(1);
	if (ret < 0)
		return false_reply_kind < 0 ? ret : falsify_error(TWHEEL_IOC_SUBMIT, submit, ret);
	submit->done = ret;
	if (false_reply_kind >= 0)
		falsify_file_call(TWHEEL_IOC_SUBMIT, submit);
	return 0;
}

ssize_t device_read(int fd, void *buffer, size_t size)
{
	ssize_t ret;

	device_count(1);
	if (use_process) {
		ret = process_read(fd, buffer, size, 0);
	} else {
		ret = read(fd, buffer, size);
		ret = ret < 0 ? -errno : ret;
	}
	return false_reply_kind < 0 ? ret : falsify_events(buffer, ret);
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
	if (use_process) {
		ret = process_poll(fd, timeout_ms, revents);
	} else {
		ret = poll(&pollfd, 1, timeout_ms);
		ret = ret < 0 ? -errno : 0;
		*revents = pollfd.revents;
	}
	if (*revents && falsify_now(NOT_READY))
		*revents = 0;
	return ret;
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
