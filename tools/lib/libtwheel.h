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
 *	twheel_arm(ctx, 500 * TWHEEL_MSEC, 0, 42, &id);
 *	twheel_read(ctx, &event, 1, TWHEEL_FOREVER);	event.cookie is 42
 *	twheel_close(ctx);
 *
 * Time: nanoseconds everywhere. A value above INT64_MAX is -EINVAL. Nothing fires
 * early: a deadline is rounded up to the tick of the wheel.
 *
 * Errors: a function that can fail returns an int, negative for an error and then
 * -errno (-ENOENT, say); 0 or a positive outcome otherwise. The variable errno is
 * not part of the contract. A failed call writes nothing through its pointers, but for
 * @next of twheel_list().
 *
 * Threads: there is no global state. All functions may be called at the same time
 * for the same context, but for twheel_setup(), which must be the first, and
 * twheel_close(), which must be the last. Each event goes to exactly one reader. After
 * fork() both processes share the context; the last one to close it cancels what is
 * in it.
 *
 * Signals: twheel_wait() and twheel_read() block, and return -EINTR when a handler ran.
 * A handler does not cut any other call short.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <errno.h>
#include <stdint.h>
#include <linux/twheel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of this header. New functions and macros come with a new minor version:
 *
 *	#if TWHEEL_VERSION >= TWHEEL_VERSION_NUMBER(1, 2, 0)
 */
#define TWHEEL_VERSION_MAJOR	0
#define TWHEEL_VERSION_MINOR	1
#define TWHEEL_VERSION_PATCH	0
#define TWHEEL_VERSION_NUMBER(major, minor, patch) \
	((major) * 1000000 + (minor) * 1000 + (patch))
#define TWHEEL_VERSION \
	TWHEEL_VERSION_NUMBER(TWHEEL_VERSION_MAJOR, TWHEEL_VERSION_MINOR, TWHEEL_VERSION_PATCH)

#define TWHEEL_DEVICE		"/dev/twheel"

/* Nanoseconds, in 64 bits: 3 * TWHEEL_SEC does not overflow as 3 * 1000 * 1000 * 1000 does. */
#define TWHEEL_USEC		UINT64_C(1000)
#define TWHEEL_MSEC		UINT64_C(1000000)
#define TWHEEL_SEC		UINT64_C(1000000000)
#define TWHEEL_MIN		UINT64_C(60000000000)
#define TWHEEL_HOUR		UINT64_C(3600000000000)

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
 * twheel_setup() - choose clock, geometry, slack and limit
 * @ctx: the context
 * @setup: a field that is 0 means the default. With TWHEEL_SETUP_CLOCK in flags, clock
 *	is CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME, which takes absolute times
 *	only; without it the clock is CLOCK_MONOTONIC. slack_us is the slack of each
 *	timeout that names none, in microseconds. slots and levels are advice:
 *	twheel_info() tells what the wheel has
 *
 *	struct twheel_setup setup = { .slack_us = 50 * TWHEEL_MSEC / TWHEEL_USEC };
 *
 * Once, before the first operation, and before a fork().
 *
 * Context: no other call may be running for @ctx.
 *
 * Return: 0; -EBUSY when there was an operation, or a setup; -EINVAL for a value that
 * cannot be; -EPERM when a limit is to be raised, or a geometry asks for more, than an
 * unprivileged user may; -EAGAIN when the user's wheels take too much memory;
 * -ENOMEM; -EBADF when the context is open for reading only.
 */
int twheel_setup(struct twheel_ctx *ctx, const struct twheel_setup *setup);

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
 * twheel_stats() - what has been done, and how late
 * @ctx: the context
 * @stats: out
 *
 * Context: any thread, does not block.
 *
 * Return: 0, it fails only for an address that is none (-EFAULT).
 */
int twheel_stats(struct twheel_ctx *ctx, struct twheel_stats *stats);

/**
 * twheel_now() - read the clock of a context
 * @ctx: the context
 * @now_ns: out: the time that TWHEEL_F_ABS, expires_ns and fired_ns are measured in, if
 *	this process is in the time namespace of whoever opened the context
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
 * @flags: TWHEEL_F_ABS; TWHEEL_F_EXACT, so that it has no slack, not that of the
 *	context either; or 0. For TWHEEL_F_CELL there is twheel_cell_create()
 * @cookie: comes back in the event
 * @id: out: names the timeout in this context, never 0, never used again
 *
 * The event may be read by another thread before this call returns. For a timeout
 * with an interval or with slack there are twheel_prep_arm() and twheel_operate().
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for a time above INT64_MAX or an unknown flag; -EAGAIN when a
 * limit is reached; -ENOMEM; -ESHUTDOWN after twheel_stop(); -EBADF when the context is
 * open for reading only.
 */
int twheel_arm(struct twheel_ctx *ctx, uint64_t expires_ns, unsigned int flags,
	       uint64_t cookie, uint64_t *id);

/**
 * twheel_mod() - arm a timeout anew
 * @ctx: the context
 * @id: the timeout
 * @expires_ns: the new deadline, as in twheel_arm()
 * @flags: as in twheel_arm()
 * @cookie: the new cookie
 *
 * It replaces all of the earlier arming, interval and slack too. After success no
 * event of that is read. A failure changes nothing.
 *
 * Context: any thread, does not block.
 *
 * Return: 0 when it was pending; TWHEEL_WITHDRAWN (1) when it had fired and its
 * event was unread, and is now withdrawn; TWHEEL_IDLE (2) when it was an idle cell;
 * -ENOENT when there is no such timeout or its last event was read before; -EINVAL also
 * when TWHEEL_F_CELL is missing for a cell or given for another timeout; -EINVAL,
 * -ESHUTDOWN and -EBADF as in twheel_arm().
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
 * event was unread, and is now withdrawn; TWHEEL_IDLE (2) when it was an idle cell;
 * -ENOENT when there is no such timeout or its last event was read before; -EBADF as in
 * twheel_arm().
 */
int twheel_cancel(struct twheel_ctx *ctx, uint64_t id);

/**
 * twheel_get() - look at a timeout
 * @ctx: the context
 * @id: the timeout
 * @op: out: in expires_ns the time that remains (0 when its event waits to be read,
 *	UINT64_MAX for an idle cell); the cookie, the interval, and in repeat how many
 *	deadlines have not been read yet
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -ENOENT when there is no such timeout or its last event was read.
 */
int twheel_get(struct twheel_ctx *ctx, uint64_t id, struct twheel_op *op);

/**
 * twheel_prep_arm() - fill in an operation
 * @op: out: all fields are set
 * @expires_ns: as in twheel_arm()
 * @flags: as in twheel_arm()
 * @cookie: as in twheel_arm()
 *
 * After twheel_operate() or twheel_submit() the id is in @op->id.
 */
void twheel_prep_arm(struct twheel_op *op, uint64_t expires_ns, unsigned int flags,
		     uint64_t cookie);

/**
 * twheel_prep_mod() - fill in an operation
 * @op: out: all fields are set
 * @id: as in twheel_mod()
 * @expires_ns: as in twheel_mod()
 * @flags: as in twheel_mod()
 * @cookie: as in twheel_mod()
 */
void twheel_prep_mod(struct twheel_op *op, uint64_t id, uint64_t expires_ns,
		     unsigned int flags, uint64_t cookie);

/**
 * twheel_prep_cancel() - fill in an operation
 * @op: out: all fields are set
 * @id: as in twheel_cancel()
 */
void twheel_prep_cancel(struct twheel_op *op, uint64_t id);

/**
 * twheel_prep_get() - fill in an operation
 * @op: out: all fields are set
 * @id: as in twheel_get()
 */
void twheel_prep_get(struct twheel_op *op, uint64_t id);

/**
 * twheel_prep_kick() - fill in an operation
 * @op: out: all fields are set
 * @id: a cell
 *
 * The kernel looks at the word of the cell. twheel_cell_arm() does this when it is
 * needed; this is for programs with an exchange of their own, see twheel(4).
 */
void twheel_prep_kick(struct twheel_op *op, uint64_t id);

/**
 * twheel_prep_interval() - make an ARM or MOD periodic
 * @op: filled in by twheel_prep_arm() or twheel_prep_mod()
 * @interval_ns: from one deadline to the next, 0 for a single one. With
 *	TWHEEL_F_FIXED_DELAY in the flags it counts from the read of the event
 * @repeat: how many deadlines in all, 0 for no end
 *
 * Deadlines that pass while the event is unread are counted in it.
 */
void twheel_prep_interval(struct twheel_op *op, uint64_t interval_ns, uint32_t repeat);

/**
 * twheel_prep_slack() - let an ARM or MOD share the wakeup of others
 * @op: filled in by twheel_prep_arm() or twheel_prep_mod()
 * @slack_ns: how much later it may fire; counts in whole microseconds, and no more than
 *	UINT32_MAX of them, which is 71 minutes. Less than a microsecond is the slack of
 *	the context; TWHEEL_F_EXACT in the flags asks for none
 */
void twheel_prep_slack(struct twheel_op *op, uint64_t slack_ns);

/**
 * twheel_operate() - carry out one operation
 * @ctx: the context
 * @op: filled in by twheel_prep_*(); out: as for the operation
 *
 *	struct twheel_op op;
 *
 *	twheel_prep_arm(&op, delay, 0, cookie);
 *	twheel_prep_interval(&op, interval, 10);
 *	twheel_prep_slack(&op, interval / 8);
 *	ret = twheel_operate(ctx, &op);		the id is in op.id
 *
 * After success the return value is in @op->result too.
 *
 * Context: any thread, does not block.
 *
 * Return: as twheel_arm(), twheel_mod(), twheel_cancel() or twheel_get(); -EINVAL also
 * for an opcode that is none, and for what does not go together: TWHEEL_F_CELL with
 * an interval, TWHEEL_F_FIXED_DELAY or a repeat count without one, TWHEEL_F_EXACT with
 * slack.
 */
int twheel_operate(struct twheel_ctx *ctx, struct twheel_op *op);

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
 * Return: how many were tried, from the first on: fewer than @nr at a bad address;
 * -EFAULT when none was; -EINVAL for an @nr that is too large; -EBADF as in
 * twheel_arm().
 */
int twheel_submit(struct twheel_ctx *ctx, struct twheel_op *ops, unsigned int nr);

/**
 * twheel_cancel_all() - end all timeouts without an event
 * @ctx: the context
 * @done: out: in pending and withdrawn how many of either; may be NULL
 *
 * Events that are unread are withdrawn. What is armed meanwhile may be cancelled or
 * not.
 *
 * Context: any thread, does not block; long when there are many.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_cancel_all(struct twheel_ctx *ctx, struct twheel_cancel_all *done);

/**
 * twheel_cancel_cookie() - end all timeouts with one cookie without an event
 * @ctx: the context
 * @cookie: as given to twheel_arm()
 * @done: as in twheel_cancel_all()
 *
 * It looks at every timeout of the context, whatever its cookie.
 *
 * Context: any thread, does not block; long when there are many.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_cancel_cookie(struct twheel_ctx *ctx, uint64_t cookie,
			 struct twheel_cancel_all *done);

/**
 * twheel_stop() - bring the context to its end
 * @ctx: the context
 *
 * Nothing can be armed any more. What has not fired becomes an event with
 * TWHEEL_EV_UNPROCESSED and the count 0, in the order of the deadlines; when the last
 * event has been read, twheel_read() returns 0. Done a second time it changes nothing.
 *
 * Context: any thread; returns when nothing fires any more.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_stop(struct twheel_ctx *ctx);

/**
 * twheel_trim() - give back the memory of timeouts that are over
 * @ctx: the context
 *
 * After a peak a context keeps its memory for timeouts to come. This gives back each page
 * (4096 bytes on most machines) whose timeouts are all over. The kernel does the same
 * when memory gets short. Ids are not used again, and what lives is not affected.
 *
 * Context: any thread, does not block; long when there are many pages.
 *
 * Return: how many pages were given back, 0 if none could be; -EBADF as in twheel_arm().
 */
int twheel_trim(struct twheel_ctx *ctx);

/**
 * twheel_list() - page through the timeouts that live
 * @ctx: the context
 * @entries: out
 * @nr: room in @entries, from 1 to INT_MAX
 * @next: 0 for the first call, then as the call before left it
 *
 *	uint32_t next = 0;
 *
 *	while ((nr = twheel_list(ctx, entries, ROOM, &next)) > 0)
 *		...
 *
 * In no particular order. What lives all the time is found once; what is armed or ends
 * meanwhile may be found or not.
 *
 * Context: any thread, does not block.
 *
 * Return: how many; 0 when there are no more; -EINVAL for an @nr that cannot be;
 * -EFAULT. @next is where to go on, after a failure too.
 */
int twheel_list(struct twheel_ctx *ctx, struct twheel_list_entry *entries, unsigned int nr,
		uint32_t *next);

/**
 * twheel_wait() - wait until an event can be read
 * @ctx: the context
 * @timeout_ns: how long at most; TWHEEL_NO_WAIT; TWHEEL_FOREVER or any negative value
 *
 * The event may be gone when it is read: another thread was faster, or the event was a
 * cell's and was withdrawn with twheel_cell_arm() or twheel_cell_cancel(). Until a read or a
 * kick meets a withdrawn event, it counts as unread.
 *
 * Context: any thread, several at once too; blocks.
 *
 * Return: 1 when an event is unread, or when there will be no more; 0 when the time is
 * over; -EINTR.
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
 * Return: how many, at least 1; 0 after twheel_stop() when there will be no more;
 * -ETIMEDOUT when there was none in time; -EINTR; -EINVAL when @nr is 0; -EBADF when
 * the context is open for writing only; -EFAULT.
 */
int twheel_read(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr,
		int64_t timeout_ns);

/*
 * Cells
 *
 * A cell is a timeout that is armed, moved and cancelled by one atomic exchange in memory
 * that the process shares with the kernel. For timeouts that nearly always end before
 * their deadline: one for each request, or one for each connection.
 *
 *	struct twheel_cell *cell;
 *	uint64_t id, now;
 *
 *	twheel_cell_create(ctx, cookie, &id, &cell);		once
 *	twheel_now(ctx, &now);
 *	twheel_cell_arm(ctx, cell, id, now + 5 * TWHEEL_SEC);	for each request
 *	twheel_cell_cancel(cell);				the answer has come
 *
 * A cell is created idle. It can be armed any number of times, by one thread or several,
 * and in every process that shares the context. Its event has the id, the cookie and the
 * deadline as it was armed, and no TWHEEL_EV_LAST. twheel_cancel() ends the cell, and so do
 * twheel_cancel_all(), twheel_cancel_cookie() and twheel_stop().
 *
 * Its place is used again for a later cell. To arm or cancel a cell that has ended, or that
 * may end at the same time, changes the later one. The memory itself stays until
 * twheel_close(). A process that was forked has it at the same address.
 *
 * Deadlines are absolute: read the clock once for many cells. An arm makes a system call
 * only if the kernel would look too late. It does not if the cell was armed with about the
 * same delay before and is in regular use.
 *
 * Cells that different threads use should be in different cache lines: 64 bytes hold four.
 *
 * The functions that exchange are inline in C and C++; the library has them as well, for
 * other languages. They need 64-bit atomic operations that the processor makes in one, which
 * the compiler tells by __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8. 64-bit processors have them, and
 * 32-bit x86 from the Pentium on (-march=i586 or later, as Debian has it). Elsewhere
 * TWHEEL_HAS_CELLS is not defined, these functions are missing, and the others return
 * -EOPNOTSUPP. The exchange and the load of @look have to be sequentially consistent, both
 * of them:
 *
 *	x86-64		xchg %rax, (cell); mov 8(cell), %rax
 *	i686		lock cmpxchg8b (cell), in a loop; movq or fildll 8(cell)
 *	AArch64, LSE	swpal; ldar
 *	AArch64		ldaxr, stlxr in a loop; ldar. With a plain ldr, or ldapr, the
 *			load could be made before the store: the arming would be lost
 *	AArch64, both	a call of __aarch64_swp8_acq_rel, which is one of these; ldar
 */
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#define TWHEEL_HAS_CELLS	1
#endif

/**
 * twheel_cell_create() - make an idle cell
 * @ctx: the context
 * @cookie: comes back in its events
 * @id: out: names the cell, until twheel_cancel(), twheel_cancel_all() or twheel_stop()
 *	ends it
 * @cell: out: where the cell is, until twheel_close()
 *
 * It counts as one live timeout until it ends. For slack there are twheel_prep_arm() with
 * TWHEEL_F_CELL | TWHEEL_F_ABS and UINT64_MAX as the deadline, twheel_prep_slack(),
 * twheel_operate() and twheel_cell().
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EOPNOTSUPP when the kernel or the processor has no cells; -EACCES when the
 * context is not open for reading and writing; -ENOMEM, also when there was no address space
 * for 16 bytes for each timeout that the context may have; -EAGAIN and -ESHUTDOWN as in
 * twheel_arm().
 */
int twheel_cell_create(struct twheel_ctx *ctx, uint64_t cookie, uint64_t *id,
		       struct twheel_cell **cell);

/**
 * twheel_cell() - find a cell
 * @ctx: the context
 * @id: a cell, armed with TWHEEL_F_CELL by anyone who shares the context
 * @cell: out: where it is, until twheel_close()
 *
 * The kernel is not asked: the id of a timeout that is no cell, or of a cell that has ended,
 * leads to memory that is not the caller's to write.
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for an id that cannot be a cell's; -EOPNOTSUPP, -EACCES and -ENOMEM as
 * in twheel_cell_create().
 */
int twheel_cell(struct twheel_ctx *ctx, uint64_t id, struct twheel_cell **cell);

/**
 * twheel_cell_kick() - have the kernel look at a cell that has been armed
 * @ctx: the context
 * @cell: the cell
 * @id: of the cell
 * @expires_ns: the deadline that the caller has exchanged the word with
 *
 * The second half of twheel_cell_arm(), if it is needed. An arming that the kernel refuses
 * is undone: the cell is idle then, whatever it was before.
 *
 * Context: any thread, does not block. In a signal handler, too; errno stays what it was.
 *
 * Return: 0 when the cell is armed, or was until another call changed it; -ENOENT when the
 * cell has ended; -ESHUTDOWN after twheel_stop(); -EINVAL when it is no cell; -EBADF as in
 * twheel_arm().
 */
int twheel_cell_kick(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
		     uint64_t expires_ns);

/* struct twheel_kicks, room */
#define TWHEEL_MAX_KICKS	64

/**
 * struct twheel_kicks - armings that the kernel has to be told of, in one call for many
 * @ctx: the context of all cells in it; set by the caller, who sets the rest to 0
 * @nr: how many there are
 * @kick: cell, id and deadline of each; @result is set by twheel_kick_all(): 0, or -errno
 *	if the arming has failed
 */
struct twheel_kicks {
	struct twheel_ctx	*ctx;
	unsigned int		nr;
	struct {
		struct twheel_cell	*cell;
		uint64_t		id;
		uint64_t		expires_ns;
		int			result;
	} kick[TWHEEL_MAX_KICKS];
};

/**
 * twheel_kick_all() - tell the kernel of all armings in a batch
 * @kicks: filled by twheel_cell_arm_later(); empty afterwards
 *
 * A batch may be empty. A cell may be in it twice, and may have been armed, cancelled or
 * fired since it was added.
 *
 * Context: any thread with a batch of its own, does not block.
 *
 * Return: 0; the error of the first arming that failed, as in twheel_cell_kick(). The others
 * are armed. The result of each is in @kicks until the next arming is added.
 */
int twheel_kick_all(struct twheel_kicks *kicks);

#ifdef TWHEEL_HAS_CELLS

/**
 * twheel_cell_outcome() - say what the old word of a cell tells of its last arming
 * @word: what an exchange has returned
 *
 * Return: 0 if it was pending; TWHEEL_WITHDRAWN (1) if it had fired and its event was
 * unread; TWHEEL_IDLE (2).
 */
int twheel_cell_outcome(uint64_t word);

/**
 * twheel_cell_arm() - arm or move a cell
 * @ctx: the context
 * @cell: the cell
 * @id: of the cell
 * @expires_ns: the deadline, absolute, on the clock of the context: twheel_now() and the
 *	delay. One that is past is due at once
 *
 * After success no event of an earlier arming is read.
 *
 * Context: any thread, does not block. In a signal handler, too. Rarely a system call.
 *
 * Return: 0 when it was pending and is moved; TWHEEL_WITHDRAWN (1) when it had fired and its
 * event was unread, and is now withdrawn; TWHEEL_IDLE (2) when it was idle; -EINVAL for a
 * time above INT64_MAX, which changes nothing; -ENOENT, -ESHUTDOWN and -EBADF as in
 * twheel_cell_kick(), and then the cell is idle.
 */
int twheel_cell_arm(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
		    uint64_t expires_ns);

/**
 * twheel_cell_arm_later() - arm or move a cell, and collect the kick
 * @kicks: the batch
 * @cell: the cell
 * @id: of the cell
 * @expires_ns: as in twheel_cell_arm()
 *
 * For a thread that arms many cells in a row. An arming that needs the kernel counts from
 * twheel_kick_all().
 *
 * Context: any thread with a batch of its own, does not block. Never a system call.
 *
 * Return: the outcome, as twheel_cell_arm(); -EINVAL for a time above INT64_MAX; -EAGAIN when
 * the batch is full. An error changes nothing.
 */
int twheel_cell_arm_later(struct twheel_kicks *kicks, struct twheel_cell *cell,
			  uint64_t id, uint64_t expires_ns);

/**
 * twheel_cell_cancel() - cancel what a cell is armed for
 * @cell: the cell, which lives on
 *
 * After success no event of that arming is read.
 *
 * Context: any thread, does not block. In a signal handler, too. Never a system call.
 *
 * Return: 0 when it was pending; TWHEEL_WITHDRAWN (1) when it had fired and its event was
 * unread, and is now withdrawn; -ENOENT when the cell was idle, or its event was read
 * before.
 */
int twheel_cell_cancel(struct twheel_cell *cell);

/**
 * twheel_cell_cancel_at() - cancel one arming of a cell, and no later one
 * @cell: the cell, which lives on
 * @expires_ns: the deadline that it was armed with
 *
 * For a cell that another thread may arm anew meanwhile. Two armings with the same deadline
 * are one.
 *
 * Context: as twheel_cell_cancel().
 *
 * Return: 0 when it was pending; -ENOENT when it was moved, cancelled or has fired. Then its
 * event may still be read.
 */
int twheel_cell_cancel_at(struct twheel_cell *cell, uint64_t expires_ns);

/*
 * The bodies. GCC and Clang put them into the program and emit no function of their own,
 * whatever the C standard: that is what gnu_inline means. The library defines the
 * macro as empty, and so has the functions, for languages that call C by symbols, for
 * pointers to them, and for programs that are not optimised.
 */
#ifndef TWHEEL_CELL_INLINE
#define TWHEEL_CELL_INLINE	extern __inline __attribute__((__gnu_inline__))
#endif

TWHEEL_CELL_INLINE int twheel_cell_outcome(uint64_t word)
{
	if (word <= INT64_MAX)
		return 0;
	return word == TWHEEL_CELL_FIRED ? TWHEEL_WITHDRAWN : TWHEEL_IDLE;
}

TWHEEL_CELL_INLINE int twheel_cell_arm(struct twheel_ctx *ctx, struct twheel_cell *cell,
				       uint64_t id, uint64_t expires_ns)
{
	uint64_t old;
	int ret;

	if (expires_ns > INT64_MAX)
		return -EINVAL;
	old = __atomic_exchange_n(&cell->word, expires_ns, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&cell->look, __ATOMIC_SEQ_CST) > expires_ns, 0)) {
		ret = twheel_cell_kick(ctx, cell, id, expires_ns);
		if (ret < 0)
			return ret;
	}
	return twheel_cell_outcome(old);
}

TWHEEL_CELL_INLINE int twheel_cell_arm_later(struct twheel_kicks *kicks,
					     struct twheel_cell *cell, uint64_t id,
					     uint64_t expires_ns)
{
	uint64_t old;

	if (expires_ns > INT64_MAX)
		return -EINVAL;
	if (__builtin_expect(kicks->nr == TWHEEL_MAX_KICKS, 0))
		return -EAGAIN;
	old = __atomic_exchange_n(&cell->word, expires_ns, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&cell->look, __ATOMIC_SEQ_CST) > expires_ns, 0)) {
		kicks->kick[kicks->nr].cell = cell;
		kicks->kick[kicks->nr].id = id;
		kicks->kick[kicks->nr].expires_ns = expires_ns;
		kicks->kick[kicks->nr++].result = 0;
	}
	return twheel_cell_outcome(old);
}

TWHEEL_CELL_INLINE int twheel_cell_cancel(struct twheel_cell *cell)
{
	uint64_t old = __atomic_exchange_n(&cell->word, TWHEEL_CELL_IDLE, __ATOMIC_SEQ_CST);
	int ret = twheel_cell_outcome(old);

	return ret == TWHEEL_IDLE ? -ENOENT : ret;
}

TWHEEL_CELL_INLINE int twheel_cell_cancel_at(struct twheel_cell *cell, uint64_t expires_ns)
{
	__u64 word = expires_ns;

	return __atomic_compare_exchange_n(&cell->word, &word, TWHEEL_CELL_IDLE, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ?
		       0 : -ENOENT;
}

#endif /* TWHEEL_HAS_CELLS */

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_H */
