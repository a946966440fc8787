// SPDX-License-Identifier: GPL-2.0
/* No timeouts: the cost of the rest of a program. */
#include <stdlib.h>

#include "../machine.h"
#include "backend.h"

static struct timers *none_open(unsigned int n, uint64_t slack_ns)
{
	struct timers *timers = zeroed_array(1, sizeof(*timers));

	*timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	return timers;
}

static void none_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	(void)timers;
	(void)number;
	(void)expires_ns;
}

static void none_cancel(struct timers *timers, uint32_t number)
{
	(void)timers;
	(void)number;
}

static unsigned int none_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	(void)timers;
	(void)now_ns;
	(void)numbers;
	return 0;
}

static int none_fd(struct timers *timers)
{
	(void)timers;
	return -1;
}

static void none_close(struct timers *timers)
{
	free(timers);
}

const struct backend backend_none = {
	.name	= "none",
	.open	= none_open,
	.close	= none_close,
	.arm	= none_arm,
	.cancel	= none_cancel,
	.take	= none_take,
	.fd	= none_fd,
};
