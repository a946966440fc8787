// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: a call each, or SUBMIT.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/twheel.h>

#include "clock.h"
#include "system.h"

static int fd;
static struct twheel_op *ops;
static uint64_t *ids;
static uint64_t *words;
static size_t words_size;
static struct twheel_event *events;

static const unsigned int opcodes[] = {
	[ARM]		= TWHEEL_OP_ARM,
	[REARM]		= TWHEEL_OP_MOD,
	[CANCEL]	= TWHEEL_OP_CANCEL,
};

/* A word for each timeout that the file may have. */
static void map_words(void)
{
	struct twheel_info info;

	if (ioctl(fd, TWHEEL_IOC_INFO, &info))
		die("twheel: info");
	words_size = info.max_timeouts * sizeof(*words);
	words = mmap(NULL, words_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		die("twheel: mmap");
}

static void twheel_open(unsigned int n)
{
	fd = open("/dev/twheel", O_RDWR);
	if (fd < 0)
		die("/dev/twheel");
	if (with_touch)
		map_words();
	ops = array(n, sizeof(*ops));
	ids = array(n, sizeof(*ids));
	events = array(BATCH, sizeof(*events));
}

static void twheel_close(void)
{
	if (with_touch)
		munmap(words, words_size);
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
			ops[i].flags = TWHEEL_F_ABS | (with_touch ? TWHEEL_F_TOUCH : 0);
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

/*
 * A word is where the index in the id says. Pages are faulted in beforehand, and what
 * finding out word and deadline takes is left out.
 */
static void twheel_touch(const uint32_t *which, unsigned int nr)
{
	uint64_t **at = array(nr, sizeof(*at)), *values = array(nr, sizeof(*values));

	for (unsigned int i = 0; i < nr; i++) {
		at[i] = &words[(uint32_t)ids[which[i]]];
		values[i] = deadlines[which[i]];
		*at[i] = values[i];
	}
	clock_start();
	for (unsigned int i = 0; i < nr; i++) {
		uint64_t *word = at[i], value = values[i];

		asm volatile("" : "+r" (word), "+r" (value));
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	}
	clock_stop();
	clock_begin = clock_ns();
	for (unsigned int i = 0; i < nr; i++) {
		uint64_t *word = at[i], value = values[i];

		asm volatile("" : "+r" (word), "+r" (value));
	}
	clock_stop_idle_loop();
	free(at);
	free(values);
}

static unsigned int twheel_collect(void)
{
	ssize_t size = read(fd, events, BATCH * sizeof(*events));

	if (size <= 0)
		die("twheel: read");
	return size / sizeof(*events);
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
	.touch		= twheel_touch,
};
