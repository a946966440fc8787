/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that were worth keeping: each goes a way that none before it went.
 */
#ifndef TWHEEL_FUZZ_CORPUS_H
#define TWHEEL_FUZZ_CORPUS_H

#include "program.h"

/* A file of programs, or a directory of such. Exits if it is not understood. */
void corpus_load(const char *path);

void corpus_add(const struct program *program);
unsigned int corpus_size(void);
const struct program *corpus_at(unsigned int i);

#endif /* TWHEEL_FUZZ_CORPUS_H */
