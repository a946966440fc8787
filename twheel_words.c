// SPDX-License-Identifier: GPL-2.0
/*
 * Touch words of /dev/twheel
 *
 * Every index has a word, a deadline in the time of the opener's namespace, which
 * user space can map and write. ARM and MOD with TWHEEL_F_TOUCH write it before they
 * queue. When such a timeout comes to the sink, or is stopped, the word is read, once;
 * if it says later than the time of the batch, the timeout goes back into the wheel,
 * for that, and nothing has fired. A word can only extend. Nothing that is in it can do
 * harm: it is at worst a wrong deadline of its owner.
 *
 *  - A plain aligned 64-bit store is all that it takes to extend, of any memory order:
 *    nothing else is read because of it. It is seen if it has become visible when the
 *    sink reads, at the deadline at the earliest. Otherwise the event is made, as if the
 *    store had come later. The event tells which.
 *
 *  - A word belongs to an index, not to an id. A store that comes after the timeout
 *    has ended extends the next one with its index, if that has TWHEEL_F_TOUCH. A user
 *    who cannot be sure looks at the event or the cancel first.
 *
 *  - Whether a timeout that is on its way to the sink has fired depends on its word, so
 *    CANCEL and MOD look at it too.
 *
 * The words lie in pages, which are found in a table. The table is made with the first
 * page and has its final size, for the indices below the limit. Indices above exist in
 * the last page of records, and where one more had to be made since some were on their
 * way to the sink or had run out of generations. They have no words: an ARM with
 * TWHEEL_F_TOUCH puts them aside (@spare), for those without it that find nothing else,
 * and is refused as if at the limit when nothing below is free; so is a MOD that asks
 * for the word of one above. A page is made when it is touched, or before the first
 * timeout that needs it is queued, and stays until release. Mappings hold the file, so
 * they end before it does; a page that is pinned for longer has a reference of its own.
 *
 * 32-bit kernels would need a lock to read a word that is being written: they have
 * none.
 */
#include <linux/slab.h>

#include "twheel_dev.h"

static int twdev_make_words(struct twdev_file *f)
{
	u64 **words;

	lockdep_assert_held(&f->grow);
	if (f->words)
		return 0;
	words = kvcalloc(twdev_max_words(f), sizeof(*words), GFP_KERNEL_ACCOUNT);
	if (!words)
		return -ENOMEM;
	spin_lock(&f->lock);
	f->words = words;
	spin_unlock(&f->lock);
	return 0;
}

/* Add a page of words, if it is not there yet. */
int twdev_add_words(struct twdev_file *f, unsigned long page)
{
	u64 *words;
	int ret;

	lockdep_assert_held(&f->grow);
	if (page >= twdev_max_words(f))
		return -EAGAIN;
	ret = twdev_make_words(f);
	if (ret || f->words[page])
		return ret;
	words = twdev_alloc_page(f, __GFP_ZERO);
	if (IS_ERR(words))
		return PTR_ERR(words);
	spin_lock(&f->lock);
	f->words[page] = words;
	spin_unlock(&f->lock);
	return 0;
}

/* Free a table of @nr entries, which nobody can find any more, with its pages. */
void twdev_free_words(struct twdev_file *f, u64 **words, u32 nr)
{
	u32 i;

	for (i = 0; words && i < nr; i++) {
		if (words[i])
			twdev_free_page(f, words[i]);
		cond_resched();
	}
	kvfree(words);
}

static vm_fault_t twdev_fault(struct vm_fault *vmf)
{
	struct twdev_file *f = vmf->vma->vm_file->private_data;
	int ret;

	scoped_guard(mutex, &f->grow) {
		ret = twdev_add_words(f, vmf->pgoff);
		if (!ret) {
			vmf->page = virt_to_page(f->words[vmf->pgoff]);
			get_page(vmf->page);
		}
	}
	if (!ret)
		return 0;
	return ret == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct twdev_vm_ops = {
	.fault	= twdev_fault,
};

int twdev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twdev_file *f = file->private_data;

	/* VM_MAYSHARE: a shared mapping of a file that is open for reading counts, too. */
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_flags & VM_EXEC || vma->vm_pgoff)
		return -EINVAL;
	scoped_guard(spinlock, &f->lock) {
		if (vma_pages(vma) > twdev_max_words(f))
			return -EINVAL;
		twdev_begin(f);
	}
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	vma->vm_ops = &twdev_vm_ops;
	return 0;
}
