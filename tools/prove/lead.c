// SPDX-License-Identifier: GPL-2.0
/*
 * The cascade of a crowded slot begins in the block before its own: only then are the slots
 * below free. Within that block it begins one second ahead. division.c and division.smt2 prove
 * how a second becomes ticks, and that these are no less.
 *
 * The length of a tick counts in twheel_tick_ceil() alone. Here, ticks of 1 or 2 ns and any high
 * half stand for every length: the second is any number of ticks, up to one per ns.
 *
 * extract: TWHEEL_LEAD_NS TWHEEL_NOW twheel_lead_tick
 */
#include "prove.h"
#include EXTRACTED

struct cascade {
	struct twheel_geometry g;
	u32 level;
	u64 block;
	u64 begin;
	u64 lead;	/* in ticks */
};

static struct cascade any_cascade(void)
{
	struct cascade c = { .g = any_geometry() };
	u64 rest;

	c.g.tick_ns = any_u64(1, 2);
	c.level = any_u32(1, top_of(&c.g));
	c.block = block_of(&c.g, any_tick(), c.level);
	ASSUME(c.block > 0);
	product.high = any_u64(0, 1000000000 / c.g.tick_ns);
	c.begin = twheel_lead_tick(&c.g, c.block, c.level);
	PROVE(product.nr == 1 && product.a == 1000000000 + c.g.tick_ns - 1);
	rest = product.a - product.high * c.g.tick_ns;
	c.lead = product.high + (rest >= c.g.tick_ns);
	return c;
}

void cascade_begins_within_the_block_before(void)
{
	struct cascade c = any_cascade();

	PROVE(block_of(&c.g, c.begin, c.level) == c.block - 1);
}

/* Tick 0 stands for a shard that is served: the earliest tick is 1. */
void cascade_begins_a_second_ahead_or_with_the_block_before(void)
{
	struct cascade c = any_cascade();
	u32 shift = twheel_shift(&c.g, c.level);
	u64 start = c.block << shift, before = (c.block - 1) << shift;

	PROVE(c.begin > 0);
	PROVE(c.begin == before || c.begin == 1 || start - c.begin == c.lead);
	PROVE(start - c.begin <= c.lead);
	PROVE(c.begin != 1 || before <= 1 || c.lead == start - 1);
}
