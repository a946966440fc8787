/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The CPU and the time namespace of a test. Needs _GNU_SOURCE.
 */
#ifndef TWHEEL_TESTS_CPU_H
#define TWHEEL_TESTS_CPU_H

#include <sched.h>

#include "device.h"

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

#endif /* TWHEEL_TESTS_CPU_H */
