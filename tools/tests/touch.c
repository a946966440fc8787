// SPDX-License-Identifier: GPL-2.0
/*
 * The touch word of a timeout: a deadline in memory that user space can make later
 * with one store, looked at when the timeout comes due.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cpu.h"
#include "words.h"

#define MS		NSEC_PER_MSEC
#define NR		512		/* words that a test maps, if it does not need more */

/* What a store does */

static void arm_writes_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), before = now_ns(), when = before + HOUR, after, id;

	CHECK_EQ(look(words, arm_touch(fd, when, 0)), when);
	id = arm_op(fd, op_arm(HOUR, TWHEEL_F_TOUCH, 0));
	after = now_ns();
	CHECK(look(words, id) >= before + HOUR);
	CHECK(look(words, id) <= after + HOUR);
}

static void submit_writes_the_words(void)
{
	struct twheel_op ops[100];
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns() + HOUR;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(base + i, TWHEEL_F_ABS | TWHEEL_F_TOUCH, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(look(words, ops[i].id), base + i);
	}
}

static void word_of_an_unused_index_is_zero(void)
{
	__u64 *words = map_words(device_open(O_RDWR), 4 * NR);

	for (size_t i = 0; i < 4 * NR; i++)
		CHECK_EQ(words[i], 0);
}

static void store_extends_the_deadline(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns();
	__u64 id = arm_touch(fd, base + 1000 * MS, 7);
	struct twheel_event event;

	touch(words, id, base + 1200 * MS);
	event = read_event(fd);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.cookie, 7);
	CHECK_EQ(event.expires_ns, base + 1200 * MS);
	CHECK_EQ(get(fd, id), -ENOENT);
}

/* Deadline and word are in the same tick, so both have passed when the word is read. */
static void event_has_the_deadline_of_a_word_that_has_passed(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), when = now_ns() / MS * MS + 300 * MS + 1;

	touch(words, arm_touch(fd, when, 7), when + MS / 2);
	CHECK_EQ(read_event(fd).expires_ns, when + MS / 2);
}

/* As often as there is traffic; without any, it fires. */
static void stores_extend_the_deadline_over_and_over(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 *words = map_words(fd, NR), last = now_ns() + 400 * MS;
	__u64 id = arm_touch(fd, last, 7), end = last + 600 * MS;

	while (now_ns() < end && !info(fd).ready) {
		last = now_ns() + 400 * MS;
		touch(words, id, last);
		sleep_ns(20 * MS);
	}
	if (now_ns() < end)
		ktap_skip("the machine is too slow");
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).expires_ns, last);
}

static void relative_timeout_can_be_extended(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), id = arm_op(fd, op_arm(1000 * MS, TWHEEL_F_TOUCH, 7));
	__u64 later = look(words, id) + 100 * MS;

	touch(words, id, later);
	CHECK_EQ(read_event(fd).expires_ns, later);
}

static void check_ignored(__u64 word)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), when = now_ns() + 50 * MS;

	touch(words, arm_touch(fd, when, 7), word);
	CHECK_EQ(read_event(fd).expires_ns, when);
	close(fd);
	unmap_words(words, NR);
}

static void word_in_the_past_is_ignored(void)
{
	check_ignored(0);
	check_ignored(1);
	check_ignored(now_ns() - 1);
	check_ignored(now_ns() / 2);
}

static void word_before_the_deadline_is_ignored(void)
{
	check_ignored(now_ns() + 5 * MS);
	check_ignored(now_ns() + 20 * MS);
}

static void word_beyond_int64_max_is_ignored(void)
{
	check_ignored(EXPIRES_MAX + 1);
	check_ignored(EXPIRES_MAX + 2);
	check_ignored(~0ULL);
}

static void word_of_int64_max_waits_for_ever(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + 100 * MS, 7);

	touch(words, id, EXPIRES_MAX);
	sleep_ns(200 * MS);
	if (!readable(fd)) {
		CHECK(state_of(fd, id).expires_ns >= EXPIRES_MAX - now_ns());
		CHECK_EQ(cancel(fd, id), 0);
	} else {
		ktap_skip("the machine is too slow");
	}
}

static void store_for_a_timeout_without_touch_does_nothing(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), when = now_ns() + 50 * MS, id = arm_at(fd, when, 7);

	touch(words, id, when + HOUR);
	CHECK(state_of(fd, id).expires_ns <= 50 * MS);
	CHECK_EQ(read_event(fd).expires_ns, when);
	/* Nor has arming it written the word. */
	CHECK_EQ(look(words, id), when + HOUR);
}

static void store_after_expiry_does_nothing(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 *words = map_words(fd, NR), when = now_ns(), id = arm_touch(fd, when, 7);

	wait_ready(fd, 1);
	touch(words, id, now_ns() + HOUR);
	sleep_ns(20 * MS);
	CHECK_EQ(state_of(fd, id).expires_ns, 0);
	CHECK_EQ(read_event(fd).expires_ns, when);
	CHECK_EQ(info(fd).live, 0);
}

static void timeout_armed_in_the_past_fires(void)
{
	int fd = device_open(O_RDWR);

	need_words();
	arm_touch(fd, 0, 7);
	CHECK_EQ(read_event(fd).expires_ns, 0);
	arm_op(fd, op_arm(0, TWHEEL_F_TOUCH, 8));
	CHECK_EQ(read_event(fd).cookie, 8);
}

static void nobody_needs_a_mapping(void)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + 20 * MS;

	need_words();
	arm_touch(fd, when, 7);
	CHECK_EQ(read_event(fd).expires_ns, when);
}

/* Operations */

static void get_tells_the_later_of_deadline_and_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns(), id = arm_touch(fd, base + HOUR, 7);

	touch(words, id, base + 2 * HOUR);
	CHECK(state_of(fd, id).expires_ns > HOUR);
	CHECK(state_of(fd, id).expires_ns <= 2 * HOUR);
	touch(words, id, base + HOUR / 2);
	CHECK(state_of(fd, id).expires_ns > HOUR / 2);
	CHECK(state_of(fd, id).expires_ns <= HOUR);
	touch(words, id, ~0ULL);
	CHECK(state_of(fd, id).expires_ns <= HOUR);
}

static int mod_touch(int fd, __u64 id, __u64 when, __u32 flags, __u64 cookie)
{
	struct twheel_op op = op_mod(id, when, TWHEEL_F_ABS | flags, cookie);

	return operate(fd, TWHEEL_IOC_MOD, &op);
}

static void mod_overwrites_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + HOUR, 7), when;

	touch(words, id, now_ns() + 2 * HOUR);
	when = now_ns() + 30 * MS;
	CHECK_EQ(mod_touch(fd, id, when, TWHEEL_F_TOUCH, 8), 0);
	CHECK_EQ(look(words, id), when);
	CHECK_EQ(read_event(fd).expires_ns, when);
}

static void mod_without_touch_disregards_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + HOUR, 7), when;

	when = now_ns() + 30 * MS;
	CHECK_EQ(mod_touch(fd, id, when, 0, 8), 0);
	touch(words, id, now_ns() + HOUR);
	CHECK(state_of(fd, id).expires_ns <= 30 * MS);
	CHECK_EQ(read_event(fd).expires_ns, when);
}

static void mod_with_touch_regards_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns(), id = arm_at(fd, base + HOUR, 7);

	CHECK_EQ(mod_touch(fd, id, base + 1000 * MS, TWHEEL_F_TOUCH, 8), 0);
	touch(words, id, base + 1100 * MS);
	CHECK_EQ(read_event(fd).expires_ns, base + 1100 * MS);
}

static void refused_mod_leaves_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), when = now_ns() + HOUR, id = arm_touch(fd, when, 7);
	struct twheel_op op = op_periodic(0, HOUR, 0, TWHEEL_F_TOUCH, 0);

	op.opcode = TWHEEL_OP_MOD;
	op.id = id;
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), -EINVAL);
	CHECK_EQ(mod_touch(fd, id + (1ULL << 32), 0, TWHEEL_F_TOUCH, 0), -ENOENT);
	CHECK_EQ(mod_touch(fd, id, EXPIRES_MAX + 1, TWHEEL_F_TOUCH, 0), -EINVAL);
	CHECK_EQ(look(words, id), when);
}

static void touch_with_an_interval_is_einval(void)
{
	struct twheel_op op = op_periodic(HOUR, HOUR, 0, TWHEEL_F_TOUCH, 0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(operate(fd, TWHEEL_IOC_ARM, &op), -EINVAL);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EINVAL);
	CHECK_EQ(info(fd).live, 0);
}

static void cancel_of_an_extended_timeout_reports_zero(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + 300 * MS, 7);

	touch(words, id, now_ns() + HOUR);
	sleep_ns(400 * MS);
	if (readable(fd))
		ktap_skip("the machine is too slow");
	CHECK_EQ(cancel(fd, id), 0);
	CHECK_EQ(info(fd).live, 0);
}

/* The index is used again: what was stored before is not for the new one. */
static void index_used_again_has_a_new_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + HOUR, 7), again, when;

	CHECK_EQ(cancel(fd, id), 0);
	touch(words, id, now_ns() + HOUR);
	when = now_ns() + 30 * MS;
	again = arm_touch(fd, when, 8);
	CHECK_EQ((__u32)again, (__u32)id);
	CHECK(again != id);
	CHECK_EQ(look(words, again), when);
	CHECK_EQ(read_event(fd).expires_ns, when);
}

/* Documented: a word belongs to an index. */
static void late_store_extends_the_successor(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns(), id = arm_touch(fd, base + HOUR, 7);

	CHECK_EQ(cancel(fd, id), 0);
	CHECK_EQ((__u32)arm_touch(fd, base + 1000 * MS, 8), (__u32)id);
	touch(words, id, base + 1100 * MS);
	CHECK_EQ(read_event(fd).expires_ns, base + 1100 * MS);
}

static void slack_comes_on_top_of_the_word(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns();
	struct twheel_op op = op_arm(base + 300 * MS, TWHEEL_F_ABS | TWHEEL_F_TOUCH, 7);
	struct twheel_event event;

	op.slack_us = 50000;
	touch(words, arm_op(fd, op), base + 400 * MS);
	event = read_event(fd);
	CHECK_EQ(event.expires_ns, base + 400 * MS);
}

/* Races */

static void spin_until(__u64 when)
{
	while (now_ns() < when)
		;
}

/* What was stored in time is seen; what came late may be, or not: one event anyway. */
static void store_while_due_is_seen_or_too_late(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), nr[2] = { 0 };
	__u64 *words = map_words(fd, NR), seed = now_ns(), until = seed + race_ns(1500);

	while (now_ns() < until) {
		__u64 when = now_ns() + random_below(&seed, 3 * MS), id = arm_touch(fd, when, 7);
		__u64 later, stored;
		struct twheel_event event;

		spin_until(when - MS + random_below(&seed, 3 * MS));
		later = now_ns() + MS + random_below(&seed, 3 * MS);
		touch(words, id, later);
		stored = now_ns();
		wait_ready(fd, 1);
		event = read_event(fd);
		if (event.expires_ns != later)
			CHECK_EQ(event.expires_ns, when);
		/* Unless the word was past, too, when the timeout was looked at. */
		if (stored < when && later > event.fired_ns)
			ktap_fail("a store in time was not seen");
		nr[event.expires_ns == later]++;
		CHECK_EQ(info(fd).live, 0);
	}
	ktap_note("%d extended, %d not", nr[1], nr[0]);
}

static void cancel_while_due_finds_the_timeout(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), nr[2] = { 0 };
	__u64 *words = map_words(fd, NR), seed = now_ns(), until = seed + race_ns(800);

	while (now_ns() < until) {
		__u64 when = now_ns() + random_below(&seed, 2 * MS), id = arm_touch(fd, when, 7);
		int ret;

		if (random_below(&seed, 2))
			touch(words, id, when + random_below(&seed, 3 * MS));
		spin_until(now_ns() + random_below(&seed, 4 * MS));
		ret = cancel(fd, id);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		CHECK(!readable(fd));
		CHECK_EQ(cancel(fd, id), -ENOENT);
		nr[ret]++;
	}
	sleep_ns(20 * MS);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
	ktap_note("%d cancelled, %d withdrawn", nr[0], nr[1]);
}

static void mod_while_due_makes_one_event(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 *words = map_words(fd, NR), seed = now_ns(), until = seed + race_ns(800);

	while (now_ns() < until) {
		__u64 when = now_ns() + random_below(&seed, 2 * MS), id = arm_touch(fd, when, 7);
		struct twheel_event event;
		int ret;

		touch(words, id, when + random_below(&seed, 3 * MS));
		spin_until(now_ns() + random_below(&seed, 3 * MS));
		when = now_ns() + random_below(&seed, 2 * MS);
		ret = mod_touch(fd, id, when, TWHEEL_F_TOUCH, 8);
		CHECK(ret == 0 || ret == TWHEEL_WITHDRAWN);
		wait_ready(fd, 1);
		event = read_event(fd);
		CHECK_EQ(event.cookie, 8);
		CHECK_EQ(event.expires_ns, when);
		check_no_event(fd);
	}
}

#define BATCH		1000

/* Come due and extended in time: none has fired, at any moment. */
static void operate_on_extended(int fd, __u64 *words, struct twheel_op (*operation)(__u64 id))
{
	__u64 ids[BATCH], when = now_ns() + 40 * MS;

	for (int i = 0; i < BATCH; i++) {
		ids[i] = arm_touch(fd, when, i);
		touch(words, ids[i], when + HOUR);
	}
	if (now_ns() >= when)
		return;
	spin_until(when + MS / 2);
	for (int i = BATCH; i--; ) {
		struct twheel_op op = operation(ids[i]);

		submit(fd, &op, 1);
		CHECK_EQ(op.result, 0);
	}
}

static void check_extended_amid_expiry(struct twheel_op (*operation)(__u64 id))
{
	for (__u64 until = now_ns() + race_ns(800); now_ns() < until; ) {
		int fd = device_open(O_RDWR);
		__u64 *words = map_words(fd, BATCH);

		operate_on_extended(fd, words, operation);
		close(fd);
		unmap_words(words, BATCH);
	}
}

static struct twheel_op op_move(__u64 id)
{
	return op_mod(id, HOUR, 0, 0);
}

static void cancel_of_extended_amid_expiry_reports_zero(void)
{
	check_extended_amid_expiry(op_cancel);
}

static void mod_of_extended_amid_expiry_reports_zero(void)
{
	check_extended_amid_expiry(op_move);
}

struct toucher {
	pthread_t thread;
	__u64 *words;
	size_t nr;
	__u64 until;
};

static void *touch_wildly(void *arg)
{
	struct toucher *toucher = arg;
	__u64 seed = now_ns();

	while (now_ns() < toucher->until) {
		__u64 *word = &toucher->words[random_below(&seed, toucher->nr)];
		__u64 soon = now_ns() + random_below(&seed, 5 * MS);
		__u64 value = random_below(&seed, 8) ? soon : seed;

		/* Not for good: the timeout is to fire in this test. */
		if (value > toucher->until && value <= EXPIRES_MAX)
			value = 0;
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Whatever is in the words, each timeout makes one event, not before its deadline. */
static void wild_stores_do_no_harm(void)
{
	enum { TIMEOUTS = 2000 };
	int fd = device_open(O_RDWR);
	struct toucher toucher = { .nr = TIMEOUTS, .until = now_ns() + race_ns(1000) };
	static __u8 seen[TIMEOUTS];
	__u64 base = now_ns();

	toucher.words = map_words(fd, TIMEOUTS);
	pthread_create(&toucher.thread, NULL, touch_wildly, &toucher);
	for (int i = 0; i < TIMEOUTS; i++)
		arm_touch(fd, base + i * NSEC_PER_MSEC / 4, i);
	for (int i = 0; i < TIMEOUTS; i++) {
		struct twheel_event event = read_event(fd);

		CHECK(event.cookie < TIMEOUTS);
		CHECK(event.expires_ns >= base + event.cookie * NSEC_PER_MSEC / 4);
		CHECK_EQ(seen[event.cookie]++, 0);
	}
	pthread_join(toucher.thread, NULL);
	CHECK_EQ(info(fd).live, 0);
}

static void all_of_20000_are_extended(void)
{
	enum { TIMEOUTS = 20000 };
	static __u64 ids[TIMEOUTS];
	struct twheel_op ops[500];
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, TIMEOUTS), base = now_ns() + 2 * NSEC_PER_SEC, later;

	for (int i = 0; i < TIMEOUTS; i += ARRAY_SIZE(ops)) {
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_arm(base, TWHEEL_F_ABS | TWHEEL_F_TOUCH, i + n);
		submit(fd, ops, ARRAY_SIZE(ops));
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ids[i + n] = ops[n].id;
	}
	later = base + 500 * MS;
	for (int i = 0; i < TIMEOUTS; i++)
		touch(words, ids[i], later);
	if (now_ns() > base)
		ktap_skip("the machine is too slow");
	sleep_until(base + 100 * MS);
	if (now_ns() < later)
		CHECK(!readable(fd) || now_ns() >= later);
	for (int i = 0; i < TIMEOUTS; i++)
		CHECK_EQ(read_event(fd).expires_ns, later);
	CHECK_EQ(info(fd).live, 0);
}

/* Records come by the page; so many pages of them are full below the limit of NR. */
#define PER_PAGE	46
#define FULL		(NR / PER_PAGE * PER_PAGE)
#define FREED		100

struct canceller {
	pthread_t thread;
	int fd;
	__u64 ids[FULL];
	__u64 when;
};

static void *cancel_at(void *arg)
{
	struct canceller *canceller = arg;
	struct twheel_op ops[FREED];

	for (int i = 0; i < FREED; i++)
		ops[i] = op_cancel(canceller->ids[i]);
	spin_until(canceller->when);
	submit(canceller->fd, ops, FREED);
	return NULL;
}

/* While one timeout gets a page of records made, some end. */
static void grow_amid_cancels(struct canceller *canceller, __u64 delay_ns)
{
	canceller->when = now_ns() + MS;
	CHECK(!pthread_create(&canceller->thread, NULL, cancel_at, canceller));
	spin_until(canceller->when + delay_ns);
	arm(canceller->fd, HOUR, 0);
	pthread_join(canceller->thread, NULL);
}

static void arm_with_words(int fd)
{
	struct twheel_op ops[NR - 1 - FULL + FREED];

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, TWHEEL_F_TOUCH, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, 0);
}

/*
 * The last page of records has more than the file may have timeouts, and those have no
 * words: they must not be in the way of who needs one.
 */
static void all_that_the_limit_allows_can_have_words(void)
{
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	int rounds = 0;

	for (; now_ns() < until; rounds++) {
		struct canceller canceller = { .fd = device_open_limited(O_RDWR, NR) };

		arm_many(canceller.fd, FULL, HOUR, 0, 0, canceller.ids);
		grow_amid_cancels(&canceller, random_below(&seed, MS / 10));
		arm_with_words(canceller.fd);
		close(canceller.fd);
	}
	ktap_note("%d rounds", rounds);
}

/* Other clocks, wheels and namespaces */

static void word_is_of_the_clock_of_the_file(void)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		int fd = device_open_setup(O_RDWR, setup_clock(clocks[i]));
		__u64 *words = map_words(fd, NR), base = clock_ns(clocks[i]);
		__u64 id = arm_touch(fd, base + 500 * MS, 7);

		CHECK_EQ(look(words, id), base + 500 * MS);
		touch(words, id, base + 600 * MS);
		CHECK_EQ(read_event_on(clocks[i], fd).expires_ns, base + 600 * MS);
	}
}

static void word_extends_in_a_wheel_of_its_own(void)
{
	struct twheel_setup setup = { .tick_ns = 7 * MS, .slots = 4, .levels = 2 };
	int fd = device_open_setup(O_RDWR, setup);
	__u64 *words = map_words(fd, NR), base = now_ns();

	touch(words, arm_touch(fd, base + 300 * MS, 7), base + 500 * MS);
	CHECK_EQ(read_event(fd).expires_ns, base + 500 * MS);
}

static void word_is_in_the_time_of_the_namespace(void)
{
	__u64 *words, base, id;
	int fd;

	need_words();
	enter_time_namespace(1000000, 0);
	fd = device_open(O_RDWR);
	words = map_words(fd, NR);
	base = now_ns();
	CHECK(base > 1000000 * NSEC_PER_SEC);
	id = arm_touch(fd, base + 500 * MS, 7);
	CHECK_EQ(look(words, id), base + 500 * MS);
	touch(words, id, base + 600 * MS);
	CHECK(state_of(fd, id).expires_ns <= 600 * MS);
	CHECK_EQ(read_event(fd).expires_ns, base + 600 * MS);
}

static const struct ktap_test tests[] = {
	TEST(arm_writes_the_word),
	TEST(submit_writes_the_words),
	TEST(word_of_an_unused_index_is_zero),
	TEST(store_extends_the_deadline),
	TEST(event_has_the_deadline_of_a_word_that_has_passed),
	TEST(stores_extend_the_deadline_over_and_over),
	TEST(relative_timeout_can_be_extended),
	TEST(word_in_the_past_is_ignored),
	TEST(word_before_the_deadline_is_ignored),
	TEST(word_beyond_int64_max_is_ignored),
	TEST(word_of_int64_max_waits_for_ever),
	TEST(store_for_a_timeout_without_touch_does_nothing),
	TEST(store_after_expiry_does_nothing),
	TEST(timeout_armed_in_the_past_fires),
	TEST(nobody_needs_a_mapping),
	TEST(get_tells_the_later_of_deadline_and_word),
	TEST(mod_overwrites_the_word),
	TEST(mod_without_touch_disregards_the_word),
	TEST(mod_with_touch_regards_the_word),
	TEST(refused_mod_leaves_the_word),
	TEST(touch_with_an_interval_is_einval),
	TEST(cancel_of_an_extended_timeout_reports_zero),
	TEST(index_used_again_has_a_new_word),
	TEST(late_store_extends_the_successor),
	TEST(slack_comes_on_top_of_the_word),
	TEST(store_while_due_is_seen_or_too_late),
	TEST(cancel_while_due_finds_the_timeout),
	TEST(mod_while_due_makes_one_event),
	TEST(cancel_of_extended_amid_expiry_reports_zero),
	TEST(mod_of_extended_amid_expiry_reports_zero),
	TEST(wild_stores_do_no_harm),
	TEST(all_of_20000_are_extended),
	TEST(all_that_the_limit_allows_can_have_words),
	TEST(word_is_of_the_clock_of_the_file),
	TEST(word_extends_in_a_wheel_of_its_own),
	TEST(word_is_in_the_time_of_the_namespace),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
