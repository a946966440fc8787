#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh SEED OPERATIONS [OPTION...]: run in the test VM, as KTAP, the self-test, the corpus,
# and random programs with these options. The output of a failure is a comment.

number=0

# result NAME COMMAND...
result()
{
	number=$((number + 1))
	name=$1
	shift
	if "$@" >/tmp/output 2>&1; then
		verdict=ok
	else
		verdict='not ok'
	fi
	[ "$name" = self_test ] || sed -i 's/^/# /' /tmp/output
	sed 's/^/    /' /tmp/output
	echo "$verdict $number $name"
}

seed=$1 operations=$2
shift 2
echo "KTAP version 1"
echo "1..3"
echo "    # Subtest: self_test"
result self_test /add/fuzz --seed 1 --self-test
result corpus /add/fuzz --replay /add/corpus
result random_programs /add/fuzz --seed "$seed" --operations "$operations" "$@" /add/corpus
