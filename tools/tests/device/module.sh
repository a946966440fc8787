#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The device number, and the version of the modules. The number is reserved for the device, so
# that opening the node loads the module. A busybox shell runs this in the test VM, where nobody
# else uses the module meanwhile.

module=/modules/twheel_dev.ko
helper=/proc/sys/kernel/modprobe
work=$(mktemp -d)
usual=$(cat $helper)
trap 'echo "$usual" >$helper; rm -r "$work"; load' EXIT

load()
{
	[ -d /sys/module/twheel_dev ] || insmod $module "$@"
}

reload()
{
	rmmod twheel_dev && load "$@"
}

# The number of NAME in the list of devices.
number_of()
{
	awk -v name="$1" '$2 == name { print $1 }' /proc/misc
}

# equal NAME VALUE EXPECTED
equal()
{
	[ "$2" = "$3" ] || { echo "# $1 is $2, not $3"; return 1; }
}

# Replaces modprobe: the kernel calls it with the requested alias.
answer_with()
{
	cat >"$work/modprobe" <<-EOF
	#!/bin/sh
	echo "\$*" >$work/asked
	$*
	EOF
	chmod +x "$work/modprobe"
	echo "$work/modprobe" >$helper
}

# A test that cannot run sets $skip to the reason.
number=0
check()
{
	number=$((number + 1))
	skip=
	"$@" || printf 'not '
	echo "ok $number $1${skip:+ # SKIP $skip}"
}

# The first entry comes after the previous contents of the file.
device_has_the_number_of_its_alias()
{
	equal number "$(number_of twheel)" 247 &&
		equal alias "$(tr -c ' -~' '\n' <$module | sed -n 's/.*alias=//p' | sort | xargs)" \
			"char-major-10-247 devname:twheel"
}

opening_the_node_loads_the_module()
{
	answer_with insmod $module
	rmmod twheel_dev || return
	mknod "$work/node" c 10 247
	twheel arm 1ms --fd 3 3<>"$work/node" >/dev/null || return
	equal request "$(cat "$work/asked")" "-q -- char-major-10-247"
}

opening_fails_without_the_module()
{
	answer_with false
	rmmod twheel_dev || return
	! (: <"$work/node") 2>/dev/null && load
}

number_can_be_chosen()
{
	reload minor=250 && equal number "$(number_of twheel)" 250
}

any_number_can_be_asked_for()
{
	reload minor=255 || return
	case $(number_of twheel) in
	'' | 24[3-9] | 25[0-4]) echo "# it is $(number_of twheel)"; return 1 ;;
	esac
}

taken_number_is_refused()
{
	taken=$(awk '$1 < 255 && $2 != "twheel" { print $1; exit }' /proc/misc)
	[ -n "$taken" ] || { skip='no other device has a number below 255'; return; }
	rmmod twheel_dev
	! load "minor=$taken" 2>/dev/null &&
		dmesg | tail -n 5 | grep -q "the minor number $taken is taken" &&
		load && equal number "$(number_of twheel)" 247
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
		*) echo "# $name: $(cat /sys/module/$name/taint)"; return 1 ;;
		esac
	done
}

echo "KTAP version 1"
echo "1..8"
check device_has_the_number_of_its_alias
check opening_the_node_loads_the_module
check opening_fails_without_the_module
check number_can_be_chosen
check any_number_can_be_asked_for
check taken_number_is_refused
check modules_have_the_version_of_the_tool
check modules_taint_the_kernel
