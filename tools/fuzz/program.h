/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program: the sequence of steps that the fuzzer runs against the device.
 *
 * A step is eight bytes, and every eight bytes are a step: the first selects its kind,
 * the others what it is done with, each taken modulo what there is of it. So any change
 * of a byte is a change of the program and none makes an invalid one. What a byte stands
 * for depends on what exists when the step runs: @target is not an id, but the n-th of
 * those that live by then, or one that has died.
 *
 * As text a program is a line a step, the fields that are not 0 by name, and an empty
 * line at its end. What stands after # is a comment.
 *
 *	threads 1
 *	open fd=1 odd=2
 *	arm fd=1 when=11 flags=4
 */
#ifndef TWHEEL_FUZZ_PROGRAM_H
#define TWHEEL_FUZZ_PROGRAM_H

#include <stdint.h>
#include <stdio.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define MAX_STEPS	160
#define MAX_THREADS	4

enum kind {
	OPEN, DUP, CLOSE, SETUP,
	ARM, MOD, CANCEL, GET, KICK, SUBMIT,
	CANCEL_ALL, STOP, LIST, INFO, STATS, TRIM, UNKNOWN,
	READ, POLL, EPOLL, MAP, UNMAP, CELL,
	WAIT, DRAIN, FORK,
	NR_KINDS
};

/**
 * struct step - one of a program
 * @kind: enum kind
 * @who: the thread that does it, if there are several
 * @fd: which descriptor
 * @target: which timeout; how many
 * @when: which time, see moment_of()
 * @span: which interval; how large
 * @flags: as the kind has it
 * @odd: what is wrong with it; 0: nothing
 */
struct step {
	uint8_t kind, who, fd, target, when, span, flags, odd;
};

/**
 * struct program - steps
 * @threads: 1, or how many do them at the same time, see race.c
 * @nr: how many steps
 * @steps: the steps
 */
struct program {
	uint8_t		threads;
	uint8_t		nr;
	struct step	steps[MAX_STEPS];
};

/* Dice. The same seed gives the same numbers, everywhere. */
struct dice {
	uint64_t state;
};

struct dice dice_of(uint64_t seed, uint64_t number);
uint32_t roll(struct dice *dice, uint32_t sides);

static inline enum kind kind_of(const struct step *step)
{
	return step->kind % NR_KINDS;
}

void program_make(struct program *program, struct dice *dice);
void program_mutate(struct program *program, const struct program *other, struct dice *dice);
void program_remove(struct program *program, unsigned int first, unsigned int nr);

void program_print(FILE *file, const struct program *program);

/* Returns 1, 0 at the end of the file, -1 if a line is not understood. */
int program_read(FILE *file, struct program *program);

#endif /* TWHEEL_FUZZ_PROGRAM_H */
