#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Functions that print KTAP, for scripts in the test VM, where this file is /ktap.sh. They read it
# with `.`. A check is a function, or another command.

ktap_number=0

# check NAME COMMAND...: run a command in this shell, and show its output. It may return 77, after
# the reason why it cannot run here.
check()
{
	ktap_name=$1
	shift
	ktap_number=$((ktap_number + 1))
	ktap_status=0
	"$@" >/tmp/ktap 2>&1 || ktap_status=$?
	if [ $ktap_status = 77 ]; then
		echo "ok $ktap_number $ktap_name # SKIP $(cat /tmp/ktap)"
		return
	fi
	awk '{ print "# " $0 }' /tmp/ktap
	[ $ktap_status = 0 ] || printf 'not '
	echo "ok $ktap_number $ktap_name"
}

# eventually COMMAND...: wait until it succeeds, for twenty seconds.
eventually()
{
	for _ in $(seq 200); do
		"$@" >/dev/null && return
		sleep 0.1
	done
	"$@"
}

# run_checks NAME...
run_checks()
{
	echo "KTAP version 1"
	echo "1..$#"
	for ktap_name; do
		check "$ktap_name" "$ktap_name"
	done
}
