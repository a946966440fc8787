/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libtwheel: timeouts by the million behind one file descriptor.
 *
 * A context is one open of /dev/twheel: its timeouts, its queue of events, its
 * limits. A timeout is armed and has an id from then on; it ends in one event
 * that is read from the same context, unless it is cancelled before that.
 *
 *	struct twheel_ctx *ctx;
 *	struct twheel_event event;
 *	uint64_t id;
 *
 *	twheel_open(NULL, 0, &ctx);
 *	twheel_arm(ctx, 500 * 1000 * 1000, 0, 42, &id);
 *	twheel_read(ctx, &event, 1, TWHEEL_FOREVER);	event.cookie is 42
 *	twheel_close(ctx);
 *
 * Time: nanoseconds everywhere. A value above INT64_MAX is -EINVAL. Nothing fires
 * early: a deadline is rounded up to the tick of the wheel.
 *
 * Errors: a function that can fail returns an int, negative for an error and then
 * -errno (-ENOENT, say); 0 or a positive outcome otherwise. The variable errno is
 * not part of the contract. A failed call writes nothing through its pointers.
 *
 * Threads: there is no global state. All functions may be called at the same time
 * for the same context, but for twheel_close(), which must be the last. Each event
 * goes to exactly one reader. After fork() both processes share the context; the
 * last one to close it cancels what is in it.
 *
 * Signals: no call blocks but twheel_wait() and twheel_read(), which return -EINTR
 * when a handler ran, and twheel_submit(), which may then have done a part.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <stdint.h>
#include <linux/twheel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWHEEL_DEVICE		"/dev/twheel"

/* twheel_open(), flags */
#define TWHEEL_NONBLOCK		0x1	/* O_NONBLOCK, for who reads twheel_fd() himself */
#define TWHEEL_INHERIT		0x2	/* a program started with exec() gets it too */

/* twheel_wait() and twheel_read(), timeout_ns */
#define TWHEEL_NO_WAIT		INT64_C(0)
#define TWHEEL_FOREVER		INT64_C(-1)

struct twheel_ctx;

/**
 * twheel_open() - open a new context
 * @path: the device, or NULL for TWHEEL_DEVICE
 * @flags: TWHEEL_NONBLOCK, TWHEEL_INHERIT
 * @ctx: out: the context, closed with twheel_close()
 *
 * Context: any thread.
 *
 * Return: 0; -EINVAL for an unknown flag; -ENOENT when there is no such device (the
 * module is not loaded); -ENOTTY when @path is something else; -EACCES without
 * permission; -EMFILE, -ENFILE, -ENOMEM.
 */
int twheel_open(const char *path, unsigned int flags, struct twheel_ctx **ctx);

/**
 * twheel_open_fd() - use a context that is open already
 * @fd: a descriptor of it, inherited or received over a socket
 * @ctx: out: the context, closed with twheel_close()
 *
 * The descriptor stays the caller's: twheel_close() leaves it open.
 *
 * Context: any thread.
 *
 * Return: 0; -EBADF when @fd is not open; -ENOTTY when it is something else;
 * -ENOMEM.
 */
int twheel_open_fd(int fd, struct twheel_ctx **ctx);

/**
 * twheel_close() - give a context back
 * @ctx: the context, or NULL
 *
 * What is still pending is cancelled when the last descriptor is gone. No other
 * call may be running for @ctx, in any thread.
 */
void twheel_close(struct twheel_ctx *ctx);

/**
 * twheel_fd() - the descriptor behind a context
 * @ctx: the context
 *
 * For poll(), epoll and io_uring: it is readable while an event is unread. Not
 * to be closed while the context is in use.
 *
 * Context: any thread, does not block.
 *
 * Return: the descriptor, it cannot fail.
 */
int twheel_fd(const struct twheel_ctx *ctx);

/**
 * twheel_info() - what the context is and what is in it
 * @ctx: the context
 * @info: out
 *
 * Context: any thread, does not block.
 *
 * Return: 0, it fails only for an address that is none (-EFAULT).
 */
int twheel_info(struct twheel_ctx *ctx, struct twheel_info *info);

/**
 * twheel_now() - read the clock of a context
 * @ctx: the context
 * @now_ns: out: the time that TWHEEL_F_ABS, expires_ns and fired_ns are measured in
 *
 * Context: any thread, does not block.
 *
 * Return: 0.
 */
int twheel_now(struct twheel_ctx *ctx, uint64_t *now_ns);

/**
 * twheel_arm() - arm a new timeout
 * @ctx: the context
 * @expires_ns: the deadline, from now, or absolute with TWHEEL_F_ABS; 0 and an
 *	absolute time in the past are due at once
 * @flags: TWHEEL_F_ABS or 0
 * @cookie: comes back in the event
 * @id: out: names the timeout in this context, never 0, never used again
 *
 * The event may be read by another thread before this call returns.
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for a time above INT64_MAX or an unknown flag; -EAGAIN when a
 * limit is reached; -ENOMEM; -EBADF when the context is open for reading only.
 */
int twheel_arm(struct twheel_ctx *ctx, uint64_t expires_ns, unsigned int flags,
	       uint64_t cookie, uint64_t *id);

/**
 * twheel_mod() - arm a timeout anew
 * @ctx: the context
 * @id: the timeout
 * @expires_ns: the new deadline, as in twheel_arm()
 * @flags: TWHEEL_F_ABS or 0
 * @cookie: the new cookie
 *
 * After success no event of the earlier arming is read. A failure changes nothing.
 *
 * Context: any thread, does not block.
 *
 * Return: 0 when it was pending; TWHEEL_WITHDRAWN (1) when it had fired and its
 * event was unread, and is now withdrawn; -ENOENT when there is no such timeout or
 * its event was read before; -EINVAL and -EBADF as in twheel_arm().
 */
int twheel_mod(struct twheel_ctx *ctx, uint64_t id, uint64_t expires_ns,
	       unsigned int flags, uint64_t cookie);

/**
 * twheel_cancel() - end a timeout without an event
 * @ctx: the context
 * @id: the timeout
 *
 * After success no event of it is read.
 *
 * Context: any thread, does not block.
 *
 * Return: 0 when it was pending; TWHEEL_WITHDRAWN (1) when it had fired and its
 * event was unread, and is now withdrawn; -ENOENT when there is no such timeout or
 * its event was read before; -EBADF as in twheel_arm().
 */
int twheel_cancel(struct twheel_ctx *ctx, uint64_t id);

/**
 * twheel_get() - look at a timeout
 * @ctx: the context
 * @id: the timeout
 * @op: out: in expires_ns what remains (0 when its event waits to be read), and the
 *	cookie
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -ENOENT when there is no such timeout or its event was read;
 * -EBADF as in twheel_arm().
 */
int twheel_get(struct twheel_ctx *ctx, uint64_t id, struct twheel_op *op);

/**
 * twheel_prep_arm() - fill in an operation of twheel_submit()
 * @op: out: all fields are set
 * @expires_ns: as in twheel_arm()
 * @flags: as in twheel_arm()
 * @cookie: as in twheel_arm()
 *
 * After twheel_submit() the id is in @op->id.
 */
void twheel_prep_arm(struct twheel_op *op, uint64_t expires_ns, unsigned int flags,
		     uint64_t cookie);

/**
 * twheel_prep_mod() - fill in an operation of twheel_submit()
 * @op: out: all fields are set
 * @id: as in twheel_mod()
 * @expires_ns: as in twheel_mod()
 * @flags: as in twheel_mod()
 * @cookie: as in twheel_mod()
 */
void twheel_prep_mod(struct twheel_op *op, uint64_t id, uint64_t expires_ns,
		     unsigned int flags, uint64_t cookie);

/**
 * twheel_prep_cancel() - fill in an operation of twheel_submit()
 * @op: out: all fields are set
 * @id: as in twheel_cancel()
 */
void twheel_prep_cancel(struct twheel_op *op, uint64_t id);

/**
 * twheel_prep_get() - fill in an operation of twheel_submit()
 * @op: out: all fields are set
 * @id: as in twheel_get()
 */
void twheel_prep_get(struct twheel_op *op, uint64_t id);

/**
 * twheel_submit() - carry out many operations with one system call
 * @ctx: the context
 * @ops: filled in by twheel_prep_*(); out: ids, what GET found, results
 * @nr: how many, at most INT_MAX
 *
 * In order; a bad one does not stop the rest. What the single call would return is
 * in the result of each operation that was tried.
 *
 * Context: any thread, with an @ops of its own; long when @nr is large.
 *
 * Return: how many were tried, from the first on: fewer than @nr after a signal or at
 * a bad address; -EINTR or -EFAULT when none was; -EINVAL for an @nr that is too
 * large; -EBADF as in twheel_arm().
 */
int twheel_submit(struct twheel_ctx *ctx, struct twheel_op *ops, unsigned int nr);

/**
 * twheel_wait() - wait until an event can be read
 * @ctx: the context
 * @timeout_ns: how long at most; TWHEEL_NO_WAIT; TWHEEL_FOREVER or any negative value
 *
 * When several threads read, another one may be faster.
 *
 * Context: any thread, several at once too; blocks.
 *
 * Return: 1 when an event is unread; 0 when the time is over; -EINTR.
 */
int twheel_wait(struct twheel_ctx *ctx, int64_t timeout_ns);

/**
 * twheel_read() - take events out of the queue
 * @ctx: the context
 * @events: out: in the order in which they fired
 * @nr: room in @events, at least 1
 * @timeout_ns: how long to wait for the first at most; TWHEEL_NO_WAIT;
 *	TWHEEL_FOREVER or any negative value
 *
 * Waits in the same way whether the descriptor is O_NONBLOCK or not, and never
 * longer than asked, whoever else reads.
 *
 * Context: any thread, several at once too; blocks.
 *
 * Return: how many, at least 1; 0 when the context has come to its end and there will
 * be no more; -ETIMEDOUT when there was none in time; -EINTR; -EINVAL when @nr is 0;
 * -EBADF when the context is open for writing only; -EFAULT.
 */
int twheel_read(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr,
		int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_H */
