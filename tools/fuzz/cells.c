// SPDX-License-Identifier: GPL-2.0
/*
 * The set of states that a cell may be in.
 *
 * One process at a time uses the mapping. So the word is known, except for two changes that
 * the kernel makes: a past deadline becomes FIRED, and IDLE becomes another idle value. The
 * model does not know whether the kernel has made these changes yet. If a look is due, it
 * does not know whether the kernel has looked. So a cell is in one of a set of places:
 *
 *	QUEUED	the kernel looks at the word, at the latest at the end of @queue
 *	PARKED	the kernel does not look. An arming that follows needs a KICK
 *	READY	the event is unread, and the word is FIRED
 *	STALE	the event was withdrawn through the word, and is still on the queue
 *
 * Time adds places to the set. An observation of the cell removes the places that
 * contradict it; if none is left, the device is wrong. STALE is always certain, because
 * only an exchange that returned FIRED leads to it.
 *
 * The kernel may look earlier than it has promised. It may not look later, nor at all if it
 * has promised nothing.
 *
 * The model does not know the pace of looks: to reach it, a program would have to exchange the
 * words of more than 64 cells in a millisecond, and each takes a step.
 */
#include "fuzz.h"
#include "model.h"

#define MAX_AHEAD	60000000000ULL

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t left(uint64_t deadline, uint64_t now)
{
	return deadline > now ? earlier(deadline - now, MAX_AHEAD) : 0;
}

/* Time */

/* Returns whether the kernel may have begun to look at the cell. */
static int may_have_looked(const struct file *f, const struct timeout *t, uint64_t now)
{
	return t->cell.where & QUEUED && now >= model_tick(f, t->cell.queue.begin);
}

void cell_advance(const struct file *f, struct timeout *t, uint64_t now)
{
	struct cell *c = &t->cell;

	if (f->stopped || !may_have_looked(f, t, now))
		return;
	switch (c->word) {
	case DEADLINE:
		if (now >= t->low)
			c->where |= READY;
		c->queue.end = later(c->queue.end, t->high);
		break;
	case IDLE:
		if (c->idle_marked ||
		    now >= model_tick(f, model_sum(c->queue.begin, c->ahead.begin)))
			c->where |= PARKED;
		if (c->idle_marked == SURELY)
			break;
		c->idle_marked = MAYBE;
		c->queue.end = later(c->queue.end, model_sum(now, c->ahead.end));
		break;
	default:
		c->where |= PARKED;
		break;
	}
}

/* Words */

static void set_word(struct timeout *t, uint64_t word, struct time_range when)
{
	struct cell *c = &t->cell;

	c->idle_marked = NO;
	c->idle_look = 0;
	c->invalid_word = word;
	c->word = word <= NEVER ? DEADLINE : word == TWHEEL_CELL_IDLE ? IDLE : INVALID;
	t->armed = when.begin;
}

/* @word was in the cell at some time during a call: remove the states that it rules out. */
static void exclude_states(struct file *f, struct timeout *t, uint64_t word)
{
	struct cell *c = &t->cell;

	if (word <= NEVER) {
		EXPECT(c->word == DEADLINE && c->where & ~READY && word >= t->low &&
		       word <= t->high, "the word of %#llx is %llu", ULL(t->id), ULL(word));
		t->low = word;
		t->high = word;
		c->where &= ~READY;
	} else if (c->word == INVALID) {
		EXPECT(word == c->invalid_word, "the word of %#llx is %#llx", ULL(t->id),
		       ULL(word));
	} else if (word == TWHEEL_CELL_FIRED) {
		EXPECT(c->where & READY, "%#llx cannot have fired yet", ULL(t->id));
		c->where = READY;
		model_ready(f, t);
	} else if (word == TWHEEL_CELL_IDLE) {
		EXPECT(c->word == IDLE && c->idle_marked != SURELY, "the word of %#llx is idle",
		       ULL(t->id));
		c->idle_marked = NO;
	} else {
		EXPECT(c->word == IDLE && c->idle_marked, "the word of %#llx is %#llx", ULL(t->id),
		       ULL(word));
		c->idle_marked = SURELY;
	}
}

void cell_word(struct file *f, struct timeout *t, uint64_t word, struct time_range when)
{
	cell_advance(f, t, when.end);
	exclude_states(f, t, word);
	cell_advance(f, t, when.end);
}

void cell_exchanged(struct file *f, struct timeout *t, uint64_t old, uint64_t new,
		    struct time_range when)
{
	struct cell *c = &t->cell;

	cell_advance(f, t, when.end);
	exclude_states(f, t, old);
	if (mismatch_found() || (c->where == READY && new == TWHEEL_CELL_FIRED))
		return;
	if (c->where == STALE && new == TWHEEL_CELL_FIRED) {
		/* The event is as if it had never been withdrawn. */
		c->where = READY;
		c->word = DEADLINE;
		t->low = c->event.begin;
		t->high = c->event.end;
		t->armed = 0;
		f->stale--;
		return;
	}
	if (c->where == READY) {
		c->where = STALE;
		c->event = (struct time_range) { t->low, t->high };
		f->stale++;
	}
	set_word(t, new, when);
	if (c->word == DEADLINE) {
		t->low = new;
		t->high = new;
		c->queue.begin = earlier(c->queue.begin, new);
	}
	if (c->word == IDLE && c->where == QUEUED && !may_have_looked(f, t, when.end) &&
	    c->queue.begin == c->queue.end && !c->look_overwritten)
		c->idle_look = c->queue.end;
	cell_advance(f, t, when.end);
}

/*
 * Compare the look that the kernel has written. The kernel may be about to write another
 * one. While the cell fires, or when its word changes at the same time, the look is ~0 for
 * a moment.
 */
void cell_look(struct file *f, struct timeout *t, uint64_t look, struct time_range when)
{
	struct cell *c = &t->cell;

	cell_advance(f, t, when.end);
	if (c->look_overwritten && look == c->user_look)
		return;
	c->look_overwritten = 0;
	if (look == NO_LOOK) {
		EXPECT(c->where & ~QUEUED || may_have_looked(f, t, when.end),
		       "%#llx is not looked at", ULL(t->id));
		if (!may_have_looked(f, t, when.end))
			c->where &= ~QUEUED;
		return;
	}
	EXPECT(c->where & QUEUED, "the look of %#llx is %llu, but it is not queued", ULL(t->id),
	       ULL(look));
	EXPECT(look >= c->queue.begin || c->word == DEADLINE,
	       "the look of %#llx is %llu, before %llu", ULL(t->id), ULL(look),
	       ULL(c->queue.begin));
	EXPECT(look <= c->queue.end, "the look of %#llx is %llu, after %llu", ULL(t->id),
	       ULL(look), ULL(c->queue.end));
	if (c->idle_look && look != c->idle_look) {
		EXPECT(c->idle_marked, "%#llx was looked at before its time", ULL(t->id));
		EXPECT(look >= model_sum(c->idle_look, c->ahead.begin),
		       "the look of %#llx was %llu, and is already %llu", ULL(t->id),
		       ULL(c->idle_look), ULL(look));
		c->idle_marked = SURELY;
	}
	c->where = QUEUED;
	c->queue.end = look;
	c->queue.begin = c->word == DEADLINE ? earlier(look, t->low) : look;
	cell_advance(f, t, when.end);
}

void cell_look_overwritten(struct timeout *t, uint64_t look)
{
	t->cell.look_overwritten = 1;
	t->cell.user_look = look;
	t->cell.idle_look = 0;
}

/* Calls */

/* A call has published the deadline. */
static void publish(struct timeout *t, struct time_range when)
{
	struct cell *c = &t->cell;

	c->where = QUEUED;
	c->queue = (struct time_range) { t->low, t->high };
	c->ahead = (struct time_range) { left(t->low, when.end), left(t->high, when.begin) };
	c->look_overwritten = 0;
}

static void park(struct timeout *t)
{
	t->cell.where = PARKED;
	t->cell.ahead = (struct time_range) { 0, 0 };
}

void cell_armed(struct file *f, struct timeout *t, uint64_t expires_ns, struct time_range when)
{
	set_word(t, expires_ns, when);
	t->cell.look_overwritten = 0;
	park(t);
	if (t->cell.word == DEADLINE)
		publish(t, when);
	cell_advance(f, t, when.end);
}

void cell_moved(struct file *f, struct timeout *t, uint64_t expires_ns, struct time_range when)
{
	struct cell *c = &t->cell;
	uint64_t begin = c->queue.begin;
	int looking = may_have_looked(f, t, when.end);

	f->dropped += c->where == STALE;
	if (c->where & (READY | STALE)) {
		model_unready(f, t);
		park(t);
	}
	set_word(t, expires_ns, when);
	if (c->word == IDLE && c->where == QUEUED && !looking &&
	    c->queue.begin == c->queue.end && !c->look_overwritten)
		c->idle_look = c->queue.end;
	if (c->word == DEADLINE) {
		publish(t, when);
		/*
		 * If the cell is already on its way to the sink, the kernel looks at it at
		 * once.
		 */
		if (looking)
			c->queue.begin = earlier(begin, t->low);
	}
	cell_advance(f, t, when.end);
}

/* KICK queues the cell if it was not queued, at the latest for its deadline. */
void cell_kicked(struct file *f, struct timeout *t, struct time_range when)
{
	struct cell *c = &t->cell, before;

	f->kicks++;
	cell_advance(f, t, when.end);
	if (c->where == STALE) {
		f->dropped++;
		model_unready(f, t);
		park(t);
	}
	before = *c;
	if (c->word != DEADLINE || c->where == READY)
		return;
	publish(t, when);
	c->where |= before.where & READY;
	if (before.where & QUEUED) {
		c->look_overwritten = before.look_overwritten;
		c->queue.begin = earlier(before.queue.begin, t->low);
		c->ahead.begin = earlier(before.ahead.begin, c->ahead.begin);
		c->ahead.end = later(before.ahead.end, c->ahead.end);
	}
	cell_advance(f, t, when.end);
}

int cell_stopped(const struct file *f, struct timeout *t, struct time_range when)
{
	struct cell *c = &t->cell;

	cell_advance(f, t, when.end);
	if (c->where == STALE)
		return 1;
	c->look_overwritten = 0;
	c->where = READY;
	return c->word == DEADLINE;
}

void cell_outcome(struct file *f, struct timeout *t, int result, struct time_range when)
{
	struct cell *c = &t->cell;

	cell_advance(f, t, when.end);
	switch (result) {
	case 0:
		EXPECT(c->word == DEADLINE && c->where & ~READY, "%#llx is pending", ULL(t->id));
		c->where &= ~READY;
		break;
	case TWHEEL_WITHDRAWN:
		EXPECT(c->where & READY, "%#llx cannot have fired yet", ULL(t->id));
		c->where = READY;
		model_ready(f, t);
		break;
	case TWHEEL_IDLE:
		EXPECT(c->word != DEADLINE, "%#llx is idle", ULL(t->id));
		break;
	default:
		mismatch("the outcome is %d", result);
		break;
	}
}

void cell_read(struct timeout *t)
{
	set_word(t, TWHEEL_CELL_IDLE, (struct time_range) { t->armed, t->armed });
	park(t);
}

void cell_dropped(struct timeout *t)
{
	park(t);
}

uint64_t cell_due(const struct file *f, const struct timeout *t)
{
	const struct cell *c = &t->cell;
	uint64_t due;

	if (c->word != DEADLINE || c->where & (PARKED | STALE))
		return NEVER;
	due = c->where & QUEUED ? later(c->queue.end, t->high) : t->high;
	return model_tick(f, later(model_sum(due, t->slack_us * 1000ULL), t->armed));
}
