#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the scripts of checks have in common: a check is a function; what it prints
# is shown if it fails. For bash, by way of `.`.

# Shows what it reads, and fails if that is anything.
silent()
{
	! grep .
}

# skip REASON: the status of a check that cannot be made here.
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
