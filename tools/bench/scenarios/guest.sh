#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh: in the test VM, run the scenarios whose command lines are read from /add/lines.

[ ! -e /add/twheel_bench.ko ] || insmod /add/twheel_bench.ko || exit
status=0
while read -r line; do
	# shellcheck disable=SC2086 # options
	/add/scenarios $line || { echo "failed $line"; status=1; }
done </add/lines
[ ! -e /add/twheel_bench.ko ] || rmmod twheel_bench
exit "$status"
