/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random programs for the combination suite.
 *
 * A program is a list of operations and the wheel to run them on. The geometry is given,
 * and the seed decides all other properties. All decisions are made when the program is
 * written, none when it runs. An operation holds its kind, its site, its timeout and its
 * times. So a program can be repeated, and any part of its list is a program too. Shrinking
 * needs both.
 *
 * An operation with site INSIDE is carried out in a callback, in a call of the sink, or while
 * twheel_stop() hands a timeout back. One with site WORK is carried out on the workqueue. If
 * nothing of this comes before the next operation with site OUTSIDE, the test carries it out.
 */
#ifndef _TWHEEL_KUNIT_COMBINATION_H
#define _TWHEEL_KUNIT_COMBINATION_H

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/prandom.h>
#include <linux/time64.h>

#include "../twheel.h"

#define NR_TIMEOUTS	320
#define PROGRAM_LENGTH	400
#define CLOCK_END	((u64)S64_MAX)

/* operation.who: the timeout whose callback carries out the operation */
#define SELF		U16_MAX

/* operation.delta: the end of the clock, and a time beyond it */
#define NEVER		S64_MAX
#define INVALID		S64_MIN

enum opcode {
	ARM,
	ARM_SLACK,
	ARM_AFTER,
	ARM_LIST,
	MOD,
	MOD_SLACK,
	MOD_LIST,
	FORWARD,
	CANCEL,
	CANCEL_LIST,
	TRY_CANCEL,
	CANCEL_SYNC,
	CANCEL_WORK,
	SHUTDOWN,
	EXTEND,
	REINIT,
	OTHER_WHEEL,
	QUERY,
	FLUSH,
	ADVANCE,
	ADVANCE_TO_NEXT,
	STEP,
	STOP,
	MIGRATE,
	HOTPLUG,
	NR_OPCODES,
};

enum site {
	OUTSIDE,
	INSIDE,
	WORK,
};

/* One line of a program. */
struct operation {
	u8	opcode;		/* enum opcode */
	u8	site;		/* enum site */
	u8	skip;		/* INSIDE: callbacks to let pass first */
	bool	more;		/* INSIDE: the same callback carries out the next one, too */
	u16	timeout;	/* index of the timeout, or SELF */
	u16	nr;		/* number of timeouts, kind or CPU; odd: before twheel_accept() */
	s64	delta;		/* time relative to the clock at the moment of the operation */
	u64	extra;		/* slack, interval, or ns between the deadlines of a list */
};

/* Parameter of a case. */
struct geometry {
	const char	*name;
	u32		slots;		/* of level 0, a power of two */
	bool		hashed;		/* levels = 1 */
	u64		tick_ns;
	u32		asked;		/* slots passed to twheel_create(), if not @slots */
};

/* A wheel, and the operations to carry out on it. */
struct program {
	const struct geometry	*geometry;
	u64			seed;
	bool			sink;
	bool			far;	/* it may reach the end of the clock */
	u32			cpus;	/* number of CPUs to use, one at a time */
	u32			nr;
	struct operation	list[PROGRAM_LENGTH];
};

/*
 * The geometry of the model: ticks that a slot of @level covers, as a power of two, and the slots
 * of a level. twheel_index.h has the rules; this shares no code with it.
 */
static inline u32 level_shift(const struct geometry *g, u32 level)
{
	return level ? ilog2(g->slots) + 6 * (level - 1) : 0;
}

static inline u64 slots_of(const struct geometry *g, u32 level)
{
	return g->hashed ? g->slots : level ? 128 : 2 * g->slots;
}

/* The lowest level of which one block of the level above has both ticks. */
static inline u32 level_of(const struct geometry *g, u64 tick, u64 cursor)
{
	u32 level, bits;

	for (level = 0; !g->hashed; level++) {
		bits = level_shift(g, level + 1);
		if (bits >= 64 || tick >> bits == cursor >> bits)
			break;
	}
	return level;
}

struct generator {
	const struct program	*program;
	struct rnd_state	rnd;
};

static inline u32 random_below(struct generator *d, u32 sides)
{
	return prandom_u32_state(&d->rnd) % sides;
}

static inline u64 random_below64(struct generator *d, u64 sides)
{
	u64 value = (u64)prandom_u32_state(&d->rnd) << 32, rest;

	div64_u64_rem(value | prandom_u32_state(&d->rnd), sides, &rest);
	return rest;
}

/* A number of ticks that is of interest in this geometry, below 2^62. */
static inline u64 random_ticks(struct generator *d)
{
	const struct geometry *g = d->program->geometry;
	u32 level = random_below(d, random_below(d, 4) ? 4 : 11);
	u32 bits = g->hashed ? level_shift(g, 1) + random_below(d, 6) :
			       min_t(u32, level_shift(g, 1 + level), 56);

	switch (random_below(d, 8)) {
	case 0 ... 1:
		return random_below(d, 3);
	case 2 ... 4:
		return random_below(d, 2 * min_t(u32, g->slots, 100));
	case 5:
		return (1 + random_below(d, random_below(d, 2) ? 2 : 63)) * (1ULL << bits) +
			random_below(d, 3) - 1;
	default:
		return random_below64(d, (g->hashed ? 1ULL : 64ULL) << bits);
	}
}

/* At most a 64th of the clock, so that a program does not soon reach the end of the clock. */
static inline s64 random_ns(struct generator *d)
{
	u64 tick_ns = d->program->geometry->tick_ns;
	u64 most = div64_u64(CLOCK_END >> (d->program->far ? 3 : 6), tick_ns) - 1;

	return min(random_ticks(d), most) * tick_ns +
		(random_below(d, 2) ? random_below64(d, tick_ns) : 0);
}

static inline s64 random_deadline(struct generator *d)
{
	switch (random_below(d, 64)) {
	case 0:
		return NEVER;
	case 1:
		return INVALID;
	case 2 ... 6:
		return -random_ns(d);
	default:
		return random_ns(d);
	}
}

static inline enum opcode random_opcode(struct generator *d)
{
	static const u8 weight[NR_OPCODES] = {
		[ARM] = 14, [ARM_SLACK] = 10, [ARM_AFTER] = 8, [ARM_LIST] = 7, [MOD] = 14,
		[MOD_SLACK] = 7, [MOD_LIST] = 3, [FORWARD] = 8, [CANCEL] = 10,
		[CANCEL_LIST] = 2, [TRY_CANCEL] = 6, [CANCEL_SYNC] = 5, [CANCEL_WORK] = 3,
		[SHUTDOWN] = 2, [EXTEND] = 6, [REINIT] = 8, [OTHER_WHEEL] = 3, [QUERY] = 4,
		[FLUSH] = 1, [ADVANCE] = 14, [ADVANCE_TO_NEXT] = 24, [STEP] = 4,
		[MIGRATE] = 10, [HOTPLUG] = 2,
	};
	u32 nr = d->program->cpus > 1 ? NR_OPCODES : MIGRATE, left, sum = 0, opcode;

	for (opcode = 0; opcode < nr; opcode++)
		sum += weight[opcode];
	left = random_below(d, sum);
	for (opcode = 0; left >= weight[opcode]; opcode++)
		left -= weight[opcode];
	return opcode;
}

static inline void generate_operation(struct generator *d, struct operation *op)
{
	op->opcode = random_opcode(d);
	op->site = random_below(d, 2) ? OUTSIDE : random_below(d, 4) ? INSIDE : WORK;
	switch (op->opcode) {
	case ADVANCE ... ADVANCE_TO_NEXT:
	case MIGRATE ... HOTPLUG:
		op->site = OUTSIDE;
		break;
	case EXTEND:
		op->site = INSIDE;
		if (!d->program->sink)
			op->opcode = ARM;
		break;
	}
	if (op->site == WORK && d->program->sink)
		op->site = INSIDE;
	if (op->site == INSIDE) {
		op->skip = random_below(d, 8) ? random_below(d, 2) : random_below(d, 200);
		op->more = !random_below(d, 3);
	}
	/* Few timeouts, so that several operations meet the same one. */
	op->timeout = random_below(d, 5) ? random_below(d, 16) : random_below(d, NR_TIMEOUTS);
	if (op->site != OUTSIDE && random_below(d, 2))
		op->timeout = SELF;
	op->nr = random_below(d, 2) ? random_below(d, 16) : random_below(d, NR_TIMEOUTS);
	op->delta = random_deadline(d);
	op->extra = random_below(d, 32) ? random_ns(d) : random_below(d, 8) ? 0 :
		CLOCK_END + random_below(d, 2);
	switch (op->opcode) {
	case ARM_LIST:
	case MOD_LIST:
		op->extra = random_below(d, 2) ? 0 :
			random_below64(d, d->program->geometry->tick_ns);
		break;
	case ADVANCE:
		op->delta = random_below(d, 6) ? random_ns(d) : -random_ns(d);
		if (d->program->far && !random_below(d, 16))
			op->delta = NEVER;
		break;
	case ADVANCE_TO_NEXT:
		op->delta = random_below(d, 2) ? 0 : random_below(d, 2) ? random_ns(d) :
			    -(s64)random_below64(d, NSEC_PER_SEC);
		break;
	case STEP:
		op->delta = random_below(d, 3) ? -random_ns(d) : random_ns(d);
		break;
	}
}

/* Write the program that belongs to @seed. */
static inline void generate_program(struct program *p, const struct geometry *g, u64 seed)
{
	struct generator d = { .program = p };
	u32 i;

	memset(p, 0, sizeof(*p));
	/* Similar seeds give similar first numbers: hash the seed and drop the first number. */
	prandom_seed_state(&d.rnd, hash_64(seed, 64) ^ seed >> 7);
	prandom_u32_state(&d.rnd);
	p->geometry = g;
	p->seed = seed;
	p->cpus = num_present_cpus();
	p->sink = !random_below(&d, 3);
	p->far = !random_below(&d, 16);
	p->nr = PROGRAM_LENGTH;
	for (i = 0; i < p->nr; i++)
		generate_operation(&d, &p->list[i]);
	if (random_below(&d, 2))
		return;
	/* The operations after the stop meet the hand-back and a stopped wheel. */
	i = p->nr - 20;
	p->list[i].opcode = STOP;
	p->list[i].site = random_below(&d, 2) ? OUTSIDE : INSIDE;
	while (++i < p->nr - 10)
		if (p->list[i].site == OUTSIDE && p->list[i].opcode < ADVANCE)
			p->list[i].site = INSIDE;
}

static inline void print_program(struct kunit *test, const struct program *p)
{
	static const char * const opcodes[] = {
		[ARM] = "arm", [ARM_SLACK] = "arm_slack", [ARM_AFTER] = "arm_after",
		[ARM_LIST] = "arm_list", [MOD] = "mod", [MOD_SLACK] = "mod_slack",
		[MOD_LIST] = "mod_list", [FORWARD] = "forward", [CANCEL] = "cancel",
		[CANCEL_LIST] = "cancel_list", [TRY_CANCEL] = "try_cancel",
		[CANCEL_SYNC] = "cancel_sync", [CANCEL_WORK] = "cancel_work",
		[SHUTDOWN] = "shutdown", [EXTEND] = "extend", [REINIT] = "reinit",
		[OTHER_WHEEL] = "other_wheel", [QUERY] = "query", [FLUSH] = "flush",
		[ADVANCE] = "advance", [ADVANCE_TO_NEXT] = "advance_to_next", [STEP] = "step",
		[STOP] = "stop", [MIGRATE] = "migrate", [HOTPLUG] = "hotplug",
	};
	static const char * const sites[] = { "outside", "inside", "work" };
	const struct operation *op;

	kunit_info(test, "seed=%llu: %s, tick %llu ns%s, %u CPUs, %u operations:\n", p->seed,
		   p->geometry->name, p->geometry->tick_ns, p->sink ? ", sink" : "", p->cpus,
		   p->nr);
	for (op = p->list; op < p->list + p->nr; op++)
		kunit_info(test, "%4u  %s after %u%s: %s #%d nr=%u delta=%lld extra=%llu\n",
			   (u32)(op - p->list), sites[op->site], op->skip, op->more ? "+" : "",
			   opcodes[op->opcode], (s16)op->timeout, op->nr, op->delta, op->extra);
}

#endif /* _TWHEEL_KUNIT_COMBINATION_H */
