// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * The wheel in the process: what /dev/twheel does, without the module.
 *
 * There is no thread and no signal. A context has a hierarchical wheel, a queue of unread events,
 * a mutex and a timerfd. A call reads the clock and first moves what is due from the wheel to the
 * queue. A CANCEL alone does not, because the clock costs as much as the rest of it. So a timeout
 * that nobody asks for is late by any time, but it is never early.
 *
 *
 * Descriptor
 *
 * The timerfd is the descriptor that programs poll. Before a call drops the mutex, it makes it
 * readable if an event is unread, or if a step of the wheel is due: its time may be far away again
 * when the clock is set back. Otherwise, it sets it to the next step, which can be a cascade or a
 * look at a cell: the program wakes, finds no event, which the contract allows, and calls again.
 *
 * To set it is a system call, nearly the only one here. It is left out if the descriptor is
 * readable as it should be, or if it will be earlier than it need be: a wakeup too many is cheaper
 * than a call for each timeout that is cancelled. It is never left out if the descriptor would be
 * readable too late, or for ever.
 *
 *
 * Wheel
 *
 * A tick is a multiple of tick_ns on the clock. A deadline is rounded up to a tick, the time is
 * rounded down: never early. Timeouts fire in the order of their ticks, and those of one tick in
 * the order of arming.
 *
 * If the clock has been set back, all timeouts are placed anew. The timerfd follows the clock by
 * itself. An order holds only while the clock is not set back.
 *
 *
 * States of a timeout
 *
 *	PENDING		in the wheel
 *	PARKED		a cell that is in no list: nobody looks at its word until a call
 *	READY		on the queue of events
 *
 *	FREE -> PENDING		ARM; of a cell with a deadline
 *	FREE -> PARKED		ARM of an idle cell
 *	PENDING -> READY	it is due; STOP, also of a PARKED cell with a deadline
 *	READY -> PENDING	read() of a periodic timeout; MOD; KICK of a cell armed meanwhile
 *	PENDING <-> PARKED	a look at an idle cell; MOD, KICK
 *	READY -> PARKED		read() of a cell; MOD, KICK: its event was withdrawn
 *	any -> FREE		CANCEL; read() of the last event; STOP of an idle cell
 *
 *
 * Cells
 *
 * The protocol and its barriers are those of the device, see dev/cells.c; the users' functions are
 * the same. The kernel's side is here, with the mutex held, and all accesses are sequentially
 * consistent. A cell that is not PENDING has look == ~0. One that is has look >= @expires, the time
 * for which it is in the wheel, except for a moment in a call. On CLOCK_REALTIME the clock is read
 * after the word: it may be set back before the word is written.
 *
 *
 * Locking
 *
 * The mutex protects all but words, looks, and the members that are accessed atomically. No call
 * holds it while it blocks, but make_readable() on kernels without the ioctl, for an interrupt.
 *
 * A KICK may come from a signal handler, and the thread below may hold the mutex. So KICK pushes
 * the cell on @kicked, and only tries to lock. A holder empties @kicked before it unlocks, and once
 * more afterwards if it is not empty and it can lock:
 *
 *	handler, or another thread		holder
 *
 *	push on @kicked				unlock
 *	trylock fails				load @kicked
 *
 * Push and load, unlock and trylock are on one order: if the trylock fails, the holder had not
 * unlocked, and its load sees the push. Whether the KICK would fail is tested without the mutex,
 * with an id and flags. It tests @stopped after its push; STOP sets @stopped, and then loads words
 * and @in_kicked. So STOP has seen the push of a KICK that succeeds.
 *
 *
 * Lifetime
 *
 * Timeouts lie in chunks that double in size, so they do not move, an index finds them, and no
 * call but a growing ARM allocates. Ended ones are used again, with the next generation in the id.
 * All memory goes with the context.
 *
 * fork() copies the wheel, but shares the timerfd. A child that set it would cost its parent a
 * wakeup. So each call tests a page that is zero in a child (MADV_WIPEONFORK), or else the pid, and
 * fails there before it locks: another thread may have held the mutex during the fork. close()
 * works in both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "wheel.h"

/* The contract needs these accesses to words that others change. */
#ifdef TWHEEL_HAS_CELLS
#define CELL_FLAG			TWHEEL_F_CELL
#define twc_load(word)			__atomic_load_n(word, __ATOMIC_SEQ_CST)
#define twc_store(look, t)		__atomic_store_n(look, t, __ATOMIC_SEQ_CST)
#define twc_exchange(word, new)		__atomic_exchange_n(word, new, __ATOMIC_SEQ_CST)
#define twc_replace(word, old, new)	\
	__atomic_compare_exchange_n(word, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#else
/* Without the flag no timeout becomes a cell. */
#define CELL_FLAG			0
#define twc_load(word)			(*(word))
#define twc_store(look, t)		(*(look) = (t))
#define twc_exchange(word, new)		(*(word) = (new))
#define twc_replace(word, old, new)	(*(word) == *(old))
#endif

#include "../../include/twheel_contract.h"

#define NSEC_PER_SEC	1000000000ULL
#define PAST		1		/* the timerfd is readable */
#define UNKNOWN		0		/* it may have expired, or may be set to any time */
#define MAX_INTERRUPT_MS	100	/* between two interrupts of a clock, and a stall */

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS	_IOW('T', 0, __u64)
#endif

#define DEFAULT_TICK	1000000ULL
#define DEFAULT_MAX	1048576U

/* Chunk k has FIRST_CHUNK << k timeouts and cells. */
#define FIRST_CHUNK	1024U
#define MAX_CHUNKS	19
#define CELLS_PER_PAGE	256U

#define LOCKED_STEPS	256U		/* steps of a call with the mutex held */

#define F_FREE		(1U << 31)	/* of a FREE timeout: its next id is not given out */
#define OP_FLAGS	(TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_EXACT | CELL_FLAG)
#define SETUP_FLAGS	(TWHEEL_SETUP_CLOCK | TWHEEL_SETUP_MANUAL)

enum state { FREE, PENDING, PARKED, READY };

/* A timeout. Members with a star are accessed without the mutex, too, in push_kick(). */
struct timeout {
	struct wheel_node node;		/* PENDING: in a slot; READY: on the queue; FREE: @next */
	uint32_t	index;
	uint32_t	generation;	/* * FREE: the next one */
	uint64_t	expires;	/* deadline; cell: PENDING: next look; READY: its word */
	uint64_t	fired;		/* READY: when it fired, or was stopped */
	uint64_t	interval;	/* 0: one-shot */
	uint64_t	ahead;		/* cell: how far the deadline was at the last call */
	uint64_t	cookie;
	struct timeout	*kicked;	/* * next on the list of cells with a KICK */
	int		in_kicked;	/* * it is on that list, or about to be */
	uint32_t	repeat;		/* deadlines not read yet; 0: no end */
	uint32_t	slack_us;
	uint32_t	flags;		/* * TWHEEL_F_CELL, TWHEEL_F_FIXED_DELAY; F_FREE */
	uint8_t		state;
	bool		unprocessed;	/* READY: made so by STOP */
};

/* A context. Members with a star are accessed without the mutex, too. */
struct twheel_process {
	pthread_mutex_t	lock;		/* protects all members, see "Locking" */
	int		*owner_page;	/* * in a page that is zero in a child; NULL: @pid tells */
	pid_t		pid;		/* * of the process that may call */
	int		fd;		/* the timerfd */
	clockid_t	clock;
	bool		begun;		/* SETUP is no longer possible */
	bool		manual;		/* @time is the clock */
	bool		stopped;	/* * STOP has been called */
	uint64_t	stop_ns;
	__aligned_u64	time;		/* * of the manual clock */
	uint64_t	now;		/* time of the current call */
	uint64_t	programmed;	/* when the timerfd expires; PAST, UNKNOWN, WHEEL_NEVER */
	uint64_t	tick_ns;
	uint64_t	reciprocal;	/* of @tick_ns, times 2^64, rounded down */
	struct wheel	wheel;
	struct link	ready;		/* unread events, circular */
	struct timeout	*kicked;	/* * cells with a KICK, the last one first */
	unsigned long	kicks;		/* * their number so far */
	unsigned int	waiting;	/* * threads that wait for @lock */
	struct link	*free;		/* FREE timeouts, the last one first */
	uint32_t	nr;		/* * indices that are used, or were */
	uint32_t	nr_allocated;	/* timeouts in all chunks */
	uint32_t	max;		/* limit of live ones */
	uint32_t	slack_us;	/* of timeouts that name none */
	uint64_t	refused;	/* at @max */
	struct twheel_stats counts;	/* @armed and @kicks are not used */
	struct timeout	*timeouts[MAX_CHUNKS];
	struct twheel_cell *cells[MAX_CHUNKS];
};

/* Time */

uint64_t twheel_process_now(const struct twheel_process *p)
{
	struct timespec ts;

	if (p->manual)
		return twc_load(&p->time);
	clock_gettime(p->clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* A multiplication where the compiler has one of 64 bits by 64: the quotient may be 1 too small. */
static uint64_t tick_floor(const struct twheel_process *p, uint64_t ns)
{
#ifdef __SIZEOF_INT128__
	uint64_t tick = (unsigned __int128)ns * p->reciprocal >> 64;

	return tick + (ns - tick * p->tick_ns >= p->tick_ns);
#else
	return ns / p->tick_ns;
#endif
}

static uint64_t tick_ceil(const struct twheel_process *p, uint64_t ns)
{
	uint64_t tick = tick_floor(p, ns);

	return tick + (tick * p->tick_ns != ns);
}

/* The tick from @lo to @hi that other timeouts with slack are most likely to have. */
static uint64_t round_tick(uint64_t lo, uint64_t hi)
{
	uint64_t low;

	if (lo >= hi)
		return lo;
	/* The bits below the highest one that differs, 0 in lo and 1 in hi. */
	low = (1ULL << (63 - __builtin_clzll(lo ^ hi))) - 1;
	return lo & (low << 1 | 1) ? hi & ~low : lo;
}

/* The wheel */

static struct timeout *timeout_of(struct link *link)
{
	return (struct timeout *)link;
}

static uint64_t id_of(const struct timeout *t)
{
	return (uint64_t)t->generation << 32 | t->index;
}

static void enqueue(struct twheel_process *p, struct timeout *t, uint64_t expires)
{
	t->state = PENDING;
	t->expires = expires;
	t->node.tick = tick_ceil(p, expires);
	if (t->slack_us) {
		expires = twc_add_ns(expires, t->slack_us * 1000ULL);
		t->node.tick = round_tick(t->node.tick, tick_floor(p, expires));
	}
	wheel_enqueue(&p->wheel, &t->node);
}

/* The queue */

static void make_ready(struct twheel_process *p, struct timeout *t, uint64_t fired)
{
	t->state = READY;
	t->fired = fired;
	list_add_tail(&p->ready, &t->node.link);
	p->counts.ready++;
}

static void unready(struct twheel_process *p, struct timeout *t)
{
	list_del(&t->node.link);
	p->counts.ready--;
}

static void fire(struct twheel_process *p, struct timeout *t, uint64_t now)
{
	uint64_t late = now > t->expires ? now - t->expires : 0;
	unsigned int bucket = late ? 64 - __builtin_clzll(late) : 0;

	t->unprocessed = false;
	make_ready(p, t, now);
	p->counts.fired++;
	p->counts.lateness[bucket < TWHEEL_LATENESS ? bucket : TWHEEL_LATENESS - 1]++;
}

/* The next generation, unless all are used up: then the index is lost. */
static void free_timeout(struct twheel_process *p, struct timeout *t)
{
	t->state = FREE;
	p->counts.live--;
	__atomic_store_n(&t->flags, F_FREE, __ATOMIC_RELAXED);
	__atomic_store_n(&t->generation, t->generation + 1, __ATOMIC_RELAXED);
	if (t->generation) {
		t->node.link.next = p->free;
		p->free = &t->node.link;
	}
}

/* Memory */

static unsigned int chunk_of(uint32_t index)
{
	return 31 - __builtin_clz(index / FIRST_CHUNK + 1);
}

static uint32_t offset_of(uint32_t index)
{
	return index + FIRST_CHUNK - (FIRST_CHUNK << chunk_of(index));
}

static struct timeout *timeout_at(const struct twheel_process *p, uint32_t index)
{
	return &p->timeouts[chunk_of(index)][offset_of(index)];
}

static struct twheel_cell *cell_at(const struct twheel_process *p, uint32_t index)
{
	return &p->cells[chunk_of(index)][offset_of(index)];
}

/* The timeout with @id, or NULL. */
static struct timeout *find_timeout(const struct twheel_process *p, uint64_t id)
{
	struct timeout *t;

	if ((uint32_t)id >= p->nr)
		return NULL;
	t = timeout_at(p, id);
	return t->generation == id >> 32 && t->state != FREE ? t : NULL;
}

static int add_chunk(struct twheel_process *p)
{
	unsigned int chunk = chunk_of(p->nr_allocated);
	size_t nr = FIRST_CHUNK << chunk;

	if (chunk == MAX_CHUNKS)
		return -EAGAIN;
	/* An earlier try may have got one of both. */
	if (!p->timeouts[chunk])
		p->timeouts[chunk] = calloc(nr, sizeof(*p->timeouts[chunk]));
	if (!p->cells[chunk])
		p->cells[chunk] = aligned_alloc(64, nr * sizeof(*p->cells[chunk]));
	if (!p->timeouts[chunk] || !p->cells[chunk])
		return -ENOMEM;
	p->nr_allocated += nr;
	return 0;
}

/* Take a FREE timeout, which becomes live. Sets @ret to the error if there is none. */
static struct timeout *alloc_timeout(struct twheel_process *p, int *ret)
{
	struct timeout *t;

	*ret = 0;
	if (p->free) {
		t = timeout_of(p->free);
		p->free = t->node.link.next;
	} else {
		if (p->nr == p->nr_allocated)
			*ret = add_chunk(p);
		if (*ret)
			return NULL;
		t = timeout_at(p, p->nr);
		t->index = p->nr;
		t->generation = 1;
		*cell_at(p, p->nr) = (struct twheel_cell){ TWHEEL_CELL_IDLE, TWC_NO_LOOK };
		/* Pairs with the acquire in push_kick(): chunk and id are there. */
		__atomic_store_n(&p->nr, p->nr + 1, __ATOMIC_RELEASE);
	}
	p->counts.live++;
	return t;
}

/* Cells */

static bool is_cell(const struct timeout *t)
{
	return t->flags & TWHEEL_F_CELL;
}

/* Look at the cell at @time, or at an earlier deadline whose user may not have seen this. */
static void publish(struct twheel_process *p, struct timeout *t, uint64_t time)
{
	time = twc_publish(cell_at(p, t->index), time);
	if (time == TWC_NO_LOOK)
		t->state = PARKED;
	else
		enqueue(p, t, time);
}

/* Look at a cell for which it is time. It is in no list. */
static void look(struct twheel_process *p, struct timeout *t)
{
	struct twheel_cell *cell = cell_at(p, t->index);
	__u64 word = twc_load(&cell->word);
	uint64_t now = p->now;

	p->counts.looks++;
	if (p->clock == CLOCK_REALTIME) {
		now = twheel_process_now(p);
		if (now < p->now)
			p->now = now;
	}
	if (twc_fire(cell, &word, now, 0)) {
		t->expires = word;
		fire(p, t, now);
	} else {
		publish(p, t, twc_next_look(cell, word, now, t->ahead, 0));
	}
}

/* Take up @word, written or found. If idle, it only gives a PENDING cell's look its new slack. */
static void take_up(struct twheel_process *p, struct timeout *t, uint64_t word)
{
	bool pending = t->state == PENDING;

	if (pending)
		wheel_dequeue(&p->wheel, &t->node);
	if (twc_is_deadline(word)) {
		t->ahead = twc_ahead(word, p->now);
		publish(p, t, word);
	} else if (pending) {
		enqueue(p, t, t->expires);
	}
}

/* Withdraw the event of a READY cell, which stays live. @word is what the call has found. */
static void withdraw_event(struct twheel_process *p, struct timeout *t, uint64_t word)
{
	p->counts.dropped += word != TWHEEL_CELL_FIRED;
	unready(p, t);
	t->state = PARKED;
	t->ahead = 0;
}

static void kick(struct twheel_process *p, struct timeout *t)
{
	uint64_t word = twc_load(&cell_at(p, t->index)->word);

	if (t->state == READY) {
		if (word == TWHEEL_CELL_FIRED)
			return;
		withdraw_event(p, t, word);
	}
	if (twc_kick_moves(word, t->state == PENDING, t->expires, 0))
		take_up(p, t, word);
}

static int mod_cell(struct twheel_process *p, struct timeout *t, uint64_t word)
{
	uint64_t old = twc_exchange(&cell_at(p, t->index)->word, word);
	int ret = twc_outcome(t->state == READY, old);

	if (t->state == READY)
		withdraw_event(p, t, old);
	take_up(p, t, word);
	return ret;
}

/* Calls: begin and end */

/* Place all timeouts anew: the clock has been set back to @tick. */
static void rewind_to(struct twheel_process *p, uint64_t tick)
{
	struct link list;

	p->wheel.cursor = tick;
	p->wheel.step = WHEEL_NEVER;
	p->programmed = UNKNOWN;
	memset(p->wheel.map, 0, sizeof(p->wheel.map));
	/* A timeout that is moved to a later slot is moved twice, which does no harm. */
	for (unsigned int i = 0; i < WHEEL_SLOTS; i++) {
		list_move_all(&p->wheel.slot[i], &list);
		for (struct link *link = list.next, *next; link != &list; link = next) {
			next = link->next;
			enqueue(p, timeout_of(link), timeout_of(link)->expires);
		}
	}
}

/* Move what is due to the queue. A look can set @now back. */
static void catch_up(struct twheel_process *p)
{
	uint64_t now = twheel_process_now(p), tick = tick_floor(p, now);
	struct link list, *link, *next;
	int level;

	p->now = now;
	if (tick < p->wheel.cursor)
		rewind_to(p, tick);
	while ((level = wheel_take_step(&p->wheel, tick, &list)) >= 0) {
		for (link = list.next; link != &list; link = next) {
			next = link->next;
			if (level)
				wheel_enqueue(&p->wheel, wheel_node_of(link));
			else if (is_cell(timeout_of(link)))
				look(p, timeout_of(link));
			else
				fire(p, timeout_of(link), now);
		}
		tick = tick_floor(p, p->now);
	}
}

/*
 * Before another thread sees the event. A timerfd that is set to the past expires with the next
 * interrupt of the clock; that is for kernels and sandboxes without the ioctl.
 */
static void make_readable(struct twheel_process *p)
{
	const struct itimerspec past = { .it_value.tv_nsec = PAST };
	struct pollfd pollfd = { .fd = p->fd, .events = POLLIN };
	__u64 ticks = 1;
	int state;

	p->programmed = PAST;
	if (!ioctl(p->fd, TFD_IOC_SET_TICKS, &ticks))
		return;
	timerfd_settime(p->fd, TFD_TIMER_ABSTIME, &past, NULL);
	/* poll() would let the thread be cancelled, with the mutex held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (poll(&pollfd, 1, MAX_INTERRUPT_MS) < 0 && errno == EINTR)
		;
	pthread_setcancelstate(state, NULL);
}

/*
 * Set the timerfd, see "Descriptor". If @now is that of an earlier call, it may not be known that
 * the timerfd has expired. Then the program wakes once too often.
 */
static void set_timerfd(struct twheel_process *p)
{
	struct itimerspec at = { 0 };
	uint64_t step = p->wheel.step, ns = WHEEL_NEVER;

	if (p->counts.ready || p->stopped || step <= p->wheel.cursor) {
		if (p->programmed != PAST)
			make_readable(p);
		return;
	}
	if (!p->manual && step != WHEEL_NEVER)
		ns = step < INT64_MAX / p->tick_ns ? step * p->tick_ns : INT64_MAX;
	/* A manual clock may be at 0. */
	if (p->programmed <= ns && p->programmed > PAST && p->programmed > p->now)
		return;
	if (ns != WHEEL_NEVER) {
		at.it_value.tv_sec = ns / NSEC_PER_SEC;
		/* Too early, on 32 bits, is a wakeup too many. */
		if ((uint64_t)at.it_value.tv_sec != ns / NSEC_PER_SEC)
			at.it_value.tv_sec = INT32_MAX;
		at.it_value.tv_nsec = ns % NSEC_PER_SEC;
	}
	timerfd_settime(p->fd, TFD_TIMER_ABSTIME, &at, NULL);
	p->programmed = ns;
}

/* A caller waits. The timerfd may have expired before CLOCK_REALTIME was set back. */
static void distrust_timerfd(struct twheel_process *p)
{
	if (p->clock == CLOCK_REALTIME && !p->counts.ready)
		p->programmed = UNKNOWN;
}

static void run_kicks(struct twheel_process *p)
{
	struct timeout *t = twc_exchange(&p->kicked, NULL), *next;

	for (; t; t = next) {
		next = t->kicked;
		/* Before its word is read: a KICK from now on is another one. */
		twc_store(&t->in_kicked, 0);
		if (is_cell(t) && !p->stopped)
			kick(p, t);
	}
}

/* False in a child: a call of fork() has cleared the page. */
static bool is_owner(const struct twheel_process *p)
{
	return p->owner_page ? __atomic_load_n(p->owner_page, __ATOMIC_RELAXED) :
			       p->pid == getpid();
}

static void lock(struct twheel_process *p)
{
	if (!pthread_mutex_trylock(&p->lock))
		return;
	__atomic_fetch_add(&p->waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&p->lock);
	__atomic_fetch_sub(&p->waiting, 1, __ATOMIC_RELAXED);
}

/* Begin a call. Returns 0 with the mutex held, or -EOPNOTSUPP. */
static int enter_call(struct twheel_process *p)
{
	if (!is_owner(p))
		return -EOPNOTSUPP;
	lock(p);
	return 0;
}

static void leave_call(struct twheel_process *p)
{
	do {
		if (__atomic_load_n(&p->kicked, __ATOMIC_RELAXED))
			run_kicks(p);
		set_timerfd(p);
		pthread_mutex_unlock(&p->lock);
		/*
		 * Pairs with the push. On all processors of today, the release of an unlock and
		 * a load that is sequentially consistent are not reordered.
		 */
	} while (twc_load(&p->kicked) && !pthread_mutex_trylock(&p->lock));
}

/*
 * A long call has done @done steps. After each group of them others can take the mutex: a thread
 * that waits for it has to wake up, and would find it locked again.
 */
static void yield_call(struct twheel_process *p, uint32_t done)
{
	int state;

	if (done % LOCKED_STEPS)
		return;
	leave_call(p);
	if (__atomic_load_n(&p->waiting, __ATOMIC_RELAXED)) {
		/* A thread that is cancelled here would lose what it has read. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		nanosleep(&(struct timespec){ .tv_nsec = 1 }, NULL);
		pthread_setcancelstate(state, NULL);
	}
	lock(p);
	catch_up(p);
}

/* Push a cell on @kicked, without the mutex or with it. Returns the result of a KICK. */
static int push_kick(struct twheel_process *p, uint64_t id)
{
	struct timeout *t = NULL;
	uint32_t flags = F_FREE;
	int ret = 0;

	/* Pairs with the release in alloc_timeout(). */
	if ((uint32_t)id < __atomic_load_n(&p->nr, __ATOMIC_ACQUIRE)) {
		t = timeout_at(p, id);
		flags = __atomic_load_n(&t->flags, __ATOMIC_RELAXED);
	}
	if (flags & F_FREE || __atomic_load_n(&t->generation, __ATOMIC_RELAXED) != id >> 32)
		ret = -ENOENT;
	else if (!(flags & TWHEEL_F_CELL))
		ret = -EINVAL;
	if (!ret && !twc_exchange(&t->in_kicked, 1)) {
		t->kicked = twc_load(&p->kicked);
		while (!twc_replace(&p->kicked, &t->kicked, t))
			;
	}
	if (twc_load(&p->stopped))
		ret = -ESHUTDOWN;
	if (!ret)
		__atomic_fetch_add(&p->kicks, 1, __ATOMIC_RELAXED);
	return ret;
}

/* Operations */

static int check_op(const struct twheel_process *p, const struct twheel_op *op)
{
	return twc_check_op(op, OP_FLAGS, p->clock == CLOCK_REALTIME ? TWHEEL_F_ABS : 0);
}

/* Set what ARM and MOD set. Returns the deadline, or for a cell its word. */
static uint64_t set_timeout(struct twheel_process *p, struct timeout *t, const struct twheel_op *op)
{
	__atomic_store_n(&t->flags, op->flags & TWC_KEPT_FLAGS, __ATOMIC_RELAXED);
	t->cookie = op->cookie;
	t->repeat = op->repeat;
	t->slack_us = twc_slack_us(op, p->slack_us);
	t->interval = op->interval_ns;
	return twc_word(op, p->now, 0);
}

static int arm(struct twheel_process *p, struct twheel_op *op)
{
	int ret = twc_check_arm(p->stopped, p->counts.live, p->max);
	struct timeout *t;
	uint64_t expires;

	if (ret) {
		p->refused += ret == -EAGAIN;
		return ret;
	}
	t = alloc_timeout(p, &ret);
	if (!t)
		return ret;
	p->begun = true;
	op->id = id_of(t);
	expires = set_timeout(p, t, op);
	if (!is_cell(t)) {
		enqueue(p, t, expires);
		return 0;
	}
	t->state = PARKED;
	t->ahead = 0;
	twc_begin_cell(cell_at(p, t->index), expires);
	take_up(p, t, expires);
	return 0;
}

static int mod(struct twheel_process *p, const struct twheel_op *op)
{
	struct timeout *t = find_timeout(p, op->id);
	int ret = twc_check_found(p->stopped, t, t ? t->flags : 0, op->flags);
	uint64_t expires;

	/* The analyser cannot see that @ret says whether there is a timeout. */
	if (ret || !t)
		return ret;
	p->counts.moved++;
	expires = set_timeout(p, t, op);
	if (is_cell(t))
		return mod_cell(p, t, expires);
	if (t->state == READY) {
		unready(p, t);
		ret = TWHEEL_WITHDRAWN;
	} else {
		wheel_dequeue(&p->wheel, &t->node);
	}
	enqueue(p, t, expires);
	return ret;
}

static int cancel(struct twheel_process *p, struct timeout *t)
{
	int ret = t->state == READY ? TWHEEL_WITHDRAWN : 0;

	if (is_cell(t))
		ret = twc_disarm(cell_at(p, t->index), t->state == READY, &p->counts);
	if (t->state == READY)
		unready(p, t);
	else if (t->state == PENDING)
		wheel_dequeue(&p->wheel, &t->node);
	free_timeout(p, t);
	return twc_count_cancel(&p->counts, ret);
}

/* Returns TWHEEL_STATE_*. */
static uint32_t get_state(const struct twheel_process *p, const struct timeout *t,
			  __u64 *remaining)
{
	bool ready = t->state == READY;
	uint64_t word;

	if (!is_cell(t))
		return twc_state(ready ? TWHEEL_WITHDRAWN : 0, t->expires, p->now, remaining);
	word = twc_load(&cell_at(p, t->index)->word);
	return twc_state(twc_outcome(ready, word), word, p->now, remaining);
}

static int operate(struct twheel_process *p, struct twheel_op *op)
{
	int ret = check_op(p, op);
	struct timeout *t;

	if (ret)
		return ret;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
		return arm(p, op);
	case TWHEEL_OP_MOD:
		return mod(p, op);
	case TWHEEL_OP_CANCEL:
		t = find_timeout(p, op->id);
		return t ? cancel(p, t) : -ENOENT;
	case TWHEEL_OP_GET:
		t = find_timeout(p, op->id);
		if (!t)
			return -ENOENT;
		op->cookie = t->cookie;
		op->repeat = t->repeat;
		op->interval_ns = t->interval;
		get_state(p, t, &op->expires_ns);
		return 0;
	case TWHEEL_OP_KICK:
		ret = push_kick(p, op->id);
		run_kicks(p);	/* before the next operation */
		return ret;
	default:
		return -EINVAL;
	}
}

static int submit(struct twheel_process *p, struct twheel_submit *s)
{
	struct twheel_op *ops = (struct twheel_op *)(uintptr_t)s->ops;

	if (twc_check_submit(s))
		return -EINVAL;
	for (s->done = 0; s->done < s->nr; yield_call(p, ++s->done))
		ops[s->done].result = operate(p, &ops[s->done]);
	return 0;
}

/* A KICK never waits for the mutex, see "Locking". */
static int kick_op(struct twheel_process *p, struct twheel_op *op)
{
	int ret = check_op(p, op);

	if (!is_owner(p))
		return -EOPNOTSUPP;
	ret = ret ? ret : push_kick(p, op->id);
	if (ret || pthread_mutex_trylock(&p->lock))
		return ret;
	catch_up(p);
	leave_call(p);
	return 0;
}

/* The context as a whole */

/* Whole pages, as the mapping of a device has. Not all exist. */
static uint32_t nr_cells(const struct twheel_process *p)
{
	return CELL_FLAG != 0 ? p->max - p->max % CELLS_PER_PAGE + CELLS_PER_PAGE : 0;
}

static int get_info(const struct twheel_process *p, struct twheel_info *info)
{
	int bits = 64 - __builtin_clzll(INT64_MAX / p->tick_ns + 1);

	*info = (struct twheel_info){
		.opcodes = twc_opcodes(OP_FLAGS),
		.op_flags = OP_FLAGS,
		.tick_ns = p->tick_ns,
		.clock = p->clock,
		.slots = WHEEL_SLOTS_0,
		.levels = 1 + (bits > WHEEL_BITS_0 ?
				(bits - WHEEL_BITS_0 + WHEEL_BITS - 1) / WHEEL_BITS : 0),
		.max_timeouts = p->max,
		.live = p->counts.live,
		.ready = p->counts.ready,
		.flags = TWHEEL_INFO_PROCESS | TWHEEL_INFO_PRIVATE |
			 (p->stopped ? TWHEEL_INFO_STOPPED : 0),
		.slack_us = p->slack_us,
		.setup_flags = SETUP_FLAGS,
		.cells = nr_cells(p),
		.user_timeouts = p->nr_allocated,
		.max_user_timeouts = TWC_MAX_TIMEOUTS,
		.wheel_bytes = sizeof(*p),
		.max_wheel_bytes = INT64_MAX,
		.refused = p->refused,
	};
	return 0;
}

/*
 * Replace the timerfd, under its number. If no descriptor is left for that, its number is free for
 * a moment: another thread can take it, or even the last one.
 */
static int change_clock(struct twheel_process *p, clockid_t clock)
{
	int flags = fcntl(p->fd, F_GETFL) & O_NONBLOCK;
	int cloexec = fcntl(p->fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0;
	int fd = timerfd_create(clock, flags | cloexec), ret = fd;

	if (fd < 0 && errno == EMFILE) {
		close(p->fd);
		p->fd = timerfd_create(clock, flags | cloexec);
		ret = p->fd;
	} else if (fd >= 0) {
		/* Fails if the limit of descriptors has been lowered. */
		ret = dup3(fd, p->fd, cloexec);
	}
	if (ret < 0)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	if (ret < 0)
		return ret;
	p->clock = clock;
	p->programmed = WHEEL_NEVER;
	return 0;
}

static void set_tick(struct twheel_process *p, uint64_t tick_ns)
{
	p->tick_ns = tick_ns;
	p->reciprocal = UINT64_MAX / tick_ns;
	p->now = twheel_process_now(p);
	p->wheel.cursor = tick_floor(p, p->now);
}

static int set_up(struct twheel_process *p, const struct twheel_setup *setup)
{
	int ret = twc_check_setup(setup, SETUP_FLAGS), state;

	if (!ret && p->begun)
		ret = -EBUSY;
	/* close() would let the thread be cancelled, with the mutex held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (!ret && setup->flags & TWHEEL_SETUP_CLOCK && (clockid_t)setup->clock != p->clock)
		ret = change_clock(p, setup->clock);
	pthread_setcancelstate(state, NULL);
	if (ret)
		return ret;
	p->manual = setup->flags & TWHEEL_SETUP_MANUAL;
	p->max = setup->max_timeouts ? setup->max_timeouts : DEFAULT_MAX;
	p->slack_us = setup->slack_us;
	p->begun = true;
	set_tick(p, setup->tick_ns ? setup->tick_ns : p->manual ? 1 : DEFAULT_TICK);
	return 0;
}

static int cancel_all(struct twheel_process *p, struct twheel_cancel_all *all)
{
	if (twc_check_cancel_all(all))
		return -EINVAL;
	all->pending = 0;
	all->withdrawn = 0;
	for (uint32_t i = 0; i < p->nr; yield_call(p, ++i)) {
		struct timeout *t = timeout_at(p, i);

		if (t->state != FREE && twc_selects(all, t->cookie))
			twc_count_all(all, cancel(p, t));
	}
	return 0;
}

/* STOP a timeout that is in no list. A cell whose word is changed meanwhile is idle. */
static void stop_timeout(struct twheel_process *p, struct timeout *t)
{
	__u64 word;

	if (is_cell(t)) {
		if (!twc_stop_cell(cell_at(p, t->index), &word)) {
			p->counts.ended++;
			free_timeout(p, t);
			return;
		}
		t->expires = word;
	}
	t->unprocessed = true;
	p->counts.unprocessed++;
	make_ready(p, t, p->stop_ns);
}

static int stop(struct twheel_process *p)
{
	p->begun = true;
	if (p->stopped)
		return 0;
	p->stop_ns = p->now;
	twc_store(&p->stopped, true);
	for (uint32_t i = 0; i < p->nr; i++) {
		struct timeout *t = timeout_at(p, i);

		if (t->state == PENDING)
			wheel_dequeue(&p->wheel, &t->node);
		/* Armed again: a KICK has succeeded, or finds the word changed. */
		else if (t->state == READY && is_cell(t) && twc_load(&t->in_kicked) &&
			 twc_is_deadline(twc_load(&cell_at(p, t->index)->word)))
			withdraw_event(p, t, 0);
		if (t->state == PENDING || t->state == PARKED)
			stop_timeout(p, t);
	}
	return 0;
}

static int list(struct twheel_process *p, struct twheel_list *l)
{
	struct twheel_list_entry *entry = (struct twheel_list_entry *)(uintptr_t)l->entries;

	if (twc_check_list(l))
		return -EINVAL;
	for (l->done = 0; l->done < l->nr && l->next < p->nr; yield_call(p, ++l->next)) {
		const struct timeout *t = timeout_at(p, l->next);

		if (t->state == FREE)
			continue;
		*entry = (struct twheel_list_entry){
			.id = id_of(t),
			.cookie = t->cookie,
			.interval_ns = t->interval,
			.repeat = t->repeat,
			.slack_us = t->slack_us,
			.flags = t->flags,
		};
		entry->state = get_state(p, t, &entry->remaining_ns);
		entry++;
		l->done++;
	}
	return 0;
}

static int get_stats(const struct twheel_process *p, struct twheel_stats *stats)
{
	*stats = p->counts;
	stats->kicks = __atomic_load_n(&p->kicks, __ATOMIC_RELAXED);
	stats->armed = twc_armed(stats);
	return 0;
}

static int handle_request(struct twheel_process *p, unsigned long request, void *arg)
{
	switch (request) {
	case TWHEEL_IOC_OP:
		return operate(p, arg);
	case TWHEEL_IOC_SUBMIT:
		return submit(p, arg);
	case TWHEEL_IOC_INFO:
		distrust_timerfd(p);
		return get_info(p, arg);
	case TWHEEL_IOC_SETUP:
		return set_up(p, arg);
	case TWHEEL_IOC_CANCEL_ALL:
		return cancel_all(p, arg);
	case TWHEEL_IOC_STOP:
		return stop(p);
	case TWHEEL_IOC_LIST:
		return list(p, arg);
	case TWHEEL_IOC_STATS:
		return get_stats(p, arg);
	default:
		return -ENOTTY;
	}
}

int twheel_process_control(struct twheel_process *p, unsigned long request, void *arg)
{
	struct twheel_op *op = request == TWHEEL_IOC_OP ? arg : NULL;
	int ret;

	if (op && op->opcode == TWHEEL_OP_KICK)
		return kick_op(p, op);
	ret = enter_call(p);
	if (ret)
		return ret;
	if (!op || op->opcode != TWHEEL_OP_CANCEL)
		catch_up(p);
	ret = handle_request(p, request, arg);
	leave_call(p);
	return ret;
}

int twheel_process_set_time(struct twheel_process *p, uint64_t now_ns)
{
	int ret = enter_call(p);

	if (ret)
		return ret;
	if (p->manual && now_ns <= INT64_MAX)
		twc_store(&p->time, now_ns);
	else
		ret = -EINVAL;
	catch_up(p);
	leave_call(p);
	return ret;
}

int twheel_process_cell(struct twheel_process *p, uint32_t index, struct twheel_cell **cell)
{
	int ret = enter_call(p);

	if (ret)
		return ret;
	if (index >= nr_cells(p))
		ret = -EINVAL;
	while (!ret && index >= p->nr_allocated)
		ret = add_chunk(p);
	if (!ret) {
		p->begun = true;
		*cell = cell_at(p, index);
	}
	leave_call(p);
	return ret;
}

/* Events */

/* The deadlines that the event of a periodic timeout stands for. */
static uint64_t count_periods(const struct twheel_process *p, const struct timeout *t)
{
	uint64_t now = p->stopped ? p->stop_ns : p->now, count = 1;

	if (!(t->flags & TWHEEL_F_FIXED_DELAY) && now > t->expires)
		count += (now - t->expires) / t->interval;
	return t->repeat && count > t->repeat ? t->repeat : count;
}

/* Go on with the next deadline after an event for @count of them. */
static void next_period(struct twheel_process *p, struct timeout *t, uint64_t count)
{
	uint64_t last = t->expires + (count - 1) * t->interval;

	if (t->repeat)
		t->repeat -= count;
	if (t->flags & TWHEEL_F_FIXED_DELAY)
		last = p->now;
	enqueue(p, t, twc_add_ns(last, t->interval));
}

/* Take the event of @t off the queue. Returns false if it was withdrawn. */
static bool read_event(struct twheel_process *p, struct timeout *t, struct twheel_event *event)
{
	bool last = true, read = true;
	uint64_t count = 1;

	*event = (struct twheel_event){
		.id = id_of(t),
		.cookie = t->cookie,
		.expires_ns = t->expires,
		.fired_ns = t->fired,
		.count = !t->unprocessed,
		.flags = t->unprocessed ? TWHEEL_EV_UNPROCESSED : 0,
	};
	unready(p, t);
	if (is_cell(t)) {
		last = p->stopped;
		read = twc_read_cell(cell_at(p, t->index), &p->counts);
		t->state = PARKED;
		t->ahead = 0;
	} else if (t->interval && !t->unprocessed) {
		count = count_periods(p, t);
		event->expires_ns += (count - 1) * t->interval;
		event->count = count;
		last = count == t->repeat || p->stopped;
	}
	p->counts.read += read;
	if (last) {
		event->flags |= TWHEEL_EV_LAST;
		p->counts.ended++;
		free_timeout(p, t);
	} else if (!is_cell(t)) {
		next_period(p, t, count);
	}
	return read;
}

int twheel_process_read(struct twheel_process *p, struct twheel_event *events, unsigned int nr)
{
	int ret = enter_call(p);
	unsigned int done = 0;

	if (ret)
		return ret;
	catch_up(p);
	while (done < nr && p->counts.ready) {
		if (read_event(p, timeout_of(p->ready.next), &events[done]))
			yield_call(p, ++done);
	}
	ret = done || p->stopped ? (int)done : -EAGAIN;
	if (ret == -EAGAIN)
		distrust_timerfd(p);
	leave_call(p);
	return ret;
}

/* Lifecycle */

/* A page that is zero in a child, or NULL: gVisor and Linux before 4.14 have none. */
static int *map_owner_page(void)
{
	size_t size = sysconf(_SC_PAGESIZE);
	int *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	/* qemu-user accepts any advice, and ignores it. */
	if (!madvise(page, size, -1) || madvise(page, size, MADV_WIPEONFORK)) {
		munmap(page, size);
		return NULL;
	}
	*page = 1;
	return page;
}

int twheel_process_fd(const struct twheel_process *p)
{
	return p->fd;
}

void twheel_process_close(struct twheel_process *p)
{
	for (int i = 0; i < MAX_CHUNKS; i++) {
		free(p->timeouts[i]);
		free(p->cells[i]);
	}
	if (p->owner_page)
		munmap(p->owner_page, sysconf(_SC_PAGESIZE));
	if (p->fd >= 0)
		close(p->fd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int twheel_process_open(int flags, struct twheel_process **out)
{
	struct twheel_process *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	wheel_init(&p->wheel);
	list_init(&p->ready);
	p->clock = CLOCK_MONOTONIC;
	p->programmed = WHEEL_NEVER;
	p->max = DEFAULT_MAX;
	set_tick(p, DEFAULT_TICK);
	p->owner_page = map_owner_page();
	p->pid = getpid();
	p->fd = timerfd_create(p->clock, flags);
	if (p->fd >= 0) {
		*out = p;
		return 0;
	}
	ret = -errno;
	twheel_process_close(p);
	return ret;
}
