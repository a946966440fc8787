/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shims that give older kernels the API names of the newest one. To drop support
 * for an old kernel, remove its shims.
 */
#ifndef _TWHEEL_COMPAT_H
#define _TWHEEL_COMPAT_H

#include <linux/cacheinfo.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#include <linux/io_uring.h>
#else
#include <linux/io_uring/cmd.h>
#endif

/* Linux 6.13: hrtimer_setup() sets the clock and the callback in one call. */
#ifndef TWHEEL_HAS_hrtimer_setup
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

/* Linux 6.3: vm_flags is const and is changed through helpers. */
#ifndef TWHEEL_HAS_vm_flags_mod
static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags |= set;
	vma->vm_flags &= ~clear;
}
#endif

/* Linux 6.9: can two mappings of a page have different contents in the data cache? */
#ifndef cpu_dcache_is_aliasing
#ifdef CONFIG_MIPS
#define cpu_dcache_is_aliasing()	cpu_has_dc_aliases
#else
#define cpu_dcache_is_aliasing()	(IS_ENABLED(CONFIG_SPARC) || IS_ENABLED(CONFIG_PARISC))
#endif
#endif

/* Linux 6.5: the command is read through the SQE. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define twheel_uring_data(ioucmd)	((ioucmd)->cmd)
#else
#define twheel_uring_data(ioucmd)	((const void *)(ioucmd)->sqe->cmd)
#endif

/* Linux 6.18: io_uring_cmd_done() has no second result; io_uring_cmd_done32() does. */
#ifdef TWHEEL_HAS_io_uring_cmd_done32
#define twheel_uring_done(cmd, ret, issue_flags)	io_uring_cmd_done(cmd, ret, issue_flags)
#else
#define twheel_uring_done(cmd, ret, issue_flags)	io_uring_cmd_done(cmd, ret, 0, issue_flags)
#endif

/* Linux 6.10: __assign_str() takes its source from __string(). */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define twheel_assign_str(field, source)	__assign_str(field, source)
#else
#define twheel_assign_str(field, source)	__assign_str(field)
#endif

/* Linux 6.14: __kunit_test_suites_init() has an argument that tells whether to run. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define twheel_run_kunit_suites(suites, nr)	__kunit_test_suites_init(suites, nr)
#else
#define twheel_run_kunit_suites(suites, nr)	__kunit_test_suites_init(suites, nr, true)
#endif

/* Linux 6.18: parameter generators get the test as an argument. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define TWHEEL_GENERATOR_ARGS	const void *prev, char *desc
#else
#define TWHEEL_GENERATOR_ARGS	struct kunit *test, const void *prev, char *desc
#endif

/* Keep CONFIG_INIT_STACK_ALL from clearing a variable. */
#if __has_attribute(__uninitialized__)
#define twheel_uninitialized	__attribute__((__uninitialized__))
#else
#define twheel_uninitialized
#endif

/*
 * Linux 6.6: list_add_tail() and list_del() have the checks of CONFIG_LIST_HARDENED inline. Before,
 * do so for those of CONFIG_DEBUG_LIST, and call the function to report a corrupted list.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
static noinline __maybe_unused void twheel_report_list(struct list_head *entry,
						       struct list_head *head)
{
	if (head)
		list_add_tail(entry, head);
	else
		list_del(entry);
}

static __always_inline void twheel_append(struct list_head *entry, struct list_head *head)
{
	struct list_head *last = head->prev;

	if (IS_ENABLED(CONFIG_DEBUG_LIST) && unlikely(last->next != head || last == entry)) {
		twheel_report_list(entry, head);
		return;
	}
	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

static __always_inline void twheel_detach(struct list_head *entry)
{
	struct list_head *prev = entry->prev, *next = entry->next;

	if (IS_ENABLED(CONFIG_DEBUG_LIST) && unlikely(prev->next != entry || next->prev != entry))
		twheel_report_list(entry, NULL);
	else
		__list_del(prev, next);
}
#else
#define twheel_append(entry, head)	list_add_tail(entry, head)
#define twheel_detach(entry)		__list_del_entry(entry)
#endif

/* Linux 6.17: the unbound workqueue has a new name. */
#ifndef TWHEEL_HAS_system_dfl_wq
#define system_dfl_wq	system_unbound_wq
#endif

#endif /* _TWHEEL_COMPAT_H */
