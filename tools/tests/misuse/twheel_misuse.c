// SPDX-License-Identifier: GPL-2.0
/*
 * Misuse of the engine, one case for each report of the engine or of a debug kernel. The
 * parameter names the misuse. Loading the module commits it, and the module then refuses to
 * load. If a call is refused, it must return, and the module prints that.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
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

static void never_fires(struct twheel_timeout *t)
{
}

/* A timeout is freed while it is pending. */
static void make_freed(struct twheel *w)
{
	struct twheel_timeout *t = kmalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return;
	twheel_timeout_init(w, t, never_fires);
	twheel_arm_after(t, FAR);
	kfree(t);
}

/* A timeout is initialised while it is pending. */
static void make_init(struct twheel *w)
{
	twheel_timeout_init(w, &callers[0].t, never_fires);
	twheel_arm_after(&callers[0].t, FAR);
	twheel_timeout_init(w, &callers[0].t, never_fires);
}

static void make_null(struct twheel *w)
{
	twheel_timeout_init(w, &callers[0].t, NULL);
}

static void sleep_a_little(struct caller *c)
{
	msleep(20);
}

/* A callback sleeps. */
static void make_block(struct twheel *w)
{
	caller_init(&callers[0], w, sleep_a_little);
	twheel_arm_after(&callers[0].t, 0);
	wait_for_callers(1);
}

static void wait_for_itself(struct caller *c)
{
	twheel_cancel_sync(&c->t);
}

static void make_self(struct twheel *w)
{
	caller_init(&callers[0], w, wait_for_itself);
	twheel_arm_after(&callers[0].t, 0);
	wait_for_callers(1);
}

static void stop_its_wheel(struct caller *c)
{
	twheel_stop(c->wheel, NULL, NULL);
}

static void make_stop(struct twheel *w)
{
	caller_init(&callers[0], w, stop_its_wheel);
	twheel_arm_after(&callers[0].t, 0);
	wait_for_callers(1);
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

static DECLARE_COMPLETION(sunk);
static DEFINE_MUTEX(mutex);
static DEFINE_SPINLOCK(lock);

static void misuse_sink(void *data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	void (*run)(struct twheel_timeout *t) = data;

	run(list_first_entry(expired, struct twheel_timeout, entry));
	complete(&sunk);
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
	if (wait_for_completion_timeout(&sunk, msecs_to_jiffies(20000))) {
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

static void make_listed(struct twheel *w)
{
	run_sink(leave_on_list, NULL);
}

static void lock_mutex(struct twheel_timeout *t)
{
	list_del(&t->entry);
	mutex_lock(&mutex);
	mutex_unlock(&mutex);
	twheel_accept(t);
}

static void make_sleeping(struct twheel *w)
{
	run_sink(lock_mutex, NULL);
}

static void wait_for_sink(struct twheel_timeout *t)
{
	list_del(&t->entry);
	twheel_cancel_sync(t);
	twheel_accept(t);
}

static void make_waiting(struct twheel *w)
{
	run_sink(wait_for_sink, NULL);
}

static void extend_accepted(struct twheel_timeout *t)
{
	list_del(&t->entry);
	twheel_accept(t);
	twheel_extend(t, FAR, 0);
}

static void make_extended(struct twheel *w)
{
	run_sink(extend_accepted, NULL);
}

static void take_lock(struct twheel_timeout *t)
{
	list_del(&t->entry);
	spin_lock(&lock);
	spin_unlock(&lock);
	twheel_accept(t);
}

static void flush_with_lock(struct twheel *w)
{
	spin_lock_bh(&lock);
	twheel_flush(w);
	spin_unlock_bh(&lock);
}

/* A task waits for a sink with a lock that the sink takes. */
static void make_holding(struct twheel *w)
{
	run_sink(take_lock, flush_with_lock);
}

static const struct {
	const char	*name;
	void		(*make)(struct twheel *w);
} mistakes[] = {
	{ "freed", make_freed },
	{ "init", make_init },
	{ "null", make_null },
	{ "block", make_block },
	{ "self", make_self },
	{ "stop", make_stop },
	{ "flush", make_flush },
	{ "listed", make_listed },
	{ "sleeping", make_sleeping },
	{ "waiting", make_waiting },
	{ "extended", make_extended },
	{ "holding", make_holding },
};

static int __init misuse_init(void)
{
	struct twheel *w = twheel_create(&(struct twheel_params){ .name = "misuse" });
	unsigned int i;

	if (IS_ERR(w))
		return PTR_ERR(w);
	for (i = 0; i < ARRAY_SIZE(mistakes); i++)
		if (mistake && !strcmp(mistake, mistakes[i].name))
			mistakes[i].make(w);
	twheel_destroy(w);
	return -ECANCELED;
}
module_init(misuse_init);

MODULE_DESCRIPTION("Mistakes in the use of twheel");
MODULE_LICENSE("GPL");
