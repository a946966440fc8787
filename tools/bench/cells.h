/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cells at a pace: a program that arms and cancels, or moves, all its cells again and
 * again, for as long as it takes the kernel to look at each of them once.
 */
#ifndef BENCH_CELLS_H
#define BENCH_CELLS_H

#include <stdint.h>

/* Cells in a page. */
#define CELLS_PAGE	256U

/**
 * struct cells_cost - what a program with cells took in all, kernel included
 * @done: pairs of an arm and a cancel, or moves
 * @instructions: of the whole machine, without those of a program that does nothing at the
 *	same pace
 * @kicks: calls, all of them KICK
 * @looks: of the kernel at a word
 */
struct cells_cost {
	uint64_t	done;
	uint64_t	instructions;
	uint64_t	kicks;
	uint64_t	looks;
};

/* @n cells. @order: their numbers. Each is armed and cancelled at once. */
struct cells_cost cells_pairs(const uint32_t *order, unsigned int n);

/* @n cells, always armed. Each is moved 100 times in the time that it is armed for. */
struct cells_cost cells_moves(const uint32_t *order, unsigned int n);

/* ns for a pair of each of @n cells, at no pace: the best of some times. */
uint64_t cells_pairs_ns(const uint32_t *order, unsigned int n);

/* A context with @n cells, each armed once for up to 30 seconds, and cancelled. */
void cells_open_unused(const uint32_t *order, unsigned int n);
void cells_close(void);

#endif
