/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that arm a single timeout for an absolute time, as a parameter of tests.
 */
#ifndef _TWHEEL_KUNIT_ARMING_H
#define _TWHEEL_KUNIT_ARMING_H

#include <kunit/test.h>
#include <linux/string.h>

#include "../twheel.h"

/* Below the tick of every suite, so that it does not change the tick of a timeout. */
#define ARMING_SLACK	1000

/**
 * struct arming - a function that arms
 * @name: its name, without the prefix twheel_
 * @arm: calls it for @t, a timeout of @w
 */
struct arming {
	const char	*name;
	int		(*arm)(struct twheel *w, struct twheel_timeout *t, u64 expires);
};

static int arming_arm(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	return twheel_arm(t, expires);
}

static int arming_arm_after(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	return twheel_arm_after(t, expires - twheel_now(w));
}

static int arming_arm_slack(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	return twheel_arm_slack(t, expires, ARMING_SLACK);
}

static int arming_mod(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	return twheel_mod(t, expires);
}

static int arming_mod_slack(struct twheel *w, struct twheel_timeout *t, u64 expires)
{
	return twheel_mod_slack(t, expires, ARMING_SLACK);
}

static const struct arming armings[] = {
	{ "arm", arming_arm },
	{ "arm_after", arming_arm_after },
	{ "arm_slack", arming_arm_slack },
	{ "mod", arming_mod },
	{ "mod_slack", arming_mod_slack },
};

static inline void arming_desc(const struct arming *a, char *desc)
{
	strscpy(desc, a->name, KUNIT_PARAM_DESC_SIZE);
}

#endif /* _TWHEEL_KUNIT_ARMING_H */
