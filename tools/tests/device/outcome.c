// SPDX-License-Identifier: GPL-2.0
/*
 * Results and effects of CANCEL, MOD and GET in every state of a timeout.
 *
 *	state			CANCEL		MOD		GET
 *	pending			0		0		0, remaining
 *	fired, event unread	1 withdrawn	1 withdrawn	0, nothing remaining
 *	event read, cancelled,
 *	never there		-ENOENT		-ENOENT		-ENOENT
 *
 * After 0 or 1 no event of the earlier arming is ever read.
 */
#include "device.h"

#define SOON		(30 * NSEC_PER_MSEC)	/* pending until the test has passed this time */
#define SURELY_FIRED	(80 * NSEC_PER_MSEC)

/* Pending */

TEST(cancel_of_pending_reports_zero)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(cancel(fd, arm(fd, HOUR, 0)), 0);
	CHECK_EQ(info(fd).live, 0);
}

TEST(cancel_of_pending_leaves_no_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK(cancel(fd, arm(fd, SOON, 0)) >= 0);
	sleep_ns(SURELY_FIRED);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

TEST(cancel_of_pending_leaves_the_others)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 ids[3];

	arm_many(fd, 3, SOON, 0, 0, ids);
	CHECK(cancel(fd, ids[1]) >= 0);
	wait_ready(fd, 2);
	CHECK_EQ(read_event(fd).id + read_event(fd).id, ids[0] + ids[2]);
	check_no_event(fd);
}

TEST(get_of_pending_tells_everything)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_get(arm(fd, HOUR, 0xdeadbeefcafef00dULL));
	__u64 id = op.id;

	CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
	CHECK_EQ(op.opcode, TWHEEL_OP_GET);
	CHECK_EQ(op.id, id);
	CHECK_EQ(op.cookie, 0xdeadbeefcafef00dULL);
	CHECK(op.expires_ns > HOUR - 60 * NSEC_PER_SEC && op.expires_ns <= HOUR);
	CHECK_EQ(op.interval_ns, 0);
	CHECK_EQ(op.repeat, 0);
	CHECK_EQ(op.slack_us, 0);
	CHECK_EQ(op.reserved, 0);
}

TEST(get_of_pending_changes_nothing)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, SOON, 7);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(get(fd, id), 0);
	CHECK_EQ(info(fd).live, 1);
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 7);
}

TEST(mod_of_pending_reports_zero)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0);

	CHECK_EQ(mod(fd, id, 2 * HOUR, 0), 0);
	CHECK_EQ(mod(fd, id, 3 * HOUR, 0), 0);
	CHECK_EQ(info(fd).live, 1);
}

TEST(mod_of_pending_replaces_cookie_and_deadline)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 1);
	struct twheel_op op = op_get(id);

	CHECK_EQ(mod(fd, id, 3 * HOUR, 2), 0);
	CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
	CHECK_EQ(op.cookie, 2);
	CHECK(op.expires_ns > 2 * HOUR && op.expires_ns <= 3 * HOUR);
}

TEST(mod_of_pending_keeps_the_id)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_mod(arm(fd, HOUR, 0), 0, 0, 5);
	__u64 id = op.id;
	struct twheel_event event;

	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(op.id, id);
	event = read_event(fd);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.cookie, 5);
}

TEST(mod_to_earlier_fires_once)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, 200 * NSEC_PER_MSEC, 1);
	__u64 armed_by = now_ns();

	CHECK(mod(fd, id, NSEC_PER_MSEC, 2) >= 0);
	wait_ready(fd, 1);
	CHECK_EQ(read_event(fd).cookie, 2);
	sleep_until(armed_by + 250 * NSEC_PER_MSEC);
	check_no_event(fd);
}

TEST(mod_to_later_does_not_fire_at_the_old_deadline)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK(mod(fd, arm(fd, SOON, 1), HOUR, 2) >= 0);
	sleep_ns(SURELY_FIRED);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 1);
}

TEST(mod_with_abs_takes_an_absolute_time)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + SOON;
	struct twheel_op op = op_mod(arm(fd, HOUR, 1), when, TWHEEL_F_ABS, 2);

	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK_EQ(read_event(fd).expires_ns, when);
}

TEST(mod_without_abs_takes_a_relative_time)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_at(fd, now_ns() + HOUR, 1);
	struct twheel_op op = op_get(id);

	CHECK_EQ(mod(fd, id, 2 * HOUR, 2), 0);
	CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
	CHECK(op.expires_ns > HOUR && op.expires_ns <= 2 * HOUR);
}

/* Fired, its event unread */

TEST(cancel_of_unread_event_reports_withdrawn)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(cancel(fd, arm_fired(fd, 0)), TWHEEL_WITHDRAWN);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(info(fd).ready, 0);
}

TEST(cancel_of_unread_event_withdraws_it)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK_EQ(cancel(fd, arm_fired(fd, 0)), TWHEEL_WITHDRAWN);
	check_no_event(fd);
}

/* Cancel the first event, the last one, and some in between. */
TEST(cancel_of_unread_event_leaves_the_others_in_order)
{
	static const int order[] = { 1, 3, 5, 6 };
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 ids[8];

	for (int i = 0; i < 8; i++)
		ids[i] = arm_fired(fd, i);
	CHECK_EQ(cancel(fd, ids[0]), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, ids[7]), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, ids[4]), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, ids[2]), TWHEEL_WITHDRAWN);
	CHECK_EQ(info(fd).ready, 4);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		CHECK_EQ(read_event(fd).cookie, order[i]);
	check_no_event(fd);
}

TEST(event_after_a_withdrawal_is_read)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK_EQ(cancel(fd, arm_fired(fd, 1)), TWHEEL_WITHDRAWN);
	arm_fired(fd, 2);
	CHECK_EQ(read_event(fd).cookie, 2);
	check_no_event(fd);
}

TEST(get_of_unread_event_tells_nothing_remains)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op = op_get(arm_fired(fd, 7));

	CHECK_EQ(operate(fd, TWHEEL_IOC_GET, &op), 0);
	CHECK_EQ(op.expires_ns, 0);
	CHECK_EQ(op.cookie, 7);
	CHECK_EQ(op.interval_ns, 0);
	CHECK_EQ(op.repeat, 0);
}

TEST(get_of_unread_event_leaves_it)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 7);

	CHECK_EQ(get(fd, id), 0);
	CHECK_EQ(info(fd).ready, 1);
	CHECK_EQ(read_event(fd).id, id);
}

TEST(mod_of_unread_event_reports_withdrawn)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK_EQ(mod(fd, arm_fired(fd, 1), HOUR, 2), TWHEEL_WITHDRAWN);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 1);
	CHECK_EQ(info(fd).ready, 0);
}

TEST(mod_of_unread_event_makes_only_the_new_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 1);
	struct twheel_event event;

	CHECK_EQ(mod(fd, id, NSEC_PER_MSEC, 2), TWHEEL_WITHDRAWN);
	wait_ready(fd, 1);
	event = read_event(fd);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.cookie, 2);
	check_no_event(fd);
}

TEST(mod_of_unread_event_can_be_cancelled)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 1);

	CHECK_EQ(mod(fd, id, HOUR, 2), TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, id), 0);
	CHECK_EQ(info(fd).live, 0);
}

TEST(mod_moves_the_event_to_the_end_of_the_queue)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 first = arm_fired(fd, 1);

	arm_fired(fd, 2);
	CHECK_EQ(mod(fd, first, 0, 3), TWHEEL_WITHDRAWN);
	wait_ready(fd, 2);
	CHECK_EQ(read_event(fd).cookie, 2);
	CHECK_EQ(read_event(fd).cookie, 3);
}

/* Dead ids */

static void check_dead(int fd, __u64 id)
{
	struct twheel_info before = info(fd), after;

	CHECK_EQ(cancel(fd, id), -ENOENT);
	CHECK_EQ(mod(fd, id, 0, 0), -ENOENT);
	CHECK_EQ(get(fd, id), -ENOENT);
	after = info(fd);
	CHECK_EQ(after.live, before.live);
	CHECK_EQ(after.ready, before.ready);
}

TEST(id_of_a_read_event_is_dead)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_fired(fd, 0);

	read_event(fd);
	check_dead(fd, id);
}

TEST(id_of_a_cancelled_timeout_is_dead)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0);

	CHECK_EQ(cancel(fd, id), 0);
	check_dead(fd, id);
}

TEST(id_of_a_withdrawn_event_is_dead)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm_fired(fd, 0);

	CHECK_EQ(cancel(fd, id), TWHEEL_WITHDRAWN);
	check_dead(fd, id);
}

TEST(id_zero_is_dead)
{
	int fd = device_open(O_RDWR);

	check_dead(fd, 0);
	arm(fd, HOUR, 0);
	check_dead(fd, 0);
}

TEST(id_in_an_empty_context_is_dead)
{
	static const __u64 ids[] = { 1, 1ULL << 32, 1ULL << 32 | 1, ~0ULL, 1ULL << 63, ~0U };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		check_dead(fd, ids[i]);
}

/* Other generations of a live index, and indices that were never used. */
TEST(id_that_was_made_up_is_dead)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0);

	for (int bit = 0; bit < 64; bit++)
		check_dead(fd, id ^ 1ULL << bit);
	check_dead(fd, id + (1ULL << 32));
	check_dead(fd, id - (1ULL << 32));
	check_dead(fd, (__u32)id);
	check_dead(fd, id | 0xffffffffULL);
	check_dead(fd, ~id);
	CHECK_EQ(get(fd, id), 0);
}

TEST(id_is_index_and_generation)
{
	int fd = device_open(O_RDWR);
	struct twheel_info i = info(fd);
	__u64 ids[1000];

	arm_many(fd, ARRAY_SIZE(ids), HOUR, 0, 0, ids);
	for (size_t n = 0; n < ARRAY_SIZE(ids); n++) {
		CHECK((__u32)ids[n] <= i.max_timeouts);
		for (size_t m = 0; m < n; m++)
			CHECK((__u32)ids[n] != (__u32)ids[m]);
	}
}

TEST(mod_of_dead_id_arms_nothing)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm_fired(fd, 0);

	read_event(fd);
	CHECK_EQ(mod(fd, id, 0, 0), -ENOENT);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
}

TEST(id_is_stale_after_its_slot_is_reused)
{
	int fd = device_open_limited(O_RDWR, 1);
	__u64 first = arm(fd, HOUR, 0), second;

	CHECK_EQ(cancel(fd, first), 0);
	second = arm(fd, HOUR, 0);
	CHECK(second != first);
	check_dead(fd, first);
	CHECK_EQ(get(fd, second), 0);
}

static int compare_ids(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/* With a limit of one, only one slot is used. */
TEST(id_is_stale_after_10000_reuses_of_its_slot)
{
	const size_t reuses = 10000;
	__u64 *ids = calloc(reuses, sizeof(*ids));
	int fd = device_open_limited(O_RDWR, 1);

	for (size_t i = 0; i < reuses; i++) {
		ids[i] = arm(fd, HOUR, i);
		CHECK_EQ(cancel(fd, ids[i / 2]), i ? -ENOENT : 0);
		if (i)
			CHECK_EQ(cancel(fd, ids[i]), 0);
	}
	arm(fd, HOUR, 0);
	for (size_t i = 0; i < reuses; i++)
		CHECK_EQ(get(fd, ids[i]), -ENOENT);
	qsort(ids, reuses, sizeof(*ids), compare_ids);
	for (size_t i = 1; i < reuses; i++)
		CHECK(ids[i] != ids[i - 1]);
	free(ids);
}

TEST(id_is_stale_after_its_slot_expired_many_times)
{
	int fd = device_open_limited(O_RDWR, 1);
	__u64 first = arm(fd, 0, 0);

	read_event(fd);
	for (int i = 0; i < 100; i++) {
		__u64 id = arm(fd, 0, i);

		CHECK_EQ(cancel(fd, first), -ENOENT);
		CHECK_EQ(read_event(fd).id, id);
	}
	check_dead(fd, first);
}

/* Cookies */

TEST(cookie_is_any_value)
{
	static const __u64 cookies[] = { 0, 1, ~0ULL, 1ULL << 63, 0x0123456789abcdefULL };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(cookies); i++) {
		__u64 id = arm(fd, 0, cookies[i]);
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.cookie, cookies[i]);
		CHECK_EQ(event.id, id);
	}
}

TEST(cookie_need_not_be_unique)
{
	int fd = device_open(O_RDWR);
	__u64 a = arm(fd, HOUR, 7), b = arm(fd, HOUR, 7);

	CHECK(a != b);
	CHECK_EQ(cancel(fd, a), 0);
	CHECK_EQ(get(fd, b), 0);
}
