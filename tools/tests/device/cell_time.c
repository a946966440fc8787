// SPDX-License-Identifier: GPL-2.0
/*
 * Cells and time: when and how often the kernel looks at a word, and when a cell fires.
 */
#define _GNU_SOURCE
#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells that most tests map */
#define MAX_LATENESS	(5 * NSEC_PER_SEC)

static void wait_parked(struct twheel_cell *cells, __u64 id)
{
	WAIT_FOR(look_of(cells, id) == NO_LOOK);
}

/* The kernel looks at @when, unless the cell has fired. */
static bool is_looked_at(struct twheel_cell *cells, __u64 id, __u64 when)
{
	__u64 look = look_of(cells, id);

	return look == when || (look == NO_LOOK && now_ns() >= when);
}

static void check_in_time(const struct twheel_event *event, __u64 slack_ns)
{
	CHECK(event->fired_ns >= event->expires_ns);
	CHECK(event->fired_ns <= event->expires_ns + slack_ns + MAX_LATENESS);
}

/* Time of expiry */

TEST(deadline_that_is_moved_to_a_later_time_needs_none)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 base = now_ns(), id = arm_cell(fd, base + 300 * MS, 7);
	struct twheel_event event;
	int later, earlier;
	bool kicked[2];
	__u64 look;

	later = cell_arm_kicked(fd, cells, id, base + 1500 * MS, &kicked[0]);
	look = look_of(cells, id);
	/* earlier than before, but not earlier than the look */
	earlier = cell_arm_kicked(fd, cells, id, base + 1400 * MS, &kicked[1]);
	if (now_ns() >= base + 300 * MS)
		ktap_skip("the machine is too slow");
	CHECK_EQ(later, 0);
	CHECK_EQ(earlier, 0);
	CHECK(!kicked[0] && !kicked[1]);
	CHECK_EQ(look, base + 300 * MS);
	event = read_cell_event(fd);
	CHECK_EQ(event.expires_ns, base + 1400 * MS);
	check_in_time(&event, 0);
	/* The first look is far from the deadline, so that it finds the cell not yet due. */
	CHECK_EQ(file_stats(fd).looks, 2);
}

/* With @steps, the clock is set back and forth by less than most deadlines are ahead. */
static void move_cells(int fd, clockid_t clock, bool steps)
{
	enum { CELLS = 500 };
	struct twheel_cell *cells = map_cells(fd, CELLS);
	__u64 ids[CELLS], last[CELLS], seed = now_ns(), read = 0;
	struct twheel_event events[64];

	for (int i = 0; i < CELLS; i++) {
		last[i] = clock_ns(clock) + random_below(&seed, 300 * MS);
		ids[i] = arm_cell(fd, last[i], i);
	}
	for (__u64 until = now_ns() + race_duration_ns(1000); now_ns() < until || read < CELLS; ) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		for (int i = 0; i < nr; i++) {
			__u64 cookie = events[i].cookie;

			CHECK(cookie < CELLS);
			if (!steps)
				check_event_with(0, clock, &events[i]);
			CHECK_EQ(events[i].expires_ns, last[cookie]);
			check_in_time(&events[i], 0);
			read++;
		}
		if (steps)
			set_realtime((__s64)random_below(&seed, 40 * MS) - 20 * (__s64)MS);
		for (int i = 0; i < 20 && now_ns() < until; i++) {
			int n = random_below(&seed, CELLS), ret;

			last[n] = clock_ns(clock) + random_below(&seed, 100 * MS);
			ret = cell_arm(fd, cells, ids[n], last[n]);
			CHECK(ret >= 0);
			read -= ret == TWHEEL_IDLE;
		}
	}
	check_no_event(fd);
}

TEST(cells_at_all_distances_are_never_early)
{
	move_cells(device_open(O_RDWR | O_NONBLOCK), CLOCK_MONOTONIC, false);
}

TEST(cells_amid_small_steps_are_never_early)
{
	move_cells(open_realtime(O_RDWR | O_NONBLOCK), CLOCK_REALTIME, true);
	set_realtime(0);
}

/* Number of looks */

/* The kernel looks twice and no more; after that nothing is queued. */
static void check_two_looks(int fd, struct twheel_cell *cells, __u64 id)
{
	__u64 before = file_stats(fd).looks;

	if (cell_cancel(cells, id) != 0)
		ktap_skip("the machine is too slow");
	wait_parked(cells, id);
	CHECK_EQ(file_stats(fd).looks, before + 2);
	CHECK(is_idle(word_of(cells, id)));
	sleep_ns(300 * MS);
	CHECK_EQ(file_stats(fd).looks, before + 2);
}

TEST(idle_cell_costs_two_looks)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + 100 * MS, 7);

	check_two_looks(fd, cells, id);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + 100 * MS), TWHEEL_IDLE);
	CHECK_EQ(file_stats(fd).kicks, 1);
	check_two_looks(fd, cells, id);
	CHECK_EQ(mod_cell(fd, id, now_ns() + 100 * MS, 7), TWHEEL_IDLE);
	check_two_looks(fd, cells, id);
	check_no_event(fd);
}

/*
 * From the first look on, all words are a little later than now, so each look finds a moved
 * deadline. That overdraws the account of the user: a work item makes most of the looks. A cell
 * that has fired, as the program was held up, is not looked at any more. In the end all fire.
 */
TEST(storm_of_words)
{
	const __u32 nr = is_slow() ? 2000 : 20000;
	const __u64 ahead = 100 * MS, first = now_ns() + NSEC_PER_SEC;
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, nr);
	static __u64 ids[20000];
	__u64 begin, now = 0;

	for (__u32 i = 0; i < nr; i++)
		ids[i] = arm_cell(fd, first, i);
	begin = now_ns();
	do {
		for (__u32 i = 0; i < nr; i++) {
			now = i % 64 ? now : now_ns();
			exchange(cells, ids[i], now + ahead);
		}
		/* Write no more often than necessary. */
		sleep_ns(ahead / 4);
	} while (file_stats(fd).looks < nr || now_ns() < begin + 3 * NSEC_PER_SEC);
	/* With calls for those that have fired meanwhile. */
	for (__u32 i = 0; i < nr; i++)
		cell_arm(fd, cells, ids[i], first);
	for (__u32 i = 0; i < nr; i++)
		CHECK_EQ(read_cell_event(fd).expires_ns, first);
}

/* Slack */

static __u64 arm_with_slack(int fd, __u64 when, __u32 slack_us, __u32 flags)
{
	struct twheel_op op = op_cell(when, 7);

	op.slack_us = slack_us;
	op.flags |= flags;
	return arm_op(fd, op);
}

static void check_fires_within(int fd, __u64 when, __u64 slack_ns)
{
	struct twheel_event event = read_cell_event(fd);

	CHECK_EQ(event.expires_ns, when);
	check_in_time(&event, slack_ns);
}

TEST(slack_comes_on_top_of_the_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + 50 * MS, id = arm_with_slack(fd, when, 50000, 0);

	CHECK(is_looked_at(cells, id, when));
	check_fires_within(fd, when, 50 * MS);
	for (int i = 0; i < 20; i++) {
		when = now_ns() + i * MS;
		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		CHECK(is_looked_at(cells, id, when));
		check_fires_within(fd, when, 50 * MS);
	}
}

/* A slack so long that a test which waits for it fails. */
#define SLACK_US	(HOUR / 4 / NSEC_PER_USEC)

static void wait_and_check(int fd, __u64 when)
{
	wait_ready(fd, 1);
	check_fires_within(fd, when, 0);
}

/* Also when a look moves the cell: it is then queued with the slack of the cell. */
TEST(exact_cell_fires_in_time)
{
	struct twheel_setup setup = { .slack_us = SLACK_US };
	int fd = device_open_setup(O_RDWR, setup);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + 20 * MS, id = arm_with_slack(fd, when, 0, TWHEEL_F_EXACT);

	for (int i = 0; i < 5; i++) {
		wait_and_check(fd, when);
		when = now_ns() + 50 * MS;
		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		if (i % 2) {
			when += 100 * MS;
			CHECK(cell_arm(fd, cells, id, when) >= 0);
		}
	}
	wait_and_check(fd, when);
}

/* A cell that MOD has made idle is still queued for a look, and the next arming relies on that. */
TEST(mod_replaces_the_slack)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);

	for (int to_idle = 0; to_idle < 2; to_idle++) {
		__u64 when = now_ns() + 100 * MS, id = arm_with_slack(fd, when, SLACK_US, 0);
		struct twheel_op op = op_mod_cell(id, to_idle ? TWHEEL_CELL_IDLE : when, 7);

		op.flags |= TWHEEL_F_EXACT;
		CHECK_EQ(operate(fd, &op), 0);
		if (to_idle)
			CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		CHECK(is_looked_at(cells, id, when));
		wait_and_check(fd, when);
	}
}

/* CLOCK_REALTIME */

TEST(step_forward_fires_what_is_due)
{
	int fd = open_realtime(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = clock_ns(CLOCK_REALTIME) + 2 * HOUR, id = create_idle_cell(fd, 7);

	CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
	set_realtime(3 * HOUR);
	CHECK_EQ(read_cell_event_on(CLOCK_REALTIME, fd).expires_ns, when);
	set_realtime(0);
}

/* If the clock was set back after a look, the kernel looks again when the cell is due. */
TEST(step_back_fires_nothing_early)
{
	int fd = open_realtime(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = clock_ns(CLOCK_REALTIME) + 100 * MS, id = arm_cell(fd, when, 7);

	set_realtime(-2 * (__s64)HOUR);
	skip_if_due(when);
	sleep_ns(200 * MS);
	check_no_event(fd);
	CHECK(get_state(fd, id).expires_ns > HOUR);
	set_realtime(0);
	wait_ready(fd, 1);
	CHECK_EQ(read_cell_event_on(CLOCK_REALTIME, fd).expires_ns, when);
	/* a cell that is armed while the clock is back */
	set_realtime(-2 * (__s64)HOUR);
	when = clock_ns(CLOCK_REALTIME) + 20 * MS;
	CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
	wait_ready(fd, 1);
	CHECK_EQ(read_cell_event_on(CLOCK_REALTIME, fd).expires_ns, when);
	set_realtime(0);
}

/*
 * The clock is set back and forth while cells are moved, with timeouts at all distances: each fires
 * once and not early.
 */
TEST(steps_lose_nothing)
{
	enum { CELLS = 200, ALL = 600 };
	static const __s64 steps[] = { 30, -30, 3600, -7200, 90000, 1, -1, 0 };
	int fd = open_realtime(O_RDWR | O_NONBLOCK), got = 0;
	struct twheel_cell *cells = map_cells(fd, ALL);
	__u64 base = clock_ns(CLOCK_REALTIME), ids[CELLS], last[ALL], seed = now_ns();
	__u8 seen[ALL] = { 0 };

	for (int i = 0; i < CELLS; i++) {
		last[i] = base + i * (i + 1) * NSEC_PER_SEC;
		ids[i] = i % 2 ? arm_cell(fd, last[i], i) : create_idle_cell(fd, i);
		if (i % 2 == 0)
			CHECK_EQ(cell_arm(fd, cells, ids[i], last[i]), TWHEEL_IDLE);
	}
	for (int i = CELLS; i < ALL; i++) {
		last[i] = base + (i - CELLS) * (i - CELLS + 1) / 2 * NSEC_PER_SEC;
		arm_at(fd, last[i], i);
	}
	for (size_t s = 0; got < ALL; s++) {
		struct twheel_event event;
		int n = random_below(&seed, CELLS);

		CHECK(s < 200);
		set_realtime(steps[s % ARRAY_SIZE(steps)] * (__s64)NSEC_PER_SEC);
		if (is_deadline(word_of(cells, ids[n]))) {
			__u64 when = last[n] + HOUR;

			/* it may be firing now */
			if (replace(cells, ids[n], last[n], when)) {
				CHECK(look_of(cells, ids[n]) <= when || !kick(fd, ids[n]));
				last[n] = when;
			}
		}
		sleep_ns(5 * MS);
		while (read_events(fd, &event, 1) == 1) {
			CHECK(event.cookie < ALL);
			CHECK_EQ(event.expires_ns, last[event.cookie]);
			CHECK(event.fired_ns >= event.expires_ns);
			CHECK_EQ(seen[event.cookie]++, 0);
			got++;
		}
	}
	set_realtime(0);
	check_no_event(fd);
}

/* The second look comes within a minute, even if the deadlines were far. */
TEST(idle_cell_is_kept_for_a_minute_at_most)
{
	int fd = open_realtime(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, clock_ns(CLOCK_REALTIME) + 10 * HOUR, 7), look, now;

	CHECK_EQ(cell_cancel(cells, id), 0);
	set_realtime(10 * HOUR);
	WAIT_FOR(file_stats(fd).looks >= 1);
	now = clock_ns(CLOCK_REALTIME);
	look = look_of(cells, id);
	CHECK(look <= now + 60 * NSEC_PER_SEC);
	CHECK(look > now + 30 * NSEC_PER_SEC);
	set_realtime(10 * HOUR + 61 * NSEC_PER_SEC);
	WAIT_FOR(file_stats(fd).looks >= 2);
	CHECK(look_of(cells, id) == NO_LOOK);
	set_realtime(0);
}
