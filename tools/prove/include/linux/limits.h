/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_LIMITS_H
#define _LINUX_LIMITS_H

#define S64_MAX	0x7fffffffffffffffLL
#define U64_MAX	0xffffffffffffffffULL

#endif /* _LINUX_LIMITS_H */
