// SPDX-License-Identifier: GPL-2.0
/*
 * STOP of /dev/twheel
 *
 * STOP sets @stopped under the lock. From then on ARM and MOD fail, and neither the sink nor
 * read() enqueues a record again. STOP then
 *
 *  1. takes pending records out of the wheel, chunk by chunk, and looks at the words of
 *     cells. Records on their way to the sink are handled there;
 *  2. flushes the wheel: when that returns, no record is ARMED or QUEUED any more;
 *  3. sorts the STOPPED records by deadline;
 *  4. moves them to the event queue. No other task adds events by now, so they follow all
 *     events of timeouts that have fired;
 *  5. sets @over: from then on no reader waits.
 *
 * STOP holds the lock for a portion at a time. In between, CANCEL may unlink any record, for
 * which it needs no list head. So the sort may assume nothing about a record between two
 * portions, except that it is in one of the lists. A radix sort fits. It uses 32 lists on the
 * stack, from the lowest digit to the highest, and allocates nothing. It skips digits that
 * are the same in all deadlines.
 *
 * A fatal signal ends STOP after any portion. STOPPED records stay live in @unprocessed, in
 * any order, and the file stays @stopped. The next STOP starts with step 1 again. Steps 3 and
 * 4 then handle the records that are left.
 *
 * An idle cell ends in step 1. A cell whose word holds a deadline becomes STOPPED, and its
 * word FIRED, so that users can still withdraw the event.
 *
 * Events of STOPPED timeouts have count 0. A periodic timeout whose event is unread at STOP
 * counts deadlines up to the time of STOP, and ends with that event. A second STOP waits for
 * the first and does nothing. After @over is set and the last event is gone, read() returns 0
 * and poll() reports EPOLLHUP. All waiters are woken for this.
 */
#include <linux/sched/signal.h>

#include "twheel_dev.h"

/* Records that STOP sorts in one hold of the lock, and bits per digit. */
#define TWDEV_SORT_CHUNK	64
#define TWDEV_SORT_BITS		5

/* Make a record STOPPED that is in no list, and neither in the wheel nor in the sink. */
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

/* Stop a record that has not fired. It is in no list, neither in the wheel nor in the sink. */
void twdev_stop_record(struct twdev_file *f, struct twdev_record *r)
{
	if (twdev_is_cell(r))
		twdev_stop_cell(f, r);
	else
		twdev_leave_unprocessed(f, r, r->t.expires);
}

/* Stop the pending and PARKED records of a chunk. Returns false past the last chunk. */
static bool twdev_stop_chunk(struct twdev_file *f, u32 chunk)
{
	struct twdev_record *r;
	u32 i;

	guard(spinlock_bh)(&f->lock);
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
 * @digits: one list for each value of the current digit
 * @shift: lowest bit of the current digit
 * @any: bits that are set in at least one deadline
 * @all: bits that are set in all deadlines
 *
 * All under twdev_file.lock.
 */
struct twdev_sort {
	struct list_head	digits[BIT(TWDEV_SORT_BITS)];
	unsigned int		shift;
	u64			any;
	u64			all;
};

/* Sort a portion of @unprocessed by a digit. Returns false if @unprocessed is empty. */
static bool twdev_sort_some(struct twdev_file *f, struct twdev_sort *sort)
{
	struct twdev_record *r;
	unsigned int i, digit;

	guard(spinlock_bh)(&f->lock);
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

/* Reschedule between two portions. Returns true if a fatal signal is pending. */
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
	guard(spinlock_bh)(&f->lock);
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

/* Queue events of a portion of the sorted records. Returns false if there are none left. */
static bool twdev_publish_some(struct twdev_file *f)
{
	struct twdev_record *r;
	unsigned int nr;

	scoped_guard(spinlock_bh, &f->lock) {
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

	scoped_guard(spinlock_bh, &f->lock) {
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
	scoped_guard(spinlock_bh, &f->lock) {
		/* Pairs with the acquire in twdev_is_over(). */
		smp_store_release(&f->over, true);
		/* Wake all waiters if no event is unread. */
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
