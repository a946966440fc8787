// SPDX-License-Identifier: GPL-2.0
/*
 * Cells: timeouts that are armed and cancelled in shared memory. The tests check the effect
 * and the result of exchanges and calls in each state of a cell.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "cpu.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells that most tests map */
#define UNPROCESSED	(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)
#define NONE		(~0U)

/* States */

static __u64 make_armed(int fd, struct twheel_cell *cells)
{
	(void)cells;
	return arm_cell(fd, now_ns() + HOUR, 7);
}

static __u64 make_armed_through_the_word(int fd, struct twheel_cell *cells)
{
	__u64 id = idle_cell(fd, 7);

	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + HOUR), TWHEEL_IDLE);
	return id;
}

static __u64 make_moved(int fd, struct twheel_cell *cells)
{
	__u64 id = arm_cell(fd, now_ns() + HOUR / 2, 7);

	CHECK_EQ(cell_arm(fd, cells, id, now_ns() + HOUR), 0);
	return id;
}

/* The user has died before the KICK. */
static __u64 make_unkicked(int fd, struct twheel_cell *cells)
{
	__u64 id = idle_cell(fd, 7);

	exchange(cells, id, now_ns() + HOUR);
	return id;
}

static __u64 make_idle(int fd, struct twheel_cell *cells)
{
	(void)cells;
	return idle_cell(fd, 7);
}

static __u64 make_cancelled(int fd, struct twheel_cell *cells)
{
	__u64 id = make_armed(fd, cells);

	CHECK_EQ(cell_cancel(cells, id), 0);
	return id;
}

static __u64 make_fired(int fd, struct twheel_cell *cells)
{
	(void)cells;
	return fired_cell(fd, 7);
}

static __u64 make_read(int fd, struct twheel_cell *cells)
{
	__u64 id = make_fired(fd, cells);

	CHECK_EQ(read_cell_event(fd).id, id);
	return id;
}

static __u64 make_withdrawn(int fd, struct twheel_cell *cells)
{
	__u64 id = make_fired(fd, cells);

	CHECK_EQ(cell_cancel(cells, id), TWHEEL_WITHDRAWN);
	return id;
}

/* Arming the cell has withdrawn the event, and the KICK that this needs is missing. */
static __u64 make_withdrawn_and_unkicked(int fd, struct twheel_cell *cells)
{
	__u64 id = make_fired(fd, cells);

	CHECK(exchange(cells, id, now_ns() + HOUR) == TWHEEL_CELL_FIRED);
	return id;
}

/**
 * struct state - a state of a cell
 * @name: its name
 * @make: makes a cell in this state, with cookie 7; an armed one has a deadline in HOUR
 * @outcome: outcome of an exchange, of MOD and of CANCEL
 * @listed: state in LIST, TWHEEL_STATE_*
 * @looked_at: the kernel is going to look at the word
 * @stopped: flags of the event after STOP, or NONE for no event
 */
static const struct state {
	const char *name;
	__u64 (*make)(int fd, struct twheel_cell *cells);
	int outcome;
	__u32 listed;
	bool looked_at;
	__u32 stopped;
} states[] = {
	{ "armed", make_armed, 0, TWHEEL_STATE_PENDING, true, UNPROCESSED },
	{ "armed through the word", make_armed_through_the_word, 0, TWHEEL_STATE_PENDING, true,
	  UNPROCESSED },
	{ "moved", make_moved, 0, TWHEEL_STATE_PENDING, true, UNPROCESSED },
	{ "unkicked", make_unkicked, 0, TWHEEL_STATE_PENDING, false, UNPROCESSED },
	{ "idle", make_idle, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "cancelled", make_cancelled, TWHEEL_IDLE, TWHEEL_STATE_IDLE, true, NONE },
	{ "fired", make_fired, TWHEEL_WITHDRAWN, TWHEEL_STATE_READY, false, TWHEEL_EV_LAST },
	{ "read", make_read, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "withdrawn", make_withdrawn, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "withdrawn and unkicked", make_withdrawn_and_unkicked, 0, TWHEEL_STATE_PENDING, false,
	  NONE },
};

/* A file with one cell in @state. */
struct fixture {
	const struct state *state;
	int fd;
	struct twheel_cell *cells;
	__u64 id;
};

static struct fixture begin(const struct state *state)
{
	struct fixture f = { .state = state, .fd = device_open(O_RDWR) };

	f.cells = map_cells(f.fd, NR);
	f.id = state->make(f.fd, f.cells);
	CHECK_EQ(info(f.fd).live, 1);
	return f;
}

static void end(struct fixture *f)
{
	file_stats(f->fd);
	unmap_cells(f->cells, NR);
	close(f->fd);
}

/* No earlier event is left, and the cell can be armed again with the same id. */
static void check_works(struct fixture *f)
{
	__u64 when = now_ns() + 2 * MS, cookie = state_of(f->fd, f->id).cookie;

	CHECK(cell_arm(f->fd, f->cells, f->id, when) >= 0);
	check_fires(f->fd, f->id, cookie, when);
	CHECK(is_idle(word_of(f->cells, f->id)));
	CHECK(look_of(f->cells, f->id) == NO_LOOK);
	CHECK_EQ(info(f->fd).live, 1);
	CHECK_EQ(info(f->fd).ready, 0);
	CHECK_EQ(file_stats(f->fd).armed, 1);
}

TEST(every_state_says_when_it_is_looked_at)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		__u64 look = look_of(f.cells, f.id);

		CHECK_EQ(look != NO_LOOK, state->looked_at);
		if (state->looked_at)
			CHECK(look <= now_ns() + HOUR);
		end(&f);
	}
}

static int arm_through_the_word(struct fixture *f, __u64 when)
{
	return cell_arm(f->fd, f->cells, f->id, when);
}

static int cancel_through_the_word(struct fixture *f, __u64 when)
{
	(void)when;
	return cell_cancel(f->cells, f->id);
}

static int cancel_by_call(struct fixture *f, __u64 when)
{
	(void)when;
	return cancel(f->fd, f->id);
}

static int cancel_in_submit(struct fixture *f, __u64 when)
{
	struct twheel_op op = op_cancel(f->id);

	(void)when;
	submit(f->fd, &op, 1);
	return op.result;
}

static int mod_by_call(struct fixture *f, __u64 when)
{
	return mod_cell(f->fd, f->id, when, 8);
}

static int mod_to_idle(struct fixture *f, __u64 when)
{
	(void)when;
	return mod_cell(f->fd, f->id, TWHEEL_CELL_IDLE, 8);
}

/**
 * struct operation - an operation on a cell
 * @name: its name
 * @run: does it, and returns the outcome for the previous arming
 * @idle: outcome if there is no previous arming
 * @again: outcome when it is repeated at once
 * @arms: the cell is armed after it
 * @is_call: it meets a withdrawn event
 * @ends: the cell is gone after it
 */
static const struct operation {
	const char *name;
	int (*run)(struct fixture *f, __u64 when);
	int idle, again;
	bool arms, is_call, ends;
} operations[] = {
	{ "arm through the word", arm_through_the_word, TWHEEL_IDLE, 0, true, false, false },
	{ "cancel through the word", cancel_through_the_word, -ENOENT, -ENOENT, false, false,
	  false },
	{ "MOD", mod_by_call, TWHEEL_IDLE, 0, true, true, false },
	{ "MOD to idle", mod_to_idle, TWHEEL_IDLE, TWHEEL_IDLE, false, true, false },
	{ "CANCEL", cancel_by_call, TWHEEL_IDLE, -ENOENT, false, true, true },
	{ "CANCEL in SUBMIT", cancel_in_submit, TWHEEL_IDLE, -ENOENT, false, true, true },
};

static void check_operation(struct fixture *f, const struct operation *o)
{
	__u64 when = now_ns() + HOUR, soon = now_ns() + 2 * MS;
	int outcome = f->state->outcome;

	CHECK_EQ(o->run(f, when), outcome == TWHEEL_IDLE ? o->idle : outcome);
	CHECK(o->arms ? word_of(f->cells, f->id) == when : is_idle(word_of(f->cells, f->id)));
	if (o->arms)
		CHECK(look_of(f->cells, f->id) <= when);
	if (o->is_call)
		CHECK(!readable(f->fd));
	CHECK_EQ(o->run(f, soon), o->again);
	if (o->arms)
		check_fires(f->fd, f->id, o->is_call ? 8 : 7, soon);
	CHECK_EQ(info(f->fd).live, !o->ends);
	if (o->ends)
		CHECK(look_of(f->cells, f->id) == NO_LOOK);
	else
		CHECK_EQ(state_of(f->fd, f->id).cookie, o->is_call ? 8 : 7);
}

TEST(every_operation_tells_the_outcome)
{
	for_each_row(o, operations) {
		ktap_note("%s", o->name);
		for_each_row(state, states) {
			struct fixture f = begin(state);

			check_operation(&f, o);
			if (!o->ends)
				check_works(&f);
			end(&f);
		}
	}
}

TEST(get_and_list_tell_the_state)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		struct twheel_list_entry entry = only_entry(f.fd);
		__u64 left = state_of(f.fd, f.id).expires_ns;

		CHECK_EQ(entry.id, f.id);
		CHECK_EQ(entry.cookie, 7);
		CHECK_EQ(entry.flags, TWHEEL_F_CELL);
		CHECK_EQ(entry.state, state->listed);
		CHECK(left <= entry.remaining_ns);
		if (state->listed == TWHEEL_STATE_PENDING)
			CHECK(left > HOUR / 2 && left <= HOUR);
		else
			CHECK_EQ(left, state->listed == TWHEEL_STATE_READY ? 0 : ~0ULL);
		end(&f);
	}
}

/* KICK neither makes nor removes an event. An unkicked arming is looked at after it. */
TEST(kick_changes_no_word)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		__u64 word = word_of(f.cells, f.id);

		CHECK_EQ(kick(f.fd, f.id), 0);
		CHECK_EQ(kick(f.fd, f.id), 0);
		CHECK_EQ(word_of(f.cells, f.id), word);
		CHECK_EQ(readable(f.fd), state->listed == TWHEEL_STATE_READY);
		if (is_deadline(word))
			CHECK(look_of(f.cells, f.id) <= word);
		end(&f);
	}
}

static const struct request {
	const char *name;
	struct twheel_cancel_all all;
	bool found;
} requests[] = {
	{ "all", { 0 }, true },
	{ "by cookie", { .flags = TWHEEL_CANCEL_COOKIE, .cookie = 7 }, true },
	{ "by another cookie", { .flags = TWHEEL_CANCEL_COOKIE, .cookie = 8 }, false },
};

static void check_cancel_all(struct fixture *f, struct twheel_cancel_all all, bool found)
{
	__u64 word = word_of(f->cells, f->id);

	CHECK_EQ(device_ioctl(f->fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	CHECK_EQ(all.pending, found && f->state->outcome == 0);
	CHECK_EQ(all.withdrawn, found && f->state->outcome == TWHEEL_WITHDRAWN);
	CHECK_EQ(info(f->fd).live, !found);
	CHECK_EQ(get(f->fd, f->id), found ? -ENOENT : 0);
	if (found)
		CHECK(!readable(f->fd));
	else
		CHECK_EQ(word_of(f->cells, f->id), word);
}

TEST(cancel_all_counts_what_was_armed)
{
	for_each_row(request, requests) {
		ktap_note("%s", request->name);
		for_each_row(state, states) {
			struct fixture f = begin(state);

			check_cancel_all(&f, request->all, request->found);
			end(&f);
		}
	}
}

TEST(stop_hands_out_what_is_armed_or_fired)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		__u64 word = word_of(f.cells, f.id);
		struct twheel_event event;

		CHECK_EQ(stop(f.fd), 0);
		CHECK_EQ(kick(f.fd, f.id), -ESHUTDOWN);
		CHECK_EQ(mod_cell(f.fd, f.id, HOUR, 0), -ESHUTDOWN);
		if (state->stopped != NONE) {
			event = read_any_event(f.fd);
			CHECK_EQ(event.flags, state->stopped);
			CHECK_EQ(event.count, !(event.flags & TWHEEL_EV_UNPROCESSED));
			if (is_deadline(word))
				CHECK_EQ(event.expires_ns, word);
		}
		CHECK_EQ(read(f.fd, &event, sizeof(event)), 0);
		CHECK_EQ(get(f.fd, f.id), -ENOENT);
		CHECK_EQ(info(f.fd).live, 0);
		CHECK_EQ(info(f.fd).ready, 0);
		end(&f);
	}
}

TEST(close_ends_a_cell_in_any_state)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);

		close(f.fd);
		exchange(f.cells, f.id, now_ns());
		unmap_cells(f.cells, NR);
	}
	check_no_event(device_open(O_RDWR | O_NONBLOCK));
}

/* Arming */

TEST(arm_writes_word_and_look)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 before = now_ns(), when = before + HOUR, after, id = arm_cell(fd, when, 0);

	CHECK_EQ(word_of(cells, id), when);
	CHECK_EQ(look_of(cells, id), when);
	id = arm_op(fd, op_arm(HOUR, TWHEEL_F_CELL, 0));
	after = now_ns();
	CHECK(word_of(cells, id) >= before + HOUR);
	CHECK(word_of(cells, id) <= after + HOUR);
	CHECK_EQ(look_of(cells, id), word_of(cells, id));
}

TEST(arm_and_mod_make_idle_cells)
{
	static const __u32 flags[] = { TWHEEL_F_CELL, TWHEEL_F_CELL | TWHEEL_F_ABS };
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		__u64 id = arm_op(fd, op_arm(TWHEEL_CELL_IDLE, flags[i], 7));
		struct twheel_op op = op_mod(id, TWHEEL_CELL_IDLE, flags[i], 8);

		CHECK(word_of(cells, id) == TWHEEL_CELL_IDLE);
		CHECK(look_of(cells, id) == NO_LOOK);
		CHECK(state_of(fd, id).expires_ns == ~0ULL);
		CHECK_EQ(mod_cell(fd, id, now_ns() + HOUR, 7), TWHEEL_IDLE);
		CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
		CHECK(is_idle(word_of(cells, id)));
		CHECK(state_of(fd, id).expires_ns == ~0ULL);
		CHECK_EQ(state_of(fd, id).cookie, 8);
	}
	CHECK_EQ(info(fd).live, 2);
}

/* Only a cell can be idle, and only with the word TWHEEL_CELL_IDLE. */
TEST(arm_for_a_bad_idle_value_is_einval)
{
	static const struct {
		const char *name;
		__u64 value;
		__u32 flags;
	} bad_values[] = {
		{ "no cell", TWHEEL_CELL_IDLE, 0 },
		{ "first value", EXPIRES_MAX + 1, TWHEEL_F_CELL },
		{ "fired", TWHEEL_CELL_FIRED, TWHEEL_F_CELL },
		{ "before fired", ~0ULL - 2, TWHEEL_F_CELL },
		{ "middle value", 3ULL << 62, TWHEEL_F_CELL },
	};
	int fd = device_open(O_RDWR);
	__u64 plain = arm(fd, HOUR, 7), cell, none;

	need_cells();
	cell = arm_cell(fd, now_ns() + HOUR, 7);
	for_each_row(bad, bad_values) {
		struct twheel_op op = op_mod(bad->flags ? cell : plain, bad->value, bad->flags, 8);

		CHECK_EQ(try_arm(fd, bad->value, bad->flags, 0, &none), -EINVAL);
		CHECK_EQ(try_arm(fd, bad->value, bad->flags | TWHEEL_F_ABS, 0, &none), -EINVAL);
		CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), -EINVAL);
		op.flags |= TWHEEL_F_ABS;
		CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), -EINVAL);
	}
	CHECK_EQ(state_of(fd, plain).cookie, 7);
	CHECK_EQ(state_of(fd, cell).cookie, 7);
	CHECK_EQ(info(fd).live, 2);
}

TEST(submit_writes_the_words)
{
	struct twheel_op ops[200];
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 base = now_ns() + HOUR;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_cell(i % 3 ? base + i : TWHEEL_CELL_IDLE, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		CHECK_EQ(ops[i].result, 0);
		CHECK(word_of(cells, ops[i].id) == (i % 3 ? base + i : TWHEEL_CELL_IDLE));
		CHECK(look_of(cells, ops[i].id) == (i % 3 ? base + i : NO_LOOK));
	}
}

TEST(cell_of_an_unused_index_is_idle)
{
	struct twheel_cell *cells = map_cells(device_open(O_RDWR), 4 * NR);

	for (size_t i = 0; i < 4 * NR; i++) {
		CHECK(word_of(cells, i) == TWHEEL_CELL_IDLE);
		CHECK(look_of(cells, i) == NO_LOOK);
	}
}

TEST(timeouts_that_are_no_cells_write_no_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + 20 * MS, id = arm_at(fd, when, 7);

	CHECK(word_of(cells, id) == TWHEEL_CELL_IDLE);
	exchange(cells, id, when + HOUR);
	CHECK(state_of(fd, id).expires_ns <= 20 * MS);
	CHECK_EQ(read_event(fd).expires_ns, when);
	CHECK_EQ(word_of(cells, id), when + HOUR);
}

TEST(nobody_needs_a_mapping)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + 20 * MS, id;

	need_cells();
	id = arm_cell(fd, when, 7);
	CHECK_EQ(read_cell_event(fd).expires_ns, when);
	when = now_ns() + 5 * MS;
	CHECK_EQ(mod_cell(fd, id, when, 8), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).expires_ns, when);
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
}

TEST(cell_armed_in_the_past_fires)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, 0, 7);

	CHECK_EQ(read_cell_event(fd).expires_ns, 0);
	CHECK_EQ(mod_cell(fd, id, 1, 7), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).expires_ns, 1);
	CHECK_EQ(cell_arm(fd, cells, id, 2), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).expires_ns, 2);
	arm_op(fd, op_arm(0, TWHEEL_F_CELL, 8));
	CHECK_EQ(read_cell_event(fd).cookie, 8);
}

TEST(cell_armed_for_int64_max_waits)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, EXPIRES_MAX, 7), again = idle_cell(fd, 8);

	CHECK(state_of(fd, id).expires_ns > EXPIRES_MAX / 2);
	CHECK_EQ(cell_arm(fd, cells, again, EXPIRES_MAX), TWHEEL_IDLE);
	CHECK_EQ(kick(fd, again), 0);
	sleep_ns(20 * MS);
	check_no_event(fd);
	CHECK_EQ(cell_cancel(cells, again), 0);
	CHECK_EQ(cancel(fd, id), 0);
}

/* Operations with the wrong kind of timeout */

TEST(mod_with_the_cell_flag_of_another_timeout_is_einval)
{
	int fd = device_open(O_RDWR);
	__u64 pending = arm(fd, HOUR, 7), fired;

	need_cells();
	fired = arm_fired(fd, 8);
	CHECK_EQ(mod_cell(fd, pending, now_ns(), 9), -EINVAL);
	CHECK_EQ(mod_cell(fd, fired, TWHEEL_CELL_IDLE, 9), -EINVAL);
	CHECK_EQ(state_of(fd, pending).cookie, 7);
	CHECK(state_of(fd, pending).expires_ns > HOUR / 2);
	CHECK_EQ(read_event(fd).cookie, 8);
	CHECK_EQ(info(fd).live, 1);
}

static void check_refused(struct fixture *f, const char *name, struct twheel_op bad, int error)
{
	__u64 word = word_of(f->cells, f->id), look = look_of(f->cells, f->id);

	CHECK_ROW(operate(f->fd, TWHEEL_IOC_MOD, &bad), error, name);
	submit(f->fd, &bad, 1);
	CHECK_ROW(bad.result, error, name);
	CHECK_ROW(word_of(f->cells, f->id), word, name);
	CHECK_ROW(look_of(f->cells, f->id), look, name);
	CHECK_ROW(state_of(f->fd, f->id).cookie, 7, name);
	CHECK_ROW(file_stats(f->fd).moved, 0, name);
}

TEST(refused_mod_leaves_the_cell)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		struct twheel_op interval = op_mod_cell(f.id, now_ns(), 8);
		struct twheel_op slack = op_mod_cell(f.id, now_ns(), 8);

		interval.interval_ns = 1;
		slack.slack_us = 1;
		slack.flags |= TWHEEL_F_EXACT;
		check_refused(&f, "no cell flag", op_mod(f.id, 0, 0, 8), -EINVAL);
		check_refused(&f, "deadline", op_mod_cell(f.id, EXPIRES_MAX + 1, 8), -EINVAL);
		check_refused(&f, "interval", interval, -EINVAL);
		check_refused(&f, "exact with slack", slack, -EINVAL);
		check_refused(&f, "id", op_mod_cell(f.id + (1ULL << 32), 0, 8), -ENOENT);
		end(&f);
	}
}

TEST(kick_of_an_unknown_id_is_enoent)
{
	int fd = device_open(O_RDWR);
	__u64 seed = now_ns(), id;

	need_cells();
	id = idle_cell(fd, 7);
	CHECK_EQ(kick(fd, 0), -ENOENT);
	CHECK_EQ(kick(fd, (__u32)id), -ENOENT);
	CHECK_EQ(kick(fd, id + (1ULL << 32)), -ENOENT);
	CHECK_EQ(kick(fd, ~0ULL), -ENOENT);
	for (int i = 0; i < 1000; i++) {
		__u64 made_up = random_below(&seed, ~0ULL);

		CHECK_EQ(kick(fd, made_up), made_up == id ? 0 : -ENOENT);
	}
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	CHECK_EQ(kick(fd, id), -ENOENT);
	CHECK_EQ(file_stats(fd).kicks, 0);
}

TEST(kick_of_another_timeout_is_einval)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 7), fired;

	need_cells();
	CHECK_EQ(kick(fd, id), -EINVAL);
	fired = arm_fired(fd, 8);
	CHECK_EQ(kick(fd, fired), -EINVAL);
	CHECK_EQ(kick(fd, arm_op(fd, op_periodic(HOUR, HOUR, 0, 0, 9))), -EINVAL);
	CHECK_EQ(read_event(fd).cookie, 8);
	CHECK_EQ(state_of(fd, id).cookie, 7);
	CHECK_EQ(file_stats(fd).kicks, 0);
}

TEST(kick_after_stop_is_eshutdown)
{
	int fd = device_open(O_RDWR);
	struct twheel_op op;
	__u64 id;

	need_cells();
	id = idle_cell(fd, 7);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(kick(fd, id), -ESHUTDOWN);
	CHECK_EQ(kick(fd, 12345), -ESHUTDOWN);
	op = op_kick(id);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -ESHUTDOWN);
}

/* Cancel of one arming and no later one */

TEST(compare_exchange_cancels_one_arming_alone)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + HOUR, id = arm_cell(fd, when, 7);

	CHECK(!replace(cells, id, when + 1, TWHEEL_CELL_IDLE));
	CHECK(replace(cells, id, when, TWHEEL_CELL_IDLE));
	CHECK(!replace(cells, id, when, TWHEEL_CELL_IDLE));
	CHECK_EQ(cell_arm(fd, cells, id, when + 1), TWHEEL_IDLE);
	CHECK(!replace(cells, id, when, TWHEEL_CELL_IDLE));
	CHECK_EQ(state_of(fd, id).cookie, 7);
	CHECK(state_of(fd, id).expires_ns <= HOUR);
	CHECK_EQ(cell_cancel(cells, id), 0);
	check_no_event(fd);
}

/* The arming has fired: its event stays and can be read. */
TEST(compare_exchange_of_a_fired_one_leaves_the_event)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns(), id = arm_cell(fd, when, 7);

	wait_ready(fd, 1);
	CHECK(!replace(cells, id, when, TWHEEL_CELL_IDLE));
	check_fires(fd, id, 7, when);
	CHECK(!replace(cells, id, when, TWHEEL_CELL_IDLE));
	CHECK_EQ(cell_cancel(cells, id), -ENOENT);
}

/* Life of a cell */

TEST(cell_keeps_its_id_over_many_rounds)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7);

	for (int i = 0; i < 300; i++) {
		__u64 when = now_ns() + i % 3 * NSEC_PER_MSEC / 2;

		CHECK_EQ(i % 2 ? mod_cell(fd, id, when, 7) : cell_arm(fd, cells, id, when),
			 TWHEEL_IDLE);
		check_fires(fd, id, 7, when);
		CHECK_EQ(info(fd).live, 1);
	}
	CHECK_EQ(file_stats(fd).armed, 1);
	CHECK_EQ(file_stats(fd).read, 300);
}

TEST(cell_at_the_limit_can_always_be_armed)
{
	int fd = device_open_limited(O_RDWR, 1);
	struct twheel_cell *cells = map_cells(fd, 1);
	__u64 id = idle_cell(fd, 7), none;

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
		CHECK_EQ(try_arm(fd, HOUR, TWHEEL_F_CELL, 0, &none), -EAGAIN);
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
		CHECK_EQ(read_cell_event(fd).id, id);
	}
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	arm(fd, HOUR, 0);
}

TEST(idle_cells_count_as_live)
{
	int fd = device_open_limited(O_RDWR, 300);
	__u64 none;

	need_cells();
	for (int i = 0; i < 300; i++)
		idle_cell(fd, i);
	CHECK_EQ(info(fd).live, 300);
	CHECK_EQ(try_arm(fd, TWHEEL_CELL_IDLE, TWHEEL_F_CELL, 0, &none), -EAGAIN);
}

/* A word written to a cell that has ended does not affect the next cell. */
TEST(index_used_again_has_a_new_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 7), again, when;

	for (int i = 0; i < 10; i++) {
		CHECK(cancel(fd, id) >= 0);
		exchange(cells, id, i % 2 ? TWHEEL_CELL_FIRED : now_ns());
		when = i % 3 ? now_ns() + HOUR : TWHEEL_CELL_IDLE;
		again = arm_cell(fd, when, 8);
		CHECK_EQ((__u32)again, (__u32)id);
		CHECK(again != id);
		CHECK(word_of(cells, again) == when);
		CHECK(look_of(cells, again) == when);
		CHECK_EQ(kick(fd, id), -ENOENT);
		id = again;
	}
	CHECK(!readable(fd));
}

/* KICK returns ENOENT if the cell has ended, and the arming is undone. */
TEST(arming_of_a_cell_that_has_ended_fails)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 7);

	CHECK_EQ(cancel(fd, id), 0);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns()), -ENOENT);
	CHECK(word_of(cells, id) == TWHEEL_CELL_IDLE);
	sleep_ns(20 * MS);
	CHECK(!readable(fd));
}

/* For the first cell, the kernel has taken up the arming: STOP has made an event of it. */
TEST(undo_after_stop_tells_if_the_arm_has_failed)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + HOUR, before = idle_cell(fd, 7), after = fired_cell(fd, 8);

	exchange(cells, before, when);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(kick(fd, before), -ESHUTDOWN);
	CHECK(!replace(cells, before, when, TWHEEL_CELL_IDLE));
	CHECK_EQ(cell_arm(fd, cells, after, when), -ESHUTDOWN);
	CHECK(word_of(cells, after) == TWHEEL_CELL_IDLE);
	CHECK_EQ(read_any_event(fd).id, before);
	CHECK_EQ(read(fd, &(struct twheel_event) { 0 }, sizeof(struct twheel_event)), 0);
}

/* Hostile words and looks */

static const __u64 idle_words[] = {
	EXPIRES_MAX + 1, EXPIRES_MAX + 2, 3ULL << 62, ~0ULL - 4, ~0ULL - 3, ~0ULL - 2,
	TWHEEL_CELL_FIRED, TWHEEL_CELL_IDLE,
};

/* FIRED without an event is idle, like any other word that is no deadline. */
TEST(words_that_are_no_deadlines_are_idle)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);

		if (state->listed == TWHEEL_STATE_READY)
			goto next;
		for (size_t i = 0; i < ARRAY_SIZE(idle_words); i++) {
			/* The forged FIRED would make the event valid that is still queued. */
			if (!strncmp(state->name, "withdrawn", 9) &&
			    idle_words[i] == TWHEEL_CELL_FIRED)
				continue;
			exchange(f.cells, f.id, idle_words[i]);
			CHECK_EQ(state_of(f.fd, f.id).expires_ns, ~0ULL);
			CHECK_EQ(only_entry(f.fd).state, TWHEEL_STATE_IDLE);
			CHECK_EQ(kick(f.fd, f.id), 0);
			CHECK_EQ(mod_cell(f.fd, f.id, idle_words[i] & 1 ? now_ns() + HOUR :
					   TWHEEL_CELL_IDLE, 7), TWHEEL_IDLE);
			CHECK_EQ(readable(f.fd), 0);
		}
		check_works(&f);
next:
		end(&f);
	}
}

TEST(idle_words_end_idle)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);

	for (size_t i = 0; i < ARRAY_SIZE(idle_words); i++) {
		__u64 id = arm_cell(fd, now_ns() + HOUR, 7);

		exchange(cells, id, idle_words[i]);
		CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
		id = arm_cell(fd, now_ns() + HOUR, 7);
		exchange(cells, id, idle_words[i]);
	}
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(file_stats(fd).ended, 2 * ARRAY_SIZE(idle_words));
	CHECK_EQ(read(fd, &(struct twheel_event) { 0 }, sizeof(struct twheel_event)), 0);
}

/* The kernel may find any word when it looks. */
TEST(words_found_by_a_look_do_no_harm)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 ids[ARRAY_SIZE(idle_words)];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = arm_cell(fd, now_ns() + 10 * MS, 7);
		exchange(cells, ids[i], idle_words[i]);
	}
	sleep_ns(50 * MS);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK(is_deadline(word_of(cells, ids[i])) == 0);
	/* The machine may have been too slow to overwrite the deadlines. */
	if (file_stats(fd).fired)
		ktap_skip("the machine is too slow");
	check_no_event(fd);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK_EQ(cell_arm(fd, cells, ids[i], now_ns()), outcome_of(idle_words[i]));
	wait_ready(fd, ARRAY_SIZE(ids));
}

/* The kernel never reads a look, so a wrong one harms only the users that rely on it. */
TEST(looks_that_users_write_are_not_believed)
{
	static const __u64 looks[] = { 0, 1, EXPIRES_MAX, EXPIRES_MAX + 1, ~0ULL - 1, ~0ULL };
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7);

	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		__u64 when = now_ns() + 5 * MS;

		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		__atomic_store_n(&cell_of(cells, id)->look, looks[i], __ATOMIC_SEQ_CST);
		CHECK_EQ(read_cell_event(fd).expires_ns, when);
		__atomic_store_n(&cell_of(cells, id)->look, looks[i], __ATOMIC_SEQ_CST);
		when = now_ns();
		exchange(cells, id, when);
		CHECK_EQ(kick(fd, id), 0);
		CHECK_EQ(read_cell_event(fd).expires_ns, when);
	}
}

struct scribbler {
	pthread_t thread;
	struct twheel_cell *cells;
	size_t nr;
	__u64 until;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	__u64 seed = now_ns();

	while (now_ns() < s->until) {
		struct twheel_cell *cell = &s->cells[random_below(&seed, s->nr)];
		__u64 value = random_below(&seed, 4) ? now_ns() + random_below(&seed, 5 * MS) :
			      idle_words[random_below(&seed, ARRAY_SIZE(idle_words))];

		__atomic_store_n(random_below(&seed, 8) ? &cell->word : &cell->look, value,
				 __ATOMIC_RELAXED);
	}
	return NULL;
}

/* With plain stores at any time, events are well-formed and the counters agree. */
TEST(wild_stores_do_no_harm)
{
	enum { CELLS = 2000 };
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct scribbler s = { .nr = CELLS, .until = now_ns() + race_ns(1500) };
	struct twheel_event events[64];
	__u64 first = 0, id, read = 0;

	s.cells = map_cells(fd, CELLS);
	for (int i = 0; i < CELLS; i++) {
		id = arm_op(fd, op_arm(i * NSEC_PER_MSEC / 4, TWHEEL_F_CELL, i));
		first = first ? first : id;
	}
	pthread_create(&s.thread, NULL, scribble, &s);
	while (now_ns() < s.until) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(nr > 0 || nr == -EAGAIN);
		for (int i = 0; i < nr; i++) {
			CHECK(events[i].cookie < CELLS);
			CHECK_EQ(events[i].id, first + events[i].cookie);
			CHECK_EQ(events[i].count, 1);
			CHECK_EQ(events[i].flags, 0);
			CHECK(events[i].fired_ns >= events[i].expires_ns);
			read++;
		}
		for (int i = 0; i < 16; i++)
			CHECK_EQ(kick(fd, first + (events[0].fired_ns + i) % CELLS), 0);
	}
	pthread_join(s.thread, NULL);
	CHECK_EQ(file_stats(fd).read, read);
	CHECK_EQ(file_stats(fd).live, CELLS);
	for (int i = 0; i < CELLS; i++)
		CHECK(cancel(fd, first + i) >= 0);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 0);
	ktap_note("%llu events", (unsigned long long)read);
}

/* Batches and neighbours */

TEST(submit_of_a_mix_tells_every_result)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + HOUR, armed = arm_cell(fd, when, 1), idle = idle_cell(fd, 2);
	__u64 fired = fired_cell(fd, 3), plain = arm(fd, HOUR, 4), ended = idle_cell(fd, 5);
	const struct {
		struct twheel_op op;
		int result;
	} mix[] = {
		{ op_cell(when, 10), 0 },
		{ op_kick(armed), 0 },
		{ op_kick(plain), -EINVAL },
		{ op_mod_cell(idle, when + 1, 20), TWHEEL_IDLE },
		{ op_get(idle), 0 },
		{ op_arm(HOUR, 0, 11), 0 },
		{ op_mod_cell(fired, TWHEEL_CELL_IDLE, 30), TWHEEL_WITHDRAWN },
		{ op_get(fired), 0 },
		{ op_mod_cell(plain, when, 40), -EINVAL },
		{ op_mod(armed, HOUR, 0, 41), -EINVAL },
		{ op_cell(TWHEEL_CELL_IDLE, 12), 0 },
		{ op_cancel(ended), TWHEEL_IDLE },
		{ op_kick(ended), -ENOENT },
		{ op_cancel(armed), 0 },
		{ op_cancel(armed), -ENOENT },
		{ op_mod(plain, 2 * HOUR, 0, 42), 0 },
		{ op_cell(EXPIRES_MAX + 1, 13), -EINVAL },
		{ op_cancel(plain), 0 },
		{ op_cancel(fired), TWHEEL_IDLE },
	};
	struct twheel_op ops[ARRAY_SIZE(mix)];

	for (size_t i = 0; i < ARRAY_SIZE(mix); i++)
		ops[i] = mix[i].op;
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(mix); i++) {
		if (ops[i].result != mix[i].result)
			ktap_fail("%zu: %d, not %d", i, ops[i].result, mix[i].result);
	}
	CHECK_EQ(word_of(cells, ops[0].id), when);
	CHECK_EQ(ops[4].cookie, 20);
	CHECK(ops[4].expires_ns > HOUR / 2 && ops[4].expires_ns <= HOUR + 1);
	CHECK(ops[7].expires_ns == ~0ULL);
	CHECK_EQ(ops[7].cookie, 30);
	CHECK(word_of(cells, ops[10].id) == TWHEEL_CELL_IDLE);
	CHECK_EQ(info(fd).live, 4);
	CHECK(!readable(fd));
}

/* More operations than one lock hold handles, with cells and other timeouts in turn. */
TEST(large_batches_of_cells_and_others)
{
	enum { OPS = 1000 };
	struct twheel_op ops[OPS];
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, OPS);
	__u64 base = now_ns() + HOUR, ids[OPS], word;

	for (int i = 0; i < OPS; i++)
		ops[i] = i % 7 ? op_cell(base + i, i) : op_arm(HOUR, 0, i);
	submit(fd, ops, OPS);
	for (int i = 0; i < OPS; i++) {
		CHECK_EQ(ops[i].result, 0);
		ids[i] = ops[i].id;
		word = i % 2 ? base : TWHEEL_CELL_IDLE;
		if (i % 7)
			CHECK_EQ(exchange(cells, ids[i], word), base + i);
		ops[i] = op_kick(ids[i]);
	}
	submit(fd, ops, OPS);
	for (int i = 0; i < OPS; i++) {
		CHECK_EQ(ops[i].result, i % 7 ? 0 : -EINVAL);
		ops[i] = op_cancel(ids[i]);
	}
	submit(fd, ops, OPS);
	for (int i = 0; i < OPS; i++)
		CHECK_EQ(ops[i].result, i % 7 && i % 2 == 0 ? TWHEEL_IDLE : 0);
	CHECK_EQ(info(fd).live, 0);
}

/* Cells, one-shots and periodic timeouts have the same deadlines. */
TEST(cells_fire_beside_other_timeouts)
{
	enum { EACH = 100 };
	int fd = device_open(O_RDWR), got[3] = { 0 };
	struct twheel_cell *cells = map_cells(fd, 3 * EACH);
	__u64 base = now_ns() + 30 * MS;
	struct twheel_op ops[3 * EACH];

	for (int i = 0; i < 3 * EACH; i += 3) {
		ops[i] = op_cell(base + i * 1000, i);
		ops[i + 1] = op_arm(base + i * 1000, TWHEEL_F_ABS, i + 1);
		ops[i + 2] = op_periodic(base + i * 1000, HOUR, 2, TWHEEL_F_ABS, i + 2);
	}
	submit(fd, ops, ARRAY_SIZE(ops));
	for (int i = 0; i < 3 * EACH; i++) {
		struct twheel_event event = read_any_event(fd);

		CHECK(event.cookie < 3 * EACH);
		CHECK_EQ(event.id, ops[event.cookie].id);
		CHECK_EQ(event.expires_ns, base + event.cookie / 3 * 3 * 1000);
		CHECK(event.fired_ns >= event.expires_ns);
		CHECK_EQ(event.count, 1);
		CHECK_EQ(event.flags, event.cookie % 3 == 1 ? TWHEEL_EV_LAST : 0);
		got[event.cookie % 3]++;
	}
	CHECK_EQ(got[0], EACH);
	CHECK_EQ(got[1], EACH);
	CHECK_EQ(info(fd).live, 2 * EACH);
	for (int i = 0; i < 3 * EACH; i += 3)
		CHECK_EQ(cell_cancel(cells, ops[i].id), -ENOENT);
}

/* Records are allocated by the page; this number fills all pages below LIMIT. */
#define LIMIT		512
#define PER_PAGE	46
#define FULL		(LIMIT / PER_PAGE * PER_PAGE)
#define FREED		100

struct canceller {
	pthread_t thread;
	int fd;
	__u64 ids[FULL];
	__u64 when;
};

static void spin_until(__u64 when)
{
	while (now_ns() < when)
		;
}

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

/* Some timeouts end while another one gets a new page of records. */
static void grow_amid_cancels(struct canceller *canceller, __u64 delay_ns)
{
	canceller->when = now_ns() + MS;
	CHECK(!pthread_create(&canceller->thread, NULL, cancel_at, canceller));
	spin_until(canceller->when + delay_ns);
	arm(canceller->fd, HOUR, 0);
	pthread_join(canceller->thread, NULL);
}

static void fill_with_cells(int fd)
{
	struct twheel_op ops[LIMIT - 1 - FULL + FREED];

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_cell(i % 2 ? now_ns() + HOUR : TWHEEL_CELL_IDLE, 0);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, 0);
}

/*
 * The last page of records has more indices than the file may have timeouts. Timeouts with
 * the excess indices cannot be cells, so they must not prevent other timeouts from being
 * cells.
 */
TEST(all_that_the_limit_allows_can_be_cells)
{
	__u64 seed = now_ns(), until = seed + race_ns(1500);
	int rounds = 0;

	need_cells();
	for (; now_ns() < until; rounds++) {
		struct canceller canceller = { .fd = device_open_limited(O_RDWR, LIMIT) };

		arm_many(canceller.fd, FULL, HOUR, 0, 0, canceller.ids);
		grow_amid_cancels(&canceller, random_below(&seed, MS / 10));
		fill_with_cells(canceller.fd);
		CHECK_EQ(info(canceller.fd).live, LIMIT);
		close(canceller.fd);
	}
	ktap_note("%d rounds", rounds);
}

#define MILLION		1000000

static void use_a_million(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, MILLION);
	__u64 base = now_ns() + 30 * NSEC_PER_SEC, withdrawn = 0, moved = 0, fired = 0;
	static struct twheel_op ops[1000];
	static struct twheel_event events[1000];
	static __u64 ids[MILLION];

	for (int i = 0; i < MILLION; i += ARRAY_SIZE(ops)) {
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ops[n] = op_cell(base + i + n, i + n);
		submit(fd, ops, ARRAY_SIZE(ops));
		for (size_t n = 0; n < ARRAY_SIZE(ops); n++)
			ids[i + n] = ops[n].id;
	}
	/*
	 * Half of the cells are cancelled. The others fire at once, with a thousand KICKs
	 * per call.
	 */
	for (int i = 0; i < MILLION; i += 2) {
		CHECK_EQ(exchange(cells, ids[i], TWHEEL_CELL_IDLE), base + i);
		ops[i / 2 % ARRAY_SIZE(ops)] = op_kick(ids[i + 1]);
		moved += is_deadline(exchange(cells, ids[i + 1], base - 20 * NSEC_PER_SEC + i));
		if (i / 2 % ARRAY_SIZE(ops) == ARRAY_SIZE(ops) - 1)
			submit(fd, ops, ARRAY_SIZE(ops));
	}
	CHECK_EQ(moved, MILLION / 2);
	for (__u64 end = now_ns() + 30 * NSEC_PER_SEC; fired + withdrawn < MILLION / 2; ) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(nr > 0 || nr == -EAGAIN);
		CHECK(now_ns() < end);
		for (int i = 0; i < nr; i++) {
			CHECK_EQ(events[i].cookie % 2, 1);
			CHECK_EQ(events[i].expires_ns,
				 base - 20 * NSEC_PER_SEC + events[i].cookie - 1);
			CHECK(events[i].fired_ns >= events[i].expires_ns);
		}
		fired += nr > 0 ? nr : 0;
	}
	CHECK_EQ(file_stats(fd).read, MILLION / 2);
	CHECK_EQ(file_stats(fd).live, MILLION);
	CHECK_EQ(file_stats(fd).ready, 0);
	for (int i = 0; i < MILLION; i++)
		CHECK(is_idle(word_of(cells, ids[i])));
	check_no_event(fd);
}

#define FAR		40
#define DUE		24

/*
 * One run cancels cells with far deadlines and timeouts due at @when. Of these timeouts, some
 * are pending and some are on their way to the sink. Returns the number of timeouts that had
 * fired.
 */
static unsigned int cancel_cells_and_due(int fd, __u64 when, __u64 delay)
{
	struct twheel_op ops[FAR + DUE];
	unsigned int fired = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = i < FAR ? op_cell(when + HOUR, i) : op_arm(when, TWHEEL_F_ABS, i);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_cancel(ops[i].id);
	spin_until(when + delay);
	submit(fd, ops, ARRAY_SIZE(ops));
	for (size_t i = 0; i < FAR; i++)
		CHECK_EQ(ops[i].result, 0);
	for (size_t i = FAR; i < ARRAY_SIZE(ops); i++) {
		CHECK(ops[i].result == 0 || ops[i].result == TWHEEL_WITHDRAWN);
		fired += ops[i].result;
	}
	return fired;
}

TEST(outcomes_of_a_run_of_cancels_are_not_mixed_up)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 end = now_ns() + 3 * NSEC_PER_SEC, seed = 1, tick_ns = info(fd).tick_ns;
	__u64 before, runs = 0, withdrawn = 0;
	struct twheel_stats stats;

	need_cells();
	/* A tick may be a nanosecond. */
	if (tick_ns < MS)
		tick_ns = MS;
	while (now_ns() < end) {
		before = now_ns() / tick_ns * tick_ns;
		withdrawn += cancel_cells_and_due(fd, before + 2 * tick_ns,
						  random_below(&seed, tick_ns / 8));
		runs++;
	}
	stats = file_stats(fd);
	CHECK_EQ(stats.withdrawn, withdrawn);
	CHECK_EQ(stats.cancelled + stats.withdrawn, runs * (FAR + DUE));
	CHECK_EQ(stats.live, 0);
}

TEST(a_million_cells_are_counted_exactly)
{
	need_speed();
	need_cells();
	with_room_for(MILLION, use_a_million);
}

/* Other clocks, wheels, namespaces and processes */

TEST(word_is_of_the_clock_of_the_file)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		int fd = device_open_setup(O_RDWR, setup_clock(clocks[i]));
		struct twheel_cell *cells = map_cells(fd, NR);
		__u64 when = clock_ns(clocks[i]) + 10 * MS, id = arm_cell(fd, when, 7);

		CHECK_EQ(read_cell_event_on(clocks[i], fd).expires_ns, when);
		when = clock_ns(clocks[i]) + 10 * MS;
		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		CHECK_EQ(read_cell_event_on(clocks[i], fd).expires_ns, when);
		CHECK_EQ(mod_cell(fd, id, TWHEEL_CELL_IDLE, 0), TWHEEL_IDLE);
	}
}

TEST(idle_cell_on_realtime_is_absolute_too)
{
	int fd = device_open_setup(O_RDWR, setup_clock(CLOCK_REALTIME));
	__u64 none;

	need_cells();
	CHECK_EQ(try_arm(fd, TWHEEL_CELL_IDLE, TWHEEL_F_CELL, 0, &none), -EINVAL);
	idle_cell(fd, 0);
	CHECK_EQ(info(fd).live, 1);
}

TEST(cells_fire_in_a_wheel_of_their_own)
{
	struct twheel_setup setup = { .tick_ns = 7 * MS, .slots = 4 };
	int fd = device_open_setup(O_RDWR, setup);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 base = now_ns(), id = arm_cell(fd, base + 300 * MS, 7);

	CHECK_EQ(cell_arm(fd, cells, id, base + 500 * MS), 0);
	CHECK_EQ(read_cell_event(fd).expires_ns, base + 500 * MS);
	CHECK_EQ(cell_arm(fd, cells, id, base), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).expires_ns, base);
}

static void check_times_of_a_cell(clockid_t clock, int fd)
{
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 base = clock_ns(clock), id = arm_cell(fd, base + HOUR, 7);

	CHECK_EQ(word_of(cells, id), base + HOUR);
	CHECK_EQ(look_of(cells, id), base + HOUR);
	CHECK(state_of(fd, id).expires_ns <= HOUR);
	CHECK(state_of(fd, id).expires_ns > HOUR / 2);
	base = clock_ns(clock);
	CHECK_EQ(cell_arm(fd, cells, id, base + 10 * MS), 0);
	CHECK(look_of(cells, id) <= base + 10 * MS || word_of(cells, id) == TWHEEL_CELL_FIRED);
	CHECK_EQ(read_cell_event_on(clock, fd).expires_ns, base + 10 * MS);
	/* Times before the start of the host's clock, or in its first second. */
	for (__u64 when = 0; when < 3; when++) {
		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		CHECK_EQ(read_cell_event_on(clock, fd).expires_ns, when);
	}
	CHECK_EQ(cell_arm(fd, cells, id, EXPIRES_MAX), TWHEEL_IDLE);
	CHECK(state_of(fd, id).expires_ns > EXPIRES_MAX / 2);
	CHECK(look_of(cells, id) <= EXPIRES_MAX);
	CHECK_EQ(cell_cancel(cells, id), 0);
	unmap_cells(cells, NR);
}

TEST(word_is_in_the_time_of_the_namespace)
{
	need_cells();
	enter_time_namespace(1000000, 5000000);
	CHECK(now_ns() > 1000000 * NSEC_PER_SEC);
	check_times_of_a_cell(CLOCK_MONOTONIC, device_open(O_RDWR));
	check_times_of_a_cell(CLOCK_BOOTTIME,
			      device_open_setup(O_RDWR, setup_clock(CLOCK_BOOTTIME)));
}

TEST(word_is_in_the_time_of_a_namespace_behind)
{
	need_cells();
	sleep_until(3 * NSEC_PER_SEC);
	enter_time_namespace(0, -2);
	check_times_of_a_cell(CLOCK_BOOTTIME,
			      device_open_setup(O_RDWR, setup_clock(CLOCK_BOOTTIME)));
}

TEST(processes_share_a_cell)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7), when = now_ns() + HOUR;
	pid_t pid = fork_child();

	if (!pid) {
		CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(word_of(cells, id), when);
	CHECK_EQ(cell_cancel(cells, id), 0);
	pid = fork_child();
	if (!pid) {
		CHECK_EQ(cell_cancel(cells, id), -ENOENT);
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(read_cell_event(fd).id, id);
}

/* A user that dies has not armed the cell; the next KICK takes up its arming. */
TEST(user_that_dies_before_the_kick_has_not_armed)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7), when = now_ns() + 5 * MS;
	struct twheel_event event;
	int status;
	pid_t pid = fork_child();

	if (!pid) {
		exchange(cells, id, when);
		CHECK(look_of(cells, id) > when);
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	sleep_ns(30 * MS);
	check_no_event(fd);
	CHECK_EQ(word_of(cells, id), when);
	CHECK(look_of(cells, id) == NO_LOOK);
	CHECK_EQ(kick(fd, id), 0);
	wait_ready(fd, 1);
	event = read_cell_event(fd);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.expires_ns, when);
}

/* The cells of a process live as long as the file. */
TEST(cells_outlive_the_process_that_made_them)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	pid_t pid = fork_child();

	if (!pid) {
		arm_cell(fd, now_ns() + 20 * MS, 7);
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(cell_arm(fd, cells, read_cell_event(fd).id, now_ns()), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).cookie, 7);
}
