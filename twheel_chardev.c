// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: a timing wheel for user space
 *
 * Every open file is a context: a slot map of records, a queue of unread events,
 * limits. Files share one wheel of the engine for each clock, with a batch sink; one
 * that asks for another geometry gets a wheel of its own.
 *
 *
 * Setting up
 *
 * The clock, the wheel and the limit of a file are constant once it has begun.
 * SETUP makes the wheel without a lock, then puts all of it into the file and lets
 * it begin, under the lock; or gives the wheel back if the file has begun without
 * it. Everything else that uses these fields lets the file begin first, with no
 * more than an acquire that pairs with the release at the end of SETUP; what only
 * shows them takes the lock.
 *
 *
 * Records
 *
 * A record is one live timeout: its node in the wheel, and, since a timeout is
 * either pending or has an unread event, at the same time its place in the event
 * queue. So nothing is allocated when it fires, and no event can be lost for
 * want of room. Records lie in chunks of a page each; a table of chunks makes an
 * index out of an id in O(1). Chunks are freed when the file is.
 *
 * An id is the index of the record (low 32 bits) and its generation. The
 * generation counts up when the record is given free; one that has used up all
 * its generations is not used again. So an id means one timeout for all times.
 *
 *	FREE		on the free list
 *	ARMED		in the wheel, or in a batch on its way to the sink
 *	READY		on the event queue
 *	DROPPED		cancelled in a batch on its way to the sink: no one finds it,
 *			and the sink frees it. Also while a batch of CANCELs has the lock
 *	STOPPED		had not fired when STOP came; on a list of STOP, and soon READY
 *
 *	FREE -> ARMED		ARM
 *	ARMED -> READY		sink
 *	ARMED -> ARMED		MOD; if the record is on its way to the sink, @rearm
 *				tells the sink to arm it instead of making an event
 *	ARMED -> FREE		CANCEL
 *	ARMED -> DROPPED	CANCEL, close, of one on its way to the sink
 *	READY -> ARMED		MOD: the event is withdrawn
 *	READY -> FREE		read of the last event; CANCEL: the event is withdrawn
 *	READY -> ARMED		read of a periodic one
 *	DROPPED -> FREE		sink
 *	ARMED -> STOPPED	STOP; sink, after STOP, where it would queue it again
 *	STOPPED -> READY	STOP
 *	STOPPED -> FREE		CANCEL
 *
 * A timeout that is on its way to the sink has fired for the wheel, so CANCEL and
 * MOD answer as for an unread event: TWHEEL_WITHDRAWN.
 *
 * CANCEL_ALL and LIST go through the records by index, a portion in one hold of the
 * lock. LIST copies what it has found without the lock, so it may tell of a timeout
 * that has ended since.
 *
 *
 * Periodic timeouts
 *
 * One that has fired is not in the wheel until its event has been read, so while
 * nobody reads, it costs nothing, however short its interval is. read() finds how many
 * deadlines have passed by then, makes one event of them, and arms the next one, in
 * phase; with fixed delay, an interval after the read(). The event is made anew if
 * it has to be copied anew, so the count is that of the copy that succeeded. A
 * deadline stands for itself even if the clock has been set back before it: a count
 * is never 0.
 *
 *
 * Touch words
 *
 * Every index has a word, a deadline in the time of the opener's namespace, which
 * user space can map and write. ARM and MOD with TWHEEL_F_TOUCH write it before they
 * queue. When such a timeout comes to the sink, or is stopped, the word is read, once;
 * if it says later than the time of the batch, the timeout goes back into the wheel,
 * for that, and nothing has fired. A word can only extend, and nothing that is in it
 * can do harm: it is one more deadline, a wrong one at worst.
 *
 *  - A plain aligned 64-bit store is all that it takes to extend, of any memory order:
 *    nothing else is read because of it. It is seen if it has become visible when the
 *    sink reads, at the deadline at the earliest; else the event is made, as if it had
 *    come later. There is no answer that tells which: the event does.
 *
 *  - A word belongs to an index, not to an id. A store that comes after the timeout
 *    has ended extends the one that has its index next, if that has TWHEEL_F_TOUCH.
 *    Who cannot be sure looks at the event or the cancel first; the harm is his own.
 *
 *  - Whether one that is on its way to the sink has fired depends on its word, so
 *    CANCEL and MOD look at it too.
 *
 * The words lie in pages, which are found in a table that is made with the first one
 * and has its final size, for the indices below the limit. So what mmap() lets see is
 * a part of what is in the table. Indices above exist in the last page of records, and
 * where one more had to be made since some were on their way to the sink or had run out
 * of generations. They have no words: an ARM with TWHEEL_F_TOUCH puts them aside
 * (@spare), for those without it that find nothing else, and is refused as if at the
 * limit when nothing below is free; so is a MOD that asks for the word of one above. A
 * page is made when it is touched, or before the first timeout that needs it is queued,
 * and stays until release. Mappings hold the file, whoever has them, so they end before
 * it does; a page that is pinned for longer has a reference of its own.
 *
 * 32-bit kernels would need a lock to read a word that is being written: they have
 * none.
 *
 *
 * Stopping
 *
 * From the moment that the file is @stopped, which is tested under the lock, no ARM and
 * no MOD has an effect, the sink queues nothing again, and no read() does. STOP then
 *
 *  1. takes out of the wheel what is pending, chunk by chunk. What has left the wheel
 *     already comes to the sink;
 *  2. flushes the wheel: the sink has been there, and nothing is ARMED any more;
 *  3. sorts what is STOPPED by deadline;
 *  4. moves it to the event queue, which gets events from nobody else by now, so they
 *     come after all that have fired;
 *  5. says that it is @over: from then on no reader waits.
 *
 * The lock is held for a portion at a time, and CANCEL may take records away at any
 * point: it unlinks them, which asks for no list head. So the sort is one that knows
 * nothing of its elements between two steps but that they are in one list or another:
 * a radix sort, by 32 lists on the stack, from the lowest digit to the highest,
 * without those in which all deadlines agree. Nothing is allocated.
 *
 * Events that come of STOP have count 0. A periodic timeout whose event was unread
 * counts up to the time of STOP, and ends with that event. A second STOP waits for the
 * first and does nothing. After @over, the end is reached when the last event has
 * gone: read() returns 0, and poll() reports EPOLLHUP, for which pollers are woken.
 *
 *
 * Locking
 *
 *	mmap lock			in faults
 *	  twheel_file.grow		additions of pages
 *	twheel_file.stopping		STOP
 *	  twheel_file.lock		all of the file
 *	    locks of the engine
 *	    twheel_file.wait		when the last event after STOP goes
 *	twheel_users_mutex		who has files open
 *
 * twheel_file.lock protects all of a file: states, free list, event queue, table of
 * chunks and of words, counts. It is taken in process context only, inside grow and
 * inside stopping; the sink is called without any lock and takes it for the records of
 * one file at a time. Nothing that may fault is done under grow.
 *
 * A record that is ARMED under the lock is pending in the wheel, or the sink has
 * not had the lock yet: twheel_cancel() and twheel_mod() tell which. Records that
 * are armed from another state are known to nobody but the holder of the lock, as
 * twheel_arm_list() wants it.
 *
 * Copies to and from user space under the lock are made with page faults disabled. If
 * one faults, the lock is dropped, the page is brought in, and the copy is made
 * again: an event leaves the queue when it has been copied as a whole, and the run of
 * operations that SUBMIT carries out where they are, in user memory, ends before the
 * one that faults.
 *
 *
 * Waiting
 *
 * The sink counts the event (@nr_ready, under the lock), then wakes. A reader is
 * on the wait queue, then looks at the count; so does poll. The lock of the wait
 * queue orders the two: a waiter that comes after the wakeup sees the count.
 * Readers wait exclusively, and as many are woken as there are events; one that
 * leaves without an event, because its buffer is bad or it has been signalled,
 * wakes another in its place.
 *
 * @over is read before the count, with acquire, and set, with release, after all that
 * STOP has added to it: with @over and no event there will be none.
 *
 *
 * Release
 *
 * With the last reference gone nobody but the sink can see the file. What is
 * pending is cancelled, what is on its way to the sink is dropped, and a flush of
 * the wheel waits for the sink to be done with those, and with the wait queue. The
 * states of what was cancelled are of no interest any more. All of it is done in
 * portions, and is not interruptible. A wheel of the file's own goes last.
 *
 *
 * Limits
 *
 * Live timeouts are limited per file, exactly. Per user, and in all, what counts is
 * pages: one of records counts as the timeouts that fit into it, used or not, until
 * the file is released. So it is memory that is limited, and the counts, which all
 * CPUs share, are off the hot path. A user is the real uid of whoever opened the
 * file, whatever namespace that is in, and whoever uses it. The memory itself is
 * charged to the cgroup of whoever made it necessary.
 *
 * A wheel of one's own costs memory on every CPU. It costs time too, if it is badly
 * chosen: a short tick makes many wakeups, and few slots or levels make timeouts
 * that are looked at once a round. So without CAP_SYS_RESOURCE the tick is not short,
 * the slots are few, and either the levels are enough that there are no rounds for
 * 2^32 ticks, or the timeouts so few that a slot holds 64 of them on the average.
 *
 * What remains: a user can keep the threads busy with as many timeouts as the limits
 * allow, and with as many pollers of one file as he may have, all of which an event
 * looks at. The threads have normal priority and offer the CPU after every batch and
 * after every file in it. Who has many uids has their limits added up.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/time_namespace.h>
#include <linux/uidgid.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <uapi/linux/twheel.h>

#include "twheel.h"
#include "twheel_compat.h"
#include "twheel_index.h"

/* Most timeouts that a file can have, and a user, and all together. */
#define TWHEEL_MAX_LIMIT	BIT(28)
#define TWHEEL_MAX_TOTAL	BIT(30)

/*
 * The module is loaded when /dev/twheel is opened. For that the node has to be there
 * before the module, which takes a number that does not depend on what else is loaded:
 * depmod writes name and number of the two aliases to modules.devname, the node is made
 * of them at boot, and who opens it has the kernel ask for char-major-10-247. For a
 * number given out at run time it does not ask. 243 to 254 are those that devices.txt
 * reserves for local use, which is what a driver has that is not part of the kernel.
 */
#define TWHEEL_MINOR	247

/* What a wheel can be. */
#define TWHEEL_SETUP_TICK_NS	(86400ULL * NSEC_PER_SEC)
#define TWHEEL_SETUP_SLOTS	65536

/* What a wheel of one's own can be without CAP_SYS_RESOURCE: see "Limits". */
#define TWHEEL_USER_TICK_NS	(100 * NSEC_PER_USEC)
#define TWHEEL_USER_SLOTS	4096
#define TWHEEL_USER_SPAN_BITS	32
#define TWHEEL_USER_PER_SLOT	64

/* Operations and events that are handled in one hold of a file's lock. */
#define TWHEEL_OPS_CHUNK	64
#define TWHEEL_EVENTS_CHUNK	16

/* So many operations are handled without memory beside the stack. */
#define TWHEEL_FEW_OPS		12

/* Records that STOP sorts in one hold of it, and by how many bits at a time. */
#define TWHEEL_SORT_CHUNK	64
#define TWHEEL_SORT_BITS	5

static unsigned int max_timeouts = 1U << 20;
static unsigned int max_user_timeouts = 1U << 22;
static unsigned int max_all_timeouts = 1U << 24;
static unsigned int max_wheels = 64;
static unsigned char minor = TWHEEL_MINOR;

static int twheel_set_file_limit(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, TWHEEL_MAX_LIMIT);
}

static const struct kernel_param_ops twheel_file_limit_ops = {
	.set	= twheel_set_file_limit,
	.get	= param_get_uint,
};

static int twheel_set_total_limit(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, TWHEEL_MAX_TOTAL);
}

static const struct kernel_param_ops twheel_total_limit_ops = {
	.set	= twheel_set_total_limit,
	.get	= param_get_uint,
};

module_param_cb(max_timeouts, &twheel_file_limit_ops, &max_timeouts, 0644);
MODULE_PARM_DESC(max_timeouts,
		 "most live timeouts of a file opened from now on, 1 to 268435456 (1048576)");
module_param_cb(max_user_timeouts, &twheel_total_limit_ops, &max_user_timeouts, 0644);
MODULE_PARM_DESC(max_user_timeouts,
		 "most timeouts of a user, counted by the page, 1 to 1073741824 (4194304)");
module_param_cb(max_all_timeouts, &twheel_total_limit_ops, &max_all_timeouts, 0644);
MODULE_PARM_DESC(max_all_timeouts,
		 "most timeouts in all, counted by the page, 1 to 1073741824 (16777216)");
module_param(max_wheels, uint, 0644);
MODULE_PARM_DESC(max_wheels,
		 "most wheels of their own that the files of a user without CAP_SYS_RESOURCE have (64)");
module_param(minor, byte, 0444);
MODULE_PARM_DESC(minor, "minor number of the device, 255 for any that is free (247)");

/* The clocks that are open to user space, as enum twheel_clock has them. */
#define TWHEEL_CLOCKS	(TWHEEL_REALTIME + 1)

static const u32 twheel_clockid[TWHEEL_CLOCKS] = {
	[TWHEEL_MONOTONIC]	= CLOCK_MONOTONIC,
	[TWHEEL_BOOTTIME]	= CLOCK_BOOTTIME,
	[TWHEEL_REALTIME]	= CLOCK_REALTIME,
};

enum twheel_record_state {
	TWHEEL_FREE,
	TWHEEL_ARMED,
	TWHEEL_READY,
	TWHEEL_DROPPED,
	TWHEEL_STOPPED,
};

/**
 * struct twheel_record - one timeout of a file
 * @t: in the wheel; data is the cookie, expires the deadline, tag how much later it may
 *	fire, in us. Its entry is the place on the event queue when it is not in the wheel
 * @fired_ns: READY, STOPPED: when it fired or was stopped
 * @next_free: FREE: the next one that is
 * @interval_ns: from one deadline to the next, or 0
 * @id: index and generation. A generation of 0 is that of no timeout
 * @repeat: with an interval: deadlines not read yet; 0: no end
 * @state: enum twheel_record_state
 * @flags: TWHEEL_F_FIXED_DELAY, TWHEEL_F_TOUCH
 * @rearm: ARMED: MOD came when it was on its way to the sink
 * @unprocessed: READY, STOPPED: it was stopped before it fired
 */
struct twheel_record {
	struct twheel_timeout	t;
	union {
		u64			fired_ns;
		struct twheel_record	*next_free;
	};
	u64			interval_ns;
	u64			id;
	u32			repeat;
	u8			state;
	u8			flags;
	bool			rearm;
	bool			unprocessed;
};

static_assert(sizeof(long) < 8 || sizeof(struct twheel_record) == 88);

/**
 * struct twheel_chunk - a page of records
 * @file: whose records they are
 * @records: aligned to a page, so that a record leads to its chunk
 */
struct twheel_chunk {
	struct twheel_file	*file;
	struct twheel_record	records[];
};

#define TWHEEL_PER_CHUNK						\
	((u32)((PAGE_SIZE - offsetof(struct twheel_chunk, records)) /	\
	       sizeof(struct twheel_record)))

/* What makes the next id of an index. */
#define TWHEEL_GENERATION	BIT_ULL(32)

#define TWHEEL_PER_WORDS	((u32)(PAGE_SIZE / sizeof(u64)))

/* A word is written by user space while the kernel reads it. */
#define TWHEEL_HAS_TOUCH	IS_ENABLED(CONFIG_64BIT)

/**
 * struct twheel_user - who has files open
 * @node: in twheel_users
 * @uid: who
 * @files: open files; the last one frees this
 * @timeouts: timeouts that have room in the pages of these files
 * @wheels: wheels that these files have for themselves
 */
struct twheel_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned int		files;
	atomic_t		timeouts;
	atomic_t		wheels;
};

/**
 * struct twheel_counts - what has happened to a file; see struct twheel_stats
 * @moved: see there, as for the others. What is not here follows from them
 * @cancelled: see there
 * @withdrawn: see there
 * @ended: see there
 * @fired: see there
 * @extended: see there
 * @unprocessed: see there
 * @read: see there
 * @lateness: see there
 */
struct twheel_counts {
	u64	moved;
	u64	cancelled;
	u64	withdrawn;
	u64	ended;
	u64	fired;
	u64	extended;
	u64	unprocessed;
	u64	read;
	u64	lateness[TWHEEL_LATENESS];
};

/**
 * struct twheel_file - an open file
 * @lock: protects all the rest, unless it says otherwise
 * @begun: SETUP comes too late; read without @lock
 * @stopped: STOP has come
 * @over: and has gone: no events are added any more; read without @lock
 * @nr_ready: length of @ready; read without @lock by those who wait
 * @live: records that are ARMED, READY or STOPPED
 * @max: limit of @live; constant once @begun
 * @nr_chunks: chunks in use; grows under @lock and @grow
 * @size: room in @chunks; under @grow
 * @chunks: the table; changes under @lock and @grow
 * @words: by index / TWHEEL_PER_WORDS: a page of touch words, or NULL; the table as a
 *	whole is NULL before the first. Entries are added under @lock and @grow
 * @free: the first record that is FREE, or NULL
 * @ready: records that are READY, in the order they fired
 * @unprocessed: records that are STOPPED, but for those that STOP has in its hands
 * @stop_ns: when STOP came
 * @wait: readers and pollers
 * @wheel: the wheel; constant once @begun
 * @offset_ns: what the opener's time namespace adds to the clock; constant once @begun
 * @op_flags: what ARM and MOD must have: TWHEEL_F_ABS with REALTIME; constant once
 *	@begun
 * @clock: enum twheel_clock; constant once @begun
 * @private: no other file uses @wheel; constant once @begun
 * @user: who opened it; constant
 * @offsets_ns: by clock, what @offset_ns would be; constant
 * @counts: what has happened so far
 * @spare: as @free, for records that have no words and were in the way of an ARM
 * @grow: one adds a page at a time
 * @stopping: one STOP at a time
 */
struct twheel_file {
	spinlock_t		lock;		/* all of the file */
	bool			begun;
	bool			stopped;
	bool			over;
	bool			private;
	u8			clock;
	u32			op_flags;
	u32			nr_ready;
	u32			live;
	u32			max;
	u32			nr_chunks;
	u32			size;
	struct twheel_chunk	**chunks;
	u64			**words;
	struct twheel_record	*free;
	struct list_head	ready;
	struct list_head	unprocessed;
	u64			stop_ns;
	wait_queue_head_t	wait;
	struct twheel		*wheel;
	s64			offset_ns;
	struct twheel_user	*user;
	s64			offsets_ns[TWHEEL_CLOCKS];
	struct twheel_counts	counts;
	struct twheel_record	*spare;
	struct mutex		grow;		/* additions to chunks, words */
	struct mutex		stopping;	/* STOP */
};

static struct twheel *twheel_shared[TWHEEL_CLOCKS];	/* from load to unload */

static DEFINE_HASHTABLE(twheel_users, 6);	/* under twheel_users_mutex */
static DEFINE_MUTEX(twheel_users_mutex);
static atomic_t twheel_timeouts;		/* twheel_user.timeouts of all */

static_assert(sizeof(struct twheel_op) == 56);
static_assert(sizeof(struct twheel_event) == 48);
static_assert(sizeof(struct twheel_submit) == 24);
static_assert(sizeof(struct twheel_info) == 88);
static_assert(sizeof(struct twheel_setup) == 56);
static_assert(sizeof(struct twheel_cancel_all) == 40);
static_assert(sizeof(struct twheel_list) == 48);
static_assert(sizeof(struct twheel_list_entry) == 48);
static_assert(sizeof(struct twheel_stats) == 896);
static_assert(offsetof(struct twheel_op, result) == 48);
static_assert(sizeof_field(struct twheel_stats, wheel_lateness) ==
	      sizeof_field(struct twheel_counters, lateness));
static_assert(sizeof_field(struct twheel_stats, wheel_occupied) ==
	      sizeof_field(struct twheel_counters, occupied));

/* Users and what they have */

static struct twheel_user *twheel_find_user(kuid_t uid)
{
	struct twheel_user *user;

	lockdep_assert_held(&twheel_users_mutex);
	hash_for_each_possible(twheel_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

/* For a new file; NULL without memory. */
static struct twheel_user *twheel_get_user(kuid_t uid)
{
	struct twheel_user *user, *new;

	/* Before the mutex: memory of a cgroup at its limit may take its time. */
	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;
	new->uid = uid;
	scoped_guard(mutex, &twheel_users_mutex) {
		user = twheel_find_user(uid);
		if (!user) {
			user = new;
			new = NULL;
			hash_add(twheel_users, &user->node, __kuid_val(uid));
		}
		user->files++;
	}
	kfree(new);
	return user;
}

static void twheel_put_user(struct twheel_user *user)
{
	guard(mutex)(&twheel_users_mutex);
	if (--user->files)
		return;
	hash_del(&user->node);
	kfree(user);
}

static bool twheel_count_up(atomic_t *count, u32 nr, u32 limit)
{
	int old = atomic_read(count);

	do {
		if (old + nr > limit)
			return false;
	} while (!atomic_try_cmpxchg(count, &old, old + nr));
	return true;
}

/* A page counts as the timeouts that it has room for. */
static bool twheel_count_page(struct twheel_user *user)
{
	if (!twheel_count_up(&user->timeouts, TWHEEL_PER_CHUNK, READ_ONCE(max_user_timeouts)))
		return false;
	if (twheel_count_up(&twheel_timeouts, TWHEEL_PER_CHUNK, READ_ONCE(max_all_timeouts)))
		return true;
	atomic_sub(TWHEEL_PER_CHUNK, &user->timeouts);
	return false;
}

static void twheel_uncount_page(struct twheel_user *user)
{
	atomic_sub(TWHEEL_PER_CHUNK, &user->timeouts);
	atomic_sub(TWHEEL_PER_CHUNK, &twheel_timeouts);
}

/* A page for the file: an address, or ERR_PTR(-EAGAIN) at a limit. */
static void *twheel_alloc_page(struct twheel_file *f, gfp_t gfp)
{
	void *page;

	if (!twheel_count_page(f->user))
		return ERR_PTR(-EAGAIN);
	page = (void *)__get_free_page(GFP_KERNEL_ACCOUNT | gfp);
	if (page)
		return page;
	twheel_uncount_page(f->user);
	return ERR_PTR(-ENOMEM);
}

static void twheel_free_page(struct twheel_file *f, void *page)
{
	free_page((unsigned long)page);
	twheel_uncount_page(f->user);
}

/* Records. What every operation goes through is inline: a call costs as much as it does. */

static struct twheel_record *twheel_record_of(struct list_head *entry)
{
	return list_entry(entry, struct twheel_record, t.entry);
}

static struct twheel_chunk *twheel_chunk_of(const struct twheel_record *r)
{
	return (struct twheel_chunk *)((unsigned long)r & PAGE_MASK);
}

static u32 twheel_index(const struct twheel_record *r)
{
	return (u32)r->id;
}

/* For who has the lock and may call nothing, between user_access_begin() and _end(). */
static __always_inline struct twheel_record *__twheel_record_at(struct twheel_file *f, u32 index)
{
	u32 chunk = index / TWHEEL_PER_CHUNK;

	if (chunk >= f->nr_chunks)
		return NULL;
	chunk = array_index_nospec(chunk, f->nr_chunks);
	return &f->chunks[chunk]->records[index % TWHEEL_PER_CHUNK];
}

static inline struct twheel_record *twheel_record_at(struct twheel_file *f, u32 index)
{
	lockdep_assert_held(&f->lock);
	return __twheel_record_at(f, index);
}

/* Can its id be used? */
static inline bool twheel_is_live(const struct twheel_record *r)
{
	return r->state == TWHEEL_ARMED || r->state == TWHEEL_READY ||
	       r->state == TWHEEL_STOPPED;
}

/* The live record of @id, or NULL. */
static inline struct twheel_record *twheel_find(struct twheel_file *f, u64 id)
{
	struct twheel_record *r = twheel_record_at(f, id);

	return r && r->id == id && twheel_is_live(r) ? r : NULL;
}

/* Pages of words that a file can have; constant once it has begun. */
static u32 twheel_max_words(const struct twheel_file *f)
{
	return DIV_ROUND_UP(f->max, TWHEEL_PER_WORDS);
}

/* Where user space extends the timeout with @index, or NULL if there is no page yet. */
static u64 *twheel_word(const struct twheel_file *f, u32 index)
{
	u32 page = index / TWHEEL_PER_WORDS;

	lockdep_assert_held(&f->lock);
	if (!f->words || page >= twheel_max_words(f) || !f->words[page])
		return NULL;
	return &f->words[page][index % TWHEEL_PER_WORDS];
}

/* The record that an ARM would get, or that a MOD is for; NULL if there is none. */
static struct twheel_record *twheel_target(struct twheel_file *f, const struct twheel_op *op)
{
	lockdep_assert_held(&f->lock);
	if (op->opcode != TWHEEL_OP_ARM)
		return twheel_find(f, op->id);
	return f->free;
}

/* Does an ARM or MOD that has been checked need a word, and there is none? */
static inline bool twheel_lacks_word(struct twheel_file *f, const struct twheel_op *op)
{
	struct twheel_record *r;

	if (likely(!(op->flags & TWHEEL_F_TOUCH)) || f->stopped)
		return false;
	r = twheel_target(f, op);
	return r && !twheel_word(f, twheel_index(r));
}

/* The record for an ARM, or -ESHUTDOWN, or -EAGAIN at the limit, or NULL: grow first. */
static inline struct twheel_record *twheel_find_free(struct twheel_file *f,
						     const struct twheel_op *op)
{
	struct twheel_record *r;

	lockdep_assert_held(&f->lock);
	if (unlikely(f->stopped))
		return ERR_PTR(-ESHUTDOWN);
	if (f->live >= f->max)
		return ERR_PTR(-EAGAIN);
	r = f->free;
	if (unlikely(!r || twheel_lacks_word(f, op)))
		return NULL;
	return r;
}

/* The record that was found for an ARM is for it. Arming it is left to the caller. */
static inline void twheel_take(struct twheel_file *f, struct twheel_record *r)
{
	f->free = r->next_free;
	f->live++;
	r->rearm = false;
	r->unprocessed = false;
}

/* The record is in no list. Its id dies; so does the record with its last id. */
static inline void twheel_recycle(struct twheel_file *f, struct twheel_record *r)
{
	lockdep_assert_held(&f->lock);
	r->state = TWHEEL_FREE;
	r->id += TWHEEL_GENERATION;
	if (unlikely(r->id < TWHEEL_GENERATION))
		return;
	r->next_free = f->free;
	f->free = r;
}

static inline void twheel_end_record(struct twheel_file *f, struct twheel_record *r)
{
	f->live--;
	twheel_recycle(f, r);
}

/* There are @nr events less. */
static inline void twheel_count_unready(struct twheel_file *f, unsigned int nr)
{
	lockdep_assert_held(&f->lock);
	WRITE_ONCE(f->nr_ready, f->nr_ready - nr);
	/* The end is for all who wait, the exclusive ones too. */
	if (unlikely(f->over && !f->nr_ready))
		__wake_up(&f->wait, TASK_NORMAL, 0, poll_to_key(EPOLLHUP));
}

/* The record is READY: take back its event. */
static void twheel_unready(struct twheel_file *f, struct twheel_record *r)
{
	list_del(&r->t.entry);
	twheel_count_unready(f, 1);
}

/*
 * Records in zeros: FREE, and initialised but for what is set here, or by the ARM that
 * takes it. Most kernels hand out pages of zeros anyway.
 */
static struct twheel_chunk *twheel_alloc_chunk(struct twheel_file *f)
{
	u64 id = TWHEEL_GENERATION + f->nr_chunks * TWHEEL_PER_CHUNK;
	struct twheel_timeout model;
	struct twheel_chunk *chunk;
	struct twheel_record *r;

	BUILD_BUG_ON(TWHEEL_FREE);
	chunk = twheel_alloc_page(f, __GFP_ZERO);
	if (IS_ERR(chunk))
		return chunk;
	chunk->file = f;
	twheel_timeout_init(f->wheel, &model, NULL);
	for (r = chunk->records; r < chunk->records + TWHEEL_PER_CHUNK; r++) {
		twheel_timeout_copy(&r->t, &model);
		r->id = id++;
		r->next_free = r + 1;
	}
	return chunk;
}

static int twheel_grow_table(struct twheel_file *f)
{
	u32 size = f->size ? f->size * 2 : 8;
	struct twheel_chunk **table, **old = f->chunks;

	lockdep_assert_held(&f->grow);
	if (f->nr_chunks < f->size)
		return 0;
	table = kvmalloc_array(size, sizeof(*table), GFP_KERNEL_ACCOUNT);
	if (!table)
		return -ENOMEM;
	if (old)
		memcpy(table, old, f->nr_chunks * sizeof(*table));
	spin_lock(&f->lock);
	f->chunks = table;
	spin_unlock(&f->lock);
	f->size = size;
	kvfree(old);
	return 0;
}

static int twheel_add_chunk(struct twheel_file *f)
{
	struct twheel_chunk *chunk;
	struct twheel_record *last;
	int ret;

	ret = twheel_grow_table(f);
	if (ret)
		return ret;
	chunk = twheel_alloc_chunk(f);
	if (IS_ERR(chunk))
		return PTR_ERR(chunk);

	spin_lock(&f->lock);
	f->chunks[f->nr_chunks++] = chunk;
	last = &chunk->records[TWHEEL_PER_CHUNK - 1];
	last->next_free = f->free;
	f->free = chunk->records;
	spin_unlock(&f->lock);
	return 0;
}

static int twheel_make_words(struct twheel_file *f)
{
	u64 **words;

	lockdep_assert_held(&f->grow);
	if (f->words)
		return 0;
	words = kvcalloc(twheel_max_words(f), sizeof(*words), GFP_KERNEL_ACCOUNT);
	if (!words)
		return -ENOMEM;
	spin_lock(&f->lock);
	f->words = words;
	spin_unlock(&f->lock);
	return 0;
}

/* Add a page of words, if it is not there yet. */
static int twheel_add_words(struct twheel_file *f, unsigned long page)
{
	u64 *words;
	int ret;

	lockdep_assert_held(&f->grow);
	if (page >= twheel_max_words(f))
		return -EAGAIN;
	ret = twheel_make_words(f);
	if (ret || f->words[page])
		return ret;
	words = twheel_alloc_page(f, __GFP_ZERO);
	if (IS_ERR(words))
		return PTR_ERR(words);
	spin_lock(&f->lock);
	f->words[page] = words;
	spin_unlock(&f->lock);
	return 0;
}

/* Indices below it have words. */
static u32 twheel_touchable(const struct twheel_file *f)
{
	return twheel_max_words(f) * TWHEEL_PER_WORDS;
}

/* Have the first free record be one for an ARM that needs a word, or for any other. */
static void twheel_sort_free(struct twheel_file *f, bool touch)
{
	struct twheel_record *r;

	lockdep_assert_held(&f->lock);
	if (!touch && !f->free)
		swap(f->free, f->spare);
	while (touch && f->free && twheel_index(f->free) >= twheel_touchable(f)) {
		r = f->free;
		f->free = r->next_free;
		r->next_free = f->spare;
		f->spare = r;
	}
}

/* Add a page of records, if they are of use. */
static int twheel_add_records(struct twheel_file *f, bool touch)
{
	lockdep_assert_held(&f->grow);
	if (touch && f->nr_chunks * TWHEEL_PER_CHUNK >= twheel_touchable(f))
		return -EAGAIN;
	return twheel_add_chunk(f);
}

/* Add what @op lacks, if somebody else has not done so. */
static int twheel_grow(struct twheel_file *f, const struct twheel_op *op)
{
	bool arm = op->opcode == TWHEEL_OP_ARM, touch = op->flags & TWHEEL_F_TOUCH;
	struct twheel_record *r;
	bool lacks_word;
	u32 index = 0;

	guard(mutex)(&f->grow);
	scoped_guard(spinlock, &f->lock) {
		if (arm)
			twheel_sort_free(f, touch);
		r = twheel_target(f, op);
		lacks_word = twheel_lacks_word(f, op);
		if (r)
			index = twheel_index(r);
	}
	if (lacks_word)
		return twheel_add_words(f, index / TWHEEL_PER_WORDS);
	return r || !arm ? 0 : twheel_add_records(f, touch);
}

/* Times */

/*
 * @ns from @base on the wheel's clock. What a namespace shifts to before the clock's
 * zero is past, what it shifts beyond the end never comes.
 */
static __always_inline u64 twheel_from_base(u64 ns, u64 base)
{
	u64 sum = ns + base;

	if (sum <= S64_MAX)
		return sum;
	return (s64)base < 0 ? 0 : S64_MAX;
}

/* What an absolute time of the opener of the file is on the wheel's clock, */
static __always_inline u64 twheel_from_user_ns(const struct twheel_file *f, u64 ns)
{
	return twheel_from_base(ns, -(u64)f->offset_ns);
}

/* and back. */
static u64 twheel_to_user_ns(const struct twheel_file *f, u64 ns)
{
	return ns + f->offset_ns > S64_MAX ? S64_MAX : ns + f->offset_ns;
}

/* The time, for a single operation that asks for it: reading the clock is dear. */
static u64 twheel_now_for(const struct twheel_file *f, const struct twheel_op *op)
{
	if (op->flags & TWHEEL_F_ABS || op->opcode == TWHEEL_OP_CANCEL)
		return 0;
	return twheel_now(f->wheel);
}

/* The deadline that @op asks for, on the wheel's clock. */
static __always_inline u64 twheel_deadline(const struct twheel_file *f,
					   const struct twheel_op *op, u64 now_ns)
{
	if (op->flags & TWHEEL_F_ABS)
		return twheel_from_user_ns(f, op->expires_ns);
	return twheel_from_base(op->expires_ns, now_ns);
}

/* The deadline of an ARMED record, or what its word says if that is later. */
static u64 twheel_extended_deadline(const struct twheel_file *f, const struct twheel_record *r)
{
	u64 word_ns;

	lockdep_assert_held(&f->lock);
	if (likely(!(r->flags & TWHEEL_F_TOUCH)))
		return r->t.expires;
	/* Written by user space at any time: see "Touch words". */
	word_ns = READ_ONCE(*twheel_word(f, twheel_index(r)));
	if (word_ns > S64_MAX)
		return r->t.expires;
	return max(r->t.expires, twheel_from_user_ns(f, word_ns));
}

static void twheel_write_word(const struct twheel_file *f, const struct twheel_record *r,
			      u64 expires_ns)
{
	WRITE_ONCE(*twheel_word(f, twheel_index(r)), twheel_to_user_ns(f, expires_ns));
}

/* Queueing */

static u64 twheel_slack_ns(const struct twheel_record *r)
{
	return (u64)r->t.tag * NSEC_PER_USEC;
}

/**
 * struct twheel_arms - records to be armed in one go
 * @nr: how many
 * @timeouts: their timeouts, with room for all that there may be
 */
struct twheel_arms {
	unsigned int		nr;
	struct twheel_timeout	**timeouts;
};

static inline void twheel_arm_all(struct twheel_file *f, struct twheel_arms *arms)
{
	lockdep_assert_held(&f->lock);
	if (arms->nr)
		twheel_arm_list(f->wheel, arms->timeouts, arms->nr);
	arms->nr = 0;
}

static void twheel_queue_slack(struct twheel_file *f, struct twheel_record *r,
			       struct twheel_arms *arms)
{
	twheel_arm_all(f, arms);
	twheel_arm_slack(&r->t, r->t.expires, twheel_slack_ns(r));
}

/*
 * Put a record that is in no list into the wheel, for t.expires: at the end of @arms,
 * which the caller arms, or at once, and @arms before it.
 */
static inline void twheel_queue_record(struct twheel_file *f, struct twheel_record *r,
				       struct twheel_arms *arms)
{
	lockdep_assert_held(&f->lock);
	r->state = TWHEEL_ARMED;
	if (unlikely(r->t.tag))
		twheel_queue_slack(f, r, arms);
	else
		arms->timeouts[arms->nr++] = &r->t;
}

/* The same for a single record, at once. */
static void twheel_queue_alone(struct twheel_file *f, struct twheel_record *r, u64 expires_ns)
{
	lockdep_assert_held(&f->lock);
	r->state = TWHEEL_ARMED;
	twheel_arm_slack(&r->t, expires_ns, twheel_slack_ns(r));
}

/* Expiry */

static void twheel_count_lateness(struct twheel_file *f, u64 late_ns)
{
	f->counts.lateness[min(fls64(late_ns), TWHEEL_LATENESS - 1)]++;
}

/* The record is in no list, and neither in the wheel nor on its way to the sink. */
static void twheel_leave_unprocessed(struct twheel_file *f, struct twheel_record *r,
				     u64 deadline)
{
	lockdep_assert_held(&f->lock);
	r->state = TWHEEL_STOPPED;
	r->unprocessed = true;
	r->rearm = false;
	r->t.expires = deadline;
	r->fired_ns = f->stop_ns;
	list_add_tail(&r->t.entry, &f->unprocessed);
}

/* One that does not fire, or not yet, has been taken off the list of the sink. */
static void twheel_turn_away(struct twheel_file *f, struct twheel_record *r, u64 deadline)
{
	if (r->state == TWHEEL_DROPPED) {
		twheel_accept(&r->t);
		twheel_recycle(f, r);
	} else if (f->stopped) {
		twheel_accept(&r->t);
		twheel_leave_unprocessed(f, r, deadline);
	} else if (r->rearm) {
		r->rearm = false;
		twheel_accept(&r->t);
		twheel_queue_alone(f, r, r->t.expires);
	} else {
		f->counts.extended++;
		twheel_extend(&r->t, deadline, twheel_slack_ns(r));
	}
}

/* A record that is not just ARMED has arrived in the sink. Returns whether it fires. */
static bool twheel_arrive_other(struct twheel_file *f, struct twheel_record *r, u64 now_ns)
{
	u64 deadline = twheel_extended_deadline(f, r);

	if (r->state == TWHEEL_ARMED && !r->rearm && deadline <= now_ns) {
		/* Its word has passed as well: what it has been extended to is what is due. */
		r->t.expires = deadline;
		return true;
	}
	list_del(&r->t.entry);
	twheel_turn_away(f, r, deadline);
	return false;
}

/*
 * A record of this file has arrived in the sink. Returns 1 if that makes an event:
 * the record is still in the list then.
 */
static inline int twheel_arrive(struct twheel_file *f, struct twheel_record *r, u64 now_ns)
{
	lockdep_assert_held(&f->lock);
	if (unlikely(r->state != TWHEEL_ARMED || r->rearm || r->flags & TWHEEL_F_TOUCH) &&
	    !twheel_arrive_other(f, r, now_ns))
		return 0;
	twheel_accept(&r->t);
	r->state = TWHEEL_READY;
	r->fired_ns = now_ns;
	twheel_count_lateness(f, now_ns > r->t.expires ? now_ns - r->t.expires : 0);
	return 1;
}

/* Take over the records at the front of @expired that are of one file. */
static void twheel_sink_file(struct list_head *expired, u64 now_ns)
{
	struct list_head *pos = expired->next, *next;
	struct twheel_file *f = twheel_chunk_of(twheel_record_of(pos))->file;
	unsigned int nr = 0;

	spin_lock(&f->lock);
	for (; pos != expired; pos = next) {
		struct twheel_record *r = twheel_record_of(pos);

		next = pos->next;
		if (twheel_chunk_of(r)->file != f)
			break;
		nr += twheel_arrive(f, r, now_ns);
	}
	if (nr)
		list_bulk_move_tail(&f->ready, expired->next, pos->prev);
	WRITE_ONCE(f->nr_ready, f->nr_ready + nr);
	f->counts.fired += nr;
	spin_unlock(&f->lock);

	if (nr)
		__wake_up(&f->wait, TASK_NORMAL, nr, poll_to_key(EPOLLIN | EPOLLRDNORM));
}

static void twheel_sink(void *data, struct list_head *expired, unsigned int nr, u64 now_ns)
{
	while (!list_empty(expired))
		twheel_sink_file(expired, now_ns);
}

/* Operations */

static bool twheel_has_begun(const struct twheel_file *f)
{
	/* Pairs with the release in twheel_set_up(). */
	return smp_load_acquire(&f->begun);
}

/* From here on the file stays as it was set up; comes before everything else. */
static void twheel_begin(struct twheel_file *f)
{
	if (twheel_has_begun(f))
		return;
	spin_lock(&f->lock);
	WRITE_ONCE(f->begun, true);
	spin_unlock(&f->lock);
}

#define TWHEEL_ARM_FLAGS	(TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY |	\
				 (TWHEEL_HAS_TOUCH ? TWHEEL_F_TOUCH : 0))

/* For ARM and MOD. */
static inline int twheel_check_times(const struct twheel_file *f, const struct twheel_op *op)
{
	if (op->flags & ~TWHEEL_ARM_FLAGS || f->op_flags & ~op->flags)
		return -EINVAL;
	if (op->expires_ns > S64_MAX || op->interval_ns > S64_MAX)
		return -EINVAL;
	if (!op->interval_ns)
		return op->repeat || op->flags & TWHEEL_F_FIXED_DELAY ? -EINVAL : 0;
	return op->flags & TWHEEL_F_TOUCH ? -EINVAL : 0;
}

static inline int twheel_check_cancel(const struct twheel_op *op)
{
	u32 extras = op->flags | op->repeat | op->slack_us | op->reserved;

	return unlikely(extras | op->expires_ns | op->interval_ns | op->cookie) ? -EINVAL : 0;
}

/*
 * All that can be said of an operation without looking for its timeout. What it does
 * not take must be 0; what only comes out of it is not looked at.
 */
static int twheel_check_op(const struct twheel_file *f, const struct twheel_op *op)
{
	if (op->reserved)
		return -EINVAL;
	switch (op->opcode) {
	case TWHEEL_OP_ARM:
	case TWHEEL_OP_MOD:
		return twheel_check_times(f, op);
	case TWHEEL_OP_CANCEL:
		return twheel_check_cancel(op);
	case TWHEEL_OP_GET:
		return op->flags || op->slack_us ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

/* All that ARM and MOD set, but for t.expires. */
static inline void twheel_fill(struct twheel_file *f, struct twheel_record *r,
			       const struct twheel_op *op, u64 expires_ns)
{
	r->t.data = op->cookie;
	r->interval_ns = op->interval_ns;
	r->repeat = op->repeat;
	r->t.tag = op->slack_us;
	r->flags = op->flags & (TWHEEL_F_FIXED_DELAY | TWHEEL_F_TOUCH);
	if (unlikely(r->flags & TWHEEL_F_TOUCH))
		twheel_write_word(f, r, expires_ns);
}

/* What twheel_fill() does for a plain ARM, to a record that is FREE. It is ARMED then. */
static __always_inline void twheel_fill_plain(struct twheel_record *r,
					      const struct twheel_op *op, u64 expires_ns)
{
	r->t.data = op->cookie;
	r->t.expires = expires_ns;
	r->t.tag = 0;
	r->interval_ns = 0;
	r->repeat = 0;
	r->state = TWHEEL_ARMED;
	r->flags = 0;
	r->rearm = false;
	r->unprocessed = false;
}

/*
 * What becomes of a record that is ARMED but not in the wheel, since it is on its way
 * to the sink: does an event? After a MOD it has not fired again.
 */
static bool twheel_has_fired(struct twheel_file *f, const struct twheel_record *r)
{
	if (r->rearm)
		return false;
	return !(r->flags & TWHEEL_F_TOUCH) ||
	       twheel_extended_deadline(f, r) <= twheel_now(f->wheel);
}

/* Returns 0 or TWHEEL_WITHDRAWN for a live record, which is live no more. */
static int __twheel_cancel_record(struct twheel_file *f, struct twheel_record *r)
{
	if (r->state == TWHEEL_READY || r->state == TWHEEL_STOPPED) {
		if (r->state == TWHEEL_READY)
			twheel_unready(f, r);
		else
			list_del(&r->t.entry);
		twheel_end_record(f, r);
		return TWHEEL_WITHDRAWN;
	}
	if (likely(twheel_cancel(&r->t))) {
		twheel_end_record(f, r);
		return 0;
	}
	r->state = TWHEEL_DROPPED;
	f->live--;
	return twheel_has_fired(f, r) ? TWHEEL_WITHDRAWN : 0;
}

static int twheel_cancel_record(struct twheel_file *f, struct twheel_record *r)
{
	int ret = __twheel_cancel_record(f, r);

	if (ret)
		f->counts.withdrawn++;
	else
		f->counts.cancelled++;
	return ret;
}

static int twheel_cancel_id(struct twheel_file *f, u64 id)
{
	struct twheel_record *r = twheel_find(f, id);

	return r ? twheel_cancel_record(f, r) : -ENOENT;
}

static int twheel_mod_op(struct twheel_file *f, const struct twheel_op *op, u64 now_ns)
{
	struct twheel_record *r = twheel_find(f, op->id);
	u64 expires_ns = twheel_deadline(f, op, now_ns);
	bool has_fired;

	if (unlikely(f->stopped))
		return -ESHUTDOWN;
	if (!r)
		return -ENOENT;
	has_fired = twheel_has_fired(f, r);
	f->counts.moved++;
	twheel_fill(f, r, op, expires_ns);
	if (r->state == TWHEEL_READY) {
		twheel_unready(f, r);
		twheel_queue_alone(f, r, expires_ns);
		return TWHEEL_WITHDRAWN;
	}
	if (twheel_mod_slack(&r->t, expires_ns, twheel_slack_ns(r)) >= 0)
		return 0;
	/* On its way to the sink, which will arm it. */
	r->t.expires = expires_ns;
	r->rearm = true;
	return has_fired ? TWHEEL_WITHDRAWN : 0;
}

static u64 twheel_remaining(const struct twheel_file *f, const struct twheel_record *r,
			    u64 now_ns)
{
	u64 deadline;

	if (r->state != TWHEEL_ARMED)
		return 0;
	deadline = twheel_extended_deadline(f, r);
	return deadline > now_ns ? deadline - now_ns : 0;
}

static int twheel_get_op(struct twheel_file *f, struct twheel_op *op, u64 now_ns)
{
	struct twheel_record *r = twheel_find(f, op->id);

	if (!r)
		return -ENOENT;
	op->cookie = r->t.data;
	op->interval_ns = r->interval_ns;
	op->repeat = r->repeat;
	op->expires_ns = twheel_remaining(f, r, now_ns);
	return 0;
}

/* An operation that has been checked, on a timeout that exists: not ARM. */
static int twheel_apply(struct twheel_file *f, struct twheel_op *op, u64 now_ns)
{
	lockdep_assert_held(&f->lock);
	switch (op->opcode) {
	case TWHEEL_OP_MOD:
		return twheel_mod_op(f, op, now_ns);
	case TWHEEL_OP_CANCEL:
		return twheel_cancel_id(f, op->id);
	case TWHEEL_OP_GET:
		return twheel_get_op(f, op, now_ns);
	default:
		return -EINVAL;
	}
}

/**
 * struct twheel_batch - operations that are handled in one hold of a file's lock
 * @size: room for so many
 * @ops: the operations
 * @timeouts: those of a run of them, with room for as many
 */
struct twheel_batch {
	u32			size;
	struct twheel_op	*ops;
	struct twheel_timeout	**timeouts;
};

/*
 * A run of ARMs at the front of @ops, in one go. Returns how many are done: up to
 * an operation of another kind, or one that needs a record or a word and there is none.
 */
static u32 twheel_run_arms(struct twheel_file *f, struct twheel_op *ops, u32 nr, u64 now_ns,
			   struct twheel_timeout **timeouts)
{
	struct twheel_arms arms = { .timeouts = timeouts };
	u32 i;

	for (i = 0; i < nr && ops[i].opcode == TWHEEL_OP_ARM; i++) {
		struct twheel_op *op = &ops[i];
		struct twheel_record *r;

		op->result = twheel_check_op(f, op);
		if (unlikely(op->result))
			continue;
		r = twheel_find_free(f, op);
		if (unlikely(!r))
			break;
		if (IS_ERR(r)) {
			op->result = PTR_ERR(r);
			continue;
		}
		twheel_take(f, r);
		op->id = r->id;
		r->t.expires = twheel_deadline(f, op, now_ns);
		twheel_fill(f, r, op, r->t.expires);
		twheel_queue_record(f, r, &arms);
	}
	twheel_arm_all(f, &arms);
	return i;
}

/*
 * twheel_cancel_list() has put NULL for those of a run of CANCELs that are on their way
 * to the sink, which frees them. The result of all that it was called with is 0.
 */
static void twheel_finish_cancels(struct twheel_file *f, struct twheel_op *op,
				  struct twheel_timeout **timeouts, u32 nr)
{
	for (; nr; op++) {
		if (op->result)
			continue;
		nr--;
		if (*timeouts++ || !twheel_has_fired(f, twheel_record_at(f, op->id)))
			continue;
		op->result = TWHEEL_WITHDRAWN;
		f->counts.cancelled--;
		f->counts.withdrawn++;
	}
}

/*
 * Cancel what is DROPPED, which was pending or is on its way to the sink. False if
 * there are results now that are not 0.
 */
static bool twheel_cancel_drops(struct twheel_file *f, struct twheel_op *ops,
				struct twheel_timeout **timeouts, u32 nr)
{
	bool all = twheel_cancel_list(timeouts, nr) == nr;
	u32 i;

	lockdep_assert_held(&f->lock);
	f->live -= nr;
	f->counts.cancelled += nr;
	if (unlikely(!all))
		twheel_finish_cancels(f, ops, timeouts, nr);
	for (i = 0; i < nr; i++)
		if (likely(timeouts[i]))
			twheel_recycle(f, twheel_record_of(&timeouts[i]->entry));
	return all;
}

/*
 * A run of CANCELs at the front of @ops, in one go. What is pending is DROPPED first,
 * so that its id is dead for those behind it. Returns how many are done.
 */
static u32 twheel_run_cancels(struct twheel_file *f, struct twheel_op *ops, u32 nr,
			      struct twheel_timeout **timeouts)
{
	struct twheel_record *r;
	u32 i, n = 0;

	for (i = 0; i < nr && ops[i].opcode == TWHEEL_OP_CANCEL; i++) {
		struct twheel_op *op = &ops[i];

		op->result = twheel_check_cancel(op);
		if (unlikely(op->result))
			continue;
		r = twheel_record_at(f, op->id);
		if (unlikely(!r || r->id != op->id || r->state != TWHEEL_ARMED)) {
			op->result = twheel_cancel_id(f, op->id);
			continue;
		}
		r->state = TWHEEL_DROPPED;
		timeouts[n++] = &r->t;
	}
	twheel_cancel_drops(f, ops, timeouts, n);
	return i;
}

/*
 * Carry out operations in order, until one needs a record or a word and there is none.
 * Returns how many are done.
 */
static u32 twheel_run_ops(struct twheel_file *f, struct twheel_op *ops, u32 nr, u64 now_ns,
			  struct twheel_timeout **timeouts)
{
	u32 i = 0, n;

	lockdep_assert_held(&f->lock);
	while (i < nr) {
		struct twheel_op *op = &ops[i];

		if (op->opcode == TWHEEL_OP_ARM) {
			n = twheel_run_arms(f, op, nr - i, now_ns, timeouts);
			if (!n)
				break;
			i += n;
			continue;
		}
		if (op->opcode == TWHEEL_OP_CANCEL) {
			i += twheel_run_cancels(f, op, nr - i, timeouts);
			continue;
		}
		op->result = twheel_check_op(f, op);
		if (!op->result) {
			if (twheel_lacks_word(f, op))
				break;
			op->result = twheel_apply(f, op, now_ns);
		}
		i++;
	}
	return i;
}

static void twheel_carry_out(struct twheel_file *f, struct twheel_batch *batch, u32 nr)
{
	u64 now_ns = twheel_now(f->wheel);
	struct twheel_op *ops = batch->ops;
	u32 done = 0;
	int ret;

	for (;;) {
		spin_lock(&f->lock);
		done += twheel_run_ops(f, ops + done, nr - done, now_ns, batch->timeouts);
		spin_unlock(&f->lock);
		if (done == nr)
			return;
		ret = twheel_grow(f, &ops[done]);
		if (ret)
			ops[done++].result = ret;
	}
}

/*
 * Operations in user memory, field by field, which is half of what a call that copies
 * them costs. All but twheel_fetch_op() is for the two that most are: what is not for
 * them begins anew as an operation of any kind. What must be 0 in these is looked at as
 * it comes: put together, it would have to be kept in memory. True if the address is
 * bad, or would fault.
 */

static __always_inline bool twheel_fetch_op(struct twheel_op *op, struct twheel_op __user *uop)
{
	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	unsafe_get_user(op->opcode, &uop->opcode, fault);
	unsafe_get_user(op->flags, &uop->flags, fault);
	unsafe_get_user(op->id, &uop->id, fault);
	unsafe_get_user(op->expires_ns, &uop->expires_ns, fault);
	unsafe_get_user(op->interval_ns, &uop->interval_ns, fault);
	unsafe_get_user(op->cookie, &uop->cookie, fault);
	unsafe_get_user(op->repeat, &uop->repeat, fault);
	unsafe_get_user(op->slack_us, &uop->slack_us, fault);
	unsafe_get_user(op->reserved, &uop->reserved, fault);
	user_access_end();
	return false;
fault:
	user_access_end();
	return true;
}

/* The following are called between user_access_begin() and user_access_end(). */

static __always_inline bool twheel_is_not(u32 value, const __u32 __user *field)
{
	u32 is;

	unsafe_get_user(is, field, fault);
	return is != value;
fault:
	return true;
}

static __always_inline bool twheel_is_set(const __u64 __user *field)
{
	u64 is;

	unsafe_get_user(is, field, fault);
	return is;
fault:
	return true;
}

/*
 * Get flags, deadline and cookie of a plain ARM, one that asks for nothing else. It
 * passes twheel_check_op(). @must are the flags that it must have. True also if it is
 * something else.
 */
static __always_inline bool twheel_load_plain(struct twheel_op *op,
					      const struct twheel_op __user *uop, u32 must)
{
	if (twheel_is_not(TWHEEL_OP_ARM, &uop->opcode))
		return true;
	unsafe_get_user(op->flags, &uop->flags, fault);
	if (op->flags != TWHEEL_F_ABS && op->flags != must)
		return true;
	if (twheel_is_set(&uop->interval_ns) || twheel_is_not(0, &uop->repeat) ||
	    twheel_is_not(0, &uop->slack_us) || twheel_is_not(0, &uop->reserved))
		return true;
	unsafe_get_user(op->expires_ns, &uop->expires_ns, fault);
	unsafe_get_user(op->cookie, &uop->cookie, fault);
	return op->expires_ns > S64_MAX;
fault:
	return true;
}

/* Get the id of a CANCEL that passes twheel_check_op(). True also if it does not. */
static __always_inline bool twheel_load_cancel(u64 *id, const struct twheel_op __user *uop)
{
	if (twheel_is_not(TWHEEL_OP_CANCEL, &uop->opcode) || twheel_is_not(0, &uop->flags) ||
	    twheel_is_not(0, &uop->repeat) || twheel_is_not(0, &uop->slack_us) ||
	    twheel_is_not(0, &uop->reserved) || twheel_is_set(&uop->expires_ns) ||
	    twheel_is_set(&uop->interval_ns) || twheel_is_set(&uop->cookie))
		return true;
	unsafe_get_user(*id, &uop->id, fault);
	return false;
fault:
	return true;
}

/* Write that an operation has succeeded. */
static __always_inline bool twheel_store_done(struct twheel_op __user *uop)
{
	unsafe_put_user(0, &uop->result, fault);
	return false;
fault:
	return true;
}

/* Write what comes out of an ARM. */
static __always_inline bool twheel_store_id(u64 id, struct twheel_op __user *uop)
{
	unsafe_put_user(id, &uop->id, fault);
	return twheel_store_done(uop);
fault:
	return true;
}

static __always_inline bool twheel_fetch_plain(struct twheel_op *op,
					       const struct twheel_op __user *uop, u32 must)
{
	bool other;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	other = twheel_load_plain(op, uop, must);
	user_access_end();
	return other;
}

/* A result that cannot be told is found out before there is one. */
static __always_inline bool twheel_fetch_cancel(u64 *id, struct twheel_op __user *uop)
{
	bool other;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	other = twheel_load_cancel(id, uop) || twheel_store_done(uop);
	user_access_end();
	return other;
}

static __always_inline bool twheel_put_id(u64 id, struct twheel_op __user *uop)
{
	bool fault;

	if (!user_access_begin(uop, sizeof(*uop)))
		return true;
	fault = twheel_store_id(id, uop);
	user_access_end();
	return fault;
}

/* One operation in a call */

/*
 * Try to arm. The id has to get to user space first, as a timeout that nobody knows
 * could not be cancelled; nobody can use it before the lock is dropped. Returns 1 if
 * there is something to grow first, -EFAULT if the id has to be faulted in, too.
 */
static __always_inline int twheel_try_arm(struct twheel_file *f, const struct twheel_op *op,
					  struct twheel_op __user *uop)
{
	struct twheel_record *r = twheel_find_free(f, op);
	u64 expires_ns;
	bool fault;

	if (unlikely(!r))
		return 1;
	if (IS_ERR(r))
		return PTR_ERR(r);
	pagefault_disable();
	fault = twheel_put_id(r->id, uop);
	pagefault_enable();
	if (unlikely(fault))
		return -EFAULT;
	twheel_take(f, r);
	expires_ns = twheel_deadline(f, op, twheel_now_for(f, op));
	twheel_fill(f, r, op, expires_ns);
	twheel_queue_alone(f, r, expires_ns);
	return 0;
}

/* Make it possible to arm, after an attempt that has failed with @ret. */
static noinline int twheel_help_arm(struct twheel_file *f, const struct twheel_op *op,
				    struct twheel_op __user *uop, int ret)
{
	if (ret == 1)
		return twheel_grow(f, op);
	if (ret == -EFAULT && !twheel_put_id(0, uop))
		return 0;
	return ret;
}

static int twheel_arm_one(struct twheel_file *f, struct twheel_op *op,
			  struct twheel_op __user *uop)
{
	int ret = twheel_check_op(f, op);

	while (!ret) {
		spin_lock(&f->lock);
		ret = twheel_try_arm(f, op, uop);
		spin_unlock(&f->lock);
		if (!ret)
			break;
		ret = twheel_help_arm(f, op, uop, ret);
	}
	return ret;
}

static int twheel_apply_grow(struct twheel_file *f, struct twheel_op *op)
{
	bool lacks_word;
	int ret;

	do {
		spin_lock(&f->lock);
		lacks_word = twheel_lacks_word(f, op);
		if (!lacks_word)
			ret = twheel_apply(f, op, twheel_now_for(f, op));
		spin_unlock(&f->lock);
		if (lacks_word)
			ret = twheel_grow(f, op);
	} while (lacks_word && !ret);
	return ret;
}

static int twheel_apply_one(struct twheel_file *f, struct twheel_op *op,
			    struct twheel_op __user *uop)
{
	int ret;

	/* A result that cannot be told is found out before there is one. */
	if (put_user(0, &uop->result))
		return -EFAULT;
	ret = twheel_apply_grow(f, op);
	if (ret < 0)
		return ret;
	if (op->opcode != TWHEEL_OP_GET)
		return put_user(ret, &uop->result);
	op->result = 0;
	return copy_to_user(uop, op, sizeof(*op)) ? -EFAULT : 0;
}

static noinline_for_stack int twheel_ioctl_op(struct twheel_file *f, u32 opcode,
					      struct twheel_op __user *uop)
{
	struct twheel_op op;

	if (twheel_fetch_op(&op, uop))
		return -EFAULT;
	if (op.opcode != opcode)
		return -EINVAL;
	twheel_begin(f);
	if (opcode == TWHEEL_OP_ARM)
		return twheel_arm_one(f, &op, uop);
	return twheel_check_op(f, &op) ?: twheel_apply_one(f, &op, uop);
}

/*
 * The two that most calls are for. All they call with @op is inline, so that it is not
 * in memory: what they cannot do begins anew in twheel_ioctl_op().
 */

/* A plain ARM, with nothing in its way; false: it has not been done. */
static __always_inline bool twheel_arm_plain(struct twheel_file *f, const struct twheel_op *op,
					     u64 now_ns, struct twheel_op __user *uop)
{
	struct twheel_record *r = f->free;
	bool fault;

	lockdep_assert_held(&f->lock);
	if (unlikely(f->stopped || f->live >= f->max || !r))
		return false;
	/* Before it is queued: see twheel_try_arm(). */
	pagefault_disable();
	fault = twheel_put_id(r->id, uop);
	pagefault_enable();
	if (unlikely(fault))
		return false;
	twheel_take(f, r);
	twheel_fill_plain(r, op, twheel_deadline(f, op, now_ns));
	twheel_arm(&r->t, r->t.expires);
	return true;
}

static int twheel_ioctl_arm(struct twheel_file *f, struct twheel_op __user *uop)
{
	struct twheel_op op;
	u64 now_ns = 0;
	bool done;

	if (unlikely(!twheel_has_begun(f) || twheel_fetch_plain(&op, uop, f->op_flags)))
		return twheel_ioctl_op(f, TWHEEL_OP_ARM, uop);
	if (!(op.flags & TWHEEL_F_ABS))
		now_ns = twheel_now(f->wheel);
	spin_lock(&f->lock);
	done = twheel_arm_plain(f, &op, now_ns, uop);
	spin_unlock(&f->lock);
	return likely(done) ? 0 : twheel_ioctl_op(f, TWHEEL_OP_ARM, uop);
}

static int twheel_ioctl_cancel(struct twheel_file *f, struct twheel_op __user *uop)
{
	u64 id;
	int ret;

	if (unlikely(!twheel_has_begun(f) || twheel_fetch_cancel(&id, uop)))
		return twheel_ioctl_op(f, TWHEEL_OP_CANCEL, uop);
	spin_lock(&f->lock);
	ret = twheel_cancel_id(f, id);
	spin_unlock(&f->lock);
	return likely(ret <= 0) ? ret : put_user(ret, &uop->result);
}

/* Many operations in a call */

/*
 * Get the next operations, and make sure that their results can be written, by
 * writing back a field at either end of what is at most two pages. Returns how
 * many there are, up to a bad address.
 */
static u32 twheel_fetch_ops(struct twheel_op *ops, struct twheel_op __user *uops, u32 nr)
{
	u32 in_page;

	BUILD_BUG_ON(TWHEEL_OPS_CHUNK * sizeof(*ops) > PAGE_SIZE);
	nr -= DIV_ROUND_UP(copy_from_user(ops, uops, nr * sizeof(*ops)), sizeof(*ops));
	if (!nr || put_user(ops[0].opcode, &uops[0].opcode))
		return 0;
	if (!put_user(ops[nr - 1].reserved, &uops[nr - 1].reserved))
		return nr;
	in_page = (PAGE_SIZE - offset_in_page(uops)) / sizeof(*ops);
	return min(nr - 1, in_page);
}

/*
 * Most of what is submitted are runs of plain ARMs, and of CANCELs of what is in the
 * wheel. These are never copied: they are read from user memory and carried out one by
 * one, up to the first that is anything else, or that faults. Not inline: there would
 * not be registers enough.
 */

/* Returns how many are done: no more than there are records. */
static u32 twheel_run_plain(struct twheel_file *f, struct twheel_op __user *uop, u32 nr,
			    u64 now_ns, struct twheel_timeout **timeouts)
{
	u32 room = f->stopped ? 0 : min(nr, f->max - f->live);
	struct twheel_record *r = f->free;
	u32 must = f->op_flags, n;
	struct twheel_op op;

	lockdep_assert_held(&f->lock);
	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; r && n < room; n++, uop++) {
		if (unlikely(twheel_load_plain(&op, uop, must) || twheel_store_id(r->id, uop)))
			break;
		twheel_fill_plain(r, &op, twheel_deadline(f, &op, now_ns));
		timeouts[n] = &r->t;
		r = r->next_free;
	}
	user_access_end();
	f->free = r;
	f->live += n;
	return n;
}

/* ARMs at the front of @uops. Returns how many are done. */
static noinline u32 twheel_submit_arms(struct twheel_file *f, struct twheel_op __user *uops,
				       u32 nr, struct twheel_timeout **timeouts)
{
	static const struct twheel_op plain = { .opcode = TWHEEL_OP_ARM };
	u64 now_ns = twheel_now(f->wheel);
	u32 n, done = 0;
	bool grow;

	do {
		spin_lock(&f->lock);
		pagefault_disable();
		n = twheel_run_plain(f, uops + done, nr - done, now_ns, timeouts);
		pagefault_enable();
		if (n)
			twheel_arm_list(f->wheel, timeouts, n);
		done += n;
		grow = done < nr && !twheel_find_free(f, &plain);
		spin_unlock(&f->lock);
	} while (grow && !twheel_grow(f, &plain));
	return done;
}

/* What is pending is DROPPED, and put into @batch. Returns how many there are. */
static u32 twheel_run_drops(struct twheel_file *f, struct twheel_op __user *uop, u32 nr,
			    struct twheel_batch *batch)
{
	struct twheel_timeout **timeouts = batch->timeouts;
	struct twheel_op *op = batch->ops;
	struct twheel_record *r;
	u32 n;

	lockdep_assert_held(&f->lock);
	if (!user_access_begin(uop, nr * sizeof(*uop)))
		return 0;
	for (n = 0; n < nr; n++, uop++, op++) {
		if (unlikely(twheel_load_cancel(&op->id, uop)))
			break;
		r = __twheel_record_at(f, op->id);
		if (unlikely(!r || r->id != op->id || r->state != TWHEEL_ARMED ||
			     twheel_store_done(uop)))
			break;
		r->state = TWHEEL_DROPPED;
		op->result = 0;
		timeouts[n] = &r->t;
	}
	user_access_end();
	return n;
}

/* CANCELs at the front of @uops. Returns how many are done. */
static noinline u32 twheel_submit_cancels(struct twheel_file *f, struct twheel_op __user *uops,
					  u32 nr, struct twheel_batch *batch)
{
	u32 i, n;
	bool all;

	spin_lock(&f->lock);
	pagefault_disable();
	n = twheel_run_drops(f, uops, nr, batch);
	pagefault_enable();
	all = twheel_cancel_drops(f, batch->ops, batch->timeouts, n);
	spin_unlock(&f->lock);
	/* If unmapped meanwhile, the results are forfeited. */
	for (i = 0; unlikely(!all) && i < n; i++)
		if (batch->ops[i].result && put_user(batch->ops[i].result, &uops[i].result))
			break;
	return n;
}

static u32 twheel_submit_straight(struct twheel_file *f, struct twheel_op __user *uops, u32 nr,
				  struct twheel_batch *batch)
{
	u32 opcode;

	if (get_user(opcode, &uops->opcode))
		return 0;
	if (opcode == TWHEEL_OP_ARM)
		return twheel_submit_arms(f, uops, nr, batch->timeouts);
	if (opcode == TWHEEL_OP_CANCEL)
		return twheel_submit_cancels(f, uops, nr, batch);
	return 0;
}

/* Any operations. Adds to @done how many were tried. True if an address is bad. */
static bool twheel_submit_copies(struct twheel_file *f, struct twheel_op __user *uops, u32 nr,
				 struct twheel_batch *batch, u32 *done)
{
	u32 got = twheel_fetch_ops(batch->ops, uops, nr);

	twheel_carry_out(f, batch, got);
	*done += got;
	/* If unmapped meanwhile, the results are forfeited, the effects stay. */
	return copy_to_user(uops, batch->ops, got * sizeof(*uops)) || got < nr;
}

/* Returns how many operations were tried: with none of them, the address is bad. */
static u32 twheel_submit_batch(struct twheel_file *f, struct twheel_op __user *uops, u32 nr,
			       struct twheel_batch *batch)
{
	u32 done = 0, end;

	while (done < nr) {
		end = done + min(nr - done, batch->size);
		done += twheel_submit_straight(f, uops + done, end - done, batch);
		if (done < end && twheel_submit_copies(f, uops + done, end - done, batch, &done))
			break;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

static noinline_for_stack u32 twheel_submit_few(struct twheel_file *f,
						struct twheel_op __user *uops, u32 nr)
{
	struct twheel_timeout *timeouts[TWHEEL_FEW_OPS];
	struct twheel_op ops[TWHEEL_FEW_OPS];
	struct twheel_batch batch = {
		.size = TWHEEL_FEW_OPS, .ops = ops, .timeouts = timeouts,
	};

	return twheel_submit_batch(f, uops, nr, &batch);
}

/* Many of them have memory of their own for the time of the call, if there is any. */
static u32 twheel_submit_ops(struct twheel_file *f, struct twheel_op __user *uops, u32 nr)
{
	struct {
		struct twheel_op	ops[TWHEEL_OPS_CHUNK];
		struct twheel_timeout	*timeouts[TWHEEL_OPS_CHUNK];
	} *room;
	struct twheel_batch batch;
	u32 done;

	room = nr > TWHEEL_FEW_OPS ? kmalloc(sizeof(*room), GFP_KERNEL | __GFP_NOWARN) : NULL;
	if (!room)
		return twheel_submit_few(f, uops, nr);
	batch.size = TWHEEL_OPS_CHUNK;
	batch.ops = room->ops;
	batch.timeouts = room->timeouts;
	done = twheel_submit_batch(f, uops, nr, &batch);
	kfree(room);
	return done;
}

static int twheel_ioctl_submit(struct twheel_file *f, struct twheel_submit __user *usubmit)
{
	struct twheel_submit submit;

	if (copy_from_user(&submit, usubmit, sizeof(submit)))
		return -EFAULT;
	if (submit.flags || submit.op_size != sizeof(struct twheel_op))
		return -EINVAL;
	if (put_user(0, &usubmit->done))
		return -EFAULT;
	twheel_begin(f);
	submit.done = twheel_submit_ops(f, u64_to_user_ptr(submit.ops), submit.nr);
	if (submit.nr && !submit.done)
		return -EFAULT;
	return put_user(submit.done, &usubmit->done);
}

/* The file as a whole */

static int twheel_ioctl_info(struct twheel_file *f, struct twheel_info __user *uinfo)
{
	struct twheel_info info;
	struct twheel_params params;
	struct twheel *wheel;

	memset(&info, 0, sizeof(info));
	info.features = TWHEEL_HAS_TOUCH ? TWHEEL_FEATURE_TOUCH : 0;
	spin_lock(&f->lock);
	wheel = f->wheel;
	info.clock = twheel_clockid[f->clock];
	info.max_timeouts = f->max;
	info.live = f->live;
	info.ready = f->nr_ready;
	info.flags = (f->private ? TWHEEL_INFO_PRIVATE : 0) |
		     (f->stopped ? TWHEEL_INFO_STOPPED : 0);
	spin_unlock(&f->lock);
	/* A wheel that a file once had stays until it is released. */
	twheel_get_params(wheel, &params);
	info.tick_ns = params.tick_ns;
	info.slots = params.slots;
	info.levels = params.levels;
	return copy_to_user(uinfo, &info, sizeof(info)) ? -EFAULT : 0;
}

/* Returns the enum twheel_clock that has @clockid, or -EINVAL. */
static int twheel_find_clock(u32 clockid)
{
	int clock;

	for (clock = 0; clock < TWHEEL_CLOCKS; clock++)
		if (twheel_clockid[clock] == clockid)
			return clock;
	return -EINVAL;
}

/* Here and not by the engine: nothing that a user asks for makes a log message. */
static int twheel_check_setup(const struct twheel_setup *setup)
{
	if (setup->flags || setup->reserved0 ||
	    memchr_inv(setup->reserved, 0, sizeof(setup->reserved)))
		return -EINVAL;
	if (setup->tick_ns > TWHEEL_SETUP_TICK_NS || setup->slots == 1 ||
	    setup->slots > TWHEEL_SETUP_SLOTS || setup->levels > TWHEEL_LEVELS ||
	    setup->max_timeouts > TWHEEL_MAX_LIMIT)
		return -EINVAL;
	return twheel_find_clock(setup->clock) < 0 ? -EINVAL : 0;
}

/* May somebody without privileges have this wheel? See "Limits". */
static bool twheel_params_modest(const struct twheel_params *p, u32 max)
{
	if (p->tick_ns < TWHEEL_USER_TICK_NS || p->slots * p->levels > TWHEEL_USER_SLOTS)
		return false;
	return ilog2(p->slots) * p->levels >= TWHEEL_USER_SPAN_BITS ||
	       max <= TWHEEL_USER_PER_SLOT * p->slots;
}

/* A wheel for one file alone. */
static struct twheel *twheel_make_private(struct twheel_user *user,
					  const struct twheel_params *p, u32 max)
{
	struct twheel *wheel;

	/* The privilege is asked for where it matters: asking is recorded. */
	if (!twheel_params_modest(p, max) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-EPERM);
	if (!twheel_count_up(&user->wheels, 1, READ_ONCE(max_wheels))) {
		if (!capable(CAP_SYS_RESOURCE))
			return ERR_PTR(-EAGAIN);
		atomic_inc(&user->wheels);
	}
	wheel = twheel_create(p);
	if (IS_ERR(wheel))
		atomic_dec(&user->wheels);
	return wheel;
}

static void twheel_free_private(struct twheel_user *user, struct twheel *wheel)
{
	twheel_destroy(wheel);
	atomic_dec(&user->wheels);
}

/* What a wheel that @setup asks for is like; @is_default if others have it already. */
static struct twheel_params twheel_setup_params(const struct twheel_setup *setup,
						enum twheel_clock clock, bool *is_default)
{
	struct twheel_params shared, p;

	twheel_get_params(twheel_shared[clock], &shared);
	p = shared;
	p.name = "dev-private";
	p.account = true;
	p.tick_ns = setup->tick_ns ?: p.tick_ns;
	p.slots = setup->slots ? roundup_pow_of_two(setup->slots) : p.slots;
	p.levels = setup->levels ?: p.levels;
	*is_default = p.tick_ns == shared.tick_ns && p.slots == shared.slots &&
		      p.levels == shared.levels;
	return p;
}

/* See "Setting up". Returns whether the file was still new. */
static bool twheel_set_up(struct twheel_file *f, enum twheel_clock clock, struct twheel *wheel,
			  bool private, u32 max)
{
	guard(spinlock)(&f->lock);
	if (f->begun)
		return false;
	f->wheel = wheel;
	f->private = private;
	f->clock = clock;
	f->op_flags = clock == TWHEEL_REALTIME ? TWHEEL_F_ABS : 0;
	f->offset_ns = f->offsets_ns[clock];
	f->max = max;
	/* Pairs with the acquire in twheel_has_begun(). */
	smp_store_release(&f->begun, true);
	return true;
}

static int twheel_ioctl_setup(struct twheel_file *f, struct twheel_setup __user *usetup)
{
	struct twheel_setup setup;
	struct twheel_params params;
	enum twheel_clock clock;
	struct twheel *wheel;
	bool is_default;
	u32 max;

	if (copy_from_user(&setup, usetup, sizeof(setup)))
		return -EFAULT;
	if (twheel_check_setup(&setup))
		return -EINVAL;
	if (READ_ONCE(f->begun))
		return -EBUSY;
	max = setup.max_timeouts ?: READ_ONCE(f->max);
	if (setup.max_timeouts > READ_ONCE(max_timeouts) && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	clock = twheel_find_clock(setup.clock);
	params = twheel_setup_params(&setup, clock, &is_default);
	wheel = is_default ? twheel_shared[clock] : twheel_make_private(f->user, &params, max);
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	if (twheel_set_up(f, clock, wheel, !is_default, max))
		return 0;
	if (!is_default)
		twheel_free_private(f->user, wheel);
	return -EBUSY;
}

/* Cancel what @all asks for among the records of a chunk. False: there is no such. */
static bool twheel_cancel_chunk(struct twheel_file *f, u32 chunk, struct twheel_cancel_all *all)
{
	struct twheel_record *r;
	u32 i;

	guard(spinlock)(&f->lock);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWHEEL_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (!twheel_is_live(r))
			continue;
		if (all->flags & TWHEEL_CANCEL_COOKIE && r->t.data != all->cookie)
			continue;
		if (twheel_cancel_record(f, r))
			all->withdrawn++;
		else
			all->pending++;
	}
	return true;
}

static int twheel_ioctl_cancel_all(struct twheel_file *f, struct twheel_cancel_all __user *uall)
{
	struct twheel_cancel_all all;
	u32 i;

	if (copy_from_user(&all, uall, sizeof(all)))
		return -EFAULT;
	if (all.flags & ~TWHEEL_CANCEL_COOKIE || all.reserved0 ||
	    memchr_inv(all.reserved, 0, sizeof(all.reserved)))
		return -EINVAL;
	if (all.cookie && !(all.flags & TWHEEL_CANCEL_COOKIE))
		return -EINVAL;
	/* A result that cannot be told is found out before there is one. */
	all.pending = 0;
	all.withdrawn = 0;
	if (copy_to_user(uall, &all, sizeof(all)))
		return -EFAULT;
	twheel_begin(f);
	for (i = 0; twheel_cancel_chunk(f, i, &all); i++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return copy_to_user(uall, &all, sizeof(all)) ? -EFAULT : 0;
}

/* Stopping */

/* Take what is pending in a chunk out of the wheel. False: there is no such. */
static bool twheel_stop_chunk(struct twheel_file *f, u32 chunk)
{
	struct twheel_record *r;
	u32 i;

	guard(spinlock)(&f->lock);
	if (chunk >= f->nr_chunks)
		return false;
	for (i = 0; i < TWHEEL_PER_CHUNK; i++) {
		r = &f->chunks[chunk]->records[i];
		if (r->state == TWHEEL_ARMED && twheel_cancel(&r->t))
			twheel_leave_unprocessed(f, r, twheel_extended_deadline(f, r));
	}
	return true;
}

/**
 * struct twheel_sort - a radix sort by deadline, see "Stopping"
 * @digits: one list for each value of the digit that is sorted by
 * @shift: the lowest bit of that digit
 * @any: bits that are set in any deadline
 * @all: bits that are set in all
 *
 * All under twheel_file.lock.
 */
struct twheel_sort {
	struct list_head	digits[BIT(TWHEEL_SORT_BITS)];
	unsigned int		shift;
	u64			any;
	u64			all;
};

/* Sort the next few of f->unprocessed by a digit. False: there are no more. */
static bool twheel_sort_some(struct twheel_file *f, struct twheel_sort *sort)
{
	struct twheel_record *r;
	unsigned int i, digit;

	guard(spinlock)(&f->lock);
	for (i = 0; i < TWHEEL_SORT_CHUNK; i++) {
		if (list_empty(&f->unprocessed))
			return false;
		r = twheel_record_of(f->unprocessed.next);
		digit = r->t.expires >> sort->shift & (BIT(TWHEEL_SORT_BITS) - 1);
		sort->any |= r->t.expires;
		sort->all &= r->t.expires;
		list_move_tail(&r->t.entry, &sort->digits[digit]);
	}
	return true;
}

static void twheel_sort_digit(struct twheel_file *f, struct twheel_sort *sort)
{
	unsigned int i;

	while (twheel_sort_some(f, sort))
		cond_resched();
	guard(spinlock)(&f->lock);
	for (i = 0; i < ARRAY_SIZE(sort->digits); i++)
		list_splice_tail_init(&sort->digits[i], &f->unprocessed);
}

static void twheel_sort_unprocessed(struct twheel_file *f)
{
	struct twheel_sort sort = { .all = U64_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sort.digits); i++)
		INIT_LIST_HEAD(&sort.digits[i]);
	twheel_sort_digit(f, &sort);
	for (sort.shift = TWHEEL_SORT_BITS; sort.shift < 64; sort.shift += TWHEEL_SORT_BITS)
		if ((sort.any ^ sort.all) >> sort.shift & (BIT(TWHEEL_SORT_BITS) - 1))
			twheel_sort_digit(f, &sort);
}

/* Make events of the next few, which are in order now. False: there are no more. */
static bool twheel_publish_some(struct twheel_file *f)
{
	struct twheel_record *r;
	unsigned int nr;

	scoped_guard(spinlock, &f->lock) {
		for (nr = 0; nr < TWHEEL_SORT_CHUNK; nr++) {
			if (list_empty(&f->unprocessed))
				break;
			r = twheel_record_of(f->unprocessed.next);
			r->state = TWHEEL_READY;
			list_move_tail(&r->t.entry, &f->ready);
		}
		WRITE_ONCE(f->nr_ready, f->nr_ready + nr);
		f->counts.unprocessed += nr;
	}
	if (nr)
		__wake_up(&f->wait, TASK_NORMAL, nr, poll_to_key(EPOLLIN | EPOLLRDNORM));
	return nr;
}

static int twheel_ioctl_stop(struct twheel_file *f)
{
	u32 i;

	twheel_begin(f);
	guard(mutex)(&f->stopping);
	if (f->over)
		return 0;
	scoped_guard(spinlock, &f->lock) {
		f->stop_ns = twheel_now(f->wheel);
		f->stopped = true;
	}
	for (i = 0; twheel_stop_chunk(f, i); i++)
		cond_resched();
	twheel_flush(f->wheel);
	twheel_sort_unprocessed(f);
	while (twheel_publish_some(f))
		cond_resched();
	scoped_guard(spinlock, &f->lock) {
		/* Pairs with the acquire in twheel_is_over(). */
		smp_store_release(&f->over, true);
	}
	/* All: nobody has anything left to wait for. */
	__wake_up(&f->wait, TASK_NORMAL, 0,
		  poll_to_key(EPOLLIN | EPOLLRDNORM | EPOLLHUP));
	return 0;
}

/* Listing */

static void twheel_describe(const struct twheel_file *f, const struct twheel_record *r,
			    u64 now_ns, struct twheel_list_entry *entry)
{
	*entry = (struct twheel_list_entry){
		.id		= r->id,
		.cookie		= r->t.data,
		.remaining_ns	= twheel_remaining(f, r, now_ns),
		.interval_ns	= r->interval_ns,
		.repeat		= r->repeat,
		.slack_us	= r->t.tag,
		.state		= r->state == TWHEEL_ARMED ? TWHEEL_STATE_PENDING :
							     TWHEEL_STATE_READY,
		.flags		= r->flags,
	};
}

/*
 * Find up to @max timeouts from @next on, in no more records than a chunk has, and
 * lead @next behind them. Returns how many; @end is set if there are no more.
 */
static u32 twheel_list_some(struct twheel_file *f, struct twheel_list_entry *entries, u32 max,
			    u32 *next, bool *end)
{
	u64 now_ns = twheel_now(f->wheel);
	struct twheel_record *r;
	u32 nr = 0, i;

	guard(spinlock)(&f->lock);
	for (i = 0; i < TWHEEL_PER_CHUNK && nr < max; i++) {
		r = twheel_record_at(f, *next);
		if (!r) {
			*end = true;
			break;
		}
		if (twheel_is_live(r))
			twheel_describe(f, r, now_ns, &entries[nr++]);
		++*next;
	}
	return nr;
}

/* Sets done and next of @list. */
static int twheel_list_entries(struct twheel_file *f, struct twheel_list *list)
{
	struct twheel_list_entry __user *uentries = u64_to_user_ptr(list->entries);
	struct twheel_list_entry entries[TWHEEL_EVENTS_CHUNK];
	bool end = false;
	u32 nr, left;

	list->done = 0;
	while (list->done < list->nr && !end) {
		if (signal_pending(current))
			return list->done ? 0 : -EINTR;
		nr = twheel_list_some(f, entries, min_t(u32, list->nr - list->done,
							TWHEEL_EVENTS_CHUNK),
				      &list->next, &end);
		left = copy_to_user(uentries + list->done, entries, nr * sizeof(*entries));
		left = DIV_ROUND_UP(left, sizeof(*entries));
		list->done += nr - left;
		if (left) {
			/* An index is the low half of an id. */
			list->next = (u32)entries[nr - left].id;
			return list->done ? 0 : -EFAULT;
		}
		cond_resched();
	}
	return 0;
}

static int twheel_ioctl_list(struct twheel_file *f, struct twheel_list __user *ulist)
{
	struct twheel_list list;
	int ret;

	if (copy_from_user(&list, ulist, sizeof(list)))
		return -EFAULT;
	if (list.flags || list.reserved0 || memchr_inv(list.reserved, 0, sizeof(list.reserved)))
		return -EINVAL;
	if (!list.nr || list.entry_size != sizeof(struct twheel_list_entry))
		return -EINVAL;
	twheel_begin(f);
	ret = twheel_list_entries(f, &list);
	return copy_to_user(ulist, &list, sizeof(list)) ? -EFAULT : ret;
}

/* Returns the wheel if the caller may know what it does, else NULL. */
static struct twheel *twheel_file_stats(struct twheel_file *f, struct twheel_stats *stats)
{
	const struct twheel_counts *counts = &f->counts;
	struct twheel *wheel;
	bool private;

	scoped_guard(spinlock, &f->lock) {
		stats->moved = counts->moved;
		stats->cancelled = counts->cancelled;
		stats->withdrawn = counts->withdrawn;
		stats->ended = counts->ended;
		stats->fired = counts->fired;
		stats->extended = counts->extended;
		stats->unprocessed = counts->unprocessed;
		stats->read = counts->read;
		stats->live = f->live;
		stats->ready = f->nr_ready;
		memcpy(stats->lateness, counts->lateness, sizeof(stats->lateness));
		wheel = f->wheel;
		private = f->private;
	}
	/* Every timeout is somewhere: nobody has to count them when they are made. */
	stats->armed = stats->cancelled + stats->withdrawn + stats->ended + stats->live;
	return private || ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN) ? wheel : NULL;
}

static void twheel_wheel_stats(struct twheel *wheel, struct twheel_stats *stats)
{
	struct twheel_counters counters;

	twheel_stats(wheel, &counters);
	stats->flags |= TWHEEL_STATS_WHEEL;
	stats->shards = counters.shards;
	stats->wheel_armed = counters.armed;
	stats->wheel_rearmed = counters.rearmed;
	stats->wheel_cancelled = counters.cancelled;
	stats->wheel_fired = counters.fired;
	stats->wheel_extended = counters.extended;
	stats->wheel_pending = counters.pending;
	stats->wheel_cascaded = counters.cascaded;
	stats->wheel_wakeups = counters.wakeups;
	stats->wheel_largest_batch = counters.largest_batch;
	memcpy(stats->wheel_lateness, counters.lateness, sizeof(stats->wheel_lateness));
	memcpy(stats->wheel_occupied, counters.occupied, sizeof(stats->wheel_occupied));
}

static int twheel_ioctl_stats(struct twheel_file *f, struct twheel_stats __user *ustats)
{
	struct twheel_stats *stats;
	struct twheel *wheel;
	int ret;

	stats = kzalloc(sizeof(*stats), GFP_KERNEL);
	if (!stats)
		return -ENOMEM;
	wheel = twheel_file_stats(f, stats);
	if (wheel)
		twheel_wheel_stats(wheel, stats);
	ret = copy_to_user(ustats, stats, sizeof(*stats)) ? -EFAULT : 0;
	kfree(stats);
	return ret;
}

static void twheel_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct twheel_file *f = file->private_data;
	struct twheel_params params;
	struct twheel *wheel;
	u32 clock, max, live, ready;

	scoped_guard(spinlock, &f->lock) {
		wheel = f->wheel;
		clock = f->clock;
		max = f->max;
		live = f->live;
		ready = f->nr_ready;
	}
	twheel_get_params(wheel, &params);
	seq_printf(m, "clockid:\t%u\n", twheel_clockid[clock]);
	seq_printf(m, "tick_ns:\t%llu\n", params.tick_ns);
	seq_printf(m, "slots:\t%u\n", params.slots);
	seq_printf(m, "levels:\t%u\n", params.levels);
	seq_printf(m, "max_timeouts:\t%u\n", max);
	seq_printf(m, "live:\t%u\n", live);
	seq_printf(m, "ready:\t%u\n", ready);
}

static bool twheel_ioctl_changes(unsigned int cmd)
{
	switch (cmd) {
	case TWHEEL_IOC_SETUP:
	case TWHEEL_IOC_ARM:
	case TWHEEL_IOC_MOD:
	case TWHEEL_IOC_CANCEL:
	case TWHEEL_IOC_SUBMIT:
	case TWHEEL_IOC_CANCEL_ALL:
	case TWHEEL_IOC_STOP:
		return true;
	default:
		return false;
	}
}

static long twheel_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct twheel_file *f = file->private_data;
	void __user *argp = (void __user *)arg;

	if (!(file->f_mode & FMODE_WRITE) && twheel_ioctl_changes(cmd))
		return -EBADF;
	switch (cmd) {
	case TWHEEL_IOC_INFO:
		return twheel_ioctl_info(f, argp);
	case TWHEEL_IOC_SETUP:
		return twheel_ioctl_setup(f, argp);
	case TWHEEL_IOC_ARM:
		return twheel_ioctl_arm(f, argp);
	case TWHEEL_IOC_MOD:
		return twheel_ioctl_op(f, TWHEEL_OP_MOD, argp);
	case TWHEEL_IOC_CANCEL:
		return twheel_ioctl_cancel(f, argp);
	case TWHEEL_IOC_GET:
		return twheel_ioctl_op(f, TWHEEL_OP_GET, argp);
	case TWHEEL_IOC_SUBMIT:
		return twheel_ioctl_submit(f, argp);
	case TWHEEL_IOC_CANCEL_ALL:
		return twheel_ioctl_cancel_all(f, argp);
	case TWHEEL_IOC_STOP:
		return twheel_ioctl_stop(f);
	case TWHEEL_IOC_LIST:
		return twheel_ioctl_list(f, argp);
	case TWHEEL_IOC_STATS:
		return twheel_ioctl_stats(f, argp);
	default:
		return -ENOTTY;
	}
}

/* Reading */

/* How many deadlines of a periodic timeout the event of now stands for. */
static u64 twheel_count_periods(struct twheel_file *f, const struct twheel_record *r)
{
	u64 now_ns = f->stopped ? f->stop_ns : twheel_now(f->wheel);
	u64 count = 1;

	if (!(r->flags & TWHEEL_F_FIXED_DELAY))
		count += twheel_intervals(r->t.expires, now_ns, r->interval_ns);
	return r->repeat ? min_t(u64, count, r->repeat) : count;
}

/* What differs from the event of a one-shot timeout that has fired. */
static void twheel_amend_event(struct twheel_file *f, const struct twheel_record *r,
			       struct twheel_event *event)
{
	u64 count;

	if (r->unprocessed) {
		event->count = 0;
		event->flags |= TWHEEL_EV_UNPROCESSED;
		return;
	}
	count = twheel_count_periods(f, r);
	event->expires_ns = twheel_to_user_ns(f, r->t.expires + (count - 1) * r->interval_ns);
	event->count = count;
	if (count != r->repeat && !f->stopped)
		event->flags &= ~TWHEEL_EV_LAST;
}

static void twheel_make_event(struct twheel_file *f, const struct twheel_record *r,
			      struct twheel_event *event)
{
	*event = (struct twheel_event){
		.id		= r->id,
		.cookie		= r->t.data,
		.expires_ns	= twheel_to_user_ns(f, r->t.expires),
		.fired_ns	= twheel_to_user_ns(f, r->fired_ns),
		.count		= 1,
		.flags		= TWHEEL_EV_LAST,
	};
	if (unlikely(r->interval_ns || r->unprocessed))
		twheel_amend_event(f, r, event);
}

/* The events at the front of the queue, up to @max; they stay there. */
static unsigned int twheel_peek(struct twheel_file *f, struct twheel_event *events,
				unsigned int max)
{
	struct twheel_record *r;
	unsigned int nr = 0;

	list_for_each_entry(r, &f->ready, t.entry) {
		if (nr == max)
			break;
		twheel_make_event(f, r, &events[nr++]);
	}
	return nr;
}

/* The event for the next @count deadlines has been read, and there are more. */
static void twheel_next_period(struct twheel_file *f, struct twheel_record *r, u64 count,
			       struct twheel_arms *arms)
{
	u64 last_ns = r->t.expires + (count - 1) * r->interval_ns;

	if (r->repeat)
		r->repeat -= count;
	if (r->flags & TWHEEL_F_FIXED_DELAY)
		last_ns = twheel_now(f->wheel);
	r->t.expires = twheel_add_ns(last_ns, r->interval_ns);
	twheel_queue_record(f, r, arms);
}

/* @events, of the records at the front of the queue, have been read. */
static void twheel_consume(struct twheel_file *f, const struct twheel_event *events,
			   unsigned int nr)
{
	struct list_head *pos = f->ready.next, *next;
	struct twheel_timeout *timeouts[TWHEEL_EVENTS_CHUNK];
	struct twheel_arms arms = { .timeouts = timeouts };
	unsigned int i;

	if (!nr)
		return;
	f->counts.read += nr;
	twheel_count_unready(f, nr);
	for (i = 0; i < nr; i++, pos = next) {
		struct twheel_record *r = twheel_record_of(pos);

		next = pos->next;
		if (likely(events[i].flags & TWHEEL_EV_LAST)) {
			f->counts.ended++;
			twheel_end_record(f, r);
		} else {
			twheel_next_period(f, r, events[i].count, &arms);
		}
	}
	/* All before @pos are elsewhere now. */
	__list_del(&f->ready, pos);
	twheel_arm_all(f, &arms);
}

/* One chunk. Returns the records copied, and in @want those there were to copy. */
static unsigned int twheel_read_chunk(struct twheel_file *f, struct iov_iter *to,
				      unsigned int *want)
{
	struct twheel_event events[TWHEEL_EVENTS_CHUNK];
	size_t room = iov_iter_count(to) / sizeof(*events);
	size_t copied;

	spin_lock(&f->lock);
	*want = twheel_peek(f, events, min_t(size_t, room, TWHEEL_EVENTS_CHUNK));
	pagefault_disable();
	copied = copy_to_iter(events, *want * sizeof(*events), to);
	pagefault_enable();
	iov_iter_revert(to, copied % sizeof(*events));
	copied /= sizeof(*events);
	twheel_consume(f, events, copied);
	spin_unlock(&f->lock);
	return copied;
}

/*
 * Can a record be written at all? Asked by writing one, as there is memory that
 * can be faulted in but not written. What read() does not count means nothing.
 */
static bool twheel_can_write(struct iov_iter *to)
{
	static const struct twheel_event zero;
	size_t copied = copy_to_iter(&zero, sizeof(zero), to);

	iov_iter_revert(to, copied);
	return copied == sizeof(zero);
}

/* As many events as there are and as fit: how many, or why there is none. */
static int twheel_read_events(struct twheel_file *f, struct iov_iter *to)
{
	unsigned int want, got;
	int nr = 0;

	do {
		got = twheel_read_chunk(f, to, &want);
		nr += got;
		if (got < want && !twheel_can_write(to))
			return nr ?: -EFAULT;
		if (want && signal_pending(current))
			return nr ?: -ERESTARTSYS;
		cond_resched();
	} while (got < want || want == TWHEEL_EVENTS_CHUNK);
	return nr;
}

/* Will there be no event any more? */
static bool twheel_is_over(const struct twheel_file *f)
{
	/* Pairs with the release in twheel_ioctl_stop(): see "Waiting". */
	return smp_load_acquire(&f->over) && !READ_ONCE(f->nr_ready);
}

static int twheel_wait_events(struct twheel_file *f, struct iov_iter *to, bool nonblock)
{
	int nr;

	for (;;) {
		nr = twheel_read_events(f, to);
		if (nr)
			return nr;
		if (twheel_is_over(f))
			return 0;
		if (nonblock)
			return -EAGAIN;
		nr = wait_event_interruptible_exclusive(f->wait, READ_ONCE(f->nr_ready) ||
							READ_ONCE(f->over));
		if (nr)
			return nr;
	}
}

static ssize_t twheel_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct twheel_file *f = iocb->ki_filp->private_data;
	int nr;

	if (iov_iter_count(to) < sizeof(struct twheel_event))
		return -EINVAL;
	nr = twheel_wait_events(f, to, iocb->ki_filp->f_flags & O_NONBLOCK ||
				iocb->ki_flags & IOCB_NOWAIT);
	if (nr >= 0)
		return nr * (ssize_t)sizeof(struct twheel_event);
	/* The wakeup that was ours is another reader's. */
	if (READ_ONCE(f->nr_ready))
		wake_up_interruptible_poll(&f->wait, EPOLLIN | EPOLLRDNORM);
	return nr;
}

static __poll_t twheel_poll(struct file *file, poll_table *wait)
{
	struct twheel_file *f = file->private_data;

	poll_wait(file, &f->wait, wait);
	/* See "Waiting": written before the wakeup, read after getting in line. */
	if (twheel_is_over(f))
		return EPOLLHUP;
	return READ_ONCE(f->nr_ready) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* Touch words for user space */

static vm_fault_t twheel_fault(struct vm_fault *vmf)
{
	struct twheel_file *f = vmf->vma->vm_file->private_data;
	int ret;

	scoped_guard(mutex, &f->grow) {
		ret = twheel_add_words(f, vmf->pgoff);
		if (!ret) {
			vmf->page = virt_to_page(f->words[vmf->pgoff]);
			get_page(vmf->page);
		}
	}
	if (!ret)
		return 0;
	return ret == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct twheel_vm_ops = {
	.fault	= twheel_fault,
};

static int twheel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twheel_file *f = file->private_data;

	/* VM_MAYSHARE: a shared mapping of a file that is open for reading counts, too. */
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_flags & VM_EXEC || vma->vm_pgoff)
		return -EINVAL;
	twheel_begin(f);
	if (vma_pages(vma) > twheel_max_words(f))
		return -EINVAL;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	vma->vm_ops = &twheel_vm_ops;
	return 0;
}

/* Files */

static void twheel_free_words(struct twheel_file *f)
{
	u32 i;

	for (i = 0; f->words && i < twheel_max_words(f); i++) {
		if (f->words[i])
			twheel_free_page(f, f->words[i]);
		cond_resched();
	}
	kvfree(f->words);
}

static void twheel_note_namespace(struct twheel_file *f)
{
	struct timespec64 monotonic = { }, boottime = { };

	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	f->offsets_ns[TWHEEL_MONOTONIC] = timespec64_to_ns(&monotonic);
	f->offsets_ns[TWHEEL_BOOTTIME] = timespec64_to_ns(&boottime);
}

static int twheel_open(struct inode *inode, struct file *file)
{
	struct twheel_file *f;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	f->user = twheel_get_user(current_uid());
	if (!f->user) {
		kfree(f);
		return -ENOMEM;
	}
	spin_lock_init(&f->lock);
	mutex_init(&f->grow);
	mutex_init(&f->stopping);
	init_waitqueue_head(&f->wait);
	INIT_LIST_HEAD(&f->ready);
	INIT_LIST_HEAD(&f->unprocessed);
	f->wheel = twheel_shared[TWHEEL_MONOTONIC];
	f->max = READ_ONCE(max_timeouts);
	twheel_note_namespace(f);
	f->offset_ns = f->offsets_ns[TWHEEL_MONOTONIC];
	file->private_data = f;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

/* No event will come of the records of @chunk. */
static void twheel_silence_chunk(struct twheel_file *f, struct twheel_chunk *chunk)
{
	u32 i;

	spin_lock(&f->lock);
	for (i = 0; i < TWHEEL_PER_CHUNK; i++) {
		struct twheel_record *r = &chunk->records[i];

		if (r->state == TWHEEL_ARMED && !twheel_cancel(&r->t))
			r->state = TWHEEL_DROPPED;
	}
	spin_unlock(&f->lock);
}

static int twheel_release(struct inode *inode, struct file *file)
{
	struct twheel_file *f = file->private_data;
	u32 i;

	for (i = 0; i < f->nr_chunks; i++) {
		twheel_silence_chunk(f, f->chunks[i]);
		cond_resched();
	}
	if (f->nr_chunks)
		twheel_flush(f->wheel);
	for (i = 0; i < f->nr_chunks; i++) {
		twheel_free_page(f, f->chunks[i]);
		cond_resched();
	}
	twheel_free_words(f);
	if (f->private)
		twheel_free_private(f->user, f->wheel);
	twheel_put_user(f->user);
	kvfree(f->chunks);
	kfree(f);
	return 0;
}

static const struct file_operations twheel_fops = {
	.owner		= THIS_MODULE,
	.open		= twheel_open,
	.release	= twheel_release,
	.read_iter	= twheel_read_iter,
	.poll		= twheel_poll,
	.mmap		= TWHEEL_HAS_TOUCH ? twheel_mmap : NULL,
	.unlocked_ioctl	= twheel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= twheel_show_fdinfo,
};

static struct miscdevice twheel_device = {
	.name	= "twheel",
	.fops	= &twheel_fops,
	.mode	= 0600,
};

static void twheel_destroy_shared(void)
{
	int clock;

	for (clock = 0; clock < TWHEEL_CLOCKS; clock++)
		twheel_destroy(twheel_shared[clock]);
}

static int __init twheel_create_shared(void)
{
	static const char * const name[TWHEEL_CLOCKS] = {
		[TWHEEL_MONOTONIC]	= "dev",
		[TWHEEL_BOOTTIME]	= "dev-boottime",
		[TWHEEL_REALTIME]	= "dev-realtime",
	};
	int clock;

	for (clock = 0; clock < TWHEEL_CLOCKS; clock++) {
		struct twheel_params params = {
			.name	= name[clock],
			.clock	= clock,
			.sink	= twheel_sink,
		};

		twheel_shared[clock] = twheel_create(&params);
		if (IS_ERR(twheel_shared[clock]))
			return PTR_ERR(twheel_shared[clock]);
	}
	return 0;
}

/*
 * There is no second choice if the number is taken: the node that was made at boot would
 * go on to lead to whatever has it.
 */
static int __init twheel_register(void)
{
	int ret;

	twheel_device.minor = minor;
	ret = misc_register(&twheel_device);
	if (ret == -EBUSY)
		pr_err("the minor number %u is taken: give another with minor=\n", minor);
	return ret;
}

/* The device comes last: who had the module loaded by opening it does so again at once. */
static int __init twheel_chardev_init(void)
{
	int ret;

	ret = twheel_create_shared();
	if (!ret)
		ret = twheel_register();
	if (ret)
		twheel_destroy_shared();
	return ret;
}

static void __exit twheel_chardev_exit(void)
{
	misc_deregister(&twheel_device);
	twheel_destroy_shared();
}

module_init(twheel_chardev_init);
module_exit(twheel_chardev_exit);

MODULE_DESCRIPTION("/dev/twheel, timeouts by the million behind one file descriptor");
MODULE_LICENSE("GPL");
MODULE_ALIAS_MISCDEV(TWHEEL_MINOR);
MODULE_ALIAS("devname:twheel");
