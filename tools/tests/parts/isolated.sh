#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Where timeouts of isolated CPUs fire. A busybox shell runs this in the test VM.

trace=/sys/kernel/debug/tracing

cpus_are_isolated()
{
	[ "$(cat /sys/devices/system/cpu/nohz_full)" = 1-3 ]
}

# expired_on CPU: how many timeouts have expired there, by the trace.
expired_on()
{
	grep -c "\[00$1\].* twheel_expire: " "$trace/trace"
}

timeouts_of_an_isolated_cpu_fire_on_another()
{
	echo 1 >"$trace/events/twheel/twheel_expire/enable"
	for cpu in 1 2 3; do
		taskset -c "$cpu" twheel sleep 20ms || return
	done
	echo 0 >"$trace/events/twheel/twheel_expire/enable"
	[ "$(expired_on 0)" = 3 ] && [ "$(expired_on '[1-3]')" = 0 ]
}

# result NUMBER NAME
result()
{
	"$2" || printf 'not '
	echo "ok $1 $2"
}

echo "KTAP version 1"
echo "1..2"
result 1 cpus_are_isolated
result 2 timeouts_of_an_isolated_cpu_fire_on_another
