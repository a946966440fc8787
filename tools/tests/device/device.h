/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls on the device under test. The tests use the ABI header but not the library,
 * so that the tests do not repeat an error of the library.
 *
 * A call that a test may expect to fail returns -errno. A call that must succeed for the
 * test to make sense is checked here.
 */
#ifndef TWHEEL_TESTS_DEVICE_H
#define TWHEEL_TESTS_DEVICE_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <twheel/abi.h>

#include "ktap.h"

#define DEVICE		"/dev/twheel"
#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL
#define HOUR		(3600 * NSEC_PER_SEC)
#define EXPIRES_MAX	0x7fffffffffffffffULL
#define LONG_MS		20000	/* limit of a wait for an event that must come */

static inline bool is_slow(void)
{
	return getenv("TWHEEL_SLOW");
}

/*
 * A 32-bit program does not repeat everything, because only the path to the device differs.
 * Nor does a kernel on which others have run all of it.
 */
static inline bool is_short(void)
{
	return is_slow() || getenv("TWHEEL_SHORT") || sizeof(long) == 4;
}

/*
 * Returns @nr, or a tenth of it if tests are short. A slow kernel checks each operation, so
 * fewer are sufficient. The name of a test contains the full number.
 */
static inline __u32 scaled(__u32 nr)
{
	return is_short() ? nr / 10 : nr;
}

/* Time limit of a test in case of a lost event. The device makes no such promise. */
static inline __u64 time_limit_ns(void)
{
	return (is_slow() ? 200 : 20) * NSEC_PER_SEC;
}

/* Maximum duration of a quick call, even on a busy machine. */
static inline __u64 max_quick_call_ns(void)
{
	return time_limit_ns() / 4;
}

/* A kernel that checks every access needs a minute for a million timeouts. */
static inline void skip_if_slow(void)
{
	if (is_slow())
		ktap_skip("it takes too long here");
}

static inline __u64 clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static inline __u64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_ns(__u64 ns)
{
	struct timespec left = {
		.tv_sec = ns / NSEC_PER_SEC,
		.tv_nsec = ns % NSEC_PER_SEC,
	};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static inline void sleep_until(__u64 when)
{
	__u64 now = now_ns();

	if (when > now)
		sleep_ns(when - now);
}

/* Check @condition each millisecond until it is true. */
#define WAIT_FOR(condition) do {					\
	__u64 limit_ = now_ns() + time_limit_ns();			\
									\
	while (!(condition)) {						\
		if (now_ns() > limit_)					\
			ktap_fail("never true: %s", #condition);	\
		sleep_ns(NSEC_PER_MSEC);				\
	}								\
} while (0)

/*
 * Duration of a test that depends on chance. It is shorter in a 32-bit program: the races
 * are the same, and only the path to them differs. It is shorter, too, where others
 * run the test in full, and on a slow kernel.
 */
static inline __u64 race_duration_ns(__u64 ms)
{
	return ms * NSEC_PER_MSEC / (sizeof(long) == 4 ? 4 : is_short() ? 2 : 1);
}

static inline __u64 random_below(__u64 *state, __u64 limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 11) % limit;
}

/* Read a file of a thread in /proc. Returns false if the thread has ended. */
static inline bool read_task(pid_t tid, const char *name, char *text, size_t size)
{
	char path[80];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, size - 1);
	close(fd);
	text[len < 0 ? 0 : len] = 0;
	return len > 0;
}

/* The sum of what @count returns for each thread of this process. */
static inline int sum_over_tasks(int (*count)(pid_t tid))
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int sum = 0;

	if (!tasks)
		ktap_skip("no /proc");
	while ((task = readdir(tasks))) {
		if (task->d_name[0] != '.')
			sum += count(atoi(task->d_name));
	}
	closedir(tasks);
	return sum;
}

static inline bool is_process_backend(void)
{
	const char *backend = getenv("TWHEEL_BACKEND");

	return backend && !strcmp(backend, "process");
}

/* Skip a test of what a wheel in the process cannot do. */
static inline void skip_without_device(void)
{
	if (is_process_backend())
		ktap_skip("a wheel in the process");
}

static inline int device_open(int flags)
{
	int fd = open(DEVICE, flags | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		ktap_skip("there is no " DEVICE);
	if (fd < 0)
		ktap_fail("open %s: %s", DEVICE, strerror(errno));
	return fd;
}

static inline int open_parameter(const char *name, int flags)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/twheel_dev/parameters/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static inline __u32 parameter(const char *name)
{
	char text[32] = "";
	int fd = open_parameter(name, O_RDONLY);

	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtoul(text, NULL, 10);
}

static inline void set_parameter(const char *name, __u32 value)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%u\n", value);
	int fd = open_parameter(name, O_WRONLY);

	CHECK_EQ(write(fd, text, len), len);
	close(fd);
}

static inline void exit_unless_passed(int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static inline void join_child(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	exit_unless_passed(status);
}

/* Returns 0 in the child. */
static inline pid_t fork_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	return pid;
}

static inline int status_of(void (*body)(void))
{
	pid_t pid = fork_child();
	int status;

	if (!pid) {
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

/* Run @body in a child; the test passes, fails or is skipped as the child does. */
static inline void run_in_child(void (*body)(void))
{
	exit_unless_passed(status_of(body));
}

/*
 * Run @body with a module parameter set. The parameter is restored on return, unless the
 * test fails here.
 */
static inline void with_parameter(const char *name, __u32 value, void (*body)(void))
{
	__u32 before = parameter(name);
	int status;

	set_parameter(name, value);
	status = status_of(body);
	set_parameter(name, before);
	exit_unless_passed(status);
}

/*
 * Run @body with limits of at least @timeouts, which a small machine may not allow by
 * default.
 */
static inline void with_min_limits(__u32 timeouts, void (*body)(void))
{
	__u32 user = parameter("max_user_timeouts"), all = parameter("max_all_timeouts");
	/* Pages may be partly used, and a reserve of the total is for privileged users. */
	__u32 room = timeouts + timeouts / 4 + 1000;
	int status;

	set_parameter("max_user_timeouts", user < room ? room : user);
	set_parameter("max_all_timeouts", all < room ? room : all);
	status = status_of(body);
	set_parameter("max_all_timeouts", all);
	set_parameter("max_user_timeouts", user);
	exit_unless_passed(status);
}

/* The limit is fixed at open; the parameter is restored on return. */
static inline int device_open_limited(int flags, __u32 limit)
{
	__u32 before = parameter("max_timeouts");
	int fd;

	set_parameter("max_timeouts", limit);
	fd = open(DEVICE, flags | O_CLOEXEC);
	set_parameter("max_timeouts", before);
	CHECK(fd >= 0);
	return fd;
}

/* Returns the result of the ioctl, or -errno. */
static inline int device_ioctl(int fd, unsigned long command, void *arg)
{
	int ret = ioctl(fd, command, arg);

	CHECK(ret >= -1);
	return ret < 0 ? -errno : ret;
}

static inline struct twheel_setup setup_clock(__u32 clock)
{
	return (struct twheel_setup) { .flags = TWHEEL_SETUP_CLOCK, .clock = clock };
}

static inline int try_setup(int fd, struct twheel_setup setup)
{
	return device_ioctl(fd, TWHEEL_IOC_SETUP, &setup);
}

static inline int device_open_setup(int flags, struct twheel_setup setup)
{
	int fd = device_open(flags);

	CHECK_EQ(try_setup(fd, setup), 0);
	return fd;
}

static inline int stop(int fd)
{
	return device_ioctl(fd, TWHEEL_IOC_STOP, NULL);
}

/* TWHEEL_IOC_OP does not write the result field. */
#define RESULT_CANARY	0x5aa5a55a

/* Returns the outcome of a single operation, or -errno. */
static inline int operate(int fd, struct twheel_op *op)
{
	int ret;

	op->result = RESULT_CANARY;
	ret = device_ioctl(fd, TWHEEL_IOC_OP, op);
	CHECK_EQ(op->result, RESULT_CANARY);
	return ret;
}

static inline struct twheel_op op_arm(__u64 expires_ns, __u32 flags, __u64 cookie)
{
	return (struct twheel_op) {
		.opcode = TWHEEL_OP_ARM,
		.flags = flags,
		.expires_ns = expires_ns,
		.cookie = cookie,
	};
}

static inline struct twheel_op op_mod(__u64 id, __u64 expires_ns, __u32 flags, __u64 cookie)
{
	struct twheel_op op = op_arm(expires_ns, flags, cookie);

	op.opcode = TWHEEL_OP_MOD;
	op.id = id;
	return op;
}

static inline struct twheel_op op_cancel(__u64 id)
{
	return (struct twheel_op) { .opcode = TWHEEL_OP_CANCEL, .id = id };
}

static inline struct twheel_op op_kick(__u64 id)
{
	return (struct twheel_op) { .opcode = TWHEEL_OP_KICK, .id = id };
}

static inline struct twheel_op op_get(__u64 id)
{
	return (struct twheel_op) { .opcode = TWHEEL_OP_GET, .id = id };
}

static inline int try_arm(int fd, __u64 expires_ns, __u32 flags, __u64 cookie, __u64 *id)
{
	struct twheel_op op = op_arm(expires_ns, flags, cookie);
	int ret = operate(fd, &op);

	*id = op.id;
	return ret;
}

static inline struct twheel_op op_periodic(__u64 expires_ns, __u64 interval_ns, __u32 repeat,
					   __u32 flags, __u64 cookie)
{
	struct twheel_op op = op_arm(expires_ns, flags, cookie);

	op.interval_ns = interval_ns;
	op.repeat = repeat;
	return op;
}

static inline __u64 arm_op(int fd, struct twheel_op op)
{
	CHECK_EQ(operate(fd, &op), 0);
	CHECK(op.id != 0);
	return op.id;
}

/* Arm a timeout for @ns from now. Returns its id. */
static inline __u64 arm(int fd, __u64 ns, __u64 cookie)
{
	return arm_op(fd, op_arm(ns, 0, cookie));
}

static inline __u64 arm_at(int fd, __u64 when, __u64 cookie)
{
	return arm_op(fd, op_arm(when, TWHEEL_F_ABS, cookie));
}

static inline int mod(int fd, __u64 id, __u64 ns, __u64 cookie)
{
	struct twheel_op op = op_mod(id, ns, 0, cookie);

	return operate(fd, &op);
}

static inline int cancel(int fd, __u64 id)
{
	struct twheel_op op = op_cancel(id);

	return operate(fd, &op);
}

static inline int kick(int fd, __u64 id)
{
	struct twheel_op op = op_kick(id);

	return operate(fd, &op);
}

static inline int get(int fd, __u64 id)
{
	struct twheel_op op = op_get(id);

	return operate(fd, &op);
}

static inline int try_submit(int fd, struct twheel_op *ops, __u32 nr, __u32 *done)
{
	struct twheel_submit submit = {
		.ops = (uintptr_t)ops,
		.nr = nr,
		.op_size = sizeof(*ops),
	};
	int ret = device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit);

	*done = submit.done;
	return ret;
}

/* All operations are tried; the results are in @ops. */
static inline void submit(int fd, struct twheel_op *ops, __u32 nr)
{
	__u32 done;

	CHECK_EQ(try_submit(fd, ops, nr, &done), 0);
	CHECK_EQ(done, nr);
}

/* The state of a live timeout, as GET reports it. */
static inline struct twheel_op get_state(int fd, __u64 id)
{
	struct twheel_op op = op_get(id);

	CHECK_EQ(operate(fd, &op), 0);
	return op;
}

static inline struct twheel_info info(int fd)
{
	struct twheel_info info;

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_INFO, &info), 0);
	return info;
}

/* The counters of a file, which never contradict each other. */
static inline struct twheel_stats file_stats(int fd)
{
	struct twheel_stats stats;

	memset(&stats, 0xff, sizeof(stats));
	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_STATS, &stats), 0);
	for (size_t i = 0; i < ARRAY_SIZE(stats.reserved); i++)
		CHECK_EQ(stats.reserved[i], 0);
	CHECK_EQ(stats.armed, stats.cancelled + stats.withdrawn + stats.ended + stats.live);
	CHECK(stats.ready <= stats.live);
	return stats;
}

/* The only timeout of a file, as LIST reports it. */
static inline struct twheel_list_entry only_entry(int fd)
{
	struct twheel_list_entry entries[2];
	struct twheel_list list = {
		.entries = (uintptr_t)entries, .nr = 2, .entry_size = sizeof(entries[0]),
	};

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_LIST, &list), 0);
	CHECK_EQ(list.done, 1);
	CHECK_EQ(list.reserved0, 0);
	return entries[0];
}

/* Cancel all timeouts of a file. Returns the counts. */
static inline struct twheel_cancel_all cancel_all(int fd)
{
	struct twheel_cancel_all all = { 0 };

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_CANCEL_ALL, &all), 0);
	return all;
}

/* Arm @nr timeouts with cookies from @cookie on, whose deadlines are @step apart. */
static inline void arm_many(int fd, __u32 nr, __u64 ns, __u64 step, __u64 cookie, __u64 *ids)
{
	struct twheel_op ops[512];

	for (__u32 first = 0; first < nr; first += ARRAY_SIZE(ops)) {
		__u32 now = nr - first < ARRAY_SIZE(ops) ? nr - first : ARRAY_SIZE(ops);

		for (__u32 i = 0; i < now; i++)
			ops[i] = op_arm(ns + (first + i) * step, 0, cookie + first + i);
		submit(fd, ops, now);
		for (__u32 i = 0; i < now; i++) {
			CHECK_EQ(ops[i].result, 0);
			if (ids)
				ids[first + i] = ops[i].id;
		}
	}
}

/* One more timeout is beyond a limit. */
static inline void check_full(int fd)
{
	__u64 none;

	CHECK_EQ(try_arm(fd, HOUR, 0, 0, &none), -EAGAIN);
}

/* Number of timeouts that count for a page of memory. */
static inline __u32 timeouts_per_page(void)
{
	int fd = device_open(O_RDWR);
	__u32 before = info(fd).user_timeouts, page;

	arm(fd, HOUR, 0);
	page = info(fd).user_timeouts - before;
	close(fd);
	return page;
}

/* Returns the number of records read, or -errno. */
static inline int read_events(int fd, struct twheel_event *events, unsigned int nr)
{
	ssize_t ret = read(fd, events, nr * sizeof(*events));

	if (ret < 0)
		return -errno;
	CHECK_EQ(ret % (ssize_t)sizeof(*events), 0);
	CHECK(ret > 0);
	return ret / sizeof(*events);
}

/* Check the fields that are the same in every event of a one-shot, and of a cell but for @flags. */
static inline void check_event_with(__u32 flags, clockid_t clock, const struct twheel_event *event)
{
	CHECK(event->id != 0);
	CHECK_EQ(event->count, 1);
	CHECK_EQ(event->flags, flags);
	CHECK_EQ(event->reserved, 0);
	CHECK(event->fired_ns >= event->expires_ns);
	CHECK(event->fired_ns <= clock_ns(clock));
}

static inline void check_event(const struct twheel_event *event)
{
	check_event_with(TWHEEL_EV_LAST, CLOCK_MONOTONIC, event);
}

static inline struct twheel_event read_any_event(int fd)
{
	struct twheel_event event;

	CHECK_EQ(read_events(fd, &event, 1), 1);
	CHECK_EQ(event.reserved, 0);
	return event;
}

static inline struct twheel_event read_event_on(clockid_t clock, int fd)
{
	struct twheel_event event = read_any_event(fd);

	check_event_with(TWHEEL_EV_LAST, clock, &event);
	return event;
}

static inline struct twheel_event read_event(int fd)
{
	return read_event_on(CLOCK_MONOTONIC, fd);
}

static inline short poll_now(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	CHECK(poll(&pollfd, 1, 0) >= 0);
	return pollfd.revents;
}

static inline int readable(int fd)
{
	return poll_now(fd) != 0;
}

static inline int epoll_create_for_all(const int *fds, int nr, __u32 events)
{
	struct epoll_event event = { .events = events };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(epoll >= 0);
	for (int i = 0; i < nr; i++)
		CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event), 0);
	return epoll;
}

static inline int epoll_create_for(int fd, __u32 events)
{
	return epoll_create_for_all(&fd, 1, events);
}

/* Wait for an event within @ms. Returns the number of events: 0 or 1. */
static inline int epoll_once(int epoll, int ms)
{
	struct epoll_event event = { 0 };
	int ret = epoll_wait(epoll, &event, 1, ms);

	CHECK(ret >= 0);
	if (ret)
		CHECK_EQ(event.events, EPOLLIN);
	return ret;
}

/* STOP has been called and the last event has been read. */
static inline void check_drained_after_stop(int fd)
{
	struct twheel_event event;

	CHECK_EQ(read(fd, &event, sizeof(event)), 0);
	CHECK_EQ(poll_now(fd), POLLHUP);
	CHECK_EQ(info(fd).live, 0);
	CHECK_EQ(info(fd).ready, 0);
}

/* Wait until @nr events are unread. */
static inline void wait_ready(int fd, __u32 nr)
{
	WAIT_FOR(info(fd).ready >= nr);
}

/* Arm a timeout that fires, and leave its event unread. Returns its id. */
static inline __u64 arm_fired(int fd, __u64 cookie)
{
	__u32 before = info(fd).ready;
	__u64 id = arm(fd, 0, cookie);

	wait_ready(fd, before + 1);
	return id;
}

static inline void check_no_event(int nonblocking_fd)
{
	struct twheel_event event;

	CHECK_EQ(read_events(nonblocking_fd, &event, 1), -EAGAIN);
	CHECK(!readable(nonblocking_fd));
}

#endif /* TWHEEL_TESTS_DEVICE_H */
