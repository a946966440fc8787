// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * All access of user space to /dev/twheel goes through here, so that a change of
 * the ABI is a change of this file. A context is of the device, or is a wheel in the process,
 * which takes the same requests.
 *
 * A context is a descriptor, its clock and the mapping of its cells. The clock is fixed
 * when the context is opened or set up, and the mapping is added later. There is nothing to
 * lock: the kernel serialises the calls for a file, and a thread that reads, waits or
 * submits has all its state on its own stack.
 *
 * The cells are mapped when the first one is asked for, all at once: the kernel makes the
 * pages when they are used. After mlockall(MCL_FUTURE), mmap() would make them all, so it
 * maps pages without access, which mprotect() then allows: neither of them makes a page of a
 * shared mapping. Several threads may find that the mapping is missing. The
 * first one to put its mapping into the context wins, the others drop theirs. The
 * pointer is stored with release and loaded with acquire; it stays until the context
 * is closed. The length is stored before the pointer. All threads store the same one,
 * but they may do so while another reads it, so each access is atomic.
 *
 * All waits are in ppoll(): a handler ends it even with SA_RESTART, after which read()
 * would go on. Nor may a read block after that: another reader can take the event first.
 * preadv2() with RWF_NOWAIT does not block whatever the flags of the file, which are not
 * ours to change: the file may be shared with other processes. musl has it from 1.2.4 on.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The functions of the header that programs have inline are exported from here. */
#define TWHEEL_CELL_INLINE
#include "libtwheel.h"
#include "process.h"

#define NSEC_PER_SEC	1000000000
#define NSEC_PER_USEC	1000
#define NEVER		UINT64_MAX

#ifndef RWF_NOWAIT
#define RWF_NOWAIT	8
#endif

static_assert(sizeof(void *) != 8 || sizeof(struct twheel_kicks) == 16 + 32 * TWHEEL_MAX_KICKS,
	      "it is in programs");

/**
 * struct twheel_ctx - a context
 * @process: the wheel in the process; NULL: @fd is of the device
 * @fd: the descriptor
 * @owned: close it with the context
 * @clock: clock of the context
 * @nr_cells: length of @cells, a whole number of pages; 0 before they are mapped
 * @cells: by index; NULL before they are mapped
 */
struct twheel_ctx {
	struct twheel_process *process;
	int		fd;
	int		owned;
	clockid_t	clock;
	uint32_t	nr_cells;
	struct twheel_cell *cells;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static int ctx_ioctl(const struct twheel_ctx *ctx, unsigned long request, void *arg)
{
	int ret;

	if (ctx->process)
		return twheel_process_control(ctx->process, request, arg);
	ret = ioctl(ctx->fd, request, arg);
	return ret < 0 ? -errno : ret;
}

#ifdef TWHEEL_HAS_CELLS

static int map_cells(struct twheel_ctx *ctx)
{
	struct twheel_cell *mine, *first = NULL;
	struct twheel_info info;
	uint64_t size;
	int ret;

	if (ctx->process || __atomic_load_n(&ctx->cells, __ATOMIC_ACQUIRE))
		return 0;
	ret = twheel_get_info(ctx, &info);
	if (ret)
		return ret;
	if (!(info.op_flags & TWHEEL_F_CELL))
		return -EOPNOTSUPP;
	size = (uint64_t)info.cells * sizeof(*mine);
	if (size != (size_t)size)
		return -ENOMEM;
	mine = mmap(NULL, size, PROT_NONE, MAP_SHARED, ctx->fd, 0);
	if (mine == MAP_FAILED)
		return -errno;
	if (mprotect(mine, size, PROT_READ | PROT_WRITE)) {
		ret = -errno;
		munmap(mine, size);
		return ret;
	}
	__atomic_store_n(&ctx->nr_cells, size / sizeof(*mine), __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(&ctx->cells, &first, mine, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		munmap(mine, size);
	return 0;
}

#else

/* Without cells the caller of twheel_cell_cancel_at() is never reached. */
static int map_cells(struct twheel_ctx *ctx)
{
	(void)ctx;
	return -EOPNOTSUPP;
}

static int twheel_cell_cancel_at(struct twheel_cell *cell, uint64_t expires_ns)
{
	(void)cell;
	(void)expires_ns;
	return -ENOENT;
}

#endif

/* INFO also checks that @fd is a twheel context. */
static int new_context(struct twheel_process *process, int fd, int owned,
		       struct twheel_ctx **out)
{
	struct twheel_ctx ctx = { .process = process, .fd = fd, .owned = owned }, *new;
	struct twheel_info info;
	int ret;

	ret = twheel_get_info(&ctx, &info);
	if (ret)
		return ret;
	ctx.clock = info.clock;

	new = malloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	*new = ctx;
	*out = new;
	return 0;
}

static int open_device(const char *path, int mode, struct twheel_ctx **ctx)
{
	int fd = open(path, O_RDWR | mode), ret;

	if (fd < 0)
		return -errno;
	ret = new_context(NULL, fd, 1, ctx);
	if (ret)
		close(fd);
	return ret;
}

static int open_process(int mode, struct twheel_ctx **ctx)
{
	struct twheel_process *process;
	int ret = twheel_process_open(mode, &process);

	if (ret)
		return ret;
	ret = new_context(process, twheel_process_fd(process), 1, ctx);
	if (ret)
		twheel_process_close(process);
	return ret;
}

/* TWHEEL_KERNEL or TWHEEL_PROCESS, 0 for either, or -EINVAL. The environment comes first. */
static int choose_backend(unsigned int flags)
{
	const char *name = secure_getenv("TWHEEL_BACKEND");

	if (!name || !*name)
		return flags & (TWHEEL_KERNEL | TWHEEL_PROCESS);
	if (!strcmp(name, "kernel"))
		return TWHEEL_KERNEL;
	return strcmp(name, "process") ? -EINVAL : TWHEEL_PROCESS;
}

/*
 * Does opening the device fail because the machine or container does not offer it? In place of it,
 * 'exec 3<>/dev/twheel' of root leaves a file, and 'docker run -v' a directory.
 */
static int device_is_missing(int error)
{
	struct stat st;

	return error == -ENOENT || error == -ENODEV || error == -ENXIO || error == -EACCES ||
	       error == -EPERM || error == -ENOSYS ||
	       (error && !stat(TWHEEL_DEVICE, &st) && !S_ISCHR(st.st_mode));
}

int twheel_open(const char *path, unsigned int flags, struct twheel_ctx **ctx)
{
	int mode = flags & TWHEEL_NONBLOCK ? O_NONBLOCK : 0;
	int backend = path ? TWHEEL_KERNEL : choose_backend(flags), ret;

	if (flags & ~(TWHEEL_NONBLOCK | TWHEEL_INHERIT | TWHEEL_KERNEL | TWHEEL_PROCESS))
		return -EINVAL;
	if (flags & TWHEEL_PROCESS && (path || flags & TWHEEL_KERNEL))
		return -EINVAL;
	if (backend < 0)
		return backend;
	if (!(flags & TWHEEL_INHERIT))
		mode |= O_CLOEXEC;
	if (backend == TWHEEL_PROCESS)
		return open_process(mode, ctx);
	ret = open_device(path ? path : TWHEEL_DEVICE, mode, ctx);
	return !backend && device_is_missing(ret) ? open_process(mode, ctx) : ret;
}

int twheel_available(void)
{
	struct twheel_ctx *ctx = NULL;
	int ret = open_device(TWHEEL_DEVICE, O_CLOEXEC, &ctx);

	if (!ret)
		twheel_close(ctx);
	return ret;
}

unsigned int twheel_version(void)
{
	return TWHEEL_VERSION;
}

/* A context in a process has a timerfd, which shows nothing of it. */
int twheel_open_fd(int fd, struct twheel_ctx **ctx)
{
	struct itimerspec its;
	int ret = new_context(NULL, fd, 0, ctx);

	return ret == -ENOTTY && !timerfd_gettime(fd, &its) ? -EOPNOTSUPP : ret;
}

void twheel_close(struct twheel_ctx *ctx)
{
	if (!ctx)
		return;
	if (ctx->cells)
		munmap(ctx->cells, ctx->nr_cells * sizeof(*ctx->cells));
	if (ctx->process)
		twheel_process_close(ctx->process);
	else if (ctx->owned)
		close(ctx->fd);
	free(ctx);
}

int twheel_fd(const struct twheel_ctx *ctx)
{
	return ctx->fd;
}

int twheel_configure(struct twheel_ctx *ctx, const struct twheel_setup *setup)
{
	struct twheel_setup copy = *setup;
	int ret = ctx_ioctl(ctx, TWHEEL_IOC_SETUP, &copy);

	if (ctx->process)
		ctx->fd = twheel_process_fd(ctx->process);
	if (ret)
		return ret;
	ctx->clock = setup->flags & TWHEEL_SETUP_CLOCK ? setup->clock : CLOCK_MONOTONIC;
	return 0;
}

int twheel_get_info(struct twheel_ctx *ctx, struct twheel_info *info)
{
	return ctx_ioctl(ctx, TWHEEL_IOC_INFO, info);
}

int twheel_get_stats(struct twheel_ctx *ctx, struct twheel_stats *stats)
{
	return ctx_ioctl(ctx, TWHEEL_IOC_STATS, stats);
}

int twheel_now(struct twheel_ctx *ctx, uint64_t *now_ns)
{
	*now_ns = ctx->process ? twheel_process_now(ctx->process) : clock_ns(ctx->clock);
	return 0;
}

int twheel_set_time(struct twheel_ctx *ctx, uint64_t now_ns)
{
	return ctx->process ? twheel_process_set_time(ctx->process, now_ns) : -EOPNOTSUPP;
}

/* Fields that an operation does not take must be 0. */
static void prep_op(struct twheel_op *op, uint32_t opcode, uint64_t id)
{
	memset(op, 0, sizeof(*op));
	op->opcode = opcode;
	op->id = id;
}

static void prep_deadline(struct twheel_op *op, uint64_t expires_ns, unsigned int flags,
			  uint64_t cookie)
{
	op->expires_ns = expires_ns;
	op->flags = flags;
	op->cookie = cookie;
}

void twheel_prep_arm(struct twheel_op *op, uint64_t expires_ns, unsigned int flags,
		     uint64_t cookie)
{
	prep_op(op, TWHEEL_OP_ARM, 0);
	prep_deadline(op, expires_ns, flags, cookie);
}

void twheel_prep_mod(struct twheel_op *op, uint64_t id, uint64_t expires_ns,
		     unsigned int flags, uint64_t cookie)
{
	prep_op(op, TWHEEL_OP_MOD, id);
	prep_deadline(op, expires_ns, flags, cookie);
}

void twheel_prep_cancel(struct twheel_op *op, uint64_t id)
{
	prep_op(op, TWHEEL_OP_CANCEL, id);
}

void twheel_prep_get(struct twheel_op *op, uint64_t id)
{
	prep_op(op, TWHEEL_OP_GET, id);
}

void twheel_prep_kick(struct twheel_op *op, uint64_t id)
{
	prep_op(op, TWHEEL_OP_KICK, id);
}

void twheel_prep_interval(struct twheel_op *op, uint64_t interval_ns, uint32_t repeat)
{
	op->interval_ns = interval_ns;
	op->repeat = repeat;
}

/* Round down: less slack than the caller allows is harmless. */
void twheel_prep_slack(struct twheel_op *op, uint64_t slack_ns)
{
	uint64_t us = slack_ns / NSEC_PER_USEC;

	op->slack_us = us < UINT32_MAX ? us : UINT32_MAX;
}

int twheel_operate(struct twheel_ctx *ctx, struct twheel_op *op)
{
	struct twheel_op copy = *op;
	int ret;

	/* The ioctl returns the outcome and does not write the result. */
	ret = ctx_ioctl(ctx, TWHEEL_IOC_OP, &copy);
	if (ret < 0)
		return ret;
	*op = copy;
	op->result = ret;
	return ret;
}

int twheel_arm(struct twheel_ctx *ctx, uint64_t expires_ns, unsigned int flags,
	       uint64_t cookie, uint64_t *id)
{
	struct twheel_op op;
	int ret;

	twheel_prep_arm(&op, expires_ns, flags, cookie);
	ret = ctx_ioctl(ctx, TWHEEL_IOC_OP, &op);
	if (ret >= 0 && id)
		*id = op.id;
	return ret;
}

int twheel_mod(struct twheel_ctx *ctx, uint64_t id, uint64_t expires_ns,
	       unsigned int flags, uint64_t cookie)
{
	struct twheel_op op;

	twheel_prep_mod(&op, id, expires_ns, flags, cookie);
	return ctx_ioctl(ctx, TWHEEL_IOC_OP, &op);
}

int twheel_cancel(struct twheel_ctx *ctx, uint64_t id)
{
	struct twheel_op op;

	twheel_prep_cancel(&op, id);
	return ctx_ioctl(ctx, TWHEEL_IOC_OP, &op);
}

int twheel_get(struct twheel_ctx *ctx, uint64_t id, struct twheel_op *op)
{
	struct twheel_op found;
	int ret;

	twheel_prep_get(&found, id);
	ret = ctx_ioctl(ctx, TWHEEL_IOC_OP, &found);
	if (ret >= 0)
		*op = found;
	return ret;
}

int twheel_submit_ops(struct twheel_ctx *ctx, struct twheel_op *ops, unsigned int nr)
{
	struct twheel_submit submit = {
		.ops = (uintptr_t)ops,
		.nr = nr,
		.op_size = sizeof(*ops),
	};
	int ret;

	if (nr > INT_MAX)
		return -EINVAL;
	ret = ctx_ioctl(ctx, TWHEEL_IOC_SUBMIT, &submit);
	if (ret)
		return ret;
	return submit.done;
}

static int cancel_all(const struct twheel_ctx *ctx, struct twheel_cancel_all *request,
		      struct twheel_cancel_all *done)
{
	int ret = ctx_ioctl(ctx, TWHEEL_IOC_CANCEL_ALL, request);

	if (!ret && done)
		*done = *request;
	return ret;
}

int twheel_cancel_timeouts(struct twheel_ctx *ctx, struct twheel_cancel_all *done)
{
	struct twheel_cancel_all request = { 0 };

	return cancel_all(ctx, &request, done);
}

int twheel_cancel_cookie(struct twheel_ctx *ctx, uint64_t cookie,
			 struct twheel_cancel_all *done)
{
	struct twheel_cancel_all request = {
		.cookie = cookie,
		.flags = TWHEEL_CANCEL_COOKIE,
	};

	return cancel_all(ctx, &request, done);
}

int twheel_stop(struct twheel_ctx *ctx)
{
	return ctx_ioctl(ctx, TWHEEL_IOC_STOP, NULL);
}

int twheel_list_timeouts(struct twheel_ctx *ctx, struct twheel_list_entry *entries,
			 unsigned int nr, uint32_t *next)
{
	struct twheel_list list = {
		.entries = (uintptr_t)entries,
		.nr = nr,
		.next = *next,
		.entry_size = sizeof(*entries),
	};
	int ret;

	if (nr > INT_MAX)
		return -EINVAL;
	ret = ctx_ioctl(ctx, TWHEEL_IOC_LIST, &list);
	/* The kernel sets it after a failure too. */
	*next = list.next;
	return ret ? ret : (int)list.done;
}

int twheel_cell_find(struct twheel_ctx *ctx, uint64_t id, struct twheel_cell **cell)
{
	uint32_t index = (uint32_t)id, generation = id >> 32;
	int ret = map_cells(ctx);

	if (ret)
		return ret;
	if (ctx->process)
		return generation ? twheel_process_cell(ctx->process, index, cell) : -EINVAL;
	if (!generation || index >= __atomic_load_n(&ctx->nr_cells, __ATOMIC_RELAXED))
		return -EINVAL;
	*cell = &ctx->cells[index];
	return 0;
}

int twheel_cell_create(struct twheel_ctx *ctx, uint64_t cookie, uint64_t *id,
		       struct twheel_cell **cell)
{
	struct twheel_op op;
	int ret = map_cells(ctx);

	if (ret)
		return ret;
	/* CLOCK_REALTIME requires TWHEEL_F_ABS. */
	twheel_prep_arm(&op, TWHEEL_CELL_IDLE, TWHEEL_F_CELL | TWHEEL_F_ABS, cookie);
	ret = ctx_ioctl(ctx, TWHEEL_IOC_OP, &op);
	if (ret)
		return ret;
	ret = twheel_cell_find(ctx, op.id, cell);
	if (ret) {
		/* Another process raised the limit between INFO and the mapping. */
		twheel_cancel(ctx, op.id);
		return ret;
	}
	*id = op.id;
	return 0;
}

/* The arming counts if the kernel had seen it before it refused the kick. */
static int undo_arm(struct twheel_cell *cell, uint64_t expires_ns, int error)
{
	return error < 0 && !twheel_cell_cancel_at(cell, expires_ns) ? error : 0;
}

/* May run in a signal handler, so it preserves errno. */
int twheel_cell_kick(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
		     uint64_t expires_ns)
{
	int saved = errno, ret;
	struct twheel_op op;

	twheel_prep_kick(&op, id);
	ret = undo_arm(cell, expires_ns, ctx_ioctl(ctx, TWHEEL_IOC_OP, &op));
	errno = saved;
	return ret;
}

int twheel_kick_all(struct twheel_kicks *kicks)
{
	struct twheel_op ops[TWHEEL_MAX_KICKS];
	unsigned int nr = kicks->nr;
	int tried, first = 0;

	if (!nr)
		return 0;
	for (unsigned int i = 0; i < nr; i++)
		twheel_prep_kick(&ops[i], kicks->kick[i].id);
	tried = twheel_submit_ops(kicks->ctx, ops, nr);
	for (unsigned int i = 0; i < nr; i++) {
		int result = tried < 0 ? tried : -EINTR;

		if ((int)i < tried)
			result = ops[i].result;
		result = undo_arm(kicks->kick[i].cell, kicks->kick[i].expires_ns, result);
		kicks->kick[i].result = result;
		first = first ? first : result;
	}
	kicks->nr = 0;
	return first;
}

/* When a wait that begins now ends. */
static uint64_t wait_end(int64_t timeout_ns)
{
	if (timeout_ns < 0)
		return NEVER;
	return timeout_ns ? clock_ns(CLOCK_MONOTONIC) + timeout_ns : 0;
}

/* Time left until @end, 0 if it has passed. */
static uint64_t time_left(uint64_t end)
{
	uint64_t now = end && end != NEVER ? clock_ns(CLOCK_MONOTONIC) : 0;

	return now < end ? end - now : 0;
}

/* With an end, it may return 0 earlier: time_t may have 32 bits. */
static int poll_readable(const struct twheel_ctx *ctx, uint64_t timeout_ns)
{
	uint64_t seconds = timeout_ns / NSEC_PER_SEC;
	struct timespec ts = {
		.tv_sec = seconds < INT32_MAX ? seconds : INT32_MAX,
		.tv_nsec = timeout_ns % NSEC_PER_SEC,
	};
	struct pollfd pfd = { .fd = ctx->fd, .events = POLLIN };
	int ret = ppoll(&pfd, 1, timeout_ns == NEVER ? NULL : &ts, NULL);

	if (ret < 0)
		return -errno;
	return (pfd.revents & POLLNVAL) ? -EBADF : ret;
}

/* The descriptor of a wheel in the process is readable at its steps, too. */
static int wait_until(struct twheel_ctx *ctx, uint64_t end)
{
	struct twheel_info info;
	uint64_t left;
	int ret;

	for (;;) {
		left = time_left(end);
		if (ctx->process) {
			ret = twheel_get_info(ctx, &info);
			if (ret)
				return ret;
			if (info.ready || info.flags & TWHEEL_INFO_STOPPED)
				return 1;
			if (!left)
				return 0;
		}
		ret = poll_readable(ctx, left);
		if (ret < 0 || (ret && !ctx->process))
			return ret;
		if (!left)
			return 0;
	}
}

int twheel_wait(struct twheel_ctx *ctx, int64_t timeout_ns)
{
	return wait_until(ctx, wait_end(timeout_ns));
}

static int nr_events(ssize_t bytes)
{
	return bytes < 0 ? -errno : (int)(bytes / (ssize_t)sizeof(struct twheel_event));
}

/*
 * Kernels and sandboxes without preadv2() or RWF_NOWAIT: another reader may take the event
 * between wait and read.
 */
static int read_nowait(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr)
{
	struct iovec iov = { .iov_base = events, .iov_len = nr * sizeof(*events) };
	int ret;

	if (ctx->process)
		return twheel_process_read(ctx->process, events, nr);
	ret = nr_events(syscall(SYS_preadv2, ctx->fd, &iov, 1L, -1L, -1L, RWF_NOWAIT));
	if (ret != -EOPNOTSUPP && ret != -ENOSYS && ret != -EPERM)
		return ret;
	ret = wait_until(ctx, 0);
	if (ret <= 0)
		return ret ? ret : -EAGAIN;
	return nr_events(read(ctx->fd, events, iov.iov_len));
}

int twheel_read(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr,
		int64_t timeout_ns)
{
	const unsigned int most = INT_MAX / sizeof(*events);
	uint64_t end = wait_end(timeout_ns), left;
	int ret;

	/* A read of 0 bytes would return 0 without a call of the driver. */
	if (!nr)
		return -EINVAL;
	/* Retry until @end: other threads may read or withdraw each event first. */
	for (;;) {
		left = time_left(end);
		ret = read_nowait(ctx, events, nr < most ? nr : most);
		if (ret != -EAGAIN || !timeout_ns)
			return ret;
		if (!left)
			return -ETIMEDOUT;
		ret = wait_until(ctx, end);
		if (ret < 0)
			return ret;
	}
}
