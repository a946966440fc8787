/* SPDX-License-Identifier: GPL-2.0 */
/* What coccinelle cannot know of macros, as it does not read the kernel's headers. */
#define scoped_guard(...) YACFE_ITERATOR
