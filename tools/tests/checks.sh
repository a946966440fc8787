#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for scripts of checks. A check is a function; its output is shown if it fails. bash
# scripts read this file with `.`.

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
