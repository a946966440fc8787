// SPDX-License-Identifier: GPL-2.0
/*
 * The ABI of release 0.1.0: of the device in <linux/twheel.h>, and of the library. Programs that
 * were built with it must run with every later release of the same soname, so nothing here may
 * change; what a release adds is added here. It is compiled for 64 and for 32 bits. The names of
 * the library's functions are also in debian/libtwheel1.symbols, which dpkg-gensymbols compares.
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

FOREVER(TWHEEL_OP_ARM == 1 &&
	TWHEEL_OP_MOD == 2 && TWHEEL_OP_CANCEL == 3 && TWHEEL_OP_GET == 4 && TWHEEL_OP_KICK == 5);
FOREVER(TWHEEL_F_ABS == 1 && TWHEEL_F_FIXED_DELAY == 2 && TWHEEL_F_CELL == 4 &&
	TWHEEL_F_EXACT == 8 && TWHEEL_SETUP_CLOCK == 1 && TWHEEL_CANCEL_COOKIE == 1 &&
	TWHEEL_INFO_PRIVATE == 1 && TWHEEL_INFO_STOPPED == 2 && TWHEEL_INFO_URING == 4 &&
	TWHEEL_EV_LAST == 1 && TWHEEL_EV_UNPROCESSED == 2);
FOREVER(TWHEEL_WITHDRAWN == 1 && TWHEEL_IDLE == 2 && TWHEEL_STATE_PENDING == 1 &&
	TWHEEL_STATE_READY == 2 && TWHEEL_STATE_IDLE == 3 && ~TWHEEL_CELL_FIRED == 1 &&
	~TWHEEL_CELL_IDLE == 0 && TWHEEL_LATENESS == 40);
FOREVER(_IOR(0xF7, 0, struct twheel_info) == TWHEEL_IOC_INFO &&
	_IOW(0xF7, 1, struct twheel_setup) == TWHEEL_IOC_SETUP &&
	_IOWR(0xF7, 2, struct twheel_op) == TWHEEL_IOC_OP &&
	_IOWR(0xF7, 3, struct twheel_submit) == TWHEEL_IOC_SUBMIT &&
	_IOWR(0xF7, 4, struct twheel_cancel_all) == TWHEEL_IOC_CANCEL_ALL &&
	_IO(0xF7, 5) == TWHEEL_IOC_STOP && _IOWR(0xF7, 6, struct twheel_list) == TWHEEL_IOC_LIST &&
	_IOR(0xF7, 7, struct twheel_stats) == TWHEEL_IOC_STATS &&
	_IOW(0xF7, 128, struct twheel_uring_submit) == TWHEEL_URING_SUBMIT);

FOREVER(sizeof(struct twheel_cell) == 16 && AT(cell, word, 0) && AT(cell, look, 8));
FOREVER(sizeof(struct twheel_op) == 56 && AT(op, opcode, 0) && AT(op, flags, 4) && AT(op, id, 8) &&
	AT(op, expires_ns, 16) && AT(op, interval_ns, 24) && AT(op, cookie, 32) &&
	AT(op, repeat, 40) && AT(op, slack_us, 44) && AT(op, result, 48) && AT(op, reserved, 52));
FOREVER(sizeof(struct twheel_event) == 48 && AT(event, id, 0) && AT(event, cookie, 8) &&
	AT(event, expires_ns, 16) && AT(event, fired_ns, 24) && AT(event, count, 32) &&
	AT(event, flags, 40) && AT(event, reserved, 44));
FOREVER(sizeof(struct twheel_info) == 128 && AT(info, opcodes, 0) && AT(info, op_flags, 4) &&
	AT(info, tick_ns, 8) && AT(info, clock, 16) && AT(info, slots, 20) &&
	AT(info, levels, 24) && AT(info, max_timeouts, 28) && AT(info, live, 32) &&
	AT(info, ready, 36) && AT(info, flags, 40) && AT(info, slack_us, 44) &&
	AT(info, setup_flags, 48) && AT(info, cells, 52) && AT(info, user_timeouts, 56) &&
	AT(info, max_user_timeouts, 60) && AT(info, wheel_bytes, 64) &&
	AT(info, max_wheel_bytes, 72) && AT(info, refused, 80) && AT(info, user_refused, 88) &&
	AT(info, all_refused, 96) && AT(info, wheel_refused, 104) && AT(info, reserved, 112));
FOREVER(sizeof(struct twheel_setup) == 56 && AT(setup, tick_ns, 0) && AT(setup, clock, 8) &&
	AT(setup, slots, 12) && AT(setup, levels, 16) && AT(setup, max_timeouts, 20) &&
	AT(setup, flags, 24) && AT(setup, slack_us, 28) && AT(setup, reserved, 32));
FOREVER(sizeof(struct twheel_submit) == 24 && AT(submit, ops, 0) && AT(submit, nr, 8) &&
	AT(submit, done, 12) && AT(submit, flags, 16) && AT(submit, op_size, 20));
FOREVER(sizeof(struct twheel_uring_submit) == 16 && AT(uring_submit, ops, 0) &&
	AT(uring_submit, nr, 8) && AT(uring_submit, op_size, 12) && AT(uring_submit, flags, 14));
FOREVER(sizeof(struct twheel_cancel_all) == 40 && AT(cancel_all, cookie, 0) &&
	AT(cancel_all, flags, 8) && AT(cancel_all, pending, 12) && AT(cancel_all, withdrawn, 16) &&
	AT(cancel_all, reserved0, 20) && AT(cancel_all, reserved, 24));
FOREVER(sizeof(struct twheel_list_entry) == 48 && AT(list_entry, id, 0) &&
	AT(list_entry, cookie, 8) && AT(list_entry, remaining_ns, 16) &&
	AT(list_entry, interval_ns, 24) && AT(list_entry, repeat, 32) &&
	AT(list_entry, slack_us, 36) && AT(list_entry, state, 40) && AT(list_entry, flags, 44));
FOREVER(sizeof(struct twheel_list) == 48 && AT(list, entries, 0) && AT(list, nr, 8) &&
	AT(list, done, 12) && AT(list, next, 16) && AT(list, flags, 20) &&
	AT(list, entry_size, 24) && AT(list, reserved0, 28) && AT(list, reserved, 32));
FOREVER(sizeof(struct twheel_stats) == 464 && AT(stats, armed, 0) && AT(stats, moved, 8) &&
	AT(stats, cancelled, 16) && AT(stats, withdrawn, 24) && AT(stats, ended, 32) &&
	AT(stats, fired, 40) && AT(stats, looks, 48) && AT(stats, kicks, 56) &&
	AT(stats, dropped, 64) && AT(stats, unprocessed, 72) && AT(stats, read, 80) &&
	AT(stats, live, 88) && AT(stats, ready, 92) && AT(stats, lateness, 96) &&
	AT(stats, reserved, 416));

/* The library */
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
