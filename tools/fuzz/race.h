/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TWHEEL_FUZZ_RACE_H
#define TWHEEL_FUZZ_RACE_H

#include "program.h"

/* Run a program in several threads. mismatch_found() returns whether there was a difference. */
void race(const struct program *program);

#endif /* TWHEEL_FUZZ_RACE_H */
