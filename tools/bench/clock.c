// SPDX-License-Identifier: GPL-2.0
#include "clock.h"

uint64_t clock_total;
uint64_t clock_begin;
uint64_t clock_cost;
int clock_wanted;

void clock_calibrate(void)
{
	uint64_t least = UINT64_MAX;

	clock_wanted = 1;
	for (int i = 0; i < 1000; i++) {
		clock_start();
		clock_stop();
		if (clock_total < least)
			least = clock_total;
		clock_take();
	}
	clock_wanted = 0;
	clock_cost = least;
}
