#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples of the documentation run and exit with success. Servers have a test mode. A busybox
# shell runs this in the test VM.

examples()
{
	find /add/examples -type f | sort
}

run_example()
{
	case $1 in
	*.sh) sh "$1" ;;
	*.twheel) twheel run "$1" ;;
	*_server) "$1" --self-test ;;
	*) "$1" ;;
	esac
}

echo "KTAP version 1"
echo "1..$(examples | wc -l)"
number=0
for example in $(examples); do
	number=$((number + 1))
	verdict=ok
	name=${example##*/}
	if [ "$name" = uring ] && twheel info --json | grep -q '"uring":false'; then
		echo "ok $number example_uring_runs # SKIP io_uring has no commands"
		continue
	fi
	run_example "$example" >/tmp/output 2>&1 </dev/null || verdict="not ok"
	sed 's/^/# /' /tmp/output
	echo "$verdict $number example_${name%.*}_runs"
done
