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
 *   ticks	0 to 2^63. With ticks of 1 ns, the time S64_MAX is the tick S64_MAX,
 *		and a timeout that is armed then is put one tick after it
 *   slots	2^BITS; BITS is given from outside, 1 to 16. geometry.c proves that all
 *		other numbers of slots are rounded up to these
 *   levels	1 to as many as BITS allows
 */
#ifndef _TWHEEL_PROVE_H
#define _TWHEEL_PROVE_H

#include "twheel_index.h"

#define MAX_TICK	(S64_MAX + 1ULL)

#define ASSUME(condition)	__CPROVER_assume(condition)

/* With REACH, a claim that fails wherever values get to it. */
#ifdef REACH
#define PROVE(condition)	__CPROVER_assert(0, #condition)
#else
#define PROVE(condition)	__CPROVER_assert(condition, #condition)
#endif

u64 nondet_u64(void);
u32 nondet_u32(void);

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
	return any_u64(0, MAX_TICK);
}

/* A wheel with 2^BITS slots. */
static inline struct twheel_geometry any_geometry(void)
{
	struct twheel_geometry g;

	twheel_geometry_init(&g, any_tick_ns(), 1U << BITS, any_u32(1, TWHEEL_MAX_LEVELS));
	return g;
}

#endif /* _TWHEEL_PROVE_H */
