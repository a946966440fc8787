// SPDX-License-Identifier: GPL-2.0
/*
 * Each kind of timeout, with each call, in each setting.
 *
 * A setting is a way to submit operations and a clock. The ways are SUBMIT and io_uring. The clocks
 * are CLOCK_MONOTONIC, CLOCK_MONOTONIC in a time namespace, and CLOCK_REALTIME. On CLOCK_REALTIME,
 * the test steps the clock back and forward where it otherwise waits. The limit of a context is
 * the number of timeouts that the test needs. The fuzzer makes single calls, too.
 */
#define _GNU_SOURCE
#include "cells.h"
#include "cpu.h"
#include "realtime.h"
#include "ring.h"

#define MS		NSEC_PER_MSEC
#define SOON		(is_slow() ? 50 * MS : 5 * MS)
#define AHEAD		1000000			/* seconds ahead in the namespace */
#define UNPROCESSED	(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)

static const struct kind {
	const char *name;
	__u32 flags;
	__u64 interval_ns;
	__u32 repeat;
	__u32 slack_us;
} kinds[] = {
	/* name, flags, interval_ns, repeat, slack_us */
	{ "once", 0, 0, 0, 0 },
	{ "once, slack", 0, 0, 0, 2000 },
	{ "rate", 0, 3 * MS, 0, 0 },
	{ "rate, slack", 0, 3 * MS, 0, 2000 },
	{ "rate, repeat", 0, 3 * MS, 3, 0 },
	{ "rate, repeat, slack", 0, 3 * MS, 3, 2000 },
	{ "delay", TWHEEL_F_FIXED_DELAY, 3 * MS, 0, 0 },
	{ "delay, slack", TWHEEL_F_FIXED_DELAY, 3 * MS, 0, 2000 },
	{ "delay, repeat", TWHEEL_F_FIXED_DELAY, 3 * MS, 3, 0 },
	{ "delay, repeat, slack", TWHEEL_F_FIXED_DELAY, 3 * MS, 3, 2000 },
	{ "cell", TWHEEL_F_CELL, 0, 0, 0 },
	{ "cell, slack", TWHEEL_F_CELL, 0, 0, 2000 },
};

#define NR		ARRAY_SIZE(kinds)

static bool is_cell(const struct kind *kind)
{
	return kind->flags & TWHEEL_F_CELL;
}

/* Number of expirations until the timeout is over; 0: it does not end. */
static __u32 all_of(const struct kind *kind)
{
	if (kind->interval_ns)
		return kind->repeat;
	return !is_cell(kind);
}

static struct twheel_op op_of(const struct kind *kind, __u64 when, __u64 cookie)
{
	struct twheel_op op = op_periodic(when, kind->interval_ns, kind->repeat,
					  kind->flags | TWHEEL_F_ABS, cookie);

	op.slack_us = kind->slack_us;
	return op;
}

/* Settings */

enum way { SUBMIT, RING, NR_WAYS };
enum place { HOME, NAMESPACE, REALTIME, NR_PLACES };

static const char * const way_names[] = { "submit", "ring" };
static const char * const place_names[] = { "home", "namespace", "realtime" };

static struct setting {
	enum way way;
	enum place place;
	clockid_t clock;
	__s64 ahead_ns;			/* distance of CLOCK_REALTIME from the right time */
	struct ring ring;
	void (*body)(void);
} setting;

static __u64 now_there(void)
{
	return clock_ns(setting.clock);
}

/* A deadline that let_fire() makes due. */
static __u64 soon(void)
{
	return now_there() + (setting.place == REALTIME ? HOUR : SOON);
}

static __u64 far(void)
{
	return now_there() + 1000 * HOUR;
}

/*
 * Wait until @nr timeouts have fired. A step back makes none fire, and the step forward
 * makes all due.
 */
static void let_fire(int fd, __u32 nr)
{
	if (setting.place == REALTIME) {
		__u32 before = info(fd).ready;

		set_realtime(setting.ahead_ns - HOUR);
		sleep_ns(2 * MS);
		CHECK_EQ(info(fd).ready, before);
		setting.ahead_ns += 2 * HOUR;
		set_realtime(setting.ahead_ns);
	}
	wait_ready(fd, nr);
}

static int open_for(__u32 limit)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, limit);

	need_cells();
	if (setting.place == REALTIME)
		CHECK_EQ(try_setup(fd, setup_clock(CLOCK_REALTIME)), 0);
	return fd;
}

/* Returns the number of operations that the kernel has tried, or -errno. */
static int run_by_ring(int fd, struct twheel_op *ops, __u32 nr)
{
	struct io_uring_sqe *sqe = ring_prepare(&setting.ring, IORING_OP_URING_CMD, fd, 1);
	struct twheel_uring_submit *command = (void *)sqe->cmd;
	__u64 tag;

	sqe->cmd_op = TWHEEL_URING_SUBMIT;
	command->ops = (uintptr_t)ops;
	command->nr = nr;
	command->op_size = sizeof(*ops);
	ring_submit(&setting.ring);
	return ring_wait(&setting.ring, &tag);
}

/* Submit operations in the way of the setting. The results are in @ops. */
static void run(int fd, struct twheel_op *ops, __u32 nr)
{
	if (setting.way == SUBMIT)
		submit(fd, ops, nr);
	else
		CHECK_EQ(run_by_ring(fd, ops, nr), nr);
}

static void run_in_setting(void)
{
	if (setting.place == NAMESPACE)
		enter_time_namespace(AHEAD, AHEAD);
	if (setting.place == REALTIME) {
		setting.clock = CLOCK_REALTIME;
		need_test_machine();
	}
	if (setting.way == RING)
		setting.ring = ring_open(0);
	setting.body();
}

/* Settings that do not exist are left out; if there are none, the test is skipped. */
static void in_each_setting(void (*body)(void))
{
	int ran = 0;

	note_realtime();
	for (int i = 0; i < NR_WAYS * NR_PLACES; i++) {
		int status;

		setting = (struct setting) {
			.way = i % NR_WAYS,
			.place = i / NR_WAYS,
			.clock = CLOCK_MONOTONIC,
			.body = body,
		};
		status = status_of(run_in_setting);
		if (WIFEXITED(status) && WEXITSTATUS(status) == KTAP_EXIT_SKIP)
			continue;
		if (setting.place == REALTIME)
			set_realtime(0);
		if (status)
			ktap_note("in %s, by %s", place_names[setting.place],
				  way_names[setting.way]);
		end_unless_passed(status);
		ran++;
	}
	if (!ran)
		ktap_skip("no setting for it");
	ktap_note("%d settings of %d", ran, NR_WAYS * NR_PLACES);
}

/* Timeouts of all kinds: the cookie is the index in this structure and in kinds[] */

struct lot {
	const struct kind *kind[NR];
	__u64 id[NR];
	__u64 when;
	__u64 count[NR];		/* expirations reported */
	bool over[NR];
};

static void check_results(const struct twheel_op *ops, int result)
{
	for (size_t i = 0; i < NR; i++)
		CHECK_ROW(ops[i].result, result, kinds[i].name);
}

static void arm_lot(int fd, struct lot *lot, __u64 when)
{
	struct twheel_op ops[NR];

	*lot = (struct lot) { .when = when };
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_of(&kinds[i], when, i);
	run(fd, ops, NR);
	check_results(ops, 0);
	for (size_t i = 0; i < NR; i++) {
		lot->kind[i] = &kinds[i];
		lot->id[i] = ops[i].id;
	}
}

/* Make timeout @i of @lot one of kind @to. */
static struct twheel_op op_move(const struct lot *lot, size_t i, const struct kind *to, __u64 when,
				__u64 cookie)
{
	struct twheel_op op = op_of(to, when, cookie);

	op.opcode = TWHEEL_OP_MOD;
	op.id = lot->id[i];
	return op;
}

static void arm_fired_lot(int fd, struct lot *lot)
{
	__u32 before = info(fd).ready;

	arm_lot(fd, lot, soon());
	let_fire(fd, before + NR);
}

static void follow(struct lot *lot, const struct twheel_event *event)
{
	size_t i = event->cookie;
	const struct kind *kind = lot->kind[i];
	__u64 before = lot->count[i];

	CHECK(i < NR);
	CHECK_ROW(event->id, lot->id[i], kind->name);
	CHECK(event->count >= 1);
	lot->count[i] += event->count;
	if (kind->flags & TWHEEL_F_FIXED_DELAY) {
		CHECK_ROW(event->count, 1, kind->name);
		CHECK(before ? event->expires_ns > lot->when : event->expires_ns == lot->when);
		CHECK(event->fired_ns >= event->expires_ns);
	} else {
		CHECK_ROW(event->expires_ns, lot->when + (lot->count[i] - 1) * kind->interval_ns,
			  kind->name);
		CHECK(event->fired_ns >= lot->when + before * kind->interval_ns);
	}
	CHECK(event->fired_ns <= now_there());
	CHECK(event->expires_ns <= now_there());
	CHECK(!lot->over[i]);
	lot->over[i] = lot->count[i] == all_of(kind);
	CHECK(lot->over[i] || !all_of(kind) || lot->count[i] < all_of(kind));
	CHECK_ROW(event->flags, lot->over[i] ? TWHEEL_EV_LAST : 0, kind->name);
}

static bool is_done(const struct lot *lot)
{
	for (size_t i = 0; i < NR; i++) {
		if (!lot->count[i] || (all_of(lot->kind[i]) && !lot->over[i]))
			return false;
	}
	return true;
}

/* Read until each timeout has fired, and until those that can end have ended. */
static void read_lot(int fd, struct lot *lot)
{
	struct twheel_event events[5];

	while (!is_done(lot)) {
		int nr;

		wait_ready(fd, 1);
		nr = read_events(fd, events, ARRAY_SIZE(events));
		for (int i = 0; i < nr; i++)
			follow(lot, &events[i]);
		CHECK(nr > 0);
	}
}

static void make_cancels(const struct lot *lot, struct twheel_op *ops)
{
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_cancel(lot->id[i]);
}

static struct twheel_cancel_all cancel_rest(int fd)
{
	struct twheel_cancel_all all = { 0 };

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(info(fd).live, 0);
	return all;
}

/* Firing, reading and the limit */

static void fire_each(void)
{
	struct twheel_op ops[NR], more = op_of(&kinds[0], far(), 0);
	int fd = open_for(NR), live = 0;
	struct lot lot;

	arm_lot(fd, &lot, soon());
	run(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
	let_fire(fd, NR);
	run(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
	read_lot(fd, &lot);
	for (size_t i = 0; i < NR; i++)
		live += !lot.over[i];
	CHECK_EQ(info(fd).live, live);
	make_cancels(&lot, ops);
	run(fd, ops, NR);
	for (size_t i = 0; i < NR; i++) {
		if (lot.over[i] || is_cell(&kinds[i]))
			CHECK_ROW(ops[i].result, lot.over[i] ? -ENOENT : TWHEEL_IDLE,
				  kinds[i].name);
		else
			CHECK(ops[i].result == 0 || ops[i].result == TWHEEL_WITHDRAWN);
	}
	CHECK_EQ(info(fd).live, 0);
	check_no_event(fd);
	arm_lot(fd, &lot, far());
	run(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
}

TEST(each_kind_fires_at_its_deadlines)
{
	in_each_setting(fire_each);
}

/* MOD */

/* Make all timeouts of kind @to. A cell stays a cell, and no other timeout becomes one. */
static void move_lot_to(int fd, const struct kind *to, bool fired)
{
	struct twheel_op ops[NR];
	struct lot lot;
	__u64 when;

	if (fired)
		arm_fired_lot(fd, &lot);
	else
		arm_lot(fd, &lot, far());
	when = soon();
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_move(&lot, i, to, when, i);
	run(fd, ops, NR);
	for (size_t i = 0; i < NR; i++) {
		if (is_cell(to) != is_cell(&kinds[i])) {
			CHECK_ROW(ops[i].result, -EINVAL, kinds[i].name);
			CHECK_EQ(cancel(fd, lot.id[i]), fired ? TWHEEL_WITHDRAWN : 0);
			/* count it as read */
			lot.count[i] = 1;
			lot.over[i] = true;
		} else {
			CHECK_ROW(ops[i].result, fired ? TWHEEL_WITHDRAWN : 0, kinds[i].name);
		}
		lot.kind[i] = to;
	}
	lot.when = when;
	let_fire(fd, 1);
	read_lot(fd, &lot);
	cancel_rest(fd);
	check_no_event(fd);
}

static void move_each(void)
{
	int fd = open_for(NR);

	for (size_t i = 0; i < NR; i++) {
		move_lot_to(fd, &kinds[i], false);
		move_lot_to(fd, &kinds[i], true);
	}
}

TEST(mod_makes_each_kind_of_each)
{
	in_each_setting(move_each);
}

/* CANCEL, CANCEL_ALL */

static void cancel_each(void)
{
	int fd = open_for(2 * NR);
	struct lot pending, fired;
	struct twheel_cancel_all all;
	struct twheel_op ops[NR];

	arm_lot(fd, &pending, far());
	arm_fired_lot(fd, &fired);
	make_cancels(&pending, ops);
	run(fd, ops, NR);
	check_results(ops, 0);
	make_cancels(&fired, ops);
	run(fd, ops, NR);
	check_results(ops, TWHEEL_WITHDRAWN);
	run(fd, ops, NR);
	check_results(ops, -ENOENT);
	check_no_event(fd);

	arm_lot(fd, &pending, far());
	arm_fired_lot(fd, &fired);
	all = cancel_rest(fd);
	CHECK_EQ(all.pending, NR);
	CHECK_EQ(all.withdrawn, NR);
	check_no_event(fd);
	/* the places are free again */
	arm_lot(fd, &pending, far());
	arm_fired_lot(fd, &fired);
	close(fd);
	check_no_event(open_for(NR));
}

TEST(each_kind_can_be_cancelled)
{
	in_each_setting(cancel_each);
}

/* GET, LIST */

static void check_got(int fd, const struct lot *lot, __u64 remaining)
{
	struct twheel_op ops[NR];

	for (size_t i = 0; i < NR; i++)
		ops[i] = op_get(lot->id[i]);
	run(fd, ops, NR);
	check_results(ops, 0);
	for (size_t i = 0; i < NR; i++) {
		CHECK_ROW(ops[i].cookie, i, kinds[i].name);
		CHECK_ROW(ops[i].interval_ns, kinds[i].interval_ns, kinds[i].name);
		CHECK_ROW(ops[i].repeat, kinds[i].repeat, kinds[i].name);
		CHECK(ops[i].expires_ns <= remaining);
		CHECK(ops[i].expires_ns >= remaining / 2);
	}
}

static void check_listed(int fd, const struct lot *lot, __u64 remaining, __u32 state)
{
	struct twheel_list_entry entries[NR + 1];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = NR + 1, .entry_size = sizeof(entries[0]),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK_EQ(list.done, NR);
	for (__u32 n = 0; n < NR; n++) {
		size_t i = entries[n].cookie;

		CHECK(i < NR);
		CHECK_ROW(entries[n].id, lot->id[i], kinds[i].name);
		CHECK_ROW(entries[n].state, state, kinds[i].name);
		CHECK_ROW(entries[n].flags, kinds[i].flags, kinds[i].name);
		CHECK_ROW(entries[n].interval_ns, kinds[i].interval_ns, kinds[i].name);
		CHECK_ROW(entries[n].repeat, kinds[i].repeat, kinds[i].name);
		CHECK_ROW(entries[n].slack_us, kinds[i].slack_us, kinds[i].name);
		CHECK(entries[n].remaining_ns <= remaining);
		CHECK(entries[n].remaining_ns >= remaining / 2);
	}
}

static void find_each(void)
{
	int fd = open_for(NR);
	struct lot lot;

	arm_lot(fd, &lot, far());
	check_got(fd, &lot, 1000 * HOUR);
	check_listed(fd, &lot, 1000 * HOUR, TWHEEL_STATE_PENDING);
	CHECK_EQ(poll_now(fd), 0);
	cancel_rest(fd);
	arm_fired_lot(fd, &lot);
	check_got(fd, &lot, 0);
	check_listed(fd, &lot, 0, TWHEEL_STATE_READY);
	CHECK_EQ(poll_now(fd), POLLIN);
	read_lot(fd, &lot);
}

TEST(each_kind_is_found)
{
	in_each_setting(find_each);
}

/* STOP */

static void stop_each(void)
{
	struct twheel_op op = op_of(&kinds[0], far(), 0);
	int fd = open_for(2 * NR);
	bool seen[2][NR] = { 0 };
	struct lot pending, fired;
	struct twheel_event event;

	arm_lot(fd, &pending, far());
	arm_fired_lot(fd, &fired);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).live, 2 * NR);
	run(fd, &op, 1);
	CHECK_EQ(op.result, -ESHUTDOWN);
	CHECK_EQ(read_events(fd, map_unusable(), 2 * NR), -EFAULT);
	CHECK_EQ(info(fd).ready, 2 * NR);
	for (size_t n = 0; n < 2 * NR; n++) {
		bool late = n >= NR;

		CHECK_EQ(poll_now(fd), POLLIN);
		event = read_any_event(fd);
		CHECK(event.cookie < NR);
		CHECK(!seen[late][event.cookie]);
		seen[late][event.cookie] = true;
		CHECK_ROW(event.flags, late ? UNPROCESSED : TWHEEL_EV_LAST,
			  kinds[event.cookie].name);
		CHECK_EQ(event.id, late ? pending.id[event.cookie] : fired.id[event.cookie]);
		if (late) {
			CHECK_EQ(event.count, 0);
			CHECK_EQ(event.expires_ns, pending.when);
		} else {
			CHECK(event.count >= 1);
			CHECK(event.expires_ns >= fired.when);
		}
	}
	CHECK_EQ(poll_now(fd), POLLHUP);
	CHECK_EQ(read(fd, &event, sizeof(event)), 0);
	CHECK_EQ(info(fd).live, 0);
}

TEST(stop_hands_out_each_kind)
{
	in_each_setting(stop_each);
}

/* Several processes */

/* A child arms the timeouts, its parent moves them and reads, and a child cancels the rest. */
static void share_each(void)
{
	struct lot *lot = mmap(NULL, sizeof(*lot), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct twheel_op ops[NR];
	int fd = open_for(NR);
	pid_t pid = fork_child();

	CHECK(lot != MAP_FAILED);
	if (!pid) {
		if (setting.way == RING)
			setting.ring = ring_open(0);
		arm_lot(fd, lot, far());
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(info(fd).live, NR);
	lot->when = soon();
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_move(lot, i, &kinds[i], lot->when, i);
	run(fd, ops, NR);
	check_results(ops, 0);
	let_fire(fd, NR);
	read_lot(fd, lot);
	pid = fork_child();
	if (!pid) {
		cancel_rest(fd);
		_exit(0);
	}
	join_child(pid);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

TEST(each_kind_can_be_shared)
{
	in_each_setting(share_each);
}
