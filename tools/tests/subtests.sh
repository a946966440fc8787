#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# subtests.sh DIRECTORY: run every test in DIRECTORY as a subtest, here or in the test VM. Tests
# are programs and shell scripts that print KTAP. Programs run under $UNDER and limit the time
# of each of their tests, scripts take ten minutes at most. The line after each has its duration.

results=$(mktemp)
trap 'rm -f "$results" "$results.status"' EXIT

run_test()
{
	case $1 in
	*.sh) timeout 600 sh "$1" ;;
	*) ${UNDER-} "$1" ;;
	esac
	echo $? >"$results.status"
}

# Do not use the time of day, because tests set it.
uptime_s()
{
	cut -d . -f 1 /proc/uptime
}

# The plan says how many results a test prints. Without it, an early end would go unnoticed.
# A script may succeed although one of its results is not ok. Status 4: all is skipped.
verdict()
{
	grep -qx '[04]' "$results.status" && grep -q '^1\.\.[0-9]' "$results" &&
		! grep -q '^ *not ok [0-9]' "$results" && return
	printf 'not '
}

echo "KTAP version 1"
# shellcheck disable=SC2046 # names without blanks
set -- $(find "$1" -type f | sort)
echo "1..$#"
number=0
for test; do
	number=$((number + 1))
	name=${test##*/}
	begin=$(uptime_s)
	echo "    # Subtest: $name"
	run_test "$test" 2>&1 | tee "$results" | sed 's/^/    /'
	echo "# $name: $(($(uptime_s) - begin)) s"
	verdict
	echo "ok $number $name"
done
