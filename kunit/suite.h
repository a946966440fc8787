/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_KUNIT_SUITE_H
#define _TWHEEL_KUNIT_SUITE_H

#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../twheel_compat.h"

/* KUNIT_ARRAY_PARAM() of an array of structures that have a name. */
#define NAMED_PARAM(id, array)							\
static void id##_desc(typeof(array[0]) *c, char *desc)				\
{										\
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);				\
}										\
KUNIT_ARRAY_PARAM(id, array, id##_desc)

/*
 * Use this in place of kunit_test_suite(). KUnit runs the suites of a module before the
 * module's parameters are parsed, and only if the kernel was configured with KUnit. This
 * macro runs them with parsed parameters, on any kernel. Suites in the kernel itself are left
 * to KUnit, which runs them after all initcalls.
 */
#ifdef MODULE
#define module_test_suite(suite)						\
static struct kunit_suite * const module_suites[] = { &(suite) };		\
static int __init run_module_suites(void)					\
{										\
	return twheel_run_kunit_suites(module_suites, 1);			\
}										\
module_init(run_module_suites);							\
static void __exit end_module_suites(void)					\
{										\
	__kunit_test_suites_exit((struct kunit_suite **)module_suites, 1);	\
}										\
module_exit(end_module_suites)
#else
#define module_test_suite(suite)	kunit_test_suite(suite)
#endif

/*
 * Move the current thread to @cpu if that is online. A move to a CPU that goes offline
 * meanwhile may leave the thread elsewhere, and migrate_enable() of PREEMPT_RT warns then. So
 * no CPU may go offline in the middle of it.
 */
static inline void migrate_to(unsigned int cpu)
{
	if (!cpus_read_trylock())
		return;
	if (cpu_online(cpu))
		set_cpus_allowed_ptr(current, cpumask_of(cpu));
	cpus_read_unlock();
}

/* Returns true if @cpu has gone offline or come online. */
static inline bool set_online(unsigned int cpu, bool online)
{
#ifdef CONFIG_HOTPLUG_CPU
	return !(online ? add_cpu(cpu) : remove_cpu(cpu));
#else
	return false;
#endif
}

#endif /* _TWHEEL_KUNIT_SUITE_H */
