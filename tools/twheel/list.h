/* SPDX-License-Identifier: GPL-2.0 */
/* Timeouts as list and get show them. */
#ifndef TWHEEL_LIST_H
#define TWHEEL_LIST_H

#include <stdbool.h>

#include "libtwheel.h"

/* 0, -ENOENT if there is no such timeout, or another -errno. */
int list_find(struct twheel_ctx *ctx, uint64_t id, struct twheel_list_entry *entry);

void list_print(const struct twheel_list_entry *entry, bool as_json);

#endif /* TWHEEL_LIST_H */
