// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite that runs all operations at once. Threads on all CPUs arm, move and cancel
 * random timeouts while these fire and arm themselves again. Then the wheel is stopped
 * under this load. The test checks the accounts of the wheel and of each timeout: every
 * arming has ended exactly once, in a cancel, in a callback or the sink, or in the list
 * that twheel_stop() hands back. In a wheel with a sink, soft interrupts and threads take turns,
 * and each shard fires in the order of ticks.
 *
 *	twheel_stress_kunit.seconds=30 twheel_stress_kunit.stops=1000
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
#include <linux/preempt.h>
#include <linux/random.h>

#include "fixture.h"

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

#define MAX_THREADS	8
#define MAX_SHARDS	64
#define NR_SHARED	256
#define NR_OWN		64
#define NR_LISTED	128
#define NR_WORK		16
#define LIST_LEN	32
#define LONG_CALL_US	500

/**
 * struct tracked_timeout - a timeout and the ends of its armings
 * @tw: the timeout
 * @load: load that it belongs to
 * @rearms: it is armed again at some expiries
 * @periodic: it is armed for its next period at most expiries
 * @in_use: for a timeout that only its thread arms: it may be in the wheel
 * @armed: armings
 * @cancelled: armings ended by a cancel
 * @fired: armings ended by their expiry
 * @handed_back: armings ended by twheel_stop()
 */
struct tracked_timeout {
	struct twheel_work	tw;
	struct load		*load;
	bool			rearms;
	bool			periodic;
	bool			in_use;
	atomic_t		armed;
	atomic_t		cancelled;
	atomic_t		fired;
	atomic_t		handed_back;
};

/**
 * struct thread - a thread and its timeouts
 * @load: load that it belongs to
 * @task: the thread, or NULL
 * @cpu: the CPU that it runs on
 * @rnd: source of its decisions
 * @own: timeouts that only this thread and their callbacks arm
 * @listed: timeouts that only this thread arms; it arms and cancels them by list
 * @work: timeouts with a function that sleeps, which only this thread arms
 */
struct thread {
	struct load		*load;
	struct task_struct	*task;
	unsigned int		cpu;
	struct rnd_state	rnd;
	struct tracked_timeout	own[NR_OWN];
	struct tracked_timeout	listed[NR_LISTED];
	struct tracked_timeout	work[NR_WORK];
};

/**
 * struct load - a wheel with its threads and timeouts
 * @wheel: the wheel
 * @sink: it has a sink
 * @moved: mods of a pending timeout
 * @extended: extensions
 * @errors: expiries before the deadline or out of order, arms after the stop
 * @turns: calls of the sink in a thread, and in a soft interrupt
 * @first_handed_back: the first timeout that twheel_stop() hands back
 * @nr_threads: number of entries of @threads in use
 * @order: for each shard, the tick that fired last
 * @shared: timeouts that all threads arm, move and cancel
 * @threads: the threads
 */
struct load {
	struct twheel		*wheel;
	bool			sink;
	atomic_t		moved;
	atomic_t		extended;
	atomic_t		errors;
	atomic_t		turns[2];
	struct twheel_timeout	*first_handed_back;
	unsigned int		nr_threads;
	struct {
		struct twheel_shard	*shard;
		u64			tick;
	} order[MAX_SHARDS];
	struct tracked_timeout	shared[NR_SHARED];
	struct thread		threads[MAX_THREADS];
};

static struct tracked_timeout *to_tracked(struct twheel_timeout *t)
{
	return container_of(t, struct tracked_timeout, tw.t);
}

static u32 random_below(struct thread *th, u32 sides)
{
	return prandom_u32_state(&th->rnd) % sides;
}

/*
 * Most delays are short, so that many timeouts fire; some cascade, and some stay until the
 * stop.
 */
static u64 random_delay(struct thread *th)
{
	switch (random_below(th, 8)) {
	case 0:
		return 0;
	case 1:
		return random_below(th, 300) * MS;
	case 2:
		return 3600 * (u64)NSEC_PER_SEC;
	default:
		return random_below(th, 4 * MS);
	}
}

static void count_if(atomic_t *counter, bool happened)
{
	if (happened)
		atomic_inc(counter);
}

/* Expiry */

/*
 * Decide by the low bits of the count, which needs no random source shared by CPUs. Nobody arms a
 * periodic timeout before @in_use is false, so its deadline may be changed.
 */
static void rearm_at_expiry(struct tracked_timeout *a)
{
	int count = atomic_read(&a->fired), ret = -EAGAIN;

	if (a->periodic && count % 8) {
		twheel_forward(&a->tw.t, twheel_now(a->load->wheel), MS / 3);
		ret = twheel_arm(&a->tw.t, a->tw.t.expires);
	} else if (a->rearms && count % 4) {
		ret = twheel_arm_after(&a->tw.t, (count % 8) * MS / 4);
	}
	count_if(&a->armed, !ret);
	if (ret)
		WRITE_ONCE(a->in_use, false);
}

static void note_expiry(struct tracked_timeout *a, u64 now_ns)
{
	count_if(&a->load->errors, now_ns < a->tw.t.expires);
	atomic_inc(&a->fired);
}

/* The turns of a shard do not overlap, so only the choice of an entry is a race. */
static void check_order(struct load *load, const struct twheel_timeout *t)
{
	struct twheel_shard *old;
	unsigned int i;

	for (i = 0; i < MAX_SHARDS; i++) {
		old = cmpxchg(&load->order[i].shard, NULL, t->shard);
		if (old && old != t->shard)
			continue;
		count_if(&load->errors, t->tick < load->order[i].tick);
		load->order[i].tick = t->tick;
		return;
	}
}

static void load_sink(void *sink_data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	struct twheel_timeout *t, *next;
	struct load *load = sink_data;
	bool soft = in_serving_softirq();

	/* Some calls use up the budget of soft interrupts, so that the thread goes on. */
	if (atomic_inc_return(&load->turns[soft]) % 64 == 0 && soft)
		udelay(LONG_CALL_US);
	list_for_each_entry_safe(t, next, expired, entry) {
		struct tracked_timeout *a = to_tracked(t);

		list_del(&t->entry);
		check_order(load, t);
		if (t->expires % 8 == 0 && !twheel_extend(t, now_ns | 1, MS / 2)) {
			atomic_inc(&load->extended);
			continue;
		}
		note_expiry(a, now_ns);
		twheel_accept(t);
		rearm_at_expiry(a);
	}
}

/* Another thread may have armed the timeout again, so its deadline cannot be compared. */
static void shared_fires(struct twheel_timeout *t)
{
	struct tracked_timeout *a = to_tracked(t);

	atomic_inc(&a->fired);
	rearm_at_expiry(a);
}

/* Only its thread arms it, and not before @in_use is false, so its deadline can be compared. */
static void listed_fires(struct twheel_timeout *t)
{
	struct tracked_timeout *a = to_tracked(t);

	note_expiry(a, twheel_now(a->load->wheel));
	rearm_at_expiry(a);
}

static void work_runs(struct work_struct *work)
{
	struct tracked_timeout *a = container_of(work, struct tracked_timeout, tw.work);

	usleep_range(50, 200);
	note_expiry(a, twheel_now(a->load->wheel));
	rearm_at_expiry(a);
}

/* Operations of the threads; each returns false when the wheel has been stopped */

static struct tracked_timeout *random_timeout(struct thread *th)
{
	if (random_below(th, 3))
		return &th->load->shared[random_below(th, NR_SHARED)];
	return &th->own[random_below(th, NR_OWN)];
}

static bool arm_one(struct thread *th)
{
	struct tracked_timeout *a = random_timeout(th);
	u64 expires = twheel_now(th->load->wheel) + random_delay(th);
	int ret = twheel_arm_slack(&a->tw.t, expires, random_below(th, 2) * 10 * MS);

	count_if(&a->armed, !ret);
	return ret != -ESHUTDOWN;
}

static bool move_one(struct thread *th)
{
	struct tracked_timeout *a = random_timeout(th);
	int ret = twheel_mod(&a->tw.t, twheel_now(th->load->wheel) + random_delay(th));

	count_if(&a->armed, !ret);
	count_if(&th->load->moved, ret == 1);
	return ret != -ESHUTDOWN;
}

static bool cancel_one(struct thread *th)
{
	struct tracked_timeout *own = &th->own[random_below(th, NR_OWN)], *a = random_timeout(th);

	count_if(&a->cancelled, twheel_cancel(&a->tw.t));
	count_if(&own->cancelled, random_below(th, 2) ? twheel_cancel_sync(&own->tw.t) :
							twheel_try_cancel(&own->tw.t) == 1);
	return true;
}

/* More than a batch becomes due at once. */
static bool arm_burst(struct thread *th)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < NR_SHARED && ret != -ESHUTDOWN; i++) {
		ret = twheel_arm_after(&th->load->shared[i].tw.t, 0);
		count_if(&th->load->shared[i].armed, !ret);
	}
	return ret != -ESHUTDOWN;
}

/* A timeout with @in_use set may be in the list of twheel_stop(), so it is left alone. */
static bool arm_one_work(struct thread *th)
{
	struct tracked_timeout *a = &th->work[random_below(th, NR_WORK)];
	int ret;

	if (th->load->sink || READ_ONCE(a->in_use))
		return true;
	WRITE_ONCE(a->in_use, true);
	atomic_inc(&a->armed);
	ret = twheel_arm_after(&a->tw.t, random_delay(th));
	if (ret) {
		atomic_dec(&a->armed);
		WRITE_ONCE(a->in_use, false);
	}
	return ret != -ESHUTDOWN;
}

static bool cancel_one_work(struct thread *th)
{
	struct tracked_timeout *a = &th->work[random_below(th, NR_WORK)];

	if (!th->load->sink && twheel_cancel_work_sync(&a->tw)) {
		atomic_inc(&a->cancelled);
		WRITE_ONCE(a->in_use, false);
	}
	return true;
}

static bool arm_list(struct thread *th)
{
	u64 now = twheel_now(th->load->wheel);
	struct twheel_timeout *list[LIST_LEN];
	unsigned int i, nr = 0, armed;

	for (i = 0; i < LIST_LEN; i++) {
		struct tracked_timeout *a = &th->listed[random_below(th, NR_LISTED)];

		if (READ_ONCE(a->in_use))
			continue;
		twheel_cancel_sync(&a->tw.t);
		a->tw.t.expires = now + random_delay(th);
		WRITE_ONCE(a->in_use, true);
		atomic_inc(&a->armed);
		list[nr++] = &a->tw.t;
	}
	armed = twheel_arm_list(th->load->wheel, list, nr);
	for (i = armed; i < nr; i++) {
		WRITE_ONCE(to_tracked(list[i])->in_use, false);
		atomic_dec(&to_tracked(list[i])->armed);
	}
	return armed == nr;
}

static bool change_list(struct thread *th)
{
	unsigned int first = random_below(th, NR_LISTED - LIST_LEN), i;
	struct twheel_timeout *list[LIST_LEN];
	u64 expires[LIST_LEN];

	for (i = 0; i < LIST_LEN; i++) {
		list[i] = &th->listed[first + i].tw.t;
		expires[i] = twheel_now(th->load->wheel) + random_delay(th);
	}
	atomic_add(twheel_mod_list(list, expires, random_below(th, LIST_LEN)), &th->load->moved);
	twheel_cancel_list(list, LIST_LEN);
	for (i = 0; i < LIST_LEN; i++) {
		if (!list[i])
			continue;
		atomic_inc(&to_tracked(list[i])->cancelled);
		WRITE_ONCE(to_tracked(list[i])->in_use, false);
	}
	return true;
}

static bool query(struct thread *th)
{
	struct tracked_timeout *a = random_timeout(th);
	struct twheel_position pos;
	struct twheel_counters stats;

	twheel_position(&a->tw.t, &pos);
	twheel_remaining_ns(&a->tw.t);
	twheel_next_expiry(th->load->wheel);
	twheel_get_counters(th->load->wheel, &stats);
	twheel_flush(th->load->wheel);
	return true;
}

static bool (* const operations[])(struct thread *th) = {
	arm_one, arm_one, arm_one, move_one, move_one, cancel_one, arm_burst, arm_one_work,
	cancel_one_work, arm_list, arm_list, change_list, query,
};

static int stress_thread(void *data)
{
	struct thread *th = data;
	bool open = true;
	unsigned int i;

	for (i = 0; open && !kthread_should_stop(); i++) {
		/* Hotplug may have moved the thread away from its CPU. */
		if (i % 256 == 0)
			migrate_to(th->cpu);
		open = operations[random_below(th, ARRAY_SIZE(operations))](th);
		if (i % 64 == 0)
			usleep_range(50, 200);
		cond_resched();
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* A case. No assertion may end the test between load_start() and load_finish(). */

static void init_timeouts(struct load *load, struct tracked_timeout *a, unsigned int n,
			  void (*fn)(struct twheel_timeout *t))
{
	unsigned int i;

	memset(a, 0, n * sizeof(*a));
	for (i = 0; i < n; i++) {
		a[i].load = load;
		a[i].rearms = fn == shared_fires && i % 2;
		a[i].periodic = fn == listed_fires && i % 2;
		twheel_timeout_init(load->wheel, &a[i].tw.t, load->sink ? NULL : fn);
	}
}

static void load_init(struct load *load, struct rnd_state *rnd)
{
	unsigned int i, j, cpu = 0;
	struct thread *th;

	atomic_set(&load->moved, 0);
	atomic_set(&load->extended, 0);
	load->first_handed_back = NULL;
	memset(load->order, 0, sizeof(load->order));
	init_timeouts(load, load->shared, NR_SHARED, shared_fires);
	load->nr_threads = clamp_t(unsigned int, num_online_cpus(), 4, MAX_THREADS);
	for (i = 0; i < load->nr_threads; i++) {
		th = &load->threads[i];
		th->load = load;
		th->cpu = cpu % nr_cpu_ids;
		cpu = cpumask_next(cpu, cpu_online_mask) % nr_cpu_ids;
		prandom_seed_state(&th->rnd, prandom_u32_state(rnd));
		init_timeouts(load, th->own, NR_OWN, shared_fires);
		init_timeouts(load, th->listed, NR_LISTED, listed_fires);
		init_timeouts(load, th->work, NR_WORK, listed_fires);
		for (j = 0; j < NR_WORK && !load->sink; j++)
			twheel_work_init(load->wheel, &th->work[j].tw, work_runs);
	}
}

static bool load_start(struct load *load)
{
	bool all = true;
	unsigned int i;

	for (i = 0; i < load->nr_threads; i++) {
		struct thread *th = &load->threads[i];

		th->task = kthread_run(stress_thread, th, "kunit-load/%u", i);
		if (IS_ERR(th->task))
			th->task = NULL;
		all = all && th->task;
	}
	return all;
}

static void arm_after_stop(void *data)
{
	struct load *load = data;

	count_if(&load->errors, twheel_mod(load->first_handed_back, S64_MAX) != -ESHUTDOWN);
}

/* By the time of the first call, no CPU accepts an arm any more. */
static void note_handed_back(void *data, struct twheel_timeout *t)
{
	struct load *load = data;
	unsigned int cpu;

	atomic_inc(&to_tracked(t)->handed_back);
	if (load->first_handed_back)
		return;
	load->first_handed_back = t;
	for_each_online_cpu(cpu)
		smp_call_function_single(cpu, arm_after_stop, load, true);
}

/* Stop the wheel, then end the threads, whose arms are refused by now, and the works. */
static void load_finish(struct load *load)
{
	unsigned int i, j;

	twheel_stop(load->wheel, note_handed_back, load);
	for (i = 0; i < load->nr_threads; i++)
		if (load->threads[i].task)
			kthread_stop(load->threads[i].task);
	for (i = 0; i < load->nr_threads && !load->sink; i++)
		for (j = 0; j < NR_WORK; j++)
			flush_work(&load->threads[i].work[j].tw.work);
}

/* Sums over all timeouts, to compare with the counters of the wheel. */
struct sums {
	u64 armed, cancelled, fired, handed_back;
	unsigned int wrong;
};

static void add_counts(struct sums *sum, struct tracked_timeout *a, unsigned int n)
{
	for (; n--; a++) {
		int armed = atomic_read(&a->armed), cancelled = atomic_read(&a->cancelled);
		int fired = atomic_read(&a->fired), handed_back = atomic_read(&a->handed_back);

		sum->armed += armed;
		sum->cancelled += cancelled;
		sum->fired += fired;
		sum->handed_back += handed_back;
		sum->wrong += armed != cancelled + fired + handed_back;
	}
}

/* A work may be cancelled after its timeout has fired, so only sinks compare all counters. */
static void check_sums(struct kunit *test, struct load *load, struct sums *sum)
{
	u64 moved = atomic_read(&load->moved);
	struct twheel_counters stats;
	unsigned int i;

	add_counts(sum, load->shared, NR_SHARED);
	for (i = 0; i < load->nr_threads; i++) {
		add_counts(sum, load->threads[i].own, NR_OWN);
		add_counts(sum, load->threads[i].listed, NR_LISTED);
		add_counts(sum, load->threads[i].work, NR_WORK);
	}
	twheel_get_counters(load->wheel, &stats);
	KUNIT_EXPECT_EQ(test, 0U, sum->wrong);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&load->errors));
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(load->wheel));
	KUNIT_EXPECT_EQ(test, 0ULL, stats.pending);
	KUNIT_EXPECT_EQ(test, moved, stats.rearmed);
	KUNIT_EXPECT_EQ(test, (u64)atomic_read(&load->extended), stats.extended);
	KUNIT_EXPECT_EQ(test, sum->armed + moved, stats.armed);
	KUNIT_EXPECT_EQ(test, sum->handed_back, stats.stopped);
	if (load->sink)
		KUNIT_EXPECT_EQ(test, sum->fired, stats.fired);
}

/* CPU 0 stays online. */
static void hotplug_until(unsigned long end)
{
	unsigned int cpu = 0;

	for (; time_before(jiffies, end); msleep(20)) {
		cpu = cpumask_next(cpu, cpu_present_mask);
		if (cpu >= nr_cpu_ids) {
			cpu = 0;
			continue;
		}
		if (!remove_cpu(cpu)) {
			msleep(20);
			add_cpu(cpu);
		}
	}
}

struct load_kind {
	const char *name;
	bool sink;
	bool hotplug;
};

static const struct load_kind load_kinds[] = {
	{ "callbacks", false, false },
	{ "sink", true, false },
	{ "callbacks, hotplug", false, true },
	{ "sink, hotplug", true, true },
};

NAMED_PARAM(load_kind, load_kinds);

/* Put the load on a wheel until @end, then stop the wheel. */
static void run_load(struct kunit *test, struct load *load, struct rnd_state *rnd,
		     struct sums *sum, unsigned long end)
{
	const struct load_kind *s = test->param_value;
	struct twheel_params params = {
		.name = "kunit-stress", .slots = 64,
		.sink = s->sink ? load_sink : NULL, .sink_data = load,
	};
	bool started;

	load->sink = s->sink;
	load->wheel = fixture_create(test->priv, &params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, load->wheel);
	load_init(load, rnd);
	started = load_start(load);
	fsleep(prandom_u32_state(rnd) % 10000);
	if (s->hotplug)
		hotplug_until(end);
	while (time_before(jiffies, end))
		msleep(20);
	load_finish(load);
	KUNIT_EXPECT_TRUE(test, started);
	*sum = (struct sums){ };
	check_sums(test, load, sum);
	fixture_exit(test);
}

/* Many wheels are stopped after a short time, and then one after a long time. */
static void every_arming_ends_once(struct kunit *test)
{
	struct load *load = kunit_kzalloc(test, sizeof(*load), GFP_KERNEL);
	const struct load_kind *s = test->param_value;
	u32 start = seed ?: get_random_u32(), i;
	struct rnd_state rnd;
	struct sums sum;

	KUNIT_ASSERT_NOT_NULL(test, load);
	if (s->hotplug && num_online_cpus() == 1)
		kunit_skip(test, "one CPU");
	/* The threads choose their CPUs, so the test must not be bound to one of them. */
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	kunit_info(test, "seed=%u\n", start);
	prandom_seed_state(&rnd, start);
	for (i = 0; i < stops / 2 && !s->hotplug; i++)
		run_load(test, load, &rnd, &sum, jiffies);
	run_load(test, load, &rnd, &sum, jiffies + seconds * HZ);
	KUNIT_EXPECT_GT(test, sum.cancelled, 0ULL);
	KUNIT_EXPECT_GT(test, sum.fired, 0ULL);
	KUNIT_EXPECT_GT(test, sum.handed_back, 0ULL);
	KUNIT_EXPECT_EQ(test, s->sink, atomic_read(&load->turns[0]) > 0);
	KUNIT_EXPECT_EQ(test, s->sink, atomic_read(&load->turns[1]) > 0);
	kunit_info(test, "armed %llu cancelled %llu fired %llu handed back %llu\n",
		   sum.armed, sum.cancelled, sum.fired, sum.handed_back);
}

static struct kunit_case stress_cases[] = {
	KUNIT_CASE_PARAM(every_arming_ends_once, load_kind_gen_params),
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
