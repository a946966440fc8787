// SPDX-License-Identifier: GPL-2.0
/*
 * Calls around the moment of expiry, and in memory that changes during the call.
 *
 * The fuzzer runs random calls in several threads, and accounts for each arming in its ledger.
 * Here a test aims at one moment.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "machine.h"
#include "signals.h"

/*
 * Many timeouts that are due in one tick are taken out in batches. Operations meanwhile
 * find some of them pending, some on their way to the sink, and some with an event.
 */

#define DUE		1500
#define AFTER		10000		/* first cookie of timeouts that fire after the calls */

static bool is_far(const struct twheel_op *arming)
{
	return arming->cookie % 10 == 0;
}

/*
 * Arm timeouts with the cookies 0, 1, 2... They expire on another CPU than the one where the
 * caller continues. Some are not due, and @ops is in an order other than that of expiry.
 */
static __u64 arm_due_at_once(int fd, struct twheel_op *ops)
{
	__u64 when = now_ns() + 4 * NSEC_PER_MSEC;

	pin_to_cpu(0);
	for (int i = 0; i < DUE; i++) {
		ops[i] = op_arm(when, TWHEEL_F_ABS, i);
		if (is_far(&ops[i]))
			ops[i].expires_ns += HOUR;
	}
	submit(fd, ops, DUE);
	for (int i = 0; i < DUE; i++) {
		struct twheel_op *other = &ops[i * 157 % DUE], op = ops[i];

		CHECK_EQ(op.result, 0);
		ops[i] = *other;
		*other = op;
	}
	pin_to_cpu(last_cpu() > 0);
	return when;
}

/* Wait until the wheel's thread may be taking them out; in most cases until it certainly is. */
static void wait_expiring(int fd, __u64 when, __u64 *seed)
{
	__u64 start = when + random_below(seed, 2 * NSEC_PER_MSEC);

	if (random_below(seed, 3)) {
		while (!info(fd).ready)
			;
	} else {
		while (now_ns() < start)
			;
	}
}

/* Each timeout fires once, at this deadline. Cookies begin at AFTER. */
static void check_each_fires_once(int fd, __u64 when)
{
	__u8 seen[DUE] = { 0 };
	struct twheel_event events[50];

	wait_ready(fd, DUE);
	for (int got = 0; got < DUE; ) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		for (int i = 0; i < nr; i++) {
			check_event(&events[i]);
			CHECK_EQ(events[i].expires_ns, when);
			CHECK(events[i].cookie >= AFTER && events[i].cookie < AFTER + DUE);
			CHECK_EQ(seen[events[i].cookie - AFTER]++, 0);
		}
		got += nr;
	}
}

/* @later is a deadline for MOD. ARM makes an idle cell. */
static struct twheel_op op_during_expiry(__u32 opcode, const struct twheel_op *arming, __u64 later)
{
	switch (opcode) {
	case TWHEEL_OP_ARM:
		return op_cell(TWHEEL_CELL_IDLE, 0);
	case TWHEEL_OP_MOD:
		return op_mod(arming->id, later, TWHEEL_F_ABS, AFTER + arming->cookie);
	case TWHEEL_OP_CANCEL:
		return op_cancel(arming->id);
	default:
		return op_get(arming->id);
	}
}

/* Check the result of @op, which @first, or none, precedes for the same timeout. */
static void check_during_expiry(const struct twheel_op *op, __u32 first,
				const struct twheel_op *arming)
{
	bool may_fire = !is_far(arming) || first == TWHEEL_OP_MOD;
	bool withdraws = op->opcode == TWHEEL_OP_MOD || op->opcode == TWHEEL_OP_CANCEL;

	CHECK(!op->result || (op->result == TWHEEL_WITHDRAWN && may_fire && withdraws));
	if (op->opcode != TWHEEL_OP_GET)
		return;
	CHECK_EQ(op->cookie, arming->cookie);
	CHECK(is_far(arming) ? op->expires_ns > HOUR / 2 : op->expires_ns < 4 * NSEC_PER_MSEC);
}

/*
 * Make one or two operations for each timeout while most of them expire. The results must not be
 * mixed up. Then arm timeouts in the same slots: the former ones have no effect. The file has no
 * room for more. A timeout that is cancelled on its way to the sink keeps its record for a while,
 * but not its place.
 */
static void operate_during_expiry(__u32 first, __u32 second)
{
	const __u32 limit = 7 * CELLS_PER_PAGE, each = second ? 2 : 1;
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, limit), rounds = 0;
	__u64 seed = now_ns(), until = seed + race_duration_ns(1000), withdrawn = 0;
	struct twheel_op due[DUE], ops[2 * DUE];

	arm_many(fd, limit - DUE, HOUR, 0, 0, NULL);
	for (; now_ns() < until; rounds++) {
		__u64 when = arm_due_at_once(fd, due), later = when + 10 * NSEC_PER_MSEC;
		__u32 cells = 0;

		for (int i = 0; i < DUE; i++) {
			ops[each * i] = op_during_expiry(first, &due[i], second ? 0 : later);
			if (second)
				ops[2 * i + 1] = op_during_expiry(second, &due[i], later);
		}
		wait_expiring(fd, when, &seed);
		submit(fd, ops, each * DUE);
		for (__u32 i = 0; i < each * DUE; i++) {
			check_during_expiry(&ops[i], i % each ? first : 0, &due[i / each]);
			if (ops[i].opcode == TWHEEL_OP_CANCEL)
				withdrawn += ops[i].result;
			if (ops[i].opcode == TWHEEL_OP_ARM)
				ops[cells++] = op_cancel(ops[i].id);
		}
		if (first == TWHEEL_OP_MOD && !second)
			check_each_fires_once(fd, later);
		check_no_event(fd);
		submit(fd, ops, cells);
		CHECK_EQ(info(fd).live, limit - DUE);

		when = now_ns();
		for (int i = 0; i < DUE; i++)
			ops[i] = op_arm(when, TWHEEL_F_ABS, AFTER + i);
		submit(fd, ops, DUE);
		check_each_fires_once(fd, when);
	}
	CHECK_EQ(file_stats(fd).withdrawn, withdrawn);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
	ktap_note("%d rounds, %llu withdrawn", rounds, (unsigned long long)withdrawn);
}

TEST(mod_while_a_batch_expires_makes_one_event_each)
{
	operate_during_expiry(TWHEEL_OP_MOD, 0);
}

TEST(cancel_while_a_batch_expires_leaves_no_event)
{
	operate_during_expiry(TWHEEL_OP_CANCEL, 0);
}

TEST(cancel_after_mod_while_a_batch_expires_leaves_no_trace)
{
	operate_during_expiry(TWHEEL_OP_MOD, TWHEEL_OP_CANCEL);
}

TEST(cells_take_places_of_timeouts_that_expire)
{
	skip_without_cells();
	operate_during_expiry(TWHEEL_OP_CANCEL, TWHEEL_OP_ARM);
}

TEST(get_while_a_batch_expires_finds_all)
{
	operate_during_expiry(TWHEEL_OP_GET, TWHEEL_OP_CANCEL);
}

/* Memory that is mapped and unmapped during a system call */

struct toggled_pages {
	pthread_t thread;
	void *view;		/* two pages, which are protected repeatedly */
	void *stable;		/* the same memory, always mapped */
	bool first_only;	/* only the first page is, and it can always be read */
	int stop;
};

static void *toggle_pages(void *arg)
{
	struct toggled_pages *f = arg;
	__u64 seed = now_ns();

	while (!PEEK(f->stop)) {
		void *page = f->view;
		int protection = PROT_READ;

		if (!f->first_only) {
			page += random_below(&seed, 2) * page_size();
			protection = random_below(&seed, 2) ? PROT_NONE : PROT_READ;
		}
		protect_page(page, protection);
		sched_yield();
		protect_page(page, PROT_READ | PROT_WRITE);
		if (random_below(&seed, 2))
			sleep_ns(20 * NSEC_PER_USEC);
	}
	return NULL;
}

static void map_toggled_pages(struct toggled_pages *f)
{
	int memory = memfd_create("flicker", 0);

	*f = (struct toggled_pages) { 0 };
	CHECK(memory >= 0);
	CHECK_EQ(ftruncate(memory, 2 * page_size()), 0);
	f->view = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	f->stable = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CHECK(f->view != MAP_FAILED && f->stable != MAP_FAILED);
}

static void start_toggling(struct toggled_pages *f, bool first_only)
{
	map_toggled_pages(f);
	f->first_only = first_only;
	CHECK_EQ(pthread_create(&f->thread, NULL, toggle_pages, f), 0);
}

static void stop_toggling(struct toggled_pages *f)
{
	SET(f->stop, 1);
	pthread_join(f->thread, NULL);
}

/* Read at most seven records across the page boundary. Returns their number. */
static int read_into_toggled_pages(int fd, const struct toggled_pages *f, size_t offset, __u8 *seen,
				   int nr)
{
	int ret = read_events(fd, f->view + offset, 7);

	CHECK(ret > 0 || ret == -EFAULT);
	for (int i = 0; i < ret; i++) {
		struct twheel_event event;

		memcpy(&event, f->stable + offset + i * sizeof(event), sizeof(event));
		check_event(&event);
		CHECK(event.cookie < (__u64)nr);
		CHECK_EQ(seen[event.cookie]++, 0);
	}
	return ret > 0 ? ret : 0;
}

TEST(read_into_memory_that_comes_and_goes_loses_nothing)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), short_reads = 0;
	__u64 until = now_ns() + race_duration_ns(700), seed = until;
	struct toggled_pages f;

	start_toggling(&f, false);
	while (now_ns() < until) {
		__u8 seen[300] = { 0 };
		const int nr = ARRAY_SIZE(seen);

		arm_many(fd, nr, 0, 0, 0, NULL);
		wait_ready(fd, nr);
		for (int got = 0; got < nr; ) {
			size_t offset = page_size() - random_below(&seed, 400);
			int ret = read_into_toggled_pages(fd, &f, offset, seen, nr);

			got += ret;
			short_reads += ret < 7;
			CHECK_EQ(info(fd).ready, nr - got);
		}
	}
	stop_toggling(&f);
	check_no_event(fd);
	ktap_note("%d short reads", short_reads);
}

/*
 * Results may be lost with the memory, but a result that was written is true. It is written
 * after the id, so the id next to it is complete.
 */
TEST(submit_in_memory_that_comes_and_goes_keeps_the_state_whole)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), faults = 0, rounds = 0;
	__u64 until = now_ns() + race_duration_ns(1000), tried = 0, known = 0;
	struct toggled_pages f;

	start_toggling(&f, false);
	while (now_ns() < until) {
		struct twheel_op *ops = f.stable;
		__u32 nr = 2 * page_size() / sizeof(*ops), done;

		for (__u32 i = 0; i < nr; i++) {
			ops[i] = op_arm(HOUR, 0, i);
			ops[i].result = -EIO;
		}
		if (try_submit(fd, f.view, nr, &done)) {
			faults++;
			done = 0;
		}
		CHECK(done <= nr);
		tried += done;
		for (__u32 i = 0; i < nr; i++) {
			if (ops[i].result)
				continue;
			known++;
			CHECK_EQ(get(fd, ops[i].id), 0);
		}
		rounds++;
		/* An ARM whose id could not be stored has been undone. */
		CHECK_EQ(info(fd).live, known);
		CHECK(known <= tried);
	}
	stop_toggling(&f);
	ktap_note("%d calls, %d failed, %llu tried, %llu known", rounds, faults, tried, known);
}

/*
 * Only the first page is protected. Results on it may be lost; results on the second page may
 * not. All entries on the second page are neighbours in a batch.
 */

#define NOT_WRITTEN	(-12345)	/* the result was not written */
#define ACROSS		40		/* entries, most of them on the second page */
#define BEFORE		8		/* entries on the first page or across the boundary */
#define OFFSET		(page_size() - BEFORE * sizeof(struct twheel_op) + 8)

/*
 * Cancel timeouts that have fired, or that are on their way to the sink. Of the latter it is known
 * only afterwards that they had fired. No other result is written before. Returns the number that
 * was withdrawn.
 */
static __u64 cancel_behind_a_page(int fd, struct toggled_pages *f, const __u64 *ids, bool fired)
{
	const struct twheel_op *ops = f->stable + OFFSET;
	__u64 before = file_stats(fd).withdrawn, withdrawn;
	__u32 done = 0, reported = 0, unknown = 0;

	if (try_submit(fd, f->view + OFFSET, ACROSS, &done))
		done = 0;
	withdrawn = file_stats(fd).withdrawn - before;
	CHECK(!fired || withdrawn == done);
	for (__u32 i = 0; i < done; i++) {
		if (i < BEFORE)
			unknown += ops[i].result == NOT_WRITTEN;
		else
			CHECK(ops[i].result == TWHEEL_WITHDRAWN || (!fired && !ops[i].result));
		reported += ops[i].result == TWHEEL_WITHDRAWN;
	}
	CHECK(reported <= withdrawn);
	CHECK(reported + unknown >= withdrawn);
	for (__u32 i = 0; i < ACROSS; i++)
		CHECK(i < done ? cancel(fd, ids[i]) == -ENOENT : cancel(fd, ids[i]) >= 0);
	return withdrawn;
}

static void cancel_behind_pages(bool fired)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), withdrawn = 0, rounds = 0;
	__u64 until = now_ns() + race_duration_ns(2000), seed = until, ids[DUE];
	struct toggled_pages f;

	start_toggling(&f, true);
	for (; now_ns() < until; rounds++) {
		struct twheel_op *ops = f.stable + OFFSET;
		__u32 first = fired ? 0 : 128 * (1 + random_below(&seed, 9));

		pin_to_cpu(0);
		arm_many(fd, fired ? ACROSS : DUE, fired ? 0 : 4 * NSEC_PER_MSEC, 0, 0, ids);
		pin_to_cpu(last_cpu() > 0);
		for (int i = 0; i < ACROSS; i++) {
			ops[i] = op_cancel(ids[first + i]);
			ops[i].result = NOT_WRITTEN;
		}
		while (info(fd).ready < (fired ? ACROSS : first))
			;
		withdrawn += cancel_behind_a_page(fd, &f, ids + first, fired);
		cancel_all(fd);
	}
	stop_toggling(&f);
	ktap_note("%d rounds, %d withdrawn", rounds, withdrawn);
}

TEST(withdrawals_are_reported_behind_a_page_that_is_gone)
{
	cancel_behind_pages(true);
}

TEST(cancels_amid_expiry_are_reported_behind_a_page_that_is_gone)
{
	cancel_behind_pages(false);
}

/* Drop the pages of @view repeatedly; each access brings them back. */
static void *drop_pages(void *arg)
{
	struct toggled_pages *f = arg;

	for (;;)
		madvise(f->view, 2 * page_size(), MADV_DONTNEED);
	return NULL;
}

static void arm_while_pages_are_dropped(void)
{
	const struct twheel_op request = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);
	struct toggled_pages f;
	pthread_t threads[2];

	map_toggled_pages(&f);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, drop_pages, &f);
	for (__u32 armed = 0; ; armed++) {
		struct twheel_op *op = f.stable;

		*op = request;
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_OP, f.view), 0);
		CHECK_EQ(get(fd, op->id), 0);
		CHECK_EQ(info(fd).live, armed % 1000 + 1);
		if (armed % 1000 == 999)
			cancel_all(fd);
	}
}

/* Each access faults the page in once more. */
TEST(arm_in_memory_that_vanishes_can_be_killed)
{
	for (int round = 0; round < 10; round++) {
		pid_t pid = fork_child();

		if (!pid)
			arm_while_pages_are_dropped();
		sleep_ns((50 + round) * NSEC_PER_MSEC);
		kill_child(pid);
	}
}
