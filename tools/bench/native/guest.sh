#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh REPETITIONS EXPIRIES N...: run the native benchmark in User Mode Linux and print
# the release of the kernel. Small N get more repetitions.
run=/sys/module/twheel_bench/parameters/run

measure()
{
	times=$1
	expiries=$2
	shift 2
	for n; do
		factor=1
		[ "$n" -gt 100000 ] || factor=4
		[ "$n" -gt 10000 ] || factor=20
		[ "$n" -gt 1000 ] || factor=100
		echo "$n $((times * factor)) $expiries" >$run || return
		cat $run
	done
}

insmod /add/twheel_bench.ko || exit
echo "release $(uname -r)"
measure "$@"
status=$?
rmmod twheel_bench
exit "$status"
