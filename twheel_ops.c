// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of /dev/twheel
 *
 * An operation comes alone, in an ioctl, or in an array, in SUBMIT. An ARM or MOD is plain if it is
 * no cell and has neither slack nor fixed delay. A CANCEL is plain if it has only an id. Successive
 * plain operations of one kind are a run. It is carried out in user memory, in one hold of the
 * lock. An ARM or CANCEL that comes alone is a run of one. Any other operation is copied.
 *
 * A run ends before the first operation that is not plain, is of another kind, faults, or would be
 * refused. It also ends before an ARM that finds no free record, and a CANCEL or MOD whose id is
 * not that of an ARMED record. That operation is copied, if it does not begin the next run.
 *
 *
 * User memory under the lock
 *
 * Runs, and the id of an ARM that comes alone, are read and written with the file's lock held:
 *
 *  - Page faults are disabled. After one the lock is dropped, the page is faulted in, and the
 *    operation is repeated.
 *  - Between user_access_begin() and user_access_end() only inline functions are called.
 *  - Each field is read once, so the value checked is the value used.
 *  - The id of an ARM is written before the ARM takes effect: a timeout with an unknown id
 *    could not be cancelled. A run writes @result before, too. Copies of an array are written
 *    back in the end; results in memory that was unmapped meanwhile are lost.
 */
#include <linux/sched/signal.h>

#include "twheel_dev.h"

/* Operations in one hold of the lock: of a run, and of copies. Their arrays are on the stack. */
#define TWDEV_ARMS		64U
#define TWDEV_MOVES		48U
#define TWDEV_COPIES		16U

/* Not an outcome: the operation has to be repeated after twdev_provide(). */
#define TWDEV_REPEAT		(TWHEEL_IDLE + 1)

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
 * Check an operation without a lookup of its timeout. Fields that it does not take must be 0.
 * Output fields may have any value.
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
	case TWHEEL_OP_CANCEL:
		return twdev_check_id_alone(op);
	case TWHEEL_OP_KICK:
		return TWDEV_HAS_CELLS ? twdev_check_id_alone(op) : -EINVAL;
	default:
		return -EINVAL;
	}
}

/* Returns 0 if the state and limit of the file admit an ARM, otherwise -errno. */
static inline int twdev_refusal(const struct twdev_file *f)
{
	if (unlikely(f->stopped))
		return -ESHUTDOWN;
	return f->live >= f->max ? -EAGAIN : 0;
}

/* Deadline of an ARM or MOD on the wheel's clock. */
static __always_inline u64 twdev_deadline(const struct twdev_file *f, u32 flags,
					  u64 expires_ns, u64 now_ns)
{
	if (flags & TWHEEL_F_ABS)
		return twdev_from_user_ns(f, expires_ns);
	return twdev_from_base(expires_ns, now_ns);
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

/* Fields of a plain ARM or MOD. The flags are TWHEEL_F_ABS, or 0. */
struct twdev_plain {
	u32	flags;
	u64	expires_ns;
	u64	interval_ns;
	u64	cookie;
	u32	repeat;
};

/* twdev_fill() for a plain MOD of an ARMED record */
static __always_inline void twdev_refill_plain(struct twdev_record *r,
					       const struct twdev_plain *op)
{
	r->t.data = op->cookie;
	r->t.tag = 0;
	r->interval_ns = op->interval_ns;
	r->repeat = op->repeat;
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
	bool fired = r->state == TWDEV_READY;

	if (fired) {
		twdev_unready(f, r);
	} else if (r->state == TWDEV_LATE) {
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

static int twdev_cancel_op(struct twdev_file *f, u64 id)
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
		twdev_arm_record(f, r, expires_ns);
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

/*
 * Operations in user memory
 *
 * The functions load field by field, which costs half as much as a copy. Each must-be-zero field
 * of a plain operation is tested as it is loaded. They return true if an access faults or the
 * operation is not plain.
 */

/* Any access to user memory under the lock, see "User memory under the lock". */
#define twdev_in_place(access)				\
({							\
	typeof(access) __ret;				\
							\
	pagefault_disable();				\
	__ret = (access);				\
	pagefault_enable();				\
	__ret;						\
})

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
 * Load the fields of a plain @opcode, ARM or MOD. It also passes twdev_check_op(). The flags
 * must be TWHEEL_F_ABS or @must.
 */
static __always_inline bool twdev_load_plain(struct twdev_plain *op, u32 opcode,
					     const struct twheel_op __user *uop, u32 must)
{
	if (twdev_is_not(opcode, &uop->opcode))
		return true;
	unsafe_get_user(op->flags, &uop->flags, fault);
	if (op->flags != TWHEEL_F_ABS && op->flags != must)
		return true;
	if (twdev_is_not(0, &uop->slack_us) || twdev_is_not(0, &uop->reserved))
		return true;
	unsafe_get_user(op->expires_ns, &uop->expires_ns, fault);
	unsafe_get_user(op->interval_ns, &uop->interval_ns, fault);
	unsafe_get_user(op->cookie, &uop->cookie, fault);
	unsafe_get_user(op->repeat, &uop->repeat, fault);
	if (unlikely(op->repeat && !op->interval_ns))
		return true;
	return (op->expires_ns | op->interval_ns) > S64_MAX;
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

/*
 * Runs in place. Each function carries out a run at the front of @uops, and returns its length.
 * With @alone the run is one operation that came in an ioctl, which has no result to store.
 */

/* Prepare a run of ARMs; the caller arms @timeouts. */
static __always_inline u32 twdev_load_arms(struct twdev_file *f, struct twheel_op __user *uop,
					   u32 nr, bool alone, u64 now_ns,
					   struct twdev_plain *op,
					   struct twheel_timeout **timeouts)
{
	u32 room = twdev_refusal(f) ? 0 : min(nr, f->max - f->live);
	struct twdev_record *r = f->free;
	u32 must = f->op_flags, n;

	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; r && n < room; n++, uop++) {
		if (unlikely(twdev_load_plain(op, TWHEEL_OP_ARM, uop, must) ||
			     twdev_store_id(r->id, uop) || (!alone && twdev_store_done(uop))))
			break;
		twdev_fill_plain(f, r, op, now_ns);
		timeouts[n] = &r->t;
		r = r->next_free;
	}
	user_access_end();
	f->free = r;
	f->live += n;
	return n;
}

/* With @alone the clock is read, which is expensive, if the deadline is relative. */
static __always_inline u32 twdev_run_arms(struct twdev_file *f, struct twheel_op __user *uops,
					  u32 nr, bool alone, u64 now_ns,
					  struct twheel_timeout **timeouts)
{
	struct twdev_plain op twheel_uninitialized;
	u64 expires_ns;
	u32 n;

	lockdep_assert_held(&f->lock);
	n = twdev_in_place(twdev_load_arms(f, uops, nr, alone, now_ns, &op, timeouts));
	if (unlikely(!n))
		return 0;
	if (alone) {
		expires_ns = timeouts[0]->expires;
		if (!(op.flags & TWHEEL_F_ABS))
			expires_ns = twdev_from_base(expires_ns, twheel_now(f->wheel));
		twheel_arm(timeouts[0], expires_ns);
	} else {
		twheel_arm_list(f->wheel, timeouts, n);
	}
	return n;
}

/* Make the ARMED records of a run of CANCELs CANCELLED; a second CANCEL of the id fails. */
static __always_inline u32 twdev_load_cancels(struct twdev_file *f,
					      struct twheel_op __user *uop, u32 nr, bool alone,
					      struct twdev_record **records,
					      struct twheel_timeout **timeouts)
{
	struct twdev_record *r;
	u64 id;
	u32 n;

	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; n < nr; n++, uop++) {
		if (unlikely(twdev_load_cancel(&id, uop)))
			break;
		r = twdev_record_at(f, id);
		if (unlikely(!r || r->id != id || r->state != TWDEV_ARMED ||
			     (!alone && twdev_store_done(uop))))
			break;
		r->state = TWDEV_CANCELLED;
		records[n] = r;
		timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

/*
 * Sets the bits of @withdrawn for timeouts on their way to the sink, which frees their records,
 * unless a MOD had deferred them.
 */
static __always_inline u32 twdev_run_cancels(struct twdev_file *f,
					     struct twheel_op __user *uops, u32 nr, bool alone,
					     struct twdev_record **records,
					     struct twheel_timeout **timeouts, u64 *withdrawn)
{
	u32 n, i;

	lockdep_assert_held(&f->lock);
	*withdrawn = 0;
	n = twdev_in_place(twdev_load_cancels(f, uops, nr, alone, records, timeouts));
	if (unlikely(!n))
		return 0;
	if (!alone)
		twheel_cancel_list(timeouts, n);
	else if (unlikely(!twheel_cancel(timeouts[0])))
		timeouts[0] = NULL;
	/* With @alone, @n is 1, and the compiler knows. */
	for (i = 0; i < (alone ? 1 : n); i++) {
		if (likely(timeouts[i]))
			twdev_recycle(f, records[i]);
		else if (!records[i]->rearm)
			*withdrawn |= BIT_ULL(i);
	}
	f->live -= n;
	f->counts.cancelled += n;
	if (unlikely(*withdrawn)) {
		f->counts.cancelled -= hweight64(*withdrawn);
		f->counts.withdrawn += hweight64(*withdrawn);
	}
	return n;
}

/* Prepare a run of MODs of ARMED records; the caller moves @timeouts. */
static __always_inline u32 twdev_load_mods(struct twdev_file *f, struct twheel_op __user *uop,
					   u32 nr, u64 now_ns, struct twheel_timeout **timeouts,
					   u64 *deadlines)
{
	u32 must = f->op_flags, n;
	struct twdev_plain op twheel_uninitialized;
	struct twdev_record *r;
	u64 id;

	if (f->stopped || !user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; n < nr; n++, uop++) {
		if (unlikely(twdev_load_plain(&op, TWHEEL_OP_MOD, uop, must) ||
			     twdev_load_id(&id, uop)))
			break;
		r = twdev_record_at(f, id);
		if (unlikely(!r || r->id != id || r->state != TWDEV_ARMED ||
			     twdev_store_done(uop)))
			break;
		twdev_refill_plain(r, &op);
		deadlines[n] = twdev_deadline(f, op.flags, op.expires_ns, now_ns);
		timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

static __always_inline u32 twdev_run_mods(struct twdev_file *f, struct twheel_op __user *uops,
					  u32 nr, u64 now_ns, struct twheel_timeout **timeouts,
					  u64 *deadlines, u64 *withdrawn)
{
	u32 n, i;

	lockdep_assert_held(&f->lock);
	*withdrawn = 0;
	n = twdev_in_place(twdev_load_mods(f, uops, nr, now_ns, timeouts, deadlines));
	f->counts.moved += n;
	for (i = 0; i < n; i++) {
		i += twheel_mod_list(timeouts + i, deadlines + i, n - i);
		if (likely(i == n))
			break;
		if (twdev_defer_mod(twdev_record_of(&timeouts[i]->entry), deadlines[i]))
			*withdrawn |= BIT_ULL(i);
	}
	return n;
}

/* Copies */

/* The id of an ARM that comes alone is stored at @uop before it takes effect. */
static int twdev_arm_op(struct twdev_file *f, struct twheel_op *op,
			struct twheel_op __user *uop, u64 now_ns)
{
	bool cell = op->flags & TWHEEL_F_CELL;
	struct twdev_record *r = f->free;
	int ret = twdev_refusal(f);

	if (ret) {
		f->refused += ret == -EAGAIN;
		return ret;
	}
	if (!r || (cell && twdev_lacks_cell(f, r)))
		return TWDEV_REPEAT;
	if (uop && twdev_in_place(put_user(r->id, &uop->id)))
		return TWDEV_REPEAT;
	op->id = r->id;
	/* The first timeout begins the file, even if it ends in this hold. */
	if (unlikely(!f->begun))
		twdev_begin(f);
	f->free = r->next_free;
	f->live++;
	r->rearm = false;
	r->unprocessed = false;
	twdev_fill(f, r, op);
	if (cell)
		twdev_arm_cell(f, r, op, now_ns);
	else
		twdev_arm_record(f, r, twdev_deadline(f, op->flags, op->expires_ns, now_ns));
	return 0;
}

/*
 * Carry out @op, a copy of @uop, or of an entry of an array. Returns its result, or
 * TWDEV_REPEAT if an ARM lacks what twdev_provide() can provide.
 */
static int twdev_do_op(struct twdev_file *f, struct twheel_op *op,
		       struct twheel_op __user *uop, u64 now_ns)
{
	int ret = twdev_check_op(f, op);

	lockdep_assert_held(&f->lock);
	if (ret)
		return ret;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
		return twdev_arm_op(f, op, uop, now_ns);
	case TWHEEL_OP_MOD:
		return twdev_mod_op(f, op, now_ns);
	case TWHEEL_OP_CANCEL:
		return twdev_cancel_op(f, op->id);
	case TWHEEL_OP_GET:
		return twdev_get_op(f, op, now_ns);
	default:	/* TWHEEL_OP_KICK, as twdev_check_op() knows no other */
		return twdev_kick(f, op->id, now_ns);
	}
}

/*
 * Provide the page for the id of an ARM, a free record, or its cell. Killable: an allocation may
 * wait for long under grow.
 */
static int twdev_provide(struct twdev_file *f, bool cell, struct twheel_op __user *uop)
{
	bool lacks_cell = false;
	struct twdev_record *r;
	u32 index = 0;
	int ret;

	if (fatal_signal_pending(current))
		return -EINTR;
	if (uop && put_user(0, &uop->id))
		return -EFAULT;
	scoped_guard(twdev_file, f) {
		r = f->free;
		if (r) {
			index = twdev_index(r);
			lacks_cell = cell && twdev_lacks_cell(f, r);
		}
	}
	if (mutex_lock_killable(&f->grow))
		return -EINTR;
	ret = lacks_cell ? twdev_add_cells(f, index / TWDEV_PER_CELLS) : twdev_add_chunk(f);
	mutex_unlock(&f->grow);
	return ret;
}

/* Carry out the @nr copies @ops. @alone is where a single one comes from, or NULL. */
static void twdev_carry_out(struct twdev_file *f, struct twheel_op *ops, u32 nr,
			    struct twheel_op __user *alone)
{
	struct twheel_op *op = ops;
	u64 now_ns;
	int ret;

	while (op < ops + nr) {
		twdev_lock(f);
		now_ns = twheel_now(f->wheel);
		do {
			ret = twdev_do_op(f, op, alone, now_ns);
			if (unlikely(ret == TWDEV_REPEAT))
				break;
			op++->result = ret;
		} while (op < ops + nr);
		twdev_unlock(f);
		if (likely(ret != TWDEV_REPEAT))
			continue;
		ret = twdev_provide(f, op->flags & TWHEEL_F_CELL, alone);
		if (ret)
			op++->result = ret;
	}
}

/* One operation in a call */

noinline_for_stack int twdev_ioctl_op(struct twdev_file *f, u32 opcode,
				      struct twheel_op __user *uop)
{
	struct twheel_op op;

	if (copy_from_user(&op, uop, sizeof(op)))
		return -EFAULT;
	if (op.opcode != opcode)
		return -EINVAL;
	twdev_carry_out(f, &op, 1, uop);
	/* From expires_ns up to repeat. */
	if (opcode == TWHEEL_OP_GET && !op.result &&
	    copy_to_user(&uop->expires_ns, &op.expires_ns,
			 offsetofend(struct twheel_op, repeat) -
			 offsetof(struct twheel_op, expires_ns)))
		return -EFAULT;
	return op.result;
}

int twdev_ioctl_arm(struct twdev_file *f, struct twheel_op __user *uop)
{
	struct twheel_timeout *timeout twheel_uninitialized;
	u32 done;

	if (unlikely(!twdev_is_plain(f)))
		return twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
	twdev_lock(f);
	done = twdev_run_arms(f, uop, 1, true, 0, &timeout);
	twdev_unlock(f);
	return likely(done) ? 0 : twdev_ioctl_op(f, TWHEEL_OP_ARM, uop);
}

int twdev_ioctl_cancel(struct twdev_file *f, struct twheel_op __user *uop)
{
	struct twheel_timeout *timeout twheel_uninitialized;
	struct twdev_record *record twheel_uninitialized;
	u64 withdrawn;
	u32 done;

	twdev_lock(f);
	done = twdev_run_cancels(f, uop, 1, true, &record, &timeout, &withdrawn);
	twdev_unlock(f);
	if (unlikely(!done))
		return twdev_ioctl_op(f, TWHEEL_OP_CANCEL, uop);
	return withdrawn ? TWHEEL_WITHDRAWN : 0;
}

/* Many operations in a call. The functions return how many they have tried. */

static noinline_for_stack u32 twdev_submit_arms(struct twdev_file *f,
						struct twheel_op __user *uops, u32 nr)
{
	struct twheel_timeout *timeouts[TWDEV_ARMS] twheel_uninitialized;
	u64 now_ns = twheel_now(f->wheel);
	u32 done = 0;
	bool grow;

	do {
		twdev_lock(f);
		done += twdev_run_arms(f, uops + done, nr - done, false, now_ns, timeouts);
		grow = done < nr && !f->free && !twdev_refusal(f);
		twdev_unlock(f);
	} while (grow && !twdev_provide(f, false, NULL));
	return done;
}

/* Results in memory that was unmapped meanwhile are lost. */
static void twdev_store_withdrawn(struct twheel_op __user *uops, u64 withdrawn)
{
	for (; withdrawn; withdrawn &= withdrawn - 1)
		(void)put_user(TWHEEL_WITHDRAWN, &uops[__ffs64(withdrawn)].result);
}

static noinline_for_stack u32 twdev_submit_cancels(struct twdev_file *f,
						   struct twheel_op __user *uops, u32 nr)
{
	struct twheel_timeout *timeouts[TWDEV_MOVES] twheel_uninitialized;
	struct twdev_record *records[TWDEV_MOVES] twheel_uninitialized;
	u64 withdrawn;
	u32 done;

	twdev_lock(f);
	done = twdev_run_cancels(f, uops, nr, false, records, timeouts, &withdrawn);
	twdev_unlock(f);
	twdev_store_withdrawn(uops, withdrawn);
	return done;
}

static noinline_for_stack u32 twdev_submit_mods(struct twdev_file *f,
						struct twheel_op __user *uops, u32 nr)
{
	struct twheel_timeout *timeouts[TWDEV_MOVES] twheel_uninitialized;
	u64 deadlines[TWDEV_MOVES] twheel_uninitialized;
	u64 now_ns = twheel_now(f->wheel), withdrawn;
	u32 done;

	twdev_lock(f);
	done = twdev_run_mods(f, uops, nr, now_ns, timeouts, deadlines, &withdrawn);
	twdev_unlock(f);
	twdev_store_withdrawn(uops, withdrawn);
	return done;
}

static u32 twdev_submit_run(struct twdev_file *f, struct twheel_op __user *uops, u32 nr)
{
	u32 opcode;

	if (get_user(opcode, &uops->opcode))
		return 0;
	if (opcode == TWHEEL_OP_CANCEL)
		return twdev_submit_cancels(f, uops, min(nr, TWDEV_MOVES));
	if (!twdev_is_plain(f))
		return 0;
	if (opcode == TWHEEL_OP_ARM)
		return twdev_submit_arms(f, uops, min(nr, TWDEV_ARMS));
	if (opcode == TWHEEL_OP_MOD)
		return twdev_submit_mods(f, uops, min(nr, TWDEV_MOVES));
	return 0;
}

/*
 * Copy operations, which lie in at most two pages. Write back a field at either end to check
 * that the results can be written. Returns the number of operations before a bad address.
 */
static u32 twdev_fetch_ops(struct twheel_op *ops, struct twheel_op __user *uops, u32 nr)
{
	u32 in_page, bad;

	BUILD_BUG_ON(TWDEV_COPIES * sizeof(*ops) > PAGE_SIZE);
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

static noinline_for_stack u32 twdev_submit_copies(struct twdev_file *f,
						  struct twheel_op __user *uops, u32 nr)
{
	struct twheel_op ops[TWDEV_COPIES] twheel_uninitialized;
	u32 i;

	nr = twdev_fetch_ops(ops, uops, min(nr, TWDEV_COPIES));
	twdev_carry_out(f, ops, nr, NULL);
	if (likely(!copy_to_user(uops, ops, nr * sizeof(*ops))))
		return nr;
	/* Only those in memory that was unmapped meanwhile are lost. */
	for (i = 0; i < nr; i++)
		if (copy_to_user(&uops[i], &ops[i], sizeof(*ops)))
			continue;
	return nr;
}

/* Returns the number of operations tried. 0 means a bad address. */
static u32 twdev_submit_ops(struct twdev_file *f, struct twheel_op __user *uops, u32 nr)
{
	u32 done = 0, n;

	while (done < nr) {
		n = twdev_submit_run(f, uops + done, nr - done);
		if (!n)
			n = twdev_submit_copies(f, uops + done, nr - done);
		done += n;
		if (!n || fatal_signal_pending(current))
			break;
		cond_resched();
	}
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

	guard(twdev_file)(f);
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
