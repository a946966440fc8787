// SPDX-License-Identifier: GPL-2.0
/*
 * Events of /dev/twheel: the sink makes them, read() takes them
 *
 *
 * Periodic timeouts
 *
 * A periodic timeout that has fired stays out of the wheel until its event is read. So an unread
 * timeout costs nothing, however short its interval is. read() counts the deadlines that have
 * passed, and arms the next one in phase, or an interval later with fixed delay. The deadline that
 * fired always counts, even if the clock has since been set back: a count is never 0.
 *
 *
 * Cells
 *
 * If a user has withdrawn the event of a cell, the compare-exchange in twdev_read_cell() fails
 * after the event was copied. The events after it are then copied again in its place. The event
 * counts as unread until a call meets it, so poll() may report EPOLLIN when read() has no event to
 * return. The sink wakes pollers whenever it adds events, as edge-triggered epoll needs it.
 *
 *
 * Waiting
 *
 * The sink adds to @nr_ready under the lock, then looks for waiters, and wakes them. A reader or
 * poller joins the wait queue, then loads @nr_ready. Both have a full barrier between the two:
 * wq_has_sleeper(); prepare_to_wait_event(), twdev_poll(). So a waiter that the sink does not
 * find sees the new count.
 *
 * Readers wait exclusively. A batch of events wakes one reader, whose buffer may have room
 * for all. A reader that returns while events are left wakes the next reader, even if it
 * failed with -EFAULT or was interrupted.
 *
 * STOP stores TWDEV_OVER with release, after its last addition to @nr_ready. Readers load @phase
 * with acquire before @nr_ready. So if the file is over and @nr_ready is 0, no event follows.
 *
 *
 * Accounts
 *
 * The sink works for all users of a wheel, in soft interrupts, and each of its calls is a batch. So
 * a user has an account on each CPU, in time: @paid_ns. All that the sink does for a file is
 * charged to its user, at TWDEV_SHARE times what it took. While @paid_ns is in the future, the
 * account is overdrawn. The credit limits how far it lags behind, the debt how far it is ahead.
 *
 * With an overdrawn account, the sink fires timeouts and cells that are due: to put that off would
 * cost as much. Other cells become LATE, and it wakes nobody. The work of the user does the rest.
 * It is a task like any other, one for each user: many files get no more of the CPU than one.
 *
 * A wakeup cannot be stopped once it has begun, and the first one is charged too late. So the work
 * wakes the waiters if there are more than TWDEV_FEW. A waiter may be an epoll instance that many
 * others wait for: this is charged only. The sink does not wait for the lock of the queue.
 *
 * A file is on the list of its user while it needs the work, and @serving while the work is busy
 * with it. Release lets the sink end first, which adds to the list. Then it takes the file off, and
 * waits while it is @serving. The last file of a user cancels the work.
 *
 * STOP and CANCEL take a LATE record off its list; KICK and MOD leave it to the look that follows.
 * The sink waits for the lock of a file for a group or chunk, and charges this time, too.
 */
#include <linux/sched/signal.h>
#include <linux/uio.h>
#include <linux/wait_bit.h>

#include "dev.h"

/* A user has 1/SHARE of each CPU's time, and the credit at once. */
#define TWDEV_SHARE		4
#define TWDEV_CREDIT_NS		(50 * NSEC_PER_USEC)

/* The most that is charged: the machine may stand still. */
#define TWDEV_DEBT_NS		(4 * NSEC_PER_MSEC)

/* Chunks of looks that the work makes before it goes on to the next file. */
#define TWDEV_CHUNKS_AT_ONCE	64

/* Expiry */

static struct twdev_file *twdev_file_of(const struct twdev_record *r)
{
	return ((struct twdev_chunk *)((unsigned long)r & PAGE_MASK))->file;
}

/* Fire a record in the list of the sink, where it stays. */
static inline void twdev_fire(struct twdev_file *f, struct twdev_record *r, u64 now_ns)
{
	u64 late_ns = now_ns - min(now_ns, r->t.expires);

	twheel_accept(&r->t);
	r->state = TWDEV_READY;
	r->fired_ns = now_ns;
	f->counts.lateness[min(fls64(late_ns), TWHEEL_LATENESS - 1)]++;
}

/* Handle a record in the sink that is not ARMED or has @rearm set. Returns true if it fired. */
static __always_inline bool twdev_arrive_other(struct twdev_file *f, struct twdev_record *r,
					       u64 now_ns, bool overdrawn)
{
	if ((r->state == TWDEV_QUEUED || r->state == TWDEV_LATE) && f->phase < TWDEV_STOPPED) {
		if (!twdev_look(f, r, &now_ns, overdrawn))
			return false;
		twdev_fire(f, r, now_ns);
		return true;
	}
	list_del(&r->t.entry);
	twheel_accept(&r->t);
	if (r->state == TWDEV_CANCELLED) {
		twdev_recycle(f, r);
	} else if (f->phase >= TWDEV_STOPPED) {
		twdev_stop_record(f, r);
	} else {
		r->rearm = false;
		twdev_arm_record(f, r, r->t.expires);
	}
	return false;
}

/* Handle a record in the sink. Returns true if it has fired; it is still in the list then. */
static inline bool twdev_arrive(struct twdev_file *f, struct twdev_record *r, u64 now_ns,
				bool overdrawn)
{
	lockdep_assert_held(&f->lock);
	if (unlikely(r->state != TWDEV_ARMED || r->rearm))
		return twdev_arrive_other(f, r, now_ns, overdrawn);
	twdev_fire(f, r, now_ns);
	return true;
}

/* Charge the time from @start_ns to @now_ns. A charge is lost if another one comes between. */
static void twdev_charge(u64 *paid_ns, u64 start_ns, u64 now_ns)
{
	u64 ns = TWDEV_SHARE * (now_ns - start_ns);

	ns += max(READ_ONCE(*paid_ns), now_ns - TWDEV_SHARE * TWDEV_CREDIT_NS);
	WRITE_ONCE(*paid_ns, min(ns, now_ns + TWDEV_SHARE * TWDEV_DEBT_NS));
}

/* Handle the records of @f at the front of @list; at most @max, unless 0. Were events added? */
static __always_inline bool twdev_arrive_all(struct twdev_file *f, struct list_head *list,
					     unsigned int max, u64 now_ns, bool overdrawn)
{
	unsigned int nr = 0, left = max, before = f->nr_ready;
	struct list_head *pos, *next;

	for (pos = list->next; pos != list; pos = next) {
		struct twdev_record *r = twdev_record_of(pos);

		next = pos->next;
		if (twdev_file_of(r) != f || (max && !left--))
			break;
		nr += twdev_arrive(f, r, now_ns, overdrawn);
	}
	if (nr)
		list_bulk_move_tail(&f->ready, list->next, pos->prev);
	WRITE_ONCE(f->nr_ready, f->nr_ready + nr);
	f->counts.fired += nr;
	return f->nr_ready != before;
}

/*
 * Handle the records of one file. Its user pays for the time from @start_ns, on CLOCK_MONOTONIC,
 * to that returned.
 */
static u64 twdev_sink_file(struct list_head *batch, u64 now_ns, u64 start_ns)
{
	struct twdev_file *f = twdev_file_of(twdev_record_of(batch->next));
	u64 *paid_ns = &f->user->paid_ns[raw_smp_processor_id() % TWDEV_ACCOUNTS];
	bool overdrawn = READ_ONCE(*paid_ns) > start_ns, late, wake;
	unsigned long nivcsw = current->nivcsw;
	u64 end_ns;

	if (!spin_trylock(&f->lock)) {
		atomic_inc(&f->sinks);
		spin_lock(&f->lock);
		atomic_dec(&f->sinks);
	}
	wake = twdev_arrive_all(f, batch, 0, now_ns, overdrawn);
	late = !list_empty(&f->late);
	spin_unlock(&f->lock);

	wake = wake && wq_has_sleeper(&f->wait);
	if (unlikely(late || (wake && overdrawn)))
		twdev_be_late(f);
	else if (wake)
		twdev_wake(f);
	end_ns = ktime_get_mono_fast_ns();
	twdev_charge(paid_ns, end_ns - __twheel_used_ns(start_ns, end_ns, nivcsw), end_ns);
	return end_ns;
}

/* @now_ns is when the turn began; it is read on CLOCK_MONOTONIC if @data says so. */
void twdev_sink(void *data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	u64 start_ns = data ? now_ns : ktime_get_mono_fast_ns();
	LIST_HEAD(batch);

	/* Off the engine's list: neighbours in the batch are not freed before f->lock is. */
	list_splice_init(expired, &batch);
	while (!list_empty(&batch))
		start_ns = twdev_sink_file(&batch, now_ns, start_ns);
}

/* Look at some late cells. Returns true if there are more. */
static bool twdev_look_late(struct twdev_file *f)
{
	guard(twdev_file)(f);
	twdev_arrive_all(f, &f->late, TWDEV_EVENTS_CHUNK, twheel_now(f->wheel), false);
	return !list_empty(&f->late);
}

/* Do what sinks have left to the work of a user. */
void twdev_work(struct work_struct *work)
{
	struct twdev_user *user = container_of(work, struct twdev_user, work);
	struct twdev_file *f;
	unsigned int left;

	for (;;) {
		scoped_guard(twdev_user, user) {
			f = list_first_entry_or_null(&user->late, struct twdev_file, late_entry);
			if (f)
				list_del_init(&f->late_entry);
			user->serving = f;
		}
		/* No barrier: twdev_leave_work() tests under the lock. */
		wake_up_var(&user->serving);
		if (!f)
			return;
		left = TWDEV_CHUNKS_AT_ONCE;
		do
			cond_resched();
		while (twdev_look_late(f) && --left);
		if (READ_ONCE(f->nr_ready) || READ_ONCE(f->phase) == TWDEV_OVER)
			twdev_wake_crowd(f);
		/* Cells that move all the time come after the other files of the user. */
		if (!left)
			twdev_be_late(f);
	}
}

/* Reading */

/* Number of deadlines that an event of a periodic timeout stands for if it is read now. */
static u64 twdev_count_periods(struct twdev_file *f, const struct twdev_record *r)
{
	u64 now_ns = f->phase >= TWDEV_STOPPED ? f->stop_ns : twheel_now(f->wheel);
	u64 count = 1;

	if (!(r->flags & TWHEEL_F_FIXED_DELAY))
		count += twheel_intervals(r->t.expires, now_ns, r->interval_ns);
	return r->repeat ? min_t(u64, count, r->repeat) : count;
}

/* Set the fields that differ from the event of a one-shot timeout that has fired. */
static void twdev_amend_event(struct twdev_file *f, const struct twdev_record *r,
			      struct twheel_event *event)
{
	u64 count;

	if (r->flags & TWHEEL_F_CELL) {
		event->expires_ns = r->word;
		if (f->phase < TWDEV_STOPPED)
			event->flags &= ~TWHEEL_EV_LAST;
	}
	if (r->unprocessed) {
		event->count = 0;
		event->flags |= TWHEEL_EV_UNPROCESSED;
		return;
	}
	if (!r->interval_ns || r->flags & TWHEEL_F_CELL)
		return;
	count = twdev_count_periods(f, r);
	event->expires_ns = twc_to_user(r->t.expires + (count - 1) * r->interval_ns, f->offset_ns);
	event->count = count;
	if (count != r->repeat && f->phase < TWDEV_STOPPED)
		event->flags &= ~TWHEEL_EV_LAST;
}

static void twdev_make_event(struct twdev_file *f, const struct twdev_record *r,
			     struct twheel_event *event)
{
	/* Assign each field: for an initialiser the compiler clears the structure first. */
	event->id = r->id;
	event->cookie = r->t.data;
	event->expires_ns = twc_to_user(r->t.expires, f->offset_ns);
	event->fired_ns = twc_to_user(r->fired_ns, f->offset_ns);
	event->count = 1;
	event->flags = TWHEEL_EV_LAST;
	event->reserved = 0;
	if (unlikely(r->interval_ns || r->flags || r->unprocessed))
		twdev_amend_event(f, r, event);
}

/* Make up to @max events of the records at the front of the queue, which stay there. */
static unsigned int twdev_peek(struct twdev_file *f, struct twheel_event *events,
			       unsigned int max)
{
	struct twdev_record *r;
	unsigned int nr = 0;

	list_for_each_entry(r, &f->ready, t.entry) {
		if (nr == max)
			break;
		twdev_make_event(f, r, &events[nr++]);
	}
	return nr;
}

/* Arm the next deadline of a periodic timeout after an event for @count deadlines was read. */
static void twdev_next_period(struct twdev_file *f, struct twdev_record *r, u64 count)
{
	u64 last_ns = r->t.expires + (count - 1) * r->interval_ns;

	if (r->repeat)
		r->repeat -= count;
	if (r->flags & TWHEEL_F_FIXED_DELAY)
		last_ns = twheel_now(f->wheel);
	twdev_arm_record(f, r, twheel_add_ns(last_ns, r->interval_ns));
}

/*
 * Handle a copied event of a cell, of a stopped file, or of a timeout with deadlines left.
 * Returns false if the event was withdrawn.
 */
static bool twdev_consume_other(struct twdev_file *f, struct twdev_record *r,
				const struct twheel_event *event)
{
	if (r->flags & TWHEEL_F_CELL)
		return twdev_read_cell(f, r);
	if (event->flags & TWHEEL_EV_LAST) {
		f->counts.ended++;
		twdev_end_record(f, r);
	} else {
		twdev_next_period(f, r, event->count);
	}
	return true;
}

/*
 * @nr events of the records at the front of the queue have been copied. Take the records off
 * the queue, up to and including the first whose event was withdrawn. Returns the number of
 * events read: those before the withdrawn one.
 */
static unsigned int twdev_consume(struct twdev_file *f, const struct twheel_event *events,
				  unsigned int nr)
{
	bool withdrawn = false, stopped = f->phase >= TWDEV_STOPPED;
	struct list_head *pos = f->ready.next;
	unsigned int i = 0;

	while (i < nr) {
		const struct twheel_event *event = &events[i++];
		struct twdev_record *r = twdev_record_of(pos);

		pos = pos->next;
		/* The event of a cell is the last one only after STOP. */
		if (likely(event->flags & TWHEEL_EV_LAST && !stopped)) {
			f->counts.ended++;
			twdev_end_record(f, r);
			continue;
		}
		withdrawn = !twdev_consume_other(f, r, event);
		if (withdrawn)
			break;
	}
	if (!i)
		return 0;
	/* The entries before @pos have been recycled or enqueued: unlink them at once. */
	__list_del(&f->ready, pos);
	twdev_count_unready(f, i);
	f->counts.read += i - withdrawn;
	return i - withdrawn;
}

/* Outcome of a read in one hold of the lock. */
struct twdev_portion {
	unsigned int	read;
	bool		fault;	/* the copy stopped at a bad address or an absent page */
	bool		more;	/* more events may be unread */
};

static struct twdev_portion twdev_read_portion(struct twdev_file *f, struct iov_iter *to)
{
	/* twdev_make_event() sets each byte of those that are copied. */
	struct twheel_event events[TWDEV_EVENTS_CHUNK] twheel_uninitialized;
	size_t room = iov_iter_count(to) / sizeof(*events);
	struct twdev_portion portion;
	unsigned int want, copied;

	twdev_lock(f);
	want = twdev_peek(f, events, min_t(size_t, room, TWDEV_EVENTS_CHUNK));
	pagefault_disable();
	copied = twdev_copy_out(events, sizeof(*events), want, to);
	pagefault_enable();
	portion.read = twdev_consume(f, events, copied);
	twdev_unlock(f);
	iov_iter_revert(to, (copied - portion.read) * sizeof(*events));
	portion.fault = copied < want && portion.read == copied;
	portion.more = portion.read < want || want == TWDEV_EVENTS_CHUNK;
	return portion;
}

/*
 * Can an event be written, with page faults enabled? Test by writing one: some memory can be
 * faulted in but not written. The bytes do not matter, as read() does not count them.
 */
static bool twdev_can_write(struct iov_iter *to)
{
	static const struct twheel_event zero;
	size_t copied = copy_to_iter(&zero, sizeof(zero), to);

	iov_iter_revert(to, copied);
	return copied == sizeof(zero);
}

/* Read all events that fit. Returns their number, which may be 0, or an error if none. */
static int twdev_read_events(struct twdev_file *f, struct iov_iter *to)
{
	struct twdev_portion portion;
	int nr = 0;

	do {
		portion = twdev_read_portion(f, to);
		nr += portion.read;
		if (portion.fault && !twdev_can_write(to))
			return nr ?: -EFAULT;
		/* If nothing was read yet, twdev_wait_events() handles other signals. */
		if (portion.more && (nr ? signal_pending(current) :
					  fatal_signal_pending(current)))
			return nr ?: -EINTR;
		cond_resched();
	} while (portion.more);
	return nr;
}

static int twdev_wait_events(struct twdev_file *f, struct iov_iter *to, bool nonblock)
{
	int nr;

	for (;;) {
		nr = READ_ONCE(f->nr_ready) ? twdev_read_events(f, to) : 0;
		if (nr)
			return nr;
		if (twdev_is_over(f))
			return 0;
		if (nonblock)
			return -EAGAIN;
		nr = wait_event_interruptible_exclusive(f->wait, READ_ONCE(f->nr_ready) ||
							READ_ONCE(f->phase) == TWDEV_OVER);
		if (nr)
			return nr;
	}
}

ssize_t twdev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct twdev_file *f = iocb->ki_filp->private_data;
	int nr;

	if (iov_iter_count(to) < sizeof(struct twheel_event))
		return -EINVAL;
	nr = twdev_wait_events(f, to, iocb->ki_filp->f_flags & O_NONBLOCK ||
			       iocb->ki_flags & IOCB_NOWAIT);
	if (READ_ONCE(f->nr_ready) && wq_has_sleeper(&f->wait))
		twdev_wake(f);
	return nr < 0 ? nr : nr * (ssize_t)sizeof(struct twheel_event);
}

__poll_t twdev_poll(struct file *file, poll_table *wait)
{
	struct twdev_file *f = file->private_data;

	poll_wait(file, &f->wait, wait);
	/* Pairs with wq_has_sleeper(). Before Linux 6.14, poll_wait() has no barrier. */
	smp_mb();
	if (twdev_is_over(f))
		return EPOLLHUP;
	return READ_ONCE(f->nr_ready) ? EPOLLIN | EPOLLRDNORM : 0;
}
