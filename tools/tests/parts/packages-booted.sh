#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Use the installed packages on the kernel that they were installed for, as KTAP. A busybox
# shell runs this in the test VM, with no module loaded. /add holds the installed system. Its
# own programs create the device node, in the order of a boot.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
system=/system
mkdir $system
tar -x -f /add/system.tar -C $system
for dir in dev proc sys sys/kernel/debug; do
	mount --bind /$dir $system/$dir
done

# Start programs by way of env, because busybox prefers its own commands of the same name.
there()
{
	chroot $system /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# as GROUP COMMAND...: run a command as an unprivileged user of the group.
as()
{
	there setpriv --reuid nobody --regid nogroup --groups "$@"
}

loaded()
{
	[ -d /sys/module/twheel_dev ]
}

module_is_loaded_at_boot()
{
	there /lib/systemd/systemd-udevd --daemon && ! loaded &&
		there /lib/systemd/systemd-modules-load && loaded
}

# The daemon of Debian 12 refuses a request that is sent between its accept() and its SO_PASSCRED.
udev_gives_the_node_to_the_group()
{
	eventually there env SYSTEMD_IGNORE_CHROOT=1 udevadm settle --timeout=2 &&
		[ "$(there stat -c '%F %a %U:%G' /dev/twheel | tee /proc/self/fd/2)" = \
			'character special file 660 root:twheel' ]
}

who_is_not_in_the_group_cannot_open_it()
{
	as nogroup twheel stat 2>&1 | grep 'Permission denied' && as 'twheel' twheel sleep 1ms
}

udev_gives_the_attributes_to_the_group()
{
	for name in version timeouts; do
		eventually as twheel cat /sys/class/misc/twheel/$name || return
		! as nogroup cat /sys/class/misc/twheel/$name || return
	done
}

c_program_arms_and_reads()
{
	as twheel readme-example |
		grep '^no answer to request 42: noticed [0-9]* us after its deadline$'
}

# The part packages checks these metrics, on the machine that has promtool.
stat_writes_the_format_of_prometheus()
{
	there sh -c 'exec 3<>/dev/twheel
		twheel arm 0 --fd 3 >/dev/null
		twheel read --count 1 --fd 3 >/dev/null
		twheel stat --prometheus --fd 3' | sed 's/^/prometheus: /'
}

# Jobs that fail once and then succeed.
module_that_uses_the_wheel_runs()
{
	there modprobe retry jobs=100 failures=1 delay_ms=10 &&
		eventually grep '^succeeded 100$' /sys/kernel/debug/twheel_retry || return
	! there modprobe -r twheel && there modprobe -r retry twheel_dev &&
		[ ! -d /sys/module/twheel ]
}

run_checks module_is_loaded_at_boot udev_gives_the_node_to_the_group \
	who_is_not_in_the_group_cannot_open_it udev_gives_the_attributes_to_the_group \
	c_program_arms_and_reads stat_writes_the_format_of_prometheus \
	module_that_uses_the_wheel_runs
