#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The load of a keep-alive server, which checks its own account. It moves and cancels
# 100,000 timeouts (10,000 on a slow kernel) at any moment. None is lost, doubled or early,
# or fires after its cancel. A busybox shell runs this in the test VM.

timeouts=100000
[ -z "${TWHEEL_SLOW-}" ] || timeouts=10000
number=0

# account NAME ARGUMENT...
account()
{
	verdict=ok
	name=$1
	number=$((number + 1))
	shift
	twheel load --timeouts $timeouts --spread 2s --cancel 33 "$@" >/tmp/account 2>&1 ||
		verdict="not ok"
	grep -q "^ *armed  *$timeouts\$" /tmp/account || verdict="not ok"
	sed 's/^/# /' /tmp/account
	echo "$verdict $number $name"
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
	number=$((number + 1))
	verdict=ok
	least=50000
	# On a slow machine, few pairs fit into the time.
	[ -z "${TWHEEL_SLOW-}" ] || least=1000
	pairs=$(count rearmed)
	[ "$pairs" -gt "$least" ] && [ "$(count looks)" -gt 0 ] &&
		[ "$(count kicks)" -le $(($(count revived) + pairs / 100)) ] || verdict="not ok"
	echo "$verdict $number pairs_need_hardly_a_call"
}

echo "KTAP version 1"
echo "1..5"
account load_of_a_context_for_each_cpu_comes_out_even
account load_of_threads_that_share_a_context_comes_out_even --threads 4 --share
account load_of_cells_comes_out_even --cells
pairs_need_hardly_a_call
account load_of_threads_that_share_cells_comes_out_even --cells --threads 4 --share
