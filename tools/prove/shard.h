/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of struct twheel_shard that the proofs need.
 *
 * models: twheel_init_shard
 */
#ifndef _TWHEEL_SHARD_H
#define _TWHEEL_SHARD_H

/* Of the wheel, whether it has a sink. */
struct twheel {
	struct { bool sink; }	params;
};

struct twheel_shard {
	const struct twheel	*wheel;
	struct twheel_geometry	geometry;
	u64			cursor;
	u64			lead_tick;
	struct list_head	aside;
	struct list_head	due;
	struct twheel_level	level[TWHEEL_LEVELS];
};

/* The slots and the bitmap of @level are left to the proof. */
static inline struct twheel_level level_with(const struct twheel_geometry *g, u32 level,
					     struct twheel_slot *row, unsigned long *map)
{
	return (struct twheel_level){
		.shift = twheel_shift(g, level), .mask = twheel_ring(g, level) - 1,
		.row = row, .map = map,
	};
}

#endif /* _TWHEEL_SHARD_H */
