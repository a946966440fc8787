#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run KUnit suites inside a test machine. Loading a module runs its suite, with the parameters
# in /add/parameters. The results are taken from the kernel log, which is complete and survives
# a crash.

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
