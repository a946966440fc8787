/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that are kept because each takes a path that no program before it took.
 */
#ifndef TWHEEL_FUZZ_CORPUS_H
#define TWHEEL_FUZZ_CORPUS_H

#include "program.h"

/* Load a file of programs, or a directory of such files. Exits if one cannot be parsed. */
void corpus_load(const char *path);

void corpus_add(const struct program *program);
unsigned int corpus_size(void);
const struct program *corpus_at(unsigned int i);

#endif /* TWHEEL_FUZZ_CORPUS_H */
