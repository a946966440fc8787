// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of /dev/twheel
 *
 * An operation comes alone, in an ioctl of its own, or with others in SUBMIT. SUBMIT
 * carries out operations of the same kind that follow each other as a run, in one hold of
 * the file's lock. An operation is plain if it asks for nothing beyond a deadline and a
 * cookie (ARM, MOD) or an id (CANCEL), and the context has no slack. Plain operations are read
 * where they are, in user memory. All others are copied first.
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
 * A plain operation that cannot be carried out in place begins anew as one that is copied:
 * a page is missing, there is no free record, or the timeout is not pending.
 *
 * An ARM is admitted if the file is not stopped, if it has fewer live timeouts than its
 * limit, and if it has a free record. twdev_refusal() and the list of free records say so
 * for all four.
 *
 *
 * User memory under the lock
 *
 * Operations in place are read and written with the file's lock held:
 *
 *  - Page faults are disabled, so an access that would fault fails. The lock is dropped,
 *    the page is brought in, and the operation begins anew.
 *  - Between user_access_begin() and user_access_end() no function is called that is not
 *    inline.
 *  - Each field is read once. What has been checked is what is used.
 *  - What comes out of an operation is written before it takes effect: a timeout whose id
 *    nobody knows could not be cancelled.
 *
 * twdev_in_place() encloses all such accesses under the lock.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "twheel_dev.h"

/* So many operations are handled without memory beside the stack. */
#define TWDEV_FEW_OPS		12

/* For ARM and MOD. */
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

/* For CANCEL and KICK. */
static inline int twdev_check_id_alone(const struct twheel_op *op)
{
	u32 extras = op->flags | op->repeat | op->slack_us | op->reserved;

	return unlikely(extras | op->expires_ns | op->interval_ns | op->cookie) ? -EINVAL : 0;
}

/*
 * All that can be said of an operation without looking for its timeout, unless it is a
 * CANCEL. A field that it does not take must be 0. One that only comes out of it may have
 * any value.
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
		return twdev_check_id_alone(op);
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

/* All that ARM and MOD set, but for the deadline, and for interval_ns of a cell. */
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
 * struct twdev_plain - what a plain ARM or MOD says
 * @flags: TWHEEL_F_ABS, or 0
 * @expires_ns: as in struct twheel_op
 * @cookie: as in struct twheel_op
 */
struct twdev_plain {
	u32	flags;
	u64	expires_ns;
	u64	cookie;
};

/* The same as twdev_fill(), for a plain MOD of a record that is ARMED. */
static __always_inline void twdev_refill_plain(struct twdev_record *r,
					       const struct twdev_plain *op)
{
	r->t.data = op->cookie;
	r->t.tag = 0;
	r->interval_ns = 0;
	r->repeat = 0;
	r->flags = 0;
}

/* The same as twdev_fill(), for a plain ARM. The record was FREE and is ARMED then. */
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
 * Take a live record, which ends, out of the list that it is in. Returns true if it had
 * fired. Had a MOD come on its way to the sink, it has not.
 */
static bool twdev_remove(struct twdev_file *f, struct twdev_record *r)
{
	bool fired = r->state == TWDEV_READY || r->state == TWDEV_STOPPED;

	if (r->state == TWDEV_READY) {
		twdev_unready(f, r);
	} else if (r->state == TWDEV_STOPPED) {
		list_del(&r->t.entry);
	} else if (r->state != TWDEV_PARKED && !twheel_cancel(&r->t)) {
		r->state = TWDEV_DROPPED;
		f->live--;
		return !r->rearm;
	}
	twdev_end_record(f, r);
	return fired;
}

/* One that is not pending in the wheel, or a cell. */
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
static int twdev_cancel_record(struct twdev_file *f, struct twdev_record *r)
{
	if (unlikely(r->state != TWDEV_ARMED || !twheel_cancel(&r->t)))
		return twdev_cancel_other(f, r);
	twdev_end_record(f, r);
	f->counts.cancelled++;
	return 0;
}

static int twdev_cancel_id(struct twdev_file *f, u64 id)
{
	struct twdev_record *r = twdev_find(f, id);

	return r ? twdev_cancel_record(f, r) : -ENOENT;
}

/* A MOD came on the way to the sink, which will arm it. True: it had fired before that. */
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

/* A MOD, GET or KICK that has been checked. */
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
 * All but twdev_fetch_op() is for plain operations, field by field, which costs half of
 * what a call that copies them costs. What is not plain begins anew as an operation of any
 * kind. A field that must be 0 is checked as it is read. These functions return true if the
 * address is bad, or would fault, or if the operation is not plain.
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

/* The following are called between user_access_begin() and user_access_end(). */

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
 * Get flags, deadline and cookie of a plain ARM or MOD, one that asks for nothing else.
 * It passes twdev_check_op(). @must are the flags that it must have. True also if it is
 * something else.
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

/* Get the id of a CANCEL that passes twdev_check_id_alone(). True also if it does not. */
static __always_inline bool twdev_load_cancel(u64 *id, const struct twheel_op __user *uop)
{
	if (twdev_is_not(TWHEEL_OP_CANCEL, &uop->opcode) || twdev_is_not(0, &uop->flags) ||
	    twdev_is_not(0, &uop->repeat) || twdev_is_not(0, &uop->slack_us) ||
	    twdev_is_not(0, &uop->reserved) || twdev_is_set(&uop->expires_ns) ||
	    twdev_is_set(&uop->interval_ns) || twdev_is_set(&uop->cookie))
		return true;
	return twdev_load_id(id, uop);
}

/* Write the id of an ARM. */
static __always_inline bool twdev_store_id(u64 id, struct twheel_op __user *uop)
{
	unsafe_put_user(id, &uop->id, fault);
	return false;
fault:
	return true;
}

/* Write that an operation of SUBMIT has succeeded. */
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
 * @size: room for so many
 * @ops: the operations
 * @timeouts: those of a run of them, with room for as many
 * @deadlines: those of a run of MODs in place, which needs no @ops: in the same memory
 * @alone: the operation in user memory if it came alone; then the id of an ARM is written
 *	there before the timeout is queued. Otherwise NULL
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

/* See "User memory under the lock". */
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
 * A run of ARMs at the front of @ops, in one go. Returns how many are done: up to
 * an operation of another kind, or one that needs a record, a cell or a page of user
 * memory and there is none.
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
		/* Its first timeout begins a context, even if this hold also ends it. */
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
 * twheel_cancel_list() has put NULL for those of a run of CANCELs that are on their way
 * to the sink, which frees them. The result of all that it was called with is 0. So may be
 * that of a cell, which it was not called with.
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
 * Cancel what is DROPPED, which was pending or is on its way to the sink. False if
 * there are results now that are not 0.
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
 * A run of CANCELs at the front of @ops, in one go. What is pending is DROPPED first,
 * so that its id is dead for those behind it. Returns how many are done.
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
		r->state = TWDEV_DROPPED;
		timeouts[n++] = &r->t;
	}
	twdev_cancel_drops(f, ops, timeouts, n);
	return i;
}

/*
 * Carry out operations in order, until one needs what twdev_help() provides.
 * Returns how many are done.
 */
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

/* Provide what @op lacks. */
static int twdev_help(struct twdev_file *f, const struct twheel_op *op,
		      struct twheel_op __user *alone)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	if (alone && op->opcode == TWHEEL_OP_ARM && put_user(0, &alone->id))
		return -EFAULT;
	return twdev_grow(f, op);
}

/* The time for @op, which is the first of several if it did not come alone. */
static u64 twdev_time_for(const struct twdev_file *f, const struct twheel_op *op, bool alone)
{
	/* Reading the clock is dear. */
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
		spin_lock(&f->lock);
		now_ns = twdev_time_for(f, &ops[done], batch->alone);
		done += twdev_run_ops(f, ops + done, nr - done, now_ns, batch);
		spin_unlock(&f->lock);
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
 * The two that most calls are for. All they call with @op is inline, so that it is not
 * in memory: what they cannot do begins anew in twdev_ioctl_op().
 */

/* A plain ARM, with nothing in its way; false: it has not been done. */
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
	struct twdev_plain op;
	u64 now_ns = 0;
	bool done;

	if (unlikely(!twdev_is_plain(f) || twdev_fetch_plain(&op, uop, f->op_flags)))
		return twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
	if (!(op.flags & TWHEEL_F_ABS))
		now_ns = twheel_now(f->wheel);
	spin_lock(&f->lock);
	done = twdev_arm_plain(f, &op, now_ns, uop);
	spin_unlock(&f->lock);
	return likely(done) ? 0 : twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
}

int twdev_ioctl_cancel(struct twdev_file *f, struct twheel_op __user *uop)
{
	u64 id;
	int ret;

	if (unlikely(twdev_fetch_cancel(&id, uop)))
		return twdev_ioctl_op(f, TWHEEL_OP_CANCEL, uop);
	spin_lock(&f->lock);
	ret = twdev_cancel_id(f, id);
	spin_unlock(&f->lock);
	return ret;
}

/* Many operations in a call */

/*
 * Get the next operations, and make sure that their results can be written, by
 * writing back a field at either end of what is at most two pages. Returns how
 * many there are, up to a bad address.
 */
static u32 twdev_fetch_ops(struct twheel_op *ops, struct twheel_op __user *uops, u32 nr)
{
	u32 in_page;

	BUILD_BUG_ON(TWDEV_OPS_CHUNK * sizeof(*ops) > PAGE_SIZE);
	nr -= DIV_ROUND_UP(copy_from_user(ops, uops, nr * sizeof(*ops)), sizeof(*ops));
	if (!nr || put_user(ops[0].opcode, &uops[0].opcode))
		return 0;
	if (!put_user(ops[nr - 1].reserved, &uops[nr - 1].reserved))
		return nr;
	in_page = (PAGE_SIZE - offset_in_page(uops)) / sizeof(*ops);
	return min(nr - 1, in_page);
}

/*
 * Most of what is submitted are runs of plain ARMs, and of CANCELs of what is in the
 * wheel. These are never copied: they are read from user memory and carried out one by
 * one, up to the first that is anything else, or that faults. Not inline: there would
 * not be registers enough.
 */

/* Returns how many are done: no more than there are records. */
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

/* ARMs at the front of @uops. Returns how many are done. */
static noinline u32 twdev_submit_arms(struct twdev_file *f, struct twheel_op __user *uops,
				      u32 nr, struct twheel_timeout **timeouts)
{
	static const struct twheel_op plain = { .opcode = TWHEEL_OP_ARM };
	u64 now_ns = twheel_now(f->wheel);
	u32 n, done = 0;
	bool grow;

	do {
		spin_lock(&f->lock);
		n = twdev_in_place(twdev_run_plain(f, uops + done, nr - done, now_ns, timeouts));
		if (n)
			twheel_arm_list(f->wheel, timeouts, n);
		done += n;
		grow = done < nr && !twdev_find_free(f, &plain);
		spin_unlock(&f->lock);
	} while (grow && !twdev_grow(f, &plain));
	return done;
}

/* What is pending is DROPPED, and put into @batch. Returns how many there are. */
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
		r->state = TWDEV_DROPPED;
		op->result = 0;
		timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

/* CANCELs at the front of @uops. Returns how many are done. */
static noinline u32 twdev_submit_cancels(struct twdev_file *f, struct twheel_op __user *uops,
					 u32 nr, struct twdev_batch *batch)
{
	u32 i, n;
	bool all;

	spin_lock(&f->lock);
	n = twdev_in_place(twdev_run_drops(f, uops, nr, batch));
	all = twdev_cancel_drops(f, batch->ops, batch->timeouts, n);
	spin_unlock(&f->lock);
	/* If unmapped meanwhile, the results are forfeited. */
	for (i = 0; unlikely(!all) && i < n; i++)
		if (batch->ops[i].result)
			(void)put_user(batch->ops[i].result, &uops[i].result);
	return n;
}

/* MODs of what is ARMED. Returns how many there are; moving them is left to the caller. */
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

/* MODs at the front of @uops. Returns how many are done. */
static noinline u32 twdev_submit_mods(struct twdev_file *f, struct twheel_op __user *uops,
				      u32 nr, const struct twdev_batch *batch)
{
	DECLARE_BITMAP(withdrawn, TWDEV_OPS_CHUNK) = { };
	u64 now_ns = twheel_now(f->wheel);
	struct twdev_record *r;
	u32 i, n;

	spin_lock(&f->lock);
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
	spin_unlock(&f->lock);
	/* If unmapped meanwhile, the results are forfeited. */
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
 * Write the results. If memory has been unmapped meanwhile, its results are forfeited; the
 * effects stay. Returns true if an address is bad.
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

/* Any operations. Adds to @done how many were tried. True if an address is bad. */
static bool twdev_submit_copies(struct twdev_file *f, struct twheel_op __user *uops, u32 nr,
				const struct twdev_batch *batch, u32 *done)
{
	u32 got = twdev_fetch_ops(batch->ops, uops, nr);

	if (got)
		twdev_carry_out(f, batch, got);
	*done += got;
	return twdev_store_ops(uops, batch->ops, got) || got < nr;
}

/* Returns how many operations were tried: with none of them, the address is bad. */
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

/* Many of them have memory of their own for the time of the call, if there is any. */
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

/* SUBMIT. The command bytes may be in memory that is shared with user space. */
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
	/* No more than the result can tell. */
	nr = min_t(u32, READ_ONCE(submit->nr), INT_MAX);
	done = twdev_submit_ops(file->private_data, u64_to_user_ptr(READ_ONCE(submit->ops)), nr);
	if (nr && !done)
		return -EFAULT;
	/* To return a positive value would be an error on Linux 6.1. */
	twheel_uring_done(cmd, done, issue_flags);
	return -EIOCBQUEUED;
}

/* Cancel what @all asks for among the records of a chunk. False: there is no such. */
static bool twdev_cancel_chunk(struct twdev_file *f, u32 chunk, struct twheel_cancel_all *all)
{
	struct twdev_record *r;
	int ret;
	u32 i;

	guard(spinlock)(&f->lock);
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
	/* A result that cannot be told is found out before there is one. */
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
