/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Division and the high half of a product. A solver for bits does not finish on a
 * division of 64 bits or on a product of 128 bits, so none is computed: each result
 * is any number, and is noted for claims about it. Three assumptions are made: a high half
 * is not above a factor, a quotient not above the dividend, and the clock has at least
 * LEAST_TICKS ticks of a day. reciprocal.smt2 and division.smt2 prove these, and the other
 * properties of the numbers, over the integers.
 */
#ifndef _LINUX_MATH64_H
#define _LINUX_MATH64_H

#include <linux/limits.h>
#include <linux/math.h>
#include <linux/types.h>

#define LEAST_TICKS	106751

/* The divisions made. */
static struct {
	u64	dividend;
	u64	divisor;
	u64	quotient;
} division[4];

static u32 nr_divisions;

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
	__CPROVER_assume(quotient <= dividend);
	if (dividend == S64_MAX && divisor <= 86400000000000)
		__CPROVER_assume(quotient >= LEAST_TICKS);
	division[nr_divisions].dividend = dividend;
	division[nr_divisions].divisor = divisor;
	division[nr_divisions].quotient = quotient;
	nr_divisions++;
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
