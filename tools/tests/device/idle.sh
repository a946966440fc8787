#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A wheel costs nothing while nothing is due: with a timeout an hour ahead, its threads do
# not run for ten seconds. The same holds for unused cells after two looks. A busybox shell
# runs this in the test VM.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
SECONDS_IDLE=10

# Context switches of all threads of the wheel, one line each: NAME COUNT.
switches()
{
	for status in /proc/[0-9]*/status; do
		awk '/^Name:/ { name = $2 }
			/ctxt_switches:/ { count += $2 }
			END { if (name ~ /^twheel\//) print name, count }' "$status"
	done 2>/dev/null
}

there_is_a_thread_for_each_cpu()
{
	switches >/tmp/threads
	cat /tmp/threads
	[ "$(wc -l </tmp/threads)" = "$(nproc)" ]
}

threads_sleep_while_nothing_is_due()
{
	switches >/tmp/before
	sleep "$SECONDS_IDLE"
	switches >/tmp/after
	cmp -s /tmp/before /tmp/after || {
		sed 's/^/before: /' /tmp/before
		sed 's/^/after:  /' /tmp/after
		return 1
	}
}

echo "KTAP version 1"
echo "1..3"
check there_is_a_thread_for_each_cpu there_is_a_thread_for_each_cpu
exec 3<>/dev/twheel
twheel arm 1h --fd 3 >/dev/null
sleep 1
check threads_sleep_while_nothing_is_due threads_sleep_while_nothing_is_due

# The cells are armed for one second, so the last look comes little more than two seconds
# later.
for cookie in 1 2 3 4; do
	id=$(twheel arm 1s --cell --cookie $cookie --fd 3)
	twheel disarm "$id" --fd 3 >/dev/null
done
sleep 4
check threads_sleep_while_all_cells_are_idle threads_sleep_while_nothing_is_due
