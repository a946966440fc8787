/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Models of the kernel functions that the proofs assume, in headers with the kernel's
 * names. The headers have only the parts that the index arithmetic uses. The functions
 * follow their documentation, and use operators of the model checker.
 */
#ifndef _LINUX_TYPES_H
#define _LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* Those of the uapi header. */
typedef int __s32;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;

#define __aligned_u64	__u64

#endif /* _LINUX_TYPES_H */
