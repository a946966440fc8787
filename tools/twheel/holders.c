// SPDX-License-Identifier: GPL-2.0
/*
 * The descriptors of the device in all processes.
 *
 * A descriptor is recognized by its device number, because the name of the device may
 * differ in a container. fdinfo does not identify a context; kcmp(2) does. It compares two
 * open files and orders them, so that a binary search finds a context that is known.
 *
 * A process may end, or close a descriptor, at any time: then it is left out.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "holders.h"

static const char *const names[HOLDER_VALUES] = {
	[HOLDER_CLOCKID]	= "clockid",
	[HOLDER_TICK_NS]	= "tick_ns",
	[HOLDER_MAX_TIMEOUTS]	= "max_timeouts",
	[HOLDER_LIVE]		= "live",
	[HOLDER_READY]		= "ready",
	[HOLDER_CELLS]		= "cells",
};

/* The file NAME or NAME/FD of a process; NULL if it cannot be opened. */
static FILE *open_text(int process, const char *name, const char *fd)
{
	char path[64];
	FILE *file;
	int text;

	snprintf(path, sizeof(path), "%s%s%.32s", name, fd ? "/" : "", fd ? fd : "");
	text = openat(process, path, O_RDONLY | O_CLOEXEC);
	file = text < 0 ? NULL : fdopen(text, "r");
	if (text >= 0 && !file)
		close(text);
	return file;
}

/* Lines like "live:\t7". False if one is missing: then it is no context. */
static bool read_values(struct holder *holder, int process, const char *fd)
{
	FILE *file = open_text(process, "fdinfo", fd);
	unsigned int known = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		size_t len = strcspn(line, ":");

		for (int i = 0; i < HOLDER_VALUES && line[len]; i++) {
			if (strlen(names[i]) != len || memcmp(names[i], line, len))
				continue;
			holder->value[i] = strtoull(line + len + 1, NULL, 10);
			known |= 1U << i;
		}
	}
	if (file)
		fclose(file);
	return known == (1U << HOLDER_VALUES) - 1;
}

static void read_name(struct holder *holder, int process)
{
	FILE *file = open_text(process, "comm", NULL);

	if (!file || !fgets(holder->command, sizeof(holder->command), file))
		strcpy(holder->command, "?");
	if (file)
		fclose(file);
	holder->command[strcspn(holder->command, "\n")] = '\0';
	for (char *c = holder->command; *c; c++) {
		if (!isascii((unsigned char)*c) || iscntrl((unsigned char)*c))
			*c = '?';
	}
}

/* Less than, equal to or greater than 0, in the order that the kernel gives open files. */
static int compare(struct holders *holders, const struct holder *a, const struct holder *b)
{
	switch (syscall(SYS_kcmp, a->pid, b->pid, KCMP_FILE, a->fd, b->fd)) {
	case 0:
		return 0;
	case 1:
		return -1;
	case -1:
		if (errno != ESRCH && errno != EBADF)
			holders->ambiguous = true;
	}
	return 1;
}

static void find_context(struct holders *holders, struct holder *new)
{
	size_t begin = 0, end = holders->nr_contexts;

	while (begin < end) {
		size_t middle = begin + (end - begin) / 2;
		const struct holder *known = &holders->holder[holders->contexts[middle]];
		int order = compare(holders, new, known);

		if (!order) {
			new->context = known->context;
			return;
		}
		if (order < 0)
			end = middle;
		else
			begin = middle + 1;
	}
	holders->contexts = cli_resize(holders->contexts, holders->nr_contexts + 1,
				       sizeof(*holders->contexts));
	memmove(holders->contexts + begin + 1, holders->contexts + begin,
		(holders->nr_contexts - begin) * sizeof(*holders->contexts));
	holders->contexts[begin] = new - holders->holder;
	new->context = ++holders->nr_contexts;
}

static void add(struct holders *holders, int process, pid_t pid, const char *fd)
{
	struct holder holder = { .pid = pid, .fd = (int)strtol(fd, NULL, 10) };

	if (!read_values(&holder, process, fd))
		return;
	read_name(&holder, process);
	holders->holder = cli_resize(holders->holder, holders->nr + 1, sizeof(holder));
	holders->holder[holders->nr] = holder;
	find_context(holders, &holders->holder[holders->nr++]);
}

/* A kernel thread or a zombie has an empty command line, and no descriptors. */
static bool has_descriptors(int process)
{
	FILE *file = open_text(process, "cmdline", NULL);
	bool has = file && fgetc(file) != EOF;

	if (file)
		fclose(file);
	return has;
}

static void examine(struct holders *holders, int process, pid_t pid, dev_t device)
{
	int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	struct stat found;
	DIR *dir;

	if (fds < 0) {
		if ((errno == EACCES || errno == EPERM) && has_descriptors(process))
			holders->hidden++;
		return;
	}
	dir = fdopendir(fds);
	if (!dir) {
		close(fds);
		return;
	}
	while ((entry = readdir(dir))) {
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    !fstatat(fds, entry->d_name, &found, 0) && S_ISCHR(found.st_mode) &&
		    found.st_rdev == device)
			add(holders, process, pid, entry->d_name);
	}
	closedir(dir);
}

static int by_context(const void *a, const void *b)
{
	const struct holder *one = a, *two = b;

	if (one->context != two->context)
		return one->context < two->context ? -1 : 1;
	if (one->pid != two->pid)
		return one->pid < two->pid ? -1 : 1;
	return one->fd - two->fd;
}

int holders_find(struct holders *holders, const char *proc, const char *device, pid_t self)
{
	const struct dirent *entry;
	struct stat found;
	DIR *dir;

	*holders = (struct holders) { 0 };
	if (stat(device, &found))
		return -errno;
	dir = opendir(proc);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		int process;

		if (pid <= 0 || pid == self)
			continue;
		process = openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (process < 0)
			continue;
		examine(holders, process, pid, found.st_rdev);
		close(process);
	}
	closedir(dir);
	if (holders->nr)
		qsort(holders->holder, holders->nr, sizeof(*holders->holder), by_context);
	return 0;
}

void holders_free(struct holders *holders)
{
	free(holders->contexts);
	free(holders->holder);
}
