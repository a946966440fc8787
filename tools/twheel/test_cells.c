// SPDX-License-Identifier: GPL-2.0
/*
 * The users' side of cells, on a kernel that is made up: a file in memory has the cells,
 * and ioctl() is defined here. Needs no device. The tests of the library in tools/tests/device run
 * on the wheel in the process, too; here are calls that fail.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "ktap.h"
#include "libtwheel.h"

#define NR	256

static struct {
	uint32_t op_flags;
	uint64_t next_id;
	unsigned int kicks;	/* that came */
	int error;		/* of KICK; of SUBMIT if @error_of_all */
	uint64_t error_id;	/* of which; 0: of all */
	bool error_of_all;
	uint64_t take_up;	/* this word is taken up before KICK fails */
} kernel;

static struct twheel_ctx *ctx;
static struct twheel_cell *cells;

static int kick(uint64_t id)
{
	struct twheel_cell *cell = &cells[(uint32_t)id];

	kernel.kicks++;
	if (cell->word == kernel.take_up)
		cell->word = TWHEEL_CELL_FIRED;
	return !kernel.error_id || kernel.error_id == id ? kernel.error : 0;
}

static int submit(struct twheel_submit *submit)
{
	struct twheel_op *ops = (void *)(uintptr_t)submit->ops;

	for (submit->done = 0; submit->done < submit->nr; submit->done++) {
		CHECK_EQ(ops[submit->done].opcode, TWHEEL_OP_KICK);
		ops[submit->done].result = kick(ops[submit->done].id);
	}
	return 0;
}

static int answer(unsigned long request, void *arg)
{
	struct twheel_info *info = arg;
	struct twheel_op *op = arg;

	switch (request) {
	case TWHEEL_IOC_INFO:
		memset(info, 0, sizeof(*info));
		info->op_flags = kernel.op_flags;
		info->clock = CLOCK_MONOTONIC;
		info->cells = NR;
		return 0;
	case TWHEEL_IOC_ARM:
		CHECK_EQ(op->flags, TWHEEL_F_CELL | TWHEEL_F_ABS);
		CHECK(op->expires_ns == TWHEEL_CELL_IDLE);
		op->id = kernel.next_id++;
		return 0;
	case TWHEEL_IOC_KICK:
		return kick(op->id);
	case TWHEEL_IOC_SUBMIT:
		return kernel.error_of_all ? kernel.error : submit(arg);
	default:
		ktap_fail("request %#lx", request);
		return -ENOTTY;
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	int ret;

	(void)fd;
	va_start(args, request);
	ret = answer(request, va_arg(args, void *));
	va_end(args);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

/* A kernel whose next cell has @id. */
static void begin(uint64_t id)
{
	int fd = memfd_create("cells", MFD_CLOEXEC);

	twheel_close(ctx);
	kernel.op_flags = TWHEEL_F_ABS | TWHEEL_F_CELL;
	kernel.next_id = id;
	kernel.take_up = TWHEEL_CELL_FIRED;
	CHECK_EQ(ftruncate(fd, NR * sizeof(*cells)), 0);
	cells = mmap(NULL, NR * sizeof(*cells), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(cells != MAP_FAILED);
	memset(cells, 0xff, NR * sizeof(*cells));
	CHECK_EQ(twheel_open_fd(fd, &ctx), 0);
}

static uint64_t id_of(uint32_t index)
{
	return UINT64_C(7) << 32 | index;
}

/* Cell 3, with that word and that look. */
static struct twheel_cell *cell_with(uint64_t word, uint64_t look)
{
	struct twheel_cell *cell;

	if (!ctx)
		begin(1);
	CHECK_EQ(twheel_cell_find(ctx, id_of(3), &cell), 0);
	cell->word = word;
	cell->look = look;
	kernel.kicks = 0;
	return cell;
}

TEST(index_beyond_the_limit_is_no_cell)
{
	struct twheel_cell *cell;

	begin(1);
	CHECK_EQ(twheel_cell_find(ctx, id_of(NR - 1), &cell), 0);
	CHECK_EQ(twheel_cell_find(ctx, id_of(NR), &cell), -EINVAL);
	CHECK_EQ(twheel_cell_find(ctx, id_of(UINT32_MAX), &cell), -EINVAL);
}

TEST(kernel_without_cells_is_not_supported)
{
	struct twheel_cell *cell;
	uint64_t id;

	begin(1);
	kernel.op_flags = TWHEEL_F_ABS;
	CHECK_EQ(twheel_cell_find(ctx, id_of(1), &cell), -EOPNOTSUPP);
	CHECK_EQ(twheel_cell_create(ctx, 0, &id, &cell), -EOPNOTSUPP);
	CHECK_EQ(kernel.next_id, 1);
}

/* The kernel may write any idle value of its own. */
static const struct {
	uint64_t word;
	int outcome;
} outcomes[] = {
	{ 0, 0 },
	{ INT64_MAX, 0 },
	{ TWHEEL_CELL_FIRED, TWHEEL_WITHDRAWN },
	{ TWHEEL_CELL_IDLE, TWHEEL_IDLE },
	{ TWHEEL_CELL_IDLE - 2, TWHEEL_IDLE },
	{ (uint64_t)INT64_MAX + 1, TWHEEL_IDLE },
};

TEST(old_word_is_the_outcome)
{
	struct twheel_kicks kicks = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		struct twheel_cell *cell = cell_with(outcomes[i].word, 0);

		CHECK_EQ(twheel_cell_outcome(outcomes[i].word), outcomes[i].outcome);
		CHECK_EQ(twheel_cell_arm(ctx, cell, id_of(3), 100), outcomes[i].outcome);
		cell->word = outcomes[i].word;
		CHECK_EQ(twheel_cell_arm_later(&kicks, cell, id_of(3), 100), outcomes[i].outcome);
		cell->word = outcomes[i].word;
		CHECK_EQ(twheel_cell_cancel(cell), outcomes[i].outcome);
		CHECK(cell->word == TWHEEL_CELL_IDLE);
	}
}

/* Not static: the compiler does not know what they point to, and so has to call it. */
int (*arm_of_library)(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id,
		      uint64_t expires_ns) = twheel_cell_arm;
int (*cancel_of_library)(struct twheel_cell *cell) = twheel_cell_cancel;
int (*cancel_at_of_library)(struct twheel_cell *cell, uint64_t expires_ns) = twheel_cell_cancel_at;

TEST(functions_of_the_library_are_those_of_the_header)
{
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		struct twheel_cell *cell = cell_with(outcomes[i].word, ~0ULL);

		CHECK_EQ(arm_of_library(ctx, cell, id_of(3), 100), outcomes[i].outcome);
		CHECK_EQ(kernel.kicks, 1);
		CHECK_EQ(cancel_at_of_library(cell, 99), -ENOENT);
		CHECK_EQ(cancel_at_of_library(cell, 100), 0);
		cell->word = outcomes[i].word;
		CHECK_EQ(cancel_of_library(cell), outcomes[i].outcome);
	}
}

/* The kernel may have fired it before the call came too late: then it counts. */
TEST(arming_that_is_refused_is_undone_or_taken_up)
{
	static const struct {
		const char *name;
		uint64_t take_up;
		int ret;
		uint64_t word;
	} armings[] = {
		{ "undone", TWHEEL_CELL_FIRED, -ESHUTDOWN, TWHEEL_CELL_IDLE },
		{ "taken up", 100, 0, TWHEEL_CELL_FIRED },
	};

	for_each_row(row, armings) {
		struct twheel_cell *cell = cell_with(55, ~0ULL);

		kernel.error = -ESHUTDOWN;
		kernel.take_up = row->take_up;
		CHECK_EQ(twheel_cell_arm(ctx, cell, id_of(3), 100), row->ret);
		CHECK(cell->word == row->word);
	}
}

/* Cells 0 to @nr - 1, every second of which the kernel would look at in time. */
static void arm_batch(struct twheel_kicks *kicks, unsigned int nr)
{
	begin(1);
	kicks->ctx = ctx;
	for (unsigned int i = 0; i < nr; i++) {
		struct twheel_cell *cell;

		CHECK_EQ(twheel_cell_find(ctx, id_of(i), &cell), 0);
		cell->look = i % 2 ? 0 : ~0ULL;
		CHECK_EQ(twheel_cell_arm_later(kicks, cell, id_of(i), 100 + i), TWHEEL_IDLE);
	}
}

TEST(batch_tells_which_armings_have_failed)
{
	static const struct {
		const char *name;
		int error;
		uint32_t only;		/* 0: all */
		bool of_all;
	} batches[] = {
		{ "one kick fails", -ENOENT, 4, false },
		{ "each kick fails", -ESHUTDOWN, 0, false },
		{ "the call fails", -EBADF, 0, true },
	};

	for_each_row(row, batches) {
		struct twheel_kicks kicks = { 0 };

		arm_batch(&kicks, 8);
		kernel.error = row->error;
		kernel.error_id = row->only ? id_of(row->only) : 0;
		kernel.error_of_all = row->of_all;
		CHECK_EQ(twheel_kick_all(&kicks), row->error);
		for (unsigned int i = 0; i < 8; i++) {
			bool failed = i % 2 == 0 && (!row->only || i == row->only);

			CHECK(cells[i].word == (failed ? TWHEEL_CELL_IDLE : 100 + i));
			if (i % 2 == 0 && !row->of_all)
				CHECK_EQ(kicks.kick[i / 2].result, failed ? row->error : 0);
		}
	}
}
