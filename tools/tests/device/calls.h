/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls by their names, for tables of tests.
 */
#ifndef TWHEEL_TESTS_CALLS_H
#define TWHEEL_TESTS_CALLS_H

#include "device.h"
#include "memory.h"

enum call {
	NO_CALL,
	ARM,
	ARM_REFUSED,		/* with invalid values */
	ARM_AT_BAD_ADDRESS,	/* the id cannot be written */
	MOD,
	MOD_TO_NOW,		/* until the event is there */
	CANCEL,
	GET,
	READ,
	READ_AT_BAD_ADDRESS,
};

static inline int arm_refused(int fd)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);

	op.reserved = 1;
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EINVAL);
	return try_arm(fd, ~0ULL, 0, 0, &op.id);
}

static inline int arm_at_bad_address(int fd)
{
	const struct twheel_op op = op_arm(HOUR, 0, 0);
	struct twheel_op *read_only = map_read_only(&op, sizeof(op));
	__u32 done;

	CHECK_EQ(try_submit(fd, read_only, 1, &done), -EFAULT);
	return device_ioctl(fd, TWHEEL_IOC_ARM, read_only);
}

/* Make a call, with @id if it is for one timeout. Returns its result, or -errno. */
static inline int make_call(int fd, enum call call, __u64 id)
{
	struct twheel_event event;
	int ret;

	switch (call) {
	case NO_CALL:
		break;
	case ARM:
		return try_arm(fd, HOUR, 0, 0, &id);
	case ARM_REFUSED:
		return arm_refused(fd);
	case ARM_AT_BAD_ADDRESS:
		return arm_at_bad_address(fd);
	case MOD:
		return mod(fd, id, HOUR, 0);
	case MOD_TO_NOW:
		ret = mod(fd, id, 0, 0);
		wait_ready(fd, 1);
		return ret;
	case CANCEL:
		return cancel(fd, id);
	case GET:
		return get(fd, id);
	case READ:
		return read_events(fd, &event, 1);
	case READ_AT_BAD_ADDRESS:
		return read_events(fd, map_unusable(), 1);
	}
	return 0;
}

#endif /* TWHEEL_TESTS_CALLS_H */
