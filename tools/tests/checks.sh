#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for scripts of tests, which print KTAP. bash scripts read this file with `.`.
#
# A check is a function; its output is shown if it fails. result and block need a directory $work.

# Copy standard input to standard output, and fail unless it is empty.
silent()
{
	! grep .
}

# skip REASON: return the status of a check that cannot run here.
skip()
{
	echo "$1"
	return 77
}

# run_check NUMBER NAME
run_check()
{
	local output status=0

	output=$("$2" 2>&1) || status=$?
	case $status in
	0) echo "ok $1 $2" && return ;;
	77) echo "ok $1 $2 # SKIP $output" && return ;;
	esac
	printf '# %s\n' "${output//$'\n'/$'\n'# }"
	echo "not ok $1 $2"
}

# run_checks NAME...
run_checks()
{
	local number=0 name

	echo "KTAP version 1"
	echo "1..$#"
	for name; do
		run_check $((++number)) "$name"
	done
}

# result NUMBER NAME COMMAND...: run a command, and show its output. It may be skip.
result()
{
	local number=$1 name=$2 status=0
	shift 2

	"$@" >"${work:?}/output" 2>&1 || status=$?
	[ "$status" != 77 ] || { echo "ok $number $name # SKIP $(<"$work/output")" && return; }
	# awk ends a last line that has no newline
	awk '{ print "# " $0 }' "$work/output"
	[ "$status" = 0 ] || printf 'not '
	echo "ok $number $name"
}

# block NUMBER NAME COMMAND...: run a command that prints KTAP.
block()
{
	local number=$1 name=$2 status=0
	shift 2

	echo "    # Subtest: $name"
	"$@" 2>"${work:?}/errors" | sed 's/^/    /' || status=$?
	sed 's/^/# /' "$work/errors"
	[ "$status" = 0 ] || printf 'not '
	echo "ok $number $name"
}
