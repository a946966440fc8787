/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/twheel: timeouts by the million behind one file descriptor.
 *
 * Every open of the device is a context of its own: its timeouts, its queue of
 * events, its limits. A timeout is armed with an ioctl, which returns its id, and
 * ends in an event that is read() from the same descriptor, unless it is
 * cancelled before that. poll() reports EPOLLIN while an event is unread, and
 * EPOLLHUP when there will be no more, after TWHEEL_IOC_STOP.
 *
 * All times are nanoseconds; a value above INT64_MAX is refused with EINVAL.
 * Nothing fires early: a deadline is rounded up to the next tick. Absolute times
 * are those of the clock in the time namespace of whoever opened the device.
 *
 * A cell is a timeout that is armed, moved and cancelled by one atomic exchange in
 * shared memory. TWHEEL_F_CELL with ARM makes one. mmap(MAP_SHARED) at offset 0, of at
 * most max_timeouts * sizeof(struct twheel_cell) rounded up to a page, shows the cells:
 * the low half of an id is the index. struct twheel_cell has the protocol.
 *
 * TWHEEL_IOC_TRIM gives back the memory of timeouts that are over, which the context
 * would otherwise keep for those to come. It returns how many pages that were. The kernel
 * does the same when memory gets short.
 *
 * The structures are the same for 32-bit and 64-bit programs. Fields called
 * reserved must be 0 where they go in, and are 0 where they come out.
 */
#ifndef _UAPI_LINUX_TWHEEL_H
#define _UAPI_LINUX_TWHEEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* struct twheel_op, opcode */
#define TWHEEL_OP_ARM		1
#define TWHEEL_OP_MOD		2
#define TWHEEL_OP_CANCEL	3
#define TWHEEL_OP_GET		4
#define TWHEEL_OP_KICK		5

/* struct twheel_op, flags */
#define TWHEEL_F_ABS		(1U << 0)	/* expires_ns is absolute */
#define TWHEEL_F_FIXED_DELAY	(1U << 1)	/* the interval counts from read() */
#define TWHEEL_F_CELL		(1U << 2)	/* a cell; MOD needs it for a cell, too */
#define TWHEEL_F_EXACT		(1U << 3)	/* no slack, not that of the context either */

/* struct twheel_op, result, and what an ioctl returns: a positive outcome of CANCEL, MOD */
#define TWHEEL_WITHDRAWN	1	/* it had fired; its event will not be read */
#define TWHEEL_IDLE		2	/* it was a cell that was not armed */

/* struct twheel_cell, word. All values up to INT64_MAX are deadlines. */
#define TWHEEL_CELL_FIRED	(~0ULL - 1)	/* fired; the event is unread */
#define TWHEEL_CELL_IDLE	(~0ULL)		/* not armed; what users write */

/**
 * struct twheel_cell - one timeout in shared memory
 * @word: up to INT64_MAX: the cell is armed, and this is its deadline, absolute ns on the
 *	clock of the context. TWHEEL_CELL_FIRED: it has fired, and its event is unread. Any
 *	other value: idle. Users write TWHEEL_CELL_IDLE; the kernel may write another idle
 *	value, so test the range and never compare with TWHEEL_CELL_IDLE alone
 * @look: written by the kernel: it looks at @word at this time or earlier; ~0: it does
 *	not look until it is told to
 *
 * Both are accessed with single 64-bit atomic operations, sequentially consistent.
 *
 * To arm or move a cell, exchange @word with the deadline, then load @look. If @look is
 * later than the deadline, call TWHEEL_OP_KICK; the arming counts from that call. If it
 * fails, compare-exchange the deadline with TWHEEL_CELL_IDLE: success means that the arm
 * has failed, failure that the kernel had taken it up before.
 *
 * To cancel a cell, exchange @word with TWHEEL_CELL_IDLE. To cancel one arming and no
 * later one, compare-exchange its deadline with TWHEEL_CELL_IDLE.
 *
 * The old value of @word is the outcome of both. A deadline: it was pending. FIRED: its
 * event was unread, and will not be read. Otherwise the cell was idle.
 *
 * A cell keeps its id and its index until CANCEL, CANCEL_ALL, STOP or the last close ends
 * it, however often it is armed and fires. It is one live timeout all that time. Nobody may
 * access a cell that has ended: another one may have its place, and even an arm that fails
 * would change that one. An index can be above max_timeouts, but not beyond the last page.
 */
struct twheel_cell {
	__aligned_u64	word;
	__aligned_u64	look;
};

/**
 * struct twheel_op - one operation on a timeout
 * @opcode: one of TWHEEL_OP_*
 * @flags: TWHEEL_F_* for ARM and MOD; 0 for the others
 * @id: the timeout, in: MOD, CANCEL, GET, KICK; out: ARM
 * @expires_ns: ARM, MOD: the deadline, from now, or with TWHEEL_F_ABS on the
 *	clock of the context; at most INT64_MAX, or ~0 with TWHEEL_F_CELL: the cell is idle
 *	then. On CLOCK_REALTIME only absolute. GET, out: what remains to the deadline, of a
 *	cell to that in its word; 0 when the event is waiting to be read; ~0 for an idle cell
 * @interval_ns: ARM, MOD: from one deadline to the next, 0 for a single one; at most
 *	INT64_MAX. GET, out
 * @cookie: ARM, MOD: comes back in the event; GET, out
 * @repeat: ARM, MOD: with an interval: how many deadlines in all, 0 for no end.
 *	GET, out: how many have not been read yet
 * @slack_us: ARM, MOD: how much later it may fire, so that others share the wakeup;
 *	microseconds. 0: the slack of the context
 * @result: SUBMIT, out: 0, a positive outcome, or a negative errno
 * @reserved: 0
 *
 * What an operation does not take must be 0; what only comes out of it (id of ARM;
 * expires_ns, interval_ns, cookie and repeat of GET; result) is not looked at.
 * TWHEEL_F_FIXED_DELAY needs an interval, TWHEEL_F_CELL goes without one.
 * TWHEEL_F_EXACT goes without slack_us. MOD has TWHEEL_F_CELL for a cell, and for
 * nothing else.
 *
 * KICK has the kernel look at the word of a cell. It makes no event itself.
 *
 * The ioctls of a single operation return its outcome, or fail with its errno. They write
 * what comes out of the operation, but not @result.
 */
struct twheel_op {
	__u32	opcode;
	__u32	flags;
	__u64	id;
	__u64	expires_ns;
	__u64	interval_ns;
	__u64	cookie;
	__u32	repeat;
	__u32	slack_us;
	__s32	result;
	__u32	reserved;
};

/* struct twheel_event, flags */
#define TWHEEL_EV_LAST		(1U << 0)	/* no further event: the id is dead */
#define TWHEEL_EV_UNPROCESSED	(1U << 1)	/* stopped before it fired */

/**
 * struct twheel_event - one or more expirations, as read() returns them
 * @id: the timeout
 * @cookie: as given when it was armed
 * @expires_ns: the deadline it stands for, the last one if there are several;
 *	absolute. Of a cell: its word, as it was when it fired. In a time namespace, one
 *	before the zero of the host's clock is reported as that zero, but for a cell's
 * @fired_ns: when it was taken out of the wheel, same clock, never before the first
 *	deadline it stands for; when it was stopped, with TWHEEL_EV_UNPROCESSED
 * @count: deadlines that the event stands for: those that have passed until it was
 *	read; 0 with TWHEEL_EV_UNPROCESSED
 * @flags: TWHEEL_EV_*
 * @reserved: 0
 */
struct twheel_event {
	__u64	id;
	__u64	cookie;
	__u64	expires_ns;
	__u64	fired_ns;
	__u64	count;
	__u32	flags;
	__u32	reserved;
};

/* struct twheel_info, flags */
#define TWHEEL_INFO_PRIVATE	(1U << 0)	/* the wheel is this context's own */
#define TWHEEL_INFO_STOPPED	(1U << 1)	/* TWHEEL_IOC_STOP has been called */

/**
 * struct twheel_info - argument of TWHEEL_IOC_INFO
 * @opcodes: a bit for each opcode of struct twheel_op that is known, 1 << opcode
 * @op_flags: flags of struct twheel_op that are known
 * @tick_ns: length of a tick
 * @clock: clockid_t: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME
 * @slots: slots per level
 * @levels: levels
 * @max_timeouts: most timeouts that this context may have live at once
 * @live: timeouts that are pending or have an unread event, and cells
 * @ready: unread events
 * @flags: TWHEEL_INFO_*
 * @slack_us: slack of the timeouts that name none
 * @setup_flags: flags of struct twheel_setup that are known
 * @reserved0: 0
 * @reserved: 0
 */
struct twheel_info {
	__u32	opcodes;
	__u32	op_flags;
	__u64	tick_ns;
	__u32	clock;
	__u32	slots;
	__u32	levels;
	__u32	max_timeouts;
	__u32	live;
	__u32	ready;
	__u32	flags;
	__u32	slack_us;
	__u32	setup_flags;
	__u32	reserved0;
	__u64	reserved[4];
};

/* struct twheel_setup, flags */
#define TWHEEL_SETUP_CLOCK	(1U << 0)	/* clock counts */

/**
 * struct twheel_setup - argument of TWHEEL_IOC_SETUP
 * @tick_ns: length of a tick; 0: the default
 * @clock: with TWHEEL_SETUP_CLOCK a clockid_t: CLOCK_MONOTONIC, CLOCK_BOOTTIME or
 *	CLOCK_REALTIME; without it 0, and the clock is CLOCK_MONOTONIC
 * @slots: slots per level, rounded up to a power of two; 0: the default
 * @levels: levels; 0: the default
 * @max_timeouts: most timeouts that may be live at once; 0: the default
 * @flags: TWHEEL_SETUP_*
 * @slack_us: slack of the timeouts that name none; microseconds
 * @reserved: 0
 *
 * With all of it 0 the context is what it is without TWHEEL_IOC_SETUP.
 *
 * Contexts of the same clock with the default geometry share a wheel; another
 * geometry makes one for this context. @slots and @levels are advice: TWHEEL_IOC_INFO
 * tells what has become of them.
 */
struct twheel_setup {
	__u64	tick_ns;
	__u32	clock;
	__u32	slots;
	__u32	levels;
	__u32	max_timeouts;
	__u32	flags;
	__u32	slack_us;
	__u64	reserved[3];
};

/**
 * struct twheel_submit - argument of TWHEEL_IOC_SUBMIT
 * @ops: address of an array of struct twheel_op
 * @nr: operations in it
 * @done: out: operations tried; each of those has its @result, unless the array
 *	was unmapped meanwhile. Fewer than @nr at a bad address, or when the caller is
 *	being killed; no other signal cuts it short
 * @flags: 0
 * @op_size: sizeof(struct twheel_op)
 */
struct twheel_submit {
	__u64	ops;
	__u32	nr;
	__u32	done;
	__u32	flags;
	__u32	op_size;
};

/**
 * struct twheel_uring_submit - TWHEEL_IOC_SUBMIT as a command of an io_uring
 * @ops: address of an array of struct twheel_op
 * @nr: operations in it
 * @op_size: sizeof(struct twheel_op)
 *
 * The 16 command bytes of an SQE with opcode IORING_OP_URING_CMD and cmd_op
 * TWHEEL_IOC_SUBMIT. The command completes at once. The result in the CQE is how many
 * operations were tried, as in struct twheel_submit, or a negative errno.
 */
struct twheel_uring_submit {
	__u64	ops;
	__u32	nr;
	__u32	op_size;
};

/* struct twheel_cancel_all, flags */
#define TWHEEL_CANCEL_COOKIE	(1U << 0)	/* only those with this cookie */

/**
 * struct twheel_cancel_all - argument of TWHEEL_IOC_CANCEL_ALL
 * @cookie: with TWHEEL_CANCEL_COOKIE: whose timeouts; else 0
 * @flags: TWHEEL_CANCEL_*
 * @pending: out: timeouts that were pending and will not fire
 * @withdrawn: out: timeouts whose event was unread and will not be read
 * @reserved0: 0
 * @reserved: 0
 *
 * Timeouts that are armed meanwhile may be cancelled or not. Idle cells end, too, and
 * count in neither.
 */
struct twheel_cancel_all {
	__u64	cookie;
	__u32	flags;
	__u32	pending;
	__u32	withdrawn;
	__u32	reserved0;
	__u64	reserved[2];
};

/* struct twheel_list_entry, state */
#define TWHEEL_STATE_PENDING	1	/* will fire */
#define TWHEEL_STATE_READY	2	/* has fired, or was stopped; its event is unread */
#define TWHEEL_STATE_IDLE	3	/* a cell that is not armed */

/**
 * struct twheel_list_entry - one timeout, as TWHEEL_IOC_LIST finds it
 * @id: the timeout
 * @cookie: as given when it was armed
 * @remaining_ns: as expires_ns of GET
 * @interval_ns: as it was armed
 * @repeat: deadlines that have not been read yet; 0: no end, or no interval
 * @slack_us: as it was armed
 * @state: TWHEEL_STATE_*
 * @flags: TWHEEL_F_FIXED_DELAY, TWHEEL_F_CELL
 */
struct twheel_list_entry {
	__u64	id;
	__u64	cookie;
	__u64	remaining_ns;
	__u64	interval_ns;
	__u32	repeat;
	__u32	slack_us;
	__u32	state;
	__u32	flags;
};

/**
 * struct twheel_list - argument of TWHEEL_IOC_LIST
 * @entries: address of an array of struct twheel_list_entry
 * @nr: room in it, at least 1
 * @done: out: entries written; 0 is the end. Fewer than @nr: there are no more, or the
 *	address after them is bad (EFAULT when not even the first could be written)
 * @next: where to go on: 0 for the beginning, then as the call before left it
 * @flags: 0
 * @entry_size: sizeof(struct twheel_list_entry)
 * @reserved0: 0
 * @reserved: 0
 *
 * In no particular order. What lives from the first call to the last is found once;
 * what is armed or ends meanwhile may be found or not.
 */
struct twheel_list {
	__u64	entries;
	__u32	nr;
	__u32	done;
	__u32	next;
	__u32	flags;
	__u32	entry_size;
	__u32	reserved0;
	__u64	reserved[2];
};

/* Up to 2^39 ns, nine minutes, in powers of two. */
#define TWHEEL_LATENESS		40

/**
 * struct twheel_stats - argument of TWHEEL_IOC_STATS
 * @armed: timeouts made with ARM
 * @moved: times that one was armed anew with MOD
 * @cancelled: timeouts that were cancelled while pending
 * @withdrawn: timeouts that were cancelled with their event unread
 * @ended: timeouts whose last event has been read, and cells that ended idle
 * @fired: events made
 * @looks: times that the kernel has looked at the word of a cell because of the time
 * @kicks: times that it has looked because of KICK
 * @dropped: events of cells that were withdrawn through the word
 * @unprocessed: events made by TWHEEL_IOC_STOP
 * @read: events read
 * @live: timeouts that are pending or have an unread event, and cells
 * @ready: unread events
 * @lateness: events by how late they were made: less than 2^n ns after the deadline
 *	and not less than 2^(n - 1), by n; the last one holds all that are later
 * @reserved: 0
 *
 * armed == cancelled + withdrawn + ended + live. The counters of the wheel, which other
 * contexts may share, are in debugfs.
 */
struct twheel_stats {
	__u64	armed;
	__u64	moved;
	__u64	cancelled;
	__u64	withdrawn;
	__u64	ended;
	__u64	fired;
	__u64	looks;
	__u64	kicks;
	__u64	dropped;
	__u64	unprocessed;
	__u64	read;
	__u32	live;
	__u32	ready;
	__u64	lateness[TWHEEL_LATENESS];
	__u64	reserved[6];
};

#define TWHEEL_IOC_MAGIC	0xF7

#define TWHEEL_IOC_INFO		_IOR(TWHEEL_IOC_MAGIC, 0x00, struct twheel_info)
#define TWHEEL_IOC_SETUP	_IOW(TWHEEL_IOC_MAGIC, 0x01, struct twheel_setup)
#define TWHEEL_IOC_ARM		_IOWR(TWHEEL_IOC_MAGIC, 0x02, struct twheel_op)
#define TWHEEL_IOC_MOD		_IOWR(TWHEEL_IOC_MAGIC, 0x03, struct twheel_op)
#define TWHEEL_IOC_CANCEL	_IOWR(TWHEEL_IOC_MAGIC, 0x04, struct twheel_op)
#define TWHEEL_IOC_GET		_IOWR(TWHEEL_IOC_MAGIC, 0x05, struct twheel_op)
#define TWHEEL_IOC_SUBMIT	_IOWR(TWHEEL_IOC_MAGIC, 0x06, struct twheel_submit)
#define TWHEEL_IOC_CANCEL_ALL	_IOWR(TWHEEL_IOC_MAGIC, 0x07, struct twheel_cancel_all)
#define TWHEEL_IOC_STOP		_IO(TWHEEL_IOC_MAGIC, 0x08)
#define TWHEEL_IOC_LIST		_IOWR(TWHEEL_IOC_MAGIC, 0x09, struct twheel_list)
#define TWHEEL_IOC_STATS	_IOR(TWHEEL_IOC_MAGIC, 0x0a, struct twheel_stats)
#define TWHEEL_IOC_TRIM		_IO(TWHEEL_IOC_MAGIC, 0x0b)
#define TWHEEL_IOC_KICK		_IOWR(TWHEEL_IOC_MAGIC, 0x0c, struct twheel_op)

#endif /* _UAPI_LINUX_TWHEEL_H */
