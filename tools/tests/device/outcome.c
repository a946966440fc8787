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
#define FIRED		0ULL			/* the event is unread */
#define MOVED		3			/* cookie after MOD; before: 0 to 2 */

/* An operation on one of three timeouts. */
static const struct row {
	const char *name;
	__u64 delay;		/* until they are due, or FIRED */
	__u32 opcode;
	__u64 expires_ns;	/* of MOD */
	int result;		/* if they are due SOON on a slow machine, they may have fired */
	bool event;		/* it has an event afterwards; the others, if due before HOUR */
} rows[] = {
	{ "CANCEL", HOUR, TWHEEL_OP_CANCEL, 0, 0, false },
	{ "GET", HOUR, TWHEEL_OP_GET, 0, 0, false },
	{ "MOD", HOUR, TWHEEL_OP_MOD, 3 * HOUR, 0, false },
	{ "MOD to earlier", HOUR, TWHEEL_OP_MOD, NSEC_PER_MSEC, 0, true },
	{ "CANCEL before it is due", SOON, TWHEEL_OP_CANCEL, 0, 0, false },
	{ "GET before it is due", SOON, TWHEEL_OP_GET, 0, 0, true },
	{ "MOD to later before it is due", SOON, TWHEEL_OP_MOD, 3 * HOUR, 0, false },
	{ "MOD to earlier before it is due", SOON, TWHEEL_OP_MOD, NSEC_PER_MSEC, 0, true },
	{ "CANCEL of an event", FIRED, TWHEEL_OP_CANCEL, 0, TWHEEL_WITHDRAWN, false },
	{ "GET of an event", FIRED, TWHEEL_OP_GET, 0, 0, true },
	{ "MOD of an event", FIRED, TWHEEL_OP_MOD, 3 * HOUR, TWHEEL_WITHDRAWN, false },
	{ "MOD of an event to now", FIRED, TWHEEL_OP_MOD, 0, TWHEEL_WITHDRAWN, true },
};

static int run_operation(int fd, const struct row *row, __u64 id)
{
	if (row->opcode == TWHEEL_OP_CANCEL)
		return cancel(fd, id);
	if (row->opcode == TWHEEL_OP_GET)
		return get(fd, id);
	return mod(fd, id, row->expires_ns, MOVED);
}

/* GET tells how it was armed or moved. Nothing remains if it has fired. */
static void check_state(int fd, const struct row *row, __u64 id, __u64 cookie)
{
	__u64 remaining = row->expires_ns ?: row->delay;
	struct twheel_op state = get_state(fd, id);

	CHECK_EQ(state.id, id);
	CHECK_EQ(state.cookie, cookie);
	CHECK(state.expires_ns <= remaining && state.expires_ns >= remaining / 2);
	CHECK_EQ(state.interval_ns, 0);
	CHECK_EQ(state.repeat, 0);
}

/* Read all events, among them that of the timeout if it has one. Those of MOD come last. */
static void check_events(int fd, const struct row *row, __u64 id, __u64 cookie, bool others)
{
	unsigned int nr = 2 * others + row->event, seen = 0;
	__u64 last = 0;

	if (row->delay == SOON)
		sleep_ns(SURELY_FIRED);
	wait_ready(fd, nr);
	for (unsigned int i = 0; i < nr; i++) {
		struct twheel_event event = read_event(fd);

		CHECK_EQ(event.id == id, event.cookie == cookie);
		CHECK(row->delay != FIRED || event.cookie >= last);
		CHECK(event.cookie <= MOVED && !(seen & 1 << event.cookie));
		seen |= 1 << event.cookie;
		last = event.cookie;
	}
	CHECK_EQ(!!(seen & 1 << cookie), row->event);
	check_no_event(fd);
}

static void check_outcome(const struct row *row, __u64 which)
{
	int fd = device_open(O_RDWR | O_NONBLOCK), result;
	__u64 cookie = row->opcode == TWHEEL_OP_MOD ? MOVED : which, ids[3], id;
	bool others = row->delay != HOUR;
	bool lives = !row->event && row->opcode != TWHEEL_OP_CANCEL;

	for (int i = 0; i < 3; i++)
		ids[i] = row->delay == FIRED ? arm_fired(fd, i) : arm(fd, row->delay, i);
	id = ids[which];
	result = run_operation(fd, row, id);
	CHECK(result == row->result || (row->delay == SOON && result == TWHEEL_WITHDRAWN));
	if (lives || (row->delay == FIRED && row->opcode == TWHEEL_OP_GET))
		check_state(fd, row, id, cookie);
	check_events(fd, row, id, cookie, others);
	CHECK_EQ(info(fd).live, lives + 2 * !others);
	CHECK_EQ(cancel(fd, id), lives ? 0 : -ENOENT);
	close(fd);
}

TEST(each_operation_has_its_outcome)
{
	for_each_row(row, rows) {
		for (__u64 which = 0; which < 3; which++)
			check_outcome(row, which);
	}
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

static int compare_ids(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static void check_ids_differ(__u64 *ids, size_t nr)
{
	qsort(ids, nr, sizeof(*ids), compare_ids);
	CHECK(ids[0] != 0);
	for (size_t i = 1; i < nr; i++)
		CHECK(ids[i] != ids[i - 1]);
}

TEST(id_is_index_and_generation)
{
	int fd = device_open(O_RDWR);
	struct twheel_info i = info(fd);
	__u64 ids[1000];

	arm_many(fd, ARRAY_SIZE(ids), HOUR, 0, 0, ids);
	for (size_t n = 0; n < ARRAY_SIZE(ids); n++) {
		ids[n] = (__u32)ids[n];
		CHECK(ids[n] <= i.max_timeouts);
		ids[n]++;	/* an index may be 0 */
	}
	check_ids_differ(ids, ARRAY_SIZE(ids));
}

/* With a limit of one, only one slot is used. */
TEST(id_is_stale_after_10000_reuses_of_its_slot)
{
	const size_t reuses = 10000;
	__u64 *ids = calloc(reuses, sizeof(*ids));
	int fd = device_open_limited(O_RDWR, 1);

	CHECK(ids);
	for (size_t i = 0; i < reuses; i++) {
		ids[i] = arm(fd, HOUR, i);
		CHECK_EQ(cancel(fd, ids[i / 2]), i ? -ENOENT : 0);
		if (i)
			CHECK_EQ(cancel(fd, ids[i]), 0);
	}
	arm(fd, HOUR, 0);
	check_dead(fd, ids[0]);
	for (size_t i = 0; i < reuses; i++)
		CHECK_EQ(get(fd, ids[i]), -ENOENT);
	check_ids_differ(ids, reuses);
	free(ids);
}
