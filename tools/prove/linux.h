/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Models of the kernel functions that the proofs assume, for all headers of the kernel that the
 * index arithmetic includes: only the parts that are used. The functions follow their
 * documentation, and use operators of the model checker.
 */
#ifndef _PROVE_LINUX_H
#define _PROVE_LINUX_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* Those of the uapi header. */
typedef int __s32;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;

#define __aligned_u64	__u64

#define S64_MAX	0x7fffffffffffffffLL
#define U64_MAX	0xffffffffffffffffULL

#define DIV_ROUND_UP(n, d)	({ typeof(d) _d = (d); ((n) + _d - 1) / _d; })
#define min(a, b)		({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b)		({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b)	({ type _l = (a), _r = (b); _l < _r ? _l : _r; })
#define max_t(type, a, b)	({ type _l = (a), _r = (b); _l > _r ? _l : _r; })

/* True if @a times @b does not fit into *@d, which gets the low bits. All are u64. */
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)

/* Bits */

#define BITS_PER_LONG	64

/* Number of the highest bit set, counted from 1; 0 if there is none. */
static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* Number of the highest bit set, counted from 0; @x is not 0. */
static inline unsigned long __fls(unsigned long x)
{
	return fls64(x) - 1;
}

/* The smallest n with 2^n >= @x. */
static inline int order_base_2(unsigned long x)
{
	return x > 1 ? fls64(x - 1) : 0;
}

/*
 * Division and the high half of a product. A solver for bits does not finish on a
 * division of 64 bits or on a product of 128 bits, so none is computed: each result
 * is any number, and is noted for claims about it. Three assumptions are made: a high half
 * is not above a factor, a quotient not above the dividend, and the clock has at least
 * LEAST_TICKS ticks of a day. reciprocal.smt2 and division.smt2 prove these, and the other
 * properties of the numbers, over the integers.
 */

#define LEAST_TICKS	106751

/* The divisions made. */
static struct {
	u64	dividend;
	u64	divisor;
	u64	quotient;
} division[4];

static u32 nr_divisions;

/* The last product: its factors, its high half, which a proof may choose, and a count. */
static struct {
	u64	a;
	u64	b;
	u64	high;
	u32	nr;
} product;

u64 nondet_u64(void);

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	u64 quotient = nondet_u64();

	__CPROVER_assert(divisor != 0, "no division by 0");
	__CPROVER_assume(quotient <= dividend);
	if (dividend == S64_MAX && divisor <= 86400000000000)
		__CPROVER_assume(quotient >= LEAST_TICKS);
	division[nr_divisions].dividend = dividend;
	division[nr_divisions].divisor = divisor;
	division[nr_divisions].quotient = quotient;
	nr_divisions++;
	return quotient;
}

static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
	__CPROVER_assert(shift == 64, "high half of the product");
	product.a = a;
	product.b = b;
	product.nr++;
	__CPROVER_assume(product.high <= a);
	return product.high;
}

/* Lists */

struct list_head {
	struct list_head	*next;
	struct list_head	*prev;
};

#define list_first_entry(list, type, member) \
	((type *)((char *)(list)->next - __builtin_offsetof(type, member)))

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline bool list_is_singular(const struct list_head *list)
{
	return !list_empty(list) && list->next == list->prev;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	entry->next = list;
	entry->prev = list->prev;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_move_tail(struct list_head *entry, struct list_head *list)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	list_add_tail(entry, list);
}

/* Put all of @list at the head of @to. */
static inline void list_splice_init(struct list_head *list, struct list_head *to)
{
	if (list_empty(list))
		return;
	list->prev->next = to->next;
	to->next->prev = list->prev;
	to->next = list->next;
	list->next->prev = to;
	INIT_LIST_HEAD(list);
}

#endif /* _PROVE_LINUX_H */
