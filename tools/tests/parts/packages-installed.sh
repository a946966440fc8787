#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Install the packages in a minimal system, use them, and remove them, as KTAP. This script runs
# in that system. /root/debs holds the packages, /root/source the sources. The script leaves the
# system with the packages in /root/system.tar, for a boot.

export DEBIAN_FRONTEND=noninteractive
# The modules are built many times, mostly from the same sources.
export PATH=/usr/lib/ccache:$PATH
# Without an image for the boot and most modules of the kernel, the tests are faster by a third:
# DKMS lists all modules after each installation. On Debian 13, it deletes an empty list.
export INITRD=No
printf 'path-%s\n' 'exclude=*/lib/modules/*/kernel/*' 'include=*/lib/modules/*/kernel/lib/*' \
	>/etc/dpkg/dpkg.cfg.d/modules

# shellcheck source=tools/tests/checks.sh
. /root/checks.sh

get()
{
	apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

# The kernel release of the installed headers. Another kernel is running here.
release()
{
	basename /lib/modules/*-amd64
}

upstream_version()
{
	dpkg-query -W -f '${source:Upstream-Version}' twheel-dkms
}

# The files that DKMS leaves for other modules.
kept()
{
	echo "/var/lib/dkms/twheel/kernel-${1:-$(release)}-x86_64/module"
}

# page NAME [PACKAGE]: a page of the documentation.
page()
{
	gunzip -cf "/usr/share/doc/${2-twheel-tools}/$1.md"*
}

# recipe NAME: run the commands of the page on kernel code, for the installed release.
recipe()
{
	page kernel twheel-dkms | sed -n "/^<!-- recipe: $1 -->/,/^\$/s/^    //p" |
		sed "s/\$(uname -r)/$(release)/" >/root/recipe
	[ -s /root/recipe ] && (cd /root && sh -e -x recipe)
}

# If packages of the lists are gone from the archive, the lists are too old. The running kernel is
# not that of the headers, so the package says which are missing.
packages_install()
{
	set -- install ccache udev linux-headers-amd64 /root/debs/*.deb
	{ get "$@" || { get update && get "$@"; }; } | tee /root/log
	grep "^twheel-dkms: .* install linux-headers-$(uname -r)$" /root/log
}

# installed_is VERSION: DKMS has built the modules of this version, and there is no other.
installed_is()
{
	dkms status twheel
	ls -d /usr/src/twheel-* /var/lib/dkms/twheel/[0-9]*
	[ "$(modinfo -F version -k "$(release)" twheel_dev)" = "$1" ] &&
		[ "$(echo /usr/src/twheel-*)" = "/usr/src/twheel-$1" ] &&
		[ "$(echo /var/lib/dkms/twheel/[0-9]*)" = "/var/lib/dkms/twheel/$1" ]
}

dkms_builds_the_modules_without_a_warning()
{
	make_log=$(echo /var/lib/dkms/twheel/*/*/*/log/make.log)
	installed_is "$(upstream_version)" && grep -q twheel_dev.ko "$make_log" &&
		! grep -i -e warning -e error "$make_log"
}

# With the files that DKMS keeps. The Kbuild of the page is the example's own.
# shellcheck disable=SC2016 # in the page
module_is_built_as_the_page_says()
{
	recipe make 2>&1 | tee /root/make.log
	[ "$(modinfo -F depends /root/retry-1.0/retry.ko)" = twheel ] &&
		! grep -i -e warning -e error -e undefined /root/make.log || return
	page kernel twheel-dkms | sed -n '/^```make$/,/^```$/{/^```/!p}' >/root/Kbuild
	sed '1,/^$/d' /root/retry-1.0/Kbuild | diff /root/Kbuild -
}

dkms_builds_a_module_as_the_page_says()
{
	recipe dkms || return
	dkms status retry | grep "$(release).*: installed" &&
		modprobe -n -v -S "$(release)" retry | sed 's/.*\///' | tr '\n' ' ' |
			grep '^twheel\.ko.* retry\.ko'
}

# DKMS calls autoinstall for a new kernel, and the other command for an old one.
dkms_keeps_what_they_need_for_each_kernel()
{
	other=6.99.0-other

	cp -a "/lib/modules/$(release)" /lib/modules/$other && rm -r /lib/modules/$other/updates &&
		dkms autoinstall -k $other && dkms status || return
	[ -s "$(kept $other)/Module.symvers" ] && dkms status retry | grep "$other.*: installed" ||
		return
	/etc/kernel/prerm.d/dkms $other
	rm -r /lib/modules/$other
	[ ! -L "$(dirname "$(kept $other)")" ] && [ -s "$(kept)/twheel.h" ]
}

# Use the commands of doc/operation.md.
dkms_builds_again_and_signs()
{
	version=twheel/$(upstream_version)

	get install openssl && rm "$(kept)/twheel.h" "$(kept)/Module.symvers" &&
		dkms build --force "$version" -k "$(release)" &&
		dkms install --force "$version" -k "$(release)" || return
	[ -s /var/lib/dkms/mok.pub ] && [ -s "$(kept)/twheel.h" ] &&
		[ -s "$(kept)/Module.symvers" ] &&
		modinfo -F signer -k "$(release)" twheel | grep 'DKMS module signing key'
}

# Install a package that is older by its number.
roll_back_builds_the_older_modules()
{
	tree=/root/twheel-dkms-old
	dpkg-deb -R /root/debs/twheel-dkms_*.deb $tree &&
		mv $tree/usr/src/* $tree/usr/src/twheel-0.0.9 &&
		grep -rl "$(upstream_version)" $tree/DEBIAN $tree/usr/src |
		xargs sed -i "s/$(upstream_version)/0.0.9/" && dpkg-deb -b $tree || return
	get install --allow-downgrades $tree.deb && installed_is 0.0.9
}

upgrade_builds_the_newer_modules()
{
	get install /root/debs/twheel-dkms_*.deb && installed_is "$(upstream_version)"
}

programs_are_built_with_the_development_package()
{
	get install clang g++ && (cd /root/source && AUTOPKGTEST_TMP=/root debian/tests/library) &&
		cp /root/readme-example /usr/bin
}

programs_run_without_the_device()
{
	[ ! -e /dev/twheel ] && twheel sleep 1ms && readme-example &&
		python3 -c 'import twheel, twheel._cell; assert twheel.Wheel().info().process'
}

links_of_the_pages_lead_somewhere()
{
	cd /usr/share/doc/twheel-tools && [ -e howto.md ] || return
	! find . -name '*.md' | while read -r page; do
		grep -o '](<*[^>)]*' "$page" | sed 's/^](<*//; s/#.*//; /^http/d; /^$/d' |
			(cd "${page%/*}" && xargs -r ls -d 2>&1 >/dev/null)
	done | grep .
}

# Leave out the compiler, the headers and other modules, because the boot does not need them.
save_the_system()
{
	tr ' ' '\n' >/root/excluded <<-EOF
	./boot ./lib/modules/*/kernel ./root/* ./usr/bin/*-linux-gnu-* ./usr/lib/gcc*
	./usr/lib/llvm* ./usr/lib/modules/*/kernel ./usr/lib/udev/hwdb.d ./usr/lib/*/lib*san.so*
	./usr/lib/*/libLLVM* ./usr/lib/*/libclang* ./usr/lib/*/libicu* ./usr/lib/*/libz3*
	./usr/lib/*/perl* ./usr/libexec/gcc* ./usr/share ./usr/src ./var/cache ./var/lib/apt
	./var/lib/dpkg
	EOF
	tar -c -f /root/system.tar --one-file-system --wildcards -X /root/excluded -C / .
	du -m /root/system.tar
}

# Print the files with twheel in their name, and the configuration that mentions it.
files_that_remain()
{
	local -a old=(-path /proc -o -path /sys -o -path /root -o -path /var/log -o -path "$work")

	find / -xdev \( "${old[@]}" \) -prune -o -name '*twheel*' -print
	grep -rl twheel /etc /lib/modules /var/lib | grep -vx -e '/etc/g\(roup\|shadow\)-\?'
}

# The group is left, as is usual: a file that someone has given it must not fall to the
# next group with its number.
purge_leaves_the_group_alone()
{
	dkms remove retry/1.0 --all && rm -r /usr/src/retry-1.0 || return
	page operation | grep -F "\`apt purge '^twheel-' '^libtwheel' python3-twheel\`" &&
		get purge '^twheel-' '^libtwheel' python3-twheel || return
	! dpkg-query -W | grep twheel && ! files_that_remain | grep . && getent group twheel
}

# The way without packages. An installation replaces the last one. `make uninstall` alone says what
# it leaves.
make_dkms_installs_replaces_and_removes()
{
	cd /root/source && make dkms 2>&1 | tee /root/log &&
		grep "linux-headers-$(uname -r)$" /root/log && echo >>twheel.h && make dkms &&
		make uninstall | grep "'make dkms-uninstall'" || return
	modprobe -n -v -S "$(release)" twheel_dev && cmp twheel.h "$(kept)/twheel.h" &&
		dkms status twheel | grep "$(release).*: installed" && make dkms-uninstall || return
	! files_that_remain | grep .
}

run_checks packages_install dkms_builds_the_modules_without_a_warning \
	module_is_built_as_the_page_says dkms_builds_a_module_as_the_page_says \
	dkms_keeps_what_they_need_for_each_kernel roll_back_builds_the_older_modules \
	upgrade_builds_the_newer_modules dkms_builds_again_and_signs \
	programs_are_built_with_the_development_package programs_run_without_the_device \
	links_of_the_pages_lead_somewhere save_the_system purge_leaves_the_group_alone \
	make_dkms_installs_replaces_and_removes
