// SPDX-License-Identifier: GPL-2.0
/* In place of io_uring.c, where there is no liburing. */
#include <time.h>

#include "clock.h"
#include "system.h"

bool io_uring_works(void)
{
	return false;
}

const struct system system_io_uring = {
	.name		= "io_uring",
};
