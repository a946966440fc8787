// SPDX-License-Identifier: GPL-2.0
/*
 * Users, pages and records of /dev/twheel
 *
 * Records lie in chunks of one page each. A table of chunks maps the index in an id to the
 * record in O(1). A file gets a chunk when an ARM finds no free record. A chunk counts
 * against the limits per user and in total as the timeouts that fit into it.
 *
 *
 * Giving pages back
 *
 * TRIM, and the shrinker when memory is short, free chunks whose records are all FREE. ARM
 * and CANCEL never free a chunk. twdev_trim() holds grow and detaches the whole free list. So
 * no ARM can take a detached record: it finds none, and waits for grow before it adds a
 * chunk. A record that ends meanwhile goes to the new free list, and its chunk stays.
 * twdev_trim() counts the detached records of each chunk, and frees the chunks that have all
 * of their records in the list.
 *
 * In the table, twdev_absent replaces the page: a page of zeros that all files share. Its
 * records are FREE and have no id. So no lookup finds them, and nothing writes to them. When
 * the index is needed again, a new page takes its place. The ids of its records start with a
 * generation that no id of the old page has had.
 *
 * A record with no generations left is in no free list, so its page stays until release.
 * Pages of cells also stay: they may be mapped.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

#include "twheel_dev.h"

/* Maximum of both limits, per user and in total. */
#define TWDEV_MAX_TOTAL		BIT(30)

/* Default limits: DEFAULT timeouts, but at most 1/SHARE of the memory. */
#define TWDEV_USER_DEFAULT	BIT(22)
#define TWDEV_USER_SHARE	10
#define TWDEV_ALL_DEFAULT	BIT(24)
#define TWDEV_ALL_SHARE		5

/* 1/RESERVE of the total limit is reserved for CAP_SYS_RESOURCE. */
#define TWDEV_RESERVE		16

static unsigned int max_user_timeouts;
static unsigned int max_all_timeouts;

static unsigned int twdev_share_of_memory(unsigned int share, unsigned int most)
{
	return min_t(u64, (u64)totalram_pages() / share * TWDEV_PER_CHUNK, most);
}

static unsigned int twdev_default_limit(const unsigned int *param)
{
	if (param == &max_user_timeouts)
		return twdev_share_of_memory(TWDEV_USER_SHARE, TWDEV_USER_DEFAULT);
	return twdev_share_of_memory(TWDEV_ALL_SHARE, TWDEV_ALL_DEFAULT);
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

static DEFINE_HASHTABLE(twdev_users, 6);	/* under twdev_users_mutex */
static LIST_HEAD(twdev_files);			/* under twdev_users_mutex */
static DEFINE_MUTEX(twdev_users_mutex);
static atomic_long_t twdev_timeouts;		/* twdev_user.timeouts of all */

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

/* Add file @f to user @uid. The shrinker takes the mutex: do not allocate under it. */
int twdev_add_user(struct twdev_file *f, kuid_t uid)
{
	struct twdev_user *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return -ENOMEM;
	new->uid = uid;
	scoped_guard(mutex, &twdev_users_mutex) {
		f->user = twdev_find_user(uid);
		if (!f->user) {
			f->user = new;
			new = NULL;
			hash_add(twdev_users, &f->user->node, __kuid_val(uid));
		}
		f->user->files++;
		list_add_tail(&f->entry, &twdev_files);
	}
	kfree(new);
	return 0;
}

/* Hide the file from the shrinker. */
void twdev_hide_file(struct twdev_file *f)
{
	guard(mutex)(&twdev_users_mutex);
	list_del(&f->entry);
}

/* Remove a file that has given back its pages and wheel. Frees the user with the last file. */
void twdev_remove_user(struct twdev_file *f)
{
	guard(mutex)(&twdev_users_mutex);
	if (--f->user->files)
		return;
	hash_del(&f->user->node);
	kfree(f->user);
}

/* Pages */

bool twdev_count_up(atomic_long_t *count, long nr, long limit)
{
	long old = atomic_long_read(count);

	do {
		if (old + nr > limit)
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
	if (!twdev_count_up(&user->timeouts, TWDEV_PER_CHUNK, READ_ONCE(max_user_timeouts)))
		return false;
	if (twdev_count_total())
		return true;
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
	page = (void *)__get_free_page(GFP_KERNEL_ACCOUNT | gfp);
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

/* Chunks */

/* A page of zeros that stands for each page that has been given back. */
static struct twdev_chunk *twdev_absent;

/*
 * Allocate chunk @nr. A zeroed record is FREE. Only the members that are not zero are set
 * here. The ARM that takes a record sets the rest.
 */
static struct twdev_chunk *twdev_alloc_chunk(struct twdev_file *f, u32 nr)
{
	u64 id = nr * TWDEV_PER_CHUNK + f->generations[nr] * TWDEV_GENERATION;
	struct twheel_timeout model;
	struct twdev_chunk *chunk;
	struct twdev_record *r;

	BUILD_BUG_ON(TWDEV_FREE);
	chunk = twdev_alloc_page(f, __GFP_ZERO);
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

/* Make room for another chunk in the table. The generation of new entries is 1. */
static int twdev_grow_table(struct twdev_file *f)
{
	u32 size = f->size ? f->size * 2 : 8;
	struct twdev_chunk **table, **old = f->chunks;
	u32 *generations;

	lockdep_assert_held(&f->grow);
	if (f->nr_chunks < f->size)
		return 0;
	table = kvmalloc_array(size, sizeof(*table) + sizeof(*generations), GFP_KERNEL_ACCOUNT);
	if (!table)
		return -ENOMEM;
	generations = (u32 *)(table + size);
	memset32(generations, 1, size);
	if (old) {
		memcpy(table, old, f->nr_chunks * sizeof(*table));
		memcpy(generations, f->generations, f->nr_chunks * sizeof(*generations));
	}
	spin_lock_bh(&f->lock);
	f->chunks = table;
	spin_unlock_bh(&f->lock);
	f->generations = generations;
	f->size = size;
	kvfree(old);
	return 0;
}

/* Set @nr to the first entry without a chunk. Grow the table if there is none. */
static int twdev_next_chunk(struct twdev_file *f, u32 *nr)
{
	lockdep_assert_held(&f->grow);
	*nr = f->nr_chunks;
	if (!f->nr_absent)
		return twdev_grow_table(f);
	while (f->chunks[f->absent_from] != twdev_absent)
		f->absent_from++;
	*nr = f->absent_from;
	return 0;
}

/* Add a chunk. With @cell, its indices must be low enough for cells. */
static int twdev_add_chunk(struct twdev_file *f, bool cell)
{
	struct twdev_chunk *chunk;
	struct twdev_record *last;
	u32 nr;
	int ret;

	ret = twdev_next_chunk(f, &nr);
	if (ret)
		return ret;
	if (cell && nr * TWDEV_PER_CHUNK >= twdev_max_cells(f))
		return -EAGAIN;
	chunk = twdev_alloc_chunk(f, nr);
	if (IS_ERR(chunk))
		return PTR_ERR(chunk);

	spin_lock_bh(&f->lock);
	f->chunks[nr] = chunk;
	if (nr == f->nr_chunks)
		f->nr_chunks++;
	else
		f->nr_absent--;
	last = &chunk->records[TWDEV_PER_CHUNK - 1];
	last->next_free = f->free;
	f->free = chunk->records;
	spin_unlock_bh(&f->lock);
	return 0;
}

/* Make the first free record one that can be a cell, or, without @cell, any. */
static void twdev_sort_free(struct twdev_file *f, bool cell)
{
	struct twdev_record *r;

	lockdep_assert_held(&f->lock);
	if (!cell && !f->free)
		swap(f->free, f->spare);
	while (cell && f->free && twdev_index(f->free) >= twdev_max_cells(f)) {
		r = f->free;
		f->free = r->next_free;
		r->next_free = f->spare;
		f->spare = r;
	}
}

static int __twdev_grow(struct twdev_file *f, const struct twheel_op *op)
{
	bool cell = op->flags & TWHEEL_F_CELL, has_record, lacks_cell;
	u32 index = 0;

	scoped_guard(spinlock_bh, &f->lock) {
		twdev_sort_free(f, cell);
		has_record = f->free;
		lacks_cell = twdev_lacks_cell(f, op);
		if (has_record)
			index = twdev_index(f->free);
	}
	if (lacks_cell)
		return twdev_add_cells(f, index / TWDEV_PER_CELLS);
	return has_record ? 0 : twdev_add_chunk(f, cell);
}

/*
 * Add the record or cell that the ARM @op needs, unless another task has done so. Killable: a
 * trim may hold grow for long.
 */
int twdev_grow(struct twdev_file *f, const struct twheel_op *op)
{
	int ret;

	if (mutex_lock_killable(&f->grow))
		return -EINTR;
	ret = __twdev_grow(f, op);
	mutex_unlock(&f->grow);
	return ret;
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
	for (r = f->spare; r; r = r->next_free)
		twheel_timeout_copy(&r->t, &model);
}

/* Free all chunks and the table at release. */
void twdev_free_records(struct twdev_file *f)
{
	u32 i;

	for (i = 0; i < f->nr_chunks; i++) {
		if (f->chunks[i] != twdev_absent)
			twdev_free_page(f, f->chunks[i]);
		cond_resched();
	}
	kvfree(f->chunks);
}

/* Giving pages back */

/* Number of timeouts that have ended. Each has made a record FREE. */
static u64 twdev_nr_ended(const struct twdev_file *f)
{
	return f->counts.cancelled + f->counts.withdrawn + f->counts.ended;
}

static struct twdev_record *twdev_take_free(struct twdev_file *f)
{
	struct twdev_record *free, *r;

	guard(spinlock_bh)(&f->lock);
	f->trimmed = twdev_nr_ended(f);
	free = f->free;
	f->free = NULL;
	while (f->spare) {
		r = f->spare;
		f->spare = r->next_free;
		r->next_free = free;
		free = r;
	}
	return free;
}

static void twdev_count_free(struct twdev_record *free)
{
	for (; free; free = free->next_free) {
		twdev_chunk_of(free)->nr_free++;
		cond_resched();
	}
}

/* Put the records of chunks that stay back on the free list. */
static void twdev_return_free(struct twdev_file *f, struct twdev_record *free)
{
	struct twdev_record *keep = NULL, *last = NULL, *next;

	for (; free; free = next) {
		next = free->next_free;
		cond_resched();
		if (twdev_chunk_of(free)->nr_free == TWDEV_PER_CHUNK)
			continue;
		free->next_free = keep;
		keep = free;
		last = last ?: free;
	}
	if (!last)
		return;
	guard(spinlock_bh)(&f->lock);
	last->next_free = f->free;
	f->free = keep;
}

static u32 twdev_next_generation(const struct twdev_chunk *chunk)
{
	u64 id = 0;
	u32 i;

	for (i = 0; i < TWDEV_PER_CHUNK; i++)
		id = max(id, chunk->records[i].id);
	return id / TWDEV_GENERATION;
}

/* Returns the number of pages given back. */
static u32 twdev_trim(struct twdev_file *f)
{
	struct twdev_record *free;
	struct twdev_chunk *chunk;
	u32 nr = 0, i;

	lockdep_assert_held(&f->grow);
	free = twdev_take_free(f);
	twdev_count_free(free);
	twdev_return_free(f, free);
	for (i = 0; i < f->nr_chunks; i++) {
		chunk = f->chunks[i];
		if (chunk->nr_free == TWDEV_PER_CHUNK) {
			f->generations[i] = twdev_next_generation(chunk);
			f->absent_from = min(f->absent_from, i);
			spin_lock_bh(&f->lock);
			f->chunks[i] = twdev_absent;
			f->nr_absent++;
			spin_unlock_bh(&f->lock);
			twdev_free_page(f, chunk);
			nr++;
		} else if (chunk != twdev_absent) {
			chunk->nr_free = 0;
		}
		cond_resched();
	}
	return nr;
}

int twdev_ioctl_trim(struct twdev_file *f)
{
	int ret;

	if (mutex_lock_killable(&f->grow))
		return -EINTR;
	ret = twdev_trim(f);
	mutex_unlock(&f->grow);
	return ret;
}

/* Upper bound of the pages that can be given back; 0 if no timeout ended since the last trim. */
static u32 twdev_count_trimmable(struct twdev_file *f)
{
	u64 ended;
	u32 nr;

	guard(spinlock_bh)(&f->lock);
	ended = twdev_nr_ended(f) - f->trimmed;
	nr = f->nr_chunks - f->nr_absent;
	nr -= min(nr, DIV_ROUND_UP(f->live, TWDEV_PER_CHUNK));
	return min_t(u64, nr, ended);
}

static unsigned long twdev_shrink_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct twdev_file *f;
	unsigned long nr = 0;

	if (!mutex_trylock(&twdev_users_mutex))
		return 0;
	list_for_each_entry(f, &twdev_files, entry)
		nr += twdev_count_trimmable(f);
	mutex_unlock(&twdev_users_mutex);
	return nr ?: SHRINK_EMPTY;
}

/* Never wait for a mutex in reclaim: its holder may be this task, or a throttled one. */
static unsigned long twdev_shrink_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long nr = 0;
	struct twdev_file *f;

	if (!mutex_trylock(&twdev_users_mutex))
		return SHRINK_STOP;
	list_for_each_entry(f, &twdev_files, entry) {
		if (nr >= sc->nr_to_scan)
			break;
		if (!twdev_count_trimmable(f) || !mutex_trylock(&f->grow))
			continue;
		nr += twdev_trim(f);
		mutex_unlock(&f->grow);
	}
	mutex_unlock(&twdev_users_mutex);
	return nr ?: SHRINK_STOP;
}

static struct shrinker *twdev_shrinker;

int __init twdev_init_pages(void)
{
	max_user_timeouts = max_user_timeouts ?: twdev_default_limit(&max_user_timeouts);
	max_all_timeouts = max_all_timeouts ?: twdev_default_limit(&max_all_timeouts);
	twdev_absent = (struct twdev_chunk *)get_zeroed_page(GFP_KERNEL);
	twdev_shrinker = shrinker_alloc(0, "twheel");
	if (!twdev_absent || !twdev_shrinker) {
		twdev_exit_pages();
		return -ENOMEM;
	}
	twdev_shrinker->count_objects = twdev_shrink_count;
	twdev_shrinker->scan_objects = twdev_shrink_scan;
	shrinker_register(twdev_shrinker);
	return 0;
}

void twdev_exit_pages(void)
{
	shrinker_free(twdev_shrinker);
	free_page((unsigned long)twdev_absent);
}
