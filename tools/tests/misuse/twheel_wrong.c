// SPDX-License-Identifier: GPL-2.0
/*
 * Bugs that the debug kernels must detect, one of each type. The parameter names the bug.
 * Loading the module commits it, and the module then refuses to load, so that nothing else
 * is left behind.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>

static char *mistake;
module_param(mistake, charp, 0444);
MODULE_PARM_DESC(mistake, "name of the mistake to make");

static unsigned long counter;
static DEFINE_SPINLOCK(one);
static DEFINE_SPINLOCK(other);

static int count(void *data)
{
	while (!kthread_should_stop()) {
		counter++;
		cond_resched();
	}
	return 0;
}

/* Plain accesses by two threads. */
static void make_race(void)
{
	struct task_struct *a = kthread_run(count, NULL, "race/a");
	struct task_struct *b = kthread_run(count, NULL, "race/b");

	msleep(3000);
	if (!IS_ERR(a))
		kthread_stop(a);
	if (!IS_ERR(b))
		kthread_stop(b);
}

static void make_use(void)
{
	char *p = kmalloc(64, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	if (p)
		counter = READ_ONCE(*p);
}

static void make_shift(void)
{
	unsigned int by = 64;

	OPTIMIZER_HIDE_VAR(by);
	counter = 1UL << by;
}

static void make_list(void)
{
	LIST_HEAD(head);
	LIST_HEAD(entry);

	list_add(&entry, &head);
	list_add(&entry, &head);
}

static void make_order(void)
{
	spin_lock(&one);
	spin_lock(&other);
	spin_unlock(&other);
	spin_unlock(&one);
	spin_lock(&other);
	spin_lock(&one);
	spin_unlock(&one);
	spin_unlock(&other);
}

static void make_sleep(void)
{
	spin_lock(&one);
	msleep(20);
	spin_unlock(&one);
}

static void timer_fires(struct timer_list *timer)
{
}

static void make_object(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, timer_fires, 0);
	mod_timer(timer, jiffies + HZ);
	kfree(timer);
}

static void make_leak(void)
{
	char *p = kmalloc(64, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
}

static const struct {
	const char	*name;
	void		(*make)(void);
} mistakes[] = {
	{ "race", make_race },
	{ "use", make_use },
	{ "shift", make_shift },
	{ "list", make_list },
	{ "order", make_order },
	{ "sleep", make_sleep },
	{ "object", make_object },
	{ "leak", make_leak },
};

static int __init wrong_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (mistake && !strcmp(mistake, mistakes[i].name)) {
			mistakes[i].make();
			return -ECANCELED;
		}
	}
	return -EINVAL;
}
module_init(wrong_init);

MODULE_DESCRIPTION("Mistakes for the kernels that see them");
MODULE_LICENSE("GPL");
