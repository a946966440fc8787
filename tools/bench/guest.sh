#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh WHAT [ARGUMENT]...: run a part of the benchmark in the test VM, with its module:
#
#   operations          the program with these arguments
#   native REPETITIONS EXPIRIES N...   in User Mode Linux; small N get more repetitions
#   scenarios           those whose command lines are in /add/lines

# idle: the time that the CPUs were idle, in hundredths of a second
idle()
{
	awk '/^cpu /{ print $5 }' /proc/stat
}

# Waits until the CPU has been idle for a second. After boot 7.2 works on in the background for
# seconds, and these instructions would count as those of the benchmark.
operations()
{
	seconds=0
	while before=$(idle) && sleep 1 && [ $(($(idle) - before)) -lt 99 ]; do
		seconds=$((seconds + 1))
		[ "$seconds" -lt 60 ] || { echo "the machine does not come to rest" >&2; exit 1; }
	done
	/add/bench "$@"
}

native()
{
	run=/sys/module/twheel_bench/parameters/run
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

scenarios()
{
	failed=0
	while read -r line; do
		# shellcheck disable=SC2086 # options
		/add/scenarios $line || { echo "failed $line"; failed=1; }
	done </add/lines
	return "$failed"
}

insmod /add/mISDN_core.ko 2>/dev/null
insmod /add/twheel_bench.ko || exit
what=$1
shift
case $what in
operations) operations "$@" ;;
native) native "$@" ;;
scenarios) scenarios ;;
esac
status=$?
rmmod twheel_bench
exit "$status"
