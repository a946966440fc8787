#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for scripts that run static analysers: the lists of sources, and the filter for
# known findings. bash scripts read this file with `.`, at the top of the tree.
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

# The first line of a file tells whether it is a script.
scripts()
{
	sources '*' | xargs grep -lIE '^#!/bin/(ba)?sh' | sort
}

# Print the sources of modules, or of programs. Proofs and the plugin of QEMU are neither.
kernel_sources()
{
	sources '*.[ch]' | grep -E '^./(kunit/|tools/examples/retry/|[^/]*$)' | grep -v '\.mod\.c$'
}

program_sources()
{
	local kernel='bench/(kernel|native|plugin)|examples/retry|tests/(misuse|suspend)'

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

# Copy the findings, FILE:LINE: KIND:TYPE: TEXT each, that are not listed as exceptions.
findings()
{
	local line file type

	while IFS= read -r line; do
		file=${line%%:*}
		type=$(cut -d: -f4 <<<"$line")
		excepted "$type" "${file#./}" || echo "$line"
	done
}
