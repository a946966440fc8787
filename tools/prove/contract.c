// SPDX-License-Identifier: GPL-2.0
/*
 * The decisions of twheel_contract.h, for any operation, word, time and offset of a time namespace.
 *
 * Users change a word before and after each access to it. Here the accesses follow each other as
 * in a program; the litmus tests of "cells" are about the order that processors give them. The
 * device has stronger accesses than those tests, and the process has sequentially consistent ones,
 * whose outcomes are among those of weaker ones.
 *
 * wraps: ns + base
 * casts: -(__u64)offset_ns
 */
#include "prove.h"

u64 user_load(const u64 *word);
u64 user_exchange(u64 *word, u64 new);
bool user_replace(u64 *word, u64 *old, u64 new);
void user_store(u64 *look, u64 t);

#define twc_load(word)			user_load(word)
#define twc_store(look, t)		user_store(look, t)
#define twc_exchange(word, new)		user_exchange(word, new)
#define twc_replace(word, old, new)	user_replace(word, old, new)

#include "twheel_contract.h"

/*
 * One user arms the cell for @deadline between two accesses, or not at all: @armed. The exchange
 * returns @exchanged_word. Then the user loads look, at once or later: @loaded.
 */
static struct twheel_cell cell;
static u64 deadline, exchanged_word, seen_look;
static bool armed, loaded;

static void user_may_arm(void)
{
	if (!armed && nondet_bool()) {
		armed = true;
		exchanged_word = cell.word;
		cell.word = deadline;
	}
	if (armed && !loaded && nondet_bool()) {
		loaded = true;
		seen_look = cell.look;
	}
}

u64 user_load(const u64 *word)
{
	u64 is;

	user_may_arm();
	is = *word;
	user_may_arm();
	return is;
}

u64 user_exchange(u64 *word, u64 new)
{
	u64 old;

	user_may_arm();
	old = *word;
	*word = new;
	user_may_arm();
	return old;
}

bool user_replace(u64 *word, u64 *old, u64 new)
{
	bool same;

	user_may_arm();
	same = *word == *old;
	if (same)
		*word = new;
	else
		*old = *word;
	user_may_arm();
	return same;
}

void user_store(u64 *look, u64 t)
{
	user_may_arm();
	*look = t;
	user_may_arm();
}

static void any_cell(void)
{
	cell.word = nondet_u64();
	cell.look = nondet_u64();
	deadline = any_ns();
	armed = false;
	loaded = false;
}

/* The user of the arming, if there was one, does not KICK: look is early enough. */
static bool user_relies_on_look(void)
{
	if (armed && !loaded)
		seen_look = cell.look;
	return armed && seen_look <= deadline;
}

static struct twheel_op any_op(void)
{
	struct twheel_op op = {
		.opcode = nondet_u32(), .flags = nondet_u32(), .id = nondet_u64(),
		.expires_ns = nondet_u64(), .interval_ns = nondet_u64(), .cookie = nondet_u64(),
		.repeat = nondet_u32(), .slack_us = nondet_u32(), .result = (__s32)nondet_u32(),
		.reserved = nondet_u32(),
	};

	return op;
}

/* The flags of a side, with and without cells. */
static u32 any_flags(void)
{
	u32 flags = TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_EXACT;

	return nondet_bool() ? flags : flags | TWHEEL_F_CELL;
}

static u32 any_must(void)
{
	return nondet_bool() ? TWHEEL_F_ABS : 0;
}

/* The clock of a namespace is not negative: the kernel refuses such an offset. */
static __s64 any_offset(u64 now_ns)
{
	u64 there = any_ns();

	return (__s64)(there - now_ns);
}

void valid_operations_are_those_documented(void)
{
	struct twheel_op op = any_op();
	u32 flags = any_flags(), must = any_must();
	bool times = op.opcode == TWHEEL_OP_ARM || op.opcode == TWHEEL_OP_MOD;
	bool idle = op.flags & TWHEEL_F_CELL && op.expires_ns == TWHEEL_CELL_IDLE;

	ASSUME(!twc_check_op(&op, flags, must));
	PROVE(!op.reserved);
	PROVE(op.opcode && op.opcode < 32 && twc_opcodes(flags) & 1U << op.opcode);
	PROVE(times || !(op.flags || op.slack_us));
	PROVE(times || op.opcode == TWHEEL_OP_GET ||
	      !(op.expires_ns | op.interval_ns | op.cookie | op.repeat));
	if (!times)
		return;
	PROVE(!(op.flags & ~flags) && (op.flags & must) == must);
	PROVE(op.expires_ns <= S64_MAX || idle);
	PROVE(op.interval_ns <= S64_MAX);
	PROVE(op.interval_ns || !(op.repeat || op.flags & TWHEEL_F_FIXED_DELAY));
	PROVE(!(op.interval_ns && op.flags & TWHEEL_F_CELL));
	PROVE(!(op.slack_us && op.flags & TWHEEL_F_EXACT));
}

void output_fields_have_any_value(void)
{
	struct twheel_op op = any_op(), other = op;
	u32 flags = any_flags(), must = any_must();

	other.result = (__s32)nondet_u32();
	if (op.opcode == TWHEEL_OP_ARM)
		other.id = nondet_u64();
	if (op.opcode == TWHEEL_OP_GET) {
		other.expires_ns = nondet_u64();
		other.interval_ns = nondet_u64();
		other.cookie = nondet_u64();
		other.repeat = nondet_u32();
	}
	PROVE(twc_check_op(&op, flags, must) == twc_check_op(&other, flags, must));
}

void plain_operations_are_valid(void)
{
	struct twheel_op op = any_op();
	u32 flags = any_flags(), must = any_must(), slack_us = nondet_u32();

	ASSUME(op.opcode == TWHEEL_OP_ARM || op.opcode == TWHEEL_OP_MOD);
	ASSUME(twc_is_plain(&op, must, slack_us));
	PROVE(!twc_check_op(&op, flags, must));
	PROVE(!(op.flags & TWC_KEPT_FLAGS));
	PROVE(!twc_slack_us(&op, slack_us));
}

void valid_setups_are_those_documented(void)
{
	struct twheel_setup setup = {
		.flags = nondet_u32(), .clock = nondet_u32(), .tick_ns = nondet_u64(),
		.slots = nondet_u32(), .max_timeouts = nondet_u32(),
	};
	int clock = twc_setup_clock(&setup);
	bool none = !(setup.flags & TWHEEL_SETUP_CLOCK);

	ASSUME(!twc_check_setup(&setup, TWHEEL_SETUP_CLOCK));
	PROVE(setup.tick_ns <= TWHEEL_MAX_TICK_NS);
	PROVE(setup.slots != 1 && setup.slots <= TWHEEL_MAX_SLOTS);
	PROVE(setup.max_timeouts <= 1U << 28);
	PROVE(none ? !setup.clock && clock == CLOCK_MONOTONIC : (u32)clock == setup.clock);
	PROVE(clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME);
}

void deadline_is_exact_or_clamped(void)
{
	struct twheel_op op = any_op();
	u64 now_ns = any_ns(), ns;
	__s64 offset_ns = any_offset(now_ns);
	__int128_t exact;

	ASSUME(op.expires_ns <= S64_MAX);
	exact = op.flags & TWHEEL_F_ABS ? (__int128_t)op.expires_ns - offset_ns :
					  (__int128_t)op.expires_ns + now_ns;
	ns = twc_deadline(&op, now_ns, offset_ns);
	PROVE(ns == (exact < 0 ? 0 : exact > S64_MAX ? S64_MAX : (u64)exact));
}

/* The word of a cell is as late as the deadline of any other timeout, or the end of the clock. */
void word_is_the_deadline(void)
{
	struct twheel_op op = any_op();
	u64 now_ns = any_ns(), word;
	__s64 offset_ns = any_offset(now_ns);

	ASSUME(op.expires_ns <= S64_MAX);
	word = twc_word(&op, now_ns, offset_ns);
	PROVE(twc_is_deadline(word));
	PROVE(word == S64_MAX ||
	      twc_from_user(word, offset_ns) == twc_deadline(&op, now_ns, offset_ns));
}

/* An arming whose user does not KICK is in time: the record is queued for it or earlier. */
void published_look_is_in_time(void)
{
	u64 t = nondet_u64(), at;

	any_cell();
	at = twc_publish(&cell, t);
	PROVE(at <= t);
	PROVE(cell.look == at);
	PROVE(!user_relies_on_look() || at <= deadline);
}

/* A cell fires only if it is due, and never over a word that has changed. */
void look_fires_what_is_due(void)
{
	u64 due_ns = any_ns(), word, ahead_ns = any_u64(0, TWC_MAX_AHEAD), t;
	__s64 offset_ns = any_offset(due_ns);

	any_cell();
	word = twc_load(&cell.word);
	if (twc_fire(&cell, &word, due_ns, offset_ns)) {
		PROVE(twc_is_deadline(word) && twc_from_user(word, offset_ns) <= due_ns);
		PROVE(!armed || exchanged_word == TWHEEL_CELL_FIRED || word == deadline);
		PROVE(!user_relies_on_look() || cell.word == TWHEEL_CELL_FIRED);
		return;
	}
	t = twc_publish(&cell, twc_next_look(&cell, word, due_ns, ahead_ns, offset_ns));
	PROVE(!user_relies_on_look() || t <= deadline);
	PROVE(armed || !twc_is_deadline(cell.word) || t == cell.word);
}

void kick_moves_what_is_late(void)
{
	u64 word = nondet_u64(), expires_ns = any_ns(), now_ns = any_ns();
	__s64 offset_ns = any_offset(now_ns);
	bool pending = nondet_bool(), moves;

	moves = twc_kick_moves(word, pending, expires_ns, offset_ns);
	PROVE(!moves || twc_is_deadline(word));
	PROVE(moves || !twc_is_deadline(word) ||
	      (pending && expires_ns <= twc_from_user(word, offset_ns)));
}

/* After CANCEL and STOP nobody looks: the user of a later arming calls KICK, which fails. */
void ended_cell_is_not_relied_on(void)
{
	struct twheel_stats counts = { 0 };
	bool ready = nondet_bool();
	int outcome;
	u64 word;

	any_cell();
	if (nondet_bool()) {
		outcome = twc_disarm(&cell, ready, &counts);
		PROVE(outcome != TWHEEL_WITHDRAWN || ready);
		PROVE(counts.dropped == (ready && outcome != TWHEEL_WITHDRAWN));
	} else if (twc_stop_cell(&cell, &word)) {
		PROVE(twc_is_deadline(word));
		PROVE(!user_relies_on_look() || cell.word == TWHEEL_CELL_FIRED);
	} else {
		PROVE(!user_relies_on_look());
	}
	PROVE(cell.look == TWC_NO_LOOK);
}
