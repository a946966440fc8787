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

/*
 * Sizes and offsets of all members, in a single assertion for each structure. Programs that were
 * built with 0.1.0 have them, so they never change.
 */
#define SIZE(type, bytes)		(sizeof(struct twheel_##type) == (bytes))
#define AT(type, member, offset)	(offsetof(struct twheel_##type, member) == (offset))

static_assert(SIZE(op, 56) && AT(op, opcode, 0) && AT(op, flags, 4) && AT(op, id, 8) &&
	      AT(op, expires_ns, 16) && AT(op, interval_ns, 24) && AT(op, cookie, 32) &&
	      AT(op, repeat, 40) && AT(op, slack_us, 44) && AT(op, result, 48) &&
	      AT(op, reserved, 52), "twheel_op");
static_assert(SIZE(event, 48) && AT(event, id, 0) && AT(event, cookie, 8) &&
	      AT(event, expires_ns, 16) && AT(event, fired_ns, 24) && AT(event, count, 32) &&
	      AT(event, flags, 40) && AT(event, reserved, 44), "twheel_event");
static_assert(SIZE(info, 192) && AT(info, opcodes, 0) && AT(info, op_flags, 4) &&
	      AT(info, tick_ns, 8) && AT(info, clock, 16) && AT(info, slots, 20) &&
	      AT(info, levels, 24) && AT(info, max_timeouts, 28) && AT(info, live, 32) &&
	      AT(info, ready, 36) && AT(info, flags, 40) && AT(info, slack_us, 44) &&
	      AT(info, setup_flags, 48) && AT(info, cells, 52) && AT(info, user_timeouts, 56) &&
	      AT(info, max_user_timeouts, 60) && AT(info, wheel_bytes, 64) &&
	      AT(info, max_wheel_bytes, 72) && AT(info, refused, 80) &&
	      AT(info, user_refused, 88) && AT(info, all_refused, 96) &&
	      AT(info, wheel_refused, 104) && AT(info, reserved, 112), "twheel_info");
static_assert(SIZE(submit, 24) && AT(submit, ops, 0) && AT(submit, nr, 8) && AT(submit, done, 12) &&
	      AT(submit, flags, 16) && AT(submit, op_size, 20), "twheel_submit");
/* The size of the command bytes of an SQE. */
static_assert(SIZE(uring_submit, 16) && AT(uring_submit, ops, 0) && AT(uring_submit, nr, 8) &&
	      AT(uring_submit, op_size, 12) && AT(uring_submit, flags, 14), "twheel_uring_submit");
static_assert(SIZE(setup, 56) && AT(setup, tick_ns, 0) && AT(setup, clock, 8) &&
	      AT(setup, slots, 12) && AT(setup, levels, 16) && AT(setup, max_timeouts, 20) &&
	      AT(setup, flags, 24) && AT(setup, slack_us, 28) &&
	      AT(setup, reserved, 32), "twheel_setup");
static_assert(SIZE(cancel_all, 40) && AT(cancel_all, cookie, 0) && AT(cancel_all, flags, 8) &&
	      AT(cancel_all, pending, 12) && AT(cancel_all, withdrawn, 16) &&
	      AT(cancel_all, reserved0, 20) && AT(cancel_all, reserved, 24), "twheel_cancel_all");
static_assert(SIZE(list_entry, 48) && AT(list_entry, id, 0) && AT(list_entry, cookie, 8) &&
	      AT(list_entry, remaining_ns, 16) && AT(list_entry, interval_ns, 24) &&
	      AT(list_entry, repeat, 32) && AT(list_entry, slack_us, 36) &&
	      AT(list_entry, state, 40) && AT(list_entry, flags, 44), "twheel_list_entry");
static_assert(SIZE(list, 48) && AT(list, entries, 0) && AT(list, nr, 8) && AT(list, done, 12) &&
	      AT(list, next, 16) && AT(list, flags, 20) && AT(list, entry_size, 24) &&
	      AT(list, reserved0, 28) && AT(list, reserved, 32), "twheel_list");
static_assert(SIZE(stats, 464) && AT(stats, armed, 0) && AT(stats, moved, 8) &&
	      AT(stats, cancelled, 16) && AT(stats, withdrawn, 24) && AT(stats, ended, 32) &&
	      AT(stats, fired, 40) && AT(stats, looks, 48) && AT(stats, kicks, 56) &&
	      AT(stats, dropped, 64) && AT(stats, unprocessed, 72) && AT(stats, read, 80) &&
	      AT(stats, live, 88) && AT(stats, ready, 92) && AT(stats, lateness, 96) &&
	      AT(stats, reserved, 416), "twheel_stats");
/* A cell is accessed by single 64-bit operations, even in 32-bit programs. */
static_assert(SIZE(cell, 16) && __alignof__(struct twheel_cell) == 8 && AT(cell, word, 0) &&
	      AT(cell, look, 8), "twheel_cell");

/* The published numbers. */
static_assert(TWHEEL_IOC_INFO == 0x80c0f700 && TWHEEL_IOC_SETUP == 0x4038f701 &&
	      TWHEEL_IOC_OP == 0xc038f702 && TWHEEL_IOC_SUBMIT == 0xc018f703 &&
	      TWHEEL_IOC_CANCEL_ALL == 0xc028f704 && TWHEEL_IOC_STOP == 0xf705 &&
	      TWHEEL_IOC_LIST == 0xc030f706 && TWHEEL_IOC_STATS == 0x81d0f707 &&
	      TWHEEL_URING_SUBMIT == 0x4010f780, "ioctls and commands");
static_assert(TWHEEL_OP_ARM == 1 && TWHEEL_OP_MOD == 2 && TWHEEL_OP_CANCEL == 3 &&
	      TWHEEL_OP_GET == 4 && TWHEEL_OP_KICK == 5, "operations");
static_assert(TWHEEL_F_ABS == 1 && TWHEEL_F_FIXED_DELAY == 2 && TWHEEL_F_CELL == 4 &&
	      TWHEEL_F_EXACT == 8 && TWHEEL_SETUP_CLOCK == 1 && TWHEEL_CANCEL_COOKIE == 1, "flags");
static_assert(TWHEEL_WITHDRAWN == 1 && TWHEEL_IDLE == 2 &&
	      TWHEEL_CELL_IDLE == 0xffffffffffffffff &&
	      TWHEEL_CELL_FIRED == 0xfffffffffffffffe, "outcomes and words");
static_assert(TWHEEL_EV_LAST == 1 && TWHEEL_EV_UNPROCESSED == 2 && TWHEEL_INFO_PRIVATE == 1 &&
	      TWHEEL_INFO_STOPPED == 2 && TWHEEL_INFO_URING == 4 &&
	      TWHEEL_STATE_PENDING == 1 && TWHEEL_STATE_READY == 2 && TWHEEL_STATE_IDLE == 3 &&
	      TWHEEL_LATENESS == 40, "events, INFO, LIST and STATS");

/* A valid operation on the live timeout @id; ARM takes none. */
static struct twheel_op valid_op(__u32 opcode, __u64 id)
{
	if (opcode == TWHEEL_OP_ARM)
		return op_arm(HOUR, 0, 1);
	if (opcode == TWHEEL_OP_MOD)
		return op_mod(id, HOUR, 0, 1);
	return (struct twheel_op) { .opcode = opcode, .id = id };
}

/* Commands */

#define COMMAND(macro, number, ...)	macro(TWHEEL_IOC_MAGIC, number, ##__VA_ARGS__)

TEST(other_command_is_enotty)
{
	static const unsigned int others[] = {
		/* unknown, or of another driver */
		COMMAND(_IO, 0x08), COMMAND(_IO, 0x0d), COMMAND(_IO, 0x7f),
		COMMAND(_IOWR, 0xff, struct twheel_info), 0, ~0U,
		TCGETS, _IOR(TWHEEL_IOC_MAGIC + 1, 0x00, struct twheel_info),
		/* another size */
		COMMAND(_IOR, 0x00, char[128]), COMMAND(_IOW, 0x01, char[64]),
		COMMAND(_IOWR, 0x02, char[48]), COMMAND(_IOWR, 0x02, char[64]),
		COMMAND(_IOWR, 0x03, char[32]), COMMAND(_IOWR, 0x04, char[32]),
		COMMAND(_IOW, 0x05, char[8]), COMMAND(_IOWR, 0x06, char[56]),
		COMMAND(_IOR, 0x07, char[128]),
		/* another direction */
		COMMAND(_IOW, 0x02, struct twheel_op), COMMAND(_IO, 0x02),
	};
	union {
		struct twheel_op op;
		char space[256];
	} argument = { .op = op_arm(HOUR, 0, 0) };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		ktap_note("%#x", others[i]);
		CHECK_EQ(device_ioctl(fd, others[i], &argument), -ENOTTY);
	}
	CHECK_EQ(info(fd).live, 0);
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

/* INFO reports exactly the known bits, so that a program can rely on a bit being absent. */
TEST(info_tells_what_is_known)
{
	struct twheel_info *i = map_before(sizeof(*i), PROT_NONE);

	memset(i, 0xff, sizeof(*i));
	CHECK_EQ(device_ioctl(device_open(O_RDWR), TWHEEL_IOC_INFO, i), 0);
	CHECK_EQ(i->opcodes | 1 << TWHEEL_OP_KICK,
		 1 << TWHEEL_OP_ARM | 1 << TWHEEL_OP_MOD | 1 << TWHEEL_OP_CANCEL |
		 1 << TWHEEL_OP_GET | 1 << TWHEEL_OP_KICK);
	CHECK_EQ(i->op_flags | TWHEEL_F_CELL,
		 TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL | TWHEEL_F_EXACT);
	/* Without cells there is neither the flag nor KICK. */
	CHECK_EQ(!(i->opcodes & 1 << TWHEEL_OP_KICK), !(i->op_flags & TWHEEL_F_CELL));
	CHECK_EQ(i->setup_flags, TWHEEL_SETUP_CLOCK);
	CHECK_EQ(i->clock, CLOCK_MONOTONIC);
	CHECK(i->tick_ns > 0);
	CHECK(i->slots >= 2 && i->slots <= 65536);
	CHECK_EQ(i->slots & (i->slots - 1), 0);
	CHECK(i->levels >= 1 && i->levels <= 12);
	CHECK(i->max_timeouts > 0);
	CHECK_EQ(i->live + i->ready + i->slack_us, 0);
	CHECK_EQ(i->flags & ~TWHEEL_INFO_URING, 0);
	for (size_t n = 0; n < ARRAY_SIZE(i->reserved); n++)
		CHECK_EQ(i->reserved[n], 0);
}

/* Room for results */

/*
 * Carry out @op when only its first @writable bytes can be written; all of it can be read.
 * The call fails, or it leaves the bytes after them unchanged.
 */
static int operate_in_part(int fd, struct twheel_op *op, size_t writable)
{
	char *cut = map_before(writable, PROT_READ | PROT_WRITE);
	int ret;

	memcpy(cut, op, sizeof(*op));
	protect_page(cut + writable, PROT_READ);
	ret = device_ioctl(fd, TWHEEL_IOC_OP, cut);
	memcpy(op, cut, sizeof(*op));
	return ret;
}

#define BEFORE(member)	offsetof(struct twheel_op, member)

/* Without room for its results, an operation fails and changes nothing. */
static const struct room {
	const char *name;
	__u32 opcode;
	size_t writable;
	int ret;		/* withdrawn: the timeout has fired */
} rooms[] = {
	{ "ARM, none", TWHEEL_OP_ARM, 0, -EFAULT },
	{ "ARM, half before the id", TWHEEL_OP_ARM, 4, -EFAULT },
	{ "ARM, no id", TWHEEL_OP_ARM, BEFORE(id), -EFAULT },
	{ "ARM, half of the id", TWHEEL_OP_ARM, BEFORE(id) + 4, -EFAULT },
	{ "ARM, the id", TWHEEL_OP_ARM, BEFORE(expires_ns), 0 },
	{ "MOD, none", TWHEEL_OP_MOD, 0, 0 },
	{ "MOD of an event, none", TWHEEL_OP_MOD, 0, TWHEEL_WITHDRAWN },
	{ "CANCEL, none", TWHEEL_OP_CANCEL, 0, 0 },
	{ "CANCEL of an event, none", TWHEEL_OP_CANCEL, 0, TWHEEL_WITHDRAWN },
	{ "GET, no cookie", TWHEEL_OP_GET, BEFORE(cookie), -EFAULT },
	{ "GET, all but the result", TWHEEL_OP_GET, BEFORE(result), 0 },
};

TEST(operation_needs_room_only_for_its_results)
{
	for_each_row(room, rooms) {
		__u32 opcode = room->opcode;
		int fd = device_open(O_RDWR | O_NONBLOCK), arms = opcode == TWHEEL_OP_ARM;
		__u64 id = room->ret == TWHEEL_WITHDRAWN ? arm_fired(fd, 7) : arm(fd, HOUR, 7);
		struct twheel_op op = valid_op(opcode, id);

		if (arms && room->ret)
			op.expires_ns = 0;
		CHECK_EQ(operate_in_part(fd, &op, room->writable), room->ret);
		CHECK_EQ(info(fd).live, 1 + (arms && !room->ret) - (opcode == TWHEEL_OP_CANCEL));
		if (opcode != TWHEEL_OP_CANCEL && !room->ret)
			CHECK_EQ(get_state(fd, op.id).cookie, opcode == TWHEEL_OP_GET ? 7 : 1);
		if (opcode == TWHEEL_OP_GET && !room->ret)
			CHECK(op.cookie == 7 && op.expires_ns <= HOUR);
		sleep_ns(20 * NSEC_PER_MSEC);
		check_no_event(fd);
	}
}

/* Arguments of all commands */

/* A command, and an argument that it takes. The id of an operation is set before the call. */
struct command {
	const char *name;
	unsigned int number;		/* of the ioctl */
	size_t size;			/* of the argument */
	const void *valid, *zero;	/* the argument, and bits that must be 0 in it */
	bool changes, writes;		/* the context; the argument */
};

/* A file that is ready for the command: with a timeout, whose id is then in the argument. */
static int open_for(const struct command *command, void *argument)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_op *op = argument;

	memcpy(argument, command->valid, command->size);
	if (command->number == TWHEEL_IOC_SETUP)
		return fd;
	if (command->number != TWHEEL_IOC_OP)
		arm(fd, HOUR, 7);
	else if (op->opcode == TWHEEL_OP_KICK)
		op->id = arm_op(fd, op_arm(HOUR, TWHEEL_F_CELL, 7));
	else
		op->id = arm(fd, HOUR, 7);
	return fd;
}

static void check_each_command(void (*check)(const struct command *command))
{
	const struct twheel_op arm = op_arm(HOUR, 0, 1), mod = op_mod(0, HOUR, 0, 1);
	const struct twheel_op cancel = op_cancel(0), get = op_get(0), kick = op_kick(0);
	const struct twheel_op not_of_times = {
		.flags = ~(TWHEEL_F_ABS | TWHEEL_F_CELL | TWHEEL_F_EXACT), .repeat = ~0U,
		.expires_ns = 1ULL << 63, .interval_ns = 1ULL << 63, .reserved = ~0U,
	};
	const struct twheel_op not_of_get = { .flags = ~0U, .slack_us = ~0U, .reserved = ~0U };
	const struct twheel_op not_of_id = {
		.flags = ~0U, .slack_us = ~0U, .repeat = ~0U, .reserved = ~0U,
		.expires_ns = ~0ULL, .interval_ns = ~0ULL, .cookie = ~0ULL,
	};
	const struct twheel_setup setup = { 0 }, not_of_setup = {
		.flags = ~TWHEEL_SETUP_CLOCK, .clock = ~0U, .reserved = { ~0ULL, ~0ULL, ~0ULL },
	};
	struct twheel_op ops[] = { arm };
	/* A size with another bit is wrong. Fields for results may have any value. */
	const struct twheel_submit none = { .op_size = sizeof(arm), .done = ~0U }, submit = {
		.ops = (uintptr_t)ops, .nr = 1, .op_size = sizeof(arm), .done = ~0U,
	}, not_of_submit = { .flags = ~0U, .op_size = ~0U };
	const struct twheel_cancel_all all = { .pending = ~0U, .withdrawn = ~0U }, not_of_all = {
		.cookie = ~0ULL, .flags = ~TWHEEL_CANCEL_COOKIE, .reserved0 = ~0U,
		.reserved = { ~0ULL, ~0ULL },
	};
	struct twheel_list_entry entry;
	const struct twheel_list list = {
		.entries = (uintptr_t)&entry, .nr = 1, .entry_size = sizeof(entry), .done = ~0U,
	}, not_of_list = {
		.nr = 1, .flags = ~0U, .entry_size = ~0U, .reserved0 = ~0U,
		.reserved = { ~0ULL, ~0ULL },
	};
	const struct twheel_info info_ = { 0 };
	const struct twheel_stats stats = { 0 };
	const struct command commands[] = {
		{ "ARM", TWHEEL_IOC_OP, sizeof(arm), &arm, &not_of_times, true, true },
		{ "MOD", TWHEEL_IOC_OP, sizeof(mod), &mod, &not_of_times, true, false },
		{ "CANCEL", TWHEEL_IOC_OP, sizeof(cancel), &cancel, &not_of_id, true, false },
		{ "GET", TWHEEL_IOC_OP, sizeof(get), &get, &not_of_get, false, true },
		{ "SETUP", TWHEEL_IOC_SETUP, sizeof(setup), &setup, &not_of_setup, true, false },
		{ "SUBMIT of none", TWHEEL_IOC_SUBMIT, sizeof(none), &none, &not_of_submit, true,
		  true },
		{ "SUBMIT", TWHEEL_IOC_SUBMIT, sizeof(submit), &submit, &not_of_submit, true,
		  true },
		{ "CANCEL_ALL", TWHEEL_IOC_CANCEL_ALL, sizeof(all), &all, &not_of_all, true, true },
		{ "LIST", TWHEEL_IOC_LIST, sizeof(list), &list, &not_of_list, false, true },
		{ "INFO", TWHEEL_IOC_INFO, sizeof(info_), &info_, &info_, false, true },
		{ "STATS", TWHEEL_IOC_STATS, sizeof(stats), &stats, &stats, false, true },
		{ "KICK", TWHEEL_IOC_OP, sizeof(kick), &kick, &not_of_id, true, false },
	};
	const bool cells = info(device_open(O_RDWR)).op_flags & TWHEEL_F_CELL;

	for_each_row(command, commands) {
		if (cells || command->valid != &kick)
			check(command);
	}
}

/* @argument is refused, as an operation also in a SUBMIT. */
static void check_einval(int fd, const struct command *command, void *argument)
{
	CHECK_EQ(device_ioctl(fd, command->number, argument), -EINVAL);
	if (command->number == TWHEEL_IOC_OP) {
		struct twheel_op op = *(struct twheel_op *)argument;

		submit(fd, &op, 1);
		CHECK_EQ(op.result, -EINVAL);
	}
}

static void check_each_bit(const struct command *command)
{
	__u8 argument[512];
	const __u8 *zero = command->zero;
	int fd = open_for(command, argument);
	__u32 live = info(fd).live;

	for (size_t i = 0; i < 8 * command->size; i++) {
		if (!(zero[i / 8] & 1 << i % 8))
			continue;
		argument[i / 8] ^= 1 << i % 8;
		check_einval(fd, command, argument);
		argument[i / 8] ^= 1 << i % 8;
	}
	CHECK_EQ(info(fd).live, live);
	if (live)
		CHECK_EQ(only_entry(fd).cookie, 7);
	CHECK(device_ioctl(fd, command->number, argument) >= 0);
}

TEST(bit_that_must_be_0_is_einval)
{
	check_each_command(check_each_bit);
}

TEST(fields_that_do_not_go_together_are_einval)
{
	static const struct twheel_op rows[] = {
		{ .flags = TWHEEL_F_EXACT, .slack_us = 1 },
		{ .flags = TWHEEL_F_EXACT, .slack_us = 1U << 31 },
		{ .flags = TWHEEL_F_CELL, .interval_ns = 1 },
		{ .flags = TWHEEL_F_CELL, .repeat = 1 },
		{ .flags = TWHEEL_F_CELL | TWHEEL_F_FIXED_DELAY },
		{ .flags = TWHEEL_F_CELL, .expires_ns = EXPIRES_MAX + 1 },
		{ .flags = TWHEEL_F_CELL, .expires_ns = TWHEEL_CELL_FIRED },
		{ .expires_ns = TWHEEL_CELL_IDLE },
	};
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 7);

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct twheel_op op = rows[i / 2];

		op.opcode = i % 2 ? TWHEEL_OP_MOD : TWHEEL_OP_ARM;
		op.id = id;
		ktap_note("row %zu", i / 2);
		CHECK_EQ(operate(fd, &op), -EINVAL);
	}
	CHECK_EQ(only_entry(fd).cookie, 7);
}

static void check_each_address(const struct command *command)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	void *cut = map_before(command->size - 4, PROT_NONE);
	__u8 argument[512];
	int fd = open_for(command, argument);
	__u32 live = info(fd).live;

	memcpy(cut, argument, command->size - 4);
	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, command->number, bad[i].address), -EFAULT, bad[i].name);
	CHECK_EQ(device_ioctl(fd, command->number, cut), -EFAULT);
	CHECK_EQ(info(fd).live, live);
	CHECK_EQ(device_ioctl(fd, command->number, map_read_only(argument, command->size)),
		 command->writes ? -EFAULT : 0);
	CHECK(info(fd).live == live || !command->writes);
}

TEST(command_at_bad_address_is_efault)
{
	check_each_command(check_each_address);
}

/* The descriptor for reading is of another file, in which the timeout does not exist. */
static void check_for_reading(const struct command *command)
{
	__u8 argument[512];
	int fd = device_open(O_RDONLY | O_NONBLOCK);
	int ret = command->changes ? -EBADF : 0;

	open_for(command, argument);
	if (command->number == TWHEEL_IOC_OP && !command->changes)
		ret = -ENOENT;
	CHECK_EQ(device_ioctl(fd, command->number, argument), ret);
	CHECK_EQ(info(fd).live, 0);
	check_no_event(fd);
}

TEST(read_only_descriptor_changes_nothing)
{
	check_each_command(check_for_reading);
	CHECK_EQ(stop(device_open(O_RDONLY)), -EBADF);
}
