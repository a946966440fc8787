// SPDX-License-Identifier: GPL-2.0
/*
 * Time pairs of an arm and a cancel in user space: cells, and a wheel inside the process,
 * alone and behind a mutex, with one thread and with two.
 *
 * All N timeouts are armed all the time. A step takes the next one in random order, cancels
 * it, and arms it again for five seconds later. The program reads the clock once per STEP
 * timeouts, and then advances the wheel to the new time. Nothing fires.
 *
 * The cells are in ordinary memory, where no kernel looks at them, and their @look is 0, so
 * no arm makes a call. The result contains no work of the kernel. It does not contain the
 * wakeups either that a wheel in the process needs.
 *
 * Cells and nodes are packed, and a timeout is found by its number. Before a repetition,
 * each thread goes through its timeouts once in another random order. So the lists of the
 * wheel are not in the order of the steps, and the caches are filled. Each repetition has
 * new orders, so that the branch predictor does not learn them. A part is PART pairs. The
 * result is the tenth percentile of the times of all parts, because other load on the
 * machine disturbs some of the parts.
 *
 *	pairs REPETITIONS N...		small N get more repetitions
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../lib/libtwheel.h"
#include "wheel.h"

#define NSEC_PER_SEC	1000000000ULL
#define DELAY_NS	(5 * NSEC_PER_SEC)
#define STEP		64U
#define PART		4096U		/* divisible by STEP */
#define THREADS		2U
#define N_MAX		1000000U

/* Number of cells in a page. */
#define PAGE_CELLS	256U

#define unlikely(x)	__builtin_expect(!!(x), 0)

/**
 * struct lane - data of a thread
 * @order: numbers of its timeouts, in the order of the measured steps
 * @before: the same numbers, in the order of the steps before the measurement
 * @n: number of its timeouts
 * @at: index of the next timeout
 * @wheel: wheel of the thread
 * @begin: begin of each part
 * @end: end of each part
 */
struct lane {
	alignas(128) uint32_t *order;
	uint32_t	*before;
	uint32_t	n;
	uint32_t	at;
	struct wheel	*wheel;
	uint64_t	*begin;
	uint64_t	*end;
};

/**
 * struct system - a competitor
 * @name: name in the result
 * @operation: operation in the result
 * @threads: number of threads
 * @shared: all threads use all timeouts; otherwise each uses its share
 * @wheels: each thread has a wheel of its own
 * @arm: arm the timeouts of a lane
 * @part: make PART pairs of a lane
 */
struct system {
	const char	*name;
	const char	*operation;
	unsigned int	threads;
	bool		shared;
	bool		wheels;
	void		(*arm)(struct lane *lane);
	void		(*part)(struct lane *lane);
};

/**
 * struct times - durations of parts
 * @ns: the durations
 * @nr: number of durations
 */
struct times {
	uint64_t	*ns;
	unsigned int	nr;
};

typedef uint64_t (*tick_fn)(struct wheel *wheel);
typedef void (*pair_fn)(struct wheel *wheel, uint32_t number, uint64_t expires_ns);

static struct twheel_cell *cells;
static struct wheel_node *nodes;
static alignas(128) struct wheel wheels[THREADS];
static alignas(128) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct lane lanes[THREADS];
static const struct system *job;	/* current job of the threads; NULL: end */
static unsigned int parts;
static unsigned int processors[THREADS];
static pthread_barrier_t barrier;
static alignas(128) unsigned int arrived;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fail(const char *what)
{
	fprintf(stderr, "pairs: %s\n", what);
	exit(1);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static void *array(size_t nr, size_t size)
{
	void *memory = calloc(nr, size);

	if (!memory)
		die("calloc");
	return memory;
}

/* Pages of the base size, as the device has. */
static void *pages(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	madvise(memory, size, MADV_NOHUGEPAGE);
	return memory;
}

static uint64_t random_state = 88172645463325252ULL;

static uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return ((random_state >> 32) * limit) >> 32;
}

/* Pairs */

static __always_inline void each(struct lane *lane, tick_fn tick, pair_fn pair)
{
	struct wheel *wheel = lane->wheel;
	uint32_t at = lane->at, n = lane->n, *order = lane->order;

	for (unsigned int i = 0; i < PART / STEP; i++) {
		uint64_t expires_ns = tick(wheel) + DELAY_NS;

		for (unsigned int j = 0; j < STEP; j++) {
			pair(wheel, order[at], expires_ns);
			if (++at == n)
				at = 0;
		}
	}
	lane->at = at;
}

/* The loop alone */

static void arm_nothing(struct lane *lane)
{
	(void)lane;
}

static __always_inline uint64_t tick_nothing(struct wheel *wheel)
{
	(void)wheel;
	return 0;
}

static __always_inline void pair_nothing(struct wheel *wheel, uint32_t number, uint64_t expires_ns)
{
	(void)wheel;
	asm volatile("" : : "r" (number), "r" (expires_ns) : "memory");
}

static void part_nothing(struct lane *lane)
{
	each(lane, tick_nothing, pair_nothing);
}

/* Cells */

static void arm_cells(struct lane *lane)
{
	uint64_t expires_ns = clock_ns() + DELAY_NS;

	for (uint32_t i = 0; i < lane->n; i++)
		cells[lane->order[i]] = (struct twheel_cell){ .word = expires_ns };
}

static __always_inline uint64_t tick_cells(struct wheel *wheel)
{
	(void)wheel;
	return clock_ns();
}

static __always_inline void pair_cell(struct wheel *wheel, uint32_t number, uint64_t expires_ns)
{
	struct twheel_cell *cell = &cells[number];

	(void)wheel;
	if (unlikely(twheel_cell_cancel(cell) || twheel_cell_arm(NULL, cell, 0, expires_ns) < 0))
		fail("a cell was not armed");
}

static void part_cells(struct lane *lane)
{
	each(lane, tick_cells, pair_cell);
}

/* Another thread may have cancelled the cell. */
static __always_inline void pair_shared_cell(struct wheel *wheel, uint32_t number,
					     uint64_t expires_ns)
{
	struct twheel_cell *cell = &cells[number];

	(void)wheel;
	if (unlikely(twheel_cell_cancel(cell) > 0 ||
		     twheel_cell_arm(NULL, cell, 0, expires_ns) < 0))
		fail("a cell has fired");
}

static void part_shared_cells(struct lane *lane)
{
	each(lane, tick_cells, pair_shared_cell);
}

/* The wheel */

static void arm_wheel(struct lane *lane)
{
	uint64_t now = clock_ns();

	wheel_advance(lane->wheel, now);
	for (uint32_t i = 0; i < lane->n; i++) {
		struct wheel_node *node = &nodes[lane->order[i]];

		*node = (struct wheel_node){ 0 };
		wheel_arm(lane->wheel, node, now + DELAY_NS);
	}
}

static __always_inline uint64_t tick_wheel(struct wheel *wheel)
{
	uint64_t now = clock_ns();

	if (unlikely(now / WHEEL_TICK_NS > wheel->now))
		wheel_advance(wheel, now);
	return now;
}

static __always_inline void pair_node(struct wheel *wheel, uint32_t number, uint64_t expires_ns)
{
	struct wheel_node *node = &nodes[number];

	if (unlikely(!wheel_cancel(node)))
		fail("a node was not armed");
	wheel_arm(wheel, node, expires_ns);
}

static void part_wheel(struct lane *lane)
{
	each(lane, tick_wheel, pair_node);
}

/* The wheel with its lazy forms */

static void arm_lazily(struct lane *lane)
{
	uint64_t now = clock_ns();

	wheel_advance(lane->wheel, now);
	for (uint32_t i = 0; i < lane->n; i++) {
		struct wheel_node *node = &nodes[lane->order[i]];

		*node = (struct wheel_node){ 0 };
		wheel_arm_lazily(lane->wheel, node, now + DELAY_NS);
	}
}

static __always_inline void pair_lazily(struct wheel *wheel, uint32_t number, uint64_t expires_ns)
{
	struct wheel_node *node = &nodes[number];

	if (unlikely(!wheel_cancel_lazily(node)))
		fail("a node was not armed");
	/* keep the two stores apart: in a program, another function would arm */
	asm volatile("" : : : "memory");
	wheel_arm_lazily(wheel, node, expires_ns);
}

static void part_lazily(struct lane *lane)
{
	each(lane, tick_wheel, pair_lazily);
}

/* The wheel behind a mutex */

static __always_inline uint64_t tick_locked(struct wheel *wheel)
{
	uint64_t now = clock_ns();

	if (unlikely(now / WHEEL_TICK_NS > __atomic_load_n(&wheel->now, __ATOMIC_RELAXED))) {
		pthread_mutex_lock(&lock);
		wheel_advance(wheel, now);
		pthread_mutex_unlock(&lock);
	}
	return now;
}

static __always_inline void pair_locked(struct wheel *wheel, uint32_t number, uint64_t expires_ns)
{
	struct wheel_node *node = &nodes[number];
	bool armed;

	pthread_mutex_lock(&lock);
	armed = wheel_cancel(node);
	pthread_mutex_unlock(&lock);
	if (unlikely(!armed))
		fail("a node was not armed");
	pthread_mutex_lock(&lock);
	wheel_arm(wheel, node, expires_ns);
	pthread_mutex_unlock(&lock);
}

static void part_locked(struct lane *lane)
{
	each(lane, tick_locked, pair_locked);
}

static __always_inline void pair_lazily_locked(struct wheel *wheel, uint32_t number,
					       uint64_t expires_ns)
{
	struct wheel_node *node = &nodes[number];
	bool armed;

	pthread_mutex_lock(&lock);
	armed = wheel_cancel_lazily(node);
	pthread_mutex_unlock(&lock);
	if (unlikely(!armed))
		fail("a node was not armed");
	pthread_mutex_lock(&lock);
	wheel_arm_lazily(wheel, node, expires_ns);
	pthread_mutex_unlock(&lock);
}

static void part_lazily_locked(struct lane *lane)
{
	each(lane, tick_locked, pair_lazily_locked);
}

/* Runs */

static const struct system systems[] = {
	{ "loop", "", 1, false, false, arm_nothing, part_nothing },
	{ "twheel", "native_cell_pair", 1, false, false, arm_cells, part_cells },
	{ "wheel", "native_cell_pair", 1, false, false, arm_wheel, part_wheel },
	{ "wheel_lazy", "native_cell_pair", 1, false, false, arm_lazily, part_lazily },
	{ "wheel_mutex", "native_cell_pair", 1, false, false, arm_wheel, part_locked },
	{ "wheel_lazy_mutex", "native_cell_pair", 1, false, false, arm_lazily,
	  part_lazily_locked },
	{ "twheel", "native_cell_pair_2", 2, false, false, arm_cells, part_cells },
	{ "wheel", "native_cell_pair_2", 2, false, true, arm_wheel, part_wheel },
	{ "wheel_mutex", "native_cell_pair_2", 2, false, false, arm_wheel, part_locked },
	{ "wheel_lazy_mutex", "native_cell_pair_2", 2, false, false, arm_lazily,
	  part_lazily_locked },
	{ "twheel_shared", "native_cell_pair_2", 2, true, false, arm_cells, part_shared_cells },
};

#define NR_SYSTEMS	(sizeof(systems) / sizeof(*systems))

static void meet(unsigned int part)
{
	unsigned int spins = 0;

	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < (part + 1) * job->threads) {
		if (++spins % 1024 == 0)
			sched_yield();
	}
}

/* At least one step for each timeout. */
static void go_through(struct lane *lane)
{
	uint32_t *order = lane->order;

	lane->order = lane->before;
	for (uint32_t i = 0; i < lane->n; i += PART)
		job->part(lane);
	lane->order = order;
	lane->at = 0;
}

static void run_lane(struct lane *lane)
{
	go_through(lane);
	for (unsigned int i = 0; i < parts; i++) {
		if (job->threads > 1)
			meet(i);
		lane->begin[i] = clock_ns();
		job->part(lane);
		lane->end[i] = clock_ns();
	}
}

static void use_processor(unsigned int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processors[number], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static void *helper(void *unused)
{
	(void)unused;
	use_processor(1);
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (!job)
			return NULL;
		run_lane(&lanes[1]);
		pthread_barrier_wait(&barrier);
	}
}

static void shuffle(uint32_t *order, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = random_below(i + 1);

		order[i] = order[j];
		order[j] = first + i;
	}
}

/* Each system has the same numbers in another order. */
static void prepare(const struct system *system, uint32_t n)
{
	uint32_t share = system->shared ? n : n / system->threads;

	memset(wheels, 0, sizeof(wheels));
	for (unsigned int i = 0; i < system->threads; i++) {
		struct lane *lane = &lanes[i];
		uint32_t first = system->shared ? 0 : i * share;

		shuffle(lane->order, first, share);
		shuffle(lane->before, first, share);
		lane->n = share;
		lane->at = 0;
		lane->wheel = &wheels[system->wheels ? i : 0];
		system->arm(lane);
	}
	arrived = 0;
}

/*
 * Duration of a part from the first begin to the last end of all threads. Returns 0 if the
 * threads did not begin together: then they did not disturb each other, which would look
 * like a good result.
 */
static uint64_t duration(const struct system *system, unsigned int part)
{
	uint64_t first = lanes[0].begin[part], last = first, end = lanes[0].end[part];

	if (system->threads > 1) {
		uint64_t begin = lanes[1].begin[part];

		first = begin < first ? begin : first;
		last = begin > last ? begin : last;
		end = lanes[1].end[part] > end ? lanes[1].end[part] : end;
	}
	return (last - first) * 20 > end - first ? 0 : end - first;
}

/* Append the durations of the parts to @times. */
static void run(const struct system *system, uint32_t n, struct times *times)
{
	prepare(system, n);
	job = system;
	if (system->threads > 1)
		pthread_barrier_wait(&barrier);
	run_lane(&lanes[0]);
	if (system->threads > 1)
		pthread_barrier_wait(&barrier);
	if (wheels[0].fired || wheels[1].fired)
		fail("a timeout has fired: the machine was busy for seconds");
	for (unsigned int i = 0; i < parts; i++) {
		uint64_t took = duration(system, i);

		if (took)
			times->ns[times->nr++] = took;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds per pair; negative if there is no result. */
static double result(const struct system *system, struct times *times)
{
	if (!times->nr)
		return -1;
	qsort(times->ns, times->nr, sizeof(*times->ns), compare);
	return (double)times->ns[times->nr / 10] / PART / system->threads;
}

static void tell(const struct system *system, uint32_t n, double ns, double loop)
{
	bool in_page = n == PAGE_CELLS;

	if (ns < 0) {
		fprintf(stderr, "pairs: %s, %u: the threads never ran together\n", system->name, n);
		return;
	}
	printf("{\"system\": \"%s\", \"operation\": \"%s%s\", ", system->name,
	       system->operation, in_page ? "_page" : "");
	printf("\"n\": %u, \"value\": %.1f, \"unit\": \"ns\"}\n", n,
	       ns - loop / system->threads);
}

static void measure(uint32_t n, unsigned int repetitions, unsigned int nr_threads)
{
	struct times times[NR_SYSTEMS];
	double loop;

	parts = n > PART ? n / PART : 1;
	for (size_t i = 0; i < NR_SYSTEMS; i++)
		times[i] = (struct times){ .ns = array(repetitions, parts * sizeof(uint64_t)) };
	for (unsigned int r = 0; r < repetitions; r++) {
		for (size_t i = 0; i < NR_SYSTEMS; i++) {
			if (systems[i].threads <= nr_threads)
				run(&systems[i], n, &times[i]);
		}
	}
	loop = result(&systems[0], &times[0]);
	for (size_t i = 1; i < NR_SYSTEMS; i++) {
		if (systems[i].threads <= nr_threads)
			tell(&systems[i], n, result(&systems[i], &times[i]), loop);
	}
	for (size_t i = 0; i < NR_SYSTEMS; i++)
		free(times[i].ns);
}

struct kind {
	void	(*arm)(struct wheel *w, struct wheel_node *node, uint64_t expires_ns);
	bool	(*cancel)(struct wheel_node *node);
};

/* Up to half an hour ahead; half of the times are below 64 ms. */
static uint64_t random_ns(void)
{
	return random_below(1U << random_below(32)) * 1000ULL;
}

/* Check the wheel with random timeouts and jumps of the clock. */
static void check_wheel(const struct kind *kind)
{
	enum { NR = 2000, JUMPS = 300 };
	uint64_t ticks[NR] = { 0 }, now = NSEC_PER_SEC, due = 0;

	memset(wheels, 0, sizeof(wheels));
	memset(nodes, 0, NR * sizeof(*nodes));
	wheel_advance(wheels, now);
	for (int jump = 0; jump < JUMPS; jump++) {
		for (int i = 0; i < NR; i++) {
			struct wheel_node *node = &nodes[i];
			bool armed = ticks[i] > wheels->now;
			uint64_t expires_ns = now + random_ns();

			if (random_below(8))
				continue;
			if (kind->cancel(node) != armed)
				fail("the wheel has fired too early or too late");
			kind->arm(wheels, node, expires_ns);
			ticks[i] = wheel_place(wheels, wheel_tick(expires_ns));
		}
		now += random_ns();
		for (int i = 0; i < NR; i++) {
			if (ticks[i] > wheels->now && ticks[i] <= now / WHEEL_TICK_NS)
				due++;
		}
		wheel_advance(wheels, now);
		if (wheels->fired != due)
			fail("the wheel has fired too many or too few");
	}
}

/* Returns the number of processors, at most THREADS. */
static unsigned int find_processors(void)
{
	unsigned int nr = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("sched_getaffinity");
	for (unsigned int i = 0; i < CPU_SETSIZE && nr < THREADS; i++) {
		if (CPU_ISSET(i, &set))
			processors[nr++] = i;
	}
	return nr;
}

/* The second thread always exists: with a single thread, a mutex would use no atomics. */
static void start(unsigned int nr_threads, pthread_t *thread)
{
	if (nr_threads < THREADS) {
		fputs("pairs: one processor, so no two threads\n", stderr);
		processors[1] = processors[0];
	}
	use_processor(0);
	if (pthread_barrier_init(&barrier, NULL, THREADS) ||
	    pthread_create(thread, NULL, helper, NULL))
		fail("no thread");
}

/* How many more repetitions few timeouts get. */
static unsigned int factor(uint32_t n)
{
	return n > N_MAX / 200 ? N_MAX / n : 200;
}

int main(int argc, char **argv)
{
	unsigned int repetitions = argc > 2 ? atoi(argv[1]) : 0, nr_threads = find_processors();
	pthread_t thread;

	if (!repetitions) {
		fputs("pairs REPETITIONS N...\n", stderr);
		return 64;
	}
	cells = pages(N_MAX * sizeof(*cells));
	nodes = pages(N_MAX * sizeof(*nodes));
	for (unsigned int i = 0; i < THREADS; i++) {
		lanes[i].order = array(N_MAX, sizeof(*lanes->order));
		lanes[i].before = array(N_MAX, sizeof(*lanes->before));
		lanes[i].begin = array(N_MAX / PART + 1, sizeof(*lanes->begin));
		lanes[i].end = array(N_MAX / PART + 1, sizeof(*lanes->end));
	}
	check_wheel(&(struct kind){ wheel_arm, wheel_cancel });
	check_wheel(&(struct kind){ wheel_arm_lazily, wheel_cancel_lazily });
	start(nr_threads, &thread);
	for (int i = 2; i < argc; i++) {
		uint32_t n = atoi(argv[i]);

		if (n < THREADS || n > N_MAX)
			fail("N is from 2 to 1000000");
		measure(n, repetitions * factor(n), nr_threads);
	}
	measure(PAGE_CELLS, repetitions * factor(PAGE_CELLS), 1);
	job = NULL;
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	return 0;
}
