/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Touch words, mapped.
 */
#ifndef TWHEEL_TESTS_WORDS_H
#define TWHEEL_TESTS_WORDS_H

#include <sys/mman.h>

#include "device.h"
#include "memory.h"

#define WORDS_PER_PAGE	(page_size() / sizeof(__u64))

static inline void need_words(void)
{
	if (!(info(device_open(O_RDWR)).op_flags & TWHEEL_F_TOUCH))
		ktap_skip("no touch words");
}

static inline void *try_map(int fd, size_t size, int protection, int flags, off_t offset)
{
	need_words();
	return mmap(NULL, size, protection, flags, fd, offset);
}

static inline __u64 *map_words(int fd, size_t nr)
{
	void *words = try_map(fd, nr * sizeof(__u64), PROT_READ | PROT_WRITE, MAP_SHARED, 0);

	CHECK(words != MAP_FAILED);
	return words;
}

static inline void unmap_words(__u64 *words, size_t nr)
{
	CHECK_EQ(munmap(words, nr * sizeof(__u64)), 0);
}

/* The word of a timeout: its index is the low half of its id. */
static inline __u64 *word_of(__u64 *words, __u64 id)
{
	return &words[(__u32)id];
}

static inline void touch(__u64 *words, __u64 id, __u64 deadline)
{
	__atomic_store_n(word_of(words, id), deadline, __ATOMIC_RELAXED);
}

static inline __u64 look(__u64 *words, __u64 id)
{
	return __atomic_load_n(word_of(words, id), __ATOMIC_RELAXED);
}

static inline __u64 arm_touch(int fd, __u64 when, __u64 cookie)
{
	return arm_op(fd, op_arm(when, TWHEEL_F_ABS | TWHEEL_F_TOUCH, cookie));
}

#endif /* TWHEEL_TESTS_WORDS_H */
