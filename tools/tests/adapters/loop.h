/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests need of a loop. */
#ifndef TWHEEL_ADAPTERS_LOOP_H
#define TWHEEL_ADAPTERS_LOOP_H

#include <twheel_hub.h>

/*
 * Runs a loop that has nothing but a wheel, until it ends by itself; @begin is called with
 * the wheel's hub before, and @end after it.
 */
void run_loop(void (*begin)(struct twheel_hub *hub), void (*end)(struct twheel_hub *hub));

#endif /* TWHEEL_ADAPTERS_LOOP_H */
