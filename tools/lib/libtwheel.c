// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * All access of user space to /dev/twheel goes through here, so that a change of
 * the ABI is a change of this file.
 *
 * A context is a descriptor, the clock it counts in and its limit, all fixed when it
 * is opened or set up. There is nothing to lock: the kernel serialises what happens to
 * a file, and a thread that reads, waits or submits has all its state on its own
 * stack.
 *
 * The touch words are mapped when they are needed first: when a timeout is armed with
 * TWHEEL_F_TOUCH, or touched. Several threads may find that they are missing. The
 * first one to put its mapping into the context wins, the others drop theirs. The
 * pointer is stored with release and loaded with acquire; it stays until the context
 * is closed.
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
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "libtwheel.h"
#include "touch.h"

#define NSEC_PER_SEC	1000000000
#define NSEC_PER_USEC	1000

/**
 * struct twheel_ctx - a context
 * @fd: of /dev/twheel
 * @owned: close it with the context
 * @clock: that it counts in
 * @touch: words and ids of the timeouts that can be touched
 * @table_size: of the table of ids, in bytes
 */
struct twheel_ctx {
	int		fd;
	int		owned;
	clockid_t	clock;
	struct touch	touch;
	size_t		table_size;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static int control(const struct twheel_ctx *ctx, unsigned long request, void *arg)
{
	int ret = ioctl(ctx->fd, request, arg);

	return ret < 0 ? -errno : ret;
}

/* NULL, and why in errno, if it fails. */
static void *map(size_t size, int flags, int fd)
{
	void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);

	if (address == MAP_FAILED)
		return NULL;
	return address;
}

static void unmap(void *address, size_t size)
{
	if (address)
		munmap(address, size);
}

static size_t words_size(const struct touch *touch)
{
	return (size_t)touch->nr * sizeof(*touch->word);
}

/*
 * Room for the ids of @nr timeouts. Memory is taken where an index is used, not for all
 * that there could be. Without the table a context is complete, but for twheel_touch().
 */
static void map_table(struct twheel_ctx *ctx, uint32_t nr)
{
	struct touch_table *table;
	size_t size = sizeof(*table) + (size_t)nr * sizeof(table->known[0]);

	ctx->touch.nr = nr;
	if (size <= ctx->table_size)
		return;
	table = map(size, MAP_ANONYMOUS | MAP_NORESERVE, -1);
	unmap(ctx->touch.table, ctx->table_size);
	ctx->touch.table = table;
	ctx->table_size = table ? size : 0;
}

static int map_words(struct twheel_ctx *ctx)
{
	uint64_t *mine, *first = NULL;
	struct twheel_info info;
	int ret;

	if (touch_words(&ctx->touch))
		return 0;
	ret = twheel_info(ctx, &info);
	if (ret)
		return ret;
	if (!(info.op_flags & TWHEEL_F_TOUCH))
		return -EOPNOTSUPP;
	if (!ctx->touch.table)
		return -ENOMEM;
	mine = map(words_size(&ctx->touch), 0, ctx->fd);
	if (!mine)
		return -errno;
	if (!__atomic_compare_exchange_n(&ctx->touch.word, &first, mine, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		unmap(mine, words_size(&ctx->touch));
	return 0;
}

/* Before operations enter the kernel. */
static void expect_ops(struct twheel_ctx *ctx, const struct twheel_op *ops, unsigned int nr)
{
	if (touch_in_use(&ctx->touch))
		return;
	for (unsigned int i = 0; i < nr; i++) {
		if (ops[i].flags & TWHEEL_F_TOUCH) {
			touch_use(&ctx->touch);
			return;
		}
	}
}

/*
 * Take note of an operation that has been carried out, with @result. Words that cannot
 * be mapped here are mapped by twheel_touch(), which tells why if it fails again.
 */
static void note_op(struct twheel_ctx *ctx, const struct twheel_op *op, int result)
{
	if (result < 0)
		return;
	if (op->flags & TWHEEL_F_TOUCH) {
		map_words(ctx);
		touch_begin(&ctx->touch, op->id);
	} else if (op->opcode == TWHEEL_OP_CANCEL) {
		touch_end(&ctx->touch, op->id);
	}
}

static void note_ops(struct twheel_ctx *ctx, const struct twheel_op *ops, unsigned int nr)
{
	if (!touch_in_use(&ctx->touch))
		return;
	for (unsigned int i = 0; i < nr; i++)
		note_op(ctx, &ops[i], ops[i].result);
}

static void note_events(struct twheel_ctx *ctx, const struct twheel_event *events, int nr)
{
	if (!touch_in_use(&ctx->touch))
		return;
	for (int i = 0; i < nr; i++) {
		if (events[i].flags & TWHEEL_EV_LAST)
			touch_end(&ctx->touch, events[i].id);
	}
}

/* INFO is understood by nothing but a twheel context. */
static int new_context(int fd, int owned, struct twheel_ctx **out)
{
	struct twheel_ctx ctx = { .fd = fd, .owned = owned }, *new;
	struct twheel_info info;
	int ret;

	ret = twheel_info(&ctx, &info);
	if (ret)
		return ret;
	ctx.clock = info.clock;

	new = malloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	if (info.op_flags & TWHEEL_F_TOUCH)
		map_table(&ctx, info.max_timeouts);
	*new = ctx;
	*out = new;
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
	if (!ctx)
		return;
	unmap(ctx->touch.word, words_size(&ctx->touch));
	unmap(ctx->touch.table, ctx->table_size);
	if (ctx->owned)
		close(ctx->fd);
	free(ctx);
}

int twheel_fd(const struct twheel_ctx *ctx)
{
	return ctx->fd;
}

int twheel_setup(struct twheel_ctx *ctx, const struct twheel_setup *setup)
{
	struct twheel_setup copy = *setup;
	int ret = control(ctx, TWHEEL_IOC_SETUP, &copy);

	if (ret)
		return ret;
	ctx->clock = setup->flags & TWHEEL_SETUP_CLOCK ? setup->clock : CLOCK_MONOTONIC;
	if (ctx->touch.table && setup->max_timeouts)
		map_table(ctx, setup->max_timeouts);
	return 0;
}

int twheel_info(struct twheel_ctx *ctx, struct twheel_info *info)
{
	return control(ctx, TWHEEL_IOC_INFO, info);
}

int twheel_stats(struct twheel_ctx *ctx, struct twheel_stats *stats)
{
	return control(ctx, TWHEEL_IOC_STATS, stats);
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

void twheel_prep_interval(struct twheel_op *op, uint64_t interval_ns, uint32_t repeat)
{
	op->interval_ns = interval_ns;
	op->repeat = repeat;
}

/* Less slack than asked for is never wrong. */
void twheel_prep_slack(struct twheel_op *op, uint64_t slack_ns)
{
	uint64_t us = slack_ns / NSEC_PER_USEC;

	op->slack_us = us < UINT32_MAX ? us : UINT32_MAX;
}

/* The ioctl returns the outcome and does not write the result. */
static int operate(struct twheel_ctx *ctx, unsigned long request, struct twheel_op *op)
{
	int ret;

	expect_ops(ctx, op, 1);
	ret = control(ctx, request, op);
	if (touch_in_use(&ctx->touch))
		note_op(ctx, op, ret);
	return ret;
}

/* 0 for what is none. */
static unsigned long request_of(uint32_t opcode)
{
	switch (opcode) {
	case TWHEEL_OP_ARM:
		return TWHEEL_IOC_ARM;
	case TWHEEL_OP_MOD:
		return TWHEEL_IOC_MOD;
	case TWHEEL_OP_CANCEL:
		return TWHEEL_IOC_CANCEL;
	case TWHEEL_OP_GET:
		return TWHEEL_IOC_GET;
	default:
		return 0;
	}
}

int twheel_operate(struct twheel_ctx *ctx, struct twheel_op *op)
{
	unsigned long request = request_of(op->opcode);
	struct twheel_op copy = *op;
	int ret;

	if (!request)
		return -EINVAL;
	ret = operate(ctx, request, &copy);
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
	expect_ops(ctx, ops, nr);
	ret = control(ctx, TWHEEL_IOC_SUBMIT, &submit);
	if (ret)
		return ret;
	note_ops(ctx, ops, submit.done);
	return submit.done;
}

static int cancel_all(const struct twheel_ctx *ctx, struct twheel_cancel_all *request,
		      struct twheel_cancel_all *done)
{
	int ret = control(ctx, TWHEEL_IOC_CANCEL_ALL, request);

	if (!ret && done)
		*done = *request;
	return ret;
}

int twheel_cancel_all(struct twheel_ctx *ctx, struct twheel_cancel_all *done)
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
	return control(ctx, TWHEEL_IOC_STOP, NULL);
}

int twheel_trim(struct twheel_ctx *ctx)
{
	return control(ctx, TWHEEL_IOC_TRIM, NULL);
}

int twheel_list(struct twheel_ctx *ctx, struct twheel_list_entry *entries, unsigned int nr,
		uint32_t *next)
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
	ret = control(ctx, TWHEEL_IOC_LIST, &list);
	/* The kernel says where to go on after a failure too. */
	*next = list.next;
	return ret ? ret : (int)list.done;
}

/* Nobody has armed or touched it through this handle: whether it lives must be asked. */
static int __attribute((noinline)) touch_unknown(struct twheel_ctx *ctx, uint64_t id,
						 uint64_t expires_ns)
{
	struct twheel_op op;
	int ret;

	ret = map_words(ctx);
	if (ret)
		return ret;
	if (touch_has_ended(&ctx->touch, id))
		return -ENOENT;
	touch_use(&ctx->touch);
	ret = twheel_get(ctx, id, &op);
	if (ret)
		return ret;
	touch_begin(&ctx->touch, id);
	return touch_store(&ctx->touch, id, expires_ns) ? 0 : -ENOENT;
}

int twheel_touch(struct twheel_ctx *ctx, uint64_t id, uint64_t expires_ns)
{
	if (expires_ns > INT64_MAX)
		return -EINVAL;
	if (touch_store(&ctx->touch, id, expires_ns))
		return 0;
	return touch_unknown(ctx, id, expires_ns);
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
	int ret;

	/* The kernel ends a read of nothing before the device is asked. */
	if (!nr)
		return -EINVAL;
	if (timeout_ns < 0)
		ret = read_forever(ctx, &iov);
	else
		ret = read_until(ctx, &iov, clock_ns(CLOCK_MONOTONIC) + timeout_ns);
	note_events(ctx, events, ret);
	return ret;
}
