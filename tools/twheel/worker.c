// SPDX-License-Identifier: GPL-2.0
/*
 * One thread of a load: a server with keep-alive connections.
 *
 * It arms all of its timeouts as fast as it can, in batches. Then traffic comes for
 * some connections and puts their timeout off, some connections are closed and
 * their timeout is cancelled, and the rest time out. A quarter of the closings and
 * of the traffic comes within a tick of the deadline, on purpose: that is where a
 * wheel goes wrong. A server looks at its connections before it looks at its timers,
 * so what is due is done before events are read; then some of these cancels find a
 * timeout that is still pending, and some one that has fired and is unread.
 *
 * Rules by which the device is judged, so that they hold however threads interleave:
 *
 * - The facts of a timeout are only collected here (events that came, a cancel that
 *   succeeded) and compared when all threads are done. In a shared context an event
 *   may be read by one thread while another one cancels; which of the two came
 *   first is the device's answer, and both facts at once are a mistake of its.
 * - A later deadline is noted after the device has accepted it. An event that was
 *   read before that cannot have been accepted later, so what a reader compares
 *   with is never later than the deadline the event is about.
 * - A cancel or a move that finds nothing (-ENOENT) is no fact: the event has been
 *   read, and its reader knows.
 *
 * With cells a connection that has traffic has it several times. The timeout is off while
 * a request is worked on: it is cancelled, and armed anew with a later deadline, both by an
 * exchange. Two more rules hold:
 *
 * - An exchange that finds the cell idle is like -ENOENT: the event has been read.
 * - The deadline in an event is exactly one that the cell was armed with. That is compared
 *   as all deadlines are: an event of an arming that was cancelled is early.
 *
 * A worker that waits in vain for PATIENCE_NS ends: the rest is lost.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"
#include "duration.h"
#include "worker.h"

#define BATCH		1024
#define PATIENCE_NS	(10 * NSEC_PER_SEC)
#define RETRY_NS	(10 * NSEC_PER_MSEC)
#define NAP_NS		(100 * NSEC_PER_MSEC)	/* a stop is seen after that */
#define STRAGGLER_NS	(20 * NSEC_PER_MSEC)
#define MOST_REQUESTS	8		/* on a connection with traffic, with cells */

/* splitmix64: any seed is good, also one that differs by 1. */
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

static void expect_by(struct worker *w, uint64_t when)
{
	if (when > w->horizon)
		w->horizon = when;
}

/* Timeout @index in all is of the worker that got that part. */
static struct worker *owner_of(const struct load *load, uint32_t index)
{
	uint32_t part = load->nr / load->threads;
	uint32_t larger = load->nr % load->threads;
	uint32_t in_larger = larger * (part + 1);

	if (index < in_larger)
		return &load->workers[index / (part + 1)];
	return &load->workers[larger + (index - in_larger) / part];
}

static void settle(struct load *load, uint32_t index)
{
	if (!atomic_exchange(&load->timeouts[index].settled, true))
		atomic_fetch_add(&owner_of(load, index)->settled, 1);
}

/* When traffic comes or the connection is closed. */
static void plan(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];
	uint64_t deadline = t->deadline;
	uint64_t when = now;

	if (!t->traffic && !t->doomed)
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
	t->doomed = random_below(w, 100) < w->load->cancel_percent;
	t->deadline = deadline;
	twheel_prep_arm(op, deadline, TWHEEL_F_ABS | (w->load->cells ? TWHEEL_F_CELL : 0), index);
}

/* Traffic only ever puts a timeout off. */
static uint64_t later_deadline(struct worker *w, const struct load_timeout *t, uint64_t now)
{
	uint64_t deadline = t->deadline > now ? t->deadline : now;

	return deadline + 1 + random_below(w, w->load->spread_ns / 4);
}

static void prepare_mod(struct worker *w, struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	t->traffic--;
	twheel_prep_mod(op, t->id, later_deadline(w, t, now), TWHEEL_F_ABS, index);
}

static int armed(struct worker *w, const struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (op->result == -EAGAIN) {
		w->refused++;
		agenda_add(&w->agenda, now + RETRY_NS, index);
		return 0;
	}
	t->id = op->id;
	t->armed = true;
	w->account.armed++;
	expect_by(w, t->deadline);
	plan(w, index, now);
	return w->load->cells ? twheel_cell(w->ctx, op->id, &t->cell) : 0;
}

/* @result: the outcome of what has made room for @deadline. */
static void moved(struct worker *w, int result, uint32_t index, uint64_t deadline, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (result == -ENOENT)
		return;
	t->deadline = deadline;
	w->account.rearmed++;
	w->account.revived += result == TWHEEL_WITHDRAWN;
	expect_by(w, deadline);
	plan(w, index, now);
}

static void cancelled(struct worker *w, int result, uint32_t index)
{
	if (result == -ENOENT)
		return;
	w->load->timeouts[index].cancelled = true;
	if (result == TWHEEL_WITHDRAWN)
		w->account.withdrawn++;
	else
		w->account.cancelled++;
	settle(w->load, index);
}

static int finish(struct worker *w, const struct twheel_op *op, uint32_t index, uint64_t now)
{
	bool may_miss = op->opcode != TWHEEL_OP_ARM && op->result == -ENOENT;
	bool may_retry = op->opcode == TWHEEL_OP_ARM && op->result == -EAGAIN;

	if (op->result < 0 && !may_miss && !may_retry)
		return op->result;
	if (op->opcode == TWHEEL_OP_ARM)
		return armed(w, op, index, now);
	if (op->opcode == TWHEEL_OP_MOD)
		moved(w, op->result, index, op->expires_ns, now);
	else
		cancelled(w, op->result, index);
	return 0;
}

/* The first @nr operations. */
static int submit(struct worker *w, uint32_t nr, uint64_t now)
{
	int ret;

	ret = twheel_submit(w->ctx, w->ops, nr);
	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < nr; i++) {
		ret = finish(w, &w->ops[i], w->batch[i], now);
		if (ret)
			return ret;
	}
	return 0;
}

static int arm_some(struct worker *w)
{
	uint64_t now = now_ns(w);
	uint32_t nr = 0;

	if (w->refused)
		return 0;
	for (; w->next < w->nr && nr < BATCH; nr++) {
		w->batch[nr] = w->first + w->next++;
		prepare_arm(w, &w->ops[nr], w->batch[nr], now);
	}
	return submit(w, nr, now);
}

/* A request has come and is answered: the cell is off, and on again. */
static int serve_request(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];
	uint64_t deadline = later_deadline(w, t, now);
	int found, ret = 0;

	t->traffic--;
	found = twheel_cell_cancel(t->cell);
	if (found < 0)
		return 0;
	if (w->kicks.nr == TWHEEL_MAX_KICKS)
		ret = twheel_kick_all(&w->kicks);
	if (!ret)
		ret = twheel_cell_arm_later(&w->kicks, t->cell, t->id, deadline);
	if (ret < 0)
		return ret;
	if (ret != TWHEEL_IDLE)
		w->account.ghost++;	/* something has armed what was cancelled */
	w->account.pairs++;
	moved(w, found, index, deadline, now);
	return 0;
}

/* Carries out the action that is due for an armed cell. */
static int act_on_cell(struct worker *w, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (t->settled)
		return 0;
	if (t->traffic)
		return serve_request(w, index, now);
	cancelled(w, twheel_cell_cancel(t->cell), index);
	return 0;
}

/* False when there is nothing left to do for it. */
static bool prepare_due(struct worker *w, struct twheel_op *op, uint32_t index, uint64_t now)
{
	struct load_timeout *t = &w->load->timeouts[index];

	if (!t->armed) {
		w->refused--;
		prepare_arm(w, op, index, now);
	} else if (t->settled) {
		return false;
	} else if (t->traffic) {
		prepare_mod(w, op, index, now);
	} else {
		twheel_prep_cancel(op, t->id);
	}
	return true;
}

static int act(struct worker *w)
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

static bool is_early(const struct twheel_event *event, uint64_t deadline, uint64_t now)
{
	return event->fired_ns < event->expires_ns || event->expires_ns < deadline ||
	       event->fired_ns < deadline || now < deadline;
}

static uint64_t since(uint64_t deadline, uint64_t when)
{
	return when > deadline ? when - deadline : 0;
}

/* An id or cookie that nobody armed; the id is learnt after the event may come. */
static bool is_alien(struct worker *w, const struct twheel_event *event)
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

	if (is_alien(w, event)) {
		w->account.alien++;
		return;
	}
	t = &w->load->timeouts[event->cookie];
	deadline = t->deadline;
	w->account.early += is_early(event, deadline, now);
	histogram_add(&w->account.lateness, since(deadline, event->fired_ns));
	histogram_add(&w->account.delivery, since(deadline, now));
	atomic_fetch_add(&t->fired, 1);
	settle(w->load, event->cookie);
}

/* One batch of events if there is one within @timeout_ns. Returns how many. */
static int collect(struct worker *w, int64_t timeout_ns)
{
	int nr = twheel_read(w->ctx, w->events, BATCH, timeout_ns);
	uint64_t now = now_ns(w);

	if (nr == -ETIMEDOUT || nr == -EINTR)
		return 0;
	if (!nr)
		return -EPIPE;
	for (int i = 0; i < nr; i++)
		take_event(w, &w->events[i], now);
	expect_by(w, now);
	return nr;
}

/* Waits in whole ticks, as a server does, until there may be something to do. */
static int idle(struct worker *w)
{
	uint64_t now = now_ns(w);
	uint64_t next = agenda_next(&w->agenda);
	uint64_t nap = 0;
	int ret;

	if (w->next == w->nr || w->refused) {
		nap = next > now ? next - now : 0;
		nap = nap > NAP_NS ? NAP_NS : nap;
		nap = (nap + w->tick_ns - 1) / w->tick_ns * w->tick_ns;
	}
	ret = twheel_wait(w->ctx, nap);
	return ret == -EINTR ? 0 : ret;
}

static int round_of(struct worker *w)
{
	int ready = idle(w);
	int error;

	if (ready < 0)
		return ready;
	error = arm_some(w);
	if (!error)
		error = act(w);
	if (error || !ready)
		return error;
	ready = collect(w, TWHEEL_NO_WAIT);
	return ready < 0 ? ready : 0;
}

/* What was armed has had its time; what could not be armed has waited as long. */
static bool in_vain(struct worker *w)
{
	return now_ns(w) > w->horizon + PATIENCE_NS;
}

static int play(struct worker *w)
{
	int error = 0;

	while (!error && w->settled < w->nr && !w->load->stop) {
		error = round_of(w);
		if (!error && in_vain(w))
			return w->refused ? -EAGAIN : 0;
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
		if (!t->armed || t->settled)
			continue;
		if (t->cell) {
			cancelled(w, twheel_cell_cancel(t->cell), i);
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

/* Events that should not come would come now. */
static int collect_stragglers(struct worker *w)
{
	uint64_t end = now_ns(w) + STRAGGLER_NS + 2 * w->tick_ns;
	uint64_t now;
	int ret = 0;

	while (ret >= 0 && (now = now_ns(w)) < end)
		ret = collect(w, end - now);
	return ret < 0 ? ret : 0;
}

void worker_run(struct worker *w)
{
	w->kicks.ctx = w->ctx;
	expect_by(w, now_ns(w));
	w->error = play(w);
	if (!w->error && w->load->stop)
		w->error = cancel_rest(w);
	if (!w->error)
		w->error = collect_stragglers(w);
	if (w->error)
		w->load->stop = true;
}

static void *room(size_t size)
{
	return cli_resize(NULL, BATCH, size);
}

void worker_init(struct worker *w, struct load *load, unsigned int index)
{
	uint32_t part = load->nr / load->threads;
	uint32_t larger = load->nr % load->threads;

	w->load = load;
	w->nr = part + (index < larger);
	w->first = index * part + (index < larger ? index : larger);
	w->random = load->seed + ((uint64_t)index << 32);
	w->ops = room(sizeof(*w->ops));
	w->batch = room(sizeof(*w->batch));
	w->events = room(sizeof(*w->events));
	agenda_init(&w->agenda, w->nr);
}

void worker_free(struct worker *w)
{
	agenda_free(&w->agenda);
	free(w->events);
	free(w->batch);
	free(w->ops);
}
