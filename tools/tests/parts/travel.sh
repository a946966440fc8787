#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Test long timeouts in a machine whose clock jumps to the next timer when all tasks sleep. Each
# expires when it is due, and costs the wheel's thread at most one wakeup per level.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh

uptime_seconds()
{
	sed 's/\..*//' /proc/uptime
}

wakeups()
{
	sed -n 's/^wakeups *//p' /sys/kernel/debug/twheel/dev.0
}

levels()
{
	grep -c '^ *[0-9]* *[0-9]*  [0-9]*$' /sys/kernel/debug/twheel/dev.0
}

# travel DURATION SECONDS
travel()
{
	start=$(uptime_seconds)
	before=$(wakeups)
	twheel sleep "$1" || return
	late=$(($(uptime_seconds) - start - $2))
	echo "$late s late, $(($(wakeups) - before)) wakeups, $(levels) levels"
	[ "$late" -ge 0 ] && [ "$late" -le 1 ] && [ $(($(wakeups) - before)) -le "$(levels)" ]
}

echo "KTAP version 1"
echo "1..5"
check sleep_of_1s_ends_on_time travel 1s 1
check sleep_of_1m_ends_on_time travel 1m 60
check sleep_of_1h_ends_on_time travel 1h 3600
check sleep_of_1d_ends_on_time travel 1d 86400
check sleep_of_10d_ends_on_time travel 10d 864000
