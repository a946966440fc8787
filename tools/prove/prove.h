/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by all proofs. A proof is a function without arguments: it takes any
 * numbers within the stated ranges, and its claims must hold for every one of them.
 * The model checker adds claims for every expression of the functions under proof:
 * it does not overflow, shift too far or lose bits in a conversion.
 *
 * Ranges
 *
 *   time	0 to S64_MAX, in ns
 *   tick_ns	1 to TWHEEL_MAX_TICK_NS, a day
 *   ticks	0 to the one after that of S64_MAX: a timeout that is armed at the end of the
 *		clock is put there. A hashed wheel takes any up to 2^63
 *   slots	2^BITS; BITS is given from outside. geometry.c proves that all other numbers
 *		of slots are rounded up to powers of two
 *   levels	1, or any other number, which means as many as a tick needs
 *
 * A proof of functions of twheel.c and twheel.h names them in lines "extract:" of its opening
 * comment, and gets their text in the file EXTRACTED. A line "unwind:" has the number of times that
 * a loop is unrolled; the checker proves that it is enough. A line "wraps:" has an unsigned
 * expression that may wrap.
 */
#ifndef _TWHEEL_PROVE_H
#define _TWHEEL_PROVE_H

#include "twheel_index.h"

#define ASSUME(condition)	__CPROVER_assume(condition)

#define PROVE(condition)	__CPROVER_assert(condition, #condition)

/* Models of what these functions use. */

#define NSEC_PER_SEC		1000000000L
#define TWHEEL_DUE		0xff

#define __always_inline		inline
#define noinline
#define likely(x)		(x)
#define unlikely(x)		(x)
#define OPTIMIZER_HIDE_VAR(x)	((void)0)

struct twheel_timeout {
	struct list_head	entry;
	u64			tick;
	u64			expires;
	u8			level;
};

/* Of a hierarchy it is less with longer ticks. */
static u64 last_tick = S64_MAX + 1ULL;

u64 nondet_u64(void);
u32 nondet_u32(void);
bool nondet_bool(void);

static inline u64 any_u64(u64 min, u64 max)
{
	u64 x = nondet_u64();

	ASSUME(x >= min && x <= max);
	return x;
}

static inline u32 any_u32(u32 min, u32 max)
{
	u32 x = nondet_u32();

	ASSUME(x >= min && x <= max);
	return x;
}

static inline u64 any_ns(void)
{
	return any_u64(0, S64_MAX);
}

static inline u64 any_tick_ns(void)
{
	return any_u64(1, TWHEEL_MAX_TICK_NS);
}

static inline u64 any_tick(void)
{
	return any_u64(0, last_tick);
}

/* A hierarchy with 2^BITS slots on level 0. Its clock has any number of ticks. */
static inline struct twheel_geometry any_geometry(void)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, any_tick_ns(), 1U << BITS, 0);
	last_tick = division[1].quotient + 1;
	return g;
}

/* A hashed wheel with 2^BITS slots. */
static inline struct twheel_geometry any_hashed_geometry(void)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, any_tick_ns(), 1U << BITS, 1);
	return g;
}

static inline u32 top_of(const struct twheel_geometry *g)
{
	return g->levels - 1;
}

static inline u32 any_level(const struct twheel_geometry *g)
{
	return any_u32(0, top_of(g));
}

/* The number of the block of @level that has @tick. */
static inline u64 block_of(const struct twheel_geometry *g, u64 tick, u32 level)
{
	return tick >> twheel_shift(g, level);
}

/* The first tick of that block. */
static inline u64 start_of(const struct twheel_geometry *g, u64 tick, u32 level)
{
	return block_of(g, tick, level) << twheel_shift(g, level);
}

/* Both are in one block of @level. Above the top there is only one block. */
static inline bool in_same_block(const struct twheel_geometry *g, u64 a, u64 b, u32 level)
{
	return level == g->levels || block_of(g, a, level) == block_of(g, b, level);
}

/* The level on which an arm puts a timeout: twheel_enqueue() has a table of it. */
static inline u32 level_of(const struct twheel_geometry *g, u64 tick, u64 cursor)
{
	return twheel_level_of_bit(g, (u32)twheel_differing_bit(tick, cursor));
}

/*
 * Where timeouts of @level are: in the block of the level above that the cursor is in, or in the
 * next one. The top level has slots for all blocks.
 */
static inline bool is_level_reachable(const struct twheel_geometry *g, u64 tick, u64 cursor,
				      u32 level)
{
	u64 here, block;

	if (level == top_of(g))
		return true;
	here = block_of(g, cursor, level + 1);
	block = block_of(g, tick, level + 1);
	return block == here || block == here + 1;
}

#endif /* _TWHEEL_PROVE_H */
