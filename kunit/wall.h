/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wall clock, for suites that set it.
 *
 * User Mode Linux can simulate the time (time-travel=inf-cpu). The clocks then stand still
 * while a task runs, and jump to the next timer when the CPU is idle. Only a read of a clock
 * with interrupts on takes time, 256 ns. So these functions read with interrupts off: then all
 * reads between two sleeps give the same time.
 */
#ifndef _TWHEEL_KUNIT_WALL_H
#define _TWHEEL_KUNIT_WALL_H

#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/kconfig.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
#include <linux/time-internal.h>
#endif

static inline bool clock_is_simulated(void)
{
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	return time_travel_mode == TT_MODE_INFCPU && num_possible_cpus() == 1;
#else
	return false;
#endif
}

static inline u64 read_clock(u64 (*read)(void))
{
	unsigned long flags;
	u64 ns;

	local_irq_save(flags);
	ns = read();
	local_irq_restore(flags);
	return ns;
}

static inline u64 realtime_ns(void)
{
	return read_clock(ktime_get_real_ns);
}

static inline u64 monotonic_ns(void)
{
	return read_clock(ktime_get_ns);
}

/* This reads a clock, too, for the random number generator. */
static inline void set_realtime(u64 ns)
{
	struct timespec64 ts = ns_to_timespec64(ns);
	unsigned long flags = 0;

	if (clock_is_simulated())
		local_irq_save(flags);
	do_settimeofday64(&ts);
	if (clock_is_simulated())
		local_irq_restore(flags);
}

static inline void sleep_ns(u64 ns)
{
	ktime_t time = ns_to_ktime(ns);

	set_current_state(TASK_IDLE);
	schedule_hrtimeout_range(&time, 0, HRTIMER_MODE_REL);
}

#endif /* _TWHEEL_KUNIT_WALL_H */
