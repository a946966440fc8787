/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Execution of a program step by step, and comparison with the model.
 */
#ifndef TWHEEL_FUZZ_EXECUTE_H
#define TWHEEL_FUZZ_EXECUTE_H

#include "program.h"

void execute_init(void);

/* Run a program and close all files. mismatch_found() returns whether there was a difference. */
void execute(const struct program *program);

#endif /* TWHEEL_FUZZ_EXECUTE_H */
