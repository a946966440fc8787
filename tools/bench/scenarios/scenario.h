/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the four programs: an interface to the back ends, the clock, samples, and lines
 * of results.
 *
 * A program numbers its timeouts from 0. A set of timeouts belongs to one thread or one
 * process, which also takes the timeouts that have fired.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <time.h>

#include "../proc.h"

#define NSEC_PER_USEC	UINT64_C(1000)
#define NSEC_PER_MSEC	UINT64_C(1000000)
#define NSEC_PER_SEC	UINT64_C(1000000000)
#define NEVER		UINT64_MAX

/* Maximum of operations that a back end collects for one call, and of events per call. */
#define BATCH		64U

/**
 * struct timers - a set of timeouts; a back end appends its own data
 * @n: number of timeouts
 * @slack_ns: maximum delay of a timeout after its deadline
 */
struct timers {
	unsigned int	n;
	uint64_t	slack_ns;
};

/**
 * struct backend - one way to have timeouts
 * @name: name in the results
 * @has_slack: it uses @slack_ns
 * @open: make a set of @n timeouts, none of them armed. Only this call may fail for lack of
 *	resources
 * @close: free the set
 * @arm: arm or move a timeout; absolute time on CLOCK_MONOTONIC; takes effect with @flush
 * @repeat: arm a timeout that then fires every @interval_ns. NULL: the program has to arm
 *	it each time
 * @cancel: cancel an armed timeout; takes effect with @flush
 * @flush: carry out the collected operations. NULL: there are none
 * @take: get the numbers of timeouts that have fired, at most BATCH. Flushes first, so that
 *	it returns no timeout that was cancelled
 * @fd: readable if timeouts have fired; -1: use @next
 * @next: time until which the program may sleep. NULL: the descriptor wakes it
 */
struct backend {
	const char	*name;
	bool		has_slack;
	struct timers	*(*open)(unsigned int n, uint64_t slack_ns);
	void		(*close)(struct timers *timers);
	void		(*arm)(struct timers *timers, uint32_t number, uint64_t expires_ns);
	void		(*repeat)(struct timers *timers, uint32_t number, uint64_t expires_ns,
				  uint64_t interval_ns);
	void		(*cancel)(struct timers *timers, uint32_t number);
	void		(*flush)(struct timers *timers);
	unsigned int	(*take)(struct timers *timers, uint64_t now_ns, uint32_t *numbers);
	int		(*fd)(struct timers *timers);
	uint64_t	(*next)(struct timers *timers);
};

extern const struct backend backend_none;
extern const struct backend backend_cells;
extern const struct backend backend_submit;
extern const struct backend backend_wheel;
extern const struct backend backend_mutex;
extern const struct backend backend_timerfd;
extern const struct backend backend_io_uring;

const struct backend *find_backend(const char *name);

static inline void flush_timers(const struct backend *backend, struct timers *timers)
{
	if (backend->flush)
		backend->flush(timers);
}

static inline uint64_t next_of(const struct backend *backend, struct timers *timers)
{
	return backend->next ? backend->next(timers) : NEVER;
}

/* Errors */

noreturn void fail(const char *what);		/* a guarantee was broken */
void check(int ret, const char *what);		/* -errno */

/* Zeroed memory with all pages present. */
void *array(size_t nr, size_t size);

/* The same, shared with child processes. */
void *shared_array(size_t nr, size_t size);

/* The clock */

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

void sleep_until(uint64_t ns);

/* Sleep until one of the descriptors is readable or @ns is reached. NEVER: no time limit. */
struct pollfd;
void poll_until(struct pollfd *fds, unsigned int nr, uint64_t ns);

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
 * @ns: the values; late_at() sorts them
 * @nr: number of values
 * @room: maximum number of values
 */
struct samples {
	uint64_t	*ns;
	size_t		nr;
	size_t		room;
};

/* Add a timeout that was due at @expires_ns and handled at @now_ns. Fails if it is early. */
void add_late(struct samples *samples, uint64_t expires_ns, uint64_t now_ns);

/* The value that @per_mille of a thousand samples do not exceed, in us; 0 without samples. */
double late_at(struct samples *samples, unsigned int per_mille);

/* The machine */

/**
 * struct machine - counters of all processors since boot
 * @at_ns: time of reading
 * @busy_ns: time in which the processor was not idle; valid if is_counting()
 * @interrupts: interrupts of the local timer
 * @sleeps: number of times that a processor went idle
 * @switches: context switches
 */
struct machine {
	uint64_t	at_ns;
	uint64_t	busy_ns;
	uint64_t	interrupts;
	uint64_t	sleeps;
	uint64_t	switches;
};

/* Returns whether there is one processor whose nanoseconds are instructions. */
bool is_counting(void);

void read_machine(struct machine *machine);

/* The difference to @before. */
struct machine machine_since(const struct machine *before);

/**
 * struct memory - memory in use
 * @user: bytes of this process, without shared memory
 * @all: bytes of the machine
 */
struct memory {
	int64_t	user;
	int64_t	all;
};

void read_memory(struct memory *memory);

/* Raise the limit of descriptors to the maximum. */
void raise_limits(void);

/* Bind the thread to this processor, or to one that exists. */
void use_processor(unsigned int number);

/* Scenarios: their command lines begin with options of the form NAME=VALUE. */

/* The value of an option, or @value if it is missing. */
uint64_t option(const char *name, uint64_t value);
const char *option_text(const char *name, const char *value);

/* Go on to the options of the next run; returns false if there is none. */
bool next_run(void);

int rpc_main(void);
int idle_main(void);
int heartbeats_main(void);
int worker_main(void);

#endif
