/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An io_uring by system calls, because liburing exists only for 64-bit programs.
 */
#ifndef TWHEEL_TESTS_RING_H
#define TWHEEL_TESTS_RING_H

#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>

#include "device.h"

#define RING_ENTRIES	64

/* Missing in some headers. */
#define RING_READ_MULTISHOT	49

struct ring {
	int fd;
	int polled;			/* a kernel thread polls it */
	unsigned int *sq_head;
	unsigned int *sq_tail;
	unsigned int *sq_flags;
	unsigned int *sq_array;
	unsigned int *cq_head;
	unsigned int *cq_tail;
	unsigned int sq_mask;
	unsigned int cq_mask;
	unsigned int tail;		/* tail, including prepared requests */
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

/* Result of a request. */
struct ring_result {
	__u64 tag;
	__s32 res;
	__u32 flags;
};

static inline void *ring_map(int fd, size_t size, off_t what)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);

	CHECK(map != MAP_FAILED);
	return map;
}

static inline struct ring ring_open(unsigned int flags)
{
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = 100 };
	struct ring ring = { .polled = !!(flags & IORING_SETUP_SQPOLL) };
	size_t sq_size, cq_size;
	char *rings;

	ring.fd = syscall(SYS_io_uring_setup, RING_ENTRIES, &p);
	if (ring.fd < 0 && (errno == ENOSYS || errno == EPERM))
		ktap_skip("no io_uring");
	CHECK(ring.fd >= 0);
	CHECK(p.features & IORING_FEAT_SINGLE_MMAP);
	sq_size = p.sq_off.array + p.sq_entries * sizeof(unsigned int);
	cq_size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	rings = ring_map(ring.fd, sq_size > cq_size ? sq_size : cq_size, IORING_OFF_SQ_RING);
	ring.sqes = ring_map(ring.fd, p.sq_entries * sizeof(*ring.sqes), IORING_OFF_SQES);
	ring.sq_head = (void *)(rings + p.sq_off.head);
	ring.sq_tail = (void *)(rings + p.sq_off.tail);
	ring.sq_flags = (void *)(rings + p.sq_off.flags);
	ring.sq_array = (void *)(rings + p.sq_off.array);
	ring.sq_mask = *(unsigned int *)(rings + p.sq_off.ring_mask);
	ring.cq_head = (void *)(rings + p.cq_off.head);
	ring.cq_tail = (void *)(rings + p.cq_off.tail);
	ring.cq_mask = *(unsigned int *)(rings + p.cq_off.ring_mask);
	ring.cqes = (void *)(rings + p.cq_off.cqes);
	return ring;
}

static inline void skip_without_commands(int fd)
{
	if (!(info(fd).flags & TWHEEL_INFO_URING))
		ktap_skip("io_uring has no commands before Linux 5.19");
}

static inline int ring_enter(struct ring *ring, unsigned int nr, unsigned int wanted,
			     unsigned int flags, void *arg, size_t size)
{
	int ret = syscall(SYS_io_uring_enter, ring->fd, nr, wanted, flags, arg, size);

	return ret < 0 ? -errno : ret;
}

/* Prepare the next request; fields without an argument are 0. */
static inline struct io_uring_sqe *ring_prepare(struct ring *ring, __u8 opcode, int fd, __u64 tag)
{
	unsigned int index = ring->tail++ & ring->sq_mask;
	struct io_uring_sqe *sqe = &ring->sqes[index];

	CHECK(ring->tail - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) <= RING_ENTRIES);
	ring->sq_array[index] = index;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	sqe->user_data = tag;
	return sqe;
}

/* Prepare SUBMIT as a command. Kernels that have none are left out before. */
static inline struct io_uring_sqe *ring_prepare_command(struct ring *ring, int fd,
							const struct twheel_op *ops, __u32 nr,
							__u64 tag)
{
	struct io_uring_sqe *sqe = ring_prepare(ring, IORING_OP_URING_CMD, fd, tag);
	struct twheel_uring_submit *submit = (void *)sqe->cmd;

	sqe->cmd_op = TWHEEL_URING_SUBMIT;
	submit->ops = (uintptr_t)ops;
	submit->nr = nr;
	submit->op_size = sizeof(*ops);
	return sqe;
}

/* Submit all prepared requests. */
static inline void ring_submit(struct ring *ring)
{
	unsigned int nr = ring->tail - *ring->sq_tail;

	__atomic_store_n(ring->sq_tail, ring->tail, __ATOMIC_SEQ_CST);
	if (!ring->polled)
		CHECK_EQ(ring_enter(ring, nr, 0, 0, NULL, 0), nr);
	else if (PEEK(*ring->sq_flags) & IORING_SQ_NEED_WAKEUP)
		CHECK(ring_enter(ring, nr, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) >= 0);
}

static inline int ring_done(struct ring *ring)
{
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) != *ring->cq_head;
}

/* Wait for the next completion, up to the time limit of a test. */
static inline struct ring_result ring_wait_result(struct ring *ring)
{
	struct __kernel_timespec limit = { .tv_sec = time_limit_ns() / NSEC_PER_SEC };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&limit };
	struct ring_result result;
	struct io_uring_cqe *cqe;

	while (!ring_done(ring)) {
		int ret = ring_enter(ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
				     &arg, sizeof(arg));

		if (ret < 0 && ret != -EINTR)
			ktap_fail("a request is not done: %s", strerror(-ret));
	}
	cqe = &ring->cqes[*ring->cq_head & ring->cq_mask];
	result = (struct ring_result) { cqe->user_data, cqe->res, cqe->flags };
	__atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
	return result;
}

/* Returns the result of the next completion, and its tag unless that is NULL. */
static inline int ring_wait(struct ring *ring, __u64 *tag)
{
	struct ring_result result = ring_wait_result(ring);

	if (tag)
		*tag = result.tag;
	return result.res;
}

#endif /* TWHEEL_TESTS_RING_H */
