// SPDX-License-Identifier: GPL-2.0
/*
 * Cells: timeouts that are armed and cancelled in shared memory. The tests check the effect
 * and the result of exchanges and calls in each state of a cell.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells that most tests map */

/* States */

/* How a cell begins, and what then happens to it. */
enum start { IDLE, ARMED, FIRED };
enum action { NOTHING, ARM, ARM_WITHOUT_KICK, CANCEL, READ };

/* A user that dies before the KICK leaves an arming without one. */
static const struct state {
	const char *name;
	enum start start;
	enum action then;
	int outcome;		/* of an exchange, of MOD and of CANCEL */
} states[] = {
	{ "armed", ARMED, NOTHING, 0 },
	{ "armed through the word", IDLE, ARM, 0 },
	{ "moved", ARMED, ARM, 0 },
	{ "unkicked", IDLE, ARM_WITHOUT_KICK, 0 },
	{ "idle", IDLE, NOTHING, TWHEEL_IDLE },
	{ "cancelled", ARMED, CANCEL, TWHEEL_IDLE },
	{ "fired", FIRED, NOTHING, TWHEEL_WITHDRAWN },
	{ "read", FIRED, READ, TWHEEL_IDLE },
	{ "withdrawn", FIRED, CANCEL, TWHEEL_IDLE },
	{ "withdrawn and unkicked", FIRED, ARM_WITHOUT_KICK, 0 },
};

/* Make a cell in this state, with cookie 7; an armed one has a deadline in HOUR. */
static __u64 create_cell_in_state(int fd, struct twheel_cell *cells, const struct state *state)
{
	__u64 when = now_ns() + HOUR, id;

	if (state->start == FIRED)
		id = create_fired_cell(fd, 7);
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

/* No earlier event is left, and the cell can be armed again with the same id. */
static void check_works(struct fixture *f)
{
	__u64 when = now_ns() + 2 * MS, cookie = get_state(f->fd, f->id).cookie;

	CHECK(cell_arm(f->fd, f->cells, f->id, when) >= 0);
	check_fires(f->fd, f->id, cookie, when);
	CHECK(is_idle(word_of(f->cells, f->id)));
	CHECK(look_of(f->cells, f->id) == NO_LOOK);
	CHECK_EQ(info(f->fd).live, 1);
	CHECK_EQ(info(f->fd).ready, 0);
	CHECK_EQ(file_stats(f->fd).armed, 1);
}

static const struct operation {
	const char *name;
	__u32 opcode;		/* 0: through the word */
	bool batch;		/* by SUBMIT */
	int idle, again;	/* outcome without an arming before; when it is repeated at once */
	bool arms;		/* the cell is armed after it */
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
	CHECK_EQ(get_state(f->fd, f->id).cookie, o->opcode ? 8 : 7);
	check_works(f);
}

TEST(every_operation_tells_the_outcome)
{
	for_each_row(o, operations) {
		ktap_note("%s", o->name);
		for_each_row(state, states) {
			struct fixture f = { .state = state, .fd = device_open(O_RDWR) };

			f.cells = map_cells(f.fd, NR);
			f.id = create_cell_in_state(f.fd, f.cells, state);
			check_operation(&f, o);
			unmap_cells(f.cells, NR);
			close(f.fd);
		}
	}
}

/* Hostile words and looks */

static const __u64 idle_words[] = {
	EXPIRES_MAX + 1, EXPIRES_MAX + 2, 3ULL << 62, ~0ULL - 4, ~0ULL - 3, ~0ULL - 2,
	TWHEEL_CELL_FIRED, TWHEEL_CELL_IDLE,
};

struct word_writer {
	pthread_t thread;
	struct twheel_cell *cells;
	size_t nr;
	__u64 until;
};

static void *write_words(void *arg)
{
	struct word_writer *s = arg;
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
	struct word_writer s = { .nr = CELLS, .until = now_ns() + race_duration_ns(1500) };
	struct twheel_event events[64];
	__u64 first = 0, id, read = 0;

	s.cells = map_cells(fd, CELLS);
	for (int i = 0; i < CELLS; i++) {
		id = arm_op(fd, op_arm(i * NSEC_PER_MSEC / 4, TWHEEL_F_CELL, i));
		first = first ? first : id;
	}
	pthread_create(&s.thread, NULL, write_words, &s);
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

/* Other clocks, wheels, namespaces and processes */

static void check_times_of_a_cell(clockid_t clock, int fd)
{
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 base = clock_ns(clock), id = arm_cell(fd, base + HOUR, 7);

	CHECK_EQ(word_of(cells, id), base + HOUR);
	CHECK_EQ(look_of(cells, id), base + HOUR);
	CHECK(get_state(fd, id).expires_ns <= HOUR);
	CHECK(get_state(fd, id).expires_ns > HOUR / 2);
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
	CHECK(get_state(fd, id).expires_ns > EXPIRES_MAX / 2);
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
	skip_without_cells();
	sleep_until(3 * NSEC_PER_SEC);
	enter_time_namespace(1000000, -2);
	CHECK(now_ns() > 1000000 * NSEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		check_times_of_a_cell(clocks[i],
				      device_open_setup(O_RDWR, setup_clock(clocks[i])));
}
