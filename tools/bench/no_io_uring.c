// SPDX-License-Identifier: GPL-2.0
/* Replaces io_uring.c where liburing is missing. */
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
