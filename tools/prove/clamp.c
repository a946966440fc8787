// SPDX-License-Identifier: GPL-2.0
/* A sum of two times: a sum past the end of the clock becomes the end, "never". */
#include "prove.h"

void sum_is_exact_or_never(void)
{
	u64 now_ns = any_ns();
	u64 delta_ns = any_ns();
	__uint128_t sum = (__uint128_t)now_ns + delta_ns;
	u64 ns = twheel_add_ns(now_ns, delta_ns);

	PROVE(ns == (sum > S64_MAX ? S64_MAX : sum));
	PROVE(ns >= now_ns && ns >= delta_ns);
}
