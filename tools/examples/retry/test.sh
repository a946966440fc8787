#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Test the sample in the test VM: load it with several parameters and check the state of its
# jobs. The kernel log shows whether unloading it leaves anything behind.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
load='insmod /add/retry.ko'

# count NAME: print a counter of the module.
count()
{
	sed -n "s/^$1 //p" /sys/kernel/debug/twheel_retry
}

# is NAME NUMBER
is()
{
	[ "$(count "$1")" = "$2" ] || { cat /sys/kernel/debug/twheel_retry; return 1; }
}

jobs_succeed_after_the_last_failure()
{
	$load jobs=1000 failures=4 attempts=5 delay_ms=50 && eventually is succeeded 1000 &&
		is attempts 5000 && is early 0 && is 'given up' 0
}

jobs_are_given_up_after_the_last_attempt()
{
	$load jobs=1000 failures=4 attempts=4 delay_ms=10 && eventually is 'given up' 1000 &&
		is attempts 4000 && is early 0 && is succeeded 0
}

has_more_attempts_than_those_of_the_last_second()
{
	last=$(count 'in the last second') && [ "$last" -gt 0 ] &&
		[ "$(count attempts)" -gt $((3 * last)) ]
}

# A job is tried all the time, so each second has attempts, and soon many more are before it.
attempts_of_the_last_second_are_counted_each_second()
{
	$load jobs=1 failures=4000000000 attempts=4000000000 delay_ms=0 &&
		eventually has_more_attempts_than_those_of_the_last_second
}

jobs_that_wait_for_hours_do_not_keep_the_module()
{
	$load jobs=1000 failures=1 delay_ms=3600000 && eventually is attempts 1000 && is succeeded 0
}

jobs_can_be_cancelled_while_they_are_tried()
{
	for round in 1 2 3 4 5 6 7 8 9; do
		$load jobs=1000 failures=1000000 attempts=1000000 delay_ms=1 || return
		usleep $((round * 3000))
		rmmod retry || return
	done
	$load jobs=1
}

# with_module NAME: run a test, then unload the module that it has loaded.
with_module()
{
	"$1"
	status=$?
	rmmod retry && return $status
}

echo "1..5"
for test in jobs_succeed_after_the_last_failure jobs_are_given_up_after_the_last_attempt \
	jobs_that_wait_for_hours_do_not_keep_the_module \
	attempts_of_the_last_second_are_counted_each_second \
	jobs_can_be_cancelled_while_they_are_tried; do
	check $test with_module $test
done
