#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The device is loaded, the wheel's threads rest while nothing is due, and then they carry the load
# of a keep-alive server, which checks its own account. It moves and cancels 100,000 timeouts at any
# moment, 10,000 on a slow kernel. None is lost, doubled or early, or fires after its cancel. A
# busybox shell runs this in the test VM, where nobody else uses the device meanwhile.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
timeouts=100000
[ -z "${TWHEEL_SLOW-}" ] || timeouts=10000

device_comes_and_goes_with_the_module()
{
	rmmod twheel_dev && [ ! -e /dev/twheel ] && [ ! -e /sys/kernel/debug/twheel_users ]
	gone=$?
	twheel arm 1ms 2>&1 | grep -q "'modprobe twheel_dev' loads" || gone=1
	insmod /modules/twheel_dev.ko && [ -c /dev/twheel ] && [ $gone = 0 ]
}

# Context switches of all threads of the wheel, one line each: NAME COUNT.
switches()
{
	for status in /proc/[0-9]*/status; do
		awk '/^Name:/ { name = $2 }
			/ctxt_switches:/ { count += $2 }
			END { if (name ~ /^twheel\//) print name, count }' "$status"
	done 2>/dev/null
}

# For ten seconds, beside a timeout that is an hour away and cells that have been cancelled. These
# were armed for one second, so the last look comes little more than two seconds later.
threads_sleep_while_nothing_is_due()
{
	exec 3<>/dev/twheel
	twheel arm 1h --fd 3
	for cookie in 1 2 3 4; do
		id=$(twheel arm 1s --cell --cookie $cookie --fd 3)
		twheel disarm "$id" --fd 3
	done
	sleep 4
	switches >/tmp/before
	sleep 10
	switches >/tmp/after
	exec 3<&-
	[ "$(wc -l </tmp/before)" = "$(nproc)" ] && diff /tmp/before /tmp/after
}

# account ARGUMENT...
account()
{
	twheel load --timeouts $timeouts --spread 2s --cancel 33 "$@" >/tmp/account 2>&1
	status=$?
	cat /tmp/account
	[ $status = 0 ] && grep -q "^ *armed  *$timeouts\$" /tmp/account
}

# count NAME: a value of the last account.
count()
{
	awk -v "name=$1" '$1 == name { print $2 }' /tmp/account
}

# Traffic only moves deadlines later, so the kernel looks in time. Only cells that have
# fired, and a few that are armed at the moment of a look, need a call.
pairs_need_hardly_a_call()
{
	least=50000
	# On a slow machine, few pairs fit into the time.
	[ -z "${TWHEEL_SLOW-}" ] || least=1000
	pairs=$(count rearmed)
	[ "$pairs" -gt "$least" ] && [ "$(count looks)" -gt 0 ] &&
		[ "$(count kicks)" -le $(($(count revived) + pairs / 100)) ]
}

echo "KTAP version 1"
echo "1..7"
check device_comes_and_goes_with_the_module device_comes_and_goes_with_the_module
check threads_sleep_while_nothing_is_due threads_sleep_while_nothing_is_due
check load_of_a_context_for_each_cpu_comes_out_even account
check load_of_threads_that_share_a_context_comes_out_even account --threads 4 --share
check load_of_cells_comes_out_even account --cells
check pairs_need_hardly_a_call pairs_need_hardly_a_call
check load_of_threads_that_share_cells_comes_out_even account --cells --threads 4 --share
