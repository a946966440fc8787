// SPDX-License-Identifier: GPL-2.0
/*
 * Several threads with one file.
 *
 * The steps of a program are dealt out to threads by @who, and each does its own in
 * their order. Steps that only make sense alone are left out. What the answers were is
 * judged at the end, see ledger.h. An id is moved by the thread that armed it, so that
 * the order of its armings is known; everything else is done by everybody.
 *
 * The threads live on, as the kernel has to be asked for the coverage of each.
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
#include <unistd.h>

#include "clock.h"
#include "coverage.h"
#include "device.h"
#include "ledger.h"
#include "race.h"
#include "report.h"
#include "values.h"

#define DEVICE		"/dev/twheel"
#define MAX_OPS		24
#define MAX_EVENTS	24
#define NR_CELLS	256

static struct race {
	const struct program	*program;
	int			fd;
	struct file		file;		/* only how it was set up */
	struct twheel_cell	*cells;
	pthread_barrier_t	begin, end;
	unsigned int		cookies[MAX_THREADS];
} shared;

static uint64_t now(void)
{
	return clock_ns(shared.file.clock);
}

static int call(unsigned long command, void *arg, struct during *when)
{
	int ret;

	when->begin = now();
	ret = device_ioctl(shared.fd, command, arg);
	when->end = now();
	return ret;
}

/* Like op_of(), with an id and a cookie that suit a thread among others. */
static struct twheel_op op_for(unsigned int thread, const struct step *step)
{
	struct step plain = *step;
	unsigned int n = step->target;
	struct twheel_op op;

	plain.odd = 0;
	plain.who = 0;
	op = op_of(&plain, &shared.file, now());
	if (op.opcode != TWHEEL_OP_ARM)
		op.id = ledger_pick(thread, op.opcode == TWHEEL_OP_MOD ? n | 64 : n);
	if (op.opcode <= TWHEEL_OP_MOD)
		op.cookie = (uint64_t)(thread + 1) << 32 | ++shared.cookies[thread];
	else
		op.cookie = 0;
	return op;
}

static void note_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
		    int result, struct during when)
{
	/* What was never ill formed may not be refused for that. */
	if (model_op_valid(shared.file.clock, in))
		ledger_op(thread, in, out, result, when);
	else
		EXPECT(result == -EINVAL, "opcode %u: error %d", in->opcode, -result);
}

static void race_op(unsigned int thread, const struct step *step)
{
	static const unsigned long commands[] = {
		[TWHEEL_OP_ARM] = TWHEEL_IOC_ARM, [TWHEEL_OP_MOD] = TWHEEL_IOC_MOD,
		[TWHEEL_OP_CANCEL] = TWHEEL_IOC_CANCEL, [TWHEEL_OP_GET] = TWHEEL_IOC_GET,
		[TWHEEL_OP_KICK] = TWHEEL_IOC_KICK,
	};
	struct twheel_op in = op_for(thread, step), out = in;
	struct during when;
	int ret = call(commands[in.opcode], &out, &when);

	EXPECT(out.result == in.result, "opcode %u: the result is written", in.opcode);
	note_op(thread, &in, &out, ret, when);
}

/* One of each, and again; ids are of before the call. */
static void race_submit(unsigned int thread, const struct step *step)
{
	static const uint8_t kinds[] = { ARM, ARM, CANCEL, MOD, GET };
	struct twheel_op in[MAX_OPS], out[MAX_OPS];
	struct twheel_submit submit = {
		.ops = (uintptr_t)out,
		.nr = 1 + step->when % MAX_OPS,
		.op_size = sizeof(out[0]),
	};
	struct during when;
	int ret;

	for (uint32_t i = 0; i < submit.nr; i++) {
		struct step each = *step;

		each.kind = kinds[(i + step->span) % (1 + step->flags % sizeof(kinds))];
		each.target += i;
		each.when += i * 7;
		in[i] = op_for(thread, &each);
	}
	memcpy(out, in, submit.nr * sizeof(in[0]));
	ret = call(TWHEEL_IOC_SUBMIT, &submit, &when);
	EXPECT(!ret && submit.done == submit.nr, "SUBMIT: error %d, %u done of %u", -ret,
	       submit.done, submit.nr);
	device_count(submit.nr);
	for (uint32_t i = 0; i < submit.nr; i++)
		note_op(thread, &in[i], &out[i], out[i].result, when);
}

static void race_cancel_all(unsigned int thread, const struct step *step)
{
	struct twheel_cancel_all all = { 0 };
	struct during when;
	int ret;

	if (step->target % 4) {
		all.flags = TWHEEL_CANCEL_COOKIE;
		all.cookie = (uint64_t)(thread + 1) << 32 | shared.cookies[thread];
	}
	ret = call(TWHEEL_IOC_CANCEL_ALL, &all, &when);
	EXPECT(!ret, "CANCEL_ALL: error %d", -ret);
	EXPECT(!all.flags || all.pending + all.withdrawn <= 1, "CANCEL_ALL: %u and %u of a cookie",
	       all.pending, all.withdrawn);
	ledger_cancel_all(thread, &all, when);
}

static void race_stop(unsigned int thread)
{
	struct during when;
	int ret = call(TWHEEL_IOC_STOP, NULL, &when);

	EXPECT(!ret, "STOP: error %d", -ret);
	ledger_stop(thread, when);
}

static void race_list(unsigned int thread, const struct step *step)
{
	struct twheel_list_entry entries[MAX_EVENTS];
	struct twheel_list list = {
		.entries = (uintptr_t)entries,
		.nr = 1 + step->when % MAX_EVENTS,
		.entry_size = sizeof(entries[0]),
	};
	struct during all = { .begin = now() }, when;
	uint32_t found = 0;

	do {
		int ret = call(TWHEEL_IOC_LIST, &list, &when);

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
	struct during when = { .begin = now() };
	int ret = device_ioctl(fd, TWHEEL_IOC_INFO, &info);

	when.end = now();
	EXPECT(!ret, "INFO: error %d", -ret);
	EXPECT(info.ready <= info.live, "INFO: %u ready, %u live", info.ready, info.live);
	ledger_live(thread, info.live, when);
}

static void race_trim(void)
{
	struct during when;
	int ret = call(TWHEEL_IOC_TRIM, NULL, &when);

	EXPECT(ret >= 0, "TRIM: error %d", -ret);
}

/* A descriptor that comes and goes meanwhile. */
static void race_dup(unsigned int thread)
{
	int fd = fcntl(shared.fd, F_DUPFD_CLOEXEC, 0);

	race_info(thread, fd);
	close(fd);
}

static void race_stats(void)
{
	struct twheel_stats stats;
	struct during when;
	int ret = call(TWHEEL_IOC_STATS, &stats, &when);

	EXPECT(!ret, "STATS: error %d", -ret);
	EXPECT(stats.armed == stats.cancelled + stats.withdrawn + stats.ended + stats.live,
	       "STATS: does not balance");
	EXPECT(stats.ready <= stats.live, "STATS: %u ready, %u live", stats.ready, stats.live);
}

static ssize_t read_events(unsigned int thread, struct twheel_event *events, unsigned int nr)
{
	struct during when = { .begin = now() };
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

static void race_poll(const struct step *step)
{
	short revents;
	int ret = device_poll(shared.fd, step->flags % 16 == 15, &revents);

	EXPECT(!ret, "poll: error %d", -ret);
	EXPECT(!revents || revents == POLLHUP || revents == (POLLIN | POLLRDNORM), "poll: %#x",
	       revents);
}

static void race_step(unsigned int thread, const struct step *step)
{
	switch (kind_of(step)) {
	case ARM:
	case MOD:
	case CANCEL:
	case GET:
	case KICK:
		race_op(thread, step);
		break;
	case SUBMIT:
		race_submit(thread, step);
		break;
	case CANCEL_ALL:
		race_cancel_all(thread, step);
		break;
	case STOP:
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
	case TRIM:
		race_trim();
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
	case WAIT:
		sleep_us(20U << step->when % 8);
		break;
	default:
		break;
	}
}

static void run_part(unsigned int thread)
{
	const struct program *program = shared.program;

	for (unsigned int i = 0; i < program->nr && !disagreed(); i++) {
		if (program->steps[i].who % program->threads == thread)
			race_step(thread, &program->steps[i]);
	}
}

/* Threads */

static void move_to_cpu(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *work(void *arg)
{
	unsigned int thread = (uintptr_t)arg;

	move_to_cpu(thread);
	coverage_begin();
	for (;;) {
		pthread_barrier_wait(&shared.begin);
		coverage_reset();
		if (thread < shared.program->threads)
			run_part(thread);
		coverage_leave();
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
		if (pthread_create(&thread, NULL, work, (void *)i)) {
			fputs("fuzz: no threads\n", stderr);
			exit(1);
		}
	}
}

/* The first SETUP of the program, if it is a good one. */
static void set_up(void)
{
	struct twheel_info info;
	const struct program *program = shared.program;

	for (unsigned int i = 0; i < program->nr; i++) {
		struct twheel_setup setup = setup_of(&program->steps[i]);

		if (kind_of(&program->steps[i]) != SETUP)
			continue;
		setup.max_timeouts = 0;
		device_ioctl(shared.fd, TWHEEL_IOC_SETUP, &setup);
		break;
	}
	EXPECT(!device_ioctl(shared.fd, TWHEEL_IOC_INFO, &info), "INFO: error %d", errno);
	shared.file.clock = info.clock;
	shared.file.tick = info.tick_ns;
	ledger_clear(info.tick_ns);
}

static void open_file(void)
{
	shared.fd = device_open(DEVICE, O_RDWR | O_NONBLOCK);
	EXPECT(shared.fd >= 0, "open: error %d", -shared.fd);
	set_up();
	shared.cells = mmap(NULL, NR_CELLS * sizeof(*shared.cells), PROT_READ | PROT_WRITE,
			    MAP_SHARED, shared.fd, 0);
	if (shared.cells == MAP_FAILED)
		shared.cells = NULL;
	memset(shared.cookies, 0, sizeof(shared.cookies));
}

/* Nobody else is there any more: what is left is cancelled, and the books are closed. */
static void close_file(void)
{
	const struct step all = { .kind = CANCEL_ALL };
	struct twheel_stats stats = { 0 };
	struct during when;

	if (!disagreed())
		race_cancel_all(0, &all);
	if (!disagreed()) {
		call(TWHEEL_IOC_STATS, &stats, &when);
		ledger_judge(&stats);
	}
	if (shared.cells)
		munmap(shared.cells, NR_CELLS * sizeof(*shared.cells));
	close(shared.fd);
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
	run_part(0);
	pthread_barrier_wait(&shared.end);
	close_file();
}
