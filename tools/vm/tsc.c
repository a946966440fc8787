// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the frequency of this processor's time stamp counter in kHz. The counter of an
 * emulated processor runs with the host's. On a busy host the guest kernel must not
 * calibrate it: the kernel takes the shortest of three measurements, which is too short if
 * the host did not run the guest just then. All clocks of the guest would be several times
 * too fast.
 *
 * Fails if there is no such counter.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#if __has_include("x86intrin.h")
#include <x86intrin.h>

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define WAIT_NS		(50 * NSEC_PER_MSEC)
#define TRIES		20

struct clock_pair {
	uint64_t ns, cycles, error;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* The time and the counter, from the try with the least delay between them. */
static struct clock_pair clock_pair(void)
{
	struct clock_pair best = { .error = UINT64_MAX };

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = now_ns(), cycles = __rdtsc(), after = now_ns();

		if (after - before < best.error)
			best = (struct clock_pair) {
				.ns = before + (after - before) / 2,
				.cycles = cycles,
				.error = after - before,
			};
	}
	return best;
}

int main(void)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	struct clock_pair begin = clock_pair(), end;

	nanosleep(&wait, NULL);
	end = clock_pair();
	printf("%.0f\n",
	       (double)(end.cycles - begin.cycles) * NSEC_PER_MSEC / (end.ns - begin.ns));
	return 0;
}
#else
int main(void)
{
	return 1;
}
#endif
