/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The meaning of the bytes of a step. Boundary values are as likely as all other values
 * together.
 */
#ifndef TWHEEL_FUZZ_VALUES_H
#define TWHEEL_FUZZ_VALUES_H

#include <stdint.h>
#include <twheel/abi.h>

#include "model.h"
#include "program.h"

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

#endif /* TWHEEL_FUZZ_VALUES_H */
