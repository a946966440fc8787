/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The decisions of twheel's contract, for the device and for the wheel in the process
 *
 * The functions take an operation, a word and times, and return a decision.
 * They know no lock, list, wheel or memory. Each side acts on the decision.
 *
 * Words, looks and the times of operations and events are on the user's clock. All others are on
 * the wheel's. @offset_ns is the difference: a time namespace has one, a process has 0.
 *
 * Before this header, each side defines
 *
 *	twc_load(word)			load *@word
 *	twc_store(look, t)		store @t to *@look
 *	twc_exchange(word, new)		exchange *@word with @new, return the old value
 *	twc_replace(word, old, new)	if *@word is *@old, store @new and return true.
 *					Otherwise load it to *@old and return false
 *
 * The accesses are single. A load or exchange comes after a store before it, on whichever words:
 * users must see the new look, or we see the new word. The device's cells have barriers A to C.
 */
#ifndef _TWHEEL_CONTRACT_H
#define _TWHEEL_CONTRACT_H

#ifdef __KERNEL__
#include <linux/time.h>
#else
#include <stdbool.h>
#include <time.h>
#endif
#include <linux/errno.h>
#include <linux/types.h>
#include "uapi/linux/twheel.h"

#define TWC_MAX_NS		(~0ULL >> 1)
#define TWC_MAX_TICK_NS		(86400ULL * 1000000000ULL)
#define TWC_MAX_SLOTS		65536U
#define TWC_MAX_TIMEOUTS	(1U << 28)

/* cell.look: there is no look until a call */
#define TWC_NO_LOOK		(~0ULL)

/* The idle value of a word that a look has found idle. The next look is this far away at most. */
#define TWC_CELL_SEEN		(~0ULL - 2)
#define TWC_MAX_AHEAD		(60ULL * 1000000000ULL)

/* The flags of an operation that its timeout keeps. */
#define TWC_KEPT_FLAGS		(TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL)

/* @ns + @base, where @base may be a negative offset. Clamps the sum to 0 and TWC_MAX_NS. */
static __always_inline __u64 twc_add_ns(__u64 ns, __u64 base)
{
	__u64 sum = ns + base;

	if (sum <= TWC_MAX_NS)
		return sum;
	return base > TWC_MAX_NS ? 0 : TWC_MAX_NS;
}

static __always_inline __u64 twc_from_user(__u64 ns, __s64 offset_ns)
{
	return twc_add_ns(ns, -(__u64)offset_ns);
}

static inline __u64 twc_to_user(__u64 ns, __s64 offset_ns)
{
	return ns + offset_ns > TWC_MAX_NS ? TWC_MAX_NS : ns + offset_ns;
}

/* Checks. They return 0 or -errno. @flags: those that ARM and MOD take here. */

static inline int twc_check_times(const struct twheel_op *op, __u32 flags, __u32 must)
{
	if (op->flags & ~flags || must & ~op->flags)
		return -EINVAL;
	if (op->expires_ns > TWC_MAX_NS &&
	    !(op->flags & TWHEEL_F_CELL && op->expires_ns == TWHEEL_CELL_IDLE))
		return -EINVAL;
	if (op->interval_ns > TWC_MAX_NS)
		return -EINVAL;
	if (op->slack_us && op->flags & TWHEEL_F_EXACT)
		return -EINVAL;
	if (!op->interval_ns)
		return op->repeat || op->flags & TWHEEL_F_FIXED_DELAY ? -EINVAL : 0;
	return op->flags & TWHEEL_F_CELL ? -EINVAL : 0;
}

/* OR-ing the fields saves branches. */
static inline int twc_check_id_alone(const struct twheel_op *op)
{
	__u32 extras = op->flags | op->repeat | op->slack_us | op->reserved;

	return extras | op->expires_ns | op->interval_ns | op->cookie ? -EINVAL : 0;
}

/*
 * Check an operation without a lookup of its timeout. Fields that it does not take must be 0.
 * Output fields may have any value. @must: flags that ARM and MOD must have.
 */
static inline int twc_check_op(const struct twheel_op *op, __u32 flags, __u32 must)
{
	if (op->reserved)
		return -EINVAL;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
	case TWHEEL_OP_MOD:
		return twc_check_times(op, flags, must);
	case TWHEEL_OP_GET:
		return op->flags || op->slack_us ? -EINVAL : 0;
	case TWHEEL_OP_CANCEL:
		return twc_check_id_alone(op);
	case TWHEEL_OP_KICK:
		return flags & TWHEEL_F_CELL ? twc_check_id_alone(op) : -EINVAL;
	default:
		return -EINVAL;
	}
}

/*
 * Is this valid ARM or MOD plain: no cell, without slack and fixed delay? OR-ing saves branches.
 * @slack_us: the default.
 */
static __always_inline bool twc_is_plain(const struct twheel_op *op, __u32 must, __u32 slack_us)
{
	__u32 extras = op->slack_us | op->reserved | slack_us;

	extras |= (op->flags & ~TWHEEL_F_ABS) | (must & ~op->flags);
	return !extras && (op->expires_ns | op->interval_ns) <= TWC_MAX_NS &&
	       (!op->repeat || op->interval_ns);
}

static inline int twc_check_arm(bool stopped, __u32 live, __u32 max)
{
	if (stopped)
		return -ESHUTDOWN;
	return live >= max ? -EAGAIN : 0;
}

/* Check a MOD with @flags, or a KICK with CELL. @kept: flags of the timeout, if it is @found. */
static inline int twc_check_found(bool stopped, bool found, __u32 kept, __u32 flags)
{
	if (stopped)
		return -ESHUTDOWN;
	if (!found)
		return -ENOENT;
	return (kept ^ flags) & TWHEEL_F_CELL ? -EINVAL : 0;
}

/* The clockid_t that @setup asks for, or -EINVAL. */
static inline int twc_setup_clock(const struct twheel_setup *setup)
{
	if (!(setup->flags & TWHEEL_SETUP_CLOCK))
		return setup->clock ? -EINVAL : CLOCK_MONOTONIC;
	if (setup->clock != CLOCK_MONOTONIC && setup->clock != CLOCK_BOOTTIME &&
	    setup->clock != CLOCK_REALTIME)
		return -EINVAL;
	return setup->clock;
}

static inline int twc_check_setup(const struct twheel_setup *setup, __u32 flags)
{
	if (setup->flags & ~flags || setup->reserved[0] | setup->reserved[1] | setup->reserved[2])
		return -EINVAL;
	if (setup->tick_ns > TWC_MAX_TICK_NS || setup->slots == 1 ||
	    setup->slots > TWC_MAX_SLOTS || setup->max_timeouts > TWC_MAX_TIMEOUTS)
		return -EINVAL;
	return twc_setup_clock(setup) < 0 ? -EINVAL : 0;
}

static inline int twc_check_submit(const struct twheel_submit *submit)
{
	return submit->flags || submit->op_size != sizeof(struct twheel_op) ? -EINVAL : 0;
}

static inline int twc_check_cancel_all(const struct twheel_cancel_all *all)
{
	if (all->flags & ~TWHEEL_CANCEL_COOKIE || (all->cookie && !all->flags))
		return -EINVAL;
	return all->reserved0 | all->reserved[0] | all->reserved[1] ? -EINVAL : 0;
}

static inline int twc_check_list(const struct twheel_list *list)
{
	if (list->flags || list->reserved0 || list->reserved[0] || list->reserved[1])
		return -EINVAL;
	return !list->nr || list->entry_size != sizeof(struct twheel_list_entry) ? -EINVAL : 0;
}

/* Operations. twc_opcodes(): those that are supported, for INFO. */

static inline __u32 twc_opcodes(__u32 flags)
{
	return 1U << TWHEEL_OP_ARM | 1U << TWHEEL_OP_MOD | 1U << TWHEEL_OP_CANCEL |
	       1U << TWHEEL_OP_GET | (flags & TWHEEL_F_CELL ? 1U << TWHEEL_OP_KICK : 0);
}

/* Deadline of an ARM or MOD on the wheel's clock. */
static inline __u64 twc_deadline(const struct twheel_op *op, __u64 now_ns, __s64 offset_ns)
{
	if (op->flags & TWHEEL_F_ABS)
		return twc_from_user(op->expires_ns, offset_ns);
	return twc_add_ns(op->expires_ns, now_ns);
}

/* The word that ARM and MOD of a cell write. */
static inline __u64 twc_word(const struct twheel_op *op, __u64 now_ns, __s64 offset_ns)
{
	if (op->flags & TWHEEL_F_ABS || op->expires_ns == TWHEEL_CELL_IDLE)
		return op->expires_ns;
	return twc_to_user(twc_add_ns(op->expires_ns, now_ns), offset_ns);
}

static inline __u32 twc_slack_us(const struct twheel_op *op, __u32 default_us)
{
	return op->slack_us || op->flags & TWHEEL_F_EXACT ? op->slack_us : default_us;
}

/* Count the end of a timeout by CANCEL. Returns the outcome. */
static inline int twc_count_cancel(struct twheel_stats *counts, int outcome)
{
	if (!outcome)
		counts->cancelled++;
	else if (outcome == TWHEEL_WITHDRAWN)
		counts->withdrawn++;
	else
		counts->ended++;
	return outcome;
}

static inline bool twc_selects(const struct twheel_cancel_all *all, __u64 cookie)
{
	return !(all->flags & TWHEEL_CANCEL_COOKIE) || all->cookie == cookie;
}

static inline void twc_count_all(struct twheel_cancel_all *all, int outcome)
{
	all->pending += !outcome;
	all->withdrawn += outcome == TWHEEL_WITHDRAWN;
}

/* ARM need not count: the sum is exact. */
static inline __u64 twc_armed(const struct twheel_stats *stats)
{
	return stats->cancelled + stats->withdrawn + stats->ended + stats->live;
}

/* Cells */

static inline bool twc_is_deadline(__u64 word)
{
	return word <= TWC_MAX_NS;
}

/* The outcome of an operation on a cell, by the word that it replaced or found. */
static inline int twc_outcome(bool ready, __u64 word)
{
	if (twc_is_deadline(word))
		return 0;
	return word == TWHEEL_CELL_FIRED && ready ? TWHEEL_WITHDRAWN : TWHEEL_IDLE;
}

/* How far ahead the deadline of a cell is, for a look that finds it idle. */
static inline __u64 twc_ahead(__u64 deadline, __u64 now_ns)
{
	if (deadline < now_ns)
		return 0;
	return deadline - now_ns < TWC_MAX_AHEAD ? deadline - now_ns : TWC_MAX_AHEAD;
}

/* The cell of an ARM. Exchange: a user of an earlier cell with this index may write the word. */
static inline void twc_begin_cell(struct twheel_cell *cell, __u64 word)
{
	twc_store(&cell->look, TWC_NO_LOOK);
	twc_exchange(&cell->word, word);
}

/*
 * Publish a look at @t. Returns the time to enqueue the cell for: @t, or an earlier deadline
 * whose user may not have seen @t. TWC_NO_LOOK: park. Barrier A.
 */
static inline __u64 twc_publish(struct twheel_cell *cell, __u64 t)
{
	__u64 word;

	twc_store(&cell->look, t);
	word = twc_load(&cell->word);
	if (!twc_is_deadline(word) || word >= t)
		return t;
	/* Without this store each later arming would call KICK. */
	twc_store(&cell->look, word);
	return word;
}

/*
 * Fire the cell if @word, which a look has loaded, is due at @due_ns. Otherwise returns false, and
 * @word may be a newer one. Barrier B.
 */
static inline bool twc_fire(struct twheel_cell *cell, __u64 *word, __u64 due_ns, __s64 offset_ns)
{
	if (!twc_is_deadline(*word) || twc_from_user(*word, offset_ns) > due_ns)
		return false;
	twc_store(&cell->look, TWC_NO_LOOK);
	return twc_replace(&cell->word, word, TWHEEL_CELL_FIRED);
}

/* The time of the next look, after one that found @word and did not fire. To be published. */
static inline __u64 twc_next_look(struct twheel_cell *cell, __u64 word, __u64 now_ns,
				  __u64 ahead_ns, __s64 offset_ns)
{
	if (twc_is_deadline(word))
		return word;
	if (word == TWHEEL_CELL_IDLE && twc_replace(&cell->word, &word, TWC_CELL_SEEN))
		return twc_to_user(now_ns + ahead_ns, offset_ns);
	return TWC_NO_LOOK;
}

/* Does a KICK or MOD that finds @word move a cell? @pending: there is a look at @expires_ns. */
static inline bool twc_kick_moves(__u64 word, bool pending, __u64 expires_ns, __s64 offset_ns)
{
	return twc_is_deadline(word) &&
	       !(pending && expires_ns <= twc_from_user(word, offset_ns));
}

/* Make the cell idle before its timeout ends. Returns the outcome. Barrier B. */
static inline int twc_disarm(struct twheel_cell *cell, bool ready, struct twheel_stats *counts)
{
	__u64 word;

	twc_store(&cell->look, TWC_NO_LOOK);
	word = twc_exchange(&cell->word, TWHEEL_CELL_IDLE);
	counts->dropped += ready && word != TWHEEL_CELL_FIRED;
	return twc_outcome(ready, word);
}

/* The event has been copied. Returns false if a user has withdrawn it. Barrier C. */
static inline bool twc_read_cell(struct twheel_cell *cell, struct twheel_stats *counts)
{
	__u64 word = TWHEEL_CELL_FIRED;
	bool read = twc_replace(&cell->word, &word, TWHEEL_CELL_IDLE);

	counts->dropped += !read;
	return read;
}

/*
 * STOP a cell. Returns true if it has an event, with @word as its deadline; it ends otherwise.
 *
 * One compare-exchange is enough. If it fails, a user has changed the word after look was
 * published. If that was an arming, the user loads look == ~0, KICK fails with -ESHUTDOWN,
 * and the user undoes the arming. So the cell can end like an idle cell. Barrier A.
 */
static inline bool twc_stop_cell(struct twheel_cell *cell, __u64 *word)
{
	twc_store(&cell->look, TWC_NO_LOOK);
	*word = twc_load(&cell->word);
	return twc_is_deadline(*word) && twc_replace(&cell->word, word, TWHEEL_CELL_FIRED);
}

/*
 * Returns TWHEEL_STATE_*. Sets @remaining_ns: to the deadline; 0: READY; ~0: an idle cell. One
 * that is due and has not fired has 1, as in timer_gettime(): GET tells states by this time.
 */
static inline __u32 twc_state(int outcome, __u64 deadline, __u64 now_ns, __u64 *remaining_ns)
{
	switch (outcome) {
	case 0:
		*remaining_ns = deadline > now_ns ? deadline - now_ns : 1;
		return TWHEEL_STATE_PENDING;
	case TWHEEL_WITHDRAWN:
		*remaining_ns = 0;
		return TWHEEL_STATE_READY;
	default:
		*remaining_ns = TWHEEL_CELL_IDLE;
		return TWHEEL_STATE_IDLE;
	}
}

#endif /* _TWHEEL_CONTRACT_H */
