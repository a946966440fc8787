/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processes that hold contexts open, from /proc: the descriptors of the device, the
 * values in their fdinfo, and the descriptors that share a context.
 */
#ifndef TWHEEL_HOLDERS_H
#define TWHEEL_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOLDERS_PROC	"/proc"

enum holder_value {
	HOLDER_CLOCKID,
	HOLDER_TICK_NS,
	HOLDER_MAX_TIMEOUTS,
	HOLDER_LIVE,
	HOLDER_READY,
	HOLDER_CELLS,
	HOLDER_VALUES
};

/**
 * struct holder - a descriptor that is a context
 * @context: number of the context, from 1; descriptors of one context share it
 * @pid: the process
 * @fd: the descriptor
 * @command: name of the process, in ASCII without control characters
 * @value: by enum holder_value
 */
struct holder {
	unsigned int context;
	pid_t pid;
	int fd;
	char command[32];
	uint64_t value[HOLDER_VALUES];
};

/**
 * struct holders - all that could be found
 * @holder: in the order of contexts, then of processes
 * @nr: how many
 * @contexts: index in @holder of a descriptor of each context, in the order of kcmp(2);
 *	valid during the search
 * @nr_contexts: how many contexts there are
 * @hidden: processes that may not be examined
 * @ambiguous: the kernel does not tell which descriptors share a context, so each counts
 *	as a context of its own
 */
struct holders {
	struct holder *holder;
	size_t nr;
	size_t *contexts;
	size_t nr_contexts;
	unsigned int hidden;
	bool ambiguous;
};

/**
 * holders_find() - examine all processes
 * @holders: out; given back with holders_free(), after a failure too
 * @proc: HOLDERS_PROC, except in tests
 * @device: name of the device
 * @self: a process to leave out, which inherits the descriptors of its shell
 *
 * Return: 0, or -errno if @proc or @device cannot be examined.
 */
int holders_find(struct holders *holders, const char *proc, const char *device, pid_t self);
void holders_free(struct holders *holders);

#endif /* TWHEEL_HOLDERS_H */
