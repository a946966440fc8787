#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Directories that parts of the tests share, and functions that print KTAP. bash scripts read this
# file with `.`. They get the directories $top, $here of the tests, $build with log/ for their logs,
# and $work, which ends with the script.
#
# A check is a function, or another command.
#
# A result that sums up a block of results fails if one of them does. Readers of TAP need not look
# into blocks.

shopt -s inherit_errexit

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034 # for the scripts
here=$top/tools/tests
build=${O:-$top/build}
work=$(mktemp -d "${TMPDIR:-/tmp}/twheel-${0##*/}.XXXXXX")
# shellcheck disable=SC2064 # this directory, although a script may use another
trap "rm -rf '$work'" EXIT
mkdir -p "$build/log"

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

# result NUMBER NAME COMMAND...: run a command, and show its output. It may be skip.
result()
{
	local output status=0 begin=$SECONDS

	output=$("${@:3}" 2>&1) || status=$?
	[ "$status" != 77 ] || { echo "ok $1 $2 # SKIP $output" && return; }
	[ -z "$output" ] || printf '# %s\n' "${output//$'\n'/$'\n'# }"
	echo "# $2: $((SECONDS - begin)) s"
	[ "$status" = 0 ] || printf 'not '
	echo "ok $1 $2"
}

# run_checks NAME...
run_checks()
{
	local number=0 name

	echo "KTAP version 1"
	echo "1..$#"
	for name; do
		result $((++number)) "$name" "$name"
	done
}

# Copy KTAP as a block. Fails if there is no result, or one that is not ok.
nested()
{
	awk '
		{ print "    " $0 }
		/^ok [0-9]/ { ok = 1 }
		/^ *not ok [0-9]/ { bad = 1 }
		END { exit bad || !ok }'
}

# block NUMBER NAME COMMAND...: run a command that prints KTAP.
block()
{
	local number=$1 name=$2 status=0
	shift 2

	echo "    # Subtest: $name"
	"$@" 2>"${work:?}/errors" | nested || status=$?
	sed 's/^/# /' "$work/errors"
	[ "$status" = 0 ] || printf 'not '
	echo "ok $number $name"
}

# machine NUMBER NAME ERRORS COMMAND...: run a command that prints KTAP in a test machine. The
# result after the block is that of the machine, whose complaints are kept in the file ERRORS.
machine()
{
	local number=$1 name=$2 errors=$3 statuses=(0 0)
	shift 3

	"$@" 2>"$errors" | nested || statuses=("${PIPESTATUS[@]}")
	[ "${statuses[1]}" = 0 ] || printf 'not '
	echo "ok $number $name"
	sed 's/^/# /' "$errors"
	[ "${statuses[0]}" = 0 ] || printf 'not '
	echo "ok $((number + 1)) kernel log and unloading"
}
