#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Loading the modules. A busybox shell runs this in the test VM, where nobody else uses the device
# meanwhile.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh

# equal NAME VALUE EXPECTED
equal()
{
	[ "$2" = "$3" ] || { echo "$1 is $2, not $3"; return 1; }
}

device_comes_and_goes_with_the_module()
{
	rmmod twheel_dev && [ ! -e /dev/twheel ] && [ ! -e /sys/kernel/debug/twheel_users ]
	gone=$?
	twheel arm 1ms 2>&1 | grep -q "'modprobe twheel_dev' loads" || gone=1
	insmod /modules/twheel_dev.ko && [ -c /dev/twheel ] && [ $gone = 0 ]
}

# modinfo and DKMS read these versions.
modules_have_the_version_of_the_tool()
{
	version=$(twheel --version | sed 's/.* //')
	for name in twheel twheel_dev; do
		equal "$name" "$(tr '\0' '\n' </modules/$name.ko | sed -n 's/^version=//p')" \
			"$version" || return
		equal "$name, loaded" "$(cat /sys/module/$name/version)" "$version" || return
	done
}

modules_taint_the_kernel()
{
	for name in twheel twheel_dev; do
		case $(cat /sys/module/$name/taint) in
		O | OE) ;;
		*) echo "$name: $(cat /sys/module/$name/taint)"; return 1 ;;
		esac
	done
}

run_checks device_comes_and_goes_with_the_module modules_have_the_version_of_the_tool \
	modules_taint_the_kernel
