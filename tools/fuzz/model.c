// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"
#include "libtwheel.h"
#include "model.h"

#define OPCODES		(1U << TWHEEL_OP_ARM | 1U << TWHEEL_OP_MOD | 1U << TWHEEL_OP_CANCEL | \
			 1U << TWHEEL_OP_GET | 1U << TWHEEL_OP_KICK)
#define OP_FLAGS	(TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL | TWHEEL_F_EXACT)

/* A wheel in the process takes slots and levels as advice. */
static int is_process(const struct file *f)
{
	return f->initial_info->flags & TWHEEL_INFO_PROCESS;
}

/* Times */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t model_sum(uint64_t ns, uint64_t more)
{
	return ns > NEVER || more > NEVER - ns ? NEVER : ns + more;
}

/* The tick in which a timeout that is due at @ns can fire. */
uint64_t model_tick(const struct file *f, uint64_t ns)
{
	uint64_t rest = ns % f->tick;

	return rest ? model_sum(ns, f->tick - rest) : ns;
}

static int is_cell(const struct timeout *t)
{
	return t->flags & TWHEEL_F_CELL;
}

/* Returns whether the timeout may have fired without being withdrawn. */
static int may_have_fired(const struct file *f, struct timeout *t, uint64_t now)
{
	if (is_cell(t)) {
		cell_advance(f, t, now);
		return t->cell.where & READY;
	}
	return f->stopped || t->seen_ready || now >= model_tick(f, t->low);
}

/* Returns whether the queue may hold an event of the timeout. */
static int may_be_ready(const struct file *f, struct timeout *t, uint64_t now)
{
	return may_have_fired(f, t, now) || (is_cell(t) && t->cell.where == STALE);
}

static int must_have_fired(const struct file *f, const struct timeout *t)
{
	if (is_cell(t))
		return t->cell.where == READY;
	return f->stopped || t->seen_ready;
}

/* Timeouts */

/* Iterate from the last one, so that the current one may die. */
#define for_each_alive(f, t)						\
	for (uint32_t i_ = (f)->live; i_--;)				\
		for (struct timeout *t = &(f)->timeouts[(f)->alive[i_]]; t; t = NULL)

void model_open(struct file *f, const struct twheel_info *initial_info)
{
	memset(f->timeouts, 0, f->nr * sizeof(f->timeouts[0]));
	memset(f, 0, offsetof(struct file, alive));
	f->initial_info = initial_info;
	f->clock = initial_info->clock;
	f->tick = initial_info->tick_ns;
	f->slots = initial_info->slots;
	f->levels = initial_info->levels;
	f->max = initial_info->max_timeouts;
}

struct timeout *model_find(struct file *f, uint64_t id)
{
	uint32_t index = id;

	if (index >= f->nr || f->timeouts[index].id != id || !f->timeouts[index].alive)
		return NULL;
	return &f->timeouts[index];
}

struct timeout *model_pick(struct file *f, unsigned int n)
{
	return f->live ? &f->timeouts[f->alive[n % f->live]] : NULL;
}

static void add_timeout(struct file *f, struct timeout *t)
{
	t->alive = 1;
	t->seen_ready = 0;
	t->alive_index = f->live;
	f->alive[f->live++] = t - f->timeouts;
}

struct timeout *model_pick_cell(struct file *f, unsigned int n)
{
	for (uint32_t i = 0; i < f->live; i++) {
		struct timeout *t = model_pick(f, n + i);

		if (is_cell(t))
			return t;
	}
	return NULL;
}

static void set_seen_ready(struct file *f, struct timeout *t, int seen)
{
	f->nr_seen_ready += seen - t->seen_ready;
	t->seen_ready = seen;
}

/* The last live timeout takes the place of @t. */
static void remove_timeout(struct file *f, struct timeout *t)
{
	uint32_t last = f->alive[--f->live];

	f->alive[t->alive_index] = last;
	f->timeouts[last].alive_index = t->alive_index;
	set_seen_ready(f, t, 0);
	t->alive = 0;
	f->dead[f->nr_dead++ % MAX_DEAD] = t->id;
}

/* The number of known events decreases by @nr. */
static void reduce_unread(struct file *f, uint32_t nr)
{
	f->unread -= nr < f->unread ? nr : f->unread;
}

static void raise_unread(struct file *f, uint32_t nr)
{
	if (f->unread < nr)
		f->unread = nr;
}

static void set_ready(struct file *f, struct timeout *ready)
{
	set_seen_ready(f, ready, 1);
	raise_unread(f, f->nr_seen_ready);
}

void model_ready(struct file *f, struct timeout *t)
{
	if (!f->stopped)
		set_ready(f, t);
}

void model_unready(struct file *f, struct timeout *t)
{
	f->stale -= t->cell.where == STALE;
	set_seen_ready(f, t, 0);
	reduce_unread(f, 1);
}

uint32_t model_may_be_ready(struct file *f, uint64_t now)
{
	uint32_t nr = 0;

	for_each_alive(f, t)
		nr += may_be_ready(f, t, now);
	return nr;
}

int model_is_due(struct file *f, uint64_t by)
{
	if (f->unread > f->stale || f->stopped)
		return 1;
	for_each_alive(f, t) {
		uint64_t deadline = model_sum(t->high, t->slack_us * 1000ULL);

		/* A deadline before the arming fires in the tick after the arming. */
		if ((is_cell(t) ? cell_due(f, t) : model_tick(f, later(deadline, t->armed))) <= by)
			return 1;
	}
	return 0;
}

/* Operations: validity */

static int times_valid(uint32_t clock, const struct twheel_op *op)
{
	if (op->flags & ~OP_FLAGS || (op->flags & TWHEEL_F_EXACT && op->slack_us))
		return 0;
	if (clock == CLOCK_REALTIME && !(op->flags & TWHEEL_F_ABS))
		return 0;
	if (op->expires_ns > NEVER &&
	    !(op->flags & TWHEEL_F_CELL && op->expires_ns == TWHEEL_CELL_IDLE))
		return 0;
	if (op->interval_ns > NEVER)
		return 0;
	if (op->interval_ns)
		return !(op->flags & TWHEEL_F_CELL);
	return !op->repeat && !(op->flags & TWHEEL_F_FIXED_DELAY);
}

int model_op_valid(uint32_t clock, const struct twheel_op *op)
{
	if (op->reserved)
		return 0;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
	case TWHEEL_OP_MOD:
		return times_valid(clock, op);
	case TWHEEL_OP_CANCEL:
	case TWHEEL_OP_KICK:
		return !op->flags && !op->expires_ns && !op->interval_ns && !op->cookie &&
		       !op->repeat && !op->slack_us;
	case TWHEEL_OP_GET:
		return !op->flags && !op->slack_us;
	default:
		if (op->opcode < 32 && OPCODES >> op->opcode & 1)
			mismatch("the model cannot check opcode %u", op->opcode);
		return 0;
	}
}

uint64_t model_op_errors(struct file *f, const struct twheel_op *op)
{
	uint64_t errors = model_op_valid(f->clock, op) ? 0 : ERRNO(EINVAL);
	const struct timeout *t = model_find(f, op->id);

	if (op->opcode == TWHEEL_OP_ARM) {
		if (f->stopped)
			errors |= ERRNO(ESHUTDOWN);
		if (f->live >= f->max)
			errors |= ERRNO(EAGAIN);
		return errors;
	}
	if ((op->opcode == TWHEEL_OP_MOD || op->opcode == TWHEEL_OP_KICK) && f->stopped)
		errors |= ERRNO(ESHUTDOWN);
	if (!t)
		errors |= ERRNO(ENOENT);
	else if ((op->opcode == TWHEEL_OP_KICK && !is_cell(t)) ||
		 (op->opcode == TWHEEL_OP_MOD && (t->flags ^ op->flags) & TWHEEL_F_CELL))
		errors |= ERRNO(EINVAL);
	return errors;
}

/* Operations: effects */

/* Slack of the operation's timeout, in us. */
static uint32_t slack_of(const struct file *f, const struct twheel_op *op)
{
	if (op->flags & TWHEEL_F_EXACT)
		return 0;
	return op->slack_us ? op->slack_us : f->slack_us;
}

/* Set all members that ARM and MOD set. */
static void set_times(struct file *f, struct timeout *t, const struct twheel_op *op,
		      struct time_range when)
{
	int is_abs = op->flags & TWHEEL_F_ABS;

	set_seen_ready(f, t, 0);
	t->flags = op->flags & (TWHEEL_F_FIXED_DELAY | TWHEEL_F_CELL);
	t->repeat = op->repeat;
	t->slack_us = slack_of(f, op);
	t->cookie = op->cookie;
	t->interval = op->interval_ns;
	t->low = is_abs ? op->expires_ns : model_sum(when.begin, op->expires_ns);
	t->high = is_abs ? op->expires_ns : model_sum(when.end, op->expires_ns);
	t->armed = when.begin;
	t->arm_nr = ++f->nr_arms;
	t->order_unknown = t->low <= when.end || t->interval || t->slack_us || t->flags;
}

/* For a relative deadline, t->low and t->high give the range. */
static uint64_t new_word(const struct twheel_op *op, const struct timeout *t)
{
	return op->expires_ns == TWHEEL_CELL_IDLE ? TWHEEL_CELL_IDLE : t->low;
}

static void check_arm(struct file *f, const struct twheel_op *op, uint64_t id,
		      struct time_range when)
{
	uint32_t index = id;
	struct timeout *t = &f->timeouts[index];

	EXPECT(index < MAX_INDEX, "the index of id %#llx is very large", ULL(id));
	EXPECT(id >> 32, "id %#llx has no generation", ULL(id));
	EXPECT(!t->alive, "id %#llx has the index of %#llx, which lives", ULL(id), ULL(t->id));
	EXPECT(id > t->id, "id %#llx is not later than %#llx", ULL(id), ULL(t->id));
	if (f->nr <= index)
		f->nr = index + 1;
	t->id = id;
	add_timeout(f, t);
	set_times(f, t, op, when);
	f->armed++;
	if (is_cell(t)) {
		f->cells = 1;
		cell_armed(f, t, new_word(op, t), when);
	}
}

/* Check the result: the timeout was pending (0) or had fired (TWHEEL_WITHDRAWN). */
static void expect_outcome(struct file *f, struct timeout *t, int result,
			   struct time_range when)
{
	if (is_cell(t)) {
		cell_outcome(f, t, result, when);
		return;
	}
	EXPECT(result == 0 || result == TWHEEL_WITHDRAWN, "the outcome is %d", result);
	if (result)
		EXPECT(may_have_fired(f, t, when.end), "%#llx cannot have fired yet", ULL(t->id));
	else
		EXPECT(!must_have_fired(f, t), "%#llx has fired, but was pending", ULL(t->id));
}

static void check_mod(struct file *f, struct timeout *t, const struct twheel_op *op, int result,
		      struct time_range when)
{
	int being_fired = may_be_ready(f, t, when.end);

	expect_outcome(f, t, result, when);
	if (result == TWHEEL_WITHDRAWN && !is_cell(t))
		reduce_unread(f, 1);
	f->moved++;
	set_times(f, t, op, when);
	if (is_cell(t))
		cell_moved(f, t, new_word(op, t), when);
	t->order_unknown |= being_fired;
}

/* A call ends the cell. */
static void end_cell(struct file *f, struct timeout *t)
{
	f->dropped += t->cell.where == STALE;
	if (t->cell.where & (READY | STALE))
		model_unready(f, t);
	t->cell.look_overwritten = 0;
}

static void check_cancel(struct file *f, struct timeout *t, int result, struct time_range when)
{
	expect_outcome(f, t, result, when);
	if (is_cell(t))
		end_cell(f, t);
	else if (result)
		reduce_unread(f, 1);
	f->cancelled += !result;
	f->withdrawn += result == TWHEEL_WITHDRAWN;
	f->ended += result == TWHEEL_IDLE;
	remove_timeout(f, t);
}

static void expect_between(const struct timeout *t, uint64_t remaining, struct time_range when)
{
	EXPECT(remaining <= (t->high > when.begin ? t->high - when.begin : 1),
	       "%llu ns are too long for %#llx", ULL(remaining), ULL(t->id));
	EXPECT(remaining >= (t->low > when.end ? t->low - when.end : 1),
	       "%llu ns are too short for %#llx", ULL(remaining), ULL(t->id));
}

static void expect_remaining(struct file *f, struct timeout *t, uint64_t remaining,
			     struct time_range when)
{
	int outcome = remaining ? 0 : TWHEEL_WITHDRAWN;

	if (remaining == TWHEEL_CELL_IDLE)
		outcome = TWHEEL_IDLE;
	expect_outcome(f, t, outcome, when);
	if (!outcome)
		expect_between(t, remaining, when);
	else if (!is_cell(t))
		model_ready(f, t);
}

static void check_get(struct file *f, struct timeout *t, const struct twheel_op *out, int result,
		      struct time_range when)
{
	EXPECT(result == 0, "GET has the outcome %d", result);
	EXPECT(out->cookie == t->cookie, "GET: the cookie is %#llx", ULL(out->cookie));
	EXPECT(out->interval_ns == t->interval, "GET: the interval is %llu",
	       ULL(out->interval_ns));
	EXPECT(out->repeat == t->repeat, "GET: %u times left, not %u", out->repeat, t->repeat);
	expect_remaining(f, t, out->expires_ns, when);
}

/* Only the documented output fields are written. */
static void expect_inputs_unchanged(const struct twheel_op *in, const struct twheel_op *out,
				    int result)
{
	struct twheel_op copy = *out;

	if (result >= 0 && in->opcode == TWHEEL_OP_ARM)
		copy.id = in->id;
	if (result >= 0 && in->opcode == TWHEEL_OP_GET) {
		copy.expires_ns = in->expires_ns;
		copy.interval_ns = in->interval_ns;
		copy.cookie = in->cookie;
		copy.repeat = in->repeat;
	}
	EXPECT(!memcmp(in, &copy, sizeof(copy)), "opcode %u: a field is written that only goes in",
	       in->opcode);
}

void model_op(struct file *f, const struct twheel_op *in, const struct twheel_op *out,
	      int result, struct time_range when)
{
	uint64_t errors = model_op_errors(f, in);

	f->begun |= result >= 0;
	expect_inputs_unchanged(in, out, result);
	if (result < 0) {
		EXPECT(errors & ERRNO(-result), "opcode %u: error %d", in->opcode, -result);
		f->refused += result == -EAGAIN;
		return;
	}
	EXPECT(!errors, "opcode %u: no error, but %d", in->opcode, result);
	switch (in->opcode) {
	case TWHEEL_OP_ARM:
		EXPECT(result == 0, "ARM has the outcome %d", result);
		check_arm(f, in, out->id, when);
		break;
	case TWHEEL_OP_MOD:
		check_mod(f, model_find(f, in->id), in, result, when);
		break;
	case TWHEEL_OP_CANCEL:
		check_cancel(f, model_find(f, in->id), result, when);
		break;
	case TWHEEL_OP_GET:
		check_get(f, model_find(f, in->id), out, result, when);
		break;
	case TWHEEL_OP_KICK:
		EXPECT(result == 0, "KICK has the outcome %d", result);
		cell_kicked(f, model_find(f, in->id), when);
		break;
	default:
		mismatch("the model has no effect for opcode %u", in->opcode);
	}
}

/* The file as a whole */

static int setup_valid(const struct twheel_setup *setup)
{
	if (setup->reserved[0] || setup->reserved[1] || setup->reserved[2])
		return 0;
	if (setup->flags & ~TWHEEL_SETUP_CLOCK || (!setup->flags && setup->clock))
		return 0;
	if (setup->flags && setup->clock != CLOCK_MONOTONIC && setup->clock != CLOCK_BOOTTIME &&
	    setup->clock != CLOCK_REALTIME)
		return 0;
	return setup->tick_ns <= 86400000000000ULL && setup->slots != 1 &&
	       setup->slots <= 65536 && setup->max_timeouts <= 1U << 28;
}

/* One if it asks for one, otherwise as many as the clock needs: 6 bits for each but the first. */
static uint32_t levels_of(uint32_t asked, uint32_t slots, uint64_t tick)
{
	int bits = 64 - __builtin_clzll(INT64_MAX / tick + 1);

	return asked == 1 ? 1 : 1 + (bits - __builtin_ctz(slots) + 5) / 6;
}

static uint32_t round_up_pow2(uint32_t value)
{
	uint32_t power = 1;

	while (power < value)
		power *= 2;
	return power;
}

void model_setup(struct file *f, const struct twheel_setup *setup, int result)
{
	uint64_t tick = f->tick;
	uint32_t slots = f->slots, levels = f->levels;
	uint32_t new_slots = setup->slots && !is_process(f) ? round_up_pow2(setup->slots) : slots;
	uint32_t new_levels = setup->levels && !is_process(f) ? setup->levels : levels;
	uint64_t new_tick = setup->tick_ns ? setup->tick_ns : tick;
	int brief = new_levels == 1 && new_tick * new_slots < 1000000;

	if (result < 0) {
		EXPECT((result == -EINVAL && (!setup_valid(setup) || brief)) ||
		       (result == -EBUSY && f->begun), "SETUP: error %d", -result);
		return;
	}
	EXPECT(setup_valid(setup) && !brief, "SETUP: no error");
	EXPECT(!f->begun, "SETUP is not too late");
	f->begun = 1;
	f->clock = setup->flags & TWHEEL_SETUP_CLOCK ? setup->clock : CLOCK_MONOTONIC;
	f->slack_us = setup->slack_us;
	f->max = setup->max_timeouts ? setup->max_timeouts : f->max;
	f->tick = new_tick;
	f->slots = new_slots;
	f->levels = levels_of(new_levels, f->slots, f->tick);
	f->private = f->tick != tick || f->slots != slots || (f->levels == 1) != (levels == 1);
}

void model_cancel_all(struct file *f, const struct twheel_cancel_all *in,
		      const struct twheel_cancel_all *out, struct time_range when)
{
	uint32_t nr = 0, idle = 0, must = 0, may = 0;

	for_each_alive(f, t) {
		if (in->flags && t->cookie != in->cookie)
			continue;
		may += !!may_have_fired(f, t, when.end);
		must += must_have_fired(f, t);
		nr++;
		if (is_cell(t)) {
			idle += t->cell.word != DEADLINE;
			end_cell(f, t);
		}
		remove_timeout(f, t);
	}
	f->ended += idle;
	nr -= idle;
	f->cancelled += out->pending;
	f->withdrawn += out->withdrawn;
	reduce_unread(f, in->flags ? out->withdrawn : f->unread);
	EXPECT(out->pending + out->withdrawn == nr, "CANCEL_ALL: %u pending, %u withdrawn of %u",
	       out->pending, out->withdrawn, nr);
	EXPECT(out->withdrawn >= must && out->withdrawn <= may,
	       "CANCEL_ALL: %u withdrawn, not %u to %u", out->withdrawn, must, may);
	EXPECT(out->cookie == in->cookie && out->flags == in->flags && !out->reserved0 &&
	       !out->reserved[0] && !out->reserved[1], "CANCEL_ALL: something else is written");
}

void model_stop(struct file *f, struct time_range when)
{
	f->begun = 1;
	if (f->stopped)
		return;
	for_each_alive(f, t) {
		if (is_cell(t) && !cell_stopped(f, t, when)) {
			f->ended++;
			remove_timeout(f, t);
		}
	}
	f->stopped = 1;
	f->stop = when;
	f->unread = f->live;
}

static void expect_counts(struct file *f, uint32_t live, uint32_t ready, struct time_range when)
{
	uint32_t most = model_may_be_ready(f, when.end);

	EXPECT(live == f->live, "%u live, not %u", live, f->live);
	EXPECT(ready >= f->unread && ready <= most, "%u ready, not %u to %u", ready, f->unread,
	       most);
	f->unread = ready;
}

/* No program reaches the limits of the user: only the file refuses. */
static void expect_usage(struct file *f, const struct twheel_info *info)
{
	const struct twheel_info *initial_info = f->initial_info;

	EXPECT(info->cells % CELLS_PER_PAGE == 0 && info->cells > f->max && info->cells >= f->nr,
	       "INFO: %u cells", info->cells);
	EXPECT(info->user_timeouts >= f->nr && info->user_timeouts <= info->max_user_timeouts,
	       "INFO: room for %u, but %u indices were used", info->user_timeouts, f->nr);
	EXPECT(!f->private || info->wheel_bytes, "INFO: a private wheel has no memory");
	EXPECT(info->max_user_timeouts == initial_info->max_user_timeouts &&
	       info->max_wheel_bytes == initial_info->max_wheel_bytes, "INFO: limits of the user");
	EXPECT(info->refused == f->refused, "INFO: %llu refused, not %llu", ULL(info->refused),
	       ULL(f->refused));
	EXPECT(info->user_refused == initial_info->user_refused &&
	       info->all_refused == initial_info->all_refused &&
	       info->wheel_refused == initial_info->wheel_refused,
	       "INFO: refused at a user's limit");
	EXPECT(!memcmp(info->reserved, (__typeof__(info->reserved)) { 0 }, sizeof(info->reserved)),
	       "INFO: reserved");
}

void model_info(struct file *f, const struct twheel_info *info, struct time_range when)
{
	uint32_t flags = (f->private ? TWHEEL_INFO_PRIVATE : 0) |
			 (f->stopped ? TWHEEL_INFO_STOPPED : 0) |
			 (f->initial_info->flags & TWHEEL_INFO_URING) |
			 (is_process(f) ? TWHEEL_INFO_PROCESS | TWHEEL_INFO_PRIVATE : 0);
	uint32_t setup_flags = TWHEEL_SETUP_CLOCK | (is_process(f) ? TWHEEL_SETUP_MANUAL : 0);

	EXPECT(info->clock == f->clock, "INFO: clock %u", info->clock);
	EXPECT(info->tick_ns == f->tick, "INFO: tick %llu", ULL(info->tick_ns));
	EXPECT(info->slots == f->slots, "INFO: %u slots", info->slots);
	EXPECT(info->levels == f->levels, "INFO: %u levels", info->levels);
	EXPECT(info->max_timeouts == f->max, "INFO: at most %u", info->max_timeouts);
	EXPECT(info->flags == flags, "INFO: flags %#x", info->flags);
	EXPECT(info->slack_us == f->slack_us, "INFO: slack %u", info->slack_us);
	EXPECT(info->opcodes == OPCODES, "INFO: opcodes %#x", info->opcodes);
	EXPECT(info->op_flags == OP_FLAGS, "INFO: flags of operations %#x", info->op_flags);
	EXPECT(info->setup_flags == setup_flags, "INFO: flags of SETUP %#x",
	       info->setup_flags);
	expect_counts(f, info->live, info->ready, when);
	if (!mismatch_found())
		expect_usage(f, info);
}

void model_stats(struct file *f, const struct twheel_stats *stats, struct time_range when)
{
	uint64_t fired = f->read - f->unprocessed, histogram = 0;

	for (unsigned int i = 0; i < TWHEEL_LATENESS; i++)
		histogram += stats->lateness[i];
	expect_counts(f, stats->live, stats->ready, when);
	EXPECT(stats->armed == f->armed, "STATS: %llu armed", ULL(stats->armed));
	EXPECT(stats->moved == f->moved, "STATS: %llu moved", ULL(stats->moved));
	EXPECT(stats->cancelled == f->cancelled, "STATS: %llu cancelled", ULL(stats->cancelled));
	EXPECT(stats->withdrawn == f->withdrawn, "STATS: %llu withdrawn", ULL(stats->withdrawn));
	EXPECT(stats->ended == f->ended, "STATS: %llu ended", ULL(stats->ended));
	EXPECT(stats->read == f->read, "STATS: %llu read", ULL(stats->read));
	EXPECT(stats->kicks == f->kicks, "STATS: %llu kicks, not %llu", ULL(stats->kicks),
	       ULL(f->kicks));
	EXPECT(stats->dropped == f->dropped, "STATS: %llu dropped, not %llu",
	       ULL(stats->dropped), ULL(f->dropped));
	EXPECT(f->cells || !stats->looks, "STATS: %llu looks", ULL(stats->looks));
	EXPECT(stats->fired >= fired, "STATS: only %llu fired", ULL(stats->fired));
	EXPECT(stats->fired == histogram, "STATS: %llu fired, %llu in the histogram",
	       ULL(stats->fired), ULL(histogram));
	EXPECT(f->stopped ? stats->unprocessed >= f->unprocessed : !stats->unprocessed,
	       "STATS: %llu unprocessed", ULL(stats->unprocessed));
}

void model_fdinfo(struct file *f, uint32_t cells)
{
	uint32_t nr = 0;

	for_each_alive(f, t) {
		if (is_cell(t))
			nr++;
	}
	EXPECT(cells == nr, "fdinfo: %u cells, not %u", cells, nr);
}

void model_list_entry(struct file *f, const struct twheel_list_entry *entry, struct time_range when)
{
	struct timeout *t = model_find(f, entry->id);
	uint32_t state = entry->remaining_ns ? TWHEEL_STATE_PENDING : TWHEEL_STATE_READY;

	if (entry->remaining_ns == TWHEEL_CELL_IDLE)
		state = TWHEEL_STATE_IDLE;
	EXPECT(t, "LIST: %#llx does not live", ULL(entry->id));
	EXPECT(entry->cookie == t->cookie, "LIST: the cookie is %#llx", ULL(entry->cookie));
	EXPECT(entry->interval_ns == t->interval, "LIST: the interval is %llu",
	       ULL(entry->interval_ns));
	EXPECT(entry->repeat == t->repeat, "LIST: %u times left, not %u", entry->repeat,
	       t->repeat);
	EXPECT(entry->slack_us == t->slack_us, "LIST: slack %u", entry->slack_us);
	EXPECT(entry->flags == t->flags, "LIST: flags %#x", entry->flags);
	EXPECT(entry->state == state, "LIST: state %u, and %llu ns remain", entry->state,
	       ULL(entry->remaining_ns));
	expect_remaining(f, t, entry->remaining_ns, when);
}

/* Events */

/* Timeouts fire in the order of this time. */
static uint64_t order_time(const struct file *f, const struct twheel_event *event)
{
	if (f->clock == CLOCK_REALTIME && !is_process(f))
		return event->expires_ns;
	return model_tick(f, event->expires_ns);
}

/*
 * On one CPU, events come in the order of their ticks, on CLOCK_REALTIME of the device in that
 * of their deadlines. Those of a wheel in the process come in the order of their ticks. Those of
 * the same time come in the order of arming. This does not hold for timeouts that were due when
 * they were armed, nor for timeouts that another thread than the caller queues. Events that STOP
 * makes follow in no order.
 */
static void expect_order(struct file *f, const struct timeout *t,
			 const struct twheel_event *event)
{
	const struct twheel_event *last = &f->last;
	uint64_t arm_nr = t->order_unknown ? 0 : t->arm_nr;
	uint64_t time = order_time(f, event), last_time = order_time(f, last);

	/* Those that were stopped come anywhere. */
	if (event->flags & TWHEEL_EV_UNPROCESSED)
		return;
	/* On CLOCK_REALTIME, a cell has the time of its look, other timeouts that of the batch. */
	EXPECT(last->fired_ns <= event->fired_ns || (f->clock == CLOCK_REALTIME && f->cells),
	       "an event comes before one that fired earlier");
	EXPECT(!arm_nr || !f->last_arm_nr || last_time < time ||
	       (last_time == time && f->last_arm_nr < arm_nr),
	       "%#llx comes after %#llx", ULL(event->id), ULL(last->id));
	f->last = *event;
	f->last_arm_nr = arm_nr;
}

static void expect_unprocessed(struct file *f, const struct timeout *t,
			       const struct twheel_event *event)
{
	EXPECT(f->stopped, "%#llx is unprocessed, but nothing was stopped", ULL(t->id));
	EXPECT(!t->seen_ready, "%#llx had fired, but is unprocessed", ULL(t->id));
	EXPECT(event->count == 0, "unprocessed, and counts %llu", ULL(event->count));
	EXPECT(event->flags & TWHEEL_EV_LAST, "unprocessed, and not the last event");
	EXPECT(event->fired_ns >= f->stop.begin && event->fired_ns <= f->stop.end,
	       "%#llx was not stopped then", ULL(t->id));
	EXPECT(event->expires_ns >= t->low && event->expires_ns <= t->high,
	       "%#llx was not due then", ULL(t->id));
}

/* @first is the first deadline that @event stands for. */
static void expect_fired(struct file *f, const struct timeout *t,
			 const struct twheel_event *event, uint64_t first, struct time_range when)
{
	/* A cell is compared with the time of the look, not with its tick. */
	uint64_t due = is_cell(t) ? first : model_tick(f, first);

	EXPECT(first >= t->low && first <= t->high,
	       "%#llx was not due at %llu, but from %llu to %llu", ULL(t->id), ULL(first),
	       ULL(t->low), ULL(t->high));
	EXPECT(event->fired_ns >= due, "%#llx is %llu ns early", ULL(t->id),
	       ULL(due - event->fired_ns));
	EXPECT(event->fired_ns <= (f->stopped ? f->stop.end : when.end),
	       "%#llx fires in the future", ULL(t->id));
	/* The word may have been written after the time of the batch. */
	EXPECT(event->fired_ns >= t->armed || (is_cell(t) && f->clock != CLOCK_REALTIME),
	       "%#llx fired before it was armed", ULL(t->id));
}

/* Check that the count of a periodic timeout agrees with its deadlines. */
static void expect_count(struct file *f, const struct timeout *t,
			 const struct twheel_event *event, struct time_range when)
{
	struct time_range now = f->stopped ? f->stop : when;
	int all = t->repeat && event->count == t->repeat;

	EXPECT(event->count >= 1, "no deadlines");
	EXPECT(!t->repeat || event->count <= t->repeat, "%llu deadlines of %u", ULL(event->count),
	       t->repeat);
	EXPECT(!(event->flags & TWHEEL_EV_LAST) == !(all || f->stopped),
	       "%llu of %u deadlines, flags %#x", ULL(event->count), t->repeat, event->flags);
	if (t->flags & TWHEEL_F_FIXED_DELAY) {
		EXPECT(event->count == 1, "%llu deadlines of a fixed delay", ULL(event->count));
		return;
	}
	EXPECT(event->count == 1 || event->expires_ns <= now.end,
	       "a deadline is counted that is still to come");
	EXPECT(all || model_sum(event->expires_ns, t->interval) > now.begin,
	       "a deadline is not counted");
}

/* State of a timeout after its event was read. */
static void after_event(struct file *f, struct timeout *t, const struct twheel_event *event,
			struct time_range when)
{
	if (event->flags & TWHEEL_EV_LAST) {
		f->ended++;
		remove_timeout(f, t);
		return;
	}
	set_seen_ready(f, t, 0);
	if (is_cell(t)) {
		cell_read(t);
		return;
	}
	if (t->repeat)
		t->repeat -= event->count;
	t->low = model_sum(event->expires_ns, t->interval);
	t->high = t->low;
	if (t->flags & TWHEEL_F_FIXED_DELAY) {
		t->low = model_sum(when.begin, t->interval);
		t->high = model_sum(when.end, t->interval);
	}
}

void model_event(struct file *f, const struct twheel_event *event, struct time_range when)
{
	struct timeout *t = model_find(f, event->id);
	uint64_t first = event->expires_ns;

	EXPECT(t, "an event of %#llx, which does not live", ULL(event->id));
	EXPECT(event->cookie == t->cookie, "an event with the cookie %#llx", ULL(event->cookie));
	EXPECT(!(event->flags & ~(TWHEEL_EV_LAST | TWHEEL_EV_UNPROCESSED)) && !event->reserved,
	       "an event with flags %#x", event->flags);
	EXPECT(may_have_fired(f, t, when.end), "an event of %#llx, which cannot have fired",
	       ULL(t->id));
	expect_order(f, t, event);
	if (event->flags & TWHEEL_EV_UNPROCESSED) {
		expect_unprocessed(f, t, event);
		f->unprocessed++;
	} else if (t->interval) {
		first -= (event->count - 1) * t->interval;
		expect_fired(f, t, event, first, when);
		expect_count(f, t, event, when);
	} else {
		EXPECT(event->count == 1 &&
		       event->flags == (is_cell(t) && !f->stopped ? 0 : TWHEEL_EV_LAST),
		       "count %llu, flags %#x", ULL(event->count), event->flags);
		expect_fired(f, t, event, first, when);
	}
	f->read++;
	reduce_unread(f, 1);
	after_event(f, t, event, when);
	if (!f->stopped)
		raise_unread(f, f->nr_seen_ready);
}

void model_dropped(struct file *f, struct timeout *t)
{
	f->dropped++;
	model_unready(f, t);
	cell_dropped(t);
	if (f->stopped) {
		f->ended++;
		remove_timeout(f, t);
	}
}

void model_drained(struct file *f)
{
	if (!f->stale)
		return;
	for_each_alive(f, t) {
		if (is_cell(t) && t->cell.where == STALE)
			model_dropped(f, t);
	}
}

void model_dead_look(struct file *f, uint64_t id, uint64_t look)
{
	const struct timeout *t = &f->timeouts[(uint32_t)id];

	EXPECT(t->alive || look == NO_LOOK ||
	       (t->cell.look_overwritten && look == t->cell.user_look),
	       "%#llx is over, but its look is %llu", ULL(id), ULL(look));
}

void model_no_event(struct file *f, int is_end, int interrupted)
{
	EXPECT(f->unread <= f->stale, "nothing to read, but %u unread events, %u withdrawn",
	       f->unread, f->stale);
	/* The signal may have come before the last of them. */
	if (is_end || !interrupted)
		model_drained(f);
	if (is_end)
		EXPECT(f->stopped && !f->live, "the end, with %u live", f->live);
	else
		EXPECT(!f->stopped, "no end after STOP");
}

void model_poll(struct file *f, short revents, struct time_range when)
{
	const short in = POLLIN | POLLRDNORM;

	EXPECT(!(revents & ~(in | POLLHUP)), "poll: %#x", revents);
	if (f->stopped) {
		EXPECT(revents == (f->live ? in : POLLHUP), "poll: %#x after STOP, %u live",
		       revents, f->live);
		return;
	}
	EXPECT(revents == in || !revents, "poll: %#x", revents);
	EXPECT(revents || !f->unread, "poll: nothing, but %u unread events", f->unread);
	EXPECT(!revents || model_may_be_ready(f, when.end), "poll: an event, but none can be");
	if (revents)
		raise_unread(f, 1);
}
