/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mapped cells, and the user side of their protocol. All accesses are sequentially
 * consistent.
 */
#ifndef TWHEEL_TESTS_CELLS_H
#define TWHEEL_TESTS_CELLS_H

#include <sys/mman.h>

#include "device.h"
#include "memory.h"

#define CELLS_PER_PAGE	(page_size() / sizeof(struct twheel_cell))
#define NO_LOOK		(~0ULL)

static inline void skip_without_cells(void)
{
	if (!(info(device_open(O_RDWR)).op_flags & TWHEEL_F_CELL))
		ktap_skip("no cells");
}

static inline void *try_map(int fd, size_t size, int protection, int flags, off_t offset)
{
	skip_without_cells();
	return mmap(NULL, size, protection, flags, fd, offset);
}

static inline struct twheel_cell *map_cells(int fd, size_t nr)
{
	void *cells = try_map(fd, nr * sizeof(struct twheel_cell), PROT_READ | PROT_WRITE,
			      MAP_SHARED, 0);

	CHECK(cells != MAP_FAILED);
	return cells;
}

static inline void unmap_cells(struct twheel_cell *cells, size_t nr)
{
	CHECK_EQ(munmap(cells, nr * sizeof(*cells)), 0);
}

/* Words */

static inline bool is_deadline(__u64 word)
{
	return word <= EXPIRES_MAX;
}

static inline bool is_idle(__u64 word)
{
	return word > EXPIRES_MAX && word != TWHEEL_CELL_FIRED;
}

/* The cell of a timeout: its index is the low half of its id. */
static inline struct twheel_cell *cell_of(struct twheel_cell *cells, __u64 id)
{
	return &cells[(__u32)id];
}

static inline __u64 word_of(struct twheel_cell *cells, __u64 id)
{
	return __atomic_load_n(&cell_of(cells, id)->word, __ATOMIC_SEQ_CST);
}

static inline __u64 look_of(struct twheel_cell *cells, __u64 id)
{
	return __atomic_load_n(&cell_of(cells, id)->look, __ATOMIC_SEQ_CST);
}

/* Returns the old word. */
static inline __u64 exchange(struct twheel_cell *cells, __u64 id, __u64 word)
{
	return __atomic_exchange_n(&cell_of(cells, id)->word, word, __ATOMIC_SEQ_CST);
}

/* Returns true if the word was @old. */
static inline bool replace(struct twheel_cell *cells, __u64 id, __u64 old, __u64 new)
{
	return __atomic_compare_exchange_n(&cell_of(cells, id)->word, &old, new, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Calls */

static inline struct twheel_op op_cell(__u64 when, __u64 cookie)
{
	return op_arm(when, TWHEEL_F_ABS | TWHEEL_F_CELL, cookie);
}

static inline struct twheel_op op_mod_cell(__u64 id, __u64 when, __u64 cookie)
{
	return op_mod(id, when, TWHEEL_F_ABS | TWHEEL_F_CELL, cookie);
}

/* Make a cell that is armed for @when, or idle if that is TWHEEL_CELL_IDLE. Returns its id. */
static inline __u64 arm_cell(int fd, __u64 when, __u64 cookie)
{
	return arm_op(fd, op_cell(when, cookie));
}

static inline __u64 create_idle_cell(int fd, __u64 cookie)
{
	return arm_cell(fd, TWHEEL_CELL_IDLE, cookie);
}

static inline int mod_cell(int fd, __u64 id, __u64 when, __u64 cookie)
{
	struct twheel_op op = op_mod_cell(id, when, cookie);

	return operate(fd, &op);
}

/* The user side: operations on a cell, with a call only if necessary */

/* Outcome of an exchange for the arming that it has replaced. */
static inline int exchange_outcome(__u64 old)
{
	if (is_deadline(old))
		return 0;
	return old == TWHEEL_CELL_FIRED ? TWHEEL_WITHDRAWN : TWHEEL_IDLE;
}

/*
 * Arm or move a cell. Returns the outcome for the previous arming, or -errno if the arm has
 * failed. Sets @kicked if there was a call.
 */
static inline int cell_arm_kicked(int fd, struct twheel_cell *cells, __u64 id, __u64 when,
				  bool *kicked)
{
	__u64 old = exchange(cells, id, when);
	int ret;

	*kicked = look_of(cells, id) > when;
	if (!*kicked)
		return exchange_outcome(old);
	ret = kick(fd, id);
	if (ret && replace(cells, id, when, TWHEEL_CELL_IDLE))
		return ret;
	return exchange_outcome(old);
}

static inline int cell_arm(int fd, struct twheel_cell *cells, __u64 id, __u64 when)
{
	bool kicked;

	return cell_arm_kicked(fd, cells, id, when, &kicked);
}

/* Like CANCEL, but the cell lives on: returns 0, TWHEEL_WITHDRAWN or -ENOENT. */
static inline int cell_cancel(struct twheel_cell *cells, __u64 id)
{
	int ret = exchange_outcome(exchange(cells, id, TWHEEL_CELL_IDLE));

	return ret == TWHEEL_IDLE ? -ENOENT : ret;
}

/* Events */

static inline struct twheel_event read_cell_event_on(clockid_t clock, int fd)
{
	struct twheel_event event = read_any_event(fd);

	check_event_with(0, clock, &event);
	return event;
}

static inline struct twheel_event read_cell_event(int fd)
{
	return read_cell_event_on(CLOCK_MONOTONIC, fd);
}

/* Read the event of the arming of a cell for @when. */
static inline void check_fires(int fd, __u64 id, __u64 cookie, __u64 when)
{
	struct twheel_event event = read_cell_event(fd);

	CHECK_EQ(event.id, id);
	CHECK_EQ(event.cookie, cookie);
	CHECK_EQ(event.expires_ns, when);
}

/* Make a cell that has fired and whose event is unread. Returns its id. */
static inline __u64 create_fired_cell(int fd, __u64 cookie)
{
	__u32 before = info(fd).ready;
	__u64 id = arm_cell(fd, now_ns(), cookie);

	wait_ready(fd, before + 1);
	return id;
}

#endif /* TWHEEL_TESTS_CELLS_H */
