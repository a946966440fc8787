/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_LIST_H
#define _LINUX_LIST_H

#include <linux/types.h>

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

#endif /* _LINUX_LIST_H */
