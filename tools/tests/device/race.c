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
#include "cpu.h"

#define AROUND		(3 * NSEC_PER_MSEC)	/* time around expiry in which operations happen */

#define COOKIES		1000000
#define WORKERS		3
#define READERS		2
#define BATCH		128

/*
 * Batches of several threads on one file. Each arming ends in exactly one way: it was cancelled or
 * withdrawn, or its event is read once, not early. Each has a unique cookie. MOD meets many
 * timeouts on their way to the sink, which the fuzzer meets rarely.
 */

/* The account */

enum fate { UNKNOWN, GONE, READ };	/* end of an arming, as far as workers know */

struct account {
	int fd;
	__u64 until;
	int stop;			/* tells readers to end */
	__u32 cookies;			/* number of cookies used */
	__u8 fate[COOKIES];
	__u8 seen[COOKIES];		/* number of events read */
	__u64 earliest[COOKIES];
};

static struct account *account_open(__u64 duration)
{
	struct account *account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(account != MAP_FAILED);
	account->fd = device_open(O_RDWR | O_NONBLOCK);
	account->until = now_ns() + duration;
	return account;
}

/* Returns a new cookie for a deadline @delay from now. */
static __u32 new_cookie(struct account *account, __u64 delay)
{
	__u32 cookie = __atomic_fetch_add(&account->cookies, 1, __ATOMIC_RELAXED);

	CHECK(cookie < COOKIES);
	account->earliest[cookie] = now_ns() + delay;
	return cookie;
}

static int time_is_up(const struct account *account)
{
	return now_ns() > account->until ||
	       PEEK(account->cookies) > COOKIES - 4096;
}

static void enter_event(struct account *account, const struct twheel_event *event)
{
	check_event(event);
	CHECK(event->cookie < COOKIES);
	CHECK(event->expires_ns >= account->earliest[event->cookie]);
	CHECK_EQ(__atomic_fetch_add(&account->seen[event->cookie], 1, __ATOMIC_RELAXED), 0);
}

static void *read_for_account(void *arg)
{
	struct account *account = arg;
	struct pollfd pollfd = { .fd = account->fd, .events = POLLIN };
	struct twheel_event events[16];

	while (!PEEK(account->stop)) {
		int nr;

		CHECK(poll(&pollfd, 1, 20) >= 0);
		nr = read_events(account->fd, events, ARRAY_SIZE(events));
		CHECK(nr > 0 || nr == -EAGAIN);
		for (int i = 0; i < nr; i++)
			enter_event(account, &events[i]);
	}
	return NULL;
}

/* Timeouts that were not cancelled fire; then none is left, and the account must agree. */
static void account_close(struct account *account, pthread_t *readers)
{
	WAIT_FOR(!info(account->fd).live);
	SET(account->stop, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	check_no_event(account->fd);
	CHECK_EQ(info(account->fd).ready, 0);
	for (__u32 i = 0; i < account->cookies; i++)
		CHECK_EQ(account->seen[i], account->fate[i] != GONE);
	ktap_note("%u timeouts", account->cookies);
}

/* The counts of INFO must never contradict each other, even under load. */
static void watch_counts(const struct account *account)
{
	while (!time_is_up(account)) {
		struct twheel_info i = info(account->fd);

		CHECK(i.ready <= i.live);
		CHECK(i.live <= WORKERS * BATCH);
		sleep_ns(NSEC_PER_MSEC);
	}
}

static void run_account(struct account *account, void *(*work)(void *))
{
	pthread_t workers[WORKERS], readers[READERS];

	for (int i = 0; i < READERS; i++)
		CHECK_EQ(pthread_create(&readers[i], NULL, read_for_account, account), 0);
	for (int i = 0; i < WORKERS; i++)
		CHECK_EQ(pthread_create(&workers[i], NULL, work, account), 0);
	watch_counts(account);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	account_close(account, readers);
}

/* Returns true if CANCEL or MOD has found the timeout, so that its event is never read. */
static bool is_gone(int ret)
{
	CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN || ret == -ENOENT);
	return ret != -ENOENT;
}

/* Batches */

static void work_batch_arm(struct account *account, struct twheel_op *ops, __u64 *seed)
{
	for (int i = 0; i < BATCH; i++) {
		__u64 delay = random_below(seed, AROUND);

		ops[i] = op_arm(delay, 0, new_cookie(account, delay));
	}
	submit(account->fd, ops, BATCH);
	for (int i = 0; i < BATCH; i++)
		CHECK_EQ(ops[i].result, 0);
}

static void work_batch_mod(struct account *account, struct twheel_op *ops, __u64 *seed)
{
	__u32 before[BATCH];

	for (int i = 0; i < BATCH; i++) {
		__u64 delay = random_below(seed, AROUND);

		before[i] = ops[i].cookie;
		ops[i] = op_mod(ops[i].id, delay, 0, new_cookie(account, delay));
	}
	submit(account->fd, ops, BATCH);
	for (int i = 0; i < BATCH; i++) {
		bool gone = is_gone(ops[i].result);

		account->fate[before[i]] = gone ? GONE : READ;
		account->fate[ops[i].cookie] = gone ? UNKNOWN : GONE;
	}
}

/* An entry that MOD did not find is not found by CANCEL either. */
static void work_batch_cancel(struct account *account, struct twheel_op *ops)
{
	__u32 cookies[BATCH];

	for (int i = 0; i < BATCH; i++) {
		cookies[i] = ops[i].cookie;
		ops[i] = op_cancel(ops[i].id);
	}
	submit(account->fd, ops, BATCH);
	for (int i = 0; i < BATCH; i++) {
		bool gone = is_gone(ops[i].result);

		if (account->fate[cookies[i]] == GONE)
			CHECK(!gone);
		else
			account->fate[cookies[i]] = gone ? GONE : READ;
	}
}

static void *work_in_batches(void *arg)
{
	struct account *account = arg;
	struct twheel_op ops[BATCH];
	__u64 seed = now_ns() ^ (uintptr_t)&seed;

	while (!time_is_up(account)) {
		work_batch_arm(account, ops, &seed);
		sleep_ns(random_below(&seed, AROUND));
		work_batch_mod(account, ops, &seed);
		sleep_ns(random_below(&seed, AROUND));
		work_batch_cancel(account, ops);
	}
	return NULL;
}

TEST(every_timeout_of_a_batch_ends_in_exactly_one_way)
{
	run_account(account_open(race_ns(1500)), work_in_batches);
}

/* Without readers, cancel, mod and get find every timeout at any moment */

/* Or do not: then the wheel's thread is about to take the timeout out. */
static void pass_time(__u64 *seed)
{
	__u64 ns = random_below(seed, AROUND + NSEC_PER_MSEC), until = now_ns() + ns;

	if (!random_below(seed, 4))
		return;
	if (random_below(seed, 2))
		sleep_ns(ns);
	while (now_ns() < until)
		;
}

static __u64 random_delay(__u64 *seed)
{
	return random_below(seed, 4) ? random_below(seed, AROUND) : 0;
}

/* No event comes late. */
static void check_empty(int fd)
{
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

TEST(cancel_around_expiry_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), outcomes[2] = { 0 };
	__u64 seed = now_ns(), until = seed + race_ns(1500);

	while (now_ns() < until) {
		__u64 id = arm(fd, random_delay(&seed), 0);
		int ret;

		pass_time(&seed);
		ret = cancel(fd, id);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		CHECK(!readable(fd));
		CHECK_EQ(cancel(fd, id), -ENOENT);
		outcomes[ret]++;
	}
	check_empty(fd);
	ktap_note("%d cancelled, %d withdrawn", outcomes[0], outcomes[1]);
}

TEST(mod_around_expiry_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), cookie = 0;
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	__u64 id = arm(fd, 0, 0);

	while (now_ns() < until) {
		int ret;

		pass_time(&seed);
		ret = mod(fd, id, random_delay(&seed), ++cookie);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		CHECK_EQ(info(fd).live, 1);
	}
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, cookie);
	check_empty(fd);
}

TEST(get_around_expiry_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(500);

	while (now_ns() < until) {
		__u64 delay = random_delay(&seed), before = now_ns();
		struct twheel_op op = op_get(arm(fd, delay, 0));

		do {
			op = op_get(op.id);
			CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
			CHECK(op.expires_ns <= delay);
		} while (op.expires_ns);
		CHECK(now_ns() >= before + delay);
		wait_ready(fd, 1);
		read_event(fd);
	}
}

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

	stay_on(0);
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
	stay_on(last_cpu() > 0);
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
static struct twheel_op op_amid_expiry(__u32 opcode, const struct twheel_op *arming, __u64 later)
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
static void check_amid_expiry(const struct twheel_op *op, __u32 first,
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
static void operate_amid_expiry(__u32 first, __u32 second)
{
	const __u32 limit = 7 * CELLS_PER_PAGE, each = second ? 2 : 1;
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, limit), rounds = 0;
	__u64 seed = now_ns(), until = seed + race_ns(1000), withdrawn = 0;
	struct twheel_op due[DUE], ops[2 * DUE];

	arm_many(fd, limit - DUE, HOUR, 0, 0, NULL);
	for (; now_ns() < until; rounds++) {
		__u64 when = arm_due_at_once(fd, due), later = when + 10 * NSEC_PER_MSEC;
		__u32 cells = 0;

		for (int i = 0; i < DUE; i++) {
			ops[each * i] = op_amid_expiry(first, &due[i], second ? 0 : later);
			if (second)
				ops[2 * i + 1] = op_amid_expiry(second, &due[i], later);
		}
		wait_expiring(fd, when, &seed);
		submit(fd, ops, each * DUE);
		for (__u32 i = 0; i < each * DUE; i++) {
			check_amid_expiry(&ops[i], i % each ? first : 0, &due[i / each]);
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
	operate_amid_expiry(TWHEEL_OP_MOD, 0);
}

TEST(cancel_while_a_batch_expires_leaves_no_event)
{
	operate_amid_expiry(TWHEEL_OP_CANCEL, 0);
}

TEST(cancel_after_mod_while_a_batch_expires_leaves_no_trace)
{
	operate_amid_expiry(TWHEEL_OP_MOD, TWHEEL_OP_CANCEL);
}

TEST(cells_take_places_of_timeouts_that_expire)
{
	need_cells();
	operate_amid_expiry(TWHEEL_OP_CANCEL, TWHEEL_OP_ARM);
}

TEST(get_while_a_batch_expires_finds_all)
{
	operate_amid_expiry(TWHEEL_OP_GET, TWHEEL_OP_CANCEL);
}

/* Close */

static void *open_arm_close(void *arg)
{
	__u64 seed = now_ns() ^ (uintptr_t)&seed, until = *(__u64 *)arg, before;

	while (now_ns() < until) {
		int fd = device_open(O_RDWR);

		arm_many(fd, 100, 0, 20 * NSEC_PER_USEC, 0, NULL);
		if (random_below(&seed, 2))
			sleep_ns(random_below(&seed, AROUND));
		before = now_ns();
		close(fd);
		CHECK(now_ns() - before < quick_ns());
	}
	return NULL;
}

/* Close waits for the wheel's thread, which another file keeps busy. */
TEST(close_around_expiry_is_quick_and_clean)
{
	__u64 until = now_ns() + race_ns(2500);
	int busy = device_open(O_RDWR);
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK(!pthread_create(&threads[i], NULL, open_arm_close, &until));
	while (now_ns() < until) {
		arm_many(busy, 300, 0, 0, 0, NULL);
		cancel_all(busy);
	}
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
}

/* Kill @pid, which is running. Returns the time that its end took. */
static __u64 kill_child(pid_t pid)
{
	__u64 before = now_ns();
	int status;

	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGKILL);
	return now_ns() - before;
}

/* Read and arm until the process is killed. */
static void *use_until_killed(void *arg)
{
	int fd = *(int *)arg;
	struct twheel_event events[8];

	for (;;) {
		arm_many(fd, 4, 0, NSEC_PER_MSEC, 0, NULL);
		read_events(fd, events, ARRAY_SIZE(events));
	}
	return NULL;
}

TEST(process_killed_in_the_middle_is_cleaned_up)
{
	__u64 seed = now_ns();

	for (int round = 0; round < 25; round++) {
		pid_t pid = fork_child();

		if (!pid) {
			pthread_t threads[3];
			int fd = device_open(O_RDWR);

			for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
				pthread_create(&threads[i], NULL, use_until_killed, &fd);
			use_until_killed(&fd);
		}
		sleep_ns(random_below(&seed, 30 * NSEC_PER_MSEC));
		kill_child(pid);
	}
}

/* Memory that is mapped and unmapped during a system call */

struct flicker {
	pthread_t thread;
	void *view;		/* two pages, which are protected repeatedly */
	void *stable;		/* the same memory, always mapped */
	bool first_only;	/* only the first page is, and it can always be read */
	int stop;
};

static void *run_flicker(void *arg)
{
	struct flicker *f = arg;
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

static void map_flicker(struct flicker *f)
{
	int memory = memfd_create("flicker", 0);

	*f = (struct flicker) { 0 };
	CHECK(memory >= 0);
	CHECK_EQ(ftruncate(memory, 2 * page_size()), 0);
	f->view = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	f->stable = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CHECK(f->view != MAP_FAILED && f->stable != MAP_FAILED);
}

static void start_flicker(struct flicker *f, bool first_only)
{
	map_flicker(f);
	f->first_only = first_only;
	CHECK_EQ(pthread_create(&f->thread, NULL, run_flicker, f), 0);
}

static void stop_flicker(struct flicker *f)
{
	SET(f->stop, 1);
	pthread_join(f->thread, NULL);
}

/* Read at most seven records across the page boundary. Returns their number. */
static int read_into_flicker(int fd, const struct flicker *f, size_t offset, __u8 *seen, int nr)
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
	__u64 until = now_ns() + race_ns(700), seed = until;
	struct flicker f;

	start_flicker(&f, false);
	while (now_ns() < until) {
		__u8 seen[300] = { 0 };
		const int nr = ARRAY_SIZE(seen);

		arm_many(fd, nr, 0, 0, 0, NULL);
		wait_ready(fd, nr);
		for (int got = 0; got < nr; ) {
			size_t offset = page_size() - random_below(&seed, 400);
			int ret = read_into_flicker(fd, &f, offset, seen, nr);

			got += ret;
			short_reads += ret < 7;
			CHECK_EQ(info(fd).ready, nr - got);
		}
	}
	stop_flicker(&f);
	check_no_event(fd);
	ktap_note("%d short reads", short_reads);
}

TEST(arm_in_memory_that_comes_and_goes_leaves_none_unknown)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), armed = 0, faults = 0;
	const struct twheel_op request = op_arm(HOUR, 0, 0);
	__u64 until = now_ns() + race_ns(500);
	struct flicker f;
	size_t offset;

	start_flicker(&f, false);
	offset = page_size() - 28;
	while (now_ns() < until) {
		struct twheel_op op;
		int ret;

		memcpy(f.stable + offset, &request, sizeof(request));
		ret = device_ioctl(fd, TWHEEL_IOC_ARM, f.view + offset);
		CHECK(ret == 0 || ret == -EFAULT);
		if (!ret) {
			memcpy(&op, f.stable + offset, sizeof(op));
			CHECK_EQ(get(fd, op.id), 0);
		}
		armed += !ret;
		faults += ret < 0;
		CHECK_EQ(info(fd).live, armed);
	}
	stop_flicker(&f);
	ktap_note("%d armed, %d faults", armed, faults);
}

/*
 * Results may be lost with the memory, but a result that was written is true. It is written
 * after the id, so the id next to it is complete.
 */
TEST(submit_in_memory_that_comes_and_goes_keeps_the_state_whole)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), faults = 0, rounds = 0;
	__u64 until = now_ns() + race_ns(1000), tried = 0, known = 0;
	struct flicker f;

	start_flicker(&f, false);
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
		CHECK(info(fd).live >= known);
		CHECK(info(fd).live <= tried);
	}
	stop_flicker(&f);
	ktap_note("%d calls, %d failed, %llu tried, %llu known", rounds, faults, tried, known);
}

/*
 * Only the first page is protected. Results on it may be lost; results on the second page may
 * not. All entries on the second page are neighbours in a batch.
 */

#define LOST		(-12345)	/* the result was not written */
#define ACROSS		40		/* entries, most of them on the second page */
#define BEFORE		8		/* entries on the first page or across the boundary */
#define OFFSET		(page_size() - BEFORE * sizeof(struct twheel_op) + 8)

/*
 * Cancel timeouts that have fired, or that are on their way to the sink. Of the latter it is known
 * only afterwards that they had fired: 0 is written first, and remains if the later result cannot
 * be written. Returns the number that was withdrawn.
 */
static __u64 cancel_behind_a_page(int fd, struct flicker *f, const __u64 *ids, bool fired)
{
	const struct twheel_op *ops = f->stable + OFFSET;
	__u64 before = file_stats(fd).withdrawn, withdrawn;
	__u32 done = 0, told = 0, unknown = 0;

	if (try_submit(fd, f->view + OFFSET, ACROSS, &done))
		done = 0;
	withdrawn = file_stats(fd).withdrawn - before;
	CHECK(!fired || withdrawn == done);
	for (__u32 i = 0; i < done; i++) {
		if (i < BEFORE)
			unknown += ops[i].result != TWHEEL_WITHDRAWN;
		else
			CHECK(ops[i].result == TWHEEL_WITHDRAWN || (!fired && !ops[i].result));
		told += ops[i].result == TWHEEL_WITHDRAWN;
	}
	CHECK(told <= withdrawn);
	CHECK(told + unknown >= withdrawn);
	for (__u32 i = 0; i < ACROSS; i++)
		CHECK(i < done ? cancel(fd, ids[i]) == -ENOENT : cancel(fd, ids[i]) >= 0);
	return withdrawn;
}

static void cancel_behind_pages(bool fired)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), withdrawn = 0, rounds = 0;
	__u64 until = now_ns() + race_ns(2000), seed = until, ids[DUE];
	struct flicker f;

	start_flicker(&f, true);
	for (; now_ns() < until; rounds++) {
		struct twheel_op *ops = f.stable + OFFSET;
		__u32 first = fired ? 0 : 128 * (1 + random_below(&seed, 9));

		stay_on(0);
		arm_many(fd, fired ? ACROSS : DUE, fired ? 0 : 4 * NSEC_PER_MSEC, 0, 0, ids);
		stay_on(last_cpu() > 0);
		for (int i = 0; i < ACROSS; i++) {
			ops[i] = op_cancel(ids[first + i]);
			ops[i].result = LOST;
		}
		while (info(fd).ready < (fired ? ACROSS : first))
			;
		withdrawn += cancel_behind_a_page(fd, &f, ids + first, fired);
		cancel_all(fd);
	}
	stop_flicker(&f);
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
static void *run_dropping(void *arg)
{
	struct flicker *f = arg;

	for (;;)
		madvise(f->view, 2 * page_size(), MADV_DONTNEED);
	return NULL;
}

static void arm_where_pages_vanish(void)
{
	const struct twheel_op request = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);
	struct flicker f;
	pthread_t threads[2];

	map_flicker(&f);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, run_dropping, &f);
	for (__u32 armed = 0; ; armed++) {
		struct twheel_op *op = f.stable;

		*op = request;
		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_ARM, f.view), 0);
		CHECK_EQ(get(fd, op->id), 0);
		CHECK_EQ(info(fd).live, armed % 1000 + 1);
		if (armed % 1000 == 999)
			cancel_all(fd);
	}
}

/* The call repeats as long as the page vanishes after each fault, but a SIGKILL ends it. */
TEST(arm_in_memory_that_vanishes_can_be_killed)
{
	for (int round = 0; round < 10; round++) {
		pid_t pid = fork_child();

		if (!pid)
			arm_where_pages_vanish();
		sleep_ns((50 + round) * NSEC_PER_MSEC);
		CHECK(kill_child(pid) < quick_ns());
	}
}
