/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_LOG2_H
#define _LINUX_LOG2_H

#include <linux/bitops.h>

/* The smallest n with 2^n >= @x. */
static inline int order_base_2(unsigned long x)
{
	return x > 1 ? fls64(x - 1) : 0;
}

#endif /* _LINUX_LOG2_H */
