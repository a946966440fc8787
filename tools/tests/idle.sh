#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A wheel with nothing due costs nothing: with a timeout an hour away its threads
# do not run for ten seconds. A busybox shell runs this in the test VM.

SECONDS_IDLE=10

# Context switches of all threads of the wheel, a line each: NAME COUNT.
switches()
{
	for status in /proc/[0-9]*/status; do
		awk '/^Name:/ { name = $2 }
			/ctxt_switches:/ { count += $2 }
			END { if (name ~ /^twheel\//) print name, count }' "$status"
	done 2>/dev/null
}

result()
{
	[ "$1" = 0 ] && echo "ok $2" || echo "not ok $2"
}

there_is_a_thread_for_each_cpu()
{
	switches >/tmp/threads
	sed 's/^/# /' /tmp/threads
	[ "$(wc -l </tmp/threads)" = "$(nproc)" ]
}

threads_sleep_while_nothing_is_due()
{
	switches >/tmp/before
	sleep "$SECONDS_IDLE"
	switches >/tmp/after
	cmp -s /tmp/before /tmp/after || {
		sed 's/^/# before: /' /tmp/before
		sed 's/^/# after:  /' /tmp/after
		return 1
	}
}

echo "KTAP version 1"
echo "1..2"
there_is_a_thread_for_each_cpu
result $? "1 there_is_a_thread_for_each_cpu"
exec 3<>/dev/twheel
twheel arm 1h --fd 3 >/dev/null
sleep 1
threads_sleep_while_nothing_is_due
result $? "2 threads_sleep_while_nothing_is_due"
