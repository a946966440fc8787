/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_OVERFLOW_H
#define _LINUX_OVERFLOW_H

#include <linux/minmax.h>
#include <linux/types.h>

/* True if @a times @b does not fit into *@d, which gets the low bits. All are u64. */
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)

#endif /* _LINUX_OVERFLOW_H */
