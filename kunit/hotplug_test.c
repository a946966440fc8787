// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that takes CPUs offline under running wheels and brings them back. It needs
 * two CPUs, and is skipped otherwise.
 *
 *	insmod twheel_hotplug_kunit.ko cycles=200
 *
 * CPU 0 stays online: the tests run there, and run elsewhere only to arm. No result depends
 * on how long hotplug takes. If a timeout must be pending while a CPU is offline, its
 * deadline is far, and the test moves it afterwards.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "fixture.h"
#include "suite.h"

static unsigned int cycles = 6;
module_param(cycles, uint, 0444);
MODULE_PARM_DESC(cycles, "Number of hotplug cycles under many pending timeouts (half as many with a sink)");

static unsigned int pending = 100000;
module_param(pending, uint, 0444);
MODULE_PARM_DESC(pending, "Number of timeouts pending during these cycles");

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
#define PATIENCE	(60 * HZ)

/**
 * struct guest - a timeout that records where its callback ran
 * @p: the timeout; a one-shot uses p.t alone
 * @wheel: its wheel
 * @began: completed when the callback begins
 * @fired: number of times that it has begun
 * @fired_ns: the wheel's time when it last began
 * @cpu: CPU where the callback last began
 * @lasts_ms: duration of the callback: a worker sleeps, the thread spins
 * @sleeps: the callback sleeps until @wake is completed
 * @wake: completed by the test
 * @done: set when the callback ends
 * @periods: periodic: number of deadlines that have passed
 * @early: periodic: number of calls before the deadline
 */
struct guest {
	struct twheel_periodic	p;
	struct twheel		*wheel;
	struct completion	began;
	atomic_t		fired;
	u64			fired_ns;
	unsigned int		cpu;
	unsigned int		lasts_ms;
	bool			sleeps;
	struct completion	wake;
	bool			done;
	u64			periods;
	unsigned int		early;
};

static void guest_runs(struct guest *g)
{
	g->fired_ns = twheel_now(g->wheel);
	g->cpu = raw_smp_processor_id();
	atomic_inc(&g->fired);
	complete(&g->began);
	if (current->flags & PF_WQ_WORKER && g->lasts_ms)
		msleep(g->lasts_ms);
	else
		mdelay(g->lasts_ms);
	if (g->sleeps)
		wait_for_completion_timeout(&g->wake, PATIENCE);
	WRITE_ONCE(g->done, true);
}

static void guest_fires(struct twheel_timeout *t)
{
	guest_runs(container_of(t, struct guest, p.t));
}

static void guest_comes_round(struct twheel_periodic *p)
{
	struct guest *g = container_of(p, struct guest, p);

	g->periods += 1 + p->missed;
	g->early += twheel_now(g->wheel) < p->expires;
	guest_runs(g);
}

/*
 * Make a wheel on @clock and @n timeouts. A timeout stays in the shard of the CPU that arms
 * it.
 */
static struct guest *guests_on(struct kunit *test, enum twheel_clock clock, unsigned int n)
{
	struct twheel_params params = { .name = "kunit-hotplug", .clock = clock };
	struct guest *g = kunit_kcalloc(test, n, sizeof(*g), GFP_KERNEL);
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, g);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(f, &params));
	for (i = 0; i < n; i++) {
		g[i].wheel = f->wheel;
		init_completion(&g[i].began);
		init_completion(&g[i].wake);
		twheel_timeout_init(f->wheel, &g[i].p.t, guest_fires);
	}
	return g;
}

static struct guest *guests(struct kunit *test, unsigned int n)
{
	return guests_on(test, TWHEEL_MONOTONIC, n);
}

/* Arm @n of them on @cpu for @delay_ns from now. */
static void arm_from(struct kunit *test, unsigned int cpu, struct guest *g, unsigned int n,
		     u64 delay_ns)
{
	unsigned int i;

	run_on(test, cpu);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&g[i].p.t, twheel_now(g->wheel) + delay_ns));
	run_on(test, 0);
}

static void take_away(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, remove_cpu(cpu));
}

static void bring_back(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, add_cpu(cpu));
}

/* The CPU that is taken offline and brought back. */
static unsigned int the_cpu(void)
{
	return cpumask_last(cpu_present_mask);
}

static void expect_begins(struct kunit *test, struct guest *g)
{
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&g->began, PATIENCE), 0UL);
}

/* All @n timeouts fire once, and none of their callbacks runs any more. */
static void expect_all_fire_once(struct kunit *test, struct guest *g, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		expect_begins(test, &g[i]);
	twheel_flush(g->wheel);
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_GE(test, g[i].fired_ns, g[i].p.t.expires);
		KUNIT_ASSERT_FALSE(test, twheel_pending(&g[i].p.t));
		KUNIT_ASSERT_EQ(test, 1, atomic_read(&g[i].fired));
	}
}

/* A CPU goes offline */

static void fires_while_its_cpu_is_away(struct kunit *test, enum twheel_clock clock)
{
	struct guest *g = guests_on(test, clock, 1);

	arm_from(test, the_cpu(), g, 1, 500 * MS);
	take_away(test, the_cpu());
	expect_all_fire_once(test, g, 1);
	msleep(20);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&g->fired));
}

static void monotonic_timeout_fires_while_its_cpu_is_away(struct kunit *test)
{
	fires_while_its_cpu_is_away(test, TWHEEL_MONOTONIC);
}

static void boottime_timeout_fires_while_its_cpu_is_away(struct kunit *test)
{
	fires_while_its_cpu_is_away(test, TWHEEL_BOOTTIME);
}

static void realtime_timeout_fires_while_its_cpu_is_away(struct kunit *test)
{
	fires_while_its_cpu_is_away(test, TWHEEL_REALTIME);
}

static void timeouts_due_while_their_cpu_goes_fire_once(struct kunit *test)
{
	enum { NR = 2000 };
	struct guest *g = guests(test, NR);
	unsigned int i;

	for (i = 0; i < NR; i += 100)
		arm_from(test, the_cpu(), &g[i], 100, i * MS / 10);
	take_away(test, the_cpu());
	expect_all_fire_once(test, g, NR);
}

static void timeout_of_a_cpu_that_is_away_can_be_cancelled(struct kunit *test)
{
	struct guest *g = guests(test, 1);

	arm_from(test, the_cpu(), g, 1, 3600 * SEC);
	take_away(test, the_cpu());
	KUNIT_EXPECT_TRUE(test, twheel_cancel(&g->p.t));
	KUNIT_EXPECT_FALSE(test, twheel_pending(&g->p.t));
}

static void timeout_of_a_cpu_that_is_away_can_be_moved(struct kunit *test)
{
	struct guest *g = guests(test, 1);

	arm_from(test, the_cpu(), g, 1, 3600 * SEC);
	take_away(test, the_cpu());
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&g->p.t, twheel_now(g->wheel) + 20 * MS));
	expect_all_fire_once(test, g, 1);
	KUNIT_EXPECT_NE(test, the_cpu(), g->cpu);
}

static void stop_hands_back_what_a_cpu_that_is_away_has_left(struct kunit *test)
{
	struct guest *g = guests(test, 100);
	struct fixture *f = test->priv;
	LIST_HEAD(unprocessed);
	unsigned int i;

	arm_from(test, the_cpu(), g, 100, 3600 * SEC);
	take_away(test, the_cpu());
	twheel_stop(f->wheel, collect, &unprocessed);
	for (i = 0; !list_empty(&unprocessed); i++)
		list_del_init(unprocessed.next);
	KUNIT_EXPECT_EQ(test, 100U, i);
}

/* Each periodic timeout stays in the shard of the CPU that armed it. */
static void all_cpus_but_one_can_go(struct kunit *test)
{
	struct guest *g = guests(test, nr_cpu_ids);
	unsigned int cpu;

	for_each_present_cpu(cpu) {
		twheel_periodic_init(g->wheel, &g[cpu].p, guest_comes_round, TWHEEL_FIXED_RATE);
		run_on(test, cpu);
		KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&g[cpu].p, ktime_get_ns(),
							     20 * MS, 0));
		run_on(test, 0);
		expect_begins(test, &g[cpu]);
		KUNIT_EXPECT_EQ(test, cpu, g[cpu].cpu);
	}
	for_each_present_cpu(cpu)
		if (cpu)
			take_away(test, cpu);
	for_each_present_cpu(cpu) {
		reinit_completion(&g[cpu].began);
		expect_begins(test, &g[cpu]);
		expect_begins(test, &g[cpu]);
		KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&g[cpu].p.t));
		KUNIT_EXPECT_EQ(test, 0U, g[cpu].cpu);
		KUNIT_EXPECT_EQ(test, 0U, g[cpu].early);
	}
}

/* A CPU goes offline while a callback runs there */

static void go_while_it_runs(struct kunit *test, bool worker)
{
	enum { NR = 300 };
	struct guest *g = guests(test, NR);

	g->lasts_ms = 300;
	if (worker)
		twheel_use_workqueue(&g->p.t);
	arm_from(test, the_cpu(), g, NR, 0);
	expect_begins(test, g);
	take_away(test, the_cpu());
	complete(&g->began);
	expect_all_fire_once(test, g, NR);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(g->done));
}

static void cpu_goes_while_its_thread_runs_a_long_callback(struct kunit *test)
{
	go_while_it_runs(test, false);
}

static void cpu_goes_while_a_worker_runs_a_long_callback(struct kunit *test)
{
	go_while_it_runs(test, true);
}

/* A thread in a slow callback delays the hotplug; a sleeping worker must not. */
static void cpu_can_go_while_a_worker_sleeps(struct kunit *test)
{
	struct guest *g = guests(test, 2);

	g->sleeps = true;
	twheel_use_workqueue(&g->p.t);
	arm_from(test, the_cpu(), g, 1, 0);
	expect_begins(test, g);
	take_away(test, the_cpu());
	KUNIT_EXPECT_FALSE(test, READ_ONCE(g->done));
	bring_back(test, the_cpu());
	KUNIT_EXPECT_FALSE(test, READ_ONCE(g->done));
	complete(&g->wake);
	twheel_flush(g->wheel);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(g->done));
}

static void cancel_sync_waits_for_a_callback_whose_cpu_has_gone(struct kunit *test)
{
	struct guest *g = guests(test, 1);

	g->lasts_ms = 1000;
	twheel_use_workqueue(&g->p.t);
	arm_from(test, the_cpu(), g, 1, 0);
	expect_begins(test, g);
	take_away(test, the_cpu());
	KUNIT_EXPECT_FALSE(test, twheel_cancel_sync(&g->p.t));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(g->done));
}

/* A CPU comes back */

static void cpu_that_comes_back_serves_its_shard(struct kunit *test)
{
	struct guest *g = guests(test, 2);

	arm_from(test, the_cpu(), &g[0], 1, 3600 * SEC);
	take_away(test, the_cpu());
	bring_back(test, the_cpu());
	run_on(test, the_cpu());
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&g[0].p.t, twheel_now(g->wheel) + 20 * MS));
	arm_from(test, the_cpu(), &g[1], 1, 20 * MS);
	expect_all_fire_once(test, g, 2);
	KUNIT_EXPECT_EQ(test, the_cpu(), g[0].cpu);
	KUNIT_EXPECT_EQ(test, the_cpu(), g[1].cpu);
}

static void wheel_made_while_a_cpu_is_away_gets_it_later(struct kunit *test)
{
	struct guest *g;

	take_away(test, the_cpu());
	g = guests(test, 2);
	arm_from(test, 0, &g[0], 1, 20 * MS);
	expect_begins(test, &g[0]);
	bring_back(test, the_cpu());
	arm_from(test, the_cpu(), &g[1], 1, 20 * MS);
	expect_all_fire_once(test, &g[1], 1);
	KUNIT_EXPECT_EQ(test, the_cpu(), g[1].cpu);
}

static void timeout_comes_to_the_cpu_that_arms_it_again(struct kunit *test)
{
	struct guest *g = guests(test, 1);

	arm_from(test, the_cpu(), g, 1, 0);
	expect_begins(test, g);
	twheel_flush(g->wheel);
	take_away(test, the_cpu());
	arm_from(test, 0, g, 1, 0);
	expect_begins(test, g);
	KUNIT_EXPECT_EQ(test, 0U, g->cpu);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&g->fired));
}

static void mod_brings_pending_timeout_to_this_cpu(struct kunit *test)
{
	struct guest *g = guests(test, 1);

	arm_from(test, the_cpu(), g, 1, 3600 * SEC);
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&g->p.t, twheel_now(g->wheel) + 20 * MS));
	expect_all_fire_once(test, g, 1);
	KUNIT_EXPECT_EQ(test, 0U, g->cpu);
}

/* It is moved on one CPU after the other, and fires on the CPU that moved it last. */
static void timeout_moved_on_each_cpu_fires_on_the_last(struct kunit *test)
{
	struct guest *g = guests(test, 1);
	unsigned int cpu, i, last = 0;

	arm_from(test, 0, g, 1, 3600 * SEC);
	for (i = 0; i < 100; i++) {
		for_each_online_cpu(cpu) {
			run_on(test, cpu);
			KUNIT_ASSERT_EQ(test, 1, twheel_mod(&g->p.t,
							    twheel_now(g->wheel) + 3600 * SEC));
			last = cpu;
		}
	}
	KUNIT_ASSERT_EQ(test, 1, twheel_mod(&g->p.t, twheel_now(g->wheel) + 20 * MS));
	run_on(test, 0);
	expect_all_fire_once(test, g, 1);
	KUNIT_EXPECT_EQ(test, last, g->cpu);
}

/* Late periods are counted, not lost, so their sum is known. */
static void periodic_keeps_its_phase_while_its_cpu_comes_and_goes(struct kunit *test)
{
	struct guest *g = guests(test, 1);
	u64 first = ktime_get_ns() + 20 * MS;
	unsigned int i;

	twheel_periodic_init(g->wheel, &g->p, guest_comes_round, TWHEEL_FIXED_RATE);
	run_on(test, the_cpu());
	KUNIT_ASSERT_EQ(test, 0, twheel_arm_periodic(&g->p, first, 10 * MS, 0));
	run_on(test, 0);
	for (i = 0; i < 3; i++) {
		take_away(test, the_cpu());
		expect_begins(test, g);
		bring_back(test, the_cpu());
		expect_begins(test, g);
	}
	KUNIT_EXPECT_TRUE(test, twheel_cancel_sync(&g->p.t));
	KUNIT_EXPECT_EQ(test, 0U, g->early);
	KUNIT_EXPECT_EQ(test, first + (g->periods - 1) * 10 * MS, g->p.expires);
}

/*
 * Very many timeouts are pending during the cycles. Each one that fires is armed again in
 * its callback, until the last cycle is over. Then all of them must end.
 */

/**
 * struct one - one of very many timeouts
 * @t: the timeout
 * @many: set of all these timeouts
 * @armed: number of arms
 * @fired: number of expiries
 */
struct one {
	struct twheel_timeout	t;
	struct many		*many;
	unsigned int		armed;
	unsigned int		fired;
};

/**
 * struct many - very many timeouts; other tests use @f alone
 * @f: fixture; the first member, because test->priv points to it
 * @early: number of expiries before the deadline
 * @out: number of timeouts that have not ended
 * @end: expiries do not arm again
 * @ended: completed when @out becomes 0
 * @nr: length of @all
 * @all: the timeouts
 */
struct many {
	struct fixture		f;
	atomic_t		early;
	atomic_t		out;
	bool			end;
	struct completion	ended;
	unsigned int		nr;
	struct one		*all;
};

static void arm_one(struct one *o, u64 now_ns)
{
	u32 spread = hash_32(hash_ptr(o, 32) + o->armed, 32);

	if (!twheel_arm(&o->t, now_ns + SEC + spread))
		o->armed++;
}

static void one_fires(struct one *o, u64 now_ns)
{
	o->fired++;
	if (!READ_ONCE(o->many->end))
		arm_one(o, now_ns);
	else if (atomic_dec_and_test(&o->many->out))
		complete(&o->many->ended);
}

static void note_early(struct one *o, u64 now_ns)
{
	if (now_ns < o->t.expires)
		atomic_inc(&o->many->early);
}

static void one_of_many_fires(struct twheel_timeout *t)
{
	struct one *o = container_of(t, struct one, t);
	u64 now_ns = twheel_now(o->many->f.wheel);

	note_early(o, now_ns);
	one_fires(o, now_ns);
}

static void many_expired(void *sink_data, struct list_head *expired, unsigned int nr,
			 u64 now_ns)
{
	struct twheel_timeout *t, *next;

	list_for_each_entry_safe(t, next, expired, entry) {
		struct one *o = container_of(t, struct one, t);

		note_early(o, now_ns);
		list_del(&t->entry);
		twheel_accept(t);
		one_fires(o, now_ns);
	}
}

static struct many *make_many(struct kunit *test, bool sink)
{
	struct twheel_params params = {
		.name = "kunit-hotplug", .sink = sink ? many_expired : NULL,
	};
	struct many *m = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(&m->f, &params));
	init_completion(&m->ended);
	atomic_set(&m->out, pending);
	m->all = kvcalloc(pending, sizeof(*m->all), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m->all);
	m->nr = pending;
	for (i = 0; i < m->nr; i++) {
		m->all[i].many = m;
		twheel_timeout_init(m->f.wheel, &m->all[i].t, sink ? NULL : one_of_many_fires);
	}
	return m;
}

/* Arm an equal share on every CPU. */
static void arm_many(struct kunit *test, struct many *m)
{
	unsigned int cpu, i;

	for_each_online_cpu(cpu) {
		run_on(test, cpu);
		for (i = cpu; i < m->nr; i += num_possible_cpus()) {
			arm_one(&m->all[i], twheel_now(m->f.wheel));
			if (i % 64 == 0)
				cond_resched();
		}
	}
	run_on(test, 0);
}

/*
 * Leave out the timeouts that the threads have in hand. A timeout may also move back to a
 * CPU that has been counted while another CPU is being counted.
 */
static void expect_many_pending(struct kunit *test, struct many *m)
{
	struct twheel_counters stats;

	twheel_stats(m->f.wheel, &stats);
	KUNIT_ASSERT_GE(test, stats.pending + 256 * num_possible_cpus(), (u64)m->nr);
}

static void expect_many_ended(struct kunit *test, struct many *m)
{
	unsigned int i;
	u64 fired = 0;

	WRITE_ONCE(m->end, true);
	KUNIT_EXPECT_GT(test, wait_for_completion_timeout(&m->ended, PATIENCE), 0UL);
	twheel_flush(m->f.wheel);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&m->early));
	for (i = 0; i < m->nr; i++) {
		KUNIT_ASSERT_EQ(test, m->all[i].armed, m->all[i].fired);
		fired += m->all[i].fired;
	}
	kunit_info(test, "%u pending, %llu fired\n", m->nr, fired);
}

static void many_survive_cycles(struct kunit *test, bool sink, unsigned int times)
{
	struct many *m = make_many(test, sink);
	unsigned int cpu = 0, i;

	arm_many(test, m);
	for (i = 0; i < times; i++) {
		cpu = cpumask_next(cpu, cpu_present_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_next(0, cpu_present_mask);
		take_away(test, cpu);
		msleep(20);
		expect_many_pending(test, m);
		bring_back(test, cpu);
		msleep(20);
	}
	expect_many_ended(test, m);
	kunit_info(test, "%u cycles\n", times);
}

static void many_with_callbacks_survive_cycles(struct kunit *test)
{
	many_survive_cycles(test, false, cycles);
}

static void many_with_a_sink_survive_cycles(struct kunit *test)
{
	many_survive_cycles(test, true, DIV_ROUND_UP(cycles, 2));
}

static int hotplug_init(struct kunit *test)
{
	struct many *m;

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU) || num_online_cpus() == 1)
		kunit_skip(test, "no CPU can go offline");
	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	test->priv = m;
	return set_cpus_allowed_ptr(current, cpumask_of(0));
}

/* An aborted test may have left a CPU offline. */
static void hotplug_exit(struct kunit *test)
{
	struct many *m = test->priv;
	unsigned int cpu;

	if (!m)
		return;
	for_each_present_cpu(cpu)
		if (!cpu_online(cpu))
			add_cpu(cpu);
	fixture_exit(test);
	kvfree(m->all);
}

static struct kunit_case hotplug_cases[] = {
	KUNIT_CASE(monotonic_timeout_fires_while_its_cpu_is_away),
	KUNIT_CASE(boottime_timeout_fires_while_its_cpu_is_away),
	KUNIT_CASE(realtime_timeout_fires_while_its_cpu_is_away),
	KUNIT_CASE(timeouts_due_while_their_cpu_goes_fire_once),
	KUNIT_CASE(timeout_of_a_cpu_that_is_away_can_be_cancelled),
	KUNIT_CASE(timeout_of_a_cpu_that_is_away_can_be_moved),
	KUNIT_CASE(stop_hands_back_what_a_cpu_that_is_away_has_left),
	KUNIT_CASE(all_cpus_but_one_can_go),
	KUNIT_CASE(cpu_goes_while_its_thread_runs_a_long_callback),
	KUNIT_CASE(cpu_goes_while_a_worker_runs_a_long_callback),
	KUNIT_CASE(cpu_can_go_while_a_worker_sleeps),
	KUNIT_CASE(cancel_sync_waits_for_a_callback_whose_cpu_has_gone),
	KUNIT_CASE(cpu_that_comes_back_serves_its_shard),
	KUNIT_CASE(wheel_made_while_a_cpu_is_away_gets_it_later),
	KUNIT_CASE(timeout_comes_to_the_cpu_that_arms_it_again),
	KUNIT_CASE(mod_brings_pending_timeout_to_this_cpu),
	KUNIT_CASE(timeout_moved_on_each_cpu_fires_on_the_last),
	KUNIT_CASE(periodic_keeps_its_phase_while_its_cpu_comes_and_goes),
	KUNIT_CASE(many_with_callbacks_survive_cycles),
	KUNIT_CASE(many_with_a_sink_survive_cycles),
	{}
};

static struct kunit_suite hotplug_suite = {
	.name = "twheel-hotplug",
	.init = hotplug_init,
	.exit = hotplug_exit,
	.test_cases = hotplug_cases,
};

module_test_suite(hotplug_suite);

MODULE_DESCRIPTION("KUnit suite of timing wheels and CPU hotplug");
MODULE_LICENSE("GPL");
