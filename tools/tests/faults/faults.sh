#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run the tests with fault injection in the test VM: first the programs that inject faults
# themselves, then the tests of the device in which every call fails before it succeeds.

debug=/sys/kernel/debug
most=1000000

# With probability 0, only places selected by fail-nth fail, but all places are counted.
prepare()
{
	for fault in failslab fail_page_alloc fail_usercopy; do
		echo 0 >$debug/$fault/probability
		echo 0 >$debug/$fault/verbose
		echo $most >$debug/$fault/times
	done
	echo N >$debug/failslab/ignore-gfp-wait
	echo N >$debug/fail_page_alloc/ignore-gfp-wait
	echo 0 >$debug/fail_page_alloc/min-order
}

# block NUMBER NAME DIRECTORY: run the tests in a directory. The result fails if one of theirs does.
block()
{
	sh /add/subtests.sh "$3" | sed 's/^/    /' | tee /tmp/block
	! grep -q '^ *not ok [0-9]' /tmp/block || printf 'not '
	echo "ok $1 $2"
}

failed()
{
	echo $((most - $(cat "$debug/$1/times")))
}

# kmemleak warns when it runs out of memory, while it holds a lock under which the console
# must not be written. So during the tests only errors go to the console. The other messages
# are logged again afterwards, except warnings of the kernel's own tracing.
echo "twheel-vm: faults" >/dev/kmsg
dmesg -n 4
block 1 'calls and modules' /add/faults
dmesg -n 8
dmesg | grep -q 'twheel-vm: faults$' || echo "BUG: the log was too long to be kept" >/dev/kmsg
dmesg | sed '1,/twheel-vm: faults/d; /WARNING: .* at kernel\/trace\//d' |
while IFS= read -r line; do
	echo "$line" >/dev/kmsg
done
[ -n "$(ls /add/tests)" ] || { echo "ok 2 tests of the device # SKIP"; exit; }
prepare
export TWHEEL_FAULTS=1 TWHEEL_SLOW=1
block 2 'tests of the device' /add/tests
printf '# faults: failed: %s slab allocations, %s pages, %s copies\n' \
	"$(failed failslab)" "$(failed fail_page_alloc)" "$(failed fail_usercopy)"
