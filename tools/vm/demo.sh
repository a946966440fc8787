#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration inside the test VM: load twheel.ko and twheel_dev.ko and run the tool. It
# fails unless the counters of the load add up.

show()
{
	echo
	echo "\$ $*"
	"$@"
}

echo "Linux $(uname -r), with $(nproc) CPUs:"
! grep -q 'QEMU TCG' /proc/cpuinfo ||
	echo "This machine is emulated: its times say little about twheel."
show ls -l /dev/twheel || exit
show twheel info || exit
show twheel run /add/demo.twheel || exit
echo
echo "A keep-alive server: 100,000 connections, a third of them closed in time."
show twheel load --timeouts 100000 --spread 2s --cancel 33 | tee /tmp/load
echo
awk '
	{ nr[$1] = $2 }
	END {
		wrong = nr["lost"] + nr["duplicate"] + nr["alien"] + nr["early"] + nr["leaked"]
		sum = nr["cancelled"] + nr["withdrawn"] + nr["fired"]
		good = nr["armed"] && sum == nr["armed"] && !wrong
		print "Verdict: " (good ? "nothing was lost, and nothing was early." : "FAILED")
		print "armed " nr["armed"] " = cancelled " nr["cancelled"] " + withdrawn " \
			nr["withdrawn"] " + fired " nr["fired"]
		exit !good
	}' /tmp/load || exit
echo
echo "Three workers hold leases of a second. One is killed, and one hangs."
show /add/lease || exit
echo
echo "Next: 'make vm' opens a shell in such a machine. doc/demo.md has the first commands for it."
