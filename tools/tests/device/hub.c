// SPDX-License-Identifier: GPL-2.0
/*
 * Hubs of the library: each test with cells, and with ordinary timeouts in their place.
 *
 * The random tests have a model: for each node its deadline, and the nodes that are armed as a
 * list sorted by that. They make every call, outside and inside callbacks, on two hubs. A call
 * must return the result of the model. The model must expect each callback, at its deadline or
 * later. The first node of the list may not be overdue for long. The hubs go on in a child or
 * stay in the parent when the process forks. One hub is stopped at the end.
 *
 * The file pairs-hub lists the tests of two features together.
 */
#define KTAP_HANG_S	120

#include <pthread.h>
#include <twheel_hub.h>

#include "realtime.h"

#define MS		NSEC_PER_MSEC
#define NR_NODES	8

static unsigned int flags;

static struct twheel_hub *hub;
static struct twheel_node nodes[NR_NODES];
static unsigned int nr_calls[NR_NODES], nr_all;

static void skip_without_cells(void)
{
	if (!flags && hub->flags & TWHEEL_HUB_NO_CELLS)
		ktap_skip("no cells");
}

static void open_hub(void)
{
	CHECK_EQ(twheel_hub_open(NULL, flags, &hub), 0);
	skip_without_cells();
	CHECK_EQ(hub->flags, flags);
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
	CHECK_EQ(twheel_setup(ctx, &setup), 0);
	CHECK_EQ(twheel_hub_open(ctx, flags, &hub), 0);
	CHECK(hub->ctx == ctx);
}

static unsigned int number_of(struct twheel_node *node)
{
	return node - nodes;
}

static void only_called(struct twheel_node *node)
{
	CHECK(!twheel_node_armed(node));
	nr_calls[number_of(node)]++;
	nr_all++;
}

static void init_nodes(void (*fn)(struct twheel_node *node))
{
	for (unsigned int i = 0; i < NR_NODES; i++)
		twheel_node_init(&nodes[i], hub, fn);
}

/* A hub whose context may have @limit timeouts. */
static void open_limited(unsigned int limit)
{
	open_with((struct twheel_setup) { .max_timeouts = limit });
	init_nodes(only_called);
}

static void renew_hub(void (*fn)(struct twheel_node *node))
{
	close_hub();
	open_hub();
	init_nodes(fn);
	memset(nr_calls, 0, sizeof(nr_calls));
	nr_all = 0;
}

static void arm_node(unsigned int number, __u64 ns)
{
	CHECK_EQ(twheel_node_arm(&nodes[number], ns), 0);
}

static void arm_all(__u64 ns)
{
	for (unsigned int i = 0; i < NR_NODES; i++)
		arm_node(i, ns);
}

static struct twheel_stats stats(void)
{
	struct twheel_stats stats;

	CHECK_EQ(twheel_stats(hub->ctx, &stats), 0);
	return stats;
}

static __u32 live(void)
{
	return info(twheel_fd(hub->ctx)).live;
}

/* Until nothing is armed. */
static void dispatch_all(void)
{
	__u64 deadline = now_ns() + patience_ns();

	while (hub->armed) {
		CHECK(now_ns() < deadline);
		CHECK(twheel_hub_dispatch(hub, patience_ns()) > 0);
	}
}

/* One dispatch reads all that are due. */
static void dispatch_once(unsigned int nr)
{
	wait_ready(twheel_fd(hub->ctx), nr);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT), nr);
}

static void check_nothing_to_read(void)
{
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT), 0);
}

/* One node after the other */

static void node_is_called_once_and_not_early(void)
{
	__u64 begun = now_ns();

	for (unsigned int i = 0; i < NR_NODES; i++)
		arm_node(i, (i + 1) * 10 * MS);
	CHECK_EQ(hub->armed, NR_NODES);
	dispatch_all();
	CHECK(now_ns() >= begun + NR_NODES * 10 * MS);
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK_EQ(nr_calls[i], 1);
	check_nothing_to_read();
}

static void node_can_be_armed_for_a_point_in_time(void)
{
	__u64 now = twheel_hub_now(hub);

	CHECK_EQ(hub->now_ns, now);
	CHECK_EQ(twheel_node_arm_at(&nodes[0], now + 30 * MS), 0);
	CHECK_EQ(twheel_node_arm_at(&nodes[1], 0), 0);
	while (!nr_calls[1])
		CHECK(twheel_hub_dispatch(hub, patience_ns()) > 0);
	dispatch_all();
	CHECK(hub->now_ns >= now + 30 * MS);
	CHECK_EQ(nr_calls[0], 1);
}

static void cancelled_node_is_not_called(void)
{
	CHECK(!twheel_node_cancel(&nodes[0]));
	arm_node(0, HOUR);
	CHECK(twheel_node_armed(&nodes[0]));
	CHECK(twheel_node_cancel(&nodes[0]));
	CHECK(!twheel_node_armed(&nodes[0]));
	CHECK(!twheel_node_cancel(&nodes[0]));
	CHECK_EQ(hub->armed, 0);
	arm_node(1, 20 * MS);
	arm_node(2, 10 * MS);
	CHECK(twheel_node_cancel(&nodes[2]));
	dispatch_all();
	CHECK_EQ(nr_all, 1);
	CHECK_EQ(nr_calls[1], 1);
}

static void node_moves_later_and_earlier(void)
{
	__u64 begun = now_ns();

	arm_node(0, 20 * MS);
	arm_node(0, 60 * MS);
	arm_node(1, HOUR);
	arm_node(1, 10 * MS);
	CHECK_EQ(hub->armed, 2);
	while (!nr_calls[1])
		CHECK(twheel_hub_dispatch(hub, patience_ns()) > 0);
	dispatch_all();
	CHECK(now_ns() >= begun + 60 * MS);
	CHECK_EQ(nr_calls[0], 1);
	CHECK_EQ(nr_calls[1], 1);
}

static void fired_node_can_be_cancelled_and_freed(void)
{
	arm_all(0);
	wait_ready(twheel_fd(hub->ctx), NR_NODES);
	for (unsigned int i = 1; i < NR_NODES; i++)
		CHECK(twheel_node_cancel(&nodes[i]));
	memset(&nodes[1], 0x5a, sizeof(nodes) - sizeof(nodes[0]));
	dispatch_all();
	CHECK_EQ(nr_all, 1);
	check_nothing_to_read();
}

static void fired_node_can_be_moved(void)
{
	__u64 begun;

	arm_all(0);
	wait_ready(twheel_fd(hub->ctx), NR_NODES);
	begun = now_ns();
	arm_all(50 * MS);
	dispatch_all();
	CHECK(now_ns() >= begun + 50 * MS);
	CHECK_EQ(nr_all, NR_NODES);
}

static void impossible_time_is_refused_and_changes_nothing(void)
{
	CHECK_EQ(twheel_node_arm(&nodes[0], EXPIRES_MAX + 1), -EINVAL);
	CHECK_EQ(twheel_node_arm_at(&nodes[0], EXPIRES_MAX + 1), -EINVAL);
	CHECK(!twheel_node_armed(&nodes[0]));
	arm_node(0, 10 * MS);
	CHECK_EQ(twheel_node_arm(&nodes[0], UINT64_MAX), -EINVAL);
	dispatch_all();
	CHECK_EQ(nr_all, 1);
	arm_node(0, EXPIRES_MAX);
	CHECK_EQ(twheel_node_arm_at(&nodes[1], EXPIRES_MAX), 0);
	CHECK_EQ(hub->armed, 2);
	CHECK_EQ(twheel_hub_open(NULL, 0x80, &hub), -EINVAL);
}

/* Callbacks */

static void rearm_itself(struct twheel_node *node)
{
	only_called(node);
	if (nr_calls[number_of(node)] < 5)
		CHECK_EQ(twheel_node_arm(node, 5 * MS), 0);
}

static void callback_arms_its_own_node(void)
{
	__u64 begun = now_ns();

	init_nodes(rearm_itself);
	arm_all(5 * MS);
	dispatch_all();
	CHECK(now_ns() >= begun + 25 * MS);
	CHECK_EQ(nr_all, 5 * NR_NODES);
}

static void cancel_others(struct twheel_node *node)
{
	only_called(node);
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK_EQ(twheel_node_cancel(&nodes[i]), &nodes[i] != node);
	memset(nodes, 0x5a, sizeof(nodes));	/* as if they were freed */
}

/* The first call moves all, its own node too. */
static void move_all(struct twheel_node *node)
{
	static __u64 moved_ns;

	only_called(node);
	if (nr_all > 1) {
		CHECK(now_ns() >= moved_ns + 50 * MS);
		return;
	}
	moved_ns = now_ns();
	arm_all(50 * MS);
}

static void break_off(struct twheel_node *node)
{
	only_called(node);
	twheel_hub_break(hub);
}

static void break_leaves_the_rest_for_the_next_dispatch(void)
{
	twheel_hub_break(hub);
	init_nodes(break_off);
	arm_all(0);
	for (unsigned int i = 0; i < NR_NODES; i++) {
		dispatch_once(NR_NODES - i);
		CHECK_EQ(nr_all, i + 1);
		CHECK_EQ(hub->armed, NR_NODES - i - 1);
	}
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK_EQ(nr_calls[i], 1);
	check_nothing_to_read();
}

static void hub_may_be_closed_after_a_break(void)
{
	init_nodes(break_off);
	arm_all(0);
	dispatch_once(NR_NODES);
	close_hub();
	CHECK_EQ(nr_all, 1);
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK(!twheel_node_armed(&nodes[i]));
}

/* The node that is armed in the first callback is called before the other one. */
static void dispatch_inside(struct twheel_node *node)
{
	only_called(node);
	if (nr_all > 1)
		return;
	twheel_hub_break(hub);
	arm_node(2, 0);
	wait_ready(twheel_fd(hub->ctx), 1);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_NO_WAIT), 1);
	CHECK_EQ(nr_all, 2);
	CHECK(!twheel_node_armed(&nodes[2]));
}

/* The inner dispatch has two more nodes, and ends after one of them. */
static void break_inside(struct twheel_node *node)
{
	only_called(node);
	if (nr_all > 1)
		return;
	for (unsigned int i = 2; i < 4; i++) {
		nodes[i].fn = break_off;
		arm_node(i, 0);
	}
	dispatch_once(2);
	CHECK_EQ(nr_all, 2);
}

static struct twheel_hub *other_hub;

static void break_other(struct twheel_node *node)
{
	only_called(node);
	twheel_hub_break(other_hub);
}

static void wait_inside(struct twheel_node *node)
{
	only_called(node);
	if (nr_all == 1)
		CHECK_EQ(twheel_hub_dispatch(hub, 20000 * MS), 1);
	CHECK_EQ(nr_all, 2);
}

/* The clock goes back after the events were read. */
static void step_back_and_break(struct twheel_node *node)
{
	only_called(node);
	set_realtime(-(__s64)HOUR);
	twheel_hub_break(hub);
}

static void step_back_and_wait(struct twheel_node *node)
{
	only_called(node);
	if (nr_all > 1)
		return;
	set_realtime(-(__s64)HOUR);
	CHECK_EQ(twheel_hub_dispatch(hub, patience_ns()), 1);
	CHECK_EQ(nr_all, 2);
}

static void callback_may_step_the_clock_back(void)
{
	static const struct {
		const char *name;
		void (*fn)(struct twheel_node *node);
		unsigned int calls;
	} rows[] = {
		{ "break", step_back_and_break, 1 },
		{ "wait", step_back_and_wait, 2 },
	};

	need_realtime();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ktap_note("%s", rows[i].name);
		nr_all = 0;
		open_with(setup_clock(CLOCK_REALTIME));
		init_nodes(rows[i].fn);
		for (unsigned int n = 0; n < 2; n++)
			CHECK_EQ(twheel_node_arm_at(&nodes[n], twheel_hub_now(hub)), 0);
		dispatch_once(2);
		CHECK_EQ(nr_all, rows[i].calls);
		dispatch_once(2 - rows[i].calls);
		CHECK_EQ(nr_all, 2);
		set_realtime(0);
	}
}

/* Places in memory */

static struct twheel_node moved;

static void moved_called(struct twheel_node *node)
{
	CHECK(node == &moved);
	nr_all++;
}

static void relocate(unsigned int number)
{
	nodes[number].fn = moved_called;
	twheel_node_relocate(&moved, &nodes[number]);
	CHECK(!twheel_node_armed(&nodes[number]));
	CHECK(twheel_node_armed(&moved));
	memset(&nodes[number], 0x5a, sizeof(nodes[number]));
}

static void armed_node_can_be_relocated(void)
{
	arm_node(0, 10 * MS);
	relocate(0);
	CHECK_EQ(hub->armed, 1);
	dispatch_all();
	CHECK_EQ(nr_all, 1);
}

/* The node itself has been called, the other one has not. */
static void relocate_another(struct twheel_node *node)
{
	only_called(node);
	if (nr_all == 1)
		relocate(number_of(node) ? 0 : 1);
}

static void read_until_the_end(void)
{
	int ret;

	do
		ret = twheel_hub_dispatch(hub, patience_ns());
	while (ret > 0);
	CHECK_EQ(ret, -ESHUTDOWN);
	CHECK_EQ(hub->armed, 0);
}

static void stop_and_rearm(struct twheel_node *node)
{
	only_called(node);
	if (nr_all > 1)
		return;
	CHECK_EQ(twheel_stop(hub->ctx), 0);
	CHECK_EQ(twheel_node_arm(node, 0), -ESHUTDOWN);
	CHECK(!twheel_node_armed(node));
}

static void stop_and_wait(struct twheel_node *node)
{
	only_called(node);
	CHECK_EQ(twheel_stop(hub->ctx), 0);
	read_until_the_end();
}

static void stop_and_break(struct twheel_node *node)
{
	CHECK_EQ(twheel_stop(hub->ctx), 0);
	break_off(node);
}

/* The list of due nodes is on the stack, which the child has, too. It runs the rest of the test. */
static void fork_and_wait(struct twheel_node *node)
{
	pid_t pid;

	only_called(node);
	if (nr_all > 1)
		return;
	pid = fork_child();
	if (pid) {
		join_child(pid);
		_exit(0);
	}
	CHECK_EQ(twheel_hub_dispatch(hub, 20000 * MS), 1);
	CHECK_EQ(nr_all, 2);
}

/**
 * struct in_dispatch - what callbacks do while other nodes of their dispatch wait
 * @name: what they do
 * @fn: the callback of all nodes
 * @due: number of nodes that are due in the dispatch
 * @calls: number of calls until the dispatch ends
 * @armed: number of nodes that are armed then
 * @later: number of calls in later dispatches
 * @stops: a callback stops the context
 */
struct in_dispatch {
	const char	*name;
	void		(*fn)(struct twheel_node *node);
	unsigned int	due;
	unsigned int	calls;
	unsigned int	armed;
	unsigned int	later;
	bool		stops;
};

static void check_in_dispatch(const struct in_dispatch *row)
{
	ktap_note("%s", row->name);
	renew_hub(row->fn);
	for (unsigned int i = 0; i < row->due; i++)
		arm_node(i, 0);
	dispatch_once(row->due);
	CHECK_EQ(nr_all, row->calls);
	CHECK_EQ(hub->armed, row->armed);
	if (row->stops) {
		read_until_the_end();
	} else {
		dispatch_all();
		check_nothing_to_read();
	}
	CHECK_EQ(nr_all, row->calls + row->later);
}

static void callback_may_change_the_rest_of_its_dispatch(void)
{
	static const struct in_dispatch rows[] = {
		{ "cancel and free", cancel_others, NR_NODES, 1, 0, 0, false },
		{ "move", move_all, NR_NODES, 1, NR_NODES, NR_NODES, false },
		{ "relocate", relocate_another, 2, 2, 0, 0, false },
		{ "dispatch and break", dispatch_inside, 2, 2, 1, 1, false },
		{ "break the dispatch inside", break_inside, 2, 3, 1, 1, false },
		{ "break another hub", break_other, NR_NODES, NR_NODES, 0, 0, false },
		{ "wait for another node", wait_inside, 2, 2, 0, 0, false },
		{ "stop", stop_and_rearm, 2, 2, 0, 0, true },
		{ "stop and wait", stop_and_wait, NR_NODES, 1, 0, 0, true },
		{ "stop and break", stop_and_break, NR_NODES, 1, 0, 0, true },
		{ "fork", fork_and_wait, 2, 2, 0, 0, false },
	};

	CHECK_EQ(twheel_hub_open(NULL, flags, &other_hub), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_in_dispatch(&rows[i]);
	twheel_hub_close(other_hub);
}

/* Cells */

static void hub_grows_beyond_its_first_cells(void)
{
	const unsigned int nr = scaled(10000);
	struct twheel_node *many = calloc(nr, sizeof(*many));

	for (unsigned int i = 0; i < nr; i++) {
		twheel_node_init(&many[i], hub, only_called);
		CHECK_EQ(twheel_node_arm(&many[i], HOUR), 0);
	}
	CHECK_EQ(hub->armed, nr);
	CHECK(live() >= nr);
	CHECK(live() < nr + 64);
	for (unsigned int i = 0; i < nr; i++)
		CHECK(twheel_node_cancel(&many[i]));
	CHECK_EQ(hub->armed, 0);
	close_hub();
	free(many);
}

/* All cells are spare, and have another delay than the node that is armed then. */
static unsigned int made_beside_spares(unsigned int nr)
{
	struct twheel_node many[200];
	unsigned int made;

	CHECK(nr <= ARRAY_SIZE(many));
	renew_hub(only_called);
	CHECK_EQ(twheel_hub_reserve(hub, nr), 0);
	for (unsigned int i = 0; i < nr; i++) {
		twheel_node_init(&many[i], hub, only_called);
		CHECK_EQ(twheel_node_arm(&many[i], HOUR), 0);
	}
	for (unsigned int i = 0; i < nr; i++)
		CHECK(twheel_node_cancel(&many[i]));
	CHECK_EQ(twheel_node_arm(&many[0], 30 * NSEC_PER_SEC), 0);
	made = live() - nr;
	close_hub();
	return made;
}

static void hub_makes_no_cells_while_many_are_spare(void)
{
	CHECK_EQ(made_beside_spares(8), 8);
	CHECK_EQ(made_beside_spares(128), 64);
	CHECK_EQ(made_beside_spares(130), 0);
}

/* The cell of a node goes back to the list of its last delay. */
static void moved_and_cancelled_nodes_share_cells(void)
{
	for (int i = 0; i < 1000; i++) {
		arm_node(0, 5 * TWHEEL_SEC);
		arm_node(0, 60 * TWHEEL_SEC);
		CHECK(twheel_node_cancel(&nodes[0]));
	}
	CHECK(live() <= 256);
}

static void limit_is_reported_and_changes_nothing(void)
{
	open_limited(NR_NODES - 2);
	for (unsigned int i = 0; i < NR_NODES - 2; i++)
		arm_node(i, 10 * MS << i);
	CHECK_EQ(live(), NR_NODES - 2);
	for (unsigned int i = NR_NODES - 2; i < NR_NODES; i++) {
		CHECK_EQ(twheel_node_arm(&nodes[i], 0), -EAGAIN);
		CHECK(!twheel_node_armed(&nodes[i]));
	}
	CHECK_EQ(hub->armed, NR_NODES - 2);
	arm_node(0, HOUR);
	CHECK(twheel_node_cancel(&nodes[0]));
	arm_node(NR_NODES - 1, 0);
	dispatch_all();
	CHECK_EQ(nr_all, NR_NODES - 2);
	CHECK_EQ(nr_calls[NR_NODES - 1], 1);
}

/* With cells, or a reserve, no arm can fail, whatever its delay. */
static void reserved_cells_serve_any_delay(void)
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

/* At the limit, a callback takes the cell of the node that is to come again. */
static void take_its_cell(struct twheel_node *node)
{
	only_called(node);
	if (nr_all > 1)
		return;
	arm_node(2, HOUR);
	arm_node(3, HOUR);
	twheel_hub_break(hub);
}

static void break_calls_what_it_has_no_cell_for(void)
{
	open_limited(2);
	nodes[0].fn = take_its_cell;
	nodes[1].fn = take_its_cell;
	arm_node(0, 0);
	arm_node(1, 0);
	dispatch_once(2);
	CHECK_EQ(nr_calls[0], 1);
	CHECK_EQ(nr_calls[1], 1);
	CHECK_EQ(hub->armed, 2);
	CHECK(twheel_node_cancel(&nodes[2]));
	CHECK(twheel_node_cancel(&nodes[3]));
}

/* Two delays by turns: the kernel is called the first time only. */
static void arm_and_cancel_make_no_system_call(void)
{
	struct twheel_stats before, after;

	for (unsigned int i = 0; i < 1000; i++) {
		if (i == 1)
			before = stats();
		arm_node(0, 30 * NSEC_PER_SEC);
		arm_node(1, HOUR);
		arm_node(0, 31 * NSEC_PER_SEC);
		CHECK(twheel_node_cancel(&nodes[0]));
		CHECK(twheel_node_cancel(&nodes[1]));
	}
	after = stats();
	CHECK_EQ(after.kicks, before.kicks);
	CHECK_EQ(after.armed, before.armed);
	CHECK_EQ(after.moved, before.moved);
	CHECK_EQ(after.cancelled, before.cancelled);
}

/* Hubs */

static int watched;
static unsigned int nr_watches;

static void note_watch(void *data, bool on)
{
	CHECK(data == &watched);
	CHECK(watched != on);
	watched = on;
	nr_watches++;
}

static void watch_follows_the_nodes(void)
{
	twheel_hub_watch(hub, note_watch, &watched);
	init_nodes(rearm_itself);
	arm_node(0, HOUR);
	arm_node(1, HOUR);
	CHECK(watched);
	CHECK(twheel_node_cancel(&nodes[0]));
	CHECK(watched);
	CHECK(twheel_node_cancel(&nodes[1]));
	CHECK(!watched);
	CHECK_EQ(nr_watches, 2);
	arm_node(0, 0);
	dispatch_all();
	CHECK(!watched);
	CHECK_EQ(nr_watches, 4);	/* arming itself again is no change */
	arm_node(0, HOUR);
	close_hub();
	CHECK(!watched);
	CHECK_EQ(nr_watches, 6);
}

/* As by a program that frees its objects at the end. */
static void nodes_may_be_cancelled_after_the_hub_was_closed(void)
{
	arm_node(0, HOUR);
	arm_node(1, HOUR);
	CHECK(twheel_node_cancel(&nodes[1]));
	close_hub();
	for (unsigned int i = 0; i < NR_NODES; i++) {
		CHECK(!twheel_node_armed(&nodes[i]));
		CHECK(!twheel_node_cancel(&nodes[i]));
	}
	twheel_hub_close(NULL);
}

static void dispatch_waits_as_long_as_it_is_told(void)
{
	__u64 begun = now_ns();

	arm_node(0, HOUR);
	CHECK_EQ(twheel_hub_dispatch(hub, 30 * MS), 0);
	CHECK(now_ns() >= begun + 30 * MS);
	CHECK(now_ns() < begun + patience_ns());
}

static void stopped_hub_calls_nothing_and_refuses_to_arm(void)
{
	arm_all(HOUR);
	CHECK(twheel_node_cancel(&nodes[0]));
	CHECK_EQ(twheel_stop(hub->ctx), 0);
	CHECK(twheel_node_cancel(&nodes[1]));
	CHECK_EQ(twheel_node_arm(&nodes[2], 0), -ESHUTDOWN);
	CHECK(!twheel_node_armed(&nodes[2]));
	read_until_the_end();
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), -ESHUTDOWN);
	CHECK_EQ(nr_all, 0);
	for (unsigned int i = 0; i < NR_NODES; i++) {
		CHECK(!twheel_node_armed(&nodes[i]));
		CHECK_EQ(twheel_node_arm(&nodes[i], HOUR), -ESHUTDOWN);
	}
}

/* Half of them are due, and half were moved after their timeouts had fired. */
static void stopped_hub_drops_nodes_whose_events_are_unread(void)
{
	arm_all(0);
	wait_ready(twheel_fd(hub->ctx), NR_NODES);
	for (unsigned int i = 0; i < NR_NODES; i += 2)
		arm_node(i, HOUR);
	CHECK_EQ(twheel_stop(hub->ctx), 0);
	read_until_the_end();
	CHECK_EQ(nr_all, 0);
	for (unsigned int i = 0; i < NR_NODES; i++)
		CHECK(!twheel_node_armed(&nodes[i]));
}

static void close_in_one_process(bool child_goes_on)
{
	pid_t pid;

	ktap_note("%s goes on", child_goes_on ? "the child" : "the parent");
	renew_hub(only_called);
	arm_all(50 * MS);
	pid = fork_child();
	if (child_goes_on == !pid) {
		if (pid)
			join_child(pid);
		dispatch_all();
		CHECK_EQ(nr_all, NR_NODES);
		if (!pid)
			_exit(0);
	} else {
		close_hub();
		CHECK_EQ(nr_all, 0);
		if (!pid)
			_exit(0);
		join_child(pid);
	}
}

static void one_process_closes_the_hub_and_the_other_goes_on(void)
{
	close_in_one_process(false);
	close_in_one_process(true);
}

static void ignore_signal(int signal)
{
	(void)signal;
}

static void signal_ends_a_dispatch_that_waits(void)
{
	const struct sigaction action = { .sa_handler = ignore_signal };
	timer_t timer;
	struct itimerspec soon = {
		.it_value.tv_nsec = 10 * MS,
		.it_interval.tv_nsec = 10 * MS,
	};

	arm_node(0, HOUR);
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &soon, NULL), 0);
	CHECK_EQ(twheel_hub_dispatch(hub, TWHEEL_FOREVER), -EINTR);
	CHECK_EQ(timer_delete(timer), 0);
	CHECK_EQ(hub->armed, 1);
	arm_node(0, 0);
	dispatch_all();
	CHECK_EQ(nr_all, 1);
}

#define NR_THREADS	4

/* Of a thread that has its own hub. */
struct beat {
	struct twheel_node node;
	unsigned int nr;
};

static void beat_called(struct twheel_node *node)
{
	if (++twheel_entry(node, struct beat, node)->nr < 5)
		CHECK_EQ(twheel_node_arm(node, MS), 0);
}

static void *run_own_hub(void *unused)
{
	struct beat beats[100] = {};
	struct twheel_hub *own;

	CHECK_EQ(twheel_hub_open(NULL, flags, &own), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(beats); i++) {
		twheel_node_init(&beats[i].node, own, beat_called);
		CHECK_EQ(twheel_node_arm(&beats[i].node, i * 100 * NSEC_PER_USEC), 0);
	}
	while (own->armed)
		CHECK(twheel_hub_dispatch(own, patience_ns()) > 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(beats); i++)
		CHECK_EQ(beats[i].nr, 5);
	twheel_hub_close(own);
	return unused;
}

static void run_threads(void *(*run)(void *unused))
{
	pthread_t threads[NR_THREADS];

	for (unsigned int i = 0; i < NR_THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run, NULL), 0);
	for (unsigned int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void each_thread_has_a_hub_of_its_own(void)
{
	run_threads(run_own_hub);
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
static unsigned int sorted[MODEL_NODES], nr_sorted;
static __u64 seed;
static unsigned int nr_operations, wanted, depth, nr_cancels, nr_moves, nr_forks;
static __u64 latest_ns;
static bool in_threads;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void model_remove(unsigned int number)
{
	unsigned int at = 0;

	while (sorted[at] != number)
		at++;
	memmove(&sorted[at], &sorted[at + 1], (--nr_sorted - at) * sizeof(sorted[0]));
	deadlines[number] = NEVER;
}

static void model_arm(unsigned int number, __u64 deadline)
{
	unsigned int at;

	if (deadlines[number] != NEVER)
		model_remove(number);
	deadlines[number] = deadline;
	for (at = nr_sorted++; at && deadlines[sorted[at - 1]] > deadline; at--)
		sorted[at] = sorted[at - 1];
	sorted[at] = number;
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
	model_arm(number, now + delay);
}

static void random_cancel(unsigned int number)
{
	bool armed = deadlines[number] != NEVER;

	CHECK_EQ(twheel_node_cancel(&objects[number]->node), armed);
	if (armed)
		model_remove(number);
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

static void check_overdue(void)
{
	__u64 now = now_ns();

	if (nr_sorted && now > deadlines[sorted[0]] + patience_ns())
		ktap_fail("node %u is overdue", sorted[0]);
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
		armed += hubs[i]->armed;
		if (!depth)
			CHECK_EQ(watched_hubs[i], hubs[i]->armed != 0);
	}
	CHECK_EQ(armed, nr_sorted);
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
		twheel_hub_break(random_hub());
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
	model_remove(number);
	CHECK(!twheel_node_armed(node));
	nr_all++;
	depth++;
	check_hubs();
	for (unsigned int i = random_below(&seed, 4); i--;)
		random_operation(random_below(&seed, 4) ? random_number() : number);
	depth--;
}

static void close_hubs(void)
{
	for (unsigned int i = 0; i < MODEL_HUBS; i++)
		twheel_hub_close(hubs[i]);
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
	__u64 end = now_ns() + patience_ns();
	bool over = false;

	while (!over) {
		pthread_mutex_lock(&one_at_a_time);
		for (unsigned int i = 0; i < 20; i++)
			random_operation(random_number());
		random_dispatch();
		check_hubs();
		if (nr_forks < MODEL_FORKS && !random_below(&seed, 10))
			random_fork();
		over = nr_operations >= wanted || (nr_all >= 2000 && now_ns() >= end);
		pthread_mutex_unlock(&one_at_a_time);
	}
	return unused;
}

/* Then only those are left that are an hour away. */
static void drain(void)
{
	while (nr_sorted && deadlines[sorted[0]] < now_ns() + HOUR / 2) {
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
	CHECK_EQ(twheel_stop(hubs[1]->ctx), 0);
	for (unsigned int i = 1; i < MODEL_NODES; i += 2) {
		if (random_below(&seed, 2))
			random_relocate(i);
		if (random_below(&seed, 4))
			model_remove(i);
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
	wanted = scaled(nr);
	open_hubs();
}

static void end_random(void)
{
	depth = 3;	/* callbacks do not dispatch any more */
	drain();
	ktap_note("%u operations: %u moves, %u cancels, %u calls, %u forks, %llu us late at most",
		  nr_operations, nr_moves, nr_cancels, nr_all, nr_forks,
		  (unsigned long long)latest_ns / NSEC_PER_USEC);
	CHECK(nr_moves > 100 && nr_cancels > 100 && nr_all > 100 && nr_forks);
	depth = 0;
	random_stop();
	close_hubs();
	for (unsigned int i = 0; i < MODEL_NODES; i++) {
		CHECK(!twheel_node_cancel(&objects[i]->node));
		free_object(i);
	}
}

static void random_operations_agree_with_a_sorted_list(void)
{
	begin_random(100000);
	random_rounds(NULL);
	end_random();
}

static void random_operations_of_threads_agree_with_a_sorted_list(void)
{
	in_threads = true;
	begin_random(50000);
	run_threads(random_rounds);
	end_random();
}

/* The clock is read before and after, because it is a system call on some machines. */
static __u64 time_arms(__u64 at, unsigned int nr, bool cancel)
{
	__u64 begun = now_ns();

	for (unsigned int i = 0; i < nr; i++) {
		CHECK_EQ(twheel_node_arm_at(&nodes[0], at + i), 0);
		if (cancel)
			twheel_node_cancel(&nodes[0]);
	}
	return now_ns() - begun;
}

/* The fastest of some rounds: other work on the machine makes the others slower. */
static double cost(unsigned int nr, bool cancel)
{
	__u64 at = twheel_hub_now(hub) + 30 * NSEC_PER_SEC, least = UINT64_MAX;

	for (unsigned int round = 0; round < 10; round++) {
		__u64 took = time_arms(at, nr, cancel);

		if (took < least)
			least = took;
	}
	return (double)least / nr;
}

static void costs_need_no_system_call(void)
{
	const unsigned int nr = scaled(200000);
	struct twheel_stats before, after;

	before = stats();
	ktap_note("arm_at and cancel: %.1f ns", cost(nr, true));
	ktap_note("move: %.1f ns", cost(nr, false));
	after = stats();
	CHECK(after.kicks - before.kicks + after.moved - before.moved < nr / 100);
}

static void run_with(unsigned int hub_flags, void (*test)(void))
{
	flags = hub_flags;
	open_hub();
	init_nodes(only_called);
	test();
	close_hub();
}

/* Each of them with cells, and with ordinary timeouts. */
#define MODES(test)								\
	TEST(test##_with_cells)					\
	{									\
		run_with(0, test);						\
	}									\
	TEST(test##_with_timeouts)					\
	{									\
		run_with(TWHEEL_HUB_NO_CELLS, test);				\
	}
#define ALL(each)									\
	each(node_is_called_once_and_not_early)					\
	each(node_can_be_armed_for_a_point_in_time)				\
	each(cancelled_node_is_not_called)					\
	each(node_moves_later_and_earlier)					\
	each(fired_node_can_be_cancelled_and_freed)				\
	each(fired_node_can_be_moved)						\
	each(impossible_time_is_refused_and_changes_nothing)			\
	each(callback_arms_its_own_node)						\
	each(callback_may_change_the_rest_of_its_dispatch)			\
	each(break_leaves_the_rest_for_the_next_dispatch)				\
	each(hub_may_be_closed_after_a_break)					\
	each(callback_may_step_the_clock_back)				\
	each(armed_node_can_be_relocated)						\
	each(hub_grows_beyond_its_first_cells)					\
	each(hub_makes_no_cells_while_many_are_spare)				\
	each(moved_and_cancelled_nodes_share_cells)				\
	each(limit_is_reported_and_changes_nothing)				\
	each(reserved_cells_serve_any_delay)					\
	each(break_calls_what_it_has_no_cell_for)					\
	each(arm_and_cancel_make_no_system_call)					\
	each(watch_follows_the_nodes)						\
	each(nodes_may_be_cancelled_after_the_hub_was_closed)			\
	each(dispatch_waits_as_long_as_it_is_told)				\
	each(stopped_hub_calls_nothing_and_refuses_to_arm)			\
	each(stopped_hub_drops_nodes_whose_events_are_unread)			\
	each(one_process_closes_the_hub_and_the_other_goes_on)				\
	each(signal_ends_a_dispatch_that_waits)					\
	each(each_thread_has_a_hub_of_its_own)					\
	each(random_operations_agree_with_a_sorted_list)				\
	each(random_operations_of_threads_agree_with_a_sorted_list)		\
	each(costs_need_no_system_call)

ALL(MODES)
