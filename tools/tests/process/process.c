// SPDX-License-Identifier: GPL-2.0
/*
 * The wheel in the process: when a context gets one, what it cannot do, its manual clock, and
 * deadlines at any distance. Its contract is tested by the suites of the library and of hubs.
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "device.h"
#include "libtwheel.h"
#include "twheel_hub.h"

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, ...);

static struct twheel_ctx *ctx;
static int open_error = ENOENT;

/* The device is never here; opening it fails with @open_error. */
int __wrap_open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	if (!strcmp(path, TWHEEL_DEVICE)) {
		errno = open_error;
		return -1;
	}
	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	return __real_open(path, flags, mode);
}

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *its,
			   struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *its,
			   struct itimerspec *old);

/* CLOCK_REALTIME is set back by as many seconds, after as many reads of it. */
static time_t set_back_s;
static int steady_reads;

/* A signal handler that runs while the library sets the descriptor, once. */
static void (*handler_in_call)(int signal);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_REALTIME && steady_reads-- <= 0)
		ts->tv_sec -= set_back_s;
	return ret;
}

/* A time of 1 ns is in the past of any clock. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *its,
			   struct itimerspec *old)
{
	struct itimerspec real = *its;

	if (handler_in_call)
		handler_in_call(SIGALRM);
	handler_in_call = NULL;
	if (real.it_value.tv_sec)
		real.it_value.tv_sec += set_back_s;
	return __real_timerfd_settime(fd, flags, &real, old);
}

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __real_ioctl(int fd, unsigned long command, void *arg);
int __wrap_ioctl(int fd, unsigned long command, void *arg);

/* As qemu-user does; as gVisor does; as Linux does that cannot restore checkpoints. */
static bool ignore_advice, refuse_wipe, refuse_ticks;

int __wrap_madvise(void *at, size_t size, int advice)
{
	if (ignore_advice)
		return 0;
	return __real_madvise(at, size, refuse_wipe && advice == MADV_WIPEONFORK ? -1 : advice);
}

int __wrap_ioctl(int fd, unsigned long command, void *arg)
{
	if (refuse_ticks && _IOC_TYPE(command) == 'T') {
		errno = ENOTTY;
		return -1;
	}
	return __real_ioctl(fd, command, arg);
}

static void open_realtime(void)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_REALTIME };

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
}

static bool is_readable_within(int ms)
{
	struct pollfd pollfd = { .fd = twheel_fd(ctx), .events = POLLIN };

	return poll(&pollfd, 1, ms) == 1;
}

static bool is_readable(void)
{
	return is_readable_within(0);
}

/* A timerfd that is set for the past expires with the next interrupt of the clock. */
static bool becomes_readable(void)
{
	return is_readable_within(time_limit_ns() / TWHEEL_MSEC);
}

static void open_manual(uint64_t tick_ns)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_MANUAL, .tick_ns = tick_ns };

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
}

static struct twheel_event read_one(void)
{
	struct twheel_event event = { 0 };

	CHECK_EQ(twheel_read(ctx, &event, 1, time_limit_ns()), 1);
	return event;
}

static void check_nothing_to_read(void)
{
	struct twheel_event event;

	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_NO_WAIT), -EAGAIN);
}

/* Selection */

TEST(process_is_used_if_the_device_is_missing_and_never_instead_of_a_path)
{
	static const struct {
		int		error;
		const char	*backend, *path;
		unsigned int	flags;
		int		ret;
	} cases[] = {
		{ ENOENT, NULL, NULL, 0, 0 },
		{ ENODEV, NULL, NULL, 0, 0 },
		{ ENXIO, NULL, NULL, 0, 0 },
		{ EACCES, NULL, NULL, 0, 0 },
		{ EPERM, NULL, NULL, TWHEEL_NONBLOCK, 0 },
		{ ENOSYS, NULL, NULL, 0, 0 },
		{ EMFILE, NULL, NULL, 0, -EMFILE },
		{ ENOMEM, NULL, NULL, 0, -ENOMEM },
		{ EBUSY, NULL, NULL, 0, -EBUSY },
		{ EMFILE, NULL, NULL, TWHEEL_PROCESS, 0 },
		{ ENOENT, NULL, NULL, TWHEEL_KERNEL, -ENOENT },
		{ ENOENT, NULL, NULL, TWHEEL_KERNEL | TWHEEL_PROCESS, -EINVAL },
		{ ENOENT, NULL, NULL, 0x10, -EINVAL },
		{ ENOENT, NULL, TWHEEL_DEVICE, 0, -ENOENT },
		{ ENOENT, NULL, TWHEEL_DEVICE, TWHEEL_KERNEL, -ENOENT },
		{ ENOENT, NULL, TWHEEL_DEVICE, TWHEEL_PROCESS, -EINVAL },
		{ ENOENT, "process", TWHEEL_DEVICE, 0, -ENOENT },
		{ EMFILE, "process", NULL, 0, 0 },
		{ EMFILE, "process", NULL, TWHEEL_KERNEL, 0 },
		{ ENOENT, "kernel", NULL, 0, -ENOENT },
		{ ENOENT, "kernel", NULL, TWHEEL_PROCESS, -ENOENT },
		{ ENOENT, "", NULL, 0, 0 },
		{ ENOENT, "Process", NULL, 0, -EINVAL },
	};
	struct twheel_info info;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsetenv("TWHEEL_BACKEND");
		if (cases[i].backend)
			setenv("TWHEEL_BACKEND", cases[i].backend, 1);
		open_error = cases[i].error;
		ktap_note("case %zu", i);
		CHECK_EQ(twheel_open(cases[i].path, cases[i].flags, &ctx), cases[i].ret);
		if (cases[i].ret)
			continue;
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK(info.flags & TWHEEL_INFO_PROCESS);
		CHECK_EQ(!!(fcntl(twheel_fd(ctx), F_GETFL) & O_NONBLOCK), cases[i].flags == 1);
		CHECK_EQ(fcntl(twheel_fd(ctx), F_GETFD), FD_CLOEXEC);
		twheel_close(ctx);
	}
}

/* What it cannot do */

TEST(context_of_a_process_is_not_found_by_its_descriptor)
{
	struct twheel_ctx *other;

	open_manual(0);
	CHECK_EQ(twheel_open_fd(twheel_fd(ctx), &other), -EOPNOTSUPP);
	CHECK_EQ(twheel_open_fd(STDIN_FILENO, &other), -ENOTTY);
	CHECK_EQ(twheel_open_fd(9999, &other), -EBADF);
}

static void check_child(uint64_t id, uint64_t cell_id, struct twheel_cell *cell)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct twheel_event event;
	struct twheel_stats stats;
	struct twheel_info info;
	struct twheel_op op;

	CHECK_EQ(twheel_arm(ctx, 0, 0, 0, &id), -EOPNOTSUPP);
	CHECK_EQ(twheel_mod(ctx, id, 0, 0, 0), -EOPNOTSUPP);
	CHECK_EQ(twheel_cancel(ctx, id), -EOPNOTSUPP);
	CHECK_EQ(twheel_get(ctx, id, &op), -EOPNOTSUPP);
	CHECK_EQ(twheel_submit_ops(ctx, &op, 1), -EOPNOTSUPP);
	CHECK_EQ(twheel_cancel_timeouts(ctx, NULL), -EOPNOTSUPP);
	CHECK_EQ(twheel_stop(ctx), -EOPNOTSUPP);
	CHECK_EQ(twheel_get_info(ctx, &info), -EOPNOTSUPP);
	CHECK_EQ(twheel_get_stats(ctx, &stats), -EOPNOTSUPP);
	CHECK_EQ(twheel_set_time(ctx, 0), -EOPNOTSUPP);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), -EOPNOTSUPP);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_FOREVER), -EOPNOTSUPP);
	CHECK_EQ(twheel_cell_find(ctx, cell_id, &cell), -EOPNOTSUPP);
	CHECK_EQ(twheel_cell_arm(ctx, cell, cell_id, 1), -EOPNOTSUPP);
	CHECK_EQ(twheel_cell_arm_later(&kicks, cell, cell_id, 1), TWHEEL_IDLE);
	CHECK_EQ(twheel_kick_all(&kicks), -EOPNOTSUPP);
	twheel_close(ctx);
}

static void *keep_busy(void *over)
{
	uint64_t id;

	while (!__atomic_load_n((bool *)over, __ATOMIC_RELAXED)) {
		CHECK_EQ(twheel_arm(ctx, HOUR, 0, 1, &id), 0);
		CHECK_EQ(twheel_cancel(ctx, id), 0);
	}
	return NULL;
}

/* Another thread holds the mutex during some of the forks. */
static void check_forks(void)
{
	struct twheel_cell *cell;
	uint64_t id, cell_id;
	pthread_t thread;
	bool over = false;
	pid_t pid;

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_cell_create(ctx, 7, &cell_id, &cell), 0);
	CHECK_EQ(pthread_create(&thread, NULL, keep_busy, &over), 0);
	for (__u32 i = 0; i < scaled(50); i++) {
		CHECK_EQ(twheel_arm(ctx, 20 * TWHEEL_MSEC, 0, i, &id), 0);
		pid = fork_child();
		if (!pid) {
			check_child(id, cell_id, cell);
			_exit(0);
		}
		join_child(pid);
		CHECK_EQ(read_one().cookie, i);
		CHECK_EQ(twheel_cell_cancel(cell), TWHEEL_IDLE);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	check_nothing_to_read();
	twheel_close(ctx);
}

TEST(calls_fail_in_a_child_and_leave_its_parent_alone)
{
	check_forks();
	refuse_wipe = true;
	check_forks();
	ignore_advice = true;
	check_forks();
}

/* Signals */

static struct twheel_cell *signal_cell;
static uint64_t signal_id, signal_deadline;

/* Each arming is earlier than the one before, and needs a kick. */
static void arm_in_handler(int signal)
{
	(void)signal;
	signal_deadline -= TWHEEL_USEC;
	if (twheel_cell_arm(ctx, signal_cell, signal_id, signal_deadline) < 0)
		_exit(99);
}

TEST(handler_may_arm_a_cell_while_its_thread_is_in_a_call)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	const struct sigaction action = { .sa_handler = arm_in_handler, .sa_flags = SA_RESTART };
	struct twheel_event events[8];
	uint64_t now, id, end;

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_cell_create(ctx, 7, &signal_id, &signal_cell), 0);
	CHECK_EQ(twheel_now(ctx, &now), 0);
	signal_deadline = now + HOUR;
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	end = now_ns() + race_duration_ns(1000);
	while (now_ns() < end || signal_deadline > now + HOUR - 10 * TWHEEL_USEC) {
		for (int i = 0; i < 100; i++) {
			CHECK_EQ(twheel_arm(ctx, i * TWHEEL_USEC, 0, i, &id), 0);
			if (i % 2)
				CHECK(twheel_cancel(ctx, id) >= 0);
		}
		while (twheel_read(ctx, events, 8, TWHEEL_NO_WAIT) > 0)
			;
	}
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	signal(SIGALRM, SIG_IGN);	/* valgrind may deliver the last one late */
	twheel_close(ctx);
	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_cell_create(ctx, 8, &signal_id, &signal_cell), 0);
	signal_deadline = 2 * TWHEEL_USEC;
	handler_in_call = arm_in_handler;
	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 9, NULL), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 8);
}

/* The descriptor */

TEST(edge_comes_for_each_event_after_the_queue_was_empty)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct twheel_event read;
	uint64_t id, end;

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, twheel_fd(ctx), &event), 0);
	for (int i = 0; i < 300; i++) {
		CHECK_EQ(twheel_arm(ctx, i % 5 * TWHEEL_MSEC, 0, i, &id), 0);
		/* There may be an edge for a step of the wheel before. */
		for (end = now_ns() + time_limit_ns();;) {
			CHECK_EQ(epoll_wait(epoll, &event, 1, time_limit_ns() / TWHEEL_MSEC), 1);
			if (twheel_read(ctx, &read, 1, TWHEEL_NO_WAIT) == 1)
				break;
			CHECK(now_ns() < end);
		}
		CHECK_EQ(read.cookie, i);
		check_nothing_to_read();
	}
}

TEST(descriptor_is_quiet_while_nothing_is_due)
{
	uint64_t id[3];

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(twheel_arm(ctx, TWHEEL_MSEC << i, 0, i, &id[i]), 0);
	CHECK(becomes_readable());
	for (int i = 0; i < 3; i++)
		CHECK_EQ(read_one().cookie, i);
	CHECK(!is_readable_within(20));
	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 7, &id[0]), 0);
	CHECK(!is_readable_within(20));
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 7);
	CHECK(becomes_readable());
}

/* Not before the last call. After a stall of a second the timeout is due again. */
TEST(clock_that_is_set_back_after_a_deadline_leaves_the_descriptor_quiet)
{
	uint64_t now, deadline;
	bool readable;

	open_realtime();
	CHECK_EQ(twheel_now(ctx, &now), 0);
	deadline = now + TWHEEL_SEC;
	CHECK_EQ(twheel_arm(ctx, deadline, TWHEEL_F_ABS, 3, NULL), 0);
	sleep_ns(TWHEEL_SEC + 20 * TWHEEL_MSEC);
	CHECK(becomes_readable());
	set_back_s = 1;
	twheel_read(ctx, &(struct twheel_event){ 0 }, 1, TWHEEL_NO_WAIT);
	readable = is_readable();
	CHECK_EQ(twheel_now(ctx, &now), 0);
	CHECK(!readable || now >= deadline);
}

/* In the call that arms, and before STOP. */
TEST(event_and_stop_are_told_although_the_clock_is_set_back)
{
	uint64_t now;

	open_realtime();
	CHECK_EQ(twheel_now(ctx, &now), 0);
	set_back_s = 3600;
	steady_reads = 1;
	CHECK_EQ(twheel_arm(ctx, now - TWHEEL_HOUR, TWHEEL_F_ABS, 2, NULL), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 2);
	CHECK_EQ(twheel_arm(ctx, now, TWHEEL_F_ABS, 3, NULL), 0);
	set_back_s += 3600;
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 3);
	CHECK(becomes_readable());
}

TEST(clock_that_is_set_back_in_a_call_fires_nothing_early)
{
	struct twheel_event events[2];
	struct twheel_cell *cell;
	uint64_t now, id;
	int nr;

	open_realtime();
	CHECK_EQ(twheel_now(ctx, &now), 0);
	now += 5 * TWHEEL_MSEC;
	CHECK_EQ(twheel_cell_create(ctx, 7, &id, &cell), 0);
	CHECK_EQ(twheel_cell_arm(ctx, cell, id, now), TWHEEL_IDLE);
	CHECK_EQ(twheel_arm(ctx, now, TWHEEL_F_ABS, 1, NULL), 0);
	sleep_ns(20 * TWHEEL_MSEC);
	set_back_s = 3600;
	steady_reads = 1;
	nr = twheel_read(ctx, events, 2, TWHEEL_NO_WAIT);
	CHECK(nr >= 1);
	for (int i = 0; i < nr; i++)
		CHECK(events[i].fired_ns >= events[i].expires_ns);
}

/* The interrupt of the timerfd comes a second late. */
TEST(unread_event_makes_the_descriptor_readable_at_once)
{
	struct twheel_info info;

	set_back_s = 1;
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
		CHECK_EQ(twheel_arm(ctx, TWHEEL_MSEC, 0, 7, NULL), 0);
		sleep_ns(3 * TWHEEL_MSEC);
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK_EQ(info.ready, 1);
		CHECK(is_readable());
		CHECK_EQ(read_one().cookie, 7);
		CHECK(!is_readable());
		twheel_close(ctx);
		refuse_ticks = true;
	}
}

/* The manual clock */

TEST(what_is_due_at_once_is_readable_at_any_time)
{
	open_manual(0);
	CHECK_EQ(twheel_arm(ctx, 0, 0, 1, NULL), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 1);
	check_nothing_to_read();
	CHECK(!is_readable());
	CHECK_EQ(twheel_set_time(ctx, 50 * TWHEEL_SEC), 0);
	CHECK_EQ(twheel_arm(ctx, 20 * TWHEEL_SEC, TWHEEL_F_ABS, 2, NULL), 0);
	CHECK_EQ(twheel_set_time(ctx, 30 * TWHEEL_SEC), 0);
	CHECK(becomes_readable());
	CHECK_EQ(read_one().cookie, 2);
}

TEST(manual_clock_has_no_tick_unless_setup_names_one)
{
	struct twheel_info info;

	for (int named = 0; named < 2; named++) {
		open_manual(named * TWHEEL_MSEC);
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK_EQ(info.tick_ns, named ? TWHEEL_MSEC : 1);
		CHECK_EQ(twheel_set_time(ctx, 1500 * TWHEEL_USEC), 0);
		CHECK_EQ(twheel_arm(ctx, 0, 0, 7, NULL), 0);
		CHECK_EQ(twheel_arm(ctx, 400 * TWHEEL_USEC, 0, 8, NULL), 0);
		CHECK_EQ(is_readable(), !named);
		if (!named)
			CHECK_EQ(read_one().cookie, 7);
		check_nothing_to_read();
		CHECK_EQ(twheel_set_time(ctx, 1900 * TWHEEL_USEC), 0);
		if (!named)
			CHECK_EQ(read_one().cookie, 8);
		check_nothing_to_read();
		CHECK_EQ(twheel_set_time(ctx, 2 * TWHEEL_MSEC), 0);
		CHECK_EQ(twheel_read(ctx, (struct twheel_event[2]) { }, 2, TWHEEL_NO_WAIT),
			 named ? 2 : -EAGAIN);
		twheel_close(ctx);
	}
}

TEST(time_passes_when_it_is_set)
{
	struct twheel_event event;
	struct twheel_cell *cell;
	struct twheel_op op;
	uint64_t id, now;

	open_manual(0);
	CHECK_EQ(twheel_now(ctx, &now), 0);
	CHECK_EQ(now, 0);
	CHECK_EQ(twheel_cell_create(ctx, 1, &id, &cell), 0);
	CHECK_EQ(twheel_cell_arm(ctx, cell, id, 5 * TWHEEL_MIN), TWHEEL_IDLE);
	twheel_prep_arm(&op, TWHEEL_MIN, 0, 2);
	twheel_prep_interval(&op, TWHEEL_MIN, 10);
	CHECK_EQ(twheel_operate(ctx, &op), 0);
	CHECK_EQ(twheel_set_time(ctx, TWHEEL_MIN - 1), 0);
	check_nothing_to_read();
	CHECK(!is_readable());
	CHECK_EQ(twheel_set_time(ctx, 3 * TWHEEL_MIN), 0);
	CHECK(becomes_readable());
	event = read_one();
	CHECK_EQ(event.cookie, 2);
	CHECK_EQ(event.count, 3);
	CHECK_EQ(event.fired_ns, 3 * TWHEEL_MIN);
	CHECK_EQ(twheel_set_time(ctx, 5 * TWHEEL_MIN), 0);
	CHECK_EQ(read_one().cookie + read_one().cookie, 3);
	CHECK_EQ(twheel_cancel_timeouts(ctx, NULL), 0);
	CHECK(!is_readable());
	CHECK_EQ(twheel_set_time(ctx, 1ULL << 63), -EINVAL);
	CHECK_EQ(twheel_now(ctx, &now), 0);
	CHECK_EQ(now, 5 * TWHEEL_MIN);
	twheel_close(ctx);
	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_set_time(ctx, 1), -EINVAL);
}

TEST(periods_count_until_the_stop)
{
	struct twheel_event event;
	struct twheel_op op;

	open_manual(0);
	twheel_prep_arm(&op, TWHEEL_SEC, 0, 2);
	twheel_prep_interval(&op, TWHEEL_SEC, 0);
	CHECK_EQ(twheel_operate(ctx, &op), 0);
	CHECK_EQ(twheel_set_time(ctx, 5 * TWHEEL_SEC), 0);
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK_EQ(twheel_set_time(ctx, 9 * TWHEEL_SEC), 0);
	event = read_one();
	CHECK_EQ(event.count, 5);
	CHECK_EQ(event.flags, TWHEEL_EV_LAST);
}

static void count_call(struct twheel_node *node)
{
	(void)node;
}

/* Nodes that are cancelled make no event to dispatch. */
TEST(hub_ends_cells_when_it_reads_the_clock)
{
	struct twheel_node nodes[1000];
	uint64_t now = 100 * TWHEEL_MSEC;
	struct twheel_info info;
	struct twheel_hub *hub;

	open_manual(0);
	CHECK_EQ(twheel_hub_open(ctx, 0, &hub), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(nodes); i++) {
		twheel_node_init(&nodes[i], hub, count_call);
		CHECK_EQ(twheel_node_arm(&nodes[i], HOUR), 0);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(nodes); i++)
		CHECK(twheel_node_cancel(&nodes[i]));
	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	for (uint32_t live = info.live; live > 256; now += 100 * TWHEEL_MSEC) {
		CHECK_EQ(twheel_set_time(ctx, now - 1), 0);
		CHECK_EQ(twheel_hub_now(hub), now - 1);
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK_EQ(info.live, live);
		CHECK_EQ(twheel_set_time(ctx, now), 0);
		CHECK_EQ(twheel_node_arm(&nodes[0], HOUR), 0);
		CHECK(twheel_node_cancel(&nodes[0]));
		live = live > 512 ? live - 256 : 256;
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK_EQ(info.live, live);
	}
	twheel_hub_close(hub);
}

TEST(hub_belongs_to_the_parent_after_fork)
{
	struct twheel_node node;
	struct twheel_hub *hub;
	pid_t pid;

	CHECK_EQ(twheel_hub_open(NULL, 0, &hub), 0);
	twheel_node_init(&node, hub, count_call);
	CHECK_EQ(twheel_node_arm(&node, 0), 0);
	pid = fork_child();
	if (!pid) {
		CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), -EOPNOTSUPP);
		twheel_hub_close(hub);
		CHECK(!twheel_node_armed(&node));
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), 1);
	CHECK(!twheel_node_armed(&node));
	twheel_hub_close(hub);
}

#define NR_RANDOM	2000

static uint64_t deadline_of[NR_RANDOM], id_of[NR_RANDOM];
static bool armed[NR_RANDOM];
static uint64_t tick_ns;
static __u64 seed = 88172645463325252ULL;

static uint64_t tick_of(uint64_t ns)
{
	return ns / tick_ns + !!(ns % tick_ns);
}

/* Any distance, the nearest ones most often. */
static uint64_t random_distance(void)
{
	return random_below(&seed, 1ULL << (1 + random_below(&seed, 62)));
}

static void random_change(uint64_t now)
{
	unsigned int n = random_below(&seed, NR_RANDOM);
	uint64_t distance = random_distance();
	int fired = tick_of(deadline_of[n]) <= now / tick_ns;

	if (armed[n] && random_below(&seed, 3) == 0) {
		/* Until another call it may be pending. */
		CHECK(twheel_cancel(ctx, id_of[n]) <= fired);
		armed[n] = false;
		return;
	}
	deadline_of[n] = now > INT64_MAX - distance ? INT64_MAX : now + distance;
	if (armed[n])
		CHECK_EQ(twheel_mod(ctx, id_of[n], distance, 0, n), fired);
	else
		CHECK_EQ(twheel_arm(ctx, distance, 0, n, &id_of[n]), 0);
	armed[n] = true;
}

/* Each that is due is read, in the order of ticks, and no other. */
static void check_due(uint64_t now, bool ordered)
{
	struct twheel_event event;
	uint64_t last = 0, due;

	while (twheel_read(ctx, &event, 1, TWHEEL_NO_WAIT) == 1) {
		CHECK(event.cookie < NR_RANDOM && armed[event.cookie]);
		CHECK_EQ(event.expires_ns, deadline_of[event.cookie]);
		CHECK(event.fired_ns >= event.expires_ns && event.fired_ns <= now);
		due = tick_of(event.expires_ns);
		CHECK(due <= now / tick_ns);
		CHECK(due >= last || !ordered);
		last = due;
		armed[event.cookie] = false;
	}
	for (unsigned int n = 0; n < NR_RANDOM; n++)
		CHECK(!armed[n] || tick_of(deadline_of[n]) > now / tick_ns);
}

static void check_random(void)
{
	uint64_t now = 0, before;

	ktap_note("ticks of %llu ns", (unsigned long long)tick_ns);
	open_manual(tick_ns);
	memset(armed, 0, sizeof(armed));
	for (int round = 0; round < 3000; round++) {
		for (unsigned int i = random_below(&seed, 50); i; i--)
			random_change(now);
		check_due(now, true);
		before = now;
		if (random_below(&seed, 20)) {
			now += random_distance();
			now = now > INT64_MAX ? random_distance() : now;
		} else {
			now = random_below(&seed, now + 1);
		}
		CHECK_EQ(twheel_set_time(ctx, now), 0);
		check_due(now, now >= before);
	}
	twheel_close(ctx);
}

TEST(timeouts_fire_at_any_distance_and_wherever_the_clock_is_set)
{
	static const uint64_t ticks[] = { TWHEEL_MSEC, 1, 3, 100 * TWHEEL_USEC, 1234567,
					  24 * TWHEEL_HOUR };

	for (size_t i = 0; i < ARRAY_SIZE(ticks); i++) {
		tick_ns = ticks[i];
		check_random();
	}
}

static void *configure_while_cancelled(void *unused)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_REALTIME };

	pthread_cancel(pthread_self());
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	pthread_testcancel();
	return unused;
}

TEST(thread_that_is_cancelled_keeps_no_mutex)
{
	struct twheel_info info;
	pthread_t thread;

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(pthread_create(&thread, NULL, configure_while_cancelled, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	CHECK_EQ(info.clock, CLOCK_REALTIME);
}

TEST(context_grows_to_its_limit)
{
	struct twheel_setup setup = { .max_timeouts = 300000, .flags = TWHEEL_SETUP_MANUAL };
	struct twheel_event events[64];
	uint64_t id, first = 0, nr = 0;
	struct twheel_info info;
	int ret;

	CHECK_EQ(twheel_open(NULL, TWHEEL_PROCESS, &ctx), 0);
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	for (uint64_t i = 0; i < 300000; i++)
		CHECK_EQ(twheel_arm(ctx, i * TWHEEL_USEC, 0, i, &id), 0);
	CHECK_EQ(twheel_arm(ctx, 1, 0, 0, &id), -EAGAIN);
	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	CHECK_EQ(info.refused, 1);
	CHECK(info.live <= info.user_timeouts && info.cells > 300000);
	CHECK_EQ(twheel_set_time(ctx, HOUR), 0);
	while ((ret = twheel_read(ctx, events, 64, TWHEEL_NO_WAIT)) > 0) {
		for (int i = 0; i < ret; i++) {
			CHECK(events[i].expires_ns + TWHEEL_MSEC > first);
			first = events[i].expires_ns;
		}
		nr += ret;
	}
	CHECK_EQ(nr, 300000);
}
