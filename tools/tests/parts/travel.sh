#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Test long timeouts in a machine whose clock jumps to the next timer when all tasks sleep. Each
# expires when it is due, and costs the wheel's thread at most one wakeup per level.

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
	echo "# $late s late, $(($(wakeups) - before)) wakeups, $(levels) levels"
	[ "$late" -ge 0 ] && [ "$late" -le 1 ] && [ $(($(wakeups) - before)) -le "$(levels)" ]
}

number=0
try()
{
	number=$((number + 1))
	travel "$@" || printf 'not '
	echo "ok $number sleep_of_${1}_ends_on_time"
}

echo "KTAP version 1"
echo "1..5"
try 1s 1
try 1m 60
try 1h 3600
try 1d 86400
try 10d 864000
