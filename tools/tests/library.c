// SPDX-License-Identifier: GPL-2.0
/*
 * The library on the device: what it adds to the system calls. What it hands
 * through is tested without it.
 */
#include <pthread.h>
#include <time.h>

#include "device.h"
#include "libtwheel.h"

static struct twheel_ctx *open_context(void)
{
	struct twheel_ctx *ctx;

	CHECK_EQ(twheel_open(NULL, 0, &ctx), 0);
	return ctx;
}

static void close_context(struct twheel_ctx **ctx)
{
	twheel_close(*ctx);
}

/* Of a variable: it is closed at the end of the test, so that what leaks is the library's. */
#define CLOSED __attribute__((cleanup(close_context)))

static uint64_t arm_touch(struct twheel_ctx *ctx, uint64_t ns, uint64_t cookie)
{
	uint64_t id;

	CHECK_EQ(twheel_arm(ctx, ns, TWHEEL_F_TOUCH, cookie, &id), 0);
	return id;
}

static uint64_t in_ns(struct twheel_ctx *ctx, uint64_t ns)
{
	uint64_t now;

	CHECK_EQ(twheel_now(ctx, &now), 0);
	return now + ns;
}

static uint64_t remaining(struct twheel_ctx *ctx, uint64_t id)
{
	struct twheel_op op;

	CHECK_EQ(twheel_get(ctx, id, &op), 0);
	return op.expires_ns;
}

static void touch_extends(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, 10 * NSEC_PER_SEC, 0);

	CHECK_EQ(twheel_touch(ctx, id, in_ns(ctx, HOUR)), 0);
	CHECK(remaining(ctx, id) > HOUR / 2);
}

static void touched_event_comes_at_the_last_touch(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t armed = in_ns(ctx, 300 * NSEC_PER_MSEC);
	uint64_t id = arm_touch(ctx, 300 * NSEC_PER_MSEC, 0);
	struct twheel_event event;
	uint64_t last, now;

	CHECK_EQ(twheel_touch(ctx, id, in_ns(ctx, HOUR)), 0);
	last = in_ns(ctx, 600 * NSEC_PER_MSEC);
	CHECK_EQ(twheel_touch(ctx, id, last), 0);
	now = in_ns(ctx, 0);
	/* The wheel may have seen the first touch alone: no event for an hour. */
	if (now >= armed) {
		ktap_skip("the touch may have come too late");
		return;
	}
	CHECK_EQ(twheel_read(ctx, &event, 1, patience_ns()), 1);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.expires_ns, last);
	CHECK(event.fired_ns >= last);
}

static void touch_beyond_int64_max_is_refused(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, HOUR, 0);

	CHECK_EQ(twheel_touch(ctx, id, (uint64_t)INT64_MAX + 1), -EINVAL);
	CHECK_EQ(twheel_touch(ctx, id, INT64_MAX), 0);
}

static void touch_of_no_timeout_is_enoent(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();

	CHECK_EQ(twheel_touch(ctx, 0, HOUR), -ENOENT);
	CHECK_EQ(twheel_touch(ctx, UINT64_MAX, HOUR), -ENOENT);
	CHECK_EQ(twheel_touch(ctx, UINT64_C(1) << 32, HOUR), -ENOENT);
}

static void touch_of_a_cancelled_timeout_is_enoent(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, HOUR, 0);

	CHECK_EQ(twheel_cancel(ctx, id), 0);
	CHECK_EQ(twheel_touch(ctx, id, HOUR), -ENOENT);
}

static void touch_of_one_that_was_read_is_enoent(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, 0, 0);
	struct twheel_event event;

	CHECK_EQ(twheel_read(ctx, &event, 1, patience_ns()), 1);
	CHECK_EQ(twheel_touch(ctx, id, HOUR), -ENOENT);
}

/* The slot is the same; what the stale id would have stored there is not stored. */
static void stale_touch_does_not_extend_the_successor(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t stale = arm_touch(ctx, HOUR, 0);
	uint64_t id;

	CHECK_EQ(twheel_cancel(ctx, stale), 0);
	id = arm_touch(ctx, 10 * NSEC_PER_SEC, 0);
	CHECK_EQ((uint32_t)id, (uint32_t)stale);
	CHECK_EQ(twheel_touch(ctx, stale, in_ns(ctx, HOUR)), -ENOENT);
	CHECK(remaining(ctx, id) < HOUR / 2);
}

static void touch_after_mod_works(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, HOUR, 0);

	CHECK_EQ(twheel_mod(ctx, id, 10 * NSEC_PER_SEC, TWHEEL_F_TOUCH, 0), 0);
	CHECK_EQ(twheel_touch(ctx, id, in_ns(ctx, HOUR)), 0);
	CHECK(remaining(ctx, id) > HOUR / 2);
}

static void submitted_timeouts_can_be_touched(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_op ops[3];

	twheel_prep_arm(&ops[0], 10 * NSEC_PER_SEC, TWHEEL_F_TOUCH, 0);
	twheel_prep_arm(&ops[1], 10 * NSEC_PER_SEC, TWHEEL_F_TOUCH, 0);
	CHECK_EQ(twheel_submit(ctx, ops, 2), 2);
	CHECK_EQ(twheel_touch(ctx, ops[1].id, in_ns(ctx, HOUR)), 0);
	CHECK(remaining(ctx, ops[1].id) > HOUR / 2);
	CHECK(remaining(ctx, ops[0].id) < HOUR / 2);
	twheel_prep_cancel(&ops[2], ops[1].id);
	CHECK_EQ(twheel_submit(ctx, &ops[2], 1), 1);
	CHECK_EQ(twheel_touch(ctx, ops[1].id, HOUR), -ENOENT);
}

/* Each handle has a table of its own; the kernel knows what it does not know. */
static void timeout_of_another_handle_can_be_touched(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, 10 * NSEC_PER_SEC, 0);
	struct twheel_ctx *other;

	CHECK_EQ(twheel_open_fd(twheel_fd(ctx), &other), 0);
	CHECK_EQ(twheel_touch(other, id, in_ns(ctx, HOUR)), 0);
	CHECK(remaining(ctx, id) > HOUR / 2);
	CHECK_EQ(twheel_cancel(other, id), 0);
	CHECK_EQ(twheel_touch(other, id, HOUR), -ENOENT);
	twheel_close(other);
	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 0, &id), 0);
}

static void parent_knows_what_its_child_has_ended(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, HOUR, 0);
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(twheel_cancel(ctx, id) ? 1 : 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(twheel_touch(ctx, id, HOUR), -ENOENT);
}

static void touch_needs_a_writable_descriptor(void)
{
	CLOSED struct twheel_ctx *ctx = NULL;

	CHECK_EQ(twheel_open_fd(device_open(O_RDONLY), &ctx), 0);
	CHECK_EQ(twheel_touch(ctx, UINT64_C(1) << 32, HOUR), -EACCES);
}

#define NR_THREADS	4

static void *touch_own(void *arg)
{
	struct twheel_ctx *ctx = arg;

	for (int i = 0; i < 500; i++) {
		uint64_t id = arm_touch(ctx, HOUR, 0);

		CHECK_EQ(twheel_touch(ctx, id, in_ns(ctx, 2 * HOUR)), 0);
		CHECK(remaining(ctx, id) > HOUR);
		CHECK_EQ(twheel_cancel(ctx, id), 0);
		CHECK_EQ(twheel_touch(ctx, id, HOUR), -ENOENT);
	}
	return NULL;
}

/* The first of them maps the page, and they use each other's slots. */
static void threads_touch_at_the_same_time(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	pthread_t threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, touch_own, ctx), 0);
	for (int i = 0; i < NR_THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* Of the device: a checker of memory has mappings of its own that come and go. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[300];
	int nr = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		nr += !!strstr(line, "/dev/twheel");
	fclose(file);
	return nr;
}

static void close_gives_the_mappings_back(void)
{
	int before = mappings();

	for (int i = 0; i < 5; i++) {
		struct twheel_ctx *ctx = open_context();

		arm_touch(ctx, HOUR, 0);
		CHECK(mappings() > before);
		twheel_close(ctx);
	}
	CHECK_EQ(mappings(), before);
}

static void setup_changes_the_clock_of_now(void)
{
	struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_REALTIME, .max_timeouts = 5,
	};
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_info info;
	uint64_t id;

	CHECK_EQ(twheel_setup(ctx, &setup), 0);
	CHECK_EQ(twheel_info(ctx, &info), 0);
	CHECK_EQ(info.max_timeouts, 5);
	CHECK(in_ns(ctx, 0) / NSEC_PER_SEC + 60 > (uint64_t)time(NULL));
	CHECK_EQ(twheel_arm(ctx, in_ns(ctx, HOUR), TWHEEL_F_ABS, 0, &id), 0);
	CHECK(remaining(ctx, id) <= HOUR);
	CHECK_EQ(twheel_setup(ctx, &setup), -EBUSY);
}

static void operate_refuses_what_is_no_operation(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_op op = { .opcode = 99 };

	CHECK_EQ(twheel_operate(ctx, &op), -EINVAL);
	op.opcode = 0;
	CHECK_EQ(twheel_operate(ctx, &op), -EINVAL);
}

static void read_of_no_events_is_refused(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_event event;

	CHECK_EQ(twheel_read(ctx, &event, 0, TWHEEL_NO_WAIT), -EINVAL);
	CHECK_EQ(twheel_read(ctx, &event, 0, NSEC_PER_SEC), -EINVAL);
	CHECK_EQ(twheel_read(ctx, &event, 0, TWHEEL_FOREVER), -EINVAL);
}

static void failed_call_writes_nothing(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_op op = { .cookie = 77 };
	uint64_t id = 77;

	CHECK_EQ(twheel_arm(ctx, UINT64_MAX, 0, 0, &id), -EINVAL);
	CHECK_EQ(id, 77);
	CHECK_EQ(twheel_get(ctx, 5, &op), -ENOENT);
	CHECK_EQ(op.cookie, 77);
	twheel_prep_arm(&op, UINT64_MAX, 0, 3);
	op.id = 77;
	CHECK_EQ(twheel_operate(ctx, &op), -EINVAL);
	CHECK_EQ(op.id, 77);
}

static void interval_and_slack_arrive(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_list_entry entry = { 0 };
	struct twheel_op op;
	uint32_t next = 0;

	twheel_prep_arm(&op, HOUR, TWHEEL_F_FIXED_DELAY, 7);
	twheel_prep_interval(&op, 2 * HOUR, 9);
	twheel_prep_slack(&op, 5999);
	CHECK_EQ(twheel_operate(ctx, &op), 0);
	CHECK_EQ(twheel_list(ctx, &entry, 1, &next), 1);
	CHECK_EQ(entry.id, op.id);
	CHECK_EQ(entry.interval_ns, 2 * HOUR);
	CHECK_EQ(entry.repeat, 9);
	CHECK_EQ(entry.slack_us, 5);
	CHECK_EQ(entry.flags, TWHEEL_F_FIXED_DELAY);
	CHECK_EQ(twheel_list(ctx, &entry, 1, &next), 0);
	twheel_prep_slack(&op, UINT64_MAX);
	CHECK_EQ(op.slack_us, UINT32_MAX);
}

static void read_after_stop_ends_with_zero(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	uint64_t id = arm_touch(ctx, HOUR, 0);
	struct twheel_event event;

	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_NO_WAIT), 1);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), 1);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), 0);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_NO_WAIT), 0);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_FOREVER), 1);
	CHECK_EQ(twheel_touch(ctx, id, HOUR), -ENOENT);
}

static void cancel_tells_the_counts_if_asked(void)
{
	CLOSED struct twheel_ctx *ctx = open_context();
	struct twheel_cancel_all done;
	uint64_t id;

	for (uint64_t cookie = 0; cookie < 5; cookie++)
		CHECK_EQ(twheel_arm(ctx, HOUR, 0, cookie % 2, &id), 0);
	CHECK_EQ(twheel_cancel_cookie(ctx, 1, &done), 0);
	CHECK_EQ(done.pending, 2);
	CHECK_EQ(twheel_cancel_cookie(ctx, 1, NULL), 0);
	CHECK_EQ(twheel_cancel_all(ctx, &done), 0);
	CHECK_EQ(done.pending, 3);
	CHECK_EQ(done.withdrawn, 0);
	CHECK_EQ(twheel_cancel_all(ctx, NULL), 0);
}

static const struct ktap_test tests[] = {
	TEST(touch_extends),
	TEST(touched_event_comes_at_the_last_touch),
	TEST(touch_beyond_int64_max_is_refused),
	TEST(touch_of_no_timeout_is_enoent),
	TEST(touch_of_a_cancelled_timeout_is_enoent),
	TEST(touch_of_one_that_was_read_is_enoent),
	TEST(stale_touch_does_not_extend_the_successor),
	TEST(touch_after_mod_works),
	TEST(submitted_timeouts_can_be_touched),
	TEST(timeout_of_another_handle_can_be_touched),
	TEST(parent_knows_what_its_child_has_ended),
	TEST(touch_needs_a_writable_descriptor),
	TEST(threads_touch_at_the_same_time),
	TEST(close_gives_the_mappings_back),
	TEST(setup_changes_the_clock_of_now),
	TEST(operate_refuses_what_is_no_operation),
	TEST(read_of_no_events_is_refused),
	TEST(failed_call_writes_nothing),
	TEST(interval_and_slack_arrive),
	TEST(read_after_stop_ends_with_zero),
	TEST(cancel_tells_the_counts_if_asked),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
