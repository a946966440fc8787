// SPDX-License-Identifier: GPL-2.0
/*
 * Layout and numbers of the ABI, and the arguments that every command refuses.
 *
 * A refused operation has no effect. The tests check that along with the errno, by the
 * counts of INFO and by the timeout that the operation named.
 */
#include <assert.h>
#include <stddef.h>
#include <termios.h>

#include "device.h"
#include "memory.h"

static_assert(sizeof(struct twheel_op) == 56, "twheel_op");
static_assert(offsetof(struct twheel_op, opcode) == 0, "opcode");
static_assert(offsetof(struct twheel_op, flags) == 4, "flags");
static_assert(offsetof(struct twheel_op, id) == 8, "id");
static_assert(offsetof(struct twheel_op, expires_ns) == 16, "expires_ns");
static_assert(offsetof(struct twheel_op, interval_ns) == 24, "interval_ns");
static_assert(offsetof(struct twheel_op, cookie) == 32, "cookie");
static_assert(offsetof(struct twheel_op, repeat) == 40, "repeat");
static_assert(offsetof(struct twheel_op, slack_us) == 44, "slack_us");
static_assert(offsetof(struct twheel_op, result) == 48, "result");
static_assert(offsetof(struct twheel_op, reserved) == 52, "reserved");

static_assert(sizeof(struct twheel_event) == 48, "twheel_event");
static_assert(offsetof(struct twheel_event, id) == 0, "id");
static_assert(offsetof(struct twheel_event, cookie) == 8, "cookie");
static_assert(offsetof(struct twheel_event, expires_ns) == 16, "expires_ns");
static_assert(offsetof(struct twheel_event, fired_ns) == 24, "fired_ns");
static_assert(offsetof(struct twheel_event, count) == 32, "count");
static_assert(offsetof(struct twheel_event, flags) == 40, "flags");
static_assert(offsetof(struct twheel_event, reserved) == 44, "reserved");

static_assert(sizeof(struct twheel_info) == 128, "twheel_info");
static_assert(offsetof(struct twheel_info, opcodes) == 0, "opcodes");
static_assert(offsetof(struct twheel_info, op_flags) == 4, "op_flags");
static_assert(offsetof(struct twheel_info, tick_ns) == 8, "tick_ns");
static_assert(offsetof(struct twheel_info, clock) == 16, "clock");
static_assert(offsetof(struct twheel_info, slots) == 20, "slots");
static_assert(offsetof(struct twheel_info, levels) == 24, "levels");
static_assert(offsetof(struct twheel_info, max_timeouts) == 28, "max_timeouts");
static_assert(offsetof(struct twheel_info, live) == 32, "live");
static_assert(offsetof(struct twheel_info, ready) == 36, "ready");
static_assert(offsetof(struct twheel_info, flags) == 40, "flags");
static_assert(offsetof(struct twheel_info, slack_us) == 44, "slack_us");
static_assert(offsetof(struct twheel_info, setup_flags) == 48, "setup_flags");
static_assert(offsetof(struct twheel_info, cells) == 52, "cells");
static_assert(offsetof(struct twheel_info, user_timeouts) == 56, "user_timeouts");
static_assert(offsetof(struct twheel_info, max_user_timeouts) == 60, "max_user_timeouts");
static_assert(offsetof(struct twheel_info, wheel_bytes) == 64, "wheel_bytes");
static_assert(offsetof(struct twheel_info, max_wheel_bytes) == 72, "max_wheel_bytes");
static_assert(offsetof(struct twheel_info, refused) == 80, "refused");
static_assert(offsetof(struct twheel_info, user_refused) == 88, "user_refused");
static_assert(offsetof(struct twheel_info, all_refused) == 96, "all_refused");
static_assert(offsetof(struct twheel_info, wheel_refused) == 104, "wheel_refused");
static_assert(offsetof(struct twheel_info, reserved) == 112, "reserved");

static_assert(sizeof(struct twheel_submit) == 24, "twheel_submit");
static_assert(offsetof(struct twheel_submit, nr) == 8, "nr");
static_assert(offsetof(struct twheel_submit, done) == 12, "done");
static_assert(offsetof(struct twheel_submit, flags) == 16, "flags");
static_assert(offsetof(struct twheel_submit, op_size) == 20, "op_size");

/* The size of the command bytes of an SQE. */
static_assert(sizeof(struct twheel_uring_submit) == 16, "twheel_uring_submit");
static_assert(offsetof(struct twheel_uring_submit, ops) == 0, "ops");
static_assert(offsetof(struct twheel_uring_submit, nr) == 8, "nr");
static_assert(offsetof(struct twheel_uring_submit, op_size) == 12, "op_size");

static_assert(sizeof(struct twheel_setup) == 56, "twheel_setup");
static_assert(offsetof(struct twheel_setup, tick_ns) == 0, "tick_ns");
static_assert(offsetof(struct twheel_setup, clock) == 8, "clock");
static_assert(offsetof(struct twheel_setup, slots) == 12, "slots");
static_assert(offsetof(struct twheel_setup, levels) == 16, "levels");
static_assert(offsetof(struct twheel_setup, max_timeouts) == 20, "max_timeouts");
static_assert(offsetof(struct twheel_setup, flags) == 24, "flags");
static_assert(offsetof(struct twheel_setup, slack_us) == 28, "slack_us");
static_assert(offsetof(struct twheel_setup, reserved) == 32, "reserved");

static_assert(sizeof(struct twheel_cancel_all) == 40, "twheel_cancel_all");
static_assert(offsetof(struct twheel_cancel_all, cookie) == 0, "cookie");
static_assert(offsetof(struct twheel_cancel_all, flags) == 8, "flags");
static_assert(offsetof(struct twheel_cancel_all, pending) == 12, "pending");
static_assert(offsetof(struct twheel_cancel_all, withdrawn) == 16, "withdrawn");
static_assert(offsetof(struct twheel_cancel_all, reserved0) == 20, "reserved0");
static_assert(offsetof(struct twheel_cancel_all, reserved) == 24, "reserved");

static_assert(sizeof(struct twheel_list_entry) == 48, "twheel_list_entry");
static_assert(offsetof(struct twheel_list_entry, id) == 0, "id");
static_assert(offsetof(struct twheel_list_entry, cookie) == 8, "cookie");
static_assert(offsetof(struct twheel_list_entry, remaining_ns) == 16, "remaining_ns");
static_assert(offsetof(struct twheel_list_entry, interval_ns) == 24, "interval_ns");
static_assert(offsetof(struct twheel_list_entry, repeat) == 32, "repeat");
static_assert(offsetof(struct twheel_list_entry, slack_us) == 36, "slack_us");
static_assert(offsetof(struct twheel_list_entry, state) == 40, "state");
static_assert(offsetof(struct twheel_list_entry, flags) == 44, "flags");

static_assert(sizeof(struct twheel_list) == 48, "twheel_list");
static_assert(offsetof(struct twheel_list, entries) == 0, "entries");
static_assert(offsetof(struct twheel_list, nr) == 8, "nr");
static_assert(offsetof(struct twheel_list, done) == 12, "done");
static_assert(offsetof(struct twheel_list, next) == 16, "next");
static_assert(offsetof(struct twheel_list, flags) == 20, "flags");
static_assert(offsetof(struct twheel_list, entry_size) == 24, "entry_size");
static_assert(offsetof(struct twheel_list, reserved0) == 28, "reserved0");
static_assert(offsetof(struct twheel_list, reserved) == 32, "reserved");

static_assert(sizeof(struct twheel_stats) == 464, "twheel_stats");
static_assert(offsetof(struct twheel_stats, armed) == 0, "armed");
static_assert(offsetof(struct twheel_stats, moved) == 8, "moved");
static_assert(offsetof(struct twheel_stats, cancelled) == 16, "cancelled");
static_assert(offsetof(struct twheel_stats, withdrawn) == 24, "withdrawn");
static_assert(offsetof(struct twheel_stats, ended) == 32, "ended");
static_assert(offsetof(struct twheel_stats, fired) == 40, "fired");
static_assert(offsetof(struct twheel_stats, looks) == 48, "looks");
static_assert(offsetof(struct twheel_stats, kicks) == 56, "kicks");
static_assert(offsetof(struct twheel_stats, dropped) == 64, "dropped");
static_assert(offsetof(struct twheel_stats, unprocessed) == 72, "unprocessed");
static_assert(offsetof(struct twheel_stats, read) == 80, "read");
static_assert(offsetof(struct twheel_stats, live) == 88, "live");
static_assert(offsetof(struct twheel_stats, ready) == 92, "ready");
static_assert(offsetof(struct twheel_stats, lateness) == 96, "lateness");
static_assert(offsetof(struct twheel_stats, reserved) == 416, "reserved");

/* A cell is accessed by single 64-bit operations, even in 32-bit programs. */
static_assert(sizeof(struct twheel_cell) == 16, "twheel_cell");
static_assert(__alignof__(struct twheel_cell) == 8, "twheel_cell");
static_assert(offsetof(struct twheel_cell, word) == 0, "word");
static_assert(offsetof(struct twheel_cell, look) == 8, "look");

TEST(numbers_are_the_published_ones)
{
	CHECK_EQ(TWHEEL_IOC_INFO, 0x8080f700);
	CHECK_EQ(TWHEEL_IOC_SETUP, 0x4038f701);
	CHECK_EQ(TWHEEL_IOC_ARM, 0xc038f702);
	CHECK_EQ(TWHEEL_IOC_MOD, 0xc038f703);
	CHECK_EQ(TWHEEL_IOC_CANCEL, 0xc038f704);
	CHECK_EQ(TWHEEL_IOC_GET, 0xc038f705);
	CHECK_EQ(TWHEEL_IOC_SUBMIT, 0xc018f706);
	CHECK_EQ(TWHEEL_IOC_CANCEL_ALL, 0xc028f707);
	CHECK_EQ(TWHEEL_IOC_STOP, 0xf708);
	CHECK_EQ(TWHEEL_IOC_LIST, 0xc030f709);
	CHECK_EQ(TWHEEL_IOC_STATS, 0x81d0f70a);
	CHECK_EQ(TWHEEL_IOC_KICK, 0xc038f70c);
	CHECK_EQ(TWHEEL_OP_ARM, 1);
	CHECK_EQ(TWHEEL_OP_MOD, 2);
	CHECK_EQ(TWHEEL_OP_CANCEL, 3);
	CHECK_EQ(TWHEEL_OP_GET, 4);
	CHECK_EQ(TWHEEL_OP_KICK, 5);
	CHECK_EQ(TWHEEL_F_ABS, 1);
	CHECK_EQ(TWHEEL_F_FIXED_DELAY, 2);
	CHECK_EQ(TWHEEL_F_CELL, 4);
	CHECK_EQ(TWHEEL_F_EXACT, 8);
	CHECK_EQ(TWHEEL_WITHDRAWN, 1);
	CHECK_EQ(TWHEEL_IDLE, 2);
	CHECK(TWHEEL_CELL_IDLE == 0xffffffffffffffff);
	CHECK(TWHEEL_CELL_FIRED == 0xfffffffffffffffe);
	CHECK_EQ(TWHEEL_EV_LAST, 1);
	CHECK_EQ(TWHEEL_EV_UNPROCESSED, 2);
	CHECK_EQ(TWHEEL_INFO_PRIVATE, 1);
	CHECK_EQ(TWHEEL_INFO_STOPPED, 2);
	CHECK_EQ(TWHEEL_SETUP_CLOCK, 1);
	CHECK_EQ(TWHEEL_CANCEL_COOKIE, 1);
	CHECK_EQ(TWHEEL_STATE_PENDING, 1);
	CHECK_EQ(TWHEEL_STATE_READY, 2);
	CHECK_EQ(TWHEEL_STATE_IDLE, 3);
	CHECK_EQ(TWHEEL_LATENESS, 40);
}

/* Commands that take a struct twheel_op. */
static const struct command {
	const char *name;
	unsigned long ioctl;
	__u32 opcode;
	int changes;
} commands[] = {
	{ "arm", TWHEEL_IOC_ARM, TWHEEL_OP_ARM, 1 },
	{ "mod", TWHEEL_IOC_MOD, TWHEEL_OP_MOD, 1 },
	{ "cancel", TWHEEL_IOC_CANCEL, TWHEEL_OP_CANCEL, 1 },
	{ "get", TWHEEL_IOC_GET, TWHEEL_OP_GET, 0 },
	{ "kick", TWHEEL_IOC_KICK, TWHEEL_OP_KICK, 1 },
};

/* A valid operation on the live timeout @id; ARM takes none. */
static struct twheel_op valid_op(__u32 opcode, __u64 id)
{
	if (opcode == TWHEEL_OP_ARM)
		return op_arm(HOUR, 0, 1);
	if (opcode == TWHEEL_OP_MOD)
		return op_mod(id, HOUR, 0, 1);
	return (struct twheel_op) { .opcode = opcode, .id = id };
}

/* A timeout on which a valid operation has an effect. */
static __u64 timeout_for(const struct command *command, int fd)
{
	if (command->opcode != TWHEEL_OP_KICK)
		return arm(fd, HOUR, 7);
	if (!(info(fd).op_flags & TWHEEL_F_CELL))
		ktap_skip("no cells");
	return arm_op(fd, op_arm(HOUR, TWHEEL_F_CELL, 7));
}

/* Commands */

TEST(command_unknown_is_enotty)
{
	struct twheel_info buffer;
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, _IO(TWHEEL_IOC_MAGIC, 0x0b), NULL), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IO(TWHEEL_IOC_MAGIC, 0x0d), NULL), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IO(TWHEEL_IOC_MAGIC, 0x7f), NULL), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0xff, struct twheel_info), &buffer),
		 -ENOTTY);
	CHECK_EQ(device_ioctl(fd, 0, &buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, ~0U, &buffer), -ENOTTY);
}

TEST(command_of_another_driver_is_enotty)
{
	struct termios termios;
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, TCGETS, &termios), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOR(TWHEEL_IOC_MAGIC + 1, 0x00, struct twheel_info), &termios),
		 -ENOTTY);
}

TEST(command_with_another_size_is_enotty)
{
	char buffer[256] = { 0 };
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, _IOR(TWHEEL_IOC_MAGIC, 0x00, char[80]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x02, char[48]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x02, char[64]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x06, char[32]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOW(TWHEEL_IOC_MAGIC, 0x01, char[64]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x07, char[32]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOW(TWHEEL_IOC_MAGIC, 0x08, char[8]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x09, char[56]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOR(TWHEEL_IOC_MAGIC, 0x0a, char[128]), buffer), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IOWR(TWHEEL_IOC_MAGIC, 0x0c, char[8]), buffer), -ENOTTY);
}

TEST(command_with_another_direction_is_enotty)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, _IOW(TWHEEL_IOC_MAGIC, 0x02, struct twheel_op), &op), -ENOTTY);
	CHECK_EQ(device_ioctl(fd, _IO(TWHEEL_IOC_MAGIC, 0x02), &op), -ENOTTY);
	CHECK_EQ(info(fd).live, 0);
}

/* Access mode of the descriptor */

TEST(change_on_read_only_descriptor_is_ebadf)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	__u32 done;
	int fd = device_open(O_RDONLY);

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		struct twheel_op single = valid_op(commands[i].opcode, 1);

		if (commands[i].changes)
			CHECK_ROW(operate(fd, commands[i].ioctl, &single), -EBADF,
				  commands[i].name);
	}
	CHECK_EQ(try_submit(fd, &op, 1, &done), -EBADF);
	CHECK_EQ(info(fd).live, 0);
}

TEST(get_on_read_only_descriptor_is_allowed)
{
	int fd = device_open(O_RDONLY);

	CHECK_EQ(get(fd, 1), -ENOENT);
	CHECK_EQ(info(fd).live, 0);
}

TEST(read_on_read_only_descriptor_is_allowed)
{
	check_no_event(device_open(O_RDONLY | O_NONBLOCK));
}

TEST(arm_on_write_only_descriptor_is_allowed)
{
	int fd = device_open(O_WRONLY);
	__u64 id = arm(fd, HOUR, 0);

	CHECK_EQ(info(fd).live, 1);
	CHECK_EQ(mod(fd, id, HOUR, 0), 0);
	CHECK_EQ(get(fd, id), 0);
	CHECK_EQ(cancel(fd, id), 0);
}

TEST(read_on_write_only_descriptor_is_ebadf)
{
	struct twheel_event event;
	int fd = device_open(O_WRONLY);

	arm_fired(fd, 0);
	CHECK_EQ(read_events(fd, &event, 1), -EBADF);
	CHECK_EQ(info(fd).ready, 1);
}

TEST(write_is_einval)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(write(fd, &op, sizeof(op)), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(info(fd).live, 0);
}

/* INFO */

TEST(info_tells_a_usable_geometry)
{
	struct twheel_info i = info(device_open(O_RDWR));

	CHECK_EQ(i.clock, CLOCK_MONOTONIC);
	CHECK(i.tick_ns > 0);
	CHECK(i.slots >= 2 && i.slots <= 65536);
	CHECK_EQ(i.slots & (i.slots - 1), 0);
	CHECK(i.levels >= 1 && i.levels <= 12);
	CHECK(i.max_timeouts > 0);
	CHECK_EQ(i.live, 0);
	CHECK_EQ(i.ready, 0);
}

/* INFO reports exactly the known bits, so that a program can rely on a bit being absent. */
TEST(info_tells_what_is_known)
{
	struct twheel_info i = info(device_open(O_RDWR));

	CHECK_EQ(i.opcodes | 1 << TWHEEL_OP_KICK,
		 1 << TWHEEL_OP_ARM | 1 << TWHEEL_OP_MOD | 1 << TWHEEL_OP_CANCEL |
		 1 << TWHEEL_OP_GET | 1 << TWHEEL_OP_KICK);
	CHECK_EQ(i.op_flags | TWHEEL_F_CELL,
		 TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL | TWHEEL_F_EXACT);
	/* Without cells there is neither the flag nor KICK. */
	CHECK_EQ(!(i.opcodes & 1 << TWHEEL_OP_KICK), !(i.op_flags & TWHEEL_F_CELL));
	CHECK_EQ(i.setup_flags, TWHEEL_SETUP_CLOCK);
	CHECK_EQ(i.slack_us, 0);
	CHECK_EQ(i.flags, 0);
}

/* An operation with a flag succeeds if INFO reports the flag, and is refused otherwise. */
static void check_op_flag(int fd, __u32 flag, int is_known)
{
	struct twheel_op op = op_arm(HOUR, flag, 0);
	int ret;

	if (flag == TWHEEL_F_FIXED_DELAY)
		op.interval_ns = HOUR;
	ret = operate(fd, TWHEEL_IOC_ARM, &op);
	CHECK_EQ(ret, is_known ? 0 : -EINVAL);
}

TEST(info_tells_the_flags_that_are_taken)
{
	int fd = device_open(O_RDWR);
	struct twheel_info i = info(fd);

	for (unsigned int bit = 0; bit < 32; bit++) {
		struct twheel_setup setup = { .flags = 1U << bit };
		int known = !!(i.setup_flags & 1U << bit);

		check_op_flag(fd, 1U << bit, !!(i.op_flags & 1U << bit));
		/* setup.clock is 0, which is CLOCK_REALTIME. */
		CHECK_EQ(try_setup(device_open(O_RDWR), setup), known ? 0 : -EINVAL);
	}
}

TEST(info_overwrites_reserved_with_zero)
{
	struct twheel_info i;
	int fd = device_open(O_RDWR);

	memset(&i, 0xff, sizeof(i));
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_INFO, &i), 0);
	for (size_t n = 0; n < ARRAY_SIZE(i.reserved); n++)
		CHECK_EQ(i.reserved[n], 0);
}

TEST(info_writes_no_byte_behind_its_structure)
{
	int fd = device_open(O_RDWR);
	struct twheel_info *i = map_before(sizeof(*i), PROT_NONE);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_INFO, i), 0);
}

/* Addresses */

TEST(info_at_bad_address_is_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	const struct twheel_info old = { 0 };
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_INFO, bad[i].address), -EFAULT, bad[i].name);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_INFO, map_read_only(&old, sizeof(old))), -EFAULT);
}

TEST(op_at_bad_address_is_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t c = 0; c < ARRAY_SIZE(commands); c++) {
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			CHECK_ROW(device_ioctl(fd, commands[c].ioctl, bad[i].address), -EFAULT,
				  commands[c].name);
	}
	CHECK_EQ(info(fd).live, 0);
}

TEST(op_that_ends_on_a_bad_page_is_efault)
{
	int fd = device_open(O_RDWR);

	for (size_t c = 0; c < ARRAY_SIZE(commands); c++) {
		struct twheel_op op = valid_op(commands[c].opcode, 1);
		void *cut = map_before(sizeof(op) - 4, PROT_NONE);

		memcpy(cut, &op, sizeof(op) - 4);
		CHECK_ROW(device_ioctl(fd, commands[c].ioctl, cut), -EFAULT, commands[c].name);
	}
	CHECK_EQ(info(fd).live, 0);
}

TEST(op_needs_no_alignment)
{
	char buffer[sizeof(struct twheel_op) + 1];
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	memcpy(buffer + 1, &op, sizeof(op));
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, buffer + 1), 0);
	memcpy(&op, buffer + 1, sizeof(op));
	CHECK_EQ(cancel(fd, op.id), 0);
}

/* The id would be lost, and the timeout could not be cancelled. */
TEST(arm_in_read_only_memory_arms_nothing)
{
	const struct twheel_op op = op_arm(0, 0, 0);
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, map_read_only(&op, sizeof(op))), -EFAULT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
}

/*
 * Carry out @op when only its first @writable bytes can be written; all of it can be read.
 * The call fails, or it leaves the bytes after them unchanged.
 */
static int operate_in_part(int fd, unsigned long command, struct twheel_op *op, size_t writable)
{
	char *cut = map_before(writable, PROT_READ | PROT_WRITE);
	int ret;

	memcpy(cut, op, sizeof(*op));
	protect_page(cut + writable, PROT_READ);
	ret = device_ioctl(fd, command, cut);
	memcpy(op, cut, sizeof(*op));
	return ret;
}

TEST(arm_writes_nothing_behind_the_id)
{
	struct twheel_op op = op_arm(HOUR, 0, 7);
	int fd = device_open(O_RDWR);

	CHECK_EQ(operate_in_part(fd, TWHEEL_IOC_ARM, &op, offsetof(struct twheel_op, expires_ns)),
		 0);
	CHECK_EQ(state_of(fd, op.id).cookie, 7);
	CHECK_EQ(info(fd).live, 1);
}

TEST(arm_without_room_for_the_id_arms_nothing)
{
	static const size_t writable[] = { 0, 4, 8, 12 };
	int fd = device_open(O_RDWR | O_NONBLOCK);

	for (size_t i = 0; i < ARRAY_SIZE(writable); i++) {
		struct twheel_op op = op_arm(0, 0, 0);

		CHECK_EQ(operate_in_part(fd, TWHEEL_IOC_ARM, &op, writable[i]), -EFAULT);
		CHECK_EQ(info(fd).live, 0);
	}
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
}

TEST(get_writes_nothing_behind_what_it_tells)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_get(arm(fd, HOUR, 7));

	CHECK_EQ(operate_in_part(fd, TWHEEL_IOC_GET, &op, offsetof(struct twheel_op, result)), 0);
	CHECK_EQ(op.cookie, 7);
	CHECK(op.expires_ns <= HOUR);
	CHECK_EQ(operate_in_part(fd, TWHEEL_IOC_GET, &op, offsetof(struct twheel_op, cookie)),
		 -EFAULT);
}

/* The outcome is the return value of the ioctl. */
TEST(mod_and_cancel_write_nothing)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 1);
	const struct twheel_op ops[] = { op_mod(id, HOUR, 0, 2), op_cancel(id) };

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_MOD, map_read_only(&ops[0], sizeof(ops[0]))),
		 TWHEEL_WITHDRAWN);
	check_no_event(fd);
	CHECK_EQ(state_of(fd, id).cookie, 2);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_MOD, map_read_only(&ops[0], sizeof(ops[0]))), 0);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL, map_read_only(&ops[1], sizeof(ops[1]))), 0);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL, map_read_only(&ops[1], sizeof(ops[1]))),
		 -ENOENT);
	CHECK_EQ(info(fd).live, 0);
}

/* Clear the fields that a successful operation writes, to compare the rest. */
static void clear_written(struct twheel_op *op)
{
	if (op->opcode == TWHEEL_OP_ARM)
		op->id = 0;
	if (op->opcode != TWHEEL_OP_GET)
		return;
	op->expires_ns = 0;
	op->interval_ns = 0;
	op->cookie = 0;
	op->repeat = 0;
}

static void check_unwritten(int fd, const struct command *command, struct twheel_op op, int ret)
{
	struct twheel_op out;

	op.result = -EIO;
	out = op;
	CHECK_ROW(device_ioctl(fd, command->ioctl, &out), ret, command->name);
	if (ret >= 0) {
		clear_written(&op);
		clear_written(&out);
	}
	CHECK_ROW(memcmp(&op, &out, sizeof(op)), 0, command->name);
}

TEST(kick_writes_nothing)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_kick(timeout_for(&commands[4], fd));

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_KICK, map_read_only(&op, sizeof(op))), 0);
	check_unwritten(fd, &commands[4], op, 0);
	op.id += 1ULL << 32;
	check_unwritten(fd, &commands[4], op, -ENOENT);
	op = op_kick(arm(fd, HOUR, 0));
	check_unwritten(fd, &commands[4], op, -EINVAL);
	op.opcode = TWHEEL_OP_GET;
	check_unwritten(fd, &commands[4], op, -EINVAL);
}

/* Fields of a single operation */

#define BY(name)	(1U << TWHEEL_OP_##name)

/* Bits that make a valid operation invalid, and the opcodes that refuse them. */
static const struct refused {
	const char *name;
	struct twheel_op bits;
	unsigned int by;
} refused[] = {
	{ "slack_us, lowest bit", { .slack_us = 1 }, BY(CANCEL) | BY(GET) | BY(KICK) },
	{ "slack_us, highest bit", { .slack_us = 1U << 31 }, BY(CANCEL) | BY(GET) | BY(KICK) },
	{ "reserved, lowest bit", { .reserved = 1 }, ~0U },
	{ "reserved, highest bit", { .reserved = 1U << 31 }, ~0U },
	{ "unknown flag", { .flags = 1U << 31 }, ~0U },
	{ "first unknown flag", { .flags = 1U << 4 }, ~0U },
	{ "known and unknown flag", { .flags = TWHEEL_F_ABS | 1U << 30 }, ~0U },
	{ "flag of another operation", { .flags = TWHEEL_F_ABS }, BY(CANCEL) | BY(GET) | BY(KICK) },
	{ "exact", { .flags = TWHEEL_F_EXACT }, BY(CANCEL) | BY(GET) | BY(KICK) },
	{ "exact with slack", { .flags = TWHEEL_F_EXACT, .slack_us = 1 }, ~0U },
	{ "exact with much slack", { .flags = TWHEEL_F_EXACT, .slack_us = 1U << 31 }, ~0U },
	{ "interval_ns, lowest bit", { .interval_ns = 1 }, BY(CANCEL) | BY(KICK) },
	{ "interval_ns, highest bit", { .interval_ns = 1ULL << 63 }, ~BY(GET) },
	{ "cell with an interval", { .flags = TWHEEL_F_CELL, .interval_ns = 1 }, ~0U },
	{ "cell with a repeat count", { .flags = TWHEEL_F_CELL, .repeat = 1 }, ~0U },
	{ "cell with fixed delay", { .flags = TWHEEL_F_CELL | TWHEEL_F_FIXED_DELAY }, ~0U },
	{ "cell, expires_ns INT64_MAX + 1",
	  { .flags = TWHEEL_F_CELL, .expires_ns = EXPIRES_MAX + 1 }, ~0U },
	{ "cell, expires_ns FIRED",
	  { .flags = TWHEEL_F_CELL, .expires_ns = TWHEEL_CELL_FIRED }, ~0U },
	{ "fixed delay without an interval", { .flags = TWHEEL_F_FIXED_DELAY }, ~0U },
	{ "repeat, lowest bit", { .repeat = 1 }, ~BY(GET) },
	{ "repeat, highest bit", { .repeat = 1U << 31 }, ~BY(GET) },
	{ "expires_ns, highest bit", { .expires_ns = EXPIRES_MAX + 1 }, ~BY(GET) },
	{ "expires_ns, all bits", { .expires_ns = ~0ULL }, ~BY(GET) },
	{ "expires_ns, lowest bit", { .expires_ns = 1 }, BY(CANCEL) | BY(KICK) },
	{ "cookie, lowest bit", { .cookie = 1 }, BY(CANCEL) | BY(KICK) },
	{ "cookie, highest bit", { .cookie = 1ULL << 63 }, BY(CANCEL) | BY(KICK) },
};

static void set_bits(struct twheel_op *op, const struct twheel_op *bits)
{
	op->flags |= bits->flags;
	op->expires_ns |= bits->expires_ns;
	op->interval_ns |= bits->interval_ns;
	op->cookie |= bits->cookie;
	op->repeat |= bits->repeat;
	op->slack_us |= bits->slack_us;
	op->reserved |= bits->reserved;
}

/* @command refuses each row, alone and as an entry of a SUBMIT. */
static void check_refused(const struct command *command)
{
	int fd = device_open(O_RDWR);
	__u64 id = timeout_for(command, fd);

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct twheel_op op = valid_op(command->opcode, id);
		struct twheel_op state = op_get(id);

		if (!(refused[i].by & 1U << command->opcode))
			continue;
		set_bits(&op, &refused[i].bits);
		CHECK_ROW(operate(fd, command->ioctl, &op), -EINVAL, refused[i].name);
		op = valid_op(command->opcode, id);
		set_bits(&op, &refused[i].bits);
		submit(fd, &op, 1);
		CHECK_ROW(op.result, -EINVAL, refused[i].name);

		CHECK_ROW(operate(fd, TWHEEL_IOC_GET, &state), 0, refused[i].name);
		CHECK_ROW(state.cookie, 7, refused[i].name);
		CHECK_ROW(info(fd).live, 1, refused[i].name);
	}
}

TEST(arm_with_a_bad_field_is_einval)
{
	check_refused(&commands[0]);
}

TEST(mod_with_a_bad_field_is_einval)
{
	check_refused(&commands[1]);
}

TEST(cancel_with_a_bad_field_is_einval)
{
	check_refused(&commands[2]);
}

TEST(get_with_a_bad_field_is_einval)
{
	check_refused(&commands[3]);
}

TEST(kick_with_a_bad_field_is_einval)
{
	check_refused(&commands[4]);
}

/* So a program can submit a returned structure again. */
TEST(arm_ignores_the_id_on_input)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);
	__u64 first;

	CHECK_EQ(operate(fd, TWHEEL_IOC_ARM, &op), 0);
	first = op.id;
	CHECK_EQ(operate(fd, TWHEEL_IOC_ARM, &op), 0);
	CHECK(op.id != first);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(get(fd, op.id), 0);
	CHECK_EQ(get(fd, first), 0);
	CHECK_EQ(info(fd).live, 3);
}

TEST(get_ignores_on_input_what_it_returns)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_get(arm(fd, HOUR, 7)), entry;

	op.expires_ns = ~0ULL;
	op.interval_ns = ~0ULL;
	op.cookie = ~0ULL;
	op.repeat = ~0U;
	op.result = -EIO;
	entry = op;
	CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
	CHECK(op.expires_ns <= HOUR);
	CHECK_EQ(op.interval_ns, 0);
	CHECK_EQ(op.cookie, 7);
	CHECK_EQ(op.repeat, 0);
	submit(fd, &entry, 1);
	CHECK_EQ(entry.result, 0);
	CHECK(entry.expires_ns <= HOUR);
	CHECK_EQ(entry.interval_ns, 0);
	CHECK_EQ(entry.cookie, 7);
	CHECK_EQ(entry.repeat, 0);
}

TEST(opcode_of_another_command_is_einval)
{
	static const __u32 opcodes[] = { 0, 1, 2, 3, 4, 5, 6, 0x100, 0x10000, ~0U };
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0);

	for (size_t c = 0; c < ARRAY_SIZE(commands); c++) {
		for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
			struct twheel_op op = valid_op(commands[c].opcode, id);

			if (opcodes[i] == op.opcode)
				continue;
			op.opcode = opcodes[i];
			CHECK_ROW(operate(fd, commands[c].ioctl, &op), -EINVAL, commands[c].name);
		}
	}
	CHECK_EQ(info(fd).live, 1);
}

/* Holds for every outcome. */
TEST(operation_writes_nothing_but_what_comes_out_of_it)
{
	/* CANCEL comes last, because it ends the timeout. */
	static const size_t order[] = { 0, 1, 3, 2 };
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0), unread = arm_fired(fd, 0);
	struct twheel_op op;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const struct command *command = &commands[order[i]];

		op = valid_op(command->opcode, id);
		op.reserved = 1;
		check_unwritten(fd, command, op, -EINVAL);
		op = valid_op(command->opcode, id);
		check_unwritten(fd, command, op, 0);
		if (command->opcode == TWHEEL_OP_ARM)
			continue;
		op.id += 1ULL << 32;
		check_unwritten(fd, command, op, -ENOENT);
	}
	check_unwritten(fd, &commands[1], op_mod(unread, 0, 0, 0), TWHEEL_WITHDRAWN);
	wait_ready(fd, 1);
	check_unwritten(fd, &commands[2], op_cancel(unread), TWHEEL_WITHDRAWN);
}

TEST(mod_that_fails_leaves_the_unread_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 7);

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct twheel_op op = op_mod(id, 0, 0, 8);

		if (!(refused[i].by & BY(MOD)))
			continue;
		set_bits(&op, &refused[i].bits);
		CHECK_ROW(operate(fd, TWHEEL_IOC_MOD, &op), -EINVAL, refused[i].name);
	}
	CHECK_EQ(read_event(fd).cookie, 7);
	check_no_event(fd);
}

TEST(cancel_that_fails_leaves_the_unread_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_op op = op_cancel(arm_fired(fd, 7));

	op.reserved = 1;
	CHECK_EQ(operate(fd, TWHEEL_IOC_CANCEL, &op), -EINVAL);
	CHECK_EQ(read_event(fd).cookie, 7);
}
