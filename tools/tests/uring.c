// SPDX-License-Identifier: GPL-2.0
/*
 * Reading through io_uring: what is there is read at once, what is not there is
 * waited for without a thread that waits.
 */
#include <dirent.h>
#include <liburing.h>

#include "device.h"
#include "memory.h"

#define DEPTH		64
#define MS		NSEC_PER_MSEC

static struct io_uring open_ring(void)
{
	struct io_uring ring;
	int ret = io_uring_queue_init(DEPTH, &ring, 0);

	if (ret == -ENOSYS)
		ktap_skip("no io_uring");
	CHECK_EQ(ret, 0);
	return ring;
}

static void start_read(struct io_uring *ring, int fd, void *buffer, size_t size, __u64 tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	CHECK(sqe);
	io_uring_prep_read(sqe, fd, buffer, size, -1);
	io_uring_sqe_set_data64(sqe, tag);
	CHECK_EQ(io_uring_submit(ring), 1);
}

/* The result of a request, and which it was, within the patience of a test. */
static int wait_request(struct io_uring *ring, __u64 *tag)
{
	struct __kernel_timespec patience = { .tv_sec = patience_ns() / NSEC_PER_SEC };
	struct io_uring_cqe *cqe;
	int ret;

	CHECK_EQ(io_uring_wait_cqe_timeout(ring, &cqe, &patience), 0);
	ret = cqe->res;
	*tag = io_uring_cqe_get_data64(cqe);
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

static int request_done(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;

	return io_uring_peek_cqe(ring, &cqe) == 0;
}

static int read_through(struct io_uring *ring, int fd, void *buffer, size_t size)
{
	__u64 tag;

	start_read(ring, fd, buffer, size, 1);
	return wait_request(ring, &tag);
}

/* Threads of this process that the kernel has made to block in its place. */
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
	struct io_uring ring = open_ring();
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
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	struct twheel_event event;
	__u64 tag;

	io_uring_prep_read(sqe, fd, &event, sizeof(event), -1);
	sqe->rw_flags = RWF_NOWAIT;
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK_EQ(wait_request(&ring, &tag), -EAGAIN);
	CHECK_EQ(count_workers(), 0);
}

static void check_waits(int flags)
{
	struct io_uring ring = open_ring();
	int fd = device_open(flags);
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	CHECK(!request_done(&ring));
	CHECK_EQ(count_workers(), 0);
	arm(fd, 30 * MS, 7);
	CHECK_EQ(wait_request(&ring, &tag), sizeof(event));
	check_event(&event);
	CHECK_EQ(event.cookie, 7);
	CHECK_EQ(count_workers(), 0);
	CHECK_EQ(info(fd).live, 0);
}

static void read_without_events_waits_without_a_thread(void)
{
	check_waits(O_RDWR);
}

/* It is the request that waits, which blocks nobody. */
static void read_without_events_waits_on_a_nonblocking_descriptor(void)
{
	check_waits(O_RDWR | O_NONBLOCK);
}

static void reads_that_wait_get_one_event_each(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct twheel_event events[DEPTH];
	__u8 seen[DEPTH] = { 0 };
	__u64 tag;

	arm_many(fd, DEPTH, 30 * MS, 300 * NSEC_PER_USEC, 0, NULL);
	for (int i = 0; i < DEPTH; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
	for (int i = 0; i < DEPTH; i++) {
		CHECK_EQ(wait_request(&ring, &tag), sizeof(events[0]));
		check_event(&events[tag]);
		CHECK(events[tag].cookie < DEPTH);
		CHECK_EQ(seen[events[tag].cookie]++, 0);
	}
	CHECK(!request_done(&ring));
	CHECK_EQ(info(fd).live, 0);
}

static void one_event_ends_one_read_of_two(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct twheel_event events[2];
	__u64 first, second;

	start_read(&ring, fd, &events[0], sizeof(events[0]), 0);
	start_read(&ring, fd, &events[1], sizeof(events[1]), 1);
	arm(fd, MS, 7);
	CHECK_EQ(wait_request(&ring, &first), sizeof(events[0]));
	CHECK_EQ(events[first].cookie, 7);
	sleep_ns(20 * MS);
	CHECK(!request_done(&ring));
	arm(fd, MS, 8);
	CHECK_EQ(wait_request(&ring, &second), sizeof(events[0]));
	CHECK_EQ(events[second].cookie, 8);
	CHECK(first != second);
}

static void read_into_less_than_a_record_is_einval(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct twheel_event event;

	arm_fired(fd, 7);
	CHECK_EQ(read_through(&ring, fd, &event, sizeof(event) - 1), -EINVAL);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void read_at_bad_address_is_efault_and_loses_nothing(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);

	arm_fired(fd, 7);
	CHECK_EQ(read_through(&ring, fd, map_unusable(), sizeof(struct twheel_event)), -EFAULT);
	CHECK_EQ(info(fd).ready, 1);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* When it was asked for there was nothing to copy. */
static void waiting_read_at_bad_address_is_efault_and_loses_nothing(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	__u64 tag;

	start_read(&ring, fd, map_unusable(), sizeof(struct twheel_event), 1);
	arm(fd, MS, 7);
	CHECK_EQ(wait_request(&ring, &tag), -EFAULT);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void read_that_is_cancelled_loses_nothing(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct io_uring_sqe *sqe;
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_cancel64(sqe, 1, 0);
	io_uring_sqe_set_data64(sqe, 2);
	CHECK_EQ(io_uring_submit(&ring), 1);
	for (int i = 0; i < 2; i++) {
		int ret = wait_request(&ring, &tag);

		CHECK_EQ(ret, tag == 1 ? -ECANCELED : 0);
	}
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static void reads_that_wait_get_the_end_after_stop(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR), ends = 0;
	struct twheel_event events[4];
	__u64 tag;

	arm(fd, HOUR, 7);
	for (int i = 0; i < 4; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
	CHECK_EQ(stop(fd), 0);
	for (int i = 0; i < 4; i++) {
		int ret = wait_request(&ring, &tag);

		if (!ret)
			ends++;
		else
			CHECK_EQ(ret, sizeof(events[0]));
	}
	CHECK_EQ(ends, 3);
}

static void poll_request_completes_with_the_event(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	__u64 tag;

	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, 1);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK(!request_done(&ring));
	arm(fd, MS, 7);
	CHECK(wait_request(&ring, &tag) & POLLIN);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* The request holds the file: its end is the end of the context. */
static void close_leaves_a_waiting_read(void)
{
	struct io_uring ring = open_ring();
	int fd = device_open(O_RDWR);
	struct twheel_event event;
	__u64 tag;

	start_read(&ring, fd, &event, sizeof(event), 1);
	arm(fd, 30 * MS, 7);
	close(fd);
	CHECK_EQ(wait_request(&ring, &tag), sizeof(event));
	CHECK_EQ(event.cookie, 7);
}

static void exit_with_waiting_reads_is_clean(void)
{
	struct io_uring ring = open_ring();
	static struct twheel_event events[DEPTH];
	int fd = device_open(O_RDWR);

	arm_many(fd, 1000, 10 * MS, 100 * NSEC_PER_USEC, 0, NULL);
	for (int i = 0; i < DEPTH; i++)
		start_read(&ring, fd, &events[i], sizeof(events[i]), i);
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
	TEST(close_leaves_a_waiting_read),
	TEST(exit_with_waiting_reads_is_clean),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
