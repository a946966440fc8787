// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "ledger.h"
#include "report.h"

#define ULL(value)	((unsigned long long)(value))
#define MAX_ENTRIES	24000	/* per thread */
#define MAX_RECENT	16

enum what { OP, EVENT, WORD, LISTED, ALL, STOPPED, LIVE };

/**
 * struct entry - a result that a thread got
 * @what: type of the entry
 * @op: OP: the operation as submitted, with the id that ARM returned
 * @event: EVENT: the event
 * @old: WORD: the old word
 * @new: WORD: the new word
 * @all: ALL: argument of CANCEL_ALL
 * @id: OP, EVENT, WORD, LISTED: id of the timeout
 * @thread: the thread
 * @cpu: the CPU that made the call
 * @result: OP: the result; LIVE: the number of live timeouts
 * @when: time of the call
 * @next: another entry with this id
 */
struct entry {
	enum what		what;
	union {
		struct twheel_op		op;
		struct twheel_event		event;
		struct {
			uint64_t	old, new;
		};
		struct twheel_cancel_all	all;
	};
	uint64_t		id;
	unsigned int		thread;
	int			cpu;
	int			result;
	struct during		when;
	struct entry		*next;
};

/* The ledger is in memory that a fork() does not copy. */
static struct page {
	unsigned int	nr;
	struct entry	entries[MAX_ENTRIES];
	uint64_t	recent[MAX_RECENT];
	unsigned int	nr_recent;
} *pages;

/**
 * struct life - the entries of one timeout
 * @id: id of the timeout; 0: unused
 * @judgement: number of the judgement; other values mean unused
 * @first: the latest entry
 * @birth: the entry of its ARM, or NULL
 * @end: the entry that ended it, or NULL
 */
struct life {
	uint64_t	id, judgement;
	struct entry	*first, *birth, *end;
};

#define MAX_LIVES	(1U << 17)	/* more than there are entries */
#define MAX_CANCELS	(MAX_THREADS * 64)

static struct life *lives;
static uint64_t judgement;
static struct entry *cancels[MAX_CANCELS];	/* entries of CANCEL_ALL without a cookie */
static unsigned int nr_cancels;

/**
 * struct deadline - a deadline that was written to a cell
 * @deadline: the deadline; all are different
 * @judgement: number of the judgement
 * @arming: entry that wrote it
 * @ended: it was returned by an exchange, or is in an event
 */
struct deadline {
	uint64_t		deadline, judgement;
	const struct entry	*arming;
	int			ended;
};

static struct deadline *deadlines;
static int ambiguous;		/* two deadlines are equal, so nothing can be judged */

static uint64_t tick;
static uint32_t clock_id, slack_us;

#define for_each_entry(e)								\
	for (struct page *page = pages; page < pages + MAX_THREADS; page++)		\
		for (struct entry *e = page->entries; e < page->entries + page->nr; e++)

/* Recording */

void ledger_clear(const struct file *file)
{
	clock_id = file->clock;
	tick = file->tick;
	slack_us = file->slack_us;
	if (!pages) {
		pages = shared_memory(MAX_THREADS * sizeof(*pages));
		lives = shared_memory(MAX_LIVES * sizeof(*lives));
		deadlines = shared_memory(MAX_LIVES * sizeof(*deadlines));
	}
	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		pages[i].nr = 0;
		pages[i].nr_recent = 0;
		memset(pages[i].recent, 0, sizeof(pages[i].recent));
	}
}

static struct entry *add(unsigned int thread, enum what what, uint64_t id, struct during when)
{
	struct page *page = &pages[thread];
	/*
	 * If a program makes more entries, the last one is overwritten and nothing is
	 * judged.
	 */
	struct entry *entry = &page->entries[page->nr < MAX_ENTRIES - 1 ? page->nr++ : page->nr];

	entry->what = what;
	entry->id = id;
	entry->thread = thread;
	entry->cpu = sched_getcpu();
	entry->when = when;
	return entry;
}

static void remember(unsigned int thread, uint64_t id)
{
	struct page *page = &pages[thread];

	__atomic_store_n(&page->recent[page->nr_recent++ % MAX_RECENT], id, __ATOMIC_RELEASE);
}

uint64_t ledger_pick(unsigned int thread, unsigned int n)
{
	/*
	 * For timeouts of other threads, operations may not be recorded yet when they are
	 * judged.
	 */
	struct page *page = &pages[n / 64 ? thread : n % MAX_THREADS];

	return __atomic_load_n(&page->recent[n % MAX_RECENT], __ATOMIC_ACQUIRE);
}

void ledger_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
	       int result, struct during when)
{
	int is_new = in->opcode == TWHEEL_OP_ARM && result == 0;
	struct entry *entry = add(thread, OP, is_new ? out->id : in->id, when);

	entry->op = *in;
	entry->result = result;
	/* All threads know the cells. */
	if (is_new && !(in->flags & TWHEEL_F_CELL))
		remember(thread, out->id);
}

void ledger_event(unsigned int thread, const struct twheel_event *event, struct during when)
{
	add(thread, EVENT, event->id, when)->event = *event;
}

void ledger_word(unsigned int thread, uint64_t id, uint64_t old, uint64_t new,
		 struct during when)
{
	struct entry *entry = add(thread, WORD, id, when);

	entry->old = old;
	entry->new = new;
}

void ledger_listed(unsigned int thread, uint64_t id, struct during when)
{
	add(thread, LISTED, id, when);
}

void ledger_cancel_all(unsigned int thread, const struct twheel_cancel_all *all,
		       struct during when)
{
	add(thread, ALL, 0, when)->all = *all;
}

void ledger_stop(unsigned int thread, struct during when)
{
	add(thread, STOPPED, 0, when);
}

void ledger_live(unsigned int thread, uint32_t live, struct during when)
{
	add(thread, LIVE, 0, when)->result = live;
}

/* Judgement */

static int is_birth(const struct entry *e)
{
	return e->what == OP && e->op.opcode == TWHEEL_OP_ARM && e->result == 0;
}

static int is_cell(const struct entry *birth)
{
	return birth && birth->op.flags & TWHEEL_F_CELL;
}

static int is_arming(const struct entry *e)
{
	return e->what == OP && e->op.opcode <= TWHEEL_OP_MOD && e->result >= 0;
}

static int cancels_all(const struct entry *e)
{
	return e->what == ALL && !e->all.flags;
}

static int is_end(const struct entry *e)
{
	switch (e->what) {
	case OP:
		return e->op.opcode == TWHEEL_OP_CANCEL && e->result >= 0;
	case EVENT:
		return e->event.flags & TWHEEL_EV_LAST;
	case ALL:
		return e->all.flags && e->all.pending + e->all.withdrawn;
	default:
		return 0;
	}
}

/* Find the life of @id, or the slot for it. */
static struct life *life_of(uint64_t id)
{
	uint32_t i = (id * 0x9e3779b97f4a7c15) >> 47;

	for (;; i = (i + 1) % MAX_LIVES) {
		if (lives[i].judgement != judgement)
			lives[i] = (struct life) { .judgement = judgement };
		if (!lives[i].id || lives[i].id == id)
			return &lives[i];
	}
}

/* A cancel by cookie returns no id: find it by the arming. */
static uint64_t id_with(uint64_t cookie)
{
	for_each_entry(e) {
		if (is_arming(e) && e->op.cookie == cookie)
			return e->id;
	}
	return 0;
}

static void enter(struct entry *e)
{
	struct life *life;

	if (e->what == ALL && is_end(e))
		e->id = id_with(e->all.cookie);
	if (!e->id)
		return;
	life = life_of(e->id);
	life->id = e->id;
	e->next = life->first;
	life->first = e;
	if (is_birth(e)) {
		EXPECT(!life->birth, "%#llx is given out twice", ULL(e->id));
		life->birth = e;
	}
	if (is_end(e)) {
		EXPECT(!life->end, "%#llx ends twice", ULL(e->id));
		life->end = e;
	}
}

/* Assign the entries to lives. */
static void sort_out(void)
{
	judgement++;
	nr_cancels = 0;
	for_each_entry(e) {
		if (cancels_all(e) && nr_cancels < MAX_CANCELS)
			cancels[nr_cancels++] = e;
		enter(e);
	}
}

static const struct entry *birth_of(uint64_t id)
{
	return life_of(id)->birth;
}

static const struct entry *end_of(const struct entry *birth)
{
	return life_of(birth->id)->end;
}

#define for_each_of(id, e)							\
	for (const struct entry *e = life_of(id)->first; e; e = e->next)

static const struct entry *arming_with(uint64_t id, uint64_t cookie)
{
	for_each_of(id, e) {
		if (is_arming(e) && e->op.cookie == cookie)
			return e;
	}
	return NULL;
}

static int is_stopped(struct during when, int surely)
{
	for_each_entry(e) {
		if (e->what == STOPPED &&
		    (surely ? e->when.end < when.begin : e->when.begin <= when.end))
			return 1;
	}
	return 0;
}

/* Returns whether the timeout may have been dead at some time in @when. */
static int may_be_dead(const struct entry *birth, struct during when)
{
	const struct entry *end = end_of(birth);

	/* The cell was idle, so STOP has ended it. */
	if (is_cell(birth) && is_stopped(when, 0))
		return 1;
	if (end)
		return end->when.begin <= when.end;
	for (unsigned int i = 0; i < nr_cancels; i++) {
		if (cancels[i]->when.begin <= when.end &&
		    cancels[i]->when.end >= birth->when.begin)
			return 1;
	}
	return 0;
}

/* Returns whether the timeout may have been alive at some time in @when. */
static int may_be_alive(const struct entry *birth, struct during when)
{
	const struct entry *end = end_of(birth);

	if (birth->when.begin > when.end || (end && end->when.end < when.begin))
		return 0;
	for (unsigned int i = 0; i < nr_cancels; i++) {
		if (cancels[i]->when.begin > birth->when.end &&
		    cancels[i]->when.end < when.begin)
			return 0;
	}
	return 1;
}

static uint64_t tick_of(uint64_t ns)
{
	uint64_t rest = ns % tick;

	return rest && ns <= NEVER - (tick - rest) ? ns + tick - rest : ns;
}

static uint64_t sum(uint64_t ns, uint64_t more)
{
	return ns > NEVER || more > NEVER - ns ? NEVER : ns + more;
}

static struct during deadline_of(const struct entry *arming)
{
	struct during deadline = { arming->op.expires_ns, arming->op.expires_ns };

	if (arming->op.flags & TWHEEL_F_ABS)
		return deadline;
	deadline.begin = sum(arming->when.begin, deadline.begin);
	deadline.end = sum(arming->when.end, deadline.end);
	return deadline;
}

/* Returns whether @arming was made after @e, or may have been. */
static int may_follow(const struct entry *arming, const struct entry *e)
{
	return arming->thread == e->thread ? arming >= e : arming->when.begin > e->when.end;
}

/*
 * Returns whether the timeout of @e, a MOD or CANCEL, may have had an event. One thread makes
 * all armings of a timeout, and the latest comes first.
 */
static int may_have_fired(const struct entry *e)
{
	if (is_stopped(e->when, 0))
		return 1;
	for_each_of(e->id, arming) {
		if (!is_arming(arming) || may_follow(arming, e))
			continue;
		if (tick_of(deadline_of(arming).begin) <= e->when.end)
			return 1;
		if (arming->thread == e->thread || arming->when.end < e->when.begin)
			return 0;
	}
	return 0;
}

static void judge_error(const struct entry *e, const struct entry *birth)
{
	switch (e->result) {
	case -EINVAL:
		EXPECT(e->op.opcode == TWHEEL_OP_KICK, "opcode %u: error EINVAL", e->op.opcode);
		break;
	case -ENOENT:
		EXPECT(e->op.opcode != TWHEEL_OP_ARM, "ARM: error ENOENT");
		EXPECT(!birth || may_be_dead(birth, e->when), "%#llx is not found, but lives",
		       ULL(e->id));
		break;
	case -ESHUTDOWN:
		EXPECT((e->op.opcode <= TWHEEL_OP_MOD || e->op.opcode == TWHEEL_OP_KICK) &&
		       is_stopped(e->when, 0),
		       "error ESHUTDOWN, but it was not stopped");
		break;
	default:
		disagree("opcode %u: error %d", e->op.opcode, -e->result);
	}
}

static void judge_op(const struct entry *e)
{
	const struct entry *birth = birth_of(e->id);

	if (e->result < 0) {
		judge_error(e, birth);
		return;
	}
	EXPECT(birth, "opcode %u works on %#llx, which does not exist", e->op.opcode, ULL(e->id));
	EXPECT((e->op.opcode > TWHEEL_OP_MOD && e->op.opcode != TWHEEL_OP_KICK) ||
	       !is_stopped(e->when, 1), "armed after STOP");
	if (e != birth)
		EXPECT(may_be_alive(birth, e->when), "opcode %u works on %#llx, which is dead",
		       e->op.opcode, ULL(e->id));
	EXPECT(e->result != TWHEEL_WITHDRAWN || is_cell(birth) || may_have_fired(e),
	       "opcode %u withdraws the event of %#llx, which was not due", e->op.opcode,
	       ULL(e->id));
}

/* An event of @arming was read: no later arming had replaced it, and it was not dead. */
static void judge_arming(const struct entry *arming, const struct entry *event)
{
	for_each_of(arming->id, e) {
		if (!is_arming(e) || e->when.begin < arming->when.end)
			continue;
		EXPECT(!(event->event.flags & TWHEEL_EV_LAST) && event->when.begin <= e->when.end,
		       "an event of %#llx, which was moved before that", ULL(e->id));
	}
}

static void judge_count(const struct entry *arming)
{
	uint64_t count = 0;
	int last = 0;

	for_each_of(arming->id, e) {
		if (e->what != EVENT || e->event.cookie != arming->op.cookie)
			continue;
		count += e->event.count;
		last |= e->event.flags;
	}
	EXPECT(count <= arming->op.repeat, "%llu deadlines of %u", ULL(count), arming->op.repeat);
	EXPECT(count < arming->op.repeat || last & TWHEEL_EV_LAST,
	       "all deadlines, and not the last event");
}

static void judge_deadline(const struct entry *arming, const struct twheel_event *event,
			   struct during when)
{
	struct during deadline = deadline_of(arming);
	uint64_t first = event->expires_ns;

	if (event->flags & TWHEEL_EV_UNPROCESSED) {
		EXPECT(!event->count && is_stopped(when, 0), "an unprocessed event");
		return;
	}
	if (arming->op.interval_ns)
		first -= (event->count - 1) * arming->op.interval_ns;
	else
		EXPECT(event->count == 1 && event->flags & TWHEEL_EV_LAST, "count %llu, flags %#x",
		       ULL(event->count), event->flags);
	EXPECT(first >= deadline.begin, "%#llx was not due", ULL(event->id));
	if (!arming->op.interval_ns)
		EXPECT(first <= deadline.end, "%#llx was due before", ULL(event->id));
	first = tick_of(first);
	EXPECT(event->fired_ns >= first, "%#llx is early", ULL(event->id));
	EXPECT(event->fired_ns <= when.end, "%#llx fires in the future", ULL(event->id));
}

/*
 * The arming of an event whose order is known, or NULL: the timeout was not due when it was
 * armed, and was not moved.
 */
static const struct entry *arming_in_order(const struct entry *e)
{
	const struct entry *birth = birth_of(e->id);

	if (!birth || is_cell(birth) || e->event.flags & TWHEEL_EV_UNPROCESSED ||
	    e->event.cookie != birth->op.cookie)
		return NULL;
	if (birth->op.interval_ns || birth->op.slack_us ||
	    (slack_us && !(birth->op.flags & TWHEEL_F_EXACT)))
		return NULL;
	return deadline_of(birth).begin > birth->when.end ? birth : NULL;
}

static uint64_t time_in_order(const struct entry *e)
{
	if (clock_id == CLOCK_REALTIME && !device_is_process())
		return e->event.expires_ns;
	return tick_of(e->event.expires_ns);
}

/* Compare an event with the one before it, in the same read(), that was armed on the same CPU. */
static void judge_order(const struct entry *e)
{
	const struct entry *first = pages[e->thread].entries, *last = e;
	const struct entry *arming = arming_in_order(e), *before = NULL;
	uint64_t time = time_in_order(e), last_time;

	while (arming && last-- > first && last->what == EVENT &&
	       last->when.begin == e->when.begin) {
		before = arming_in_order(last);
		if (before && before->cpu == arming->cpu)
			break;
		before = NULL;
	}
	if (!before)
		return;
	last_time = time_in_order(last);
	/* The order of two threads is not known. */
	EXPECT(last_time < time || (last_time == time && (before->thread != arming->thread ||
							  before < arming)),
	       "%#llx comes after %#llx", ULL(e->id), ULL(last->id));
}

static void judge_event(const struct entry *e)
{
	const struct entry *birth = birth_of(e->id);
	const struct entry *arming = arming_with(e->id, e->event.cookie);

	if (is_cell(birth))
		return;
	EXPECT(birth && arming, "an event of %#llx, cookie %#llx", ULL(e->id),
	       ULL(e->event.cookie));
	EXPECT(may_be_alive(birth, e->when), "an event of %#llx, which is dead", ULL(e->id));
	judge_arming(arming, e);
	judge_deadline(arming, &e->event, e->when);
	if (arming->op.repeat && !disagreed())
		judge_count(arming);
	if (!disagreed())
		judge_order(e);
}

static void judge_live(const struct entry *e)
{
	uint32_t least = 0, most = 0;

	for_each_entry(other) {
		if (!is_birth(other))
			continue;
		most += may_be_alive(other, e->when);
		least += other->when.end < e->when.begin && !may_be_dead(other, e->when);
	}
	EXPECT((uint32_t)e->result >= least && (uint32_t)e->result <= most,
	       "%d live, not %u to %u, at %llu", e->result, least, most, ULL(e->when.begin));
}

static void judge_listed(const struct entry *e)
{
	const struct entry *birth = birth_of(e->id);

	EXPECT(birth && may_be_alive(birth, e->when), "%#llx is listed", ULL(e->id));
}

static void judge_entry(const struct entry *e)
{
	switch (e->what) {
	case OP:
		judge_op(e);
		break;
	case EVENT:
		judge_event(e);
		break;
	case LISTED:
		judge_listed(e);
		break;
	case LIVE:
		judge_live(e);
		break;
	default:
		break;
	}
}

/* Cells */

static struct deadline *deadline_at(uint64_t deadline)
{
	uint32_t i = (deadline * 0x9e3779b97f4a7c15) >> 47;

	for (;; i = (i + 1) % MAX_LIVES) {
		if (deadlines[i].judgement != judgement)
			deadlines[i] = (struct deadline) { .judgement = judgement };
		if (!deadlines[i].arming || deadlines[i].deadline == deadline)
			return &deadlines[i];
	}
}

/* The deadline that @e wrote into the word of a cell; a value above NEVER if none. */
static uint64_t written_by(const struct entry *e)
{
	if (e->what == WORD)
		return e->new;
	return is_arming(e) && is_cell(birth_of(e->id)) ? e->op.expires_ns : TWHEEL_CELL_IDLE;
}

static void enter_deadlines(void)
{
	ambiguous = 0;
	for_each_entry(e) {
		uint64_t deadline = written_by(e);
		struct deadline *d;

		if (deadline > NEVER)
			continue;
		d = deadline_at(deadline);
		ambiguous |= !!d->arming;
		d->deadline = deadline;
		d->arming = e;
	}
}

/* @e shows that the deadline has left the word. */
static void end_deadline(const struct entry *e, uint64_t deadline)
{
	struct deadline *d = deadline_at(deadline);

	EXPECT(d->arming && d->arming->id == e->id, "%#llx was never armed for %llu", ULL(e->id),
	       ULL(deadline));
	EXPECT(!d->ended, "an arming of %#llx for %llu ends twice", ULL(e->id), ULL(deadline));
	EXPECT(d->arming->when.begin <= e->when.end, "%#llx is not yet armed for %llu", ULL(e->id),
	       ULL(deadline));
	d->ended = 1;
}

static void judge_cell_event(const struct entry *e)
{
	const struct twheel_event *event = &e->event;
	const struct entry *arming = deadline_at(event->expires_ns)->arming;
	int stopped = !!(event->flags & TWHEEL_EV_LAST);

	end_deadline(e, event->expires_ns);
	if (disagreed())
		return;
	EXPECT(!stopped || is_stopped(e->when, 0), "the last event of %#llx", ULL(e->id));
	EXPECT(stopped || !is_stopped(e->when, 1), "not the last event of %#llx", ULL(e->id));
	EXPECT(event->fired_ns <= e->when.end, "%#llx fires in the future", ULL(e->id));
	if (event->flags & TWHEEL_EV_UNPROCESSED) {
		EXPECT(stopped && !event->count, "an unprocessed event");
		return;
	}
	EXPECT(event->count == 1, "count %llu", ULL(event->count));
	EXPECT(event->fired_ns >= event->expires_ns, "%#llx is early", ULL(e->id));
	/* On other clocks the word may have been written after the time of the batch. */
	EXPECT(clock_id != CLOCK_REALTIME || event->fired_ns >= arming->when.begin,
	       "%#llx fired before it was armed", ULL(e->id));
}

/* Returns whether @e is a MOD or CANCEL, whose result tells the type of the old word. */
static int replaces_word(const struct entry *e)
{
	return e->what == OP && (e->op.opcode == TWHEEL_OP_MOD ||
				 e->op.opcode == TWHEEL_OP_CANCEL);
}

/* Change of the number of armings of its cell by @e: 1, -1 or 0. */
static int change_of(const struct entry *e)
{
	int written = written_by(e) <= NEVER, left = 0;

	if (e->what == WORD)
		left = e->old <= NEVER || e->old == TWHEEL_CELL_FIRED;
	else if (e->what == EVENT)
		left = 1;
	else if (replaces_word(e))
		left = e->result == 0 || e->result == TWHEEL_WITHDRAWN;
	return written - left;
}

/* Number of armings that no entry has ended: CANCEL_ALL has ended these. */
static uint64_t judge_armings(void)
{
	uint64_t open = 0;

	for_each_entry(e) {
		int armings = 0;

		if (!is_birth(e) || !is_cell(e))
			continue;
		for_each_of(e->id, other)
			armings += change_of(other);
		if (armings < 0 || armings > 1)
			disagree("%d armings of %#llx have no end", armings, ULL(e->id));
		open += armings;
	}
	return open;
}

/* Returns the number of cells that were armed when CANCEL_ALL ran. */
static uint64_t judge_cells(const struct twheel_stats *stats)
{
	uint64_t withdrawn = 0, kicks = 0;
	int alone = !nr_cancels;

	for_each_entry(e) {
		if (disagreed())
			return 0;
		if (e->what == WORD && e->old <= NEVER)
			end_deadline(e, e->old);
		if (e->what == EVENT && is_cell(birth_of(e->id)))
			judge_cell_event(e);
		withdrawn += e->what == WORD && e->old == TWHEEL_CELL_FIRED;
		kicks += e->what == OP && e->op.opcode == TWHEEL_OP_KICK && e->result == 0;
		if (replaces_word(e) && is_cell(birth_of(e->id)))
			alone = 0;
	}
	if (stats->kicks != kicks)
		disagree("STATS: %llu kicks, not %llu", stats->kicks, ULL(kicks));
	/* A call may end the timeout before its withdrawn event is counted. */
	if (stats->dropped > withdrawn || (alone && stats->dropped < withdrawn))
		disagree("STATS: %llu dropped of %llu", stats->dropped, ULL(withdrawn));
	return judge_armings();
}

/* Every timeout has ended, and is counted by the call that ended it. */
static void judge_counts(const struct twheel_stats *stats)
{
	uint64_t births = 0, moved = 0, cancelled = 0, withdrawn = 0, all = 0, read = 0;
	uint64_t ended = 0, open = 0;
	uint64_t armed = judge_cells(stats), cells = 0, taken = 0;
	uint64_t made = stats->fired + stats->unprocessed, used = stats->read + stats->dropped;

	if (disagreed())
		return;
	for_each_entry(e) {
		if (is_birth(e)) {
			births++;
			if (is_cell(e))
				cells += !end_of(e);
			else
				open += !end_of(e);
		}
		moved += is_arming(e) && !is_birth(e);
		taken += is_arming(e) && e->result == TWHEEL_WITHDRAWN;
		if (e->what == OP && e->op.opcode == TWHEEL_OP_CANCEL && e->result >= 0) {
			cancelled += e->result == 0;
			withdrawn += e->result == TWHEEL_WITHDRAWN;
			ended += e->result == TWHEEL_IDLE;
		}
		if (e->what == ALL) {
			cancelled += e->all.pending;
			withdrawn += e->all.withdrawn;
			all += cancels_all(e) ? e->all.pending + e->all.withdrawn : 0;
		}
		read += e->what == EVENT;
		ended += e->what == EVENT && e->event.flags & TWHEEL_EV_LAST;
	}
	/* Of these cells, @armed were armed. The others were idle and have just ended. */
	open += armed;
	ended += cells - armed;
	EXPECT(all == open, "%llu were cancelled together, not %llu", ULL(all), ULL(open));
	EXPECT(stats->armed == births, "STATS: %llu armed, not %llu", stats->armed, ULL(births));
	EXPECT(stats->moved == moved, "STATS: %llu moved, not %llu", stats->moved, ULL(moved));
	EXPECT(stats->read == read, "STATS: %llu read, not %llu", stats->read, ULL(read));
	EXPECT(stats->ended == ended, "STATS: %llu ended, not %llu", stats->ended, ULL(ended));
	EXPECT(stats->cancelled == cancelled, "STATS: %llu cancelled, not %llu", stats->cancelled,
	       ULL(cancelled));
	EXPECT(stats->withdrawn == withdrawn, "STATS: %llu withdrawn, not %llu", stats->withdrawn,
	       ULL(withdrawn));
	/* A timeout that is moved or cancelled on its way to the sink has no event yet. */
	EXPECT(made >= used && made <= used + withdrawn + taken,
	       "STATS: %llu events, %llu read or dropped", ULL(made), ULL(used));
	EXPECT(!stats->live && !stats->ready, "STATS: %u live, %u ready", stats->live,
	       stats->ready);
}

/* Printing */

static int earlier(const void *a, const void *b)
{
	const struct entry *left = *(const struct entry **)a, *right = *(const struct entry **)b;

	return left->when.begin < right->when.begin ? -1 : 1;
}

static void print_entry(FILE *file, const struct entry *e)
{
	static const char * const names[] = {
		[OP] = "operation", [EVENT] = "event", [WORD] = "word", [LISTED] = "listed",
		[ALL] = "cancel_all", [STOPPED] = "stop", [LIVE] = "live",
	};

	fprintf(file, "# %llu to %llu: %s %#llx", ULL(e->when.begin), ULL(e->when.end),
		names[e->what], ULL(e->id));
	if (e->what == OP)
		fprintf(file, " opcode %u cookie %#llx expires %llu interval %llu repeat %u",
			e->op.opcode, e->op.cookie, e->op.expires_ns, e->op.interval_ns,
			e->op.repeat);
	if (e->what == OP || e->what == LIVE)
		fprintf(file, ": %d", e->result);
	if (e->what == EVENT)
		fprintf(file, " cookie %#llx expires %llu fired %llu count %llu flags %#x",
			e->event.cookie, e->event.expires_ns, e->event.fired_ns, e->event.count,
			e->event.flags);
	if (e->what == WORD)
		fprintf(file, " was %llu is %llu", ULL(e->old), ULL(e->new));
	if (e->what == ALL)
		fprintf(file, " cookie %#llx: %u pending, %u withdrawn", e->all.cookie,
			e->all.pending, e->all.withdrawn);
	putc('\n', file);
}

void ledger_print(FILE *file)
{
	static const struct entry *sorted[MAX_THREADS * MAX_ENTRIES];
	unsigned int nr = 0;

	for_each_entry(e)
		sorted[nr++] = e;
	qsort(sorted, nr, sizeof(sorted[0]), earlier);
	for (unsigned int i = 0; i < nr; i++)
		print_entry(file, sorted[i]);
}

static int is_complete(void)
{
	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		if (pages[i].nr == MAX_ENTRIES - 1)
			return 0;
	}
	return 1;
}

void ledger_judge(const struct twheel_stats *stats)
{
	if (!is_complete())
		return;
	sort_out();
	enter_deadlines();
	if (ambiguous)
		return;
	for_each_entry(e) {
		if (disagreed())
			return;
		judge_entry(e);
	}
	judge_counts(stats);
}
