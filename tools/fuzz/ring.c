// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/io_uring.h>

#include "ring.h"

#define ENTRIES		4

static struct ring {
	int			fd;
	unsigned int		*sq_tail, *sq_array, *cq_head, *cq_tail;
	unsigned int		sq_mask, cq_mask;
	struct io_uring_sqe	*sqes;
	struct io_uring_cqe	*cqes;
} ring = { .fd = -1 };

static void *map(int fd, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
}

void ring_init(void)
{
	struct io_uring_params p = { 0 };
	int fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
	char *rings;

	if (fd < 0)
		return;
	rings = map(fd, p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqes) +
			p.sq_entries * sizeof(*ring.sq_array), IORING_OFF_SQ_RING);
	ring.sqes = map(fd, p.sq_entries * sizeof(*ring.sqes), IORING_OFF_SQES);
	if (rings == MAP_FAILED || ring.sqes == MAP_FAILED)
		return;
	ring.sq_tail = (void *)(rings + p.sq_off.tail);
	ring.sq_array = (void *)(rings + p.sq_off.array);
	ring.sq_mask = *(unsigned int *)(rings + p.sq_off.ring_mask);
	ring.cq_head = (void *)(rings + p.cq_off.head);
	ring.cq_tail = (void *)(rings + p.cq_off.tail);
	ring.cq_mask = *(unsigned int *)(rings + p.cq_off.ring_mask);
	ring.cqes = (void *)(rings + p.cq_off.cqes);
	ring.fd = fd;
}

int ring_available(void)
{
	return ring.fd >= 0;
}

static void prepare(int fd, const struct twheel_submit *submit)
{
	unsigned int tail = *ring.sq_tail, index = tail & ring.sq_mask;
	struct io_uring_sqe *sqe = &ring.sqes[index];
	struct twheel_uring_submit *command = (void *)sqe->cmd;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = TWHEEL_URING_SUBMIT;
	command->ops = submit->ops;
	command->nr = submit->nr;
	command->op_size = submit->op_size;
	command->flags = submit->flags;
	ring.sq_array[index] = index;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* The command completes inline, so its completion is there on return. */
int ring_submit(int fd, const struct twheel_submit *submit)
{
	unsigned int head = *ring.cq_head;
	int ret;

	prepare(fd, submit);
	ret = syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0);
	if (ret != 1)
		return ret < 0 ? -errno : -EPROTO;
	if (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) == head)
		return -EINPROGRESS;
	ret = ring.cqes[head & ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	return ret;
}
