/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that a system call cannot use, or only in part.
 */
#ifndef TWHEEL_TESTS_MEMORY_H
#define TWHEEL_TESTS_MEMORY_H

#include <stdint.h>
#include <sys/mman.h>

#include "ktap.h"

static inline size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static inline void *map_pages(size_t pages)
{
	void *map = mmap(NULL, pages * page_size(), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED);
	return map;
}

static inline void protect_page(void *page, int protection)
{
	CHECK_EQ(mprotect(page, page_size(), protection), 0);
}

/* @size writable bytes; the byte after them is on a page with @protection. */
static inline void *map_before(size_t size, int protection)
{
	size_t pages = (size + page_size() - 1) / page_size();
	char *map = map_pages(pages + 1);

	protect_page(map + pages * page_size(), protection);
	return map + pages * page_size() - size;
}

static inline void *map_unusable(void)
{
	void *map = map_pages(1);

	protect_page(map, PROT_NONE);
	return map;
}

static inline void *map_read_only(const void *content, size_t size)
{
	void *map = map_pages(1);

	CHECK(size <= page_size());
	memcpy(map, content, size);
	protect_page(map, PROT_READ);
	return map;
}

struct bad_address {
	const char *name;
	void *address;
};

#define NR_BAD_ADDRESSES	4

static inline void bad_addresses(struct bad_address bad[NR_BAD_ADDRESSES])
{
	/* A 32-bit program may use all pages but the last, and its stack may be near it. */
	uintptr_t below_end = sizeof(long) == 8 ? 0xffffff : 0xfff;

	bad[0] = (struct bad_address) { "null", NULL };
	bad[1] = (struct bad_address) { "last byte", (void *)UINTPTR_MAX };
	bad[2] = (struct bad_address) { "kernel half", (void *)(UINTPTR_MAX - below_end) };
	bad[3] = (struct bad_address) { "no access", map_unusable() };
}

#endif /* TWHEEL_TESTS_MEMORY_H */
