// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that takes CPUs offline under running wheels and brings them back. It needs
 * two CPUs, and is skipped otherwise.
 *
 *	twheel_hotplug_kunit.cycles=50
 *
 * CPU 0 stays online: the tests run there, and run elsewhere only to arm. No result depends
 * on how long hotplug takes. If a timeout must be pending while a CPU is offline, its
 * deadline is far, and the test moves it afterwards.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "fixture.h"

static unsigned int cycles = 2;
module_param(cycles, uint, 0444);
MODULE_PARM_DESC(cycles, "Number of hotplug cycles while timeouts become due, on each kind of wheel");

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)

struct wheel_kind {
	const char *name;
	enum twheel_clock clock;
	bool sink;
	unsigned int levels;
};

static const struct wheel_kind wheel_kinds[] = {
	{ "monotonic", TWHEEL_MONOTONIC, false },
	{ "boottime", TWHEEL_BOOTTIME, false },
	{ "realtime", TWHEEL_REALTIME, false },
	{ "monotonic with a sink", TWHEEL_MONOTONIC, true },
	{ "boottime with a sink", TWHEEL_BOOTTIME, true },
	{ "realtime with a sink", TWHEEL_REALTIME, true },
	{ "hashed", TWHEEL_MONOTONIC, false, 1 },
	{ "hashed with a sink", TWHEEL_MONOTONIC, true, 1 },
};

NAMED_PARAM(wheel_kind, wheel_kinds);

/*
 * Make a wheel of the kind of the test, and @n timeouts. A timeout stays in the shard of the CPU
 * that arms it.
 */
static struct test_timeout *create_hotplug_timeouts(struct kunit *test, unsigned int n)
{
	const struct wheel_kind *kind = test->param_value ?: &wheel_kinds[0];
	struct twheel_params params = {
		.name = "kunit-hotplug", .clock = kind->clock,
		.sink = kind->sink ? record_sink : NULL, .levels = kind->levels,
	};

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	return create_timeouts_fn(test, n, kind->sink ? NULL : record_callback);
}

/* Arm @n of them on @cpu for @delay_ns from now. */
static void arm_on_cpu(struct kunit *test, unsigned int cpu, struct test_timeout *p, unsigned int n,
		       u64 delay_ns)
{
	unsigned int i;

	run_on(test, cpu);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, 0, twheel_arm(&p[i].t, twheel_now(p->f->wheel) + delay_ns));
	run_on(test, 0);
}

static void take_offline(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, remove_cpu(cpu));
}

static void bring_online(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, add_cpu(cpu));
}

/* The CPU that is taken offline and brought back. */
static unsigned int hotplug_cpu(void)
{
	return cpumask_last(cpu_present_mask);
}

/* Wait until @p has fired @n times or more. */
static void expect_fires(struct kunit *test, struct test_timeout *p, unsigned int n)
{
	unsigned long end = jiffies + MAX_WAIT;

	while (READ_ONCE(p->fired) < n && time_before(jiffies, end))
		msleep(20);
	KUNIT_ASSERT_GE(test, READ_ONCE(p->fired), n);
}

/* All @n timeouts fire once, and none of their callbacks runs any more. */
static void expect_all_fire_once(struct kunit *test, struct test_timeout *p, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		expect_fires(test, &p[i], 1);
	twheel_flush(p->f->wheel);
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_GE(test, p[i].fired_ns, p[i].t.expires);
		KUNIT_ASSERT_FALSE(test, twheel_pending(&p[i].t));
		KUNIT_ASSERT_EQ(test, 1U, p[i].fired);
	}
}

/* A CPU goes offline */

static void timeout_fires_while_its_cpu_is_away(struct kunit *test)
{
	struct test_timeout *p = create_hotplug_timeouts(test, 1);

	arm_on_cpu(test, hotplug_cpu(), p, 1, 3600 * SEC);
	take_offline(test, hotplug_cpu());
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p->t, twheel_now(p->f->wheel) + 20 * MS));
	expect_all_fire_once(test, p, 1);
	KUNIT_EXPECT_NE(test, hotplug_cpu(), p->cpu);
}

/* Every other time the CPU stays away until all have fired. */
static void timeouts_due_while_their_cpu_goes_and_comes_fire_once(struct kunit *test)
{
	enum { NR = 2000 };
	struct test_timeout *p = create_hotplug_timeouts(test, NR);
	unsigned int cycle, i;

	for (cycle = 0; cycle < cycles; cycle++) {
		for (i = 0; i < NR; i++)
			p[i].fired = 0;
		for (i = 0; i < NR; i += 100)
			arm_on_cpu(test, hotplug_cpu(), &p[i], 100, i * MS / 10);
		take_offline(test, hotplug_cpu());
		if (cycle % 2)
			bring_online(test, hotplug_cpu());
		expect_all_fire_once(test, p, NR);
		if (cycle % 2 == 0)
			bring_online(test, hotplug_cpu());
	}
}

static void rearm_periodic(struct test_timeout *p)
{
	twheel_arm(&p->t, p->fired_ns + 20 * MS);
}

static void all_cpus_but_one_can_go(struct kunit *test)
{
	struct test_timeout *p = create_hotplug_timeouts(test, nr_cpu_ids);
	unsigned int cpu;

	for_each_present_cpu(cpu) {
		p[cpu].then = rearm_periodic;
		arm_on_cpu(test, cpu, &p[cpu], 1, 0);
		expect_fires(test, &p[cpu], 1);
		KUNIT_EXPECT_EQ(test, shard_cpu(cpu), p[cpu].cpu);
	}
	for_each_present_cpu(cpu)
		if (cpu)
			take_offline(test, cpu);
	for_each_present_cpu(cpu) {
		expect_fires(test, &p[cpu], p[cpu].fired + 2);
		twheel_shutdown(&p[cpu].t);
		KUNIT_EXPECT_EQ(test, 0U, p[cpu].cpu);
	}
}

/* A CPU goes offline while it calls */

static void busy_callback(struct test_timeout *p)
{
	mdelay(300);
	p->id = U32_MAX;
}

static void cpu_can_go_during_a_long_call(struct kunit *test)
{
	enum { NR = 300 };
	struct test_timeout *p = create_hotplug_timeouts(test, NR);

	p->then = busy_callback;
	arm_on_cpu(test, hotplug_cpu(), p, NR, 0);
	expect_fires(test, p, 1);
	take_offline(test, hotplug_cpu());
	expect_all_fire_once(test, p, NR);
	KUNIT_EXPECT_EQ(test, U32_MAX, p->id);
}

/* A CPU comes back */

static void cpu_that_comes_back_serves_its_shard(struct kunit *test)
{
	struct test_timeout *p = create_hotplug_timeouts(test, 2);

	arm_on_cpu(test, hotplug_cpu(), &p[0], 1, 3600 * SEC);
	take_offline(test, hotplug_cpu());
	bring_online(test, hotplug_cpu());
	run_on(test, hotplug_cpu());
	KUNIT_EXPECT_EQ(test, 1, twheel_mod(&p[0].t, twheel_now(p->f->wheel) + 20 * MS));
	arm_on_cpu(test, hotplug_cpu(), &p[1], 1, 20 * MS);
	expect_all_fire_once(test, p, 2);
	KUNIT_EXPECT_EQ(test, shard_cpu(hotplug_cpu()), p[0].cpu);
	KUNIT_EXPECT_EQ(test, shard_cpu(hotplug_cpu()), p[1].cpu);
}

static void wheel_made_while_a_cpu_is_away_gets_it_later(struct kunit *test)
{
	struct test_timeout *p;

	take_offline(test, hotplug_cpu());
	p = create_hotplug_timeouts(test, 2);
	arm_on_cpu(test, 0, &p[0], 1, 20 * MS);
	expect_fires(test, &p[0], 1);
	bring_online(test, hotplug_cpu());
	arm_on_cpu(test, hotplug_cpu(), &p[1], 1, 20 * MS);
	expect_all_fire_once(test, &p[1], 1);
	KUNIT_EXPECT_EQ(test, shard_cpu(hotplug_cpu()), p[1].cpu);
}

static int hotplug_init(struct kunit *test)
{
	int ret;

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU) || num_online_cpus() == 1)
		kunit_skip(test, "no CPU can go offline");
	ret = fixture_init(test);
	return ret ?: set_cpus_allowed_ptr(current, cpumask_of(0));
}

/* An aborted test may have left a CPU offline. */
static void hotplug_exit(struct kunit *test)
{
	unsigned int cpu;

	/* A skipped test has taken none away. */
	if (!test->priv)
		return;
	for_each_present_cpu(cpu)
		if (!cpu_online(cpu))
			add_cpu(cpu);
	fixture_exit(test);
}

static struct kunit_case hotplug_cases[] = {
	KUNIT_CASE_PARAM(timeout_fires_while_its_cpu_is_away, wheel_kind_gen_params),
	KUNIT_CASE_PARAM(timeouts_due_while_their_cpu_goes_and_comes_fire_once,
			 wheel_kind_gen_params),
	KUNIT_CASE(all_cpus_but_one_can_go),
	KUNIT_CASE_PARAM(cpu_can_go_during_a_long_call, wheel_kind_gen_params),
	KUNIT_CASE(cpu_that_comes_back_serves_its_shard),
	KUNIT_CASE(wheel_made_while_a_cpu_is_away_gets_it_later),
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
