#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The load of a keep-alive server, which checks its own account. It moves and cancels
# 100,000 timeouts (10,000 on a slow kernel) at any moment. None is lost, doubled or early,
# or fires after its cancel. A busybox shell runs this in the test VM.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
timeouts=100000
[ -z "${TWHEEL_SLOW-}" ] || timeouts=10000

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
echo "1..5"
check load_of_a_context_for_each_cpu_comes_out_even account
check load_of_threads_that_share_a_context_comes_out_even account --threads 4 --share
check load_of_cells_comes_out_even account --cells
check pairs_need_hardly_a_call pairs_need_hardly_a_call
check load_of_threads_that_share_cells_comes_out_even account --cells --threads 4 --share
