// SPDX-License-Identifier: GPL-2.0
/*
 * Several threads that use one file.
 *
 * @thread assigns each step of a program to a thread, and each thread runs its steps in order.
 *	Steps that need exclusive use of the file are left out. The ledger checks the
 *	results at the end. Only the thread that armed an id moves it, so that the order of
 *	its armings is known; all other operations may come from any thread.
 *
 * Some cells exist from the beginning, and all threads arm them, each time for another
 * deadline, so that an event identifies its arming. The kernel handles a cell in less than
 * a microsecond, and so do the exchanges that could come in between. To make them meet,
 * many cells are armed for the same time, and the kernel looks at one after the other. When
 * it begins, threads go through the same cells from the other end.
 *
 * The threads live on, because KCOV must be enabled in each thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "fuzz.h"
#include "ledger.h"
#include "model.h"
#include "program.h"

#define DEVICE		"/dev/twheel"
#define MAX_OPS		24
#define MAX_EVENTS	24
#define NR_CELLS	96		/* the sink looks at all of them in one batch */
#define US		1000ULL
#define MS		(1000 * US)
#define TIME_LIMIT_NS	(10000 * MS)	/* time limit for a cell that is due, and for a wakeup */
#define SLEEP_MS	20000		/* longer than the time limit */
#define SOON_NS		(20 * MS)

static struct race {
	const struct program	*program;
	int			fd;
	struct file		file;		/* only the values of SETUP */
	struct twheel_cell	*cells;
	pthread_barrier_t	begin, end;
	unsigned int		cookies[MAX_THREADS];
	uint64_t		ids[NR_CELLS];
	uint64_t		sweep;		/* time when many cells are due */
	uint64_t		stopped;	/* time after a STOP; 0: none has ended */
	uint64_t		ended;		/* time after the last event; 0: some are unread */
	uint64_t		serials[MAX_THREADS], last[MAX_THREADS];
} shared;

static uint64_t now(void)
{
	return clock_ns(shared.file.clock);
}

static int timed_ioctl(unsigned long command, void *arg, struct time_range *when)
{
	int ret;

	when->begin = now();
	ret = device_ioctl(shared.fd, command, arg);
	when->end = now();
	return ret;
}

/* A deadline that is used only once. */
static uint64_t unique_deadline(unsigned int thread, uint64_t moment)
{
	uint64_t serial = ++shared.serials[thread] * MAX_THREADS + thread;

	return (moment & ~0xfffULL & NEVER) | (serial & 0xfff);
}

static struct twheel_op thread_cell_op(unsigned int thread, const struct step *step)
{
	unsigned int n = step->target % NR_CELLS;
	struct twheel_op op = { .opcode = opcode_of(step), .id = shared.ids[n] };

	if (op.opcode == TWHEEL_OP_MOD) {
		op.flags = TWHEEL_F_CELL | TWHEEL_F_ABS;
		op.cookie = n;
		op.expires_ns = step->when % 4 ?
				unique_deadline(thread, now() + step->when * 20 * US) :
				TWHEEL_CELL_IDLE;
	}
	/* A cancelled cell does not come back, so cancel few of them. */
	if (op.opcode == TWHEEL_OP_CANCEL && step->when % 4)
		op.opcode = TWHEEL_OP_GET;
	return op;
}

/* Like step_to_op(), with an id and a cookie for one of several threads. */
static struct twheel_op thread_op(unsigned int thread, const struct step *step)
{
	struct step plain = *step;
	unsigned int n = step->target;
	struct twheel_op op;

	plain.error = 0;
	/*
	 * Make no new cells: a thread with the id of an ended cell would write to the next
	 * one.
	 */
	plain.thread = 0;
	if (step->span % 8 == 3 && kind_of(step) != ARM)
		return thread_cell_op(thread, step);
	op = step_to_op(&plain, &shared.file, now());
	if (op.opcode != TWHEEL_OP_ARM)
		op.id = ledger_pick(thread, op.opcode == TWHEEL_OP_MOD ? n | 64 : n);
	if (op.opcode <= TWHEEL_OP_MOD)
		op.cookie = (uint64_t)(thread + 1) << 32 | ++shared.cookies[thread];
	else
		op.cookie = 0;
	return op;
}

static void record_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
		      int result, struct time_range when)
{
	/* A valid operation must not return -EINVAL. */
	if (model_op_valid(shared.file.clock, in))
		ledger_op(thread, in, out, result, when);
	else
		EXPECT(result == -EINVAL, "opcode %u: error %d", in->opcode, -result);
}

static void race_op(unsigned int thread, const struct step *step)
{
	struct twheel_op in = thread_op(thread, step), out = in;
	struct time_range when;
	int ret = timed_ioctl(TWHEEL_IOC_OP, &out, &when);

	EXPECT(out.result == in.result, "opcode %u: the result is written", in.opcode);
	record_op(thread, &in, &out, ret, when);
}

/* Submit runs of different operations; their ids were picked before the call. */
static void race_submit(unsigned int thread, const struct step *step)
{
	static const uint8_t kinds[] = { ARM, ARM, CANCEL, MOD, GET };
	struct twheel_op in[MAX_OPS], out[MAX_OPS];
	struct twheel_submit submit = {
		.ops = (uintptr_t)out,
		.nr = 1 + step->when % MAX_OPS,
		.op_size = sizeof(out[0]),
	};
	unsigned int run = 1 + step->thread / MAX_THREADS % 8;
	struct time_range when;
	int ret;

	for (uint32_t i = 0; i < submit.nr; i++) {
		struct step each = *step;

		each.kind = kinds[(i / run + step->span) % (1 + step->flags % sizeof(kinds))];
		each.target += i;
		each.when += i * 7;
		in[i] = thread_op(thread, &each);
	}
	memcpy(out, in, submit.nr * sizeof(in[0]));
	ret = timed_ioctl(TWHEEL_IOC_SUBMIT, &submit, &when);
	EXPECT(!ret && submit.done == submit.nr, "SUBMIT: error %d, %u done of %u", -ret,
	       submit.done, submit.nr);
	device_count(submit.nr);
	for (uint32_t i = 0; i < submit.nr; i++)
		record_op(thread, &in[i], &out[i], out[i].result, when);
}

static void race_cancel_all(unsigned int thread, const struct step *step)
{
	struct twheel_cancel_all all = { 0 };
	struct time_range when;
	int ret;

	if (step->target % 4) {
		all.flags = TWHEEL_CANCEL_COOKIE;
		all.cookie = (uint64_t)(thread + 1) << 32 | shared.cookies[thread];
	}
	ret = timed_ioctl(TWHEEL_IOC_CANCEL_ALL, &all, &when);
	EXPECT(!ret, "CANCEL_ALL: error %d", -ret);
	EXPECT(!all.flags || all.pending + all.withdrawn <= 1, "CANCEL_ALL: %u and %u of a cookie",
	       all.pending, all.withdrawn);
	ledger_cancel_all(thread, &all, when);
}

static void race_list(unsigned int thread, const struct step *step)
{
	struct twheel_list_entry entries[MAX_EVENTS];
	struct twheel_list list = {
		.entries = (uintptr_t)entries,
		.nr = 1 + step->when % MAX_EVENTS,
		.entry_size = sizeof(entries[0]),
	};
	struct time_range all = { .begin = now() }, when;
	uint32_t found = 0;

	do {
		int ret = timed_ioctl(TWHEEL_IOC_LIST, &list, &when);

		EXPECT(!ret, "LIST: error %d", -ret);
		for (uint32_t i = 0; i < list.done; i++)
			ledger_listed(thread, entries[i].id, when);
		found += list.done;
	} while (list.done);
	all.end = when.end;
	ledger_live(thread, found, all);
}

static void race_info(unsigned int thread, int fd)
{
	struct twheel_info info;
	struct time_range when = { .begin = now() };
	int ret = device_ioctl(fd, TWHEEL_IOC_INFO, &info);

	when.end = now();
	EXPECT(!ret, "INFO: error %d", -ret);
	EXPECT(info.ready <= info.live, "INFO: %u ready, %u live", info.ready, info.live);
	ledger_live(thread, info.live, when);
}

/* Use a descriptor that is opened and closed during the race. */
static void race_dup(unsigned int thread)
{
	int fd = device_dup(shared.fd);

	race_info(thread, fd);
	device_close(fd);
}

static void race_stats(void)
{
	struct twheel_stats stats;
	struct time_range when;
	int ret = timed_ioctl(TWHEEL_IOC_STATS, &stats, &when);

	EXPECT(!ret, "STATS: error %d", -ret);
	EXPECT(stats.armed == stats.cancelled + stats.withdrawn + stats.ended + stats.live,
	       "STATS: does not balance");
	EXPECT(stats.ready <= stats.live, "STATS: %u ready, %u live", stats.ready, stats.live);
}

static ssize_t read_events(unsigned int thread, struct twheel_event *events, unsigned int nr)
{
	struct time_range when = { .begin = now() };
	ssize_t ret = device_read(shared.fd, events, nr * sizeof(*events));

	when.end = now();
	for (ssize_t i = 0; i < ret / (ssize_t)sizeof(*events); i++)
		ledger_event(thread, &events[i], when);
	return ret;
}

static void race_read(unsigned int thread, const struct step *step)
{
	struct twheel_event events[MAX_EVENTS];
	unsigned int nr = 1 + step->when % MAX_EVENTS;
	ssize_t ret = read_events(thread, events, nr);

	EXPECT(ret == -EAGAIN || ret >= 0, "read: error %zd", -ret);
	EXPECT(ret < 0 || (ret % sizeof(events[0]) == 0 && ret / sizeof(events[0]) <= nr),
	       "read: %zd bytes", ret);
}

static void read_all(unsigned int thread)
{
	struct twheel_event events[MAX_EVENTS];

	while (!mismatch_found() && read_events(thread, events, MAX_EVENTS) > 0)
		;
}

/* Each STOP stops all: no reader waits from then on. */
static void race_stop(unsigned int thread)
{
	struct twheel_event events[MAX_EVENTS];
	struct time_range when;
	int ret = timed_ioctl(TWHEEL_IOC_STOP, NULL, &when);

	EXPECT(!ret, "STOP: error %d", -ret);
	ledger_stop(thread, when);
	__atomic_store_n(&shared.stopped, when.end, __ATOMIC_RELEASE);
	EXPECT(read_events(thread, events, MAX_EVENTS) >= 0, "no end after STOP");
}

static void race_poll(const struct step *step)
{
	short revents;
	int ret = device_poll(shared.fd, POLLIN | POLLRDNORM, step->flags % 16 == 15, &revents);

	EXPECT(!ret, "poll: error %d", -ret);
	EXPECT(!revents || revents == POLLHUP || revents == (POLLIN | POLLRDNORM), "poll: %#x",
	       revents);
}

/* Cells */

static void move_to_cpu(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static uint64_t load(const __u64 *member)
{
	return __atomic_load_n(member, __ATOMIC_SEQ_CST);
}

/* Exchange the word. Returns the look. */
static uint64_t exchange(unsigned int thread, unsigned int n, uint64_t word)
{
	struct time_range when = { .begin = now() };
	uint64_t old = __atomic_exchange_n(&shared.cells[n].word, word, __ATOMIC_SEQ_CST);
	uint64_t look = load(&shared.cells[n].look);

	when.end = now();
	device_count(1);
	ledger_word(thread, shared.ids[n], old, word, when);
	return look;
}

/* Cancel the arming for @deadline, and no other one. */
static void cancel_one(unsigned int thread, unsigned int n, uint64_t deadline)
{
	struct time_range when = { .begin = now() };
	uint64_t old = deadline;
	int done = __atomic_compare_exchange_n(&shared.cells[n].word, &old, TWHEEL_CELL_IDLE, 0,
					       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

	when.end = now();
	device_count(1);
	if (done)
		ledger_word(thread, shared.ids[n], deadline, TWHEEL_CELL_IDLE, when);
}

/* KICK after an arming whose look is too late. If it fails, the arming has failed. */
static void kick(unsigned int thread, unsigned int n, uint64_t deadline)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_KICK, .id = shared.ids[n] };
	struct time_range when;
	int ret = timed_ioctl(TWHEEL_IOC_OP, &op, &when);

	ledger_op(thread, &op, &op, ret, when);
	if (ret)
		cancel_one(thread, n, deadline);
}

static void arm_cell(unsigned int thread, unsigned int n, uint64_t moment)
{
	uint64_t deadline = unique_deadline(thread, moment);

	shared.last[thread] = deadline;
	if (exchange(thread, n, deadline) > deadline)
		kick(thread, n, deadline);
}

/* The latest time at which the kernel looks at the cell. */
static uint64_t due_time(uint64_t deadline)
{
	uint64_t tick = shared.file.tick, due = deadline + shared.file.slack_us * US;

	return due + (tick - due % tick) % tick;
}

/* A cell that is due soon fires or is moved by another thread, so the arming has an end. */
static void wait_for_cell(unsigned int n)
{
	uint64_t word = load(&shared.cells[n].word), give_up = now() + TIME_LIMIT_NS;

	if (word > NEVER || due_time(word) > now() + SOON_NS)
		return;
	while (load(&shared.cells[n].word) == word && !mismatch_found()) {
		EXPECT(now() < give_up, "cell %u is due at %llu, and its look is %llu", n,
		       (unsigned long long)word, (unsigned long long)load(&shared.cells[n].look));
		device_let_look(shared.fd, 50);
	}
}

static void burst(unsigned int thread, const struct step *step)
{
	static const int64_t ahead[] = { -MS, 0, 20 * US, 100 * US, 300 * US, MS, 2 * MS, 30 * MS };
	unsigned int n = step->target % NR_CELLS;

	for (unsigned int i = 0; i < 1U + step->span % 32 && !mismatch_found(); i++) {
		if ((step->flags >> 3 ^ i) % 4 == 1)
			exchange(thread, n, TWHEEL_CELL_IDLE);
		else
			arm_cell(thread, n, now() + ahead[(step->when + i) % 8]);
	}
}

static void wait_for_cells(void)
{
	for (unsigned int n = 0; n < NR_CELLS; n++)
		wait_for_cell(n);
}

/* Arm all cells for the same time with one call, so that they have the same distance too. */
static void arm_all_cells(unsigned int thread, uint64_t moment)
{
	struct twheel_op in[NR_CELLS], out[NR_CELLS];
	struct twheel_submit submit = {
		.ops = (uintptr_t)out, .nr = NR_CELLS, .op_size = sizeof(out[0]),
	};
	struct time_range when;
	int ret;

	for (unsigned int n = 0; n < NR_CELLS; n++)
		in[n] = (struct twheel_op) {
			.opcode = TWHEEL_OP_MOD,
			.flags = TWHEEL_F_CELL | TWHEEL_F_ABS,
			.id = shared.ids[n],
			.expires_ns = unique_deadline(thread, moment),
			.cookie = n,
		};
	memcpy(out, in, sizeof(in));
	ret = timed_ioctl(TWHEEL_IOC_SUBMIT, &submit, &when);
	EXPECT(!ret && submit.done == NR_CELLS, "SUBMIT: error %d, %u done", -ret, submit.done);
	device_count(NR_CELLS);
	for (unsigned int n = 0; n < NR_CELLS; n++)
		ledger_op(thread, &in[n], &out[n], out[n].result, when);
}

/*
 * Make the kernel look at all cells in sequence: armed, idle for the first look, or idle
 * for the second. It does so on this CPU, so the thread moves to another one.
 */
static void start_sweep(unsigned int thread, const struct step *step)
{
	uint64_t moment = now() + 500 * US + step->when * 4 * US;

	arm_all_cells(thread, moment);
	move_to_cpu(thread + 1);
	for (unsigned int n = 0; n < NR_CELLS && step->flags & 0xc0; n++)
		exchange(thread, n, TWHEEL_CELL_IDLE);
	__atomic_store_n(&shared.sweep, moment, __ATOMIC_RELEASE);
	if (!(step->flags & 0x80))
		return;
	while (load(&shared.cells[0].look) <= moment && now() < moment + 8 * MS)
		;
	moment = load(&shared.cells[0].look);
	if (moment < NEVER)
		__atomic_store_n(&shared.sweep, moment, __ATOMIC_RELEASE);
}

/* Wait until the kernel begins to look. Returns whether a sweep was about to begin. */
static int wait_for_sweep(void)
{
	uint64_t moment = __atomic_load_n(&shared.sweep, __ATOMIC_ACQUIRE);
	uint64_t word = load(&shared.cells[0].word), look = load(&shared.cells[0].look);

	if (moment > now() + 4 * MS || moment + MS < now())
		return 0;
	while (load(&shared.cells[0].word) == word && load(&shared.cells[0].look) == look &&
	       now() < moment + 4 * MS)
		;
	return 1;
}

/*
 * Go through the cells from the other end. A KICK would wait until the kernel has looked at
 * all cells, so the KICKs come later.
 */
static void join_sweep(unsigned int thread, const struct step *step)
{
	uint64_t deadlines[NR_CELLS], looks[NR_CELLS], moment;

	if (!wait_for_sweep())
		return;
	moment = now() + (step->when & 4 ? 2 * MS : 0) - (step->when & 8 ? MS : 0);
	for (unsigned int n = NR_CELLS; n--;) {
		deadlines[n] = step->when % 4 == 3 ? TWHEEL_CELL_IDLE :
						     unique_deadline(thread, moment);
		looks[n] = exchange(thread, n, deadlines[n]);
	}
	for (unsigned int n = 0; n < NR_CELLS && !mismatch_found(); n++) {
		if (looks[n] > deadlines[n])
			kick(thread, n, deadlines[n]);
	}
	wait_for_cells();
}

/* If another thread has begun a sweep, take part in it. */
static void help_sweep(unsigned int thread, const struct step *step)
{
	if (__atomic_load_n(&shared.sweep, __ATOMIC_RELAXED) < now())
		return;
	if (thread % 2)
		join_sweep(thread, step);
	else if (wait_for_sweep())
		read_all(thread);
}

/* Meeting the kernel takes luck, so try several times. */
static void sweep(unsigned int thread, struct step step)
{
	unsigned int tries = 1 + step.target % 8;

	for (unsigned int i = 0; i < tries && !mismatch_found(); i++) {
		start_sweep(thread, &step);
		join_sweep(thread, &step);
		move_to_cpu(thread);
		step.when += 5;
	}
}

static void race_cell(unsigned int thread, const struct step *step)
{
	unsigned int n = step->target % NR_CELLS;

	switch (step->flags % 8) {
	case 0:
	case 1:
	case 2:
	case 3:
		sweep(thread, *step);
		break;
	case 4:
		exchange(thread, n, TWHEEL_CELL_IDLE);
		break;
	case 5:
		cancel_one(thread, n, shared.last[thread]);
		break;
	default:
		burst(thread, step);
		break;
	}
}

/* Whether this STOP is left to final_stop(). */
static int is_final_stop(const struct step *step)
{
	return step->target % 2;
}

static void race_step(unsigned int thread, const struct step *step)
{
	switch (kind_of(step)) {
	case ARM ... SUBMIT - 1:
		race_op(thread, step);
		break;
	case SUBMIT:
		race_submit(thread, step);
		break;
	case CANCEL_ALL:
		race_cancel_all(thread, step);
		break;
	case STOP:
		if (!is_final_stop(step))
			race_stop(thread);
		break;
	case LIST:
		race_list(thread, step);
		break;
	case INFO:
		race_info(thread, shared.fd);
		break;
	case STATS:
		race_stats();
		break;
	case READ:
	case DRAIN:
		race_read(thread, step);
		break;
	case POLL:
	case EPOLL:
		race_poll(step);
		break;
	case DUP:
	case CLOSE:
		race_dup(thread);
		break;
	case CELL:
		if (shared.cells)
			race_cell(thread, step);
		break;
	case WAIT:
		sleep_us(20U << step->when % 8);
		break;
	default:
		break;
	}
}

/*
 * Wait for the STOP that a thread makes. It wakes all that wait: some for events, which they
 * read, and some for the end alone.
 */
static void wait_for_stop(unsigned int thread)
{
	int reads = thread % 2 == 0;
	uint64_t *since = reads ? &shared.stopped : &shared.ended, moment, begin;
	short revents;

	do {
		begin = now();
		device_poll(shared.fd, reads ? POLLIN : 0, SLEEP_MS, &revents);
		moment = __atomic_load_n(since, __ATOMIC_ACQUIRE);
		/* A thread that comes later has not waited for so long. */
		EXPECT(!moment || now() < (moment > begin ? moment : begin) + TIME_LIMIT_NS,
		       "STOP does not wake");
		if (reads)
			read_all(thread);
	} while (!(revents & POLLHUP) && !mismatch_found());
	if (reads)
		__atomic_store_n(&shared.ended, now(), __ATOMIC_RELEASE);
}

/* STOP when the other threads wait, as a rule. It finds nothing to make an event of. */
static void final_stop(unsigned int thread)
{
	const struct step all = { .kind = CANCEL_ALL };

	sleep_us(10000);
	race_cancel_all(thread, &all);
	read_all(thread);
	race_stop(thread);
}

static void run_thread_steps(unsigned int thread)
{
	const struct program *program = shared.program;
	int stops = 0, final = 0;

	for (unsigned int i = 0; i < program->nr && !mismatch_found(); i++) {
		if (kind_of(&program->steps[i]) == STOP) {
			stops = 1;
			final |= is_final_stop(&program->steps[i]);
		}
		if (program->steps[i].thread % program->threads != thread)
			continue;
		/* A thread can move a timeout on its way to the sink only from another CPU. */
		move_to_cpu(thread + program->steps[i].fd);
		if (shared.cells)
			help_sweep(thread, &program->steps[i]);
		race_step(thread, &program->steps[i]);
	}
	if (final && thread == 0 && !mismatch_found())
		final_stop(thread);
	if (stops && !mismatch_found())
		wait_for_stop(thread);
}

/* Threads */

static void *thread_main(void *arg)
{
	unsigned int thread = (uintptr_t)arg;

	move_to_cpu(thread);
	coverage_begin();
	for (;;) {
		pthread_barrier_wait(&shared.begin);
		coverage_reset();
		if (thread < shared.program->threads)
			run_thread_steps(thread);
		coverage_pass_on();
		pthread_barrier_wait(&shared.end);
	}
	return NULL;
}

static void start_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&shared.begin, NULL, MAX_THREADS);
	pthread_barrier_init(&shared.end, NULL, MAX_THREADS);
	for (uintptr_t i = 1; i < MAX_THREADS; i++) {
		if (pthread_create(&thread, NULL, thread_main, (void *)i)) {
			fputs("fuzz: no threads\n", stderr);
			exit(1);
		}
	}
}

/*
 * Use the first SETUP of the program if it succeeds. Some programs without one use another
 * clock.
 */
static void set_up(void)
{
	const struct program *program = shared.program;
	struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK,
		.clock = program->nr % 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME,
	};
	struct twheel_info info;

	for (unsigned int i = 0; i < program->nr; i++) {
		if (kind_of(&program->steps[i]) != SETUP)
			continue;
		setup = step_to_setup(&program->steps[i]);
		setup.max_timeouts = 0;
		break;
	}
	device_ioctl(shared.fd, TWHEEL_IOC_SETUP, &setup);
	EXPECT(!device_ioctl(shared.fd, TWHEEL_IOC_INFO, &info), "INFO: error %d", errno);
	shared.file.clock = info.clock;
	shared.file.tick = info.tick_ns;
	shared.file.slack_us = info.slack_us;
	ledger_clear(&shared.file);
}

/* Make the cells; all of them are idle. */
static void make_cells(void)
{
	for (unsigned int n = 0; n < NR_CELLS; n++) {
		struct twheel_op in = {
			.opcode = TWHEEL_OP_ARM,
			.flags = TWHEEL_F_CELL | TWHEEL_F_ABS,
			.expires_ns = TWHEEL_CELL_IDLE,
			.cookie = n,
		};
		struct twheel_op out = in;
		struct time_range when;
		int ret = timed_ioctl(TWHEEL_IOC_OP, &out, &when);

		EXPECT(!ret && (uint32_t)out.id == n, "ARM: %d, id %#llx of cell %u", ret, out.id,
		       n);
		ledger_op(0, &in, &out, ret, when);
		shared.ids[n] = out.id;
	}
}

/* The other threads have ended: cells that are due fire and have an event. */
static void end_cells(void)
{
	struct twheel_info info;
	struct time_range when;

	timed_ioctl(TWHEEL_IOC_INFO, &info, &when);
	for (unsigned int n = 0; n < NR_CELLS; n++) {
		EXPECT(!(info.flags & TWHEEL_INFO_STOPPED) || load(&shared.cells[n].word) > NEVER,
		       "cell %u is armed after STOP", n);
		wait_for_cell(n);
	}
	/* Cells that are not yet due may become due meanwhile. */
	for (unsigned int n = 0; n < NR_CELLS && !mismatch_found(); n++)
		if (load(&shared.cells[n].word) <= NEVER)
			exchange(0, n, TWHEEL_CELL_IDLE);
	read_all(0);
	for (unsigned int n = 0; n < NR_CELLS; n++)
		EXPECT(load(&shared.cells[n].word) != TWHEEL_CELL_FIRED,
		       "cell %u has fired, and there is no event", n);
}

static void open_file(void)
{
	shared.fd = device_open(DEVICE, O_RDWR | O_NONBLOCK);
	EXPECT(shared.fd >= 0, "open: error %d", -shared.fd);
	set_up();
	shared.cells = device_map(shared.fd, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (shared.cells == MAP_FAILED)
		shared.cells = NULL;
	memset(shared.cookies, 0, sizeof(shared.cookies));
	shared.sweep = 0;
	shared.stopped = 0;
	shared.ended = 0;
	if (shared.cells && !mismatch_found())
		make_cells();
}

/* The other threads have ended: cancel the remaining timeouts and check all results. */
static void close_file(void)
{
	const struct step all = { .kind = CANCEL_ALL };
	struct twheel_stats stats = { 0 };
	struct time_range when;

	if (shared.cells && !mismatch_found())
		end_cells();
	if (!mismatch_found())
		race_cancel_all(0, &all);
	if (!mismatch_found()) {
		timed_ioctl(TWHEEL_IOC_STATS, &stats, &when);
		ledger_check(&stats);
	}
	if (shared.cells)
		device_unmap(shared.cells, 4096);
	device_close(shared.fd);
}

void race(const struct program *program)
{
	static int started;

	shared.program = program;
	open_file();
	if (!started)
		start_threads();
	started = 1;
	pthread_barrier_wait(&shared.begin);
	run_thread_steps(0);
	pthread_barrier_wait(&shared.end);
	close_file();
}
