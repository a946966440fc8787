// SPDX-License-Identifier: GPL-2.0
/*
 * Calls for every timeout of a file: LIST, in pages of any size, and CANCEL_ALL.
 */
#include <pthread.h>

#include "device.h"
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

/* CANCEL_ALL */

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
