#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Where timeouts of isolated CPUs fire. A busybox shell runs this in the test VM.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
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

# Those of isolated CPUs are due first. An hrtimer that is set there stays there: all that come
# later would fire there, too.
timeouts_of_an_isolated_cpu_fire_on_another()
{
	exec 3<>/dev/twheel
	echo 1 >"$trace/events/twheel/twheel_expire/enable"
	for ms in $(seq 1000 50 1950); do
		taskset -c 0 twheel arm "${ms}ms" --fd 3 >/dev/null || return
	done
	for cpu in 1 2 3; do
		taskset -c "$cpu" twheel sleep 1ms && taskset -c "$cpu" twheel sleep 0 || return
	done
	twheel read --count 20 --fd 3 >/dev/null
	echo 0 >"$trace/events/twheel/twheel_expire/enable"
	exec 3>&-
	[ "$(expired_on 0)" = 26 ] && [ "$(expired_on '[1-3]')" = 0 ]
}

run_checks cpus_are_isolated timeouts_of_an_isolated_cpu_fire_on_another
