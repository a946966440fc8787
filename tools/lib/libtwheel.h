/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * libtwheel: timeouts by the million behind one file descriptor.
 *
 * A context is one open of /dev/twheel, with its own timeouts, queue of events and limits.
 * Arming a timeout returns its id. A timeout that fires makes an event, which is read from
 * the same context. A cancelled timeout makes none.
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
 * Time: all times are nanoseconds. A value above INT64_MAX fails with -EINVAL. Timeouts never
 * fire early: a deadline is rounded up to the tick of the wheel.
 *
 * Errors: a function that can fail returns an int: 0 or a positive outcome on success, -errno
 * on failure, for example -ENOENT. The variable errno is not part of the contract. A failed
 * call writes nothing through its pointers, except @next of twheel_list_timeouts(), the results
 * of twheel_kick_all() and, with a withdrawn event, @events of twheel_read().
 *
 * Threads: there is no global state. All functions may run concurrently for the same context,
 * except twheel_configure(), which must be the first, and twheel_close(), which must be the last.
 * Each event goes to exactly one reader. After fork() both processes share the context, except a
 * wheel in the process. The last close cancels its timeouts.
 *
 * Signals: twheel_wait() and twheel_read() block, and return -EINTR when a handler ran, with
 * SA_RESTART or without. A handler does not cut any other call short.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <errno.h>
#include <stdint.h>
#include "twheel/abi.h"

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
#define TWHEEL_NONBLOCK		0x1	/* O_NONBLOCK, for programs that read twheel_fd() */
#define TWHEEL_INHERIT		0x2	/* keep the descriptor open in exec() */
#define TWHEEL_KERNEL		0x4	/* the device, or fail */
#define TWHEEL_PROCESS		0x8	/* a wheel in the process */

/* struct twheel_info, flags: the context is a wheel in the process. The device never sets it. */
#define TWHEEL_INFO_PROCESS	(1U << 31)

/* struct twheel_setup, flags: twheel_set_time() moves the clock. A wheel in the process alone. */
#define TWHEEL_SETUP_MANUAL	(1U << 31)

/* twheel_wait() and twheel_read(), timeout_ns */
#define TWHEEL_NO_WAIT		INT64_C(0)
#define TWHEEL_FOREVER		INT64_C(-1)

struct twheel_ctx;

/**
 * twheel_open() - open a new context
 * @path: the device, or NULL for TWHEEL_DEVICE
 * @flags: TWHEEL_NONBLOCK, TWHEEL_INHERIT, TWHEEL_KERNEL or TWHEEL_PROCESS. Without the last
 *	two, and without @path, a wheel in the process replaces a device that is missing or not
 *	permitted
 * @ctx: out: the context, closed with twheel_close()
 *
 * Context: any thread.
 *
 * Return: 0; -EINVAL for an unknown flag or a wrong TWHEEL_BACKEND. Of the device: -ENOENT if it
 * does not exist because the module is not loaded; -ENODEV if a node of it exists without the
 * module; -ENOTTY if @path is not a twheel device; -EACCES without permission; -EPERM if the cgroup
 * of the container or unit does not allow the device; -EMFILE, -ENFILE, -ENOMEM.
 */
int twheel_open(const char *path, unsigned int flags, struct twheel_ctx **ctx);

/**
 * twheel_available() - can the device be opened?
 *
 * Context: any thread.
 *
 * Return: 0 if twheel_open() of the device would succeed now; otherwise its error.
 */
int twheel_available(void);

/**
 * twheel_version() - get the version of the library
 *
 * Context: any thread.
 *
 * Return: TWHEEL_VERSION of the library that the program runs with.
 */
unsigned int twheel_version(void);

/**
 * twheel_open_fd() - use a context that is open already
 * @fd: a descriptor of the context, for example inherited or received over a socket
 * @ctx: out: the context, closed with twheel_close()
 *
 * The caller keeps the descriptor: twheel_close() leaves it open.
 *
 * Context: any thread.
 *
 * Return: 0; -EBADF if @fd is not open; -ENOTTY if it is not a twheel device; -EOPNOTSUPP if it
 * is of a wheel in the process; -ENOMEM.
 */
int twheel_open_fd(int fd, struct twheel_ctx **ctx);

/**
 * twheel_close() - close a context
 * @ctx: the context, or NULL
 *
 * Pending timeouts are cancelled when the last descriptor is closed. No other
 * call may be running for @ctx, in any thread.
 */
void twheel_close(struct twheel_ctx *ctx);

/**
 * twheel_fd() - the descriptor behind a context
 * @ctx: the context
 *
 * For poll(), epoll and io_uring: it is readable while an event is unread. Do not
 * close it while the context is in use.
 *
 * Context: any thread, does not block.
 *
 * Return: the descriptor; this cannot fail.
 */
int twheel_fd(const struct twheel_ctx *ctx);

/**
 * twheel_configure() - choose clock, geometry, slack and limit
 * @ctx: the context
 * @setup: a field that is 0 selects the default. With TWHEEL_SETUP_CLOCK in flags, clock is
 *	CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME; otherwise it is CLOCK_MONOTONIC.
 *	CLOCK_REALTIME takes absolute times only. slack_us is the default slack of timeouts,
 *	in microseconds. slots and levels are advice: twheel_get_info() returns the geometry
 *
 *	struct twheel_setup setup = { .slack_us = 50 * TWHEEL_MSEC / TWHEEL_USEC };
 *
 * Call it at most once, before the first operation and before a fork().
 *
 * Context: no other call may be running for @ctx.
 *
 * Return: 0; -EBUSY after an operation or a setup; -EINVAL for an invalid value; -EPERM if
 * the limit or the geometry needs CAP_SYS_RESOURCE; -EAGAIN if the private wheels of the user
 * take too much memory; -ENOMEM; -EBADF if the context is open for reading only.
 */
int twheel_configure(struct twheel_ctx *ctx, const struct twheel_setup *setup);

/**
 * twheel_get_info() - get the settings and the fill level of a context
 * @ctx: the context
 * @info: out: settings and counts
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EFAULT for a bad address.
 */
int twheel_get_info(struct twheel_ctx *ctx, struct twheel_info *info);

/**
 * twheel_get_stats() - get the statistics of a context
 * @ctx: the context
 * @stats: out: counts of operations and events, and the lateness of events
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EFAULT for a bad address.
 */
int twheel_get_stats(struct twheel_ctx *ctx, struct twheel_stats *stats);

/**
 * twheel_now() - read the clock of a context
 * @ctx: the context
 * @now_ns: out: the time on the clock of TWHEEL_F_ABS, expires_ns and fired_ns. Correct only
 *	in the time namespace in which the context was opened
 *
 * Context: any thread, does not block.
 *
 * Return: 0.
 */
int twheel_now(struct twheel_ctx *ctx, uint64_t *now_ns);

/**
 * twheel_set_time() - set the manual clock of a context
 * @ctx: a context that was set up with TWHEEL_SETUP_MANUAL
 * @now_ns: the new time; the clock starts at 0
 *
 * For tests of programs: timeouts of minutes fire in microseconds. Without tick_ns in its setup,
 * the clock has a tick of 1 ns. Timeouts that are due are unread events when the call returns. A
 * time before the current one fires nothing. The maximum waits of twheel_wait() and
 * twheel_read() stay in real time.
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for a time above INT64_MAX, or if the clock is not manual; -EOPNOTSUPP if
 * the context is of the device.
 */
int twheel_set_time(struct twheel_ctx *ctx, uint64_t now_ns);

/**
 * twheel_arm() - arm a new timeout
 * @ctx: the context
 * @expires_ns: the deadline, from now, or absolute with TWHEEL_F_ABS; 0 and an
 *	absolute time in the past are due at once
 * @flags: 0, TWHEEL_F_ABS, or TWHEEL_F_EXACT for no slack even if the context has slack. Use
 *	twheel_cell_create() for TWHEEL_F_CELL
 * @cookie: returned in the event
 * @id: out: the id of the timeout in this context, never 0, never used again; may be NULL
 *
 * Another thread may read the event before this call returns. Use twheel_prep_arm()
 * and twheel_operate() for a timeout with an interval or with slack.
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for a time above INT64_MAX or an unknown flag; -EAGAIN at a limit;
 * -ENOMEM; -ESHUTDOWN after twheel_stop(); -EBADF if the context is open for reading only.
 */
int twheel_arm(struct twheel_ctx *ctx, uint64_t expires_ns, unsigned int flags,
	       uint64_t cookie, uint64_t *id);

/**
 * twheel_mod() - arm a timeout anew
 * @ctx: the context
 * @id: the timeout
 * @expires_ns: the new deadline, from now, or absolute with TWHEEL_F_ABS
 * @flags: flags of twheel_arm(); TWHEEL_F_CELL for a cell
 * @cookie: the new cookie
 *
 * It replaces all of the earlier arming, including interval and slack. After success
 * no event of the earlier arming is read. A failure changes nothing.
 *
 * Context: any thread, does not block.
 *
 * Return: 0 if it was pending; TWHEEL_WITHDRAWN (1) if it had fired, and its unread event
 * is withdrawn; TWHEEL_IDLE (2) if it was an idle cell; -ENOENT if the timeout does not
 * exist or its last event was read; -EINVAL if TWHEEL_F_CELL is missing for a cell or given
 * for another timeout; -EINVAL, -ESHUTDOWN and -EBADF as in twheel_arm().
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
 * Return: 0 if it was pending; TWHEEL_WITHDRAWN (1) if it had fired, and its unread event
 * is withdrawn; TWHEEL_IDLE (2) if it was an idle cell; -ENOENT if the timeout does not
 * exist or its last event was read; -EBADF if the context is open for reading only.
 */
int twheel_cancel(struct twheel_ctx *ctx, uint64_t id);

/**
 * twheel_get() - get the state of a timeout
 * @ctx: the context
 * @id: the timeout
 * @op: out: expires_ns is the time left, at least 1 (0: the event is unread, UINT64_MAX:
 *	an idle cell); repeat is the number of deadlines not read yet; cookie and interval_ns
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -ENOENT if the timeout does not exist or its last event was read.
 */
int twheel_get(struct twheel_ctx *ctx, uint64_t id, struct twheel_op *op);

/**
 * twheel_prep_arm() - fill in an operation
 * @op: out: all fields are set
 * @expires_ns: as in twheel_arm()
 * @flags: as in twheel_arm()
 * @cookie: as in twheel_arm()
 *
 * After twheel_operate() or twheel_submit_ops() the id is in @op->id.
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
 * The operation makes the kernel look at the word of the cell. twheel_cell_arm() does this if
 * needed. Use twheel_prep_kick() in programs that do the exchange themselves, see twheel(4).
 */
void twheel_prep_kick(struct twheel_op *op, uint64_t id);

/**
 * twheel_prep_interval() - make an ARM or MOD periodic
 * @op: filled in by twheel_prep_arm() or twheel_prep_mod()
 * @interval_ns: from one deadline to the next; 0: one-shot. With TWHEEL_F_FIXED_DELAY
 *	in the flags the interval starts when the event is read
 * @repeat: number of deadlines; 0: no end
 *
 * The event counts the deadlines that pass while it is unread.
 */
void twheel_prep_interval(struct twheel_op *op, uint64_t interval_ns, uint32_t repeat);

/**
 * twheel_prep_slack() - let an ARM or MOD share the wakeup of others
 * @op: filled in by twheel_prep_arm() or twheel_prep_mod()
 * @slack_ns: maximum added delay. It is rounded down to microseconds and limited to
 *	UINT32_MAX of them, 71 minutes. A value below a microsecond selects the slack of
 *	the context. For no slack, set TWHEEL_F_EXACT in the flags instead
 */
void twheel_prep_slack(struct twheel_op *op, uint64_t slack_ns);

/**
 * twheel_operate() - carry out one operation
 * @ctx: the context
 * @op: filled in by twheel_prep_*(); out: the output fields of the operation
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
 * Return: as twheel_arm(), twheel_mod(), twheel_cancel() or twheel_get(). Also -EINVAL for an
 * unknown opcode and for invalid combinations: TWHEEL_F_CELL with an interval,
 * TWHEEL_F_FIXED_DELAY or a repeat count without one, TWHEEL_F_EXACT with slack.
 */
int twheel_operate(struct twheel_ctx *ctx, struct twheel_op *op);

/**
 * twheel_submit_ops() - carry out many operations with one system call
 * @ctx: the context
 * @ops: filled in by twheel_prep_*(); out: results and other output fields
 * @nr: number of operations, at most INT_MAX
 *
 * The operations are carried out in order. One that fails does not stop the others. The
 * result of each operation tried is the value that the single call would return.
 *
 * Context: any thread, with its own @ops; takes long for a large @nr.
 *
 * Return: the number of operations tried, less than @nr at a bad address; -EFAULT if none
 * was tried; -EINVAL if @nr is too large; -EBADF if the context is open for reading only.
 */
int twheel_submit_ops(struct twheel_ctx *ctx, struct twheel_op *ops, unsigned int nr);

/**
 * twheel_cancel_timeouts() - end all timeouts without an event
 * @ctx: the context
 * @done: out: the numbers of pending timeouts and of withdrawn events; may be NULL
 *
 * Unread events are withdrawn. Timeouts that are armed meanwhile may or may not be
 * cancelled.
 *
 * Context: any thread, does not block; takes long for many timeouts.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_cancel_timeouts(struct twheel_ctx *ctx, struct twheel_cancel_all *done);

/**
 * twheel_cancel_cookie() - end all timeouts with one cookie without an event
 * @ctx: the context
 * @cookie: as given to twheel_arm()
 * @done: as in twheel_cancel_timeouts()
 *
 * The cost grows with the number of all timeouts of the context, whatever their cookie.
 *
 * Context: any thread, does not block; takes long for many timeouts.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_cancel_cookie(struct twheel_ctx *ctx, uint64_t cookie,
			 struct twheel_cancel_all *done);

/**
 * twheel_stop() - stop all timeouts for good
 * @ctx: the context
 *
 * No timeout can be armed any more. Each pending timeout makes an event with
 * TWHEEL_EV_UNPROCESSED and the count 0, in no order. After the last event has been read,
 * twheel_read() returns 0. A second call changes nothing.
 *
 * Context: any thread; returns when no timeout fires any more.
 *
 * Return: 0; -EBADF as in twheel_arm().
 */
int twheel_stop(struct twheel_ctx *ctx);

/**
 * twheel_list_timeouts() - page through the live timeouts
 * @ctx: the context
 * @entries: out: one entry for each timeout
 * @nr: capacity of @entries, from 1 to INT_MAX
 * @next: 0 for the first call, then as the previous call returned it. The low half of an id is
 *	the position of its timeout
 *
 *	uint32_t next = 0;
 *
 *	while ((nr = twheel_list_timeouts(ctx, entries, ROOM, &next)) > 0)
 *		...
 *
 * The order is unspecified. A timeout that is live from the first call to the last is listed
 * once. A timeout that is armed or ends meanwhile may or may not be listed.
 *
 * Context: any thread, does not block.
 *
 * Return: the number of entries; 0 at the end; -EINVAL for an invalid @nr; -EFAULT. @next is
 * valid after a failure too.
 */
int twheel_list_timeouts(struct twheel_ctx *ctx, struct twheel_list_entry *entries,
			 unsigned int nr, uint32_t *next);

/**
 * twheel_wait() - wait until an event can be read
 * @ctx: the context
 * @timeout_ns: maximum wait; TWHEEL_NO_WAIT; TWHEEL_FOREVER or any negative value
 *
 * A later read may find no event. Another thread may have read it, or twheel_cell_arm() or
 * twheel_cell_cancel() may have withdrawn the event of a cell. A withdrawn event counts as
 * unread until a read or a kick meets it.
 *
 * Context: any thread, several at once too; blocks.
 *
 * Return: 1 if an event is unread, or if no event can follow after twheel_stop(); 0 after
 * @timeout_ns; -EINTR.
 */
int twheel_wait(struct twheel_ctx *ctx, int64_t timeout_ns);

/**
 * twheel_read() - take events out of the queue
 * @ctx: the context
 * @events: out: in the order in which they fired; with TWHEEL_EV_UNPROCESSED in any order, and
 *	some that fired during twheel_stop() after them
 * @nr: capacity of @events, at least 1
 * @timeout_ns: maximum wait for the first event; TWHEEL_NO_WAIT;
 *	TWHEEL_FOREVER or any negative value
 *
 * O_NONBLOCK makes no difference. Other readers do not prolong the wait.
 *
 * Context: any thread, several at once too; blocks.
 *
 * Return: the number of events, at least 1; 0 if no event can follow after twheel_stop();
 * -EAGAIN if there is none with TWHEEL_NO_WAIT, -ETIMEDOUT after another @timeout_ns; -EINTR;
 * -EINVAL if @nr is 0; -EBADF if the context is open for writing only; -EFAULT.
 */
int twheel_read(struct twheel_ctx *ctx, struct twheel_event *events, unsigned int nr,
		int64_t timeout_ns);

/*
 * Cells
 *
 * A cell is a timeout that is armed, moved and cancelled by one atomic exchange in memory
 * that the process shares with the kernel. Cells suit timeouts that are nearly always
 * cancelled or moved: one for each request, or one for each connection.
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
 * deadline as it was armed. It has TWHEEL_EV_LAST only after twheel_stop(). twheel_cancel()
 * ends the cell, and so do twheel_cancel_timeouts(), twheel_cancel_cookie() and twheel_stop().
 *
 * A later cell reuses the memory of a cell that has ended. Do not arm or cancel a cell that
 * has ended or may end meanwhile: this changes the later cell. The mapping stays until
 * twheel_close(). A forked process has it at the same address.
 *
 * Deadlines are absolute: read the clock once for many cells. An arm makes a system call
 * only if the kernel would look too late. A cell in regular use, with about the same delay
 * each time, needs no system call.
 *
 * Cells that different threads use should be in different cache lines: 64 bytes hold four.
 *
 * The functions that exchange are inline in C and C++. The library also exports them, for
 * other languages. They need lock-free 64-bit atomic operations, for which the compiler
 * defines __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8. 64-bit processors have them, and so has 32-bit
 * x86 from the Pentium on (-march=i586 or later, as Debian has it). Elsewhere
 * TWHEEL_HAS_CELLS is not defined, these functions are missing, and the others return
 * -EOPNOTSUPP. Both the exchange and the load of @look must be sequentially consistent:
 *
 *	x86-64		xchg %rax, (cell); mov 8(cell), %rax
 *	i686		lock cmpxchg8b (cell), in a loop; movq or fildll 8(cell)
 *	AArch64, LSE	swpal; ldar
 *	AArch64		ldaxr, stlxr in a loop; ldar. A plain ldr, or ldapr, could
 *			execute before the store: the arming would be lost
 *	AArch64, both	a call of __aarch64_swp8_acq_rel, which is one of these; ldar
 */
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#define TWHEEL_HAS_CELLS	1
#endif

/**
 * twheel_cell_create() - make an idle cell
 * @ctx: the context
 * @cookie: returned in its events
 * @id: out: the id of the cell, until twheel_cancel(), twheel_cancel_timeouts() or twheel_stop()
 *	ends it
 * @cell: out: address of the cell, until twheel_close()
 *
 * A cell counts as one live timeout until it ends. To create a cell with slack, call
 * twheel_prep_arm() with TWHEEL_F_CELL | TWHEEL_F_ABS and the deadline UINT64_MAX. Then call
 * twheel_prep_slack(), twheel_operate() and twheel_cell_find().
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EOPNOTSUPP if the kernel or the processor has no cells; -EACCES if the context
 * is not open for reading and writing; -ENOMEM, also without address space for 16 bytes per
 * timeout of the limit; -EAGAIN and -ESHUTDOWN as in twheel_arm().
 */
int twheel_cell_create(struct twheel_ctx *ctx, uint64_t cookie, uint64_t *id,
		       struct twheel_cell **cell);

/**
 * twheel_cell_find() - find a cell
 * @ctx: the context
 * @id: a cell, which any process that shares the context may have created
 * @cell: out: address of the cell, until twheel_close()
 *
 * The kernel does not check @id: the id of an ended cell, or of a timeout that is not a cell,
 * gives an address that the caller must not write to.
 *
 * Context: any thread, does not block.
 *
 * Return: 0; -EINVAL for an id that cannot be a cell's; -EOPNOTSUPP, -EACCES and -ENOMEM as
 * in twheel_cell_create().
 */
int twheel_cell_find(struct twheel_ctx *ctx, uint64_t id, struct twheel_cell **cell);

/**
 * twheel_cell_kick() - have the kernel look at a cell that has been armed
 * @ctx: the context
 * @cell: the cell
 * @id: of the cell
 * @expires_ns: the deadline that the caller has exchanged the word with
 *
 * twheel_cell_arm() calls it if the kernel would look too late. If the kernel refuses the
 * arming, it is undone: the cell is then idle, whatever its state before.
 *
 * Context: any thread or signal handler, does not block; preserves errno.
 *
 * Return: 0 if the cell is armed, or was until another call changed it; -ENOENT if the
 * cell has ended; -ESHUTDOWN after twheel_stop(); -EINVAL if it is not a cell; -EBADF as in
 * twheel_arm().
 */
int twheel_cell_kick(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
		     uint64_t expires_ns);

/* struct twheel_kicks, room */
#define TWHEEL_MAX_KICKS	64

/**
 * struct twheel_kicks - a batch of armings that need a kick
 * @ctx: the context of all cells in the batch. The caller sets it, and all else to 0
 * @nr: number of armings in the batch
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
 * twheel_kick_all() - kick all armings in a batch with one system call
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
 * twheel_cell_outcome() - decode the old word of a cell
 * @word: value that an exchange has returned
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
 * Context: any thread or signal handler, does not block. Rarely makes a system call.
 *
 * Return: 0 if it was pending and is moved; TWHEEL_WITHDRAWN (1) if it had fired, and its
 * unread event is withdrawn; TWHEEL_IDLE (2) if it was idle; -EINVAL for a time above
 * INT64_MAX, which changes nothing; -ENOENT, -ESHUTDOWN and -EBADF as in twheel_cell_kick(),
 * and then the cell is idle.
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
 * Use it in a thread that arms many cells in a row. An arming that needs the kernel counts
 * from twheel_kick_all().
 *
 * Context: any thread with a batch of its own, does not block. Never a system call.
 *
 * Return: the outcome, as twheel_cell_arm(); -EINVAL for a time above INT64_MAX; -EAGAIN when
 * the batch is full. An error changes nothing.
 */
int twheel_cell_arm_later(struct twheel_kicks *kicks, struct twheel_cell *cell,
			  uint64_t id, uint64_t expires_ns);

/**
 * twheel_cell_cancel() - cancel the current arming of a cell
 * @cell: the cell, which stays live
 *
 * After success no event of that arming is read.
 *
 * Context: any thread, does not block. In a signal handler, too. Never a system call.
 *
 * Return: 0 if it was pending; TWHEEL_WITHDRAWN (1) if it had fired, and its unread event is
 * withdrawn; TWHEEL_IDLE (2) if it was idle, or its event was read before. It cannot fail.
 */
int twheel_cell_cancel(struct twheel_cell *cell);

/**
 * twheel_cell_cancel_at() - cancel one arming of a cell, and no later one
 * @cell: the cell, which lives on
 * @expires_ns: the deadline that it was armed with
 *
 * Use it for a cell that another thread may arm anew meanwhile. Two armings with the same
 * deadline are one.
 *
 * Context: as twheel_cell_cancel().
 *
 * Return: 0 when it was pending; -ENOENT when it was moved, cancelled or has fired. Then its
 * event may still be read.
 */
int twheel_cell_cancel_at(struct twheel_cell *cell, uint64_t expires_ns);

/*
 * The bodies. With gnu_inline, GCC and Clang inline them and emit no separate function, in
 * any C standard. The library defines the macro as empty and so exports the functions: for
 * other languages, for function pointers, and for programs built without optimisation.
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
	return twheel_cell_outcome(__atomic_exchange_n(&cell->word, TWHEEL_CELL_IDLE,
						       __ATOMIC_SEQ_CST));
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
