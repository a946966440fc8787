/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TWHEEL_FUZZ_MINIMISE_H
#define TWHEEL_FUZZ_MINIMISE_H

#include "program.h"

/* Remove all parts of a program without which it still fails. */
void minimise(struct program *program, int (*fails)(const struct program *program));

#endif /* TWHEEL_FUZZ_MINIMISE_H */
