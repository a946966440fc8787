#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The benchmark, as it runs in the test VM: its modules are loaded, the program gets
# the arguments. With --symbols the names of the kernel's functions are shown first.
# With --wall it is the clock on the wall that is looked at.

wall()
{
	/add/smp || return
	taskset 1 /add/bench --unit ns --repeat 1 --system twheel,io_uring,misdn \
		--operation arm_batch,cancel_batch_random 1000 1000000
}

insmod /add/mISDN_core.ko 2>/dev/null
insmod /add/twheel_bench.ko || exit
case $1 in
--wall)
	wall
	;;
--symbols)
	shift
	awk '$2 ~ /[tTwW]/' /proc/kallsyms
	/add/bench "$@"
	;;
*)
	/add/bench "$@"
	;;
esac
status=$?
rmmod twheel_bench
exit "$status"
