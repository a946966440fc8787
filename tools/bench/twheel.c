// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: a call per operation, or SUBMIT.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/twheel.h>

#include "clock.h"
#include "system.h"

#define SLACK_US	10000		/* of system_slack */

static int fd;
static struct twheel_op *ops;
static uint64_t *ids;
static struct twheel_event *events;

static const unsigned int opcodes[] = {
	[ARM]		= TWHEEL_OP_ARM,
	[REARM]		= TWHEEL_OP_MOD,
	[CANCEL]	= TWHEEL_OP_CANCEL,
};

static void twheel_open(unsigned int n)
{
	fd = open("/dev/twheel", O_RDWR);
	if (fd < 0)
		die("/dev/twheel");
	ops = array(n, sizeof(*ops));
	ids = array(n, sizeof(*ids));
	events = array(BATCH, sizeof(*events));
}

static void slack_open(unsigned int n)
{
	struct twheel_setup setup = { .slack_us = SLACK_US };

	twheel_open(n);
	if (ioctl(fd, TWHEEL_IOC_SETUP, &setup))
		die("twheel: setup");
}

static void twheel_close(void)
{
	close(fd);
	free(ops);
	free(ids);
	free(events);
}

static void fill(enum action verb, const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		ops[i] = (struct twheel_op){ .opcode = opcodes[verb] };
		if (verb != ARM)
			ops[i].id = ids[which[i]];
		if (verb != CANCEL) {
			ops[i].flags = TWHEEL_F_ABS;
			ops[i].expires_ns = deadlines[which[i]];
			ops[i].cookie = which[i];
		}
	}
}

static void keep(enum action verb, const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (ops[i].result)
			die("twheel: result");
		if (verb == ARM)
			ids[which[i]] = ops[i].id;
	}
}

static void twheel_single(enum action verb, const uint32_t *which, unsigned int nr)
{
	static const unsigned long requests[] = {
		[ARM]		= TWHEEL_IOC_ARM,
		[REARM]		= TWHEEL_IOC_MOD,
		[CANCEL]	= TWHEEL_IOC_CANCEL,
	};
	unsigned long request = requests[verb];

	fill(verb, which, nr);
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		if (ioctl(fd, request, &ops[i]))
			die("twheel: ioctl");
	}
	clock_stop();
	keep(verb, which, nr);
}

static void twheel_batch(enum action verb, const uint32_t *which, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i += BATCH) {
		struct twheel_submit submit = {
			.ops = (uintptr_t)ops,
			.nr = at_most(nr - i, BATCH),
			.op_size = sizeof(*ops),
		};
		int ret;

		fill(verb, which + i, submit.nr);
		clock_start();
		ret = ioctl(fd, TWHEEL_IOC_SUBMIT, &submit);
		clock_stop();
		if (ret < 0 || submit.done != submit.nr)
			die("twheel: submit");
		keep(verb, which + i, submit.nr);
	}
}

static unsigned int twheel_collect(void)
{
	ssize_t size = read(fd, events, BATCH * sizeof(*events));

	if (size <= 0)
		die("twheel: read");
	return size / sizeof(*events);
}

static uint64_t twheel_late_ns(unsigned int i)
{
	return clock_ns() - events[i].expires_ns;
}

const struct system system_twheel = {
	.name		= "twheel",
	.verbs		= 1 << ARM | 1 << REARM | 1 << CANCEL,
	.max		= 1000000,
	.open		= twheel_open,
	.close		= twheel_close,
	.single		= twheel_single,
	.batch		= twheel_batch,
	.collect	= twheel_collect,
	.late_ns	= twheel_late_ns,
};

const struct system system_slack = {
	.name		= "twheel",
	.open		= slack_open,
	.close		= twheel_close,
	.batch		= twheel_batch,
	.collect	= twheel_collect,
	.late_ns	= twheel_late_ns,
};
