#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that build the crates, for their tests and publication. bash scripts read this file
# with `.`. The crates of Cargo.lock are downloaded once. If the distribution's packages of crates
# are installed, they are used, and nothing is downloaded.
: "${top:?}" "${work:?}" "${cargo:?}"

# Copy the sources to $work/source, so that nothing is written beside them, and go there. Both
# packages get the licences, and twheel-sys the sources of the library. The crates of the
# distribution are without tokio, and get no --locked.
prepare()
{
	local crates

	crates=$(dirname "$cargo")/../share/cargo/registry
	rm -rf "$work/source"
	cp -r "$top/tools/rust" "$work/source"
	mkdir "$work/source/sys/c"
	cd "$top" || return
	cp COPYING.{LGPL,MIT} "$work/source"
	cp COPYING.{LGPL,MIT} "$work/source/sys"
	cp -rL --parents include/twheel_contract.h include/uapi tools/lib/{libtwheel,process}.[ch] \
		tools/lib/{wheel.h,twheel} "$work/source/sys/c"
	cd "$work/source" || return
	if compgen -G "$crates/libc-0*" >/dev/null; then
		locked=()
		rm Cargo.lock
		sed -i '/^\[dev-dependencies\]/,/^$/d' Cargo.toml
		mkdir .cargo
		printf '[source.crates-io]\nreplace-with = "system"\n[source.system]\n' \
			>.cargo/config.toml
		printf 'directory = "%s"\n' "$(realpath "$crates")" >>.cargo/config.toml
	else
		locked=(--locked)
		"$cargo" fetch -q "${locked[@]}" --offline 2>/dev/null ||
			"$cargo" fetch -q "${locked[@]}"
	fi
	export CARGO_NET_OFFLINE=true
}

export CARGO_TARGET_DIR=$work/target
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
