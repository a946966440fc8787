/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/twheel: timeouts by the million behind one file descriptor.
 *
 * Every open of the device is a context of its own: its timeouts, its queue of
 * events, its limits. A timeout is armed with an ioctl, which returns its id, and
 * ends in an event that is read() from the same descriptor, unless it is
 * cancelled before that. poll() reports EPOLLIN while an event is unread.
 *
 * All times are nanoseconds; a value above INT64_MAX is refused with EINVAL.
 * Nothing fires early: a deadline is rounded up to the next tick.
 *
 * The structures are the same for 32-bit and 64-bit programs.
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

/* struct twheel_op, flags */
#define TWHEEL_F_ABS		(1U << 0)	/* expires_ns is absolute */

/* struct twheel_op, result: a positive outcome of CANCEL and MOD */
#define TWHEEL_WITHDRAWN	1	/* it had fired; its event will not be read */

/**
 * struct twheel_op - one operation on a timeout
 * @opcode: one of TWHEEL_OP_*
 * @flags: TWHEEL_F_* for ARM and MOD; 0 for the others
 * @id: the timeout, in: MOD, CANCEL, GET; out: ARM
 * @expires_ns: ARM, MOD: the deadline, from now, or with TWHEEL_F_ABS on the
 *	clock of the context; at most INT64_MAX. GET, out: what remains, 0 when the
 *	event is waiting to be read
 * @interval_ns: 0
 * @cookie: ARM, MOD: comes back in the event; GET, out
 * @repeat: 0
 * @slack_us: 0
 * @result: out: 0, a positive outcome, or a negative errno
 * @reserved: 0
 *
 * What an operation does not take must be 0; what only comes out of it (id of ARM;
 * expires_ns, interval_ns, cookie and repeat of GET; result) is not looked at.
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

/**
 * struct twheel_event - one expiration, as read() returns it
 * @id: the timeout
 * @cookie: as given when it was armed
 * @expires_ns: the deadline, absolute. In a time namespace, one before the zero of
 *	the host's clock is reported as that zero
 * @fired_ns: when it was taken out of the wheel, same clock, never before
 *	@expires_ns
 * @count: expirations that the event stands for
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

/**
 * struct twheel_info - argument of TWHEEL_IOC_INFO
 * @features: bit n stands for TWHEEL_FEATURE n; none are defined yet
 * @tick_ns: length of a tick
 * @clock: CLOCK_MONOTONIC
 * @slots: slots per level
 * @levels: levels
 * @max_timeouts: most timeouts that this context may have live at once
 * @live: timeouts that are pending or have an unread event
 * @ready: unread events
 * @reserved: 0
 */
struct twheel_info {
	__u64	features;
	__u64	tick_ns;
	__u32	clock;
	__u32	slots;
	__u32	levels;
	__u32	max_timeouts;
	__u32	live;
	__u32	ready;
	__u64	reserved[6];
};

/**
 * struct twheel_submit - argument of TWHEEL_IOC_SUBMIT
 * @ops: address of an array of struct twheel_op
 * @nr: operations in it
 * @done: out: operations tried; each of those has its @result, unless the array
 *	was unmapped meanwhile. Fewer than @nr after a signal or at a bad address
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

#define TWHEEL_IOC_MAGIC	0xF7

#define TWHEEL_IOC_INFO		_IOR(TWHEEL_IOC_MAGIC, 0x00, struct twheel_info)
#define TWHEEL_IOC_ARM		_IOWR(TWHEEL_IOC_MAGIC, 0x02, struct twheel_op)
#define TWHEEL_IOC_MOD		_IOWR(TWHEEL_IOC_MAGIC, 0x03, struct twheel_op)
#define TWHEEL_IOC_CANCEL	_IOWR(TWHEEL_IOC_MAGIC, 0x04, struct twheel_op)
#define TWHEEL_IOC_GET		_IOWR(TWHEEL_IOC_MAGIC, 0x05, struct twheel_op)
#define TWHEEL_IOC_SUBMIT	_IOWR(TWHEEL_IOC_MAGIC, 0x06, struct twheel_submit)

#endif /* _UAPI_LINUX_TWHEEL_H */
