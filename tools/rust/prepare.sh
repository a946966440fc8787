#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that build the crates, for their tests and publication. bash scripts read this file
# with `.`. The crates of Cargo.lock are downloaded once. If the distribution's packages of crates
# are installed, they are used, and nothing is downloaded.
: "${top:?}" "${work:?}" "${cargo:?}"

locked=()
triple=$(uname -m)-unknown-linux-gnu

# tokio is not among the crates, or the compiler is too old for it.
without_peer()
{
	sed -i '/^\[dev-dependencies\]/,/^$/d' Cargo.toml
	locked=()
}

# Copy the sources to $work/source, so that nothing is written beside them, and go there. Both
# packages get the licences, and twheel-sys the sources of the library.
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
		rm Cargo.lock
		without_peer
		mkdir .cargo
		printf '[source.crates-io]\nreplace-with = "system"\n[source.system]\n' \
			>.cargo/config.toml
		printf 'directory = "%s"\n' "$(realpath "$crates")" >>.cargo/config.toml
	else
		locked=(--locked)
		"$cargo" fetch -q --locked --offline 2>/dev/null || "$cargo" fetch -q --locked
	fi
	export CARGO_NET_OFFLINE=true
}

# executable NAME COMMAND OPTION...: build a program and print its path. COMMAND is test or build.
executable()
{
	local name=$1 command=$2
	shift 2
	[ "$command" = build ] || set -- --no-run "$@"

	"$cargo" "$command" -q "${locked[@]}" "$@" --message-format json |
		sed -n "s/.*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p"
}

# static NAME COMMAND OPTION...: the same for a program that needs no libraries.
static()
{
	RUSTFLAGS='-C target-feature=+crt-static' executable "$@" --target "$triple"
}

export CARGO_TARGET_DIR=$work/target
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
