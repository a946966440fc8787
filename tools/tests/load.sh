#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The load of a keep-alive server, which keeps its own account of it: of 100,000 timeouts,
# moved and cancelled at every moment, none is lost, comes twice, early, or after all. A
# busybox shell runs this in the test VM.

number=0

# account NAME ARGUMENT...
account()
{
	verdict=ok
	name=$1
	shift
	twheel load --timeouts 100000 --spread 2s --cancel 33 "$@" >/tmp/account 2>&1 ||
		verdict="not ok"
	grep -q '^ *armed  *100000$' /tmp/account || verdict="not ok"
	sed 's/^/# /' /tmp/account
	number=$((number + 1))
	echo "$verdict $number $name"
}

echo "KTAP version 1"
echo "1..2"
account load_of_a_context_for_each_cpu_comes_out_even
account load_of_threads_that_share_a_context_comes_out_even --threads 4 --share
