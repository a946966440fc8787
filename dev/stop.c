// SPDX-License-Identifier: GPL-2.0
/*
 * STOP of /dev/twheel
 *
 * STOP ends one file, and twheel_stop() a wheel, which files may share.
 *
 * STOP makes the file TWDEV_STOPPED. From then on ARM, MOD and KICK fail. Neither the sink nor
 * read() enqueues a record again. STOP then
 *
 *  1. takes pending and LATE records out of the wheel or list, a chunk for each hold of the
 *     lock, and queues their events. It looks at the words of cells. Records on their way to the
 *     sink are handled there;
 *  2. flushes the wheel: when that returns, no record is ARMED or QUEUED any more;
 *  3. makes the file TWDEV_OVER: from then on no reader waits;
 *  4. wakes the waiters. The sink wakes them, too: it may come after a STOP that was killed.
 *
 * An idle cell ends in step 1. A cell whose word holds a deadline becomes READY, and its word
 * FIRED, so that users can still withdraw the event: twdev_stop_cell(). A READY cell keeps its
 * event, if it has not been withdrawn, and ends with the read.
 *
 * The events that STOP makes have count 0, and no order. A periodic timeout whose event is
 * unread at STOP counts deadlines up to the time of STOP, and ends with that event. When the file
 * is TWDEV_OVER and the last event is gone, read() returns 0 and poll() reports EPOLLHUP. All
 * waiters are woken for this.
 *
 * A fatal signal ends STOP after any chunk, and the next STOP starts with step 1 again. Tasks may
 * do so at the same time: none waits for another, and each leaves nothing to stop behind it. After
 * the first of them has come to its end, none adds an event.
 */
#include <linux/sched/signal.h>

#include "dev.h"

/* Stop the pending, PARKED and LATE records of a chunk. Returns false past the last chunk. */
bool twdev_stop_chunk(struct twdev_file *f, u32 chunk)
{
	struct twdev_record *r;
	u32 i;

	guard(twdev_file)(f);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWDEV_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (r->state == TWDEV_LATE)
			list_del(&r->t.entry);
		if (r->state == TWDEV_PARKED || r->state == TWDEV_LATE ||
		    (twdev_is_enqueued(r) && twheel_cancel(&r->t)))
			twdev_stop_record(f, r);
	}
	return true;
}

/* Returns -EINTR after a fatal signal. */
static int twdev_stop_file(struct twdev_file *f)
{
	u32 i;

	for (i = 0; twdev_stop_chunk(f, i); i++) {
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	twheel_flush(f->wheel);
	scoped_guard(twdev_file, f)
		twdev_reach(f, TWDEV_OVER);
	return 0;
}

int twdev_ioctl_stop(struct twdev_file *f)
{
	int ret;

	scoped_guard(twdev_file, f) {
		if (f->phase < TWDEV_STOPPED)
			f->stop_ns = twheel_now(f->wheel);
		twdev_reach(f, TWDEV_STOPPED);
	}
	ret = twdev_stop_file(f);
	/* Wakes all waiters if no event is unread. A STOP that was killed has made events, too. */
	twdev_wake(f);
	return ret;
}
