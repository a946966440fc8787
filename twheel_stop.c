// SPDX-License-Identifier: GPL-2.0
/*
 * STOP of /dev/twheel
 *
 * From the moment that the file is @stopped, which is tested under the lock, no ARM and
 * no MOD has an effect, the sink queues nothing again, and no read() does. STOP then
 *
 *  1. takes out of the wheel what is pending, chunk by chunk, and looks at the words of
 *     cells. What has left the wheel already comes to the sink, which does the same;
 *  2. flushes the wheel: the sink has been there, and nothing is ARMED any more;
 *  3. sorts what is STOPPED by deadline;
 *  4. moves it to the event queue, which gets events from nobody else by now, so they
 *     come after all that have fired;
 *  5. sets @over: from then on no reader waits.
 *
 * The lock is held for a portion at a time, and CANCEL may take records away at any
 * point: it unlinks them, which asks for no list head. So the sort is one that knows
 * nothing of its elements between two steps but that they are in one list or another:
 * a radix sort, by 32 lists on the stack, from the lowest digit to the highest,
 * without those in which all deadlines agree. Nothing is allocated.
 *
 * A fatal signal ends STOP after any portion. What is STOPPED is live and stays in
 * @unprocessed, in any order; the file stays @stopped. The next STOP begins with step 1
 * again. Steps 3 and 4 are for what is left.
 *
 * An idle cell ends in step 1. One whose word holds a deadline is STOPPED, and its word is
 * FIRED, so that users can still withdraw the event.
 *
 * Events that come of STOP have count 0. A periodic timeout whose event was unread
 * counts up to the time of STOP, and ends with that event. A second STOP waits for the
 * first and does nothing. After @over, the end is reached when the last event has
 * gone: read() returns 0, and poll() reports EPOLLHUP, for which pollers are woken.
 */
#include <linux/sched/signal.h>

#include "twheel_dev.h"

/* Records that STOP sorts in one hold of it, and by how many bits at a time. */
#define TWDEV_SORT_CHUNK	64
#define TWDEV_SORT_BITS		5

/* The record is in no list, and neither in the wheel nor on its way to the sink. */
void twdev_leave_unprocessed(struct twdev_file *f, struct twdev_record *r, u64 deadline)
{
	lockdep_assert_held(&f->lock);
	r->state = TWDEV_STOPPED;
	r->unprocessed = true;
	r->rearm = false;
	r->t.expires = deadline;
	r->fired_ns = f->stop_ns;
	list_add_tail(&r->t.entry, &f->unprocessed);
}

/* Likewise, and the record had not fired. */
void twdev_stop_record(struct twdev_file *f, struct twdev_record *r)
{
	if (twdev_is_cell(r))
		twdev_stop_cell(f, r);
	else
		twdev_leave_unprocessed(f, r, r->t.expires);
}

/* Take what is pending in a chunk out of the wheel. False: there is no such chunk. */
static bool twdev_stop_chunk(struct twdev_file *f, u32 chunk)
{
	struct twdev_record *r;
	u32 i;

	guard(spinlock)(&f->lock);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWDEV_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (r->state == TWDEV_PARKED ||
		    (twdev_is_enqueued(r) && twheel_cancel(&r->t)))
			twdev_stop_record(f, r);
	}
	return true;
}

/**
 * struct twdev_sort - a radix sort by deadline
 * @digits: one list for each value of the digit that is sorted by
 * @shift: the lowest bit of that digit
 * @any: bits that are set in any deadline
 * @all: bits that are set in all
 *
 * All under twdev_file.lock.
 */
struct twdev_sort {
	struct list_head	digits[BIT(TWDEV_SORT_BITS)];
	unsigned int		shift;
	u64			any;
	u64			all;
};

/* Sort the next few of f->unprocessed by a digit. False: there are no more. */
static bool twdev_sort_some(struct twdev_file *f, struct twdev_sort *sort)
{
	struct twdev_record *r;
	unsigned int i, digit;

	guard(spinlock)(&f->lock);
	for (i = 0; i < TWDEV_SORT_CHUNK; i++) {
		if (list_empty(&f->unprocessed))
			return false;
		r = twdev_record_of(f->unprocessed.next);
		digit = r->t.expires >> sort->shift & (BIT(TWDEV_SORT_BITS) - 1);
		sort->any |= r->t.expires;
		sort->all &= r->t.expires;
		list_move_tail(&r->t.entry, &sort->digits[digit]);
	}
	return true;
}

/* Between two portions. Returns true if STOP has to end. */
static bool twdev_pause(void)
{
	cond_resched();
	return fatal_signal_pending(current);
}

static void twdev_sort_digit(struct twdev_file *f, struct twdev_sort *sort)
{
	unsigned int i;

	while (twdev_sort_some(f, sort) && !twdev_pause())
		;
	guard(spinlock)(&f->lock);
	for (i = 0; i < ARRAY_SIZE(sort->digits); i++)
		list_splice_tail_init(&sort->digits[i], &f->unprocessed);
}

static void twdev_sort_unprocessed(struct twdev_file *f)
{
	struct twdev_sort sort = { .all = U64_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sort.digits); i++)
		INIT_LIST_HEAD(&sort.digits[i]);
	twdev_sort_digit(f, &sort);
	for (sort.shift = TWDEV_SORT_BITS; sort.shift < 64 && !fatal_signal_pending(current);
	     sort.shift += TWDEV_SORT_BITS)
		if ((sort.any ^ sort.all) >> sort.shift & (BIT(TWDEV_SORT_BITS) - 1))
			twdev_sort_digit(f, &sort);
}

/* Make events of the next few, which are in order now. False: there are no more. */
static bool twdev_publish_some(struct twdev_file *f)
{
	struct twdev_record *r;
	unsigned int nr;

	scoped_guard(spinlock, &f->lock) {
		for (nr = 0; nr < TWDEV_SORT_CHUNK; nr++) {
			if (list_empty(&f->unprocessed))
				break;
			r = twdev_record_of(f->unprocessed.next);
			r->state = TWDEV_READY;
			list_move_tail(&r->t.entry, &f->ready);
		}
		WRITE_ONCE(f->nr_ready, f->nr_ready + nr);
		f->counts.unprocessed += nr;
	}
	if (nr)
		twdev_wake(f);
	return nr;
}

/* Returns -EINTR after a fatal signal. */
static int twdev_stop(struct twdev_file *f)
{
	u32 i;

	scoped_guard(spinlock, &f->lock) {
		twdev_begin(f);
		if (!f->stopped)
			f->stop_ns = twheel_now(f->wheel);
		f->stopped = true;
	}
	for (i = 0; twdev_stop_chunk(f, i); i++)
		if (twdev_pause())
			return -EINTR;
	twheel_flush(f->wheel);
	twdev_sort_unprocessed(f);
	do {
		if (twdev_pause())
			return -EINTR;
	} while (twdev_publish_some(f));
	scoped_guard(spinlock, &f->lock) {
		/* Pairs with the acquire in twdev_is_over(). */
		smp_store_release(&f->over, true);
		/* If there is no event, this is the end. */
		twdev_count_unready(f, 0);
	}
	return 0;
}

int twdev_ioctl_stop(struct twdev_file *f)
{
	int ret;

	if (mutex_lock_killable(&f->stopping))
		return -EINTR;
	ret = f->over ? 0 : twdev_stop(f);
	mutex_unlock(&f->stopping);
	return ret;
}
