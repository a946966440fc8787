// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring timeouts: IORING_OP_TIMEOUT with an absolute time. To cancel or move one, the
 * kernel walks the list of all. A removal has two completions, its own and that of the
 * timeout.
 *
 * If operations are measured, a flush waits for their completions, and takes them at once.
 *
 * Without liburing, `twheel bench` is built with NO_IO_URING.
 */
#include "backend.h"

#ifdef NO_IO_URING

bool io_uring_works(void)
{
	return false;
}

const struct backend backend_io_uring = {
	.name	= "io_uring",
};

#else

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "../machine.h"

#define COMPLETIONS	65536		/* maximum size of a ring */

/* user_data of a timeout is its number and the number of its arming; others have this bit. */
#define CONTROL		0x8000000000000000ULL

struct ring {
	struct timers		timers;
	struct io_uring		ring;
	unsigned int		nr;		/* operations collected */
	unsigned int		want;		/* completions that the next flush waits for */
	struct __kernel_timespec *times;
	struct {
		uint32_t	serial;
		bool		armed;
	} entries[];
};

static int make_ring(struct io_uring *ring)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
			 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = COMPLETIONS,
	};

	return io_uring_queue_init_params(usage.batch, ring, &params);
}

bool io_uring_works(void)
{
	struct io_uring ring;

	if (make_ring(&ring))
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

static struct timers *ring_open(unsigned int n, uint64_t slack_ns)
{
	struct ring *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->entries));

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	set->times = zeroed_array(usage.batch, sizeof(*set->times));
	check(make_ring(&set->ring), "io_uring_setup");
	return &set->timers;
}

static void ring_close(struct timers *timers)
{
	struct ring *set = (struct ring *)timers;

	io_uring_queue_exit(&set->ring);
	free(set->times);
	free(set);
}

/* Take the completions that a flush has waited for, and check the results. */
static void reap(struct ring *set)
{
	unsigned int got = 0, head;
	struct io_uring_cqe *cqe;

	io_uring_for_each_cqe(&set->ring, head, cqe) {
		if (cqe->res != 0 && cqe->res != -ECANCELED)
			check(cqe->res, "io_uring: result");
		got++;
	}
	if (got != set->want)
		fail("io_uring: completions");
	io_uring_cq_advance(&set->ring, got);
	set->want = 0;
}

static void ring_flush(struct timers *timers)
{
	struct ring *set = (struct ring *)timers;
	int submitted;

	if (!set->nr)
		return;
	clock_start();
	submitted = io_uring_submit_and_wait(&set->ring, set->want);
	clock_stop();
	if (submitted != (int)set->nr)
		fail("io_uring: submit");
	set->nr = 0;
	if (usage.measured)
		reap(set);
}

static struct io_uring_sqe *next_sqe(struct ring *set)
{
	struct io_uring_sqe *sqe;

	if (set->nr == usage.batch)
		ring_flush(&set->timers);
	sqe = io_uring_get_sqe(&set->ring);
	if (!sqe)
		fail("io_uring: no room");
	set->nr++;
	return sqe;
}

static uint64_t user_data(const struct ring *set, uint32_t number)
{
	return (uint64_t)(set->entries[number].serial & 0x7fffffff) << 32 | number;
}

/* End an arming; completions of it that come later are ignored. */
static void end_arming(struct ring *set, uint32_t number)
{
	set->entries[number].serial++;
	set->entries[number].armed = false;
}

static void ring_cancel(struct timers *timers, uint32_t number)
{
	struct ring *set = (struct ring *)timers;
	struct io_uring_sqe *sqe = next_sqe(set);

	if (!set->entries[number].armed)
		fail("io_uring: not armed");
	io_uring_prep_timeout_remove(sqe, user_data(set, number), 0);
	io_uring_sqe_set_data64(sqe, CONTROL);
	set->want += usage.measured ? 2 : 0;
	end_arming(set, number);
}

/* The time for the last operation. */
static struct __kernel_timespec *time_of_last(struct ring *set, uint64_t expires_ns)
{
	struct __kernel_timespec *time = &set->times[set->nr - 1];

	time->tv_sec = expires_ns / NSEC_PER_SEC;
	time->tv_nsec = expires_ns % NSEC_PER_SEC;
	return time;
}

/* To move a timeout, remove it and arm it again, because an update fails if it has fired. */
static void ring_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct ring *set = (struct ring *)timers;
	struct io_uring_sqe *sqe;

	if (set->entries[number].armed)
		ring_cancel(timers, number);
	sqe = next_sqe(set);
	io_uring_prep_timeout(sqe, time_of_last(set, expires_ns), 0, IORING_TIMEOUT_ABS);
	io_uring_sqe_set_data64(sqe, user_data(set, number));
	set->entries[number].armed = true;
}

static void ring_move(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct ring *set = (struct ring *)timers;
	struct io_uring_sqe *sqe = next_sqe(set);

	io_uring_prep_timeout_update(sqe, time_of_last(set, expires_ns), user_data(set, number),
				     IORING_TIMEOUT_ABS);
	io_uring_sqe_set_data64(sqe, CONTROL);
	set->want += usage.measured ? 1 : 0;
}

/* Returns whether a timeout has fired that was neither moved nor cancelled since. */
static bool has_fired(struct ring *set, const struct io_uring_cqe *cqe)
{
	uint32_t number = cqe->user_data;

	if (cqe->user_data & CONTROL) {
		if (cqe->res && cqe->res != -ENOENT)
			check(cqe->res, "io_uring: cancel");
		return false;
	}
	if (cqe->user_data != user_data(set, number) || !set->entries[number].armed)
		return false;
	if (cqe->res != -ETIME)
		check(cqe->res, "io_uring: timeout");
	return true;
}

/* Wait for timeouts that fire, and return their number. */
static unsigned int count_fired(struct ring *set)
{
	unsigned int got = 0, head;
	struct io_uring_cqe *cqe;

	check(io_uring_wait_cqe(&set->ring, &cqe), "io_uring_wait_cqe");
	io_uring_for_each_cqe(&set->ring, head, cqe) {
		if (cqe->res != -ETIME)
			fail("io_uring: fired");
		got++;
	}
	io_uring_cq_advance(&set->ring, got);
	return got;
}

static unsigned int ring_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	struct ring *set = (struct ring *)timers;
	unsigned int nr = 0, seen = 0, head;
	struct io_uring_cqe *cqe;

	(void)now_ns;
	ring_flush(timers);
	if (usage.measured)
		return count_fired(set);
	if (!io_uring_cq_ready(&set->ring) && io_uring_get_events(&set->ring) < 0)
		fail("io_uring: get_events");
	io_uring_for_each_cqe(&set->ring, head, cqe) {
		if (nr == usage.batch)
			break;
		seen++;
		if (!has_fired(set, cqe))
			continue;
		numbers[nr] = cqe->user_data;
		end_arming(set, numbers[nr++]);
	}
	io_uring_cq_advance(&set->ring, seen);
	return nr;
}

static int ring_fd(struct timers *timers)
{
	return ((struct ring *)timers)->ring.ring_fd;
}

const struct backend backend_io_uring = {
	.name	= "io_uring",
	.open	= ring_open,
	.close	= ring_close,
	.arm	= ring_arm,
	.move	= ring_move,
	.cancel	= ring_cancel,
	.flush	= ring_flush,
	.take	= ring_take,
	.fd	= ring_fd,
};

#endif /* NO_IO_URING */
