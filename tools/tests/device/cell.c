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

/* How a cell begins, and what then happens to it. */
enum start { IDLE, ARMED, FIRED };
enum then { NOTHING, ARM, ARM_WITHOUT_KICK, CANCEL, READ };

/**
 * struct state - a state of a cell
 * @name: its name
 * @start: how it is made
 * @then: what then happens, through the word or by read()
 * @outcome: outcome of an exchange, of MOD and of CANCEL
 * @listed: state in LIST, TWHEEL_STATE_*
 * @looked_at: the kernel is going to look at the word
 * @stopped: flags of the event after STOP, or NONE for no event
 *
 * A user that dies before the KICK leaves an arming without one.
 */
static const struct state {
	const char *name;
	enum start start;
	enum then then;
	int outcome;
	__u32 listed;
	bool looked_at;
	__u32 stopped;
} states[] = {
	{ "armed", ARMED, NOTHING, 0, TWHEEL_STATE_PENDING, true, UNPROCESSED },
	{ "armed through the word", IDLE, ARM, 0, TWHEEL_STATE_PENDING, true, UNPROCESSED },
	{ "moved", ARMED, ARM, 0, TWHEEL_STATE_PENDING, true, UNPROCESSED },
	{ "unkicked", IDLE, ARM_WITHOUT_KICK, 0, TWHEEL_STATE_PENDING, false, UNPROCESSED },
	{ "idle", IDLE, NOTHING, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "cancelled", ARMED, CANCEL, TWHEEL_IDLE, TWHEEL_STATE_IDLE, true, NONE },
	{ "fired", FIRED, NOTHING, TWHEEL_WITHDRAWN, TWHEEL_STATE_READY, false, TWHEEL_EV_LAST },
	{ "read", FIRED, READ, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "withdrawn", FIRED, CANCEL, TWHEEL_IDLE, TWHEEL_STATE_IDLE, false, NONE },
	{ "withdrawn and unkicked", FIRED, ARM_WITHOUT_KICK, 0, TWHEEL_STATE_PENDING, false, NONE },
};

/* Make a cell in this state, with cookie 7; an armed one has a deadline in HOUR. */
static __u64 make(int fd, struct twheel_cell *cells, const struct state *state)
{
	__u64 when = now_ns() + HOUR, id;

	if (state->start == FIRED)
		id = fired_cell(fd, 7);
	else
		id = arm_cell(fd, state->start == ARMED ? when : TWHEEL_CELL_IDLE, 7);
	switch (state->then) {
	case NOTHING:
		break;
	case ARM:
		CHECK_EQ(cell_arm(fd, cells, id, when + 1),
			 state->start == ARMED ? 0 : TWHEEL_IDLE);
		break;
	case ARM_WITHOUT_KICK:
		exchange(cells, id, when);
		break;
	case CANCEL:
		CHECK_EQ(cell_cancel(cells, id), state->start == ARMED ? 0 : TWHEEL_WITHDRAWN);
		break;
	case READ:
		CHECK_EQ(read_cell_event(fd).id, id);
		break;
	}
	return id;
}

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
	f.id = make(f.fd, f.cells, state);
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

/**
 * struct operation - an operation on a cell
 * @name: its name
 * @opcode: 0: through the word
 * @batch: by SUBMIT
 * @idle: outcome if there is no previous arming
 * @again: outcome when it is repeated at once
 * @arms: the cell is armed after it
 */
static const struct operation {
	const char *name;
	__u32 opcode;
	bool batch;
	int idle, again;
	bool arms;
} operations[] = {
	{ "arm through the word", 0, false, TWHEEL_IDLE, 0, true },
	{ "cancel through the word", 0, false, -ENOENT, -ENOENT, false },
	{ "MOD", TWHEEL_OP_MOD, false, TWHEEL_IDLE, 0, true },
	{ "MOD to idle", TWHEEL_OP_MOD, false, TWHEEL_IDLE, TWHEEL_IDLE, false },
	{ "CANCEL", TWHEEL_OP_CANCEL, false, TWHEEL_IDLE, -ENOENT, false },
	{ "CANCEL in SUBMIT", TWHEEL_OP_CANCEL, true, TWHEEL_IDLE, -ENOENT, false },
};

/* Returns the outcome for the previous arming. */
static int operate_on(const struct fixture *f, const struct operation *o, __u64 when)
{
	struct twheel_op op = op_cancel(f->id);

	if (!o->opcode)
		return o->arms ? cell_arm(f->fd, f->cells, f->id, when) :
				 cell_cancel(f->cells, f->id);
	if (o->opcode == TWHEEL_OP_MOD)
		return mod_cell(f->fd, f->id, o->arms ? when : TWHEEL_CELL_IDLE, 8);
	if (!o->batch)
		return cancel(f->fd, f->id);
	submit(f->fd, &op, 1);
	return op.result;
}

static void check_operation(struct fixture *f, const struct operation *o)
{
	__u64 when = now_ns() + HOUR, soon = now_ns() + 2 * MS;
	bool ends = o->opcode == TWHEEL_OP_CANCEL;
	int outcome = f->state->outcome;

	CHECK_EQ(operate_on(f, o, when), outcome == TWHEEL_IDLE ? o->idle : outcome);
	CHECK(o->arms ? word_of(f->cells, f->id) == when : is_idle(word_of(f->cells, f->id)));
	if (o->arms)
		CHECK(look_of(f->cells, f->id) <= when);
	/* A call meets a withdrawn event. */
	if (o->opcode)
		CHECK(!readable(f->fd));
	CHECK_EQ(operate_on(f, o, soon), o->again);
	if (o->arms)
		check_fires(f->fd, f->id, o->opcode ? 8 : 7, soon);
	CHECK_EQ(info(f->fd).live, !ends);
	if (ends) {
		CHECK(look_of(f->cells, f->id) == NO_LOOK);
		return;
	}
	CHECK_EQ(state_of(f->fd, f->id).cookie, o->opcode ? 8 : 7);
	check_works(f);
}

TEST(every_operation_tells_the_outcome)
{
	for_each_row(o, operations) {
		ktap_note("%s", o->name);
		for_each_row(state, states) {
			struct fixture f = begin(state);

			check_operation(&f, o);
			end(&f);
		}
	}
}

TEST(get_and_list_tell_the_state)
{
	for_each_row(state, states) {
		struct fixture f = begin(state);
		struct twheel_list_entry entry = only_entry(f.fd);
		__u64 left = state_of(f.fd, f.id).expires_ns, look = look_of(f.cells, f.id);

		CHECK_EQ(entry.id, f.id);
		CHECK_EQ(entry.cookie, 7);
		CHECK_EQ(entry.flags, TWHEEL_F_CELL);
		CHECK_EQ(entry.state, state->listed);
		CHECK(left <= entry.remaining_ns);
		if (state->listed == TWHEEL_STATE_PENDING)
			CHECK(left > HOUR / 2 && left <= HOUR);
		else
			CHECK_EQ(left, state->listed == TWHEEL_STATE_READY ? 0 : ~0ULL);
		CHECK(state->looked_at ? look <= now_ns() + HOUR : look == NO_LOOK);
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
		struct twheel_op op = op_kick(f.id);
		struct twheel_event event;

		CHECK_EQ(stop(f.fd), 0);
		CHECK_EQ(kick(f.fd, f.id), -ESHUTDOWN);
		CHECK_EQ(kick(f.fd, 12345), -ESHUTDOWN);
		submit(f.fd, &op, 1);
		CHECK_EQ(op.result, -ESHUTDOWN);
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

TEST(arm_and_mod_write_word_and_look)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 before = now_ns(), when = before + HOUR, after, id = arm_cell(fd, when, 0);
	struct twheel_op op;

	CHECK_EQ(word_of(cells, id), when);
	CHECK_EQ(look_of(cells, id), when);
	id = arm_op(fd, op_arm(HOUR, TWHEEL_F_CELL, 0));
	after = now_ns();
	CHECK(word_of(cells, id) >= before + HOUR);
	CHECK(word_of(cells, id) <= after + HOUR);
	CHECK_EQ(look_of(cells, id), word_of(cells, id));
	/* TWHEEL_CELL_IDLE is no time, so it need not be absolute. */
	op = op_mod(id, TWHEEL_CELL_IDLE, TWHEEL_F_CELL, 8);
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), 0);
	CHECK(is_idle(word_of(cells, id)));
	CHECK(state_of(fd, id).expires_ns == ~0ULL);
	CHECK_EQ(state_of(fd, id).cookie, 8);
	id = arm_op(fd, op_arm(TWHEEL_CELL_IDLE, TWHEEL_F_CELL, 7));
	CHECK(word_of(cells, id) == TWHEEL_CELL_IDLE);
	CHECK(look_of(cells, id) == NO_LOOK);
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

/* Operations with the wrong kind of timeout */

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

TEST(kick_of_anything_but_a_cell_is_refused)
{
	int fd = device_open(O_RDWR);
	__u64 seed = now_ns(), id, plain = arm(fd, HOUR, 7), fired = arm_fired(fd, 8);

	need_cells();
	id = idle_cell(fd, 7);
	CHECK_EQ(kick(fd, 0), -ENOENT);
	CHECK_EQ(kick(fd, (__u32)id), -ENOENT);
	CHECK_EQ(kick(fd, id + (1ULL << 32)), -ENOENT);
	CHECK_EQ(kick(fd, ~0ULL), -ENOENT);
	for (int i = 0; i < 1000; i++)
		CHECK(kick(fd, random_below(&seed, ~0ULL)) < 0);
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	CHECK_EQ(kick(fd, id), -ENOENT);
	CHECK_EQ(kick(fd, plain), -EINVAL);
	CHECK_EQ(kick(fd, fired), -EINVAL);
	CHECK_EQ(kick(fd, arm_op(fd, op_periodic(HOUR, HOUR, 0, 0, 9))), -EINVAL);
	CHECK_EQ(read_event(fd).cookie, 8);
	CHECK_EQ(state_of(fd, plain).cookie, 7);
	CHECK_EQ(file_stats(fd).kicks, 0);
}

/* Cancel of one arming and no later one */

TEST(compare_exchange_cancels_one_arming_alone)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + HOUR, id = arm_cell(fd, when, 7);

	CHECK(!replace(cells, id, when + 1, TWHEEL_CELL_IDLE));
	CHECK(replace(cells, id, when, TWHEEL_CELL_IDLE));
	when = now_ns();
	CHECK_EQ(cell_arm(fd, cells, id, when), TWHEEL_IDLE);
	wait_ready(fd, 1);
	/* The arming has fired: its event stays and can be read. */
	CHECK(!replace(cells, id, when, TWHEEL_CELL_IDLE));
	check_fires(fd, id, 7, when);
	CHECK_EQ(cell_cancel(cells, id), -ENOENT);
	check_no_event(fd);
}

/* Life of a cell */

TEST(cell_keeps_its_id_over_many_rounds)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = idle_cell(fd, 7);

	for (int i = 0; i < 300; i++) {
		/* Less than a tick ahead, and more. */
		__u64 when = now_ns() + i % 3 * NSEC_PER_MSEC / 2 + i % 100 * 98765;

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
	int fd = device_open_limited(O_RDWR, NR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = 0, none;

	for (int i = 0; i < NR; i++)
		id = idle_cell(fd, 7);
	CHECK_EQ(info(fd).live, NR);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
		CHECK_EQ(try_arm(fd, HOUR, TWHEEL_F_CELL, 0, &none), -EAGAIN);
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
		CHECK_EQ(read_cell_event(fd).id, id);
	}
	CHECK_EQ(cancel(fd, id), TWHEEL_IDLE);
	arm(fd, HOUR, 0);
}

/*
 * KICK of a cell that has ended fails, and the arming is undone. A word that is written
 * nevertheless does not affect the next cell.
 */
TEST(index_used_again_has_a_new_word)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 7), again, when;

	for (int i = 0; i < 10; i++) {
		CHECK(cancel(fd, id) >= 0);
		CHECK_EQ(cell_arm(fd, cells, id, now_ns()), -ENOENT);
		CHECK(word_of(cells, id) == TWHEEL_CELL_IDLE);
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

/*
 * The kernel may find any word when it looks. It looks again only at TWHEEL_CELL_IDLE, which may
 * be armed soon.
 */
TEST(words_found_by_a_look_do_no_harm)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 ids[ARRAY_SIZE(idle_words)];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = arm_cell(fd, now_ns() + 100 * MS, 7);
		/* The machine may be too slow to overwrite the deadlines. */
		if (!is_deadline(exchange(cells, ids[i], idle_words[i])))
			ktap_skip("the machine is too slow");
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		WAIT_FOR(look_of(cells, ids[i]) == NO_LOOK);
		CHECK(word_of(cells, ids[i]) == idle_words[i] ||
		      (idle_words[i] == TWHEEL_CELL_IDLE && is_idle(word_of(cells, ids[i]))));
	}
	CHECK_EQ(file_stats(fd).looks, ARRAY_SIZE(ids) + 1);
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

#define MILLION		1000000

static void use_a_million(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_cell *cells = map_cells(fd, MILLION);
	__u64 base = now_ns() + 30 * NSEC_PER_SEC, early = base - 20 * NSEC_PER_SEC, end;
	static struct twheel_op ops[1000];
	static struct twheel_event events[1000];
	static __u64 ids[MILLION];
	int fired = 0;

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
		CHECK_EQ(exchange(cells, ids[i + 1], early + i), base + i + 1);
		ops[i / 2 % ARRAY_SIZE(ops)] = op_kick(ids[i + 1]);
		if (i / 2 % ARRAY_SIZE(ops) == ARRAY_SIZE(ops) - 1)
			submit(fd, ops, ARRAY_SIZE(ops));
	}
	for (end = now_ns() + 30 * NSEC_PER_SEC; fired < MILLION / 2; ) {
		int nr = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(nr > 0 || nr == -EAGAIN);
		CHECK(now_ns() < end);
		for (int i = 0; i < nr; i++) {
			CHECK_EQ(events[i].cookie % 2, 1);
			CHECK_EQ(events[i].expires_ns, early + events[i].cookie - 1);
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

TEST(a_million_cells_are_counted_exactly)
{
	need_speed();
	need_cells();
	with_room_for(MILLION, use_a_million);
}

/* Other clocks, wheels, namespaces and processes */

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
	CHECK_EQ(kick(fd, id), 0);
	sleep_ns(20 * MS);
	CHECK(!readable(fd));
	CHECK_EQ(cell_cancel(cells, id), 0);
	unmap_cells(cells, NR);
}

static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

TEST(word_is_of_the_clock_of_the_file)
{
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		check_times_of_a_cell(clocks[i],
				      device_open_setup(O_RDWR, setup_clock(clocks[i])));
}

/* CLOCK_MONOTONIC is ahead there, and CLOCK_BOOTTIME behind. */
TEST(word_is_in_the_time_of_the_namespace)
{
	need_cells();
	sleep_until(3 * NSEC_PER_SEC);
	enter_time_namespace(1000000, -2);
	CHECK(now_ns() > 1000000 * NSEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		check_times_of_a_cell(clocks[i],
				      device_open_setup(O_RDWR, setup_clock(clocks[i])));
}

/* The cell lives as long as the file, not as the process that made it. */
TEST(processes_share_a_cell)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 when = now_ns() + HOUR, id;
	pid_t pid = fork_child();

	if (!pid) {
		arm_cell(fd, when, 7);
		_exit(0);
	}
	join_child(pid);
	id = only_entry(fd).id;
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
