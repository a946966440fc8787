/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Division, as an axiom. A solver for bits does not finish on a division of 64
 * bits, so none is made: any number can be the quotient that has with a remainder
 * the property
 *
 *	dividend == quotient * divisor + remainder,	remainder < divisor
 *
 * modulo 2^64. That there is no overflow in it and no other such pair, and what
 * follows from it for deadlines and ticks, is proved over the integers, in
 * division.smt2.
 */
#ifndef _LINUX_MATH64_H
#define _LINUX_MATH64_H

#include <linux/types.h>

/* The last division made, for what is to be said about it. */
static struct {
	u64	dividend;
	u64	divisor;
	u64	quotient;
	u64	remainder;
	u32	nr;
} division;

u64 nondet_u64(void);

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	u64 quotient = nondet_u64();

	__CPROVER_assert(divisor != 0, "no division by 0");
	division.dividend = dividend;
	division.divisor = divisor;
	division.quotient = quotient;
	division.remainder = dividend - quotient * divisor;
	division.nr++;
	__CPROVER_assume(quotient <= dividend && division.remainder < divisor);
	return quotient;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	u64 quotient = div64_u64(dividend, divisor);

	*remainder = division.remainder;
	return quotient;
}

#endif /* _LINUX_MATH64_H */
