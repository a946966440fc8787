// SPDX-License-Identifier: GPL-2.0
/*
 * The library on the device: its additions to the system calls. The behaviour that it only
 * passes on is tested without it.
 */
#define KTAP_NO_MAIN
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "device.h"
#include "libtwheel.h"
#include "signals.h"

/* The context of a test. It is closed at the end, so that leaks are the library's. */
static struct twheel_ctx *ctx;

static void open_context(void)
{
	CHECK_EQ(twheel_open(NULL, 0, &ctx), 0);
}

static void close_context(void)
{
	twheel_close(ctx);
}

static void renew_context(void)
{
	close_context();
	open_context();
}

static uint64_t ns_from_now(uint64_t ns)
{
	uint64_t now;

	CHECK_EQ(twheel_now(ctx, &now), 0);
	return now + ns;
}

static uint64_t remaining(uint64_t id)
{
	struct twheel_op op;

	CHECK_EQ(twheel_get(ctx, id, &op), 0);
	return op.expires_ns;
}

static struct twheel_stats stats(void)
{
	struct twheel_stats stats;

	CHECK_EQ(twheel_get_stats(ctx, &stats), 0);
	return stats;
}

static uint32_t live(void)
{
	struct twheel_info info;

	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	return info.live;
}

/* Cells */

/* A cell with the arguments of the library's functions. */
struct cell {
	struct twheel_ctx	*ctx;
	struct twheel_cell	*at;
	uint64_t		id;
};

static struct cell create(uint64_t cookie)
{
	struct cell cell = { .ctx = ctx };
	int ret = twheel_cell_create(ctx, cookie, &cell.id, &cell.at);

	if (ret == -EOPNOTSUPP)
		ktap_skip("no cells");
	CHECK_EQ(ret, 0);
	CHECK(cell.id >> 32);
	return cell;
}

static int arm_cell(struct cell cell, uint64_t when)
{
	return twheel_cell_arm(cell.ctx, cell.at, cell.id, when);
}

static int arm_in(struct cell cell, uint64_t ns)
{
	return arm_cell(cell, ns_from_now(ns));
}

static uint64_t word(struct cell cell)
{
	return __atomic_load_n(&cell.at->word, __ATOMIC_SEQ_CST);
}

static bool is_armed(struct cell cell)
{
	return word(cell) <= INT64_MAX;
}

/* The first half of twheel_cell_arm(). */
static void exchange(struct cell cell, uint64_t when)
{
	__atomic_exchange_n(&cell.at->word, when, __ATOMIC_SEQ_CST);
}

static void wait_fired(struct cell cell)
{
	CHECK_EQ(twheel_wait(cell.ctx, time_limit_ns()), 1);
	CHECK_EQ(word(cell), TWHEEL_CELL_FIRED);
}

/* Read the next event. */
static struct twheel_event read_one(void)
{
	struct twheel_event event;

	CHECK_EQ(twheel_read(ctx, &event, 1, time_limit_ns()), 1);
	return event;
}

/* There is no unread event. */
static void check_nothing_to_read(void)
{
	struct twheel_event event;

	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_NO_WAIT), -EAGAIN);
}

/* A state of a cell, and the results of the library's functions in it. */
static const struct state {
	const char	*name;
	uint64_t	when;			/* deadline, or TWHEEL_CELL_IDLE */
	bool		fires, is_read;		/* its event comes, and is read */
	int		outcome;		/* of arm, cancel, MOD and CANCEL */
	int		cancel_at;		/* of twheel_cell_cancel_at() */
} states[] = {
	{ "idle", TWHEEL_CELL_IDLE, false, false, TWHEEL_IDLE, -ENOENT },
	{ "armed", HOUR, false, false, 0, 0 },
	{ "fired", 5, true, false, TWHEEL_WITHDRAWN, -ENOENT },
	{ "event read", 5, true, true, TWHEEL_IDLE, -ENOENT },
};

/* Returns the deadline. */
static uint64_t enter_state(struct cell cell, const struct state *state)
{
	uint64_t when = state->when == HOUR ? ns_from_now(HOUR) : state->when;

	twheel_cell_cancel(cell.at);
	check_nothing_to_read();
	if (when == TWHEEL_CELL_IDLE)
		return when;
	CHECK_EQ(arm_cell(cell, when), TWHEEL_IDLE);
	if (state->is_read)
		CHECK_EQ(read_one().expires_ns, when);
	else if (state->fires)
		wait_fired(cell);
	return when;
}

static void check_state(const struct state *state)
{
	struct cell cell = create(7);
	uint64_t when;

	enter_state(cell, state);
	CHECK_EQ(arm_in(cell, 2 * HOUR), state->outcome);
	CHECK_EQ(arm_in(cell, HOUR), 0);
	CHECK(remaining(cell.id) > HOUR / 2);

	enter_state(cell, state);
	CHECK_EQ(twheel_cell_cancel(cell.at), state->outcome);
	CHECK_EQ(twheel_cell_cancel(cell.at), TWHEEL_IDLE);
	CHECK_EQ(live(), 1);

	/* The event of what has fired stays. */
	when = enter_state(cell, state);
	CHECK_EQ(twheel_cell_cancel_at(cell.at, when - 1), -ENOENT);
	if (when != TWHEEL_CELL_IDLE)
		CHECK_EQ(twheel_cell_cancel_at(cell.at, when), state->cancel_at);
	if (state->fires && !state->is_read) {
		CHECK_EQ(twheel_cell_cancel_at(cell.at, TWHEEL_CELL_IDLE), -ENOENT);
		CHECK_EQ(read_one().expires_ns, when);
	}

	enter_state(cell, state);
	CHECK_EQ(twheel_mod(ctx, cell.id, HOUR, TWHEEL_F_CELL, 9), state->outcome);
	CHECK_EQ(twheel_mod(ctx, cell.id, 0, TWHEEL_F_CELL, 10), 0);
	CHECK_EQ(read_one().cookie, 10);

	enter_state(cell, state);
	CHECK_EQ(twheel_cancel(ctx, cell.id), state->outcome);
	CHECK_EQ(live(), 0);
}

TEST(arm_without_an_id_makes_an_event)
{
	CHECK_EQ(twheel_arm(ctx, 0, 0, 7, NULL), 0);
	CHECK_EQ(read_one().cookie, 7);
	check_nothing_to_read();
}

TEST(calls_tell_the_state_of_a_cell)
{
	for_each_row(state, states) {
		renew_context();
		check_state(state);
	}
}

TEST(deadline_above_int64_max_changes_nothing)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct cell cell = create(7);
	uint64_t when = ns_from_now(HOUR);

	CHECK_EQ(arm_cell(cell, when), TWHEEL_IDLE);
	CHECK_EQ(arm_cell(cell, (uint64_t)INT64_MAX + 1), -EINVAL);
	CHECK_EQ(arm_cell(cell, TWHEEL_CELL_FIRED), -EINVAL);
	CHECK_EQ(arm_cell(cell, TWHEEL_CELL_IDLE), -EINVAL);
	CHECK_EQ(twheel_cell_arm_later(&kicks, cell.at, cell.id, (uint64_t)INT64_MAX + 1), -EINVAL);
	CHECK_EQ(word(cell), when);
	CHECK_EQ(kicks.nr, 0);
	CHECK_EQ(arm_cell(cell, INT64_MAX), 0);
	CHECK_EQ(word(cell), INT64_MAX);
}

TEST(outcome_of_any_word)
{
	static const struct {
		uint64_t	word;
		int		outcome;
	} rows[] = {
		{ 0, 0 },
		{ INT64_MAX, 0 },
		{ (uint64_t)INT64_MAX + 1, TWHEEL_IDLE },
		{ TWHEEL_CELL_FIRED - 1, TWHEEL_IDLE },
		{ TWHEEL_CELL_FIRED, TWHEEL_WITHDRAWN },
		{ TWHEEL_CELL_IDLE, TWHEEL_IDLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_EQ(twheel_cell_outcome(rows[i].word), rows[i].outcome);
}

TEST(move_is_kicked_only_before_the_look)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct cell cell = create(7);
	uint64_t when = ns_from_now(HOUR);

	CHECK_EQ(arm_cell(cell, when), TWHEEL_IDLE);
	CHECK_EQ(stats().kicks, 1);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(arm_cell(cell, when + i), 0);
	CHECK_EQ(twheel_cell_cancel(cell.at), 0);
	CHECK_EQ(arm_cell(cell, when), TWHEEL_IDLE);
	CHECK_EQ(stats().kicks, 1);

	CHECK_EQ(arm_cell(cell, when - 1), 0);
	CHECK_EQ(stats().kicks, 2);
	CHECK_EQ(twheel_cell_arm_later(&kicks, cell.at, cell.id, when - 1), 0);
	CHECK_EQ(kicks.nr, 0);
	CHECK_EQ(twheel_cell_arm_later(&kicks, cell.at, cell.id, when - 2), 0);
	CHECK_EQ(kicks.nr, 1);

	when = ns_from_now(5 * NSEC_PER_MSEC);
	CHECK_EQ(arm_cell(cell, when), 0);
	CHECK_EQ(read_one().expires_ns, when);
	CHECK_EQ(stats().kicks, 3);
}

/* By its function, by an operation, and by a submit. */
TEST(kick_by_hand_arms)
{
	struct cell cell = create(7);
	struct twheel_op op;

	exchange(cell, 1);
	check_nothing_to_read();
	CHECK_EQ(twheel_cell_kick(ctx, cell.at, cell.id, 1), 0);
	CHECK_EQ(read_one().expires_ns, 1);
	twheel_prep_kick(&op, cell.id);
	exchange(cell, 2);
	CHECK_EQ(twheel_operate(ctx, &op), 0);
	CHECK_EQ(read_one().expires_ns, 2);
	exchange(cell, 3);
	CHECK_EQ(twheel_submit_ops(ctx, &op, 1), 1);
	CHECK_EQ(op.result, 0);
	CHECK_EQ(read_one().expires_ns, 3);
}

TEST(arm_that_the_kernel_refuses_leaves_the_cell_idle)
{
	struct cell cell = create(7), other = cell;
	uint64_t id;

	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 0, &id), 0);
	other.id = id;
	CHECK_EQ(arm_in(other, HOUR), -EINVAL);
	CHECK(!is_armed(cell));
	CHECK_EQ(arm_in(cell, 2 * HOUR), TWHEEL_IDLE);
	other.id = cell.id + (UINT64_C(1) << 32);
	CHECK_EQ(arm_in(other, HOUR), -ENOENT);
	CHECK(!is_armed(cell));
	CHECK_EQ(twheel_cancel(ctx, cell.id), TWHEEL_IDLE);
	errno = 77;
	CHECK_EQ(arm_cell(cell, HOUR), -ENOENT);
	CHECK_EQ(errno, 77);
	CHECK(!is_armed(cell));
}

/* Another call has changed the word, so the arming was in effect until then. */
TEST(kick_that_fails_after_a_change_has_succeeded)
{
	struct cell cell = create(7);
	uint64_t when = ns_from_now(HOUR);

	CHECK_EQ(twheel_cancel(ctx, cell.id), TWHEEL_IDLE);
	exchange(cell, when);
	CHECK_EQ(twheel_cell_kick(ctx, cell.at, cell.id, when + 1), 0);
	CHECK_EQ(word(cell), when);
	CHECK_EQ(twheel_cell_kick(ctx, cell.at, cell.id, when), -ENOENT);
	CHECK(!is_armed(cell));
}

static void *query_thread(void *over)
{
	struct twheel_op ops[1000];

	for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++)
		twheel_prep_get(&ops[i], 1);
	while (!PEEK(*(int *)over))
		CHECK_EQ(twheel_submit_ops(ctx, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	return NULL;
}

/* The next id of that cell, which another thread's call could hide. */
TEST(kick_of_an_id_that_is_not_given_out_fails)
{
	struct cell cell = create(7);
	pthread_t thread;
	int over = 0;

	CHECK_EQ(twheel_cancel(ctx, cell.id), TWHEEL_IDLE);
	cell.id += UINT64_C(1) << 32;
	CHECK_EQ(pthread_create(&thread, NULL, query_thread, &over), 0);
	for (__u64 end = now_ns() + race_duration_ns(200); now_ns() < end;)
		CHECK_EQ(arm_in(cell, HOUR), -ENOENT);
	SET(over, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Batches of kicks */

static int arm_later(struct twheel_kicks *kicks, struct cell cell, uint64_t when)
{
	return twheel_cell_arm_later(kicks, cell.at, cell.id, when);
}

TEST(full_batch_of_kicks_is_one_call)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct cell cells[TWHEEL_MAX_KICKS + 1];

	for (unsigned int i = 0; i < ARRAY_SIZE(cells); i++)
		cells[i] = create(i);
	for (unsigned int i = 0; i < TWHEEL_MAX_KICKS; i++)
		CHECK_EQ(arm_later(&kicks, cells[i], i), TWHEEL_IDLE);
	CHECK_EQ(kicks.nr, TWHEEL_MAX_KICKS);
	CHECK_EQ(arm_later(&kicks, cells[TWHEEL_MAX_KICKS], 1), -EAGAIN);
	CHECK(!is_armed(cells[TWHEEL_MAX_KICKS]));
	CHECK_EQ(stats().kicks, 0);
	check_nothing_to_read();

	/* On the device, the CPU may change between two groups of kicks, and with it the order. */
	CHECK_EQ(twheel_kick_all(&kicks), 0);
	CHECK_EQ(kicks.nr, 0);
	CHECK_EQ(stats().kicks, TWHEEL_MAX_KICKS);
	for (unsigned int i = 0; i < TWHEEL_MAX_KICKS; i++)
		CHECK_EQ(kicks.kick[i].result, 0);
	for (unsigned int i = 0; i < TWHEEL_MAX_KICKS; i++)
		CHECK(read_one().cookie == i || !is_process_backend());
	check_nothing_to_read();
}

TEST(failed_kicks_of_a_batch_are_undone)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct cell good = create(1), ended = create(2), wrong = create(3);
	struct cell last = create(4);
	uint64_t when = ns_from_now(HOUR), id;

	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 0, &id), 0);
	CHECK_EQ(twheel_cancel(ctx, ended.id), TWHEEL_IDLE);
	CHECK_EQ(arm_later(&kicks, good, when), TWHEEL_IDLE);
	CHECK_EQ(arm_later(&kicks, ended, when), TWHEEL_IDLE);
	CHECK_EQ(twheel_cell_arm_later(&kicks, wrong.at, id, when), TWHEEL_IDLE);
	CHECK_EQ(arm_later(&kicks, last, when), TWHEEL_IDLE);

	CHECK_EQ(twheel_kick_all(&kicks), -ENOENT);
	CHECK_EQ(kicks.kick[0].result, 0);
	CHECK_EQ(kicks.kick[1].result, -ENOENT);
	CHECK_EQ(kicks.kick[2].result, -EINVAL);
	CHECK_EQ(kicks.kick[3].result, 0);
	CHECK_EQ(word(good), when);
	CHECK(!is_armed(ended));
	CHECK(!is_armed(wrong));
	CHECK_EQ(word(last), when);
}

TEST(batch_after_stop_is_undone)
{
	struct twheel_kicks kicks = { .ctx = ctx };
	struct cell cells[3];

	for (unsigned int i = 0; i < ARRAY_SIZE(cells); i++)
		cells[i] = create(i);
	CHECK_EQ(twheel_stop(ctx), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(cells); i++)
		CHECK_EQ(arm_later(&kicks, cells[i], i), TWHEEL_IDLE);
	CHECK_EQ(twheel_kick_all(&kicks), -ESHUTDOWN);
	for (unsigned int i = 0; i < ARRAY_SIZE(cells); i++) {
		CHECK_EQ(kicks.kick[i].result, -ESHUTDOWN);
		CHECK(!is_armed(cells[i]));
	}
	/* An empty batch makes no call. */
	CHECK_EQ(twheel_kick_all(&kicks), 0);
}

/* Its user has exchanged the word, and not called KICK yet. */
TEST(stop_drops_the_event_of_a_cell_that_was_armed_again)
{
	struct cell cell = create(7);
	uint64_t when = ns_from_now(HOUR);
	struct twheel_event event;

	CHECK_EQ(arm_cell(cell, 0), TWHEEL_IDLE);
	wait_fired(cell);
	exchange(cell, when);
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK_EQ(twheel_cell_kick(ctx, cell.at, cell.id, when), -ESHUTDOWN);
	CHECK(!is_armed(cell));
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), 0);
	CHECK_EQ(live(), 0);
}

/* Calls on cells */

TEST(timed_read_ends_although_events_are_withdrawn)
{
	struct cell cell = create(7);
	struct twheel_event event;

	CHECK_EQ(arm_cell(cell, 0), TWHEEL_IDLE);
	wait_fired(cell);
	CHECK_EQ(twheel_cell_cancel(cell.at), TWHEEL_WITHDRAWN);
	/* No call has met the withdrawn event yet. */
	CHECK_EQ(twheel_wait(ctx, TWHEEL_NO_WAIT), 1);
	CHECK_EQ(twheel_read(ctx, &event, 1, 20 * NSEC_PER_MSEC), -ETIMEDOUT);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_NO_WAIT), 0);
}

/* Mappings of cells */

/* Count mappings of the device only: a memory checker makes mappings of its own. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[300];
	int nr = 0;

	skip_without_device();
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		nr += !!strstr(line, "/dev/twheel");
	fclose(file);
	return nr;
}

TEST(cell_is_found_by_its_id)
{
	static const uint64_t wrong[] = { 0, 5, UINT64_MAX, UINT64_C(1) << 32 | UINT32_MAX };
	struct cell first = create(1), second = create(2);
	struct twheel_cell *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK_EQ(twheel_cell_find(ctx, wrong[i], &found), -EINVAL);
	CHECK(!found);
	CHECK_EQ(twheel_cell_find(ctx, first.id, &found), 0);
	CHECK(found == first.at);
	CHECK(first.at != second.at);
	CHECK_EQ((uintptr_t)first.at % sizeof(*first.at), 0);
	CHECK_EQ(arm_in(first, HOUR), TWHEEL_IDLE);
	CHECK(!is_armed(second));
}

static uint64_t id_at(uint64_t index)
{
	return UINT64_C(1) << 32 | index;
}

/* @nr is the first index beyond the mapping. */
static void check_mapped(uint64_t nr)
{
	struct twheel_cell *first, *last;

	skip_without_device();
	CHECK_EQ(twheel_cell_find(ctx, id_at(0), &first), 0);
	CHECK_EQ(twheel_cell_find(ctx, id_at(nr - 1), &last), 0);
	CHECK_EQ(last - first, nr - 1);
	CHECK_EQ(twheel_cell_find(ctx, id_at(nr), &last), -EINVAL);
}

TEST(mapping_has_the_length_that_setup_has_chosen)
{
	static const uint32_t limits[] = { 1, 255, 256, 257, 5000, 3000000 };
	struct twheel_info info;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct twheel_setup setup = { .max_timeouts = limits[i] };

		renew_context();
		CHECK_EQ(twheel_configure(ctx, &setup), 0);
		create(0);
		CHECK_EQ(twheel_get_info(ctx, &info), 0);
		CHECK(info.cells > limits[i]);
		check_mapped(info.cells);
		CHECK_EQ(twheel_configure(ctx, &setup), -EBUSY);
	}
}

/* As every guide for real-time programs asks for. */
TEST(locked_program_has_the_pages_of_its_cells_alone)
{
	struct twheel_setup setup = { .max_timeouts = 100000 };
	struct twheel_info info;

	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		ktap_skip("this user may not lock its memory");
	CHECK_EQ(arm_in(create(7), 0), TWHEEL_IDLE);
	CHECK_EQ(munlockall(), 0);
	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	CHECK(info.user_timeouts < setup.max_timeouts / 20);
	CHECK_EQ(read_one().cookie, 7);
}

TEST(limit_refuses_one_more_cell)
{
	struct twheel_setup setup = { .max_timeouts = 2 };
	struct twheel_cell *at = NULL;
	struct cell cell;
	uint64_t id = 77;

	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	create(1);
	cell = create(2);
	CHECK_EQ(twheel_cell_create(ctx, 3, &id, &at), -EAGAIN);
	CHECK_EQ(id, 77);
	CHECK(!at);
	/* arming an existing cell cannot hit the limit */
	CHECK_EQ(arm_in(cell, HOUR), TWHEEL_IDLE);
	CHECK_EQ(twheel_cancel(ctx, cell.id), 0);
	CHECK_EQ(twheel_cell_create(ctx, 3, &id, &at), 0);
}

TEST(cells_need_a_descriptor_for_both)
{
	static const int modes[] = { O_RDONLY, O_WRONLY };
	struct twheel_cell *at;
	uint64_t id;

	skip_without_device();
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		close_context();
		CHECK_EQ(twheel_open_fd(device_open(modes[i]), &ctx), 0);
		if (twheel_cell_create(ctx, 0, &id, &at) == -EOPNOTSUPP)
			ktap_skip("no cells");
		CHECK_EQ(twheel_cell_create(ctx, 0, &id, &at), -EACCES);
		CHECK_EQ(twheel_cell_find(ctx, id_at(0), &at), -EACCES);
		CHECK_EQ(live(), 0);
	}
}

/* Sharing */

TEST(handles_share_the_cells_of_a_context)
{
	struct cell cell = create(7), same = cell;
	struct twheel_ctx *other;

	skip_without_device();
	CHECK_EQ(twheel_open_fd(twheel_fd(ctx), &other), 0);
	same.ctx = other;
	CHECK_EQ(twheel_cell_find(other, cell.id, &same.at), 0);
	CHECK(same.at != cell.at);
	CHECK_EQ(arm_in(same, HOUR), TWHEEL_IDLE);
	CHECK_EQ(twheel_cell_cancel(cell.at), 0);
	CHECK_EQ(arm_cell(same, 0), TWHEEL_IDLE);
	CHECK_EQ(read_one().id, cell.id);
	CHECK_EQ(twheel_cancel(other, cell.id), TWHEEL_IDLE);
	CHECK_EQ(arm_in(cell, HOUR), -ENOENT);
	twheel_close(other);
}

/* The fork was before the mapping, so each process makes its own mapping. */
TEST(parent_finds_the_cells_of_its_child)
{
	struct twheel_list_entry entry = { };
	struct cell cell = { .ctx = ctx };
	uint32_t next = 0;
	pid_t pid;

	skip_without_device();
	pid = fork_child();
	if (!pid) {
		CHECK_EQ(arm_in(create(7), HOUR), TWHEEL_IDLE);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	if (twheel_list_timeouts(ctx, &entry, 1, &next) != 1)
		ktap_skip("no cells");
	CHECK_EQ(entry.state, TWHEEL_STATE_PENDING);
	cell.id = entry.id;
	CHECK_EQ(twheel_cell_find(ctx, cell.id, &cell.at), 0);
	CHECK_EQ(arm_cell(cell, 0), 0);
	CHECK_EQ(read_one().cookie, 7);
}

#define NR_THREADS	4

static pthread_barrier_t barrier;

static void *map_at_once(void *arg)
{
	struct cell *cell = arg;

	pthread_barrier_wait(&barrier);
	*cell = create(0);
	CHECK_EQ(arm_in(*cell, HOUR), TWHEEL_IDLE);
	return NULL;
}

static void run_threads(void *(*body)(void *), void *args, size_t size)
{
	pthread_t threads[NR_THREADS];

	CHECK_EQ(pthread_barrier_init(&barrier, NULL, NR_THREADS), 0);
	for (int i = 0; i < NR_THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, body, (char *)args + i * size), 0);
	for (int i = 0; i < NR_THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

TEST(threads_that_map_at_once_share_one_mapping)
{
	int before = mappings();

	for (__u32 round = 0; round < scaled(40); round++) {
		struct cell cells[NR_THREADS];
		struct twheel_cell *found;

		renew_context();
		run_threads(map_at_once, cells, sizeof(cells[0]));
		CHECK_EQ(mappings(), before + 1);
		for (int i = 0; i < NR_THREADS; i++) {
			CHECK_EQ(twheel_cell_find(ctx, cells[i].id, &found), 0);
			CHECK(found == cells[i].at);
			CHECK(is_armed(cells[i]));
		}
	}
	renew_context();
	CHECK_EQ(mappings(), before);
}

#define NR_SHARED	3

/* Cells that all threads share, and the numbers of their armings, of ends, and of events read. */
static struct cell shared[NR_SHARED];
static uint64_t nr_armed, nr_ended, nr_read;
static int finished;

static void count_if(uint64_t *nr, bool more)
{
	__atomic_fetch_add(nr, more, __ATOMIC_SEQ_CST);
}

static void *arm_and_cancel(void *random)
{
	uint64_t end = now_ns() + race_duration_ns(1000);

	while (now_ns() < end) {
		struct cell cell = shared[random_below(random, NR_SHARED)];
		bool arms = random_below(random, 2);
		int ret = arms ? arm_in(cell, random_below(random, 3 * NSEC_PER_MSEC)) :
				 twheel_cell_cancel(cell.at);

		CHECK(!arms || ret >= 0);
		count_if(&nr_armed, arms);
		count_if(&nr_ended, ret == 0 || ret == TWHEEL_WITHDRAWN);
		if (!random_below(random, 4))
			sleep_ns(random_below(random, 2 * NSEC_PER_MSEC));
	}
	return NULL;
}

static void *read_all(void *unused)
{
	struct twheel_event event;

	for (;;) {
		int last = PEEK(finished), ret = twheel_read(ctx, &event, 1, NSEC_PER_MSEC);

		CHECK(ret == 1 || ret == -ETIMEDOUT);
		if (ret == 1)
			nr_read++;
		else if (last)
			return unused;
	}
}

/* The word alone decides, without a lock: each arming ends once. */
TEST(every_arming_of_a_shared_cell_ends_once)
{
	__u64 random[NR_THREADS];
	pthread_t reader;

	for (int i = 0; i < NR_SHARED; i++)
		shared[i] = create(i);
	for (int i = 0; i < NR_THREADS; i++)
		random[i] = i + 1;
	CHECK_EQ(pthread_create(&reader, NULL, read_all, NULL), 0);
	run_threads(arm_and_cancel, random, sizeof(random[0]));
	for (int i = 0; i < NR_SHARED; i++)
		count_if(&nr_ended, twheel_cell_cancel(shared[i].at) != TWHEEL_IDLE);
	SET(finished, 1);
	CHECK_EQ(pthread_join(reader, NULL), 0);
	CHECK_EQ(nr_ended + nr_read, nr_armed);
	CHECK(nr_read > 0);
}

/* Long calls */

static void *submit_arms(void *arg)
{
	const unsigned int nr = *(unsigned int *)arg;
	struct twheel_op *ops = calloc(nr + 1, sizeof(*ops));

	for (unsigned int i = 0; i < nr; i++)
		twheel_prep_arm(&ops[i], HOUR, 0, i);
	CHECK_EQ(twheel_submit_ops(ctx, ops, nr), nr);
	free(ops);
	return NULL;
}

static void *cancel_many(void *unused)
{
	CHECK_EQ(twheel_cancel_timeouts(ctx, NULL), 0);
	return unused;
}

/* Calls of this thread see some of the timeouts, unless they have to wait for the end. */
TEST(call_for_many_timeouts_lets_others_in)
{
	static const struct {
		const char *name;
		void *(*call)(void *nr);
		bool arms;
	} rows[] = { { "submit", submit_arms, true }, { "cancel all", cancel_many, false } };
	unsigned int nr = scaled(200000);
	pthread_t thread;

	for_each_row(row, rows) {
		__u64 end = now_ns() + time_limit_ns();
		int seen = 0;
		__u32 now;

		for (unsigned int round = 0; !seen && now_ns() < end; round++) {
			if (!row->arms)
				submit_arms(&nr);
			CHECK_EQ(pthread_create(&thread, NULL, row->call, &nr), 0);
			do {
				/* On one CPU, only a timer can interrupt a short call. */
				if (round % 2)
					sleep_ns(NSEC_PER_MSEC / 10);
				now = live();
				seen += now && now < nr;
			} while (now != (row->arms ? nr : 0));
			CHECK_EQ(pthread_join(thread, NULL), 0);
			cancel_many(NULL);
		}
		CHECK(seen);
	}
}

/* Calls without cells */

TEST(setup_changes_the_clock_of_now)
{
	struct twheel_setup setup = {
		.flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_REALTIME, .max_timeouts = 5,
	};
	struct twheel_info info;
	uint64_t id;

	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	CHECK_EQ(twheel_get_info(ctx, &info), 0);
	CHECK_EQ(info.max_timeouts, 5);
	CHECK(ns_from_now(0) / NSEC_PER_SEC + 60 > (uint64_t)time(NULL));
	CHECK_EQ(twheel_arm(ctx, ns_from_now(HOUR), TWHEEL_F_ABS, 0, &id), 0);
	CHECK(remaining(id) <= HOUR);
	CHECK_EQ(twheel_configure(ctx, &setup), -EBUSY);
	CHECK_EQ(arm_in(create(7), 0), TWHEEL_IDLE);
	CHECK_EQ(read_one().cookie, 7);
}

TEST(setup_needs_no_descriptor)
{
	struct twheel_setup setup = { .flags = TWHEEL_SETUP_CLOCK, .clock = CLOCK_BOOTTIME };
	struct rlimit limit, few;
	int next = dup(0), fd = twheel_fd(ctx);

	close(next);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){ .rlim_cur = next, .rlim_max = limit.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_EQ(dup(0), -1);
	CHECK_EQ(twheel_configure(ctx, &setup), 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(twheel_fd(ctx), fd);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(twheel_arm(ctx, NSEC_PER_MSEC, 0, 7, NULL), 0);
	CHECK_EQ(read_one().cookie, 7);
}

TEST(failed_call_writes_nothing)
{
	static const uint64_t timeouts[] = { TWHEEL_NO_WAIT, NSEC_PER_SEC, TWHEEL_FOREVER };
	static const uint32_t opcodes[] = { 0, 99 };
	struct twheel_op op = { .cookie = 77 };
	struct twheel_event event;
	uint64_t id = 77;

	CHECK_EQ(twheel_arm(ctx, UINT64_MAX, 0, 0, &id), -EINVAL);
	CHECK_EQ(id, 77);
	CHECK_EQ(twheel_get(ctx, 5, &op), -ENOENT);
	CHECK_EQ(op.cookie, 77);
	twheel_prep_arm(&op, UINT64_MAX, 0, 3);
	op.id = 77;
	CHECK_EQ(twheel_operate(ctx, &op), -EINVAL);
	CHECK_EQ(op.id, 77);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		op = (struct twheel_op) { .opcode = opcodes[i] };
		CHECK_EQ(twheel_operate(ctx, &op), -EINVAL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++)
		CHECK_EQ(twheel_read(ctx, &event, 0, timeouts[i]), -EINVAL);
}

TEST(interval_and_slack_arrive)
{
	struct twheel_list_entry entry = { 0 };
	struct twheel_op op;
	uint32_t next = 0;

	twheel_prep_arm(&op, HOUR, TWHEEL_F_FIXED_DELAY, 7);
	twheel_prep_interval(&op, 2 * HOUR, 9);
	twheel_prep_slack(&op, 5999);
	CHECK_EQ(twheel_operate(ctx, &op), 0);
	CHECK_EQ(twheel_list_timeouts(ctx, &entry, 1, &next), 1);
	CHECK_EQ(entry.id, op.id);
	CHECK_EQ(entry.interval_ns, 2 * HOUR);
	CHECK_EQ(entry.repeat, 9);
	CHECK_EQ(entry.slack_us, 5);
	CHECK_EQ(entry.flags, TWHEEL_F_FIXED_DELAY);
	CHECK_EQ(twheel_list_timeouts(ctx, &entry, 1, &next), 0);
	twheel_prep_slack(&op, UINT64_MAX);
	CHECK_EQ(op.slack_us, UINT32_MAX);
}

TEST(read_after_stop_ends_with_zero)
{
	struct twheel_event event;
	uint64_t id;

	CHECK_EQ(twheel_arm(ctx, HOUR, 0, 0, &id), 0);
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_NO_WAIT), 1);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), 1);
	CHECK_EQ(event.id, id);
	CHECK_EQ(event.flags, TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_FOREVER), 0);
	CHECK_EQ(twheel_read(ctx, &event, 1, TWHEEL_NO_WAIT), 0);
	CHECK_EQ(twheel_wait(ctx, TWHEEL_FOREVER), 1);
}

TEST(cancel_tells_the_counts_if_asked)
{
	struct twheel_cancel_all done;
	uint64_t id;

	for (uint64_t cookie = 0; cookie < 5; cookie++)
		CHECK_EQ(twheel_arm(ctx, HOUR, 0, cookie % 2, &id), 0);
	CHECK_EQ(twheel_cancel_cookie(ctx, 1, &done), 0);
	CHECK_EQ(done.pending, 2);
	CHECK_EQ(twheel_cancel_cookie(ctx, 1, NULL), 0);
	CHECK_EQ(twheel_cancel_timeouts(ctx, &done), 0);
	CHECK_EQ(done.pending, 3);
	CHECK_EQ(done.withdrawn, 0);
	CHECK_EQ(twheel_cancel_timeouts(ctx, NULL), 0);
}

/* Waits */

static int read_within(int64_t ns)
{
	struct twheel_event event;

	return twheel_read(ctx, &event, 1, ns);
}

static int wait_within(int64_t ns)
{
	return twheel_wait(ctx, ns);
}

static const struct wait {
	const char *name;
	int (*call)(int64_t ns);
} waits[] = { { "read", read_within }, { "wait", wait_within } };

TEST(handler_ends_each_wait_whatever_its_flags)
{
	static const int64_t limits[] = { TWHEEL_FOREVER, INT64_MAX };
	static const int flags[] = { 0, SA_RESTART };

	/* An event would end a wait that goes on. */
	CHECK_EQ(twheel_arm(ctx, max_quick_call_ns(), 0, 7, NULL), 0);
	for_each_row(row, waits) {
		for (int i = 0; i < 4; i++) {
			handle_signal(SIGALRM, flags[i % 2]);
			signal_every(10000);
			CHECK_EQ(row->call(limits[i / 2]), -EINTR);
			signal_every(0);
		}
	}
}

/* A time_t of 32 bits ends at 2^31 s. */
TEST(wait_may_have_any_length)
{
	static const uint64_t seconds[] = { INT32_MAX, 1ULL << 31, 3000000000, (1ULL << 32) + 1,
					    INT64_MAX / NSEC_PER_SEC };

	for_each_row(row, waits) {
		for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
			uint64_t before = now_ns();

			CHECK_EQ(twheel_arm(ctx, 20 * NSEC_PER_MSEC, 0, 7, NULL), 0);
			CHECK_EQ(row->call(seconds[i] * NSEC_PER_SEC), 1);
			CHECK(now_ns() - before >= 20 * NSEC_PER_MSEC);
			CHECK_EQ(twheel_cancel_timeouts(ctx, NULL), 0);
		}
	}
}

/* A sandbox refuses preadv2(). */
TEST(reads_need_no_other_call_than_read)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	skip_without_device();
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		ktap_skip("no filters of system calls");
	check_nothing_to_read();
	CHECK_EQ(read_within(NSEC_PER_MSEC), -ETIMEDOUT);
	CHECK_EQ(twheel_arm(ctx, 20 * NSEC_PER_MSEC, 0, 7, NULL), 0);
	CHECK_EQ(read_within(TWHEEL_FOREVER), 1);
	CHECK_EQ(twheel_stop(ctx), 0);
	CHECK_EQ(read_within(TWHEEL_FOREVER), 0);
}

int main(int argc, char **argv)
{
	ktap_before = open_context;
	ktap_after = close_context;
	return ktap_main(argc, argv);
}
