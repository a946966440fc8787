// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of /dev/twheel
 *
 * An operation comes alone, in an ioctl of its own, or in an array, in SUBMIT. SUBMIT carries
 * out successive operations of the same kind as a run, in one hold of the file's lock. An ARM
 * or MOD is plain if it has only a deadline and a cookie and the context has no slack. A
 * CANCEL is plain if it has only an id. Plain operations are read in place, from user memory.
 * Other operations are copied first.
 *
 *			plain, in place		any, copied
 *
 *	ARM, alone	twdev_arm_plain()	twdev_run_arms(), a run of one
 *	ARM, run	twdev_run_plain()	twdev_run_arms()
 *	CANCEL, alone	twdev_cancel_id()	twdev_run_cancels(), a run of one
 *	CANCEL, run	twdev_run_drops()	twdev_run_cancels()
 *	MOD, alone	-			twdev_mod_op()
 *	MOD, run	twdev_run_mods()	twdev_mod_op()
 *	GET, KICK	-			twdev_get_op(), twdev_kick()
 *
 * A plain operation falls back to a copy if a page is absent or the operation is refused. An
 * ARM also falls back if no record is free; a run adds records first. In a run, a CANCEL or
 * MOD also falls back if its id is not that of an ARMED record.
 *
 * An ARM is admitted if the file is not stopped, its live timeouts are below its limit, and a
 * record is free. All ARM functions test twdev_refusal() and the free list for this.
 *
 *
 * User memory under the lock
 *
 * Operations in place are read and written with the file's lock held:
 *
 *  - Page faults are disabled, so an access that would fault fails. The lock is dropped,
 *    the page is faulted in, and the operation is repeated.
 *  - Between user_access_begin() and user_access_end() only inline functions are called.
 *  - Each field is read once, so the value checked is the value used.
 *  - The id of an ARM is written before the ARM takes effect: a timeout with an unknown id
 *    could not be cancelled. Runs in place also write @result first.
 *
 * twdev_in_place() encloses all such accesses under the lock.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "twheel_dev.h"

/* Batch size of SUBMIT without allocated memory, on the stack. */
#define TWDEV_FEW_OPS		12

/* Check the flags, times and slack of an ARM or MOD. */
static inline int twdev_check_times(const struct twdev_file *f, const struct twheel_op *op)
{
	if (op->flags & ~TWDEV_ARM_FLAGS || f->op_flags & ~op->flags)
		return -EINVAL;
	if (op->expires_ns > S64_MAX &&
	    !(op->flags & TWHEEL_F_CELL && op->expires_ns == TWHEEL_CELL_IDLE))
		return -EINVAL;
	if (op->interval_ns > S64_MAX)
		return -EINVAL;
	if (op->slack_us && op->flags & TWHEEL_F_EXACT)
		return -EINVAL;
	if (!op->interval_ns)
		return op->repeat || op->flags & TWHEEL_F_FIXED_DELAY ? -EINVAL : 0;
	return op->flags & TWHEEL_F_CELL ? -EINVAL : 0;
}

/* Check a CANCEL or KICK: all fields except the id must be 0. OR-ing them saves branches. */
static inline int twdev_check_id_alone(const struct twheel_op *op)
{
	u32 extras = op->flags | op->repeat | op->slack_us | op->reserved;

	return unlikely(extras | op->expires_ns | op->interval_ns | op->cookie) ? -EINVAL : 0;
}

/*
 * Check an operation other than CANCEL, without a lookup of its timeout. Fields that it does
 * not take must be 0. Output fields may have any value.
 */
static int twdev_check_op(const struct twdev_file *f, const struct twheel_op *op)
{
	if (op->reserved)
		return -EINVAL;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
	case TWHEEL_OP_MOD:
		return twdev_check_times(f, op);
	case TWHEEL_OP_GET:
		return op->flags || op->slack_us ? -EINVAL : 0;
	case TWHEEL_OP_KICK:
		return TWDEV_HAS_CELLS ? twdev_check_id_alone(op) : -EINVAL;
	default:
		return -EINVAL;
	}
}

/* The slack of an ARM or MOD, in us. */
static inline u32 twdev_slack_of(const struct twdev_file *f, const struct twheel_op *op)
{
	if (op->slack_us || op->flags & TWHEEL_F_EXACT)
		return op->slack_us;
	return f->slack_us;
}

/* Set all fields that ARM and MOD set, except the deadline. A cell has no interval. */
static inline void twdev_fill(struct twdev_file *f, struct twdev_record *r,
			      const struct twheel_op *op)
{
	r->t.data = op->cookie;
	r->repeat = op->repeat;
	r->t.tag = twdev_slack_of(f, op);
	r->flags = op->flags & (TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL);
	if (likely(!twdev_is_cell(r)))
		r->interval_ns = op->interval_ns;
}

/**
 * struct twdev_plain - fields of a plain ARM or MOD
 * @flags: TWHEEL_F_ABS, or 0
 * @expires_ns: the deadline: absolute with TWHEEL_F_ABS, otherwise from now
 * @cookie: returned in the event
 */
struct twdev_plain {
	u32	flags;
	u64	expires_ns;
	u64	cookie;
};

/* twdev_fill() for a plain MOD of an ARMED record */
static __always_inline void twdev_refill_plain(struct twdev_record *r,
					       const struct twdev_plain *op)
{
	r->t.data = op->cookie;
	r->t.tag = 0;
	r->interval_ns = 0;
	r->repeat = 0;
	r->flags = 0;
}

/* twdev_fill() for a plain ARM, with the deadline. Makes the FREE record ARMED. */
static __always_inline void twdev_fill_plain(const struct twdev_file *f, struct twdev_record *r,
					     const struct twdev_plain *op, u64 now_ns)
{
	r->t.expires = twdev_deadline(f, op->flags, op->expires_ns, now_ns);
	twdev_refill_plain(r, op);
	r->state = TWDEV_ARMED;
	r->rearm = false;
	r->unprocessed = false;
}

/*
 * End a live record in any state. Returns true if it had fired. A record with @rearm set has
 * not fired.
 */
static bool twdev_remove(struct twdev_file *f, struct twdev_record *r)
{
	bool fired = r->state == TWDEV_READY || r->state == TWDEV_STOPPED;

	if (r->state == TWDEV_READY) {
		twdev_unready(f, r);
	} else if (r->state == TWDEV_STOPPED) {
		list_del(&r->t.entry);
	} else if (r->state != TWDEV_PARKED && !twheel_cancel(&r->t)) {
		r->state = TWDEV_CANCELLED;
		f->live--;
		return !r->rearm;
	}
	twdev_end_record(f, r);
	return fired;
}

/* Cancel a cell, or a record that is not pending in the wheel. Returns the outcome. */
static noinline int twdev_cancel_other(struct twdev_file *f, struct twdev_record *r)
{
	int ret = 0;

	if (twdev_is_cell(r)) {
		ret = twdev_disarm_cell(f, r);
		twdev_remove(f, r);
	} else if (twdev_remove(f, r)) {
		ret = TWHEEL_WITHDRAWN;
	}
	if (!ret)
		f->counts.cancelled++;
	else if (ret == TWHEEL_WITHDRAWN)
		f->counts.withdrawn++;
	else
		f->counts.ended++;
	return ret;
}

/* End a live record. Returns the outcome. */
static __always_inline int twdev_cancel_record(struct twdev_file *f, struct twdev_record *r)
{
	if (unlikely(r->state != TWDEV_ARMED || !twheel_cancel(&r->t)))
		return twdev_cancel_other(f, r);
	twdev_end_record(f, r);
	f->counts.cancelled++;
	return 0;
}

static __always_inline int twdev_cancel_id(struct twdev_file *f, u64 id)
{
	struct twdev_record *r = twdev_find(f, id);

	return r ? twdev_cancel_record(f, r) : -ENOENT;
}

/* Let the sink arm a record on its way there for a MOD. Returns true if it had fired. */
static bool twdev_defer_mod(struct twdev_record *r, u64 expires_ns)
{
	bool fired = !r->rearm;

	r->t.expires = expires_ns;
	r->rearm = true;
	return fired;
}

static int twdev_mod_op(struct twdev_file *f, const struct twheel_op *op, u64 now_ns)
{
	struct twdev_record *r = twdev_find(f, op->id);
	u64 expires_ns;

	if (unlikely(f->stopped))
		return -ESHUTDOWN;
	if (!r)
		return -ENOENT;
	if (unlikely(twdev_is_cell(r) != !!(op->flags & TWHEEL_F_CELL)))
		return -EINVAL;
	f->counts.moved++;
	twdev_fill(f, r, op);
	if (unlikely(twdev_is_cell(r)))
		return twdev_mod_cell(f, r, op, now_ns);
	expires_ns = twdev_deadline(f, op->flags, op->expires_ns, now_ns);
	if (r->state == TWDEV_READY) {
		twdev_unready(f, r);
		twdev_queue_alone(f, r, expires_ns);
		return TWHEEL_WITHDRAWN;
	}
	if (twheel_mod_slack(&r->t, expires_ns, twdev_slack_ns(r)) >= 0)
		return 0;
	return twdev_defer_mod(r, expires_ns) ? TWHEEL_WITHDRAWN : 0;
}

static int twdev_get_op(struct twdev_file *f, struct twheel_op *op, u64 now_ns)
{
	struct twdev_record *r = twdev_find(f, op->id);

	if (!r)
		return -ENOENT;
	op->cookie = r->t.data;
	op->repeat = r->repeat;
	twdev_observe(f, r, now_ns, &op->expires_ns);
	op->interval_ns = twdev_interval_ns(r);
	return 0;
}

/* Carry out a checked MOD, GET or KICK. */
static int twdev_apply(struct twdev_file *f, struct twheel_op *op, u64 now_ns)
{
	lockdep_assert_held(&f->lock);
	switch (op->opcode) {
	case TWHEEL_OP_MOD:
		return twdev_mod_op(f, op, now_ns);
	case TWHEEL_OP_GET:
		return twdev_get_op(f, op, now_ns);
	default:
		return twdev_kick(f, op->id, now_ns);
	}
}

/*
 * Operations in user memory
 *
 * twdev_fetch_op() copies any operation. The other functions are for plain operations. They
 * load field by field, which costs half as much as a copy. Each must-be-zero field is tested
 * as it is loaded. The functions return true if an access faults or the operation is not
 * plain; the caller then falls back to a copy.
 */

static __always_inline bool twdev_fetch_op(struct twheel_op *op, struct twheel_op __user *uop)
{
	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	unsafe_get_user(op->opcode, &uop->opcode, fault);
	unsafe_get_user(op->flags, &uop->flags, fault);
	unsafe_get_user(op->id, &uop->id, fault);
	unsafe_get_user(op->expires_ns, &uop->expires_ns, fault);
	unsafe_get_user(op->interval_ns, &uop->interval_ns, fault);
	unsafe_get_user(op->cookie, &uop->cookie, fault);
	unsafe_get_user(op->repeat, &uop->repeat, fault);
	unsafe_get_user(op->slack_us, &uop->slack_us, fault);
	unsafe_get_user(op->reserved, &uop->reserved, fault);
	user_access_end();
	return false;
fault:
	user_access_end();
	return true;
}

/* Call twdev_is_not() to twdev_store_done() inside user_access_begin() and _end(). */

static __always_inline bool twdev_is_not(u32 value, const __u32 __user *field)
{
	u32 is;

	unsafe_get_user(is, field, fault);
	return is != value;
fault:
	return true;
}

static __always_inline bool twdev_is_set(const __u64 __user *field)
{
	u64 is;

	unsafe_get_user(is, field, fault);
	return is;
fault:
	return true;
}

/*
 * Load flags, deadline and cookie of a plain @opcode, ARM or MOD. It also passes
 * twdev_check_op(). The flags must be TWHEEL_F_ABS or @must.
 */
static __always_inline bool twdev_load_plain(struct twdev_plain *op, u32 opcode,
					     const struct twheel_op __user *uop, u32 must)
{
	if (twdev_is_not(opcode, &uop->opcode))
		return true;
	unsafe_get_user(op->flags, &uop->flags, fault);
	if (op->flags != TWHEEL_F_ABS && op->flags != must)
		return true;
	if (twdev_is_set(&uop->interval_ns) || twdev_is_not(0, &uop->repeat) ||
	    twdev_is_not(0, &uop->slack_us) || twdev_is_not(0, &uop->reserved))
		return true;
	unsafe_get_user(op->expires_ns, &uop->expires_ns, fault);
	unsafe_get_user(op->cookie, &uop->cookie, fault);
	return op->expires_ns > S64_MAX;
fault:
	return true;
}

static __always_inline bool twdev_load_id(u64 *id, const struct twheel_op __user *uop)
{
	unsafe_get_user(*id, &uop->id, fault);
	return false;
fault:
	return true;
}

/* Load the id of a CANCEL. Returns true if it would not pass twdev_check_id_alone(). */
static __always_inline bool twdev_load_cancel(u64 *id, const struct twheel_op __user *uop)
{
	if (twdev_is_not(TWHEEL_OP_CANCEL, &uop->opcode) || twdev_is_not(0, &uop->flags) ||
	    twdev_is_not(0, &uop->repeat) || twdev_is_not(0, &uop->slack_us) ||
	    twdev_is_not(0, &uop->reserved) || twdev_is_set(&uop->expires_ns) ||
	    twdev_is_set(&uop->interval_ns) || twdev_is_set(&uop->cookie))
		return true;
	return twdev_load_id(id, uop);
}

static __always_inline bool twdev_store_id(u64 id, struct twheel_op __user *uop)
{
	unsafe_put_user(id, &uop->id, fault);
	return false;
fault:
	return true;
}

/* Store the result 0 of an operation of SUBMIT. */
static __always_inline bool twdev_store_done(struct twheel_op __user *uop)
{
	unsafe_put_user(0, &uop->result, fault);
	return false;
fault:
	return true;
}

static __always_inline bool twdev_fetch_plain(struct twdev_plain *op,
					      const struct twheel_op __user *uop, u32 must)
{
	bool other;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	other = twdev_load_plain(op, TWHEEL_OP_ARM, uop, must);
	user_access_end();
	return other;
}

static __always_inline bool twdev_fetch_cancel(u64 *id, const struct twheel_op __user *uop)
{
	bool other;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	other = twdev_load_cancel(id, uop);
	user_access_end();
	return other;
}

static __always_inline bool twdev_put_id(u64 id, struct twheel_op __user *uop)
{
	bool fault;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	fault = twdev_store_id(id, uop);
	user_access_end();
	return fault;
}

/* Operations that have been copied */

/**
 * struct twdev_batch - operations that are handled in one hold of a file's lock
 * @size: capacity of @ops and of @timeouts
 * @ops: the operations, copied from user memory
 * @timeouts: timeouts of one run
 * @deadlines: deadlines of a run of MODs in place, which does not use @ops
 * @alone: address of an operation that came alone, or NULL. The id of an ARM is written
 *	there before the timeout is enqueued
 */
struct twdev_batch {
	u32			size;
	union {
		struct twheel_op	*ops;
		u64			*deadlines;
	};
	struct twheel_timeout	**timeouts;
	struct twheel_op __user	*alone;
};

/* Access user memory with page faults disabled, see "User memory under the lock". */
#define twdev_in_place(access)				\
({							\
	typeof(access) __ret;				\
							\
	pagefault_disable();				\
	__ret = (access);				\
	pagefault_enable();				\
	__ret;						\
})

/*
 * Carry out a run of ARMs at the front of @ops. Returns their number. The run ends at an
 * operation of another kind, or if a record, a cell or a page of user memory is missing.
 */
static u32 twdev_run_arms(struct twdev_file *f, struct twheel_op *ops, u32 nr, u64 now_ns,
			  const struct twdev_batch *batch)
{
	struct twdev_arms arms = { .timeouts = batch->timeouts };
	u32 i;

	for (i = 0; i < nr && ops[i].opcode == TWHEEL_OP_ARM; i++) {
		struct twheel_op *op = &ops[i];
		struct twdev_record *r;

		op->result = twdev_check_op(f, op);
		if (unlikely(op->result))
			continue;
		r = twdev_find_free(f, op);
		if (unlikely(!r))
			break;
		if (IS_ERR(r)) {
			op->result = PTR_ERR(r);
			continue;
		}
		if (batch->alone && twdev_in_place(twdev_put_id(r->id, batch->alone)))
			break;
		twdev_take(f, r);
		/* The first timeout begins the file, even if it ends in this hold. */
		if (unlikely(!f->begun))
			twdev_begin(f);
		op->id = r->id;
		twdev_fill(f, r, op);
		if (unlikely(twdev_is_cell(r))) {
			twdev_arm_all(f, &arms);
			twdev_arm_cell(f, r, op, now_ns);
			continue;
		}
		r->t.expires = twdev_deadline(f, op->flags, op->expires_ns, now_ns);
		twdev_queue_record(f, r, &arms);
	}
	twdev_arm_all(f, &arms);
	return i;
}

/*
 * Set the results of timeouts that twheel_cancel_list() found on their way to the sink. The
 * sink frees these. @timeouts has NULL for each of them. The results of all @nr timeouts are
 * 0 so far. A cell may also have the result 0, but is not in @timeouts.
 */
static void twdev_finish_cancels(struct twdev_file *f, struct twheel_op *op,
				 struct twheel_timeout **timeouts, u32 nr)
{
	for (; nr; op++) {
		if (op->result || twdev_is_cell(twdev_record_at(f, op->id)))
			continue;
		nr--;
		if (*timeouts++ || twdev_record_at(f, op->id)->rearm)
			continue;
		op->result = TWHEEL_WITHDRAWN;
		f->counts.cancelled--;
		f->counts.withdrawn++;
	}
}

/*
 * Take @nr CANCELLED records out of the wheel. They are pending, or on their way to the sink.
 * Returns false if some were on their way, and their results may have changed.
 */
static bool twdev_cancel_drops(struct twdev_file *f, struct twheel_op *ops,
			       struct twheel_timeout **timeouts, u32 nr)
{
	bool all = twheel_cancel_list(timeouts, nr) == nr;
	u32 i;

	lockdep_assert_held(&f->lock);
	f->live -= nr;
	f->counts.cancelled += nr;
	if (unlikely(!all))
		twdev_finish_cancels(f, ops, timeouts, nr);
	for (i = 0; i < nr; i++)
		if (likely(timeouts[i]))
			twdev_recycle(f, twdev_record_of(&timeouts[i]->entry));
	return all;
}

/*
 * Carry out a run of CANCELs at the front of @ops. ARMED records become CANCELLED first, so
 * that a second CANCEL of the same id fails. Returns the length of the run.
 */
static u32 twdev_run_cancels(struct twdev_file *f, struct twheel_op *ops, u32 nr,
			     struct twheel_timeout **timeouts)
{
	struct twdev_record *r;
	u32 i, n = 0;

	for (i = 0; i < nr && ops[i].opcode == TWHEEL_OP_CANCEL; i++) {
		struct twheel_op *op = &ops[i];

		op->result = twdev_check_id_alone(op);
		if (unlikely(op->result))
			continue;
		r = twdev_record_at(f, op->id);
		if (unlikely(!r || r->id != op->id || r->state != TWDEV_ARMED)) {
			op->result = twdev_cancel_id(f, op->id);
			continue;
		}
		r->state = TWDEV_CANCELLED;
		timeouts[n++] = &r->t;
	}
	twdev_cancel_drops(f, ops, timeouts, n);
	return i;
}

/* Carry out operations in order, until one needs twdev_help(). Returns the number done. */
static u32 twdev_run_ops(struct twdev_file *f, struct twheel_op *ops, u32 nr, u64 now_ns,
			 const struct twdev_batch *batch)
{
	u32 i = 0, n;

	lockdep_assert_held(&f->lock);
	while (i < nr) {
		struct twheel_op *op = &ops[i];

		if (op->opcode == TWHEEL_OP_ARM) {
			n = twdev_run_arms(f, op, nr - i, now_ns, batch);
			if (!n)
				break;
			i += n;
			continue;
		}
		if (op->opcode == TWHEEL_OP_CANCEL) {
			i += twdev_run_cancels(f, op, nr - i, batch->timeouts);
			continue;
		}
		op->result = twdev_check_op(f, op);
		if (!op->result)
			op->result = twdev_apply(f, op, now_ns);
		i++;
	}
	return i;
}

/* Fault in the page for the id of @op, and add the record or cell that it needs. */
static int twdev_help(struct twdev_file *f, const struct twheel_op *op,
		      struct twheel_op __user *alone)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	if (alone && op->opcode == TWHEEL_OP_ARM && put_user(0, &alone->id))
		return -EFAULT;
	return twdev_grow(f, op);
}

/* The time for @op and the operations that follow it; 0 if @op is @alone and needs none. */
static u64 twdev_time_for(const struct twdev_file *f, const struct twheel_op *op, bool alone)
{
	/* Reading the clock is expensive. */
	if (alone && ((op->flags & (TWHEEL_F_ABS | TWHEEL_F_CELL)) == TWHEEL_F_ABS ||
		      op->opcode == TWHEEL_OP_CANCEL))
		return 0;
	return twheel_now(f->wheel);
}

static void twdev_carry_out(struct twdev_file *f, const struct twdev_batch *batch, u32 nr)
{
	struct twheel_op *ops = batch->ops;
	u32 done = 0;
	u64 now_ns;
	int ret;

	for (;;) {
		spin_lock_bh(&f->lock);
		now_ns = twdev_time_for(f, &ops[done], batch->alone);
		done += twdev_run_ops(f, ops + done, nr - done, now_ns, batch);
		spin_unlock_bh(&f->lock);
		if (done == nr)
			return;
		ret = twdev_help(f, &ops[done], batch->alone);
		if (ret)
			ops[done++].result = ret;
		if (done == nr)
			return;
	}
}

/* One operation in a call */

noinline_for_stack int twdev_ioctl_op(struct twdev_file *f, u32 opcode,
				      struct twheel_op __user *uop)
{
	struct twheel_timeout *timeout;
	struct twheel_op op;
	const struct twdev_batch batch = {
		.size = 1, .ops = &op, .timeouts = &timeout, .alone = uop,
	};

	if (twdev_fetch_op(&op, uop))
		return -EFAULT;
	if (op.opcode != opcode)
		return -EINVAL;
	twdev_carry_out(f, &batch, 1);
	/* From expires_ns up to repeat. */
	if (opcode == TWHEEL_OP_GET && !op.result &&
	    copy_to_user(&uop->expires_ns, &op.expires_ns,
			 offsetofend(struct twheel_op, repeat) -
			 offsetof(struct twheel_op, expires_ns)))
		return -EFAULT;
	return op.result;
}

/*
 * ARM and CANCEL alone are the hot calls. Every function that takes @op is inline, so that
 * its fields stay in registers. The slow path, twdev_ioctl_op(), reads the operation again.
 */

/* Carry out a plain ARM in place. Returns false if that was not possible. */
static __always_inline bool twdev_arm_plain(struct twdev_file *f, const struct twdev_plain *op,
					    u64 now_ns, struct twheel_op __user *uop)
{
	struct twdev_record *r = f->free;

	lockdep_assert_held(&f->lock);
	if (unlikely(twdev_refusal(f) || !r))
		return false;
	if (unlikely(twdev_in_place(twdev_put_id(r->id, uop))))
		return false;
	twdev_take(f, r);
	twdev_fill_plain(f, r, op, now_ns);
	twheel_arm(&r->t, r->t.expires);
	return true;
}

int twdev_ioctl_arm(struct twdev_file *f, struct twheel_op __user *uop)
{
	struct twdev_plain op twheel_uninitialized;
	u64 now_ns = 0;
	bool done;

	if (unlikely(!twdev_is_plain(f) || twdev_fetch_plain(&op, uop, f->op_flags)))
		return twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
	if (!(op.flags & TWHEEL_F_ABS))
		now_ns = twheel_now(f->wheel);
	spin_lock_bh(&f->lock);
	done = twdev_arm_plain(f, &op, now_ns, uop);
	spin_unlock_bh(&f->lock);
	return likely(done) ? 0 : twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
}

int twdev_ioctl_cancel(struct twdev_file *f, struct twheel_op __user *uop)
{
	u64 id;
	int ret;

	if (unlikely(twdev_fetch_cancel(&id, uop)))
		return twdev_ioctl_op(f, TWHEEL_OP_CANCEL, uop);
	spin_lock_bh(&f->lock);
	ret = twdev_cancel_id(f, id);
	spin_unlock_bh(&f->lock);
	return ret;
}

/* Many operations in a call */

/*
 * Copy the next operations. They lie in at most two pages. Write back a field at either end
 * to check that the results can be written. Returns the number of operations before a bad
 * address.
 */
static u32 twdev_fetch_ops(struct twheel_op *ops, struct twheel_op __user *uops, u32 nr)
{
	u32 in_page, bad;

	BUILD_BUG_ON(TWDEV_OPS_CHUNK * sizeof(*ops) > PAGE_SIZE);
	bad = DIV_ROUND_UP(copy_from_user(ops, uops, nr * sizeof(*ops)), sizeof(*ops));
	/* A copy may stop some bytes before the bad address: arm64 copies 64 at a time. */
	while (bad && !copy_from_user(&ops[nr - bad], &uops[nr - bad], sizeof(*ops)))
		bad--;
	nr -= bad;
	if (!nr || put_user(ops[0].opcode, &uops[0].opcode))
		return 0;
	if (!put_user(ops[nr - 1].reserved, &uops[nr - 1].reserved))
		return nr;
	in_page = (PAGE_SIZE - offset_in_page(uops)) / sizeof(*ops);
	return min(nr - 1, in_page);
}

/*
 * Runs in place, in user memory. A run ends at the first operation that faults, is not plain,
 * or is of another kind. twdev_submit_arms() and so on are noinline: in one function the
 * compiler would run out of registers.
 */

/* Prepare a run of plain ARMs; the caller arms @timeouts. Returns the length of the run. */
static u32 twdev_run_plain(struct twdev_file *f, struct twheel_op __user *uop, u32 nr,
			   u64 now_ns, struct twheel_timeout **timeouts)
{
	u32 room = twdev_refusal(f) ? 0 : min(nr, f->max - f->live);
	struct twdev_record *r = f->free;
	u32 must = f->op_flags, n;
	struct twdev_plain op;

	lockdep_assert_held(&f->lock);
	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; r && n < room; n++, uop++) {
		if (unlikely(twdev_load_plain(&op, TWHEEL_OP_ARM, uop, must) ||
			     twdev_store_id(r->id, uop) || twdev_store_done(uop)))
			break;
		twdev_fill_plain(f, r, &op, now_ns);
		timeouts[n] = &r->t;
		r = r->next_free;
	}
	user_access_end();
	f->free = r;
	f->live += n;
	return n;
}

/* Carry out plain ARMs at the front of @uops. Returns the number done. */
static noinline u32 twdev_submit_arms(struct twdev_file *f, struct twheel_op __user *uops,
				      u32 nr, struct twheel_timeout **timeouts)
{
	static const struct twheel_op plain = { .opcode = TWHEEL_OP_ARM };
	u64 now_ns = twheel_now(f->wheel);
	u32 n, done = 0;
	bool grow;

	do {
		spin_lock_bh(&f->lock);
		n = twdev_in_place(twdev_run_plain(f, uops + done, nr - done, now_ns, timeouts));
		if (n)
			twheel_arm_list(f->wheel, timeouts, n);
		done += n;
		grow = done < nr && !twdev_find_free(f, &plain);
		spin_unlock_bh(&f->lock);
	} while (grow && !twdev_grow(f, &plain));
	return done;
}

/* Make the ARMED records of a run of CANCELs CANCELLED; collect them. Returns the length. */
static u32 twdev_run_drops(struct twdev_file *f, struct twheel_op __user *uop, u32 nr,
			   struct twdev_batch *batch)
{
	struct twheel_timeout **timeouts = batch->timeouts;
	struct twheel_op *op = batch->ops;
	struct twdev_record *r;
	u32 n;

	lockdep_assert_held(&f->lock);
	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; n < nr; n++, uop++, op++) {
		if (unlikely(twdev_load_cancel(&op->id, uop)))
			break;
		r = __twdev_record_at(f, op->id);
		if (unlikely(!r || r->id != op->id || r->state != TWDEV_ARMED ||
			     twdev_store_done(uop)))
			break;
		r->state = TWDEV_CANCELLED;
		op->result = 0;
		timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

/* Carry out CANCELs of ARMED records at the front of @uops. Returns the number done. */
static noinline u32 twdev_submit_cancels(struct twdev_file *f, struct twheel_op __user *uops,
					 u32 nr, struct twdev_batch *batch)
{
	u32 i, n;
	bool all;

	spin_lock_bh(&f->lock);
	n = twdev_in_place(twdev_run_drops(f, uops, nr, batch));
	all = twdev_cancel_drops(f, batch->ops, batch->timeouts, n);
	spin_unlock_bh(&f->lock);
	/* Results in memory that was unmapped meanwhile are lost. */
	for (i = 0; unlikely(!all) && i < n; i++)
		if (batch->ops[i].result)
			(void)put_user(batch->ops[i].result, &uops[i].result);
	return n;
}

/* Prepare a run of plain MODs of ARMED records; the caller moves them. Returns the length. */
static u32 twdev_run_mods(struct twdev_file *f, struct twheel_op __user *uop, u32 nr,
			  u64 now_ns, const struct twdev_batch *batch)
{
	u32 must = f->op_flags, n;
	struct twdev_plain op;
	struct twdev_record *r;
	u64 id;

	lockdep_assert_held(&f->lock);
	if (f->stopped || !user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; n < nr; n++, uop++) {
		if (unlikely(twdev_load_plain(&op, TWHEEL_OP_MOD, uop, must) ||
			     twdev_load_id(&id, uop)))
			break;
		r = __twdev_record_at(f, id);
		if (unlikely(!r || r->id != id || r->state != TWDEV_ARMED ||
			     twdev_store_done(uop)))
			break;
		twdev_refill_plain(r, &op);
		batch->deadlines[n] = twdev_deadline(f, op.flags, op.expires_ns, now_ns);
		batch->timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

/* Carry out plain MODs of ARMED records at the front of @uops. Returns the number done. */
static noinline u32 twdev_submit_mods(struct twdev_file *f, struct twheel_op __user *uops,
				      u32 nr, const struct twdev_batch *batch)
{
	unsigned long withdrawn[BITS_TO_LONGS(TWDEV_OPS_CHUNK)] = { };
	u64 now_ns = twheel_now(f->wheel);
	struct twdev_record *r;
	u32 i, n;

	spin_lock_bh(&f->lock);
	n = twdev_in_place(twdev_run_mods(f, uops, nr, now_ns, batch));
	f->counts.moved += n;
	for (i = 0; i < n; i++) {
		i += twheel_mod_list(batch->timeouts + i, batch->deadlines + i, n - i);
		if (likely(i == n))
			break;
		r = twdev_record_of(&batch->timeouts[i]->entry);
		if (twdev_defer_mod(r, batch->deadlines[i]))
			__set_bit(i, withdrawn);
	}
	spin_unlock_bh(&f->lock);
	/* Results in memory that was unmapped meanwhile are lost. */
	for_each_set_bit(i, withdrawn, n)
		(void)put_user(TWHEEL_WITHDRAWN, &uops[i].result);
	return n;
}

static u32 twdev_submit_straight(struct twdev_file *f, struct twheel_op __user *uops, u32 nr,
				 struct twdev_batch *batch)
{
	u32 opcode;

	if (get_user(opcode, &uops->opcode))
		return 0;
	if (opcode == TWHEEL_OP_ARM && twdev_is_plain(f))
		return twdev_submit_arms(f, uops, nr, batch->timeouts);
	if (opcode == TWHEEL_OP_CANCEL)
		return twdev_submit_cancels(f, uops, nr, batch);
	if (opcode == TWHEEL_OP_MOD && twdev_is_plain(f))
		return twdev_submit_mods(f, uops, nr, batch);
	return 0;
}

/*
 * Write the results. Results in memory that was unmapped meanwhile are lost; the operations
 * keep their effect. Returns true if an address is bad.
 */
static bool twdev_store_ops(struct twheel_op __user *uops, const struct twheel_op *ops, u32 nr)
{
	bool bad = false;
	u32 i;

	if (likely(!copy_to_user(uops, ops, nr * sizeof(*ops))))
		return false;
	for (i = 0; i < nr; i++)
		if (copy_to_user(&uops[i], &ops[i], sizeof(*ops)))
			bad = true;
	return bad;
}

/* Copy and carry out operations. Adds the number tried to @done. True: an address is bad. */
static bool twdev_submit_copies(struct twdev_file *f, struct twheel_op __user *uops, u32 nr,
				const struct twdev_batch *batch, u32 *done)
{
	u32 got = twdev_fetch_ops(batch->ops, uops, nr);

	if (got)
		twdev_carry_out(f, batch, got);
	*done += got;
	return twdev_store_ops(uops, batch->ops, got) || got < nr;
}

/* Returns the number of operations tried. 0 means a bad address. */
static u32 twdev_submit_batch(struct twdev_file *f, struct twheel_op __user *uops, u32 nr,
			      struct twdev_batch *batch)
{
	u32 done = 0, end;

	while (done < nr) {
		end = done + min(nr - done, batch->size);
		done += twdev_submit_straight(f, uops + done, end - done, batch);
		if (done < end && twdev_submit_copies(f, uops + done, end - done, batch, &done))
			break;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

static noinline_for_stack u32 twdev_submit_few(struct twdev_file *f,
					       struct twheel_op __user *uops, u32 nr)
{
	struct twheel_timeout *timeouts[TWDEV_FEW_OPS];
	struct twheel_op ops[TWDEV_FEW_OPS];
	struct twdev_batch batch = {
		.size = TWDEV_FEW_OPS, .ops = ops, .timeouts = timeouts,
	};

	return twdev_submit_batch(f, uops, nr, &batch);
}

/* Large arrays use bigger batches, in memory allocated for the call, if that succeeds. */
static u32 twdev_submit_ops(struct twdev_file *f, struct twheel_op __user *uops, u32 nr)
{
	struct {
		struct twheel_op	ops[TWDEV_OPS_CHUNK];
		struct twheel_timeout	*timeouts[TWDEV_OPS_CHUNK];
	} *room;
	struct twdev_batch batch;
	u32 done;

	room = nr > TWDEV_FEW_OPS ? kmalloc(sizeof(*room), GFP_KERNEL | __GFP_NOWARN) : NULL;
	if (!room)
		return twdev_submit_few(f, uops, nr);
	batch.size = TWDEV_OPS_CHUNK;
	batch.ops = room->ops;
	batch.timeouts = room->timeouts;
	done = twdev_submit_batch(f, uops, nr, &batch);
	kfree(room);
	return done;
}

int twdev_ioctl_submit(struct twdev_file *f, struct twheel_submit __user *usubmit)
{
	struct twheel_submit submit;

	if (copy_from_user(&submit, usubmit, sizeof(submit)))
		return -EFAULT;
	if (submit.flags || submit.op_size != sizeof(struct twheel_op))
		return -EINVAL;
	if (put_user(0, &usubmit->done))
		return -EFAULT;
	submit.done = twdev_submit_ops(f, u64_to_user_ptr(submit.ops), submit.nr);
	if (submit.nr && !submit.done)
		return -EFAULT;
	return put_user(submit.done, &usubmit->done);
}

/* SUBMIT. The command bytes may be in memory that user space can write: load them once. */
int twdev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct twheel_uring_submit *submit = twheel_uring_data(cmd);
	struct file *file = cmd->file;
	u32 nr, done;

	if (cmd->cmd_op != TWHEEL_IOC_SUBMIT)
		return -EOPNOTSUPP;
	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (READ_ONCE(submit->op_size) != sizeof(struct twheel_op))
		return -EINVAL;
	/* The result in the CQE is a signed int. */
	nr = min_t(u32, READ_ONCE(submit->nr), INT_MAX);
	done = twdev_submit_ops(file->private_data, u64_to_user_ptr(READ_ONCE(submit->ops)), nr);
	if (nr && !done)
		return -EFAULT;
	/* Linux 6.1 takes a positive return value for an error. */
	twheel_uring_done(cmd, done, issue_flags);
	return -EIOCBQUEUED;
}

/* Cancel the timeouts in a chunk that @all selects. Returns false past the last chunk. */
static bool twdev_cancel_chunk(struct twdev_file *f, u32 chunk, struct twheel_cancel_all *all)
{
	struct twdev_record *r;
	int ret;
	u32 i;

	guard(spinlock_bh)(&f->lock);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWDEV_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (!twdev_is_live(r))
			continue;
		if (all->flags & TWHEEL_CANCEL_COOKIE && r->t.data != all->cookie)
			continue;
		ret = twdev_cancel_record(f, r);
		all->pending += !ret;
		all->withdrawn += ret == TWHEEL_WITHDRAWN;
	}
	return true;
}

int twdev_ioctl_cancel_all(struct twdev_file *f, struct twheel_cancel_all __user *uall)
{
	struct twheel_cancel_all all;
	u32 i;

	if (copy_from_user(&all, uall, sizeof(all)))
		return -EFAULT;
	if (all.flags & ~TWHEEL_CANCEL_COOKIE || all.reserved0 ||
	    memchr_inv(all.reserved, 0, sizeof(all.reserved)))
		return -EINVAL;
	if (all.cookie && !(all.flags & TWHEEL_CANCEL_COOKIE))
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
