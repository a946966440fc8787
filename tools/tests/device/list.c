// SPDX-License-Identifier: GPL-2.0
/*
 * LIST: every live timeout is listed once, in pages of any size.
 */
#include <pthread.h>

#include "cells.h"
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

/* Contents of entries */

TEST(list_of_none_is_empty)
{
	static const __u32 beyond[] = { 0, 1000000, ~0U };
	struct twheel_list_entry entry;
	int fd = device_open(O_RDONLY);
	__u32 next = 0;

	CHECK_EQ(list(fd, &entry, 1, &next), 0);
	fd = device_open(O_RDWR);
	for (size_t i = 0; i < ARRAY_SIZE(beyond); i++) {
		__u64 id = arm(fd, HOUR, 0);

		next = beyond[i];
		CHECK_EQ(list(fd, &entry, 1, &next), !beyond[i]);
		CHECK_EQ(cancel(fd, id), 0);
		next = 0;
		CHECK_EQ(list(fd, &entry, 1, &next), 0);
		CHECK_EQ(list(fd, &entry, 1, &next), 0);
	}
}

/* Check all of the only entry. The time that remains may have become less by a quarter. */
static void check_listed(int fd, struct twheel_list_entry expected)
{
	struct twheel_list_entry entry = only_entry(fd);

	CHECK(entry.remaining_ns <= expected.remaining_ns);
	CHECK(entry.remaining_ns >= expected.remaining_ns - expected.remaining_ns / 4);
	CHECK_EQ(entry.id, expected.id);
	CHECK_EQ(entry.cookie, expected.cookie);
	CHECK_EQ(entry.interval_ns, expected.interval_ns);
	CHECK_EQ(entry.repeat, expected.repeat);
	CHECK_EQ(entry.slack_us, expected.slack_us);
	CHECK_EQ(entry.state, expected.state);
	CHECK_EQ(entry.flags, expected.flags);
}

TEST(list_tells_all_of_a_timeout)
{
	struct twheel_op op = op_periodic(2 * HOUR, HOUR, 9, TWHEEL_F_FIXED_DELAY, 7);
	int fd = device_open(O_RDWR);
	struct twheel_list_entry entry = {
		.cookie = 7,
		.remaining_ns = 2 * HOUR,
		.interval_ns = HOUR,
		.repeat = 9,
		.slack_us = 12345,
		.state = TWHEEL_STATE_PENDING,
		.flags = TWHEEL_F_FIXED_DELAY,
	};

	op.slack_us = 12345;
	entry.id = arm_op(fd, op);
	check_listed(fd, entry);

	ktap_note("an absolute one-shot");
	fd = device_open(O_RDWR);
	entry = (struct twheel_list_entry) {
		.id = arm_at(fd, now_ns() + HOUR, ~0ULL),
		.cookie = ~0ULL,
		.remaining_ns = HOUR,
		.state = TWHEEL_STATE_PENDING,
	};
	check_listed(fd, entry);

	ktap_note("what was stopped");
	CHECK_EQ(stop(fd), 0);
	entry.state = TWHEEL_STATE_READY;
	entry.remaining_ns = 0;
	check_listed(fd, entry);
}

TEST(list_tells_of_an_unread_event)
{
	int fd = device_open(O_RDWR);
	struct twheel_list_entry entry = {
		.id = arm_fired(fd, 7), .cookie = 7, .state = TWHEEL_STATE_READY,
	};
	__u64 id;

	check_listed(fd, entry);
	read_event(fd);
	id = arm(fd, HOUR, 8);
	CHECK_EQ(only_entry(fd).id, id);
}

TEST(list_tells_the_state_of_a_cell)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 512);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 7);
	struct twheel_list_entry entry = {
		.id = id,
		.cookie = 7,
		.flags = TWHEEL_F_CELL,
		.state = TWHEEL_STATE_PENDING,
		.remaining_ns = HOUR,
	};
	struct twheel_list_entry idle = entry;

	idle.state = TWHEEL_STATE_IDLE;
	idle.remaining_ns = ~0ULL;
	check_listed(fd, entry);
	exchange(cells, id, now_ns() + 2 * HOUR);
	entry.remaining_ns = 2 * HOUR;
	check_listed(fd, entry);
	exchange(cells, id, TWHEEL_CELL_IDLE);
	check_listed(fd, idle);
	CHECK_EQ(only_entry(fd).remaining_ns, ~0ULL);
	cell_arm(fd, cells, id, 0);
	wait_ready(fd, 1);
	entry.remaining_ns = 0;
	entry.state = TWHEEL_STATE_READY;
	check_listed(fd, entry);
	exchange(cells, id, TWHEEL_CELL_IDLE);
	check_listed(fd, idle);
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

TEST(list_finds_the_last_of_100000)
{
	struct twheel_list_entry entries[16];
	__u32 nr = scaled(100000), next = 0;
	__u64 *ids = calloc(nr, sizeof(*ids));
	int fd = device_open(O_RDWR);
	struct twheel_op op;

	CHECK(ids);
	arm_many(fd, nr, HOUR, 0, 0, ids);
	for (__u32 i = 0; i < nr - 1; i++) {
		op = op_cancel(ids[i]);
		CHECK_EQ(operate(fd, TWHEEL_IOC_CANCEL, &op), 0);
	}
	CHECK_EQ(list(fd, entries, 16, &next), 1);
	CHECK_EQ(entries[0].id, ids[nr - 1]);
	CHECK_EQ(list(fd, entries, 16, &next), 0);
}

TEST(list_leaves_what_it_does_not_fill)
{
	struct twheel_list_entry entries[10], untouched;
	int fd = device_open(O_RDWR);
	__u32 next = 0;

	memset(entries, 0xa5, sizeof(entries));
	memset(&untouched, 0xa5, sizeof(untouched));
	arm_many(fd, 3, HOUR, 0, 0, NULL);
	CHECK_EQ(list(fd, entries, 10, &next), 3);
	for (int i = 3; i < 10; i++)
		CHECK_EQ(memcmp(&entries[i], &untouched, sizeof(untouched)), 0);
}

TEST(list_changes_nothing)
{
	int fd = device_open(O_RDWR);
	struct twheel_list_entry entries[10];
	__u64 id = arm(fd, HOUR, 1);
	__u32 next = 0;

	arm_fired(fd, 2);
	for (int i = 0; i < 10; i++, next = 0)
		CHECK_EQ(list(fd, entries, 10, &next), 2);
	CHECK_EQ(info(fd).live, 2);
	CHECK_EQ(read_event(fd).cookie, 2);
	CHECK_EQ(cancel(fd, id), 0);
}

TEST(done_is_ignored_on_input)
{
	struct twheel_list_entry entry;
	struct twheel_list all = list_into(&entry, 1, 0);
	int fd = device_open(O_RDWR);

	arm(fd, HOUR, 7);
	all.done = ~0U;
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &all), 0);
	CHECK_EQ(all.done, 1);
}

/* Requests that are refused */

TEST(list_with_a_bad_field_is_einval)
{
	static const struct {
		const char *name;
		struct twheel_list list;	/* change to the request, by exclusive or */
	} rows[] = {
		{ "no room", { .nr = 1 } },
		{ "entry_size, none", { .entry_size = sizeof(struct twheel_list_entry) } },
		{ "entry_size, one more", { .entry_size = 1 } },
		{ "entry_size, highest bit", { .entry_size = 1U << 31 } },
		{ "flags, lowest bit", { .flags = 1 } },
		{ "flags, highest bit", { .flags = 1U << 31 } },
		{ "reserved0, lowest bit", { .reserved0 = 1 } },
		{ "reserved0, highest bit", { .reserved0 = 1U << 31 } },
		{ "reserved[0], lowest bit", { .reserved = { 1, 0 } } },
		{ "reserved[1], highest bit", { .reserved = { 0, 1ULL << 63 } } },
	};
	struct twheel_list_entry entry;
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_list list = list_into(&entry, 1, 0);

		list.nr ^= rows[i].list.nr;
		list.entry_size ^= rows[i].list.entry_size;
		list.flags ^= rows[i].list.flags;
		list.reserved0 ^= rows[i].list.reserved0;
		list.reserved[0] ^= rows[i].list.reserved[0];
		list.reserved[1] ^= rows[i].list.reserved[1];
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_LIST, &list), -EINVAL, rows[i].name);
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

/* LIST can continue after the last entry that it has written. */
TEST(entries_up_to_a_bad_page_are_listed)
{
	const size_t sizes[] = { 1, 5, 16, 20, 33 }, spare[] = { 0, 8, 20 };
	struct twheel_list_entry entries[50], rest[50];
	int fd = device_open(O_RDWR);

	arm_many(fd, 50, HOUR, 0, 0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(spare); i++) {
		__u32 size = sizes[i / ARRAY_SIZE(spare)], next, nr;
		struct twheel_list all;
		__u8 seen[50] = { 0 };
		void *place;

		/* unless nothing is spare, one more entry begins before the bad page */
		place = map_before(size * sizeof(*entries) + spare[i % ARRAY_SIZE(spare)],
				   PROT_NONE);
		all = list_into(place, 50, 0);
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &all), 0);
		CHECK_EQ(all.done, size);
		memcpy(entries, place, size * sizeof(*entries));
		for (__u32 n = 0; n < all.done; n++)
			seen[entries[n].cookie]++;
		next = all.next;
		nr = list(fd, rest, 50, &next);
		CHECK_EQ(nr, 50 - size);
		for (__u32 n = 0; n < nr; n++)
			seen[rest[n].cookie]++;
		for (int n = 0; n < 50; n++)
			CHECK_EQ(seen[n], 1);
	}
}

/* Concurrent operations */

struct churn {
	pthread_t thread;
	int fd;
	int stop;
};

static void *come_and_go(void *arg)
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
	pthread_create(&churn.thread, NULL, come_and_go, &churn);
	until = now_ns() + race_ns(500);
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
	__u64 id;

	for (__u32 i = 0; i < nr; i += 512) {
		struct twheel_op ops[512];

		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_arm(HOUR, 0, 0);
		submit(fd, ops, ARRAY_SIZE(ops));
		CHECK_EQ(ops[ARRAY_SIZE(ops) - 1].result, 0);
	}
	id = arm(fd, HOUR, 1);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK(all.pending >= nr);
	CHECK_EQ(info(fd).live, 1);
	return id;
}

static void find_the_only_one(int fd, __u64 id)
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
	signal_every(4000);
	until = now_ns() + race_ns(2000);
	while (now_ns() < until || PEEK(nr_signals) < 50)
		find_the_only_one(fd, id);
	signal_every(1000);
	until = now_ns() + race_ns(1000);
	while (now_ns() < until)
		find_the_only_one(fd, id);
	signal_every(0);
	ktap_note("%d signals", nr_signals);
}

TEST(list_ends_while_it_is_stopped_and_continued)
{
	int fd = device_open(O_RDWR);
	__u64 id = sparse_context(fd), until = now_ns() + race_ns(2000);
	pid_t pid = fork_child();

	if (!pid) {
		while (now_ns() < until)
			find_the_only_one(fd, id);
		_exit(0);
	}
	stop_and_continue(pid);
}

TEST(list_can_be_killed)
{
	int fd = device_open(O_RDWR);
	__u64 id = sparse_context(fd);
	pid_t pid = fork_child();

	if (!pid) {
		for (;;)
			find_the_only_one(fd, id);
	}
	sleep_ns(50 * MS);
	kill_child(pid);
	find_the_only_one(fd, id);
}
