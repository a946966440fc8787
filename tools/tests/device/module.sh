#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The modules: loading, and threads that do not run while nothing is due. A busybox shell runs this
# in the test VM, where nobody else uses the device meanwhile.

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

# Context switches of all threads of the wheel, one line each: NAME COUNT.
switches()
{
	for status in /proc/[0-9]*/status; do
		awk '/^Name:/ { name = $2 }
			/ctxt_switches:/ { count += $2 }
			END { if (name ~ /^twheel\//) print name, count }' "$status"
	done 2>/dev/null
}

there_is_a_thread_for_each_cpu()
{
	equal threads "$(switches | wc -l)" "$(nproc)"
}

# rest: nothing wakes a thread for ten seconds.
rest()
{
	switches >/tmp/before
	sleep 10
	switches >/tmp/after
	diff /tmp/before /tmp/after
}

threads_sleep_while_nothing_is_due()
{
	exec 3<>/dev/twheel
	twheel arm 1h --fd 3
	sleep 1
	rest
}

# In the context of the test before. The cells are armed for one second, so the last look comes
# little more than two seconds later.
threads_sleep_while_all_cells_are_idle()
{
	for cookie in 1 2 3 4; do
		id=$(twheel arm 1s --cell --cookie $cookie --fd 3)
		twheel disarm "$id" --fd 3
	done
	sleep 4
	rest
	result=$?
	exec 3<&-
	return $result
}

run_checks device_comes_and_goes_with_the_module modules_have_the_version_of_the_tool \
	modules_taint_the_kernel there_is_a_thread_for_each_cpu \
	threads_sleep_while_nothing_is_due threads_sleep_while_all_cells_are_idle
