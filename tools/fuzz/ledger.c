// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "fuzz.h"
#include "ledger.h"

#define MAX_ENTRIES	24000	/* per thread */
#define MAX_RECENT	16

enum entry_type { OP, EVENT, WORD, LISTED, ALL, STOPPED, LIVE };

/**
 * struct entry - a result that a thread got
 * @entry_type: type of the entry
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
	enum entry_type		entry_type;
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
	struct time_range	when;
	struct entry		*next;
};

/* The ledger is in memory that a fork() does not copy. */
static struct thread_log {
	unsigned int	nr;
	struct entry	entries[MAX_ENTRIES];
	uint64_t	recent[MAX_RECENT];
	unsigned int	nr_recent;
} *thread_logs;

/**
 * struct timeout_log - the entries of one timeout
 * @id: id of the timeout; 0: unused
 * @check_nr: number of the check; other values mean unused
 * @first: the latest entry
 * @arm: the entry of its ARM, or NULL
 * @end: the entry that ended it, or NULL
 */
struct timeout_log {
	uint64_t	id, check_nr;
	struct entry	*first, *arm, *end;
};

#define HASH_SIZE	(1U << 17)	/* more than there are entries */
#define MAX_CANCELS	(MAX_THREADS * 64)

static struct timeout_log *timeout_logs;
static uint64_t check_nr;
static struct entry *cancels[MAX_CANCELS];	/* entries of CANCEL_ALL without a cookie */
static unsigned int nr_cancels;

/**
 * struct deadline - a deadline that was written to a cell
 * @deadline: the deadline; all are different
 * @check_nr: number of the check
 * @arming: entry that wrote it
 * @ended: it was returned by an exchange, or is in an event
 */
struct deadline {
	uint64_t		deadline, check_nr;
	const struct entry	*arming;
	int			ended;
};

static struct deadline *deadlines;
static int ambiguous;		/* two deadlines are equal, so nothing can be checked */

static const struct file *race_file;	/* the values of SETUP alone */

#define for_each_entry(e)								\
	for (struct thread_log *log = thread_logs; log < thread_logs + MAX_THREADS; log++)	\
		for (struct entry *e = log->entries; e < log->entries + log->nr; e++)

/* Recording */

void ledger_clear(const struct file *file)
{
	race_file = file;
	if (!thread_logs) {
		thread_logs = shared_memory(MAX_THREADS * sizeof(*thread_logs));
		timeout_logs = shared_memory(HASH_SIZE * sizeof(*timeout_logs));
		deadlines = shared_memory(HASH_SIZE * sizeof(*deadlines));
	}
	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		thread_logs[i].nr = 0;
		thread_logs[i].nr_recent = 0;
		memset(thread_logs[i].recent, 0, sizeof(thread_logs[i].recent));
	}
}

static struct entry *add(unsigned int thread, enum entry_type entry_type, uint64_t id,
			 struct time_range when)
{
	struct thread_log *log = &thread_logs[thread];
	/*
	 * If a program makes more entries, the last one is overwritten and nothing is
	 * checked.
	 */
	struct entry *entry = &log->entries[log->nr < MAX_ENTRIES - 1 ? log->nr++ : log->nr];

	entry->entry_type = entry_type;
	entry->id = id;
	entry->thread = thread;
	entry->cpu = sched_getcpu();
	entry->when = when;
	return entry;
}

static void record_recent_id(unsigned int thread, uint64_t id)
{
	struct thread_log *log = &thread_logs[thread];

	__atomic_store_n(&log->recent[log->nr_recent++ % MAX_RECENT], id, __ATOMIC_RELEASE);
}

uint64_t ledger_pick(unsigned int thread, unsigned int n)
{
	/*
	 * For timeouts of other threads, operations may not be recorded yet when they are
	 * checked.
	 */
	struct thread_log *log = &thread_logs[n / 64 ? thread : n % MAX_THREADS];

	return __atomic_load_n(&log->recent[n % MAX_RECENT], __ATOMIC_ACQUIRE);
}

void ledger_op(unsigned int thread, const struct twheel_op *in, const struct twheel_op *out,
	       int result, struct time_range when)
{
	int is_new = in->opcode == TWHEEL_OP_ARM && result == 0;
	struct entry *entry = add(thread, OP, is_new ? out->id : in->id, when);

	entry->op = *in;
	entry->result = result;
	/* All threads know the cells. */
	if (is_new && !(in->flags & TWHEEL_F_CELL))
		record_recent_id(thread, out->id);
}

void ledger_event(unsigned int thread, const struct twheel_event *event, struct time_range when)
{
	add(thread, EVENT, event->id, when)->event = *event;
}

void ledger_word(unsigned int thread, uint64_t id, uint64_t old, uint64_t new,
		 struct time_range when)
{
	struct entry *entry = add(thread, WORD, id, when);

	entry->old = old;
	entry->new = new;
}

void ledger_listed(unsigned int thread, uint64_t id, struct time_range when)
{
	add(thread, LISTED, id, when);
}

void ledger_cancel_all(unsigned int thread, const struct twheel_cancel_all *all,
		       struct time_range when)
{
	add(thread, ALL, 0, when)->all = *all;
}

void ledger_stop(unsigned int thread, struct time_range when)
{
	add(thread, STOPPED, 0, when);
}

void ledger_live(unsigned int thread, uint32_t live, struct time_range when)
{
	add(thread, LIVE, 0, when)->result = live;
}

/* Checks */

static int is_first_arm(const struct entry *e)
{
	return e->entry_type == OP && e->op.opcode == TWHEEL_OP_ARM && e->result == 0;
}

static int is_cell(const struct entry *arm)
{
	return arm && arm->op.flags & TWHEEL_F_CELL;
}

static int is_arming(const struct entry *e)
{
	return e->entry_type == OP && e->op.opcode <= TWHEEL_OP_MOD && e->result >= 0;
}

static int cancels_all(const struct entry *e)
{
	return e->entry_type == ALL && !e->all.flags;
}

static int is_end(const struct entry *e)
{
	switch (e->entry_type) {
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

/* Find the log of @id, or the slot for it. */
static struct timeout_log *find_timeout_log(uint64_t id)
{
	uint32_t i = (id * 0x9e3779b97f4a7c15) >> 47;

	for (;; i = (i + 1) % HASH_SIZE) {
		if (timeout_logs[i].check_nr != check_nr)
			timeout_logs[i] = (struct timeout_log) { .check_nr = check_nr };
		if (!timeout_logs[i].id || timeout_logs[i].id == id)
			return &timeout_logs[i];
	}
}

/* A cancel by cookie returns no id: find it by the arming. */
static uint64_t find_id_by_cookie(uint64_t cookie)
{
	for_each_entry(e) {
		if (is_arming(e) && e->op.cookie == cookie)
			return e->id;
	}
	return 0;
}

static void add_to_timeout_log(struct entry *e)
{
	struct timeout_log *timeout_log;

	if (e->entry_type == ALL && is_end(e))
		e->id = find_id_by_cookie(e->all.cookie);
	if (!e->id)
		return;
	timeout_log = find_timeout_log(e->id);
	timeout_log->id = e->id;
	e->next = timeout_log->first;
	timeout_log->first = e;
	if (is_first_arm(e)) {
		EXPECT(!timeout_log->arm, "%#llx is given out twice", ULL(e->id));
		timeout_log->arm = e;
	}
	if (is_end(e)) {
		EXPECT(!timeout_log->end, "%#llx ends twice", ULL(e->id));
		timeout_log->end = e;
	}
}

/* Assign the entries to timeouts. */
static void sort_by_timeout(void)
{
	check_nr++;
	nr_cancels = 0;
	for_each_entry(e) {
		if (cancels_all(e) && nr_cancels < MAX_CANCELS)
			cancels[nr_cancels++] = e;
		add_to_timeout_log(e);
	}
}

static const struct entry *first_arm_of(uint64_t id)
{
	return find_timeout_log(id)->arm;
}

static const struct entry *end_of(const struct entry *arm)
{
	return find_timeout_log(arm->id)->end;
}

#define for_each_entry_of(id, e)						\
	for (const struct entry *e = find_timeout_log(id)->first; e; e = e->next)

static const struct entry *find_arming(uint64_t id, uint64_t cookie)
{
	for_each_entry_of(id, e) {
		if (is_arming(e) && e->op.cookie == cookie)
			return e;
	}
	return NULL;
}

static int is_stopped(struct time_range when, int surely)
{
	for_each_entry(e) {
		if (e->entry_type == STOPPED &&
		    (surely ? e->when.end < when.begin : e->when.begin <= when.end))
			return 1;
	}
	return 0;
}

/* Returns whether the timeout may have been dead at some time in @when. */
static int may_be_dead(const struct entry *arm, struct time_range when)
{
	const struct entry *end = end_of(arm);

	/* The cell was idle, so STOP has ended it. */
	if (is_cell(arm) && is_stopped(when, 0))
		return 1;
	if (end)
		return end->when.begin <= when.end;
	for (unsigned int i = 0; i < nr_cancels; i++) {
		if (cancels[i]->when.begin <= when.end &&
		    cancels[i]->when.end >= arm->when.begin)
			return 1;
	}
	return 0;
}

/* Returns whether the timeout may have been alive at some time in @when. */
static int may_be_alive(const struct entry *arm, struct time_range when)
{
	const struct entry *end = end_of(arm);

	if (arm->when.begin > when.end || (end && end->when.end < when.begin))
		return 0;
	for (unsigned int i = 0; i < nr_cancels; i++) {
		if (cancels[i]->when.begin > arm->when.end &&
		    cancels[i]->when.end < when.begin)
			return 0;
	}
	return 1;
}

static struct time_range deadline_of(const struct entry *arming)
{
	struct time_range deadline = { arming->op.expires_ns, arming->op.expires_ns };

	if (arming->op.flags & TWHEEL_F_ABS)
		return deadline;
	deadline.begin = model_sum(arming->when.begin, deadline.begin);
	deadline.end = model_sum(arming->when.end, deadline.end);
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
	for_each_entry_of(e->id, arming) {
		if (!is_arming(arming) || may_follow(arming, e))
			continue;
		if (model_tick(race_file, deadline_of(arming).begin) <= e->when.end)
			return 1;
		if (arming->thread == e->thread || arming->when.end < e->when.begin)
			return 0;
	}
	return 0;
}

static void check_error(const struct entry *e, const struct entry *arm)
{
	switch (e->result) {
	case -EINVAL:
		EXPECT(e->op.opcode == TWHEEL_OP_KICK, "opcode %u: error EINVAL", e->op.opcode);
		break;
	case -ENOENT:
		EXPECT(e->op.opcode != TWHEEL_OP_ARM, "ARM: error ENOENT");
		EXPECT(!arm || may_be_dead(arm, e->when), "%#llx is not found, but lives",
		       ULL(e->id));
		break;
	case -ESHUTDOWN:
		EXPECT((e->op.opcode <= TWHEEL_OP_MOD || e->op.opcode == TWHEEL_OP_KICK) &&
		       is_stopped(e->when, 0),
		       "error ESHUTDOWN, but it was not stopped");
		break;
	default:
		mismatch("opcode %u: error %d", e->op.opcode, -e->result);
	}
}

static void check_op(const struct entry *e)
{
	const struct entry *arm = first_arm_of(e->id);

	if (e->result < 0) {
		check_error(e, arm);
		return;
	}
	EXPECT(arm, "opcode %u works on %#llx, which does not exist", e->op.opcode, ULL(e->id));
	EXPECT((e->op.opcode > TWHEEL_OP_MOD && e->op.opcode != TWHEEL_OP_KICK) ||
	       !is_stopped(e->when, 1), "armed after STOP");
	if (e != arm)
		EXPECT(may_be_alive(arm, e->when), "opcode %u works on %#llx, which is dead",
		       e->op.opcode, ULL(e->id));
	EXPECT(e->result != TWHEEL_WITHDRAWN || is_cell(arm) || may_have_fired(e),
	       "opcode %u withdraws the event of %#llx, which was not due", e->op.opcode,
	       ULL(e->id));
}

/* An event of @arming was read: no later arming had replaced it, and it was not dead. */
static void check_arming(const struct entry *arming, const struct entry *event)
{
	for_each_entry_of(arming->id, e) {
		if (!is_arming(e) || e->when.begin < arming->when.end)
			continue;
		EXPECT(!(event->event.flags & TWHEEL_EV_LAST) && event->when.begin <= e->when.end,
		       "an event of %#llx, which was moved before that", ULL(e->id));
	}
}

static void check_count(const struct entry *arming)
{
	uint64_t count = 0;
	int last = 0;

	for_each_entry_of(arming->id, e) {
		if (e->entry_type != EVENT || e->event.cookie != arming->op.cookie)
			continue;
		count += e->event.count;
		last |= e->event.flags;
	}
	EXPECT(count <= arming->op.repeat, "%llu deadlines of %u", ULL(count), arming->op.repeat);
	EXPECT(count < arming->op.repeat || last & TWHEEL_EV_LAST,
	       "all deadlines, and not the last event");
}

static void check_deadline(const struct entry *arming, const struct twheel_event *event,
			   struct time_range when)
{
	struct time_range deadline = deadline_of(arming);
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
	first = model_tick(race_file, first);
	EXPECT(event->fired_ns >= first, "%#llx is early", ULL(event->id));
	EXPECT(event->fired_ns <= when.end, "%#llx fires in the future", ULL(event->id));
}

/*
 * The arming of an event whose order is known, or NULL: the timeout was not due when it was
 * armed, and was not moved.
 */
static const struct entry *arming_with_known_order(const struct entry *e)
{
	const struct entry *arm = first_arm_of(e->id);

	if (!arm || is_cell(arm) || e->event.flags & TWHEEL_EV_UNPROCESSED ||
	    e->event.cookie != arm->op.cookie)
		return NULL;
	if (arm->op.interval_ns || arm->op.slack_us ||
	    (race_file->slack_us && !(arm->op.flags & TWHEEL_F_EXACT)))
		return NULL;
	return deadline_of(arm).begin > arm->when.end ? arm : NULL;
}

static uint64_t order_time(const struct entry *e)
{
	if (race_file->clock == CLOCK_REALTIME && !device_is_process())
		return e->event.expires_ns;
	return model_tick(race_file, e->event.expires_ns);
}

/* Compare an event with the one before it, in the same read(), that was armed on the same CPU. */
static void check_order(const struct entry *e)
{
	const struct entry *first = thread_logs[e->thread].entries, *last = e;
	const struct entry *arming = arming_with_known_order(e), *before = NULL;
	uint64_t time = order_time(e), last_time;

	while (arming && last-- > first && last->entry_type == EVENT &&
	       last->when.begin == e->when.begin) {
		before = arming_with_known_order(last);
		if (before && before->cpu == arming->cpu)
			break;
		before = NULL;
	}
	if (!before)
		return;
	last_time = order_time(last);
	/* The order of two threads is not known. */
	EXPECT(last_time < time || (last_time == time && (before->thread != arming->thread ||
							  before < arming)),
	       "%#llx comes after %#llx", ULL(e->id), ULL(last->id));
}

static void check_event(const struct entry *e)
{
	const struct entry *arm = first_arm_of(e->id);
	const struct entry *arming = find_arming(e->id, e->event.cookie);

	if (is_cell(arm))
		return;
	EXPECT(arm && arming, "an event of %#llx, cookie %#llx", ULL(e->id),
	       ULL(e->event.cookie));
	EXPECT(may_be_alive(arm, e->when), "an event of %#llx, which is dead", ULL(e->id));
	check_arming(arming, e);
	check_deadline(arming, &e->event, e->when);
	if (arming->op.repeat && !mismatch_found())
		check_count(arming);
	if (!mismatch_found())
		check_order(e);
}

static void check_live(const struct entry *e)
{
	uint32_t least = 0, most = 0;

	for_each_entry(other) {
		if (!is_first_arm(other))
			continue;
		most += may_be_alive(other, e->when);
		least += other->when.end < e->when.begin && !may_be_dead(other, e->when);
	}
	EXPECT((uint32_t)e->result >= least && (uint32_t)e->result <= most,
	       "%d live, not %u to %u, at %llu", e->result, least, most, ULL(e->when.begin));
}

static void check_listed(const struct entry *e)
{
	const struct entry *arm = first_arm_of(e->id);

	EXPECT(arm && may_be_alive(arm, e->when), "%#llx is listed", ULL(e->id));
}

static void check_entry(const struct entry *e)
{
	switch (e->entry_type) {
	case OP:
		check_op(e);
		break;
	case EVENT:
		check_event(e);
		break;
	case LISTED:
		check_listed(e);
		break;
	case LIVE:
		check_live(e);
		break;
	default:
		break;
	}
}

/* Cells */

static struct deadline *find_deadline(uint64_t deadline)
{
	uint32_t i = (deadline * 0x9e3779b97f4a7c15) >> 47;

	for (;; i = (i + 1) % HASH_SIZE) {
		if (deadlines[i].check_nr != check_nr)
			deadlines[i] = (struct deadline) { .check_nr = check_nr };
		if (!deadlines[i].arming || deadlines[i].deadline == deadline)
			return &deadlines[i];
	}
}

/* The deadline that @e wrote into the word of a cell; a value above NEVER if none. */
static uint64_t written_deadline(const struct entry *e)
{
	if (e->entry_type == WORD)
		return e->new;
	return is_arming(e) && is_cell(first_arm_of(e->id)) ? e->op.expires_ns : TWHEEL_CELL_IDLE;
}

static void record_deadlines(void)
{
	ambiguous = 0;
	for_each_entry(e) {
		uint64_t deadline = written_deadline(e);
		struct deadline *d;

		if (deadline > NEVER)
			continue;
		d = find_deadline(deadline);
		ambiguous |= !!d->arming;
		d->deadline = deadline;
		d->arming = e;
	}
}

/* @e shows that the deadline has left the word. */
static void end_deadline(const struct entry *e, uint64_t deadline)
{
	struct deadline *d = find_deadline(deadline);

	EXPECT(d->arming && d->arming->id == e->id, "%#llx was never armed for %llu", ULL(e->id),
	       ULL(deadline));
	EXPECT(!d->ended, "an arming of %#llx for %llu ends twice", ULL(e->id), ULL(deadline));
	EXPECT(d->arming->when.begin <= e->when.end, "%#llx is not yet armed for %llu", ULL(e->id),
	       ULL(deadline));
	d->ended = 1;
}

static void check_cell_event(const struct entry *e)
{
	const struct twheel_event *event = &e->event;
	const struct entry *arming = find_deadline(event->expires_ns)->arming;
	int stopped = !!(event->flags & TWHEEL_EV_LAST);

	end_deadline(e, event->expires_ns);
	if (mismatch_found())
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
	EXPECT(race_file->clock != CLOCK_REALTIME || event->fired_ns >= arming->when.begin,
	       "%#llx fired before it was armed", ULL(e->id));
}

/* Returns whether @e is a MOD or CANCEL, whose result tells the type of the old word. */
static int replaces_word(const struct entry *e)
{
	return e->entry_type == OP && (e->op.opcode == TWHEEL_OP_MOD ||
				       e->op.opcode == TWHEEL_OP_CANCEL);
}

/* Change of the number of armings of its cell by @e: 1, -1 or 0. */
static int count_change(const struct entry *e)
{
	int written = written_deadline(e) <= NEVER, left = 0;

	if (e->entry_type == WORD)
		left = e->old <= NEVER || e->old == TWHEEL_CELL_FIRED;
	else if (e->entry_type == EVENT)
		left = 1;
	else if (replaces_word(e))
		left = e->result == 0 || e->result == TWHEEL_WITHDRAWN;
	return written - left;
}

/* Number of armings that no entry has ended: CANCEL_ALL has ended these. */
static uint64_t check_armings(void)
{
	uint64_t open = 0;

	for_each_entry(e) {
		int armings = 0;

		if (!is_first_arm(e) || !is_cell(e))
			continue;
		for_each_entry_of(e->id, other)
			armings += count_change(other);
		if (armings < 0 || armings > 1)
			mismatch("%d armings of %#llx have no end", armings, ULL(e->id));
		open += armings;
	}
	return open;
}

/* Returns the number of cells that were armed when CANCEL_ALL ran. */
static uint64_t check_cells(const struct twheel_stats *stats)
{
	uint64_t withdrawn = 0, kicks = 0;
	int alone = !nr_cancels;

	for_each_entry(e) {
		if (mismatch_found())
			return 0;
		if (e->entry_type == WORD && e->old <= NEVER)
			end_deadline(e, e->old);
		if (e->entry_type == EVENT && is_cell(first_arm_of(e->id)))
			check_cell_event(e);
		withdrawn += e->entry_type == WORD && e->old == TWHEEL_CELL_FIRED;
		kicks += e->entry_type == OP && e->op.opcode == TWHEEL_OP_KICK && e->result == 0;
		if (replaces_word(e) && is_cell(first_arm_of(e->id)))
			alone = 0;
	}
	if (stats->kicks != kicks)
		mismatch("STATS: %llu kicks, not %llu", stats->kicks, ULL(kicks));
	/* A call may end the timeout before its withdrawn event is counted. */
	if (stats->dropped > withdrawn || (alone && stats->dropped < withdrawn))
		mismatch("STATS: %llu dropped of %llu", stats->dropped, ULL(withdrawn));
	return check_armings();
}

/* Every timeout has ended, and is counted by the call that ended it. */
static void check_counts(const struct twheel_stats *stats)
{
	uint64_t first_arms = 0, moved = 0, cancelled = 0, withdrawn = 0, all = 0, read = 0;
	uint64_t ended = 0, open = 0;
	uint64_t armed = check_cells(stats), cells = 0, taken = 0;
	uint64_t made = stats->fired + stats->unprocessed, used = stats->read + stats->dropped;

	if (mismatch_found())
		return;
	for_each_entry(e) {
		if (is_first_arm(e)) {
			first_arms++;
			if (is_cell(e))
				cells += !end_of(e);
			else
				open += !end_of(e);
		}
		moved += is_arming(e) && !is_first_arm(e);
		taken += is_arming(e) && e->result == TWHEEL_WITHDRAWN;
		if (e->entry_type == OP && e->op.opcode == TWHEEL_OP_CANCEL && e->result >= 0) {
			cancelled += e->result == 0;
			withdrawn += e->result == TWHEEL_WITHDRAWN;
			ended += e->result == TWHEEL_IDLE;
		}
		if (e->entry_type == ALL) {
			cancelled += e->all.pending;
			withdrawn += e->all.withdrawn;
			all += cancels_all(e) ? e->all.pending + e->all.withdrawn : 0;
		}
		read += e->entry_type == EVENT;
		ended += e->entry_type == EVENT && e->event.flags & TWHEEL_EV_LAST;
	}
	/* Of these cells, @armed were armed. The others were idle and have just ended. */
	open += armed;
	ended += cells - armed;
	EXPECT(all == open, "%llu were cancelled together, not %llu", ULL(all), ULL(open));
	EXPECT(stats->armed == first_arms, "STATS: %llu armed, not %llu", stats->armed,
	       ULL(first_arms));
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
		names[e->entry_type], ULL(e->id));
	if (e->entry_type == OP)
		fprintf(file, " opcode %u cookie %#llx expires %llu interval %llu repeat %u",
			e->op.opcode, e->op.cookie, e->op.expires_ns, e->op.interval_ns,
			e->op.repeat);
	if (e->entry_type == OP || e->entry_type == LIVE)
		fprintf(file, ": %d", e->result);
	if (e->entry_type == EVENT)
		fprintf(file, " cookie %#llx expires %llu fired %llu count %llu flags %#x",
			e->event.cookie, e->event.expires_ns, e->event.fired_ns, e->event.count,
			e->event.flags);
	if (e->entry_type == WORD)
		fprintf(file, " was %llu is %llu", ULL(e->old), ULL(e->new));
	if (e->entry_type == ALL)
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
		if (thread_logs[i].nr == MAX_ENTRIES - 1)
			return 0;
	}
	return 1;
}

void ledger_check(const struct twheel_stats *stats)
{
	if (!is_complete())
		return;
	sort_by_timeout();
	record_deadlines();
	if (ambiguous)
		return;
	for_each_entry(e) {
		if (mismatch_found())
			return;
		check_entry(e);
	}
	check_counts(stats);
}
