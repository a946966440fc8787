#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The state of a wheel seen from outside: tracepoints (as text, as a histogram of lateness, and
# with perf and trace-cmd if these are installed) and the table in debugfs. The results are
# compared with a known load. A busybox shell runs this in the test VM, where nobody else uses
# the wheel meanwhile.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
tracing=/sys/kernel/debug/tracing
table=$(echo /sys/kernel/debug/twheel/dev.*)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work" || exit
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

# Lines of EVENT in FILE.
events()
{
	grep -c "twheel_$1:" "$2"
}

# each EVENT CONDITION: there is such an event in the trace, and the condition holds for all
# of them. It is an awk expression with the fields in f and the armed times in deadline and
# tick. One process checks all events, because starting a process is slow with KASAN.
each()
{
	awk -v event="$1" -v tick_ns="$(value tick_ns)" '
		function take_fields(   i, pair, levels) {
			split("", f)
			for (i = 1; i <= NF; i++)
				if (split($i, pair, "=") == 2)
					f[pair[1]] = pair[2]
			split(f["level"], levels, "->")
			f["from"] = levels[1]
			f["to"] = levels[2]
		}
		NR == FNR && / twheel_arm: / {
			take_fields()
			deadline[f["timeout"], f["expires"]]
			tick[f["timeout"], f["tick"]]
		}
		NR != FNR && index($0, " twheel_" event ": ") {
			number++
			take_fields()
			if (!('"$2"')) {
				print
				failed = 1
			}
		}
		END {
			if (!number)
				print "no " event
			exit failed || !number
		}' trace ./trace
}

# The table

table_is_readable()
{
	names='clock tick_ns armed rearmed cancelled fired stopped pending extended
		cascaded wakeups'
	cat "$table" >before || return
	cat before
	for name in $names; do
		[ -n "$(value "$name" before)" ] || { echo "no $name"; return 1; }
	done
	grep -q '^level  occupied slots  of$' before &&
		grep -q '^ *0  *[0-9][0-9]*  [0-9]*$' before
}

table_counts_a_known_load()
{
	observe || return
	equal armed "$(grown armed)" $ARMED &&
		equal rearmed "$(grown rearmed)" 1 &&
		equal cancelled "$(grown cancelled)" $CANCELLED &&
		equal fired "$(grown fired)" $FIRED &&
		equal pending "$(grown pending)" 0 &&
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

# Tracepoints. The first test records the trace that the others check.

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
		equal cascades "$(events cascade trace)" "$(grown cascaded)"
}

tracepoints_name_the_wheel()
{
	equal "wheels other than dev" "$(grep twheel_ trace | grep -vc ' wheel=dev ')" 0
}

arm_tells_the_first_tick_after_the_deadline()
{
	each arm 'f["tick"] * tick_ns >= f["expires"] + 0 &&
		  (f["tick"] - 1) * tick_ns < f["expires"] + 0'
}

cancel_is_of_what_was_armed()
{
	each cancel '(f["timeout"], f["expires"]) in deadline'
}

expire_is_of_what_was_armed_and_not_early()
{
	each expire '(f["timeout"], f["expires"]) in deadline && f["late"] + 0 >= 0 &&
		     f["now"] - f["expires"] == f["late"] + 0'
}

cascade_goes_down_a_level()
{
	each cascade '(f["timeout"], f["tick"]) in tick && f["from"] + 0 > f["to"] + 0'
}

# As doc/operation.md says: the keys are powers of two. A kernel may have no histograms.
histogram_of_lateness_counts_each_expiration()
{
	trigger=$tracing/events/twheel/twheel_expire/trigger
	echo 'hist:keys=late.log2' 2>/dev/null >$trigger || { echo 'no histograms'; return 77; }
	observe
	status=$?
	cat ${trigger%/*}/hist >hist
	echo '!hist:keys=late.log2' >$trigger
	hits=$(awk '/hitcount:/ { n += $NF } END { print n + 0 }' hist)
	equal load $status 0 && equal "sum of the hits" "$hits" $FIRED &&
		grep -q '{ late: ~ 2^[0-9]* *} *hitcount:' hist
}

# External tools for tracepoints.

tells_of_a_known_load()
{
	equal arms "$(events arm "$1")" $ARMED &&
		equal cancels "$(events cancel "$1")" $CANCELLED &&
		equal expirations "$(events expire "$1")" $FIRED &&
		[ "$(events cascade "$1")" -gt 0 ]
}

# there PROGRAM: succeed if it is there, or else skip.
there()
{
	command -v "$1" >/dev/null || { echo "no $1"; return 77; }
}

perf_shows_the_tracepoints()
{
	there perf || return
	perf record -q -a -o data -e 'twheel:*' -- twheel run load || return
	perf script -i data >shown 2>/dev/null
	tells_of_a_known_load shown
}

trace_cmd_shows_the_tracepoints()
{
	there trace-cmd || return
	trace-cmd record -q -o data -e 'twheel:*' twheel run load || return
	trace-cmd report -q data >shown 2>/dev/null
	tells_of_a_known_load shown
}

run_checks table_is_readable table_counts_a_known_load table_shows_what_is_pending \
	tracepoints_tell_of_a_known_load tracepoints_name_the_wheel \
	arm_tells_the_first_tick_after_the_deadline cancel_is_of_what_was_armed \
	expire_is_of_what_was_armed_and_not_early cascade_goes_down_a_level \
	histogram_of_lateness_counts_each_expiration perf_shows_the_tracepoints \
	trace_cmd_shows_the_tracepoints
