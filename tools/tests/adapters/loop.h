/* SPDX-License-Identifier: GPL-2.0 */
/* The interface of a loop to the tests. There is one at a time, which has nothing but a wheel. */
#ifndef TWHEEL_ADAPTERS_LOOP_H
#define TWHEEL_ADAPTERS_LOOP_H

#include <twheel_hub.h>

/* Returns the hub of the wheel. */
struct twheel_hub *open_loop(void);

/* Runs the loop until no node is armed, or until end_loop(). */
void run_loop(void);

/* For callbacks: end the loop as a program does. */
void end_loop(void);

void close_loop(void);

#endif /* TWHEEL_ADAPTERS_LOOP_H */
