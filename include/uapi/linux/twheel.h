/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/twheel: timeouts by the million behind one file descriptor.
 *
 * Every open of the device creates a context, with its own timeouts, queue of events and
 * limits. An ioctl arms a timeout and returns its id. A timeout that fires makes an event,
 * which read() on the same descriptor returns. A cancelled timeout makes none. A buffer that is
 * too small for one event fails with EINVAL. poll() reports EPOLLIN while an event is unread.
 *
 * TWHEEL_IOC_STOP makes an event with TWHEEL_EV_UNPROCESSED of every pending timeout. Arming then
 * fails with ESHUTDOWN. When all events are read, read() returns 0 and poll() reports EPOLLHUP.
 *
 * All times are nanoseconds; a value above INT64_MAX fails with EINVAL. Timeouts never fire
 * early: a deadline is rounded up to the next tick. Absolute times are on the clock as seen
 * in the time namespace of the task that opened the device.
 *
 * A cell is a timeout that is armed, moved and cancelled by one atomic exchange in shared
 * memory. ARM with TWHEEL_F_CELL creates a cell. mmap(MAP_SHARED) at offset 0 maps the cells.
 * A mapping has at most the @cells of TWHEEL_IOC_INFO. The low half of an id is the index of the
 * cell.
 *
 * A context keeps the memory of ended timeouts for new ones, and gives it back at the last
 * close.
 *
 * The structures are the same for 32-bit and 64-bit programs, and never change their size: a
 * longer one has a new name and number. An unknown opcode or flag, and a reserved field that is
 * not 0, fail with EINVAL; an unknown command fails with ENOTTY. Reserved fields of INFO, STATS and
 * events are 0 today; ignore them, and flags that you do not know. Those of other structures are
 * not changed. A counter or limit of INFO or STATS that a module does not have is 0. New states and
 * outcomes only come with a new flag or operation. The kernel never uses bit 31 of the flags of
 * INFO and SETUP, which belongs to libraries.
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
#define TWHEEL_F_FIXED_DELAY	(1U << 1)	/* the interval starts at read() */
#define TWHEEL_F_CELL		(1U << 2)	/* ARM: make a cell; MOD: required for a cell */
#define TWHEEL_F_EXACT		(1U << 3)	/* no slack, even if the context has slack */

/* Positive outcomes of CANCEL and MOD: struct twheel_op, result; return value of the ioctl */
#define TWHEEL_WITHDRAWN	1	/* it had fired; its event will not be read */
#define TWHEEL_IDLE		2	/* it was an idle cell */

/* struct twheel_cell, word. All values up to INT64_MAX are deadlines. */
#define TWHEEL_CELL_FIRED	(~0ULL - 1)	/* fired; the event is unread */
#define TWHEEL_CELL_IDLE	(~0ULL)		/* idle; users write this value to cancel */

/**
 * struct twheel_cell - one timeout in shared memory
 * @word: up to INT64_MAX: the cell is armed, and this is its deadline, absolute ns on the
 *	clock of the context. TWHEEL_CELL_FIRED: it has fired, and its event is unread. Any
 *	other value: idle. Users write deadlines and TWHEEL_CELL_IDLE, and nothing else; the
 *	kernel may write another idle value, so test the range and never compare with
 *	TWHEEL_CELL_IDLE alone
 * @look: written by the kernel, which looks at @word at this time or earlier; ~0: it does
 *	not look before the next call
 *
 * Access both with single 64-bit atomic operations, sequentially consistent.
 *
 * To arm or move a cell, exchange @word with the deadline, then load @look. If @look is
 * later than the deadline, call TWHEEL_OP_KICK; the arming takes effect with that call. If
 * the call fails, compare-exchange the deadline with TWHEEL_CELL_IDLE. If this succeeds, the
 * arm has failed. Otherwise the kernel had already seen the arming.
 *
 * To cancel a cell, exchange @word with TWHEEL_CELL_IDLE. To cancel one arming and no
 * later one, compare-exchange its deadline with TWHEEL_CELL_IDLE.
 *
 * The old value of @word is the outcome of an arm or cancel. A deadline: it was pending.
 * FIRED: its event was unread, and will not be read. Any other value: the cell was idle.
 *
 * A cell keeps its id and index until CANCEL, CANCEL_ALL, STOP or the last close ends it.
 * Until then it is one live timeout, however often it is armed and fires. Do not access a
 * cell that has ended: another cell may have its index, and even an arm that fails would
 * change that cell. An index can be max_timeouts or above: it is below @cells of struct
 * twheel_info.
 */
struct twheel_cell {
	__aligned_u64	word;
	__aligned_u64	look;
};

/**
 * struct twheel_op - one operation on a timeout
 * @opcode: one of TWHEEL_OP_*
 * @flags: TWHEEL_F_* for ARM and MOD; 0 for the others
 * @id: the timeout; input of MOD, CANCEL, GET and KICK, output of ARM
 * @expires_ns: ARM, MOD: the deadline, at most INT64_MAX. With TWHEEL_F_ABS absolute on the
 *	clock of the context, otherwise from now. CLOCK_REALTIME requires TWHEEL_F_ABS. With
 *	TWHEEL_F_CELL, ~0 makes the cell idle. GET, out: time left until the deadline, for a
 *	cell until the deadline in its word, but at least 1; 0: the event is unread; ~0: an
 *	idle cell
 * @interval_ns: ARM, MOD: from one deadline to the next, at most INT64_MAX; 0: one-shot.
 *	GET, out: the same
 * @cookie: ARM, MOD: returned in the event. GET, out: the same
 * @repeat: ARM, MOD: with an interval: number of deadlines; 0: no end. GET, out: number of
 *	deadlines not read yet
 * @slack_us: ARM, MOD: maximum added delay, in microseconds, to share a wakeup with other
 *	timeouts; 0: the slack of the context
 * @result: SUBMIT, out: 0, a positive outcome, or a negative errno
 * @reserved: 0
 *
 * Fields that an operation does not take must be 0. Fields that are output only are ignored
 * on input: id of ARM; expires_ns, interval_ns, cookie and repeat of GET; result.
 * TWHEEL_F_FIXED_DELAY requires an interval; TWHEEL_F_CELL excludes one. TWHEEL_F_EXACT
 * excludes slack_us. MOD requires TWHEEL_F_CELL for a cell and rejects it for other timeouts.
 *
 * KICK makes the kernel look at the word of a cell. It makes no event itself.
 *
 * TWHEEL_IOC_OP returns the outcome of its operation, or fails with its errno. It writes the
 * output fields of ARM and GET, but not @result. GET needs a descriptor open for reading or
 * writing, all others one that is open for writing.
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
#define TWHEEL_EV_LAST		(1U << 0)	/* the last event: the id is no longer valid */
#define TWHEEL_EV_UNPROCESSED	(1U << 1)	/* stopped before it fired */

/**
 * struct twheel_event - one or more expirations, as read() returns them
 * @id: the timeout
 * @cookie: the cookie of the last ARM or MOD
 * @expires_ns: the deadline, absolute; the last one if @count is above 1. Of a cell: its word
 *	when it fired. In a time namespace, a deadline before the zero of the host's clock is
 *	reported as that zero, except for a cell
 * @fired_ns: time when the timeout fired, on the same clock, not before the first deadline of
 *	the event. With TWHEEL_EV_UNPROCESSED: time of the STOP
 * @count: number of deadlines that had passed when the event was read; 0 with
 *	TWHEEL_EV_UNPROCESSED
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
#define TWHEEL_INFO_PRIVATE	(1U << 0)	/* no other context uses the wheel */
#define TWHEEL_INFO_STOPPED	(1U << 1)	/* TWHEEL_IOC_STOP has been called */
#define TWHEEL_INFO_URING	(1U << 2)	/* there is TWHEEL_URING_SUBMIT */

/**
 * struct twheel_info - argument of TWHEEL_IOC_INFO
 * @opcodes: supported opcodes of struct twheel_op, as bits 1 << opcode
 * @op_flags: supported flags of struct twheel_op
 * @tick_ns: length of a tick
 * @clock: clockid_t: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME
 * @slots: number of slots of the first level
 * @levels: number of levels
 * @max_timeouts: limit of live timeouts
 * @live: live timeouts: pending, with an unread event, or cells
 * @ready: number of unread events
 * @flags: TWHEEL_INFO_*
 * @slack_us: default slack of timeouts, in microseconds
 * @setup_flags: supported flags of struct twheel_setup
 * @cells: number of cells that a mapping of all of them has; 0: no cells
 * @user_timeouts: timeouts that fit into the memory of all contexts of the user
 * @max_user_timeouts: limit of @user_timeouts
 * @wheel_bytes: memory of the private wheels of all contexts of the user
 * @max_wheel_bytes: limit of @wheel_bytes
 * @refused: requests that @max_timeouts has refused to this context
 * @user_refused: requests that @max_user_timeouts has refused to the user
 * @all_refused: requests that the limit of all users' timeouts has refused to the user
 * @wheel_refused: requests that @max_wheel_bytes has refused to the user
 * @reserved: 0
 *
 * The user is the real uid that opened the context.
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
	__u32	cells;
	__u32	user_timeouts;
	__u32	max_user_timeouts;
	__u64	wheel_bytes;
	__u64	max_wheel_bytes;
	__u64	refused;
	__u64	user_refused;
	__u64	all_refused;
	__u64	wheel_refused;
	__u64	reserved[10];
};

/* struct twheel_setup, flags */
#define TWHEEL_SETUP_CLOCK	(1U << 0)	/* use the clock field */

/**
 * struct twheel_setup - argument of TWHEEL_IOC_SETUP
 * @tick_ns: length of a tick; 0: the default
 * @clock: with TWHEEL_SETUP_CLOCK a clockid_t: CLOCK_MONOTONIC, CLOCK_BOOTTIME or
 *	CLOCK_REALTIME. Otherwise 0, and the clock is CLOCK_MONOTONIC
 * @slots: number of slots of the first level, rounded up to a power of two; 0: the default
 * @levels: 1: a hashed wheel, which needs CAP_SYS_RESOURCE. Any other value: a hierarchy with as
 *	many levels as all times need
 * @max_timeouts: limit of live timeouts; 0: the default
 * @flags: TWHEEL_SETUP_*
 * @slack_us: default slack of timeouts, in microseconds
 * @reserved: 0
 *
 * If all fields are 0, the context has the same settings as without TWHEEL_IOC_SETUP, which comes
 * once, before the first timeout, mapping and STOP, and fails with EBUSY afterwards.
 *
 * Contexts of the same clock with the default geometry share a wheel. With another geometry
 * the context gets a private wheel. @slots and @levels are advice: TWHEEL_IOC_INFO returns
 * the actual geometry.
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
 * @nr: number of operations in the array
 * @done: out: number of operations tried. Each of these has its result, unless the array was
 *	unmapped meanwhile. If it is less than @nr, submit the rest: a bad address then fails with
 *	EFAULT. Today, nothing but a bad address and a fatal signal makes it less
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

#define TWHEEL_URING_MAX_OPS	1024U	/* operations in a command of an io_uring */

/**
 * struct twheel_uring_submit - argument of TWHEEL_URING_SUBMIT, the command of an io_uring
 * @ops: address of an array of struct twheel_op, which must stay until the command completes
 * @nr: number of operations in the array, at most TWHEEL_URING_MAX_OPS
 * @op_size: sizeof(struct twheel_op)
 * @flags: 0
 *
 * These are the 16 command bytes of an SQE with opcode IORING_OP_URING_CMD and cmd_op
 * TWHEEL_URING_SUBMIT. The result in the CQE is the number of operations tried, or a negative
 * errno. The other fields of the SQE are 0.
 */
struct twheel_uring_submit {
	__u64	ops;
	__u32	nr;
	__u16	op_size;
	__u16	flags;
};

/* struct twheel_cancel_all, flags */
#define TWHEEL_CANCEL_COOKIE	(1U << 0)	/* only timeouts with this cookie */

/**
 * struct twheel_cancel_all - argument of TWHEEL_IOC_CANCEL_ALL
 * @cookie: with TWHEEL_CANCEL_COOKIE: the cookie of the timeouts to cancel; otherwise 0
 * @flags: TWHEEL_CANCEL_*
 * @pending: out: number of timeouts that were pending and will not fire
 * @withdrawn: out: number of timeouts whose event was unread and will not be read
 * @reserved0: 0
 * @reserved: 0
 *
 * Timeouts that are armed meanwhile may or may not be cancelled. Idle cells also end, but
 * neither @pending nor @withdrawn counts them.
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
 * struct twheel_list_entry - one timeout in the output of TWHEEL_IOC_LIST
 * @id: the timeout
 * @cookie: the cookie of the last ARM or MOD
 * @remaining_ns: time left until the deadline, at least 1; 0: the event is unread; ~0: an idle cell
 * @interval_ns: from one deadline to the next; 0: one-shot
 * @repeat: number of deadlines not read yet; 0: no end, or no interval
 * @slack_us: the slack in microseconds; the slack of the context if ARM or MOD named none
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
 * @nr: capacity of the array, at least 1
 * @done: out: number of entries written; 0: the end. It can be less than @nr before the end. EFAULT
 *	if the first entry cannot be written
 * @next: position of the list: 0 for the first call, then as the previous call returned it, even
 *	if that failed. The low half of an id is the position of its timeout
 * @flags: 0
 * @entry_size: sizeof(struct twheel_list_entry)
 * @reserved0: 0
 * @reserved: 0
 *
 * The order is unspecified. A timeout that is live from the first call to the last is listed
 * once. A timeout that is armed or ends meanwhile may or may not be listed.
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

/* Buckets in powers of two: the last one begins at 2^38 ns, 4.6 minutes. */
#define TWHEEL_LATENESS		40

/**
 * struct twheel_stats - argument of TWHEEL_IOC_STATS
 * @armed: successful ARMs
 * @moved: successful MODs
 * @cancelled: timeouts that were cancelled while pending
 * @withdrawn: timeouts that were cancelled with their event unread
 * @ended: timeouts whose last event was read, and cells that ended idle
 * @fired: events of timeouts that fired
 * @looks: looks at the word of a cell at a time that the kernel had published
 * @kicks: looks at the word of a cell for a KICK
 * @dropped: events of cells that were withdrawn through the word
 * @unprocessed: events made by TWHEEL_IOC_STOP
 * @read: events read
 * @live: live timeouts: pending, with an unread event, or cells
 * @ready: number of unread events
 * @lateness: events by lateness. Bucket n counts events from 2^(n - 1) ns to less than 2^n ns
 *	after the deadline; bucket 0: on time; the last bucket: all later events
 * @reserved: 0
 *
 * armed == cancelled + withdrawn + ended + live. The counters of the wheel are in debugfs; it
 * may be shared with other contexts.
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
#define TWHEEL_IOC_OP		_IOWR(TWHEEL_IOC_MAGIC, 0x02, struct twheel_op)
#define TWHEEL_IOC_SUBMIT	_IOWR(TWHEEL_IOC_MAGIC, 0x03, struct twheel_submit)
#define TWHEEL_IOC_CANCEL_ALL	_IOWR(TWHEEL_IOC_MAGIC, 0x04, struct twheel_cancel_all)
#define TWHEEL_IOC_STOP		_IO(TWHEEL_IOC_MAGIC, 0x05)
#define TWHEEL_IOC_LIST		_IOWR(TWHEEL_IOC_MAGIC, 0x06, struct twheel_list)
#define TWHEEL_IOC_STATS	_IOR(TWHEEL_IOC_MAGIC, 0x07, struct twheel_stats)

/* A command of an io_uring, not an ioctl */
#define TWHEEL_URING_SUBMIT	_IOW(TWHEEL_IOC_MAGIC, 0x80, struct twheel_uring_submit)

#endif /* _UAPI_LINUX_TWHEEL_H */
