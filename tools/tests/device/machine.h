/* SPDX-License-Identifier: GPL-2.0 */
/*
 * With these functions a test sets its CPU, its user, its time namespace and CLOCK_REALTIME. The
 * header needs _GNU_SOURCE.
 */
#ifndef TWHEEL_TESTS_MACHINE_H
#define TWHEEL_TESTS_MACHINE_H

#include <sched.h>
#include <sys/syscall.h>
#include <linux/capability.h>

#include "device.h"

/* The CPU, and the time namespace */

static inline void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

static inline int last_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

static inline void pin_to_one_cpu(void)
{
	pin_to_cpu(sched_getcpu());
}

/*
 * Continue in a child whose clocks are ahead of the current ones by these numbers of
 * seconds.
 */
static inline void enter_time_namespace(long monotonic, long boottime)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "monotonic %ld 0\nboottime %ld 0\n", monotonic,
			   boottime);
	pid_t pid;
	int fd;

	if (unshare(CLONE_NEWTIME) < 0)
		ktap_skip("no time namespaces");
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, len), len);
	close(fd);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		return;
	join_child(pid);
	_exit(0);
}

/* The user: the tests start with all privileges */

#define CAP(name)	(1ULL << CAP_##name)

static inline void set_capabilities(__u64 capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		data[i].permitted = capabilities >> (32 * i);
		data[i].effective = data[i].permitted;
	}
	CHECK_EQ(syscall(SYS_capset, &header, data), 0);
}

/* Continue as that user, with only the capability to open the device. */
static inline void become_user(uid_t uid)
{
	CHECK_EQ(prctl(PR_SET_KEEPCAPS, 1), 0);
	CHECK_EQ(setuid(uid), 0);
	set_capabilities(CAP(DAC_OVERRIDE));
	/* A change of the user clears this: the tests must end with their parent. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Open a file of that user. The caller keeps the privileges of root. */
static inline int device_open_for(uid_t uid)
{
	int fd;

	CHECK_EQ(setreuid(uid, 0), 0);
	fd = device_open(O_RDWR);
	CHECK_EQ(setreuid(0, 0), 0);
	return fd;
}

/* CLOCK_REALTIME */

/* Set the clock only where that does no harm. */
static inline void skip_outside_test_machine(void)
{
	if (!getenv("TWHEEL_TEST_MACHINE"))
		ktap_skip("no TWHEEL_TEST_MACHINE in the environment");
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, if nobody had set it. */
static __u64 realtime_base;

/* If the machine stands still between the two reads, skip_if_due() skips more, not less. */
static inline void save_realtime_base(void)
{
	__u64 monotonic = now_ns();

	realtime_base = clock_ns(CLOCK_REALTIME) - monotonic;
}

static inline void skip_without_realtime(void)
{
	skip_outside_test_machine();
	save_realtime_base();
}

static inline int open_realtime(int flags)
{
	skip_without_realtime();
	return device_open_setup(flags, setup_clock(CLOCK_REALTIME));
}

static inline void set_realtime(__s64 ahead_ns)
{
	__u64 ns = realtime_base + now_ns() + ahead_ns;
	struct timespec time = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	CHECK_EQ(clock_settime(CLOCK_REALTIME, &time), 0);
}

/* A timeout for @when may have fired before the clock was set back. */
static inline void skip_if_due(__u64 when)
{
	if (realtime_base + now_ns() < when)
		return;
	set_realtime(0);
	ktap_skip("the machine is too slow");
}

#endif /* TWHEEL_TESTS_MACHINE_H */
