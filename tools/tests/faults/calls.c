// SPDX-License-Identifier: GPL-2.0
/*
 * Every system call on the device, with each allocation and each copy made to fail in turn:
 * each one alone, and each one together with all that follow.
 *
 * A call that fails returns ENOMEM or EFAULT and has changed nothing; repeated, it
 * succeeds. A call that succeeds nevertheless has done its work. At the end, no resource is
 * still counted.
 */
#define KTAP_NO_MAIN
#define _GNU_SOURCE
#define KTAP_HANG_S	300

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "cells.h"
#include "inject.h"
#include "privilege.h"

#define PLACES_MAX	2000
#define MINUTE		(60 * NSEC_PER_SEC)

#define NR_READY	100		/* more than one lock hold copies */
#define NR_OPS		100		/* likewise, and more than a page of records */
#define NR_ENTRIES	512
#define FORFEITED	(-12345)	/* the result was not written */

/* Data of the calls. Nothing in it is allocated during a call. */
struct world {
	int fd;
	int other;			/* descriptor that the call has opened, or -1 */
	int pipe[2];
	__u64 pending;
	__u64 ready;
	__u64 cell;			/* armed for HOUR */
	struct twheel_cell *cells;
	struct twheel_op op;
	struct twheel_op ops[NR_OPS];
	struct twheel_event events[NR_READY];
	struct twheel_list_entry entries[NR_ENTRIES];
	struct twheel_cancel_all all;
	struct twheel_info info;
	struct twheel_stats stats;
	__u32 nr;
	char text[512];
};

static struct world world;

struct call {
	void (*prepare)(struct world *w);
	long (*make)(void *w);
	void (*check)(struct world *w, long ret);	/* called after success */
	int forfeits;			/* results may be lost that have taken effect */
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

static void check_account(const struct twheel_stats *s)
{
	CHECK_EQ(s->armed, s->cancelled + s->withdrawn + s->ended + s->live);
	CHECK(s->ready <= s->live);
}

static __u32 list_all(int fd, struct twheel_list_entry *entries)
{
	struct twheel_list list = {
		.entries = (uintptr_t)entries,
		.nr = NR_ENTRIES,
		.entry_size = sizeof(*entries),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK(list.done < NR_ENTRIES);
	return list.done;
}

static void take(struct snapshot *s, int fd)
{
	s->info = info(fd);
	s->stats = file_stats(fd);
	s->nr = list_all(fd, s->entries);
	s->when = now_ns();
}

static void check_same_entry(const struct twheel_list_entry *a, const struct twheel_list_entry *b)
{
	__u64 passed = after.when - before.when + MINUTE;

	CHECK_EQ(a->id, b->id);
	CHECK_EQ(a->cookie, b->cookie);
	CHECK_EQ(a->interval_ns, b->interval_ns);
	CHECK_EQ(a->repeat, b->repeat);
	CHECK_EQ(a->slack_us, b->slack_us);
	CHECK_EQ(a->state, b->state);
	CHECK_EQ(a->flags, b->flags);
	CHECK(a->remaining_ns >= b->remaining_ns);
	CHECK(a->remaining_ns - b->remaining_ns < passed);
}

static void check_nothing_changed(int fd)
{
	take(&after, fd);
	/* A page that was added before the fault is there for the next try. */
	CHECK(after.info.user_timeouts >= before.info.user_timeouts);
	before.info.user_timeouts = after.info.user_timeouts;
	CHECK(!memcmp(&before.info, &after.info, sizeof(before.info)));
	CHECK(!memcmp(&before.stats, &after.stats, offsetof(struct twheel_stats, lateness)));
	CHECK_EQ(after.nr, before.nr);
	for (__u32 i = 0; i < before.nr; i++)
		check_same_entry(&before.entries[i], &after.entries[i]);
}

/* Resources that are counted */

/* There is room for one page of records, so a page that is still counted leaves none. */
static void use_the_only_page(void)
{
	arm(device_open(O_RDWR), HOUR, 0);
}

static const struct twheel_setup small_wheel = { .slots = 16, .max_timeouts = 16 };

static void use_the_only_wheel(void)
{
	set_capabilities(CAP(DAC_OVERRIDE));
	device_open_setup(O_RDWR, small_wheel);
}

static void try_the_only_wheel(void)
{
	set_capabilities(CAP(DAC_OVERRIDE));
	_exit(try_setup(device_open(O_RDWR), small_wheel) ? 1 : 0);
}

static int wheel_fits(__u32 bytes)
{
	__u32 limit = parameter("max_wheel_bytes");
	int status;
	pid_t pid;

	set_parameter("max_wheel_bytes", bytes);
	pid = fork();
	if (!pid)
		try_the_only_wheel();
	waitpid(pid, &status, 0);
	set_parameter("max_wheel_bytes", limit);
	CHECK(WIFEXITED(status));
	return !WEXITSTATUS(status);
}

/*
 * The smallest limit that allows the wheel. The search takes many processes, so main() does
 * it once.
 */
static __u32 wheel_bytes(void)
{
	static __u32 bytes;
	__u32 step;

	for (step = bytes ? 0 : 1U << 26; step; step /= 2)
		bytes += wheel_fits(bytes + step) ? 0 : step;
	return bytes + 1;
}

static void check_nothing_counted(void)
{
	/* A record is larger than an operation, and less than twice as large. */
	__u32 page = page_size() / sizeof(struct twheel_op);

	with_parameter("max_all_timeouts", page, use_the_only_page);
	with_parameter("max_user_timeouts", page, use_the_only_page);
	with_parameter("max_wheel_bytes", wheel_bytes(), use_the_only_wheel);
}

/* Injection */

/* Whether all copies and allocations after the first failing one fail too. */
static int all_fail;

static void end(struct world *w)
{
	if (w->cells)
		munmap(w->cells, page_size());
	for (int i = 0; i < 2; i++)
		close(w->pipe[i]);
	close(w->other);
	close(w->fd);
}

static void begin(struct world *w, const struct call *call)
{
	memset(w, 0, sizeof(*w));
	w->fd = -1;
	w->other = -1;
	w->pipe[0] = -1;
	w->pipe[1] = -1;
	call->prepare(w);
	if (w->fd >= 0)
		take(&before, w->fd);
}

/* A fault has occurred during the call. */
static void judge(const struct call *call, struct world *w, long ret)
{
	if (ret < 0) {
		CHECK(ret == -ENOMEM || ret == -EFAULT);
		if (w->fd >= 0 && !call->forfeits)
			check_nothing_changed(w->fd);
		ret = call->make(w);
	}
	if (ret < 0)
		ktap_fail("without a fault: %s", strerror(-ret));
	call->check(w, ret);
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
		CHECK(++place < PLACES_MAX);
		begin(&world, call);
		injected = victim_fails(v, place, all, call->make, &world);
		judge(call, &world, v->ret);
		end(&world);
	} while (injected);
	return place - 1;
}

static void fail_everywhere(const struct call *call)
{
	struct victim victim;
	unsigned int places;

	fault_prepare();
	victim_start(&victim);
	places = fail_in_turn(call, &victim, 0);
	fail_in_turn(call, &victim, 1);
	fault_note(places);
	check_nothing_counted();
}

#define CALL(prepare_, make_, check_, ...)	((struct call) {		\
	.prepare = prepare_, .make = make_, .check = check_, ##__VA_ARGS__ })

#define FAIL_EVERYWHERE(...)	fail_everywhere(&CALL(__VA_ARGS__))

static long error_or(long ret)
{
	return ret < 0 ? -errno : ret;
}

/* A file in the usual state */

static void new_file(struct world *w)
{
	w->fd = device_open(O_RDWR | O_NONBLOCK);
}

/* A file with one pending timeout and one unread event. */
static void file_with_two(struct world *w)
{
	new_file(w);
	w->pending = arm(w->fd, HOUR, 1);
	w->ready = arm_fired(w->fd, 2);
}

static void check_live(struct world *w, __u32 live, __u32 ready)
{
	CHECK_EQ(info(w->fd).live, live);
	CHECK_EQ(info(w->fd).ready, ready);
}

/* open, close and descriptors */

static void no_file(struct world *w)
{
	(void)w;
}

static long make_open(void *arg)
{
	struct world *w = arg;

	return error_or(w->other = open(DEVICE, O_RDWR | O_CLOEXEC));
}

static void check_open(struct world *w, long ret)
{
	(void)ret;
	CHECK_EQ(get(w->other, arm(w->other, HOUR, 0)), 0);
}

TEST(open_fails_cleanly)
{
	FAIL_EVERYWHERE(no_file, make_open, check_open);
}

static void file_to_close(struct world *w)
{
	file_with_two(w);
	arm_many(w->fd, NR_OPS, 0, NSEC_PER_MSEC, 0, NULL);
	w->other = w->fd;
	w->fd = -1;
}

static long make_close(void *arg)
{
	struct world *w = arg;
	int fd = w->other;

	w->other = -1;
	return error_or(close(fd));
}

static void check_close(struct world *w, long ret)
{
	CHECK_EQ(w->other, -1);
	CHECK_EQ(ret, 0);
}

/* Releasing a file needs no memory, so it cannot fail. */
TEST(close_never_fails)
{
	struct call call = CALL(file_to_close, make_close, check_close);
	struct victim victim;

	fault_prepare();
	victim_start(&victim);
	fail_in_turn(&call, &victim, 0);
	fail_in_turn(&call, &victim, 1);
	check_nothing_counted();
}

static long make_dup(void *arg)
{
	struct world *w = arg;

	/* A high number, so that the table of descriptors must grow. */
	return error_or(w->other = fcntl(w->fd, F_DUPFD_CLOEXEC, 600));
}

static void check_dup(struct world *w, long ret)
{
	(void)ret;
	CHECK_EQ(get(w->other, w->pending), 0);
	close(w->fd);
	w->fd = w->other;
	w->other = -1;
	check_live(w, 2, 1);
}

TEST(duplicate_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_dup, check_dup);
}

static long make_fdinfo(void *arg)
{
	struct world *w = arg;
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

static void check_fdinfo(struct world *w, long ret)
{
	(void)ret;
	CHECK(strstr(w->text, "live:\t2\n"));
}

TEST(fdinfo_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_fdinfo, check_fdinfo);
}

/* SETUP */

static long make_shared_setup(void *arg)
{
	struct world *w = arg;

	return try_setup(w->fd, setup_clock(CLOCK_BOOTTIME));
}

static void check_shared_setup(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(info(w->fd).clock, CLOCK_BOOTTIME);
	CHECK_EQ(try_setup(w->fd, setup_clock(CLOCK_BOOTTIME)), -EBUSY);
}

TEST(setup_fails_cleanly)
{
	FAIL_EVERYWHERE(new_file, make_shared_setup, check_shared_setup);
}

static long make_private_setup(void *arg)
{
	struct world *w = arg;

	return try_setup(w->fd, (struct twheel_setup) {
		.tick_ns = 2 * NSEC_PER_MSEC, .slots = 1024 });
}

static void check_private_setup(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK(info(w->fd).flags & TWHEEL_INFO_PRIVATE);
	arm_fired(w->fd, 0);
	CHECK_EQ(read_event(w->fd).cookie, 0);
}

TEST(setup_of_a_wheel_fails_cleanly)
{
	FAIL_EVERYWHERE(new_file, make_private_setup, check_private_setup);
}

/* Single operations */

static long make_op(struct world *w, unsigned long command)
{
	return device_ioctl(w->fd, command, &w->op);
}

static long make_arm(void *arg)
{
	struct world *w = arg;

	w->op = op_arm(HOUR, w->op.flags, 3);
	return make_op(w, TWHEEL_IOC_ARM);
}

static void check_arm(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(state_of(w->fd, w->op.id).cookie, 3);
	CHECK_EQ(info(w->fd).live, before.info.live + 1);
}

TEST(arm_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_arm, check_arm);
}

TEST(first_arm_fails_cleanly)
{
	FAIL_EVERYWHERE(new_file, make_arm, check_arm);
}

/* The next timeout needs another page, for which the table has room. */
static void file_with_a_full_page(struct world *w)
{
	new_file(w);
	do
		arm(w->fd, HOUR, 0);
	while (info(w->fd).live < 46);
}

TEST(arm_that_needs_a_page_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_a_full_page, make_arm, check_arm);
}

static void file_with_a_full_table(struct world *w)
{
	new_file(w);
	/* Eight pages; the next one needs a larger table. */
	do
		arm(w->fd, HOUR, 0);
	while (info(w->fd).live < 8 * 46);
}

TEST(arm_that_grows_the_table_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_a_full_table, make_arm, check_arm);
}

static void file_without_cells(struct world *w)
{
	file_with_two(w);
	w->op.flags = TWHEEL_F_CELL;
}

TEST(arm_of_a_cell_fails_cleanly)
{
	FAIL_EVERYWHERE(file_without_cells, make_arm, check_arm);
}

static void new_file_for_a_cell(struct world *w)
{
	new_file(w);
	w->op.flags = TWHEEL_F_CELL;
}

TEST(first_arm_of_a_cell_fails_cleanly)
{
	FAIL_EVERYWHERE(new_file_for_a_cell, make_arm, check_arm);
}

static long make_mod(void *arg)
{
	struct world *w = arg;

	w->op = op_mod(w->pending, 2 * HOUR, w->op.flags, 4);
	return make_op(w, TWHEEL_IOC_MOD);
}

static void check_mod(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(state_of(w->fd, w->pending).cookie, 4);
	CHECK(state_of(w->fd, w->pending).expires_ns > HOUR);
	check_live(w, 2, 1);
}

TEST(mod_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_mod, check_mod);
}

static void file_with_a_cell(struct world *w)
{
	file_with_two(w);
	w->cell = arm_op(w->fd, op_arm(HOUR, TWHEEL_F_CELL, 5));
}

static long make_mod_of_a_cell(void *arg)
{
	struct world *w = arg;

	w->op = op_mod(w->cell, 2 * HOUR, TWHEEL_F_CELL, 6);
	return make_op(w, TWHEEL_IOC_MOD);
}

static void check_mod_of_a_cell(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(state_of(w->fd, w->cell).cookie, 6);
	CHECK(state_of(w->fd, w->cell).expires_ns > HOUR);
	check_live(w, 3, 1);
}

TEST(mod_of_a_cell_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_a_cell, make_mod_of_a_cell, check_mod_of_a_cell);
}

static long make_kick(void *arg)
{
	struct world *w = arg;

	w->op = op_kick(w->cell);
	return make_op(w, TWHEEL_IOC_KICK);
}

static void check_kick(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK(state_of(w->fd, w->cell).expires_ns <= HOUR);
	CHECK_EQ(file_stats(w->fd).kicks, before.stats.kicks + 1);
	check_live(w, 3, 1);
}

TEST(kick_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_a_cell, make_kick, check_kick);
}

static long make_mod_of_ready(void *arg)
{
	struct world *w = arg;

	w->op = op_mod(w->ready, HOUR, 0, 4);
	return make_op(w, TWHEEL_IOC_MOD);
}

static void check_mod_of_ready(struct world *w, long ret)
{
	CHECK_EQ(ret, TWHEEL_WITHDRAWN);
	CHECK_EQ(state_of(w->fd, w->ready).cookie, 4);
	check_live(w, 2, 0);
}

TEST(mod_of_an_unread_one_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_mod_of_ready, check_mod_of_ready);
}

static long make_cancel(void *arg)
{
	struct world *w = arg;

	w->op = op_cancel(w->pending);
	return make_op(w, TWHEEL_IOC_CANCEL);
}

static void check_cancel(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(get(w->fd, w->pending), -ENOENT);
	check_live(w, 1, 1);
}

TEST(cancel_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_cancel, check_cancel);
}

static long make_get(void *arg)
{
	struct world *w = arg;

	w->op = op_get(w->pending);
	return make_op(w, TWHEEL_IOC_GET);
}

static void check_get(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(w->op.cookie, 1);
	check_live(w, 2, 1);
}

TEST(get_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_get, check_get);
}

/* SUBMIT */

/* Arms; every fourth one is of a cell. */
static void file_to_submit_to(struct world *w)
{
	file_with_two(w);
	for (__u32 i = 0; i < NR_OPS; i++)
		w->ops[i] = op_arm(HOUR, i % 4 ? 0 : TWHEEL_F_CELL, 100 + i);
}

static long make_submit(void *arg)
{
	struct world *w = arg;
	struct twheel_submit submit = {
		.ops = (uintptr_t)w->ops,
		.nr = NR_OPS,
		.op_size = sizeof(w->ops[0]),
	};
	int ret;

	for (__u32 i = 0; i < NR_OPS; i++)
		w->ops[i].result = FORFEITED;
	ret = device_ioctl(w->fd, TWHEEL_IOC_SUBMIT, &submit);
	w->nr = submit.done;
	return ret;
}

/* Check the result of an arm with @cookie. */
static void check_arm_in(struct world *w, const struct twheel_op *op, __u64 cookie)
{
	CHECK(op->result == 0 || op->result == -ENOMEM);
	if (op->result)
		return;
	CHECK_EQ(state_of(w->fd, op->id).cookie, cookie);
	CHECK_EQ(cancel(w->fd, op->id), 0);
}

/* The results of the last page may be lost, although the operations have taken effect. */
static void check_submit(struct world *w, long ret)
{
	__u32 i = 0, live, forfeited = 0;

	CHECK_EQ(ret, 0);
	live = info(w->fd).live;
	for (; i < w->nr && w->ops[i].result != FORFEITED; i++)
		live -= !w->ops[i].result;
	for (; i < w->nr; i++, forfeited++)
		CHECK_EQ(w->ops[i].result, FORFEITED);
	CHECK(forfeited <= page_size() / sizeof(w->ops[0]));
	CHECK(live >= 2 && live - 2 <= forfeited);
	for (; i < NR_OPS; i++)
		CHECK_EQ(w->ops[i].result, FORFEITED);
	for (i = 0; i < w->nr - forfeited; i++)
		check_arm_in(w, &w->ops[i], 100 + i);
	CHECK_EQ(info(w->fd).live, live);
}

TEST(submit_of_arms_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_submit_to, make_submit, check_submit);
}

static void file_to_cancel_in(struct world *w)
{
	__u64 ids[NR_OPS];

	file_with_two(w);
	arm_many(w->fd, NR_OPS, HOUR, 0, 100, ids);
	for (__u32 i = 0; i < NR_OPS; i++)
		w->ops[i] = op_cancel(ids[i]);
}

/*
 * The cancels that were tried have taken effect, even if a result is lost; the others have
 * not.
 */
static void check_submit_of_cancels(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	for (__u32 i = 0; i < w->nr; i++)
		CHECK(w->ops[i].result == 0 || w->ops[i].result == FORFEITED);
	for (__u32 i = 0; i < NR_OPS; i++)
		CHECK_EQ(get(w->fd, w->ops[i].id), i < w->nr ? -ENOENT : 0);
	check_live(w, 2 + NR_OPS - w->nr, 1);
}

TEST(submit_of_cancels_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_cancel_in, make_submit, check_submit_of_cancels);
}

static void file_to_withdraw_in(struct world *w)
{
	struct twheel_list_entry entries[NR_ENTRIES];
	__u32 nr;

	new_file(w);
	arm_many(w->fd, NR_OPS, 0, 0, 100, NULL);
	wait_ready(w->fd, NR_OPS);
	nr = list_all(w->fd, entries);
	CHECK_EQ(nr, NR_OPS);
	for (__u32 i = 0; i < NR_OPS; i++)
		w->ops[i] = op_cancel(entries[i].id);
}

/* A copy that fails loses at most one result, because later ones can be written. */
static void check_submit_of_withdrawals(struct world *w, long ret)
{
	__u32 forfeited = 0;

	CHECK_EQ(ret, 0);
	for (__u32 i = 0; i < w->nr; i++) {
		CHECK(w->ops[i].result == TWHEEL_WITHDRAWN || w->ops[i].result == FORFEITED);
		forfeited += w->ops[i].result == FORFEITED;
	}
	CHECK(all_fail || forfeited <= 1);
	for (__u32 i = 0; i < NR_OPS; i++)
		CHECK_EQ(get(w->fd, w->ops[i].id), i < w->nr ? -ENOENT : 0);
	check_live(w, NR_OPS - w->nr, NR_OPS - w->nr);
}

TEST(submit_of_withdrawals_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_withdraw_in, make_submit, check_submit_of_withdrawals);
}

/* The file as a whole */

static long make_cancel_all(void *arg)
{
	struct world *w = arg;

	memset(&w->all, 0, sizeof(w->all));
	return device_ioctl(w->fd, TWHEEL_IOC_CANCEL_ALL, &w->all);
}

/* If the counts cannot be written, either all timeouts are cancelled or none. */
static void check_cancel_all(struct world *w, long ret)
{
	struct twheel_stats s = file_stats(w->fd);

	CHECK_EQ(ret, 0);
	CHECK(w->all.pending == 1 || w->all.pending == 0);
	CHECK_EQ(w->all.withdrawn, w->all.pending);
	CHECK_EQ(s.cancelled, 1);
	CHECK_EQ(s.withdrawn, 1);
	check_live(w, 0, 0);
}

TEST(cancel_all_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_cancel_all, check_cancel_all, .forfeits = 1);
}

static long make_list(void *arg)
{
	struct world *w = arg;
	struct twheel_list list = {
		.entries = (uintptr_t)w->entries,
		.nr = NR_ENTRIES,
		.entry_size = sizeof(w->entries[0]),
	};
	long ret = device_ioctl(w->fd, TWHEEL_IOC_LIST, &list);

	w->nr = list.done;
	return ret;
}

static void file_to_list(struct world *w)
{
	file_with_two(w);
	arm_many(w->fd, NR_OPS, HOUR, 0, 100, NULL);
}

/* LIST may return only some entries, but these are right. */
static void check_list(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK(w->nr && w->nr <= 2 + NR_OPS);
	for (__u32 i = 0; i < w->nr; i++)
		CHECK_EQ(state_of(w->fd, w->entries[i].id).cookie, w->entries[i].cookie);
}

TEST(list_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_list, make_list, check_list);
}

static long make_stats(void *arg)
{
	struct world *w = arg;

	return device_ioctl(w->fd, TWHEEL_IOC_STATS, &w->stats);
}

static void check_stats(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(w->stats.armed, 2);
	check_account(&w->stats);
}

TEST(stats_fail_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_stats, check_stats);
}

static long make_info(void *arg)
{
	struct world *w = arg;

	return device_ioctl(w->fd, TWHEEL_IOC_INFO, &w->info);
}

static void check_info(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(w->info.live, 2);
}

TEST(info_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_info, check_info);
}

static long make_stop(void *arg)
{
	struct world *w = arg;

	return stop(w->fd);
}

static void check_stop(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	CHECK_EQ(read_any_event(w->fd).cookie, 2);
	CHECK_EQ(read_any_event(w->fd).flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	check_live(w, 0, 0);
}

/* STOP needs no memory. */
TEST(stop_never_fails)
{
	struct call call = CALL(file_with_two, make_stop, check_stop);
	struct victim victim;

	fault_prepare();
	victim_start(&victim);
	CHECK_EQ(fail_in_turn(&call, &victim, 0), 0);
}

/* read and poll */

static void file_to_read(struct world *w)
{
	new_file(w);
	arm_many(w->fd, NR_READY, 0, 0, 0, NULL);
	wait_ready(w->fd, NR_READY);
}

static long make_read(void *arg)
{
	struct world *w = arg;

	return error_or(read(w->fd, w->events, sizeof(w->events)));
}

static long make_readv(void *arg)
{
	struct world *w = arg;
	size_t half = sizeof(w->events) / 2;
	struct iovec iov[] = { { w->events, half }, { (char *)w->events + half, half } };

	return error_or(readv(w->fd, iov, ARRAY_SIZE(iov)));
}

/*
 * Each event that the call has not returned is still there, once. The order is not checked,
 * because the test may have armed on several CPUs.
 */
static void check_read(struct world *w, long ret)
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

TEST(read_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_read, make_read, check_read);
}

TEST(readv_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_read, make_readv, check_read);
}

static long make_poll(void *arg)
{
	struct world *w = arg;
	struct pollfd pollfd = { .fd = w->fd, .events = POLLIN };

	return error_or(poll(&pollfd, 1, 0));
}

static void check_poll(struct world *w, long ret)
{
	CHECK_EQ(ret, 1);
	check_live(w, 2, 1);
}

TEST(poll_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_poll, check_poll);
}

static void file_to_watch(struct world *w)
{
	file_with_two(w);
	w->other = epoll_create1(EPOLL_CLOEXEC);
	CHECK(w->other >= 0);
}

static long make_watch(void *arg)
{
	struct world *w = arg;
	struct epoll_event event = { .events = EPOLLIN };

	return error_or(epoll_ctl(w->other, EPOLL_CTL_ADD, w->fd, &event));
}

static void check_watch(struct world *w, long ret)
{
	struct epoll_event event;

	CHECK_EQ(ret, 0);
	CHECK_EQ(epoll_wait(w->other, &event, 1, 0), 1);
	CHECK_EQ(event.events, EPOLLIN);
}

TEST(epoll_fails_cleanly)
{
	FAIL_EVERYWHERE(file_to_watch, make_watch, check_watch);
}

/* mmap */

static long make_mmap(void *arg)
{
	struct world *w = arg;
	void *cells = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);

	if (cells == MAP_FAILED)
		return -errno;
	w->cells = cells;
	return 0;
}

static void check_mmap(struct world *w, long ret)
{
	CHECK_EQ(ret, 0);
	exchange(w->cells, 255, 7);
	CHECK_EQ(word_of(w->cells, 255), 7);
}

TEST(mmap_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_two, make_mmap, check_mmap);
}

static void file_with_a_mapping(struct world *w)
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
	struct world *w = arg;

	return error_or(read(w->pipe[0], &w->cells->word, sizeof(w->cells->word)));
}

static void check_fault(struct world *w, long ret)
{
	CHECK_EQ(ret, sizeof(w->cells->word));
	CHECK_EQ(word_of(w->cells, 0), 8);
}

TEST(fault_in_the_mapping_fails_cleanly)
{
	FAIL_EVERYWHERE(file_with_a_mapping, make_fault, check_fault);
}

int main(int argc, char **argv)
{
	wheel_bytes();
	return ktap_main(argc, argv);
}
