/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures and inline functions that the files of twheel_dev.ko share
 */
#ifndef _TWHEEL_DEV_H
#define _TWHEEL_DEV_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/twheel.h>

#include "../twheel.h"
#include "../twheel_compat.h"
#include "../twheel_index.h"

/* The contract needs these accesses to words that users change. A load comes after all before. */
#define twc_load(word)			({ smp_mb(); READ_ONCE(*(word)); })	/* barrier A */
#define twc_store(look, t)		WRITE_ONCE(*(look), t)
#define twc_exchange(word, new)		atomic64_xchg((atomic64_t *)(word), new)
#define twc_replace(word, old, new)	\
	atomic64_try_cmpxchg((atomic64_t *)(word), (s64 *)(old), new)

#include <twheel_contract.h>

static_assert(TWC_MAX_TICK_NS == TWHEEL_MAX_TICK_NS && TWC_MAX_SLOTS == TWHEEL_MAX_SLOTS);

/* CPUs with different numbers modulo this have accounts of their own for a user. */
#define TWDEV_ACCOUNTS		64

/* Events, and entries of a list, that are handled in one hold of a file's lock. */
#define TWDEV_EVENTS_CHUNK	16

/* Waiters that are woken in one hold of the lock of a wait queue. The sink wakes no more. */
#define TWDEV_FEW		16

/* Number of clocks that user space can choose: 0 to TWHEEL_REALTIME of enum twheel_clock. */
#define TWDEV_CLOCKS	(TWHEEL_REALTIME + 1)

/* States from TWDEV_ARMED on are live: the id of the record can be used. */
enum twdev_record_state {
	TWDEV_FREE,
	TWDEV_CANCELLED,
	TWDEV_ARMED,
	TWDEV_READY,
	TWDEV_QUEUED,
	TWDEV_PARKED,
	TWDEV_LATE,
};

/**
 * struct twdev_record - one timeout of a file
 * @t: node in the wheel. Its data is the cookie, its expires the deadline, its tag the slack
 *	in us. READY or LATE: its entry links it into @ready or @late of the file
 * @fired_ns: READY: time when the timeout fired or was stopped
 * @next_free: FREE: the next record on the free list
 * @interval_ns: from one deadline to the next; 0: one-shot. Not valid for cells
 * @ahead_ns: cell, QUEUED, PARKED or LATE: delay of the deadline that a call last published, at
 *	most TWC_MAX_AHEAD; 0 if none since its ARM or last event
 * @word: cell, READY: the word, a deadline, that FIRED replaced
 * @id: index (low 32 bits) and generation; no timeout has generation 0
 * @repeat: with an interval: deadlines not read yet; 0: no end
 * @state: enum twdev_record_state
 * @flags: TWHEEL_F_FIXED_DELAY, TWHEEL_F_CELL
 * @rearm: ARMED: the sink arms the record instead of firing it, because a MOD came while the
 *	record was on its way
 * @unprocessed: READY: the timeout was stopped before it fired
 */
struct twdev_record {
	struct twheel_timeout	t;
	union {
		u64			fired_ns;
		struct twdev_record	*next_free;
	};
	union {
		u64			interval_ns;
		u64			ahead_ns;
		u64			word;
	};
	u64			id;
	u32			repeat;
	u8			state;
	u8			flags;
	bool			rearm;
	bool			unprocessed;
};

static_assert(sizeof(long) < 8 || sizeof(struct twdev_record) == 88);

/**
 * struct twdev_chunk - a page of records; masking a record's address gives its chunk
 * @file: the file that the records belong to
 * @records: the records
 */
struct twdev_chunk {
	struct twdev_file	*file;
	struct twdev_record	records[];
};

#define TWDEV_PER_CHUNK						\
	((u32)((PAGE_SIZE - offsetof(struct twdev_chunk, records)) /	\
	       sizeof(struct twdev_record)))

/* Adding this to an id makes the next id of the same index. */
#define TWDEV_GENERATION	BIT_ULL(32)

#define TWDEV_PER_CELLS	((u32)(PAGE_SIZE / sizeof(struct twheel_cell)))

/*
 * Cells need single 64-bit loads: user space writes the word while the kernel loads it. They also
 * need pages to map, and a data cache that shows both the same word. A build can switch cells off.
 */
#ifndef TWDEV_HAS_CELLS
#define TWDEV_HAS_CELLS		(IS_ENABLED(CONFIG_64BIT) && IS_ENABLED(CONFIG_MMU) && \
				 !cpu_dcache_is_aliasing())
#endif

/* Flags that ARM and MOD take. */
#define TWDEV_ARM_FLAGS		(TWHEEL_F_ABS | TWHEEL_F_FIXED_DELAY | TWHEEL_F_EXACT | \
				 (TWDEV_HAS_CELLS ? TWHEEL_F_CELL : 0))

/* Limits that a user's files share. */
enum twdev_limit {
	TWDEV_USER_TIMEOUTS,
	TWDEV_ALL_TIMEOUTS,
	TWDEV_WHEEL_BYTES,
	TWDEV_LIMITS,
};

/**
 * struct twdev_user - a user with open files
 * @node: link in twdev_users
 * @uid: the real uid that opened the files
 * @files: number of open files; release of the last file frees the user
 * @timeouts: timeouts that fit into the pages of these files
 * @wheel_bytes: what the private wheels of these files count
 * @making: one private wheel at a time
 * @refused: requests refused to the user, by enum twdev_limit
 * @paid_ns: by CPU: time up to which the work of the sink is paid for, see "Accounts"
 * @late_lock: protects @late, and @late_entry of the files
 * @late: files with cells to look at, or with waiters to wake
 * @serving: the file that @work serves, or NULL
 * @work: serves the files of @late
 */
struct twdev_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned int		files;
	atomic_long_t		timeouts;
	atomic_long_t		wheel_bytes;
	struct mutex		making;		/* wheels not counted yet */
	atomic_long_t		refused[TWDEV_LIMITS];
	u64			paid_ns[TWDEV_ACCOUNTS];
	spinlock_t		late_lock;	/* late, serving */
	struct list_head	late;
	struct twdev_file	*serving;
	struct work_struct	work;
};

/* A file goes through these phases in this order. */
enum twdev_phase {
	TWDEV_NEW,
	TWDEV_BEGUN,		/* its settings are constant: SETUP fails */
	TWDEV_STOPPED,		/* by STOP or release: ARM, MOD and KICK fail */
	TWDEV_OVER,		/* STOP has ended: no more events are added */
};

/**
 * struct twdev_file - an open file
 * @lock: protects all members without another rule below
 * @phase: enum twdev_phase. Read without @lock: TWDEV_NEW as a hint, TWDEV_OVER to wait
 * @wheel_bytes: what @wheel counts of its user's limit; 0 if other files use it, too; constant
 *	from TWDEV_BEGUN on
 * @clock: enum twheel_clock; constant from TWDEV_BEGUN on
 * @op_flags: flags that ARM and MOD must have: TWHEEL_F_ABS on CLOCK_REALTIME, otherwise 0;
 *	constant from TWDEV_BEGUN on
 * @nr_ready: length of @ready. Readers and pollers read it without @lock
 * @live: number of records whose id can be used, from ARMED on
 * @nr_cells: number of cells in @live
 * @max: limit of @live; constant from TWDEV_BEGUN on
 * @slack_us: default slack of timeouts; constant from TWDEV_BEGUN on
 * @nr_chunks: entries of @chunks in use. Changes under @lock and @grow
 * @size: capacity of @chunks; under @grow
 * @chunks: the table of chunks. Changes under @lock and @grow
 * @cells: table of pages of cells, by index / TWDEV_PER_CELLS; absent pages are NULL, and so
 *	is the table before the first page. Entries are added under @lock and @grow
 * @free: first record of the free list, or NULL
 * @ready: READY records, in the order in which they fired
 * @late: LATE records, in the order in which they were due
 * @late_entry: link in @late of the user; empty if the file is not there
 * @stop_ns: time of the first STOP
 * @wait: readers and pollers
 * @wheel: the wheel; constant from TWDEV_BEGUN on. It exists at least until release
 * @offset_ns: offset of @clock in the opener's time namespace; constant from TWDEV_BEGUN on
 * @user: the user that opened the file; constant
 * @offsets_ns: offset of each clock in the opener's time namespace; constant
 * @counts: statistics; armed, live and ready are not used
 * @refused: ARMs refused at @max
 * @sinks: number of sinks that wait for @lock, see twdev_lock()
 * @grow: serialises adding pages
 */
struct twdev_file {
	spinlock_t		lock;		/* all of the file */
	u8			phase;
	u8			clock;
	u32			op_flags;
	u32			nr_ready;
	u32			live;
	u32			nr_cells;
	u32			max;
	u32			slack_us;
	u32			nr_chunks;
	u32			size;
	struct twdev_chunk	**chunks;
	struct twheel_cell	**cells;
	struct twdev_record	*free;
	struct list_head	ready;
	struct list_head	late;
	struct list_head	late_entry;
	u64			stop_ns;
	wait_queue_head_t	wait;
	struct twheel		*wheel;
	long			wheel_bytes;
	s64			offset_ns;
	struct twdev_user	*user;
	s64			offsets_ns[TWDEV_CLOCKS];
	struct twheel_stats	counts;
	u64			refused;
	atomic_t		sinks;
	struct mutex		grow;		/* chunks, cells */
};

/* Records. The functions of the hot path are inline: they are as short as a call. */

static inline struct twdev_record *twdev_record_of(struct list_head *entry)
{
	return list_entry(entry, struct twdev_record, t.entry);
}

/* Returns the record of an index, or NULL past the last chunk. */
static inline struct twdev_record *twdev_record_at(struct twdev_file *f, u32 index)
{
	u32 chunk = index / TWDEV_PER_CHUNK;

	lockdep_assert_held(&f->lock);
	if (chunk >= f->nr_chunks)
		return NULL;
	chunk = array_index_nospec(chunk, f->nr_chunks);
	return &f->chunks[chunk]->records[index % TWDEV_PER_CHUNK];
}

/* Can the id of the record be used? */
static inline bool twdev_is_live(const struct twdev_record *r)
{
	return r->state >= TWDEV_ARMED;
}

/* Returns the live record of @id, or NULL. */
static inline struct twdev_record *twdev_find(struct twdev_file *f, u64 id)
{
	struct twdev_record *r = twdev_record_at(f, id);

	return r && r->id == id && twdev_is_live(r) ? r : NULL;
}

/* Is the record in the wheel, or on its way to the sink? */
static inline bool twdev_is_enqueued(const struct twdev_record *r)
{
	return r->state == TWDEV_ARMED || r->state == TWDEV_QUEUED;
}

static inline u64 twdev_slack_ns(const struct twdev_record *r)
{
	return (u64)r->t.tag * NSEC_PER_USEC;
}

/* Free a record that is in no list. After the last generation it is not used again. */
static inline void twdev_recycle(struct twdev_file *f, struct twdev_record *r)
{
	lockdep_assert_held(&f->lock);
	r->state = TWDEV_FREE;
	if (unlikely(check_add_overflow(r->id, TWDEV_GENERATION, &r->id)))
		return;
	r->next_free = f->free;
	f->free = r;
}

static inline void twdev_end_record(struct twdev_file *f, struct twdev_record *r)
{
	f->live--;
	twdev_recycle(f, r);
}

/* Arm a record that is in no list. */
static inline void twdev_arm_record(struct twdev_file *f, struct twdev_record *r, u64 expires_ns)
{
	lockdep_assert_held(&f->lock);
	r->state = TWDEV_ARMED;
	twheel_arm_slack(&r->t, expires_ns, twdev_slack_ns(r));
}

/* The file */

/*
 * Lock the file in a task. Sinks that wait for the lock come first: in a guest without paravirtual
 * locks, virt_spin_lock() of x86 is not fair. A task that takes the lock again and again would keep
 * a sink waiting, and the timeouts of others with it. On PREEMPT_RT locks are fair.
 */
static inline void twdev_lock(struct twdev_file *f)
{
	while (!IS_ENABLED(CONFIG_PREEMPT_RT) && unlikely(atomic_read(&f->sinks)))
		cpu_relax();
	spin_lock_bh(&f->lock);
}

static inline void twdev_unlock(struct twdev_file *f)
{
	spin_unlock_bh(&f->lock);
}

DEFINE_GUARD(twdev_file, struct twdev_file *, twdev_lock(_T), twdev_unlock(_T))
DEFINE_GUARD(twdev_user, struct twdev_user *, spin_lock_bh(&_T->late_lock),
	     spin_unlock_bh(&_T->late_lock))

/* Move the file on to @phase, unless it is there or beyond. */
static inline void twdev_reach(struct twdev_file *f, enum twdev_phase phase)
{
	lockdep_assert_held(&f->lock);
	if (f->phase < phase)
		/* Pairs with the acquire in twdev_is_over(): see "Waiting" of events.c. */
		smp_store_release(&f->phase, phase);
}

/* Has STOP ended and the last event gone? */
static inline bool twdev_is_over(const struct twdev_file *f)
{
	/* Pairs with the release in twdev_reach(). */
	return smp_load_acquire(&f->phase) == TWDEV_OVER && !READ_ONCE(f->nr_ready);
}

/* records.c: below all others */
int twdev_add_user(struct twdev_file *f, kuid_t uid, work_func_t work);
void twdev_remove_user(struct twdev_file *f);
void twdev_user_info(const struct twdev_user *user, struct twheel_info *info);
long twdev_count_wheel(struct twdev_user *user, long bytes);
extern const struct attribute_group *twdev_groups[];
void *twdev_alloc_page(struct twdev_file *f, gfp_t gfp);
void twdev_free_page(struct twdev_file *f, void *page);
int twdev_add_chunk(struct twdev_file *f);
void twdev_init_records(struct twdev_file *f);
void twdev_free_records(struct twdev_file *f);
unsigned int twdev_copy_out(const void *records, size_t size, unsigned int nr,
			    struct iov_iter *to);
void twdev_be_late(struct twdev_file *f);
void twdev_leave_work(struct twdev_file *f);
void twdev_wake(struct twdev_file *f);
void twdev_wake_crowd(struct twdev_file *f);
void twdev_count_unready(struct twdev_file *f, unsigned int nr);
void twdev_unready(struct twdev_file *f, struct twdev_record *r);
void twdev_leave_unprocessed(struct twdev_file *f, struct twdev_record *r, u64 deadline);
void twdev_init_users(void);
void twdev_exit_users(void);

/* cells.c: calls records */
u32 twdev_max_cells(const struct twdev_file *f);
bool twdev_lacks_cell(const struct twdev_file *f, const struct twdev_record *r);
int twdev_add_cells(struct twdev_file *f, unsigned long page);
void twdev_free_cells(struct twdev_file *f, struct twheel_cell **cells, u32 nr);
int twdev_mmap(struct file *file, struct vm_area_struct *vma);
void twdev_arm_cell(struct twdev_file *f, struct twdev_record *r, const struct twheel_op *op,
		    u64 now_ns);
int twdev_mod_cell(struct twdev_file *f, struct twdev_record *r, const struct twheel_op *op,
		   u64 now_ns);
void twdev_kick(struct twdev_file *f, struct twdev_record *r, u64 now_ns);
int twdev_disarm_cell(struct twdev_file *f, struct twdev_record *r);
bool twdev_look(struct twdev_file *f, struct twdev_record *r, u64 *now_ns, bool overdrawn);
bool twdev_read_cell(struct twdev_file *f, struct twdev_record *r);
void twdev_stop_record(struct twdev_file *f, struct twdev_record *r);
u32 twdev_observe(const struct twdev_file *f, const struct twdev_record *r, u64 now_ns,
		  u64 *remaining_ns, u64 *interval_ns);

/* ops.c: calls cells and records */
long twdev_ioctl_op(struct file *file, unsigned int cmd, unsigned long arg);
int twdev_ioctl_submit(struct twdev_file *f, struct twheel_submit __user *usubmit);
int twdev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);
int twdev_ioctl_cancel_all(struct twdev_file *f, struct twheel_cancel_all __user *uall);

/* events.c: calls cells and records */
void twdev_sink(void *data, struct list_head *expired, unsigned int nr, u64 now_ns);
ssize_t twdev_read_iter(struct kiocb *iocb, struct iov_iter *to);
void twdev_work(struct work_struct *work);
__poll_t twdev_poll(struct file *file, poll_table *wait);

/* stop.c: calls cells and records */
bool twdev_stop_chunk(struct twdev_file *f, u32 chunk);
int twdev_ioctl_stop(struct twdev_file *f);

#endif /* _TWHEEL_DEV_H */
