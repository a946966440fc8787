#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# machine.sh PART [ARGUMENT]...: parts of the script machine inside the test machine, as KTAP.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
debug=/sys/kernel/debug
trace=$debug/tracing

# faults STRIDE: programs that inject faults themselves, at every so many places.
#
# kmemleak warns when it runs out of memory, while it holds a lock under which the console must not
# be written. So meanwhile only errors go to the console. The other messages are logged again
# afterwards, except warnings of the kernel's own tracing.
faults()
{
	echo "twheel-vm: faults" >/dev/kmsg
	dmesg -n 4
	TWHEEL_STRIDE=$1 KTAP_HANG_S=1800 sh /add/subtests.sh /add/tests
	dmesg -n 8
	dmesg | grep -q 'twheel-vm: faults$' ||
		echo "BUG: the log was too long to be kept" >/dev/kmsg
	dmesg | sed '1,/twheel-vm: faults/d; /WARNING: .* at kernel\/trace\//d' |
		while IFS= read -r line; do
			echo "$line" >/dev/kmsg
		done
}

# Loading a module runs its suites. The kernel log has the results.
kunit()
{
	status=0
	while read -r name parameters; do
		echo "twheel-vm: suite $name" >/dev/kmsg
		# shellcheck disable=SC2086 # several words
		insmod /add/kunit/$name.ko $parameters || status=1
		echo "twheel-vm: unload $name" >/dev/kmsg
		rmmod "$name" || status=1
	done </add/parameters
	return $status
}

# expired_on CPU: how many timeouts have expired there, by the trace.
expired_on()
{
	grep -c "\[00$1\].* twheel_expire: " $trace/trace
}

# Those of isolated CPUs are due first. An hrtimer that is set there stays there: all that come
# later would fire there, too.
timeouts_of_an_isolated_cpu_fire_on_another()
{
	exec 3<>/dev/twheel
	echo 1 >$trace/events/twheel/twheel_expire/enable
	for ms in $(seq 1000 50 1950); do
		taskset -c 0 twheel arm "${ms}ms" --fd 3 >/dev/null || return
	done
	for cpu in 1 2 3; do
		taskset -c "$cpu" twheel sleep 1ms && taskset -c "$cpu" twheel sleep 0 || return
	done
	twheel read --count 20 --fd 3 >/dev/null
	echo 0 >$trace/events/twheel/twheel_expire/enable
	exec 3>&-
	[ "$(expired_on 0)" = 26 ] && [ "$(expired_on '[1-3]')" = 0 ]
}

wakeups()
{
	sed -n 's/^wakeups *//p' $debug/twheel/dev.0
}

# sleep_ends_on_time DURATION SECONDS: when all tasks sleep, the clock jumps to the next timer. The
# timeout costs the wheel's thread at most one wakeup per level.
sleep_ends_on_time()
{
	start=$(cut -d . -f 1 /proc/uptime)
	before=$(wakeups)
	twheel sleep "$1" || return
	late=$(($(cut -d . -f 1 /proc/uptime) - start - $2)) more=$(($(wakeups) - before))
	levels=$(grep -c '^ *[0-9]* *[0-9]*  [0-9]*$' $debug/twheel/dev.0)
	echo "$late s late, $more wakeups, $levels levels"
	[ "$late" -ge 0 ] && [ "$late" -le 1 ] && [ "$more" -le "$levels" ]
}

travel()
{
	echo "1..5"
	for sleep in 1s=1 1m=60 1h=3600 1d=86400 10d=864000; do
		check "sleep_of_${sleep%=*}_ends_on_time" \
			sleep_ends_on_time "${sleep%=*}" "${sleep#*=}"
	done
}

"$@"
