/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load and unload the modules of the test VM. Needs _GNU_SOURCE.
 */
#ifndef TWHEEL_TESTS_MODULE_H
#define TWHEEL_TESTS_MODULE_H

#include <sys/stat.h>
#include <sys/syscall.h>

#include "device.h"

struct module {
	const char *name;
	void *image;
	size_t size;
};

static struct module engine_module = { .name = "twheel" };
static struct module device_module = { .name = "twheel_dev" };

static inline void read_module(struct module *m)
{
	char path[64];
	struct stat stat;
	int fd;

	snprintf(path, sizeof(path), "/modules/%s.ko", m->name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(fstat(fd, &stat), 0);
	m->size = stat.st_size;
	m->image = malloc(m->size);
	CHECK(m->image);
	CHECK_EQ(read(fd, m->image, m->size), m->size);
	close(fd);
}

/* Returns 0 or -errno. */
static inline int load_module(const struct module *m)
{
	return syscall(SYS_init_module, m->image, m->size, "") ? -errno : 0;
}

static inline int unload_module(const struct module *m)
{
	return syscall(SYS_delete_module, m->name, O_NONBLOCK) ? -errno : 0;
}

static inline int module_is_loaded(const struct module *m)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/module/%s/initstate", m->name);
	return !access(path, F_OK);
}

#endif /* TWHEEL_TESTS_MODULE_H */
