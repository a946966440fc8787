// SPDX-License-Identifier: GPL-2.0
/*
 * Concurrent operations around the moment of expiry, with an account of every timeout.
 *
 * Each arming ends in exactly one way, also after a race. Either it was cancelled or
 * withdrawn, and its event is never read. Or its event is read once, not early, and cancel
 * and mod then find nothing. Each arming has a unique cookie, which counts up and
 * identifies it in the account.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "cells.h"

#define AROUND		(3 * NSEC_PER_MSEC)	/* time around expiry in which operations happen */
#define COOKIES		1000000
#define WORKERS		3
#define READERS		2
#define HELD		16			/* timeouts per worker */

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
		CHECK(i.live <= WORKERS * HELD * 64);
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

/* Single operations */

struct held {
	__u64 id;
	__u32 cookie;
	int live;
};

static void work_arm(struct account *account, struct held *held, __u64 delay)
{
	held->cookie = new_cookie(account, delay);
	held->id = arm(account->fd, delay, held->cookie);
	held->live = 1;
}

/* Returns true if CANCEL or MOD has found the timeout, so that its event is never read. */
static bool is_gone(int ret)
{
	CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN || ret == -ENOENT);
	return ret != -ENOENT;
}

static void work_cancel(struct account *account, struct held *held)
{
	account->fate[held->cookie] = is_gone(cancel(account->fd, held->id)) ? GONE : READ;
	held->live = 0;
}

static void work_mod(struct account *account, struct held *held, __u64 delay)
{
	__u32 cookie = new_cookie(account, delay);
	bool gone = is_gone(mod(account->fd, held->id, delay, cookie));

	account->fate[held->cookie] = gone ? GONE : READ;
	if (!gone)
		account->fate[cookie] = GONE;
	held->cookie = cookie;
	held->live = gone;
}

static void work_get(struct account *account, struct held *held)
{
	struct twheel_op op = op_get(held->id);
	int ret = operate(account->fd, TWHEEL_IOC_GET, &op);

	if (ret == -ENOENT) {
		account->fate[held->cookie] = READ;
		held->live = 0;
		return;
	}
	CHECK_EQ(ret, 0);
	CHECK_EQ(op.cookie, held->cookie);
	CHECK(op.expires_ns <= AROUND);
}

static void *work_singly(void *arg)
{
	struct account *account = arg;
	struct held held[HELD] = { 0 };
	__u64 seed = now_ns() ^ (uintptr_t)&seed;

	while (!time_is_up(account)) {
		struct held *one = &held[random_below(&seed, HELD)];
		__u64 what = random_below(&seed, 100);

		if (!one->live)
			work_arm(account, one, random_below(&seed, AROUND));
		else if (what < 40)
			work_cancel(account, one);
		else if (what < 80)
			work_mod(account, one, random_below(&seed, AROUND));
		else
			work_get(account, one);
	}
	return NULL;
}

TEST(every_timeout_ends_in_exactly_one_way)
{
	run_account(account_open(race_ns(2000)), work_singly);
}

/* The same by the batch */

#define BATCH		(HELD * 8)

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

static void pass_time(__u64 *seed)
{
	__u64 ns = random_below(seed, AROUND + NSEC_PER_MSEC), until = now_ns() + ns;

	if (random_below(seed, 2))
		sleep_ns(ns);
	while (now_ns() < until)
		;
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
		__u64 id = arm(fd, random_below(&seed, AROUND), 0);
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

/* Cancel without a pause, when the wheel's thread is about to take the timeout out. */
TEST(cancel_right_after_arm_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	for (int i = 0; i < 3000; i++) {
		int ret = cancel(fd, arm(fd, 0, 0));

		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
	}
	check_empty(fd);
}

TEST(mod_around_expiry_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), cookie = 0;
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	__u64 id = arm(fd, 0, 0);

	while (now_ns() < until) {
		int ret;

		pass_time(&seed);
		ret = mod(fd, id, random_below(&seed, AROUND), ++cookie);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		CHECK_EQ(info(fd).live, 1);
	}
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, cookie);
	check_empty(fd);
}

TEST(mod_again_and_again_makes_one_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, 0, 0);

	for (int i = 1; i <= 3000; i++) {
		int ret = mod(fd, id, i % 2 ? 0 : NSEC_PER_USEC, i);

		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
	}
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 3000);
	check_empty(fd);
}

TEST(get_around_expiry_finds_the_timeout)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(500);

	while (now_ns() < until) {
		__u64 delay = random_below(&seed, AROUND), before = now_ns();
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

static void check_found(const struct twheel_op *ops, int nr)
{
	for (int i = 0; i < nr; i++)
		CHECK(ops[i].result == 0 || ops[i].result == TWHEEL_WITHDRAWN);
}

/* Move to the first CPU, or to the second if there is one. */
static void go_to_cpu(int nth)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(nth % sysconf(_SC_NPROCESSORS_ONLN), &set);
	CHECK_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

/*
 * Arm timeouts with the cookies 0, 1, 2... and leave them in @ops in an order other than
 * that of expiry. They expire on another CPU than the one where the caller continues.
 */
static __u64 arm_due_at_once(int fd, struct twheel_op *ops)
{
	__u64 when = now_ns() + 4 * NSEC_PER_MSEC;

	go_to_cpu(0);
	for (int i = 0; i < DUE; i++)
		ops[i] = op_arm(when, TWHEEL_F_ABS, i);
	submit(fd, ops, DUE);
	check_found(ops, DUE);
	for (int i = 0; i < DUE; i++) {
		struct twheel_op *other = &ops[i * 157 % DUE], op = ops[i];

		ops[i] = *other;
		*other = op;
	}
	go_to_cpu(1);
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

/* Each timeout fires once, with the deadline @when and a cookie from @first on. */
static void check_each_fires_once(int fd, __u64 when, __u64 first)
{
	__u8 seen[DUE] = { 0 };
	struct twheel_event events[50];

	wait_ready(fd, DUE);
	for (int got = 0; got < DUE; ) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		for (int i = 0; i < nr; i++) {
			check_event(&events[i]);
			CHECK_EQ(events[i].expires_ns, when);
			CHECK(events[i].cookie >= first && events[i].cookie < first + DUE);
			CHECK_EQ(seen[events[i].cookie - first]++, 0);
		}
		got += nr;
	}
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

/* Make calls while the wheel's thread takes out what is due at @when. */
static void submit_amid_expiry(int fd, __u64 when, __u64 *seed, struct twheel_op *ops, int nr)
{
	wait_expiring(fd, when, seed);
	submit(fd, ops, nr);
	check_found(ops, nr);
}

TEST(mod_while_a_batch_expires_makes_one_event_each)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(1000);
	struct twheel_op ops[DUE];

	while (now_ns() < until) {
		__u64 due = arm_due_at_once(fd, ops), when = due + 10 * NSEC_PER_MSEC;

		for (int i = 0; i < DUE; i++)
			ops[i] = op_mod(ops[i].id, when, TWHEEL_F_ABS, 10000 + i);
		submit_amid_expiry(fd, due, &seed, ops, DUE);
		check_each_fires_once(fd, when, 10000);
	}
}

TEST(cancel_while_a_batch_expires_leaves_no_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(700);
	struct twheel_op ops[DUE];

	while (now_ns() < until) {
		__u64 due = arm_due_at_once(fd, ops);

		for (int i = 0; i < DUE; i++)
			ops[i] = op_cancel(ops[i].id);
		submit_amid_expiry(fd, due, &seed, ops, DUE);
		check_no_event(fd);
		CHECK_EQ(info(fd).live, 0);
	}
	check_empty(fd);
}

/* The slots are then reused, and their former timeouts have no effect. */
TEST(cancel_after_mod_while_a_batch_expires_leaves_no_trace)
{
	int fd = device_open_limited(O_RDWR | O_NONBLOCK, DUE);
	__u64 seed = now_ns(), until = seed + race_ns(1000), when;
	struct twheel_op ops[DUE], both[2 * DUE];

	while (now_ns() < until) {
		when = arm_due_at_once(fd, ops);
		for (int i = 0; i < DUE; i++) {
			both[2 * i] = op_mod(ops[i].id, 0, 0, 10000);
			both[2 * i + 1] = op_cancel(ops[i].id);
		}
		submit_amid_expiry(fd, when, &seed, both, 2 * DUE);
		CHECK_EQ(info(fd).live, 0);

		when = now_ns();
		for (int i = 0; i < DUE; i++)
			ops[i] = op_arm(when, TWHEEL_F_ABS, i);
		submit(fd, ops, DUE);
		check_each_fires_once(fd, when, 0);
	}
}

/*
 * A timeout that is cancelled on its way to the sink keeps its record for a while, but not its
 * place. Its limit is the room of seven pages of cells.
 */
TEST(cells_take_places_of_timeouts_that_expire)
{
	__u32 limit = 7 * page_size() / sizeof(struct twheel_cell);
	int fd = device_open_limited(O_RDWR, limit);
	__u64 seed = now_ns(), until = seed + race_ns(1000);
	struct twheel_op ops[DUE], both[2 * DUE];

	need_cells();
	arm_many(fd, limit - DUE, HOUR, 0, 0, NULL);
	while (now_ns() < until) {
		__u64 due = arm_due_at_once(fd, ops);

		for (int i = 0; i < DUE; i++) {
			both[2 * i] = op_cancel(ops[i].id);
			both[2 * i + 1] = op_cell(TWHEEL_CELL_IDLE, 1);
		}
		submit_amid_expiry(fd, due, &seed, both, 2 * DUE);
		for (int i = 0; i < DUE; i++)
			ops[i] = op_cancel(both[2 * i + 1].id);
		submit(fd, ops, DUE);
	}
}

TEST(get_while_a_batch_expires_finds_all)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(500);
	struct twheel_op ops[DUE];
	__u64 cookies[DUE];

	while (now_ns() < until) {
		__u64 due = arm_due_at_once(fd, ops);

		for (int i = 0; i < DUE; i++) {
			cookies[i] = ops[i].cookie;
			ops[i] = op_get(ops[i].id);
		}
		wait_expiring(fd, due, &seed);
		submit(fd, ops, DUE);
		for (int i = 0; i < DUE; i++) {
			CHECK_EQ(ops[i].result, 0);
			CHECK_EQ(ops[i].cookie, cookies[i]);
			CHECK(ops[i].expires_ns < 4 * NSEC_PER_MSEC);
			ops[i] = op_cancel(ops[i].id);
		}
		submit(fd, ops, DUE);
		check_found(ops, DUE);
	}
}

/* Two threads cancel the same timeout, and one reads */

struct rival {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int fd;
	__u64 id;
	int stop;
	int ret;
};

static void *cancel_in_step(void *arg)
{
	struct rival *rival = arg;

	for (;;) {
		pthread_barrier_wait(rival->barrier);
		if (rival->stop)
			return NULL;
		rival->ret = cancel(rival->fd, rival->id);
		pthread_barrier_wait(rival->barrier);
	}
}

static int read_one_or_none(int fd, __u64 id)
{
	struct twheel_event event;
	int ret = read_events(fd, &event, 1);

	if (ret == -EAGAIN)
		return 0;
	CHECK_EQ(ret, 1);
	check_event(&event);
	CHECK_EQ(event.id, id);
	return 1;
}

TEST(one_of_two_who_cancel_or_the_reader_wins)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	struct rival rivals[2] = { 0 };
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, 3);
	for (int i = 0; i < 2; i++) {
		rivals[i] = (struct rival) { .fd = fd, .barrier = &barrier };
		pthread_create(&rivals[i].thread, NULL, cancel_in_step, &rivals[i]);
	}
	while (now_ns() < until) {
		__u64 id = arm(fd, random_below(&seed, NSEC_PER_MSEC), 0);
		int ends;

		rivals[0].id = id;
		rivals[1].id = id;
		if (random_below(&seed, 2))
			sleep_ns(random_below(&seed, 2 * NSEC_PER_MSEC));
		pthread_barrier_wait(&barrier);
		ends = read_one_or_none(fd, id);
		pthread_barrier_wait(&barrier);
		ends += (rivals[0].ret >= 0) + (rivals[1].ret >= 0);
		CHECK_EQ(ends, 1);
		CHECK_EQ(info(fd).live, 0);
	}
	rivals[0].stop = 1;
	rivals[1].stop = 1;
	pthread_barrier_wait(&barrier);
	pthread_join(rivals[0].thread, NULL);
	pthread_join(rivals[1].thread, NULL);
}

/* Close */

TEST(close_around_expiry_is_clean)
{
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	int rounds = 0;

	while (now_ns() < until) {
		int fd = device_open(O_RDWR);

		arm_many(fd, 100, 0, 20 * NSEC_PER_USEC, 0, NULL);
		sleep_ns(random_below(&seed, AROUND));
		close(fd);
		rounds++;
	}
	ktap_note("%d files", rounds);
}

static void *open_arm_close(void *arg)
{
	__u64 seed = now_ns() ^ (uintptr_t)&seed, until = *(__u64 *)arg;

	while (now_ns() < until) {
		int fd = device_open(O_RDWR);

		arm_many(fd, 20, 0, 50 * NSEC_PER_USEC, 0, NULL);
		if (random_below(&seed, 2))
			sched_yield();
		close(fd);
	}
	return NULL;
}

TEST(close_around_expiry_on_many_threads_is_clean)
{
	__u64 until = now_ns() + race_ns(1000);
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, open_arm_close, &until);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
}

/* Close waits for the wheel's thread, which other files keep busy. */
TEST(close_while_others_expire_is_quick)
{
	__u64 until = now_ns() + race_ns(700), before;
	int busy = device_open(O_RDWR), fd;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, open_arm_close, &until), 0);
	while (now_ns() < until) {
		arm_many(busy, 300, 0, 0, 0, NULL);
		fd = device_open(O_RDWR);
		arm(fd, 0, 0);
		before = now_ns();
		close(fd);
		CHECK(now_ns() - before < quick_ns());
	}
	pthread_join(thread, NULL);
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
		int status;

		if (!pid) {
			pthread_t threads[3];
			int fd = device_open(O_RDWR);

			for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
				pthread_create(&threads[i], NULL, use_until_killed, &fd);
			use_until_killed(&fd);
		}
		sleep_ns(random_below(&seed, 30 * NSEC_PER_MSEC));
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), SIGKILL);
	}
}

/* Memory that is mapped and unmapped during a system call */

struct flicker {
	pthread_t thread;
	void *view;		/* mapped and unmapped repeatedly */
	void *stable;		/* the same memory, always mapped */
	int stop;
};

static void *run_flicker(void *arg)
{
	struct flicker *f = arg;
	__u64 seed = now_ns();

	while (!PEEK(f->stop)) {
		int page = random_below(&seed, 2);

		protect_page(f->view + page * page_size(), random_below(&seed, 2) ?
			     PROT_NONE : PROT_READ);
		sched_yield();
		protect_page(f->view + page * page_size(), PROT_READ | PROT_WRITE);
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

static void start_flicker(struct flicker *f)
{
	map_flicker(f);
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

	start_flicker(&f);
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

	start_flicker(&f);
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

	start_flicker(&f);
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
 * Only the first page is mapped and unmapped. Results on it may be lost; results on the
 * second page may not.
 */

#define LOST		(-12345)	/* the result was not written */
#define ACROSS		40		/* entries, most of them on the second page */
#define BEFORE		8		/* entries on the first page or across the boundary */

static void *run_first_page_flicker(void *arg)
{
	struct flicker *f = arg;

	while (!PEEK(f->stop)) {
		protect_page(f->view, PROT_READ);
		protect_page(f->view, PROT_READ | PROT_WRITE);
		for (int i = 0; i < 300 && !PEEK(f->stop); i++)
			;
	}
	return NULL;
}

/* Returns the offset of the entries, which is the same in both mappings. */
static size_t start_first_page_flicker(struct flicker *f)
{
	map_flicker(f);
	CHECK_EQ(pthread_create(&f->thread, NULL, run_first_page_flicker, f), 0);
	return page_size() - BEFORE * sizeof(struct twheel_op) + 8;
}

/* Returns whether a part of the entry is on the first page. */
static int is_on_first_page(const struct flicker *f, const struct twheel_op *op)
{
	return (void *)op < f->stable + page_size();
}

TEST(withdrawals_are_reported_behind_a_page_that_is_gone)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), lost = 0, rounds = 0;
	__u64 until = now_ns() + race_ns(2000);
	struct flicker f;
	size_t offset = start_first_page_flicker(&f);

	for (; now_ns() < until; rounds++) {
		struct twheel_op *ops = f.stable + offset;
		__u64 ids[ACROSS];
		__u32 done = 0;

		arm_many(fd, ACROSS, 0, 0, 0, ids);
		wait_ready(fd, ACROSS);
		for (int i = 0; i < ACROSS; i++) {
			ops[i] = op_cancel(ids[i]);
			ops[i].result = LOST;
		}
		if (try_submit(fd, f.view + offset, ACROSS, &done))
			done = 0;
		for (__u32 i = 0; i < ACROSS; i++) {
			int ret = cancel(fd, ids[i]);

			CHECK_EQ(ret, i < done ? -ENOENT : TWHEEL_WITHDRAWN);
			if (i >= done || is_on_first_page(&f, &ops[i]))
				lost += i < done && ops[i].result == LOST;
			else
				CHECK_EQ(ops[i].result, TWHEEL_WITHDRAWN);
		}
	}
	stop_flicker(&f);
	ktap_note("%d rounds, %d results lost", rounds, lost);
}

/*
 * The same with timeouts that are on their way to the sink when CANCEL comes. Only
 * afterwards is it known that they had fired. All entries on the second page are neighbours
 * in a batch.
 */
TEST(cancels_amid_expiry_are_reported_behind_a_page_that_is_gone)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), withdrawals = 0;
	__u64 until = now_ns() + race_ns(2000), seed = until;
	struct flicker f;
	size_t offset = start_first_page_flicker(&f);
	struct twheel_op due[DUE];

	while (now_ns() < until) {
		struct twheel_op *ops = f.stable + offset;
		__u64 when = now_ns() + 4 * NSEC_PER_MSEC, withdrawn;
		struct twheel_stats before, after;
		__u32 first = 128 * (1 + random_below(&seed, 9)), done = 0, told = 0, unknown = 0;

		go_to_cpu(0);
		for (int i = 0; i < DUE; i++)
			due[i] = op_arm(when, TWHEEL_F_ABS, i);
		submit(fd, due, DUE);
		go_to_cpu(1);
		for (int i = 0; i < ACROSS; i++) {
			ops[i] = op_cancel(due[first + i].id);
			ops[i].result = LOST;
		}
		before = file_stats(fd);
		while (info(fd).ready < first)
			;
		if (try_submit(fd, f.view + offset, ACROSS, &done))
			done = 0;
		after = file_stats(fd);
		withdrawn = after.withdrawn - before.withdrawn;
		for (__u32 i = 0; i < done; i++) {
			/*
			 * 0 is written first, and remains if the later result cannot be
			 * written
			 */
			if (is_on_first_page(&f, &ops[i]))
				unknown += ops[i].result != TWHEEL_WITHDRAWN;
			else
				CHECK(ops[i].result == 0 || ops[i].result == TWHEEL_WITHDRAWN);
			told += ops[i].result == TWHEEL_WITHDRAWN;
		}
		CHECK(told <= withdrawn);
		CHECK(told + unknown >= withdrawn);
		withdrawals += withdrawn;
		cancel_all(fd);
	}
	stop_flicker(&f);
	ktap_note("%d withdrawn", withdrawals);
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
		__u64 before;
		int status;
		pid_t pid = fork_child();

		if (!pid)
			arm_where_pages_vanish();
		sleep_ns((50 + round) * NSEC_PER_MSEC);
		before = now_ns();
		CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
		CHECK(now_ns() - before < quick_ns());
	}
}
