#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The state of a wheel seen from outside: tracepoints, as text and with perf if it is installed, and
# the table in debugfs. The results are compared with a known load. A busybox shell runs this in the
# test VM, where nobody else uses the wheel meanwhile.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
tracing=/sys/kernel/debug/tracing
table=$(echo /sys/kernel/debug/twheel/dev.*)
cd /tmp || exit
PATH=$PATH:/add

# Task names come from tracepoints of the scheduler, which must stay off here. Enabling them
# patches code that every CPU runs. A CPU of QEMU 7.2 may then execute a stale breakpoint
# for ever.
echo 0 >$tracing/options/record-cmd

# Deadlines on level 1, several of them in one slot, which must cascade. The wait is a
# timeout too.
ARMED=13 CANCELLED=2 FIRED=11
{
	for name in a b c d e f g h i; do
		echo "arm $name 400ms"
	done
	echo "arm moved 1h"
	echo "mod moved 400ms"
	echo "arm gone 400ms"
	echo "cancel gone"
	echo "wait 500ms"
} >load

# The value of NAME in a table, and its increase since the previous table.
value()
{
	sed -n "s/^$1  *//p" "${2-$table}"
}

grown()
{
	echo $(($(value "$1" after) - $(value "$1" before)))
}

# Run the load between two readings of the table.
observe()
{
	cat "$table" >before
	twheel run load >/dev/null || return
	cat "$table" >after
}

# equal NAME VALUE EXPECTED
equal()
{
	[ "$2" = "$3" ] || { echo "$1 is $2, not $3"; return 1; }
}

# Lines of EVENT in FILE, of the shared wheel.
events()
{
	grep -c "twheel_$1:.* wheel=dev " "$2"
}

table_counts_a_known_load()
{
	observe || return
	for count in armed=$ARMED rearmed=1 cancelled=$CANCELLED fired=$FIRED stopped=0 pending=0 \
		extended=0; do
		equal "${count%=*}" "$(grown "${count%=*}")" "${count#*=}" || return
	done
	[ "$(grown cascaded)" -gt 0 ] && [ "$(grown wakeups)" -gt 0 ]
}

# Number of occupied slots in all levels of table $1.
occupied()
{
	awk '/^level/ { on = 1; next } /^$/ { on = 0 } on { sum += $2 } END { print sum }' "$1"
}

table_shows_what_is_pending()
{
	cat "$table" >before
	exec 3<>/dev/twheel
	twheel arm 1h --fd 3 >/dev/null
	twheel arm 2h --fd 3 >/dev/null
	cat "$table" >after
	exec 3>&-
	equal pending "$(grown pending)" 2 &&
		equal "slots more" $(($(occupied after) - $(occupied before))) 2 || return
	cat "$table" >after
	equal "pending after close" "$(grown pending)" 0
}

# Tracepoints. The first test records the trace that the next checks. A histogram of the kernel
# needs the field late, not only its text.

tracepoints_tell_of_a_known_load()
{
	echo >$tracing/trace
	echo 1 >$tracing/events/twheel/enable
	observe
	status=$?
	echo 0 >$tracing/events/twheel/enable
	grep -v '^#' $tracing/trace >trace
	equal load $status 0 &&
		equal arms "$(events arm trace)" $ARMED &&
		equal cancels "$(events cancel trace)" $CANCELLED &&
		equal expirations "$(events expire trace)" $FIRED &&
		equal cascades "$(events cascade trace)" "$(grown cascaded)" &&
		grep 'field:u64 late;' $tracing/events/twheel/twheel_expire/format
}

# One process checks all events, because starting a process is slow with KASAN.
events_agree_with_what_was_armed()
{
	awk -v tick_ns="$(value tick_ns)" '
		function check(condition, claim) {
			if (!condition) {
				print "expected: " claim ": " $0
				failed = 1
			}
		}
		/ twheel_/ {
			split("", f)
			for (i = 1; i <= NF; i++)
				if (split($i, pair, "=") == 2)
					f[pair[1]] = pair[2]
		}
		/ twheel_arm: / {
			deadline[f["timeout"], f["expires"]]
			tick[f["timeout"], f["tick"]]
			check(f["tick"] * tick_ns >= f["expires"] + 0 &&
			      (f["tick"] - 1) * tick_ns < f["expires"] + 0,
			      "its tick is the first after the deadline")
		}
		/ twheel_(cancel|expire): / {
			check((f["timeout"], f["expires"]) in deadline, "it was armed")
		}
		/ twheel_expire: / {
			check(f["late"] + 0 >= 0 && f["now"] - f["expires"] == f["late"] + 0,
			      "it is not early")
		}
		/ twheel_cascade: / {
			split(f["level"], level, "->")
			check((f["timeout"], f["tick"]) in tick && level[1] + 0 > level[2] + 0,
			      "it goes down a level")
		}
		END { exit failed }' trace
}

# perf parses the formats of the events as trace-cmd does, with libtraceevent.
perf_shows_the_tracepoints()
{
	command -v perf >/dev/null || { echo 'no perf'; return 77; }
	perf record -q -a -o data -e 'twheel:*' -- twheel run load || return
	perf script -i data >shown 2>/dev/null
	equal arms "$(events arm shown)" $ARMED &&
		equal cancels "$(events cancel shown)" $CANCELLED &&
		equal expirations "$(events expire shown)" $FIRED &&
		[ "$(events cascade shown)" -gt 0 ]
}

run_checks table_counts_a_known_load table_shows_what_is_pending \
	tracepoints_tell_of_a_known_load events_agree_with_what_was_armed perf_shows_the_tracepoints
