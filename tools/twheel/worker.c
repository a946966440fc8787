// SPDX-License-Identifier: GPL-2.0
/*
 * One thread of a load: a server with keep-alive connections.
 *
 * The thread arms all of its timeouts as fast as it can, in batches. Then traffic puts off
 * the timeouts of some connections, some connections are closed and their timeouts
 * cancelled, and the others time out. A quarter of the traffic and of the closings comes
 * within a tick of the deadline on purpose: a wheel is most likely to be wrong there. As in
 * a server, due actions are carried out before events are read. So some cancels find a
 * pending timeout, and some a timeout that has fired and whose event is unread.
 *
 * The rules for the verdict on the device hold for any interleaving of the threads:
 *
 * - A timeout must have one end: an event, or a cancel that succeeded. The ends are counted,
 *   and judged when all threads have ended. In a shared context one thread may read an event
 *   while another one cancels. The device decides which is first.
 * - A later deadline is recorded after the device has accepted it. An event that was read
 *   before belongs to an earlier deadline. So the recorded deadline is never later than the
 *   deadline of an event.
 * - A cancel or a move that returns -ENOENT is no end: the event has been read, and the thread
 *   that read it has counted it.
 *
 * With cells a connection may have traffic several times. Each request cancels the timeout
 * and arms it again with a later deadline, both by an exchange. Two more rules hold:
 *
 * - An exchange that finds the cell idle is like -ENOENT: the event has been read.
 * - The deadline in an event is exactly a deadline that the cell was armed with. An event of
 *   a cancelled arming is therefore early.
 *
 * After TIME_LIMIT_NS without an event a thread ends, and its other timeouts are lost.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"
#include "duration.h"
#include "worker.h"

#define BATCH		1024
#define TIME_LIMIT_NS	(10 * NSEC_PER_SEC)
#define MAX_SLEEP_NS	(20 * NSEC_PER_MSEC)	/* longest delay of a stop */
#define STRAY_NS	(20 * NSEC_PER_MSEC)
#define MOST_REQUESTS	8		/* of a connection, with cells */

/* splitmix64: seeds that differ by 1 give independent numbers. */
static uint64_t random_next(struct worker *w)
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t random_below(struct worker *w, uint64_t bound)
{
	return bound ? random_next(w) % bound : 0;
}

static bool one_in(struct worker *w, unsigned int nr)
{
	return !random_below(w, nr);
}

static uint64_t now_ns(struct worker *w)
{
	uint64_t now;

	twheel_now(w->ctx, &now);
	return now;
}

static void add_expected(struct worker *w, uint64_t when)
{
	if (when > w->latest_ns)
		w->latest_ns = when;
}

static void end_timeout(struct load *load, struct load_timeout *t)
{
	if (!atomic_fetch_add(&t->ends, 1))
		atomic_fetch_add(&load->ended, 1);
}

/* Chooses the time of the traffic or of the closing of the connection. */
static void plan_next_action(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];
	uint64_t deadline = t->deadline;
	uint64_t when = now;

	if (!t->traffic && !t->to_cancel)
		return;
	if (one_in(w, 4))
		when = deadline - w->tick_ns + random_below(w, 2 * w->tick_ns);
	else if (deadline > now)
		when += random_below(w, deadline - now);
	agenda_add(&w->agenda, when, index);
}

static void prepare_arm(struct worker *w, struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];
	uint64_t deadline = now + random_below(w, w->load->spread_ns + 1);

	t->traffic = one_in(w, 4);
	if (t->traffic && w->load->cells)
		t->traffic = 1 + random_below(w, MOST_REQUESTS);
	t->to_cancel = random_below(w, 100) < w->load->cancel_percent;
	t->deadline = deadline;
	twheel_prep_arm(op, deadline, TWHEEL_F_ABS | (w->load->cells ? TWHEEL_F_CELL : 0), index);
}

/* A random deadline after the current one: traffic never moves a deadline to earlier. */
static uint64_t later_deadline(struct worker *w, const struct load_timeout *t, uint64_t now)
{
	uint64_t deadline = t->deadline > now ? t->deadline : now;

	return deadline + 1 + random_below(w, w->load->spread_ns / 4);
}

static int note_armed(struct worker *w, const struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	t->id = op->id;
	w->count[ARMED]++;
	add_expected(w, t->deadline);
	plan_next_action(w, index, now);
	return w->load->cells ? twheel_cell_find(w->ctx, op->id, &t->cell) : 0;
}

/* @result: the outcome of the operation that removed the old deadline. */
static void note_moved(struct worker *w, int result, uint32_t index, uint64_t deadline,
		       uint64_t now)
{
	if (result == -ENOENT || result == TWHEEL_IDLE)
		return;
	w->load->timeouts[index].deadline = deadline;
	w->count[REARMED]++;
	w->count[REVIVED] += result == TWHEEL_WITHDRAWN;
	add_expected(w, deadline);
	plan_next_action(w, index, now);
}

static void note_cancelled(struct worker *w, int result, uint32_t index)
{
	if (result == -ENOENT || result == TWHEEL_IDLE)
		return;
	w->count[result == TWHEEL_WITHDRAWN ? WITHDRAWN : CANCELLED]++;
	end_timeout(w->load, &w->load->timeouts[index]);
}

static int finish_operation(struct worker *w, const struct twheel_op *op, uint32_t index,
			    uint64_t now)
{
	if (op->result < 0 && (op->opcode == TWHEEL_OP_ARM || op->result != -ENOENT))
		return op->result;
	if (op->opcode == TWHEEL_OP_ARM)
		return note_armed(w, op, index, now);
	if (op->opcode == TWHEEL_OP_MOD)
		note_moved(w, op->result, index, op->expires_ns, now);
	else
		note_cancelled(w, op->result, index);
	return 0;
}

/* The first @nr operations. */
static int submit(struct worker *w, uint32_t nr, uint64_t now)
{
	int ret;

	ret = twheel_submit_ops(w->ctx, w->ops, nr);
	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < nr; i++) {
		ret = finish_operation(w, &w->ops[i], w->batch[i], now);
		if (ret)
			return ret;
	}
	return 0;
}

static int arm_some(struct worker *w)
{
	uint64_t now = now_ns(w);
	uint32_t nr = 0;

	for (; w->next < w->nr && nr < BATCH; nr++) {
		w->batch[nr] = w->first + w->next++;
		prepare_arm(w, &w->ops[nr], w->batch[nr], now);
	}
	return submit(w, nr, now);
}

/* A request: the cell is cancelled and armed again. */
static int serve_request(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];
	uint64_t deadline = later_deadline(w, t, now);
	int found, ret = 0;

	t->traffic--;
	found = twheel_cell_cancel(t->cell);
	if (found == TWHEEL_IDLE)
		return 0;
	if (w->kicks.nr == TWHEEL_MAX_KICKS)
		ret = twheel_kick_all(&w->kicks);
	if (!ret)
		ret = twheel_cell_arm_later(&w->kicks, t->cell, t->id, deadline);
	if (ret < 0)
		return ret;
	if (ret != TWHEEL_IDLE)
		w->count[DUPLICATE]++;	/* a cancelled cell was armed */
	note_moved(w, found, index, deadline, now);
	return 0;
}

/* Carries out the action that is due for an armed cell. */
static int act_on_cell(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (t->ends)
		return 0;
	if (t->traffic)
		return serve_request(w, index, now);
	note_cancelled(w, twheel_cell_cancel(t->cell), index);
	return 0;
}

/* False if the timeout needs no further operation. */
static bool prepare_due(struct worker *w, struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (t->ends)
		return false;
	if (t->traffic) {
		t->traffic--;
		twheel_prep_mod(op, t->id, later_deadline(w, t, now), TWHEEL_F_ABS, index);
	} else {
		twheel_prep_cancel(op, t->id);
	}
	return true;
}

static int run_due_actions(struct worker *w)
{
	uint64_t now = now_ns(w);
	uint32_t index, nr;
	int error;

	do {
		nr = 0;
		error = 0;
		while (!error && nr < BATCH && agenda_take(&w->agenda, now, &index)) {
			if (w->load->timeouts[index].cell)
				error = act_on_cell(w, index, now);
			else if (prepare_due(w, &w->ops[nr], index, now))
				w->batch[nr++] = index;
		}
		if (!error)
			error = submit(w, nr, now);
	} while (!error && nr == BATCH);
	return error ? error : twheel_kick_all(&w->kicks);
}

/* An id or cookie that was never armed. The event may come before the id is known. */
static bool is_unknown(struct worker *w, const struct twheel_event *event)
{
	const struct load *load = w->load;
	uint64_t id;

	if (event->cookie >= load->nr)
		return true;
	if (!load->share && event->cookie - w->first >= w->nr)
		return true;
	id = load->timeouts[event->cookie].id;
	return id && id != event->id;
}

static void take_event(struct worker *w, const struct twheel_event *event, uint64_t now)
{
	struct load_timeout *t;
	uint64_t deadline;

	if (is_unknown(w, event)) {
		w->count[ALIEN]++;
		return;
	}
	t = &w->load->timeouts[event->cookie];
	deadline = t->deadline;
	w->count[FIRED]++;
	if (event->expires_ns < deadline || event->fired_ns < event->expires_ns ||
	    now < event->fired_ns) {
		w->count[EARLY]++;
	} else {
		t->lateness = event->fired_ns - deadline;
		t->delivery = now - deadline;
		t->fired = true;
	}
	end_timeout(w->load, t);
}

/* Reads a batch of events within @timeout_ns. Returns the number of events. */
static int collect(struct worker *w, int64_t timeout_ns)
{
	int nr = twheel_read(w->ctx, w->events, BATCH, timeout_ns);
	uint64_t now = now_ns(w);

	if (nr == -EAGAIN || nr == -ETIMEDOUT || nr == -EINTR)
		return 0;
	if (!nr)
		return -EPIPE;
	for (int i = 0; i < nr; i++)
		take_event(w, &w->events[i], now);
	add_expected(w, now);
	return nr;
}

/* Waits in whole ticks, as a server does, for events or the next action. */
static int wait_for_work(struct worker *w)
{
	uint64_t now = now_ns(w);
	uint64_t next = agenda_next(&w->agenda);
	uint64_t sleep_ns = 0;
	int ret;

	if (w->next == w->nr) {
		sleep_ns = next > now ? next - now : 0;
		sleep_ns = sleep_ns > MAX_SLEEP_NS ? MAX_SLEEP_NS : sleep_ns;
		sleep_ns = (sleep_ns + w->tick_ns - 1) / w->tick_ns * w->tick_ns;
	}
	ret = twheel_wait(w->ctx, sleep_ns);
	return ret == -EINTR ? 0 : ret;
}

static int run_round(struct worker *w)
{
	int ready = wait_for_work(w);
	int error;

	if (ready < 0)
		return ready;
	error = arm_some(w);
	if (!error)
		error = run_due_actions(w);
	if (error || !ready)
		return error;
	ready = collect(w, TWHEEL_NO_WAIT);
	return ready < 0 ? ready : 0;
}

static int run_worker(struct worker *w)
{
	int error = 0;

	while (!error && w->load->ended < w->load->nr && !w->load->stop) {
		error = run_round(w);
		if (!error && now_ns(w) > w->latest_ns + TIME_LIMIT_NS)
			break;
	}
	return error;
}

static int cancel_rest(struct worker *w)
{
	struct load_timeout *t;
	uint32_t nr = 0;
	int error = 0;

	for (uint32_t i = w->first; i < w->first + w->next && !error; i++) {
		t = &w->load->timeouts[i];
		if (!t->id || t->ends)
			continue;
		if (t->cell) {
			note_cancelled(w, twheel_cell_cancel(t->cell), i);
			continue;
		}
		w->batch[nr] = i;
		twheel_prep_cancel(&w->ops[nr++], t->id);
		if (nr == BATCH) {
			error = submit(w, nr, 0);
			nr = 0;
		}
	}
	return error ? error : submit(w, nr, 0);
}

/* Waits for events that must not come. */
static int wait_for_stray_events(struct worker *w)
{
	uint64_t end = now_ns(w) + STRAY_NS + 2 * w->tick_ns;
	uint64_t now;
	int ret = 0;

	while (ret >= 0 && (now = now_ns(w)) < end)
		ret = collect(w, end - now);
	return ret < 0 ? ret : 0;
}

void worker_run(struct worker *w)
{
	w->kicks.ctx = w->ctx;
	add_expected(w, now_ns(w));
	w->error = run_worker(w);
	if (!w->error && w->load->stop)
		w->error = cancel_rest(w);
	if (!w->error)
		w->error = wait_for_stray_events(w);
	if (w->error) {
		twheel_get_info(w->ctx, &w->info);
		w->load->stop = true;
	}
}

void worker_init(struct worker *w, struct load *load, unsigned int index)
{
	uint32_t part = load->nr / load->threads;
	uint32_t larger = load->nr % load->threads;

	w->load = load;
	w->nr = part + (index < larger);
	w->first = index * part + (index < larger ? index : larger);
	w->random = load->seed + ((uint64_t)index << 32);
	w->ops = cli_resize(NULL, BATCH, sizeof(*w->ops));
	w->batch = cli_resize(NULL, BATCH, sizeof(*w->batch));
	w->events = cli_resize(NULL, BATCH, sizeof(*w->events));
	w->agenda.heap = cli_resize(NULL, w->nr, sizeof(*w->agenda.heap));
}

void worker_free(struct worker *w)
{
	free(w->agenda.heap);
	free(w->events);
	free(w->batch);
	free(w->ops);
}
