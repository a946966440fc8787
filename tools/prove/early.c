// SPDX-License-Identifier: GPL-2.0
/*
 * An early cascade begins in the block before its own: only then are the slots below
 * free. Within that block it begins as early as requested. Without a lead, it begins with
 * its own block. division.c proves that the lead is the sum of the times of all timeouts.
 * division.smt2 proves that a lead in ticks, rounded up, is no shorter.
 *
 * The length of a tick counts in twheel_tick_ceil() alone, which is proved in
 * division.c. Here, ticks of 1 ns and any high half stand for every length: the lead
 * is any number of ticks, up to one per ns.
 */
#include "prove.h"

struct cascade {
	struct twheel_geometry g;
	u32 level, nr, lead_ns;
	u64 block;
	u64 early;
	u64 lead;	/* in ticks */
};

static struct cascade any_cascade(void)
{
	struct cascade c = { .g = any_geometry() };
	u64 rest;

	ASSUME(c.g.top > 0);
	c.g.tick_ns = 1;
	c.level = any_u32(1, c.g.top);
	c.block = twheel_block(&c.g, any_ns(), c.level) + any_u32(0, twheel_ring(&c.g, c.level));
	ASSUME(c.block > 0);
	c.nr = nondet_u32();
	c.lead_ns = nondet_u32();
	product.high = nondet_u64();
	c.early = twheel_early(&c.g, c.block, c.level, c.nr, c.lead_ns);
	PROVE(product.nr == 1);
	rest = product.a - product.high;
	c.lead = product.high + (rest > 0) + (rest > 1);
	return c;
}

void cascade_begins_within_the_block_before(void)
{
	struct cascade c = any_cascade();
	u32 shift = twheel_shift(&c.g, c.level);

	PROVE(c.early >= (c.block - 1) << shift);
	PROVE(c.early <= c.block << shift);
	PROVE(c.lead == 0 || twheel_block(&c.g, c.early, c.level) == c.block - 1);
}

void cascade_begins_the_lead_ahead_or_with_the_block_before(void)
{
	struct cascade c = any_cascade();
	u32 shift = twheel_shift(&c.g, c.level);
	u64 start = c.block << shift, before = (c.block - 1) << shift;

	PROVE(c.early == before || start - c.early == c.lead);
	PROVE(c.early > before || start - c.early <= c.lead);
}
