#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs KUnit suites inside a test machine: loading one runs it, with what the file
# of parameters has for it. The results come in the kernel log: there they are
# whole, and they survive a crash.

status=0
[ ! -e /add/kunit.ko ] || insmod /add/kunit.ko enable=1
for module in /add/kunit/*.ko; do
	name=${module##*/}
	parameters=$(sed -n "s/^${name%.ko} //p" /add/parameters)
	echo "twheel-vm: suite $name" >/dev/kmsg
	# shellcheck disable=SC2086 # several words
	insmod "$module" $parameters || status=1
	echo "twheel-vm: unload $name" >/dev/kmsg
	rmmod "${name%.ko}" || status=1
done
exit $status
