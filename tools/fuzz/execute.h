/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Running a program, one step after the other, and comparing with the model.
 */
#ifndef TWHEEL_FUZZ_EXECUTE_H
#define TWHEEL_FUZZ_EXECUTE_H

#include "program.h"

void execute_init(void);

/* How long to wait for an event that is due; it is no promise of the device. */
void execute_patience(int ms);

/* Afterwards everything is closed; disagreed() tells how it went. */
void execute(const struct program *program);

#endif /* TWHEEL_FUZZ_EXECUTE_H */
