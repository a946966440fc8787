/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the suites of random operations against a model: the random numbers, and the
 * first difference, which ends a run.
 */
#ifndef _TWHEEL_KUNIT_PLAY_H
#define _TWHEEL_KUNIT_PLAY_H

#include <kunit/test.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "reference.h"

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "Play the operations of this seed (0: a new one)");

/**
 * struct play - state of a run of random operations
 * @seed: of all decisions
 * @rnd: source of all decisions
 * @step: number of the operation
 * @fault: the first disagreement, or NULL
 * @got: result of the wheel at @fault
 * @want: result of the model at @fault
 */
struct play {
	u64			seed;
	struct rnd_state	rnd;
	unsigned int		step;
	const char		*fault;
	u64			got, want;
};

static inline void play_begin(struct kunit *test, struct play *p, unsigned int steps,
			      const char *name)
{
	p->seed = seed ?: get_random_u64();
	prandom_seed_state(&p->rnd, p->seed);
	kunit_info(test, "seed=%llu steps=%u: %s\n", p->seed, steps, name);
}

static inline void play_end(struct kunit *test, const struct play *p)
{
	if (p->fault)
		KUNIT_FAIL(test, "seed=%llu step %u: %s is %lld, not %lld", p->seed,
			   p->step - 1, p->fault, (s64)p->got, (s64)p->want);
}

static inline u32 roll(struct play *p, u32 sides)
{
	return prandom_u32_state(&p->rnd) % sides;
}

static inline u64 roll64(struct play *p, u64 sides)
{
	u64 value = (u64)prandom_u32_state(&p->rnd) << 32;

	return ref_mod(value | prandom_u32_state(&p->rnd), sides);
}

static inline void compare(struct play *p, const char *what, u64 got, u64 want)
{
	if (got == want || p->fault)
		return;
	p->fault = what;
	p->got = got;
	p->want = want;
}

#endif /* _TWHEEL_KUNIT_PLAY_H */
