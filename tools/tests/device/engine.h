/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State of a wheel in debugfs.
 */
#ifndef TWHEEL_TESTS_ENGINE_H
#define TWHEEL_TESTS_ENGINE_H

#include <dirent.h>

#include "device.h"

#define WHEELS_DIR	"/sys/kernel/debug/twheel"

/*
 * Path of the newest private wheel. The files are numbered in the order in which wheels are
 * made, so the caller must have made its wheel last.
 */
static inline void youngest_private_wheel(char *path, size_t size)
{
	DIR *dir = opendir(WHEELS_DIR);
	struct dirent *entry;
	unsigned int number;
	int youngest = -1;

	if (!dir)
		ktap_skip("no debugfs");
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "dev-private.%u", &number) == 1 &&
		    (int)number > youngest)
			youngest = number;
	}
	closedir(dir);
	CHECK(youngest >= 0);
	snprintf(path, size, WHEELS_DIR "/dev-private.%d", youngest);
}

static inline void read_wheel(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		ktap_fail("open %s: %s", path, strerror(errno));
	len = read(fd, text, size - 1);
	CHECK(len > 0);
	close(fd);
	text[len] = 0;
}

/* Value of the counter @name of that wheel. */
static inline __u64 wheel_counter(const char *path, const char *name)
{
	char text[4096], label[40], *line;

	read_wheel(path, text, sizeof(text));
	snprintf(label, sizeof(label), "\n%s ", name);
	line = strstr(text, label);
	if (!line)
		ktap_fail("no %s in: %s", name, text);
	return strtoull(line + strlen(label), NULL, 10);
}

#endif /* TWHEEL_TESTS_ENGINE_H */
