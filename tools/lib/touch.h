/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What twheel_touch() knows without asking the kernel. Private to the library.
 *
 * The kernel's page has a word for each index and nothing that tells whose it is. So
 * the library has a second table: for each index the latest id that the context was
 * seen to use, with ENDED when its end was seen too. The low half of an id is its
 * index and the high half counts up. Of two entries for an index the larger one is
 * the later one, and ENDED makes an entry later than its id. Entries only grow, so
 * it does not matter in which order threads write down what they saw: a thread
 * that arms may be overtaken by one that reads the event.
 *
 * An entry says nothing of other memory, so relaxed access will do. The word is
 * stored with release: what the program has done before the touch comes before it
 * for everybody who sees its effect.
 *
 * Fork. Both mappings are shared, so a child goes on with the tables of its parent.
 * The table of ids is mapped when the handle is made: a table that is mapped after a
 * fork() belongs to one process alone, which does not learn of what the other one
 * ends. The kernel's words are the same wherever they are mapped, so that may wait.
 *
 * In use. A context whose timeouts are all without TWHEEL_F_TOUCH writes nothing into
 * the table. The mark is set before the first ARM or MOD with the flag enters the
 * kernel. A process that sees the end of that timeout was in the kernel after that, under
 * the same lock, so it finds the mark.
 */
#ifndef TWHEEL_LIB_TOUCH_H
#define TWHEEL_LIB_TOUCH_H

#include <stdint.h>

/* Above every index: the device has at most 2^28 timeouts. */
#define TOUCH_ENDED	(UINT64_C(1) << 31)

/**
 * struct touch_table - what the processes that share a handle have seen
 * @in_use: TWHEEL_F_TOUCH has been asked for
 * @known: ids, by index; 0: none yet
 */
struct touch_table {
	uint64_t	in_use;
	uint64_t	known[];
};

/**
 * struct touch - both tables
 * @word: deadlines, the kernel's, by index; NULL until they are mapped
 * @table: ids; NULL if there are none, for want of memory or of words
 * @nr: length of both
 */
struct touch {
	uint64_t		*word;
	struct touch_table	*table;
	uint32_t		nr;
};

static inline int touch_in_use(const struct touch *touch)
{
	return touch->table && __atomic_load_n(&touch->table->in_use, __ATOMIC_RELAXED);
}

static inline void touch_use(const struct touch *touch)
{
	if (touch->table)
		__atomic_store_n(&touch->table->in_use, 1, __ATOMIC_RELAXED);
}

/* NULL if they are not mapped yet. */
static inline uint64_t *touch_words(const struct touch *touch)
{
	return __atomic_load_n(&touch->word, __ATOMIC_ACQUIRE);
}

/* Behind the last index for an id that cannot be. */
static inline uint32_t touch_index(const struct touch *touch, uint64_t id)
{
	uint32_t index = (uint32_t)id;

	return touch->table && index < touch->nr ? index : touch->nr;
}

static inline uint64_t touch_known(const struct touch *touch, uint32_t index)
{
	return __atomic_load_n(&touch->table->known[index], __ATOMIC_RELAXED);
}

static inline void touch_learn(const struct touch *touch, uint64_t id, uint64_t entry)
{
	uint32_t index = touch_index(touch, id);
	uint64_t old;

	if (index == touch->nr)
		return;
	old = touch_known(touch, index);
	while (old < entry &&
	       !__atomic_compare_exchange_n(&touch->table->known[index], &old, entry, 1,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* It can be touched from now on. */
static inline void touch_begin(const struct touch *touch, uint64_t id)
{
	touch_learn(touch, id, id);
}

/* It cannot be touched any more. */
static inline void touch_end(const struct touch *touch, uint64_t id)
{
	touch_learn(touch, id, id | TOUCH_ENDED);
}

/* Its end was seen, or that another has its place; false too if nothing is known. */
static inline int touch_has_ended(const struct touch *touch, uint64_t id)
{
	uint32_t index = touch_index(touch, id);

	return index == touch->nr || touch_known(touch, index) > id;
}

/* False if @id is not known to live. */
static inline int touch_store(const struct touch *touch, uint64_t id, uint64_t expires_ns)
{
	uint32_t index = touch_index(touch, id);
	uint64_t *word = touch_words(touch);

	if (!word || index == touch->nr || touch_known(touch, index) != id)
		return 0;
	__atomic_store_n(&word[index], expires_ns, __ATOMIC_RELEASE);
	return 1;
}

#endif /* TWHEEL_LIB_TOUCH_H */
