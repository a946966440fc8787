#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration inside the test VM: load twheel.ko and twheel_dev.ko and run the tool.

show()
{
	echo
	echo "\$ $*"
	"$@"
}

echo "Linux $(uname -r), with $(nproc) CPUs:"
show ls -l /dev/twheel || exit
show twheel info || exit
show twheel run /add/demo.twheel || exit
echo
echo "A keep-alive server: 100,000 connections, a third of them closed in time."
show twheel load --timeouts 100000 --spread 2s --cancel 33
