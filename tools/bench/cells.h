/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cells at a pace: a program arms and cancels all its cells repeatedly, until the kernel has looked
 * at each of them once.
 */
#ifndef BENCH_CELLS_H
#define BENCH_CELLS_H

#include <stdint.h>

/**
 * struct cells_cost - total cost of a program with cells, including the kernel
 * @done: number of pairs of an arm and a cancel
 * @instructions: instructions of the whole machine during DELAY_NS, minus those of a program
 *	without operations at the same pace
 * @kicks: number of calls, all of which are KICK
 * @looks: number of looks of the kernel at a word
 */
struct cells_cost {
	uint64_t	done;
	uint64_t	instructions;
	uint64_t	kicks;
	uint64_t	looks;
};

/* Pairs with @n cells, in the order @order. Each cell is armed and cancelled at once. */
struct cells_cost cells_pairs(const uint32_t *order, unsigned int n);

/* Time of a pair for each of @n cells in ns, without a pace: the best of several rounds. */
uint64_t cells_pairs_ns(const uint32_t *order, unsigned int n);

#endif
