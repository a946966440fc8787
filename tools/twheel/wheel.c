// SPDX-License-Identifier: GPL-2.0
/*
 * The wheel of a context in debugfs.
 *
 * The name of a file is that of its wheel, a dot and a number: "dev.0". A shared wheel is
 * named after its clock. Several private wheels cannot be told apart, so a private wheel is
 * shown only if there is just one.
 */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "wheel.h"

const struct wheel_text wheel_texts[WHEEL_COUNTERS] = {
	[WHEEL_ARMED] = { "armed", "Timeouts enqueued, by an arm or a move." },
	[WHEEL_REARMED] = { "rearmed", "Pending timeouts that were moved." },
	[WHEEL_CANCELLED] = { "cancelled", "Timeouts dequeued, by a cancel or a move." },
	[WHEEL_FIRED] = { "fired", "Expirations." },
	[WHEEL_STOPPED] = { "stopped", "Timeouts that were pending at a stop." },
	[WHEEL_PENDING] = { "pending", "Pending timeouts." },
	[WHEEL_EXTENDED] = { "extended",
			     "Timeouts enqueued again because their deadline was extended." },
	[WHEEL_CASCADED] = { "cascaded", "Timeouts moved down a level." },
	[WHEEL_WAKEUPS] = { "wakeups", "Timer interrupts that found something to do." },
};

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
	for (size_t i = 0; i < WHEEL_COUNTERS; i++) {
		const char *name = wheel_texts[i].name;

		if (strlen(name) == len && !memcmp(line, name, len)) {
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
	wheel->occupied[level] = occupied;
	wheel->slots[level] = slots;
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

static int read_file(struct wheel *wheel, const char *path)
{
	FILE *file = fopen(path, "re");
	int ret;

	if (!file)
		return -errno;
	ret = wheel_parse(wheel, file);
	fclose(file);
	if (!ret)
		snprintf(wheel->name, sizeof(wheel->name), "%s", strrchr(path, '/') + 1);
	return ret;
}

int wheel_read(struct wheel *wheel, const char *directory, const struct twheel_info *info)
{
	glob_t found = { 0 };
	char pattern[128];
	int ret;

	memset(wheel, 0, sizeof(*wheel));
	if (access(directory, R_OK | X_OK))
		return -errno;
	snprintf(pattern, sizeof(pattern), "%s/%s.[0-9]*", directory, name_of(info));
	glob(pattern, 0, NULL, &found);
	if (found.gl_pathc == 1)
		ret = read_file(wheel, found.gl_pathv[0]);
	else
		ret = found.gl_pathc ? -ENOTUNIQ : -ENOENT;
	globfree(&found);
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
