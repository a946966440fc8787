/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Division and the high half of a product. A solver for bits does not finish on a
 * division of 64 bits or on a product of 128 bits, so none is computed: each result
 * is any number, and is noted for claims about it. The only assumption is that a high
 * half is not above a factor. reciprocal.smt2 and division.smt2 prove the other properties
 * of these numbers, over the integers.
 */
#ifndef _LINUX_MATH64_H
#define _LINUX_MATH64_H

#include <linux/limits.h>
#include <linux/types.h>

/* The last division made. */
static struct {
	u64	dividend;
	u64	divisor;
	u64	quotient;
	u32	nr;
} division;

/* The last product: its factors, its high half, which a proof may choose, and a count. */
static struct {
	u64	a;
	u64	b;
	u64	high;
	u32	nr;
} product;

u64 nondet_u64(void);

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	u64 quotient = nondet_u64();

	__CPROVER_assert(divisor != 0, "no division by 0");
	division.dividend = dividend;
	division.divisor = divisor;
	division.quotient = quotient;
	division.nr++;
	return quotient;
}

static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
	__CPROVER_assert(shift == 64, "high half of the product");
	product.a = a;
	product.b = b;
	product.nr++;
	__CPROVER_assume(product.high <= a);
	return product.high;
}

#endif /* _LINUX_MATH64_H */
