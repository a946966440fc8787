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

#include "clock.h"
#include "system.h"

#define MISDN_ADD	_IOR('I', 64, int)
#define MISDN_DELETE	_IOR('I', 65, int)

#define READ_CLOCK	64		/* timeouts added with one look at the clock */

/* The device rounds down to jiffies and counts from the last one. */
#define EARLY_MS	8

static int fd;
static int *ids;

static void misdn_open(unsigned int n)
{
	fd = open("/dev/mISDNtimer", O_RDWR);
	if (fd < 0)
		die("/dev/mISDNtimer");
	ids = array(n, sizeof(*ids));
}

static void misdn_close(void)
{
	close(fd);
	free(ids);
}

static void arm(const uint32_t *which, unsigned int nr)
{
	uint64_t now = 0;

	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		if (i % READ_CLOCK == 0)
			now = clock_ns();
		ids[which[i]] = (deadlines[which[i]] - now) / NSEC_PER_MSEC + EARLY_MS;
		if (ioctl(fd, MISDN_ADD, &ids[which[i]]))
			die("misdn: add");
	}
	clock_stop();
}

static void cancel(const uint32_t *which, unsigned int nr)
{
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		if (ioctl(fd, MISDN_DELETE, &ids[which[i]]))
			die("misdn: delete");
	}
	clock_stop();
}

static void misdn_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	if (verb == ARM)
		arm(which, nr);
	else
		cancel(which, nr);
}

static unsigned int misdn_collect(void)
{
	int id;

	if (read(fd, &id, sizeof(id)) != sizeof(id))
		die("misdn: read");
	return 1;
}

const struct system system_misdn = {
	.name		= "misdn",
	.verbs		= 1 << ARM | 1 << CANCEL,
	.max		= 1000000,
	.search		= 1024,
	.open		= misdn_open,
	.close		= misdn_close,
	.single		= misdn_single,
	.collect	= misdn_collect,
};
