#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# readme-followed SUITE|container: run the commands of the README in a minimal system, as KTAP. They
# clone /srv/twheel.git. A command that is not in the README fails. `make check` runs
# $README_PARTS.

export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8

number=0
check()
{
	number=$((number + 1))
	start=$(date +%s)
	verdict=ok
	"$@" >/root/output 2>&1 </dev/null || verdict='not ok'
	tail -n 40 /root/output | awk '{ print "# " $0 }'
	echo "# it took $(($(date +%s) - start)) s"
	echo "$verdict $number $*"
}

# typed COMMAND [DIRECTORY]: run a command that the README has in an indented line, up to the
# comment, or between backquotes.
typed()
{
	{
		sed -n 's/^    //; T; s/  *# .*//; p' README.md
		grep -o "\`[^\`]*\`" README.md | tr -d "\`"
	} | grep -qxF "$1" || {
		echo "README.md does not have: $1"
		return 1
	}
	(cd "${2-.}" && eval "$1")
}

# If packages of the lists are gone from the archive, the lists are too old.
git_and_make_are_there()
{
	set -- apt-get -q --no-install-recommends install git make
	"$@" || { apt-get -q update && "$@"; }
	git clone -q /srv/twheel.git /root/twheel
}

# The commands for the shell of `make vm`.
shell_in_the_machine_takes_what_is_typed()
{
	sed -n '/^## The shell/,/^## /s/^    //p' doc/demo.md >/root/commands
	grep -q '^twheel read' /root/commands &&
		tools/vm/run --add /root/commands -- sh /add/commands | grep 'cookie=7'
}

# The command for a container, with the demonstration and with `make check`. /src is the checkout of
# another user. There is neither /dev/kvm nor systemd.
in_a_container()
{
	cd /src || exit
	echo "1..2"
	demo=$(sed -n 's/^    podman run .* debian:13 \(tools\/container .*\)$/\1/p' doc/systems.md)
	# shellcheck disable=SC2086 # several words
	check ${demo:-false}
	check tools/container make check PARTS="$README_PARTS"
	exit
}

# DKMS would go on building modules for new kernels.
uninstall_says_what_stays()
{
	make uninstall "prefix=/usr/local" | grep dkms-uninstall && ls -d /usr/src/twheel-*
}

# Everything but the checkout, the cache and the group.
nothing_is_left()
{
	! find / -xdev \( -path /root -o -path /srv -o -path /proc -o -path /sys -o -path /tmp \) \
		-prune -o -name '*twheel*' -print | grep . &&
		! grep -rl twheel /etc /lib/modules /var/lib
}

# Kernels that boot, and the packages that bring them.
kernels()
{
	ls /boot
	dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'linux-*' |
		grep '^ii linux-\(headers\|image\)'
}

# Headers to build against are unpacked elsewhere. On Debian 13, installing them brings a kernel.
no_kernel_is_installed()
{
	kernels | diff /root/kernels - && ls -d /root/.cache/twheel/headers-*
}

echo "KTAP version 1"
[ "$1" != container ] || in_a_container
# The dkms of Debian 13 leaves a process for seconds, which would keep a terminal of apt busy.
printf '%s\n' 'APT::Get::Assume-Yes "true";' 'Dpkg::Use-Pty "0";' >/etc/apt/apt.conf.d/readme
echo "1..17"
check git_and_make_are_there
cd /root/twheel || exit
kernels >/root/kernels
# shellcheck disable=SC2016 # in the page
check typed 'make install prefix=$HOME/.local'
# shellcheck disable=SC2088 # in the page
check typed "~/.local/bin/twheel load"
check typed 'make demo'
check shell_in_the_machine_takes_what_is_typed
check typed 'make install prefix=/usr/local && ldconfig'
awk '/^```/ && inside { exit } inside; $0 == "```c" { inside = 1 }' README.md >/root/request.c
check typed 'cc request.c -ltwheel && ./a.out' /root
check make check PARTS="$README_PARTS"
check no_kernel_is_installed
check typed 'make dkms'
check uninstall_says_what_stays
check typed 'make dkms-uninstall && make uninstall prefix=/usr/local && ldconfig'
check nothing_is_left
check typed 'make deb'
# A kernel of Debian.
mkdir /root/bin
printf '#!/bin/sh\necho 6.12.1-1-amd64\n' >/root/bin/uname
chmod +x /root/bin/uname
PATH=/root/bin:$PATH
check typed "apt install linux-headers-\$(uname -r | sed 's/.*[0-9]-//') ./build/deb/*.deb"
check typed "apt purge '^twheel-' '^libtwheel' python3-twheel"
