// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of an io_uring. A read completes at once if there are events, and otherwise
 * waits without a thread. SUBMIT as a command does not wait for events.
 */
#define KTAP_NO_MAIN
#include <sys/uio.h>

#include "memory.h"
#include "ring.h"

#define DEPTH		RING_ENTRIES
#define MS		NSEC_PER_MSEC

/* The ring of a test. */
static struct ring ring;

static void open_ring(void)
{
	ring = ring_open(0);
}

static struct io_uring_sqe *prepare_read(int fd, void *buffer, size_t size, __u64 tag)
{
	struct io_uring_sqe *sqe = ring_prepare(&ring, IORING_OP_READ, fd, tag);

	sqe->addr = (uintptr_t)buffer;
	sqe->len = size;
	sqe->off = -1;
	return sqe;
}

static void start_read(int fd, void *buffer, size_t size, __u64 tag)
{
	prepare_read(fd, buffer, size, tag);
	ring_submit(&ring);
}

/* Each event has a buffer; the tags are the indices. */
static void start_reads(int fd, struct twheel_event *events, int nr)
{
	for (int i = 0; i < nr; i++)
		start_read(fd, &events[i], sizeof(events[i]), i);
}

static int read_through(int fd, void *buffer, size_t size)
{
	start_read(fd, buffer, size, 1);
	return ring_wait(&ring, NULL);
}

static int is_worker(pid_t tid)
{
	char name[17];

	return read_task(tid, "comm", name, sizeof(name)) &&
	       !strncmp(name, "iou-wrk", strlen("iou-wrk"));
}

/* Number of threads of this process that the kernel has made to block for requests. */
static int count_workers(void)
{
	return sum_over_tasks(is_worker);
}

TEST(read_of_unread_events_completes_at_once)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_event events[8];

	for (int i = 0; i < 3; i++)
		arm_fired(fd, i);
	CHECK_EQ(read_through(fd, events, sizeof(events)), 3 * sizeof(events[0]));
	for (int i = 0; i < 3; i++) {
		check_event(&events[i]);
		CHECK_EQ(events[i].cookie, i);
	}
	CHECK_EQ(count_workers(), 0);
	check_no_event(fd);
}

TEST(read_without_events_is_eagain_with_rwf_nowait)
{
	struct twheel_event event;

	prepare_read(device_open(O_RDWR), &event, sizeof(event), 1)->rw_flags = RWF_NOWAIT;
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), -EAGAIN);
	CHECK_EQ(count_workers(), 0);
}

/* The request waits, which does not block a thread; so O_NONBLOCK makes no difference. */
TEST(read_without_events_waits_without_a_thread)
{
	static const int flags[] = { O_RDWR, O_RDWR | O_NONBLOCK };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		int fd = device_open(flags[i]);
		struct twheel_event event;

		ktap_note("%s", flags[i] & O_NONBLOCK ? "nonblocking" : "blocking");
		start_read(fd, &event, sizeof(event), 1);
		CHECK(!ring_done(&ring));
		CHECK_EQ(count_workers(), 0);
		arm(fd, 30 * MS, 7);
		CHECK_EQ(ring_wait(&ring, NULL), sizeof(event));
		check_event(&event);
		CHECK_EQ(event.cookie, 7);
		CHECK_EQ(count_workers(), 0);
		CHECK_EQ(info(fd).live, 0);
	}
}

/* A request that waits finds the bad address only when there is an event to copy. */
TEST(read_that_fails_loses_nothing)
{
	static const struct {
		const char *name;
		size_t size;
		bool waits;
		int ret;
	} rows[] = {
		{ "less than a record", sizeof(struct twheel_event) - 1, false, -EINVAL },
		{ "bad address", sizeof(struct twheel_event), false, -EFAULT },
		{ "bad address, waiting", sizeof(struct twheel_event), true, -EFAULT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = device_open(O_RDWR);
		struct twheel_event event;

		if (!rows[i].waits)
			arm_fired(fd, 7);
		start_read(fd, rows[i].ret == -EFAULT ? map_unusable() : &event,
			   rows[i].size, 1);
		if (rows[i].waits)
			arm(fd, MS, 7);
		CHECK_ROW(ring_wait(&ring, NULL), rows[i].ret, rows[i].name);
		CHECK_ROW(read_event(fd).cookie, 7, rows[i].name);
	}
}

TEST(read_that_is_cancelled_loses_nothing)
{
	int fd = device_open(O_RDWR);
	struct io_uring_sqe *sqe;
	struct twheel_event event;
	__u64 tag;

	start_read(fd, &event, sizeof(event), 1);
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

TEST(reads_that_wait_get_the_end_after_stop)
{
	int fd = device_open(O_RDWR), ends = 0;
	struct twheel_event events[4];

	arm(fd, HOUR, 7);
	start_reads(fd, events, 4);
	CHECK_EQ(stop(fd), 0);
	for (int i = 0; i < 4; i++) {
		int ret = ring_wait(&ring, NULL);

		if (!ret)
			ends++;
		else
			CHECK_EQ(ret, sizeof(events[0]));
	}
	CHECK_EQ(ends, 3);
}

static void start_poll(int fd, __u64 tag)
{
	ring_prepare(&ring, IORING_OP_POLL_ADD, fd, tag)->poll_events = POLLIN;
	ring_submit(&ring);
}

TEST(poll_request_completes_with_the_event)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	start_poll(fd, 1);
	CHECK(!ring_done(&ring));
	arm(fd, MS, 7);
	CHECK(ring_wait(&ring, NULL) & POLLIN);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* First the event of STOP, if there is one, and after it was read the end, which is permanent. */
TEST(poll_request_completes_with_what_stop_leaves)
{
	for (int armed = 0; armed < 2; armed++) {
		int fd = device_open(O_RDWR | O_NONBLOCK);
		struct twheel_event event = { 0 };

		ktap_note("%d armed", armed);
		if (armed)
			arm(fd, HOUR, 7);
		start_poll(fd, 1);
		CHECK(!ring_done(&ring));
		CHECK_EQ(stop(fd), 0);
		CHECK_EQ(ring_wait(&ring, NULL), armed ? POLLIN : POLLHUP);
		if (armed) {
			CHECK_EQ(read_through(fd, &event, sizeof(event)), sizeof(event));
			CHECK_EQ(event.flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
		}
		start_poll(fd, 2);
		CHECK_EQ(ring_wait(&ring, NULL), POLLHUP);
		CHECK_EQ(read_through(fd, &event, sizeof(event)), 0);
	}
}

/* The request holds a reference to the file, so the context ends with the request. */
TEST(close_leaves_a_waiting_read)
{
	int fd = device_open(O_RDWR);
	struct twheel_event event = { 0 };

	start_read(fd, &event, sizeof(event), 1);
	arm(fd, 30 * MS, 7);
	close(fd);
	CHECK_EQ(ring_wait(&ring, NULL), sizeof(event));
	CHECK_EQ(event.cookie, 7);
}

TEST(exit_with_waiting_reads_is_clean)
{
	static struct twheel_event events[DEPTH];
	int fd = device_open(O_RDWR);

	arm_many(fd, 1000, 10 * MS, 100 * NSEC_PER_USEC, 0, NULL);
	start_reads(fd, events, DEPTH);
	CHECK_EQ(count_workers(), 0);
}

/* One request reads all events, each into a buffer that the kernel takes from a group. */

#define GROUP		5
#define NR_BUFFERS	16

static struct twheel_event buffers[NR_BUFFERS];

/* Give all buffers to the group, and start to read. */
static void start_multishot(int fd)
{
	struct io_uring_sqe *sqe = ring_prepare(&ring, IORING_OP_PROVIDE_BUFFERS, NR_BUFFERS, 1000);
	__u64 tag;

	sqe->addr = (uintptr_t)buffers;
	sqe->len = sizeof(buffers[0]);
	sqe->buf_group = GROUP;
	ring_submit(&ring);
	CHECK(ring_wait(&ring, &tag) >= 0);
	CHECK_EQ(tag, 1000);
	sqe = ring_prepare(&ring, RING_READ_MULTISHOT, fd, 1);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	ring_submit(&ring);
}

static struct twheel_event wait_multishot(void)
{
	struct ring_result result = ring_wait_result(&ring);

	if (result.res == -EINVAL)
		ktap_skip("this kernel cannot read again and again");
	CHECK_EQ(result.res, sizeof(struct twheel_event));
	CHECK(result.flags & IORING_CQE_F_BUFFER);
	CHECK(result.flags >> IORING_CQE_BUFFER_SHIFT < NR_BUFFERS);
	return buffers[result.flags >> IORING_CQE_BUFFER_SHIFT];
}

static void check_multishot(__u64 cookie)
{
	struct twheel_event event = wait_multishot();

	check_event(&event);
	CHECK_EQ(event.cookie, cookie);
}

/* Events that are there, single events, and a burst: each is delivered at once. */
TEST(read_multishot_gets_all_events)
{
	int fd = device_open(O_RDWR);

	for (int i = 0; i < 3; i++)
		arm_fired(fd, i);
	start_multishot(fd);
	for (int i = 0; i < 3; i++)
		check_multishot(i);
	for (int i = 3; i < 6; i++) {
		CHECK(!ring_done(&ring));
		arm(fd, MS, i);
		check_multishot(i);
	}
	arm_many(fd, 10, MS, 0, 6, NULL);
	for (int i = 6; i < 16; i++)
		wait_multishot();
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(count_workers(), 0);
}

/* Events for which there is no buffer stay. */
TEST(read_multishot_without_buffers_loses_nothing)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);

	for (int i = 0; i < NR_BUFFERS + 3; i++)
		arm_fired(fd, i);
	start_multishot(fd);
	for (int i = 0; i < NR_BUFFERS; i++)
		check_multishot(i);
	CHECK_EQ(ring_wait(&ring, NULL), -ENOBUFS);
	CHECK_EQ(info(fd).ready, 3);
	start_multishot(fd);
	for (int i = 0; i < 3; i++)
		check_multishot(NR_BUFFERS + i);
}

TEST(read_multishot_ends_with_the_end)
{
	int fd = device_open(O_RDWR);
	bool seen[4] = { true };
	struct ring_result last;

	arm_fired(fd, 0);
	for (int i = 1; i < 4; i++)
		arm(fd, i * HOUR, i);
	start_multishot(fd);
	check_multishot(0);
	CHECK_EQ(stop(fd), 0);
	for (int i = 1; i < 4; i++) {
		struct twheel_event event = wait_multishot();

		CHECK(event.cookie < ARRAY_SIZE(seen));
		CHECK(!seen[event.cookie]);
		seen[event.cookie] = true;
		CHECK_EQ(event.flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	}
	last = ring_wait_result(&ring);
	CHECK_EQ(last.res, 0);
	CHECK(!(last.flags & IORING_CQE_F_MORE));
}

/* SUBMIT as a command */

static struct io_uring_sqe *prepare_command(int fd, const struct twheel_op *ops, __u32 nr,
					    __u64 tag)
{
	skip_without_commands(fd);
	return ring_prepare_command(&ring, fd, ops, nr, tag);
}

TEST(commands_are_refused_if_info_has_none)
{
	int fd = device_open(O_RDWR);

	if (info(fd).flags & TWHEEL_INFO_URING)
		ktap_skip("there are commands");
	ring_prepare(&ring, IORING_OP_URING_CMD, fd, 1);
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), -EINVAL);
}

TEST(command_with_a_bad_field_is_einval)
{
	static const struct twheel_uring_submit bad[] = {
		{ .op_size = 0 }, { .op_size = 48 }, { .op_size = 55 }, { .op_size = 57 },
		{ .op_size = 112 }, { .op_size = 0xffff },
		{ .op_size = 56, .flags = 1 }, { .op_size = 56, .flags = 0x8000 },
		{ .op_size = 56, .nr = 1U << 16 }, { .op_size = 56, .nr = ~0U },
	};
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct io_uring_sqe *sqe = prepare_command(fd, &op, i % 2, 1);
		struct twheel_uring_submit *submit = (void *)sqe->cmd;

		submit->op_size = bad[i].op_size;
		submit->flags = bad[i].flags;
		submit->nr |= bad[i].nr;
		ring_submit(&ring);
		CHECK_EQ(ring_wait(&ring, NULL), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* Nobody must get used to a flag of the ring that has no effect. */
TEST(command_with_a_registered_buffer_is_einval)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct iovec buffer = { &op, sizeof(op) };
	int fd = device_open(O_RDWR);

	CHECK_EQ(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1), 0);
	prepare_command(fd, &op, 1, 1)->rw_flags = 1;	/* IORING_URING_CMD_FIXED */
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), -EINVAL);
	CHECK_EQ(info(fd).live, 0);
}

/* No ioctl is a command. */
TEST(other_command_is_eopnotsupp)
{
	static const __u32 commands[] = {
		0, 1, ~0U, TWHEEL_IOC_INFO, TWHEEL_IOC_SETUP, TWHEEL_IOC_OP,
		TWHEEL_IOC_SUBMIT, TWHEEL_IOC_CANCEL_ALL, TWHEEL_IOC_STOP, TWHEEL_IOC_LIST,
		TWHEEL_IOC_STATS,
	};
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		prepare_command(fd, &op, 1, 1)->cmd_op = commands[i];
		ring_submit(&ring);
		CHECK_EQ(ring_wait(&ring, NULL), -EOPNOTSUPP);
	}
	CHECK_EQ(info(fd).live, 0);
	CHECK(!(info(fd).flags & TWHEEL_INFO_STOPPED));
}

TEST(command_on_read_only_descriptor_is_ebadf)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDONLY);

	prepare_command(fd, &op, 1, 1);
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), -EBADF);
	CHECK_EQ(info(fd).live, 0);
}

/* All of them complete at once. */
TEST(commands_are_carried_out_in_their_order)
{
	struct twheel_op ops[DEPTH];
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 1000), tag;

	for (int i = 0; i < DEPTH; i++) {
		ops[i] = i % 2 ? op_get(id) : op_mod(id, HOUR, 0, i);
		prepare_command(fd, &ops[i], 1, i);
	}
	ring_submit(&ring);
	for (int i = 0; i < DEPTH; i++) {
		CHECK(ring_done(&ring));
		CHECK_EQ(ring_wait(&ring, &tag), 1);
		CHECK_EQ(tag, i);
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(ops[i].cookie, i / 2 * 2);
	}
	CHECK_EQ(count_workers(), 0);
}

/* A result other than 0 is not a failure. */
TEST(command_that_succeeds_does_not_break_a_chain)
{
	static const int results[] = { 2, 1, sizeof(struct twheel_event) };
	struct twheel_op ops[] = { op_arm(HOUR, 0, 1), op_arm(~0ULL, 0, 2), op_arm(MS, 0, 3) };
	int fd = device_open(O_RDWR);
	struct twheel_event event = { 0 };
	__u64 tag;

	prepare_command(fd, &ops[0], 2, 1)->flags = IOSQE_IO_LINK;
	prepare_command(fd, &ops[2], 1, 2)->flags = IOSQE_IO_LINK;
	prepare_read(fd, &event, sizeof(event), 3);
	ring_submit(&ring);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		CHECK_EQ(ring_wait(&ring, &tag), results[i]);
		CHECK_EQ(tag, i + 1);
	}
	CHECK_EQ(event.cookie, 3);
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[1].result, -EINVAL);
}

TEST(command_that_fails_breaks_a_chain)
{
	struct twheel_op op = op_arm(HOUR, 0, 1);
	int fd = device_open(O_RDWR);
	__u64 tag;

	prepare_command(fd, map_unusable(), 1, 1)->flags = IOSQE_IO_LINK;
	prepare_command(fd, &op, 1, 2);
	ring_submit(&ring);
	for (int i = 0; i < 2; i++) {
		int ret = ring_wait(&ring, &tag);

		CHECK_EQ(ret, tag == 1 ? -EFAULT : -ECANCELED);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* A worker thread carries it out, with the memory of this process. */
TEST(command_can_be_left_to_a_worker)
{
	struct twheel_op ops[100];
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, i);
	prepare_command(fd, ops, ARRAY_SIZE(ops), 1)->flags = IOSQE_ASYNC;
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(cancel(fd, ops[i].id), 0);
}

TEST(command_has_at_most_1024_operations)
{
	static struct twheel_op ops[TWHEEL_URING_MAX_OPS + 1];
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_arm(HOUR, 0, i);
	prepare_command(fd, ops, 1025, 1);
	ring_submit(&ring);
	CHECK_EQ(ring_wait(&ring, NULL), -EINVAL);
	CHECK_EQ(info(fd).live, 0);
	prepare_command(fd, ops, 1024, 1);
	ring_submit(&ring);
	CHECK(ring_done(&ring));
	CHECK_EQ(ring_wait(&ring, NULL), 1024);
	CHECK_EQ(info(fd).live, 1024);
}

int main(int argc, char **argv)
{
	ktap_before = open_ring;
	return ktap_main(argc, argv);
}
