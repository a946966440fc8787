/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the programs: their options, random numbers and samples.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../backends/backend.h"
#include "../clock.h"
#include "../machine.h"

/* Maximum of operations that a back end collects for one call, and of events per call. */
#define BATCH		64U

const struct backend *find_backend(const char *name);

/* Random numbers, the same in each run */

static inline uint32_t random_below(uint64_t *state, uint32_t limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return ((*state >> 32) * limit) >> 32;
}

#define RANDOM_SEED	88172645463325252ULL

/**
 * struct samples - how late timeouts were, in ns
 * @ns: the values; lateness_percentile() sorts them
 * @nr: number of values
 * @room: maximum number of values
 */
struct samples {
	uint64_t	*ns;
	size_t		nr;
	size_t		room;
};

/* Add a timeout that was due at @expires_ns and handled at @now_ns. Fails if it is early. */
void add_lateness(struct samples *samples, uint64_t expires_ns, uint64_t now_ns);

/* The value that @per_mille of a thousand samples do not exceed, in us; 0 without samples. */
double lateness_percentile(struct samples *samples, unsigned int per_mille);

/* Scenarios: their command lines begin with options of the form NAME=VALUE. */

/* The value of an option, or @value if it is missing. */
uint64_t option(const char *name, uint64_t value);
const char *option_text(const char *name, const char *value);

/* Go on to the options of the next run; returns false if there is none. */
bool next_run(void);

int rpc_main(void);
int idle_main(void);
int heartbeats_main(void);

#endif
