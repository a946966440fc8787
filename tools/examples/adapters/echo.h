/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A server that echoes data, and drops clients that have been silent for a while: the same
 * with each of the loops.
 */
#ifndef TWHEEL_ADAPTERS_ECHO_H
#define TWHEEL_ADAPTERS_ECHO_H

#include <stdint.h>

/* Serves the clients of a listening socket until it is told to stop by SIGTERM. */
int echo_serve(int listener, uint64_t idle_ns);

#endif /* TWHEEL_ADAPTERS_ECHO_H */
