// SPDX-License-Identifier: GPL-2.0
/*
 * Users, limits, pages and records of /dev/twheel
 *
 * Records lie in chunks of one page each. A table of chunks maps the index in an id to the record
 * in O(1). A file gets a chunk when an ARM finds no free record, and keeps it until release. A
 * chunk counts against the limits per user and in total as the timeouts that fit into it.
 *
 * So the number of records of a file is at most its limit, and those that are neither live nor
 * free: cancelled on their way to the sink, at most a batch for each CPU. To them come the rest
 * of a chunk, and records with no generations left, each of which was used 2^32 times.
 */
#include <linux/capability.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/wait_bit.h>

#include "dev.h"

/* Maximum of both limits, per user and in total. */
#define TWDEV_MAX_TOTAL		BIT(30)

/* Default limits: DEFAULT timeouts, but at most 1/SHARE of the memory. */
#define TWDEV_USER_DEFAULT	BIT(22)
#define TWDEV_USER_SHARE	10
#define TWDEV_ALL_DEFAULT	BIT(24)
#define TWDEV_ALL_SHARE		5

/* A private wheel counts at least 1/WHEELS of the limit: that bounds their number, too. */
#define TWDEV_USER_WHEELS	64

/* 1/RESERVE of the total limit is reserved for CAP_SYS_RESOURCE. */
#define TWDEV_RESERVE		16

static unsigned int max_user_timeouts;
static unsigned int max_all_timeouts;
static unsigned long max_wheel_bytes;

static unsigned int twdev_default_limit(const unsigned int *param)
{
	bool user = param == &max_user_timeouts;
	u64 pages = totalram_pages() / (user ? TWDEV_USER_SHARE : TWDEV_ALL_SHARE);

	return min_t(u64, pages * TWDEV_PER_CHUNK, user ? TWDEV_USER_DEFAULT : TWDEV_ALL_DEFAULT);
}

static int twdev_set_total_limit(const char *val, const struct kernel_param *kp)
{
	unsigned int limit, *param = kp->arg;
	int ret = kstrtouint(val, 0, &limit);

	if (ret)
		return ret;
	if (limit > TWDEV_MAX_TOTAL)
		return -EINVAL;
	WRITE_ONCE(*param, limit ?: twdev_default_limit(param));
	return 0;
}

static const struct kernel_param_ops twdev_total_limit_ops = {
	.set	= twdev_set_total_limit,
	.get	= param_get_uint,
};

module_param_cb(max_user_timeouts, &twdev_total_limit_ops, &max_user_timeouts, 0644);
MODULE_PARM_DESC(max_user_timeouts,
		 "most timeouts of a user, by the page, up to 1073741824 (0: 4194304, or less with little memory)");
module_param_cb(max_all_timeouts, &twdev_total_limit_ops, &max_all_timeouts, 0644);
MODULE_PARM_DESC(max_all_timeouts,
		 "most timeouts in all, by the page, up to 1073741824 (0: 16777216, or less with little memory)");

static int twdev_set_wheel_limit(const char *val, const struct kernel_param *kp)
{
	unsigned long limit;
	int ret = kstrtoul(val, 0, &limit);

	if (ret)
		return ret;
	/* On the kernel's command line, 0 comes before the memory: twdev_init_users() sets it. */
	if (!limit && totalram_pages())
		limit = max(totalram_pages() / 100 << PAGE_SHIFT, SZ_4M);
	/* twdev_count_up() counts in long. */
	WRITE_ONCE(max_wheel_bytes, min_t(unsigned long, limit, LONG_MAX));
	return 0;
}

static const struct kernel_param_ops twdev_wheel_limit_ops = {
	.set	= twdev_set_wheel_limit,
	.get	= param_get_ulong,
};

module_param_cb(max_wheel_bytes, &twdev_wheel_limit_ops, &max_wheel_bytes, 0644);
MODULE_PARM_DESC(max_wheel_bytes,
		 "most bytes, on all CPUs, of the private wheels of a user without CAP_SYS_RESOURCE, each a 64th or more (0: a hundredth of the memory, at least 4194304)");

static DEFINE_HASHTABLE(twdev_users, 6);	/* under twdev_users_mutex */
static DEFINE_MUTEX(twdev_users_mutex);
static atomic_long_t twdev_timeouts;		/* twdev_user.timeouts of all */
static struct dentry *twdev_debugfs;

/* Users */

static struct twdev_user *twdev_find_user(kuid_t uid)
{
	struct twdev_user *user;

	lockdep_assert_held(&twdev_users_mutex);
	hash_for_each_possible(twdev_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

/* Allocates without the mutex: a user whose cgroup is full must not delay the opens of others. */
int twdev_add_user(struct twdev_file *f, kuid_t uid, work_func_t work)
{
	struct twdev_user *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return -ENOMEM;
	new->uid = uid;
	mutex_init(&new->making);
	spin_lock_init(&new->late_lock);
	INIT_LIST_HEAD(&new->late);
	INIT_WORK(&new->work, work);
	scoped_guard(mutex, &twdev_users_mutex) {
		f->user = twdev_find_user(uid);
		if (!f->user) {
			f->user = new;
			new = NULL;
			hash_add(twdev_users, &f->user->node, __kuid_val(uid));
		}
		f->user->files++;
	}
	kfree(new);
	return 0;
}

/* How long until no account of the user is overdrawn. */
static u64 twdev_debt_ns(const struct twdev_user *user)
{
	u64 now_ns = ktime_get_ns(), paid_ns = now_ns;
	unsigned int i;

	for (i = 0; i < TWDEV_ACCOUNTS; i++)
		paid_ns = max(paid_ns, READ_ONCE(user->paid_ns[i]));
	return paid_ns - now_ns;
}

/*
 * Remove a file that has given back its pages and wheel. Frees the user with the last file, but not
 * in debt: a new one would have none. The most that can be is 16 ms.
 */
void twdev_remove_user(struct twdev_file *f)
{
	u64 debt_ns = 0;

	do {
		scoped_guard(mutex, &twdev_users_mutex) {
			if (f->user->files > 1) {
				f->user->files--;
				return;
			}
			debt_ns = twdev_debt_ns(f->user);
			if (!debt_ns)
				hash_del(&f->user->node);
		}
		fsleep(div_u64(debt_ns, NSEC_PER_USEC));
	} while (debt_ns);
	/* Without files the work has nothing left to do, but may not have returned yet. */
	cancel_work_sync(&f->user->work);
	kfree(f->user);
}

/* Pages */

static bool twdev_count_up(atomic_long_t *count, long nr, long limit)
{
	long old = atomic_long_read(count);

	do {
		if (nr > limit - old)
			return false;
	} while (!atomic_long_try_cmpxchg(count, &old, old + nr));
	return true;
}

/* Count a page against the total limit. */
static bool twdev_count_total(void)
{
	long max = READ_ONCE(max_all_timeouts);

	if (twdev_count_up(&twdev_timeouts, TWDEV_PER_CHUNK, max - max / TWDEV_RESERVE))
		return true;
	/* capable() leaves an audit record, so call it only if it matters. */
	if (atomic_long_read(&twdev_timeouts) + TWDEV_PER_CHUNK > max)
		return false;
	return capable(CAP_SYS_RESOURCE) &&
	       twdev_count_up(&twdev_timeouts, TWDEV_PER_CHUNK, max);
}

static bool twdev_count_page(struct twdev_user *user)
{
	if (!twdev_count_up(&user->timeouts, TWDEV_PER_CHUNK, READ_ONCE(max_user_timeouts))) {
		atomic_long_inc(&user->refused[TWDEV_USER_TIMEOUTS]);
		return false;
	}
	if (twdev_count_total())
		return true;
	atomic_long_inc(&user->refused[TWDEV_ALL_TIMEOUTS]);
	atomic_long_sub(TWDEV_PER_CHUNK, &user->timeouts);
	return false;
}

static void twdev_uncount_page(struct twdev_user *user)
{
	atomic_long_sub(TWDEV_PER_CHUNK, &user->timeouts);
	atomic_long_sub(TWDEV_PER_CHUNK, &twdev_timeouts);
}

/* Allocate a page for the file. Returns its address, ERR_PTR(-EAGAIN) at a limit, or -ENOMEM. */
void *twdev_alloc_page(struct twdev_file *f, gfp_t gfp)
{
	void *page;

	if (!twdev_count_page(f->user))
		return ERR_PTR(-EAGAIN);
	page = (void *)__get_free_page(gfp);
	if (page)
		return page;
	twdev_uncount_page(f->user);
	return ERR_PTR(-ENOMEM);
}

void twdev_free_page(struct twdev_file *f, void *page)
{
	free_page((unsigned long)page);
	twdev_uncount_page(f->user);
}

/*
 * Count a private wheel of @bytes, on all CPUs. Returns what it counts, or 0 if it is refused.
 * capable() leaves an audit record, so it is called only if it matters.
 */
long twdev_count_wheel(struct twdev_user *user, long bytes)
{
	long limit = READ_ONCE(max_wheel_bytes), counted = max(bytes, limit / TWDEV_USER_WHEELS);

	if (twdev_count_up(&user->wheel_bytes, counted, limit))
		return counted;
	if (capable(CAP_SYS_RESOURCE)) {
		atomic_long_add(bytes, &user->wheel_bytes);
		return bytes;
	}
	atomic_long_inc(&user->refused[TWDEV_WHEEL_BYTES]);
	return 0;
}

/* Reports of use and refusals */

void twdev_user_info(const struct twdev_user *user, struct twheel_info *info)
{
	info->user_timeouts = atomic_long_read(&user->timeouts);
	info->max_user_timeouts = READ_ONCE(max_user_timeouts);
	info->wheel_bytes = atomic_long_read(&user->wheel_bytes);
	info->max_wheel_bytes = READ_ONCE(max_wheel_bytes);
	info->user_refused = (unsigned long)atomic_long_read(&user->refused[TWDEV_USER_TIMEOUTS]);
	info->all_refused = (unsigned long)atomic_long_read(&user->refused[TWDEV_ALL_TIMEOUTS]);
	info->wheel_refused = (unsigned long)atomic_long_read(&user->refused[TWDEV_WHEEL_BYTES]);
}

static ssize_t version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", TWHEEL_MODULE_VERSION);
}
static DEVICE_ATTR(version, 0440, version_show, NULL);

static ssize_t timeouts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%ld\n", atomic_long_read(&twdev_timeouts));
}
static DEVICE_ATTR(timeouts, 0440, timeouts_show, NULL);

static struct attribute *twdev_attrs[] = {
	&dev_attr_version.attr,
	&dev_attr_timeouts.attr,
	NULL,
};

static const struct attribute_group twdev_group = {
	.attrs	= twdev_attrs,
};

const struct attribute_group *twdev_groups[] = { &twdev_group, NULL };

/* A line for each user: uid, files, timeouts, bytes of wheels, refused. */
static int twdev_users_show(struct seq_file *m, void *unused)
{
	struct twheel_info info;
	struct twdev_user *user;
	int bucket;

	guard(mutex)(&twdev_users_mutex);
	hash_for_each(twdev_users, bucket, user, node) {
		twdev_user_info(user, &info);
		seq_printf(m, "%u %u %u %llu %llu %llu %llu\n",
			   from_kuid_munged(seq_user_ns(m), user->uid), user->files,
			   info.user_timeouts, info.wheel_bytes, info.user_refused,
			   info.all_refused, info.wheel_refused);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(twdev_users);

/* Chunks */

/* Allocate chunk @nr. A zeroed record is FREE, and the ARM that takes it sets the rest. */
static struct twdev_chunk *twdev_alloc_chunk(struct twdev_file *f, u32 nr)
{
	u64 id = nr * TWDEV_PER_CHUNK + TWDEV_GENERATION;
	struct twheel_timeout model;
	struct twdev_chunk *chunk;
	struct twdev_record *r;

	BUILD_BUG_ON(TWDEV_FREE);
	chunk = twdev_alloc_page(f, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (IS_ERR(chunk))
		return chunk;
	chunk->file = f;
	twheel_timeout_init(f->wheel, &model, NULL);
	for (r = chunk->records; r < chunk->records + TWDEV_PER_CHUNK; r++) {
		twheel_timeout_copy(&r->t, &model);
		r->id = id++;
		r->next_free = r + 1;
	}
	return chunk;
}

/* Make room for another chunk in the table. */
static int twdev_grow_table(struct twdev_file *f)
{
	u32 size = f->size ? f->size * 2 : 8;
	struct twdev_chunk **table, **old = f->chunks;

	lockdep_assert_held(&f->grow);
	if (f->nr_chunks < f->size)
		return 0;
	table = kvmalloc_array(size, sizeof(*table), GFP_KERNEL_ACCOUNT);
	if (!table)
		return -ENOMEM;
	if (old)
		memcpy(table, old, f->nr_chunks * sizeof(*table));
	scoped_guard(twdev_file, f)
		f->chunks = table;
	f->size = size;
	kvfree(old);
	return 0;
}

/* Add free records, unless there are any: another task may have added them. */
int twdev_add_chunk(struct twdev_file *f)
{
	struct twdev_chunk *chunk;
	int ret;

	lockdep_assert_held(&f->grow);
	if (READ_ONCE(f->free))
		return 0;
	ret = twdev_grow_table(f);
	if (ret)
		return ret;
	chunk = twdev_alloc_chunk(f, f->nr_chunks);
	if (IS_ERR(chunk))
		return PTR_ERR(chunk);

	guard(twdev_file)(f);
	f->chunks[f->nr_chunks++] = chunk;
	chunk->records[TWDEV_PER_CHUNK - 1].next_free = f->free;
	f->free = chunk->records;
	return 0;
}

/*
 * SETUP has replaced the wheel: initialise the records for it. The file has not begun, so all
 * records are FREE. They exist if an ARM failed after it had added a chunk.
 */
void twdev_init_records(struct twdev_file *f)
{
	struct twheel_timeout model;
	struct twdev_record *r;

	lockdep_assert_held(&f->lock);
	twheel_timeout_init(f->wheel, &model, NULL);
	for (r = f->free; r; r = r->next_free)
		twheel_timeout_copy(&r->t, &model);
}

/* Free all chunks and the table at release. */
void twdev_free_records(struct twdev_file *f)
{
	u32 i;

	for (i = 0; i < f->nr_chunks; i++) {
		twdev_free_page(f, f->chunks[i]);
		cond_resched();
	}
	kvfree(f->chunks);
}

/* Events */

/*
 * Copy @nr records of @size bytes to user space. Returns how many whole ones were written. A copy
 * that faults may report fewer bytes than it has written: arm64 counts blocks. So what is missing
 * is copied one by one: a record that can be written does not fault.
 */
unsigned int twdev_copy_out(const void *records, size_t size, unsigned int nr, struct iov_iter *to)
{
	size_t copied = copy_to_iter(records, nr * size, to);
	unsigned int done;

	if (likely(copied == nr * size))
		return nr;
	iov_iter_revert(to, copied % size);
	for (done = copied / size; done < nr; done++) {
		copied = copy_to_iter(records + done * size, size, to);
		if (copied == size)
			continue;
		iov_iter_revert(to, copied);
		break;
	}
	return done;
}

/* Leave the late cells and the waiters of a file to the work of its user. */
void twdev_be_late(struct twdev_file *f)
{
	scoped_guard(twdev_user, f->user)
		if (list_empty(&f->late_entry))
			list_add_tail(&f->late_entry, &f->user->late);
	queue_work(system_dfl_wq, &f->user->work);
}

static bool twdev_unlist(struct twdev_file *f)
{
	guard(twdev_user)(f->user);
	list_del_init(&f->late_entry);
	return f->user->serving != f;
}

/* A file that will not be late again waits until the work is done with it. */
void twdev_leave_work(struct twdev_file *f)
{
	wait_var_event(&f->user->serving, twdev_unlist(f));
}

static int twdev_wake_nobody(struct wait_queue_entry *entry, unsigned int mode, int flags,
			     void *key)
{
	return 0;
}

/*
 * Wake pollers and one reader, or all waiters at the end, as __wake_up() does, which disables
 * interrupts for all of them since Linux 6.7. @place stands for where it is in the queue.
 */
void twdev_wake_crowd(struct twdev_file *f)
{
	struct wait_queue_entry place = { .func = twdev_wake_nobody }, *entry;
	bool all = twdev_is_over(f);
	void *key = poll_to_key(all ? EPOLLHUP : EPOLLIN | EPOLLRDNORM);
	unsigned int nr = 0, flags;
	int ret;

	spin_lock_irq(&f->wait.lock);
	list_add(&place.entry, &f->wait.head);
	while (!list_is_last(&place.entry, &f->wait.head)) {
		entry = list_next_entry(&place, entry);
		list_move(&place.entry, &entry->entry);
		/* The entry may be gone after the call. */
		flags = entry->flags;
		ret = entry->func(entry, TASK_NORMAL, 0, key);
		if (ret < 0 || (ret && flags & WQ_FLAG_EXCLUSIVE && !all))
			break;
		if (++nr % TWDEV_FEW)
			continue;
		spin_unlock_irq(&f->wait.lock);
		cond_resched();
		spin_lock_irq(&f->wait.lock);
	}
	list_del(&place.entry);
	spin_unlock_irq(&f->wait.lock);
}

/* As above. The work does it if there are many waiters, if they come and go, and at the end. */
void twdev_wake(struct twdev_file *f)
{
	struct list_head *pos;
	unsigned long flags;
	unsigned int nr = 0;

	if (twdev_is_over(f) || !spin_trylock_irqsave(&f->wait.lock, flags)) {
		twdev_be_late(f);
		return;
	}
	list_for_each(pos, &f->wait.head)
		if (++nr > TWDEV_FEW)
			break;
	if (likely(nr <= TWDEV_FEW))
		__wake_up_locked_key(&f->wait, TASK_NORMAL, poll_to_key(EPOLLIN | EPOLLRDNORM));
	spin_unlock_irqrestore(&f->wait.lock, flags);
	if (unlikely(nr > TWDEV_FEW))
		twdev_be_late(f);
}

/* Subtract @nr events that have left the queue. */
void twdev_count_unready(struct twdev_file *f, unsigned int nr)
{
	lockdep_assert_held(&f->lock);
	WRITE_ONCE(f->nr_ready, f->nr_ready - nr);
	/* The last event after STOP is gone. The lock is held: this needs no acquire. */
	if (unlikely(f->phase == TWDEV_OVER && !f->nr_ready))
		twdev_be_late(f);
}

/* Take a READY record off the event queue. */
void twdev_unready(struct twdev_file *f, struct twdev_record *r)
{
	list_del(&r->t.entry);
	twdev_count_unready(f, 1);
}

/* Queue the event of a record that STOP has found in no list, wheel or sink. */
void twdev_leave_unprocessed(struct twdev_file *f, struct twdev_record *r, u64 deadline)
{
	lockdep_assert_held(&f->lock);
	r->state = TWDEV_READY;
	r->unprocessed = true;
	r->rearm = false;
	r->t.expires = deadline;
	r->fired_ns = f->stop_ns;
	list_add_tail(&r->t.entry, &f->ready);
	WRITE_ONCE(f->nr_ready, f->nr_ready + 1);
	f->counts.unprocessed++;
}

void __init twdev_init_users(void)
{
	max_user_timeouts = max_user_timeouts ?: twdev_default_limit(&max_user_timeouts);
	max_all_timeouts = max_all_timeouts ?: twdev_default_limit(&max_all_timeouts);
	if (!max_wheel_bytes)
		twdev_set_wheel_limit("0", NULL);
	twdev_debugfs = debugfs_create_file("twheel_users", 0400, NULL, NULL, &twdev_users_fops);
}

void twdev_exit_users(void)
{
	debugfs_remove(twdev_debugfs);
}
