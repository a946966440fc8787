/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internals that tests examine: the invariants of a wheel, where a timeout lies, and places in
 * which others may get between. With CREATE_TWHEEL_AUDIT, at the end of twheel.c in a test build,
 * this has the functions; elsewhere their declarations.
 */
#ifndef _TWHEEL_KUNIT_AUDIT_H
#define _TWHEEL_KUNIT_AUDIT_H

#include <linux/types.h>

struct twheel;
struct twheel_timeout;

/**
 * struct twheel_position - where in the wheel a timeout lies
 * @tick: tick at which it fires
 * @cursor: the last tick that its shard has entered
 * @level: its level
 * @slot: its slot on this level
 * @cpu: CPU of its shard
 */
struct twheel_position {
	u64		tick;
	u64		cursor;
	u32		level;
	u32		slot;
	unsigned int	cpu;
};

/*
 * Check the invariants of a wheel in which nothing is being armed, cancelled or fired. Returns 0,
 * or -EUCLEAN with a message in the log.
 */
int twheel_audit(struct twheel *w);

/* Fill @pos if @t is in a slot: pending, not due, and not on CLOCK_REALTIME. */
bool twheel_position(struct twheel_timeout *t, struct twheel_position *pos);

/**
 * enum twheel_window - a place where a race is possible
 * @TWHEEL_AT_TIMER: the function of a hrtimer with soft interrupts has no lock yet
 * @TWHEEL_AT_RESUME: a soft interrupt has taken a shard off a queue, and has no lock of it yet
 * @TWHEEL_AT_ADVANCE: twheel_advance() has its mutex, and may sleep
 */
enum twheel_window {
	TWHEEL_AT_TIMER,
	TWHEEL_AT_RESUME,
	TWHEEL_AT_ADVANCE,
};

/**
 * struct twheel_test - what a test sets, and clears when nobody can be in a window any more
 * @window: called in each window, unless it is NULL
 * @set_back_ns: for wheels CLOCK_REALTIME is so much behind that of hrtimers: it has just been
 *	set back
 */
struct twheel_test {
	void	(*window)(struct twheel *w, enum twheel_window window);
	u64	set_back_ns;
};

extern struct twheel_test twheel_test;
#ifdef TWHEEL_TEST
#define ktime_get_real_ns()	(ktime_get_real_ns() - READ_ONCE(twheel_test.set_back_ns))
#endif

#define twheel_window(w, where) do {						\
	typeof(twheel_test.window) fn = READ_ONCE(twheel_test.window);		\
										\
	if (fn)									\
		fn(w, where);							\
} while (0)

#endif /* _TWHEEL_KUNIT_AUDIT_H */

#ifdef CREATE_TWHEEL_AUDIT

struct twheel_test twheel_test;
EXPORT_SYMBOL_GPL(twheel_test);

static const char *twheel_audit_timeout(struct twheel_shard *s, u32 level, u32 i,
					const struct twheel_timeout *t)
{
	const struct twheel_geometry *g = &s->geometry;
	u32 shift = twheel_shift(g, level);

	if (t->shard != s || twheel_state(t) != TWHEEL_PENDING || t->level != level)
		return "stranger";
	if (twheel_index(&s->level[level], t->tick) != i)
		return "wrong slot";
	if (t->tick < s->cursor || (level && t->tick >> shift <= s->cursor >> shift))
		return "overdue";
	/* The rest of the slot, after a turn that has used up its budget. */
	if (t->tick == s->cursor && s->wake != TWHEEL_QUEUED)
		return "overdue";
	if (level + 1 < g->levels &&
	    (t->tick >> s->level[level + 1].shift) - (s->cursor >> s->level[level + 1].shift) > 1)
		return "wrong level";
	if (t->tick < twheel_tick_ceil(g, t->expires))
		return "early";
	return NULL;
}

static const char *twheel_audit_slot(struct twheel_shard *s, u32 level, u32 i, u64 *nr)
{
	const struct twheel_slot *slot = &s->level[level].row[i];
	const char *fault = NULL;
	struct list_head *pos;
	u64 length = 0;

	if (test_bit(i, s->level[level].map) == list_empty(&slot->list))
		return "occupancy";
	list_for_each(pos, &slot->list) {
		fault = twheel_audit_timeout(s, level, i,
					     list_entry(pos, struct twheel_timeout, entry));
		if (fault)
			return fault;
		length++;
	}
	if (s->geometry.levels > 1 && length > slot->added)
		return "slot count";
	*nr += length;
	return NULL;
}

static const char *twheel_audit_tree(struct twheel_shard *s, u64 *nr)
{
	struct rb_node *node;
	u64 last = 0;

	for (node = rb_first_cached(&s->tree.rb_root); node; node = rb_next(node)) {
		const struct twheel_timeout *t = rb_entry(node, struct twheel_timeout, node.node);

		if (t->shard != s || twheel_state(t) != TWHEEL_PENDING || t->level != TWHEEL_TREE)
			return "stranger in the tree";
		if (t->expires < last)
			return "order of the tree";
		last = t->expires;
		(*nr)++;
	}
	return NULL;
}

static const char *twheel_audit_shard(struct twheel_shard *s)
{
	const struct twheel_geometry *g = &s->geometry;
	const char *fault;
	u32 level, i;
	u64 nr = 0;

	lockdep_assert_held(&s->lock);
	fault = twheel_audit_tree(s, &nr);
	for (level = 0; level < g->levels && !fault; level++)
		for (i = 0; i < twheel_ring(g, level) && !fault; i++)
			fault = twheel_audit_slot(s, level, i, &nr);
	if (fault)
		return fault;
	if (!list_empty(&s->aside))
		return "set aside";
	return nr + s->nr_due == s->nr ? NULL : "pending";
}

int twheel_audit(struct twheel *w)
{
	const char *fault = NULL;
	struct twheel_shard *s;

	list_for_each_entry(s, &w->shard_list, entry) {
		scoped_guard(raw_spinlock_irqsave, &s->lock)
			fault = twheel_audit_shard(s);
		if (!fault)
			continue;
		pr_err("%s: audit: %s\n", w->name, fault);
		return -EUCLEAN;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(twheel_audit);

bool twheel_position(struct twheel_timeout *t, struct twheel_position *pos)
{
	struct twheel_shard *s;
	unsigned long flags;
	bool ret;

	s = twheel_lock_home(t, &flags);
	ret = twheel_state(t) == TWHEEL_PENDING && t->level < TWHEEL_NO_SLOT;
	if (ret)
		*pos = (struct twheel_position){
			.tick = t->tick, .cursor = s->cursor, .level = t->level,
			.slot = twheel_index(&s->level[t->level], t->tick), .cpu = s->cpu,
		};
	raw_spin_unlock_irqrestore(&s->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(twheel_position);

#endif /* CREATE_TWHEEL_AUDIT */
