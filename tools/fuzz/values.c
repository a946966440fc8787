// SPDX-License-Identifier: GPL-2.0
#include <time.h>

#include "model.h"
#include "program.h"

#define US	1000ULL
#define MS	(1000 * US)
#define S	(1000 * MS)

uint64_t duration_of(uint8_t code, uint64_t tick)
{
	const uint64_t spans[] = {
		0, 1, US, 50 * US, 100 * US, 200 * US, 500 * US, MS, 1500 * US, 2 * MS, 3 * MS,
		5 * MS, tick - 1, tick, tick + 1, 2 * tick, 255 * tick, 256 * tick, 257 * tick,
		65536 * tick, S, 3600 * S, 86400 * S, 1ULL << 32, 1ULL << 40, 1ULL << 62,
		NEVER / 2, NEVER - 1, NEVER, NEVER + 1, UINT64_MAX - 1, UINT64_MAX,
	};

	return spans[code % ARRAY_SIZE(spans)];
}

uint64_t time_of(uint8_t code, uint64_t tick, uint64_t now)
{
	uint64_t span = duration_of(code % 32, tick);

	switch (code / 32) {
	case 5:
		return now > span ? now - span : 0;
	case 6:
		return span;
	case 7:
		return span < NEVER - now ? (now + span) / tick * tick : span;
	default:
		return span < NEVER - now ? now + span : span;
	}
}

/* Ids: most are live, some have ended, are the next to be given out, or never exist. */
static uint64_t id_of(uint8_t code, struct file *f)
{
	struct timeout *t = model_pick(f, code / 16);

	switch (code % 16) {
	case 12:
		return f->nr_dead ? f->dead[code / 16 % MAX_DEAD] : 0;
	case 13:
		return f->nr ? f->timeouts[code / 16 % f->nr].id + (1ULL << 32) : 1;
	case 14:
		return 1ULL << 32 | f->nr;
	case 15:
		return code / 16 % 2 ? UINT64_MAX : 1ULL << 32 | 0x80000000;
	default:
		return t ? t->id : 0;
	}
}

/* Some cookies are common, so that they can be cancelled together; some are unique. */
static uint64_t cookie_of(uint8_t code, struct file *f)
{
	return code % 4 ? code % 4 : __atomic_add_fetch(&f->cookies, 1, __ATOMIC_RELAXED) << 8;
}

static void fill_times(struct twheel_op *op, const struct step *step, struct file *f,
		       int is_cell, uint64_t now)
{
	static const uint32_t repeats[] = { 0, 1, 2, 5 };

	op->flags = step->flags & TWHEEL_F_ABS;
	if (f->clock == CLOCK_REALTIME)
		op->flags |= TWHEEL_F_ABS;
	op->expires_ns = op->flags & TWHEEL_F_ABS ? time_of(step->when, f->tick, now) :
						    duration_of(step->when, f->tick);
	op->cookie = cookie_of(step->target / 16, f);
	if (step->flags & 0x80)
		op->slack_us = 1 + step->span * 20;
	else
		op->flags |= step->flags & 0x40 ? TWHEEL_F_EXACT : 0;
	if (is_cell) {
		op->flags |= TWHEEL_F_CELL;
		if ((step->span ^ step->when) % 4 == 1)
			op->expires_ns = TWHEEL_CELL_IDLE;
		return;
	}
	if (!(step->flags & 8))
		return;
	op->interval_ns = duration_of(step->span, f->tick);
	if (op->interval_ns) {
		op->flags |= step->flags & TWHEEL_F_FIXED_DELAY;
		op->repeat = repeats[step->flags >> 4 & 3];
	}
}

/* Insert an error; the operation may still be valid. */
static void corrupt_op(struct twheel_op *op, uint8_t error)
{
	switch (error % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
		break;
	case 4:
		op->reserved = error;
		break;
	case 5:
		op->flags |= TWHEEL_F_EXACT;
		op->slack_us += error / 16;
		break;
	case 6:
		op->flags |= error / 16 ? 1U << 4 : 1U << 31;
		break;
	case 7:
		op->opcode = 0;
		break;
	case 8:
		op->opcode += 1;
		break;
	case 9:
		op->expires_ns |= 1ULL << 63;
		break;
	case 10:
		op->interval_ns |= 1ULL << 63;
		break;
	case 11:
		op->interval_ns += 1;
		break;
	case 12:
		op->repeat = error;
		break;
	case 13:
		op->slack_us = UINT32_MAX;
		break;
	case 14:
		op->flags ^= TWHEEL_F_FIXED_DELAY;
		break;
	case 15:
		op->flags ^= TWHEEL_F_CELL | (error / 16 % 2 ? TWHEEL_F_ABS : 0);
		break;
	}
}

struct twheel_op step_to_op(const struct step *step, struct file *f, uint64_t now)
{
	struct twheel_op op = {
		.opcode = opcode_of(step),
		.id = id_of(step->target, f),
		.result = 0x5a5a5a5a,
	};
	const struct timeout *t;

	switch (op.opcode) {
	case TWHEEL_OP_ARM:
		op.id = 0x123456789;
		fill_times(&op, step, f, step->thread % 3 == 1 && !(step->flags & 8), now);
		break;
	case TWHEEL_OP_MOD:
		t = model_find(f, op.id);
		fill_times(&op, step, f, t && t->flags & TWHEEL_F_CELL, now);
		break;
	case TWHEEL_OP_GET:
		op.cookie = step->when;
		break;
	}
	corrupt_op(&op, step->error / 8);
	return op;
}

uint64_t invalid_word_of(uint8_t code)
{
	static const uint64_t words[] = {
		TWHEEL_CELL_FIRED, TWHEEL_CELL_IDLE - 2, TWHEEL_CELL_IDLE - 3, NEVER + 1,
		TWHEEL_CELL_FIRED, 0xffffffff00000000, TWHEEL_CELL_IDLE, NEVER + 2,
	};

	return words[code % ARRAY_SIZE(words)];
}

struct twheel_setup step_to_setup(const struct step *step)
{
	/* The first one is used without its flag. */
	static const uint32_t clocks[] = {
		0, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, 2, UINT32_MAX,
	};
	static const uint64_t ticks[] = { 0, 0, 0, 100 * US, 1000 * US, 200000, 1 << 20, 1,
					  86400 * S, 86400 * S + 1, UINT64_MAX };
	static const uint32_t slots[] = { 0, 0, 0, 2, 16, 64, 50, 256, 1, 65537 };
	static const uint32_t levels[] = { 0, 0, 0, 1, 2, 12, UINT32_MAX };
	static const uint32_t limits[] = { 0, 0, 1, 2, 5, 40, 700, 1U << 28, UINT32_MAX };
	static const uint32_t slacks[] = { 0, 0, 0, 0, 1, 700, 5000, UINT32_MAX };
	struct twheel_setup setup = {
		.flags = step->thread % ARRAY_SIZE(clocks) ? TWHEEL_SETUP_CLOCK : 0,
		.clock = clocks[step->thread % ARRAY_SIZE(clocks)],
		.tick_ns = ticks[step->when % ARRAY_SIZE(ticks)],
		.slots = slots[step->span % ARRAY_SIZE(slots)],
		.levels = levels[step->flags % ARRAY_SIZE(levels)],
		.max_timeouts = limits[step->target % ARRAY_SIZE(limits)],
		.slack_us = slacks[step->error % ARRAY_SIZE(slacks)],
	};

	switch (step->error / 8) {
	case 1:
		setup.flags |= 2;
		break;
	case 2:
		setup.flags ^= TWHEEL_SETUP_CLOCK;
		break;
	case 3:
		setup.reserved[2] = 1;
		break;
	}
	return setup;
}
