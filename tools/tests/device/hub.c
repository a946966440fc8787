// SPDX-License-Identifier: GPL-2.0
/*
 * Hubs of the library: each test with cells, and with ordinary timeouts in their place.
 *
 * The random tests have a model: the deadline of each node. They make every call, outside and
 * inside callbacks, on two hubs. A call must return the result of the model. The model must
 * expect each callback, at its deadline or later. No node may be overdue for long. The hubs go
 * on in a child or stay in the parent when the process forks. One hub is stopped at the end.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	120

#include <pthread.h>
#include <setjmp.h>
#include <twheel_hub.h>

#include "machine.h"
#include "signals.h"

#define MS		NSEC_PER_MSEC
#define NR_NODES	8

static unsigned int flags;

static struct twheel_hub *hub;
static struct twheel_node nodes[NR_NODES];
static unsigned int nr_calls[NR_NODES], nr_all_calls;

static void open_hub(void)
{
	CHECK_EQ(twheel_hub_open(NULL, flags, &hub), 0);
	if (!flags && twheel_hub_flags(hub) & TWHEEL_HUB_NO_CELLS)
		ktap_skip("no cells");
	CHECK_EQ(twheel_hub_flags(hub), flags);
}

static void close_hub(void)
{
	twheel_hub_close(hub);
	hub = NULL;
}

static void open_with(struct twheel_setup setup)
{
	struct twheel_ctx *ctx;

	close_hub();
	CHECK_EQ(twheel_open(NULL, 0, &ctx), 0);
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	CHECK_EQ(twheel_hub_open(ctx, flags, &hub), 0);
	CHECK(twheel_hub_ctx(hub) == ctx);
}

static void count_only(struct twheel_node *node)
{
	CHECK(!twheel_node_armed(node));
	nr_calls[node - nodes]++;
	nr_all_calls++;
}

static void init_nodes(void (*fn)(struct twheel_node *node))
{
	for (unsigned int i = 0; i < NR_NODES; i++)
		twheel_node_init(&nodes[i], hub, fn);
}

static void run_with(unsigned int hub_flags, void (*test)(void))
{
	flags = hub_flags;
	open_hub();
	init_nodes(count_only);
	test();
	close_hub();
}

/* Two tests: with cells, and with ordinary timeouts. */
#define HUB_TEST(function)						\
	static void function(void);					\
	TEST(function##_with_cells)					\
	{								\
		run_with(0, function);					\
	}								\
	TEST(function##_with_timeouts)					\
	{								\
		run_with(TWHEEL_HUB_NO_CELLS, function);		\
	}								\
	static void function(void)

/* A hub whose context may have @limit timeouts. */
static void open_limited(unsigned int limit)
{
	open_with((struct twheel_setup) { .max_timeouts = limit });
	init_nodes(count_only);
}

static void arm_node(unsigned int number, __u64 ns)
{
	CHECK_EQ(twheel_node_arm(&nodes[number], ns), 0);
}

static __u32 live(void)
{
	return info(twheel_fd(twheel_hub_ctx(hub))).live;
}

/* Until nothing is armed. */
static void dispatch_all(void)
{
	__u64 deadline = now_ns() + time_limit_ns();

	while (twheel_hub_armed(hub)) {
		CHECK(now_ns() < deadline);
		CHECK(twheel_hub_dispatch(hub, time_limit_ns()) > 0);
	}
}

/* One dispatch reads all that are due. */
static void dispatch_once(unsigned int nr)
{
	wait_ready(twheel_fd(twheel_hub_ctx(hub)), nr);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT), nr);
}

static void check_nothing_to_read(void)
{
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT), 0);
}

HUB_TEST(wrong_argument_is_refused_and_changes_nothing)
{
	CHECK_EQ(twheel_node_arm(&nodes[0], EXPIRES_MAX + 1), -EINVAL);
	CHECK_EQ(twheel_node_arm_at(&nodes[0], EXPIRES_MAX + 1), -EINVAL);
	CHECK(!twheel_node_armed(&nodes[0]));
	arm_node(0, 10 * MS);
	CHECK_EQ(twheel_node_arm(&nodes[0], UINT64_MAX), -EINVAL);
	dispatch_all();
	CHECK_EQ(nr_all_calls, 1);
	arm_node(0, EXPIRES_MAX);
	CHECK_EQ(twheel_node_arm_at(&nodes[1], EXPIRES_MAX), 0);
	CHECK_EQ(twheel_hub_armed(hub), 2);
	CHECK_EQ(twheel_hub_open(NULL, 0x80, &hub), -EINVAL);
	twheel_hub_close(NULL);
}

/* Callbacks, while other nodes of their dispatch wait */

static void break_dispatch(struct twheel_node *node)
{
	count_only(node);
	twheel_hub_break(hub);
}

static bool is_odd(void *number)
{
	return *(unsigned int *)number % 2;
}

static void break_if_odd(struct twheel_node *node)
{
	count_only(node);
	twheel_hub_break_if(hub, is_odd, &nr_all_calls);
}

/* The node that is armed in the first callback is called before the other one. */
static void dispatch_inside(struct twheel_node *node)
{
	count_only(node);
	if (nr_all_calls > 1)
		return;
	twheel_hub_break(hub);
	arm_node(2, 0);
	dispatch_once(1);
	CHECK_EQ(nr_all_calls, 2);
	CHECK(!twheel_node_armed(&nodes[2]));
}

/* The inner dispatch has two more nodes, and ends after one of them. */
static void break_inside(struct twheel_node *node)
{
	count_only(node);
	if (nr_all_calls > 1)
		return;
	for (unsigned int i = 2; i < 4; i++) {
		nodes[i].fn = break_dispatch;
		arm_node(i, 0);
	}
	dispatch_once(2);
	CHECK_EQ(nr_all_calls, 2);
}

static struct twheel_hub *other_hub;

static void break_other(struct twheel_node *node)
{
	count_only(node);
	twheel_hub_break(other_hub);
}

static void wait_inside(struct twheel_node *node)
{
	count_only(node);
	if (nr_all_calls == 1)
		CHECK_EQ(twheel_hub_dispatch(hub, time_limit_ns()), 1);
	CHECK_EQ(nr_all_calls, 2);
}

/* The list of due nodes is on the stack, which the child has, too. It runs the rest of the test. */
static void fork_and_wait(struct twheel_node *node)
{
	pid_t pid = nr_all_calls || is_process_backend() ? 0 : fork_child();

	if (pid) {
		join_child(pid);
		_exit(0);
	}
	wait_inside(node);
}

static void read_until_the_end(void)
{
	int ret;

	do
		ret = twheel_hub_dispatch(hub, time_limit_ns());
	while (ret > 0);
	CHECK_EQ(ret, -ESHUTDOWN);
	CHECK_EQ(twheel_hub_armed(hub), 0);
}

static void stop_and_rearm(struct twheel_node *node)
{
	count_only(node);
	if (nr_all_calls > 1)
		return;
	CHECK_EQ(twheel_stop(twheel_hub_ctx(hub)), 0);
	CHECK_EQ(twheel_node_arm(node, 0), -ESHUTDOWN);
	CHECK(!twheel_node_armed(node));
}

static void stop_and_wait(struct twheel_node *node)
{
	count_only(node);
	CHECK_EQ(twheel_stop(twheel_hub_ctx(hub)), 0);
	read_until_the_end();
}

static void stop_and_break(struct twheel_node *node)
{
	CHECK_EQ(twheel_stop(twheel_hub_ctx(hub)), 0);
	break_dispatch(node);
}

/* The clock goes back after the events were read. */
static void step_back_and_break(struct twheel_node *node)
{
	set_realtime(-(__s64)HOUR);
	break_dispatch(node);
}

static void step_back_and_wait(struct twheel_node *node)
{
	set_realtime(-(__s64)HOUR);
	wait_inside(node);
}

/* A callback runs @fn while other nodes of its dispatch wait. */
static const struct in_dispatch {
	const char	*name;
	void		(*fn)(struct twheel_node *node);
	unsigned int	due;		/* nodes in the dispatch */
	unsigned int	calls;		/* until the dispatch ends */
	unsigned int	later;		/* nodes that are armed then, and called later */
	bool		stops;		/* a callback stops the context */
	__u32		clock;
} in_dispatch[] = {
	{ "break", break_dispatch, NR_NODES, 1, NR_NODES - 1, false, CLOCK_MONOTONIC },
	{ "break by a function", break_if_odd, NR_NODES, 1, NR_NODES - 1, false, CLOCK_MONOTONIC },
	{ "dispatch and break", dispatch_inside, 2, 2, 1, false, CLOCK_MONOTONIC },
	{ "break the dispatch inside", break_inside, 2, 3, 1, false, CLOCK_MONOTONIC },
	{ "break another hub", break_other, NR_NODES, NR_NODES, 0, false, CLOCK_MONOTONIC },
	{ "wait for another node", wait_inside, 2, 2, 0, false, CLOCK_MONOTONIC },
	{ "fork", fork_and_wait, 2, 2, 0, false, CLOCK_MONOTONIC },
	{ "stop", stop_and_rearm, 2, 2, 0, true, CLOCK_MONOTONIC },
	{ "stop and wait", stop_and_wait, NR_NODES, 1, 0, true, CLOCK_MONOTONIC },
	{ "stop and break", stop_and_break, NR_NODES, 1, 0, true, CLOCK_MONOTONIC },
	{ "step back and break", step_back_and_break, 2, 1, 1, false, CLOCK_REALTIME },
	{ "step back and wait", step_back_and_wait, 2, 2, 0, false, CLOCK_REALTIME },
};

static void check_in_dispatch(const struct in_dispatch *row)
{
	open_with(setup_clock(row->clock));
	if (row->clock == CLOCK_REALTIME)
		skip_without_realtime();
	init_nodes(row->fn);
	nr_all_calls = 0;
	for (unsigned int i = 0; i < row->due; i++)
		CHECK_EQ(twheel_node_arm_at(&nodes[i], twheel_hub_now(hub)), 0);
	dispatch_once(row->due);
	CHECK_EQ(nr_all_calls, row->calls);
	CHECK_EQ(twheel_hub_armed(hub), row->later);
	if (row->stops) {
		read_until_the_end();
	} else {
		dispatch_all();
		check_nothing_to_read();
	}
	CHECK_EQ(nr_all_calls, row->calls + row->later);
	if (row->clock == CLOCK_REALTIME)
		set_realtime(0);
}

HUB_TEST(callback_may_change_the_rest_of_its_dispatch)
{
	CHECK_EQ(twheel_hub_open(NULL, flags, &other_hub), 0);
	for_each_row(row, in_dispatch)
		check_in_dispatch(row);
	twheel_hub_close(other_hub);
}

/* After a break, too, and nodes may be cancelled or freed later. */
HUB_TEST(closed_hub_has_no_armed_nodes)
{
	init_nodes(break_dispatch);
	for (unsigned int i = 0; i < NR_NODES; i++)
		arm_node(i, 0);
	dispatch_once(NR_NODES);
	close_hub();
	CHECK_EQ(nr_all_calls, 1);
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK(!twheel_node_cancel(&nodes[i]));
}

/* Cells */

/* Cells beyond the armed ones that stay, and the most that a dispatch ends. */
#define KEPT_SPARE	256
#define NR_BURST	1300

static struct twheel_node burst[NR_BURST];

static void count_call(struct twheel_node *node)
{
	CHECK(!twheel_node_armed(node));
	nr_all_calls++;
}

static void arm_burst(unsigned int nr, __u64 ns)
{
	for (unsigned int i = 0; i < nr; i++) {
		twheel_node_init(&burst[i], hub, count_call);
		CHECK_EQ(twheel_node_arm(&burst[i], ns), 0);
	}
}

static void cancel_burst(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		CHECK(twheel_node_cancel(&burst[i]));
}

/* The spare cells have another delay than the node that is armed then. */
static unsigned int created_beside_spares(unsigned int nr)
{
	unsigned int made;

	close_hub();
	open_hub();
	CHECK_EQ(twheel_hub_reserve(hub, nr), 0);
	arm_burst(nr, HOUR);
	cancel_burst(nr);
	arm_burst(1, 30 * NSEC_PER_SEC);
	made = live() - nr;
	cancel_burst(1);
	return made;
}

HUB_TEST(hub_makes_no_cells_while_many_are_spare)
{
	CHECK_EQ(created_beside_spares(8), 8);
	CHECK_EQ(created_beside_spares(128), 64);
	CHECK_EQ(created_beside_spares(130), 0);
}

/* The cell of a node goes back to the list of its last delay. */
HUB_TEST(moved_and_cancelled_nodes_share_cells)
{
	for (int i = 0; i < 1000; i++) {
		arm_node(0, 5 * TWHEEL_SEC);
		arm_node(0, 60 * TWHEEL_SEC);
		CHECK(twheel_node_cancel(&nodes[0]));
	}
	CHECK(live() <= 256);
}

/* Often enough to end the cells of a burst. */
static void dispatch_idle(void)
{
	for (unsigned int i = 0; i < NR_BURST / KEPT_SPARE; i++)
		check_nothing_to_read();
}

/* A burst that is cancelled, but for some nodes, and the dispatches that follow. */
static const struct burst_row {
	const char	*name;		/* what is left */
	unsigned int	armed;		/* nodes that stay armed */
	unsigned int	reserved;	/* cells */
	unsigned int	first;		/* cells that the first dispatch ends */
	unsigned int	kept;		/* cells that stay */
} burst_rows[] = {
	{ "nothing", 0, 0, KEPT_SPARE, KEPT_SPARE },
	{ "a small reserve", 0, KEPT_SPARE + 1, KEPT_SPARE, KEPT_SPARE + 1 },
	{ "some nodes", 300, 0, KEPT_SPARE, 2 * 300 + KEPT_SPARE },
	{ "some nodes and a reserve", 300, 1000, KEPT_SPARE, 1000 },
	{ "nearly half", (NR_BURST - KEPT_SPARE) / 2 - 1, 0, 2, NR_BURST - 2 },
	{ "half", (NR_BURST - KEPT_SPARE) / 2, 0, 0, NR_BURST },
	{ "a reserve for all", 0, NR_BURST, 0, NR_BURST },
	{ "a reserve for more", 0, NR_BURST + 10, 0, NR_BURST + 10 },
};

/* Nodes that stay armed keep their cells, and others fire on what was kept. */
static void check_burst(const struct burst_row *row)
{
	unsigned int before;

	close_hub();
	open_hub();
	CHECK_EQ(twheel_hub_reserve(hub, NR_BURST), 0);
	arm_burst(NR_BURST, HOUR);
	cancel_burst(NR_BURST - row->armed);
	CHECK_EQ(twheel_hub_reserve(hub, row->reserved), 0);
	before = live();
	check_nothing_to_read();
	CHECK_EQ(live(), before - row->first);
	dispatch_idle();
	CHECK_EQ(live(), row->kept);

	nr_all_calls = 0;
	arm_burst(NR_BURST - row->armed, 0);
	while (twheel_hub_armed(hub) > row->armed)
		CHECK(twheel_hub_dispatch(hub, time_limit_ns()) > 0);
	CHECK_EQ(nr_all_calls, NR_BURST - row->armed);
	for (unsigned int i = NR_BURST - row->armed; i < NR_BURST; i++)
		CHECK(twheel_node_cancel(&burst[i]));
}

HUB_TEST(dispatch_ends_cells_that_outnumber_armed_ones)
{
	for_each_row(row, burst_rows)
		check_burst(row);
}

HUB_TEST(limit_is_free_for_others_after_a_burst)
{
	open_limited(NR_BURST - 1);
	for (unsigned int i = 0; i < 3; i++) {
		nr_all_calls = 0;
		arm_burst(NR_BURST - 1, 0);
		twheel_node_init(&burst[NR_BURST - 1], hub, count_call);
		CHECK_EQ(twheel_node_arm(&burst[NR_BURST - 1], 0), -EAGAIN);
		dispatch_all();
		CHECK_EQ(nr_all_calls, NR_BURST - 1);
		CHECK_EQ(live(), KEPT_SPARE);
	}
}

static unsigned int nr_bursts;

static void *stop_after_a_burst(void *ctx)
{
	while (!__atomic_load_n(&nr_bursts, __ATOMIC_RELAXED))
		sched_yield();
	CHECK_EQ(twheel_stop(ctx), 0);
	return NULL;
}

/* Bursts half of which may fire, until the stop. Returns the last result of a dispatch. */
static int repeat_bursts(void)
{
	int ret;

	do {
		for (unsigned int i = 0; i < NR_BURST; i++) {
			twheel_node_init(&burst[i], hub, count_call);
			ret = twheel_node_arm(&burst[i], i % 2 ? HOUR : 0);
			CHECK(!ret || ret == -ESHUTDOWN);
		}
		ret = twheel_hub_dispatch(hub, TWHEEL_NO_WAIT);
		for (unsigned int i = 0; i < NR_BURST; i++)
			twheel_node_cancel(&burst[i]);
		__atomic_add_fetch(&nr_bursts, 1, __ATOMIC_RELAXED);
	} while (ret >= 0);
	return ret;
}

HUB_TEST(stop_in_another_thread_while_cells_come_and_go)
{
	const int times = is_slow() ? 5 : 20;
	pthread_t thread;

	for (int i = 0; i < times; i++) {
		close_hub();
		open_hub();
		nr_bursts = 0;
		CHECK_EQ(pthread_create(&thread, NULL, stop_after_a_burst, twheel_hub_ctx(hub)), 0);
		CHECK_EQ(repeat_bursts(), -ESHUTDOWN);
		pthread_join(thread, NULL);
		CHECK_EQ(twheel_hub_armed(hub), 0);
		CHECK_EQ(live(), 0);
	}
}

HUB_TEST(limit_is_reported_and_changes_nothing)
{
	open_limited(NR_NODES - 2);
	for (unsigned int i = 0; i < NR_NODES - 2; i++)
		arm_node(i, 10 * MS << i);
	CHECK_EQ(live(), NR_NODES - 2);
	for (unsigned int i = NR_NODES - 2; i < NR_NODES; i++) {
		CHECK_EQ(twheel_node_arm(&nodes[i], 0), -EAGAIN);
		CHECK(!twheel_node_armed(&nodes[i]));
	}
	CHECK_EQ(twheel_hub_armed(hub), NR_NODES - 2);
	arm_node(0, HOUR);
	CHECK(twheel_node_cancel(&nodes[0]));
	arm_node(NR_NODES - 1, 0);
	dispatch_all();
	CHECK_EQ(nr_all_calls, NR_NODES - 2);
	CHECK_EQ(nr_calls[NR_NODES - 1], 1);
}

/* With cells, or a reserve, no arm can fail, whatever its delay. */
HUB_TEST(reserved_cells_serve_any_delay)
{
	open_limited(NR_NODES);
	CHECK_EQ(twheel_hub_reserve(hub, NR_NODES), 0);
	CHECK_EQ(live(), NR_NODES);
	CHECK_EQ(twheel_hub_reserve(hub, NR_NODES + 1), -EAGAIN);
	for (unsigned int shift = 0; shift < 62; shift++) {
		for (unsigned int i = 0; i < NR_NODES; i++)
			arm_node(i, 1ULL << (shift + i) % 62);
		for (unsigned int i = 0; i < NR_NODES; i++)
			CHECK(twheel_node_cancel(&nodes[i]));
	}
	CHECK_EQ(live(), NR_NODES);
}

/*
 * Two nodes are due at the limit of two, and the first callback takes both cells, so there is none
 * for the node that is to come again. Returns true in that callback.
 */
static bool takes_both_cells(struct twheel_node *node)
{
	count_only(node);
	if (nr_all_calls > 1)
		return false;
	arm_node(2, HOUR);
	arm_node(3, HOUR);
	return true;
}

static void take_cells_and_break(struct twheel_node *node)
{
	if (takes_both_cells(node))
		twheel_hub_break(hub);
}

static void take_cells_and_wait(struct twheel_node *node)
{
	if (!takes_both_cells(node))
		return;
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), 0);
	CHECK_EQ(nr_all_calls, 2);
}

static void dispatch_at_the_limit(void (*fn)(struct twheel_node *node))
{
	open_limited(2);
	for (unsigned int i = 0; i < 2; i++) {
		nodes[i].fn = fn;
		arm_node(i, 0);
	}
	dispatch_once(2);
	CHECK_EQ(nr_calls[0], 1);
	CHECK_EQ(nr_calls[1], 1);
	CHECK_EQ(twheel_hub_armed(hub), 2);
	CHECK(twheel_node_cancel(&nodes[2]));
	CHECK(twheel_node_cancel(&nodes[3]));
}

HUB_TEST(break_calls_what_it_has_no_cell_for)
{
	dispatch_at_the_limit(take_cells_and_break);
}

HUB_TEST(dispatch_does_not_wait_after_a_call_of_its_own)
{
	dispatch_at_the_limit(take_cells_and_wait);
}

/* Two delays by turns: the kernel is called the first time only. */
HUB_TEST(arm_and_cancel_make_no_system_call)
{
	struct twheel_stats before, after;

	for (unsigned int i = 0; i < 1000; i++) {
		if (i == 1)
			before = file_stats(twheel_fd(twheel_hub_ctx(hub)));
		arm_node(0, 30 * NSEC_PER_SEC);
		arm_node(1, HOUR);
		arm_node(0, 31 * NSEC_PER_SEC);
		CHECK(twheel_node_cancel(&nodes[0]));
		CHECK(twheel_node_cancel(&nodes[1]));
	}
	after = file_stats(twheel_fd(twheel_hub_ctx(hub)));
	CHECK_EQ(after.kicks, before.kicks);
	CHECK_EQ(after.armed, before.armed);
	CHECK_EQ(after.moved, before.moved);
	CHECK_EQ(after.cancelled, before.cancelled);
}

/* Hubs */

HUB_TEST(dispatch_waits_as_long_as_it_is_told)
{
	__u64 begun = now_ns();

	arm_node(0, HOUR);
	CHECK_EQ(twheel_hub_dispatch(hub, 30 * MS), 0);
	CHECK(now_ns() >= begun + 30 * MS);
	CHECK(now_ns() < begun + time_limit_ns());
}

static jmp_buf jump_target;

static void jump_out(struct twheel_node *node)
{
	(void)node;
	longjmp(jump_target, 1);
}

/* It is forbidden, and what an exception does. The program ends, and says why. */
HUB_TEST(dispatch_that_a_callback_has_left_is_noticed)
{
	static int calls;
	pid_t pid = fork_child();
	int status;

	if (!pid) {
		close_hub();
		open_hub();
		init_nodes(jump_out);
		arm_node(0, 0);
		for (calls = 0; calls < 2; calls++) {
			if (!setjmp(jump_target))
				twheel_hub_dispatch(hub, TWHEEL_FOREVER);
		}
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGABRT);
}

HUB_TEST(signal_ends_a_dispatch_that_waits)
{
	arm_node(0, HOUR);
	handle_signal(SIGALRM, 0);
	signal_every(10000);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), -EINTR);
	signal_every(0);
	CHECK_EQ(twheel_hub_armed(hub), 1);
	arm_node(0, 0);
	dispatch_all();
	CHECK_EQ(nr_all_calls, 1);
}

/* The random tests */

#define MODEL_HUBS	2
#define MODEL_NODES	300
#define MODEL_FORKS	10
#define NEVER		UINT64_MAX

/* An object, which is freed and allocated anew, so that a stale pointer is seen. */
struct object {
	struct twheel_node node;
	unsigned int number;
};

static struct object *objects[MODEL_NODES];
static struct twheel_hub *hubs[MODEL_HUBS];
static int watched_hubs[MODEL_HUBS];
static __u64 deadlines[MODEL_NODES];
static unsigned int nr_armed;
static __u64 seed;
static unsigned int nr_operations, wanted_operations, depth, nr_cancels, nr_moves, nr_forks;
static __u64 latest_ns;
static bool in_threads;
static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER;

static void model_set_deadline(unsigned int number, __u64 deadline)
{
	nr_armed += (deadline != NEVER) - (deadlines[number] != NEVER);
	deadlines[number] = deadline;
}

static void object_called(struct twheel_node *node);

static void new_object(unsigned int number)
{
	objects[number] = malloc(sizeof(*objects[number]));
	CHECK(objects[number]);
	objects[number]->number = number;
	twheel_node_init(&objects[number]->node, hubs[number % MODEL_HUBS], object_called);
}

static void free_object(unsigned int number)
{
	memset(objects[number], 0x5a, sizeof(*objects[number]));
	free(objects[number]);
}

/* Mostly some ms, some at once, some so far away that they never fire here. */
static __u64 random_delay(void)
{
	switch (random_below(&seed, 8)) {
	case 0:
		return 0;
	case 1:
		return HOUR + random_below(&seed, HOUR);
	default:
		return random_below(&seed, 20 * MS);
	}
}

/* The deadline lies between one that is known to be too early and one that is not. */
static void random_arm(unsigned int number)
{
	__u64 delay = random_delay(), now = now_ns();

	nr_moves += deadlines[number] != NEVER;
	if (random_below(&seed, 2))
		CHECK_EQ(twheel_node_arm(&objects[number]->node, delay), 0);
	else
		CHECK_EQ(twheel_node_arm_at(&objects[number]->node, now + delay), 0);
	model_set_deadline(number, now + delay);
}

static void random_cancel(unsigned int number)
{
	bool armed = deadlines[number] != NEVER;

	CHECK_EQ(twheel_node_cancel(&objects[number]->node), armed);
	if (armed)
		model_set_deadline(number, NEVER);
	nr_cancels += armed;
}

static void random_free(unsigned int number)
{
	random_cancel(number);
	free_object(number);
	new_object(number);
}

static void random_relocate(unsigned int number)
{
	struct object *old = objects[number], *other = malloc(sizeof(*other));

	CHECK(other);
	other->number = number;
	twheel_node_relocate(&other->node, &old->node);
	free_object(number);
	objects[number] = other;
}

static __u64 first_deadline(void)
{
	__u64 first = NEVER;

	for (unsigned int i = 0; i < MODEL_NODES; i++) {
		if (deadlines[i] < first)
			first = deadlines[i];
	}
	return first;
}

static void check_overdue(void)
{
	__u64 first = first_deadline(), now = now_ns();

	CHECK(now < first || now - first < time_limit_ns());
}

static struct twheel_hub *random_hub(void)
{
	return hubs[random_below(&seed, MODEL_HUBS)];
}

/* A call in a callback that waits also calls nodes of the dispatches around it. */
static void random_dispatch(void)
{
	bool waits = !depth || !random_below(&seed, 8);

	CHECK(twheel_hub_dispatch(random_hub(), waits ? random_below(&seed, MS) : 0) >= 0);
	check_overdue();
}

/* Inside callbacks, the function of twheel_hub_watch() is called later. */
static void check_hubs(void)
{
	unsigned int armed = 0;

	for (unsigned int i = 0; i < MODEL_HUBS; i++) {
		armed += twheel_hub_armed(hubs[i]);
		if (!depth)
			CHECK_EQ(watched_hubs[i], twheel_hub_armed(hubs[i]) != 0);
	}
	CHECK_EQ(armed, nr_armed);
}

static unsigned int random_number(void)
{
	return random_below(&seed, MODEL_NODES);
}

static void random_operation(unsigned int number)
{
	nr_operations++;
	switch (random_below(&seed, 16)) {
	case 0 ... 7:
		random_arm(number);
		break;
	case 8 ... 11:
		random_cancel(number);
		break;
	case 12:
		random_relocate(number);
		break;
	case 13:
		random_free(number);
		break;
	case 14:
		if (random_below(&seed, 4))
			twheel_hub_break(random_hub());
		else
			CHECK_EQ(twheel_hub_reserve(hubs[0], random_below(&seed, 2000)), 0);
		break;
	default:
		if (depth < 3)
			random_dispatch();
		break;
	}
	check_hubs();
	CHECK_EQ(twheel_node_armed(&objects[number]->node), deadlines[number] != NEVER);
}

static void object_called(struct twheel_node *node)
{
	unsigned int number = twheel_entry(node, struct object, node)->number;
	__u64 now = now_ns();

	CHECK(number < MODEL_NODES);
	CHECK(objects[number] == twheel_entry(node, struct object, node));
	CHECK(deadlines[number] != NEVER);
	CHECK(now >= deadlines[number]);
	if (now - deadlines[number] > latest_ns)
		latest_ns = now - deadlines[number];
	model_set_deadline(number, NEVER);
	CHECK(!twheel_node_armed(node));
	nr_all_calls++;
	depth++;
	check_hubs();
	for (unsigned int i = random_below(&seed, 4); i--;)
		random_operation(random_below(&seed, 4) ? random_number() : number);
	depth--;
}

static void close_hubs(void)
{
	for (unsigned int i = 0; i < MODEL_HUBS; i++) {
		twheel_hub_close(hubs[i]);
		CHECK(!watched_hubs[i]);
	}
}

/* One of the processes closes the hubs. The other threads are not in the child. */
static void random_fork(void)
{
	bool child_goes_on = !in_threads && random_below(&seed, 2);
	pid_t pid = fork_child();

	nr_forks++;
	if (child_goes_on == !pid) {
		if (pid)
			join_child(pid);
		return;
	}
	close_hubs();
	if (pid)
		join_child(pid);
	_exit(0);
}

/* On a machine with much other work, as many operations as it has time for. */
static void *random_rounds(void *unused)
{
	__u64 end = now_ns() + time_limit_ns();
	bool over = false;

	while (!over) {
		pthread_mutex_lock(&model_lock);
		for (unsigned int i = 0; i < 20; i++)
			random_operation(random_number());
		random_dispatch();
		check_hubs();
		if (!is_process_backend() && nr_forks < MODEL_FORKS &&
		    !random_below(&seed, 10))
			random_fork();
		over = nr_operations >= wanted_operations ||
			(nr_all_calls >= 2000 && now_ns() >= end);
		pthread_mutex_unlock(&model_lock);
	}
	return unused;
}

/* Then only those are left that are an hour away. */
static void dispatch_all_near(void)
{
	while (first_deadline() < now_ns() + HOUR / 2) {
		for (unsigned int i = 0; i < MODEL_HUBS; i++)
			CHECK(twheel_hub_dispatch(hubs[i], MS) >= 0);
		check_overdue();
	}
}

/* An arm is refused, or its node is dropped later. */
static void arm_stopped(unsigned int number)
{
	int ret = twheel_node_arm(&objects[number]->node, random_delay());

	CHECK(!ret || ret == -ESHUTDOWN);
	CHECK_EQ(twheel_node_armed(&objects[number]->node), !ret);
}

/* Stop the hub with the odd nodes. The model forgets them. */
static void random_stop(void)
{
	for (unsigned int i = 1; i < MODEL_NODES; i += 2)
		random_arm(i);
	CHECK_EQ(twheel_stop(twheel_hub_ctx(hubs[1])), 0);
	for (unsigned int i = 1; i < MODEL_NODES; i += 2) {
		if (random_below(&seed, 2))
			random_relocate(i);
		if (random_below(&seed, 4))
			model_set_deadline(i, NEVER);
		else
			random_free(i);
		if (random_below(&seed, 2))
			arm_stopped(i);
	}
	hub = hubs[1];
	read_until_the_end();
	hub = NULL;
	for (unsigned int i = 1; i < MODEL_NODES; i += 2)
		CHECK(!twheel_node_armed(&objects[i]->node));
	check_hubs();
}

static void note_watched_hub(void *data, bool on)
{
	int *watched_hub = data;

	CHECK(*watched_hub != on);
	*watched_hub = on;
}

/* The second hub has as many cells as nodes, and may not make more. */
static void open_hubs(void)
{
	open_limited(MODEL_NODES / 2);
	CHECK_EQ(twheel_hub_reserve(hub, MODEL_NODES / 2), 0);
	hubs[1] = hub;
	open_hub();
	hubs[0] = hub;
	hub = NULL;
	for (unsigned int i = 0; i < MODEL_HUBS; i++)
		twheel_hub_watch(hubs[i], note_watched_hub, &watched_hubs[i]);
	for (unsigned int i = 0; i < MODEL_NODES; i++) {
		new_object(i);
		deadlines[i] = NEVER;
	}
}

static void begin_random(unsigned int nr)
{
	const char *given = getenv("HUB_SEED");

	seed = given ? strtoull(given, NULL, 0) : now_ns() | 1;
	ktap_note("HUB_SEED=%llu", (unsigned long long)seed);
	wanted_operations = scaled(nr);
	open_hubs();
}

static void end_random(void)
{
	depth = 3;	/* callbacks do not dispatch any more */
	dispatch_all_near();
	ktap_note("%u operations: %u moves, %u cancels, %u calls, %u forks, %llu us late at most",
		  nr_operations, nr_moves, nr_cancels, nr_all_calls, nr_forks,
		  (unsigned long long)latest_ns / NSEC_PER_USEC);
	CHECK(nr_moves > 100 && nr_cancels > 100 && nr_all_calls > 100);
	CHECK(nr_forks || is_process_backend());
	depth = 0;
	/* The first hub is left without a node. */
	for (unsigned int i = 0; i < MODEL_NODES; i += 2)
		random_cancel(i);
	check_hubs();
	random_stop();
	close_hubs();
	for (unsigned int i = 0; i < MODEL_NODES; i++) {
		CHECK(!twheel_node_cancel(&objects[i]->node));
		free_object(i);
	}
}

HUB_TEST(random_operations_agree_with_a_model)
{
	begin_random(60000);
	random_rounds(NULL);
	end_random();
}

HUB_TEST(random_operations_of_threads_agree_with_a_model)
{
	pthread_t threads[4];

	in_threads = true;
	begin_random(35000);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, random_rounds, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	end_random();
}
