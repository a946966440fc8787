// SPDX-License-Identifier: GPL-2.0
/*
 * The timer device of the kernel's ISDN stack. All timeouts share a file. One ioctl adds a
 * timeout, another one walks a list to delete a timeout by its number. read() returns the
 * number of a timeout that has fired. Times are relative and in milliseconds.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../machine.h"
#include "backend.h"

#define MISDN_ADD	_IOR('I', 64, int)
#define MISDN_DELETE	_IOR('I', 65, int)

/* The device rounds down to jiffies and counts from the last one. */
#define EARLY_MS	8

struct misdn {
	struct timers	timers;
	int		fd;
	int		ids[];
};

static struct timers *misdn_open(unsigned int n, uint64_t slack_ns)
{
	struct misdn *set = zeroed_array(1, sizeof(*set) + n * sizeof(*set->ids));

	set->timers = (struct timers){ .n = n, .slack_ns = slack_ns };
	set->fd = open("/dev/mISDNtimer", O_RDWR);
	if (set->fd < 0)
		die("/dev/mISDNtimer");
	return &set->timers;
}

static void misdn_close(struct timers *timers)
{
	close(((struct misdn *)timers)->fd);
	free(timers);
}

static void misdn_arm(struct timers *timers, uint32_t number, uint64_t expires_ns)
{
	struct misdn *set = (struct misdn *)timers;
	int *id = &set->ids[number], fd = set->fd;

	*id = (expires_ns - clock_ns()) / NSEC_PER_MSEC + EARLY_MS;
	clock_start();
	if (ioctl(fd, MISDN_ADD, id))
		die("misdn: add");
	clock_stop();
}

static void misdn_cancel(struct timers *timers, uint32_t number)
{
	struct misdn *set = (struct misdn *)timers;
	int *id = &set->ids[number], fd = set->fd;

	clock_start();
	if (ioctl(fd, MISDN_DELETE, id))
		die("misdn: delete");
	clock_stop();
}

static unsigned int misdn_take(struct timers *timers, uint64_t now_ns, uint32_t *numbers)
{
	int id;

	(void)now_ns;
	(void)numbers;
	if (read(((struct misdn *)timers)->fd, &id, sizeof(id)) != sizeof(id))
		die("misdn: read");
	return 1;
}

/* It takes no numbers: those of the device count its timeouts, and nobody asks for them. */
const struct backend backend_misdn = {
	.name	= "misdn",
	.open	= misdn_open,
	.close	= misdn_close,
	.arm	= misdn_arm,
	.cancel	= misdn_cancel,
	.take	= misdn_take,
};
