// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of the cells: permissions, contents and lifetime.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "cells.h"
#include "machine.h"

#define MS		NSEC_PER_MSEC
#define NR		256		/* cells in a page */

/* Mappings that are allowed */

/* A mapping of a file with a limit of NR + 1 timeouts. */
static const struct request {
	const char *name;
	int flags;			/* of the open */
	size_t pages, more;		/* whole pages, and bytes behind them */
	int protection, kind;
	off_t offset;			/* in bytes; negative: in pages */
	int error;			/* expected, or 0 */
} requests[] = {
	{ "one page", O_RDWR, 1, 0, PROT_READ, MAP_SHARED, 0, 0 },
	{ "much larger", O_RDWR, 1000, 0, PROT_READ, MAP_SHARED, 0, EINVAL },
	{ "nothing", O_RDWR, 0, 0, PROT_READ, MAP_SHARED, 0, EINVAL },
	{ "private", O_RDWR, 1, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, EINVAL },
	{ "private, to read", O_RDWR, 1, 0, PROT_READ, MAP_PRIVATE, 0, EINVAL },
	{ "offset of a page", O_RDWR, 1, 0, PROT_READ, MAP_SHARED, -1, EINVAL },
	{ "offset of 7 pages", O_RDWR, 1, 0, PROT_READ, MAP_SHARED, -7, EINVAL },
	{ "offset of a byte", O_RDWR, 1, 0, PROT_READ, MAP_SHARED, 1, EINVAL },
	{ "offset of a word", O_RDWR, 1, 0, PROT_READ, MAP_SHARED, 8, EINVAL },
	{ "executable", O_RDWR, 1, 0, PROT_READ | PROT_EXEC, MAP_SHARED, 0, EINVAL },
	{ "of a write-only file", O_WRONLY, 1, 0, PROT_WRITE, MAP_SHARED, 0, EACCES },
	{ "writable of a read-only file", O_RDONLY, 1, 0, PROT_READ | PROT_WRITE, MAP_SHARED, 0,
	  EACCES },
};

static void check_request(int fd, const struct request *r)
{
	off_t offset = r->offset < 0 ? -r->offset * (off_t)page_size() : r->offset;
	void *map = try_map(fd, r->pages * page_size() + r->more, r->protection, r->kind, offset);

	CHECK_EQ(map == MAP_FAILED ? errno : 0, r->error);
}

/* The limit is that of the module or of SETUP. */
TEST(mapping_with_a_bad_argument_is_refused)
{
	struct twheel_setup setup = { .max_timeouts = NR + 1 };

	for_each_row(request, requests) {
		check_request(device_open_limited(request->flags, NR + 1), request);
		if (request->flags == O_RDWR)
			check_request(device_open_setup(O_RDWR, setup), request);
	}
}

/* As for a device that cannot be mapped at all. Nothing else of cells is there. */
TEST(mapping_without_cells_is_enodev)
{
	struct twheel_op op = op_arm(HOUR, TWHEEL_F_CELL, 7);
	int fd = device_open(O_RDWR);

	if (info(fd).op_flags & TWHEEL_F_CELL)
		ktap_skip("there are cells");
	CHECK(mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, ENODEV);
	CHECK(mmap(NULL, page_size(), PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, ENODEV);
	CHECK_EQ(operate(fd, &op), -EINVAL);
	op.expires_ns = TWHEEL_CELL_IDLE;
	CHECK_EQ(operate(fd, &op), -EINVAL);
	CHECK_EQ(info(fd).opcodes & 1 << TWHEEL_OP_KICK, 0);
	CHECK_EQ(kick(fd, arm(fd, HOUR, 7)), -EINVAL);
	CHECK_EQ(kick(fd, 0), -EINVAL);
	CHECK_EQ(info(fd).live, 1);
}

static void check_protection_fails(void *cells, int protection)
{
	CHECK_EQ(mprotect(cells, page_size(), protection), -1);
	CHECK_EQ(errno, EACCES);
}

/* Also with the personality of programs from before the flag of the stack. */
TEST(mapping_is_never_executable)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id;

	check_protection_fails(cells, PROT_READ | PROT_EXEC);
	CHECK(personality(READ_IMPLIES_EXEC) >= 0);
	cells = map_cells(fd, NR);
	check_protection_fails(cells, PROT_READ | PROT_EXEC);
	id = create_idle_cell(fd, 7);
	CHECK_EQ(cell_arm(fd, cells, id, now_ns()), TWHEEL_IDLE);
	CHECK_EQ(read_cell_event(fd).cookie, 7);
}

TEST(mapping_of_a_read_only_descriptor_stays_read_only)
{
	void *cells = try_map(device_open(O_RDONLY), page_size(), PROT_READ, MAP_SHARED, 0);

	CHECK(cells != MAP_FAILED);
	CHECK(word_of(cells, 0) == TWHEEL_CELL_IDLE);
	check_protection_fails(cells, PROT_READ | PROT_WRITE);
}

/*
 * There is a cell for every possible index, also while cancelled timeouts are on their way to the
 * sink, at most 128 on each CPU. All cells are idle.
 */
static void check_largest(int fd)
{
	__u32 nr = info(fd).cells, on_their_way = 128 * sysconf(_SC_NPROCESSORS_CONF);
	struct twheel_cell *cells = map_cells(fd, nr);

	CHECK(nr >= info(fd).max_timeouts + on_their_way + timeouts_per_page());
	CHECK(try_map(fd, nr * sizeof(*cells) + 1, PROT_READ, MAP_SHARED, 0) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	exchange(cells, nr - 1, 7);
	CHECK_EQ(word_of(cells, nr - 1), 7);
	CHECK(word_of(cells, 0) == TWHEEL_CELL_IDLE);
	CHECK(look_of(cells, nr - 1) == NO_LOOK);
}

TEST(mapping_may_be_as_large_as_info_says)
{
	struct twheel_setup setup = { .max_timeouts = NR };

	check_largest(device_open(O_RDWR));
	check_largest(device_open_setup(O_RDWR, setup));
}

/* Contents of mappings */

TEST(mapping_can_be_moved_and_cut_but_not_grown)
{
	int fd = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 4 * NR), *moved;
	__u64 when = now_ns() + HOUR, id = arm_cell(fd, when, 7);
	void *place = map_pages(2);

	CHECK(mremap(cells, 4 * page_size(), 8 * page_size(), MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK_EQ(errno, EFAULT);
	CHECK(mremap(cells, 4 * page_size(), 2 * page_size(), 0) == cells);
	CHECK_EQ(word_of(cells, id), when);
	moved = mremap(cells, 2 * page_size(), 2 * page_size(), MREMAP_MAYMOVE | MREMAP_FIXED,
		       place);
	CHECK(moved == place);
	CHECK_EQ(word_of(moved, id), when);
	exchange(moved, id, now_ns() + 2 * HOUR);
	CHECK(get_state(fd, id).expires_ns > HOUR);
}

/* Lifetime of mappings */

static int module_in_use(void)
{
	return syscall(SYS_delete_module, "twheel_dev", O_NONBLOCK) == -1 &&
	       errno == EWOULDBLOCK;
}

TEST(mapping_outlives_its_descriptor)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR);
	struct twheel_cell *cells = map_cells(fd, 2 * NR);
	/* It should fire after the close, however slow the machine is. */
	__u64 ahead = (is_slow() ? 400 : 20) * MS;
	__u64 id = arm_cell(fd, now_ns() + ahead, 7);

	CHECK(cell_arm(fd, cells, id, now_ns() + 2 * ahead) >= 0);
	arm_many(fd, 10000, 10 * MS, 1000, 0, NULL);
	close(fd);
	for (int i = 0; i < 20; i++) {
		exchange(cells, NR + i, i);
		CHECK_EQ(word_of(cells, NR + i), i);
		sleep_ns(5 * MS);
	}
	/* The kernel still looks at the cells. */
	WAIT_FOR(word_of(cells, id) == TWHEEL_CELL_FIRED);
	CHECK(module_in_use());
	unmap_cells(cells, 2 * NR);
	arm(other, 0, 7);
	CHECK_EQ(read_event(other).cookie, 7);
}

TEST(mapping_of_a_child_outlives_the_parents)
{
	int fd = device_open(O_RDWR), ready[2];
	struct twheel_cell *cells = map_cells(fd, NR);
	__u64 id = arm_cell(fd, now_ns() + HOUR, 7);
	pid_t pid;
	char byte;

	CHECK_EQ(pipe(ready), 0);
	pid = fork_child();
	if (!pid) {
		CHECK_EQ(read(ready[0], &byte, 1), 1);
		exchange(cells, id, now_ns() + 2 * HOUR);
		CHECK(get_state(fd, id).expires_ns > HOUR);
		close(fd);
		for (int i = 0; i < NR; i++)
			exchange(cells, i, i);
		_exit(0);
	}
	unmap_cells(cells, NR);
	close(fd);
	CHECK_EQ(write(ready[1], "x", 1), 1);
	join_child(pid);
}

TEST(exit_with_a_mapping_is_clean)
{
	skip_without_cells();
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork_child();
		int status;

		if (!pid) {
			int fd = device_open(O_RDWR);
			struct twheel_cell *cells = map_cells(fd, 10 * NR);

			for (int n = 0; n < 100; n++)
				arm_cell(fd, now_ns() + n * NSEC_PER_USEC * 50, n);
			exchange(cells, 5 * NR, 1);
			if (i % 2)
				close(fd);
			if (i % 3)
				raise(SIGKILL);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) == !!(i % 3));
	}
}

/* A page in a pipe keeps its contents when the file is gone. */
TEST(page_in_a_pipe_outlives_the_file)
{
	int fd = device_open(O_RDWR), ends[2];
	struct twheel_cell *cells = map_cells(fd, NR), copy[NR];
	struct iovec iov = { cells, page_size() };

	for (int i = 0; i < NR; i++)
		exchange(cells, i, i * 3);
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(vmsplice(ends[1], &iov, 1, 0), page_size());
	unmap_cells(cells, NR);
	close(fd);
	fd = device_open(O_RDWR);
	arm_many(fd, 10000, HOUR, 0, ~0ULL >> 1, NULL);
	CHECK_EQ(read(ends[0], copy, sizeof(copy)), sizeof(copy));
	for (int i = 0; i < NR; i++)
		CHECK_EQ(copy[i].word, i * 3);
}

/* Limits */

static sigjmp_buf after_fault;

static void jump_on(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* Returns true if a store to the cell raises SIGBUS. */
static int store_is_refused(struct twheel_cell *cell)
{
	CHECK(signal(SIGBUS, jump_on) != SIG_ERR);
	if (sigsetjmp(after_fault, 1))
		return 1;
	exchange(cell, 0, 1);
	return 0;
}

static void use_up_pages(void)
{
	struct twheel_op op = op_cell(now_ns() + HOUR, 0);
	struct twheel_cell *cells;
	int fd, other, page;
	__u64 id;

	become_user(4711);
	fd = device_open(O_RDWR);
	arm(fd, HOUR, 7);
	cells = map_cells(fd, 100 * NR);
	for (page = 99; page > 0; page--) {
		if (store_is_refused(&cells[page * NR]))
			break;
	}
	ktap_note("%d pages", 99 - page);
	CHECK(page > 0 && page < 99);
	CHECK_EQ(operate(fd, &op), -EAGAIN);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EAGAIN);
	CHECK_EQ(info(fd).live, 1);
	/* There is a free record, so another timeout can have it. */
	arm(fd, HOUR, 8);
	CHECK_EQ(info(fd).live, 2);
	/* There is no page for a timeout either until the other file is closed. */
	other = device_open(O_RDWR);
	CHECK_EQ(try_arm(other, HOUR, 0, 0, &id), -EAGAIN);
	unmap_cells(cells, 100 * NR);
	CHECK_EQ(try_arm(other, HOUR, 0, 0, &id), -EAGAIN);
	close(fd);
	arm(other, HOUR, 0);
}

/* A fault raises SIGBUS, and an ARM of a cell that needs a page fails. */
TEST(page_of_cells_beyond_the_limit_of_a_user_is_refused)
{
	skip_without_cells();
	with_parameter("max_user_timeouts", 1000, use_up_pages);
}
