#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# For the tests of the crate, by way of `.` of bash. The crates are those of
# Cargo.lock; they are downloaded once. If the compiler has come with packages of the
# distribution that hold crates, these are used instead, and nothing is downloaded.
: "${top:?}" "${work:?}" "${cargo:?}"

locked=()
triple=$(uname -m)-unknown-linux-gnu

# Copy the sources to $work/source, so that nothing is written beside them, and go there.
prepare()
{
	local crates

	crates=$(dirname "$cargo")/../share/cargo/registry
	rm -rf "$work/source"
	cp -r "$top/tools/rust" "$work/source"
	cd "$work/source" || return
	if compgen -G "$crates/libc-0*" >/dev/null; then
		rm Cargo.lock
		mkdir .cargo
		printf '[source.crates-io]\nreplace-with = "system"\n[source.system]\n' \
			>.cargo/config.toml
		printf 'directory = "%s"\n' "$(realpath "$crates")" >>.cargo/config.toml
		locked=()
	else
		locked=(--locked)
		"$cargo" fetch -q --locked --offline 2>/dev/null || "$cargo" fetch -q --locked
	fi
	export CARGO_NET_OFFLINE=true
}

# static NAME COMMAND OPTION...: build a program that needs no libraries, and print its path.
# COMMAND is test or build.
static()
{
	local name=$1 command=$2
	shift 2
	[ "$command" = build ] || set -- --no-run "$@"

	RUSTFLAGS='-C target-feature=+crt-static' "$cargo" "$command" "${locked[@]}" "$@" \
		--target "$triple" --message-format json |
		sed -n "s/.*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p"
}

export CARGO_TARGET_DIR=$work/target TWHEEL_INCLUDE=$top/include/uapi
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
