#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Directories that parts of the tests share, and functions that print KTAP. bash scripts read this
# file with `.`. They get the directories $top, $here of the tests, $build with log/ for their logs,
# and $work, which ends with the script. Their last call is done_testing, or run_checks.
#
# A check is a function, or another command.

shopt -s inherit_errexit

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$top/tools/tests
build=${O:-$top/build}
work=$(mktemp -d "${TMPDIR:-/tmp}/twheel-${0##*/}.XXXXXX")
# shellcheck disable=SC2064 # this directory, although a script may use another
trap "rm -rf '$work'" EXIT
mkdir -p "$build/log"
number=0 failed=0
echo "KTAP version 1"

# Copy standard input to standard output, and fail unless it is empty.
silent()
{
	! grep .
}

# skip REASON: return the status of a check that cannot run here.
skip()
{
	echo "$1"
	return 77
}

# verdict STATUS NAME: print a result.
verdict()
{
	[ "$1" = 0 ] || { printf 'not ' && failed=$((failed + 1)); }
	echo "ok $((++number)) $2"
}

# result NAME COMMAND...: run a command, and show its output. It may be skip.
result()
{
	local output status=0 begin=$SECONDS

	output=$("${@:2}" 2>&1) || status=$?
	[ "$status" != 77 ] || { verdict 0 "$1 # SKIP $output" && return; }
	[ -z "$output" ] || printf '# %s\n' "${output//$'\n'/$'\n'# }"
	echo "# $1: $((SECONDS - begin)) s"
	verdict "$status" "$1"
}

# block NAME COMMAND...: run a command that prints KTAP, and sum it up. The sum fails if a result
# does, because readers of TAP need not look into blocks, or if there is none.
block()
{
	local status=0

	echo "    # Subtest: $1"
	"${@:2}" 2>"$work/errors" | awk '
		{ print "    " $0 }
		/^ok [0-9]/ { ok = 1 }
		/^ *not ok [0-9]/ { bad = 1 }
		END { exit bad || !ok }' || status=$?
	sed 's/^/# /' "$work/errors"
	verdict "$status" "$1"
}

# machine NAME OPTION-OF-VM... -- COMMAND...: the same with a command in a test machine. The log of
# its kernel must be clean, too.
machine()
{
	block "$1" "$top/tools/vm/run" --log "$build/log/$1.kernel" "${@:2}"
}

# in_system SUITE OPTION-OF-MMDEBSTRAP...: make a temporary system of a release of Debian, as root
# in a directory, otherwise in a user namespace, and print /root/results of it.
# shellcheck disable=SC2016 # for mmdebstrap to say where the system is
in_system()
{
	local root

	root=$("$here/packages-root" "$1") || return
	rm -f "$work/results"
	mmdebstrap --variant=custom --skip=update,cleanup --setup-hook="tar-in $root/root.tar /" \
		--customize-hook='rm "$1/etc/apt/sources.list"' "${@:2}" \
		--customize-hook="download /root/results $work/results" '' /dev/null \
		>"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		return 1
	}
	cat "$work/results"
}

# Print the plan. Without it, an early end would go unnoticed.
done_testing()
{
	echo "1..$number"
	[ "$failed" = 0 ]
}

# run_checks NAME...
run_checks()
{
	local name

	for name; do
		result "$name" "$name"
	done
	done_testing
}
