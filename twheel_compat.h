/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the supported kernels, under the newest kernel's names.
 * Dropping an old kernel is the removal of its shims here.
 */
#ifndef _TWHEEL_COMPAT_H
#define _TWHEEL_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

/* Linux 6.13: initialises the timer and its callback in one call. */
#ifndef TWHEEL_HAS_hrtimer_setup
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

/* Linux 6.3: the flags of a mapping are not written directly. */
#ifndef TWHEEL_HAS_vm_flags_mod
static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags |= set;
	vma->vm_flags &= ~clear;
}
#endif

/* Linux 6.10: the source of the string is known from __string(). */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define twheel_assign_str(field, source)	__assign_str(field, source)
#else
#define twheel_assign_str(field, source)	__assign_str(field)
#endif

/* Linux 6.14: suites can be known to KUnit without being run. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define twheel_run_kunit_suites(suites, nr)	__kunit_test_suites_init(suites, nr)
#else
#define twheel_run_kunit_suites(suites, nr)	__kunit_test_suites_init(suites, nr, true)
#endif

/* Linux 6.6: list hardening without CONFIG_DEBUG_LIST. */
#if defined(CONFIG_DEBUG_LIST) || defined(CONFIG_LIST_HARDENED)
#define TWHEEL_LIST_HARDENED	1
#else
#define TWHEEL_LIST_HARDENED	0
#endif

/* Linux 6.13: namespaces are strings. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define EXPORT_SYMBOL_TWHEEL_TEST(symbol)	EXPORT_SYMBOL_NS_GPL(symbol, TWHEEL_TEST)
#define TWHEEL_IMPORT_TEST_NS()		MODULE_IMPORT_NS(TWHEEL_TEST)
#else
#define EXPORT_SYMBOL_TWHEEL_TEST(symbol)	EXPORT_SYMBOL_NS_GPL(symbol, "TWHEEL_TEST")
#define TWHEEL_IMPORT_TEST_NS()		MODULE_IMPORT_NS("TWHEEL_TEST")
#endif

#endif /* _TWHEEL_COMPAT_H */
