// SPDX-License-Identifier: GPL-2.0
/* Replaces io_uring.c where liburing is missing. */
#include "backend.h"

bool io_uring_works(void)
{
	return false;
}

const struct backend backend_io_uring = {
	.name	= "io_uring",
};
