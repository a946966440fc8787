/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program: a sequence of steps that the fuzzer runs against the device.
 *
 * A step is eight bytes, and any eight bytes are a step. The first byte selects the kind,
 * the others select arguments, each modulo the number of choices. So any change of a byte
 * changes the program, and no change makes it invalid. The meaning of a byte depends on
 * the state when the step runs: @target is not an id, but selects a live timeout or one
 * that has ended.
 *
 * In the text form, a program is one line per step, and an empty line at the end. A line
 * names the fields that are not 0. A # begins a comment. The number of threads comes first
 * unless it is 1.
 *
 *	threads 4
 *	open fd=1 error=2
 *	arm fd=1 when=11 flags=4
 */
#ifndef TWHEEL_FUZZ_PROGRAM_H
#define TWHEEL_FUZZ_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <twheel/abi.h>

struct file;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define MAX_STEPS	160
#define MAX_THREADS	4

/* Operations, from ARM to before SUBMIT, have the order of their opcodes. */
enum kind {
	OPEN, DUP, CLOSE, SETUP,
	ARM, MOD, CANCEL, GET, KICK, SUBMIT,
	CANCEL_ALL, STOP, LIST, INFO, STATS, UNKNOWN,
	READ, POLL, EPOLL, MAP, UNMAP, CELL,
	WAIT, DRAIN, FORK,
	NR_KINDS
};

/**
 * struct step - a step of a program
 * @kind: enum kind
 * @thread: number of the thread that runs it, with several threads
 * @fd: selects the descriptor
 * @target: selects the timeout, or a number of things
 * @when: selects the time, as time_of() defines
 * @span: selects the interval, or a size
 * @flags: depends on the kind
 * @error: selects an error of the step; 0: none
 */
struct step {
	uint8_t kind, thread, fd, target, when, span, flags, error;
};

/**
 * struct program - a sequence of steps
 * @threads: 1, or the number of threads that run the steps concurrently
 * @nr: number of steps
 * @steps: the steps
 */
struct program {
	uint8_t		threads;
	uint8_t		nr;
	struct step	steps[MAX_STEPS];
};

/* Random numbers. The same seed gives the same numbers on any machine. */
struct generator {
	uint64_t state;
};

struct generator generator_init(uint64_t seed, uint64_t number);
uint32_t random_below(struct generator *generator, uint32_t sides);

static inline enum kind kind_of(const struct step *step)
{
	return step->kind % NR_KINDS;
}

/* The meaning of the bytes. Boundary values are as likely as all other values together. */

/* A duration. */
uint64_t duration_of(uint8_t code, uint64_t tick);

/* A point in time near @now. */
uint64_t time_of(uint8_t code, uint64_t tick, uint64_t now);

static inline int is_op(const struct step *step)
{
	return kind_of(step) >= ARM && kind_of(step) < SUBMIT;
}

static inline uint32_t opcode_of(const struct step *step)
{
	return TWHEEL_OP_ARM + kind_of(step) - ARM;
}

/* The operation of a step for which is_op() is true. */
struct twheel_op step_to_op(const struct step *step, struct file *f, uint64_t now);

/* A word that users must not write: another idle value, or FIRED. */
uint64_t invalid_word_of(uint8_t code);

struct twheel_setup step_to_setup(const struct step *step);

/* Programs */

void program_generate(struct program *program, struct generator *generator);
void program_mutate(struct program *program, const struct program *other,
		    struct generator *generator);
void program_remove(struct program *program, unsigned int first, unsigned int nr);

void program_print(FILE *file, const struct program *program);

/* Returns 1, 0 at the end of the file, or -1 if a line cannot be parsed. */
int program_read(FILE *file, struct program *program);

#endif /* TWHEEL_FUZZ_PROGRAM_H */
