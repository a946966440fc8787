/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory for the arguments of calls: usable memory, and memory before a page that cannot be
 * accessed or cannot be written.
 */
#ifndef TWHEEL_FUZZ_MEMORY_H
#define TWHEEL_FUZZ_MEMORY_H

#include <stddef.h>

#define MEMORY_SIZE	8192

enum memory { GOOD, UNMAPPED, READ_ONLY };

void memory_init(void);

/* @size bytes; the first @usable are usable, the others as @memory says. */
void *memory_place(enum memory memory, size_t size, size_t usable);

#endif /* TWHEEL_FUZZ_MEMORY_H */
