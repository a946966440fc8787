// SPDX-License-Identifier: GPL-2.0
/*
 * Every system call on the device, with each allocation and each copy made to fail in turn:
 * each one alone, and each one together with all that follow.
 *
 * A call that fails returns ENOMEM or EFAULT and has changed nothing; repeated, it
 * succeeds. A call that succeeds nevertheless has done its work. At the end, no resource is
 * still counted.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	300

#include <stddef.h>

#include "cells.h"
#include "inject.h"

#define MAX_PLACES	2000
#define MINUTE		(60 * NSEC_PER_SEC)

#define NR_READY	100		/* more than one lock hold copies */
#define NR_OPS		100		/* likewise, and more than a page of records */
#define NR_ENTRIES	512
#define NOT_WRITTEN	(-12345)	/* the result was not written */

/* Data of the calls. Nothing in it is allocated during a call. */
struct call_data {
	const struct call *call;
	int fd;
	int other;			/* descriptor that the call has opened, or -1 */
	int pipe[2];
	__u64 id;			/* of the timeout that the call is for */
	__u64 cookie;
	struct twheel_cell *cells;
	union argument {
		struct twheel_op op;
		struct twheel_setup setup;
		struct twheel_submit submit;
		struct twheel_list list;
		struct twheel_cancel_all all;
		struct twheel_info info;
		struct twheel_stats stats;
	} argument;
	struct twheel_op ops[NR_OPS];
	struct twheel_event events[NR_READY];
	struct twheel_list_entry entries[NR_ENTRIES];
	char text[512];
};

static struct call_data call_data;

/* An ioctl, unless the call has @make. */
struct call {
	void (*prepare)(struct call_data *w);
	void (*check)(struct call_data *w, long ret);	/* called after success */
	long (*make)(void *w);
	unsigned long ioctl;
	union argument argument;
	int ret;			/* of the ioctl */
	bool may_lose_results;		/* results may be lost that have taken effect */
};

/* State of a file */

struct snapshot {
	struct twheel_info info;
	struct twheel_stats stats;
	struct twheel_list_entry entries[NR_ENTRIES];
	__u32 nr;
	__u64 when;
};

static struct snapshot before, after;

static void take_snapshot(struct snapshot *s, int fd)
{
	struct twheel_list list = {
		.entries = (uintptr_t)s->entries,
		.nr = NR_ENTRIES,
		.entry_size = sizeof(s->entries[0]),
	};

	s->info = info(fd);
	s->stats = file_stats(fd);
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK(list.done < NR_ENTRIES);
	s->nr = list.done;
	s->when = now_ns();
}

/* The entries have the same order; less time remains. */
static void check_same_entries(void)
{
	__u64 passed = after.when - before.when + MINUTE;

	CHECK_EQ(after.nr, before.nr);
	for (__u32 i = 0; i < before.nr; i++) {
		struct twheel_list_entry *a = &before.entries[i], *b = &after.entries[i];

		CHECK(a->remaining_ns >= b->remaining_ns);
		CHECK(a->remaining_ns - b->remaining_ns < passed);
		b->remaining_ns = a->remaining_ns;
		CHECK(!memcmp(a, b, sizeof(*a)));
	}
}

static void check_nothing_changed(int fd)
{
	take_snapshot(&after, fd);
	/* A page that was added before the fault is there for the next try. */
	CHECK(after.info.user_timeouts >= before.info.user_timeouts);
	before.info.user_timeouts = after.info.user_timeouts;
	CHECK(!memcmp(&before.info, &after.info, sizeof(before.info)));
	CHECK(!memcmp(&before.stats, &after.stats, offsetof(struct twheel_stats, lateness)));
	check_same_entries();
}

/* One file is open, without timeouts and without a wheel: a user is forgotten with the last. */
static void check_nothing_counted(void)
{
	static const char nothing[] = "0 1 0 0 ";
	char text[128];

	read_file("/sys/kernel/debug", "twheel_users", text, sizeof(text));
	if (strncmp(text, nothing, strlen(nothing)))
		ktap_fail("uid, files, timeouts, bytes of wheels: %s", text);
	read_file("/sys/class/misc/twheel", "timeouts", text, sizeof(text));
	CHECK_EQ(atol(text), 0);
}

/* Injection */

/* Whether all copies and allocations after the first failing one fail too. */
static int all_fail;

static void end_call(struct call_data *w)
{
	if (w->cells)
		munmap(w->cells, page_size());
	for (int i = 0; i < 2; i++)
		close(w->pipe[i]);
	close(w->other);
	close(w->fd);
}

static void begin_call(struct call_data *w, const struct call *call)
{
	memset(w, 0, sizeof(*w));
	w->call = call;
	w->fd = -1;
	w->other = -1;
	w->pipe[0] = -1;
	w->pipe[1] = -1;
	call->prepare(w);
	if (w->fd >= 0)
		take_snapshot(&before, w->fd);
}

static long make_call(void *arg)
{
	struct call_data *w = arg;

	if (w->call->make)
		return w->call->make(w);
	w->argument = w->call->argument;
	if (w->call->ioctl == TWHEEL_IOC_STOP)
		return stop(w->fd);
	if (w->call->ioctl == TWHEEL_IOC_OP && w->argument.op.opcode != TWHEEL_OP_ARM)
		w->argument.op.id = w->id;
	return device_ioctl(w->fd, w->call->ioctl, &w->argument);
}

/* A fault has occurred during the call. */
static void check_after_fault(struct call_data *w, long ret)
{
	if (ret < 0) {
		CHECK(ret == -ENOMEM || ret == -EFAULT);
		if (w->fd >= 0 && !w->call->may_lose_results)
			check_nothing_changed(w->fd);
		ret = make_call(w);
	}
	if (ret < 0)
		ktap_fail("without a fault: %s", strerror(-ret));
	if (w->call->ioctl)
		CHECK_EQ(ret, w->call->ret);
	w->call->check(w, ret);
	if (w->fd >= 0)
		file_stats(w->fd);
}

/* Returns the number of places. */
static unsigned int fail_in_turn(const struct call *call, struct victim *v, int all)
{
	unsigned int place = 0;
	int injected;

	all_fail = all;
	do {
		CHECK(++place < MAX_PLACES);
		begin_call(&call_data, call);
		injected = victim_fails(v, place, all, make_call, &call_data);
		check_after_fault(&call_data, v->ret);
		end_call(&call_data);
	} while (injected);
	return place - 1;
}

static unsigned int fail_everywhere(const struct call *call)
{
	int witness = device_open(O_RDWR);
	struct victim victim;
	unsigned int places;

	fault_prepare();
	victim_start(&victim);
	places = fail_in_turn(call, &victim, 0);
	fail_in_turn(call, &victim, 1);
	fault_note(places);
	check_nothing_counted();
	close(witness);
	return places;
}

/* A test of a call; the rest are the members of struct call. */
#define FAULT_TEST(what, ...)						\
	TEST(what##_fails_cleanly)					\
	{								\
		fail_everywhere(&(struct call) { __VA_ARGS__ });	\
	}

static long error_or(long ret)
{
	return ret < 0 ? -errno : ret;
}

/* Files */

static void no_file(struct call_data *w)
{
	(void)w;
}

static void new_file(struct call_data *w)
{
	w->fd = device_open(O_RDWR | O_NONBLOCK);
}

/* One pending timeout, for which the call is, and one unread event. */
static void file_with_two(struct call_data *w)
{
	new_file(w);
	w->cookie = 1;
	w->id = arm(w->fd, HOUR, w->cookie);
	arm_fired(w->fd, 2);
}

/* Another unread event, for which the call is. The same with a pending cell. */
static void file_unread(struct call_data *w)
{
	file_with_two(w);
	w->cookie = 5;
	w->id = arm_fired(w->fd, w->cookie);
}

static void file_with_a_cell(struct call_data *w)
{
	file_with_two(w);
	w->cookie = 5;
	w->id = arm_op(w->fd, op_arm(HOUR, TWHEEL_F_CELL, w->cookie));
}

/* The next timeout needs another page, for which the table has room. */
static void file_with_a_full_page(struct call_data *w)
{
	new_file(w);
	do
		arm(w->fd, HOUR, 0);
	while (info(w->fd).live < 46);
}

/* Eight pages; the next one needs a larger table. */
static void file_with_a_full_table(struct call_data *w)
{
	new_file(w);
	do
		arm(w->fd, HOUR, 0);
	while (info(w->fd).live < 8 * 46);
}

static void check_live(struct call_data *w, __u32 live, __u32 ready)
{
	CHECK_EQ(info(w->fd).live, live);
	CHECK_EQ(info(w->fd).ready, ready);
}

/* open, close and descriptors */

static long make_open(void *arg)
{
	struct call_data *w = arg;

	return error_or(w->other = open(DEVICE, O_RDWR | O_CLOEXEC));
}

static void check_open(struct call_data *w, long ret)
{
	(void)ret;
	CHECK_EQ(get(w->other, arm(w->other, HOUR, 0)), 0);
}

FAULT_TEST(open, no_file, check_open, .make = make_open)

static void file_to_close(struct call_data *w)
{
	file_with_two(w);
	arm_many(w->fd, NR_OPS, 0, NSEC_PER_MSEC, 0, NULL);
	w->other = w->fd;
	w->fd = -1;
}

static long make_close(void *arg)
{
	struct call_data *w = arg;
	int fd = w->other;

	w->other = -1;
	return error_or(close(fd));
}

static void check_close(struct call_data *w, long ret)
{
	CHECK_EQ(w->other, -1);
	CHECK_EQ(ret, 0);
}

/* Releasing a file needs no memory, so it cannot fail: the descriptor is closed by one call. */
FAULT_TEST(close, file_to_close, check_close, .make = make_close)

static long make_fdinfo(void *arg)
{
	struct call_data *w = arg;
	long ret;
	int fd;

	snprintf(w->text, sizeof(w->text), "/proc/self/fdinfo/%d", w->fd);
	fd = open(w->text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	memset(w->text, 0, sizeof(w->text));
	ret = error_or(read(fd, w->text, sizeof(w->text) - 1));
	close(fd);
	return ret;
}

static void check_fdinfo(struct call_data *w, long ret)
{
	(void)ret;
	CHECK(strstr(w->text, "live:\t2\n"));
}

FAULT_TEST(fdinfo, file_with_two, check_fdinfo, .make = make_fdinfo)

/* SETUP */

#define SETUP(...)	.ioctl = TWHEEL_IOC_SETUP, .argument.setup = __VA_ARGS__

static void check_shared_setup(struct call_data *w, long ret)
{
	(void)ret;
	CHECK_EQ(info(w->fd).clock, CLOCK_BOOTTIME);
	CHECK_EQ(try_setup(w->fd, setup_clock(CLOCK_BOOTTIME)), -EBUSY);
}

FAULT_TEST(setup, new_file, check_shared_setup, SETUP(setup_clock(CLOCK_BOOTTIME)))

static void check_private_setup(struct call_data *w, long ret)
{
	(void)ret;
	CHECK(info(w->fd).flags & TWHEEL_INFO_PRIVATE);
	arm_fired(w->fd, 0);
	CHECK_EQ(read_event(w->fd).cookie, 0);
}

FAULT_TEST(private_setup, new_file, check_private_setup,
	   SETUP({ .tick_ns = 2000000, .slots = 1024 }))

/* Single operations */

static void check_op(struct call_data *w, long ret)
{
	const struct twheel_op *op = &w->argument.op;
	bool is_arm = op->opcode == TWHEEL_OP_ARM, is_cancel = op->opcode == TWHEEL_OP_CANCEL;
	bool is_kick = op->opcode == TWHEEL_OP_KICK;
	__u64 expires = op->expires_ns ?: HOUR;
	struct twheel_op state;

	check_live(w, before.info.live + is_arm - is_cancel, before.info.ready - ret);
	CHECK_EQ(file_stats(w->fd).kicks, before.stats.kicks + is_kick);
	if (is_cancel) {
		CHECK_EQ(get(w->fd, w->id), -ENOENT);
		return;
	}
	state = get_state(w->fd, op->id);
	CHECK_EQ(state.cookie, w->call->argument.op.cookie ?: w->cookie);
	CHECK(state.expires_ns > expires / 2 && state.expires_ns <= expires);
	if (op->opcode == TWHEEL_OP_GET)
		CHECK_EQ(op->cookie, w->cookie);
}

#define FAULT_TEST_OP(what, prepare, op_, ...)					\
	FAULT_TEST(what, prepare, check_op, .ioctl = TWHEEL_IOC_OP, .argument.op = op_,	\
		   ##__VA_ARGS__)

FAULT_TEST_OP(arm, file_with_two, op_arm(HOUR, 0, 3))
FAULT_TEST_OP(first_arm, new_file, op_arm(HOUR, 0, 3))
FAULT_TEST_OP(arm_that_needs_a_page, file_with_a_full_page, op_arm(HOUR, 0, 3))
FAULT_TEST_OP(arm_that_grows_the_table, file_with_a_full_table, op_arm(HOUR, 0, 3))
FAULT_TEST_OP(arm_of_a_cell, file_with_two, op_arm(HOUR, TWHEEL_F_CELL, 3))
FAULT_TEST_OP(first_arm_of_a_cell, new_file, op_arm(HOUR, TWHEEL_F_CELL, 3))
FAULT_TEST_OP(mod, file_with_two, op_mod(0, 2 * HOUR, 0, 4))
FAULT_TEST_OP(mod_of_a_cell, file_with_a_cell, op_mod(0, 2 * HOUR, TWHEEL_F_CELL, 6))
FAULT_TEST_OP(mod_of_unread, file_unread, op_mod(0, HOUR, 0, 4), .ret = TWHEEL_WITHDRAWN)
FAULT_TEST_OP(kick, file_with_a_cell, op_kick(0))
FAULT_TEST_OP(cancel, file_with_two, op_cancel(0))
FAULT_TEST_OP(get, file_with_two, op_get(0))

/* SUBMIT */

#define SUBMITTED	.ioctl = TWHEEL_IOC_SUBMIT, .argument.submit = {	\
	.ops = (uintptr_t)call_data.ops, .nr = NR_OPS, .op_size = sizeof(call_data.ops[0]) }

static void add_op(struct call_data *w, __u32 i, struct twheel_op op)
{
	w->ops[i] = op;
	w->ops[i].result = NOT_WRITTEN;
}

/* Every fourth arm is of a cell. */
static void file_to_submit_to(struct call_data *w)
{
	file_with_two(w);
	for (__u32 i = 0; i < NR_OPS; i++)
		add_op(w, i, op_arm(HOUR, i % 4 ? 0 : TWHEEL_F_CELL, 100 + i));
}

/* Check the result of an arm with @cookie. */
static void check_arm_in(struct call_data *w, const struct twheel_op *op, __u64 cookie)
{
	CHECK(op->result == 0 || op->result == -ENOMEM);
	if (op->result)
		return;
	CHECK_EQ(get_state(w->fd, op->id).cookie, cookie);
	CHECK_EQ(cancel(w->fd, op->id), 0);
}

/* The results of the last page may be lost, although the operations have taken effect. */
static void check_submit(struct call_data *w, long ret)
{
	__u32 nr = w->argument.submit.done, known = 0, armed = info(w->fd).live - 2;

	(void)ret;
	for (; known < nr && w->ops[known].result != NOT_WRITTEN; known++)
		armed -= !w->ops[known].result;
	CHECK(nr - known <= page_size() / sizeof(w->ops[0]));
	CHECK(armed <= nr - known);
	for (__u32 i = known; i < NR_OPS; i++)
		CHECK_EQ(w->ops[i].result, NOT_WRITTEN);
	for (__u32 i = 0; i < known; i++)
		check_arm_in(w, &w->ops[i], 100 + i);
	CHECK_EQ(info(w->fd).live, 2 + armed);
}

FAULT_TEST(submit_of_arms, file_to_submit_to, check_submit, SUBMITTED)

static void cancels_in(struct call_data *w, __u64 ns)
{
	__u64 ids[NR_OPS];

	file_with_two(w);
	arm_many(w->fd, NR_OPS, ns, 0, 100, ids);
	for (__u32 i = 0; i < NR_OPS; i++)
		add_op(w, i, op_cancel(ids[i]));
}

static void file_to_cancel_in(struct call_data *w)
{
	cancels_in(w, HOUR);
}

static void file_to_withdraw_in(struct call_data *w)
{
	cancels_in(w, 0);
	wait_ready(w->fd, 1 + NR_OPS);
}

/*
 * The cancels that were tried have taken effect, even if a result is lost; the others have
 * not. @outcome: of each. Returns the number of results that are lost.
 */
static __u32 check_cancels(struct call_data *w, int outcome)
{
	__u32 nr = w->argument.submit.done, lost = 0;

	for (__u32 i = 0; i < NR_OPS; i++) {
		CHECK_EQ(get(w->fd, w->ops[i].id), i < nr ? -ENOENT : 0);
		if (w->ops[i].result == NOT_WRITTEN)
			lost += i < nr;
		else
			CHECK_EQ(w->ops[i].result, i < nr ? outcome : NOT_WRITTEN);
	}
	check_live(w, before.info.live - nr, before.info.ready - nr * outcome);
	return lost;
}

static void check_submit_of_cancels(struct call_data *w, long ret)
{
	check_cancels(w, ret);
}

FAULT_TEST(submit_of_cancels, file_to_cancel_in, check_submit_of_cancels, SUBMITTED)

/* A copy that fails loses at most one result, because later ones can be written. */
static void check_submit_of_withdrawals(struct call_data *w, long ret)
{
	CHECK(check_cancels(w, ret + TWHEEL_WITHDRAWN) <= 1 || all_fail);
}

FAULT_TEST(submit_of_withdrawals, file_to_withdraw_in, check_submit_of_withdrawals, SUBMITTED)

/* The file as a whole */

/* If the counts cannot be written, either all timeouts are cancelled or none. */
static void check_cancel_all(struct call_data *w, long ret)
{
	struct twheel_stats s = file_stats(w->fd);
	struct twheel_cancel_all *all = &w->argument.all;

	(void)ret;
	CHECK(all->pending == 1 || all->pending == 0);
	CHECK_EQ(all->withdrawn, all->pending);
	CHECK_EQ(s.cancelled, 1);
	CHECK_EQ(s.withdrawn, 1);
	check_live(w, 0, 0);
}

FAULT_TEST(cancel_all, file_with_two, check_cancel_all, .ioctl = TWHEEL_IOC_CANCEL_ALL,
	   .may_lose_results = true)

static void file_to_list(struct call_data *w)
{
	file_with_two(w);
	arm_many(w->fd, NR_OPS, HOUR, 0, 100, NULL);
}

/* LIST may return only some entries, but these are right. */
static void check_list(struct call_data *w, long ret)
{
	__u32 nr = w->argument.list.done;

	(void)ret;
	CHECK(nr && nr <= 2 + NR_OPS);
	for (__u32 i = 0; i < nr; i++)
		CHECK_EQ(get_state(w->fd, w->entries[i].id).cookie, w->entries[i].cookie);
}

FAULT_TEST(list, file_to_list, check_list, .ioctl = TWHEEL_IOC_LIST, .argument.list = {
	.entries = (uintptr_t)call_data.entries, .nr = NR_ENTRIES,
	.entry_size = sizeof(call_data.entries[0]) })

static void check_stats(struct call_data *w, long ret)
{
	struct twheel_stats s = file_stats(w->fd);

	(void)ret;
	CHECK_EQ(w->argument.stats.armed, 2);
	CHECK(!memcmp(&w->argument.stats, &s, offsetof(struct twheel_stats, lateness)));
}

FAULT_TEST(stats, file_with_two, check_stats, .ioctl = TWHEEL_IOC_STATS)

static void check_info(struct call_data *w, long ret)
{
	(void)ret;
	CHECK_EQ(w->argument.info.live, 2);
}

FAULT_TEST(info, file_with_two, check_info, .ioctl = TWHEEL_IOC_INFO)

static void check_stop(struct call_data *w, long ret)
{
	(void)ret;
	CHECK_EQ(read_any_event(w->fd).cookie, 2);
	CHECK_EQ(read_any_event(w->fd).flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	check_live(w, 0, 0);
}

/* STOP needs no memory. */
TEST(stop_never_fails)
{
	struct call call = { file_with_two, check_stop, .ioctl = TWHEEL_IOC_STOP };

	CHECK_EQ(fail_everywhere(&call), 0);
}

/* read and poll */

static void file_to_read(struct call_data *w)
{
	new_file(w);
	arm_many(w->fd, NR_READY, 0, 0, 0, NULL);
	wait_ready(w->fd, NR_READY);
}

static long make_read(void *arg)
{
	struct call_data *w = arg;

	return error_or(read(w->fd, w->events, sizeof(w->events)));
}

/*
 * Each event that the call has not returned is still there, once. The order is not checked,
 * because the test may have armed on several CPUs.
 */
static void check_read(struct call_data *w, long ret)
{
	size_t nr = ret / sizeof(w->events[0]);
	bool seen[NR_READY] = { };

	CHECK_EQ(ret % sizeof(w->events[0]), 0);
	CHECK(nr && nr <= NR_READY);
	if (nr < NR_READY)
		CHECK_EQ(read_events(w->fd, w->events + nr, NR_READY - nr), NR_READY - nr);
	for (size_t i = 0; i < NR_READY; i++) {
		CHECK(w->events[i].cookie < NR_READY);
		CHECK(!seen[w->events[i].cookie]);
		seen[w->events[i].cookie] = true;
	}
	check_live(w, 0, 0);
}

FAULT_TEST(read, file_to_read, check_read, .make = make_read)

static long make_poll(void *arg)
{
	struct call_data *w = arg;
	struct pollfd pollfd = { .fd = w->fd, .events = POLLIN };

	return error_or(poll(&pollfd, 1, 0));
}

static void check_poll(struct call_data *w, long ret)
{
	CHECK_EQ(ret, 1);
	check_live(w, 2, 1);
}

FAULT_TEST(poll, file_with_two, check_poll, .make = make_poll)

/* mmap */

static long make_mmap(void *arg)
{
	struct call_data *w = arg;
	void *cells = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);

	if (cells == MAP_FAILED)
		return -errno;
	w->cells = cells;
	return 0;
}

static void check_mmap(struct call_data *w, long ret)
{
	CHECK_EQ(ret, 0);
	exchange(w->cells, 255, 7);
	CHECK_EQ(word_of(w->cells, 255), 7);
}

FAULT_TEST(mmap, file_with_two, check_mmap, .make = make_mmap)

static void file_with_a_mapping(struct call_data *w)
{
	__u64 word = 8;

	file_with_two(w);
	CHECK_EQ(make_mmap(w), 0);
	CHECK_EQ(pipe(w->pipe), 0);
	CHECK_EQ(write(w->pipe[1], &word, sizeof(word)), sizeof(word));
}

/* The kernel touches a page of cells that does not exist yet, which may fail. */
static long make_fault(void *arg)
{
	struct call_data *w = arg;

	return error_or(read(w->pipe[0], &w->cells->word, sizeof(w->cells->word)));
}

static void check_fault(struct call_data *w, long ret)
{
	CHECK_EQ(ret, sizeof(w->cells->word));
	CHECK_EQ(word_of(w->cells, 0), 8);
}

FAULT_TEST(fault_in_the_mapping, file_with_a_mapping, check_fault, .make = make_fault)
