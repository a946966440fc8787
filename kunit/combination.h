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
 * twheel_stop() hands a timeout back. If none of these comes before the next operation with
 * site OUTSIDE, it is carried out by the test. An operation with site WORKER is carried out
 * by a callback that runs in a worker, if there is one.
 */
#ifndef _TWHEEL_KUNIT_COMBINATION_H
#define _TWHEEL_KUNIT_COMBINATION_H

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/prandom.h>
#include <linux/time64.h>

#include "../twheel.h"
#include "reference.h"

#define NR_PLAYERS	320
#define PROGRAM_MAX	1000
#define CLOCK_END	((u64)S64_MAX)

/* operation.who: the timeout whose callback carries out the operation */
#define SELF		U16_MAX

/* operation.delta: the end of the clock, and a time beyond it */
#define NEVER		S64_MAX
#define INVALID		S64_MIN

enum deed {
	ARM,
	ARM_SLACK,
	ARM_AFTER,
	ARM_PERIODIC,
	ARM_LIST,
	MOD,
	MOD_SLACK,
	MOD_LIST,
	CANCEL,
	CANCEL_LIST,
	TRY_CANCEL,
	CANCEL_SYNC,
	SHUTDOWN,
	EXTEND,
	REINIT,
	QUERY,
	SET_CLOCK,
	ADVANCE,
	ADVANCE_TO_NEXT,
	RELEASE,
	FLUSH,
	OTHER_WHEEL,
	MIGRATE,
	HOTPLUG,
	STOP,
	NR_DEEDS,
};

enum site {
	OUTSIDE,
	INSIDE,
	WORKER,
};

/**
 * struct operation - one line of a program
 * @deed: its kind, enum deed
 * @site: its site, enum site
 * @skip: INSIDE: number of callbacks to let pass first
 * @more: INSIDE: the same callback also carries out the next operation
 * @who: index of the player, or SELF
 * @nr: lists: number of players, starting at @who; WORKER, RELEASE: chooses the worker;
 *	MIGRATE, HOTPLUG: chooses the CPU
 * @delta: time relative to the clock at the moment of the operation
 * @extra: slack, interval, or ns between the deadlines of a list
 * @repeat: periodic: number of periods. REINIT: the new kind
 */
struct operation {
	u8	deed;
	u8	site;
	u8	skip;
	bool	more;
	u16	who;
	u16	nr;
	s64	delta;
	u64	extra;
	u32	repeat;
};

/**
 * struct geometry - parameter of a case
 * @name: for the log
 * @shape: slots and levels that the wheel has
 * @tick_ns: length of a tick
 * @asked: slots passed to twheel_create(); 0: those of @shape
 */
struct geometry {
	const char	*name;
	struct shape	shape;
	u64		tick_ns;
	u32		asked;
};

/**
 * struct program - a wheel, and the operations to carry out on it
 * @geometry: of the wheel
 * @seed: seed of all decisions
 * @sink: the wheel has one
 * @workers: some timeouts have their callbacks run by workers
 * @cpus: number of CPUs that the test uses, one at a time
 * @limit: max_pending of the wheel
 * @nr: number of operations in @list
 * @list: the operations
 */
struct program {
	const struct geometry	*geometry;
	u64			seed;
	bool			sink;
	bool			workers;
	u32			cpus;
	u32			limit;
	u32			nr;
	struct operation	list[PROGRAM_MAX];
};

struct dice {
	const struct program	*program;
	struct rnd_state	rnd;
};

static inline u32 throw(struct dice *d, u32 sides)
{
	return prandom_u32_state(&d->rnd) % sides;
}

static inline u64 throw64(struct dice *d, u64 sides)
{
	u64 value = (u64)prandom_u32_state(&d->rnd) << 32;

	return ref_mod(value | prandom_u32_state(&d->rnd), sides);
}

/* A number of ticks that is of interest in this geometry. */
static inline u64 throw_ticks(struct dice *d)
{
	const struct shape *s = &d->program->geometry->shape;

	switch (throw(d, 8)) {
	case 0 ... 1:
		return throw(d, 3);
	case 2 ... 4:
		return throw(d, 2 * min_t(u32, s->slots, 100));
	case 5:
		return ref_boundary(s, throw(d, SHAPE_BOUNDARIES(s->levels)));
	case 6:
		return throw64(d, ref_grain(s, 1 + throw(d, s->levels)));
	default:
		return throw64(d, 2 * ref_span(s));
	}
}

/* At most a 64th of the clock, so that a program does not soon reach the end of the clock. */
static inline s64 throw_ns(struct dice *d)
{
	u64 tick_ns = d->program->geometry->tick_ns;
	u64 ticks = min(throw_ticks(d), div64_u64(CLOCK_END >> 6, tick_ns) - 1);

	return ticks * tick_ns + (throw(d, 2) ? throw64(d, tick_ns) : 0);
}

static inline s64 throw_deadline(struct dice *d)
{
	switch (throw(d, 64)) {
	case 0:
		return NEVER;
	case 1:
		return INVALID;
	case 2 ... 6:
		return -throw_ns(d);
	default:
		return throw_ns(d);
	}
}

static inline enum deed throw_deed(struct dice *d)
{
	static const u8 weight[NR_DEEDS] = {
		[ARM] = 14, [ARM_SLACK] = 10, [ARM_AFTER] = 8, [ARM_PERIODIC] = 20,
		[ARM_LIST] = 3, [MOD] = 14, [MOD_SLACK] = 7, [CANCEL] = 10, [MOD_LIST] = 2,
		[CANCEL_LIST] = 1, [TRY_CANCEL] = 6, [CANCEL_SYNC] = 5, [SHUTDOWN] = 2,
		[EXTEND] = 0, [REINIT] = 8, [QUERY] = 4, [SET_CLOCK] = 4,
		[ADVANCE] = 14, [ADVANCE_TO_NEXT] = 24, [RELEASE] = 12, [FLUSH] = 1,
		[OTHER_WHEEL] = 1, [MIGRATE] = 10, [HOTPLUG] = 2,
	};
	u32 nr = d->program->cpus > 1 ? NR_DEEDS : MIGRATE, left, sum = 0, deed;

	for (deed = 0; deed < nr; deed++)
		sum += weight[deed];
	left = throw(d, sum);
	for (deed = 0; left >= weight[deed]; deed++)
		left -= weight[deed];
	return deed;
}

static inline void throw_site(struct dice *d, struct operation *op)
{
	switch (op->deed) {
	case ADVANCE ... ADVANCE_TO_NEXT:
	case FLUSH:
	case MIGRATE ... HOTPLUG:
		op->site = OUTSIDE;
		break;
	case RELEASE:
		/* Without workers, there is nothing to release. */
		op->site = OUTSIDE;
		if (d->program->workers)
			break;
		op->deed = d->program->sink ? EXTEND : ARM;
		op->site = INSIDE;
		break;
	default:
		op->site = throw(d, 3) ? throw(d, 2) ? INSIDE : OUTSIDE : WORKER;
	}
	if (op->site == WORKER && !d->program->workers)
		op->site = INSIDE;
	if (op->site == INSIDE) {
		op->skip = throw(d, 8) ? throw(d, 2) : throw(d, 200);
		op->more = !throw(d, 3);
	}
}

/* Prefer few players, so that several operations meet the same player. */
static inline u16 throw_player(struct dice *d, const struct operation *op)
{
	if (op->site != OUTSIDE && throw(d, 2))
		return SELF;
	return throw(d, 5) ? throw(d, 16) : throw(d, NR_PLAYERS);
}

static inline void write_operation(struct dice *d, struct operation *op)
{
	op->deed = throw_deed(d);
	throw_site(d, op);
	op->who = throw_player(d, op);
	op->nr = throw(d, 3) ? throw(d, 16) : throw(d, NR_PLAYERS);
	op->delta = throw_deadline(d);
	op->extra = throw(d, 32) ? throw_ns(d) : 0;
	op->repeat = throw(d, 3) ? throw(d, 6) : 0;
	switch (op->deed) {
	case ARM_LIST:
	case MOD_LIST:
		op->extra = throw(d, 2) ? 0 : throw64(d, d->program->geometry->tick_ns);
		break;
	case REINIT:
		op->repeat = throw(d, 8);
		break;
	case SET_CLOCK:
		op->delta = throw(d, 3) ? -throw_ns(d) : throw_ns(d);
		break;
	case ADVANCE:
		op->delta = throw(d, 6) ? throw_ns(d) : -throw_ns(d);
		break;
	case ADVANCE_TO_NEXT:
		op->delta = throw(d, 2) ? 0 : throw_ns(d);
		break;
	}
}

/* Write the program of @nr operations that belongs to @seed. */
static inline void write_program(struct program *p, const struct geometry *g, u64 seed,
				 u32 nr, bool workers)
{
	struct dice d = { .program = p };
	u32 i;

	memset(p, 0, sizeof(*p));
	/* Similar seeds give similar first numbers: hash the seed and drop the first number. */
	prandom_seed_state(&d.rnd, hash_64(seed, 64) ^ seed >> 7);
	prandom_u32_state(&d.rnd);
	p->geometry = g;
	p->seed = seed;
	p->cpus = num_present_cpus();
	p->sink = !throw(&d, 3);
	p->workers = throw(&d, 4) && workers && !p->sink;
	p->limit = throw(&d, 2) ? 0 : 1 + throw(&d, throw(&d, 2) ? 8 : 200);
	p->nr = min_t(u32, nr, PROGRAM_MAX);
	for (i = 0; i < p->nr; i++)
		write_operation(&d, &p->list[i]);
	/* The operations after the stop meet the hand-back and a stopped wheel. */
	if (p->nr > 20 && throw(&d, 2)) {
		p->list[p->nr - 20].deed = STOP;
		p->list[p->nr - 20].site = OUTSIDE;
	}
}

static inline void print_operation(struct kunit *test, u32 i, const struct operation *op)
{
	static const char * const deeds[] = {
		[ARM] = "arm", [ARM_SLACK] = "arm_slack", [ARM_AFTER] = "arm_after",
		[ARM_PERIODIC] = "arm_periodic", [ARM_LIST] = "arm_list", [MOD] = "mod",
		[MOD_SLACK] = "mod_slack", [MOD_LIST] = "mod_list", [CANCEL] = "cancel",
		[CANCEL_LIST] = "cancel_list", [TRY_CANCEL] = "try_cancel",
		[CANCEL_SYNC] = "cancel_sync", [SHUTDOWN] = "shutdown",
		[EXTEND] = "extend", [REINIT] = "reinit", [QUERY] = "query",
		[SET_CLOCK] = "set_clock", [ADVANCE] = "advance",
		[ADVANCE_TO_NEXT] = "advance_to_next", [RELEASE] = "release",
		[FLUSH] = "flush", [OTHER_WHEEL] = "other_wheel",
		[MIGRATE] = "migrate", [HOTPLUG] = "hotplug", [STOP] = "stop",
	};
	static const char * const sites[] = { "outside", "inside", "worker" };
	char who[8] = "self", skip[16] = "";

	if (op->who != SELF)
		snprintf(who, sizeof(who), "#%u", op->who);
	if (op->site == INSIDE)
		snprintf(skip, sizeof(skip), " after %u%s", op->skip, op->more ? "+" : "");
	kunit_info(test, "%4u  %s%s: %s %s nr=%u delta=%lld extra=%llu repeat=%u\n", i,
		   sites[op->site], skip, deeds[op->deed], who, op->nr, op->delta, op->extra,
		   op->repeat);
}

static inline void print_program(struct kunit *test, const struct program *p)
{
	u32 i;

	kunit_info(test, "seed=%llu: %s, tick %llu ns%s%s, %u CPUs, limit %u, %u operations:\n",
		   p->seed, p->geometry->name, p->geometry->tick_ns,
		   p->sink ? ", sink" : "", p->workers ? ", workers" : "", p->cpus,
		   p->limit, p->nr);
	for (i = 0; i < p->nr; i++)
		print_operation(test, i, &p->list[i]);
}

#endif /* _TWHEEL_KUNIT_COMBINATION_H */
