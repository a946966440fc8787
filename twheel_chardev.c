// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: a timing wheel for user space
 *
 * Every open file is a context: a slot map of records, a queue of unread events, and limits.
 * All contexts on a clock share one wheel of the engine, which has a batch sink. A context
 * that asks for another geometry gets a private wheel.
 *
 *
 * Setting up
 *
 * Clock, wheel, limit and slack of a file are constant once it has begun. A file begins with
 * SETUP, its first timeout, a mapping of cells, or STOP. SETUP creates the wheel without a lock of
 * the file, then installs all settings under @grow and @lock, unless the file has begun meanwhile.
 * Operations read the settings under @lock.
 *
 *
 * Records
 *
 * A record is one live timeout. It is the node in the wheel and also the entry on the event queue:
 * a timeout is either pending or has an unread event, never both. So expiry allocates nothing, and
 * no event is lost for lack of memory. An id is the index of the record (low 32 bits) and its
 * generation, which is incremented when the record is freed. A record with no generations left is
 * not used again, so an id never names a second timeout.
 *
 *	FREE		on the free list
 *	ARMED		in the wheel, or in a batch on its way to the sink
 *	READY		on the event queue
 *	CANCELLED	cancelled in a batch on its way to the sink: lookups miss it, and
 *			the sink frees it. Also used while CANCELs are gathered under the lock
 *
 *	FREE -> ARMED		ARM
 *	ARMED -> READY		sink
 *	ARMED -> ARMED		MOD; if the record is on its way to the sink, @rearm
 *				tells the sink to arm it instead of making an event
 *	ARMED -> FREE		CANCEL
 *	ARMED -> CANCELLED	CANCEL of a record on its way to the sink
 *	READY -> ARMED		MOD: the event is withdrawn
 *	READY -> FREE		read of the last event; CANCEL: the event is withdrawn
 *	READY -> ARMED		read of an event of a periodic timeout
 *	CANCELLED -> FREE	sink
 *	ARMED -> READY		STOP, close; sink after it, for a record with @rearm set
 *
 * The wheel has already expired a timeout that is on its way to the sink. CANCEL and MOD
 * therefore return TWHEEL_WITHDRAWN for it, as for an unread event.
 *
 * Cells have three more states, which dev/cells.c describes. CANCEL_ALL and LIST go through the
 * records by index, one portion per hold of the lock. LIST copies each portion to user space
 * without the lock, so it may report a timeout that has ended since.
 *
 *
 * Locking
 *
 *	mmap lock			in faults
 *	  twdev_file.grow		pages are added
 *	    twdev_file.lock		all of the file
 *	      locks of the engine
 *	      twdev_file.wait		waiters
 *	      twdev_user.late_lock	files that need the work of the user
 *	twdev_users_mutex		users with open files
 *	twdev_user.making		a private wheel is allocated and counted
 *
 * twdev_file.lock protects all of a file: states, free list, event queue, tables of chunks
 * and cells, counts. It is a bh lock, since the sink runs in soft interrupts. The sink holds
 * only the engine's lock of turns. It takes the lock once for successive records of one file. No
 * access that may fault is made under grow.
 *
 * A record that is ARMED under the lock is pending in the wheel, or the sink has not taken
 * the lock yet: twheel_cancel() and twheel_mod() tell which. twheel_arm_list() needs
 * timeouts that no other task can reach. The lock guarantees this for records that were not
 * ARMED before.
 *
 *
 * Release
 *
 * After the last reference is gone, only the sink and the work of the user can reach the file. Its
 * timeouts are stopped as by STOP, but nothing reads their events. A flush of the wheel waits until
 * the sink is done with records on their way and with the wait queue. Then the file is taken from
 * the work. Records, cells and, last, a private wheel are freed.
 *
 *
 * Limits
 *
 * The limit of a file counts live timeouts exactly. The limits per user and in total count pages
 * as the timeouts that fit into them. So these limits bound memory, and the counts, which all CPUs
 * share, stay off the hot path. The user is the real uid that opened the file, in any namespace.
 * The memory is charged to the cgroup of the task that allocates it. The defaults are shares of
 * the machine's memory. A part of the total is reserved for CAP_SYS_RESOURCE.
 *
 * A private wheel costs memory on every CPU, which is limited for each user. It also costs a turn,
 * so each counts a share of this limit at least. A short tick causes many wakeups, and with one
 * level a slot of later rounds is visited once in each round. So without CAP_SYS_RESOURCE the tick
 * has a minimum, and one level is refused.
 *
 * Users share a wheel, not their costs: see "Accounts" of dev/events.c. Not prevented: many
 * timeouts in one tick delay those after them, on the same CPU and wheel. The limits of several
 * uids add up. SECURITY.md has figures.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "dev/dev.h"

/* Shortest tick of a private wheel without CAP_SYS_RESOURCE, see "Limits". */
#define TWDEV_USER_TICK_NS	(100 * NSEC_PER_USEC)

static unsigned int max_timeouts = 1U << 20;

static int twdev_set_file_limit(const char *val, const struct kernel_param *kp)
{
	unsigned int limit;
	int ret = kstrtouint(val, 0, &limit);

	if (ret)
		return ret;
	if (!limit || limit > TWC_MAX_TIMEOUTS)
		return -EINVAL;
	WRITE_ONCE(max_timeouts, limit);
	return 0;
}

static const struct kernel_param_ops twdev_file_limit_ops = {
	.set	= twdev_set_file_limit,
	.get	= param_get_uint,
};

module_param_cb(max_timeouts, &twdev_file_limit_ops, &max_timeouts, 0644);
MODULE_PARM_DESC(max_timeouts,
		 "most live timeouts of a file opened from now on, 1 to 268435456 (1048576)");

static const u32 twdev_clockid[TWDEV_CLOCKS] = {
	[TWHEEL_MONOTONIC]	= CLOCK_MONOTONIC,
	[TWHEEL_BOOTTIME]	= CLOCK_BOOTTIME,
	[TWHEEL_REALTIME]	= CLOCK_REALTIME,
};

static struct twheel *twdev_shared[TWDEV_CLOCKS];	/* from load to unload */

static_assert(sizeof(struct twheel_op) == 56);
static_assert(sizeof(struct twheel_cell) == 16);
static_assert(sizeof(struct twheel_event) == 48);
static_assert(sizeof(struct twheel_submit) == 24);
static_assert(sizeof(struct twheel_info) == 192);
static_assert(sizeof(struct twheel_setup) == 56);
static_assert(sizeof(struct twheel_cancel_all) == 40);
static_assert(sizeof(struct twheel_list) == 48);
static_assert(sizeof(struct twheel_list_entry) == 48);
static_assert(sizeof(struct twheel_stats) == 464);
static_assert(sizeof(struct twheel_uring_submit) == 16);
static_assert(offsetof(struct twheel_op, result) == 48);

/* The file as a whole */

static void twdev_get_info(struct twdev_file *f, struct twheel_info *info)
{
	struct twheel_params params;
	struct twheel *wheel;

	memset(info, 0, sizeof(*info));
	info->opcodes = twc_opcodes(TWDEV_ARM_FLAGS);
	info->op_flags = TWDEV_ARM_FLAGS;
	info->setup_flags = TWHEEL_SETUP_CLOCK;
	twdev_lock(f);
	wheel = f->wheel;
	info->clock = twdev_clockid[f->clock];
	info->max_timeouts = f->max;
	info->slack_us = f->slack_us;
	info->live = f->live;
	info->ready = f->nr_ready;
	info->cells = twdev_max_cells(f);
	info->refused = f->refused;
	info->flags = (f->wheel_bytes ? TWHEEL_INFO_PRIVATE : 0) |
		     (f->phase >= TWDEV_STOPPED ? TWHEEL_INFO_STOPPED : 0) |
		     (TWHEEL_HAS_URING ? TWHEEL_INFO_URING : 0);
	twdev_unlock(f);
	/* The wheel exists at least until the file is released, even if SETUP replaces f->wheel. */
	twheel_get_params(wheel, &params);
	info->tick_ns = params.tick_ns;
	info->slots = params.slots;
	info->levels = params.levels;
	twdev_user_info(f->user, info);
}

static int twdev_ioctl_info(struct twdev_file *f, struct twheel_info __user *uinfo)
{
	struct twheel_info info;

	twdev_get_info(f, &info);
	return copy_to_user(uinfo, &info, sizeof(info)) ? -EFAULT : 0;
}

/* Returns the enum twheel_clock that a valid @setup asks for. */
static enum twheel_clock twdev_find_clock(const struct twheel_setup *setup)
{
	enum twheel_clock clock = TWHEEL_MONOTONIC;

	while (twdev_clockid[clock] != (u32)twc_setup_clock(setup))
		clock++;
	return clock;
}

static void twdev_free_private(struct twdev_user *user, struct twheel *wheel, long bytes)
{
	twheel_destroy(wheel);
	atomic_long_sub(bytes, &user->wheel_bytes);
}

/* A private wheel, which counts @bytes. capable() leaves an audit record: call it if it matters. */
static struct twheel *twdev_make_private(struct twdev_user *user, const struct twheel_params *p,
					 long *bytes)
{
	struct twheel_counters shared;
	struct twheel_params params;
	struct twheel *wheel;

	if ((p->tick_ns < TWDEV_USER_TICK_NS || p->levels == 1) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-EPERM);
	/* A wheel that cannot visit a slot in each round never catches up. */
	if (p->levels == 1 && p->tick_ns * p->slots < NSEC_PER_MSEC)
		return ERR_PTR(-EINVAL);
	/* One of a user is not counted at a time: its size is known when it has been allocated. */
	if (mutex_lock_killable(&user->making))
		return ERR_PTR(-EINTR);
	/* But if the list heads of its slots are too much, nothing is allocated. */
	twheel_get_counters(twdev_shared[p->clock], &shared);
	*bytes = twdev_count_wheel(user, sizeof(struct list_head) * p->slots * shared.shards);
	atomic_long_sub(*bytes, &user->wheel_bytes);
	wheel = *bytes ? twheel_create(p) : ERR_PTR(-EAGAIN);
	if (!IS_ERR(wheel)) {
		twheel_get_params(wheel, &params);
		*bytes = twdev_count_wheel(user, params.memory);
		if (!*bytes) {
			twheel_destroy(wheel);
			wheel = ERR_PTR(-EAGAIN);
		}
	}
	mutex_unlock(&user->making);
	return wheel;
}

/* The wheel that @setup asks for. Sets @is_default if the shared wheel is the same. */
static struct twheel_params twdev_setup_params(const struct twheel_setup *setup,
					       enum twheel_clock clock, bool *is_default)
{
	struct twheel_params shared, p;

	twheel_get_params(twdev_shared[clock], &shared);
	p = shared;
	p.name = "dev-private";
	p.account = true;
	p.tick_ns = setup->tick_ns ?: p.tick_ns;
	p.slots = setup->slots ? roundup_pow_of_two(setup->slots) : p.slots;
	p.levels = setup->levels ?: p.levels;
	*is_default = p.tick_ns == shared.tick_ns && p.slots == shared.slots &&
		      (p.levels == 1) == (shared.levels == 1);
	return p;
}

/* Settings that SETUP installs in a file. */
struct twdev_plan {
	struct twheel		*wheel;
	long			wheel_bytes;
	enum twheel_clock	clock;
	u32			max;
	u32			slack_us;
};

/* Install @plan, see "Setting up". Fails if the file has begun. The caller holds f->grow. */
static int twdev_set_up(struct twdev_file *f, const struct twdev_plan *plan)
{
	struct twheel_cell **cells;
	u32 nr;

	scoped_guard(twdev_file, f) {
		if (f->phase != TWDEV_NEW)
			return -EBUSY;
		cells = f->cells;
		nr = twdev_max_cells(f);
		f->cells = NULL;
		f->wheel = plan->wheel;
		f->wheel_bytes = plan->wheel_bytes;
		f->clock = plan->clock;
		f->op_flags = plan->clock == TWHEEL_REALTIME ? TWHEEL_F_ABS : 0;
		f->offset_ns = f->offsets_ns[plan->clock];
		f->max = plan->max;
		f->slack_us = plan->slack_us;
		twdev_init_records(f);
		twdev_reach(f, TWDEV_BEGUN);
	}
	twdev_free_cells(f, cells, nr);
	return 0;
}

static int twdev_ioctl_setup(struct twdev_file *f, struct twheel_setup __user *usetup)
{
	struct twheel_setup setup;
	struct twheel_params params;
	struct twdev_plan plan;
	bool is_default;
	int ret;

	if (copy_from_user(&setup, usetup, sizeof(setup)))
		return -EFAULT;
	if (twc_check_setup(&setup, TWHEEL_SETUP_CLOCK))
		return -EINVAL;
	if (READ_ONCE(f->phase) != TWDEV_NEW)
		return -EBUSY;
	if (setup.max_timeouts > READ_ONCE(max_timeouts) && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	plan.max = setup.max_timeouts ?: READ_ONCE(f->max);
	plan.slack_us = setup.slack_us;
	plan.clock = twdev_find_clock(&setup);
	params = twdev_setup_params(&setup, plan.clock, &is_default);
	plan.wheel_bytes = 0;
	plan.wheel = is_default ? twdev_shared[plan.clock] :
				  twdev_make_private(f->user, &params, &plan.wheel_bytes);
	if (IS_ERR(plan.wheel))
		return PTR_ERR(plan.wheel);
	ret = mutex_lock_killable(&f->grow);
	if (!ret) {
		ret = twdev_set_up(f, &plan);
		mutex_unlock(&f->grow);
	}
	if (ret && plan.wheel_bytes)
		twdev_free_private(f->user, plan.wheel, plan.wheel_bytes);
	return ret;
}

/* Listing */

static void twdev_describe(const struct twdev_file *f, const struct twdev_record *r,
			   u64 now_ns, struct twheel_list_entry *entry)
{
	*entry = (struct twheel_list_entry){
		.id		= r->id,
		.cookie		= r->t.data,
		.repeat		= r->repeat,
		.slack_us	= r->t.tag,
		.flags		= r->flags,
	};
	entry->state = twdev_observe(f, r, now_ns, &entry->remaining_ns, &entry->interval_ns);
}

/*
 * List up to @max timeouts from index @next on, and advance @next. Examines at most one
 * chunk's worth of records. Returns the number listed. @next does not change if there are no more.
 */
static u32 twdev_list_some(struct twdev_file *f, struct twheel_list_entry *entries, u32 max,
			   u32 *next)
{
	struct twdev_record *r;
	u32 nr = 0, i;
	u64 now_ns;

	guard(twdev_file)(f);
	now_ns = twheel_now(f->wheel);
	for (i = 0; i < TWDEV_PER_CHUNK && nr < max; i++) {
		r = twdev_record_at(f, *next);
		if (!r)
			break;
		if (twdev_is_live(r))
			twdev_describe(f, r, now_ns, &entries[nr++]);
		++*next;
	}
	return nr;
}

/* Sets @done and @next of @list. */
static int twdev_list_entries(struct twdev_file *f, struct twheel_list *list)
{
	struct twheel_list_entry __user *uentries = u64_to_user_ptr(list->entries);
	struct twheel_list_entry entries[TWDEV_EVENTS_CHUNK];
	struct iov_iter to;
	u32 nr, copied, from;

	list->done = 0;
	do {
		if (fatal_signal_pending(current))
			return -EINTR;
		from = list->next;
		nr = twdev_list_some(f, entries, min_t(u32, list->nr - list->done,
						       TWDEV_EVENTS_CHUNK),
				      &list->next);
		iov_iter_ubuf(&to, ITER_DEST, uentries + list->done, nr * sizeof(*entries));
		copied = twdev_copy_out(entries, sizeof(*entries), nr, &to);
		list->done += copied;
		if (copied < nr) {
			/* An index is the low half of an id. */
			list->next = (u32)entries[copied].id;
			return list->done ? 0 : -EFAULT;
		}
		cond_resched();
	} while (list->next != from && list->done < list->nr);
	return 0;
}

static int twdev_ioctl_list(struct twdev_file *f, struct twheel_list __user *ulist)
{
	struct twheel_list list;
	int ret;

	if (copy_from_user(&list, ulist, sizeof(list)))
		return -EFAULT;
	if (twc_check_list(&list))
		return -EINVAL;
	ret = twdev_list_entries(f, &list);
	return copy_to_user(ulist, &list, sizeof(list)) ? -EFAULT : ret;
}

static int twdev_ioctl_stats(struct twdev_file *f, struct twheel_stats __user *ustats)
{
	struct twheel_stats stats;

	scoped_guard(twdev_file, f) {
		stats = f->counts;
		stats.live = f->live;
		stats.ready = f->nr_ready;
	}
	stats.armed = twc_armed(&stats);
	return copy_to_user(ustats, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static void twdev_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct twdev_file *f = file->private_data;
	struct twheel_info info;

	twdev_get_info(f, &info);
	seq_printf(m, "uid:\t%u\n", from_kuid_munged(seq_user_ns(m), f->user->uid));
	seq_printf(m, "clockid:\t%u\n", info.clock);
	seq_printf(m, "tick_ns:\t%llu\n", info.tick_ns);
	seq_printf(m, "slots:\t%u\n", info.slots);
	seq_printf(m, "levels:\t%u\n", info.levels);
	seq_printf(m, "max_timeouts:\t%u\n", info.max_timeouts);
	seq_printf(m, "slack_us:\t%u\n", info.slack_us);
	seq_printf(m, "live:\t%u\n", info.live);
	seq_printf(m, "ready:\t%u\n", info.ready);
	seq_printf(m, "live_cells:\t%u\n", READ_ONCE(f->nr_cells));
}

static noinline long twdev_ioctl_other(struct file *file, unsigned int cmd, void __user *argp)
{
	struct twdev_file *f = file->private_data;
	bool changes = file->f_mode & FMODE_WRITE;

	switch (cmd) {
	case TWHEEL_IOC_INFO:
		return twdev_ioctl_info(f, argp);
	case TWHEEL_IOC_SETUP:
		return changes ? twdev_ioctl_setup(f, argp) : -EBADF;
	case TWHEEL_IOC_SUBMIT:
		return changes ? twdev_ioctl_submit(f, argp) : -EBADF;
	case TWHEEL_IOC_CANCEL_ALL:
		return changes ? twdev_ioctl_cancel_all(f, argp) : -EBADF;
	case TWHEEL_IOC_STOP:
		return changes ? twdev_ioctl_stop(f) : -EBADF;
	case TWHEEL_IOC_LIST:
		return twdev_ioctl_list(f, argp);
	case TWHEEL_IOC_STATS:
		return twdev_ioctl_stats(f, argp);
	default:
		return -ENOTTY;
	}
}

/* OP is the hot command, so it is tested first, and needs no stack of the others. */
static long twdev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	if (likely(cmd == TWHEEL_IOC_OP))
		return twdev_ioctl_op(file, cmd, arg);
	return twdev_ioctl_other(file, cmd, (void __user *)arg);
}

/* Files */

/* Before Linux 5.15, timespec64_to_ns() takes a negative time for an overflow. */
static void twdev_note_namespace(struct twdev_file *f)
{
	struct timespec64 monotonic = { }, boottime = { };

	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	f->offsets_ns[TWHEEL_MONOTONIC] = timespec64_to_ktime(monotonic);
	f->offsets_ns[TWHEEL_BOOTTIME] = timespec64_to_ktime(boottime);
}

static int twdev_open(struct inode *inode, struct file *file)
{
	struct twdev_file *f;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	spin_lock_init(&f->lock);
	mutex_init(&f->grow);
	init_waitqueue_head(&f->wait);
	INIT_LIST_HEAD(&f->ready);
	INIT_LIST_HEAD(&f->late);
	INIT_LIST_HEAD(&f->late_entry);
	f->wheel = twdev_shared[TWHEEL_MONOTONIC];
	f->max = READ_ONCE(max_timeouts);
	twdev_note_namespace(f);
	f->offset_ns = f->offsets_ns[TWHEEL_MONOTONIC];
	if (twdev_add_user(f, current_uid(), twdev_work)) {
		kfree(f);
		return -ENOMEM;
	}
	file->private_data = f;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int twdev_release(struct inode *inode, struct file *file)
{
	struct twdev_file *f = file->private_data;
	u32 i;

	/* From now on neither the sink nor the work enqueues a record. */
	scoped_guard(twdev_file, f)
		twdev_reach(f, TWDEV_STOPPED);
	for (i = 0; twdev_stop_chunk(f, i); i++)
		cond_resched();
	if (f->nr_chunks)
		twheel_flush(f->wheel);
	twdev_leave_work(f);
	twdev_free_records(f);
	twdev_free_cells(f, f->cells, twdev_max_cells(f));
	if (f->wheel_bytes)
		twdev_free_private(f->user, f->wheel, f->wheel_bytes);
	twdev_remove_user(f);
	kfree(f);
	return 0;
}

static const struct file_operations twdev_fops = {
	.owner		= THIS_MODULE,
	.open		= twdev_open,
	.release	= twdev_release,
	.read_iter	= twdev_read_iter,
	.poll		= twdev_poll,
	.mmap		= twdev_mmap,
	.unlocked_ioctl	= twdev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
#ifdef TWHEEL_HAS_uring_cmd
	.uring_cmd	= twdev_uring_cmd,
#endif
	.show_fdinfo	= twdev_show_fdinfo,
};

static struct miscdevice twdev_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "twheel",
	.fops	= &twdev_fops,
	.mode	= 0600,
	.groups	= twdev_groups,
};

static void twdev_destroy_shared(void)
{
	int clock;

	for (clock = 0; clock < TWDEV_CLOCKS; clock++)
		twheel_destroy(twdev_shared[clock]);
}

static int __init twdev_create_shared(void)
{
	static const char * const name[TWDEV_CLOCKS] = {
		[TWHEEL_MONOTONIC]	= "dev",
		[TWHEEL_BOOTTIME]	= "dev-boottime",
		[TWHEEL_REALTIME]	= "dev-realtime",
	};
	int clock;

	for (clock = 0; clock < TWDEV_CLOCKS; clock++) {
		struct twheel_params params = {
			.name	= name[clock],
			.clock	= clock,
			.sink	= twdev_sink,
			/* Not NULL: the sink gets the time on CLOCK_MONOTONIC. */
			.sink_data = clock == TWHEEL_MONOTONIC ? twdev_sink : NULL,
		};

		twdev_shared[clock] = twheel_create(&params);
		if (IS_ERR(twdev_shared[clock]))
			return PTR_ERR(twdev_shared[clock]);
	}
	return 0;
}

/* Register the device last: it may be opened at once. */
static int __init twheel_chardev_init(void)
{
	int ret;

	twdev_init_users();
	ret = twdev_create_shared();
	if (!ret)
		ret = misc_register(&twdev_device);
	if (ret) {
		twdev_destroy_shared();
		twdev_exit_users();
	}
	return ret;
}

static void __exit twheel_chardev_exit(void)
{
	misc_deregister(&twdev_device);
	twdev_destroy_shared();
	twdev_exit_users();
}

/*
 * Built in, as late as possible, because its wheels are made now: without high resolution, which a
 * kernel that still verifies its clocksource does not have, their thread alone fires.
 */
late_initcall(twheel_chardev_init);
module_exit(twheel_chardev_exit);

MODULE_DESCRIPTION("/dev/twheel, timeouts by the million behind one file descriptor");
MODULE_LICENSE("GPL");
MODULE_VERSION(TWHEEL_MODULE_VERSION);
