/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What twheel_touch() knows without asking the kernel. Private to the library.
 *
 * The kernel's page has a word for each index and nothing that tells whose it is. So
 * there is a second table, of ours: for each index the latest id that this handle
 * has seen, with ENDED when its end was seen too. The low half of an id is its index
 * and the high half counts up, so of two entries for an index the larger one is the
 * later one, ENDED makes an entry later than its id, and a table in which entries
 * only grow does not care in which order threads write down what they saw: a thread
 * that arms may be overtaken by one that reads the event.
 *
 * An entry says nothing of other memory, so relaxed access will do. The word is
 * stored with release: what the program has done before the touch comes before it
 * for everybody who sees its effect.
 *
 * Both tables are shared mappings: a child of fork() goes on with its parent's.
 */
#ifndef TWHEEL_LIB_TOUCH_H
#define TWHEEL_LIB_TOUCH_H

#include <stdint.h>

/* Above every index: the device has at most 2^28 timeouts. */
#define TOUCH_ENDED	(UINT64_C(1) << 31)

/**
 * struct touch - the tables
 * @word: deadlines, the kernel's, by index
 * @known: ids, ours, by index; 0: none yet
 * @nr: length of both
 */
struct touch {
	uint64_t	*word;
	uint64_t	*known;
	uint32_t	nr;
};

/* Behind the last index for an id that cannot be. */
static inline uint32_t touch_index(const struct touch *touch, uint64_t id)
{
	uint32_t index = (uint32_t)id;

	return index < touch->nr ? index : touch->nr;
}

static inline uint64_t touch_known(const struct touch *touch, uint32_t index)
{
	return __atomic_load_n(&touch->known[index], __ATOMIC_RELAXED);
}

static inline void touch_learn(const struct touch *touch, uint64_t id, uint64_t entry)
{
	uint32_t index = touch_index(touch, id);
	uint64_t old;

	if (index == touch->nr)
		return;
	old = touch_known(touch, index);
	while (old < entry &&
	       !__atomic_compare_exchange_n(&touch->known[index], &old, entry, 1,
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

	if (index == touch->nr || touch_known(touch, index) != id)
		return 0;
	__atomic_store_n(&touch->word[index], expires_ns, __ATOMIC_RELEASE);
	return 1;
}

#endif /* TWHEEL_LIB_TOUCH_H */
