/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For proofs of functions of twheel.c and twheel.h. Such a proof names them in lines "extract:" of
 * its opening comment, and gets their text in the file EXTRACTED. Here are models of what they
 * use. A line "unwind:" has the number of times that a loop is unrolled; the checker proves that
 * it is enough. A line "wraps:" has an unsigned expression that may wrap.
 */
#ifndef _TWHEEL_ENGINE_H
#define _TWHEEL_ENGINE_H

#include "prove.h"

#define NSEC_PER_SEC		1000000000L
#define TWHEEL_DUE		0xff

#define __always_inline		inline
#define noinline
#define likely(x)		(x)
#define unlikely(x)		(x)
#define OPTIMIZER_HIDE_VAR(x)	((void)0)

struct twheel_timeout {
	struct list_head	entry;
	u64			tick;
	u64			expires;
	u8			level;
};

#endif /* _TWHEEL_ENGINE_H */
