// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring timeouts: IORING_OP_TIMEOUT with an absolute time, its update and its removal. A
 * removal has two completions, its own and that of the timeout.
 */
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "system.h"

#define COMPLETIONS	65536		/* maximum size of a ring */

static struct io_uring ring;
static struct __kernel_timespec *times;

static int make_ring(void)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
			 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = COMPLETIONS,
	};

	return io_uring_queue_init_params(BATCH, &ring, &params);
}

bool io_uring_works(void)
{
	if (make_ring())
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

static void io_uring_open(unsigned int n)
{
	(void)n;
	if (make_ring())
		die("io_uring_queue_init_params");
	times = array(BATCH, sizeof(*times));
}

static void io_uring_close(void)
{
	io_uring_queue_exit(&ring);
	free(times);
}

static void prepare(enum action verb, uint32_t number, struct __kernel_timespec *time)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	time->tv_sec = deadlines[number] / NSEC_PER_SEC;
	time->tv_nsec = deadlines[number] % NSEC_PER_SEC;
	switch (verb) {
	case ARM:
		io_uring_prep_timeout(sqe, time, 0, IORING_TIMEOUT_ABS);
		break;
	case REARM:
		io_uring_prep_timeout_update(sqe, time, number, IORING_TIMEOUT_ABS);
		break;
	case CANCEL:
		io_uring_prep_timeout_remove(sqe, number, 0);
		break;
	}
	io_uring_sqe_set_data64(sqe, number);
}

/* Take the completions of the operations and check their results. */
static void reap(enum action verb, unsigned int nr)
{
	unsigned int want = verb == ARM ? 0 : verb == REARM ? nr : 2 * nr;
	unsigned int got = 0, head;
	struct io_uring_cqe *cqe;

	io_uring_for_each_cqe(&ring, head, cqe) {
		if (cqe->res != 0 && cqe->res != -ECANCELED)
			die("io_uring: result");
		got++;
	}
	if (got != want)
		die("io_uring: completions");
	io_uring_cq_advance(&ring, got);
}

static void submit(enum action verb, unsigned int nr)
{
	unsigned int want = verb == ARM ? 0 : verb == REARM ? nr : 2 * nr;
	int ret;

	clock_start();
	ret = io_uring_submit_and_wait(&ring, want);
	clock_stop();
	if (ret != (int)nr)
		die("io_uring_submit");
	reap(verb, nr);
}

static void io_uring_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		prepare(verb, which[i], &times[0]);
		submit(verb, 1);
	}
}

static void io_uring_batch(enum action verb, const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i += BATCH) {
		unsigned int in_call = at_most(nr - i, BATCH);

		for (unsigned int j = 0; j < in_call; j++)
			prepare(verb, which[i + j], &times[j]);
		submit(verb, in_call);
	}
}

static unsigned int io_uring_collect(void)
{
	unsigned int got = 0, head;
	struct io_uring_cqe *cqe;

	if (io_uring_wait_cqe(&ring, &cqe))
		die("io_uring_wait_cqe");
	io_uring_for_each_cqe(&ring, head, cqe) {
		if (cqe->res != -ETIME)
			die("io_uring: fired");
		got++;
	}
	io_uring_cq_advance(&ring, got);
	return got;
}

const struct system system_io_uring = {
	.name		= "io_uring",
	.verbs		= 1 << ARM | 1 << REARM | 1 << CANCEL,
	.max		= 1000000,
	.search		= 1024,
	.open		= io_uring_open,
	.close		= io_uring_close,
	.single		= io_uring_single,
	.batch		= io_uring_batch,
	.collect	= io_uring_collect,
};
