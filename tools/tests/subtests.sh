#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# subtests.sh DIRECTORY: runs every test in it, programs and shell scripts that
# speak KTAP, each as a subtest. Here, or in the test VM. Programs run under $UNDER; they
# limit the time of each test themselves, a script has $SCRIPT_S in all.

results=$(mktemp)
trap 'rm -f "$results" "$results.status"' EXIT

tests()
{
	find "$1" -type f | sort
}

run_test()
{
	case $1 in
	*.sh) timeout "${SCRIPT_S:-600}" sh "$1" ;;
	*) ${UNDER-} "$1" ;;
	esac
	echo $? >"$results.status"
}

# Not the time of day: there are tests that set it.
uptime_s()
{
	cut -d . -f 1 /proc/uptime
}

# A test must have said how many results there are: the plan is what shows that
# it has not ended early.
verdict()
{
	[ "$(cat "$results.status")" = 0 ] && grep -q '^1\.\.[0-9]' "$results" && return
	printf 'not '
}

echo "KTAP version 1"
echo "1..$(tests "$1" | wc -l)"
number=0
for test in $(tests "$1"); do
	number=$((number + 1))
	name=${test##*/}
	begin=$(uptime_s)
	echo "    # Subtest: $name"
	run_test "$test" 2>&1 | tee "$results" | sed 's/^/    /'
	echo "# $name: $(($(uptime_s) - begin)) s"
	verdict
	echo "ok $number $name"
done
