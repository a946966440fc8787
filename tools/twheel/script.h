/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A script of operations on named timeouts. It is read as a whole before any line runs.
 */
#ifndef TWHEEL_SCRIPT_H
#define TWHEEL_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum script_verb {
	SCRIPT_ARM,
	SCRIPT_EVERY,
	SCRIPT_MOD,
	SCRIPT_DISARM,
	SCRIPT_CANCEL,
	SCRIPT_WAIT,
	SCRIPT_EXPECT,
	SCRIPT_PRINT,
};

/* The state of a timeout. */
enum script_state {
	SCRIPT_PENDING,
	SCRIPT_FIRED,
	SCRIPT_CANCELLED,
	SCRIPT_DISARMED,
};

/**
 * struct script_line - a line with an operation
 * @number: of the line in the file, from 1
 * @verb: the operation
 * @word: how it is written
 * @name: index into the names (all but WAIT, PRINT)
 * @ns: duration (ARM, EVERY, MOD, WAIT)
 * @count: number of deadlines (EVERY)
 * @state: the expected state (EXPECT)
 * @text: the text to print (PRINT)
 */
struct script_line {
	unsigned int number;
	enum script_verb verb;
	const char *word;
	size_t name;
	uint64_t ns;
	uint32_t count;
	enum script_state state;
	char *text;
};

/**
 * struct script - all lines of a script
 * @lines: the lines in their order, without comments and empty lines
 * @nr_lines: number of lines
 * @names: names of the timeouts
 * @nr_names: number of names
 *
 * The rest is private to the parser: a search tree of the names, the name of the file, the
 * number of the line being read, and where to write mistakes.
 */
struct script {
	struct script_line *lines;
	size_t nr_lines;
	char **names;
	size_t nr_names;
	void *index;
	const char *file;
	unsigned int number;
	FILE *mistakes;
	bool mistaken;
};

/**
 * script_parse() - read a script
 * @script: out; given back with script_free(), after a failure too
 * @file: read to its end
 * @name: of the file
 * @mistakes: where to write all mistakes, as NAME:LINE: REASON
 *
 * Return: 0; -EBADMSG if there are mistakes; another -errno if @file could not be read.
 */
int script_parse(struct script *script, FILE *file, const char *name, FILE *mistakes);

void script_free(struct script *script);

/* "pending", as it is written in a script. */
const char *script_state_name(enum script_state state);

#endif /* TWHEEL_SCRIPT_H */
