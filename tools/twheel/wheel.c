// SPDX-License-Identifier: GPL-2.0
/*
 * The wheel of a context in debugfs.
 *
 * The name of a file is that of its wheel, a dot and a number: "dev.0". A shared wheel is
 * named after its clock. Several private wheels cannot be told apart, so a private wheel is
 * shown only if there is just one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array.h"
#include "cli.h"
#include "wheel.h"

static const char *const names[WHEEL_COUNTERS] = {
	[WHEEL_ARMED]		= "armed",
	[WHEEL_REARMED]		= "rearmed",
	[WHEEL_CANCELLED]	= "cancelled",
	[WHEEL_FIRED]		= "fired",
	[WHEEL_STOPPED]		= "stopped",
	[WHEEL_PENDING]		= "pending",
	[WHEEL_EXTENDED]	= "extended",
	[WHEEL_CASCADED]	= "cascaded",
	[WHEEL_WAKEUPS]		= "wakeups",
};

const char *wheel_counter_name(enum wheel_counter counter)
{
	return names[counter];
}

static const char *const helps[WHEEL_COUNTERS] = {
	[WHEEL_ARMED]		= "Timeouts enqueued, by an arm or a move.",
	[WHEEL_REARMED]		= "Pending timeouts that were moved.",
	[WHEEL_CANCELLED]	= "Timeouts dequeued, by a cancel or a move.",
	[WHEEL_FIRED]		= "Expirations.",
	[WHEEL_STOPPED]		= "Timeouts that were pending at a stop.",
	[WHEEL_PENDING]		= "Pending timeouts.",
	[WHEEL_EXTENDED]	= "Timeouts enqueued again because their deadline was extended.",
	[WHEEL_CASCADED]	= "Timeouts moved down a level.",
	[WHEEL_WAKEUPS]		= "Timer interrupts that found something to do.",
};

const char *wheel_counter_help(enum wheel_counter counter)
{
	return helps[counter];
}

/* Reads a number and moves *@line behind it. */
static bool take_number(const char **line, uint64_t *value)
{
	char *end;

	*value = strtoull(*line, &end, 10);
	if (end == *line)
		return false;
	*line = end;
	return true;
}

/* "armed          1024" */
static void take_counter(struct wheel *wheel, const char *line)
{
	size_t len = strcspn(line, " ");
	const char *rest = line + len;
	uint64_t value;

	if (!take_number(&rest, &value))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strlen(names[i]) == len && !memcmp(line, names[i], len)) {
			wheel->counter[i] = value;
			wheel->known |= 1U << i;
		}
	}
}

/* "    0              97  512": level, slots that are not empty, all slots */
static void take_level(struct wheel *wheel, const char *line)
{
	uint64_t level, occupied, slots;

	if (!take_number(&line, &level) || !take_number(&line, &occupied) ||
	    !take_number(&line, &slots) || level >= WHEEL_LEVELS)
		return;
	wheel->level[level].occupied = occupied;
	wheel->level[level].slots = slots;
	if (wheel->levels <= level)
		wheel->levels = level + 1;
}

/* The file has counters, then a table of levels with a title. */
int wheel_parse(struct wheel *wheel, FILE *file)
{
	void (*take)(struct wheel *wheel, const char *line) = take_counter;
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "level ", 6))
			take = take_level;
		else
			take(wheel, line);
	}
	return ferror(file) ? -EIO : 0;
}

static const char *name_of(const struct twheel_info *info)
{
	if (info->flags & TWHEEL_INFO_PRIVATE)
		return "dev-private";
	switch (info->clock) {
	case CLOCK_BOOTTIME:
		return "dev-boottime";
	case CLOCK_REALTIME:
		return "dev-realtime";
	default:
		return "dev";
	}
}

/* Returns whether @file is @name, a dot and digits. */
static bool is_file_of(const char *file, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(file, name, len) || file[len] != '.' || !file[len + 1])
		return false;
	return !file[len + 1 + strspn(file + len + 1, "0123456789")];
}

/* Find the only file of a wheel named @name. Names too long for @wheel are skipped. */
static int find(struct wheel *wheel, DIR *directory, const char *name)
{
	const struct dirent *entry;

	while ((entry = readdir(directory))) {
		size_t len = strlen(entry->d_name);

		if (!is_file_of(entry->d_name, name) || len >= sizeof(wheel->name))
			continue;
		if (wheel->name[0])
			return -ENOTUNIQ;
		memcpy(wheel->name, entry->d_name, len);
	}
	return wheel->name[0] ? 0 : -ENOENT;
}

static int read_file(struct wheel *wheel, int directory)
{
	int fd = openat(directory, wheel->name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int ret;

	if (!file) {
		ret = -errno;
		if (fd >= 0)
			close(fd);
		return ret;
	}
	ret = wheel_parse(wheel, file);
	fclose(file);
	return ret;
}

int wheel_read(struct wheel *wheel, const char *directory, const struct twheel_info *info)
{
	DIR *dir = opendir(directory);
	int ret;

	memset(wheel, 0, sizeof(*wheel));
	if (!dir)
		return -errno;
	ret = find(wheel, dir, name_of(info));
	if (!ret)
		ret = read_file(wheel, dirfd(dir));
	closedir(dir);
	if (ret)
		wheel->name[0] = '\0';
	return ret;
}

const char *wheel_why(int error)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
		return "only root can read " WHEEL_DIRECTORY;
	case -ENOENT:
		return "it is not in " WHEEL_DIRECTORY " (is debugfs mounted?)";
	case -ENOTUNIQ:
		return "there are several private wheels in " WHEEL_DIRECTORY;
	default:
		return strerror(-error);
	}
}

int wheel_complain(int error)
{
	cli_error("the wheel is not shown: %s", wheel_why(error));
	return error == -EACCES || error == -EPERM ? EX_NOPERM : EX_UNAVAILABLE;
}
