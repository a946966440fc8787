#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The benchmark, as it runs in the test VM: its modules are loaded, the program gets
# the arguments. With --symbols first the names of the kernel's functions are shown.

insmod /add/mISDN_core.ko 2>/dev/null
insmod /add/twheel_bench.ko || exit
if [ "$1" = --symbols ]; then
	shift
	awk '$2 ~ /[tTwW]/' /proc/kallsyms
fi
/add/bench "$@"
status=$?
rmmod twheel_bench
exit "$status"
