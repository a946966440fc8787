// SPDX-License-Identifier: GPL-2.0
/*
 * LIST: every live timeout is listed once, in pages of any size.
 */
#include <pthread.h>

#include "device.h"
#include "memory.h"
#include "signals.h"

#define MS		NSEC_PER_MSEC

static struct twheel_list list_into(struct twheel_list_entry *entries, __u32 nr, __u32 next)
{
	return (struct twheel_list) {
		.entries = (uintptr_t)entries,
		.nr = nr,
		.next = next,
		.entry_size = sizeof(*entries),
	};
}

/* List at most @nr entries from *@next on; updates *@next. Returns their number. */
static __u32 list(int fd, struct twheel_list_entry *entries, __u32 nr, __u32 *next)
{
	struct twheel_list list = list_into(entries, nr, *next);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK(list.done <= nr);
	CHECK_EQ(list.reserved0, 0);
	*next = list.next;
	return list.done;
}

TEST(list_does_not_tell_of_other_files)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 7);

	arm_many(other, 100, HOUR, 0, 1000, NULL);
	CHECK_EQ(only_entry(fd).id, id);
	CHECK_EQ(only_entry(fd).cookie, 7);
}

/* Pages */

#define NR		700

static void check_pages_of(int fd, __u32 size)
{
	struct twheel_list_entry entries[NR + 1];
	__u8 seen[NR] = { 0 };
	__u32 next = 0, got, found = 0;

	while ((got = list(fd, entries, size, &next))) {
		for (__u32 i = 0; i < got; i++) {
			CHECK(entries[i].cookie < NR);
			CHECK(entries[i].cookie % 3 != 0);
			CHECK_EQ(seen[entries[i].cookie]++, 0);
			CHECK_EQ(get(fd, entries[i].id), 0);
		}
		found += got;
	}
	CHECK_EQ(found, info(fd).live);
	CHECK_EQ(list(fd, entries, size, &next), 0);
}

TEST(list_finds_all_in_pages_of_any_size)
{
	static const __u32 sizes[] = { 1, 2, 7, 15, 16, 17, 41, 42, 43, 100, 466, 467, NR + 1 };
	__u64 ids[NR];
	int fd = device_open(O_RDWR);

	arm_many(fd, NR, HOUR, MS, 0, ids);
	for (int i = 0; i < NR; i += 3)
		CHECK_EQ(cancel(fd, ids[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		check_pages_of(fd, sizes[i]);
}

/* Requests that are refused */

/* The number of entries is ignored on input. */
TEST(list_looks_at_each_field)
{
	static const struct {
		const char *name;
		struct twheel_list list;	/* change to the request, by exclusive or */
		int result;
	} rows[] = {
		{ "done", { .done = ~0U }, 0 },
		{ "no room", { .nr = 1 }, -EINVAL },
		{ "no size", { .entry_size = sizeof(struct twheel_list_entry) }, -EINVAL },
		{ "entry_size, one more", { .entry_size = 1 }, -EINVAL },
		{ "entry_size, highest bit", { .entry_size = 1U << 31 }, -EINVAL },
		{ "flags, lowest bit", { .flags = 1 }, -EINVAL },
		{ "flags, highest bit", { .flags = 1U << 31 }, -EINVAL },
		{ "reserved0, lowest bit", { .reserved0 = 1 }, -EINVAL },
		{ "reserved0, highest bit", { .reserved0 = 1U << 31 }, -EINVAL },
		{ "reserved[0], lowest bit", { .reserved = { 1, 0 } }, -EINVAL },
		{ "reserved[1], highest bit", { .reserved = { 0, 1ULL << 63 } }, -EINVAL },
	};
	struct twheel_list_entry entry;
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 7);
	for_each_row(row, rows) {
		struct twheel_list list = list_into(&entry, 1, 0);
		const __u8 *change = (const __u8 *)&row->list;

		for (size_t i = 0; i < sizeof(list); i++)
			((__u8 *)&list)[i] ^= change[i];
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), row->result);
		if (!row->result)
			CHECK_EQ(list.done, 1);
	}
}

TEST(list_at_bad_address_is_efault)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	struct twheel_list_entry entry;
	struct twheel_list all = list_into(&entry, 1, 0);
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 7);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, map_read_only(&all, sizeof(all))), -EFAULT);
	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		all = list_into(bad[i].address, 1, 0);
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_LIST, bad[i].address), -EFAULT, bad[i].name);
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_LIST, &all), -EFAULT, bad[i].name);
	}
	CHECK_EQ(only_entry(fd).cookie, 7);
}

/* Concurrent operations */

struct churn {
	pthread_t thread;
	int fd;
	int stop;
};

static void *arm_and_cancel(void *arg)
{
	struct churn *churn = arg;
	__u64 ids[50];

	while (!PEEK(churn->stop)) {
		arm_many(churn->fd, 50, HOUR, 0, 1000000, ids);
		for (int i = 0; i < 50; i++)
			CHECK_EQ(cancel(churn->fd, ids[i]), 0);
	}
	return NULL;
}

/* A timeout that lives throughout is listed once, and no timeout is listed twice. */
TEST(list_amid_arms_and_cancels_finds_what_stays)
{
	struct twheel_list_entry entries[64];
	struct churn churn = { .fd = device_open(O_RDWR) };
	int rounds = 0;
	__u64 until;

	for (int i = 0; i < 300; i++) {
		arm(churn.fd, HOUR, i);
		if (i % 2)
			cancel(churn.fd, arm(churn.fd, HOUR, 2000000));
	}
	pthread_create(&churn.thread, NULL, arm_and_cancel, &churn);
	until = now_ns() + race_duration_ns(500);
	for (; rounds < 3 || now_ns() < until; rounds++) {
		__u8 seen[300] = { 0 };
		__u32 next = 0, nr;

		while ((nr = list(churn.fd, entries, 64, &next))) {
			for (__u32 i = 0; i < nr; i++) {
				CHECK(entries[i].cookie < 300 || entries[i].cookie >= 1000000);
				if (entries[i].cookie < 300)
					CHECK_EQ(seen[entries[i].cookie]++, 0);
			}
		}
		for (int i = 0; i < 300; i++)
			CHECK_EQ(seen[i], 1);
	}
	SET(churn.stop, 1);
	pthread_join(churn.thread, NULL);
}

/* Signals */

/*
 * Use many indices, of which only one of the last is live. Returns its id; its cookie is
 * unique.
 */
static __u64 sparse_context(int fd)
{
	__u32 nr = is_slow() ? 30000 : 300000;
	struct twheel_cancel_all all = { .flags = TWHEEL_CANCEL_COOKIE };
	struct twheel_op ops[500];
	__u64 id;

	for (__u32 i = 0; i < nr; i += ARRAY_SIZE(ops)) {
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_arm(HOUR, 0, 0);
		submit(fd, ops, ARRAY_SIZE(ops));
	}
	id = arm(fd, HOUR, 1);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending, nr);
	return id;
}

static void list_single_timeout(int fd, __u64 id)
{
	struct twheel_list_entry entries[4];
	__u32 next = 0;

	CHECK_EQ(list(fd, entries, ARRAY_SIZE(entries), &next), 1);
	CHECK_EQ(entries[0].id, id);
	CHECK_EQ(list(fd, entries, ARRAY_SIZE(entries), &next), 0);
}

/*
 * Signals come more often than a LIST takes: one that starts again at each signal would not
 * end.
 */
TEST(list_ends_under_signals)
{
	int fd = device_open(O_RDWR);
	__u64 id = sparse_context(fd), until;

	handle_signal(SIGALRM, 0);
	signal_every(1000);
	until = now_ns() + race_duration_ns(2000);
	while (now_ns() < until || PEEK(nr_signals) < 50)
		list_single_timeout(fd, id);
	signal_every(0);
	ktap_note("%d signals", nr_signals);
}

TEST(list_can_be_killed)
{
	int fd = device_open(O_RDWR);
	__u64 id = sparse_context(fd);
	pid_t pid = fork_child();

	if (!pid) {
		for (;;)
			list_single_timeout(fd, id);
	}
	sleep_ns(50 * MS);
	kill_child(pid);
	list_single_timeout(fd, id);
}
