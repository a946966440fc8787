/* SPDX-License-Identifier: GPL-2.0 */
/* The interface of a loop to the tests. */
#ifndef TWHEEL_ADAPTERS_LOOP_H
#define TWHEEL_ADAPTERS_LOOP_H

#include <twheel_hub.h>

/* For callbacks: end the loop as a program does. */
void end_loop(void);

/*
 * Runs a loop that has nothing but a wheel, again and again until no node is armed. @begin is
 * called with the wheel's hub before the loop runs, and @end each time that it has ended.
 */
void run_loop(void (*begin)(struct twheel_hub *hub), void (*end)(struct twheel_hub *hub));

#endif /* TWHEEL_ADAPTERS_LOOP_H */
