/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the proofs take the kernel's functions to do. One header a name, as in the
 * kernel, each with no more than the index arithmetic uses; the functions are
 * written down as they are documented, with the model checker's own operators.
 */
#ifndef _LINUX_TYPES_H
#define _LINUX_TYPES_H

#include <stdbool.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#endif /* _LINUX_TYPES_H */
