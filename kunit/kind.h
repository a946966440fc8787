/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kinds of periodic timeouts, as a parameter of test cases.
 */
#ifndef _TWHEEL_KUNIT_KIND_H
#define _TWHEEL_KUNIT_KIND_H

#include <kunit/test.h>
#include <linux/string.h>

#include "../twheel.h"

struct kind_case {
	const char *name;
	enum twheel_kind kind;
};

static const struct kind_case kinds[] = {
	{ "fixed rate", TWHEEL_FIXED_RATE },
	{ "fixed delay", TWHEEL_FIXED_DELAY },
};

static void kind_desc(const struct kind_case *k, char *desc)
{
	strscpy(desc, k->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

/* The kind that a case with this parameter tries. */
static enum twheel_kind kind_of(struct kunit *test)
{
	return ((const struct kind_case *)test->param_value)->kind;
}

#endif /* _TWHEEL_KUNIT_KIND_H */
