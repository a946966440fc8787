// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * All access of user space to /dev/twheel goes through here, so that a change of
 * the ABI is a change of this file.
 *
 * A context is a descriptor and the clock it counts in, both fixed when it is
 * opened. There is nothing to lock: the kernel serialises what happens to a file,
 * and a thread that reads, waits or submits has all its state on its own stack.
 *
 * A wait with an end may not block in read(): between poll() and read() another
 * reader can take the event. preadv2() with RWF_NOWAIT does not block whatever the
 * flags of the file, which are not ours to change: the file may be shared with
 * other processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "libtwheel.h"

#define NSEC_PER_SEC	1000000000

struct twheel_ctx {
	int		fd;
	int		owned;	/* close it with the context */
	clockid_t	clock;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static int control(const struct twheel_ctx *ctx, unsigned long request, void *arg)
{
	return ioctl(ctx->fd, request, arg) < 0 ? -errno : 0;
}

/* INFO is understood by nothing but a twheel context. */
static int new_context(int fd, int owned, struct twheel_ctx **out)
{
	struct twheel_ctx ctx = { .fd = fd, .owned = owned };
	struct twheel_info info;
	int ret;

	ret = twheel_info(&ctx, &info);
	if (ret)
		return ret;
	ctx.clock = info.clock;

	*out = malloc(sizeof(ctx));
	if (!*out)
		return -ENOMEM;
	**out = ctx;
	return 0;
}

int twheel_open(const char *path, unsigned int flags, struct twheel_ctx **ctx)
{
	int mode = O_RDWR;
	int ret, fd;

	if (flags & ~(TWHEEL_NONBLOCK | TWHEEL_INHERIT))
		return -EINVAL;
	if (flags & TWHEEL_NONBLOCK)
		mode |= O_NONBLOCK;
	if (!(flags & TWHEEL_INHERIT))
		mode |= O_CLOEXEC;

	fd = open(path ? path : TWHEEL_DEVICE, mode);
	if (fd < 0)
		return -errno;
	ret = new_context(fd, 1, ctx);
	if (ret)
		close(fd);
	return ret;
}

int twheel_open_fd(int fd, struct twheel_ctx **ctx)
{
	return new_context(fd, 0, ctx);
}

void twheel_close(struct twheel_ctx *ctx)
{
	if (ctx && ctx->owned)
		close(ctx->fd);
	free(ctx);
}

int twheel_fd(const struct twheel_ctx *ctx)
{
	return ctx->fd;
}

int twheel_info(struct twheel_ctx *ctx, struct twheel_info *info)
{
	return control(ctx, TWHEEL_IOC_INFO, info);
}

int twheel_now(struct twheel_ctx *ctx, uint64_t *now_ns)
{
	*now_ns = clock_ns(ctx->clock);
	return 0;
}

/* Fields that an operation does not take must be 0. */
static void prep(struct twheel_op *op, uint32_t opcode, uint64_t id)
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
	prep(op, TWHEEL_OP_ARM, 0);
	prep_deadline(op, expires_ns, flags, cookie);
}

void twheel_prep_mod(struct twheel_op *op, uint64_t id, uint64_t expires_ns,
		     unsigned int flags, uint64_t cookie)
{
	prep(op, TWHEEL_OP_MOD, id);
	prep_deadline(op, expires_ns, flags, cookie);
}

void twheel_prep_cancel(struct twheel_op *op, uint64_t id)
{
	prep(op, TWHEEL_OP_CANCEL, id);
}

void twheel_prep_get(struct twheel_op *op, uint64_t id)
{
	prep(op, TWHEEL_OP_GET, id);
}

/* A failure is the ioctl's error, a positive outcome is in the result. */
static int operate(const struct twheel_ctx *ctx, unsigned long request, struct twheel_op *op)
{
	int ret = control(ctx, request, op);

	return ret ? ret : op->result;
}

int twheel_arm(struct twheel_ctx *ctx, uint64_t expires_ns, unsigned int flags,
	       uint64_t cookie, uint64_t *id)
{
	struct twheel_op op;
	int ret;

	twheel_prep_arm(&op, expires_ns, flags, cookie);
	ret = operate(ctx, TWHEEL_IOC_ARM, &op);
	if (ret >= 0)
		*id = op.id;
	return ret;
}

int twheel_mod(struct twheel_ctx *ctx, uint64_t id, uint64_t expires_ns,
	       unsigned int flags, uint64_t cookie)
{
	struct twheel_op op;

	twheel_prep_mod(&op, id, expires_ns, flags, cookie);
	return operate(ctx, TWHEEL_IOC_MOD, &op);
}

int twheel_cancel(struct twheel_ctx *ctx, uint64_t id)
{
	struct twheel_op op;

	twheel_prep_cancel(&op, id);
	return operate(ctx, TWHEEL_IOC_CANCEL, &op);
}

int twheel_get(struct twheel_ctx *ctx, uint64_t id, struct twheel_op *op)
{
	struct twheel_op found;
	int ret;

	twheel_prep_get(&found, id);
	ret = operate(ctx, TWHEEL_IOC_GET, &found);
	if (ret >= 0)
		*op = found;
	return ret;
}

int twheel_submit(struct twheel_ctx *ctx, struct twheel_op *ops, unsigned int nr)
{
	struct twheel_submit submit = {
		.ops = (uintptr_t)ops,
		.nr = nr,
		.op_size = sizeof(*ops),
	};
	int ret;

	if (nr > INT_MAX)
		return -EINVAL;
	ret = control(ctx, TWHEEL_IOC_SUBMIT, &submit);
	return ret ? ret : (int)submit.done;
}

static int wait_readable(const struct twheel_ctx *ctx, const struct timespec *timeout)
{
	struct pollfd pfd = { .fd = ctx->fd, .events = POLLIN };
	int ret = ppoll(&pfd, 1, timeout, NULL);

	if (ret < 0)
		return -errno;
	return (pfd.revents & POLLNVAL) ? -EBADF : ret;
}

int twheel_wait(struct twheel_ctx *ctx, int64_t timeout_ns)
{
	struct timespec ts = {
		.tv_sec = timeout_ns / NSEC_PER_SEC,
		.tv_nsec = timeout_ns % NSEC_PER_SEC,
	};

	return wait_readable(ctx, timeout_ns < 0 ? NULL : &ts);
}

static int records(ssize_t bytes)
{
	return bytes < 0 ? -errno : (int)(bytes / (ssize_t)sizeof(struct twheel_event));
}

static int read_blocking(struct twheel_ctx *ctx, struct iovec *iov)
{
	return records(read(ctx->fd, iov->iov_base, iov->iov_len));
}

/* A kernel that cannot do better gets the race with another reader. */
static int read_nowait(struct twheel_ctx *ctx, struct iovec *iov)
{
	int ret = records(preadv2(ctx->fd, iov, 1, -1, RWF_NOWAIT));

	if (ret != -EOPNOTSUPP)
		return ret;
	ret = twheel_wait(ctx, TWHEEL_NO_WAIT);
	if (ret <= 0)
		return ret ? ret : -EAGAIN;
	return read_blocking(ctx, iov);
}

/* What is left until @end, 0 when it is past. */
static int64_t remaining(uint64_t end)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	return now < end ? (int64_t)(end - now) : 0;
}

static int read_until(struct twheel_ctx *ctx, struct iovec *iov, uint64_t end)
{
	int ret;

	for (;;) {
		ret = read_nowait(ctx, iov);
		if (ret != -EAGAIN)
			return ret;
		ret = twheel_wait(ctx, remaining(end));
		if (ret < 0)
			return ret;
		if (!ret)
			return -ETIMEDOUT;
	}
}

static int read_forever(struct twheel_ctx *ctx, struct iovec *iov)
{
	int ret;

	for (;;) {
		ret = read_blocking(ctx, iov);
		if (ret != -EAGAIN)
			return ret;
		ret = twheel_wait(ctx, TWHEEL_FOREVER);
		if (ret < 0)
			return ret;
	}
}

int twheel_read(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr,
		int64_t timeout_ns)
{
	const size_t most = INT_MAX / sizeof(*events);
	struct iovec iov = {
		.iov_base = events,
		.iov_len = (nr < most ? nr : most) * sizeof(*events),
	};

	if (timeout_ns < 0)
		return read_forever(ctx, &iov);
	return read_until(ctx, &iov, clock_ns(CLOCK_MONOTONIC) + timeout_ns);
}
