// SPDX-License-Identifier: GPL-2.0
/*
 * Time pairs of an arm and a cancel in user space: cells, and a wheel inside the process,
 * alone and behind a mutex, with one thread and with two. Time also cells of a context of the
 * library in the process.
 *
 * All N timeouts are armed all the time. A step takes the next one in random order, cancels
 * it, and arms it again for five seconds later. The program reads the clock once per STEP
 * timeouts, and then advances the wheel to the new time. Nothing fires.
 *
 * The cells are in ordinary memory, where no kernel looks at them, and their @look is 0, so
 * no arm makes a call. The result contains no work of the kernel. It does not contain the
 * wakeups either that a wheel in the process needs. Of the library, it contains a call that
 * advances the wheel once per tick, but no look: each comes five seconds after the last one.
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
#include <sys/mman.h>

#include "../../lib/libtwheel.h"
#include "../backends/node.h"
#include "../clock.h"
#include "../machine.h"

#define DELAY_NS	(5 * NSEC_PER_SEC)
#define STEP		64U
#define PART		4096U		/* divisible by STEP */
#define THREADS		2U
#define N_MAX		1000000U

/* Number of cells in a page. */
#define PAGE_CELLS	256U

#define unlikely(x)	__builtin_expect(!!(x), 0)

/**
 * struct thread_data - data of a thread
 * @order: numbers of its timeouts, in the order of the measured steps
 * @before: the same numbers, in the order of the steps before the measurement
 * @n: number of its timeouts
 * @at: index of the next timeout
 * @wheel: wheel of the thread
 * @begin: begin of each part
 * @end: end of each part
 */
struct thread_data {
	alignas(128) uint32_t *order;
	uint32_t	*before;
	uint32_t	n;
	uint32_t	at;
	struct wheel	*wheel;
	uint64_t	*begin;
	uint64_t	*end;
};

/* Kinds of timeouts; constant in each copy of the loop. */
enum {
	NOTHING	= 0,		/* the loop alone */
	CELLS	= 1,
	SHARED	= 2,		/* all threads use all cells: another may have cancelled one */
	WHEEL	= 4,
	LAZY	= 8,		/* with its lazy forms */
	LOCKED	= 16,		/* behind a mutex */
	PROCESS	= 32,		/* the cells are of a wheel in the process */
};

/**
 * struct system - a competitor
 * @name: name in the result
 * @operation: operation in the result
 * @threads: number of threads
 * @kind: its timeouts. Of several threads, each has its share of them unless they are SHARED, and
 *	a wheel of its own unless that is LOCKED
 */
struct system {
	const char	*name;
	const char	*operation;
	unsigned int	threads;
	unsigned int	kind;
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

static struct twheel_cell *cells;
static struct twheel_ctx *process;
static struct twheel_cell *process_cells[(N_MAX + PAGE_CELLS - 1) / PAGE_CELLS];
static uint64_t process_tick;
static struct node *nodes;
static alignas(128) struct wheel wheels[THREADS];
static alignas(128) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t nr_fired;

static struct thread_data thread_data[THREADS];
static const struct system *current_system;	/* of the threads; NULL: end */
static unsigned int parts;
static unsigned int processors[THREADS];
static pthread_barrier_t barrier;
static alignas(128) unsigned int arrived;

/* Pages of the base size, as the device has. */
static void *alloc_pages(size_t size)
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

static __always_inline void lock_if(unsigned int kind)
{
	if (kind & LOCKED)
		pthread_mutex_lock(&lock);
}

static __always_inline void unlock_if(unsigned int kind)
{
	if (kind & LOCKED)
		pthread_mutex_unlock(&lock);
}

static void count_fired(struct node *node)
{
	(void)node;
	nr_fired++;
}

/* Returns the time, to which it has advanced the wheel. */
static __always_inline uint64_t advance_time(unsigned int kind, struct wheel *wheel)
{
	uint64_t now = kind == NOTHING ? 0 : clock_ns();

	if (kind & PROCESS && unlikely(now / TICK_NS > process_tick)) {
		struct twheel_event event;

		process_tick = now / TICK_NS;
		if (twheel_read(process, &event, 1, TWHEEL_NO_WAIT) >= 0)
			nr_fired++;
	}
	if (kind & WHEEL &&
	    unlikely(now / TICK_NS > __atomic_load_n(&wheel->cursor, __ATOMIC_RELAXED))) {
		lock_if(kind);
		nodes_advance(wheel, now, count_fired);
		unlock_if(kind);
	}
	return now;
}

static __always_inline void arm_node(unsigned int kind, struct wheel *wheel, uint32_t number,
				     uint64_t expires_ns)
{
	if (kind & LAZY)
		node_arm_lazily(wheel, &nodes[number], expires_ns);
	else
		node_arm(wheel, &nodes[number], expires_ns);
}

/* Returns false if it was not armed. */
static __always_inline bool cancel_node(unsigned int kind, struct wheel *wheel, uint32_t number)
{
	return kind & LAZY ? node_cancel_lazily(&nodes[number]) :
			     node_cancel(wheel, &nodes[number]);
}

static __always_inline void pair_node(unsigned int kind, struct wheel *wheel, uint32_t number,
				      uint64_t expires_ns)
{
	bool armed;

	lock_if(kind);
	armed = cancel_node(kind, wheel, number);
	unlock_if(kind);
	if (unlikely(!armed))
		fail("a node was not armed");
	/* keep the two stores apart: in a program, another function would arm */
	if (kind & LAZY)
		asm volatile("" : : : "memory");
	lock_if(kind);
	arm_node(kind, wheel, number, expires_ns);
	unlock_if(kind);
}

/* The context is new, so all generations are 1. */
static __always_inline uint64_t id_of(uint32_t number)
{
	return 1ULL << 32 | number;
}

static __always_inline void pair_cell(unsigned int kind, uint32_t number, uint64_t expires_ns)
{
	struct twheel_cell *cell = kind & PROCESS ?
		&process_cells[number / PAGE_CELLS][number % PAGE_CELLS] : &cells[number];
	int was = twheel_cell_cancel(cell);

	if (unlikely((kind & SHARED ? was == TWHEEL_WITHDRAWN : was) ||
		     twheel_cell_arm(process, cell, id_of(number), expires_ns) < 0))
		fail("a cell was not armed");
}

static void make_process_cell(uint32_t number, uint64_t expires_ns)
{
	struct twheel_cell *cell;
	uint64_t id;

	check(twheel_cell_create(process, 0, &id, &cell), "process: create");
	check(twheel_cell_arm(process, cell, id, expires_ns), "process: arm");
	if (id != id_of(number))
		fail("process: id");
	if (number % PAGE_CELLS == 0)
		process_cells[number / PAGE_CELLS] = cell;
}

static __always_inline void run_pairs(struct thread_data *data, unsigned int kind)
{
	struct wheel *wheel = data->wheel;
	uint32_t at = data->at, n = data->n, *order = data->order;

	for (unsigned int i = 0; i < PART / STEP; i++) {
		uint64_t expires_ns = advance_time(kind, wheel) + DELAY_NS;

		for (unsigned int j = 0; j < STEP; j++) {
			if (kind & CELLS)
				pair_cell(kind, order[at], expires_ns);
			else if (kind & WHEEL)
				pair_node(kind, wheel, order[at], expires_ns);
			else
				asm volatile("" : : "r" (order[at]), "r" (expires_ns) : "memory");
			if (++at == n)
				at = 0;
		}
	}
	data->at = at;
}

static void arm_all(struct thread_data *data, unsigned int kind)
{
	uint64_t expires_ns = advance_time(kind, data->wheel) + DELAY_NS;

	for (uint32_t i = 0; kind & PROCESS && i < data->n; i++)
		make_process_cell(i, expires_ns);
	for (uint32_t i = 0; i < data->n; i++) {
		uint32_t number = data->order[i];

		if (kind & CELLS)
			cells[number] = (struct twheel_cell){ .word = expires_ns };
		if (!(kind & WHEEL))
			continue;
		nodes[number] = (struct node){ 0 };
		arm_node(kind, data->wheel, number, expires_ns);
	}
}

/* Make PART pairs of a thread. */
static void run_part(struct thread_data *data)
{
	switch (current_system->kind) {
	case NOTHING:
		run_pairs(data, NOTHING);
		break;
	case CELLS:
		run_pairs(data, CELLS);
		break;
	case CELLS | PROCESS:
		run_pairs(data, CELLS | PROCESS);
		break;
	case CELLS | SHARED:
		run_pairs(data, CELLS | SHARED);
		break;
	case WHEEL:
		run_pairs(data, WHEEL);
		break;
	case WHEEL | LAZY:
		run_pairs(data, WHEEL | LAZY);
		break;
	case WHEEL | LOCKED:
		run_pairs(data, WHEEL | LOCKED);
		break;
	case WHEEL | LAZY | LOCKED:
		run_pairs(data, WHEEL | LAZY | LOCKED);
		break;
	}
}

/* Runs */

static const struct system systems[] = {
	{ "loop", "", 1, NOTHING },
	{ "twheel", "native_cell_pair", 1, CELLS },
	{ "process", "native_cell_pair", 1, CELLS | PROCESS },
	{ "wheel", "native_cell_pair", 1, WHEEL },
	{ "wheel_lazy", "native_cell_pair", 1, WHEEL | LAZY },
	{ "wheel_mutex", "native_cell_pair", 1, WHEEL | LOCKED },
	{ "wheel_lazy_mutex", "native_cell_pair", 1, WHEEL | LAZY | LOCKED },
	{ "twheel", "native_cell_pair_2", 2, CELLS },
	{ "wheel", "native_cell_pair_2", 2, WHEEL },
	{ "wheel_mutex", "native_cell_pair_2", 2, WHEEL | LOCKED },
	{ "wheel_lazy_mutex", "native_cell_pair_2", 2, WHEEL | LAZY | LOCKED },
	{ "twheel_shared", "native_cell_pair_2", 2, CELLS | SHARED },
};

#define NR_SYSTEMS	(sizeof(systems) / sizeof(*systems))

static void wait_for_other_thread(unsigned int part)
{
	unsigned int spins = 0;

	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < (part + 1) * current_system->threads) {
		if (++spins % 1024 == 0)
			sched_yield();
	}
}

/* At least one step for each timeout. */
static void warm_up(struct thread_data *data)
{
	uint32_t *order = data->order;

	data->order = data->before;
	for (uint32_t i = 0; i < data->n; i += PART)
		run_part(data);
	data->order = order;
	data->at = 0;
}

static void run_parts(struct thread_data *data)
{
	warm_up(data);
	for (unsigned int i = 0; i < parts; i++) {
		if (current_system->threads > 1)
			wait_for_other_thread(i);
		data->begin[i] = clock_ns();
		run_part(data);
		data->end[i] = clock_ns();
	}
}

static void *second_thread(void *unused)
{
	(void)unused;
	bind_to_cpu(processors[1]);
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (!current_system)
			return NULL;
		run_parts(&thread_data[1]);
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
	bool shared = system->kind & SHARED;
	uint32_t share = shared ? n : n / system->threads;

	if (system->kind & PROCESS)
		check(twheel_open(NULL, TWHEEL_PROCESS, &process), "process");
	for (unsigned int i = 0; i < system->threads; i++) {
		struct thread_data *data = &thread_data[i];
		uint32_t first = shared ? 0 : i * share;

		shuffle(data->order, first, share);
		shuffle(data->before, first, share);
		data->n = share;
		data->at = 0;
		data->wheel = &wheels[system->kind & LOCKED ? 0 : i];
		if (data->wheel == &wheels[i])
			wheel_init(data->wheel);
		arm_all(data, system->kind);
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
	uint64_t first = thread_data[0].begin[part], last = first, end = thread_data[0].end[part];

	if (system->threads > 1) {
		uint64_t begin = thread_data[1].begin[part];

		first = begin < first ? begin : first;
		last = begin > last ? begin : last;
		end = thread_data[1].end[part] > end ? thread_data[1].end[part] : end;
	}
	return (last - first) * 20 > end - first ? 0 : end - first;
}

/* Append the durations of the parts to @times. */
static void run(const struct system *system, uint32_t n, struct times *times)
{
	prepare(system, n);
	current_system = system;
	if (system->threads > 1)
		pthread_barrier_wait(&barrier);
	run_parts(&thread_data[0]);
	if (system->threads > 1)
		pthread_barrier_wait(&barrier);
	twheel_close(process);
	process = NULL;
	if (nr_fired)
		fail("a timeout has fired: the machine was busy for seconds");
	for (unsigned int i = 0; i < parts; i++) {
		uint64_t took = duration(system, i);

		if (took)
			times->ns[times->nr++] = took;
	}
}

/* Nanoseconds per pair; negative if there is no result. */
static double result(const struct system *system, struct times *times)
{
	if (!times->nr)
		return -1;
	sort(times->ns, times->nr);
	return (double)times->ns[times->nr / 10] / PART / system->threads;
}

static void report(const struct system *system, uint32_t n, double ns, double loop)
{
	if (ns < 0) {
		fprintf(stderr, "pairs: %s, %u: the threads never ran together\n", system->name, n);
		return;
	}
	print_result(system->name, system->operation, n, ns - loop / system->threads, "ns");
}

static void measure(uint32_t n, unsigned int repetitions, unsigned int nr_threads)
{
	struct times times[NR_SYSTEMS] = { 0 };
	double loop;

	parts = n > PART ? n / PART : 1;
	for (size_t i = 0; i < NR_SYSTEMS; i++)
		times[i].ns = zeroed_array(repetitions, parts * sizeof(uint64_t));
	for (unsigned int r = 0; r < repetitions; r++) {
		for (size_t i = 0; i < NR_SYSTEMS; i++) {
			if (systems[i].threads <= nr_threads)
				run(&systems[i], n, &times[i]);
		}
	}
	loop = result(&systems[0], &times[0]);
	for (size_t i = 1; i < NR_SYSTEMS; i++) {
		if (systems[i].threads <= nr_threads)
			report(&systems[i], n, result(&systems[i], &times[i]), loop);
	}
	for (size_t i = 0; i < NR_SYSTEMS; i++)
		free(times[i].ns);
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
static void start_thread(unsigned int nr_threads, pthread_t *thread)
{
	if (nr_threads < THREADS) {
		fputs("pairs: one processor, so no two threads\n", stderr);
		processors[1] = processors[0];
	}
	bind_to_cpu(processors[0]);
	if (pthread_barrier_init(&barrier, NULL, THREADS) ||
	    pthread_create(thread, NULL, second_thread, NULL))
		fail("no thread");
}

/* How many more repetitions few timeouts get. */
static unsigned int repetition_factor(uint32_t n)
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
	cells = alloc_pages(N_MAX * sizeof(*cells));
	nodes = alloc_pages(N_MAX * sizeof(*nodes));
	for (unsigned int i = 0; i < THREADS; i++) {
		thread_data[i].order = zeroed_array(N_MAX, sizeof(*thread_data->order));
		thread_data[i].before = zeroed_array(N_MAX, sizeof(*thread_data->before));
		thread_data[i].begin = zeroed_array(N_MAX / PART + 1, sizeof(*thread_data->begin));
		thread_data[i].end = zeroed_array(N_MAX / PART + 1, sizeof(*thread_data->end));
	}
	start_thread(nr_threads, &thread);
	for (int i = 2; i < argc; i++) {
		uint32_t n = atoi(argv[i]);

		if (n < THREADS || n > N_MAX)
			fail("N is from 2 to 1000000");
		measure(n, repetitions * repetition_factor(n), nr_threads);
	}
	current_system = NULL;
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	return 0;
}
