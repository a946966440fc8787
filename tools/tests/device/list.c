// SPDX-License-Identifier: GPL-2.0
/*
 * LIST while others arm and cancel, and under signals.
 */
#include <pthread.h>

#include "device.h"
#include "signals.h"

#define MS		NSEC_PER_MSEC

/* List at most @nr entries from *@next on; updates *@next. Returns their number. */
static __u32 list(int fd, struct twheel_list_entry *entries, __u32 nr, __u32 *next)
{
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = nr, .next = *next,
		.entry_size = sizeof(*entries),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK(list.done <= nr);
	CHECK_EQ(list.reserved0, 0);
	*next = list.next;
	return list.done;
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
