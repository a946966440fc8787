// SPDX-License-Identifier: GPL-2.0
/*
 * Cells of /dev/twheel: timeouts that are armed and cancelled in shared memory
 *
 * A cell is a record with a word that user space maps. Users exchange the word to arm,
 * move and cancel the cell. The kernel is not notified of a change: it looks at the word at
 * a time that it has published. The uapi header describes the users' side of the protocol.
 *
 *	cell.word	a deadline: armed. FIRED: fired, and the event is unread. Any other
 *			value: idle. Both sides change it by exchange or compare-exchange
 *			only, so that each sees the value that it replaces
 *	cell.look	the time by which the kernel looks at the word again. ~0: never.
 *			The kernel writes it and never reads it
 *
 * Words and looks are in the time of the opener's namespace. The word of a fired cell is
 * kept unconverted, so expires_ns of the event is exactly the value that the user wrote.
 *
 *
 * States
 *
 *	QUEUED		in the wheel for t.expires, or on its way to the sink
 *	PARKED		in no list. The kernel looks at the word in calls only
 *	LATE		the work of the user will look, see "Accounts" of events.c
 *	READY		on the event queue
 *	CANCELLED	cancelled on its way to the sink, which frees the record
 *
 *	FREE -> PARKED		ARM
 *	PARKED -> QUEUED	ARM, MOD, KICK: the word holds a deadline
 *	QUEUED -> QUEUED	a look in the sink; MOD; KICK with an earlier deadline
 *	QUEUED -> LATE		a look of the sink that fires nothing, if the account is overdrawn
 *	LATE -> as QUEUED	a look in the work
 *	QUEUED -> PARKED	a look: an idle value other than TWHEEL_CELL_IDLE
 *	QUEUED -> READY		a look: the deadline has passed
 *	READY -> PARKED		read(); MOD, KICK: the event was withdrawn
 *	not READY -> READY	STOP: the word holds a deadline
 *	any -> FREE or CANCELLED	CANCEL; STOP of an idle cell; read() after STOP
 *
 * The cell of a record keeps its address while the record is live. MOD and KICK need not move
 * a record that is LATE or on its way to the sink: a look at the word comes afterwards.
 *
 * Two rules hold whenever the file's lock is free:
 *
 *  - a record that is neither QUEUED nor LATE has look == ~0;
 *  - a record that is QUEUED has look >= t.expires, if it is not on its way to the sink.
 *
 * So if look <= deadline, the kernel looks in time. Otherwise the user calls KICK.
 *
 *
 * Barriers
 *
 * A user exchanges the word and then loads look, both sequentially consistent.
 *
 *	A  twc_publish(), twc_stop_cell(): store look, smp_mb(), load the word
 *	B  twc_fire(), twc_disarm(): store look, (compare-)exchange the word
 *	C  twc_read_cell(): compare-exchange the word after the event has been copied
 *	D  twdev_look() on CLOCK_REALTIME: load the word, smp_rmb(), read the clock
 *
 * A, arm against park or requeue:
 *
 *	CPU0 (user)				CPU1 (kernel)
 *
 *	word = xchg(&cell->word, deadline)	cell->look = t
 *						smp_mb()
 *	look = cell->look			word = cell->word
 *
 * CPU0 loads t, or CPU1 loads the deadline, or both. If CPU0 loads an older look than t, CPU1
 * loads the deadline. If the deadline is before t, CPU1 enqueues the record for the deadline
 * and also stores the deadline in look.
 *
 * B, arm or cancel against fire:
 *
 *	CPU0 (user)				CPU1 (kernel)
 *
 *	word = xchg(&cell->word, new)		cell->look = ~0
 *	look = cell->look			cmpxchg(&cell->word, deadline, FIRED)
 *
 * If the exchange comes first, the compare-exchange fails and there is no event. If it comes
 * second, it returns FIRED and the load of look returns ~0. A user who arms then calls KICK.
 *
 * C, cancel against read: the event counts as read if the compare-exchange in read() finds
 * FIRED. Otherwise the user's exchange has returned FIRED. Then the event is withdrawn, and
 * its copy is overwritten or not counted.
 *
 * D: the clock may step back just before a user writes a word. A time that was read before
 * the word was loaded could make the cell fire early.
 *
 *
 * Idle cells
 *
 * Most cells are cancelled and armed again soon. So a look that finds TWHEEL_CELL_IDLE does
 * not park the record at once. It replaces the word by TWC_CELL_SEEN, another idle value,
 * and looks again after @ahead_ns: the delay of the deadline that a call last published. A
 * look that finds any other idle value parks the record. A program that arms regularly with
 * about the same delay never calls KICK. A cell that falls out of use costs two looks.
 *
 *
 * Memory
 *
 * A table points to pages of cells. It covers the indices of all records that a file can have, see
 * records.c, but for those with no generations left: a file whose indices are used up makes
 * no cell, with -EAGAIN. A page is added on a fault or before its first cell is armed, the table
 * with the first page. They are freed at release, which mappings delay by their reference to the
 * file. A page that is pinned for longer has its own reference.
 *
 *
 * Trust
 *
 * At worst, a bad word is a wrong deadline for its owner: the time that a record is enqueued for is
 * in kernel memory. Users can prolong no loop but the retries of a CPU without an atomic exchange.
 * After a lost compare-exchange the kernel goes on with the word that it found. FIRED without an
 * event counts as idle. Without cells, see TWDEV_HAS_CELLS, mmap() fails with -ENODEV.
 */
#include <linux/personality.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "dev.h"

/* A record of a sink's batch on each CPU may be neither live nor free. */
#define TWDEV_MAX_BATCH		128

/* The cell of a record that is one: its page exists. */
static struct twheel_cell *twdev_cell_of(const struct twdev_file *f,
					 const struct twdev_record *r)
{
	u32 index = (u32)r->id;

	lockdep_assert_held(&f->lock);
	return &f->cells[index / TWDEV_PER_CELLS][index % TWDEV_PER_CELLS];
}

/* Looking */

/*
 * Look at the cell of @r, which is in the list of the sink, or LATE. Returns true if it has fired;
 * @now_ns is the time. Otherwise the record is off the list and is QUEUED or PARKED, or LATE if the
 * account is @overdrawn.
 */
bool twdev_look(struct twdev_file *f, struct twdev_record *r, u64 *now_ns, bool overdrawn)
{
	struct twheel_cell *cell = twdev_cell_of(f, r);
	u64 word = READ_ONCE(cell->word), t, due_ns = *now_ns;

	lockdep_assert_held(&f->lock);
	if (f->clock == TWHEEL_REALTIME) {
		/* Barrier D. */
		smp_rmb();
		*now_ns = twheel_now(f->wheel);
		/* The clock ignores a leap second until its next update, the wheel does not. */
		due_ns = min(*now_ns, r->t.expires);
	}
	if (twc_fire(cell, &word, due_ns, f->offset_ns)) {
		f->counts.looks++;
		r->word = word;
		r->t.expires = twc_from_user(word, f->offset_ns);
		return true;
	}
	if (overdrawn) {
		twheel_accept(&r->t);
		r->state = TWDEV_LATE;
		list_move_tail(&r->t.entry, &f->late);
		return false;
	}
	f->counts.looks++;
	t = twc_next_look(cell, word, *now_ns, r->ahead_ns, f->offset_ns);
	t = twc_publish(cell, t);
	list_del(&r->t.entry);
	if (t == TWC_NO_LOOK) {
		twheel_accept(&r->t);
		r->state = TWDEV_PARKED;
	} else if (r->state == TWDEV_LATE) {
		r->state = TWDEV_QUEUED;
		twheel_arm_slack(&r->t, twc_from_user(t, f->offset_ns), twdev_slack_ns(r));
	} else {
		twheel_extend(&r->t, twc_from_user(t, f->offset_ns), twdev_slack_ns(r));
	}
	return false;
}

/*
 * Take up @word, which a call has written or found: enqueue a PARKED or move a QUEUED record for a
 * deadline. An idle word only gives the look of a QUEUED record its new slack.
 */
static void twdev_take_up(struct twdev_file *f, struct twdev_record *r, u64 word, u64 now_ns)
{
	struct twheel_cell *cell = twdev_cell_of(f, r);
	u64 slack_ns = twdev_slack_ns(r), at = r->t.expires;

	if (twc_is_deadline(word)) {
		r->ahead_ns = twc_ahead(twc_from_user(word, f->offset_ns), now_ns);
		at = twc_from_user(twc_publish(cell, word), f->offset_ns);
	} else if (r->state != TWDEV_QUEUED) {
		return;
	}
	if (r->state == TWDEV_PARKED) {
		r->state = TWDEV_QUEUED;
		twheel_arm_slack(&r->t, at, slack_ns);
	} else if (r->state == TWDEV_QUEUED) {
		/* Fails for a record on its way to the sink, which looks at the word. */
		twheel_mod_slack(&r->t, at, slack_ns);
	}
}

/*
 * Withdraw the event of a READY record, which stays live. @word is the word that the call
 * found: FIRED unless a user has already withdrawn the event.
 */
static void twdev_park_event(struct twdev_file *f, struct twdev_record *r, u64 word)
{
	f->counts.dropped += word != TWHEEL_CELL_FIRED;
	twdev_unready(f, r);
	r->state = TWDEV_PARKED;
	r->ahead_ns = 0;
}

/* End a cell that is idle or whose last event is gone. The record is in no list. */
static void twdev_end_cell(struct twdev_file *f, struct twdev_record *r)
{
	f->nr_cells--;
	f->counts.ended++;
	twdev_end_record(f, r);
}

/* Operations */

/* Make a cell of the record, which an ARM has taken off the free list. */
void twdev_arm_cell(struct twdev_file *f, struct twdev_record *r, const struct twheel_op *op,
		    u64 now_ns)
{
	u64 word = twc_word(op, now_ns, f->offset_ns);

	lockdep_assert_held(&f->lock);
	f->nr_cells++;
	r->state = TWDEV_PARKED;
	r->ahead_ns = 0;
	twc_begin_cell(twdev_cell_of(f, r), word);
	twdev_take_up(f, r, word, now_ns);
}

int twdev_mod_cell(struct twdev_file *f, struct twdev_record *r, const struct twheel_op *op,
		   u64 now_ns)
{
	struct twheel_cell *cell = twdev_cell_of(f, r);
	u64 word = twc_word(op, now_ns, f->offset_ns);
	u64 old = twc_exchange(&cell->word, word);
	int ret = twc_outcome(r->state == TWDEV_READY, old);

	lockdep_assert_held(&f->lock);
	if (r->state == TWDEV_READY)
		twdev_park_event(f, r, old);
	twdev_take_up(f, r, word, now_ns);
	return ret;
}

void twdev_kick(struct twdev_file *f, struct twdev_record *r, u64 now_ns)
{
	u64 word = READ_ONCE(twdev_cell_of(f, r)->word);

	f->counts.kicks++;
	if (r->state == TWDEV_READY) {
		if (word == TWHEEL_CELL_FIRED)
			return;
		twdev_park_event(f, r, word);
	}
	if (twc_kick_moves(word, r->state == TWDEV_QUEUED, r->t.expires, f->offset_ns))
		twdev_take_up(f, r, word, now_ns);
}

/* Make the cell idle before its record ends. Returns the outcome. */
int twdev_disarm_cell(struct twdev_file *f, struct twdev_record *r)
{
	struct twheel_cell *cell = twdev_cell_of(f, r);

	lockdep_assert_held(&f->lock);
	f->nr_cells--;
	return twc_disarm(cell, r->state == TWDEV_READY, &f->counts);
}

/* Returns TWHEEL_STATE_*, see twc_state(). A cell has no interval. */
u32 twdev_observe(const struct twdev_file *f, const struct twdev_record *r, u64 now_ns,
		  u64 *remaining_ns, u64 *interval_ns)
{
	bool ready = r->state == TWDEV_READY;
	int outcome = ready ? TWHEEL_WITHDRAWN : 0;
	u64 deadline = r->t.expires, word;

	if (r->flags & TWHEEL_F_CELL) {
		word = READ_ONCE(twdev_cell_of(f, r)->word);
		outcome = twc_outcome(ready, word);
		deadline = twc_from_user(word, f->offset_ns);
		*interval_ns = 0;
	} else {
		*interval_ns = r->interval_ns;
	}
	return twc_state(outcome, deadline, now_ns, remaining_ns);
}

/*
 * The event of @r has been copied, and its record is about to leave the queue. Returns false
 * if a user has withdrawn the event: then the copy does not count.
 */
bool twdev_read_cell(struct twdev_file *f, struct twdev_record *r)
{
	bool read = twc_read_cell(twdev_cell_of(f, r), &f->counts);

	lockdep_assert_held(&f->lock);
	if (f->phase >= TWDEV_STOPPED) {
		twdev_end_cell(f, r);
	} else {
		r->state = TWDEV_PARKED;
		r->ahead_ns = 0;
	}
	return read;
}

/* STOP a cell whose record is in no list, and neither in the wheel nor in the sink. */
static void twdev_stop_cell(struct twdev_file *f, struct twdev_record *r)
{
	u64 word;

	lockdep_assert_held(&f->lock);
	if (!twc_stop_cell(twdev_cell_of(f, r), &word)) {
		twdev_end_cell(f, r);
		return;
	}
	r->word = word;
	twdev_leave_unprocessed(f, r, twc_from_user(word, f->offset_ns));
}

/* STOP a record that has not fired. It is in no list, neither in the wheel nor in the sink. */
void twdev_stop_record(struct twdev_file *f, struct twdev_record *r)
{
	if (r->flags & TWHEEL_F_CELL)
		twdev_stop_cell(f, r);
	else
		twdev_leave_unprocessed(f, r, r->t.expires);
}

/* Pages */

static u32 twdev_max_cell_pages(const struct twdev_file *f)
{
	u32 records = f->max + TWDEV_MAX_BATCH * num_possible_cpus() + TWDEV_PER_CHUNK;

	return DIV_ROUND_UP(records, TWDEV_PER_CELLS);
}

/* Number of cells that a mapping has room for; constant once the file has begun. */
u32 twdev_max_cells(const struct twdev_file *f)
{
	return TWDEV_HAS_CELLS ? twdev_max_cell_pages(f) * TWDEV_PER_CELLS : 0;
}

/* Is the page of cells missing that @r needs to be one? */
bool twdev_lacks_cell(const struct twdev_file *f, const struct twdev_record *r)
{
	u32 page = (u32)r->id / TWDEV_PER_CELLS;

	lockdep_assert_held(&f->lock);
	return !f->cells || page >= twdev_max_cell_pages(f) || !f->cells[page];
}

static int twdev_make_cell_table(struct twdev_file *f)
{
	struct twheel_cell **cells;

	lockdep_assert_held(&f->grow);
	if (f->cells)
		return 0;
	cells = kvcalloc(twdev_max_cell_pages(f), sizeof(*cells), GFP_KERNEL_ACCOUNT);
	if (!cells)
		return -ENOMEM;
	scoped_guard(twdev_file, f)
		f->cells = cells;
	return 0;
}

/* Add a page of idle cells, unless it exists. */
int twdev_add_cells(struct twdev_file *f, unsigned long page)
{
	struct twheel_cell *cells;
	int ret;

	lockdep_assert_held(&f->grow);
	if (page >= twdev_max_cell_pages(f))
		return -EAGAIN;
	ret = twdev_make_cell_table(f);
	if (ret || f->cells[page])
		return ret;
	cells = twdev_alloc_page(f, TWHEEL_GFP_MAPPED);
	if (IS_ERR(cells))
		return PTR_ERR(cells);
	/* TWHEEL_CELL_IDLE and TWC_NO_LOOK */
	memset(cells, 0xff, PAGE_SIZE);
	scoped_guard(twdev_file, f)
		f->cells[page] = cells;
	return 0;
}

/* Free a table for @nr cells, and its pages. No task can reach them any more. */
void twdev_free_cells(struct twdev_file *f, struct twheel_cell **cells, u32 nr)
{
	u32 i;

	for (i = 0; cells && i < nr / TWDEV_PER_CELLS; i++) {
		if (cells[i])
			twdev_free_page(f, cells[i]);
		cond_resched();
	}
	kvfree(cells);
}

static vm_fault_t twdev_fault(struct vm_fault *vmf)
{
	struct twdev_file *f = vmf->vma->vm_file->private_data;
	int ret;

	/* Fails only if the task is being killed, so no program sees this SIGBUS. */
	if (mutex_lock_killable(&f->grow))
		return VM_FAULT_SIGBUS;
	ret = twdev_add_cells(f, vmf->pgoff);
	if (!ret) {
		vmf->page = virt_to_page(f->cells[vmf->pgoff]);
		get_page(vmf->page);
	}
	mutex_unlock(&f->grow);
	if (!ret)
		return 0;
	return ret == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct twdev_vm_ops = {
	.fault	= twdev_fault,
};

int twdev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twdev_file *f = file->private_data;

	if (!TWDEV_HAS_CELLS)
		return -ENODEV;
	/* VM_MAYSHARE is also set for a shared mapping of a read-only descriptor. */
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_pgoff)
		return -EINVAL;
	/* With READ_IMPLIES_EXEC the kernel asks for VM_EXEC, not the program. */
	if (vma->vm_flags & VM_EXEC && !(current->personality & READ_IMPLIES_EXEC))
		return -EINVAL;
	scoped_guard(twdev_file, f) {
		if (vma_pages(vma) > twdev_max_cell_pages(f))
			return -EINVAL;
		twdev_reach(f, TWDEV_BEGUN);
	}
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_EXEC | VM_MAYEXEC);
	vma->vm_ops = &twdev_vm_ops;
	return 0;
}
