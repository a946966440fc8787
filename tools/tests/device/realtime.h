/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CLOCK_REALTIME, which the tests set.
 */
#ifndef TWHEEL_TESTS_REALTIME_H
#define TWHEEL_TESTS_REALTIME_H

#include <sys/utsname.h>

#include "device.h"

/* Set the clock only in the test VM. */
static inline void skip_outside_test_machine(void)
{
	struct utsname name;

	CHECK_EQ(uname(&name), 0);
	if (strcmp(name.nodename, "twheel"))
		ktap_skip("not in the test machine");
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, if nobody had set it. */
static __u64 realtime_base;

/* If the machine stands still between the two reads, skip_if_due() skips more, not less. */
static inline void save_realtime_base(void)
{
	__u64 monotonic = now_ns();

	realtime_base = clock_ns(CLOCK_REALTIME) - monotonic;
}

static inline void skip_without_realtime(void)
{
	skip_outside_test_machine();
	save_realtime_base();
}

static inline int open_realtime(int flags)
{
	skip_without_realtime();
	return device_open_setup(flags, setup_clock(CLOCK_REALTIME));
}

static inline void set_realtime(__s64 ahead_ns)
{
	__u64 ns = realtime_base + now_ns() + ahead_ns;
	struct timespec time = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	CHECK_EQ(clock_settime(CLOCK_REALTIME, &time), 0);
}

/* A timeout for @when may have fired before the clock was set back. */
static inline void skip_if_due(__u64 when)
{
	if (realtime_base + now_ns() < when)
		return;
	set_realtime(0);
	ktap_skip("the machine is too slow");
}

#endif /* TWHEEL_TESTS_REALTIME_H */
