/* SPDX-License-Identifier: GPL-2.0 */
/* Macros for coccinelle, which does not read the kernel's headers. */
#define scoped_guard(...) YACFE_ITERATOR
#define twheel_uninitialized
#define for_each_set_bit(...) YACFE_ITERATOR
