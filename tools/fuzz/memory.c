// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory.h"
#include "report.h"

static char *areas[READ_ONLY + 1];

void memory_init(void)
{
	static const int protection[] = {
		[GOOD] = PROT_READ | PROT_WRITE,
		[UNMAPPED] = PROT_NONE,
		[READ_ONLY] = PROT_READ,
	};

	for (int i = GOOD; i <= READ_ONLY; i++) {
		areas[i] = shared_memory(2 * MEMORY_SIZE);
		if (mprotect(areas[i] + MEMORY_SIZE, MEMORY_SIZE, protection[i])) {
			perror("fuzz: mprotect");
			exit(1);
		}
	}
}

void *memory_place(enum memory memory, size_t size, size_t usable)
{
	return areas[memory] + MEMORY_SIZE - (memory == GOOD ? size : usable);
}
