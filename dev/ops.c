// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of /dev/twheel
 *
 * An operation comes alone, in OP, or in an array, in SUBMIT. Each has one function, which
 * twdev_do_op() calls. It works on a copy of the operation, with the file's lock held. User
 * memory is accessed without a lock. An array is handled in groups of TWDEV_GROUP:
 *
 *	twdev_load_group()	copies a group from user memory
 *	twdev_carry_out()	carries it out in one hold of the lock, if no page is missing
 *	twdev_store_group()	stores ids, what GET has found, and results
 *
 *
 * Gathering
 *
 * A list of timeouts costs the engine less than one after the other. So operations of a group
 * gather timeouts, instead of arming, moving or cancelling them at once:
 *
 *	ARM	if it is plain, see twc_is_plain(): then it passes twdev_check()
 *	MOD	if it is plain, and the record is ARMED
 *	CANCEL	if the record is ARMED. It becomes CANCELLED: a second CANCEL does not find it
 *
 * twdev_flush() gives the engine what operations of one opcode have gathered. It is called before
 * an operation with another opcode, before the lock is dropped, and before an ARM or MOD that is
 * not gathered: timeouts of one tick fire in the order in which they were armed. So no operation
 * finds a record whose ARM is gathered. A MOD may find one whose MOD is: both move the timeout.
 *
 * The sink may have taken a gathered timeout out of the wheel already, and wait for the lock. The
 * engine then skips it. A MOD tells the sink to arm it once more, a CANCEL to free its record.
 *
 *
 * Missing pages
 *
 * An ARM is admitted if the file is not stopped, its live timeouts are below its limit, and a
 * record is free. If the page of the record, or of its cell, is missing, its function returns
 * -ENOMEM. The lock is dropped, twdev_provide() adds the page, and the ARM is repeated. After a
 * fatal signal that fails; the rest of the group is carried out, and no further group.
 *
 *
 * Bad addresses
 *
 * A group is carried out if its memory can be read, and written at both ends: it lies in two pages
 * at most. If not, its first operation is tried by itself, so all operations before a bad address
 * take effect. The memory of an operation that comes alone must be writable only for what it
 * stores: the id of an ARM, and what GET has found.
 *
 * Storing fails only if another task has unmapped the memory meanwhile. The operation keeps its
 * effect, and its result is lost. Only an ARM is undone: nobody knows the id of its timeout. It
 * then counts as cancelled, and the file as begun. A result is stored after all else: if it is
 * there, it is true, and the id beside it is valid.
 *
 * The id is stored after the lock has been dropped, so others may be faster:
 *
 *  - The event may be read before.
 *  - Another task may get the id from the event or from LIST, and cancel or move the timeout. The
 *    id that is stored may be that of a timeout that has ended. A CANCEL that undoes the ARM finds
 *    the same timeout or none: an id is not used again.
 *  - STOP may make an UNPROCESSED event of it. A CANCEL that undoes the ARM withdraws the event.
 */
#include <linux/fault-inject-usercopy.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "dev.h"

/* Operations in one hold of the lock, and in one that fits on the stack. */
#define TWDEV_GROUP		32
#define TWDEV_SMALL_GROUP	8

/**
 * struct twdev_gathered - timeouts of successive operations for one call of the engine
 * @now_ns: the time, read once in a hold of the lock; 0: not read yet
 * @opcode: of the operations
 * @nr: number of timeouts
 * @timeouts: the timeouts
 * @ops: MOD, CANCEL: their operations
 * @deadlines: MOD: their deadlines
 */
struct twdev_gathered {
	u64			now_ns;
	u32			opcode;
	u32			nr;
	struct twheel_timeout	*timeouts[TWDEV_GROUP];
	struct twheel_op	*ops[TWDEV_GROUP];
	u64			deadlines[TWDEV_GROUP];
};

/* Check an operation without a lookup of its timeout. Returns 0 or -errno. */
static noinline int twdev_check(const struct twdev_file *f, const struct twheel_op *op)
{
	return twc_check_op(op, TWDEV_ARM_FLAGS, f->op_flags);
}

/* Check a MOD with @flags, or a KICK with CELL. */
static int twdev_check_found(const struct twdev_file *f, const struct twdev_record *r,
			     const struct twheel_op *op, u32 flags)
{
	return twdev_check(f, op) ?:
	       twc_check_found(f->phase >= TWDEV_STOPPED, r, r ? r->flags : 0, flags);
}

/* Does it only report? Then it changes nothing, and expires_ns up to repeat are its output. */
static inline bool twdev_only_reports(const struct twheel_op *op)
{
	return op->opcode == TWHEEL_OP_GET;
}

/* The time. The clock is expensive: a group reads it once in a hold of the lock. */
static inline u64 twdev_now(const struct twdev_file *f, struct twdev_gathered *g)
{
	if (!g)
		return twheel_now(f->wheel);
	if (!g->now_ns)
		g->now_ns = twheel_now(f->wheel);
	return g->now_ns;
}

/* Deadline of an ARM or MOD on the wheel's clock. */
static inline u64 twdev_deadline(const struct twdev_file *f, const struct twheel_op *op,
				 struct twdev_gathered *g)
{
	u64 now_ns = op->flags & TWHEEL_F_ABS ? 0 : twdev_now(f, g);

	return twc_deadline(op, now_ns, f->offset_ns);
}

/* Set all fields that ARM and MOD set, except the deadline. A cell has no interval. */
static __always_inline void twdev_fill(const struct twdev_file *f, struct twdev_record *r,
				       const struct twheel_op *op, bool plain)
{
	r->t.data = op->cookie;
	r->repeat = op->repeat;
	r->t.tag = plain ? 0 : twc_slack_us(op, f->slack_us);
	if (plain || !(op->flags & TWHEEL_F_CELL))
		r->interval_ns = op->interval_ns;
	r->flags = plain ? 0 : op->flags & TWC_KEPT_FLAGS;
}

/* Move an ARMED record. If it is on its way to the sink, that arms it. Returns the outcome. */
static int twdev_move_record(struct twdev_record *r, u64 expires_ns)
{
	int ret = r->rearm ? 0 : TWHEEL_WITHDRAWN;

	if (twheel_mod_slack(&r->t, expires_ns, twdev_slack_ns(r)) >= 0)
		return 0;
	r->t.expires = expires_ns;
	r->rearm = true;
	return ret;
}

/* Cancel a record on its way to the sink, which frees it. Returns the outcome, unless a cell. */
static int twdev_cancel_late(struct twdev_file *f, struct twdev_record *r)
{
	r->state = TWDEV_CANCELLED;
	f->live--;
	return r->rearm ? 0 : TWHEEL_WITHDRAWN;
}

/*
 * Give the engine what was gathered. A timeout on its way to the sink ends a list of MODs, and
 * becomes NULL in a list of CANCELs.
 */
static void twdev_flush(struct twdev_file *f, struct twdev_gathered *g)
{
	u32 done, i;
	int ret;

	if (!g || !g->nr)
		return;
	switch (g->opcode) {
	case TWHEEL_OP_ARM:
		twheel_arm_list(f->wheel, g->timeouts, g->nr);
		break;
	case TWHEEL_OP_MOD:
		/* Move the rest one by one. */
		done = twheel_mod_list(g->timeouts, g->deadlines, g->nr);
		for (i = done; unlikely(i < g->nr); i++) {
			ret = twdev_move_record(twdev_record_of(&g->timeouts[i]->entry),
						g->deadlines[i]);
			g->ops[i]->result = ret;
		}
		break;
	case TWHEEL_OP_CANCEL:
		done = twheel_cancel_list(g->timeouts, g->nr);
		f->counts.cancelled += done;
		f->live -= done;
		for (i = 0; i < g->nr; i++) {
			if (likely(g->timeouts[i])) {
				twdev_recycle(f, twdev_record_of(&g->timeouts[i]->entry));
				continue;
			}
			ret = twdev_cancel_late(f, twdev_record_at(f, g->ops[i]->id));
			g->ops[i]->result = twc_count_cancel(&f->counts, ret);
		}
		break;
	}
	g->nr = 0;
}

/*
 * The operations. Each function returns the result. @r: the live record of the id, or NULL if there
 * is none. @g is NULL if the operation came alone. Functions that take both kinds are inline, so
 * the compiler can leave out what an operation alone does not need.
 */

static __always_inline int twdev_arm_op(struct twdev_file *f, struct twheel_op *op,
					struct twdev_gathered *g)
{
	bool plain = likely(twc_is_plain(op, f->op_flags, f->slack_us));
	bool cell = !plain && op->flags & TWHEEL_F_CELL;
	int ret = plain ? 0 : twdev_check(f, op);
	struct twdev_record *r = f->free;
	u64 expires_ns;

	ret = ret ?: twc_check_arm(unlikely(f->phase >= TWDEV_STOPPED), f->live, f->max);
	if (unlikely(ret)) {
		f->refused += ret == -EAGAIN;
		return ret;
	}
	if (unlikely(!r || (cell && twdev_lacks_cell(f, r))))
		return -ENOMEM;
	/* The first timeout begins the file, even if it ends in this hold. */
	if (unlikely(f->phase == TWDEV_NEW))
		twdev_reach(f, TWDEV_BEGUN);
	f->free = r->next_free;
	f->live++;
	op->id = r->id;
	twdev_fill(f, r, op, plain);
	r->state = TWDEV_ARMED;
	r->rearm = false;
	r->unprocessed = false;
	if (cell) {
		twdev_flush(f, g);
		twdev_arm_cell(f, r, op, twdev_now(f, g));
		return 0;
	}
	expires_ns = twdev_deadline(f, op, g);
	if (g && plain) {
		r->t.expires = expires_ns;
		g->timeouts[g->nr++] = &r->t;
		return 0;
	}
	twdev_flush(f, g);
	twdev_arm_record(f, r, expires_ns);
	return 0;
}

/* A MOD that is not gathered. */
static noinline int twdev_mod_record(struct twdev_file *f, struct twdev_record *r,
				     const struct twheel_op *op, struct twdev_gathered *g)
{
	int ret = twdev_check_found(f, r, op, op->flags);
	u64 expires_ns;

	if (ret)
		return ret;
	f->counts.moved++;
	twdev_fill(f, r, op, false);
	if (r->flags & TWHEEL_F_CELL)
		return twdev_mod_cell(f, r, op, twdev_now(f, g));
	expires_ns = twdev_deadline(f, op, g);
	if (r->state == TWDEV_READY) {
		twdev_unready(f, r);
		twdev_arm_record(f, r, expires_ns);
		return TWHEEL_WITHDRAWN;
	}
	return twdev_move_record(r, expires_ns);
}

static __always_inline int twdev_mod_op(struct twdev_file *f, struct twdev_record *r,
					struct twheel_op *op, struct twdev_gathered *g)
{
	if (g && likely(r && r->state == TWDEV_ARMED && f->phase < TWDEV_STOPPED &&
			twc_is_plain(op, f->op_flags, f->slack_us))) {
		f->counts.moved++;
		twdev_fill(f, r, op, true);
		g->deadlines[g->nr] = twdev_deadline(f, op, g);
		g->ops[g->nr] = op;
		g->timeouts[g->nr++] = &r->t;
		return 0;
	}
	twdev_flush(f, g);
	return twdev_mod_record(f, r, op, g);
}

/* End a live record, never NULL, in any state. Returns the outcome. */
static noinline int twdev_cancel_record(struct twdev_file *f, struct twdev_record *r)
{
	bool cell = r->flags & TWHEEL_F_CELL;
	int ret = cell ? twdev_disarm_cell(f, r) : 0, late;

	if (r->state == TWDEV_READY) {
		twdev_unready(f, r);
		ret = cell ? ret : TWHEEL_WITHDRAWN;
	} else if (r->state == TWDEV_LATE) {
		list_del(&r->t.entry);
	}
	if (twdev_is_enqueued(r) && !twheel_cancel(&r->t)) {
		late = twdev_cancel_late(f, r);
		ret = cell ? ret : late;
	} else {
		twdev_end_record(f, r);
	}
	return twc_count_cancel(&f->counts, ret);
}

/* Looks its record up itself: one lookup for all operations would cost it 4 instructions. */
static __always_inline int twdev_cancel_op(struct twdev_file *f, struct twheel_op *op,
					   struct twdev_gathered *g)
{
	struct twdev_record *r;

	if (unlikely(twc_check_id_alone(op)))
		return -EINVAL;
	r = twdev_find(f, op->id);
	if (unlikely(!r))
		return -ENOENT;
	if (unlikely(r->state != TWDEV_ARMED || (!g && !twheel_cancel(&r->t))))
		return twdev_cancel_record(f, r);
	if (!g) {
		twdev_end_record(f, r);
		f->counts.cancelled++;
		return 0;
	}
	r->state = TWDEV_CANCELLED;
	g->ops[g->nr] = op;
	g->timeouts[g->nr++] = &r->t;
	return 0;
}

static noinline int twdev_get_op(struct twdev_file *f, struct twdev_record *r,
				 struct twheel_op *op, u64 now_ns)
{
	int ret = twdev_check(f, op);

	if (ret || !r)
		return ret ?: -ENOENT;
	op->cookie = r->t.data;
	op->repeat = r->repeat;
	twdev_observe(f, r, now_ns, &op->expires_ns, &op->interval_ns);
	return 0;
}

static noinline int twdev_kick_op(struct twdev_file *f, struct twdev_record *r,
				  const struct twheel_op *op, struct twdev_gathered *g)
{
	int ret = twdev_check_found(f, r, op, TWHEEL_F_CELL);

	if (!ret)
		twdev_kick(f, r, twdev_now(f, g));
	return ret;
}

/* Returns the result. -ENOMEM: a page is missing, and nothing was done. See "Missing pages". */
static __always_inline int twdev_do_op(struct twdev_file *f, struct twheel_op *op,
				       struct twdev_gathered *g)
{
	struct twdev_record *r;

	lockdep_assert_held(&f->lock);
	if (op->opcode == TWHEEL_OP_ARM)
		return twdev_arm_op(f, op, g);
	if (op->opcode == TWHEEL_OP_CANCEL)
		return twdev_cancel_op(f, op, g);
	r = twdev_find(f, op->id);
	switch (op->opcode) {
	case TWHEEL_OP_MOD:
		return twdev_mod_op(f, r, op, g);
	case TWHEEL_OP_GET:
		return twdev_get_op(f, r, op, twdev_now(f, g));
	case TWHEEL_OP_KICK:
		return twdev_kick_op(f, r, op, g);
	default:
		return -EINVAL;
	}
}

/*
 * Provide a free record for an ARM, or its cell. Killable: an allocation may wait for long under
 * grow.
 */
static int twdev_provide(struct twdev_file *f, const struct twheel_op *op)
{
	bool lacks_cell = false;
	struct twdev_record *r;
	u32 index = 0;
	int ret;

	if (fatal_signal_pending(current))
		return -EINTR;
	scoped_guard(twdev_file, f) {
		r = f->free;
		if (r) {
			index = (u32)r->id;
			lacks_cell = op->flags & TWHEEL_F_CELL && twdev_lacks_cell(f, r);
		}
	}
	if (mutex_lock_killable(&f->grow))
		return -EINTR;
	ret = lacks_cell ? twdev_add_cells(f, index / TWDEV_PER_CELLS) : twdev_add_chunk(f);
	mutex_unlock(&f->grow);
	return ret;
}

/* One operation in a call */

static __always_inline int twdev_carry_out_one(struct twdev_file *f, struct twheel_op *op)
{
	int ret = 0;

	for (;;) {
		scoped_guard(twdev_file, f)
			ret = twdev_do_op(f, op, NULL);
		if (likely(ret != -ENOMEM))
			return ret;
		ret = twdev_provide(f, op);
		if (ret)
			return ret;
	}
}

/* Undo an ARM whose id could not be stored. */
static noinline void twdev_undo(struct twdev_file *f, u64 id)
{
	struct twheel_op cancel = { .opcode = TWHEEL_OP_CANCEL, .id = id };

	twdev_carry_out_one(f, &cancel);
}

/* Load an operation, and store the id of an ARM as it is. Returns false at a bad address. */
static __always_inline bool twdev_load_op(struct twheel_op *op, struct twheel_op __user *uop)
{
	const u64 __user *from = (const u64 __user *)uop;
	u64 *to = (u64 *)op;

	BUILD_BUG_ON(sizeof(*op) != 7 * sizeof(*to));
	/* unsafe_get_user() of some 32-bit processors does not take 64 bits. */
	if (!IS_ENABLED(CONFIG_64BIT))
		return !copy_from_user(op, uop, sizeof(*op)) &&
		       (op->opcode != TWHEEL_OP_ARM || !put_user(op->id, &uop->id));
	might_fault();
	if (should_fail_usercopy() || !user_access_begin(uop, sizeof(*uop)))
		return false;
	unsafe_get_user(to[0], &from[0], fault);
	unsafe_get_user(to[1], &from[1], fault);
	unsafe_get_user(to[2], &from[2], fault);
	unsafe_get_user(to[3], &from[3], fault);
	unsafe_get_user(to[4], &from[4], fault);
	unsafe_get_user(to[5], &from[5], fault);
	unsafe_get_user(to[6], &from[6], fault);
	if (op->opcode == TWHEEL_OP_ARM)
		unsafe_put_user(op->id, &uop->id, fault);
	user_access_end();
	return true;
fault: __cold;
	user_access_end();
	return false;
}

/* OP. The same prototype as that of twdev_ioctl(), which can then jump here. */
long twdev_ioctl_op(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct twheel_op __user *uop = (struct twheel_op __user *)arg;
	struct twheel_op op twheel_uninitialized;
	struct twdev_file *f = file->private_data;
	int ret;

	if (!twdev_load_op(&op, uop))
		return -EFAULT;
	if (!(file->f_mode & FMODE_WRITE) && !twdev_only_reports(&op))
		return -EBADF;
	ret = twdev_carry_out_one(f, &op);
	if (ret)
		return ret;
	if (op.opcode == TWHEEL_OP_ARM && unlikely(put_user(op.id, &uop->id))) {
		twdev_undo(f, op.id);
		return -EFAULT;
	}
	if (twdev_only_reports(&op) &&
	    copy_to_user(&uop->expires_ns, &op.expires_ns,
			 offsetofend(struct twheel_op, repeat) -
			 offsetof(struct twheel_op, expires_ns)))
		return -EFAULT;
	return 0;
}

/* Many operations in a call */

/* Carry out operations up to the first that lacks a page. Returns that, or @end. */
static __always_inline struct twheel_op *twdev_carry_out_some(struct twdev_file *f,
							      struct twheel_op *op,
							      const struct twheel_op *end)
{
	struct twdev_gathered g twheel_uninitialized;
	int ret;

	g.now_ns = 0;
	g.opcode = 0;
	g.nr = 0;
	guard(twdev_file)(f);
	for (; op < end; op++) {
		if (op->opcode != g.opcode) {
			twdev_flush(f, &g);
			g.opcode = op->opcode;
		}
		ret = twdev_do_op(f, op, &g);
		if (unlikely(ret == -ENOMEM))
			break;
		op->result = ret;
	}
	twdev_flush(f, &g);
	return op;
}

/* Carry out a group: set results, ids, and what GET has found. */
static noinline_for_stack void twdev_carry_out(struct twdev_file *f, struct twheel_op *op, u32 nr)
{
	const struct twheel_op *end = op + nr;
	int ret;

	while (op < end) {
		op = twdev_carry_out_some(f, op, end);
		if (likely(op == end))
			break;
		ret = twdev_provide(f, op);
		if (ret)
			op++->result = ret;
	}
}

/*
 * Load a group, and store fields at both ends as they are. Returns false at a bad address. Hardened
 * usercopy does not check a constant size, which would be a sixteenth of the costs of a full group.
 */
static bool twdev_load_group(struct twheel_op *ops, struct twheel_op __user *uops, u32 nr)
{
	unsigned long left;

	BUILD_BUG_ON(TWDEV_GROUP * sizeof(*ops) > PAGE_SIZE);
	if (likely(nr == TWDEV_GROUP))
		left = copy_from_user(ops, uops, TWDEV_GROUP * sizeof(*ops));
	else
		left = copy_from_user(ops, uops, nr * sizeof(*ops));
	return !left && !put_user(ops[0].opcode, &uops[0].opcode) &&
	       !put_user(ops[nr - 1].reserved, &uops[nr - 1].reserved);
}

/* The result comes last: if it is there, all other fields are. Returns false at a bad address. */
static __always_inline bool twdev_store_op(const struct twheel_op *op,
					   struct twheel_op __user *uop)
{
	if (unlikely(twdev_only_reports(op) && !op->result)) {
		unsafe_put_user(op->expires_ns, &uop->expires_ns, fault);
		unsafe_put_user(op->interval_ns, &uop->interval_ns, fault);
		unsafe_put_user(op->cookie, &uop->cookie, fault);
		unsafe_put_user(op->repeat, &uop->repeat, fault);
	}
	unsafe_put_user(op->id, &uop->id, fault);
	unsafe_put_user(op->result, &uop->result, fault);
	return true;
fault:
	return false;
}

static noinline_for_stack void twdev_store_group(struct twdev_file *f, const struct twheel_op *op,
						 struct twheel_op __user *uop, u32 nr)
{
	const struct twheel_op *end = op + nr;

	might_fault();
	while (user_access_begin(uop, (end - op) * sizeof(*uop))) {
		for (; op < end; op++, uop++)
			if (unlikely(!twdev_store_op(op, uop)))
				break;
		user_access_end();
		if (likely(op == end))
			break;
		if (op->opcode == TWHEEL_OP_ARM && !op->result)
			twdev_undo(f, op->id);
		op++;
		uop++;
	}
}

/* Returns the number of operations tried; 0: a bad address. Groups are small without memory. */
static noinline_for_stack u32 twdev_submit_ops(struct twdev_file *f,
					       struct twheel_op __user *uops, u32 nr)
{
	struct twheel_op small[TWDEV_SMALL_GROUP] twheel_uninitialized, *large = NULL, *ops;
	u32 done = 0, max, n;

	if (nr > TWDEV_SMALL_GROUP)
		large = kmalloc_array(min_t(u32, nr, TWDEV_GROUP), sizeof(*large),
				      GFP_KERNEL | __GFP_NOWARN);
	ops = large ?: small;
	max = large ? TWDEV_GROUP : TWDEV_SMALL_GROUP;
	while (done < nr) {
		n = min(nr - done, max);
		if (unlikely(!twdev_load_group(ops, uops + done, n))) {
			n = 1;
			if (!twdev_load_group(ops, uops + done, n))
				break;
		}
		twdev_carry_out(f, ops, n);
		twdev_store_group(f, ops, uops + done, n);
		done += n;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
	kfree(large);
	return done;
}

int twdev_ioctl_submit(struct twdev_file *f, struct twheel_submit __user *usubmit)
{
	struct twheel_submit submit;

	if (copy_from_user(&submit, usubmit, sizeof(submit)))
		return -EFAULT;
	if (twc_check_submit(&submit))
		return -EINVAL;
	if (put_user(0, &usubmit->done))
		return -EFAULT;
	submit.done = twdev_submit_ops(f, u64_to_user_ptr(submit.ops), submit.nr);
	if (submit.nr && !submit.done)
		return -EFAULT;
	return put_user(submit.done, &usubmit->done);
}

#ifdef TWHEEL_HAS_uring_cmd
/* SUBMIT. The command bytes may be in memory that user space can write: load them once. */
int twdev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct twheel_uring_submit *submit = twheel_uring_data(cmd);
	struct file *file = cmd->file;
	u32 nr, done;

	if (cmd->cmd_op != TWHEEL_URING_SUBMIT)
		return -EOPNOTSUPP;
	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	/* Limited, because the ring is locked: a task that waits for that cannot be killed. */
	nr = READ_ONCE(submit->nr);
	if (nr > TWHEEL_URING_MAX_OPS || READ_ONCE(submit->flags) ||
	    READ_ONCE(submit->op_size) != sizeof(struct twheel_op) ||
	    twheel_uring_flags(cmd))
		return -EINVAL;
	done = twdev_submit_ops(file->private_data, u64_to_user_ptr(READ_ONCE(submit->ops)), nr);
	if (nr && !done)
		return -EFAULT;
	/* Linux 6.1 takes a positive return value for an error. */
	twheel_uring_done(cmd, done, issue_flags);
	return -EIOCBQUEUED;
}
#endif

/* Cancel the timeouts in a chunk that @all selects. Returns false past the last chunk. */
static bool twdev_cancel_chunk(struct twdev_file *f, u32 chunk, struct twheel_cancel_all *all)
{
	struct twdev_record *r;
	u32 i;

	guard(twdev_file)(f);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWDEV_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (twdev_is_live(r) && twc_selects(all, r->t.data))
			twc_count_all(all, twdev_cancel_record(f, r));
	}
	return true;
}

int twdev_ioctl_cancel_all(struct twdev_file *f, struct twheel_cancel_all __user *uall)
{
	struct twheel_cancel_all all;
	u32 i;

	if (copy_from_user(&all, uall, sizeof(all)))
		return -EFAULT;
	if (twc_check_cancel_all(&all))
		return -EINVAL;
	/* Check that the result can be written before anything is cancelled. */
	all.pending = 0;
	all.withdrawn = 0;
	if (copy_to_user(uall, &all, sizeof(all)))
		return -EFAULT;
	for (i = 0; twdev_cancel_chunk(f, i, &all); i++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return copy_to_user(uall, &all, sizeof(all)) ? -EFAULT : 0;
}
