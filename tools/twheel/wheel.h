/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counters of a wheel, from debugfs. The format may change: a missing counter is not
 * shown, and an unknown line is skipped.
 */
#ifndef TWHEEL_WHEEL_H
#define TWHEEL_WHEEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <twheel/abi.h>

#define WHEEL_DIRECTORY		"/sys/kernel/debug/twheel"
#define WHEEL_LEVELS		12

enum wheel_counter {
	WHEEL_ARMED,
	WHEEL_REARMED,
	WHEEL_CANCELLED,
	WHEEL_FIRED,
	WHEEL_STOPPED,
	WHEEL_PENDING,
	WHEEL_EXTENDED,
	WHEEL_CASCADED,
	WHEEL_WAKEUPS,
	WHEEL_COUNTERS
};

/**
 * struct wheel - the contents of a file of debugfs
 * @name: name of the file; empty if none has been read
 * @known: a bit for each of @counter that was in the file
 * @counter: values, by enum wheel_counter
 * @levels: number of levels
 * @occupied: slots that are not empty, for each level, of all CPUs together
 * @slots: all slots, likewise
 */
struct wheel {
	char		name[64];
	uint32_t	known;
	uint64_t	counter[WHEEL_COUNTERS];
	unsigned int	levels;
	__u64		occupied[WHEEL_LEVELS];
	__u64		slots[WHEEL_LEVELS];
};

/* Name and meaning of each counter. */
struct wheel_text {
	const char *name;
	const char *help;
};

extern const struct wheel_text wheel_texts[WHEEL_COUNTERS];

static inline bool wheel_knows(const struct wheel *wheel, enum wheel_counter counter)
{
	return wheel->known >> counter & 1;
}

/**
 * wheel_parse() - read the text of a file
 * @wheel: out, but for the name
 * @file: the text
 *
 * Return: 0, or -EIO if it cannot be read.
 */
int wheel_parse(struct wheel *wheel, FILE *file);

/**
 * wheel_read() - find the file of a context's wheel, and read it
 * @wheel: out; with an empty name after a failure
 * @directory: WHEEL_DIRECTORY, but in tests
 * @info: of the context
 *
 * Return: 0; -EACCES without permission; -ENOENT if there is no such file, since debugfs
 * is not mounted, say; -ENOTUNIQ if several files have the name of the wheel; -EIO.
 */
int wheel_read(struct wheel *wheel, const char *directory, const struct twheel_info *info);

/* Why wheel_read() has failed, in a few words. */
const char *wheel_why(int error);

/* Complains that the wheel is not shown. Returns the exit status if nothing else is. */
int wheel_complain(int error);

#endif /* TWHEEL_WHEEL_H */
