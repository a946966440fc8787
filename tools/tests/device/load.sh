#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The load of a keep-alive server, which keeps its own account of it: of 100,000 timeouts,
# 10,000 on a slow kernel, moved and cancelled at every moment, none is lost, comes twice,
# early, or after all. A busybox shell runs this in the test VM.

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

# count NAME: of the last account.
count()
{
	awk -v "name=$1" '$1 == name { print $2 }' /tmp/account
}

# Traffic only ever puts a timeout off, so the kernel looks in time. It has to be told of
# those alone that had fired, and of a few that were armed in the moment of a look.
pairs_need_hardly_a_call()
{
	number=$((number + 1))
	verdict=ok
	least=50000
	# Few pairs fit into the time where everything is slow.
	[ -z "${TWHEEL_SLOW-}" ] || least=1000
	pairs=$(count pairs)
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
