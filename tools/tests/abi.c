// SPDX-License-Identifier: GPL-2.0
/*
 * The ABI of the library in release 0.1.0. Programs that were built with it must run with every
 * later release of the same soname, so nothing here may change, and each release adds what is new
 * in it. The file is compiled for 64 and for 32 bits. debian/libtwheel1.symbols also has the names
 * of the functions, which dpkg-gensymbols compares. device/abi.c has the ABI of the device.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <libtwheel.h>
#include <twheel_hub.h>

#define AT(type, member, offset) (offsetof(struct twheel_##type, member) == (offset))
#define FOREVER(...) static_assert((__VA_ARGS__), "not as in 0.1.0")
#define FUNCTION(name, ...) \
	FOREVER(__builtin_types_compatible_p(__typeof__(name), __VA_ARGS__))

FOREVER(TWHEEL_NONBLOCK == 1 && TWHEEL_INHERIT == 2 && TWHEEL_KERNEL == 4 && TWHEEL_PROCESS == 8 &&
	TWHEEL_INFO_PROCESS == 1U << 31 && TWHEEL_SETUP_MANUAL == 1U << 31 && TWHEEL_NO_WAIT == 0 &&
	TWHEEL_FOREVER == -1);
FUNCTION(twheel_open, int (const char *, unsigned int, struct twheel_ctx **));
FUNCTION(twheel_available, int (void));
FUNCTION(twheel_version, unsigned int (void));
FUNCTION(twheel_open_fd, int (int, struct twheel_ctx **));
FUNCTION(twheel_close, void (struct twheel_ctx *));
FUNCTION(twheel_fd, int (const struct twheel_ctx *));
FUNCTION(twheel_configure, int (struct twheel_ctx *, const struct twheel_setup *));
FUNCTION(twheel_get_info, int (struct twheel_ctx *, struct twheel_info *));
FUNCTION(twheel_get_stats, int (struct twheel_ctx *, struct twheel_stats *));
FUNCTION(twheel_now, int (struct twheel_ctx *, uint64_t *));
FUNCTION(twheel_set_time, int (struct twheel_ctx *, uint64_t));
FUNCTION(twheel_arm, int (struct twheel_ctx *, uint64_t, unsigned int, uint64_t, uint64_t *));
FUNCTION(twheel_mod, int (struct twheel_ctx *, uint64_t, uint64_t, unsigned int, uint64_t));
FUNCTION(twheel_cancel, int (struct twheel_ctx *, uint64_t));
FUNCTION(twheel_get, int (struct twheel_ctx *, uint64_t, struct twheel_op *));
FUNCTION(twheel_prep_arm, void (struct twheel_op *, uint64_t, unsigned int, uint64_t));
FUNCTION(twheel_prep_mod, void (struct twheel_op *, uint64_t, uint64_t, unsigned int, uint64_t));
FUNCTION(twheel_prep_cancel, void (struct twheel_op *, uint64_t));
FUNCTION(twheel_prep_get, void (struct twheel_op *, uint64_t));
FUNCTION(twheel_prep_kick, void (struct twheel_op *, uint64_t));
FUNCTION(twheel_prep_interval, void (struct twheel_op *, uint64_t, uint32_t));
FUNCTION(twheel_prep_slack, void (struct twheel_op *, uint64_t));
FUNCTION(twheel_operate, int (struct twheel_ctx *, struct twheel_op *));
FUNCTION(twheel_submit_ops, int (struct twheel_ctx *, struct twheel_op *, unsigned int));
FUNCTION(twheel_cancel_timeouts, int (struct twheel_ctx *, struct twheel_cancel_all *));
FUNCTION(twheel_cancel_cookie, int (struct twheel_ctx *, uint64_t, struct twheel_cancel_all *));
FUNCTION(twheel_stop, int (struct twheel_ctx *));
FUNCTION(twheel_list_timeouts,
	 int (struct twheel_ctx *, struct twheel_list_entry *, unsigned int, uint32_t *));
FUNCTION(twheel_wait, int (struct twheel_ctx *, int64_t));
FUNCTION(twheel_read, int (struct twheel_ctx *, struct twheel_event *, unsigned int, int64_t));

#ifdef TWHEEL_HAS_CELLS
FOREVER(TWHEEL_MAX_KICKS == 64 && AT(kicks, ctx, 0) && AT(kicks, nr, sizeof(void *)) &&
	AT(kicks, kick, 2 * sizeof(void *)) && sizeof(struct twheel_kicks) == 2 *
	sizeof(void *) + 64 * (16 + 2 * sizeof(void *)));
FUNCTION(twheel_cell_create,
	 int (struct twheel_ctx *, uint64_t, uint64_t *, struct twheel_cell **));
FUNCTION(twheel_cell_find, int (struct twheel_ctx *, uint64_t, struct twheel_cell **));
FUNCTION(twheel_cell_kick, int (struct twheel_ctx *, struct twheel_cell *, uint64_t, uint64_t));
FUNCTION(twheel_kick_all, int (struct twheel_kicks *));
FUNCTION(twheel_cell_outcome, int (uint64_t));
FUNCTION(twheel_cell_arm, int (struct twheel_ctx *, struct twheel_cell *, uint64_t, uint64_t));
FUNCTION(twheel_cell_arm_later,
	 int (struct twheel_kicks *, struct twheel_cell *, uint64_t, uint64_t));
FUNCTION(twheel_cell_cancel, int (struct twheel_cell *));
FUNCTION(twheel_cell_cancel_at, int (struct twheel_cell *, uint64_t));
#endif

/* Hubs. The members of a node belong to the library, but its size is in programs. */
FOREVER(sizeof(struct twheel_node) == 4 * sizeof(void *) && TWHEEL_HUB_NO_CELLS == 1);
FUNCTION(twheel_hub_open, int (struct twheel_ctx *, unsigned int, struct twheel_hub **));
FUNCTION(twheel_hub_close, void (struct twheel_hub *));
FUNCTION(twheel_hub_ctx, struct twheel_ctx *(const struct twheel_hub *));
FUNCTION(twheel_hub_flags, unsigned int (const struct twheel_hub *));
FUNCTION(twheel_hub_armed, unsigned int (const struct twheel_hub *));
FUNCTION(twheel_hub_bind, void (struct twheel_hub *, void *));
FUNCTION(twheel_hub_binding, void *(const struct twheel_hub *));
FUNCTION(twheel_hub_watch, void (struct twheel_hub *, void (*)(void *, bool), void *));
FUNCTION(twheel_hub_reserve, int (struct twheel_hub *, unsigned int));
FUNCTION(twheel_hub_now, uint64_t (struct twheel_hub *));
FUNCTION(twheel_hub_dispatch, int (struct twheel_hub *, int64_t));
FUNCTION(twheel_hub_break, void (struct twheel_hub *));
FUNCTION(twheel_hub_break_if, void (struct twheel_hub *, bool (*)(void *), void *));
FUNCTION(twheel_node_init,
	 void (struct twheel_node *, struct twheel_hub *, void (*)(struct twheel_node *)));
FUNCTION(twheel_node_arm, int (struct twheel_node *, uint64_t));
FUNCTION(twheel_node_arm_at, int (struct twheel_node *, uint64_t));
FUNCTION(twheel_node_cancel, bool (struct twheel_node *));
FUNCTION(twheel_node_armed, bool (const struct twheel_node *));
FUNCTION(twheel_node_relocate, void (struct twheel_node *, struct twheel_node *));
