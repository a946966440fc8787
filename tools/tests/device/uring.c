// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of an io_uring. A read completes at once if there are events, and otherwise
 * waits without a thread. SUBMIT as a command completes at once.
 */
#include <dirent.h>

#include "memory.h"
#include "ring.h"

#define DEPTH		RING_ENTRIES
#define MS		NSEC_PER_MSEC

static void start_read(struct ring *ring, int fd, void *buffer, size_t size, __u64 tag)
{
	struct io_uring_sqe *sqe = ring_prepare(ring, IORING_OP_READ, fd, tag);

	sqe->addr = (uintptr_t)buffer;
	sqe->len = size;
	sqe->off = -1;
	ring_submit(ring);
}

static int read_through(struct ring *ring, int fd, void *buffer, size_t size)
{
	__u64 tag;

	start_read(ring, fd, buffer, size, 1);
	return ring_wait(ring, &tag);
}

/* Number of threads of this process that the kernel has made to block for requests. */
static int count_workers(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int nr = 0;

	CHECK(tasks);
	while ((task = readdir(tasks))) {
		char path[300], name[16] = "";
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, name, sizeof(name)) > 0)
			nr += !strncmp(name, "iou-wrk", strlen("iou-wrk"));
		close(fd);
	}
	closedir(tasks);
	return nr;
}

static void read_of_unread_events_completes_at_once(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_event events[8];

	for (int i = 0; i < 3; i++)
		arm_fired(fd, i);
	CHECK_EQ(read_through(&ring, fd, events, sizeof(events)), 3 * sizeof(events[0]));
	for (int i = 0; i < 3; i++) {
		check_event(&events[i]);
		CHECK_EQ(events[i].cookie, i);
	}
	CHECK_EQ(count_workers(), 0);
	check_no_event(fd);
}

static void read_without_events_is_eagain_with_rwf_nowait(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct io_uring_sqe *sqe = ring_prepare(&ring, IORING_OP_READ, fd, 1);
	struct twheel_event event;
	__u64 tag;

	sqe->addr = (uintptr_t)&event;
	sqe->len = sizeof(event);
	sqe->off = -1;
	sqe->rw_flags = RWF_NOWAIT;
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, &tag), -EAGAIN);
	CHECK_EQ(count_workers(), 0);
}

static void check_waits(int flags)
{
	struct ring ring = ring_open(0);
	int fd = device_open(flags);
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	CHECK(!ring_done(&ring));
	CHECK_EQ(count_workers(), 0);
	arm(fd, 30 * MS, 7);
	CHECK_EQ(ring_wait(&ring, &tag), sizeof(event));
	check_event(&event);
	CHECK_EQ(event.cookie, 7);
	CHECK_EQ(count_workers(), 0);
	CHECK_EQ(info(fd).live, 0);
}

static void read_without_events_waits_without_a_thread(void)
{
	check_waits(O_RDWR);
}

/* The request waits, which does not block a thread. */
static void read_without_events_waits_on_a_nonblocking_descriptor(void)
{
	check_waits(O_RDWR | O_NONBLOCK);
}

static void reads_that_wait_get_one_event_each(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_event events[DEPTH];
	__u8 seen[DEPTH] = { 0 };
	__u64 tag;

	arm_many(fd, DEPTH, 30 * MS, 300 * NSEC_PER_USEC, 0, NULL);
	for (int i = 0; i < DEPTH; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
	for (int i = 0; i < DEPTH; i++) {
		CHECK_EQ(ring_wait(&ring, &tag), sizeof(events[0]));
		check_event(&events[tag]);
		CHECK(events[tag].cookie < DEPTH);
		CHECK_EQ(seen[events[tag].cookie]++, 0);
	}
	CHECK(!ring_done(&ring));
	CHECK_EQ(info(fd).live, 0);
}

static void one_event_ends_one_read_of_two(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_event events[2];
	__u64 first, second;

	start_read(&ring, fd, &events[0], sizeof(events[0]), 0);
	start_read(&ring, fd, &events[1], sizeof(events[1]), 1);
	arm(fd, MS, 7);
	CHECK_EQ(ring_wait(&ring, &first), sizeof(events[0]));
	CHECK_EQ(events[first].cookie, 7);
	sleep_ns(20 * MS);
	CHECK(!ring_done(&ring));
	arm(fd, MS, 8);
	CHECK_EQ(ring_wait(&ring, &second), sizeof(events[0]));
	CHECK_EQ(events[second].cookie, 8);
	CHECK(first != second);
}

static void read_into_less_than_a_record_is_einval(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_event event;

	arm_fired(fd, 7);
	CHECK_EQ(read_through(&ring, fd, &event, sizeof(event) - 1), -EINVAL);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void read_at_bad_address_is_efault_and_loses_nothing(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	arm_fired(fd, 7);
	CHECK_EQ(read_through(&ring, fd, map_unusable(), sizeof(struct twheel_event)), -EFAULT);
	CHECK_EQ(info(fd).ready, 1);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* At the time of the request there was no event to copy. */
static void waiting_read_at_bad_address_is_efault_and_loses_nothing(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 tag;

	start_read(&ring, fd, map_unusable(), sizeof(struct twheel_event), 1);
	arm(fd, MS, 7);
	CHECK_EQ(ring_wait(&ring, &tag), -EFAULT);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void read_that_is_cancelled_loses_nothing(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct io_uring_sqe *sqe;
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	sqe = ring_prepare(&ring, IORING_OP_ASYNC_CANCEL, -1, 2);
	sqe->addr = 1;
	ring_submit(&ring);
	for (int i = 0; i < 2; i++) {
		int ret = ring_wait(&ring, &tag);

		CHECK_EQ(ret, tag == 1 ? -ECANCELED : 0);
	}
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void reads_that_wait_get_the_end_after_stop(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR), ends = 0;
	struct twheel_event events[4];
	__u64 tag;

	arm(fd, HOUR, 7);
	for (int i = 0; i < 4; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
	CHECK_EQ(stop(fd), 0);
	for (int i = 0; i < 4; i++) {
		int ret = ring_wait(&ring, &tag);

		if (!ret)
			ends++;
		else
			CHECK_EQ(ret, sizeof(events[0]));
	}
	CHECK_EQ(ends, 3);
}

static void start_poll(struct ring *ring, int fd, __u64 tag)
{
	ring_prepare(ring, IORING_OP_POLL_ADD, fd, tag)->poll_events = POLLIN;
	ring_submit(ring);
}

static void poll_request_completes_with_the_event(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 tag;

	start_poll(&ring, fd, 1);
	CHECK(!ring_done(&ring));
	arm(fd, MS, 7);
	CHECK(ring_wait(&ring, &tag) & POLLIN);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void poll_request_completes_with_the_end(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 tag;

	start_poll(&ring, fd, 1);
	CHECK(!ring_done(&ring));
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(ring_wait(&ring, &tag), POLLHUP);
	/* The end is permanent. */
	start_poll(&ring, fd, 2);
	CHECK_EQ(ring_wait(&ring, &tag), POLLHUP);
}

/* First the event of STOP, and after it was read the end. */
static void poll_request_completes_with_what_stop_leaves(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_event event = { 0 };
	__u64 tag;

	arm(fd, HOUR, 7);
	start_poll(&ring, fd, 1);
	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(ring_wait(&ring, &tag), POLLIN);
	CHECK_EQ(read_through(&ring, fd, &event, sizeof(event)), sizeof(event));
	CHECK_EQ(event.flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	start_poll(&ring, fd, 2);
	CHECK_EQ(ring_wait(&ring, &tag), POLLHUP);
	CHECK_EQ(read_through(&ring, fd, &event, sizeof(event)), 0);
}

/* The request holds a reference to the file, so the context ends with the request. */
static void close_leaves_a_waiting_read(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	arm(fd, 30 * MS, 7);
	close(fd);
	CHECK_EQ(ring_wait(&ring, &tag), sizeof(event));
	CHECK_EQ(event.cookie, 7);
}

static void exit_with_waiting_reads_is_clean(void)
{
	struct ring ring = ring_open(0);
	static struct twheel_event events[DEPTH];
	int fd = device_open(O_RDWR);

	arm_many(fd, 1000, 10 * MS, 100 * NSEC_PER_USEC, 0, NULL);
	for (int i = 0; i < DEPTH; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
	CHECK_EQ(count_workers(), 0);
}

/* One request reads all events, each into a buffer that the kernel takes from a group. */

#define GROUP		5
#define NR_BUFFERS	16

static void give_buffers(struct ring *ring, struct twheel_event *events, int first, int nr)
{
	struct io_uring_sqe *sqe = ring_prepare(ring, IORING_OP_PROVIDE_BUFFERS, nr, 1000);
	__u64 tag;

	sqe->addr = (uintptr_t)&events[first];
	sqe->len = sizeof(events[0]);
	sqe->off = first;
	sqe->buf_group = GROUP;
	ring_submit(ring);
	CHECK(ring_wait(ring, &tag) >= 0);
	CHECK_EQ(tag, 1000);
}

static void start_multishot(struct ring *ring, int fd)
{
	struct io_uring_sqe *sqe = ring_prepare(ring, RING_READ_MULTISHOT, fd, 1);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	ring_submit(ring);
}

/* Returns the buffer with the next event. */
static int wait_multishot(struct ring *ring)
{
	struct ring_result result = ring_wait_result(ring);

	if (result.res == -EINVAL)
		ktap_skip("this kernel cannot read again and again");
	CHECK_EQ(result.res, sizeof(struct twheel_event));
	CHECK(result.flags & IORING_CQE_F_BUFFER);
	return result.flags >> IORING_CQE_BUFFER_SHIFT;
}

static void check_multishot(struct ring *ring, const struct twheel_event *events, __u64 cookie)
{
	int buffer = wait_multishot(ring);

	CHECK(buffer < NR_BUFFERS);
	check_event(&events[buffer]);
	CHECK_EQ(events[buffer].cookie, cookie);
}

/* Events that are there, single events, and a burst: each is delivered at once. */
static void read_multishot_gets_all_events(void)
{
	static struct twheel_event events[NR_BUFFERS];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	for (int i = 0; i < 3; i++)
		arm_fired(fd, i);
	give_buffers(&ring, events, 0, NR_BUFFERS);
	start_multishot(&ring, fd);
	for (int i = 0; i < 3; i++)
		check_multishot(&ring, events, i);
	for (int i = 3; i < 6; i++) {
		CHECK(!ring_done(&ring));
		arm(fd, MS, i);
		check_multishot(&ring, events, i);
	}
	arm_many(fd, 10, MS, 0, 6, NULL);
	for (int i = 6; i < 16; i++)
		wait_multishot(&ring);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(count_workers(), 0);
}

/* Events for which there is no buffer stay. */
static void read_multishot_without_buffers_loses_nothing(void)
{
	static struct twheel_event events[NR_BUFFERS];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 tag;

	for (int i = 0; i < NR_BUFFERS + 3; i++)
		arm_fired(fd, i);
	give_buffers(&ring, events, 0, NR_BUFFERS);
	start_multishot(&ring, fd);
	for (int i = 0; i < NR_BUFFERS; i++)
		check_multishot(&ring, events, i);
	CHECK_EQ(ring_wait(&ring, &tag), -ENOBUFS);
	CHECK_EQ(info(fd).ready, 3);
	give_buffers(&ring, events, 0, NR_BUFFERS);
	start_multishot(&ring, fd);
	for (int i = 0; i < 3; i++)
		check_multishot(&ring, events, NR_BUFFERS + i);
}

static void read_multishot_ends_with_the_end(void)
{
	static struct twheel_event events[NR_BUFFERS];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct ring_result last;

	arm_fired(fd, 0);
	for (int i = 1; i < 4; i++)
		arm(fd, i * HOUR, i);
	give_buffers(&ring, events, 0, NR_BUFFERS);
	start_multishot(&ring, fd);
	check_multishot(&ring, events, 0);
	CHECK_EQ(stop(fd), 0);
	for (int i = 1; i < 4; i++) {
		int buffer = wait_multishot(&ring);

		CHECK_EQ(events[buffer].cookie, i);
		CHECK_EQ(events[buffer].flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	}
	last = ring_wait_result(&ring);
	CHECK_EQ(last.res, 0);
	CHECK(!(last.flags & IORING_CQE_F_MORE));
}

/* SUBMIT as a command */

static struct io_uring_sqe *prepare_command(struct ring *ring, int fd, const struct twheel_op *ops,
					    __u32 nr, __u64 tag)
{
	struct io_uring_sqe *sqe = ring_prepare(ring, IORING_OP_URING_CMD, fd, tag);
	struct twheel_uring_submit *submit = (void *)sqe->cmd;

	sqe->cmd_op = TWHEEL_IOC_SUBMIT;
	submit->ops = (uintptr_t)ops;
	submit->nr = nr;
	submit->op_size = sizeof(*ops);
	return sqe;
}

/* Returns the result of one command. */
static int command(struct ring *ring, int fd, const struct twheel_op *ops, __u32 nr)
{
	__u64 tag;
	int ret;

	prepare_command(ring, fd, ops, nr, 77);
	ring_submit(ring);
	ret = ring_wait(ring, &tag);
	CHECK_EQ(tag, 77);
	return ret;
}

static void command_runs_a_mix_in_order(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 1), fired = arm_fired(fd, 9);
	struct twheel_op ops[] = {
		op_get(id),
		op_mod(id, 2 * HOUR, 0, 2),
		op_get(id),
		op_arm(HOUR, 0, 3),
		op_arm(~0ULL, 0, 4),
		op_cancel(id),
		op_cancel(id),
		op_cancel(fired),
	};

	CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[0].cookie, 1);
	CHECK_EQ(ops[1].result, 0);
	CHECK_EQ(ops[2].cookie, 2);
	CHECK(ops[2].expires_ns > HOUR);
	CHECK_EQ(ops[3].result, 0);
	CHECK_EQ(ops[4].result, -EINVAL);
	CHECK_EQ(ops[5].result, 0);
	CHECK_EQ(ops[6].result, -ENOENT);
	CHECK_EQ(ops[7].result, TWHEEL_WITHDRAWN);
	CHECK_EQ(cancel(fd, ops[3].id), 0);
	CHECK_EQ(info(fd).live, 0);
}

static void command_of_any_length_arms_and_cancels_all(void)
{
	static const __u32 lengths[] = { 1, 2, 12, 13, 63, 64, 65, 128, 1000, 5000 };
	struct twheel_op *ops = calloc(5000, sizeof(*ops));
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
		for (__u32 i = 0; i < lengths[l]; i++)
			ops[i] = op_arm(HOUR + i, 0, i);
		CHECK_EQ(command(&ring, fd, ops, lengths[l]), lengths[l]);
		CHECK_EQ(info(fd).live, lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++) {
			CHECK_EQ(ops[i].result, 0);
			ops[i] = op_cancel(ops[i].id);
		}
		CHECK_EQ(command(&ring, fd, ops, lengths[l]), lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++)
			CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(info(fd).live, 0);
	}
}

static void command_completes_at_once(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	for (int i = 0; i < 20; i++) {
		__u64 tag;

		prepare_command(&ring, fd, &op, 1, i);
		ring_submit(&ring);
		CHECK(ring_done(&ring));
		CHECK_EQ(ring_wait(&ring, &tag), 1);
		CHECK_EQ(tag, i);
	}
	CHECK_EQ(info(fd).live, 20);
	CHECK_EQ(count_workers(), 0);
}

static void command_of_none_does_nothing(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(command(&ring, fd, NULL, 0), 0);
	CHECK_EQ(command(&ring, fd, map_unusable(), 0), 0);
	CHECK_EQ(info(fd).live, 0);
}

static void command_with_another_op_size_is_einval(void)
{
	static const __u32 sizes[] = { 0, 1, 48, 55, 57, 64, 112, ~0U };
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 tag;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct io_uring_sqe *sqe = prepare_command(&ring, fd, &op, i % 2, 1);

		((struct twheel_uring_submit *)sqe->cmd)->op_size = sizes[i];
		ring_submit(&ring);
		CHECK_EQ(ring_wait(&ring, &tag), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* Only SUBMIT is a command, whatever ioctls exist. */
static void other_command_is_eopnotsupp(void)
{
	static const __u32 commands[] = {
		0, 1, ~0U, TWHEEL_IOC_INFO, TWHEEL_IOC_SETUP, TWHEEL_IOC_ARM, TWHEEL_IOC_MOD,
		TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET, TWHEEL_IOC_CANCEL_ALL, TWHEEL_IOC_STOP,
		TWHEEL_IOC_LIST, TWHEEL_IOC_STATS, TWHEEL_IOC_TRIM,
	};
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 tag;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		prepare_command(&ring, fd, &op, 1, 1)->cmd_op = commands[i];
		ring_submit(&ring);
		CHECK_EQ(ring_wait(&ring, &tag), -EOPNOTSUPP);
	}
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(info(fd).flags, 0);
}

static void command_on_read_only_descriptor_is_ebadf(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDONLY);

	CHECK_EQ(command(&ring, fd, &op, 1), -EBADF);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(command(&ring, device_open(O_WRONLY), &op, 1), 1);
}

static void command_at_bad_address_is_efault(void)
{
	const struct twheel_op op = op_arm(0, 0, 0);
	struct bad_address bad[NR_BAD_ADDRESSES];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ROW(command(&ring, fd, bad[i].address, 1), -EFAULT, bad[i].name);
		CHECK_ROW(command(&ring, fd, bad[i].address, 1000), -EFAULT, bad[i].name);
	}
	CHECK_EQ(command(&ring, fd, map_read_only(&op, sizeof(op)), 1), -EFAULT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(20 * MS);
	check_no_event(fd);
}

static void command_tells_how_many_lie_before_a_bad_page(void)
{
	static const __u32 usable[] = { 1, 5, 32, 100, 1000 };
	struct ring ring = ring_open(0);

	for (size_t i = 0; i < ARRAY_SIZE(usable); i++) {
		struct twheel_op *ops = map_before(usable[i] * sizeof(*ops), PROT_NONE);
		int fd = device_open(O_RDWR);

		for (__u32 n = 0; n < usable[i]; n++)
			ops[n] = op_arm(HOUR, 0, n);
		CHECK_EQ(command(&ring, fd, ops, usable[i] + 20), usable[i]);
		CHECK_EQ(info(fd).live, usable[i]);
		for (__u32 n = 0; n < usable[i]; n++)
			CHECK_EQ(cancel(fd, ops[n].id), 0);
		close(fd);
	}
}

static void commands_are_carried_out_in_their_order(void)
{
	struct twheel_op ops[DEPTH];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 1000), tag;

	for (int i = 0; i < DEPTH; i++) {
		ops[i] = i % 2 ? op_get(id) : op_mod(id, HOUR, 0, i);
		prepare_command(&ring, fd, &ops[i], 1, i);
	}
	ring_submit(&ring);
	for (int i = 0; i < DEPTH; i++) {
		CHECK_EQ(ring_wait(&ring, &tag), 1);
		CHECK_EQ(tag, i);
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(ops[i].cookie, i / 2 * 2);
	}
}

/* A result other than 0 is not a failure. */
static void command_that_succeeds_does_not_break_a_chain(void)
{
	struct twheel_op ops[] = { op_arm(HOUR, 0, 1), op_arm(~0ULL, 0, 2), op_arm(MS, 0, 3) };
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_event event;
	struct io_uring_sqe *sqe;
	__u64 tag;

	prepare_command(&ring, fd, &ops[0], 2, 1)->flags = IOSQE_IO_LINK;
	prepare_command(&ring, fd, &ops[2], 1, 2)->flags = IOSQE_IO_LINK;
	sqe = ring_prepare(&ring, IORING_OP_READ, fd, 3);
	sqe->addr = (uintptr_t)&event;
	sqe->len = sizeof(event);
	sqe->off = -1;
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, &tag), 2);
	CHECK_EQ(tag, 1);
	CHECK_EQ(ring_wait(&ring, &tag), 1);
	CHECK_EQ(tag, 2);
	CHECK_EQ(ring_wait(&ring, &tag), sizeof(event));
	CHECK_EQ(tag, 3);
	CHECK_EQ(event.cookie, 3);
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[1].result, -EINVAL);
}

static void command_that_fails_breaks_a_chain(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 1);
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 tag;

	prepare_command(&ring, fd, map_unusable(), 1, 1)->flags = IOSQE_IO_LINK;
	prepare_command(&ring, fd, &op, 1, 2);
	ring_submit(&ring);
	for (int i = 0; i < 2; i++) {
		int ret = ring_wait(&ring, &tag);

		CHECK_EQ(ret, tag == 1 ? -EFAULT : -ECANCELED);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* A worker thread carries it out, with the memory of this process. */
static void command_can_be_left_to_a_worker(void)
{
	struct twheel_op ops[100];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	__u64 tag;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, i);
	prepare_command(&ring, fd, ops, ARRAY_SIZE(ops), 1)->flags = IOSQE_ASYNC;
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, &tag), ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(cancel(fd, ops[i].id), 0);
}

static void command_can_be_left_to_the_thread_of_the_ring(void)
{
	struct ring ring = ring_open(IORING_SETUP_SQPOLL);
	int fd = device_open(O_RDWR);

	for (int round = 0; round < 20; round++) {
		struct twheel_op ops[100];

		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = op_arm(HOUR, 0, i);
		CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
		CHECK_EQ(info(fd).live, ARRAY_SIZE(ops));
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = op_cancel(ops[i].id);
		CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			CHECK_EQ(ops[i].result, 0);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* A command that arms a timeout begins the context, like any other call. */
static void setup_after_a_command_that_armed_none_is_allowed(void)
{
	struct twheel_op ops[] = { op_arm(~0ULL, 0, 0), op_cancel(1) };
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	CHECK_EQ(command(&ring, fd, NULL, 0), 0);
	CHECK_EQ(command(&ring, fd, map_unusable(), 1), -EFAULT);
	CHECK_EQ(try_setup(fd, setup_clock(CLOCK_BOOTTIME)), 0);
	fd = device_open(O_RDWR);
	ops[0] = op_arm(HOUR, 0, 0);
	CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	CHECK_EQ(try_setup(fd, setup_clock(CLOCK_BOOTTIME)), -EBUSY);
}

static void command_after_stop_arms_none(void)
{
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR);
	struct twheel_op ops[] = { op_arm(0, 0, 0), op_cancel(arm(fd, HOUR, 7)), op_arm(0, 0, 0) };
	struct twheel_event event;

	CHECK_EQ(stop(fd), 0);
	CHECK_EQ(command(&ring, fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, -ESHUTDOWN);
	CHECK_EQ(ops[1].result, TWHEEL_WITHDRAWN);
	CHECK_EQ(ops[2].result, -ESHUTDOWN);
	CHECK_EQ(read_through(&ring, fd, &event, sizeof(event)), 0);
}

/* Like a server, arm, read and cancel only through the ring. */
static void commands_and_reads_share_a_ring(void)
{
	struct twheel_op ops[8];
	struct twheel_event events[8];
	struct ring ring = ring_open(0);
	int fd = device_open(O_RDWR | O_NONBLOCK), got = 0;

	start_read(&ring, fd, events, sizeof(events), 1);
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = op_arm(i * MS / 8, 0, i);
		prepare_command(&ring, fd, ops, ARRAY_SIZE(ops), 2);
		ring_submit(&ring);
		for (int left = 1; left; ) {
			__u64 tag;
			int ret = ring_wait(&ring, &tag);

			if (tag == 2) {
				CHECK_EQ(ret, ARRAY_SIZE(ops));
				left = 0;
				continue;
			}
			CHECK(ret > 0);
			got += ret / sizeof(events[0]);
			start_read(&ring, fd, events, sizeof(events), 1);
		}
	}
	while (got < 50 * 8) {
		__u64 tag;
		int ret = ring_wait(&ring, &tag);

		CHECK(ret > 0);
		got += ret / sizeof(events[0]);
		start_read(&ring, fd, events, sizeof(events), 1);
	}
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(count_workers(), 0);
}

static const struct ktap_test tests[] = {
	TEST(read_of_unread_events_completes_at_once),
	TEST(read_without_events_is_eagain_with_rwf_nowait),
	TEST(read_without_events_waits_without_a_thread),
	TEST(read_without_events_waits_on_a_nonblocking_descriptor),
	TEST(reads_that_wait_get_one_event_each),
	TEST(one_event_ends_one_read_of_two),
	TEST(read_into_less_than_a_record_is_einval),
	TEST(read_at_bad_address_is_efault_and_loses_nothing),
	TEST(waiting_read_at_bad_address_is_efault_and_loses_nothing),
	TEST(read_that_is_cancelled_loses_nothing),
	TEST(reads_that_wait_get_the_end_after_stop),
	TEST(poll_request_completes_with_the_event),
	TEST(poll_request_completes_with_the_end),
	TEST(poll_request_completes_with_what_stop_leaves),
	TEST(close_leaves_a_waiting_read),
	TEST(exit_with_waiting_reads_is_clean),
	TEST(read_multishot_gets_all_events),
	TEST(read_multishot_without_buffers_loses_nothing),
	TEST(read_multishot_ends_with_the_end),
	TEST(command_runs_a_mix_in_order),
	TEST(command_of_any_length_arms_and_cancels_all),
	TEST(command_completes_at_once),
	TEST(command_of_none_does_nothing),
	TEST(command_with_another_op_size_is_einval),
	TEST(other_command_is_eopnotsupp),
	TEST(command_on_read_only_descriptor_is_ebadf),
	TEST(command_at_bad_address_is_efault),
	TEST(command_tells_how_many_lie_before_a_bad_page),
	TEST(commands_are_carried_out_in_their_order),
	TEST(command_that_succeeds_does_not_break_a_chain),
	TEST(command_that_fails_breaks_a_chain),
	TEST(command_can_be_left_to_a_worker),
	TEST(command_can_be_left_to_the_thread_of_the_ring),
	TEST(setup_after_a_command_that_armed_none_is_allowed),
	TEST(command_after_stop_arms_none),
	TEST(commands_and_reads_share_a_ring),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
