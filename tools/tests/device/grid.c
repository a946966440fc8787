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
static __u32 nr_expirations(const struct kind *kind)
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

enum method { SUBMIT, RING, NR_METHODS };
enum test_clock { MONOTONIC, NAMESPACE, REALTIME, NR_CLOCKS };

static const char * const method_names[] = { "submit", "ring" };
static const char * const clock_names[] = { "monotonic", "namespace", "realtime" };

static struct setting {
	enum method method;
	enum test_clock test_clock;
	clockid_t clock;
	__s64 ahead_ns;			/* distance of CLOCK_REALTIME from the right time */
	struct ring ring;
	void (*body)(void);
} setting;

static __u64 setting_now(void)
{
	return clock_ns(setting.clock);
}

/* A deadline that let_fire() makes due. */
static __u64 soon(void)
{
	return setting_now() + (setting.test_clock == REALTIME ? HOUR : SOON);
}

static __u64 far(void)
{
	return setting_now() + 1000 * HOUR;
}

/*
 * Wait until @nr timeouts have fired. A step back makes none fire, and the step forward
 * makes all due.
 */
static void let_fire(int fd, __u32 nr)
{
	if (setting.test_clock == REALTIME) {
		__u32 before = info(fd).ready;

		set_realtime(setting.ahead_ns - HOUR);
		sleep_ns(2 * MS);
		CHECK_EQ(info(fd).ready, before);
		setting.ahead_ns += 2 * HOUR;
		set_realtime(setting.ahead_ns);
	}
	wait_ready(fd, nr);
}

static int open_with_limit(__u32 limit)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, limit);

	skip_without_cells();
	if (setting.test_clock == REALTIME)
		CHECK_EQ(try_setup(fd, setup_clock(CLOCK_REALTIME)), 0);
	return fd;
}

/* Returns the number of operations that the kernel has tried, or -errno. */
static int submit_by_ring(int fd, struct twheel_op *ops, __u32 nr)
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
static void submit_in_setting(int fd, struct twheel_op *ops, __u32 nr)
{
	if (setting.method == SUBMIT)
		submit(fd, ops, nr);
	else
		CHECK_EQ(submit_by_ring(fd, ops, nr), nr);
}

static void run_in_setting(void)
{
	if (setting.test_clock == NAMESPACE)
		enter_time_namespace(AHEAD, AHEAD);
	if (setting.test_clock == REALTIME) {
		setting.clock = CLOCK_REALTIME;
		skip_outside_test_machine();
	}
	if (setting.method == RING) {
		skip_without_commands(device_open(O_RDWR));
		setting.ring = ring_open(0);
	}
	setting.body();
}

/* Settings that do not exist are left out; if there are none, the test is skipped. */
static void run_in_each_setting(void (*body)(void))
{
	int ran = 0;

	save_realtime_base();
	for (int i = 0; i < NR_METHODS * NR_CLOCKS; i++) {
		int status;

		setting = (struct setting) {
			.method = i % NR_METHODS,
			.test_clock = i / NR_METHODS,
			.clock = CLOCK_MONOTONIC,
			.body = body,
		};
		status = status_of(run_in_setting);
		if (WIFEXITED(status) && WEXITSTATUS(status) == KTAP_EXIT_SKIP)
			continue;
		if (setting.test_clock == REALTIME)
			set_realtime(0);
		if (status)
			ktap_note("in %s, by %s", clock_names[setting.test_clock],
				  method_names[setting.method]);
		exit_unless_passed(status);
		ran++;
	}
	if (!ran)
		ktap_skip("no setting for it");
	ktap_note("%d settings of %d", ran, NR_METHODS * NR_CLOCKS);
}

/* Timeouts of all kinds: the cookie is the index in this structure and in kinds[] */

struct timeout_set {
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

static void arm_set(int fd, struct timeout_set *set, __u64 when)
{
	struct twheel_op ops[NR];

	*set = (struct timeout_set) { .when = when };
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_of(&kinds[i], when, i);
	submit_in_setting(fd, ops, NR);
	check_results(ops, 0);
	for (size_t i = 0; i < NR; i++) {
		set->kind[i] = &kinds[i];
		set->id[i] = ops[i].id;
	}
}

/* Make timeout @i of @set one of kind @to. */
static struct twheel_op prepare_mod(const struct timeout_set *set, size_t i, const struct kind *to,
				    __u64 when, __u64 cookie)
{
	struct twheel_op op = op_of(to, when, cookie);

	op.opcode = TWHEEL_OP_MOD;
	op.id = set->id[i];
	return op;
}

static void arm_fired_set(int fd, struct timeout_set *set)
{
	__u32 before = info(fd).ready;

	arm_set(fd, set, soon());
	let_fire(fd, before + NR);
}

static void record_event(struct timeout_set *set, const struct twheel_event *event)
{
	size_t i = event->cookie;
	const struct kind *kind = set->kind[i];
	__u64 before = set->count[i];

	CHECK(i < NR);
	CHECK_ROW(event->id, set->id[i], kind->name);
	CHECK(event->count >= 1);
	set->count[i] += event->count;
	if (kind->flags & TWHEEL_F_FIXED_DELAY) {
		CHECK_ROW(event->count, 1, kind->name);
		CHECK(before ? event->expires_ns > set->when : event->expires_ns == set->when);
		CHECK(event->fired_ns >= event->expires_ns);
	} else {
		CHECK_ROW(event->expires_ns, set->when + (set->count[i] - 1) * kind->interval_ns,
			  kind->name);
		CHECK(event->fired_ns >= set->when + before * kind->interval_ns);
	}
	CHECK(event->fired_ns <= setting_now());
	CHECK(event->expires_ns <= setting_now());
	CHECK(!set->over[i]);
	set->over[i] = set->count[i] == nr_expirations(kind);
	CHECK(set->over[i] || !nr_expirations(kind) || set->count[i] < nr_expirations(kind));
	CHECK_ROW(event->flags, set->over[i] ? TWHEEL_EV_LAST : 0, kind->name);
}

static bool all_ended(const struct timeout_set *set)
{
	for (size_t i = 0; i < NR; i++) {
		if (!set->count[i] || (nr_expirations(set->kind[i]) && !set->over[i]))
			return false;
	}
	return true;
}

/* Read until each timeout has fired, and until those that can end have ended. */
static void read_set(int fd, struct timeout_set *set)
{
	struct twheel_event events[5];

	while (!all_ended(set)) {
		int nr;

		wait_ready(fd, 1);
		nr = read_events(fd, events, ARRAY_SIZE(events));
		for (int i = 0; i < nr; i++)
			record_event(set, &events[i]);
		CHECK(nr > 0);
	}
}

static void prepare_cancels(const struct timeout_set *set, struct twheel_op *ops)
{
	for (size_t i = 0; i < NR; i++)
		ops[i] = op_cancel(set->id[i]);
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
	int fd = open_with_limit(NR), live = 0;
	struct timeout_set set;

	arm_set(fd, &set, soon());
	submit_in_setting(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
	let_fire(fd, NR);
	submit_in_setting(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
	read_set(fd, &set);
	for (size_t i = 0; i < NR; i++)
		live += !set.over[i];
	CHECK_EQ(info(fd).live, live);
	prepare_cancels(&set, ops);
	submit_in_setting(fd, ops, NR);
	for (size_t i = 0; i < NR; i++) {
		if (set.over[i] || is_cell(&kinds[i]))
			CHECK_ROW(ops[i].result, set.over[i] ? -ENOENT : TWHEEL_IDLE,
				  kinds[i].name);
		else
			CHECK(ops[i].result == 0 || ops[i].result == TWHEEL_WITHDRAWN);
	}
	CHECK_EQ(info(fd).live, 0);
	check_no_event(fd);
	arm_set(fd, &set, far());
	submit_in_setting(fd, &more, 1);
	CHECK_EQ(more.result, -EAGAIN);
}

TEST(each_kind_fires_at_its_deadlines)
{
	run_in_each_setting(fire_each);
}

/* MOD */

/* Make all timeouts of kind @to. A cell stays a cell, and no other timeout becomes one. */
static void mod_set_to(int fd, const struct kind *to, bool fired)
{
	struct twheel_op ops[NR];
	struct timeout_set set;
	__u64 when;

	if (fired)
		arm_fired_set(fd, &set);
	else
		arm_set(fd, &set, far());
	when = soon();
	for (size_t i = 0; i < NR; i++)
		ops[i] = prepare_mod(&set, i, to, when, i);
	submit_in_setting(fd, ops, NR);
	for (size_t i = 0; i < NR; i++) {
		if (is_cell(to) != is_cell(&kinds[i])) {
			CHECK_ROW(ops[i].result, -EINVAL, kinds[i].name);
			CHECK_EQ(cancel(fd, set.id[i]), fired ? TWHEEL_WITHDRAWN : 0);
			/* count it as read */
			set.count[i] = 1;
			set.over[i] = true;
		} else {
			CHECK_ROW(ops[i].result, fired ? TWHEEL_WITHDRAWN : 0, kinds[i].name);
		}
		set.kind[i] = to;
	}
	set.when = when;
	let_fire(fd, 1);
	read_set(fd, &set);
	cancel_rest(fd);
	check_no_event(fd);
}

static void move_each(void)
{
	int fd = open_with_limit(NR);

	for (size_t i = 0; i < NR; i++) {
		mod_set_to(fd, &kinds[i], false);
		mod_set_to(fd, &kinds[i], true);
	}
}

TEST(mod_makes_each_kind_of_each)
{
	run_in_each_setting(move_each);
}

/* CANCEL, CANCEL_ALL */

static void cancel_each(void)
{
	int fd = open_with_limit(2 * NR);
	struct timeout_set pending, fired;
	struct twheel_cancel_all all;
	struct twheel_op ops[NR];

	arm_set(fd, &pending, far());
	arm_fired_set(fd, &fired);
	prepare_cancels(&pending, ops);
	submit_in_setting(fd, ops, NR);
	check_results(ops, 0);
	prepare_cancels(&fired, ops);
	submit_in_setting(fd, ops, NR);
	check_results(ops, TWHEEL_WITHDRAWN);
	submit_in_setting(fd, ops, NR);
	check_results(ops, -ENOENT);
	check_no_event(fd);

	arm_set(fd, &pending, far());
	arm_fired_set(fd, &fired);
	all = cancel_rest(fd);
	CHECK_EQ(all.pending, NR);
	CHECK_EQ(all.withdrawn, NR);
	check_no_event(fd);
	/* the places are free again */
	arm_set(fd, &pending, far());
	arm_fired_set(fd, &fired);
	close(fd);
	check_no_event(open_with_limit(NR));
}

TEST(each_kind_can_be_cancelled)
{
	run_in_each_setting(cancel_each);
}

/* GET, LIST */

static void check_get(int fd, const struct timeout_set *set, __u64 remaining)
{
	struct twheel_op ops[NR];

	for (size_t i = 0; i < NR; i++)
		ops[i] = op_get(set->id[i]);
	submit_in_setting(fd, ops, NR);
	check_results(ops, 0);
	for (size_t i = 0; i < NR; i++) {
		CHECK_ROW(ops[i].cookie, i, kinds[i].name);
		CHECK_ROW(ops[i].interval_ns, kinds[i].interval_ns, kinds[i].name);
		CHECK_ROW(ops[i].repeat, kinds[i].repeat, kinds[i].name);
		CHECK(ops[i].expires_ns <= remaining);
		CHECK(ops[i].expires_ns >= remaining / 2);
	}
}

static void check_listed(int fd, const struct timeout_set *set, __u64 remaining, __u32 state)
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
		CHECK_ROW(entries[n].id, set->id[i], kinds[i].name);
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
	int fd = open_with_limit(NR);
	struct timeout_set set;

	arm_set(fd, &set, far());
	check_get(fd, &set, 1000 * HOUR);
	check_listed(fd, &set, 1000 * HOUR, TWHEEL_STATE_PENDING);
	CHECK_EQ(poll_now(fd), 0);
	cancel_rest(fd);
	arm_fired_set(fd, &set);
	check_get(fd, &set, 0);
	check_listed(fd, &set, 0, TWHEEL_STATE_READY);
	CHECK_EQ(poll_now(fd), POLLIN);
	read_set(fd, &set);
}

TEST(each_kind_is_found)
{
	run_in_each_setting(find_each);
}

/* STOP */

static void stop_each(void)
{
	struct twheel_op op = op_of(&kinds[0], far(), 0);
	int fd = open_with_limit(2 * NR);
	bool seen[2][NR] = { 0 };
	struct timeout_set pending, fired;
	struct twheel_event event;

	arm_set(fd, &pending, far());
	arm_fired_set(fd, &fired);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).live, 2 * NR);
	submit_in_setting(fd, &op, 1);
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
	run_in_each_setting(stop_each);
}

/* Several processes */

/* A child arms the timeouts, its parent moves them and reads, and a child cancels the rest. */
static void share_each(void)
{
	struct timeout_set *set = mmap(NULL, sizeof(*set), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct twheel_op ops[NR];
	int fd = open_with_limit(NR);
	pid_t pid = fork_child();

	CHECK(set != MAP_FAILED);
	if (!pid) {
		if (setting.method == RING)
			setting.ring = ring_open(0);
		arm_set(fd, set, far());
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(info(fd).live, NR);
	set->when = soon();
	for (size_t i = 0; i < NR; i++)
		ops[i] = prepare_mod(set, i, &kinds[i], set->when, i);
	submit_in_setting(fd, ops, NR);
	check_results(ops, 0);
	let_fire(fd, NR);
	read_set(fd, set);
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
	run_in_each_setting(share_each);
}
