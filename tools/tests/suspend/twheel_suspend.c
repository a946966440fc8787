// SPDX-License-Identifier: GPL-2.0
/*
 * Suspend to RAM without a platform that can do it: all CPUs but one are off, and the clocks of
 * the kernel stand still. The last CPU waits for two seconds, and resumes. The clock of the
 * machine, from which the kernel learns how long it slept, counts seconds.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/suspend.h>

static int twheel_suspend_enter(suspend_state_t state)
{
	mdelay(2000);
	return 0;
}

static const struct platform_suspend_ops twheel_suspend_ops = {
	.valid = suspend_valid_only_mem,
	.enter = twheel_suspend_enter,
};

static int __init twheel_suspend_init(void)
{
	suspend_set_ops(&twheel_suspend_ops);
	return 0;
}
module_init(twheel_suspend_init);

static void __exit twheel_suspend_exit(void)
{
	suspend_set_ops(NULL);
}
module_exit(twheel_suspend_exit);

MODULE_DESCRIPTION("Suspend to RAM for a test machine");
MODULE_LICENSE("GPL");
