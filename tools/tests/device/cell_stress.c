// SPDX-License-Identifier: GPL-2.0
/*
 * Stress test of cells with an account of every arming.
 *
 *	cell_stress [ARMINGS] [TEST...]
 *
 * Several users arm, move and cancel cells, some of which they share, and several readers
 * take the events. Each is a process of its own, because User Mode Linux runs the threads
 * of a process one at a time. Each arming has a unique deadline: the low bits are the
 * number of the user and of an entry in the book of the user. Each arming ends exactly
 * once. An exchange that ends it returns its deadline, and an event contains it. An
 * exchange that returns FIRED does not name the arming. If no other user has the cell, the
 * arming is known nevertheless; otherwise the end is counted. At the end, the number of
 * armings left over must equal the number of ends counted without a name. So no arming is
 * lost, and none ends twice.
 *
 * No event is early, and none is later than a limit.
 *
 * In a long run most armings are of a few hot cells, like a server's busy connections. A
 * hot cell is moved and cancelled every few microseconds, mostly without a call, and the
 * kernel looks at it meanwhile.
 *
 * A trial also checks its own coverage: users ran on several CPUs if there are several, and
 * there were looks, kicks, events and withdrawals.
 */
#define KTAP_NO_MAIN
#define _GNU_SOURCE
#define KTAP_HANG_S	120

#include <sched.h>
#include <sys/syscall.h>

#include "cells.h"
#include "realtime.h"

#define MS		NSEC_PER_MSEC
#define USERS		3
#define READERS		2
#define MOST_EVENTS	50		/* maximum that a reader takes at once */
#define OWN		400		/* cells of each user */
#define SHARED		100		/* cells that all users share */
#define CELLS		(USERS * OWN + SHARED)
#define HOT_OWN		8		/* number of hot cells among these */
#define HOT_SHARED	4

#define ENTRY_BITS	18
#define ENTRIES		0x40000U	/* 1 << ENTRY_BITS */
#define NAME_BITS	(ENTRY_BITS + 2)
#define DEFAULT_ARMINGS	100000
#define TURNS_PER_CLOCK	32

static unsigned long long armings = DEFAULT_ARMINGS;

static bool is_long_run(void)
{
	return armings > DEFAULT_ARMINGS;
}

/**
 * struct entry - an arming
 * @deadline: its deadline
 * @cell: number of the cell
 * @since: time when it was entered, on CLOCK_MONOTONIC
 * @open: it has not ended yet
 */
struct entry {
	__u64	deadline;
	__u32	cell;
	__u64	since;
	bool	open;
};

/**
 * struct book - the account of a user
 * @entries: the armings; the oldest ones are overwritten
 * @next: number of the next entry to use
 * @armings: number of armings
 * @overwritten: number of entries that were overwritten while open; they are so old that
 *	their armings must have ended
 * @nameless: number of armings that this user has ended without learning which
 * @withdrawn: number of events that this user has withdrawn through the word
 * @withdrawn_by_call: number of events that MOD or CANCEL of this user has withdrawn
 * @replaced: number of armings that an exchange of this user ended before they fired
 * @refused: number of armings that were undone after STOP
 * @cpus: bitmap of the CPUs that this user was seen on
 */
struct book {
	struct entry	entries[ENTRIES];
	__u32		next;
	__u64		armings;
	__u64		overwritten;
	__u64		nameless;
	__u64		withdrawn;
	__u64		withdrawn_by_call;
	__u64		replaced;
	__u64		refused;
	__u64		cpus;
};

/**
 * struct shared - data shared by the processes of a trial
 * @ids: ids by number of the cell; the id of an own cell changes
 * @stopped: STOP has been called
 * @finish: readers must end
 * @read: number of events read
 * @unprocessed: number of unprocessed events read
 * @latest: maximum lateness, in ns
 * @books: book of each user
 */
struct shared {
	__u64		ids[CELLS];
	int		stopped;
	int		finish;
	__u64		read;
	__u64		unprocessed;
	__u64		latest;
	struct book	books[USERS];
};

/**
 * struct trial - a file, its users and its readers
 * @fd: the file
 * @clock: its clock
 * @cells: its cells
 * @late_at_most: limit of the lateness of events, in ns; 0: no limit
 * @stops: STOP is called during the armings
 * @ended: number of users and readers that have ended
 * @shared: data shared by all processes
 */
struct trial {
	int			fd;
	clockid_t		clock;
	struct twheel_cell	*cells;
	__u64			late_at_most;
	bool			stops;
	int			ended;
	struct shared		*shared;
};

static struct trial trial;

/**
 * struct user - a process that arms cells
 * @nr: its number
 * @book: its account
 * @seed: seed of its random numbers
 * @turns: number of operations
 * @now: recent time on CLOCK_MONOTONIC, in ns
 * @clock_now: recent time on the clock of the file, in ns
 * @mine: by cell: the last deadline that this user has armed it for
 */
struct user {
	unsigned int	nr;
	struct book	*book;
	__u64		seed;
	__u64		turns;
	__u64		now;
	__u64		clock_now;
	__u64		mine[CELLS];
};

static struct user users[USERS];

/* The account */

static bool is_own(__u32 cell)
{
	return cell < USERS * OWN;
}

/* Find an entry whose arming has ended, or must have ended. */
static struct entry *find_entry(struct book *book, __u64 now)
{
	for (__u32 tries = 0; ; tries++) {
		struct entry *entry = &book->entries[book->next++ % ENTRIES];

		if (!PEEK(entry->open))
			return entry;
		if (entry->since + patience_ns() < now) {
			book->overwritten++;
			return entry;
		}
		CHECK(tries < ENTRIES);
	}
}

/* Enter a new arming for about @delay from now. Returns its unique deadline. */
static __u64 enter_arming(struct user *user, __u32 cell, __s64 delay)
{
	struct entry *entry = find_entry(user->book, user->now);
	__u64 when = user->clock_now + delay;

	when = when >> NAME_BITS << NAME_BITS | user->nr << ENTRY_BITS |
	       (entry - user->book->entries);
	entry->deadline = when;
	entry->cell = cell;
	entry->since = user->now;
	SET(entry->open, true);
	user->book->armings++;
	user->mine[cell] = when;
	return when;
}

/* Enter the end of the arming for @deadline. */
static void close_arming(__u32 cell, __u64 deadline)
{
	unsigned int nr = deadline >> ENTRY_BITS & 3;
	struct entry *entry;

	CHECK(nr < USERS);
	entry = &trial.shared->books[nr].entries[deadline % ENTRIES];
	if (entry->deadline != deadline)
		ktap_fail("cell %u: an arming for %llu has ended that is not in the book", cell,
			  (unsigned long long)deadline);
	CHECK_EQ(entry->cell, cell);
	if (!__atomic_exchange_n(&entry->open, false, __ATOMIC_SEQ_CST))
		ktap_fail("cell %u: the arming for %llu has ended twice", cell,
			  (unsigned long long)deadline);
}

/* @user has ended an arming of @cell by an exchange or call that did not name it. */
static void close_nameless(struct user *user, __u32 cell, __u64 mine)
{
	if (is_own(cell))
		close_arming(cell, mine);
	else
		user->book->nameless++;
}

/* An exchange has returned @old. The user had armed the cell for @mine before. */
static void enter_old(struct user *user, __u32 cell, __u64 old, __u64 mine)
{
	if (is_deadline(old)) {
		CHECK(!is_own(cell) || old == mine);
		user->book->replaced++;
		close_arming(cell, old);
	} else if (old == TWHEEL_CELL_FIRED) {
		user->book->withdrawn++;
		close_nameless(user, cell, mine);
	}
}

static void enter_event(const struct twheel_event *event)
{
	__u64 late = event->fired_ns - event->expires_ns;
	struct shared *shared = trial.shared;

	CHECK(event->cookie < CELLS);
	CHECK_EQ(event->reserved, 0);
	if (event->flags & TWHEEL_EV_UNPROCESSED) {
		CHECK_EQ(event->count, 0);
		__atomic_add_fetch(&shared->unprocessed, 1, __ATOMIC_RELAXED);
	} else {
		CHECK_EQ(event->count, 1);
		CHECK(event->fired_ns >= event->expires_ns);
		CHECK(!trial.late_at_most || late <= trial.late_at_most);
		if (trial.late_at_most && late > PEEK(shared->latest))
			SET(shared->latest, late);
	}
	CHECK(trial.stops || !(event->flags & TWHEEL_EV_LAST));
	close_arming(event->cookie, event->expires_ns);
}

/* Users */

/* Most deadlines are near, some are past, and some are far. */
static __s64 random_delay(struct user *user)
{
	__u64 what = random_below(&user->seed, 100);

	if (what < 60)
		return random_below(&user->seed, 4 * MS);
	if (what < 70)
		return -(__s64)random_below(&user->seed, 3 * MS);
	if (what < 95)
		return random_below(&user->seed, 30 * MS);
	return random_below(&user->seed, HOUR);
}

/* Most armings of a hot cell are moved before they are due. */
static __s64 random_hot_delay(struct user *user)
{
	if (!random_below(&user->seed, 100))
		return random_below(&user->seed, 2 * MS);
	return 2 * MS + random_below(&user->seed, 4 * MS);
}

static void do_arm(struct user *user, __u32 cell, __s64 delay)
{
	__u64 id = trial.shared->ids[cell], mine = user->mine[cell];
	__u64 when = enter_arming(user, cell, delay);
	int ret;

	enter_old(user, cell, exchange(trial.cells, id, when), mine);
	if (look_of(trial.cells, id) <= when)
		return;
	ret = kick(trial.fd, id);
	CHECK(!ret || (trial.stops && ret == -ESHUTDOWN));
	if (ret && replace(trial.cells, id, when, TWHEEL_CELL_IDLE)) {
		close_arming(cell, when);
		user->book->refused++;
	}
}

static void do_cancel(struct user *user, __u32 cell)
{
	__u64 id = trial.shared->ids[cell], mine = user->mine[cell];

	enter_old(user, cell, exchange(trial.cells, id, TWHEEL_CELL_IDLE), mine);
}

static void do_cancel_mine(struct user *user, __u32 cell)
{
	__u64 mine = user->mine[cell];

	if (mine && replace(trial.cells, trial.shared->ids[cell], mine, TWHEEL_CELL_IDLE)) {
		user->book->replaced++;
		close_arming(cell, mine);
	}
}

/* A call has returned an outcome for the previous arming. */
static void enter_outcome(struct user *user, __u32 cell, int outcome, __u64 mine)
{
	if (outcome == TWHEEL_IDLE)
		return;
	CHECK(outcome == 0 || outcome == TWHEEL_WITHDRAWN);
	user->book->withdrawn_by_call += outcome == TWHEEL_WITHDRAWN;
	close_nameless(user, cell, mine);
}

static void do_mod(struct user *user, __u32 cell, bool to_idle)
{
	__u64 mine = user->mine[cell], when = TWHEEL_CELL_IDLE;
	int ret;

	if (!to_idle)
		when = enter_arming(user, cell, random_delay(user));
	ret = mod_cell(trial.fd, trial.shared->ids[cell], when, cell);
	if (ret < 0) {
		CHECK(trial.stops && ret == -ESHUTDOWN);
		if (to_idle)
			return;
		close_arming(cell, when);
		user->book->refused++;
		/* An exchange of another user may still return the previous deadline. */
		user->mine[cell] = mine;
		return;
	}
	enter_outcome(user, cell, ret, mine);
}

/* End an own cell and make another one with the same number. */
static void do_replace(struct user *user, __u32 cell)
{
	__u64 id = trial.shared->ids[cell];

	if (!is_own(cell) || trial.stops)
		return;
	enter_outcome(user, cell, cancel(trial.fd, id), user->mine[cell]);
	CHECK_EQ(kick(trial.fd, id), -ENOENT);
	trial.shared->ids[cell] = idle_cell(trial.fd, cell);
	user->mine[cell] = 0;
}

static void do_look(__u32 cell)
{
	__u64 id = trial.shared->ids[cell];
	struct twheel_op op = op_get(id);
	int ret = kick(trial.fd, id);

	CHECK(!ret || (trial.stops && ret == -ESHUTDOWN));
	ret = operate(trial.fd, TWHEEL_IOC_GET, &op);
	CHECK(!ret || (trial.stops && ret == -ENOENT));
	CHECK(ret || op.cookie == cell);
}

static __u32 random_cell(struct user *user)
{
	if (random_below(&user->seed, 5))
		return user->nr * OWN + random_below(&user->seed, OWN);
	return USERS * OWN + random_below(&user->seed, SHARED);
}

/* Use exchanges only. */
static void use_hot_cell(struct user *user)
{
	__u32 cell = user->nr * OWN + random_below(&user->seed, HOT_OWN);
	__u64 what = random_below(&user->seed, 100);

	if (!random_below(&user->seed, 5))
		cell = USERS * OWN + random_below(&user->seed, HOT_SHARED);
	if (what < 60)
		do_arm(user, cell, random_hot_delay(user));
	else if (what < 85)
		do_cancel(user, cell);
	else
		do_cancel_mine(user, cell);
}

static void use_any_cell(struct user *user)
{
	__u32 cell = random_cell(user);
	__u64 what = random_below(&user->seed, 100);

	if (what < 55)
		do_arm(user, cell, random_delay(user));
	else if (what < 77)
		do_cancel(user, cell);
	else if (what < 87)
		do_cancel_mine(user, cell);
	else if (what < 93)
		do_mod(user, cell, false);
	else if (what < 95)
		do_mod(user, cell, true);
	else if (what < 97)
		do_replace(user, cell);
	else
		do_look(cell);
}

static void note_time(struct user *user)
{
	user->now = now_ns();
	user->clock_now = clock_ns(trial.clock);
}

/* Like a program, read the clock once per several operations. */
static void use_once(struct user *user)
{
	if (!(user->turns++ % TURNS_PER_CLOCK))
		note_time(user);
	if (is_long_run() && random_below(&user->seed, 32))
		use_hot_cell(user);
	else
		use_any_cell(user);
}

/* The vDSO reports only one CPU under User Mode Linux, so make the system call. */
static unsigned int this_cpu(void)
{
	unsigned int cpu;

	CHECK_EQ(syscall(SYS_getcpu, &cpu, NULL, NULL), 0);
	return cpu;
}

static void use(struct user *user)
{
	while (user->book->armings < armings / USERS) {
		use_once(user);
		/* Let cells fire that would otherwise be moved. */
		if (!random_below(&user->seed, 2000)) {
			user->book->cpus |= 1ULL << this_cpu() % 64;
			sleep_ns(random_below(&user->seed, 3 * MS));
			note_time(user);
		}
	}
	/* STOP must come before a user ends, and every user must see it. */
	while (trial.stops && !PEEK(trial.shared->stopped))
		use_once(user);
	for (int i = 0; trial.stops && i < 5000; i++)
		use_once(user);
}

/* Readers */

static void read_all(size_t room)
{
	struct pollfd pollfd = { .fd = trial.fd, .events = POLLIN };
	struct twheel_event events[MOST_EVENTS];

	while (!PEEK(trial.shared->finish)) {
		ssize_t size;

		CHECK(poll(&pollfd, 1, 10) >= 0);
		size = read(trial.fd, events, room * sizeof(events[0]));
		CHECK(size >= 0 || errno == EAGAIN);
		CHECK(size || trial.stops);
		if (size <= 0)
			continue;
		for (size_t i = 0; i < size / sizeof(events[0]); i++)
			enter_event(&events[i]);
		__atomic_add_fetch(&trial.shared->read, size / sizeof(events[0]),
				   __ATOMIC_RELAXED);
	}
}

/* Trials */

static void begin(const struct twheel_setup *setup)
{
	need_first_try();
	trial.fd = device_open_setup(O_RDWR | O_NONBLOCK, *setup);
	trial.clock = setup->flags & TWHEEL_SETUP_CLOCK ? setup->clock : CLOCK_MONOTONIC;
	trial.cells = map_cells(trial.fd, 2 * CELLS);
	trial.shared = mmap(NULL, sizeof(*trial.shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(trial.shared != MAP_FAILED);
	for (__u32 i = 0; i < CELLS; i++)
		trial.shared->ids[i] = idle_cell(trial.fd, i);
	for (unsigned int i = 0; i < USERS; i++) {
		users[i].nr = i;
		users[i].book = &trial.shared->books[i];
		users[i].seed = now_ns() + i;
	}
}

/* Cancel an arming with a far deadline; wait for any other to fire. */
static void settle_cell(__u32 cell)
{
	__u64 id = trial.shared->ids[cell], deadline = now_ns() + patience_ns();

	for (;;) {
		__u64 word = word_of(trial.cells, id);

		if (is_idle(word))
			return;
		if (is_deadline(word) && word > clock_ns(trial.clock) + 40 * MS &&
		    replace(trial.cells, id, word, TWHEEL_CELL_IDLE))
			close_arming(cell, word);
		if (now_ns() > deadline)
			ktap_fail("cell %u: %llx is still there, look %llx", cell,
				  (unsigned long long)word,
				  (unsigned long long)look_of(trial.cells, id));
		sched_yield();
	}
}

static void settle(void)
{
	for (__u32 i = 0; !trial.stops && i < CELLS; i++)
		settle_cell(i);
	WAIT_FOR(!info(trial.fd).ready);
}

struct sums {
	__u64 armings, left, nameless, withdrawn, withdrawn_by_call, replaced, refused, cpus;
};

static struct sums add_up(void)
{
	struct sums sums = { 0 };

	for (int i = 0; i < USERS; i++) {
		const struct book *book = &trial.shared->books[i];

		sums.armings += book->armings;
		sums.nameless += book->nameless;
		sums.withdrawn += book->withdrawn;
		sums.withdrawn_by_call += book->withdrawn_by_call;
		sums.replaced += book->replaced;
		sums.refused += book->refused;
		sums.cpus |= book->cpus;
		sums.left += book->overwritten;
		for (__u32 n = 0; n < ENTRIES; n++)
			sums.left += book->entries[n].open;
	}
	return sums;
}

/*
 * Check that everything occurred that a trial must cover. A short trial on a single CPU may
 * have no withdrawal.
 */
static void check_coverage(const struct sums *sums, const struct twheel_stats *s)
{
	CHECK(s->fired);
	CHECK(s->read);
	CHECK(s->looks);
	CHECK(s->kicks);
	CHECK(sums->replaced);
	CHECK(!trial.stops || sums->refused);
	if (!is_long_run())
		return;
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) < 2 || __builtin_popcountll(sums->cpus) > 1);
	CHECK(sums->withdrawn);
	CHECK(sums->withdrawn_by_call);
}

static void check_sums(__u64 since)
{
	struct sums sums = add_up();
	struct twheel_stats s;

	CHECK_EQ(device_ioctl(trial.fd, TWHEEL_IOC_STATS, &s), 0);
	ktap_note("%llu armings in %llu s on %d CPUs: %llu fired, %llu withdrawn after that",
		  (unsigned long long)sums.armings,
		  (unsigned long long)(now_ns() - since) / NSEC_PER_SEC,
		  __builtin_popcountll(sums.cpus), (unsigned long long)s.fired,
		  (unsigned long long)(sums.withdrawn + sums.withdrawn_by_call));
	ktap_note("%llu replaced by exchange, %llu refused, %llu ended without a name",
		  (unsigned long long)sums.replaced, (unsigned long long)sums.refused,
		  (unsigned long long)sums.nameless);
	ktap_note("%llu looks, %llu kicks, latest after %llu us", (unsigned long long)s.looks,
		  (unsigned long long)s.kicks,
		  (unsigned long long)trial.shared->latest / NSEC_PER_USEC);
	if (armings >= DEFAULT_ARMINGS)
		check_coverage(&sums, &s);
	CHECK_EQ(sums.left, sums.nameless);
	CHECK_EQ(s.read, trial.shared->read);
	CHECK_EQ(s.ready, 0);
	CHECK_EQ(s.live, trial.stops ? 0 : CELLS);
	CHECK_EQ(s.armed, s.cancelled + s.withdrawn + s.ended + s.live);
	CHECK_EQ(s.dropped, sums.withdrawn);
	CHECK_EQ(s.unprocessed, trial.stops ? s.unprocessed : 0);
	CHECK_EQ(s.fired + s.unprocessed, s.read + s.dropped + sums.withdrawn_by_call);
}

/* A failed check ends only its own process, so the status of each process is checked. */
static void note_ends(void)
{
	int status;

	while (waitpid(-1, &status, WNOHANG) > 0) {
		CHECK_EQ(status, 0);
		trial.ended++;
	}
}

static void wait_for_ends(int nr)
{
	for (note_ends(); trial.ended < nr; note_ends())
		sleep_ns(MS);
}

static void start_reader(size_t room)
{
	pid_t pid = fork_child();

	if (pid)
		return;
	read_all(room);
	_exit(0);
}

static void start_user(struct user *user)
{
	pid_t pid = fork_child();

	if (pid)
		return;
	use(user);
	_exit(0);
}

/* @disturb is called while the users are running. */
static void run(const struct twheel_setup *setup, void (*disturb)(void))
{
	__u64 since = now_ns();

	begin(setup);
	for (int i = 0; i < READERS; i++)
		start_reader(i ? MOST_EVENTS : 3);
	for (int i = 0; i < USERS; i++)
		start_user(&users[i]);
	disturb();
	wait_for_ends(USERS);
	settle();
	SET(trial.shared->finish, 1);
	wait_for_ends(USERS + READERS);
	check_sums(since);
}

static bool are_at_work(void)
{
	__u64 done = 0;

	note_ends();
	for (int i = 0; i < USERS; i++)
		done += PEEK(trial.shared->books[i].armings) >= armings / USERS;
	return done < USERS;
}

static void leave_alone(void)
{
}

TEST(every_arming_ends_once)
{
	const struct twheel_setup setup = { 0 };

	trial.late_at_most = patience_ns() / 4;
	run(&setup, leave_alone);
}

TEST(every_arming_ends_once_with_short_ticks)
{
	const struct twheel_setup setup = { .tick_ns = 100 * NSEC_PER_USEC };

	trial.late_at_most = patience_ns() / 4;
	run(&setup, leave_alone);
}

TEST(every_arming_ends_once_with_slack)
{
	const struct twheel_setup setup = { .slack_us = 2000 };

	trial.late_at_most = patience_ns() / 4;
	run(&setup, leave_alone);
}

static void step_clock(void)
{
	__u64 seed = now_ns();

	while (are_at_work()) {
		set_realtime((__s64)random_below(&seed, 40 * MS) - 20 * (__s64)MS);
		sleep_ns(random_below(&seed, 5 * MS));
	}
	set_realtime(0);
}

/* Nothing is early. Lateness depends on the clock steps, so it has no limit. */
TEST(every_arming_ends_once_amid_clock_steps)
{
	const struct twheel_setup setup = setup_clock(CLOCK_REALTIME);

	need_realtime();
	run(&setup, step_clock);
}

static void stop_amid_armings(void)
{
	while (are_at_work())
		sleep_ns(MS);
	CHECK_EQ(stop(trial.fd), 0);
	SET(trial.shared->stopped, 1);
}

TEST(every_arming_ends_once_through_stop)
{
	const struct twheel_setup setup = { 0 };

	trial.stops = true;
	trial.late_at_most = patience_ns() / 4;
	run(&setup, stop_amid_armings);
}

int main(int argc, char **argv)
{
	char *end;

	if (argc > 1 && argv[1][0] >= '0' && argv[1][0] <= '9') {
		armings = strtoull(argv[1], &end, 10);
		if (*end || armings < USERS) {
			fprintf(stderr, "not a number of armings: %s\n", argv[1]);
			return 2;
		}
		argc--;
		argv++;
	} else {
		armings /= is_slow() ? 60 : is_short() ? 4 : 1;
	}
	/* A long run is not stuck. */
	if (is_long_run())
		setenv("KTAP_HANG_S", "86400", 0);
	return ktap_main(argc, argv);
}
