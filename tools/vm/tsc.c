// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the frequency of this processor's time stamp counter in kHz. The counter of an
 * emulated processor runs with the host's. On a busy host the guest kernel must not
 * calibrate it: the kernel takes the shortest of three measurements, which is too short if
 * the host did not run the guest just then. All clocks of the guest would be several times
 * too fast.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define TRIES	20

struct pair {
	uint64_t ns, cycles;
};

/* The time and the counter, from the fastest try: the others were interrupted. */
static struct pair now(void)
{
	uint64_t least = UINT64_MAX;
	struct pair best = { 0 };

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), after;
		struct timespec time;

		clock_gettime(CLOCK_MONOTONIC, &time);
		after = __rdtsc();
		if (after - before < least) {
			least = after - before;
			best.ns = time.tv_sec * 1000000000ULL + time.tv_nsec;
			best.cycles = before + least / 2;
		}
	}
	return best;
}

int main(void)
{
	struct pair begin = now(), end;

	usleep(50000);
	end = now();
	printf("%.0f\n", (end.cycles - begin.cycles) * 1e6 / (end.ns - begin.ns));
	return 0;
}
