/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_BITOPS_H
#define _LINUX_BITOPS_H

#include <linux/types.h>

#define BITS_PER_LONG	64

/* Number of the highest bit set, counted from 1; 0 if there is none. */
static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* Number of the highest bit set, counted from 0; @x is not 0. */
static inline unsigned long __fls(unsigned long x)
{
	return fls64(x) - 1;
}

#endif /* _LINUX_BITOPS_H */
