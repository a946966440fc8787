// SPDX-License-Identifier: GPL-2.0
/*
 * Execution of programs, one step at a time.
 *
 * The caller stays on one CPU. So all timeouts that it arms are in one shard, which
 * guarantees their order. Children share all state with their parent in shared memory: the
 * model and the arguments of calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fuzz.h"
#include "model.h"
#include "program.h"

#define DEVICE		"/dev/twheel"
#define NR_CONTEXTS	4
#define NR_FDS		6
#define MAX_OPS		140
#define MAX_EVENTS	40
#define TIME_LIMIT_MS	20000	/* for an event that is due; the device makes no such promise */
#define SOON_NS		4000000ULL
#define MS		1000000ULL

/**
 * struct context - an open file of the device
 * @file: its model
 * @refs: number of descriptors
 * @mode: O_RDONLY, O_WRONLY or O_RDWR
 * @nonblock: O_NONBLOCK
 * @cells: the mapping of its cells, or NULL
 * @nr_cells: number of cells in the mapping
 */
struct context {
	struct file	file;
	unsigned int	refs;
	int		mode, nonblock;
	struct twheel_cell *cells;
	uint32_t	nr_cells;
};

struct descriptor {
	int		fd;
	struct context	*context;
};

static struct shared_state {
	struct twheel_info	initial_info;
	struct context		contexts[NR_CONTEXTS];
	struct descriptor	descriptors[NR_FDS];
} *shared_state;

static int idle_fd;	/* a file that is never used keeps the counts of the user */
static int in_child;	/* not shared: the parent owns the descriptors and mappings */

static struct descriptor *descriptor_of(const struct step *step)
{
	return &shared_state->descriptors[step->fd % NR_FDS];
}

static int may_write(const struct descriptor *d)
{
	return d->context->mode != O_RDONLY;
}

static int may_read(const struct descriptor *d)
{
	return d->context->mode != O_WRONLY;
}

static uint64_t now_of(const struct descriptor *d)
{
	return clock_ns(d->context->file.clock);
}

/* Make an ioctl and note the time of the call. */
static int timed_ioctl(const struct descriptor *d, unsigned long command, void *arg,
		       struct time_range *when)
{
	int ret;

	when->begin = now_of(d);
	ret = device_ioctl(d->fd, command, arg);
	when->end = now_of(d);
	return ret;
}

/* Some calls get bad memory; the lowest bits of @error choose. */
static enum memory memory_type_of(uint8_t error)
{
	if (device_is_process())
		return GOOD;
	switch (error % 8) {
	case 6:
		return UNMAPPED;
	case 7:
		return READ_ONLY;
	default:
		return GOOD;
	}
}

/* Descriptors */

static void put_descriptor(struct descriptor *d)
{
	struct context *c = d->context;

	device_close(d->fd);
	d->context = NULL;
	c->refs--;
}

static void unmap(struct context *c)
{
	if (c->cells)
		device_unmap(c->cells, c->nr_cells * sizeof(*c->cells));
	c->cells = NULL;
}

static void set_descriptor(struct descriptor *d, struct context *c, int fd)
{
	if (d->context)
		put_descriptor(d);
	d->fd = fd;
	d->context = c;
	c->refs++;
}

/* A context that is neither open nor mapped, or NULL. */
static struct context *free_context(void)
{
	for (int i = 0; i < NR_CONTEXTS; i++) {
		if (!shared_state->contexts[i].refs && !shared_state->contexts[i].cells)
			return &shared_state->contexts[i];
	}
	return NULL;
}

static void run_open(const struct step *step)
{
	static const int modes[8] = { O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_RDWR,
				      O_RDONLY, O_WRONLY };
	struct descriptor *d = descriptor_of(step);
	struct context *c = free_context();
	char path[40] = DEVICE;
	int fd;

	if (!c || in_child)
		return;
	/* This opens a context of its own. */
	if (step->target % 8 == 7 && d->context)
		snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fd);
	c->mode = device_is_process() ? O_RDWR : modes[step->when % 8];
	c->nonblock = step->flags % 4 != 3;
	fd = device_open(path, c->mode | (c->nonblock ? O_NONBLOCK : 0));
	log_call("open %s, mode %d, nonblock %d: %d", path, c->mode, c->nonblock, fd);
	EXPECT(fd >= 0, "open: error %d", -fd);
	model_open(&c->file, &shared_state->initial_info);
	set_descriptor(d, c, fd);
}

static void run_dup(const struct step *step)
{
	struct descriptor *from = &shared_state->descriptors[step->target % NR_FDS];
	struct descriptor *to = descriptor_of(step);

	if (in_child || !from->context || from == to)
		return;
	set_descriptor(to, from->context, device_dup(from->fd));
}

static void run_close(const struct step *step)
{
	if (!in_child)
		put_descriptor(descriptor_of(step));
}

static void run_setup(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_setup setup = step_to_setup(step);
	struct time_range when;
	int ret = timed_ioctl(d, TWHEEL_IOC_SETUP, &setup, &when);

	log_call("SETUP flags %#x clock %u tick %llu slots %u levels %u max %u slack %u: %d",
		 setup.flags, setup.clock, setup.tick_ns, setup.slots, setup.levels,
		 setup.max_timeouts, setup.slack_us, ret);
	if (!may_write(d))
		EXPECT(ret == -EBADF, "SETUP of a file to be read: error %d", -ret);
	else
		model_setup(&d->context->file, &setup, ret);
}

/* Operations */

static void log_op(const struct twheel_op *in, const struct twheel_op *out, int ret)
{
	static const char * const names[] = { "0", "ARM", "MOD", "CANCEL", "GET", "KICK", "6" };

	log_call("%s id %#llx expires %llu interval %llu repeat %u flags %#x slack %u cookie %#llx",
		 in->opcode < 7 ? names[in->opcode] : "?", in->id, in->expires_ns, in->interval_ns,
		 in->repeat, in->flags, in->slack_us, in->cookie);
	log_call("	%d, id %#llx, expires %llu", ret, out->id, out->expires_ns);
}

/* An operation that cannot be read has no effect. */
static void run_unreadable_op(struct descriptor *d, const struct twheel_op *in, size_t readable)
{
	struct twheel_op *arg = memory_place(UNMAPPED, sizeof(*in), readable);
	struct time_range when;
	int ret;

	memcpy(arg, in, readable);
	ret = timed_ioctl(d, TWHEEL_IOC_OP, arg, &when);
	log_call("operation of which %zu bytes can be read: %d", readable, ret);
	EXPECT(ret == -EFAULT, "at a bad address: error %d", -ret);
}

/* Size of the part of an operation that contains all output fields. */
static size_t output_size(uint32_t opcode)
{
	switch (opcode) {
	case TWHEEL_OP_ARM:
		return offsetof(struct twheel_op, expires_ns);
	case TWHEEL_OP_GET:
		return offsetof(struct twheel_op, slack_us);
	default:
		return 0;
	}
}

/* The first @writable bytes of @out can be written; the rest reads as zeros. */
static void run_op_in(struct descriptor *d, struct twheel_op *out, size_t writable)
{
	struct file *f = &d->context->file;
	struct twheel_op in = *out;
	struct time_range when;
	int ret = timed_ioctl(d, TWHEEL_IOC_OP, out, &when);

	log_op(&in, out, ret);
	if (writable >= output_size(in.opcode))
		model_op(f, &in, out, ret, when);
	else if (ret < 0 && (model_op_errors(f, &in) | ERRNO(EFAULT)) & ERRNO(-ret))
		f->refused += ret == -EAGAIN;
	else
		mismatch("opcode %u, %zu bytes can be written: %d", in.opcode, writable, ret);
}

static void run_op(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_op in = step_to_op(step, &d->context->file, now_of(d)), *out;
	enum memory memory = memory_type_of(step->error);
	size_t usable = memory == GOOD ? sizeof(in) : step->span * 13 % sizeof(in);
	struct time_range when;
	int ret;

	if (memory == READ_ONLY)	/* the rest reads as zeros */
		memset((char *)&in + usable, 0, sizeof(in) - usable);
	if (!may_write(d) && in.opcode != TWHEEL_OP_GET) {
		ret = timed_ioctl(d, TWHEEL_IOC_OP, &in, &when);
		EXPECT(ret == -EBADF, "operation on a file to be read: error %d", -ret);
		return;
	}
	if (memory == UNMAPPED) {
		run_unreadable_op(d, &in, usable);
		return;
	}
	out = memory_place(memory, sizeof(in), usable);
	memcpy(out, &in, usable);
	run_op_in(d, out, usable);
}

/**
 * struct batch - the operations of a SUBMIT
 * @nr: number of operations
 * @usable: number of operations in good memory
 * @ops: copies of the operations
 */
struct batch {
	uint32_t		nr, usable;
	struct twheel_op	ops[MAX_OPS];
};

static void check_batch(struct descriptor *d, const struct batch *batch,
			const struct twheel_op *out, struct time_range when)
{
	for (uint32_t i = 0; i < batch->usable && !mismatch_found(); i++) {
		struct twheel_op logged = out[i];

		/*
		 * The model takes the result as the return value of a call, and the field
		 * as unchanged.
		 */
		logged.result = batch->ops[i].result;
		log_op(&batch->ops[i], &out[i], out[i].result);
		model_op(&d->context->file, &batch->ops[i], &logged, out[i].result, when);
	}
}

/* The argument may be invalid: the call then has no effect. */
static struct twheel_submit step_to_submit(const struct step *step, const struct batch *batch,
					   const void *ops)
{
	struct twheel_submit submit = {
		.ops = (uintptr_t)ops,
		.nr = batch->nr,
		.done = 0x5a5a5a5a,
		.op_size = sizeof(struct twheel_op),
	};

	switch (step->error / 8) {
	case 1:
		submit.flags = 1;
		break;
	case 2:
		submit.op_size = 48;
		break;
	case 3:
		submit.op_size = 0;
		break;
	}
	return submit;
}

/*
 * One operation beyond the usable ones may be tried as well: it can be read, and all that
 * is written to it is in memory that can be written.
 */
static uint32_t max_done(struct batch *batch, const struct twheel_op *out, enum memory memory,
			 size_t usable)
{
	if (memory != READ_ONLY ||
	    usable % sizeof(*out) < offsetof(struct twheel_op, reserved))
		return batch->usable;
	batch->ops[batch->usable] = out[batch->usable];
	return batch->usable + 1;
}

/* Use the ioctl, or an io_uring command. */
static int call_submit(const struct descriptor *d, const struct step *step,
		       struct twheel_submit *arg, struct time_range *when)
{
	int ret;

	if (step->flags % 4 != 3 || in_child || !device_has_commands() ||
	    !(shared_state->initial_info.flags & TWHEEL_INFO_URING))
		return timed_ioctl(d, TWHEEL_IOC_SUBMIT, arg, when);
	when->begin = now_of(d);
	ret = device_command(d->fd, arg);
	when->end = now_of(d);
	log_call("as a command:");
	return ret;
}

static void submit(const struct step *step, struct batch *batch)
{
	struct descriptor *d = descriptor_of(step);
	enum memory memory = memory_type_of(step->error);
	size_t size = batch->nr * sizeof(batch->ops[0]);
	size_t usable = memory == GOOD ? size : step->span * 61 % (size + 1);
	struct twheel_op *out = memory_place(memory, size, usable);
	struct twheel_submit arg = step_to_submit(step, batch, out);
	int valid = !arg.flags && arg.op_size == sizeof(struct twheel_op);
	struct time_range when;
	uint32_t most;
	int ret;

	batch->usable = usable / sizeof(batch->ops[0]);
	memcpy(out, batch->ops, usable);
	most = max_done(batch, out, memory, usable);
	ret = call_submit(d, step, &arg, &when);
	log_call("SUBMIT of %u, %u in good memory: %d, %u done", batch->nr, batch->usable, ret,
		 arg.done);
	if (!may_write(d)) {
		EXPECT(ret == -EBADF, "SUBMIT to a file to be read: error %d", -ret);
		return;
	}
	if (!valid) {
		EXPECT(ret == -EINVAL, "SUBMIT: error %d", -ret);
		return;
	}
	if (!ret && arg.done == most)
		batch->usable = most;
	if (!batch->usable) {
		EXPECT(ret == -EFAULT, "SUBMIT at a bad address: error %d", -ret);
		return;
	}
	EXPECT(!ret, "SUBMIT: error %d", -ret);
	EXPECT(arg.done == batch->usable, "SUBMIT: %u done of %u", arg.done, batch->usable);
	device_count(arg.done);
	check_batch(d, batch, out, when);
}

/* Submit the steps that follow, as long as they are operations. */
static unsigned int run_submit(const struct program *program, unsigned int pos)
{
	const struct step *step = &program->steps[pos];
	struct descriptor *d = descriptor_of(step);
	unsigned int most = 1 + step->target % 8, nr = 0;
	struct batch batch;

	while (nr < most && pos + 1 + nr < program->nr && is_op(&program->steps[pos + 1 + nr]))
		nr++;
	batch.nr = nr ? 1 + step->when % MAX_OPS : 0;
	for (unsigned int i = 0; i < batch.nr; i++)
		batch.ops[i] = step_to_op(&program->steps[pos + 1 + i % nr], &d->context->file,
					  now_of(d));
	if (batch.nr)
		submit(step, &batch);
	return nr;
}

/* The file as a whole */

static void run_cancel_all(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_cancel_all in = { .flags = step->flags % 4, .pending = 7, .withdrawn = 7 };
	struct twheel_cancel_all out;
	struct time_range when;
	int ret, valid;

	if (step->flags % 2)
		in.cookie = step->target % 4 ? step->target % 4 : 1ULL << 8;
	if (step->error / 8 == 1)
		in.reserved[step->error % 2] = 1;
	valid = in.flags < 2 && !in.reserved[0] && !in.reserved[1];
	out = in;
	ret = timed_ioctl(d, TWHEEL_IOC_CANCEL_ALL, &out, &when);
	log_call("CANCEL_ALL flags %u cookie %#llx: %d, %u pending, %u withdrawn", in.flags,
		 in.cookie, ret, out.pending, out.withdrawn);
	if (!may_write(d))
		EXPECT(ret == -EBADF, "CANCEL_ALL of a file to be read: error %d", -ret);
	else if (!valid)
		EXPECT(ret == -EINVAL, "CANCEL_ALL: error %d", -ret);
	else if (ret)
		mismatch("CANCEL_ALL: error %d", -ret);
	else
		model_cancel_all(&d->context->file, &in, &out, when);
}

static void run_stop(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct time_range when;
	int ret = timed_ioctl(d, TWHEEL_IOC_STOP, NULL, &when);

	log_call("STOP: %d", ret);
	EXPECT(ret == (may_write(d) ? 0 : -EBADF), "STOP: error %d", -ret);
	if (!ret)
		model_stop(&d->context->file, when);
}

/*
 * LIST writes nothing beyond the last entry that fits. Returns the number of entries, or
 * -errno.
 */
static int list_page(const struct step *step, struct descriptor *d, uint32_t *next)
{
	enum memory memory = memory_type_of(step->error);
	uint32_t nr = 1 + step->when % MAX_EVENTS;
	size_t size = nr * sizeof(struct twheel_list_entry);
	size_t usable = memory == GOOD ? size : 1 + step->span * 31 % size;
	struct twheel_list_entry *entries = memory_place(memory, size, usable);
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = nr, .next = *next,
		.entry_size = sizeof(*entries),
	};
	const unsigned char *bytes = (const unsigned char *)entries;
	struct time_range when;
	int ret;

	memset(entries, 0x5a, usable);
	ret = timed_ioctl(d, TWHEEL_IOC_LIST, &list, &when);
	log_call("LIST from %u, %u, room for %zu: %d, %u", *next, nr, usable / sizeof(*entries),
		 ret, list.done);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < list.done && i < usable / sizeof(*entries); i++)
		model_list_entry(&d->context->file, &entries[i], when);
	for (size_t i = list.done * sizeof(*entries); i < size && memory == GOOD; i++) {
		if (bytes[i] != 0x5a)
			mismatch("LIST: more is written than %u entries", list.done);
	}
	*next = list.next;
	return list.done;
}

static void run_bad_list(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_list list = { .nr = 1, .entry_size = sizeof(struct twheel_list_entry) };
	struct time_range when;
	int ret;

	switch (step->error / 8 % 4) {
	case 0:
		list.nr = 0;
		break;
	case 1:
		list.flags = 1;
		break;
	case 2:
		list.entry_size--;
		break;
	case 3:
		list.reserved[step->error % 2] = 1;
		break;
	}
	ret = timed_ioctl(d, TWHEEL_IOC_LIST, &list, &when);
	EXPECT(ret == -EINVAL, "LIST: error %d", -ret);
}

/* Read all pages: each live timeout is listed exactly once. */
static void run_list(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct file *f = &d->context->file;
	uint32_t next = 0, found = 0, before = 0;
	int nr;

	if (step->error >= 0x60) {
		run_bad_list(step);
		return;
	}
	do {
		nr = list_page(step, d, &next);
		if (nr == -EFAULT && memory_type_of(step->error) != GOOD) {
			EXPECT(found < f->live, "LIST: a bad address, but all were found");
			EXPECT(1 + step->span * 31 % ((1 + step->when % MAX_EVENTS) * 48) < 48,
			       "LIST: a bad address, but there is room");
			return;
		}
		EXPECT(nr >= 0, "LIST: error %d", -nr);
		EXPECT(!nr || next > before, "LIST: next is %u after %u", next, before);
		before = next;
		found += nr;
	} while (nr && !mismatch_found());
	EXPECT(found == f->live, "LIST: %u found, not %u", found, f->live);
}

static void check_fdinfo(struct descriptor *d)
{
	unsigned int cells = 0, found = 0;
	char name[40], line[80];
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", d->fd);
	file = fopen(name, "re");
	EXPECT(file, "fdinfo: error %d", errno);
	while (fgets(line, sizeof(line), file))
		found += sscanf(line, "live_cells: %u", &cells) == 1;
	fclose(file);
	log_call("fdinfo: %u cells", cells);
	EXPECT(found == 1, "fdinfo: %u lines about cells", found);
	model_fdinfo(&d->context->file, cells);
}

static void run_info(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_info info;
	struct time_range when;
	int ret;

	if (memory_type_of(step->error) != GOOD) {
		ret = timed_ioctl(d, TWHEEL_IOC_INFO, memory_place(READ_ONLY, sizeof(info), 0),
				  &when);
		EXPECT(ret == -EFAULT, "INFO: error %d", -ret);
		return;
	}
	memset(&info, 0x5a, sizeof(info));
	ret = timed_ioctl(d, TWHEEL_IOC_INFO, &info, &when);
	log_call("INFO: %d, %u live, %u ready", ret, info.live, info.ready);
	EXPECT(!ret, "INFO: error %d", -ret);
	model_info(&d->context->file, &info, when);
	EXPECT(info.opcodes == (2U << (SUBMIT - ARM)) - 2, "an operation is no kind of step");
	if (step->flags % 4 == 3 && !mismatch_found() && !device_is_process())
		check_fdinfo(d);
}

static void run_stats(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct twheel_stats stats;
	struct time_range when;
	int ret;

	memset(&stats, 0x5a, sizeof(stats));
	ret = timed_ioctl(d, TWHEEL_IOC_STATS, &stats, &when);
	EXPECT(!ret, "STATS: error %d", -ret);
	model_stats(&d->context->file, &stats, when);
}

/* A command that does not exist, or an existing one with another size. */
static void run_unknown(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	unsigned int nr = 0x08 + step->target % 128;
	unsigned long command = _IOWR(TWHEEL_IOC_MAGIC, nr, struct twheel_op);
	char arg[1024] = "";
	int ret;

	switch (step->flags % 3) {
	case 1:
		command = _IOWR(TWHEEL_IOC_MAGIC, step->target % 8, char[7]);
		break;
	case 2:
		command = _IOC(_IOC_NONE, 'T', step->target, 0);
		break;
	}
	ret = device_ioctl(d->fd, command, arg);
	/* The kernel itself handles the lowest of these for every file. */
	EXPECT(ret == -ENOTTY || step->flags % 3 == 2, "unknown command: error %d", -ret);
}

/* Reading */

/**
 * struct read_args - arguments of a read()
 * @buffer: the buffer
 * @size: size of @buffer
 * @usable: size of its part in good memory
 * @vector: size of the first of two parts for readv(); 0: use read()
 * @flags: RWF_NOWAIT; only with @vector
 */
struct read_args {
	char	*buffer;
	size_t	size, usable, vector;
	int	flags;
};

static struct read_args step_to_read(const struct step *step)
{
	enum memory memory = memory_type_of(step->error);
	struct read_args r = { .size = (1 + step->target % MAX_EVENTS) * 48 };

	if (step->flags & 1)
		r.size += step->span % 48;
	if (step->error / 8 == 5)
		r.size = step->span % 48;
	r.usable = memory == GOOD ? r.size : step->when * 7 % (r.size + 1);
	r.buffer = memory_place(memory, r.size, r.usable);
	if (step->flags & 2 && r.size > 1)
		r.vector = 1 + step->span % (r.size - 1);
	if (step->flags & 4 && r.vector)
		r.flags = RWF_NOWAIT;
	return r;
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void set_alarm(unsigned int us)
{
	const struct itimerval time = { .it_value.tv_usec = us, .it_interval.tv_usec = us };

	setitimer(ITIMER_REAL, &time, NULL);
}

static ssize_t read_device(struct descriptor *d, const struct read_args *r)
{
	struct iovec iov[2] = {
		{ .iov_base = r->buffer, .iov_len = r->vector },
		{ .iov_base = r->buffer + r->vector, .iov_len = r->size - r->vector },
	};

	if (r->vector)
		return device_readv(d->fd, iov, 2, r->flags);
	return device_read(d->fd, r->buffer, r->size);
}

static void check_no_event(struct file *f, const struct read_args *r, ssize_t ret, int nonblock,
			   int interrupted, struct time_range when)
{
	switch (ret) {
	case 0:
		model_no_event(f, 1, 0);
		break;
	case -EAGAIN:
		EXPECT(nonblock, "read: error EAGAIN of a blocking file");
		model_no_event(f, 0, 0);
		break;
	case -EINTR:
		EXPECT(interrupted, "read: error EINTR, but there was no signal");
		model_no_event(f, 0, 1);
		break;
	case -EFAULT:
		EXPECT(r->usable < sizeof(struct twheel_event),
		       "read: error EFAULT in good memory");
		EXPECT(model_may_be_ready(f, when.end),
		       "read: error EFAULT, but there is no event");
		if (!f->unread)
			f->unread = 1;
		break;
	default:
		mismatch("read: error %zd", -ret);
	}
}

static void check_events(struct file *f, const struct read_args *r, ssize_t ret, int interrupted,
			 struct time_range when)
{
	struct twheel_event event;
	uint32_t nr = ret / sizeof(event), room = r->usable / sizeof(event);
	uint32_t least = f->unread > f->stale ? f->unread - f->stale : 0;

	EXPECT(ret % sizeof(event) == 0, "read: %zd bytes", ret);
	EXPECT(nr <= room, "read: %u events where there is room for %u", nr, room);
	EXPECT(nr >= (least < room ? least : room), "read: %u events of %u", nr, least);
	for (uint32_t i = 0; i < nr && !mismatch_found(); i++) {
		memcpy(&event, r->buffer + i * sizeof(event), sizeof(event));
		log_call("event of %#llx, cookie %#llx, expires %llu, fired %llu, count %llu, %#x",
			 event.id, event.cookie, event.expires_ns, event.fired_ns, event.count,
			 event.flags);
		model_event(f, &event, when);
	}
	if (nr < room && !interrupted && !mismatch_found())
		model_drained(f);
}

/*
 * A read() that has not met all events may have met the withdrawn event of this cell. Find
 * out whether it has: KICK counts the event as dropped if the read() has not. After STOP,
 * the timeout is dead if the read() has met its event.
 */
static void resolve_withdrawn(struct descriptor *d, struct timeout *t)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_KICK, .id = t->id };
	struct file *f = &d->context->file;
	struct time_range when;
	int ret;

	if (f->stopped) {
		op.opcode = TWHEEL_OP_GET;
		ret = timed_ioctl(d, TWHEEL_IOC_OP, &op, &when);
		if (ret == -ENOENT)
			model_dropped(f, t);
		return;
	}
	ret = timed_ioctl(d, TWHEEL_IOC_OP, &op, &when);
	log_call("KICK of %#llx: %d", (unsigned long long)t->id, ret);
	EXPECT(!ret, "KICK: error %d", -ret);
	cell_kicked(f, t, when);
}

static void resolve_all_withdrawn(struct descriptor *d)
{
	struct file *f = &d->context->file;

	for (uint32_t i = f->live; i-- && f->stale && !mismatch_found();) {
		struct timeout *t = model_pick(f, i);

		if (t->flags & TWHEEL_F_CELL && t->cell.where == STALE)
			resolve_withdrawn(d, t);
	}
}

static void run_read(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct file *f = &d->context->file;
	struct read_args r = step_to_read(step);
	int nonblock = d->context->nonblock || r.flags;
	int interrupted = !nonblock && !model_is_due(f, now_of(d) + SOON_NS);
	struct time_range when = { .begin = now_of(d) };
	ssize_t ret;

	if (interrupted)
		set_alarm(300);
	ret = read_device(d, &r);
	if (interrupted)
		set_alarm(0);
	when.end = now_of(d);
	log_call("read of %zu bytes, %zu usable, vector %zu: %zd", r.size, r.usable, r.vector, ret);
	if (!may_read(d))
		EXPECT(ret == -EBADF, "read of a file to be written: %zd", ret);
	else if (r.size < sizeof(struct twheel_event))
		EXPECT(ret == -EINVAL, "read of %zu bytes: %zd", r.size, ret);
	else if (ret > 0)
		check_events(f, &r, ret, interrupted, when);
	else
		check_no_event(f, &r, ret, nonblock, interrupted, when);
	if (f->stale && may_read(d) && r.size >= sizeof(struct twheel_event) && !mismatch_found())
		resolve_all_withdrawn(d);
}

/*
 * The device is ready at once. The timerfd of a wheel in the process is set for the past, and
 * expires with the next interrupt of the clock.
 */
static int poll_ms(const struct file *f, int otherwise)
{
	return device_is_process() && (f->unread || f->stopped) ? TIME_LIMIT_MS : otherwise;
}

static void run_poll(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct time_range when = { .begin = now_of(d) };
	short revents;
	int ms = poll_ms(&d->context->file, step->flags % 16 == 15);
	int ret = device_poll(d->fd, POLLIN | POLLRDNORM, ms, &revents);

	when.end = now_of(d);
	log_call("poll: %d, %#x", ret, revents);
	EXPECT(!ret, "poll: error %d", -ret);
	model_poll(&d->context->file, revents, when);
}

static void run_epoll(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct time_range when = { .begin = now_of(d) };
	uint32_t revents;
	int ms = poll_ms(&d->context->file, 0);
	int ret = device_epoll(d->fd, ms, step->flags & 1 ? EPOLLET : 0, &revents);

	when.end = now_of(d);
	log_call("epoll: %d, %#x", ret, revents);
	EXPECT(!ret, "epoll: error %d", -ret);
	model_poll(&d->context->file, revents, when);
}

/* Read until all events that are due soon have come, or the time limit is reached. */
static void run_drain(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	const struct step read_all = { .kind = READ, .fd = step->fd, .target = MAX_EVENTS - 1 };
	struct file *f = &d->context->file;
	uint64_t until = now_of(d) + SOON_NS;
	short revents;

	if (!may_read(d))
		return;
	for (int i = 0; i < 8 && f->live && model_is_due(f, until) && !mismatch_found(); i++) {
		device_poll(d->fd, POLLIN, TIME_LIMIT_MS, &revents);
		EXPECT(revents, "an event that is due does not come");
		run_read(&read_all);
	}
}

/* Cells */

static uint32_t cells_of(struct descriptor *d)
{
	struct twheel_info info;

	return device_ioctl(d->fd, TWHEEL_IOC_INFO, &info) ? 0 : info.cells;
}

static void run_map(const struct step *step)
{
	struct descriptor *d = descriptor_of(step);
	struct context *c = d->context;
	uint32_t pages = 1 + step->target % 3;
	int share = step->error / 8 == 1 ? MAP_PRIVATE : MAP_SHARED;
	int protection = PROT_READ | PROT_WRITE | (step->error / 8 == 2 ? PROT_EXEC : 0);
	off_t offset = step->error / 8 == 3 ? 4096 : 0;
	int valid = share == MAP_SHARED && !(protection & PROT_EXEC) && !offset &&
		    pages <= cells_of(d) / CELLS_PER_PAGE;
	void *map;

	if (c->cells || in_child || (device_is_process() && !valid))
		return;
	map = device_map(d->fd, pages * 4096, protection, share, offset);
	log_call("mmap of %u pages, mode %d, protection %d, flags %d, offset %ld: %s", pages,
		 c->mode, protection, share, (long)offset,
		 map == MAP_FAILED ? strerror(errno) : "done");
	if (map == MAP_FAILED) {
		EXPECT(errno == EINVAL ? !valid : errno == EACCES && c->mode != O_RDWR,
		       "mmap: error %d", errno);
		return;
	}
	c->cells = map;
	c->nr_cells = pages * CELLS_PER_PAGE;
	c->file.begun = 1;
	EXPECT(valid && c->mode == O_RDWR, "mmap: no error");
}

static void run_unmap(const struct step *step)
{
	if (!in_child)
		unmap(descriptor_of(step)->context);
}

/* The place of a timeout's cell in the mapping, or NULL. */
static struct twheel_cell *cell_of(const struct context *c, uint64_t id)
{
	uint32_t index = id;

	return c->cells && index < c->nr_cells ? &c->cells[index] : NULL;
}

static uint64_t load(const __u64 *member)
{
	return __atomic_load_n(member, __ATOMIC_SEQ_CST);
}

/* Exchange the word: arm, move, cancel, or write an invalid value. Returns the look. */
static uint64_t write_word(struct context *c, struct timeout *t, uint64_t word)
{
	struct twheel_cell *cell = cell_of(c, t->id);
	struct time_range when = { .begin = clock_ns(c->file.clock) };
	uint64_t old = __atomic_exchange_n(&cell->word, word, __ATOMIC_SEQ_CST);
	uint64_t look = load(&cell->look);

	when.end = clock_ns(c->file.clock);
	device_count(1);
	log_call("exchange %#llx: %llu for %llu, look %llu", (unsigned long long)t->id,
		 (unsigned long long)word, (unsigned long long)old, (unsigned long long)look);
	cell_exchanged(&c->file, t, old, word, when);
	if (!mismatch_found())
		cell_look(&c->file, t, look, when);
	return look;
}

/* Cancel one arming, which may not be the current one. Returns whether it did. */
static int cancel_exchange(struct context *c, struct timeout *t, uint64_t deadline)
{
	struct twheel_cell *cell = cell_of(c, t->id);
	struct time_range when = { .begin = clock_ns(c->file.clock) };
	uint64_t old = deadline;
	int done = __atomic_compare_exchange_n(&cell->word, &old, TWHEEL_CELL_IDLE, 0,
					       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

	when.end = clock_ns(c->file.clock);
	device_count(1);
	log_call("compare-exchange %#llx of %llu: %llu", (unsigned long long)t->id,
		 (unsigned long long)deadline, (unsigned long long)old);
	if (done)
		cell_exchanged(&c->file, t, old, TWHEEL_CELL_IDLE, when);
	else
		cell_word(&c->file, t, old, when);
	return done;
}

/* Read the word first: if it is FIRED, the look must already be ~0. */
static void read_cell(struct context *c, struct timeout *t)
{
	struct twheel_cell *cell = cell_of(c, t->id);
	struct time_range when = { .begin = clock_ns(c->file.clock) };
	uint64_t first = load(&cell->word), look = load(&cell->look), last = load(&cell->word);

	when.end = clock_ns(c->file.clock);
	log_call("word of %#llx: %llu, look %llu, word %llu", (unsigned long long)t->id,
		 (unsigned long long)first, (unsigned long long)look, (unsigned long long)last);
	cell_word(&c->file, t, first, when);
	if (!mismatch_found())
		cell_look(&c->file, t, look, when);
	if (!mismatch_found())
		cell_word(&c->file, t, last, when);
}

static void kick(struct descriptor *d, struct timeout *t)
{
	struct twheel_op in = { .opcode = TWHEEL_OP_KICK, .id = t->id }, out = in;
	struct time_range when;
	int ret = timed_ioctl(d, TWHEEL_IOC_OP, &out, &when);

	log_call("KICK of %#llx: %d", (unsigned long long)t->id, ret);
	model_op(&d->context->file, &in, &out, ret, when);
}

/* Arm a cell as a program should. If the KICK fails, the arm has failed. */
static void arm_cell(struct descriptor *d, struct timeout *t, uint64_t deadline)
{
	uint64_t look = write_word(d->context, t, deadline);

	if (mismatch_found() || look <= deadline || deadline > NEVER)
		return;
	kick(d, t);
	if (d->context->file.stopped && !mismatch_found())
		cancel_exchange(d->context, t, deadline);
}

/*
 * Wait until an event or a look that is certain to come soon has come, or the time limit is
 * reached.
 */
static void wait_for_cell(struct descriptor *d, struct timeout *t)
{
	struct file *f = &d->context->file;
	const struct cell *c = &t->cell;
	uint64_t now = now_of(d), deadline = now + TIME_LIMIT_MS * MS;
	int is_due = c->where == QUEUED && c->word == DEADLINE && cell_due(f, t) <= now + SOON_NS;
	int is_idle = c->where == QUEUED && c->word != DEADLINE && c->queue.end <= now + SOON_NS &&
		      c->ahead.end <= SOON_NS && !c->look_overwritten && !t->slack_us;
	const struct twheel_cell *cell = cell_of(d->context, t->id);

	while ((is_due && load(&cell->word) != TWHEEL_CELL_FIRED) ||
	       (is_idle && load(&cell->look) != NO_LOOK)) {
		EXPECT(now_of(d) < deadline, is_due ? "a cell that is due does not fire" :
						      "an idle cell is looked at for ever");
		device_let_look(d->fd, 100);
	}
	if (is_idle)
		EXPECT(load(&cell->look) == NO_LOOK, "an idle cell is looked at again");
}

/* The index has no cell any more, so the kernel ignores writes of users there. */
static void write_to_dead_cell(struct context *c, const struct step *step)
{
	uint64_t id = c->file.dead[step->target % MAX_DEAD];
	struct timeout *t = &c->file.timeouts[(uint32_t)id];
	struct twheel_cell *cell = cell_of(c, id);

	if (!id || !cell || t->alive)
		return;
	__atomic_store_n(&cell->word, time_of(step->when, c->file.tick, clock_ns(c->file.clock)),
			 __ATOMIC_SEQ_CST);
	if (step->span % 4)
		return;
	__atomic_store_n(&cell->look, step->when, __ATOMIC_SEQ_CST);
	cell_look_overwritten(t, step->when);
}

static void overwrite_look(struct context *c, struct timeout *t, uint64_t look)
{
	__atomic_store_n(&cell_of(c, t->id)->look, look, __ATOMIC_SEQ_CST);
	log_call("look of %#llx: %llu", (unsigned long long)t->id, (unsigned long long)look);
	cell_look_overwritten(t, look);
}

static void run_cell(const struct step *step)
{
	const struct step mapping = { .kind = MAP, .fd = step->fd };
	struct descriptor *d = descriptor_of(step);
	struct context *c = d->context;
	struct timeout *t = model_pick_cell(&c->file, step->target);
	uint64_t moment = time_of(step->when, c->file.tick, now_of(d));

	if (!c->cells && t && c->mode == O_RDWR)
		run_map(&mapping);
	if (!t || !cell_of(c, t->id) || mismatch_found())
		return;
	switch (step->flags % 16) {
	case 5:
		write_word(c, t, moment);
		break;
	case 6:
		write_word(c, t, moment);
		if (!mismatch_found())
			kick(d, t);
		break;
	case 7:
	case 8:
		write_word(c, t, TWHEEL_CELL_IDLE);
		break;
	case 9:
		cancel_exchange(c, t, step->span % 4 ? t->high : moment % NEVER);
		break;
	case 10:
	case 11:
		wait_for_cell(d, t);
		break;
	case 12:
		read_cell(c, t);
		break;
	case 13:
		write_word(c, t, invalid_word_of(step->span));
		break;
	case 14:
		overwrite_look(c, t, step->span % 2 ? moment : NO_LOOK);
		break;
	case 15:
		write_to_dead_cell(c, step);
		break;
	default:
		arm_cell(d, t, moment);
		break;
	}
}

/* After each step, check a cell, and the cells that have ended. */
static void check_cells(const struct step *step)
{
	struct context *c = descriptor_of(step)->context;
	struct timeout *t;

	if (!c || !c->cells || mismatch_found())
		return;
	t = model_pick_cell(&c->file, step->when);
	if (t && cell_of(c, t->id))
		read_cell(c, t);
	for (int i = 0; i < MAX_DEAD && !mismatch_found(); i++) {
		uint64_t id = c->file.dead[i];

		if (id && cell_of(c, id))
			model_dead_look(&c->file, id, load(&cell_of(c, id)->look));
	}
}

/* Programs */

static void run_step(const struct step *step)
{
	static void (* const run[NR_KINDS])(const struct step *step) = {
		[OPEN] = run_open, [DUP] = run_dup, [CLOSE] = run_close, [SETUP] = run_setup,
		[ARM ... SUBMIT - 1] = run_op,
		[CANCEL_ALL] = run_cancel_all, [STOP] = run_stop, [LIST] = run_list,
		[INFO] = run_info, [STATS] = run_stats, [UNKNOWN] = run_unknown,
		[READ] = run_read, [POLL] = run_poll, [EPOLL] = run_epoll, [MAP] = run_map,
		[UNMAP] = run_unmap, [CELL] = run_cell, [DRAIN] = run_drain,
	};
	enum kind kind = kind_of(step);

	if (kind == WAIT)
		sleep_us(20U << step->when % 8);
	else if (run[kind] && (descriptor_of(step)->context || kind == OPEN || kind == DUP))
		run[kind](step);
	check_cells(step);
}

static unsigned int run_fork(const struct program *program, unsigned int pos);

/* Run the step at @pos. Returns the number of steps that it has used. */
static unsigned int run_at(const struct program *program, unsigned int pos)
{
	const struct step *step = &program->steps[pos];
	unsigned int nr;

	if (kind_of(step) == FORK && !in_child && !device_is_process())
		return 1 + run_fork(program, pos);
	if (kind_of(step) == SUBMIT && descriptor_of(step)->context) {
		nr = run_submit(program, pos);
		check_cells(step);
		return 1 + nr;
	}
	run_step(step);
	return 1;
}

static void run_between(const struct program *program, unsigned int pos, unsigned int end)
{
	while (pos < end && pos < program->nr && !mismatch_found())
		pos += run_at(program, pos);
}

/* A child runs the next steps; its parent waits. */
static unsigned int run_fork(const struct program *program, unsigned int pos)
{
	unsigned int nr = 1 + program->steps[pos].target % 4;
	int status = 0;
	pid_t pid;

	log_call("fork");
	pid = fork();
	if (!pid) {
		in_child = 1;
		run_between(program, pos + 1, pos + 1 + nr);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		mismatch("fork: status %d", status);
	return nr;
}

/* Compare the counters of a file at the end. */
static void check_counters(unsigned int fd)
{
	const struct step all = { .fd = fd };
	struct descriptor *d = &shared_state->descriptors[fd];

	run_stats(&all);
	if (may_write(d) && !mismatch_found())
		run_cancel_all(&all);
	if (!mismatch_found())
		run_info(&all);
}

static void close_all(void)
{
	for (unsigned int i = 0; i < NR_FDS; i++) {
		if (shared_state->descriptors[i].context)
			put_descriptor(&shared_state->descriptors[i]);
	}
	for (unsigned int i = 0; i < NR_CONTEXTS; i++)
		unmap(&shared_state->contexts[i]);
}

/* After all files are closed, the user has no more memory than before the first program. */
static void check_user(void)
{
	const struct twheel_info *initial_info = &shared_state->initial_info;
	struct twheel_info info;
	int ret = device_ioctl(idle_fd, TWHEEL_IOC_INFO, &info);

	EXPECT(!ret, "INFO: error %d", -ret);
	EXPECT(info.user_timeouts == initial_info->user_timeouts,
	       "all is closed, but not %u timeouts",
	       info.user_timeouts);
	EXPECT(info.wheel_bytes == initial_info->wheel_bytes, "all is closed, but not %llu bytes",
	       info.wheel_bytes);
}

void execute(const struct program *program)
{
	run_between(program, 0, program->nr);
	for (unsigned int i = 0; i < NR_FDS && !mismatch_found(); i++) {
		if (shared_state->descriptors[i].context)
			check_counters(i);
	}
	close_all();
	if (!mismatch_found())
		check_user();
}

void execute_init(void)
{
	const struct sigaction action = { .sa_handler = on_alarm };

	shared_state = shared_memory(sizeof(*shared_state));
	device_init();
	sigaction(SIGALRM, &action, NULL);
	idle_fd = device_open(DEVICE, O_RDWR);
	if (idle_fd < 0 || device_ioctl(idle_fd, TWHEEL_IOC_INFO, &shared_state->initial_info)) {
		fputs("fuzz: cannot use " DEVICE "\n", stderr);
		exit(1);
	}
}
