// SPDX-License-Identifier: GPL-2.0
/*
 * Bugs that the debug kernels must detect, one of each type. Misuse of the engine, one case for
 * each report of the engine or of a debug kernel. The parameter names the mistake. Loading the
 * module makes it, and the module then refuses to load, so that nothing else is left behind.
 * If a call is refused, it must return, and the module prints that.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "twheel.h"

static char *mistake;
module_param(mistake, charp, 0444);
MODULE_PARM_DESC(mistake, "name of the mistake to make");

#define FAR	(3600 * (u64)NSEC_PER_SEC)

static DEFINE_MUTEX(mutex);
static DEFINE_SPINLOCK(lock);

/* Bugs without the engine */

static unsigned long counter;

static int count(void *data)
{
	while (!kthread_should_stop()) {
		counter++;
		cond_resched();
	}
	return 0;
}

/* Plain accesses by two threads. */
static void make_race(struct twheel *w)
{
	struct task_struct *a = kthread_run(count, NULL, "race/a");
	struct task_struct *b = kthread_run(count, NULL, "race/b");

	msleep(3000);
	if (!IS_ERR(a))
		kthread_stop(a);
	if (!IS_ERR(b))
		kthread_stop(b);
}

static void make_use(struct twheel *w)
{
	char *p = kmalloc(64, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	if (p)
		counter = READ_ONCE(*p);
}

static void make_shift(struct twheel *w)
{
	unsigned int by = 64;

	OPTIMIZER_HIDE_VAR(by);
	counter = 1UL << by;
}

static void make_list(struct twheel *w)
{
	LIST_HEAD(head);
	LIST_HEAD(entry);

	list_add(&entry, &head);
	list_add(&entry, &head);
}

static void make_leak(struct twheel *w)
{
	char *p = kmalloc(64, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
}

/* Misuse of callbacks and timeouts */

/**
 * struct caller - a timeout and the action of its callback
 * @t: the timeout
 * @wheel: its wheel
 * @run: action of the callback
 * @began: completed when the callback begins
 * @over: completed at its end
 */
struct caller {
	struct twheel_timeout	t;
	struct twheel		*wheel;
	void			(*run)(struct caller *c);
	struct completion	began;
	struct completion	over;
};

static struct caller callers[2];

static void caller_fires(struct twheel_timeout *t)
{
	struct caller *c = container_of(t, struct caller, t);

	complete(&c->began);
	c->run(c);
	complete(&c->over);
}

static void caller_init(struct caller *c, struct twheel *w, void (*run)(struct caller *c))
{
	c->wheel = w;
	c->run = run;
	init_completion(&c->began);
	init_completion(&c->over);
	twheel_timeout_init(w, &c->t, caller_fires);
}

static void wait_for_callers(unsigned int n)
{
	while (n--)
		if (!wait_for_completion_timeout(&callers[n].over, msecs_to_jiffies(20000)))
			return;
	pr_info("%s has returned\n", mistake);
}

static void unused_callback(struct twheel_timeout *t)
{
}

/* A timeout is freed while it is pending. */
static void make_freed(struct twheel *w)
{
	struct twheel_timeout *t = kmalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return;
	twheel_timeout_init(w, t, unused_callback);
	twheel_arm_after(t, FAR);
	kfree(t);
}

/* A timeout is initialised while it is pending. */
static void make_init(struct twheel *w)
{
	twheel_timeout_init(w, &callers[0].t, unused_callback);
	twheel_arm_after(&callers[0].t, FAR);
	twheel_timeout_init(w, &callers[0].t, unused_callback);
}

static void make_null(struct twheel *w)
{
	twheel_timeout_init(w, &callers[0].t, NULL);
}

static void run_callback(struct twheel *w, void (*run)(struct caller *c))
{
	caller_init(&callers[0], w, run);
	twheel_arm_after(&callers[0].t, 0);
	wait_for_callers(1);
}

static void sleep_a_little(struct caller *c)
{
	msleep(20);
}

static void wait_for_itself(struct caller *c)
{
	twheel_cancel_sync(&c->t);
}

static void stop_its_wheel(struct caller *c)
{
	twheel_stop(c->wheel, NULL, NULL);
}

static void flush_when_both_have_begun(struct caller *c)
{
	struct caller *other = &callers[c == callers];
	unsigned int ms;

	for (ms = 0; ms < 10000 && !completion_done(&other->began); ms++)
		mdelay(1);
	twheel_flush(c->wheel);
}

static void arm_here(void *data)
{
	struct caller *c = data;

	twheel_arm_after(&c->t, 0);
}

/* Two callbacks of different shards would wait for each other's turn. */
static void make_flush(struct twheel *w)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		caller_init(&callers[i], w, flush_when_both_have_begun);
	for (i = 0; i < 2; i++)
		smp_call_function_single(i, arm_here, &callers[i], true);
	wait_for_callers(2);
}

/* Mistakes of a sink, which runs in a soft interrupt. It gets a list of one timeout. */

static DECLARE_COMPLETION(sink_done);

static void misuse_sink(void *data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	void (*run)(struct twheel_timeout *t) = data;

	run(list_first_entry(expired, struct twheel_timeout, entry));
	complete(&sink_done);
}

/* Run @run in a sink, then @after with the wheel. */
static void run_sink(void (*run)(struct twheel_timeout *t), void (*after)(struct twheel *w))
{
	struct twheel *w = twheel_create(&(struct twheel_params){
		.name = "sink", .sink = misuse_sink, .sink_data = run,
	});
	static struct twheel_timeout t;

	if (IS_ERR(w))
		return;
	twheel_timeout_init(w, &t, NULL);
	twheel_arm_after(&t, 0);
	if (wait_for_completion_timeout(&sink_done, msecs_to_jiffies(20000))) {
		if (after)
			after(w);
		pr_info("%s has returned\n", mistake);
	}
	twheel_destroy(w);
}

static void leave_on_list(struct twheel_timeout *t)
{
	twheel_accept(t);
}

static void lock_mutex(struct twheel_timeout *t)
{
	list_del(&t->entry);
	mutex_lock(&mutex);
	mutex_unlock(&mutex);
	twheel_accept(t);
}

static void wait_for_sink(struct twheel_timeout *t)
{
	list_del(&t->entry);
	twheel_cancel_sync(t);
	twheel_accept(t);
}

static void extend_accepted(struct twheel_timeout *t)
{
	list_del(&t->entry);
	twheel_accept(t);
	twheel_extend(t, FAR, 0);
}

static void take_lock(struct twheel_timeout *t)
{
	list_del(&t->entry);
	spin_lock(&lock);
	spin_unlock(&lock);
	twheel_accept(t);
}

/* A task waits for a sink with a lock that the sink takes. */
static void flush_with_lock(struct twheel *w)
{
	spin_lock_bh(&lock);
	twheel_flush(w);
	spin_unlock_bh(&lock);
}

static const struct {
	const char	*name;
	void		(*make)(struct twheel *w);
	void		(*callback)(struct caller *c);
	void		(*sink)(struct twheel_timeout *t);
	void		(*after_sink)(struct twheel *w);
} mistakes[] = {
	{ "race", make_race },
	{ "use", make_use },
	{ "shift", make_shift },
	{ "list", make_list },
	{ "leak", make_leak },
	{ "freed", make_freed },
	{ "init", make_init },
	{ "null", make_null },
	{ "flush", make_flush },
	{ "block", .callback = sleep_a_little },
	{ "self", .callback = wait_for_itself },
	{ "stop", .callback = stop_its_wheel },
	{ "listed", .sink = leave_on_list },
	{ "sleeping", .sink = lock_mutex },
	{ "waiting", .sink = wait_for_sink },
	{ "extended", .sink = extend_accepted },
	{ "holding", .sink = take_lock, .after_sink = flush_with_lock },
};

static int __init misuse_init(void)
{
	struct twheel *w = twheel_create(&(struct twheel_params){ .name = "misuse" });
	unsigned int i;

	if (IS_ERR(w))
		return PTR_ERR(w);
	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (!mistake || strcmp(mistake, mistakes[i].name))
			continue;
		if (mistakes[i].make)
			mistakes[i].make(w);
		if (mistakes[i].callback)
			run_callback(w, mistakes[i].callback);
		if (mistakes[i].sink)
			run_sink(mistakes[i].sink, mistakes[i].after_sink);
	}
	twheel_destroy(w);
	return -ECANCELED;
}
module_init(misuse_init);

MODULE_DESCRIPTION("Mistakes in the use of twheel");
MODULE_LICENSE("GPL");
