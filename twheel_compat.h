/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shims that give older kernels the API names of the newest one. To drop support
 * for an old kernel, remove its shims.
 */
#ifndef _TWHEEL_COMPAT_H
#define _TWHEEL_COMPAT_H

#include <linux/cacheinfo.h>
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <linux/smpboot.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/version.h>
#ifdef TWHEEL_HAS_io_uring_cmd
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
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

/* Linux 5.11: a page that a memory cgroup is charged for can be mapped. */
#ifdef PG_kmemcg
#define TWHEEL_GFP_MAPPED	GFP_KERNEL
#else
#define TWHEEL_GFP_MAPPED	GFP_KERNEL_ACCOUNT
#endif

/* Linux 5.11: INIT_CSD() */
#ifndef INIT_CSD
#define INIT_CSD(csd, function, data) \
	(*(csd) = (call_single_data_t){ .func = (function), .info = (data) })
#endif

/* Linux 5.18: housekeeping types are numbers, not flags. */
#ifndef TWHEEL_HAS_HK_TYPE_TIMER
#define HK_TYPE_TIMER	HK_FLAG_TIMER
#endif

/* Linux 6.5 and stable updates: lock guards */
#ifndef DEFINE_GUARD
#define DEFINE_CLASS(name, type, exit, init, ...)				\
	typedef type class_##name##_t;						\
	static inline void class_##name##_destructor(void *p)			\
	{ type _T = *(type *)p; exit; }						\
	static inline type class_##name##_constructor(__VA_ARGS__)		\
	{ type t = init; return t; }
#define CLASS(name, var)							\
	class_##name##_t var __attribute__((__cleanup__(class_##name##_destructor))) = \
		class_##name##_constructor
#define DEFINE_GUARD(name, type, lock, unlock)					\
	DEFINE_CLASS(name, type, unlock, ({ lock; _T; }), type _T)
#define guard(name)	CLASS(name, __UNIQUE_ID(guard))
#define scoped_guard(name, ...)							\
	for (CLASS(name, scope)(__VA_ARGS__), *done = NULL; !done; done = (void *)1)

struct twheel_irqsave {
	raw_spinlock_t	*lock;
	unsigned long	flags;
};

DEFINE_CLASS(raw_spinlock_irqsave, struct twheel_irqsave,
	     raw_spin_unlock_irqrestore(_T.lock, _T.flags),
	     ({ struct twheel_irqsave s = { l }; raw_spin_lock_irqsave(l, s.flags); s; }),
	     raw_spinlock_t *l)
DEFINE_GUARD(raw_spinlock_irq, raw_spinlock_t *, raw_spin_lock_irq(_T), raw_spin_unlock_irq(_T))
DEFINE_GUARD(raw_spinlock, raw_spinlock_t *, raw_spin_lock(_T), raw_spin_unlock(_T))
DEFINE_GUARD(mutex, struct mutex *, mutex_lock(_T), mutex_unlock(_T))
#endif

/* Linux 6.12 and stable updates: threads that are not parked can be stopped. */
static inline void twheel_unregister_threads(struct smp_hotplug_thread *threads)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	unsigned int cpu;

	/* The thread of a CPU that came or went meanwhile would be unparked, or parked twice. */
	cpu_hotplug_disable();
	for_each_online_cpu(cpu)
		kthread_park(*per_cpu_ptr(threads->store, cpu));
	smpboot_unregister_percpu_thread(threads);
	cpu_hotplug_enable();
#else
	smpboot_unregister_percpu_thread(threads);
#endif
}

/* Linux 6.0: an iov_iter of one range of user memory. The iovec is longer: @count limits it. */
#ifndef TWHEEL_HAS_iov_iter_ubuf
#define iov_iter_ubuf(i, direction, buf, count)					\
	iov_iter_init(i, direction,						\
		      &(struct iovec){ .iov_base = (buf), .iov_len = MAX_RW_COUNT }, 1, count)
#endif
#ifndef ITER_DEST
#define ITER_DEST	READ
#endif

/* Linux 5.19: io_uring has commands. */
#ifdef TWHEEL_HAS_uring_cmd
#define TWHEEL_HAS_URING	IS_ENABLED(CONFIG_IO_URING)
#else
#define TWHEEL_HAS_URING	0
#endif

/* Linux 6.5: the command is read through the SQE. */
#ifdef TWHEEL_HAS_sqe
#define twheel_uring_data(ioucmd)	((const void *)(ioucmd)->sqe->cmd)
#else
#define twheel_uring_data(ioucmd)	((ioucmd)->cmd)
#endif
struct io_uring_cmd;

/* Linux 6.1: an SQE has flags for its command. */
#ifdef IORING_URING_CMD_MASK
#define twheel_uring_flags(ioucmd)	((ioucmd)->flags & IORING_URING_CMD_MASK)
#elif defined(IORING_URING_CMD_FIXED)
#define twheel_uring_flags(ioucmd)	((ioucmd)->flags)
#else
#define twheel_uring_flags(ioucmd)	0
#endif

/*
 * Linux 6.18: io_uring_cmd_done() has no second result; io_uring_cmd_done32() does.
 * Linux 6.3 and stable updates: it has flags.
 */
#ifdef TWHEEL_HAS_io_uring_cmd_done32
#define twheel_uring_done(cmd, ret, issue_flags)	io_uring_cmd_done(cmd, ret, issue_flags)
#elif defined(TWHEEL_HAS_issue_flags)
#define twheel_uring_done(cmd, ret, issue_flags)	io_uring_cmd_done(cmd, ret, 0, issue_flags)
#else
#define twheel_uring_done(cmd, ret, issue_flags)	io_uring_cmd_done(cmd, ret, 0)
#endif

/* Linux 6.10: __assign_str() takes its source from __string(). */
#ifdef TWHEEL_HAS_assign_str
#define twheel_assign_str(field, source)	__assign_str(field)
#else
#define twheel_assign_str(field, source)	__assign_str(field, source)
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
