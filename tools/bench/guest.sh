#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run the benchmark in the test VM: load its modules and pass the arguments to the program.
# --symbols prints the names of the kernel's functions first. --wall measures wall-clock
# time.

wall()
{
	/add/smp || return
	taskset 1 /add/bench --unit ns --repeat 1 --system twheel,io_uring,misdn \
		--operation arm_batch,cancel_batch_random 1000 1000000
}

# idle: the time that the CPUs were idle, in hundredths of a second
idle()
{
	awk '/^cpu /{ print $5 }' /proc/stat
}

# Waits until the CPU has been idle for a second. After boot 7.2 works on in the background for
# seconds, and these instructions would count as those of the benchmark.
settle()
{
	seconds=0
	while before=$(idle) && sleep 1 && [ $(($(idle) - before)) -lt 99 ]; do
		seconds=$((seconds + 1))
		[ "$seconds" -lt 60 ] || { echo "the machine does not come to rest" >&2; exit 1; }
	done
}

insmod /add/mISDN_core.ko 2>/dev/null
insmod /add/twheel_bench.ko || exit
[ "$1" = --wall ] || settle
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
