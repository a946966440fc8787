#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the scripts have in common that look for mistakes in the sources: which there are,
# and what of it is known. For bash, by way of `.`, at the top of the tree.
: "${top:?}" "${here:?}"

linux()
{
	"$top/tools/vm/kernel/get" source
}

# Our files whose name matches one of the patterns.
sources()
{
	local pattern

	for pattern; do
		find . \( -path ./build -o -path ./.git \) -prune -o -type f -name "$pattern" -print
	done | sort
}

# Scripts are known by their first line.
scripts()
{
	sources '*' | xargs grep -lIE '^#!/bin/(ba)?sh' | sort
}

# What runs in the kernel, and the programs. Proofs and the emulator's plugin are neither.
kernel_sources()
{
	sources '*.[ch]' | grep -E '^./(kunit/|tools/examples/retry/|[^/]*$)' | grep -v '\.mod\.c$'
}

program_sources()
{
	local kernel='bench/(kernel|native|plugin)|examples/retry|tests/misuse'

	sources '*.c' | grep -E '^./tools/(lib|twheel|tests|fuzz|bench|examples)/' |
		grep -Ev "^./tools/($kernel)/"
}

excepted()
{
	local type path reason

	while read -r type path reason; do
		# shellcheck disable=SC2053 # a pattern
		[[ $1 = "$type" && $2 = $path && -n $reason ]] && return
	done < <(grep -v '^#' "$here/exceptions")
	return 1
}

# Of findings, FILE:LINE: KIND:TYPE: TEXT each, those that are no exceptions.
findings()
{
	local line file type

	while IFS= read -r line; do
		file=${line%%:*}
		type=$(cut -d: -f4 <<<"$line")
		excepted "$type" "${file#./}" || echo "$line"
	done
}
