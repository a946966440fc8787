#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The packages are installed, and removed, in a minimal system that knows nothing of
# them, as KTAP. This runs in that system; /root/debs holds the packages. What boots of
# the system, as it was with them, is left in /root/system.tar.

export DEBIAN_FRONTEND=noninteractive

number=0
check()
{
	number=$((number + 1))
	"$@" >/root/output 2>&1 || printf 'not '
	echo "ok $number $1"
	sed 's/^/# /' /root/output
}

get()
{
	apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

# The release whose headers are there: it is not that of the kernel that runs here.
release()
{
	basename /lib/modules/*
}

# If what the lists name is gone from the archive, they are too old.
packages_install()
{
	set -- install udev linux-headers-amd64 /root/debs/*.deb
	get "$@" || { get update && get "$@"; }
}

dkms_builds_the_modules_for_the_kernel_there()
{
	dkms status
	dkms status | grep -q "^twheel/.*, $(release), x86_64: installed$"
}

dkms_builds_them_without_a_warning()
{
	make_log=$(echo /var/lib/dkms/twheel/*/*/*/log/make.log)
	grep -q twheel_dev.ko "$make_log" && ! grep -i -e warning -e error "$make_log"
}

depmod_names_the_node()
{
	cat "/lib/modules/$(release)/modules.devname"
	grep -q '^twheel_dev twheel c10:247$' "/lib/modules/$(release)/modules.devname"
}

group_is_made()
{
	getent group twheel
}

# Its version is that of the packages.
tool_runs()
{
	twheel --version
	[ "$(twheel --version)" = "twheel $(dpkg-query -W -f '${Version}' twheel-tools)" ]
}

python_finds_the_library()
{
	python3 -c 'import twheel; print(twheel.Wheel)'
}

man_pages_are_there()
{
	for page in man1/twheel.1 man3/libtwheel.3 man3/twheel_arm.3 man3/twheel_mod.3 \
		man4/twheel.4; do
		gunzip -c "/usr/share/man/$page.gz" >/dev/null || return
	done
}

# Without what takes space there and is of no use: compiler, headers, other modules.
save_the_system()
{
	cat >/root/excluded <<-EOF
	./boot
	./lib/modules/*/kernel
	./root/*
	./usr/bin/*-linux-gnu-*
	./usr/lib/gcc*
	./usr/lib/modules/*/kernel
	./usr/lib/udev/hwdb.d
	./usr/lib/*/lib*san.so*
	./usr/lib/*/perl*
	./usr/libexec/gcc*
	./usr/share
	./usr/src
	./var/cache
	./var/lib/apt
	./var/lib/dpkg
	EOF
	tar -c -f /root/system.tar --one-file-system --wildcards -X /root/excluded -C / .
	du -m /root/system.tar
}

# Everything of ours has a name with ours in it, or is in such a directory.
files_that_remain()
{
	find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /var/log \) -prune -o \
		-name '*twheel*' -print
	grep -rl twheel /etc /lib/modules /var/lib | grep -vx -e '/etc/g\(roup\|shadow\)-\?'
}

# The group is left, as is usual: a file that someone has given it must not fall to
# whichever group comes next.
purge_leaves_the_group_alone()
{
	get purge '^twheel-' '^libtwheel' python3-twheel || return
	! dpkg-query -W | grep twheel && ! files_that_remain | grep . && getent group twheel
}

echo "KTAP version 1"
echo "1..10"
check packages_install
check dkms_builds_the_modules_for_the_kernel_there
check dkms_builds_them_without_a_warning
check depmod_names_the_node
check group_is_made
check tool_runs
check python_finds_the_library
check man_pages_are_there
check save_the_system
check purge_leaves_the_group_alone
