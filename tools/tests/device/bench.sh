#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# twheel bench on the running kernel: its results, its description of the machine, and its
# error messages. A busybox shell runs this in the test VM.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh

# bench ARGUMENT...: results go to /tmp/out, messages to /tmp/err.
bench()
{
	twheel bench --repeat 1 "$@" >/tmp/out 2>/tmp/err
	status=$?
	cat /tmp/out /tmp/err
	return $status
}

# column OPERATION SYSTEM: the value in the table.
column()
{
	awk -v operation="$1" -v title="$2" '
		$1 == "operation" {
			for (i = 3; i <= NF; i++)
				number[$i] = i
		}
		$1 == operation && title in number { print $number[title] }' /tmp/out
}

is_positive()
{
	awk -v value="$1" 'BEGIN { exit !(value + 0 > 0) }'
}

bench_measures_the_device_and_its_peers()
{
	bench --operation arm_batch,cancel_single,fire_collect_burst,cell_pair 1000 || return
	for operation in arm_batch cancel_single fire_collect_burst; do
		for system in twheel process timerfd posix wheel; do
			is_positive "$(column $operation $system)" || return
		done
	done
	is_positive "$(column cell_pair twheel)" && is_positive "$(column cell_pair process)" &&
		[ "$(column cell_pair timerfd)" = - ]
}

bench_says_what_it_ran_on()
{
	bench --system twheel --operation arm_batch 1000 &&
		grep -q '^processor  *[^ ]' /tmp/err &&
		grep -q "^kernel  *$(uname -r)$" /tmp/err &&
		grep -q "^CPUs  *$(nproc)$" /tmp/err
}

bench_in_json_is_a_line_for_each_result()
{
	bench --json --system twheel,timerfd --operation arm_batch 1000 &&
		[ "$(wc -l </tmp/out)" = 2 ] &&
		grep -q '^{"system": "twheel", "operation": "arm_batch", "n": 1000, ' /tmp/out &&
		grep -q '^{"system": "timerfd", .*"unit": "ns"}$' /tmp/out
}

bench_without_the_device_measures_the_process()
{
	mv /dev/twheel /dev/twheel.away
	TWHEEL_BACKEND=kernel bench --operation arm_batch,cell_pair 1000
	status=$?
	twheel bench --system twheel 1000 2>/tmp/err.alone
	[ $? = 69 ] && alone=y || alone=
	mv /dev/twheel.away /dev/twheel
	[ "$status$alone" = 0y ] && is_positive "$(column cell_pair process)" &&
		is_positive "$(column arm_batch timerfd)" && [ -z "$(column arm_batch twheel)" ] &&
		grep -q '/dev/twheel does not exist (.modprobe twheel_dev. loads' /tmp/err
}

bench_without_its_program_is_unavailable()
{
	mv /bin/twheel-bench /tmp/away
	bench 1000
	status=$?
	mv /tmp/away /bin/twheel-bench
	[ $status = 69 ] && grep -q 'cannot be run' /tmp/err
}

bench_of_too_few_is_wrong_usage()
{
	bench 999
	[ $? = 64 ]
}

run_checks bench_measures_the_device_and_its_peers bench_says_what_it_ran_on \
	bench_in_json_is_a_line_for_each_result bench_without_the_device_measures_the_process \
	bench_without_its_program_is_unavailable bench_of_too_few_is_wrong_usage
