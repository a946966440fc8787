#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration, which `make demo` runs in the test VM. `twheel load` fails unless its counters
# add up.

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
cat >/tmp/demo.twheel <<'EOF'
print Five timeouts: in 200 ms, 400 ms, 600 ms, 3 s and 4 s.
arm heartbeat 200ms
arm lease 400ms
arm session 600ms
arm retry 3s
arm idle 4s
wait 300ms
print The retry is not needed any more: cancelled while pending.
cancel retry
print The idle connection has seen traffic: moved, to 900 ms from now.
mod idle 900ms
wait 1s
expect heartbeat fired
expect retry cancelled
expect idle fired
expect lease fired
expect session fired
print Four have fired, none early, and the cancelled one has not.
EOF
show twheel run /tmp/demo.twheel || exit
echo
echo "A keep-alive server: 100,000 connections, a third of them closed in time."
show twheel load --timeouts 100000 --spread 2s --cancel 33 || exit
echo
echo "Nothing was lost, and nothing was early."
echo
echo "Three workers hold leases of a second. One is killed, and one hangs."
show /add/lease || exit
echo
echo "Next: 'make vm' opens a shell in such a machine. doc/demo.md has the first commands for it."
