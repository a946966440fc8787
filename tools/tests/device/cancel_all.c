// SPDX-License-Identifier: GPL-2.0
/*
 * CANCEL_ALL: every timeout of a file, or those with a cookie, pending or fired.
 */
#include <pthread.h>

#include "device.h"
#include "memory.h"

static int try_cancel_all(int fd, struct twheel_cancel_all *all)
{
	return device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, all);
}

static void check_cancelled(struct twheel_cancel_all all, __u32 pending, __u32 withdrawn)
{
	CHECK_EQ(all.pending, pending);
	CHECK_EQ(all.withdrawn, withdrawn);
	CHECK_EQ(all.reserved0, 0);
}

/* Other files are left alone, and the file goes on. */
TEST(cancel_all_counts_pending_and_withdrawn)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, 103);
	int other = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(other, HOUR, 7), none;

	check_cancelled(cancel_all(fd), 0, 0);
	for (int i = 0; i < 5; i++) {
		__u64 pending = arm(fd, HOUR, 1), unread = arm_fired(fd, 2);

		arm_op(fd, op_periodic(HOUR, HOUR, 0, 0, 3));
		arm_many(fd, 100, 2 * HOUR, 0, 0, NULL);
		CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
		check_cancelled(cancel_all(fd), 102, 1);
		CHECK_EQ(info(fd).live, 0);
		CHECK_EQ(cancel(fd, pending), -ENOENT);
		CHECK_EQ(cancel(fd, unread), -ENOENT);
		check_no_event(fd);
	}
	check_cancelled(cancel_all(fd), 0, 0);
	CHECK_EQ(get(other, id), 0);
	CHECK_EQ(info(other).live, 1);
}

/* Requests that are refused */

/* The counts are ignored on input. */
static const struct request {
	const char *name;
	struct twheel_cancel_all all;
	int result;
} requests[] = {
	{ "cookie without the flag", { .cookie = 7 }, -EINVAL },
	{ "cookie without the flag, highest bit", { .cookie = 1ULL << 63 }, -EINVAL },
	{ "unknown flag", { .flags = 1U << 1 }, -EINVAL },
	{ "unknown flag, highest bit", { .flags = TWHEEL_CANCEL_COOKIE | 1U << 31 }, -EINVAL },
	{ "reserved0, lowest bit", { .reserved0 = 1 }, -EINVAL },
	{ "reserved0, highest bit", { .reserved0 = 1U << 31 }, -EINVAL },
	{ "reserved[0], lowest bit", { .reserved = { 1, 0 } }, -EINVAL },
	{ "reserved[1], highest bit", { .reserved = { 0, 1ULL << 63 } }, -EINVAL },
	{ "counts", { .pending = ~0U, .withdrawn = ~0U }, 0 },
};

TEST(cancel_all_looks_at_each_field)
{
	for_each_row(request, requests) {
		struct twheel_cancel_all all = request->all;
		int fd = device_open(O_RDWR);

		arm(fd, HOUR, 7);
		CHECK_EQ(try_cancel_all(fd, &all), request->result);
		CHECK_EQ(info(fd).live, !!request->result);
		if (!request->result)
			check_cancelled(all, 1, 0);
	}
}

TEST(cancel_all_at_bad_address_cancels_none)
{
	struct twheel_cancel_all all = { 0 };
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 7);
	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(try_cancel_all(fd, bad[i].address), -EFAULT, bad[i].name);
	CHECK_EQ(try_cancel_all(fd, map_read_only(&all, sizeof(all))), -EFAULT);
	CHECK_EQ(info(fd).live, 1);
	CHECK_EQ(try_cancel_all(device_open(O_RDONLY), &all), -EBADF);
}
