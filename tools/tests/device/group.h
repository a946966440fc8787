/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory cgroups: a test puts a process into one and checks its charges.
 */
#ifndef TWHEEL_TESTS_GROUP_H
#define TWHEEL_TESTS_GROUP_H

#include <sys/mount.h>
#include <sys/stat.h>

#include "device.h"

#define ROOT		"/tmp/twheel-cgroup"
#define MIB		(1024 * 1024)

static inline void write_file(const char *directory, const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		ktap_fail("open %s: %s", path, strerror(errno));
	if (write(fd, text, strlen(text)) < 0)
		ktap_fail("write to %s: %s", path, strerror(errno));
	close(fd);
}

static inline void read_file(const char *directory, const char *name, char *text, size_t size)
{
	char path[128];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		ktap_fail("open %s: %s", path, strerror(errno));
	len = read(fd, text, size - 1);
	CHECK(len >= 0);
	text[len] = 0;
	close(fd);
}

static inline long charged(const char *group)
{
	char text[32];

	read_file(group, "memory.current", text, sizeof(text));
	return atol(text);
}

static inline long out_of_memory_kills(const char *group)
{
	char text[256], *line;

	read_file(group, "memory.events", text, sizeof(text));
	line = strstr(text, "oom_kill ");
	CHECK(line);
	return atol(line + strlen("oom_kill "));
}

/* Make a group for a test. @limit: bytes; 0: no limit. */
static inline const char *create_group(const char *name, long limit)
{
	static char group[64];
	char controllers[128], text[32];

	mkdir(ROOT, 0700);
	if (mount("none", ROOT, "cgroup2", 0, NULL) && errno != EBUSY)
		ktap_skip("no cgroups");
	read_file(ROOT, "cgroup.controllers", controllers, sizeof(controllers));
	if (!strstr(controllers, "memory"))
		ktap_skip("no memory cgroups");
	write_file(ROOT, "cgroup.subtree_control", "+memory");
	snprintf(group, sizeof(group), ROOT "/%s", name);
	CHECK(!mkdir(group, 0700) || errno == EEXIST);
	if (limit) {
		snprintf(text, sizeof(text), "%ld", limit);
		write_file(group, "memory.max", text);
	}
	return group;
}

static inline void enter_group(const char *group)
{
	write_file(group, "cgroup.procs", "0");
}

/* Charges are added and removed in portions, sometimes late. */
static inline void wait_uncharged(const char *group, long below)
{
	__u64 deadline = now_ns() + time_limit_ns();

	while (charged(group) >= below) {
		if (now_ns() > deadline)
			ktap_fail("still charged: %ld", charged(group));
		sleep_ns(10 * NSEC_PER_MSEC);
	}
}

#endif /* TWHEEL_TESTS_GROUP_H */
