#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# memory.sh DIRECTORY: inside a test machine, run the tests in DIRECTORY with the tool that was
# added, under valgrind if that was added too.

memcheck()
{
	mkdir -p /usr/lib/debug
	ln -s /add/debug /usr/lib/debug/.build-id
	export VALGRIND_LIB=/add/valgrind
	export UNDER="/add/valgrind.bin -q --fair-sched=yes --leak-check=full --error-exitcode=99"
}

[ ! -e /add/valgrind.bin ] || memcheck

export PATH="/add:$PATH"
exec sh /add/subtests.sh "$1"
