/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the four programs have in common: the back ends, seen through a few operations,
 * the clock, samples and lines of results.
 *
 * A program numbers its timeouts from 0. A set of timeouts belongs to one thread or one
 * process, which also takes those that have fired.
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

/* Operations that a back end collects for one call, and events that it takes in one. */
#define BATCH		64U

/**
 * struct timers - a set of timeouts; a back end puts its own data behind it
 * @n: how many
 * @slack_ns: how much later than its deadline a timeout may fire
 */
struct timers {
	unsigned int	n;
	uint64_t	slack_ns;
};

/**
 * struct backend - one way to have timeouts
 * @name: in the results
 * @has_slack: it takes notice of @slack_ns
 * @open: a set of @n timeouts, none of them armed; all of it could fail here, and nothing
 *	could later
 * @close: give it back
 * @arm: arm or move a timeout; absolute, CLOCK_MONOTONIC. In effect after @flush
 * @repeat: arm a timeout that fires every @interval_ns from then on, by itself. NULL: the
 *	program has to arm it each time
 * @cancel: cancel a timeout that is armed. In effect after @flush
 * @flush: carry out what has been collected. NULL: nothing is
 * @take: take what has fired: numbers, at most BATCH of them. Flushes first, so that
 *	nothing is taken that was cancelled
 * @fd: readable when there is something to take; -1: see @next
 * @next: until when the program may sleep. NULL: the descriptor wakes it
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

noreturn void fail(const char *what);		/* a promise was broken */
void check(int ret, const char *what);		/* -errno */

/* Memory, zeroed, whose pages are there. */
void *array(size_t nr, size_t size);

/* The same, shared with processes that are forked. */
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

/* Sleeps until one of the descriptors is readable or the time has come. NEVER: no time. */
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
 * @ns: the values; sorted by late_at()
 * @nr: how many
 * @room: for how many
 */
struct samples {
	uint64_t	*ns;
	size_t		nr;
	size_t		room;
};

/* Adds a timeout that was due at @expires_ns and handled at @now_ns. Fails if it is early. */
void add_late(struct samples *samples, uint64_t expires_ns, uint64_t now_ns);

/* The value that so many of a thousand samples do not exceed, in us; 0 without samples. */
double late_at(struct samples *samples, unsigned int per_mille);

/* The machine */

/**
 * struct machine - what all processors have done since the machine was started
 * @at_ns: when this was read
 * @busy_ns: time in which they were not idle. Valid where is_counting() says so
 * @interrupts: of the local timer
 * @sleeps: how often a processor had nothing to do, and went idle
 * @switches: of context
 */
struct machine {
	uint64_t	at_ns;
	uint64_t	busy_ns;
	uint64_t	interrupts;
	uint64_t	sleeps;
	uint64_t	switches;
};

/* Does the machine have one processor whose nanoseconds are instructions? */
bool is_counting(void);

void read_machine(struct machine *machine);

/* What has happened since @before. */
struct machine machine_since(const struct machine *before);

/**
 * struct memory - what is in use
 * @user: bytes of this process, without what it shares
 * @all: bytes of the machine
 */
struct memory {
	int64_t	user;
	int64_t	all;
};

void read_memory(struct memory *memory);

/* As many descriptors as there may be. */
void raise_limits(void);

/* Stay on this processor, or on one that there is. */
void use_processor(unsigned int number);

/* Scenarios: their command lines begin with options of the form NAME=VALUE. */

/* The value of an option, or @value. */
uint64_t option(const char *name, uint64_t value);
const char *option_text(const char *name, const char *value);

/* Goes on to the options of the next run; false if there is none. */
bool next_run(void);

int rpc_main(void);
int idle_main(void);
int heartbeats_main(void);
int worker_main(void);

#endif
