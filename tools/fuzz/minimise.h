/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TWHEEL_FUZZ_MINIMISE_H
#define TWHEEL_FUZZ_MINIMISE_H

#include "program.h"

/* Take away from a program what @fails does not need in order to fail. */
void minimise(struct program *program, int (*fails)(const struct program *program));

#endif /* TWHEEL_FUZZ_MINIMISE_H */
