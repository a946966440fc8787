// SPDX-License-Identifier: GPL-2.0
/*
 * The cell functions in libtwheel.h, for the part library, which looks at the instructions that
 * compilers generate. They must be those that the comment in the header names, and no weaker ones.
 */
#include <libtwheel.h>

int arm(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id, uint64_t ns)
{
	return twheel_cell_arm(ctx, cell, id, ns);
}

int later(struct twheel_kicks *kicks, struct twheel_cell *cell, uint64_t id, uint64_t ns)
{
	return twheel_cell_arm_later(kicks, cell, id, ns);
}

int cancel(struct twheel_cell *cell)
{
	return twheel_cell_cancel(cell);
}

int cancel_at(struct twheel_cell *cell, uint64_t ns)
{
	return twheel_cell_cancel_at(cell, ns);
}
