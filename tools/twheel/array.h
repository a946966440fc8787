/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables whose length the compiler knows.
 */
#ifndef TWHEEL_ARRAY_H
#define TWHEEL_ARRAY_H

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#endif /* TWHEEL_ARRAY_H */
