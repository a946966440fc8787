#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs KUnit suites inside a test machine: loading one runs it. The results come
# in the kernel log: there they are whole, and they survive a crash.

status=0
for module in /add/kunit/*.ko; do
	echo "twheel-vm: suite ${module##*/}" >/dev/kmsg
	insmod "$module" || status=1
	echo "twheel-vm: unload ${module##*/}" >/dev/kmsg
	rmmod "$module" || status=1
done
exit $status
