#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples of the documentation run and exit with success. A busybox shell runs this in the
# test VM.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh

run_example()
{
	case $1 in
	*/uring)
		if twheel info --json | grep -q '"uring":false'; then
			echo 'io_uring has no commands'
			return 77
		fi
		"$1"
		;;
	*.sh) sh "$1" ;;
	*.twheel) twheel run "$1" ;;
	*) "$1" ;;
	esac </dev/null
}

# shellcheck disable=SC2046 # names without blanks
set -- $(find /add/examples -type f | sort)
echo "KTAP version 1"
echo "1..$#"
for example; do
	name=${example##*/}
	check "example_${name%.*}_runs" run_example "$example"
done
