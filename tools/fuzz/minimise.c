// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "minimise.h"

/* Try to remove halves, then quarters, and so on. Returns whether any step was removed. */
static int remove_steps(struct program *program, int (*fails)(const struct program *program))
{
	int removed = 0;

	for (unsigned int nr = program->nr / 2; nr; nr /= 2) {
		for (unsigned int first = 0; first + nr <= program->nr;) {
			struct program shorter = *program;

			program_remove(&shorter, first, nr);
			if (!shorter.nr || !fails(&shorter)) {
				first += nr;
				continue;
			}
			*program = shorter;
			removed = 1;
		}
	}
	return removed;
}

static void clear_fields(struct program *program, int (*fails)(const struct program *program))
{
	for (unsigned int i = 0; i < program->nr; i++) {
		for (unsigned int field = 1; field < sizeof(struct step); field++) {
			struct program simpler = *program;
			uint8_t *byte = (uint8_t *)&simpler.steps[i] + field;

			if (!*byte)
				continue;
			*byte = 0;
			if (fails(&simpler))
				*program = simpler;
		}
	}
}

void minimise(struct program *program, int (*fails)(const struct program *program))
{
	struct program single = *program;

	while (remove_steps(program, fails))
		;
	single = *program;
	single.threads = 1;
	if (program->threads > 1 && fails(&single))
		*program = single;
	clear_fields(program, fails);
}
