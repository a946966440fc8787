// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that runs all operations at once. Threads on all CPUs arm, move and cancel
 * random timeouts while these fire and arm themselves again. Then the wheel is stopped
 * under this load. The test checks the accounts of the wheel and of each timeout: every
 * arming has ended exactly once, in a cancel, in a callback or the sink, or in the list
 * that twheel_stop() hands back.
 *
 *	insmod twheel_stress_kunit.ko seconds=30 stops=1000
 *
 * Each thread has timeouts of its own, for operations that require that nobody else arms
 * the timeout. The other timeouts are shared by all threads.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "fixture.h"
#include "suite.h"

static unsigned int seconds = 2;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "Duration of a case");

static unsigned int stops = 20;
module_param(stops, uint, 0444);
MODULE_PARM_DESC(stops, "Number of wheels stopped under load, half of them with a sink");

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "Seed of all decisions (0: random)");

#define MS		((u64)NSEC_PER_MSEC)

#define MAX_ACTORS	8
#define NR_SHARED	256
#define NR_OWN		64
#define NR_LISTED	128
#define NR_PERIODIC	8
#define LIST_LEN	32

/**
 * struct unit - a timeout and its account
 * @p: the timeout; a one-shot uses p.t alone
 * @crowd: set of timeouts and threads that it belongs to
 * @rearms: its callback arms it again at some expiries
 * @out: for a timeout armed by list: it may be in the wheel
 * @armed: armings; one of a periodic timeout ends with its last period
 * @cancelled: armings ended by a cancel
 * @fired: armings ended by their expiry
 * @handed_back: armings ended by twheel_stop()
 */
struct unit {
	struct twheel_periodic	p;
	struct crowd		*crowd;
	bool			rearms;
	bool			out;
	atomic_t		armed;
	atomic_t		cancelled;
	atomic_t		fired;
	atomic_t		handed_back;
};

/**
 * struct actor - a thread and its timeouts
 * @crowd: the crowd that it belongs to
 * @task: the thread, or NULL
 * @cpu: the CPU that it runs on
 * @rnd: source of its decisions
 * @own: timeouts that only this thread and their callbacks arm
 * @periodic: periodic timeouts that only this thread arms
 * @listed: timeouts that only this thread arms; it arms and cancels them by list
 */
struct actor {
	struct crowd		*crowd;
	struct task_struct	*task;
	unsigned int		cpu;
	struct rnd_state	rnd;
	struct unit		own[NR_OWN];
	struct unit		periodic[NR_PERIODIC];
	struct unit		listed[NR_LISTED];
};

/**
 * struct crowd - a wheel with its threads and timeouts
 * @wheel: the wheel
 * @sink: it has a sink
 * @moved: mods of a pending timeout
 * @early: expiries before the deadline
 * @nr_actors: number of entries of @actors in use
 * @shared: timeouts that all threads arm, move and cancel
 * @actors: the threads
 */
struct crowd {
	struct twheel		*wheel;
	bool			sink;
	atomic_t		moved;
	atomic_t		early;
	unsigned int		nr_actors;
	struct unit		shared[NR_SHARED];
	struct actor		actors[MAX_ACTORS];
};

static struct unit *unit_of(struct twheel_timeout *t)
{
	return container_of(t, struct unit, p.t);
}

static u32 roll(struct actor *a, u32 sides)
{
	return prandom_u32_state(&a->rnd) % sides;
}

/*
 * Most delays are short, so that many timeouts fire; some cascade, and some stay until the
 * stop.
 */
static u64 roll_delay(struct actor *a)
{
	switch (roll(a, 8)) {
	case 0:
		return 0;
	case 1:
		return roll(a, 300) * MS;
	case 2:
		return 3600 * (u64)NSEC_PER_SEC;
	default:
		return roll(a, 4 * MS);
	}
}

/* Expiry and hand-back */

static void note(atomic_t *account, bool happened)
{
	if (happened)
		atomic_inc(account);
}

/* Decide by the low bits of the count, which needs no random source shared by CPUs. */
static void maybe_rearm(struct unit *u)
{
	int count = atomic_read(&u->fired);

	if (u->rearms && count % 4)
		note(&u->armed, !twheel_arm_after(&u->p.t, (count % 8) * MS / 4));
}

static void note_expiry(struct unit *u, u64 now_ns)
{
	note(&u->crowd->early, now_ns < u->p.t.expires);
	atomic_inc(&u->fired);
	WRITE_ONCE(u->out, false);
}

static void crowd_sink(void *sink_data, struct list_head *expired, unsigned int nr,
		       u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		list_del(&t->entry);
		note_expiry(unit_of(t), now_ns);
		twheel_accept(t);
		maybe_rearm(unit_of(t));
	}
}

/* Another thread may have armed the timeout again, so its deadline cannot be compared. */
static void unit_fires(struct twheel_timeout *t)
{
	struct unit *u = unit_of(t);

	atomic_inc(&u->fired);
	maybe_rearm(u);
}

/* Only its thread arms it, and not before @out is false, so its deadline can be compared. */
static void listed_fires(struct twheel_timeout *t)
{
	struct unit *u = unit_of(t);

	note_expiry(u, twheel_now(u->crowd->wheel));
}

static void periodic_fires(struct twheel_periodic *p)
{
	struct unit *u = container_of(p, struct unit, p);

	note(&u->crowd->early, twheel_now(u->crowd->wheel) < p->expires);
	note(&u->fired, twheel_periodic_ended(p));
}

/* Operations of the threads; each returns false when the wheel has been stopped */

static struct unit *any_unit(struct actor *a)
{
	if (roll(a, 3))
		return &a->crowd->shared[roll(a, NR_SHARED)];
	return &a->own[roll(a, NR_OWN)];
}

static bool arm_one(struct actor *a)
{
	struct unit *u = any_unit(a);
	int ret = twheel_arm_after(&u->p.t, roll_delay(a));

	note(&u->armed, !ret);
	return ret != -ESHUTDOWN;
}

static bool arm_one_with_slack(struct actor *a)
{
	struct unit *u = any_unit(a);
	u64 expires = twheel_now(a->crowd->wheel) + roll_delay(a);
	int ret = twheel_arm_slack(&u->p.t, expires, roll(a, 10 * MS));

	note(&u->armed, !ret);
	return ret != -ESHUTDOWN;
}

static bool move_one(struct actor *a)
{
	struct unit *u = any_unit(a);
	int ret = twheel_mod(&u->p.t, twheel_now(a->crowd->wheel) + roll_delay(a));

	note(&u->armed, !ret);
	note(&a->crowd->moved, ret == 1);
	return ret != -ESHUTDOWN;
}

static bool cancel_one(struct actor *a)
{
	struct unit *u = any_unit(a);

	note(&u->cancelled, twheel_cancel(&u->p.t));
	return true;
}

static bool cancel_one_sync(struct actor *a)
{
	struct unit *u = &a->own[roll(a, NR_OWN)];

	note(&u->cancelled, twheel_cancel_sync(&u->p.t));
	return true;
}

static bool arm_one_periodic(struct actor *a)
{
	struct unit *u = &a->periodic[roll(a, NR_PERIODIC)];
	u64 expires = twheel_now(a->crowd->wheel) + roll_delay(a);
	int ret;

	if (a->crowd->sink)
		return true;
	ret = twheel_arm_periodic(&u->p, expires, 1 + roll(a, 3 * MS), 1 + roll(a, 5));
	note(&u->armed, !ret);
	return ret != -ESHUTDOWN;
}

static bool cancel_one_periodic(struct actor *a)
{
	struct unit *u = &a->periodic[roll(a, NR_PERIODIC)];

	if (!a->crowd->sink)
		note(&u->cancelled, twheel_cancel_sync(&u->p.t));
	return true;
}

/* A timeout with @out set may be in the list of twheel_stop(), so it is left alone. */
static bool arm_list(struct actor *a)
{
	u64 now = twheel_now(a->crowd->wheel);
	struct twheel_timeout *t;
	LIST_HEAD(timeouts);
	unsigned int i;

	for (i = 0; i < LIST_LEN; i++) {
		struct unit *u = &a->listed[roll(a, NR_LISTED)];

		if (READ_ONCE(u->out))
			continue;
		twheel_cancel_sync(&u->p.t);
		u->p.t.expires = now + roll_delay(a);
		WRITE_ONCE(u->out, true);
		atomic_inc(&u->armed);
		list_add_tail(&u->p.t.entry, &timeouts);
	}
	arm_linked(a->crowd->wheel, &timeouts);
	list_for_each_entry(t, &timeouts, entry) {
		WRITE_ONCE(unit_of(t)->out, false);
		atomic_dec(&unit_of(t)->armed);
	}
	return list_empty(&timeouts);
}

static bool cancel_list(struct actor *a)
{
	unsigned int first = roll(a, NR_LISTED - LIST_LEN), i;
	struct twheel_timeout *timeouts[LIST_LEN];

	for (i = 0; i < LIST_LEN; i++)
		timeouts[i] = &a->listed[first + i].p.t;
	twheel_cancel_list(timeouts, LIST_LEN);
	for (i = 0; i < LIST_LEN; i++) {
		if (!timeouts[i])
			continue;
		atomic_inc(&unit_of(timeouts[i])->cancelled);
		WRITE_ONCE(unit_of(timeouts[i])->out, false);
	}
	return true;
}

static bool ask(struct actor *a)
{
	struct twheel_position pos;
	struct twheel_counters stats;
	struct unit *u = any_unit(a);

	twheel_position(&u->p.t, &pos);
	twheel_remaining_ns(&u->p.t);
	twheel_next_expiry(a->crowd->wheel);
	twheel_stats(a->crowd->wheel, &stats);
	return true;
}

static bool flush(struct actor *a)
{
	twheel_flush(a->crowd->wheel);
	return true;
}

static bool (* const operations[])(struct actor *a) = {
	arm_one, arm_one, arm_one, arm_one_with_slack, move_one, move_one, cancel_one,
	cancel_one, cancel_one_sync, arm_one_periodic, cancel_one_periodic, arm_list,
	arm_list, cancel_list, ask, flush,
};

static int act(void *data)
{
	struct actor *a = data;
	bool open = true;
	unsigned int i;

	for (i = 0; open && !kthread_should_stop(); i++) {
		/* Hotplug may have moved the thread away from its CPU. */
		if (i % 256 == 0)
			migrate_to(a->cpu);
		open = operations[roll(a, ARRAY_SIZE(operations))](a);
		if (i % 64 == 0)
			usleep_range(50, 200);
		cond_resched();
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* A case. No assertion may end the test between crowd_start() and crowd_finish(). */

static void unit_init(struct crowd *c, struct unit *u, void (*fn)(struct twheel_timeout *t))
{
	memset(u, 0, sizeof(*u));
	u->crowd = c;
	twheel_timeout_init(c->wheel, &u->p.t, c->sink ? NULL : fn);
}

static void periodic_init(struct crowd *c, struct unit *u, unsigned int i)
{
	memset(u, 0, sizeof(*u));
	u->crowd = c;
	twheel_periodic_init(c->wheel, &u->p, periodic_fires,
			     i % 2 ? TWHEEL_FIXED_RATE : TWHEEL_FIXED_DELAY);
	if (i % 4 < 2)
		twheel_use_workqueue(&u->p.t);
}

static void actor_init(struct actor *a)
{
	unsigned int i;

	for (i = 0; i < NR_OWN; i++) {
		unit_init(a->crowd, &a->own[i], unit_fires);
		a->own[i].rearms = i % 2;
		if (i % 4 < 2 && !a->crowd->sink)
			twheel_use_workqueue(&a->own[i].p.t);
	}
	for (i = 0; i < NR_PERIODIC; i++)
		periodic_init(a->crowd, &a->periodic[i], i);
	for (i = 0; i < NR_LISTED; i++)
		unit_init(a->crowd, &a->listed[i], listed_fires);
}

static void crowd_init(struct crowd *c, struct rnd_state *rnd)
{
	unsigned int i, cpu = 0;

	atomic_set(&c->moved, 0);
	atomic_set(&c->early, 0);
	for (i = 0; i < NR_SHARED; i++) {
		unit_init(c, &c->shared[i], unit_fires);
		c->shared[i].rearms = i % 2;
	}
	c->nr_actors = clamp_t(unsigned int, num_online_cpus(), 4, MAX_ACTORS);
	for (i = 0; i < c->nr_actors; i++) {
		struct actor *a = &c->actors[i];

		a->crowd = c;
		a->cpu = cpu % nr_cpu_ids;
		cpu = cpumask_next(cpu, cpu_online_mask) % nr_cpu_ids;
		prandom_seed_state(&a->rnd, prandom_u32_state(rnd));
		actor_init(a);
	}
}

static bool crowd_start(struct crowd *c)
{
	bool all = true;
	unsigned int i;

	for (i = 0; i < c->nr_actors; i++) {
		struct actor *a = &c->actors[i];

		a->task = kthread_run(act, a, "kunit-actor/%u", i);
		if (IS_ERR(a->task))
			a->task = NULL;
		all = all && a->task;
	}
	return all;
}

/* Stop the wheel, then end the threads, whose arms are refused by now. */
static void crowd_finish(struct crowd *c)
{
	struct twheel_timeout *t;
	LIST_HEAD(unprocessed);
	unsigned int i;

	twheel_stop(c->wheel, collect, &unprocessed);
	for (i = 0; i < c->nr_actors; i++)
		if (c->actors[i].task)
			kthread_stop(c->actors[i].task);
	twheel_stop(c->wheel, collect, &unprocessed);
	list_for_each_entry(t, &unprocessed, entry)
		atomic_inc(&unit_of(t)->handed_back);
}

/* Sums over all timeouts, to compare with the counters of the wheel. */
struct account {
	u64 armed, cancelled, fired, handed_back;
	unsigned int wrong;
};

static void add_units(struct account *sum, struct unit *units, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		int armed = atomic_read(&units[i].armed);
		int cancelled = atomic_read(&units[i].cancelled);
		int fired = atomic_read(&units[i].fired);
		int handed_back = atomic_read(&units[i].handed_back);

		sum->armed += armed;
		sum->cancelled += cancelled;
		sum->fired += fired;
		sum->handed_back += handed_back;
		sum->wrong += armed != cancelled + fired + handed_back;
	}
}

static void add_crowd(struct account *sum, struct crowd *c)
{
	unsigned int i;

	add_units(sum, c->shared, NR_SHARED);
	for (i = 0; i < c->nr_actors; i++) {
		add_units(sum, c->actors[i].own, NR_OWN);
		add_units(sum, c->actors[i].periodic, NR_PERIODIC);
		add_units(sum, c->actors[i].listed, NR_LISTED);
	}
}

/*
 * The wheel counts each period of a periodic timeout as armed, so only the sums of wheels
 * without periodic timeouts are compared with its counters.
 */
static void check_account(struct kunit *test, struct crowd *c, struct account *sum)
{
	struct twheel_counters stats;
	u64 moved = atomic_read(&c->moved);

	add_crowd(sum, c);
	twheel_stats(c->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 0U, sum->wrong);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&c->early));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(c->wheel));
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, moved, stats.rearmed);
	KUNIT_EXPECT_EQ(test, stats.armed, stats.cancelled + stats.fired + stats.stopped);
	if (!c->sink)
		return;
	KUNIT_EXPECT_EQ(test, sum->armed + moved, stats.armed);
	KUNIT_EXPECT_EQ(test, sum->cancelled + moved, stats.cancelled);
	KUNIT_EXPECT_EQ(test, sum->fired, stats.fired);
	KUNIT_EXPECT_EQ(test, sum->handed_back, stats.stopped);
}

static void wait_beside(unsigned long end)
{
	while (time_before(jiffies, end))
		msleep(20);
}

/* CPU 0 stays online. */
static void plug_beside(unsigned long end)
{
	unsigned int cpu = 0;

	while (time_before(jiffies, end)) {
		cpu = cpumask_next(cpu, cpu_present_mask);
		if (cpu >= nr_cpu_ids) {
			cpu = 0;
			continue;
		}
		if (!remove_cpu(cpu)) {
			msleep(20);
			add_cpu(cpu);
		}
		msleep(20);
	}
}

static void crowd_for(struct kunit *test, struct crowd *c, struct rnd_state *rnd)
{
	struct twheel_params params = {
		.name = "kunit-stress", .slots = 64, .levels = 3,
		.sink = c->sink ? crowd_sink : NULL,
	};

	c->wheel = fixture_create(test->priv, &params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->wheel);
	crowd_init(c, rnd);
}

/* The threads choose their CPUs, so the test must not be bound to one of them. */
static struct crowd *crowd(struct kunit *test, struct rnd_state *rnd)
{
	struct crowd *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	u32 start = seed ?: get_random_u32();

	KUNIT_ASSERT_NOT_NULL(test, c);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	kunit_info(test, "seed=%u\n", start);
	prandom_seed_state(rnd, start);
	return c;
}

static void every_arming_ends_once(struct kunit *test, bool sink,
				   void (*beside)(unsigned long end))
{
	struct account sum = { };
	struct rnd_state rnd;
	struct crowd *c = crowd(test, &rnd);
	bool started;

	c->sink = sink;
	crowd_for(test, c, &rnd);
	started = crowd_start(c);
	beside(jiffies + seconds * HZ);
	crowd_finish(c);
	check_account(test, c, &sum);
	KUNIT_EXPECT_TRUE(test, started);
	KUNIT_EXPECT_GT(test, sum.cancelled, 0ULL);
	KUNIT_EXPECT_GT(test, sum.fired, 0ULL);
	KUNIT_EXPECT_GT(test, sum.handed_back, 0ULL);
	kunit_info(test, "armed %llu cancelled %llu fired %llu handed back %llu\n",
		   sum.armed, sum.cancelled, sum.fired, sum.handed_back);
}

static void every_arming_ends_once_with_callbacks(struct kunit *test)
{
	every_arming_ends_once(test, false, wait_beside);
}

static void every_arming_ends_once_with_a_sink(struct kunit *test)
{
	every_arming_ends_once(test, true, wait_beside);
}

static void every_arming_ends_once_with_callbacks_and_hotplug(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU");
	every_arming_ends_once(test, false, plug_beside);
}

static void every_arming_ends_once_with_a_sink_and_hotplug(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU");
	every_arming_ends_once(test, true, plug_beside);
}

static void stop_under_load(struct kunit *test, struct crowd *c, struct rnd_state *rnd)
{
	struct account sum = { };

	crowd_for(test, c, rnd);
	crowd_start(c);
	fsleep(prandom_u32_state(rnd) % 10000);
	crowd_finish(c);
	check_account(test, c, &sum);
	fixture_exit(test);
}

static void stop_many_under_load(struct kunit *test, bool sink)
{
	struct rnd_state rnd;
	struct crowd *c = crowd(test, &rnd);
	unsigned int i;

	c->sink = sink;
	for (i = 0; i < DIV_ROUND_UP(stops, 2); i++)
		stop_under_load(test, c, &rnd);
	kunit_info(test, "%u wheels stopped\n", i);
}

static void stop_under_load_loses_no_callback(struct kunit *test)
{
	stop_many_under_load(test, false);
}

static void stop_under_load_loses_nothing_of_a_sink(struct kunit *test)
{
	stop_many_under_load(test, true);
}

/* When twheel_stop() hands back the first timeout, no CPU accepts an arm any more */

/**
 * struct late_arm - arms during the hand-back
 * @t: the timeouts, one armed on each CPU
 * @trying: the timeout that each CPU tries to arm
 * @accepted: number of arms that succeeded
 */
struct late_arm {
	struct twheel_timeout	t[MAX_ACTORS];
	struct twheel_timeout	*trying;
	unsigned int		accepted;
};

static void arm_late(void *data)
{
	struct late_arm *late = data;

	late->accepted += twheel_mod(late->trying, S64_MAX) != -ESHUTDOWN;
}

static void no_callback(struct twheel_timeout *t)
{
}

static void arm_on_each_cpu(void *data, struct twheel_timeout *t)
{
	struct late_arm *late = data;
	unsigned int cpu;

	late->trying = t;
	for_each_online_cpu(cpu)
		smp_call_function_single(cpu, arm_late, late, true);
}

static void timeout_handed_back_cannot_be_armed_on_another_cpu(struct kunit *test)
{
	struct late_arm *late = kunit_kzalloc(test, sizeof(*late), GFP_KERNEL);
	struct twheel_params params = { .name = "kunit-stress" };
	struct fixture *f = test->priv;
	struct twheel_counters stats;
	unsigned int cpu, n = 0;

	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU");
	KUNIT_ASSERT_NOT_NULL(test, late);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	for_each_online_cpu(cpu) {
		if (n == MAX_ACTORS)
			break;
		run_on(test, cpu);
		twheel_timeout_init(f->wheel, &late->t[n], no_callback);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&late->t[n++], S64_MAX));
	}
	twheel_stop(f->wheel, arm_on_each_cpu, late);
	KUNIT_EXPECT_EQ(test, 0U, late->accepted);
	twheel_stats(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, (u64)n, stats.stopped);
}

static struct kunit_case stress_cases[] = {
	KUNIT_CASE(every_arming_ends_once_with_callbacks),
	KUNIT_CASE(every_arming_ends_once_with_a_sink),
	KUNIT_CASE(every_arming_ends_once_with_callbacks_and_hotplug),
	KUNIT_CASE(every_arming_ends_once_with_a_sink_and_hotplug),
	KUNIT_CASE(timeout_handed_back_cannot_be_armed_on_another_cpu),
	KUNIT_CASE(stop_under_load_loses_no_callback),
	KUNIT_CASE(stop_under_load_loses_nothing_of_a_sink),
	{}
};

static struct kunit_suite stress_suite = {
	.name = "twheel-stress",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = stress_cases,
};

module_test_suite(stress_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels under load");
MODULE_LICENSE("GPL");
